"""The entity-aware LSTM."""

from __future__ import annotations

from typing import Any, ClassVar

from lrpnumpy.layers.recurrent import Cell


class EALSTM(Cell):
    """The entity-aware LSTM of Kratzert et al. 2019. It has two inputs: the series x, and a static vector, such as the
    attributes of a catchment, which alone decides the input gate.

        i = sigmoid(U_i static + b_i),  f, o = sigmoid(U x + W h_prev + b),  g = tanh(U_g x + W_g h_prev + b_g)
        c = f c_prev + i g,  h = o tanh(c)

    LRP: gates and signals are those of an LSTM; under lrp-all the static input, which is only in a gate, receives
    nothing. With two inputs contextual decomposition is that of any layer.

    U_i: (H, S) weights of the static input.
    U_f, U_g, U_o: (H, D) input weights.
    W_f, W_g, W_o: (H, H) recurrent weights.
    b_i, b_f, b_g, b_o: (H,) biases.
    h0, c0: (H,) states before the first step, 0 by default.
    """

    states: ClassVar[tuple[str, ...]] = ("h", "c")

    @staticmethod
    def step(s: Any, x: Any, static: Any, h: Any, c: Any) -> Any:
        """The formulas above."""
        (i,) = s.gates("i", static)
        f, g, o = s.gates("fgo", x, h)
        c = s.sum(s.product(s.sigmoid(f), c), s.product(s.sigmoid(i), s.tanh(g)))
        return s.product(s.whole(s.sigmoid(o)), s.tanh(c)), c
