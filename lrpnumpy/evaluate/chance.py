"""What is more than chance: values with bootstrap intervals, and which differences are not accidents."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

DRAWS = 1000
LIMITS = (2.5, 97.5)  # in %: an interval of 95 %


def draws(n: int, count: int = DRAWS, seed: int = 0) -> Iterator[np.ndarray]:
    """Weights (some, n) of n samples drawn again with replacement, `count` times in all, a part at a time."""
    rng = np.random.default_rng(seed)
    at_once = max(1, min(count, 2_000_000 // max(1, n)))
    for first in range(0, count, at_once):
        yield rng.multinomial(n, np.full(n, 1 / n), size=min(at_once, count - first)) / n


def drawn_again(above: np.ndarray, below: np.ndarray, seed: int = 0) -> np.ndarray:
    """(draws, M) values mean(above) / mean(below) of samples drawn again; above (M, n), below (n,)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.concatenate([(w @ above.T) / (w @ below)[:, None] for w in draws(above.shape[1], seed=seed)])


def interval(drawn: np.ndarray) -> np.ndarray:
    """(2, M) lower and upper end of the 95 % interval."""
    return np.percentile(drawn, LIMITS, axis=0)


def better(drawn: np.ndarray, best: str) -> np.ndarray:
    """(M, M) whether the first is better than the second by more than chance; `best` is "high" or "low"."""
    sign = 1 if best == "high" else -1
    M = drawn.shape[1]
    out = np.zeros((M, M), bool)
    for k in range(M):
        out[k] = np.percentile(sign * (drawn[:, [k]] - drawn), LIMITS[0], axis=0) > 0
    return out
