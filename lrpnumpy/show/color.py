"""Relevance as colors, red for positive and blue for negative; numbers as aligned text, and as blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RED, BLUE, WHITE = (214, 40, 40), (38, 84, 206), (255, 255, 255)
RGB = tuple[int, int, int]
HIGH, LOW = "▁▂▃▄▅▆▇█", "░▒▓"  # positive relevance, and negative, where there are no colors
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


def signed(share: float, faint: float) -> str:
    """Relevance as one character: a block of its height if it is positive, a shade if it is negative."""
    if abs(share) < faint:
        return " "
    ramp = HIGH if share > 0 else LOW
    return ramp[round(abs(share) * (len(ramp) - 1))]
