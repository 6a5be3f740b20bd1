"""Stability: how much relevance moves when the input moves a little, relative to how much the prediction moves."""

from __future__ import annotations

import numpy as np

from lrpnumpy.evaluate.case import Case, Values

DRAWS = 4
SIZE = 0.05  # of the standard deviation of each feature


def measure(case: Case) -> Values:
    """The largest share of the relevance that moves elsewhere, over the change of the prediction.

    Relevance counts as shares of its own sum of magnitudes, so that a network whose output grows does not count as a
    change of the explanation. The change of the prediction is that of the value that removal changes.
    """
    rng, every = case.rng(3), np.arange(len(case.x))
    spread = np.concatenate(case.x).std(axis=0)
    changed = []
    for _ in range(DRAWS):
        x = [one + (SIZE * spread * rng.normal(size=one.shape)).astype(one.dtype) for one in case.x]
        changed.append(case.with_vectors(x, every))
    before = case.values(case.sequences, every)
    moved = np.max([abs(case.values(some, every) - before) for some in changed], axis=0)
    apart = []
    for one, relevance in zip(case.explainers, case.relevances, strict=True):
        again = [case.explain(one, some) for some in changed]
        apart.append(np.max([[_apart(a, b) for a, b in zip(relevance, r, strict=True)] for r in again], axis=0))
    return {"stability": (np.array(apart), moved)}


def _apart(one: np.ndarray, other: np.ndarray) -> float:
    """From 0, the same shares, to 1, nothing in common."""
    return float(abs(_shares(one) - _shares(other)).sum()) / 2


def _shares(relevance: np.ndarray) -> np.ndarray:
    size = abs(relevance).sum()
    return relevance / size if size > 0 else relevance
