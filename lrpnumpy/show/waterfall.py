"""Pictures of what a score is made of: a waterfall, the bar of a ledger, and interactions of Shapley values."""

from __future__ import annotations

import re
from typing import Any, Literal

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lrpnumpy.checks import LrpError, one_of, whole
from lrpnumpy.ledgers import Ledger, ReferenceLedger
from lrpnumpy.meant import door
from lrpnumpy.result import Explanation
from lrpnumpy.show import canvas
from lrpnumpy.show.canvas import NEUTRAL
from lrpnumpy.show.color import decimals
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

NUMBERS = 14  # players of a picture that has room for numbers


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
        by = "step" if e.feature_relevance is None or e.tokens is not None else "feature"
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
    origin = f"the reference, {start:.4g}," if e.reference_score is not None else "0"
    canvas.set_labels(ax, f"{canvas.subject(e)}, from {origin} to the score")
    return canvas.finished(ax, e, title)


def _draw(ax: Axes, sizes: np.ndarray, score: float, colors: list[Any]) -> None:
    """The bars, each from the end of the one before it, with their numbers; the score comes last, from 0."""
    ends = np.cumsum(sizes)
    rows, begins = np.arange(len(sizes)), ends - sizes
    ax.vlines(ends, rows, rows + 1, color=canvas.line_color(ax), linewidth=0.7, alpha=0.6)
    finite = np.concatenate([[0.0, score], ends, begins])
    finite = finite[np.isfinite(finite)]
    low, high = finite.min(), finite.max()
    room = (high - low or 1.0) * 0.12 * canvas.font_scale()  # for the numbers beside the bars
    ax.set_xlim(low - room * bool(low < 0 or (sizes < 0).any()), high + room)
    places = decimals([*sizes, score])
    texts = [f"{size:+.{places}f}" for size in sizes]
    if colors[0] == NEUTRAL[2]:  # the reference is where it begins, not a change
        texts[0] = texts[0].removeprefix("+")
    rim = patheffects.withStroke(linewidth=3, foreground=canvas.ground(ax))  # numbers are read where lines cross them
    for bars, labels in (
        (ax.barh(rows, sizes, left=begins, color=colors, height=0.7), texts),
        (ax.barh([len(sizes)], [score], color=NEUTRAL[0], height=0.7), [f"{score:.{places}f}"]),
    ):
        for text in ax.bar_label(bars, labels, padding=3, fontsize=canvas.SMALL):
            text.set_path_effects([rim])


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


@door
def ledger(e: Explanation, ax: Axes | None = None, width: float = 8.0, title: str | None = None) -> Figure:
    """Where the score of `e` went: one bar, positive entries to the right of zero and negative ones to the left."""
    if e.target == "all" or not isinstance(e.ledger, (Ledger, ReferenceLedger)):
        raise LrpError("ledger: pass an explanation of one class by LRP, or by a method with a reference.")
    ax = canvas.axes_for(ax, width, 3.0)
    line, total = canvas.line_color(ax), float(e.ledger.total)
    entries = ledger_entries(e.ledger)
    places = decimals([*entries.values(), total])
    ends = {True: 0.0, False: 0.0}
    for (name, value), color in zip(entries.items(), NEUTRAL, strict=False):
        up = value >= 0
        ax.barh(0, value, left=ends[up], color=color, label=f"{name} {value:+.{places}f}")
        ends[up] += value
    ax.axvline(total, color=line, linewidth=1.5, label=f"score {total:.{places}f}")
    ax.axvline(0, color=line, linewidth=0.8, alpha=0.5)
    ax.set_yticks([])
    canvas.set_labels(ax, canvas.unit_label("score", e), hidden=("left", "right", "top"))
    columns = max(1, int(0.65 * width / canvas.font_scale()))
    rows = -(-(len(entries) + 1) // columns)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, frameon=False, fontsize=canvas.SMALL)
    return canvas.finished(ax, e, title, pad=(6 + 16 * rows) * canvas.font_scale())  # above the legend


@door
def interactions(
    e: Explanation, ax: Axes | None = None, width: float = 8.0, title: str | None = None, cmap: Any = None
) -> Figure:
    """What the players of Shapley values `e` by order=2 do alone (on the diagonal), and two of them only together.

    Everything in the square below the diagonal and on it adds up to the score less that of the reference.
    """
    players = of_one_class(e, "interactions").players
    if players is None or players.interactions is None:
        raise LrpError(f"interactions: this explanation by {e.method} has none; explain with lrp.Shapley(order=2).")
    P = len(players.names)
    values = np.asarray(players.interactions, float)
    values = np.where(np.eye(P, dtype=bool), values, 2 * values)  # both halves of a pair
    drawn = np.where(np.tri(P, dtype=bool), values, np.nan)
    ax = canvas.axes_for(ax, width, 1.6 + 0.42 * min(P, 2 * NUMBERS))
    image = canvas.heat(ax, drawn, canvas.Scale(np.nan_to_num(drawn)), canvas.colors(cmap, canvas.relevance_map(ax)))
    names = [_with_words(e, name) for name in players.names]
    canvas.name_rows(ax, names)
    ax.set_xticks(range(P), [short(name, 20) for name in names], parse_math=False)
    canvas.slant(ax)
    if P <= NUMBERS:
        places = decimals(values.ravel().tolist(), 3)
        for p, q in np.argwhere(np.tri(P)).tolist():
            color = canvas.ink_on(image.to_rgba(values[p, q]))
            text = f"{values[p, q]:+.{places}f}"
            ax.text(q, p, text, ha="center", va="center", fontsize=canvas.SMALL, color=color)
    canvas.set_labels(ax)
    canvas.color_scale(ax, image, canvas.unit_label("alone (diagonal), or in pairs", e))
    return canvas.finished(ax, e, title)


def _with_words(e: Explanation, name: str) -> str:
    """The name of a player; of steps that have words or labels, these in place of their numbers."""
    steps = re.fullmatch(r"steps? (\d+)(?: to (\d+))?", name)
    if steps is None or (e.tokens is None and e.labels is None) or e.padding:
        return name
    first, last = int(steps[1]), int(steps[2] or steps[1])
    if e.tokens is not None:
        return " ".join(e.shown_steps[first : last + 1])
    return e.shown(first) if first == last else f"{e.shown(first)} to {e.shown(last)}"
