"""The JSON of an explanation read back: anybody may have written it, so every field is checked; errors say where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from lrpnumpy.checks import FLOATS, LrpError, parse_json
from lrpnumpy.fields import table
from lrpnumpy.ledgers import LEDGERS

FORMAT = "lrpnumpy explanation 2"
DEEPEST = 32  # levels of lists and objects
MARKS = 3  # kinds of marks that a step may have
Axes = tuple[str, ...]


def parse(text: Any, kind: type, records: Mapping[str, type]) -> Any:
    """An explanation, of the class `kind`, from the text that `to_json` wrote; `records` are classes by field name."""
    if not isinstance(text, (str, bytes, bytearray)):
        raise LrpError(f"from_json: got {type(text).__name__}; pass the text of to_json.")
    try:
        data = parse_json(bytes(text) if isinstance(text, bytearray) else text)
    except ValueError as error:
        raise LrpError(f"from_json: the text is not valid JSON ({error}); pass the text of to_json.") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise LrpError("from_json: the JSON has no format line of an explanation; pass the text of to_json.")
    _check_depth(data)
    return _explanation(data, kind, records)


def read_record(data: Any, kind: type, records: Mapping[str, type]) -> Any:
    """A record of the class `kind` from the object that `fields.plain` made of it."""
    return _Reader(np.dtype(float), records).record("", data, kind)


def _check_depth(data: Any) -> None:
    """Raise if lists and objects are nested deeper than any explanation needs."""
    level = [data]
    for _ in range(DEEPEST):
        level = [
            part
            for one in level
            if isinstance(one, (list, dict))
            for part in (one.values() if isinstance(one, dict) else one)
            if isinstance(part, (list, dict))
        ]
        if not level:
            return
    raise LrpError(f"from_json: more than {DEEPEST} levels of lists and objects; pass the text of to_json.")


def _fail(where: str, wanted: str, got: Any) -> NoReturn:
    shown = repr(got)
    raise LrpError(
        f"from_json: {where} must be {wanted}, got {shown if len(shown) <= 80 else shown[:80] + '…'}."
    ) from None


def _explanation(data: dict[str, Any], kind: type, records: Mapping[str, type]) -> Any:
    if data.get("dtype") not in [str(one) for one in FLOATS]:
        _fail("dtype", "'float32' or 'float64'", data.get("dtype"))
    reader = _Reader(np.dtype(data["dtype"]), records)
    C, target = len(reader.number("scores", data.get("scores"), ("output",), {})), data.get("target")
    if target == "all":
        reader.sizes["target"] = C
    elif type(target) is not int or not 0 <= target < C:
        _fail("target", f"a whole number from 0 to {C - 1}", target)
    found = reader.record("", data, kind, target=target)
    for k, span in enumerate(found.spans or ()):
        if not 0 <= span.start < span.stop <= len(found):
            _fail(f"spans[{k}]", f"from start to stop, among {len(found)} steps", (span.start, span.stop))
    return found


class _Reader:
    """What the records of one explanation have in common: their dtype, and the size of the axis of targets."""

    def __init__(self, dtype: np.dtype, records: Mapping[str, type]) -> None:
        self.dtype, self.records = dtype, records
        self.sizes: dict[str, int] = {}

    def record(self, at: str, data: Any, kind: type, **known: Any) -> Any:
        """A record of the class `kind` whose fields are in an object; `at` is what its places are named after."""
        if not isinstance(data, dict):
            _fail(at.removesuffix(": "), "an object", data)
        sizes = dict(self.sizes)
        for row in table(kind):
            value, where = data.get(row.name), at + row.name
            if row.name in known or (value is None and not row.required):
                continue
            if row.kind == "record":
                known[row.name] = self.records_of(where, value, row.name)
            else:
                known[row.name] = getattr(self, row.kind)(where, value, row.axes, sizes)
        return kind(**known)

    def records_of(self, where: str, value: Any, name: str) -> Any:
        """The records of a field: a ledger, what each input received, or a list."""
        if name == "ledger":
            kind = value.get("kind") if isinstance(value, dict) else None
            if not isinstance(kind, str) or kind not in LEDGERS:
                _fail(f"{where}: kind", f"one of {', '.join(map(repr, LEDGERS))}", kind)
            return self.record(f"{where}: ", value, LEDGERS[kind])
        if name in ("tested", "experiments", "players"):
            return self.record(f"{where}: ", value, self.records[name])
        if name == "inputs":
            if not isinstance(value, dict) or not value:
                _fail(where, "an object with at least one input", value)
            return {key: self.record(f"{where}: {key}: ", one, self.records[name]) for key, one in value.items()}
        if not isinstance(value, list):
            _fail(where, "a list of objects", value)
        return tuple(self.record(f"{where}[{k}]: ", one, self.records[name]) for k, one in enumerate(value))

    # One method for each kind of field: its place for errors, its value, its axes, the sizes of axes known so far.

    def number(self, where: str, value: Any, axes: Axes, sizes: dict[str, int]) -> Any:
        """Numbers in the dtype of the explanation; those of the user's own units in float64."""
        return self._array(where, value, axes, sizes, self.dtype)

    def value(self, where: str, value: Any, axes: Axes, sizes: dict[str, int]) -> Any:
        """Numbers as they were passed in."""
        return self._array(where, value, axes, sizes, np.dtype(float))

    def mark(self, where: str, value: Any, axes: Axes, sizes: dict[str, int]) -> np.ndarray:
        """What is special about each step."""
        marks = self._array(where, value, axes, sizes, np.dtype(float))
        if not np.isin(marks, range(MARKS)).all():
            _fail(where, f"numbers from 0 to {MARKS - 1}", value)
        return marks.astype(np.uint8)

    def _array(self, where: str, value: Any, axes: Axes, sizes: dict[str, int], dtype: np.dtype) -> Any:
        axes = tuple(axis for axis in axes if axis != "target" or axis in self.sizes)
        shape = ", ".join(str(sizes.get(axis, "any")) for axis in axes)
        wanted = f"numbers of shape ({shape})" if axes else "a number"
        try:
            found = np.asarray(value)
        except (ValueError, RecursionError):  # ragged lists
            _fail(where, wanted, value)
        if found.dtype.kind not in "iuf" or found.ndim != len(axes) or (0 in found.shape and "phrase" not in axes):
            _fail(where, wanted, value)
        for axis, size in zip(axes, found.shape, strict=True):
            if sizes.setdefault(axis, size) != size:
                _fail(where, wanted, value)
        with np.errstate(over="ignore"):
            return found.astype(dtype)[()]

    def text(self, where: str, value: Any, axes: Axes, sizes: dict[str, int]) -> Any:
        """A text, or one for each entry of an axis."""
        if not axes:
            return value if isinstance(value, str) else _fail(where, "a string", value)
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            _fail(where, "a list of strings", value)
        if sizes.setdefault(axes[0], len(value)) != len(value):
            _fail(where, f"a list of {sizes[axes[0]]} strings", value)
        return tuple(value)

    def label(self, where: str, value: Any, axes: Axes, sizes: dict[str, int]) -> np.ndarray:
        """Labels of the steps: text, or dates with their type."""
        if not isinstance(value, dict):
            _fail(where, "an object", value)
        text = self.text(f"{where}: text", value.get("text"), axes, sizes)
        kind = self.text(f"{where}: dtype", value.get("dtype"), (), sizes)
        if not kind.startswith("datetime64"):
            return np.array(text, str)
        try:
            return np.array(text, kind)
        except (ValueError, TypeError, OverflowError):
            _fail(where, f"dates of type {kind}", value)

    def index(self, where: str, value: Any, axes: Axes, sizes: dict[str, int]) -> int:
        """A position, or the number of a layer."""
        if type(value) is not int or not 0 <= value <= 2**31:
            _fail(where, "a whole number from 0 on", value)
        return value

    def options(self, where: str, value: Any, axes: Axes, sizes: dict[str, int]) -> dict[str, Any]:
        """What the method was called with."""
        return value if isinstance(value, dict) else _fail(where, "an object", value)
