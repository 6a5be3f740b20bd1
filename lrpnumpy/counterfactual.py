"""What would change the decision: few words, features or segments of a series whose change gives another prediction.

A beam search looks for the fewest changes. Relevance guides it: to the words that support the decision, and
of the words that could take their place at those that the gradient favors. Every candidate is decided by a forward
pass. At the end changes that are not needed are undone, so that without any single one of the rest the new decision is
lost: the result is irreducible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from lrpnumpy import asked
from lrpnumpy.checks import LrpError, entries, finite, is_number, readable, shown, whole
from lrpnumpy.encode import Encoded, EncodedRecord, encode, encode_all
from lrpnumpy.explain import explain, explain_all
from lrpnumpy.inputs import Input
from lrpnumpy.meant import door
from lrpnumpy.methods.reference import references, vectors
from lrpnumpy.model import Model
from lrpnumpy.predict import predict_all
from lrpnumpy.result import Explanation

WIDTH = 6  # states that a beam keeps
PLACES = 6  # words of a state that are changed in turn: those that support the decision most
CHOICES = 12  # words that are tried in the place of one
UNITS = 100  # features and segments that are tried: those of most relevance
SEGMENTS = 12  # of a series
SOURCES = 5  # records whose values are tried: the nearest ones


class Edit(NamedTuple):
    """One change as the search has it: at a word, a feature of all steps, or a segment of one feature or of all."""

    input: str
    kind: Literal["word", "feature", "segment"]
    place: int
    value: str | int | None = None  # what takes the place of a word, None removes it; of a segment the feature or None


Edits = frozenset[Edit]


class InputChange(NamedTuple):
    """One change of a counterfactual: the steps from `start` to `stop` (excluded) of an `input`."""

    input: str
    kind: Literal["word", "feature", "segment"]  # what is changed
    start: int
    stop: int
    name: str  # of the word, the feature, or the steps
    before: str  # the word, or means of the numbers
    after: str  # likewise; "" of a word that is removed

    def __str__(self) -> str:
        if self.kind == "word":
            return f"{readable(self.before)} → {readable(self.after) or 'removed'}"
        return f"{readable(self.name)}: {readable(self.before)} → {readable(self.after)}"


# Types of the fields of a counterfactual, which somebody may make by hand.
FIELDS = {
    "changes": tuple, "original": Mapping, "before": Explanation, "after": Explanation, "undone": np.ndarray,
    "wanted": str,
}  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Counterfactual:
    """Changes after which the network decides otherwise: printed, shown in a notebook, drawn by `lrp.plot`.

    `original` and `x` are the input before and after the changes, `before` and `after` explain both predictions.
    `undone` (n, C) has the scores with all changes but one: without any single change the new decision is lost.
    """

    changes: tuple[InputChange, ...]  # in the order of their places
    original: Mapping[str, Any]  # words, token ids or numbers of each input
    x: Any  # as `explain` takes it
    before: Explanation
    after: Explanation
    undone: np.ndarray
    wanted: str  # what the changes had to reach, in words

    def __post_init__(self) -> None:
        for name, kind in FIELDS.items():
            value = getattr(self, name)
            is_right = isinstance(value, kind)
            if name == "changes" and is_right:
                is_right = all(isinstance(one, InputChange) for one in value)
            if not is_right:
                raise LrpError(
                    f"Counterfactual: {name} has the wrong type, got {shown(value)}; lrp.counterfactual(model, x) "
                    "makes one."
                )

    def __repr__(self) -> str:
        return f"<Counterfactual with {len(self.changes)} changes: {self.headline}>"

    @property
    def headline(self) -> str:
        """Both predictions in one line."""
        return f"{outcome(self.before)} → {outcome(self.after)}"

    def __str__(self) -> str:
        from lrpnumpy.show import counterfactual

        return counterfactual.text(self)

    def _repr_html_(self) -> str:
        from lrpnumpy.show import counterfactual

        return counterfactual.fragment(self)

    @property
    def changed(self) -> Mapping[str, Any]:
        """The input after the changes, by name, as `original` is."""
        return self.x if len(self.original) > 1 else dict.fromkeys(self.original, self.x)


def outcome(e: Explanation) -> str:
    """A prediction in words: "negative (59 %)", "discharge 3.2 mm"."""
    if e.is_regression:
        return e.prediction.partition(",")[0]
    if len(e.scores) > 1:
        text = readable(e.name_of(e.predicted))
    else:
        text = "yes" if e.scores[0] > 0 else "no"
    if e.probabilities is None:
        return text
    chance = e.probabilities[e.predicted] if len(e.scores) > 1 else max(e.probabilities[0], 1 - e.probabilities[0])
    return f"{text} ({chance:.0%})"


@door
def counterfactual(
    model: Model,
    x: Any,
    target: int | str | None = None,
    *,
    change: float | None = None,
    records: Any = None,
    reference: Any = "zero",
    words: Iterable[str] | None = None,
    most: int = 8,
) -> Counterfactual:
    """Find a few changes of an input that change the decision; undoing any one of them loses the new decision.

    model: a network, from `load` or built from layers.
    x: an input, as in `explain`. Words are replaced or removed; in a series, features or segments are replaced.
    target: the class to reach, by index or name; 0 or 1 for a single sigmoid. Default: any class but the predicted one.
    change: for a regression, how far the prediction must move, with its sign, in the unit of the output.
    records: real sequences: replacements are taken from the nearest ones that have the wanted outcome.
    reference: replacement of numbers if there are no records, as in `explain`.
    words: words that may be used as replacements. Default: the vocabulary.
    most: the largest number of changes.
    """
    record = encode(model, x)
    references(model, reference)  # raises where it does not fit, also where only words change
    goal = _goal(model, x, target, change)
    most = whole(most, "most", 1)
    found = []
    limit = most
    for space in _spaces(model, record, goal, records, reference, words):
        state = _search(model, space, goal, limit)
        if state is not None:
            limit = len(state)
            found.append((limit, space.distance(state), state, space))
    if not found:
        advice = "pass records=…, sequences with the wanted outcome, or a larger most"
        if any(isinstance(one, WordEdits) for one in space.parts.values()):
            advice = "try another target, or a larger most"
        raise LrpError(f"no {most} changes of x give {goal.text}; {advice}.")
    _, _, state, space = min(found, key=lambda one: one[:2])
    state, undone = _irreducible(model, space, goal, state)
    changed = space.variant(state)
    before, after = explain(model, x), explain(model, changed)
    order = sorted(state, key=lambda edit: (edit.input, edit.place))
    return Counterfactual(
        tuple(space.parts[edit.input].described(edit) for edit in order),
        {name: part.variant(()) for name, part in space.parts.items()},
        changed,
        before,
        after,
        np.array([undone[edit] for edit in order]),
        goal.text,
    )


# -- what has to be reached -----------------------------------------------------------------------------------------


class Goal(NamedTuple):
    """What changes must reach."""

    scores: np.ndarray  # (C,) of the input
    wanted: int | None  # class; None for any other than the predicted one
    sign: float  # of one score: where it must go
    least: float  # of one score: what it must pass
    text: str

    @property
    def before(self) -> int:
        """The class that is predicted."""
        return int(self.scores.argmax())

    @property
    def after(self) -> int:
        """The class that is to be reached; the second of the input where any other will do."""
        if len(self.scores) == 1:
            return 0
        return int(np.argsort(-self.scores)[1]) if self.wanted is None else self.wanted

    def progress(self, scores: np.ndarray) -> np.ndarray:
        """(N,) above 0 where the goal is reached, the larger the closer; of scores (N, C)."""
        if scores.shape[1] == 1:
            return self.sign * (scores[:, 0] - self.least)
        if self.wanted is not None:
            return scores[:, self.wanted] - np.delete(scores, self.wanted, axis=1).max(axis=1)
        return np.delete(scores, self.before, axis=1).max(axis=1) - scores[:, self.before]


def _goal(model: Model, x: Any, target: Any, change: Any) -> Goal:
    scores = _scores(model, [x])[0]
    if change is not None and (model.outputs > 1 or model.output != "linear"):
        raise LrpError("change is for a network with one linear output; pass target, the class to reach.")
    if model.outputs > 1:
        if target is None:
            return Goal(scores, None, 1, 0, f"another class than {_class(model, int(scores.argmax()))}")
        wanted = asked.class_index(model, target, "target")
        if wanted == scores.argmax():
            raise LrpError(f"target must be another class than the predicted one, got {_class(model, wanted)}.")
        return Goal(scores, wanted, 1, 0, f"the class {_class(model, wanted)}")
    if model.output == "linear":
        if target is not None or change is None:
            raise LrpError("change=… is needed where the network has one linear output: how far it must move.")
        change = finite(change, "change")
        if change == 0:
            raise LrpError("change must not be 0; pass how far the prediction must move.")
        unit = f" {model.output_unit}" if model.output_unit else ""
        # Reaching the amount counts: what must be passed lies just below it.
        least = np.nextafter(scores[0] + change, -np.inf if change > 0 else np.inf)
        return Goal(scores, None, np.sign(change), float(least), f"a change of {change:+.4g}{unit}")
    yes = scores[0] > 0
    if target is not None and (not is_number(target, int) or target not in (0, 1) or bool(target) == yes):
        raise LrpError(
            f"target must be {int(not yes)}, the decision other than the predicted one, got {shown(target)}."
        )
    return Goal(scores, None, -1 if yes else 1, 0, "the decision no" if yes else "the decision yes")


def _class(model: Model, c: int) -> str:
    return repr(model.classes[c]) if model.classes else str(c)


def _scores(model: Model, variants: list[Any]) -> np.ndarray:
    """(N, C) in float64; of a network that predicts at every step those at the last."""
    found = predict_all(model, variants, threads=1)
    return np.asarray([one[-1] for one in found] if model.every else found, np.float64)


# -- what can be changed --------------------------------------------------------------------------------------------


class WordEdits:
    """The words of an input, each of which can be replaced or removed."""

    def __init__(self, name: str, port: Input, one: Encoded, words: Iterable[str] | None) -> None:
        self.name, self.one = name, one
        embedding: Any = port.embedding
        self.embedding, vocabulary = embedding, embedding.vocabulary
        self.items: list[Any] = []
        if vocabulary is None:
            assert one.ids is not None
            self.items, self.pool = one.ids.tolist(), np.arange(len(embedding.E))
        else:
            before, after = (max(0, count) for count in one.added)
            tokens = one.tokens or ()
            self.items = list(tokens[before : len(tokens) - after])
            self.pool = self._rows(words)
        self.names = vocabulary

    def _rows(self, words: Iterable[str] | None) -> np.ndarray:
        """Rows of the words that may take the place of others: of all the vocabulary, those of letters alone."""
        vocabulary = self.embedding.vocabulary
        if words is None:
            return np.array([k for k, word in enumerate(vocabulary) if word.isalpha()], np.int64)
        number = {word: k for k, word in enumerate(vocabulary)}
        given = entries(words, "words", 1_000_000)
        for word in given:
            if word not in number:
                raise LrpError(f"words must be of the vocabulary of the network, got {shown(word)}.")
        return np.array([number[word] for word in given], np.int64)

    def variant(self, state: Iterable[Edit]) -> list[Any]:
        """The words after some edits."""
        changed = {edit.place: edit.value for edit in state}
        kept = [changed.get(k, item) for k, item in enumerate(self.items)]
        return [item for item in kept if item is not None]

    def edits(self, state: Edits, R: np.ndarray, slope: np.ndarray) -> list[Edit]:
        """What to try next: the words that support the decision most, removed and replaced.

        R (T,) is the relevance for the decision of the words after the edits of `state`, `slope` (T, D) the gradient.
        """
        taken = {edit.place: edit for edit in state}
        left = [k for k in range(len(self.items)) if k not in taken or taken[k].value is not None]
        before = self.one.added[0]
        rows = [(k, j + before) for j, k in enumerate(left) if k not in taken and 0 <= j + before < len(R)]
        rows.sort(key=lambda row: -R[row[1]])
        found = []
        for k, row in rows[:PLACES]:
            if len(left) > 1:
                found.append(Edit(self.name, "word", k))
            gain = self.embedding.E[self.pool] @ slope[row]
            for best in self.pool[np.argsort(gain)[:CHOICES]].tolist():
                value = best if self.names is None else self.names[best]
                if value != self.items[k]:
                    found.append(Edit(self.name, "word", k, value))
        return found

    def distance(self, state: Iterable[Edit]) -> float:
        """How many words are replaced; to remove one is less."""
        return float(sum(edit.value is not None for edit in state))

    def described(self, edit: Edit) -> InputChange:
        """An edit for people."""
        before = str(self.items[edit.place])
        after = "" if edit.value is None else str(edit.value)
        return InputChange(self.name, "word", edit.place, edit.place + 1, before, before, after)


class NumberEdits:
    """The features and segments of an input of numbers, each of which can be those of another record."""

    def __init__(self, name: str, port: Input, one: Encoded, source: np.ndarray) -> None:
        self.name, self.one, self.source = name, one, source
        self.x = vectors(one)
        self.far = abs(port.scaled(self.x) - port.scaled(source))  # (T, D) how far apart, as the network sees it
        T, D = self.x.shape
        self.cuts = np.linspace(0, T, min(T, SEGMENTS) + 1).round().astype(int)
        self.features = port.features or one.features or tuple(f"x{d}" for d in range(D))

    def variant(self, state: Iterable[Edit]) -> np.ndarray:
        """The numbers after some edits."""
        x = self.x.copy()
        for edit in state:
            where = self._where(edit)
            x[where] = self.source[where]
        return x

    def _where(self, edit: Edit) -> Any:
        if edit.kind == "feature":
            return slice(None), edit.place
        steps = slice(int(self.cuts[edit.place]), int(self.cuts[edit.place + 1]))
        return steps, slice(None) if edit.value is None else edit.value

    def edits(self) -> list[Edit]:
        """What can be changed: every feature, every segment, and every feature of a segment."""
        T, D = self.x.shape
        found = [Edit(self.name, "feature", d) for d in range(D)]
        if T > 1:
            which = [None, *range(D)] if D > 1 else [None]
            found += [Edit(self.name, "segment", s, d) for s in range(len(self.cuts) - 1) for d in which]
        return found

    def most_relevant(self, R: np.ndarray) -> list[Edit]:
        """Those of largest relevance R (T, D)."""
        seen = R[self.one.seen]
        return sorted(self.edits(), key=lambda edit: -abs(seen[self._where(edit)].sum()))[:UNITS]

    def described(self, edit: Edit) -> InputChange:
        """An edit for people."""
        if edit.kind == "feature":
            before, after = (f"{x[:, edit.place].mean():.4g}" for x in (self.x, self.source))
            return InputChange(self.name, "feature", 0, len(self.x), str(self.features[edit.place]), before, after)
        steps, labels = self._where(edit)[0], self.one.labels
        first, last = (str(k if labels is None else labels[k]) for k in (steps.start, steps.stop - 1))
        shown_features: list[Any] = [edit.value]
        if edit.value is None:  # the two that change most
            shown_features = np.argsort(-self.far[steps].mean(axis=0), kind="stable")[:2].tolist()
        before, after = (
            ", ".join(f"{self.features[d]} {x[steps, d].mean():.4g}" for d in shown_features)
            for x in (self.x, self.source)
        )
        return InputChange(self.name, "segment", steps.start, steps.stop, f"{first} to {last}", before, after)

    def distance(self, state: Iterable[Edit]) -> float:
        """How much of the input is changed, as the network sees it."""
        changed = np.zeros(self.x.shape, bool)
        for edit in state:
            changed[self._where(edit)] = True
        return float(self.far[changed].sum())


class EditSpace(NamedTuple):
    """All inputs of a record, and what can be changed of each."""

    parts: Mapping[str, WordEdits | NumberEdits]
    several: bool

    def variant(self, state: Edits) -> Any:
        """The record after some edits."""
        found = {name: part.variant(edit for edit in state if edit.input == name) for name, part in self.parts.items()}
        return found if self.several else next(iter(found.values()))

    def distance(self, state: Edits) -> float:
        """How much is changed."""
        return sum(part.distance(edit for edit in state if edit.input == name) for name, part in self.parts.items())


def _spaces(
    model: Model, record: EncodedRecord, goal: Goal, records: Any, reference: Any, words: Iterable[str] | None
) -> list[EditSpace]:
    """What can be changed: one space for each record whose numbers are tried."""
    numeric = [name for name, port in model.inputs.items() if port.embedding is None]
    sources: list[dict[str, np.ndarray]] = [{}]
    if numeric and records is not None:
        sources = _nearest(model, record, goal, records, numeric)
    elif numeric:
        sources = [_reference(model, record, reference, numeric)]
    spaces = []
    for source in sources:
        parts: dict[str, WordEdits | NumberEdits] = {}
        for name, port in model.inputs.items():
            if port.embedding is not None:
                parts[name] = WordEdits(name, port, record[name], words)
            else:
                parts[name] = NumberEdits(name, port, record[name], source[name])
        spaces.append(EditSpace(parts, len(model.inputs) > 1))
    return spaces


def _reference(model: Model, record: EncodedRecord, reference: Any, numeric: list[str]) -> dict[str, np.ndarray]:
    """The reference in the units of the user, as long as the record."""
    given = references(model, reference).each[0]
    found = {}
    for name in numeric:
        mean, scale = model.inputs[name].affine
        value, x = given[name] * scale + mean, vectors(record[name])
        if 1 < len(value) < len(x):
            raise LrpError(f"reference of {name!r} must have at least {len(x)} steps, got {len(value)}.")
        found[name] = np.broadcast_to(value[: len(x)], x.shape)
    return found


def _nearest(
    model: Model, record: EncodedRecord, goal: Goal, records: Any, numeric: list[str]
) -> list[dict[str, np.ndarray]]:
    """The numbers of the records with the wanted outcome that are nearest, as long as the record."""
    every = encode_all(model, records)
    reached = goal.progress(_scores(model, list(records))) > 0
    lengths = {name: len(vectors(record[name])) for name in numeric}
    fits = [k for k, one in enumerate(every) if all(len(vectors(one[n])) >= lengths[n] for n in numeric)]
    usable = [k for k in fits if reached[k]]
    if not usable:
        raise LrpError(
            f"records must have one with {goal.text} and at least as many steps as x, got {len(every)} records, "
            f"{int(reached.sum())} of them with that outcome."
        )
    far, found = [], []
    for k in usable:
        source = {name: vectors(every[k][name])[-lengths[name] :] for name in numeric}
        apart = [model.inputs[n].scaled(source[n]) - model.inputs[n].scaled(vectors(record[n])) for n in numeric]
        far.append(sum(float((one**2).mean()) for one in apart))
        found.append(source)
    return [found[k] for k in np.argsort(far, kind="stable")[:SOURCES]]


# -- the search -----------------------------------------------------------------------------------------------------


def _search(model: Model, space: EditSpace, goal: Goal, most: int) -> Edits | None:
    """The fewest edits that reach the goal, as far as a beam finds them."""
    beam: list[Edits] = [frozenset()]
    for _ in range(most):
        tried = [*dict.fromkeys(state | {edit} for state, edit in _next(model, space, goal, beam))]
        if not tried:
            return None
        progress = goal.progress(_scores(model, [space.variant(state) for state in tried]))
        order = np.argsort(-progress, kind="stable")
        reached = [tried[k] for k in order if progress[k] > 0]
        if reached:
            return min(reached, key=space.distance)
        beam = [tried[k] for k in order[:WIDTH]]
    return None


def _next(model: Model, space: EditSpace, goal: Goal, beam: list[Edits]) -> Iterator[tuple[Edits, Edit]]:
    """What to try next from each state, by the relevance for the decision and by the gradient there."""
    units = [part.edits() for part in space.parts.values() if isinstance(part, NumberEdits)]
    if len(units) == len(space.parts) and sum(map(len, units)) <= UNITS:
        yield from ((state, edit) for state in beam for some in units for edit in some if edit not in state)
        return
    variants = [space.variant(state) for state in beam]
    request: dict[str, Any] = {"target": goal.before, "unit": "feature", "threads": 1}
    sign = -goal.sign
    if model.outputs > 1:
        request["versus"], sign = goal.after, 1.0
    relevant = explain_all(model, variants, "lrp-all", **request)
    sloped = explain_all(model, variants, "gradient-x-input", **request)
    for state, record, e, g in zip(beam, encode_all(model, variants), relevant, sloped, strict=True):
        for name, part in space.parts.items():
            R, products = (one.inputs[name].feature_relevance for one in (e, g))
            assert R is not None and products is not None
            if isinstance(part, NumberEdits):
                edits = part.most_relevant(R)
            else:
                x, slope = vectors(record[name]), np.zeros_like(products)
                slope[record[name].seen] = np.divide(products[record[name].seen], x, out=np.zeros_like(x), where=x != 0)
                edits = part.edits(state, sign * R.sum(axis=1), sign * slope)
            yield from ((state, edit) for edit in edits if edit not in state)


def _irreducible(model: Model, space: EditSpace, goal: Goal, state: Edits) -> tuple[Edits, dict[Edit, np.ndarray]]:
    """The edits that are needed, and the scores without each of them."""
    while True:
        order = sorted(state, key=str)
        if len(order) == 1:
            return state, {order[0]: goal.scores}
        scores = _scores(model, [space.variant(state - {edit}) for edit in order])
        progress = goal.progress(scores)
        if progress.max() <= 0:
            return state, dict(zip(order, scores, strict=True))
        state = state - {order[int(progress.argmax())]}
