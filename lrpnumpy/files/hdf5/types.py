"""The types and shapes that an HDF5 file declares: sections IV.A.2.b (dataspace) and IV.A.2.d (datatype)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lrpnumpy.files.hdf5.headers import Message
from lrpnumpy.files.hdf5.pieces import Refused

MAX_AXES = 32
NULL_TERMINATED, SPACE_PADDED = 0, 2  # how a string of a fixed length ends; 1 is filled up with NUL
_WHOLE, _FLOAT, _STRING, _VARIABLE = 0, 1, 3, 9
_NAMES = {2: "times", 4: "bit fields", 5: "opaque bytes", 6: "records", 7: "references", 8: "enumerated values",
          9: "lists of any length", 10: "arrays", 11: "complex numbers"}  # fmt: skip

# Of an IEEE number: first bit, bits, first bit and bits of the exponent, the same of the fraction, bias.
_IEEE = {2: (0, 16, 10, 5, 0, 10, 15), 4: (0, 32, 23, 8, 0, 23, 127), 8: (0, 64, 52, 11, 0, 52, 1023)}


class Kind(NamedTuple):
    """The type of each value; `dtype` is None where NumPy has none that is read here."""

    name: str
    size: int
    dtype: np.dtype | None
    variable: bool = False  # strings of variable length
    padding: int = 1


class Space(NamedTuple):
    """A shape, None where there is not even one value, and the shape that it may grow to."""

    shape: tuple[int, ...] | None
    most: tuple[int, ...]


def kind_of(message: Message) -> Kind:
    """What a datatype message says."""
    said = message.cursor()
    version, low, high, _, size = said.numbers("BBBBI")
    group = version & 15
    if not 1 <= version >> 4 <= 5:
        raise Refused(f"has a type of version {version >> 4}, which is not read")
    order = "<>"[low & 1]
    if group == _WHOLE and said.numbers("HH") == (0, 8 * size) and size in (1, 2, 4, 8):
        dtype = np.dtype(f"{order}{'i' if low & 8 else 'u'}{size}")
        return Kind(dtype.name, size, dtype)
    if group == _FLOAT:
        layout = said.numbers("HHBBBBI")
        if size in _IEEE and layout == _IEEE[size] and low & 0x70 == 0x20 and high == 8 * size - 1:
            dtype = np.dtype(f"{order}f{size}")
            return Kind(dtype.name, size, dtype)
    if group == _STRING and size:
        return Kind("strings", size, np.dtype(f"S{size}"), padding=low & 15)
    if group == _VARIABLE and low & 15 == 1:
        return Kind("strings", size, None, variable=True)
    return Kind(_NAMES.get(group, "a type that NumPy does not have"), size, None)


def space_of(message: Message) -> Space:
    """What a dataspace message says."""
    said = message.cursor()
    version, rank, flags, kind = said.numbers("BBBB")  # 0: one value, 1: an array, 2: nothing
    if version not in (1, 2) or rank > MAX_AXES or (version == 2 and kind > 2):
        raise Refused(f"has a shape of {rank} axes in version {version}, which is not read")
    if version == 1:
        said.take(4)
    shape = said.numbers(f"{rank}Q")
    most = said.numbers(f"{rank}Q") if flags & 1 else shape
    return Space(None if version == 2 and kind == 2 else shape, most)


def texts(found: np.ndarray, kind: Kind) -> list[bytes]:
    """Strings of a fixed length without what they are filled up with."""
    words: list[bytes] = found.reshape(-1).tolist()  # without the NULs at the end
    if kind.padding == NULL_TERMINATED:
        return [word.split(b"\0")[0] for word in words]
    return [word.rstrip(b" ") for word in words] if kind.padding == SPACE_PADDED else words
