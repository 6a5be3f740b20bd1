"""A Keras configuration as a graph: which layers there are, and which of them is called with the values of which.

Sequential models, functional ones, and models inside models all become a `KerasGraph`. This module does not know what a
layer computes. A class that is not known is not refused at once: `parse` finds all of them, and one error names all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NoReturn

from lrpnumpy.files.safe import Fields, Source, kind_of
from lrpnumpy.layers.windows import WindowSteps

MODELS = ("Sequential", "Functional", "Model")


@dataclass(frozen=True, eq=False)
class KerasLayer:
    """One layer of a configuration: its class, its name and settings, and its place in the list of layers.

    `place` has a number for each model that it is inside of: (3, 0) is the first layer of the fourth one, a model.
    """

    kind: str
    name: str
    settings: Fields
    place: tuple[int, ...]
    graph: KerasGraph | None = None  # of a model inside the model

    def refuse(self, reason: str) -> NoReturn:
        """Raise an error that names the layer."""
        self.settings.refuse(reason)

    def number(self, key: str, default: int | None = None, least: int = 1) -> int:
        """A setting that is a whole number, alone or in a list of one."""
        value = without_list(self.settings.value.get(key))
        value = default if value is None else value
        if type(value) is not int or not least <= value < 2**31:
            self.refuse(f"{key} must be a whole number from {least}, it is {value!r:.80}")
        return value

    def one_of(self, key: str, known: Sequence[str], default: str | None = None) -> str:
        """A setting that is one of some names."""
        value = self.settings.value.get(key, default)
        if value not in known:
            self.refuse(f"{key} must be one of {', '.join(known)}, it is {kind_of(value)}")
        return str(value)

    def last_axis(self, axes: int, given: Any = None) -> None:
        """Raise unless the setting `axis`, or the one given, means the last of some axes."""
        axis = without_list(self.settings.value.get("axis", -1) if given is None else given)
        if type(axis) is not int or axis not in (-1, axes - 1):
            self.refuse(f"must have the axis of the features, -1, it has {axis!r:.80}")

    def channels_last(self) -> None:
        """Raise if features come before steps."""
        if self.settings.value.get("data_format") not in (None, "channels_last"):
            self.refuse("must have data_format='channels_last'")

    def windows(self) -> WindowSteps:
        """The windows of a convolution."""
        padding = self.one_of("padding", ("valid", "same", "causal"), "valid")
        width, stride = self.number("kernel_size"), self.number("strides", 1)
        return WindowSteps(width, stride, self.number("dilation_rate", 1), padding)


def without_list(value: Any) -> Any:
    """A setting that Keras may put into a list of one."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


class Ref(NamedTuple):
    """A value in a graph: output number `tensor` of a call of a layer."""

    layer: str
    call: int
    tensor: int


@dataclass(frozen=True, eq=False)
class KerasCall:
    """A layer applied to values."""

    layer: KerasLayer
    inputs: tuple[Ref, ...] = ()
    states: tuple[Ref, ...] = ()  # the initial_state of a recurrent layer, if it is separate
    masks: tuple[Ref, ...] = ()
    others: tuple[Any, ...] = ()  # arguments that are not values
    options: Mapping[str, Any] = field(default_factory=dict)  # the same, by name

    @property
    def needs(self) -> tuple[Ref, ...]:
        """Everything that must be there before."""
        return (*self.inputs, *self.states, *self.masks)

    def setting(self, key: str, default: Any = None) -> Any:
        """The setting of the call, or else of the layer."""
        return self.options.get(key, self.layer.settings.value.get(key, default))

    def without(self, *keys: str) -> KerasCall:
        """The same call without some of its options."""
        return replace(self, options={key: value for key, value in self.options.items() if key not in keys})


@dataclass(frozen=True, eq=False)
class KerasGraph:
    """The layers of one model in the order of the configuration, its calls, inputs and outputs."""

    where: Fields
    layers: list[KerasLayer]
    calls: dict[tuple[str, int], KerasCall]
    inputs: list[Ref]
    outputs: list[Ref]

    def ordered(self, ends: list[Ref]) -> list[tuple[tuple[str, int], KerasCall]]:
        """The calls that these values need, each after those that it takes itself; a circle is an error."""
        done: dict[tuple[str, int], KerasCall] = {}
        open_calls: set[tuple[str, int]] = set()
        stack = [(ref[:2], False) for ref in reversed(ends)]
        while stack:
            key, is_ready = stack.pop()
            if key in done:
                continue
            if key not in self.calls:
                self.where.refuse(f"takes values of {key[0][:80]!r}, call {key[1]}, which there is not")
            call = self.calls[key]
            if is_ready:
                done[key] = call
                continue
            if key in open_calls:
                call.layer.refuse("takes its own output: the layers form a circle")
            open_calls.add(key)
            stack.append((key, True))
            stack += [(ref[:2], False) for ref in reversed(call.needs) if ref[:2] not in done]
        return list(done.items())


def cells_of(settings: Fields) -> list[tuple[str, Fields]]:
    """The class and the settings of each cell of an RNN, one on top of the other."""
    outer = settings.object("cell")
    cells = [outer]
    if outer.string("class_name") == "StackedRNNCells":
        items = outer.object("config").items("cells")
        cells = [Fields(settings.source, settings.where, item) for item in items]
    return [(cell.string("class_name"), cell.object("config")) for cell in cells]


Known = Callable[[str, str], bool]  # whether a layer is understood, by its class and its name


def parse(source: Source, config: Any, known: Known) -> tuple[KerasGraph, list[KerasLayer]]:
    """The graph of a configuration of a whole model, and all layers that are not known."""
    if isinstance(config, list):
        config = {"class_name": "Sequential", "config": config}
    elif isinstance(config, dict) and "class_name" not in config and "layers" in config:  # model.get_config()
        config = {"class_name": "Functional" if "input_layers" in config else "Sequential", "config": config}
    model = Fields(source, "configuration", config)
    kind = model.string("class_name")
    if kind not in MODELS:
        model.refuse(
            f"must be of a Sequential or functional model, it is of the class {kind[:80]!r}, whose code defines how "
            "its layers are connected; build a functional model of them, copy the weights by set_weights, save it"
        )
    reader = _Reader(source, known, [])
    return reader.model(kind, model, ()), reader.unknown


@dataclass
class _Reader:
    """Reads models inside models."""

    source: Source
    known: Known
    unknown: list[KerasLayer]
    count: int = 0  # of layers, also those of models inside models

    def model(self, kind: str, model: Fields, place: tuple[int, ...]) -> KerasGraph:
        """The graph of one model."""
        self.source.budget.level(model.where, len(place))
        if kind != "Sequential":
            return self._functional(model.object("config"), place)
        config = model.value.get("config")
        if isinstance(config, list):
            config = {"layers": config}
        return self._sequential(Fields(self.source, model.where, config), place)

    def _layers(self, items: list[Any], place: tuple[int, ...]) -> list[KerasLayer]:
        """The layers of one model, counted before any of them is read."""
        self.count += len(items)
        self.source.budget.layers(self.count)
        return [self._layer(item, (*place, k)) for k, item in enumerate(items)]

    def _layer(self, item: Any, place: tuple[int, ...]) -> KerasLayer:
        self.source.budget.visit("configuration")
        layer = Fields(self.source, f"layer {place[-1]} of the configuration", item)
        kind, inner = _class(layer), layer.value.get("config")
        if not isinstance(inner, dict):
            inner = {}
        names = (layer.value.get("name"), inner.get("name"))
        name = next((n for n in names if isinstance(n, str)), f"layer_{place[-1]}")
        where = f"layer {name!r} ({kind})"[:200]
        found = KerasLayer(kind, name, Fields(self.source, where, inner), place)
        if kind in MODELS:
            return replace(found, graph=self.model(kind, Fields(self.source, where, item), place))
        if self.known(kind, name):
            layer.object("config")  # which it must have
        else:
            self.unknown.append(found)
        return found

    def _sequential(self, config: Fields, place: tuple[int, ...]) -> KerasGraph:
        """Each layer takes the first output of the one before; where no layer is the input, one is put first."""
        layers = self._layers(config.items("layers"), place)
        calls: dict[tuple[str, int], KerasCall] = {}
        if not layers or layers[0].kind != "InputLayer":
            settings = _first_settings(layers) or {"batch_input_shape": config.value.get("build_input_shape")}
            start = KerasLayer("InputLayer", "x", Fields(self.source, "the input", settings), (*place, -1))
            calls["input", 0] = KerasCall(start)
        for k, layer in enumerate(layers):
            before = (Ref(next(reversed(calls))[0], 0, 0),) if calls else ()
            calls[str(k), 0] = KerasCall(layer, before)
        first, last = next(iter(calls))[0], next(reversed(calls))[0]
        return KerasGraph(config, layers, calls, [Ref(first, 0, 0)], [Ref(last, 0, 0)])

    def _functional(self, config: Fields, place: tuple[int, ...]) -> KerasGraph:
        items = config.items("layers")
        layers = self._layers(items, place)
        if len({layer.name for layer in layers}) != len(layers):
            config.refuse("has two layers of one name")
        calls: dict[tuple[str, int], KerasCall] = {}
        for layer, item in zip(layers, items, strict=True):
            nodes = Fields(self.source, layer.settings.where, item).items("inbound_nodes")
            if not nodes and layer.kind == "InputLayer":
                calls[layer.name, 0] = KerasCall(layer)
            for number, node in enumerate(nodes):
                self.source.budget.visit(layer.settings.where)
                calls[layer.name, number] = _call(layer, node)
        inputs, outputs = _ends(config, "input_layers"), _ends(config, "output_layers")
        return KerasGraph(config, layers, _counted_alike(layers, calls, outputs), inputs, outputs)


def _counted_alike(
    layers: list[KerasLayer], calls: dict[tuple[str, int], KerasCall], outputs: list[Ref]
) -> dict[tuple[str, int], KerasCall]:
    """The calls by the numbers under which others refer to them.

    Keras 2 counts the making of a model inside a model as its call 0, which it does not list: its calls count from 1.
    """
    models = {layer.name for layer in layers if layer.graph is not None}
    numbers: dict[str, set[int]] = {}
    for ref in (*outputs, *(ref for call in calls.values() for ref in call.needs)):
        if ref.layer in models:
            numbers.setdefault(ref.layer, set()).add(ref.call)
    from_one = {name for name, found in numbers.items() if 0 not in found}
    return {(name, number + (name in from_one)): call for (name, number), call in calls.items()}


# Operations that Keras 2 lists beside its layers, by the names that Keras 3 has for them.
_OPERATIONS = {
    "math.reduce_sum": "Sum", "math.reduce_mean": "Mean", "math.reduce_max": "Max", "nn.softmax": "Softmax",
    "math.multiply": "Multiply", "math.add": "Add", "__operators__.add": "Add", "math.subtract": "Subtract",
    "concat": "Concatenate", "expand_dims": "ExpandDims", "squeeze": "Squeeze", "compat.v1.squeeze": "Squeeze",
    "math.tanh": "Tanh", "math.sigmoid": "Sigmoid", "nn.relu": "Relu", "__operators__.getitem": "GetItem",
}  # fmt: skip


_JOINS = {"concat": "Concatenate", "sum": "Add", "ave": "Average", "mul": "Multiply", "max": "Maximum"}


def _class(layer: Fields) -> str:
    """The class of a layer. One that is not Keras' own has the name of its package before it, "Custom>LSTM"."""
    kind, registered, module = layer.string("class_name"), layer.value.get("registered_name"), layer.value.get("module")
    if kind in ("TFOpLambda", "SlicingOpLambda"):
        inner = layer.value.get("config")
        function = inner.get("function") if isinstance(inner, dict) else None
        return _OPERATIONS.get(str(function), f"{kind} of {function}"[:80])
    if kind == "Merge":  # the one layer that joined values in Keras 1
        mode = layer.object("config").value.get("mode", "sum")
        return _JOINS.get(str(mode), f"Merge by {mode}"[:80])
    if isinstance(registered, str) and ">" in registered and not registered.startswith("Keras>"):
        return registered
    if isinstance(module, str) and not module.startswith(("keras", "tf_keras", "tensorflow")):
        return f"{module}>{kind}"
    return kind


def _first_settings(layers: list[KerasLayer]) -> dict[str, Any] | None:
    """The settings of the first layer that say the shape of the input, inside a model too."""
    if not layers:
        return None
    first = layers[0]
    if first.graph is not None and first.graph.inputs:
        inner = first.graph.calls.get(first.graph.inputs[0][:2])
        return inner.layer.settings.value if inner is not None else None
    if any(first.settings.has(key) for key in SHAPES):
        return first.settings.value
    return None


SHAPES = ("batch_shape", "batch_input_shape")


def _ends(config: Fields, key: str) -> list[Ref]:
    """The inputs or outputs of a model, written ["name", 0, 0], [["name", 0, 0], …] or {"name": ["name", 0, 0]}."""
    found = config.value.get(key)
    items = list(_flat(list(found.values()) if isinstance(found, dict) else config.items(key)))
    refs = _refs_among(items)
    if not refs or len(refs) != len(items):
        config.refuse(f"has {key.replace('_', ' ')} that are not understood")
    return refs


def _ref(value: Any) -> Ref | None:
    """["name", 0, 0] and what may follow, in Keras 3 inside of a tensor; None for anything else."""
    if isinstance(value, dict) and value.get("class_name") == "__keras_tensor__":
        inner = value.get("config")
        value = inner.get("keras_history") if isinstance(inner, dict) else None
    if isinstance(value, list) and len(value) in (3, 4) and [type(one) for one in value[:3]] == [str, int, int]:
        return Ref(*value[:3])
    return None


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list) and _ref(value) is None:
        for item in value:
            yield from _flat(item)
    else:
        yield value


def _call(layer: KerasLayer, node: Any) -> KerasCall:
    """One entry of inbound_nodes: of Keras 1 and 2 [["name", 0, 0, {…}], …], of Keras 3 {"args": …, "kwargs": …}."""
    if isinstance(node, list):
        given = [node] if _ref(node) is not None else node
        if any(_ref(item) is None for item in given):
            layer.refuse("has inputs that are not understood")
        options: dict[str, Any] = {}
        for item in given:
            if isinstance(item[-1], dict):  # each input repeats them
                options |= item[-1]
    elif isinstance(node, dict) and node and not {"args", "kwargs"}.intersection(node):
        layer.refuse(f"takes its inputs by name ({', '.join(map(str, node))[:80]}), which is not supported")
    else:
        call = Fields(layer.settings.source, f"{layer.settings.where}: inbound_nodes", node)
        given, options = list(_flat(call.items("args"))), call.object("kwargs").value
    values = {key: _refs(options.get(key)) for key in (*_VALUES, "initial_state", "mask")}
    inputs = [*_refs_among(given), *(ref for key in _VALUES for ref in values[key])]
    arguments = tuple(value for value in given if _ref(value) is None)
    named = {
        key: value
        for key, value in options.items()
        if not (key == "name" or (key == "training" and value is False) or all(one is None for one in _flat(value)))
        and not values.get(key)
    }
    return KerasCall(layer, tuple(inputs), tuple(values["initial_state"]), tuple(values["mask"]), arguments, named)


_VALUES = ("value", "key", "y", "x2")  # arguments that are values like the first one


def _refs_among(values: Iterable[Any]) -> list[Ref]:
    return [ref for ref in map(_ref, values) if ref is not None]


def _refs(value: Any) -> list[Ref]:
    """The values in an argument, which may be a list that has None in places; nothing if there is anything else."""
    given = [one for one in _flat(value) if one is not None]
    found = _refs_among(given)
    return found if len(found) == len(given) else []
