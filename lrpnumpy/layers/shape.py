"""Layers that move values and change none: Repeat, Flatten, Reshape, Slice, Reverse.

LRP and the gradient: what arrives goes where the value came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lrpnumpy.checks import LrpError, one_of, whole
from lrpnumpy.layers.base import Keep, Layer, Ran, Size, missing, needs_steps
from lrpnumpy.packed import Batch, Packed, Part
from lrpnumpy.rules.propagation import Entry, Propagation


@dataclass(frozen=True, eq=False, repr=False)
class Repeat(Layer):
    """One vector for each sequence, repeated for a number of steps (Keras: RepeatVector).

    `steps` is that number. With None the layer has a second input, a series, and gives as many steps as that has; the
    values of the second input do not matter and get no relevance.

    Contextual decomposition: if the vector counts as inside the phrase, all steps do.
    """

    steps: int | None = None

    def __post_init__(self) -> None:
        if self.steps is not None:
            self._set(steps=whole(self.steps, "Repeat: steps", 1))

    def sizes(self, x: Size, like: Size | None = None) -> Size:
        """(M) once to (M) at every step."""
        if x.steps:
            raise LrpError(f"inputs must be one vector for each sequence, got steps of the {x.source}.")
        if (like is None) == (self.steps is None):
            got = "neither" if like is None else f"steps={self.steps} and the {like.source}"
            raise LrpError(f"steps must be a number, or a second input must be given that has the steps, got {got}.")
        if like is not None:
            needs_steps(like)
        return x._replace(steps=True)

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, None]:
        """(n, M) to (R, M)."""
        n = xs[0].batch.n
        batch = xs[1].batch if self.steps is None else Batch(np.full(n, self.steps))
        return Packed(xs[0].rows[batch.owner], batch), None

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray | None]:
        """The vector gets what all its copies get together."""
        R_x = ran.outputs[0].batch.sums(R)
        return [R_x] if len(ran.inputs) == 1 else [R_x, None]

    def part_after(self, ran: Ran, parts: Sequence[Part], beta: Packed, delta: np.ndarray) -> Part:
        """All steps are inside, or none."""
        T, part = beta.batch.lengths, parts[0]
        return Part(beta, delta, part.owner, part.start * T, part.stop * T, np.zeros_like(T))


class Regrouped(Layer):
    """What Flatten and Reshape share: the numbers of a sequence, row after row, cut into rows of another width."""

    def width_after(self, width: int) -> int:
        """Width of an output row, from that of an input row."""
        raise missing(self, "width_after")

    def lengths(self, lengths: np.ndarray, width: int) -> np.ndarray:
        """Steps after, or an error."""
        raise missing(self, "lengths")

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, None]:
        """(R, M) to (R', M') with as many numbers in each sequence."""
        x = xs[0]
        width = x.rows.shape[1]
        batch = Batch(self.lengths(x.batch.lengths, width))
        return Packed(_regrouped(x.rows, x.batch, batch, self.width_after(width)), batch), None

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """The same, back."""
        x, y = ran.inputs[0], ran.outputs[0]
        return [_regrouped(R, y.batch, x.batch, x.rows.shape[1])]

    def split(self, ran: Ran, parts: Sequence[Part], wanted: tuple[str, ...]) -> tuple[Part, ...]:
        """beta goes where the value goes.

        Where a row is cut into several, these have different biases. What biases give then counts as their own value:
        it is relevant inside the phrase.
        """
        part, x = parts[0], ran.inputs[0]
        beta = part.written(x)
        before, after = x.rows.shape[1], ran.outputs[0].rows.shape[1]
        batch = Batch(self.lengths(beta.batch.lengths, before))
        rows = _regrouped(beta.rows, beta.batch, batch, after)
        T = len(batch.first) - 1
        flat = np.arange(T * after)
        # An output step covers the input steps from the first to the last of its numbers; the lower middle one counts.
        steps = (flat // before).reshape(T, after)
        middle = (steps[:, 0] + steps[:, -1]) // 2
        start = np.minimum(np.searchsorted(middle, part.start), batch.lengths)
        stop = np.minimum(np.searchsorted(middle, part.stop), batch.lengths)
        deltas = part.delta[(flat % before).reshape(T, after)]  # (T, M')
        delta = deltas[0]
        if after % before:
            inside = (start[batch.owner] <= batch.step) & (batch.step < stop[batch.owner])
            rows = rows + deltas[batch.step] * inside[:, None]
            delta = np.zeros_like(delta)
        return (Part(Packed(rows, batch), delta, part.owner, start, stop, np.zeros_like(start)),)


def _regrouped(rows: np.ndarray, before: Batch, after: Batch, width: int) -> np.ndarray:
    return after.pack(before.unpack(rows).reshape(-1, width))


@dataclass(frozen=True, eq=False, repr=False)
class Flatten(Regrouped):
    """All steps of a sequence as one vector, step after step. `steps` is how many they must be."""

    steps: int

    def __post_init__(self) -> None:
        self._set(steps=whole(self.steps, "Flatten: steps", 1))

    def sizes(self, x: Size) -> Size:
        """(M) at every step to (steps M)."""
        needs_steps(x)
        return x._replace(width=self.width_after(x.width), steps=False)

    def width_after(self, width: int) -> int:
        """steps M."""
        return self.steps * width

    def lengths(self, lengths: np.ndarray, width: int) -> np.ndarray:
        """One, if the steps are as many as they must be."""
        if (lengths != self.steps).any():
            got = lengths[lengths != self.steps][0]
            raise LrpError(
                f"Flatten: a series must have {self.steps} steps, got {got}; this network takes one length only."
            )
        return np.ones_like(lengths)


@dataclass(frozen=True, eq=False, repr=False)
class Reshape(Regrouped):
    """The numbers of a sequence, step after step, as steps of `width` numbers.

    Four steps of 3 become two steps of 6, or six of 2. One vector of 12 numbers becomes four steps of 3.
    """

    width: int

    def __post_init__(self) -> None:
        self._set(width=whole(self.width, "Reshape: width", 1))

    def sizes(self, x: Size) -> Size:
        """(M) to (width)."""
        if not x.steps and x.width % self.width:
            raise LrpError(f"width must divide the {x.width} numbers of the {x.source}, got {self.width}.")
        return x._replace(width=self.width, steps=True)

    def width_after(self, width: int) -> int:
        """The same for every input."""
        return self.width

    def lengths(self, lengths: np.ndarray, width: int) -> np.ndarray:
        """As many as the numbers of a sequence fill."""
        if (left := lengths * width % self.width).any():
            got = lengths[left > 0][0]
            raise LrpError(
                f"Reshape: the numbers of a series must fill steps of {self.width}, got {got} steps of {width}."
            )
        return lengths * width // self.width


@dataclass(frozen=True, eq=False, repr=False)
class Slice(Layer):
    """Some steps of a series, or some features of every row: x[:, start:stop:step], x[:, :, start:stop:step].

    `start`, `stop` and `step` are those of a slice: numbers below 0 count from the end, each sequence's own. With an
    `index` instead it is the one step x[:, index], which is a vector, or the one feature. `axis` is "steps" or
    "features".
    """

    start: int | None = None
    stop: int | None = None
    step: int = 1
    index: int | None = None
    axis: Literal["steps", "features"] = "steps"

    def __post_init__(self) -> None:
        one_of(self.axis, "Slice: axis", ("steps", "features"))
        for name in ("start", "stop", "index"):
            if (value := getattr(self, name)) is not None:
                self._set(**{name: whole(value, f"Slice: {name}")})
        self._set(step=whole(self.step, "Slice: step", 1))
        start, stop = self.start or 0, self.stop
        if self.index is not None:
            if (self.start, self.stop, self.step) != (None, None, 1):
                raise LrpError("Slice: index must stand alone, got start, stop or step as well.")
        elif stop is not None and (start < 0) == (stop < 0) and start >= stop:
            raise LrpError(f"Slice: stop must lie behind start, got start {start} and stop {stop}.")
        elif self.axis == "steps" and start < 0 and stop is not None and stop >= 0:
            raise LrpError(
                f"Slice: start must not count from the end where stop counts from the beginning, got {start} and "
                f"{stop}; longer series would give fewer steps."
            )

    @property
    def by_step(self) -> bool:  # type: ignore[override]
        """Where features are cut."""
        return self.axis == "features"

    def sizes(self, x: Size) -> Size:
        """As many steps or features as are left."""
        if self.axis == "steps":
            needs_steps(x)
            return x._replace(steps=self.index is None)
        kept = len(self._features(x.width))
        if not kept:
            raise LrpError(f"{self._said()} must leave at least one of the {x.width} features of the {x.source}.")
        return x._replace(width=kept)

    def _said(self) -> str:
        return f"index={self.index}" if self.index is not None else f"start={self.start},stop={self.stop}"

    def _features(self, width: int) -> np.ndarray:
        """Which features are left."""
        every = np.arange(width)
        if self.index is None:
            return every[self.start : self.stop : self.step]
        return every[self.index : self.index + 1 or None] if -width <= self.index < width else every[:0]

    def _first_and_count(self, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first step that is left of sequences of these lengths, and how many are."""
        start, stop = self.start or 0, self.stop
        if self.index is not None:
            needs = self.index + 1 if self.index >= 0 else -self.index
            first = lengths + self.index if self.index < 0 else np.full_like(lengths, self.index)
            count = np.ones_like(lengths)
        else:
            needs = max(start, 0) + 1 - min(stop or 0, 0)
            first = np.maximum(lengths + start, 0) if start < 0 else np.minimum(start, lengths)
            end = lengths if stop is None else np.where(stop < 0, lengths + stop, np.minimum(stop, lengths))
            count = -((first - end) // self.step)
        if (short := lengths[lengths < needs]).size:
            raise LrpError(f"Slice: a series must have at least {needs} steps, got {short[0]}.")
        return first, count

    def _rows(self, batch: Batch) -> tuple[np.ndarray, Batch]:
        """(R',) the row that each row of the output is, and their batch."""
        first, count = self._first_and_count(batch.lengths)
        after = Batch(count) if self.index is None else batch.ends
        return batch.first[first[after.owner] + after.step * self.step] + after.owner, after

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, np.ndarray]:
        """What is left; the trace is which columns or rows that are."""
        x = xs[0]
        if self.axis == "features":
            columns = self._features(x.rows.shape[1])
            return Packed(np.ascontiguousarray(x.rows[:, columns]), x.batch), columns
        rows, batch = self._rows(x.batch)
        return Packed(x.rows[rows], batch), rows

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """What was cut off gets nothing."""
        R_x = np.zeros_like(ran.inputs[0].rows)
        R_x[(slice(None), ran.trace) if self.axis == "features" else ran.trace] = R
        return [R_x]

    def part_after(self, ran: Ran, parts: Sequence[Part], beta: Packed, delta: np.ndarray) -> Part:
        """A step is inside the phrase where it came from inside."""
        part = parts[0]
        if self.axis == "features":
            return super().part_after(ran, parts, beta, delta)
        first, count = self._first_and_count(ran.inputs[0].batch.lengths[part.owner])
        if self.index is not None:
            return part.of_vector(first, beta, delta)
        start, stop = (np.clip(-((first - at) // self.step), 0, count) for at in (part.start, part.stop))
        return Part(beta, delta, part.owner, start, stop, np.zeros_like(start))


@dataclass(frozen=True, eq=False, repr=False)
class Reverse(Layer):
    """The steps of each sequence in reverse order."""

    def sizes(self, x: Size) -> Size:
        """The size of the input."""
        needs_steps(x)
        return x

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, None]:
        """The last step first."""
        return Packed(xs[0].rows[xs[0].batch.flip], xs[0].batch), None

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """Reversed again."""
        return [R[ran.inputs[0].batch.flip]]

    def part_after(self, ran: Ran, parts: Sequence[Part], beta: Packed, delta: np.ndarray) -> Part:
        """The phrase is mirrored."""
        part, T = parts[0], ran.inputs[0].batch.lengths[parts[0].owner]
        return Part(beta, delta, part.owner, T - part.stop, T - part.start, np.zeros_like(T))
