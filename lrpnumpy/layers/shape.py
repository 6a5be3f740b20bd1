"""Layers that move values and change none: Repeat, Flatten, Reshape, Slice, LastRow, Reverse, Transpose, Pad.

LRP and the gradient: a message goes to the place the value came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from lrpnumpy.checks import LrpError, one_of, whole
from lrpnumpy.layers.base import Keep, Layer, Ran, Size, needs_steps
from lrpnumpy.layers.windows import padded
from lrpnumpy.packed import Batch, Packed, Split
from lrpnumpy.rules.propagation import Entry, Propagation


class Moved(Layer):
    """What the layers share: each output is the value at one place of the input.

    Contextual decomposition: beta goes where the value goes. An output row is inside the phrase where the step that it
    came from is, or the middle one of several, the lower of two.
    """

    # (batches, width) to the places of the outputs in rows of `width` numbers, an index: rows (R',), or rows and
    # columns, (R', M') each. And the batch of the outputs.
    places: Any

    def sizes(self, x: Size) -> Size:
        """The size of the input, which must have steps."""
        needs_steps(x)
        return x

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, Any]:
        """The outputs; the trace is their places."""
        index, batch = self.places([x.batch for x in xs], xs[0].rows.shape[1])
        return Packed(xs[0].rows[index], batch), index

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray | None]:
        """Back to the places; others receive nothing."""
        R_x = np.zeros_like(ran.inputs[0].rows)
        R_x[ran.trace] = R
        return [R_x]

    def split(self, ran: Ran, parts: Sequence[Split], wanted: tuple[str, ...]) -> tuple[Split, ...]:
        """If rows have different biases, what these give counts as a value: relevant inside the phrase."""
        part, width = parts[0], ran.inputs[0].rows.shape[1]
        before = part.written(ran.inputs[0])
        others = [x._replace(batch=Batch(x.batch.lengths[part.owner])) for x in ran.inputs[1:]]
        beta, index = self.forward([before, *others], None)
        rows, columns = index if isinstance(index, tuple) else (index[:, None], np.arange(width)[None])
        steps = np.append(before.batch.step, -1)[rows]  # -1 for what does not come from the input
        middle = (steps[:, 0] + steps[:, -1]) // 2
        after = beta.batch
        inside = part.inside(after.owner, middle)
        count = after.sums(inside.astype(np.int64))
        first = np.minimum.reduceat(after.unpack(np.where(inside, after.step, after.R)), after.starts)
        start = np.where(count > 0, first, 0)
        deltas = part.delta[columns]
        delta = deltas[0]
        if (columns != columns[0]).any():
            beta = beta._replace(rows=beta.rows + deltas * inside[:, None])
            delta = np.zeros_like(delta)
        return (Split(beta, delta, part.owner, start, start + count, np.zeros_like(start)),)


@dataclass(frozen=True, eq=False, repr=False)
class Repeat(Moved):
    """One vector per sequence, repeated for a number of steps (Keras: RepeatVector).

    `steps` is that number. With None the layer has a second input, a series, and returns as many steps as that has; the
    values of the second input do not matter and receive no relevance.

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

    def returned(self, steps: int, width: int) -> int:
        """Its own number, or that of the second input."""
        return self.steps or steps

    def places(self, batches: Sequence[Batch], width: int) -> tuple[Any, Batch]:
        """The vector of the sequence, at every step."""
        batch = batches[1] if self.steps is None else Batch(np.full(batches[0].n, self.steps))
        return batch.owner, batch

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray | None]:
        """The vector receives the sum over its copies."""
        R_x = ran.outputs[0].batch.sums(R)
        return [R_x] if len(ran.inputs) == 1 else [R_x, None]


def _regrouped(before: Batch, width: int, lengths: np.ndarray, new_width: int) -> tuple[Any, Batch]:
    """The places of the numbers of each sequence, row after row, cut into rows of another width."""
    after = Batch(lengths)
    numbers = after.step[:, None] * new_width + np.arange(new_width)
    return (before.first[numbers // width] + after.owner[:, None], numbers % width), after


@dataclass(frozen=True, eq=False, repr=False)
class OneLength(Moved):
    """A layer that takes series of one length, `steps`."""

    steps: int

    def __post_init__(self) -> None:
        self._set(steps=whole(self.steps, f"{type(self).__name__}: steps", 1))

    def _checked(self, batch: Batch) -> Batch:
        other = batch.lengths[batch.lengths != self.steps]
        if len(other):
            kind, got = type(self).__name__, other[0]
            raise LrpError(
                f"{kind}: a series must have {self.steps} steps, got {got}; this network takes one length only."
            )
        return batch


@dataclass(frozen=True, eq=False, repr=False)
class Flatten(OneLength):
    """All steps of a sequence as one vector, step after step. `steps` is their number."""

    def sizes(self, x: Size) -> Size:
        """(M) at every step to (steps M)."""
        return super().sizes(x)._replace(width=self.steps * x.width, steps=False)

    def places(self, batches: Sequence[Batch], width: int) -> tuple[Any, Batch]:
        """The steps of a sequence, one after another."""
        batch = self._checked(batches[0])
        return _regrouped(batch, width, np.ones_like(batch.lengths), self.steps * width)


@dataclass(frozen=True, eq=False, repr=False)
class Reshape(Moved):
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

    def returned(self, steps: int, width: int) -> int:
        """As many as the numbers fill."""
        return -(-steps * width // self.width)

    def places(self, batches: Sequence[Batch], width: int) -> tuple[Any, Batch]:
        """As many steps as the numbers of a sequence fill."""
        lengths = batches[0].lengths
        if (left := lengths * width % self.width).any():
            got = lengths[left > 0][0]
            raise LrpError(
                f"Reshape: the numbers of a series must fill steps of {self.width}, got {got} steps of {width}."
            )
        return _regrouped(batches[0], width, lengths * width // self.width, self.width)


@dataclass(frozen=True, eq=False, repr=False)
class Slice(Moved):
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
        if self.index is not None and (self.start, self.stop, self.step) != (None, None, 1):
            raise LrpError("Slice: index excludes start, stop and step; pass either index or a range.")
        if self.axis == "steps" and not self._selected(1 << 60):
            raise LrpError(f"Slice: stop must lie behind start in long series, got {self.start} and {self.stop}.")

    @property
    def by_step(self) -> bool:  # type: ignore[override]
        """If features are selected."""
        return self.axis == "features"

    def sizes(self, x: Size) -> Size:
        """The selected steps or features."""
        if self.axis == "steps":
            return super().sizes(x)._replace(steps=self.index is None)
        selected = self._selected(x.width)
        if not selected:
            given = f"start={self.start},stop={self.stop}" if self.index is None else f"index={self.index}"
            raise LrpError(f"{given} must leave at least one of the {x.width} features of the {x.source}.")
        return x._replace(width=len(selected))

    def _selected(self, count: int) -> range:
        """The selected ones of this number of steps or features; none where there are too few."""
        every = range(count)
        if self.index is None:
            return every[self.start : self.stop : self.step]
        if -count <= self.index < count:
            return every[self.index : self.index + 1 or None]
        return every[:0]

    def places(self, batches: Sequence[Batch], width: int) -> tuple[Any, Batch]:
        """The selected steps or features."""
        batch = batches[0]
        if self.axis == "features":
            return (slice(None), np.array(self._selected(width))), batch
        chosen = [self._selected(T) for T in batch.lengths.tolist()]
        if not all(chosen):
            raise LrpError(f"Slice: a series of {batch.lengths[-1]} steps is too short for {self!r}.")
        after = batch.ends if self.index is not None else Batch(np.array([len(steps) for steps in chosen]))
        first = np.array([steps[0] for steps in chosen])
        return batch.first[first[after.owner] + after.step * self.step] + after.owner, after

    def split(self, ran: Ran, parts: Sequence[Split], wanted: tuple[str, ...]) -> tuple[Split, ...]:
        """Features are selected at each step, so the general formula holds."""
        if self.axis == "features":
            return Layer.split(self, ran, parts, wanted)
        return super().split(ran, parts, wanted)


@dataclass(frozen=True, eq=False, repr=False)
class LastRow(Moved):
    """The row of the last step: what PyTorch code calls `out[:, -1]`.

    After a Bidirectional layer its backward half has read one step only; the output `:last` of that layer has each
    direction's state after all steps.
    """

    def sizes(self, x: Size) -> Size:
        """The same width, once per sequence."""
        return x._replace(steps=False)

    def places(self, batches: Sequence[Batch], width: int) -> tuple[Any, Batch]:
        """The last step."""
        return batches[0].last, batches[0].ends


@dataclass(frozen=True, eq=False, repr=False)
class Reverse(Moved):
    """The steps of each sequence in reverse order."""

    def places(self, batches: Sequence[Batch], width: int) -> tuple[Any, Batch]:
        """The last step first."""
        return batches[0].flip, batches[0]


@dataclass(frozen=True, eq=False, repr=False)
class Transpose(OneLength):
    """Steps as features and features as steps: (T, M) to (M, T) (Keras: Permute((2, 1))).

    `steps` is T, the number that a series must have. Contextual decomposition: all steps are inside the phrase if the
    middle one of the old steps is; what biases give counts as their own value.
    """

    def sizes(self, x: Size) -> Size:
        """(M) at every step to (T) for every feature."""
        return super().sizes(x)._replace(width=self.steps)

    def least(self, steps: int) -> int:
        """The number of steps that it takes."""
        return self.steps

    def returned(self, steps: int, width: int) -> int:
        """One for each feature."""
        return width

    def places(self, batches: Sequence[Batch], width: int) -> tuple[Any, Batch]:
        """A feature, at all steps."""
        before = self._checked(batches[0])
        after = Batch(np.full(before.n, width))
        rows = before.first[:-1] + after.owner[:, None]
        return (rows, np.broadcast_to(after.step[:, None], rows.shape)), after


@dataclass(frozen=True, eq=False, repr=False)
class Pad(Moved):
    """A series with `before` more steps at its start and `after` at its end: zeros (Keras: ZeroPadding1D), or with
    `mode` "reflect" the steps next to its ends in reverse order, without the first and last (PyTorch: ReflectionPad1d).

    Contextual decomposition: zeros are outside the phrase.
    """

    before: int = 1
    after: int = 1
    mode: Literal["zeros", "reflect"] = "zeros"

    def __post_init__(self) -> None:
        for name in ("before", "after"):
            self._set(**{name: whole(getattr(self, name), f"Pad: {name}", 0)})
        one_of(self.mode, "Pad: mode", ("zeros", "reflect"))

    def least(self, steps: int) -> int:
        """Fewer than it returns."""
        fewest = max(1, steps - self.before - self.after)
        if self.mode == "zeros":
            return fewest
        return max(fewest, 1 + max(self.before, self.after))

    def returned(self, steps: int, width: int) -> int:
        """More than it takes."""
        return steps + self.before + self.after

    def places(self, batches: Sequence[Batch], width: int) -> tuple[Any, Batch]:
        """The old rows, and for zeros the row after the last."""
        old = batches[0]
        batch = Batch(old.lengths + (self.before + self.after))
        if self.mode == "reflect":
            last = (old.lengths - 1)[batch.owner]
            step = abs(batch.step - self.before)
            step = last - abs(last - step)
            return old.first[step] + batch.owner, batch
        rows = np.full(batch.R, old.R)
        rows[batch.first[old.step + self.before] + old.owner] = np.arange(old.R)
        return rows, batch

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, Any]:
        """(R, M) to more rows; the trace is where they are."""
        if self.mode == "reflect":
            return super().forward(xs, keep)
        return super().forward([xs[0]._replace(rows=padded(xs[0].rows, 0))], keep)

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray | None]:
        """Relevance of the zeros counts as relevance of a bias; a step that occurs twice receives both."""
        is_zero = ran.trace == ran.inputs[0].batch.R
        if how.times_input:
            entry.bias(R * is_zero[:, None], ran.outputs[0].batch)
        R_x = np.zeros_like(ran.inputs[0].rows)
        np.add.at(R_x, ran.trace[~is_zero], R[~is_zero])
        return [R_x]
