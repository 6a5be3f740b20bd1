"""LSTMs with other gates, inputs, outputs or norms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from lrpnumpy.layers.recurrent import Cell


class CoupledLSTM(Cell):
    """The LSTM whose input gate is 1 - f (CIFG; Greff et al. 2017).

        f, o = sigmoid(U x + W h_prev + b),  g = tanh(U_g x + W_g h_prev + b_g)
        c = f c_prev + (1 - f) g,  h = o tanh(c)

    LRP: f, 1 - f and o are gates, c_prev, g and tanh(c) are signals, as in an LSTM; what the gate 1 - f receives goes
    to f's sum. Contextual decomposition does not split o, as for the LSTM (Murdoch et al. 2018).

    U_f, U_g, U_o: (H, D) input weights.
    W_f, W_g, W_o: (H, H) recurrent weights.
    b_f, b_g, b_o: (H,) biases.
    h0, c0: (H,) states before the first step, 0 by default.
    """

    states: ClassVar[tuple[str, ...]] = ("h", "c")

    @staticmethod
    def step(s: Any, x: Any, h: Any, c: Any) -> Any:
        """The formulas above."""
        f, g, o = s.gates("fgo", x, h)
        f = s.sigmoid(f)
        c = s.sum(s.product(f, c), s.product(s.complement(f), s.tanh(g)))
        return s.product(s.whole(s.sigmoid(o)), s.tanh(c)), c


class PeepholeLSTM(Cell):
    """The LSTM of Gers & Schmidhuber 2000, whose gates also read the memory c, each unit its own.

        i, f = sigmoid(U x + W h_prev + p c_prev + b),  g = tanh(U_g x + W_g h_prev + b_g),  c = f c_prev + i g
        o = sigmoid(U_o x + W_o h_prev + p_o c + b_o),  h = o tanh(c)

    LRP: gates and signals are those of an LSTM; p c is one more term of a gate's sum. Contextual decomposition does
    not split o, as for the LSTM (Murdoch et al. 2018).

    U_i, U_f, U_g, U_o: (H, D) input weights.
    W_i, W_f, W_g, W_o: (H, H) recurrent weights.
    p_i, p_f, p_o: (H,) peephole weights.
    b_i, b_f, b_g, b_o: (H,) biases.
    h0, c0: (H,) states before the first step, 0 by default.
    """

    states: ClassVar[tuple[str, ...]] = ("h", "c")

    @staticmethod
    def step(s: Any, x: Any, h: Any, c: Any) -> Any:
        """The formulas above."""

        def gate(k: str, c: Any) -> Any:
            terms = s.matrix(f"U_{k}", x), s.matrix(f"W_{k}", h), s.diagonal(f"p_{k}", c), s.bias(f"b_{k}")
            return s.sigmoid(s.sum(*terms))

        (g,) = s.gates("g", x, h)
        c_new = s.sum(s.product(gate("f", c), c), s.product(gate("i", c), s.tanh(g)))
        return s.product(s.whole(gate("o", c_new)), s.tanh(c_new)), c_new


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


class MultiplicativeLSTM(Cell):
    """The multiplicative LSTM of Krause et al. 2016, as the sentiment network of Radford et al. 2017 has it.

        m = (U_m x) (W_m h_prev),  i, f, o = sigmoid(U x + W m + b),  g = tanh(U_g x + W_g m + b_g)
        c = f c_prev + i g,  h = o tanh(c)

    LRP: in m the input is the gate and the state is the signal: U_m x chooses the transition by which W_m h_prev goes
    on. The other gates and signals are those of an LSTM. Contextual decomposition does not split o, as for the LSTM
    (Murdoch et al. 2018).

    U_m, U_i, U_f, U_g, U_o: (H, D) input weights.
    W_m, W_i, W_f, W_g, W_o: (H, H) recurrent weights.
    b_i, b_f, b_g, b_o: (H,) biases.
    h0, c0: (H,) states before the first step, 0 by default.
    """

    states: ClassVar[tuple[str, ...]] = ("h", "c")

    @staticmethod
    def step(s: Any, x: Any, h: Any, c: Any) -> Any:
        """The formulas above."""
        m = s.product(s.sum(s.matrix("U_m", x)), s.sum(s.matrix("W_m", h)))
        i, f, g, o = s.gates("ifgo", x, m)
        c = s.sum(s.product(s.sigmoid(f), c), s.product(s.sigmoid(i), s.tanh(g)))
        return s.product(s.whole(s.sigmoid(o)), s.tanh(c)), c


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
