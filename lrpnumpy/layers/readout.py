"""Readouts: from one row per step to one vector per sequence.

The last state of a recurrent layer is an output of that layer (`:last`) and needs no separate layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrpnumpy.layers.base import Keep, Layer, Ran, Size
from lrpnumpy.packed import Packed, Split
from lrpnumpy.rules.propagation import Entry, Propagation, back_through_sum
from lrpnumpy.rules.sums import Gathered


class Readout(Layer):
    """What the readouts share."""

    def sizes(self, x: Size) -> Size:
        """The same width, once per sequence."""
        return x._replace(steps=False)

    def part_after(self, ran: Ran, parts: Sequence[Split], beta: Packed, delta: np.ndarray) -> Split:
        """Contextual decomposition: the vector counts as the middle one of its steps."""
        T = ran.inputs[0].batch.lengths[parts[0].owner]
        return parts[0].of_vector((T - 1) // 2, beta, delta)


@dataclass(frozen=True, eq=False, repr=False)
class Sum(Readout):
    """The sum over the steps. LRP: a sum of terms."""

    def _total(self, rows: np.ndarray, x: Packed) -> np.ndarray:
        """(n, M) the sums of rows with the steps of x."""
        return x.batch.sums(rows) / self._divisor(x)

    def _divisor(self, x: Packed) -> Any:
        """What the sums are divided by: a number, or (n, 1)."""
        return x.rows.dtype.type(1)

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, None]:
        """(R, M) to (n, M)."""
        return Packed(self._total(xs[0].rows, xs[0]), xs[0].batch.ends), None

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """Each value receives its share of the sum."""
        x = ran.inputs[0]
        each = np.ones_like(x.rows)
        term = Gathered(x.rows, lambda a: self._total(a, x), lambda s: (s / self._divisor(x))[x.batch.owner], each)
        return back_through_sum(how, R, ran.outputs[0], [term], entry)

    def split(self, ran: Ran, parts: Sequence[Split], wanted: tuple[str, ...]) -> tuple[Split, ...]:
        """The sum of beta. What biases add up to depends on the length of the sequence, and counts as irrelevant."""
        part = parts[0]
        beta, _ = self.forward([part.written(ran.inputs[0])], None)
        return (self.part_after(ran, parts, beta, np.zeros_like(part.delta)),)


@dataclass(frozen=True, eq=False, repr=False)
class Mean(Sum):
    """The mean over the steps. LRP: a sum of terms."""

    split = Layer.split

    def _divisor(self, x: Packed) -> Any:
        """The number of steps."""
        return x.batch.lengths[:, None].astype(x.rows.dtype)


@dataclass(frozen=True, eq=False, repr=False)
class SumAll(Sum):
    """The sum over all steps and features of a sequence, one number. With `mean` their mean.

    LRP: one sum. Contextual decomposition: what biases give to a step is relevant if the step is in the phrase.
    """

    mean: bool = False

    def __post_init__(self) -> None:
        self._set(mean=bool(self.mean))

    def sizes(self, x: Size) -> Size:
        """(M) to (1)."""
        return super().sizes(x)._replace(width=1)

    def _total(self, rows: np.ndarray, x: Packed) -> np.ndarray:
        return super()._total(rows.sum(axis=1, keepdims=True), x)

    def _divisor(self, x: Packed) -> Any:
        """1, or the number of values."""
        if not self.mean:
            return super()._divisor(x)
        return (x.batch.lengths[:, None] * x.rows.shape[1]).astype(x.rows.dtype)

    def split(self, ran: Ran, parts: Sequence[Split], wanted: tuple[str, ...]) -> tuple[Split, ...]:
        """The sum of beta, and of delta inside the phrase: what biases add up to depends on the number of steps."""
        part = parts[0]
        beta = part.written(ran.inputs[0])
        inside = part.inside(beta.batch.owner, beta.batch.step)
        y, _ = self.forward([beta._replace(rows=beta.rows + part.delta * inside[:, None])], None)
        return (self.part_after(ran, parts, y, np.zeros(1, y.rows.dtype)),)


@dataclass(frozen=True, eq=False, repr=False)
class Max(Readout):
    """The maximum over the steps. All relevance goes to the first step that reaches it.

    DeepLIFT: to each step the fraction of the line from the reference on which it is the largest.
    """

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, None]:
        """(R, M) to (n, M)."""
        x = xs[0]
        return Packed(np.maximum.reduceat(x.batch.unpack(x.rows), x.batch.starts), x.batch.ends), None

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """The winner takes all; with a reference, each step its fraction."""
        x = ran.inputs[0]
        each = zip(*ran.both(lambda one: (x.batch.split(one.inputs[0].rows),)), strict=True)
        rows = [how.winning(*candidates) for candidates in each]
        return [R[x.batch.owner] * x.batch.pack(np.concatenate(rows))]

    def split(self, ran: Ran, parts: Sequence[Split], wanted: tuple[str, ...]) -> tuple[Split, ...]:
        """The winner's beta."""
        part, x = parts[0], ran.inputs[0]
        beta = part.written(x)
        first = [rows.argmax(axis=0) for rows in x.batch.split(x.rows)]  # the step that wins, of each feature
        won = np.stack(first)[part.owner]  # (V, M)
        rows = beta.rows[beta.batch.first[won] + np.arange(len(won))[:, None], np.arange(won.shape[1])]
        return (self.part_after(ran, parts, Packed(rows, beta.batch.ends), part.delta),)
