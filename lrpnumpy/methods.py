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


def _lrp(name: str, description: str, reference: str, rule: Rule) -> Method:
    conserved = "f_c(x), less biases and stabiliser"
    return Method(name, description, "Θ(T)", conserved, "free", reference, "lrp", rule)


METHODS = {
    method.name: method
    for method in (
        Method(
            name="gradient",
            description="squared partial derivative",
            cost="Θ(T)",
            conserves="squared norm of the gradient",
            variables="free",
            reference="Li et al. 2016",
            kind="gradient",
        ),
        Method(
            name="gradient-x-input",
            description="partial derivative times value",
            cost="Θ(T)",
            conserves="gradient times input",
            variables="free",
            reference="Denil et al. 2015",
            kind="gradient",
        ),
        Method(
            name="occlusion-f",
            description="drop of the score when the word is set to zero",
            cost="Θ(T²)",
            conserves="-",
            variables="on request",
            reference="Li et al. 2017",
            kind="occlusion",
        ),
        Method(
            name="occlusion-p",
            description="drop of the probability when the word is set to zero",
            cost="Θ(T²)",
            conserves="-",
            variables="on request",
            reference="Li et al. 2017",
            kind="occlusion",
        ),
        _lrp(
            name="lrp-all",
            description="layer-wise relevance propagation, the signal takes all",
            reference="Arras et al. 2017",
            rule=RULES["all"],
        ),
        _lrp(
            name="lrp-prop",
            description="layer-wise relevance propagation, gate and signal in proportion",
            reference="Ding et al. 2017",
            rule=RULES["prop"],
        ),
        _lrp(
            name="lrp-abs",
            description="layer-wise relevance propagation, in proportion to absolute values",
            reference="Arras et al. 2019",
            rule=RULES["abs"],
        ),
        _lrp(
            name="lrp-half",
            description="layer-wise relevance propagation, half and half",
            reference="Arjona-Medina et al. 2018",
            rule=RULES["half"],
        ),
        Method(
            name="cd",
            description="contextual decomposition: what the word itself did to the score",
            cost="Θ(T²)",
            conserves="f_c(x) for each phrase, with the rest of the input",
            variables="no",
            reference="Murdoch et al. 2018",
            kind="cd",
        ),
    )
}


def methods() -> tuple[Method, ...]:
    """All methods: name, one-line description, cost in T, what is conserved, reference."""
    return tuple(METHODS.values())


def find(method: str | Rule) -> Method:
    """A method by name, or the one that a product rule of one's own makes."""
    if isinstance(method, Rule):
        return _lrp(method.name, "layer-wise relevance propagation by a rule of one's own", "-", method)
    if not isinstance(method, str):
        raise LrpError(f"method must be a name or an lrp.Rule, got {type(method).__name__}.")
    return METHODS.get(method) or METHODS[one_of(method, "method", tuple(METHODS))]
