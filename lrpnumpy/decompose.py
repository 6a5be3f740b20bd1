"""Contextual decomposition: how much of each score comes from a phrase, from the rest, and from Dense biases.

Every activation is beta + gamma + delta, in this order. delta is the same for all phrases and steps, and gamma is
what is left of the true activation: so beta is all that has to be computed. A *variant* is a sequence with one of
its phrases.
Murdoch, Liu & Yu, ICLR 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from lrpnumpy.batch import Batch
from lrpnumpy.forward import BidirectionalTrace, DenseTrace, LSTMTrace, Trace, merge, prepared
from lrpnumpy.kernels import decomposition as kernels
from lrpnumpy.kernels.steps import CODES
from lrpnumpy.model import Dense, Model

BLOCK = 12_288  # numbers in the state of the variants that go through time together: they should stay in the cache
MOST = 1 << 24  # numbers in an array that holds every step of every variant, unless a single variant has more

F: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "linear": lambda z: z,
    "relu": lambda z: np.maximum(z, 0),
    "tanh": np.tanh,
}


@dataclass(frozen=True, eq=False)
class Parts:
    """What activations are made of: relevant + irrelevant + bias. Of scores each is (V, C), one row a phrase."""

    relevant: np.ndarray  # beta
    irrelevant: np.ndarray  # gamma
    bias: np.ndarray  # delta
    layers: tuple[Parts, ...] = ()  # those of each layer's outputs, if asked for: (V, T, M); after the readout (V, M)


@dataclass(frozen=True, eq=False)
class Variants:
    """Sequences with a phrase [start, stop), in the steps of one direction; those of a sequence stand together."""

    owner: np.ndarray  # (V,) sequence
    start: np.ndarray  # (V,)
    stop: np.ndarray  # (V,)
    lo: np.ndarray  # (V,) before it, a layer's inputs have no relevant part
    hi: np.ndarray  # (V,) nor from here on
    T: np.ndarray  # (V,) length of the sequence
    rows: np.ndarray  # (V,) its first row, where every step of every variant has a row
    way: int = 1  # -1 for the backward direction, which begins with the last row

    def mirrored(self) -> Variants:
        """As the backward direction sees them."""
        start, stop, lo, hi = (self.T - t for t in (self.stop, self.start, self.hi, self.lo))
        return Variants(self.owner, start, stop, lo, hi, self.T, self.rows, -1)

    def spread(self, two_ways: bool) -> Variants:
        """As the layer above sees them."""
        return replace(self, lo=np.zeros_like(self.lo) if two_ways else self.lo, hi=self.T)

    def steps(self) -> tuple[np.ndarray, np.ndarray]:
        """Variant and step of every row."""
        v = np.repeat(np.arange(len(self.T)), self.T)
        return v, np.arange(len(v)) - self.rows[v]


def decompose(
    trace: Trace, spans: Sequence[np.ndarray], *, steps: np.ndarray | None = None, by_layer: bool = False
) -> list[Parts]:
    """Parts of the scores of each sequence of a trace: spans[s] is (V, 2), its phrases [start, stop).

    With readout "every" the scores are those at steps[s], by default the last.
    """
    batch, counts = trace.batch, np.array([len(phrases) for phrases in spans])
    owner = np.repeat(np.arange(batch.n), counts)
    start, stop = np.concatenate(spans).astype(np.int64, copy=False).T.copy()
    step = batch.lengths - 1 if steps is None else np.asarray(steps)
    T, deltas = batch.lengths[owner], _biases(trace.model)
    found: list[list[np.ndarray]] = [[] for _ in deltas]
    for some in [slice(len(T))] if by_layer else _portions(trace.model, T):
        rows = np.cumsum(T[some]) - T[some]
        variants = Variants(owner[some], start[some], stop[some], start[some], stop[some], T[some], rows)
        for k, beta in enumerate(_relevant(trace, variants, step, deltas)):
            if by_layer or k + 1 == len(deltas):
                found[k].append(beta)
    explained = _explained(trace, step)
    beta, delta = np.concatenate(found[-1]), deltas[-1]
    gamma = trace.scores[explained[owner]] - delta - beta
    bias = np.broadcast_to(delta, beta.shape)
    cuts = zip(np.cumsum(counts) - counts, np.cumsum(counts), strict=True)
    parts = [Parts(beta[a:b], gamma[a:b], bias[a:b]) for a, b in cuts]
    if by_layer:
        betas = [rows for (rows,) in found]
        return [replace(p, layers=_split(trace, betas, deltas, counts, explained, s)) for s, p in enumerate(parts)]
    return parts


def _split(
    trace: Trace, betas: list[np.ndarray], deltas: list[np.ndarray], counts: np.ndarray, explained: np.ndarray, s: int
) -> tuple[Parts, ...]:
    """The parts of each layer's outputs for sequence s."""
    batch, top = trace.batch, trace.model.readout_at - 1
    V, T, v = counts[s], batch.lengths[s], counts[:s].sum()
    rows = (counts * batch.lengths)[:s].sum()
    out = []
    for k, (beta, delta) in enumerate(zip(betas, deltas, strict=True)):
        if k < top:
            above = trace.layers[k + 1]
            x = above.forward.x if isinstance(above, BidirectionalTrace) else above.x
            true, part = batch.split(x)[s], beta[rows : rows + V * T].reshape(V, T, beta.shape[1])
        else:
            true = (trace.pooled if k == top else trace.layers[k].y)[explained[s]]  # type: ignore[union-attr]
            part = beta[v : v + V]
        out.append(Parts(part, true - delta - part, np.broadcast_to(delta, part.shape)))
    return tuple(out)


def _biases(model: Model) -> list[np.ndarray]:
    """delta of each layer's outputs: F(V delta + d) of a Dense layer; an LSTM divides its inputs' among the others."""
    delta, out = np.zeros(model.inputs, model.dtype), []
    for layer in model.layers:
        if isinstance(layer, Dense):
            delta = F[layer.activation](layer.V @ delta + layer.d)
        else:
            delta = np.zeros(layer.outputs, model.dtype)
        out.append(delta)
    return out


def _explained(trace: Trace, step: np.ndarray) -> np.ndarray:
    """Row of each sequence's explained prediction."""
    n = np.arange(trace.batch.n)
    return trace.batch.first[step] + n if trace.model.readout == "every" else n


def _portions(model: Model, T: np.ndarray) -> list[slice]:
    """Slices of the variants, as many at once as MOST allows."""
    if model.readout_at == 1 and model.readout in ("last", "every"):
        return [slice(len(T))]
    width = max(layer.outputs for layer in model.layers[: model.readout_at])
    portion = np.cumsum(T * width) // MOST
    cuts = [0, *(np.flatnonzero(np.diff(portion)) + 1).tolist(), len(T)]
    return [slice(a, b) for a, b in pairwise(cuts)]


def _relevant(trace: Trace, variants: Variants, step: np.ndarray, deltas: list[np.ndarray]) -> Iterator[np.ndarray]:
    """beta of each layer's outputs: a row for every step of every variant; from the readout on, (V, M)."""
    model, batch = trace.model, trace.batch
    beta: Any = None  # of the first layer's inputs: x in the phrase, 0 outside
    delta: np.ndarray | None = None  # 0
    for k, layer in enumerate(trace.layers):
        if isinstance(layer, DenseTrace):
            if k >= model.readout_at:
                at = _explained(trace, step)[variants.owner]
            else:
                v, t = variants.steps()
                at = batch.first[t] + variants.owner[v]
                if beta is None:
                    inside = (variants.start[v] <= t) & (t < variants.stop[v])
                    beta = layer.x[at] * inside[:, None]
            beta = _dense(layer, beta, delta, layer.z[at])
        else:
            is_top = k + 1 == model.readout_at
            ends = None  # every step is needed
            if is_top and model.readout == "last":
                ends = batch.lengths, batch.lengths
            elif is_top and model.readout == "every":
                ends = step + 1, batch.lengths - step
            beta = _recurrent(layer, batch, variants, beta, delta, ends)
            variants = variants.spread(isinstance(layer, BidirectionalTrace))
            if is_top and ends is None:
                beta = _pool(trace, variants, beta)
        delta = deltas[k]
        yield beta


def _dense(trace: DenseTrace, beta: np.ndarray, delta: np.ndarray | None, z: np.ndarray) -> np.ndarray:
    """L_a = 1/2 [F(a+b) - F(b) + F(z) - F(z-a)] with a = V beta, b = V delta + d."""
    layer = trace.layer
    a = beta @ layer.V.T
    if layer.activation == "linear":
        return a
    f: Callable[[Any], np.ndarray] = F[layer.activation]
    b = layer.d if delta is None else layer.V @ delta + layer.d
    return (f(a + b) - f(b) + f(z) - f(z - a)) * a.dtype.type(0.5)


def _pool(trace: Trace, variants: Variants, beta: np.ndarray) -> np.ndarray:
    """Mean over the rows of each variant, or those rows that win in its sequence."""
    if trace.model.readout == "mean":
        return np.add.reduceat(beta, variants.rows) / variants.T[:, None].astype(beta.dtype)
    winner = np.stack([rows.argmax(axis=0) for rows in trace.batch.split(trace.merged)])  # (n, M)
    return beta[variants.rows[:, None] + winner[variants.owner], np.arange(beta.shape[1])]


def _recurrent(
    trace: LSTMTrace | BidirectionalTrace,
    batch: Batch,
    variants: Variants,
    beta: np.ndarray | None,
    delta: np.ndarray | None,
    ends: tuple[np.ndarray, np.ndarray] | None,
) -> np.ndarray:
    """beta of a layer's outputs at every step, or only at each direction's step `ends` of each sequence."""
    if isinstance(trace, BidirectionalTrace):
        sides = [(trace.forward, variants), (trace.backward, variants.mirrored())]
    else:
        sides = [(trace, variants)]
    found = []
    for (side, seen), end in zip(sides, ends or (None, None), strict=False):
        found.append(_run(side, batch, seen, beta, delta, end))
    return merge(trace.layer, tuple(found))


def _run(
    trace: LSTMTrace,
    batch: Batch,
    variants: Variants,
    beta_x: np.ndarray | None,
    delta: np.ndarray | None,
    end: np.ndarray | None,
) -> np.ndarray:
    """The same for one direction."""
    layer, dtype = trace.layer, trace.x.dtype
    (H, D), V, keep = layer.U.shape[1:], len(variants.T), end is None
    plan = _plan(variants, batch.lengths if end is None else end, max(BLOCK // H, 1))
    m, n = plan.most_variants, plan.most_sequences
    b = layer.b if delta is None else layer.b + layer.U @ delta
    beta = np.zeros((V, H), dtype)
    rows = np.zeros((variants.T.sum() if keep else 0, H), dtype)
    U, W, _ = prepared(layer)
    kernels.decompose(
        trace.Z, batch.first, trace.A, trace.C, trace.Y, trace.at, trace.x,
        np.empty((0, D), dtype) if beta_x is None else beta_x, U, W, b,
        CODES[layer.activation], CODES[layer.recurrent_activation],
        plan.block_runs, plan.block_from, plan.block_to, plan.sequence, plan.end,
        plan.run_slots, plan.run_place, plan.join, plan.start, plan.stop, plan.origin, variants.way, int(keep),
        np.empty((9, n * H), dtype), np.empty((16, n * H), dtype), np.empty((3, m * H), dtype), np.empty((m, H), dtype),
        np.empty((m if beta_x is not None else 0, D), dtype), np.empty((2, m * H), dtype), beta, rows,
    )  # fmt: skip
    if keep:
        return rows
    out = np.empty_like(beta)
    out[plan.order] = beta
    return out


@dataclass(frozen=True, eq=False)
class Plan:
    """In which blocks and runs the kernel takes the variants: see kernels.decomposition."""

    order: np.ndarray  # (V,) variant in each slot
    block_runs: np.ndarray
    block_from: np.ndarray
    block_to: np.ndarray
    sequence: np.ndarray
    end: np.ndarray
    run_slots: np.ndarray
    run_place: np.ndarray
    join: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    origin: np.ndarray
    most_variants: int
    most_sequences: int


def _plan(variants: Variants, end: np.ndarray, size: int) -> Plan:
    """Blocks of about `size` variants."""
    sequence = np.argsort(-end, kind="stable")
    place = np.empty_like(sequence)
    place[sequence] = np.arange(len(sequence))
    end = end[sequence]
    order = np.argsort(place[variants.owner], kind="stable")
    p = place[variants.owner[order]]
    count = np.bincount(p, minlength=len(end))
    before = (np.cumsum(count) - count)[p]
    V = len(p)
    block = before // size + (np.arange(V) - before) // size
    cuts = np.concatenate(([0], np.flatnonzero(np.diff(block)) + 1, [V]))
    block = np.repeat(np.arange(len(cuts) - 1), np.diff(cuts))
    block_from, block_to = p[cuts[:-1]], p[cuts[1:] - 1] + 1
    L = end[block_from]
    late = L[block] - end[p]  # steps of the block before the sequence begins
    start, stop = variants.start[order] + late, variants.stop[order] + late
    join = variants.lo[order] + late
    by = np.argsort(block * (join.max() + 1) + join, kind="stable")
    order, p, start, stop, join, late = order[by], p[by], start[by], stop[by], join[by], late[by]
    new = (np.diff(p) != 1) | np.any([np.diff(part) != 0 for part in (join, start, stop, block)], axis=0)
    slots = np.concatenate(([0], np.flatnonzero(new) + 1, [V]))
    begin = slots[:-1]
    if variants.way > 0:
        origin = variants.rows[order] - late
    else:
        origin = variants.rows[order] + variants.T[order] - 1 + late
    return Plan(
        order, np.searchsorted(slots, cuts), block_from, block_to, sequence, end, slots,
        p[begin] - block_from[block[begin]],
        join[begin], start[begin], stop[begin], origin, int(np.diff(cuts).max()), int((block_to - block_from).max()),
    )  # fmt: skip
