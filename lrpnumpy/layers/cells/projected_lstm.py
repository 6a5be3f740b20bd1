"""The LSTM with a projection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from lrpnumpy.layers.recurrent import Cell


class ProjectedLSTM(Cell):
    """The LSTM whose output is a projection of P numbers (Sak et al. 2014; proj_size of PyTorch).

        i, f, o = sigmoid(U x + W h_prev + b),  g = tanh(U_g x + W_g h_prev + b_g),  c = f c_prev + i g
        h = W_p (o tanh(c))

    LRP: gates and signals are those of an LSTM, and h is a sum over the units. Contextual decomposition does not split
    o, as for the LSTM (Murdoch et al. 2018).

    U_i, U_f, U_g, U_o: (H, D) input weights.
    W_i, W_f, W_g, W_o: (H, P) recurrent weights.
    W_p: (P, H) the projection.
    b_i, b_f, b_g, b_o: (H,) biases.
    h0, c0: (P,) and (H,) states before the first step, 0 by default.
    """

    states: ClassVar[tuple[str, ...]] = ("h", "c")
    axes: ClassVar[Mapping[str, tuple[str, ...]]] = {"h": ("P",)}

    @staticmethod
    def step(s: Any, x: Any, h: Any, c: Any) -> Any:
        """The formulas above."""
        i, f, g, o = s.gates("ifgo", x, h)
        c = s.sum(s.product(s.sigmoid(f), c), s.product(s.sigmoid(i), s.tanh(g)))
        return s.sum(s.matrix("W_p", s.product(s.whole(s.sigmoid(o)), s.tanh(c)), "P")), c
