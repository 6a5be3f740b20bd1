"""Sequences in the arrays of an HDF5 or .npz file, ragged or padded: read forwards, a block at a time.

values (R, D) or (R,), offsets (N+1,)        ragged: sequence k is values[offsets[k]:offsets[k+1]]
values (N, T, D) or (N, T), lengths (N,)     padded: sequence k is values[k, :lengths[k]]
values (N, T, D) or (N, T)                   all of one length
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError
from lrpnumpy.corpus.lines import Bad, too_long
from lrpnumpy.files import npy
from lrpnumpy.files.archive import Archive
from lrpnumpy.files.budget import Budget
from lrpnumpy.files.safe import open_file, size_of

BLOCK = 1 << 22  # bytes that are read at once
MAX_ROW = 1 << 28  # bytes of one row, which is one whole sequence where they are padded


class Forward:
    """The rows of an array, read forward; `read` is called with a start that is its last stop."""

    def __init__(
        self, where: str, shape: tuple[int, ...], dtype: np.dtype, read: Callable[[int, int], np.ndarray]
    ) -> None:
        if dtype.kind not in "iuf" or dtype.itemsize > 8 or not 1 <= len(shape) <= 3:
            raise LrpError(f"{where} must be numbers with 1 to 3 axes, got {dtype} with {len(shape)}.")
        row = dtype.itemsize * math.prod(shape[1:])
        if not row and shape[0]:
            raise LrpError(f"{where} must have at least one number a row, got shape {shape}.")
        if row > MAX_ROW:
            raise LrpError(f"{where} must have rows of at most {MAX_ROW:,} bytes, got shape {shape}.")
        self.shape, self._read = shape, read
        self.dtype = np.dtype("f4") if dtype == np.dtype("f2") else dtype.newbyteorder("=")
        self._step = max(1, BLOCK // max(1, row))
        self._block, self._stop = (
            np.empty((0, *shape[1:]), self.dtype),
            0,
        )  # read and not taken; read up to here

    def take(self, count: int) -> np.ndarray:
        """The next `count` rows."""
        if len(self._block) < count:
            start, self._stop = self._stop, min(self.shape[0], self._stop + max(count, self._step))
            more = self._read(start, self._stop).astype(self.dtype, copy=False)
            self._block = np.concatenate((self._block, more)) if len(self._block) else more
        found, self._block = self._block[:count], self._block[count:]
        return found

    def skip(self, count: int) -> None:
        """Pass over rows, however many."""
        while count > 0:
            count -= len(self.take(min(count, self._step)))

    def every(self) -> Iterator[Any]:
        """Each row by itself."""
        for start in range(0, self.shape[0], self._step):
            yield from self.take(min(self._step, self.shape[0] - start))


Find = Callable[[str], Forward | None]  # an array by its name, where there is one


class Arrays:
    """The sequences of a file. `field` is the array of values; the others stand beside it."""

    def __init__(self, kind: str, path: Path, field: str, longest: int) -> None:
        self._open, self.path, self.field, self.longest = OPEN[kind], path, field, longest
        with self._open(path) as find:
            self.count = self._found(find)[0]

    def records(self) -> Iterator[np.ndarray | Bad]:
        """Every sequence."""
        with self._open(self.path) as find:
            yield from self._found(find)[1]

    def fraction(self, done: int) -> float | None:
        """How much has been read."""
        return done / self.count if self.count else None

    def _found(self, find: Find) -> tuple[int, Iterator[Any]]:
        """How many sequences there are, and the sequences."""
        where, beside = self.path, self.field[: self.field.rfind("/") + 1]
        values, offsets, lengths = find(self.field), find(f"{beside}offsets"), find(f"{beside}lengths")
        if values is None:
            raise LrpError(f"{where} must have an array {self.field!r} of values; name another with field=....")
        if offsets is not None and lengths is not None:
            raise LrpError(f"{where} must have either offsets (ragged) or lengths (padded), got both.")
        for name, given in (("offsets", offsets), ("lengths", lengths)):
            if given is not None and (len(given.shape) != 1 or given.dtype.kind not in "iu"):
                raise LrpError(f"{where}: {name} must be whole numbers, got {given.dtype} of shape {given.shape}.")
        if offsets is not None:
            return max(0, offsets.shape[0] - 1), self._ragged(values, offsets)
        if len(values.shape) < 2:
            raise LrpError(f"{where} must have offsets or lengths, since the values are {values.shape}, got neither.")
        N = values.shape[0]
        if lengths is not None and lengths.shape[0] != N:
            raise LrpError(f"{where}: lengths must be one for each of {N} sequences, got {lengths.shape[0]}.")
        return N, self._padded(values, lengths)

    def _ragged(self, values: Forward, offsets: Forward) -> Iterator[Any]:
        R, start = values.shape[0], 0
        for number, offset in enumerate(offsets.every()):
            stop = int(offset)
            if not start <= stop <= (R if number else 0):
                raise LrpError(f"{self.path}: offsets must rise from 0 to {R}, got {stop} after {start} at {number}.")
            if number:
                yield self._sequence(values, stop - start)
            start = stop
        if start != R:
            raise LrpError(f"{self.path}: offsets must end with the {R} rows of the values, got {start}.")

    def _sequence(self, values: Forward, length: int) -> np.ndarray | Bad:
        if length <= self.longest:
            return values.take(length)
        values.skip(length)
        return Bad(too_long(length, self.longest))

    def _padded(self, values: Forward, lengths: Forward | None) -> Iterator[Any]:
        T = values.shape[1]
        given = map(int, lengths.every()) if lengths is not None else repeat(T, values.shape[0])
        for row, length in zip(values.every(), given, strict=True):
            if not 0 <= length <= T:
                yield Bad(f"a length must lie from 0 to {T}, the steps of the padded array, got {length}")
            else:
                yield row[:length] if length <= self.longest else Bad(too_long(length, self.longest))


# -- files, opened: each hands out its arrays by name --------------------------------------------------------


@contextmanager
def _hdf5(path: Path) -> Iterator[Find]:
    from lrpnumpy.corpus.large import LargeHdf5

    with LargeHdf5(path) as file:

        def find(name: str) -> Forward | None:
            if not file.has(name):
                return None
            shape, dtype = file.column(name)
            return Forward(f"{path}: {name}", shape, dtype, partial(file.rows, name))

        yield find


@contextmanager
def _npz(path: Path) -> Iterator[Find]:
    with open_file(path) as file:
        budget = Budget(str(path), size_of(file), sys.maxsize, limited=False)
    with LargeNpz(str(path), budget) as archive, ExitStack() as opened:
        yield partial(archive.rows, opened)


class LargeNpz(Archive):
    """A .npz file whose arrays may be larger than the memory."""

    def rows(self, opened: ExitStack, name: str) -> Forward | None:
        """An array by its name, where there is one; `opened` closes its member."""
        if f"{name}.npy" not in self.members:
            return None
        with self.guard(name):
            member = opened.enter_context(self._open(f"{name}.npy", sys.maxsize))
            header = npy.read_header(self, name, member)
        shape, dtype = header.shape, header.dtype
        if header.fortran and len(shape) > 1:
            raise self.error(name, "must be stored row by row; save np.ascontiguousarray of it")

        def read(start: int, stop: int) -> np.ndarray:
            want = (stop - start) * dtype.itemsize * math.prod(shape[1:])
            with self.guard(name):
                return np.frombuffer(member.read(want), dtype).reshape(stop - start, *shape[1:])

        found, stored = Forward(f"{self.file}: {name}", shape, dtype, read), self.members[f"{name}.npy"].file_size
        if header.start + header.nbytes != stored:
            raise self.error(name, f"declares {header.nbytes:,} bytes, it has {stored - header.start:,}")
        return found


OPEN = {"hdf5": _hdf5, "npz": _npz}
