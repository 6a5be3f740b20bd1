"""LayerNorm: every row is normalized to mean 0 and variance 1, then scaled and shifted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from lrpnumpy.checks import LrpError, float_array, non_negative
from lrpnumpy.layers.base import ABSENT, Keep, Layer, Ran, Size, optional, takes
from lrpnumpy.packed import Packed
from lrpnumpy.rules.propagation import Entry, Propagation, back_through_sum, message
from lrpnumpy.rules.sums import Matrix
from lrpnumpy.statement.backward import back_through_norm
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
        beta = optional(self.beta, "LayerNorm: beta", gamma.shape, gamma.dtype)
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
        """The normalized rows; the trace is their parts."""
        x = xs[0]
        kept = normed(x.rows, self.eps, self.center)
        return Packed(kept.u * kept.r * self.gamma + self.beta, x.batch), kept

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """Back through scale, product and mean, and if r is not held fixed, through the variance."""
        x, y, r = ran.inputs[0].rows, ran.outputs[0], ran.trace.r
        if how.rule is not None:
            mean = R.dtype.type(1 / self.inputs if self.center else 0)
            each = self.gamma[:, None] * (np.eye(self.inputs, dtype=R.dtype) - mean)
            return back_through_sum(how, R, y, [Matrix(x * r, each)], entry, self.beta)
        s = message(how, R, y, self.beta, entry) * self.gamma
        R_x = back_through_norm(how, s, ran.both(lambda one: (one.trace,)), self.center)
        if how.times_input:
            R_x *= x
        return [R_x]

    def with_affine_after(self, s: np.ndarray, t: np.ndarray) -> LayerNorm:
        """Another scale and shift."""
        return replace(self, gamma=self.gamma * s, beta=self.beta * s + t)
