"""What is more than chance: intervals and p-values from a paired bootstrap, corrected for the number of comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

DRAWS = 10_000  # so that the smallest p-value survives the correction for the pairs of twenty methods
LIMITS = (2.5, 97.5)  # in %: an interval of 95 %
Ratio = tuple[np.ndarray, np.ndarray]  # (M, n) values of every method, and (n,) what their means are divided by


def draws(n: int, count: int = DRAWS, seed: int = 0) -> Iterator[np.ndarray]:
    """Weights (some, n) of n samples drawn again with replacement, `count` times in all, a part at a time."""
    rng = np.random.default_rng(seed)
    at_once = max(1, min(count, 2_000_000 // max(1, n)))
    for first in range(0, count, at_once):
        yield rng.multinomial(n, np.full(n, 1 / n), size=min(at_once, count - first)) / n


def ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Means divided by a mean; NaN where that is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(below == 0, np.nan, above / below)


def drawn_again(ratios: Sequence[Ratio]) -> np.ndarray:
    """(draws, M) the mean over `ratios` of mean(above) / mean(below), of samples drawn again."""
    found = []
    for w in draws(ratios[0][0].shape[1]):
        found.append(np.mean([ratio(w @ above.T, (w @ below)[:, None]) for above, below in ratios], axis=0))
    return np.concatenate(found)


def interval(drawn: np.ndarray) -> np.ndarray:
    """(2, M) lower and upper end of the 95 % interval."""
    return np.percentile(drawn, LIMITS, axis=0)


def p_values(drawn: np.ndarray) -> np.ndarray:
    """(M, M) two-sided p-values that two methods are equal, corrected by Holm for the number of pairs.

    The samples drawn again are the same for both methods. Without a value there is no pair, and p is 1.
    """
    M = drawn.shape[1]
    p, pairs = np.ones((M, M)), []
    for k in range(M):
        for m in range(k):
            apart = drawn[:, k] - drawn[:, m]
            if not np.isnan(apart).any() and apart.any():
                less, more = (apart <= 0).mean(), (apart >= 0).mean()
                pairs.append((max(2 * min(less, more), 2 / len(drawn)), k, m))
    largest = 0.0
    for place, (value, k, m) in enumerate(sorted(pairs)):
        largest = max(largest, min(1.0, value * (len(pairs) - place)))
        p[k, m] = p[m, k] = largest
    return p


def half_widths(drawn: np.ndarray) -> np.ndarray:
    """(M, M) half the width of the 95 % interval of the difference of two methods."""
    M = drawn.shape[1]
    found = np.zeros((M, M))
    for k in range(M):
        low, high = np.percentile(drawn[:, [k]] - drawn, LIMITS, axis=0)
        found[k] = (high - low) / 2
    return found
