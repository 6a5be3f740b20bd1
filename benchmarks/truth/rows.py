"""Rows of results, one for each method and network, and the tables made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.truth.table import Table

Rows = dict[str, dict[str, Any]]  # of one network: method -> column -> value; or {"note": why there is none}


def filled(title: str, columns: Sequence[str], results: Sequence[Rows]) -> Table:
    """A table with the values of all networks; a method that failed has a note in its first column."""
    table = Table(title, columns)
    for method in dict.fromkeys(name for rows in results for name in rows):
        some = [rows[method] for rows in results if method in rows]
        notes = [row["note"] for row in some if "note" in row]
        for column in columns:
            values = [row[column] for row in some if column in row]
            note = notes[0] if notes and not values and column == columns[0] else ""
            if values or note:
                table.add(method, column, values, note)
    return table
