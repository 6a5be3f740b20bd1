"""Layer-wise relevance propagation: how a product divides its relevance, and which rule a sum follows.

A product rule is a function `shares(gate, signal, eps)` of NumPy arrays that returns the fractions of R for the gate
and the signal. Sum rules are in `rules/sums.py`. Activations propagate R unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from lrpnumpy.activations import Elementwise
from lrpnumpy.checks import LrpError, one_of, shown
from lrpnumpy.kernels.steps import ABS, ALL, HALF, PROP
from lrpnumpy.meant import called
from lrpnumpy.rules.propagation import Propagation, Total
from lrpnumpy.rules.sums import Epsilon, SumRule, inverse

ProductRule = Callable[[np.ndarray, np.ndarray, float], tuple[np.ndarray, np.ndarray]]


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
    """A product rule of LRP: how much of the relevance of a product gate * signal each of the two receives.

    `name` is what results call it. `shares` is a function of gate, signal and eps, NumPy arrays and a number, that
    returns the fractions of R for the gate and for the signal. A run of `explain_corpus` is only resumed with a rule of
    the same name and `version`: count it up when you change the function.
    """

    name: str
    shares: ProductRule
    version: int = 1
    _code: int | None = field(default=None, init=False, repr=False)  # of a built-in rule, inside kernels

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not callable(self.shares):
            raise LrpError(
                f"Rule: got {shown(self.name)} and {shown(self.shares)}; pass a name and a function of gate, signal "
                "and eps."
            )

    def _split(self, gate: np.ndarray, signal: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
        """The result of `shares`, checked if the rule is custom: two fractions for every product."""
        if self._code is not None:
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


def _built_in(name: str, shares: ProductRule, code: int) -> Rule:
    rule = Rule(name, shares)
    object.__setattr__(rule, "_code", code)
    return rule


RULES = {
    "all": _built_in("all", signal_takes_all, ALL),
    "prop": _built_in("prop", proportional, PROP),
    "abs": _built_in("abs", absolute, ABS),
    "half": _built_in("half", half_and_half, HALF),
}


def product_rule(value: Any) -> Rule:
    """A product rule by its name, as a function, or as it is."""
    if isinstance(value, Rule):
        return value
    if callable(value):
        return Rule(getattr(value, "__name__", "custom"), value)
    return RULES[one_of(value, "LRP: product", tuple(RULES))]


class Relevance(Propagation):
    """The propagation of LRP by a product rule and a sum rule; `nodes` is that of nodes with another sum rule."""

    times_input: ClassVar[bool] = True
    holds_weights: ClassVar[bool] = True

    def __init__(self, product: Rule, rule: SumRule, holds_attention: bool = True) -> None:
        self._product, self.eps, self.holds_attention = product, rule.eps, holds_attention
        if type(rule) is Epsilon:
            self.code = product._code
        else:
            self.rule = rule

    def with_nodes(self, rules: Mapping[str, SumRule]) -> Relevance:
        """The same, but for nodes that have other sum `rules`."""
        found = copy(self)
        found.nodes = {name: Relevance(self._product, rule, self.holds_attention) for name, rule in rules.items()}
        return found

    def gain(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """1 / stab(z), and the share of the stabilizer."""
        return inverse(z, self.eps)

    def product(
        self, gate: np.ndarray, signal: np.ndarray, *reference: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, Any]:
        """The rule's shares, and the rest."""
        to_gate, to_signal = self._product._split(gate, signal, self.eps)
        return to_gate, to_signal, 1 - to_gate - to_signal

    def even_product(self, one: np.ndarray, other: np.ndarray, *reference: np.ndarray) -> tuple[Any, Any]:
        """Half each."""
        half = one.dtype.type(0.5)
        return half, half

    def factors(self, one: np.ndarray, other: np.ndarray, *reference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Half of each contribution to either side (AttnLRP, proposition 3.3)."""
        half = one.dtype.type(0.5)
        return half * other, half * one

    def slope(self, activation: str | Elementwise, z: np.ndarray, y: np.ndarray, *reference: np.ndarray) -> Any:
        """Activations propagate R unchanged."""
        return z.dtype.type(1)

    def softmax(self, R: np.ndarray, z: np.ndarray, y: np.ndarray, total: Total, *reference: np.ndarray) -> Any:
        """z_i (R_i - y_i sum_j R_j): the first-order Taylor expansion (AttnLRP, proposition 3.1)."""
        return z * (R - y * total(R))
