"""What the river network has learned: its skill, its snow, how far back it looks, which method sees the melt.

Each function answers one question with a table or a figure, and computes nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np

import lrpnumpy as lrp
from benchmarks.paper.page import Figure, Piece, Table, Text, canvas
from benchmarks.river.data import DAYS, TEST, TRAINING, WEATHER, River, efficiency

CHEAP = ("lrp-all", "gradient-x-input", "deeplift")  # on every day of the test years
METHODS = (*CHEAP, "integrated-gradients", "occlusion-f")  # on a sample
WITH_REFERENCE = ("deeplift", "integrated-gradients")
SAMPLE = 120  # days of that sample
SEASONS = {"spring": (3, 4, 5), "autumn": (9, 10, 11)}
MELT = (4, 5)  # months of the snow melt
FREEZING = 0.0  # °C: a day whose warmest hour is colder brings snow, not rain
AGAIN = 1000  # bootstrap samples


class Study:
    """The network on the days of the test years."""

    def __init__(self, model: lrp.Model, river: River, seed: int = 0) -> None:
        self.model, self.river = model, river
        self.days = river.days(*TEST)  # (n,) positions of the predicted days
        self.month = river.date[self.days].astype("datetime64[M]").astype(int) % 12 + 1
        self.year = river.date[self.days].astype("datetime64[Y]").astype(int) + 1970
        self.rng = np.random.default_rng(seed)

    @cached_property
    def predicted(self) -> np.ndarray:
        """(n,) discharge in mm."""
        return lrp.predict_all(self.model, self.river.windows(self.days))[:, 0]

    @cached_property
    def sample(self) -> np.ndarray:
        """Which of the days the slow methods explain: in equal parts of spring and autumn, in order of time."""
        half = [
            self.rng.choice(np.flatnonzero(np.isin(self.month, some)), SAMPLE // 2, False) for some in SEASONS.values()
        ]
        return np.sort(np.concatenate(half))

    def relevance(self, method: str, which: np.ndarray) -> np.ndarray:
        """(n, DAYS, 5) in mm, of some of the days. Methods with a reference get mean weather without precipitation."""
        options = {"reference": np.array([0.0, *self.model.scaler.mean[1:]])} if method in WITH_REFERENCE else {}
        found = lrp.explain_all(self.model, self.river.windows(self.days[which]), method, unit="feature", **options)
        return found.feature_relevance.reshape(len(which), DAYS, len(WEATHER))

    def interval(self, groups: np.ndarray, figure: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """(2, …) where 95 % of `figure` lie when whole years are drawn with replacement: days of a year are alike."""
        members = [np.flatnonzero(groups == year) for year in np.unique(groups)]
        drawn = [
            figure(np.concatenate([members[k] for k in self.rng.integers(0, len(members), len(members))]))
            for _ in range(AGAIN)
        ]
        return np.quantile(drawn, (0.025, 0.975), axis=0)


def skill(study: Study) -> Iterator[Piece]:
    """How well the network predicts."""
    observed, conceptual = study.river.observed[study.days], study.river.conceptual[study.days]
    rows = []
    for name, chosen in [("all", study.days >= 0), *((s, np.isin(study.month, m)) for s, m in SEASONS.items())]:
        figures = [efficiency(one[chosen], observed[chosen]) for one in (study.predicted, conceptual)]
        rows.append([name, str(chosen.sum()), *(f"{one:.3f}" for one in figures)])
    header = ["season", "days", "network", "conceptual model"]
    yield Table("skill", f"Nash-Sutcliffe efficiency, {TEST[0]} to {TEST[1]}", header, rows)


def snow(study: Study) -> Iterator[Piece]:
    """Whether a hidden unit has found the snow, which the network never saw."""
    river = study.river
    cells = lrp.trace(study.model, river.weather)["0/c"]  # (days, H), the whole series as one sequence
    known = np.isfinite(river.snow)

    def correlations(days: np.ndarray) -> np.ndarray:
        return np.array([np.corrcoef(cells[days, j], river.snow[days])[0, 1] for j in range(cells.shape[1])])

    def of_years(first: str, last: str) -> np.ndarray:
        days = river.days(first, last)
        return days[known[days]]

    best = int(abs(correlations(of_years(*TRAINING))).argmax())  # chosen where it was trained, judged where it was not
    days = of_years(*TEST)
    found = np.corrcoef(cells[days, best], river.snow[days])[0, 1]
    low, high = study.interval(
        river.date[days].astype("datetime64[Y]").astype(int),
        lambda some: np.corrcoef(cells[days[some], best], river.snow[days[some]])[0, 1],
    )
    yield Text(
        f"The cell of unit {best} correlates {found:.2f} (95 % of resampled years: {low:.2f} to {high:.2f}) with the "
        f"snow of the conceptual model on {len(days)} days of the test years. The network never saw snow, only "
        f"weather. The unit was chosen on the training years among {cells.shape[1]}."
    )
    drawn = canvas(9, 3.2)
    left = drawn.subplots()
    shown = days[river.date[days] >= np.datetime64("2009-10-01")]
    left.fill_between(river.date[shown], river.snow[shown], color="#9ecae1", label="snow, conceptual model")
    left.set_ylabel("snow in mm")
    right = left.twinx()
    right.plot(river.date[shown], np.sign(found) * cells[shown, best], color="#d95f0e", lw=1.2)
    right.set_ylabel(f"{'' if found > 0 else '−'}c of unit {best}", color="#d95f0e")
    left.set_title(f"A cell that counts snow: correlation {abs(found):.2f} on the test years", fontsize=10)
    yield Figure.of("snow", f"The snow of the conceptual model, and the cell of unit {best}", drawn)


def memory(study: Study) -> Iterator[Piece]:
    """How far back relevance reaches in each month."""
    rows, curves = [], {}
    for method in CHEAP:
        shares = abs(study.relevance(method, np.arange(len(study.days)))).sum(axis=2)[:, ::-1]  # (n, lags)
        shares /= shares.sum(axis=1, keepdims=True)
        curves[method] = shares
    every = {f"{month}": (month,) for month in range(1, 13)}
    for name, months in every.items():
        row = [np.datetime64(f"2001-{int(name):02}").astype(object).strftime("%B")]
        for method in CHEAP:
            chosen = np.flatnonzero(np.isin(study.month, months))
            some, years = curves[method][chosen], study.year[chosen]
            low, high = study.interval(years, lambda drawn, some=some: half_life(some[drawn].mean(axis=0)))
            row.append(f"{half_life(some.mean(axis=0)):.0f} ({low:.0f} to {high:.0f})")
        rows.append(row)
    yield Table(
        "memory",
        "How many days back half of the absolute relevance lies, by month of the predicted day",
        ["month", *CHEAP],
        rows,
        "In parentheses: 95 % intervals, from resampling whole years.",
    )
    drawn = canvas(9, 3.4)
    for axes, method in zip(drawn.subplots(1, len(CHEAP), sharey=True), CHEAP, strict=True):
        for (season, months), tint in zip(SEASONS.items(), ("#3182bd", "#d95f0e"), strict=True):
            chosen = np.flatnonzero(np.isin(study.month, months))
            some, years = curves[method][chosen].cumsum(axis=1), study.year[chosen]
            low, high = study.interval(years, lambda drawn, some=some: some[drawn][:, ::7].mean(axis=0))
            axes.plot(some.mean(axis=0), color=tint, label=season)
            axes.fill_between(np.arange(0, DAYS, 7), low, high, color=tint, alpha=0.25, lw=0)
        axes.axhline(0.5, color="0.6", lw=0.7)
        axes.set(title=method, xlabel="days back", ylim=(0, 1))
        axes.title.set_fontsize(10)
    drawn.axes[0].set_ylabel("share of |relevance| since then")
    drawn.axes[0].legend(frameon=False, loc="lower right")
    yield Figure.of("memory", "Memory in spring and in autumn, with intervals over years", drawn)


def half_life(shares: np.ndarray) -> float:
    """The lag by which half of the shares (lags,) is reached, between days."""
    reached = shares.cumsum() / shares.sum()
    return float(np.interp(0.5, reached, np.arange(len(shares))))


def agreement(study: Study) -> Iterator[Piece]:
    """Whether the methods agree."""
    found = {method: study.relevance(method, study.sample).sum(axis=2) for method in METHODS}
    rows = [
        [
            a,
            *(
                f"{np.mean([np.corrcoef(x, y)[0, 1] for x, y in zip(found[a], found[b], strict=True)]):.2f}"
                for b in METHODS
            ),
        ]
        for a in METHODS
    ]
    title = f"Correlation of the relevance of the 365 days, mean over {len(study.sample)} predictions"
    yield Table("agreement", title, ["", *METHODS], rows)


def melt(study: Study) -> Iterator[Piece]:
    """Which method puts relevance on the melt, held against an experiment."""
    chosen = np.flatnonzero(np.isin(study.month, MELT))
    chosen = np.sort(study.rng.choice(chosen, min(SAMPLE, len(chosen)), False))
    windows = study.river.windows(study.days[chosen])
    is_frozen = windows[:, :, WEATHER.index("tmax_c")] < FREEZING  # (n, DAYS)
    without = windows.copy()
    without[:, :, 0][is_frozen] = 0.0  # the same year without its snowfall
    drop = study.predicted[chosen] - lrp.predict_all(study.model, without)[:, 0]  # (n,) mm
    rows, errors = [], {}
    for method in METHODS:
        R = study.relevance(method, chosen)
        snowfall = (R[:, :, 0] * is_frozen).sum(axis=1)
        share = abs(R).sum(axis=2)
        warm = R[:, -60:, 1:].sum(axis=(1, 2))
        errors[method] = float(abs(snowfall - drop).mean())
        rows.append(
            [
                method,
                f"{np.corrcoef(snowfall, drop)[0, 1]:.2f}",
                f"{snowfall.mean():+.2f} mm",
                f"{errors[method]:.2f} mm",
                f"{100 * (share * is_frozen).sum() / share.sum():.0f} %",
                f"{warm.mean():+.2f} mm",
            ]
        )
    yield Text(
        f"The experiment uses {len(chosen)} days of April and May. Without the precipitation of the freezing days of "
        f"the year before (warmest hour below {FREEZING:g} °C, {100 * is_frozen.mean():.0f} % of all days), the "
        f"network predicts {drop.mean():.2f} mm less on average, of {study.predicted[chosen].mean():.2f} mm. A method "
        f"that sees the melt gives the snowfall of such days the relevance that this experiment measures."
    )
    yield Table(
        "melt",
        "Relevance and the snow, in the months of the melt",
        ["method", "snowfall: correlation with the experiment", "snowfall: mean", "mean distance from the experiment",
         "freezing days: share of |relevance|", "warmth of the last 60 days: mean"],
        rows,
        f"A method that gives snowfall no relevance is {abs(drop).mean():.2f} mm away from the experiment on average. "
        f"Closest is {min(errors, key=errors.get)}.",  # type: ignore[arg-type]
    )  # fmt: skip
