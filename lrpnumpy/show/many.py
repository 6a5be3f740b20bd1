"""Pictures of many explanations: memory curve, beeswarm, bars with intervals, map of horizons and lags."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lrpnumpy.checks import LrpError
from lrpnumpy.result import Explanation
from lrpnumpy.show.canvas import (
    FONT,
    VALUE_MAP,
    axes_for,
    color_scale,
    figure_of,
    grouped,
    line_color,
    name_rows,
    relevance_map,
    set_title,
    short,
    step_unit,
    subject,
    symmetric,
    unit_label,
)
from lrpnumpy.show.parts import by_variable, feature_names, of_one_class, shown

FEATURES = 20  # rows of a beeswarm or of bars
DOTS = 3000  # of a row of a beeswarm
BINS = 120  # of a row of a beeswarm
COLORS = 10  # cohorts that can be told apart
Z95 = 1.96  # half the width of a 95 % interval in standard errors


class Sums(NamedTuple):
    """Many explanations, summed over the steps of each."""

    relevance: np.ndarray  # (N, F) the sum over steps
    size: np.ndarray  # (N, F) the sum of magnitudes
    values: np.ndarray | None  # (N, F) the mean over steps
    names: list[str]
    first: Explanation
    same: bool  # all are of one target


def memory(
    many: Iterable[Explanation], by: Sequence[Any] | None = None, ax: Axes | None = None, width: float = 8.0
) -> Figure:
    """How far back relevance lies: its magnitude at each lag before the prediction, over many explanations.

    The line is the mean, the bands hold the middle half and the middle nine tenths, and a mark says within how many
    steps of the prediction half of it lies. With `by`, one label for each explanation (season, cohort, true class),
    there is a line for each group, with its 95 % interval.
    """
    lags, first, count, same = _by_lag(many)
    groups = _groups(by, count, "memory")
    ax = axes_for(ax, width, 3.4)
    ink, unit = line_color(ax), step_unit(first.labels)
    steps = np.arange(lags.shape[1])
    for k, (name, rows) in enumerate(groups.items()):
        some = lags[rows]
        mean, error = _mean(some)
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
    _legend(ax)
    ax.set_xlabel(f"{unit}s before the prediction", fontsize=FONT - 2)
    ax.set_ylabel(unit_label("|relevance|", first), fontsize=FONT - 2, parse_math=False)
    ax.tick_params(labelsize=FONT - 2)
    ax.spines[["top", "right"]].set_visible(False)
    set_title(ax, _title("relevance by lag", first, count, same))
    return figure_of(ax)


def bars(
    many: Iterable[Explanation], by: Sequence[Any] | None = None, ax: Axes | None = None, width: float = 8.0
) -> Figure:
    """Mean absolute relevance of each feature over many explanations, with 95 % intervals of the mean.

    Magnitudes are summed over the steps of an explanation. With `by`, one label for each explanation, there is a bar for
    each group. Of more than 20 features those of most relevance are drawn, which the picture says.
    """
    sums = _sums(many, "bars")
    groups = _groups(by, len(sums.size), "bars")
    order = np.argsort(-sums.size.mean(axis=0), kind="stable")[:FEATURES]
    thick = 0.8 / len(groups)
    ax = axes_for(ax, width, 1.2 + len(order) * (0.26 if len(groups) == 1 else 0.14 + 0.14 * len(groups)))
    ink = line_color(ax)
    for k, (name, rows) in enumerate(groups.items()):
        mean, error = _mean(sums.size[rows])
        places = np.arange(len(order)) + (k - (len(groups) - 1) / 2) * thick
        label = None if name is None else f"{short(name)} ({len(rows)})"
        ax.barh(places, mean[order], height=0.92 * thick, color=f"C{k % COLORS}", label=label)
        ax.errorbar(mean[order], places, xerr=Z95 * error[order], fmt="none", ecolor=ink, elinewidth=1, capsize=2)
    _rows_of_features(ax, [sums.names[d] for d in order], len(sums.names))
    ax.set_xlim(left=0)
    if by is not None:
        _legend(ax)
    ax.set_xlabel(unit_label("mean over explanations of |relevance|, summed over steps", sums.first), fontsize=FONT - 2)
    set_title(ax, _title("mean absolute relevance", sums.first, len(sums.size), sums.same))
    return figure_of(ax)


def beeswarm(many: Iterable[Explanation], ax: Axes | None = None, width: float = 8.0) -> Figure:
    """Relevance against value, feature by feature: a dot for each explanation.

    Its place is the relevance of the feature, summed over steps, and its colour the value, the mean over steps, from the
    feature's 5th percentile to its 95th. Of more than 20 features those of most relevance are drawn, and of more than
    3,000 explanations every k-th, which the picture says.
    """
    sums = _sums(many, "beeswarm")
    order = np.argsort(-np.abs(sums.relevance).mean(axis=0), kind="stable")[:FEATURES]
    every = -(-len(sums.relevance) // DOTS)
    R = sums.relevance[::every][:, order]
    ax = axes_for(ax, width, 1.2 + 0.42 * len(order))
    ink = line_color(ax)
    heights = _spread(R) + np.arange(len(order))
    look: dict[str, Any] = {"s": 9 if len(R) < 500 else 5, "linewidths": 0, "rasterized": True}
    if sums.values is None:
        ax.scatter(R.ravel(), heights.ravel(), color=ink, **look)
    else:
        shares = _shares(sums.values[:, order])[::every]
        dots = ax.scatter(R.ravel(), heights.ravel(), c=shares.ravel(), cmap=VALUE_MAP, vmin=0, vmax=1, **look)
        color_scale(ax, dots, (1.02, 0.0, 0.014, 1.0), "value of the feature (mean over steps)")
        bar = ax.child_axes[-1]
        bar.set_yticks([0, 1], ["low", "high"])
    ax.axvline(0, color=ink, linewidth=0.8, zorder=0)
    _rows_of_features(ax, [sums.names[d] for d in order], len(sums.names))
    some = "" if every == 1 else f"   ({len(R)} of {len(sums.relevance)} explanations are drawn)"
    label = unit_label("relevance, summed over steps", sums.first) + some
    ax.set_xlabel(label, fontsize=FONT - 2, parse_math=False)
    set_title(ax, _title("relevance by feature", sums.first, len(sums.relevance), sums.same))
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
        if T > table.shape[1]:
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
        cells.T, cmap=relevance_map(ax), norm=symmetric(cells), aspect="auto", interpolation="nearest",
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


def _sums(many: Iterable[Explanation], what: str) -> Sums:
    """Relevance and values of each feature of every input, for each explanation."""
    relevance, size, values, targets, first, names = [], [], [], set(), None, []
    for e in many:
        parts = by_variable(shown(e, what), e, what)
        if first is None:
            first, names = e, feature_names(parts)
        relevance.append(np.concatenate([part.relevance.sum(axis=0) for part in parts]))
        size.append(np.concatenate([np.abs(part.relevance).sum(axis=0) for part in parts]))
        if all(part.values is not None for part in parts):
            values.append(np.concatenate([part.values.mean(axis=0) for part in parts]))  # type: ignore[union-attr]
        targets.add(e.target)
    if first is None:
        raise LrpError(f"{what} must get at least one explanation, got none.")
    known = np.array(values) if len(values) == len(size) else None
    return Sums(np.array(relevance), np.array(size), known, names, first, len(targets) == 1)


def _groups(by: Sequence[Any] | None, count: int, what: str) -> dict[Any, np.ndarray]:
    """Which explanations belong to each label, in the order in which labels first come; one group without labels."""
    if by is None:
        return {None: np.arange(count)}
    labels = [*by]
    if len(labels) != count:
        raise LrpError(f"{what}: by must have one label for each of {count} explanations, got {len(labels)}.")
    names = [*dict.fromkeys(labels)]
    if len(names) > COLORS:
        raise LrpError(f"{what}: by must have at most {COLORS} different labels, got {len(names)}; join some of them.")
    number = {name: k for k, name in enumerate(names)}
    which = np.array([number[label] for label in labels])
    return {str(name): np.flatnonzero(which == k) for k, name in enumerate(names)}


def _mean(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over explanations, and its standard error; 0 for a single one. What is NaN is left out."""
    known = np.isfinite(rows)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, rows, 0).sum(axis=0) / count
    spread = np.where(known, rows - mean, 0)
    return mean, np.sqrt((spread**2).sum(axis=0) / np.maximum(count - 1, 1) / count)


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


def _spread(R: np.ndarray) -> np.ndarray:
    """(N, F) how far each dot stands from the middle of its row: dots of similar relevance stand beside each other."""
    low, high = float(R.min()), float(R.max())
    bins = np.minimum((R - low) / ((high - low) or 1.0) * BINS, BINS - 1).astype(np.int64)
    nth = np.empty(R.shape)  # dots of the same bin are counted 0, 1, 2, …
    for d, column in enumerate(bins.T):
        order = np.argsort(column, kind="stable")
        counts = np.bincount(column, minlength=BINS)
        nth[order, d] = np.arange(len(column)) - np.repeat(np.cumsum(counts) - counts, counts)
    sides = np.ceil(nth / 2) * np.where(nth % 2 == 0, 1, -1)  # 0, -1, 1, -2, 2, …
    return sides * min(0.05, 0.42 / max(1.0, np.abs(sides).max()))


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


def _legend(ax: Axes) -> None:
    for text in ax.legend(frameon=False, fontsize=FONT - 2).get_texts():
        text.set_parse_math(False)


def _title(what: str, first: Explanation, count: int, same: bool) -> str:
    target = subject(first) if same else unit_label("each one's own target", first)
    return f"{first.method}: {what} of {target}, {count} explanation{'' if count == 1 else 's'}"
