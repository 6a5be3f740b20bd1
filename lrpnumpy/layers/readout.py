"""Readouts: from one row for each step to one vector for each sequence.

The last state of a recurrent layer is an output of that layer (`:last`) and needs no separate layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrpnumpy.layers.base import Keep, Layer, Ran, Size
from lrpnumpy.packed import Batch, Packed, Split
from lrpnumpy.rules.propagation import Entry, Propagation, back_through_sum
from lrpnumpy.rules.sums import Gathered


class Readout(Layer):
    """What the readouts share."""

    def sizes(self, x: Size) -> Size:
        """The same width, once for each sequence."""
        return x._replace(steps=False)

    def part_after(self, ran: Ran, parts: Sequence[Split], beta: Packed, delta: np.ndarray) -> Split:
        """Contextual decomposition: the vector counts as the middle one of its steps."""
        T = ran.inputs[0].batch.lengths[parts[0].owner]
        return parts[0].of_vector((T - 1) // 2, beta, delta)


@dataclass(frozen=True, eq=False, repr=False)
class Mean(Readout):
    """The mean over the steps. LRP: a sum of terms."""

    def _divisor(self, x: Packed) -> Any:
        """By what the sums over the steps are divided: (n, 1) or a number."""
        return _count(x.batch, x.rows.dtype)

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, None]:
        """(R, M) to (n, M)."""
        x = xs[0]
        return Packed(x.batch.sums(x.rows) / self._divisor(x), x.batch.ends), None

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """Each step receives its share of the sum."""
        x = ran.inputs[0]
        divisor = self._divisor(x)
        mean = Gathered(x.rows, lambda a: x.batch.sums(a) / divisor, lambda s: (s / divisor)[x.batch.owner])
        return back_through_sum(how, R, ran.outputs[0], [mean], entry)


@dataclass(frozen=True, eq=False, repr=False)
class Sum(Mean):
    """The sum over the steps. LRP: a sum of terms."""

    def _divisor(self, x: Packed) -> Any:
        """1."""
        return x.rows.dtype.type(1)

    def split(self, ran: Ran, parts: Sequence[Split], wanted: tuple[str, ...]) -> tuple[Split, ...]:
        """The sum of beta. What biases add up to depends on the length of the sequence, and counts as irrelevant."""
        part = parts[0]
        beta, _ = self.forward([part.written(ran.inputs[0])], None)
        return (self.part_after(ran, parts, beta, np.zeros_like(part.delta)),)


@dataclass(frozen=True, eq=False, repr=False)
class Max(Readout):
    """The maximum over the steps. Everything goes to the first step that reaches it.

    DeepLIFT: to each step the fraction of the way from the reference on which it is the largest.
    """

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, None]:
        """(R, M) to (n, M)."""
        x = xs[0]
        return Packed(np.maximum.reduceat(x.batch.unpack(x.rows), x.batch.starts), x.batch.ends), None

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """The winner takes all; with a reference, to each step its fraction."""
        x = ran.inputs[0]
        each = zip(*ran.both(lambda one: (x.batch.split(one.inputs[0].rows),)), strict=True)
        rows = [how.winning(*candidates) for candidates in each]
        return [R[x.batch.owner] * x.batch.pack(np.concatenate(rows))]

    def split(self, ran: Ran, parts: Sequence[Split], wanted: tuple[str, ...]) -> tuple[Split, ...]:
        """The winner's beta."""
        part, x = parts[0], ran.inputs[0]
        beta = part.written(x)
        won = _winners(x)[part.owner]  # (V, M)
        rows = beta.rows[beta.batch.first[won] + np.arange(len(won))[:, None], np.arange(won.shape[1])]
        return (self.part_after(ran, parts, Packed(rows, beta.batch.ends), part.delta),)


def _count(batch: Batch, dtype: Any) -> np.ndarray:
    """(n, 1) steps of each sequence."""
    return batch.lengths[:, None].astype(dtype)


def _winners(x: Packed) -> np.ndarray:
    """(n, M) the first step at which each sequence reaches its maximum."""
    return np.stack([rows.argmax(axis=0) for rows in x.batch.split(x.rows)])
