"""What the layers of Keras mean, of whichever version, and how a configuration and its arrays become a Model.

Nothing is ever built from a class name: a name is looked up in a table of what is understood, and anything else is
refused. Which layer takes what is found out in keras_config.py; where the arrays are in a file is the business of
keras2.py and keras3.py.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NoReturn

import numpy as np

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.checks import LrpError
from lrpnumpy.files import keras_cells
from lrpnumpy.files.keras_config import SHAPES, Call, Graph, KerasLayer, Ref, parse
from lrpnumpy.files.safe import Fields, Shape, Source
from lrpnumpy.files.simpler import simpler
from lrpnumpy.layers import (
    Activation,
    Add,
    Affine,
    Average,
    AvgPool1D,
    Bidirectional,
    Cell,
    Concat,
    Conv1D,
    Dense,
    Embedding,
    Flatten,
    Layer,
    LayerNorm,
    Max,
    MaxPool1D,
    Mean,
    Multiply,
    Repeat,
    Reshape,
    Reverse,
    Size,
    Subtract,
)
from lrpnumpy.model import READOUT, Input, Model, Node

# Layers that change nothing once a network is trained.
NO_OPS = (
    "Dropout", "SpatialDropout1D", "GaussianNoise", "GaussianDropout", "AlphaDropout", "ActivityRegularization",
    "Identity",
)  # fmt: skip
MASK_OPERATIONS = ("NotEqual", "Any")  # as Keras 3 lists them beside the layers
MERGES = {"concat": "concat", "sum": "sum", "ave": "mean"}
JOINS: dict[str, Callable[[], Layer]] = {
    "Concatenate": Concat, "Add": Add, "Average": Average, "Subtract": Subtract, "Multiply": Multiply,
}  # fmt: skip
PROBABILITIES = ("softmax", "sigmoid")
SAME = {"swish": "silu"}  # names of Keras that are others here
ADVICE = {"Lambda": "holds Python code, which is never run"}

# The arrays of a layer, name to path, in Keras' order: kernel, recurrent kernel, bias, forwards before backwards.
Paths = Callable[[KerasLayer], dict[str, str]]
Custom = Mapping[str, Callable[[dict[str, Any], dict[str, np.ndarray]], Layer]]


def build(
    source: Source,
    config: Any,
    paths_of: Callable[[list[KerasLayer]], Paths],
    custom: Custom | None = None,
    which: str | None = None,
) -> tuple[Model, list[str]]:
    """The model of a configuration, and what was assumed.

    `paths_of` finds the arrays of a list of layers, `custom` has functions for layers that are not understood, by class
    or name, and `which` names one of several outputs.
    """
    custom = dict(custom or {})
    graph, unknown = parse(source, config, lambda kind, name: kind in _TAKEN or _own(custom, kind, name) is not None)
    if unknown:
        _refuse_all(source, unknown)
    said = config.get("keras_version") if isinstance(config, dict) else None
    version = said if isinstance(said, str) else None
    if version is None and any(one.kind == "InputLayer" and one.settings.has("batch_shape") for one in graph.layers):
        version = "3"  # before, it was called batch_input_shape
    made = _Build(source, paths_of(graph.layers), version, custom)
    return made.model(graph, _chosen(graph, which)), made.notes


def _own(custom: Custom, kind: str, name: str) -> Any:
    """The caller's function for a layer: by its name, by its class, or by its class without the package."""
    return next((custom[key] for key in (name, kind, kind.split(">")[-1]) if key in custom), None)


def _refuse_all(source: Source, unknown: list[KerasLayer]) -> NoReturn:
    """One error for all layers that are not supported."""
    shown = [f"{one.name[:80]!r} of the class {one.kind[:80]!r}" for one in unknown[:20]]
    reasons = [f"{kind} {text}; " for kind, text in ADVICE.items() if any(one.kind == kind for one in unknown)]
    kind = unknown[0].kind.split(">")[-1][:80]
    raise source.error(
        "configuration",
        f"has layers that are not supported: {', '.join(shown)}{', …' if len(unknown) > 20 else ''}; {''.join(reasons)}"
        f"to say what a layer does, write custom={{{kind!r}: f}}, where f(settings, arrays) gives a layer of lrpnumpy; "
        f"supported are {', '.join(sorted((*_TAKEN, 'Sequential', 'Functional')))}",
    )


def _chosen(graph: Graph, which: str | None) -> Ref:
    """The output that gives the scores."""
    names = [ref.layer for ref in graph.outputs]
    if len(names) == 1:
        if which is not None:
            graph.where.refuse(f"has one output; which must be left out, got {which!r}")
        return graph.outputs[0]
    if which not in names:
        listed = ", ".join(repr(name[:80]) for name in names[:20])
        got = "" if which is None else f", got {which!r}"
        graph.where.refuse(
            f"has {len(names)} outputs, {listed}; say which one gives the scores: which={names[0]!r}{got}"
        )
    return graph.outputs[names.index(which)]


class Value(NamedTuple):
    """What flows between the layers while the model is made."""

    name: str  # of an input, a node, or a state of a node
    width: int | None = None  # None while nothing has said it
    steps: bool = True
    length: int | None = None  # steps, where the file fixes them
    mask: tuple[str, float] | None = None  # the input whose padding is skipped, and the value of padding
    probability: str = ""  # "softmax" or "sigmoid": still to be applied, taken off at the very end
    is_input: bool = False
    is_mask: bool = False  # what Keras 3 computes beside the network to find the padding


@dataclass
class _Port:
    """An input of the network while it is made."""

    shape: list[Any] | None  # without the batch; None where it is not said
    size: int | None = None
    steps: bool = True
    embedding: Embedding | None = None
    mask_value: float | None = None
    seen: set[Any] = field(default_factory=set)  # the masks with which it was taken

    def made(self) -> Input:
        """The input of the model."""
        return Input(self.size, self.steps, embedding=self.embedding, mask_value=self.mask_value)


@dataclass
class _Build:
    """A model while its layers are added one by one."""

    source: Source
    paths: Paths
    version: str | None
    custom: Custom
    ports: dict[str, _Port] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    applied: dict[str, Value] = field(default_factory=dict)  # values after their sigmoid, where others take them
    counts: dict[str, int] = field(default_factory=dict)  # how often a name of the file was given to a node
    inputs: dict[Ref, str] = field(default_factory=dict)  # names of the ports
    notes: list[str] = field(default_factory=list)

    def model(self, graph: Graph, end: Ref) -> Model:
        """The model of a whole graph."""
        (result,) = self.run(graph, [end], {})
        for name, port in self.ports.items():
            if len(port.seen) > 1:
                graph.where.refuse(f"takes the input {name!r} with its padding and without, which is not supported")
        if not self.nodes:
            return Model(())
        ports = {self.inputs[ref]: self.ports[self.inputs[ref]].made() for ref in graph.inputs if ref in self.inputs}
        output = result.probability or "linear"
        model = Model(tuple(self.nodes.values()), ports=ports, result=result.name, output=output)  # type: ignore[arg-type]
        smaller, note = simpler(model)
        if note:
            self.note(note)
        return smaller

    def run(self, graph: Graph, ends: list[Ref], given: dict[Ref, Value]) -> list[Value]:
        """The values of a graph at these places; `given` are those of its inputs, of a model inside a model."""
        values = dict(given)
        for (name, number), call in graph.ordered(ends):
            ref = Ref(name, number, 0)
            if ref in values:
                continue
            self.source.budget.visit(call.layer.settings.where)
            if call.layer.kind == "InputLayer":
                values[ref] = self.port(call.layer, ref)
                continue
            for one in call.needs:
                if one not in values:
                    call.layer.refuse(f"takes output {one.tensor} of {one.layer[:80]!r}, which there is not")
            xs, states = ([values[one] for one in refs] for refs in (call.inputs, call.states))
            for number_out, value in enumerate(self.call(call, xs, states, [values[one] for one in call.masks])):
                values[Ref(name, number, number_out)] = value
        for end in ends:
            if end not in values:
                graph.where.refuse(f"has output {end.tensor} of {end.layer[:80]!r} at its end, which there is not")
        return [values[end] for end in ends]

    def call(self, call: Call, xs: list[Value], states: list[Value], masks: list[Value]) -> Sequence[Value]:
        """What a layer gives for these values."""
        layer = call.layer
        if not xs:
            layer.refuse("must be applied to at least one input, it has none")
        if layer.kind in MASK_OPERATIONS:
            return self._mask(call, xs)
        if call.others:
            layer.refuse("is called with more than its input, which is not understood")
        if any(x.is_mask for x in (*xs, *states)):
            layer.refuse("computes with a mask, which is not understood")
        if any(not one.is_mask or one.mask not in {x.mask for x in xs} for one in masks):
            layer.refuse("takes a mask that is not that of its input, which is not understood")
        if layer.graph is not None:
            return self._inner(layer, layer.graph, xs)
        if layer.settings.has("quantization_config"):
            layer.refuse("is quantised, which is not supported")
        if _own(self.custom, layer.kind, layer.name) is not None:
            return self._custom(layer, xs)
        if layer.kind in RECURRENT:
            return self._recurrent(layer, xs, states)
        if states:
            layer.refuse("takes start states, which only recurrent layers do")
        if layer.kind in JOINS:
            return [self._join(layer, xs)]
        if len(xs) != 1:
            layer.refuse(f"must have one input, it has {len(xs)}")
        return [_TAKEN[layer.kind](self, layer, xs[0])]

    # ---------------------------------------------------------------------------------------------- values and nodes

    def note(self, text: str) -> None:
        """Remember, once, what was assumed and why."""
        if text not in self.notes:
            self.notes.append(text)

    def take(self, layer: KerasLayer, paths: Sequence[str], shapes: list[Shape]) -> list[np.ndarray]:
        """The arrays of a layer, each of its expected shape; of a layer that is called again, those read before."""
        if len(paths) != len(shapes):
            layer.refuse(f"must have {len(shapes)} arrays, the file has {len(paths)}")
        for path, shape in zip(paths, shapes, strict=True):
            if path not in self.arrays:
                self.arrays[path] = self.source.array(path, shape)
            self.source.fits(path, self.arrays[path].shape, shape)
        return [self.arrays[path] for path in paths]

    def own_arrays(self, layer: KerasLayer, shapes: list[Shape]) -> list[np.ndarray]:
        """All arrays of a layer."""
        return self.take(layer, list(self.paths(layer).values()), shapes)

    def fresh(self, name: str) -> str:
        """A name for a node or an input that none has yet, made from one of the file."""
        plain = "".join("_" if c in ":/\0" or not c.isprintable() else c for c in name[:80])
        plain = plain if plain.strip(".") and plain != READOUT else f"layer_{plain}"
        found = plain
        while found in self.nodes or found in self.ports:
            self.counts[plain] = self.counts.get(plain, 1) + 1
            found = f"{plain}_{self.counts[plain]}"
        return found

    def port(self, layer: KerasLayer, ref: Ref) -> Value:
        """An input of the whole network; what it holds is known once something takes it."""
        shape = next((s for key in SHAPES if isinstance(s := layer.settings.value.get(key), list)), None)
        name = self.fresh(layer.name)
        self.inputs[ref] = name
        inner = None if shape is None else shape[1:]
        port = self.ports[name] = _Port(inner)
        length = None
        if inner is not None:
            last = inner[-1] if inner else None
            port.size = last if len(inner) <= 2 and type(last) is int and last > 0 else None
            port.steps = len(inner) != 1
            length = _length(inner[0]) if len(inner) == 2 else None
        return Value(name, port.size, port.steps, length, is_input=True)

    def taken(self, layer: KerasLayer, x: Value) -> Value:
        """A value as another layer takes it: after its sigmoid, if it has one."""
        if x.is_input:
            port = self.ports[x.name]
            port.seen.add(x.mask)
            if port.embedding is not None or (port.shape is not None and len(port.shape) > 2):
                layer.refuse("takes an input whose numbers it cannot compute with: token ids, or more than two axes")
            return x._replace(width=port.size, steps=port.steps)
        if x.probability == "softmax":
            layer.refuse("comes after a softmax, which is supported at the very end only")
        if x.probability and x.name not in self.applied:
            after = self.fresh(f"{x.name}_{x.probability}")
            self.nodes[after] = Node(after, Activation(x.probability), (x.name,))
            self.applied[x.name] = x._replace(name=after, probability="")
            self.notes = [one for one in self.notes if one != _taken_off(x.probability)]
        return self.applied[x.name] if x.probability else x

    def node(self, layer: KerasLayer, ours: Layer, *inputs: Value, name: str = "", length: Any = "same") -> Value:
        """Add a node, and give the value of its main output."""
        xs = [self.taken(layer, x) for x in inputs]
        for k, x in enumerate(xs):
            if x.width is None:
                width = getattr(ours, "inputs", None)
                if width is None:
                    layer.refuse("takes an input of which the file does not say how many features it has")
                self.ports[x.name].size = width
                xs[k] = x._replace(width=width)
        try:
            size = ours.sizes(*(Size(x.width, x.steps, f"value {x.name!r}") for x in xs))  # type: ignore[arg-type]
        except LrpError as error:
            layer.refuse(f"does not fit: {str(error).removesuffix('.')}")
        name = self.fresh(name or layer.name)
        self.nodes[name] = Node(name, ours, tuple(x.name for x in xs))
        steps = size.steps
        before = next((x.length for x in xs if x.length is not None and x.steps), None)
        masks = [x.mask for x in xs if x.steps]
        return Value(name, size.width, steps, (before if length == "same" else length) if steps else None,
                     masks[0] if masks and steps else None)  # fmt: skip

    def series(self, layer: KerasLayer, x: Value) -> Value:
        """A value that has steps, or an error."""
        x = self.taken(layer, x)
        if not x.steps:
            layer.refuse("needs a vector for each step, the layer before it hands on a single one")
        return x

    def unmasked(self, layer: KerasLayer, x: Value) -> None:
        """Refuse padding where Keras computes with it."""
        if x.mask is not None and x.steps:
            layer.refuse("computes with padding too, which is not supported; train it without a mask")

    def _inner(self, layer: KerasLayer, graph: Graph, xs: list[Value]) -> Sequence[Value]:
        """A model inside the model: its layers are those of the whole."""
        if len(xs) != len(graph.inputs):
            layer.refuse(f"is a model with {len(graph.inputs)} inputs, it is called with {len(xs)}")
        return self.run(graph, graph.outputs, dict(zip(graph.inputs, xs, strict=True)))

    def _custom(self, layer: KerasLayer, xs: list[Value]) -> Sequence[Value]:
        """What the caller's function makes of settings and arrays."""
        make: Any = _own(self.custom, layer.kind, layer.name)
        found = {name: self.source.array(path, self.source.shape(path)) for name, path in self.paths(layer).items()}
        ours = make(copy.deepcopy(layer.settings.value), found)
        if not isinstance(ours, Layer):
            layer.refuse(f"the function in custom must give a layer of lrpnumpy, got {type(ours).__name__}")
        return [self.node(layer, ours, *xs, length=None)]

    # ----------------------------------------------------------------------------------------------- inputs and masks

    def _embedding(self, layer: KerasLayer, x: Value) -> Value:
        s = layer.settings
        port = self.ports[x.name] if x.is_input else None
        if port is None or x.mask is not None or port.embedding is not None or port.seen:
            layer.refuse("must be the first layer, and the only one that an input goes to")
        if port.shape is not None and len(port.shape) > 1:
            layer.refuse("takes token ids of more than one axis, which is not supported")
        (E,) = self.own_arrays(layer, [(s.integer("input_dim"), s.integer("output_dim"))])
        port.steps = port.shape != []
        masks = s.boolean("mask_zero", False) and port.steps
        if masks:
            self.note("mask_zero: token 0 is padding, its steps are skipped")
        port.embedding, port.size = Embedding(E, mask=0 if masks else None), E.shape[1]
        self.note("Keras files hold no vocabulary: inputs are token ids")
        length = _length(port.shape[0]) if port.shape else None
        return Value(x.name, E.shape[1], port.steps, length, (x.name, 0.0) if masks else None)

    def _masking(self, layer: KerasLayer, x: Value) -> Value:
        if not x.is_input or x.mask is not None or not x.steps:
            layer.refuse("is supported as the first layer only, over numeric inputs")
        value = layer.settings.number("mask_value")
        self.ports[x.name].mask_value = value
        self.note(f"Masking: steps whose features all equal {value:g} are skipped")
        return x._replace(mask=(x.name, value))

    def _mask(self, call: Call, xs: list[Value]) -> Sequence[Value]:
        """NotEqual compares an input with the value of padding; Any asks whether one of the features differs."""
        x, layer = xs[0], call.layer
        if layer.kind == "NotEqual":
            value = call.others[0] if len(call.others) == 1 else None
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if len(xs) != 1 or not x.is_input or not is_number:
                layer.refuse("is supported as part of a mask only")
            return [x._replace(mask=(x.name, float(value)), is_mask=True)]  # type: ignore[arg-type]
        if len(xs) != 1 or not x.is_mask or call.others:
            layer.refuse("is supported as part of a mask only")
        return [x]

    def _idle(self, layer: KerasLayer, x: Value) -> Value:
        self.note(f"{layer.kind} layers are left out: they do nothing in a trained network")
        return x

    # ------------------------------------------------------------------------------------------------------ recurrent

    def _recurrent(self, layer: KerasLayer, xs: list[Value], states: list[Value]) -> Sequence[Value]:
        x, starts = self.series(layer, xs[0]), [*xs[1:], *states]
        both = layer.kind == "Bidirectional"
        kind, sides = self._directions(layer) if both else (layer.kind, [self._modern(layer.settings)])
        paths = list(self.paths(layer).values())
        if len(paths) % len(sides):
            layer.refuse(f"has {len(paths)} arrays, not the same number for both directions")
        each = len(paths) // len(sides)
        cells = [self._cell(layer, kind, side, paths[k * each :][:each], x.width) for k, side in enumerate(sides)]
        backwards = not both and sides[0].boolean("go_backwards", False)
        returns, sequences = sides[0].boolean("return_state", False), sides[0].boolean("return_sequences", False)
        if both:
            merge = self._one_of(layer, layer.settings, "merge_mode", tuple(MERGES))
            if returns or starts:
                return self._apart(layer, cells, merge, x, starts, sequences, returns)
            out = self.node(layer, Bidirectional(cells[0], cells[1], MERGES[merge]), x)  # type: ignore[arg-type]
            return [out if sequences else _last(out)]
        if backwards:
            self.note("go_backwards: the steps are reversed before the layer")
            x = self.node(layer, Reverse(), x, name=f"{layer.name}_reversed")
        out = self.node(layer, cells[0], x, *starts)
        return [out if sequences else _last(out), *(_states(out, cells[0]) if returns else ())]

    def _apart(
        self,
        layer: KerasLayer,
        cells: list[Cell],
        merge: str,
        x: Value,
        starts: list[Value],
        sequences: bool,
        returns: bool,
    ) -> Sequence[Value]:
        """Two directions whose states others take or give: each is a node of its own."""
        half = len(starts) // 2
        if len(starts) % 2:
            layer.refuse(f"must get as many start states forwards as backwards, it gets {len(starts)}")
        ahead = self.node(layer, cells[0], x, *starts[:half], name=f"{layer.name}_forward")
        mirrored = self.node(layer, Reverse(), x, name=f"{layer.name}_reversed")
        back = self.node(layer, cells[1], mirrored, *starts[half:], name=f"{layer.name}_backward")
        ends = [_last(ahead), _last(back)]
        if sequences:
            ends = [ahead, self.node(layer, Reverse(), back, name=f"{layer.name}_in_order")]
        joined = self.node(layer, {"concat": Concat, "sum": Add, "ave": Average}[merge](), *ends)
        given = (*_states(ahead, cells[0]), *_states(back, cells[1]))
        return [joined, *(given if returns else ())]

    def _directions(self, layer: KerasLayer) -> tuple[str, list[Fields]]:
        """The class and the settings of the forward and the backward layer inside a Bidirectional."""
        s = layer.settings
        inner = [s.object("layer"), s.object("backward_layer" if s.has("backward_layer") else "layer")]
        kinds = {side.string("class_name") for side in inner}
        if len(kinds) > 1 or not kinds <= set(keras_cells.KINDS):
            known = ", ".join(keras_cells.KINDS)
            layer.refuse(f"is supported around {known} only, it holds {' and '.join(sorted(kinds))}")
        sides = [self._modern(side.object("config")) for side in inner]
        backwards = [side.boolean("go_backwards", False) for side in sides]
        if backwards != [False, s.has("backward_layer")]:
            layer.refuse("must read forwards with one layer and backwards with the other")
        if sides[0].boolean("return_sequences", False) != sides[1].boolean("return_sequences", False):
            layer.refuse("must have the same return_sequences in both directions")
        return kinds.pop(), sides

    def _modern(self, s: Fields) -> Fields:
        """Settings of a recurrent or Dense layer of Keras 1 under their later names."""
        renamed = {"output_dim": "units", "inner_activation": "recurrent_activation", "bias": "use_bias"}
        if "output_dim" not in s.value or "units" in s.value:
            return s
        self.version = self.version or "1"
        return Fields(s.source, s.where, {renamed.get(key, key): value for key, value in s.value.items()})

    def _cell(self, layer: KerasLayer, kind: str, s: Fields, paths: list[str], D: int | None) -> Cell:
        if s.boolean("time_major", False):
            layer.refuse("time_major=True is not supported")
        if s.boolean("stateful", False):
            self.note("stateful is left out: every sequence starts from a zero state, as after reset_states()")
        cell = keras_cells.cell_of(layer, kind, s, paths, D, self.take, self.note)
        keys = {"SimpleRNN": ("activation",), "CuDNNLSTM": (), "CuDNNGRU": ()}
        names = {}
        for key in keys.get(kind, ("activation", "recurrent_activation")):
            names[key], alpha = self._function(layer, key, s.value.get(key))
            if alpha is not None or names[key] == "softmax":
                layer.refuse(f"{key} must be one of {', '.join(_names())}, it is {names[key]} with settings of its own")
        return replace(cell, **names)  # type: ignore[type-var]

    # ---------------------------------------------------------------------------------------------------- activations

    def _function(self, layer: KerasLayer, key: str, given: Any) -> tuple[str, float | None]:
        """Our name of an activation, and its alpha where it has one."""
        if isinstance(given, dict):
            inner = given.get("config")
            if given.get("class_name") == "function" and isinstance(inner, str):
                given = inner
            elif given.get("class_name") in _PLAIN and isinstance(inner, dict):
                settings = Fields(self.source, layer.settings.where, inner)
                return self._of_layer(layer, str(given["class_name"]), settings)
        if given == "leaky_relu":
            return "leaky_relu", 0.2  # that of the function; the layer LeakyReLU has another
        if given == "hard_sigmoid":
            return self._hard_sigmoid(layer), None
        name = SAME.get(given, given) if isinstance(given, str) else given
        if name == "softmax" or (isinstance(name, str) and name in _names()):
            return name, None
        shown = given if isinstance(given, str) else "a custom function" if given else "not said"
        layer.refuse(f"{key} must be one of {', '.join(_names())}, it is {shown}")

    def _of_layer(self, layer: KerasLayer, kind: str, s: Fields) -> tuple[str, float | None]:
        """The function of a layer that is nothing but an activation, and its alpha."""
        if kind == "Activation":
            return self._function(layer, "activation", s.value.get("activation"))
        if kind == "Softmax":
            if s.value.get("axis", -1) not in (-1, [-1]):
                layer.refuse("must have axis -1")
            return "softmax", None
        if kind == "ReLU":
            plain = {"max_value": (None,), "threshold": (None, 0)}
            if any(s.value.get(key) not in ok for key, ok in plain.items()):
                layer.refuse("must have no max_value and no threshold")
            slope = s.number("negative_slope") if s.has("negative_slope") else 0.0
            return ("leaky_relu", slope) if slope else ("relu", None)
        if kind == "ELU":
            return "elu", s.number("alpha") if s.has("alpha") else 1.0
        key = next((key for key in ("negative_slope", "alpha") if s.has(key)), None)
        return "leaky_relu", 0.3 if key is None else s.number(key)

    def _activation(self, layer: KerasLayer, x: Value) -> Value:
        return self._apply(layer, x, *self._of_layer(layer, layer.kind, layer.settings))

    def _apply(self, layer: KerasLayer, x: Value, name: str, alpha: float | None) -> Value:
        """An activation after a value; a probability is not applied before another layer asks for it."""
        if name == "linear":
            return x
        if name in PROBABILITIES:
            x = self.taken(layer, x)
            self.note(_taken_off(name))
            return x._replace(probability=name, is_input=False) if not x.is_input else self._no_layer(layer, name)
        return self.node(
            layer, Activation(name, alpha), x, name=f"{layer.name}_{name}" if layer.kind not in _PLAIN else ""
        )

    def _no_layer(self, layer: KerasLayer, name: str) -> NoReturn:
        layer.refuse(f"{name} is supported after a layer only")

    def _prelu(self, layer: KerasLayer, x: Value) -> Value:
        x = self.taken(layer, x)
        (path,) = list(self.paths(layer).values())[:1] or [layer.refuse("has no array in the file")]
        shape = self.source.shape(path)
        if x.steps and (len(shape) != 2 or shape[0] != 1):
            layer.refuse("has slopes for every step; only those shared by all steps (shared_axes=[1]) are supported")
        (slopes,) = self.take(layer, [path], [(1, x.width) if x.steps else (x.width,)])
        return self.node(layer, Activation("prelu", slopes=slopes.reshape(-1)), x)

    def _hard_sigmoid(self, layer: KerasLayer) -> str:
        """Which of the two functions of one name is meant: the version of Keras decides."""
        major = (self.version or "").split(".")[0]
        if major not in ("1", "2", "3"):
            layer.refuse(
                "hard_sigmoid is one function in Keras 1 and 2 and another in 3, and nothing says which "
                'wrote the file; put "keras_version" into the configuration'
            )
        formula, name = ("x/6", "hard_sigmoid_3") if major == "3" else ("0.2 x", "hard_sigmoid")
        self.note(f"hard_sigmoid is clip({formula} + 0.5, 0, 1), as in the Keras {self.version} that wrote the file")
        return name

    def _one_of(self, layer: KerasLayer, s: Fields, key: str, known: tuple[str, ...]) -> str:
        value = s.value.get(key)
        if value not in known:
            shown = value if isinstance(value, str) else "a custom function" if value else "not said"
            layer.refuse(f"{key} must be one of {', '.join(known)}, it is {shown}")
        return str(value)

    # -------------------------------------------------------------------------------------------- layers with weights

    def _dense(self, layer: KerasLayer, x: Value) -> Value:
        s = self._modern(layer.settings)
        x = self.taken(layer, x)
        n, biased = s.integer("units"), s.boolean("use_bias", True)
        V, *rest = self.own_arrays(layer, [(x.width, n), *([(n,)] if biased else [])])
        out = self.node(layer, Dense(np.ascontiguousarray(V.T), rest[0] if biased else None), x)
        return self._apply(layer, out, *self._function(layer, "activation", s.value.get("activation") or "linear"))

    def _each_step(self, layer: KerasLayer, x: Value) -> Value:
        """TimeDistributed: at every step what the layer inside does."""
        x = self.series(layer, x) if not x.probability else x
        if layer.kind == "TimeDistributedDense":
            return self._dense(layer, x)
        inner = layer.settings.object("layer")
        kind = inner.string("class_name")
        if kind not in ("Dense", *_PLAIN, *NO_OPS):
            layer.refuse(f"is supported around Dense only, and around activations and Dropout, it holds {kind!r}")
        settings = Fields(self.source, layer.settings.where, inner.object("config").value)
        if kind == "Dense":
            return self._dense(replace(layer, settings=settings), x)
        return _TAKEN[kind](self, replace(layer, kind=kind, settings=settings), x)

    def _conv(self, layer: KerasLayer, x: Value) -> Value:
        x, s = self.series(layer, x), layer.settings
        self.unmasked(layer, x)
        self._channels_last(layer)
        n, biased = s.integer("filters"), s.boolean("use_bias", True)
        width, stride, dilation = (self._number(layer, key, default) for key, default in _WINDOW)
        groups = s.integer("groups") if s.has("groups") else 1
        if groups < 1 or (x.width or groups) % groups:
            layer.refuse(f"groups must divide the {x.width} features, it is {groups}")
        padding = self._one_of(layer, s, "padding", ("valid", "same", "causal"))
        inputs = None if x.width is None else x.width // groups
        K, *rest = self.own_arrays(layer, [(width, inputs, n), *([(n,)] if biased else [])])
        ours = Conv1D(
            np.ascontiguousarray(K.transpose(2, 0, 1)), rest[0] if biased else None,
            stride=stride, dilation=dilation, padding=padding, groups=groups,
        )  # fmt: skip
        out = self.node(layer, ours, x, length=_windows(x.length, (width - 1) * dilation + 1, stride, padding))
        return self._apply(layer, out, *self._function(layer, "activation", s.value.get("activation") or "linear"))

    def _number(self, layer: KerasLayer, key: str, default: int | None) -> int:
        """A whole number from 1, alone or in a list of one."""
        value = layer.settings.value.get(key)
        value = value[0] if isinstance(value, list) and len(value) == 1 else default if value is None else value
        if type(value) is not int or not 0 < value < 2**31:
            layer.refuse(f"{key} must be a whole number from 1, it is {value!r:.80}")
        return value

    def _channels_last(self, layer: KerasLayer) -> None:
        if layer.settings.value.get("data_format") not in (None, "channels_last"):
            layer.refuse("must have data_format='channels_last'")

    def _last_axis(self, layer: KerasLayer, x: Value) -> None:
        """Raise unless the setting `axis` means the features."""
        axis = layer.settings.value.get("axis", -1)
        axis = axis[0] if isinstance(axis, list) and len(axis) == 1 else axis
        if type(axis) is not int or axis not in (-1, 2 if x.steps else 1):
            layer.refuse(f"must have the axis of the features, -1, it has {axis!r:.80}")

    def _scale_and_center(self, layer: KerasLayer, width: int | None, fixed: int) -> list[np.ndarray | None]:
        """gamma and beta, None where the layer has none, and the other arrays."""
        has = [layer.settings.boolean(key, True) for key in ("scale", "center")]
        found = iter(self.own_arrays(layer, [(width,)] * (sum(has) + fixed)))
        return [*(next(found) if one else None for one in has), *found]

    def _batch_norm(self, layer: KerasLayer, x: Value) -> Value:
        x = self.taken(layer, x)
        self._last_axis(layer, x)
        gamma, beta, mean, var = self._scale_and_center(layer, x.width, 2)
        return self.node(layer, Affine.batch_norm(gamma, beta, mean, var, layer.settings.number("epsilon")), x)

    def _layer_norm(self, layer: KerasLayer, x: Value) -> Value:
        x = self.taken(layer, x)
        self._last_axis(layer, x)
        if layer.settings.boolean("rms_scaling", False):
            layer.refuse("rms_scaling=True is not supported")
        gamma, beta = self._scale_and_center(layer, x.width, 0)
        if gamma is None:
            gamma = np.ones(self._width(layer, x), np.float32)
        return self.node(layer, LayerNorm(gamma, beta, layer.settings.number("epsilon")), x)  # type: ignore[arg-type]

    def _normalization(self, layer: KerasLayer, x: Value) -> Value:
        """(x - mean) / sqrt(variance), of the data that the layer has seen."""
        x, s = self.taken(layer, x), layer.settings
        self._last_axis(layer, x)
        if s.boolean("invert", False):
            layer.refuse("invert=True is not supported")
        if s.has("mean"):
            mean, var = (self._per_feature(layer, key, self._width(layer, x)) for key in ("mean", "variance"))
        else:
            mean, var = self.take(layer, list(self.paths(layer).values())[:2], [(x.width,), (x.width,)])
        if (var < 0).any():
            layer.refuse("has variances below 0")
        scale = (1 / np.maximum(np.sqrt(var), 1e-7)).astype(mean.dtype)
        return self.node(layer, Affine(scale, -mean * scale, scaler=x.is_input), x)

    def _rescaling(self, layer: KerasLayer, x: Value) -> Value:
        x = self.taken(layer, x)
        scale, offset = (self._per_feature(layer, key, self._width(layer, x)) for key in ("scale", "offset"))
        return self.node(layer, Affine(scale, offset, scaler=x.is_input), x)

    def _per_feature(self, layer: KerasLayer, key: str, width: int) -> np.ndarray:
        """A setting that is one number, or a list of one for each feature."""
        value: Any = layer.settings.value.get(key)
        while isinstance(value, list) and len(value) == 1:
            value = value[0]
        values = value if isinstance(value, list) else [value] * width
        if len(values) != width or not all(type(one) in (int, float) and math.isfinite(one) for one in values):
            layer.refuse(f"{key} must be a number, or one for each of the {width} features")
        return np.array(values, np.float32)

    def _width(self, layer: KerasLayer, x: Value) -> int:
        if x.width is None:
            layer.refuse("takes an input of which the file does not say how many features it has")
        return x.width

    # -------------------------------------------------------------------------------------------------- steps, joins

    def _pool(self, layer: KerasLayer, x: Value) -> Value:
        x = self.series(layer, x)
        self.unmasked(layer, x)
        self._channels_last(layer)
        key = "pool_length" if layer.settings.has("pool_length") else "pool_size"
        size = self._number(layer, key, None)
        stride = self._number(layer, "strides", size)
        padding = self._one_of(layer, layer.settings, "padding", ("valid", "same"))
        kind = MaxPool1D if layer.kind == "MaxPooling1D" else AvgPool1D
        return self.node(layer, kind(size, stride, padding), x, length=_windows(x.length, size, stride, padding))

    def _global_pool(self, layer: KerasLayer, x: Value) -> Value:
        x, s = self.series(layer, x), layer.settings
        if s.boolean("keepdims", False) or s.value.get("data_format") not in (None, "channels_last"):
            layer.refuse("must have keepdims=False and data_format='channels_last'")
        if "Max" not in layer.kind:
            return self.node(layer, Mean(), x)
        if x.mask is not None:
            layer.refuse("takes the maximum over padding too, which is not supported; train it without a mask")
        return self.node(layer, Max(), x)

    def _flatten(self, layer: KerasLayer, x: Value) -> Value:
        if not x.steps:
            return x
        x = self.taken(layer, x)
        self.unmasked(layer, x)
        self._channels_last(layer)
        if x.length is None:
            layer.refuse("needs a number of steps that the file says, it has sequences of any length")
        return self.node(layer, Flatten(x.length), x)

    def _repeat(self, layer: KerasLayer, x: Value) -> Value:
        n = self._number(layer, "n", None)
        return self.node(layer, Repeat(n), x, length=n)

    def _reshape(self, layer: KerasLayer, x: Value) -> Value:
        x = self.taken(layer, x)
        self.unmasked(layer, x)
        target = layer.settings.value.get("target_shape")
        if not isinstance(target, list) or not 1 <= len(target) <= 2 or not all(type(n) is int for n in target):
            layer.refuse("must have a target_shape of one or two numbers")
        width = self._width(layer, x)
        if target == [x.length, width] if x.steps else target in ([width], [-1]):
            return x
        total = width if not x.steps else None if x.length is None else x.length * width
        if len(target) == 1:
            if total is None or target[0] not in (-1, total):
                layer.refuse(f"target_shape must keep all numbers, it is {target}")
            return self._flatten(layer, x)
        steps, each = target
        if each == -1 and total is not None and steps > 0 and total % steps == 0:
            each = total // steps
        if each < 1 or (total is not None and steps not in (-1, total // each)) or (total is None and steps != -1):
            layer.refuse(f"target_shape must keep all numbers, it is {target}")
        return self.node(layer, Reshape(each), x, length=None if total is None else total // each)

    def _join(self, layer: KerasLayer, xs: list[Value]) -> Value:
        xs = [self.taken(layer, x) for x in xs]
        if len(xs) == 1 and layer.kind != "Subtract":
            return xs[0]
        if layer.kind == "Concatenate":
            self._last_axis(layer, xs[0])
        if len({x.mask for x in xs if x.steps}) > 1:
            layer.refuse("joins a series whose padding is skipped with another one, which is not supported")
        if len({x.length for x in xs if x.steps and x.length is not None}) > 1:
            layer.refuse("joins series of different numbers of steps, which is not supported")
        if layer.kind == "Multiply":
            out = xs[0]
            for x in xs[1:]:
                out = self.node(layer, Multiply(), out, x)
            return out
        if layer.kind == "Subtract" and len(xs) != 2:
            layer.refuse(f"must have two inputs, it has {len(xs)}")
        return self.node(layer, JOINS[layer.kind](), *xs)


def _names() -> tuple[str, ...]:
    """Activations that a setting can name: those of the table, but for the one whose slope differs in Keras."""
    return tuple(name for name in ACTIVATIONS if name not in ("leaky_relu", "hard_sigmoid_3", "gelu_tanh"))


def _taken_off(name: str) -> str:
    return f"the {name} at the end is taken off: the scores explained are what it is applied to"


def _length(value: Any) -> int | None:
    return value if type(value) is int and 0 < value < 2**31 else None


def _windows(length: int | None, covered: int, stride: int, padding: str) -> int | None:
    """How many windows there are over so many steps."""
    if length is None:
        return None
    return (length - covered) // stride + 1 if padding == "valid" else -(-length // stride)


def _last(out: Value) -> Value:
    """The last state of a recurrent layer."""
    return Value(f"{out.name}:last", out.width, False)


def _states(out: Value, cell: Cell) -> list[Value]:
    """The states after the last step: h, and of an LSTM c."""
    return [Value(out.name + name, cell.units, False) for name in cell.OUTPUTS if name]


_WINDOW: tuple[tuple[str, int | None], ...] = (("kernel_size", None), ("strides", 1), ("dilation_rate", 1))
RECURRENT = (*keras_cells.KINDS, "Bidirectional")
_PLAIN = ("Activation", "Softmax", "ReLU", "LeakyReLU", "ELU")  # layers that are nothing but an activation

# What becomes of a layer with one input. Those of None are taken care of elsewhere.
_TAKEN: dict[str, Callable[[_Build, KerasLayer, Value], Value]] = {
    "InputLayer": None,  # type: ignore[dict-item]
    **dict.fromkeys((*MASK_OPERATIONS, *RECURRENT, *JOINS), None),  # type: ignore[dict-item]
    **dict.fromkeys(NO_OPS, _Build._idle),
    **dict.fromkeys(_PLAIN, _Build._activation),
    "Embedding": _Build._embedding,
    "Masking": _Build._masking,
    "Dense": _Build._dense,
    "TimeDistributed": _Build._each_step,
    "TimeDistributedDense": _Build._each_step,
    "PReLU": _Build._prelu,
    "Conv1D": _Build._conv,
    "BatchNormalization": _Build._batch_norm,
    "LayerNormalization": _Build._layer_norm,
    "Normalization": _Build._normalization,
    "Rescaling": _Build._rescaling,
    "MaxPooling1D": _Build._pool,
    "AveragePooling1D": _Build._pool,
    "GlobalAveragePooling1D": _Build._global_pool,
    "GlobalAvgPool1D": _Build._global_pool,
    "GlobalMaxPooling1D": _Build._global_pool,
    "GlobalMaxPool1D": _Build._global_pool,
    "Flatten": _Build._flatten,
    "RepeatVector": _Build._repeat,
    "Reshape": _Build._reshape,
}
KNOWN = frozenset(_TAKEN)
