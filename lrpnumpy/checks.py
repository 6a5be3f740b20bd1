"""The door: errors, and the checks that turn what users pass in into trusted arrays."""

from __future__ import annotations

import importlib
import json
import math
import re
import reprlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from types import FrameType
from typing import Any

import numpy as np

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))

# What a terminal or a page would obey or cannot show: controls, marks of direction, halves of surrogate pairs.
_UNREADABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


MAX_LISTS = 1_000_000  # lists and objects in one JSON text
MANY = 1_000_000  # entries of an iterable that a user passes in
LONGEST_ERROR = 4000  # characters: names and values in an error may be those of strangers


class LrpError(ValueError):
    """Something the caller passed in cannot be used; the message describes what, where, and what to do."""

    def __str__(self) -> str:
        text = super().__str__()
        if len(text) > LONGEST_ERROR:  # what is wrong is often said at the end
            text = f"{text[: LONGEST_ERROR - 500]} … {text[-500:]}"
        return printable(text)


class WeightFileError(LrpError):
    """A weight file is damaged, foreign, or asks for something this library does not have."""


class UserCodeError(LrpError):
    """A function or an object that the caller handed in has raised an error: its cause."""


class OutOfRange(LrpError, IndexError):
    """There is no such entry; also an IndexError, as Python asks of a sequence."""


class RelevanceWarning(UserWarning):
    """Relevance is infinite, or numerically unstable."""


class AssumptionWarning(UserWarning):
    """A prediction depends on an assumption: a weight file is incomplete, or the dates of rows do not increase."""


def float_array(value: Any, what: str, shape: tuple[int | None, ...] | None = None, *, dtype: Any = None) -> np.ndarray:
    """`value` as a new, read-only, C-contiguous float array; `shape` has None where any length will do.

    Integers, objects, NaN and infinity are refused: weights and inputs that are not finite floats are
    always a mistake somewhere else. Lists of Python numbers are taken as floats.
    """
    unmasked(value, what)
    try:
        array = np.asarray(value)
    except ValueError as error:  # ragged lists
        raise LrpError(f"{what} must be an array of floats, got {type(value).__name__}: {error}.") from None
    if isinstance(value, Sequence) and array.dtype.kind in "iu":
        array = array.astype(np.float64)
    if array.dtype not in FLOATS:
        raise LrpError(f"{what} must be float32 or float64, got {array.dtype}; convert it with .astype('float32').")
    if shape is not None:
        check_shape(array, what, shape)
    return _finite(array, what, np.dtype(dtype or array.dtype), "scale it, or keep the model in float64")


MISSING = "fill missing values first, such as by explain(..., fill='forward'), which repeats the value before"


def numbers(value: np.ndarray, what: str, dtype: np.dtype) -> np.ndarray:
    """Floats or integers of any width, in any memory order, as a new, read-only, contiguous array of `dtype`."""
    if value.dtype.kind not in "fiu":
        raise LrpError(f"{what} must be an array of floats or integers, got {value.dtype}.")
    return _finite(value, what, dtype, "scale the input, or use model.astype('float64')")


def _finite(value: np.ndarray, what: str, dtype: np.dtype, advice: str) -> np.ndarray:
    """A copy in `dtype`, in which every number is finite; otherwise an error."""
    with np.errstate(over="ignore", invalid="ignore"):
        array = np.array(value, dtype=dtype, order="C", copy=True)
    if not np.isfinite(array).all():
        where = tuple(int(k) for k in np.argwhere(~np.isfinite(array))[0])
        if np.isfinite(value[where]):
            most = np.finfo(dtype).max
            raise LrpError(
                f"{what} must be at most {most:.1e} in size for a {dtype} model, got {value[where]} at index "
                f"{list(where)}; {advice}."
            )
        recipe = f"; {MISSING}" if np.isnan(value[where]) and not advice.startswith("scale it") else ""
        raise LrpError(f"{what} must be finite, got {value[where]} at index {list(where)}{recipe}.")
    array.setflags(write=False)
    return array


def unmasked(value: Any, what: str) -> None:
    """Raise where some of an array, or of a list of arrays, is masked: NumPy would take what lies under the mask."""
    for one in value if isinstance(value, (list, tuple)) and value and isinstance(value[0], np.ndarray) else [value]:
        if isinstance(one, np.ma.MaskedArray) and np.ma.is_masked(one):
            raise LrpError(f"{what} must have no masked entries, got {np.ma.count_masked(one)}; use .filled(...).")


def entries(values: Iterable[Any], what: str, most: int = MANY, advice: str = "pass fewer") -> list[Any]:
    """The entries of an iterable as a list; more than `most` are an error, since some iterators never end."""
    if hasattr(values, "detach"):  # a tensor, which makes an object of every row before the first is seen
        raise LrpError(f"{what} must be a list, got a tensor.")
    if not isinstance(values, Iterable):
        raise LrpError(f"{what} must be a list, got {shown(values)}.")
    found = list(islice(values, most + 1))
    if len(found) > most:
        raise LrpError(f"{what} must have at most {most:,} entries, got more; {advice}.")
    return found


def check_shape(array: np.ndarray, what: str, shape: tuple[int | None, ...]) -> None:
    """Raise unless `array` has `shape`, where None means any length of at least 1."""
    fits = array.ndim == len(shape) and all(
        got == want or (want is None and got > 0) for got, want in zip(array.shape, shape, strict=True)
    )
    if not fits:
        wanted = ", ".join(map(str, shape)).replace("None", "any")
        raise LrpError(f"{what} must have shape ({wanted}), got {array.shape}.")


def one_of(value: Any, what: str, choices: Sequence[Any]) -> Any:
    """`value`, if it is one of `choices`."""
    if not any(isinstance(value, type(one)) and value == one for one in choices):  # a dtype of NumPy equals None
        known = ", ".join(map(repr, choices)) or "those that there are, and there are none"
        raise LrpError(f"{what} must be one of {known}, got {shown(value)}.")
    return value


def optional(change: Callable[[Any], Any], value: Any) -> Any:
    """`change` of a value; None of None."""
    if value is None:
        return None
    return change(value)


def close_to(name: Any, known: Iterable[str]) -> str:
    """The end of an error's sentence, "; did you mean 'eps'?", where a known name is close; else nothing."""
    close = get_close_matches(str(name), list(known), 1, 0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def names(value: Any, what: str, count: int) -> tuple[str, ...] | None:
    """`value` as `count` different strings, or None."""
    if value is None:
        return None
    is_list = hasattr(value, "__len__") and not hasattr(value, "detach")
    in_order = is_list and not isinstance(value, (str, bytes, set, frozenset, Mapping))
    if not in_order or not all(isinstance(name, str) for name in value):
        raise LrpError(f"{what} must be a list of {count} strings, got {shown(value)}.")
    if len(value) != count:
        raise LrpError(f"{what} must have {count} names, one for each, got {len(value)}.")
    if len({*value}) < count:
        raise LrpError(f"{what} must differ from each other, got {shown(Counter(value).most_common(1)[0][0])} twice.")
    return tuple(str(name) for name in value)


def is_number(value: Any, kind: type) -> bool:
    """Whether a value is a whole number that an array can hold, or a finite number; true and false are none."""
    if isinstance(value, (bool, np.bool_, np.timedelta64)):  # the last is one to NumPy
        return False
    if kind is int:
        return isinstance(value, (int, np.integer)) and -(2**63) <= int(value) < 2**63
    if not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def non_negative(value: Any, what: str) -> float:
    """`value` as a finite float that is not negative."""
    if not is_number(value, float) or value < 0:
        raise LrpError(f"{what} must be a finite number that is not negative, got {shown(value)}.")
    return float(value)


def finite(value: Any, what: str) -> float:
    """`value` as a finite float."""
    if not is_number(value, float):
        raise LrpError(f"{what} must be a finite number, got {shown(value)}.")
    return float(value)


class _Shown(reprlib.Repr):
    """Values on one line, short, without raising an error."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 60

    def repr_int(self, x: int, level: int) -> str:
        """A number; Python refuses to write very large ones, and nobody reads them."""
        return repr(x) if abs(x) < 2**64 else "a huge number"

    def repr_instance(self, x: Any, level: int) -> str:
        """Anything that is not of Python's own types: by its kind where it is long."""
        if isinstance(x, np.ndarray):
            return f"an array of {x.dtype} of shape {x.shape}"
        if isinstance(x, (str, bytes)):
            text: Any = x
            return self.repr_str(text, level)
        name = type(x).__name__
        try:
            text = name if hasattr(x, "__len__") else repr(x)
        except Exception:
            return name
        return text if len(text) <= self.maxother and text.isprintable() else name


shown = _Shown().repr  # `value` in an error


def whole(value: Any, what: str, least: int | None = None) -> int:
    """`value` as an int, not less than `least`."""
    if not is_number(value, int) or (least is not None and value < least):
        wanted = "a whole number" + ("" if least is None else f" of at least {least}")
        raise LrpError(f"{what} must be {wanted}, got {shown(value)}.")
    return int(value)


def position(value: Any, what: str, count: int) -> int:
    """`value` as a position among `count` entries, from 0; -1 is the last."""
    if not -count <= whole(value, what) < count:
        wanted = f"lie from 0 to {count - 1}" if count else "be that of one, but there are none"
        raise OutOfRange(f"{what} must {wanted}, got {value}.")
    return int(value) % count


def parse_json(text: str | bytes, **options: Any) -> Any:
    """JSON that anybody may have written; what is wrong with it is a ValueError.

    A duplicate key is an error, and so are too many or too deeply nested lists and objects: a million of them take
    a second. `options` are those of `json.JSONDecoder`.
    """
    if not isinstance(text, (str, bytes, bytearray)):
        raise ValueError("it is not text")
    opening: Any = ("[", "{") if isinstance(text, str) else (b"[", b"{")  # before bytes become a text, which is larger
    if sum(map(text.count, opening)) > MAX_LISTS:
        raise ValueError(f"it has more than {MAX_LISTS:,} lists and objects")
    if not isinstance(text, str):
        text = text.decode("utf-8-sig")
    try:
        return json.JSONDecoder(object_pairs_hook=_object, **options).decode(text)
    except RecursionError:
        raise ValueError("its lists and objects are too deep inside each other") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {twice[:60]!r} occurs twice in one object")
    return found


def readable(text: str) -> str:
    """`text` as it may be shown anywhere: words and names are untrusted."""
    if text.isascii() and text.isprintable():
        return text
    return _UNREADABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def printable(text: str) -> str:
    """`text` on one line, with what a terminal would obey, or could not show, written as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def encodable(text: str) -> str:
    """`text` as other programs take it: halves of surrogate pairs, which UTF-8 does not have, are replaced."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def library(name: str, what: str) -> Any:
    """A module of a library that lrpnumpy does without, for `what` needs it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise LrpError(f"{what} needs {package}, which is not installed; try `pip install {package}`.") from None


def outside() -> int:
    """The stacklevel of a warning that points at the first caller outside this package."""
    level = 0
    frame: FrameType | None = sys._getframe()
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "lrpnumpy":
        level, frame = level + 1, frame.f_back
    return level
