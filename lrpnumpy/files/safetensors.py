"""`.safetensors` files: a length, a JSON header, and the bytes of the arrays one after the other."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from lrpnumpy.files.safe import MAX_BYTES, MAX_NAMES, MAX_TEXT, Fields, Shape, Source, parse_json

DTYPES: dict[str, np.dtype[Any]] = {
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
}


def recognised(head: bytes, size: int) -> bool:
    """Whether a file starts with the length of a JSON object that fits into it."""
    return len(head) > 8 and head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= size - 8


class Safetensors(Source):
    """Arrays by name; the header's `__metadata__` are the remarks."""

    def __init__(self, file: str, max_bytes: int = MAX_BYTES) -> None:
        super().__init__(file, max_bytes)
        with self.guard(""), open(file, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            length = int.from_bytes(stream.read(8), "little")
            if length > min(size - 8, MAX_TEXT):
                raise self.error("", f"has a header of {length:,} bytes, over the file's or the limit's {MAX_TEXT:,}")
            header = Fields(self, "header", parse_json(self, "header", stream.read(length)))
        self._start = 8 + length
        self._room = size - self._start
        self._metadata = header.object("__metadata__") if header.has("__metadata__") else None
        self._arrays = {name: item for name, item in header.value.items() if name != "__metadata__"}
        if len(self._arrays) > MAX_NAMES:
            raise self.error("", f"has more than {MAX_NAMES:,} arrays")

    def names(self) -> list[str]:
        return list(self._arrays)

    def text(self, name: str) -> str | None:
        return self._metadata.string(name) if self._metadata is not None and self._metadata.has(name) else None

    def shape(self, name: str) -> tuple[int, ...]:
        return self._declared(name)[0]

    def array(self, name: str, shape: Shape) -> np.ndarray:
        declared, kind, start = self._declared(name)
        self.fits(name, declared, shape)
        wide = np.dtype(np.float64 if kind == "F64" else np.float32)
        self.spend(name, math.prod(declared) * wide.itemsize)
        with self.guard(name), open(self.file, "rb") as stream:
            stream.seek(self._start + start)
            found = np.fromfile(stream, DTYPES[kind], math.prod(declared)).reshape(declared)
            if kind == "BF16":  # the upper half of a float32
                return (found.astype("<u4") << 16).view("<f4").astype(wide, copy=False)
            return found.astype(wide, copy=False)

    def _declared(self, name: str) -> tuple[tuple[int, ...], str, int]:
        """Declared shape, type and offset of an array, whose bytes are seen to be in the file."""
        item = Fields(self, name, self._arrays.get(name))
        shape, offsets, kind = item.integers("shape"), item.integers("data_offsets"), item.string("dtype")
        if len(offsets) != 2:
            raise self.error(name, f"must have two offsets, it has {len(offsets)}")
        if kind not in DTYPES:
            raise self.error(name, f"must hold F16, BF16, F32 or F64, it has {kind[:20]}")
        start, stop = offsets
        if stop > self._room or stop - start != math.prod(shape) * DTYPES[kind].itemsize:
            raise self.error(name, f"declares shape {tuple(shape)} at {offsets}, which does not fit into the file")
        return tuple(shape), kind, start
