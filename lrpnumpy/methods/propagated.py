"""Methods that propagate one message backward through the network: gradient, gradient × input, and LRP by any rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import numpy as np

from lrpnumpy.checks import LrpError, close_to, non_negative, one_of, shown
from lrpnumpy.kernels import sums
from lrpnumpy.layers import LAYERS
from lrpnumpy.ledgers import ROWS
from lrpnumpy.methods.base import Columns, HiddenRows, Method, Question, Unit
from lrpnumpy.methods.through import Through
from lrpnumpy.model import Model
from lrpnumpy.passes import backward
from lrpnumpy.rules import GRADIENT, Epsilon, Gamma, ProductRule, Relevance, Rule, SumRule, product_rule

TOO_LARGE = 1e6  # times f_c: relevance beyond this is decided by rounding
GAP = 1e-3  # of |f_c|, or |f_c - f_versus|: how much a ledger may miss
MEANINGLESS = "numerically unstable here, so the result is meaningless: "  # in front of what is wrong
GATE_RULES = ("lrp-prop", "lrp-abs", "lrp-half")  # products give relevance to the gate as well
EPS = 0.001
PAPERS = {  # of LRP's product rules: what the rule does, and where it was published
    "all": ("the signal takes all", "Arras et al. 2017"),
    "prop": ("gate and signal in proportion", "Ding et al. 2017"),
    "abs": ("in proportion to absolute values", "Arras et al. 2019"),
    "half": ("half and half", "Arjona-Medina et al. 2018"),
}


@dataclass(frozen=True)
class Gradient(Method):
    """The squared partial derivative of the score, or the derivative times the input.

    times_input: multiply by the input instead of squaring.
    through: a dict of layers and units: only what passes through these units where the layer's output goes to later
        layers.
    """

    times_input: bool = False
    through: Through | None = None

    kind = "gradient"
    named_by = ("times_input",)
    keep = GRADIENT

    def __post_init__(self) -> None:
        row = ("gradient", "squared partial derivative", "squared norm of the gradient", "Li et al. 2016")
        if self.times_input:
            row = ("gradient-x-input", "partial derivative times value", "gradient times input", "Denil et al. 2015")
        vars(self).update(zip(("name", "description", "conserves", "paper"), row, strict=True))

    def multipliers(self, question: Question, targets: np.ndarray) -> dict[str, np.ndarray]:
        """(R, D) of each input: what gradient x input multiplies its values by; of a `question` and its `targets`."""
        if not self.times_input:
            return super().multipliers(question, targets)
        start = question.first_message(np.ones_like(question.scores), targets)
        return backward(question.trace, start, GRADIENT, through=self.through).inputs

    def run(self, question: Question, wanted: list[np.ndarray]) -> list[Columns]:
        """The answers to a `question`, one backward pass for each of the `wanted` targets."""
        out, ones = [], np.ones_like(question.scores)
        for targets in wanted:
            start = question.first_message(ones, targets)
            values = backward(question.trace, start, GRADIENT, through=self.through).inputs
            for name, x in question.trace.inputs.items():
                if x.words is None:  # looked-up words come multiplied by their vectors
                    values[name] = values[name] * (x.rows if self.times_input else values[name])
            out.append(question.columns(targets, values))
        return out


@dataclass(frozen=True)
class LRP(Method):
    """Layer-wise relevance propagation, with a rule for products, rules for sums by layer, and one for attentions.

    product: what gate and signal of a product receive: "all", "prop", "abs", "half", a function of gate, signal and
        eps, or a `Rule`.
    sums: a dict of the sum rules in `lrp.rules`. A key is the name of a layer; "first" or "last" for the layers with a
        weight matrix that are next to the inputs or to the scores; the type of a layer, such as "Dense"; or "default".
        The more specific key wins, in this order.
    eps: the stabilizer of the epsilon rule, used for all sums without a rule in `sums`; 0 is allowed.
    gamma: in Dense and Conv1D layers, terms that have the sign of their sum are weighted by 1 + gamma.
    attention: "fixed" to treat attention weights as constants, or "attnlrp" to propagate through their softmax to
        queries and keys (Achtibat et al. 2024).
    hidden: also compute the relevance of every hidden state of every recurrent layer.
    through: as of `Gradient`; what passes elsewhere is in the ledger, as `rule`.
    """

    product: str | Rule | ProductRule = "all"
    sums: Mapping[str, SumRule] | None = None
    eps: float = EPS
    gamma: float = 0.0
    attention: Literal["fixed", "attnlrp"] = "fixed"
    hidden: bool = False
    through: Through | None = None
    _rules: dict[str, SumRule] = field(init=False, repr=False, compare=False)  # `sums` and the rule of `gamma`
    _everywhere: Relevance = field(init=False, repr=False, compare=False)  # at nodes that no key names

    kind = "lrp"
    named_by = ("product",)
    conserves = "f_c(x), less biases and stabilizer"

    def __post_init__(self) -> None:
        rule = product_rule(self.product)
        name, description, paper = rule.name, "layer-wise relevance propagation by a custom rule", "-"
        if rule._code is not None:
            shares, paper = PAPERS[rule.name]
            name, description = f"lrp-{rule.name}", f"layer-wise relevance propagation, {shares}"
        sums: Any = {} if self.sums is None else self.sums
        if not isinstance(sums, Mapping):
            raise LrpError(f"LRP: sums must be a dict of layers and sum rules, got {shown(sums)}.")
        for key, one in sums.items():
            if not isinstance(one, SumRule):
                raise LrpError(f"LRP: sums[{key!r}] must be a rule such as lrp.rules.Epsilon(0.01), got {shown(one)}.")
        eps, gamma = non_negative(self.eps, "LRP: eps"), non_negative(self.gamma, "LRP: gamma")
        if "default" in sums and eps != EPS:
            raise LrpError(f"LRP: eps must be left out where sums has a 'default', got {shown(self.eps)}.")
        one_of(self.attention, "LRP: attention", ("fixed", "attnlrp"))
        rules = dict(sums)
        if gamma:
            rules = dict.fromkeys(("Dense", "Conv1D"), Gamma(gamma, eps)) | rules
        everywhere = Relevance(rule, rules.get("default") or Epsilon(eps), self.attention == "fixed")
        vars(self).update(name=name, description=description, paper=paper, _rules=rules, _everywhere=everywhere)
        vars(self).update(product=rule, sums=dict(sums) or None, eps=eps, gamma=gamma)

    def prepare(self, model: Model, unit: Unit) -> Relevance:
        """The rules of every node of a `model`, whatever the `unit`."""
        if not self._rules:
            return self._everywhere
        return self._everywhere.with_nodes(resolved(self._rules, model))

    def settings(self, plan: Relevance) -> dict[str, Any]:
        """The options for the record of a result, whatever the `plan`."""
        found = super().settings(plan)
        if self.sums:
            found["sums"] = ", ".join(f"{key}: {rule}" for key, rule in self.sums.items())
        return found

    def advice(self) -> str:
        """What to try where relevance is doubtful."""
        return f"use a larger eps than {self.eps:g}, or {'deeplift' if self.name == 'lrp-all' else 'lrp-all'}"

    def _warning(self, problem: str) -> str:
        """The warning for doubtful relevance: rules that give relevance to gates can lose every digit."""
        if self.name in GATE_RULES:
            return f"{unstable(self.name)}: {problem.removeprefix(MEANINGLESS)}."
        return super()._warning(problem)

    def run(self, question: Question, wanted: list[np.ndarray]) -> list[Columns]:
        """The answers to a `question`, one backward pass for each of the `wanted` targets."""
        out, trace = [], question.trace
        for targets in wanted:
            start = question.first_message(question.scores, targets)
            passed = backward(trace, start, question.request.plan, hidden=self.hidden, through=self.through)
            columns = question.columns(targets, passed.inputs)
            _close(question, columns, passed.ledger)
            if self.hidden:
                numbers = {node.name: k for k, node in enumerate(trace.model.nodes)}
                columns.hidden = [
                    HiddenRows(numbers[name], direction, trace.ran[name].inputs[0].batch, states)
                    for name, found in passed.hidden.items()
                    for direction, states in found
                ]
                columns.hidden.sort(key=lambda one: one.layer)
            out.append(columns)
        return out

    def multipliers(self, question: Question, targets: np.ndarray) -> dict[str, np.ndarray]:
        """(R, D) of each input: relevance per unit of its value, of a `question` that has no value 0 and its `targets`.

        A product of LRP is not kept before it is multiplied by the input, so the input is divided out again.
        """
        start = question.first_message(question.scores, targets)
        passed = backward(question.trace, start, question.request.plan, through=self.through).inputs
        return {name: R / question.trace.inputs[name].rows for name, R in passed.items()}


def resolved(sums: Mapping[str, SumRule], model: Model) -> dict[str, SumRule]:
    """The sum rule of each node of a model that a key names; the most specific key decides."""
    first, last = _ends(model), _ends(model, backward=True)
    keys = {}  # of each node, the most specific first
    for node in model.nodes:
        types = [type(one).__name__ for one in (node.layer, *(part for _, part in node.layer.parts()))]
        ends = [key for key, some in (("first", first), ("last", last)) if node.name in some]
        keys[node.name] = [node.name, *ends, *types]
    known = {"first", "last", "default", *LAYERS, *(key for some in keys.values() for key in some)}
    for key in sums:
        if key not in known:
            advice = close_to(key, known) or f"; the layers of this model are {', '.join(keys)}."
            raise LrpError(f"LRP: sums has no layer or type {key!r} to apply to{advice}")
    chosen = {name: next((key for key in some if key in sums), None) for name, some in keys.items()}
    return {name: sums[key] for name, key in chosen.items() if key is not None}


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


def _close(question: Question, columns: Columns, kept: np.ndarray) -> None:
    """The books: where each score went, from what every node kept (nodes, 6, n); and whether they add up."""
    versus, n = question.request.versus, kept.shape[2]
    books = columns.books = np.zeros((len(ROWS["lrp"]) + len(kept), n), kept.dtype)
    sound = columns.sound = np.empty(n, np.int64)
    first = columns.inputs[question.trace.model.main]
    for one in columns.inputs.values():
        if one is not first:
            books[0] += one.batch.sums(one.relevance)
    versus = -1 if versus is None else versus
    sums.close(
        kept, question.scores, columns.targets, versus, first.relevance, first.batch.owner, *_limits(kept.dtype),
        books, sound,
    )  # fmt: skip


def unstable(name: str) -> str:
    """The sentence about a rule whose relevance is decided by rounding."""
    other = "lrp-all" if name in GATE_RULES else "deeplift"
    return f"{name} is numerically unstable here and its result is meaningless; use {other} or a larger eps"


def is_sound(ledger: Any, score: float) -> bool:
    """Whether the `ledger` of one explanation adds up to its `score`, with relevance that rounding does not decide."""
    missed, size = abs(ledger.total - score), abs(score)
    return bool(missed <= GAP * size and ledger.largest <= TOO_LARGE * size)


@cache
def _limits(dtype: np.dtype) -> tuple[Any, Any, Any]:
    """How far a ledger may miss its score, how large relevance may be, and the rounding, as numbers of `dtype`."""
    return dtype.type(GAP), dtype.type(TOO_LARGE), np.finfo(dtype).eps
