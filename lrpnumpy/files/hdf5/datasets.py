"""A dataset of an HDF5 file: its type, its shape, and its values, which are all in this very file."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lrpnumpy.files.hdf5 import headers, layouts
from lrpnumpy.files.hdf5.chunks import Chunks
from lrpnumpy.files.hdf5.filters import filters_of
from lrpnumpy.files.hdf5.headers import Message
from lrpnumpy.files.hdf5.layouts import layout_of
from lrpnumpy.files.hdf5.pieces import UNDEFINED, Pieces, Refused
from lrpnumpy.files.hdf5.types import kind_of, space_of


class Dataset:
    """What the header of a dataset says, and the values once `check` has been called."""

    def __init__(self, file: Pieces, header: Sequence[Message]) -> None:
        found = {one.kind: one for one in reversed(header)}
        if not {headers.SPACE, headers.TYPE, headers.LAYOUT} <= set(found):
            raise Refused("must be a dataset, the file has something else there")
        if headers.EXTERNAL in found:
            raise Refused("keeps its data in another file (external storage), never opened")
        self._file = file
        self._space, self.layout = space_of(found[headers.SPACE]), layout_of(found[headers.LAYOUT].data)
        if self.layout.kind == layouts.VIRTUAL:
            raise Refused("is a virtual dataset, its data is in other files, never opened")
        if self._space.shape is None:
            raise Refused("holds nothing (a null dataspace)")
        self.shape, self.kind = self._space.shape, kind_of(found[headers.TYPE])
        self._filters = found.get(headers.FILTERS)
        self._chunks: Chunks | None = None

    def check(self, most: int) -> None:
        """See that the file has the bytes that the dataset declares; chunks take at most `most` when unpacked."""
        codes = filters_of(self._filters.data, self.kind.size) if self._filters else []
        if self.layout.kind == layouts.CHUNKED:
            self._chunks = Chunks(self._file, self.layout, self.kind, self._space, codes)
            self._chunks.check(most)
            return
        if codes:
            raise Refused("has filters though it is not stored in chunks; it is damaged")
        there = 0 if (self.layout.kind, self.layout.address) == (layouts.CONTIGUOUS, UNDEFINED) else self.layout.size
        declared = math.prod(self.shape) * self.kind.size
        if declared != there or there > self._file.size:
            raise Refused(f"declares {declared:,} bytes, the file has {min(there, self._file.size):,} for them")

    def untimed(self) -> None:
        """Read on without a limit of time: for who reads a large file a few rows at a time."""
        if self._chunks is not None:
            self._chunks.tick = lambda: None

    def whole(self) -> np.ndarray:
        """All values, as they are stored."""
        return self._piece(0, self.shape) if self._chunks is None else self._chunks.rows(0, self.shape[0])

    def rows(self, start: int, stop: int) -> np.ndarray:
        """The rows from `start` to before `stop`, cut at the end of the dataset as NumPy cuts a slice."""
        if self._chunks is not None:
            return self._chunks.rows(start, stop)
        start, stop, _ = slice(start, stop).indices(self.shape[0])
        return self._piece(start, (max(0, stop - start), *self.shape[1:]))

    def _piece(self, first: int, shape: tuple[int, ...]) -> np.ndarray:
        assert self.kind.dtype is not None
        found = np.empty(shape, self.kind.dtype)
        if found.size:
            skip = first * math.prod(self.shape[1:]) * self.kind.size
            into = found.reshape(-1).view(np.uint8)
            if self.layout.kind == layouts.COMPACT:
                into[:] = np.frombuffer(self.layout.data, np.uint8)[skip : skip + len(into)]
            else:
                self._file.fill(self.layout.address + skip, into)
        return found
