"""Pictures of one explanation of numbers: a map of steps and features, signals colored by relevance."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lrpnumpy.meant import door
from lrpnumpy.result import Explanation
from lrpnumpy.show.canvas import (
    NEGATIVE,
    POSITIVE,
    SMALL,
    TINY,
    Scale,
    axes_for,
    color_scale,
    figure_of,
    font_scale,
    line_color,
    mark_steps,
    name_rows,
    relevance_map,
    set_title,
    stack,
    stacked_height,
    unit_label,
    wrapped,
)
from lrpnumpy.show.parts import Shown, by_variable, folded, grouped, notes, short, shown, with_value
from lrpnumpy.show.terminal import title as title_of

ROWS = 60  # features of a map; more are folded
SIGNALS = 12  # signals of a picture
ABOVE = 3  # signals above a map
BARS = 40  # bars of one step


@door
def feature_map(
    e: Explanation,
    x: Any = None,
    ax: Axes | None = None,
    width: float = 8.0,
    title: str | None = None,
    cmap: Any = None,
) -> Figure:
    """Relevance of every feature at every step of `e` as a map, the values of the most relevant features above it.

    Every input of the network is drawn: a series as a map, one step or a static vector as bars below. With more than
    400 steps, each column is the sum of several; a note states it. `x` are the values to draw, as `explain` got them,
    where the explanation does not have them: an array, or a dict by input.
    """
    parts = shown(by_variable(e, "feature_map"), "feature_map", x)
    series, vectors = _divided(parts)
    tables = [part.rows(ROWS) for part in series]
    norm = Scale(*(grouped(table)[0] for table, _ in tables))
    heights = []
    for part, (table, _) in zip(series, tables, strict=True):
        signals = 0 if part.values is None else min(ABOVE, len(part.features))
        heights.append([0.55] * signals + [max(0.5, (0.24 if table.shape[1] <= 25 else 0.17) * table.shape[1])])
    ax, stacks, bars = _divide(ax, width, heights, vectors)
    image = None
    for part, (table, names), (*above, place) in zip(series, tables, stacks, strict=True):
        for one, d in zip(above, part.most_relevant(ABOVE), strict=False):
            _signal(one, part, int(d))
            one.spines[["top", "right"]].set_visible(False)
        cells, group = grouped(table)
        T = len(table)
        image = place.imshow(
            cells.T, cmap=relevance_map(place, cmap), norm=norm, aspect="auto", interpolation="nearest",
            extent=(-0.5, len(cells) * group - 0.5, table.shape[1] - 0.5, -0.5),
        )  # fmt: skip
        name_rows(place, names, SMALL if len(names) <= 25 else TINY)
        mark_steps(place, part.labels, T, group)
        _name_input((above or [place])[0], part, len(parts) > 1)
    return _finished(ax, e, image, vectors, bars, title)


@door
def series(
    e: Explanation,
    x: Any = None,
    ax: Axes | None = None,
    width: float = 8.0,
    title: str | None = None,
    cmap: Any = None,
) -> Figure:
    """Numeric inputs of `e` as signals on the color of their relevance: that of each feature, or that of the step.

    If there are more than 12 features, the most relevant are drawn; a note states it. Every input of the network
    has its part: a static vector, or a single step, as bars below. `x` is as for `feature_map`.
    """
    parts = shown(e, "series", x)
    many, vectors = _divided(parts)
    norm = Scale(*(grouped(part.relevance)[0] for part in many))
    chosen = [
        part.most_relevant(SIGNALS) if part.relevance.shape[1] > 1 else np.arange(min(SIGNALS, len(part.features)))
        for part in many
    ]
    height = 1.0 if sum(map(len, chosen)) <= 5 else 0.6
    ax, stacks, bars = _divide(ax, width, [[height] * len(features) for features in chosen], vectors)
    image = None
    for part, features, places in zip(many, chosen, stacks, strict=True):
        T = len(part.relevance)
        cells, group = grouped(part.relevance)
        for place, d in zip(places, features, strict=True):
            low, high = _signal(place, part, int(d))
            image = place.imshow(
                cells[None, :, min(d, cells.shape[1] - 1)], cmap=relevance_map(place, cmap), norm=norm, aspect="auto",
                interpolation="nearest", extent=(-0.5, len(cells) * group - 0.5, low, high), zorder=0,
            )  # fmt: skip
            place.set_ylim(low, high)
        mark_steps(place, part.labels, T, group)
        _name_input(places[0], part, len(parts) > 1)
        if len(features) < len(part.features):
            says = f"the {len(features)} most relevant of {len(part.features)} features"
            place.set_xlabel(f"{place.get_xlabel()}   {says}".strip(), fontsize=SMALL, parse_math=False)
    return _finished(ax, e, image, vectors, bars, title)


def _divided(parts: list[Shown]) -> tuple[list[Shown], list[Shown]]:
    """The series, and what has one step."""
    return [part for part in parts if part.is_series], [part for part in parts if not part.is_series]


def _divide(
    ax: Axes | None, width: float, heights: list[list[float]], vectors: list[Shown]
) -> tuple[Axes, list[list[Axes]], list[Axes]]:
    """Axes one below the other: those of the series, then one for each vector."""
    groups = [*heights, *([0.1 + 0.22 * min(BARS, len(part.features))] for part in vectors)]
    ax = axes_for(ax, width, stacked_height(groups) + 1.3)
    stacks = stack(ax, groups, 0, 0.97)
    return ax, stacks[: len(heights)], [group[0] for group in stacks[len(heights) :]]


def _signal(ax: Axes, part: Shown, d: int) -> tuple[float, float]:
    """One feature's values as a line, or as steps where they are 0 and 1; and the limits of its axis."""
    ax.set_ylabel(wrapped(part.features[d]), rotation=0, ha="right", va="center", fontsize=SMALL, parse_math=False)
    if part.values is None:
        ax.set_yticks([])
        return 0.0, 1.0
    values = part.values[:, d]
    known = values[np.isfinite(values)]
    style: Any = "steps-mid" if np.isin(known, (0, 1)).all() else "default"
    thin = 1.1 if len(values) <= 500 else 0.6
    ax.plot(np.arange(len(values)), values, color=line_color(ax), linewidth=thin, drawstyle=style)
    low, high = float(known.min(initial=np.inf)), float(known.max(initial=-np.inf))
    if low >= high:  # a constant is drawn against 0
        low, high = min(low, 0.0), max(high, 0.0)
    pad = 0.08 * (high - low) or 0.5
    ax.set_ylim(low - pad, high + pad)
    ax.locator_params(axis="y", nbins=3)
    return low - pad, high + pad


def _name_input(ax: Axes, part: Shown, several: bool) -> None:
    """The name of an input above its first axes, where there are several inputs."""
    if several:
        ax.set_title(short(part.name), loc="left", fontsize=SMALL, fontweight="bold", parse_math=False)


def _finished(
    ax: Axes, e: Explanation, image: Any, vectors: list[Shown], bars: list[Axes], title: str | None
) -> Figure:
    """The bars of inputs that have one step, the color scale and the title."""
    several = len(e.inputs) > 1
    for place, part in zip(bars, vectors, strict=True):
        _bars(place, part, unit_label("relevance", e))
        _name_input(place, part, several)
    if image is not None:
        whole = ax.get_window_extent().height / figure_of(ax).dpi
        high = min(1.0, 2.5 / whole)
        color_scale(ax, image, (0.985, 1 - high, 0.014, high), unit_label("relevance", e))
    one_step = "" if image is not None else "  One step: what is explained are features."
    pad = 20 * font_scale() if several else None  # above the name of the first input
    set_title(ax, title or title_of(e) + one_step, pad=pad, note=notes(e))
    return figure_of(ax)


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
    sizes = np.array([size for _, size in entries])
    ax.barh(range(len(entries)), sizes, color=[POSITIVE if size >= 0 else NEGATIVE for size in sizes], height=0.7)
    ax.axvline(0, color=line_color(ax), linewidth=0.8)
    ax.set_ylim(len(entries) - 0.5, -0.5)
    finite = np.nan_to_num(sizes, posinf=0, neginf=0)
    end = float(np.abs(finite).max()) or 1.0
    ax.set_xlim(-1.05 * end, 1.05 * end)
    ax.set_yticks(range(len(entries)), [short(name, 40) for name, _ in entries], fontsize=SMALL, parse_math=False)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlabel(label, fontsize=SMALL, parse_math=False)
