"""Agreement and cost: how alike methods rank the inputs, and what each costs in forward passes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lrpnumpy.evaluate.case import Case, Values


def ranks(values: np.ndarray) -> np.ndarray:
    """(T,) rank of each value; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def spearman(ones: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> np.ndarray:
    """(n,) rank correlation of two relevances of each sequence; 0 where one of them is constant."""
    return np.array([pearson(ranks(a), ranks(b)) for a, b in zip(ones, others, strict=True)])


def pearson(a: np.ndarray, b: np.ndarray) -> float:
    """Correlation of two arrays (T,); 0 where one of them is constant."""
    a, b = a - a.mean(), b - b.mean()
    size = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / size) if size > 0 else 0.0


def measure_agreement(case: Case) -> Values:
    """Rank correlation of every method with every other, and its mean."""
    ranked = [[ranks(one) for one in some] for some in case.relevances]
    M, n = len(ranked), len(case.x)
    pairs = np.ones((M, M, n))
    for k in range(M):
        for j in range(k):
            pairs[k, j] = pairs[j, k] = [pearson(a, b) for a, b in zip(ranked[k], ranked[j], strict=True)]
    one = np.ones(n)
    mean = (pairs.sum(axis=1) - 1) / max(1, M - 1)
    return {"agreement": (mean, one)} | {f"with {e.name}": (pairs[:, j], one) for j, e in enumerate(case.explainers)}


def measure_cost(case: Case) -> Values:
    """Processor time over that of one forward pass, of this part of the data."""
    return {"cost": (np.array(case.seconds)[:, None], np.array([case.forward]))}
