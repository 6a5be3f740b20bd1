"""Pictures of how far back relevance lies: a memory curve, and a map of horizons and lags."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from lrpnumpy.show.cohorts import GROUPS, Z95, Cohorts, Paint, draw_panels, legend, mean_and_error
from lrpnumpy.show.parts import grouped, quantity, short, step_unit
from lrpnumpy.targets import Panel, listed


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
    "season" and "month" are those of the prediction, and a list has one label for each explanation. More than 6 groups
    are drawn as a map. `target` is as in `bars`.
    """
    return draw_panels(_memory, many, by, target, ax, width, "memory", title)


def _memory(panel: Panel, by: Any) -> tuple[float, Paint]:
    cohorts = Cohorts(panel, "memory")
    lags = _magnitudes(cohorts)
    groups, first = cohorts.groups(by), cohorts.first
    unit, label = step_unit(first.labels), "|relevance|"
    if first.feature_relevance is not None and first.tokens is None:
        label += ", summed over features"

    def paint(ax: Axes) -> None:
        if len(groups) > GROUPS:
            _map_of_lags(ax, lags, groups, cohorts.label("mean |relevance|"))
        else:
            for k, (name, rows) in enumerate(groups.items()):
                _curve(ax, lags[rows], name, f"C{k}", unit)
            ax.set_xlim(0, max(1, lags.shape[1] - 1))
            mean, _ = mean_and_error(lags)
            if mean.min() < mean.max() / 30:  # the end of a curve that falls so far could not be seen
                ax.set_yscale("log", nonpositive="clip")
                ax.yaxis.set_major_formatter("{x:g}")
                ax.set_ylim(bottom=max(mean.min() / 3, mean.max() / 1e4))
            else:
                ax.set_ylim(bottom=0)
            legend(ax)
            canvas.set_labels(ax, None, cohorts.label(label))
        canvas.set_labels(ax, f"{unit}s before the prediction")
        cohorts.finish(ax, "relevance by lag")

    return 3.4, paint


def _curve(ax: Axes, lags: np.ndarray, name: str | None, color: str, unit: str) -> None:
    """The mean of a group with its 95 % interval; of all explanations, with the bands that hold most of them."""
    lags = np.where(np.isfinite(lags), lags, np.nan)
    if np.isnan(lags[:, 0]).all():  # a curve has a point at least
        lags[:, 0] = 0
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
    unit, (cells, group) = step_unit(first.labels), grouped(table.T)
    image = canvas.heat(ax, cells.T, canvas.Scale(cells), canvas.colors(cmap, canvas.relevance_map(ax)), group)
    some = range(0, len(table), -(-len(table) // 25))
    ax.set_yticks(some, [short(names[k]) for k in some], parse_math=False)
    ax.set_xlim(table.shape[1] - 0.5, -0.5)  # time goes to the right
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    note = f"   (each column is the sum of {group} {unit}s)" if group > 1 else ""
    canvas.set_labels(ax, f"{unit}s before the last one{note}", rows, hidden=())
    canvas.color_scale(ax, image, canvas.unit_label("relevance", first))
    bases = [np.zeros(1) if e.reference_score is None else e.reference_score for e in many]
    scores, base = (_range(np.mean(values, axis=0), first) for values in ([e.scores for e in many], bases))
    canvas.set_title(ax, title or about, f"f(x) = {scores}, base value {base}")
    return canvas.figure_of(ax)


def _range(values: np.ndarray, e: Explanation) -> str:
    """From the least of some values to the largest, with the unit."""
    low, high = (quantity(value, e) for value in (values.min(), values.max()))
    return low if low == high else f"{float(values.min()):.4g} to {high}"


def _magnitudes(many: Iterable[Explanation]) -> np.ndarray:
    """|relevance| by lag (N, longest), of features summed where they have one each; NaN beyond each first step."""
    found = []
    for e in many:
        per_step = np.abs(e.relevance)
        if e.feature_relevance is not None and e.tokens is None:
            per_step = np.abs(e.feature_relevance).sum(axis=1)
        found.append(per_step[e.predicted_at :: -1])
    lags = np.full((len(found), max(map(len, found))), np.nan)
    for row, values in zip(lags, found, strict=True):
        row[: len(values)] = values
    return lags


def _half(mean: np.ndarray) -> int:
    """How many steps, counted back from the prediction, hold half of the relevance."""
    reached = np.cumsum(mean)
    return int(np.searchsorted(reached, reached[-1] / 2)) + 1
