"""The explanations of several sequences: columns of results, and single results made when they are asked for."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from itertools import accumulate
from threading import Lock
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError, RelevanceWarning, one_of, outside
from lrpnumpy.encode import Encoded
from lrpnumpy.lazy import cached_property
from lrpnumpy.ledgers import ROWS, Ledger, ReferenceLedger, SpanLedger, by_name
from lrpnumpy.meant import door
from lrpnumpy.methods.base import Columns, Request
from lrpnumpy.methods.occlusion import probabilities
from lrpnumpy.methods.propagated import GAP, TOO_LARGE
from lrpnumpy.methods.reference import missed_and_huge, unit_of
from lrpnumpy.model import Model
from lrpnumpy.packed import Batch
from lrpnumpy.result import Explanation, Hidden, InputPart, Paged, Span
from lrpnumpy.summary import TIMES, Summary, Sums, one_each, times


class Explanations(Paged):
    """The explanations of several sequences, computed as one ragged batch; each is made when it is asked for.

    `relevance` holds the words of all sequences one after another, those of sequence k from starts[k] to starts[k+1].
    `model` is the network, `request` what was asked for, `encoded` the inputs as the network takes them. `every_class`
    says whether all classes are explained, `padded` whether some steps are padding.
    """

    def __init__(self, model: Model, request: Request, encoded: list[Encoded], every_class: bool) -> None:
        self.model, self.request, self.every_class = model, request, every_class
        self.encoded = encoded
        self.padded = any(sequence.kept is not None for sequence in encoded)
        self._single: dict[str, list[Any]] = {}  # what has a shape of its own for each sequence
        self._parts: list[tuple[np.ndarray, np.ndarray]] = []  # of chunks: rows among all words, and their variables
        self._joined: np.ndarray | None = None  # `feature_relevance`, as far as they are put together
        self._lock = Lock()
        self._doubt = False  # whether relevance of any chunk may not be trusted
        self._others = [name for name in model.inputs if name != model.main]
        self.alone = len(encoded) == 1 and not self.padded  # then the columns of its chunk are those of the result
        if not self.alone:
            self._make_room()

    @cached_property
    def starts(self) -> np.ndarray:
        """(N+1,) where the words of each sequence begin, and where the last ones end."""
        return np.array([0, *accumulate(sequence.length for sequence in self.encoded)], np.int64)

    def _make_room(self) -> None:
        """Columns for all sequences."""
        model, N, dtype = self.model, len(self.encoded), self.model.dtype
        lead, total = (model.outputs,) if self.every_class else (), int(self.starts[-1])
        empty = np.zeros if self.padded else np.empty
        self.scores = np.empty((N, model.outputs), dtype)
        self.targets = np.empty((*lead, N), np.int64)
        self.relevance = empty((*lead, total), dtype)
        kind = self.request.method.kind
        rows = len(ROWS.get(kind, ())) + (len(model.nodes) if kind == "lrp" else 0)
        self.books = np.empty((*lead, rows, N), dtype) if rows else None

    @cached_property
    def feature_relevance(self) -> np.ndarray | None:
        """Relevance of every variable, as `relevance` with one more axis; put together when it is first asked for."""
        if not self.request.with_variables:
            return None
        with self._lock:
            if "feature_relevance" not in vars(self):  # else another thread has just done it
                if self._joined is None:
                    empty = np.zeros if self.padded else np.empty
                    self._joined = empty((*self.relevance.shape, self.model.input_size), self.model.dtype)
                while self._parts:  # each is let go once it is copied: Ctrl-C may come at any time
                    rows, part = self._parts[-1]
                    self._joined[..., rows, :] = part
                    self._parts.pop()
                vars(self)["feature_relevance"] = self._joined
        return vars(self)["feature_relevance"]

    def __getstate__(self) -> dict[str, Any]:
        return {
            **vars(self),
            "feature_relevance": self.feature_relevance,
            "_lock": None,
        }  # nothing is left to be put together

    @cached_property
    def ledger(self) -> dict[str, np.ndarray]:
        """The entries of all ledgers by name, (N,) or (C, N), of methods that keep one; biases (layers, N)."""
        return {} if self.books is None else by_name(self.request.method.kind, self.books)

    def _rows(self, positions: np.ndarray, batch: Batch) -> np.ndarray:
        """Where the packed rows of a chunk stand among all words."""
        if self.padded:
            parts = []
            for k in positions:
                kept = self.encoded[k].kept
                parts.append(self.starts[k] + (np.arange(self.encoded[k].length) if kept is None else kept))
            return np.concatenate(parts)[batch.rows]
        return self.starts[positions].take(batch.owner) + batch.step

    def _put(self, positions: np.ndarray, batch: Batch, columns: Columns) -> None:
        if self.alone:
            self.scores, self.targets, self.books = columns.scores, columns.targets, columns.books
            self.relevance, self.feature_relevance = columns.relevance, columns.feature_relevance
        else:
            rows = self._rows(positions, batch)
            self.scores[positions] = columns.scores
            self.targets[..., positions] = columns.targets
            self.relevance[..., rows] = columns.relevance
            if columns.feature_relevance is not None:
                self._parts.append((rows, columns.feature_relevance))
            if self.books is not None:
                self.books[..., positions] = columns.books
        for name, parts in (("spans", columns.spans), ("cd", columns.cd)):
            if parts is not None:
                for k, part in zip(positions, parts, strict=True):
                    self._single[name][k] = part
        for name, other in columns.others.items():
            others: list[Any] = self._single.setdefault(f"input {name}", [None] * len(self.encoded))
            for s, k in enumerate(positions):
                take = other.batch.first[: other.batch.lengths[s]] + s
                encoded = self.encoded[k].others[name]
                others[k] = InputPart(
                    _spread(other.relevance[..., take], encoded, -1),
                    None
                    if other.feature_relevance is None
                    else _spread(other.feature_relevance[..., take, :], encoded, -2),
                    self.model.inputs[name].features or encoded.features,
                    encoded.tokens,
                    encoded.values,
                    encoded.labels,
                    encoded.marks,
                )
        if columns.hidden is not None:
            for s, k in enumerate(positions):
                self._single["hidden"][k] = tuple(
                    Hidden(layer, direction, *np.moveaxis(states[..., own.first[: own.lengths[s]] + s, :], -3, 0))
                    for layer, direction, own, states in columns.hidden
                )

    def __len__(self) -> int:
        return len(self.encoded)

    def __iter__(self) -> Iterator[Explanation]:
        return (self._one(k) for k in range(len(self)))

    def stacked(self) -> np.ndarray:
        """(N, T, D) relevance of every variable, or (N, T) of every step where there is none a variable.

        With target "all" the classes are a leading axis. All sequences must have the same number of steps.
        """
        lengths = np.diff(self.starts)
        if not len(self):
            raise LrpError("stacked must get at least one explanation, got none.")
        if len({*lengths.tolist()}) > 1:
            raise LrpError(f"stacked must get sequences of one length, got {lengths.min()} to {lengths.max()} steps.")
        rows = self.relevance[..., None] if self.feature_relevance is None else self.feature_relevance
        whole = rows.reshape(*rows.shape[:-2], len(self), -1, rows.shape[-1])
        return whole[..., 0] if self.feature_relevance is None else whole

    @door
    def summary(self, by: Any = None, input: str | None = None) -> Summary:
        """Mean relevance of all of them by feature and lag, of each group.

        by: "class" for groups by the class explained; "year", "season" or "month" of the last step's date; or one value
            for each explanation. With target "all" the groups are the classes.
        input: of a network with several inputs, the one that is summed up; by default the main one.
        """
        if not len(self):
            raise LrpError("a summary must get at least one explanation, got none.")
        name = one_of(input or self.model.main, "input", tuple(self.model.inputs))
        classes = self.model.classes or tuple(map(str, range(self.model.outputs)))
        if self.every_class and by is not None:
            raise LrpError("by must be None with target 'all', whose groups are the classes.")
        names = self._groups(by, classes)
        first = self.encoded[0] if name == self.model.main else self.encoded[0].others[name]  # type: ignore[index]
        relevance, feature_relevance, lengths = self.relevance, self.feature_relevance, np.diff(self.starts)
        ends = self._predicted_at() if name == self.model.main else None
        if name != self.model.main:
            parts = self._single[f"input {name}"]
            relevance = np.concatenate([part.relevance for part in parts], axis=-1)
            feature_relevance = (
                None
                if feature_relevance is None
                else np.concatenate([part.feature_relevance for part in parts], axis=-2)
            )
            lengths = np.array([part.relevance.shape[-1] for part in parts])
        rows = relevance[..., None] if feature_relevance is None else feature_relevance
        port = self.model.inputs[name]
        features = port.features or first.features or [f"x{d}" for d in range(rows.shape[-1])]
        sums = Sums(features if feature_relevance is not None else ["relevance"])
        if self.every_class:
            for c, one in enumerate(rows):
                sums.add(one, lengths, [classes[c]] * len(self), ends)
        else:
            sums.add(rows, lengths, names, ends)
        in_order = by == "class" if isinstance(by, str) else self.every_class
        return sums.summary(self.request.method.name, self.model.output_unit, classes if in_order else None)

    def _predicted_at(self) -> np.ndarray:
        """(N,) position of the step whose prediction is explained: the last that is not padding, unless asked for."""
        step: Any = self.request.step if self.model.every else -1
        return np.array(
            [
                (range(one.length) if one.kept is None else one.kept)[k if step == "all" else step]
                for k, one in enumerate(self.encoded)
            ]
        )

    def _groups(self, by: Any, classes: Sequence[str]) -> list[Any] | None:
        """The group of each explanation; None where all are one."""
        if by is None:
            return None
        if not isinstance(by, str):
            return one_each(by, len(self))
        if one_of(by, "by, where it is a name,", ("class", *TIMES)) == "class":
            return [classes[c] for c in self.targets.tolist()]
        last = [one.labels[-1] if one.labels is not None else None for one in self.encoded]
        if not all(isinstance(one, np.datetime64) for one in last):
            raise LrpError(
                f"by must be 'class' or one value for each explanation where steps have no dates, got {by!r}."
            )
        return times(np.array(last), by)

    def __repr__(self) -> str:
        return f"<{len(self)} explanations by {self.request.method.name}>"

    def _one(self, k: int) -> Explanation:
        one = object.__new__(OneOfMany)
        vars(one).update(many=self, k=k)
        return one

    def _words(self, k: int) -> slice:
        """Where the words of one explanation stand among all."""
        return slice(None) if self.alone else slice(*self.starts[k : k + 2].tolist())

    def _ledger(self, k: int) -> Ledger | ReferenceLedger | SpanLedger | None:
        """The ledger of one explanation, of a method that keeps one."""
        if not self.ledger:
            return self._single["cd"][k] if "cd" in self._single else None
        entries: dict[str, Any] = {name: column[..., k] for name, column in self.ledger.items()}
        if self.request.method.kind == "lrp":
            return Ledger(**{**entries, "biases": tuple(entries["biases"].T)})  # (layers,), or (C, layers)
        return ReferenceLedger(**entries)

    def _phrases(self, k: int) -> tuple[Span, ...] | None:
        """Relevance of the phrases of one explanation, where there were any."""
        if "spans" not in self._single:
            return None
        values, asked, one = self._single["spans"][k], self._single["asked"][k], self.encoded[k]
        places = np.clip(np.asarray(asked, np.int64).reshape(-1, 2) + one.added[0], 0, one.length).tolist()
        return tuple(Span(a, b, values[..., v]) for v, (a, b) in enumerate(places))

    @cached_property
    def probabilities(self) -> np.ndarray | None:
        """(N, C), where the model has any."""
        with np.errstate(all="ignore"):
            return probabilities(self.model.output, self.scores)

    def _finish(self) -> None:
        """One warning a call where relevance cannot be trusted."""
        if self._doubt:
            with np.errstate(all="ignore"):
                problem = self._problem()
            if problem is not None:
                self._say(problem)

    def _problem(self) -> str | None:
        """What is wrong: relevance that is not finite, a ledger that misses its score, relevance that is too large."""
        if np.count_nonzero(is_finite := np.isfinite(self.relevance)) < is_finite.size:
            k = int(np.searchsorted(self.starts, np.argwhere(~is_finite)[0][-1], side="right")) - 1
            return f"relevance of sequence {k} is not finite ({self._settings()})"
        if not self.ledger:
            return None
        missed, huge = self._missed_and_huge()
        score = explained(self.scores, self.targets, self.request.versus)
        if self.request.method.kind == "reference" and np.count_nonzero(missed):
            ledger = self.ledger
            unit = unit_of(ledger["score"], ledger["reference"], self.request.versus)[missed]
            gap = np.maximum(abs(ledger["gap"]), abs(ledger["score"] - score))[missed] / unit
            error = np.maximum(gap, ledger["error"][missed] / unit)
            return (
                f"relevances miss f(x) - f(reference) by up to {np.max(gap):.2g} of it, and single features their "
                f"values by up to {np.max(error):.2g} of it, for {self._count(missed)}"
            )
        if np.count_nonzero(missed):
            gap = abs(self.ledger["total"] - score)[missed] / np.maximum(abs(score[missed]), np.finfo(score.dtype).tiny)
            close = "" if self.request.versus is None else ", or the two scores are so close,"
            return (
                f"the ledger misses the score by up to {100 * np.max(gap):.2g} % for {self._count(missed)} "
                f"({self._settings()}), because relevance inside the network is so large{close} that rounding decides "
                "it"
            )
        if np.count_nonzero(huge):
            return (
                f"relevance inside the network is more than {TOO_LARGE:.0e} times the score for {self._count(huge)} "
                f"({self._settings()}), so rounding decides it"
            )
        return None

    def _missed_and_huge(self) -> tuple[np.ndarray, np.ndarray]:
        """Whether each ledger misses its score, and whether relevance is too large somewhere in the network."""
        score = explained(self.scores, self.targets, self.request.versus)
        most = score.dtype.type(GAP) * abs(score)
        if self.request.method.kind == "reference":
            assert self.books is not None
            missed, huge = missed_and_huge(self.books, self.request)
            if self.request.versus is not None:  # the scores are float32's, the ledger may be of float64
                missed |= ~(abs(self.ledger["score"] - score) <= most)
            return missed, huge
        huge = self.ledger["largest"] > TOO_LARGE * np.maximum(abs(score), np.finfo(score.dtype).tiny)
        return ~(abs(self.ledger["total"] - score) <= most), huge

    def doubtful(self) -> np.ndarray:
        """(N,) explanations that `explain` would warn of."""
        if not len(self):
            return np.zeros(0, bool)
        with np.errstate(all="ignore"):
            rows = np.isfinite(self.relevance).reshape(-1, self.relevance.shape[-1]).all(axis=0)
            wrong = ~np.logical_and.reduceat(rows, self.starts[:-1])
            if self.ledger:
                missed, huge = self._missed_and_huge()
                wrong |= (missed | huge).reshape(-1, len(self)).any(axis=0)
        return wrong

    def _settings(self) -> str:
        eps = getattr(self.request.method, "eps", None)
        return "the input or the weights are too large" if eps is None else f"eps={eps:g}"

    @staticmethod
    def _count(which: np.ndarray) -> str:
        first = int(np.argwhere(which)[0][-1])
        return f"{int(which.sum())} of {which.size} explanations, the first that of sequence {first}"

    def _say(self, problem: str) -> None:
        method = self.request.method
        advice = method.advice()
        warnings.warn(
            f"{method.name}: {problem}{'; ' if advice else ''}{advice}.", RelevanceWarning, stacklevel=outside()
        )


class OneOfMany(Explanation):
    """An explanation among many: `many` are all of them, `k` is its number. Its parts are made when first looked at."""

    many: Explanations
    k: int

    def __reduce__(self) -> Any:
        return Explanation, tuple(getattr(self, field.name) for field in fields(Explanation))


class _Part:
    """A field of OneOfMany, made by `make(many, k)` when it is first looked at."""

    def __init__(self, name: str, make: Callable[[Explanations, int], Any]) -> None:
        self.name, self.make = name, make

    def __get__(self, one: Any, kind: Any = None) -> Any:
        if one is None:
            return self
        return vars(one).setdefault(self.name, self.make(one.many, one.k))


def _options(many: Explanations, k: int) -> dict[str, Any]:
    return {**many.request.shown(), "step": k} if many.request.step == "all" else many.request.shown()


PARTS: dict[str, Callable[[Explanations, int], Any]] = {
    "relevance": lambda many, k: many.relevance[..., many._words(k)],
    "scores": lambda many, k: many.scores[k],
    "target": lambda many, k: "all" if many.every_class else int(many.targets[k]),
    "method": lambda many, k: many.request.method.name,
    "feature_relevance": lambda many, k: (
        None if many.feature_relevance is None else many.feature_relevance[..., many._words(k), :]
    ),
    "tokens": lambda many, k: many.encoded[k].tokens,
    "probabilities": lambda many, k: None if many.probabilities is None else many.probabilities[k],
    "classes": lambda many, k: many.model.classes,
    "features": lambda many, k: many.model.features or many.encoded[k].features,
    "options": _options,
    "ledger": lambda many, k: many._ledger(k),
    "hidden": lambda many, k: many._single["hidden"][k] if "hidden" in many._single else None,
    "spans": lambda many, k: many._phrases(k),
    "others": lambda many, k: {name: many._single[f"input {name}"][k] for name in many._others},
    "name": lambda many, k: many.model.main,
    "values": lambda many, k: many.encoded[k].values,
    "labels": lambda many, k: many.encoded[k].labels,
    "output_unit": lambda many, k: many.model.output_unit,
    "marks": lambda many, k: many.encoded[k].marks,
}
for _name, _make in PARTS.items():
    setattr(OneOfMany, _name, _Part(_name, _make))


def _spread(values: np.ndarray, encoded: Encoded, axis: int) -> np.ndarray:
    """Values of the steps that the network saw among those that were passed in; padding has 0."""
    if encoded.kept is None:
        return values
    shape = [*values.shape]
    shape[axis] = encoded.length
    out = np.zeros(shape, values.dtype)
    out[(..., encoded.kept) if axis == -1 else (..., encoded.kept, slice(None))] = values
    return out


def explained(scores: np.ndarray, targets: np.ndarray, versus: int | None) -> np.ndarray:
    """(N,), or (C, N) for all classes: f_target or f_target - f_versus."""
    chosen = scores.T if targets.ndim == 2 else scores[np.arange(len(scores)), targets]
    return chosen if versus is None else chosen - scores[:, versus]
