"""Records of results that anybody may have made: every field is checked by the table of fields; and read from JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

import numpy as np

from lrpnumpy.checks import FLOATS, LrpError, is_number, parse_json, shown
from lrpnumpy.fields import ResultField, table

FORMAT = "lrpnumpy explanation 2"
DEEPEST = 32  # levels of lists and objects
MARKS = range(3)  # kinds of marks that a step may have


def _is_numbers(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.number, float, int)) and np.asarray(value).dtype.kind in "fiu"


def _is_names(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and all(isinstance(name, str) for name in value)


NUMBERS = ("an array of numbers", _is_numbers)
# What the value of a field must be, by its kind and whether it has axes: in words, and as a test.
WANTED: dict[tuple[str, bool], tuple[str, Callable[[Any], Any]]] = {
    ("number", False): ("a number", _is_numbers),
    ("number", True): NUMBERS,
    ("value", False): ("a number", _is_numbers),
    ("value", True): NUMBERS,
    ("mark", True): ("an array of marks from 0 to 2", lambda value: _is_numbers(value) and np.isin(value, MARKS).all()),
    ("label", True): ("dates or strings", lambda value: isinstance(value, np.ndarray) and value.dtype.kind in "MU"),
    ("text", False): ("a string", lambda value: isinstance(value, str)),
    ("text", True): ("a tuple of names", _is_names),
    ("index", False): ("a whole number from 0 on", lambda value: is_number(value, int) and value >= 0),
    ("options", False): ("a dict", lambda value: isinstance(value, Mapping)),
}


def check(record: Any, where: str, known: dict[str, int]) -> None:
    """Raise an LrpError if a field of a record does not have the kind or the shape of the table.

    `known` are sizes of axes. Arrays have the axis of targets if its size is among them.
    """
    sizes = dict(known)
    for row in table(type(record)):
        value, axes, at = getattr(record, row.name), row.axes, f"{where}: {row.name}"
        if (value is None and not row.required) or row.kind == "target":
            continue
        if row.kind == "record":
            for place, one in _records(value, row, at).items():
                check(one, place, known)
            continue
        if axes[:1] == ("target",) and "target" not in sizes:
            axes = axes[1:]
        wanted, is_right = WANTED[row.kind, bool(axes)]
        if not is_right(value):
            raise LrpError(f"{at} must be {wanted}, got {shown(value)}.")
        shape = (len(value),) if isinstance(value, (tuple, list)) else getattr(value, "shape", ())
        fits = len(shape) == len(axes) and (0 not in shape or "phrase" in axes)
        if not fits or any(sizes.setdefault(axis, size) != size for axis, size in zip(axes, shape, strict=True)):
            expected = ", ".join(str(sizes.get(axis, axis)) for axis in axes)
            raise LrpError(f"{at} must have shape ({expected}), got {shape}.")


def _records(value: Any, row: ResultField, at: str) -> dict[str, Any]:
    """The records of a field by place: one; a tuple of them, with the axis "entry"; with "input" a dict by name."""
    each, wanted = {at: value}, "of the type "
    if row.axes == ("entry",):
        wanted = "a tuple of "
        each = {f"{at}[{k}]": one for k, one in enumerate(value)} if isinstance(value, tuple) else {at: None}
    elif row.axes == ("input",):
        wanted = "a dict of name to "
        is_dict = isinstance(value, Mapping) and value and all(isinstance(name, str) for name in value)
        each = {f"{at}[{name!r}]": one for name, one in value.items()} if is_dict else {at: None}
    if not all(isinstance(one, row.of) for one in each.values()):
        kinds = " or ".join(kind.__name__ for kind in row.of)
        raise LrpError(f"{at} must be {wanted}{kinds}, got {shown(value)}.")
    return each


def parse(text: Any, kind: type) -> Any:
    """An explanation, of the class `kind`, from the text that `to_json` wrote; it checks itself."""
    try:
        data = parse_json(text)
    except ValueError as error:
        raise LrpError(f"from_json: the text is not valid JSON ({error}); pass the text of to_json.") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise LrpError("from_json: the JSON has no format line of an explanation; pass the text of to_json.")
    level: list[Any] = [data]
    for _ in range(DEEPEST):
        inner = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, (dict, list))]
        level = [*chain.from_iterable(inner)]
    if level:
        raise LrpError(f"from_json: more than {DEEPEST} levels of lists and objects; pass the text of to_json.")
    if data.get("dtype") not in [str(one) for one in FLOATS]:
        raise LrpError(f"from_json: dtype must be 'float32' or 'float64', got {shown(data.get('dtype'))}.")
    return read_record(data, (kind,), np.dtype(data["dtype"]))


def read_record(data: Any, kinds: tuple[type, ...], dtype: Any = float, where: str = "from_json") -> Any:
    """A record of one of the classes `kinds` from the object that `fields.plain` made of it, with numbers in `dtype`.

    A value that has the wrong kind stays as it is: the check of the explanation describes it.
    """
    named = {kind.__name__: kind for kind in kinds}
    name = data.get("kind") if isinstance(data, dict) and len(kinds) > 1 else kinds[0].__name__
    if not isinstance(data, dict) or name not in list(named):
        raise LrpError(f"{where} must be an object for a record of the kind {' or '.join(named)}, got {shown(data)}.")
    found: dict[str, Any] = {}
    for row in table(named[name]):
        value, at = data.get(row.name), f"{where}: {row.name}"
        if value is None and row.required:
            raise LrpError(f"{at} is missing; pass the text of to_json.")
        if value is None:
            continue
        if row.kind == "record" and row.axes == ("entry",) and isinstance(value, list):
            found[row.name] = tuple(read_record(one, row.of, dtype, at) for one in value)
        elif row.kind == "record" and row.axes == ("input",) and isinstance(value, dict):
            found[row.name] = {name: read_record(one, row.of, dtype, at) for name, one in value.items()}
        elif row.kind == "record":
            found[row.name] = read_record(value, row.of, dtype, at)
        else:
            found[row.name] = _read(value, row, dtype)
    return named[name](**found)


def _read(value: Any, row: ResultField, dtype: Any) -> Any:
    """The value of a field from what JSON has for it; labels may be dates, which come with their type."""
    try:
        if row.kind == "label":
            kind = value["dtype"]
            return np.array(value["text"], kind if kind.startswith("datetime64") else str)
        if row.kind in ("number", "value", "mark"):
            array = np.asarray(value)
            if array.dtype.kind not in "iuf":
                return value
            if row.kind == "mark" and np.isin(array, MARKS).all():
                return array.astype(np.uint8)
            with np.errstate(over="ignore"):
                return array.astype({"number": dtype, "value": float}.get(row.kind, array.dtype))[()]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):  # ragged lists, and what cannot be a date
        return value
    return tuple(value) if row.kind == "text" and isinstance(value, list) else value
