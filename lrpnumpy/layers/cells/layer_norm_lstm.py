"""The LSTM with LayerNorm."""

from __future__ import annotations

from typing import Any, ClassVar

from lrpnumpy.layers.recurrent import Cell


class LayerNormLSTM(Cell):
    """The LSTM with LayerNorm of Ba et al. 2016. Every gate is normalized separately.

        z_k = LN(U_k x; gu_k) + LN(W_k h_prev; gw_k) + b_k,  i, f, o = sigmoid(z),  g = tanh(z_g)
        c = f c_prev + i g,  h = o tanh(LN(c; gc, bc))

    LRP: gates and signals are those of an LSTM. A LayerNorm is one sum per output, with its standard deviation held
    fixed. Contextual decomposition holds it fixed too, and does not split o, as for the LSTM (Murdoch et al. 2018).

    U_i, U_f, U_g, U_o: (H, D) input weights.
    W_i, W_f, W_g, W_o: (H, H) recurrent weights.
    gu_i, gu_f, gu_g, gu_o: (H,) scales of the normalized U x.
    gw_i, gw_f, gw_g, gw_o: (H,) scales of the normalized W h.
    b_i, b_f, b_g, b_o: (H,) biases.
    gc, bc: (H,) scale and bias of the normalized c.
    h0, c0: (H,) states before the first step, 0 by default.
    """

    states: ClassVar[tuple[str, ...]] = ("h", "c")

    @staticmethod
    def step(s: Any, x: Any, h: Any, c: Any) -> Any:
        """The formulas above."""

        def gate(k: str) -> Any:
            from_x, from_h = s.sum(s.matrix(f"U_{k}", x)), s.sum(s.matrix(f"W_{k}", h))
            return s.sum(s.norm(from_x, f"gu_{k}"), s.norm(from_h, f"gw_{k}"), s.bias(f"b_{k}"))

        c = s.sum(s.product(s.sigmoid(gate("f")), c), s.product(s.sigmoid(gate("i")), s.tanh(gate("g"))))
        return s.product(s.whole(s.sigmoid(gate("o"))), s.tanh(s.norm(c, "gc", "bc"))), c
