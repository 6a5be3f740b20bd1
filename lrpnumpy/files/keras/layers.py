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

from lrpnumpy.files.build.network import NetworkValue
from lrpnumpy.files.keras import activations as keras_activations
from lrpnumpy.files.keras import cells as keras_cells
from lrpnumpy.files.keras import inputs as keras_inputs
from lrpnumpy.files.keras import joins as keras_joins
from lrpnumpy.files.keras.activations import apply, function
from lrpnumpy.files.keras.build import (
    MASK_OPERATIONS,
    STEPS,
    KerasBuild,
    Meaning,
    channels_last,
    last_axis,
    number,
    one_of,
)
from lrpnumpy.files.keras.config import KerasCall, KerasLayer
from lrpnumpy.files.keras.inside import INSIDE
from lrpnumpy.files.keras.inside import each_step as inside_each_step
from lrpnumpy.files.safe import Fields, Shape, nearby
from lrpnumpy.layers import (
    Affine,
    AvgPool1D,
    Concat,
    Conv1D,
    LayerNorm,
    Max,
    MaxPool1D,
    Mean,
    Pad,
    Repeat,
    Reshape,
    Slice,
    Transpose,
)

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
    s, x = keras_cells.modern(b, layer.settings), b.value(layer, x)
    n, biased = s.integer("units"), s.boolean("use_bias", True)
    V, *rest = b.own_arrays(layer, [(x.width, n), *([(n,)] if biased else [])])
    out = b.dense(x, len(x.axes) - 1, np.ascontiguousarray(V.T), rest[0] if biased else None)
    return apply(b, layer, out, function(b, layer, s))


def each_step(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """TimeDistributed: at every step what the layer inside does."""
    x = b.with_steps(layer, x) if not x.probability else x
    if layer.kind == "TimeDistributedDense":
        return dense(b, layer, x)
    inner = layer.settings.object("layer")
    kind = inner.string("class_name")
    if len(x.axes) == 4 and kind in INSIDE:
        return inside_each_step(b, replace(layer, kind=kind, settings=inner.object("config")), x)
    if kind == "Flatten":  # of a vector
        return x
    if kind not in _AT_STEPS:
        near = nearby(kind[:80], _AT_STEPS)
        b.refuse(f"must hold a layer that takes one vector at each step, it holds {kind!r:.80}{near}")
    said = dict(inner.object("config").value)
    if said.get("axis") in (1, [1]):  # the features of one step
        said["axis"] = -1
    settings = Fields(b.source, layer.settings.where, said)
    found = MEANINGS[kind](b, KerasCall(replace(layer, kind=kind, settings=settings)), [x])
    return found if isinstance(found, NetworkValue) else found[0]


_AT_STEPS = (
    "Dense", "BatchNormalization", "LayerNormalization", "Rescaling", "Activation", "Softmax", "ReLU", "LeakyReLU",
    "ELU", *NO_OPS,
)  # fmt: skip


_RENAMED = {  # settings of Keras 1
    "nb_filter": "filters", "filter_length": "kernel_size", "border_mode": "padding", "subsample_length": "strides",
    "bias": "use_bias",
}  # fmt: skip


def conv(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """Conv1D; of Keras 1 under other names."""
    x, s = b.sees_padding(layer, b.with_steps(layer, x)), layer.settings
    if s.has("nb_filter"):
        s = Fields(s.source, s.where, {_RENAMED.get(key, key): value for key, value in s.value.items()})
        layer = replace(layer, settings=s)
    channels_last(layer)
    n, biased = s.integer("filters"), s.boolean("use_bias", True)
    width, stride, dilation = (
        number(layer, key, default) for key, default in (("kernel_size", None), ("strides", 1), ("dilation_rate", 1))
    )
    groups = s.integer("groups", 1)
    if groups < 1 or x.width % groups:
        b.refuse(f"groups must divide the {x.width} features, it is {groups}")
    padding = one_of(layer, s, "padding", ("valid", "same", "causal"), "valid")
    inputs = x.width // groups
    paths = list(b.paths(layer).values())
    if paths and len(b.source.shape(paths[0])) == 4:  # of Keras 1: (width, 1, inputs, filters)
        K, *rest = b.own_arrays(layer, [(width, 1, inputs, n), *([(n,)] if biased else [])])
        K = K[:, 0]
    else:
        K, *rest = b.own_arrays(layer, [(width, inputs, n), *([(n,)] if biased else [])])
    ours = Conv1D(
        np.ascontiguousarray(K.transpose(2, 0, 1)), rest[0] if biased else None,
        stride=stride, dilation=dilation, padding=padding, groups=groups,
    )  # fmt: skip
    out = b.vectors(ours, x, steps=b.after(x, ours.windows))
    return apply(b, layer, out, function(b, layer, s))


def depthwise(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """DepthwiseConv1D: a convolution of each feature by itself; SeparableConv1D: with a matrix behind it."""
    x, s = b.sees_padding(layer, b.with_steps(layer, x)), layer.settings
    channels_last(layer)
    width, stride, dilation, times = (
        number(layer, key, default)
        for key, default in (("kernel_size", None), ("strides", 1), ("dilation_rate", 1), ("depth_multiplier", 1))
    )
    padding = one_of(layer, s, "padding", ("valid", "same", "causal"), "valid")
    out, biased = x.width * times, s.boolean("use_bias", True)
    filters = [s.integer("filters")] if layer.kind == "SeparableConv1D" else []
    n = filters[0] if filters else out
    shapes: list[Shape] = [(width, x.width, times), *((1, out, n) for n in filters), *([(n,)] if biased else [])]
    K, *rest = b.own_arrays(layer, shapes)
    bias = rest.pop() if biased else None
    each = np.ascontiguousarray(K.reshape(width, out).T[:, :, None])  # (out, width, 1)
    ours = Conv1D(each, None if filters else bias, stride, dilation, padding, x.width)
    y = b.vectors(ours, x, steps=b.after(x, ours.windows))
    if filters:
        y = b.dense(y, 2, np.ascontiguousarray(rest[0][0].T), bias)
    return apply(b, layer, y, function(b, layer, s))


def _scale_and_center(b: KerasBuild, layer: KerasLayer, width: int | None, fixed: int) -> list[np.ndarray | None]:
    """gamma and beta, None where the layer has none, and the other arrays."""
    has = [layer.settings.boolean(key, True) for key in ("scale", "center")]
    found = iter(b.own_arrays(layer, [(width,)] * (sum(has) + fixed)))
    return [*(next(found) if one else None for one in has), *found]


def batch_norm(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """BatchNormalization of a trained network: s x + t."""
    x, s = b.value(layer, x), layer.settings
    last_axis(layer, x)
    gamma, beta, mean, var = _scale_and_center(b, layer, x.width, 2)
    eps = s.number("epsilon", 0.001)
    return b.vectors(Affine.batch_norm(gamma, beta, mean, var, eps), x)


def layer_norm(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """LayerNormalization over the features."""
    x, s = b.value(layer, x), layer.settings
    last_axis(layer, x)
    if s.boolean("rms_scaling", False):
        b.refuse("rms_scaling=True is not supported")
    gamma, beta = _scale_and_center(b, layer, x.width, 0)
    if gamma is None:
        gamma = np.ones(x.width, np.float32)
    if beta is None:
        beta = np.zeros_like(gamma)
    return b.vectors(LayerNorm(gamma, beta, s.number("epsilon", 0.001)), x)


def rms_norm(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """RMSNormalization over the features."""
    x = b.value(layer, x)
    last_axis(layer, x)
    (scale,) = b.own_arrays(layer, [(x.width,)])
    return b.vectors(LayerNorm(scale, eps=layer.settings.number("epsilon", 1e-6), center=False), x)


def group_norm(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """GroupNormalization: mean and variance over all steps and the features of a group."""
    x, s = b.value(layer, x), layer.settings
    last_axis(layer, x)
    groups, width = s.integer("groups", 32), x.width
    groups = width if groups == -1 else groups
    if groups < 1 or width % groups:
        b.refuse(f"groups must divide the {width} features, it is {groups}")
    gamma, beta = _scale_and_center(b, layer, width, 0)
    if x.has_steps and x.length is None:
        b.refuse("is over all steps, whose number the file must say; save the model with Input((steps, features))")
    flat = b.flattened(x) if x.has_steps else x
    each, eps, last = width // groups, s.number("epsilon", 0.001), len(flat.axes) - 1
    parts = []
    for k in range(groups):
        part = flat.taking(last, slice(k * each, (k + 1) * each))
        parts.append(b.apply(LayerNorm(np.ones(part.width, np.float32), eps=eps), part))
    starts = np.cumsum([0, *(part.width for part in parts[:-1])])
    index = np.concatenate([part.index + start for part, start in zip(parts, starts, strict=True)], axis=-1)
    whole = replace(flat, values=tuple(part.values[0] for part in parts), index=index)
    out = b.steps_of(whole, 1) if x.has_steps else b.rows(whole)
    return b.affine(out, np.ones(1) if gamma is None else gamma, beta)


def normalization(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """(x - mean) / sqrt(variance), of the data that the layer has seen; with `invert` the reverse."""
    x, s = b.value(layer, x), layer.settings
    last_axis(layer, x)
    paths = list(b.paths(layer).values())
    if s.has("mean"):
        mean, var = (_per_feature(layer, key, x.width) for key in ("mean", "variance"))
    elif not paths:
        b.refuse("has no mean and variance in this file; call adapt before the model is saved")
    else:
        mean, var = b.take(layer, paths[:2], [(x.width,), (x.width,)])
    if (var < 0).any():
        b.refuse("has variances below 0")
    deviation = np.maximum(np.sqrt(var), 1e-7).astype(mean.dtype)
    if s.boolean("invert", False):
        return b.vectors(Affine(deviation, mean, scaler=b.raw(x) is not None), x)
    return b.vectors(Affine(1 / deviation, -mean / deviation, scaler=b.raw(x) is not None), x)


def rescaling(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """scale x + offset."""
    x = b.value(layer, x)
    scale, offset = (_per_feature(layer, key, x.width) for key in ("scale", "offset"))
    return b.vectors(Affine(scale, offset, scaler=b.raw(x) is not None), x)


def _per_feature(layer: KerasLayer, key: str, width: int) -> np.ndarray:
    """A setting that is one number, or a list of one for each feature."""
    value: Any = layer.settings.value.get(key)
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    values = value if isinstance(value, list) else [value]
    if len(values) not in (1, width) or not all(type(one) in (int, float) and math.isfinite(one) for one in values):
        layer.refuse(f"{key} must be a number, or one for each of the {width} features")
    return np.broadcast_to(np.array(values, np.float32), width)


# --------------------------------------------------------------------------------------------------- steps and shapes


def pool(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """MaxPooling1D and AveragePooling1D."""
    x = b.sees_padding(layer, b.with_steps(layer, x))
    channels_last(layer)
    s = layer.settings
    size = number(layer, s.first("pool_length", "pool_size"), 2)
    stride = number(layer, s.first("stride", "strides"), size)
    padding = one_of(layer, s, s.first("border_mode", "padding"), ("valid", "same"), "valid")
    kind = MaxPool1D if layer.kind.startswith("Max") else AvgPool1D
    ours = kind(size, stride, padding)
    return b.vectors(ours, x, steps=b.after(x, ours.windows))


def global_pool(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """The mean or the maximum over all steps."""
    x = b.with_steps(layer, x)
    channels_last(layer)
    if "Max" in layer.kind:
        out = b.vectors(Max(), b.sees_padding(layer, x))
    else:
        b.skips_padding(x)
        out = b.vectors(Mean(), x)
    return b.vectors(Repeat(1), out, steps=1) if layer.settings.boolean("keepdims", False) else out


def flatten(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """All steps as one vector."""
    if not x.has_steps:
        return x
    x = b.sees_padding(layer, b.value(layer, x))
    channels_last(layer)
    if x.length is None:
        b.refuse(
            "needs a fixed number of steps, but the file has sequences of any length; save the model with "
            "Input((steps, features))"
        )
    flat = b.flattened(x)
    return replace(flat, axes=("N", "F"), index=flat.index.reshape(-1))


def repeat(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """RepeatVector."""
    n = number(layer, "n")
    return b.vectors(Repeat(n), x, steps=n)


def reshape(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """Vectors to steps, steps to vectors, or steps regrouped."""
    x = b.sees_padding(layer, b.value(layer, x))
    target = next((t for key in ("target_shape", "newshape") if (t := layer.settings.value.get(key)) is not None), None)
    if layer.settings.has("newshape") and isinstance(target, list):
        target = target[1:]
    if not isinstance(target, list) or not 1 <= len(target) <= 2 or not all(type(n) is int for n in target):
        b.refuse("must have a target_shape of one or two numbers")
    width = x.width
    total: int | None = width
    if x.has_steps:
        if target == [x.length, width]:
            return x
        total = None if x.length is None else x.length * width
    elif target in ([width], [-1]):
        return x
    if len(target) == 1:
        if total is None or target[0] not in (-1, total):
            b.refuse(f"target_shape must keep all numbers, it is {target}")
        return flatten(b, layer, x)
    steps, each = target
    if each == -1 and total is not None and steps > 0 and total % steps == 0:
        each = total // steps
    if each < 1 or (total is not None and steps not in (-1, total // each)) or (total is None and steps != -1):
        b.refuse(f"target_shape must keep all numbers, it is {target}")
    return b.vectors(Reshape(each), x, steps=STEPS if total is None else total // each)


def permute(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """Steps and features exchanged."""
    x = b.sees_padding(layer, b.with_steps(layer, x))
    axes = layer.settings.value.get("dims") or (layer.settings.value.get("axes") or [])[1:]
    if axes == [1, 2]:
        return x
    if axes != [2, 1] or x.length is None:
        b.refuse("must exchange the two axes of a series with a fixed number of steps")
    return b.vectors(Transpose(x.length), x, steps=x.width)


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
    x = b.sees_padding(layer, b.with_steps(layer, x))
    ends = _two(layer, "padding")
    return b.vectors(Pad(*ends), x, steps=x.steps + sum(ends))


def cropping(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """Steps cut off at both ends."""
    x = b.sees_padding(layer, b.with_steps(layer, x))
    first, last = _two(layer, "cropping")
    if not first and not last:
        return x
    return b.vectors(Slice(first or None, -last or None), x, steps=x.steps - first - last)


def up_sampling(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """Every step several times."""
    x = b.sees_padding(layer, b.with_steps(layer, x))
    size, width = number(layer, layer.settings.first("length", "size"), 2), x.width
    if size == 1:
        return x
    if size > 64:
        b.refuse(f"size must be at most 64, it is {size}")
    wide = b.vectors(Concat(), *[x] * size, name=f"{layer.name}_side_by_side")
    return b.vectors(Reshape(width), wide, steps=x.steps * size)


# ---------------------------------------------------------------------------------------------------------- the table


def _one(f: Callable[[KerasBuild, KerasLayer, NetworkValue], NetworkValue]) -> Meaning:
    """The meaning of a layer that takes one value and nothing else."""

    def meaning(b: KerasBuild, call: KerasCall, xs: list[NetworkValue]) -> NetworkValue:
        b.plain(call)
        if len(xs) != 1:
            call.layer.refuse(f"must have one input, it has {len(xs)}")
        return f(b, call.layer, xs[0])

    return meaning


_ONE: dict[str, Callable[[KerasBuild, KerasLayer, NetworkValue], NetworkValue]] = {
    **dict.fromkeys(NO_OPS, idle),
    "Dense": dense,
    **dict.fromkeys(("TimeDistributed", "TimeDistributedDense"), each_step),
    **dict.fromkeys(("Conv1D", "Convolution1D"), conv),
    **dict.fromkeys(("DepthwiseConv1D", "SeparableConv1D"), depthwise),
    "BatchNormalization": batch_norm,
    "LayerNormalization": layer_norm,
    "RMSNormalization": rms_norm,
    "GroupNormalization": group_norm,
    "Normalization": normalization,
    "Rescaling": rescaling,
    **dict.fromkeys(("MaxPooling1D", "AveragePooling1D", "MaxPool1D", "AvgPool1D"), pool),
    **dict.fromkeys(
        ("GlobalAveragePooling1D", "GlobalAvgPool1D", "GlobalMaxPooling1D", "GlobalMaxPool1D"), global_pool
    ),
    "Flatten": flatten,
    "RepeatVector": repeat,
    "Reshape": reshape,
    **dict.fromkeys(("Permute", "Transpose"), permute),
    "ZeroPadding1D": zero_padding,
    "Cropping1D": cropping,
    "UpSampling1D": up_sampling,
}
MEANINGS: dict[str, Meaning] = {
    **{kind: _one(f) for kind, f in _ONE.items()},
    **dict.fromkeys((*keras_cells.KINDS, "RNN"), keras_cells.recurrent),
    "Bidirectional": keras_cells.both_ways,
    **dict.fromkeys(keras_activations.PLAIN, keras_activations.activation),
    "PReLU": keras_activations.prelu,
    "Embedding": keras_inputs.embedding,
    "Masking": keras_inputs.masking,
    **dict.fromkeys(MASK_OPERATIONS, keras_inputs.mask),
    "TextVectorization": keras_inputs.vectorized,
    **dict.fromkeys(("StringLookup", "IntegerLookup"), keras_inputs.looked_up),
    **keras_joins.MEANINGS,
}
KNOWN = frozenset((*MEANINGS, "InputLayer"))
