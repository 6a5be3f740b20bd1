"""Layers that exchange steps and features, or put empty steps around a series: Transpose, Pad.

LRP and the gradient: what arrives goes where the value came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lrpnumpy.checks import LrpError, whole
from lrpnumpy.layers.base import Keep, Layer, Ran, Size, needs_steps
from lrpnumpy.packed import Batch, Packed, Part
from lrpnumpy.rules.propagation import Entry, Propagation


def _transposed(packed: Packed, width: int) -> Packed:
    """Every sequence, (T, M), as (M, T)."""
    batch, M = packed.batch, packed.rows.shape[1]
    after = Batch(np.full(batch.n, M))
    flat = batch.unpack(packed.rows).reshape(batch.n, width, M)
    return Packed(after.pack(flat.transpose(0, 2, 1).reshape(-1, width)), after)


@dataclass(frozen=True, eq=False, repr=False)
class Transpose(Layer):
    """Steps as features and features as steps: (T, M) to (M, T) (Keras: Permute((2, 1))).

    `steps` is T, the number that a series must have. Contextual decomposition: all steps are inside the phrase if the
    middle one of the old steps is; what biases give counts as their own value.
    """

    steps: int

    def __post_init__(self) -> None:
        self._set(steps=whole(self.steps, "Transpose: steps", 1))

    def sizes(self, x: Size) -> Size:
        """(M) at every step to (T) for every feature."""
        needs_steps(x)
        return x._replace(width=self.steps)

    def least(self, steps: int) -> int:
        """Its own number."""
        return self.steps

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, None]:
        """(n T, M) to (n M, T)."""
        lengths = xs[0].batch.lengths
        if (lengths != self.steps).any():
            got = lengths[lengths != self.steps][0]
            raise LrpError(
                f"Transpose: a series must have {self.steps} steps, got {got}; this network takes one length only."
            )
        return _transposed(xs[0], self.steps), None

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """The same, back."""
        return [_transposed(Packed(R, ran.outputs[0].batch), ran.inputs[0].rows.shape[1]).rows]

    def split(self, ran: Ran, parts: Sequence[Part], wanted: tuple[str, ...]) -> tuple[Part, ...]:
        """beta goes where the value goes."""
        part, x = parts[0], ran.inputs[0]
        after = _transposed(part.written(x), self.steps)
        middle, M = (self.steps - 1) // 2, x.rows.shape[1]
        inside = (part.start <= middle) & (middle < part.stop)
        biases = part.delta[after.batch.step, None] * inside[after.batch.owner, None]
        start, stop = np.zeros_like(part.start), np.where(inside, M, 0)
        delta = np.zeros(self.steps, x.rows.dtype)
        return (Part(after._replace(rows=after.rows + biases), delta, part.owner, start, stop, start),)


@dataclass(frozen=True, eq=False, repr=False)
class Pad(Layer):
    """A series with `before` steps of zeros put before it and `after` behind it (Keras: ZeroPadding1D).

    Contextual decomposition: what is put there is outside the phrase.
    """

    before: int = 1
    after: int = 1

    def __post_init__(self) -> None:
        for name in ("before", "after"):
            self._set(**{name: whole(getattr(self, name), f"Pad: {name}", 0)})

    def sizes(self, x: Size) -> Size:
        """The same width, more steps."""
        needs_steps(x)
        return x

    def least(self, steps: int) -> int:
        """Fewer than it gives."""
        return max(1, steps - self.before - self.after)

    def _padded(self, x: Packed) -> tuple[Packed, np.ndarray]:
        """More rows, and which of them are the old ones."""
        batch = Batch(x.batch.lengths + (self.before + self.after))
        old = batch.first[x.batch.step + self.before] + x.batch.owner
        rows = np.zeros((batch.R, x.rows.shape[1]), x.rows.dtype)
        rows[old] = x.rows
        return Packed(rows, batch), old

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, np.ndarray]:
        """(R, M) to more rows; the trace is which of them are the old ones."""
        return self._padded(xs[0])

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """What arrives at the zeros counts as that of a bias."""
        R_x = R[ran.trace]
        if how.times_input:
            lost = R.copy()
            lost[ran.trace] = 0
            entry.bias(lost, ran.outputs[0].batch)
        return [R_x]

    def split(self, ran: Ran, parts: Sequence[Part], wanted: tuple[str, ...]) -> tuple[Part, ...]:
        """beta goes where the value goes."""
        part = parts[0]
        beta, _ = self._padded(part.written(ran.inputs[0]))
        start, stop = part.start + self.before, part.stop + self.before
        return (Part(beta, part.delta, part.owner, start, stop, np.zeros_like(start)),)
