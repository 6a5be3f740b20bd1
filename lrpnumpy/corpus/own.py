"""What tells one rule of one's own from another: a digest of its code and of every value that the code uses.

A run that is resumed must go on by the rule it was begun with. A function's code says half of that; the rest is in
its default arguments, in the variables around it and in the globals it names. Where one of these is something that a
digest cannot cover, such as an object of a class, the rule cannot be told from another, and it says why.
"""

from __future__ import annotations

import dis
import hashlib
import sys
from dataclasses import fields
from functools import partial
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.methods import LRP
from lrpnumpy.rules import Rule, SumRule

# Functions of these are known by their names: they come with Python and NumPy, whose versions a run notes.
LIBRARIES = ("numpy", "numpy.linalg", "math", "cmath", "operator")
# Builtins through which a function reaches values that cannot be seen in its code.
OPAQUE = {"eval", "exec", "compile", "globals", "locals", "vars", "open", "input", "__import__", "id", "hash"}
_NUMBERS = "biufcSU"  # kinds of NumPy's dtypes whose bytes are their value
_MISSING = object()


class Identity(NamedTuple):
    """How a run notes its rule: None for a method by its name. `doubt` is why a rule cannot be told from another."""

    note: str | None
    doubt: str | None = None


class _CannotTell(Exception):
    """Something that a digest does not cover."""


def identity(given: Any, what: str = "rule") -> Identity:
    """The identity of a method or a tokenizer: one by its name, or one's own, a rule or a function."""
    own = {}
    if isinstance(given, (Rule, LRP)):
        own = {field.name: getattr(given, field.name) for field in fields(given) if field.init}
    if callable(given):
        own = {what: given}
    if not own:
        return Identity(None)
    digest = _Digest()
    try:
        for name, value in own.items():
            digest.add(value, name)
    except _CannotTell as error:
        return Identity(f"own {what} that cannot be told from another", str(error))
    except RecursionError:
        return Identity(f"own {what} that cannot be told from another", "its values are nested too deeply")
    return Identity(f"own {what}, sha256 {digest.state.hexdigest()}")


class _Digest:
    """A digest of values, each with its type; the same in every process of one Python version."""

    def __init__(self) -> None:
        self.state = hashlib.sha256()
        self._functions: list[FunctionType] = []  # those that were met: one may call itself

    def _put(self, kind: str, content: bytes = b"") -> None:
        self.state.update(f"{kind} {len(content)} ".encode() + content)

    def add(self, value: Any, where: str) -> None:
        """Add a value; `where` says what it is to the rule."""
        kind = type(value)
        if value is None or value is Ellipsis or kind in (bool, int, float, complex, str, bytes):
            self._put(kind.__name__, repr(value).encode("utf-8", "surrogatepass"))
        elif isinstance(value, np.generic) or kind is np.ndarray:
            if value.dtype.kind not in _NUMBERS:
                raise _CannotTell(f"{where} is an array of {value.dtype}")
            self._put(f"{kind.__name__} {value.dtype.str} {value.shape}", value.tobytes())
        elif kind in (tuple, list):
            self._put(f"{kind.__name__} of {len(value)}")
            for part in value:
                self.add(part, where)
        elif kind is dict:
            self._put("dict")
            self.add(list(value), where)
            self.add(list(value.values()), where)
        elif kind in (set, frozenset):
            self._set(value, where)
        elif kind is slice:
            self._put("slice")
            self.add((value.start, value.stop, value.step), where)
        elif name := _library_name(value):
            self._put("library", name.encode())
        elif kind is FunctionType:
            self._function(value)
        elif kind is partial:
            self._put("partial")
            self.add(value.func, where)
            self.add(value.args, f"an argument of {where}")
            self.add(value.keywords, f"an argument of {where}")
        elif isinstance(value, SumRule):
            self._sum_rule(value, where)
        elif kind is Rule:
            self._put("rule")
            self.add([getattr(value, field.name) for field in fields(value)], where)
        else:
            what = f"the module {value.__name__}" if isinstance(value, ModuleType) else f"of type {kind.__qualname__}"
            raise _CannotTell(f"{where} is {what}")

    def _sum_rule(self, rule: SumRule, where: str) -> None:
        """Its class, its fields and, of a custom class, its modes and functions."""
        self._put("sum rule", type(rule).__qualname__.encode())
        self.add(dict(vars(rule)), where)
        custom = [one for one in type(rule).__mro__ if not one.__module__.startswith(("lrpnumpy.", "builtins"))]
        if custom:
            self.add([rule.modes, rule.bias_modes, rule.eps], where)
        for one in custom:
            members = {name: member for name, member in vars(one).items() if not name.startswith("_")}
            self.add([member for member in members.values() if isinstance(member, FunctionType)], where)

    def _set(self, values: Any, where: str) -> None:
        """A set has no order: the digests of its members do."""
        digests = []
        for value in values:
            one = _Digest()
            one.add(value, where)
            digests.append(one.state.digest())
        self._put("set", b"".join(sorted(digests)))

    def _function(self, function: FunctionType) -> None:
        """Code, default arguments, variables from around the function, globals that it names."""
        if function in self._functions:
            self._put("function again", str(self._functions.index(function)).encode())
            return
        self._functions.append(function)
        name = function.__name__
        self._put("function")
        self._code(function.__code__, function)
        self.add(function.__defaults__, f"a default argument of {name}")
        self.add(function.__kwdefaults__, f"a default argument of {name}")
        self.add(vars(function), f"an attribute of {name}")
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                content = cell.cell_contents
            except ValueError:  # not assigned yet
                self._put("empty")
            else:
                self.add(content, f"the variable {variable} around {name}")

    def _code(self, code: CodeType, function: FunctionType) -> None:
        """A function's code, or that of a function inside it; not its name, nor where it stands."""
        self._put("code", code.co_code)
        self._put("exceptions", code.co_exceptiontable)
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        self.add((counts, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars), "its code")
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._code(constant, function)
            else:
                self.add(constant, f"a constant of {function.__name__}")
        self._names(code, function)

    def _names(self, code: CodeType, function: FunctionType) -> None:
        """The globals that a piece of code names, `a.b.c` as a whole where a and a.b are modules."""
        steps = list(dis.get_instructions(code))
        for k, step in enumerate(steps):
            kept = step.opname in ("STORE_DEREF", "DELETE_DEREF") and step.argval in function.__code__.co_freevars
            if step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL") or (kept and step.argval in code.co_freevars):
                raise _CannotTell(f"{function.__name__} changes {step.argval}, which outlives the call")
            if step.opname == "IMPORT_NAME" and step.argval not in LIBRARIES:
                raise _CannotTell(f"{function.__name__} imports {step.argval}")
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
                names = [step.argval]
                for after in steps[k + 1 :]:
                    if after.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
                        break
                    names.append(after.argval)
                self._global(names, function)

    def _global(self, names: list[str], function: FunctionType) -> None:
        first, *rest = names
        value = function.__globals__.get(first, _MISSING)
        if value is _MISSING:
            self._put("builtin", first.encode())
            if first in OPAQUE:
                raise _CannotTell(f"{function.__name__} calls {first}")
            return
        path = first
        for name in rest:
            if not isinstance(value, ModuleType):
                break
            if value.__name__ in LIBRARIES and not isinstance(getattr(value, name, None), ModuleType):
                self._put("library", f"{value.__name__}.{name}".encode())
                return
            value, path = getattr(value, name, _MISSING), f"{path}.{name}"
        if value is _MISSING:
            self._put("missing", path.encode())
        else:
            self.add(value, f"the global {path}")


def _library_name(value: Any) -> str | None:
    """`numpy.tanh` for what NumPy has by that name, `numpy` for NumPy; None for what is of no known library."""
    name = getattr(value, "__name__", None)
    if isinstance(value, ModuleType):
        return name if name in LIBRARIES else None
    for library in LIBRARIES:
        if isinstance(name, str) and getattr(sys.modules.get(library), name, None) is value:
            return f"{library}.{name}"
    return None
