"""The wire format of protocol buffers, walked before a library takes the file apart.

A message of a few bytes costs the library a hundred: a file of empty messages fills the memory. So the parts of a
message are counted first, as far down as `parts` says. A message is a row of fields, each a tag (number and wire type)
and a value: 0 a varint, 1 eight bytes, 2 a length and as many bytes, 5 four bytes.
"""

from __future__ import annotations

from typing import Any

from lrpnumpy.files.safe import Source

# Which fields of an ONNX file are messages, and what is in them: field number to the same for the message.
_TENSOR: dict[int, Any] = {1: "packed", 13: {}}  # dims, places outside the file
_ATTRIBUTE: dict[int, Any] = {5: _TENSOR, 10: _TENSOR}
_NODE: dict[int, Any] = {5: _ATTRIBUTE}
_GRAPH: dict[int, Any] = {1: _NODE, 5: _TENSOR, 11: {2: {1: {2: {}}}}, 12: {2: {1: {2: {}}}}, 13: {}}
_ATTRIBUTE |= {6: _GRAPH, 11: _GRAPH}
ONNX: dict[int, Any] = {7: _GRAPH, 8: {}, 14: {}, 25: {7: _NODE}}
_STEPS = 512


def check(source: Source, content: bytes, parts: dict[int, Any]) -> None:
    """Count every field of a message, and of those inside it that `parts` names."""
    view, waiting, seen = memoryview(content), [(0, len(content), parts, 0)], 0
    while waiting:
        at, end, inside, depth = waiting.pop()
        source.budget.level("graph", depth)
        while at < end:
            seen += 1
            if not seen % _STEPS:
                source.budget.visit("graph", _STEPS)
            tag, at = _varint(source, view, at, end)
            number, kind = tag >> 3, tag & 7
            if kind == 0:
                _, at = _varint(source, view, at, end)
            elif kind in (1, 5):
                at += 8 if kind == 1 else 4
            elif kind == 2:
                length, at = _varint(source, view, at, end)
                below = inside.get(number)
                if below == "packed":
                    source.budget.visit("graph", length)
                elif isinstance(below, dict):
                    waiting.append((at, at + length, below, depth + 1))
                at += length
            else:
                raise source.error("", "is not an ONNX file that can be read (it has groups)")
            if at > end:
                raise source.error("", "is not an ONNX file that can be read; it may be truncated")


def _varint(source: Source, view: memoryview, at: int, end: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    value = shift = 0
    while at < end and shift < 70:
        byte = view[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise source.error("", "is not an ONNX file that can be read; it may be truncated")
