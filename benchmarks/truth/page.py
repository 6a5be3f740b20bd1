"""The tables of docs/truth-results.md, from the CSV files of a run: `python -m benchmarks.truth page --out results`.

The first table is a summary: methods by benchmarks with the mean, the rank of each method and the mean rank.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.truth.table import Cell
from lrpnumpy.methods import METHODS

Cells = dict[tuple[str, str], Cell]  # (method, column)
SHORTCUTS = [
    f"shortcuts-{kind}-{network}.csv"
    for kind in ("single-token", "ordered-pair", "token-in-context")
    for network in ("bi-lstm", "gru")
]


class Source(NamedTuple):
    """A column of the summary: the mean of a column over files; larger is better."""

    title: str
    files: Sequence[str]
    column: str


SUMMARY = (
    Source("State, GRU: AUROC", ["state-gru.csv"], "AUROC"),
    Source("State, LSTM: AUROC", ["state-lstm.csv"], "AUROC"),
    Source("Boxes, 5 units: AUPR", ["boxes-5-units.csv"], "AUPR"),
    Source("Boxes, 32 units: AUPR", ["boxes-32-units.csv"], "AUPR"),
    Source("Shortcuts: top k", SHORTCUTS, "top k"),
    Source("Programs: steps", ["programs-steps.csv"], "all"),
    Source("Programs: values", ["programs-values.csv"], "all"),
)
HEADER = """# Benchmarks with a known truth: results

Written by `python -m benchmarks.truth page`; [truth.md](truth.md) explains the benchmarks and the columns. Cells are
means over seeds with 95 % intervals. Rows that begin with "published" are numbers of other papers.

## Summary

Means, and in brackets the rank among the methods here; the mean rank is over the columns that a method has.
"""
NAMES = (*METHODS, "random")  # the rows of the summary


def read(path: Path) -> Cells:
    """The cells of a table that `Table.write` wrote."""
    with path.open(newline="", encoding="utf-8") as file:
        return {
            (row["method"], row["column"]): Cell(np.array(row["values"].split(), float), row["note"])
            for row in csv.DictReader(file)
        }


def ranked(values: dict[str, float]) -> dict[str, float]:
    """1 for the largest value; ties share their mean rank."""
    numbers = np.array(list(values.values()))
    return {name: float((numbers > value).sum() + ((numbers == value).sum() + 1) / 2) for name, value in values.items()}


def summary(folder: Path) -> list[str]:
    """Lines of the table of methods by benchmarks."""
    columns = {}
    for source in SUMMARY:
        found = [read(folder / name) for name in source.files if (folder / name).exists()]
        means: dict[str, float] = {}
        for method in NAMES:
            some = [cells[method, source.column].mean for cells in found if (method, source.column) in cells]
            if found and len(some) == len(found):
                means[method] = float(np.mean(some))
        if means:
            columns[source.title] = means
    ranks = {title: ranked(means) for title, means in columns.items()}
    mean_rank = {name: [ranks[title][name] for title in columns if name in ranks[title]] for name in NAMES}
    order = sorted((name for name in NAMES if mean_rank[name]), key=lambda name: np.mean(mean_rank[name]))
    rows = []
    for name in order:
        cells = [f"{m[name]:.3f} ({ranks[title][name]:g})" if name in m else "-" for title, m in columns.items()]
        rows.append([name, f"{np.mean(mean_rank[name]):.1f}", *cells])
    return table(["method", "mean rank", *columns], rows)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table in Markdown."""
    lines = ["| " + " | ".join(header) + " |", "| --- |" + " ---: |" * (len(header) - 1)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


def write(folder: Path) -> None:
    """Write truth-results.md, with every table in the folder."""
    lines = [HEADER, *summary(folder)]
    for path in sorted(folder.glob("*.csv")):
        cells = read(path)
        columns = list(dict.fromkeys(column for _, column in cells))
        methods = dict.fromkeys(method for method, _ in cells)
        rows = [[m, *(str(cells[m, c]) if (m, c) in cells else "-" for c in columns)] for m in methods]
        lines += [f"## {path.stem}", "", *table(["method", *columns], rows)]
    (folder / "truth-results.md").write_text("\n".join(lines).rstrip() + "\n", "utf-8")
