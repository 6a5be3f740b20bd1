"""The layers of Keras as lrpnumpy layers: a table of class to function.

A function takes the `KerasBuild`, the call of the layer and its input values, adds nodes, and returns the output.
Nothing is ever built from a class name: a name is looked up in the table, and anything else is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from lrpnumpy import layers as lrp
from lrpnumpy.files.build.constants import LAST, as_list
from lrpnumpy.files.build.inside import matrix_of_windows, product, shaped
from lrpnumpy.files.build.network import NetworkValue
from lrpnumpy.files.keras import activations as keras_activations
from lrpnumpy.files.keras import cells as keras_cells
from lrpnumpy.files.keras import inputs as keras_inputs
from lrpnumpy.files.keras import joins as keras_joins
from lrpnumpy.files.keras.activations import apply, function
from lrpnumpy.files.keras.build import AT_PLACES, MASK_OPERATIONS, KerasBuild, Meaning, by_custom, modern
from lrpnumpy.files.keras.config import KerasCall, KerasLayer
from lrpnumpy.files.keras.joins import extreme
from lrpnumpy.files.safe import Fields, Shape, nearby
from lrpnumpy.layers.windows import WindowSteps

OneInput = Callable[[KerasBuild, KerasLayer, NetworkValue], NetworkValue]
# Layers that change nothing once a network is trained.
NO_OPS = (
    "Dropout", "SpatialDropout1D", "GaussianNoise", "GaussianDropout", "AlphaDropout", "ActivityRegularization",
    "Identity", "Cast",
)  # fmt: skip


def idle(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """A layer that is left out."""
    b.note(f"{layer.kind} layers are left out: they do nothing in a trained network")
    return x


# ------------------------------------------------------------------------------------------------- layers with weights


def dense(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """Dense, alone or at every step."""
    s = modern(b, layer.settings)
    n = s.integer("units")
    V, d = b.with_bias(layer, s, [(x.width, n)], (n,))
    out = b.dense(x, len(x.axes) - 1, np.ascontiguousarray(V.T), d)
    return apply(b, layer, out, function(b, layer, s))


def each_step(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """TimeDistributed: at every step what the layer inside does."""
    if not x.probability:
        x = b.with_steps(layer, x)
    inner = layer.settings.object("layer")
    kind, settings = inner.string("class_name"), inner.object("config").value
    if len(x.axes) == 4 and kind in AT_PLACES:
        return at_places(b, replace(layer, kind=kind, settings=inner.object("config")), x)
    if kind == "Flatten":  # of a vector
        return x
    if kind not in _AT_STEPS:
        near = nearby(kind[:80], _AT_STEPS)
        what = f"must hold a layer that takes one vector at each step, it holds {kind!r:.80}{near}"
        b.refuse(f"{what}; {by_custom(layer.name)}")
    if settings.get("axis") in (1, [1]):  # the features of one step
        settings = {**settings, "axis": -1}
    at_step = replace(layer, kind=kind, settings=Fields(b.source, layer.settings.where, settings))
    (made,) = as_list(MEANINGS[kind](b, KerasCall(at_step), [x]))
    return made


_AT_STEPS = (
    "Dense", "BatchNormalization", "LayerNormalization", "Rescaling", "Activation", "Softmax", "ReLU", "LeakyReLU",
    "ELU", *NO_OPS,
)  # fmt: skip


def conv(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """Conv1D; of Keras 1 under other names."""
    s = modern(b, layer.settings)
    layer = replace(layer, settings=s)
    windows, n, groups = layer.windows(), s.integer("filters"), s.integer("groups", 1)
    b.refuse_if(groups < 1 or x.width % groups, f"groups must divide the {x.width} features, it is {groups}")
    shape: Shape = (windows.width, x.width // groups, n)
    paths = list(b.paths(layer).values())
    if paths and len(b.source.shape(paths[0])) == 4:  # of Keras 1: (width, 1, inputs, filters)
        shape = (shape[0], 1, *shape[1:])
    K, d = b.with_bias(layer, s, [shape], (n,))
    K = K.reshape(windows.width, -1, n).transpose(2, 0, 1)
    return apply(b, layer, _convolved(b, x, K, d, windows, groups), function(b, layer, s))


def depthwise(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """DepthwiseConv1D: a convolution of each feature by itself; SeparableConv1D: with a matrix behind it."""
    s, windows, times = layer.settings, layer.windows(), layer.number("depth_multiplier", 1)
    out = x.width * times
    shapes: list[Shape] = [(windows.width, x.width, times)]
    bias: Shape = (out,)
    if layer.kind == "SeparableConv1D":
        bias = (s.integer("filters"),)
        shapes.append((1, out, *bias))
    K, *V, d = b.with_bias(layer, s, shapes, bias)
    y = _convolved(b, x, K.reshape(windows.width, out).T[:, :, None], None if V else d, windows, x.width)
    if V:
        y = b.dense(y, 2, np.ascontiguousarray(V[0][0].T), d)
    return apply(b, layer, y, function(b, layer, s))


def _convolved(b: KerasBuild, x: NetworkValue, K: np.ndarray, d: Any, windows: Any, groups: int) -> NetworkValue:
    """A convolution over the steps."""
    node = lrp.Conv1D(np.ascontiguousarray(K), d, windows.stride, windows.dilation, windows.padding, groups)
    return b.vectors(node, x, steps=b.after(x, node.windows))


def _scale_and_center(b: KerasBuild, layer: KerasLayer, width: int, fixed: int = 0) -> list[np.ndarray]:
    """gamma and beta, 1 and 0 where the layer has none, and the other arrays."""
    has_scale, has_center = (layer.settings.boolean(key, True) for key in ("scale", "center"))
    arrays = b.own_arrays(layer, [(width,)] * (has_scale + has_center + fixed))
    if not has_scale:
        arrays.insert(0, np.ones(width, np.float32))
    if not has_center:
        arrays.insert(1, np.zeros(width, np.float32))
    return arrays


def batch_norm(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """BatchNormalization of a trained network: s x + t."""
    gamma, beta, mean, var = _scale_and_center(b, layer, x.width, 2)
    eps = layer.settings.number("epsilon", 0.001)
    return b.vectors(lrp.Affine.batch_norm(gamma, beta, mean, var, eps), x)


def layer_norm(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """LayerNormalization over the features."""
    b.refuse_if(layer.settings.boolean("rms_scaling", False), "rms_scaling=True is not supported")
    gamma, beta = _scale_and_center(b, layer, x.width)
    return b.vectors(lrp.LayerNorm(gamma, beta, layer.settings.number("epsilon", 0.001)), x)


def rms_norm(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """RMSNormalization over the features."""
    (scale,) = b.own_arrays(layer, [(x.width,)])
    return b.vectors(lrp.LayerNorm(scale, eps=layer.settings.number("epsilon", 1e-6), center=False), x)


def group_norm(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """GroupNormalization: mean and variance over all steps and the features of a group."""
    s, width = layer.settings, x.width
    groups = width if s.value.get("groups") == -1 else s.integer("groups", 32)
    b.refuse_if(groups < 1 or width % groups, f"groups must divide the {width} features, it is {groups}")
    gamma, beta = _scale_and_center(b, layer, width)
    flat = b.flattened(x) if x.has_steps else x
    last = len(flat.axes) - 1
    parts = [flat.taking(last, features) for features in np.split(np.arange(width), groups)]
    node = lrp.LayerNorm(np.ones(parts[0].width, np.float32), eps=s.number("epsilon", 0.001))
    parts = [b.apply(node, part) for part in parts]
    return b.affine(b.settled(b.rows(b.operation("Concat", *parts, axis=last))), gamma, beta)


def normalization(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """(x - mean) / sqrt(variance), of the data that the layer has seen."""
    s, paths = layer.settings, list(b.paths(layer).values())
    b.refuse_if(s.boolean("invert", False), "invert=True is not supported; use a Rescaling layer")
    if s.has("mean"):
        mean, var = (_per_feature(layer, key, x.width) for key in ("mean", "variance"))
    else:
        b.refuse_if(not paths, "has no mean and variance in this file; call adapt before the model is saved")
        mean, var = b.take(layer, paths[:2], [(x.width,), (x.width,)])
    b.refuse_if((var < 0).any(), "has variances below 0")
    deviation = np.maximum(np.sqrt(var), 1e-7).astype(mean.dtype)
    return _scaled(b, x, 1 / deviation, -mean / deviation)


def rescaling(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """scale x + offset."""
    return _scaled(b, x, *(_per_feature(layer, key, x.width) for key in ("scale", "offset")))


def _scaled(b: KerasBuild, x: NetworkValue, scale: np.ndarray, offset: np.ndarray) -> NetworkValue:
    """scale x + offset: at an input, a scaler."""
    return b.vectors(lrp.Affine(scale, offset, scaler=b.raw(x) is not None), x)


def _per_feature(layer: KerasLayer, key: str, width: int) -> np.ndarray:
    """A setting that is one number, or a list of one for each feature."""
    value: Any = layer.settings.value.get(key)
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    values = as_list(value)
    if len(values) not in (1, width) or not all(type(one) in (int, float) and math.isfinite(one) for one in values):
        layer.refuse(f"{key} must be a number, or one for each of the {width} features")
    return np.broadcast_to(np.array(values, np.float32), width)


# ------------------------------------------------------------------------------------------------- inside each step
#
# Records (steps, places, n): the numbers of a step are one vector, so a convolution inside it is a matrix, and a
# maximum is one of several vectors.


def at_places(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """The output of a layer inside each step."""
    layer.channels_last()
    b.room(x.width)
    x = b.value(layer, x)
    if layer.kind == "Flatten":
        return shaped(x, -1)
    if layer.kind == "Conv1D":
        return _conv_inside(b, layer, x)
    return _pool_inside(b, layer, x)


def _conv_inside(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    s, windows, filters = layer.settings, layer.windows(), layer.settings.integer("filters")
    b.refuse_if(s.integer("groups", 1) != 1, "has groups, which is not supported inside TimeDistributed")
    K, bias = b.with_bias(layer, s, [(windows.width, x.index.shape[1], filters)], (filters,))
    V = matrix_of_windows(b, x, windows, K)
    return apply(b, layer, product(b, x, V, bias), function(b, layer, s))


def _pool_inside(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """MaxPooling1D and AveragePooling1D, or with Global all places together."""
    places, n = x.index.shape
    size = stride = places
    is_global = layer.kind.startswith("Global")
    if not is_global:
        size = layer.number("pool_size", 2)
        stride = layer.number("strides", size)
    windows = WindowSteps(size, stride, 1, layer.one_of("padding", ("valid", "same"), "valid"))
    V = matrix_of_windows(b, x, windows, np.broadcast_to(np.eye(n, dtype=np.float32), (size, n, n)))
    if "Average" in layer.kind:
        out = product(b, x, V / V.sum(axis=(2, 3), keepdims=True), None)
    else:
        first = np.arange(len(V)) * stride - int(windows.left(np.array([places]))[0])
        inside = [np.clip(first + w, 0, places - 1) for w in range(size)]  # padding counts for the place at the edge
        flat = shaped(x.taking(2, inside[0]), -1)
        for index in inside[1:]:
            flat = extreme(b, layer, "Maximum", flat, shaped(x.taking(2, index), -1))
        out = shaped(flat, len(V), n)
    return shaped(out, n) if is_global else out


# --------------------------------------------------------------------------------------------------- steps and shapes


def pool(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """MaxPooling1D and AveragePooling1D."""
    s = layer.settings
    size = layer.number(s.first("pool_length", "pool_size"), 2)
    stride = layer.number(s.first("stride", "strides"), size)
    padding = layer.one_of(s.first("border_mode", "padding"), ("valid", "same"), "valid")
    kind = lrp.MaxPool1D if "Max" in layer.kind else lrp.AvgPool1D
    node = kind(size, stride, padding)
    return b.vectors(node, x, steps=b.after(x, node.windows))


def global_pool(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """The mean or the maximum over all steps."""
    x = b.with_steps(layer, x)
    layer.channels_last()
    if "Max" in layer.kind:
        out = b.vectors(lrp.Max(), b.sees_padding(layer, x))
    else:
        b.skips_padding(x)
        out = b.vectors(lrp.Mean(), x)
    if layer.settings.boolean("keepdims", False):
        return b.vectors(lrp.Repeat(1), out, steps=1)
    return out


def repeat(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """RepeatVector."""
    n = layer.number("n")
    return b.vectors(lrp.Repeat(n), x, steps=n)


def reshape(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """Flatten and Reshape: steps as one vector, a vector as steps, or steps regrouped."""
    layer.channels_last()
    s = layer.settings
    target: Any = [-1]
    if layer.kind == "Reshape":
        target = s.items("newshape")[1:] if s.has("newshape") else s.value.get("target_shape")
    if not isinstance(target, list) or not 1 <= len(target) <= 2 or not all(type(n) is int and n for n in target):
        b.refuse("must have a target_shape of one or two numbers")
    return b.emit("Reshape", b.sees_padding(layer, b.value(layer, x)), shape=[0, *target])


def permute(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """Steps and features exchanged."""
    axes = layer.settings.value.get("dims") or (layer.settings.value.get("axes") or [])[1:]
    b.refuse_if(axes not in ([1, 2], [2, 1]), "must exchange the two axes of a series")
    return b.emit("Transpose", x, perm=[0, *axes])


def _two(layer: KerasLayer, key: str) -> tuple[int, int]:
    """A setting that is a whole number for both ends, or one for each."""
    value = layer.settings.value.get(key, 1)
    if type(value) is int:
        value = [value, value]
    if not isinstance(value, list) or len(value) != 2 or not all(type(n) is int and 0 <= n < 2**31 for n in value):
        layer.refuse(f"{key} must be one or two whole numbers from 0")
    return value[0], value[1]


def zero_padding(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """Steps of zeros around a series."""
    ends = _two(layer, "padding")
    return b.vectors(lrp.Pad(*ends), x, steps=x.steps + sum(ends))


def cropping(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """Steps cut off at both ends."""
    first, last = _two(layer, "cropping")
    return b.emit("Slice", x, starts=[first], ends=[-last or LAST], axes=[1], steps=[1])


def up_sampling(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """Every step several times."""
    size, width = layer.number(layer.settings.first("length", "size"), 2), x.width
    b.refuse_if(size > 64, f"size must be at most 64, it is {size}")
    if size == 1:
        return x
    wide = b.vectors(lrp.Concat(), *[x] * size, name=f"{layer.name}_side_by_side")
    return b.vectors(lrp.Reshape(width), wide, steps=x.steps * size)


# ---------------------------------------------------------------------------------------------------------- the table


def _series(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """The input of a layer of a series, which computes with padding, too."""
    layer.channels_last()
    return b.sees_padding(layer, b.with_steps(layer, x))


def _features(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """The input of a layer over the features."""
    x = b.value(layer, x)
    layer.last_axis(len(x.axes))
    return x


def _one(f: OneInput, takes: OneInput = lambda b, layer, x: x) -> Meaning:
    """The meaning of a layer that takes one value and nothing else; `takes` prepares the value."""

    def meaning(b: KerasBuild, call: KerasCall, xs: list[NetworkValue]) -> NetworkValue:
        b.plain(call)
        b.refuse_if(len(xs) != 1, f"must have one input, it has {len(xs)}")
        return f(b, call.layer, takes(b, call.layer, xs[0]))

    return meaning


_OF_SERIES: dict[str, OneInput] = {
    "Conv1D": conv, "Convolution1D": conv, "DepthwiseConv1D": depthwise, "SeparableConv1D": depthwise,
    **dict.fromkeys(("MaxPooling1D", "AveragePooling1D", "MaxPool1D", "AvgPool1D"), pool), "Permute": permute,
    "Transpose": permute, "ZeroPadding1D": zero_padding, "Cropping1D": cropping, "UpSampling1D": up_sampling,
}  # fmt: skip
_OF_FEATURES: dict[str, OneInput] = {
    "BatchNormalization": batch_norm, "LayerNormalization": layer_norm, "RMSNormalization": rms_norm,
    "GroupNormalization": group_norm, "Normalization": normalization,
}  # fmt: skip
_OF_VALUES: dict[str, OneInput] = {"Dense": dense, "Rescaling": rescaling}
_OF_ANYTHING: dict[str, OneInput] = {
    **dict.fromkeys(NO_OPS, idle), "TimeDistributed": each_step, "RepeatVector": repeat, "Flatten": reshape,
    "Reshape": reshape, "GlobalAveragePooling1D": global_pool, "GlobalMaxPooling1D": global_pool,
    "GlobalAvgPool1D": global_pool, "GlobalMaxPool1D": global_pool,
}  # fmt: skip
MEANINGS: dict[str, Meaning] = {
    **{kind: _one(f, _series) for kind, f in _OF_SERIES.items()},
    **{kind: _one(f, _features) for kind, f in _OF_FEATURES.items()},
    **{kind: _one(f, KerasBuild.value) for kind, f in _OF_VALUES.items()},
    **{kind: _one(f) for kind, f in _OF_ANYTHING.items()},
    "TimeDistributedDense": _one(dense, KerasBuild.with_steps),
    **dict.fromkeys((*keras_cells.KINDS, "RNN"), keras_cells.recurrent), "Bidirectional": keras_cells.both_ways,
    **dict.fromkeys(keras_activations.PLAIN, keras_activations.activation), "PReLU": keras_activations.prelu,
    **dict.fromkeys(MASK_OPERATIONS, keras_inputs.mask), "Masking": keras_inputs.masking,
    "Embedding": keras_inputs.embedding, "TextVectorization": keras_inputs.vectorized,
    "StringLookup": keras_inputs.looked_up, **keras_joins.MEANINGS,
}  # fmt: skip
KNOWN = frozenset((*MEANINGS, "InputLayer"))
