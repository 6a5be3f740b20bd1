"""A step of an LSTM that an exporter has written out as sums and products, as the operation LSTM.

TensorFlow's exporters do this for networks that take one step and hand on their states:

    z = x U + h W + b;  i, f, g, o = split(z);  c' = sigmoid(f) c + sigmoid(i) tanh(g);  h' = sigmoid(o) tanh(c')
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.files.operations import OperationGraph, OperationNode


class _Step(NamedTuple):
    """What is found: the names of the values, and the arrays in the order of ONNX' gates i, o, f, c."""

    x: str
    h: str
    c: str
    U: np.ndarray
    W: np.ndarray
    b: np.ndarray
    new_h: str
    new_c: str


def with_cells(graph: OperationGraph) -> OperationGraph:
    """The graph with the operation LSTM in place of its formulas."""
    search = _Search(graph)
    steps = {step.new_c: step for node in graph.nodes if (step := search.step(node)) is not None}
    if not steps:
        return graph
    constants = dict(graph.constants)
    hidden = {step.new_h for step in steps.values()}
    nodes: list[OperationNode] = []
    for node in graph.nodes:
        step = steps.get("".join(node.outputs))
        if step is not None:
            constants |= {f"{step.new_c}/U": step.U[None], f"{step.new_c}/W": step.W[None], f"{step.new_c}/b": step.b}
            nodes += _operations(step)
        elif not hidden.intersection(node.outputs):
            nodes.append(node)
    return graph._replace(constants=constants, nodes=tuple(_used(graph.outputs, nodes)))


def _used(outputs: Iterable[str], nodes: list[OperationNode]) -> list[OperationNode]:
    """The nodes that some output needs."""
    wanted, kept = set(outputs), list[OperationNode]()
    for node in reversed(nodes):
        if wanted.intersection(node.outputs):
            kept.append(node)
            wanted.update(node.inputs)
            for value in node.attributes.values():
                wanted.update(value.taken if isinstance(value, OperationGraph) else ())
    return kept[::-1]


def _operations(step: _Step) -> Iterator[OperationNode]:
    """A layer of one step, with axes for the step and the direction around it."""
    key = step.new_c
    where = f"LSTM {key}"[:80]
    names = {"x": step.x, "h": step.h, "c": step.c}
    for letter, name in names.items():
        yield OperationNode("Unsqueeze", "", where, (name,), (f"{key}/{letter}",), {"axes": [0]})
    inputs = (f"{key}/x", f"{key}/U", f"{key}/W", f"{key}/b", "", f"{key}/h", f"{key}/c")
    yield OperationNode("LSTM", "", where, inputs, ("", f"{key}/new h", f"{key}/new c"), {})
    for inner, name in ((f"{key}/new h", step.new_h), (f"{key}/new c", step.new_c)):
        yield OperationNode("Squeeze", "", where, (inner,), (name,), {"axes": [0]})


# Patterns of operations: a name matches any value. The inputs of sums and products may come in either order.
Pattern = str | tuple[Any, ...]
_HIDDEN: Pattern = ("Mul", ("Sigmoid", "o"), ("Tanh", "new c"))
_CELL: Pattern = ("Add", ("Mul", ("Sigmoid", "f"), "c"), ("Mul", ("Sigmoid", "i"), ("Tanh", "g")))
_GATES: Pattern = ("Add", ("Add", ("MatMul", "x", "U"), ("MatMul", "h", "W")), "b")


class _Search:
    """The nodes by what they make."""

    def __init__(self, graph: OperationGraph) -> None:
        self.constants = graph.constants
        self.made_by = {name: node for node in graph.nodes for name in node.outputs}

    def matches(self, name: str, pattern: Pattern) -> Iterator[dict[str, str]]:
        """The values that the names of a pattern are, for each way in which it fits."""
        if isinstance(pattern, str):
            yield {pattern: name}
            return
        op, *inner = pattern
        node = self.made_by.get(name)
        if node is None or node.op != op or len(node.inputs) != len(inner):
            return
        orders = [node.inputs, node.inputs[::-1]] if op in ("Add", "Mul") else [node.inputs]
        for order in orders:
            parts = [list(self.matches(one, part)) for one, part in zip(order, inner, strict=True)]
            for found in itertools.product(*parts):
                yield {key: value for part in found for key, value in part.items()}

    def step(self, node: OperationNode) -> _Step | None:
        """The step whose output h' this node computes."""
        for new_h in node.outputs if node.op == "Mul" else ():
            for last in self.matches(new_h, _HIDDEN):
                for found in self.matches(last["new c"], _CELL):
                    gates = [found["i"], last["o"], found["f"], found["g"]]
                    split = self.made_by.get(gates[0])
                    if split is None or split.op != "Split" or split.attributes.get("axis") not in (1, -1):
                        continue
                    order = [split.outputs.index(gate) for gate in gates if gate in split.outputs]
                    arrays = self.arrays(split.inputs[0], order) if sorted(order) == [0, 1, 2, 3] else None
                    if arrays is not None:
                        x, h, U, W, b = arrays
                        return _Step(x, h, found["c"], U, W, b, new_h, last["new c"])
        return None

    def arrays(self, total: str, order: list[int]) -> tuple[Any, ...] | None:
        """x, h, and the arrays of the sum that the gates are parts of."""
        for found in self.matches(total, _GATES):
            U, W, b = (self.constants.get(found[name]) for name in "UWb")
            if U is None or W is None or b is None or not self.is_state(found["h"]):
                continue
            H = b.size // 4
            if b.shape == (4 * H,) and U.shape[1:] == (4 * H,) and W.shape == (H, 4 * H):
                U, W = (_ordered(one.T, order, H) for one in (U, W))
                bias = np.concatenate([_ordered(b, order, H), np.zeros_like(b)])[None]
                return found["x"], found["h"], U, W, bias
        return None

    def is_state(self, name: str) -> bool:
        """Whether a value is a part of an input, not something that was computed."""
        while name in self.made_by:
            node = self.made_by[name]
            if node.op not in ("Slice", "Squeeze", "Unsqueeze", "Gather", "Reshape", "Transpose", "Split", "Identity"):
                return False
            name = node.inputs[0]
        return True


def _ordered(array: np.ndarray, order: list[int], H: int) -> Any:
    """Rows of the gates in another order."""
    return array.reshape(4, H, -1)[order].reshape(array.shape)
