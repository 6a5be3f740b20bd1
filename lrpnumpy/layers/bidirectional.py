"""Two cells as one layer, which read the sequence forwards and backwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from lrpnumpy.checks import LrpError, one_of
from lrpnumpy.layers.base import Size
from lrpnumpy.layers.recurrent import Cell, Read, Recurrent
from lrpnumpy.lazy import cached_property
from lrpnumpy.packed import Packed
from lrpnumpy.rules.propagation import Entry, Propagation, back_through_sum
from lrpnumpy.rules.sums import Term

MERGES = ("concat", "sum", "mean")


@dataclass(frozen=True, eq=False, repr=False)
class Bidirectional(Recurrent):
    """Two cells, `forward` and `backward`, that read the sequence forwards and backwards; `merge` joins their outputs.

    LRP: with "concat" relevance goes where the value came from, "sum" and "mean" are sums of two terms.
    """

    forward: Cell  # type: ignore[assignment]
    backward: Cell  # type: ignore[assignment]
    merge: Literal["concat", "sum", "mean"] = "concat"

    OUTPUTS: ClassVar[tuple[str, ...]] = ("", ":last")

    def __post_init__(self) -> None:
        for side in ("forward", "backward"):
            if not isinstance(getattr(self, side), Cell):
                kind = type(getattr(self, side)).__name__
                raise LrpError(f"Bidirectional: {side} must be a cell, such as lrp.LSTM, got {kind}.")
        one_of(self.merge, "Bidirectional: merge", MERGES)
        if self.forward.inputs != self.backward.inputs:
            raise LrpError(
                "Bidirectional: backward.U must take the same inputs as forward.U, "
                f"got {self.backward.inputs} columns against {self.forward.inputs}."
            )
        if self.merge != "concat" and self.forward.units != self.backward.units:
            raise LrpError(
                f"Bidirectional: merge={self.merge!r} must have directions of the same size, got "
                f"{self.forward.units} and {self.backward.units} units; use merge='concat'."
            )

    @property
    def inputs(self) -> int:
        """Length D of an input vector."""
        return self.forward.inputs

    @property
    def outputs(self) -> int:
        """Length of an output vector: the sum of both directions' units with "concat", else H."""
        return self.forward.units + (self.backward.units if self.merge == "concat" else 0)

    def sizes(self, x: Size, *others: Size) -> Size:
        """(D) to (H_forward + H_backward), or (H); further inputs go to both directions."""
        if len(others) + 1 > len(self.forward.statement.inputs):
            raise LrpError(f"inputs must be those of one direction without start states, got {len(others) + 1}.")
        for cell in (self.forward, self.backward):
            cell.sizes(x, *others)
        return x._replace(width=self.outputs)

    @cached_property
    def directions(self) -> list[tuple[str, Cell, int]]:
        """Both."""
        return [("forward", self.forward, 1), ("backward", self.backward, -1)]

    def merged(self, sides: Sequence[np.ndarray]) -> np.ndarray:
        """The outputs of both directions as one."""
        if self.merge == "concat":
            return np.concatenate(sides, axis=1)
        return (sides[0] + sides[1]) * sides[0].dtype.type(1 if self.merge == "sum" else 0.5)

    def unmerged(
        self, R: np.ndarray, reads: Sequence[Read], name: str, how: Propagation, entry: Entry
    ) -> Sequence[np.ndarray]:
        """Backward through the merge of the outputs of this `name`: the message of each direction."""
        if self.merge == "concat":
            cut = self.forward.units
            return [np.ascontiguousarray(R[:, :cut]), np.ascontiguousarray(R[:, cut:])]
        weight = R.dtype.type(1 if self.merge == "sum" else 0.5)
        sides, batch = self.sides(reads, name), reads[0].batch
        y = Packed(self.merged(sides), batch.ends if name else batch)
        return back_through_sum(how, R, y, [Term(side, weight) for side in sides], entry)

    def with_affine_before(self, s: np.ndarray, t: np.ndarray) -> Bidirectional | None:
        """Both directions take s x + t."""
        both = {side: getattr(self, side).with_affine_before(s, t) for side in ("forward", "backward")}
        return None if None in both.values() else replace(self, **both)

    def described(self) -> str:
        """A line for `inspect`, and one per direction."""
        sides = "".join(f"\n  {side} {getattr(self, side).described()}" for side in ("forward", "backward"))
        return f"Bidirectional, {self.inputs} to {self.outputs}, joined by {self.merge}{sides}"
