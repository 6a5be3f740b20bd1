"""The closed-form continuous-time cell."""

from __future__ import annotations

from typing import Any

from lrpnumpy.layers.recurrent import Cell


class CfC(Cell):
    """The closed-form continuous-time cell of Hasani et al. 2022, in its default mode. It has two inputs: the series x
    and the time since the step before, one number per step.

        v = silu(U_v x + W_v h_prev + b_v),  r = sigmoid((V_a v + b_a) time + V_t v + b_t)
        h = (1 - r) tanh(V_1 v + b_1) + r tanh(V_2 v + b_2)

    LRP: r and 1 - r are gates, the two tanh are signals: r interpolates between them. In r the rate V_a v + b_a is the
    gate of the time. With two inputs contextual decomposition is that of any layer.

    U_v, W_v, b_v: (B, D), (B, H) and (B,) weights and bias of the backbone of B units.
    V_a, V_t, V_1, V_2: (H, B) weights of the rate, of the offset and of the two contents.
    b_a, b_t, b_1, b_2: (H,) biases.
    h0: (H,) state before the first step, 0 by default.
    """

    activation: str = "silu"  # of the backbone

    @staticmethod
    def step(s: Any, x: Any, time: Any, h: Any) -> Any:
        """The formulas above."""
        v = s.apply(s.activation, s.sum(s.matrix("U_v", x, "B"), s.matrix("W_v", h, "B"), s.bias("b_v", ("B",))))
        rate, offset, one, two = (s.sum(s.matrix(f"V_{k}", v), s.bias(f"b_{k}")) for k in "at12")
        r = s.sigmoid(s.sum(s.total(s.product(rate, time), "time"), offset))
        return s.sum(s.product(s.complement(r), s.tanh(one)), s.product(r, s.tanh(two)))
