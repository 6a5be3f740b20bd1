"""What all matplotlib pictures share: the figure, its colors, names, titles and the labels of steps."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import dates, patheffects, rcParams
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, Normalize, to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator

from lrpnumpy.checks import LrpError, is_number, readable, shown
from lrpnumpy.result import Explanation
from lrpnumpy.show.color import BLUE, RED, ink, limit
from lrpnumpy.show.parts import short, stamps_of, step_unit

TITLE, SMALL, TINY = "medium", "small", "x-small"  # sizes of fonts, relative to rcParams["font.size"]
TICKS = 6  # of an axis of steps, at the most
WIDEST = 200  # inches of a picture
GAP, BETWEEN = 0.14, 0.78  # inches between axes of one group, and between groups
POSITIVE, NEGATIVE = (tuple(v / 255 for v in color) for color in (RED, BLUE))
NEUTRAL = ("#5b6470", "#98a1ac", "#c3c9d0", "#7f8fa6", "#b3a68f", "#d8d2c4")  # entries of a ledger, the inputs first
# Low and high values of a feature: colors that are not those of relevance, and visible on white and on black.
VALUE_MAP = LinearSegmentedColormap.from_list("value", ["#0a9396", "#8f63c9", "#ee7f00"])


class Picture(Figure):
    """A figure that belongs to no window and shows itself in a notebook, also without %matplotlib."""

    def _repr_png_(self) -> bytes:
        memory = io.BytesIO()
        self.savefig(memory, format="png")
        return memory.getvalue()


def new_picture(width: float, height: float, layout: Any = "constrained") -> Picture:
    """An empty figure of a size in inches, higher if the font is larger. With a layout its labels stay inside."""
    if not (is_number(width, float) and 1 <= width <= WIDEST):
        raise LrpError(f"width must be a number of inches from 1 to {WIDEST}, got {shown(width)}.")
    figure = Picture(figsize=(width, height * font_scale()), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def font_scale() -> float:
    """How large the font of the style is, relative to the default of matplotlib."""
    return float(rcParams["font.size"]) / 10


def axes_for(ax: Axes | None, width: float, height: float) -> Axes:
    """The axes to draw into: those of the caller, or those of a new figure."""
    return new_picture(width, height).subplots() if ax is None else ax


def figure_of(ax: Axes) -> Figure:
    """The figure that axes belong to."""
    figure: Any = ax.get_figure()
    return figure


def stack(
    ax: Axes, groups: Sequence[Sequence[float]], left: float = 0.0, right: float = 1.0, whole: float = 0.0
) -> list[list[Axes]]:
    """Axes inside others, one below the other; those of a group have one axis of x, with labels below the last.

    `groups` are their heights in inches, if the height of `ax` is `whole`, by default all that they need. `left` and
    `right` say which part of the width they take.
    """
    ax.set_axis_off()
    whole = whole or stacked_height(groups)
    top, made = whole, []
    for heights in groups:
        group: list[Axes] = []
        for height in heights:
            box = (left, (top - height) / whole, right - left, height / whole)
            group.append(ax.inset_axes(box, sharex=group[0] if group else None))
            group[-1].tick_params(labelsize=SMALL, labelbottom=len(group) == len(heights))
            top -= height + GAP
        top -= BETWEEN - GAP
        made.append(group)
    return made


def stacked_height(groups: Sequence[Sequence[float]]) -> float:
    """Height of a stack in inches."""
    within = sum(sum(heights) + GAP * (len(heights) - 1) for heights in groups)
    return within + BETWEEN * (len(groups) - 1)


def line_color(ax: Axes) -> str:
    """Black or white, whichever can be seen on the ground of the axes."""
    r, g, b = _ground(ax)
    return "black" if ink((round(255 * r), round(255 * g), round(255 * b))) == (0, 0, 0) else "white"


def relevance_map(ax: Axes, cmap: Any = None) -> Any:
    """Blue for negative, red for positive, and the ground of the axes for 0, in light and in dark; or the one given."""
    if cmap is not None:
        return cmap
    return LinearSegmentedColormap.from_list("relevance", [NEGATIVE, _ground(ax), POSITIVE])


def size_map(ax: Axes, cmap: Any = None) -> Any:
    """From the ground of the axes, for 0, to violet; or the one given."""
    if cmap is not None:
        return cmap
    ends: Any = [_ground(ax), "#8f63c9"]
    return LinearSegmentedColormap.from_list("size", ends)


def halo(ax: Axes) -> list[Any]:
    """A rim in the color of the ground, so that text can be read where lines cross it."""
    return [patheffects.withStroke(linewidth=3, foreground=_ground(ax))]


def _ground(ax: Axes) -> tuple[float, float, float]:
    """The color behind what is drawn."""
    for color in (ax.get_facecolor(), figure_of(ax).get_facecolor()):
        if (found := to_rgba(color))[3] > 0:
            return found[:3]
    return (1.0, 1.0, 1.0)


class Scale(Normalize):
    """Color limits that have 0 in the middle, and end where a few large cells do not hide the rest.

    See `color.limit`. The color bar then has arrows and names the largest.
    """

    def __init__(self, *arrays: np.ndarray) -> None:
        end, self.largest = limit(*arrays)
        super().__init__(-end, end)


def color_scale(ax: Axes, image: Any, place: tuple[float, float, float, float], label: str) -> None:
    """A color bar at a place inside the axes: left, bottom, width, height as fractions of the axes."""
    norm, extend = image.norm, "neither"
    if isinstance(norm, Scale) and norm.largest > norm.vmax:  # type: ignore[operator]
        label, extend = f"{label}\nat most ±{norm.largest:.3g}", "both"
    bar = figure_of(ax).colorbar(image, cax=ax.inset_axes(place), extend=extend)
    bar.set_label(label, fontsize=SMALL, parse_math=False)
    bar.ax.tick_params(labelsize=SMALL)
    bar.outline.set_visible(False)


def set_title(ax: Axes, text: str, pad: float | None = None, note: str = "") -> None:
    """The title, and a note below it, in as many lines as they need, `pad` points above the axes."""
    inches = ax.get_window_extent().width / figure_of(ax).dpi
    room = max(24, int(inches * 72 / (0.56 * rcParams["font.size"])))
    lines = textwrap.wrap(text, room)
    for line in note.splitlines():
        lines += textwrap.wrap(line, room)
    ax.set_title("\n".join(lines), loc="left", fontsize=TITLE, parse_math=False, pad=pad)


def name_rows(ax: Axes, names: Sequence[Any], size: str = SMALL) -> None:
    """Names of the rows 0, 1, … of an axis of y; a dollar sign is one, not the start of a formula."""
    ax.set_yticks(range(len(names)), [short(name) for name in names], fontsize=size, parse_math=False)


def wrapped(name: str, room: int = 18) -> str:
    """A name in lines, broken at spaces and after underscores and hyphens, never inside a word."""
    lines = [""]
    for piece in re.findall(r"[^ _-]+[ _-]*|[ _-]+", short(name, 2 * room)):
        if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > room:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.strip() for line in lines)


def unit_label(word: str, e: Explanation) -> str:
    """A label of an axis with the unit of what is explained: "relevance (mm)"."""
    return f"{word} ({readable(e.output_unit)})" if e.output_unit else word


def subject(e: Explanation) -> str:
    """What is explained, with its unit: "discharge (mm)"; "score" where it has no name."""
    name = e.name_of(e.target) if e.classes and e.target != "all" else "score"
    return unit_label(short(name), e)


def _written(ticks: np.ndarray) -> list[str]:
    """Dates as text, no longer than they need to be: years, months, days, or minutes."""
    exact = np.array([np.datetime64(stamp.replace(tzinfo=None), "s") for stamp in dates.num2date(ticks)])
    unit = next((unit for unit in "YMDm" if (exact == exact.astype(f"M8[{unit}]")).all()), "s")
    return [str(text).replace("T", "\n") for text in np.datetime_as_string(exact.astype(f"M8[{unit}]"))]


def mark_steps(ax: Axes, labels: Any, T: int, group: int = 1) -> None:
    """The axis of x is one of T steps: dates, labels or numbers at some of them, and the unit of a step."""
    ax.set_xlim(-0.5, T - 0.5)
    unit, stamps = step_unit(labels), stamps_of(labels)
    says = "" if stamps is not None else unit
    if stamps is not None and T > 1:
        numbers = dates.date2num(stamps)
        locator = dates.AutoDateLocator(minticks=3, maxticks=TICKS, interval_multiples=True)
        ticks = np.asarray(locator.tick_values(*dates.num2date(numbers[[0, -1]])))
        ticks = ticks[(ticks >= numbers[0]) & (ticks <= numbers[-1])]
        ax.set_xticks(np.interp(ticks, numbers, np.arange(T)), _written(ticks), fontsize=SMALL)
    elif labels is not None:
        positions = np.arange(0, T, -(-T // 24))
        words = [short(labels[t], 20) for t in positions]
        slant: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        is_long = sum(map(len, words)) > 60
        ax.set_xticks(positions, words, fontsize=SMALL, parse_math=False, **(slant if is_long else {}))
        says = ""
    else:
        ax.xaxis.set_major_locator(MaxNLocator(TICKS, integer=True) if T > 1 else FixedLocator([0]))
        ax.tick_params(axis="x", labelsize=SMALL)
    if group > 1:
        says = f"{says}   (each column is the sum of {group} {unit}s)".strip()
    ax.set_xlabel(says, fontsize=SMALL, parse_math=False)
