"""sum_s a_ts v_s over ragged batches: scores, weights and their backward pass, on blocks of similar sequences.

A block is some sequences as padded arrays. What is padded has weight 0, so that no sequence sees another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.packed import Batch, Packed
from lrpnumpy.rules.propagation import Entry, Propagation, back_through_sum, message
from lrpnumpy.rules.sums import WEIGHTS, Term

MOST = 1 << 22  # numbers in the largest array of a block, unless a single sequence has more
TANH = ACTIVATIONS["tanh"].F


class Dot:
    """e_ts = scale q_t . k_s, for arrays (..., T, d)."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def of(self, q: np.ndarray, k: np.ndarray) -> np.ndarray:
        """(..., T_q, T_k)."""
        return (q @ k.swapaxes(-1, -2)) * q.dtype.type(self.scale)

    def back(self, s: np.ndarray, blocks: Blocks, how: Propagation, entry: Entry) -> tuple[np.ndarray, np.ndarray]:
        """From the message to the terms of e to those at q and k."""
        s = s * s.dtype.type(self.scale)
        to_q, to_k = how.factors(*blocks.both("q", "k"))
        R_q, R_k = s @ to_q, s.swapaxes(-1, -2) @ to_k
        return (R_q * blocks.block.q, R_k * blocks.block.k) if how.times_input else (R_q, R_k)


class Additive:
    """e_ts = sum_d scale_d tanh(q_td + k_sd), for arrays (..., T, d)."""

    def __init__(self, scale: np.ndarray) -> None:
        self.scale = scale  # (d,)

    def of(self, q: np.ndarray, k: np.ndarray) -> np.ndarray:
        """(..., T_q, T_k)."""
        return TANH(q[..., :, None, :] + k[..., None, :, :]) @ self.scale

    def back(self, s: np.ndarray, blocks: Blocks, how: Propagation, entry: Entry) -> tuple[np.ndarray, np.ndarray]:
        """From the message to the terms of e to those at q and k."""
        each = blocks.both("q", "k")
        zs = [q[..., :, None, :] + k[..., None, :, :] for q, k in zip(each[::2], each[1::2], strict=True)]
        R_z = s[..., None] * self.scale * how.slope("tanh", *(F(z) for z in zs for F in (np.asarray, TANH)))
        if not how.times_input:
            return R_z.sum(axis=-2), R_z.sum(axis=-3)
        R_z = R_z * TANH(zs[0])
        gain, lost = how.gain(zs[0])
        blocks.block.keep(entry, Entry.STABILIZER, R_z * lost)
        s = R_z * gain
        return s.sum(axis=-2) * blocks.block.q, s.sum(axis=-3) * blocks.block.k


class Places:
    """Where the rows of sequences a to b of a batch are in an array (b - a, heads, T, d) of them."""

    def __init__(self, batch: Batch, a: int, b: int, heads: int) -> None:
        some = np.flatnonzero((a <= batch.owner) & (batch.owner < b))
        self.rows, self.sequence, self.step = some, batch.owner[some] - a, batch.step[some]
        self.shape = (b - a, int(batch.lengths[a]), heads)
        self.sequences = slice(a, b)

    def taken(self, rows: np.ndarray) -> np.ndarray:
        """(R, heads d) to (b - a, heads, T, d), 0 if a sequence has fewer steps."""
        out = np.zeros((*self.shape, rows.shape[1] // self.shape[2]), rows.dtype)
        out[self.sequence, self.step] = rows[self.rows].reshape(len(self.rows), self.shape[2], -1)
        return out.swapaxes(1, 2)

    def put(self, rows: np.ndarray, values: np.ndarray) -> None:
        """The reverse, into some of the rows."""
        rows[self.rows] = values.swapaxes(1, 2)[self.sequence, self.step].reshape(len(self.rows), -1)


class Block(NamedTuple):
    """Some sequences of a batch, and what was computed of them."""

    queries: Places
    values: Places
    seen: np.ndarray  # (sequences, 1, T_q or 1, T_k) whether a query may look at a value
    q: np.ndarray  # (sequences, heads, T_q, d)
    k: np.ndarray  # (sequences, heads, T_k, d)
    v: np.ndarray  # (sequences, heads, T_k, d_v)
    e: np.ndarray  # (sequences, heads, T_q, T_k) scores
    a: np.ndarray  # (sequences, heads, T_q, T_k) weights

    def keep(self, entry: Entry, row: int, kept: np.ndarray) -> None:
        """Add absorbed relevance, (sequences, …), to an `entry` of the ledger, and note its size."""
        kept = kept.reshape(len(kept), -1)
        entry.array[row, self.queries.sequences] += kept.sum(axis=1)
        largest = entry.array[Entry.LARGEST, self.queries.sequences]
        np.maximum(largest, abs(kept).max(axis=1, initial=0), out=largest)

    def weights(self, kind: str) -> np.ndarray:
        """The weights of a kind that sum rules have."""
        a = WEIGHTS[kind](self.a)
        return a * self.seen if kind == "one" else a


class Attended(Term):
    """The contributions a_ts v_s of values `x` (R_v, heads d_v) to sums of `rows` rows."""

    def __init__(self, x: np.ndarray, kept: Sequence[Blocks], rows: int) -> None:
        self.x, self.rows = x, rows
        self.kept = [blocks.block for blocks in kept]

    def ahead(self, a: np.ndarray, kind: str) -> np.ndarray:
        """(rows, heads d_v)."""
        out = np.empty((self.rows, a.shape[1]), a.dtype)
        for block in self.kept:
            block.queries.put(out, block.weights(kind) @ block.values.taken(a))
        return out

    def back(self, s: np.ndarray, kind: str) -> np.ndarray:
        """(R_v, heads d_v)."""
        out = np.empty_like(self.x)
        for block in self.kept:
            block.values.put(out, block.weights(kind).swapaxes(-1, -2) @ block.queries.taken(s))
        return out


class Blocks(NamedTuple):
    """A block of a forward pass, and the same sequences of the reference's; None without a reference."""

    block: Block
    reference: Block | None = None

    def both(self, *names: str) -> list[np.ndarray]:
        """Values by name, then those of the reference."""
        return [getattr(one, name) for one in self if one is not None for name in names]


def blocks(
    score: Dot | Additive, q: Packed, k: np.ndarray, v: Packed, heads: int, causal: bool
) -> Iterator[tuple[Block, np.ndarray]]:
    """Blocks of similar sequences with their weights, and sum_s a_ts v_s."""
    each = heads * (q.rows.shape[1] if isinstance(score, Additive) else 1)
    start = 0
    while start < q.batch.n:
        T_q, T_k = int(q.batch.lengths[start]), int(v.batch.lengths[start])
        stop = min(q.batch.n, start + max(1, MOST // (T_q * T_k * each)))
        queries, values = Places(q.batch, start, stop, heads), Places(v.batch, start, stop, heads)
        seen = (np.arange(T_k) < v.batch.lengths[start:stop, None])[:, None, None]
        if causal:
            seen = seen & (np.arange(T_k) <= np.arange(T_q)[:, None])
        rows = queries.taken(q.rows), values.taken(k), values.taken(v.rows)
        e = score.of(*rows[:2])
        shown = np.where(seen, e, e.dtype.type(-np.inf))
        over = np.exp(shown - shown.max(axis=-1, keepdims=True))
        a = over / over.sum(axis=-1, keepdims=True)
        yield Block(queries, values, seen, *rows, e, a), a @ rows[2]
        start = stop


def back_through_blocks(
    score: Dot | Additive, kept: Sequence[Blocks], R: np.ndarray, y: Packed, v: Packed, how: Propagation, entry: Entry
) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray]:
    """From the message at y = sum_s a_ts v_s to those at the rows of q, k and v; None where weights are held fixed."""
    if how.holds_attention:
        (R_v,) = back_through_sum(how, R, y, [Attended(v.rows, kept, len(R))], entry)
        return None, None, R_v
    s = message(how, R, y, None, entry)
    heads, width = kept[0].block.q.shape[1::2]
    R_q, R_k = (np.empty((len(x), heads * width), R.dtype) for x in (R, v.rows))
    R_v = np.empty_like(v.rows)
    for both in kept:
        block, arrived = both.block, both.block.queries.taken(s)
        to_a, to_v = how.factors(*both.both("a", "v"))
        R_a, R_values = arrived @ to_a.swapaxes(-1, -2), to_v.swapaxes(-1, -2) @ arrived
        if how.times_input:
            R_a, R_values = R_a * block.a, R_values * block.v
        e, a, *reference = both.both("e", "a")
        R_e = how.softmax(R_a, e, a, lambda terms: terms.sum(axis=-1, keepdims=True), *reference)
        if how.times_input:
            gain, lost = how.gain(e)
            block.keep(entry, Entry.ATTENTION, R_a - R_e)
            block.keep(entry, Entry.STABILIZER, R_e * lost)
            R_e = R_e * gain
        to_queries, to_keys = score.back(R_e, both, how, entry)
        block.queries.put(R_q, to_queries)
        block.values.put(R_k, to_keys)
        block.values.put(R_v, R_values)
    return R_q, R_k, R_v
