"""What was probably meant: a call that has failed is looked at again, by the annotations of its function.

A public function trusts the types of its arguments, and so costs nothing where they are right. Where one is wrong,
something inside raises an AttributeError or a TypeError that helps nobody; `door` finds the argument that is not what
its annotation says, and says so. What functions and objects of the user's own raise is said to be theirs. An error that
none of these explains is left as it is.
"""

from __future__ import annotations

import builtins
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from itertools import islice
from traceback import walk_tb
from types import CodeType, NoneType, UnionType
from typing import Any, ClassVar, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

import numpy as np

from lrpnumpy.checks import LrpError, UserCodeError, is_number, shown

OURS = {"lrpnumpy", "numpy", "numba", "h5py", "matplotlib", "dask", *sys.stdlib_module_names}
LIBRARIES = {"pandas", "polars", "xarray", "torch", "keras", "tensorflow", "sklearn"}  # whose objects users hand in
SOME = 1000  # entries of a list that are looked at
P = ParamSpec("P")
R = TypeVar("R")


def door(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator of a public function: an argument of the wrong type, or that it does not have, is an LrpError."""

    flags = {name for name, hint in function.__annotations__.items() if hint in ("bool", "bool | None")}

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            for name in flags & kwargs.keys() if flags else ():  # "no" would count as true
                if not isinstance(kwargs[name], (bool, np.bool_, NoneType)):
                    raise TypeError
            return function(*args, **kwargs)
        except Exception as error:
            _explain(error, function, args, kwargs)
            raise

    return call


def _explain(error: Exception, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise an LrpError that says better what went wrong in a call, if there is anything to say."""
    what, hints = function.__name__, function.__annotations__
    signature = inspect.signature(function)
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError as wrong:
        takes = ", ".join(name for name in signature.parameters if name != "self")
        raise LrpError(f"{what}: {wrong}; its arguments are {takes or 'none'}.") from error
    if isinstance(error, LrpError):  # which says it better, unless it is about what a model was taken for
        hints = {name: hint for name, hint in hints.items() if hint == "Model"}
    _look_again(what, given, hints, function.__globals__, error, function.__annotations__)


def _look_again(
    what: str,
    given: Mapping[str, Any],
    hints: Mapping[str, Any],
    names: dict[str, Any],
    error: Exception | None,
    others: Mapping[str, Any] | None = None,
) -> None:
    """Raise an LrpError about the argument that is wrong, or about code of the user's that has raised the error."""
    look(what, given, hints, names, error, others)
    if error is not None and not isinstance(error, LrpError) and (name := _raised_by_user(error)):
        raise UserCodeError(
            f"{what}: {name}, which is not part of lrpnumpy, raised {type(error).__name__}: {error}."
        ) from error
    if isinstance(error, MemoryError):
        raise LrpError(f"{what} needs more memory than there is; pass less at a time. {error}") from error
    if error is not None and not isinstance(error, LrpError) and (name := _unreadable(given)):
        raise LrpError(
            f"{what}: {name} must be something that NumPy can read, got {_got(given[name])}, for which it raised "
            f"{type(error).__name__}; pass a NumPy array."
        ) from error
    if isinstance(error, OSError):  # of a file that the arguments name
        raise LrpError(f"{what}: {error.strerror or error}{_named(error.filename)}.") from error


def _unreadable(given: Mapping[str, Any]) -> str:
    """The argument that is an object of another library, or has one inside: not every tensor is an array."""
    for name, value in given.items():
        inside = [value]
        if isinstance(value, (list, tuple)):
            inside += value[:SOME]
        elif isinstance(value, dict):
            inside += islice(value.values(), SOME)
        for one in inside:
            if isinstance(one, memoryview) or type(one).__module__.partition(".")[0] in LIBRARIES:
                return name
    return ""


def _named(file: Any) -> str:
    return "" if file is None else f": {shown(os.fspath(file) if isinstance(file, os.PathLike) else file)}"


def _raised_by_user(error: Exception) -> str:
    """The function that has raised an error, if lrpnumpy was handed it, as such or as part of an object.

    An error of a class of the user's own was raised on purpose, and is left alone.
    """
    if type(error).__module__.partition(".")[0] not in OURS | LIBRARIES:
        return ""
    names = [(str(f.f_globals.get("__name__")), f.f_code.co_qualname) for f, _ in walk_tb(error.__traceback__)]
    last = max((k for k, (module, _) in enumerate(names) if module.partition(".")[0] == "lrpnumpy"), default=0)
    theirs = [name for module, name in names[last + 1 :] if module.partition(".")[0] not in OURS]
    return theirs[-1] if theirs else ""


def called(what: str, function: Callable[..., Any], *args: Any) -> Any:
    """What a function of the user's own gives; where it fails, an LrpError that says which and why."""
    try:
        return function(*args)
    except LrpError:
        raise
    except Exception as error:
        raise UserCodeError(f"{what} raised {type(error).__name__}: {error}.") from error


def record(check: Callable[[Any], None], kind: type) -> Callable[[Any], None]:
    """The same for the check of a record, whose fields are annotated in its class.

    What a check of ours has let pass must be what the annotations say.
    """

    @wraps(check)
    def call(self: Any) -> None:
        error = None
        try:
            check(self)
        except LrpError:
            raise
        except Exception as found:
            error = found
        if error is None and not kind.__module__.startswith("lrpnumpy."):
            return
        annotated = map(inspect.get_annotations, reversed(type(self).__mro__))
        hints = {name: hint for one in annotated for name, hint in one.items()}
        given = {name: getattr(self, name) for name in hints if name in vars(self)}
        _look_again(kind.__name__, given, hints, vars(sys.modules[kind.__module__]), error)
        if error is not None:
            raise error

    return call


def look(
    what: str,
    given: Mapping[str, Any],
    hints: Mapping[str, Any],
    names: dict[str, Any],
    error: Exception | None,
    others: Mapping[str, Any] | None = None,
) -> None:
    """Raise an LrpError about the first argument that is not what its annotation says, if there is one.

    `hints` are the annotations of those that may be wrong, `others` of all that they may be confused with.
    """
    kinds = {name: _kind(hint, names) for name, hint in (others or hints).items() if name in given}
    for name, kind in kinds.items():
        if name in hints and not _fits(given[name], kind):
            try:
                advice = _advice(name, given, kinds)
            except Exception:  # of an object of the user's own that cannot be looked at
                advice = "."
            raise LrpError(f"{what}: {name} must be {wanted(kind)}, got {_got(given[name])}{advice}") from error


class _Scope(dict[str, Any]):
    """Names of a module; one that is imported for types alone stands for any class of that name."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name) if hasattr(builtins, name) else type(name, (), {"any_module": True})


@cache
def _compiled(annotation: str) -> CodeType:
    return compile(annotation, "<annotation>", "eval")


def _kind(annotation: Any, names: dict[str, Any]) -> Any:
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(_compiled(annotation), {}, _Scope(names))  # of our own source
    except (TypeError, AttributeError):
        return Any


def _fits(value: Any, kind: Any) -> bool:
    """`fits`, which an object of the user's own does not that cannot even be looked at."""
    try:
        return fits(value, kind)
    except Exception:
        return False


def fits(value: Any, kind: Any) -> bool:
    """Whether a value is what an annotation says; an annotation that is not understood fits everything."""
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if kind is Any:
        return True
    if origin in (Union, UnionType):
        if any(get_origin(one) is os.PathLike for one in inner) and isinstance(value, str):
            return "\0" not in value and not any("\ud800" <= c < "\udc80" for c in value)
        return any(fits(value, one) for one in inner)
    if origin is Literal:
        return isinstance(value, (str, int, NoneType)) and value in inner
    if kind in (None, NoneType):
        return value is None
    if kind is bool:
        return isinstance(value, (bool, np.bool_))
    if kind in (int, float):
        return is_number(value, kind)
    if kind is np.ndarray:
        return _is_array(value)
    if origin in (Sequence, tuple, list, Iterable):
        return _is_list(value, origin, inner)
    if origin is Callable:
        return callable(value)
    if origin is ClassVar or not isinstance(origin, type):
        return True
    if hasattr(origin, "any_module"):
        return origin.__name__ in [one.__name__ for one in type(value).__mro__]
    return isinstance(value, origin)


def _is_array(value: Any) -> bool:
    try:
        return not isinstance(value, np.ma.MaskedArray) and np.asarray(value).dtype.kind in "fiu"
    except (ValueError, TypeError, RecursionError, AttributeError):
        return False


def _is_list(value: Any, origin: Any, inner: tuple[Any, ...]) -> bool:
    if isinstance(value, (str, bytes, bytearray, memoryview, Mapping)) or (
        isinstance(value, np.ndarray) and not value.ndim
    ):
        return False
    if not hasattr(value, "__iter__") or (origin is not Iterable and not hasattr(value, "__getitem__")):
        return False
    if not inner or not hasattr(value, "__len__"):
        return True
    entries = list(islice(value, SOME))
    if origin is tuple and inner[-1] is not Ellipsis:
        return len(entries) == len(inner) and all(map(fits, entries, inner))
    return all(fits(entry, inner[0]) for entry in entries)


WORDS: dict[Any, str] = {
    bool: "true or false", int: "a whole number", float: "a finite number", str: "a string", None: "None",
    NoneType: "None", np.ndarray: "an array of numbers", Mapping: "a dict", Callable: "a function",
    os.PathLike: "a path",
}  # fmt: skip


def wanted(kind: Any) -> str:
    """An annotation in words."""
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(wanted, inner)))
    if origin is Literal:
        return f"one of {', '.join(map(repr, inner))}"
    if origin in (Sequence, tuple, list, Iterable):
        entries = [one for one in inner if one is not Ellipsis]
        return "a list" + (f" of which each is {wanted(entries[0])}" if len({*entries}) == 1 else "")
    name = getattr(origin, "__name__", str(origin))
    return WORDS.get(origin) or f"a{'n' if name[:1] in 'AEIOUL' and name != 'Layer' else ''} {name}"


def _got(value: Any) -> str:
    return shown(value) if isinstance(value, (str, bytes, int, float, NoneType, np.ndarray)) else type(value).__name__


def _advice(name: str, given: Mapping[str, Any], kinds: Mapping[str, Any]) -> str:
    """The end of an error: what to try."""
    value, kind = given[name], kinds[name]
    for other, its in kinds.items():
        if other != name and given[other] is not None and _fits(given[other], kind) and not _alike(its, kind):
            return f"; are {name} and {other} swapped?"
    if getattr(kind, "__name__", "") == "Model":
        if isinstance(value, (str, os.PathLike)):
            return f"; open a file by lrp.load({str(value)[:60]!r})."
        if hasattr(value, "state_dict"):
            return "; make it one by lrp.from_torch."
        if hasattr(value, "get_config"):
            return "; make it one by lrp.from_keras."
    if kind is int and isinstance(value, float) and value.is_integer():
        return f"; is it {int(value)}?"
    return "."


def _alike(one: Any, other: Any) -> bool:
    """Whether two annotations take the same: then nobody can tell that they are swapped."""
    return one is not Any and (one == other or wanted(one) == wanted(other))
