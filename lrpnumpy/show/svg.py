"""A series in HTML: an inline SVG with a row for each feature, its values on the colours of its relevance."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from lrpnumpy.show.color import BLUE, RED, limit, scaled
from lrpnumpy.show.parts import Shown, grouped, short, step_unit

ROWS = 20  # features; more are folded
CELLS = 2000  # of all rows together, so that a page stays small
FAINT = 0.01  # a smaller share is not drawn
NAMES, WIDTH, SUMS = 190, 560, 90  # of the three columns
ROW, GAP = 30, 6  # height of a row, and between rows


def series(part: Shown, steps: Sequence[str]) -> str:
    """The map of one input; `steps` are the names of its steps. The numbers are shown on hover."""
    table, names, features = part.rows(ROWS)
    T, D = table.shape
    cells, group = grouped(table, min(400, max(20, CELLS // D)))
    shares = scaled(cells, limit(cells)[0])
    rows = []
    for d, name in enumerate(names):
        top = d * (ROW + GAP)
        values = part.values[:, features[d]] if part.values is not None and d < len(features) else None
        rows.append(
            f'<text x="{NAMES - 8}" y="{top + ROW / 2:g}" dy=".35em" text-anchor="end">{escape(short(name))}</text>'
            + _cells(cells[:, d], shares[:, d], steps, group, T, top, short(name))
            + ("" if values is None else _line(values, top))
            + f'<text x="{NAMES + WIDTH + 8}" y="{top + ROW / 2:g}" dy=".35em">{table[:, d].sum():+.4g}</text>'
        )
    foot = D * (ROW + GAP) + 10
    ends = [(NAMES, "start", steps[0]), (NAMES + WIDTH, "end", steps[-1])] if T > 1 else [(NAMES, "start", steps[0])]
    for x, anchor, text in ends:
        rows.append(f'<text x="{x}" y="{foot}" text-anchor="{anchor}">{escape(short(text))}</text>')
    if group > 1:
        says = f"each column is the sum of {group} {step_unit(part.labels)}s"
        rows.append(f'<text x="{NAMES + WIDTH / 2:g}" y="{foot}" text-anchor="middle">{says}</text>')
    box = f"0 0 {NAMES + WIDTH + SUMS} {foot + 8}"
    return f'<svg class="series" viewBox="{box}" role="img" fill="currentColor" font-size="12">{"".join(rows)}</svg>'


def _cells(
    values: np.ndarray, shares: np.ndarray, steps: Sequence[str], group: int, T: int, top: float, name: str
) -> str:
    """The colours of one row. Each cell says on hover which step or steps it is, and its relevance."""
    size = WIDTH / T
    found = [f'<rect x="{NAMES}" y="{top}" width="{WIDTH}" height="{ROW}" fill-opacity=".05"/>']
    for k, (value, share) in enumerate(zip(values.tolist(), shares.tolist(), strict=True)):
        if abs(share) >= FAINT:
            first, last = k * group, min(T, (k + 1) * group) - 1
            when = steps[first] if first == last else f"{steps[first]} to {steps[last]}"
            r, g, b = RED if share > 0 else BLUE
            found.append(
                f'<rect x="{NAMES + size * first:.1f}" y="{top}" width="{size * (last + 1 - first):.1f}" '
                f'height="{ROW}" fill="rgb({r},{g},{b})" fill-opacity="{0.85 * abs(share):.2f}">'
                f"<title>{escape(name)}, {escape(when)}: {value:+.4g}</title></rect>"
            )
    return "".join(found)


def _line(values: np.ndarray, top: float) -> str:
    """The values of one feature as a line over its row; of a long series one point for each of 400 groups of steps."""
    sums, group = grouped(np.nan_to_num(values)[:, None])
    counts = np.minimum(group, len(values) - group * np.arange(len(sums)))
    means = sums[:, 0] / counts
    low, high = float(means.min()), float(means.max())
    heights = (means - low) / (high - low) if high > low else np.full(len(means), 0.5)
    x = NAMES + WIDTH / len(values) * (group * np.arange(len(means)) + counts / 2)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, top + ROW - 3 - (ROW - 6) * heights, strict=True))
    return f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1" pointer-events="none"/>'
