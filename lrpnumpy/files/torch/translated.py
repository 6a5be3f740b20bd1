"""What each function of torch is in the list of operations: the table FUNCTIONS.

Sizes are those of the run: whichever of them depend on the batch or the number of steps is found by comparing runs.
A function that is not in the table becomes the operation "Unsupported", an error only where the scores depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.files.torch.recorded import Arg, Recorded

Shape = tuple[int, ...]
Function = Callable[..., Any]


class Unclear(Exception):
    """An argument that is not supported."""


class Translation(NamedTuple):
    """One call while it is translated."""

    run: Recorded
    name: str
    shapes: Sequence[Shape]  # of its results

    def emit(self, op: str, *inputs: Arg | str | None, shape: Sequence[int] | None = None, **attributes: Any) -> str:
        """Add an operation, whose output has the shape of the first result unless said otherwise."""
        names = ["" if one is None else one if isinstance(one, str) else one.name for one in inputs]
        return self.run.emit(op, names, self.shapes[0] if shape is None else shape, self.name, **attributes)

    def emits(self, op: str, inputs: Sequence[str], shapes: Sequence[Shape], **attributes: Any) -> list[str]:
        """Add an operation with several outputs."""
        first = self.run.emit(op, inputs, shapes[0], self.name, **attributes)
        names = [first]
        for shape in shapes[1:]:
            names.append(f"{first}.{len(names)}")
            self.run.shapes[names[-1]] = shape
        self.run.ops[-1] = self.run.ops[-1]._replace(outputs=tuple(names))
        return names

    def constant(self, array: Any) -> str:
        """An array by name."""
        return self.run.constant(array)

    def moved(self, x: Arg | str, *order: int) -> str:
        """The axes in another order."""
        name = x if isinstance(x, str) else x.name
        shape = self.run.shapes[name]
        if list(order) == sorted(order):
            return name
        return self.emit("Transpose", name, shape=[shape[k] for k in order], perm=list(order))


def translate(run: Recorded, name: str, args: Any, kwargs: Any, shapes: Sequence[Shape]) -> list[str]:
    """The names of the results of one call."""
    t = Translation(run, name, shapes)
    reason, done = "is not supported", len(run.ops)
    if name in FUNCTIONS:
        try:
            made = FUNCTIONS[name](t, *args, **kwargs)
            found = [made] if isinstance(made, str) else list(made)
            return found + [found[0]] * (len(shapes) - len(found))
        except Unclear as error:
            reason = str(error)
        except (TypeError, ValueError, IndexError, AttributeError):
            reason = "is not supported with these arguments"
        del run.ops[done:]
    return t.emits("Unsupported", [one.name for one in _refs((args, tuple(kwargs.values())))], shapes, reason=reason)


def _refs(value: Any) -> list[Arg]:
    if isinstance(value, Arg):
        return [value]
    if isinstance(value, (tuple, list)):
        return [ref for one in value for ref in _refs(one)]
    return []


def _number(value: Any) -> float:
    """A Python number, or a constant with one."""
    if isinstance(value, Arg):
        if value.array is None or value.array.size != 1:
            raise Unclear("is supported with a number only")
        return float(value.array.reshape(-1)[0])
    return float(value)


# ------------------------------------------------------------------------------------------------ each number by itself


def _same(t: Translation, x: Arg, *_: Any, **__: Any) -> str:
    return x.name


def _each(op: str, *names: str) -> Function:
    """An operation on every number; further arguments are attributes with these names."""

    def run(t: Translation, x: Arg, *more: Any, inplace: bool = False, **named: Any) -> str:
        given = {**dict(zip(names, more, strict=False)), **named}
        attributes: dict[str, Any] = {key: float(given[key]) for key in names if key in given}
        return t.emit(op, x, **attributes)

    return run


def _leaky(t: Translation, x: Arg, negative_slope: float = 0.01, inplace: bool = False) -> str:
    return t.emit("LeakyRelu", x, alpha=float(negative_slope))


def _gelu(t: Translation, x: Arg, approximate: str = "none") -> str:
    return t.emit("Gelu", x, approximate=approximate)


def _softplus(t: Translation, x: Arg, beta: float = 1, threshold: float = 20) -> str:
    if threshold < 15 and beta == 1:
        raise Unclear(f"is not supported with threshold={threshold}")
    if beta == 1:
        return t.emit("Softplus", x)
    scaled = t.emit("Mul", x, t.constant(np.float32(beta)))
    return t.emit("Div", t.emit("Softplus", scaled), t.constant(np.float32(beta)))


def _log_sigmoid(t: Translation, x: Arg) -> str:
    return t.emit("Neg", t.emit("Softplus", t.emit("Neg", x)))


def _clip(t: Translation, x: Arg, min: Any = None, max: Any = None, inplace: bool = False, **_: Any) -> str:
    limits: dict[str, Any] = {key: _number(one) for key, one in (("min", min), ("max", max)) if one is not None}
    return t.emit("Clip", x, **limits)


def _hardtanh(t: Translation, x: Arg, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> str:
    return t.emit("Clip", x, min=float(min_val), max=float(max_val))


def _prelu(t: Translation, x: Arg, weight: Arg) -> str:
    slopes = weight.array
    if slopes is None:
        raise Unclear("must have constant slopes")
    return t.emit("PRelu", x, t.constant(slopes.reshape(-1, *[1] * (x.rank - 2)) if slopes.size > 1 else slopes))


def _binary(op: str, swapped: bool = False) -> Function:
    def run(t: Translation, a: Any, b: Any = None, *, other: Any = None, alpha: float = 1, **_: Any) -> str:
        b = other if b is None else b
        a, b = (one if isinstance(one, Arg) else t.constant(np.float32(one)) for one in (a, b))
        if alpha != 1:
            b = t.emit("Mul", b, t.constant(np.float32(alpha)), shape=b.shape)
        return t.emit(op, b, a) if swapped else t.emit(op, a, b)

    return run


def _power(t: Translation, x: Any, exponent: Any) -> str:
    return t.emit("Pow", x, t.constant(np.float32(_number(exponent))))


def _where(t: Translation, condition: Arg, a: Any, b: Any) -> str:
    """Where the condition is the same everywhere."""
    if condition.array is None or condition.array.size == 0 or (condition.array != condition.array.flat[0]).any():
        raise Unclear("depends on the numbers of the input, which is not supported")
    chosen = a if condition.array.flat[0] else b
    name = chosen.name if isinstance(chosen, Arg) else t.constant(np.float32(chosen))
    shape = chosen.shape if isinstance(chosen, Arg) else ()
    return name if shape == t.shapes[0] else t.emit("Expand", name, shape_to=list(t.shapes[0]))


def _masked_fill(t: Translation, x: Arg, mask: Arg, value: Any) -> str:
    return _where(t, mask, value, x)


# --------------------------------------------------------------------------------------------------- sums and products


def _linear(t: Translation, x: Arg, weight: Arg, bias: Arg | None = None) -> str:
    if weight.array is None:
        raise Unclear("has weights that depend on the input")
    return t.emit("Linear", x, weight, *([bias] if bias is not None else []))


def _matmul(t: Translation, a: Arg, b: Any = None, other: Any = None, mat2: Any = None) -> str:
    b = next(one for one in (b, other, mat2) if one is not None)
    if b.array is not None and b.rank == 2:
        return t.emit("Linear", a, t.constant(b.array.T))
    return t.emit("MatMul", a, b)


def _addmm(t: Translation, c: Arg, a: Arg, b: Arg, beta: float = 1, alpha: float = 1) -> str:
    if beta != 1 or alpha != 1:
        raise Unclear("is supported with beta = alpha = 1 only")
    return t.emit("Add", _matmul(t, a, b), c)


def _einsum(t: Translation, equation: Any, *operands: Any) -> str:
    """Sums of products of two tensors that are a matrix product."""
    a, b = operands[0] if isinstance(operands[0], (tuple, list)) else operands
    left, right = equation.replace(" ", "").split("->")
    of_a, of_b = left.split(",")
    summed = [k for k in of_a if k in of_b and k not in right]
    batch = [k for k in right if k in of_a and k in of_b]
    rows, columns = ([k for k in right if k in one and k not in batch] for one in (of_a, of_b))
    if len(summed) != 1 or len(of_a) != len(batch) + len(rows) + 1 or len(of_b) != len(batch) + len(columns) + 1:
        raise Unclear("is supported as a matrix product only")
    if len(rows) > 1 or len(columns) > 1:
        raise Unclear("is supported as a matrix product only")
    sizes = dict(zip(of_a, a.shape, strict=True)) | dict(zip(of_b, b.shape, strict=True))
    first = t.moved(a, *(of_a.index(k) for k in [*batch, *rows, *summed]))
    second = t.moved(b, *(of_b.index(k) for k in [*batch, *summed, *columns]))
    if not rows:
        first = t.emit("Unsqueeze", first, shape=[*(sizes[k] for k in batch), 1, sizes[summed[0]]], axes=[len(batch)])
    if not columns:
        shape = [*(sizes[k] for k in batch), sizes[summed[0]], 1]
        second = t.emit("Unsqueeze", second, shape=shape, axes=[len(batch) + 1])
    full = [*(sizes[k] for k in batch), *(sizes[k] for k in rows or [])] + ([] if rows else [1])
    full += [sizes[k] for k in columns] or [1]
    made = t.emit("MatMul", first, second, shape=full)
    gone = ([] if rows else [len(batch)]) + ([] if columns else [len(batch) + 1])
    order = [*batch, *rows, *columns]
    if gone:
        made = t.emit("Squeeze", made, shape=[sizes[k] for k in order], axes=gone)
    return t.moved(made, *(order.index(k) for k in right))


def _attention(
    t: Translation, q: Arg, k: Arg, v: Arg, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> str:  # fmt: skip
    if attn_mask is not None or is_causal or enable_gqa:
        raise Unclear("is not supported with a mask")
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    keys = t.moved(k, *range(k.rank - 2), k.rank - 1, k.rank - 2)
    shape = [*q.shape[:-1], k.shape[-2]]
    scores = t.emit("Mul", t.emit("MatMul", q, keys, shape=shape), t.constant(np.float32(factor)), shape=shape)
    return t.emit("MatMul", t.emit("Softmax", scores, shape=shape, axis=q.rank - 1), v)


# The parameters of torch.nn.functional.multi_head_attention_forward, in their order.
_MULTI_HEAD = (
    "query", "key", "value", "embed_dim_to_check", "num_heads", "in_proj_weight", "in_proj_bias", "bias_k", "bias_v",
    "add_zero_attn", "dropout_p", "out_proj_weight", "out_proj_bias", "training", "key_padding_mask", "need_weights",
    "attn_mask", "use_separate_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight", "static_k", "static_v",
)  # fmt: skip


def _multi_head(t: Translation, *given: Any, **named: Any) -> Sequence[str]:
    """nn.MultiheadAttention; its weights are the second result, which nothing may take."""
    from lrpnumpy.layers import MultiHeadAttention

    said: dict[str, Any] = dict.fromkeys(_MULTI_HEAD) | dict(zip(_MULTI_HEAD, given, strict=False)) | named
    query, key, value = said["query"], said["key"], said["value"]
    added = [said[name] for name in ("bias_k", "static_k", "static_v")]
    if said["add_zero_attn"] or any(one is not None for one in added):
        raise Unclear("is not supported with add_bias_kv, add_zero_attn or static keys")
    padding, attn_mask = said["key_padding_mask"], said["attn_mask"]
    if padding is not None and (padding.array is None or padding.array.any()):
        raise Unclear("is not supported with a mask of the padding")
    causal = False
    if attn_mask is not None:
        mask = attn_mask.array
        if mask is None or mask.ndim != 2:
            raise Unclear("is supported with a causal mask only")
        seen = ~mask if mask.dtype == bool else mask == 0
        causal = not seen.all()
        if causal and not np.array_equal(seen, np.tril(np.ones_like(seen))):
            raise Unclear("is supported with a causal mask only")
    if said["use_separate_proj_weight"]:
        matrices = [said[f"{name}_proj_weight"].array for name in "qkv"]
    else:
        matrices = np.split(said["in_proj_weight"].array, 3)
    biases: Any = [None] * 4
    if said["in_proj_bias"] is not None:
        biases[:3] = np.split(said["in_proj_bias"].array, 3)
    if said["out_proj_bias"] is not None:
        biases[3] = said["out_proj_bias"].array
    Wq, Wk, Wv = matrices
    bq, bk, bv, bo = biases
    Wo = np.asarray(said["out_proj_weight"].array)
    layer = MultiHeadAttention(Wq, Wk, Wv, Wo, bq, bk, bv, bo, said["num_heads"], causal)
    inputs = [query.name, value.name] if key.name == value.name else [query.name, value.name, key.name]
    made = t.emit("Attention", *inputs, layer=layer)
    if len(t.shapes) == 1:
        return [made]
    return [made, t.emit("Unsupported", query, reason="gives its weights, which nothing may use", shape=t.shapes[1])]


# --------------------------------------------------------------------------------------------------------------- axes


def _axes(x: Arg, dim: Any) -> list[int]:
    if dim is None:
        return list(range(x.rank))
    return [x.axis(int(k)) for k in (dim if isinstance(dim, (tuple, list)) else [dim])]


def _reshape(t: Translation, x: Arg, *_: Any, **__: Any) -> str:
    if x.shape == t.shapes[0]:
        return x.name
    return t.emit("Reshape", x, shape_to=list(t.shapes[0]))


def _squeeze(t: Translation, x: Arg, dim: Any = None) -> str:
    axes = [k for k in _axes(x, dim) if x.shape[k] == 1]
    return t.emit("Squeeze", x, axes=axes) if axes else x.name


def _unsqueeze(t: Translation, x: Arg, dim: int) -> str:
    return t.emit("Unsqueeze", x, axes=[dim % (x.rank + 1)])


def _transpose(t: Translation, x: Arg, dim0: int = 0, dim1: int = 1, **_: Any) -> str:
    order = list(range(x.rank))
    if x.rank < 2:
        return x.name
    a, b = x.axis(dim0), x.axis(dim1)
    order[a], order[b] = order[b], order[a]
    return t.moved(x, *order)


def _permute(t: Translation, x: Arg, *dims: Any, **named: Any) -> str:
    order: Any = dims or (named["dims"],)
    if isinstance(order[0], (tuple, list)):
        order = order[0]
    return t.moved(x, *(x.axis(k) for k in order))


def _movedim(t: Translation, x: Arg, source: int, destination: int) -> str:
    order = [k for k in range(x.rank) if k != x.axis(source)]
    order.insert(x.axis(destination), x.axis(source))
    return t.moved(x, *order)


def _expand(t: Translation, x: Arg, *_: Any, **__: Any) -> str:
    """expand, repeat and tile: a repetition of axes of length 1, or of nothing."""
    shape = t.shapes[0]
    before = (1,) * (len(shape) - x.rank) + x.shape
    if any(n not in (1, m) for n, m in zip(before, shape, strict=True)):
        raise Unclear("repeats an axis that is longer than 1")
    return x.name if x.shape == shape else t.emit("Expand", x, shape_to=list(shape))


def _concat(t: Translation, parts: Any, dim: Any = 0, **named: Any) -> str:
    axis = int(named.get("axis", dim))
    return t.emit("Concat", *[part for part in parts if part.shape != (0,)], axis=axis % len(t.shapes[0]))


def _stack(t: Translation, parts: Any, dim: int = 0, **_: Any) -> str:
    return t.emit("Stack", *parts, axis=dim % len(t.shapes[0]))


def _hstack(t: Translation, parts: Any) -> str:
    return t.emit("Concat", *parts, axis=0 if parts[0].rank == 1 else 1)


def _flip(t: Translation, x: Arg, *dims: Any, **named: Any) -> str:
    given = dims or (named["dims"],)
    axes = _axes(x, given[0] if isinstance(given[0], (tuple, list)) else given)
    n = len(axes)
    return t.emit("Slice", x, axes=axes, starts=[-1] * n, ends=[-(2**31)] * n, steps=[-1] * n)


def _select(t: Translation, x: Arg, dim: int, index: int) -> str:
    return t.emit("Gather", x, axis=x.axis(dim), index=int(index))


def _narrow(t: Translation, x: Arg, dim: int, start: Any, length: int) -> str:
    begin = int(_number(start))
    return t.emit("Slice", x, axes=[x.axis(dim)], starts=[begin], ends=[begin + length], steps=[1])


def _index_select(t: Translation, x: Arg, dim: int, index: Arg) -> str:
    if index.array is None:
        raise Unclear("takes positions that depend on the input")
    axis = x.axis(dim)
    if np.array_equal(index.array, np.arange(x.shape[axis])):
        return x.name
    return t.emit("Gather", x, axis=axis, index=index.array)


def _gather(t: Translation, x: Arg, dim: int, index: Arg, **_: Any) -> str:
    """The same position for every number."""
    axis = x.axis(dim)
    if index.array is None or index.shape[axis] != 1 or (index.array != index.array.flat[0]).any():
        raise Unclear("takes different positions, which is not supported")
    return t.emit("Gather", x, axis=axis, index=np.array([index.array.flat[0]]))


def _get(t: Translation, x: Arg, index: Any) -> str:
    """x[...]: positions, slices, None and Ellipsis, and x[arange(N), position]."""
    items = list(index) if isinstance(index, tuple) else [index]
    used = sum(one is not None and one is not Ellipsis for one in items)
    if Ellipsis in [one for one in items if not isinstance(one, Arg)]:
        at = next(k for k, one in enumerate(items) if one is Ellipsis)
        items[at : at + 1] = [slice(None)] * (x.rank - used)
    name, shape, axis = x.name, list(x.shape), 0
    arrays = [one for one in items if isinstance(one, (Arg, list)) and np.ndim(_positions(one))]
    for item in items:
        if item is None:
            shape.insert(axis, 1)
            name = t.emit("Unsqueeze", name, shape=shape, axes=[axis])
            axis += 1
        elif isinstance(item, slice):
            start, stop, step = (
                None if one is None else int(_number(one)) for one in (item.start, item.stop, item.step)
            )
            count = len(range(shape[axis])[slice(start, stop, step)])
            if start is not None and (stop == start + 1 or (start == -1 and stop is None)) and (step or 1) == 1:
                name = t.emit("Gather", name, shape=[*shape[:axis], *shape[axis + 1 :]], axis=axis, index=start)
                shape[axis] = 1
                name = t.emit("Unsqueeze", name, shape=shape, axes=[axis])
            elif (start, stop, step or 1) not in ((None, None, 1), (0, None, 1)):
                shape[axis] = count
                ends = [2**31 if stop is None else stop]
                name = t.emit(
                    "Slice", name, shape=shape, axes=[axis], starts=[start or 0], ends=ends, steps=[step or 1]
                )
            axis += 1
        elif isinstance(item, (Arg, list)) and np.ndim(_positions(item)):
            positions = _positions(item)
            if positions.dtype == bool:
                raise Unclear("takes positions by a condition, which is not supported")
            if len(arrays) == 2 and np.array_equal(positions, np.arange(shape[axis])):
                axis += 1  # every sequence, and one step of each
                continue
            if len(arrays) > 1 and (positions != positions[0]).any():
                raise Unclear("takes another step of each sequence, which is not supported")
            if len(arrays) > 1:
                del shape[axis]
                name = t.emit("Gather", name, shape=shape, axis=axis, index=int(positions[0]))
                continue
            shape[axis] = len(positions)
            name = t.emit("Gather", name, shape=shape, axis=axis, index=positions)
            axis += 1
        else:
            del shape[axis]
            name = t.emit("Gather", name, shape=shape, axis=axis, index=int(_number(item)))
    return name


def _positions(item: Any) -> np.ndarray:
    if isinstance(item, Arg) and item.array is None:
        raise Unclear("takes positions that depend on the input, which is not supported")
    return np.asarray(item.array if isinstance(item, Arg) else item)


def _set(t: Translation, x: Arg, index: Any, value: Any) -> str:
    """x[:, position] = value."""
    items = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis in items:
        at = items.index(Ellipsis)
        items[at : at + 1] = [slice(None)] * (x.rank - len(items) + 1)
    whole = [k for k, one in enumerate(items) if not (isinstance(one, slice) and one == slice(None))]
    if len(whole) != 1 or not isinstance(value, Arg) or isinstance(items[whole[0]], slice):
        raise Unclear("writes to a part of a tensor in a way that is not supported")
    return t.emit("SetItem", x, value, axis=whole[0], index=int(_number(items[whole[0]])), shape=x.shape)


# --------------------------------------------------------------------------------------------------------- reductions


def _reduce(op: str) -> Function:
    def run(t: Translation, x: Arg, dim: Any = None, keepdim: bool = False, **named: Any) -> str:
        axes = _axes(x, named.get("axis", dim))
        return t.emit(op, x, axes=axes, keepdims=int(named.get("keepdims", keepdim)))

    return run


def _maximum(t: Translation, x: Arg, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
    if isinstance(dim, Arg) or "other" in named:
        return t.emit("Max", x, named.get("other", dim))
    made = t.emit("ReduceMax", x, axes=_axes(x, dim), keepdims=int(keepdim))
    if len(t.shapes) == 1:
        return made
    return [made, t.emit("Unsupported", x, reason="gives positions, which nothing may use", shape=t.shapes[1])]


def _softmax(op: str) -> Function:
    def run(t: Translation, x: Arg, dim: Any = None, *_: Any, **__: Any) -> str:
        if dim is None:
            dim = 0 if x.rank in (0, 1, 3) else 1
        return t.emit(op, x, axis=x.axis(dim))

    return run


# --------------------------------------------------------------------------------------------------------------- layers


def _embedding(t: Translation, ids: Arg, weight: Arg, *_: Any, max_norm: Any = None, **__: Any) -> str:
    if weight.array is None:
        raise Unclear("has vectors that depend on the input")
    if max_norm is not None:
        raise Unclear("is not supported with max_norm")
    return _embedded(t, ids.name, weight)


def _embedded(t: Translation, ids: str, weight: Arg) -> str:
    """The vectors of an input, of which then the same is taken as was of the token ids."""
    made_by = next((op for op in t.run.ops if ids in op.outputs), None)
    shape = (*t.run.shapes[ids], weight.shape[1])
    if made_by is None or made_by.op not in ("Gather", "Slice", "Squeeze", "Unsqueeze", "Transpose", "Reshape"):
        return t.emit("Embedding", weight, ids, shape=shape)
    attributes = dict(made_by.attributes)
    if "perm" in attributes:
        attributes["perm"] = [*attributes["perm"], len(attributes["perm"])]
    if "shape_to" in attributes:
        attributes["shape_to"] = [*attributes["shape_to"], weight.shape[1]]
    return t.emit(made_by.op, _embedded(t, made_by.inputs[0], weight), shape=shape, **attributes)


def _numbers(value: Any, count: int = 1) -> list[int]:
    return [int(value)] * count if isinstance(value, int) else [int(one) for one in value]


def _conv1d(
    t: Translation, x: Arg, weight: Arg, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> str:  # fmt: skip
    step, wide = _numbers(stride), _numbers(dilation)
    if isinstance(padding, str):
        total = 0 if padding == "valid" else (weight.shape[2] - 1) * wide[0]
        pads = [total // 2, total - total // 2]
    else:
        pads = _numbers(padding) * 2
    inputs = [x, weight] if bias is None else [x, weight, bias]
    return t.emit("Conv", *inputs, strides=step, dilations=wide, pads=pads, group=groups)


def _pool(op: str) -> Function:
    def run(
        t: Translation, x: Arg, kernel_size: Any, stride: Any = None, padding: Any = 0, *more: Any, **named: Any
    ) -> Any:
        kernel = _numbers(kernel_size)
        step = kernel if stride is None or stride == () else _numbers(stride)
        attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": step, "pads": _numbers(padding) * 2}
        if op == "MaxPool":
            attributes["dilations"] = _numbers(named.get("dilation", more[0] if more else 1))
            attributes["ceil_mode"] = int(named.get("ceil_mode", more[1] if len(more) > 1 else False))
        else:
            attributes["ceil_mode"] = int(named.get("ceil_mode", more[0] if more else False))
            attributes["count_include_pad"] = int(named.get("count_include_pad", more[1] if len(more) > 1 else True))
        return t.emit(op, x, **attributes)

    return run


def _adaptive(op: str) -> Function:
    def run(t: Translation, x: Arg, output_size: Any, *_: Any, **__: Any) -> str:
        if _numbers(output_size) != [1]:
            raise Unclear("is supported with an output of 1 step only")
        return t.emit(op, x, axes=[x.rank - 1], keepdims=1)

    return run


def _batch_norm(
    t: Translation, x: Arg, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
    training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> str:  # fmt: skip
    if training or running_mean is None:
        raise Unclear("computes with the batch it is given, which is not supported")
    mean = running_mean.array
    gamma = np.ones_like(mean) if weight is None else weight.array
    beta = np.zeros_like(mean) if bias is None else bias.array
    arrays = [t.constant(one) for one in (gamma, beta, mean, running_var.array)]
    return t.emit("BatchNormalization", x, *arrays, epsilon=float(eps))


def _layer_norm(
    t: Translation,
    x: Arg,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    **_: Any,
) -> str:
    shape = tuple(_numbers(normalized_shape))
    gamma = t.constant(np.ones(shape, np.float32) if weight is None else weight.array)
    beta = t.constant(np.zeros(shape, np.float32) if bias is None else bias.array)
    return t.emit("LayerNormalization", x, gamma, beta, axis=-len(shape), epsilon=float(eps))


# ----------------------------------------------------------------------------------------------------- recurrent layers

_ONNX = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}  # gates of ONNX, i o f c and z r h, among those of torch


def _arrays(kind: str, parts: Sequence[Sequence[Any]]) -> list[np.ndarray]:
    """W, R and B of ONNX, for some directions, each with its weights and perhaps biases."""
    order = list(_ONNX[kind])

    def ordered(array: np.ndarray) -> np.ndarray:
        return array.reshape(len(order), -1, *array.shape[1:])[order].reshape(array.shape)

    W, R = (np.stack([ordered(part[k].array) for part in parts]) for k in (0, 1))
    if len(parts[0]) < 4 or parts[0][2] is None:
        return [W, R]
    B = np.stack([np.concatenate([ordered(part[2].array), ordered(part[3].array)]) for part in parts])
    return [W, R, B]


def _recurrent(kind: str, **fixed: Any) -> Function:
    """lstm, gru, rnn_tanh and rnn_relu, of a series or of packed ones."""

    def run(t: Translation, x: Arg, *args: Any) -> list[str]:
        packed = isinstance(args[1], (tuple, list, Arg)) and isinstance(args[2], (tuple, list))
        if packed:
            sizes, hx, params, has_biases, depth, _, _, two_way, first = *args, False
            N = int(sizes.array[0])
            steps = len(sizes.array)
            if (sizes.array != N).any():
                raise Unclear("packs sequences of different lengths")
            value = t.emit("Reshape", x, shape=(steps, N, x.shape[1]), shape_to=[steps, N, x.shape[1]])
        else:
            hx, params, has_biases, depth, _, _, two_way, first = args
            value = x.name
            if x.rank == 2:
                value = t.emit("Unsqueeze", value, shape=(x.shape[0], 1, x.shape[1]), axes=[1])
            elif first:
                value = t.moved(value, 1, 0, 2)
        states = list(hx) if kind == "LSTM" else [hx]
        ways, each = 2 if two_way else 1, len(params) // (depth * (2 if two_way else 1))
        finals: list[list[str]] = [[] for _ in states]
        for k in range(depth):
            parts = [params[(k * ways + way) * each : (k * ways + way + 1) * each] for way in range(ways)]
            starts = [_rows(t, one, k * ways, ways, x.rank == 2 and not packed) for one in states]
            value, last = _layer(t, kind, value, parts, starts, fixed, has_biases)
            for found, one in zip(finals, last, strict=True):
                found.append(one)
        steps, N, width = t.run.shapes[value]
        if packed:
            value = t.emit("Reshape", value, shape=(steps * N, width), shape_to=[steps * N, width])
        elif x.rank == 2:
            value = t.emit("Squeeze", value, shape=(steps, width), axes=[1])
        elif first:
            value = t.moved(value, 1, 0, 2)
        ends = []
        for found in finals:
            shape = (depth * ways, N, t.run.shapes[found[0]][2])
            end = found[0] if depth == 1 else t.emit("Concat", *found, shape=shape, axis=0)
            if x.rank == 2 and not packed:
                end = t.emit("Squeeze", end, shape=(shape[0], shape[2]), axes=[1])
            ends.append(end)
        return [value, *ends]

    return run


def _rows(t: Translation, state: Arg, begin: int, count: int, single: bool) -> str:
    """The start states of one layer."""
    shape = [count, *state.shape[1:]]
    if state.array is not None:
        name = t.constant(state.array[begin : begin + count])
    elif state.shape[0] == count:
        name = state.name
    else:
        name = t.emit("Slice", state, shape=shape, axes=[0], starts=[begin], ends=[begin + count], steps=[1])
    if not single:
        return name
    if state.array is not None:
        return t.constant(state.array[begin : begin + count, None])
    return t.emit("Unsqueeze", name, shape=[count, 1, shape[1]], axes=[1])


def _layer(
    t: Translation, kind: str, x: str, parts: Sequence[Any], starts: Sequence[str], fixed: dict[str, Any], biases: bool
) -> tuple[str, list[str]]:
    """One layer in one or two directions of a series (T, N, F): the series, and the final states (ways, N, H)."""
    steps, N, _ = t.run.shapes[x]
    each = 4 if biases else 2
    if len(parts[0]) > each:
        return _projected(t, x, parts, starts, biases)
    arrays = _arrays(kind, [part if biases else part[:2] for part in parts])
    ways, H = len(parts), arrays[1].shape[-1]
    if steps == 1 and ways == 1:  # perhaps one of a loop
        once = t.emit("Squeeze", x, shape=(N, t.run.shapes[x][2]), axes=[0])
        before = []
        for one in starts:
            if one in t.run.arrays:
                before.append(t.constant(t.run.arrays[one][0]))
            else:
                before.append(t.emit("Squeeze", one, shape=(N, H), axes=[0]))
        made = t.emits(f"{kind}Cell", [once, *before, *map(t.constant, arrays)], [(N, H)] * len(starts), **fixed)
        wide = [t.emit("Unsqueeze", one, shape=(1, N, H), axes=[0]) for one in made]
        return wide[0], wide
    inputs = [x, *map(t.constant, arrays), *[""] * (4 - len(arrays)), *starts]
    direction = "bidirectional" if ways == 2 else "forward"
    attributes = {**fixed, "direction": direction, "hidden_size": H}
    if "activations" in fixed:
        attributes["activations"] = fixed["activations"] * ways
    if kind == "GRU":
        attributes["linear_before_reset"] = 1
    shapes = [(steps, ways, N, H), *[(ways, N, H)] * len(starts)]
    every, *last = t.emits(kind, inputs, shapes, **attributes)
    if ways == 1:
        return t.emit("Squeeze", every, shape=(steps, N, H), axes=[1]), last
    turned = t.moved(every, 0, 2, 1, 3)
    return t.emit("Reshape", turned, shape=(steps, N, ways * H), shape_to=[steps, N, ways * H]), last


def _projected(
    t: Translation, x: str, parts: Sequence[Any], starts: Sequence[str], biases: bool
) -> tuple[str, list[str]]:
    """An LSTM with proj_size."""
    from lrpnumpy.layers import ProjectedLSTM

    steps, N, _ = t.run.shapes[x]
    outs, finals = [], ([], [])  # type: ignore[var-annotated]
    for way, part in enumerate(parts):
        U, W = (np.split(part[k].array, 4) for k in (0, 1))
        b = np.split(part[2].array + part[3].array, 4) if biases else [np.zeros(len(U[0]), np.float32)] * 4
        named = {
            f"{name}_{gate}": one[k] for name, one in (("U", U), ("W", W), ("b", b)) for k, gate in enumerate("ifgo")
        }
        P, H = part[-1].shape
        cell = ProjectedLSTM(**named, W_p=part[-1].array)
        before = []
        for one, size in zip(starts, (P, H), strict=True):
            if one in t.run.arrays:
                before.append(t.constant(t.run.arrays[one][way]))
            else:
                before.append(t.emit("Gather", one, shape=(N, size), axis=0, index=way))
        backward = {"axes": [0], "starts": [-1], "ends": [-(2**31)], "steps": [-1]}
        shape = t.run.shapes[x]
        series = x if way == 0 else t.emit("Slice", x, shape=shape, **backward)
        made = t.emits("Cell", [series, *before], [(steps, N, P), (N, P), (N, H)], cell=cell)
        outs.append(made[0] if way == 0 else t.emit("Slice", made[0], shape=(steps, N, P), **backward))
        for found, one, size in zip(finals, made[1:], (P, H), strict=True):
            found.append(t.emit("Unsqueeze", one, shape=(1, N, size), axes=[0]))
    width = sum(t.run.shapes[one][2] for one in outs)
    joined = outs[0] if len(outs) == 1 else t.emit("Concat", *outs, shape=(steps, N, width), axis=2)
    last = []
    for found in finals:
        shape = (len(found), N, t.run.shapes[found[0]][2])
        last.append(found[0] if len(found) == 1 else t.emit("Concat", *found, shape=shape, axis=0))
    return joined, last


def _cell(kind: str, **fixed: Any) -> Function:
    """lstm_cell, gru_cell and the like: one step, which may be one of a loop."""

    def run(t: Translation, x: Arg, hx: Any, *weights: Any) -> list[str]:
        states = list(hx) if kind == "LSTM" else [hx]
        arrays = _arrays(kind, [weights])
        inputs = [x.name, *(one.name for one in states), *map(t.constant, arrays)]
        return t.emits(f"{kind}Cell", inputs, list(t.shapes), **fixed)

    return run


def _pack(t: Translation, x: Arg, lengths: Arg, batch_first: bool) -> list[str]:
    """Sequences that are all of one length, as those of a probe are: (T N, F), and the number of each step."""
    N, steps = x.shape[:2] if batch_first else x.shape[1::-1]
    if lengths.array is None or (lengths.array != steps).any():
        raise Unclear("packs sequences of different lengths")
    value = t.moved(x, 1, 0, *range(2, x.rank)) if batch_first else x.name
    rows = t.emit("Reshape", value, shape_to=list(t.shapes[0]))
    return [rows, t.constant(np.full(steps, N))]


def _unpack(t: Translation, x: Arg, sizes: Arg, batch_first: bool, *_: Any) -> list[str]:
    steps, N = len(_positions(sizes)), int(_positions(sizes)[0])
    shape = [steps, N, *x.shape[1:]]
    value = t.emit("Reshape", x, shape=shape, shape_to=shape)
    return [t.moved(value, 1, 0, *range(2, len(shape))) if batch_first else value, t.constant(np.full(N, steps))]


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
FUNCTIONS: dict[str, Function] = {
    **dict.fromkeys(_SAME, _same),
    **{name: _each(op) for name, op in _EACH.items()},
    "elu": _each("Elu", "alpha"),
    "celu": _each("Celu", "alpha"),
    "leaky_relu": _leaky,
    "rsqrt": lambda t, x: t.emit("Reciprocal", t.emit("Sqrt", x)),
    "hardsigmoid": lambda t, x, inplace=False: t.emit("HardSigmoid", x, alpha=1 / 6, beta=0.5),
    "relu6": lambda t, x, inplace=False: t.emit("Clip", x, min=0.0, max=6.0),
    "square": lambda t, x: t.emit("Pow", x, t.constant(np.float32(2))),
    "gelu": _gelu,
    "softplus": _softplus,
    "logsigmoid": _log_sigmoid,
    "prelu": _prelu,
    **dict.fromkeys(("clamp", "clip"), _clip),
    "hardtanh": _hardtanh,
    **dict.fromkeys(("add", "__add__", "__radd__"), _binary("Add")),
    **dict.fromkeys(("sub", "subtract", "__sub__"), _binary("Sub")),
    **dict.fromkeys(("rsub", "__rsub__"), _binary("Sub", swapped=True)),
    **dict.fromkeys(("mul", "multiply", "__mul__", "__rmul__"), _binary("Mul")),
    **dict.fromkeys(("div", "divide", "true_divide", "__truediv__"), _binary("Div")),
    **dict.fromkeys(("__rdiv__", "__rtruediv__"), _binary("Div", swapped=True)),
    **dict.fromkeys(("pow", "__pow__"), _power),
    "where": _where,
    "masked_fill": _masked_fill,
    "linear": _linear,
    **dict.fromkeys(("matmul", "__matmul__", "mm", "bmm", "mv"), _matmul),
    "addmm": _addmm,
    "einsum": _einsum,
    "scaled_dot_product_attention": _attention,
    "multi_head_attention_forward": _multi_head,
    **dict.fromkeys(("view", "reshape", "flatten", "unflatten", "view_as", "reshape_as", "ravel"), _reshape),
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    **dict.fromkeys(("transpose", "swapaxes", "swapdims", "t", "T"), _transpose),
    "mT": lambda t, x, *_: _transpose(t, x, -1, -2),
    "permute": _permute,
    "movedim": _movedim,
    **dict.fromkeys(("expand", "expand_as", "repeat", "tile", "broadcast_to", "repeat_interleave"), _expand),
    **dict.fromkeys(("cat", "concat", "concatenate"), _concat),
    "stack": _stack,
    "hstack": _hstack,
    "flip": _flip,
    "select": _select,
    "narrow": _narrow,
    "index_select": _index_select,
    "gather": _gather,
    "__getitem__": _get,
    "__setitem__": _set,
    "mean": _reduce("ReduceMean"),
    "sum": _reduce("ReduceSum"),
    "amax": _reduce("ReduceMax"),
    "max": _maximum,
    "maximum": _maximum,
    **dict.fromkeys(("softmax", "_softmax"), _softmax("Softmax")),
    "log_softmax": _softmax("LogSoftmax"),
    "embedding": _embedding,
    "conv1d": _conv1d,
    "max_pool1d": _pool("MaxPool"),
    "avg_pool1d": _pool("AveragePool"),
    "adaptive_avg_pool1d": _adaptive("ReduceMean"),
    "adaptive_max_pool1d": _adaptive("ReduceMax"),
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "lstm": _recurrent("LSTM"),
    "gru": _recurrent("GRU"),
    "rnn_tanh": _recurrent("RNN"),
    "rnn_relu": _recurrent("RNN", activations=["Relu"]),
    "lstm_cell": _cell("LSTM"),
    "gru_cell": _cell("GRU"),
    "rnn_tanh_cell": _cell("RNN"),
    "rnn_relu_cell": _cell("RNN", activations=["Relu"]),
    "_pack_padded_sequence": _pack,
    "_pad_packed_sequence": _unpack,
}  # fmt: skip
