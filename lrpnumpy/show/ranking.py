"""A ranking of methods as a table for the terminal, a matplotlib figure, and one self-contained HTML page."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from lrpnumpy.evaluate.ranking import COLUMNS, Cells, Ranking
from lrpnumpy.show import html
from lrpnumpy.show.color import decimals
from lrpnumpy.show.parts import escape

if TYPE_CHECKING:
    from lrpnumpy.show.canvas import Picture

UNBEATEN, OTHER = "#2a9d8f", "#6c757d"  # colors of a method that none beats by more than chance, and of the rest
WIDTH = 100  # columns of what an interpreter shows
ARROWS = {"high": "→", "low": "←"}  # where good values are
FAR = 1000  # an axis with larger values is logarithmic beyond a tenth of it
KNOWN = "On networks whose truth is known (this does not enter the rank)"
NOTE = (
    "* no method is better by more than chance (p < 0.05, paired bootstrap, corrected by Holm); ± is half of a 95 % "
    "interval. A method without a value in a column is not ranked."
)


def number(value: float, places: int = 2) -> str:
    """A value with some decimals; one beyond all measure is shown as such."""
    if np.isnan(value):
        return "-"
    if abs(value) >= 1e5:
        return ">1e5" if value > 0 else "<-1e5"
    return f"{value:.{places}f}"


def _places(cells: Cells) -> int:
    """Decimals of a column: three digits of its largest value, two decimals at the most."""
    usual = cells.value[np.abs(cells.value) < 1e5]
    return min(2, decimals(usual.tolist(), 3))


def rank_text(ranking: Ranking, m: int) -> str:
    """The mean rank of a method, or that it has none."""
    return number(ranking.mean_rank[m], 1)


def _heading(ranking: Ranking) -> str:
    about, explained = ranking.about, "predicted class"
    if about["output"] == "linear":
        explained = "output"
    if about["explained"] == "target":
        explained = "given class"
    return (
        f"{len(ranking.methods)} methods on {about['sequences']} sequences; explained: the {explained}; "
        f"removed: {', '.join(about['units'])} ({about['reference']})"
    )


def _tables(ranking: Ranking) -> list[tuple[str, list[list[str]]]]:
    """Titles and rows of two tables: columns measured on the data, and those of networks whose truth is known.

    The first row is the head, the others are of one method each: values with half the width of their intervals.
    """
    order = ranking.order
    on_data = [["method", *(ranking.methods[m] for m in order)], ["mean rank", *(rank_text(ranking, m) for m in order)]]
    known = on_data[:1]
    for name, cells in ranking.cells.items():
        places, texts = _places(cells), [COLUMNS[name].title]
        for m in order:
            text, half = number(cells.value[m], places), (cells.high[m] - cells.low[m]) / 2
            if cells.unbeaten[m]:
                text = f"*{text}"
            if not np.isnan(half):
                text += f" ±{number(half, places)}"
            texts.append(text)
        if COLUMNS[name].measure == "truth":
            known = [*known, texts]
        else:
            on_data.append(texts)
    tables = [("", on_data), (KNOWN, known)]
    return [(title, [*map(list, zip(*columns, strict=True))]) for title, columns in tables if len(columns) > 1]


def text(ranking: Ranking) -> str:
    """The advice, the tables, and what their columns mean."""
    lines = [textwrap.fill(ranking.advice, 110), "", _heading(ranking)]
    for title, rows in _tables(ranking):
        if title:
            lines += ["", title]
        for block in _blocks(rows, max(80, shutil.get_terminal_size().columns)):
            lines += ["", *block]
    lines += ["", NOTE, ""]
    for title, meaning in _meanings(ranking):
        lines.append(textwrap.fill(f"{title}: {meaning}", 110, subsequent_indent="    "))
    return "\n".join(lines).lstrip("\n")


def brief(ranking: Ranking) -> str:
    """The advice, and a table of the mean rank and as many columns as fit: what an interpreter shows."""
    table = _blocks(_tables(ranking)[0][1], WIDTH)[0]
    lines = [textwrap.fill(ranking.advice, WIDTH), "", *table, "", "print() shows all columns and their meaning."]
    return "\n".join(lines)


def _blocks(rows: list[list[str]], width: int) -> list[list[str]]:
    """The table as lines, in blocks of columns that are not wider than this; each begins with the names."""
    first, *others = zip(*rows, strict=True)
    names = [name.ljust(max(map(len, first))) for name in first]
    blocks: list[list[str]] = []
    for column in others:
        size = max(map(len, column)) + 2
        if not blocks or len(blocks[-1][0]) + size > width:
            blocks.append(names)
        blocks[-1] = [line + cell.rjust(size) for line, cell in zip(blocks[-1], column, strict=True)]
    return blocks


def _meanings(ranking: Ranking) -> list[tuple[str, str]]:
    """The title of each column with what is good, and what it means."""
    columns = [COLUMNS[name] for name in ranking.cells]
    return [(f"{one.title} ({'%, ' * one.percent}{one.best} is good)", one.meaning) for one in columns]


def figure(ranking: Ranking) -> Picture:
    """One panel per column, a point and its interval per method; an axis with far values is logarithmic there."""
    from lrpnumpy.show import canvas

    names, order = [*ranking.cells], ranking.order
    across = min(4, len(names))
    down = -(-len(names) // across)
    picture: Any = canvas.new_picture(3.25 * across, down * (0.24 * len(order) + 0.75))
    axes = picture.subplots(down, across, sharey=True, squeeze=False).ravel()
    for axis, name in zip(axes, names, strict=False):
        column, cells = COLUMNS[name], ranking.cells[name]
        value, low, high = (part[order] for part in (cells.value, cells.low, cells.high))
        colors = np.where(cells.unbeaten[order], UNBEATEN, OTHER)
        if np.nan_to_num(abs(value)).max() > FAR:
            axis.set_xscale("symlog", linthresh=FAR / 10)
        axis.hlines(range(len(order)), low, high, colors, lw=1.6)
        axis.scatter(value, range(len(order)), s=16, c=colors)
        axis.axvline(0, color="0.6", lw=0.6)
        title = f"{column.title}{' %' * column.percent} {ARROWS[column.best]}"
        if column.measure == "truth":
            title += "\n(known networks)"
        axis.set_title(title, fontsize=canvas.SMALL)
        canvas.name_rows(axis, [ranking.methods[m] for m in order])
        axis.tick_params(axis="x", labelsize=canvas.TINY)
        axis.grid(axis="x", alpha=0.3)
    for axis in axes[len(names) :]:
        axis.set_visible(False)
    return picture


def fragment(ranking: Ranking) -> str:
    """A piece of HTML for a notebook or a page: advice, tables, meanings."""
    (_, first), *others = _tables(ranking)
    pieces = [html.table(ranking.advice, first[0], first[1:], NOTE, f"<p>{escape(_heading(ranking))}</p>")]
    pieces += [html.table(title, rows[0], rows[1:]) for title, rows in others]
    return "".join([*pieces, html.table("What the columns mean", ("column", "meaning"), _meanings(ranking))])


def page(ranking: Ranking) -> str:
    """One self-contained page, the figure included."""
    drawn = html.picture(figure(ranking), "every measure with its intervals")
    return html.page([fragment(ranking), drawn], "Which method to trust")
