"""What an HDF5 file declares of an array: its type, its shape, and how its values are stored.

Sections IV.A.2.b (dataspace), IV.A.2.d (datatype) and IV.A.2.i (layout, versions 3 to 5 of the message).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lrpnumpy.files.hdf5.objects import Message
from lrpnumpy.files.hdf5.pieces import Refused

Shape = tuple[int, ...]
MAX_AXES = 32
_COMPACT, _CONTIGUOUS, _CHUNKED, _VIRTUAL = range(4)  # how values are stored
TREE, SINGLE, FIXED = 0, 1, 3  # how the places of chunks are listed
NULL_TERMINATED, SPACE_PADDED = 0, 2  # how a string of a fixed length ends; 1 is filled up with NUL
_WHOLE, _FLOAT, _STRING, _VARIABLE = 0, 1, 3, 9
_NAMES = {2: "times", 4: "bit fields", 5: "opaque bytes", 6: "records", 7: "references", 8: "enumerated values",
          9: "lists of any length", 10: "arrays", 11: "complex numbers"}  # fmt: skip

# Of an IEEE number: first bit, bits, first bit and bits of the exponent, the same of the fraction, bias.
_IEEE = {2: (0, 16, 10, 5, 0, 10, 15), 4: (0, 32, 23, 8, 0, 23, 127), 8: (0, 64, 52, 11, 0, 52, 1023)}


class Kind(NamedTuple):
    """The type of each value; `dtype` is None where NumPy has none that is read, as for strings of variable length."""

    name: str
    size: int
    dtype: np.dtype | None
    padding: int = 1


class DataLayout(NamedTuple):
    """Where the values are: in chunks, or in one piece, which is a single chunk of any shape."""

    address: int  # of the values, or of the list of chunks
    listed: int
    chunk: Shape = ()  # shape of a chunk, and the bytes of a value
    single: tuple[int, ...] = ()  # stored bytes and filter mask of a single chunk, where they are said


def kind_of(message: Message) -> Kind:
    """The contents of a datatype message."""
    said = message.cursor()
    version, low, high, _, size = said.numbers("BBBBI")
    group = version & 15
    if not 1 <= version >> 4 <= 5:
        raise Refused(f"has a type of version {version >> 4}, which is not read")
    letter = ""
    if group == _WHOLE and said.numbers("HH") == (0, 8 * size) and size in (1, 2, 4, 8):
        letter = "ui"[bool(low & 8)]
    elif group == _FLOAT and said.numbers("HHBBBBI") == _IEEE.get(size) and low & 0x70 == 0x20 and high == 8 * size - 1:
        letter = "f"
    if letter:
        dtype = np.dtype(f"{'<>'[low & 1]}{letter}{size}")
        return Kind(dtype.name, size, dtype)
    if group == _STRING and size:
        return Kind("strings", size, np.dtype(f"S{size}"), padding=low & 15)
    if group == _VARIABLE and low & 15 == 1:
        return Kind("strings", size, None)
    return Kind(_NAMES.get(group, "a type that NumPy does not have"), size, None)


def space_of(message: Message) -> tuple[Shape | None, Shape]:
    """The shape in a dataspace message, None where there is not even one value, and the shape that it may grow to."""
    said = message.cursor()
    version, rank, flags, kind = said.numbers("BBBB")  # 0: one value, 1: an array, 2: nothing
    if version not in (1, 2) or rank > MAX_AXES or (version == 2 and kind > 2):
        raise Refused(f"has a shape of {rank} axes in version {version}, which is not read")
    if version == 1:
        said.take(4)
    shape = most = said.numbers(f"{rank}Q")
    if flags & 1:
        most = said.numbers(f"{rank}Q")
    if version == 2 and kind == 2:
        return None, most
    return shape, most


def layout_of(message: Message) -> DataLayout:
    """The contents of a layout message."""
    said = message.cursor()
    version, kind = said.numbers("BB")
    if version not in (3, 4, 5) or kind > _VIRTUAL:
        raise Refused(f"has a layout of version {version} and kind {kind}, which is not read")
    if kind == _VIRTUAL:
        raise Refused("is a virtual dataset, its data is in other files, never opened")
    if kind == _COMPACT:  # the values are in the message
        content = said.take(said.number(2))
        return DataLayout(message.at + said.at - len(content), SINGLE, single=(len(content), 0))
    if kind == _CONTIGUOUS:
        address, size = said.numbers("QQ")
        return DataLayout(address, SINGLE, single=(size, 0))
    if version == 3:
        rank, address = said.numbers("BQ")
        return DataLayout(address, TREE, said.numbers(f"{rank}I") or (0,))
    flags, rank, width = said.numbers("BBB")
    chunk = tuple(said.number(width) for _ in range(rank)) or (0,)
    listed = said.number(1)
    if listed not in (SINGLE, FIXED) or flags & 1:  # with that flag, chunks at the edge have no filters
        raise Refused(
            f"has chunks that are listed in a way that is not read ({listed}, {flags}); write the array again as one "
            "that cannot grow, or without libver='latest'"
        )
    single = said.numbers("QI") if listed == SINGLE and flags & 2 else ()
    said.take(listed == FIXED)  # the size of its pages, which the list has, too
    return DataLayout(said.number(8), listed, chunk, single)


def texts(data: bytes, kind: Kind, count: int) -> list[bytes]:
    """The first `count` strings of a fixed length without what they are filled up with."""
    words: list[bytes] = np.frombuffer(data, kind.dtype, count).tolist()  # without the NULs at the end
    if kind.padding == NULL_TERMINATED:
        return [word.split(b"\0")[0] for word in words]
    if kind.padding == SPACE_PADDED:
        return [word.rstrip(b" ") for word in words]
    return words
