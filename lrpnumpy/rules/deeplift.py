"""DeepLIFT: how much each value differs from that of a reference input, propagated so that it adds up.

Rescale rule, products split evenly: Shrikumar, Greenside & Kundaje, ICML 2017. Every coefficient is the mean of a
derivative on the straight line from the reference to the input, for one elementary function at a time:

    y = F(z)              (y - y0) / (z - z0)
    y = gate * signal     (signal + signal0) / 2 to the gate, (gate + gate0) / 2 to the signal
    y = max_k x_k         to x_k the fraction of the line on which it is the largest

A layer passes the reference's values of the same quantities along.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from lrpnumpy.activations import ACTIVATIONS, Elementwise
from lrpnumpy.checks import LrpError
from lrpnumpy.rules.propagation import Propagation, Total


class DifferencePropagation(Propagation):
    """Differences from a reference; `is_reference` marks the reference's own forward pass."""

    has_reference: ClassVar[bool] = True

    def __init__(self, is_reference: bool = False) -> None:
        self.is_reference = is_reference  # type: ignore[misc]

    def product(self, gate: np.ndarray, signal: np.ndarray, *reference: np.ndarray) -> tuple[Any, Any, Any]:
        """The mean of the other side, to each."""
        gate0, signal0 = _given("product", reference)
        half = gate.dtype.type(0.5)
        return half * (signal + signal0), half * (gate + gate0), gate.dtype.type(0)

    def slope(self, activation: str | Elementwise, z: np.ndarray, y: np.ndarray, *reference: np.ndarray) -> Any:
        """The mean slope."""
        z0, y0 = _given("slope", reference)
        return (ACTIVATIONS[activation] if isinstance(activation, str) else activation).secant(z, z0, y, y0)

    def softmax(self, R: np.ndarray, z: np.ndarray, y: np.ndarray, total: Total, *reference: np.ndarray) -> Any:
        """y = E r with E = exp(z) and r = 1 / sum E: two separate functions, and a product that is split evenly.

        With u = (E - E0) / (z - z0) the message to z is 1/2 [u r (R - sum R y0) + u r0 (R - sum R y)]. E and r may be
        too large for a number; u r and u r0 follow from y, y0 and the ratio of the two sums.
        """
        z0, y0 = _given("softmax", reference)
        d, half = z - z0, z.dtype.type(0.5)
        ratio = np.exp(total(_share_of_log_sum(z, y)) - total(_share_of_log_sum(z0, y0)))  # r0 / r
        size = abs(d)
        mean = np.where(size == 0, size.dtype.type(1), -np.expm1(-size) / np.where(size == 0, size.dtype.type(1), size))
        u_r = np.where(d > 0, y, y0 / ratio) * mean
        u_r0 = np.where(d > 0, y * ratio, y0) * mean
        return half * (u_r * _centered(R, y0, total) + u_r0 * _centered(R, y, total))

    def winning(self, x: np.ndarray, *reference: np.ndarray) -> np.ndarray:
        """The fraction of the line from the reference on which each candidate is the largest."""
        return fractions(x, *_given("winning", reference))


DEEPLIFT, REFERENCE = DifferencePropagation(), DifferencePropagation(is_reference=True)


def _given(name: str, reference: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """The reference's values, which a layer must pass along."""
    if not reference:
        raise LrpError(f"DeepLIFT: how.{name} needs the reference's values as well; pass how.{name}(*ran.both(...)).")
    return reference


def _centered(R: np.ndarray, y: np.ndarray, total: Total) -> np.ndarray:
    """R - sum R y. Where one y is nearly 1 the first difference is mostly rounding; the second finds what is left."""
    R = R - total(R * y)
    return R - total(R * y)


def _share_of_log_sum(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """y (z - log y): each term of a softmax knows log sum exp(z) = z - log y, and the sum of y is 1."""
    seen = y > 0
    return np.where(seen, y * (z - np.log(np.where(seen, y, y.dtype.type(1)))), y.dtype.type(0))


def fractions(x: np.ndarray, x0: np.ndarray) -> np.ndarray:
    """For candidates x (K, …) that move on straight lines from x0, the fraction of the line on which each is largest.

    The winner at the start stays until the first other line crosses it, which then is the winner, and so on. Of equal
    candidates the first counts. Where a candidate is -inf in both, it never wins.
    """
    never = x.dtype.type(-np.inf)
    slope = np.where(x0 == never, never, x - x0)
    won = _first_largest(np.where(x0 == x0.max(axis=0), slope, never))
    out, now = np.zeros_like(x), np.zeros_like(x[0])[None]
    while True:
        gain = slope - np.take_along_axis(slope, won, axis=0)
        faster = gain > 0
        behind = np.take_along_axis(x0, won, axis=0) - np.where(faster, x0, 0)
        when = np.where(faster, behind / np.where(faster, gain, 1), np.inf)
        following = np.maximum(when.min(axis=0, keepdims=True), now)
        end = np.minimum(following, 1).astype(x.dtype)
        np.put_along_axis(out, won, np.take_along_axis(out, won, axis=0) + end - now, axis=0)
        if (following >= 1).all():
            return out
        crossing = _first_largest(np.where(faster & (when <= following), slope, never))
        won, now = np.where(following < 1, crossing, won), end


def _first_largest(x: np.ndarray) -> np.ndarray:
    return x.argmax(axis=0)[None]
