"""What would change the decision: few words, features or segments of a series whose change gives another prediction.

A beam search looks for the fewest changes. Relevance guides it: to the words that support the decision, and
of the words that could take their place at those that the gradient favors. Every candidate is decided by a forward
pass. At the end changes that are not needed are undone, so that without any single one of the rest the new decision is
lost: the result is irreducible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from lrpnumpy import asked
from lrpnumpy.checks import LrpError, finite, readable, shown, whole
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
    """One change as the search has it: of the steps from `start` to `stop` (excluded) of an `input`."""

    input: str
    start: int
    stop: int
    feature: int | None = None  # of numbers: the one that is replaced; None replaces all
    word: str | int | None = None  # what takes the place of a word; None removes it


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
        values = (self.changes, self.original, self.before, self.after, self.undone, self.wanted)
        kinds = (tuple, Mapping, Explanation, Explanation, np.ndarray, str)
        is_right = all(map(isinstance, values, kinds)) and all(isinstance(one, InputChange) for one in self.changes)
        if not is_right:  # somebody has made one by hand
            raise LrpError("Counterfactual: a field has the wrong type; lrp.counterfactual(model, x) makes one.")

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
    most: int = 8,
) -> Counterfactual:
    """Find a few changes of an input that change the decision; undoing any one of them loses the new decision.

    model: a network, from `load` or built from layers.
    x: an input, as in `explain`. Words are replaced or removed; in a series, features or segments are replaced.
    target: the class to reach, by index or name; 0 or 1 for a single sigmoid. Default: any class but the predicted one.
    change: for a regression, how far the prediction must move, with its sign, in the unit of the output.
    records: real sequences: replacements are taken from the nearest ones that have the wanted outcome.
    reference: replacement of numbers if there are no records, as in `explain`.
    most: the largest number of changes.
    """
    record = encode(model, x)
    references(model, reference)  # raises where it does not fit, also where only words change
    goal = _goal(model, x, target, change)
    most = whole(most, "most", 1)
    found = []
    limit = most
    for space in _spaces(model, record, goal, records, reference):
        state = _search(model, space, goal, limit)
        if state is not None:
            limit = len(state)
            found.append((limit, _distance(space, state), state, space))
    if not found:
        advice = "pass records=…, sequences with the wanted outcome, or a larger most"
        if any(isinstance(one, WordEdits) for one in space.values()):
            advice = "try another target, or a larger most"
        raise LrpError(f"no {most} changes of x give {goal.text}; {advice}.")
    _, _, state, space = min(found, key=lambda one: one[:2])
    needed, undone = _irreducible(model, space, goal, state)
    changed = _variant(space, needed)
    return Counterfactual(
        tuple(space[edit.input].described(edit) for edit in needed),
        {name: part.variant(()) for name, part in space.items()},
        changed,
        explain(model, x),
        explain(model, changed),
        undone,
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
    is_quantity = model.outputs == 1 and model.output == "linear"
    if is_quantity != (change is not None) or (is_quantity and target is not None):
        raise LrpError(
            "change=…, how far the prediction must move, is needed where the network has one linear output, and only "
            "there; other networks take target, the class to reach."
        )
    if is_quantity:
        change = finite(change, "change")
        if change == 0:
            raise LrpError("change must not be 0; pass how far the prediction must move.")
        # Reaching the amount counts: what must be passed lies just below it.
        least = np.nextafter(scores[0] + change, -np.inf if change > 0 else np.inf)
        text = f"a change of {change:+.4g} {model.output_unit or ''}".rstrip()
        return Goal(scores, None, np.sign(change), float(least), text)
    predicted = int(scores.argmax()) if model.outputs > 1 else int(scores[0] > 0)
    if model.outputs == 1:
        wanted = 1 - predicted if target is None else whole(target, "target", 0)
    elif target is None:
        return Goal(scores, None, 1, 0, f"another class than {_class(model, predicted)}")
    else:
        wanted = asked.class_index(model, target, "target")
    if model.outputs == 1 and wanted != 1 - predicted:
        raise LrpError(f"target must be {1 - predicted}, as {predicted} is predicted, got {shown(target)}.")
    if wanted == predicted:
        raise LrpError(f"target must be another class than the predicted one, got {_class(model, wanted)}.")
    if model.outputs == 1:
        return Goal(scores, None, 2 * wanted - 1, 0, f"the decision {('no', 'yes')[wanted]}")
    return Goal(scores, wanted, 1, 0, f"the class {_class(model, wanted)}")


def _class(model: Model, c: int) -> str:
    return repr(model.classes[c]) if model.classes else str(c)


def _scores(model: Model, variants: list[Any]) -> np.ndarray:
    """(N, C) in float64; of a network that predicts at every step those at the last."""
    found = predict_all(model, variants, threads=1)
    return np.asarray([one[-1] for one in found] if model.every else found, np.float64)


# -- what can be changed --------------------------------------------------------------------------------------------


class WordEdits:
    """The words of an input, each of which can be replaced or removed."""

    def __init__(self, name: str, port: Input, one: Encoded) -> None:
        embedding: Any = port.embedding
        self.name, self.shift, self.E = name, one.added[0], embedding.E
        self.items: Sequence[Any] = ()
        self.names: Sequence[Any] = embedding.vocabulary or range(len(self.E))
        if embedding.vocabulary is not None:
            tokens, (before, after) = one.tokens or (), (max(0, count) for count in one.added)
            self.items = tokens[before : len(tokens) - after]
        elif one.ids is not None:
            self.items = one.ids.tolist()
        # Rows of what may take the place of a word: of the vocabulary those of letters alone.
        chosen = [k for k, word in enumerate(self.names) if not isinstance(word, str) or word.isalpha()]
        self.pool = np.array(chosen, np.int64)

    def variant(self, state: Iterable[Edit]) -> list[Any]:
        """The words after some edits."""
        changed = {edit.start: edit.word for edit in state}
        kept = [changed.get(k, item) for k, item in enumerate(self.items)]
        return [item for item in kept if item is not None]

    def edits(self, state: Edits, R: np.ndarray, slope: np.ndarray) -> list[Edit]:
        """What to try next: the words that support the decision most, removed and replaced.

        R (T,) is the relevance for the decision of the words after the edits of `state`, `slope` (T, D) the gradient.
        """
        taken = {edit.start: edit for edit in state if edit.input == self.name}
        left = [k for k in range(len(self.items)) if k not in taken or taken[k].word is not None]
        rows = [(k, row) for row, k in enumerate(left, self.shift) if k not in taken and 0 <= row < len(R)]
        rows.sort(key=lambda row: -R[row[1]])
        found = []
        for k, row in rows[:PLACES]:
            if len(left) > 1:
                found.append(Edit(self.name, k, k + 1))
            gain = self.E[self.pool] @ slope[row]
            words = [self.names[best] for best in self.pool[np.argsort(gain)[:CHOICES]]]
            found += [Edit(self.name, k, k + 1, None, word) for word in words if word != self.items[k]]
        return found

    def distance(self, state: Iterable[Edit]) -> float:
        """How many words are replaced; to remove one is less."""
        return float(sum(edit.word is not None for edit in state))

    def described(self, edit: Edit) -> InputChange:
        """An edit for people."""
        before = str(self.items[edit.start])
        after = "" if edit.word is None else str(edit.word)
        return InputChange(self.name, "word", edit.start, edit.stop, before, before, after)


class NumberEdits:
    """The features and segments of an input of numbers, each of which can be those of another record."""

    def __init__(self, name: str, port: Input, one: Encoded, source: np.ndarray) -> None:
        self.name, self.one, self.source = name, one, source
        self.x = vectors(one)
        self.far = abs(port.scaled(self.x) - port.scaled(source))  # (T, D) how far apart, as the network sees it
        T, D = self.x.shape
        self.features = port.features or one.features or tuple(f"x{d}" for d in range(D))
        # Every feature, every segment, and every feature of a segment.
        self.edits = [Edit(name, 0, T, d) for d in range(D)]
        if T > 1:
            which = [None, *range(D)] if D > 1 else [None]
            cuts = np.linspace(0, T, min(T, SEGMENTS) + 1).round().astype(int).tolist()
            self.edits += [Edit(name, start, stop, d) for start, stop in pairwise(cuts) for d in which]

    def variant(self, state: Iterable[Edit]) -> np.ndarray:
        """The numbers after some edits."""
        x = self.x.copy()
        for edit in state:
            x[_cells(edit)] = self.source[_cells(edit)]
        return x

    def most_relevant(self, R: np.ndarray) -> list[Edit]:
        """The edits of largest relevance R (T, D)."""
        seen = R[self.one.seen]
        return sorted(self.edits, key=lambda edit: -abs(seen[_cells(edit)].sum()))[:UNITS]

    def described(self, edit: Edit) -> InputChange:
        """An edit for people."""
        steps, labels = slice(edit.start, edit.stop), self.one.labels
        if edit.start == 0 and edit.stop == len(self.x) and edit.feature is not None:
            before, after = (f"{x[:, edit.feature].mean():.4g}" for x in (self.x, self.source))
            name = str(self.features[edit.feature])
            return InputChange(self.name, "feature", edit.start, edit.stop, name, before, after)
        first, last = (str(k if labels is None else labels[k]) for k in (edit.start, edit.stop - 1))
        some: list[Any] = [edit.feature]
        if edit.feature is None:  # the two that change most
            some = np.argsort(-self.far[steps].mean(axis=0), kind="stable")[:2].tolist()
        before, after = (
            ", ".join(f"{self.features[d]} {x[steps, d].mean():.4g}" for d in some) for x in (self.x, self.source)
        )
        return InputChange(self.name, "segment", edit.start, edit.stop, f"{first} to {last}", before, after)

    def distance(self, state: Iterable[Edit]) -> float:
        """How much of the input is changed, as the network sees it."""
        changed = np.zeros(self.x.shape, bool)
        for edit in state:
            changed[_cells(edit)] = True
        return float(self.far[changed].sum())


def _cells(edit: Edit) -> Any:
    """Which numbers (T, D) of an input an edit replaces."""
    return slice(edit.start, edit.stop), slice(None) if edit.feature is None else edit.feature


Space = Mapping[str, WordEdits | NumberEdits]  # all inputs of a record, and what can be changed of each


def _variant(space: Space, state: Iterable[Edit]) -> Any:
    """The record after some edits."""
    found = {name: part.variant([edit for edit in state if edit.input == name]) for name, part in space.items()}
    return found if len(found) > 1 else next(iter(found.values()))


def _distance(space: Space, state: Iterable[Edit]) -> float:
    """How much is changed."""
    return sum(part.distance([edit for edit in state if edit.input == name]) for name, part in space.items())


def _spaces(model: Model, record: EncodedRecord, goal: Goal, records: Any, reference: Any) -> list[Space]:
    """What can be changed: one space for each record whose numbers are tried."""
    numeric = [name for name, port in model.inputs.items() if port.embedding is None]
    sources: list[dict[str, np.ndarray]] = [{}]
    if numeric and records is not None:
        sources = _nearest(model, record, goal, records, numeric)
    elif numeric:
        sources = [_reference(model, record, reference, numeric)]
    spaces: list[Space] = []
    for source in sources:
        numbers = {name: NumberEdits(name, model.inputs[name], record[name], x) for name, x in source.items()}
        inputs = model.inputs.items()
        spaces.append({name: numbers.get(name) or WordEdits(name, port, record[name]) for name, port in inputs})
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
    own, found = {name: vectors(record[name]) for name in numeric}, []
    for k in np.flatnonzero(reached):
        source = {name: vectors(every[k][name])[-len(x) :] for name, x in own.items()}
        if all(len(source[name]) == len(x) for name, x in own.items()):
            apart = [model.inputs[name].scaled(source[name]) - model.inputs[name].scaled(x) for name, x in own.items()]
            found.append((sum(float((one**2).mean()) for one in apart), k, source))
    if not found:
        raise LrpError(
            f"records must have one with {goal.text} and at least as many steps as x, got {len(every)} records, "
            f"{int(reached.sum())} of them with that outcome."
        )
    return [source for _, _, source in sorted(found, key=lambda one: one[:2])[:SOURCES]]


# -- the search -----------------------------------------------------------------------------------------------------


def _search(model: Model, space: Space, goal: Goal, most: int) -> Edits | None:
    """The fewest edits that reach the goal, as far as a beam finds them."""
    beam: list[Edits] = [frozenset()]
    for _ in range(most):
        tried = [*dict.fromkeys(state | {edit} for state, edit in _next(model, space, goal, beam))]
        if not tried:
            return None
        progress = goal.progress(_scores(model, [_variant(space, state) for state in tried]))
        order = np.argsort(-progress, kind="stable")
        reached = [tried[k] for k in order if progress[k] > 0]
        if reached:
            return min(reached, key=lambda state: _distance(space, state))
        beam = [tried[k] for k in order[:WIDTH]]
    return None


def _next(model: Model, space: Space, goal: Goal, beam: list[Edits]) -> Iterator[tuple[Edits, Edit]]:
    """What to try next from each state, by the relevance for the decision and by the gradient there."""
    units = [part.edits for part in space.values() if isinstance(part, NumberEdits)]
    if len(units) == len(space) and sum(map(len, units)) <= UNITS:
        yield from ((state, edit) for state in beam for some in units for edit in some if edit not in state)
        return
    variants = [_variant(space, state) for state in beam]
    request: dict[str, Any] = {"target": goal.before, "unit": "feature", "threads": 1}
    sign = -goal.sign
    if model.outputs > 1:
        request["versus"], sign = goal.after, 1.0
    relevant = explain_all(model, variants, "lrp-all", **request)
    sloped = explain_all(model, variants, "gradient-x-input", **request)
    for state, record, e, g in zip(beam, encode_all(model, variants), relevant, sloped, strict=True):
        for name, part in space.items():
            R, products = (one.inputs[name].feature_relevance for one in (e, g))
            assert R is not None and products is not None
            if isinstance(part, NumberEdits):
                edits = part.most_relevant(R)
            else:
                x, slope = vectors(record[name]), np.zeros_like(products)
                slope[record[name].seen] = np.divide(products[record[name].seen], x, out=np.zeros_like(x), where=x != 0)
                edits = part.edits(state, sign * R.sum(axis=1), sign * slope)
            yield from ((state, edit) for edit in edits if edit not in state)


def _irreducible(model: Model, space: Space, goal: Goal, state: Edits) -> tuple[list[Edit], np.ndarray]:
    """The edits that are needed, in the order of their places, and the scores (n, C) without each of them."""
    needed = sorted(state, key=lambda edit: (edit.input, edit.start, str(edit)))
    while len(needed) > 1:
        scores = _scores(model, [_variant(space, [one for one in needed if one != edit]) for edit in needed])
        progress = goal.progress(scores)
        if progress.max() <= 0:
            return needed, scores
        del needed[int(progress.argmax())]
    return needed, goal.scores[None]
