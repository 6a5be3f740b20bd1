"""What a graph computes of constants and of shapes, so that weights and start states are known.

A size that the file leaves open is a `Dim`, and an array of sizes may hold some: NumPy's functions take both. An array
with an axis of open size, such as start states for any batch, is a `Spread`: that axis has length 1, and all along it
the numbers are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
    spread = any(isinstance(one, Spread) for one in values)
    first = next((one for one in values if isinstance(one, Spread) and one.shape), None)
    if node.op == "Shape" and first is not None:
        return [sizes(first.shape[node.attributes.get("start", 0) : node.attributes.get("end")])]
    if spread and node.op in _NOT_SPREAD:
        return [Unknown(node.where, "needs the size of the batch or the number of steps")] * count
    arrays = [one.array if isinstance(one, Spread) else one for one in values]
    if any(isinstance(one, np.ndarray) and one.dtype == object and one.size > _MOST_SIZES for one in arrays):
        return [Unknown(node.where, f"has more than {_MOST_SIZES:,} sizes that are open")] * count
    try:
        made = FOLDED[node.op](_Fold(source, node), *arrays)
    except WeightFileError:
        raise
    except Exception:
        return [Unknown(node.where, "cannot be computed from its constants")] * count
    found = made if isinstance(made, list) else [made]
    if not spread:
        return [one if isinstance(one, Spread) else _settled(one) for one in found]
    arrays = [_settled(one.array if isinstance(one, Spread) else one) for one in found]
    return [Spread(one, first.shape if first is not None and one.shape == first.array.shape else ()) for one in arrays]


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
        whole = len(kinds) == 1 and made.dtype.kind in "iuf"
        return made.astype(kinds.pop(), copy=False) if whole else made

    return run


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a / b if np.result_type(a, b).kind == "f" else a // b


def listed(value: Any, most: int = _MOST_SIZES) -> list[Any]:
    """An array of sizes or axes as a list."""
    found = np.asarray(value).reshape(-1)
    if len(found) > most:
        raise ValueError(f"{len(found):,} sizes or axes, over the limit of {most:,}")
    return list(found)


def numbers(value: Any, most: int = _MOST_SIZES) -> list[int]:
    """An array of whole numbers as a list."""
    return [int(one) for one in listed(value, most)]


def axes_of(node: OperationNode, values: Sequence[Any]) -> list[int] | None:
    """The axes that a node is about: an attribute of older files, an input of newer ones."""
    given = node.attributes.get("axes")
    if given is None and len(values) > 1 and values[1] is not None:
        given = values[1]
    return None if given is None else numbers(given)


def slices(node: OperationNode, values: Sequence[Any]) -> list[tuple[Any, Any, Any, int]]:
    """(axis, start, stop, step) of a Slice; attributes in older files, inputs in newer ones."""
    if "starts" in node.attributes:
        given = [node.attributes.get(name) for name in ("starts", "ends", "axes", "steps")]
    else:
        given = [*values[1:], None, None, None, None][:4]
    starts, stops, axes, steps = (None if one is None else listed(one) for one in given)
    if starts is None or stops is None:
        raise ValueError("no limits")
    if axes is None:
        axes = list(range(len(starts)))
    if steps is None:
        steps = [1] * len(starts)
    return list(zip(map(int, axes), starts, stops, map(int, steps), strict=True))


def bounds(start: Any, stop: Any, step: int) -> tuple[int | None, int | None]:
    """Limits as Python has them: None for an end that is far away."""
    first, last = int(start), int(stop)
    sign = 1 if step > 0 else -1
    return (None if sign * first <= -LAST else first), (None if sign * last >= LAST else last)


def pieces(node: OperationNode, values: Sequence[Any], size: int) -> list[int]:
    """Lengths of the parts of a Split."""
    given = node.attributes.get("split")
    if given is None and len(values) > 1 and values[1] is not None:
        given = values[1]
    count = len(node.outputs)
    if given is not None:
        return numbers(given, count)
    each = -(-size // count)
    return [each] * (count - 1) + [size - each * (count - 1)]


def _constant(fold: _Fold) -> Any:
    for name in ("value", "value_float", "value_int", "value_floats", "value_ints"):
        if (value := fold.get(name)) is not None:
            kind = np.int64 if "int" in name else np.float32
            return value if isinstance(value, np.ndarray) else np.array(value, kind)
    raise ValueError("no value")


def _slice(fold: _Fold, x: Any, *limits: Any) -> Any:
    where = [slice(None)] * x.ndim
    for axis, start, stop, step in slices(fold.node, [x, *limits]):
        where[axis] = slice(*bounds(start, stop, step), step)
    return x[tuple(where)]


def _squeeze(fold: _Fold, x: Any, *more: Any) -> Any:
    axes = axes_of(fold.node, [x, *more])
    return np.squeeze(x, None if axes is None else tuple(axes))


def _unsqueeze(fold: _Fold, x: Any, *more: Any) -> Any:
    return np.expand_dims(x, tuple(axes_of(fold.node, [x, *more]) or ()))


def _concat(fold: _Fold, *parts: Any) -> Any:
    fold.room(sum(np.size(one) for one in parts), like=parts)
    return np.concatenate(parts, axis=fold.get("axis", 0))


def _gather(fold: _Fold, x: Any, index: Any) -> Any:
    axis = fold.get("axis", 0)
    fold.room(np.size(index), *(n for k, n in enumerate(x.shape) if k != axis % x.ndim), like=[x])
    return np.take(x, np.asarray(index, np.int64), axis=axis)


def _open(fold: _Fold, shape: Any) -> tuple[list[int], bool]:
    """A shape with 1 for sizes that are open, and whether there are any."""
    wanted = listed(shape)
    found = [1 if isinstance(one, Dim) else int(one) for one in wanted]
    if any(n < 0 for n in found):
        raise ValueError("sizes below 0")
    fold.room(*found)
    return found, any(isinstance(one, Dim) for one in wanted)


def _expand(fold: _Fold, x: Any, shape: Any) -> Any:
    target, is_open = _open(fold, shape)
    whole = np.broadcast_shapes(x.shape, tuple(target))
    fold.room(*whole, like=[x])  # it takes no memory, but whoever goes through it takes time
    made = np.broadcast_to(x, whole)
    return Spread(made) if is_open else made


def _filled(fold: _Fold, shape: Any) -> Any:
    value = fold.get("value")
    scalar = np.float32(0) if value is None else np.asarray(value).reshape(-1)[0]
    target, is_open = _open(fold, shape)
    made = np.full(target, scalar)
    return Spread(made) if is_open else made


def _reshape(fold: _Fold, x: Any, shape: Any) -> Any:
    wanted = listed(shape)
    is_open = any(isinstance(one, Dim) for one in wanted)
    target = [1 if isinstance(one, Dim) else int(one) for one in wanted]
    if not fold.get("allowzero", 0):
        target = [x.shape[k] if n == 0 else n for k, n in enumerate(target)]
    made = _reshaped(fold, x, target)
    return Spread(made) if is_open else made


def _reshaped(fold: _Fold, x: Any, target: Sequence[int]) -> Any:
    """An array in another shape, which is a copy of it where its numbers do not lie one after the other."""
    if not x.flags.c_contiguous:
        fold.room(x.size, like=[x])
    return x.reshape(target)


def _tile(fold: _Fold, x: Any, repeats: Any) -> Any:
    target, is_open = _open(fold, repeats)
    fold.room(x.size, *target, like=[x])
    made = np.tile(x, target)
    return Spread(made) if is_open else made


def _split(fold: _Fold, x: Any, *more: Any) -> Any:
    axis = fold.get("axis", 0)
    lengths = pieces(fold.node, [x, *more], x.shape[axis])
    return list(np.split(x, np.cumsum(lengths)[:-1], axis=axis))


def _cast(fold: _Fold, x: Any) -> Any:
    to = fold.get("to")
    if x.dtype == object and to in (6, 7, 1, 11):  # sizes stay what they are
        return x
    kinds = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float32, 11: np.float64}
    fold.room(x.size)
    return x.astype(kinds[to])


def _shape(fold: _Fold, x: Any) -> Any:
    return np.array(x.shape[fold.get("start", 0) : fold.get("end")], np.int64)


def _reduced(function: Function) -> Function:
    def run(fold: _Fold, x: Any, *more: Any) -> Any:
        axes = axes_of(fold.node, [x, *more])
        fold.room(x.size, like=[x])
        return function(x, axis=None if axes is None else tuple(axes), keepdims=bool(fold.get("keepdims", 1)))

    return run


def _clip(fold: _Fold, x: Any, *limits: Any) -> Any:
    fold.room(x.size, like=[x])
    low, high = ([*limits, None, None] if limits else [fold.get("min"), fold.get("max")])[:2]
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
    """The largest, and where they are; where the number is open, all are alike and stay in their order."""
    if x.shape == (1,) and isinstance(k.item(), Dim):
        return [x, sizes([index_along(k.item())])]
    fold.room(16, x.size)  # and a corresponding amount of time
    order = np.argsort(-x if fold.get("largest", 1) else x, axis=-1, kind="stable")[..., : k.item()]
    return [np.take_along_axis(x, order, -1), order]


def _scattered(fold: _Fold, x: Any, index: Any, updates: Any) -> Any:
    """The inverse of an order, which is all that exporters write it for."""
    if index.shape != (1,) or index[0] != updates[0]:
        fold.room(16, np.size(index))
        order = np.asarray(index, np.int64)
        if not np.array_equal(np.sort(order), np.arange(len(x))) or not np.array_equal(updates, np.arange(len(x))):
            raise ValueError("no order")
        return np.argsort(order)
    return updates


def _product(fold: _Fold, a: Any, b: Any) -> Any:
    each = math.prod(a.shape[-2:-1]) * math.prod(b.shape[1:][-1:])  # numbers of one product
    made = math.prod(np.broadcast_shapes(a.shape[:-2], b.shape[:-2])) * each
    fold.source.budget.visit(fold.node.where, made * a.shape[-1] // 10_000)
    fold.room(made)
    return a @ b


FOLDED: dict[str, Function] = {
    "Constant": _constant,
    "Identity": lambda fold, x: x,
    "Cast": _cast,
    "Shape": _shape,
    "Size": lambda fold, x: np.array(x.size, np.int64),
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": lambda fold, x: np.transpose(x, fold.get("perm")),
    "Concat": _concat,
    "Gather": _gather,
    "Expand": _expand,
    "ConstantOfShape": _filled,
    "Reshape": _reshape,
    "Flatten": lambda fold, x: _reshaped(fold, x, [math.prod(x.shape[: fold.get("axis", 1)]), -1]),
    "Tile": _tile,
    "Split": _split,
    "Range": _range,
    "Clip": _clip,
    "TopK": _top,
    "ScatterElements": _scattered,
    "MatMul": _product,
    "ReduceProd": _reduced(np.prod),
    "ReduceSum": _reduced(np.sum),
    "ReduceMax": _reduced(np.max),
    "ReduceMin": _reduced(np.min),
    "Add": _elementwise(lambda a, b: a + b),
    "Sub": _elementwise(lambda a, b: a - b),
    "Mul": _elementwise(lambda a, b: a * b),
    "Div": _elementwise(_divide),
    "Neg": _elementwise(lambda a: -a),
    "Sqrt": _elementwise(np.sqrt),
    "Reciprocal": _elementwise(lambda a: 1 / a),
    "Exp": _elementwise(np.exp),
    "Abs": _elementwise(np.abs),
    "Pow": lambda fold, a, b: _elementwise(lambda x, y: np.power(x, y.astype(x.dtype)))(fold, a, b),
    "Max": _elementwise(lambda *a: np.maximum.reduce(np.broadcast_arrays(*a))),
    "Min": _elementwise(lambda *a: np.minimum.reduce(np.broadcast_arrays(*a))),
    "Equal": _elementwise(lambda a, b: np.asarray(a == b, np.bool_)),
    "Less": _elementwise(lambda a, b: np.asarray(a < b, np.bool_)),
    "Greater": _elementwise(lambda a, b: np.asarray(a > b, np.bool_)),
    "Not": _elementwise(np.logical_not),
    "And": _elementwise(np.logical_and),
    "Or": _elementwise(np.logical_or),
    "Where": lambda fold, c, a, b: _elementwise(lambda c, a, b: np.where(c, a, b))(fold, c, a, b),
}
_NOT_SPREAD = {"Shape", "Size", "MatMul", "ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin", "Flatten"}
