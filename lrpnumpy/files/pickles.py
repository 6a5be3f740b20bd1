"""Pickles of plain data, run by an interpreter that knows arrays, strings, numbers, lists, tuples and dicts.

A pickle is a program that may call anything. Here its instructions are read with `pickletools`, and those
that plain data does not need are refused. The few names that arrays need stand for records of ours: not even
NumPy is called on behalf of the file.
"""

from __future__ import annotations

import math
import pickletools
from typing import Any

import numpy as np

from lrpnumpy.files.safe import Source

_VALUES = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "FLOAT", "BINFLOAT",
    "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8",
}  # fmt: skip
_OLD_STRINGS = {"STRING", "BINSTRING", "SHORT_BINSTRING"}  # of Python 2: bytes
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_NAMES = {
    ("numpy.core.multiarray", "_reconstruct"): "array",
    ("numpy._core.multiarray", "_reconstruct"): "array",
    ("numpy", "ndarray"): "class",
    ("numpy", "dtype"): "dtype",
    ("_codecs", "encode"): "bytes",
}


class Name:
    """One of the names that a pickle of arrays needs."""

    def __init__(self, meaning: str) -> None:
        self.meaning = meaning


class Described:
    """An array or dtype as the pickle describes it, before anyone believes it."""

    def __init__(self, meaning: str, arguments: tuple[Any, ...]) -> None:
        self.meaning, self.arguments = meaning, arguments
        self.state: Any = None

    def array(self, source: Source, where: str) -> np.ndarray:
        """The array of floats, float32 or float64, if shape, type and bytes go together."""
        with source.guard(where, "is not an array of floats"):
            _, shape, dtype, fortran, data = self.state
            (code, *_), order = dtype.arguments, dtype.state[1]
            kind = np.dtype({"f2": np.float16, "f4": np.float32, "f8": np.float64}[text(code)])
            kind = kind.newbyteorder(">" if text(order) == ">" else "<")
            if math.prod(shape) * kind.itemsize != len(data) or not all(type(n) is int and n > 0 for n in shape):
                raise source.error(where, f"declares shape {shape}, which does not fit its {len(data):,} bytes")
            found = np.frombuffer(data, kind).reshape(shape, order="F" if fortran else "C")
            return found.astype(np.result_type(kind, np.float32))


def text(value: Any) -> str:
    """A string, also where Python 2 wrote it as bytes."""
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def plain(source: Source, where: str, content: bytes) -> Any:
    """The data in a pickle; arrays are `Described`."""
    machine = _Machine(source, where)
    with source.guard(where, "is not a pickle of plain data"):
        for instruction, argument, _ in pickletools.genops(content):
            machine.run(instruction.name, argument)
        return machine.stack[-1]


class _Machine:
    """The stack, the marks on it, and the memory of a pickle."""

    def __init__(self, source: Source, where: str) -> None:
        self.source, self.where = source, where
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memory: dict[int, Any] = {}

    def refuse(self, reason: str) -> Any:
        raise self.source.error(self.where, f"{reason}; only arrays, strings, numbers, lists and dicts are read")

    def run(self, name: str, argument: Any) -> None:
        """One instruction."""
        stack = self.stack
        if name in ("PROTO", "FRAME", "STOP"):
            pass
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _VALUES:
            stack.append(argument)
        elif name in _OLD_STRINGS:
            stack.append(argument.encode("latin-1"))
        elif name == "MARK":
            self.marks.append(len(stack))
        elif name in ("EMPTY_LIST", "EMPTY_DICT"):
            stack.append([] if name == "EMPTY_LIST" else {})
        elif name in _TUPLES:
            stack.append(tuple(self.pop(_TUPLES[name])))
        elif name in ("TUPLE", "LIST"):
            stack.append(tuple(self.marked()) if name == "TUPLE" else self.marked())
        elif name in ("APPEND", "APPENDS"):
            self.extend(self.pop(1) if name == "APPEND" else self.marked())
        elif name == "DICT":
            items = self.marked()
            stack.append({})
            self.update(items)
        elif name in ("SETITEM", "SETITEMS"):
            self.update(self.pop(2) if name == "SETITEM" else self.marked())
        elif name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self.memory[len(self.memory) if name == "MEMOIZE" else argument] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(self.memory[argument])
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            self.name(*(argument.split(" ", 1) if name == "GLOBAL" else self.pop(2)))
        elif name == "REDUCE":
            self.call(*self.pop(2))
        elif name == "BUILD":
            (state,) = self.pop(1)
            stack[-1].state = state if isinstance(stack[-1], Described) else self.refuse("sets a state")
        else:
            self.refuse(f"has the instruction {name}")

    def pop(self, count: int) -> list[Any]:
        """The last `count` values, oldest first."""
        floor = self.marks[-1] if self.marks else 0
        if len(self.stack) - count < floor:
            self.refuse("takes more from its stack than is there")
        found = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return found

    def marked(self) -> list[Any]:
        """All values since the last mark."""
        return self.pop(len(self.stack) - self.marks.pop()) if self.marks else self.refuse("has no mark")

    def extend(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            self.refuse("appends to something else than a list")
        self.stack[-1].extend(items)

    def update(self, items: list[Any]) -> None:
        """Only strings are keys: to hash a tuple of tuples of tuples can take for ever."""
        if not isinstance(self.stack[-1], dict) or not all(isinstance(k, (str, bytes)) for k in items[::2]):
            self.refuse("has a dict whose keys are not strings")
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))

    def name(self, module: Any, name: Any) -> None:
        meaning = _NAMES.get((module, name)) if isinstance(module, str) and isinstance(name, str) else None
        if meaning is None:
            self.refuse(f"asks for {f'{module}.{name}'[:100]}, which is never loaded")
        self.stack.append(Name(meaning or ""))

    def call(self, what: Any, arguments: Any) -> None:
        meaning = what.meaning if isinstance(what, Name) else None
        if meaning in ("array", "dtype") and isinstance(arguments, tuple):
            self.stack.append(Described(meaning, arguments))
        elif meaning == "bytes" and arguments[1:] == ("latin1",):  # how Python 3 writes bytes up to protocol 2
            self.stack.append(arguments[0].encode("latin-1"))
        else:
            self.refuse("calls something")
