"""Word removal: if a relevance is right, the prediction must change when the words that it names are gone.

Words are removed in decreasing order of their relevance to the true class from sequences that are classified
rightly, and in increasing order from those that are classified falsely; a good relevance makes the accuracy
fall fast in the first case and rise fast in the second (Arras et al. 2019, "Perturbation Experiment").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError, entries, one_of, whole
from lrpnumpy.encode import encode_all
from lrpnumpy.evaluate import chance
from lrpnumpy.model import Model
from lrpnumpy.predict import predict_all

ORDERS = ("decreasing", "increasing")
HOW = ("delete", "zero")
RANDOM = "random"

Predict = Callable[[list[Any]], np.ndarray]  # sequences -> scores (N, C)
_Place = tuple[int, np.ndarray | None]  # length as passed in; positions that are not padding, where some are

MOST_RUNS = 10_000  # with random words


@dataclass(frozen=True, eq=False)
class Removal:
    """What was left of the accuracy, for random removal and each relevance, in both orders."""

    names: tuple[str, ...]  # "random", then the relevances
    counts: tuple[int, ...]  # how many words were removed
    reference: str  # the relevance that makes 100 %
    correct: Mapping[str, np.ndarray]  # order -> (names, counts, sequences): how often the prediction was right

    def accuracy(self, order: str) -> np.ndarray:
        """(names, counts), in %, of removal in an `order`, "decreasing" or "increasing" relevance."""
        return 100 * self._of(order).mean(axis=2)

    def change(self, order: str) -> np.ndarray:
        """(names, counts): the change of accuracy in %, random removal being 0, the reference 100; `order` as above."""
        return self._scaled(self.accuracy(order))

    def difference(
        self, order: str, one: str, other: str, draws: int = 2000, seed: int = 0
    ) -> tuple[float, float, float]:
        """How much larger the mean change of `one` is than that of `other`, and a 95 % interval.

        It is for removal in an `order`. The interval is that of a bootstrap of `draws`, by `seed`: the same sequences
        are drawn again, with replacement, for all.
        """
        k, j = (self.names.index(one_of(name, "difference: name", self.names)) for name in (one, other))
        correct = self._of(order)
        n = correct.shape[2]
        weights = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=draws) / n  # (draws, n)
        drawn = self._scaled(100 * np.moveaxis(correct @ weights.T, 2, 0)).mean(axis=2)  # (draws, names)
        change = self.change(order).mean(axis=1)
        low, high = chance.interval(drawn[:, k] - drawn[:, j])
        return float(change[k] - change[j]), float(low), float(high)

    def _of(self, order: str) -> np.ndarray:
        correct = self.correct[one_of(order, "order", ORDERS)]
        if not correct.shape[2]:
            which = "rightly" if order == "decreasing" else "falsely"
            raise LrpError(f"{order} order must have sequences that are classified {which}, got none.")
        return correct

    def _scaled(self, accuracy: np.ndarray) -> np.ndarray:
        """(…, names, counts) to the same: 0 at random removal, 100 at the reference."""
        zero = accuracy[..., [0], :]
        unit = accuracy[..., [self.names.index(self.reference)], :] - zero
        with np.errstate(divide="ignore", invalid="ignore"):
            return 100 * (accuracy - zero) / unit


def word_removal(
    model: Model | Predict,
    sequences: Sequence[Any],
    labels: Sequence[int] | np.ndarray,
    relevances: Mapping[str, Sequence[Any]],
    *,
    reference: str = "occlusion-p",
    counts: Sequence[int] = (1, 2, 3),
    how: str = "delete",
    runs: int = 10,
    seed: int = 0,
) -> Removal:
    """Remove the words that each relevance names, and predict again.

    model: a Model, or any function from sequences to scores (N, C).
    sequences: as `predict_all` takes them; a function receives the input without the words.
    labels: the true classes, which the relevance should be computed for. Where there is one score, class 1 is a
        score above 0 and class 0 any other; the relevance is then that of the score, whatever the class.
    relevances: name -> one relevance per sequence: (T,) arrays, or what `explain_all` returns. It is that of
        the whole sequences, however many words are removed; words of equal relevance go from left to right.
    reference: the name of the relevance that makes 100 % (the paper's is occlusion-p).
    counts: how many words are removed.
    how: "delete" a word and join the rest, or "zero" its vector.
    runs, seed: how often random removal is repeated, and by which random numbers; its accuracy is the mean.
    """
    one_of(how, "how", HOW)
    one_of(reference, "reference", tuple(relevances))
    labels, counts = np.asarray(labels), tuple(int(count) for count in entries(counts, "counts"))
    if np.ndim(labels) != 1 or len(labels) != len(sequences):
        raise LrpError(f"labels must be one class for each of the {len(sequences)} sequences, got {np.shape(labels)}.")
    if not counts or min(counts) < 1:
        raise LrpError(f"counts must be numbers of words from 1 on, got {counts}.")
    predict, rows, places = _prepared(model, sequences, how)
    lengths = np.array([len(row) for row in rows])
    if len(short := np.flatnonzero(lengths <= max(counts))):
        k = short[0]
        raise LrpError(f"sequences must have more than the {max(counts)} words to remove, got {lengths[k]} in no. {k}.")
    found = {name: _checked(name, values, places) for name, values in relevances.items()}
    if whole(runs, "runs", 1) > MOST_RUNS:
        raise LrpError(f"runs must be at most {MOST_RUNS:,}, got {runs}.")
    rng = np.random.default_rng(whole(seed, "seed", 0))
    chance = [[rng.random(T) for T in lengths] for _ in range(runs)]
    scores = predict(rows)
    if one_score := scores.shape[1] == 1:
        if not np.isin(labels, (0, 1)).all():
            raise LrpError("labels must be 0 or 1 where there is one score; for a regression use lrp.rank_methods.")
        found = {name: [r if c else -r for r, c in zip(some, labels, strict=True)] for name, some in found.items()}

    def classes(scores: np.ndarray) -> np.ndarray:
        return (scores[:, 0] > 0).astype(np.int64) if one_score else scores.argmax(axis=1)

    right = classes(scores) == labels

    def correct(values: list[np.ndarray], order: str, chosen: np.ndarray) -> np.ndarray:
        """(counts, sequences): whether the prediction is right after removal."""
        sign = -1 if order == "decreasing" else 1
        first = {k: np.argsort(sign * values[k], kind="stable")[: max(counts)] for k in chosen}
        left = [_without(rows[k], first[k][:count], how) for count in counts for k in chosen]
        if not left:
            return np.empty((len(counts), 0))
        predicted = classes(predict(left)).reshape(len(counts), -1)
        return predicted == labels[chosen]

    results = {}
    for order, chosen in zip(ORDERS, (np.flatnonzero(right), np.flatnonzero(~right)), strict=True):
        random = np.mean([correct(values, order, chosen) for values in chance], axis=0)
        results[order] = np.stack([random, *(correct(values, order, chosen) for values in found.values())])
    return Removal((RANDOM, *found), counts, reference, results)


def _prepared(model: Model | Predict, sequences: Sequence[Any], how: str) -> tuple[Predict, list[Any], list[_Place]]:
    """How to predict, the sequences in a form that words can be taken from, and how long they were."""
    if not isinstance(model, Model):
        rows = entries(sequences, "sequences")
        if how == "zero" and not all(isinstance(row, np.ndarray) and row.ndim == 2 for row in rows):
            raise LrpError("how='zero' must have (T, D) arrays as sequences where the model is a function.")
        return model, rows, [(len(row), None) for row in rows]
    encoded = [record[model.main] for record in encode_all(model, sequences)]
    rows = [e.x if e.ids is None else e.ids for e in encoded]
    if how == "zero":  # of what the network takes: scaled numbers, or vectors of words
        port = model.inputs[model.main]
        rows = [port.scaled(row) if row.ndim == 2 else model.embedding.E[row] for row in rows]  # type: ignore[union-attr]
        if port.scaler is not None:
            model = replace(model, inputs={**model.inputs, model.main: replace(port, scaler=None)})
    return (lambda left: np.asarray(predict_all(model, left))), rows, [(e.length, e.kept) for e in encoded]


def _checked(name: str, values: Sequence[Any], places: list[_Place]) -> list[np.ndarray]:
    """One relevance array per sequence, without padding."""
    found = [np.asarray(getattr(value, "relevance", value)) for value in values]
    if len(found) != len(places):
        raise LrpError(f"relevance {name!r} must be one array for each of {len(places)} sequences, got {len(found)}.")
    for k, (value, (length, _)) in enumerate(zip(found, places, strict=True)):
        if value.shape != (length,):
            raise LrpError(f"relevance {name!r} of sequence {k} must have shape ({length},), got {value.shape}.")
    return [value if kept is None else value[kept] for value, (_, kept) in zip(found, places, strict=True)]


def _without(row: Any, places: np.ndarray, how: str) -> Any:
    """A sequence without the words at these places."""
    if how == "zero":
        row = row.copy()
        row[places] = 0
        return row
    if isinstance(row, np.ndarray):
        return np.delete(row, places, axis=0)
    gone = set(places.tolist())
    return [word for t, word in enumerate(row) if t not in gone]
