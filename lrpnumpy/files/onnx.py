"""ONNX graphs of LSTMs to a Model, by following what becomes of the input from node to node.

Needs the package `onnx` to take the file apart; nothing of the graph is run. Each value is a constant, or the
flow of the network with the meaning of its axes, or something that only shapes are made of. A node that does
something to the flow which a Model does not have is refused by the name of its operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from lrpnumpy.files import wire
from lrpnumpy.files.safe import MAX_BYTES, Budget, Source, count_of, open_file, size_of
from lrpnumpy.layers import LSTM, Bidirectional, Dense, Embedding, Layer
from lrpnumpy.model import Model

_IFGO = (0, 2, 3, 1)  # where i, f, g, o stand in ONNX's i, o, f, c
_TYPES = {1: np.float32, 10: np.float16, 11: np.float64, 6: np.int32, 7: np.int64}


def recognised(head: bytes) -> bool:
    """Whether a file starts as a ModelProto does: version, then producer, graph or operator set."""
    return len(head) > 2 and head[0] == 0x08 and 1 <= head[1] < 32 and head[2] in (0x12, 0x1A, 0x22, 0x3A, 0x42)


def read(path: Path, max_bytes: int = MAX_BYTES) -> tuple[str, Model, list[str]]:
    """Kind, model, and what was assumed."""
    source = Source(str(path), Budget(str(path), path.stat().st_size, max_bytes))
    with source.guard("", "is not an ONNX file that can be read"), open_file(path) as stream:
        source.spend("", size_of(stream))
        content = stream.read(size_of(stream))
        wire.check(source, content, wire.ONNX)
    try:
        import onnx
    except ImportError:
        raise source.error("", "is an ONNX file, which needs the package onnx; install lrpnumpy[onnx]") from None
    source.budget = Budget(source.file, len(content), max_bytes)  # the package may have taken its time to load
    with source.guard("", "is not an ONNX file that can be read"):
        model = onnx.ModelProto.FromString(content)
        del content
        _check_domains(source, model)
        graph = _Graph(source, model.graph)
        for node in model.graph.node:
            source.budget.visit("graph")
            graph.run(node)
        return (
            f"ONNX, from {model.producer_name or 'a program that is not said'}"[:80],
            graph.model(),
            graph.notes,
        )


def _check_domains(source: Source, model: Any) -> None:
    """Only ONNX' own operations are known: one of another domain, or of the file itself, may do anything."""
    if len(model.functions):
        name = str(model.functions[0].name)[:80]
        raise source.error("", f"has functions of its own, such as {name!r}, which are not supported")
    for node in model.graph.node:
        if node.domain not in ("", "ai.onnx"):
            where = f"{node.op_type} {node.name}".strip()[:80]
            raise source.error(
                where, f"is of the domain {str(node.domain)[:80]!r}, only ONNX' own operations are supported"
            )


@dataclass(frozen=True)
class _Flow:
    """What has become of the input: the meaning of each axis, and what has been done so far.

    `sides` are the directions that lie along the axis "direction", or that were joined into the features:
    pairs of a layer's number and 0 for forwards, 1 for backwards.
    """

    axes: tuple[str, ...]
    layers: int
    read: str | None = None
    sides: tuple[tuple[int, int], ...] = ()
    final: bool = False  # final states rather than the states of all steps


class _Shape:
    """A value that only shapes are made of; `zero` where it is an array of zeros, a start state."""

    def __init__(self, zero: bool = False) -> None:
        self.zero = zero


Value = np.ndarray | _Flow | _Shape


@dataclass
class _Graph:
    source: Source
    graph: Any
    values: dict[str, Any] = field(default_factory=dict)
    layers: list[Layer] = field(default_factory=list)
    embedding: Embedding | None = None
    readout: str | None = None
    output: str = "linear"
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for tensor in self.graph.initializer:
            if tensor.name in self.values:
                raise self.source.error(str(tensor.name)[:80], "stands twice among the initialisers")
            self.values[tensor.name] = self.constant(tensor)
        inputs = [value for value in self.graph.input if value.name not in self.values]
        if len(inputs) != 1 or len(self.graph.output) != 1:
            raise self.source.error("", f"must have one input and one output, it has {len(inputs)} inputs")
        rank = len(inputs[0].type.tensor_type.shape.dim)
        self.values[inputs[0].name] = _Flow(tuple(f"axis {k}" for k in range(rank)), 0)
        self.notes.append("ONNX' gates i, o, f, c are reordered to i, f, g, o, and the two biases are added")

    def constant(self, tensor: Any) -> np.ndarray:
        """An array of the file, which must be in the file."""
        where = str(tensor.name)[:80]
        if tensor.data_location == 1 or tensor.external_data:
            raise self.source.error(where, "is stored in another file, which is never opened")
        if tensor.data_type not in _TYPES:
            raise self.source.error(where, "must hold floats or whole numbers")
        from onnx import numpy_helper

        self.source.spend(where, count_of(self.source, where, list(tensor.dims)) * 8)
        found = numpy_helper.to_array(tensor)
        return found.astype(np.float32) if found.dtype == np.float16 else found

    def model(self) -> Model:
        """The model that the output is computed by."""
        end = self.values.get(self.graph.output[0].name)
        if not isinstance(end, _Flow) or end.layers != len(self.layers):
            raise self.source.error("", "has an output that does not come from its last layer")
        if not self.layers or not isinstance(self.layers[-1], Dense):
            self.flow_out(end, "output")
        return Model(
            tuple(self.layers),
            embedding=self.embedding,
            readout=self.readout or "every",  # type: ignore[arg-type]
            output=self.output,  # type: ignore[arg-type]
        )

    # ------------------------------------------------------------------------------------------------ nodes

    def run(self, node: Any) -> None:
        """Find out what one node does."""
        where = f"{node.op_type} {node.name}".strip()[:80]
        options = {a.name: _attribute(self, a) for a in node.attribute}
        if node.op_type == "Constant":
            self.values[node.output[0]] = options.get("value", _Shape())
            return
        inputs = [self.values.get(name) if name else None for name in node.input]
        if any(name and value is None for name, value in zip(node.input, inputs, strict=True)):
            raise self.source.error(where, "uses a value that no node before it makes")
        if not any(isinstance(value, _Flow) for value in inputs) or node.op_type == "Shape":
            self.values.update(dict.fromkeys(node.output, _shapes(node.op_type, inputs, options)))
            return
        if node.op_type not in _NODES:
            known = ", ".join(sorted(_NODES))
            raise self.source.error(where, f"is not supported; supported are {known}")
        if self.output != "linear":
            raise self.source.error(where, f"comes after a {self.output}, supported at the very end only")
        made = _NODES[node.op_type](self, where, inputs, options)
        for name, value in zip(node.output, made if isinstance(made, list) else [made], strict=False):
            self.values[name] = value

    def refuse(self, where: str, reason: str) -> Any:
        raise self.source.error(where, reason)

    def axis(self, where: str, flow: _Flow, number: Any) -> int:
        """An axis from 0, checked."""
        number = int(np.asarray(number).reshape(-1)[0])
        if not -len(flow.axes) <= number < len(flow.axes):
            self.refuse(where, f"has no axis {number}")
        return number % len(flow.axes)

    def gather(self, where: str, inputs: list[Any], options: dict[str, Any]) -> Value:
        table, index = inputs[0], inputs[1]
        axis = options.get("axis", 0)
        if isinstance(table, np.ndarray) and isinstance(index, _Flow):
            if table.ndim != 2 or axis != 0 or self.layers or self.embedding is not None:
                self.refuse(where, "is supported as the embedding of token ids only")
            self.embedding = Embedding(table)
            return replace(index, axes=(*index.axes, "feature"))
        if not isinstance(index, np.ndarray) or index.size != 1:
            self.refuse(where, "must take a single position")
        at = self.axis(where, table, axis)
        return self.pick(where, table, at, int(index.reshape(-1)[0]), keep=index.ndim > 0)

    def pick(self, where: str, flow: _Flow, at: int, index: int, keep: bool) -> _Flow:
        """One position along the directions, or the last one along time."""
        axes = flow.axes if keep else flow.axes[:at] + flow.axes[at + 1 :]
        if flow.axes[at] == "direction" and -len(flow.sides) <= index < len(flow.sides):
            return replace(flow, axes=axes, sides=(flow.sides[index],))
        if flow.axes[at] == "time" and index == -1 and not keep and flow.read is None:
            if any(side for _, side in flow.sides):
                self.refuse(
                    where,
                    "takes the last step of both directions: the backward one has read a single step there",
                )
            return replace(flow, axes=axes, read="last")
        return self.refuse(where, f"takes position {index} of the axis {flow.axes[at]}, which is not supported")

    def slice(self, where: str, inputs: list[Any], options: dict[str, Any]) -> _Flow:
        flow, *limits = inputs
        if len(limits) < 3 or not all(isinstance(v, np.ndarray) and v.size == 1 for v in limits):
            self.refuse(where, "must take a single position")
        start, stop, axis, *step = (int(v.reshape(-1)[0]) for v in limits)
        at = self.axis(where, flow, axis)
        taken = list(range(len(flow.sides)))[start:stop]
        if flow.axes[at] != "direction" or step not in ([], [1]) or len(taken) != 1:
            self.refuse(where, "is supported where it takes one direction only")
        return self.pick(where, flow, at, taken[0], keep=True)

    def split(self, where: str, inputs: list[Any], options: dict[str, Any]) -> list[_Flow]:
        flow = inputs[0]
        at = self.axis(where, flow, options.get("axis", 0))
        parts = np.asarray(inputs[1]).reshape(-1).tolist() if len(inputs) > 1 else [1] * len(flow.sides)
        if flow.axes[at] != "direction" or parts != [1] * len(flow.sides):
            self.refuse(where, "is supported between directions only")
        return [self.pick(where, flow, at, k, keep=True) for k in range(len(parts))]

    def concat(self, where: str, inputs: list[Any], options: dict[str, Any]) -> _Flow:
        first = inputs[0]
        flows = [value for value in inputs if isinstance(value, _Flow)]
        at = self.axis(where, flows[0], options.get("axis", 0))
        if len(flows) != len(inputs) or any(flow.axes != first.axes or not flow.final for flow in flows):
            self.refuse(where, "is supported between final states only")
        if first.axes[at] not in ("direction", "feature"):
            self.refuse(where, f"joins along the axis {first.axes[at]}, which is not supported")
        sides = tuple(side for flow in flows for side in flow.sides)
        return replace(first, sides=sides, layers=max(flow.layers for flow in flows))

    def transpose(self, where: str, inputs: list[Any], options: dict[str, Any]) -> _Flow:
        flow = inputs[0]
        order = options.get("perm", list(range(len(flow.axes)))[::-1])
        if sorted(order) != list(range(len(flow.axes))):
            self.refuse(where, "must reorder all axes")
        return replace(flow, axes=tuple(flow.axes[k] for k in order))

    def squeeze(self, where: str, inputs: list[Any], options: dict[str, Any]) -> _Flow:
        flow = inputs[0]
        numbers = inputs[1] if len(inputs) > 1 else options.get("axes")
        if not isinstance(numbers, (np.ndarray, list)) or np.size(numbers) != 1:
            self.refuse(where, "must take away one axis")
        at = self.axis(where, flow, numbers)
        if flow.axes[at] != "direction" or len(flow.sides) != 1:
            self.refuse(where, f"takes away the axis {flow.axes[at]}, which is not supported")
        return replace(flow, axes=flow.axes[:at] + flow.axes[at + 1 :])

    def reshape(self, where: str, inputs: list[Any], options: dict[str, Any]) -> _Flow:
        flow, shape = inputs[0], inputs[1]
        size = self.layers[-1].outputs if self.layers else 0
        if flow.axes[-2:] != ("direction", "feature") or not isinstance(shape, np.ndarray):
            self.refuse(where, "is supported where it joins the directions only")
        if shape.size != len(flow.axes) - 1 or shape.reshape(-1)[-1] not in (-1, size):
            self.refuse(where, "is supported where it joins the directions only")
        return replace(flow, axes=(*flow.axes[:-2], "feature"))

    def reduce(self, kind: str) -> Callable[[str, list[Any], dict[str, Any]], _Flow]:
        def run(where: str, inputs: list[Any], options: dict[str, Any]) -> _Flow:
            flow = inputs[0]
            numbers = inputs[1] if len(inputs) > 1 else options.get("axes")
            if not isinstance(numbers, (np.ndarray, list)) or np.size(numbers) != 1 or options.get("keepdims", 1):
                self.refuse(where, "must be over the steps, without keepdims")
            at = self.axis(where, flow, numbers)
            if flow.axes[at] != "time" or flow.read is not None or isinstance(self.layers[-1], Dense):
                self.refuse(where, "is supported over the steps, right after the last LSTM, only")
            return replace(flow, axes=flow.axes[:at] + flow.axes[at + 1 :], read=kind)

        return run

    # ----------------------------------------------------------------------------------------------- layers

    def flow_out(self, flow: _Flow, where: str) -> None:
        """See that a flow holds all directions of the last layer in order, and settle the readout."""
        if flow.layers != len(self.layers):
            self.refuse(where, "takes its input from before the last layer; only chains of layers are supported")
        if flow.axes[-1:] != ("feature",) or "direction" in flow.axes:
            self.refuse(where, f"has an input with the axes {flow.axes}; the features must be the last")
        recurrent = [k for k, layer in enumerate(self.layers) if not isinstance(layer, Dense)]
        if recurrent and recurrent[-1] == len(self.layers) - 1:
            two = isinstance(self.layers[-1], Bidirectional)
            if flow.sides != tuple((recurrent[-1], side) for side in range(1 + two)):
                self.refuse(where, "must take all directions of the last LSTM, forwards before backwards")
            self.readout = "last" if flow.final else flow.read

    def lstm(self, where: str, inputs: list[Any], options: dict[str, Any]) -> list[_Flow]:
        x, W, R, B, lengths, h0, c0, peepholes = (*inputs, *[None] * 8)[:8]
        if lengths is not None or peepholes is not None:
            self.refuse(where, "has sequence lengths or peepholes, which are not supported")
        if not isinstance(W, np.ndarray) or not isinstance(R, np.ndarray) or not isinstance(x, _Flow):
            self.refuse(where, "must have constant weights")
        if options.get("layout", 0) or options.get("input_forget", 0) or "clip" in options:
            self.refuse(where, "has layout, input_forget or clip, which are not supported")
        direction = options.get("direction", "forward")
        if direction not in ("forward", "bidirectional"):
            self.refuse(where, f"has direction {direction!r}, only forward and bidirectional are supported")
        n, H = 1 + (direction == "bidirectional"), R.shape[-1]
        given = options.get("activations", ["Sigmoid", "Tanh", "Tanh"] * n)
        if given != ["Sigmoid", "Tanh", "Tanh"] * n:
            self.refuse(where, f"has the activations {given}, only Sigmoid, Tanh, Tanh are supported")
        if self.layers:
            self.flow_out(x, where)
            if self.readout is not None:
                self.refuse(where, "comes after the steps have become one; only stacks are supported")
        stacked = any(not isinstance(layer, Dense) for layer in self.layers)
        if len(x.axes) != 3 or (stacked and x.axes != ("time", "batch", "feature")):
            self.refuse(where, f"has an input with the axes {x.axes}; it must be steps, batch, features")
        self.source.fits(where, W.shape, (n, 4 * H, None))
        self.source.fits(where, R.shape, (n, 4 * H, H))
        if B is None:
            B = np.zeros((n, 8 * H), W.dtype)
        self.source.fits(where, np.shape(B), (n, 8 * H))
        starts = [self.start(where, state, n, H) for state in (h0, c0)]
        sides = [
            LSTM(
                W[k].reshape(4, H, -1)[list(_IFGO)],
                R[k].reshape(4, H, H)[list(_IFGO)],
                B[k].reshape(2, 4, H).sum(axis=0)[list(_IFGO)],
                h0=None if starts[0] is None else starts[0][k],
                c0=None if starts[1] is None else starts[1][k],
            )
            for k in range(n)
        ]
        self.layers.append(Bidirectional(sides[0], sides[1]) if n == 2 else sides[0])
        sides_done = tuple((len(self.layers) - 1, k) for k in range(n))
        done = _Flow(("time", "direction", "batch", "feature"), len(self.layers), sides=sides_done)
        final = replace(done, axes=("direction", "batch", "feature"), read="last", final=True)
        return [done, final, replace(final, layers=-1)]

    def start(self, where: str, state: Any, n: int, H: int) -> np.ndarray | None:
        """A start state (n, H), which must be the same for all sequences; None for zero."""
        if state is None or (isinstance(state, _Shape) and state.zero):
            return None
        if not isinstance(state, np.ndarray):
            self.refuse(where, "has a start state that is not constant")
        self.source.fits(where, state.shape, (n, None, H))
        if (state != state[:, :1]).any():
            self.refuse(where, "has start states that differ between sequences")
        return state[:, 0] if state.any() else None

    def dense(self, where: str, flow: Any, V: Any, d: Any) -> _Flow:
        if not isinstance(flow, _Flow) or not isinstance(V, np.ndarray) or V.ndim != 2:
            self.refuse(where, "must multiply with a constant matrix")
        if self.layers:
            self.flow_out(flow, where)
        self.layers.append(Dense(V, d))
        return replace(flow, layers=len(self.layers), sides=(), final=False)

    def gemm(self, where: str, inputs: list[Any], options: dict[str, Any]) -> _Flow:
        if options.get("alpha", 1.0) != 1 or options.get("beta", 1.0) != 1 or options.get("transA", 0):
            self.refuse(where, "has alpha, beta or transA, which are not supported")
        V = inputs[1] if options.get("transB", 0) or not isinstance(inputs[1], np.ndarray) else inputs[1].T
        return self.dense(where, inputs[0], V, inputs[2] if len(inputs) > 2 else None)

    def matmul(self, where: str, inputs: list[Any], options: dict[str, Any]) -> _Flow:
        return self.dense(where, inputs[0], inputs[1].T if isinstance(inputs[1], np.ndarray) else None, None)

    def add(self, where: str, inputs: list[Any], options: dict[str, Any]) -> _Flow:
        flow, d = inputs if isinstance(inputs[0], _Flow) else inputs[::-1]
        last = self.change(where, flow)
        if not isinstance(d, np.ndarray) or d.shape != last.d.shape or last.d.any():  # type: ignore[union-attr]
            self.refuse(where, "is supported as the bias of a matrix product only")
        self.layers[-1] = replace(last, d=d)
        return flow

    def activation(self, kind: str) -> Callable[[str, list[Any], dict[str, Any]], _Flow]:
        def run(where: str, inputs: list[Any], options: dict[str, Any]) -> _Flow:
            self.layers[-1] = replace(self.change(where, inputs[0]), activation=kind)
            return inputs[0]

        return run

    def probability(self, kind: str) -> Callable[[str, list[Any], dict[str, Any]], _Flow]:
        def run(where: str, inputs: list[Any], options: dict[str, Any]) -> _Flow:
            flow = inputs[0]
            plain = "axis" not in options and (kind == "sigmoid" or len(flow.axes) == 2)
            at = len(flow.axes) - 1 if plain else self.axis(where, flow, options.get("axis", 0))
            if not self.layers or at != len(flow.axes) - 1:
                self.refuse(where, "is supported over the scores, at the very end, only")
            self.output = kind
            self.notes.append(f"the {kind} at the end is taken off: the scores explained are what it is applied to")
            return flow

        return run

    def change(self, where: str, flow: Any) -> Dense:
        """The last layer, if it is a Dense that the flow comes from and that has no activation yet."""
        last = self.layers[-1] if self.layers else None
        if not isinstance(last, Dense) or last.activation != "linear" or flow.layers != len(self.layers):
            self.refuse(where, "is supported right after a matrix product only")
        return last  # type: ignore[return-value]

    def same(self, where: str, inputs: list[Any], options: dict[str, Any]) -> _Flow:
        if self.layers and options.get("to", 1) not in (1, 11):
            self.refuse(where, "is supported between float32 and float64 only")
        return inputs[0]


_Node = Callable[[_Graph, str, list[Any], dict[str, Any]], Any]
_NODES: dict[str, _Node] = {
    "Gather": _Graph.gather,
    "Slice": _Graph.slice,
    "Split": _Graph.split,
    "Concat": _Graph.concat,
    "Transpose": _Graph.transpose,
    "Squeeze": _Graph.squeeze,
    "Reshape": _Graph.reshape,
    "LSTM": _Graph.lstm,
    "Gemm": _Graph.gemm,
    "MatMul": _Graph.matmul,
    "Add": _Graph.add,
    "ReduceMean": lambda graph, *node: graph.reduce("mean")(*node),
    "ReduceMax": lambda graph, *node: graph.reduce("max")(*node),
    "Relu": lambda graph, *node: graph.activation("relu")(*node),
    "Tanh": lambda graph, *node: graph.activation("tanh")(*node),
    "Softmax": lambda graph, *node: graph.probability("softmax")(*node),
    "Sigmoid": lambda graph, *node: graph.probability("sigmoid")(*node),
    "Identity": _Graph.same,
    "Dropout": _Graph.same,
    "Cast": _Graph.same,
}


def _shapes(kind: str, inputs: Sequence[Any], options: dict[str, Any]) -> Value:
    """What comes of constants and shapes: never looked at, but for whether it is zero."""
    if kind == "ConstantOfShape":
        return _Shape(zero=not np.any(options.get("value", 0)))
    if kind in ("Slice", "Expand", "Identity", "Squeeze", "Unsqueeze", "Split"):
        first = inputs[0]
        if isinstance(first, np.ndarray):
            return first if kind == "Identity" else _Shape(zero=first.dtype.kind == "f" and not first.any())
        return _Shape(zero=isinstance(first, _Shape) and first.zero)
    return _Shape()


def _attribute(graph: _Graph, attribute: Any) -> Any:
    """An attribute of a node as a plain value; subgraphs and the like are none."""
    kind = attribute.type
    plain = {1: "f", 2: "i", 6: "floats", 7: "ints"}
    if kind in plain:
        value = getattr(attribute, plain[kind])
        return list(value) if kind in (6, 7) else value
    if kind == 3:
        return attribute.s.decode("utf-8")
    if kind == 8:
        return [text.decode("utf-8") for text in attribute.strings]
    return graph.constant(attribute.t) if kind == 4 else None
