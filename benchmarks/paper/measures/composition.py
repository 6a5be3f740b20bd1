"""Semantic composition: what a modifier does to a word, as relevance averaged over many made-up phrases.

The model itself decides what is composed: the words of a class are those it is surest of, modifiers are words
that it calls neutral by themselves, and a phrase counts when it is predicted as the composition would
have it (Arras et al. 2019, "Semantic composition: generation of representative samples").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from lrpnumpy.asked import class_index
from lrpnumpy.checks import LrpError
from lrpnumpy.explain import explain_all
from lrpnumpy.model import Model
from lrpnumpy.predict import predict_all


@dataclass(frozen=True, eq=False)
class Composition:
    """Phrases of one kind, what the model made of them, and the relevance of those that count."""

    phrases: tuple[tuple[str, ...], ...]  # all that were made
    predicted: np.ndarray  # (phrases,) class
    shares: np.ndarray  # (C,) share of the phrases that is predicted as each class
    target: int  # the class
    retained: tuple[str, ...]  # modifiers that act on enough words
    counted: np.ndarray  # (n,) which phrases count
    relevance: np.ndarray  # (n, words of a phrase), towards the target

    @property
    def mean(self) -> np.ndarray:
        """(words of a phrase,) mean relevance of each place; not a number where no phrase counts."""
        return self._over(np.mean)

    @property
    def std(self) -> np.ndarray:
        """(words of a phrase,) standard deviation."""
        return self._over(np.std)

    def _over(self, function: Any) -> np.ndarray:
        return function(self.relevance, axis=0) if len(self.relevance) else np.full(self.relevance.shape[1], np.nan)


def best_words(model: Model, target: int, count: int = 50) -> list[str]:
    """The `count` words of the vocabulary that the `model`, alone, predicts as `target`, the highest scores first."""
    words = [word for word in _vocabulary(model) if word != model.embedding.unknown]  # type: ignore[union-attr]
    scores, target = np.asarray(predict_all(model, [[word] for word in words])), class_index(model, target, "target")
    chosen = np.flatnonzero(scores.argmax(axis=1) == target)
    order = chosen[np.argsort(-scores[chosen, target], kind="stable")]
    return [words[k] for k in order[:count]]


def predicted_as(model: Model, words: Sequence[str], target: int) -> list[str]:
    """Those of the `words` that the `model` knows and, alone, predicts as `target`."""
    vocabulary = set(_vocabulary(model))
    lower = model.embedding.lowercase  # type: ignore[union-attr]
    known = [word for word in words if (word.lower() if lower else word) in vocabulary]
    if not known:
        return []
    classes = np.asarray(predict_all(model, [[word] for word in known])).argmax(axis=1)
    return [word for word, c in zip(known, classes, strict=True) if c == target]


def compose(
    model: Model,
    places: Sequence[Sequence[str]],
    target: int,
    *,
    least: float = 0.4,
    rest: int | None = None,
    method: str = "lrp-all",
    **options: Any,
) -> Composition:
    """Phrases for a `model`, of one word from each of `places`, of which the first holds the modifiers.

    A modifier is retained if at least the share `least` of its phrases is predicted as `target`. A phrase
    counts if it is predicted so, its modifier is retained, and, with `rest`, what follows the modifier is
    predicted as the class `rest` by itself. The relevance is that for the target; `method` and
    `options` are those of `explain_all`.

        compose(model, [["not", "never"], ["good", "nice"]], target=1)
    """
    if len(places) < 2:
        raise LrpError(f"compose: places must be at least two lists of words, got {len(places)}.")
    _vocabulary(model)
    phrases = tuple(product(*places))
    if not phrases:  # a list is empty: so is everything else
        nothing = np.empty(0, np.int64)
        shares = np.full(model.outputs, np.nan)
        return Composition((), nothing, shares, target, (), nothing, np.empty((0, len(places))))
    predicted = _classes(model, phrases)
    hits = (predicted == target).reshape(len(places[0]), -1)
    kept = hits.mean(axis=1) >= least
    counts = hits & kept[:, None]
    if rest is not None:
        counts &= _classes(model, tuple(product(*places[1:]))) == rest
    counted = np.flatnonzero(counts)
    relevance = np.empty((0, len(places)))
    if len(counted):
        explained = explain_all(model, [list(phrases[k]) for k in counted], method, target, unit="step", **options)
        relevance = explained.relevance.reshape(len(counted), len(places))
    shares = np.bincount(predicted, minlength=model.outputs) / len(predicted)
    retained = tuple(word for word, keep in zip(places[0], kept, strict=True) if keep)
    return Composition(phrases, predicted, shares, target, retained, counted, relevance)


def _classes(model: Model, phrases: Sequence[tuple[str, ...]]) -> np.ndarray:
    return np.asarray(predict_all(model, [list(phrase) for phrase in phrases])).argmax(axis=1)


def _vocabulary(model: Model) -> Sequence[str]:
    if model.embedding is None or model.embedding.vocabulary is None:
        raise LrpError("the model must have a vocabulary to compose phrases of words, got one without.")
    return model.embedding.vocabulary
