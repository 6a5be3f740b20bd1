"""Lines of text or JSON, plain or gzipped: read one at a time, and made into sequences."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from lrpnumpy.checks import LrpError, parse_json
from lrpnumpy.files.safe import open_file

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_RATIO = 300  # bytes that a packed one may become: of text about 3, of what is meant to fill a disk 1,000
FREE = 1 << 24  # bytes that a file may become, however few it has


class Bad(NamedTuple):
    """A record that cannot be used, and why."""

    reason: str


def too_long(length: int, longest: int) -> str:
    """Why a sequence is rejected that would not fit the memory."""
    return f"a sequence must have at most longest = {longest:,} steps, got {length:,}"


class Lines:
    """The lines of a file."""

    def __init__(self, path: Path, max_line: int) -> None:
        self.path, self.max_line = path, max_line
        self._raw: Any = None
        with open_file(path) as file:
            self._stamp = _stamp(file)
            packed = _is_packed(file)
        self._size = self._stamp[0]
        if packed:
            self._check_ratio()

    def _check_ratio(self) -> None:
        """Refuse a decompression bomb; if the file is damaged, reading it reports the record."""
        with suppress(EOFError, zlib.error, OSError), open_file(self.path) as raw, gzip.GzipFile(fileobj=raw) as file:
            unpacked = 0
            while block := file.read(1 << 20):
                unpacked += len(block)
                if unpacked > FREE + MAX_RATIO * raw.tell():
                    got = f"{unpacked:,} bytes of its first {raw.tell():,}; unpack it first if that is meant"
                    raise LrpError(f"{self.path} must unpack to at most {MAX_RATIO} times its bytes, got {got}.")

    def records(self) -> Iterator[bytes | Bad]:
        """Every line without its end."""
        done = 0
        try:
            with open_file(self.path) as self._raw:
                file: Any = gzip.GzipFile(fileobj=self._raw) if _is_packed(self._raw) else self._raw
                for line in read_lines(file, self.max_line):
                    yield line
                    done += 1
                    if self._raw.tell() > self._size:  # it grows, and might never end
                        break
                after = _stamp(self._raw)
        except (OSError, EOFError, zlib.error) as error:
            raise LrpError(f"{self.path}: cannot be read after record {done}; is it damaged? ({error})") from None
        if self._stamp != after:
            raise LrpError(f"{self.path} must not change while it is read, got another size or time of change.")

    def fraction(self, done: int) -> float | None:
        """How much has been read, by bytes on the disk."""
        if self._raw is None or not self._size:
            return None
        return 1.0 if self._raw.closed else self._raw.tell() / self._size


def _stamp(file: Any) -> tuple[int, int]:
    """Size and time of change."""
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns


def _is_packed(file: Any) -> bool:
    return file.peek(2)[:2] == b"\x1f\x8b"


def read_lines(file: BinaryIO, max_line: int) -> Iterator[bytes | Bad]:
    """Lines without their ends; of one that is over `max_line` bytes no more than that is ever in memory."""
    first = True
    while line := file.readline(max_line + 2):
        if first and line.startswith(BYTE_ORDER_MARK):
            line = line[len(BYTE_ORDER_MARK) :] or file.readline(max_line + 2)
        first = False
        size = len(line)
        while not line.endswith(b"\n") and size > max_line and (rest := file.readline(max_line + 2)):
            size += len(rest)
            if rest.endswith(b"\n"):
                break
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        if size > max_line + 2 or len(line) > max_line:
            yield Bad(f"a line must have at most max_line = {max_line:,} bytes, got {size:,}")
        else:
            yield line


def text(line: bytes) -> str:
    """A line of text."""
    found = _decoded(line)
    if "\0" in found:
        raise LrpError("a line must be text, got the character NUL; UTF-16 must be converted to UTF-8")
    if not found.strip():
        raise LrpError("a line must have at least one word, got an empty line")
    return found


def value(line: bytes, field: str | None, several: bool = False) -> Any:
    """The sequence in a line of JSON: the line itself, or a field of it; with `several`, an object of sequences."""
    found = member(line, field)
    if not (isinstance(found, (str, list)) or (several and isinstance(found, dict))):
        where = "a line, unless field names a part of it," if field is None else f"the field {field!r}"
        raise LrpError(f"{where} must be a string or a list of words, ids or numbers, got {_named(found)}")
    return found


def member(line: bytes, field: str | None) -> Any:
    """A line of JSON, or a field of it."""
    text = _decoded(line)
    try:
        found = parse_json(text)
    except ValueError as error:
        raise LrpError(f"a line must be JSON, got: {str(error)[:200]}") from None
    if field is None:
        return found
    if not isinstance(found, dict) or field not in found:
        raise LrpError(f"a line must be a JSON object with the field {field!r}, got {_named(found)}")
    return found[field]


def _decoded(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LrpError(f"a line must be UTF-8, got byte 0x{line[error.start]:02x} at {error.start}") from None


def _named(found: Any) -> str:
    """A JSON value for an error message."""
    if isinstance(found, dict):
        return f"an object with {', '.join(map(repr, list(found)[:10])) or 'nothing'}"[:200]
    return "a list" if isinstance(found, list) else json.dumps(found)[:60]
