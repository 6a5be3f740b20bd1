"""The LSTM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.kernels import lstm as kernels
from lrpnumpy.kernels import lstm_decomposition, lstm_occlusion
from lrpnumpy.kernels.inputs import Past
from lrpnumpy.layers.recurrent import Read
from lrpnumpy.layers.stacked import StackedCell
from lrpnumpy.packed import Batch, Change, Split
from lrpnumpy.statement.compiled import CompiledRun

BLOCK = 24_576  # numbers in the state of the variants that go through time together: they stay in the cache


@dataclass(frozen=True, eq=False, repr=False)
class LSTM(StackedCell):
    """One direction of an LSTM: `U` (4,H,D), `W` (4,H,H), `b` (4,H) or None for no bias; gates i, f, g, o.

    i, f, o = recurrent_activation(W h_prev + U x + b), g = activation(...), c = f c_prev + i g,
    h = o activation(c). `h0` and `c0` (H,) are the state before the first step, zero by default. `activation` and
    `recurrent_activation` are names that `Dense` takes.

    LRP: each gate's pre-activation is one sum; c is a sum of the products (f, c_prev) and (i, g); h is the product
    (o, activation(c)). Contextual decomposition: Murdoch, Liu & Yu, ICLR 2018, who do not split o.
    """

    U: np.ndarray
    W: np.ndarray
    b: np.ndarray | None = None  # type: ignore[assignment]
    h0: np.ndarray | None = None
    c0: np.ndarray | None = None
    activation: str = "tanh"
    recurrent_activation: str = "sigmoid"

    states: ClassVar[tuple[str, ...]] = ("h", "c")
    OUTPUTS: ClassVar[tuple[str, ...]] = ("", ":last", ":cell")
    GATES: ClassVar[str] = "ifgo"
    KERNELS: ClassVar[Any] = kernels
    _MORE_KERNELS: ClassVar[Any] = {"states": [lstm_occlusion.run], "parts": [lstm_decomposition.decompose]}

    def __post_init__(self) -> None:
        self._check({"b": (4, -1), "h0": (-1,), "c0": (-1,)}, ("activation", "recurrent_activation"))

    @staticmethod
    def step(s: Any, x: Any, h: Any, c: Any) -> Any:
        """The formulas above."""
        i, f, g, o = s.gates("ifgo", x, h)
        i, f, o = (s.apply(s.recurrent_activation, z) for z in (i, f, o))
        c = s.sum(s.product(f, c), s.product(i, s.apply(s.activation, g)))
        return s.product(s.whole(o), s.apply(s.activation, c)), c

    @property
    def _codes(self) -> tuple[int, ...]:
        return ACTIVATIONS[self.activation].code, ACTIVATIONS[self.recurrent_activation].code

    def varied(self, read: Read, change: Change, tol: float, every: bool) -> tuple[np.ndarray, np.ndarray]:
        """Outputs of the variants of an occlusion, by a kernel that runs them from the states of their sequences."""
        V, H, run = len(change.owner), self.units, read.run
        if not isinstance(run, CompiledRun) or not lstm_occlusion.run.ready(self.dtype, V * H):
            return super().varied(read, change, tol, every)
        Q = change.rows @ run.program.U.T + run.program.b.ravel()
        index = np.arange(len(Q)) if change.picked is None else change.picked
        steps = change.size + run.batch.lengths[change.owner] - change.hi
        kept_at = np.cumsum(steps) - steps
        count = int(steps.sum()) if every else V
        out = np.zeros((count, H), self.dtype)
        done = np.empty(V, np.int64)
        lstm_occlusion.run(
            Past(run.kept, run.batch.first, run.states[0], run.states[1], read.xs[0].rows), run.program.ahead,
            table_of(change.owner, change.lo, change.hi, change.size, change.own, kept_at), Q, index, change.stride,
            self.dtype.type(tol), int(every), out, done,
        )  # fmt: skip
        return out, done

    def _decomposed(self, read: Read, part: Split, way: int, every: bool) -> np.ndarray:
        """beta of the last states (V, H), or of every step in the rows of a batch of variants."""
        V, H, run, dtype = len(part.owner), self.units, read.run, self.dtype
        T = run.batch.lengths[part.owner]
        seen = read.xs[0].vectors
        if len(read.order):
            seen = seen[read.order]
        rows, beta_x, count = part.owner, seen[:1], V
        if every or part.beta is not None:
            variants = Batch(T)
            rows = variants.starts + (T - 1) * (way < 0)
        if part.beta is not None:
            beta_x = variants.unpack(part.beta.rows)
        if every:
            count = variants.R
        out = np.zeros((count, H), dtype)
        b = self.b + self.U @ part.delta
        room = min(V * H, max(BLOCK, H)) // lstm_decomposition.LANES + 5  # padded: see the kernel
        lstm_decomposition.decompose(
            Past(run.kept, run.batch.first, run.states[0], run.states[1], seen), run.program.ahead, b, beta_x,
            table_of(part.owner, part.start, part.stop, part.since, rows), way, int(part.beta is not None),
            int(every), out, np.zeros((8, room * lstm_decomposition.LANES), dtype),
        )  # fmt: skip
        return variants.pack(out) if every else out


def table_of(*columns: np.ndarray) -> np.ndarray:
    """Columns of integers as the rows of one array, as kernels take them."""
    table = np.empty((len(columns), len(columns[0])), np.int64)
    for row, column in zip(table, columns, strict=True):
        row[:] = column
    return table
