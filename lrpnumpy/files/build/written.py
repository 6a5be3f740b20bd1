"""A step of an LSTM that an exporter has written out as sums and products, as the operation LSTM.

TensorFlow's exporters do this for networks that take one step and hand on their states:

    z = x U + h W + b;  i, f, g, o = split(z);  c' = sigmoid(f) c + sigmoid(i) tanh(g);  h' = sigmoid(o) tanh(c')
"""

from __future__ import annotations

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


class _Search:
    """The nodes by what they make."""

    def __init__(self, graph: OperationGraph) -> None:
        self.constants = graph.constants
        self.made_by = {name: node for node in graph.nodes for name in node.outputs}

    def parts(self, name: str, *ops: str) -> list[str] | None:
        """The inputs of the node that makes a value, those of these operations first; None where they are others."""
        node = self.made_by.get(name)
        found = [] if node is None else list(node.inputs)
        if len(found) != len(ops):
            return None
        for order in (found, found[::-1]):
            if all(op in ("", self.op(one)) for op, one in zip(ops, order, strict=True)):
                return order
        return None

    def op(self, name: str) -> str:
        return self.made_by[name].op if name in self.made_by else ""

    def step(self, node: OperationNode) -> _Step | None:
        """The step whose output h' this node computes."""
        if node.op != "Mul" or len(node.inputs) != 2:
            return None
        (new_h,) = node.outputs
        last = self.parts(new_h, "Sigmoid", "Tanh")
        new_c = (self.parts(last[1], "Add") or [""])[0] if last else ""
        sides = self.parts(new_c, "Mul", "Mul") if new_c else None
        if last is None or sides is None:
            return None
        for kept, added in (sides, sides[::-1]):
            old, new = self.parts(kept, "Sigmoid", ""), self.parts(added, "Sigmoid", "Tanh")
            if old is not None and new is not None and self.op(old[1]) not in ("Tanh", "Sigmoid"):
                inner = [self.parts(one, "Split") for one in (new[0], last[0], old[0], new[1])]  # i, o, f, g
                return self.gates([one[0] for one in inner if one], old[1], new_h, new_c)
        return None

    def gates(self, gates: list[str], c: str, new_h: str, new_c: str) -> _Step | None:
        """The arrays of the sum that the gates are parts of."""
        node = self.made_by.get(gates[0]) if len(set(gates)) == 4 else None
        if node is None or sorted(node.outputs) != sorted(gates) or node.attributes.get("axis") not in (1, -1):
            return None
        order = [node.outputs.index(gate) for gate in gates]
        shifted = self.parts(node.inputs[0], "Add", "")
        both = self.parts(shifted[0], "MatMul", "MatMul") if shifted else None
        if shifted is None or both is None:
            return None
        b = self.constants.get(shifted[1])
        products = [self.made_by[one].inputs for one in both]
        arrays: list[Any] = [self.constants.get(one[1]) for one in products]
        if b is None or any(one is None or one.ndim != 2 for one in arrays):
            return None
        H = b.size // 4
        for k, (U, W) in enumerate((arrays, arrays[::-1])):
            x, h = products if k == 0 else products[::-1]
            if b.shape == (4 * H,) and U.shape[1:] == W.shape[1:] == (4 * H,) and len(W) == H and self.is_state(h[0]):
                U, W = (_ordered(one.T, order, H) for one in (U, W))
                bias = np.concatenate([_ordered(b, order, H), np.zeros_like(b)])[None]
                return _Step(x[0], h[0], c, U, W, bias, new_h, new_c)
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
