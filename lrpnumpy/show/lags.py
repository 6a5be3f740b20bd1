"""Pictures of how far back relevance lies: a memory curve over many explanations, a map of horizons and lags."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lrpnumpy.checks import LrpError
from lrpnumpy.result import Explanation
from lrpnumpy.show.canvas import (
    FONT,
    Scale,
    axes_for,
    color_scale,
    figure_of,
    line_color,
    relevance_map,
    set_title,
    unit_label,
)
from lrpnumpy.show.cohorts import COLORS, Z95, groups_of, headline, legend, mean_and_error
from lrpnumpy.show.parts import grouped, of_one_class, short, step_unit


def memory(
    many: Iterable[Explanation], by: Sequence[Any] | None = None, ax: Axes | None = None, width: float = 8.0
) -> Figure:
    """How far back relevance lies: its magnitude at each lag before the prediction, over many explanations.

    The line is the mean, the bands hold the middle half and the middle nine tenths, and a mark says within how many
    steps of the prediction half of it lies. With `by`, one label for each explanation (season, cohort, true class),
    there is a line for each group, with its 95 % interval.
    """
    lags, first, count, same = _by_lag(many)
    groups = groups_of(by, count, "memory")
    ax = axes_for(ax, width, 3.4)
    ink, unit = line_color(ax), step_unit(first.labels)
    steps = np.arange(lags.shape[1])
    for k, (name, rows) in enumerate(groups.items()):
        some = lags[rows]
        mean, error = mean_and_error(some)
        half = _half(mean)
        says = f"half within {half} {unit}{'' if half == 1 else 's'}"
        if name is None:
            for inside, alpha in ((0.9, 0.15), (0.5, 0.3)):
                low, high = _quantiles(some, [(1 - inside) / 2, (1 + inside) / 2])
                ax.fill_between(steps, low, high, color="C0", alpha=alpha, linewidth=0, label=f"{inside:.0%} of them")
            ax.plot(steps, mean, color="C0", label="mean")
            ax.axvline(half, color=ink, linestyle="--", linewidth=1, label=says)
        else:
            color = f"C{k % COLORS}"
            ax.fill_between(steps, mean - Z95 * error, mean + Z95 * error, color=color, alpha=0.25, linewidth=0)
            ax.plot(steps, mean, color=color, label=f"{short(name)} ({len(some)}): {says}")
            ax.axvline(half, color=color, linestyle="--", linewidth=1)
    ax.set_xlim(0, max(1, len(steps) - 1))
    ax.set_ylim(bottom=0)
    legend(ax)
    ax.set_xlabel(f"{unit}s before the prediction", fontsize=FONT - 2)
    ax.set_ylabel(unit_label("|relevance|", first), fontsize=FONT - 2, parse_math=False)
    ax.tick_params(labelsize=FONT - 2)
    ax.spines[["top", "right"]].set_visible(False)
    set_title(ax, headline("relevance by lag", first, count, same))
    return figure_of(ax)


def horizons(items: Explanation | Iterable[Explanation], ax: Axes | None = None, width: float = 8.0) -> Figure:
    """A map of forecast horizon and lag: which steps matter for a forecast of one step ahead, of two, of three.

    `items` is an explanation of all outputs (target="all"), or several such, whose mean is drawn. The outputs of the
    network are the horizons, named by the classes of the model, or numbered from 1.
    """
    many = [items] if isinstance(items, Explanation) else items
    table, first, count = np.zeros((0, 0)), None, 0
    for e in many:
        if e.target != "all":
            raise LrpError(
                "horizons must get explanations of all outputs, got one of a single output; use target='all'."
            )
        C, T = e.relevance.shape
        if table.shape[1] < T:
            table = np.pad(table, ((0, C - len(table)), (0, T - table.shape[1])))
        table[:, :T] += e.relevance[:, ::-1]
        first, count = first or e, count + 1
    if first is None:
        raise LrpError("horizons must get at least one explanation, got none.")
    table /= count
    C, T = table.shape
    ax = axes_for(ax, width, 1.2 + min(6.0, 0.25 * C + 0.4))
    unit = step_unit(first.labels)
    cells, group = grouped(table.T)
    image = ax.imshow(
        cells.T, cmap=relevance_map(ax), norm=Scale(cells), aspect="auto", interpolation="nearest",
        extent=(-0.5, len(cells) * group - 0.5, C - 0.5, -0.5),
    )  # fmt: skip
    shown_rows = range(0, C, -(-C // 25))
    names = [short(first.classes[c]) if first.classes else str(c + 1) for c in shown_rows]
    ax.set_yticks(shown_rows, names, fontsize=FONT - 2, parse_math=False)
    ax.set_xlim(T - 0.5, -0.5)  # time goes to the right
    ax.tick_params(axis="x", labelsize=FONT - 2)
    ax.set_ylabel("output" if first.classes else "horizon", fontsize=FONT - 2)
    note = "" if group == 1 else f"   (each column is the sum of {group} {unit}s)"
    ax.set_xlabel(f"{unit}s before the last one{note}", fontsize=FONT - 2)
    color_scale(ax, image, (1.02, 0.0, 0.014, 1.0), unit_label("relevance", first))
    mean = "" if count == 1 else f", mean of {count} explanations"
    set_title(ax, f"{first.method}: relevance by horizon and lag{mean}")
    return figure_of(ax)


def _by_lag(many: Iterable[Explanation]) -> tuple[np.ndarray, Explanation, int, bool]:
    """|relevance| by lag (N, longest), NaN beyond the first step of each; the first explanation; whether one target."""
    found, targets, first = [], set(), None
    for e in many:
        step = (of_one_class(e, "memory").options or {}).get("step", -1)  # that of the prediction
        found.append(np.abs(e.relevance[: range(len(e))[step] + 1][::-1]))
        targets.add(e.target)
        first = first or e
    if first is None:
        raise LrpError("memory must get at least one explanation, got none.")
    lags = np.full((len(found), max(map(len, found))), np.nan)
    for row, one in zip(lags, found, strict=True):
        row[: len(one)] = one
    return lags, first, len(found), len(targets) == 1


def _quantiles(rows: np.ndarray, shares: list[float]) -> np.ndarray:
    """Quantiles of each column, of the numbers that are not NaN."""
    if np.isfinite(rows).all():
        return np.quantile(rows, shares, axis=0)
    columns = [column[np.isfinite(column)] for column in rows.T]
    return np.array([np.quantile(column, shares) if len(column) else [0.0] * len(shares) for column in columns]).T


def _half(mean: np.ndarray) -> int:
    """How many steps, counted back from the prediction, hold half of the relevance."""
    reached = np.cumsum(mean)
    return int(np.searchsorted(reached, reached[-1] / 2)) + 1
