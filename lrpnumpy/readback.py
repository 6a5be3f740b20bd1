"""The JSON of an explanation read back: anybody may have written it, so every part is checked, and errors say where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from lrpnumpy.checks import FLOATS, LrpError, parse_json
from lrpnumpy.ledgers import ROWS, Ledger, ReferenceLedger, SpanLedger

FORMAT = "lrpnumpy explanation 1"
DEEPEST = 32  # levels of lists and objects
MARKS = 3  # kinds of marks that a step may have
_LEDGERS: dict[str, Any] = {one.__name__: one for one in (Ledger, ReferenceLedger, SpanLedger)}
_ENTRIES = {
    "Ledger": ROWS["lrp"],
    "ReferenceLedger": ROWS["reference"],
    "SpanLedger": ("unassigned",),
}
_LATER = ("total", "rule", "attention", "largest", "error")  # entries that older files do not have
Shape = tuple[int | None, ...]  # None stands for any length of at least 1


def parse(text: Any) -> dict[str, Any]:
    """The fields of an `Explanation` from the text that `to_json` wrote; records in them are dicts."""
    if not isinstance(text, (str, bytes, bytearray)):
        raise LrpError(f"from_json must get the text that to_json wrote, got {type(text).__name__}.")
    try:
        data = parse_json(bytes(text) if isinstance(text, bytearray) else text)
    except ValueError as error:
        raise LrpError(f"from_json must get the text that to_json wrote, got invalid JSON: {error}.") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise LrpError("from_json must get the text that to_json wrote, got JSON without its format line.")
    _check_depth(data)
    return _Reader(data).fields()


def _check_depth(data: Any) -> None:
    """Raise where lists and objects stand in one another deeper than any explanation needs."""
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
    raise LrpError(
        f"from_json must get the text that to_json wrote, got more than {DEEPEST} levels of lists and objects."
    )


def _fail(where: str, wanted: str, got: Any) -> NoReturn:
    shown = repr(got)
    raise LrpError(
        f"from_json: {where} must be {wanted}, got {shown if len(shown) <= 80 else shown[:80] + '…'}."
    ) from None


def _text(where: str, value: Any) -> str:
    return value if isinstance(value, str) else _fail(where, "a string", value)


def _texts(where: str, value: Any, count: int | None = None) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        _fail(where, "a list of strings", value)
    if count is not None and len(value) != count:
        _fail(where, f"a list of {count} strings", value)
    return tuple(value)


def _object(where: str, value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else _fail(where, "an object", value)


def _whole(where: str, value: Any, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        _fail(where, f"a whole number from {least} to {most}", value)
    return value


def _numbers(where: str, value: Any, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """Numbers of a shape, as an array of `dtype`."""
    wanted = f"numbers of shape ({', '.join('any' if n is None else str(n) for n in shape)})" if shape else "a number"
    try:
        found = np.asarray(value)
    except (ValueError, RecursionError):  # ragged lists
        _fail(where, wanted, value)
    fits = len(found.shape) == len(shape) and all(
        got == want or (want is None and got) for got, want in zip(found.shape, shape, strict=True)
    )
    if not fits or found.dtype.kind not in "iuf":
        _fail(where, wanted, value)
    with np.errstate(over="ignore"):
        return found.astype(dtype)


class _Reader:
    """What the parts of one explanation have in common: its dtype, its classes, its target."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        if data.get("dtype") not in [str(one) for one in FLOATS]:
            _fail("dtype", "'float32' or 'float64'", data.get("dtype"))
        self.dtype = np.dtype(data["dtype"])
        self.scores = self.array("scores", data.get("scores"), (None,))
        C, target = len(self.scores), data.get("target")
        self.target = "all" if target == "all" else _whole("target", target, 0, C - 1)
        self.lead: Shape = (C,) if target == "all" else ()

    def array(self, where: str, value: Any, shape: Shape) -> np.ndarray:
        """Numbers of a shape, in the dtype of the explanation."""
        return _numbers(where, value, shape, self.dtype)

    def fields(self) -> dict[str, Any]:
        """All fields."""
        data, C = self.data, len(self.scores)
        others = _object("others", data.get("others") or {})
        found = self.part("", data)
        T = found["relevance"].shape[-1]
        return found | {
            "scores": self.scores,
            "target": self.target,
            "method": _text("method", data.get("method")),
            "probabilities": self.optional("probabilities", lambda where, value: self.array(where, value, (C,))),
            "classes": self.optional("classes", lambda where, value: _texts(where, value, C)),
            "options": _object("options", data.get("options") or {}),
            "ledger": self.optional("ledger", self.ledger),
            "hidden": self.parts("hidden", self.hidden),
            "spans": self.parts("spans", lambda where, value: self.span(where, value, T)),
            "others": {
                name: self.part(f"others: {name}: ", _object(f"others: {name}", others[name])) for name in others
            },
            "name": _text("name", data.get("name", "x")),
            "output_unit": self.optional("output_unit", _text),
        }

    def optional(self, name: str, read: Callable[[str, Any], Any]) -> Any:
        """A field that may be null or missing."""
        return None if self.data.get(name) is None else read(name, self.data[name])

    def parts(self, name: str, read: Callable[[str, dict[str, Any]], Any]) -> Any:
        """A list of objects, or nothing."""
        value = self.data.get(name)
        if value is not None and not isinstance(value, list):
            _fail(name, "a list of objects", value)
        return value and [read(f"{name}[{k}]", _object(f"{name}[{k}]", one)) for k, one in enumerate(value)]

    def part(self, at: str, data: dict[str, Any]) -> dict[str, Any]:
        """What one input got; `at` is what its places are named after."""
        relevance = self.array(f"{at}relevance", data.get("relevance"), (*self.lead, None))
        T = relevance.shape[-1]

        def get(name: str, read: Callable[[str, Any], Any]) -> Any:
            return None if data.get(name) is None else read(at + name, data[name])

        feature_relevance = get(
            "feature_relevance", lambda where, value: self.array(where, value, (*self.lead, T, None))
        )
        D = None if feature_relevance is None else feature_relevance.shape[-1]
        marks = get("marks", lambda where, value: _numbers(where, value, (T,), np.dtype(float)))
        if marks is not None and not np.isin(marks, range(MARKS)).all():
            _fail(f"{at}marks", f"numbers from 0 to {MARKS - 1}", data["marks"])
        return {
            "relevance": relevance,
            "feature_relevance": feature_relevance,
            "features": get("features", lambda where, value: _texts(where, value, D)),
            "tokens": get("tokens", lambda where, value: _texts(where, value, T)),
            "values": get("values", lambda where, value: _numbers(where, value, (T, D), np.dtype(float))),
            "labels": get("labels", lambda where, value: _labels(where, value, T)),
            "marks": None if marks is None else marks.astype(np.uint8),
        }

    def ledger(self, where: str, value: Any) -> Any:
        """A ledger of any kind."""
        entries = dict(_object(where, value))
        kind = entries.pop("kind", None)
        if not isinstance(kind, str) or kind not in _LEDGERS:
            _fail(f"{where}: kind", f"one of {', '.join(map(repr, _LEDGERS))}", kind)
        found: dict[str, Any] = {}
        for name in _ENTRIES[kind]:
            if entries.get(name) is not None or name not in _LATER:
                found[name] = self.number(f"{where}: {name}", entries.get(name))
        if kind == "Ledger":
            if not isinstance(entries.get("biases"), list):
                _fail(f"{where}: biases", "a list of numbers", entries.get("biases"))
            found["biases"] = tuple(self.number(f"{where}: biases", one) for one in entries["biases"])
        if kind == "SpanLedger":
            shape: Shape = (*self.lead, None)
            for name in ("relevant", "irrelevant", "bias"):
                found[name] = self.array(f"{where}: {name}", entries.get(name), shape)
                shape = found[name].shape
        return _LEDGERS[kind](**found)

    def number(self, where: str, value: Any) -> Any:
        """A number, or one for each class."""
        return self.array(where, value, self.lead)[()]

    def hidden(self, where: str, value: dict[str, Any]) -> dict[str, Any]:
        """Relevance of hidden states."""
        h = self.array(f"{where}: h", value.get("h"), (*self.lead, None, None))
        c = value.get("c")
        return {
            "layer": _whole(f"{where}: layer", value.get("layer"), 0, 2**31),
            "direction": _text(f"{where}: direction", value.get("direction")),
            "h": h,
            "c": None if c is None else self.array(f"{where}: c", c, h.shape),
        }

    def span(self, where: str, value: dict[str, Any], T: int) -> dict[str, Any]:
        """A phrase."""
        start = _whole(f"{where}: start", value.get("start"), 0, T - 1)
        stop = _whole(f"{where}: stop", value.get("stop"), start + 1, T)
        return {"start": start, "stop": stop, "relevance": self.number(f"{where}: relevance", value.get("relevance"))}


def _labels(where: str, value: Any, T: int) -> np.ndarray:
    """Labels of the steps: text, or dates with their type."""
    text = _texts(f"{where}: text", _object(where, value).get("text"), T)
    kind = _text(f"{where}: dtype", value.get("dtype"))
    if not kind.startswith("datetime64"):
        return np.array(text, str)
    try:
        return np.array(text, kind)
    except (ValueError, TypeError, OverflowError):
        _fail(where, f"dates of type {kind}", value)
