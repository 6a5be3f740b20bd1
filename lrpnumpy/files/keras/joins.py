"""What Keras makes of several values: joins, products, attention; and the operations it lists beside its layers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lrpnumpy.files.keras.build import KerasBuild, KerasValue, Meaning, as_length, last_axis, one_of
from lrpnumpy.files.keras.config import KerasCall, KerasLayer
from lrpnumpy.layers import (
    Activation,
    Add,
    AdditiveAttention,
    Affine,
    Attention,
    Average,
    Concat,
    Dense,
    Flatten,
    LastRow,
    Layer,
    Max,
    Mean,
    MultiHeadAttention,
    Multiply,
    Pad,
    Repeat,
    Reshape,
    Reverse,
    Slice,
    Softmax,
    Subtract,
    Sum,
    Transpose,
)
from lrpnumpy.layers.base import ABSENT

# ------------------------------------------------------------------------------------------------------------ joins


def join(b: KerasBuild, call: KerasCall, xs: list[KerasValue]) -> KerasValue:
    """Concatenate, Add, Average, Subtract, Multiply, Maximum, Minimum."""
    layer, kind = call.layer, call.layer.kind
    xs = [b.taken(layer, x) for x in xs]
    if kind == "Concatenate":
        last_axis(layer, xs[0], call.setting("axis", -1))
    elif (value := _constant(call)) is not None and len(xs) == 1 and kind in ("Add", "Multiply"):
        ones = np.ones(b.width(layer, xs[0]), np.float32)
        return b.node(layer, Affine(ones * value) if kind == "Multiply" else Affine(ones, ones * value), xs[0])
    else:
        b.plain(call)
    if len(xs) == 1 and kind != "Subtract":
        return xs[0]
    xs = _alike(b, layer, xs, kind != "Concatenate")
    if len({x.length for x in xs if x.steps and x.length is not None}) > 1:
        layer.refuse("joins series of different numbers of steps, which is not supported")
    if kind in _MANY:
        return b.node(layer, _MANY[kind](), *xs)
    if kind == "Subtract":
        if len(xs) != 2:
            layer.refuse(f"must have two inputs, it has {len(xs)}")
        return b.node(layer, Subtract(), *xs)
    out = xs[0]
    for x in xs[1:]:
        out = _product(b, layer, out, x) if kind == "Multiply" else _extreme(b, layer, kind, out, x)
    return out


def merge(b: KerasBuild, call: KerasCall, xs: list[KerasValue]) -> KerasValue:
    """The one layer that joined values in Keras 1."""
    layer = call.layer
    mode = one_of(layer, layer.settings, "mode", tuple(_MODES), "sum")
    if mode == "concat":
        last_axis(layer, xs[0], layer.settings.value.get("concat_axis", -1))
    return join(b, replace(call, layer=replace(layer, kind=_MODES[mode])), xs)


_MODES = {"concat": "Concatenate", "sum": "Add", "ave": "Average", "mul": "Multiply", "max": "Maximum"}
_MANY: dict[str, Any] = {"Concatenate": Concat, "Add": Add, "Average": Average}


def _constant(call: KerasCall) -> np.float32 | None:
    """The one number that a call has beside its value."""
    found = [*(one for one in call.others if one is not None), *call.options.values()]
    is_number = len(found) == 1 and type(found[0]) in (int, float) and abs(found[0]) < 1e30
    return np.float32(found[0]) if is_number else None


def _alike(b: KerasBuild, layer: KerasLayer, xs: list[KerasValue], same_width: bool) -> list[KerasValue]:
    """The values, those repeated that have one step, no steps or one feature where others have more."""
    series = next((x for x in xs if x.steps and x.length != 1), None)
    width = max(b.width(layer, x) for x in xs)
    found = []
    for x in xs:
        if series is not None and x.steps and x.length == 1:
            x = b.node(layer, LastRow(), x, name=f"{layer.name}_vector")
        if series is not None and not x.steps and same_width:
            x = b.node(layer, Repeat(), x, series, name=f"{layer.name}_repeated", length=series.length)
        if same_width and x.width == 1 and width > 1:
            x = b.node(layer, Dense(np.ones((width, 1), np.float32)), x, name=f"{layer.name}_wide")
        found.append(x)
    return found


def _product(b: KerasBuild, layer: KerasLayer, one: KerasValue, other: KerasValue) -> KerasValue:
    """Number by number; a side that comes from a sigmoid or a softmax is a gate."""
    gates = [_is_gate(b, x) for x in (one, other)]
    if gates == [True, False]:
        return b.node(layer, Multiply("first"), one, other)
    if gates == [False, True]:
        return b.node(layer, Multiply("second"), one, other)
    return b.node(layer, Multiply(), one, other)


def _is_gate(b: KerasBuild, x: KerasValue) -> bool:
    node = b.nodes.get(x.name)
    while node is not None and (
        isinstance(node.layer, (Repeat, Flatten, Reshape, Slice, Reverse, Transpose, Pad, LastRow))
        or node.name.endswith("_wide")
    ):
        node = b.nodes.get(node.inputs[0])
    return node is not None and (
        isinstance(node.layer, Softmax)
        or (isinstance(node.layer, Activation) and node.layer.activation.removesuffix("_3").endswith("sigmoid"))
    )


def _extreme(b: KerasBuild, layer: KerasLayer, kind: str, one: KerasValue, other: KerasValue) -> KerasValue:
    """max(a, b) = a + relu(b - a), min(a, b) = a - relu(a - b)."""
    first, second = (other, one) if kind == "Maximum" else (one, other)
    difference = b.node(layer, Subtract(), first, second, name=f"{layer.name}_difference")
    above = b.node(layer, Activation("relu"), difference, name=f"{layer.name}_above")
    return b.node(layer, Add() if kind == "Maximum" else Subtract(), one, above)


def dot(b: KerasBuild, call: KerasCall, xs: list[KerasValue]) -> KerasValue:
    """Two vectors to a number; weights and a series to a vector; or, with a softmax between two of it, attention."""
    layer = call.layer
    b.plain(call)
    axes = layer.settings.value.get("axes")
    axes = [axes, axes] if type(axes) is int else axes
    if len(xs) != 2 or not isinstance(axes, list) or len(axes) != 2 or layer.settings.value.get("normalize"):
        layer.refuse("must have two inputs, one or two axes, and normalize=False")
    one, other = xs
    ranks = [2 + (x.steps or x.scores is not None) for x in xs]
    first, second = (axis % rank if type(axis) is int else -1 for axis, rank in zip(axes, ranks, strict=True))
    if one.scores is not None and one.probability == "softmax" and (first, second) == (2, 1):
        query, key = one.scores
        return _attention(b, layer, Attention(), [query, b.series(layer, other), key])
    one, other = (b.taken(layer, x) for x in xs)
    if (first, second) == (1, 1) and not one.steps and not other.steps:
        width = b.width(layer, one)
        product = _product(b, layer, one, other)
        return b.node(layer, Dense(np.ones((1, width), np.float32)), product, name=f"{layer.name}_sum")
    if (first, second) == (1, 1) and one.steps != other.steps:
        weights, series = (other, one) if one.steps else (one, other)
        if series.length != weights.width:
            layer.refuse("must have as many weights as the series has steps")
        weights = b.node(layer, Reshape(1), weights, name=f"{layer.name}_weights", length=series.length)
        wide, series = _alike(b, layer, [weights, b.sees_padding(layer, series)], True)
        product = _product(b, layer, wide, series)
        return b.node(layer, Sum(), product, name=f"{layer.name}_sum")
    if (first, second) == (2, 2) and one.steps and other.steps:
        return KerasValue("", scores=(one, other))
    layer.refuse(f"is not supported with the axes {axes} of these inputs")


# -------------------------------------------------------------------------------------------------------- attention


def _attention(b: KerasBuild, layer: KerasLayer, ours: Layer, xs: list[KerasValue]) -> KerasValue:
    """An attention node: the padding of values is skipped, the steps are those of the query."""
    b.skips_padding(*xs)
    query = xs[0]
    if len(xs) == 3 and xs[2].name == xs[1].name:
        xs = xs[:2]
    return b.node(layer, ours, *xs, length=query.length)._replace(mask=query.mask)


def _given(b: KerasBuild, call: KerasCall, xs: list[KerasValue]) -> tuple[list[KerasValue], bool]:
    """Query, value and perhaps key, and whether a step looks back only."""
    layer = call.layer
    for key, value in call.options.items():
        if key not in ("use_causal_mask", "return_attention_scores") or type(value) is not bool:
            layer.refuse(f"is called with {key}, which is not understood")
    if not 1 < len(xs) <= 3:
        layer.refuse(f"must have a query, a value and perhaps a key, it has {len(xs)} inputs")
    causal = bool(call.options.get("use_causal_mask")) or layer.settings.boolean("causal", False)
    return [b.series(layer, x) for x in xs], causal


def attention(b: KerasBuild, call: KerasCall, xs: list[KerasValue]) -> KerasValue:
    """Attention: scores are products of queries and keys, or with score_mode="concat" sums of tanh."""
    layer, s = call.layer, call.layer.settings
    xs, causal = _given(b, call, xs)
    mode = one_of(layer, s, "score_mode", ("dot", "concat"), "dot")
    scaled = s.boolean("use_scale", False)
    numbers = [float(array) for array in b.own_arrays(layer, [()] * (scaled + (mode == "concat")))]
    if mode == "dot":
        return _attention(b, layer, Attention(numbers[0] if scaled else 1.0, causal), xs)
    width = b.width(layer, xs[0])
    weight = np.full(width, numbers[-1], np.float32)
    query, value, key = xs[0], xs[1], xs[-1]
    if scaled:
        scale = Affine(np.full(width, numbers[0], np.float32))
        query, key = (
            b.node(layer, scale, x, name=f"{layer.name}_{name}") for x, name in ((query, "query"), (key, "key"))
        )
    return _attention(b, layer, AdditiveAttention(weight, causal), [query, value, key])


def additive_attention(b: KerasBuild, call: KerasCall, xs: list[KerasValue]) -> KerasValue:
    """AdditiveAttention: scores are weighted sums of tanh(q + k)."""
    layer = call.layer
    xs, causal = _given(b, call, xs)
    width = b.width(layer, xs[0])
    scale = np.ones(width, np.float32)
    if layer.settings.boolean("use_scale", True):
        (scale,) = b.own_arrays(layer, [(width,)])
    return _attention(b, layer, AdditiveAttention(scale, causal), xs)


def multi_head_attention(b: KerasBuild, call: KerasCall, xs: list[KerasValue]) -> KerasValue:
    """MultiHeadAttention over the steps."""
    layer, s = call.layer, call.layer.settings
    xs, causal = _given(b, call, xs)
    if s.value.get("attention_axes") not in (None, 1, [1]) or s.value.get("use_gate") or s.has("sliding_window"):
        layer.refuse("must attend over the steps, without use_gate and sliding_window")
    heads, d = s.integer("num_heads"), s.integer("key_dim")
    d_v, biased = s.integer("value_dim", d), s.boolean("use_bias", True)
    query, value, key = xs[0], xs[1], xs[-1]
    shapes = [(query.width, heads, d), (key.width, heads, d), (value.width, heads, d_v), (heads, d_v, None)]
    if not biased:
        Wq, Wk, Wv, Wo = b.own_arrays(layer, shapes)
        bq = bk = bv = bo = ABSENT
    else:
        each = [one for shape in shapes for one in (shape, shape[1:] if shape is not shapes[3] else (None,))]
        Wq, bq, Wk, bk, Wv, bv, Wo, bo = b.own_arrays(layer, each)
        bq, bk, bv = bq.ravel(), bk.ravel(), bv.ravel()
    Wq, Wk, Wv = (np.ascontiguousarray(W.reshape(len(W), -1).T) for W in (Wq, Wk, Wv))
    Wo = np.ascontiguousarray(Wo.reshape(heads * d_v, -1).T)
    ours = MultiHeadAttention(Wq, Wk, Wv, Wo, bq, bk, bv, bo, heads, causal)
    return _attention(b, layer, ours, xs)


# ------------------------------------------------------------------------------------------------------- operations


def reduced(b: KerasBuild, call: KerasCall, xs: list[KerasValue]) -> KerasValue:
    """Sum, Mean or Max over the steps, Sum or Mean over the features."""
    layer, x = call.layer, b.taken(call.layer, xs[0])
    axis, keeps = call.setting("axis"), bool(call.setting("keepdims"))
    b.plain(replace(call, options={key: one for key, one in call.options.items() if key not in ("axis", "keepdims")}))
    if call.setting("initial") is not None:
        layer.refuse("must have no initial value")
    axis = axis[0] if isinstance(axis, list) and len(axis) == 1 else axis
    if x.steps and axis in (1, -2):
        out = b.node(layer, {"Sum": Sum, "Mean": Mean, "Max": Max}[layer.kind](), b.sees_padding(layer, x))
        return b.node(layer, Repeat(1), out, name=f"{layer.name}_step", length=1) if keeps else out
    if axis not in (-1, 1 + x.steps) or layer.kind == "Max":
        layer.refuse(f"is supported over the steps, or the features, of a series only, its axis is {axis!r:.40}")
    width = b.width(layer, x)
    one = np.float32(1 if layer.kind == "Sum" else 1 / width)
    out = b.node(layer, Dense(np.full((1, width), one)), x)
    if keeps:
        return out
    return _without_features(b, layer, out) if x.steps else out._replace(is_number=True)


def _without_features(b: KerasBuild, layer: KerasLayer, x: KerasValue) -> KerasValue:
    """A series of one feature as a vector of its steps."""
    if x.length is None:
        layer.refuse("makes a vector of steps, whose number the file must say")
    return b.node(layer, Flatten(x.length), b.sees_padding(layer, x), name=f"{layer.name}_vector")


def expanded(b: KerasBuild, call: KerasCall, xs: list[KerasValue]) -> KerasValue:
    """ExpandDims: a vector as one step, or as steps of one number."""
    layer, x, axis = call.layer, b.taken(call.layer, xs[0]), call.setting("axis", -1)
    if x.is_number and axis in (1, -1):
        return x._replace(is_number=False)
    if x.steps or x.is_number or axis not in (1, -1, 2, -2):
        layer.refuse("is supported for vectors only")
    if axis in (1, -2):
        return b.node(layer, Repeat(1), x, length=1)
    return b.node(layer, Reshape(1), x, length=b.width(layer, x))


def squeezed(b: KerasBuild, call: KerasCall, xs: list[KerasValue]) -> KerasValue:
    """Squeeze: one step as a vector, or a series of one number as a vector."""
    layer, x, axis = call.layer, b.taken(call.layer, xs[0]), call.setting("axis", -1)
    axis = axis[0] if isinstance(axis, list) and len(axis) == 1 else axis
    if x.steps and axis in (1, -2) and x.length == 1:
        return b.node(layer, LastRow(), x)
    if x.steps and axis in (2, -1) and x.width == 1:
        return _without_features(b, layer, x)
    layer.refuse("is supported for one step, or one feature, of a series only")


def sliced(b: KerasBuild, call: KerasCall, xs: list[KerasValue]) -> KerasValue:
    """x[:, -1], x[:, 2:], x[..., 0] and the like."""
    layer, x = call.layer, b.taken(call.layer, xs[0])
    given = call.options.get("slice_spec", list(call.others))
    axes = 2 + x.steps
    parts = _parts(layer, given if isinstance(given, list) else [given], axes)
    if parts[0] != slice(None):
        layer.refuse("must leave the batch as it is, and slice steps and features")
    features = parts[-1]
    if x.steps:
        x = _of_steps(b, layer, b.sees_padding(layer, x), parts[1])
    if features == slice(None):
        return x
    if isinstance(features, int):
        out = b.node(layer, Slice(index=features, axis="features"), x)
        return _without_features(b, layer, out) if x.steps else out._replace(is_number=True)
    if (features.step or 1) < 1:
        layer.refuse("must go forwards over the features")
    return b.node(layer, Slice(features.start, features.stop, features.step or 1, axis="features"), x)


def _parts(layer: KerasLayer, given: list[Any], axes: int) -> list[slice | int]:
    """One slice or index for each axis: an ellipsis means all of the axes that nothing else is said of."""
    ellipses = [k for k, one in enumerate(given) if isinstance(one, dict) and one.get("class_name") == "__ellipsis__"]
    if len(ellipses) > 1 or not given or len(given) - len(ellipses) > axes:
        layer.refuse(f"must have one to {axes} slices or indices and at most one ellipsis, it has {len(given)} of them")
    at = ellipses[0] if ellipses else len(given)
    before, after = given[:at], given[at + 1 :]
    missing = axes - len(before) - len(after)
    return [*(_slice(layer, one) for one in before), *[slice(None)] * missing, *(_slice(layer, one) for one in after)]


def _of_steps(b: KerasBuild, layer: KerasLayer, x: KerasValue, part: slice | int) -> KerasValue:
    if isinstance(part, int):
        return b.node(layer, LastRow() if part == -1 else Slice(index=part), x)
    if part == slice(None):
        return x
    if part == slice(None, None, -1):
        return b.node(layer, Reverse(), x)
    if (part.step or 1) < 1:
        layer.refuse("must go forwards over the steps, or backwards over all")
    length = None if x.length is None else as_length(len(range(x.length)[part]))
    return b.node(layer, Slice(part.start, part.stop, part.step or 1), x, length=length)


def _slice(layer: KerasLayer, given: Any) -> slice | int:
    if type(given) is int and abs(given) < 2**31:
        return given
    if isinstance(given, dict) and given.get("class_name") == "__slice__":
        given = given.get("config")
    if not isinstance(given, dict) or not given.keys() <= {"start", "stop", "step"}:
        layer.refuse(f"must slice by whole numbers, it has {given!r:.80}; new axes, lists and arrays are not supported")
    ends = [given.get(key) for key in ("start", "stop", "step")]
    if not all(end is None or (type(end) is int and abs(end) < 2**31) for end in ends):
        layer.refuse(f"must slice by whole numbers, it has {given!r:.80}")
    return slice(*ends)


MEANINGS: dict[str, Meaning] = {
    **dict.fromkeys(("Concatenate", "Add", "Average", "Subtract", "Multiply", "Maximum", "Minimum"), join),
    "Merge": merge,
    "Dot": dot,
    "Attention": attention,
    "AdditiveAttention": additive_attention,
    "MultiHeadAttention": multi_head_attention,
    **dict.fromkeys(("Sum", "Mean", "Max"), reduced),
    "ExpandDims": expanded,
    "Squeeze": squeezed,
    "GetItem": sliced,
}
