"""A step of an LSTM that an exporter has written out as sums and products, as the operation LSTM.

TensorFlow's exporters do this for networks that take one step and hand on their states, and PyTorch's for LSTMCell:

    z = x U + h W + b;  i, f, g, o = split(z);  c' = sigmoid(f) c + sigmoid(i) tanh(g);  h' = sigmoid(o) tanh(c')
"""

from __future__ import annotations

import itertools
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
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


def with_cells(graph: OperationGraph, outer: ChainMap[str, Any] | None = None) -> OperationGraph:
    """The graph, and the branches in it, with the operation LSTM in place of its formulas; `outer` has constants."""
    known = (outer or ChainMap[str, Any]()).new_child(graph.constants)
    graph = graph._replace(nodes=tuple(_with_branches(node, known) for node in graph.nodes))
    search = _Search(graph, known)
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


def _with_branches(node: OperationNode, known: ChainMap[str, Any]) -> OperationNode:
    """The node with its branches rewritten."""
    branches = {
        key: with_cells(value, known) for key, value in node.attributes.items() if isinstance(value, OperationGraph)
    }
    if branches:
        return node._replace(attributes={**node.attributes, **branches})
    return node


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
_TWO_BIASES: Pattern = ("Add", ("Gemm", "x", "U", "b"), ("Gemm", "h", "W", "d"))  # of PyTorch
_PLAIN = {"transA": 0, "transB": 0, "alpha": 1.0, "beta": 1.0}  # of Gemm


class _Search:
    """The nodes by what they make."""

    def __init__(self, graph: OperationGraph, constants: Mapping[str, Any]) -> None:
        self.constants = constants
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
        if op == "Gemm" and {**_PLAIN, **node.attributes} != _PLAIN | {"transB": 1}:
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
        for found in itertools.chain(self.matches(total, _GATES), self.matches(total, _TWO_BIASES)):
            U, W, b = (self.constants.get(found[name]) for name in "UWb")
            if U is None or W is None or b is None or not self.is_state(found["h"]):
                continue
            second = np.zeros_like(b)
            if "d" in found:
                second = self.constants.get(found["d"])
            else:
                U, W = U.T, W.T
            H = b.size // 4
            if second is None or not b.shape == second.shape == (4 * H,):
                continue
            if U.ndim == 2 and len(U) == 4 * H and W.shape == (4 * H, H):
                U, W, b, second = (_ordered(one, order, H) for one in (U, W, b, second))
                return found["x"], found["h"], U, W, np.concatenate([b, second])[None]
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
