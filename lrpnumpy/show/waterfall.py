"""A waterfall: how the parts of one explanation add up, from 0 or the reference to the score."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lrpnumpy.checks import one_of, whole
from lrpnumpy.ledgers import Ledger
from lrpnumpy.meant import door
from lrpnumpy.result import Explanation
from lrpnumpy.show.canvas import (
    NEGATIVE,
    NEUTRAL,
    POSITIVE,
    SMALL,
    axes_for,
    figure_of,
    halo,
    line_color,
    set_title,
    subject,
)
from lrpnumpy.show.numbers import decimals
from lrpnumpy.show.parts import by_variable, folded, notes, of_one_class, short, shown, with_value
from lrpnumpy.show.terminal import title as title_of


@door
def waterfall(
    e: Explanation,
    by: Literal["feature", "step"] | None = None,
    most: int = 10,
    ax: Axes | None = None,
    width: float = 8.0,
    title: str | None = None,
) -> Figure:
    """How the score of an explanation `e` is made of the relevance of features, or of steps.

    The `most` largest come first and the rest is one bar. It begins at 0, or with the score of the reference for
    methods that have one. Then come what biases, stabilizer and initial states kept under LRP, and what the method
    leaves unattributed. Without `by` it is features where the input is numbers and steps where it is words. A feature
    has its value beside it, of a series that of the last step; a word that occurs twice has its position.
    """
    of_one_class(e, "waterfall")
    by = by or ("step" if e.feature_relevance is None or e.tokens is not None else "feature")
    one_of(by, "waterfall: by", ("feature", "step"))
    most = whole(most, "waterfall: most, the number of bars,", 1)
    start = 0.0 if e.reference_score is None else float(e.reference_score)
    entries = folded(_of_features(e) if by == "feature" else _of_steps(e), most, f"{by}s")
    kept = _kept(e, start + sum(value for _, value in entries))
    colors = [POSITIVE if value >= 0 else NEGATIVE for _, value in entries] + [NEUTRAL[1]] * len(kept)
    entries += kept
    if e.reference_score is not None:
        entries.insert(0, ("reference", start))
        colors.insert(0, NEUTRAL[2])
    sizes = np.array([value for _, value in entries])
    ends = np.cumsum(sizes)
    score = float(e.score)
    ax = axes_for(ax, width, 1.3 + 0.27 * (len(entries) + 1))
    _draw(ax, sizes, ends, score, colors)
    ax.axvline(start, color=line_color(ax), linewidth=0.8)
    names = [*(short(name, 48) for name, _ in entries), "score"]
    ax.set_yticks(range(len(names)), names, fontsize=SMALL, parse_math=False)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="x", labelsize=SMALL)
    origin = "0" if e.reference_score is None else f"the reference, {start:.4g},"
    ax.set_xlabel(f"{subject(e)}, from {origin} to the score", fontsize=SMALL, parse_math=False)
    ax.spines[["top", "right"]].set_visible(False)
    set_title(ax, title or title_of(e), note=notes(e))
    return figure_of(ax)


def _draw(ax: Axes, sizes: np.ndarray, ends: np.ndarray, score: float, colors: list[Any]) -> None:
    """The bars, each from the end of the one before it, with their numbers; the score comes last, from 0."""
    rows, begins = np.arange(len(sizes)), ends - sizes
    ax.vlines(ends, rows, rows + 1, color=line_color(ax), linewidth=0.7, alpha=0.6)
    ax.barh(rows, sizes, left=begins, color=colors, height=0.7)
    ax.barh([len(sizes)], [score], color=NEUTRAL[0], height=0.7)
    finite = np.concatenate([[0.0, score], ends, begins])
    finite = finite[np.isfinite(finite)]
    low, high = finite.min(), finite.max()
    room = (high - low or 1.0) * 0.12  # for the numbers beside the bars
    goes_down = bool((sizes < 0).any())
    ax.set_xlim(low - (room if goes_down or low < 0 else 0), high + room)
    places = decimals([*sizes, score])
    for row, (end, size) in enumerate(zip(ends, sizes, strict=True)):
        sign = "" if colors[row] == NEUTRAL[2] else "+"  # the reference is where it begins, not a change
        _write(ax, end, row, f"{size:{sign}.{places}f}", size < 0)
    _write(ax, score, len(sizes), f"{score:.{places}f}", score < 0)


def _write(ax: Axes, x: float, row: int, text: str, left: bool) -> None:
    """A number at the end of its bar, in the direction in which it points."""
    place: Any = {"xytext": (-3 if left else 3, 0), "textcoords": "offset points", "va": "center"}
    if np.isfinite(x):
        text_at = ax.annotate(text, (x, row), fontsize=SMALL, ha="right" if left else "left", **place)
        text_at.set_path_effects(halo(ax))


def _of_features(e: Explanation) -> list[tuple[str, float]]:
    """Each feature of every input with its value: of a series that of the last step."""
    parts = shown(by_variable(e, "waterfall by feature"), "waterfall")
    found = []
    for part in parts:
        before = f"{part.name}: " if len(parts) > 1 else ""
        for d, (name, value) in enumerate(zip(part.features, part.relevance.sum(axis=0), strict=True)):
            if part.values is not None and part.is_series:
                name = f"{short(name)} (last {part.values[-1, d]:.4g})"
            elif part.values is not None:
                name = with_value(name, part.values[0, d])
            found.append((before + name, float(value)))
    return found


def _of_steps(e: Explanation) -> list[tuple[str, float]]:
    """The steps of every series, and the features of what has one step."""
    found = []
    for name in e.inputs:
        one = e.of_input(name)
        before = f"{name}: " if len(e.inputs) > 1 else ""
        steps = [one.shown(t) for t in range(len(one))]
        for t, step in enumerate(steps):
            place = f" ({t + 1})" if steps.count(step) > 1 else ""
            found.append((f"{before}{step}{place}", float(one.relevance[t])))
    return found


def _kept(e: Explanation, reached: float) -> list[tuple[str, float]]:
    """What did not reach the inputs: by the ledger, and what is left of the score."""
    found: list[tuple[str, float]] = []
    if isinstance(e.ledger, Ledger):
        found = [(name, float(value)) for name, value in e.ledger.entries.items() if name != "inputs" and value]
    left = float(e.score) - reached - sum(value for _, value in found)
    if abs(left) > 1e-3 * max(abs(float(e.score)), abs(reached)):
        found.append(("not attributed", left))
    return found
