"""The chunks of an HDF5 dataset: where each is, by any of the six lists that a file may have, and what is in it.

Section III.A.1 for the old tree, appendix C (VII) for the lists that came with HDF5 1.10. A list becomes three arrays
with an entry for each chunk of the array, in the order of its indices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise, product

import numpy as np

from lrpnumpy.files.hdf5 import layouts
from lrpnumpy.files.hdf5.filters import DEFLATE, DEFLATE_RATIO, unpacked
from lrpnumpy.files.hdf5.layouts import Layout
from lrpnumpy.files.hdf5.pieces import UNDEFINED, Cursor, Pieces, Refused, log2, once
from lrpnumpy.files.hdf5.trees import CHUNKS, FILTERED_CHUNKS, PLAIN_CHUNKS, leaves, records
from lrpnumpy.files.hdf5.types import Kind, Space

_MOST_CHUNKS = 1_000_000
_OUTSIDE = "has chunks outside the array or outside the file; it may be truncated"
_KEPT = 1 << 24  # bytes of unpacked chunks that are kept, for the next rows to be asked for


class Chunks:
    """A dataset that is stored in chunks, read in blocks of rows."""

    def __init__(self, file: Pieces, layout: Layout, kind: Kind, space: Space, filters: list[int]) -> None:
        assert space.shape is not None and kind.dtype is not None
        *chunk, size = layout.chunk or (0,)
        if len(chunk) != len(space.shape) or size != kind.size or 0 in chunk or not chunk:
            raise Refused(f"has chunks of {tuple(chunk)} with values of {size:,} bytes, which its shape has not")
        self._file, self._filters, self._layout, self._most = file, filters, layout, space.most
        self.shape, self.chunk, self.dtype = space.shape, tuple(chunk), kind.dtype
        self._whole = math.prod(self.chunk) * size  # bytes of a chunk once unpacked
        self._grid = tuple(-(-n // size) for n, size in zip(self.shape, self.chunk, strict=True))
        self._places = np.empty((3, 0), np.uint64)  # of each chunk: address, stored bytes, filter mask
        self._kept: dict[tuple[int, ...], np.ndarray] = {}
        self.tick: Callable[[], None] = file.budget.tick

    def check(self, most: int) -> None:
        """Find all chunks, and see that they are in the file, with bytes enough for what they declare.

        Without filters a chunk must have its size exactly. Together they are at most `most` bytes.
        """
        count = math.prod(self._grid)
        if count > _MOST_CHUNKS:
            raise Refused(f"is stored in {count:,} chunks, over the limit of {_MOST_CHUNKS:,}")
        self._places = self._listed(count)
        address, sizes, _ = self._places[:, self._places[0] != UNDEFINED]
        room = self._file.size - self._file.base
        declared, stored = count * self._whole, int(np.minimum(sizes, room + 1).sum())
        if stored > room or declared > stored * (DEFLATE_RATIO if DEFLATE in self._filters else 1):
            raise Refused(f"declares {declared:,} bytes, the file has {min(stored, room):,} for them")
        if declared > most:
            raise Refused(f"has chunks of {self.chunk}, together over {most:,} bytes")
        least, largest = (0, 2 * self._whole + 1024) if self._filters else (self._whole, self._whole)
        if (wrong := sizes[(sizes < least) | (sizes > largest)]).size:
            raise Refused(f"has a chunk of {wrong[0]:,} bytes, {self._whole:,} when unpacked; it is damaged")
        if (address > room - sizes).any():
            raise Refused(_OUTSIDE)
        if (seen := len(sizes)) < count:
            raise Refused(f"has {seen:,} of its {count:,} chunks, the others were never written; write out every value")

    # -------------------------------------------------------------------------------------------------- reading

    def rows(self, start: int, stop: int) -> np.ndarray:
        """The rows from `start` to before `stop`, cut at the end of the dataset as NumPy cuts a slice."""
        start, stop, _ = slice(start, stop).indices(self.shape[0])
        low, high = (start, *[0] * (len(self.shape) - 1)), (max(start, stop), *self.shape[1:])
        found = np.empty([b - a for a, b in zip(low, high, strict=True)], self.dtype)
        firsts = [range(a // n, -(-b // n)) for a, b, n in zip(low, high, self.chunk, strict=True)]
        for corner in product(*firsts):
            inside, target = [], []  # the same numbers, in the chunk and in what is returned
            for k, n, a, b in zip(corner, self.chunk, low, high, strict=True):
                here, end = max(k * n, a), min(k * n + n, b)
                inside.append(slice(here - k * n, end - k * n))
                target.append(slice(here - a, end - a))
            found[tuple(target)] = self._chunk_at(corner)[tuple(inside)]
        return found

    def _chunk_at(self, corner: tuple[int, ...]) -> np.ndarray:
        """A whole chunk. Rows are asked for in blocks, so that the same chunk is often needed twice in a row."""
        if (found := self._kept.get(corner)) is None:
            self.tick()
            address, size, mask = self._places[:, np.ravel_multi_index(corner, self._grid)].tolist()
            data = self._file.cut(address, size)
            data = unpacked(data, self._filters, mask, self.dtype.itemsize, self._whole, self.tick)
            found = np.frombuffer(data, self.dtype).reshape(self.chunk)
            if (len(self._kept) + 1) * self._whole > _KEPT:
                self._kept = {}
            self._kept[corner] = found
        return found

    # ------------------------------------------------------------------------------------- the lists of chunks

    def _listed(self, count: int) -> np.ndarray:
        """The place of each of `count` chunks; its address is `UNDEFINED` where there is no chunk."""
        address, listed = self._layout.address, self._layout.listed
        found = np.zeros((3, count), np.uint64)
        found[0] = UNDEFINED
        if address == UNDEFINED or not count:
            return found
        if listed in (layouts.TREE_1, layouts.TREE_2):
            at, places = (self._tree_1 if listed == layouts.TREE_1 else self._tree_2)(address)
            if (at >= np.array(self._grid, np.uint64)).any():
                raise Refused(_OUTSIDE)
            numbers = np.ravel_multi_index(tuple(at.T.astype(np.int64)), self._grid)
            if len(np.unique(numbers)) < len(numbers):
                raise Refused("has a chunk twice")
            found[:, numbers] = places
        elif listed == layouts.SINGLE:
            found[:, 0] = address, *(self._layout.single or (self._whole, 0))  # others were never written
        elif listed == layouts.IMPLICIT:
            numbers = self._numbers()
            self._file.check(address, (int(numbers[-1]) + 1) * self._whole)
            found[:2] = address + numbers * self._whole, np.full(count, self._whole)
        else:
            numbers, list_of = self._numbers(), _fixed if listed == layouts.FIXED else _extensible
            rows = list_of(self._file, address, bool(self._filters), int(numbers[-1]) + 1)
            there = numbers < len(rows)
            found[:, there] = self._columns(rows[numbers[there]])
        return found

    def _numbers(self) -> np.ndarray:
        """The number of each chunk where chunks are counted over the largest shape that the array may grow to.

        In an array that grows without end along one axis, this axis comes first.
        """
        axes = sorted(range(len(self.shape)), key=lambda axis: self._most[axis] != UNDEFINED)
        found, step = np.zeros(self._grid, np.int64), 1
        for axis in reversed(axes):
            if self._grid[axis] * step >= 2**62 // max(self._whole, 1):
                raise Refused("has more chunks than a file can hold")
            along = [1] * len(axes)
            along[axis] = -1
            found += (np.arange(self._grid[axis]) * step).reshape(along)
            step *= -(-self._most[axis] // self.chunk[axis])
        return found.reshape(-1)

    def _columns(self, rows: np.ndarray) -> np.ndarray:
        """Address, and where there are filters, size and mask, from rows of bytes."""
        end = rows.shape[1]
        if not (13 <= end <= 20 if self._filters else end == 8):
            raise Refused(f"has a list of chunks with entries of {end} bytes")
        found = np.zeros((3, len(rows), 8), np.uint8)
        cuts = (0, 8, end - 4, end) if self._filters else (0, 8)
        for k, (start, stop) in enumerate(pairwise(cuts)):
            found[k, :, : stop - start] = rows[:, start:stop]
        places = found.view("<u8")[:, :, 0].astype(np.uint64)
        if not self._filters:
            places[1] = self._whole
        return places

    def _tree_1(self, address: int) -> tuple[np.ndarray, np.ndarray]:
        """Which chunk each entry of a tree of version 1 is about, and its place."""
        rank, chunk = len(self.shape), np.array(self.chunk, np.uint64)
        entry = np.dtype([("size", "<u4"), ("mask", "<u4"), ("at", "<u8", (rank + 1,)), ("child", "<u8")])
        found = leaves(self._file, address, CHUNKS, entry)
        at = found["at"][:, :rank].astype(np.uint64)
        if (at % chunk).any():
            raise Refused("has a chunk that does not begin where one must")
        return at // chunk, np.stack([found[name].astype(np.uint64) for name in ("child", "size", "mask")])

    def _tree_2(self, address: int) -> tuple[np.ndarray, np.ndarray]:
        """The same of version 2."""
        rows = records(self._file, address, FILTERED_CHUNKS if self._filters else PLAIN_CHUNKS)
        end = max(0, rows.shape[1] - 8 * len(self.shape))
        return rows[:, end:].copy().view("<u8").astype(np.uint64), self._columns(rows[:, :end])


def _fixed(file: Pieces, address: int, filtered: bool, need: int) -> np.ndarray:
    """The entries of a fixed array (VII.C), each a row of bytes; at least `need` if it has so many."""
    version, client, size, bits, count, block = file.checked(address, 28, b"FAHD").numbers("BBBBQQ")
    if version or client != filtered or not size or bits > 32 or count * size > file.size:
        raise Refused(f"has a list of {count:,} chunks of a kind that is not read")
    page = 1 << bits
    pages = -(-count // page) if count > page else 0
    body = file.checked(block, 14 + (-(-pages // 8) or count * size) + 4, b"FADB")
    body.take(10)
    rest = body.take(body.left)
    if pages:
        written = np.unpackbits(np.frombuffer(rest, np.uint8))[:pages]
        rest = b"".join(_pages(file, block + len(body.data) + 4, written, page, count, size))
    return _rows([rest], size)


def _extensible(file: Pieces, address: int, filtered: bool, need: int) -> np.ndarray:
    """The first `need` entries of an extensible array (VII.D), each a row of bytes.

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
    width = -(-bits // 8)
    body = file.checked(index, 14 + inside * size + 8 * (2 * (pointers - 1) + max(0, groups - near)) + 4, b"EAIB")
    body.take(10)
    found, have, seen = [body.take(inside * size)], inside, set[int]()
    for k in range(groups):
        count, each = 1 << k // 2, least << (k + 1) // 2
        pages = each >> page_bits if each > 1 << page_bits else 0
        source, written = body, np.ones((count, pages), np.uint8)
        if k >= near and have < need:
            if (place := body.number(8)) == UNDEFINED:
                source = Cursor(b"\xff" * 8 * min(count, need))
            else:
                bitmap = count * -(-pages // 8)
                source = file.checked(place, 14 + width + bitmap + 8 * count + 4, b"EASB")
                source.take(10 + width)
                written = np.unpackbits(np.frombuffer(source.take(bitmap), np.uint8))[: count * pages]
                written = written.reshape(count, pages)
        for n in range(count):
            if have >= need:
                return _rows(found, size)
            place, taken = source.number(8), min(each, need - have)
            if place == UNDEFINED:
                found.append(b"\xff" * taken * size)
            else:
                once(place, seen)
                block = file.checked(place, 14 + width + (0 if pages else each * size) + 4, b"EADB")
                block.take(10 + width)
                found.append(block.take(block.left))
                if pages:
                    found += _pages(file, place + len(block.data) + 4, written[n], 1 << page_bits, each, size)
            have += each
    return _rows(found, size)


def _pages(file: Pieces, start: int, written: np.ndarray, page: int, count: int, size: int) -> list[bytes]:
    """The `count` entries in pages one behind the other, each with a checksum; what was not written has no place."""
    found = []
    for flag in written.tolist():
        length = min(page, count) * size
        found.append(file.checked(start, length + 4, b"").data if flag else b"\xff" * length)
        start, count = start + length + 4, count - page
    return found


def _rows(parts: list[bytes], size: int) -> np.ndarray:
    return np.frombuffer(b"".join(parts), np.uint8).reshape(-1, size)
