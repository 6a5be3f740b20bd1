"""Occlusion: the scores of a network when a phrase or a single input is replaced or left out.

Every such variant differs from its sequence in one run of steps. A `Change` says in which, and what stands
there instead; each layer turns the change of its inputs into the change of its outputs. One direction of an LSTM
changes everything from the first changed step on (or, with `tol`, until its state is back) and nothing before,
so that all variants begin from states of the sequence itself. Two directions change what is on both sides; a
Dense layer changes no further step.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

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
from lrpnumpy.model import Dense, Model

How = Literal["zero", "omit"]
MOST = 1 << 24  # numbers in the largest array of a group of variants, unless a single variant has more


class Variants(NamedTuple):
    """Which sequence each variant is of, which of its steps it leaves out, and when it counts as back."""

    owner: np.ndarray  # (V,)
    T: np.ndarray  # (V,) steps of that sequence
    gap: tuple[np.ndarray, np.ndarray] | None  # (V,) start and stop of what is left out
    tol: float
    is_mirrored: bool = False

    def mirrored(self) -> Variants:
        """As the backward direction sees them."""
        gap = None if self.gap is None else (self.T - self.gap[1], self.T - self.gap[0])
        return Variants(self.owner, self.T, gap, self.tol, not self.is_mirrored)


class Change(NamedTuple):
    """What stands in place of the sequence's rows: rows[own + stride (t - lo)] at each step t from lo to hi."""

    lo: np.ndarray  # (V,)
    hi: np.ndarray  # (V,)
    own: np.ndarray  # (V,)
    stride: int  # 0 where all have the same row
    rows: np.ndarray  # (0, D) with stride 0: zeros

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
    how: How = "zero",
    variables: bool = False,
    tol: float = 0.0,
    steps: np.ndarray | None = None,
) -> list[np.ndarray]:
    """Scores (V, C) of each sequence with each of its phrases occluded: spans[s] is (V, 2) of [start, stop).

    A phrase is replaced by the vector `baseline` (D,), zero by default, or with how="omit" left out. With
    `variables` every single input is replaced in turn, whatever spans and how, and the result is (T, D, C). With
    readout "every" the scores are those at steps[s], by default the last; where that step is left out, those at the
    last step before it that is not, or where there is none, at the first after it.

    A variant whose state in a layer has come back within `tol` of its sequence's (absolute, h and c) goes on
    there as the sequence does; 0, the default, is exact. A trace must have been made with keep="states".
    """
    options = _Options(baseline, how, tol, steps)
    if variables:
        t, owner = batch.step, batch.owner
        R, D = batch.x.shape
        t, owner, d = t.repeat(D), owner.repeat(D), np.tile(np.arange(D), R)
        scores = _occluded(trace_or_model, batch, options, owner, t, t + 1, nth=t * D + d, variable=d)
        return batch.split(scores.reshape(R, D, -1))
    counts = np.array([*map(len, spans)])
    ends = np.cumsum(counts)
    owner = np.repeat(np.arange(batch.n), counts)
    start, stop = np.ascontiguousarray(np.concatenate(spans).T, np.int64)
    nth = np.arange(len(owner)) - (ends - counts)[owner]
    scores = _occluded(trace_or_model, batch, options, owner, start, stop, nth=nth)
    return [scores[a:b] for a, b in pairwise([0, *ends.tolist()])]


def occlude_words(
    trace_or_model: Trace | Model,
    batch: Batch,
    *,
    baseline: np.ndarray | None = None,
    how: How = "zero",
    tol: float = 0.0,
    steps: np.ndarray | None = None,
) -> np.ndarray:
    """The same with every word occluded in turn: packed rows (R, C)."""
    t, owner = batch.step, batch.owner
    return _occluded(trace_or_model, batch, _Options(baseline, how, tol, steps), owner, t, t + 1)


class _Options(NamedTuple):
    """What occlude was asked for."""

    baseline: np.ndarray | None
    how: How
    tol: float
    steps: np.ndarray | None


def _occluded(
    trace_or_model: Trace | Model,
    batch: Batch,
    options: _Options,
    owner: np.ndarray,
    start: np.ndarray,
    stop: np.ndarray,
    nth: np.ndarray | None = None,
    variable: np.ndarray | None = None,
) -> np.ndarray:
    """Scores (V, C) with the phrase [start, stop) of sequence `owner` occluded, or only one `variable` of it.

    `nth` says which of its sequence's phrases each is, unless they are sorted by that: all the first ones, all the
    second ones, … make the widest strips.
    """
    trace = trace_or_model if isinstance(trace_or_model, Trace) else forward(trace_or_model, batch, "states")
    model, dtype = trace.model, trace.scores.dtype
    order: slice | np.ndarray = slice(None)
    if nth is not None and batch.n > 1:  # NumPy sorts 16 bits in linear time
        order = np.argsort(nth.astype(np.uint16) if nth.max(initial=0) < 1 << 16 else nth, kind="stable")
    owner, start, stop = owner[order], start[order], stop[order]
    T = batch.lengths[owner]
    position = None
    if model.readout == "every":
        position = T - 1 if options.steps is None else np.asarray(options.steps)[owner]
    leaves_out = options.how == "omit" and variable is None
    if leaves_out and (whole := stop - start == T).any():
        raise LrpError(f"how='omit' must leave at least one step, got a phrase of all {T[whole][0]}; use how='zero'.")
    if leaves_out and position is not None:
        left_out = (start <= position) & (position < stop)
        position = np.where(left_out, np.where(start > 0, start - 1, stop), position)
    instead = np.asarray(() if options.baseline is None else options.baseline, dtype).reshape(-1, model.inputs)
    pooling = _Pooling(trace) if model.readout in ("mean", "max") else None
    scores = np.empty((len(T), model.outputs), dtype)
    for some in _groups(model, T, int(batch.lengths[0])):
        lo, hi = start[some], stop[some]
        if variable is None:
            change = Change(lo, hi, np.zeros(len(lo), np.int64), 0, instead)
        else:
            rows, every, d = batch.x[batch.first[lo] + owner[some]], np.arange(len(lo)), variable[order][some]
            rows[every, d] = instead[0, d] if len(instead) else 0
            change = Change(lo, hi, every, 1, rows)
        variants = Variants(owner[some], T[some], (lo, hi) if leaves_out else None, options.tol)
        scores[some] = _scores(trace, pooling, variants, change, None if position is None else position[some])
    if isinstance(order, slice):
        return scores
    sorted_scores, scores = scores, np.empty_like(scores)
    scores[order] = sorted_scores
    return scores


def _groups(model: Model, T: np.ndarray, longest: int) -> list[slice]:
    """As many variants at once as MOST allows; where rows of all steps are needed, that depends on T."""
    recurrent = [layer for layer in model.layers if not isinstance(layer, Dense)]
    numbers = max(layer.inputs + 4 * layer.outputs for layer in recurrent)  # a row
    all_steps = len(recurrent) > 1 or model.readout in ("mean", "max")
    if len(T) * numbers * (longest if all_steps else 1) <= MOST:
        return [slice(0, len(T))] if len(T) else []
    total = np.cumsum(T if all_steps else np.ones_like(T)) * numbers
    return [slice(a, b) for a, b in pairwise([0, *np.flatnonzero(np.diff(total // MOST)) + 1, len(T)])]


def _scores(
    trace: Trace, pooling: _Pooling | None, variants: Variants, change: Change, position: np.ndarray | None
) -> np.ndarray:
    """(V, C) scores of variants whose inputs have changed."""
    model, batch = trace.model, trace.batch
    for layer in trace.layers[: model.readout_at]:
        if isinstance(layer, DenseTrace):
            rows = change.rows
            if change.stride == 0 and not len(rows):
                rows = np.zeros((1, layer.layer.inputs), rows.dtype)
            change = change._replace(rows=run_dense(layer.layer, rows).y)
        elif pooling is None and layer is trace.layers[model.readout_at - 1]:
            x = _last(layer, batch, variants, change, position)
        else:
            change = _changed(layer, batch, variants, change)
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
    mirrored = trace.backward, variants.mirrored(), change.mirrored(variants.T)
    return [(trace.forward, variants, change), mirrored]


def _last(
    trace: LSTMTrace | BidirectionalTrace,
    batch: Batch,
    variants: Variants,
    change: Change,
    position: np.ndarray | None,
) -> np.ndarray:
    """(V, M) a layer's outputs at the position, or where there is none, the last of each direction."""
    T = variants.T
    ends = (T, T) if position is None else (position + 1, T - position)
    sides = [
        _run(*side, batch, end, None)[0] for side, end in zip(_directions(trace, variants, change), ends, strict=False)
    ]
    return merge(trace.layer, tuple(sides))


def _changed(trace: LSTMTrace | BidirectionalTrace, batch: Batch, variants: Variants, change: Change) -> Change:
    """The change of a layer's outputs: where that of any direction is, with the sequence's rows for the other."""
    T = variants.T
    found = []
    for side in _directions(trace, variants, change):
        lo = side[2].lo
        at = np.cumsum(T - lo) - (T - lo)
        rows, hi = _run(*side, batch, T, at)
        found.append((Change(lo, hi, at, 1, rows), side[0].h))
    if isinstance(trace, BidirectionalTrace):
        found[1] = found[1][0].mirrored(T), found[1][1]
    lo = np.minimum.reduce([one.lo for one, _ in found])
    hi = np.maximum.reduce([one.hi for one, _ in found])
    v, t = _steps(lo, hi)
    row = batch.first[t] + variants.owner[v]
    sides = []
    for one, h in found:
        out = h[row if one.stride > 0 else batch.flip[row]]
        inside = np.flatnonzero((one.lo[v] <= t) & (t < one.hi[v]))
        w = v[inside]
        out[inside] = one.rows[one.own[w] + one.stride * (t[inside] - one.lo[w])]
        sides.append(out)
    return Change(lo, hi, np.cumsum(hi - lo) - (hi - lo), 1, merge(trace.layer, tuple(sides)))


def _steps(lo: np.ndarray, hi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Variant and step of each step from lo to hi, one variant after the other."""
    count = hi - lo
    v = np.repeat(np.arange(len(lo)), count)
    return v, np.arange(len(v)) - np.repeat(np.cumsum(count) - hi, count)


def _run(
    trace: LSTMTrace,
    variants: Variants,
    change: Change,
    batch: Batch,
    end: np.ndarray,
    at: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """One direction up to the step `end`: its last outputs (V, H), or all from step lo on in the rows from `at` on.

    And the step from which on each variant is as its sequence.
    """
    layer, V, dtype = trace.layer, len(end), change.rows.dtype
    _, W, Q = prepared(layer)
    if len(change.rows):
        Q = change.rows @ layer.U.reshape(-1, layer.inputs).T + Q
    shape = V if at is None else int((end - change.lo).sum()), layer.units
    out = np.empty(shape, dtype) if at is None else np.zeros(shape, dtype)
    done = np.empty(V, np.int64)
    gap_start, gap_stop = variants.gap or (change.lo, change.lo)
    columns = variants.owner, change.lo, change.hi, end, gap_start, gap_stop
    cuts = np.arange(V + 1) if variants.tol > 0 or batch.n == 1 else _strips(*columns)
    places = min(V, max(batch.n, 96, 4096 // layer.units))
    kernels.run(
        trace.P, batch.first, batch.at, trace.C, trace.Hs, W, CODES[layer.activation],
        CODES[layer.recurrent_activation], cuts, int(variants.is_mirrored), places, *columns, change.own,
        change.stride, Q, variants.tol, int(at is not None), done if at is None else at, out, done,
    )  # fmt: skip
    return out, done


def _strips(
    owner: np.ndarray,
    lo: np.ndarray,
    hi: np.ndarray,
    end: np.ndarray,
    gap_start: np.ndarray,
    gap_stop: np.ndarray,
) -> np.ndarray:
    """Where the strips of the kernel begin, and where the last one ends."""
    alike = (owner[1:] == owner[:-1] + 1) & (end[1:] <= end[:-1])
    for column in (np.minimum(lo, end), lo, hi, gap_start, gap_stop):
        alike &= column[1:] == column[:-1]
    return np.concatenate(([0], np.flatnonzero(~alike) + 1, [len(owner)]))


class _Pooling:
    """Mean or maximum over the steps of a variant, from those of its sequence before and after the change."""

    def __init__(self, trace: Trace) -> None:
        self.batch, self.is_mean = trace.batch, trace.model.readout == "mean"
        self.join: np.ufunc = np.add if self.is_mean else np.maximum
        nothing = 0 if self.is_mean else -np.inf
        none = np.full((1, trace.merged.shape[1]), nothing, trace.merged.dtype)
        parts = trace.batch.split(trace.merged)
        self.before = np.concatenate([x for h in parts for x in (none, self.join.accumulate(h))])
        self.after = np.concatenate([x for h in parts for x in (self.join.accumulate(h[::-1])[::-1], none)])

    def __call__(self, variants: Variants, change: Change) -> np.ndarray:
        """(V, M) what the head gets."""
        at = self.batch.starts[variants.owner] + variants.owner
        x = self.join(self.before[at + change.lo], self.after[at + change.hi])
        v, t = _steps(change.lo, change.hi)
        rows, length = change.rows, variants.T
        if variants.gap is not None:
            start, stop = variants.gap
            stays = (t < start[v]) | (t >= stop[v])
            v, rows, length = v[stays], rows[stays], length - (stop - start)
        if len(v):
            begins = np.flatnonzero(np.diff(v, prepend=-1))
            x[v[begins]] = self.join(x[v[begins]], self.join.reduceat(rows, begins))
        return x / length[:, None].astype(x.dtype) if self.is_mean else x
