"""Ledgers of random networks, small and large weights, float32 and float64: they add up, or the user is warned."""

import pytest
from cases import EVERY_CASE

from benchmarks import ledgers


@pytest.fixture(scope="module")
def calls():
    return list(ledgers.survey(2000 if EVERY_CASE else 400))


@pytest.mark.compiled
def test_no_ledger_misses_its_score_without_a_warning(calls):
    bad = [call for call in calls if not call.warned and not call.gap <= ledgers.LIMIT]
    assert not bad, bad[:3]


@pytest.mark.compiled
def test_the_largest_relevance_is_not_exceeded_by_a_variable(calls):
    bad = [call for call in calls if call.escaped > 0]
    assert not bad, bad[:3]


@pytest.mark.compiled
def test_the_survey_is_of_what_it_says(calls):
    """Every rule, eps and type; some calls warn and some are computed again, most are neither."""
    for name in ("dtype", "method", "eps"):
        assert len({getattr(call, name) for call in calls}) == {"dtype": 2}.get(name, 4)
    assert 0 < sum(call.warned for call in calls) < len(calls) / 2
    assert 0 < sum(call.again for call in calls) < len(calls) / 2
    assert not any(call.again for call in calls if call.dtype == "float64")
