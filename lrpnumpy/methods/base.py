"""What a method is: a row of the table, a record of options, and a function from a forward pass to results.

A method's options are a frozen record. Its defaults, checks, documentation and command-line flags all come from there:

    @dataclass(frozen=True)
    class Mine(Options):
        strength: float = option(1.0, "how strong", check=number, flag=float)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError, non_negative, shown
from lrpnumpy.fields import joined, result_field
from lrpnumpy.layers.base import Keep
from lrpnumpy.ledgers import SpanLedger
from lrpnumpy.model import Model
from lrpnumpy.packed import Batch, Packed
from lrpnumpy.passes import Trace, forward, spread
from lrpnumpy.rules import LRP, Propagation

Unit = Literal["step", "feature"] | None


def option(
    default: Any, text: str, *, check: Callable[..., Any] | None = None, flag: Any = None, typed: str = ""
) -> Any:
    """A field of an options record.

    `text` is its documentation. `check(value, name, model)` returns the checked value. `flag` is how the command line
    reads it: a type, or a tuple of choices; None where it has no flag. `typed` is the flag's documentation where `text`
    names what cannot be typed.
    """
    return field(default=default, metadata={"text": text, "check": check, "flag": flag, "typed": typed or text})


def number(value: Any, name: str, model: Model) -> float:
    """Check of an option that is a number, not negative."""
    return non_negative(value, name)


def switch(value: Any, name: str, model: Model) -> bool:
    """Check of an option that is on or off."""
    if not isinstance(value, (bool, np.bool_)):
        raise LrpError(f"{name} must be True or False, got {shown(value)}.")
    return bool(value)


@dataclass(frozen=True)
class Options:
    """The options of a method that has none."""

    @classmethod
    @cache
    def known(cls) -> dict[str, Any]:
        """The options there are, by name."""
        return {one.name: one for one in fields(cls)}

    @classmethod
    @cache
    def defaults(cls) -> Options:
        """The options of somebody who gives none."""
        return cls()

    @classmethod
    def checked(cls, method: Method, model: Model, given: dict[str, Any]) -> Options:
        """The options as given, each checked; one that the method does not have is an error."""
        if not given:
            return cls.defaults()
        known = cls.known()
        for name in given:
            if name not in known:
                has = f"its options are {', '.join(known)}" if known else "it has no options of its own"
                raise LrpError(f"method {method.name!r} must get options that it has, got {name!r}; {has}.")
        values = {}
        for name, value in given.items():
            check = known[name].metadata["check"]
            values[name] = value if check is None else check(value, name, model)
        return cls(**values)

    def shown(self) -> dict[str, Any]:
        """The options for the record of a result."""
        found = {name: getattr(self, name) for name in self.known()}
        return {name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in found.items() if v is not None}


@dataclass(frozen=True)
class Method:
    """One way to explain a prediction. `keep` says what its forward pass keeps, `run` is the method itself."""

    name: str  # as `explain` takes it
    description: str  # in a line
    cost: str  # in the length T of the sequence
    conserves: str  # what the relevances of one input add up to
    feature_relevance: Literal["free", "on request", "no"]  # whether it has a value for each variable of a step
    reference: str  # the paper that it comes from
    kind: Literal["gradient", "occlusion", "lrp", "cd", "reference"]  # its family
    lrp: LRP | None = None  # its rules, of LRP
    options: type[Options] = field(default=Options, repr=False)  # the record of its options
    keep: Callable[[Request], Keep] = field(default=None, repr=False)  # type: ignore[assignment]
    run: Callable[[Question, list[np.ndarray]], list[Columns]] = field(default=None, repr=False)  # type: ignore[assignment]
    check: Callable[[Request, Model], None] | None = field(default=None, repr=False)  # of options that depend on others
    settle: Callable[[Request, Model, list[Any]], Request] | None = field(default=None, repr=False)  # with the records
    advice: Callable[[Request], str] | None = field(default=None, repr=False)  # what to try where relevance is doubtful
    settings: dict[str, Any] = field(default_factory=dict, repr=False)  # of a method that is a record: for results


class Request(NamedTuple):
    """What is asked for, checked."""

    method: Method
    options: Any  # the method's own record
    unit: Unit
    versus: int | None
    step: int | str  # which prediction, where there is one at every step; "all": that of step k for sequence k
    how: Propagation | None = None  # of LRP: the rules of every node of the model

    @property
    def with_variables(self) -> bool:
        """Whether a value for each variable is asked for."""
        is_free = self.method.feature_relevance == "free" or getattr(self.options, "by_feature", False)
        return self.unit == "feature" or (self.unit is None and is_free)

    @property
    def hidden(self) -> bool:
        """Whether the relevance of hidden states is asked for."""
        return getattr(self.options, "hidden", False)

    def shown(self) -> dict[str, Any]:
        """What was asked for, for the record of a result."""
        return {
            **self.method.settings,
            **self.options.shown(),
            "unit": self.unit,
            "versus": self.versus,
            "step": self.step,
        }


def keep_nothing(request: Request) -> None:
    """What a method keeps of its forward pass that only wants the scores."""


@dataclass(frozen=True, eq=False)
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
    sound: np.ndarray | None = result_field("target sequence", "index", default=None)  # (n,) whether books add up


@cache
def _ones(count: int, dtype: np.dtype) -> np.ndarray:
    return np.ones(count, dtype)


class Question(NamedTuple):
    """One packed batch, and what is asked about it."""

    trace: Trace
    keep: Keep  # what the forward pass kept
    request: Request
    rows: np.ndarray | None  # (n,) row of the prediction that is explained, where there is one at every step
    scores: np.ndarray  # (n, C) of the explained predictions
    spans: list[np.ndarray] | None  # phrases (V, 2) of each sequence

    @property
    def others(self) -> dict[str, Packed]:
        """The inputs besides the main one."""
        return {name: x for name, x in self.trace.inputs.items() if name != self.trace.model.main}

    @property
    def steps(self) -> np.ndarray | None:
        """(n,) step of the explained prediction, where there is one at every step."""
        return None if self.rows is None else self.trace.output.batch.step[self.rows]

    def at(self, targets: np.ndarray) -> np.ndarray:
        """(n,) where the values of the targets stand among all values (n, C), counted through."""
        return targets + np.arange(0, self.scores.size, self.scores.shape[1])

    def sent_back(self, values: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Where a way back starts: values (n, C) of the target, less those of the class it is held against.

        It has the shape of all scores.
        """
        start, at = np.zeros(values.shape, values.dtype), self.at(targets)
        start.put(at, values.take(at))
        if self.request.versus is not None:
            start[:, self.request.versus] -= values[:, self.request.versus]
        if self.rows is None:
            return start
        arrives = np.zeros_like(self.trace.scores)
        arrives[self.rows] = start
        return arrives

    def columns(self, targets: np.ndarray, values: dict[str, np.ndarray]) -> Columns:
        """Results from one value for each variable of each input, (R, D)."""
        summed = {name: one.dot(_ones(one.shape[1], one.dtype)) for name, one in values.items()}  # faster than sum
        shown = values if self.request.with_variables else {}
        inputs = {name: Received(x.batch, summed[name], shown.get(name)) for name, x in self.trace.inputs.items()}
        out = Columns(self.scores, targets, inputs)
        if self.spans is not None:
            words = self.trace.input.batch.split(summed[self.trace.model.main])
            sums = [np.concatenate(([0], np.cumsum(word))) for word in words]
            out.spans = [s[span[:, 1]] - s[span[:, 0]] for s, span in zip(sums, self.spans, strict=True)]
        return out

    def received(self, columns: Columns) -> np.ndarray:
        """(n,) what all inputs of each record got."""
        return sum(one.batch.sums(one.relevance) for one in columns.inputs.values())  # type: ignore[return-value]

    def combined(self, values: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """(n, …, C) to (n, …): the target's value, less that of the class it is held against."""
        out = values[np.arange(len(values)), ..., targets]
        return out if self.request.versus is None else out - values[..., self.request.versus]


def answer(
    model: Model,
    x: dict[str, Packed],
    request: Request,
    targets: np.ndarray | None,
    spans: list[np.ndarray] | None,
    positions: np.ndarray,
    every_class: bool,
    whole: Trace | None = None,
) -> Columns:
    """All results of one packed batch; `positions` say which sequences they are, for errors.

    `whole` is the pass of a sequence that all of them are the beginning of.
    """
    keep = request.method.keep(request)
    trace = (whole and spread(whole, x)) or forward(model, x, keep)
    rows = _explained_rows(trace, request.step, positions) if model.every else None
    scores = trace.scores if rows is None else trace.scores[rows]
    if targets is None and not every_class:
        targets = scores.argmax(axis=1)
        if request.versus is not None and (same := np.flatnonzero(targets == request.versus)).size:
            raise LrpError(
                f"versus must be another class than the one explained, got {request.versus}, which is what the model "
                f"predicts for sequence {positions[same[0]]}; say target=… as well."
            )
    if every_class:
        wanted = [np.full(len(scores), c) for c in range(model.outputs)]
        return joined(request.method.run(Question(trace, keep, request, rows, scores, spans), wanted))
    return request.method.run(Question(trace, keep, request, rows, scores, spans), [targets])[0]  # type: ignore[list-item]


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
