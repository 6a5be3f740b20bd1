"""A statement run forward by NumPy over packed rows.

Operations that depend on no state run once, on the rows of all steps ("early"). The others run step by step. NumPy
computes in float64, whatever the dtype of the model: so its results differ from those of compiled kernels only by what
the kernels round off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.activations import INVERSE_ROOT
from lrpnumpy.packed import Batch, Packed
from lrpnumpy.statement.trace import FUNCTIONS, Axes, Operation, Statement

Arrays = Mapping[str, np.ndarray]


def aligned(value: np.ndarray, axes: Axes, to: Axes) -> np.ndarray:
    """`value` (n, *axes), or (*axes), with the axes `to`, and 1 where it has no such axis."""
    if axes == to:
        return value
    lead = value.ndim - len(axes)
    order = [lead + axes.index(axis) for axis in to if axis in axes]
    value = value.transpose(*range(lead), *order)
    sizes = iter(value.shape[lead:])
    return value.reshape(*value.shape[:lead], *(next(sizes) if axis in axes else 1 for axis in to))


class Normed(NamedTuple):
    """The parts of a LayerNorm: its values are u r, scaled and shifted."""

    u: np.ndarray  # v - mean
    q: np.ndarray  # variance + eps
    r: np.ndarray  # 1 / sqrt(q)


def normed(v: np.ndarray, eps: float, center: bool = True) -> Normed:
    """LayerNorm of v over its last axis; without `center` RMSNorm."""
    u = v - v.mean(axis=-1, keepdims=True) if center else v
    q = (u * u).mean(axis=-1, keepdims=True) + u.dtype.type(eps)
    return Normed(u, q, INVERSE_ROOT.F(q))


def computed(node: Operation, arrays: Arrays, at: Any) -> np.ndarray:
    """The value of an operation; at(argument, axes) returns the values of its arguments."""
    args, axes = node.args, node.axes
    if node.op == "matrix":
        return at(args[0], args[0].axes) @ arrays[node.name].T
    if node.op == "diagonal":
        return at(args[0], axes) * aligned(arrays[node.name], node.of, axes)
    if node.op == "bias":
        return arrays[node.name][None]
    if node.op == "sum":
        total = at(args[0], axes)
        for term in args[1:]:
            total = total + at(term, axes)
        return total
    if node.op == "product":
        return at(args[0], axes) * at(args[1], axes)
    if node.op == "apply":
        return FUNCTIONS[node.name].F(at(args[0], axes))
    if node.op == "maximum":
        return np.maximum(at(args[0], axes), at(args[1], axes))
    if node.op == "total":
        return at(args[0], args[0].axes).sum(axis=1 + args[0].axes.index(node.name))
    if node.op == "norm":
        u, _, r = normed(at(args[0], axes), node.eps)
        y = u * r * arrays[node.name]
        return y + arrays[node.beta] if node.beta else y
    return at(args[0], axes)  # same, whole, fixed, stop


class InterpretedRun:
    """All values of all rows, in the order in which the rows are read."""

    def __init__(
        self,
        statement: Statement,
        arrays: Arrays,
        inputs: Sequence[np.ndarray],
        batch: Batch,
        start: Sequence[np.ndarray],
        sizes: Mapping[str, int],
    ) -> None:
        """`inputs` (R, width) each, `start` (n or 1, *axes) the states before the first step."""
        self.statement, self.arrays, self.batch = statement, arrays, batch
        n, R = batch.n, batch.R
        self.inputs = inputs
        self.values: dict[Operation, np.ndarray] = dict(zip(statement.inputs, inputs, strict=True))
        self.start = [
            np.broadcast_to(one, (n, *(sizes[axis] for axis in node.axes)))
            for one, node in zip(start, statement.states, strict=True)
        ]
        late = statement.sources
        for node in statement.nodes:
            if not late[node]:
                value = computed(node, arrays, lambda one, axes: aligned(self.values[one], one.axes, axes))
                self.values[node] = value if len(value) == R else np.broadcast_to(value, (R, *value.shape[1:]))
        for node in (*statement.states, *(one for one in statement.nodes if late[one])):
            self.values[node] = np.empty((R, *(sizes[axis] for axis in node.axes)))
        states = [one.copy() for one in self.start]
        for t in range(len(batch.first) - 1):
            self._step(slice(batch.first[t], batch.first[t + 1]), states)
        self.last = states  # (n, *axes) each, after each sequence's last step

    def _step(self, rows: slice, states: list[np.ndarray]) -> None:
        count, statement = rows.stop - rows.start, self.statement
        for node, state in zip(statement.states, states, strict=True):
            self.values[node][rows] = state[:count]
        for node in statement.nodes:
            if statement.sources[node]:
                value = computed(node, self.arrays, lambda one, axes: self.at(one, rows, axes))
                self.values[node][rows] = value
        for state, node in zip(states, statement.after, strict=True):
            state[:count] = self.values[node][rows]

    def at(self, node: Operation, rows: Any, axes: Axes | None = None) -> np.ndarray:
        """The value of a node in some rows, with the axes `axes`."""
        return aligned(self.values[node][rows], node.axes, node.axes if axes is None else axes)

    @property
    def output(self) -> np.ndarray:
        """(R, M) outputs of every row."""
        return self.values[self.statement.output]

    @property
    def last_output(self) -> np.ndarray:
        """(n, M) outputs of each sequence's last step."""
        return self.output[self.batch.last]

    def spread(self, x: Packed) -> InterpretedRun:
        """The run of one sequence as that of a batch `x` of its beginnings."""
        run, batch = object.__new__(InterpretedRun), x.batch
        run.statement, run.arrays, run.batch = self.statement, self.arrays, batch
        run.inputs = [one[batch.step] for one in self.inputs]
        run.values = {node: value[batch.step] for node, value in self.values.items()}
        run.start = [np.broadcast_to(one, (batch.n, *one.shape[1:])) for one in self.start]
        run.last = [run.values[node][batch.last] for node in self.statement.after]
        return run

    def before(self, k: int, lo: np.ndarray, owner: np.ndarray) -> np.ndarray:
        """(V, *axes) state k of the sequences `owner` before their steps `lo`."""
        ended = lo >= self.batch.lengths[owner]
        rows = self.batch.first[np.where(ended, 0, lo)] + owner
        out = self.values[self.statement.states[k]][rows]
        out[ended] = self.last[k][owner[ended]]
        return out
