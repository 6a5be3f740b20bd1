"""A trained network: named nodes, each a layer and the names of its inputs; checked, in one dtype, with a digest."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError, names, one_of
from lrpnumpy.layers import Bidirectional, Cell, Embedding, LastRow, Layer, Max, Mean, Record, Size

READOUTS = ("last", "mean", "max", "last-row", "every")
OUTPUTS = ("linear", "softmax", "sigmoid")
INPUT = "x"  # name of the input
READOUT = "readout"  # name of the node of a readout
BETWEEN: dict[str, Layer] = {"mean": Mean(), "max": Max(), "last-row": LastRow()}


class Node(NamedTuple):
    """One layer of a network, and where its inputs come from.

    An input is the name of another node, or of an input of the network. `"encoder:last"` is the last state of the
    recurrent layer `encoder`, each direction's own, where `"encoder"` is its output at every step.
    """

    name: str
    layer: Layer
    inputs: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Model(Record):
    """A trained network: embedding, layers, and how the steps become one prediction.

    `layers` is a list of layers, each taking what the one before gives, or a list of `Node`s. In a list of layers the
    readout sits after the last recurrent layer: "last" (each direction's own final state), "last-row" (the row of the
    last step, `out[:, -1]` in PyTorch), "mean" or "max" over the steps, or "every": the head predicts at each step.
    Dense layers after it are the head, Dense layers before it act at each step. Nodes say it themselves, and the last
    node gives the scores. `output` says which probability belongs to the scores: "softmax" (the default for several
    outputs), "sigmoid", or "linear" for none (the default for one output). The scores themselves never include it.
    `mask_value` means padding where the inputs are numbers: a step whose features all equal it is skipped.
    """

    layers: tuple[Layer | Node, ...]
    embedding: Embedding | None = None
    readout: Literal["last", "mean", "max", "last-row", "every"] | None = None
    classes: tuple[str, ...] | None = None
    features: tuple[str, ...] | None = None
    output: Literal["linear", "softmax", "sigmoid"] | None = None
    mask_value: float | None = None
    provenance: Mapping[str, str] | None = None

    nodes: ClassVar[tuple[Node, ...]]  # the network itself, each node after those that it takes
    result: ClassVar[str]  # name of the value that holds the scores
    sizes: ClassVar[dict[str, Size]]  # of every value
    dtype: ClassVar[np.dtype]  # float32 or float64, that of every array and every result
    inputs: ClassVar[int]  # length D of an input vector
    outputs: ClassVar[int]  # number C of scores
    every: ClassVar[bool]  # whether there is a prediction at every step

    def __post_init__(self) -> None:
        if self.embedding is not None and not isinstance(self.embedding, Embedding):
            raise LrpError(f"Model: embedding must be an Embedding, got {type(self.embedding).__name__}.")
        self._one_dtype(_checked_layers(self.layers))
        self._connect()
        output = self.output or ("softmax" if self.outputs > 1 else "linear")
        one_of(output, "Model: output", OUTPUTS)
        if output == "softmax" and self.outputs == 1:
            raise LrpError("Model: output must be 'linear' or 'sigmoid' where there is one output, got 'softmax'.")
        if self.mask_value is not None and not math.isfinite(self.mask_value):
            raise LrpError(f"Model: mask_value must be a finite number, got {self.mask_value!r}.")
        if self.mask_value is not None and self.embedding is not None:
            raise LrpError("Model: mask_value must be None with an embedding; use Embedding(mask=...).")
        self._set(
            classes=names(self.classes, "Model: classes", self.outputs),
            features=names(self.features, "Model: features", self.inputs),
            output=output,
            mask_value=None if self.mask_value is None else float(self.mask_value),
            provenance=MappingProxyType({str(k): str(v) for k, v in dict(self.provenance or {}).items()}),
        )

    def _one_dtype(self, layers: tuple[Layer | Node, ...]) -> None:
        """Give all arrays the widest dtype among them: float32 only where everything is."""
        records = [layer_of(layer) for layer in layers] + [self.embedding] * (self.embedding is not None)
        dtype = np.result_type(*(array.dtype for record in records for _, array in record.all_arrays()))  # type: ignore[union-attr]
        self._set(
            dtype=dtype,
            layers=tuple(_cast(layer, dtype) for layer in layers),
            embedding=None if self.embedding is None else self.embedding.astype(dtype),
        )

    def _connect(self) -> None:
        """The network as nodes, every edge checked."""
        readout = self.readout
        if isinstance(self.layers[0], Node):
            nodes: tuple[Node, ...] = self.layers  # type: ignore[assignment]
            if readout is not None:
                raise LrpError(f"Model: readout must be left out where nodes say it themselves, got {readout!r}.")
            result = nodes[-1].name
        else:
            readout = one_of(readout or "last", "Model: readout", READOUTS)
            nodes, result = _chain(self.layers, readout)  # type: ignore[arg-type]
        first = nodes[0].layer
        width = self.embedding.size if self.embedding is not None else getattr(first, "inputs", None)
        if width is None:
            raise LrpError(f"Model: the first layer must say how many inputs it takes, got a {type(first).__name__}.")
        sizes = {INPUT: Size(width, True, "input" if self.embedding is None else "embedding")}
        for node in nodes:
            _check_node(node, sizes)
            label = f"layer {node.name} ({type(node.layer).__name__})"
            try:
                size = node.layer.sizes(*(sizes[name] for name in node.inputs))
            except LrpError as error:
                array, _, rest = str(error).partition(" ")
                raise LrpError(f"Model: {array} of {label} {rest}") from None
            for name in node.layer.OUTPUTS:
                sizes[node.name + name] = size._replace(source=label, steps=size.steps and not name)
        size = sizes[result]
        self._set(nodes=nodes, result=result, sizes=sizes, readout=readout)
        self._set(inputs=width, outputs=size.width, every=size.steps)

    @cached_property
    def used(self) -> set[str]:
        """The values that some node takes, and the result."""
        return {self.result, *(name for node in self.nodes for name in node.inputs)}

    @cached_property
    def wanted(self) -> dict[str, tuple[str, ...]]:
        """Which outputs of each node are used."""
        return {
            node.name: tuple(name for name in node.layer.OUTPUTS if node.name + name in self.used) or ("",)
            for node in self.nodes
        }

    @cached_property
    def numbers(self) -> np.ndarray:
        """Which of the nodes are the layers that the user knows: all but a readout that stands between them."""
        return np.array([k for k, node in enumerate(self.nodes) if node.name != READOUT])

    @cached_property
    def width(self) -> int:
        """Units of the widest recurrent layer."""
        return max(node.layer.outputs for node in self.nodes if is_recurrent(node.layer))

    @cached_property
    def row_width(self) -> int:
        """Numbers that a step of a variant takes at the most: 0 where no layer gives its outputs at every step."""
        steps = [node.name for node in self.nodes if "" in self.wanted[node.name] and self.sizes[node.name].steps]
        return max((self.sizes[name].width for name in steps), default=0)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that decides a result: two models with one digest explain alike."""
        state = hashlib.sha256()
        records: list[tuple[Any, Record]] = [((node.name, node.inputs), node.layer) for node in self.nodes]
        for place, record in [*records, *([("embedding", self.embedding)] if self.embedding else [])]:
            state.update(repr((place, type(record).__name__, _all_settings(record))).encode())
            for path, array in record.all_arrays():
                state.update(f"{path}{array.dtype}{array.shape}".encode())
                state.update(array.tobytes())
        state.update(repr([self.result, self.output, self.mask_value, self.classes, self.features]).encode())
        return state.hexdigest()

    @cached_property
    def in_float64(self) -> Model:
        """The same model in float64, for what float32 is too short for."""
        return self.astype(np.float64)

    def astype(self, dtype: Any) -> Model:
        """The same model with all arrays in float32 or float64."""
        layers = tuple(_cast(layer, np.dtype(dtype)) for layer in self.layers)
        embedding = None if self.embedding is None else self.embedding.astype(np.dtype(dtype))
        readout = None if isinstance(layers[0], Node) else self.readout
        return replace(self, layers=layers, embedding=embedding, readout=readout)


def layer_of(layer: Layer | Node) -> Layer:
    """The layer of a node."""
    return layer.layer if isinstance(layer, Node) else layer


def _cast(layer: Layer | Node, dtype: np.dtype) -> Layer | Node:
    if isinstance(layer, Node):
        return layer._replace(layer=layer.layer.astype(dtype))
    return layer.astype(dtype)


def _all_settings(record: Record) -> list[Any]:
    return [record.settings(), *((name, _all_settings(part)) for name, part in record.parts())]


def is_recurrent(layer: Layer) -> bool:
    """Whether a layer has states that go from step to step."""
    return isinstance(layer, (Cell, Bidirectional))


def _checked_layers(layers: Any) -> tuple[Layer | Node, ...]:
    if isinstance(layers, (Record, Node)) or not isinstance(layers, Sequence):
        raise LrpError(f"Model: layers must be a list of layers, got {type(layers).__name__}.")
    for k, layer in enumerate(layers):
        if not isinstance(layer_of(layer), Layer) or isinstance(layer, Node) != isinstance(layers[0], Node):
            raise LrpError(
                f"Model: layer {k} must be an LSTM, Bidirectional or Dense layer, got {type(layer).__name__}; "
                "`lrpnumpy.layers` has all layers, and nodes and bare layers are not mixed."
            )
    if not any(is_recurrent(layer_of(layer)) for layer in layers):
        raise LrpError(f"Model: layers must have at least one LSTM or Bidirectional, got {len(layers)} others.")
    return tuple(layers)


def _check_node(node: Node, known: Mapping[str, Any]) -> None:
    """A node has a name of its own, and takes what there is."""
    is_name = isinstance(node.name, str) and node.name.strip(".") and not {":", "/", "\0"} & set(node.name)
    if not is_name or node.name in known:
        raise LrpError(f"Model: a node must have a name of its own without ':' and '/', got {node.name!r}.")
    for name in node.inputs:
        if name not in known:
            there = ", ".join(map(repr, known))
            raise LrpError(
                f"Model: node {node.name!r} must take values made before it, got {name!r}; there are {there}."
            )


def _chain(layers: Sequence[Layer], readout: str) -> tuple[tuple[Node, ...], str]:
    """A list of layers as nodes, with the readout after the last recurrent layer; and the name of the result."""
    top = max(k for k, layer in enumerate(layers) if is_recurrent(layer))
    if readout == "last-row" and isinstance(layers[top], Cell):
        readout = "last"  # one direction: the row of the last step is the last state, and cheaper
    nodes, value = [], INPUT
    for k, layer in enumerate(layers):
        nodes.append(Node(str(k), layer, (value,)))
        value = str(k)
        if k == top and readout == "last":
            value = f"{k}:last"
        elif k == top and readout in BETWEEN:
            nodes.append(Node(READOUT, BETWEEN[readout], (value,)))
            value = READOUT
    return tuple(nodes), value
