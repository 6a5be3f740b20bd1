"""A ranking of methods as a table for the terminal, a matplotlib figure, and one self-contained HTML page."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lrpnumpy.evaluate.ranking import COLUMNS, Cells, Ranking
from lrpnumpy.show import html
from lrpnumpy.show.parts import escape

if TYPE_CHECKING:
    from lrpnumpy.show.canvas import Picture

STYLE = """
.ranking { font: 1rem/1.55 system-ui, sans-serif; color-scheme: light dark }
.ranking table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; margin: .8rem 0 }
.ranking .wide { overflow-x: auto }
.ranking td, .ranking th { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #8886 }
.ranking td { white-space: nowrap }
.ranking :is(td, th):first-child { text-align: left }
.ranking .meanings :is(td, th) { text-align: left; white-space: normal; vertical-align: top }
.ranking .first { background: #2a9d8f2e }
.ranking small { opacity: .8 }
.ranking img { max-width: 100%; background: white; border-radius: .3rem }
""".strip()


WIDTH = 100  # columns of what an interpreter shows
KNOWN = "On networks whose truth is known (this does not enter the rank)"
NOTE = (
    "* no method is better by more than chance (p < 0.05, paired bootstrap, corrected by Holm); ± is half of a 95 % "
    "interval. A method without a value in a column is not ranked."
)


def number(value: float) -> str:
    """Three digits; what is beyond all measure is said so."""
    if np.isnan(value):
        return "-"
    if abs(value) >= 1e5:
        return ">1e5" if value > 0 else "<-1e5"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _half(cells: Cells, m: int) -> str:
    """Half the width of the interval."""
    width = (cells.high[m] - cells.low[m]) / 2
    return "" if np.isnan(width) else f"±{number(width)}"


def _tables(found: Ranking) -> dict[str, list[str]]:
    """Columns measured on the data, and those of networks whose truth is known, which do not enter the rank."""
    on_data = [name for name in found.cells if COLUMNS[name].measure != "truth"]
    return {"": on_data, KNOWN: [name for name in found.cells if COLUMNS[name].measure == "truth"]}


def rank_text(found: Ranking, m: int) -> str:
    """The mean rank of a method, or that it has none."""
    return "-" if np.isnan(found.mean_rank[m]) else f"{found.mean_rank[m]:.1f}"


def _heading(found: Ranking) -> str:
    about = found.about
    decided = "output" if about["output"] == "linear" else "predicted class"
    explained = "given class" if about["explained"] == "target" else decided
    return (
        f"{len(found.methods)} methods on {about['sequences']} sequences; explained: the {explained}; "
        f"removed: {', '.join(about['units'])} ({about['reference']})"
    )


def _rows(found: Ranking, names: Sequence[str]) -> list[list[str]]:
    """A head, and one row for each method."""
    rows = [["method", *(COLUMNS[name].title for name in names)]]
    for m in found.order:
        values = []
        for name in names:
            cells = found.cells[name]
            mark = "*" if cells.unbeaten[m] else ""
            values.append(f"{mark}{number(cells.value[m])} {_half(cells, m)}".rstrip())
        rows.append([found.methods[m], *values])
    return rows


def text(found: Ranking) -> str:
    """The advice, the tables, and what their columns mean."""
    lines = [textwrap.fill(found.advice, 110), "", _heading(found)]
    for title, names in _tables(found).items():
        if not names:
            continue
        rows = _rows(found, names)
        if title:
            lines += ["", title]
        else:
            for row, rank in zip(rows, ["mean rank", *(rank_text(found, m) for m in found.order)], strict=True):
                row.insert(1, rank)
        for block in _blocks(rows, max(80, shutil.get_terminal_size().columns)):
            lines += ["", *block]
    lines += ["", NOTE, ""]
    for name in found.cells:
        lines.append(textwrap.fill(f"{_title(name)}: {COLUMNS[name].meaning}", 110, subsequent_indent="    "))
    return "\n".join(lines).lstrip("\n")


def brief(found: Ranking) -> str:
    """The advice, and a table of the mean rank and as many columns as fit: what an interpreter shows."""
    rows = _rows(found, _tables(found)[""])
    for row, rank in zip(rows, ["mean rank", *(rank_text(found, m) for m in found.order)], strict=True):
        row.insert(1, rank)
    first = _blocks(rows, WIDTH)[0]
    return "\n".join(
        [textwrap.fill(found.advice, WIDTH), "", *first, "", "print() shows all columns and their meaning."]
    )


def _blocks(rows: list[list[str]], width: int) -> list[list[str]]:
    """The table as lines, in blocks of columns that are not wider than this; each begins with the names."""
    widths = [max(len(row[k]) for row in rows) + 2 for k in range(len(rows[0]))]
    blocks: list[list[int]] = [[]]
    for k in range(1, len(widths)):
        if blocks[-1] and widths[0] + sum(widths[j] for j in [*blocks[-1], k]) > width:
            blocks.append([])
        blocks[-1].append(k)
    return [
        [row[0].ljust(widths[0] - 2) + "".join(row[k].rjust(widths[k]) for k in block) for row in rows]
        for block in blocks
    ]


def _title(name: str) -> str:
    column = COLUMNS[name]
    return f"{column.title} ({'%, ' if column.percent else ''}{column.best} is good)"


def figure(found: Ranking) -> Picture:
    """One panel per column, a point and its interval per method; points outside have an arrow and their value."""
    from lrpnumpy.show.canvas import new_picture

    names, order = [*found.cells], found.order
    M, across = len(order), 4
    down = -(-len(names) // across)
    picture: Any = new_picture(13, down * (0.24 * M + 0.75))
    axes = picture.subplots(down, across, sharey=True, squeeze=False).ravel()
    for axis, name in zip(axes, names, strict=False):
        column, cells = COLUMNS[name], found.cells[name]
        low, high = _limits(cells)
        axis.set_xlim(low, high)
        for y, m in enumerate(order):
            color = "#2a9d8f" if cells.unbeaten[m] else "#6c757d"
            _draw(axis, y, (cells.low[m], cells.value[m], cells.high[m]), color)
        way = {"high": " →", "low": " ←"}[column.best]
        known = " (known networks)" if column.measure == "truth" else ""
        axis.set_title(f"{column.title}{' %' if column.percent else ''}{way}{known}", fontsize=9)
        axis.set_yticks(range(M), [found.methods[m] for m in order], fontsize=8)
        axis.tick_params(axis="x", labelsize=7)
        axis.grid(axis="x", alpha=0.3)
        axis.axvline(0, color="0.6", lw=0.6)
    axes[0].invert_yaxis()
    for axis in axes[len(names) :]:
        axis.set_visible(False)
    return picture


def _draw(axis: Any, y: int, ends: tuple[float, float, float], color: str) -> None:
    """A value with its interval; where an end lies outside of the axes an arrow points to it, with its value."""
    low, high = axis.get_xlim()
    start, value, stop = ends
    if np.isfinite([start, stop]).all():
        axis.plot(np.clip([start, stop], low, high), [y, y], color=color, lw=1.6)
    if low <= value <= high:
        axis.plot(value, y, "o", color=color, ms=4)
    for end, edge, mark, side in ((start, low, "<", "left"), (stop, high, ">", "right"), (value, low, "<", "left"),
                                  (value, high, ">", "right")):  # fmt: skip
        if (end < low and mark == "<") or (end > high and mark == ">"):
            axis.plot(edge, y, mark, color=color, ms=6, clip_on=False)
            if end is value:
                axis.text(edge, y - 0.25, number(value), fontsize=6, ha=side)


def _limits(cells: Cells) -> tuple[float, float]:
    """Of an axis: values far beyond most of the others do not squeeze them; they are marked."""
    ends = np.concatenate([cells.value, cells.low, cells.high])
    ends = ends[np.isfinite(ends)]
    if not len(ends):
        return 0.0, 1.0
    middle = float(np.median(abs(cells.value[np.isfinite(cells.value)])))
    low, high = max(float(ends.min()), -10 * middle - 1e-9), min(float(ends.max()), 10 * middle + 1e-9)
    pad = 0.06 * (high - low) or 1.0
    return min(low, 0.0) - pad, high + pad


def fragment(found: Ranking) -> str:
    """A piece of HTML for a notebook or a page: advice, tables, meanings."""
    tables = ""
    for title, names in _tables(found).items():
        if names:
            tables += (f"<h2>{escape(title)}</h2>" if title else "") + _table(found, names, not title)
    meanings = "".join(
        f"<tr><th>{escape(_title(name))}</th><td>{escape(COLUMNS[name].meaning)}</td></tr>" for name in found.cells
    )
    return (
        f'<style>{STYLE}</style><div class="ranking"><p><strong>{escape(found.advice)}</strong></p>'
        f"<p>{escape(_heading(found))}</p>{tables}<p><small>Green: no method is better by more than chance. Small: the "
        f'95 % interval of a bootstrap.</small></p><table class="meanings">{meanings}</table></div>'
    )


def _table(found: Ranking, names: Sequence[str], ranked: bool) -> str:
    heads = ["method", *(["mean rank"] if ranked else []), *(COLUMNS[name].title for name in names)]
    head = "".join(f"<th>{escape(one)}</th>" for one in heads)
    rows = []
    for m in found.order:
        cells = [f"<td>{rank_text(found, m)}</td>"] if ranked else []
        for name in names:
            one = found.cells[name]
            first = ' class="first"' if one.unbeaten[m] else ""
            ends = "" if np.isnan(one.low[m]) else f" <small>{number(one.low[m])} to {number(one.high[m])}</small>"
            cells.append(f"<td{first}>{escape(number(one.value[m]))}{ends}</td>")
        rows.append(f"<tr><td>{escape(found.methods[m])}</td>{''.join(cells)}</tr>")
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def page(found: Ranking) -> str:
    """One self-contained page, the figure included."""
    drawn = html.picture(figure(found), "every measure with its intervals")
    return html.page([fragment(found), f'<div class="ranking">{drawn}</div>'], "Which method to trust")
