"""Pictures of one explanation of words: colored sentences; and the bar of a ledger."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from lrpnumpy.checks import LrpError
from lrpnumpy.ledgers import Ledger, ReferenceLedger
from lrpnumpy.meant import door
from lrpnumpy.protocol import Comparison
from lrpnumpy.result import Explanation
from lrpnumpy.show.canvas import (
    NEUTRAL,
    SMALL,
    axes_for,
    figure_of,
    font_scale,
    line_color,
    new_picture,
    set_title,
    unit_label,
)
from lrpnumpy.show.color import ink, rgb
from lrpnumpy.show.parts import condensed, notes, word_shares
from lrpnumpy.show.terminal import title as title_of

WORD = 11  # points, where the font of the style has 10
LINE, HEAD = 0.32, 0.22  # inches from one line of words, or of titles, to the next, likewise


def _each(items: Any, room: int, title: str | None) -> list[tuple[list[str], Explanation]]:
    """One explanation of one class after the other, each with its title and evidence; and each of its inputs.

    Heads are lines of at most `room` characters; `title` is that of the first.
    """
    every = [items] if isinstance(items, Explanation) else list(items)
    single = [one for e in every for one in e.each_class]
    several = len({e.method for e in single}) == len(single) > 1
    found = []
    for k, e in enumerate(single):
        head = e.method if several and k else title_of(e)
        if title is not None and not k:
            head = title
        lines = [head, *notes(e).splitlines()]
        found.append(([part for line in lines for part in textwrap.wrap(line, room)], condensed(e)))
        found += [([f"input {name!r}"], condensed(e.of_input(name))) for name in [*e.inputs][1:]]
    return found


@door
def right_to_left(words: Sequence[str]) -> bool:
    """Whether most letters of some `words` are of a script that is written from right to left."""
    kinds = [unicodedata.bidirectional(c) for word in words for c in word]
    return sum(kind in ("R", "AL") for kind in kinds) > sum(kind == "L" for kind in kinds)


@door
def sentence(
    items: Explanation | Comparison | Sequence[Explanation],
    ax: Axes | None = None,
    width: float = 8.0,
    title: str | None = None,
) -> Figure:
    """Words on the colors of their relevance; several explanations, `items`, below each other, each with its title."""
    inches = width if ax is None else _inches(ax)[0]
    room = max(24, int((inches - 0.3) * 72 / (0.55 * (WORD - 2) * font_scale())))
    return drawn(_each(items, room, title), ax, width)


def _inches(ax: Axes) -> tuple[float, float]:
    """Width and height of axes."""
    box = ax.get_window_extent()
    return box.width / figure_of(ax).dpi, box.height / figure_of(ax).dpi


def drawn(every: Sequence[tuple[list[str], Explanation]], ax: Axes | None, width: float) -> Figure:
    """The words of several explanations below each other, each below the lines of its title. Places are in inches."""
    size = font_scale()
    if ax is not None:
        width, height = _inches(ax)
    probe = new_picture(width, 1, "none")
    lines = [_lines(probe, e, width - 0.3) for _, e in every]
    if ax is None:
        height = 0.1 + 0.18 * len(every)
        for (head, _), block in zip(every, lines, strict=True):
            height += HEAD * len(head) + LINE * len(block)
        ax = new_picture(width, height, "none").add_axes((0, 0, 1, 1))
        height *= size
    ax.set_axis_off()
    ax.set_xlim(0, width)
    ax.set_ylim(0, height)
    y, line_height = height - 0.1 * size, LINE * size
    for (head, e), block in zip(every, lines, strict=True):
        for text in head:
            ax.text(0.15, y - 0.8 * HEAD * size, text, fontsize=(WORD - 2) * size, parse_math=False)
            y -= HEAD * size
        y -= 0.06 * size
        shares, mirrored = word_shares(e), right_to_left(e.tokens or ())
        for line in block:
            y -= line_height
            for t, x, wide in line:
                left = width - x - wide if mirrored else x
                _word(ax, e.shown(t), float(shares[t]), (left, y), wide)
        y -= 0.12 * size
    return figure_of(ax)


def _lines(figure: Figure, e: Explanation, room: float) -> list[list[tuple[int, float, float]]]:
    """Lines of (position, left edge, width) in inches: words measured and wrapped."""
    renderer: Any = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    lines: list[list[tuple[int, float, float]]] = [[]]
    x = 0.15
    for t in range(len(e)):
        text = figure.text(0, 0, e.shown(t), fontsize=WORD * font_scale(), parse_math=False)
        size = text.get_window_extent(renderer).width / figure.dpi + 0.1
        text.remove()
        if lines[-1] and x + size > room + 0.15:
            lines.append([])
            x = 0.15
        lines[-1].append((t, x, size))
        x += size + 0.03
    return lines


def _word(ax: Axes, word: str, share: float, place: tuple[float, float], wide: float) -> None:
    x, y = place
    back, size = rgb(share), font_scale()
    color = tuple(v / 255 for v in back)
    high = (LINE - 0.06) * size
    ax.add_patch(FancyBboxPatch((x, y + 0.02), wide, high, boxstyle="square,pad=0", linewidth=0, facecolor=color))
    front = tuple(v / 255 for v in ink(back))
    middle = y + LINE * size / 2 - 0.01
    ax.text(x + wide / 2, middle, word, fontsize=WORD * size, color=front, ha="center", va="center", parse_math=False)


@door
def ledger(e: Explanation, ax: Axes | None = None, width: float = 8.0, title: str | None = None) -> Figure:
    """Where the score of `e` went: one bar, positive entries to the right of zero and negative ones to the left."""
    if e.target == "all" or not isinstance(e.ledger, (Ledger, ReferenceLedger)):
        raise LrpError("ledger: pass an explanation of one class by LRP, or by a method with a reference.")
    ax = axes_for(ax, width, 2.0)
    line = line_color(ax)
    ends = {True: 0.0, False: 0.0}
    entries = {name: float(value) for name, value in e.ledger.entries.items() if value}
    for (name, value), color in zip(entries.items(), NEUTRAL, strict=False):
        up = value >= 0
        ax.barh(0, value, left=ends[up], color=color, label=f"{name} {value:+.3g}")
        ends[up] += value
    ax.axvline(float(e.ledger.total), color=line, linewidth=1.5, label=f"score {e.ledger.total:.3g}")
    ax.axvline(0, color=line, linewidth=0.8, alpha=0.5)
    ax.set_yticks([])
    ax.tick_params(axis="x", labelsize=SMALL)
    ax.set_xlabel(unit_label("score", e), fontsize=SMALL, parse_math=False)
    ax.spines[["left", "right", "top"]].set_visible(False)
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=5, frameon=False, fontsize=SMALL)
    set_title(ax, title or title_of(e), pad=22 * font_scale(), note=notes(e))  # above the legend
    return figure_of(ax)
