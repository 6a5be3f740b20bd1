"""How the values of an HDF5 dataset are stored: section IV.A.2.i, versions 3 to 5 of the message."""

from __future__ import annotations

from typing import NamedTuple

from lrpnumpy.files.hdf5.pieces import UNDEFINED, Cursor, Refused

COMPACT, CONTIGUOUS, CHUNKED, VIRTUAL = range(4)
TREE_1, SINGLE, IMPLICIT, FIXED, EXTENSIBLE, TREE_2 = range(6)  # how the places of chunks are listed


class Layout(NamedTuple):
    """Where the values are: here, in one piece, or in chunks."""

    kind: int
    address: int = UNDEFINED
    size: int = 0  # bytes of values in one piece
    data: bytes = b""  # the values themselves
    chunk: tuple[int, ...] = ()  # shape of a chunk, and the bytes of a value
    listed: int = TREE_1
    single: tuple[int, int] | None = None  # bytes and filter mask of the only chunk, where it is filtered


def layout_of(data: bytes) -> Layout:
    """What a layout message says."""
    said = Cursor(data)
    version, kind = said.numbers("BB")
    if version not in (3, 4, 5) or kind > VIRTUAL:
        raise Refused(f"has a layout of version {version} and kind {kind}, which is not read")
    if kind == COMPACT:
        content = said.take(said.number(2))
        return Layout(kind, size=len(content), data=content)
    if kind == CONTIGUOUS:
        address, size = said.numbers("QQ")
        return Layout(kind, address, size)
    if kind == VIRTUAL:
        return Layout(kind)
    if version == 3:
        rank, address = said.numbers("BQ")
        return Layout(kind, address, chunk=said.numbers(f"{rank}I"))
    flags, rank, width = said.numbers("BBB")
    chunk = tuple(said.number(width) for _ in range(rank))
    listed, single = said.number(1), None
    if not SINGLE <= listed <= TREE_2 or flags & 1:  # with that flag, chunks at the edge have no filters
        raise Refused(f"has chunks that are listed in a way that is not read ({listed}, {flags})")
    if listed == SINGLE and flags & 2:
        size, mask = said.numbers("QI")
        single = (size, mask)
    said.take({FIXED: 1, EXTENSIBLE: 5, TREE_2: 6}.get(listed, 0))  # the list says this itself
    return Layout(kind, said.number(8), chunk=chunk, listed=listed, single=single)
