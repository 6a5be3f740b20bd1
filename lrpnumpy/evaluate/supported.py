"""Evidence: how many explanations of each method pass the experiments behind them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lrpnumpy.encode import encode_all
from lrpnumpy.evaluate.case import Case, Relevances, Values
from lrpnumpy.evidence import evidence_of
from lrpnumpy.explain import explain_all
from lrpnumpy.result import Explanation


def measure_evidence(case: Case) -> Values:
    """Whether every explanation passes, and (n,) whether its inputs act so independently that this can be said."""
    records = encode_all(case.model, case.sequences)
    request: Any = dict(case.request)
    template = explain_all(case.model, case.sequences, "gradient-x-input", unit="feature", threads=1, **request)
    every: list[Explanation] = []
    for found in case.found:
        every += found.results if found.results is not None else _explanations(found, template)
    M, n = len(case.found), len(records)
    verdicts = np.array([one.verdict for one in evidence_of(case.model, records * M, every, ())]).reshape(M, n)
    passed = np.where((verdicts == "not applicable").any(axis=1, keepdims=True), np.nan, verdicts == "passes")
    conclusive = np.isin(verdicts, ("passes", "fails")).any(axis=0)
    return {"evidence": (np.where(conclusive, passed, 0 * passed), conclusive.astype(float))}


def _explanations(found: Relevances, template: Any) -> list[Explanation]:
    """The relevances of a user's function as explanations."""
    every = []
    for k, e in enumerate(template):
        values = None if found.values is None else found.values[k]
        every.append(replace(e.with_first(relevance=found.steps[k], feature_relevance=values), method="function"))
    return every
