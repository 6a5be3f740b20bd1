"""The LSTM: its arrays, its kernels, and the coefficients of rules that the kernels do not have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.kernels import lstm as kernels
from lrpnumpy.kernels import lstm_decomposition, lstm_deeplift, lstm_occlusion
from lrpnumpy.kernels.steps import NONE
from lrpnumpy.layers.recurrent import Cell, Read, nothing, table_of
from lrpnumpy.lazy import cached_property
from lrpnumpy.packed import Batch, Change, Part
from lrpnumpy.rules.propagation import Propagation

BLOCK = 24_576  # numbers in the state of the variants that go through time together: they stay in the cache


@dataclass(frozen=True, eq=False, repr=False)
class LSTM(Cell):
    """One direction of an LSTM: `U` (4,H,D), `W` (4,H,H), `b` (4,H) or None for no bias; gates i, f, g, o.

    i, f, o = recurrent_activation(W h_prev + U x + b), g = activation(...), c = f c_prev + i g,
    h = o activation(c). `h0` and `c0` (H,) are the state before the first step, zero by default. `activation` and
    `recurrent_activation` are names that `Dense` takes.

    LRP: each gate's pre-activation is one sum; c is a sum of the products (f, c_prev) and (i, g); h is the product
    (o, activation(c)). Contextual decomposition: Murdoch, Liu & Yu, ICLR 2018.
    """

    U: np.ndarray
    W: np.ndarray
    b: np.ndarray | None = None  # type: ignore[assignment]
    h0: np.ndarray | None = None
    c0: np.ndarray | None = None
    activation: str = "tanh"
    recurrent_activation: str = "sigmoid"

    KERNELS: ClassVar[Any] = kernels
    DEEPLIFT: ClassVar[Any] = lstm_deeplift
    OUTPUTS: ClassVar[tuple[str, ...]] = ("", ":last", ":cell")
    GATES: ClassVar[str] = "ifgo"
    TRACED: ClassVar[int] = 9
    ONE_BLOCK: ClassVar[slice] = slice(2, 3)

    def __post_init__(self) -> None:
        self._check({"b": (4, -1), "h0": (-1,), "c0": (-1,)}, ("activation", "recurrent_activation"))

    @cached_property
    def start(self) -> np.ndarray:
        """(2, 1, H) h0 and c0."""
        start = np.stack([self.h0, self.c0])[:, None]  # type: ignore[list-item]
        start.setflags(write=False)
        return start

    @cached_property
    def codes(self) -> dict[int, np.ndarray]:
        """Activation of the cell, of the gates, and the rule."""
        cell, gates = ACTIVATIONS[self.activation].code, ACTIVATIONS[self.recurrent_activation].code
        return {rule: np.array([cell, gates, rule]) for rule in (NONE, *kernels.KINDS)}

    def run_forward(self, read: Read, codes: np.ndarray, eps: Any, start: np.ndarray) -> None:
        """Call the forward kernel."""
        U, W = self.ahead
        kernels.forward(
            read.x.rows, read.x.batch.first, read.order, read.ids, read.table, U, W, start, codes, eps,
            read.K, read.Hs, read.C, read.kept,
        )  # fmt: skip

    def fill_coefficients(self, read: Read, t: int, kept: np.ndarray, how: Propagation, k: np.ndarray) -> None:
        """In the layout of kernels.lstm."""
        n = k.shape[1]
        z, (i, f, g, o), y = kept[:4], kept[4:8], kept[8]
        c_prev, c = (read.C[row : row + n] for row in read.x.batch.states_before[t : t + 2])
        over, lost = how.gain(c)
        A, B = f * c_prev * over, i * g * over
        gate_f, signal_f, lost_f = how.product(f, c_prev)
        gate_i, signal_i, lost_i = how.product(i, g)
        gate_o, signal_o, lost_o = how.product(o, y)
        gain, lost_z = how.gain(z)
        to_z = np.stack([B * gate_i, A * gate_f, B * signal_i, gate_o])
        left = to_z * lost_z
        k[:4], k[4], k[5] = to_z * gain, A * signal_f, signal_o
        k[6], k[7] = lost + A * lost_f + B * lost_i + left[:3].sum(axis=0), lost_o + left[3]

    def varied(self, read: Read, change: Change, tol: float, every: bool) -> tuple[np.ndarray, np.ndarray]:
        """Outputs of the variants of an occlusion, by a kernel that runs them from the states of their sequences."""
        batch, H, V = read.x.batch, self.units, len(change.owner)
        Q = change.rows @ self.U.reshape(-1, self.inputs).T + self.b.ravel()  # type: ignore[union-attr]
        steps = change.size + batch.lengths[change.owner] - change.hi
        kept_at = np.cumsum(steps) - steps
        out = np.zeros((int(steps.sum()), H), self.U.dtype) if every else np.empty((V, H), self.U.dtype)
        done = np.empty(V, np.int64)
        lstm_occlusion.run(
            read.kept, batch.first, read.Hs, read.C, self.ahead[1], self.codes[NONE],
            table_of(change.owner, change.lo, change.hi, change.size, change.own, kept_at), Q, change.stride,
            self.U.dtype.type(tol), int(every), out, done,
        )  # fmt: skip
        return out, done

    def decomposed(self, read: Read, part: Part, way: int, every: bool) -> np.ndarray:
        """beta of the last states (V, H), or of every step in the rows of a batch of variants."""
        batch, H, V, dtype = read.x.batch, self.units, len(part.owner), self.U.dtype
        T = batch.lengths[part.owner]
        variants = Batch(T) if every or part.beta is not None else None
        final = nothing(0, H, dtype=dtype) if every else np.empty((V, H), dtype)
        each = np.zeros((int(T.sum()), H), dtype) if every else nothing(0, H, dtype=dtype)
        rows = part.owner if variants is None else variants.starts + (0 if way > 0 else T - 1)
        beta_x = nothing(0, self.inputs, dtype=dtype)
        if part.beta is not None:
            beta_x = variants.unpack(part.beta.rows)  # type: ignore[union-attr]
        U, W = self.ahead
        b = self.b + self.U @ part.delta if part.delta.any() else self.b
        room = min(V * H, max(BLOCK, H)) // lstm_decomposition.LANES + 5  # padded: see the kernel
        lstm_decomposition.decompose(
            read.kept, batch.first, read.C, read.seen, beta_x, U, W, b, self.codes[NONE],
            table_of(part.owner, part.start, part.stop, part.since, rows), way, final, each,
            np.zeros((8, room * lstm_decomposition.LANES), dtype),
        )  # fmt: skip
        return variants.pack(each) if every else final  # type: ignore[union-attr]

    def described(self) -> str:
        """One line for `inspect`."""
        gate = {"hard_sigmoid": "hard_sigmoid (0.2 z + 0.5)", "hard_sigmoid_3": "hard_sigmoid (z / 6 + 0.5)"}
        start = ", with a start state" if self.h0.any() or self.c0.any() else ""  # type: ignore[union-attr]
        gates = gate.get(self.recurrent_activation, self.recurrent_activation)
        return f"LSTM, {self.inputs} to {self.units}, gates i f g o with {gates}, {self.activation}{start}"
