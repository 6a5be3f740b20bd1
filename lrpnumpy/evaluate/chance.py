"""What is more than chance: intervals and p-values from a paired bootstrap, corrected for the number of comparisons;
and correlations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

DRAWS = 2000
AT_ONCE = 2_000_000  # weights of samples
LIMITS = (2.5, 97.5)  # in %: an interval of 95 %
Ratio = tuple[np.ndarray, np.ndarray]  # (M, n) values of every method, and (n,) what their means are divided by


def ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Means divided by a mean; NaN where that is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(below == 0, np.nan, above / below)


def drawn_again(ratios: Sequence[Ratio]) -> np.ndarray:
    """(draws, M) the mean over `ratios` of mean(above) / mean(below), of samples drawn again."""
    rng, n = np.random.default_rng(0), ratios[0][0].shape[1]
    at_once = max(1, min(DRAWS, AT_ONCE // n))
    found = []
    for first in range(0, DRAWS, at_once):
        w = rng.multinomial(n, np.full(n, 1 / n), size=min(at_once, DRAWS - first)) / n  # (some, n) weights of samples
        found.append(np.mean([ratio(w @ above.T, (w @ below)[:, None]) for above, below in ratios], axis=0))
    return np.concatenate(found)


def interval(drawn: np.ndarray) -> np.ndarray:
    """(2, M) lower and upper end of the 95 % interval."""
    return np.percentile(drawn, LIMITS, axis=0)


def p_values(value: np.ndarray, drawn: np.ndarray, n: int) -> np.ndarray:
    """(M, M) two-sided p-values that two methods are equal, corrected by Holm for the number of pairs.

    The difference of their values (M,) is compared with its standard deviation among the draws (draws, M), where both
    have the same of the n samples. The draws are too narrow by sqrt((n - 1) / n), and of few samples a t-distribution
    is wider than a normal one: the limits of the draws alone find differences between equal methods. Without a value
    there is no pair, and p is 1.
    """
    M = len(value)
    p, pairs = np.ones((M, M)), []
    for k in range(M):
        for m in range(k):
            apart, error = value[k] - value[m], (drawn[:, k] - drawn[:, m]).std() * np.sqrt(n / (n - 1))
            if np.isfinite(apart) and np.isfinite(error) and apart != 0:
                pairs.append((t_tails(abs(apart) / error, n - 1) if error > 0 else 0.0, k, m))
    largest = 0.0
    for place, (single, k, m) in enumerate(sorted(pairs)):
        largest = max(largest, min(1.0, single * (len(pairs) - place)))
        p[k, m] = p[m, k] = largest
    return p


def t_tails(t: float, freedom: int) -> float:
    """How likely a t-distributed number is farther from 0 than t > 0: with t = sqrt(v) tan(a), the integral of
    cos(a)^(v - 1) beyond a, over that from 0.
    """

    def integral(start: float) -> float:
        middles = start + (np.pi / 2 - start) * (np.arange(4000) + 0.5) / 4000
        return float((np.cos(middles) ** (freedom - 1)).mean()) * (np.pi / 2 - start)

    return integral(float(np.arctan(t / np.sqrt(freedom)))) / integral(0.0)


def half_widths(drawn: np.ndarray) -> np.ndarray:
    """(M, M) half the width of the 95 % interval of the difference of two methods."""
    M = drawn.shape[1]
    found = np.zeros((M, M))
    for k in range(M):
        low, high = np.percentile(drawn[:, [k]] - drawn, LIMITS, axis=0)
        found[k] = (high - low) / 2
    return found


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
