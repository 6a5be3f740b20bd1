"""What pictures of many explanations share: groups by label, means with their errors, legends and titles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from lrpnumpy.checks import LrpError
from lrpnumpy.result import Explanation
from lrpnumpy.show.canvas import FONT, subject, unit_label

COLORS = 10  # cohorts that can be told apart
Z95 = 1.96  # half the width of a 95 % interval in standard errors


def groups_of(by: Sequence[Any] | None, count: int, what: str) -> dict[Any, np.ndarray]:
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


def mean_and_error(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over explanations, and its standard error; 0 for a single one. What is NaN is left out."""
    known = np.isfinite(rows)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, rows, 0).sum(axis=0) / count
    spread = np.where(known, rows - mean, 0)
    return mean, np.sqrt((spread**2).sum(axis=0) / np.maximum(count - 1, 1) / count)


def legend(ax: Axes) -> None:
    """A legend whose words are shown as they are."""
    for text in ax.legend(frameon=False, fontsize=FONT - 2).get_texts():
        text.set_parse_math(False)


def headline(what: str, first: Explanation, count: int, same: bool) -> str:
    """The title of a picture of many explanations."""
    target = subject(first) if same else unit_label("each one's own target", first)
    return f"{first.method}: {what} of {target}, {count} explanation{'' if count == 1 else 's'}"
