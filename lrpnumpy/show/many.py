"""Pictures of many explanations by feature: bars of mean absolute relevance with intervals, and a beeswarm."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lrpnumpy.meant import door
from lrpnumpy.result import Explanation
from lrpnumpy.show.canvas import (
    FONT,
    VALUE_MAP,
    axes_for,
    color_scale,
    figure_of,
    line_color,
    name_rows,
    set_title,
    unit_label,
)
from lrpnumpy.show.cohorts import COLORS, Z95, Cohorts, legend, mean_and_error
from lrpnumpy.show.parts import by_variable, feature_names, short, shown

FEATURES = 20  # rows of a beeswarm or of bars
DOTS = 3000  # of a row of a beeswarm
BINS = 120  # of a row of a beeswarm


class FeatureSums(NamedTuple):
    """Many explanations, summed over the steps of each."""

    relevance: np.ndarray  # (N, F) the sum over steps
    size: np.ndarray  # (N, F) the sum of magnitudes
    values: np.ndarray | None  # (N, F) the mean over steps
    names: list[str]
    cohorts: Cohorts


@door
def bars(
    many: Iterable[Explanation], by: str | Sequence[Any] | None = None, ax: Axes | None = None, width: float = 8.0
) -> Figure:
    """Mean absolute relevance of each feature over `many` explanations, with 95 % intervals of the mean.

    Magnitudes are summed over the steps of an explanation. With `by` there is a bar for each group: "class" is that
    explained, "year", "season" and "month" are those of the prediction, and a list has one label for each explanation.
    Of more than 20 features those of most relevance are drawn, which the picture says.
    """
    sums = _sums(many, "bars")
    groups = sums.cohorts.groups(by)
    order = np.argsort(-sums.size.mean(axis=0), kind="stable")[:FEATURES]
    thick = 0.8 / len(groups)
    ax = axes_for(ax, width, 1.2 + len(order) * (0.26 if len(groups) == 1 else 0.14 + 0.14 * len(groups)))
    ink = line_color(ax)
    for k, (name, rows) in enumerate(groups.items()):
        mean, error = mean_and_error(sums.size[rows])
        places = np.arange(len(order)) + (k - (len(groups) - 1) / 2) * thick
        label = None if name is None else f"{short(name)} ({len(rows)})"
        ax.barh(places, mean[order], height=0.92 * thick, color=COLORS[k], label=label)
        ax.errorbar(mean[order], places, xerr=Z95 * error[order], fmt="none", ecolor=ink, elinewidth=1, capsize=2)
    _rows_of_features(ax, [sums.names[d] for d in order], len(sums.names))
    ax.set_xlim(left=0)
    if by is not None:
        legend(ax)
    ax.set_xlabel(
        unit_label("mean over explanations of |relevance|, summed over steps", sums.cohorts.first), fontsize=FONT - 2
    )
    set_title(ax, sums.cohorts.headline("mean absolute relevance"))
    return figure_of(ax)


@door
def beeswarm(many: Iterable[Explanation], ax: Axes | None = None, width: float = 8.0) -> Figure:
    """Relevance against value, feature by feature: a dot for each of `many` explanations.

    Its place is the relevance of the feature, summed over steps, and its colour the value, the mean over steps, from
    the feature's 5th percentile to its 95th. Of more than 20 features those of most relevance are drawn, and of more
    than 3,000 explanations every k-th, which the picture says.
    """
    sums = _sums(many, "beeswarm")
    drawn = np.flatnonzero(np.isfinite(sums.relevance).all(axis=1))
    drawn = drawn[:: -(-len(drawn) // DOTS) or 1]
    order = np.argsort(-np.abs(sums.relevance[drawn]).sum(axis=0), kind="stable")[:FEATURES]
    R = sums.relevance[drawn][:, order]
    ax = axes_for(ax, width, 1.2 + 0.42 * len(order))
    ink = line_color(ax)
    heights = _spread(R) + np.arange(len(order))
    look: dict[str, Any] = {"s": 9 if len(R) < 500 else 5, "linewidths": 0, "rasterized": True}
    if sums.values is None:
        ax.scatter(R.ravel(), heights.ravel(), color=ink, **look)
    else:
        shares = _shares(sums.values[:, order])[drawn]
        dots = ax.scatter(R.ravel(), heights.ravel(), c=shares.ravel(), cmap=VALUE_MAP, vmin=0, vmax=1, **look)
        color_scale(ax, dots, (1.02, 0.0, 0.014, 1.0), "value of the feature (mean over steps)")
        bar = ax.child_axes[-1]
        bar.set_yticks([0, 1], ["low", "high"])
    ax.axvline(0, color=ink, linewidth=0.8, zorder=0)
    _rows_of_features(ax, [sums.names[d] for d in order], len(sums.names))
    some = "" if len(drawn) == len(sums.relevance) else f"   ({len(R)} of {len(sums.relevance)} explanations are drawn)"
    label = unit_label("relevance, summed over steps", sums.cohorts.first) + some
    ax.set_xlabel(label, fontsize=FONT - 2, parse_math=False)
    set_title(ax, sums.cohorts.headline("relevance by feature"))
    return figure_of(ax)


def _sums(many: Iterable[Explanation], what: str) -> FeatureSums:
    """Relevance and values of each feature of every input, for each explanation."""
    relevance, size, values, cohorts = [], [], [], Cohorts(many, what)
    with np.errstate(invalid="ignore"):  # what is not finite is left out later
        for e in cohorts:
            parts = shown(by_variable(e, what), what)
            relevance.append(np.concatenate([part.relevance.sum(axis=0) for part in parts]))
            size.append(np.concatenate([np.abs(part.relevance).sum(axis=0) for part in parts]))
            if all(part.values is not None for part in parts):
                values.append(np.concatenate([part.values.mean(axis=0) for part in parts]))  # type: ignore[union-attr]
    known = np.array(values) if len(values) == len(size) else None
    return FeatureSums(np.array(relevance), np.array(size), known, feature_names(shown(cohorts.first, what)), cohorts)


def _spread(R: np.ndarray) -> np.ndarray:
    """(N, F) how far each dot stands from the middle of its row: dots of similar relevance stand beside each other."""
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


def _rows_of_features(ax: Axes, names: list[str], count: int) -> None:
    """One row a feature, the first at the top."""
    name_rows(ax, names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    if len(names) < count:
        ax.set_ylabel(f"{len(names)} of {count} features, those of most relevance", fontsize=FONT - 2)
    ax.tick_params(axis="x", labelsize=FONT - 2)
    ax.spines[["top", "right"]].set_visible(False)
