"""YAML as plain data: dicts, lists, strings, numbers, true, false and null; no tags, no anchors, no objects.

The package yaml only cuts the text into events. What is made of them is decided here, counted by the budget of the
file, and reads numbers as YAML 1.2 does (1e-05 is one).
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from typing import Any

from lrpnumpy.files.safe import Source

MAX_YAML = 2**19  # bytes of a YAML text
_DIGITS = 40  # of one number
_INTEGER = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
    ".nan": float("nan"), ".NaN": float("nan"), ".inf": float("inf"), "-.inf": -float("inf"),
}  # fmt: skip


def parse(source: Source, where: str, content: bytes) -> Any:
    """The contents of the only document in a YAML text."""
    if importlib.util.find_spec("yaml") is None:
        raise source.error(where, "is YAML, which needs the package pyyaml; install lrpnumpy[neuralhydrology]")
    import yaml

    if len(content) > MAX_YAML:
        raise source.error(where, f"is {len(content):,} bytes of YAML, over the limit of {MAX_YAML:,}")
    with source.guard(where, "is not YAML"):
        events = yaml.parse(content.decode("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        return _document(source, where, events)


def _document(source: Source, where: str, events: Iterator[Any]) -> Any:
    """The only document of a text, from its events."""

    def following() -> tuple[str, Any]:
        source.budget.visit(where)
        event = next(events)
        return type(event).__name__.removesuffix("Event"), event

    def value(kind: str, event: Any, depth: int) -> Any:
        source.budget.level(where, depth)
        if kind == "Alias" or event.anchor is not None or event.tag not in (None, "!"):
            raise source.error(where, "has an anchor, an alias or a tag, which are not read")
        if kind == "Scalar":
            return _scalar(event.value) if event.implicit[0] else event.value  # in quotes it is a string
        if kind == "SequenceStart":
            items = []
            while (item := following())[0] != "SequenceEnd":
                items.append(value(*item, depth + 1))
            return items
        entries: dict[Any, Any] = {}
        while (item := following())[0] != "MappingEnd":
            key = value(*item, depth + 1)
            if not isinstance(key, (str, int, float, type(None))) or key in entries:
                raise source.error(where, "has a key that is not a string or number, or that occurs twice")
            entries[key] = value(*following(), depth + 1)
        return entries

    if [following()[0], following()[0]] != ["StreamStart", "DocumentStart"]:
        raise source.error(where, "has no document")
    found = value(*following(), 0)
    if [following()[0], following()[0]] != ["DocumentEnd", "StreamEnd"]:
        raise source.error(where, "must have one document, it has several")
    return found


def _scalar(text: str) -> Any:
    """A word, a number, or a string."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) <= _DIGITS and _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if len(text) <= _DIGITS and _FLOAT.fullmatch(text) else text
