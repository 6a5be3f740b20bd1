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
        return _Document(source, where, events).read()


class _Document:
    """The events of a text, turned into data one after the other."""

    def __init__(self, source: Source, where: str, events: Iterator[Any]) -> None:
        self.source, self.where, self.events = source, where, events

    def read(self) -> Any:
        """The only document."""
        kinds = [self.kind(self.next()) for _ in range(2)]
        if kinds != ["StreamStart", "DocumentStart"]:
            raise self.source.error(self.where, "has no document")
        found = self.value(self.next(), 0)
        if [self.kind(self.next()) for _ in range(2)] != ["DocumentEnd", "StreamEnd"]:
            raise self.source.error(self.where, "must have one document, it has several")
        return found

    def next(self) -> Any:
        """The next event, counted."""
        self.source.budget.visit(self.where)
        return next(self.events)

    def kind(self, event: Any) -> str:
        """Its name."""
        return type(event).__name__.removesuffix("Event")

    def value(self, event: Any, depth: int) -> Any:
        """What begins with this event."""
        self.source.budget.level(self.where, depth)
        kind = self.kind(event)
        if kind == "Alias" or event.anchor is not None or event.tag not in (None, "!"):
            raise self.source.error(self.where, "has an anchor, an alias or a tag, which are not read")
        if kind == "Scalar":
            return self.scalar(event.value) if event.implicit[0] else event.value  # in quotes it is a string
        if kind == "SequenceStart":
            items = []
            while self.kind(event := self.next()) != "SequenceEnd":
                items.append(self.value(event, depth + 1))
            return items
        entries: dict[Any, Any] = {}
        while self.kind(event := self.next()) != "MappingEnd":
            key = self.value(event, depth + 1)
            if not isinstance(key, (str, int, float, type(None))) or key in entries:
                raise self.source.error(self.where, "has a key that is not a string or number, or that occurs twice")
            entries[key] = self.value(self.next(), depth + 1)
        return entries

    def scalar(self, text: str) -> Any:
        """A word, a number, or a string."""
        if text in _WORDS:
            return _WORDS[text]
        if len(text) <= _DIGITS and _INTEGER.fullmatch(text):
            return int(text)
        return float(text) if len(text) <= _DIGITS and _FLOAT.fullmatch(text) else text
