"""What every sequence of results can do: those of `explain_all`, `explain_windows`, `open_explanations`, `compare`."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Self, overload

import numpy as np

from lrpnumpy import checks
from lrpnumpy.checks import LrpError, encodable, library, one_of
from lrpnumpy.fields import taken
from lrpnumpy.lazy import cached_property
from lrpnumpy.meant import door
from lrpnumpy.result import Explanation
from lrpnumpy.summary import TIMES, Summary, Sums, joined, one_each, times
from lrpnumpy.targets import MIXED, Panel, class_names, panels
from lrpnumpy.verdict import EvidenceList

if TYPE_CHECKING:
    import pandas as pd
    import shap
    import xarray as xr


class InputRows(NamedTuple):
    """What one input received in several results, one behind the other."""

    lengths: np.ndarray  # (N,) steps of each result
    relevance: np.ndarray  # (R,), or (C, R) with target "all"
    feature_relevance: np.ndarray | None  # (R, D), likewise
    features: tuple[str, ...] | None  # D names
    tokens: Sequence[Sequence[str] | None]  # N times the words of a result, where it has words

    @property
    def words(self) -> list[str] | None:
        """(R,) the words of all results; None where one has none."""
        return None if None in self.tokens else [*chain.from_iterable(self.tokens)]  # type: ignore[arg-type]


class Results(Sequence[Explanation]):
    """A sequence of explanations by one model. A slice of it has the same type.

    A subclass has `__len__`, `_one` for the explanation of an index, and `_some` for those of several. The rest follows
    from these; one that has its results in arrays also has `received`, `scores`, `targets`, `explained_steps`, `dates`.
    """

    @abstractmethod
    def _one(self, k: int) -> Explanation: ...

    @abstractmethod
    def _some(self, places: Sequence[int]) -> Self: ...

    @overload
    def __getitem__(self, key: int) -> Explanation: ...
    @overload
    def __getitem__(self, key: slice) -> Self: ...
    def __getitem__(self, key: int | slice) -> Explanation | Self:
        """The explanation of an index, or the results of a slice."""
        if not isinstance(key, slice):
            return self._one(checks.position(key, "number of an explanation", len(self)))
        try:
            places = range(*key.indices(len(self)))
        except (TypeError, ValueError):  # of other than numbers, and of steps of 0
            raise LrpError(f"a slice of explanations must have whole numbers, got {key!r}.") from None
        return self._some(places)

    def __iter__(self) -> Iterator[Explanation]:
        return (self._one(k) for k in range(len(self)))

    @property
    def _about(self) -> str:
        """All of them in a line."""
        return f"<{len(self)} explanations>"

    def __repr__(self) -> str:
        from lrpnumpy.show import records

        return records.text(self, self._about) if len(self) else self._about

    def _repr_html_(self) -> str:
        from lrpnumpy.show import records

        return records.fragment(self, self._about)

    def numbered(self) -> Iterable[tuple[int, Explanation]]:
        """Each explanation with its number, counted from 1."""
        return enumerate(self, 1)

    def received(self, input: str | None = None) -> InputRows:
        """What the `input` of that name, by default the first, received in all results, one behind the other."""
        self._not_empty("results")
        name = self._input(input)
        parts = [e.inputs[name] for e in self]
        features = None
        if all(part.feature_relevance is not None for part in parts):  # not every method of a comparison has it
            features = np.concatenate([part.feature_relevance for part in parts], axis=-2)
        return InputRows(
            np.array([part.relevance.shape[-1] for part in parts]),
            np.concatenate([part.relevance for part in parts], axis=-1),
            features,
            parts[0].features,
            [part.tokens for part in parts],
        )

    def _input(self, name: str | None) -> str:
        """The name of an input, by default that of the first."""
        names = tuple(self[0].inputs)
        if name is None:
            return names[0]
        return one_of(name, "input", names)

    @property
    def relevance(self) -> np.ndarray:
        """(R,) relevance of the steps of all results, one behind the other; with target "all" (C, R)."""
        return self.received().relevance

    @cached_property
    def scores(self) -> np.ndarray:
        """(N, C) scores of the explained predictions."""
        return np.array([e.scores for e in self])

    @cached_property
    def targets(self) -> np.ndarray:
        """(N,) the class explained; with target "all" (C, N)."""
        every = [range(len(e.scores)) if e.target == "all" else e.target for e in self]
        return np.array(every, np.int64).T

    @cached_property
    def explained_steps(self) -> np.ndarray:
        """(N,) the step whose prediction is explained."""
        return np.array([e.predicted_at for e in self])

    @property
    def dates(self) -> list[Any]:
        """Label of the last step of each result, or None."""
        return [taken(e.labels, -1) for e in self]

    def evidence(self) -> EvidenceList:
        """What experiments say about each of them, computed as one batch and kept; see `Explanation.evidence`."""
        from lrpnumpy.evidence import evidence_of_all

        return evidence_of_all([*self])

    def stacked(self) -> np.ndarray:
        """(N, T, D) relevance of every feature, or (N, T) of every step where there is none per feature.

        With target "all" the classes are a leading axis. All sequences must have the same number of steps.
        """
        self._not_empty("stacked")
        lengths, relevance, features, *_ = self.received()
        if len({*lengths.tolist()}) > 1:
            raise LrpError(f"stacked: sequences must have one length, got {sorted({*lengths.tolist()})[:9]}.")
        if features is None:
            return relevance.reshape(*relevance.shape[:-1], len(self), -1)
        return features.reshape(*features.shape[:-2], len(self), -1, features.shape[-1])

    def to_frame(self) -> pd.DataFrame:
        """A pandas frame, one row per step of each result, as `Explanation.to_frame` gives it; record is its number."""
        self._not_empty("to_frame")
        frames = [e.to_frame() for e in self]
        pandas = library("pandas", "to_frame")
        frame = pandas.concat(frames, keys=range(len(frames)), names=["record", None])
        return frame.reset_index("record").reset_index(drop=True)

    @door
    def to_shap(self, flat: bool = True) -> shap.Explanation:
        """A `shap.Explanation` of all of them, one row per result; see `Explanation.to_shap`.

        flat: as there; False gives (N, T, D). Sequences of numbers must have one length; words may have any.
        """
        from lrpnumpy.exchange import to_shap

        self._not_empty("to_shap")
        return to_shap([*self], flat, single=False)

    def to_xarray(self) -> xr.Dataset:
        """A dataset of xarray: `relevance` by record and step, and by feature where there is one per feature; `scores`.

        With target "all" relevance has the dimension output, too. All sequences must have the same number of steps.
        """
        self._not_empty("to_xarray")
        xarray = library("xarray", "to_xarray")
        values, first, dates = self.stacked(), self[0], self.dates
        dimensions = ["record", "step"]
        coordinates: dict[str, Any] = {"output": [*map(encodable, class_names(first))]}
        if first.target == "all":
            dimensions.insert(0, "output")
        if first.feature_relevance is not None:
            dimensions.append("feature")
            coordinates["feature"] = [*map(encodable, first.first.feature_names)]
        if all(isinstance(date, np.datetime64) for date in dates):
            coordinates["record"] = np.array(dates)
        found = {"relevance": (dimensions, values), "scores": (("record", "output"), self.scores)}
        return xarray.Dataset(found, coordinates, {"method": first.method, "unit": first.output_unit or ""})

    def _not_empty(self, what: str) -> None:
        if not len(self):
            raise LrpError(f"{what}: there are no explanations; pass at least one.")

    def _pieces(self) -> Iterable[Results]:
        """Themselves, or several results, one behind the other, of which each fits the memory."""
        return [self]

    @door
    def summary(self, by: Any = None, input: str | None = None, target: Any = None) -> Summary:
        """Mean relevance of all of them by feature and lag, of each group; of words by token.

        by: "class" for groups by the class explained; "year", "season" or "month" of the last step's date; or one value
            for each explanation.
        input: of a network with several inputs, the one that is summed up; by default the first.
        target: the class that all are explained for. None is the one that was explained, the positive one of two
            classes, or each class as a group; "predicted" mixes the predicted classes.
        """
        return self._summary(by, input, target)

    def _summary(self, by: Any, input: str | None, target: Any, done: Callable[[int], Any] = lambda n: None) -> Summary:
        """The same; `done` is told how many explanations have been added."""
        self._not_empty("a summary")
        first, name = self[0], self._input(input)
        by_class = isinstance(by, str) and by == "class"
        own_class = by_class and first.target != "all"
        mixed = [Panel(MIXED, self, None, range(len(self)))]
        every, groups = mixed, None
        if not own_class:
            every = panels(self, target, "a summary")
        if own_class or not by_class:
            groups = self._groups(by)
        results, several, about = every[0].many, len(every) > 1, ""
        if not several and not own_class and len(first.scores) > 1:
            about = every[0].name
        if several and every[0].c is None:  # each explains its own class: one pass, by the name of the class
            classes = {k: panel.name for panel in every for k in panel.places}
            groups = joined(groups, [classes[k] for k in range(len(self))])
            results, every = self, mixed
        assert isinstance(results, Results)
        sums, done_before = None, 0
        for many in results._pieces():
            own = taken(groups, slice(done_before, done_before + len(many)))
            done_before += len(many)
            rows = many.received(name)
            lengths, values, features, words = rows.lengths, rows.feature_relevance, rows.features, rows.words
            ends = many.explained_steps if name == next(iter(first.inputs)) else None
            if words is not None or values is None:
                values, features = rows.relevance[..., None], ("relevance",)
            sums = sums or Sums(features or [f"x{d}" for d in range(values.shape[-1])], words is not None)
            for panel in every:
                names = joined(own, [panel.name] * len(many)) if len(every) > 1 else own
                sums.add(_of_class(values, panel.c, lengths, many.scores), lengths, names, ends, words)
            done(len(many))
        assert sums is not None
        order = None
        if (several or own_class) and sums.numbers.keys() <= {*class_names(first)}:
            order = class_names(first)
        return sums.summary(first.method, first.output_unit, order, about)

    def _groups(self, by: Any) -> Sequence[Any] | None:
        """The group of each explanation; None where all are one."""
        if by is None:
            return None
        if not isinstance(by, str):
            return one_each(by, len(self))
        if one_of(by, "by, where it is a name,", ("class", *TIMES)) == "class":
            classes = class_names(self[0])
            return [classes[c] for c in self.targets.tolist()]
        dates = self.dates
        if not all(isinstance(date, np.datetime64) for date in dates):
            raise LrpError(f"by must be 'class' or a list where steps have no dates, got {by!r}.")
        return times(np.array(dates), by)

    @door
    def page(self, path: str | os.PathLike[str], *more: Any, **options: Any) -> None:
        """Write one self-contained HTML file to explore these explanations, with a table of all records.

        path: the file to be made, which ends in .html; one that exists is replaced.
        more: results of the same records by other methods, to choose from and to compare with.
        options: those of lrp.write_page: label, name, title, most, seed.
        """
        from lrpnumpy.page import write_page

        write_page(path, self, *more, **options)

    @door
    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False, formulas: bool = False) -> None:
        """Write all explanations to a file whose `path` ends in .jsonl, .csv, .h5 or .parquet (which needs pyarrow).

        A line of .jsonl is one explanation, which `Explanation.from_json` reads back exactly. An existing file
        raises an error unless `overwrite` is true. In .csv, a word that looks like a formula, such as =1+1, starts with
        an apostrophe, unless `formulas` is true.
        """
        from lrpnumpy.corpus.export import export

        export(self, path, overwrite, formulas)


def _of_class(values: np.ndarray, c: int | None, lengths: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """(R, D) the rows of one class of (C, R, D); with -1 those of the class that each explanation predicts."""
    if c is None:
        return values
    if c >= 0:
        return values[c]
    predicted = np.repeat(scores.argmax(axis=1), lengths)
    return values[predicted, np.arange(len(predicted))]


@dataclass(frozen=True, eq=False, repr=False)
class ListedResults(Results):
    """Results in memory, one record for each."""

    explanations: tuple[Explanation, ...]

    def __len__(self) -> int:
        return len(self.explanations)

    def _one(self, k: int) -> Explanation:
        return self.explanations[k]

    def _some(self, places: Sequence[int]) -> Self:
        return type(self)(tuple(self.explanations[k] for k in places))


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(ListedResults):
    """Several methods on one input, to print, plot or tabulate: a sequence of `explanations`."""

    def __post_init__(self) -> None:
        given = self.explanations
        if not isinstance(given, tuple) or not all(isinstance(e, Explanation) for e in given):
            raise LrpError(f"Comparison: explanations must be a tuple of Explanation, got {checks.shown(given)}.")
        self._not_empty("Comparison")

    @overload
    def __getitem__(self, key: int | str) -> Explanation: ...
    @overload
    def __getitem__(self, key: slice) -> Self: ...
    def __getitem__(self, key: int | str | slice) -> Explanation | Self:
        """By position, or by the name of a method."""
        if not isinstance(key, str):
            return super().__getitem__(key)
        for explanation in self.explanations:
            if explanation.method == key:
                return explanation
        raise LrpError(f"this comparison has {', '.join(e.method for e in self)}, not {key!r}.")

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(e.method for e in self)}>"

    def __str__(self) -> str:
        from lrpnumpy.show import terminal

        return terminal.render_comparison(self, color="never")

    def _repr_html_(self) -> str:
        from lrpnumpy.page import card

        return card(self)
