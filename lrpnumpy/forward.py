"""Model and packed batch to scores, and a Trace of every activation that a backward pass may ask for."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from lrpnumpy.batch import Batch
from lrpnumpy.kernels import lstm as kernels
from lrpnumpy.kernels.product import pack
from lrpnumpy.kernels.steps import CODES, NONE
from lrpnumpy.model import LSTM, Bidirectional, Dense, Embedding, Layer, Model
from lrpnumpy.rules import Propagation

# Memory that is given back to the system takes longer to get again than we take to fill it. The allocator of glibc
# keeps what is freed, up to the size of the largest block that it has seen come and go: let it see one.
np.empty(31 << 20, np.uint8)

# What a forward pass keeps: scores; all states and projected inputs; every activation; or what one propagation needs.
Keep = Literal["scores", "states", "trace"] | Propagation
T = TypeVar("T")
ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"relu": lambda z: np.maximum(z, 0), "tanh": np.tanh}


def per_layer(function: Callable[[Any], T]) -> Callable[[Any], T]:
    """Remember a function of a layer for as long as the layer lives."""
    known: WeakKeyDictionary[Any, T] = WeakKeyDictionary()

    def remembered(layer: Any) -> T:
        if (found := known.get(layer)) is None:
            found = known[layer] = function(layer)
        return found

    return remembered


def stacked(blocks: Any) -> np.ndarray:
    """Matrices packed for the kernels, one behind the other; read-only."""
    out = np.stack([pack(np.ascontiguousarray(block)) for block in blocks])
    out.setflags(write=False)
    return out


class LSTMTrace(NamedTuple):
    """One direction over one batch. Rows are in the order in which this direction read them; those of x are not."""

    layer: LSTM
    x: np.ndarray  # (R, D)
    order: np.ndarray  # (R,) row of x that each row is of, or empty: the same
    n: int
    Hs: np.ndarray  # (n + R, H) hidden states, the initial ones first; with keep "scores" maybe only the last (n, H)
    C: np.ndarray  # (n + R, H) cell states, the initial ones first, with keep "states" and "trace"
    kept: np.ndarray  # what kernels.lstm keeps: U x + b with keep "states", every activation with keep "trace"
    K: np.ndarray  # per step (kinds, n, H): coefficients of the propagation that was kept for (see kernels.steps)
    ids: np.ndarray  # (R,) row of `table` for each row of x, or empty: the first for all
    table: np.ndarray  # (any, 4 H) what W h_prev + U x was added to: the bias; where x is (R, 0), each word's U x + b

    @property
    def seen(self) -> np.ndarray:
        """(R, D) inputs in the order in which they were read."""
        return self.x[self.order] if len(self.order) else self.x

    @property
    def h(self) -> np.ndarray:
        """(R, H) outputs of every step."""
        return self.Hs[self.n :]


class BidirectionalTrace(NamedTuple):
    """Both directions; the backward one read every sequence mirrored."""

    layer: Bidirectional
    forward: LSTMTrace
    backward: LSTMTrace


class DenseTrace(NamedTuple):
    """y = activation(z), z = V x + d."""

    layer: Dense
    x: np.ndarray
    z: np.ndarray
    y: np.ndarray


LayerTrace = LSTMTrace | BidirectionalTrace | DenseTrace


class Trace(NamedTuple):
    """A forward pass: what every layer saw and did, for one batch."""

    model: Model
    batch: Batch
    layers: tuple[LayerTrace, ...]
    sides: tuple[np.ndarray, ...]  # what the readout got: rows (R, H) of each direction of the last recurrent layer
    merged: np.ndarray  # the same, merged: (R, M), or (n, M) with readout "last"
    pooled: np.ndarray  # what the head got: (n, M), or (R, M) with readout "every"
    scores: np.ndarray  # (n, C), or (R, C) with readout "every"


@per_layer
def prepared(layer: LSTM) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U and W transposed and packed, and the bias as a table of one row."""
    table = layer.b.reshape(1, -1)  # type: ignore[union-attr]
    table.setflags(write=False)
    return stacked(layer.U.transpose(0, 2, 1)), stacked(layer.W.transpose(0, 2, 1)), table


def project(embedding: Embedding, layer: LSTM) -> np.ndarray:
    """U x + b of every word (V, 4 H): looked up instead of multiplied, once the table is made."""
    tables = _tables(layer)
    if embedding not in tables:
        tables[embedding] = embedding.E @ layer.U.reshape(-1, layer.inputs).T + layer.b.ravel()  # type: ignore[union-attr]
    return tables[embedding]


@per_layer
def _tables(layer: LSTM) -> WeakKeyDictionary[Embedding, np.ndarray]:
    return WeakKeyDictionary()


@lru_cache
def nothing(*shape: int, dtype: Any) -> np.ndarray:
    """An empty array, for what nobody asks."""
    return np.empty(shape, dtype)


NO_IDS = STRAIGHT = np.empty(0, np.int64)


def run_lstm(
    layer: LSTM, x: np.ndarray, order: np.ndarray, batch: Batch, keep: Keep, rows: bool, embedding: Embedding | None
) -> LSTMTrace:
    """One direction over packed rows x in this order; of words that are to be looked up projected, where x is (R, 0).

    Keep "scores": only the states are computed, of every step where `rows`.
    """
    U, W, table = prepared(layer)
    ids = NO_IDS
    if x.shape[1] == 0:
        assert batch.ids is not None and embedding is not None
        ids, table = batch.ids, project(embedding, layer)
    n, R, H, dtype = batch.n, len(x), layer.units, x.dtype
    rule, eps = (NONE, 0) if isinstance(keep, str) else (keep.code, keep.eps)
    if rule is None:  # not built in: made from the trace
        keep, rule = "trace", NONE
    flat, none = nothing(0, dtype=dtype), nothing(0, H, dtype=dtype)
    all_states = rows or keep != "scores"
    Hs = np.empty((n + R if all_states else n, H), dtype)
    C = np.empty((n + R, H), dtype) if keep in ("states", "trace") else none
    kept = np.empty({"states": 4, "trace": 9}.get(keep, 0) * R * H if isinstance(keep, str) else 0, dtype)
    K = flat if rule == NONE else np.empty(kernels.KINDS[rule] * R * H, dtype)
    start = np.stack([layer.h0, layer.c0])[:, None]  # type: ignore[list-item]
    codes = np.array([CODES[layer.activation], CODES[layer.recurrent_activation], rule])
    kernels.forward(
        x, batch.first, order, ids, table, U, W, start, codes, dtype.type(eps), K, Hs, C, kept,
    )  # fmt: skip
    return LSTMTrace(layer, x, order, n, Hs, C, kept, K, ids, table)


def run_dense(layer: Dense, x: np.ndarray) -> DenseTrace:
    """A Dense layer over rows x."""
    z = x @ layer.V.T + layer.d
    return DenseTrace(layer, x, z, z if layer.activation == "linear" else ACTIVATIONS[layer.activation](z))


def _run(
    layer: Layer, x: np.ndarray, batch: Batch, keep: Keep, rows: bool, embedding: Embedding | None
) -> tuple[LayerTrace, tuple[np.ndarray, ...]]:
    """The layer's trace and its outputs (R, ·), of each direction apart; only the final ones (n, ·) unless `rows`."""
    if isinstance(layer, Dense):
        dense = run_dense(layer, x)
        return dense, (dense.y,)

    if isinstance(layer, LSTM):
        one = run_lstm(layer, x, STRAIGHT, batch, keep, rows, embedding)
        return one, (one.h if rows else _final(one, batch),)
    two = BidirectionalTrace(
        layer,
        run_lstm(layer.forward, x, STRAIGHT, batch, keep, rows, embedding),
        run_lstm(layer.backward, x, batch.flip, batch, keep, rows, embedding),
    )
    if rows:
        return two, (two.forward.h, two.backward.h[batch.flip])
    return two, (_final(two.forward, batch), _final(two.backward, batch))


def _final(trace: LSTMTrace, batch: Batch) -> np.ndarray:
    """(n, H) last state of each sequence."""
    return trace.h[batch.last] if len(trace.Hs) > trace.n else trace.Hs


def merge(layer: Layer, sides: tuple[np.ndarray, ...]) -> np.ndarray:
    """Outputs of a layer's directions as one."""
    if not isinstance(layer, Bidirectional):
        return sides[0]
    if layer.merge == "concat":
        return np.concatenate(sides, axis=1)
    return (sides[0] + sides[1]) * sides[0].dtype.type(1 if layer.merge == "sum" else 0.5)


def pool(readout: str, rows: np.ndarray, batch: Batch) -> np.ndarray:
    """(R, M) outputs of all steps to the (n, M) that the head gets; unchanged with "last" and "every"."""
    if readout == "mean":
        return np.add.reduceat(batch.unpack(rows), batch.starts) / batch.lengths[:, None].astype(rows.dtype)
    if readout == "max":
        return np.maximum.reduceat(batch.unpack(rows), batch.starts)
    return rows


def forward(model: Model, batch: Batch, keep: Keep = "scores") -> Trace:
    """Scores of a batch, and what `keep` asks for: what a backward pass needs, or what variants start from."""
    x, traces = batch.x, []
    for k, layer in enumerate(model.layers[: model.readout_at]):
        is_top = k + 1 == model.readout_at
        trace, sides = _run(layer, x, batch, keep, not is_top or model.readout != "last", model.embedding)
        x = merge(layer, sides)
        traces.append(trace)
    merged = x
    pooled = x = pool(model.readout, merged, batch)
    for layer in model.layers[model.readout_at :]:
        head = run_dense(layer, x)  # type: ignore[arg-type]
        x = head.y
        traces.append(head)
    return Trace(model, batch, tuple(traces), sides, merged, pooled, x)
