"""Arrays of an HDF5 file read a block of rows at a time, through the checks that weight files go through."""

from __future__ import annotations

import math
import os
import sys

import numpy as np

from lrpnumpy.files.budget import Budget
from lrpnumpy.files.hdf5 import Hdf5
from lrpnumpy.files.hdf5.datasets import Dataset

MAX_CHUNK = 1 << 26  # bytes of one stored chunk of an array: it is unpacked whole


class LargeHdf5(Hdf5):
    """An HDF5 file whose arrays may be larger than the memory; each question to it has a budget of its own."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            size = os.stat(os.fspath(path)).st_size
        except OSError as error:
            self.file = str(path)
            raise self.error("", f"cannot be read ({error.strerror})") from None
        super().__init__(str(path), size, budget=Budget(str(path), size, sys.maxsize))
        self._columns: dict[str, Dataset] = {}

    def has(self, name: str) -> bool:
        """Whether there is an array of this name."""
        self.budget.restart()
        return (found := self._find(name)) is not None and not found.is_group

    def column(self, name: str) -> tuple[tuple[int, ...], np.dtype]:
        """Shape and dtype of an array of numbers."""
        if name not in self._columns:
            self.budget.restart()
            dataset = self._dataset(name)
            with self.guard(name):
                kind, chunk = dataset.kind, dataset.layout.chunk
                if kind.dtype is None or kind.dtype.kind not in "iuf":
                    raise self.error(name, f"must hold numbers of a kind that NumPy has, it has {kind.name}")
                if math.prod(chunk) > MAX_CHUNK:
                    raise self.error(name, f"has chunks of {chunk[:-1]}, over {MAX_CHUNK:,} bytes each")
                if math.prod(dataset.shape):
                    dataset.check(sys.maxsize)
                dataset.tick = lambda: None  # large files are read on, a few rows at a time
                self._columns[name] = dataset
        found = self._columns[name]
        assert found.kind.dtype is not None
        return found.shape, found.kind.dtype

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Rows of an array whose `column` has been asked for."""
        with self.guard(name):
            return self._columns[name].rows(start, stop)
