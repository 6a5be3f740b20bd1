"""The Activation layer: y = F(x), each number by itself, anywhere in a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from lrpnumpy import activations
from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.checks import LrpError, finite, float_array, one_of, shown
from lrpnumpy.layers.base import Keep, Layer, Outputs, Ran, Size, takes
from lrpnumpy.lazy import cached_property
from lrpnumpy.packed import Packed
from lrpnumpy.rules.propagation import Entry, Propagation

NAMES = (*ACTIVATIONS, "prelu", "sqrt")
ALPHA = {"leaky_relu": 0.01, "elu": 1.0}  # used where nothing else is said


@dataclass(frozen=True, eq=False, repr=False)
class Activation(Layer):
    """F(x), number by number; `activation` is a name that `Dense` takes, too, "prelu", or "sqrt", which is
    0 below 0.

    `alpha` is the slope of "leaky_relu" below 0 (0.01 unless said), or the alpha of "elu" (1 unless said). `slopes` are
    those of "prelu" below 0: (M,), one for each feature, or (1,), one for all.

    LRP passes R on unchanged.
    """

    activation: str
    alpha: float | None = None
    slopes: np.ndarray | None = None

    by_step: ClassVar[bool] = True

    def __post_init__(self) -> None:
        name = one_of(self.activation, "Activation: activation", NAMES)
        alpha = self.alpha
        if alpha is not None:
            if name not in ALPHA:
                raise LrpError(
                    f"Activation: alpha must be None with {name!r}, got {shown(alpha)}; {list(ALPHA)} have one."
                )
            alpha = finite(alpha, "Activation: alpha")
        if (self.slopes is not None) != (name == "prelu"):
            got = "none" if self.slopes is None else f"slopes with {name!r}"
            raise LrpError(f"Activation: slopes must be given with 'prelu' and with nothing else, got {got}.")
        self._set(alpha=ALPHA.get(name) if alpha is None else alpha)
        if self.slopes is not None:
            self._set(slopes=float_array(self.slopes, "Activation: slopes", (None,)))

    @cached_property
    def function(self) -> activations.Elementwise:
        """F and its slope."""
        if self.slopes is not None:
            return activations.leaky_relu(self.slopes)
        if self.alpha is None:
            return activations.ROOT if self.activation == "sqrt" else ACTIVATIONS[self.activation]
        return activations.elu(self.alpha) if self.activation == "elu" else activations.leaky_relu(self.alpha)

    def sizes(self, x: Size) -> Size:
        """The size of the input."""
        if self.slopes is not None and len(self.slopes) > 1:
            takes(x, len(self.slopes), "slopes")
        return x

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, None]:
        """F of every number."""
        return Packed(self.function.F(xs[0].rows), xs[0].batch), None

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """R times the slope."""
        return [R * how.slope(self.function, *ran.both(lambda one: (one.inputs[0].rows, one.outputs[0].rows)))]

    def activations(self, number: int, ran: Ran) -> tuple[NamedTuple, ...]:
        """z and y."""
        return (Outputs(number, ran.inputs[0].rows, ran.outputs[0].rows),)

    def described(self) -> str:
        """One line for `inspect`."""
        return f"Activation, {self.activation}" + (f" with alpha {self.alpha:g}" if self.alpha is not None else "")
