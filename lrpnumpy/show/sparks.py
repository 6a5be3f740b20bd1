"""A series in the terminal: one line of blocks for each feature, higher where relevance is larger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from lrpnumpy.result import Explanation
from lrpnumpy.show.color import limit, scaled
from lrpnumpy.show.parts import Shown, grouped, short, step_unit

FOR, AGAINST = "▁▂▃▄▅▆▇█", "░▒▓"
FAINT = 0.04  # below this share nothing is seen
ROWS = 12  # features; more are folded
LEGEND = "(▁▄█ for, ░▒▓ against)"


def spark(share: float) -> str:
    """A character for a share from -1 to 1."""
    signs = FOR if share > 0 else AGAINST
    return "·" if abs(share) < FAINT else signs[min(len(signs) - 1, int(abs(share) * len(signs)))]


def spark_map(part: Shown, width: int, paint: Callable[[str, float], str], clean: Callable[[str], str]) -> str:
    """Features as lines of blocks, each with the sum of its relevance; then the first and the last step."""
    table, names, _ = part.rows(ROWS)
    labels = [clean(short(name, 20)) for name in names]
    wide = max(map(len, labels))
    cells, group = grouped(table, max(10, width - wide - 14))
    shares = scaled(cells, limit(cells)[0])
    lines = [
        f"{label:<{wide}}  {''.join(paint(spark(share), share) for share in row)}  {total:>+10.4g}"
        for label, row, total in zip(labels, shares.T.tolist(), table.sum(axis=0), strict=True)
    ]
    first, last = ("0", str(len(table) - 1)) if part.labels is None else (str(part.labels[0]), str(part.labels[-1]))
    gap = " " * max(1, len(cells) - len(first) - len(last))
    lines.append(f"{'':<{wide}}  {clean(first)}{gap}{clean(last)}")
    unit = step_unit(part.labels)
    says = LEGEND if group == 1 else f"{LEGEND} each block is the sum of {group} {unit}s"
    return "\n".join([*lines, f"{'':<{wide}}  {says}"])


def as_features(e: Explanation) -> Explanation:
    """An explanation of one step of numbers with its features in place of steps; any other as it is."""
    if len(e) > 1 or e.tokens is not None or e.variables is None:
        return e
    names = e.features or tuple(f"x{d}" for d in range(e.variables.shape[-1]))
    if e.values is not None:
        names = tuple(f"{name} = {value:.4g}" for name, value in zip(names, np.ravel(e.values), strict=True))
    return replace(e, relevance=e.variables[0], variables=None, tokens=names, values=None, labels=None, marks=None)
