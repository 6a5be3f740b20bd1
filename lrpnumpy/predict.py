"""Scores of one sequence or many, and on request every activation on the way."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, overload

import numpy as np

from lrpnumpy.encode import encode, encode_all, packed
from lrpnumpy.model import Model
from lrpnumpy.packed import Packed
from lrpnumpy.passes import forward
from lrpnumpy.schedule import run_chunks


@overload
def predict(model: Model, x: Any, *, trace: Literal[False] = False) -> np.ndarray: ...
@overload
def predict(model: Model, x: Any, *, trace: Literal[True]) -> tuple[np.ndarray, tuple[NamedTuple, ...]]: ...
def predict(model: Model, x: Any, *, trace: bool = False) -> Any:
    """Scores (C,) of one sequence, or (T, C) where the model predicts at every step.

    `x` is a string, a list of words, token ids, or a (T, D) array. With `trace` also every activation of every layer:
    a pair of the scores and a tuple of `States` and `Outputs`, lowest layer first. Steps that are padding are left out.
    """
    with np.errstate(all="ignore"):
        passed = forward(model, packed(model, [encode(model, x)]), "trace" if trace else None)
    scores = passed.scores if model.every else passed.scores[0]
    if not trace:
        return scores
    nodes = [model.nodes[k] for k in model.numbers]
    shown = [part for k, node in enumerate(nodes) for part in node.layer.activations(k, passed.ran[node.name])]
    return scores, tuple(shown)


def predict_all(model: Model, sequences: Any, *, threads: int | None = None) -> Any:
    """Scores (N, C) of several sequences of any lengths, or a list of (T, C) arrays with predictions at every step."""
    encoded = encode_all(model, sequences)
    scores = np.empty((len(encoded), model.outputs), model.dtype)
    steps: list[Any] = [None] * len(encoded)

    def work(positions: np.ndarray, x: dict[str, Packed]) -> None:
        found = forward(model, x).output
        if not model.every:
            scores[positions] = found.rows
            return
        for k, part in zip(positions, found.batch.split(found.rows), strict=True):
            steps[k] = part

    run_chunks(model, encoded, work, threads)
    return steps if model.every else scores
