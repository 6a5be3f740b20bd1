"""A ranking of methods as a table for the terminal, a matplotlib figure, and one self-contained HTML page."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lrpnumpy.evaluate.ranking import COLUMNS, Cells, Ranking
from lrpnumpy.show import html
from lrpnumpy.show.numbers import decimals
from lrpnumpy.show.parts import escape

if TYPE_CHECKING:
    from lrpnumpy.show.canvas import Picture

STYLE = """
.ranking { font: 1rem/1.55 system-ui, sans-serif; color-scheme: light dark }
.ranking table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; margin: .8rem 0 }
.ranking .wide { overflow-x: auto }
.ranking td, .ranking th { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #8886 }
.ranking td { white-space: nowrap }
.ranking h2 { font-size: 1.1rem; margin: 1.4rem 0 0 }
.ranking :is(td, th):first-child { text-align: left }
.ranking .meanings :is(td, th) { text-align: left; white-space: normal; vertical-align: top }
@media (min-width: 45rem) { .ranking .meanings th { white-space: nowrap } }
.ranking .first { background: #2a9d8f2e }
.ranking small { opacity: .8 }
.ranking img { max-width: 100%; background: white; border-radius: .3rem }
""".strip()


UNBEATEN, OTHER = "#2a9d8f", "#6c757d"  # colors of a method that none beats by more than chance, and of the rest
WIDTH = 100  # columns of what an interpreter shows
KNOWN = "On networks whose truth is known (this does not enter the rank)"
NOTE = (
    "* no method is better by more than chance (p < 0.05, paired bootstrap, corrected by Holm); ± is half of a 95 % "
    "interval. A method without a value in a column is not ranked."
)


def number(value: float, places: int = 2) -> str:
    """A value with some decimals; one beyond all measure is shown as such."""
    if np.isnan(value):
        return "-"
    if value >= 1e5:
        return ">1e5"
    if value <= -1e5:
        return "<-1e5"
    return f"{value:.{places}f}"


def _places(cells: Cells) -> int:
    """Decimals of a column: three digits of its largest value, two decimals at the most."""
    usual = cells.value[np.abs(cells.value) < 1e5]
    return min(2, decimals(usual.tolist(), 3))


def _tables(ranking: Ranking) -> list[tuple[str, list[str]]]:
    """Columns measured on the data, and those of networks whose truth is known, which do not enter the rank."""
    known = [name for name in ranking.cells if COLUMNS[name].measure == "truth"]
    on_data = [name for name in ranking.cells if name not in known]
    return [(title, names) for title, names in (("", on_data), (KNOWN, known)) if names]


def rank_text(ranking: Ranking, m: int) -> str:
    """The mean rank of a method, or that it has none."""
    if np.isnan(ranking.mean_rank[m]):
        return "-"
    return f"{ranking.mean_rank[m]:.1f}"


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


def _head(names: Sequence[str], title: str) -> list[str]:
    """The first row of a table; that of the data has the mean rank."""
    heads = ["method", *(COLUMNS[name].title for name in names)]
    if not title:
        heads.insert(1, "mean rank")
    return heads


def _rows(ranking: Ranking, names: Sequence[str], title: str) -> list[list[str]]:
    """A head, and one row for each method: values with half the width of their intervals."""
    rows = [_head(names, title)]
    for m in ranking.order:
        row = [ranking.methods[m]]
        if not title:
            row.append(rank_text(ranking, m))
        for name in names:
            cells, places = ranking.cells[name], _places(ranking.cells[name])
            text, half = number(cells.value[m], places), (cells.high[m] - cells.low[m]) / 2
            if cells.unbeaten[m]:
                text = f"*{text}"
            if not np.isnan(half):
                text += f" ±{number(half, places)}"
            row.append(text)
        rows.append(row)
    return rows


def text(ranking: Ranking) -> str:
    """The advice, the tables, and what their columns mean."""
    lines = [textwrap.fill(ranking.advice, 110), "", _heading(ranking)]
    for title, names in _tables(ranking):
        if title:
            lines += ["", title]
        for block in _blocks(_rows(ranking, names, title), max(80, shutil.get_terminal_size().columns)):
            lines += ["", *block]
    lines += ["", NOTE, ""]
    for name in ranking.cells:
        lines.append(textwrap.fill(f"{_title(name)}: {COLUMNS[name].meaning}", 110, subsequent_indent="    "))
    return "\n".join(lines).lstrip("\n")


def brief(ranking: Ranking) -> str:
    """The advice, and a table of the mean rank and as many columns as fit: what an interpreter shows."""
    title, names = _tables(ranking)[0]
    table = _blocks(_rows(ranking, names, title), WIDTH)[0]
    lines = [textwrap.fill(ranking.advice, WIDTH), "", *table, "", "print() shows all columns and their meaning."]
    return "\n".join(lines)


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
    return f"{column.title} ({'%, ' * column.percent}{column.best} is good)"


def figure(ranking: Ranking) -> Picture:
    """One panel per column, a point and its interval per method; points outside have an arrow and their value."""
    from lrpnumpy.show import canvas

    names, order = [*ranking.cells], ranking.order
    M, across = len(order), min(4, len(names))
    down = -(-len(names) // across)
    picture: Any = canvas.new_picture(3.25 * across, down * (0.24 * M + 0.75))
    axes = picture.subplots(down, across, sharey=True, squeeze=False).ravel()
    for axis, name in zip(axes, names, strict=False):
        column, cells = COLUMNS[name], ranking.cells[name]
        axis.set_xlim(*_limits(cells))
        for y, m in enumerate(order):
            color = UNBEATEN if cells.unbeaten[m] else OTHER
            _draw(axis, y, (cells.low[m], cells.value[m], cells.high[m]), color)
        arrow, note = {"high": "→", "low": "←"}[column.best], ""
        if column.measure == "truth":
            note = "\n(known networks)"
        axis.set_title(f"{column.title}{' %' * column.percent} {arrow}{note}", fontsize=canvas.SMALL)
        canvas.name_rows(axis, [ranking.methods[m] for m in order])
        axis.tick_params(axis="x", labelsize=canvas.TINY)
        axis.grid(axis="x", alpha=0.3)
        axis.axvline(0, color="0.6", lw=0.6)
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
    for is_outside, is_value, edge, mark, side in (
        (min(start, value) < low, value < low, low, "<", "left"),
        (max(stop, value) > high, value > high, high, ">", "right"),
    ):
        if is_outside:
            axis.plot(edge, y, mark, color=color, ms=6, clip_on=False)
        if is_value:
            axis.text(edge, y - 0.25, number(value, min(2, decimals([value], 3))), fontsize="x-small", ha=side)


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


def fragment(ranking: Ranking) -> str:
    """A piece of HTML for a notebook or a page: advice, tables, meanings."""
    tables = ""
    for title, names in _tables(ranking):
        if title:
            tables += f"<h2>{escape(title)}</h2>"
        tables += _table(ranking, names, title)
    meanings = "".join(
        f"<tr><th>{escape(_title(name))}</th><td>{escape(COLUMNS[name].meaning)}</td></tr>" for name in ranking.cells
    )
    return (
        f'<style>{STYLE}</style><div class="ranking"><p><strong>{escape(ranking.advice)}</strong></p>'
        f"<p>{escape(_heading(ranking))}</p>{tables}<p><small>Green: no method is better by more than chance. Small: "
        f'95 % interval of a bootstrap.</small></p><table class="meanings">{meanings}</table></div>'
    )


def _table(ranking: Ranking, names: Sequence[str], title: str) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in _head(names, title))
    rows = ""
    for m in ranking.order:
        rows += f"<tr><td>{escape(ranking.methods[m])}</td>"
        if not title:
            rows += f"<td>{rank_text(ranking, m)}</td>"
        for name in names:
            cells, interval = ranking.cells[name], ""
            value, low, high = (number(row[m], _places(cells)) for row in (cells.value, cells.low, cells.high))
            if not np.isnan(cells.low[m]):
                interval = f" <small>{escape(low)} to {escape(high)}</small>"
            first = ' class="first"' * bool(cells.unbeaten[m])
            rows += f"<td{first}>{escape(value)}{interval}</td>"
        rows += "</tr>"
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def page(ranking: Ranking) -> str:
    """One self-contained page, the figure included."""
    drawn = html.picture(figure(ranking), "every measure with its intervals")
    return html.page([fragment(ranking), f'<div class="ranking">{drawn}</div>'], "Which method to trust")
