"""What each function of torch is in the list of operations: the table FUNCTIONS.

Sizes are those of the run: whichever of them depend on the batch or the number of steps is found by comparing runs.
A function that is not in the table becomes the operation "Unsupported", an error only where the scores depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from lrpnumpy.files.torch.known import gru, lstm, rnn
from lrpnumpy.files.torch.recorded import Arg, Recorded
from lrpnumpy.layers import Bidirectional, Cell, MultiHeadAttention

Shape = tuple[int, ...]
Function = Callable[..., Any]


class Unclear(Exception):
    """An argument that is not supported."""


def translate(run: Recorded, name: str, args: Any, kwargs: Any, shapes: Sequence[Shape]) -> list[str]:
    """The names of the results of one call."""
    run.where, run.results = name, shapes
    reason, done = "is not supported", len(run.ops)
    if name in FUNCTIONS:
        try:
            found = _several(FUNCTIONS[name](run, *args, **kwargs))
            return found + [found[0]] * (len(shapes) - len(found))
        except Unclear as error:
            reason = str(error)
        except (TypeError, ValueError, IndexError, AttributeError):
            reason = "is not supported with these arguments"
        del run.ops[done:]
    return run.emits("Unsupported", _refs((args, tuple(kwargs.values()))), shapes, reason=reason)


def _refs(value: Any) -> list[Arg]:
    if isinstance(value, Arg):
        return [value]
    if isinstance(value, (tuple, list)):
        return [ref for one in value for ref in _refs(one)]
    return []


def _several(value: Any) -> list[Any]:
    """What a tuple or list holds, or the only thing, as a list."""
    if isinstance(value, (tuple, list)) and not isinstance(value, Arg):
        return list(value)
    return [value]


def _number(value: Any) -> float:
    """A Python number, or a constant with one."""
    if isinstance(value, Arg):
        if value.array is None or value.array.size != 1:
            raise Unclear("is supported with a number only")
        return float(value.array.reshape(-1)[0])
    return float(value)


# ------------------------------------------------------------------------------------------------ each number by itself


def _same(t: Recorded, x: Arg, *_: Any, **__: Any) -> str:
    return x.name


def _each(op: str, names: Sequence[str] = (), **fixed: Any) -> Function:
    """An operation on every number; further arguments are attributes with these names, others are `fixed`."""

    def run(t: Recorded, x: Arg, *more: Any, inplace: bool = False, **named: Any) -> str:
        given = {**dict(zip(names, more, strict=False)), **named}
        numbers = {key: float(given[key]) for key in names if key in given}
        return t.emit(op, x, **{**fixed, **numbers})

    return run


def _softplus(t: Recorded, x: Arg, beta: float = 1, threshold: float = 20) -> str:
    if threshold < 15 or beta != 1:
        raise Unclear(f"is not supported with beta={beta} and threshold={threshold}")
    return t.emit("Softplus", x)


def _absolute(t: Recorded, x: Arg) -> str:
    """relu(x) + relu(-x)."""
    return t.emit("Add", t.emit("Relu", x), t.emit("Relu", t.emit("Neg", x)))


def _clip(t: Recorded, x: Arg, min: Any = None, max: Any = None, inplace: bool = False, **_: Any) -> str:
    limits: dict[str, Any] = {key: _number(one) for key, one in (("min", min), ("max", max)) if one is not None}
    return t.emit("Clip", x, **limits)


def _prelu(t: Recorded, x: Arg, weight: Arg) -> str:
    slopes = _array(weight, "slopes")
    return t.result("PRelu", x, t.constant(slopes.reshape(-1, *[1] * (x.rank - 2)) if slopes.size > 1 else slopes))


def _binary(op: str, swapped: bool = False) -> Function:
    def run(t: Recorded, a: Any, b: Any = None, *, other: Any = None, alpha: float = 1, **_: Any) -> str:
        b = other if b is None else b
        a, b = (one if isinstance(one, Arg) else t.constant(np.float32(one)) for one in (a, b))
        if alpha != 1:
            b = t.emit("Mul", b, t.constant(np.float32(alpha)))
        return t.emit(op, b, a) if swapped else t.emit(op, a, b)

    return run


def _power(t: Recorded, x: Any, exponent: Any = 2) -> str:
    return t.emit("Pow", x, t.constant(np.float32(_number(exponent))))


def _where(t: Recorded, condition: Arg, a: Any, b: Any) -> str:
    """Where the condition is the same everywhere."""
    if condition.array is None or condition.array.size == 0 or (condition.array != condition.array.flat[0]).any():
        raise Unclear("depends on the numbers of the input, which is not supported")
    chosen = a if condition.array.flat[0] else b
    name = chosen.name if isinstance(chosen, Arg) else t.constant(np.float32(chosen))
    if t.shapes[name] == t.results[0]:
        return name
    return t.emit("Expand", name, shape=list(t.results[0]))


# --------------------------------------------------------------------------------------------------- sums and products


def _array(value: Arg | None, what: str) -> np.ndarray:
    """A constant."""
    if value is None or value.array is None:
        raise Unclear(f"has {what} that depend on the input")
    return value.array


def _linear(t: Recorded, x: Arg, weight: Arg, bias: Arg | None = None) -> str:
    _array(weight, "weights")
    return t.result("Linear", x, weight, *([bias] if bias is not None else []))


def _matmul(t: Recorded, a: Arg, b: Any = None, other: Any = None, mat2: Any = None) -> str:
    b = next(one for one in (b, other, mat2) if one is not None)
    if b.array is not None and b.rank == 2:
        return t.result("Linear", a, t.constant(b.array.T))
    return t.emit("MatMul", a, b)


def _einsum(t: Recorded, equation: str, *operands: Any) -> str:
    """Sums of products of two tensors that are a matrix product."""
    a, b = _several(operands[0]) if len(operands) == 1 else operands
    left, right = equation.replace(" ", "").split("->")
    of_a, of_b = left.split(",")
    summed = [k for k in of_a if k in of_b and k not in right]
    batch = [k for k in right if k in of_a and k in of_b]
    rows, columns = ([k for k in right if k in one and k not in batch] for one in (of_a, of_b))
    first, second = [*batch, *rows, *summed], [*batch, *summed, *columns]
    is_product = len(summed) == 1 and len(columns) < 2 and (len(rows) < 2 or not batch)
    if {*first} != {*of_a} or {*second} != {*of_b} or not is_product:
        raise Unclear("is supported as a matrix product only")
    x, y = (_permuted(t, one, [of.index(k) for k in order]) for one, of, order in ((a, of_a, first), (b, of_b, second)))
    at, gone = len(batch), []
    if not rows:
        x, gone = t.emit("Unsqueeze", x, axes=[at]), [at]
    if not columns:
        y, gone = t.emit("Unsqueeze", y, axes=[at + 1]), [*gone, at + max(1, len(rows))]
    made, order = t.emit("MatMul", x, y), [*batch, *rows, *columns]
    if gone:
        made = t.emit("Squeeze", made, axes=gone)
    perm = [order.index(k) for k in right]
    return made if perm == sorted(perm) else t.emit("Transpose", made, perm=perm)


def _attention(
    t: Recorded, q: Arg, k: Arg, v: Arg, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> str:  # fmt: skip
    if attn_mask is not None or is_causal or enable_gqa:
        raise Unclear("is not supported with a mask")
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    keys = t.moved(k, k.rank - 1, k.rank - 2)
    scores = t.emit("Mul", t.emit("MatMul", q, keys), t.constant(np.float32(factor)))
    return t.emit("MatMul", t.emit("Softmax", scores, axis=q.rank - 1), v)


def _multi_head(
    t: Recorded, *given: Any, key_padding_mask: Arg | None = None, attn_mask: Arg | None = None, **_: Any
) -> Sequence[str]:
    """nn.MultiheadAttention; its weights are the second result, which nothing may take."""
    query, key, value, _size, heads, W, b, bias_k, _bias_v, add_zero, _dropout, Wo, bo, *_more = given
    if W is None or bias_k is not None or add_zero:
        raise Unclear("is supported without kdim, vdim, add_bias_kv and add_zero_attn only")
    if key_padding_mask is not None and _array(key_padding_mask, "a mask").any():
        raise Unclear("is not supported with a mask of the padding")
    Wq, Wk, Wv = np.split(W.array, 3)
    biases: Any = [None] * 3 if b is None else np.split(b.array, 3)
    bq, bk, bv = biases
    last: Any = None if bo is None else bo.array
    causal = _is_causal(attn_mask)
    layer = MultiHeadAttention(Wq, Wk, Wv, np.asarray(Wo.array), bq, bk, bv, last, heads, causal)
    inputs = [query, value] if key.name == value.name else [query, value, key]
    return [t.result("Attention", *inputs, layer=layer), *_unused(t, query, "gives its weights, which nothing may use")]


def _is_causal(mask: Arg | None) -> bool:
    """Whether a mask hides the later steps."""
    if mask is None:
        return False
    hidden = _array(mask, "a mask") != 0
    if hidden.any() and not np.array_equal(hidden, np.triu(np.ones(hidden.shape), 1)):
        raise Unclear("is supported with a causal mask only")
    return bool(hidden.any())


def _unused(t: Recorded, x: Arg, reason: str) -> list[str]:
    """The second result of a function, which is not supported."""
    return [t.emit("Unsupported", x, reason=reason, shape=shape) for shape in t.results[1:]]


# --------------------------------------------------------------------------------------------------------------- axes


def _axes(x: Arg, dim: Any) -> list[int]:
    if dim is None:
        return list(range(x.rank))
    return [x.axis(int(k)) for k in _several(dim)]


def _listed(given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Axes as one argument, as several, or by name."""
    found = given or (named["dims"],)
    return found[0] if isinstance(found[0], (tuple, list)) else found


def _reshape(t: Recorded, x: Arg, *_: Any, **__: Any) -> str:
    if x.shape == t.results[0]:
        return x.name
    return t.emit("Reshape", x, shape=list(t.results[0]))


def _squeeze(t: Recorded, x: Arg, dim: Any = None) -> str:
    axes = [k for k in _axes(x, dim) if x.shape[k] == 1]
    return t.emit("Squeeze", x, axes=axes) if axes else x.name


def _permuted(t: Recorded, x: Arg, order: Sequence[int]) -> str:
    if list(order) == sorted(order):
        return x.name
    return t.emit("Transpose", x, perm=list(order))


def _transpose(t: Recorded, x: Arg, dim0: int = 0, dim1: int = 1, **_: Any) -> str:
    order = list(range(x.rank))
    if x.rank > 1:
        a, b = x.axis(dim0), x.axis(dim1)
        order[a], order[b] = b, a
    return _permuted(t, x, order)


def _permute(t: Recorded, x: Arg, *dims: Any, **named: Any) -> str:
    return _permuted(t, x, [x.axis(k) for k in _listed(dims, named)])


def _expand(t: Recorded, x: Arg, *_: Any, **__: Any) -> str:
    """expand, repeat and tile: a repetition of axes of length 1, or of nothing."""
    shape = t.results[0]
    before = (1,) * (len(shape) - x.rank) + x.shape
    if any(n not in (1, m) for n, m in zip(before, shape, strict=True)):
        raise Unclear("repeats an axis that is longer than 1")
    return x.name if x.shape == shape else t.emit("Expand", x, shape=list(shape))


def _concat(t: Recorded, parts: Any, dim: Any = 0, **named: Any) -> str:
    axis = int(named.get("axis", dim))
    return t.emit("Concat", *[part for part in parts if part.shape != (0,)], axis=axis % len(t.results[0]))


def _flip(t: Recorded, x: Arg, *dims: Any, **named: Any) -> str:
    axes = _axes(x, _listed(dims, named))
    n = len(axes)
    return t.emit("Slice", x, axes=axes, starts=[-1] * n, ends=[-(2**31)] * n, steps=[-1] * n)


def _narrow(t: Recorded, x: Arg, dim: int, start: Any, length: int) -> str:
    begin = int(_number(start))
    return t.some(x.name, x.axis(dim), begin, begin + length)


def _index_select(t: Recorded, x: Arg, dim: int, index: Arg) -> str:
    is_all = np.array_equal(_positions(index), np.arange(x.shape[dim]))
    if is_all:
        return x.name
    return t.emit("Gather", x, axis=x.axis(dim), index=_positions(index))


def _gather(t: Recorded, x: Arg, dim: int, index: Arg, **_: Any) -> str:
    """The same position for every number."""
    axis = x.axis(dim)
    if index.array is None or index.shape[axis] != 1 or (index.array != index.array.flat[0]).any():
        raise Unclear("takes different positions, which is not supported")
    return t.emit("Gather", x, axis=axis, index=np.array([index.array.flat[0]]))


def _items(x: Arg, index: Any) -> list[Any]:
    """What is between the brackets of x[...], without Ellipsis."""
    items = list(index) if isinstance(index, tuple) else [index]
    at = next((k for k, one in enumerate(items) if one is Ellipsis), None)
    if at is not None:
        used = sum(one is not None and one is not Ellipsis for one in items)
        items[at : at + 1] = [slice(None)] * (x.rank - used)
    return items


def _get(t: Recorded, x: Arg, index: Any) -> str:
    """x[...]: positions, slices, None and Ellipsis, and x[arange(N), position]."""
    items, name, axis = _items(x, index), x.name, 0
    arrays = [one for one in items if isinstance(one, (Arg, list)) and np.ndim(_positions(one))]
    for item in items:
        if item is None:
            name = t.emit("Unsqueeze", name, axes=[axis])
        elif isinstance(item, slice):
            limits = [None if one is None else int(_number(one)) for one in (item.start, item.stop, item.step)]
            name = t.some(name, axis, limits[0], limits[1], limits[2] or 1)
        elif not any(item is one for one in arrays):
            name, axis = t.emit("Gather", name, axis=axis, index=int(_number(item))), axis - 1
        elif _positions(item).dtype == bool:
            raise Unclear("takes positions by a condition, which is not supported")
        elif len(arrays) == 1:
            name = t.emit("Gather", name, axis=axis, index=_positions(item))
        elif not np.array_equal(_positions(item), np.arange(t.shapes[name][axis])):  # one step of each sequence
            if len(arrays) > 2 or (_positions(item) != _positions(item)[0]).any():
                raise Unclear("takes another step of each sequence, which is not supported")
            name, axis = t.emit("Gather", name, axis=axis, index=int(_positions(item)[0])), axis - 1
        axis += 1
    return name


def _positions(item: Any) -> np.ndarray:
    if isinstance(item, Arg) and item.array is None:
        raise Unclear("takes positions that depend on the input, which is not supported")
    return np.asarray(item.array if isinstance(item, Arg) else item)


def _set(t: Recorded, x: Arg, index: Any, value: Any) -> str:
    """x[:, position] = value."""
    items = _items(x, index)
    places = [k for k, one in enumerate(items) if not (isinstance(one, slice) and one == slice(None))]
    if len(places) != 1 or not isinstance(value, Arg) or isinstance(items[places[0]], slice):
        raise Unclear("writes to a part of a tensor in a way that is not supported")
    return t.emit("SetItem", x, value, axis=places[0], index=int(_number(items[places[0]])), shape=x.shape)


# --------------------------------------------------------------------------------------------------------- reductions


def _reduce(op: str) -> Function:
    def run(t: Recorded, x: Arg, dim: Any = None, keepdim: bool = False, **named: Any) -> str:
        axes = _axes(x, named.get("axis", dim))
        return t.result(op, x, axes=axes, keepdims=int(named.get("keepdims", keepdim)))

    return run


def _maximum(t: Recorded, x: Arg, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
    if isinstance(dim, Arg) or "other" in named:
        return t.emit("Max", x, named.get("other", dim))
    made = _reduce("ReduceMax")(t, x, dim, keepdim)
    return [made, *_unused(t, x, "gives positions, which nothing may use")]


def _softmax(op: str) -> Function:
    def run(t: Recorded, x: Arg, dim: Any = None, *_: Any, **__: Any) -> str:
        if dim is None:
            dim = 0 if x.rank in (0, 1, 3) else 1
        return t.emit(op, x, axis=x.axis(dim))

    return run


# --------------------------------------------------------------------------------------------------------------- layers


def _embedding(t: Recorded, ids: Arg, weight: Arg, *_: Any, max_norm: Any = None, **__: Any) -> str:
    _array(weight, "vectors")
    if max_norm is not None:
        raise Unclear("is not supported with max_norm")
    return _embedded(t, ids.name, weight)


def _embedded(t: Recorded, ids: str, weight: Arg) -> str:
    """The vectors of an input, of which then the same is taken as was of the token ids."""
    made_by = next((op for op in t.ops if ids in op.outputs), None)
    if made_by is not None and made_by.op in ("Add", "Sub"):
        raise Unclear("looks up token ids that are computed")
    if made_by is None or made_by.op not in ("Gather", "Slice", "Squeeze", "Unsqueeze", "Transpose", "Reshape"):
        return t.emit("Embedding", weight, ids, shape=(*t.shapes[ids], weight.shape[1]))
    attributes = dict(made_by.attributes)
    if "perm" in attributes:
        attributes["perm"] = [*attributes["perm"], len(attributes["perm"])]
    if "shape" in attributes:
        attributes["shape"] = [*attributes["shape"], weight.shape[1]]
    return t.emit(made_by.op, _embedded(t, made_by.inputs[0], weight), **attributes)


def _one_hot(t: Recorded, ids: Arg, num_classes: int = -1) -> str:
    """A lookup in the identity matrix."""
    if num_classes < 1:
        raise Unclear("is supported with num_classes only")
    table = np.eye(num_classes, dtype=np.float32)
    return _embedded(t, ids.name, Arg(t.constant(table), table.shape, table))


def _numbers(value: Any) -> list[int]:
    return [int(one) for one in _several(value)]


def _conv1d(
    t: Recorded, x: Arg, weight: Arg, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> str:  # fmt: skip
    step, wide = _numbers(stride), _numbers(dilation)
    if isinstance(padding, str):
        total = 0 if padding == "valid" else (weight.shape[2] - 1) * wide[0]
        pads = [total // 2, total - total // 2]
    else:
        pads = _numbers(padding) * 2
    inputs = [x, weight] if bias is None else [x, weight, bias]
    return t.result("Conv", *inputs, strides=step, dilations=wide, pads=pads, group=groups)


def _max_pool(
    t: Recorded, x: Arg, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    return _pooled(t, "MaxPool", x, kernel_size, stride, padding, ceil_mode, dilations=_numbers(dilation))


def _avg_pool(
    t: Recorded, x: Arg, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:  # fmt: skip
    return _pooled(t, "AveragePool", x, kernel_size, stride, padding, ceil_mode, count_include_pad=count_include_pad)


def _pooled(t: Recorded, op: str, x: Arg, size: Any, stride: Any, padding: Any, ceil: bool, **more: Any) -> str:
    kernel, pads = _numbers(size), _numbers(padding) * 2
    step = kernel if stride is None or stride == () else _numbers(stride)
    return t.result(op, x, kernel_shape=kernel, strides=step, pads=pads, ceil_mode=int(ceil), **more)


def _adaptive(op: str) -> Function:
    def run(t: Recorded, x: Arg, output_size: Any, *_: Any, **__: Any) -> str:
        if _numbers(output_size) != [1]:
            raise Unclear("is supported with an output of 1 step only")
        return t.result(op, x, axes=[x.rank - 1], keepdims=1)

    return run


def _batch_norm(
    t: Recorded, x: Arg, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
    training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> str:  # fmt: skip
    if training or running_mean is None:
        raise Unclear("computes with the batch it is given, which is not supported")
    gamma, beta = _scale_and_shift(t, running_mean.shape, weight, bias)
    return t.result("BatchNormalization", x, gamma, beta, running_mean, running_var, epsilon=float(eps))


def _layer_norm(
    t: Recorded, x: Arg, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, **_: Any
) -> str:
    shape = tuple(_numbers(normalized_shape))
    gamma, beta = _scale_and_shift(t, shape, weight, bias)
    return t.result("LayerNormalization", x, gamma, beta, axis=-len(shape), epsilon=float(eps))


def _scale_and_shift(t: Recorded, shape: Shape, weight: Any, bias: Any) -> list[Any]:
    """The arrays of a norm, which may have none."""
    return [one or t.constant(np.full(shape, c, np.float32)) for one, c in ((weight, 1), (bias, 0))]


# ----------------------------------------------------------------------------------------------------- recurrent layers


def _cell_of(t: Recorded, make: Any, weights: Sequence[Any]) -> Cell:
    """The cell with these weights, biases and perhaps projection, once for each run."""
    given = [one for one in weights if one is not None]
    key = (str(make), *(one.name for one in given))
    if key not in t.cells:
        U, W, *more = (_array(one, "weights") for one in given)
        projection = {"projection": more.pop()} if len(more) % 2 else {}
        t.cells[key] = make(U, W, more, **projection)
    return t.cells[key]


def _widths(cell: Cell) -> list[int]:
    """Of the output, which is the first state, and of the other states."""
    return [cell.output_width(name, cell.outputs) for name in cell.OUTPUTS[-len(cell.states) :]]


def _recurrent(make: Any) -> Function:
    """lstm, gru, rnn_tanh and rnn_relu, of a series or of packed ones."""

    def run(t: Recorded, x: Arg, *args: Any) -> list[str]:
        is_packed = isinstance(args[2], (tuple, list))
        hx, params, _, depth, _, _, two_way = args[is_packed : is_packed + 7]
        is_single, value, states = x.rank == 2 and not is_packed, x.name, _several(hx)
        if is_packed:
            steps, N = len(args[0].array), int(args[0].array[0])
            if (args[0].array != N).any():
                raise Unclear("packs sequences of different lengths")
            value = t.emit("Reshape", x, shape=[steps, N, x.shape[1]])
        elif is_single:
            value, *states = [t.emit("Unsqueeze", one, axes=[1]) for one in (x, *states)]
        elif args[-1]:  # batch_first
            value = t.moved(x, 1, 0)
        ways = 1 + bool(two_way)
        each = len(params) // (depth * ways)
        cells = [_cell_of(t, make, params[k : k + each]) for k in range(0, len(params), each)]
        layers: list[list[str]] = []  # the final states of each
        for k in range(0, len(cells), ways):
            starts = states
            if depth > 1:
                starts = [t.emit("Slice", one, axes=[0], starts=[k], ends=[k + ways], steps=[1]) for one in states]
            value, *ends = _layer(t, value, cells[k : k + ways], starts)
            layers.append(ends)
        finals = [one[0] if depth == 1 else t.emit("Concat", *one, axis=0) for one in zip(*layers, strict=True)]
        if is_packed:
            value = t.emit("Reshape", value, shape=[steps * N, t.shapes[value][2]])
        elif is_single:
            value, *finals = [t.emit("Squeeze", one, axes=[1]) for one in (value, *finals)]
        elif args[-1]:
            value = t.moved(value, 1, 0)
        return [value, *finals]

    return run


def _layer(t: Recorded, x: str, cells: Sequence[Cell], starts: Sequence[Arg | str]) -> list[str]:
    """One layer in one or two directions of a series (T, N, F): the series, and the final states (ways, N, H)."""
    steps, N, _ = t.shapes[x]
    widths = _widths(cells[0])
    if steps == 1 and len(cells) == 1:  # perhaps one of a loop
        given = [t.emit("Squeeze", one, axes=[0]) for one in (x, *starts)]
        made = t.emits("CellStep", given, [(N, width) for width in widths], cell=cells[0])
        states = [t.emit("Unsqueeze", one, axes=[0]) for one in made]
        return [states[0], *states]
    layer = cells[0] if len(cells) == 1 else Bidirectional(cells[0], cells[1])
    shapes = [(steps, N, layer.outputs), *((len(cells), N, width) for width in widths)]
    return t.emits("Cell", [x, *starts], shapes, cell=layer)


def _cell(make: Any) -> Function:
    """lstm_cell, gru_cell and the like: one step, which may be one of a loop."""

    def run(t: Recorded, x: Arg, hx: Any, *weights: Any) -> list[str]:
        states = _several(hx)
        return t.emits("CellStep", [x, *states], t.results, cell=_cell_of(t, make, weights))

    return run


def _pack(t: Recorded, x: Arg, lengths: Arg, batch_first: bool) -> list[str]:
    """Sequences that are all of one length, as those of a probe are: (T N, F), and the number of each step."""
    N, steps = x.shape[:2] if batch_first else x.shape[1::-1]
    if lengths.array is None or (lengths.array != steps).any():
        raise Unclear("packs sequences of different lengths")
    value = t.moved(x, 1, 0) if batch_first else x.name
    rows = t.emit("Reshape", value, shape=list(t.results[0]))
    return [rows, t.constant(np.full(steps, N))]


def _unpack(t: Recorded, x: Arg, sizes: Arg, batch_first: bool, *_: Any) -> list[str]:
    steps, N = len(_positions(sizes)), int(_positions(sizes)[0])
    value = t.emit("Reshape", x, shape=[steps, N, *x.shape[1:]])
    return [t.moved(value, 1, 0) if batch_first else value, t.constant(np.full(N, steps))]


_SAME = (
    "contiguous", "clone", "detach", "to", "float", "double", "half", "bfloat16", "cpu", "cuda", "type", "type_as",
    "long", "int", "requires_grad", "data", "alias", "dropout", "alpha_dropout", "feature_dropout", "dropout1d",
    "dropout2d", "dropout3d", "feature_alpha_dropout", "identity", "_to_copy",
)  # fmt: skip
_EACH = {
    "relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid", "exp": "Exp", "silu": "Swish", "mish": "Mish", "neg": "Neg",
    "softsign": "Softsign", "selu": "Selu", "hardswish": "HardSwish", "negative": "Neg", "__neg__": "Neg",
    "sqrt": "Sqrt", "reciprocal": "Reciprocal", "erf": "Erf",
}  # fmt: skip
_RELU = partial(rnn, activation="relu")
FUNCTIONS: dict[str, Function] = {
    **dict.fromkeys(_SAME, _same),
    **{name: _each(op) for name, op in _EACH.items()},
    "elu": _each("Elu", ["alpha"]),
    "celu": _each("Celu", ["alpha"]),
    "relu6": _each("Clip", min=0.0, max=6.0),
    "rsqrt": lambda t, x: t.emit("Reciprocal", t.emit("Sqrt", x)),
    "log_sigmoid": lambda t, x: t.emit("Neg", t.emit("Softplus", t.emit("Neg", x))),
    "hardsigmoid": _each("HardSigmoid", alpha=1 / 6, beta=0.5),
    "leaky_relu": lambda t, x, negative_slope=0.01, inplace=False: t.emit("LeakyRelu", x, alpha=float(negative_slope)),
    "gelu": lambda t, x, approximate="none": t.emit("Gelu", x, approximate=approximate),
    **dict.fromkeys(("abs", "absolute", "__abs__"), _absolute),
    "softplus": _softplus,
    "prelu": _prelu,
    **dict.fromkeys(("clamp", "clip"), _clip),
    "hardtanh": lambda t, x, min_val=-1.0, max_val=1.0, inplace=False: _clip(t, x, min_val, max_val),
    **dict.fromkeys(("add", "__add__", "__radd__"), _binary("Add")),
    **dict.fromkeys(("sub", "subtract", "__sub__"), _binary("Sub")),
    **dict.fromkeys(("rsub", "__rsub__"), _binary("Sub", swapped=True)),
    **dict.fromkeys(("mul", "multiply", "__mul__", "__rmul__"), _binary("Mul")),
    **dict.fromkeys(("div", "divide", "true_divide", "__truediv__"), _binary("Div")),
    **dict.fromkeys(("__rdiv__", "__rtruediv__"), _binary("Div", swapped=True)),
    **dict.fromkeys(("pow", "__pow__", "square"), _power),
    "where": _where,
    "masked_fill": lambda t, x, mask, value: _where(t, mask, value, x),
    "linear": _linear,
    **dict.fromkeys(("matmul", "__matmul__", "mm", "bmm", "mv"), _matmul),
    "addmm": lambda t, c, a, b: t.emit("Add", _matmul(t, a, b), c),
    "einsum": _einsum,
    "scaled_dot_product_attention": _attention,
    "multi_head_attention_forward": _multi_head,
    **dict.fromkeys(("view", "reshape", "flatten", "unflatten", "view_as", "reshape_as", "ravel"), _reshape),
    "squeeze": _squeeze,
    "unsqueeze": lambda t, x, dim: t.emit("Unsqueeze", x, axes=[dim % (x.rank + 1)]),
    **dict.fromkeys(("transpose", "swapaxes", "swapdims", "t", "T"), _transpose),
    "mT": lambda t, x, *_: _transpose(t, x, -1, -2),
    "permute": _permute,
    "movedim": lambda t, x, source, destination: t.moved(x, x.axis(source), x.axis(destination)),
    **dict.fromkeys(("expand", "expand_as", "repeat", "tile", "broadcast_to", "repeat_interleave"), _expand),
    **dict.fromkeys(("cat", "concat", "concatenate"), _concat),
    "stack": lambda t, parts, dim=0, **_: t.emit("Stack", *parts, axis=dim % len(t.results[0])),
    "hstack": lambda t, parts: t.emit("Concat", *parts, axis=min(1, parts[0].rank - 1)),
    "flip": _flip,
    "select": lambda t, x, dim, index: t.emit("Gather", x, axis=x.axis(dim), index=int(index)),
    "narrow": _narrow,
    "gather": _gather,
    "index_select": _index_select,
    "__getitem__": _get,
    "__setitem__": _set,
    "mean": _reduce("ReduceMean"),
    "sum": _reduce("ReduceSum"),
    "amax": _reduce("ReduceMax"),
    **dict.fromkeys(("max", "maximum"), _maximum),
    **dict.fromkeys(("softmax", "_softmax"), _softmax("Softmax")),
    "log_softmax": _softmax("LogSoftmax"),
    "embedding": _embedding,
    "one_hot": _one_hot,
    "conv1d": _conv1d,
    "max_pool1d": _max_pool,
    "avg_pool1d": _avg_pool,
    "adaptive_avg_pool1d": _adaptive("ReduceMean"),
    "adaptive_max_pool1d": _adaptive("ReduceMax"),
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "lstm": _recurrent(lstm),
    "gru": _recurrent(gru),
    "rnn_tanh": _recurrent(rnn),
    "rnn_relu": _recurrent(_RELU),
    "lstm_cell": _cell(lstm),
    "gru_cell": _cell(gru),
    "rnn_tanh_cell": _cell(rnn),
    "rnn_relu_cell": _cell(_RELU),
    "_pack_padded_sequence": _pack,
    "_pad_packed_sequence": _unpack,
}  # fmt: skip
