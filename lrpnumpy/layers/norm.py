"""LayerNorm: every row is brought to mean 0 and variance 1, then scaled and shifted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from lrpnumpy.activations import INVERSE_ROOT
from lrpnumpy.checks import LrpError, float_array, non_negative
from lrpnumpy.layers.base import ABSENT, Keep, Layer, Ran, Size, takes
from lrpnumpy.packed import Packed
from lrpnumpy.rules.propagation import Entry, Propagation, back_through_sum, message
from lrpnumpy.rules.sums import Matrix
from lrpnumpy.statement.interpret import Normed, normed


@dataclass(frozen=True, eq=False, repr=False)
class LayerNorm(Layer):
    """gamma (x - mean(x)) / sqrt(var(x) + eps) + beta, with mean and variance over the M features of each row.

    `gamma` and `beta` are (M,); beta is None for 0. `eps` is 0.001 in Keras, 0.00001 in PyTorch. With `center` False
    the mean is taken as 0: RMSNorm, gamma x / sqrt(mean(x x) + eps) + beta.

    LRP holds the standard deviation fixed: y_j = sum_i gamma_j (1[i = j] - 1/M) r x_i + beta_j is one sum per
    output. The gradient goes through all of it.
    """

    gamma: np.ndarray
    beta: np.ndarray = ABSENT
    eps: float = 0.001
    center: bool = True

    by_step: ClassVar[bool] = True

    def __post_init__(self) -> None:
        gamma = float_array(self.gamma, "LayerNorm: gamma", (None,))
        beta = np.zeros_like(gamma) if self.beta is None else float_array(self.beta, "LayerNorm: beta", gamma.shape)
        eps = non_negative(self.eps, "LayerNorm: eps")
        if eps == 0:
            raise LrpError("LayerNorm: eps must be above 0, got 0: a row of equal numbers would be divided by 0.")
        self._set(gamma=gamma, beta=beta, eps=eps)

    @property
    def inputs(self) -> int:
        """Length M of a vector."""
        return len(self.gamma)

    outputs = inputs

    def sizes(self, x: Size) -> Size:
        """(M) to (M)."""
        takes(x, self.inputs, "gamma")
        return x

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, Normed]:
        """The normed rows; the trace is what they are made of."""
        x = xs[0]
        kept = normed(x.rows, self.eps, self.center)
        return Packed(kept.u * kept.r * self.gamma + self.beta, x.batch), kept

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """Back through scale, product and mean, and where r is not held fixed, through the variance."""
        x, y, r = ran.inputs[0].rows, ran.outputs[0], ran.trace.r
        if how.rule is not None:
            mean = R.dtype.type(1 / self.inputs if self.center else 0)
            each = self.gamma[:, None] * (np.eye(self.inputs, dtype=R.dtype) - mean)
            return back_through_sum(how, R, y, [Matrix(x * r, each)], entry, self.beta)
        s = message(how, R, y, self.beta, entry) * self.gamma
        if how.holds_weights:
            R_u = s * r
        else:
            to_u, to_r, _ = how.product(*ran.both(lambda one: (one.trace.u, one.trace.r)))  # u r
            R_r = (s * to_r).sum(axis=1, keepdims=True)
            R_q = R_r * how.slope(INVERSE_ROOT, *ran.both(lambda one: (one.trace.q, one.trace.r)))
            to_one, to_other = how.even_product(*ran.both(lambda one: (one.trace.u,) * 2))  # q is the mean of u u
            R_u = s * to_u + R_q / R.dtype.type(self.inputs) * (to_one + to_other)
        R_x = R_u - R_u.mean(axis=1, keepdims=True) if self.center else R_u
        if how.times_input:
            R_x *= x
        return [R_x]

    def with_affine_after(self, s: np.ndarray, t: np.ndarray) -> LayerNorm:
        """Another scale and shift."""
        return replace(self, gamma=self.gamma * s, beta=self.beta * s + t)

    def described(self) -> str:
        """One line for `inspect`."""
        return f"LayerNorm, {self.inputs} features" + ("" if self.center else ", not centered (RMSNorm)")
