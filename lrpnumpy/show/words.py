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
    FONT,
    NEGATIVE,
    POSITIVE,
    axes_for,
    figure_of,
    line_color,
    new_picture,
    set_title,
    unit_label,
)
from lrpnumpy.show.color import ink, rgb
from lrpnumpy.show.html import SHADES
from lrpnumpy.show.parts import condensed, evidence_line, word_shares
from lrpnumpy.show.terminal import title

WORD = 11  # points
LINE = 0.32  # inches from one line of words to the next


def _each(items: Explanation | Comparison | Sequence[Explanation], room: int) -> list[tuple[list[str], Explanation]]:
    """One explanation of one class after the other, each with its title and evidence; and each of its inputs.

    Heads are lines of at most `room` characters.
    """
    every = [items] if isinstance(items, Explanation) else list(items)
    single = [one for e in every for one in e.each_class]
    several = len({e.method for e in single}) == len(single) > 1
    found = []
    for k, e in enumerate(single):
        head = e.method if several and k else title(e)
        found.append(([head, *textwrap.wrap(evidence_line(e), room)], condensed(e)))
        found += [([f"input {name!r}"], condensed(e.of_input(name))) for name in [*e.inputs][1:]]
    return found


@door
def right_to_left(words: Sequence[str]) -> bool:
    """Whether most letters of some `words` are of a script that is written from right to left."""
    kinds = [unicodedata.bidirectional(c) for word in words for c in word]
    return sum(kind in ("R", "AL") for kind in kinds) > sum(kind == "L" for kind in kinds)


@door
def sentence(items: Explanation | Comparison | Sequence[Explanation], width: float = 8.0) -> Figure:
    """Words on the colors of their relevance; several explanations, `items`, under each other, each with its title."""
    return drawn(_each(items, max(24, int(width * 72 / (0.5 * WORD)))), width)


def drawn(every: Sequence[tuple[list[str], Explanation]], width: float) -> Figure:
    """The words of several explanations under each other, each below the lines of its title."""
    probe = new_picture(width, 1, "none")
    lines = [_lines(probe, e, width - 0.3) for _, e in every]
    height = sum(LINE * (len(block) + len(head)) + 0.12 for (head, _), block in zip(every, lines, strict=True)) + 0.1
    figure = new_picture(width, height, "none")
    y = height - 0.1
    for (head, e), block in zip(every, lines, strict=True):
        for text in head:
            figure.text(0.15 / width, (y - LINE * 0.7) / height, text, fontsize=WORD - 2, parse_math=False, alpha=0.75)
            y -= LINE
        shares, mirrored = word_shares(e), right_to_left(e.tokens or ())
        for line in block:
            y -= LINE
            for t, x, size in line:
                left = width - x - size if mirrored else x
                _word(figure, e.shown(t), float(shares[t]), left, y, size, width, height)
        y -= 0.12
    return figure


def _lines(figure: Figure, e: Explanation, room: float) -> list[list[tuple[int, float, float]]]:
    """Lines of (position, left edge, width) in inches: words measured and wrapped."""
    renderer: Any = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    lines: list[list[tuple[int, float, float]]] = [[]]
    x = 0.15
    for t in range(len(e)):
        text = figure.text(0, 0, e.shown(t), fontsize=WORD, parse_math=False)
        size = text.get_window_extent(renderer).width / figure.dpi + 0.1
        text.remove()
        if lines[-1] and x + size > room + 0.15:
            lines.append([])
            x = 0.15
        lines[-1].append((t, x, size))
        x += size + 0.03
    return lines


def _word(
    figure: Figure, word: str, share: float, x: float, y: float, size: float, width: float, height: float
) -> None:
    back = rgb(share)
    box = FancyBboxPatch(
        (x / width, (y + 0.02) / height), size / width, (LINE - 0.06) / height,
        boxstyle="square,pad=0", linewidth=0, facecolor=tuple(v / 255 for v in back), transform=figure.transFigure,
    )  # fmt: skip
    figure.add_artist(box)
    color = tuple(v / 255 for v in ink(back))
    place = (x + size / 2) / width, (y + LINE / 2 - 0.01) / height
    figure.text(*place, word, fontsize=WORD, color=color, ha="center", va="center", parse_math=False)


@door
def ledger(e: Explanation, ax: Axes | None = None, width: float = 8.0) -> Figure:
    """Where the score of `e` went: one bar, positive entries to the right of zero and negative ones to the left."""
    if e.target == "all" or not isinstance(e.ledger, (Ledger, ReferenceLedger)):
        raise LrpError("ledger: pass an explanation of one class by LRP, or by a method with a reference.")
    ax = axes_for(ax, width, 1.8)
    ink = line_color(ax)
    ends = {True: 0.0, False: 0.0}
    for (name, value), shade in zip(e.ledger.entries.items(), SHADES, strict=False):
        up = bool(value >= 0)
        ax.barh(0, value, left=ends[up], color=POSITIVE if up else NEGATIVE, alpha=shade, label=f"{name} {value:+.3g}")
        ends[up] += float(value)
    ax.axvline(float(e.ledger.total), color=ink, linewidth=1.5, label=f"score {e.ledger.total:.3g}")
    ax.axvline(0, color=ink, linewidth=0.8, alpha=0.5)
    ax.set_yticks([])
    ax.set_xlabel(unit_label("score", e), fontsize=FONT - 2, parse_math=False)
    ax.spines[["left", "right", "top"]].set_visible(False)
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=5, frameon=False, fontsize=FONT - 2)
    set_title(ax, title(e), pad=22, note=evidence_line(e))  # above the legend
    return figure_of(ax)
