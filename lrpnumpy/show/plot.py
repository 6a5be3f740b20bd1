"""Explanations as matplotlib figures: coloured sentences, ledgers, coloured signals, maps of steps and features.

Each function returns a Figure that is tied to no window: `figure.savefig("why.svg")` writes PNG, SVG or PDF.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

from lrpnumpy.checks import LrpError
from lrpnumpy.result import Comparison, Explanation, Ledger, ReferenceLedger
from lrpnumpy.show.color import BLUE, RED, WHITE, ink, rgb, scaled
from lrpnumpy.show.html import LEDGER_COLORS
from lrpnumpy.show.terminal import title

FONT = 11  # points
LINE = 0.32  # inches from one line of words to the next
MAP = LinearSegmentedColormap.from_list("relevance", [tuple(v / 255 for v in c) for c in (BLUE, WHITE, RED)])


def _each(items: Explanation | Comparison | Sequence[Explanation]) -> list[Explanation]:
    """One explanation of one class after the other."""
    every = [items] if isinstance(items, Explanation) else list(items)
    return [
        one for e in every for one in ([e.for_class(c) for c in range(len(e.scores))] if e.target == "all" else [e])
    ]


def _figure(width: float, height: float) -> Figure:
    layout: Any = "none"  # the annotations of matplotlib do not know it
    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def right_to_left(words: Sequence[str]) -> bool:
    """Whether most letters are of a script that is written from right to left."""
    kinds = [unicodedata.bidirectional(c) for word in words for c in word]
    return sum(kind in ("R", "AL") for kind in kinds) > sum(kind == "L" for kind in kinds)


def sentence(items: Explanation | Comparison | Sequence[Explanation], width: float = 8.0) -> Figure:
    """Words on the colours of their relevance; several explanations under each other, each with its title."""
    every = _each(items)
    probe = _figure(width, 1)
    lines = [_lines(probe, e, width - 0.3) for e in every]
    height = sum(LINE * (len(block) + 1) + 0.12 for block in lines) + 0.1
    figure = _figure(width, height)
    y = height - 0.1
    several = len({e.method for e in every}) == len(every) > 1
    for e, block in zip(every, lines, strict=True):
        head = e.method if several and e is not every[0] else title(e)
        figure.text(0.15 / width, (y - LINE * 0.7) / height, head, fontsize=FONT - 2, color="0.35", parse_math=False)
        y -= LINE
        shares, mirrored = scaled(e.relevance), right_to_left(e.tokens or ())
        for line in block:
            y -= LINE
            for t, x, size in line:
                left = width - x - size if mirrored else x
                _word(figure, e.label(t), float(shares[t]), left, y, size, width, height)
        y -= 0.12
    return figure


def _lines(figure: Figure, e: Explanation, room: float) -> list[list[tuple[int, float, float]]]:
    """Lines of (position, left edge, width) in inches: words measured and wrapped."""
    renderer: Any = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    lines: list[list[tuple[int, float, float]]] = [[]]
    x = 0.15
    for t in range(len(e)):
        text = figure.text(0, 0, e.label(t), fontsize=FONT, parse_math=False)
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
    from matplotlib.patches import FancyBboxPatch

    back = rgb(share)
    box = FancyBboxPatch(
        (x / width, (y + 0.02) / height), size / width, (LINE - 0.06) / height,
        boxstyle="square,pad=0", linewidth=0, facecolor=tuple(v / 255 for v in back), transform=figure.transFigure,
    )  # fmt: skip
    figure.add_artist(box)
    color = tuple(v / 255 for v in ink(back))
    place = (x + size / 2) / width, (y + LINE / 2 - 0.01) / height
    figure.text(*place, word, fontsize=FONT, color=color, ha="center", va="center", parse_math=False)


def ledger(e: Explanation, width: float = 8.0) -> Figure:
    """Where the score went: one bar, positive entries to the right of zero and negative ones to the left."""
    if e.target == "all" or not isinstance(e.ledger, (Ledger, ReferenceLedger)):
        raise LrpError("ledger must get an explanation of one class by LRP, or by a method with a reference.")
    figure = _figure(width, 1.5)
    axes = figure.add_axes((0.04, 0.3, 0.92, 0.28))
    ends = {True: 0.0, False: 0.0}
    for (name, value), color in zip(e.ledger.entries.items(), LEDGER_COLORS, strict=False):
        up = bool(value >= 0)
        axes.barh(0, value, left=ends[up], color=color, label=f"{name} {value:+.3g}")
        ends[up] += float(value)
    axes.axvline(float(e.ledger.total), color="0.1", linewidth=1.5, label=f"score {e.ledger.total:.3g}")
    axes.axvline(0, color="0.6", linewidth=0.8)
    axes.set_yticks([])
    axes.spines[["left", "right", "top"]].set_visible(False)
    figure.legend(loc="upper center", ncols=5, frameon=False, fontsize=FONT - 2)
    return figure


def series(e: Explanation, x: Any, width: float = 8.0) -> Figure:
    """A numeric input as signals, each coloured by the relevance of its variable (of the step, where there is none)."""
    values = np.asarray(x, float)
    if values.ndim != 2 or len(values) != len(e):
        raise LrpError(f"series: x must have shape ({len(e)}, D), the input that was explained, got {values.shape}.")
    if e.target == "all":
        raise LrpError("series must get one class, got an explanation of all; pick one with .for_class(c).")
    T, D = values.shape
    parts = e.variables if e.variables is not None else np.repeat(e.relevance[:, None], D, axis=1)
    names = e.features or [f"x{d}" for d in range(D)]
    shares = scaled(parts)
    figure = _figure(width, 0.9 + 1.1 * D)
    every = figure.subplots(D, 1, sharex=True, squeeze=False)[:, 0]
    figure.subplots_adjust(
        left=0.13, right=0.98, top=1 - 0.45 / (0.9 + 1.1 * D), bottom=0.45 / (0.9 + 1.1 * D), hspace=0.25
    )
    steps = np.arange(T)
    for d, axes in enumerate(every):
        low, high = values[:, d].min(), values[:, d].max()
        pad = 0.1 * (high - low) or 1.0
        axes.imshow(
            shares[None, :, d], cmap=MAP, vmin=-1, vmax=1, aspect="auto", interpolation="nearest",
            extent=(-0.5, T - 0.5, low - pad, high + pad),
        )  # fmt: skip
        if T > 1:
            line = np.stack([np.stack([steps[:-1], steps[1:]]), np.stack([values[:-1, d], values[1:, d]])], axis=-1)
            axes.add_collection(LineCollection(list(np.swapaxes(line, 0, 1)), colors="0.15", linewidths=1.1))
        else:
            axes.plot(steps, values[:, d], "o", color="0.15")
        axes.set_ylabel(names[d], rotation=0, ha="right", va="center")
        axes.set_ylim(low - pad, high + pad)
    every[-1].set_xlabel("step")
    figure.suptitle(title(e), fontsize=FONT, parse_math=False)
    return figure


def feature_map(e: Explanation, width: float = 8.0) -> Figure:
    """Relevance of every variable at every step, as a T x D map with the features' names and a colour bar."""
    if e.target == "all" or e.variables is None:
        raise LrpError(
            "feature_map must get an explanation of one class with relevance per variable; use unit='variable'."
        )
    T, D = e.variables.shape
    names = e.features or [f"x{d}" for d in range(D)]
    largest = float(np.abs(e.variables).max()) or 1.0
    figure = _figure(width, min(9.0, 1.4 + 0.28 * D))
    axes = figure.subplots()
    image = axes.imshow(
        e.variables.T, cmap=MAP, norm=Normalize(-largest, largest), aspect="auto", interpolation="nearest"
    )
    if D <= 40:
        axes.set_yticks(range(D), names)
    if e.tokens and T <= 40:
        axes.set_xticks(range(T), e.tokens, rotation=60, ha="right", parse_math=False)
    else:
        axes.set_xlabel("step")
    axes.set_title(title(e), fontsize=FONT, parse_math=False)
    figure.colorbar(image, ax=axes, label="relevance")
    figure.set_layout_engine("tight")
    return figure
