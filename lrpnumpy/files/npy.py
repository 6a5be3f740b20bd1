"""The `.npy` format read safely: the declared shape and type are checked before the data is read."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from lrpnumpy.files.safe import Shape, Source, count_of

_MAX_HEADER = 10_000


@dataclass(frozen=True)
class Header:
    """What a `.npy` file declares, and where its data starts."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    start: int

    @property
    def nbytes(self) -> int:
        """Length of the data."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(source: Source, name: str, stream: IO[bytes]) -> Header:
    """The header of an array of numbers or strings; pickled objects are refused."""
    with source.guard(name):
        version = npy.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise source.error(name, f"is in version {version} of the .npy format, only 1 and 2 are read")
        width = 2 if version == (1, 0) else 4
        length = stream.read(width)
        if (declared := int.from_bytes(length, "little")) > _MAX_HEADER:
            raise source.error(name, f"has a header of {declared:,} bytes, over the limit of {_MAX_HEADER:,}")
        source.budget.hold(name, declared)
        head = io.BytesIO(length + stream.read(declared))
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read(head, max_header_size=_MAX_HEADER)
        if dtype.hasobject or dtype.kind not in "fiubU":
            raise source.error(name, f"must hold numbers, it has {str(dtype)[:60]}")
        count_of(source, name, shape)
        return Header(tuple(int(n) for n in shape), dtype, fortran, 8 + width + declared)


def check(source: Source, name: str, header: Header, shape: Shape, length: int) -> None:
    """Raise unless the array is of floats, of the expected shape, within the limit and all there."""
    if header.dtype.kind != "f" or header.dtype.itemsize > 8:
        raise source.error(name, f"must hold float16, float32 or float64, it has {header.dtype}")
    source.fits(name, header.shape, shape)
    source.spend(name, math.prod(header.shape) * max(header.dtype.itemsize, 4))
    if header.start + header.nbytes != length:
        raise source.error(name, f"declares {header.nbytes:,} bytes, it has {length - header.start:,}")


def array(header: Header, data: bytes | bytearray | memoryview) -> np.ndarray:
    """The array itself, float32 or float64."""
    found = np.frombuffer(data, header.dtype).reshape(header.shape, order="F" if header.fortran else "C")
    return found.astype(np.result_type(header.dtype, np.float32), copy=False)
