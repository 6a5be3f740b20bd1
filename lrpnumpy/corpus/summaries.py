"""A summary of the explanations in a file, a block at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lrpnumpy.checks import LrpError, one_of
from lrpnumpy.result import Mark
from lrpnumpy.schedule import progress_bar
from lrpnumpy.summary import Summary, Sums, one_each

if TYPE_CHECKING:
    from lrpnumpy.corpus.stored import Stored


def summarised(stored: Stored, by: Any, name: str, progress: bool | None) -> Summary:
    """Mean relevance of one input by feature and lag, of each group; see `Stored.summary`."""
    before = "" if name == stored.main else f"inputs/{name}/"
    every_class = not stored.has("targets")
    if every_class and by is not None:
        raise LrpError("by must be None with target 'all', whose groups are the classes.")
    if not (by is None or isinstance(by, str)):
        by = one_each(by, len(stored))
    array, C = f"{before}feature_relevance", stored.shape("scores")[1]
    features: Any = ["relevance"]
    if stored.has(array):
        features = stored.features[name] or [f"x{d}" for d in range(stored.shape(array)[-1])]
    else:
        array = f"{before}relevance"
    sums, classes = Sums(features), stored.classes or tuple(map(str, range(C)))
    with progress_bar(progress, total=len(stored), unit=" explanations") as bar:
        for start, stop in stored.blocks():
            values, offsets = stored.rows(array, start, stop)
            values = values.reshape(len(values), *((C,) if every_class else ()), len(features))
            lengths = np.diff(offsets)
            ends = None if before else _predicted_at(stored, start, stop, values, offsets)
            if every_class:
                for c in range(C):
                    sums.add(values[:, c], lengths, [classes[c]] * len(lengths), ends)
            else:
                sums.add(values, lengths, _groups(stored, by, classes, start, stop), ends)
            bar.update(stop - start)
    in_order = every_class or (isinstance(by, str) and by == "class")
    return sums.summary(stored.method, stored.output_unit, classes if in_order else None)


def _predicted_at(stored: Stored, start: int, stop: int, values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """(n,) what `result.predicted_at` says of each explanation: the step whose prediction is explained."""
    firsts, step = offsets[:-1], int(stored.run["options"].get("step", -1))
    seen = np.ones(len(values), bool)
    if stored.has("marks"):
        is_padding = stored.rows("marks", start, stop)[0] == Mark.PADDING
        has_relevance = values.reshape(len(values), -1).any(axis=1)
        skips = ~np.logical_or.reduceat(is_padding & has_relevance, firsts)
        seen = ~(is_padding & np.repeat(skips, np.diff(offsets)))
    counts = np.add.reduceat(seen, firsts, dtype=np.int64)
    nth = np.cumsum(counts) - counts + np.where(step < 0, counts + step, step)
    places = np.flatnonzero(seen)
    return places[np.clip(nth, 0, len(places) - 1)] - firsts if len(places) else np.zeros_like(firsts)


def _groups(stored: Stored, by: Any, classes: tuple[str, ...], start: int, stop: int) -> list[Any] | None:
    """The group of each of some explanations; None where all are one."""
    if by is None or not isinstance(by, str):
        return by and by[start:stop]
    if one_of(by, "by", (*stored.columns, "class")) in stored.columns:
        return stored.column(by, start, stop)
    targets = stored.rows("targets", start, stop)[0]
    stored.check_targets(targets, start, stop)
    return [classes[c] for c in targets.tolist()]
