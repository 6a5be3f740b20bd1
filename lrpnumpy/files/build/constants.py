"""What a graph computes of constants and of shapes, so that weights and start states are known.

A size that the file leaves open is a `Dim`, and an array of sizes may hold some: NumPy's functions take both. An array
with an axis of open size, such as start states for any batch, is a `Spread`: that axis has length 1, and all along it
the numbers are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.checks import WeightFileError
from lrpnumpy.files.build.sizes import Dim, index_along, sizes
from lrpnumpy.files.operations import OperationNode
from lrpnumpy.files.safe import Source

LAST = 2**31 - 1  # from here on the end of a slice means the end of the axis
_MOST_SIZES = 1000  # of one array of sizes or axes: Python goes through them one by one


class Spread(NamedTuple):
    """An array with axes of open size, which have length 1 here; `shape` is the true one, where it is known."""

    array: np.ndarray
    shape: tuple[Any, ...] = ()


class Unknown(NamedTuple):
    """A value that is not known, and why: an error only where the network needs it."""

    where: str
    reason: str


def fold(source: Source, node: OperationNode, values: Sequence[Any]) -> list[Any]:
    """The outputs of a node whose inputs are all constants, sizes or not known."""
    count = max(len(node.outputs), 1)
    unknown = next((one for one in values if isinstance(one, Unknown)), None)
    if unknown is not None:
        return [unknown] * count
    if node.op not in FOLDED:
        return [Unknown(node.where, "is not supported where it computes constants")] * count
    spread = [one for one in values if isinstance(one, Spread)]
    shape = next((one.shape for one in spread if one.shape), None)
    if node.op == "Shape" and shape is not None:
        return [sizes(shape[node.attributes.get("start", 0) : node.attributes.get("end")])]
    if spread and node.op in _NOT_SPREAD:
        return [Unknown(node.where, "needs the size of the batch or the number of steps")] * count
    arrays = [array_of(one) for one in values]
    sized = [isinstance(one, np.ndarray) and one.dtype == object for one in arrays]
    if any(is_sized and one.size > _MOST_SIZES for one, is_sized in zip(arrays, sized, strict=True)):
        return [Unknown(node.where, f"has more than {_MOST_SIZES:,} sizes that are open")] * count
    if node.op in _COPIES:
        source.budget.hold(node.where, sum(getattr(one, "nbytes", 8) for one in arrays))
    try:
        made = FOLDED[node.op](_Fold(source, node), *arrays)
    except WeightFileError:
        raise
    except Exception:
        return [Unknown(node.where, "cannot be computed from its constants")] * count
    if isinstance(made, Spread):
        return [made]
    outputs = [_settled(one) for one in as_list(made)]
    if spread or (node.op in _OF_SHAPE and sized[-1]):
        known = {one.array.shape: one.shape for one in spread[::-1] if one.shape}
        return [Spread(one, known.get(one.shape, ())) for one in outputs]
    return outputs


def array_of(value: Any) -> Any:
    """A constant as an array, also where it is spread along an axis of open size."""
    return value.array if isinstance(value, Spread) else value


def as_list(made: Any) -> list[Any]:
    """The outputs of an operation, which gives a list where it has several."""
    return made if isinstance(made, list) else [made]


def _settled(array: Any) -> np.ndarray:
    """Objects that are all numbers as numbers."""
    array = np.asarray(array)
    if array.dtype == object and not any(isinstance(one, Dim) for one in array.flat):
        return array.astype(np.int64)
    return array


class _Fold:
    """One node while it is computed."""

    def __init__(self, source: Source, node: OperationNode) -> None:
        self.source, self.node = source, node

    def get(self, name: str, default: Any = None) -> Any:
        return self.node.attributes.get(name, default)

    def room(self, *shape: int, like: Sequence[Any] = ()) -> None:
        """Count an array of this shape, with numbers as wide as the widest of some others, before it is made."""
        width = max((getattr(one, "itemsize", 8) for one in like), default=8)
        self.source.budget.hold(self.node.where, math.prod(map(int, shape)) * width)


Function = Callable[..., Any]


def _elementwise(function: Function) -> Function:
    def run(fold: _Fold, *arrays: Any) -> Any:
        shape = np.broadcast_shapes(*(np.shape(one) for one in arrays))
        fold.room(*shape, like=arrays)
        made = function(*arrays)
        kinds = {one.dtype for one in arrays if isinstance(one, np.ndarray)}
        if len(kinds) == 1 and made.dtype.kind in "iuf":
            return made.astype(kinds.pop(), copy=False)
        return made

    return run


def listed(value: Any, most: int = _MOST_SIZES) -> list[Any]:
    """An array of sizes or axes as a list."""
    found = np.asarray(value).reshape(-1)
    if len(found) > most:
        raise ValueError(f"{len(found):,} sizes or axes, over the limit of {most:,}")
    return list(found)


def numbers(value: Any, most: int = _MOST_SIZES) -> list[int]:
    """An array of whole numbers as a list."""
    return [int(one) for one in listed(value, most)]


def setting(node: OperationNode, name: str, values: Sequence[Any], place: int) -> Any:
    """An attribute of older files that newer ones have as an input, at this place; None where there is neither."""
    return node.attributes.get(name, [*values, *[None] * place][place])


def axes_of(node: OperationNode, values: Sequence[Any]) -> tuple[int, ...] | None:
    """The axes that a node is about; None where it does not say."""
    given = setting(node, "axes", values, 1)
    return None if given is None else tuple(numbers(given))


def slices(node: OperationNode, values: Sequence[Any]) -> list[tuple[Any, Any, Any, int]]:
    """(axis, start, stop, step) of a Slice."""
    starts, stops, axes, steps = (
        setting(node, name, values, k) for k, name in enumerate(("starts", "ends", "axes", "steps"), 1)
    )
    starts, count = listed(starts), np.size(starts)
    axes = range(count) if axes is None else numbers(axes)
    steps = [1] * count if steps is None else numbers(steps)
    return list(zip(axes, starts, listed(stops), steps, strict=True))


def bounds(start: Any, stop: Any, step: int) -> tuple[int | None, int | None]:
    """Limits as Python has them: None for an end that is far away."""
    first, last = int(start), int(stop)
    from_start, to_end = first <= -LAST, last >= LAST
    if step < 0:
        from_start, to_end = first >= LAST, last <= -LAST
    return (None if from_start else first), (None if to_end else last)


def pieces(node: OperationNode, values: Sequence[Any], size: int) -> list[int]:
    """Lengths of the parts of a Split."""
    given, count = setting(node, "split", values, 1), len(node.outputs)
    if given is not None:
        return numbers(given, count)
    each = -(-size // count)
    return [each] * (count - 1) + [size - each * (count - 1)]


_CONSTANTS = {  # attributes of a Constant, and their types
    "value": None, "value_float": np.float32, "value_int": np.int64, "value_floats": np.float32, "value_ints": np.int64,
}  # fmt: skip


def _constant(fold: _Fold) -> Any:
    for name, kind in _CONSTANTS.items():
        if (value := fold.get(name)) is not None:
            return np.asarray(value, kind)
    raise ValueError("no value")


def _slice(fold: _Fold, x: Any, *limits: Any) -> Any:
    where = [slice(None)] * x.ndim
    for axis, start, stop, step in slices(fold.node, [x, *limits]):
        where[axis] = slice(*bounds(start, stop, step), step)
    return x[tuple(where)]


def _gather(fold: _Fold, x: Any, index: Any) -> Any:
    axis = fold.get("axis", 0)
    fold.room(np.size(index), *(n for k, n in enumerate(x.shape) if k != axis % x.ndim), like=[x])
    return np.take(x, np.asarray(index, np.int64), axis=axis)


def _known(shape: Any) -> list[int]:
    """A shape with 1 for sizes that are open."""
    return [1 if isinstance(one, Dim) else int(one) for one in listed(shape)]


def _counted(fold: _Fold, shape: Any) -> list[int]:
    """The same, of an array that is made."""
    target = _known(shape)
    if any(n < 0 for n in target):
        raise ValueError("sizes below 0")
    fold.room(*target)
    return target


def _expand(fold: _Fold, x: Any, shape: Any) -> Any:
    whole = np.broadcast_shapes(x.shape, tuple(_counted(fold, shape)))
    fold.room(*whole, like=[x])  # it takes no memory, but whoever goes through it takes time
    return np.broadcast_to(x, whole)


def _filled(fold: _Fold, shape: Any) -> Any:
    value = np.asarray(fold.get("value", np.float32(0)))
    return np.full(_counted(fold, shape), value.reshape(-1)[0])


def _reshape(fold: _Fold, x: Any, shape: Any) -> Any:
    target = _known(shape)
    if not fold.get("allowzero", 0):
        target = [n or x.shape[k] for k, n in enumerate(target)]
    return x.reshape(target)


def _tile(fold: _Fold, x: Any, repeats: Any) -> Any:
    target = _counted(fold, repeats)
    fold.room(x.size, *target, like=[x])
    return np.tile(x, target)


def _split(fold: _Fold, x: Any, *more: Any) -> Any:
    axis = fold.get("axis", 0)
    lengths = pieces(fold.node, [x, *more], x.shape[axis])
    return list(np.split(x, np.cumsum(lengths)[:-1], axis=axis))


def _cast(fold: _Fold, x: Any) -> Any:
    to = fold.get("to")
    if x.dtype == object and to in (6, 7, 1, 11):  # sizes stay what they are
        return x
    kinds = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float32, 11: np.float64}
    return x.astype(kinds[to])


def _reduced(function: Function) -> Function:
    return lambda fold, *values: function(
        values[0], axis=axes_of(fold.node, values), keepdims=bool(fold.get("keepdims", 1))
    )


def _clip(fold: _Fold, *values: Any) -> Any:
    x = values[0]
    low, high = setting(fold.node, "min", values, 1), setting(fold.node, "max", values, 2)
    if x.dtype == object:  # sizes are at least 1
        if high is None and (low is None or low <= 1):
            return x
        raise ValueError("the size is not known")
    return np.clip(x, low, high)


def _range(fold: _Fold, start: Any, stop: Any, step: Any) -> Any:
    if isinstance(stop.item(), Dim) and start == 0 and step == 1:
        return Spread(sizes([index_along(stop.item())]), (stop.item(),))
    fold.room(max(0, math.ceil((stop.item() - start.item()) / step.item())))
    return np.arange(start.item(), stop.item(), step.item()).astype(start.dtype)


def _top(fold: _Fold, x: Any, k: Any) -> Any:
    """The largest of equal lengths, which stay in their order."""
    if isinstance(k.item(), Dim) and x.shape == (1,):
        return [x, sizes([index_along(k.item())])]
    if x.shape != (k.item(),) or (x != x[:1]).any():
        raise ValueError("lengths differ")
    return [x, np.arange(len(x))]


def _scattered(fold: _Fold, x: Any, index: Any, updates: Any) -> Any:
    """The inverse of that order, which is all that exporters write it for."""
    if index.shape != updates.shape or (index != updates).any():
        raise ValueError("another order")
    return updates


_ELEMENTWISE: dict[str, Function] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Neg": np.negative, "Sqrt": np.sqrt, "Exp": np.exp,
    "Abs": np.abs, "Equal": np.equal, "Less": np.less, "Greater": np.greater, "Not": np.logical_not,
    "And": np.logical_and, "Or": np.logical_or, "Where": np.where, "Reciprocal": lambda a: 1 / a,
    "Div": lambda a, b: a / b if np.result_type(a, b).kind == "f" else a // b,
    "Pow": lambda a, b: np.power(a, b.astype(a.dtype)),
    "Max": lambda *a: reduce(np.maximum, a), "Min": lambda *a: reduce(np.minimum, a),
}  # fmt: skip
FOLDED: dict[str, Function] = {
    **{name: _elementwise(function) for name, function in _ELEMENTWISE.items()},
    "Constant": _constant, "Cast": _cast, "Slice": _slice, "Gather": _gather, "Expand": _expand, "Reshape": _reshape,
    "ConstantOfShape": _filled, "Tile": _tile, "Split": _split, "Range": _range, "Clip": _clip, "TopK": _top,
    "ScatterElements": _scattered, "ReduceProd": _reduced(np.prod), "ReduceSum": _reduced(np.sum),
    "ReduceMax": _reduced(np.max), "ReduceMin": _reduced(np.min), "Identity": lambda fold, x: x,
    "Shape": lambda fold, x: np.array(x.shape[fold.get("start", 0) : fold.get("end")], np.int64),
    "Size": lambda fold, x: np.array(x.size, np.int64),
    "Squeeze": lambda fold, *values: np.squeeze(values[0], axes_of(fold.node, values)),
    "Unsqueeze": lambda fold, *values: np.expand_dims(values[0], axes_of(fold.node, values) or ()),
    "Transpose": lambda fold, x: np.transpose(x, fold.get("perm")),
    "Concat": lambda fold, *parts: np.concatenate(parts, axis=fold.get("axis", 0)),
    "Flatten": lambda fold, x: x.reshape([math.prod(x.shape[: fold.get("axis", 1)]), -1]),
}  # fmt: skip
_COPIES = {  # that may make a new array, as large as their inputs together
    "Concat", "Cast", "Reshape", "Flatten", "Clip", "TopK", "ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin",
}  # fmt: skip
_OF_SHAPE = {"Expand", "ConstantOfShape", "Reshape", "Tile"}  # whose last input is a shape
_NOT_SPREAD = {"Shape", "Size", "ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin", "Flatten"}
