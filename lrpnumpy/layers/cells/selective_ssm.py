"""The selective state-space layer of Mamba."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from lrpnumpy.layers.recurrent import Cell


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
