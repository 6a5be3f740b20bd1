"""The explanations of several sequences: columns of results, and single results made when they are asked for."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import accumulate
from threading import Lock
from typing import Any

import numpy as np

from lrpnumpy.activations import probabilities
from lrpnumpy.checks import RelevanceWarning, one_of, outside
from lrpnumpy.encode import Encoded, EncodedRecord
from lrpnumpy.fields import by_target, trusted
from lrpnumpy.lazy import cached_property
from lrpnumpy.ledgers import ROWS, AnyLedger, Ledger, ReferenceLedger, by_name
from lrpnumpy.methods.base import Columns, HiddenRows, Received, Request
from lrpnumpy.methods.propagated import GAP, TOO_LARGE
from lrpnumpy.methods.reference import missed_and_huge, unit_of
from lrpnumpy.model import Model
from lrpnumpy.protocol import InputRows, Results
from lrpnumpy.result import Explanation, Hidden, InputPart, Origin, Span
from lrpnumpy.verdict import EvidenceList


class InputColumn:
    """What one input received in all sequences, gathered from chunks; relevance of features when it is first needed.

    The steps of sequence k are those from starts[k] to starts[k+1].
    """

    def __init__(self, encoded: list[Encoded], names: tuple[str, ...] | None) -> None:
        self.encoded = encoded
        self.names = names  # of the features, where the model has them
        self.padded = False  # whether some steps are padding
        for one in encoded:
            if one.kept is not None:
                self.padded = True
        self.relevance: Any = None
        self._features: np.ndarray | None = None
        self._parts: list[tuple[np.ndarray, np.ndarray]] = []  # of chunks: rows among all, and features of these
        self._lock = Lock()

    @cached_property
    def starts(self) -> np.ndarray:
        """(N+1,) where the steps of each sequence begin, and where the last ones end."""
        return np.array([0, *accumulate(one.length for one in self.encoded)], np.int64)

    def make_room(self, lead: tuple[int, ...], dtype: np.dtype) -> None:
        """An array for all sequences; padding, which the network does not see, has 0."""
        self.relevance = (np.zeros if self.padded else np.empty)((*lead, int(self.starts[-1])), dtype)

    def put(self, positions: np.ndarray, got: Received) -> None:
        """Add what the sequences of a chunk received."""
        if self.relevance is None:  # one chunk has all
            self.relevance, self._features = got.relevance, got.feature_relevance
            return
        rows = self._rows(positions, got)
        self.relevance[..., rows] = got.relevance
        if got.feature_relevance is not None:
            self._parts.append((rows, got.feature_relevance))

    def _rows(self, positions: np.ndarray, got: Received) -> np.ndarray:
        """Where the packed rows of a chunk are among all."""
        if not self.padded:
            return self.starts[positions].take(got.batch.owner) + got.batch.step
        seen = [self.encoded[k].seen + self.starts[k] for k in positions]
        return np.concatenate(seen)[got.batch.rows]

    @property
    def feature_relevance(self) -> np.ndarray | None:
        """Relevance of every feature, as `relevance` with one more axis, where it is known."""
        if self._parts:
            with self._lock:
                while self._parts:  # each is let go once it is copied: Ctrl-C may come at any time
                    rows, part = self._parts[-1]
                    if self._features is None:
                        empty = np.zeros if self.padded else np.empty
                        self._features = empty((*self.relevance.shape, part.shape[-1]), part.dtype)
                    self._features[..., rows, :] = part
                    self._parts.pop()
        return self._features

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_features": self.feature_relevance, "_parts": [], "_lock": None}

    def of(self, k: int) -> InputPart:
        """What it received in sequence k; a copy, which does not keep the others in memory."""
        one = self.encoded[k]
        relevance, features, values, labels = self.relevance, self.feature_relevance, one.values, one.labels
        if len(self.encoded) > 1:
            steps = slice(*self.starts[k : k + 2].tolist())
            relevance = relevance[..., steps].copy()
            features = None if features is None else features[..., steps, :].copy()
            values = None if values is None else values.copy()
            labels = None if labels is None else labels.copy()
        return trusted(
            InputPart,
            relevance=relevance,
            feature_relevance=features,
            features=self.names or one.features,
            tokens=one.tokens,
            values=values,
            labels=labels,
            marks=one.marks,
        )

    def some(self, places: Sequence[int]) -> InputColumn:
        """The same of some of the sequences."""
        found = InputColumn([self.encoded[k] for k in places], self.names)
        steps = np.concatenate([np.arange(0), *(np.arange(*self.starts[k : k + 2].tolist()) for k in places)])
        found.relevance = self.relevance[..., steps]
        if self.feature_relevance is not None:
            found._features = self.feature_relevance[..., steps, :]
        return found


class Explanations(Results):
    """The explanations of several sequences, computed as one ragged batch; each is made when it is asked for.

    `relevance` holds the steps of all sequences one after another, those of sequence k from starts[k] to starts[k+1].
    `model` is the network, `request` the request, `encoded` the inputs as the network takes them, `inputs` their
    relevance. `every_class` is whether all classes are explained.
    """

    def __init__(self, model: Model, request: Request, encoded: list[EncodedRecord], every_class: bool) -> None:
        self.model, self.request, self.encoded, self.every_class = model, request, encoded, every_class
        self.inputs: dict[str, InputColumn] = {}
        has_room = len(encoded) == 1  # in the arrays of the one chunk
        for name in model.main_first:
            column = InputColumn([record[name] for record in encoded], model.inputs[name].features)
            self.inputs[name] = column
            has_room = has_room and not column.padded
        self.main = self.inputs[model.main]  # what the first of them received
        self.places: Sequence[int] = range(len(encoded))  # of these among all, where this is a slice
        self._explains_predicted = False  # whether each explains the class that is predicted, as nobody named one
        self.single: dict[str, list[Any]] = {}  # values whose shape differs between sequences: spans, cd, hidden
        self.books: np.ndarray | None = None  # ledgers, see `ledgers.by_name`
        self._doubt = False  # whether relevance of any chunk may not be trusted
        if not has_room:
            self._make_room()

    def _make_room(self) -> None:
        """Columns for all sequences."""
        model, N, dtype = self.model, len(self.encoded), self.model.dtype
        lead = (model.outputs,) if self.every_class else ()
        self.scores = np.empty((N, model.outputs), dtype)
        self.targets = np.empty((*lead, N), np.int64)
        for one in self.inputs.values():
            one.make_room(lead, dtype)
        kind = self.request.method.kind
        rows = len(ROWS.get(kind, ())) + (len(model.nodes) if kind == "lrp" else 0)
        if rows:
            self.books = np.empty((*lead, rows, N), dtype)

    def _put(self, positions: np.ndarray, columns: Columns) -> None:
        """Add the results of a chunk."""
        if "scores" not in vars(self):  # one chunk has all
            self.scores, self.targets, self.books = columns.scores, columns.targets, columns.books
        else:
            self.scores[positions] = columns.scores
            self.targets[..., positions] = columns.targets
            if self.books is not None:
                self.books[..., positions] = columns.books
        for name, got in columns.inputs.items():
            self.inputs[name].put(positions, got)
        for name, column in self.single.items():
            if name == "hidden":
                values = [_hidden(columns.hidden or [], s) for s in range(len(positions))]
            elif name != "asked":
                values = getattr(columns, name)
            else:
                continue
            for k, value in zip(positions.tolist(), values, strict=True):
                column[k] = value

    def __len__(self) -> int:
        return len(self.encoded)

    @property
    def _about(self) -> str:
        return f"<{len(self)} explanations by {self.request.method.name}>"

    @property
    def starts(self) -> np.ndarray:
        """(N+1,) where the steps of each sequence begin, and where the last ones end."""
        return self.main.starts

    @property
    def relevance(self) -> np.ndarray:
        """(R,) relevance of all steps, or (C, R)."""
        return self.main.relevance

    @property
    def feature_relevance(self) -> np.ndarray | None:
        """(R, D) relevance of every feature of all steps, or (C, R, D); put together when it is first asked for."""
        return self.main.feature_relevance

    def received(self, input: str | None = None) -> InputRows:
        """What the `input` of that name, by default the first, received in all results, one behind the other."""
        found = self.inputs[one_of(self.model.main if input is None else input, "input", tuple(self.inputs))]
        features = found.names or (found.encoded[0].features if found.encoded else None)
        return InputRows(np.diff(found.starts), found.relevance, found.feature_relevance, features)

    def _explained_for(self, target: int | str) -> Explanations:
        """The same sequences explained for one class, or for "all"."""
        from lrpnumpy.explain import run

        return run(self.model, self.encoded, self.request, target, None, None)

    def _tokens(self, input: str) -> list[str] | None:
        """The words of an `input` in all results, one behind the other; None where it has none."""
        found = [one.tokens for one in self.inputs[input].encoded]
        return None if any(one is None for one in found) else [word for words in found for word in words or ()]

    @cached_property
    def ledger(self) -> dict[str, np.ndarray]:
        """The entries of all ledgers by name, (N,) or (C, N), of methods that keep one; biases (layers, N)."""
        return {} if self.books is None else by_name(self.request.method.kind, self.books)

    @cached_property
    def explained_steps(self) -> np.ndarray:
        """(N,) the step whose prediction is explained: the last that is not padding, unless another was asked for."""
        step: Any = self.request.step if self.model.every else -1
        every = zip(self.places, self.main.encoded, strict=True)
        if self.request.newest is not None:
            step = -1
        return np.array([one.seen[k if step == "all" else step] for k, one in every])

    @property
    def dates(self) -> list[Any]:
        """Label of the last step of each sequence, or None."""
        return [None if one.labels is None else one.labels[-1] for one in self.main.encoded]

    @cached_property
    def probabilities(self) -> np.ndarray | None:
        """(N, C), where the model has any."""
        with np.errstate(all="ignore"):
            return probabilities(self.model.output, self.scores)

    def evidence(self) -> EvidenceList:
        """What experiments say about each of them, computed as one batch and kept; see `Explanation.evidence`."""
        if "tested" not in self.single:
            self.single["tested"] = [*super().evidence()]
        return EvidenceList(self.single["tested"])

    def _some(self, places: Sequence[int]) -> Explanations:
        chosen = [*places]
        found = Explanations(self.model, self.request, [self.encoded[k] for k in chosen], self.every_class)
        found.inputs = {name: one.some(chosen) for name, one in self.inputs.items()}
        found.main = found.inputs[self.model.main]
        found.places = [self.places[k] for k in chosen]
        found.single = {name: [values[k] for k in chosen] for name, values in self.single.items()}
        found.scores, found.targets = self.scores[chosen], self.targets[..., chosen]
        found._explains_predicted = self._explains_predicted
        if self.books is not None:
            found.books = self.books[..., chosen]
        return found

    def _one(self, k: int) -> Explanation:
        request = self.request
        options = request.shown()
        if request.step == "all":
            options["step"] = self.places[k]
        inputs = {}
        for name, column in self.inputs.items():
            inputs[name] = column.of(k)
        return trusted(
            Explanation,
            inputs=inputs,
            scores=self._own(self.scores[k]),
            target="all" if self.every_class else int(self.targets[k]),
            method=request.method.name,
            activation=self.model.output,
            classes=self.model.classes,
            options=options,
            ledger=self._ledger(k),
            hidden=self.single["hidden"][k] if "hidden" in self.single else None,
            spans=self._phrases(k),
            players=self.single["players"][k] if "players" in self.single else None,
            output_unit=self.model.output_unit,
            tested=self.single["tested"][k] if "tested" in self.single else None,
            source=self._origin(k),
        )

    def _origin(self, k: int) -> Origin | None:
        """What an explanation is of; None where `through` or `newest` leaves only a part of it, which no experiment can
        test.
        """
        if getattr(self.request.method, "through", None) is not None or self.request.newest is not None:
            return None
        return Origin(self.model, self._record(k), self.request)

    def _record(self, k: int) -> EncodedRecord:
        """The input of sequence k; a copy, which does not keep the others in memory."""
        if len(self.encoded) == 1:
            return self.encoded[k]
        return {name: one.copied() for name, one in self.encoded[k].items()}

    def _own(self, array: np.ndarray) -> np.ndarray:
        """A part of an array of all sequences; of several it is a copy, which does not keep the others in memory."""
        return array.copy() if len(self.encoded) > 1 else array

    def _ledger(self, k: int) -> AnyLedger | None:
        """The ledger of one explanation, of a method that keeps one."""
        if self.books is None:
            return by_target(np.copy, self.single["cd"][k]) if "cd" in self.single else None
        kind = self.request.method.kind
        books, names = self._own(self.books[..., k]), ROWS[kind]  # (rows,), or (C, rows)
        entries: dict[str, Any] = dict(zip(names, books.T, strict=False))
        if kind == "lrp":
            return trusted(Ledger, biases=books[..., len(names) :], **entries)
        return trusted(ReferenceLedger, **entries)

    def _phrases(self, k: int) -> tuple[Span, ...] | None:
        """Relevance of the phrases of one explanation, where there were any."""
        if "spans" not in self.single:
            return None
        values, one = self.single["spans"][k], self.main.encoded[k]
        spans = np.asarray(self.single["asked"][k], np.int64).reshape(-1, 2)
        places = np.clip(spans + one.added[0], 0, one.length).tolist()
        return tuple(Span(a, b, values[..., v].copy()) for v, (a, b) in enumerate(places))

    def _finish(self) -> None:
        """One warning per call if relevance is not reliable."""
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
            close = "" if self.request.versus is None else ", or the two scores are almost equal"
            return (
                f"numerically unstable here, so the result is meaningless: the ledger misses the score by up to "
                f"{100 * np.max(gap):.2g} % for {self._count(missed)} ({self._settings()}{close})"
            )
        if np.count_nonzero(huge):
            return (
                f"numerically unstable here, so the result is meaningless: relevance inside the network is more than "
                f"{TOO_LARGE:.0e} times the score for {self._count(huge)} ({self._settings()})"
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
        return f"{int(which.sum())} of {which.size} explanations, first for sequence {first}"

    def _say(self, problem: str) -> None:
        warnings.warn(self.request.method.warning(problem), RelevanceWarning, stacklevel=outside())


def _hidden(every: list[HiddenRows], s: int) -> tuple[Hidden, ...]:
    """Relevance of the hidden states of the s-th sequence of a chunk."""
    found = []
    for one in every:
        rows = one.batch.first[: one.batch.lengths[s]] + s
        found.append(Hidden(one.layer, one.direction, *np.moveaxis(one.states[..., rows, :], -3, 0)))
    return tuple(found)


def explained(scores: np.ndarray, targets: np.ndarray, versus: int | None) -> np.ndarray:
    """(N,), or (C, N) for all classes: f_target or f_target - f_versus."""
    chosen = scores.T if targets.ndim == 2 else scores[np.arange(len(scores)), targets]
    return chosen if versus is None else chosen - scores[:, versus]
