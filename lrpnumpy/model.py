"""A trained network: named nodes, each a layer and the names of its inputs; checked, in one dtype, with a digest."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, TypedDict, Unpack

import numpy as np

from lrpnumpy.checks import FLOATS, LrpError, close_to, names, one_of, optional, printable, shown, whole
from lrpnumpy.inputs import Input, listed
from lrpnumpy.layers import Activation, Embedding, LastRow, Layer, Max, Mean, Record, Repeat, Size, TwoClasses
from lrpnumpy.layers.elementwise import Units
from lrpnumpy.lazy import cached_property
from lrpnumpy.meant import door
from lrpnumpy.scaling import Scaler, scaler_of

READOUTS = ("last", "mean", "max", "last-row", "every")
OUTPUTS = ("linear", "softmax", "sigmoid")
FLOAT_NAMES = ("float32", "float64", "float", "single", "double", "f4", "f8", "f", "d")  # NumPy has more that warn
INPUT = "x"  # name of the input
READOUT = "readout"  # name of the node of a readout
UNITS = ":units"  # name of the node that has the scores in the user's units; no other can have it
BETWEEN: dict[str, Layer] = {"mean": Mean(), "max": Max(), "last-row": LastRow()}


class Node(NamedTuple):
    """One layer of a network, and where its inputs come from.

    An input is the name of another node, or of an input of the network. `"encoder:last"` is the last state of the
    recurrent layer "encoder", each direction's own, where `"encoder"` is its output at every step.
    """

    name: str  # unique
    layer: Layer  # what it computes
    inputs: tuple[str, ...]  # names of what it takes, in the order of the layer's inputs


class FirstInput(TypedDict, total=False):
    """What may be said of the first input without an `Input`: its fields of the same names."""

    embedding: Embedding | None
    features: Sequence[str] | None
    mask_value: float | None
    scaler: Any


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Model(Record):
    """A trained network: named nodes, its inputs by name, and what its scores mean.

    `nodes` is a list of `Node`s, or a list of layers, each of which takes the output of the one before. A list of
    layers becomes nodes called "0", "1", and so on, and the `readout` follows the last recurrent layer: "last" (the
    final state of each direction; the default), "last-row" (the row of the last step, `out[:, -1]` in PyTorch), "mean"
    or "max" over the steps, which become a node "readout", or "every": the layers after it predict at each step. A
    `Repeat` in a list repeats the final state of the layer before it for every step. `result` names the node that
    gives the scores; by default it is the last one.

    `inputs` is a dict of name to `Input`; the first one with steps is the one whose steps are explained first. A
    network with one input, "x", may describe it by `embedding`, which makes vectors of words, `features`, the names of
    the numbers of a step, `mask_value`, which marks steps that are padding, and `scaler`. With `inputs`, these four
    (`first` in the signature) change the first of them that has steps.

    `output` is the activation that turns scores into probabilities: "softmax" (the default for several outputs),
    "sigmoid", or "linear" for none (the default for one output). The scores themselves never include it. `classes`
    names the scores. One score with output="sigmoid" may have two classes, the negative one first: a layer `TwoClasses`
    is put at the end, and the scores are -f and f.

    What a regression predicts is named by `classes=("discharge",)` and `output_unit="mm"`. `scaler` and `output_scaler`
    say how inputs and targets were scaled before the network was trained: a pair (mean, scale), numbers or one for each
    feature, or a fitted StandardScaler, MinMaxScaler or RobustScaler; for several inputs, `scaler` is a dict of these.
    A fitted ColumnTransformer also gives names and one-hot `groups`; frames may then hold its categories themselves.
    Then raw values go in, and scores and relevance are in the units of the target. `with_units` adds all this to an
    existing model.

    `window` is the number of steps that the network was trained on, `default_method` the name of the method that suits
    it best (see `method`), and `provenance` a dict of remarks on where the model comes from.
    """

    nodes: tuple[Node, ...]  # the network, each node after those that it takes
    inputs: Mapping[str, Input]
    result: str  # name of the value that the network gives
    output: Literal["linear", "softmax", "sigmoid"]
    classes: tuple[str, ...] | None
    output_unit: str | None
    output_scaler: Scaler | None
    window: int | None
    default_method: str | None
    provenance: Mapping[str, str]

    main: ClassVar[str]  # name of the first input that has steps
    scored: ClassVar[str]  # name of the scores: `result`, or the node that has it in the user's units
    sizes: ClassVar[dict[str, Size]]  # of every value
    dtype: ClassVar[np.dtype]  # float32 or float64, that of every array and every result
    outputs: ClassVar[int]  # number C of scores
    every: ClassVar[bool]  # whether there is a prediction at every step

    def __init__(
        self,
        nodes: Sequence[Layer] | Sequence[Node],
        readout: Literal["last", "mean", "max", "last-row", "every"] | None = None,
        *,
        inputs: Mapping[str, Input] | None = None,
        result: str | None = None,
        output: Literal["linear", "softmax", "sigmoid"] | None = None,
        classes: Sequence[str] | None = None,
        output_unit: str | None = None,
        output_scaler: Any = None,
        window: int | None = None,
        default_method: str | None = None,
        provenance: Mapping[str, Any] | None = None,
        **first: Unpack[FirstInput],
    ) -> None:
        _check_layers(nodes)
        described = _described_inputs(inputs, first, _layer(nodes[0]))
        connected, last = _connected(nodes, readout, _main(described))
        self._set(nodes=connected, inputs=described, result=last if result is None else result)
        self._set(output=output, classes=classes, output_unit=output_unit, output_scaler=output_scaler)
        self._set(window=window, default_method=default_method, provenance=provenance)
        self.__post_init__()

    def __post_init__(self) -> None:
        nodes = [*self.nodes]
        sizes = _sizes(nodes, self.inputs)
        result = self.result
        if result not in sizes or result in self.inputs:
            there = ", ".join(repr(name) for name in sizes if name not in self.inputs)
            raise LrpError(f"Model: result must be the name of a node, got {shown(result)}; there are {there}.")
        if sizes[result].width == 1 and self.classes is not None and len(self.classes) == 2:
            if self.output != "sigmoid":
                raise LrpError(
                    f"Model: classes must be one name, as there is one score, got {self.classes!r}; two classes, the "
                    "negative one first, need output='sigmoid'."
                )
            nodes.append(Node(free_name("classes", sizes), TwoClasses(), (result,)))
            result = nodes[-1].name
            sizes = _sizes(nodes, self.inputs)
        last, scored = sizes[result], result
        output_scaler = scaler_of(self.output_scaler, "Model: output_scaler", last.width, self.classes, True)
        # The widest of all arrays: float32 only where everything is.
        dtype = np.result_type(*(array.dtype for one in _records(nodes, self.inputs) for _, array in one.all_arrays()))
        if output_scaler is not None:
            units = Units(np.array(output_scaler.scale), np.array(output_scaler.mean))
            nodes.append(Node(UNITS, units, (result,)))
            scored, sizes[UNITS] = UNITS, last
        remarks: Any = {} if self.provenance is None else self.provenance
        if not isinstance(remarks, Mapping):
            raise LrpError(f"Model: provenance must be a dict of remarks, got {shown(remarks)}.")
        inputs = {}
        for name, given in self.inputs.items():
            inputs[name] = replace(given.astype(dtype))  # a copy, which receives the dtype of this model
            inputs[name]._set(dtype=dtype)
        self._set(
            nodes=tuple(node._replace(layer=node.layer.astype(dtype)) for node in nodes),
            inputs=MappingProxyType(inputs),
            result=result,
            classes=names(self.classes, "Model: classes", last.width),
            output_scaler=output_scaler,
            window=optional(lambda steps: whole(steps, "Model: window", 1), self.window),
            provenance=MappingProxyType({str(k): str(v) for k, v in remarks.items()}),
        )
        self._set(main=_main(inputs), scored=scored, sizes=sizes, dtype=dtype, outputs=last.width, every=last.steps)
        self._check_output()

    def _check_output(self) -> None:
        output: Any = self.output
        if output is None:
            is_linear = self.outputs == 1 or self.output_unit is not None or self.output_scaler is not None
            output = "linear" if is_linear else "softmax"
        one_of(output, "Model: output", OUTPUTS)
        if output != "linear" and self.output_scaler is not None:
            raise LrpError(f"Model: output must be 'linear' with an output_scaler, got {output!r}; see with_units.")
        if output == "softmax" and self.outputs == 1:
            raise LrpError("Model: output must be 'linear' or 'sigmoid' where there is one output, got 'softmax'.")
        for name in ("output_unit", "default_method"):
            if not isinstance(getattr(self, name), str | None):
                raise LrpError(f"Model: {name} must be a string or None, got {shown(getattr(self, name))}.")
        self._set(output=output)

    @property
    def method(self) -> str:
        """The method that explains this model: `default_method`; else lrp-all for words, and deeplift for numbers.

        DeepLIFT then compares with zero, which is the mean where the model scales its inputs.
        """
        if self.default_method is not None:
            return self.default_method
        has_words = any(one.embedding is not None for one in self.inputs.values())
        return "lrp-all" if has_words else "deeplift"

    @door
    def with_default(self, method: str) -> Model:
        """The same model with another default `method`, such as `rank_methods(...).best`; native files store it."""
        return replace(self, default_method=method)

    @property
    def input_size(self) -> int:
        """Length D of a vector of the first input."""
        return self.sizes[self.main].width

    @property
    def embedding(self) -> Embedding | None:
        """That of the first input."""
        return self.inputs[self.main].embedding

    @property
    def features(self) -> tuple[str, ...] | None:
        """Those of the first input."""
        return self.inputs[self.main].features

    @property
    def groups(self) -> dict[str, list[str]]:
        """Columns of one-hot codes by the column that they encode, as the ColumnTransformer of a `scaler` made them."""
        found: dict[str, list[str]] = {}
        for one in self.inputs.values():
            for group, columns in getattr(one.scaler, "groups", {}).items():
                found[group] = [column for column in columns.values() if column is not None]
        return found

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers of the nodes."""
        return tuple(node.layer for node in self.network)

    @property
    def network(self) -> tuple[Node, ...]:
        """The nodes that give `result`: all but the one that has it in the user's units."""
        return tuple(node for node in self.nodes if node.name != UNITS)

    @property
    def weights(self) -> int:
        """How many numbers were trained."""
        return sum(array.size for one in _records(self.network, self.inputs) for _, array in one.all_arrays())

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
    def main_first(self) -> tuple[str, ...]:
        """The names of the inputs, that of the main one first."""
        return (self.main, *(name for name in self.inputs if name != self.main))

    @cached_property
    def wanted(self) -> dict[str, tuple[str, ...]]:
        """Which outputs of each node are used."""
        return {
            node.name: tuple(name for name in node.layer.OUTPUTS if node.name + name in self.used) or ("",)
            for node in self.nodes
        }

    @cached_property
    def width(self) -> int:
        """Units of the widest recurrent layer."""
        return max(node.layer.outputs for node in self.nodes if node.layer.recurrent)

    @cached_property
    def row_size(self) -> int:
        """Numbers of a step that the widest recurrent layer reads and writes, about."""
        return self.input_size + self.width

    @cached_property
    def compiled_for(self) -> set[Any]:
        """Kinds of passes all of whose kernels are compiled; see `passes.path_of`."""
        return set()

    @cached_property
    def requests(self) -> dict[tuple[Any, Any], Any]:
        """Checked requests of named methods without options, by method and unit; see `asked.request`."""
        return {}

    @cached_property
    def least(self) -> dict[str, int]:
        """How many steps each input must have for every layer to have at least one; 1 for an input without steps."""
        least = dict.fromkeys(self.sizes, 1)
        for node in reversed(self.nodes):
            for name in node.inputs:
                if self.sizes[name].steps:
                    least[name] = max(least[name], node.layer.least(least[node.name]))
        return {name: least[name] for name in self.inputs}

    @cached_property
    def declared(self) -> int:
        """About how many numbers the network computes for a short input, of 8 steps: layers repeat and pad steps."""
        steps = {name: 8 if self.sizes[name].steps else 1 for name in self.sizes}
        total = sum(steps[name] * self.sizes[name].width for name in self.inputs)
        for node in self.nodes:
            width, size = max(self.sizes[name].width for name in node.inputs), self.sizes[node.name]
            longest = max(steps[name] for name in node.inputs)
            steps[node.name] = node.layer.returned(longest, width) if size.steps else 1
            total += steps[node.name] * (node.layer.reads * width + size.width)
        return total

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
        """SHA-256 of everything that decides a result: two models with one digest explain alike.

        The names of nodes do not count, their order does.
        """
        state = hashlib.sha256()
        numbers = {node.name: str(k) for k, node in enumerate(self.nodes)}

        def number(value: str) -> str:
            name, _, output = value.partition(":")
            return f"{numbers.get(name, name)}:{output}"

        records: list[tuple[Any, Record]] = [([*map(number, node.inputs)], node.layer) for node in self.nodes]
        for place, record in [*records, *self.inputs.items()]:
            state.update(repr((place, _identities(record))).encode())
            for path, array in record.all_arrays():
                state.update(f"{path}{array.dtype}{array.shape}".encode())
                state.update(array.tobytes())
        state.update(repr([number(self.result), self.output, self.classes]).encode())
        state.update((self.output_unit or "").encode("utf-8", "surrogatepass"))
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
        said = {"scaler": scaler, "features": features, "classes": classes}
        said |= {"output_scaler": output_scaler, "output_unit": output_unit}
        change: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
        if output_scaler is not None and self.output == "sigmoid":
            end = Node(free_name("sigmoid", self.sizes), Activation("sigmoid"), (self.result,))
            change |= {"nodes": (*self.network, end), "output": "linear", "result": end.name}
        return replace(self, **change)

    @door
    def astype(self, dtype: Any) -> Model:
        """The same model with all arrays in `dtype`, float32 or float64."""
        kind = np.dtype(object)
        if isinstance(dtype, (type, np.dtype)) or (isinstance(dtype, str) and dtype.lstrip("<=") in FLOAT_NAMES):
            with contextlib.suppress(TypeError, ValueError, SyntaxError):
                kind = np.dtype(dtype)
        if kind not in FLOATS:
            raise LrpError(f"astype: dtype must be 'float32' or 'float64', got {shown(dtype)}.")
        return self._with(lambda record: record.astype(kind))

    def twin(self) -> Model:
        """Another model with the same arrays, of which nothing has been computed yet."""
        return self._with(lambda record: record.twin())

    def _with(self, change: Callable[[Any], Any]) -> Model:
        """The same model of changed records."""
        nodes = tuple(node._replace(layer=change(node.layer)) for node in self.network)
        return replace(self, nodes=nodes, inputs={name: change(one) for name, one in self.inputs.items()})

    def summary(self) -> str:
        """The inputs, nodes and scores of the network on one screen."""
        lines = []
        for name, one in self.inputs.items():
            first, *more = one.described()
            lines += [f"  {name:<9} {first}", *(f"            {line}" for line in more)]
        texts = [node.layer.described().split("\n") for node in self.network]
        column = min(76, max(len(text[0]) for text in texts))
        for node, (first, *more) in zip(self.network, texts, strict=True):
            size = self.sizes[node.name]
            gives = f"{size.width} per step" if size.steps else f"{size.width}"
            lines.append(f"  {node.name:<9} {first:<{column}}  {gives:<12} of {', '.join(node.inputs)}")
            lines += [f"            {line}" for line in more]
        scores = f"{self.outputs} from {self.result}" + (" at every step" if self.every else "") + listed(self.classes)
        if self.output_unit is not None:
            scores += f" in {self.output_unit}"
        if self.output != "linear":
            scores += f"; probabilities by {self.output}"
        if self.output_scaler is not None:
            scores += "; the target was scaled"
        lines.append(f"  scores    {scores}")
        if self.window is not None:
            lines.append(f"  window    {self.window} steps, as in training")
        lines.append(f"  method    {self.method} by default")
        lines.append(f"  weights   {self.weights:,} in {self.dtype.name}")
        return Screen("\n".join(map(printable, lines)))

    def __repr__(self) -> str:
        kinds = [type(layer).__name__ for layer in self.layers]
        if len(kinds) > 6:
            kinds[3:-2] = ["…"]
        takes = ", ".join(f"{name}: {one.size}" for name, one in self.inputs.items())
        network = f"{takes} → {', '.join(kinds)} → {self.outputs}"
        return printable(f"Model({network}; {self.weights:,} weights, {self.dtype.name})")

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.summary())}</pre>"


class Screen(str):
    """Text that shows itself as it is, where a string would show its quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _records(nodes: Iterable[Node], inputs: Mapping[str, Input]) -> list[Record]:
    return [*(node.layer for node in nodes), *inputs.values()]


def _main(inputs: Mapping[str, Input]) -> str:
    """The name of the first input that has steps, or of the first."""
    return next((name for name, one in inputs.items() if one.steps), next(iter(inputs)))


def free_name(name: str, taken: Container[str]) -> str:
    """The name of a node that is not taken yet."""
    while name in taken:
        name += "_"
    return name


def _described_inputs(given: Any, first: Mapping[str, Any], layer: Layer) -> dict[str, Input]:
    """The inputs by name; `first` describes the first one, `layer` is the one that takes it."""
    if unknown := [name for name in first if name not in FirstInput.__annotations__]:
        known = [*Model.field_names(), *FirstInput.__annotations__, "readout"]
        raise LrpError(f"Model: unknown argument {unknown[0]!r}{close_to(unknown[0], known) or '.'}")
    said = {name: value for name, value in first.items() if value is not None}
    scalers = said.pop("scaler") if isinstance(said.get("scaler"), dict) else {}
    if given is None:
        size = getattr(layer, "inputs", None)
        if size is None and "embedding" not in said:
            raise LrpError(f"Model: {type(layer).__name__} fits any input; pass inputs={{'x': lrp.Input(5)}}.")
        given, said = {INPUT: Input(size, **said)}, {}
    if not isinstance(given, Mapping) or not given:
        raise LrpError(f"Model: inputs must be a dict of name to lrp.Input, got {shown(given)}.")
    inputs = dict(given)
    for name, one in inputs.items():
        if not isinstance(one, Input) or not _is_name(name):
            raise LrpError(f"Model: inputs must be a dict of name to lrp.Input, got {name!r}: {one!r}.")
    main = _main(inputs)
    inputs[main] = replace(inputs[main], **said)
    for name, scaler in scalers.items():
        if name not in inputs:
            there = ", ".join(map(repr, inputs))
            raise LrpError(f"Model: scaler must be a dict of the inputs {there}, got {name!r}.")
        inputs[name] = replace(inputs[name], scaler=scaler)
    return inputs


def _identities(record: Record) -> list[Any]:
    return [record.identity(), *((name, _identities(part)) for name, part in record.parts())]


def _layer(one: Any) -> Any:
    """The layer of a node, or the layer itself."""
    return one.layer if isinstance(one, Node) else one


def _check_layers(given: Any) -> None:
    """Raise unless this is a list of layers or a list of nodes, with a recurrent layer."""
    if isinstance(given, (Record, Node)) or not isinstance(given, Sequence):
        raise LrpError(f"Model: nodes must be a list of layers or nodes, got {shown(given)}.")
    for k, one in enumerate(given):
        if not isinstance(_layer(one), Layer) or isinstance(one, Node) != isinstance(given[0], Node):
            raise LrpError(
                f"Model: layer {k} must be a layer, such as lrp.LSTM or lrp.Dense, got {type(one).__name__}; "
                "nodes and bare layers are not mixed."
            )
    if not any(_layer(one).recurrent for one in given):
        raise LrpError(f"Model: layers must have at least one recurrent layer, got {len(given)} others.")


def _connected(given: Any, readout: Any, start: str) -> tuple[tuple[Node, ...], str]:
    """The nodes of a list of nodes or layers, whose first input is `start`, and the name of the last value."""
    if not isinstance(given[0], Node):
        return _chain(given, one_of("last" if readout is None else readout, "Model: readout", READOUTS), start)
    if readout is not None:
        raise LrpError(f"Model: readout must be None for nodes, which contain theirs, got {shown(readout)}.")
    nodes = tuple(node for node in given if node.name != UNITS)  # which `output_scaler` makes again
    return nodes, nodes[-1].name


def _is_name(name: Any) -> bool:
    """Whether something can be the name of a node or an input: it is part of a path in a file."""
    return isinstance(name, str) and bool(name.strip(".")) and not {":", "/", "\0"} & set(name)


def _sizes(nodes: Iterable[Node], inputs: Mapping[str, Input]) -> dict[str, Size]:
    """The size of every value, every edge checked."""
    sizes = {}
    for name, one in inputs.items():
        sizes[name] = Size(int(one.size or 0), one.steps, "input" if one.embedding is None else "embedding")
    for node in nodes:
        label = f"layer {node.name} ({type(node.layer).__name__})"
        if not _is_name(node.name) or node.name in sizes:
            raise LrpError(f"Model: a node needs a unique name without ':' and '/', got {node.name!r}.")
        if unknown := [name for name in node.inputs if name not in sizes]:
            there = ", ".join(map(repr, sizes))
            raise LrpError(f"Model: {label} must take values made before it, got {unknown[0]!r}; there are {there}.")
        _check_count(node, label)
        try:
            size = node.layer.sizes(*(sizes[name] for name in node.inputs))
        except LrpError as error:
            array, _, rest = str(error).partition(" ")
            raise LrpError(f"Model: {array} of {label} {rest}") from None
        for name in node.layer.OUTPUTS:
            width = node.layer.output_width(name, size.width)
            sizes[node.name + name] = size._replace(width=width, source=label, steps=size.steps and not name)
    return sizes


def _check_count(node: Node, label: str) -> None:
    """A node has as many inputs as its layer takes."""
    takes = inspect.signature(node.layer.sizes)
    try:
        takes.bind(*node.inputs)
    except TypeError:
        wanted = ", ".join(takes.parameters)
        raise LrpError(f"Model: inputs of {label} must be ({wanted}), got {len(node.inputs)} of them.") from None


def _chain(layers: Sequence[Layer], readout: str, start: str) -> tuple[tuple[Node, ...], str]:
    """A list of layers as nodes, with the readout after the last recurrent layer; and the name of the result."""
    top = max(k for k, layer in enumerate(layers) if layer.recurrent)
    if readout == "last-row" and layers[top].causal and ":last" in layers[top].OUTPUTS:
        readout = "last"  # one direction: the row of the last step is the last output, and cheaper
    if readout == "last" and ":last" not in layers[top].OUTPUTS:
        readout = "last-row"  # a custom layer that gives its steps alone
    nodes: list[Node] = []
    value = start
    for k, layer in enumerate(layers):
        taken = (f"{value}:last", value) if isinstance(layer, Repeat) else (value,)
        nodes.append(Node(str(k), layer, taken))
        value = str(k)
        if k == top and readout == "last":
            value = f"{k}:last"
        elif k == top and readout in BETWEEN:
            nodes.append(Node(READOUT, BETWEEN[readout], (value,)))
            value = READOUT
    return tuple(nodes), value
