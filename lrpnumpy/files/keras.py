"""What a Keras configuration means, of whichever version, and how its arrays become a Model.

Nothing is ever built from a class name: a name is looked up in a table of what is understood, and anything
else is refused. Where the arrays are in a file is the business of keras2.py and keras3.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from lrpnumpy.files.safe import Fields, Shape, Source
from lrpnumpy.layers import LSTM, Bidirectional, Dense, Embedding, Layer
from lrpnumpy.model import Model

# Layers that change nothing once a network is trained.
NO_OPS = (
    "InputLayer", "Dropout", "SpatialDropout1D", "GaussianNoise", "GaussianDropout", "AlphaDropout",
    "ActivityRegularization", "Identity",
)  # fmt: skip
WITH_WEIGHTS = (
    "Embedding",
    "LSTM",
    "CuDNNLSTM",
    "Bidirectional",
    "Dense",
    "TimeDistributed",
    "TimeDistributedDense",
)
MASK_OPERATIONS = ("NotEqual", "Any")  # as Keras 3 lists them beside the layers
MERGES = {"concat": "concat", "sum": "sum", "ave": "mean"}


@dataclass(frozen=True)
class KerasLayer:
    """One layer of a configuration: its class, its settings, and its place in the list of layers."""

    kind: str
    settings: Fields
    position: int

    def refuse(self, reason: str) -> NoReturn:
        """Raise an error that names the layer."""
        self.settings.refuse(reason)


# Where the arrays of a layer are, in Keras' order: kernel, recurrent kernel, bias, forwards before backwards.
Paths = Callable[[KerasLayer], list[str]]


def build(source: Source, config: Any, paths_of: Callable[[list[KerasLayer]], Paths]) -> tuple[Model, list[str]]:
    """The model of a configuration, and what was assumed; `paths_of` finds the arrays of a list of layers."""
    layers, masks = chain(source, config)
    said = config.get("keras_version") if isinstance(config, dict) else None
    version = said if isinstance(said, str) else None
    if version is None and any(layer.kind == "InputLayer" and layer.settings.has("batch_shape") for layer in layers):
        version = "3"  # before, it was called batch_input_shape
    made = _Build(source, paths_of(sorted(layers, key=lambda layer: layer.position)), version)
    for layer in layers:
        made.add(layer)
    if masks - {0.0 if made.embedding is not None and made.embedding.mask == 0 else made.mask_value}:
        raise source.error("configuration", f"masks by the values {sorted(masks)}, which is not understood")
    return made.model(), made.notes


# ------------------------------------------------------------------------------------- configuration to chain


def chain(source: Source, config: Any) -> tuple[list[KerasLayer], set[float]]:
    """The layers of a configuration in the order of their use, and the padding values of its masks."""
    if isinstance(config, list):
        config = {"class_name": "Sequential", "config": config}
    elif isinstance(config, dict) and "class_name" not in config and "layers" in config:  # model.get_config()
        functional = "input_layers" in config
        config = {"class_name": "Functional" if functional else "Sequential", "config": config}
    model = Fields(source, "configuration", config)
    kind = model.string("class_name")
    if kind not in ("Sequential", "Functional", "Model"):
        model.refuse(f"must be of a Sequential or Functional model, it is of {kind!r}")
    if kind == "Sequential":
        inner = model.value.get("config")
        items = inner if isinstance(inner, list) else model.object("config").items("layers")
        return _layers(source, items), set()
    return _functional(source, model.object("config"))


def _layers(source: Source, items: list[Any]) -> list[KerasLayer]:
    found = []
    for k, item in enumerate(items):
        layer = Fields(source, f"layer {k} of the configuration", item)
        kind = layer.string("class_name")
        if kind not in (*_ADD, *NO_OPS, *MASK_OPERATIONS):
            known = ", ".join(sorted((*_ADD, *NO_OPS)))
            layer.refuse(f"has the class {kind[:80]!r}, which is not supported; supported are {known}")
        settings = layer.object("config")
        name = settings.value.get("name", k)
        found.append(KerasLayer(kind, Fields(source, f"layer {name!r} ({kind})"[:200], settings.value), k))
    return found


def _functional(source: Source, config: Fields) -> tuple[list[KerasLayer], set[float]]:
    """The layers from the one input to the one output, each fed by the one before it and nothing else."""
    items = config.items("layers")
    layers = {layer.settings.string("name"): layer for layer in _layers(source, items)}
    if len(layers) != len(items):
        config.refuse("has two layers of one name")
    parents: dict[str, str] = {}
    masks: dict[str, float] = {}  # operations that compare inputs with the value of padding, as Keras 3 lists them
    used: set[float] = set()
    start, end = (_one_tensor(config, key) for key in ("input_layers", "output_layers"))
    for name, layer in layers.items():
        node = Fields(source, layer.settings.where, items[layer.position]).items("inbound_nodes")
        if name == start and not node:
            continue
        if len(node) != 1:
            layer.refuse(f"must be applied once, to one input, it is applied {len(node)} times")
        tensors, others, mask = _inputs(layer, node[0])
        if len(tensors) != 1:
            layer.refuse(f"must have one input, it has {len(tensors)}; only chains of layers are understood")
        if layer.kind == "NotEqual" and tensors == [start] and len(others) == 1 and _is_number(others[0]):
            masks[name] = float(others[0])
        elif layer.kind == "Any" and tensors[0] in masks and not others:
            masks[name] = masks[tensors[0]]
        elif others:
            layer.refuse("is called with more than its input, which is not understood")
        elif mask is not None and mask not in masks:
            layer.refuse(f"takes its mask from {mask!r}, which is not understood")
        else:
            parents[name] = tensors[0]
            used |= {masks[mask]} if mask is not None else set()
    order = [end]
    while order[-1] != start:
        if order[-1] not in parents or len(order) > len(layers):
            config.refuse(f"has no chain of layers from {start!r} to {end!r}")
        order.append(parents[order[-1]])
    if beside := set(parents) - set(order):
        layers[min(beside)].refuse("is beside the chain from input to output; only chains of layers are understood")
    return [layers[name] for name in reversed(order) if name in layers], used


def _one_tensor(config: Fields, key: str) -> str:
    """The layer of the only input or output, written ["name", 0, 0] or [["name", 0, 0]]."""
    found = config.items(key)
    if len(found) == 1 and isinstance(found[0], list):
        found = found[0]
    if len(found) != 3 or not isinstance(found[0], str):
        config.refuse(f"must have one of {key.replace('_', ' ')}, it has {len(found)}")
    return found[0]


def _inputs(layer: KerasLayer, node: Any) -> tuple[list[str], list[Any], str | None]:
    """The layers that feed a node, its other arguments, and the layer that its mask comes from."""
    if isinstance(node, list):  # Keras 1 and 2: [["name", 0, 0, {...}], ...]
        if not all(isinstance(t, list) and len(t) in (3, 4) and isinstance(t[0], str) for t in node):
            layer.refuse("has inputs that are not understood")
        said = [item for t in node for item in _options(t).items()]
        return [t[0] for t in node], [value for key, value in said if not _idle(key, value)], None
    call = Fields(layer.settings.source, f"{layer.settings.where}: inbound_nodes", node)  # Keras 3
    args, options = call.items("args"), call.object("kwargs").value
    tensors = [name for name in map(_tensor, args) if name is not None]
    others = [arg for arg in args if _tensor(arg) is None]
    others += [value for key, value in options.items() if key != "mask" and not _idle(key, value)]
    mask = options.get("mask")
    if mask is not None and _tensor(mask) is None:
        layer.refuse("has a mask that is not understood")
    return tensors, others, _tensor(mask)


def _options(tensor: list[Any]) -> dict[str, Any]:
    return tensor[3] if len(tensor) == 4 and isinstance(tensor[3], dict) else {}


def _idle(key: str, value: Any) -> bool:
    """Whether an argument changes nothing; training=True does: Dropout then goes on in the trained network."""
    return value is None or (key == "training" and value is False)


def _tensor(arg: Any) -> str | None:
    """The layer that made a tensor of Keras 3; None for anything else."""
    if isinstance(arg, dict) and arg.get("class_name") == "__keras_tensor__" and isinstance(arg.get("config"), dict):
        history = arg["config"].get("keras_history")
        if isinstance(history, list) and history and isinstance(history[0], str):
            return history[0]
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# --------------------------------------------------------------------------------------------- chain to model


@dataclass
class _Build:
    """A model while its layers are added one by one."""

    source: Source
    paths: Paths
    version: str | None
    size: int | None = None  # length of the vectors that the layers so far hand on
    steps: bool = True  # whether they hand on one for each step, or a single one
    embedding: Embedding | None = None
    layers: list[Layer] = field(default_factory=list)
    readout: str | None = None
    output: str = "linear"
    mask_value: float | None = None
    notes: list[str] = field(default_factory=list)

    def add(self, layer: KerasLayer) -> None:
        """Take in the next layer of the chain."""
        self._input_size(layer)
        if layer.kind in NO_OPS:
            if layer.kind != "InputLayer":
                self.note(f"{layer.kind} layers are left out: they do nothing in a trained network")
            return
        if layer.kind not in _ADD:
            layer.refuse("is supported as part of a mask only")
        if self.output != "linear":
            layer.refuse(f"comes after a {self.output}, which is supported at the very end only")
        if layer.settings.has("quantization_config"):
            layer.refuse("is quantised, which is not supported")
        _ADD[layer.kind](self, layer)

    def model(self) -> Model:
        """The model of all layers added."""
        if self.readout is None and self.layers:
            self.readout = "every"
        return Model(
            tuple(self.layers),
            embedding=self.embedding,
            readout=self.readout or "last",  # type: ignore[arg-type]
            output=self.output,  # type: ignore[arg-type]
            mask_value=self.mask_value,
        )

    def note(self, text: str) -> None:
        """Remember, once, what was assumed and why."""
        if text not in self.notes:
            self.notes.append(text)

    def masked(self) -> bool:
        """Whether some steps are skipped as padding."""
        return self.mask_value is not None or (self.embedding is not None and self.embedding.mask is not None)

    def take(self, layer: KerasLayer, paths: list[str], shapes: list[Shape]) -> list[np.ndarray]:
        """The arrays of a layer, each of its expected shape."""
        if len(paths) != len(shapes):
            layer.refuse(f"must have {len(shapes)} arrays, the file has {len(paths)}")
        return [self.source.array(path, shape) for path, shape in zip(paths, shapes, strict=True)]

    # ------------------------------------------------------------------------------------------------- layers

    def _input_size(self, layer: KerasLayer) -> None:
        """Learn the number of input features from the first layers, where they say it."""
        if self.size is not None or self.layers or self.embedding is not None:
            return
        for key in ("batch_shape", "batch_input_shape"):
            shape = layer.settings.value.get(key)
            if isinstance(shape, list) and len(shape) == 3 and isinstance(shape[2], int):
                self.size = shape[2]

    def _embedding(self, layer: KerasLayer) -> None:
        s = layer.settings
        if self.layers or self.embedding is not None or self.mask_value is not None:
            layer.refuse("must be the first layer")
        (E,) = self.take(layer, self.paths(layer), [(s.integer("input_dim"), s.integer("output_dim"))])
        masks = s.boolean("mask_zero", False)
        if masks:
            self.note("mask_zero: token 0 is padding, its steps are skipped")
        self.embedding, self.size = Embedding(E, mask=0 if masks else None), E.shape[1]
        self.note("Keras files hold no vocabulary: inputs are token ids")

    def _masking(self, layer: KerasLayer) -> None:
        if self.layers or self.embedding is not None:
            layer.refuse("is supported as the first layer only, over numeric inputs")
        self.mask_value = layer.settings.number("mask_value")
        self.note(f"Masking: steps whose features all equal {self.mask_value:g} are skipped")

    def _recurrent(self, layer: KerasLayer) -> None:
        if not self.steps:
            layer.refuse("needs a vector for each step, the layer before it hands on a single one")
        both = layer.kind == "Bidirectional"
        kind, sides = self._directions(layer) if both else (layer.kind, [self._modern(layer.settings)])
        if not both and sides[0].boolean("go_backwards", False):
            layer.refuse("go_backwards is not supported outside Bidirectional")
        paths = self.paths(layer)
        if len(paths) % len(sides):
            layer.refuse(f"has {len(paths)} arrays, not the same number for both directions")
        each = len(paths) // len(sides)
        made = [self._lstm(layer, kind, side, paths[k * each :][:each]) for k, side in enumerate(sides)]
        if both:
            merge = self._one_of(layer, layer.settings, "merge_mode", tuple(MERGES))
            self.layers.append(Bidirectional(*made, merge=MERGES[merge]))  # type: ignore
        else:
            self.layers.append(made[0])
        self.size = self.layers[-1].outputs
        if not sides[0].boolean("return_sequences"):
            self.steps, self.readout = False, "last"

    def _directions(self, layer: KerasLayer) -> tuple[str, list[Fields]]:
        """The class and the settings of the forward and the backward layer inside a Bidirectional."""
        s = layer.settings
        inner = [s.object("layer"), s.object("backward_layer" if s.has("backward_layer") else "layer")]
        kinds = {side.string("class_name") for side in inner}
        if len(kinds) > 1 or not kinds < {"LSTM", "CuDNNLSTM"}:
            layer.refuse(f"is supported around LSTM only, it holds {' and '.join(sorted(kinds))}")
        sides = [self._modern(side.object("config")) for side in inner]
        backwards = [side.boolean("go_backwards", False) for side in sides]
        if backwards != [False, s.has("backward_layer")]:
            layer.refuse("must read forwards with one layer and backwards with the other")
        if sides[0].boolean("return_sequences") != sides[1].boolean("return_sequences"):
            layer.refuse("must have the same return_sequences in both directions")
        return kinds.pop(), sides

    def _modern(self, s: Fields) -> Fields:
        """Settings of a recurrent or Dense layer of Keras 1 under their later names."""
        renamed = {"output_dim": "units", "inner_activation": "recurrent_activation", "bias": "use_bias"}
        if "output_dim" not in s.value or "units" in s.value:
            return s
        self.version = self.version or "1"
        return Fields(s.source, s.where, {renamed.get(key, key): value for key, value in s.value.items()})

    def _lstm(self, layer: KerasLayer, kind: str, s: Fields, paths: list[str]) -> LSTM:
        for key in ("return_state", "time_major"):
            if s.boolean(key, False):
                layer.refuse(f"{key}=True is not supported")
        if s.boolean("stateful", False):
            self.note("stateful is left out: every sequence starts from a zero state, as after reset_states()")
        self.note("Keras' gates i, f, c, o are taken as i, f, g, o")
        U, W, b = self._gates(layer, kind, s, paths)
        if kind == "CuDNNLSTM":
            return LSTM(U, W, b)
        gate = self._one_of(layer, s, "recurrent_activation", ("sigmoid", "hard_sigmoid"))
        return LSTM(
            U,
            W,
            b,
            activation=self._one_of(layer, s, "activation", ("tanh", "relu", "linear")),
            recurrent_activation=self._hard_sigmoid(layer) if gate == "hard_sigmoid" else gate,
        )

    def _gates(
        self, layer: KerasLayer, kind: str, s: Fields, paths: list[str]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """U (4,u,D), W (4,u,u) and b (4,u), gates i, f, g, o, from any of the layouts that Keras has had."""
        u, D = s.integer("units"), self.size
        if kind == "CuDNNLSTM":
            K, R, b = self.take(layer, paths, [(D, 4 * u), (u, 4 * u), (8 * u,)])
            self.note("CuDNNLSTM: blocks are stored transposed, and its two biases are added")
            # The numbers of a gate's block, row by row, are those of the matrix that cuDNN multiplies x with.
            U = np.stack([block.reshape(u, len(K)) for block in np.split(K, 4, axis=1)])
            return U, np.stack(np.split(R, 4, axis=1)), b.reshape(2, 4, u).sum(axis=0)
        if len(paths) == 12:  # Keras 1: kernel, recurrent kernel and bias of each gate
            self.note("the 12 arrays of Keras 1 stand in the order i, c, f, o")
            arrays = self.take(layer, paths, [(D, u), (u, u), (u,)] * 4)
            U, W, b = (np.stack([arrays[3 * g + k].T for g in (0, 2, 1, 3)]) for k in range(3))
            return U, W, b
        bias: list[Shape] = [(4 * u,)] if s.boolean("use_bias", True) else []
        K, R, *rest = self.take(layer, paths, [(D, 4 * u), (u, 4 * u), *bias])
        return K.T.reshape(4, u, -1), R.T.reshape(4, u, u), rest[0].reshape(4, u) if rest else None

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

    def _dense(self, layer: KerasLayer) -> None:
        s = layer.settings
        if layer.kind == "TimeDistributed":
            inner = s.object("layer")
            if inner.string("class_name") != "Dense":
                layer.refuse(f"is supported around Dense only, it holds {inner.string('class_name')!r}")
            s = inner.object("config")
        if layer.kind != "Dense" and not self.steps:
            layer.refuse("needs a vector for each step, the layer before it hands on a single one")
        s = self._modern(s)
        n, biased = s.integer("units"), s.boolean("use_bias", True)
        V, *rest = self.take(layer, self.paths(layer), [(self.size, n), *([(n,)] if biased else [])])
        self.layers.append(Dense(np.ascontiguousarray(V.T), rest[0] if biased else None))
        self.size = n
        self._activate(layer, s.value.get("activation"))

    def _activation(self, layer: KerasLayer) -> None:
        if layer.kind == "Softmax" and layer.settings.value.get("axis") not in (-1, [-1]):
            layer.refuse("must have axis -1")
        plain = {"max_value": (None,), "negative_slope": (None, 0), "threshold": (None, 0)}
        if layer.kind == "ReLU" and any(layer.settings.value.get(key) not in ok for key, ok in plain.items()):
            layer.refuse("must have no max_value, negative_slope or threshold")
        named = {"Softmax": "softmax", "ReLU": "relu"}
        self._activate(layer, named.get(layer.kind) or layer.settings.value.get("activation"))

    def _activate(self, layer: KerasLayer, activation: Any) -> None:
        """Apply an activation to what the last layer hands on; a probability at the very end is taken off."""
        if activation in ("softmax", "sigmoid"):
            if not self.layers:
                layer.refuse(f"{activation} is supported at the very end only")
            self.output = activation
            self.note(f"the {activation} at the end is taken off: the scores explained are what it is applied to")
        elif activation in ("relu", "tanh"):
            last = self.layers[-1] if self.layers else None
            if not isinstance(last, Dense) or last.activation != "linear":
                layer.refuse(f"{activation} is supported right after a Dense layer without activation only")
            self.layers[-1] = Dense(last.V, last.d, activation=activation)
        elif activation not in ("linear", None):
            shown = activation if isinstance(activation, str) else "a custom function"
            layer.refuse(f"activation must be linear, relu, tanh, softmax or sigmoid, it is {shown}")

    def _pooling(self, layer: KerasLayer) -> None:
        s = layer.settings
        if not self.steps or not self.layers or isinstance(self.layers[-1], Dense):
            layer.refuse("is supported right after the last recurrent layer only")
        if s.boolean("keepdims", False) or s.value.get("data_format") not in (None, "channels_last"):
            layer.refuse("must have keepdims=False and data_format='channels_last'")
        if layer.kind in ("GlobalMaxPooling1D", "GlobalMaxPool1D"):
            if self.masked():
                layer.refuse("takes the maximum over padding too, which is not supported; train it without a mask")
            self.readout = "max"
        else:
            self.readout = "mean"
        self.steps = False

    def _flatten(self, layer: KerasLayer) -> None:
        if self.steps:
            layer.refuse("is supported where there is a single vector only")


_ADD: dict[str, Callable[[_Build, KerasLayer], None]] = {
    "Embedding": _Build._embedding,
    "Masking": _Build._masking,
    "LSTM": _Build._recurrent,
    "CuDNNLSTM": _Build._recurrent,
    "Bidirectional": _Build._recurrent,
    "Dense": _Build._dense,
    "TimeDistributed": _Build._dense,
    "TimeDistributedDense": _Build._dense,
    "Activation": _Build._activation,
    "Softmax": _Build._activation,
    "ReLU": _Build._activation,
    "GlobalAveragePooling1D": _Build._pooling,
    "GlobalAvgPool1D": _Build._pooling,
    "GlobalMaxPooling1D": _Build._pooling,
    "GlobalMaxPool1D": _Build._pooling,
    "Flatten": _Build._flatten,
}
