"""Contextual decomposition: how much of every score comes from a phrase, from the rest, from Dense biases.

Every activation is beta + gamma + delta, in this order. delta is the same for all phrases and steps, and gamma
is what is left of the true activation: so beta is all that has to be computed. A *variant* is a sequence with
one of its phrases. Murdoch, Liu & Yu, ICLR 2018; stacks, two directions and Dense layers by the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.batch import Batch
from lrpnumpy.forward import BidirectionalTrace, DenseTrace, LSTMTrace, Trace, merge, per_layer, prepared
from lrpnumpy.kernels import lstm_decomposition as kernels
from lrpnumpy.kernels.steps import CODES
from lrpnumpy.model import Dense, Model

BLOCK = 24_576  # numbers in the state of the variants that go through time together: they stay in the cache
MOST = 1 << 24  # numbers in an array with every step of every variant, unless a single variant has more

F: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "linear": lambda z: z,
    "relu": lambda z: np.maximum(z, 0),
    "tanh": np.tanh,
}


@dataclass(frozen=True, eq=False)
class Parts:
    """What activations are made of: relevant + irrelevant + bias. Of scores each is (V, C), one row a phrase.

    `layers` has the same of each layer's outputs, where asked for: (V, T, M), and (V, M) from the readout on.
    """

    relevant: np.ndarray  # beta
    irrelevant: np.ndarray  # gamma
    bias: np.ndarray  # delta
    layers: tuple[Parts, ...] = ()


class Variants(NamedTuple):
    """Sequences with a phrase, as one direction reads them; those of a sequence stand together."""

    owner: np.ndarray  # (V,) sequence
    T: np.ndarray  # (V,) its length
    start: np.ndarray  # (V,) phrase
    stop: np.ndarray  # (V,)
    lo: np.ndarray  # (V,) the inputs of a layer have a relevant part from here
    hi: np.ndarray  # (V,) to here
    way: int = 1  # -1 for the backward direction

    def mirrored(self) -> Variants:
        """As the backward direction reads them."""
        T, start, stop = self.T, self.T - self.stop, self.T - self.start
        lo, hi = (start, stop) if self.hi is self.stop else (T - self.hi, T - self.lo)
        return Variants(self.owner, T, start, stop, lo, hi, -self.way)

    def above(self, trace: LSTMTrace | BidirectionalTrace) -> Variants:
        """As this layer hands them on to the next."""
        return self._replace(lo=self.lo if isinstance(trace, LSTMTrace) else np.zeros_like(self.lo), hi=self.T)

    def rows(self) -> np.ndarray:
        """(V,) first row of each, where every step of every variant has a row."""
        return np.cumsum(self.T) - self.T

    def steps(self) -> tuple[np.ndarray, np.ndarray]:
        """Variant and step of every such row."""
        v = np.repeat(np.arange(len(self.T)), self.T)
        return v, np.arange(len(v)) - self.rows()[v]

    def take(self, some: slice | np.ndarray) -> Variants:
        """Some of them."""
        owner, T, start, stop, lo, hi = (column[some] for column in self[:-1])
        return Variants(owner, T, start, stop, lo, hi, self.way)


def decompose(
    trace: Trace, spans: Sequence[np.ndarray], *, steps: np.ndarray | None = None, by_layer: bool = False
) -> list[Parts]:
    """Parts of the scores of each sequence of a trace: spans[s] is (V, 2), its phrases [start, stop).

    With readout "every" the scores are those at steps[s], by default the last.
    """
    counts = np.array([len(phrases) for phrases in spans])
    owner = np.repeat(np.arange(len(counts)), counts)
    start, stop = np.concatenate(spans).astype(np.int64, copy=False).T.copy()
    variants = Variants(owner, trace.batch.lengths[owner], start, stop, start, stop)
    parts = _scores(trace, variants, steps)
    cuts = pairwise([0, *np.cumsum(counts).tolist()])
    found = [Parts(parts.relevant[a:b], parts.irrelevant[a:b], parts.bias[a:b]) for a, b in cuts]
    if by_layer:
        layers = _layers(trace, variants, counts, steps)
        return [replace(part, layers=below) for part, below in zip(found, layers, strict=True)]
    return found


def decompose_words(trace: Trace, *, steps: np.ndarray | None = None) -> Parts:
    """Parts of the scores with every word as a phrase of its own: (R, C), in the packed rows of the batch."""
    batch = trace.batch
    if batch.n == 1:
        owner, start = batch.owner, batch.rows
    else:
        owner = np.repeat(np.arange(batch.n), batch.lengths)
        start = np.arange(len(owner)) - batch.starts[owner]
    stop = start + 1
    parts = _scores(trace, Variants(owner, batch.lengths[owner], start, stop, start, stop), steps)
    if batch.n == 1:
        return parts
    return Parts(parts.relevant[batch.rows], parts.irrelevant[batch.rows], parts.bias)


def _scores(trace: Trace, variants: Variants, steps: np.ndarray | None) -> Parts:
    """Parts of the scores, (V, C)."""
    delta = _biases(trace.model)[-1]
    beta = np.empty((len(variants.owner), len(delta)), delta.dtype)
    for some in _portions(trace.model, variants.T):
        for part in _relevant(trace, variants if some is None else variants.take(some), steps):
            last = part
        beta[... if some is None else some] = last
    true = trace.scores[_explained(trace, steps)[variants.owner]]
    true -= delta
    true -= beta
    bias = np.empty_like(beta)
    bias[:] = delta
    return Parts(beta, true, bias)


def _layers(trace: Trace, variants: Variants, counts: np.ndarray, steps: np.ndarray | None) -> list[tuple[Parts, ...]]:
    """Parts of what each layer hands on, for each sequence."""
    batch, top = trace.batch, trace.model.readout_at - 1
    found: list[tuple[Parts, ...]] = [()] * batch.n
    for k, (beta, delta) in enumerate(zip(_relevant(trace, variants, steps), _biases(trace.model), strict=True)):
        if k < top:
            above = trace.layers[k + 1]
            true = batch.split(above.forward.x if isinstance(above, BidirectionalTrace) else above.x)
            cuts = np.cumsum(counts * batch.lengths)[:-1]
        else:
            outputs = trace.pooled if k == top else trace.layers[k].y  # type: ignore[union-attr]
            true, cuts = list(outputs[_explained(trace, steps)]), np.cumsum(counts)[:-1]
        for s, rows in enumerate(np.split(beta, cuts)):
            part = rows.reshape(counts[s], *true[s].shape)
            found[s] += (Parts(part, true[s] - delta - part, np.broadcast_to(delta, part.shape)),)
    return found


@per_layer
def _biases(model: Model) -> list[np.ndarray]:
    """delta of each layer's outputs: F(V delta + d) of a Dense layer. To an LSTM the delta of its inputs is bias."""
    delta, found = np.zeros(model.inputs, model.dtype), []
    for layer in model.layers:
        if isinstance(layer, Dense):
            delta = F[layer.activation](layer.V @ delta + layer.d)
        else:
            delta = np.zeros(layer.outputs, model.dtype)
        found.append(delta)
    return found


def _explained(trace: Trace, steps: np.ndarray | None) -> np.ndarray:
    """(n,) row of each sequence's explained prediction."""
    every = np.arange(trace.batch.n)
    if trace.model.readout != "every":
        return every
    return trace.batch.last if steps is None else trace.batch.first[steps] + every


def _portions(model: Model, T: np.ndarray) -> list[slice | None]:
    """Slices of the variants, as many at once as MOST allows; None for all."""
    if not len(T):
        return []
    if model.readout_at == 1 and model.readout in ("last", "every"):
        return [None]
    width = max(layer.outputs for layer in model.layers[: model.readout_at])
    portion = np.cumsum(T * width) // MOST
    if portion[-1] == 0:
        return [None]
    cuts = [0, *(np.flatnonzero(np.diff(portion)) + 1).tolist(), len(T)]
    return [slice(a, b) for a, b in pairwise(cuts)]


def _relevant(trace: Trace, variants: Variants, steps: np.ndarray | None) -> Iterator[np.ndarray]:
    """beta of each layer's outputs: a row for every step of every variant; from the readout on, (V, M)."""
    model, batch = trace.model, trace.batch
    beta: Any = None  # x in the phrase, 0 outside
    delta = None  # 0
    for k, layer in enumerate(trace.layers):
        is_top = k + 1 == model.readout_at
        if not isinstance(layer, DenseTrace):
            ends = None
            if is_top and model.readout == "last":
                ends = batch.lengths, batch.lengths
            elif is_top and model.readout == "every":
                step = batch.lengths - 1 if steps is None else np.asarray(steps)
                ends = step + 1, batch.lengths - step
            beta = _recurrent(layer, batch, variants, beta, delta, ends)
            if not is_top:
                variants = variants.above(layer)
            elif ends is None:
                beta = _pooled(trace, variants, beta)
        elif k >= model.readout_at:
            beta = _dense(layer, beta, delta, _explained(trace, steps), variants.owner)
        else:
            v, t = variants.steps()
            row = batch.first[t] + variants.owner[v]
            if beta is None:
                inside = (variants.start[v] <= t) & (t < variants.stop[v])
                beta = layer.x[row] * inside[:, None]
            beta = _dense(layer, beta, delta, row)
        delta = _biases(model)[k]
        yield beta


def _dense(layer: DenseTrace, beta: np.ndarray, delta: np.ndarray | None, *rows: np.ndarray) -> np.ndarray:
    """L_a = 1/2 [F(a+b) - F(b) + F(z) - F(z-a)] with a = V beta, b = V delta + d."""
    dense = layer.layer
    a = beta @ dense.V.T
    if dense.activation == "linear":
        return a
    f, z = F[dense.activation], layer.z
    b = dense.d if delta is None else dense.V @ delta + dense.d
    for row in rows:
        z = z[row]
    return (f(a + b) - f(b) + f(z) - f(z - a)) * a.dtype.type(0.5)  # type: ignore[arg-type]


def _pooled(trace: Trace, variants: Variants, beta: np.ndarray) -> np.ndarray:
    """Mean over the rows of each variant; or of those rows that are the largest in its sequence."""
    rows = variants.rows()
    if trace.model.readout == "mean":
        return np.add.reduceat(beta, rows) / variants.T[:, None].astype(beta.dtype)
    winner = np.stack([h.argmax(axis=0) for h in trace.batch.split(trace.merged)])  # (n, M)
    return beta[rows[:, None] + winner[variants.owner], np.arange(beta.shape[1])]


def _recurrent(
    layer: LSTMTrace | BidirectionalTrace,
    batch: Batch,
    variants: Variants,
    beta: np.ndarray | None,
    delta: np.ndarray | None,
    ends: tuple[np.ndarray, np.ndarray] | None,
) -> np.ndarray:
    """beta of a layer's outputs at every step; or after so many steps of each sequence, in either direction."""
    forward, backward = ends or (None, None)
    if isinstance(layer, LSTMTrace):
        return _direction(layer, batch, variants, beta, delta, forward)
    sides = (
        _direction(layer.forward, batch, variants, beta, delta, forward),
        _direction(layer.backward, batch, variants.mirrored(), beta, delta, backward),
    )
    return merge(layer.layer, sides)


def _direction(
    trace: LSTMTrace,
    batch: Batch,
    variants: Variants,
    beta_x: np.ndarray | None,
    delta: np.ndarray | None,
    end: np.ndarray | None,
) -> np.ndarray:
    """The same for one direction."""
    layer, dtype, V = trace.layer, trace.x.dtype, len(variants.owner)
    _, H, D = layer.U.shape
    is_last = end is batch.lengths
    final = np.empty((V if is_last else 0, H), dtype)
    every = np.zeros((0 if is_last else int(variants.T.sum()), H), dtype)
    rows = variants.rows() if variants.way > 0 else np.cumsum(variants.T) - 1
    U, W, _ = prepared(layer)
    room = min(V * H, max(BLOCK, H)) // kernels.LANES + 5  # padded: arrays do not share cache sets (4 KiB aliasing)
    kernels.decompose(
        trace.kept, batch.first, trace.C, trace.seen, np.empty((0, D), dtype) if beta_x is None else beta_x,
        U, W, layer.b if delta is None else layer.b + layer.U @ delta,
        np.array([CODES[layer.activation], CODES[layer.recurrent_activation]]),
        np.stack([variants.owner, variants.start, variants.stop, variants.lo, rows]), variants.way, final, every,
        np.zeros((8, room * kernels.LANES), dtype),
    )  # fmt: skip
    if is_last:
        return final
    return every if end is None else every[rows + variants.way * (end[variants.owner] - 1)]
