"""Zip archives and `.npz` files read safely: sizes are checked before a member is unpacked, and unpacked in pieces."""

from __future__ import annotations

import io
import zipfile
from itertools import pairwise
from typing import IO, Any

import numpy as np

from lrpnumpy.files import npy
from lrpnumpy.files.safe import MAX_BYTES, MAX_TEXT, Budget, Shape, Source, open_file

_DEFLATE_RATIO = 1032  # no deflate stream holds more than this many bytes a byte
_PIECE = 1 << 20
_MEMBERS = 20_000  # at the most
_DIRECTORY = 200 * _MEMBERS  # bytes of the list of members, at the most


class Archive(Source):
    """A zip file: members by name, which is a label and never a path."""

    def __init__(self, file: str, budget: Budget | None = None, content: io.BytesIO | None = None) -> None:
        super().__init__(file, budget)
        with self.opening("cannot be opened as a zip archive; it may be truncated or damaged"):
            self._stream = self._opened.enter_context(open_file(file) if content is None else content)
            end = zipfile._EndRecData(self._stream)  # type: ignore[attr-defined]
            if end is not None and (end[4] > _MEMBERS or end[5] > _DIRECTORY):  # of the list, which is read whole
                raise self.error("", f"has {end[4]:,} members in a list of {end[5]:,} bytes, too many")
            self._zip = self._opened.enter_context(zipfile.ZipFile(self._stream))
            found = self._zip.infolist()
            self.members = {info.filename: info for info in found}
            self.budget.visit("", len(found))
            if len(found) > _MEMBERS or len(self.members) < len(found):
                raise self.error("", f"has {len(found):,} members, too many or two of one name")
            offsets = sorted(one.header_offset for one in found)
            ends = [*offsets, self._zip.start_dir][1:]
            self._ends = dict(zip(offsets, ends, strict=True))  # of each member, at most
            spans = sorted((one.header_offset, one.header_offset + 30 + one.compress_size) for one in found)
            if any(end > start for (_, end), (start, _) in pairwise(spans)):
                raise self.error("", "has members that share bytes; it is damaged")

    def _open(self, name: str, limit: int) -> IO[bytes]:
        """A member to read from, at most `limit` bytes long."""
        if (info := self.members.get(name)) is None:
            raise self.error(name, "is missing")
        if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise self.error(name, "is encrypted or packed in a way other than deflate")
        if info.file_size > limit:
            raise self.error(name, f"is {info.file_size:,} bytes unpacked, over the limit of {limit:,}")
        if info.file_size > _DEFLATE_RATIO * info.compress_size:
            raise self.error(name, f"declares {info.file_size:,} bytes packed into {info.compress_size:,}")
        if info.compress_type == zipfile.ZIP_STORED and info.file_size != info.compress_size:
            raise self.error(name, f"is not packed, and declares {info.file_size:,} bytes in {info.compress_size:,}")
        self._stream.seek(info.header_offset + 26)
        lengths = self._stream.read(4)  # of its name, and of the fields after that
        start = info.header_offset + 30 + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
        if start + info.compress_size > self._ends[info.header_offset]:
            raise self.error(name, "reaches into the member behind it; the archive is damaged")
        self.budget.tick(name)
        return self._zip.open(info)

    def _whole(self, name: str, limit: int) -> memoryview:
        """A whole member, whose size the caller has counted already."""
        with self.guard(name), self._open(name, limit) as member:
            size = self.members[name].file_size
            content = memoryview(bytearray(size))
            start = 0
            while piece := member.read(_PIECE):
                self.budget.tick(name)
                if start + len(piece) > size:
                    break
                content[start : start + len(piece)] = piece
                start += len(piece)
            if piece or start != size:
                raise self.error(name, "does not have the length stored in the archive; it is damaged")
            return content

    def member(self, name: str, limit: int) -> memoryview:
        """A whole member, kept in memory besides the arrays."""
        if (info := self.members.get(name)) is not None and info.file_size <= limit:
            self.budget.hold(name, info.file_size)
        return self._whole(name, limit)

    def text_member(self, name: str) -> bytes:
        """A member that is a text, such as JSON."""
        return bytes(self.member(name, MAX_TEXT))


def read_npz(path: str) -> dict[str, Any]:
    """All arrays of a `.npz` file by name; strings are lists."""
    arrays = {}
    with Archive(path) as archive:
        for name, info in archive.members.items():
            with archive.guard(name), archive._open(name, MAX_BYTES) as stream:
                arrays[name.removesuffix(".npy")] = npy.read(archive, name, stream, info.file_size)
    return arrays


class NpzFile(Archive):
    """An archive of NumPy arrays, of floats; an array of one string is a remark."""

    def __init__(self, file: str, budget: Budget | None = None) -> None:
        super().__init__(file, budget)
        self._headers: dict[str, npy.Header] = {}

    def names(self) -> list[str]:
        names = [name.removesuffix(".npy") for name in self.members]
        return [name for name in names if self._header(name).dtype.kind != "U"]

    def shape(self, name: str) -> tuple[int, ...]:
        return self._header(name).shape

    def array(self, name: str, shape: Shape) -> np.ndarray:
        header = self._header(name)
        npy.check(self, name, header, shape)
        return npy.floats(header, self._data(name, header))

    def text(self, name: str) -> str | None:
        if f"{name}.npy" not in self.members:
            return None
        header = self._header(name)
        if header.dtype.kind != "U" or header.shape not in ((), (1,)) or header.nbytes > MAX_TEXT:
            raise self.error(name, f"must be one string, it has {header.dtype} of shape {header.shape}")
        self.budget.hold(name, header.nbytes)
        with self.guard(name):
            return str(np.frombuffer(self._data(name, header), header.dtype)[0])

    def _header(self, name: str) -> npy.Header:
        if name not in self._headers:
            with self.guard(name), self._open(f"{name}.npy", self.max_bytes + MAX_TEXT) as stream:
                self._headers[name] = npy.read_header(self, name, stream, self.members[f"{name}.npy"].file_size)
        return self._headers[name]

    def _data(self, name: str, header: npy.Header) -> memoryview:
        return self._whole(f"{name}.npy", header.start + header.nbytes)[header.start :]
