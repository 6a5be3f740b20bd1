"""The Dense layer: y = F(V x + d), at every step or once per sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.checks import float_array, one_of
from lrpnumpy.layers.base import Keep, Layer, Ran, Size, optional, takes
from lrpnumpy.packed import Packed
from lrpnumpy.rules.propagation import Entry, Propagation, back_through_sum
from lrpnumpy.rules.sums import Matrix


@dataclass(frozen=True, eq=False, repr=False)
class Dense(Layer):
    """activation(V x + d), with `V` (out, in) and `d` (out,) or None for no bias.

    `activation` is a name: "linear", "tanh", "relu", "sigmoid" or another one of `lrpnumpy/activations.py`.

    LRP: one sum per output. Contextual decomposition:
    L_a = 1/2 [F(a+b) - F(b) + F(z) - F(z-a)] with a = V beta and b = V delta + d.
    """

    V: np.ndarray
    d: np.ndarray | None = None
    activation: str = "linear"

    by_step: ClassVar[bool] = True

    def __post_init__(self) -> None:
        V = float_array(self.V, "Dense: V", (None, None))
        self._set(V=V, d=optional(self.d, "Dense: d", V.shape[:1], V.dtype))
        one_of(self.activation, "Dense: activation", tuple(ACTIVATIONS))

    @property
    def inputs(self) -> int:
        """Length of an input vector."""
        return self.V.shape[1]

    @property
    def outputs(self) -> int:
        """Length of an output vector."""
        return self.V.shape[0]

    def sizes(self, x: Size) -> Size:
        """(in) to (out)."""
        takes(x, self.inputs, "V")
        return x._replace(width=self.outputs)

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, np.ndarray]:
        """The outputs; the trace is z."""
        x = xs[0]
        y = z = x.rows.dot(self.V.T) + self.d  # for few rows faster than @
        if self.activation != "linear":
            y = ACTIVATIONS[self.activation].F(z)
        return Packed(y, x.batch), z

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """R_i = x_i sum_j v_ji s_j."""
        z, x, batch = ran.trace, ran.inputs[0].rows, ran.inputs[0].batch
        if self.activation != "linear" and not how.times_input:  # LRP propagates R unchanged
            R = R * how.slope(self.activation, *ran.both(lambda one: (one.trace, one.outputs[0].rows)))
        return back_through_sum(how, R, Packed(z, batch), [Matrix(x, self.V)], entry, self.d)

    def with_affine_before(self, s: np.ndarray, t: np.ndarray) -> Dense:
        """V (s x + t) + d."""
        return replace(self, V=self.V * s, d=self.d + self.V @ t)

    def with_affine_after(self, s: np.ndarray, t: np.ndarray) -> Dense | None:
        """s (V x + d) + t, where no activation is in between."""
        if self.activation != "linear":
            return None
        return replace(self, V=self.V * s[:, None], d=self.d * s + t)
