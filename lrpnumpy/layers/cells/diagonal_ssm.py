"""The diagonal state-space layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from lrpnumpy.layers.recurrent import Cell


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
