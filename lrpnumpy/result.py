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
from lrpnumpy.verdict import Evidence, Experiments

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
        if self.labels is None:
            names: Sequence[str] = [*map(str, range(self.relevance.shape[-1]))]
        else:
            names = tables.shown(self.labels)
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
        values = None
        if self.values is not None:
            values = self.values.T
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

    inputs: Mapping[str, InputPart] = result_field(kind="record")  # what each input of the network received, by name
    scores: np.ndarray = result_field("output", unit="output")  # (C,) of the explained prediction
    target: int | str = result_field(kind="target")  # class index, or "all"
    method: str = result_field(kind="text")  # name of the method
    activation: str | None = result_field(kind="text", default=None)  # of the output: "softmax" or "sigmoid", if any
    classes: tuple[str, ...] | None = result_field("output", "text", default=None)  # C names
    options: Any = result_field(kind="options", default=None)  # dict of what the method was called with
    ledger: AnyLedger | None = result_field(
        kind="record", default=None
    )  # where the score went, if the method has a ledger
    hidden: tuple[Hidden, ...] | None = result_field(kind="record", default=None)  # of recurrent states, by hidden=True
    spans: tuple[Span, ...] | None = result_field(kind="record", default=None)  # the phrases of the request
    players: Players | None = result_field(kind="record", default=None)  # of Shapley values
    output_unit: str | None = result_field(kind="text", default=None)  # of the scores, such as "mm"
    tested: Evidence | None = result_field(kind="record", default=None)  # by `evidence()`, once it is computed
    # by "compiled" kernels in the model's dtype, by these in float64 where that was too short, or by "numpy" in float64
    computed: str | None = result_field(kind="text", default=None)  # "compiled", "compiled, float64" or "numpy"
    source: Origin | None = field(default=None, repr=False)  # None for a result that was read from a file

    def __post_init__(self) -> None:
        check(self)

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
        score = self.scores
        if self.target != "all":
            score = score[self.target]
        if self.versus is not None:
            score = score - self.scores[self.versus]
        return score

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
        if not isinstance(self.ledger, ReferenceLedger):
            return None
        return self.ledger.reference

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
        if part is self.first:
            return self
        return replace(self, inputs={**self.inputs, next(iter(self.inputs)): part}, source=None)

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
        if self.classes:
            name = self.name_of(self.target)
        elif len(self.scores) == 1:
            name = "score"
        else:
            name = f"output {self.target}"
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
        if not isinstance(target, str) and not checks.is_number(target, int):
            raise LrpError(f"name_of: got {checks.shown(target)}; pass the number of a class.")
        if self.classes is not None and not isinstance(target, str) and 0 <= target < len(self.classes):
            return self.classes[target]
        return str(target)

    @door
    def label(self, position: int) -> str:
        """The word at a `position`, or the label of the step, or the position; padding is "<pad>"."""
        return self.first.step_names[checks.position(position, "position", len(self))]

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
            raise LrpError(
                f"for_class needs an explanation made with target='all', got one of {self.name_of(self.target)!r}."
            )
        c: Any = target
        if isinstance(target, str) and self.classes and target in self.classes:
            c = self.classes.index(target)
        if isinstance(c, bool) or not isinstance(c, (int, np.integer)) or not 0 <= c < len(self.scores):
            raise LrpError(
                f"for_class: target must be a class from 0 to {len(self.scores) - 1} or a class name, got "
                f"{checks.shown(target)}."
            )
        return replace(self, target=int(c), **fields.varying(lambda array: array[c], self))

    @property
    def each_class(self) -> list[Explanation]:
        """The explanation of each class that is explained: itself, or with target "all" one for every class."""
        if self.target != "all":
            return [self]
        return [self.for_class(c) for c in range(len(self.scores))]

    @door
    def top(self, k: int = 5) -> list[TopStep]:
        """The `k` steps of largest absolute relevance, largest first."""
        self._one_class("top")
        order = np.argsort(-abs(self.relevance), kind="stable")[:k].tolist()
        names = self.step_names
        if self.tokens is None and self.labels is None:
            return [TopStep(t, None, float(self.relevance[t])) for t in order]
        return [TopStep(t, names[t], float(self.relevance[t])) for t in order]

    def to_frame(self) -> pd.DataFrame:
        """A pandas frame, one row per step: position, token, relevance, and one column per feature where there are any.

        With several inputs, the first column, `input`, is the name of the input.
        """
        self._one_class("to_frame")
        pandas = library("pandas", "to_frame")
        if len(self.inputs) == 1:
            frame = pandas.DataFrame(frame_columns(self.first))
        else:
            parts = [self.of_input(name).first for name in self.inputs]
            frames = [pandas.DataFrame(frame_columns(part)) for part in parts]
            names = [*map(encodable, self.inputs)]
            frame = pandas.concat(frames, keys=names, names=["input", None]).reset_index("input").reset_index(drop=True)
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
        options, some, instead = self.options or {}, "", ""
        if isinstance(options.get("through"), Mapping):
            cuts = " and ".join(f"{name}{[*units]}" for name, units in options["through"].items())
            some, instead = f"is through {cuts}", "explain without through="
        elif options.get("newest") is not None:
            some, instead = f"is of newest={options['newest']}", "explain without newest="
        elif options.get("parts") is not None:
            some, instead = "is divided into parts", "test the one that was divided"
        elif options.get("windows") is not None:
            some, instead = f"is a mean of {options['windows']} windows", "test one of them"
        if some:
            raise LrpError(f"evidence tests complete explanations, this one {some}; {instead}.")

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values, ready for JSON."""
        found: dict[str, Any] = {"format": readback.FORMAT, "dtype": str(self.relevance.dtype), **fields.plain(self)}
        if self.ledger is not None:
            found["ledger"]["kind"] = type(self.ledger).__name__
        found["probabilities"] = fields.plain(self.probabilities)
        found["prediction"] = None
        if self.target != "all":
            found["prediction"] = self.prediction
        return found

    @door
    def to_json(self, **options: Any) -> str:
        """A JSON text; `from_json` reads it back exactly. `options` are those of `json.dumps`, such as indent=1."""
        return dumped(self.to_dict(), options)

    @staticmethod
    def from_json(text: str) -> Explanation:
        """An explanation from the `text` that `to_json` wrote; an error describes any other text."""
        return readback.parse(text, Explanation, RECORDS)


RECORDS = {
    "inputs": InputPart,
    "hidden": Hidden,
    "spans": Span,
    "players": Players,
    "tested": Evidence,
    "experiments": Experiments,
}


def frame_columns(part: InputPart) -> dict[str, Any]:
    """The columns of a frame with one row per step of an input."""
    found: dict[str, Any] = {"position": np.arange(part.relevance.shape[-1])}
    if part.tokens:
        found["token"] = [*map(encodable, part.tokens)]
    elif part.labels is not None and part.labels.dtype.kind == "M":
        found["label"] = part.labels
    elif part.labels is not None:
        found["label"] = [*map(encodable, part.labels.tolist())]
    found["relevance"] = part.relevance
    if part.marks is not None:
        found["mark"] = ["" if mark == Mark.NONE else Mark(mark).name.lower() for mark in part.marks]
    for d, name in enumerate(map(encodable, part.feature_names)):
        found[name] = part.feature_relevance[:, d]  # type: ignore[index]
    return found


def check(e: Explanation) -> None:
    """Raise an LrpError if a field of an explanation does not have the kind or the shape of the table."""
    if not isinstance(e.inputs, Mapping) or not e.inputs:
        raise LrpError(
            f"Explanation: inputs must be a dict of what each input received, got {checks.shown(e.inputs)}; "
            "for one input it is {'x': lrp.InputPart(relevance)}."
        )
    if type(e.scores) is not np.ndarray or e.scores.ndim != 1:
        raise LrpError(f"Explanation: scores must be an array of shape (C,), got {checks.shown(e.scores)}.")
    C, every_class = len(e.scores), isinstance(e.target, str) and e.target == "all"
    if not every_class and not _is_class(e.target, C):
        raise LrpError(f"Explanation: target must be 'all' or a class from 0 to {C - 1}, got {checks.shown(e.target)}.")
    if e.options is not None and not isinstance(e.options, Mapping):
        raise LrpError(f"Explanation: options must be a dict, got {checks.shown(e.options)}.")
    if e.versus is not None and not _is_class(e.versus, C):
        raise LrpError(
            f"Explanation: options['versus'] must be a class from 0 to {C - 1}, got {checks.shown(e.versus)}."
        )
    if e.source is not None and type(e.source) is not Origin:
        raise LrpError(f"Explanation: source must be None, as for results from files, got {checks.shown(e.source)}.")
    _check_fields(e, "Explanation", {"output": C})
    sizes = {"target": C} if every_class else {}
    for name, part in e.inputs.items():
        if not isinstance(name, str):
            raise LrpError(f"Explanation: inputs must have names that are strings, got {checks.shown(name)}.")
        if type(part) is not InputPart:
            raise LrpError(f"Explanation: inputs[{name!r}] must be an InputPart, got {type(part).__name__}.")
        _check_fields(part, "Explanation", sizes)
    if e.ledger is not None:
        if not isinstance(e.ledger, AnyLedger):
            raise LrpError(f"Explanation: ledger must be one of {', '.join(LEDGERS)}, got {checks.shown(e.ledger)}.")
        _check_fields(e.ledger, "Explanation: ledger", sizes)
    records: Any = {"tested": (Evidence, {}), "players": (Players, sizes)}
    for name, (record, known) in records.items():
        value = getattr(e, name)
        if value is not None:
            if not isinstance(value, record):
                raise LrpError(f"Explanation: {name} must be of the type {record.__name__}, got {checks.shown(value)}.")
            _check_fields(value, f"Explanation: {name}", known)
    for name, several, kind in (("hidden", e.hidden, Hidden), ("spans", e.spans, Span)):
        if several is None:
            continue
        if not isinstance(several, tuple) or not all(isinstance(one, kind) for one in several):
            raise LrpError(f"Explanation: {name} must be a tuple of {kind.__name__}, got {checks.shown(several)}.")
        for one in several:
            _check_fields(one, f"Explanation: {name}", sizes)


def _is_class(value: Any, count: int) -> bool:
    return checks.is_number(value, int) and 0 <= value < count


def _check_fields(record: Any, what: str, known: dict[str, int]) -> None:
    """Check kind and shape of the fields of a record; sizes of some axes are `known`."""
    sizes = dict(known)
    for name, axes, kind, _, required in fields.table(type(record)):
        value = getattr(record, name)
        if (value is None and not required) or kind in ("record", "options", "target"):
            continue
        if axes[:1] == ("target",) and "target" not in sizes:
            axes = axes[1:]
        if wanted := _wanted(value, kind, len(axes)):
            raise LrpError(f"{what}: {name} must be {wanted}, got {checks.shown(value)}.")
        shape = (len(value),) if isinstance(value, (tuple, list)) else getattr(value, "shape", ())
        if (
            len(shape) != len(axes)
            or any(sizes.setdefault(axis, size) != size for axis, size in zip(axes, shape, strict=True))
            or (0 in shape and "phrase" not in axes)
        ):
            wanted = ", ".join(str(sizes.get(axis, axis)) for axis in axes)
            raise LrpError(f"{what}: {name} must have shape ({wanted}), got {shape}.")


def _wanted(value: Any, kind: str, axes: int) -> str:
    """What a field of this kind must be, where a value is something else."""
    is_numbers = isinstance(value, (np.ndarray, np.number, float, int)) and np.asarray(value).dtype.kind in "fiu"
    if kind == "index":
        wanted, is_right = "a whole number from 0 on", checks.is_number(value, int) and value >= 0
    elif kind == "text" and not axes:
        wanted, is_right = "a string", isinstance(value, str)
    elif kind == "text":
        wanted = "a tuple of names"
        is_right = isinstance(value, (tuple, list)) and all(isinstance(name, str) for name in value)
    elif kind == "label":
        wanted = "an array of dates or strings"
        is_right = isinstance(value, np.ndarray) and value.dtype.kind in "MU"
    elif kind == "mark":
        wanted, is_right = "an array of marks from 0 to 2", is_numbers and bool(np.isin(value, [*Mark]).all())
    elif axes:
        wanted, is_right = "an array of numbers", is_numbers
    else:
        wanted, is_right = "a number", is_numbers
    if is_right:
        return ""
    return wanted


def dumped(value: Any, options: dict[str, Any]) -> str:
    """JSON of a result, by options of `json.dumps`."""
    indent = options.get("indent")
    if not (indent is None or isinstance(indent, str) or (checks.is_number(indent, int) and indent <= WIDEST)):
        raise LrpError(f"to_json: indent must be a string or a number up to {WIDEST}, got {checks.shown(indent)}.")
    try:
        return json.dumps(value, **options)
    except (TypeError, ValueError) as error:
        raise LrpError(f"to_json: {error}; pass options of json.dumps, such as indent=1.") from error
