"""Where the chunks of an HDF5 dataset are, by any of the six lists that a file may have.

Section III.A.1 for the old tree, appendix C (VII) for the lists that came with HDF5 1.10.
"""

from __future__ import annotations

import math

import numpy as np

from lrpnumpy.files.hdf5 import types
from lrpnumpy.files.hdf5.pieces import UNDEFINED, Cursor, Pieces, Refused, log2
from lrpnumpy.files.hdf5.trees import CHUNKS, FILTERED_CHUNKS, PLAIN_CHUNKS, leaves, records
from lrpnumpy.files.hdf5.types import Shape

MOST = 1_000_000
OUTSIDE = "has chunks outside the array or outside the file; it may be truncated"


class Grid:
    """How an array is cut into chunks, all of one shape; those at its end stick out. One piece is one chunk."""

    def __init__(self, shape: Shape, most: Shape, layout: types.DataLayout, size: int, filtered: bool) -> None:
        *chunk, stored = layout.chunk or (*shape, size)
        if len(chunk) != len(shape) or stored != size or 0 in chunk:
            raise Refused(f"has chunks of {tuple(chunk)} with values of {stored:,} bytes, which its shape has not")
        self._layout, self._most, self._filtered = layout, most, filtered
        self.chunk, self.bytes = tuple(chunk), math.prod(chunk) * size  # of a chunk once unpacked
        self.grid = tuple(-(-n // size) for n, size in zip(shape, chunk, strict=True))
        self.count = math.prod(self.grid)
        if self.count > MOST:
            raise Refused(f"is stored in {self.count:,} chunks, over the limit of {MOST:,}")

    def places(self, file: Pieces) -> np.ndarray:
        """Three numbers for each chunk, in the order of their indices: address, stored bytes, filter mask.

        The address is `UNDEFINED` where there is no chunk.
        """
        address, listed = self._layout.address, self._layout.listed
        found = np.zeros((3, self.count), np.uint64)
        found[0] = UNDEFINED
        if address == UNDEFINED or not self.count:
            return found
        if listed in (types.TREE_1, types.TREE_2):
            tree = {types.TREE_1: self._tree_1, types.TREE_2: self._tree_2}[listed]
            at, places = tree(file, address)
            if (at >= np.array(self.grid, np.uint64)).any():
                raise Refused(OUTSIDE)
            numbers = np.ravel_multi_index(tuple(at.T.astype(np.int64)), self.grid)
            if len(np.unique(numbers)) < len(numbers):
                raise Refused("has a chunk twice")
            found[:, numbers] = places
        elif listed == types.SINGLE:
            found[:, 0] = address, *(self._layout.single or (self.bytes, 0))  # others were never written
        elif listed == types.IMPLICIT:
            numbers = self._numbers()
            file.check(address, (int(numbers[-1]) + 1) * self.bytes)
            found[0], found[1] = address + numbers * self.bytes, self.bytes
        else:
            numbers, list_of = self._numbers(), {types.FIXED: _fixed, types.EXTENSIBLE: _extensible}[listed]
            parts, size = list_of(file, address, self._filtered, int(numbers[-1]) + 1)
            rows = np.frombuffer(b"".join(parts), np.uint8).reshape(-1, size)
            there = numbers < len(rows)
            found[:, there] = self._columns(rows[numbers[there]])
        return found

    def _numbers(self) -> np.ndarray:
        """The number of each chunk where chunks are counted over the largest shape that the array may grow to.

        In an array that grows without end along one axis, this axis comes first.
        """
        along, step = [np.empty(0, np.int64)] * len(self.grid), 1
        for axis in sorted(range(len(self.grid)), key=lambda axis: (self._most[axis] == UNDEFINED, -axis)):
            if self.grid[axis] * step >= 2**62 // max(self.bytes, 1):
                raise Refused("has more chunks than a file can hold")
            along[axis] = np.arange(self.grid[axis]) * step
            step *= -(-self._most[axis] // self.chunk[axis])
        return sum(np.ix_(*along), np.zeros((), np.int64)).reshape(-1)

    def _columns(self, rows: np.ndarray) -> np.ndarray:
        """Address, and where there are filters, size and mask, from rows of bytes."""
        end = rows.shape[1]
        widths = range(8, 9)
        if self._filtered:
            widths = range(13, 21)
        if end not in widths:
            raise Refused(f"has a list of chunks with entries of {end} bytes")
        wide = np.zeros((len(rows), 24), np.uint8)
        wide[:, :8] = rows[:, :8]
        if self._filtered:
            wide[:, 8 : end - 4], wide[:, 16:20] = rows[:, 8:-4], rows[:, -4:]
        else:
            wide.view("<u8")[:, 1] = self.bytes
        return wide.view("<u8").T.astype(np.uint64)

    def _tree_1(self, file: Pieces, address: int) -> tuple[np.ndarray, np.ndarray]:
        """Which chunk each entry of a tree of version 1 is about, and its place."""
        rank, chunk = len(self.grid), np.array(self.chunk, np.uint64)
        entry = np.dtype([("size", "<u4"), ("mask", "<u4"), ("at", "<u8", (rank + 1,)), ("child", "<u8")])
        found = leaves(file, address, CHUNKS, entry)
        at = found["at"][:, :rank].astype(np.uint64)
        if (at % chunk).any():
            raise Refused("has a chunk that does not begin where one must")
        return at // chunk, np.stack([found[name].astype(np.uint64) for name in ("child", "size", "mask")])

    def _tree_2(self, file: Pieces, address: int) -> tuple[np.ndarray, np.ndarray]:
        """The same of version 2."""
        rows = records(file, address, FILTERED_CHUNKS if self._filtered else PLAIN_CHUNKS)
        end = max(0, rows.shape[1] - 8 * len(self.grid))
        return rows[:, end:].copy().view("<u8").astype(np.uint64), self._columns(rows[:, :end])


def _fixed(file: Pieces, address: int, filtered: bool, need: int) -> tuple[list[bytes], int]:
    """The entries of a fixed array (VII.C), and the bytes of each."""
    version, client, size, bits, count, block = file.checked(address, 28, b"FAHD").numbers("BBBBQQ")
    if version or client != filtered or not size or bits > 32 or count * size > file.size:
        raise Refused(f"has a list of {count:,} chunks of a kind that is not read")
    return _entries(file, block, b"FADB", 0, count, size, 1 << bits), size


def _extensible(file: Pieces, address: int, filtered: bool, need: int) -> tuple[list[bytes], int]:
    """The first `need` entries of an extensible array (VII.D), and the bytes of each.

    A few are in the index block. The others are in data blocks; the k-th group has 2^(k//2) of them, each with
    2^((k+1)//2) times the least number of entries. The index block points at the data blocks of the first groups, and
    at a secondary block of each later group, which points at its data blocks.
    """
    head = file.checked(address, 72, b"EAHD")
    version, client, size, bits, inside, least, pointers, page_bits = head.numbers("8B")
    *_, index = head.numbers("7Q")
    if version or client != filtered or not size or bits > 64 or page_bits > 32:
        raise Refused("has a list of chunks of a kind that is not read")
    file.budget.hold("chunks", need * size)
    near, groups = 2 * log2(pointers), 1 + bits - log2(least)
    width, page = -(-bits // 8), 1 << page_bits
    body = file.checked(index, 14 + inside * size + 8 * (2 * (pointers - 1) + max(0, groups - near)) + 4, b"EAIB", 10)
    found, have = [body.take(inside * size)], inside
    for k in range(groups):
        if have >= need:
            break
        count, each = 1 << k // 2, least << (k + 1) // 2
        wanted, pages = min(count, -(-(need - have) // each)), each >> page_bits if each > page else 0
        source, flags = body, np.ones(wanted * pages, np.uint8)
        if k >= near and (place := body.number(8)) == UNDEFINED:
            source = Cursor(b"\xff" * 8 * wanted)
        elif k >= near:
            bitmap = count * -(-pages // 8)
            source = file.checked(place, 14 + width + bitmap + 8 * count + 4, b"EASB", 10 + width)
            flags = np.unpackbits(np.frombuffer(source.take(bitmap), np.uint8), count=wanted * pages)
        for n in range(wanted):
            if (place := source.number(8)) == UNDEFINED:
                found.append(b"\xff" * min(each, need - have) * size)
            else:
                found += _entries(file, place, b"EADB", width, each, size, page, flags[n * pages : (n + 1) * pages])
            have += each
    return found, size


def _entries(
    file: Pieces, place: int, sign: bytes, skip: int, count: int, size: int, page: int, flags: np.ndarray | None = None
) -> list[bytes]:
    """The `count` entries of a data block, `skip` bytes behind its head; what was never written has no place.

    More than fit into a page are in pages behind the block, each with a checksum. Flags say which of them were written;
    where they are not given they are in the block.
    """
    pages = -(-count // page) if count > page else 0
    if not pages:
        inside = count * size
    elif flags is None:
        inside = -(-pages // 8)
    else:
        inside = 0
    body = file.checked(place, 14 + skip + inside + 4, sign, 10 + skip)
    found, start = [body.take(inside)], place + len(body.data) + 4
    if pages:
        bits = found.pop()
        if flags is None:
            flags = np.unpackbits(np.frombuffer(bits, np.uint8), count=pages)
        for is_written in flags.tolist():
            length = min(page, count) * size
            content = b"\xff" * length
            if is_written:
                content = file.checked(start, length + 4, b"").data
            found.append(content)
            start, count = start + length + 4, count - page
    return found
