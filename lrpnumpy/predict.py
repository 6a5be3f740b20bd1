"""Scores of one sequence or many, and on request every activation on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from lrpnumpy.batch import Batch, Encoded, chunks, encode, encode_all, pack
from lrpnumpy.checks import LrpError
from lrpnumpy.forward import BidirectionalTrace, DenseTrace, LSTMTrace, Trace, forward
from lrpnumpy.model import Dense, Model

ROWS_WORTH_A_THREAD = 4000  # times the widest layer's units over 64: below a millisecond of work threads do not pay


class States(NamedTuple):
    """Every activation of one direction of an LSTM layer, in the order of the input."""

    layer: int
    direction: str  # "forward" or "backward"
    z: np.ndarray  # (T, 4, H) pre-activations, gates i, f, g, o
    gates: np.ndarray  # (T, 4, H)
    c: np.ndarray  # (T, H)
    h: np.ndarray  # (T, H)


class Outputs(NamedTuple):
    """Pre-activations and outputs of a Dense layer."""

    layer: int
    z: np.ndarray
    y: np.ndarray


def width(model: Model) -> int:
    """Units of the widest recurrent layer."""
    return max(layer.outputs for layer in model.layers if not isinstance(layer, Dense))


def run_chunks(
    model: Model,
    encoded: Sequence[Encoded],
    work: Callable[[np.ndarray, Batch], None],
    threads: int | None,
    look_up: bool = False,
) -> None:
    """Call work(positions, batch) for chunks of the sequences, on several threads where it pays."""
    if threads is not None and not (isinstance(threads, int) and threads > 0):
        raise LrpError(f"threads must be a positive number, or None for what pays, got {threads!r}.")
    if len(encoded) == 1:
        work(np.zeros(1, np.int64), pack(model, encoded, look_up))
        return
    lengths = [sequence.steps for sequence in encoded]
    parts = chunks(lengths, width(model))

    def one(part: np.ndarray) -> None:
        work(part, pack(model, [encoded[k] for k in part.tolist()], look_up))

    if threads is None:
        enough = sum(lengths) * width(model) > 64 * ROWS_WORTH_A_THREAD
        threads = (cpu_count() or 1) if enough else 1
    if threads == 1 or len(parts) == 1:
        for part in parts:
            one(part)
        return
    with ThreadPoolExecutor(threads) as pool:
        try:
            for done in [pool.submit(one, part) for part in parts]:
                done.result()
        except BaseException:  # an error or Ctrl-C: do not start the rest
            pool.shutdown(cancel_futures=True)
            raise


@overload
def predict(model: Model, x: Any, *, trace: Literal[False] = False) -> np.ndarray: ...
@overload
def predict(model: Model, x: Any, *, trace: Literal[True]) -> tuple[np.ndarray, tuple[States | Outputs, ...]]: ...
def predict(model: Model, x: Any, *, trace: bool = False) -> Any:
    """Scores (C,) of one sequence, or (T, C) with readout "every".

    `x` is a string, a list of words, token ids, or a (T, D) array. With `trace` also every activation of every layer:
    a pair of the scores and a tuple of `States` and `Outputs`, lowest layer first. Steps that are padding are left out.
    """
    batch = pack(model, [encode(model, x)])
    passed = forward(model, batch, "trace" if trace else "scores")
    scores = passed.scores if model.readout == "every" else passed.scores[0]
    return (scores, _states(passed)) if trace else scores


def _states(trace: Trace) -> tuple[States | Outputs, ...]:
    """The trace of a batch of one sequence, as its user sees it."""
    out: list[States | Outputs] = []
    for k, layer in enumerate(trace.layers):
        if isinstance(layer, DenseTrace):
            out.append(Outputs(k, layer.z, layer.y))
            continue
        both = (layer.forward, layer.backward) if isinstance(layer, BidirectionalTrace) else (layer,)
        for side, name in zip(both, ("forward", "backward"), strict=False):
            out.append(_side(k, name, side))
    return tuple(out)


def _side(k: int, name: str, side: LSTMTrace) -> States:
    kept = side.kept.reshape(len(side.h), 9, -1)
    order = slice(None, None, -1 if name == "backward" else 1)
    parts = kept[:, :4], kept[:, 4:8], side.C[1:], side.h
    return States(k, name, *(part[order] for part in parts))


def predict_all(model: Model, sequences: Any, *, threads: int | None = None) -> Any:
    """Scores (N, C) of several sequences of any lengths, or a list of (T, C) arrays with readout "every"."""
    encoded = encode_all(model, sequences)
    every = model.readout == "every"
    scores = np.empty((len(encoded), model.outputs), model.dtype)
    steps: list[Any] = [None] * len(encoded)

    def work(positions: np.ndarray, batch: Batch) -> None:
        found = forward(model, batch).scores
        if not every:
            scores[positions] = found
            return
        for k, part in zip(positions, batch.split(found), strict=True):
            steps[k] = part

    run_chunks(model, encoded, work, threads)
    return steps if every else scores
