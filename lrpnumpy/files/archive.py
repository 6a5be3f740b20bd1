"""Zip archives and `.npz` files read safely: sizes are checked before a member is unpacked."""

from __future__ import annotations

import zipfile
from typing import IO

import numpy as np

from lrpnumpy.files import npy
from lrpnumpy.files.safe import MAX_BYTES, MAX_NAMES, MAX_TEXT, Shape, Source

_DEFLATE_RATIO = 1032  # no deflate stream holds more than this many bytes a byte


class Archive(Source):
    """A zip file: members by name, which is a label and never a path."""

    def __init__(self, file: str, max_bytes: int = MAX_BYTES) -> None:
        super().__init__(file, max_bytes)
        with self.guard("", "cannot be opened as a zip archive; it may be truncated or damaged"):
            self._zip = zipfile.ZipFile(file)
            found = self._zip.infolist()
        self.members = {info.filename: info for info in found}
        if len(found) > MAX_NAMES or len(self.members) < len(found):
            raise self.error("", f"has {len(found):,} members, too many or two of one name")

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

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
        return self._zip.open(info)

    def member(self, name: str, limit: int) -> bytes:
        """A whole member."""
        with self.guard(name), self._open(name, limit) as member:
            content = member.read(limit)
            if len(content) != self.members[name].file_size:
                raise self.error(name, "is not as long as the archive says; it is damaged")
            return content

    def text_member(self, name: str) -> bytes:
        """A member that is a text, such as JSON."""
        return self.member(name, MAX_TEXT)


class Npz(Archive):
    """An archive of NumPy arrays, of floats; an array of one string is a remark."""

    def names(self) -> list[str]:
        names = [name.removesuffix(".npy") for name in self.members]
        return [name for name in names if self._header(name).dtype.kind != "U"]

    def shape(self, name: str) -> tuple[int, ...]:
        return self._header(name).shape

    def array(self, name: str, shape: Shape) -> np.ndarray:
        header = self._header(name)
        npy.check(self, name, header, shape, self.members[f"{name}.npy"].file_size)
        return npy.array(header, self._data(name, header))

    def text(self, name: str) -> str | None:
        if f"{name}.npy" not in self.members:
            return None
        header = self._header(name)
        if header.dtype.kind != "U" or header.shape not in ((), (1,)) or header.nbytes > MAX_TEXT:
            raise self.error(name, f"must be one string, it has {header.dtype} of shape {header.shape}")
        with self.guard(name):
            return str(np.frombuffer(self._data(name, header), header.dtype)[0])

    def _header(self, name: str) -> npy.Header:
        with self.guard(name), self._open(f"{name}.npy", self.max_bytes + MAX_TEXT) as stream:
            return npy.read_header(self, name, stream)

    def _data(self, name: str, header: npy.Header) -> bytes:
        return self.member(f"{name}.npy", header.start + header.nbytes)[header.start :]
