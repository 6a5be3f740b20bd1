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
from lrpnumpy.show import canvas
from lrpnumpy.show.canvas import NEUTRAL
from lrpnumpy.show.numbers import decimals
from lrpnumpy.show.parts import (
    base_value,
    by_variable,
    folded,
    ledger_entries,
    of_one_class,
    prefix,
    short,
    shown,
    with_value,
)


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
    if by is None:
        by = "feature"
        if e.feature_relevance is None or e.tokens is not None:
            by = "step"
    one_of(by, "waterfall: by", ("feature", "step"))
    most = whole(most, "waterfall: most, the number of bars,", 1)
    start, score = base_value(e), float(e.score)
    entries = {"feature": _of_features, "step": _of_steps}[by](e)
    entries = folded(entries, most, f"{by}s")
    colors = canvas.sign_colors([value for _, value in entries])
    rest = _not_inputs(e, start + sum(value for _, value in entries))
    entries += rest
    colors += [NEUTRAL[1]] * len(rest)
    if e.reference_score is not None:
        entries.insert(0, ("reference", start))
        colors.insert(0, NEUTRAL[2])
    sizes = np.array([value for _, value in entries])
    ax = canvas.axes_for(ax, width, 1.3 + 0.27 * (len(entries) + 1))
    _draw(ax, sizes, score, colors)
    ax.axvline(start, color=canvas.line_color(ax), linewidth=0.8)
    canvas.name_rows(ax, [*(name for name, _ in entries), "score"], 48)
    origin = "0"
    if e.reference_score is not None:
        origin = f"the reference, {start:.4g},"
    canvas.set_labels(ax, f"{canvas.subject(e)}, from {origin} to the score")
    return canvas.finished(ax, e, title)


def _draw(ax: Axes, sizes: np.ndarray, score: float, colors: list[Any]) -> None:
    """The bars, each from the end of the one before it, with their numbers; the score comes last, from 0."""
    ends = np.cumsum(sizes)
    rows, begins = np.arange(len(sizes)), ends - sizes
    ax.vlines(ends, rows, rows + 1, color=canvas.line_color(ax), linewidth=0.7, alpha=0.6)
    ax.barh(rows, sizes, left=begins, color=colors, height=0.7)
    ax.barh([len(sizes)], [score], color=NEUTRAL[0], height=0.7)
    finite = np.concatenate([[0.0, score], ends, begins])
    finite = finite[np.isfinite(finite)]
    low, high = finite.min(), finite.max()
    room = (high - low or 1.0) * 0.12 * canvas.font_scale()  # for the numbers beside the bars
    if low < 0 or (sizes < 0).any():
        low -= room
    ax.set_xlim(low, high + room)
    places = decimals([*sizes, score])
    for row, (end, size, color) in enumerate(zip(ends, sizes, colors, strict=True)):
        text = f"{size:+.{places}f}"
        if color == NEUTRAL[2]:  # the reference is where it begins, not a change
            text = f"{size:.{places}f}"
        _write(ax, end, row, text, size < 0)
    _write(ax, score, len(sizes), f"{score:.{places}f}", score < 0)


def _write(ax: Axes, x: float, row: int, text: str, is_left: bool) -> None:
    """A number at the end of its bar, in the direction in which it points."""
    place: Any = {"xytext": (3, 0), "ha": "left"}
    if is_left:
        place = {"xytext": (-3, 0), "ha": "right"}
    if np.isfinite(x):
        number = ax.annotate(text, (x, row), textcoords="offset points", va="center", fontsize=canvas.SMALL, **place)
        number.set_path_effects(canvas.halo(ax))


def _of_features(e: Explanation) -> list[tuple[str, float]]:
    """Each feature of every input with its value: of a series that of the last step."""
    parts = shown(by_variable(e, "waterfall by feature"), "waterfall")
    entries = []
    for part in parts:
        before = prefix(e, part.name)
        for d, (name, value) in enumerate(zip(part.features, part.relevance.sum(axis=0), strict=True)):
            if part.values is not None and part.is_series:
                name = f"{short(name)} (last {part.values[-1, d]:.4g})"
            elif part.values is not None:
                name = with_value(name, part.values[0, d])
            entries.append((before + name, float(value)))
    return entries


def _of_steps(e: Explanation) -> list[tuple[str, float]]:
    """The steps of every series, and the features of what has one step."""
    entries = []
    for name in e.inputs:
        part, before = e.of_input(name), prefix(e, name)
        steps = [part.shown(t) for t in range(len(part))]
        for t, step in enumerate(steps):
            if steps.count(step) > 1:
                step = f"{step} ({t + 1})"
            entries.append((before + step, float(part.relevance[t])))
    return entries


def _not_inputs(e: Explanation, reached: float) -> list[tuple[str, float]]:
    """What did not reach the inputs: by the ledger, and what is left of the score."""
    entries: list[tuple[str, float]] = []
    if isinstance(e.ledger, Ledger):
        entries = [(name, value) for name, value in ledger_entries(e.ledger).items() if name != "inputs"]
    left = float(e.score) - reached - sum(value for _, value in entries)
    if abs(left) > 1e-3 * max(abs(float(e.score)), abs(reached)):
        entries.append(("not attributed", left))
    return entries
