"""What Keras makes of several values: joins, products, attention; and the operations it lists beside its layers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from lrpnumpy import layers as lrp
from lrpnumpy.files.build.arithmetic import is_same
from lrpnumpy.files.build.constants import LAST, as_list
from lrpnumpy.files.build.network import VECTOR, NetworkValue
from lrpnumpy.files.keras.build import PRODUCTS, WEIGHTS, KerasBuild, Meaning, by_custom
from lrpnumpy.files.keras.config import KerasCall, KerasLayer, without_list
from lrpnumpy.layers.base import ABSENT

# ------------------------------------------------------------------------------------------------------------ joins


def join(b: KerasBuild, call: KerasCall, xs: list[NetworkValue]) -> NetworkValue:
    """Concatenate, Add, Average, Subtract, Multiply, Maximum, Minimum."""
    layer, kind = call.layer, call.layer.kind
    xs = [b.value(layer, x) for x in xs]
    if kind == "Concatenate":
        layer.last_axis(len(xs[0].axes), call.setting("axis", call.setting("concat_axis", -1)))
    elif (value := _constant(call)) is not None and len(xs) == 1 and kind in ("Add", "Multiply"):
        return b.emit(kind[:3], xs[0], np.array(value))
    else:
        b.plain(call)
    b.refuse_if(kind == "Subtract" and len(xs) != 2, f"must have two inputs, it has {len(xs)}")
    if len(xs) == 1:
        return xs[0]
    is_seen = kind == "Concatenate" and (b.version or "").startswith("3")
    if is_seen and any(x.has_steps and x.mask is None for x in xs):  # a step is padding where all say so
        xs = [b.sees_padding(layer, x) for x in xs]
    xs = _alike(b, layer, xs, kind != "Concatenate")
    if len({x.length for x in xs if x.has_steps and x.length is not None}) > 1:
        b.refuse("joins series of different numbers of steps, which is not supported")
    if kind in _MANY:
        return b.vectors(_MANY[kind](), *xs)
    out = xs[0]
    for x in xs[1:]:
        out = _product(b, out, x) if kind == "Multiply" else extreme(b, layer, kind, out, x)
    return out


_MANY: dict[str, Any] = {
    "Concatenate": lrp.Concat, "Add": lrp.Add, "Average": lrp.Average, "Subtract": lrp.Subtract,
}  # fmt: skip


def _constant(call: KerasCall) -> float | None:
    """The one number that a call has beside its value."""
    given = [*(argument for argument in call.others if argument is not None), *call.options.values()]
    is_number = len(given) == 1 and type(given[0]) in (int, float) and abs(given[0]) < 1e30
    return float(given[0]) if is_number else None


def _alike(b: KerasBuild, layer: KerasLayer, xs: list[NetworkValue], same_width: bool) -> list[NetworkValue]:
    """The values; one step, no steps and one feature are repeated if other values have more."""
    series = next((x for x in xs if x.has_steps and x.length != 1), None)
    width = max(x.width for x in xs)
    made = []
    for x in xs:
        if series is not None and x.has_steps and x.length == 1:
            x = b.vectors(lrp.LastRow(), x, name=f"{layer.name}_vector")
        if series is not None and not x.has_steps and same_width:
            x = b.vectors(lrp.Repeat(), x, series, name=f"{layer.name}_repeated", steps=series.steps)
        if same_width and x.width == 1 and width > 1:
            x = b.vectors(lrp.Dense(np.ones((width, 1), np.float32)), x, name=f"{layer.name}_wide")
        made.append(x)
    return made


def _product(b: KerasBuild, first: NetworkValue, second: NetworkValue) -> NetworkValue:
    """Elementwise; a side that comes from a sigmoid or a softmax is a gate, unless both do."""
    gates: dict[tuple[bool, bool], Literal["first", "second"]] = {(True, False): "first", (False, True): "second"}
    gate = gates.get((_is_gate(b, first), _is_gate(b, second)))
    return b.vectors(lrp.Multiply(gate), first, second)


_MOVES = (lrp.Repeat, lrp.Flatten, lrp.Reshape, lrp.Slice, lrp.Reverse, lrp.Transpose, lrp.Pad, lrp.LastRow)


def _is_gate(b: KerasBuild, x: NetworkValue) -> bool:
    node = b.nodes.get(x.values[0])
    while node is not None and (isinstance(node.layer, _MOVES) or node.name.endswith("_wide")):
        node = b.nodes.get(node.inputs[0])
    if node is None:
        return False
    is_sigmoid = isinstance(node.layer, lrp.Activation) and "sigmoid" in node.layer.activation
    return is_sigmoid or isinstance(node.layer, lrp.Softmax)


def extreme(b: KerasBuild, layer: KerasLayer, kind: str, one: NetworkValue, other: NetworkValue) -> NetworkValue:
    """max(a, b) = a + relu(b - a), min(a, b) = a - relu(a - b)."""
    pair, outer = (one, other), _MANY["Subtract"]
    if kind == "Maximum":
        pair, outer = (other, one), _MANY["Add"]
    difference = b.vectors(lrp.Subtract(), *pair, name=f"{layer.name}_difference")
    above = b.vectors(lrp.Activation("relu"), difference, name=f"{layer.name}_above")
    return b.vectors(outer(), one, above)


def dot(b: KerasBuild, call: KerasCall, xs: list[NetworkValue]) -> NetworkValue:
    """Two vectors to a number; weights and a series to a vector; or, with a softmax between two of it, attention."""
    layer, axes = call.layer, call.layer.settings.value.get("axes")
    b.plain(call)
    if type(axes) is int:
        axes = [axes, axes]
    if len(xs) != 2 or not isinstance(axes, list) or len(axes) != 2 or not all(type(axis) is int for axis in axes):
        b.refuse("must have two inputs, and one or two axes")
    over = tuple(axis % len(x.axes) for axis, x in zip(axes, xs, strict=True))
    what = f"with the axes {axes} of these inputs"
    if layer.settings.value.get("normalize"):
        over, what = (), "with normalize=True, a cosine similarity"
    for weights, series in (xs, xs[::-1]):
        of_one_query = over == (1, 1) and not weights.has_steps
        if weights.part_of[:1] == WEIGHTS and (of_one_query or (over == (2, 1) and weights is xs[0])):
            query, key = weights.part_of[1:]
            return _attention(b, layer, lrp.Attention(), [query, b.with_steps(layer, series), key])
    one, other = (b.value(layer, x) for x in xs)
    vector, series = sorted((one, other), key=lambda x: x.has_steps)
    if over == (1, 1) and not series.has_steps:
        product = _product(b, one, other)
        return b.vectors(lrp.Dense(np.ones((1, one.width), np.float32)), product, name=f"{layer.name}_sum")
    if over == (1, 1) and not vector.has_steps and series.length == vector.width:  # a weight for each step
        weights = b.vectors(lrp.Reshape(1), vector, name=f"{layer.name}_weights", steps=series.steps)
        wide, series = _alike(b, layer, [weights, b.sees_padding(layer, series)], True)
        return b.vectors(lrp.Sum(), _product(b, wide, series), name=f"{layer.name}_sum")
    if over == (2, 2) and vector.has_steps:
        return replace(one, values=(), part_of=(*PRODUCTS, one, other))
    if {*over} == {1, 2} and not vector.has_steps:  # one query: a score for each step
        return NetworkValue((), VECTOR, np.zeros(1, int), part_of=(*PRODUCTS, vector, series))
    b.refuse(f"is not supported {what}; {by_custom(layer.name)}")


# -------------------------------------------------------------------------------------------------------- attention


def _attention(b: KerasBuild, layer: KerasLayer, node: lrp.Layer, xs: list[NetworkValue]) -> NetworkValue:
    """An attention node: the padding of values is skipped, the steps are those of the query."""
    b.skips_padding(*xs)
    query = xs[0]
    if len(xs) == 3 and is_same(xs[2], xs[1]):
        xs = xs[:2]
    return replace(b.vectors(node, *xs, steps=query.steps), mask=query.mask)


def _given(b: KerasBuild, call: KerasCall, xs: list[NetworkValue]) -> tuple[list[NetworkValue], bool]:
    """Query, value and perhaps key, and whether a step looks back only."""
    layer = call.layer
    for key, value in call.options.items():
        if key not in ("use_causal_mask", "return_attention_scores") or type(value) is not bool:
            b.refuse(f"is called with {key}, which is not understood")
    b.refuse_if(not 1 < len(xs) <= 3, f"must have a query, a value and perhaps a key, it has {len(xs)} inputs")
    causal = bool(call.options.get("use_causal_mask")) or layer.settings.boolean("causal", False)
    return [b.with_steps(layer, x) for x in xs], causal


def attention(b: KerasBuild, call: KerasCall, xs: list[NetworkValue]) -> NetworkValue:
    """Attention: scores are products of queries and keys, or with score_mode="concat" sums of tanh."""
    layer = call.layer
    xs, causal = _given(b, call, xs)
    mode = layer.one_of("score_mode", ("dot", "concat"), "dot")
    scaled = layer.settings.boolean("use_scale", False)
    numbers = [float(array) for array in b.own_arrays(layer, [()] * (scaled + (mode == "concat")))]
    if mode == "dot":
        return _attention(b, layer, lrp.Attention(next(iter(numbers), 1.0), causal), xs)
    query, value, key = xs[0], xs[1], xs[-1]
    weight, *scale = (np.full(query.width, number, np.float32) for number in reversed(numbers))
    if scale:
        node = lrp.Affine(scale[0])
        query, key = (b.vectors(node, x, name=f"{layer.name}_{name}") for x, name in ((query, "query"), (key, "key")))
    return _attention(b, layer, lrp.AdditiveAttention(weight, causal), [query, value, key])


def additive_attention(b: KerasBuild, call: KerasCall, xs: list[NetworkValue]) -> NetworkValue:
    """AdditiveAttention: scores are weighted sums of tanh(q + k)."""
    layer = call.layer
    xs, causal = _given(b, call, xs)
    width = xs[0].width
    scale = np.ones(width, np.float32)
    if layer.settings.boolean("use_scale", True):
        (scale,) = b.own_arrays(layer, [(width,)])
    return _attention(b, layer, lrp.AdditiveAttention(scale, causal), xs)


def weighted_average(b: KerasBuild, call: KerasCall, xs: list[NetworkValue]) -> NetworkValue:
    """AttentionWeightedAverage of textgenrnn and DeepMoji: the mean of the steps, weighted by the softmax of x W."""
    layer = call.layer
    b.plain(call)
    x = b.with_steps(layer, xs[0])
    b.refuse_if(layer.settings.boolean("return_attention", False), "must have return_attention=False")
    (W,) = b.own_arrays(layer, [(x.width, 1)])
    b.skips_padding(x)
    return b.vectors(lrp.AttentionPool(W[:, 0]), x)


def multi_head_attention(b: KerasBuild, call: KerasCall, xs: list[NetworkValue]) -> NetworkValue:
    """MultiHeadAttention over the steps."""
    layer, s = call.layer, call.layer.settings
    xs, causal = _given(b, call, xs)
    if s.value.get("attention_axes") not in (None, 1, [1]) or s.value.get("use_gate") or s.has("sliding_window"):
        b.refuse("must attend over the steps, without use_gate and sliding_window")
    heads, d = s.integer("num_heads"), s.integer("key_dim")
    d_v = s.integer("value_dim", d)
    query, value, key = xs[0], xs[1], xs[-1]
    shapes = [(query.width, heads, d), (key.width, heads, d), (value.width, heads, d_v), (heads, d_v, None)]
    biases = [*(shape[1:] for shape in shapes[:3]), (None,)]
    if s.boolean("use_bias", True):
        arrays = b.own_arrays(layer, [shape for pair in zip(shapes, biases, strict=True) for shape in pair])
        weights, offsets = arrays[::2], [offset.ravel() for offset in arrays[1::2]]
    else:
        weights, offsets = b.own_arrays(layer, shapes), [ABSENT] * 4
    rows = (query.width, key.width, value.width, heads * d_v)
    matrices: list[Any] = [np.ascontiguousarray(W.reshape(n, -1).T) for W, n in zip(weights, rows, strict=True)]
    return _attention(b, layer, lrp.MultiHeadAttention(*[*matrices, *offsets, heads, causal]), xs)


# ------------------------------------------------------------------------------------------------------- operations


_OPERATIONS = {
    "Sum": "ReduceSum", "Mean": "ReduceMean", "Max": "ReduceMax", "ExpandDims": "Unsqueeze", "Squeeze": "Squeeze",
}  # fmt: skip


def operation(b: KerasBuild, call: KerasCall, xs: list[NetworkValue]) -> NetworkValue:
    """Sum, Mean or Max over an axis; an axis of length 1 added or taken away."""
    kind, axis = call.layer.kind, without_list(call.setting("axis"))
    x = b.sees_padding(call.layer, b.value(call.layer, xs[0]))
    b.plain(call.without("axis", "keepdims"))
    b.refuse_if(call.setting("initial") is not None, "must have no initial value")
    if type(axis) is not int or axis % (len(x.axes) + (kind == "ExpandDims")) < 1:
        b.refuse(f"must be over one axis, that of the steps or of the features, it has {axis!r:.40}")
    return b.emit(_OPERATIONS[kind], x, axes=[axis], keepdims=bool(call.setting("keepdims")))


def sliced(b: KerasBuild, call: KerasCall, xs: list[NetworkValue]) -> NetworkValue:
    """x[:, -1], x[:, 2:], x[..., 0] and the like."""
    x = b.sees_padding(call.layer, b.value(call.layer, xs[0]))
    parts = _parts(b, as_list(call.options.get("slice_spec", list(call.others))), len(x.axes))
    b.refuse_if(parts[0] != slice(None), "must leave the batch as it is, and slice steps and features")
    for axis, part in reversed([*enumerate(parts)]):  # an index takes its axis away
        if isinstance(part, int):
            x = b.operation("Gather", x, np.array(part), axis=axis)
        else:
            step = part.step or 1
            far = LAST if step > 0 else -LAST
            start = -far if part.start is None else part.start
            stop = far if part.stop is None else part.stop
            x = b.operation("Slice", x, starts=[start], ends=[stop], axes=[axis], steps=[step])
    return b.settled(x)


def _parts(b: KerasBuild, given: list[Any], axes: int) -> list[slice | int]:
    """One slice or index for each axis: an ellipsis means all of the axes that nothing else is said of."""
    ellipses = [k for k, one in enumerate(given) if isinstance(one, dict) and one.get("class_name") == "__ellipsis__"]
    if len(ellipses) > 1 or not given or len(given) - len(ellipses) > axes:
        b.refuse(f"must have one to {axes} slices or indices and at most one ellipsis, it has {len(given)} of them")
    at = next(iter(ellipses), len(given))
    before, after = ([_slice(b, one) for one in some] for some in (given[:at], given[at + 1 :]))
    return [*before, *[slice(None)] * (axes - len(before) - len(after)), *after]


def _slice(b: KerasBuild, given: Any) -> slice | int:
    """An index, or a slice as Keras 2 or 3 writes it."""
    if isinstance(given, dict) and given.get("class_name") == "__slice__":
        given = given.get("config")
    ends = [given]
    if isinstance(given, dict) and given.keys() <= {"start", "stop", "step"}:
        ends = [given.get(key) for key in ("start", "stop", "step")]
    if given is None or not all(end is None or (type(end) is int and abs(end) < LAST) for end in ends):
        b.refuse(f"must slice by whole numbers, it has {given!r:.80}; new axes, lists and arrays are not supported")
    return slice(*ends) if isinstance(given, dict) else int(given)


MEANINGS: dict[str, Meaning] = {
    **dict.fromkeys(("Concatenate", "Add", "Average", "Subtract", "Multiply", "Maximum", "Minimum"), join),
    "Dot": dot,
    "Attention": attention,
    "AdditiveAttention": additive_attention,
    "MultiHeadAttention": multi_head_attention,
    "AttentionWeightedAverage": weighted_average,
    **dict.fromkeys(_OPERATIONS, operation),
    "GetItem": sliced,
}
