"""Correlation of two relevances, by value and by rank."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


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
