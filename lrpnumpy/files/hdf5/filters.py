"""The filters of an HDF5 file, undone: gzip, shuffle and fletcher32 (section IV.A.2.l).

Every chunk must come out at exactly its size.
"""

from __future__ import annotations

import zlib

import numpy as np

from lrpnumpy.files.hdf5.pieces import Cursor, Refused

DEFLATE, SHUFFLE, FLETCHER = 1, 2, 3
DEFLATE_RATIO = 1032  # no deflate stream holds more than this many bytes a byte
_NAMES = {4: "szip", 5: "nbit", 6: "scaleoffset"}
_CHECKSUM = 4  # bytes that fletcher32 adds


def filters_of(data: bytes, size: int) -> list[int]:
    """The filters in a message in the order in which they were applied, if they are ones that are undone here."""
    said, codes = Cursor(data), []
    version, count = said.numbers("BB")
    if version not in (1, 2):
        raise Refused(f"has a list of filters of version {version}, which is not read")
    first = version == 1  # which fills names and values up to multiples of 8 bytes
    said.take(6 * first)
    for _ in range(count):
        code = said.number(2)
        length = said.number(2 * (first or code >= 256))
        _, values = said.numbers("HH")
        name = said.take(length).rstrip(b"\0").decode("utf-8", "replace")
        said.take(-length % 8 * first)
        given = said.numbers(f"{values}I")
        said.take(4 * (values % 2) * first)
        if code not in (DEFLATE, SHUFFLE, FLETCHER):
            called = _NAMES.get(code) or name[:40] or "a filter without a name"
            raise Refused(
                f"is packed by {called} (filter {code}), only gzip, shuffle and fletcher32 are read; "
                "store it with compression='gzip', or without"
            )
        if code == SHUFFLE and given[:1] != (size,):
            raise Refused(f"is shuffled by {given} bytes, it must be by the size of its numbers; it is damaged")
        codes.append(code)
    if len(set(codes)) < len(codes):
        raise Refused(f"has a filter twice, got the filters {codes}; it is damaged")
    return codes


def unpacked(data: bytes, codes: list[int], mask: int, size: int, whole: int) -> bytes:
    """The `whole` bytes of a chunk before its filters were applied; bit k of `mask` means that the k-th was left
    out."""
    applied = [code for k, code in enumerate(codes) if not mask >> k & 1]
    for k in reversed(range(len(applied))):
        if applied[k] == FLETCHER:
            data, checksum = data[:-_CHECKSUM], data[-_CHECKSUM:]
            if len(checksum) < _CHECKSUM or fletcher32(data) != int.from_bytes(checksum, "little"):
                raise Refused("has a chunk whose checksum (fletcher32) is wrong; it is damaged")
        elif applied[k] == SHUFFLE:
            data = unshuffled(data, size)
        else:
            data = _inflated(data, whole + _CHECKSUM * (FLETCHER in applied[:k]))
    if len(data) != whole:
        raise Refused(f"has a chunk of {len(data):,} bytes when unpacked, it must have {whole:,}; it is damaged")
    return data


def _inflated(data: bytes, size: int) -> bytes:
    """A gzip stream that is `size` bytes long when unpacked, and ends where the chunk does."""
    unpack = zlib.decompressobj()
    try:
        found = unpack.decompress(data, size + 1)
    except zlib.error as error:
        raise Refused(f"has a chunk that cannot be unpacked ({error}); it is damaged") from None
    if len(found) != size or not unpack.eof or unpack.unused_data:
        raise Refused(f"has a chunk that is not {size:,} bytes when unpacked; it is damaged")
    return found


def unshuffled(data: bytes, size: int) -> bytes:
    """Numbers of `size` bytes each from their first bytes, then their second bytes, and so on.

    With size 2, a1 b1 c1 a2 b2 c2 becomes a1 a2 b1 b2 c1 c2. What is left over at the end stays where it is.
    """
    count = len(data) // size
    if size == 1 or count < 2:
        return data
    bytes_of = np.frombuffer(data, np.uint8, count * size).reshape(size, count)
    return bytes_of.T.tobytes() + data[count * size :]


def fletcher32(data: bytes) -> int:
    """Fletcher's checksum in the form that HDF5 has.

    Over the big-endian 16-bit words w_1 … w_n of the data, the low half is the sum of w_k and the high half that of
    (n + 1 - k) w_k, modulo 65535; a multiple of 65535 other than 0 counts as 65535.
    """
    words = np.frombuffer(data + b"\0" * (len(data) % 2), ">u2")
    low = high = 0
    for start in range(0, len(words), 1 << 16):
        block = words[start : start + (1 << 16)].astype(np.int64)
        high += low * len(block) + int(block @ np.arange(len(block), 0, -1))
        low += int(block.sum())
    low, high = ((total - 1) % 65535 + 1 if total else 0 for total in (low, high))
    return high << 16 | low
