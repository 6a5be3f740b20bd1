"""Pictures of how far back relevance lies: a memory curve, and maps of horizons or predictions and lags."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter

from lrpnumpy.checks import LrpError, readable
from lrpnumpy.meant import door
from lrpnumpy.result import Explanation
from lrpnumpy.show.canvas import (
    SMALL,
    Scale,
    axes_for,
    color_scale,
    figure_of,
    line_color,
    relevance_map,
    set_title,
    unit_label,
)
from lrpnumpy.show.cohorts import COLORS, Z95, Cohorts, Paint, draw_panels, legend, mean_and_error
from lrpnumpy.show.parts import grouped, short, step_unit
from lrpnumpy.targets import PREDICTED, Panel, panels

ROWS = 200  # of a map of predictions


@door
def memory(
    many: Iterable[Explanation],
    by: str | Sequence[Any] | None = None,
    target: int | str | None = None,
    ax: Axes | None = None,
    width: float = 8.0,
    title: str | None = None,
) -> Figure:
    """How far back relevance lies: its magnitude at each lag before the prediction, over `many` explanations.

    The line is the mean, the bands hold the middle half and the middle nine tenths, and a mark shows within how many
    steps of the prediction half of it lies. Where the mean falls below a thirtieth of its largest value, the axis is
    logarithmic. With `by` there is a line for each group, with its 95 % interval: "class" is that explained, "year",
    "season" and "month" are those of the prediction, and a list has one label for each explanation. `target` is as in
    `bars`.
    """
    return draw_panels(_memory, many, by, target, ax, width, "memory", title)


def _memory(panel: Panel, by: Any) -> tuple[float, Paint]:
    cohorts = Cohorts(panel, "memory")
    lags = _by_lag(cohorts, _magnitude)
    groups, first = cohorts.groups(by), cohorts.first
    unit, steps = step_unit(first.labels), np.arange(lags.shape[1])

    def paint(ax: Axes) -> None:
        for k, (name, rows) in enumerate(groups.items()):
            some = lags[rows]
            mean, error = mean_and_error(some)
            half = _half(mean)
            says = f"half within {half} {unit}{'' if half == 1 else 's'}"
            if name is None:
                for inside, alpha in ((0.9, 0.15), (0.5, 0.3)):
                    low, high = _quantiles(some, [(1 - inside) / 2, (1 + inside) / 2])
                    label = f"middle {inside:.0%}"
                    ax.fill_between(steps, low, high, color="C0", alpha=alpha, linewidth=0, label=label)
                ax.plot(steps, mean, color="C0", label="mean")
                ax.axvline(half, color=line_color(ax), linestyle="--", linewidth=1, label=says)
            else:
                color = COLORS[k]
                ax.fill_between(steps, mean - Z95 * error, mean + Z95 * error, color=color, alpha=0.25, linewidth=0)
                ax.plot(steps, mean, color=color, label=f"{short(name)} ({len(some)}): {says}")
                ax.axvline(half, color=color, linestyle="--", linewidth=1)
        ax.set_xlim(0, max(1, len(steps) - 1))
        _set_height(ax, *(mean_and_error(lags[rows])[0] for rows in groups.values()))
        legend(ax)
        ax.set_xlabel(f"{unit}s before the prediction", fontsize=SMALL)
        summed = "" if first.feature_relevance is None or first.tokens is not None else ", summed over features"
        ax.set_ylabel(unit_label(f"|relevance|{summed}", first), fontsize=SMALL, parse_math=False)
        ax.tick_params(labelsize=SMALL)
        ax.spines[["top", "right"]].set_visible(False)
        set_title(ax, cohorts.headline("relevance by lag"), note=cohorts.facts())

    return 3.4, paint


@door
def horizons(
    items: Explanation | Iterable[Explanation],
    ax: Axes | None = None,
    width: float = 8.0,
    title: str | None = None,
    cmap: Any = None,
) -> Figure:
    """A map of forecast horizon and lag: which steps matter for a forecast of one step ahead, of two, of three.

    `items` is an explanation of all outputs (target="all"), or several such, whose mean is drawn. The outputs of the
    network are the horizons, named by the classes of the model, or numbered from 1.
    """
    many = [items] if isinstance(items, Explanation) else items
    table, first, count = np.zeros((0, 0)), None, 0
    scores: list[Any] = []
    bases: list[Any] = []
    for e in many:
        if e.target != "all":
            raise LrpError("horizons: the explanation is of a single output; explain all of them with target='all'.")
        C, T = e.relevance.shape
        if table.shape[1] < T:
            table = np.pad(table, ((0, C - len(table)), (0, T - table.shape[1])))
        table[:, :T] += e.relevance[:, ::-1]
        scores.append(e.scores)
        bases.append(0.0 if e.reference_score is None else e.reference_score)
        first, count = first or e, count + 1
    if first is None:
        raise LrpError("horizons: there are no explanations; pass at least one.")
    names = [first.classes[c] if first.classes else str(c + 1) for c in range(len(table))]
    mean = "" if count == 1 else f" (mean, n = {count})"
    ax = axes_for(ax, width, 1.2 + min(6.0, 0.25 * len(table) + 0.4))
    _lag_map(ax, table / count, names, first, "the last one", cmap)
    rows = "output" if first.classes else "horizon"
    ax.set_ylabel(rows, fontsize=SMALL)
    set_title(ax, title or f"{first.method}: relevance by {rows} and lag{mean}", note=_range(scores, bases, first))
    return figure_of(ax)


@door
def predictions(
    many: Iterable[Explanation],
    ax: Axes | None = None,
    width: float = 8.0,
    title: str | None = None,
    cmap: Any = None,
) -> Figure:
    """A map of prediction and lag: which of the steps before it each prediction goes back to.

    `many` are the windows of a series (`explain_windows`), or the predictions of every step (step="all"), in their
    order. With more than 200 of them, each row is the mean of several; a note in the picture states it.
    """
    (panel,) = panels(many, PREDICTED, "predictions")  # a row has the target of its prediction
    every = [*(cohorts := Cohorts(panel, "predictions"))]
    lags = _by_lag(every, lambda e: e.relevance)
    names = [e.shown(e.predicted_at) for e in every]
    if 2 * len({*names}) <= len(names):  # such as the full stops of sentences
        names = [str(k) for k in range(len(every))]
    sums, group = grouped(np.nan_to_num(lags), ROWS)
    counts = np.minimum(group, len(every) - group * np.arange(len(sums)))
    ax = axes_for(ax, width, 1.4 + min(4.0, 0.15 * len(sums) + 0.3))
    _lag_map(ax, sums / counts[:, None], names[::group], every[0], "the prediction", cmap)
    rows = "prediction" if group == 1 else f"predictions, a row is the mean of {group}"
    ax.set_ylabel(rows, fontsize=SMALL)
    set_title(ax, title or cohorts.headline("relevance by prediction and lag"), note=cohorts.facts())
    return figure_of(ax)


def _range(scores: list[Any], bases: list[Any], first: Explanation) -> str:
    """f(x) of all outputs and their base value, each as a range."""
    texts = []
    for values in (np.mean(scores, axis=0), np.mean(bases, axis=0)):
        low, high = f"{np.min(values):.4g}", f"{np.max(values):.4g}"
        texts.append(low if low == high else f"{low} to {high}")
    unit = f" {readable(first.output_unit)}" if first.output_unit else ""
    return f"f(x) = {texts[0]}{unit}, base value {texts[1]}{unit}"


def _lag_map(ax: Axes, table: np.ndarray, names: Sequence[str], first: Explanation, end: str, cmap: Any) -> None:
    """A map of rows and lags (rows, T), with the steps closest to the end at the right."""
    count, T = table.shape
    unit = step_unit(first.labels)
    cells, group = grouped(table.T)
    image = ax.imshow(
        cells.T, cmap=relevance_map(ax, cmap), norm=Scale(cells), aspect="auto", interpolation="nearest",
        extent=(-0.5, len(cells) * group - 0.5, count - 0.5, -0.5),
    )  # fmt: skip
    shown_rows = range(0, count, -(-count // 25))
    ax.set_yticks(shown_rows, [short(names[k]) for k in shown_rows], fontsize=SMALL, parse_math=False)
    ax.set_xlim(T - 0.5, -0.5)  # time goes to the right
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    ax.tick_params(axis="x", labelsize=SMALL)
    note = "" if group == 1 else f"   (each column is the sum of {group} {unit}s)"
    ax.set_xlabel(f"{unit}s before {end}{note}", fontsize=SMALL)
    color_scale(ax, image, (1.02, 0.0, 0.014, 1.0), unit_label("relevance", first))


def _by_lag(many: Iterable[Explanation], rows: Callable[[Explanation], np.ndarray]) -> np.ndarray:
    """Rows by lag (N, longest), NaN beyond the first step of each; `rows` gives one number for each step."""
    found = [rows(e)[e.predicted_at :: -1] for e in many]
    lags = np.full((len(found), max(map(len, found))), np.nan)
    for row, one in zip(lags, found, strict=True):
        row[: len(one)] = one
    return lags


def _magnitude(e: Explanation) -> np.ndarray:
    """|relevance| of each step, that of its features summed where they have one each; a word is one."""
    if e.feature_relevance is None or e.tokens is not None:
        return np.abs(e.relevance)
    return np.abs(e.feature_relevance).sum(axis=1)


def _quantiles(rows: np.ndarray, shares: list[float]) -> np.ndarray:
    """Quantiles of each column, of the numbers that are not NaN."""
    if np.isfinite(rows).all():
        return np.quantile(rows, shares, axis=0)
    columns = [column[np.isfinite(column)] for column in rows.T]
    return np.array([np.quantile(column, shares) if len(column) else [0.0] * len(shares) for column in columns]).T


def _set_height(ax: Axes, *means: np.ndarray) -> None:
    """Limits of the axis of y: from 0, or logarithmic where curves fall so far that their end could not be seen."""
    low, high = min(mean.min() for mean in means), max(mean.max() for mean in means)
    if low > high / 30 or high == 0:
        ax.set_ylim(bottom=0)
        return
    ax.set_yscale("log", nonpositive="clip")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_ylim(bottom=max(low / 3, high / 1e4))


def _half(mean: np.ndarray) -> int:
    """How many steps, counted back from the prediction, hold half of the relevance."""
    reached = np.cumsum(mean)
    return int(np.searchsorted(reached, reached[-1] / 2)) + 1
