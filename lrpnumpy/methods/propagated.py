"""Methods that send one message back through the network: gradient, gradient × input, and LRP by any rule."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError
from lrpnumpy.kernels import ledger
from lrpnumpy.layers import LAYERS
from lrpnumpy.ledgers import ROWS
from lrpnumpy.methods.base import Columns, HiddenRows, Method, Options, Question, Request, number, option, switch
from lrpnumpy.model import Model
from lrpnumpy.passes import backward
from lrpnumpy.rules import GRADIENT, LRP, Epsilon, Gamma, Propagation, Relevance

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


@dataclass(frozen=True)
class RecordOptions(Options):
    """The options of LRP whose rules are a record."""

    hidden: bool = option(False, "also the relevance of every hidden state of every recurrent layer", check=switch)


def propagation(request: Request) -> Propagation:
    """How messages flow back."""
    if request.method.lrp is None:
        return GRADIENT
    assert request.how is not None  # `settle` has been called
    return request.how


def settle(request: Request, model: Model, encoded: list[Any]) -> Request:
    """The rules of every node, once for each request."""
    rules, options = request.method.lrp, request.options
    assert rules is not None
    if isinstance(options, RecordOptions):
        how = resolved(rules, model)
    elif options.gamma:
        gamma = Gamma(options.gamma, options.eps)
        how = resolved(LRP(rules.product, {"Dense": gamma, "Conv1D": gamma}, options.eps), model)
    else:
        how = Relevance(rules.product, Epsilon(options.eps))
    return request._replace(how=how)


def resolved(rules: LRP, model: Model) -> Relevance:
    """The propagation at each node of a model: the most specific of the keys that name it decides."""
    first, last = _ends(model), _ends(model, backward=True)
    keys = {}  # of each node, the most specific first
    for node in model.nodes:
        types = [type(one).__name__ for one in (node.layer, *(part for _, part in node.layer.parts()))]
        ends = [key for key, some in (("first", first), ("last", last)) if node.name in some]
        keys[node.name] = [node.name, *ends, *types]
    known = {"first", "last", "default", *LAYERS, *(key for some in keys.values() for key in some)}
    for key in rules.sums:
        if key not in known:
            close = difflib.get_close_matches(str(key), known, 1)
            meant = f"did you mean {close[0]!r}?" if close else f"the layers of this model are {', '.join(keys)}."
            raise LrpError(f"LRP: sums has no layer or type {key!r} to apply to; {meant}")
    chosen = {name: next((key for key in some if key in rules.sums), None) for name, some in keys.items()}
    nodes = {name: rules.sums[key] for name, key in chosen.items() if key is not None}
    return Relevance(rules.product, rules.default, rules.attention == "fixed", nodes)


def _ends(model: Model, backward: bool = False) -> set[str]:
    """Nodes with a weight matrix (an array of two or more axes) that no other such node is before; or behind."""
    order = [node.name for node in model.nodes]
    above = {node.name: [source.partition(":")[0] for source in node.inputs] for node in model.nodes}
    if backward:
        order.reverse()
        above = {name: [other for other in order if name in above[other]] for name in order}
    weighty = {node.name for node in model.nodes if any(a.ndim > 1 for _, a in node.layer.all_arrays())}
    covered: set[str] = set()  # nodes with a weight matrix somewhere before them
    for name in order:
        if any(one in covered or one in weighty for one in above[name]):
            covered.add(name)
    return weighty - covered


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
                HiddenRows(numbers[name], direction, trace.ran[name].inputs[0].batch, states)
                for name, found in passed.hidden.items()
                for direction, states in found
            ]
            columns.hidden.sort(key=lambda one: one.layer)
    return columns


def _close(question: Question, columns: Columns, kept: np.ndarray) -> None:
    """The books: where each score went, from what every node kept (nodes, 6, n); and whether they add up."""
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


def _rules_advice(request: Request) -> str:
    return "try a larger eps, or other rules"


def lrp(name: str, description: str, reference: str, rules: LRP, **more: Any) -> Method:
    """LRP by some rules as a method."""
    about: Any = {"options": LrpOptions, "advice": _advice} | more
    return Method(
        name=name,
        description=description,
        cost="Θ(T)",
        conserves="f_c(x), less biases and stabiliser",
        feature_relevance="free",
        reference=reference,
        kind="lrp",
        lrp=rules,
        keep=propagation,
        run=run,
        settle=settle,
        **about,
    )


def of_record(rules: LRP) -> Method:
    """LRP by a record of rules as a method."""
    more = {"options": RecordOptions, "advice": _rules_advice, "settings": rules.shown()}
    return lrp(rules.name, "layer-wise relevance propagation by custom rules", "-", rules, **more)


def _gradient(name: str, description: str, conserves: str, reference: str) -> Method:
    about: Any = {"cost": "Θ(T)", "conserves": conserves, "feature_relevance": "free", "reference": reference}
    return Method(name, description, **about, kind="gradient", keep=propagation, run=run)


METHODS = (
    _gradient("gradient", "squared partial derivative", "squared norm of the gradient", "Li et al. 2016"),
    _gradient("gradient-x-input", "partial derivative times value", "gradient times input", "Denil et al. 2015"),
)
LRP_METHODS = (
    lrp("lrp-all", "layer-wise relevance propagation, the signal takes all", "Arras et al. 2017", LRP("all")),
    lrp("lrp-prop", "layer-wise relevance propagation, gate and signal in proportion", "Ding et al. 2017", LRP("prop")),
    lrp(
        "lrp-abs",
        "layer-wise relevance propagation, in proportion to absolute values",
        "Arras et al. 2019",
        LRP("abs"),
    ),
    lrp("lrp-half", "layer-wise relevance propagation, half and half", "Arjona-Medina et al. 2018", LRP("half")),
)
