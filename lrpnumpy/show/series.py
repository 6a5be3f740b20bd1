"""Pictures of one explanation of numbers: a map of steps and features, signals colored by relevance."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lrpnumpy.meant import door
from lrpnumpy.result import Explanation
from lrpnumpy.show import canvas
from lrpnumpy.show.parts import Shown, by_variable, folded, grouped, short, shown, with_value
from lrpnumpy.show.parts import title as title_of

ROWS = 60  # features of a map; more are folded
SIGNALS = 12  # signals of a picture
ABOVE = 3  # signals above a map
BARS = 40  # bars of one step


@door
def feature_map(
    e: Explanation, ax: Axes | None = None, width: float = 8.0, title: str | None = None, cmap: Any = None
) -> Figure:
    """Relevance of every feature at every step of `e` as a map, the values of the most relevant features above it.

    Every input of the network is drawn: a series as a map, one step or a static vector as bars below. With more than
    400 steps, each column is the sum of several; a note states it.
    """
    parts = shown(by_variable(e, "feature_map"), "feature_map")
    series, vectors = ([part for part in parts if part.is_series is kind] for kind in (True, False))
    tables = [part.rows(ROWS) for part in series]
    norm = canvas.Scale(*(grouped(table)[0] for table, _ in tables))
    heights = []
    for part, (table, _) in zip(series, tables, strict=True):
        signals = 0 if part.values is None else min(ABOVE, len(part.features))
        row = 0.17 if table.shape[1] > 25 else 0.24
        heights.append([0.55] * signals + [max(0.5, row * table.shape[1])])
    ax, stacks, bars = _divide(ax, width, heights, vectors)
    image = None
    for part, (table, names), (*above, place) in zip(series, tables, stacks, strict=True):
        for signal, d in zip(above, part.most_relevant(ABOVE), strict=False):
            _signal(signal, part, int(d))
            canvas.set_labels(signal)
        cells, group = grouped(table)
        image = canvas.heat(place, cells.T, norm, canvas.colors(cmap, canvas.relevance_map(place)), group)
        canvas.name_rows(place, names, size=canvas.SMALL if len(names) <= 25 else canvas.TINY)
        canvas.mark_steps(place, part.labels, len(table), group)
        _name_input([*above, place][0], part, len(parts) > 1)
    return _finished(ax, e, image, vectors, bars, title)


@door
def series(
    e: Explanation, ax: Axes | None = None, width: float = 8.0, title: str | None = None, cmap: Any = None
) -> Figure:
    """Numeric inputs of `e` as signals on the color of their relevance: that of each feature, or that of the step.

    If there are more than 12 features, the most relevant are drawn; a note states it. Every input of the network
    has its part: a static vector, or a single step, as bars below.
    """
    parts = shown(e, "series")
    many, vectors = ([part for part in parts if part.is_series is kind] for kind in (True, False))
    norm = canvas.Scale(*(grouped(part.relevance)[0] for part in many))
    chosen = [_drawn_signals(part) for part in many]
    height = 0.6 if sum(map(len, chosen)) > 5 else 1.0
    ax, stacks, bars = _divide(ax, width, [[height] * len(features) for features in chosen], vectors)
    image = None
    for part, features, places in zip(many, chosen, stacks, strict=True):
        cells, group = grouped(part.relevance)
        for place, d in zip(places, features, strict=True):
            ends = _signal(place, part, int(d))
            row = cells[None, :, min(d, cells.shape[1] - 1)]
            image = canvas.heat(
                place, row, norm, canvas.colors(cmap, canvas.relevance_map(place)), group, ends, zorder=0
            )
            place.set_ylim(ends)
        canvas.mark_steps(place, part.labels, len(part.relevance), group)
        _name_input(places[0], part, len(parts) > 1)
        if len(features) < len(part.features):
            note = f"the {len(features)} most relevant of {len(part.features)} features"
            place.set_xlabel(f"{place.get_xlabel()}   {note}".strip())
    return _finished(ax, e, image, vectors, bars, title)


def _drawn_signals(part: Shown) -> np.ndarray:
    """The features that are drawn: the most relevant, or the first where relevance is that of steps."""
    first = np.arange(min(SIGNALS, len(part.features)))
    return part.most_relevant(SIGNALS) if part.relevance.shape[1] > 1 else first


def _divide(
    ax: Axes | None, width: float, heights: list[list[float]], vectors: list[Shown]
) -> tuple[Axes, list[list[Axes]], list[Axes]]:
    """Axes one below the other: those of the series, then one for each vector."""
    groups = [*heights, *([0.1 + 0.22 * min(BARS, len(part.features))] for part in vectors)]
    ax = canvas.axes_for(ax, width, canvas.stacked_height(groups) + 1.3)
    stacks = canvas.stack(ax, groups, 0.97)
    return ax, stacks[: len(heights)], [group[0] for group in stacks[len(heights) :]]


def _signal(ax: Axes, part: Shown, d: int) -> tuple[float, float]:
    """One feature's values as a line, or as steps where they are 0 and 1; and the limits of its axis."""
    canvas.name_signal(ax, part.features[d])
    if part.values is None:
        ax.set_yticks([])
        return 0.0, 1.0
    values = part.values[:, d]
    known = values[np.isfinite(values)]
    style: dict[str, Any] = {"color": canvas.line_color(ax), "linewidth": 1.1}
    if np.isin(known, (0, 1)).all():
        style["drawstyle"] = "steps-mid"
    if len(values) > 500:
        style["linewidth"] = 0.6
    ax.plot(np.arange(len(values)), values, **style)
    low, high = float(known.min(initial=np.inf)), float(known.max(initial=-np.inf))
    if low >= high:  # a constant is drawn against 0
        low, high = min(low, 0.0), max(high, 0.0)
    pad = 0.08 * (high - low) or 0.5
    ax.set_ylim(low - pad, high + pad)
    return low - pad, high + pad


def _name_input(ax: Axes, part: Shown, several: bool) -> None:
    """The name of an input above its first axes, where there are several inputs."""
    if several:
        ax.set_title(short(part.name), loc="left", fontsize=canvas.SMALL, fontweight="bold", parse_math=False)


def _finished(
    ax: Axes, e: Explanation, image: Any, vectors: list[Shown], bars: list[Axes], title: str | None
) -> Figure:
    """The bars of inputs that have one step, the color scale and the title."""
    several = len(e.inputs) > 1
    label = canvas.unit_label("relevance", e)
    for place, part in zip(bars, vectors, strict=True):
        _bars(place, part, label)
        _name_input(place, part, several)
    if image is not None:
        high = min(1.0, 2.5 * canvas.figure_of(ax).dpi / ax.get_window_extent().height)
        canvas.color_scale(ax, image, label, (0.985, 1 - high, 0.014, high))
    else:
        title = title or f"{title_of(e)}  One step: the bars are its features."
    pad = 20 * canvas.font_scale() if several else None  # above the name of the first input
    return canvas.finished(ax, e, title, pad)


def _bars(ax: Axes, part: Shown, label: str) -> None:
    """One step, or a static vector: a bar for each feature, with its value beside the name."""
    relevance, names = part.relevance[0], list(part.features)
    if part.relevance.shape[1] < len(names):
        names = ["relevance"]
    elif part.values is not None:
        names = [with_value(name, value) for name, value in zip(names, part.values[0], strict=True)]
    entries = [*zip(names, relevance.tolist(), strict=True)]
    if len(entries) > BARS:
        entries = folded(entries, BARS - 1, "features")
    names, sizes = [name for name, _ in entries], np.array([size for _, size in entries])
    ax.barh(range(len(entries)), sizes, color=canvas.sign_colors(sizes), height=0.7)
    ax.axvline(0, color=canvas.line_color(ax), linewidth=0.8)
    end = float(np.abs(np.nan_to_num(sizes, posinf=0, neginf=0)).max()) or 1.0
    ax.set_xlim(-1.05 * end, 1.05 * end)
    canvas.name_rows(ax, names, 40)
    canvas.set_labels(ax, label)
