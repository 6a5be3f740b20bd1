"""The LSTM with peephole connections."""

from __future__ import annotations

from typing import Any, ClassVar

from lrpnumpy.layers.recurrent import Cell


class PeepholeLSTM(Cell):
    """The LSTM of Gers & Schmidhuber 2000, whose gates also read the memory c, each unit its own.

        i, f = sigmoid(U x + W h_prev + p c_prev + b),  g = tanh(U_g x + W_g h_prev + b_g),  c = f c_prev + i g
        o = sigmoid(U_o x + W_o h_prev + p_o c + b_o),  h = o tanh(c)

    LRP: gates and signals are those of an LSTM; p c is one more term of a gate's sum. Contextual decomposition does
    not split o, as for the LSTM (Murdoch et al. 2018).

    U_i, U_f, U_g, U_o: (H, D) input weights.
    W_i, W_f, W_g, W_o: (H, H) recurrent weights.
    p_i, p_f, p_o: (H,) peephole weights.
    b_i, b_f, b_g, b_o: (H,) biases.
    h0, c0: (H,) states before the first step, 0 by default.
    """

    states: ClassVar[tuple[str, ...]] = ("h", "c")

    @staticmethod
    def step(s: Any, x: Any, h: Any, c: Any) -> Any:
        """The formulas above."""

        def gate(k: str, c: Any) -> Any:
            terms = s.matrix(f"U_{k}", x), s.matrix(f"W_{k}", h), s.diagonal(f"p_{k}", c), s.bias(f"b_{k}")
            return s.sigmoid(s.sum(*terms))

        (g,) = s.gates("g", x, h)
        c_new = s.sum(s.product(gate("f", c), c), s.product(gate("i", c), s.tanh(g)))
        return s.product(s.whole(gate("o", c_new)), s.tanh(c_new)), c_new
