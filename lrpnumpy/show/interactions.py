"""A picture of Shapley values with interactions: what each player does alone, and what two do only together."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lrpnumpy.checks import LrpError
from lrpnumpy.meant import door
from lrpnumpy.result import Explanation
from lrpnumpy.show import canvas
from lrpnumpy.show.numbers import decimals
from lrpnumpy.show.parts import of_one_class, short

NUMBERS = 14  # players of a picture that has room for numbers


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
    image = canvas.heat(ax, drawn, canvas.Scale(np.nan_to_num(drawn)), cmap or canvas.relevance_map(ax))
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
    if first == last:
        return e.shown(first)
    return f"{e.shown(first)} to {e.shown(last)}"
