"""Pictures of one explanation of numbers: a map of steps and features, signals colored by relevance."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lrpnumpy.meant import door
from lrpnumpy.result import Explanation
from lrpnumpy.show.canvas import (
    FONT,
    NEGATIVE,
    POSITIVE,
    Scale,
    axes_for,
    color_scale,
    figure_of,
    line_color,
    mark_steps,
    name_rows,
    relevance_map,
    set_title,
    stack,
    stacked_height,
    unit_label,
)
from lrpnumpy.show.parts import Shown, by_variable, evidence_line, folded, grouped, short, shown, with_value
from lrpnumpy.show.terminal import title

ROWS = 60  # features of a map; more are folded
SIGNALS = 12  # signals of a picture
ABOVE = 3  # signals above a map
BARS = 40  # bars of one step


@door
def feature_map(e: Explanation, x: Any = None, ax: Axes | None = None, width: float = 8.0) -> Figure:
    """Relevance of every feature at every step of `e` as a map, the values of the most relevant features above it.

    Every input of the network is drawn: a series as a map, one step or a static vector as bars beside. With more than
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
            cells.T, cmap=relevance_map(place), norm=norm, aspect="auto", interpolation="nearest",
            extent=(-0.5, len(cells) * group - 0.5, table.shape[1] - 0.5, -0.5),
        )  # fmt: skip
        name_rows(place, names, FONT - 2 if len(names) <= 25 else FONT - 4)
        _end_of_series(place, part, T, group, len(parts) > 1)
    return _finished(ax, e, image, vectors, bars)


@door
def series(e: Explanation, x: Any = None, ax: Axes | None = None, width: float = 8.0) -> Figure:
    """Numeric inputs of `e` as signals on the color of their relevance: that of each variable, or that of the step.

    If there are more than 12 features, the most relevant are drawn; a note states it. Every input of the network
    has its part: a static vector, or a single step, as bars beside. `x` is as for `feature_map`.
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
                cells[None, :, min(d, cells.shape[1] - 1)], cmap=relevance_map(place), norm=norm, aspect="auto",
                interpolation="nearest", extent=(-0.5, len(cells) * group - 0.5, low, high), zorder=0,
            )  # fmt: skip
            place.set_ylim(low, high)
        _end_of_series(place, part, T, group, len(parts) > 1)
        if len(features) < len(part.features):
            says = f"{len(features)} of {len(part.features)} features, those of most relevance"
            place.set_xlabel(f"{place.get_xlabel()}   {says}".strip(), fontsize=FONT - 2, parse_math=False)
    return _finished(ax, e, image, vectors, bars)


def _divided(parts: list[Shown]) -> tuple[list[Shown], list[Shown]]:
    """The series, and what has one step."""
    return [part for part in parts if part.is_series], [part for part in parts if not part.is_series]


def _divide(
    ax: Axes | None, width: float, heights: list[list[float]], vectors: list[Shown]
) -> tuple[Axes, list[list[Axes]], list[Axes]]:
    """Axes for the series on the left, one below the other, and axes for the vectors on the right, or alone."""
    lengths = [[0.1 + 0.22 * min(BARS, len(part.features))] for part in vectors]
    whole = max(stacked_height(some) for some in (heights, lengths) if some)
    ax = axes_for(ax, width, whole + 1.0)
    stacks = stack(ax, heights, 0, 0.62 if vectors else 0.97, whole)
    bars = stack(ax, lengths, 0.88 if heights else 0, 1, whole)
    return ax, stacks, [one for group in bars for one in group]


def _signal(ax: Axes, part: Shown, d: int) -> tuple[float, float]:
    """One feature's values as a line, where they are known; and the limits of its axis."""
    ink = line_color(ax)
    name = "\n".join(textwrap.wrap(short(part.features[d], 36), 18))
    ax.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=FONT - 2, parse_math=False)
    if part.values is None:
        ax.set_yticks([])
        return 0.0, 1.0
    values = part.values[:, d]
    ax.plot(np.arange(len(values)), values, color=ink, linewidth=1.1 if len(values) <= 500 else 0.6)
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    pad = 0.08 * (high - low) or max(0.5, 0.1 * abs(high))
    ax.set_ylim(low - pad, high + pad)
    ax.locator_params(axis="y", nbins=3)
    return low - pad, high + pad


def _end_of_series(ax: Axes, part: Shown, T: int, group: int, several: bool) -> None:
    """The axis of steps below the last row of one input, with the input's name where there are several."""
    mark_steps(ax, part.labels, T, group)
    if several:
        ax.set_xlabel(f"{short(part.name)}   {ax.get_xlabel()}".strip(), fontsize=FONT - 2, parse_math=False)


def _finished(ax: Axes, e: Explanation, image: Any, vectors: list[Shown], bars: list[Axes]) -> Figure:
    """The bars of what has one step, the color scale and the title."""
    for place, part in zip(bars, vectors, strict=True):
        _bars(place, part, unit_label("relevance", e), beside=image is not None)
        if len(e.inputs) > 1:
            place.set_title(short(part.name), loc="left", fontsize=FONT - 1, parse_math=False)
    if image is not None:
        whole = ax.get_window_extent().height / figure_of(ax).dpi
        left = 0.675 if vectors else 0.985
        color_scale(ax, image, (left, 0.0, 0.014, min(1.0, 2.5 / whole)), unit_label("relevance", e))
    one_step = "" if image is not None else "  One step: what is explained are features."
    set_title(ax, title(e) + one_step, note=evidence_line(e))
    return figure_of(ax)


def _bars(ax: Axes, part: Shown, label: str, beside: bool) -> None:
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
    largest = float(finite[np.abs(finite).argmax()])
    end = abs(largest) or 1.0
    ax.set_xlim(-1.05 * end, 1.05 * end)
    ax.set_yticks(range(len(entries)), [short(name, 40) for name, _ in entries], fontsize=FONT - 2, parse_math=False)
    if beside:  # there is room for two numbers
        ax.yaxis.tick_right()
        ax.set_xticks([0.0, largest], ["0", f"{largest:.2g}"])
    ax.set_xlabel(label, fontsize=FONT - 2, parse_math=False)
