"""Square and SumAll: how a difference becomes one number, the error of a reconstruction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lrpnumpy.layers.base import Keep, Layer, Ran, Size
from lrpnumpy.layers.readout import Readout
from lrpnumpy.packed import Packed, Split
from lrpnumpy.rules.propagation import Entry, Propagation, back_through_sum
from lrpnumpy.rules.sums import Gathered


@dataclass(frozen=True, eq=False, repr=False)
class Square(Layer):
    """x x, number by number. LRP: a product whose sides share evenly, so R passes on."""

    by_step: ClassVar[bool] = True

    def sizes(self, x: Size) -> Size:
        """The size of the input."""
        return x

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, None]:
        """The squares."""
        return Packed(xs[0].rows * xs[0].rows, xs[0].batch), None

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """Both sides of the product are x."""
        to_one, to_other = how.even_product(*ran.both(lambda one: (one.inputs[0].rows,) * 2))
        return [R * (to_one + to_other)]


@dataclass(frozen=True, eq=False, repr=False)
class SumAll(Readout):
    """The sum over all steps and features of a sequence, one number. With `mean` their mean.

    LRP: one sum. Contextual decomposition: what biases give to a step is relevant where the step is in the phrase.
    """

    mean: bool = False

    def __post_init__(self) -> None:
        self._set(mean=bool(self.mean))

    def sizes(self, x: Size) -> Size:
        """(M) to (1)."""
        return super().sizes(x)._replace(width=1)

    def _count(self, x: Packed) -> np.ndarray:
        """(n, 1) numbers of each sequence."""
        return (x.batch.lengths[:, None] * x.rows.shape[1]).astype(x.rows.dtype)

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, None]:
        """(R, M) to (n, 1)."""
        x = xs[0]
        total = x.batch.sums(x.rows.sum(axis=1, keepdims=True))
        return Packed(total / self._count(x) if self.mean else total, x.batch.ends), None

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """Every value receives its share of the sum."""
        x = ran.inputs[0]

        def gather(a: np.ndarray) -> np.ndarray:
            return self.forward([x._replace(rows=a)], None)[0].rows

        def spread(s: np.ndarray) -> np.ndarray:
            each = s / self._count(x) if self.mean else s
            return each[x.batch.owner] * np.ones_like(x.rows)

        return back_through_sum(how, R, ran.outputs[0], [Gathered(x.rows, gather, spread)], entry)

    def split(self, ran: Ran, parts: Sequence[Split], wanted: tuple[str, ...]) -> tuple[Split, ...]:
        """The sum of beta, and of delta inside the phrase: how much biases add up to depends on the number of steps."""
        part = parts[0]
        beta = part.written(ran.inputs[0])
        step, owner = beta.batch.step, beta.batch.owner
        inside = (part.start[owner] <= step) & (step < part.stop[owner])
        y, _ = self.forward([beta._replace(rows=beta.rows + part.delta * inside[:, None])], None)
        return (self.part_after(ran, parts, y, np.zeros(1, y.rows.dtype)),)
