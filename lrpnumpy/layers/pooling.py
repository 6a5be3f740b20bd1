"""Pools over a few steps: the largest value of each window, or the mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lrpnumpy.checks import LrpError
from lrpnumpy.layers.base import Keep, Ran, Size
from lrpnumpy.layers.windows import View, Windowed, Windows, checked
from lrpnumpy.packed import Packed, Part
from lrpnumpy.rules.propagation import Entry, Propagation, back_through_sum


class Pool(Windowed):
    """What the pools share: `size` steps, the next window `stride` steps later, by default where this one ends."""

    size: int
    stride: int | None
    padding: str | tuple[int, int]

    def __post_init__(self) -> None:
        if self.stride is None:
            self._set(stride=self.size)
        checked(self, {"size": 1, "stride": 1}, ("valid", "same"))
        if not isinstance(self.padding, str) and max(self.padding) >= self.size:
            kind = type(self).__name__
            raise LrpError(f"{kind}: padding must be less than the size, {self.size}, got {self.padding!r}.")

    @property
    def windows(self) -> Windows:
        """How the windows follow one another."""
        return Windows(self.size, self.stride, 1, self.padding)  # type: ignore[arg-type]

    def sizes(self, x: Size) -> Size:  # type: ignore[override]
        """The same width."""
        self._needs_steps(x, "size")
        return x

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, View]:
        """The outputs; the trace is the windows."""
        x = xs[0]
        view = self.view(x.batch)
        return Packed(self.of_windows(view.seen(x.rows, self.FILL), view.real), view.batch), view

    def described(self) -> str:
        """One line for `inspect`."""
        return f"{type(self).__name__}, {self.size} steps, stride {self.stride}, padding {self.padding}"


@dataclass(frozen=True, eq=False, repr=False)
class MaxPool1D(Pool):
    """The largest value of each window, for each number of a vector. Everything goes to the first step that has it.

    `padding` is "valid" for none, "same" as in Keras, or (left, right) steps, which never win.
    """

    size: int
    stride: int | None = None
    padding: str | tuple[int, int] = "valid"

    FILL: ClassVar[float] = -np.inf

    def of_windows(self, seen: np.ndarray, real: np.ndarray) -> np.ndarray:
        """Outputs (Q, M)."""
        y = seen[:, 0].copy()
        for place in range(1, seen.shape[1]):
            np.maximum(y, seen[:, place], out=y)
        return y

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """The winner takes all."""
        x, view = ran.inputs[0], ran.trace
        won = self._winners(ran)[:, None] == np.arange(self.size)[:, None]
        return [view.back(np.where(won, R[:, None], R.dtype.type(0)), len(x.rows))]

    def _winners(self, ran: Ran) -> np.ndarray:
        """(Q, M) the place in each window that reaches the maximum first."""
        return ran.trace.seen(ran.inputs[0].rows, self.FILL).argmax(axis=1)

    def split(self, ran: Ran, parts: Sequence[Part], wanted: tuple[str, ...]) -> tuple[Part, ...]:
        """The winner's beta."""
        part, x, y = parts[0], ran.inputs[0], ran.outputs[0]
        beta = part.written(x)
        view = self.view(beta.batch)
        won = part.true(Packed(self._winners(ran), y.batch), view.batch)
        rows = beta.rows[np.take_along_axis(view.rows, won, axis=1), np.arange(won.shape[1])]
        part = self._phrase(part, x.batch, y.batch)
        return (part._replace(beta=Packed(rows, view.batch)),)


@dataclass(frozen=True, eq=False, repr=False)
class AvgPool1D(Pool):
    """The mean of each window. LRP: a sum of terms. Contextual decomposition: the mean of each part.

    `padding` is "valid" for none, "same" as in Keras, or (left, right) steps. The mean is over the steps that are no
    padding, as in Keras; with `count_padding` padding is zeros that count, as in PyTorch.
    """

    size: int
    stride: int | None = None
    padding: str | tuple[int, int] = "valid"
    count_padding: bool = False

    def of_windows(self, seen: np.ndarray, real: np.ndarray) -> np.ndarray:
        """Outputs (Q, M)."""
        return seen.sum(axis=1) / self._divisor(real, seen.dtype)

    def _divisor(self, real: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """(Q, 1) by what the sum over each window is divided."""
        count = np.full((len(real), 1), self.size) if self.count_padding else real.sum(axis=1, keepdims=True)
        return count.astype(dtype)

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """Each step gets its share of the sum."""
        x, y, view = ran.inputs[0], ran.outputs[0], ran.trace
        s, alike = back_through_sum(how, R, y.rows, None, 1, y.batch, entry)
        R_x = self._spread(s / self._divisor(view.real, s.dtype), view, len(x.rows))
        if how.times_input:
            R_x *= x.rows
        if how.share_bias:
            R_x += self._spread(alike / view.real.sum(axis=1, keepdims=True).astype(s.dtype), view, len(x.rows))
        return [R_x]

    def _spread(self, message: np.ndarray, view: View, R: int) -> np.ndarray:
        """(R, M) the same message (Q, M) for every step of a window."""
        return view.back(np.broadcast_to(message[:, None], (len(message), self.size, message.shape[1])), R)

    def split(self, ran: Ran, parts: Sequence[Part], wanted: tuple[str, ...]) -> tuple[Part, ...]:
        """The mean of beta."""
        part, x = parts[0], ran.inputs[0]
        beta, _ = self.forward([part.written(x)], None)
        return (self._phrase(part, x.batch, ran.outputs[0].batch)._replace(beta=beta),)
