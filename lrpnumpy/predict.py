"""Scores of one sequence or many, and every activation on the way."""

from __future__ import annotations

from typing import Any

import numpy as np

from lrpnumpy.encode import encode, encode_all, packed
from lrpnumpy.kernels import compile
from lrpnumpy.meant import door
from lrpnumpy.model import Model
from lrpnumpy.packed import Packed
from lrpnumpy.passes import forward, path_of
from lrpnumpy.schedule import run_chunks


@door
def predict(model: Model, x: Any) -> np.ndarray:
    """Scores (C,) of one sequence, or (T, C) where the model predicts at every step.

    model: a network, from `load` or built from layers.
    x: an input, as in `explain`: a string, a list of words, token ids, a (T, D) array.
    """
    record = encode(model, x)
    path = path_of(model, (None,), record[model.main].steps * model.row_size)
    with np.errstate(all="ignore"), compile.on(path):
        scores = forward(model, packed(model, [record])).scores
    return scores if model.every else scores[0]


@door
def trace(model: Model, x: Any) -> dict[str, np.ndarray]:
    """Every activation of the `model` for one input `x`, by name, in the order of computation.

    Inputs and outputs of nodes are named after the input or the node: "x", "0", "1", … for a list of layers, in which
    "readout" turns all steps into one vector. Gates and states of a recurrent layer, (T, H) each, are "0/i", "0/f",
    "0/g", "0/o", "0/c", "0/h" for an LSTM, and z, r, n, h for a GRU; with two directions "0/forward/i" and
    "0/backward/i". Further outputs of a layer are "0:last" or "0:cell". Inputs are scaled, as the network reads them;
    ":units" are the scores in units of the target. Padding is left out.
    """
    with np.errstate(all="ignore"):
        passed = forward(model, packed(model, [encode(model, x)]), "values")
        found = {name: value.rows for name, value in passed.inputs.items()}
        for node in model.nodes:
            ran = passed.ran[node.name]
            found |= {f"{node.name}/{path}": values for path, values in node.layer.inside(ran).items()}
            found |= {node.name + key: y.rows for key, y in zip(model.wanted[node.name], ran.outputs, strict=True)}
    return found


@door
def predict_all(model: Model, xs: Any, *, threads: int | None = None) -> np.ndarray | list[np.ndarray]:
    """Scores (N, C) of several sequences of any lengths, or a list of (T, C) arrays with predictions at every step.

    model, xs, threads: as in `explain_all`.
    """
    encoded = encode_all(model, xs)
    scores = np.empty((len(encoded), model.outputs), model.dtype)
    steps = [scores] * len(encoded)

    def work(positions: np.ndarray, x: dict[str, Packed]) -> None:
        found = forward(model, x).output
        if not model.every:
            scores[positions] = found.rows
        else:
            for k, part in zip(positions, found.batch.split(found.rows), strict=True):
                steps[k] = part

    run_chunks(model, encoded, work, threads)
    return steps if model.every else scores
