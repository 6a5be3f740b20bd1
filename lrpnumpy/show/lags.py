"""Pictures of how far back relevance lies: a memory curve, and maps of horizons or predictions and lags."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from lrpnumpy.checks import LrpError
from lrpnumpy.meant import door
from lrpnumpy.result import Explanation
from lrpnumpy.show import canvas
from lrpnumpy.show.cohorts import COLORS, GROUPS, Z95, Cohorts, Paint, draw_panels, legend, mean_and_error
from lrpnumpy.show.parts import grouped, quantity, short, step_unit
from lrpnumpy.targets import PREDICTED, Panel, listed, panels

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
    steps of the prediction half of it lies. With `by` there is a line for each group, with its 95 % interval: "class"
    is that explained, "year", "season" and "month" are those of the prediction, and a list has one label for each
    explanation. More than 6 groups are drawn as a map. `target` is as in `bars`.
    """
    return draw_panels(_memory, many, by, target, ax, width, "memory", title)


def _memory(panel: Panel, by: Any) -> tuple[float, Paint]:
    cohorts = Cohorts(panel, "memory")
    lags = _by_lag(cohorts, _magnitude)
    groups, first = cohorts.groups(by), cohorts.first
    unit, label = step_unit(first.labels), "|relevance|"
    if first.feature_relevance is not None and first.tokens is None:
        label += ", summed over features"

    def paint(ax: Axes) -> None:
        if len(groups) > GROUPS:
            _map_of_lags(ax, lags, groups, cohorts.label("mean |relevance|"))
        else:
            for k, (name, rows) in enumerate(groups.items()):
                _curve(ax, lags[rows], name, COLORS[k], unit)
            ax.set_xlim(0, max(1, lags.shape[1] - 1))
            ax.set_ylim(bottom=0)
            legend(ax)
            canvas.set_labels(ax, None, cohorts.label(label))
        canvas.set_labels(ax, f"{unit}s before the prediction")
        cohorts.finish(ax, "relevance by lag")

    return 3.4, paint


def _curve(ax: Axes, lags: np.ndarray, name: str | None, color: str, unit: str) -> None:
    """The mean of a group with its 95 % interval; of all explanations, with the bands that hold most of them."""
    lags = np.where(np.isfinite(lags), lags, np.nan)
    lags[:, 0] = np.nan_to_num(lags[:, 0])
    lags = lags[:, ~np.isnan(lags).all(axis=0)]  # the longest of a group may be shorter than that of others
    steps, (mean, error) = np.arange(lags.shape[1]), mean_and_error(lags)
    half = _half(mean)
    note = f"half within {half} {unit}{'s' * (half > 1)}"
    if name is None:
        for inside, alpha in ((0.9, 0.15), (0.5, 0.3)):
            low, high = np.nanquantile(lags, [(1 - inside) / 2, (1 + inside) / 2], axis=0)
            ax.fill_between(steps, low, high, color=color, alpha=alpha, linewidth=0, label=f"middle {inside:.0%}")
        ax.plot(steps, mean, color=color, label="mean")
        ax.axvline(half, color=canvas.line_color(ax), linestyle="--", linewidth=1, label=note)
    else:
        ax.fill_between(steps, mean - Z95 * error, mean + Z95 * error, color=color, alpha=0.25, linewidth=0)
        ax.plot(steps, mean, color=color, label=f"{short(name)} ({len(lags)}): {note}")
        ax.axvline(half, color=color, linestyle="--", linewidth=1)


def _map_of_lags(ax: Axes, lags: np.ndarray, groups: dict[str | None, np.ndarray], label: str) -> None:
    """Mean magnitude of each group, a row, at each lag, a column; a mark shows within which lag half of it lies."""
    means = np.array([mean_and_error(lags[rows])[0] for rows in groups.values()])
    high = float(means.max()) or 1.0
    norm = LogNorm(high / 1e3, high, clip=True)
    image = canvas.heat(ax, means, norm, canvas.size_map(ax))
    canvas.name_rows(ax, [f"{short(name)} ({len(rows)})" for name, rows in groups.items()])
    for row, mean in enumerate(means):
        ax.plot([_half(mean)] * 2, [row - 0.4, row + 0.4], color=canvas.line_color(ax), linewidth=1.5)
    canvas.color_scale(ax, image, f"{label}\nbar: half of it lies within")


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
    if isinstance(items, Explanation):
        items = [items]
    many = [*listed(items, "horizons")]
    if not many:
        raise LrpError("horizons: there are no explanations; pass at least one.")
    if any(e.target != "all" for e in many):
        raise LrpError("horizons: the explanation is of a single output; explain all of them with target='all'.")
    first = many[0]
    table = np.zeros((len(first.scores), max(map(len, many))))
    for e in many:
        table[:, : len(e)] += e.relevance[:, ::-1] / len(many)
    rows, names = "horizon", [str(c + 1) for c in range(len(table))]
    if first.classes:
        rows, names = "output", [*first.classes]
    about = f"{first.method}: relevance by {rows} and lag"
    if len(many) > 1:
        about += f" (mean, n = {len(many)})"
    ax = canvas.axes_for(ax, width, 1.2 + min(6.0, 0.25 * len(table) + 0.4))
    _lag_map(ax, table, names, first, "the last one", cmap)
    canvas.set_labels(ax, y=rows, hidden=())
    bases = [np.zeros(1) if e.reference_score is None else e.reference_score for e in many]
    scores, base = (_range(np.mean(values, axis=0), first) for values in ([e.scores for e in many], bases))
    canvas.set_title(ax, title or about, f"f(x) = {scores}, base value {base}")
    return canvas.figure_of(ax)


@door
def predictions(
    many: Iterable[Explanation], ax: Axes | None = None, width: float = 8.0, title: str | None = None, cmap: Any = None
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
    ax = canvas.axes_for(ax, width, 1.4 + min(4.0, 0.15 * len(sums) + 0.3))
    _lag_map(ax, sums / counts[:, None], names[::group], every[0], "the prediction", cmap)
    rows = f"predictions, a row is the mean of {group}" if group > 1 else "prediction"
    canvas.set_labels(ax, y=rows, hidden=())
    canvas.set_title(ax, title or cohorts.headline("relevance by prediction and lag"), cohorts.facts())
    return canvas.figure_of(ax)


def _range(values: np.ndarray, e: Explanation) -> str:
    """From the least of some values to the largest, with the unit."""
    low, high = (quantity(value, e) for value in (values.min(), values.max()))
    return low if low == high else f"{float(values.min()):.4g} to {high}"


def _lag_map(ax: Axes, table: np.ndarray, names: Sequence[str], first: Explanation, end: str, cmap: Any) -> None:
    """A map of rows and lags (rows, T), with the steps closest to the end at the right."""
    count, T = table.shape
    label = f"{step_unit(first.labels)}s before {end}"
    cells, group = grouped(table.T)
    image = canvas.heat(ax, cells.T, canvas.Scale(cells), cmap or canvas.relevance_map(ax), group)
    rows = range(0, count, -(-count // 25))
    ax.set_yticks(rows, [short(names[k]) for k in rows], parse_math=False)
    ax.set_xlim(T - 0.5, -0.5)  # time goes to the right
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    if group > 1:
        label += f"   (each column is the sum of {group} {step_unit(first.labels)}s)"
    canvas.set_labels(ax, label, hidden=())
    canvas.color_scale(ax, image, canvas.unit_label("relevance", first))


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


def _half(mean: np.ndarray) -> int:
    """How many steps, counted back from the prediction, hold half of the relevance."""
    reached = np.cumsum(mean)
    return int(np.searchsorted(reached, reached[-1] / 2)) + 1
