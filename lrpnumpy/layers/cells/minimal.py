"""Minimal cells, whose gates do not read the state."""

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


class MinLSTM(Cell):
    """The minimal LSTM of Feng et al. 2024 ("Were RNNs All We Needed?"), whose gates do not read the state.

        f, i = sigmoid(U x + b),  n = U_n x + b_n,  h = f / (f + i) h_prev + i / (f + i) n

    LRP: f / (f + i) and i / (f + i) are gates, h_prev and n are signals. 1 / (f + i) is fixed, as the standard
    deviation of a LayerNorm is: a normalizer scales all content and selects none. The gradient and DeepLIFT go
    through it.

    U_f, U_i, U_n: (H, D) input weights.
    b_f, b_i, b_n: (H,) biases.
    h0: (H,) state before the first step, 0 by default.
    """

    @staticmethod
    def step(s: Any, x: Any, h: Any) -> Any:
        """The formula above."""
        f, i, n = s.gates("fin", x)
        f, i = s.sigmoid(f), s.sigmoid(i)
        over = s.fixed(s.reciprocal(s.sum(f, i)))
        return s.sum(s.product(s.product(over, f), h), s.product(s.product(over, i), n))
