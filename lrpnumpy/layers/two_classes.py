"""TwoClasses: the score of one sigmoid as the scores of two classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lrpnumpy.checks import LrpError
from lrpnumpy.layers.base import Keep, Layer, Ran, Size
from lrpnumpy.packed import Packed
from lrpnumpy.rules.propagation import Entry, Propagation


@dataclass(frozen=True, eq=False, repr=False)
class TwoClasses(Layer):
    """f to (-f, f): what supports one class contradicts the other, and sigmoid(-f) = 1 - sigmoid(f).

    A model with one score, output="sigmoid" and two names of classes, the negative first, ends with this layer.
    LRP passes R on unchanged: no stabilizer keeps anything.
    """

    by_step: ClassVar[bool] = True

    def sizes(self, x: Size) -> Size:
        """(1) to (2)."""
        if x.width != 1:
            raise LrpError(f"input must be one number, the {x.source} gives {x.width}.")
        return x._replace(width=2)

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, None]:
        """-f and f."""
        f = xs[0].rows
        return Packed(np.concatenate([-f, f], axis=1), xs[0].batch), None

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """A propagation of relevance, which is multiplied by values on its way, has taken the sign with the score."""
        negative, positive = R[:, :1], R[:, 1:]
        return [positive + (negative if how.times_input else -negative)]
