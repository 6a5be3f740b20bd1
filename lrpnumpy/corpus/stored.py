"""Explanations in a file: read lazily, as a sequence of the same result objects that `explain` gives."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lrpnumpy.checks import LrpError, one_of
from lrpnumpy.corpus.columns import values
from lrpnumpy.corpus.layout import FORMAT, VERSION, axes_of, kinds_of, layout
from lrpnumpy.corpus.summaries import summarised
from lrpnumpy.files.safe import Fields, parse_json
from lrpnumpy.ledgers import ROWS as LEDGERS
from lrpnumpy.ledgers import Ledger, ReferenceLedger, SpanLedger
from lrpnumpy.meant import door
from lrpnumpy.methods.occlusion import probabilities
from lrpnumpy.model import OUTPUTS
from lrpnumpy.protocol import Results
from lrpnumpy.result import Explanation, InputPart, Mark
from lrpnumpy.summary import Summary

if TYPE_CHECKING:
    from lrpnumpy.corpus.table import Table

RECORDS, ROWS = 1024, 1 << 16  # at most so many are read at once


@door
def open_explanations(path: str | os.PathLike[str]) -> Stored:
    """The explanations that `explain_corpus` wrote at `path`: a sequence, read as it is asked for.

    >>> with lrp.open_explanations("out.h5") as found:
    ...     print(len(found), found[0])
    """
    from lrpnumpy.corpus.table import Table

    file = Table(path)
    try:
        return Stored(file)
    except BaseException:
        file.__exit__()
        raise


class Stored(Results):
    """The explanations in a file; close it, or use `with`.

    `path` is that of the file; `method`, `classes`, `output_unit` and `columns`, the names of what was stored beside
    them, hold for all; `features` has the names of each input's numbers. `run` says how they were made: model digest,
    method, options, source, versions. Where `run["rule"]` is not None, the method is a rule of one's own, also if it
    has the name of a method that comes with lrpnumpy.
    """

    def __init__(self, file: Table) -> None:
        if file.attribute("", "format") != FORMAT:
            raise file.error(
                "", "must be a file that explain_corpus wrote, it says of itself that it is something else"
            )
        if (found := file.attribute("", "version")) != VERSION:
            raise file.error("@version", f"must be {VERSION}, got {found!r}; upgrade lrpnumpy")
        text = file.attribute("", "run")
        run = Fields(file, "@run", parse_json(file, "@run", text if isinstance(text, str) else ""))
        self.path, self.run, self._file = Path(file.file), run.value, file
        self.classes = tuple(run.strings("classes")) if run.has("classes") else None
        self.output_unit = run.string("output_unit") if run.has("output_unit") else None
        self.method, self._options = run.string("method"), run.object("options").value
        if type(self._options.get("step", -1)) is not int:
            raise file.error("@run: options: step", "must be a whole number")
        self._output = run.string("output")  # says how scores become probabilities
        with file.guard("@run: output"):
            one_of(self._output, "it", OUTPUTS)
        self.main = run.string("main") if run.has("main") else "x"  # name of the main input
        others = run.object("others") if run.has("others") else Fields(file, "@run", {})  # name -> features, or null
        known = {self.main: run, **dict.fromkeys(others.value, others)}
        self.features = {
            name: tuple(of.strings(key)) if of.has(key := "features" if of is run else name) else None
            for name, of in known.items()
        }
        columns = run.object("columns").value if run.has("columns") else {}
        self.columns = tuple(name for name in columns if file.has(f"columns/{name}/text"))
        self._entries, offsets = layout(others.value, self.columns)
        self._names = [name for name in self._entries if file.has(name)]
        self._offsets = {kind: name for kind, name in offsets.items() if file.has(name)}
        self._size = self._check()

    def _check(self) -> int:
        """The number of explanations, after a look at whether the arrays belong together."""
        file = self._file
        count: dict[str, int] = {}
        needed = ["records", "scores", "relevance", "offsets"]
        needed += [f"inputs/{name}/{one}" for name in self.features if name != self.main for one in needed[2:]]
        for name in needed:
            if name not in [*self._names, *self._offsets.values()]:
                raise file.error(name, "is missing")
        for name in self._names:
            shape, dtype = file.column(name)
            if (
                not shape
                or dtype.kind not in kinds_of(name)
                or count.setdefault(self._entries[name], shape[0]) != shape[0]
            ):
                wanted = count.get(self._entries[name], "some")
                raise file.error(name, f"must be {wanted} numbers of kind {kinds_of(name)!r}, it is {shape} of {dtype}")
            if self._entries[name] not in ("record", *self._offsets):
                raise file.error(name, "must have offsets beside it")
        self._check_axes()
        for kind, name in self._offsets.items():
            shape, dtype = file.column(name)
            if dtype.kind != "i" or shape != (count["record"] + 1,):
                raise file.error(name, f"must be {count['record'] + 1} offsets, it is {shape} of {dtype}")
            first, last = (int(file.rows(name, k, k + 1)[0]) for k in (0, shape[0] - 1))
            if (first, last) != (0, count.get(kind)):
                raise file.error(name, f"must go from 0 to {count.get(kind)}, it goes from {first} to {last}")
        self._count = count
        return count["record"]

    def _check_axes(self) -> None:
        """See that every array has an axis for the classes, the variables and the layers where it should."""
        _, *classes = self.shape("scores")
        if len(classes) != 1 or not classes[0] or len(self.classes or range(classes[0])) != classes[0]:
            raise self._file.error(
                "scores", f"must have one column for each class, it has shape {self.shape('scores')}"
            )
        lead = [] if self.has("targets") else classes
        for name in self._names:
            axes, own = axes_of(name), [*self.shape(name)[1:]]
            if axes is None:
                continue
            most = len(lead) * ("classes" in axes)
            if own[:most] != lead[:most] or len(own) != most + ("more" in axes):
                raise self._file.error(name, f"has shape {self.shape(name)}, which does not fit {classes[0]} classes")
        for name, features in self.features.items():
            array = "feature_relevance" if name == self.main else f"inputs/{name}/feature_relevance"
            if features is not None and self.has(array) and self.shape(array)[-1] != len(features):
                raise self._file.error(array, f"must have a column for each of {len(features)} features")

    def close(self) -> None:
        """Close the file."""
        self._file.__exit__()

    def __enter__(self) -> Stored:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        own = ", a rule of one's own," if self.run.get("rule") is not None else ""
        return f"<{len(self)} explanations by {self.method}{own} in {self.path}>"

    def __len__(self) -> int:
        return self._size

    def _one(self, k: int) -> Explanation:
        return self._read(k, k + 1)[1][0]

    def _some(self, places: Sequence[int]) -> Any:
        return [self._one(k) for k in places]

    def __iter__(self) -> Iterator[Explanation]:
        return (explanation for _, explanation in self.numbered())

    def numbered(self) -> Iterator[tuple[int, Explanation]]:
        """Each explanation with the number of its record in the source, counted from 1."""
        for start, stop in self.blocks():
            yield from zip(*self._read(start, stop), strict=True)

    def some(self, which: np.ndarray) -> Iterator[Explanation]:
        """The explanations at the places `which`, an array of rising numbers; a block of the file at a time."""
        for start, stop in self.blocks():
            lo, hi = np.searchsorted(which, (start, stop)).tolist()
            if lo < hi:
                yield from self._read(start, stop, (which[lo:hi] - start).tolist())[1]

    @property
    def numbers(self) -> np.ndarray:
        """(N,) the number of each explanation's record in the source, counted from 1."""
        return self._file.rows("records", 0, len(self))

    @property
    def scores(self) -> np.ndarray:
        """(N, C) of all explanations."""
        return self._file.rows("scores", 0, len(self))

    @door
    def column(self, name: str, start: int = 0, stop: int | None = None) -> list[Any]:
        """The values of the column `name` beside the explanations, one for each of them from `start` to `stop`."""
        one_of(name, "column", self.columns)
        text, ends = self.rows(f"columns/{name}/text", start, len(self) if stop is None else stop)
        with self._file.guard(f"columns/{name}"):
            return values(text.tobytes(), ends)

    @door
    def summary(self, by: Any = None, input: str | None = None, progress: bool | None = None) -> Summary:
        """Mean relevance of all of them by feature and lag, of each group, in memory that does not grow with the file.

        by: "class" for groups by the class explained, the name of a stored column, or one value for each explanation.
            With target "all" the groups are the classes.
        input: of a network with several inputs, the one that is summed up; by default the main one.
        progress: show rate and time left; by default where standard error is a terminal.
        """
        name = one_of(input or self.main, "input", tuple(self.features))
        return summarised(self, by, name, progress)

    def has(self, name: str) -> bool:
        """Whether the file has an array of this `name`."""
        return isinstance(name, str) and name in self._names

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of the array `name` of the file."""
        return self._file.column(name)[0]

    def rows(self, name: str, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """What the array `name` has of the explanations from `start` to `stop`, and where each begins in that."""
        kind = self._entries[name]
        if kind == "record":
            return self._file.rows(name, start, stop), np.arange(stop - start + 1)
        ends = self._file.rows(self._offsets[kind], start, stop + 1)
        least = 1 if kind.startswith("row") else 0
        if ends[0] < 0 or ends[-1] > self._count[kind] or (np.diff(ends) < least).any():
            raise self._file.error(
                self._offsets[kind], f"must rise by at least {least} each, it does not from {start} to {stop}"
            )
        return self._file.rows(name, int(ends[0]), int(ends[-1])), ends - ends[0]

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Explanations from start to stop, as many as may be in memory at once."""
        start = 0
        while start < len(self):
            rows = self._file.rows("offsets", start, min(start + RECORDS, len(self)) + 1)
            rows = np.maximum.accumulate(rows)  # where they fall, reading them is an error
            stop = start + max(1, int(np.searchsorted(rows[1:] - rows[0], ROWS, side="right")))
            yield start, stop
            start = stop

    @door
    def export(self, path: str | os.PathLike[str], *, overwrite: bool = False, formulas: bool = False) -> None:
        """Write all explanations to a file whose `path` ends in .csv, .jsonl or .parquet (which needs pyarrow).

        A file that exists is left alone and is an error, unless `overwrite` says to replace it. In .csv a word that a
        spreadsheet would take for a formula, such as =1+1, has an apostrophe before it, unless `formulas` is true.
        """
        from lrpnumpy.corpus.export import export

        export(self.numbered(), path, overwrite, formulas)

    def check_targets(self, targets: np.ndarray, start: int, stop: int) -> None:
        """Raise where the `targets` of the explanations from `start` to `stop` are no classes."""
        if ((targets < 0) | (targets >= self.shape("scores")[1])).any():
            raise self._file.error("targets", f"must be classes, they are not from {start} to {stop}")

    def _read(self, start: int, stop: int, which: list[int] | None = None) -> tuple[list[int], list[Explanation]]:
        """Explanations that stand one behind the other, or those of them, and the numbers of all their records."""
        read = {name: self.rows(name, start, stop) for name in self._names if not name.startswith("columns/")}
        found = []
        if self.has("targets"):
            self.check_targets(read["targets"][0], start, stop)
        with self._file.guard("", f"has explanations from {start} to {stop} that do not fit together"):
            for k in range(stop - start) if which is None else which:
                own = {name: array[ends[k] : ends[k + 1]] for name, (array, ends) in read.items()}
                found.append(self._made(own))
        return read["records"][0].tolist(), found

    def _made(self, own: dict[str, np.ndarray]) -> Explanation:
        """An explanation from its own rows of every array."""
        scores = own["scores"][0]
        return Explanation(
            {
                name: _part(own, "" if name == self.main else f"inputs/{name}/", some)
                for name, some in self.features.items()
            },
            scores,
            int(own["targets"][0]) if "targets" in own else "all",
            self.method,
            probabilities(self._output, scores),
            self.classes,
            self._options,
            _ledger(own),
            output_unit=self.output_unit,
        )


def _part(own: dict[str, np.ndarray], before: str, features: tuple[str, ...] | None) -> InputPart:
    """What one input received, whose arrays have names that begin with `before`."""
    own = {key.removeprefix(before): array for key, array in own.items() if key.startswith(before)}
    feature_relevance = None if "feature_relevance" not in own else np.moveaxis(own["feature_relevance"], 0, -2)
    return InputPart(own["relevance"].T, feature_relevance, features, _words(own), marks=_marks(own))


def _marks(own: dict[str, np.ndarray]) -> np.ndarray | None:
    if "marks" in own and own["marks"].max() > max(Mark):
        raise ValueError(f"there is no mark {own['marks'].max()}")
    return own["marks"] if "marks" in own and own["marks"].any() else None


def _words(own: dict[str, np.ndarray]) -> tuple[str, ...] | None:
    """The words of an explanation; None where it has none."""
    if not own.get("words/text", np.empty(0)).size:
        return None
    data = own["words/text"].tobytes()
    ends = np.cumsum(own["words/lengths"], dtype=np.int64).tolist()
    if ends[-1] != len(data):
        raise ValueError(f"words have {ends[-1]:,} bytes, their text has {len(data):,}")
    return tuple(data[a:b].decode("utf-8", "surrogatepass") for a, b in zip([0, *ends], ends, strict=False))


def _ledger(own: dict[str, np.ndarray]) -> Ledger | ReferenceLedger | SpanLedger | None:
    if "ledger/gap" in own:
        names: tuple[str, ...] = ("inputs", "score", "reference", "gap", "largest", "error")  # the last two since 0.3
        return ReferenceLedger(**{name: own[f"ledger/{name}"][0] for name in names if f"ledger/{name}" in own})
    if "ledger/inputs" in own:
        entries = {name: own[f"ledger/{name}"][0] for name in LEDGERS["lrp"] if f"ledger/{name}" in own}
        return Ledger(biases=own["ledger/biases"][0], **entries)
    if "ledger/relevant" in own:
        relevant, irrelevant, bias = (own[f"ledger/{name}"].T for name in ("relevant", "irrelevant", "bias"))
        if not relevant.size:
            raise LrpError("a ledger has an entry for every step, got none")
        return SpanLedger(relevant, irrelevant, bias, own["ledger/unassigned"][0])
    return None
