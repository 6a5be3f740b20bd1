"""A series of numbers from the text of a CSV file: with or without names of columns, with or without dates."""

from __future__ import annotations

import csv
import re

import numpy as np

from lrpnumpy.checks import LrpError
from lrpnumpy.tables import Table

MOST_CELLS = 200_000
_BLANKS = re.compile(r"[ \t]+")


def read_csv(text: str) -> Table:
    """The columns of numbers; the first column that is none gives the steps their labels.

    Cells stand between commas, semicolons, tabs or blanks. A first line without any number names the columns. With
    semicolons a comma in a number is its point.
    """
    lines = [line for line in text.removeprefix("\ufeff").splitlines() if line.strip()]
    if not lines:
        raise LrpError("a series must have at least one line of numbers, got an empty text.")
    mark = next((one for one in ";\t," if one in lines[0]), " ")
    if mark == " ":
        rows = [_BLANKS.split(line.strip()) for line in lines]
    else:
        try:
            rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=mark)]
        except csv.Error as error:
            raise LrpError(f"a series must be lines of numbers between commas, got a line with: {error}.") from None
    if mark == ";":
        rows = [[cell.replace(",", ".") if _number(cell) is None else cell for cell in row] for row in rows]
    width = len(rows[0])
    if width * len(rows) > MOST_CELLS:
        raise LrpError(f"a series must have at most {MOST_CELLS:,} numbers, got {width * len(rows):,}.")
    for k, row in enumerate(rows, 1):
        if len(row) != width:
            raise LrpError(
                f"a series must have as many numbers in each line, got {width} in the first, {len(row)} in line {k}."
            )
    names = rows.pop(0) if all(_number(cell) is None for cell in rows[0]) and len(rows) > 1 else None
    columns = list(zip(*rows, strict=True))
    numeric = [d for d in range(width) if any(_number(cell) is not None for cell in columns[d])]
    texts = [d for d in range(width) if d not in numeric]
    if not numeric:
        raise LrpError(f"a series must have at least one column of numbers, got {lines[0][:60]!r}.")
    values = np.array([[_value(cell, k, d, names) for k, cell in enumerate(columns[d], 1)] for d in numeric]).T
    return Table(
        values,
        _labels(columns[texts[0]]) if texts else None,
        None if names is None else tuple(names[d] for d in numeric),
    )


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _value(cell: str, row: int, column: int, names: list[str] | None) -> float:
    """One number; what is missing is an error later, and only where the model takes the column."""
    found = _number(cell or "nan")
    if found is None:
        where = f"column {column + 1}" if names is None else f"column {names[column][:60]!r}"
        raise LrpError(f"a series must have numbers in {where}, got {cell[:60]!r} in row {row}.")
    return found


def _labels(cells: tuple[str, ...]) -> np.ndarray:
    """Dates, where all of them are, else the texts."""
    try:
        return np.array([cell.replace(" ", "T") for cell in cells], "datetime64")
    except ValueError:
        return np.array(cells, str)
