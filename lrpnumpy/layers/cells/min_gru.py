"""The minimal GRU."""

from __future__ import annotations

from typing import Any

from lrpnumpy.layers.recurrent import Cell


class MinGRU(Cell):
    """The minimal GRU of Feng et al. 2024 ("Were RNNs All We Needed?"), whose gate does not read the state.

        z = sigmoid(U_z x + b_z),  n = U_n x + b_n,  h = (1 - z) h_prev + z n

    LRP: z and 1 - z are gates, n and h_prev are signals: the gate chooses between new and old content, which it does
    not change. Contextual decomposition splits gates and signals.

    U_z, U_n: (H, D) input weights.
    b_z, b_n: (H,) biases.
    h0: (H,) state before the first step, 0 by default.
    """

    @staticmethod
    def step(s: Any, x: Any, h: Any) -> Any:
        """The formula above."""
        z, n = s.gates("zn", x)
        z = s.sigmoid(z)
        return s.sum(s.product(s.complement(z), h), s.product(z, n))
