"""Where sequences come from: text, JSON lines, HDF5, .npz, any iterable; cut into chunks that are always the same.

A source yields raw records: lines of bytes, arrays, or whatever an iterable holds. Whoever explains them makes
sequences of them: that costs nothing where records are only counted (by a resumed run) or sent elsewhere.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from lrpnumpy import tables
from lrpnumpy.checks import LrpError, one_of, parse_json, shown, whole
from lrpnumpy.corpus import lines
from lrpnumpy.corpus.arrays import Arrays
from lrpnumpy.corpus.lines import Bad, Lines
from lrpnumpy.files.safe import open_file, size_of

FORMATS = ("text", "jsonl", "hdf5", "npz")
ENDS = {".txt": "text", ".jsonl": "jsonl", ".ndjson": "jsonl", ".h5": "hdf5", ".hdf5": "hdf5", ".npz": "npz"}
MAX_BYTES = 1 << 21  # of the records of a chunk, unless a single record has more


@dataclass(frozen=True, eq=False)
class Corpus:
    """A source of sequences, with options for reading it.

    source: a path to text (one sequence per line, plain or gzipped), JSON lines, HDF5 or .npz; "-" for lines of
        standard input; or any iterable of sequences.
    format: the kind of the file, where the end of its name does not say it.
    field: of JSON objects the field with the sequence; in HDF5 and .npz files the array with the values.
    longest, max_line: sequences of more steps, and lines of more bytes, are rejected, to save memory.
    strict: stop at the first record that cannot be explained, instead of listing it.
    """

    source: Any = dataclasses.field(repr=False)
    format: Literal["text", "jsonl", "hdf5", "npz"] | None = None
    field: str | None = None
    longest: int = 10_000
    max_line: int = 1 << 20
    strict: bool = False

    def __post_init__(self) -> None:
        one_of(self.format, "format", (None, *FORMATS))
        one_of(self.strict, "strict", (True, False))
        if not (self.field is None or isinstance(self.field, str)):
            raise LrpError(f"field must be a name, got {shown(self.field)}.")
        for name in ("longest", "max_line"):
            if whole(getattr(self, name), name, 1) > 1 << 62:
                raise LrpError(f"{name} must be at most 2 ** 62, got {getattr(self, name)}.")


class Chunk(NamedTuple):
    """Consecutive records; the first has the number `first`, counted from 1."""

    first: int
    records: list[Any]
    note: dict[str, Any]  # the description stored in its part
    columns: dict[str, list[Any]]  # values for each of its records that came with the request


@dataclass(frozen=True)
class Opened:
    """Raw records, and what is needed to make sequences of them and to recognize them."""

    kind: str  # one of FORMATS, or "iterable"
    records: Callable[[], Iterator[Any]]
    identity: dict[str, Any]  # what a run that is resumed must find unchanged
    fraction: Callable[[int], float | None] = lambda done: None  # the share that has been read, by number of records

    @property
    def known(self) -> bool:
        """Whether `identity` covers the content; if not, records read before must be compared themselves."""
        return "sha256" in self.identity


def open_source(corpus: Corpus) -> Opened:
    """The records of a file, of standard input ("-"), or of any iterable."""
    source, kind, field = corpus.source, corpus.format, corpus.field
    if isinstance(source, str) and source == "-":
        return _standard_input(corpus)
    if isinstance(source, (str, os.PathLike)):
        return _file(Path(source), corpus)
    if kind is not None or field is not None:
        raise LrpError(f"format and field are for files, but the source is not one; got {kind!r}, {field!r}.")
    if not isinstance(source, Iterable) or isinstance(source, (bytes, dict)) or getattr(source, "ndim", 1) == 0:
        raise LrpError(f"source must be a path or an iterable of sequences, got {type(source).__name__}.")
    count = len(source) if isinstance(source, Sized) else 0
    return Opened("iterable", lambda: iter(source), {"kind": "iterable"}, lambda done: done / count if count else None)


def _standard_input(corpus: Corpus) -> Opened:
    kind = one_of(corpus.format or "text", "format, for standard input,", ("text", "jsonl"))
    if sys.stdin is None:
        raise LrpError("source must be a file where standard input is closed, got '-'.")
    identity = {"kind": kind, "field": corpus.field}
    return Opened(kind, lambda: lines.read_lines(sys.stdin.buffer, corpus.max_line), identity)


def _file(path: Path, corpus: Corpus) -> Opened:
    kind, field = corpus.format or ENDS.get(Path(path.name.lower().removesuffix(".gz")).suffix), corpus.field
    if kind is None:
        raise LrpError(
            f"source must end in {', '.join(ENDS)} (lines also in .gz), or format be given, got {path.name!r}."
        )
    if kind == "text" and field is not None:
        raise LrpError(f"field must be None where the source is text, got {field!r}.")
    opened: Any
    try:
        with open_file(path) as file:
            size = size_of(file)
        is_lines = kind in ("text", "jsonl")
        opened = Lines(path, corpus.max_line) if is_lines else Arrays(kind, path, field or "values", corpus.longest)
        with closing(opened.records()) as records:
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
    return Opened(kind, opened.records, identity, opened.fraction)


def _sha256(path: Path, size: int) -> str:
    """Of the whole content: it takes a hundredth of the time that explaining it will take, or less."""
    state = hashlib.sha256()
    with open_file(path) as file:
        while size > 0 and (block := file.read(min(size, 1 << 20))):  # not what is added meanwhile
            state.update(block)
            size -= len(block)
    return state.hexdigest()


def chunks(source: Opened, most: int) -> Iterator[Chunk]:
    """The records in chunks of at most `most`: where one ends depends on nothing but the records before."""
    first, size, records = 1, 0, []
    for record in source.records():
        records.append(record)
        size += _size(record)
        if len(records) == most or size >= MAX_BYTES:
            yield Chunk(first, records, {}, {})
            first, size, records = first + len(records), 0, []
    if not records and first == 1 and source.kind != "iterable":  # of a file that was seen when it was opened
        raise LrpError("source must have at least one record, got none in standard input.")
    if records or first == 1:  # an iterable without records has one chunk, an empty one
        yield Chunk(first, records, {}, {})


def _size(record: Any) -> int:
    """About how many bytes a record takes."""
    if isinstance(record, (str, bytes)):
        return len(record)
    if isinstance(record, dict):  # several inputs
        return sum(map(_size, record.values()))
    if isinstance(getattr(record, "shape", None), tuple):  # an array, a frame or a tensor
        return 8 * math.prod(record.shape)
    if not isinstance(record, (list, tuple)):
        return 64
    is_nested = len(record) > 0 and isinstance(record[0], (list, tuple, np.ndarray))
    return 16 * len(record) * (len(record[0]) if is_nested else 1)


def sequence(kind: str, field: str | None, record: Any, several: bool = False) -> Any:
    """The sequence in a raw record, as `explain` takes it; an LrpError gives the reason if there is none.

    For a network with `several` inputs it is a dict of them: a JSON object.
    """
    if isinstance(record, Bad):
        raise LrpError(record.reason)
    if kind == "text":
        return lines.text(record)
    if kind == "jsonl":
        return lines.value(record, field, several)
    return record


def fields(record: bytes, names: Sequence[str]) -> list[Any]:
    """Fields of a line of JSON that has been read before; None for one that it does not have."""
    found = parse_json(record) if names else {}
    return [found.get(name) if isinstance(found, dict) else None for name in names]


def fingerprint(records: Iterable[Any]) -> str:
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

    for record in records:
        add(record)
    return state.hexdigest()
