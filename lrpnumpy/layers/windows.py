"""Windows over the steps, for convolutions and pools; and the pools.

A window has `width` places, `dilation` steps apart; the next one begins `stride` steps later. With padding the first
windows begin before the first step. Width 3, stride 2 and one step of padding on each side, over the steps 0 to 4:

    window 0   padding, 0, 1
    window 1   1, 2, 3
    window 2   3, 4, padding
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError, shown, whole
from lrpnumpy.layers.base import Keep, Layer, Ran, Size, needs_steps
from lrpnumpy.packed import Batch, Change, Packed, Split
from lrpnumpy.rules.propagation import Entry, Propagation, back_through_sum
from lrpnumpy.rules.sums import Gathered


class WindowSteps(NamedTuple):
    """How windows follow one another."""

    width: int
    stride: int
    dilation: int
    padding: Any  # "valid", "same", "causal", or steps of padding (left, right)

    @property
    def reach(self) -> int:
        """Steps from the first place of a window to its last, both counted."""
        return (self.width - 1) * self.dilation + 1

    def least(self, count: int) -> int:
        """The number of steps needed for this number of windows."""
        more = (count - 1) * self.stride
        if self.padding == "same":
            return more + 1
        return max(more + self.reach - sum(self._fixed()), 1)

    def count(self, T: Any) -> Any:
        """How many windows there are over T steps: less than 1 where T is too short."""
        if self.padding == "same":
            return -(-T // self.stride)
        left, right = self._fixed()
        return (T + left + right - self.reach) // self.stride + 1

    def left(self, T: np.ndarray) -> np.ndarray:
        """How many steps of padding there are before the first of T steps."""
        if self.padding != "same":
            return np.full_like(T, self._fixed()[0])
        total = (self.count(T) - 1) * self.stride + self.reach - T  # as in Keras: the smaller half on the left
        return np.maximum(total, 0) // 2

    def _fixed(self) -> tuple[int, int]:
        """Padding that does not depend on the length."""
        if isinstance(self.padding, str):
            return (self.reach - 1 if self.padding == "causal" else 0), 0
        return self.padding

    def reaching(self, lo: np.ndarray, hi: np.ndarray, T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The windows from the first that reaches step lo or a later one to the last that begins before hi."""
        left, count = self.left(T), self.count(T)
        start = -(-(lo + left - self.reach + 1) // self.stride)
        start = np.clip(start, 0, count)
        return start, np.clip((hi - 1 + left) // self.stride + 1, start, count)

    def steps(self, window: np.ndarray, T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(Q, width) steps at the positions of Q windows, each over T (Q,) steps; and which are not padding."""
        t = (window * self.stride - self.left(T))[:, None] + np.arange(self.width) * self.dilation
        return t, (t >= 0) & (t < T[:, None])

    def middles(self, window: np.ndarray, T: np.ndarray) -> np.ndarray:
        """(Q,) the middle of the steps that each window covers, the lower of two; padding does not count."""
        begin = window * self.stride - self.left(T)
        first = np.maximum(-(begin // self.dilation), 0)  # the first position that is not padding, and the last
        last = np.minimum((T - 1 - begin) // self.dilation, self.width - 1)
        return np.clip(begin + (first + last) // 2 * self.dilation, 0, T - 1)


def checked(layer: Any, names: dict[str, int], paddings: Sequence[str]) -> None:
    """Check the settings of a layer with windows: whole numbers of at least so much, and the padding."""
    kind = type(layer).__name__
    layer._set(**{name: whole(getattr(layer, name), f"{kind}: {name}", least) for name, least in names.items()})
    padding = layer.padding
    if isinstance(padding, Sequence) and not isinstance(padding, str) and len(padding) == 2:
        layer._set(padding=tuple(whole(steps, f"{kind}: padding", 0) for steps in padding))
    elif not isinstance(padding, str) or padding not in paddings:
        listed = ", ".join(map(repr, paddings))
        raise LrpError(
            f"{kind}: padding must be one of {listed}, or a pair of steps (left, right), got {shown(padding)}."
        )


class View(NamedTuple):
    """The windows over one batch of R rows."""

    batch: Batch  # one row for each of Q windows
    rows: np.ndarray  # (Q, width) row of the input at each position of a window; R for padding
    seen: np.ndarray  # (width, R) position, of all Q * width, at a row, its window's k-th; Q * width for none

    def spread(self, message: np.ndarray) -> np.ndarray:
        """(R, M) the messages (Q, width, M) to the positions of windows, summed over positions on the same row."""
        each = padded(message.reshape(-1, message.shape[2]), 0)
        total = each.take(self.seen[0], axis=0)
        for places in self.seen[1:]:
            total += each.take(places, axis=0)
        return total


def padded(x: np.ndarray, value: float) -> np.ndarray:
    """x with one more row, for the positions of windows that are padding."""
    return np.concatenate([x, np.full((1, x.shape[1]), value, x.dtype)])


@lru_cache(maxsize=16)
def _view(windows: WindowSteps, lengths: bytes) -> View:
    """The windows over sequences of these lengths: series often have all the same."""
    before = Batch(np.frombuffer(lengths, np.int64))
    T = before.lengths
    after = Batch(windows.count(T))
    t, real = windows.steps(after.step, T[after.owner])
    rows = before.first.take(t, mode="clip") + after.owner[:, None]
    rows = np.where(real, rows, before.R)
    places = np.arange(rows.size).reshape(rows.shape)
    seen = np.full((windows.width, before.R + 1), rows.size)
    np.put_along_axis(seen, rows.T, places.T, axis=1)  # no two windows have the same step at their k-th place
    seen = np.ascontiguousarray(seen[:, :-1])
    rows.setflags(write=False)
    seen.setflags(write=False)
    return View(after, rows, seen)


class Windowed(Layer):
    """A layer whose outputs are functions of windows over the steps."""

    windows: Any  # how they follow one another
    of_windows: Any  # (x, rows) to outputs (Q, M) of Q windows at these rows (Q, width) of x (R, D); R is padding

    def least(self, steps: int) -> int:
        """The number of input steps needed for this number of windows."""
        return self.windows.least(steps)

    def returned(self, steps: int, width: int) -> int:
        """The number of windows."""
        return max(int(self.windows.count(steps)), 1)

    @property
    def reads(self) -> int:
        """The rows of a window."""
        return self.windows.width

    def view(self, batch: Batch) -> View:
        """The windows over a batch, or an LrpError where a sequence is too short."""
        windows, T = self.windows, batch.lengths
        if windows.count(T[-1]) < 1:
            raise LrpError(
                f"{type(self).__name__}: a sequence must have at least {windows.least(1)} steps here, got {T[-1]}; "
                "give longer sequences."
            )
        return _view(windows, T.tobytes())

    def changed(
        self, ran: Ran, changes: Sequence[Change | None], wanted: tuple[str, ...], tol: float
    ) -> tuple[Change, ...]:
        """Only windows that reach a changed step have another output; where steps are left out, all are run."""
        change: Any = changes[0]
        if (change.size != change.hi - change.lo).any():
            return super().changed(ran, changes, wanted, tol)
        x, windows = ran.inputs[0], self.windows
        T = x.batch.lengths[change.owner]
        lo, hi = windows.reaching(change.lo, change.hi, T)
        size = hi - lo
        own = np.cumsum(size) - size
        v = np.repeat(np.arange(len(size)), size)
        t, real = windows.steps(np.arange(len(v)) - own[v] + lo[v], T[v])
        seen = change.row_at(x, np.broadcast_to(v[:, None], t.shape)[real], t[real])
        rows = np.full(t.shape, len(seen))
        rows[real] = np.arange(len(seen))
        return (Change(change.owner, lo, hi, size, own, 1, self.of_windows(seen, rows)),)

    def part_after(self, ran: Ran, parts: Sequence[Split], beta: Packed, delta: np.ndarray) -> Split:
        """Contextual decomposition: a window counts as inside the phrase if the middle of the steps it covers is."""
        part, windows, before, after = parts[0], self.windows, ran.inputs[0].batch, ran.outputs[0].batch
        middles = windows.middles(after.step, before.lengths[after.owner])
        ordered = np.sort(before.starts[after.owner] + middles)  # those of each sequence together
        offset, first = before.starts[part.owner], after.starts[part.owner]
        start, stop = (ordered.searchsorted(offset + step) - first for step in (part.start, part.stop))
        since, _ = windows.reaching(part.since, part.since, before.lengths[part.owner])
        return Split(beta, delta, part.owner, start, stop, np.minimum(since, start))


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
        places = ran.trace.rows.T  # no two windows have the same step at one of their places
        is_padded = places.size > 0 and places.max() == len(x)
        candidates = padded(x, -np.inf) if is_padded else x
        R_x = np.zeros_like(candidates)
        for k, rows in enumerate(places):
            share = R
            if is_padded or k < len(places) - 1:  # otherwise the last step wins what is left
                share = R * (candidates.take(rows, axis=0) == y)
                R = R - share
            if self.windows.stride < self.size:
                R_x[rows] += share
            else:  # each step is in one window
                R_x[rows] = share
        return [R_x[: len(x)]]

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
