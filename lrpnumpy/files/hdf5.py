"""HDF5 files read safely: the only place where one is opened for reading.

The HDF5 library follows whatever a file tells it to: links to other files, data stored in other files, shapes
of terabytes, filters loaded from disk. Each of these is looked for and refused before any data is touched.
What is stored in chunks is unpacked by `chunks.py`, strings of variable length are read by `strings.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property, partial
from typing import IO, Any

import h5py
import numpy as np
from h5py import h5a, h5d, h5g, h5l, h5o, h5s, h5t

from lrpnumpy.files.chunks import Chunks, filters_of
from lrpnumpy.files.safe import MAX_NAMES, MAX_TEXT, Budget, Shape, Source, open_file
from lrpnumpy.files.strings import Reader

_LINKS = {h5l.TYPE_SOFT: "a soft link", h5l.TYPE_EXTERNAL: "a link to another file"}
_FLOATS = {
    np.float16: (h5t.IEEE_F16LE, h5t.IEEE_F16BE),
    np.float32: (h5t.IEEE_F32LE, h5t.IEEE_F32BE),
    np.float64: (h5t.IEEE_F64LE, h5t.IEEE_F64BE),
}


class Hdf5(Source):
    """An HDF5 file on disk, or one inside an open stream, whose objects are reached by hard links only."""

    def __init__(self, file: str, size: int, stream: IO[bytes] | None = None, budget: Budget | None = None) -> None:
        super().__init__(file, budget or Budget(file, size))
        self.size, self._stream = size, stream
        self._own: IO[bytes] | None = None  # what is opened here, and closed here
        with self.guard("", "cannot be opened as HDF5; it may be truncated or damaged"):
            self._file = h5py.File(file if stream is None else stream, "r")

    def __enter__(self) -> Hdf5:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        if self._own is not None:
            self._own.close()

    # ------------------------------------------------------------------------------------------------ objects

    def _find(self, path: str) -> Any:
        """The object at `path` or None, one component at a time, each of them a hard link."""
        with self.guard(path):
            here = h5o.open(self._file.id, b"/")
            for part in filter(None, path.split("/")):
                self.budget.visit(path)
                name = part.encode("utf-8", "surrogateescape")
                if not isinstance(here, h5g.GroupID) or part == "." or not here.links.exists(name):
                    return None
                kind = here.links.get_info(name).type
                if kind != h5l.TYPE_HARD:
                    what = _LINKS.get(kind, "a link of a foreign kind")
                    raise self.error(path, f"has {what} at {part!r}, which is never followed")
                here = h5o.open(here, name)
            return here

    def _open(self, path: str) -> Any:
        if (found := self._find(path)) is None:
            raise self.error(path, "is missing")
        return found

    def is_group(self, path: str) -> bool:
        """Whether there is a group at `path`."""
        return isinstance(self._find(path), h5g.GroupID)

    def children(self, path: str) -> list[str]:
        """The names in a group."""
        group = self._open(path)
        with self.guard(path):
            if not isinstance(group, h5g.GroupID):
                raise self.error(path, "must be a group, the file has something else there")
            if (count := group.get_num_objs()) > MAX_NAMES:
                raise self.error(path, f"has {count:,} members, over the limit of {MAX_NAMES:,}")
            self.budget.visit(path, count)
            return [name.decode("utf-8", "surrogateescape") for name in group]

    def names(self) -> list[str]:
        """The paths of all datasets."""
        return self.names_in("")

    def names_in(self, group: str) -> list[str]:
        """The paths of all datasets in a group."""
        found = []
        for path in self._datasets(group, 0):
            found.append(path)
            if len(found) > MAX_NAMES:
                raise self.error("", f"has more than {MAX_NAMES:,} datasets")
        return found

    def _datasets(self, path: str, depth: int) -> Iterator[str]:
        self.budget.level(path, depth)
        for name in self.children(path):
            below = f"{path}/{name}" if path else name
            if self.is_group(below):
                yield from self._datasets(below, depth + 1)
            else:
                yield below

    # ----------------------------------------------------------------------------------------------- datasets

    def _dataset(self, path: str) -> h5d.DatasetID:
        """A dataset that is stored in this very file."""
        dataset = self._open(path)
        with self.guard(path):
            if not isinstance(dataset, h5d.DatasetID):
                raise self.error(path, "must be a dataset, the file has something else there")
            settings = dataset.get_create_plist()
            if settings.get_external_count() > 0:
                raise self.error(path, "keeps its data in another file (external storage), never opened")
            if settings.get_layout() not in (h5d.COMPACT, h5d.CONTIGUOUS, h5d.CHUNKED):
                raise self.error(path, "is a virtual dataset, its data is in other files, never opened")
            if dataset.get_space().get_simple_extent_type() == h5s.NULL:
                raise self.error(path, "holds nothing (a null dataspace)")
        return dataset

    def shape(self, name: str) -> tuple[int, ...]:
        with self.guard(name):
            return tuple(self._dataset(name).shape)

    def array(self, name: str, shape: Shape) -> np.ndarray:
        dataset = self._dataset(name)
        with self.guard(name):
            stored = dataset.get_type()
            dtype = next((kind for kind, known in _FLOATS.items() if any(map(stored.equal, known))), None)
            if dtype is None:
                raise self.error(name, f"must hold float16, float32 or float64, it has {_name(stored)}")
            self.fits(name, tuple(dataset.shape), shape)
            wide = np.result_type(dtype, np.float32)
            return self._values(name, dataset, wide.itemsize).astype(wide, copy=False)

    def strings(self, name: str, count: int) -> list[str]:
        """A dataset of `count` UTF-8 strings of one stored length, filled up with NUL."""
        dataset = self._dataset(name)
        with self.guard(name):
            stored = dataset.get_type()
            if not isinstance(stored, h5t.TypeStringID) or stored.is_variable_str():
                raise self.error(name, f"must hold strings of a fixed stored length, it has {_name(stored)}")
            self.fits(name, tuple(dataset.shape), (count,))
            found = self._values(name, dataset, stored.get_size() + 100)  # and what a Python string adds
            words = found.tolist()  # without the NULs at the end
            if stored.get_strpad() == h5t.STR_NULLTERM:
                words = [word.split(b"\0")[0] for word in words]
            elif stored.get_strpad() == h5t.STR_SPACEPAD:
                words = [word.rstrip(b" ") for word in words]
            return [word.decode("utf-8") for word in words]

    def _values(self, path: str, dataset: h5d.DatasetID, itemsize: int) -> np.ndarray:
        """All of a dataset as it is stored, where each value will take `itemsize` bytes."""
        if (chunks := self._check_storage(path, dataset, itemsize)) is not None:
            return chunks.rows(0, chunks.shape[0])
        stored = dataset.get_type()
        found = np.empty(dataset.shape, stored.dtype)
        dataset.read(h5s.ALL, h5s.ALL, found, stored)
        return found

    def _check_storage(self, path: str, dataset: h5d.DatasetID, itemsize: int) -> Chunks | None:
        """Count a dataset against the memory limit, and see that the file has the bytes it declares.

        Returns its chunks, where it is stored in chunks.
        """
        count = math.prod(dataset.shape)
        self.spend(path, count * itemsize)
        refuse = partial(self.error, path)
        if dataset.get_create_plist().get_layout() == h5d.CHUNKED:
            chunks = Chunks(dataset, refuse, self.budget)
            chunks.check(self.size, max(self.max_bytes, MAX_TEXT))
            return chunks
        if filters_of(dataset, refuse):
            raise refuse("has filters though it is not stored in chunks; it is damaged")
        declared, there = count * dataset.get_type().get_size(), dataset.get_storage_size()
        if declared != there or there > self.size:
            raise refuse(f"declares {declared:,} bytes, the file has {min(there, self.size):,} for them")
        return None

    # --------------------------------------------------------------------------------------------- attributes

    def attribute(self, path: str, name: str) -> Any:
        """An attribute as a string, a whole number, or a list of strings; None where there is none."""
        where = f"{path} @{name}".strip()
        holder = self._open(path)
        with self.guard(where):
            if not h5a.exists(holder, name.encode()):
                return None
            attribute = h5a.open(holder, name.encode())
            kind, shape = attribute.get_type(), attribute.shape
            count = math.prod(shape)
            if count == 0 or attribute.get_space().get_simple_extent_type() == h5s.NULL:
                return []  # an empty list, as NumPy and h5py write it
            self.budget.visit(where, count)
            self.budget.hold(where, count * kind.get_size())
            if len(shape) > 1 or count > MAX_NAMES or count * kind.get_size() > MAX_TEXT:
                raise self.error(where, f"has {count:,} values of {kind.get_size():,} bytes, too much for an attribute")
            if isinstance(kind, h5t.TypeIntegerID) and count == 1:
                number = np.empty(shape, np.int64)
                attribute.read(number)
                return int(number.reshape(-1)[0])
            if not isinstance(kind, h5t.TypeStringID):
                raise self.error(where, f"must be a string or a whole number, it is {_name(kind)}")
            if kind.is_variable_str():
                found = self._strings.attribute(h5o.get_info(holder).addr, name, count, MAX_TEXT)
            else:
                fixed = np.empty(shape, kind.dtype)
                attribute.read(fixed)
                found = fixed.reshape(-1).tolist()
            texts = [text.decode("utf-8") for text in found]
            return texts if shape else texts[0]

    @cached_property
    def _strings(self) -> Reader:
        """The strings of variable length, which are read without the library."""
        settings = self._file.id.get_create_plist()
        if settings.get_sizes() != (8, 8):
            raise self.error("", "has addresses or sizes of other than 8 bytes")
        if self._stream is None:
            self._own = open_file(self.file)
        return Reader(self._stream or self._own, self.size, self.budget, settings.get_userblock())  # type: ignore[arg-type]

    def text(self, name: str) -> str | None:
        value = self.attribute("", name)
        return value if isinstance(value, str) else None


def _name(kind: h5t.TypeID) -> str:
    """A stored type for an error message."""
    try:
        return "strings" if isinstance(kind, h5t.TypeStringID) else str(kind.dtype)
    except TypeError:
        return "a type that NumPy does not have"
