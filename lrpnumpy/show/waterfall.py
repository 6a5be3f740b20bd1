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
from lrpnumpy.show.canvas import FONT, NEGATIVE, POSITIVE, axes_for, figure_of, line_color, set_title, subject
from lrpnumpy.show.parts import by_variable, evidence_line, feature_names, folded, of_one_class, short, shown
from lrpnumpy.show.terminal import title


@door
def waterfall(
    e: Explanation,
    by: Literal["feature", "step"] | None = None,
    most: int = 10,
    ax: Axes | None = None,
    width: float = 8.0,
) -> Figure:
    """How the score of an explanation `e` is made of the relevance of features, or of steps.

    The `most` largest come first and the rest is one bar. It begins at 0, or at the score of the reference for methods
    that have one. Then come what biases, stabilizer and start states kept under LRP, and what the method leaves
    unattributed. Without `by` it is features where the input is numbers and steps where it is words.
    """
    of_one_class(e, "waterfall")
    by = by or ("step" if e.feature_relevance is None or e.tokens is not None else "feature")
    one_of(by, "waterfall: by", ("feature", "step"))
    most = whole(most, "waterfall: most, the number of bars,", 1)
    start = 0.0 if e.reference_score is None else float(e.reference_score)
    entries = folded(_of_features(e) if by == "feature" else _of_steps(e), most, f"{by}s")
    entries += _kept(e, start + sum(value for _, value in entries))
    score = float(e.score)
    ax = axes_for(ax, width, 1.1 + 0.27 * (len(entries) + 1))
    ink = line_color(ax)
    sizes = np.array([value for _, value in entries])
    ends = start + np.cumsum(sizes)
    begins = ends - sizes
    rows = np.arange(len(entries))
    ax.barh(rows, sizes, left=begins, color=[POSITIVE if size >= 0 else NEGATIVE for size in sizes], height=0.7)
    ax.barh([len(entries)], [score], color="0.5", height=0.7)
    ax.vlines(ends, rows, rows + 1, color=ink, linewidth=0.7, alpha=0.6)
    ax.axvline(start, color=ink, linewidth=0.8)
    names = [*(short(name, 36) for name, _ in entries), "score"]
    ax.set_yticks(range(len(names)), names, fontsize=FONT - 2, parse_math=False)
    ax.set_ylim(len(names) - 0.4, -0.6)
    finite = np.concatenate([[0.0, start, score], ends, begins])
    low, high = finite[np.isfinite(finite)].min(), finite[np.isfinite(finite)].max()
    room = (high - low or 1.0) * 0.14  # for the numbers beside the bars
    ax.set_xlim(low - (room if low < 0 else 0), high + room)
    for row, (begin, end, size) in enumerate(zip(begins, ends, sizes, strict=True)):
        _write(ax, max(begin, end), row, f"{size:+.3g}")
    _write(ax, max(0.0, score), len(entries), f"{score:.4g}")
    ax.tick_params(axis="x", labelsize=FONT - 2)
    origin = "0" if e.reference_score is None else f"the reference, {start:.4g},"
    ax.set_xlabel(f"{subject(e)}, from {origin} to the score", fontsize=FONT - 2, parse_math=False)
    ax.spines[["top", "right"]].set_visible(False)
    set_title(ax, title(e), note=evidence_line(e))
    return figure_of(ax)


def _write(ax: Axes, x: float, row: int, text: str) -> None:
    place: Any = {"xytext": (3, 0), "textcoords": "offset points", "va": "center", "fontsize": FONT - 2}
    if np.isfinite(x):
        ax.annotate(text, (x, row), **place)


def _of_features(e: Explanation) -> list[tuple[str, float]]:
    parts = shown(by_variable(e, "waterfall by feature"), "waterfall")
    return [*zip(feature_names(parts), np.concatenate([part.relevance.sum(axis=0) for part in parts]), strict=True)]


def _of_steps(e: Explanation) -> list[tuple[str, float]]:
    """The steps of every series, and the features of what has one step."""
    found = []
    for name in e.inputs:
        one = e.of_input(name)
        before = f"{name}: " if len(e.inputs) > 1 else ""
        found += [(f"{before}{one.shown(t)}", float(one.relevance[t])) for t in range(len(one))]
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
