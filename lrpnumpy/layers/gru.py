"""The GRU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lrpnumpy.checks import LrpError
from lrpnumpy.layers.stacked import StackedCell


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

    def described(self) -> str:
        """One line for `inspect`."""
        reset = "after" if self.reset_after else "before"
        gates = f"gates z r n with {self.recurrent_activation}, {self.activation}, reset {reset} the product"
        return f"GRU, {self.inputs} to {self.units}, {gates}{self._start_text()}"
