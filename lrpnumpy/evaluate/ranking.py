"""The result of ranking methods: a value with an interval for each method and column, ranks, and advice; to JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError, one_of, parse_json, whole
from lrpnumpy.evaluate import chance
from lrpnumpy.meant import door
from lrpnumpy.methods import METHODS
from lrpnumpy.result import dumped

FEWEST = 5  # samples that a bootstrap needs
ENOUGH = 30  # sequences of which it mostly tells methods apart
ABOUT = {"sequences", "explained", "unit", "reference", "seed", "output"}  # what a heading needs
FORMAT = "lrpnumpy ranking 1"


class Column(NamedTuple):
    """One column of the table."""

    title: str  # as tables show it
    measure: str  # what it is made by
    best: Literal["high", "low"] | None  # None: there is no better and worse
    judges: bool  # whether it says that a relevance is right: these make the overall rank
    meaning: str  # in a sentence or two
    percent: bool = False  # whether values are shares of 100
    shown: bool = True  # in the table; the rest is in JSON and on the page


COLUMNS = {
    "most": Column(
        "most first", "removal", "high", True,
        "The most relevant is removed first: how far the prediction falls, 0 as in random order, 100 as in the best "
        "order found by a beam search or any method. It asks whether the relevance names what the prediction rests on.",
        True,
    ),
    "least": Column(
        "least first", "removal", "high", True,
        "The least relevant is removed first: how well the prediction holds, 0 as in random order, 100 as in the best "
        "order found by a beam search or any method. It asks whether low relevance means that an input can go.", True,
    ),
    "comprehensiveness": Column(
        "comprehensive", "removal", "high", False,
        "Mean fall of the prediction without the most relevant 10, 20 and 50 %.",
    ),
    "sufficiency": Column(
        "sufficient", "removal", "low", False,
        "Mean fall of the prediction with nothing but the most relevant 10, 20 and 50 %; below 0 it rises.",
    ),
    "steps": Column(
        "true steps", "truth", "high", True,
        "On small networks of which it is known which steps decide: how much of the relevance is there.", True,
    ),
    "values": Column(
        "true values", "truth", "high", True,
        "On the same networks: correlation of the relevance with what each step really contributes.", True,
    ),
    "features": Column(
        "true features", "truth", "high", True,
        "On small networks of which it is known which features decide: how much of the relevance is theirs.", True,
    ),
    "randomisation": Column(
        "random weights", "randomisation", "low", False,
        "Rank correlation, as its size, with the relevance of the same network with random weights, from the top layer "
        "down. What stays the same does not explain the network. Random numbers pass: they have nothing to do with "
        "the weights in the first place.",
    ),
    "stability": Column(
        "unstable", "stability", "low", False,
        "Largest share of the relevance that moves elsewhere when the input changes by 5 % of its spread, over the "
        "change of the prediction. A method that always says the same is perfectly stable, and useless.",
    ),
    "inputs": Column(
        "inputs got", "completeness", None, False, "How much of the score the relevances of all inputs add up to.", True
    ),
    "lost": Column(
        "lost", "completeness", "low", False,
        "How much of the score is neither in the inputs nor in a ledger (biases, stabiliser, reference). That sums are "
        "right does not mean that their parts are.", True,
    ),
    "biases": Column("biases", "completeness", None, False, "How much of the score the biases kept.", True, False),
    "stabiliser": Column("stabiliser", "completeness", None, False, "How much the stabiliser kept.", True, False),
    "reference": Column("reference", "completeness", None, False, "The score of the reference.", True, False),
    "agreement": Column(
        "agreement", "agreement", None, False,
        "Mean rank correlation with the other methods. Methods that agree may be wrong together.",
    ),
    "cost": Column(
        "cost", "cost", "low", False,
        "Processor time of an explanation in forward passes; the cheapest need not be right.",
    ),
}  # fmt: skip


class Cells(NamedTuple):
    """One column for every method; NaN where a method has no value."""

    value: np.ndarray  # (M,)
    low: np.ndarray  # (M,) ends of the 95 % interval
    high: np.ndarray  # (M,)
    better: np.ndarray  # (M, M) whether the first is better than the second by more than chance
    samples: int  # sequences, networks, or parts of the data

    @classmethod
    def of(cls, above: np.ndarray, below: np.ndarray, column: Column, seed: int) -> Cells:
        """Values mean(`above`) / mean(`below`) in a `column`, and their bootstrap, drawn by `seed`."""
        M, n = above.shape
        if not n:  # nothing to measure, such as an order of words where every sequence has one
            nothing = np.full(M, np.nan)
            return cls(nothing, nothing, nothing, np.zeros((M, M), bool), 0)
        scale = 100.0 if column.percent else 1.0
        drawn = scale * chance.drawn_again(above, below, seed)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = scale * above.mean(axis=1) / below.mean()
        better = np.zeros((M, M), bool)
        if n < FEWEST:  # too few samples to tell anything from chance
            drawn = np.full_like(drawn, np.nan)
        elif column.best is not None:
            better = chance.better(drawn, column.best)
        low, high = chance.interval(drawn)
        return cls(value, low, high, better, n)

    @property
    def ranks(self) -> np.ndarray:
        """(M,) one more than the number of methods that are better by more than chance; NaN without a value."""
        return np.where(np.isnan(self.value), np.nan, 1.0 + self.better.sum(axis=0))

    @property
    def unbeaten(self) -> np.ndarray:
        """(M,) whether no method is better by more than chance; never where there are too few samples to tell."""
        return (self.ranks == 1) & (self.samples >= FEWEST)


@dataclass(frozen=True, eq=False)
class Ranking:
    """Which method to trust: printed a table, in a notebook a page; `figure()`, `to_html()`, `to_json()`."""

    methods: tuple[str, ...]  # M names
    cells: Mapping[str, Cells]  # by column
    agreement: np.ndarray | None  # (M, M) rank correlation of the methods
    about: Mapping[str, Any]  # model, data and settings

    @property
    def judging(self) -> list[str]:
        """The columns that make the overall rank."""
        return [name for name in self.cells if COLUMNS[name].judges]

    @door
    def mean_rank(self, measures: Sequence[str]) -> np.ndarray:
        """(M,) mean rank in the judging columns of some `measures`, of which each counts alike."""
        parts = []
        for measure in measures:
            ranks = [self.cells[name].ranks for name in self.judging if COLUMNS[name].measure == measure]
            if ranks:
                parts.append(_mean(np.array(ranks)))
        return _mean(np.array(parts or [np.ones(len(self.methods))]))

    @property
    def overall(self) -> np.ndarray:
        """(M,) mean rank in removal and ground truth."""
        return self.mean_rank([*dict.fromkeys(COLUMNS[name].measure for name in self.judging)])

    @property
    def order(self) -> list[int]:
        """The methods, best first; where ranks are equal, by the mean value in the judging columns."""
        means = _mean(np.array([self.cells[name].value for name in self.judging] or [np.zeros(len(self.methods))]))
        return sorted(range(len(self.methods)), key=lambda m: (np.nan_to_num(self.overall[m], nan=np.inf), -means[m]))

    @property
    def best(self) -> str:
        """The first method of the order."""
        return self.methods[self.order[0]]

    @door
    def beats(self, one: str, other: str, column: str) -> bool:
        """Whether the method `one` is better than the `other` in a `column` by more than chance."""
        cells = self.cells[one_of(column, "column", tuple(self.cells))]
        k, m = (self.methods.index(one_of(name, "a method", self.methods)) for name in (one, other))
        return bool(cells.better[k, m])

    @property
    def advice(self) -> list[str]:
        """What to use when, in sentences that follow from the cells."""
        return [*_advice(self)]

    def __str__(self) -> str:
        from lrpnumpy.show import ranking

        return ranking.text(self)

    def _repr_html_(self) -> str:
        from lrpnumpy.show import ranking

        return ranking.fragment(self)

    def to_html(self) -> str:
        """One self-contained page."""
        from lrpnumpy.show import ranking

        return ranking.page(self)

    def figure(self) -> Any:
        """A matplotlib figure: every column with its intervals, and the agreement of the methods."""
        from lrpnumpy.show import ranking

        return ranking.figure(self)

    @door
    def to_json(self, **options: Any) -> str:
        """A JSON text; `from_json` reads it back. `options` are those of `json.dumps`."""
        cells = {
            name: {key: np.asarray(part).tolist() for key, part in one._asdict().items()}
            | {"title": COLUMNS[name].title, "meaning": COLUMNS[name].meaning, "best": COLUMNS[name].best}
            for name, one in self.cells.items()
        }
        whole = {
            "format": FORMAT,
            "methods": self.methods,
            "order": [self.methods[m] for m in self.order],
            "mean_rank": self.overall.tolist(),
            "advice": self.advice,
            "columns": cells,
            "agreement": None if self.agreement is None else self.agreement.tolist(),
            "about": dict(self.about),
        }
        return dumped(_without_nan(whole), options)

    @staticmethod
    def from_json(text: str) -> Ranking:
        """A ranking from the `text` that `to_json` wrote; of any other one an error says what is wrong with it."""
        try:
            data = parse_json(text)
        except (TypeError, ValueError, AttributeError) as error:
            reason = str(error)[:200]
            raise LrpError(f"from_json must get the text that Ranking.to_json wrote, got no JSON: {reason}.") from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise LrpError("from_json must get the text that Ranking.to_json wrote, got JSON without its format line.")
        names, columns, about = data.get("methods"), data.get("columns"), data.get("about")
        if not isinstance(names, list) or not names or not all(isinstance(one, str) for one in names):
            raise LrpError("from_json: methods must be a list of names, got something else.")
        if len(set(names)) < len(names):
            raise LrpError("from_json: methods must differ from each other, got one twice.")
        if not isinstance(columns, dict) or not all(isinstance(one, dict) for one in columns.values()):
            raise LrpError("from_json: columns must be an object of objects, got something else.")
        if not isinstance(about, dict) or not {*about} >= ABOUT:
            raise LrpError(f"from_json: about must be an object with {', '.join(sorted(ABOUT))}, got something else.")
        M = len(names)
        for name in columns:
            one_of(name, "from_json: a column", tuple(COLUMNS))
        cells = {
            name: Cells(
                _numbers(f"{name}: value", one.get("value"), (M,)),
                _numbers(f"{name}: low", one.get("low"), (M,)),
                _numbers(f"{name}: high", one.get("high"), (M,)),
                _numbers(f"{name}: better", one.get("better"), (M, M)) > 0,
                whole(one.get("samples"), f"from_json: {name}: samples", 0),
            )
            for name, one in columns.items()
        }
        agreement = data.get("agreement")
        alike = None if agreement is None else _numbers("agreement", agreement, (M, M))
        return Ranking(tuple(names), cells, alike, about)


def _numbers(where: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of this shape, with NaN for null."""
    try:
        found = np.array(value)
        if found.shape == shape and (found.dtype == bool or found.dtype.kind in "iufO"):
            return found.astype(float)
    except (TypeError, ValueError, OverflowError, RecursionError):  # ragged lists, texts, lists in lists
        pass
    raise LrpError(f"from_json: {where} must be numbers of shape {shape}, got something else.")


def _mean(rows: np.ndarray) -> np.ndarray:
    """(M,) the mean of (K, M), without what is missing; NaN where all is."""
    known = ~np.isnan(rows)
    means = np.where(known, rows, 0).sum(axis=0) / np.maximum(1, known.sum(axis=0))
    return np.where(known.any(axis=0), means, np.nan)


def _without_nan(value: Any) -> Any:
    """NaN and infinity as null: JSON has neither."""
    if isinstance(value, dict):
        return {key: _without_nan(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _advice(found: Ranking) -> Any:
    names, cells, every = found.methods, found.cells, [found.methods[m] for m in found.order]
    order = [one for one in every if one != "random"]  # it is here to be compared with
    if not order or not found.judging:
        return
    removal = [name for name in ("most", "least") if name in cells]
    if removal and all(cells[name].samples < ENOUGH and not cells[name].better.any() for name in removal):
        yield f"Too few sequences to tell the methods apart; try at least {ENOUGH}."
        return
    first = names.index(order[0])
    judging = [COLUMNS[name].title for name in found.judging if not np.isnan(cells[name].value[first])]
    equal = [one for one in every if one != order[0] and not any(found.beats(order[0], one, n) for n in found.judging)]
    same = f" Not told apart from it: {', '.join(equal)}." if equal else ""
    yield f"In general: {order[0]}, which has the best mean rank in {', '.join(judging)}.{same}"
    on_data = found.mean_rank(["removal"])
    best = min(on_data[names.index(one)] for one in order)
    if "most" in cells and best < on_data[first]:
        ahead = [one for one in order if on_data[names.index(one)] == best]
        yield f"By removal on these data alone: {', '.join(ahead)}."
    if "cost" in cells:
        cost = dict(zip(names, cells["cost"].value, strict=True))
        cheap = min((one for one in order if one == order[0] or one in equal), key=lambda one: cost[one])
        yield f"For many inputs: {cheap}, the cheapest of these ({cost[cheap]:.1f} forward passes)."
    if "lost" in cells:
        sums = [one for one in order if abs(cells["lost"].value[names.index(one)]) < 1]
        if sums:
            yield f"Where every part of the score must be accounted for: {sums[0]}."
    fine = [one for one in order if one in METHODS and METHODS[one].feature_relevance == "free"]
    if fine:
        yield f"For one value a feature: {fine[0]}."
    poor = [one for m, one in enumerate(names) if all(not cells[name].low[m] > 0 for name in removal)]
    if poor and removal:
        yield f"Not for this network: {', '.join(poor)}, no better than a random order in removal."
    if "randomisation" in cells:
        deaf = [one for m, one in enumerate(names) if cells["randomisation"].low[m] > 0.5]
        if deaf:
            yield (
                f"To look at twice: {', '.join(deaf)}, with a rank correlation above 0.5 to what they say of the "
                "network with random weights."
            )
    if "random" in names:
        m = names.index("random")
        passed = [
            COLUMNS[name].title
            for name, one in cells.items()
            if COLUMNS[name].best
            and COLUMNS[name].shown
            and one.samples >= FEWEST
            and one.better[:, m].sum() < (len(names) - 1) / 2
        ]
        if passed:
            yield (
                "One measure is not enough: random numbers, which say nothing, are beaten by less than half of the "
                f"methods in {', '.join(passed)}."
            )
