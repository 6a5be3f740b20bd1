"""Trace and coefficients to relevance: the gradient and every LRP rule are one linear pass back through the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lrpnumpy.batch import Batch
from lrpnumpy.forward import BidirectionalTrace, DenseTrace, LSTMTrace, Trace, merge, nothing, per_layer, stacked
from lrpnumpy.kernels import dense as dense_kernels
from lrpnumpy.kernels import lstm as kernels
from lrpnumpy.kernels.lstm import KINDS, KINDS_SHARED
from lrpnumpy.kernels.steps import PROP
from lrpnumpy.model import LSTM, Bidirectional, Dense, Layer
from lrpnumpy.rules import Propagation, Rule, inverse


@dataclass(eq=False)
class Passed:
    """What a backward pass left where, for each of the n sequences of a batch."""

    x: np.ndarray  # (R, D) at the inputs; (R, 1), for each word, where words were looked up projected
    biases: np.ndarray  # (layers, n)
    stabiliser: np.ndarray  # (n,)
    initial_state: np.ndarray  # (n,)
    largest: np.ndarray  # (n,) largest relevance of any neuron on the way
    hidden: list[tuple[np.ndarray, ...]] = field(default_factory=list)  # per layer: R_h, R_c (R, H) of each direction


# -- the LSTM --------------------------------------------------------------------------------------------------------


@per_layer
def _packed(layer: LSTM) -> tuple[np.ndarray, np.ndarray]:
    return stacked(layer.W), stacked(layer.U)


@per_layer
def _packed_dense(layer: Dense) -> np.ndarray:
    return stacked([layer.V])


def coefficients(how: Propagation, trace: LSTMTrace, batch: Batch) -> np.ndarray:
    """The coefficients of one direction: the forward kernel's, or for a rule it does not have, made from the trace."""
    if len(trace.K):
        return trace.K
    assert how.rule is not None  # the forward kernel has the gradient's
    return _shares(how.rule, how.eps, how.share_bias, trace, batch)


def _shares(rule: Rule, eps: float, share_bias: bool, trace: LSTMTrace, batch: Batch) -> np.ndarray:
    """The coefficients of any rule, in NumPy, step by step; with `share_bias` nothing leaks and z keeps no bias."""
    H = trace.layer.units
    kinds = KINDS_SHARED if share_bias else KINDS[PROP]
    K = np.empty(kinds * len(trace.x) * H, trace.x.dtype)
    b = trace.layer.b[:, None]  # type: ignore[index]
    half = 0.5 if share_bias else 0.0

    def product(gate: np.ndarray, signal: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        to_gate, to_signal = rule.shares(gate, signal, eps)
        lost = 1 - to_gate - to_signal
        return to_gate + half * lost, to_signal + half * lost, lost

    for row, end, before, after in zip(batch.first[:-1], batch.first[1:], batch.at[:-1], batch.at[1:], strict=True):
        n = end - row
        kept = trace.kept[9 * row * H : 9 * end * H].reshape(9, n, H)
        z, (i, f, g, o, y) = kept[:4], kept[4:]
        c_prev, c = trace.C[before : before + n], trace.C[after : after + n]
        over, lost = inverse(c, eps)
        A, B = f * c_prev * over + half * lost, i * g * over + half * lost
        gate_f, signal_f, lost_f = product(f, c_prev)
        gate_i, signal_i, lost_i = product(i, g)
        gate_o, signal_o, lost_o = product(o, y)
        gain, lost_z = inverse(z, eps)
        to_z = np.stack([B * gate_i, A * gate_f, B * signal_i, gate_o])
        left = to_z * lost_z
        k = K[kinds * row * H : kinds * end * H].reshape(kinds, n, H)
        k[:4], k[4], k[5] = to_z * gain, A * signal_f, signal_o
        k[6], k[7] = lost + A * lost_f + B * lost_i + left[:3].sum(axis=0), lost_o + left[3]
        if share_bias:
            k[8:] = to_z * gain * b + left
    return K


class _Pass:
    """One backward pass over one trace; collects the ledger as it goes down."""

    def __init__(self, trace: Trace, how: Propagation, want_x: bool, hidden: bool) -> None:
        self.trace, self.how, self.batch = trace, how, trace.batch
        self.want_x, self.hidden = want_x, hidden
        layers, n = len(trace.layers), trace.batch.n
        self.ledgers = np.zeros((layers, 4, n), trace.scores.dtype)  # biases, stabiliser, initial state, largest
        self.stabiliser = np.zeros(n, trace.scores.dtype)
        self.states: list[tuple[np.ndarray, ...]] = [()] * layers

    def per_sequence(self, rows: np.ndarray) -> np.ndarray:
        """(R, M) or (n, M) summed over everything but the sequence."""
        sums = np.add.reduce(rows, axis=1)
        if len(rows) == self.batch.n:
            return sums
        return np.add.reduceat(self.batch.unpack(sums), self.batch.starts)

    def lstm(
        self, k: int, trace: LSTMTrace, R_last: np.ndarray | None, R_rows: np.ndarray | None, R_x: np.ndarray
    ) -> None:
        """Back through one direction of layer k: relevance of its inputs is added to R_x."""
        batch, how, layer = self.batch, self.how, trace.layer
        R, H, dtype = len(trace.x), layer.units, trace.x.dtype
        W, U = _packed(layer)
        if how.one_block:
            W, U = W[2:3], U[2:3]
        none = nothing(0, 0, H, dtype=dtype)
        R_states = np.empty((2, R, H), dtype) if self.hidden else none
        kernels.backward(
            coefficients(how, trace, batch), batch.first, trace.order, trace.ids, trace.x, trace.table, layer.b,
            trace.Hs, W, U, int(how.rule is not None),
            none if R_last is None else np.stack([R_last, np.zeros_like(R_last)]),
            nothing(0, H, dtype=dtype) if R_rows is None else R_rows, R_x, self.ledgers[k], R_states, none,
        )  # fmt: skip
        if self.hidden:
            self.states[k] += (R_states[0], R_states[1])

    def recurrent(
        self,
        k: int,
        trace: LSTMTrace | BidirectionalTrace,
        last: tuple[np.ndarray, ...] | None,
        rows: tuple[np.ndarray, ...] | None,
        want_x: bool,
    ) -> np.ndarray:
        """Back through layer k: relevance of its inputs (R, D). The one place where left and right exist."""
        sides = (trace.forward, trace.backward) if isinstance(trace, BidirectionalTrace) else (trace,)
        x, flip = sides[0].x, self.batch.flip if len(sides) == 2 else None
        looked_up = x.shape[1] == 0  # then a word gets what is summed here
        D = max(side.layer.units for side in sides) if looked_up else x.shape[1]
        R_x = np.zeros((len(x) if want_x else 0, D), x.dtype)
        for side, order, which in zip(sides, (slice(None), flip), (0, 1), strict=False):
            self.lstm(k, side, last[which] if last else None, rows[which][order] if rows else None, R_x)
        if self.hidden and flip is not None:
            R_h, R_c, mirror_h, mirror_c = self.states[k]
            self.states[k] = (R_h, R_c, mirror_h[flip], mirror_c[flip])
        return R_x.sum(axis=1, keepdims=True) if looked_up and want_x else R_x

    # -- everything else -------------------------------------------------------------------------------------------

    def dense(self, k: int, trace: DenseTrace, R: np.ndarray) -> np.ndarray:
        """Back through y = activation(V x + d)."""
        layer, how = trace.layer, self.how
        if how.rule is None:
            slope = {"linear": lambda: 1, "relu": lambda: trace.y > 0, "tanh": lambda: 1 - trace.y**2}[
                layer.activation
            ]()
            return (R * slope) @ layer.V
        if how.share_bias:
            over, lost = inverse(trace.z, how.eps)
            s = R * over
            left = (s * layer.d + R * lost).sum(axis=1, keepdims=True)
            return trace.x * (s @ layer.V) + left / R.dtype.type(layer.inputs)
        R_x = np.zeros_like(trace.x)
        dense_kernels.backward(
            R, trace.z, trace.x, _packed_dense(layer), layer.d, R.dtype.type(how.eps),
            np.arange(len(R)) if len(R) == self.batch.n else self.batch.owner, R_x, self.ledgers[k],
        )  # fmt: skip
        return R_x

    def sum(self, terms: Sequence[np.ndarray], total: np.ndarray, R: np.ndarray) -> list[np.ndarray]:
        """Back through total = sum of terms, by the epsilon rule; what each term gets. All have the same shape."""
        over, lost = inverse(total, self.how.eps)
        if self.how.share_bias:
            return [(term * over + lost / total.dtype.type(len(terms))) * R for term in terms]
        self.stabiliser += self.per_sequence(lost * R)
        return [term * over * R for term in terms]

    def merge(
        self, layer: Layer, sides: tuple[np.ndarray, ...], merged: np.ndarray, R: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Back through the merge of two directions."""
        if not isinstance(layer, Bidirectional):
            return (R,)
        if layer.merge == "concat":
            cut = layer.forward.units
            return np.ascontiguousarray(R[:, :cut]), np.ascontiguousarray(R[:, cut:])
        factor = R.dtype.type(1 if layer.merge == "sum" else 0.5)
        if self.how.rule is None:
            return R * factor, R * factor
        return tuple(self.sum([side * factor for side in sides], merged, R))

    def pool(self, R: np.ndarray) -> np.ndarray:
        """Back through a readout "mean" or "max": (n, M) to the rows (R, M)."""
        trace, batch = self.trace, self.batch
        rows, owner = trace.merged, batch.owner
        if trace.model.readout == "max":
            return np.where(batch.winners(rows), R[owner], R.dtype.type(0))
        share = 1 / batch.lengths.astype(R.dtype)[:, None]
        if self.how.rule is None:
            return (R * share)[owner]
        over, lost = inverse(trace.pooled, self.how.eps)
        if self.how.share_bias:
            return rows * (share * over * R)[owner] + (share * lost * R)[owner]
        self.stabiliser += self.per_sequence(lost * R)
        return rows * (share * over * R)[owner]

    def run(self, R: np.ndarray) -> Passed:
        """From the scores down to the inputs."""
        trace, model = self.trace, self.trace.model
        top = model.readout_at - 1
        for k in range(len(trace.layers) - 1, top, -1):
            R = self.dense(k, trace.layers[k], R)  # type: ignore[arg-type]
        if model.readout in ("mean", "max"):
            R = self.pool(R)
        for k in range(top, -1, -1):
            layer = trace.layers[k]
            want_x = k > 0 or self.want_x
            if isinstance(layer, DenseTrace):
                R = self.dense(k, layer, R)
                continue
            sides, merged = (trace.sides, trace.merged) if k == top else self.outputs(layer)
            parts = self.merge(layer.layer, sides, merged, R)
            last, rows = (parts, None) if k == top and model.readout == "last" else (None, parts)
            R = self.recurrent(k, layer, last, rows, want_x)
        biases, stabiliser, initial_state, largest = self.ledgers.transpose(1, 0, 2)
        stabiliser, initial_state = stabiliser.sum(axis=0) + self.stabiliser, initial_state.sum(axis=0)
        return Passed(R, biases, stabiliser, initial_state, largest.max(axis=0), self.states)

    def outputs(self, trace: LSTMTrace | BidirectionalTrace) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """What a lower layer gave: its directions' rows, and the merged rows."""
        if isinstance(trace, LSTMTrace):
            return (trace.h,), trace.h
        sides = (trace.forward.h, trace.backward.h[self.batch.flip])
        return sides, merge(trace.layer, sides)


def backward(
    trace: Trace,
    R: np.ndarray,
    how: Propagation,
    *,
    want_x: bool = True,
    hidden: bool = False,
) -> Passed:
    """Send R, (n, C) or with readout "every" (R, C), from the scores back to the inputs."""
    with np.errstate(over="ignore", invalid="ignore"):  # the caller is told by a warning that names eps
        return _Pass(trace, how, want_x, hidden).run(R)
