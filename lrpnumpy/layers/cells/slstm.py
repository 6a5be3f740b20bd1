"""The sLSTM of xLSTM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from lrpnumpy.layers.recurrent import Cell


class SLSTM(Cell):
    """The sLSTM of Beck et al. 2024 (xLSTM), with a sigmoid forget gate and an exponential input gate.

    With i, f, z, o for U x + W h_prev + b, the paper has c = sigmoid(f) c_prev + exp(i) tanh(z),
    n = sigmoid(f) n_prev + exp(i), h = sigmoid(o) c / n. The states here are h, c / n and log n: nothing overflows, and
    explanations do not depend on the paper's stabilizer m.

        old = log sigmoid(f) + log n_prev,  keep = sigmoid(old - i),  log n = i + softplus(old - i)
        c / n = keep c_prev / n_prev + (1 - keep) tanh(z),  h = sigmoid(o) c / n

    log n starts at -80, where the paper's n starts at 0.

    LRP: keep, 1 - keep and sigmoid(o) are gates, c / n and tanh(z) are signals: keep weighs old against new content.
    Contextual decomposition does not split o, as for the LSTM (Murdoch et al. 2018).

    U_i, U_f, U_z, U_o: (H, D) input weights.
    W_i, W_f, W_z, W_o: (H, H) recurrent weights; zero outside of the blocks of the heads.
    b_i, b_f, b_z, b_o: (H,) biases.
    h0, c0, log_n0: (H,) h, c / n and log n before the first step; 0, 0 and -80 by default.
    """

    states: ClassVar[tuple[str, ...]] = ("h", "c", "log_n")
    start: ClassVar[Mapping[str, float]] = {"log_n": -80.0}

    @staticmethod
    def step(s: Any, x: Any, h: Any, c: Any, log_n: Any) -> Any:
        """The formulas above."""
        i, f, z, o = s.gates("ifzo", x, h)
        more = s.sum(s.log_sigmoid(f), log_n, s.negative(i))
        keep = s.sigmoid(more)
        c = s.sum(s.product(keep, c), s.product(s.complement(keep), s.tanh(z)))
        return s.product(s.whole(s.sigmoid(o)), c), c, s.sum(i, s.softplus(more))
