"""The frozen result of an explanation: relevance, words, scores, target, ledger; to and from JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy import checks, readback, tables
from lrpnumpy.checks import LrpError, encodable, library, readable, shown
from lrpnumpy.lazy import cached_property
from lrpnumpy.ledgers import Ledger, ReferenceLedger, SpanLedger
from lrpnumpy.meant import check_plain, door

PAD = "<pad>"  # how padding is written where words are
WIDEST = 100  # blanks before a line of JSON, for each level
UNKNOWN = "[?]"  # behind a word in a picture that the vocabulary does not have


class Mark(IntEnum):
    """What is special about a step."""

    NONE = 0
    UNKNOWN = 1  # a word that the vocabulary does not have
    PADDING = 2  # no part of what was passed in, or skipped


class Span(NamedTuple):
    """A phrase [`start`, `stop`) and its `relevance`."""

    start: int
    stop: int
    relevance: Any


class Part(NamedTuple):
    """One step of the input, at its `position`, and its `relevance`."""

    position: int
    token: str | None  # the word, or the label of the step
    relevance: float


class Hidden(NamedTuple):
    """Relevance of the states of one direction of one layer."""

    layer: int  # its number among the layers
    direction: str  # "forward" or "backward"
    h: np.ndarray  # (T, H)
    c: np.ndarray | None = None  # (T, H), of an LSTM


class InputPart(NamedTuple):
    """What one input of a network got: a series has one relevance a step, a vector has one in all."""

    relevance: np.ndarray  # (T,)
    feature_relevance: np.ndarray | None  # (T, D)
    features: tuple[str, ...] | None  # D names
    tokens: tuple[str, ...] | None  # T words, of an input that is words
    values: np.ndarray | None = None  # (T, D)
    labels: np.ndarray | None = None  # (T,)
    marks: np.ndarray | None = None  # (T,) of Mark; None where nothing is marked


def _features_as_steps(part: InputPart) -> InputPart:
    """Of an input of one step, its features in place of steps; any other is as it is."""
    if part.relevance.shape[-1] > 1 or part.feature_relevance is None or part.tokens is not None:
        return part
    names = part.features or tuple(f"x{d}" for d in range(part.feature_relevance.shape[-1]))
    return part._replace(
        relevance=part.feature_relevance[..., 0, :],
        feature_relevance=None,
        tokens=names,
        values=None if part.values is None else part.values.T,
        labels=None,
        marks=None,
    )


def step_names(part: InputPart | Explanation) -> Sequence[str]:
    """The words, or the labels of the steps as text, or their positions; PAD for padding that is no word."""
    if part.tokens:
        return part.tokens
    T = part.relevance.shape[-1]
    names = tables.shown(part.labels) if part.labels is not None else [*map(str, range(T))]
    if part.marks is None:
        return names
    return [PAD if mark == Mark.PADDING else name for name, mark in zip(names, part.marks, strict=True)]


def shown_steps(part: InputPart | Explanation) -> Sequence[str]:
    """The same as pictures show them, with a mark behind a word that the vocabulary does not have."""
    names = [*map(readable, step_names(part))]
    if part.marks is None:
        return names
    return [f"{n}{UNKNOWN}" if mark == Mark.UNKNOWN else n for n, mark in zip(names, part.marks, strict=True)]


def predicted_at(e: Explanation) -> int:
    """The step whose prediction is explained: the last that the network sees, unless another of these was asked for.

    Padding that the network skips has relevance 0.
    """
    seen, padding = np.arange(len(e)), [*e.padding]
    if padding and len(padding) < len(e) and not e.relevance[..., padding].any():
        seen = np.delete(seen, padding)
    step = (e.options or {}).get("step")
    return int(seen[step if isinstance(step, int) and -len(seen) <= step < len(seen) else -1])


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Why the network said that: one relevance a step, and what else the method gives.

    With target "all" the relevance arrays have a leading axis for the C classes; `for_class` picks one.
    """

    relevance: np.ndarray  # (T,)
    scores: np.ndarray  # (C,) of the explained prediction
    target: int | str  # class index, or "all"
    method: str  # name of the method
    feature_relevance: np.ndarray | None = None  # (T, D)
    tokens: tuple[str, ...] | None = None  # T words, of an input that is words
    probabilities: np.ndarray | None = None  # (C,)
    classes: tuple[str, ...] | None = None  # C names
    features: tuple[str, ...] | None = None  # D names
    options: Any = None  # dict of what the method was called with
    ledger: Ledger | ReferenceLedger | SpanLedger | None = None  # where the score went, of methods that keep one
    hidden: tuple[Hidden, ...] | None = None  # relevance of the states of recurrent layers, with hidden=True
    spans: tuple[Span, ...] | None = None  # the phrases that were asked for
    others: Mapping[str, InputPart] = field(default_factory=dict)  # inputs of the network besides the main one
    name: str = "x"  # of the main input
    values: np.ndarray | None = None  # (T, D) the input as it was passed in, in the user's units; None for words
    labels: np.ndarray | None = None  # (T,) of the steps, such as the index of a DataFrame: datetime64, or strings
    output_unit: str | None = None  # of the scores, such as "mm"
    marks: np.ndarray | None = None  # (T,) of Mark; None where nothing is marked

    def __post_init__(self) -> None:
        hints = {one.name: one.type for one in fields(self) if one.name != "labels"}  # which may be dates and text
        check_plain("Explanation", vars(self), hints)
        self._check_sizes()

    @classmethod
    def _of(cls, **parts: Any) -> Explanation:
        """An explanation of parts whose types are known, as a file has them: only their sizes are checked."""
        one = object.__new__(cls)
        vars(one).update(parts)
        one._check_sizes()
        return one

    def _check_sizes(self) -> None:
        """See that the parts belong together."""
        relevance, C, one = np.asarray(self.relevance), np.shape(self.scores), self.target != "all"
        if len(C) != 1 or relevance.shape[:-1] != C[one:] or not relevance.shape[-1]:
            wanted = "(T,)" if one else f"({np.size(self.scores)}, T)"
            raise LrpError(
                f"Explanation: relevance must have shape {wanted} and scores (C,), got {relevance.shape} and {C}."
            )
        if one and not (checks.is_number(self.target, int) and 0 <= self.target < C[0]):  # type: ignore[operator]
            raise LrpError(
                f"Explanation: target must be 'all' or a class from 0 to {C[0] - 1}, got {checks.shown(self.target)}."
            )
        T = relevance.shape[-1]
        counts = {"tokens": T, "labels": T, "marks": T, "values": T, "classes": C[0], "probabilities": C[0]}
        for name, count in counts.items():
            if (part := getattr(self, name)) is not None and len(part) != count:
                raise LrpError(f"Explanation: {name} must have {count} entries, got {len(part)}.")
        if self.feature_relevance is not None and np.shape(self.feature_relevance)[:-1] != relevance.shape:
            raise LrpError(
                f"Explanation: feature_relevance must have shape {(*relevance.shape, 'D')}, got "
                f"{np.shape(self.feature_relevance)}."
            )

    @property
    def inputs(self) -> dict[str, InputPart]:
        """What each input of the network got, by name; the main one, whose relevance is `relevance`, comes first."""
        main = InputPart(*(getattr(self, name) for name in InputPart._fields))
        return {self.name: main, **self.others}

    @property
    def unknown(self) -> tuple[int, ...]:
        """Positions of the words that the vocabulary does not have."""
        return self._marked(Mark.UNKNOWN)

    @property
    def padding(self) -> tuple[int, ...]:
        """Positions of padding: put there to fill the input up to its length, or skipped by the network."""
        return self._marked(Mark.PADDING)

    def _marked(self, mark: Mark) -> tuple[int, ...]:
        return () if self.marks is None else tuple(np.flatnonzero(self.marks == mark).tolist())

    @property
    def reference_score(self) -> Any:
        """f_c of the reference, of a method that has one; of several the mean."""
        return self.ledger.reference if isinstance(self.ledger, ReferenceLedger) else None

    @door
    def of_input(self, name: str) -> Explanation:
        """The same for the input `name`: what it got stands in `relevance`, `feature_relevance`, `tokens`, `features`.

        An input that is one vector for each record shows its features in place of steps.
        """
        if name not in self.inputs:
            raise LrpError(f"this explanation has the inputs {', '.join(map(repr, self.inputs))}, not {name!r}.")
        if name == self.name:
            return replace(self, others={})
        part = _features_as_steps(self.inputs[name])
        gone: dict[str, Any] = {"ledger": None, "hidden": None, "spans": None, "others": {}}
        return replace(self, **part._asdict(), name=name, **gone)

    def by_feature(self) -> Explanation:
        """Of an explanation of one step, its features in place of steps; any other is as it is."""
        part = _features_as_steps(self.inputs[self.name])
        return self if part.relevance is self.relevance else replace(self, **part._asdict())

    @property
    def is_regression(self) -> bool:
        """Whether what is explained is a quantity, not a class."""
        return self.probabilities is None and (len(self.scores) == 1 or self.output_unit is not None)

    @property
    def prediction(self) -> str:
        """What is explained, in words: "discharge 3.2 mm", and "1.9 mm above the reference" where there is one."""
        self._one_class("prediction")
        unit = f" {self.output_unit}" if self.output_unit else ""
        name = (
            self.name_of(self.target) if self.classes else "score" if len(self.scores) == 1 else f"output {self.target}"
        )
        text = f"{name} {self.scores[self.target]:.4g}{unit}"
        if not isinstance(self.ledger, ReferenceLedger):
            return text
        above = float(self.ledger.score - self.ledger.reference)
        return f"{text}, {abs(above):.4g}{unit} {'above' if above >= 0 else 'below'} the reference"

    def __len__(self) -> int:
        return self.relevance.shape[-1]

    def __repr__(self) -> str:
        return f"<Explanation of {self.name_of(self.target)!r} by {self.method}, {len(self)} steps>"

    def __str__(self) -> str:
        from lrpnumpy.show import terminal

        return terminal.render(self, color="never")

    def _repr_html_(self) -> str:
        from lrpnumpy.show import html

        return html.fragment(self)

    @door
    def name_of(self, target: int | str) -> str:
        """The name of the class `target`, or its number where it has none."""
        if not isinstance(target, str) and not checks.is_number(target, int):
            raise LrpError(f"name_of must get the number of a class, got {checks.shown(target)}.")
        known = self.classes is not None and isinstance(target, (int, np.integer)) and 0 <= target < len(self.classes)
        return self.classes[target] if known else str(target)  # type: ignore[index]

    @door
    def label(self, position: int) -> str:
        """The word at a `position`, or the label of the step, or the position; padding is "<pad>"."""
        return self.step_names[checks.position(position, "position", len(self))]

    @door
    def shown(self, position: int) -> str:
        """The label at a `position` as pictures show it, with a mark behind a word that is not in the vocabulary."""
        return self.shown_steps[checks.position(position, "position", len(self))]

    @cached_property
    def shown_steps(self) -> Sequence[str]:
        """All labels as pictures show them."""
        return shown_steps(self)

    @cached_property
    def step_names(self) -> Sequence[str]:
        """The words, or the labels of the steps as text, or their positions; PAD for padding that is no word."""
        return step_names(self)

    @property
    def predicted(self) -> int:
        """Index of the class with the highest score."""
        return int(np.argmax(self.scores))

    @door
    def for_class(self, target: int | str) -> Explanation:
        """Of an explanation of all classes, that of the class `target`, by index or name."""
        if self.target != "all":
            raise LrpError(
                f"for_class needs an explanation made with target='all', got one of {self.name_of(self.target)!r}."
            )
        c = (
            self.classes.index(target)
            if isinstance(target, str) and self.classes and target in self.classes
            else target
        )
        if isinstance(c, bool) or not isinstance(c, (int, np.integer)) or not 0 <= c < len(self.scores):
            raise LrpError(
                f"for_class: target must be a class from 0 to {len(self.scores) - 1} or a class name, got "
                f"{checks.shown(target)}."
            )

        def pick(value: Any) -> Any:
            return None if value is None else value[c]

        return replace(
            self,
            target=int(c),
            relevance=self.relevance[c],
            feature_relevance=pick(self.feature_relevance),
            ledger=self.ledger and self.ledger.of_class(int(c)),
            hidden=self.hidden and tuple(part._replace(h=part.h[c], c=pick(part.c)) for part in self.hidden),
            spans=self.spans and tuple(span._replace(relevance=span.relevance[c]) for span in self.spans),
            others={
                name: part._replace(relevance=part.relevance[c], feature_relevance=pick(part.feature_relevance))
                for name, part in self.others.items()
            },
        )

    @door
    def top(self, k: int = 5) -> list[Part]:
        """The `k` steps of largest absolute relevance, largest first."""
        self._one_class("top")
        order = np.argsort(-abs(self.relevance), kind="stable")[:k]
        has = self.tokens is not None or self.labels is not None
        return [Part(int(t), self.label(t) if has else None, float(self.relevance[t])) for t in order]

    def to_frame(self) -> Any:
        """A pandas frame, one row a step: position, token, relevance, and one column a variable where there are any.

        Of several inputs a first column, `input`, says whose step it is.
        """
        self._one_class("to_frame")
        pandas = library("pandas", "to_frame")
        if self.others:
            frames = {encodable(name): self.of_input(name).to_frame() for name in self.inputs}
            return pandas.concat(frames, names=["input", None]).reset_index("input").reset_index(drop=True)
        frame = pandas.DataFrame({"position": np.arange(len(self)), "relevance": self.relevance})
        if self.tokens:
            frame.insert(1, "token", [*map(encodable, self.tokens)])
        elif self.labels is not None:
            frame.insert(
                1, "label", self.labels if self.labels.dtype.kind == "M" else [*map(encodable, self.labels.tolist())]
            )
        if self.marks is not None:
            frame["mark"] = ["" if mark == Mark.NONE else Mark(mark).name.lower() for mark in self.marks]
        if self.feature_relevance is not None:
            names = self.features or [f"x{d}" for d in range(self.feature_relevance.shape[1])]
            for d, name in enumerate(map(encodable, names)):
                frame[name] = self.feature_relevance[:, d]
        frame.attrs["prediction"] = encodable(self.prediction)
        return frame

    def _one_class(self, what: str) -> None:
        if self.target == "all":
            raise LrpError(f"{what} needs one class, got an explanation of all; pick one with .for_class(c).{what}().")

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values, ready for JSON."""
        return {
            "format": readback.FORMAT,
            "dtype": str(self.relevance.dtype),
            "method": self.method,
            "target": self.target,
            "options": _plain(dict(self.options or {})),
            "tokens": _plain(self.tokens),
            "marks": _plain(self.marks),
            "classes": _plain(self.classes),
            "features": _plain(self.features),
            "scores": _plain(self.scores),
            "probabilities": _plain(self.probabilities),
            "relevance": _plain(self.relevance),
            "feature_relevance": _plain(self.feature_relevance),
            "spans": self.spans and [_plain(span._asdict()) for span in self.spans],
            "name": self.name,
            "output_unit": self.output_unit,
            "prediction": None if self.target == "all" else self.prediction,
            "values": _plain(self.values),
            "labels": _plain_labels(self.labels),
            "others": {
                name: _plain({**part._asdict(), "labels": _plain_labels(part.labels)})
                for name, part in self.others.items()
            },
            "hidden": self.hidden and [_plain(part._asdict()) for part in self.hidden],
            "ledger": None
            if self.ledger is None
            else {"kind": type(self.ledger).__name__, **_plain(vars(self.ledger))},
        }

    @door
    def to_json(self, **options: Any) -> str:
        """A JSON text; `from_json` reads it back exactly. `options` are those of `json.dumps`, such as indent=1."""
        return dumped(self.to_dict(), options)

    @staticmethod
    def from_json(text: str) -> Explanation:
        """An explanation from the `text` that `to_json` wrote; of other text an error says what is wrong."""
        found = readback.parse(text)
        hidden, spans = found["hidden"], found["spans"]
        found["hidden"] = None if hidden is None else tuple(Hidden(**part) for part in hidden)
        found["spans"] = None if spans is None else tuple(Span(**span) for span in spans)
        found["others"] = {name: InputPart(**part) for name, part in found["others"].items()}
        return Explanation(**found)


def dumped(value: Any, options: dict[str, Any]) -> str:
    """JSON of a result, by options of `json.dumps`."""
    indent = options.get("indent")
    if not (indent is None or isinstance(indent, str) or (checks.is_number(indent, int) and indent <= WIDEST)):
        raise LrpError(f"to_json: indent must be a string or a number up to {WIDEST}, got {checks.shown(indent)}.")
    try:
        return json.dumps(value, **options)
    except (TypeError, ValueError) as error:
        raise LrpError(f"to_json must get options of json.dumps, such as indent=1, got: {error}.") from error


def _plain_labels(labels: np.ndarray | None) -> dict[str, Any] | None:
    """Labels for JSON: dates are text, with their type."""
    return None if labels is None else {"dtype": str(labels.dtype), "text": labels.astype(str).tolist()}


def _plain(value: Any) -> Any:
    """Arrays, records and NumPy numbers as lists and Python numbers."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(part) for part in value]
    return value


class Paged(Sequence[Explanation]):
    """A sequence of explanations, each made when it is asked for, that can be explored in one HTML file."""

    def __getitem__(self, key: Any) -> Any:
        """By position; a list of those of a slice."""
        if isinstance(key, slice):
            try:
                places = range(*key.indices(len(self)))
            except (TypeError, ValueError):  # of other than numbers, and of steps of 0
                raise LrpError(f"a slice of explanations must have whole numbers, got {key!r}.") from None
            return [self._one(k) for k in places]
        return self._one(checks.position(key, "number of an explanation", len(self)))

    def _one(self, k: int) -> Explanation:
        raise NotImplementedError

    @door
    def page(self, path: str | os.PathLike[str], *more: Any, **options: Any) -> None:
        """Write one self-contained HTML file to explore these explanations, with a table of all records.

        path: the file to be made, which ends in .html; one that exists is replaced.
        more: results of the same records by other methods, to choose from and to compare with.
        options: those of lrp.write_page: label, name, title, most, megabytes, take, seed.
        """
        from lrpnumpy.page import write_page

        write_page(path, self, *more, **options)


@dataclass(frozen=True, eq=False)
class Comparison(Paged):
    """Several methods on one input, to print, plot or tabulate: a sequence of `explanations`."""

    explanations: tuple[Explanation, ...]

    def __post_init__(self) -> None:
        given = self.explanations
        if not isinstance(given, tuple) or not all(isinstance(e, Explanation) for e in given):
            raise LrpError(
                f"Comparison: explanations must be a list of which each is an Explanation, got {shown(given)}."
            )
        if not len(self.explanations):
            raise LrpError("Comparison must get at least one explanation, got none.")

    def __len__(self) -> int:
        return len(self.explanations)

    def __getitem__(self, key: Any) -> Any:
        """By position, or by the name of a method."""
        if isinstance(key, str):
            for explanation in self.explanations:
                if explanation.method == key:
                    return explanation
            raise LrpError(f"this comparison has {', '.join(e.method for e in self)}, not {key!r}.")
        return super().__getitem__(key)

    def _one(self, k: int) -> Explanation:
        return self.explanations[k]

    def __str__(self) -> str:
        from lrpnumpy.show import terminal

        return terminal.render_comparison(self, color="never")

    def _repr_html_(self) -> str:
        from lrpnumpy.show import html

        return html.comparison_fragment(self)
