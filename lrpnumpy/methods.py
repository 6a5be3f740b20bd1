"""The table of methods: the single source for the command line, documentation, tests and benchmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lrpnumpy.checks import LrpError, one_of
from lrpnumpy.rules import RULES, Rule


@dataclass(frozen=True)
class Method:
    """One way to explain a prediction."""

    name: str
    description: str
    cost: str  # in the length T of the sequence
    conserves: str  # what the relevances of one input add up to
    variables: Literal["free", "on request", "no"]  # whether it has a value for each variable of a step
    reference: str
    kind: Literal["gradient", "occlusion", "lrp", "cd"]
    rule: Rule | None = None


_ARRAS, _DING, _RUDDER = "Arras et al. 2017", "Ding et al. 2017", "Arjona-Medina et al. 2018"
_LRP = {"cost": "Θ(T)", "conserves": "f_c(x), less biases and stabiliser", "variables": "free", "kind": "lrp"}

METHODS = {
    method.name: method
    for method in (
        Method("gradient", "squared partial derivative", "Θ(T)", "squared norm of the gradient", "free", "Li et al. 2016", "gradient"),
        Method("gradient-x-input", "partial derivative times value", "Θ(T)", "gradient times input", "free", "Denil et al. 2015", "gradient"),
        Method("occlusion-f", "drop of the score when the word is set to zero", "Θ(T²)", "-", "on request", "Li et al. 2017", "occlusion"),
        Method("occlusion-p", "drop of the probability when the word is set to zero", "Θ(T²)", "-", "on request", "Li et al. 2017", "occlusion"),
        Method("lrp-all", "layer-wise relevance propagation, the signal takes all", reference=_ARRAS, rule=RULES["all"], **_LRP),  # type: ignore[arg-type]
        Method("lrp-prop", "layer-wise relevance propagation, gate and signal in proportion", reference=_DING, rule=RULES["prop"], **_LRP),  # type: ignore[arg-type]
        Method("lrp-abs", "layer-wise relevance propagation, in proportion to absolute values", reference="Arras et al. 2019", rule=RULES["abs"], **_LRP),  # type: ignore[arg-type]
        Method("lrp-half", "layer-wise relevance propagation, half and half", reference=_RUDDER, rule=RULES["half"], **_LRP),  # type: ignore[arg-type]
        Method("cd", "contextual decomposition: what the word itself did to the score", "Θ(T²)", "f_c(x) for each phrase, with the rest of the input", "no", "Murdoch et al. 2018", "cd"),
    )
}  # fmt: skip


def methods() -> tuple[Method, ...]:
    """All methods: name, one-line description, cost in T, what is conserved, reference."""
    return tuple(METHODS.values())


def find(method: str | Rule) -> Method:
    """A method by name, or the one that a product rule of one's own makes."""
    if isinstance(method, Rule):
        return Method(
            method.name, "layer-wise relevance propagation by a rule of one's own", reference="-", rule=method, **_LRP
        )  # type: ignore[arg-type]
    if not isinstance(method, str):
        raise LrpError(f"method must be a name or an lrp.Rule, got {type(method).__name__}.")
    return METHODS[one_of(method, "method", tuple(METHODS))]
