"""The global heaps of an HDF5 file, walked before the HDF5 library does: a damaged one it may walk for ever.

Strings of variable length are kept in global heaps. The library (1.14) steps from object to object by the sizes that
they declare, and does not look whether a step leads anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap

SIGNATURE = b"GCOL\x01\0\0\0"  # and version 1, the only one there is
_PREFIX, _HEADER = 16, 16  # bytes before the first object, and before the data of each, with sizes of 8 bytes


def damaged(content: bytes | mmap) -> int | None:
    """Where the first heap lies whose objects do not fill it one after the other; None if all are sound."""
    for start in _starts(content):
        end = start + int.from_bytes(content[start + 8 : start + 16], "little")
        at = start + _PREFIX
        if end > len(content) or at > end:
            return start
        while at + _HEADER <= end:
            number = int.from_bytes(content[at : at + 2], "little")
            size = int.from_bytes(content[at + 8 : at + 16], "little")
            step = _HEADER + (size + 7) // 8 * 8 if number else size  # number 0 is free space, header included
            if step < _HEADER or at + step > end:
                return start
            at += step
    return None


def _starts(content: bytes | mmap) -> Iterator[int]:
    at = content.find(SIGNATURE)
    while at >= 0:
        yield at
        at = content.find(SIGNATURE, at + 1)
