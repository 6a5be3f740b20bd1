"""A Model while it is made of the layers of a Keras graph: values, inputs, nodes, masks, and arrays from the file.

What each layer means is said by functions in tables, see layers.py. They get the `KerasBuild` and add nodes to it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError
from lrpnumpy.files.keras.config import SHAPES, KerasCall, KerasGraph, KerasLayer, Ref
from lrpnumpy.files.safe import Fields, Shape, Source
from lrpnumpy.inputs import Input
from lrpnumpy.layers import Activation, Embedding, Layer, Size, Softmax
from lrpnumpy.model import Node

# The arrays of a layer, name to path, in Keras' order: kernel, recurrent kernel, bias, forwards before backwards.
Paths = Callable[[KerasLayer], dict[str, str]]
Custom = Mapping[str, Callable[[dict[str, Any], dict[str, np.ndarray]], Layer]]


class KerasValue(NamedTuple):
    """What flows between the layers while the model is made."""

    name: str  # of an input, a node, or a state of a node
    width: int | None = None  # None while nothing has said it
    steps: bool = True
    length: int | None = None  # steps, where the file fixes them
    mask: str | None = None  # the input whose padding is skipped where this value is used
    probability: str = ""  # "softmax", "log_softmax" or "sigmoid": still to be applied, taken off at the very end
    is_input: bool = False
    is_mask: bool = False  # what Keras 3 computes beside the network to find the padding
    scores: tuple[Any, Any] | None = None  # two series whose product this is: the scores of an attention
    is_number: bool = False  # one number for each sequence, of shape (batch,): broadcasts unlike a vector of one number


class KerasWords(NamedTuple):
    """How an input of strings or foreign numbers becomes token ids."""

    vocabulary: list[str] | None  # the word of each id
    unknown: str | None = None
    tokenizer: str = "space"
    rows: list[int] | None = None  # of an input of numbers: the row that each number means
    length: int | None = None  # words that a sentence is filled up to, and cut to


@dataclass
class KerasInput:
    """An input of the network while it is made."""

    shape: list[Any] | None  # without the batch; None where it is not said
    size: int | None = None
    steps: bool = True
    embedding: Embedding | None = None
    words: KerasWords | None = None
    length: int | None = None  # that every sentence is filled up to
    mask: float | None = None  # the value of padding
    skips: bool = False  # whether some layer skips the padding
    sees: list[str] = field(default_factory=list)  # layers that compute with the padding
    is_taken: bool = False

    def made(self) -> Input:
        """The input of the model."""
        mask = self.mask if self.skips else None
        if self.embedding is None:
            return Input(self.size, self.steps, mask_value=mask)
        given = {name: getattr(self.embedding, name) for name in ("vocabulary", "unknown", "tokenizer")}
        embedding = Embedding(self.embedding.E, **given, mask=None if mask is None else int(mask))
        pad = None if self.length is None else (self.length, "post", 0, "post")
        return Input(self.size, self.steps, embedding=embedding, pad=pad)


# What a layer means: its call and the values that go in, to what comes out.
Meaning = Callable[["KerasBuild", KerasCall, list[KerasValue]], KerasValue | list[KerasValue]]


@dataclass
class KerasBuild:
    """A model while its layers are added one by one."""

    source: Source
    paths: Paths
    words: Callable[[KerasLayer], list[str] | None]  # the vocabulary of a layer, where the file has it
    meanings: Mapping[str, Meaning]
    custom: Custom
    version: str | None = None
    ports: dict[str, KerasInput] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    applied: dict[tuple[str, str], KerasValue] = field(default_factory=dict)  # values after their sigmoid or softmax
    counts: dict[str, int] = field(default_factory=dict)  # how often a name of the file was given to a node
    inputs: dict[Ref, str] = field(default_factory=dict)  # names of the ports
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    numbers: int = 0  # of all values, and of the arrays that were made for them

    def room(self, layer: KerasLayer, count: int) -> None:
        """Count the numbers of an array or a value, before it is made."""
        self.numbers += count
        self.source.budget.numbers(layer.settings.where, self.numbers)

    # ------------------------------------------------------------------------------------------------------ the graph

    def run(self, graph: KerasGraph, ends: list[Ref], given: dict[Ref, KerasValue]) -> list[KerasValue]:
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
            for tensor, value in enumerate(self.call(call, values)):
                values[Ref(name, number, tensor)] = value
        for end in ends:
            if end not in values:
                graph.where.refuse(f"has output {end.tensor} of {end.layer[:80]!r} at its end, which there is not")
        return [values[end] for end in ends]

    def call(self, call: KerasCall, values: Mapping[Ref, KerasValue]) -> Sequence[KerasValue]:
        """What a layer gives."""
        layer = call.layer
        xs, states, masks = ([values[one] for one in refs] for refs in (call.inputs, call.states, call.masks))
        if not xs:
            layer.refuse("must be applied to at least one input, it has none")
        if layer.kind not in MASK_OPERATIONS:
            if any(x.is_mask for x in (*xs, *states)):
                layer.refuse("computes with a mask, which is not understood")
            if any(not one.is_mask or one.mask not in {x.mask for x in xs} for one in masks):
                layer.refuse("takes a mask that is not that of its input, which is not understood")
        if layer.settings.has("quantization_config"):
            layer.refuse("is quantised, which is not supported; save the model before it is quantised")
        if layer.graph is not None:
            self.plain(call)
            return self._inner(layer, layer.graph, xs)
        if own(self.custom, layer.kind, layer.name) is not None:
            return [self._custom(layer, xs)]
        if states and layer.kind not in TAKES_STATES:
            layer.refuse("takes start states, which only recurrent layers do")
        numbers = [x.is_number for x in xs]
        if layer.kind in ("Reshape", "Flatten"):
            xs = [x._replace(is_number=False) for x in xs]
        elif any(numbers) and layer.kind != "ExpandDims" and not (all(numbers) and layer.kind in ELEMENTWISE):
            layer.refuse("takes one number for each sequence, of shape (batch,), where a vector is needed; reshape it")
        found = self.meanings[layer.kind](self, call, [*xs, *states])
        found = found if isinstance(found, list) else [found]
        return [one._replace(is_number=one.is_number or (any(numbers) and layer.kind in ELEMENTWISE)) for one in found]

    def plain(self, call: KerasCall) -> None:
        """Refuse a call with more than values, but for Dropout that goes on after training."""
        if call.options == {"training": True} and call.layer.kind != "BatchNormalization":
            self.warn(f"{call.layer.name} is called with training=True: scores are those without Dropout")
        elif call.options or any(one is not None for one in call.others):
            shown = ", ".join(f"{key}={value!r:.40}" for key, value in call.options.items()) or "a constant"
            call.layer.refuse(f"is called with more than its input ({shown}), which is not understood")

    def _inner(self, layer: KerasLayer, graph: KerasGraph, xs: list[KerasValue]) -> Sequence[KerasValue]:
        """A model inside the model: its layers are those of the whole."""
        if len(xs) != len(graph.inputs):
            layer.refuse(f"is a model with {len(graph.inputs)} inputs, it is called with {len(xs)}")
        return self.run(graph, graph.outputs, dict(zip(graph.inputs, xs, strict=True)))

    def _custom(self, layer: KerasLayer, xs: list[KerasValue]) -> KerasValue:
        """What the caller's function makes of settings and arrays."""
        make: Any = own(self.custom, layer.kind, layer.name)
        found = {name: self.source.array(path, self.source.shape(path)) for name, path in self.paths(layer).items()}
        ours = make(copy.deepcopy(layer.settings.value), found)
        if not isinstance(ours, Layer):
            layer.refuse(f"the function in custom must give a layer of lrpnumpy, got {type(ours).__name__}")
        return self.node(layer, ours, *xs, length=None)

    # -------------------------------------------------------------------------------------------------- what was said

    def note(self, text: str) -> None:
        """Remember, once, what was assumed and why."""
        if text not in self.notes:
            self.notes.append(text)

    def warn(self, text: str) -> None:
        """Remember, once, an assumption that may be wrong."""
        self.note(text)
        if text not in self.warnings:
            self.warnings.append(text)

    # --------------------------------------------------------------------------------------------------------- arrays

    def take(self, layer: KerasLayer, paths: Sequence[str], shapes: Sequence[Shape]) -> list[np.ndarray]:
        """The arrays of a layer, each of its expected shape; of a layer that is called again, those read before."""
        if len(paths) != len(shapes):
            layer.refuse(f"must have {len(shapes)} arrays, the file has {len(paths)}")
        for path, shape in zip(paths, shapes, strict=True):
            if path in self.arrays:  # every call of a layer copies them: several calls are fine, but not any number
                self.room(layer, self.arrays[path].size // 4)
            else:
                self.arrays[path] = self.source.array(path, shape)
            self.source.fits(path, self.arrays[path].shape, shape)
        return [self.arrays[path] for path in paths]

    def own_arrays(self, layer: KerasLayer, shapes: Sequence[Shape]) -> list[np.ndarray]:
        """All arrays of a layer."""
        return self.take(layer, list(self.paths(layer).values()), shapes)

    # ----------------------------------------------------------------------------------------------- values and nodes

    def fresh(self, name: str) -> str:
        """A name for a node or an input that none has yet, made from one of the file."""
        plain = "".join("_" if c in ":/\0" or not c.isprintable() else c for c in name[:80])
        plain = plain if plain.strip(".") else f"layer_{plain}"
        found = plain
        while found in self.nodes or found in self.ports:
            self.counts[plain] = self.counts.get(plain, 1) + 1
            found = f"{plain}_{self.counts[plain]}"
        return found

    def port(self, layer: KerasLayer, ref: Ref) -> KerasValue:
        """An input of the whole network; what it holds is known once something takes it."""
        shape = next((s for key in SHAPES if isinstance(s := layer.settings.value.get(key), list)), None)
        name = self.fresh(layer.name)
        self.inputs[ref] = name
        inner = None if shape is None else shape[1:]
        port = self.ports[name] = KerasInput(inner)
        length = None
        if inner is not None:
            last = inner[-1] if inner else None
            port.size = last if len(inner) <= 2 and type(last) is int and last > 0 else None
            port.steps = len(inner) != 1
            length = as_length(inner[0]) if len(inner) == 2 else None
        return KerasValue(name, port.size, port.steps, length, is_input=True)

    def taken(self, layer: KerasLayer, x: KerasValue) -> KerasValue:
        """A value as another layer takes it: after its sigmoid or softmax, if it has one."""
        if x.scores is not None:
            layer.refuse(
                "takes the products of two series, which are understood only as an attention: "
                "a Dot of two series, a softmax, and a Dot with a series"
            )
        if x.is_input:
            port = self.ports[x.name]
            port.is_taken = True
            if x.mask is None:
                port.sees.append(layer.name)
            if len(port.shape or ()) > 2:
                layer.refuse(
                    f"takes records of shape {port.shape}; only series of vectors, (steps, features), are supported"
                )
            if port.embedding is not None or port.words is not None:
                layer.refuse("takes an input of token ids, which an Embedding takes too; only one of them can")
            return x._replace(width=port.size, steps=port.steps)
        if x.probability == "log_softmax":
            layer.refuse(
                f"takes the log_softmax of {x.name!r:.80}, which is supported only at the end of a network; "
                "use softmax inside it"
            )
        key = x.name, x.probability
        if x.probability and key not in self.applied:
            after = self.fresh(f"{x.name}_{x.probability}")
            ours = Softmax() if x.probability == "softmax" else Activation(x.probability)
            self.nodes[after] = Node(after, ours, (x.name,))
            self.applied[key] = x._replace(name=after, probability="")
            self.notes = [one for one in self.notes if one != taken_off(x.probability)]
        return self.applied[key] if x.probability else x

    def series(self, layer: KerasLayer, x: KerasValue) -> KerasValue:
        """A value that has steps, or an error."""
        x = self.taken(layer, x)
        if not x.steps:
            layer.refuse("needs a vector for each step, the layer before it hands on a single one")
        return x

    def width(self, layer: KerasLayer, x: KerasValue) -> int:
        """How many features a value has, or an error."""
        if x.width is None:
            layer.refuse("takes an input of which the file does not say how many features it has")
        self.room(layer, x.width)  # whoever asks makes an array of this size
        return x.width

    def node(
        self, layer: KerasLayer, ours: Layer, *inputs: KerasValue, name: str = "", length: Any = "same"
    ) -> KerasValue:
        """Add a node, and give the value of its main output."""
        xs = [self.taken(layer, x) for x in inputs]
        for k, x in enumerate(xs):
            if x.width is None:
                width = getattr(ours, "inputs", None)
                if width is None or not x.is_input:
                    layer.refuse("takes an input of which the file does not say how many features it has")
                self.ports[x.name].size = width
                xs[k] = x._replace(width=width)
        try:
            size = ours.sizes(*(Size(x.width, x.steps, f"value {x.name!r}") for x in xs))  # type: ignore[arg-type]
        except LrpError as error:
            layer.refuse(f"does not fit: {str(error).removesuffix('.')}")
        self.room(layer, size.width)
        name = self.fresh(name or layer.name)
        self.nodes[name] = Node(name, ours, tuple(x.name for x in xs))
        self.source.budget.layers(len(self.nodes))
        if not size.steps:
            return KerasValue(name, size.width, False)
        before = next((x.length for x in xs if x.length is not None and x.steps), None)
        mask = next((x.mask for x in xs if x.steps and x.mask), None)
        return KerasValue(name, size.width, True, before if length == "same" else length, mask)

    # ---------------------------------------------------------------------------------------------------------- masks

    def skips_padding(self, *xs: KerasValue) -> None:
        """These values are used by a layer that leaves out padding."""
        for x in xs:
            if x.mask is not None:
                self.ports[x.mask].skips = True

    def sees_padding(self, layer: KerasLayer, x: KerasValue) -> KerasValue:
        """The value as a layer takes it that computes with padding too: Keras drops the mask."""
        if x.mask is not None and x.steps:
            self.ports[x.mask].sees.append(layer.name)
        return x._replace(mask=None)

    def said_of_padding(self) -> None:
        """Warn of inputs whose padding some layers skip and others see."""
        for name, port in self.ports.items():
            if port.skips and port.sees:
                self.warn(
                    f"the padding of the input {name!r} is skipped, but in Keras {', '.join(dict.fromkeys(port.sees))} "
                    "computes with it: scores are those of Keras for sequences without padding; pass such"
                )
            elif port.skips and port.embedding is not None:
                self.note(f"mask_zero: token {int(port.mask or 0)} is padding, its steps are skipped")
            elif port.skips:
                self.note(f"Masking: steps whose features all equal {port.mask:g} are skipped")


MASK_OPERATIONS = ("NotEqual", "Any")  # as Keras 3 lists them beside the layers
ELEMENTWISE = ("Add", "Subtract", "Multiply", "Activation", "ReLU", "LeakyReLU", "Relu", "Tanh", "Sigmoid")
TAKES_STATES = ("LSTM", "GRU", "SimpleRNN", "CuDNNLSTM", "CuDNNGRU", "Bidirectional", "RNN")


def own(custom: Custom, kind: str, name: str) -> Any:
    """The caller's function for a layer: by its name, by its class, or by its class without the package."""
    return next((custom[key] for key in (name, kind, kind.split(">")[-1]) if key in custom), None)


def taken_off(name: str) -> str:
    """What is noted of a probability at the end."""
    return f"the {name} at the end is taken off: the scores explained are what it is applied to"


def as_length(value: Any) -> int | None:
    """A number of steps, where it is one."""
    return value if type(value) is int and 0 < value < 2**31 else None


def number(layer: KerasLayer, key: str, default: int | None = None, least: int = 1) -> int:
    """A setting that is a whole number, alone or in a list of one."""
    value = layer.settings.value.get(key)
    value = value[0] if isinstance(value, list) and len(value) == 1 else default if value is None else value
    if type(value) is not int or not least <= value < 2**31:
        layer.refuse(f"{key} must be a whole number from {least}, it is {value!r:.80}")
    return value


def one_of(layer: KerasLayer, s: Fields, key: str, known: Sequence[str], default: str | None = None) -> str:
    """A setting that is one of some names."""
    value = s.value.get(key, default)
    if value not in known:
        shown = value if isinstance(value, str) else "a custom function" if value else "not said"
        layer.refuse(f"{key} must be one of {', '.join(known)}, it is {shown}")
    return str(value)


def last_axis(layer: KerasLayer, x: KerasValue, given: Any = None) -> None:
    """Raise unless the setting `axis` means the features."""
    axis = layer.settings.value.get("axis", -1) if given is None else given
    axis = axis[0] if isinstance(axis, list) and len(axis) == 1 else axis
    if type(axis) is not int or axis not in (-1, 2 if x.steps else 1):
        layer.refuse(f"must have the axis of the features, -1, it has {axis!r:.80}")


def channels_last(layer: KerasLayer) -> None:
    """Raise where features stand before steps."""
    if layer.settings.value.get("data_format") not in (None, "channels_last"):
        layer.refuse("must have data_format='channels_last'")
