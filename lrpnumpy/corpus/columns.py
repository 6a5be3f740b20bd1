"""Columns stored with the explanations of a corpus: one value per record, such as its season or true label."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError, shown
from lrpnumpy.corpus.arrays import OPEN
from lrpnumpy.corpus.sources import Opened


class Beside:
    """The columns of a run: for each either all values, or the name of a field that records have."""

    def __init__(self, given: Any, source: Opened, path: Any) -> None:
        if isinstance(given, str):
            given = [given]
        given = () if given is None else given
        if not isinstance(given, (Mapping, list, tuple)):
            raise LrpError(f"columns must be a dict of name to values, or a list of names, got {type(given).__name__}.")
        for name in given:
            if not isinstance(name, str):
                raise LrpError(f"columns must have names that are strings, got {shown(name)}.")
        self.values: dict[str, list[Any]] = {}
        self.fields: tuple[str, ...] = ()
        self.note: dict[str, str] = {}  # what a run that is resumed must find unchanged
        if isinstance(given, Mapping):
            self._take({name: _listed(values) for name, values in given.items()})
        elif given and source.kind == "jsonl":
            self.fields = tuple(given)
            self.note = dict.fromkeys(given, "field")
        elif given and source.kind in OPEN:
            self._take({name: _beside(source.kind, Path(path), name) for name in given})
        elif given:
            raise LrpError(f"columns must be a dict of name to values where there are no fields, got {shown(given)}.")

    def _take(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Keep columns as JSON holds them."""
        for name, values in columns.items():
            try:
                text = json.dumps(values, default=str)
            except (TypeError, ValueError, RecursionError) as error:
                raise LrpError(f"columns: {name!r} must have values that JSON can hold, got: {error}.") from error
            self.values[name] = json.loads(text)
            self.note[name] = f"sha256 {hashlib.sha256(text.encode()).hexdigest()}"

    def of(self, first: int, count: int) -> dict[str, list[Any]]:
        """The values of `count` records from the number `first` on, which is counted from 1."""
        stop = first - 1 + count
        for name, values in self.values.items():
            if stop > len(values):
                raise LrpError(
                    f"columns: {name!r} must have a value for each record, got {len(values)} and record {stop}."
                )
        return {name: values[first - 1 : stop] for name, values in self.values.items()}


def _listed(values: Any) -> list[Any]:
    """The values of a column as Python's own; dates as text."""
    has_entries = hasattr(values, "__iter__") and hasattr(values, "__len__") and getattr(values, "ndim", 1) > 0
    if isinstance(values, str) or not has_entries:
        raise LrpError(f"columns must have a list of one value for each record, got {shown(values)}.")
    if not hasattr(values, "dtype"):
        return list(values)
    array = np.asarray(values)
    return (array.astype(str) if array.dtype.kind == "M" else array).tolist()


def _beside(kind: str, path: Path, name: str) -> list[Any]:
    """An array of a file that has one number per record."""
    with OPEN[kind](path) as find:
        rows = find(name)
        if rows is None or len(rows.shape) != 1:
            raise LrpError(f"{path} must have an array {name!r} of one number for each sequence, to be a column.")
        return rows.numbers().tolist()
