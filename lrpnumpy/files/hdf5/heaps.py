"""The heaps of an HDF5 file: names of old groups, strings of variable length, and links or attributes that are many.

Sections III.D (local heap), III.E (global heap) and III.G (fractal heap).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import cache, cached_property

from lrpnumpy.files.hdf5.pieces import UNDEFINED, Cursor, Pieces, Refused, log2, lookup3, walked, width_of
from lrpnumpy.files.hdf5.trees import HUGE, records
from lrpnumpy.files.safe import MAX_TEXT


def local(file: Pieces, address: int) -> bytes:
    """All of a local heap: names, each with a NUL behind it."""
    head = file.cursor(address, 32, b"HEAP")
    _, size, _, data = head.numbers("IQQQ")
    return file.cursor(data, size).data


def of_strings(file: Pieces, address: int) -> dict[int, bytes]:
    """The objects of the global heap at an address, by number."""
    if file.cut(address, 5) != b"GCOL\x01":
        raise Refused("points to a heap that does not exist")
    said, objects = file.cursor(address, int.from_bytes(file.cut(address + 8, 8), "little")), {}
    said.take(16)
    while said.left >= 16:
        file.budget.visit("strings")
        number, _, _, size = said.numbers("HHIQ")
        room = -(-size // 8) * 8 if number else max(size - 16, 0)  # number 0 is free room, header included
        if room > said.left:
            raise Refused("lies in a heap whose objects do not fit into it")
        objects[number] = said.take(room)[:size]
    return {**objects, 0: b""}


def strings(heap_at: Callable[[int], dict[int, bytes]], data: bytes, count: int) -> list[bytes]:
    """`count` strings whose lengths, heaps and numbers are in `data`."""
    said, found, most = Cursor(data), [], MAX_TEXT
    for _ in range(count):
        length, heap, number = said.numbers("IQI")
        there = b""
        if length:
            there = heap_at(heap).get(number, b"")
        if length > len(there):
            raise Refused(f"has a string of {length:,} bytes, of which {len(there):,} are there")
        if (most := most - length) < 0:
            raise Refused("has strings that are over the limit together")
        found.append(there[:length].split(b"\0")[0])
    return found


class Fractal:
    """A heap of blocks that double in size, whose objects have an offset and a length; large ones lie outside it."""

    def __init__(self, file: Pieces, address: int) -> None:
        head = file.checked(address, 146, b"FRHP")
        version, _, filters, flags, largest = head.numbers("BHHBI")
        if version or filters:
            raise Refused(f"has a heap at {address:,} of a kind that is not read")
        _, huge, *_ = head.numbers("12Q")
        self._width, self._start, direct, bits, _, root, rows = head.numbers("HQQHHQH")
        self._file, self._checked = file, flags & 2
        self._offset = -(-bits // 8)  # bytes of an offset
        self._length = min(width_of(direct - 1), width_of(largest))
        self._direct_rows = log2(direct) - log2(self._start) + 2
        self._huge, self._block = huge, cache(self._data)
        self._blocks = [(0, root, self._start)]
        if rows:
            self._blocks = sorted(self._walk(root, rows))

    def _walk(self, root: int, rows: int) -> list[tuple[int, int, int]]:
        """Offset, address and size of every block with data. The rows of a table have blocks of 1, 1, 2, 4, 8, … sizes.

        Blocks of the rows behind the first few are tables again, of fewer rows.
        """
        found, tables = [], [(root, rows, 0)]
        for address, rows, offset in walked(tables):
            if rows > 64:
                raise Refused(f"has a heap of {rows:,} rows")
            head, content = 13 + self._offset, 8 * rows * self._width
            table = self._file.checked(address, head + content + 4, b"FHIB", head - 4)
            for row in range(rows):
                size = self._start << max(0, row - 1)
                for _ in range(self._width):
                    if (child := table.number(8)) != UNDEFINED:
                        self._file.budget.visit("")
                        if row < self._direct_rows:
                            found.append((offset, child, size))
                        else:
                            tables.append((child, log2(size) - log2(self._start * self._width) + 1, offset))
                    offset += size
        return found

    def object(self, name: bytes) -> bytes:
        """An object by its name in the heap."""
        said = Cursor(name)
        kind = said.number(1)
        if kind == 0x10:  # a large one, by a number
            number = said.number(min(8, said.left))
            if number not in self._far:
                raise Refused("has an object outside its heap")
            return self._file.cursor(*self._far[number]).data
        if kind:
            raise Refused("has an object in a heap that is stored in a way that is not read")
        offset, length = said.number(self._offset), said.number(self._length)
        k = bisect_right(self._blocks, (offset, UNDEFINED, 0)) - 1
        start, address, size = self._blocks[k] if k >= 0 else (0, 0, 0)
        if not start <= offset <= start + size - length:
            raise Refused("has an object outside its heap")
        return self._block(address, size)[offset - start :][:length]

    def _data(self, address: int, size: int) -> bytes:
        data = self._file.cursor(address, size, b"FHDB").data
        at = 13 + self._offset  # its checksum is that of the block with 0 in this place
        said, blanked = int.from_bytes(data[at : at + 4], "little"), data[:at] + bytes(4) + data[at + 4 :]
        if self._checked and lookup3(blanked, self._file.budget) != said:
            raise Refused(f"has a wrong checksum in FHDB at {address:,}")
        return data

    @cached_property
    def _far(self) -> dict[int, tuple[int, int]]:
        """Address and size of each large object."""
        rows = records(self._file, self._huge, HUGE)
        if rows.shape[1] != 24:
            raise Refused("has a heap whose large objects are stored in a way that is not read")
        return {row[2]: (row[0], row[1]) for row in rows.copy().view("<u8").tolist()}
