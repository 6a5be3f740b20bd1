"""The GRU: its arrays, its kernels, the coefficients of rules that the kernels do not have, and its decomposition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.checks import LrpError
from lrpnumpy.kernels import gru as kernels
from lrpnumpy.kernels import gru_deeplift
from lrpnumpy.kernels.steps import NONE
from lrpnumpy.layers.recurrent import Cell, Read, Sent, relevant
from lrpnumpy.lazy import cached_property
from lrpnumpy.rules.propagation import Propagation


@dataclass(frozen=True, eq=False, repr=False)
class GRU(Cell):
    """One direction of a GRU: `U` (3,H,D), `W` (3,H,H), `b` (3,H) or None for no bias; gates z, r, n.

    z, r = recurrent_activation(W h_prev + U x + b), h = (1 - z) n + z h_prev, and with `reset_after` (PyTorch, Keras'
    default) n = activation(U_n x + b_n + r (W_n h_prev + bn)), else n = activation(U_n x + b_n + W_n (r h_prev)).
    `bn` (H,) is the bias inside the reset product, `h0` (H,) the state before the first step; both zero by default.
    `activation` and `recurrent_activation` are names that `Dense` takes.

    LRP: h is a sum of the products (1 - z, n) and (z, h_prev); what goes to the gate 1 - z goes to z's pre-activation.
    With `reset_after` n's pre-activation is one sum of U_n x, b_n and the product of the gate r and the signal
    W_n h_prev + bn, which is a sum of its own; else it is one sum over x and r h_prev, each a product of gate r and
    signal h_prev. Contextual decomposition is ours, by analogy with the LSTM's: gates and n are split as an LSTM's
    gates are; 1 - z splits as (-z_a, -z_r, 1 - z_b); a product gives the phrase gate_a (signal_a + signal_b) + gate_b
    signal_a, and inside the phrase gate_b signal_b too.
    """

    U: np.ndarray
    W: np.ndarray
    b: np.ndarray | None = None  # type: ignore[assignment]
    bn: np.ndarray | None = None
    h0: np.ndarray | None = None
    activation: str = "tanh"
    recurrent_activation: str = "sigmoid"
    reset_after: bool = True

    KERNELS: ClassVar[Any] = kernels
    DEEPLIFT: ClassVar[Any] = gru_deeplift
    GATES: ClassVar[str] = "zrn"
    TRACED: ClassVar[int] = 7
    ONE_BLOCK: ClassVar[slice] = slice(2, 3)

    def __post_init__(self) -> None:
        self._check({"b": (3, -1), "bn": (-1,), "h0": (-1,)}, ("activation", "recurrent_activation"))
        self._set(reset_after=bool(self.reset_after))
        count = np.count_nonzero(self.bn)  # type: ignore[arg-type]
        if count and not self.reset_after:
            raise LrpError(
                "GRU: bn must be left out with reset_after=False, where it would be no other bias than b[2], "
                f"got {count} numbers that are not 0; add it to b[2]."
            )

    @cached_property
    def codes(self) -> dict[int, np.ndarray]:
        """Activation of n, of the gates, the rule, and whether the reset gate acts after the product."""
        cell, gates = ACTIVATIONS[self.activation].code, ACTIVATIONS[self.recurrent_activation].code
        return {rule: np.array([cell, gates, rule, int(self.reset_after)]) for rule in (NONE, *kernels.KINDS)}

    def run_forward(self, read: Read, codes: np.ndarray, eps: Any, start: np.ndarray) -> None:
        """Call the forward kernel."""
        U, W = self.ahead
        kernels.forward(
            read.x.rows, read.x.batch.first, read.order, read.ids, read.table, U, W, self.bn, start, codes, eps,
            read.K, read.Hs, read.kept,
        )  # fmt: skip

    def run_backward(self, read: Read, K: np.ndarray, how: Propagation, sent: Sent) -> None:
        """Call the backward kernel."""
        W, U = self.packed_back(how)
        kernels.backward(
            K, read.x.batch.first, read.order, read.ids, read.x.rows, read.table, self.b, self.bn, read.Hs, W, U,
            int(self.reset_after), int(how.times_input), *sent,
        )  # fmt: skip

    def fill_coefficients(self, read: Read, t: int, kept: np.ndarray, how: Propagation, k: np.ndarray) -> None:
        """In the layout of kernels.gru."""
        m = k.shape[1]
        Z, R, N, z, r, n, u = kept
        h_prev, h = (read.Hs[row : row + m] for row in read.x.batch.states_before[t : t + 2])
        over, lost = how.gain(h)
        to_old, to_new = z * h_prev * over, (1 - z) * n * over
        gate_new, signal_new, lost_new = how.product(1 - z, n)
        gate_old, signal_old, lost_old = how.product(z, h_prev)
        to_Z, to_N = to_new * gate_new + to_old * gate_old, to_new * signal_new
        (gain_Z, lost_Z), (gain_R, lost_R), (gain_N, lost_N) = how.gain(Z), how.gain(R), how.gain(N)
        k[0], k[2], k[4] = to_Z * gain_Z, to_N * gain_N, to_old * signal_old
        k[5] = lost + to_old * lost_old + to_new * lost_new + to_Z * lost_Z + to_N * lost_N
        if self.reset_after:
            gate, signal, lost_p = how.product(r, u)
            gain_u, lost_u = how.gain(u)
            to_p = r * u * k[2]
            k[1], k[3] = gate * to_p * gain_R, signal * to_p * gain_u
            k[5] += to_p * (lost_p + gate * lost_R + signal * lost_u)
            return
        gate, signal, lost_p = how.product(r, h_prev)
        k[1], k[3], k[6] = u * gate * gain_R, u * signal, u * (lost_p + gate * lost_R)

    def split_step(
        self, kept: np.ndarray, a_x: np.ndarray, beta: np.ndarray, inside: np.ndarray, b: np.ndarray
    ) -> np.ndarray:
        """beta of h from that of h_prev; kept (7, V, H), a_x = U beta_x (3, V, H), inside (V, 1)."""
        F, gate = ACTIVATIONS[self.activation].F, ACTIVATIONS[self.recurrent_activation].F
        Z, R, N = kept[:3]
        z_a, z_b = relevant(gate, a_x[0] + beta @ self.W[0].T, Z, b[0])
        r_a, r_b = relevant(gate, a_x[1] + beta @ self.W[1].T, R, b[1])
        if self.reset_after:
            u_a, u_b = beta @ self.W[2].T, self.bn
            product = r_a * (u_a + u_b) + r_b * u_a + inside * (r_b * u_b)
            a_n = a_x[2] + product
        else:
            a_n = a_x[2] + ((r_a + r_b) * beta) @ self.W[2].T
        n_a, n_b = relevant(F, a_n, N, b[2])
        new = -z_a * (n_a + n_b) + (1 - z_b) * n_a + inside * ((1 - z_b) * n_b)
        return new + (z_a + z_b) * beta

    def described(self) -> str:
        """One line for `inspect`."""
        reset = "after" if self.reset_after else "before"
        start = ", with a start state" if self.h0.any() else ""  # type: ignore[union-attr]
        gates = f"gates z r n with {self.recurrent_activation}, {self.activation}, reset {reset} the product"
        return f"GRU, {self.inputs} to {self.units}, {gates}{start}"
