"""What a file of `--input` holds, as `explain` takes it: numbers of .npy and .csv, several inputs of .npz and .json."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import IO, Any

import numpy as np

from lrpnumpy import LrpError, Table
from lrpnumpy.checks import parse_json
from lrpnumpy.files import npy
from lrpnumpy.files.archive import read_npz
from lrpnumpy.files.safe import MAX_BYTES, Budget, Source, open_file, size_of

# Not what NumPy takes for a date besides: now, today, years without end, zones of time that it drops.
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}(-[0-9]{2}([ T][0-9]{2}(:[0-9]{2}){0,2}(\.[0-9]{1,9})?)?)?")
INDEX = ("", "index", "unnamed: 0")  # heads of a column that numbers the rows


def read(name: str) -> Any:
    """The input in a file; whatever is wrong with it is an LrpError."""
    path = Path(name)
    readers = {".npy": _npy, ".npz": lambda path: read_npz(str(path)), ".json": _json}
    try:
        return readers.get(path.suffix.lower(), _csv)(path)
    except (OSError, ValueError, csv.Error) as error:
        must = "--input must be a .npy file or a .csv file of numbers, one step a line, or of several inputs a .npz or "
        if isinstance(error, FileNotFoundError):
            raise LrpError(f"{path}: no such file; {must}.json file.") from None
        reason = getattr(error, "strerror", None) or str(error).removesuffix(".")
        raise LrpError(f"{must}.json file, got {path}: {reason}.") from None


def _npy(path: Path) -> Any:
    with open_file(path) as stream:
        return npy.read(Source(str(path), Budget(str(path), size_of(stream))), "", stream, size_of(stream))


def _content(stream: IO[bytes]) -> bytes:
    """What is in a file: Python takes the memory for all that it is asked to read."""
    return stream.read(min(size_of(stream), MAX_BYTES))


def _json(path: Path) -> Any:
    with open_file(path) as stream:
        return parse_json(_content(stream))


def _csv(path: Path) -> Any:
    """A table with one step a row. A first row that is no numbers names the columns; dates or names label the steps."""
    with open_file(path) as stream:
        text = _content(stream).decode("utf-8-sig")
    lines = io.StringIO(text, newline="")  # ends of lines as they are: a cell between quotes may have some
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    lines.seek(0)
    delimiter = max(",;\t", key=first.count)
    rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=delimiter)]
    rows = [row for row in rows if any(row) and not row[0].startswith("#")]
    if not rows:
        raise ValueError("it has no rows")
    head = rows.pop(0) if not all(map(_is_number, rows[0])) and not _labelled(rows) else None
    wide = len(head or rows[0]) if rows else 0
    for k, row in enumerate(rows, 1):
        if len(row) != wide:
            raise ValueError(f"row {k} has {len(row)} cells, not {wide}")
    if not rows:
        raise ValueError("it has a header and no rows")
    has_index = (head is not None and head[0].lower() in INDEX) or not all(_is_number(row[0]) for row in rows)
    if has_index and wide == 1:
        raise ValueError(f"it has no numbers, it has {rows[0][0]!r}")
    values = [[_number(cell, k) for cell in row[has_index:]] for k, row in enumerate(rows, 1)]
    if head is None and not has_index:
        return np.array(values)
    labels = _labels([row[0] for row in rows]) if has_index else None
    return Table(np.array(values), labels, None if head is None else tuple(head[has_index:]))


def _labelled(rows: list[list[str]]) -> bool:
    """Whether the first row is no header: only its first cell is no number, and so it is in the next."""
    return len(rows[0]) > 1 and bool(rows[0][0]) and all(map(_is_number, rows[0][1:]))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _number(cell: str, row: int) -> float:
    if not _is_number(cell):
        raise ValueError(f"row {row} must be numbers, it has {cell!r}")
    return float(cell)


def _labels(cells: list[str]) -> np.ndarray:
    """Dates where all are dates, such as 2020-01-31 10:00; anything else as text."""
    try:
        if all(map(_DATE.fullmatch, cells)):
            return np.array(cells, "M8[s]")
    except ValueError:  # the 31st of February
        pass
    return np.array(cells)
