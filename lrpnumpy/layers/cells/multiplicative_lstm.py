"""The multiplicative LSTM."""

from __future__ import annotations

from typing import Any, ClassVar

from lrpnumpy.layers.recurrent import Cell


class MultiplicativeLSTM(Cell):
    """The multiplicative LSTM of Krause et al. 2016, as the sentiment network of Radford et al. 2017 has it.

        m = (U_m x) (W_m h_prev),  i, f, o = sigmoid(U x + W m + b),  g = tanh(U_g x + W_g m + b_g)
        c = f c_prev + i g,  h = o tanh(c)

    LRP: in m the input is the gate and the state is the signal: U_m x chooses the transition by which W_m h_prev goes
    on. The other gates and signals are those of an LSTM. Contextual decomposition does not split o, as for the LSTM
    (Murdoch et al. 2018).

    U_m, U_i, U_f, U_g, U_o: (H, D) input weights.
    W_m, W_i, W_f, W_g, W_o: (H, H) recurrent weights.
    b_i, b_f, b_g, b_o: (H,) biases.
    h0, c0: (H,) states before the first step, 0 by default.
    """

    states: ClassVar[tuple[str, ...]] = ("h", "c")

    @staticmethod
    def step(s: Any, x: Any, h: Any, c: Any) -> Any:
        """The formulas above."""
        m = s.product(s.sum(s.matrix("U_m", x)), s.sum(s.matrix("W_m", h)))
        i, f, g, o = s.gates("ifgo", x, m)
        c = s.sum(s.product(s.sigmoid(f), c), s.product(s.sigmoid(i), s.tanh(g)))
        return s.product(s.whole(s.sigmoid(o)), s.tanh(c)), c
