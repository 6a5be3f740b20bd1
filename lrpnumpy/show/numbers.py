"""A numeric series as a map of features and steps, in as many columns as there is room for: for text and for HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lrpnumpy.show.color import limit, scaled
from lrpnumpy.show.parts import Shown, grouped

FEATURES = 24  # of more features those of most relevance are shown
HIGH, LOW = "▁▂▃▄▅▆▇█", "░▒▓"  # positive relevance, and negative, where there are no colors


class Map(NamedTuple):
    """F features and K columns of `group` steps each, the last of which may have fewer."""

    features: tuple[str, ...]
    relevance: np.ndarray  # (F, K) summed over the steps of a column
    shares: np.ndarray  # (F, K) the same from -1 to 1, see `color.limit`
    values: np.ndarray | None  # (F, K) mean over the steps of a column
    total: np.ndarray  # (F,) relevance of each feature
    group: int
    left_out: int  # features that are not shown

    @property
    def heights(self) -> np.ndarray:
        """(F, K) values from 0, the least of the feature, to 1; 0 where there are none."""
        if self.values is None:
            return np.zeros(self.relevance.shape)
        low, high = self.values.min(axis=1, keepdims=True), self.values.max(axis=1, keepdims=True)
        return (self.values - low) / np.where(high > low, high - low, 1.0)


def map_of(part: Shown, most: int) -> Map:
    """One input of an explanation in a limited number of columns."""
    T, D = part.relevance.shape
    some = part.most_relevant(FEATURES)
    cells, group = grouped(part.relevance[:, some], max(1, most))
    relevance, values = cells.T, None
    if part.values is not None and part.values.shape[1] == D:
        counts = np.minimum(group, T - group * np.arange(len(cells)))
        values = (grouped(part.values[:, some], max(1, most))[0] / counts[:, None]).T
    total, names = part.relevance.sum(axis=0)[some], tuple(part.features[d] for d in some)
    if len(part.features) != D:  # one number per step, of several features
        names = ("relevance",)
    return Map(names, relevance, scaled(relevance, limit(relevance)[0]), values, total, group, D - len(some))


def decimals(values: Sequence[float], digits: int = 4) -> int:
    """How many decimals the numbers of one column have, so that the largest has `digits` digits."""
    sizes = np.abs(np.asarray(values, float))
    largest = float(sizes[np.isfinite(sizes)].max(initial=0.0))
    if largest == 0:
        return digits - 1
    return int(np.clip(digits - 1 - np.floor(np.log10(largest)), 0, 8))


def column(values: Sequence[float], digits: int = 4, sign: str = "+") -> list[str]:
    """The numbers of one column as text, all with the same decimals; very small or large ones with an exponent."""
    sizes = np.abs(np.asarray(values, float))
    largest = float(sizes[np.isfinite(sizes)].max(initial=0.0))
    form = f".{decimals(values, digits)}f"
    if largest and not 1e-4 <= largest < 1e7:
        form = f".{digits - 1}e"
    return [f"{float(value):{sign}{form}}" for value in values]


def sparks(heights: np.ndarray) -> str:
    """Numbers from 0 to 1 as blocks of that height."""
    return "".join(HIGH[round(float(h) * (len(HIGH) - 1))] for h in heights)


def signed(share: float, faint: float) -> str:
    """Relevance as one character: a block of its height if it is positive, a shade if it is negative."""
    if abs(share) < faint:
        return " "
    ramp = HIGH if share > 0 else LOW
    return ramp[round(abs(share) * (len(ramp) - 1))]
