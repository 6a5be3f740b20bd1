"""The plain RNN: its arrays, its kernels, the coefficients of rules that the kernels do not have, its decomposition."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.kernels import rnn as kernels
from lrpnumpy.kernels.rnn import KINDS, KINDS_SHARED
from lrpnumpy.kernels.steps import NONE, PROP
from lrpnumpy.layers.recurrent import Cell, Read, Sent, relevant
from lrpnumpy.rules.propagation import Propagation


@dataclass(frozen=True, eq=False, repr=False)
class RNN(Cell):
    """One direction of a plain RNN: h = activation(W h_prev + U x + b); U (H,D), W (H,H), b (H,) or None for no bias.

    `h0` (H,) is the state before the first step, zero by default. The arrays are kept with a leading axis of one gate.
    LRP: one sum. Contextual decomposition: the sum is split as an LSTM splits a gate.
    """

    U: np.ndarray
    W: np.ndarray
    b: np.ndarray | None = None  # type: ignore[assignment]
    h0: np.ndarray | None = None
    activation: str = "tanh"

    GATES: ClassVar[str] = "h"
    TRACED: ClassVar[int] = 2
    ONE_BLOCK: ClassVar[slice] = slice(0, 1)

    def __post_init__(self) -> None:
        for name, axes in (("U", 2), ("W", 2), ("b", 1)):
            value = getattr(self, name)
            if value is not None and np.ndim(value) == axes:
                self._set(**{name: np.asarray(value)[None]})
        self._check({"b": (1, -1), "h0": (-1,)}, ("activation",))

    @cached_property
    def start(self) -> np.ndarray:
        """(1, 1, H) h0."""
        return self.h0[None, None]  # type: ignore[index]

    @cached_property
    def codes(self) -> dict[int, np.ndarray]:
        """The activation and the rule."""
        return {rule: np.array([ACTIVATIONS[self.activation].code, rule]) for rule in (NONE, *KINDS)}

    def kinds(self, how: Propagation) -> int:
        """Kinds of coefficients, see kernels.rnn."""
        return KINDS[how.code]  # type: ignore[index]

    def run_forward(self, read: Read, codes: np.ndarray, eps: Any, start: np.ndarray) -> None:
        """Call the forward kernel."""
        U, W = self.ahead
        kernels.forward(
            read.x.rows, read.x.batch.first, read.order, read.ids, read.table, U, W, start, codes, eps, read.K,
            read.Hs, read.kept,
        )  # fmt: skip

    def run_backward(self, read: Read, K: np.ndarray, how: Propagation, sent: Sent) -> None:
        """Call the backward kernel."""
        W, U = self.packed_back(how)
        kernels.backward(
            K, read.x.batch.first, read.order, read.ids, read.x.rows, read.table, self.b, read.Hs, W, U,
            int(how.times_input), *sent,
        )  # fmt: skip

    def coefficients(self, read: Read, how: Propagation) -> np.ndarray:
        """The coefficients of any rule: there is no product, so only the sum decides."""
        H, first = self.units, read.x.batch.first
        kinds = KINDS_SHARED if how.share_bias else KINDS[PROP]
        K = np.empty(kinds * read.x.batch.R * H, self.U.dtype)
        for kept, row, end in zip(read.of_step(2), first[:-1], first[1:], strict=True):
            k = K[kinds * row * H : kinds * end * H].reshape(kinds, end - row, H)
            k[0], k[1] = how.gain(kept[0])
            if how.share_bias:
                k[2] = (k[0] * self.b[0] + k[1]) / (H + self.inputs)  # type: ignore[index]
        return K

    def split_step(
        self, kept: np.ndarray, a_x: np.ndarray, beta: np.ndarray, inside: np.ndarray, b: np.ndarray
    ) -> np.ndarray:
        """beta of h from that of h_prev; inside the phrase, what the bias gives belongs to the phrase."""
        a, bias = relevant(ACTIVATIONS[self.activation].F, a_x[0] + beta @ self.W[0].T, kept[0], b[0])
        return a + inside * bias

    def described(self) -> str:
        """One line for `inspect`."""
        start = ", with a start state" if self.h0.any() else ""  # type: ignore[union-attr]
        return f"RNN, {self.inputs} to {self.units}, {self.activation}{start}"
