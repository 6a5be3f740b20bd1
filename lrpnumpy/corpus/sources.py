"""Where sequences come from: text, JSON lines, HDF5, .npz, any iterable; in chunks that are always cut alike.

A source yields raw records: lines of bytes, arrays, or whatever an iterable holds. They are made into
sequences by whoever explains them: that costs nothing where records are only counted (by a resumed run) or
sent elsewhere.
"""

from __future__ import annotations

import hashlib
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lrpnumpy import tables
from lrpnumpy.checks import LrpError, one_of
from lrpnumpy.corpus import lines
from lrpnumpy.corpus.arrays import Arrays
from lrpnumpy.corpus.record import Bad, Chunk
from lrpnumpy.files.safe import open_file, size_of

FORMATS = ("text", "jsonl", "hdf5", "npz")
ENDS = {".txt": "text", ".jsonl": "jsonl", ".ndjson": "jsonl", ".h5": "hdf5", ".hdf5": "hdf5", ".npz": "npz"}
MAX_BYTES = 1 << 21  # of the records of a chunk, unless a single record has more


def _unknown(done: int) -> float | None:
    return None


@dataclass(frozen=True)
class Source:
    """Raw records, and what is needed to make sequences of them and to know them again."""

    kind: str  # one of FORMATS, or "iterable"
    records: Callable[[], Iterator[Any]]
    identity: dict[str, Any]  # what a run that is resumed must find unchanged
    field: str | None = None
    fraction: Callable[[int], float | None] = _unknown  # how much has been read, after so many records

    @property
    def known(self) -> bool:
        """Whether `identity` covers the content; if not, records read before must be compared themselves."""
        return "sha256" in self.identity


def open_source(source: Any, format: str | None, field: str | None, longest: int, max_line: int) -> Source:
    """The records of a file, of standard input ("-"), or of any iterable."""
    if format is not None:
        one_of(format, "format", FORMATS)
    if isinstance(source, str) and source == "-":
        return _standard_input(format or "text", field, max_line)
    if isinstance(source, (str, os.PathLike)):
        return _file(Path(source), format, field, longest, max_line)
    if format is not None or field is not None:
        raise LrpError(f"format and field must be None where the source is no file, got {format!r}, {field!r}.")
    if not isinstance(source, Iterable) or isinstance(source, (bytes, dict)) or getattr(source, "ndim", 1) == 0:
        raise LrpError(f"source must be a path or an iterable of sequences, got {type(source).__name__}.")
    total = len(source) if isinstance(source, Sized) else 0
    fraction = (lambda done: done / total) if total else _unknown
    return Source("iterable", lambda: iter(source), {"kind": "iterable"}, fraction=fraction)


def _standard_input(kind: str, field: str | None, max_line: int) -> Source:
    if kind not in ("text", "jsonl"):
        raise LrpError(f"format must be 'text' or 'jsonl' for standard input, got {kind!r}.")
    if sys.stdin is None:
        raise LrpError("source must be a file where standard input is closed, got '-'.")
    read = lambda: lines.read_lines(sys.stdin.buffer, max_line)  # noqa: E731
    return Source(kind, read, {"kind": kind, "field": field}, field)


def _file(path: Path, format: str | None, field: str | None, longest: int, max_line: int) -> Source:
    kind = format or ENDS.get(Path(path.name.lower().removesuffix(".gz")).suffix)
    if kind is None:
        ends = ", ".join(ENDS)
        raise LrpError(f"source must end in {ends} (lines also in .gz), or format be given, got {path.name!r}.")
    if kind == "text" and field is not None:
        raise LrpError(f"field must be None where the source is text, got {field!r}.")
    try:
        with open_file(path) as file:
            size = size_of(file)
        found: Any = (
            Arrays(kind, path, field or "values", longest) if kind in ("hdf5", "npz") else lines.Lines(path, max_line)
        )
        with closing(found.records()) as records:
            if next(records, None) is None:
                raise LrpError(f"source must have at least one record, got none in {path}.")
        identity = {"kind": kind, "field": field, "bytes": size, "sha256": _sha256(path, size)}
    except OSError as error:
        advice = "; a pipe is read from standard input, '-'" if os.path.exists(path) and path.is_fifo() else ""
        raise LrpError(f"{path}: cannot be read ({error.strerror or error}){advice}.") from None
    except ValueError as error:
        if isinstance(error, LrpError):
            raise
        raise LrpError(f"source must be a path, got {str(path)!r} ({error}).") from None  # with the character NUL
    return Source(kind, found.records, identity, field, found.fraction)


def _sha256(path: Path, size: int) -> str:
    """Of the whole content: it takes a hundredth of the time that explaining it will take, or less."""
    state = hashlib.sha256()
    with open_file(path) as file:
        while size > 0 and (block := file.read(min(size, 1 << 20))):  # not what is added meanwhile
            state.update(block)
            size -= len(block)
    return state.hexdigest()


def chunks(source: Source, most: int) -> Iterator[Chunk]:
    """The records in chunks of at most `most`: where one ends depends on nothing but the records before."""
    first, size, records = 1, 0, []
    for record in source.records():
        records.append(record)
        size += _size(record)
        if len(records) == most or size >= MAX_BYTES:
            yield Chunk(first, records)
            first, size, records = first + len(records), 0, []
    if not records and first == 1 and source.kind != "iterable":  # of a file that was seen when it was opened
        raise LrpError("source must have at least one record, got none in standard input.")
    if records or first == 1:  # an iterable without records has one chunk, an empty one
        yield Chunk(first, records)


def _size(record: Any) -> int:
    """About how many bytes a record takes."""
    if isinstance(record, np.ndarray):
        return record.nbytes
    if isinstance(record, dict):  # several inputs
        return sum(map(_size, record.values()))
    if isinstance(getattr(record, "shape", None), tuple):  # a frame or a tensor
        return 8 * math.prod(record.shape)
    if isinstance(record, (list, tuple)):
        inner = record[0] if record else None
        return 16 * len(record) * (len(inner) if isinstance(inner, (list, tuple, np.ndarray)) else 1)
    return len(record) if isinstance(record, (str, bytes)) else 64


def sequence(kind: str, field: str | None, record: Any, several: bool = False) -> Any:
    """The sequence in a raw record, as `explain` takes it; an LrpError says why there is none.

    Of a network with `several` inputs it is a dict of them: a JSON object.
    """
    if isinstance(record, Bad):
        raise LrpError(record.reason)
    if kind == "text":
        return lines.text(record)
    return lines.value(record, field, several) if kind == "jsonl" else record


def fingerprint(chunk: Chunk) -> str:
    """A digest of raw records of any kind: that of the same records is the same in every process."""
    state = hashlib.sha256()

    def add(value: Any) -> None:
        value = tables.untensored(value)
        if hasattr(value, "to_numpy"):  # a frame, which prints itself shortened
            value = value.to_numpy()
        if isinstance(value, np.ndarray) and value.dtype == object:
            value = value.tolist()
        if isinstance(value, np.ndarray):
            state.update(f"{value.dtype.str}{value.shape}".encode())
            state.update(np.ascontiguousarray(value).tobytes())
        elif isinstance(value, (list, tuple)) and value and isinstance(value[0], (list, tuple, np.ndarray)):
            for part in value:
                add(part)
        elif isinstance(value, dict):  # several inputs
            for name in sorted(value, key=str):
                add(name)
                add(value[name])
        else:
            state.update(repr(value).encode("utf-8", "surrogatepass"))
        state.update(b"\0")

    for record in chunk.records:
        add(record)
    return state.hexdigest()


def joined(fingerprints: Iterable[str]) -> str:
    """The fingerprint of all chunks from that of each."""
    state = hashlib.sha256()
    for one in fingerprints:
        state.update(one.encode())
    return state.hexdigest()
