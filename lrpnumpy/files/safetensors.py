"""`.safetensors` files: a length, a JSON header, and the bytes of the arrays one after the other."""

from __future__ import annotations

import io
from itertools import pairwise
from typing import Any

import numpy as np

from lrpnumpy.files import safe
from lrpnumpy.files.safe import Budget, Fields, Shape, Source, count_of, open_file, parse_json

DTYPES: dict[str, np.dtype[Any]] = {
    "F16": np.dtype("<f2"), "BF16": np.dtype("<u2"), "F32": np.dtype("<f4"), "F64": np.dtype("<f8"),
}  # fmt: skip


class Safetensors(Source):
    """Arrays by name; the header's `__metadata__` are the remarks."""

    def __init__(self, file: str, budget: Budget | None = None, content: io.BytesIO | None = None) -> None:
        super().__init__(file, budget)
        with self.opening("cannot be read"):
            self._stream = self._opened.enter_context(open_file(file) if content is None else content)
            size = self._stream.seek(0, io.SEEK_END)
            self._stream.seek(0)
            length = int.from_bytes(self._stream.read(8), "little")
            if length > min(size - 8, safe.MAX_TEXT):
                raise self.error(
                    "", f"has a header of {length:,} bytes, over the file's or the limit's {safe.MAX_TEXT:,}"
                )
            self.budget.hold("header", length)
            header = Fields(self, "header", parse_json(self, "header", self._stream.read(length)))
        self._start = 8 + length
        self._room = size - self._start
        self._metadata = header.object("__metadata__") if header.has("__metadata__") else None
        self._arrays = {name: item for name, item in header.value.items() if name != "__metadata__"}
        if len(self._arrays) > safe.MAX_NAMES:
            raise self.error("", f"has more than {safe.MAX_NAMES:,} arrays")
        self._check_apart()

    def _check_apart(self) -> None:
        """See that no byte of the file belongs to two arrays."""
        spans = []
        for name, item in self._arrays.items():
            offsets = Fields(self, name, item).integers("data_offsets")
            if len(offsets) != 2:
                raise self.error(name, f"must have two offsets, it has {len(offsets)}")
            spans.append((*offsets, name))
        for (_, end, one), (start, _, other) in pairwise(sorted(spans)):
            if start < end:
                raise self.error(other, f"overlaps {one[:80]!r}; it is damaged")

    def names(self) -> list[str]:
        return list(self._arrays)

    def text(self, name: str) -> str | None:
        if self._metadata is not None and self._metadata.has(name):
            return self._metadata.string(name)
        return None

    def shape(self, name: str) -> tuple[int, ...]:
        return self._declared(name)[0]

    def array(self, name: str, shape: Shape) -> np.ndarray:
        declared, kind, start = self._declared(name)
        self.fits(name, declared, shape)
        wide = np.dtype(np.float64 if kind == "F64" else np.float32)
        count = count_of(self, name, declared)
        self.spend(name, count * wide.itemsize)
        with self.guard(name):
            self._stream.seek(self._start + start)
            found = np.frombuffer(self._stream.read(count * DTYPES[kind].itemsize), DTYPES[kind]).reshape(declared)
            if kind == "BF16":  # the upper half of a float32
                return (found.astype("<u4") << 16).view("<f4").astype(wide, copy=False)
            return found.astype(wide, copy=False)

    def _declared(self, name: str) -> tuple[tuple[int, ...], str, int]:
        """Declared shape, type and offset of an array, whose bytes are seen to be in the file."""
        item = Fields(self, name, self._arrays.get(name))
        shape, offsets, kind = item.integers("shape"), item.integers("data_offsets"), item.string("dtype")
        if kind not in DTYPES:
            raise self.error(name, f"must hold F16, BF16, F32 or F64, it has {kind[:20]}")
        start, stop = offsets
        if stop > self._room or stop - start != count_of(self, name, shape) * DTYPES[kind].itemsize:
            declared = f"shape {safe.shape_text(shape)} at {safe.shape_text(offsets)}"
            raise self.error(name, f"declares {declared}, which does not fit into the file")
        return tuple(shape), kind, start
