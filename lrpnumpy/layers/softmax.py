"""The Softmax layer inside a network: weights that add up to 1, over the features of a row or over the steps.

The softmax at the end of a network is not a layer: scores never include it, see `Model.output`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lrpnumpy.checks import LrpError, one_of
from lrpnumpy.layers.base import Keep, Layer, Ran, Size
from lrpnumpy.packed import Batch, Packed, Split
from lrpnumpy.rules.propagation import Entry, Propagation


@dataclass(frozen=True, eq=False, repr=False)
class Softmax(Layer):
    """exp(x_i) / sum_k exp(x_k), over the features of each row, or with `axis="steps"` over the steps of each feature.

    LRP passes R on unchanged, as through every activation.
    """

    axis: Literal["features", "steps"] = "features"

    def __post_init__(self) -> None:
        one_of(self.axis, "Softmax: axis", ("features", "steps"))

    @property
    def by_step(self) -> bool:  # type: ignore[override]
        """Where it is over the features."""
        return self.axis == "features"

    def sizes(self, x: Size) -> Size:
        """The size of the input."""
        if self.axis == "steps" and not x.steps:
            raise LrpError(f"axis must be 'features' for one vector of the {x.source}, got 'steps'.")
        return x

    def _over(self, reduce: np.ufunc, rows: np.ndarray, batch: Batch) -> np.ndarray:
        """Rows reduced over the axis, and repeated."""
        if self.axis == "features":
            return reduce.reduce(rows, axis=1, keepdims=True)
        return reduce.reduceat(batch.unpack(rows), batch.starts)[batch.owner]

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, None]:
        """(R, M) to (R, M)."""
        x, batch = xs[0].rows, xs[0].batch
        over = np.exp(x - self._over(np.maximum, x, batch))
        return Packed(over / self._over(np.add, over, batch), batch), None

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """R unchanged, or through the softmax."""
        if how.holds_weights:
            return [R]
        z, y, *reference = ran.both(lambda one: (one.inputs[0].rows, one.outputs[0].rows))
        batch = ran.inputs[0].batch
        return [how.softmax(R, z, y, lambda terms: self._over(np.add, terms, batch), *reference)]

    def part_after(self, ran: Ran, parts: Sequence[Split], beta: Packed, delta: np.ndarray) -> Split:
        """Over T steps biases alone give 1/T: no constant, so it counts as relevant inside the phrase."""
        part = super().part_after(ran, parts, beta, delta)
        if self.axis == "features":
            return part
        batch = beta.batch
        inside = (part.start[batch.owner] <= batch.step) & (batch.step < part.stop[batch.owner])
        share = (inside / batch.lengths[batch.owner]).astype(beta.rows.dtype)
        return part._replace(beta=Packed(beta.rows + share[:, None], batch), delta=np.zeros_like(delta))
