"""Strings of variable length in the attributes of an HDF5 file, read without the HDF5 library.

Keras stores its configuration in such strings. The library (1.14) believes what a file says of their lengths, 4 GiB
for each if it says so, and walks a damaged heap of strings for ever. So the few structures on the way are read
here, each step checked: the object's header, the attribute in it, the heap that the strings lie in. The layout is
that of the HDF5 File Format Specification, version 3.0, sections IV.A.1, IV.A.2.m and III.E.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from lrpnumpy.files.budget import Budget

_CONTINUED, _ATTRIBUTE = 0x10, 0x0C  # types of header messages
_MOST_MESSAGES = 100_000


class Damaged(ValueError):
    """The file does not hold what it says it does."""


class Reader:
    """The bytes of an open file; whatever lies outside them is `Damaged`.

    Each piece is read when it is needed: a file that is mapped into memory and then cut short ends the process.
    """

    def __init__(self, stream: IO[bytes], size: int, budget: Budget, base: int = 0) -> None:
        self._stream, self._size, self._budget = stream, size, budget
        self.base = base  # addresses count from here
        self._heaps: dict[int, dict[int, tuple[int, int]]] = {}

    def cut(self, start: int, length: int) -> bytes:
        """`length` bytes from `start`."""
        if length < 0 or not 0 <= start <= self._size - length:
            raise Damaged(f"needs {length:,} bytes at {start:,}, outside the file")
        self._stream.seek(start)
        found = self._stream.read(length)
        if len(found) != length:
            raise Damaged(f"needs {length:,} bytes at {start:,}, the file has become shorter")
        return found

    def number(self, start: int, length: int) -> int:
        """A little-endian number."""
        return int.from_bytes(self.cut(start, length), "little")

    def attribute(self, header: int, name: str, count: int, most: int) -> list[bytes]:
        """The `count` strings of the attribute `name` of the object whose header is at the address `header`."""
        for start, length in self._messages(self.base + header):
            if (value := self._value(start, start + length, name.encode())) is not None:
                return self._strings(value, start + length, count, most)
        raise Damaged("is stored in a way that is not read")

    def _messages(self, header: int) -> Iterator[tuple[int, int]]:
        """Place and length of each attribute in an object's header, which may go on elsewhere in the file."""
        new = self.cut(header, 4) == b"OHDR"
        if new:
            flags = self.number(header + 5, 1)
            start = header + 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
            width = 1 << (flags & 3)
            blocks, head = [(start + width, self.number(start, width))], 6 if flags & 4 else 4
        else:
            blocks, head = [(header + 16, self.number(header + 8, 4))], 8
        read = 0
        for start, length in blocks:  # grows while it is walked
            at, end = start, start + length
            while at + head <= end and read < _MOST_MESSAGES:
                kind = self.number(at, 1 if new else 2)
                size = self.number(at + (1 if new else 2), 2)
                at, read = at + head + size, read + 1
                self._budget.visit("attributes")
                if at > end:
                    raise Damaged("has a header that is longer than it says")
                if kind == _CONTINUED and len(blocks) < _MOST_MESSAGES:
                    further, size = self.base + self.number(at - size, 8), self.number(at - size + 8, 8)
                    blocks.append((further + 4, size - 8) if new else (further, size))
                elif kind == _ATTRIBUTE:
                    yield at - size, size

    def _value(self, at: int, end: int, name: bytes) -> int | None:
        """Where the value of an attribute starts, if it has this name and is of strings of variable length."""
        version = self.number(at, 1)
        lengths = [self.number(at + k, 2) for k in (2, 4, 6)]  # of name, type and shape
        at += 9 if version == 3 else 8
        if version not in (1, 2, 3) or self.cut(at, min(lengths[0], end - at)).split(b"\0")[0] != name:
            return None
        name_length, type_length, shape_length = (-(-n // 8) * 8 if version == 1 else n for n in lengths)
        kind = self.cut(at + name_length, 2)
        if kind[0] & 15 != 9 or kind[1] & 15 != 1:
            raise Damaged("is not of strings of variable length")
        return at + name_length + type_length + shape_length

    def _strings(self, at: int, end: int, count: int, most: int) -> list[bytes]:
        """The strings whose lengths, heaps and numbers stand at `at`."""
        if at + 16 * count > end:
            raise Damaged("has fewer strings than it says")
        places = []
        for k in range(at, at + 16 * count, 16):
            length, heap, number = self.number(k, 4), self.number(k + 4, 8), self.number(k + 12, 4)
            start, size = self._heap(heap).get(number, (0, 0)) if length else (0, 0)
            if length > size:
                raise Damaged(f"has a string of {length:,} bytes, of which {size:,} are there")
            places.append((start, length))
        if sum(length for _, length in places) > most:
            raise Damaged(f"is over the limit of {most:,} bytes")
        self._budget.hold("strings", sum(length for _, length in places))
        return [self.cut(start, length).split(b"\0")[0] for start, length in places]

    def _heap(self, address: int) -> dict[int, tuple[int, int]]:
        """Place and length of each object in the heap at an address."""
        if address not in self._heaps:
            start = self.base + address
            if self.cut(start, 5) != b"GCOL\x01":
                raise Damaged("points at a heap that is none")
            at, end = start + 16, start + self.number(start + 8, 8)
            objects = {}
            while at + 16 <= end:
                number, size = self.number(at, 2), self.number(at + 8, 8)
                objects[number] = at + 16, size
                self._budget.visit("strings")
                at += 16 + -(-size // 8) * 8 if number else max(size, 16)  # number 0 is free room, header included
                if at > end:
                    raise Damaged("lies in a heap whose objects do not fit into it")
            self._heaps[address] = objects
        return self._heaps[address]
