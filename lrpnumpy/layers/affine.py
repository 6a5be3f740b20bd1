"""The Affine layer: s x + t for each feature. What BatchNorm is once a network is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lrpnumpy.checks import LrpError, float_array, non_negative
from lrpnumpy.layers.base import ABSENT, Keep, Layer, Ran, Size, takes
from lrpnumpy.packed import Packed
from lrpnumpy.rules.propagation import Entry, Propagation, back_through_sum
from lrpnumpy.rules.sums import Term


@dataclass(frozen=True, eq=False, repr=False)
class Affine(Layer):
    """s x + t, with `s` and `t` (M,), one number for each feature; t is None for 0.

    `scaler` marks the scaling of the inputs before training. Such a layer stays where it
    is; any other may become part of its neighbor, see `lrpnumpy.folding`.

    LRP: one sum of one term and a bias.
    """

    s: np.ndarray
    t: np.ndarray = ABSENT
    scaler: bool = False

    by_step: ClassVar[bool] = True

    def __post_init__(self) -> None:
        s = float_array(self.s, "Affine: s", (None,))
        t = np.zeros(len(s), s.dtype) if self.t is None else self.t
        self._set(s=s, t=float_array(t, "Affine: t", (len(s),)), scaler=bool(self.scaler))

    @classmethod
    def batch_norm(cls, gamma: Any, beta: Any, mean: Any, var: Any, eps: float = 0.001) -> Affine:
        """gamma (x - mean) / sqrt(var + eps) + beta, the BatchNorm of a trained network.

        `mean` and `var` (M,) are the moving averages. `gamma` and `beta` (M,) are None where the layer has none. `eps`
        is 0.001 in Keras, 0.00001 in PyTorch.
        """
        mean = float_array(mean, "Affine.batch_norm: mean", (None,))
        shape = mean.shape
        var = float_array(var, "Affine.batch_norm: var", shape)
        gamma = np.ones_like(mean) if gamma is None else float_array(gamma, "Affine.batch_norm: gamma", shape)
        beta = np.zeros_like(mean) if beta is None else float_array(beta, "Affine.batch_norm: beta", shape)
        inside = var + var.dtype.type(non_negative(eps, "Affine.batch_norm: eps"))
        if not (inside > 0).all():
            k = int(np.argmin(inside))
            raise LrpError(f"Affine.batch_norm: var + eps must be above 0, got {inside[k]} at index {k}.")
        s = gamma / np.sqrt(inside)
        return cls(s, beta - s * mean)

    @property
    def inputs(self) -> int:
        """Length M of a vector."""
        return len(self.s)

    outputs = inputs

    def sizes(self, x: Size) -> Size:
        """(M) to (M)."""
        takes(x, self.inputs, "s")
        return x

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, None]:
        """s x + t."""
        return Packed(xs[0].rows * self.s + self.t, xs[0].batch), None

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """The only term receives what the bias and the stabilizer leave."""
        return back_through_sum(how, R, ran.outputs[0], [Term(ran.inputs[0].rows, self.s)], entry, self.t)

    def with_affine_before(self, s: np.ndarray, t: np.ndarray) -> Affine | None:
        """Two Affine layers in a row as one."""
        return None if self.scaler else Affine(self.s * s, self.s * t + self.t)

    def with_affine_after(self, s: np.ndarray, t: np.ndarray) -> Affine | None:
        """Two Affine layers in a row as one."""
        return None if self.scaler else Affine(s * self.s, s * self.t + t)

    def described(self) -> str:
        """One line for `inspect`."""
        return f"Affine, {self.inputs} features" + (", how the inputs are scaled" if self.scaler else "")


@dataclass(frozen=True, eq=False, repr=False)
class Units(Affine):
    """s x + t as the last step of a network: its scores in the units of the user, with the target's scale and mean.

    LRP has no stabilizer here: of the score s x + t exactly s x goes on, and the bias keeps t.
    """

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """R is a multiple of the score: what is s x of it goes on."""
        if not how.times_input:
            return super().backward(ran, R, how, entry)
        x, y = ran.inputs[0].rows, ran.outputs[0]
        part = np.divide(R, y.rows, out=np.zeros_like(R), where=y.rows != 0)  # 1; -1 for the class held against it
        entry.bias(part * self.t, y.batch)
        entry.see(R, y.batch)
        return [part * self.s * x]
