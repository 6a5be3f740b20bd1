"""Pickles, run by an interpreter that builds plain data and inert records, and calls and imports nothing.

A pickle is a program that may call anything. Here each of its instructions does something to a stack of numbers,
strings, lists, tuples and dicts. A class or a function is a `Name`, which is only its name; what a pickle calls, or
makes an object of, becomes a `Pickled` of that name, its arguments and its state. Python's `pickletools`, which only
describes pickles, knows the instructions and reads the argument of each.
"""

from __future__ import annotations

import codecs
import pickletools
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import numpy as np

from lrpnumpy.files.safe import Source, count_of, kind_of, shape_text

_STEPS = 512  # instructions between two looks at the budget
_LONG = 4096  # bytes of a string that count as held in memory
_INTEGER = 2**256  # whole numbers are smaller
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


def _bytes(source: Source, where: str, value: Any) -> bytes:
    """Bytes, also as Python 3 writes them up to protocol 2: a string of latin-1."""
    if isinstance(value, Pickled) and value.name == "_codecs.encode" and value.arguments[1:] == ("latin1",):
        return text(value.arguments[0]).encode("latin-1")
    if not isinstance(value, bytes):
        raise source.error(where, f"must hold bytes, got {kind_of(value)}")
    return value


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
            if code == _STOP:
                return self.pop(1)[0]
            if code not in _INSTRUCTIONS:
                self.refuse(f"has the instruction {code:#04x}, which is not understood")
            argument, instruction = _INSTRUCTIONS[code]
            if argument is None:
                instruction(self)
            else:
                instruction(self, argument(self))
        self.refuse("ends before its pickle does; it may be truncated")

    # --------------------------------------------------------------- arguments, as `pickletools` reads a file

    def read(self, length: int) -> bytes:
        """The next `length` bytes."""
        if length > len(self.content) - self.at:
            self.refuse(f"needs {length:,} bytes, of which {len(self.content) - self.at:,} are there")
        if length > _LONG:
            self.source.budget.hold(self.where, length)
        self.at += length
        return bytes(self.content[self.at - length : self.at])

    def readline(self) -> bytes:
        """The rest of the line with its end; nothing where the line is too long."""
        found = bytes(self.content[self.at : self.at + _LINE])
        length = found.find(b"\n") + 1
        self.at += length
        return found[:length]

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

    def integer(self, value: int) -> None:
        """Put a whole number on the stack: of any length, within reason."""
        if abs(value) > _INTEGER:
            self.refuse(f"has a whole number of {value.bit_length() // 8:,} bytes")
        self.push(value)

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

    def outside(self, identity: Any) -> None:
        """A reference to something outside the pickle."""
        if self.persistent is None:
            self.refuse("refers to something outside itself")
        self.push(self.persistent(identity))

    def remember(self, key: int) -> None:
        """Keep the last value in the memory."""
        self.memory[key] = self.top()

    def recall(self, key: int) -> None:
        """Put a value from the memory on the stack."""
        if key not in self.memory:
            self.refuse("remembers something that it has not seen")
        self.push(self.memory[key])

    def drop(self) -> None:
        """Take away the last value, or the last mark."""
        if self.marks and self.marks[-1] == len(self.stack):
            self.marks.pop()
        else:
            self.pop(1)

    def object(self) -> None:
        """A class and its arguments since the mark."""
        what, *arguments = self.marked() or [None]
        self.push(self.made(what, tuple(arguments)))

    def set_of(self, items: list[Any]) -> None:
        """A set, which stays a record."""
        self.push(Pickled("builtins.set"))
        self.extend(items)

    def dict_of(self, items: list[Any]) -> None:
        """A dict of keys and values that take turns."""
        self.push({})
        self.update(items)


_M = _Machine
_MEANINGS: dict[str, Callable[..., Any]] = {  # of the instructions, by the names that `pickletools` has for them
    **dict.fromkeys(("PROTO", "FRAME"), lambda m, _: None),
    # numbers, constants, strings and bytes; Python 2 did not tell the last two apart
    **dict.fromkeys(("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"), _M.integer),
    **dict.fromkeys(("FLOAT", "BINFLOAT", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"), _M.push),
    **dict.fromkeys(("SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8"), lambda m, data: m.push(bytes(data))),
    **dict.fromkeys(("SHORT_BINSTRING", "BINSTRING"), lambda m, data: m.push(data.encode("latin-1"))),
    "STRING": lambda m, data: m.push(codecs.escape_decode(data)[0]),  # as Python 2 showed it, with escapes
    "NONE": lambda m: m.push(None),
    "NEWTRUE": lambda m: m.push(True),
    "NEWFALSE": lambda m: m.push(False),
    # lists, tuples, dicts, sets
    "MARK": lambda m: m.marks.append(len(m.stack)),
    "POP": _M.drop,
    "POP_MARK": _M.marked,
    "DUP": lambda m: m.push(m.top()),
    "EMPTY_LIST": lambda m: m.push([]),
    "LIST": lambda m: m.push(m.marked()),
    "APPEND": lambda m: m.extend(m.pop(1)),
    "APPENDS": lambda m: m.extend(m.marked()),
    "EMPTY_TUPLE": lambda m: m.push(()),
    "TUPLE1": lambda m: m.push(tuple(m.pop(1))),
    "TUPLE2": lambda m: m.push(tuple(m.pop(2))),
    "TUPLE3": lambda m: m.push(tuple(m.pop(3))),
    "TUPLE": lambda m: m.push(tuple(m.marked())),
    "EMPTY_DICT": lambda m: m.push({}),
    "DICT": lambda m: m.dict_of(m.marked()),
    "SETITEM": lambda m: m.update(m.pop(2)),
    "SETITEMS": lambda m: m.update(m.marked()),
    "EMPTY_SET": lambda m: m.set_of([]),
    "ADDITEMS": lambda m: m.extend(m.marked()),
    "FROZENSET": lambda m: m.set_of(m.marked()),
    # memory
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), _M.remember),
    "MEMOIZE": lambda m: m.remember(len(m.memory)),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _M.recall),
    # names, and what is made of them
    "GLOBAL": lambda m, both: m.push(m.name(*both.split(" ", 1))),
    "STACK_GLOBAL": lambda m: m.push(m.name(*m.pop(2))),
    **dict.fromkeys(("REDUCE", "NEWOBJ"), lambda m: m.push(m.made(*m.pop(2)))),
    "NEWOBJ_EX": lambda m: m.push(m.made(*m.pop(3)[:2])),
    "INST": lambda m, both: m.push(m.made(m.name(*both.split(" ", 1)), tuple(m.marked()))),
    "OBJ": _M.object,
    "BUILD": _M.build,
    "PERSID": _M.outside,
    "BINPERSID": lambda m: m.outside(m.pop(1)[0]),
}
_READERS: dict[str, Any] = {"STRING": partial(pickletools.read_stringnl, decode=False)}  # whose escapes may be any byte
_STOP = ord(".")
_INSTRUCTIONS: dict[int, tuple[Callable[[_Machine], Any] | None, Callable[..., Any]]] = {
    ord(one.code): (_READERS.get(one.name, one.arg and one.arg.reader), _MEANINGS[one.name])
    for one in pickletools.opcodes
    if one.name in _MEANINGS
}
