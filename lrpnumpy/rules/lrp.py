"""Layer-wise relevance propagation: how a product gives its relevance to gate and signal, and a sum to its terms.

A product rule is a function `shares(gate, signal, eps)` of NumPy arrays that returns the fractions of R which the gate
and the signal get. Sums follow the epsilon rule, R_i = z_i w_ij / stab(z_j) R_j. Activations pass R on unchanged.
In Dense and Conv layers a `gamma` above 0 weighs the terms z_i w_ij that have the sign of z_j by 1 + gamma first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lrpnumpy.activations import Activation
from lrpnumpy.checks import LrpError, shown
from lrpnumpy.kernels.steps import ABS, ALL, HALF, PROP
from lrpnumpy.meant import called
from lrpnumpy.rules.propagation import Propagation, Values

ProductRule = Callable[[np.ndarray, np.ndarray, float], tuple[np.ndarray, np.ndarray]]


def inverse(z: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """1 / stab(z), and the share eps / (|z| + eps) the stabiliser keeps; (0, 1) where the denominator is exactly 0."""
    size = abs(z) + z.dtype.type(eps)
    if size.all():
        over = 1 / size
        lost = z.dtype.type(eps) * over
    else:
        dead = size == 0
        over = np.where(dead, z.dtype.type(0), 1 / np.where(dead, z.dtype.type(1), size))
        lost = np.where(dead, z.dtype.type(1), z.dtype.type(eps) * over)
    return np.copysign(over, z + z.dtype.type(0)), lost  # -0 + 0 is +0, and has the sign +1


def signal_takes_all(gate: np.ndarray, signal: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """(0, 1): Arras et al. 2017."""
    return np.zeros_like(gate), np.ones_like(signal)


def proportional(gate: np.ndarray, signal: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """(z_g, z_s) / stab(z_g + z_s): Ding et al. 2017."""
    over, _ = inverse(gate + signal, eps)
    return gate * over, signal * over


def absolute(gate: np.ndarray, signal: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """(|z_g|, |z_s|) / (|z_g| + |z_s| + eps)."""
    over, _ = inverse(abs(gate) + abs(signal), eps)
    return abs(gate) * over, abs(signal) * over


def half_and_half(gate: np.ndarray, signal: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """(1/2, 1/2): Arjona-Medina et al. 2018."""
    return np.full_like(gate, 0.5), np.full_like(signal, 0.5)


@dataclass(frozen=True)
class Rule:
    """A product rule of LRP: how much of the relevance of a product gate * signal each of the two gets.

    `name` is what results call it. `shares` is a function of gate, signal and eps, NumPy arrays and a number, that
    returns the fractions of R for the gate and for the signal. `code` names the rule inside kernels that have it built
    in; yours has none.
    """

    name: str
    shares: ProductRule
    code: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not callable(self.shares):
            raise LrpError(
                "Rule must get a name and a function of gate, signal and eps, got "
                f"{shown(self.name)} and {shown(self.shares)}."
            )

    def _split(self, gate: np.ndarray, signal: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
        """What `shares` gives, checked where it is a function of the user's own: two fractions for every product."""
        if self.code is not None:
            return self.shares(gate, signal, eps)
        what, wanted = f"rule {self.name!r}", np.broadcast_shapes(np.shape(gate), np.shape(signal))
        found = called(what, self.shares, gate, signal, eps)
        try:
            one, other = (np.broadcast_to(np.asarray(part, signal.dtype), wanted) for part in found)
        except (TypeError, ValueError) as error:
            raise LrpError(
                f"{what} must give two arrays of shape {wanted}, for the gate and for the signal, got {shown(found)}."
            ) from error
        return one, other


RULES = {
    "all": Rule("all", signal_takes_all, ALL),
    "prop": Rule("prop", proportional, PROP),
    "abs": Rule("abs", absolute, ABS),
    "half": Rule("half", half_and_half, HALF),
}


@dataclass(frozen=True)
class LRP(Propagation):
    """LRP with a product rule and a stabiliser."""

    rule: Rule
    eps: float = 0.001
    gamma: float = 0.0

    times_input: ClassVar[bool] = True
    holds_weights: ClassVar[bool] = True

    @property
    def code(self) -> int | None:  # type: ignore[override]
        """What kernels call it, where they have its coefficients built in."""
        return self.rule.code

    def gain(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """1 / stab(z), and what the stabiliser keeps."""
        return inverse(z, self.eps)

    def product(
        self, gate: np.ndarray, signal: np.ndarray, gate0: Values = None, signal0: Values = None
    ) -> tuple[np.ndarray, np.ndarray, Any]:
        """The rule's shares, and what is left."""
        to_gate, to_signal = self.rule._split(gate, signal, self.eps)
        return to_gate, to_signal, 1 - to_gate - to_signal

    def even_product(
        self, one: np.ndarray, other: np.ndarray, one0: Values = None, other0: Values = None
    ) -> tuple[Any, Any]:
        """Both get half."""
        half = one.dtype.type(0.5)
        return half, half

    def slope(
        self, activation: str | Activation, z: np.ndarray, y: np.ndarray, z0: Values = None, y0: Values = None
    ) -> Any:
        """Activations pass R on unchanged."""
        return z.dtype.type(1)


Linear = Callable[[np.ndarray, int], np.ndarray]


def gamma_rule(
    how: LRP, z: np.ndarray, x: np.ndarray, ahead: Linear, back: Linear
) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """Of sums z of terms x_i w_ij: what they are once terms of their sign are weighed by 1 + gamma, and a function from
    the message s of these new sums to what the inputs get besides x (s w).

    `ahead(x, sign)` and `back(s, sign)` are the layer's sums without bias, and their transpose, with its positive
    weights only (sign 1) or its negative ones (-1).
    """
    gamma, is_up = z.dtype.type(how.gamma), z >= 0  # sign(0) = +1
    up, down = np.maximum(x, 0), np.minimum(x, 0)
    alike = np.where(is_up, ahead(up, 1) + ahead(down, -1), ahead(up, -1) + ahead(down, 1))

    def more(s: np.ndarray) -> np.ndarray:
        to_up, to_down = np.where(is_up, s, 0), np.where(is_up, 0, s)
        return gamma * (up * (back(to_up, 1) + back(to_down, -1)) + down * (back(to_up, -1) + back(to_down, 1)))

    return z + gamma * alike, more
