"""The result of ranking methods: a value with an interval for each method and column, ranks, and advice; to JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from lrpnumpy.checks import one_of
from lrpnumpy.evaluate import chance
from lrpnumpy.meant import door
from lrpnumpy.result import dumped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEWEST = 5  # samples that a bootstrap needs
SIGNIFICANT = 0.05  # a smaller p-value, corrected for all pairs of methods, is more than chance
FORMAT = "lrpnumpy ranking 2"
REMOVAL = "removal"  # the column that advice compares methods by


class Column(NamedTuple):
    """One column of the table."""

    title: str  # as tables show it
    measure: str  # what it is made by
    meaning: str  # in a sentence or two
    best: Literal["high", "low"] = "high"  # which values are good
    judges: bool = True  # whether it enters the mean rank
    percent: bool = True  # whether values are shares of 100


COLUMNS = {
    REMOVAL: Column("removal", "removal", "Mean of the columns by step, by feature and by value.", judges=False),
    "steps": Column(
        "by step", "removal",
        "Steps are replaced, the most relevant first and the least relevant first: how much further the prediction "
        "falls in the first case. 0 is a random order, 100 the best order found.",
    ),
    "features": Column("by feature", "removal", "The same with features, each replaced at all steps."),
    "values": Column("by value", "removal", "The same with single numbers."),
    "difference": Column(
        "difference", "changes",
        "Inputs are replaced one after the other, those of largest |relevance| first, and absolute changes of the "
        "prediction are added up, so that signs do not cancel: a / (a + b) with b of a random order. 50 is random.",
    ),
    "preservation": Column(
        "preservation", "changes",
        "The same with those of smallest |relevance| first, which should change little.", "low",
    ),
    "evidence": Column(
        "evidence", "evidence", "How many explanations pass their evidence, of those whose inputs do not interact.",
    ),
    "randomisation": Column(
        "random weights", "randomisation",
        "Rank correlation, as its size, with the relevance of the same network with random weights, from the top layer "
        "down. Relevance that stays the same does not explain the network. Random numbers pass.", "low", False, False,
    ),
    "cost": Column("cost", "cost", "Time of an explanation in forward passes.", "low", False, False),
    "true_steps": Column(
        "true steps", "truth", "How much of the relevance is at the steps that decide.", judges=False,
    ),
    "true_values": Column(
        "true values", "truth", "Correlation of the relevance with what each step contributes.", judges=False,
    ),
    "true_features": Column(
        "true features", "truth", "How much of the relevance is at the features that decide.", judges=False,
    ),
}  # fmt: skip


class Cells(NamedTuple):
    """One column for every method; NaN where a method has no value."""

    value: np.ndarray  # (M,)
    low: np.ndarray  # (M,) ends of the 95 % interval
    high: np.ndarray  # (M,)
    better: np.ndarray  # (M, M) whether the first is better than the second by more than chance
    p: np.ndarray  # (M, M) that two are equal: paired bootstrap, corrected by Holm
    apart: np.ndarray  # (M, M) half the 95 % interval of their difference
    samples: int  # sequences, networks, or parts of the data

    @classmethod
    def of(cls, ratios: Sequence[chance.Ratio], column: Column) -> Cells:
        """The mean over `ratios` of mean(above) / mean(below) in a `column`, and its bootstrap."""
        scale = 100.0 if column.percent else 1.0
        value = scale * np.mean([chance.ratio(above.mean(axis=1), below.mean()) for above, below in ratios], axis=0)
        M, n = ratios[0][0].shape
        if n < FEWEST:  # too few samples to tell anything from chance
            none = np.full(M, np.nan)
            return cls(value, none, none, np.zeros((M, M), bool), np.ones((M, M)), np.full((M, M), np.nan), n)
        drawn = scale * chance.drawn_again(ratios)
        low, high = chance.interval(drawn)
        p = chance.p_values(value, drawn, n)
        sign = 1 if column.best == "high" else -1
        with np.errstate(invalid="ignore"):
            better = (p < SIGNIFICANT) & (sign * (value[:, None] - value) > 0)
        return cls(value, low, high, better, p, chance.half_widths(drawn), n)

    @property
    def ranks(self) -> np.ndarray:
        """(M,) one more than the number of methods that are better by more than chance; NaN without a value."""
        return np.where(np.isnan(self.value), np.nan, 1.0 + self.better.sum(axis=0))

    @property
    def unbeaten(self) -> np.ndarray:
        """(M,) whether no method is better by more than chance; never where there are too few samples to tell."""
        return (self.ranks == 1) & (self.samples >= FEWEST)


@dataclass(frozen=True, eq=False, repr=False)
class Ranking:
    """Which method to use: printed a table, in a notebook a page; `figure()`, `to_html()`, `to_json()`."""

    methods: tuple[str, ...]  # M names
    cells: Mapping[str, Cells]  # by column
    about: Mapping[str, Any]  # model, data and settings

    @property
    def judging(self) -> list[str]:
        """The columns that make the mean rank."""
        return [name for name in self.cells if COLUMNS[name].judges]

    @property
    def mean_rank(self) -> np.ndarray:
        """(M,) over the measures on the data, each the mean of its columns; NaN of a method that lacks a column."""
        by_measure: dict[str, list[np.ndarray]] = {}
        for name in self.judging:
            by_measure.setdefault(COLUMNS[name].measure, []).append(self.cells[name].ranks)
        if not by_measure:
            return np.ones(len(self.methods))
        return np.mean([np.mean(ranks, axis=0) for ranks in by_measure.values()], axis=0)

    @property
    def cost(self) -> np.ndarray:
        """(M,) in forward passes."""
        return self.cells["cost"].value

    @property
    def order(self) -> list[int]:
        """The methods, best mean rank first, of equal ones the cheaper; last those that are not ranked."""
        ranks = np.nan_to_num(self.mean_rank, nan=np.inf).round(9)
        return sorted(range(len(self.methods)), key=lambda m: (ranks[m], self.cost[m]))

    @property
    def equal(self) -> list[int]:
        """The methods that the first of the order is not better than, itself among them, the cheapest first.

        One is better than another if it is so in more columns than the other, by more than chance.
        """
        ranked = [m for m in self.order if not np.isnan(self.mean_rank[m]) and self.methods[m] != "random"]
        M = len(self.methods)
        better = sum((self.cells[name].better.astype(int) for name in self.judging), np.zeros((M, M), int))
        wins = better - better.T  # columns in which one is better, less those in which it is worse
        return sorted((m for m in ranked if wins[ranked[0], m] <= 0), key=lambda m: self.cost[m])

    @property
    def best(self) -> str:
        """The cheapest of the best."""
        return self.methods[[*self.equal, *self.order][0]]

    @door
    def beats(self, one: str, other: str, column: str) -> bool:
        """Whether the method `one` is better than the `other` in a `column` by more than chance."""
        cells = self.cells[one_of(column, "column", tuple(self.cells))]
        k, m = (self.methods.index(one_of(name, "a method", self.methods)) for name in (one, other))
        return bool(cells.better[k, m])

    @property
    def advice(self) -> str:
        """Which method to use and which to avoid, in one or two sentences."""
        best, names, points = self.best, self.methods, self.cells.get(REMOVAL)
        if best == "random" or not self.judging:
            return ""
        if not any(self.cells[name].better.any() for name in self.judging):
            return f"{self.about['sequences']} sequences do not tell these methods apart; try more."
        first, claims, poor = names.index(best), [], []
        if points is not None:
            others = [m for m in self.order if m not in self.equal and names[m] != "random"]
            other = next((m for m in others if points.better[first, m]), None)
            if other is not None:
                apart, half = points.value[first] - points.value[other], points.apart[first, other]
                claims.append(f"beats {names[other]} by {apart:.0f} ± {half:.0f} points of removal")
            random = [name for name, low in zip(names, points.low, strict=True) if not low > 0]  # as good as random
            poor = [name for name in random if name not in (best, "random")]
        costlier = [m for m in self.equal if m != first]
        if costlier:
            share = 100 * self.cost[first] / self.cost[costlier[-1]]
            claims.append(f"equals {names[costlier[-1]]} at {max(share, 0.1):.2g} % of the cost")
        text = f"Use {best}: on your data it {' and '.join(claims) or 'has the best mean rank'}."
        if poor:
            text += f" Avoid {', '.join(poor[:-1])}{' and ' * (len(poor) > 1)}{poor[-1]}."
        return text

    @property
    def _show(self) -> Any:
        """The module that draws rankings."""
        from lrpnumpy.show import ranking

        return ranking

    def __repr__(self) -> str:
        return self._show.brief(self)

    def __str__(self) -> str:
        return self._show.text(self)

    def _repr_html_(self) -> str:
        return self._show.fragment(self)

    def to_html(self) -> str:
        """One self-contained page."""
        return self._show.page(self)

    def figure(self) -> Figure:
        """A matplotlib figure: every column with its intervals."""
        return self._show.figure(self)

    @door
    def to_json(self, **options: Any) -> str:
        """A JSON text. `options` are those of `json.dumps`."""
        columns = {}
        for name, cells in self.cells.items():
            about = {key: getattr(COLUMNS[name], key) for key in ("title", "meaning", "best")}
            columns[name] = about | {key: np.asarray(part).tolist() for key, part in cells._asdict().items()}
        content = {
            "format": FORMAT,
            "methods": self.methods,
            "order": [self.methods[m] for m in self.order],
            "mean_rank": self.mean_rank.tolist(),
            "best": self.best,
            "advice": self.advice,
            "columns": columns,
            "about": dict(self.about),
        }
        # JSON has neither NaN nor infinity.
        return dumped(json.loads(json.dumps(content), parse_constant=lambda name: None), options)
