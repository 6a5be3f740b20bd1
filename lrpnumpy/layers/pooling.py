"""Pools over a few steps: the largest value of each window, or the mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError
from lrpnumpy.layers.base import Keep, Ran, Size, needs_steps
from lrpnumpy.layers.windows import View, Windowed, WindowSteps, checked, padded
from lrpnumpy.packed import Packed, Split
from lrpnumpy.rules.propagation import Entry, Propagation, back_through_sum
from lrpnumpy.rules.sums import Gathered


@dataclass(frozen=True, eq=False, repr=False)
class Pool(Windowed):
    """What the pools share: `size` steps, the next window `stride` steps later, by default where this one ends."""

    size: int
    stride: int | None = None
    padding: str | tuple[int, int] = "valid"

    def __post_init__(self) -> None:
        if self.stride is None:
            self._set(stride=self.size)
        checked(self, {"size": 1, "stride": 1}, ("valid", "same"))
        if not isinstance(self.padding, str) and max(self.padding) >= self.size:
            kind = type(self).__name__
            raise LrpError(f"{kind}: padding must be less than the size, {self.size}, got {self.padding!r}.")

    @property
    def windows(self) -> WindowSteps:
        """How the windows follow one another."""
        return WindowSteps(self.size, self.stride, 1, self.padding)  # type: ignore[arg-type]

    def sizes(self, x: Size) -> Size:
        """The same width."""
        needs_steps(x)
        return x

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, View]:
        """The outputs; the trace is the windows."""
        view = self.view(xs[0].batch)
        return Packed(self.of_windows(xs[0].rows, view.rows), view.batch), view


@dataclass(frozen=True, eq=False, repr=False)
class MaxPool1D(Pool):
    """The largest value of each window, for each feature. All relevance goes to the first step that has it.

    DeepLIFT: to each step of a window the fraction of the line from the reference on which it is the largest.

    A window has `size` steps and begins every `stride` steps, by default where the last one ends.
    `padding` is "valid" for none, "same" as in Keras, or (left, right) steps, which never win.
    """

    def of_windows(self, x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Outputs (Q, M)."""
        candidates = padded(x, -np.inf)
        return reduce(np.maximum, (candidates.take(some, axis=0) for some in rows.T))

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """The winner takes all; with a reference, each step its fraction."""
        x, y = ran.inputs[0].rows, ran.outputs[0].rows
        if how.has_reference:
            weights = how.winning(*ran.both(lambda one: (_seen(one.inputs[0].rows, one.trace.rows).swapaxes(0, 1),)))
            return [ran.trace.spread((R * weights).swapaxes(0, 1))]
        candidates = padded(x, -np.inf)
        R_x = np.zeros_like(candidates)
        for rows in ran.trace.rows.T:  # no two windows have the same step at one of their places
            has_won = candidates[rows] == y
            R_x[rows] += R * has_won
            R = R * ~has_won
        return [R_x[:-1]]

    def split(self, ran: Ran, parts: Sequence[Split], wanted: tuple[str, ...]) -> tuple[Split, ...]:
        """The winner's beta."""
        part, x, y = parts[0], ran.inputs[0], ran.outputs[0]
        beta = part.written(x)
        view = self.view(beta.batch)
        won = _seen(x.rows, ran.trace.rows).argmax(axis=1)  # place in each window
        won = part.true(Packed(won, y.batch), view.batch)
        rows = beta.rows[np.take_along_axis(view.rows, won, axis=1), np.arange(won.shape[1])]
        return (self.part_after(ran, parts, Packed(rows, view.batch), part.delta),)


@dataclass(frozen=True, eq=False, repr=False)
class AvgPool1D(Pool):
    """The mean of each window. LRP: a sum of terms. Contextual decomposition: the mean of each part.

    A window has `size` steps and begins every `stride` steps, by default where the last one ends.
    `padding` is "valid" for none, "same" as in Keras, or (left, right) steps. The mean is over the steps that are not
    padding, as in Keras; with `count_padding` padding is zeros that count, as in PyTorch.
    """

    count_padding: bool = False

    def of_windows(self, x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Outputs (Q, M)."""
        return padded(x, 0).take(rows, axis=0).sum(axis=1) / self._divisor(rows, len(x), x.dtype)

    def _divisor(self, rows: np.ndarray, R: int, dtype: np.dtype) -> Any:
        """What the sum over each window is divided by, (Q, 1) or a number."""
        if self.count_padding:
            return dtype.type(self.size)
        return (rows < R).sum(axis=1, keepdims=True).astype(dtype)  # steps that are not padding

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """Each step receives its share of the sum."""
        x, view = ran.inputs[0].rows, ran.trace
        divisor = self._divisor(view.rows, len(x), x.dtype)

        def spread(s: np.ndarray) -> np.ndarray:
            return view.spread((s / divisor)[:, None].repeat(self.size, axis=1))

        mean = Gathered(x, lambda a: self.of_windows(a, view.rows), spread)
        return back_through_sum(how, R, ran.outputs[0], [mean], entry)

    def split(self, ran: Ran, parts: Sequence[Split], wanted: tuple[str, ...]) -> tuple[Split, ...]:
        """The mean of beta."""
        part = parts[0]
        beta, _ = self.forward([part.written(ran.inputs[0])], None)
        return (self.part_after(ran, parts, beta, part.delta),)


def _seen(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """(Q, width, M) candidates of each window; padding is -inf."""
    return padded(x, -np.inf).take(rows, axis=0)
