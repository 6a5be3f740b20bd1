"""A Keras graph on its way to a Model: its inputs, masks, and arrays from the file; the rest is the one builder.

The meaning of a layer is a function in a table, see layers.py: it takes the `KerasBuild` and adds nodes to it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError, UserCodeError, WeightFileError
from lrpnumpy.files.build.constants import as_list
from lrpnumpy.files.build.layers import OPERATIONS
from lrpnumpy.files.build.network import SERIES, VECTOR, NetworkBuild, NetworkValue, NotSupported
from lrpnumpy.files.build.sizes import Dim
from lrpnumpy.files.keras.config import SHAPES, KerasCall, KerasGraph, KerasLayer, Ref
from lrpnumpy.files.operations import OperationNode
from lrpnumpy.files.safe import Fields, Shape
from lrpnumpy.inputs import Input
from lrpnumpy.layers import Embedding, Layer, Size, Transpose

# The arrays of a layer, name to path, in Keras' order: kernel, recurrent kernel, bias, forwards before backwards.
Paths = Callable[[KerasLayer], dict[str, str]]
Custom = Mapping[str, Callable[[dict[str, Any], dict[str, np.ndarray]], Layer]]
STEPS = Dim.named("T")  # a number of steps that the file leaves open
PRODUCTS = ("the products of two series, which are an attention only with a softmax and a second Dot",)
WEIGHTS = ("the weights of an attention, which are understood only before a Dot with a series",)
MASK = ("a mask",)  # what Keras 3 computes beside the network to find the padding


class KerasWords(NamedTuple):
    """How an input of strings becomes token ids."""

    vocabulary: list[str] | None  # the word of each id
    unknown: str | None = None
    tokenizer: str = "space"
    length: int | None = None  # words that a sentence is filled up to, and cut to


@dataclass
class KerasInput:
    """An input of the network while it is made."""

    ref: Ref  # where it is in the graph
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
        embedding = replace(self.embedding, mask=None if mask is None else int(mask))
        pad = None
        if self.length is not None:
            pad = (self.length, "post", 0, "post")
        return Input(self.size, self.steps, embedding=embedding, pad=pad)


# What a layer means: its call and the values that go in, to what comes out.
Meaning = Callable[["KerasBuild", KerasCall, list[NetworkValue]], NetworkValue | list[NetworkValue]]


@dataclass
class KerasBuild(NetworkBuild):
    """A model while its layers are added one by one."""

    paths: Paths = field(kw_only=True)
    words: Callable[[KerasLayer], list[str] | None] = field(kw_only=True)  # of a layer, where the file has them
    meanings: Mapping[str, Meaning] = field(kw_only=True)
    custom: Custom = field(kw_only=True)
    version: str | None = None
    entries: dict[str, KerasInput] = field(default_factory=dict)  # the inputs by name
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    # ------------------------------------------------------------------------------------------------------ the graph

    def run(self, graph: KerasGraph, ends: list[Ref], given: dict[Ref, NetworkValue]) -> list[NetworkValue]:
        """The values of a graph at these places; `given` are those of its inputs, of a model inside a model."""
        values = dict(given)
        for (name, number), call in graph.ordered(ends):
            ref = Ref(name, number, 0)
            if ref in values:
                continue
            self.source.budget.visit(call.layer.settings.where)
            if call.layer.kind == "InputLayer":
                values[ref] = self.entry(call.layer, ref)
                continue
            for one in call.needs:
                if one not in values:
                    call.layer.refuse(f"takes output {one.tensor} of {one.layer[:80]!r}, which there is not")
            for tensor, value in enumerate(self.called(call, values)):
                values[Ref(name, number, tensor)] = value
        for end in ends:
            if end not in values:
                graph.where.refuse(f"has output {end.tensor} of {end.layer[:80]!r} at its end, which there is not")
        return [values[end] for end in ends]

    def called(self, call: KerasCall, values: Mapping[Ref, NetworkValue]) -> Sequence[NetworkValue]:
        """The outputs of a layer; a problem becomes an error that names the layer."""
        layer = call.layer
        try:
            return self.call(call, [[values[one] for one in refs] for refs in (call.inputs, call.states, call.masks)])
        except NotSupported as refused:
            layer.refuse(refused.args[1])
        except (WeightFileError, UserCodeError):
            raise
        except LrpError as error:
            layer.refuse(f"does not fit: {str(error).removesuffix('.')}")

    def call(self, call: KerasCall, values: list[list[NetworkValue]]) -> Sequence[NetworkValue]:
        """The outputs of a layer for its inputs, start states and masks."""
        layer, (xs, states, masks) = call.layer, values
        self.where, self.label = layer.settings.where, layer.name
        self.refuse_if(not xs, "must be applied to at least one input, it has none")
        if all(x.part_of == MASK for x in xs) and layer.kind in OF_MASKS:
            return self.meant(replace(call, layer=replace(layer, kind="LogicalOr")), xs)
        if layer.kind not in MASK_OPERATIONS:
            is_mask = any(x.part_of == MASK for x in (*xs, *states))
            self.refuse_if(is_mask, "computes with a mask, which is not understood")
            if any(one.part_of != MASK or one.mask not in {x.mask for x in xs} for one in masks):
                self.refuse(
                    "takes a mask= that its input does not have; use Embedding(mask_zero=True) or Masking instead"
                )
        is_small = layer.settings.has("quantization_config")
        self.refuse_if(is_small, "is quantised, which is not supported; save the model before it is quantised")
        if layer.graph is not None:
            self.plain(call)
            if len(xs) != len(layer.graph.inputs):
                self.refuse(f"is a model with {len(layer.graph.inputs)} inputs, it is called with {len(xs)}")
            return self.run(layer.graph, layer.graph.outputs, dict(zip(layer.graph.inputs, xs, strict=True)))
        if custom_for(self.custom, layer.kind, layer.name) is not None:
            return [self._custom(layer, xs)]
        self.refuse_if(states and layer.kind not in TAKES_STATES, "takes start states, which only recurrent layers do")
        return self.meant(call, [*xs, *states])

    def meant(self, call: KerasCall, values: list[NetworkValue]) -> list[NetworkValue]:
        """The outputs of a layer by the function for its class."""
        return as_list(self.meanings[call.layer.kind](self, call, values))

    def plain(self, call: KerasCall) -> None:
        """Refuse a call with more than values, but for Dropout that goes on after training."""
        if call.options == {"training": True} and call.layer.kind != "BatchNormalization":
            self.warn(f"{call.layer.name} is called with training=True: scores are those without Dropout")
        elif call.options or any(one is not None for one in call.others):
            shown = ", ".join(f"{key}={value!r:.40}" for key, value in call.options.items()) or "a constant"
            self.refuse(f"is called with more than its input ({shown}), which is not understood")

    def _custom(self, layer: KerasLayer, xs: list[NetworkValue]) -> NetworkValue:
        """The output of the layer that the caller's function makes of settings and arrays."""
        make: Any = custom_for(self.custom, layer.kind, layer.name)
        arrays = {name: self.source.array(path, self.source.shape(path)) for name, path in self.paths(layer).items()}
        node = self.custom_layer(layer.name, make, copy.deepcopy(layer.settings.value), arrays)
        made = self.vectors(node, *(self.value(layer, x, getattr(node, "inputs", None)) for x in xs), steps=None)
        if node.recurrent and layer.settings.value.get("return_sequences") is False:  # a cell in Keras' RNN
            return self.one_step(made, -1, keep=False)
        return made

    # --------------------------------------------------------------------------------------------------------- arrays

    def take(self, layer: KerasLayer, paths: Sequence[str], shapes: Sequence[Shape]) -> list[np.ndarray]:
        """The arrays of a layer, each of its expected shape; of a layer that is called again, those read before."""
        self.refuse_if(len(paths) != len(shapes), f"must have {len(shapes)} arrays, the file has {len(paths)}")
        for path, shape in zip(paths, shapes, strict=True):
            if path in self.arrays:  # every call of a layer copies them: several calls are fine, but not any number
                self.room(self.arrays[path].size // 4)
            else:
                self.arrays[path] = self.source.array(path, shape)
            self.source.fits(path, self.arrays[path].shape, shape)
        return [self.arrays[path] for path in paths]

    def own_arrays(self, layer: KerasLayer, shapes: Sequence[Shape]) -> list[np.ndarray]:
        """All arrays of a layer."""
        return self.take(layer, list(self.paths(layer).values()), shapes)

    def with_bias(
        self, layer: KerasLayer, s: Fields, shapes: Sequence[Shape], bias: Shape, paths: Sequence[str] | None = None
    ) -> list[Any]:
        """The arrays of a layer, or those at `paths`; the last one is its bias, or None if it has none."""
        if paths is None:
            paths = list(self.paths(layer).values())
        if s.boolean("use_bias", True):
            return self.take(layer, paths, [*shapes, bias])
        return [*self.take(layer, paths, shapes), None]

    # --------------------------------------------------------------------------------------------------------- values

    def entry(self, layer: KerasLayer, ref: Ref) -> NetworkValue:
        """An input of the whole network; what it holds is known once something takes it."""
        shape = next((s for key in SHAPES if isinstance(s := layer.settings.value.get(key), list)), None)
        self.where, name = layer.settings.where, self.fresh(layer.name)
        inner: list[Any] = [None, None] if shape is None else [as_length(n) for n in shape[1:]]
        entry = self.entries[name] = KerasInput(ref, shape and shape[1:], steps=len(inner) != 1)
        steps = STEPS if len(inner) not in (2, 3) else inner[0] or STEPS
        if len(inner) == 3 and inner[1] and inner[2]:  # places and features of each step, which are one vector here
            entry.size = inner[1] * inner[2]
            value = self.of_entry(name, steps)
            self.note(f"a step of {name!r} has {inner[1]} places of {inner[2]} numbers; relevance is for each")
            return replace(value, axes=("N", "T", "F", "F"), index=value.index.reshape(inner[1:]))
        if 0 < len(inner) < 3:
            entry.size = inner[-1]
        return self.of_entry(name, steps)

    def of_entry(self, name: str, steps: Any, mask: str | None = None) -> NetworkValue:
        """The value of an input, of as many features as are known."""
        entry = self.entries[name]
        self.room(entry.size or 0)
        self.sizes[name] = Size(entry.size or 0, entry.steps, f"value {name!r}")
        axes, steps = (SERIES, steps) if entry.steps else (VECTOR, 1)
        return NetworkValue((name,), axes, np.arange(entry.size or 0), steps, mask=mask)

    def whole(self, x: NetworkValue) -> KerasInput | None:
        """The input that a value is, all of its features; None for any other value."""
        entry = self.entries.get("".join(x.values[:1]))
        if entry is None or len(x.values) > 1:
            return None
        is_whole = not x.width or np.array_equal(x.index.reshape(-1), np.arange(entry.size or 0))
        return entry if is_whole else None

    def raw(self, x: NetworkValue) -> KerasInput | None:
        """The same, unless it is an input of token ids."""
        entry = self.whole(x)
        return entry if entry is not None and entry.embedding is None else None

    def value(self, layer: KerasLayer, x: NetworkValue, width: int | None = None) -> NetworkValue:
        """A value as another layer takes it: after its sigmoid or softmax, and of a known number of features.

        If the file does not store the number, it is `width`, or that of the first array of the layer.
        """
        entry = self.raw(x)
        if entry is None:
            return self.taken(x)
        entry.is_taken = True
        if x.mask is None:
            entry.sees.append(layer.name)
        if len(entry.shape or ()) > 2 and not (len(x.axes) == 4 and layer.kind in ("TimeDistributed", *AT_PLACES)):
            self.refuse(
                f"takes records of shape {entry.shape}; only series of vectors, (steps, features), are supported"
            )
        if entry.words is not None:
            self.refuse("takes an input of token ids, which an Embedding takes too; only one of them can")
        if entry.size is None:
            if width is None and (paths := list(self.paths(layer).values())):
                *_, width = (1, *self.source.shape(paths[0])[-2:][:1])
            self.refuse_if(width is None, "takes an input of which the file does not say how many features it has")
            entry.size = width
        return x if x.width else self.of_entry(x.values[0], x.steps, mask=x.mask)

    def operation(self, kind: str, *values: Any, **attributes: Any) -> NetworkValue:
        """The result of an operation of the builder, with any axes."""
        node = OperationNode(kind, "", self.where, (), (), attributes)
        made: NetworkValue = OPERATIONS[kind](self, node, values)
        return replace(made, part_of=()) if made.values else made

    def emit(self, kind: str, *values: Any, **attributes: Any) -> NetworkValue:
        """The same with steps and features as a layer takes them."""
        return self.settled(self.operation(kind, *values, **attributes))

    def settled(self, x: NetworkValue) -> NetworkValue:
        """The value with its second axis as steps and its third as features, as Keras has them."""
        if x.axes == ("N", "F", "F"):
            return self.steps_of(x, 1)
        if x.axes == ("N", "T"):
            return self.flattened(x)
        if x.axes == ("N", "F", "T"):
            series = self.rows(x.moved([0, 2, 1]))
            if series.length is None:
                self.refuse("must exchange the two axes of a series with a fixed number of steps")
            return self.vectors(Transpose(series.length), series, steps=series.width)
        if x.axes not in (SERIES, VECTOR, ("N",)):
            self.refuse("gives values of more than two axes, which are not supported")
        return x

    def with_steps(self, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
        """A value that has steps, or an error."""
        x = self.value(layer, x)
        self.refuse_if(not x.has_steps, "needs a vector for each step, the layer before it hands on a single one")
        return x

    # ---------------------------------------------------------------------------------------------------------- masks

    def skips_padding(self, *xs: NetworkValue) -> None:
        """These values are used by a layer that leaves out padding."""
        for x in xs:
            if x.mask is not None:
                self.entries[x.mask].skips = True

    def sees_padding(self, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
        """The value as a layer takes it that computes with padding too: Keras drops the mask."""
        if x.mask is not None and x.has_steps:
            self.entries[x.mask].sees.append(layer.name)
        return replace(x, mask=None)

    def warn_of_padding(self) -> None:
        """Warn of inputs whose padding some layers skip and others see."""
        for name, port in self.entries.items():
            if port.skips and port.sees:
                self.warn(
                    f"the padding of the input {name!r} is skipped, but in Keras {', '.join(dict.fromkeys(port.sees))} "
                    "computes with it: scores are those of Keras for sequences without padding; pass such"
                )


# Layers inside a TimeDistributed that take places and features.
AT_PLACES = (
    "Conv1D", "MaxPooling1D", "AveragePooling1D", "GlobalMaxPooling1D", "GlobalAveragePooling1D", "Flatten",
)  # fmt: skip
# As Keras 3 lists them beside the layers.
MASK_OPERATIONS = ("NotEqual", "Any", "ConvertToTensor", "ZerosLike", "OnesLike", "LogicalOr")
OF_MASKS = ("Any", "ConvertToTensor", "LogicalOr", "ExpandDims", "Concatenate")  # which join masks, or leave them alone
TAKES_STATES = ("LSTM", "GRU", "SimpleRNN", "CuDNNLSTM", "CuDNNGRU", "Bidirectional", "RNN")


def custom_for(custom: Custom, kind: str, name: str) -> Any:
    """The caller's function for a layer: by its name, by its class, or by its class without the package."""
    return next((custom[key] for key in (name, kind, kind.split(">")[-1]) if key in custom), None)


def by_custom(name: str) -> str:
    """The advice to define a layer with custom=, for an error; `name` is that of the layer or its class."""
    return (
        f"to say what a layer does, write custom={{{name!r}: f}}, where f(settings, arrays) gives a layer of lrpnumpy"
    )


def as_length(value: Any) -> int | None:
    """A number of steps, where it is one."""
    return value if type(value) is int and 0 < value < 2**31 else None


_RENAMED = {  # settings of Keras 1
    "output_dim": "units", "inner_activation": "recurrent_activation", "bias": "use_bias", "nb_filter": "filters",
    "filter_length": "kernel_size", "border_mode": "padding", "subsample_length": "strides",
}  # fmt: skip


def modern(b: KerasBuild, s: Fields) -> Fields:
    """Settings of a recurrent, Dense or convolutional layer of Keras 1 under their later names."""
    if "units" in s.value or not {"output_dim", "nb_filter"}.intersection(s.value):
        return s
    b.version = b.version or "1"
    return Fields(s.source, s.where, {_RENAMED.get(key, key): value for key, value in s.value.items()})
