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
.ranking :is(td, th):first-child, .ranking dd { text-align: left }
.ranking .first { background: #2a9d8f2e }
.ranking small { opacity: .7 }
.ranking dt { font-weight: 600 }
.ranking img { max-width: 100%; background: white; border-radius: .3rem }
""".strip()


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


def _shown(found: Ranking) -> list[str]:
    return [name for name in found.cells if COLUMNS[name].shown]


def _heading(found: Ranking) -> str:
    about = found.about
    decided = "output" if about["output"] == "linear" else "predicted class"
    explained = "true class" if about["explained"] == "target" else decided
    return (
        f"{len(found.methods)} methods on {about['sequences']} sequences; explained: the {explained}; "
        f"removed: {about['unit']}s ({about['reference']}); seed {about['seed']}"
    )


def text(found: Ranking) -> str:
    """The table, what its columns mean, and the advice."""
    names = _shown(found)
    rows = [["method", "mean rank", *(COLUMNS[name].title for name in names)]]
    for m in found.order:
        cells = [found.cells[name] for name in names]
        marks = ["*" if COLUMNS[n].best and c.unbeaten[m] else "" for n, c in zip(names, cells, strict=True)]
        values = [f"{mark}{number(c.value[m])} {_half(c, m)}".rstrip() for mark, c in zip(marks, cells, strict=True)]
        rows.append([found.methods[m], f"{found.overall[m]:.1f}", *values])
    lines = [_heading(found)]
    for block in _blocks(rows, max(80, shutil.get_terminal_size().columns)):
        lines += ["", *block]
    lines += ["", "* no method is better by more than chance; ± is half of a 95 % interval (bootstrap).", ""]
    for name in names:
        lines.append(textwrap.fill(f"{_title(name)}: {COLUMNS[name].meaning}", 110, subsequent_indent="    "))
    return "\n".join([*lines, "", *(textwrap.fill(f"- {one}", 110, subsequent_indent="  ") for one in found.advice)])


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
    way = {"high": ", high is good", "low": ", low is good", None: ""}[column.best]
    return f"{column.title} ({'%' if column.percent else column.measure}{way})"


def figure(found: Ranking) -> Picture:
    """One panel a column, a point and its interval for each method; below, how alike the methods are."""
    from lrpnumpy.show.canvas import new_picture

    names, order = _shown(found), found.order
    M, across = len(order), 4
    down = -(-len(names) // across)
    tall = 0.24 * M + 0.75
    agrees = found.agreement is not None and M > 1
    picture: Any = new_picture(13, down * tall + (0.3 * M + 1.6 if agrees else 0))
    parts = picture.subfigures(2, 1, height_ratios=[down * tall, 0.3 * M + 1.6]) if agrees else [picture]
    axes = parts[0].subplots(down, across, sharey=True, squeeze=False).ravel()
    labels = [found.methods[m] for m in order]
    for axis, name in zip(axes, names, strict=False):
        column, cells = COLUMNS[name], found.cells[name]
        for y, m in enumerate(order):
            best = column.best is not None and cells.unbeaten[m]
            color = "#2a9d8f" if best else "#6c757d"
            axis.plot([cells.low[m], cells.high[m]], [y, y], color=color, lw=1.6)
            axis.plot(cells.value[m], y, "o", color=color, ms=4)
        way = {"high": " →", "low": " ←", None: ""}[column.best]
        axis.set_title(f"{column.title}{' %' if column.percent else ''}{way}", fontsize=9)
        axis.set_xlim(*_limits(cells))
        axis.set_yticks(range(M), labels, fontsize=8)
        axis.tick_params(axis="x", labelsize=7)
        axis.grid(axis="x", alpha=0.3)
        axis.axvline(0, color="0.6", lw=0.6)
    axes[0].invert_yaxis()
    for axis in axes[len(names) :]:
        axis.set_visible(False)
    if agrees:
        values: Any = np.asarray(found.agreement)[np.ix_(order, order)]
        axis = parts[1].subplots()
        image = axis.imshow(values, cmap="RdBu_r", vmin=-1, vmax=1)
        axis.set_xticks(range(M), labels, fontsize=8, rotation=30, ha="right")
        axis.set_yticks(range(M), labels, fontsize=8)
        axis.set_title("rank correlation of the methods", fontsize=9)
        parts[1].colorbar(image, ax=axis)
    return picture


def _limits(cells: Cells) -> tuple[float, float]:
    """Of an axis: what lies far beyond most of the values does not squeeze them."""
    ends = np.concatenate([cells.value, cells.low, cells.high])
    ends = ends[np.isfinite(ends)]
    if not len(ends):
        return 0.0, 1.0
    middle = float(np.median(abs(cells.value[np.isfinite(cells.value)])))
    low, high = max(float(ends.min()), -10 * middle - 1e-9), min(float(ends.max()), 10 * middle + 1e-9)
    pad = 0.06 * (high - low) or 1.0
    return min(low, 0.0) - pad, high + pad


def fragment(found: Ranking) -> str:
    """A piece of HTML for a notebook or a page: table, meanings, advice, ledger."""
    advice = "".join(f"<li>{escape(one)}</li>" for one in found.advice)
    meanings = "".join(
        f"<dt>{escape(_title(name))}</dt><dd>{escape(COLUMNS[name].meaning)}</dd>" for name in _shown(found)
    )
    hidden = [name for name in found.cells if not COLUMNS[name].shown]
    ledger = f"<h2>Where the rest of the score is, in %</h2>{_table(found, hidden)}" if hidden else ""
    return (
        f'<style>{STYLE}</style><div class="ranking"><p>{escape(_heading(found))}</p><ul>{advice}</ul>'
        f"{_table(found, _shown(found))}<p><small>Green: no method is better by more than chance. Small: the 95 % "
        "interval of a bootstrap over the sequences, or for true steps, values and features over the networks."
        f"</small></p><dl>{meanings}</dl>{ledger}</div>"
    )


def _table(found: Ranking, names: Sequence[str]) -> str:
    head = "".join(f"<th>{escape(one)}</th>" for one in ("method", "mean rank", *(COLUMNS[n].title for n in names)))
    rows = []
    for m in found.order:
        cells = []
        for name in names:
            one = found.cells[name]
            first = ' class="first"' if COLUMNS[name].best and one.unbeaten[m] else ""
            ends = "" if np.isnan(one.low[m]) else f" <small>{number(one.low[m])} to {number(one.high[m])}</small>"
            cells.append(f"<td{first}>{escape(number(one.value[m]))}{ends}</td>")
        rows.append(f"<tr><td>{escape(found.methods[m])}</td><td>{found.overall[m]:.1f}</td>{''.join(cells)}</tr>")
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def page(found: Ranking) -> str:
    """One self-contained page, the figure included."""
    drawn = html.picture(figure(found), "every measure with its intervals")
    return html.page([fragment(found), f'<div class="ranking">{drawn}</div>'], "Which method to trust")
