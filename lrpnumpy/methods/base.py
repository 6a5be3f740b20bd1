"""What a method is: a frozen record whose fields are its options, with functions from a forward pass to results.

A field is documented by its line in the docstring of the record. Checks, command-line flags, the live page and the
documentation come from there:

    @dataclass(frozen=True)
    class Mine(Method):
        \"\"\"What it computes.

        strength: how strong.
        \"\"\"

        strength: float = 1.0
"""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import cache
from typing import Any, Literal, NamedTuple, Self, get_args, get_origin, get_type_hints

import numpy as np

from lrpnumpy import meant
from lrpnumpy.checks import LrpError
from lrpnumpy.encode import EncodedRecord
from lrpnumpy.fields import joined, result_field
from lrpnumpy.layers.base import Keep
from lrpnumpy.ledgers import SpanLedger
from lrpnumpy.model import Model
from lrpnumpy.packed import Batch, Packed
from lrpnumpy.passes import SequenceWindows, Trace, forward, spread
from lrpnumpy.result import Players

Unit = Literal["step", "feature"] | None
OTHER_NAMES = {  # of options, in other libraries and in earlier versions
    "alpha": "eps", "background": "reference", "baseline": "reference", "baselines": "reference", "epsilon": "eps",
    "how": "reference", "n_steps": "nodes", "references": "reference", "remove": "reference", "stabilizer": "eps",
    "steps": "nodes",
}  # fmt: skip


def suggested(name: str, known: Iterable[str], other_names: Mapping[str, str]) -> str | None:
    """The known name that was probably meant, if there is one."""
    plain = re.sub(r"[\s_]+", "-", str(name).strip().lower())
    by_plain = {one.lower(): one for one in known}
    plain = other_names.get(plain.replace("-", "_"), other_names.get(plain, plain))
    close = get_close_matches(plain, by_plain, 1)
    return by_plain[close[0]] if close else None


def unknown_option(name: str, what: str, known: Iterable[str]) -> LrpError:
    """The error for an option that a method does not have, with the one that was probably meant."""
    near = suggested(name, known, OTHER_NAMES)
    advice = f"did you mean {near}?" if near else f"its options are {', '.join(known) or 'none'}."
    return LrpError(f"unknown option {name!r} for {what}; {advice}")


def documented(doc: str) -> dict[str, str]:
    """The entries of a docstring by name: "eps: the stabilizer."; further lines of an entry are indented."""
    entries = re.findall(r"^(\w+): (.*(?:\n +.*)*)", doc, re.MULTILINE)
    return {name: " ".join(text.split()).removesuffix(".") for name, text in entries}


class Option(NamedTuple):
    """An option of a method."""

    default: Any  # value
    text: str  # its documentation
    kind: Literal["number", "whole", "text", "choice", ""]  # of what is typed for it; "" where nothing can be
    choices: tuple[str, ...] = ()  # of the kind "choice"


def _option(default: Any, text: str, hint: Any) -> Option:
    kinds: Any = get_args(hint) or (hint,)
    if get_origin(hint) is Literal:
        return Option(default, text, "choice", kinds)
    known: Any = {str: "text", float: "number", int: "whole"}
    return Option(default, text, next((name for kind, name in known.items() if kind in kinds), ""))


class Method(ABC):
    """One way to explain a prediction. The fields of its records are its options, checked when one is made."""

    name: str  # as `explain` takes it
    description: str  # in a line
    cost: str = "Θ(T)"  # in the length T of the sequence
    conserves: str = "-"  # what the relevances of one input add up to
    feature_relevance: Literal["free", "on request", "no"] = "free"  # whether it has a value for each feature of a step
    paper: str  # that it comes from
    kind: Literal["gradient", "occlusion", "lrp", "cd", "reference"]  # its family
    named_by: tuple[str, ...] = ()  # fields that the name decides
    keep: Keep = None  # what the forward pass keeps
    further: tuple[Keep, ...] = ()  # what forward passes of references and other inputs keep
    hidden: bool = False  # whether the relevance of hidden states is wanted
    _given: set[str]  # the fields that were given when the record was made
    takes_windows: bool = True  # whether it explains windows of a sequence, see `passes.SequenceWindows`

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__post_init__" in vars(cls):
            cls.__post_init__ = meant.record(cls.__post_init__, cls)  # type: ignore[attr-defined]

    def __new__(cls, *values: Any, **given: Any) -> Self:
        """A record that remembers which of its fields were given, so that a call cannot give them again."""
        if inspect.isabstract(cls):
            raise LrpError(f"{cls.__name__} is a base class, got a call; use a method such as lrp.LRP().")
        names = [name for name, one in getattr(cls, "__dataclass_fields__", {}).items() if one.init]
        for name in given:
            if name not in names:
                raise unknown_option(name, f"lrp.{cls.__name__}", names)
        method = super().__new__(cls)
        object.__setattr__(method, "_given", {*names[: len(values)], *given})
        return method

    @classmethod
    @cache
    def options(cls) -> dict[str, Option]:
        """The options that a call may give besides the method's name, by name."""
        texts: dict[str, str] = {}
        for kind in reversed(cls.__mro__):
            texts |= documented(inspect.cleandoc(vars(kind).get("__doc__") or ""))
        hints = get_type_hints(cls)
        own = [one for one in fields(cls) if one.init and one.name not in cls.named_by]  # type: ignore[arg-type]
        return {one.name: _option(one.default, texts.get(one.name, ""), hints[one.name]) for one in own}

    def with_options(self, given: dict[str, Any]) -> Self:
        """This method with the options `given` in a call."""
        known = self.options()
        for name in given:
            if name not in known:
                raise unknown_option(name, self.name, known)
            if name in self._given:
                raise LrpError(f"{name} is given twice, in lrp.{type(self).__name__} and in the call; leave one out.")
        return replace(self, **given)  # type: ignore[type-var]

    def prepare(self, model: Model, unit: Unit) -> Any:
        """What the method needs of a `model`, once for each request; an error where `unit` or options do not fit."""
        return None

    def settle(self, request: Request, model: Model, encoded: list[EncodedRecord]) -> Request:
        """The `request` to a `model`, with options that depend on the `encoded` records."""
        return request

    @abstractmethod
    def run(self, question: Question, wanted: list[np.ndarray]) -> list[Columns]:
        """The answers to a `question`, one for each of the `wanted` targets."""

    def multipliers(self, question: Question, targets: np.ndarray) -> dict[str, np.ndarray]:
        """(R, D) of each input: what differences from 0 or a reference are multiplied by, of a `question` and its
        `targets`; an error for a method without multipliers.
        """
        raise LrpError(f"method must multiply the input, like an LRP, deeplift or gradient-x-input, got {self.name}.")

    def settings(self, plan: Any) -> dict[str, Any]:
        """The options for the record of a result; `plan` is what `prepare` returned."""
        return {name: value for name in self.options() if (value := getattr(self, name)) is not None}

    def advice(self) -> str:
        """What to try where relevance is doubtful."""
        return ""

    def _warning(self, problem: str) -> str:
        """The warning for doubtful relevance, because of a `problem`."""
        advice = self.advice()
        return f"{self.name}: {problem}{'; ' if advice else ''}{advice}."


def has_features(method: Method, unit: Unit) -> bool:
    """Whether a result of the method has a value for each feature, where this `unit` is requested."""
    return unit == "feature" or (unit is None and method.feature_relevance == "free")


class Request(NamedTuple):
    """A checked request."""

    method: Method
    unit: Unit
    by_feature: bool  # whether a value for each feature is wanted
    versus: int | None
    step: int | str  # which prediction, where there is one at every step; "all": that of step k for sequence k
    plan: Any  # what `Method.prepare` made of the options for the model
    keep: Keep  # what the forward pass keeps
    options: dict[str, Any]  # those of the call, for the record of a result
    newest: int | None = None  # of step="all": how many of the newest steps of each prediction are explained


@dataclass(eq=False)
class Received:
    """What one input of some sequences received."""

    batch: Batch
    relevance: np.ndarray = result_field("target row", unit="output")  # (R,)
    feature_relevance: np.ndarray | None = result_field("target row feature", unit="output", default=None)  # (R, D)


@dataclass(frozen=True, eq=False)
class HiddenRows:
    """Relevance of the states of one direction of one layer, of some sequences."""

    layer: int
    direction: str
    batch: Batch
    states: np.ndarray = result_field("target state row neuron", unit="output")


@dataclass(eq=False)
class Columns:
    """Results of some sequences: packed rows (R, …) or one row per sequence (n, …); with target "all" axis C first."""

    scores: np.ndarray = result_field("sequence output", unit="output")  # (n, C)
    targets: np.ndarray = result_field("target sequence", "index")  # (n,)
    inputs: dict[str, Received] = result_field(kind="record")  # by name
    books: np.ndarray | None = result_field("target entry sequence", unit="output", default=None)  # `ledgers.by_name`
    spans: list[np.ndarray] | None = result_field("target phrase", default=None)  # for each sequence (V,)
    cd: list[SpanLedger] | None = result_field(kind="record", default=None)  # for each sequence
    hidden: list[HiddenRows] | None = result_field(kind="record", default=None)
    players: list[Players] | None = result_field(kind="record", default=None)  # for each sequence
    sound: np.ndarray | None = result_field("target sequence", "index", default=None)  # (n,) whether books add up


@cache
def _ones(count: int, dtype: np.dtype) -> np.ndarray:
    return np.ones(count, dtype)


class Question(NamedTuple):
    """One packed batch, and the request."""

    trace: Trace
    request: Request
    rows: np.ndarray | None  # (n,) row of the prediction that is explained, where there is one at every step
    scores: np.ndarray  # (n, C) of the explained predictions
    spans: list[np.ndarray] | None  # phrases (V, 2) of each sequence

    @property
    def steps(self) -> np.ndarray | None:
        """(n,) step of the explained prediction, where there is one at every step."""
        return None if self.rows is None else self.trace.output.batch.step[self.rows]

    def first_message(self, values: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Where the backward pass starts: values (n, C) of the target, less those of the class it is held against.

        It has the shape of all scores.
        """
        start, every = np.zeros(values.shape, values.dtype), np.arange(len(targets))
        start[every, targets] = values[every, targets]
        if self.request.versus is not None:
            start[:, self.request.versus] -= values[:, self.request.versus]
        if self.rows is None:
            return start
        arrives = np.zeros_like(self.trace.scores)
        arrives[self.rows] = start
        return arrives

    def columns(self, targets: np.ndarray, values: dict[str, np.ndarray]) -> Columns:
        """Results from one value for each variable of each input, (R, D)."""
        inputs, by_feature = {}, self.request.by_feature
        for name, each in values.items():
            summed = each.dot(_ones(each.shape[1], each.dtype))  # faster than sum
            inputs[name] = Received(self.trace.inputs[name].batch, summed)
            if by_feature:
                inputs[name].feature_relevance = each
        out = Columns(self.scores, targets, inputs)
        if self.spans is not None:
            first = inputs[self.trace.model.main]
            sums = [np.concatenate(([0], np.cumsum(word))) for word in first.batch.split(first.relevance)]
            out.spans = [s[span[:, 1]] - s[span[:, 0]] for s, span in zip(sums, self.spans, strict=True)]
        return out

    def summed(self, values: dict[str, np.ndarray]) -> np.ndarray:
        """(n,) the sum of one value for each variable of each input, (R, D)."""
        return sum(self.trace.inputs[name].batch.sums(each.sum(axis=1)) for name, each in values.items())  # type: ignore[return-value]

    def received(self, columns: Columns) -> np.ndarray:
        """(n,) the relevance of all inputs of each record."""
        return sum(one.batch.sums(one.relevance) for one in columns.inputs.values())  # type: ignore[return-value]

    def combined(self, values: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """(n, …, C) to (n, …): the target's value, less that of the class it is held against."""
        out = values[np.arange(len(values)), ..., targets]
        if self.request.versus is None:
            return out
        return out - values[..., self.request.versus]


class PackedRecords(NamedTuple):
    """Records of a request, as one packed batch."""

    x: dict[str, Packed]  # by input
    positions: np.ndarray  # (n,) which records of the request they are
    targets: Any = None  # (n,) classes; None for the predicted ones, or "all"
    spans: list[np.ndarray] | None = None  # phrases (V, 2) of each record
    # the forward pass of a sequence that all of them are the beginning of, or the windows that they are
    whole: Trace | SequenceWindows | None = None


def answer(model: Model, request: Request, records: PackedRecords) -> Columns:
    """All results of one packed batch."""
    question, targets = question_of(model, request, records), records.targets
    scores = question.scores
    if isinstance(targets, str):
        return joined(request.method.run(question, [np.full(len(scores), c) for c in range(model.outputs)]))
    if targets is None:
        targets = np.argmax(scores, axis=1)
        if request.versus is not None and (same := np.flatnonzero(targets == request.versus)).size:
            raise LrpError(
                f"versus must be another class than the one explained, got {request.versus}, which is what the model "
                f"predicts for sequence {records.positions[same[0]]}; say target=… as well."
            )
    return request.method.run(question, [targets])[0]


def question_of(model: Model, request: Request, records: PackedRecords) -> Question:
    """The forward pass of one packed batch with the request."""
    step, x, whole = request.step, records.x, records.whole
    if isinstance(whole, SequenceWindows):
        trace, step = forward(model, x, request.keep, whole), -1
    else:
        trace = (whole and spread(whole, x)) or forward(model, x, request.keep)
    if not model.every:
        return Question(trace, request, None, trace.output.rows, records.spans)
    rows = _explained_rows(trace, step, records.positions)
    return Question(trace, request, rows, trace.output.rows[rows], records.spans)


def _explained_rows(trace: Trace, step: int | str, positions: np.ndarray) -> np.ndarray:
    """The packed row whose prediction is explained, of each sequence."""
    batch = trace.output.batch
    asked = positions if isinstance(step, str) else np.array(step)
    steps = np.where(asked < 0, batch.lengths + asked, asked)
    if len(wrong := np.flatnonzero((steps < 0) | (steps >= batch.lengths))):
        length = batch.lengths[wrong[0]]
        raise LrpError(
            f"step must lie from {-length} to {length - 1} for sequence {positions[wrong[0]]} of {length} steps, "
            f"got {step}."
        )
    return batch.first[steps] + np.arange(batch.n)
