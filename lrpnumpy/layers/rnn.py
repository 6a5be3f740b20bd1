"""The plain RNN: its arrays, its kernels, the coefficients of rules that the kernels do not have, its decomposition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.kernels import rnn as kernels
from lrpnumpy.kernels import rnn_deeplift
from lrpnumpy.kernels.steps import NONE
from lrpnumpy.layers.recurrent import Cell, Read, relevant
from lrpnumpy.lazy import cached_property
from lrpnumpy.rules.propagation import Propagation


@dataclass(frozen=True, eq=False, repr=False)
class RNN(Cell):
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

    KERNELS: ClassVar[Any] = kernels
    DEEPLIFT: ClassVar[Any] = rnn_deeplift
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
    def codes(self) -> dict[int, np.ndarray]:
        """The activation and the rule."""
        return {rule: np.array([ACTIVATIONS[self.activation].code, rule]) for rule in (NONE, *kernels.KINDS)}

    def run_forward(self, read: Read, codes: np.ndarray, eps: Any, start: np.ndarray) -> None:
        """Call the forward kernel."""
        U, W = self.ahead
        kernels.forward(
            read.x.rows, read.x.batch.first, read.order, read.ids, read.table, U, W, start, codes, eps, read.K,
            read.Hs, read.kept,
        )  # fmt: skip

    def fill_coefficients(self, read: Read, t: int, kept: np.ndarray, how: Propagation, k: np.ndarray) -> None:
        """In the layout of kernels.rnn: there is no product, so only the sum decides."""
        k[0], k[1] = how.gain(kept[0])

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
