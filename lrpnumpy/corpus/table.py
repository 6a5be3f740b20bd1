"""Arrays of an HDF5 file read a block of rows at a time, through the checks that weight files go through."""

from __future__ import annotations

import math
import os
import sys
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5t

from lrpnumpy.files.budget import Budget
from lrpnumpy.files.chunks import Chunks
from lrpnumpy.files.hdf5 import Hdf5

MAX_CHUNK = 1 << 26  # bytes of one stored chunk of an array: it is unpacked whole


class Table(Hdf5):
    """An HDF5 file whose arrays may be larger than the memory."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            size = os.stat(path).st_size
        except OSError as error:
            self.file = str(path)
            raise self.error("", f"cannot be read ({error.strerror})") from None
        super().__init__(str(path), size, budget=Budget(str(path), size, sys.maxsize, limited=False))
        self._columns: dict[str, Any] = {}

    def __enter__(self) -> Table:
        return self

    def has(self, name: str) -> bool:
        """Whether there is an array of this name."""
        return isinstance(self._find(name), h5d.DatasetID)

    def column(self, name: str) -> tuple[tuple[int, ...], np.dtype]:
        """Shape and dtype of an array of numbers."""
        if name not in self._columns:
            dataset = self._dataset(name)
            with self.guard(name):
                stored = dataset.get_type()
                settings, size = dataset.get_create_plist(), stored.get_size()
                if stored.dtype.kind not in "iuf" or not stored.equal(h5t.py_create(stored.dtype)):
                    raise self.error(name, f"must hold numbers of a kind that NumPy has, it has {stored.dtype}")
                if settings.get_layout() == h5d.CHUNKED and math.prod(settings.get_chunk()) * size > MAX_CHUNK:
                    raise self.error(name, f"has chunks of {settings.get_chunk()}, over {MAX_CHUNK:,} bytes each")
                chunks = None
                if math.prod(dataset.shape):
                    chunks = self._check_storage(name, dataset, size)
                self._columns[name] = chunks or h5py.Dataset(dataset)
        with self.guard(name):
            return self._columns[name].shape, self._columns[name].dtype

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Rows of an array whose `column` has been asked for."""
        with self.guard(name):
            column = self._columns[name]
            return column.rows(start, stop) if isinstance(column, Chunks) else column[start:stop]
