"""Tables of the paper beside ours: the published figures, and rows to the terminal, CSV and LaTeX."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PUBLISHED: dict[str, Any] = json.loads((Path(__file__).parent / "published.json").read_text("utf-8"))
NAMES = {
    "gradient": "Gradient",
    "gradient-x-input": "Gradient×Input",
    "occlusion-f": "Occlusion f-diff",
    "occlusion-p": "Occlusion P-diff",
    "lrp-prop": "LRP-prop",
    "lrp-abs": "LRP-abs",
    "lrp-half": "LRP-half",
    "lrp-all": "LRP-all",
    "cd": "CD",
    "deeplift": "DeepLIFT",
    "integrated-gradients": "Integrated gradients",
    "shapley": "Shapley",
}

Rows = Sequence[Sequence[str]]
LISTENERS: list[Callable[[str, Sequence[str], Rows], None]] = []  # get every table that is shown: the report
_TEX = {
    "×": r"$\times$",
    "%": r"\%",
    "ρ": r"$\rho$",
    "“": "``",
    "”": "''",
    "_": r"\_",
    "Θ": r"$\Theta$",
    "²": r"$^2$",
    "∇": r"$\nabla$",
    "ᵀ": r"$^T$",
}


def show(title: str, header: Sequence[str], rows: Rows) -> None:
    """Print a table."""
    for listen in LISTENERS:
        listen(title, header, rows)
    print(text(title, header, rows))


def text(title: str, header: Sequence[str], rows: Rows) -> str:
    """A table as lines, columns as wide as they must be."""
    widths = [max(len(row[k]) for row in (header, *rows)) for k in range(len(header))]
    lines = [title]
    for row in (header, *rows):
        first, *rest = row
        cells = [first.ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(rest, widths[1:], strict=True))]
        lines.append("  ".join(cells))
    return "\n".join([*lines, ""])


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Write rows as CSV, numbers in full."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def write_latex(path: Path, header: Sequence[str], blocks: Sequence[tuple[str, Rows]]) -> None:
    """Write a tabular with a heading above each block of rows."""
    columns = len(header)
    lines = [rf"\begin{{tabular}}{{l{'r' * (columns - 1)}}}", r"\toprule", _row(header)]
    for title, rows in blocks:
        lines += [r"\midrule", rf"\multicolumn{{{columns}}}{{l}}{{{_tex(title)}}} \\", *map(_row, rows)]
    path.write_text("\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""]), "utf-8")


def _row(cells: Sequence[str]) -> str:
    return " & ".join(map(_tex, cells)) + r" \\"


def _tex(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in text)
