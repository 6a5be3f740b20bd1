"""Columns beside the explanations of a corpus: one value a record, such as its season or true label, as JSON text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError, encodable, parse_json, shown
from lrpnumpy.corpus.arrays import OPEN
from lrpnumpy.corpus.sources import Source

FIELD = "field"  # how a run notes a column that is a field of the records


class Columns:
    """The columns of a run: of each either all values, or the name of a field that every record has."""

    def __init__(self, given: Any, source: Source, path: Any) -> None:
        given = [given] if isinstance(given, str) else () if given is None else given
        if not isinstance(given, (Mapping, list, tuple)):
            raise LrpError(f"columns must be a dict of name to values, or a list of names, got {type(given).__name__}.")
        for name in given:
            if not isinstance(name, str) or not name.strip(".") or {"/", "\0"} & set(name) or encodable(name) != name:
                raise LrpError(f"columns must have names of UTF-8 without '/', got {shown(name)}.")
        self.given: dict[str, Sequence[Any]] = {}
        self.fields: tuple[str, ...] = ()
        if isinstance(given, Mapping):
            self.given = {name: _listed(values) for name, values in given.items()}
        elif given and source.kind == "jsonl":
            self.fields = tuple(given)
        elif given and source.kind in OPEN:
            self.given = {name: _beside(source.kind, Path(path), name) for name in given}
        elif given:
            raise LrpError(f"columns must be a dict of name to values where there are no fields, got {shown(given)}.")

    @property
    def note(self) -> dict[str, str] | None:
        """What a run that is resumed must find unchanged."""
        found = dict.fromkeys(self.fields, FIELD)
        for name, values in self.given.items():
            try:
                text = repr(list(values)).encode("utf-8", "surrogatepass")
            except ValueError as error:  # a number with more digits than Python writes
                raise LrpError(f"columns: {name!r} must have values that can be written, got: {error}.") from error
            found[name] = f"sha256 {hashlib.sha256(text).hexdigest()}"
        return found or None

    def arrays(self, records: np.ndarray) -> dict[str, np.ndarray]:
        """The values of these records, by the names of their arrays in the file; numbers of records count from 1."""
        found: dict[str, np.ndarray] = {}
        for name, values in self.given.items():
            if len(records) and records[-1] > len(values):
                raise LrpError(
                    f"columns: {name!r} must have a value for each record, got {len(values)} and record {records[-1]}."
                )
            found |= arrays(name, (values[k - 1] for k in records.tolist()))
        return found


def arrays(name: str, values: Iterable[Any]) -> dict[str, np.ndarray]:
    """Values as JSON text, one behind the other, and the bytes of each."""
    try:
        texts = [json.dumps(value, default=str).encode() for value in values]
    except (TypeError, ValueError, RecursionError) as error:
        raise LrpError(f"columns: {name!r} must have values that JSON can hold, got: {error}.") from error
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return {f"columns/{name}/text": np.frombuffer(b"".join(texts), np.uint8), f"columns/{name}/lengths": lengths}


def values(text: bytes, ends: np.ndarray) -> list[Any]:
    """What `arrays` wrote; `ends` (n+1,) are where the values begin and the last one ends."""
    places = ends.tolist()
    known: dict[bytes, Any] = {}  # a column has few different values
    found = []
    for start, stop in pairwise(places):
        one = text[start:stop]
        if one not in known:
            known[one] = parse_json(one)
        found.append(known[one])
    return found


def _listed(values: Any) -> Sequence[Any]:
    """The values of a column as Python's own; dates as text."""
    has_entries = hasattr(values, "__iter__") and hasattr(values, "__len__") and getattr(values, "ndim", 1) > 0
    if isinstance(values, str) or not has_entries:
        raise LrpError(f"columns must have a list of one value for each record, got {shown(values)}.")
    array = np.asarray(values) if hasattr(values, "dtype") else None
    if array is None:
        return list(values)
    return (array.astype(str) if array.dtype.kind == "M" else array).tolist()


def _beside(kind: str, path: Path, name: str) -> Sequence[Any]:
    """An array of a file that has one number a record."""
    with OPEN[kind](path) as find:
        rows = find(name)
        if rows is None or len(rows.shape) != 1:
            raise LrpError(f"{path} must have an array {name!r} of one number for each sequence, to be a column.")
        return rows.take(rows.shape[0]).tolist()
