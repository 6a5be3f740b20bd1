"""Attention over steps: for each step of a query a sum of values, by weights that a softmax over their steps decides.

LRP holds the weights fixed. The rest is one sum per output, whose relevance goes to the values alone. The gradient and
AttnLRP go through the weights as well, to queries and keys.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError, finite, float_array, whole
from lrpnumpy.layers.attention_blocks import Additive, Block, Blocks, Dot, back_through_blocks, blocks
from lrpnumpy.layers.base import ABSENT, Keep, Layer, Ran, Size, optional, takes
from lrpnumpy.packed import Packed, Split
from lrpnumpy.rules.propagation import Entry, Propagation, back_through_sum
from lrpnumpy.rules.sums import Matrix

Values = np.ndarray | None


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

    def _same_steps(self, xs: Sequence[Packed]) -> None:
        if len(xs) == 3 and (wrong := np.flatnonzero(xs[1].batch.lengths != xs[2].batch.lengths)).size:
            value, key = (x.batch.lengths[wrong[0]] for x in xs[1:])
            kind = type(self).__name__
            raise LrpError(f"{kind}: values and keys must have the same number of steps, got {value} and {key}.")

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
        self._same_steps(xs)
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
        self._same_steps(xs)
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
