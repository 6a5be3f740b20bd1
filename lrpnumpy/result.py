"""The frozen result of an explanation: what each input received, scores, target, ledger; to and from JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lrpnumpy import checks, fields, readback, tables
from lrpnumpy.activations import probabilities
from lrpnumpy.checks import LrpError, encodable, library, readable
from lrpnumpy.fields import result_field
from lrpnumpy.lazy import cached_property
from lrpnumpy.ledgers import LEDGERS, AnyLedger, ReferenceLedger
from lrpnumpy.meant import door
from lrpnumpy.verdict import Evidence

if TYPE_CHECKING:
    import pandas as pd
    import shap
    from matplotlib.figure import Figure

PAD = "<pad>"  # how padding is written where words are
WIDEST = 100  # blanks before a line of JSON, for each level
UNKNOWN = "[?]"  # behind a word in a picture that the vocabulary does not have


class Mark(IntEnum):
    """What is special about a step."""

    NONE = 0
    UNKNOWN = 1  # a word that the vocabulary does not have
    PADDING = 2  # no part of what was passed in, or skipped


class TopStep(NamedTuple):
    """One step of the input, at its `position`, and its `relevance`."""

    position: int
    token: str | None  # the word, or the label of the step
    relevance: float


@dataclass(frozen=True, eq=False)
class Span:
    """A phrase [`start`, `stop`) and its `relevance`."""

    start: int = result_field(kind="index")
    stop: int = result_field(kind="index")
    relevance: Any = result_field("target", unit="output")


@dataclass(frozen=True, eq=False)
class Hidden:
    """Relevance of the states of one direction of one layer."""

    layer: int = result_field(kind="index")  # its number among the layers
    direction: str = result_field(kind="text")  # "forward" or "backward"
    h: np.ndarray = result_field("target step neuron", unit="output")  # (T, H)
    c: np.ndarray | None = result_field("target step neuron", unit="output", default=None)  # (T, H), of an LSTM


@dataclass(frozen=True, eq=False)
class Players:
    """What the players of a Shapley value receive, and what any two of them do only together.

    names: P features, or windows of steps.
    relevance: (P,) Shapley values.
    error: (P,) their standard errors, where orders were drawn.
    interactions: (P, P) by order=2, Shapley-Taylor: what each does alone, and half of what two do only together on both
        sides of the diagonal. A row adds up to the player's relevance.
    """

    names: tuple[str, ...] = result_field("player", "text")
    relevance: np.ndarray = result_field("target player", unit="output")
    error: np.ndarray | None = result_field("target player", unit="output", default=None)
    interactions: np.ndarray | None = result_field("target player player", unit="output", default=None)


@dataclass(frozen=True, eq=False)
class InputPart:
    """What one input of a network received: a series has one relevance per step, a vector has one in all."""

    relevance: np.ndarray = result_field("target step", unit="output")  # (T,)
    feature_relevance: np.ndarray | None = result_field("target step feature", unit="output", default=None)  # (T, D)
    features: tuple[str, ...] | None = result_field("feature", "text", default=None)  # D names
    tokens: tuple[str, ...] | None = result_field("step", "text", default=None)  # T words, of an input that is words
    values: np.ndarray | None = result_field("step feature", "value", unit="input", default=None)  # (T, D) as passed in
    labels: np.ndarray | None = result_field("step", "label", default=None)  # (T,) datetime64, or strings
    marks: np.ndarray | None = result_field("step", "mark", default=None)  # (T,) of Mark; None where nothing is marked

    @cached_property
    def step_names(self) -> Sequence[str]:
        """The words, or the labels of the steps as text, or their positions; PAD for padding that is not a word."""
        if self.tokens:
            return self.tokens
        positions = [*map(str, range(self.relevance.shape[-1]))]
        names: Sequence[str] = positions if self.labels is None else tables.shown(self.labels)
        if self.marks is None:
            return names
        return [PAD if mark == Mark.PADDING else name for name, mark in zip(names, self.marks, strict=True)]

    @cached_property
    def shown_steps(self) -> Sequence[str]:
        """The same as pictures show them, with a mark behind a word that the vocabulary does not have."""
        names = [*map(readable, self.step_names)]
        if self.marks is None:
            return names
        return [f"{n}{UNKNOWN}" if mark == Mark.UNKNOWN else n for n, mark in zip(names, self.marks, strict=True)]

    @property
    def feature_names(self) -> Sequence[str]:
        """Names of the features that have a relevance each; x0, x1, … where they have none."""
        if self.feature_relevance is None:
            return ()
        return self.features or [f"x{d}" for d in range(self.feature_relevance.shape[-1])]

    def with_groups(self, groups: Mapping[str, Sequence[str]]) -> InputPart:
        """The same with the columns of each group as one feature; for a single step its name shows the column that is
        set.

        groups: names of columns by the name of their group.
        """
        columns = {column: name for name, some in groups.items() for column in some}
        if self.feature_relevance is None or self.features is None or not {*columns} & {*self.features}:
            return self
        place: dict[str, int] = {}
        index = np.array([place.setdefault(columns.get(name, name), len(place)) for name in self.features])
        is_of = (index[:, None] == np.arange(len(place))).astype(self.feature_relevance.dtype)  # (D, groups)
        relevance = self.feature_relevance @ is_of
        names, values = [*place], None
        if self.values is not None:
            values = np.full((len(self.values), len(place)), np.nan)  # a group has no number
            single = [d for d, name in enumerate(self.features) if name not in columns]
            values[:, index[single]] = self.values[:, single]
            for name in groups:
                own = [d for d, column in enumerate(self.features) if columns.get(column) == name]
                if own and len(self.values) == 1:
                    column = self.features[own[int(np.argmax(self.values[0, own]))]]
                    names[place[name]] = f"{name} = {column.removeprefix(name).lstrip('_=:. ') or column}"
        return replace(self, feature_relevance=relevance, features=tuple(names), values=values)

    def features_as_steps(self) -> InputPart:
        """Of an input of one step, its features in place of steps; any other is as it is."""
        if self.relevance.shape[-1] > 1 or self.feature_relevance is None or self.tokens is not None:
            return self
        values = None if self.values is None else self.values.T
        return InputPart(self.feature_relevance[..., 0, :], tokens=tuple(self.feature_names), values=values)


class Origin(NamedTuple):
    """What an explanation is of: the `model`, its input as the network takes it, the `request`. It is not stored."""

    model: Any
    record: Any
    request: Any = None


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """The explanation of one prediction: the relevance of each input, the score, the ledger and the evidence.

    `relevance`, `feature_relevance`, `tokens`, `values`, `labels`, `marks` and `features` are those of the first input.
    With target "all" the relevance arrays have a leading axis for the C classes; `for_class` picks one. As an array,
    `np.asarray(e)`, it is its relevance.
    """

    # what each input of the network received, by name
    inputs: Mapping[str, InputPart] = result_field("input", "record", of=[InputPart])
    scores: np.ndarray = result_field("output", unit="output")  # (C,) of the explained prediction
    target: int | str = result_field(kind="target")  # class index, or "all"
    method: str = result_field(kind="text")  # name of the method
    activation: str | None = result_field(kind="text", default=None)  # of the output: "softmax" or "sigmoid", if any
    classes: tuple[str, ...] | None = result_field("output", "text", default=None)  # C names
    options: Any = result_field(kind="options", default=None)  # dict of what the method was called with
    # where the score went, if the method has a ledger
    ledger: AnyLedger | None = result_field(kind="record", default=None, of=[*LEDGERS.values()])
    # of recurrent states, by hidden=True
    hidden: tuple[Hidden, ...] | None = result_field("entry", "record", default=None, of=[Hidden])
    spans: tuple[Span, ...] | None = result_field("entry", "record", default=None, of=[Span])  # of the request
    players: Players | None = result_field(kind="record", default=None, of=[Players])  # of Shapley values
    output_unit: str | None = result_field(kind="text", default=None)  # of the scores, such as "mm"
    # by `evidence()`, once it is computed
    tested: Evidence | None = result_field(kind="record", default=None, of=[Evidence])
    # by "compiled" kernels in the model's dtype, by these in float64 where that was too short, or by "numpy" in float64
    computed: str | None = result_field(kind="text", default=None)  # "compiled", "compiled, float64" or "numpy"
    source: Origin | None = field(default=None, repr=False)  # None for a result that was read from a file

    def __post_init__(self) -> None:
        c: Any
        every_class = isinstance(self.target, str) and self.target == "all"
        if not isinstance(self.scores, np.ndarray) or self.scores.ndim != 1:  # its length is needed for the others
            raise LrpError(f"Explanation: scores must be an array of shape (C,), got {checks.shown(self.scores)}.")
        C = len(self.scores)
        readback.check(self, "Explanation", {"output": C, "target": C} if every_class else {"output": C})
        for name, c, wanted in (("target", self.target, "'all' or a class"), ("versus", self.versus, "a class")):
            is_class = checks.is_number(c, int) and 0 <= c < C
            if not is_class and not (every_class if name == "target" else c is None):
                raise LrpError(f"Explanation: {name} must be {wanted} from 0 to {C - 1}, got {checks.shown(c)}.")
        if self.source is not None and type(self.source) is not Origin:
            raise LrpError(f"Explanation: source must be None, got {checks.shown(self.source)}.")
        for span in self.spans or ():
            if not span.start < span.stop <= len(self):
                raise LrpError(f"Explanation: spans must lie among {len(self)} steps, got {span.start} to {span.stop}.")

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "source": None}

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.relevance, dtype, copy=copy)

    @property
    def first(self) -> InputPart:
        """What the first input received."""
        return next(iter(self.inputs.values()))

    @property
    def relevance(self) -> np.ndarray:
        """(T,) of every step of the first input; (C, T) with target "all"."""
        return self.first.relevance

    @property
    def feature_relevance(self) -> np.ndarray | None:
        """(T, D) of every feature of the first input; (C, T, D) with target "all"."""
        return self.first.feature_relevance

    @property
    def tokens(self) -> tuple[str, ...] | None:
        """T words of the first input, if it is words."""
        return self.first.tokens

    @property
    def values(self) -> np.ndarray | None:
        """(T, D) values of the first input, as passed in."""
        return self.first.values

    @property
    def labels(self) -> np.ndarray | None:
        """(T,) dates or names of the steps of the first input."""
        return self.first.labels

    @property
    def marks(self) -> np.ndarray | None:
        """(T,) of Mark: unknown words and padding of the first input."""
        return self.first.marks

    @property
    def features(self) -> tuple[str, ...] | None:
        """D names of the features of the first input."""
        return self.first.features

    @property
    def versus(self) -> int | None:
        """The class that the target is contrasted with, if there is one."""
        return (self.options or {}).get("versus")

    @property
    def score(self) -> Any:
        """The explained score: f_target, or f_target - f_versus; of every class with target "all"."""
        score = self.scores if self.target == "all" else self.scores[self.target]
        return score if self.versus is None else score - self.scores[self.versus]

    @cached_property
    def probabilities(self) -> np.ndarray | None:
        """(C,) of the scores by the output's activation; None where it has none."""
        with np.errstate(all="ignore"):
            return probabilities(self.activation, self.scores)

    @property
    def predicted(self) -> int:
        """Index of the class with the highest score."""
        return int(np.argmax(self.scores))

    @property
    def predicted_at(self) -> int:
        """The step whose prediction is explained: the last that the network sees, unless another was asked for.

        Padding that the network skips has relevance 0.
        """
        seen, padding = np.arange(len(self)), [*self.padding]
        if padding and len(padding) < len(self) and not self.relevance[..., padding].any():
            seen = np.delete(seen, padding)
        step = (self.options or {}).get("step")
        if not isinstance(step, int) or not -len(seen) <= step < len(seen):
            step = -1
        return int(seen[step])

    @property
    def unknown(self) -> tuple[int, ...]:
        """Positions of the words that the vocabulary does not have."""
        return self._marked(Mark.UNKNOWN)

    @property
    def padding(self) -> tuple[int, ...]:
        """Positions of padding: put there to fill the input up to its length, or skipped by the network."""
        return self._marked(Mark.PADDING)

    def _marked(self, mark: Mark) -> tuple[int, ...]:
        if self.marks is None:
            return ()
        return tuple(np.flatnonzero(self.marks == mark).tolist())

    @property
    def reference_score(self) -> Any:
        """f_c of the reference, of a method that has one; of several the mean."""
        return self.ledger.reference if isinstance(self.ledger, ReferenceLedger) else None

    @door
    def of_input(self, name: str) -> Explanation:
        """The same for the input `name` alone, which is then the first.

        An input that is one vector for each record shows its features in place of steps.
        """
        if name not in self.inputs:
            raise LrpError(f"this explanation has the inputs {', '.join(map(repr, self.inputs))}, not {name!r}.")
        part = self.inputs[name]
        if len(self.inputs) == 1:
            return self
        whole = replace(self, inputs={name: part}, source=None)
        if part is self.first:
            return whole
        return replace(whole, inputs={name: part.features_as_steps()}, ledger=None, hidden=None, spans=None)

    def with_first(self, **changes: Any) -> Explanation:
        """The same with `changes` of fields of the first input: `e.with_first(values=None)`."""
        for changed in changes:
            checks.one_of(changed, "with_first: a field", [row.name for row in fields.table(InputPart)])
        name = next(iter(self.inputs))
        return replace(self, inputs={**self.inputs, name: replace(self.first, **changes)}, tested=None)

    @door
    def with_groups(self, groups: Mapping[str, Sequence[str]]) -> Explanation:
        """The same with columns that belong together, such as those of a one-hot code, as one feature.

        groups: names of columns by the name of their group: {"ward": ["ward_icu", "ward_cardiac"]}. Their relevance
            is summed; an input of one step then has one bar "ward = cardiac".
        """
        if not isinstance(groups, Mapping) or not all(isinstance(some, (list, tuple)) for some in groups.values()):
            raise LrpError(f"groups must be a dict of name to a list of columns, got {checks.shown(groups)}.")
        known = [name for part in self.inputs.values() for name in part.features or ()]
        for column in [column for some in groups.values() for column in some]:
            checks.one_of(column, "groups: a column", known)
        if self.source is not None and self.target != "all":
            self.evidence()
        inputs = {name: part.with_groups(groups) for name, part in self.inputs.items()}
        return replace(self, inputs=inputs, source=None)

    def by_feature(self) -> Explanation:
        """Of an explanation of one step, its features in place of steps; any other is as it is."""
        part = self.first.features_as_steps()
        inputs = {**self.inputs, next(iter(self.inputs)): part}
        return self if part is self.first else replace(self, inputs=inputs, source=None)

    def evidence(self) -> Evidence:
        """What experiments say: inputs are replaced, and the change of the score is compared with their relevance.

        It is kept in `tested`, and stored with the result. For a result that was read from a file, use `lrp.evidence`.
        """
        self._one_class("evidence")
        if self.tested is None:
            self._check_complete()
            if self.source is None:
                raise LrpError(
                    "evidence needs the network and its input, which this explanation does not hold; test the one that "
                    "explain returned, or if this is read from a file, use lrp.evidence(model, x, e)."
                )
            from lrpnumpy.evidence import evidence_of

            vars(self)["tested"] = evidence_of(self.source.model, [self.source.record], [self])[0]
        assert self.tested is not None
        return self.tested

    @property
    def is_regression(self) -> bool:
        """Whether what is explained is a quantity, not a class."""
        return self.probabilities is None and (len(self.scores) == 1 or self.output_unit is not None)

    @property
    def prediction(self) -> str:
        """What is explained, in words: "discharge 3.2 mm", and "1.9 mm above the reference" where there is one."""
        self._one_class("prediction")
        unit = f" {self.output_unit}" if self.output_unit else ""
        unnamed = "score" if len(self.scores) == 1 else f"output {self.target}"
        name = self.name_of(self.target) if self.classes else unnamed
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
        from lrpnumpy.page import card

        return card(self)

    @door
    def plot(self, **options: Any) -> Figure:
        """The picture of lrp.plot that fits: a sentence of words, a map of features and steps, else signals.

        options: those of the picture, such as ax, width and title.
        """
        from lrpnumpy.show import plot

        if self.tokens is not None and len(self.inputs) == 1:
            return plot.sentence(self, **options)
        if all(part.feature_relevance is not None or part.tokens is not None for part in self.inputs.values()):
            return plot.feature_map(self, **options)
        return plot.series(self, **options)

    @door
    def name_of(self, target: int | str) -> str:
        """The name of the class `target`, or its number where it has none."""
        if isinstance(target, str):
            return target
        if not checks.is_number(target, int):
            raise LrpError(f"name_of: got {checks.shown(target)}; pass the number of a class.")
        classes = self.classes or ()
        return classes[target] if 0 <= target < len(classes) else str(target)

    @door
    def shown(self, position: int) -> str:
        """The label at a `position` as pictures show it, with a mark behind a word that is not in the vocabulary."""
        return self.first.shown_steps[checks.position(position, "position", len(self))]

    @property
    def step_names(self) -> Sequence[str]:
        """All labels: the words, or the labels of the steps as text, or their positions; PAD for padding."""
        return self.first.step_names

    @property
    def shown_steps(self) -> Sequence[str]:
        """All labels as pictures show them, with a mark behind a word that is not in the vocabulary."""
        return self.first.shown_steps

    @door
    def for_class(self, target: int | str) -> Explanation:
        """Of an explanation of all classes, that of the class `target`, by index or name."""
        if self.target != "all":
            raise LrpError(f"for_class needs an explanation made with target='all', got one of class {self.target}.")
        c: Any
        names, C = self.classes or (), len(self.scores)
        c = names.index(target) if isinstance(target, str) and target in names else target
        if not checks.is_number(c, int) or not 0 <= c < C:
            known = f" or a class name, {', '.join(map(repr, names[:9]))}" if names else ""
            raise LrpError(f"for_class: target must be a class from 0 to {C - 1}{known}, got {checks.shown(target)}.")
        return replace(self, target=int(c), **fields.varying(lambda array: array[c], self))

    @property
    def each_class(self) -> list[Explanation]:
        """The explanation of each class that is explained: itself, or with target "all" one for every class."""
        if self.target == "all":
            return [self.for_class(c) for c in range(len(self.scores))]
        return [self]

    @door
    def top(self, k: int = 5) -> list[TopStep]:
        """The `k` steps of largest absolute relevance, largest first."""
        self._one_class("top")
        order = np.argsort(-abs(self.relevance), kind="stable")[:k].tolist()
        names = dict(enumerate(self.step_names)) if self.tokens or self.labels is not None else {}
        return [TopStep(t, names.get(t), float(self.relevance[t])) for t in order]

    def to_frame(self) -> pd.DataFrame:
        """A pandas frame, one row per step: position, token, relevance, and one column per feature where there are any.

        With several inputs, the first column, `input`, is the name of the input.
        """
        self._one_class("to_frame")
        pandas = library("pandas", "to_frame")
        frames = [pandas.DataFrame(frame_columns(self.of_input(name).first)) for name in self.inputs]
        frame = frames[0]
        if len(frames) > 1:
            frame = pandas.concat(frames, keys=[*map(encodable, self.inputs)], names=["input", None])
            frame = frame.reset_index("input").reset_index(drop=True)
        if self.tested is not None:
            frame["evidence"] = self.tested.verdict
        frame.attrs["prediction"] = encodable(self.prediction)
        return frame

    @door
    def to_shap(self, flat: bool = True) -> shap.Explanation:
        """A `shap.Explanation`, for the plots of shap: values, base_values, data and feature_names.

        base_values is the score minus all relevance: that of the reference, or what biases and stabilizer absorbed.

        flat: every feature of every step has a name, "rain, 3 days before"; False gives (T, D), a row per step.
        """
        from lrpnumpy.exchange import to_shap

        return to_shap([self], flat, single=True)

    def _one_class(self, what: str) -> None:
        if self.target == "all":
            raise LrpError(f"{what} needs one class, got an explanation of all; pick one with .for_class(c).{what}().")

    def _check_complete(self) -> None:
        """Raise if this is some of an explanation: no experiment can test it."""
        options = self.options or {}
        partial = {name: options[name] for name in ("newest", "parts", "windows") if options.get(name) is not None}
        if isinstance(options.get("through"), Mapping):
            partial["through"] = options["through"]
        for name, value in partial.items():
            got = f"{name}={checks.shown(value)}"
            raise LrpError(f"evidence tests complete explanations, this one has {got}; test one without it.")

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values, ready for JSON."""
        found: dict[str, Any] = {"format": readback.FORMAT, "dtype": str(self.relevance.dtype), **fields.plain(self)}
        if self.ledger is not None:
            found["ledger"]["kind"] = type(self.ledger).__name__
        found["probabilities"] = fields.plain(self.probabilities)
        found["prediction"] = None if self.target == "all" else self.prediction
        return found

    @door
    def to_json(self, **options: Any) -> str:
        """A JSON text; `from_json` reads it back exactly. `options` are those of `json.dumps`, such as indent=1."""
        return dumped(self.to_dict(), options)

    @staticmethod
    def from_json(text: str) -> Explanation:
        """An explanation from the `text` that `to_json` wrote; an error describes any other text."""
        return readback.parse(text, Explanation)


def frame_columns(part: InputPart) -> dict[str, Any]:
    """The columns of a frame with one row per step of an input."""
    found: dict[str, Any] = {"position": np.arange(part.relevance.shape[-1])}
    if part.tokens:
        found["token"] = [*map(encodable, part.tokens)]
    elif part.labels is not None:
        found["label"] = part.labels if part.labels.dtype.kind == "M" else [*map(encodable, part.labels.tolist())]
    found["relevance"] = part.relevance
    if part.marks is not None:
        found["mark"] = ["" if mark == Mark.NONE else Mark(mark).name.lower() for mark in part.marks]
    for d, name in enumerate(map(encodable, part.feature_names)):
        found[name] = part.feature_relevance[:, d]  # type: ignore[index]
    return found


def dumped(value: Any, options: dict[str, Any]) -> str:
    """JSON of a result, by options of `json.dumps`."""
    indent = options.get("indent")
    if not (indent is None or isinstance(indent, str) or (checks.is_number(indent, int) and indent <= WIDEST)):
        raise LrpError(f"to_json: indent must be a string or a number up to {WIDEST}, got {checks.shown(indent)}.")
    try:
        return json.dumps(value, **options)
    except (TypeError, ValueError) as error:
        raise LrpError(f"to_json: {error}; pass options of json.dumps, such as indent=1.") from error
