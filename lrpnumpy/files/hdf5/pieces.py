"""The bytes of an HDF5 file: pieces of it, the numbers in a piece, and the checksum that guards one.

Each piece is read when it is needed: a file that is mapped into memory and then cut short ends the process.
"""

from __future__ import annotations

import io
import struct
import threading
from collections.abc import Iterator
from typing import Any, TypeVar

from lrpnumpy.checks import LrpError
from lrpnumpy.files.budget import Budget

UNDEFINED = 2**64 - 1  # the address of what was never stored
_32 = 0xFFFFFFFF
_CLOCK = 3 << 13  # words of a checksum between two looks at the clock
Part = TypeVar("Part", bound=tuple[Any, ...])
Stream = io.BufferedIOBase | io.RawIOBase


class Refused(LrpError):
    """A place of the file that is not read, and why: usually its content contradicts its description."""


class Pieces:
    """An open file; whatever lies outside it is `Refused`. Addresses count from `base`."""

    def __init__(self, stream: Stream, size: int, budget: Budget) -> None:
        self.size, self.budget, self.base = size, budget, 0
        self._stream, self._lock = stream, threading.Lock()

    def check(self, address: int, length: int) -> None:
        """See that a piece lies inside the file."""
        if length < 0 or address < 0 or not self.base + address <= self.size - length:
            raise Refused(f"needs {length:,} bytes at {self.base + address:,}, outside the file")

    def fill(self, address: int, buffer: Any) -> None:
        """Read as many bytes as `buffer` has room for into it."""
        self.check(address, len(buffer))
        with self._lock:
            self._stream.seek(self.base + address)
            if (self._stream.readinto(buffer) or 0) < len(buffer):
                raise Refused(f"needs {len(buffer):,} bytes at {address:,}, the file has become shorter")

    def cut(self, address: int, length: int) -> bytes:
        """A piece of the file, which is data."""
        self.check(address, length)
        found = bytearray(length)
        self.fill(address, found)
        return bytes(found)

    def cursor(self, address: int, length: int, signature: bytes = b"") -> Cursor:
        """A piece that describes the file, behind the signature that it begins with."""
        data = self.cut(address, length)
        self.budget.visit("")
        self.budget.hold("", length)
        if not data.startswith(signature):
            raise Refused(f"has no {signature!r} at {address:,} where there should be one")
        return Cursor(data, len(signature))

    def checked(self, address: int, length: int, signature: bytes, skip: int = 0) -> Cursor:
        """The same, and `skip` bytes on, of a piece whose last four bytes are a checksum, which is looked at here."""
        found = self.cursor(address, length, signature)
        content, end = found.data[:-4], found.data[-4:]
        if len(end) < 4 or lookup3(content, self.budget) != int.from_bytes(end, "little"):
            raise Refused(f"has a wrong checksum in {signature!r} at {address:,}")
        return Cursor(content, found.at + skip)


class Cursor:
    """Bytes that are taken one after the other; to take more than there are is `Refused`."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    @property
    def left(self) -> int:
        """How many bytes are left."""
        return len(self.data) - self.at

    def take(self, length: int) -> bytes:
        """The next bytes."""
        if not 0 <= length <= self.left:
            raise Refused(f"needs {length:,} bytes of a part that has {self.left:,} left")
        self.at += length
        return self.data[self.at - length : self.at]

    def number(self, length: int) -> int:
        """The next bytes as a little-endian number."""
        return int.from_bytes(self.take(length), "little")

    def numbers(self, form: str) -> tuple[int, ...]:
        """The next bytes as numbers, by the letters of `struct`."""
        return struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))


def walked(parts: list[Part]) -> Iterator[Part]:
    """The parts of a tree, each an address and more; who takes them may add further ones.

    An address that comes twice is `Refused`: so reading ends, whatever the file contains.
    """
    seen: set[int] = set()
    for part in parts:  # grows while it is walked
        if part[0] in seen:
            raise Refused(f"has the part at {part[0]:,} in two places")
        seen.add(part[0])
        yield part


def log2(number: int) -> int:
    """The logarithm of a power of two."""
    if number < 1 or number & (number - 1):
        raise Refused(f"has {number:,} where there must be a power of two")
    return number.bit_length() - 1


def width_of(most: int) -> int:
    """How many bytes hold numbers up to `most`."""
    return -(-most.bit_length() // 8)


def lookup3(data: bytes, budget: Budget) -> int:
    """The checksum of all that describes the file: Bob Jenkins' lookup3, begun with 0."""
    x = y = z = 0xDEADBEEF + len(data) & _32
    words = struct.unpack(f"<{-(-len(data) // 12) * 3}I", data + bytes(-len(data) % 12))
    for k in range(0, len(words), 3):
        if not k % _CLOCK:
            budget.tick()
        x, y, z = x + words[k] & _32, y + words[k + 1] & _32, z + words[k + 2] & _32
        for turn in (4, 6, 8, 16, 19, 4) if k + 3 < len(words) else ():
            x, y, z = y, z + y & _32, (x - z & _32) ^ (z << turn & _32 | z >> 32 - turn)
    for turn in (14, 11, 25, 16, 4, 14, 24) if words else ():
        x, y, z = y, (z ^ y) - (y << turn & _32 | y >> 32 - turn) & _32, x
    return y
