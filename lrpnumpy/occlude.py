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
from lrpnumpy.kernels import lstm_occlusion as kernels
from lrpnumpy.kernels.steps import CODES
from lrpnumpy.model import Dense, Model

How = Literal["zero", "omit"]
MOST = 1 << 24  # numbers in the largest array of a group of variants, unless a single variant has more


class Variants(NamedTuple):
    """Which sequence each variant is of, and when it counts as back."""

    owner: np.ndarray  # (V,)
    T: np.ndarray  # (V,) steps of that sequence
    tol: float


class Change(NamedTuple):
    """The steps from lo to hi are replaced by `count` rows: rows[own + stride j] is the j-th of them."""

    lo: np.ndarray  # (V,)
    hi: np.ndarray  # (V,)
    count: np.ndarray  # type: ignore[assignment]  # (V,)
    own: np.ndarray  # (V,)
    stride: int  # 0 where all have the same row
    rows: np.ndarray  # (0, D) with stride 0: zeros

    def mirrored(self, T: np.ndarray) -> Change:
        """As the backward direction sees it in sequences of T steps."""
        own = self.own + self.stride * (self.count - 1)
        return Change(T - self.hi, T - self.lo, self.count, own, -self.stride, self.rows)

    @property
    def missing(self) -> np.ndarray:
        """(V,) by how many steps each variant is shorter than its sequence."""
        return self.hi - self.lo - self.count

    def take(self, v: np.ndarray, t: np.ndarray, h: np.ndarray, batch: Batch, owner: np.ndarray) -> np.ndarray:
        """Rows of variants v at their steps t, where h are the rows of the sequences."""
        j = t - self.lo[v]
        out = h[batch.first[np.where(j < 0, t, t + self.missing[v])] + owner[v]]
        inside = np.flatnonzero((j >= 0) & (j < self.count[v]))
        out[inside] = self.rows[self.own[v[inside]] + self.stride * j[inside]]
        return out


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
        position = position - np.where(position >= stop, stop - start, 0)  # in the steps of the variant
    instead = np.asarray(() if options.baseline is None else options.baseline, dtype).reshape(-1, model.inputs)
    pooling = _Pooling(trace) if model.readout in ("mean", "max") else None
    scores = np.empty((len(T), model.outputs), dtype)
    for some in _groups(model, T, int(batch.lengths[0])):
        lo, hi = start[some], stop[some]
        if variable is None:
            none = np.zeros(len(lo), np.int64)
            change = Change(lo, hi, none if leaves_out else hi - lo, none, 0, instead)
        else:
            rows, every, d = batch.x[batch.first[lo] + owner[some]], np.arange(len(lo)), variable[order][some]
            rows[every, d] = instead[0, d] if len(instead) else 0
            change = Change(lo, hi, hi - lo, every, 1, rows)
        variants = Variants(owner[some], T[some], options.tol)
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
    all_steps = len(recurrent) > 1 or model.readout != "last"
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
        elif pooling is None and position is None and layer is trace.layers[model.readout_at - 1]:
            x = merge(
                layer.layer,
                tuple(_run(*side, batch, variants, False)[0] for side in _directions(layer, variants, change)),
            )
        else:
            change = _changed(layer, batch, variants, change)
    if pooling is not None:
        x = pooling(variants, change)
    elif position is not None:
        x = change.take(np.arange(len(position)), position, trace.merged, batch, variants.owner)
    for layer in trace.layers[model.readout_at :]:
        x = run_dense(layer.layer, x).y  # type: ignore[arg-type]
    return x


def _directions(
    trace: LSTMTrace | BidirectionalTrace, variants: Variants, change: Change
) -> list[tuple[LSTMTrace, Change]]:
    """What each direction sees."""
    if isinstance(trace, LSTMTrace):
        return [(trace, change)]
    return [(trace.forward, change), (trace.backward, change.mirrored(variants.T))]


def _changed(trace: LSTMTrace | BidirectionalTrace, batch: Batch, variants: Variants, change: Change) -> Change:
    """The change of a layer's outputs: where that of any direction is, with the sequence's rows for the other."""
    found = []
    for side, part in _directions(trace, variants, change):
        all_steps = part.count + variants.T - part.hi
        rows, hi = _run(side, part, batch, variants, True)
        count = part.count + hi - part.hi
        found.append((Change(part.lo, hi, count, np.cumsum(all_steps) - all_steps, 1, rows), side.h))
    if isinstance(trace, BidirectionalTrace):
        found[1] = found[1][0].mirrored(variants.T), found[1][1][batch.flip]
    lo = np.minimum.reduce([one.lo for one, _ in found])
    hi = np.maximum.reduce([one.hi for one, _ in found])
    count = hi - lo - change.missing
    v, t = _steps(lo, lo + count)
    sides = [one.take(v, t, h, batch, variants.owner) for one, h in found]
    return Change(lo, hi, count, np.cumsum(count) - count, 1, merge(trace.layer, tuple(sides)))


def _steps(lo: np.ndarray, hi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Variant and step of each step from lo to hi, one variant after the other."""
    count = hi - lo
    v = np.repeat(np.arange(len(lo)), count)
    return v, np.arange(len(v)) - np.repeat(np.cumsum(count) - hi, count)


def _run(
    trace: LSTMTrace, change: Change, batch: Batch, variants: Variants, keep: bool
) -> tuple[np.ndarray, np.ndarray]:
    """One direction: its last outputs (V, H), or with `keep` all from step lo on, one variant after the other.

    And the step from which on each variant is as its sequence.
    """
    layer, V, dtype = trace.layer, len(variants.T), change.rows.dtype
    _, W, Q = prepared(layer)
    if len(change.rows):
        Q = change.rows @ layer.U.reshape(-1, layer.inputs).T + Q
    steps = change.count + variants.T - change.hi
    out = np.zeros((int(steps.sum()) if keep else V, layer.units), dtype)
    done = np.empty(V, np.int64)
    columns = variants.owner, change.lo, change.hi, change.count, change.own, np.cumsum(steps) - steps
    codes = np.array([CODES[layer.activation], CODES[layer.recurrent_activation]])
    kernels.run(
        trace.kept, batch.first, trace.Hs, trace.C, W, codes, np.stack(columns), Q, change.stride, variants.tol,
        int(keep), out, done,
    )  # fmt: skip
    return out, done


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
        v = np.repeat(np.arange(len(change.lo)), change.count)
        rows, length = change.rows, variants.T - change.missing
        if len(v):
            begins = np.flatnonzero(np.diff(v, prepend=-1))
            x[v[begins]] = self.join(x[v[begins]], self.join.reduceat(rows, begins))
        return x / length[:, None].astype(x.dtype) if self.is_mean else x
