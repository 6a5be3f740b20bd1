"""Where the chunks of an HDF5 dataset are: in a tree, or in a list of an array that does not grow.

Section III.A.1 for the tree, appendix VII.C for the list, which came with HDF5 1.10.
"""

from __future__ import annotations

import math

import numpy as np

from lrpnumpy.files.hdf5 import types
from lrpnumpy.files.hdf5.pieces import UNDEFINED, Pieces, Refused
from lrpnumpy.files.hdf5.trees import CHUNKS, leaves
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
        if listed == types.SINGLE:
            found[:, 0] = address, *(self._layout.single or (self.bytes, 0))  # others were never written
        elif listed == types.TREE:
            self._from_tree(file, address, found)
        else:
            found[:] = self._from_list(file, address)
        return found

    def _from_tree(self, file: Pieces, address: int, found: np.ndarray) -> None:
        """Put the places in a tree of version 1 into `found`."""
        rank, chunk = len(self.grid), np.array(self.chunk, np.uint64)
        entry = np.dtype([("size", "<u4"), ("mask", "<u4"), ("at", "<u8", (rank + 1,)), ("child", "<u8")])
        entries = leaves(file, address, CHUNKS, entry)
        at = entries["at"][:, :rank].astype(np.uint64)
        if (at % chunk).any():
            raise Refused("has a chunk that does not begin where one must")
        at //= chunk
        if (at >= np.array(self.grid, np.uint64)).any():
            raise Refused(OUTSIDE)
        numbers = np.ravel_multi_index(tuple(at.T.astype(np.int64)), self.grid)
        if len(np.unique(numbers)) < len(numbers):
            raise Refused("has a chunk twice")
        found[:, numbers] = [entries[name].astype(np.uint64) for name in ("child", "size", "mask")]

    def _from_list(self, file: Pieces, address: int) -> np.ndarray:
        """The places in a fixed array, which lists the chunks of the largest shape that the array may grow to."""
        along, count = [np.empty(0, np.int64)] * len(self.grid), 1  # the number of a chunk is a sum over the axes
        for axis in reversed(range(len(self.grid))):
            along[axis] = np.arange(self.grid[axis]) * count
            count *= -(-self._most[axis] // self.chunk[axis])
        rows = _fixed(file, address, self._filtered, count)
        rows = rows[sum(np.ix_(*along), np.zeros((), np.int64)).reshape(-1)]
        wide = np.zeros((self.count, 24), np.uint8)
        wide[:, :8] = rows[:, :8]
        if self._filtered:
            wide[:, 8 : rows.shape[1] - 4], wide[:, 16:20] = rows[:, 8:-4], rows[:, -4:]
        else:
            wide.view("<u8")[:, 1] = self.bytes
        return wide.view("<u8").T


def _fixed(file: Pieces, address: int, filtered: bool, count: int) -> np.ndarray:
    """The `count` entries of a fixed array as rows of bytes: an address; with filters also a size and a mask.

    More than fit into a page are in pages behind the block, each with a checksum. Bits in the block tell which of them
    were written.
    """
    version, client, size, bits, declared, block = file.checked(address, 28, b"FAHD").numbers("BBBBQQ")
    is_known = not version and client == filtered and bits <= 32 and size in (range(13, 21) if filtered else (8,))
    if not is_known or declared != count or count * size > file.size:
        raise Refused(f"has a list of {declared:,} chunks of a kind that is not read")
    page = 1 << bits
    pages = -(-count // page)
    inside = count * size if pages == 1 else -(-pages // 8)
    body = file.checked(block, 14 + inside + 4, b"FADB", 10)
    found, start = [body.take(inside)], block + 14 + inside + 4
    if pages > 1:
        is_written = np.unpackbits(np.frombuffer(found.pop(), np.uint8), count=pages).tolist()
        for k in range(pages):
            length = min(page, count - k * page) * size
            found.append(file.checked(start, length + 4, b"").data if is_written[k] else b"\xff" * length)
            start += length + 4
    return np.frombuffer(b"".join(found), np.uint8).reshape(-1, size)
