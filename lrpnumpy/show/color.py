"""Relevance to color: red for positive, blue for negative, scaled to the largest magnitude and to the score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RED, BLUE, WHITE = (214, 40, 40), (38, 84, 206), (255, 255, 255)
RGB = tuple[int, int, int]
LEAST = 1 / 5  # of the explained score: a smaller relevance never has full color


def scaled(relevance: np.ndarray, largest: float | None = None) -> np.ndarray:
    """Relevance over its largest magnitude, from -1 to 1; all zero stays zero, and what is infinite counts as full."""
    finite = np.nan_to_num(np.asarray(relevance, float), nan=0.0, posinf=np.inf, neginf=-np.inf)
    if largest is None:
        sizes = np.abs(finite[np.isfinite(finite)])
        largest = float(sizes.max()) if sizes.size else 0.0
    if largest == 0:
        return np.sign(np.where(np.isinf(finite), finite, 0.0))
    return np.clip(finite / largest, -1, 1)


def limit(*arrays: np.ndarray) -> tuple[float, float]:
    """The magnitude that has full color in a map, and the largest one.

    A few large cells must not hide the rest: where the largest is more than 1.5 times the 99th percentile of all
    magnitudes, full color begins there, but not below a tenth of the largest. It is 1 where everything is 0.
    """
    sizes = np.abs(np.concatenate([[0.0], *(np.ravel(array) for array in arrays)]))
    sizes = sizes[np.isfinite(sizes)]
    largest = float(sizes.max())
    usual = max(float(np.quantile(sizes, 0.99)), largest / 10)
    return (usual if largest > 1.5 * usual else largest) or 1.0, largest


def rgb(share: float, ground: Sequence[float] = WHITE) -> RGB:
    """The color of a scaled relevance: that of the ground at 0, full red at 1, full blue at -1."""
    strength, end = min(1.0, abs(float(share))), RED
    if share < 0:
        end = BLUE
    r, g, b = (round(w + (e - w) * strength) for w, e in zip(ground, end, strict=True))
    return r, g, b


def ink(background: RGB) -> RGB:
    """Black or white, whichever is easier to read on the background (relative luminance, WCAG 2)."""
    linear = [(v / 255 / 12.92) if v <= 10 else ((v / 255 + 0.055) / 1.055) ** 2.4 for v in background]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return (0, 0, 0) if luminance > 0.179 else (255, 255, 255)
