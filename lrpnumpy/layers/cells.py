"""Recurrent cells besides LSTM, GRU and RNN, each its equations."""

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
