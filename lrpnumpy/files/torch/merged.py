"""Runs of one module at several sizes, as one graph: a number that changes with the sizes becomes a formula of them.

This is the only place that knows the records of the builder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.files.build.constants import Spread, Unknown
from lrpnumpy.files.build.graph import build
from lrpnumpy.files.build.sizes import Dim, index_along, sizes
from lrpnumpy.files.operations import OperationGraph, OperationInput, OperationNode
from lrpnumpy.files.safe import Source
from lrpnumpy.files.torch.recorded import Op, Recorded
from lrpnumpy.layers import Layer
from lrpnumpy.model import Model

FREE = "NT"  # the batch and the steps


class Sizes(NamedTuple):
    """Of one run."""

    N: int
    T: int


class Different(Exception):
    """Runs that do different things."""


def model_of(
    source: Source, runs: Sequence[Recorded], sizes: Sequence[Sizes], ports: Sequence[Any], which: str
) -> Model:
    """The model of the output `which`; `ports` are the inputs, with the meaning of their axes."""
    merge = _Merge(runs, sizes)
    nodes = merge.nodes(which)
    inputs = []
    for port in ports:
        shape = merge.value([run.shapes[port.name] for run in runs])
        dims = tuple(repr(n).removeprefix("1*") if isinstance(n, Dim) else n for n in shape)
        inputs.append(OperationInput(port.name, port.is_ids, dims))
    output = merge.name([run.outputs[which] for run in runs], which)
    graph = OperationGraph(tuple(inputs), (output,), merge.constants, tuple(nodes))
    return build(source, graph, axes={port.name: port.axes for port in ports}).model


class _Merge:
    def __init__(self, runs: Sequence[Recorded], sizes: Sequence[Sizes]) -> None:
        self.runs, self.sizes = runs, sizes
        self.constants: dict[str, Any] = {}
        # names in each run to the name in the graph
        self.known: dict[tuple[str, ...], str] = {(name,) * len(runs): name for name in runs[0].inputs}

    def nodes(self, which: str) -> list[OperationNode]:
        """Every operation that the output depends on."""
        lists = [needed(run, which) for run in self.runs]
        if len({tuple(op.op for op in ops) for ops in lists}) > 1:
            raise Different("does other things for other numbers of steps or sequences")
        made: list[OperationNode] = []
        for ops in zip(*lists, strict=True):
            first = ops[0]
            if first.op in ("Unsupported", "SetItem"):
                reason = first.attributes.get("reason", "writes to a part of a tensor, but not step by step in a loop")
                raise Different(f"{first.where}() {reason}")
            inputs = [self.name(names, first.where) for names in zip(*(op.inputs for op in ops), strict=True)]
            for names in zip(*(op.outputs for op in ops), strict=True):
                self.known[names] = names[0]
            attributes = {key: self.value([op.attributes[key] for op in ops]) for key in first.attributes}
            made += self.emitted(Op(first.op, tuple(inputs), first.outputs, attributes, first.where), made)
        return made

    # ------------------------------------------------------------------------------------------------- what changes

    def name(self, names: Sequence[str], where: str) -> str:
        """A value by its names in all runs."""
        names = tuple(names)
        if names == ("",) * len(names):
            return ""
        if names not in self.known:
            if not all(name in run.arrays for name, run in zip(names, self.runs, strict=True)):
                raise Different("does other things for other numbers of steps or sequences")
            found = self.array([run.arrays[name] for name, run in zip(names, self.runs, strict=True)], where)
            self.known[names] = key = f"constant {len(self.constants)}"
            self.constants[key] = found
        return self.known[names]

    def value(self, values: Sequence[Any]) -> Any:
        """An attribute of all runs."""
        first = values[0]
        if isinstance(first, Layer):
            return first
        if isinstance(first, np.ndarray):
            return self.array(values, "")
        if isinstance(first, (list, tuple)):
            if len({len(one) for one in values}) > 1:
                raise Different("does other things for other numbers of steps or sequences")
            return [self.value(items) for items in zip(*values, strict=True)]
        if isinstance(first, int) and not isinstance(first, bool):
            return self.formula(values)
        if any(one != first for one in values):
            raise Different("uses a number that changes with the number of steps")
        return first

    def formula(self, values: Sequence[int]) -> Any:
        """A number as a + b N + c T + d N T."""
        if all(one == values[0] for one in values):
            return values[0]
        columns = [(), *((one,) for one in FREE if len({getattr(size, one) for size in self.sizes}) > 1)]
        if len(columns) == 3:
            columns.append(tuple(FREE))
        table = [[float(np.prod([getattr(size, one) for one in column])) for column in columns] for size in self.sizes]
        found = np.linalg.lstsq(np.array(table), np.array(values, float), rcond=None)[0]
        whole = np.rint(found).astype(int)
        if (np.array(table) @ whole != np.array(values)).any():
            raise Different("computes with the number of steps in a way that is not supported")
        return Dim({column: int(n) for column, n in zip(columns, whole, strict=True) if n})

    def array(self, arrays: Sequence[np.ndarray], where: str) -> Any:
        """A constant: an array, or one with axes that are as long as the batch or the steps."""
        first = arrays[0]
        if all(one.shape == first.shape and np.array_equal(one, first) for one in arrays):
            return first
        unknown = Unknown(where, "is a constant that changes with the number of steps or sequences")
        if len({one.ndim for one in arrays}) > 1:
            return unknown
        try:
            shape = self.value([one.shape for one in arrays])
        except Different:
            return unknown
        if first.ndim == 1 and all(np.array_equal(one, np.arange(len(one))) for one in arrays):
            return Spread(sizes([index_along(shape[0])]), tuple(shape))
        shortest = [one[tuple(slice(0, 1) if isinstance(n, Dim) else slice(None) for n in shape)] for one in arrays]
        if any((one != short).any() for one, short in zip(arrays, shortest, strict=True)):
            return unknown
        if all(np.array_equal(one, shortest[0]) for one in shortest):
            return Spread(shortest[0], tuple(shape))
        if shortest[0].size == 1 and first.dtype.kind in "iu":  # lengths, each the number of steps
            size = self.formula([int(one.reshape(-1)[0]) for one in shortest])
            return Spread(sizes([size]).reshape(shortest[0].shape), tuple(shape))
        return unknown

    # ------------------------------------------------------------------------------------------- what the builder takes

    def emitted(self, op: Op, made: list[OperationNode]) -> list[OperationNode]:
        """An operation as nodes of the builder."""
        if op.op == "CellStep":
            return self.one_step(op)
        if op.op == "Div" and (mean := self.mean(op, made)):
            return [mean._replace(op="ReduceMean", outputs=op.outputs)]
        return [_node(op, op.op, op.inputs, op.outputs, **op.attributes)]

    def mean(self, op: Op, made: list[OperationNode]) -> OperationNode | None:
        """A sum over all steps that is divided by their number."""
        before = next((one for one in made if one.outputs[0] == op.inputs[0]), None)
        if before is None or before.op != "ReduceSum" or op.inputs[1] not in self.constants:
            return None
        names = next(names for names, name in self.known.items() if name == op.inputs[1])
        counts = [run.arrays[name] for run, name in zip(self.runs, names, strict=True)]
        steps = [size.T for size in self.sizes]
        is_count = all(one.size and (one == T).all() for one, T in zip(counts, steps, strict=True))
        return before if is_count and len(set(steps)) > 1 else None

    def one_step(self, op: Op) -> list[OperationNode]:
        """A cell that is used once: a layer of one step."""
        wide = [f"{op.outputs[0]}/{k}" for k in range(len(op.inputs))]
        ends = [f"{one}/end" for one in op.outputs]
        before = [_node(op, "Unsqueeze", [one], [new], axes=[0]) for one, new in zip(op.inputs, wide, strict=True)]
        after = [_node(op, "Squeeze", [end], [one], axes=[0]) for end, one in zip(ends, op.outputs, strict=True)]
        return [*before, _node(op, "Cell", wide, [f"{op.outputs[0]}/every", *ends], **op.attributes), *after]


def _node(op: Op, kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> OperationNode:
    return OperationNode(kind, "", op.where, tuple(inputs), tuple(outputs), attributes)


def needed(run: Recorded, which: str) -> list[Op]:
    """The operations that an output depends on, but for those that make constants."""
    wanted, found = {run.outputs[which]}, []
    for op in reversed(run.ops):
        names = [name for name in op.outputs if name in wanted]
        if names and not all(name in run.arrays for name in names):
            found.append(op)
            wanted.update(op.inputs)
    return found[::-1]
