"""Sequences in the arrays of an HDF5 or .npz file, ragged or padded: read a block at a time.

values (R, D) or (R,), offsets (N+1,)        ragged: sequence k is values[offsets[k]:offsets[k+1]]
values (N, T, D) or (N, T), lengths (N,)     padded: sequence k is values[k, :lengths[k]]
values (N, T, D) or (N, T)                   all of one length
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError, optional
from lrpnumpy.corpus.lines import Bad, too_long
from lrpnumpy.files import npy
from lrpnumpy.files.archive import Archive
from lrpnumpy.files.budget import Budget
from lrpnumpy.files.hdf5 import Hdf5
from lrpnumpy.files.safe import open_file, size_of

BLOCK = 1 << 22  # bytes that are read at once
MAX_ROW = 1 << 28  # bytes of one row, which is one whole sequence where they are padded
MAX_CHUNK = 1 << 26  # bytes of one stored chunk of an HDF5 array: it is unpacked whole
MAX_COUNT = 1 << 28  # offsets or lengths, which are read at once


class LargeArray(NamedTuple):
    """An array that may be larger than the memory; `read` gives the rows from a start, which never falls, to a stop."""

    where: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[int, int], np.ndarray]

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Some rows, of a type that a network takes."""
        dtype = np.dtype("f4") if self.dtype == np.dtype("f2") else self.dtype.newbyteorder("=")
        return self.read(start, stop).astype(dtype, copy=False)

    def numbers(self) -> np.ndarray:
        """All of an array with one axis, which has a whole number for each sequence."""
        if len(self.shape) != 1 or self.shape[0] > MAX_COUNT or self.dtype.kind not in "iu":
            got = f"{self.dtype} of shape {self.shape}"
            raise LrpError(f"{self.where} must be at most {MAX_COUNT:,} whole numbers with one axis, got {got}.")
        return self.rows(0, self.shape[0])

    @property
    def row(self) -> int:
        """Bytes of a row."""
        return self.dtype.itemsize * math.prod(self.shape[1:])

    def checked(self) -> LargeArray:
        """The same, if it is one of numbers whose rows fit the memory."""
        if self.dtype.kind not in "iuf" or self.dtype.itemsize > 8 or not 1 <= len(self.shape) <= 3:
            raise LrpError(f"{self.where} must be numbers with 1 to 3 axes, got {self.dtype} with {len(self.shape)}.")
        if not self.row and self.shape[0]:
            raise LrpError(f"{self.where} must have at least one number per row, got shape {self.shape}.")
        if self.row > MAX_ROW:
            raise LrpError(f"{self.where} must have rows of at most {MAX_ROW:,} bytes, got shape {self.shape}.")
        return self


Find = Callable[[str], LargeArray | None]  # an array by its name, where there is one


class Arrays:
    """The sequences of a file. `field` is the array of values; offsets or lengths are beside it."""

    def __init__(self, kind: str, path: Path, field: str, longest: int) -> None:
        self._open, self.path, self.field, self.longest = OPEN[kind], path, field, longest
        with self._open(path) as find:
            self.count = len(self._layout(find)[1]) - 1

    def fraction(self, done: int) -> float | None:
        """How much has been read."""
        return done / self.count if self.count else None

    def records(self) -> Iterator[np.ndarray | Bad]:
        """Every sequence."""
        with self._open(self.path) as find:
            values, offsets, lengths = self._layout(find)
            rows = max(1, BLOCK // max(1, values.row))
            k = 0
            while k < len(offsets) - 1:
                stop = max(k + 1, int(np.searchsorted(offsets, offsets[k] + rows, side="right")) - 1)
                if lengths is None and stop == k + 1 and offsets[stop] - offsets[k] > self.longest:
                    yield Bad(too_long(int(offsets[stop] - offsets[k]), self.longest))  # without reading it
                else:
                    start = int(offsets[k])
                    block = values.rows(start, int(offsets[stop]))
                    for place in range(k, stop):
                        sequence = block[offsets[place] - start : offsets[place + 1] - start]
                        yield self._cut(sequence, None if lengths is None else int(lengths[place]))
                k = stop

    def _cut(self, sequence: np.ndarray, length: int | None) -> np.ndarray | Bad:
        """A sequence of at most `longest` steps; one that was padded has a `length`."""
        if length is not None:
            sequence = sequence[0]
            if not 0 <= length <= len(sequence):
                return Bad(f"a length must lie from 0 to {len(sequence)}, the steps of the padded array, got {length}")
            sequence = sequence[:length]
        if len(sequence) <= self.longest:
            return sequence
        return Bad(too_long(len(sequence), self.longest))

    def _layout(self, find: Find) -> tuple[LargeArray, np.ndarray, np.ndarray | None]:
        """The values, the rows at which sequences begin and the last one ends; of padded ones also their lengths."""
        where, beside = self.path, self.field[: self.field.rfind("/") + 1]
        values, offsets, lengths = find(self.field), find(f"{beside}offsets"), find(f"{beside}lengths")
        if values is None:
            raise LrpError(f"{where} must have an array {self.field!r} of values; name another with field=....")
        if offsets is not None and lengths is not None:
            raise LrpError(f"{where} must have either offsets (ragged) or lengths (padded), got both.")
        R, T, *_ = (*values.shape, 0)
        if offsets is not None:
            rows = offsets.numbers()
            if not len(rows) or rows[0] != 0 or rows[-1] != R or (rows[1:] < rows[:-1]).any():
                got = f"{rows[:5].tolist()} to {rows[-1:].tolist()}"
                raise LrpError(f"{where}: offsets must rise from 0 to {R}, the rows of the values, got {got}.")
            return values, rows.astype(np.int64), None
        if len(values.shape) < 2:
            raise LrpError(f"{where} must have offsets or lengths, since the values are {values.shape}, got neither.")
        if lengths is not None and lengths.shape != (R,):
            raise LrpError(f"{where}: lengths must be one for each of {R} sequences, got shape {lengths.shape}.")
        return values, np.arange(R + 1), np.full(R, T) if lengths is None else lengths.numbers()


# -- files, opened: each hands out its arrays by name --------------------------------------------------------


@contextmanager
def _hdf5(path: Path) -> Iterator[Find]:
    with LargeHdf5(path) as file:
        yield lambda name: optional(LargeArray.checked, file.large(name))


class LargeHdf5(Hdf5):
    """An HDF5 file whose arrays may be larger than the memory; each read has a separate budget."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        size = os.stat(path).st_size
        super().__init__(str(path), size, budget=Budget(str(path), size, sys.maxsize))

    def large(self, name: str) -> LargeArray | None:
        """An array of numbers by its name, where there is one."""
        self.budget.restart()
        if (node := self._find(name)) is None or node.is_group:
            return None
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

        def read(start: int, stop: int) -> np.ndarray:
            with self.guard(name):
                return dataset.rows(start, stop)

        return LargeArray(f"{self.file}: {name}", dataset.shape, kind.dtype, read)


@contextmanager
def _npz(path: Path) -> Iterator[Find]:
    with open_file(path) as file:
        budget = Budget(str(path), size_of(file), sys.maxsize, limited=False)
    with Archive(str(path), budget) as archive, ExitStack() as opened:
        yield partial(_member, archive, opened)


def _member(archive: Archive, opened: ExitStack, name: str) -> LargeArray | None:
    """An array of a .npz file by its name, where there is one; `opened` closes its member."""
    if f"{name}.npy" not in archive.members:
        return None
    with archive.guard(name):
        member = opened.enter_context(archive._open(f"{name}.npy", sys.maxsize))
        header = npy.read_header(archive, name, member, archive.members[f"{name}.npy"].file_size)
    if header.fortran and len(header.shape) > 1:
        raise archive.error(name, "must be stored row by row; save np.ascontiguousarray of it")

    def read(start: int, stop: int) -> np.ndarray:
        with archive.guard(name):
            place = header.start + start * array.row
            if member.tell() != place:
                member.seek(place)
            return np.frombuffer(member.read((stop - start) * array.row), header.dtype).reshape(-1, *header.shape[1:])

    array = LargeArray(f"{archive.file}: {name}", header.shape, header.dtype, read).checked()
    return array


OPEN = {"hdf5": _hdf5, "npz": _npz}
