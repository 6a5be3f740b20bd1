"""Pickles, run by an interpreter that builds plain data and inert records, and calls and imports nothing.

A pickle is a program that may call anything. Here each of its instructions does something to a stack of numbers,
strings, lists, tuples and dicts. A class or a function is a `Name`, which is only its name; what a pickle calls, or
makes an object of, becomes a `Pickled` of that name, its arguments and its state. Long strings stay where they are.
"""

from __future__ import annotations

import codecs
import struct
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from lrpnumpy.files.safe import Source, count_of, kind_of, shape_text

_STEPS = 512  # instructions between two looks at the budget
_LONG = 4096  # bytes of a string from which on it stays where it is
_INTEGER = 32  # bytes of a whole number, at the most
_LINE = 4096  # bytes of a number or a name that is written out

_ARRAYS = {  # what a pickle of NumPy's arrays asks for, and nothing else
    "numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct", "numpy.ndarray", "numpy.dtype",
    "_codecs.encode",
}  # fmt: skip
# No network needs these. Nothing here calls them, but a file that asks for one is malicious.
_HARMFUL = {
    "os", "posix", "nt", "subprocess", "sys", "pty", "socket", "shutil", "runpy", "importlib", "code", "ctypes",
    "webbrowser", "asyncio", "multiprocessing", "pickle", "marshal", "types", "urllib", "http", "requests",
}  # fmt: skip
_HARMFUL_BUILTINS = {"eval", "exec", "compile", "open", "__import__", "breakpoint", "input", "globals", "exit"}


class Name:
    """A class or a function that a pickle refers to: its name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Pickled:
    """An object as described by a pickle: the name of its class, arguments, state, items and entries."""

    __slots__ = ("arguments", "entries", "items", "name", "state")

    def __init__(self, name: str, arguments: Any = ()) -> None:
        self.name, self.arguments = name, arguments
        self.state: Any = None
        self.items: list[Any] = []
        self.entries: dict[Any, Any] = {}


class LongText:
    """A long string or long bytes, still in the file."""

    __slots__ = ("data", "is_text")

    def __init__(self, data: memoryview, is_text: bool) -> None:
        self.data, self.is_text = data, is_text


def text(value: Any) -> str:
    """A short string, also where Python 2 wrote it as bytes."""
    if not isinstance(value, (str, bytes)):
        raise ValueError(f"must be a string, got {kind_of(value)}")
    return value.decode("utf-8") if isinstance(value, bytes) else value


def entries(value: Any) -> dict[Any, Any] | None:
    """The contents of a dict, also of a subclass such as OrderedDict; None for anything else."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, Pickled):
        return None
    if value.name == "collections.OrderedDict" and isinstance(value.arguments, tuple) and value.arguments:
        pairs = value.arguments[0]  # as Python 2 wrote it: a list of pairs
        if isinstance(pairs, list) and all(isinstance(p, (list, tuple)) and len(p) == 2 for p in pairs):
            return {key: item for key, item in pairs if isinstance(key, (str, bytes))} | value.entries
    if value.entries or value.name.rpartition(".")[2] in ("OrderedDict", "defaultdict", "dict"):
        return value.entries
    return None


def array(source: Source, where: str, value: Any) -> np.ndarray:
    """An array of floats, float32 or float64, that a pickle describes, if shape, type and bytes go together."""
    with source.guard(where, "is not an array of floats"):
        if not isinstance(value, Pickled) or not isinstance(value.state, tuple) or len(value.state) != 5:
            raise source.error(where, f"must be an array, got {kind_of(value)}")
        _, shape, dtype, fortran, data = value.state
        code, order = text(dtype.arguments[0]), text(dtype.state[1])
        kind = np.dtype({"f2": np.float16, "f4": np.float32, "f8": np.float64}[code])
        kind = kind.newbyteorder(">" if order == ">" else "<")
        stored = _bytes(source, where, data)
        if count_of(source, where, shape) * kind.itemsize != len(stored) or 0 in shape:
            raise source.error(
                where, f"declares shape {shape_text(shape)}, which does not fit its {len(stored):,} bytes"
            )
        found = np.frombuffer(stored, kind).reshape(shape, order="F" if fortran else "C")
        return found.astype(np.result_type(kind, np.float32))


def _bytes(source: Source, where: str, value: Any) -> bytes | memoryview:
    """Bytes, also as Python 3 writes them up to protocol 2: a string of latin-1."""
    if isinstance(value, Pickled) and value.name == "_codecs.encode" and value.arguments[1:] == ("latin1",):
        value = value.arguments[0]
        if isinstance(value, LongText) and value.is_text:
            source.spend(where, len(value.data))
            return str(value.data, "utf-8").encode("latin-1")
        return text(value).encode("latin-1")
    if isinstance(value, LongText) and not value.is_text:
        return value.data
    if isinstance(value, bytes):
        return value
    raise source.error(where, f"must hold bytes, got {kind_of(value)}")


def plain(source: Source, where: str, content: bytes) -> Any:
    """The data in a pickle of plain data and arrays of NumPy."""
    value, _ = run(source, where, content, names=_ARRAYS)
    return value


def run(
    source: Source,
    where: str,
    content: bytes | memoryview,
    start: int = 0,
    *,
    names: set[str] | None = None,
    persistent: Callable[[Any], Any] | None = None,
) -> tuple[Any, int]:
    """What the pickle at `start` describes, and where it ends.

    `names` are those that it may use, all if None. `persistent` maps references to values outside the
    pickle.
    """
    machine = _Machine(source, where, memoryview(content), start, names, persistent)
    with source.guard(where, "is not a pickle of plain data"):
        return machine.run(), machine.at


class _Machine:
    """The stack, the marks on it, and the memory of a pickle."""

    def __init__(
        self, source: Source, where: str, content: memoryview, start: int, names: Any, persistent: Any
    ) -> None:
        self.source, self.where, self.content, self.at = source, where, content, start
        self.names, self.persistent = names, persistent
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memory: dict[int, Any] = {}

    def refuse(self, reason: str) -> NoReturn:
        if self.names is not None:
            reason += "; only arrays, strings, numbers, lists and dicts are read"
        raise self.source.error(self.where, reason)

    def run(self) -> Any:
        """All instructions up to STOP."""
        visit, content, size, steps = self.source.budget.visit, self.content, len(self.content), 0
        while self.at < size:
            code = content[self.at]
            self.at += 1
            steps += 1
            if not steps % _STEPS:
                visit(self.where, _STEPS)
            if code == 0x2E:  # STOP
                return self.pop(1)[0]
            instruction = _INSTRUCTIONS.get(code)
            if instruction is None:
                self.refuse(f"has the instruction {code:#04x}, which is not understood")
            instruction(self)
        self.refuse("ends before its pickle does; it may be truncated")

    # --------------------------------------------------------------------------------------------- arguments

    def take(self, length: int) -> memoryview:
        """The next `length` bytes."""
        if length > len(self.content) - self.at:
            self.refuse(f"needs {length:,} bytes, of which {len(self.content) - self.at:,} are there")
        self.at += length
        return self.content[self.at - length : self.at]

    def number(self, width: int) -> int:
        """A whole number that is not negative."""
        return int.from_bytes(self.take(width), "little")

    def line(self) -> str:
        """The rest of the line as a string."""
        return self.raw_line().decode("utf-8")

    def raw_line(self) -> bytes:
        """The rest of the line, which is short."""
        found = bytes(self.content[self.at : self.at + _LINE])
        end = found.find(b"\n")
        if end < 0:
            self.refuse("has a line that does not end")
        self.at += end + 1
        return found[:end]

    # ------------------------------------------------------------------------------------------------- stack

    def push(self, value: Any) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

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
        if not self.marks:
            self.refuse("has no mark")
        start = self.marks.pop()
        found = self.stack[start:]
        del self.stack[start:]
        return found

    def top(self) -> Any:
        """The last value, which stays."""
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            self.refuse("takes more from its stack than is there")
        return self.stack[-1]

    # ---------------------------------------------------------------------------------------------- meanings

    def integer(self, data: memoryview) -> int:
        """A whole number of any length, within reason."""
        if len(data) > _INTEGER:
            self.refuse(f"has a whole number of {len(data):,} bytes")
        return int.from_bytes(data, "little", signed=True)

    def written(self) -> Any:
        """A number that is written out; 00 and 01 are False and True."""
        line = self.line().removesuffix("L")
        if line in ("00", "01"):
            return line == "01"
        if len(line) > 2 * _INTEGER:
            self.refuse(f"has a whole number of {len(line):,} digits")
        return int(line)

    def string(self, length: int, kind: str) -> Any:
        """A string or bytes; Python 2 did not tell them apart."""
        data = self.take(length)
        if length > _LONG:
            return LongText(data, kind == "text")
        return str(data, "utf-8", "surrogatepass") if kind == "text" else bytes(data)

    def extend(self, items: list[Any]) -> None:
        """Append to the list, or to the record, on top of the stack."""
        target = self.top()
        if not isinstance(target, (list, Pickled)):
            self.refuse("appends to something else than a list")
        (target if isinstance(target, list) else target.items).extend(items)

    def update(self, items: list[Any]) -> None:
        """Set entries of the dict on top of the stack.

        A key is a string or a number. To hash a tuple of tuples of tuples can take for ever: such entries are left out.
        """
        target = self.top()
        if not isinstance(target, (dict, Pickled)) or len(items) % 2:
            self.refuse("sets entries of something else than a dict")
        found = target if isinstance(target, dict) else target.entries
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, (str, bytes, int, float, type(None))):
                if self.names is not None:
                    self.refuse("has a dict whose keys are not strings")
                continue
            if key in found:
                self.refuse(f"has the key {kind_of(key)} twice in one dict")
            found[key] = value

    def name(self, module: Any, name: Any) -> Name:
        """A class or function, which stays a name."""
        if not isinstance(module, (str, bytes)) or not isinstance(name, (str, bytes)):
            self.refuse("asks for something that has no name")
        module, name = text(module), text(name)
        whole = f"{module}.{name}"
        if self.names is not None and whole not in self.names:
            self.refuse(f"asks for {whole[:100]}, which is never loaded")
        builtin = module in ("builtins", "__builtin__") and name.split(".")[0] in _HARMFUL_BUILTINS
        if builtin or module.split(".")[0] in _HARMFUL:
            self.refuse(f"asks for {whole[:100]}, which no network needs: the file is malicious; nothing of it was run")
        return Name(whole)

    def made(self, what: Any, arguments: Any) -> Pickled:
        """What comes of calling something: a record of it."""
        if not isinstance(what, (Name, Pickled)) or not isinstance(arguments, tuple):
            self.refuse("calls something that is not a class or function")
        return Pickled(what.name, arguments)

    def build(self) -> None:
        """Give the object on top of the stack its state."""
        (state,) = self.pop(1)
        target = self.top()
        if not isinstance(target, Pickled):
            self.refuse("sets the state of something that has none")
        target.state = state

    def outside(self, identity: Any) -> Any:
        """A reference to something outside the pickle."""
        if self.persistent is None:
            self.refuse("refers to something outside itself")
        return self.persistent(identity)

    def remembered(self, key: int) -> Any:
        """A value from the memory."""
        if key not in self.memory:
            self.refuse("remembers something that it has not seen")
        return self.memory[key]

    def drop(self) -> None:
        """Take away the last value, or the last mark."""
        if self.marks and self.marks[-1] == len(self.stack):
            self.marks.pop()
        else:
            self.pop(1)


def _instance(machine: _Machine) -> Pickled:
    """INST: module, name, and everything since the mark."""
    name = machine.name(machine.line(), machine.line())
    return machine.made(name, tuple(machine.marked()))


def _object(machine: _Machine) -> Pickled:
    """OBJ: a class and its arguments since the mark."""
    found = machine.marked()
    return machine.made(found[0] if found else None, tuple(found[1:]))


def _pairs(machine: _Machine, items: list[Any]) -> None:
    machine.push({})
    machine.update(items)


def _written_bytes(machine: _Machine) -> bytes:
    """STRING: as Python 2 showed it, in quotes, with escapes."""
    line = machine.raw_line()
    if len(line) < 2 or line[0] != line[-1] or line[:1] not in (b"'", b'"'):
        machine.refuse("has a string without quotes")
    return codecs.escape_decode(line[1:-1])[0]


def _double(machine: _Machine) -> float:
    return struct.unpack(">d", machine.take(8))[0]


def _set(machine: _Machine, items: list[Any]) -> Pickled:
    found = Pickled("builtins.set")
    found.items = items
    return found


_Instruction = Callable[[_Machine], Any]
_INSTRUCTIONS: dict[int, _Instruction] = {
    0x80: lambda m: m.take(1),  # PROTO
    0x95: lambda m: m.take(8),  # FRAME
    # numbers and constants
    ord("N"): lambda m: m.push(None),
    0x88: lambda m: m.push(True),
    0x89: lambda m: m.push(False),
    ord("I"): lambda m: m.push(m.written()),
    ord("L"): lambda m: m.push(m.written()),
    ord("J"): lambda m: m.push(m.integer(m.take(4))),
    ord("K"): lambda m: m.push(m.number(1)),
    ord("M"): lambda m: m.push(m.number(2)),
    0x8A: lambda m: m.push(m.integer(m.take(m.number(1)))),
    0x8B: lambda m: m.push(m.integer(m.take(m.number(4)))),
    ord("F"): lambda m: m.push(float(m.line())),
    ord("G"): lambda m: m.push(_double(m)),
    # strings and bytes
    ord("V"): lambda m: m.push(m.raw_line().decode("raw-unicode-escape")),
    ord("X"): lambda m: m.push(m.string(m.number(4), "text")),
    0x8C: lambda m: m.push(m.string(m.number(1), "text")),
    0x8D: lambda m: m.push(m.string(m.number(8), "text")),
    ord("S"): lambda m: m.push(_written_bytes(m)),
    ord("T"): lambda m: m.push(m.string(m.number(4), "bytes")),
    ord("U"): lambda m: m.push(m.string(m.number(1), "bytes")),
    ord("B"): lambda m: m.push(m.string(m.number(4), "bytes")),
    ord("C"): lambda m: m.push(m.string(m.number(1), "bytes")),
    0x8E: lambda m: m.push(m.string(m.number(8), "bytes")),
    0x96: lambda m: m.push(m.string(m.number(8), "bytes")),
    # lists, tuples, dicts, sets
    ord("("): lambda m: m.marks.append(len(m.stack)),
    ord("0"): lambda m: m.drop(),
    ord("1"): lambda m: m.marked(),
    ord("2"): lambda m: m.push(m.top()),
    ord("]"): lambda m: m.push([]),
    ord("l"): lambda m: m.push(m.marked()),
    ord("a"): lambda m: m.extend(m.pop(1)),
    ord("e"): lambda m: m.extend(m.marked()),
    ord(")"): lambda m: m.push(()),
    0x85: lambda m: m.push(tuple(m.pop(1))),
    0x86: lambda m: m.push(tuple(m.pop(2))),
    0x87: lambda m: m.push(tuple(m.pop(3))),
    ord("t"): lambda m: m.push(tuple(m.marked())),
    ord("}"): lambda m: m.push({}),
    ord("d"): lambda m: _pairs(m, m.marked()),
    ord("s"): lambda m: m.update(m.pop(2)),
    ord("u"): lambda m: m.update(m.marked()),
    0x8F: lambda m: m.push(_set(m, [])),
    0x90: lambda m: m.extend(m.marked()),
    0x91: lambda m: m.push(_set(m, m.marked())),
    # memory
    ord("p"): lambda m: m.memory.__setitem__(m.written(), m.top()),
    ord("q"): lambda m: m.memory.__setitem__(m.number(1), m.top()),
    ord("r"): lambda m: m.memory.__setitem__(m.number(4), m.top()),
    0x94: lambda m: m.memory.__setitem__(len(m.memory), m.top()),
    ord("g"): lambda m: m.push(m.remembered(m.written())),
    ord("h"): lambda m: m.push(m.remembered(m.number(1))),
    ord("j"): lambda m: m.push(m.remembered(m.number(4))),
    # names, and what is made of them
    ord("c"): lambda m: m.push(m.name(m.line(), m.line())),
    0x93: lambda m: m.push(m.name(*m.pop(2))),
    ord("R"): lambda m: m.push(m.made(*m.pop(2))),
    0x81: lambda m: m.push(m.made(*m.pop(2))),
    0x92: lambda m: m.push(m.made(*m.pop(3)[:2])),
    ord("i"): lambda m: m.push(_instance(m)),
    ord("o"): lambda m: m.push(_object(m)),
    ord("b"): lambda m: m.build(),
    ord("P"): lambda m: m.push(m.outside(m.line())),
    ord("Q"): lambda m: m.push(m.outside(m.pop(1)[0])),
}
