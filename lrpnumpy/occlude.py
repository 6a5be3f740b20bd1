"""Occlusion: the scores of a network when a phrase or a single input is replaced or left out.

Every such variant differs from its sequence in one run of steps. A `Change` says in which, and what stands there
instead; each layer turns the change of its inputs into the change of its outputs. One direction of an LSTM changes
everything from the first changed step on (or, with `tol`, until its state is back), and nothing before: all variants
begin from the states of the sequence itself. Two directions change what is on both sides, Dense layers only the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from lrpnumpy.batch import Batch
from lrpnumpy.checks import LrpError
from lrpnumpy.forward import (
    BidirectionalTrace,
    DenseTrace,
    LSTMTrace,
    Trace,
    forward,
    merge,
    prepared,
    run_dense,
)
from lrpnumpy.kernels import occlusion as kernels
from lrpnumpy.kernels.steps import CODES
from lrpnumpy.model import Model

MOST = 1 << 24  # numbers in the largest array of one group of variants, unless a single variant has more


@dataclass(frozen=True, eq=False)
class Variants:
    """Which sequence each variant is of, and which of its steps it leaves out."""

    owner: np.ndarray  # (V,)
    T: np.ndarray  # (V,) number of steps of that sequence
    gap: tuple[np.ndarray, np.ndarray] | None  # (V,) start and stop
    is_mirrored: bool = False

    def mirrored(self) -> Variants:
        """As the backward direction sees them."""
        gap = None if self.gap is None else (self.T - self.gap[1], self.T - self.gap[0])
        return Variants(self.owner, self.T, gap, not self.is_mirrored)


@dataclass(frozen=True, eq=False)
class Change:
    """What variants have in place of their sequence's rows: rows[own + stride (t - lo)] at step t from lo to hi."""

    lo: np.ndarray  # (V,)
    hi: np.ndarray  # (V,)
    own: np.ndarray  # (V,)
    stride: int  # 0 where all steps of a variant share a row
    rows: np.ndarray

    def mirrored(self, T: np.ndarray) -> Change:
        """As the backward direction sees it in sequences of T steps."""
        own = self.own + self.stride * (self.hi - self.lo - 1)
        return Change(T - self.hi, T - self.lo, own, -self.stride, self.rows)


def occlude(
    trace_or_model: Trace | Model,
    batch: Batch,
    spans: Sequence[np.ndarray],
    *,
    baseline: np.ndarray | None = None,
    how: Literal["zero", "omit"] = "zero",
    variables: bool = False,
    tol: float = 0.0,
    steps: np.ndarray | None = None,
) -> list[np.ndarray]:
    """Scores (V, C) of each sequence's variants, one for each of its phrases: spans[s] is (V, 2) of [start, stop).

    The phrase is replaced by the vector `baseline` (D,), zero by default, or with how="omit" left out. With `variables`
    each single number of the sequence is replaced in turn, whatever the spans, and the result is (T, D, C). A trace, where
    there is one, comes from forward(…, keep="states"). With readout "every" the scores are those at steps[s], by default
    the last; where that step is left out, those at the last step before it that stays, or else at the first after it.

    A variant whose state in a layer has come back within `tol` of its sequence's (absolute, c and h) goes on as the
    sequence does in that layer; 0, the default, is exact.
    """
    trace = trace_or_model if isinstance(trace_or_model, Trace) else forward(trace_or_model, batch, "states")
    model, D, dtype = trace.model, trace.model.inputs, trace.scores.dtype
    if variables:
        counts = batch.lengths * D
        start = np.concatenate([np.arange(n) for n in batch.lengths]).repeat(D)
        stop = start + 1
    else:
        counts = np.array([*map(len, spans)])
        start, stop = np.concatenate(spans).T
    order, owner = _side_by_side(counts)
    start, stop, T = start[order], stop[order], batch.lengths[owner]
    position = T - 1 if steps is None else np.asarray(steps)[owner]
    gap = None
    if how == "omit" and not variables:
        gap = start, stop
        if (whole := stop - start == T).any():
            raise LrpError(f"how='omit' must leave at least one step, got a phrase of all {T[whole][0]}; use how='zero'.")
        left_out = (start <= position) & (position < stop)
        position = np.where(left_out, np.where(start > 0, start - 1, stop), position)
    instead = np.zeros((1, D), dtype) if baseline is None else np.asarray(baseline, dtype).reshape(1, D)
    pooling = Pooling(trace) if model.readout in ("mean", "max") else None
    scores = np.empty((len(T), model.outputs), dtype)
    for some in _groups(model, T):
        rows, own = instead, np.zeros(len(T[some]), np.int64)
        if variables:
            own, d = np.arange(len(own)), order[some] % D
            rows = batch.x[batch.first[start[some]] + owner[some]]  # type: ignore[index]
            rows[own, d] = instead[0, d]
        variants = Variants(owner[some], T[some], gap and (start[some], stop[some]))
        change = Change(start[some], stop[some], own, int(variables), rows)
        scores[order[some]] = _scores(trace, pooling, variants, change, position[some], tol)
    ends = np.cumsum(counts).tolist()
    found = [scores[a:b] for a, b in pairwise([0, *ends])]
    return [part.reshape(-1, D, model.outputs) for part in found] if variables else found


def _side_by_side(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Order and owner of the variants: the first of every sequence, then the second, …; they make the widest strips."""
    owner = np.repeat(np.arange(len(counts)), counts)
    if len(counts) == 1:
        return np.arange(len(owner)), owner
    k = np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
    order = np.argsort(k.astype(np.uint16) if counts.max() < 1 << 16 else k, kind="stable")  # NumPy sorts 16 bits fastest
    return order, owner[order]


def _groups(model: Model, T: np.ndarray) -> list[slice]:
    """Slices of the variants, as many at once as MOST allows."""
    recurrent = [layer for layer in model.layers[: model.readout_at] if not hasattr(layer, "V")]
    width = max(layer.inputs + 4 * layer.outputs for layer in recurrent)
    rows = len(recurrent) > 1 or model.readout in ("mean", "max")
    if len(T) * width * (T.max(initial=0) if rows else 1) <= MOST:
        return [slice(0, len(T))]
    group = np.cumsum(T * width if rows else np.full(len(T), width)) // MOST
    cuts = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(T)]
    return [slice(a, b) for a, b in pairwise(cuts)]


def _scores(
    trace: Trace, pooling: Pooling | None, variants: Variants, change: Change, position: np.ndarray, tol: float
) -> np.ndarray:
    """(V, C) scores of variants whose inputs have changed."""
    model, batch = trace.model, trace.batch
    for layer in trace.layers[: model.readout_at]:
        if isinstance(layer, DenseTrace):
            change = replace(change, rows=run_dense(layer.layer, change.rows).y)
        elif layer is trace.layers[model.readout_at - 1] and pooling is None:
            x = _last(layer, batch, variants, change, position if model.readout == "every" else None, tol)
        else:
            change = _changed(layer, batch, variants, change, tol)
    if pooling is not None:
        x = pooling(variants, change)
    for layer in trace.layers[model.readout_at :]:
        x = run_dense(layer.layer, x).y  # type: ignore[arg-type]
    return x


def _directions(
    trace: LSTMTrace | BidirectionalTrace, variants: Variants, change: Change
) -> list[tuple[LSTMTrace, Variants, Change]]:
    """What each direction sees."""
    if isinstance(trace, LSTMTrace):
        return [(trace, variants, change)]
    return [(trace.forward, variants, change), (trace.backward, variants.mirrored(), change.mirrored(variants.T))]


def _last(
    trace: LSTMTrace | BidirectionalTrace,
    batch: Batch,
    variants: Variants,
    change: Change,
    position: np.ndarray | None,
    tol: float,
) -> np.ndarray:
    """(V, M) outputs of a layer at the position, or without one each direction's last, merged."""
    T = variants.T
    ends = (T, T) if position is None else (position + 1, T - position)
    every = np.arange(len(T))
    sides = []
    for side, end in zip(_directions(trace, variants, change), ends, strict=False):
        out = np.empty((len(T), side[0].layer.units), change.rows.dtype)
        _run(*side, batch, end, tol, False, every, out)
        sides.append(out)
    return merge(trace.layer, tuple(sides))


def _changed(
    trace: LSTMTrace | BidirectionalTrace, batch: Batch, variants: Variants, change: Change, tol: float
) -> Change:
    """The change of a layer's outputs."""
    T = variants.T
    found = []
    for side in _directions(trace, variants, change):
        lo = side[2].lo
        at = np.cumsum(T - lo) - (T - lo)
        out = np.zeros((int((T - lo).sum()), side[0].layer.units), change.rows.dtype)
        found.append(Change(lo, _run(*side, batch, T, tol, True, at, out), at, 1, out))
    if isinstance(trace, LSTMTrace):
        h = [trace.h]
    else:
        h, found[1] = [trace.forward.h, trace.backward.h], found[1].mirrored(T)
    lo = np.minimum.reduce([side.lo for side in found])
    hi = np.maximum.reduce([side.hi for side in found])
    own = np.cumsum(hi - lo) - (hi - lo)
    v, t = _steps(lo, hi)
    row = batch.first[t] + variants.owner[v]
    sides = []
    for side, rows in zip(found, h, strict=True):
        out = rows[row if side.stride > 0 else batch.flip[row]]
        inside = np.flatnonzero((side.lo[v] <= t) & (t < side.hi[v]))
        w, s = v[inside], t[inside]
        out[inside] = side.rows[side.own[w] + side.stride * (s - side.lo[w])]
        sides.append(out)
    return Change(lo, hi, own, 1, merge(trace.layer, tuple(sides)))


def _steps(lo: np.ndarray, hi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Variant and step of every step from lo to hi, one variant after the other."""
    count = hi - lo
    v = np.repeat(np.arange(len(lo)), count)
    return v, np.arange(len(v)) - np.repeat(np.cumsum(count) - count - lo, count)


def _run(
    trace: LSTMTrace,
    variants: Variants,
    change: Change,
    batch: Batch,
    end: np.ndarray,
    tol: float,
    keep: bool,
    at: np.ndarray,
    out: np.ndarray,
) -> np.ndarray:
    """Run one direction up to `end` and put its outputs to rows `at` of `out`; the step at which each variant is through."""
    layer, V = trace.layer, len(end)
    places = min(V, max(batch.n, 48, 4096 // layer.units))
    lo, hi = change.lo, change.hi
    gap_start, gap_stop = variants.gap or (np.full(V, -1),) * 2
    cuts = _strips(variants.owner, end, np.minimum(lo, end), lo, hi, gap_start, gap_stop) if tol == 0 else np.arange(V + 1)
    Q = change.rows @ layer.U.reshape(-1, layer.inputs).T + layer.b.reshape(-1)  # type: ignore[union-attr]
    done = np.empty(V, np.int64)
    kernels.run(
        trace.P, batch.first, trace.at, trace.C, trace.Hs, prepared(layer)[1], CODES[layer.activation],
        CODES[layer.recurrent_activation], cuts, int(variants.is_mirrored), places, variants.owner, lo, hi, end,
        gap_start, gap_stop, change.own, change.stride, Q, tol, int(keep), at, out, done,
    )  # fmt: skip
    return done


def _strips(owner: np.ndarray, end: np.ndarray, *same: np.ndarray) -> np.ndarray:
    """Where strips begin, and the end: runs of sequences next to each other, with all of `same` alike, none longer."""
    alike = (owner[1:] == owner[:-1] + 1) & (end[1:] <= end[:-1])
    for column in same:
        alike &= column[1:] == column[:-1]
    return np.concatenate(([0], np.flatnonzero(~alike) + 1, [len(owner)]))


class Pooling:
    """Mean or maximum over the steps of a variant, from those of the sequence before and after the change."""

    def __init__(self, trace: Trace) -> None:
        self.batch, self.is_mean = trace.batch, trace.model.readout == "mean"
        self.join, nothing = (np.add, 0) if self.is_mean else (np.maximum, -np.inf)
        none = np.full((1, trace.merged.shape[1]), nothing, trace.merged.dtype)
        parts = trace.batch.split(trace.merged)
        self.before = np.concatenate([x for h in parts for x in (none, self.join.accumulate(h))])
        self.after = np.concatenate([x for h in parts for x in (self.join.accumulate(h[::-1])[::-1], none)])

    def __call__(self, variants: Variants, change: Change) -> np.ndarray:
        """(V, M) what the head gets."""
        at = self.batch.starts[variants.owner] + variants.owner
        x = self.join(self.before[at + change.lo], self.after[at + change.hi])
        v, t = _steps(change.lo, change.hi)
        length, stays = variants.T, np.ones(len(t), bool)
        if variants.gap is not None:
            start, stop = variants.gap
            length, stays = length - (stop - start), (t < start[v]) | (t >= stop[v])
        count = np.bincount(v[stays], minlength=len(x))
        some = np.flatnonzero(count)
        if len(some):
            x[some] = self.join(x[some], self.join.reduceat(change.rows[stays], (np.cumsum(count) - count)[some]))
        if self.is_mean:
            x /= length[:, None].astype(x.dtype)
        return x
