"""Explanations in a folder: read as they are asked for, a sequence of the same results that `explain` gives."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lrpnumpy.checks import LrpError, one_of, optional
from lrpnumpy.corpus.folder import DAMAGE, REJECTED, Folder
from lrpnumpy.corpus.parts import PartFile
from lrpnumpy.meant import door
from lrpnumpy.protocol import ListedResults, Results
from lrpnumpy.result import Explanation
from lrpnumpy.schedule import progress_bar
from lrpnumpy.summary import Summary

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

OF_ALL = ("scores", "targets", "explained_steps")  # kept once computed, and of no use to a slice


@door
def open_explanations(path: str | os.PathLike[str]) -> Stored:
    """The explanations that `explain_corpus` wrote into the folder `path`: a sequence that is read on demand.

    For an unfinished run, these are the explanations of the parts that exist.

    >>> results = lrp.open_explanations("reviews")
    >>> print(len(results), results[0])
    """
    folder = Folder(path)
    index = folder.index()
    try:
        return Stored(folder, index["run"], folder.counts(), complete=index["parts"] is not None)
    except LrpError:
        raise
    except DAMAGE as error:
        raise LrpError(f"{folder.path}: its index is damaged ({error!r:.200}).") from None


def _strings(values: Iterable[Any]) -> tuple[str, ...]:
    return tuple(map(str, values))


class Stored(Results):
    """The explanations in a folder, or some of them: a slice is of the same type.

    `path` is the folder. `method`, `classes`, `output_unit`, and `columns`, the names of what was stored with them,
    hold for all; `features` has the names of the features of each input. `run` describes how they were computed: model
    digest, method, options, versions. `records`, `rejected` and `doubtful` count the records of the source, those that
    cannot be explained, and explanations whose relevance is not finite or numerically unstable; `complete` is whether
    the run was finished.
    """

    def __init__(self, folder: Folder, run: Any, counts: list[list[int]], complete: bool) -> None:
        self.path: Path = folder.path
        self.run, self.complete, self._folder = run, complete, folder
        self.method = str(run["method"])
        self.output_unit: str | None = optional(str, run["output_unit"])
        self.classes: tuple[str, ...] | None = optional(_strings, run["classes"])
        self.features = {name: optional(_strings, names) for name, names in run["features"].items()}
        self.columns, self._custom = _strings(run["columns"]), _strings(run["custom"])
        self._common: dict[str, Any] = {"activation": str(run["activation"]), "options": dict(run["options"])}
        self._common |= {name: getattr(self, name) for name in ("method", "classes", "output_unit", "features")}
        self.records, explained, self.rejected, self.doubtful = (sum(part[c] for part in counts) for c in range(4))
        self._starts = [0, *accumulate(part[1] for part in counts)]  # of the parts, and the end of the last
        self._places: Sequence[int] = range(explained)  # which of all explanations these are
        self._last: tuple[int, PartFile | None] = (-1, None)

    @property
    def rejected_path(self) -> Path | None:
        """The list of rejected records, one JSON object per line; None where there are none."""
        return self.path / REJECTED if self.rejected and self.complete else None

    def rejections(self) -> Iterator[tuple[int, str]]:
        """The number of each rejected record, and why it cannot be explained."""
        return self._folder.rejections(len(self._starts) - 1)

    @property
    def _about(self) -> str:
        custom = f" (custom: {', '.join(self._custom)})" if self._custom else ""
        return f"<{len(self)} explanations by {self.method}{custom} in {self.path}>"

    def __len__(self) -> int:
        return len(self._places)

    def _some(self, places: Sequence[int]) -> Stored:
        some = object.__new__(Stored)
        vars(some).update({name: value for name, value in vars(self).items() if name not in OF_ALL})
        some._places = [self._places[k] for k in places]
        return some

    def __iter__(self) -> Iterator[Explanation]:
        return (e for _, e in self.numbered())

    def _one(self, k: int) -> Explanation:
        return next(self.some([k]))

    # -- by part -----------------------------------------------------------------------------------------------------

    def _part(self, k: int) -> PartFile:
        """A part; the last one is kept."""
        last, part = self._last
        if k != last or part is None:
            with self._folder.reading(k):
                part = PartFile(self._folder.read(k), self._common)
                if part.count != self._starts[k + 1] - self._starts[k]:
                    raise ValueError("its number of explanations differs from the index")
            self._last = k, part
        return part

    def _by_part(self, which: Iterable[int] | None = None) -> Iterator[tuple[int, PartFile, list[int]]]:
        """The parts that have some of these explanations: number, part, and the places of the explanations in it."""
        places = self._places if which is None else (self._places[k] for k in which)
        for k, group in groupby(places, key=lambda place: bisect_right(self._starts, place) - 1):
            yield k, self._part(k), [place - self._starts[k] for place in group]

    def _blocks(self, which: Iterable[int] | None = None) -> Iterator[tuple[list[int], list[Explanation]]]:
        """Numbers of records and their explanations, those of one part at a time."""
        for k, part, places in self._by_part(which):
            with self._folder.reading(k):
                numbers = part.text["numbers"]
                yield [int(numbers[place]) for place in places], [part[place] for place in places]

    def _texts(self, name: str) -> Iterator[Any]:
        for k, part, places in self._by_part():
            with self._folder.reading(k):
                values = part.text[name] if name == "numbers" else part.text["columns"][name]
                yield from [values[place] for place in places]

    def some(self, which: Iterable[int]) -> Iterator[Explanation]:
        """The explanations at the places `which`."""
        return (e for _, block in self._blocks(which) for e in block)

    def numbered(self) -> Iterator[tuple[int, Explanation]]:
        """Each explanation with the number of its record in the source, counted from 1."""
        for numbers, block in self._blocks():
            yield from zip(numbers, block, strict=True)

    # -- all together -----------------------------------------------------------------------------------------------

    @property
    def numbers(self) -> np.ndarray:
        """(N,) the number of each explanation's record in the source, counted from 1."""
        return np.array([*self._texts("numbers")], np.int64)

    @door
    def column(self, name: str) -> list[Any]:
        """The values of the column `name`, one for each explanation."""
        one_of(name, "column", self.columns)
        return [*self._texts(name)]

    def to_frame(self) -> pd.DataFrame:
        """A pandas frame, one row per step as `Explanation.to_frame` gives it; record is its number in the source."""
        frame = super().to_frame()
        frame["record"] = self.numbers[frame["record"].to_numpy()]
        return frame

    def to_xarray(self) -> xr.Dataset:
        """A dataset of xarray, as that of results in memory; record is the number of each in the source."""
        return super().to_xarray().assign_coords(record=self.numbers)

    @door
    def summary(
        self, by: Any = None, input: str | None = None, target: Any = None, progress: bool | None = None
    ) -> Summary:
        """Mean relevance of all of them by feature and lag, for each group, one part in memory at a time; of words by
        token.

        by: "class" for groups by the class explained, the name of a stored column, or one value for each explanation.
        input: of a network with several inputs, the one that is summed up; by default the main one.
        target: one of the classes that were explained; None is the positive one of two, where all were explained, or
            each class as a group; "predicted" mixes the predicted classes.
        progress: show rate and time left; by default where standard error is a terminal.
        """
        with progress_bar(progress, total=len(self), unit=" explanations") as bar:
            return self._summary(by, input, target, bar.update)

    def _pieces(self) -> Iterator[Results]:
        return (ListedResults(tuple(block)) for _, block in self._blocks())

    def _groups(self, by: Any) -> Sequence[Any] | None:
        if isinstance(by, str) and by != "class":
            return self.column(one_of(by, "by", (*self.columns, "class")))
        return super()._groups(by)

    @door
    def export(self, path: str | os.PathLike[str], *, overwrite: bool = False, formulas: bool = False) -> None:
        """Write these explanations to one file whose `path` ends in .h5, .csv, .jsonl or .parquet (needs pyarrow).

        An existing file raises an error unless `overwrite` is true. In .csv, a word that looks like a formula, such as
        =1+1, starts with an apostrophe, unless `formulas` is true.
        """
        self.save(path, overwrite=overwrite, formulas=formulas)
