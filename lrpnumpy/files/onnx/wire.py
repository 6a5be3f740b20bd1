"""The wire format of protocol buffers, read by a schema, every part counted against the file's budget.

A message is a row of fields, each a tag (number and wire type) and a value: 0 a varint, 1 eight bytes, 2 a length and
as many bytes, 5 four bytes. A schema lists the field numbers that are read, and their types; all others are skipped.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from lrpnumpy.files.safe import Source

_STEPS = 512  # fields between two looks at the budget
DAMAGED = "is not an ONNX file that can be read; it may be truncated"


class Field(NamedTuple):
    """How a field is read: "int", "float", "text", "bytes", or the schema of the message that it holds.

    `many` fields are lists. Numbers may be packed, many in one field; "packed" leaves them as a list of bytes.
    """

    name: str
    kind: Any
    many: bool = False


Schema = dict[int, Field]


class Reader:
    """Messages of one file."""

    def __init__(self, source: Source, content: bytes) -> None:
        self.source, self.view, self.seen = source, memoryview(content), 0

    def message(self, schema: Schema, at: int = 0, end: int | None = None, depth: int = 0) -> dict[str, Any]:
        """The fields of a message by name; those that are not there are missing, or an empty list."""
        found: dict[str, Any] = {field.name: [] for field in schema.values() if field.many}
        end = len(self.view) if end is None else end
        self.source.budget.level("graph", depth)
        while at < end:
            self.seen += 1
            if not self.seen % _STEPS:
                self.source.budget.visit("graph", _STEPS)
            tag, at = self.varint(at, end)
            field, wire = schema.get(tag >> 3), tag & 7
            start = at
            if wire == 0:
                value, at = self.varint(at, end)
            elif wire in (1, 5):
                at += 8 if wire == 1 else 4
            elif wire == 2:
                length, start = self.varint(at, end)
                at = start + length
            else:
                raise self.source.error("", "is not an ONNX file that can be read (it has groups)")
            if at > end:
                raise self.source.error("", DAMAGED)
            if field is None:
                continue
            if isinstance(field.kind, dict):
                self._expect(wire, 2)
                made: Any = self.message(field.kind, start, at, depth + 1)
            elif field.kind == "int":
                if wire == 2 and field.many:
                    found[field.name] += self._packed(start, at)
                    continue
                self._expect(wire, 0)
                made = value - 2**64 if value >= 2**63 else value
            elif field.kind == "float":
                if wire == 2 and field.many:
                    self.source.budget.visit("graph", (at - start) // 4)
                    found[field.name] += struct.unpack(f"<{(at - start) // 4}f", self.view[start:at])
                    continue
                self._expect(wire, 5)
                (made,) = struct.unpack("<f", self.view[start:at])
            else:
                if field.kind != "packed":
                    self._expect(wire, 2)
                made = self.view[start:at]
                if field.kind == "text":
                    made = bytes(made).decode("utf-8")
            if field.many:
                found[field.name].append(made)
            elif field.name in found:
                raise self.source.error("", f"is not an ONNX file that can be read (it has {field.name!r} twice)")
            else:
                found[field.name] = made
        return found

    def _expect(self, wire: int, wanted: int) -> None:
        if wire != wanted:
            raise self.source.error("", DAMAGED)

    def _packed(self, at: int, end: int) -> list[int]:
        """Numbers of a packed field."""
        self.source.budget.visit("graph", end - at)
        found = []
        while at < end:
            value, at = self.varint(at, end)
            found.append(value - 2**64 if value >= 2**63 else value)
        return found

    def varint(self, at: int, end: int) -> tuple[int, int]:
        """A number of seven bits a byte, and where it ends."""
        value = shift = 0
        view = self.view
        while at < end and shift < 70:
            byte = view[at]
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                return value & (2**64 - 1), at
        raise self.source.error("", DAMAGED)
