"""What was probably meant: a call that has failed is looked at again.

A public function checks its arguments where it uses them. Where a call fails, `door` asks three questions: was a path,
or a module of a framework, passed as a model; are two arguments swapped; has code of the user raised the error? What
remains are errors of Python and NumPy about an argument, which is named. An error of which no argument can be the cause
is a bug in lrpnumpy, and is not changed.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from traceback import walk_tb
from typing import Any, ParamSpec, TypeVar

import numpy as np

from lrpnumpy.checks import LrpError, UserCodeError, is_number, shown

OURS = {"lrpnumpy", "numpy", "numba", "h5py", "matplotlib", "dask", *sys.stdlib_module_names}
LIBRARIES = {"pandas", "polars", "xarray", "torch", "keras", "tensorflow", "sklearn"}  # whose objects users pass in
P = ParamSpec("P")
R = TypeVar("R")


def _is_array(value: Any) -> bool:
    try:
        return not isinstance(value, np.ma.MaskedArray) and np.asarray(value).dtype.kind in "fiu"
    except Exception:  # ragged lists, and objects that fail when they are looked at
        return False


# Annotations that say all about a value: a test of it, and the annotation in words.
PLAIN: dict[str, tuple[Callable[[Any], bool], str]] = {
    "bool": (lambda value: isinstance(value, (bool, np.bool_)), "true or false"),
    "int": (lambda value: is_number(value, int), "a whole number"),
    "float": (lambda value: is_number(value, float), "a finite number"),
    "str": (lambda value: isinstance(value, str), "a string"),
    "os.PathLike[str]": (lambda value: isinstance(value, os.PathLike), "a path"),
    "np.ndarray": (_is_array, "an array of numbers"),
    "None": (lambda value: value is None, "None"),
}


def door(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator of a public function: what is wrong with its arguments is an LrpError."""
    flags = {name: hint for name, hint in function.__annotations__.items() if hint in ("bool", "bool | None")}

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            if flags and kwargs:  # overwrite="no" would count as true
                check_plain(function.__name__, kwargs, flags)
            return function(*args, **kwargs)
        except Exception as error:
            _explain(error, function, args, kwargs)
            raise

    return call


def _explain(error: Exception, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise an LrpError that explains better what went wrong in a call, if possible."""
    what, hints = function.__name__, function.__annotations__
    signature = inspect.signature(function)
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError as wrong:
        takes = ", ".join(name for name in signature.parameters if name != "self")
        raise LrpError(f"{what}: {wrong}; its arguments are {takes or 'none'}.") from error
    for name, value in given.items():
        if hints.get(name) == "Model" and not _is_model(value):
            got = shown(value) if isinstance(value, (str, np.ndarray)) else type(value).__name__
            raise LrpError(f"{what}: {name} must be a Model, got {got}{_advice(name, given)}") from error
    if not isinstance(error, LrpError):
        _find_cause(what, error, given, hints)


def _is_model(value: Any) -> bool:
    return "Model" in [kind.__name__ for kind in type(value).__mro__]


def _advice(name: str, given: Mapping[str, Any]) -> str:
    """What to do about an argument that should be a model."""
    value = given[name]
    for other, its in given.items():
        if _is_model(its):
            return f"; are {name} and {other} swapped?"
    if isinstance(value, (str, Path)):
        return f"; open a file by lrp.load({str(value)[:60]!r})."
    for attribute, maker in (("state_dict", "from_torch"), ("get_config", "from_keras")):
        if hasattr(type(value), attribute):
            return f"; make it one by lrp.{maker}."
    return "."


def _find_cause(what: str, error: Exception, given: Mapping[str, Any], hints: Mapping[str, Any]) -> None:
    """Raise an LrpError about the code or the argument of the user that has caused an error of Python or NumPy."""
    if type(error).__module__.partition(".")[0] not in OURS | LIBRARIES:  # raised on purpose, such as to stop a run
        return
    check_plain(what, given, hints, error)
    reason = f"{type(error).__name__}: {error}"
    if name := _raised_by_user(error):
        raise UserCodeError(f"{what}: {name}, which is not part of lrpnumpy, raised {reason}.") from error
    if isinstance(error, MemoryError):
        raise LrpError(f"{what} needs more memory than there is; pass less at a time. {error}") from error
    if isinstance(error, OSError):
        raise LrpError(f"{what} failed, because of a file or a device: {reason}.") from error
    suspects = [(name, value) for name, value in given.items() if name != "self" and not _is_checked(hints.get(name))]
    suspects.sort(key=lambda suspect: type(suspect[1]).__name__ not in reason)  # the one in the error first
    for frame, _ in reversed([*walk_tb(error.__traceback__)]):  # the innermost that has one of them
        for name, value in suspects:
            if any(value is local for local in frame.f_locals.values()):
                raise LrpError(f"{what}: {name} cannot be used, got {shown(value)}: {reason}.") from error


def _is_checked(hint: Any) -> bool:
    """Whether values of this annotation that have passed their check are always right; not every path is."""
    if not isinstance(hint, str):  # without an annotation
        return False
    return hint == "Model" or {*hint.split(" | ")} <= PLAIN.keys() - {"os.PathLike[str]"}


def check_plain(what: str, given: Mapping[str, Any], hints: Mapping[str, Any], error: Exception | None = None) -> None:
    """Raise an LrpError about the first value that does not fit its plain annotation, if there is one."""
    for name, value in given.items():
        hint = str(hints.get(name, "")).split(" | ")
        if {*hint} <= PLAIN.keys() and not any(PLAIN[kind][0](value) for kind in hint):
            wanted = " or ".join(PLAIN[kind][1] for kind in hint)
            raise LrpError(f"{what}: {name} must be {wanted}, got {shown(value)}.") from error


def _raised_by_user(error: Exception) -> str:
    """The function that has raised an error, if lrpnumpy was handed it, as such or as part of an object."""
    names = [(str(f.f_globals.get("__name__")), f.f_code.co_qualname) for f, _ in walk_tb(error.__traceback__)]
    last = max((k for k, (module, _) in enumerate(names) if module.partition(".")[0] == "lrpnumpy"), default=0)
    theirs = [name for module, name in names[last + 1 :] if module.partition(".")[0] not in OURS]
    return theirs[-1] if theirs else ""


def called(what: str, function: Callable[..., Any], *args: Any) -> Any:
    """The result of a user's function; if it fails, an LrpError with its name and the reason."""
    try:
        return function(*args)
    except LrpError:
        raise
    except Exception as error:
        raise UserCodeError(f"{what} raised {type(error).__name__}: {error}.") from error


def record(check: Callable[[Any], None], kind: type) -> Callable[[Any], None]:
    """The same for the check of a record, whose fields are annotated in its class.

    Values that pass the checks must fit their plain annotations.
    """

    @wraps(check)
    def call(self: Any) -> None:
        hints: dict[str, Any] = {}
        for base in reversed(type(self).__mro__):
            hints |= inspect.get_annotations(base)
        try:
            check(self)
        except LrpError:
            raise
        except Exception as error:
            given = {name: vars(self)[name] for name in hints if name in vars(self)}
            _find_cause(type(self).__name__, error, given, hints)
            raise
        if kind.__module__.startswith("lrpnumpy."):
            check_plain(type(self).__name__, vars(self), hints)

    return call
