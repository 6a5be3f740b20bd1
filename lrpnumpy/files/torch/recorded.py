"""A live PyTorch module, run once: every operation on its inputs becomes an `Op`, and everything else a constant.

torch calls a `TorchFunctionMode` for each of its functions, and the table in `translated.py` translates them. Where
nothing depends on an input the result is a constant, too: the first step of a loop starts from one. Python's own
branches and loops just run. What a condition decides is what the probes decide, which is why several are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

INPLACE = {"__iadd__": "add", "__isub__": "sub", "__imul__": "mul", "__itruediv__": "div", "__setitem__": "__setitem__"}
# Functions of a value of which only the shape matters.
_SHAPES = ("zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty",
           "new_tensor", "rand_like", "randn_like")  # fmt: skip
_CUTS = ("unbind", "split", "chunk", "tensor_split", "__iter__")
_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">="}
# Functions that give Python a number, by which it may decide anything.
_READS = ("item", "tolist", "numpy", "__array__", "__bool__", "__int__", "__float__", "__index__", "__contains__",
          "equal", "allclose", "is_nonzero")  # fmt: skip
_FINITE = ("isnan", "isinf", "isfinite")  # a model refuses other inputs than finite ones


def _sliced(x: np.ndarray, axes: Sequence[int], starts: Any, ends: Any, steps: Any) -> np.ndarray:
    where = [slice(None)] * x.ndim
    for axis, *limits in zip(axes, starts, ends, steps, strict=True):
        where[axis] = slice(*limits)
    return x[tuple(where)]


# What operations that only move numbers do to an array: for the shapes of values, and for constants.
MOVES: dict[str, Callable[..., np.ndarray]] = {
    "Transpose": lambda x, perm: x.transpose(perm),
    "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(axes)),
    "Squeeze": lambda x, axes: np.squeeze(x, tuple(axes)),
    "Reshape": lambda x, shape: x.reshape(shape),
    "Expand": lambda x, shape: np.broadcast_to(x, shape),
    "Slice": _sliced,
    "Gather": lambda x, axis, index: np.take(x, index, axis),
    "Concat": lambda *parts, axis: np.concatenate(parts, axis),
    "Stack": lambda *parts, axis: np.stack(parts, axis),
    "MatMul": np.matmul,
}


class Op(NamedTuple):
    """One operation of the list, on named values."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    where: str  # for errors


class Arg(NamedTuple):
    """A tensor as the translations see it."""

    name: str
    shape: tuple[int, ...]
    array: np.ndarray | None = None  # of a constant

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def axis(self, k: int) -> int:
        """An axis counted from 0."""
        return k % max(self.rank, 1)


class Condition(NamedTuple):
    """A condition on the input that is the same everywhere in a run, which makes it a constant."""

    text: str
    value: bool | None  # None where Python reads a number
    numbers: tuple[float, ...]  # to which something is compared


@dataclass
class Recorded:
    """The operations of one run."""

    inputs: list[str]
    outputs: dict[str, str] = field(default_factory=dict)  # which value each output is
    ops: list[Op] = field(default_factory=list)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)  # constants
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    cells: dict[tuple[str, ...], Any] = field(default_factory=dict)  # recurrent cells by the names of their arrays
    conditions: dict[str, Condition] = field(default_factory=dict)  # by their texts
    where: str = ""  # the function at hand, for errors
    results: Sequence[tuple[int, ...]] = ()  # shapes of its results

    def emit(self, op: str, *inputs: Arg | str, shape: Any = None, **attributes: Any) -> str:
        """Add an operation with one output.

        `shape` is left out where it follows: of what only moves numbers, and of what its inputs are broadcast to.
        """
        name, names = f"value {len(self.shapes)}", tuple(one if isinstance(one, str) else one.name for one in inputs)
        if op in MOVES:
            if op in ("Reshape", "Expand"):
                attributes["shape"] = shape
            known = [self.arrays.get(one) for one in names]
            if all(one is not None for one in known):
                self.arrays[name] = MOVES[op](*known, **attributes)
            zeros = [np.broadcast_to(np.int8(0), self.shapes[one]) for one in names]
            shape = MOVES[op](*zeros, **attributes).shape
        elif shape is None:
            shape = np.broadcast_shapes(*(self.shapes[one] for one in names))
        self.ops.append(Op(op, names, (name,), attributes, self.where or op))
        self.shapes[name] = tuple(shape)
        return name

    def emits(self, op: str, inputs: Sequence[Arg | str], shapes: Sequence[Any], **attributes: Any) -> list[str]:
        """Add an operation with several outputs of these shapes."""
        names = [self.emit(op, *inputs, shape=shapes[0], **attributes)]
        for shape in shapes[1:]:
            names.append(f"{names[0]}.{len(names)}")
            self.shapes[names[-1]] = tuple(shape)
        self.ops[-1] = self.ops[-1]._replace(outputs=tuple(names))
        return names

    def result(self, op: str, *inputs: Arg | str, **attributes: Any) -> str:
        """Add the operation that gives the first result of the function at hand."""
        return self.emit(op, *inputs, shape=self.results[0], **attributes)

    def moved(self, x: Arg | str, source: int, target: int) -> str:
        """One axis at another place."""
        name = x if isinstance(x, str) else x.name
        order = [k for k in range(len(self.shapes[name])) if k != source]
        order.insert(target, source)
        return name if source == target else self.emit("Transpose", name, perm=order)

    def described(self, value: Any) -> str:
        """A value as the user might write it: a number, an input, or the function that made it of one."""
        if not isinstance(value, Arg):
            return str(value)
        if value.array is not None:
            return f"{value.array.item():g}" if value.array.size == 1 else "an array"
        made_by = next((op for op in self.ops if value.name in op.outputs), None)
        return value.name if made_by is None else f"{made_by.where.strip('_')}(...)"

    def some(self, name: str, axis: int, start: int | None, stop: int | None, step: int = 1) -> str:
        """Places along an axis; a single one is a step of a series, which a loop may take."""
        if start is not None and step == 1 and (stop == start + 1 or (start == -1 and stop is None)):
            return self.emit("Unsqueeze", self.emit("Gather", name, axis=axis, index=start), axes=[axis])
        if (start or 0, stop, step) == (0, None, 1):
            return name
        ends = [2**31 if stop is None else stop]
        return self.emit("Slice", name, axes=[axis], starts=[start or 0], ends=ends, steps=[step])

    def constant(self, array: Any) -> str:
        """An array by name; the same numbers have the same name."""
        array = np.asarray(array)
        for name, known in self.arrays.items():
            is_small = name.startswith("constant ") and known.size < 10**5
            if is_small and known.dtype == array.dtype and np.array_equal(known, array):
                return name
        name = f"constant {len(self.shapes)}"
        self.arrays[name], self.shapes[name] = array, array.shape
        return name


def as_numpy(value: Any) -> np.ndarray:
    """A tensor, or anything like an array, as an array; half precision becomes float32."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) in ("torch.bfloat16", "torch.float16") else value
        value = value.numpy()
    return np.asarray(value)


def letter_of(tensor: Any) -> str:
    """The kind of a tensor's numbers: "f" for floats, "i" for integers, "b" for conditions."""
    if str(tensor.dtype) == "torch.bool":
        return "b"
    if tensor.is_floating_point():
        return "f"
    return "i"


def mapped(function: Callable[[Any, str], Any], value: Any, name: str = "") -> Any:
    """Tuples, lists and dicts with `function(tensor, name)` for each tensor; '1.0' is a name in a tuple in a tuple."""
    if hasattr(value, "detach"):
        return function(value, name)
    if isinstance(value, Mapping):
        return {key: mapped(function, item, f"{name}.{key}".removeprefix(".")) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        items = [mapped(function, item, f"{name}.{key}".removeprefix(".")) for key, item in enumerate(value)]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return tuple.__new__(type(value), items)  # a PackedSequence would check the tensors that it is made of
        return type(value)(items)
    return value


def tensors(value: Any) -> list[tuple[str, Any]]:
    """The tensors in tuples, lists and dicts by name: '1' of a tuple, 'scores' of a dict; '0' is a single one."""
    found: list[tuple[str, Any]] = []
    mapped(lambda tensor, name: found.append((name or "0", tensor)), value)
    return found


def record(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any], inputs: Mapping[str, Any]) -> Recorded:
    """Run a module; `inputs` are those tensors among its arguments that are inputs of the network, by name."""
    import torch
    from torch.overrides import TorchFunctionMode

    recorder = _Recorder(inputs)

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return recorder.call(func, args, kwargs or {})

    with torch.no_grad(), Mode():
        result = module(*args, **kwargs)
    recorder.run.outputs = {name: recorder.ref(tensor).name for name, tensor in tensors(result)}
    return recorder.run


class _Recorder:
    """Names of tensors while a module runs."""

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        self.run = Recorded([*inputs])
        self.names: dict[int, str] = {}
        # of a split tensor, named where they are used: its name, the axis, and from where to where
        self.pieces: dict[int, tuple[str, int, int, int | None]] = {}
        self.alive: list[Any] = []  # a tensor that is freed may leave its id to another
        for name, tensor in inputs.items():
            self.bind(tensor, name)
            self.run.shapes[name] = tuple(tensor.shape)

    def bind(self, tensor: Any, name: str) -> None:
        """From here on a tensor is the value of this name."""
        self.names[id(tensor)] = name
        self.pieces.pop(id(tensor), None)
        self.alive.append(tensor)

    def depends(self, value: Any) -> bool:
        """Whether a tensor, or one in a list, depends on an input."""
        if hasattr(value, "detach"):
            if id(value) in self.pieces:
                return self.pieces[id(value)][0] not in self.run.arrays
            return id(value) in self.names and self.names[id(value)] not in self.run.arrays
        if isinstance(value, (tuple, list)):
            return any(self.depends(item) for item in value)
        return isinstance(value, slice) and self.depends((value.start, value.stop, value.step))

    def ref(self, tensor: Any) -> Arg:
        """A tensor as a value of the list."""
        if id(tensor) in self.pieces:
            source, axis, start, stop = self.pieces[id(tensor)]
            self.run.where = "getitem"
            if stop is None:
                name = self.run.emit("Gather", source, axis=axis, index=start)
            else:
                name = self.run.some(source, axis, start, stop)
        else:
            if id(tensor) not in self.names:
                self.bind(tensor, self.run.constant(as_numpy(tensor).copy()))
            name = self.names[id(tensor)]
        return Arg(name, tuple(tensor.shape), self.run.arrays.get(name))

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        """One function of torch: run it, and record it if it depends on an input."""
        name = getattr(func, "__name__", "").partition(".")[0]  # without the overload of an exported program
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", "")
        changes = name in INPLACE or (name.endswith("_") and not name.endswith("__")) or kwargs.get("inplace") is True
        name = INPLACE.get(name, name.rstrip("_") if changes else name)
        from lrpnumpy.files.torch.translated import translate

        if not tensors((args, kwargs)):
            return func(*args, **kwargs)
        depends = self.depends(args) or self.depends(tuple(kwargs.values()))
        refs, named = mapped(lambda tensor, _: self.ref(tensor), (tuple(args), dict(kwargs)))  # it may change them
        result = func(*args, **kwargs)
        results = [args[0]] if changes else [tensor for _, tensor in tensors(result)]
        is_uniform = bool(results) and not changes and all(map(_is_uniform, results))
        if depends and name not in _FINITE and (is_uniform or name in _READS):
            self.assume(name, [*refs, *named.values()], bool(results[0].reshape(-1)[0]) if is_uniform else None)
        if not results or name in _SHAPES or is_uniform:
            return result
        if name in _CUTS and not changes:
            self.cut(refs[0], name, refs[1:], named, results)
            return result
        shapes = [tuple(tensor.shape) for tensor in results]
        for tensor, value in zip(results, translate(self.run, name, refs, named, shapes), strict=True):
            self.bind(tensor, value)
            if not depends and value not in self.run.arrays:
                self.run.arrays[value] = as_numpy(tensor).copy()
        return result

    def assume(self, name: str, values: Sequence[Any], result: bool | None) -> None:
        """Remember a condition that becomes a constant."""
        words = [self.run.described(value) for value in values]
        sign = _SIGNS.get(name.strip("_"))
        text = f"{words[0]} {sign} {words[1]}" if sign else f"{name.strip('_')}({', '.join(words)})"
        numbers: set[float] = set()
        for value in values:
            array = value.array if isinstance(value, Arg) else value
            if isinstance(array, (int, float)) or (isinstance(array, np.ndarray) and array.size):
                numbers |= {float(np.min(array)), float(np.max(array))}
        self.run.conditions.setdefault(text, Condition(text, result, tuple(sorted(numbers)) or (0.0,)))

    def cut(self, source: Arg, name: str, more: Sequence[Any], named: dict[str, Any], parts: list[Any]) -> None:
        """The parts of a tensor, in the order of an axis."""
        at = 0 if name in ("unbind", "__iter__") else 1
        axis = source.axis(int(named.get("dim", more[at] if len(more) > at else 0)))
        begin = 0
        for part in parts:
            self.names.pop(id(part), None)
            end = begin + part.shape[axis] if at else None
            self.pieces[id(part)] = source.name, axis, begin, end
            begin = begin + 1 if end is None else end
            self.alive.append(part)


def _is_uniform(tensor: Any) -> bool:
    """Whether a condition is the same everywhere, as for a mask where nothing is padded."""
    return str(tensor.dtype) == "torch.bool" and tensor.numel() > 0 and bool((tensor == tensor.reshape(-1)[0]).all())
