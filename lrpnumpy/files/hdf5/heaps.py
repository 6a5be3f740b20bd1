"""The heaps of an HDF5 file: names of old groups, strings of variable length, and links or attributes that are many.

Sections III.D (local heap), III.E (global heap) and III.G (fractal heap).
"""

from __future__ import annotations

from bisect import bisect_right

from lrpnumpy.files.hdf5.pieces import UNDEFINED, Cursor, Pieces, Refused, log2, lookup3, once
from lrpnumpy.files.hdf5.trees import HUGE, records


def local(file: Pieces, address: int) -> bytes:
    """All of a local heap: names, each with a NUL behind it."""
    head = file.cursor(address, 32, b"HEAP")
    _, size, _, data = head.numbers("IQQQ")
    return file.cursor(data, size).data


class Strings:
    """Strings of variable length, each by the address of its heap and its number there."""

    def __init__(self, file: Pieces) -> None:
        self._file = file
        self._heaps: dict[int, dict[int, bytes]] = {}

    def read(self, data: bytes, count: int, most: int) -> list[bytes]:
        """`count` strings whose lengths, heaps and numbers are in `data`, of at most `most` bytes together."""
        said, found = Cursor(data), []
        for _ in range(count):
            length, heap, number = said.numbers("IQI")
            there = self._heap(heap).get(number, b"") if length else b""
            if length > len(there):
                raise Refused(f"has a string of {length:,} bytes, of which {len(there):,} are there")
            if (most := most - length) < 0:
                raise Refused("has strings that are over the limit together")
            self._file.budget.hold("strings", length)
            found.append(there[:length].split(b"\0")[0])
        return found

    def _heap(self, address: int) -> dict[int, bytes]:
        """The objects of the heap at an address, by number."""
        if address not in self._heaps:
            if self._file.cut(address, 5) != b"GCOL\x01":
                raise Refused("points at a heap that is none")
            size = int.from_bytes(self._file.cut(address + 8, 8), "little")
            said = self._file.cursor(address, size)
            said.take(16)
            objects = {}
            while said.left >= 16:
                self._file.budget.visit("strings")
                number, _, _, size = said.numbers("HHIQ")
                room = -(-size // 8) * 8 if number else max(size - 16, 0)  # number 0 is free room, header included
                if room > said.left:
                    raise Refused("lies in a heap whose objects do not fit into it")
                objects[number] = said.take(room)[:size]
            self._heaps[address] = {**objects, 0: b""}
        return self._heaps[address]


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
        self._length = min(-(-log2(direct) // 8), -(-largest.bit_length() // 8))
        self._direct_rows = log2(direct) - log2(self._start) + 2
        self._huge = huge
        self._far: dict[int, tuple[int, int]] | None = None
        self._read: dict[int, bytes] = {}
        self._blocks = sorted(self._walk(root, rows)) if rows else [(0, root, self._start)]

    def _walk(self, root: int, rows: int) -> list[tuple[int, int, int]]:
        """Offset, address and size of every block with data. The rows of a table have blocks of 1, 1, 2, 4, 8, … sizes.

        Blocks of the rows behind the first few are tables again, of fewer rows.
        """
        found, tables = [], [(root, rows, 0)]
        seen: set[int] = set()
        for address, rows, offset in tables:  # grows while it is walked
            once(address, seen)
            if rows > 64:
                raise Refused(f"has a heap of {rows:,} rows")
            table = self._file.checked(address, 13 + self._offset + 8 * rows * self._width + 4, b"FHIB")
            table.take(9 + self._offset)
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
        if kind == 0x10:  # huge: by a number
            return self._huge_object(said.number(min(8, said.left)))
        if kind:
            raise Refused("has an object in a heap that is stored in a way that is not read")
        offset, length = said.number(self._offset), said.number(self._length)
        k = bisect_right(self._blocks, (offset, UNDEFINED, 0)) - 1
        start, address, size = self._blocks[k] if k >= 0 else (0, 0, 0)
        if not start <= offset <= start + size - length:
            raise Refused("has an object outside its heap")
        return self._block(address, size)[offset - start :][:length]

    def _block(self, address: int, size: int) -> bytes:
        if address not in self._read:
            data = self._file.cursor(address, size, b"FHDB").data
            at = 13 + self._offset  # its checksum is that of the block with 0 in this place
            said, blanked = int.from_bytes(data[at : at + 4], "little"), data[:at] + bytes(4) + data[at + 4 :]
            if self._checked and lookup3(blanked, self._file.budget) != said:
                raise Refused(f"has a wrong checksum in FHDB at {address:,}")
            self._read[address] = data
        return self._read[address]

    def _huge_object(self, number: int) -> bytes:
        if self._far is None:
            rows = records(self._file, self._huge, HUGE)
            if rows.shape[1] != 24:
                raise Refused("has a heap whose large objects are stored in a way that is not read")
            self._far = {row[2]: (row[0], row[1]) for row in rows.copy().view("<u8").tolist()}
        if number not in self._far:
            raise Refused("has an object outside its heap")
        return self._file.cursor(*self._far[number]).data
