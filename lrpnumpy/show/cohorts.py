"""What pictures of many explanations share: which they are, their groups, means with their errors, legends, titles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from lrpnumpy.checks import LrpError, one_of
from lrpnumpy.result import Explanation
from lrpnumpy.show import canvas
from lrpnumpy.show.parts import base_value, of_one_class, quantity, short
from lrpnumpy.summary import SEASONS, TIMES, one_each, times
from lrpnumpy.targets import MIXED, Panel, listed, panels

GROUPS = 6  # of more groups, a map is drawn
Z95 = 1.96  # half the width of a 95 % interval in standard errors


class Cohorts:
    """Explanations that go by one at a time, of which is kept what titles and groups need."""

    def __init__(self, panel: Panel, what: str) -> None:
        self.panel, self.what = panel, what
        self.first: Any = None
        self.targets: list[int] = []
        self.scores: list[float] = []
        self.bases: list[float] = []  # score of the reference, or 0
        self.dates: list[Any] = []  # label of the step of each prediction

    def __iter__(self) -> Iterator[Explanation]:
        for e in self.panel.explanations():
            self.first = self.first or of_one_class(e, self.what)
            self.targets.append(of_one_class(e, self.what).target)  # type: ignore[arg-type]
            self.scores.append(float(e.score))
            self.bases.append(base_value(e))
            if e.labels is not None:
                self.dates.append(e.labels[e.predicted_at])
            yield e

    def groups(self, by: Any) -> dict[str | None, np.ndarray]:
        """Which explanations belong to each group; one group without `by`.

        by: "class" for the class explained; "year", "season" or "month" of the prediction; or one label for each.
        """
        if by is None:
            return {None: np.arange(len(self.targets))}
        labels = self._times(by) if isinstance(by, str) else [str(by[k]) for k in self.panel.places]
        names = [*dict.fromkeys(labels)]
        if isinstance(by, str):
            names.sort(key=SEASONS.index if by == "season" else None)
        each = np.array(labels, object)
        return {str(name): np.flatnonzero(each == name) for name in names}

    def _times(self, by: str) -> list[Any]:
        if one_of(by, f"{self.what}: by", ("class", *TIMES)) == "class":
            return [self.first.name_of(target) for target in self.targets]
        if len(self.dates) < len(self.targets) or not all(isinstance(date, np.datetime64) for date in self.dates):
            raise LrpError(
                f"{self.what}: by={by!r} needs dates, but some explanations have none; pass a DataFrame with dates."
            )
        return times(np.array(self.dates), by)

    def finish(self, ax: Axes, about: str) -> None:
        """The title of a picture, with the mean of f(x) and the base value that relevance starts from below it."""
        first, count, target = self.first, len(self.targets), canvas.subject(self.first)
        if self.panel.name == MIXED and len({*self.targets}) > 1:
            target = canvas.unit_label(MIXED, first)
        mean, base = quantity(np.mean(self.scores), first), quantity(np.mean(self.bases), first)
        title = f"{first.method}: {about} for {target} (n = {count})"
        canvas.set_title(ax, title, f"mean f(x) = {mean}, base value {base}")

    def label(self, text: str) -> str:
        """The label of an axis, with the unit of what is explained."""
        return canvas.unit_label(text, self.first)


Paint = Callable[[Axes], None]
Draw = Callable[[Panel, Any], tuple[float, Paint]]  # a panel and its groups -> height in inches, and what paints it


def draw_panels(
    draw: Draw,
    many: Iterable[Explanation],
    by: Any,
    target: Any,
    ax: Axes | None,
    width: float,
    what: str,
    title: str | None,
) -> Figure:
    """A picture for one target, or of several classes one below the other; `title` replaces that of the first.

    Groups by class are the explanations of each class, so that nothing is mixed.
    """
    every: list[Panel] = []
    if isinstance(by, str) and by == "class":
        many = listed(many, what)
        every = [Panel(MIXED, many, None, range(len(many)))]
    if not every or not every[0].places:
        every = panels(many, target, what)
    if ax is not None and len(every) > 1:
        raise LrpError(f"{what}: ax is for one target, got {len(every)} classes; pass target=….")
    if by is not None and not isinstance(by, str):
        by = one_each(by, len({k for panel in every for k in panel.places}))
    heights, painters = zip(*(draw(panel, by) for panel in every), strict=True)
    axes: Any = [ax]
    if ax is None:
        picture = canvas.new_picture(width, sum(heights))
        axes = picture.subplots(len(every), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    for place, paint in zip(axes, painters, strict=True):
        paint(place)
    if title is not None:
        canvas.set_title(axes[0], title)
    return canvas.figure_of(axes[0])


def mean_and_error(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over explanations, and its standard error; 0 for a single one. What is not finite is left out."""
    known = np.isfinite(rows)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, rows, 0).sum(axis=0) / count
    spread = np.where(known, rows - mean, 0)
    return mean, np.sqrt((spread**2).sum(axis=0) / np.maximum(count - 1, 1) / count)


def map_of_groups(ax: Axes, table: np.ndarray, groups: dict[str | None, np.ndarray], label: str, cmap: Any) -> None:
    """Mean absolute relevance (rows, groups) as a map: more groups than colors that can be told apart."""
    image = canvas.heat(ax, table, Normalize(0), canvas.colors(cmap, canvas.size_map(ax)))
    names = [f"{short(name, 12)}\n({len(rows)})" for name, rows in groups.items()]
    ax.set_xticks(range(len(groups)), names, fontsize=canvas.SMALL, parse_math=False)
    canvas.color_scale(ax, image, label)


def legend(ax: Axes) -> None:
    """A legend whose words are shown as they are."""
    for text in ax.legend(frameon=False, fontsize=canvas.SMALL).get_texts():
        text.set_parse_math(False)
