"""Two directions of a recurrent layer as one. The only file in which left and right exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError, one_of
from lrpnumpy.layers.base import Keep, Layer, Ran, Size
from lrpnumpy.layers.recurrent import (
    STRAIGHT,
    Cell,
    Read,
    after,
    last_change,
    more_series,
    room_for_inputs,
    shown_states,
    summed,
)
from lrpnumpy.packed import Batch, Change, Packed, Split, covering, vectors
from lrpnumpy.rules.propagation import Entry, Propagation, back_through_sum
from lrpnumpy.rules.sums import Term

MERGES = ("concat", "sum", "mean")


@dataclass(frozen=True, eq=False, repr=False)
class Bidirectional(Layer):
    """Two cells, `forward` and `backward`, that read the sequence forwards and backwards; `merge` joins their outputs.

    LRP: with "concat" relevance goes where the value came from, "sum" and "mean" are sums of two terms.
    """

    forward: Cell  # type: ignore[assignment]
    backward: Cell  # type: ignore[assignment]
    merge: Literal["concat", "sum", "mean"] = "concat"

    recurrent: ClassVar[bool] = True
    looks_up: ClassVar[bool] = True
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

    def run(self, xs: Sequence[Packed], keep: Keep, wanted: tuple[str, ...]) -> tuple[tuple[Packed, ...], Any]:
        """Outputs of every step, and each direction's own last ones; the backward direction reads mirrored rows."""
        batch = xs[0].batch
        reads = (
            self.forward.read(xs, STRAIGHT, keep, "" in wanted),
            self.backward.read(xs, batch.flip, keep, "" in wanted),
        )
        sides = {name: _sides(reads, batch, name) for name in wanted}
        outputs = [Packed(self._merged(sides[name]), batch.ends if name else batch) for name in wanted]
        return tuple(outputs), (reads, sides)

    def _merged(self, sides: Sequence[np.ndarray]) -> np.ndarray:
        if self.merge == "concat":
            return np.concatenate(sides, axis=1)
        return (sides[0] + sides[1]) * sides[0].dtype.type(1 if self.merge == "sum" else 0.5)

    def _unmerged(
        self, R: np.ndarray, y: Packed, sides: Sequence[np.ndarray], how: Propagation, entry: Entry
    ) -> tuple[np.ndarray, np.ndarray]:
        """Back through the merge: what each direction's outputs get."""
        if self.merge == "concat":
            cut = self.forward.units
            return np.ascontiguousarray(R[:, :cut]), np.ascontiguousarray(R[:, cut:])
        weight = R.dtype.type(1 if self.merge == "sum" else 0.5)
        to_right, to_left = back_through_sum(how, R, y, [Term(side, weight) for side in sides], entry)
        return to_right, to_left

    def give_back(
        self, ran: Ran, Rs: Mapping[str, np.ndarray], how: Propagation, entry: Entry
    ) -> list[np.ndarray | None]:
        """Relevance of the inputs, from both directions."""
        batch, (reads, sides) = ran.inputs[0].batch, ran.trace
        arrives: dict[str, tuple[np.ndarray, np.ndarray]] = {
            name: self._unmerged(Rs[name], y, sides[name], how, entry)
            for name, y in zip(sides, ran.outputs, strict=True)
            if name in Rs
        }
        nothing = (None, None)
        references = nothing if ran.reference is None else ran.reference.trace[0]
        R_xs = [room_for_inputs(x, max(self.forward.units, self.backward.units)) for x in ran.inputs]
        last, steps = arrives.get(":last", nothing), arrives.get("", nothing)
        none = [None for _ in self.forward.states]
        right = self.forward.back(reads[0], steps[0], [last[0], *none], how, R_xs, entry, references[0])
        mirrored = None if steps[1] is None else steps[1][batch.flip]
        none = [None for _ in self.backward.states]
        left = self.backward.back(reads[1], mirrored, [last[1], *none], how, R_xs, entry, references[1])
        if entry.states is not None:
            entry.states += [
                ("forward", shown_states(right.states)),
                ("backward", shown_states(left.states)[:, batch.flip]),
            ]
        return [summed(x, R_x) for x, R_x in zip(ran.inputs, R_xs, strict=True)]

    def changed(
        self, ran: Ran, changes: Sequence[Change | None], wanted: tuple[str, ...], tol: float
    ) -> tuple[Change, ...]:
        """Where either direction has changed, with the sequence's own rows for the other."""
        x, (reads, _) = ran.inputs[0], ran.trace
        change = changes[0]
        if change is None or more_series(ran.inputs) or any(one is not None for one in changes[1:]):
            return super().changed(ran, changes, wanted, tol)
        T = x.batch.lengths[change.owner]
        both = (self.forward, reads[0], change), (self.backward, reads[1], change.mirrored(T))
        out = []
        for name in wanted:
            if name:
                last = [cell.varied(read, one, tol, False)[0] for cell, read, one in both]
                out.append(last_change(change.owner, self._merged(last)))
                continue
            found = [after(cell, read, one, tol) for cell, read, one in both]
            found[1] = found[1].mirrored(T)
            sides = [Packed(rows, x.batch) for rows in _sides(reads, x.batch, "")]
            whole, rows = covering(found, sides)  # type: ignore[misc]  # both directions have the same steps
            out.append(whole._replace(rows=self._merged(rows)))
        return tuple(out)

    def split(self, ran: Ran, parts: Sequence[Split], wanted: tuple[str, ...]) -> tuple[Split, ...]:
        """Contextual decomposition of each direction by its own definition."""
        if len(parts) > 1:
            return super().split(ran, parts, wanted)
        part, x, (reads, _) = parts[0], ran.inputs[0], ran.trace
        T = x.batch.lengths[part.owner]
        start, stop = T - part.stop, T - part.start
        mirrored = part._replace(start=start, stop=stop, since=start if part.beta is None else np.zeros_like(start))
        delta = np.zeros(self.outputs, x.rows.dtype)
        out = []
        for name in wanted:
            every = name == ""
            sides = (
                self.forward.decomposed(reads[0], part, 1, every),
                self.backward.decomposed(reads[1], mirrored, -1, every),
            )
            if every:
                beta = Packed(self._merged(sides), Batch(T))
                out.append(part._replace(beta=beta, delta=delta, since=np.zeros_like(part.since)))
            else:
                out.append(part.of_vector((T - 1) // 2, Packed(self._merged(sides), vectors(len(T))), delta))
        return tuple(out)

    def with_affine_before(self, s: np.ndarray, t: np.ndarray) -> Bidirectional | None:
        """Both directions take s x + t."""
        both = {side: getattr(self, side).with_affine_before(s, t) for side in ("forward", "backward")}
        return None if None in both.values() else replace(self, **both)

    def activations(self, number: int, ran: Ran) -> tuple[NamedTuple, ...]:
        """All states of one sequence, of each direction."""
        reads = ran.trace[0]
        return (
            self.forward.states_of(number, "forward", reads[0]),
            self.backward.states_of(number, "backward", reads[1]),
        )

    def described(self) -> str:
        """A line for `inspect`, and one for each direction."""
        sides = "".join(f"\n  {side} {getattr(self, side).described()}" for side in ("forward", "backward"))
        return f"Bidirectional, {self.inputs} to {self.outputs}, joined by {self.merge}{sides}"


def _sides(reads: Sequence[Read], batch: Batch, name: str) -> tuple[np.ndarray, np.ndarray]:
    """What each direction gives to the merge, in the order of the input."""
    if name:
        return reads[0].last, reads[1].last
    return reads[0].output, reads[1].output[batch.flip]
