"""Zip archives and `.npz` files read safely: sizes are checked before a member is unpacked."""

from __future__ import annotations

import math
import zipfile
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

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
        return [name.removesuffix(".npy") for name in self.members if self._header(name)[1].kind != "U"]

    def shape(self, name: str) -> tuple[int, ...]:
        return self._header(f"{name}.npy")[0]

    def array(self, name: str, shape: Shape) -> np.ndarray:
        declared, dtype, fortran, start = self._header(f"{name}.npy")
        if dtype.kind != "f" or dtype.itemsize > 8:
            raise self.error(name, f"must hold float16, float32 or float64, it has {dtype}")
        self.fits(name, declared, shape)
        wide = np.result_type(dtype, np.float32)
        self.spend(name, math.prod(declared) * wide.itemsize)
        flat = np.frombuffer(self._data(f"{name}.npy", start, math.prod(declared) * dtype.itemsize), dtype)
        return flat.reshape(declared, order="F" if fortran else "C").astype(wide)

    def text(self, name: str) -> str | None:
        member = f"{name}.npy"
        if member not in self.members:
            return None
        declared, dtype, _, start = self._header(member)
        if dtype.kind != "U" or declared not in ((), (1,)) or dtype.itemsize > MAX_TEXT:
            raise self.error(name, f"must be one string, it has {dtype} of shape {declared}")
        with self.guard(name):
            return str(np.frombuffer(self._data(member, start, dtype.itemsize), dtype)[0])

    def _header(self, member: str) -> tuple[tuple[int, ...], np.dtype[Any], bool, int]:
        """Declared shape, dtype and order of an array, and where its data starts."""
        with self.guard(member), self._open(member, self.max_bytes + MAX_TEXT) as stream:
            version = npy.read_magic(stream)
            if version not in ((1, 0), (2, 0)):
                raise self.error(member, f"is in version {version} of the .npy format, only 1 and 2 are read")
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, fortran, dtype = read(stream, max_header_size=10_000)
            if dtype.hasobject or dtype.kind not in "fiubU":
                raise self.error(member, f"must hold numbers, it has {dtype}")
            return tuple(int(n) for n in shape), dtype, fortran, stream.tell()

    def _data(self, member: str, start: int, nbytes: int) -> bytes:
        """The bytes after the header, exactly as many as the header declares."""
        if self.members[member].file_size != start + nbytes:
            raise self.error(member, f"declares {nbytes:,} bytes, the archive has other; it is damaged")
        return self.member(member, start + nbytes)[start:]
