"""HDF5 files read safely, without the HDF5 library: what Keras, h5py and lrpnumpy write, and nothing else.

A file is made of addresses and lengths, and the library follows whatever they say: links to other files, data stored
in other files, shapes of terabytes, filters loaded from disk; a damaged file may end its process. Here every address
is looked at before it is followed, and all that a file can do is to be refused. Written from the HDF5 File Format
Specification, version 3.0, whose sections the modules name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache, partial
from itertools import islice
from typing import Any

import numpy as np

from lrpnumpy.files.hdf5.datasets import Dataset
from lrpnumpy.files.hdf5.heaps import of_strings, strings
from lrpnumpy.files.hdf5.objects import Object, root_of
from lrpnumpy.files.hdf5.pieces import Pieces, Refused, Stream
from lrpnumpy.files.hdf5.types import kind_of, space_of, texts
from lrpnumpy.files.safe import MAX_NAMES, MAX_TEXT, Budget, Shape, Source, open_file

_FLOATS = ("float16", "float32", "float64")


class Hdf5(Source):
    """An HDF5 file on disk, or one inside an open stream, whose objects are reached by hard links only."""

    def __init__(self, file: str, size: int, stream: Stream | None = None, budget: Budget | None = None) -> None:
        super().__init__(file, budget or Budget(file, size))
        with self.opening("cannot be opened as HDF5"):
            self._pieces = Pieces(stream or self._opened.enter_context(open_file(file)), size, self.budget)
            self._object = cache(partial(Object, self._pieces))
            self._heap = cache(partial(of_strings, self._pieces))
            try:
                self._root = self._object(root_of(self._pieces))
            except Refused as error:
                reason = str(error).removesuffix(".")
                raise self.error("", f"cannot be opened as HDF5: it {reason}, or it is truncated or damaged") from None

    # ------------------------------------------------------------------------------------------------ objects

    def _find(self, path: str) -> Object | None:
        """The object at `path` or None, one component at a time, each of them a hard link."""
        with self.guard(path):
            here = self._root
            for part in filter(None, path.split("/")):
                self.budget.visit(path)
                name = part.encode("utf-8", "surrogateescape")
                link = here.links.get(name) if here.is_group and part != "." else None
                if link is None:
                    return None
                if isinstance(link, str):
                    raise self.error(path, f"has {link} at {part!r}, which is never followed")
                here = self._object(link)
            return here

    def _open(self, path: str) -> Object:
        if (found := self._find(path)) is None:
            raise self.error(path, "is missing")
        return found

    def is_group(self, path: str) -> bool:
        """Whether there is a group at `path`."""
        return (found := self._find(path)) is not None and found.is_group

    def children(self, path: str) -> list[str]:
        """The names in a group."""
        group = self._open(path)
        with self.guard(path):
            if not group.is_group:
                raise self.error(path, "must be a group, the file has something else there")
            if (count := len(group.links)) > MAX_NAMES:
                raise self.error(path, f"has {count:,} members, over the limit of {MAX_NAMES:,}")
            self.budget.visit(path, count)
            return [name.decode("utf-8", "surrogateescape") for name in group.links]

    def names(self, group: str = "") -> list[str]:
        """The paths of all datasets in a group, and in the groups inside it."""
        found = list(islice(self._datasets(group, 0), MAX_NAMES + 1))
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

    def _dataset(self, path: str) -> Dataset:
        """A dataset that is stored in this very file."""
        found = self._open(path)
        with self.guard(path):
            if found.is_group:
                raise self.error(path, "must be a dataset, the file has something else there")
            return Dataset(self._pieces, found.header)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._dataset(name).shape

    def array(self, name: str, shape: Shape) -> np.ndarray:
        dataset = self._dataset(name)
        with self.guard(name):
            if dataset.kind.name not in _FLOATS:
                raise self.error(name, f"must hold float16, float32 or float64, it has {dataset.kind.name}")
            self.fits(name, dataset.shape, shape)
            wide = np.result_type(dataset.kind.name, np.float32)
            return self._values(name, dataset, wide.itemsize).astype(wide, copy=False)

    def strings(self, name: str, count: int) -> list[str]:
        """A dataset of `count` UTF-8 strings of one stored length."""
        dataset = self._dataset(name)
        with self.guard(name):
            kind = dataset.kind
            if kind.name != "strings" or kind.dtype is None:
                raise self.error(name, f"must hold strings of a fixed stored length, it has {kind.name}")
            self.fits(name, dataset.shape, (count,))
            found = self._values(name, dataset, kind.size + 100)  # and what a Python string adds
            return [word.decode("utf-8") for word in texts(found.tobytes(), kind, count)]

    def _values(self, path: str, dataset: Dataset, itemsize: int) -> np.ndarray:
        """All of a dataset as it is stored, where each value will take `itemsize` bytes, counted against the limit."""
        self.spend(path, math.prod(dataset.shape) * itemsize)
        dataset.check(max(self.max_bytes, MAX_TEXT))
        return dataset.whole()

    # --------------------------------------------------------------------------------------------- attributes

    def attribute(self, path: str, name: str) -> Any:
        """An attribute as a string, a whole number, or a list of strings; None where there is none."""
        where = f"{path} @{name}".strip()
        holder = self._open(path)
        with self.guard(where):
            if (found := holder.attributes.get(name.encode())) is None:
                return None
            type_, space, value = found
            kind, (shape, _) = kind_of(type_), space_of(space)
            if shape is None or not (count := math.prod(shape)):
                return []  # an empty list, as NumPy and h5py write it
            self.budget.visit(where, count)
            self.budget.hold(where, count * kind.size)
            if len(shape) > 1 or count > MAX_NAMES or count * kind.size > MAX_TEXT:
                raise self.error(where, f"has {count:,} values of {kind.size:,} bytes, too much for an attribute")
            if count * kind.size > len(value):
                raise Refused(f"has {len(value):,} bytes for {count:,} values of {kind.size:,} bytes")
            if kind.name == "strings":
                variable = kind.dtype is None
                words = strings(self._heap, value, count) if variable else texts(value, kind, count)
                self.budget.hold(where, sum(map(len, words)))
                decoded = [word.decode("utf-8") for word in words]
                return decoded if shape else decoded[0]
            if kind.dtype is None or kind.dtype.kind == "f" or count > 1:
                raise self.error(where, f"must be a string or a whole number, it is {kind.name}")
            return int(np.frombuffer(value, kind.dtype, 1)[0])

    def text(self, name: str) -> str | None:
        value = self.attribute("", name)
        return value if isinstance(value, str) else None
