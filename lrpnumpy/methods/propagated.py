"""Methods that send one message back through the network: gradient, gradient × input, and LRP by any rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lrpnumpy.kernels import ledger
from lrpnumpy.ledgers import ROWS
from lrpnumpy.methods.base import Columns, Method, Options, Question, Request, number, option, switch
from lrpnumpy.passes import backward
from lrpnumpy.rules import GRADIENT, LRP, RULES, Propagation, Rule

TOO_LARGE = 1e6  # times f_c: relevance beyond this is decided by rounding
GAP = 1e-3  # of |f_c|, or |f_c - f_versus|: how much a ledger may miss


@dataclass(frozen=True)
class LrpOptions(Options):
    """The options of LRP."""

    eps: float = option(0.001, "the stabiliser of LRP; 0 is allowed", check=number, flag=float)
    gamma: float = option(
        0.0,
        "in Dense and Conv layers LRP weighs terms that have the sign of their sum by 1 + gamma",
        check=number,
        flag=float,
    )
    hidden: bool = option(False, "also the relevance of every hidden state of every recurrent layer", check=switch)
    share_bias: bool = option(
        False,
        "LRP spreads biases and stabiliser over the inputs of each sum, so that inputs and initial state add up to the "
        "score: a sanity check",
        check=switch,
    )


def propagation(request: Request) -> Propagation:
    """How messages flow back."""
    rule, options = request.method.rule, request.options
    return GRADIENT if rule is None else LRP(rule, options.eps, options.share_bias, options.gamma)


def run(question: Question, wanted: list[np.ndarray]) -> list[Columns]:
    """Results for each of the wanted targets, one backward pass each."""
    return [_one(question, targets) for targets in wanted]


def _one(question: Question, targets: np.ndarray) -> Columns:
    trace, request, scores = question.trace, question.request, question.scores
    is_lrp = request.method.kind == "lrp"
    start = question.sent_back(scores if is_lrp else np.ones_like(scores), targets)
    passed = backward(trace, start, question.keep, hidden=request.hidden)  # type: ignore[arg-type]
    values = {
        name: R_x
        if is_lrp or trace.inputs[name].words is not None  # looked-up words come multiplied by their vectors
        else R_x * (R_x if request.method.name == "gradient" else trace.inputs[name].rows)
        for name, R_x in passed.inputs.items()
    }
    columns = question.columns(targets, values)
    if is_lrp:
        _close(question, columns, passed.ledger)
        if request.hidden:
            numbers = {trace.model.nodes[k].name: number for number, k in enumerate(trace.model.numbers)}
            columns.hidden = [
                (numbers[name], direction, trace.ran[name].inputs[0].batch, states)
                for name, found in passed.hidden.items()
                for direction, states in found
            ]
            columns.hidden.sort(key=lambda one: one[0])
    return columns


def _close(question: Question, columns: Columns, kept: np.ndarray) -> None:
    """The books: where each score went, from what every node kept (nodes, 4, n); and whether they add up."""
    numbers, dtype, versus = question.trace.model.numbers, kept.dtype.type, question.request.versus
    columns.books = np.empty((len(ROWS["lrp"]) + len(numbers), kept.shape[2]), kept.dtype)
    columns.books[0] = question.received(columns)
    columns.sound = np.empty(kept.shape[2], np.int64)
    ledger.close(
        kept, numbers, question.scores, columns.targets, -1 if versus is None else versus, dtype(GAP),
        dtype(TOO_LARGE), columns.books, columns.sound,
    )  # fmt: skip


def _advice(request: Request) -> str:
    return f"try a larger eps than {request.options.eps:g}, or another rule"


def lrp(name: str, description: str, reference: str, rule: Rule) -> Method:
    """LRP by a product rule as a method."""
    return Method(
        name=name,
        description=description,
        cost="Θ(T)",
        conserves="f_c(x), less biases and stabiliser",
        variables="free",
        reference=reference,
        kind="lrp",
        rule=rule,
        options=LrpOptions,
        keep=propagation,
        run=run,
        advice=_advice,
    )


def _gradient(name: str, description: str, conserves: str, reference: str) -> Method:
    about: Any = {"cost": "Θ(T)", "conserves": conserves, "variables": "free", "reference": reference}
    return Method(name, description, **about, kind="gradient", keep=propagation, run=run)


METHODS = (
    _gradient("gradient", "squared partial derivative", "squared norm of the gradient", "Li et al. 2016"),
    _gradient("gradient-x-input", "partial derivative times value", "gradient times input", "Denil et al. 2015"),
)
LRP_METHODS = (
    lrp("lrp-all", "layer-wise relevance propagation, the signal takes all", "Arras et al. 2017", RULES["all"]),
    lrp(
        "lrp-prop", "layer-wise relevance propagation, gate and signal in proportion", "Ding et al. 2017", RULES["prop"]
    ),
    lrp(
        "lrp-abs",
        "layer-wise relevance propagation, in proportion to absolute values",
        "Arras et al. 2019",
        RULES["abs"],
    ),
    lrp("lrp-half", "layer-wise relevance propagation, half and half", "Arjona-Medina et al. 2018", RULES["half"]),
)
