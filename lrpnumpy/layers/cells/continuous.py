"""Cells from equations in continuous time: CfC and state-space layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

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


class DiagonalSSM(Cell):
    """The diagonal state-space layer (S4D, Gu et al. 2022), real and discretized, with N states per channel.

        h = A h_prev + B x,  y = sum_n C h + E x        (A, B, C elementwise; y is the output)

    LRP: the layer is linear and has no gates: relevance is gradient x input, but for the stabilizer. Contextual
    decomposition is exact.

    A: (D, N) decay per step, exp(dt A) of the continuous layer.
    B, C: (D, N) input and output weights of every state.
    E: (D,) weights from the input to the output of the same step, "D" in the paper.
    h0: (D, N) state before the first step, 0 by default.
    """

    axes: ClassVar[Mapping[str, tuple[str, ...]]] = {"h": ("D", "N")}

    @staticmethod
    def step(s: Any, x: Any, h: Any) -> Any:
        """The formula above."""
        wide = ("D", "N")
        h = s.sum(s.diagonal("A", h, wide), s.diagonal("B", x, wide))
        y = s.total(s.sum(s.diagonal("C", h, wide)), "N")
        return s.sum(y, s.diagonal("E", x, ("D",))), h


class SelectiveSSM(Cell):
    """The selective state-space layer of Mamba (Gu & Dao 2023), with N states per channel.

        dt = softplus(U_dt x + b_dt),  B = U_B x,  C = U_C x
        h = exp(dt A) h_prev + dt B x,  y = sum_n C h + E x        (y is the output)

    LRP: exp(dt A), dt B and C are gates, h_prev, x and h are signals. So lrp-all is the rule of MambaLRP (Jafari et
    al., NeurIPS 2024): the selection counts as constant, and relevance reaches x as content only. Relevance through
    the selection breaks conservation there.

    b_dt, U_dt: (D,) bias and (D, D) weights of the step size, the product of their two factors.
    U_B, U_C: (N, D) weights of B and C.
    A: (D, N) negative decay rates, -exp(A_log).
    E: (D,) weights from the input to the output of the same step, "D" in the paper.
    h0: (D, N) state before the first step, 0 by default.
    """

    axes: ClassVar[Mapping[str, tuple[str, ...]]] = {"h": ("D", "N")}

    @staticmethod
    def step(s: Any, x: Any, h: Any) -> Any:
        """The formulas above."""
        dt = s.softplus(s.sum(s.matrix("U_dt", x, "D"), s.bias("b_dt", ("D",))))
        B, C = s.sum(s.matrix("U_B", x, "N")), s.sum(s.matrix("U_C", x, "N"))
        decay = s.exponential(s.sum(s.diagonal("A", dt, ("D", "N"))))
        h = s.sum(s.product(decay, h), s.product(s.product(dt, B), x))
        return s.sum(s.total(s.product(C, h), "N"), s.diagonal("E", x, ("D",))), h
