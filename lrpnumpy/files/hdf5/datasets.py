"""A dataset of an HDF5 file: its type, its shape, and its values, which are all in this very file."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from lrpnumpy.files.hdf5 import objects, types
from lrpnumpy.files.hdf5.chunks import OUTSIDE, Grid
from lrpnumpy.files.hdf5.filters import DEFLATE, DEFLATE_RATIO, filters_of, unpacked
from lrpnumpy.files.hdf5.objects import Message
from lrpnumpy.files.hdf5.pieces import UNDEFINED, Pieces, Refused

_READ = (objects.SPACE, objects.TYPE, objects.EXTERNAL, objects.LAYOUT, objects.FILTERS)
_KEPT = 1 << 24  # bytes of unpacked chunks that are kept, for the next rows to be asked for


class Dataset:
    """The header of a dataset, and the values once `check` has been called."""

    def __init__(self, file: Pieces, header: Sequence[Message]) -> None:
        found = {one.kind: one for one in header if one.kind in _READ}
        if not {objects.SPACE, objects.TYPE, objects.LAYOUT} <= set(found):
            raise Refused("must be a dataset, the file has something else there")
        if len(found) < sum(one.kind in _READ for one in header):
            raise Refused("has its type, its shape or the place of its values twice")
        if objects.EXTERNAL in found:
            raise Refused("keeps its data in another file (external storage), never opened")
        self._file, self._filter = file, found.get(objects.FILTERS)
        shape, self._most = types.space_of(found[objects.SPACE])
        if shape is None:
            raise Refused("holds nothing (a null dataspace)")
        self.shape, self.kind = shape, types.kind_of(found[objects.TYPE])
        self.layout = types.layout_of(found[objects.LAYOUT])
        self.tick: Callable[[], None] = file.budget.tick  # the limit of time; who reads a few rows at a time has none
        self._kept: dict[tuple[int, ...], np.ndarray] = {}

    def check(self, most: int) -> None:
        """See that all chunks are in the file, beside each other, with bytes enough for what they declare.

        Without filters a chunk must have its size exactly. Together they are at most `most` bytes.
        """
        if not math.prod(self.shape):
            return
        self._filters: list[int] = []
        if self._filter is not None:
            self._filters = filters_of(self._filter.cursor().data, self.kind.size)
        if self._filters and not self.layout.chunk:
            raise Refused("has filters though it is not stored in chunks; it is damaged")
        self._grid = Grid(self.shape or (1,), self._most, self.layout, self.kind.size, bool(self._filters))
        self._places = self._grid.places(self._file)
        count, whole, room = self._grid.count, self._grid.bytes, self._file.size - self._file.base
        stored = self._places[:2, self._places[0] != UNDEFINED]
        start, sizes = np.minimum(stored[:, np.argsort(stored[0])], room + 1).astype(np.int64)
        declared, there = count * whole, int(sizes.sum())
        if there > room or declared > there * (DEFLATE_RATIO if DEFLATE in self._filters else 1):
            raise Refused(f"declares {declared:,} bytes, the file has {min(there, room):,} for them")
        if declared > most:
            raise Refused(f"has chunks of {self._grid.chunk}, together over {most:,} bytes")
        least = largest = whole
        if self._filters:
            least, largest = 0, 2 * whole + 1024
        if (wrong := sizes[(sizes < least) | (sizes > largest)]).size:
            raise Refused(f"has {wrong[0]:,} bytes for what is {whole:,} bytes when unpacked; it is damaged")
        if (start > room - sizes).any():
            raise Refused(OUTSIDE)
        if (start[:-1] + sizes[:-1] > start[1:]).any():
            raise Refused("has two chunks that share bytes of the file; it is damaged")
        if (seen := len(sizes)) < count:
            raise Refused(f"has {seen:,} of its {count:,} chunks, the others were never written; write out every value")

    def whole(self) -> np.ndarray:
        """All values, as they are stored."""
        length, *_ = self.shape or (1,)
        return self.rows(0, length).reshape(self.shape)

    def rows(self, start: int, stop: int) -> np.ndarray:
        """The rows from `start` to before `stop`, cut at the end of the dataset as NumPy cuts a slice."""
        length, *rest = self.shape or (1,)
        start, stop, _ = slice(start, stop).indices(length)
        found = np.empty((max(0, stop - start), *rest), self.kind.dtype)
        if found.size and self.layout.chunk:
            self._from_chunks(start, found)
        elif found.size:
            skip = start * math.prod(rest) * self.kind.size
            self._file.fill(self.layout.address + skip, found.reshape(-1).view(np.uint8))
        return found

    def _from_chunks(self, start: int, found: np.ndarray) -> None:
        """Put the rows from `start` on into `found`, as many as it has room for."""
        low, high = (start, *[0] * (found.ndim - 1)), (start + len(found), *found.shape[1:])
        chunk = self._grid.chunk
        for corner in product(*(range(a // n, -(-b // n)) for a, b, n in zip(low, high, chunk, strict=True))):
            inside, target = [], []  # the same numbers, in the chunk and in what is returned
            for k, n, a, b in zip(corner, chunk, low, high, strict=True):
                here, end = max(k * n, a), min(k * n + n, b)
                inside.append(slice(here - k * n, end - k * n))
                target.append(slice(here - a, end - a))
            found[tuple(target)] = self._chunk_at(corner)[tuple(inside)]

    def _chunk_at(self, corner: tuple[int, ...]) -> np.ndarray:
        """A whole chunk. Rows are asked for in blocks, so that the same chunk is often needed twice in a row."""
        if (found := self._kept.get(corner)) is None:
            self.tick()
            whole = self._grid.bytes
            address, size, mask = self._places[:, np.ravel_multi_index(corner, self._grid.grid)].tolist()
            data = unpacked(self._file.cut(address, size), self._filters, mask, self.kind.size, whole)
            found = np.frombuffer(data, self.kind.dtype).reshape(self._grid.chunk)
            if (len(self._kept) + 1) * whole > _KEPT:
                self._kept = {}
            self._kept[corner] = found
        return found
