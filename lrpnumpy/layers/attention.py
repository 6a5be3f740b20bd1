"""Attention over steps: for each step of a query a sum of values, by weights that a softmax over their steps decides.

LRP holds the weights fixed. The rest is one sum per output, whose relevance goes to the values alone. The gradient and
AttnLRP go through the weights as well, to queries and keys.

Scores, weights and their backward pass are computed on blocks: some similar sequences as padded arrays. What is padded
has weight 0, so that no sequence sees another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.checks import LrpError, finite, float_array, whole
from lrpnumpy.layers.base import ABSENT, Keep, Layer, Ran, Size, optional, same_steps, takes
from lrpnumpy.packed import Batch, Packed, Split
from lrpnumpy.rules.propagation import Entry, Propagation, back_through_sum, message
from lrpnumpy.rules.sums import WEIGHTS, Matrix, Term

Values = np.ndarray | None
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
        if how.times_input:
            return (R_q * blocks.block.q, R_k * blocks.block.k)
        return (R_q, R_k)


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


class StepAttention(Layer):
    """What the layers below share: inputs query, value and, if it is not the value, key. Here without projections."""

    causal: bool
    score: Any  # how well a query and a key fit

    def _check(self, query: Size, value: Size, key: Size | None) -> None:
        for one in (value, key):
            if one is not None and not one.steps:
                raise LrpError(f"inputs must be values and keys with steps, got one vector of the {one.source}.")
        if self.causal and not query.steps:
            raise LrpError(f"causal must be False for a query without steps, got one vector of the {query.source}.")

    def part_after(self, ran: Ran, parts: Sequence[Split], beta: Packed, delta: np.ndarray) -> Split:
        """Contextual decomposition: a step is inside the phrase where it is one of the query."""
        return parts[0]._replace(beta=beta, delta=delta, since=np.zeros_like(parts[0].since))

    def attended(self, q: Packed, v: Packed, k: Packed, heads: int, keep: Keep) -> tuple[np.ndarray, list[Block]]:
        """sum_s a_ts v_s, and what a backward pass needs of the weights."""
        out, kept = np.empty((len(q.rows), v.rows.shape[1]), v.rows.dtype), []
        for block, y in blocks(self.score, q, k.rows, v, heads, self.causal):
            block.queries.put(out, y)
            if isinstance(keep, Propagation):
                kept.append(block)
        return out, kept

    def _to_inputs(self, ran: Ran, R_q: Values, R_v: np.ndarray, R_k: Values) -> list[np.ndarray | None]:
        """The messages at queries, values and keys as those at the inputs: keys may be the values."""
        if len(ran.inputs) == 3:
            return [R_q, R_v, R_k]
        return [R_q, R_v if R_k is None else R_v + R_k]

    def sizes(self, query: Size, value: Size, key: Size | None = None) -> Size:
        """(d), (M) and (d) to (M), with the steps of the query."""
        self._check(query, value, key)
        other = value if key is None else key
        if query.width != other.width:
            raise LrpError(
                f"inputs must be queries and keys of one size, got {query.width} numbers of the {query.source} and "
                f"{other.width} of the {other.source}."
            )
        return query._replace(width=value.width)

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, Any]:
        """(R_q, d) to (R_q, M)."""
        same_steps(self, xs[1:])
        out, kept = self.attended(xs[0], xs[1], xs[-1], 1, keep)
        return Packed(out, xs[0].batch), kept

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray | None]:
        """To the values; and where weights are not held fixed, to queries and keys."""
        kept = [Blocks(*pair) for pair in zip(*ran.both(lambda one: (one.trace,)), strict=True)]
        R_q, R_k, R_v = back_through_blocks(self.score, kept, R, ran.outputs[0], ran.inputs[1], how, entry)
        return self._to_inputs(ran, R_q, R_v, R_k)


@dataclass(frozen=True, eq=False, repr=False)
class Attention(StepAttention):
    """y_t = sum_s a_ts v_s, a_t = softmax_s(scale q_t . k_s): Keras' Attention.

    `scale` is a number. The inputs are query, value and, if the keys are not the values, key. A query without steps
    results in one vector. With `causal`, step t attends to steps up to t only.

    LRP: the weights are held fixed, one sum per output; or AttnLRP, through the weights.
    """

    scale: float = 1.0
    causal: bool = False

    def __post_init__(self) -> None:
        self._set(scale=finite(self.scale, "Attention: scale"), causal=bool(self.causal))

    @property
    def score(self) -> Dot:
        """scale q . k."""
        return Dot(self.scale)


@dataclass(frozen=True, eq=False, repr=False)
class AdditiveAttention(StepAttention):
    """y_t = sum_s a_ts v_s, a_t = softmax_s(sum_d scale_d tanh(q_td + k_sd)): Keras' AdditiveAttention.

    `scale` is (d,). The inputs are query, value and, if the keys are not the values, key. With `causal`, step t
    attends to steps up to t only.

    LRP: the weights are held fixed, one sum per output; or AttnLRP, through the weights.
    """

    scale: np.ndarray
    causal: bool = False

    def __post_init__(self) -> None:
        self._set(scale=float_array(self.scale, "AdditiveAttention: scale", (None,)), causal=bool(self.causal))

    @property
    def score(self) -> Additive:
        """scale . tanh(q + k)."""
        return Additive(self.scale)

    def sizes(self, query: Size, value: Size, key: Size | None = None) -> Size:
        """(d), (M) and (d) to (M), with the steps of the query."""
        takes(query, len(self.scale), "scale")
        return super().sizes(query, value, key)


class Projected(NamedTuple):
    """What MultiHeadAttention saves of its forward pass."""

    q: np.ndarray  # (R_q, heads d)
    k: np.ndarray  # (R_k, heads d)
    v: np.ndarray  # (R_k, heads d_v)
    joined: np.ndarray  # (R_q, heads d_v) the outputs of the heads
    blocks: list[Block]


@dataclass(frozen=True, eq=False, repr=False)
class MultiHeadAttention(StepAttention):
    """Several attentions side by side, each on its own part of projected queries, keys and values.

    q = Wq x_query + bq, k = Wk x_key + bk and v = Wv x_value + bv are cut into `heads` parts; head i returns
    sum_s a_ts v_s with a_t = softmax_s(q_t . k_s / sqrt(d)); y = Wo [heads, one after another] + bo.

    `Wq` and `Wk` are (heads d, in), `Wv` (heads d_v, in), `Wo` (out, heads d_v), the rows of one head together, as
    PyTorch has them; the biases `bq`, `bk`, `bv` and `bo` are None for 0. With `causal`, step t attends to steps
    up to t only. The inputs are query, value and, if the keys are not the values, key, as in Keras.

    LRP: the weights are held fixed. The rest is three sums: Wv x + bv, the sum over the steps, and Wo … + bo.
    AttnLRP also goes through the weights, to Wq x + bq and Wk x + bk.
    """

    Wq: np.ndarray
    Wk: np.ndarray
    Wv: np.ndarray
    Wo: np.ndarray
    bq: np.ndarray = ABSENT
    bk: np.ndarray = ABSENT
    bv: np.ndarray = ABSENT
    bo: np.ndarray = ABSENT
    heads: int = 1
    causal: bool = False

    def __post_init__(self) -> None:
        kind = "MultiHeadAttention"
        rows = {name: len(float_array(getattr(self, name), f"{kind}: {name}", (None, None))) for name in ("Wq", "Wv")}
        shapes = {"q": (None, None), "k": (rows["Wq"], None), "v": (None, None), "o": (None, rows["Wv"])}
        for name, shape in shapes.items():
            W = float_array(getattr(self, f"W{name}"), f"{kind}: W{name}", shape)
            b = optional(getattr(self, f"b{name}"), f"{kind}: b{name}", W.shape[:1], W.dtype)
            self._set(**{f"W{name}": W, f"b{name}": b})
        heads = whole(self.heads, f"{kind}: heads", 1)
        for name, count in rows.items():
            if count % heads:
                raise LrpError(f"{kind}: heads must divide the {count} rows of {name}, got {heads}.")
        self._set(heads=heads, causal=bool(self.causal))

    @property
    def inputs(self) -> int:
        """Length of a query."""
        return self.Wq.shape[1]

    @property
    def outputs(self) -> int:
        """Length of an output vector."""
        return len(self.Wo)

    @property
    def score(self) -> Dot:
        """q . k / sqrt(d)."""
        return Dot(1 / math.sqrt(len(self.Wq) // self.heads))

    def sizes(self, query: Size, value: Size, key: Size | None = None) -> Size:
        """To (out), with the steps of the query."""
        self._check(query, value, key)
        takes(query, self.Wq.shape[1], "Wq")
        takes(value, self.Wv.shape[1], "Wv")
        takes(value if key is None else key, self.Wk.shape[1], "Wk")
        return query._replace(width=self.outputs)

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, Projected]:
        """Project, attend, join."""
        same_steps(self, xs[1:])
        x_q, x_v, x_k = xs[0], xs[1], xs[-1]
        q = Packed(x_q.rows @ self.Wq.T + self.bq, x_q.batch)
        v = Packed(x_v.rows @ self.Wv.T + self.bv, x_v.batch)
        k = Packed(x_k.rows @ self.Wk.T + self.bk, x_k.batch)
        joined, kept = self.attended(q, v, k, self.heads, keep)
        return Packed(joined @ self.Wo.T + self.bo, x_q.batch), Projected(q.rows, k.rows, v.rows, joined, kept)

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray | None]:
        """Back through the three sums, and where weights are not held fixed, through them."""
        x_q, x_v, x_k = ran.inputs[0], ran.inputs[1], ran.inputs[-1]
        y, kept = ran.outputs[0], ran.trace
        joined, v = Packed(kept.joined, y.batch), Packed(kept.v, x_v.batch)
        (R_joined,) = back_through_sum(how, R, y, [Matrix(kept.joined, self.Wo)], entry, self.bo)
        pairs = [Blocks(*pair) for pair in zip(*ran.both(lambda one: (one.trace.blocks,)), strict=True)]
        R_q, R_k, R_v = back_through_blocks(self.score, pairs, R_joined, joined, v, how, entry)
        (to_value,) = back_through_sum(how, R_v, v, [Matrix(x_v.rows, self.Wv)], entry, self.bv)
        to_query, to_key = None, None
        if R_q is not None and R_k is not None:
            q, k = Packed(kept.q, x_q.batch), Packed(kept.k, x_k.batch)
            (to_query,) = back_through_sum(how, R_q, q, [Matrix(x_q.rows, self.Wq)], entry, self.bq)
            (to_key,) = back_through_sum(how, R_k, k, [Matrix(x_k.rows, self.Wk)], entry, self.bk)
        return self._to_inputs(ran, to_query, to_value, to_key)
