"""Pictures of many explanations by feature: bars of mean absolute relevance with intervals, a beeswarm, a heat map."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from lrpnumpy.meant import door
from lrpnumpy.result import Explanation
from lrpnumpy.show import canvas
from lrpnumpy.show.cohorts import (
    GROUPS,
    Z95,
    Cohorts,
    Paint,
    draw_panels,
    legend,
    map_of_groups,
    mean_and_error,
)  # fmt: skip
from lrpnumpy.show.parts import by_variable, prefix, short, shown
from lrpnumpy.targets import Panel

FEATURES = 20  # rows of a beeswarm or of bars
DOTS = 3000  # of a row of a beeswarm
BINS = 120  # of a row of a beeswarm
RELEVANCE, SIZE = 0, 1  # what rows are ordered by


class FeatureSums(NamedTuple):
    """Many explanations, summed over the steps of each: of words, over those that are the same token."""

    relevance: np.ndarray  # (N, F) the sum over steps; NaN where an explanation does not have the token
    size: np.ndarray  # (N, F) the sum of magnitudes, 0 there
    values: np.ndarray | None  # (N, F) the mean over steps
    names: list[str]
    cohorts: Cohorts
    total: int  # of all features, of which these are those of most relevance


@door
def bars(
    many: Iterable[Explanation],
    by: str | Sequence[Any] | None = None,
    target: int | str | None = None,
    ax: Axes | None = None,
    width: float = 8.0,
    title: str | None = None,
    cmap: Any = None,
) -> Figure:
    """Mean absolute relevance of each feature over `many` explanations, with 95 % intervals of the mean.

    Magnitudes are summed over the steps of an explanation; of a text there is a bar for each token. With `by` there is
    a bar for each group: "class" is that explained, "year", "season" and "month" are those of the prediction, and a
    list has one label for each explanation. More than 6 groups are drawn as a map. `target` is the class that all are
    explained for; None is the one that was explained, the positive one of two classes, or a panel for each class, and
    "predicted" mixes the predicted classes. If there are more than 20 features, the most relevant are drawn; a note
    states it.
    """

    def draw(panel: Panel, labels: Any) -> tuple[float, Paint]:
        sums = _sums(panel, "bars", SIZE)
        groups = sums.cohorts.groups(labels)

        def paint(ax: Axes) -> None:
            if len(groups) > GROUPS:
                table = np.array([mean_and_error(sums.size[rows])[0] for rows in groups.values()]).T
                map_of_groups(ax, table, groups, sums.cohorts.label("mean |relevance|"), cmap)
            else:
                _paint_bars(ax, sums, groups)
            _rows_of_features(ax, sums)
            sums.cohorts.finish(ax, "mean |relevance| per feature")

        row = 0.14 + 0.14 * len(groups) if 1 < len(groups) <= GROUPS else 0.26
        return 1.4 + row * len(sums.names), paint

    return draw_panels(draw, many, by, target, ax, width, "bars", title)


def _paint_bars(ax: Axes, sums: FeatureSums, groups: dict[str | None, np.ndarray]) -> None:
    """For each feature a bar for each group."""
    thick = 0.8 / len(groups)
    for k, (name, rows) in enumerate(groups.items()):
        mean, error = mean_and_error(sums.size[rows])
        places = np.arange(len(mean)) + (k - (len(groups) - 1) / 2) * thick
        ax.barh(places, mean, height=0.92 * thick, color=f"C{k}", label=f"{short(name)} ({len(rows)})")
        lines: dict[str, Any] = {"ecolor": canvas.line_color(ax), "elinewidth": 1, "capsize": 2}
        ax.errorbar(mean, places, xerr=Z95 * error, fmt="none", **lines)
    ax.set_xlim(left=0)
    if None not in groups:
        legend(ax)
    ax.set_xlabel(sums.cohorts.label("mean over explanations of |relevance|, summed over steps"), fontsize=canvas.SMALL)


@door
def beeswarm(
    many: Iterable[Explanation],
    target: int | str | None = None,
    ax: Axes | None = None,
    width: float = 8.0,
    title: str | None = None,
    cmap: Any = None,
) -> Figure:
    """Relevance against value, feature by feature: a dot for each of `many` explanations.

    Its place is the relevance of the feature, summed over steps, and its color the value, the mean over steps, from the
    feature's 5th percentile to its 95th; text has one row per token. `target` is as in `bars`. If there are more than
    20 features, the most relevant are drawn, and of more than 3,000 explanations every k-th; a note states it.
    """
    return draw_panels(lambda panel, by: _beeswarm(panel, cmap), many, None, target, ax, width, "beeswarm", title)


def _beeswarm(panel: Panel, cmap: Any) -> tuple[float, Paint]:
    sums = _sums(panel, "beeswarm", RELEVANCE)
    drawn = np.flatnonzero(np.isfinite(sums.size).all(axis=1))
    drawn = drawn[:: -(-len(drawn) // DOTS) or 1]
    R = sums.relevance[drawn]
    known = np.isfinite(R)
    heights = _spread(R) + np.arange(R.shape[1])
    look: dict[str, Any] = {"s": 9, "linewidths": 0, "rasterized": True}
    if len(R) >= 500:
        look["s"] = 5

    def paint(ax: Axes) -> None:
        ink, label = canvas.line_color(ax), sums.cohorts.label("relevance, summed over steps")
        if sums.values is None:
            ax.scatter(R[known], heights[known], color=ink, **look)
        else:
            colors = _shares(sums.values)[drawn][known]
            look.update(cmap=canvas.colors(cmap, canvas.VALUE_MAP), vmin=0, vmax=1)
            dots = ax.scatter(R[known], heights[known], c=colors, **look)
            canvas.color_scale(ax, dots, "value of the feature (mean over steps)")
            ax.child_axes[-1].set_yticks([0, 1], ["low", "high"])
        ax.axvline(0, color=ink, linewidth=0.8, zorder=0)
        _rows_of_features(ax, sums)
        total = len(sums.relevance)
        if len(drawn) < total:
            label += f"   ({len(R)} of {total} explanations are drawn)"
        canvas.set_labels(ax, label)
        sums.cohorts.finish(ax, "relevance per feature")

    return 1.2 + 0.36 * len(sums.names), paint


@door
def heatmap(
    many: Iterable[Explanation],
    target: int | str | None = None,
    ax: Axes | None = None,
    width: float = 8.0,
    title: str | None = None,
    cmap: Any = None,
) -> Figure:
    """Relevance of every feature, a row, in each of `many` explanations, a column, in the order of their scores.

    The score f(x) of each is above, with the base value as a dashed line; mean absolute relevance is at the side.
    Relevance is summed over steps; of a text there is a row for each token. `target` is as in `bars`. Of more than 20
    features, the most relevant are drawn; a note states it.
    """
    return draw_panels(lambda panel, by: _heatmap(panel, cmap), many, None, target, ax, width, "heatmap", title)


def _heatmap(panel: Panel, cmap: Any) -> tuple[float, Paint]:
    sums = _sums(panel, "heatmap", SIZE)
    scores = np.array(sums.cohorts.scores)
    order = np.argsort(scores, kind="stable")
    table = np.nan_to_num(sums.relevance[order], posinf=0.0, neginf=0.0).T  # (F, N)
    count, size = table.shape[1], mean_and_error(sums.size)[0]

    def paint(ax: Axes) -> None:
        ax.set_axis_off()
        above = ax.inset_axes((0.0, 0.82, 0.8, 0.18))
        place = ax.inset_axes((0.0, 0.0, 0.8, 0.78), sharex=above)
        side = ax.inset_axes((0.82, 0.0, 0.13, 0.78), sharey=place)
        image = canvas.heat(place, table, canvas.Scale(table), canvas.colors(cmap, canvas.relevance_map(ax)))
        _rows_of_features(place, sums)
        place.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        canvas.set_labels(place, "records, in the order of f(x)")
        style: dict[str, Any] = {"color": canvas.line_color(ax)}
        dots: dict[str, Any] = {"marker": "o", "markersize": 3} if count < 30 else {}
        above.plot(np.arange(count), scores[order], **style, **dots)
        above.axhline(float(np.mean(sums.cohorts.bases)), linestyle="--", linewidth=0.8, **style)
        above.set_xlim(-0.5, count - 0.5)
        canvas.set_labels(above, None, sums.cohorts.label("f(x)"))
        above.tick_params(labelbottom=False)
        side.barh(np.arange(len(size)), size, color=canvas.NEUTRAL[0], height=0.8)
        side.xaxis.set_major_locator(MaxNLocator(2, prune="lower"))
        canvas.set_labels(side, "mean\n|relevance|", hidden=("top", "right", "left"))
        side.tick_params(labelleft=False, left=False)
        canvas.color_scale(ax, image, sums.cohorts.label("relevance"), (0.97, 0.0, 0.014, 0.78))
        sums.cohorts.finish(ax, "relevance per feature and record")

    return 2.4 + 0.26 * len(sums.names), paint


def _sums(panel: Panel, what: str, most: int) -> FeatureSums:
    """Relevance and values of each feature of every input, for each explanation: those that have `most` in all."""
    rows: list[dict[str, tuple[float, float, float]]] = []
    cohorts = Cohorts(panel, what)
    with np.errstate(invalid="ignore"):  # what is not finite is left out later
        for e in cohorts:
            rows.append(_of_features(by_variable(e, what), what))
    total: dict[str, float] = {}
    for row in rows:
        for name, numbers in row.items():
            total[name] = total.get(name, 0.0) + abs(np.nan_to_num(numbers[most], posinf=0.0, neginf=0.0))
    names = sorted(total, key=lambda name: -total[name])[:FEATURES]
    missing = (np.nan, 0.0, np.nan)
    table = np.array([[row.get(name, missing) for name in names] for row in rows])  # (N, F, 3)
    relevance, size, values = np.moveaxis(table, -1, 0)
    known: np.ndarray | None = values if np.isfinite(values).all() else None
    return FeatureSums(relevance, size, known, names, cohorts, len(total))


def _of_features(e: Explanation, what: str) -> dict[str, tuple[float, float, float]]:
    """By name: relevance, its magnitude, and the value of each feature; of words of each token, without a value."""
    sums: dict[str, tuple[float, float, float]] = {}
    for part, given in zip(shown(e, what), e.inputs.values(), strict=True):
        before = prefix(e, part.name)
        if given.tokens is not None:
            for word, value in zip(given.shown_steps, given.relevance.tolist(), strict=True):
                relevance, size, _ = sums.get(before + word, (0.0, 0.0, 0.0))
                sums[before + word] = relevance + value, size + abs(value), np.nan
            continue
        for d, name in enumerate(part.features):
            column, mean = part.relevance[:, d], np.nan
            if part.values is not None:
                mean = part.values[:, d].mean()
            sums[before + name] = column.sum(), np.abs(column).sum(), mean
    return sums


def _spread(R: np.ndarray) -> np.ndarray:
    """(N, F) the distance of each dot from the middle of its row: dots of similar relevance are side by side."""
    R = np.nan_to_num(R)
    low, high = float(R.min(initial=0)), float(R.max(initial=0))
    bins = np.minimum((R - low) / ((high - low) or 1.0) * BINS, BINS - 1).astype(np.int64)
    nth = np.empty(R.shape)  # dots of the same bin are counted 0, 1, 2, …
    for d, column in enumerate(bins.T):
        order = np.argsort(column, kind="stable")
        counts = np.bincount(column, minlength=BINS)
        nth[order, d] = np.arange(len(column)) - np.repeat(np.cumsum(counts) - counts, counts)
    sides = np.ceil(nth / 2) * np.where(nth % 2 == 0, 1, -1)  # 0, -1, 1, -2, 2, …
    return sides * min(0.05, 0.42 / max(1.0, np.abs(sides).max(initial=0)))


def _shares(values: np.ndarray) -> np.ndarray:
    """Values of each feature from 0 (its 5th percentile) to 1 (its 95th); a constant feature is in the middle."""
    low, high = np.quantile(values, [0.05, 0.95], axis=0)
    size = np.where(high > low, high - low, 1.0)
    return np.where(high > low, np.clip((values - low) / size, 0, 1), 0.5)


def _rows_of_features(ax: Axes, sums: FeatureSums) -> None:
    """One row per feature, the first at the top."""
    canvas.name_rows(ax, sums.names)
    canvas.set_labels(ax)
    if len(sums.names) < sums.total:
        kind = "tokens" if sums.cohorts.first.tokens is not None else "features"
        canvas.set_labels(ax, y=f"the {len(sums.names)} most relevant of {sums.total} {kind}")
