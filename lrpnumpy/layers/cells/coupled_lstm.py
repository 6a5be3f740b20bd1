"""The LSTM with coupled input and forget gates."""

from __future__ import annotations

from typing import Any, ClassVar

from lrpnumpy.layers.recurrent import Cell


class CoupledLSTM(Cell):
    """The LSTM whose input gate is 1 - f (CIFG; Greff et al. 2017).

        f, o = sigmoid(U x + W h_prev + b),  g = tanh(U_g x + W_g h_prev + b_g)
        c = f c_prev + (1 - f) g,  h = o tanh(c)

    LRP: f, 1 - f and o are gates, c_prev, g and tanh(c) are signals, as in an LSTM; what the gate 1 - f receives goes
    to f's sum. Contextual decomposition does not split o, as for the LSTM (Murdoch et al. 2018).

    U_f, U_g, U_o: (H, D) input weights.
    W_f, W_g, W_o: (H, H) recurrent weights.
    b_f, b_g, b_o: (H,) biases.
    h0, c0: (H,) states before the first step, 0 by default.
    """

    states: ClassVar[tuple[str, ...]] = ("h", "c")

    @staticmethod
    def step(s: Any, x: Any, h: Any, c: Any) -> Any:
        """The formulas above."""
        f, g, o = s.gates("fgo", x, h)
        f = s.sigmoid(f)
        c = s.sum(s.product(f, c), s.product(s.complement(f), s.tanh(g)))
        return s.product(s.whole(s.sigmoid(o)), s.tanh(c)), c
