"""What all matplotlib pictures share: the figure, its colors, names, titles and the labels of steps."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps, dates, rcParams
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize, to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from lrpnumpy.checks import LrpError, is_number, readable, shown
from lrpnumpy.result import Explanation
from lrpnumpy.show.color import BLUE, RED, WHITE, ink, limit
from lrpnumpy.show.parts import NAME, notes, short, stamps_of, step_unit
from lrpnumpy.show.parts import title as title_of

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
    return ax if ax is not None else new_picture(width, height).subplots()


def figure_of(ax: Axes) -> Figure:
    """The figure that axes belong to."""
    figure: Any = ax.get_figure()
    return figure


def stack(ax: Axes, groups: Sequence[Sequence[float]], right: float = 1.0) -> list[list[Axes]]:
    """Axes inside others, one below the other; those of a group have one axis of x, with labels below the last.

    `groups` are their heights in inches, which share the height of `ax`; `right` is the end of their width.
    """
    ax.set_axis_off()
    whole = stacked_height(groups)
    top, made = whole, []
    for heights in groups:
        group: list[Axes] = []
        first: Any = None
        for height in heights:
            box = (0.0, (top - height) / whole, right, height / whole)
            group.append(ax.inset_axes(box, sharex=first))
            first = group[0]
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
    return ink_on(ground(ax))


def ink_on(color: Sequence[float]) -> str:
    """Black or white, whichever is easier to read on a color, whose parts are from 0 to 1."""
    r, g, b = (round(255 * part) for part in color[:3])
    return "white" if ink((r, g, b)) == WHITE else "black"


def sign_colors(values: Any) -> list[Any]:
    """A color for each value: of positive, or of negative relevance."""
    return [NEGATIVE if value < 0 else POSITIVE for value in values]


def colors(cmap: Any, default: Any) -> Any:
    """The colormap that the caller passes, or the default."""
    if cmap is None:
        return default
    if not isinstance(cmap, Colormap) and not (isinstance(cmap, str) and cmap in colormaps):
        raise LrpError(f"cmap must be a colormap of matplotlib or its name, such as 'RdBu_r', got {shown(cmap)}.")
    return cmap


def relevance_map(ax: Axes) -> Any:
    """Blue for negative, red for positive, and the ground of the axes for 0, in light and in dark."""
    return LinearSegmentedColormap.from_list("relevance", [NEGATIVE, ground(ax), POSITIVE])


def size_map(ax: Axes) -> Any:
    """From the ground of the axes, for 0, to violet."""
    ends: Any = [ground(ax), "#8f63c9"]
    return LinearSegmentedColormap.from_list("size", ends)


def ground(ax: Axes) -> tuple[float, float, float]:
    """The color behind what is drawn."""
    for color in (ax.get_facecolor(), figure_of(ax).get_facecolor()):
        r, g, b, alpha = to_rgba(color)
        if alpha > 0:
            return r, g, b
    return 1.0, 1.0, 1.0


class Scale(Normalize):
    """Color limits that have 0 in the middle, and end where a few large cells do not hide the rest.

    See `color.limit`. The color bar then has arrows and names the largest.
    """

    def __init__(self, *arrays: np.ndarray) -> None:
        end, self.largest = limit(*arrays)
        super().__init__(-end, end)


def color_scale(
    ax: Axes, image: Any, label: str, place: tuple[float, float, float, float] = (1.02, 0.0, 0.014, 1.0)
) -> None:
    """A color bar beside the axes, or at a place: left, bottom, width, height as fractions of the axes."""
    norm, extend = image.norm, "neither"
    if isinstance(norm, Scale) and norm.largest > norm.vmax:  # type: ignore[operator]
        label, extend = f"{label}\nat most ±{norm.largest:.3g}", "both"
    bar = figure_of(ax).colorbar(image, cax=ax.inset_axes(place), extend=extend)
    bar.set_label(label, fontsize=SMALL, parse_math=False)
    bar.ax.tick_params(labelsize=SMALL)
    bar.outline.set_visible(False)


def set_title(ax: Axes, text: str, note: str = "", pad: float | None = None) -> None:
    """The title, and a note below it, `pad` points above the axes, wrapped at the edge of the figure."""
    text = "\n".join([text, *note.splitlines()])
    ax.set_title(text, loc="left", fontsize=TITLE, parse_math=False, pad=pad, wrap=True)


def finished(ax: Axes, e: Explanation, title: str | None, pad: float | None = None) -> Figure:
    """The picture of one explanation with its title: what is explained, f(x), the base value, the evidence."""
    set_title(ax, title or title_of(e), notes(e), pad)
    return figure_of(ax)


def set_labels(ax: Axes, x: str | None = None, y: str | None = None, hidden: Sequence[str] = ("top", "right")) -> None:
    """Labels of both axes, small ones for the ticks, and no lines at these sides."""
    if x is not None:
        ax.set_xlabel(x, fontsize=SMALL, parse_math=False)
    if y is not None:
        ax.set_ylabel(y, fontsize=SMALL, parse_math=False)
    ax.tick_params(labelsize=SMALL)
    for side in hidden:
        ax.spines[side].set_visible(False)


def heat(ax: Axes, cells: np.ndarray, norm: Any, cmap: Any, group: int = 1, ends: Any = None, **more: Any) -> Any:
    """A map of cells (rows, columns), each column `group` wide; `ends` are those of the axis of y if not the rows."""
    rows, columns = cells.shape
    low, high = ends or (rows - 0.5, -0.5)
    place = (-0.5, columns * group - 0.5, low, high)
    return ax.imshow(cells, cmap=cmap, norm=norm, aspect="auto", interpolation="nearest", extent=place, **more)


def name_rows(ax: Axes, names: Sequence[Any], most: int = NAME, size: str = SMALL) -> None:
    """Names of the rows 0, 1, … of an axis of y, the first at the top; a dollar sign is one, not part of a formula."""
    ax.set_yticks(range(len(names)), [short(name, most) for name in names], fontsize=size, parse_math=False)
    ax.set_ylim(len(names) - 0.5, -0.5)


def name_signal(ax: Axes, name: str) -> None:
    """The name of a curve, beside its axes, in lines that are broken between words."""
    lines = textwrap.fill(short(name, 36).replace("_", "_ "), 18, break_long_words=False).replace("_ ", "_")
    ax.set_ylabel(lines, rotation=0, ha="right", va="center", fontsize=SMALL, parse_math=False)
    ax.locator_params(axis="y", nbins=3)


def unit_label(word: str, e: Explanation) -> str:
    """A label of an axis with the unit of what is explained: "relevance (mm)"."""
    return f"{word} ({readable(e.output_unit)})" if e.output_unit else word


def subject(e: Explanation) -> str:
    """What is explained, with its unit: "discharge (mm)"; "score" where it has no name."""
    is_named = e.classes and e.target != "all"
    return unit_label(short(e.name_of(e.target)) if is_named else "score", e)


def _written(ticks: np.ndarray) -> list[str]:
    """Dates as text, no longer than they need to be: years, months, days, or minutes."""
    exact = np.array([np.datetime64(stamp.replace(tzinfo=None), "s") for stamp in dates.num2date(ticks)])
    unit = next((unit for unit in "YMDm" if (exact == exact.astype(f"M8[{unit}]")).all()), "s")
    return [str(text).replace("T", "\n") for text in np.datetime_as_string(exact.astype(f"M8[{unit}]"))]


def mark_steps(ax: Axes, labels: Any, T: int, group: int = 1) -> None:
    """The axis of x is one of T steps: dates, labels or numbers at some of them, and the unit of a step."""
    ax.set_xlim(-0.5, T - 0.5)
    unit, stamps, name = step_unit(labels), stamps_of(labels), ""
    if stamps is not None and T > 1:
        numbers = dates.date2num(stamps)
        locator = dates.AutoDateLocator(minticks=3, maxticks=TICKS, interval_multiples=True)
        ticks = np.asarray(locator.tick_values(*dates.num2date(numbers[[0, -1]])))
        ticks = ticks[(ticks >= numbers[0]) & (ticks <= numbers[-1])]
        ax.set_xticks(np.interp(ticks, numbers, np.arange(T)), _written(ticks), fontsize=SMALL)
    elif labels is not None:
        positions = np.arange(0, T, -(-T // 24))
        words = [short(labels[t], 20) for t in positions]
        ax.set_xticks(positions, words, fontsize=SMALL, parse_math=False)
        if sum(map(len, words)) > 60:
            slant(ax)
    else:
        name = unit
        ax.xaxis.set_major_locator(MaxNLocator(TICKS, integer=True))
        if T == 1:
            ax.set_xticks([0])
        ax.tick_params(axis="x", labelsize=SMALL)
    if group > 1:
        name = f"{name}   (each column is the sum of {group} {unit}s)".strip()
    ax.set_xlabel(name, fontsize=SMALL, parse_math=False)


def slant(ax: Axes) -> None:
    """Labels of the axis of x that are too long to stay level."""
    for text in ax.get_xticklabels():
        text.set(rotation=45, ha="right", rotation_mode="anchor")
