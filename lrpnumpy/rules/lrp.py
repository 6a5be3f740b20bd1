"""Layer-wise relevance propagation: how a product gives its relevance to gate and signal, and which rule a sum follows.

A product rule is a function `shares(gate, signal, eps)` of NumPy arrays that returns the fractions of R which the gate
and the signal get. Sum rules are in `rules/sums.py`. Activations pass R on unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np

from lrpnumpy.activations import Elementwise
from lrpnumpy.checks import LrpError, non_negative, one_of, shown
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
    """A product rule of LRP: how much of the relevance of a product gate * signal each of the two gets.

    `name` is what results call it. `shares` is a function of gate, signal and eps, NumPy arrays and a number, that
    returns the fractions of R for the gate and for the signal.
    """

    name: str
    shares: ProductRule
    _code: int | None = field(default=None, init=False, repr=False)  # of a built-in rule, inside kernels

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not callable(self.shares):
            raise LrpError(
                "Rule must get a name and a function of gate, signal and eps, got "
                f"{shown(self.name)} and {shown(self.shares)}."
            )

    def _split(self, gate: np.ndarray, signal: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
        """What `shares` gives, checked where it is the user's own: two fractions for every product."""
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


@dataclass(frozen=True)
class LRP:
    """LRP with a product rule, sum rules by layer, and a rule for attentions: a method, wherever one is named.

    `product` decides what the gate and the signal of a product get: "all", "prop", "abs", "half", a function of gate,
    signal and eps, or a `Rule`. `sums` is a dict of the sum rules in `lrp.rules`. A key is the name of a layer;
    "first" or "last" for the layers with a weight matrix that are next to the inputs or to the scores; the type of a
    layer, such as "Dense"; or "default". The more specific key wins, in this order. `eps=0.01` is short for
    {"default": Epsilon(0.01)}. `attention` is "fixed" to hold the weights of attentions fixed, or "attnlrp" to
    propagate through their softmax to queries and keys (Achtibat et al. 2024).
    """

    product: Any = "all"
    sums: Mapping[str, SumRule] = None  # type: ignore[assignment]
    eps: float | None = None
    attention: Literal["fixed", "attnlrp"] = "fixed"

    def __post_init__(self) -> None:
        object.__setattr__(self, "product", _product_rule(self.product))
        sums: Any = {} if self.sums is None else self.sums
        if not isinstance(sums, Mapping):
            raise LrpError(f"LRP: sums must be a dict of layers and sum rules, got {shown(sums)}.")
        for key, rule in sums.items():
            if not isinstance(rule, SumRule):
                also = f"; pass {rule.__name__}(...)" if isinstance(rule, type) else ""
                raise LrpError(
                    f"LRP: sums[{key!r}] must be a sum rule such as lrp.rules.Epsilon(0.01), got {shown(rule)}{also}."
                )
        object.__setattr__(self, "sums", dict(sums))
        if self.eps is not None:
            if "default" in sums:
                raise LrpError(f"LRP: eps must be left out where sums has a 'default', got {shown(self.eps)}.")
            object.__setattr__(self, "eps", non_negative(self.eps, "LRP: eps"))
        one_of(self.attention, "LRP: attention", ("fixed", "attnlrp"))

    @property
    def name(self) -> str:
        """What results call the method."""
        return f"lrp-{self.product.name}" if self.product._code is not None else self.product.name

    @property
    def default(self) -> SumRule:
        """The sum rule of layers that no other key names."""
        if "default" in self.sums:
            return self.sums["default"]
        return Epsilon() if self.eps is None else Epsilon(self.eps)

    def shown(self) -> dict[str, Any]:
        """The settings for the record of a result."""
        rules = {**self.sums, "default": self.default}
        sums = ", ".join(f"{key}: {rule}" for key, rule in rules.items())
        return {"product": self.product.name, "sums": sums, "attention": self.attention}


def _product_rule(value: Any) -> Rule:
    if isinstance(value, Rule):
        return value
    if callable(value):
        return Rule(getattr(value, "__name__", "custom"), value)
    return RULES[one_of(value, "LRP: product", tuple(RULES))]


class Relevance(Propagation):
    """The propagation of LRP by a product rule and a sum rule; `nodes` is that of nodes with another sum rule."""

    times_input: ClassVar[bool] = True
    holds_weights: ClassVar[bool] = True

    def __init__(
        self,
        product: Rule,
        rule: SumRule,
        holds_attention: bool = True,
        nodes: Mapping[str, SumRule] = MappingProxyType({}),
    ) -> None:
        self._product, self.eps, self.holds_attention = product, rule.eps, holds_attention
        if type(rule) is Epsilon:
            self.code = product._code
        else:
            self.rule = rule
        self._nodes = {name: Relevance(product, one, holds_attention) for name, one in nodes.items()}

    def at(self, name: str) -> Relevance:
        """The propagation at the node of this `name`."""
        return self._nodes.get(name, self)

    def gain(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """1 / stab(z), and what the stabiliser keeps."""
        return inverse(z, self.eps)

    def product(
        self, gate: np.ndarray, signal: np.ndarray, *reference: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, Any]:
        """The rule's shares, and what is left."""
        to_gate, to_signal = self._product._split(gate, signal, self.eps)
        return to_gate, to_signal, 1 - to_gate - to_signal

    def even_product(self, one: np.ndarray, other: np.ndarray, *reference: np.ndarray) -> tuple[Any, Any]:
        """Both get half."""
        half = one.dtype.type(0.5)
        return half, half

    def factors(self, one: np.ndarray, other: np.ndarray, *reference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Half of each contribution to either side (AttnLRP, proposition 3.3)."""
        half = one.dtype.type(0.5)
        return half * other, half * one

    def slope(self, activation: str | Elementwise, z: np.ndarray, y: np.ndarray, *reference: np.ndarray) -> Any:
        """Activations pass R on unchanged."""
        return z.dtype.type(1)

    def softmax(self, R: np.ndarray, z: np.ndarray, y: np.ndarray, total: Total, *reference: np.ndarray) -> Any:
        """z_i (R_i - y_i sum_j R_j): the first-order Taylor expansion (AttnLRP, proposition 3.1)."""
        return z * (R - y * total(R))
