"""A picture of explanations of words: colored sentences."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lrpnumpy.meant import door
from lrpnumpy.protocol import Comparison
from lrpnumpy.result import Explanation
from lrpnumpy.show import canvas
from lrpnumpy.show.canvas import font_scale
from lrpnumpy.show.color import rgb
from lrpnumpy.show.parts import condensed, notes, word_shares
from lrpnumpy.show.parts import title as title_of
from lrpnumpy.targets import listed

WORD = 11  # points, where the font of the style has 10
LINE, HEAD = 0.32, 0.22  # inches from one line of words, or of titles, to the next, likewise


def _each(items: Any, room: int, title: str | None) -> list[tuple[list[str], Explanation]]:
    """One explanation of one class after the other, each with its title and evidence; and each of its inputs.

    Heads are lines of at most `room` characters; `title` is that of the first.
    """
    if isinstance(items, Explanation):
        items = [items]
    single = [one for e in listed(items, "sentence") for one in e.each_class]
    heads = [title_of(e) for e in single]
    if len({e.method for e in single}) == len(single):  # a comparison of methods
        heads[1:] = [e.method for e in single[1:]]
    if title is not None and heads:
        heads[0] = title
    blocks = []
    for head, e in zip(heads, single, strict=True):
        lines = [head, *notes(e).splitlines()]
        blocks.append(([part for line in lines for part in textwrap.wrap(line, room)], condensed(e)))
        blocks += [([f"input {name!r}"], condensed(e.of_input(name))) for name in [*e.inputs][1:]]
    return blocks


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
    if ax is not None:
        width, _ = _inches(ax)
    room = max(24, int((width - 0.3) * 72 / (0.55 * (WORD - 2) * font_scale())))
    return drawn(_each(items, room, title), ax, width)


def _inches(ax: Axes) -> tuple[float, float]:
    """Width and height of axes."""
    box = ax.get_window_extent()
    return box.width / canvas.figure_of(ax).dpi, box.height / canvas.figure_of(ax).dpi


def drawn(every: Sequence[tuple[list[str], Explanation]], ax: Axes | None, width: float) -> Figure:
    """The words of several explanations below each other, each below the lines of its title. Places are in inches."""
    size = font_scale()
    if ax is not None:
        width, height = _inches(ax)
    probe = canvas.new_picture(width, 1, "none")
    lines = [_lines(probe, e, width - 0.3) for _, e in every]
    if ax is None:
        height = 0.1 + 0.18 * len(every)
        for (head, _), block in zip(every, lines, strict=True):
            height += HEAD * len(head) + LINE * len(block)
        ax = canvas.new_picture(width, height, "none").add_axes((0, 0, 1, 1))
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
                if mirrored:
                    x = width - x - wide
                _word(ax, e.shown(t), float(shares[t]), (x, y), wide)
        y -= 0.12 * size
    return canvas.figure_of(ax)


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
    size, back = font_scale(), [part / 255 for part in rgb(share, [255 * part for part in canvas.ground(ax)])]
    box = {"facecolor": back, "linewidth": 0, "boxstyle": "square,pad=0.25"}
    text = ax.text(x + wide / 2, y + LINE * size / 2 - 0.01, word, fontsize=WORD * size, parse_math=False, bbox=box)
    text.set(ha="center", va="center", color=canvas.ink_on(back))
