"""Results of one or several methods as the payload of a page: names, numbers and words in columns.

A payload is a dict, ready for JSON except for its arrays. N records, C classes (or outputs), M methods:

    format          "lrpnumpy page 1"
    title, notes    text above the page; sentences that say what is not shown
    classes         C names; regression: whether they are quantities; unit: theirs, such as "mm", or None
    numbers         (N,) the number of each record: its place in the results, or in the source of a corpus
    names           N texts, or None: what the table calls a record that is not words
    scores          (N, C); probabilities: (N, C) or None
    truth           (N,) true class, or true value; NaN where it is not known; None where none is
    memory          whether lags mean something: not of a classifier that reads in both directions
    dictionary      every word and label of a step, once
    inputs          one dict for each input of the network, the main one first:
        name, kind      "words", "series", or "vector": one step, whose features are shown as words are
        features        D names, or None
        starts          (N+1,) rows starts[k] to starts[k+1] of the relevance are those of record k
        first           (N,) the first row of record k in the tables of steps: windows of one series share theirs
        steps           (S,) word or label of each step, as an index of the dictionary; None where steps have numbers
        marks           (S,) see `lrpnumpy.result.Mark`, or None
        unit            what a step is: "day", or "step" where that is not known
        values          (S, D) the input as it was passed in, or None where it is words, or was not stored
    methods         one dict for each result:
        name            unique on the page; method, options: what it was made with, as text
        description     of the method in a line, or None; shares: whether relevance is a share of the score
        targets         (N,) the class explained; None where every class is
        ends            (N,) the step whose prediction is explained: lag 0
        versus          the class explained against, or None
        entries         names of the entries of the ledger; ledger: (K, N, entries), or None where there is none
        evidence        N lists of K lines with the verdict of experiments; None where there is none
        inputs          one dict for each input: relevance (K, R), and feature_relevance (K, R, D) or None

K is C where every class is explained, else 1. Numbers are float32: what a page shows has four significant digits.

In JSON an array is {"dtype", "shape", "block"}, where the page has base64 of its little-endian bytes in the script
element "block-N"; or {"dtype", "shape", "base64"}, which `to_json` writes for a live page. The page decodes an
array when it first needs it. `Data` in assets/data.js reads all this; it takes lists in place of arrays, too.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError, readable, shown
from lrpnumpy.evidence import evidence_of_all
from lrpnumpy.layers import Bidirectional
from lrpnumpy.ledgers import Ledger, ReferenceLedger, SpanLedger
from lrpnumpy.methods import METHODS
from lrpnumpy.protocol import Comparison, Results
from lrpnumpy.result import Explanation, InputPart
from lrpnumpy.show.parts import claims_shares, short, step_unit
from lrpnumpy.windows import Windows

FORMAT = "lrpnumpy page 1"
TESTED = 300  # explanations whose evidence is computed for a page
SAME = 1e-3  # scores of one record by two methods may differ so much, relative to the largest: float32 and float64 may
OPTION = 60  # characters of an option, at most
UNIT = ("hidden", "unit", "step", "versus")  # options that say nothing about how a method computes


def payload(
    results: Sequence[Any],
    which: np.ndarray | None = None,
    numbers: Sequence[Any] | None = None,
    truth: Sequence[Any] | None = None,
    names: Sequence[Any] | None = None,
    title: str = "Explanations",
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """The payload of results of the same records, one for each method.

    results: sequences of explanations, such as `explain_all` and `open_explanations` give.
    which: (N,) the records that are shown, in rising order; all by default.
    numbers: of each of these records, which the page calls it by; by default its place.
    truth: of each of these records the true class, by index or name, or the true value; None where it is not known.
    names: of each of these records.
    """
    if which is None:
        which = np.arange(len(results[0]))
    dictionary: dict[str, int] = {}
    columns = [_Columns(result, which, dictionary) for result in results]
    first = columns[0]
    for other in columns[1:]:
        first.check_same(other)
    example = first.example
    classes = example.classes or tuple(map(str, range(len(example.scores))))
    if classes == ("0",):
        classes = ("score",)
    called = _unique(columns)
    probabilities, known = None, None
    if example.probabilities is not None:
        probabilities = np.array([e.probabilities for e in first.every], np.float32)
    if truth is not None:
        known = _truth(truth, classes, example.is_regression)
    if numbers is None:
        numbers = which.tolist()
    if names is not None:
        names = [*map(str, names)]
    return {
        "format": FORMAT,
        "title": title,
        "notes": [*notes],
        "classes": [*classes],
        "regression": example.is_regression,
        "unit": example.output_unit,
        "numbers": [*numbers],
        "names": names,
        "scores": first.scores.astype(np.float32),
        "probabilities": probabilities,
        "truth": known,
        "memory": _has_memory(example),
        "dictionary": [*dictionary],
        "inputs": [one.shared() for one in first.inputs.values()],
        "methods": [column.method(name) for column, name in zip(columns, called, strict=True)],
    }


def _has_memory(e: Explanation) -> bool:
    """Whether it means something how many steps before the prediction relevance is."""
    if e.source is None or e.is_regression:
        return True
    return not any(isinstance(node.layer, Bidirectional) for node in e.source.model.nodes)


class _Columns:
    """What the explanations of one result have, column by column."""

    def __init__(self, result: Any, which: np.ndarray, dictionary: dict[str, int]) -> None:
        self.every: list[Explanation] = [*some(result, which)]
        self.example = self.every[0]
        for e in self.every:
            if (e.target == "all") != (self.example.target == "all") or len(e.scores) != len(self.example.scores):
                raise LrpError(f"a page needs explanations of one model and one kind of target; {e!r} differs.")
        self.each = [e.each_class for e in self.every]  # of every record, that of each class
        self.scores = np.array([e.scores for e in self.every])
        self.inputs = {}
        for name in self.example.inputs:
            parts = [e.inputs[name] for e in self.every]
            self.inputs[name] = _Input(name, parts, dictionary, _whole_series(result, name, which))

    def evidence(self) -> list[list[str | None]]:
        """The verdict on every explanation in a line; that of the first TESTED is computed where it was not yet."""
        evidence_of_all([one for each in self.each for one in each][:TESTED])
        return [[None if one.tested is None else readable(one.tested.line) for one in each] for each in self.each]

    @property
    def options(self) -> dict[str, str]:
        """What the method computed with, as text."""
        given = (self.example.options or {}).items()
        return {key: short(value, OPTION) for key, value in given if value is not None and key not in UNIT}

    def check_same(self, other: _Columns) -> None:
        """An LrpError where another result is not of the same records by the same model."""
        mine, its = self.scores.astype(np.float64), other.scores.astype(np.float64)
        is_same = mine.shape == its.shape and [*self.inputs] == [*other.inputs]
        if is_same:
            apart, largest = abs(mine - its).max(axis=1), abs(mine).max(axis=1)
            is_same = (apart <= SAME * np.maximum(largest, 1e-6)).all()
            is_same &= all(one.fits(other.inputs[name]) for name, one in self.inputs.items())
        if not is_same:
            raise LrpError(
                f"results of one page must be of the same records and model, got other records, steps or scores by "
                f"{other.example.method} than by {self.example.method}."
            )

    def method(self, name: str) -> dict[str, Any]:
        """The part of this result that not all results share."""
        e, names, ledger = self.example, None, None
        ledgers = [entries for entries in map(_entries, self.every) if entries is not None]
        if ledgers:
            names = [*dict.fromkeys(entry for one in ledgers for entry in one)]
            none = np.zeros_like(ledgers[0]["inputs"])
            values = [[one.get(entry, none) for entry in names] for one in ledgers]
            rows = np.array(values, np.float32).reshape(len(ledgers), len(names), -1)  # (N, entries, K)
            ledger = np.ascontiguousarray(np.moveaxis(rows, -1, 0))
        return {
            "name": name,
            "method": e.method,
            "options": self.options,
            "description": METHODS[e.method].description if e.method in METHODS else None,
            "shares": claims_shares(e),
            "targets": None if e.target == "all" else np.array([one.target for one in self.every], np.int32),
            "ends": np.array([one.predicted_at for one in self.every], np.uint32),
            "versus": e.versus,
            "entries": names,
            "ledger": ledger,
            "evidence": self.evidence(),
            "inputs": [one.got() for one in self.inputs.values()],
        }


class _Input:
    """One input of a network in all explanations of a result, with the `parts` of these.

    `series` is that of windows which share the names, marks and values of their steps, and where each of them begins.
    """

    def __init__(
        self, name: str, parts: list[InputPart], found: dict[str, int], series: tuple[InputPart, np.ndarray] | None
    ) -> None:
        self.name, self.parts = name, parts
        self.starts = np.concatenate([[0], np.cumsum([part.relevance.shape[-1] for part in parts])]).astype(np.uint32)
        self.first, self.tables, self.is_shared = self.starts[:-1], parts, series is not None
        if series is not None:
            self.first, self.tables = series[1].astype(np.uint32), [series[0]]
        self.named = any(part.tokens is not None or part.labels is not None for part in self.tables)
        steps = []
        for part in self.tables:
            texts = part.step_names if self.named else [""] * part.relevance.shape[-1]
            steps += [found.setdefault(text, len(found)) for text in texts]
        self.steps = np.array(steps, np.uint32)

    @property
    def kind(self) -> str:
        """Words; a series; or a vector, whose features are shown as words are."""
        part = self.parts[0]
        if part.tokens is not None:
            return "words"
        if part.relevance.shape[-1] == 1 and part.feature_relevance is not None:
            return "vector"
        return "series"

    def shared(self) -> dict[str, Any]:
        """What is the same for all methods."""
        part, tables = self.parts[0], self.tables
        marks = values = None
        if any(one.marks is not None for one in tables):
            every = [np.zeros(one.relevance.shape[-1]) if one.marks is None else one.marks for one in tables]
            marks = np.concatenate(every).astype(np.uint8)
        shapes = {np.asarray(one.values).shape[1:] for one in tables}
        if part.values is not None and part.tokens is None and len(shapes) == 1:
            values = _rows([np.asarray(one.values) for one in tables], 0)
        features: Sequence[str] = part.features or ()
        if not features and self.kind != "words":
            features = part.feature_names
            if not features and values is not None:
                features = [f"x{d}" for d in range(values.shape[1])]
        return {
            "name": self.name,
            "kind": self.kind,
            "unit": step_unit(part.labels),
            "features": [*features] or None,
            "starts": self.starts,
            "first": self.first,
            "steps": self.steps if self.named else None,
            "marks": marks,
            "values": values,
        }

    def got(self) -> dict[str, Any]:
        """What it received by one method."""
        found = {"relevance": _rows([np.atleast_2d(part.relevance) for part in self.parts], -1)}
        features = [part.feature_relevance for part in self.parts if part.feature_relevance is not None]
        if self.kind == "words" or not features:
            return {**found, "feature_relevance": None}
        return {**found, "feature_relevance": _rows([one.reshape(-1, *one.shape[-2:]) for one in features], -2)}

    def fits(self, other: _Input) -> bool:
        """Whether records have the steps that they have in another result, which shares the dictionary."""
        has_steps = self.is_shared == other.is_shared and self.named == other.named  # which can be compared
        is_same = np.array_equal(self.starts, other.starts)
        return is_same and (not has_steps or np.array_equal(self.steps, other.steps))


def _rows(arrays: list[np.ndarray], axis: int) -> np.ndarray:
    with np.errstate(over="ignore"):  # what is too large for float32 is shown as infinite
        return np.concatenate(arrays, axis).astype(np.float32)


def some(result: Any, which: np.ndarray) -> Any:
    """The explanations of a result at these places."""
    if hasattr(result, "some"):  # of a file: a block at a time
        return result.some(which)
    return (result[k] for k in which.tolist())


def _whole_series(result: Any, name: str, which: np.ndarray) -> tuple[InputPart, np.ndarray] | None:
    """The series that windows were cut from and where each begins; None where records have their own steps."""
    if not isinstance(result, Windows) or result.inputs[name].length != result.series.length:
        return None
    one = result.inputs[name]
    none = np.empty(one.length)
    return InputPart(none, tokens=one.tokens, values=one.values, labels=one.labels, marks=one.marks), result.starts[
        which
    ]


def _entries(e: Explanation) -> Any:
    """The entries of a ledger by name; they add up to what is explained. None where the method keeps none."""
    if isinstance(e.ledger, (Ledger, ReferenceLedger)):
        return e.ledger.entries
    if not isinstance(e.ledger, SpanLedger):
        return None
    score = e.score
    inputs = sum(part.relevance.sum(axis=-1) for part in e.inputs.values())
    rest = np.asarray(score - inputs - e.ledger.unassigned)
    noise = 64 * np.finfo(rest.dtype).eps * (abs(inputs) + abs(e.ledger.unassigned) + abs(score))
    bias = np.where(abs(rest) <= noise, 0, rest)  # a network without an output bias has none, not one of rounding
    return {"inputs": inputs, "unassigned": e.ledger.unassigned, "output bias": bias}


def _unique(columns: Sequence[_Columns]) -> list[str]:
    """Names of the methods; where two are alike, with the options in which they differ, or numbered."""
    found = [column.example.method for column in columns]
    for name in {name for name in found if found.count(name) > 1}:
        places = [k for k, one in enumerate(found) if one == name]
        for key in columns[places[0]].options:
            values = [columns[k].options.get(key) for k in places]
            if len({*values}) > 1:
                for k, value in zip(places, values, strict=True):
                    found[k] += f" {key}={value}"
    return [f"{name} ({k + 1})" if found.count(name) > 1 else name for k, name in enumerate(found)]


def _truth(values: Sequence[Any], classes: Sequence[str], is_regression: bool) -> np.ndarray:
    """True classes as indices, or true values; NaN where they are not known."""
    known = {} if is_regression else {name: k for k, name in reversed([*enumerate(classes)])}
    found = np.full(len(values), np.nan, np.float32)
    for k, value in enumerate(values):
        if value is None or (isinstance(value, float) and np.isnan(value)):
            continue
        try:
            found[k] = known[value] if value in known else float(value)
            is_right = is_regression or found[k] in range(max(2, len(classes)))
        except (TypeError, ValueError):
            is_right = False
        if not is_right:
            what = "a number" if is_regression else f"a class from 0 to {len(classes) - 1} or its name"
            raise LrpError(f"label must be {what}, got {shown(value)} at {k}.")
    return found


# -- to JSON -------------------------------------------------------------------------------------------------


def to_json(value: Any) -> str:
    """A payload as one JSON text, its arrays inline in base64: the answer to a live page."""
    return json.dumps(packed(value, lambda data: {"base64": data}))


def packed(value: Any, put: Callable[[str], dict[str, Any]]) -> Any:
    """The payload with a dict in place of every array: dtype, shape, and what `put` returns for its base64."""
    if isinstance(value, np.ndarray):
        little = value.astype(value.dtype.newbyteorder("<"), copy=False)
        data = base64.b64encode(np.ascontiguousarray(little).tobytes()).decode("ascii")
        return {"dtype": f"{value.dtype.kind}{value.dtype.itemsize}", "shape": [*value.shape], **put(data)}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): packed(part, put) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [packed(part, put) for part in value]
    return value


def results_of(given: Any) -> list[Any]:
    """What was passed in as a list of results: a comparison is one record by several methods."""
    if isinstance(given, Comparison):
        return [[e] for e in given]
    if isinstance(given, Explanation):
        return [[given]]
    if not isinstance(given, Results):
        try:
            # A sequence of another kind is read on demand.
            count = len(given) if isinstance(given, (list, tuple)) else min(len(given), 1)
            some = [given[k] for k in range(count)]
        except Exception:  # whatever it is, it is not a sequence
            some = [None]
        if not all(isinstance(one, Explanation) for one in some):
            raise LrpError(f"a page needs explanations, or lists of them, got {shown(given)}.")
    return [given]
