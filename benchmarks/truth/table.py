"""The common table: methods by columns, each cell a mean over seeds with its 95 % interval; as text and as files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.paper.tables import text, write_csv, write_latex

# The 97.5 % quantile of Student's t for 1, 2, ... degrees of freedom; beyond them by its expansion around the normal.
T_QUANTILE = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
Z = 1.959964


class Cell(NamedTuple):
    """What a method reached, once per seed."""

    values: np.ndarray  # (seeds,) without NaN
    note: str = ""

    @property
    def mean(self) -> float:
        """The mean over seeds; NaN without values."""
        if not len(self.values):
            return np.nan
        return float(self.values.mean())

    @property
    def half(self) -> float:
        """Half the length of the 95 % interval of the mean; NaN for fewer than two seeds."""
        n = len(self.values)
        if n < 2:
            return np.nan
        return float(t_quantile(n - 1) * self.values.std(ddof=1) / np.sqrt(n))

    def __str__(self) -> str:
        if not len(self.values):
            return self.note or "-"
        shown = f"{self.mean:.3f}"
        if len(self.values) > 1:
            shown += f" ± {self.half:.3f}"
        return shown + (f" ({self.note})" if self.note else "")


def t_quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t."""
    if freedom <= len(T_QUANTILE):
        return T_QUANTILE[freedom - 1]
    return Z + (Z**3 + Z) / (4 * freedom) + (5 * Z**5 + 16 * Z**3 + 3 * Z) / (96 * freedom**2)


@dataclass
class Table:
    """Methods by columns. A column named "cost" is an ordinary one."""

    title: str  # its words, joined by hyphens, name the files
    columns: Sequence[str]
    cells: dict[tuple[str, str], Cell] = field(default_factory=dict)

    def add(self, method: str, column: str, values: Sequence[float], note: str = "") -> None:
        """Add the values over seeds of a cell; NaN is left out, and `note` is shown behind the numbers."""
        if column not in self.columns:
            raise ValueError(f"unknown column {column!r} of {self.title!r}; its columns are {', '.join(self.columns)}.")
        found = np.asarray(values, float).reshape(-1)
        self.cells[method, column] = Cell(found[~np.isnan(found)], note)

    @property
    def name(self) -> str:
        """Of the files."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")

    @property
    def methods(self) -> list[str]:
        """The rows, in the order in which they were added."""
        return list(dict.fromkeys(method for method, _ in self.cells))

    @property
    def rows(self) -> list[list[str]]:
        """The cells as text, the method first."""
        empty = Cell(np.zeros(0))
        return [[m, *(str(self.cells.get((m, column), empty)) for column in self.columns)] for m in self.methods]

    def print(self) -> None:
        """Print the table."""
        print(text(self.title, ["method", *self.columns], self.rows))

    def write(self, folder: Path | str) -> None:
        """Write NAME.csv, with one line per cell and seeds in full, NAME.tex and NAME.png."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        lines = []
        for (method, column), cell in self.cells.items():
            low, high = cell.mean - cell.half, cell.mean + cell.half
            every = " ".join(f"{value:.6g}" for value in cell.values)
            lines.append([method, column, cell.mean, low, high, len(cell.values), every, cell.note])
        header = ["method", "column", "mean", "low", "high", "seeds", "values", "note"]
        write_csv(folder / f"{self.name}.csv", header, lines)
        write_latex(folder / f"{self.name}.tex", ["method", *self.columns], [(self.title, self.rows)])
        self._draw(folder / f"{self.name}.png")

    def _draw(self, path: Path) -> None:
        """One panel per column: the mean of each method with its interval."""
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        methods, count = self.methods, len(self.columns)
        size = (2.2 + 1.5 * count, 1.2 + 0.28 * len(methods))
        figure, axes = plt.subplots(1, count, sharey=True, squeeze=False, figsize=size, layout="constrained")
        for axis, column in zip(axes[0], self.columns, strict=True):
            for y, method in enumerate(methods):
                cell = self.cells.get((method, column))
                if cell is not None and len(cell.values):
                    axis.errorbar(cell.mean, y, xerr=np.nan_to_num(cell.half), fmt="o", color="C0", markersize=4)
            axis.set_title(column, fontsize=9)
            axis.grid(axis="x", alpha=0.3)
        axes[0, 0].set_yticks(range(len(methods)), methods)
        axes[0, 0].invert_yaxis()
        figure.suptitle(self.title)
        figure.savefig(path, dpi=130)
        plt.close(figure)
