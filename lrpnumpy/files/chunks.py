"""The chunks of an HDF5 dataset, unpacked here: the filters of the HDF5 library never see a file's bytes.

The library (2.0) believes what a chunk says. If one unpacks to fewer bytes than it should, the rest of the array is
whatever lay in memory behind it, and a checksum alone on one to three bytes ends the process. So the stored bytes are
fetched as they are, and gzip, shuffle and fletcher32 are undone here. Every chunk must come out at exactly its size.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from h5py import h5d, h5z

from lrpnumpy.files.budget import Budget

_NAMES = {h5z.FILTER_SZIP: "szip", h5z.FILTER_NBIT: "nbit", h5z.FILTER_SCALEOFFSET: "scaleoffset"}
_DEFLATE, _SHUFFLE, _FLETCHER = h5z.FILTER_DEFLATE, h5z.FILTER_SHUFFLE, h5z.FILTER_FLETCHER32
_DEFLATE_RATIO = 1032  # no deflate stream holds more than this many bytes a byte
_CHECKSUM = 4  # bytes that fletcher32 adds
_MOST_CHUNKS = 1_000_000
_PIECE = 1 << 24  # bytes that are unpacked between two looks at the clock
_KEPT = 1 << 24  # bytes of unpacked chunks that are kept, for the next rows to be asked for

Refuse = Callable[[str], Exception]  # the error about a dataset, from its reason


def filters_of(dataset: h5d.DatasetID, refuse: Refuse) -> list[int]:
    """The filters of a dataset in the order in which they were applied, if they are ones that are undone here."""
    settings = dataset.get_create_plist()
    found = [settings.get_filter(k) for k in range(settings.get_nfilters())]  # code, flags, values, name
    codes = [code for code, *_ in found]
    for code, _, values, name in found:
        if code not in (_DEFLATE, _SHUFFLE, _FLETCHER):
            called = _NAMES.get(code) or name.decode("utf-8", "replace")[:40] or "a filter without a name"
            raise refuse(
                f"is packed by {called} (filter {code}), only gzip, shuffle and fletcher32 are read; "
                "store it with compression='gzip', or without"
            )
        if code == _SHUFFLE and tuple(values[:1]) != (dataset.get_type().get_size(),):
            raise refuse(f"is shuffled by {values} bytes, it must be by the size of its numbers; it is damaged")
    if len(set(codes)) < len(codes):
        raise refuse(f"has a filter twice, got the filters {codes}; it is damaged")
    return codes


class Chunks:
    """A dataset that is stored in chunks, read in blocks of rows."""

    def __init__(self, dataset: h5d.DatasetID, refuse: Refuse, budget: Budget) -> None:
        self._budget = budget
        self._dataset, self._refuse, self._filters = dataset, refuse, filters_of(dataset, refuse)
        self.shape: tuple[int, ...] = tuple(dataset.shape)
        self.chunk: tuple[int, ...] = tuple(dataset.get_create_plist().get_chunk())
        self.dtype: np.dtype[Any] = dataset.get_type().dtype
        self._whole: int = math.prod(self.chunk) * dataset.get_type().get_size()  # bytes of a chunk once unpacked
        self._kept: dict[tuple[int, ...], np.ndarray] = {}

    def check(self, file_size: int, most: int) -> None:
        """See that all chunks are in the file, with bytes enough for what they declare, at most `most` together."""
        count = math.prod(-(-n // size) for n, size in zip(self.shape, self.chunk, strict=True))
        if count > _MOST_CHUNKS:
            raise self._refuse(f"is stored in {count:,} chunks, over the limit of {_MOST_CHUNKS:,}")
        declared, there = count * self._whole, self._dataset.get_storage_size()
        if there > file_size or declared > there * (_DEFLATE_RATIO if _DEFLATE in self._filters else 1):
            has = min(there, file_size)
            raise self._refuse(f"declares {declared:,} bytes, the file has {has:,} for them")
        if declared > most:
            raise self._refuse(f"has chunks of {self.chunk}, together over {most:,} bytes")
        self._check_places(count, file_size)

    def _check_places(self, count: int, file_size: int) -> None:
        """See that there are `count` chunks, each inside the file and not much larger than when it is unpacked.

        Without filters a chunk must have its size exactly. The library makes room for as much, then fetches as many
        bytes as the file says.
        """
        least, most = (0, 2 * self._whole + 1024) if self._filters else (self._whole, self._whole)
        seen, wrong = 0, ""
        self._budget.visit("chunks", count)

        def look(chunk: Any) -> bool | None:
            nonlocal seen, wrong
            seen += 1
            if not least <= chunk.size <= most:
                wrong = f"has a chunk of {chunk.size:,} bytes that must be {self._whole:,} when unpacked; it is damaged"
            elif seen > count or chunk.byte_offset + chunk.size > file_size:
                wrong = "has chunks outside the array or outside the file; it may be truncated"
            return True if wrong else None  # anything but None stops

        self._dataset.chunk_iter(look)
        if not wrong and seen < count:
            wrong = f"has {seen:,} of its {count:,} chunks, the others were never written; write out every value"
        if wrong:
            raise self._refuse(wrong)

    def rows(self, start: int, stop: int) -> np.ndarray:
        """The rows from `start` to before `stop`, cut at the end of the dataset as NumPy cuts a slice."""
        start, stop, _ = slice(start, stop).indices(self.shape[0])
        low, high = (start, *[0] * (len(self.shape) - 1)), (max(start, stop), *self.shape[1:])
        found = np.empty([b - a for a, b in zip(low, high, strict=True)], self.dtype)
        firsts = [range(a - a % n, b, n) for a, b, n in zip(low, high, self.chunk, strict=True)]
        for corner in product(*firsts):
            inside, target = [], []  # the same numbers, in the chunk and in what is returned
            for k, n, a, b in zip(corner, self.chunk, low, high, strict=True):
                here, end = max(k, a), min(k + n, b)
                inside.append(slice(here - k, end - k))
                target.append(slice(here - a, end - a))
            found[tuple(target)] = self._chunk_at(corner)[tuple(inside)]
        return found

    def _chunk_at(self, corner: tuple[int, ...]) -> np.ndarray:
        """A whole chunk. Rows are asked for in blocks, so that the same chunk is often needed twice in a row."""
        if corner not in self._kept:
            if (len(self._kept) + 1) * self._whole > _KEPT:
                self._kept.clear()
            self._budget.tick("chunks")
            mask, stored = self._dataset.read_direct_chunk(corner)
            data = self._unpacked(stored, mask)
            self._kept[corner] = np.frombuffer(data, self.dtype).reshape(self.chunk)
        return self._kept[corner]

    def _unpacked(self, data: bytes | bytearray, mask: int) -> bytes | bytearray:
        """The bytes of a chunk before its filters were applied; bit k of `mask` says that the k-th was left out."""
        applied = [code for k, code in enumerate(self._filters) if not mask >> k & 1]
        for k in reversed(range(len(applied))):
            if applied[k] == _FLETCHER:
                data = self._checked(data)
            elif applied[k] == _SHUFFLE:
                data = unshuffled(data, self.dtype.itemsize)
            else:
                size = self._whole + (_CHECKSUM if _FLETCHER in applied[:k] else 0)
                data = self._inflated(data, size)
        if len(data) != self._whole:
            raise self._refuse(
                f"has a chunk of {len(data):,} bytes when unpacked, it must have {self._whole:,}; it is damaged"
            )
        return data

    def _inflated(self, data: bytes | bytearray, size: int) -> bytes | bytearray:
        """A gzip stream that is `size` bytes long when unpacked, and ends where the chunk does."""
        unpack = zlib.decompressobj()
        found = bytearray()
        try:
            while len(found) <= size and not unpack.eof:
                self._budget.tick("chunks")
                piece = unpack.decompress(data, min(_PIECE, size + 1 - len(found)))
                found += piece
                if not piece and not unpack.unconsumed_tail:
                    break
                data = unpack.unconsumed_tail
        except zlib.error as error:
            raise self._refuse(f"has a chunk that cannot be unpacked ({error}); it is damaged") from None
        if len(found) != size or not unpack.eof or unpack.unused_data:
            raise self._refuse(f"has a chunk that is not {size:,} bytes when unpacked; it is damaged")
        return found

    def _checked(self, data: bytes | bytearray) -> bytes | bytearray:
        """A chunk without the checksum at its end, after a look at whether that is right."""
        data, checksum = data[:-_CHECKSUM], data[-_CHECKSUM:]
        if len(checksum) < _CHECKSUM or fletcher32(data) != int.from_bytes(checksum, "little"):
            raise self._refuse("has a chunk whose checksum (fletcher32) is wrong; it is damaged")
        return data


def unshuffled(data: bytes | bytearray, size: int) -> bytes | bytearray:
    """Numbers of `size` bytes each from their first bytes, then their second bytes, and so on.

    With size 2, a1 b1 c1 a2 b2 c2 becomes a1 a2 b1 b2 c1 c2. What is left over at the end stays where it is.
    """
    count = len(data) // size
    if size == 1 or count < 2:
        return data
    bytes_of = np.frombuffer(data, np.uint8, count * size).reshape(size, count)
    return bytes_of.T.tobytes() + data[count * size :]


def fletcher32(data: bytes | bytearray) -> int:
    """Fletcher's checksum in the form that HDF5 has.

    Over the big-endian 16-bit words w_1 … w_n of the data, the low half is the sum of w_k and the high half that of
    (n + 1 - k) w_k, modulo 65535; a multiple of 65535 other than 0 counts as 65535.
    """
    words = np.frombuffer(data + b"\0" * (len(data) % 2), ">u2") if data else np.empty(0, ">u2")
    low = high = 0
    for start in range(0, len(words), 1 << 16):
        block = words[start : start + (1 << 16)].astype(np.int64)
        high += low * len(block) + int(block @ np.arange(len(block), 0, -1))
        low += int(block.sum())
    low, high = ((total - 1) % 65535 + 1 if total else 0 for total in (low, high))
    return high << 16 | low
