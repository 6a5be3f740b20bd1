"""Cells whose arrays are stacked by gate, as files have them: LSTM, GRU and RNN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.checks import LrpError, float_array, one_of
from lrpnumpy.kernels import lstm as kernels
from lrpnumpy.kernels import lstm_decomposition, lstm_occlusion
from lrpnumpy.kernels.inputs import Past
from lrpnumpy.layers.base import Record, optional
from lrpnumpy.layers.recurrent import Cell, Read
from lrpnumpy.lazy import cached_property
from lrpnumpy.packed import Batch, Change, Split
from lrpnumpy.statement.compiled import CompiledRun

BLOCK = 24_576  # numbers in the state of the variants that go through time together: they stay in the cache


class StackedCell(Cell):
    """A cell with a special constructor: U_k, W_k and b_k of its `step` are rows of U, W and b."""

    GATES: ClassVar[str]  # letters k in the order of U, W and b

    U: np.ndarray
    W: np.ndarray
    b: np.ndarray

    _values = Record._values

    def _check(self, more: Mapping[str, tuple[int, ...]], activations: Sequence[str]) -> None:
        """Check U and W, and those of the optional arrays that are given; the others become 0."""
        kind, G = type(self).__name__, len(self.GATES)
        U = float_array(self.U, f"{kind}: U", (G, None, None))
        H = U.shape[1]
        arrays = {"U": U, "W": float_array(self.W, f"{kind}: W", (G, H, H))}
        for name, axes in more.items():
            shape = tuple(H if size < 0 else size for size in axes)
            arrays[name] = optional(getattr(self, name), f"{kind}: {name}", shape, U.dtype)
        self._set(**arrays)
        for name in activations:
            one_of(getattr(self, name), f"{kind}: {name}", tuple(ACTIVATIONS))

    @cached_property
    def weights(self) -> dict[str, np.ndarray]:
        """The arrays by their names in `step`."""
        found = {
            f"{name}_{k}": array for name in "UWb" for k, array in zip(self.GATES, getattr(self, name), strict=True)
        }
        more = {name: getattr(self, name) for name in self.statement.arrays if name not in found}
        return {**found, **more}

    def with_affine_before(self, s: np.ndarray, t: np.ndarray) -> Any:
        """U (s x + t) + b."""
        return replace(self, U=self.U * s, b=self.b + self.U @ t)

    def described(self) -> str:
        """One line for `inspect`."""
        return f"{super(Cell, self).described()}, gates {' '.join(self.GATES)}"


@dataclass(frozen=True, eq=False, repr=False)
class GRU(StackedCell):
    """One direction of a GRU: `U` (3,H,D), `W` (3,H,H), `b` (3,H) or None for no bias; gates z, r, n.

    z, r = recurrent_activation(W h_prev + U x + b), h = (1 - z) n + z h_prev, and with `reset_after` (PyTorch, Keras'
    default) n = activation(U_n x + b_n + r (W_n h_prev + bn)), else n = activation(U_n x + b_n + W_n (r h_prev)).
    `bn` (H,) is the bias inside the reset product, `h0` (H,) the state before the first step; both zero by default.
    `activation` and `recurrent_activation` are names that `Dense` takes.

    LRP: h is a sum of the products (1 - z, n) and (z, h_prev); what goes to the gate 1 - z goes to z's pre-activation.
    With `reset_after` n's pre-activation is one sum of U_n x, b_n and the product of the gate r and the signal
    W_n h_prev + bn, which is a separate sum; otherwise it is one sum over x and r h_prev, each a product of gate r and
    signal h_prev. Contextual decomposition splits gates, n and products as it does those of an LSTM.
    """

    U: np.ndarray
    W: np.ndarray
    b: np.ndarray | None = None  # type: ignore[assignment]
    bn: np.ndarray | None = None
    h0: np.ndarray | None = None
    activation: str = "tanh"
    recurrent_activation: str = "sigmoid"
    reset_after: bool = True

    GATES: ClassVar[str] = "zrn"
    OUTPUTS: ClassVar[tuple[str, ...]] = ("", ":last")

    def __post_init__(self) -> None:
        self._check({"b": (3, -1), "bn": (-1,), "h0": (-1,)}, ("activation", "recurrent_activation"))
        self._set(reset_after=bool(self.reset_after))
        count = np.count_nonzero(self.bn)  # type: ignore[arg-type]
        if count and not self.reset_after:
            raise LrpError(
                "GRU: bn must be left out with reset_after=False, where it would be no other bias than b[2], "
                f"got {count} numbers that are not 0; add it to b[2]."
            )

    @staticmethod
    def step(s: Any, x: Any, h: Any) -> Any:
        """The formulas above."""
        z, r = (s.apply(s.recurrent_activation, v) for v in s.gates("zr", x, h))
        if s.reset_after:
            inner = s.product(r, s.sum(s.matrix("W_n", h), s.bias("bn")))
        else:
            inner = s.matrix("W_n", s.product(r, h))
        n = s.apply(s.activation, s.sum(s.matrix("U_n", x), inner, s.bias("b_n")))
        return s.sum(s.product(s.complement(z), n), s.product(z, h))


@dataclass(frozen=True, eq=False, repr=False)
class RNN(StackedCell):
    """One direction of a plain RNN: h = activation(W h_prev + U x + b); `U` (H,D), `W` (H,H), `b` (H,) or None.

    `h0` (H,) is the state before the first step, zero by default, `activation` a name that `Dense` takes. The arrays
    are kept with a leading axis of one gate. LRP: one sum. Contextual decomposition: the sum is split as an LSTM
    splits a gate.
    """

    U: np.ndarray
    W: np.ndarray
    b: np.ndarray | None = None  # type: ignore[assignment]
    h0: np.ndarray | None = None
    activation: str = "tanh"

    GATES: ClassVar[str] = "h"
    OUTPUTS: ClassVar[tuple[str, ...]] = ("", ":last")

    def __post_init__(self) -> None:
        for name, axes in (("U", 2), ("W", 2), ("b", 1)):
            value = getattr(self, name)
            if value is not None and np.ndim(value) == axes:
                self._set(**{name: np.asarray(value)[None]})
        self._check({"b": (1, -1), "h0": (-1,)}, ("activation",))

    @staticmethod
    def step(s: Any, x: Any, h: Any) -> Any:
        """h = activation(W h_prev + U x + b)."""
        (z,) = s.gates("h", x, h)
        return s.apply(s.activation, z)


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
        out, done = np.zeros((int(steps.sum()) if every else V, H), self.dtype), np.empty(V, np.int64)
        lstm_occlusion.run(
            Past(run.kept, run.batch.first, run.states[0], run.states[1], read.xs[0].rows), run.program.ahead,
            np.array((change.owner, change.lo, change.hi, change.size, change.own, kept_at), np.int64), Q, index,
            change.stride, self.dtype.type(tol), int(every), out, done,
        )  # fmt: skip
        return out, done

    def _decomposed(self, read: Read, part: Split, way: int, every: bool) -> np.ndarray:
        """beta of the last states (V, H), or of every step in the rows of a batch of variants."""
        V, H, run, dtype = len(part.owner), self.units, read.run, self.dtype
        T = run.batch.lengths[part.owner]
        seen = read.xs[0].vectors[read.order]
        variants = Batch(T)
        rows = variants.starts + (T - 1) * (way < 0)
        beta_x = seen[:1] if part.beta is None else variants.unpack(part.beta.rows)
        out = np.zeros((variants.R if every else V, H), dtype)
        b = self.b + self.U @ part.delta
        room = min(V * H, max(BLOCK, H)) // lstm_decomposition.LANES + 5  # padded: see the kernel
        lstm_decomposition.decompose(
            Past(run.kept, run.batch.first, run.states[0], run.states[1], seen), run.program.ahead, b, beta_x,
            np.array((part.owner, part.start, part.stop, part.since, rows), np.int64), way, int(part.beta is not None),
            int(every), out, np.zeros((8, room * lstm_decomposition.LANES), dtype),
        )  # fmt: skip
        return variants.pack(out) if every else out
