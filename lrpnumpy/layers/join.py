"""Joins: several values to one, at every step or once per sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar, Literal

import numpy as np

from lrpnumpy.checks import LrpError, one_of
from lrpnumpy.layers.base import Keep, Layer, Ran, Size, same_steps
from lrpnumpy.packed import Packed
from lrpnumpy.rules.propagation import Entry, Propagation, back_through_sum
from lrpnumpy.rules.sums import Term


class Join(Layer):
    """What joins share: all their inputs have steps, and as many, or all are vectors."""

    by_step: ClassVar[bool] = True

    def _check(self, xs: Sequence[Size], same_width: bool = True) -> None:
        if len(xs) < 2:
            raise LrpError(f"inputs must be at least two, got {len(xs)}.")
        for other in xs[1:]:
            if other.steps != xs[0].steps or (same_width and other.width != xs[0].width):
                one_size = ", of the same size" * same_width
                raise LrpError(
                    f"inputs must all have steps or all be vectors{one_size}, got {_said(xs[0])} and {_said(other)}; "
                    "Repeat makes steps of a vector."
                )


def _said(x: Size) -> str:
    return f"{x.width} numbers{' at every step' if x.steps else ''} of the {x.source}"


@dataclass(frozen=True, eq=False, repr=False)
class Concat(Join):
    """The features of several inputs, one after another. LRP: relevance goes where the value came from."""

    def sizes(self, *xs: Size) -> Size:
        """(M1), (M2), … to (M1 + M2 + …)."""
        self._check(xs, same_width=False)
        return xs[0]._replace(width=sum(x.width for x in xs))

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, None]:
        """One row after another."""
        batch = same_steps(self, xs)
        return Packed(np.concatenate([x.rows for x in xs], axis=1), batch), None

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """Each input receives the messages of its columns."""
        cuts = [*accumulate(x.rows.shape[1] for x in ran.inputs)]
        return [np.ascontiguousarray(part) for part in np.split(R, cuts[:-1], axis=1)]


class Weighted(Join):
    """A sum of the inputs, each times a number. LRP: one sum, whose terms are the inputs times their numbers."""

    def weights(self, count: int) -> list[float]:
        """The number of each input: 1."""
        return [1.0] * count

    def sizes(self, *xs: Size) -> Size:
        """(M), (M), … to (M)."""
        self._check(xs)
        return xs[0]

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, None]:
        """The sum."""
        batch, dtype = same_steps(self, xs), xs[0].rows.dtype.type
        terms = (x.rows * dtype(w) for x, w in zip(xs, self.weights(len(xs)), strict=True))
        return Packed(sum(terms, start=dtype(0)), batch), None

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """Each input receives its share of the sum."""
        weights = self.weights(len(ran.inputs))
        terms = [Term(x.rows, R.dtype.type(w)) for x, w in zip(ran.inputs, weights, strict=True)]
        return back_through_sum(how, R, ran.outputs[0], terms, entry)


@dataclass(frozen=True, eq=False, repr=False)
class Add(Weighted):
    """The sum of the inputs: a residual connection. LRP: a sum of terms."""


@dataclass(frozen=True, eq=False, repr=False)
class Average(Weighted):
    """The mean of the inputs. LRP: a sum of terms."""

    def weights(self, count: int) -> list[float]:
        """1 over their number each."""
        return [1 / count] * count


@dataclass(frozen=True, eq=False, repr=False)
class Subtract(Weighted):
    """The first input minus the second. LRP: a sum of two terms."""

    def weights(self, count: int) -> list[float]:
        """1 and -1."""
        return [1.0, -1.0]

    def sizes(self, first: Size, second: Size) -> Size:  # type: ignore[override]
        """(M), (M) to (M)."""
        return super().sizes(first, second)


@dataclass(frozen=True, eq=False, repr=False)
class Multiply(Join):
    """The product of two inputs, elementwise.

    `gate` names the gate, a value from 0 to 1 that decides how much of the other passes: "first", "second", or None
    for neither.

    LRP: with a gate the product rule decides, as inside an LSTM. Without one the two share evenly, half and half.
    """

    gate: Literal["first", "second"] | None = None

    def __post_init__(self) -> None:
        one_of(self.gate, "Multiply: gate", ("first", "second", None))

    def sizes(self, first: Size, second: Size) -> Size:
        """(M), (M) to (M)."""
        self._check((first, second))
        return first

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, None]:
        """The product."""
        batch = same_steps(self, xs)
        return Packed(xs[0].rows * xs[1].rows, batch), None

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """By the product rule, or evenly."""
        batch, order = ran.outputs[0].batch, -1 if self.gate == "second" else 1
        pairs = ran.both(lambda one: tuple(x.rows for x in one.inputs[::order]))  # gate and signal
        if self.gate is None:
            to_first, to_second = how.even_product(*pairs)
            return [R * to_first, R * to_second]
        to_gate, to_signal, kept = how.product(*pairs)
        if how.times_input:
            entry.stabilizer(R * kept, batch)
            entry.see(R, batch)
        return [R * to_gate, R * to_signal][::order]
