"""A series in HTML: an inline SVG with a row for each feature, its values as a line on the colors of its relevance."""

from __future__ import annotations

import numpy as np

from lrpnumpy.result import Explanation
from lrpnumpy.show.color import BLUE, RED
from lrpnumpy.show.numbers import Map, map_of
from lrpnumpy.show.parts import escape, short, shown, step_unit

COLUMNS, CELLS = 400, 2000  # maximum per row, and in all rows: a page stays small
FAINT = 0.01  # a smaller share is not drawn
NAMES, WIDTH, SUMS = 190, 560, 90  # of the three columns
ROW, GAP = 30, 6  # height of a row, and between rows


def series(e: Explanation) -> str:
    """The main input as a map; on hover a cell shows its step or steps, its value and its relevance."""
    part = shown(e, "series")[0]
    found = map_of(part, min(COLUMNS, max(20, CELLS // part.relevance.shape[1])))
    rows = []
    for k, name in enumerate(found.features):
        top = k * (ROW + GAP)
        middle = f'y="{top + ROW / 2:g}" dy=".35em"'
        rows += [
            f'<text x="{NAMES - 8}" {middle} text-anchor="end">{escape(short(name))}</text>',
            f'<rect x="{NAMES}" y="{top}" width="{WIDTH}" height="{ROW}" fill-opacity=".05"/>',
            *_cells(e, found, k, top),
            "" if found.values is None else _line(found, k, top, len(e)),
            f'<text x="{NAMES + WIDTH + 8}" {middle}>{found.total[k]:+.4g}</text>',
        ]
    foot = len(found.features) * (ROW + GAP) + 10
    for x, anchor, step in ((NAMES, "start", e.step_names[0]), (NAMES + WIDTH, "end", e.step_names[-1])):
        rows.append(f'<text x="{x}" y="{foot}" text-anchor="{anchor}">{escape(short(step))}</text>')
    box = f"0 0 {NAMES + WIDTH + SUMS} {foot + 8}"
    drawn = f'<svg class="series" viewBox="{box}" role="img" fill="currentColor" font-size="12">{"".join(rows)}</svg>'
    notes = [f"each cell is the sum of {found.group} {step_unit(part.labels)}s"] if found.group > 1 else []
    notes += [f"{found.left_out} features of less relevance are left out"] if found.left_out else []
    return drawn + (f'<div class="note">{"; ".join(notes)}</div>' if notes else "")


def _place(found: Map, T: int) -> tuple[np.ndarray, np.ndarray]:
    """Left and right end of every column."""
    first = found.group * np.arange(found.relevance.shape[1])
    return NAMES + WIDTH / T * first, NAMES + WIDTH / T * np.minimum(first + found.group, T)


def _cells(e: Explanation, found: Map, k: int, top: float) -> list[str]:
    """The colors of one row."""
    cells = []
    for j, (left, right) in enumerate(zip(*_place(found, len(e)), strict=True)):
        share = float(found.shares[k, j])
        if abs(share) < FAINT:
            continue
        first, last = j * found.group, min((j + 1) * found.group, len(e)) - 1
        when = e.step_names[first] if first == last else f"{e.step_names[first]} to {e.step_names[last]}"
        value = "" if found.values is None else f" {found.values[k, j]:.4g}"
        says = f"{when}: {short(found.features[k])}{value}, relevance {found.relevance[k, j]:+.4g}"
        r, g, b = RED if share > 0 else BLUE
        cells.append(
            f'<rect x="{left:.1f}" y="{top}" width="{right - left:.1f}" height="{ROW}" fill="rgb({r},{g},{b})" '
            f'fill-opacity="{0.85 * abs(share):.2f}"><title>{escape(says)}</title></rect>'
        )
    return cells


def _line(found: Map, k: int, top: float, T: int) -> str:
    """The values of one feature, from the least at the bottom of its row to the largest at the top."""
    x = np.mean(_place(found, T), axis=0)
    y = top + ROW - 3 - (ROW - 6) * found.heights[k]
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    return f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1" pointer-events="none"/>'
