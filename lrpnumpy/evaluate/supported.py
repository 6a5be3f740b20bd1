"""Evidence: how many explanations of each method pass the experiments behind them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lrpnumpy.encode import encode_all
from lrpnumpy.evaluate.case import Case, Relevances, Values
from lrpnumpy.evidence import Test, tests_of
from lrpnumpy.explain import explain_all
from lrpnumpy.result import Explanation


def measure_evidence(case: Case) -> Values:
    """Whether every explanation passes, and (n,) whether its inputs act so independently that this can be said."""
    records = encode_all(case.model, case.sequences)
    passed = np.full((len(case.explainers), len(records)), np.nan)
    conclusive = np.zeros(len(records), bool)
    request: Any = dict(case.request)
    template = explain_all(case.model, case.sequences, "gradient-x-input", unit="feature", threads=1, **request)
    measured: dict[bool, list[Test]] = {}  # by whether there is a relevance for each feature; methods share them
    for m, found in enumerate(case.found):
        every = [*found.results] if found.results is not None else _explanations(found, template)
        by_feature = all(part.feature_relevance is not None for part in every[0].inputs.values())
        if by_feature not in measured:
            measured[by_feature] = tests_of(case.model, records, every)
        with np.errstate(all="ignore"):
            tests = [test._replace(e=e).result() for test, e in zip(measured[by_feature], every, strict=True)]
        if any(one.verdict == "not applicable" for one in tests):
            continue
        passed[m] = [one.passed for one in tests]
        conclusive |= [one.verdict in ("passes", "fails") for one in tests]
    return {"evidence": (np.where(conclusive, passed, 0 * passed), conclusive.astype(float))}


def _explanations(found: Relevances, template: Any) -> list[Explanation]:
    """The relevances of a user's function as explanations."""
    every = []
    for k, e in enumerate(template):
        values = None if found.values is None else found.values[k]
        every.append(replace(e.with_first(relevance=found.steps[k], feature_relevance=values), method="function"))
    return every
