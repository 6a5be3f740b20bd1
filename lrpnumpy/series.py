"""A series of numbers from the text of a CSV file: with or without names of columns, with or without dates."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

import numpy as np

from lrpnumpy.checks import LrpError
from lrpnumpy.tables import Table

INDEX = ("", "index", "unnamed: 0")  # names of a first column that numbers the rows
# Not what NumPy takes for a date besides: now, today, years without end, time zones, which it drops.
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}(-[0-9]{2}([ T][0-9]{2}(:[0-9]{2}){0,2}(\.[0-9]{1,9})?)?)?")


def read_csv(text: str, most: int | None = None) -> Table:
    """The columns of numbers, one step per row; a first column of dates or names labels the steps.

    Cells are separated by commas, semicolons, tabs or blanks. A first row without any number names the columns. With
    semicolons, a comma in a number is its decimal point. Rows that begin with # are comments. `most` is how many cells
    there may be.
    """
    rows = _rows(text.removeprefix("\ufeff"))
    if not rows:
        raise LrpError("a series must have at least one row of numbers, got an empty text.")
    width = len(rows[0])
    if most is not None and width * len(rows) > most:
        raise LrpError(f"a series must have at most {most:,} numbers, got {width * len(rows):,}.")
    for k, row in enumerate(rows, 1):
        if len(row) != width:
            raise LrpError(f"a series must have as many cells in each row, got {width} in row 1 and {len(row)} in {k}.")
    names = rows.pop(0) if len(rows) > 1 and not any(map(_is_number, rows[0])) else None
    has_index = not any(_is_number(row[0]) for row in rows) or (names is not None and names[0].lower() in INDEX)
    if has_index and width == 1:
        raise LrpError(f"a series must have at least one column of numbers, got {rows[0][0][:60]!r}.")
    values = [[_number(cell, k) for cell in row[has_index:]] for k, row in enumerate(rows, 1)]
    labels = _labels([row[0] for row in rows]) if has_index else None
    return Table(np.array(values), labels, None if names is None else tuple(names[has_index:]))


def _rows(text: str) -> list[list[str]]:
    """The cells of each row that is neither empty nor a comment."""
    lines = io.StringIO(text, newline="")  # ends of lines as they are: a cell in quotes may have some
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    lines.seek(0)
    mark = next((mark for mark in ";\t," if mark in first), "")
    if mark:
        try:
            rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=mark)]
        except csv.Error as error:
            raise LrpError(f"a series must be rows of numbers, got one with: {error}.") from None
    else:
        rows = [line.split() for line in text.splitlines()]
    if mark == ";":
        rows = [[cell.replace(",", ".") if not _is_number(cell) else cell for cell in row] for row in rows]
    return [row for row in rows if any(row) and not row[0].startswith("#")]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _number(cell: str, row: int) -> float:
    """One number; what is missing is an error later, and only where the model takes the column."""
    if cell and not _is_number(cell):
        raise LrpError(f"a series must have numbers, got {cell[:60]!r} in row {row}.")
    return float(cell or "nan")


def _labels(cells: Sequence[str]) -> np.ndarray:
    """Dates where all are dates, such as 2020-01-31 10:00; anything else as text."""
    try:
        if all(map(_DATE.fullmatch, cells)):
            return np.array(cells, "M8[s]")
    except ValueError:  # the 31st of February
        pass
    return np.array(cells)
