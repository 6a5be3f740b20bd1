"""Ragged batches without padding: longest sequence first, the rows of one time step together.

Three sequences of 3, 2 and 2 steps have seven rows. Row `first[t] + s` is step t of the s-th longest sequence:

    row       0   1   2   3   4   5   6
    step      0   0   0   1   1   1   2          first = [0, 3, 6, 7]
    sequence  0   1   2   0   1   2   0

At each step the sequences that are still running are the first ones, so a step needs no mask. One vector for each
sequence (a static input, what a readout gives) is a batch whose lengths are all 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.lazy import cached_property


class Batch:
    """Where the rows of some sequences are. Knows lengths, not values."""

    def __init__(self, lengths: np.ndarray) -> None:
        """`lengths` (n,), longest first."""
        T, n = int(lengths[0]), len(lengths)
        running = n - lengths[::-1].searchsorted(np.arange(T), side="right")
        self.lengths = lengths  # (n,) steps of each sequence, longest first
        self.first = np.zeros(T + 1, np.int64)  # (T+1,) row of each step's first sequence
        running.cumsum(out=self.first[1:])
        self.step = np.arange(T).repeat(running)  # (R,) step of each row
        self.owner = np.arange(len(self.step)) - self.first.take(self.step)  # (R,) sequence of each row
        self.starts = lengths.cumsum() - lengths  # (n,) where each sequence begins when they follow one another
        self.rows = self.starts.take(self.owner) + self.step  # (R,) where each row is when they follow one another
        self.n, self.R = n, len(self.rows)  # number of sequences, and of rows

    @cached_property
    def last(self) -> np.ndarray:
        """(n,) row of each sequence's last step."""
        return self.first[self.lengths - 1] + np.arange(self.n)

    @cached_property
    def flip(self) -> np.ndarray:
        """(R,) row of the mirrored step of the same sequence: how a backward direction reads."""
        return self.first.take(self.lengths.take(self.owner) - 1 - self.step) + self.owner

    @cached_property
    def states_before(self) -> np.ndarray:
        """(T+1,) row of a state array where the states before each step begin; see `kernels.inputs.states_before`."""
        return np.concatenate(([0], self.first[:-1] + self.n))

    @cached_property
    def ends(self) -> Batch:
        """The batch of one vector for each of these sequences."""
        return self if len(self.first) == 2 else vectors(self.n)

    def unpack(self, packed: np.ndarray) -> np.ndarray:
        """`packed` rows (R, …) to the sequences one after another."""
        if self.n == 1:
            return packed
        out = np.empty_like(packed)
        out[self.rows] = packed
        return out

    def pack(self, flat: np.ndarray) -> np.ndarray:
        """Sequences one after another, `flat` (R, …), to packed rows."""
        return flat if self.n == 1 else flat.take(self.rows, axis=0)

    def split(self, packed: np.ndarray) -> list[np.ndarray]:
        """`packed` rows (R, …) to one array for each sequence."""
        flat = self.unpack(packed)
        return [flat[a : a + n] for a, n in zip(self.starts, self.lengths, strict=True)]

    def sums(self, packed: np.ndarray) -> np.ndarray:
        """`packed` rows (R, …) summed over the steps of each sequence: (n, …)."""
        if self.n == self.R:
            return packed
        return np.add.reduceat(self.unpack(packed), self.starts)


REMEMBERED = 1000  # steps: batches of one sequence are remembered unless it is longer


@lru_cache(maxsize=256)
def single(T: int) -> Batch:
    """The batch of one sequence of T steps; remembered, with what follows from it."""
    return _frozen(Batch(np.array([T])))


@lru_cache(maxsize=64)
def vectors(n: int) -> Batch:
    """The batch of n sequences of one step."""
    return _frozen(Batch(np.ones(n, np.int64)))


def _frozen(batch: Batch) -> Batch:
    for array in (batch.lengths, batch.first, batch.step, batch.owner, batch.starts, batch.rows, batch.last):
        array.setflags(write=False)
    return batch


class LookedUp(NamedTuple):
    """Rows that are words: which rows of an embedding they are."""

    ids: np.ndarray  # (R,)
    embedding: Any  # the record `Embedding`


class Packed(NamedTuple):
    """What flows along an edge of the network: packed rows and their batch.

    With `words` there are no rows, (0, D): the first layer looks U x + b of each word up in a table.
    """

    rows: np.ndarray  # (R, D), or (0, D)
    batch: Batch  # which row is which step of which sequence
    words: LookedUp | None = None

    @property
    def vectors(self) -> np.ndarray:
        """(R, D) the rows, also of words."""
        if self.words is None:
            return self.rows
        return self.words.embedding.E[self.words.ids]


class Change(NamedTuple):
    """What V variants of the sequences have in place of their rows, for occlusion.

    In variant v, the steps lo[v] to hi[v] of sequence owner[v] are replaced by size[v] rows: rows[own[v] + stride * j]
    for j from 0 to size[v] - 1; or rows[picked[own[v] + stride * j]], where variants share rows. A word set to zero has
    size = hi - lo; a word that is left out has size = 0.
    """

    owner: np.ndarray  # (V,), ascending within groups of variants that change the same steps
    lo: np.ndarray  # (V,)
    hi: np.ndarray  # (V,)
    size: np.ndarray  # (V,)
    own: np.ndarray  # (V,)
    stride: int  # 0 where every variant has the same row at every step
    rows: np.ndarray  # (any, D)
    picked: np.ndarray | None = None  # (any,)

    def mirrored(self, T: np.ndarray) -> Change:
        """As a backward direction reads it; `T` (V,) are the lengths of the owners."""
        own = self.own + self.stride * (self.size - 1)
        return self._replace(lo=T - self.hi, hi=T - self.lo, own=own, stride=-self.stride)

    def lengths(self, batch: Batch) -> np.ndarray:
        """(V,) steps of each variant of the sequences of a `batch`."""
        return batch.lengths[self.owner] - (self.hi - self.lo) + self.size

    def row_at(self, x: Packed, v: np.ndarray, t: np.ndarray) -> np.ndarray:
        """(K, D) rows of the variants `v` (K,) at their own steps `t` (K,); `x` holds the sequences' values."""
        j = t - self.lo[v]
        before, inside = j < 0, (j >= 0) & (j < self.size[v])
        if inside.all():
            return self._own_rows(v, j)
        step = np.where(before, t, t - self.size[v] + self.hi[v] - self.lo[v])
        out = x.rows[x.batch.first[np.where(inside, 0, step)] + self.owner[v]]
        w = v[inside]
        out[inside] = self._own_rows(w, j[inside])
        return out

    def _own_rows(self, v: np.ndarray, j: np.ndarray) -> np.ndarray:
        place = self.own[v] + self.stride * j
        return self.rows[place if self.picked is None else self.picked[place]]


def at_once(width: int) -> int:
    """How many sequences a network runs together, given the number of units of its widest layer.

    Narrow networks take more, so that each step has enough to do; of wide ones a step must fit the cache.
    """
    return max(48, 3072 // width)


def groups(sizes: np.ndarray, most: int) -> list[tuple[int, int]]:
    """Where to cut variants of these sizes so that the sizes of each group add up to about `most`; none is split."""
    V = len(sizes)
    if V * int(sizes.max(initial=0)) <= most:
        return [(0, V)] if V else []
    total = np.cumsum(sizes)
    return [*pairwise([0, *(np.flatnonzero(np.diff(total // most)) + 1).tolist(), V])]


def longest_first(lengths: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
    """An order in which no sequence is longer than the one before it (None: the order as it is), and the lengths."""
    if len(lengths) < 2 or (lengths[1:] <= lengths[:-1]).all():
        return None, lengths
    order = np.argsort(-lengths, kind="stable")
    return order, lengths[order]


def sorted_pieces(lengths: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The places 0 to V-1 in pieces such that in each piece no length is larger than the one before, in any input.

    `lengths` has (V,) lengths for each input. One piece is enough unless inputs disagree on which sequence is longer.
    """
    sizes = np.stack(lengths)  # (inputs, V)
    if (np.diff(sizes) <= 0).all():
        return [np.arange(sizes.shape[1])]
    order = np.lexsort(-sizes[::-1])
    grows = (np.diff(sizes[:, order]) > 0).any(axis=0)
    return np.split(order, np.flatnonzero(grows) + 1)


def pasted(xs: Sequence[Packed], changes: Sequence[Change | None]) -> Iterator[tuple[list[Packed], np.ndarray]]:
    """The variants as separate batches; with each batch, the variants of its sequences."""
    change = next(one for one in changes if one is not None)
    lengths = [
        x.batch.lengths[change.owner] if one is None else one.lengths(x.batch)
        for x, one in zip(xs, changes, strict=True)
    ]
    for piece in sorted_pieces(lengths):
        out = []
        for x, one, sizes in zip(xs, changes, lengths, strict=True):
            batch = Batch(sizes[piece])
            out.append(Packed(_rows_of(x, one, change.owner, piece[batch.owner], batch.step), batch))
        yield out, piece


def _rows_of(x: Packed, change: Change | None, owner: np.ndarray, v: np.ndarray, t: np.ndarray) -> np.ndarray:
    """(K, D) rows of the variants v (K,) at their own steps t (K,), of an input that may be unchanged."""
    if change is None:
        return x.rows[x.batch.first[t] + owner[v]]
    return change.row_at(x, v, t)


def replaced(pieces: Sequence[tuple[Packed, np.ndarray]], owner: np.ndarray, before: Batch) -> Change:
    """The change that replaces every step of each variant, from outputs of variants run as separate batches."""
    size, own = np.empty_like(owner), np.empty_like(owner)
    count, rows = 0, []
    for y, piece in pieces:
        size[piece], own[piece] = y.batch.lengths, y.batch.starts + count
        rows.append(y.batch.unpack(y.rows))
        count += y.batch.R
    joined = rows[0] if len(rows) == 1 else np.concatenate(rows)
    return Change(owner, np.zeros_like(owner), before.lengths[owner], size, own, 1, joined)


def covering(changes: Sequence[Change | None], xs: Sequence[Packed]) -> tuple[Change, list[np.ndarray]] | None:
    """The smallest change that covers those of several series of the same steps, and the rows of each series in it.

    None where the variants of the series have different numbers of steps.
    """
    known, batch = [one for one in changes if one is not None], xs[0].batch
    owner, T = known[0].owner, batch.lengths[known[0].owner]
    steps = known[0].lengths(batch)
    if any((one.lengths(batch) != steps).any() for one in known) or (len(known) < len(xs) and (steps != T).any()):
        return None
    lo = np.minimum.reduce([one.lo for one in known])
    hi = np.maximum.reduce([one.hi for one in known])
    size = steps - lo - (T - hi)
    own = np.cumsum(size) - size
    v = np.repeat(np.arange(len(owner)), size)
    t = np.arange(len(v)) - own[v] + lo[v]
    rows = [_rows_of(x, one, owner, v, t) for x, one in zip(xs, changes, strict=True)]
    return Change(owner, lo, hi, size, own, 1, rows[0]), rows


class Split(NamedTuple):
    """How contextual decomposition divides the values of an edge for V phrases: value = beta + gamma + delta.

    A variant is a sequence with one of its phrases; those of a sequence are adjacent, longest sequence first. gamma
    is what is left of the true value, and is never stored.
    """

    beta: Packed | None  # the phrase's own part, a batch of V variants; None: the value inside the phrase, else 0
    delta: np.ndarray  # (D,) what biases alone give, the same for all variants and steps
    owner: np.ndarray  # (V,) sequence of each variant
    start: np.ndarray  # (V,) the phrase, in the steps of this edge
    stop: np.ndarray  # (V,)
    since: np.ndarray  # (V,) beta is 0 before this step

    def inside(self, owner: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Whether each `step` of the variants `owner` is inside the phrase."""
        return (self.start[owner] <= step) & (step < self.stop[owner])

    def true(self, x: Packed, batch: Batch) -> np.ndarray:
        """The values `x` themselves, once for each variant, in the rows of a `batch` of variants."""
        return x.rows[x.batch.first[batch.step] + self.owner[batch.owner]]

    def of_vector(self, middle: np.ndarray, beta: Packed, delta: np.ndarray) -> Split:
        """The division of one vector for each sequence, made of steps whose middle is the step `middle` (V,).

        The vector is one step, and counts as inside the phrase if its middle does. `beta` and `delta` are what it is
        divided into.
        """
        start, stop = (middle < self.start).astype(np.int64), (middle < self.stop).astype(np.int64)
        return Split(beta, delta, self.owner, start, stop, np.zeros_like(start))

    def written(self, x: Packed) -> Packed:
        """beta in rows, of an edge whose values are `x`."""
        if self.beta is not None:
            return self.beta
        batch = Batch(x.batch.lengths[self.owner])
        return Packed(self.true(x, batch) * self.inside(batch.owner, batch.step)[:, None], batch)
