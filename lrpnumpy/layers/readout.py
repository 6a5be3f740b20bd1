"""Readouts: from one row per step to one vector per sequence.

The last state of a recurrent layer is an output of that layer (`:last`) and needs no separate layer. LRP holds the
weights of an AttentionPool fixed, unless it propagates through them (AttnLRP); the gradient goes through them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.checks import LrpError, finite, float_array
from lrpnumpy.layers.base import Keep, Layer, Ran, Size, optional, takes
from lrpnumpy.packed import Batch, Packed, Split
from lrpnumpy.rules.propagation import Entry, Propagation, back_through_sum, message
from lrpnumpy.rules.sums import Gathered, Matrix


class Readout(Layer):
    """What the readouts share."""

    def sizes(self, x: Size) -> Size:
        """The same width, once per sequence."""
        return x._replace(steps=False)

    def part_after(self, ran: Ran, parts: Sequence[Split], beta: Packed, delta: np.ndarray) -> Split:
        """Contextual decomposition: the vector counts as the middle one of its steps."""
        T = ran.inputs[0].batch.lengths[parts[0].owner]
        return parts[0].of_vector((T - 1) // 2, beta, delta)


@dataclass(frozen=True, eq=False, repr=False)
class Sum(Readout):
    """The sum over the steps. LRP: a sum of terms."""

    def _total(self, rows: np.ndarray, x: Packed) -> np.ndarray:
        """(n, M) the sums of rows with the steps of x."""
        return x.batch.sums(rows) / self._divisor(x)

    def _divisor(self, x: Packed) -> Any:
        """What the sums are divided by: a number, or (n, 1)."""
        return x.rows.dtype.type(1)

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, None]:
        """(R, M) to (n, M)."""
        return Packed(self._total(xs[0].rows, xs[0]), xs[0].batch.ends), None

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """Each value receives its share of the sum."""
        x = ran.inputs[0]
        each = np.ones_like(x.rows)
        term = Gathered(x.rows, lambda a: self._total(a, x), lambda s: (s / self._divisor(x))[x.batch.owner], each)
        return back_through_sum(how, R, ran.outputs[0], [term], entry)

    def split(self, ran: Ran, parts: Sequence[Split], wanted: tuple[str, ...]) -> tuple[Split, ...]:
        """The sum of beta. What biases add up to depends on the length of the sequence, and counts as irrelevant."""
        part = parts[0]
        beta, _ = self.forward([part.written(ran.inputs[0])], None)
        return (self.part_after(ran, parts, beta, np.zeros_like(part.delta)),)


@dataclass(frozen=True, eq=False, repr=False)
class Mean(Sum):
    """The mean over the steps. LRP: a sum of terms."""

    split = Layer.split

    def _divisor(self, x: Packed) -> Any:
        """The number of steps."""
        return x.batch.lengths[:, None].astype(x.rows.dtype)


@dataclass(frozen=True, eq=False, repr=False)
class SumAll(Sum):
    """The sum over all steps and features of a sequence, one number. With `mean` their mean.

    LRP: one sum. Contextual decomposition: what biases give to a step is relevant if the step is in the phrase.
    """

    mean: bool = False

    def __post_init__(self) -> None:
        self._set(mean=bool(self.mean))

    def sizes(self, x: Size) -> Size:
        """(M) to (1)."""
        return super().sizes(x)._replace(width=1)

    def _total(self, rows: np.ndarray, x: Packed) -> np.ndarray:
        return super()._total(rows.sum(axis=1, keepdims=True), x)

    def _divisor(self, x: Packed) -> Any:
        """1, or the number of values."""
        if not self.mean:
            return super()._divisor(x)
        return (x.batch.lengths[:, None] * x.rows.shape[1]).astype(x.rows.dtype)

    def split(self, ran: Ran, parts: Sequence[Split], wanted: tuple[str, ...]) -> tuple[Split, ...]:
        """The sum of beta, and of delta inside the phrase: what biases add up to depends on the number of steps."""
        part = parts[0]
        beta = part.written(ran.inputs[0])
        inside = part.inside(beta.batch.owner, beta.batch.step)
        y, _ = self.forward([beta._replace(rows=beta.rows + part.delta * inside[:, None])], None)
        return (self.part_after(ran, parts, y, np.zeros(1, y.rows.dtype)),)


@dataclass(frozen=True, eq=False, repr=False)
class Max(Readout):
    """The maximum over the steps. All relevance goes to the first step that reaches it.

    DeepLIFT: to each step the fraction of the line from the reference on which it is the largest.
    """

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, None]:
        """(R, M) to (n, M)."""
        x = xs[0]
        return Packed(np.maximum.reduceat(x.batch.unpack(x.rows), x.batch.starts), x.batch.ends), None

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """The winner takes all; with a reference, each step its fraction."""
        x = ran.inputs[0]
        each = zip(*ran.both(lambda one: (x.batch.split(one.inputs[0].rows),)), strict=True)
        rows = [how.winning(*candidates) for candidates in each]
        return [R[x.batch.owner] * x.batch.pack(np.concatenate(rows))]

    def split(self, ran: Ran, parts: Sequence[Split], wanted: tuple[str, ...]) -> tuple[Split, ...]:
        """The winner's beta."""
        part, x = parts[0], ran.inputs[0]
        beta = part.written(x)
        first = [rows.argmax(axis=0) for rows in x.batch.split(x.rows)]  # the step that wins, of each feature
        won = np.stack(first)[part.owner]  # (V, M)
        rows = beta.rows[beta.batch.first[won] + np.arange(len(won))[:, None], np.arange(won.shape[1])]
        return (self.part_after(ran, parts, Packed(rows, beta.batch.ends), part.delta),)


class Pooled(NamedTuple):
    """What AttentionPool saves of its forward pass."""

    z: np.ndarray  # (R, K) W h + b
    u: np.ndarray  # (R, K) tanh(z); without W, h itself
    e: np.ndarray  # (R, 1) scores of the steps
    a: np.ndarray  # (R, 1) their weights


@dataclass(frozen=True, eq=False, repr=False)
class AttentionPool(Readout):
    """The steps of a sequence to one vector: sum_t a_t h_t, with weights a = softmax over the steps.

    Additive, with `W` (K, M): a = softmax_t(v . tanh(W h_t + b) + c), `v` and `b` (K,);
    or b is (T, K), a bias per step of series of T steps.
    Dot, without W: a = softmax_t(v . h_t + c), v (M,). `c` is in some files; it changes no weight.

    LRP: the weights are held fixed, one sum per output; or AttnLRP, through the weights.
    """

    v: np.ndarray
    W: np.ndarray | None = None
    b: np.ndarray | None = None
    c: float = 0.0

    def __post_init__(self) -> None:
        v = float_array(self.v, "AttentionPool: v", (None,))
        self._set(v=v, c=finite(self.c, "AttentionPool: c"))
        if self.W is not None:
            W = float_array(self.W, "AttentionPool: W", (len(v), None))
            b: Any = self.b
            shape = (len(b), len(v)) if np.ndim(b) == 2 else v.shape
            self._set(W=W, b=optional(b, "AttentionPool: b", shape, v.dtype))
        elif self.b is not None:
            raise LrpError("AttentionPool: b must be None without W, got an array.")

    @property
    def inputs(self) -> int:
        """Length M of an input vector."""
        return len(self.v) if self.W is None else self.W.shape[1]

    outputs = inputs

    def sizes(self, x: Size) -> Size:
        """(M) at every step to (M)."""
        takes(x, self.inputs, "v" if self.W is None else "W")
        return super().sizes(x)

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, Pooled]:
        """(R, M) to (n, M)."""
        batch, h = xs[0].batch, xs[0].rows
        z = u = h
        if self.W is not None:
            z = h @ self.W.T + self._bias(batch)
            u = ACTIVATIONS["tanh"].F(z)
        e = u @ self.v[:, None] + h.dtype.type(self.c)
        top = np.maximum.reduceat(batch.unpack(e), batch.starts)
        over = np.exp(e - top[batch.owner])
        a = over / batch.sums(over)[batch.owner]
        return Packed(batch.sums(a * h), batch.ends), Pooled(z, u, e, a)

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """To the steps by their weights, and where these are not held fixed, through them."""
        x, y, (z, u, e, a) = ran.inputs[0], ran.outputs[0], ran.trace
        owner, h = x.batch.owner, x.rows
        if how.holds_attention:
            return back_through_sum(how, R, y, [Gathered(h, x.batch.sums, lambda s: s[owner], a)], entry)
        s = message(how, R, y, None, entry)[owner]
        to_a, to_h = how.factors(*ran.both(lambda one: (one.trace.a, one.inputs[0].rows)))
        R_a, R_h = (s * to_a).sum(axis=1, keepdims=True), s * to_h
        if how.times_input:
            R_a, R_h = R_a * a, R_h * h
        _, _, *reference = ran.both(lambda one: (one.trace.e, one.trace.a))
        R_e = how.softmax(R_a, e, a, lambda terms: x.batch.sums(terms)[owner], *reference)
        if how.times_input:
            entry.add(Entry.ATTENTION, R_a - R_e, x.batch)
        c = np.array([self.c], R.dtype)
        (R_u,) = back_through_sum(how, R_e, Packed(e, x.batch), [Matrix(u, self.v[None])], entry, c)
        if self.W is None:
            return [R_h + R_u]
        R_z = R_u * how.slope("tanh", *ran.both(lambda one: (one.trace.z, one.trace.u)))
        (more,) = back_through_sum(how, R_z, Packed(z, x.batch), [Matrix(h, self.W)], entry, self._bias(x.batch))
        return [R_h + more]

    def _bias(self, batch: Batch) -> np.ndarray:
        """(K,) b, or (R, K) that of the step of each row."""
        assert self.b is not None
        if self.b.ndim == 1:
            return self.b
        if (batch.lengths != len(self.b)).any():
            got = batch.lengths[batch.lengths != len(self.b)][0]
            raise LrpError(f"AttentionPool: a series must have {len(self.b)} steps, one for each bias, got {got}.")
        return self.b[batch.step]
