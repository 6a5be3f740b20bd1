"""Sentence representations: vectors of a sequence weighted by relevance, and their principal components.

A relevance that shows what matters for a class also shows how to add up word vectors, so that sentences of one
meaning come to lie together (Arras et al. 2019, "Sentence-Level Representations").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError, numbers, whole
from lrpnumpy.encode import EncodedRecord, encode_all, packed
from lrpnumpy.model import Model
from lrpnumpy.packed import Packed
from lrpnumpy.passes import forward
from lrpnumpy.result import Explanation
from lrpnumpy.schedule import run_chunks


def average(model: Model, sequences: Sequence[Any]) -> np.ndarray:
    """(N, D): the mean of the input vectors of each of the `sequences`, as the `model` takes them."""
    return np.stack([packed(model, [e])[model.main].rows.mean(axis=0) for e in _encoded(model, sequences)])


def weighted(model: Model, sequences: Sequence[Any], explanations: Sequence[Explanation]) -> np.ndarray:
    """(N, D): sum_t R_t * x_t of each of the `sequences` of a `model`, by the relevance in `explanations`.

    Element by element where the explanations have a relevance for each variable, else one factor per word.
    """
    _same(sequences, explanations)
    parts = []
    for k, (x, e) in enumerate(zip(_vectors(model, sequences), explanations, strict=True)):
        if e.relevance.shape != (len(x),):
            raise LrpError(
                f"explanation {k} must have {len(x)} relevances of one class, got shape {e.relevance.shape}."
            )
        parts.append(e.relevance @ x if e.feature_relevance is None else (e.feature_relevance * x).sum(axis=0))
    return np.stack(parts)


def last_hidden(model: Model, sequences: Sequence[Any]) -> np.ndarray:
    """(N, H) or (N, 2H): the last hidden vector h_T of a `model` for `sequences`, of both directions side by side."""
    _last(model)
    encoded = _encoded(model, sequences)
    out: list[Any] = [None] * len(encoded)
    top = [node for node in model.nodes if node.layer.recurrent][-1]

    def work(positions: np.ndarray, x: dict[str, Packed]) -> None:
        reads = forward(model, x).ran[top.name].trace
        found = np.concatenate([read.last for read in reads], axis=1)
        for k, row in zip(positions, found, strict=True):
            out[k] = row

    run_chunks(model, encoded, work, None)
    return np.stack(out)


def weighted_last_hidden(model: Model, sequences: Sequence[Any], explanations: Sequence[Explanation]) -> np.ndarray:
    """(N, H) or (N, 2H): h_T times its relevance, from LRP explanations made with `hidden=True`.

    model, sequences, explanations: as in `weighted`.
    """
    _same(sequences, explanations)
    h = last_hidden(model, sequences)
    return h * np.stack([_relevance_of_last(e) for e in explanations])


class Projection(NamedTuple):
    """Points of mean 0 and variance 1 along each principal component, and the variance these explain."""

    points: np.ndarray  # (N, components)
    explained: np.ndarray  # share of the variance of every component, largest first


def whitened_pca(X: np.ndarray, components: int = 2) -> Projection:
    """Project the rows of `X` on their principal components (the first `components`), and scale these to unit variance.

    Signs are fixed: the largest entry of each component's direction is positive.
    """
    X, components = numbers(np.asarray(X), "whitened_pca: X", np.dtype(float)), whole(components, "components")
    if X.ndim != 2 or not 0 < components <= min(X.shape[0] - 1, X.shape[1]):
        raise LrpError(
            f"whitened_pca: X must have more than {components} rows and at least {components} columns, "
            f"got shape {X.shape}."
        )
    U, s, Vt = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    if not s[components - 1] > 0:
        raise LrpError(f"whitened_pca: X must vary in {components} directions, got {np.count_nonzero(s)}.")
    largest = Vt[np.arange(len(Vt)), abs(Vt).argmax(axis=1)]
    points = U[:, :components] * np.sign(largest[:components]) * np.sqrt(len(X) - 1)
    return Projection(points, s**2 / np.sum(s**2))


def separation(points: np.ndarray, labels: Sequence[int] | np.ndarray, neighbors: int = 10) -> float:
    """Share of the nearest `neighbors` of a point that have its label, in %: structure, as a number.

    points, labels: (N, K) and (N,).
    """
    points, labels = numbers(np.asarray(points), "separation: points", np.dtype(float)), np.asarray(labels)
    neighbors = whole(neighbors, "separation: neighbors", 1)
    if points.ndim != 2 or labels.shape != (len(points),) or not 0 < neighbors < len(points):
        raise LrpError(
            f"separation: points must be (N, D) with N labels and 0 < neighbors < N, got shapes {points.shape} and "
            f"{labels.shape} with {neighbors} neighbors."
        )
    squares = np.sum(points**2, axis=1)
    distance = squares[:, None] - 2 * points @ points.T + squares
    np.fill_diagonal(distance, np.inf)
    nearest = np.argpartition(distance, neighbors, axis=1)[:, :neighbors]
    return 100 * float(np.mean(labels[nearest] == labels[:, None]))


def _vectors(model: Model, sequences: Sequence[Any]) -> list[np.ndarray]:
    """The input vectors (T, D) of each sequence; padding is zero."""
    found = []
    for e in _encoded(model, sequences):
        x = packed(model, [e])[model.main].rows
        one = e[model.main]
        if one.kept is not None:
            x, kept = np.zeros((one.length, model.input_size), model.dtype), x
            x[one.kept] = kept
        found.append(x)
    return found


def _encoded(model: Model, sequences: Any) -> list[EncodedRecord]:
    """The sequences, of which there is one at least."""
    if not (found := encode_all(model, sequences)):
        raise LrpError("sequences must be at least one, got none.")
    return found


def _last(model: Model) -> None:
    if not any(name.endswith(":last") for name in model.used):
        raise LrpError(f"the model must predict from its last hidden vector, got {model!r}.")


def _same(sequences: Sequence[Any], explanations: Sequence[Explanation]) -> None:
    if len(sequences) != len(explanations):
        raise LrpError(f"explanations must be one for each of the {len(sequences)} sequences, got {len(explanations)}.")


def _relevance_of_last(e: Explanation) -> np.ndarray:
    """Relevance of the last recurrent layer's h_T; the backward direction ends at the first step."""
    if e.hidden is None:
        raise LrpError("explanations must have the relevance of hidden states, got none; pass hidden=True.")
    top = max(part.layer for part in e.hidden)
    ends = {"forward": -1, "backward": 0}
    return np.concatenate([part.h[ends[part.direction]] for part in e.hidden if part.layer == top])
