"""The `.npy` format read safely: the declared shape and type are checked before the data is read."""

from __future__ import annotations

import ast
import math
import re
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


def read_header(source: Source, name: str, stream: IO[bytes], size: int) -> Header:
    """The header of an array of numbers or strings, in a file of `size` bytes; pickled objects are refused."""
    with source.guard(name):
        version = npy.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise source.error(name, f"is in version {version} of the .npy format, only 1 and 2 are read")
        width = 2 if version == (1, 0) else 4
        length = stream.read(width)
        if (declared := int.from_bytes(length, "little")) > _MAX_HEADER:
            raise source.error(name, f"has a header of {declared:,} bytes, over the limit of {_MAX_HEADER:,}")
        source.budget.hold(name, declared)
        shape, fortran, dtype = _parsed(stream.read(declared).decode("ascii"))
        if dtype.hasobject or dtype.kind not in "fiubU":
            raise source.error(name, f"must hold numbers, it has {str(dtype)[:60]}")
        count_of(source, name, shape)
        header = Header(tuple(int(n) for n in shape), dtype, fortran, 8 + width + declared)
        if header.start + header.nbytes != size:
            raise source.error(name, f"declares {header.nbytes:,} bytes, it has {size - header.start:,}")
        return header


def _parsed(text: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of a header such as {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.

    NumPy's own reader takes seconds for some headers of 4 kB that are damaged: it looks at them token by token for
    numbers as Python 2 wrote them, 3L.
    """
    if "\\" in text:
        raise ValueError("the header has an escape in it")
    said = ast.literal_eval(re.sub(r"(?<=\d)L\b", "", text))
    if not isinstance(said, dict) or {*said} != {"descr", "fortran_order", "shape"}:
        raise ValueError("the header must have descr, fortran_order and shape")
    shape, fortran, descr = said["shape"], said["fortran_order"], said["descr"]
    if not isinstance(shape, tuple) or not all(type(n) is int for n in shape) or not isinstance(fortran, bool):
        raise ValueError("the header must have a shape of whole numbers")
    if not isinstance(descr, str):
        raise ValueError("the header must have one type for all values")
    return shape, fortran, np.dtype(descr)


def check(source: Source, name: str, header: Header, shape: Shape) -> None:
    """Raise unless the array is of floats, of the expected shape, and within the limit."""
    if header.dtype.kind != "f" or header.dtype.itemsize > 8:
        raise source.error(name, f"must hold float16, float32 or float64, it has {header.dtype}")
    source.fits(name, header.shape, shape)
    source.spend(name, math.prod(header.shape) * max(header.dtype.itemsize, 4))


def values(header: Header, data: bytes | memoryview) -> np.ndarray:
    """The array itself."""
    return np.frombuffer(data, header.dtype).reshape(header.shape, order="F" if header.fortran else "C")


def floats(header: Header, data: bytes | memoryview) -> np.ndarray:
    """The array itself as float32 or float64."""
    return values(header, data).astype(np.result_type(header.dtype, np.float32), copy=False)


def read(source: Source, name: str, stream: IO[bytes], size: int) -> Any:
    """An array in the .npy format, of `size` bytes with its header; strings are a list."""
    header = read_header(source, name, stream, size)
    source.spend(name, header.nbytes)
    with source.guard(name):
        found = values(header, stream.read(header.nbytes))
        return found.tolist() if header.dtype.kind == "U" else found
