"""A trained network: named nodes, each a layer and the names of its inputs; checked, in one dtype, with a digest."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from lrpnumpy.checks import FLOATS, LrpError, names, one_of, shown
from lrpnumpy.inputs import Input
from lrpnumpy.layers import (
    Activation,
    Embedding,
    LastRow,
    Layer,
    Max,
    Mean,
    Record,
    Size,
    TwoClasses,
)
from lrpnumpy.layers.affine import Units
from lrpnumpy.lazy import cached_property
from lrpnumpy.meant import door
from lrpnumpy.scaling import scaler_of

READOUTS = ("last", "mean", "max", "last-row", "every")
OUTPUTS = ("linear", "softmax", "sigmoid")
INPUT = "x"  # name of the input
READOUT = "readout"  # name of the node of a readout
UNITS = ":units"  # name of the node that has the scores in the user's units; no other can have it
FLOAT_NAMES = {name: one for one in FLOATS for name in (one.name, one.char, one.str, one.str[1:])}
FLOAT_NAMES |= {name: np.dtype(name) for name in ("single", "double", "float")}
BETWEEN: dict[str, Layer] = {"mean": Mean(), "max": Max(), "last-row": LastRow()}


class Node(NamedTuple):
    """One layer of a network, and where its inputs come from.

    An input is the name of another node, or of an input of the network. `"encoder:last"` is the last state of the
    recurrent layer "encoder", each direction's own, where `"encoder"` is its output at every step.
    """

    name: str  # of its own
    layer: Layer  # what it computes
    inputs: tuple[str, ...]  # names of what it takes, in the order of the layer's inputs


@dataclass(frozen=True, eq=False, repr=False)
class Model(Record):
    """A trained network: embedding, layers, and how the steps become one prediction.

    `layers` is a list of layers, each taking what the one before gives, or a list of `Node`s. In a list of layers the
    `readout` sits after the last recurrent layer: "last" (each direction's own final state), "last-row" (the row of the
    last step, `out[:, -1]` in PyTorch), "mean" or "max" over the steps, or "every": the head predicts at each step.
    Dense layers after it are the head, Dense layers before it act at each step. Nodes say it themselves, and the last
    node gives the scores. `output` says which probability belongs to the scores: "softmax" (the default for several
    outputs), "sigmoid", or "linear" for none (the default for one output). The scores themselves never include it.
    `embedding` is what makes vectors of words, `features` are names of the numbers of a step where there is none.
    `mask_value` means padding where the inputs are numbers: a step whose features all equal it is skipped.

    A network with several inputs has `inputs`, a dict of name to `Input`; the first series is the one that words,
    phrases and steps are counted in. `result` names the node that gives the scores, where that is not the last one.

    One score with output="sigmoid" may have two `classes`, the negative one first: a layer `TwoClasses` is put at the
    end, and the scores are -f and f.

    What a regression predicts is named by `classes=("discharge",)` and `output_unit="mm"`. `scaler` and `output_scaler`
    say how inputs and targets were scaled before the network was trained: a pair (mean, scale), numbers or one for each
    feature, or a fitted StandardScaler, MinMaxScaler or RobustScaler; of several inputs a dict of such. Then raw values
    go in, and scores and relevance are in the units of the target. `with_units` says all this of a model that exists.
    """

    layers: tuple[Layer | Node, ...]
    embedding: Embedding | None = None
    readout: Literal["last", "mean", "max", "last-row", "every"] | None = None
    classes: tuple[str, ...] | None = None
    features: tuple[str, ...] | None = None
    output: Literal["linear", "softmax", "sigmoid"] | None = None
    mask_value: float | None = None
    provenance: Mapping[str, str] | None = None  # where the model comes from, as a file says it
    inputs: Mapping[str, Input] = None  # type: ignore[assignment]
    result: str = None  # type: ignore[assignment]
    output_unit: str | None = None
    scaler: Any = None  # that of the main input, a Scaler, once it is checked
    output_scaler: Any = None  # a Scaler, once it is checked

    nodes: ClassVar[tuple[Node, ...]]  # the network itself, each node after those that it takes
    scored: ClassVar[str]  # name of the value that holds the scores: `result`, or what is that in the user's units
    main: ClassVar[str]  # name of the input that explanations are about first
    sizes: ClassVar[dict[str, Size]]  # of every value
    dtype: ClassVar[np.dtype]  # float32 or float64, that of every array and every result
    outputs: ClassVar[int]  # number C of scores
    every: ClassVar[bool]  # whether there is a prediction at every step

    def __post_init__(self) -> None:
        self._set(layers=_checked_layers(self.layers))
        self._connect()
        if self.outputs == 1 and self.classes is not None and len(self.classes) == 2:
            if self.output != "sigmoid":
                raise LrpError(
                    f"Model: classes must be one name, as there is one score, got {self.classes!r}; two classes, the "
                    "negative one first, need output='sigmoid'."
                )
            self._set(**_with_two_classes(self.layers, self.result, self.sizes))
            self._connect()
        self._one_dtype()
        is_linear = self.outputs == 1 or self.output_unit is not None or self.output_scaler is not None
        output = self.output or ("linear" if is_linear else "softmax")
        one_of(output, "Model: output", OUTPUTS)
        if output != "linear" and self.output_scaler is not None:
            raise LrpError(
                f"Model: output must be 'linear' with an output_scaler, got {output!r}; if the network ends in a "
                "sigmoid, model.with_units(output_scaler=...) makes it a layer."
            )
        if output == "softmax" and self.outputs == 1:
            raise LrpError("Model: output must be 'linear' or 'sigmoid' where there is one output, got 'softmax'.")
        if not (self.output_unit is None or isinstance(self.output_unit, str)):
            raise LrpError(f"Model: output_unit must be a string or None, got {shown(self.output_unit)}.")
        self._set(
            classes=names(self.classes, "Model: classes", self.outputs),
            output=output,
            provenance=MappingProxyType({str(k): str(v) for k, v in dict(self.provenance or {}).items()}),
        )

    def _connect(self) -> None:
        """The network as nodes, every edge checked."""
        readout, result = self.readout, self.result
        if isinstance(self.layers[0], Node):
            nodes: tuple[Node, ...] = self.layers  # type: ignore[assignment]
            if readout is not None:
                raise LrpError(f"Model: readout must be left out where nodes say it themselves, got {shown(readout)}.")
            result = result or nodes[-1].name
        else:
            readout = one_of(readout or "last", "Model: readout", READOUTS)
            nodes, result = _chain(self.layers, readout)  # type: ignore[arg-type]
        inputs = self._ports(nodes[0].layer)
        sizes = {
            name: Size(port.size, port.steps, "input" if port.embedding is None else "embedding")  # type: ignore[arg-type]
            for name, port in inputs.items()
        }
        for node in nodes:
            _check_node(node, sizes)
            label = f"layer {node.name} ({type(node.layer).__name__})"
            _check_count(node, label)
            try:
                size = node.layer.sizes(*(sizes[name] for name in node.inputs))
            except LrpError as error:
                array, _, rest = str(error).partition(" ")
                raise LrpError(f"Model: {array} of {label} {rest}") from None
            for name in node.layer.OUTPUTS:
                width = node.layer.output_width(name, size.width)
                sizes[node.name + name] = size._replace(width=width, source=label, steps=size.steps and not name)
        if result not in sizes or result in inputs:
            some = ", ".join(repr(name) for name in sizes if name not in inputs)
            raise LrpError(f"Model: result must be the name of a node, got {shown(result)}; there are {some}.")
        main = next((name for name, port in inputs.items() if port.steps), next(iter(inputs)))
        first, last, scored = inputs[main], sizes[result], result
        output_scaler = scaler_of(self.output_scaler, "Model: output_scaler", last.width, self.classes, True)
        if output_scaler is not None:
            units = Units(np.array(output_scaler.scale), np.array(output_scaler.mean))
            nodes, scored = (*nodes, Node(UNITS, units, (result,))), UNITS
            sizes[UNITS] = last
        self._set(nodes=nodes, result=result, sizes=sizes, readout=readout, main=main, inputs=inputs, scored=scored)
        self._set(embedding=first.embedding, features=first.features, mask_value=first.mask_value)
        self._set(outputs=last.width, every=last.steps)
        self._set(scaler=first.scaler, output_scaler=output_scaler)

    def _ports(self, first: Layer) -> dict[str, Input]:
        """The inputs. Those of a network with one input may be said by the model's own fields."""
        own = {"embedding": self.embedding, "features": self.features, "mask_value": self.mask_value}
        said = {name: value for name, value in own.items() if value is not None}
        given: Any = self.inputs
        scalers = self.scaler if isinstance(self.scaler, dict) else {}
        if self.scaler is not None and not scalers:
            said["scaler"] = self.scaler
        if given is None:
            size = getattr(first, "inputs", None)
            if size is None and self.embedding is None:
                raise LrpError(
                    f"Model: inputs must say how many inputs the network takes, as its first layer, a "
                    f"{type(first).__name__}, does not; say inputs={{'x': lrp.Input(5)}}."
                )
            given, said = {INPUT: Input(size, **said)}, {}  # type: ignore[arg-type]
        if not isinstance(given, Mapping) or not given:
            raise LrpError(f"Model: inputs must be a dict of name to lrp.Input, got {shown(given)}.")
        inputs: dict[str, Input] = dict(given)
        for name, port in inputs.items():
            if not isinstance(port, Input) or not _is_name(name):
                raise LrpError(f"Model: inputs must be a dict of name to lrp.Input, got {name!r}: {port!r}.")
        main = next((name for name, port in inputs.items() if port.steps), next(iter(inputs)))
        inputs[main] = replace(inputs[main], **said)  # type: ignore[arg-type]
        for name, scaler in scalers.items():
            if name not in inputs:
                raise LrpError(
                    f"Model: scaler must be a dict of the inputs {', '.join(map(repr, inputs))}, got {name!r}."
                )
            inputs[name] = replace(inputs[name], scaler=scaler)
        return inputs

    def _one_dtype(self) -> None:
        """Give all arrays the widest dtype among them: float32 only where everything is."""
        records: list[Record] = [*(node.layer for node in self.network), *self.inputs.values()]
        dtype = np.result_type(*(array.dtype for record in records for _, array in record.all_arrays()))
        cast = {node.name: node._replace(layer=node.layer.astype(dtype)) for node in self.nodes}
        inputs = {
            name: replace(port.astype(dtype)) for name, port in self.inputs.items()
        }  # its own: they get its dtype
        for port in inputs.values():
            port._set(dtype=dtype)
        is_graph = isinstance(self.layers[0], Node)
        names = [node.name for node in self.network] if is_graph else [str(k) for k in range(len(self.layers))]
        layers = [cast[name] if is_graph else cast[name].layer for name in names]
        self._set(
            dtype=dtype,
            nodes=tuple(cast.values()),
            layers=tuple(layers),
            inputs=MappingProxyType(inputs),
            embedding=inputs[self.main].embedding,
        )

    @property
    def input_size(self) -> int:
        """Length D of a vector of the first input."""
        return self.sizes[self.main].width

    @property
    def network(self) -> tuple[Node, ...]:
        """The nodes that give `result`: all but the one that has it in the user's units."""
        return tuple(node for node in self.nodes if node.name != UNITS)

    @cached_property
    def used(self) -> set[str]:
        """The values that some node takes, and the scores."""
        return {self.scored, *(name for node in self.nodes for name in node.inputs)}

    @cached_property
    def unseen(self) -> tuple[str, ...]:
        """Inputs whose largest relevance no kernel notes: all but those that one layer takes, and that is recurrent."""
        takers = {name: [node.layer for node in self.nodes if name in node.inputs] for name in self.inputs}
        return tuple(name for name, some in takers.items() if len(some) != 1 or not some[0].recurrent)

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
        own = self.readout is None  # nodes say it themselves, whatever they are called
        return np.array([k for k, node in enumerate(self.nodes) if own or node.name != READOUT], np.int64)

    @cached_property
    def width(self) -> int:
        """Units of the widest recurrent layer."""
        return max(node.layer.outputs for node in self.nodes if node.layer.recurrent)

    @cached_property
    def least(self) -> dict[str, int]:
        """How many steps each input must have for every layer to have at least one; 1 for an input without steps."""
        least = dict.fromkeys(self.sizes, 1)
        for node in reversed(self.nodes):
            needed = node.layer.least(least[node.name])
            for name in node.inputs:
                if self.sizes[name].steps:
                    least[name] = max(least[name], needed)
        return {name: least[name] for name in self.inputs}

    @cached_property
    def causal(self) -> bool:
        """Whether the prediction at a step depends on nothing that comes after it."""
        inputs = [self.sizes[name].steps for node in self.nodes for name in node.inputs]
        return all(node.layer.causal for node in self.nodes) and all(inputs) and max(self.least.values()) == 1

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
        for place, record in [*records, *self.inputs.items()]:
            state.update(repr((place, _identities(record))).encode())
            for path, array in record.all_arrays():
                state.update(f"{path}{array.dtype}{array.shape}".encode())
                state.update(array.tobytes())
        state.update(repr([self.result, self.output, self.classes]).encode())
        if self.output_unit is not None:
            state.update(self.output_unit.encode("utf-8", "surrogatepass"))
        return state.hexdigest()

    @cached_property
    def in_float64(self) -> Model:
        """The same model in float64, for what float32 is too short for."""
        return self.astype(np.float64)

    @door
    def with_units(
        self,
        *,
        scaler: Any = None,
        output_scaler: Any = None,
        output_unit: str | None = None,
        features: Sequence[str] | None = None,
        classes: Sequence[str] | None = None,
    ) -> Model:
        """The same network with names, and in the units of the user.

        scaler, output_scaler, output_unit, features, classes: as in `Model`.

        What is left out stays as it is. A sigmoid at the end of a network with an `output_scaler` becomes a layer.
        """
        said = {"scaler": scaler, "output_scaler": output_scaler, "output_unit": output_unit}
        said |= {"features": features, "classes": classes}
        change: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
        is_graph = isinstance(self.layers[0], Node)
        change["readout"] = None if is_graph else self.readout
        if output_scaler is not None and self.output == "sigmoid":
            end, name = Activation("sigmoid"), "sigmoid"
            while name in self.sizes:
                name += "_"
            change["layers"] = (*self.layers, Node(name, end, (self.result,)) if is_graph else end)
            change |= {"output": "linear", "result": name}
        return replace(self, **change)

    @door
    def astype(self, dtype: Any) -> Model:
        """The same model with all arrays in `dtype`, float32 or float64."""
        try:
            kind = np.dtype(dtype) if isinstance(dtype, (type, np.dtype)) else FLOAT_NAMES.get(dtype)
        except (TypeError, ValueError):
            kind = None
        if kind is None or kind not in FLOATS:  # to NumPy None is float64
            raise LrpError(f"astype: dtype must be 'float32' or 'float64', got {shown(dtype)}.")
        return self._with(lambda record: record.astype(kind))

    def twin(self) -> Model:
        """Another model with the same arrays, of which nothing has been computed yet."""
        return self._with(lambda record: record.twin())

    def _with(self, change: Callable[[Any], Any]) -> Model:
        """The same model of changed records."""
        layers = tuple(
            one._replace(layer=change(one.layer)) if isinstance(one, Node) else change(one) for one in self.layers
        )
        inputs = {name: change(port) for name, port in self.inputs.items()}
        readout = None if isinstance(layers[0], Node) else self.readout
        return replace(self, layers=layers, inputs=inputs, embedding=None, readout=readout)


def _with_two_classes(layers: tuple[Layer | Node, ...], result: str, taken: Mapping[str, Any]) -> dict[str, Any]:
    """The layers with `TwoClasses` behind the one that gives the score, and the name of the result of nodes."""
    if not isinstance(layers[0], Node):
        return {"layers": (*layers, TwoClasses()), "result": None}
    name = next(one for one in map("classes{}".format, ["", *range(len(taken))]) if one not in taken)
    return {"layers": (*layers, Node(name, TwoClasses(), (result,))), "result": name}


def layer_of(layer: Layer | Node) -> Layer:
    """The layer of a node."""
    return layer.layer if isinstance(layer, Node) else layer


def _identities(record: Record) -> list[Any]:
    return [record.identity(), *((name, _identities(part)) for name, part in record.parts())]


def _checked_layers(layers: Any) -> tuple[Layer | Node, ...]:
    if isinstance(layers, (Record, Node)) or not isinstance(layers, Sequence):
        raise LrpError(f"Model: layers must be a list of layers, got {type(layers).__name__}.")
    for k, layer in enumerate(layers):
        if not isinstance(layer_of(layer), Layer) or isinstance(layer, Node) != isinstance(layers[0], Node):
            raise LrpError(
                f"Model: layer {k} must be a layer, such as lrp.LSTM or lrp.Dense, got {type(layer).__name__}; "
                "nodes and bare layers are not mixed."
            )
    if not any(layer_of(layer).recurrent for layer in layers):
        raise LrpError(
            f"Model: layers must have at least one recurrent layer, such as lrp.LSTM, got {len(layers)} others; a "
            "custom layer with states sets `recurrent = True`."
        )
    return tuple(layers)


def _is_name(name: Any) -> bool:
    """Whether something can be the name of a node or an input: it is part of a path in a file."""
    return isinstance(name, str) and bool(name.strip(".")) and not {":", "/", "\0"} & set(name)


def _check_node(node: Node, known: Mapping[str, Any]) -> None:
    """A node has a name of its own, and takes what there is."""
    if not _is_name(node.name) or node.name in known:
        raise LrpError(f"Model: a node must have a name of its own without ':' and '/', got {node.name!r}.")
    for name in node.inputs:
        if name not in known:
            there = ", ".join(map(repr, known))
            raise LrpError(
                f"Model: node {node.name!r} must take values made before it, got {name!r}; there are {there}."
            )


def _check_count(node: Node, label: str) -> None:
    """A node has as many inputs as its layer takes."""
    takes = inspect.signature(node.layer.sizes)
    try:
        takes.bind(*node.inputs)
    except TypeError:
        wanted = ", ".join(
            one.name if one.default is one.empty else f"[{one.name}]" for one in takes.parameters.values()
        )
        raise LrpError(f"Model: inputs of {label} must be ({wanted}), got {len(node.inputs)} of them.") from None


def _chain(layers: Sequence[Layer], readout: str) -> tuple[tuple[Node, ...], str]:
    """A list of layers as nodes, with the readout after the last recurrent layer; and the name of the result."""
    top = max(k for k, layer in enumerate(layers) if layer.recurrent)
    if readout == "last-row" and layers[top].causal and ":last" in layers[top].OUTPUTS:
        readout = "last"  # one direction: the row of the last step is the last output, and cheaper
    if readout == "last" and ":last" not in layers[top].OUTPUTS:
        readout = "last-row"  # a custom layer that gives its steps alone
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
