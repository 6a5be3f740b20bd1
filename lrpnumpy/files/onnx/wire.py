"""The wire format of protocol buffers, read by a schema, every part counted against the file's budget.

A message is a row of fields, each a tag (number and wire type) and a value: 0 a varint, 1 eight bytes, 2 a length and
as many bytes, 5 four bytes. A schema lists the field numbers that are read, and their types; all others are skipped.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from lrpnumpy.files.safe import Source

_STEPS = 512  # fields between two looks at the budget
_WIDTHS = {1: 8, 5: 4}  # bytes of the types of fixed width
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
            field, wire, start = schema.get(tag >> 3), tag & 7, at
            if wire == 0:
                _, at = self.varint(at, end)
            elif wire in _WIDTHS:
                at += _WIDTHS[wire]
            elif wire == 2:
                length, start = self.varint(at, end)
                at = start + length
            if at > end or wire not in (0, 2, *_WIDTHS):
                raise self.source.error("", DAMAGED)
            if field is None:
                continue
            values = self._values(field, wire, start, at, depth)
            if field.many:
                found[field.name] += values
            elif field.name in found:
                raise self.source.error("", f"is not an ONNX file that can be read (it has {field.name!r} twice)")
            else:
                (found[field.name],) = values
        return found

    def _values(self, field: Field, wire: int, at: int, end: int, depth: int) -> list[Any]:
        """The value of a field, or all numbers of a packed one."""
        many = wire == 2 and field.many
        if isinstance(field.kind, dict) and wire == 2:
            return [self.message(field.kind, at, end, depth + 1)]
        if field.kind == "int" and (wire == 0 or many):
            return self._integers(at, end)
        if field.kind == "float" and (wire == 5 or many):
            self.source.budget.visit("graph", (end - at) // 4)
            return list(struct.unpack(f"<{(end - at) // 4}f", self.view[at:end]))
        if field.kind == "text" and wire == 2:
            return [bytes(self.view[at:end]).decode("utf-8")]
        if field.kind == "packed" or (field.kind == "bytes" and wire == 2):
            return [self.view[at:end]]
        raise self.source.error("", DAMAGED)

    def _integers(self, at: int, end: int) -> list[int]:
        """Signed numbers, one behind the other."""
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
