"""The explanations of several sequences: columns of results, and single results made when they are asked for."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np

from lrpnumpy.checks import RelevanceWarning, one_of, outside
from lrpnumpy.encode import Encoded, EncodedRecord
from lrpnumpy.fields import Record, by_target, taken
from lrpnumpy.lazy import cached_property
from lrpnumpy.ledgers import ROWS, AnyLedger, Ledger, ReferenceLedger, by_name
from lrpnumpy.methods.base import Columns, HiddenRows, Request
from lrpnumpy.methods.propagated import GAP, MEANINGLESS, TOO_LARGE
from lrpnumpy.methods.reference import missed_and_huge, unit_of
from lrpnumpy.model import Model
from lrpnumpy.protocol import InputRows, Results
from lrpnumpy.result import Explanation, Hidden, InputPart, Origin, Span
from lrpnumpy.verdict import EvidenceList

SINGLE = ("spans", "cd", "hidden", "players")  # of `Columns`: one value for each sequence, of any shape


def trusted(kind: type[Record], **values: Any) -> Record:
    """A record of values that are known to be right: nothing is checked. What is left out has its default."""
    record = object.__new__(kind)
    object.__setattr__(record, "__dict__", values)
    return record


@dataclass(eq=False, repr=False)
class InputColumn:
    """What one input received in all sequences; relevance of features is put together when it is first needed.

    The steps of sequence k are those from starts[k] to starts[k+1]. `encoded` is the input of each, `names` are those
    of its features, where the model has them, and `parts` the features of chunks with their rows among all.
    """

    encoded: list[Encoded]
    names: tuple[str, ...] | None
    relevance: np.ndarray
    features: np.ndarray | None
    parts: Sequence[tuple[np.ndarray, np.ndarray]] = ()

    @cached_property
    def starts(self) -> np.ndarray:
        """(N+1,) where the steps of each sequence begin, and where the last ones end."""
        return _starts(self.encoded)

    @property
    def feature_relevance(self) -> np.ndarray | None:
        """Relevance of every feature, as `relevance` with one more axis, where it is known."""
        parts = self.parts
        if parts:
            features = np.zeros((*self.relevance.shape, parts[0][1].shape[-1]), self.relevance.dtype)
            for rows, part in parts:
                features[..., rows, :] = part
            self.features, self.parts = features, ()  # the chunks are let go
        return self.features

    def of(self, k: int) -> InputPart:
        """What it received in sequence k; a copy, which does not keep the others in memory."""
        one, relevance, features = self.encoded[k], self.relevance, self.feature_relevance
        values, labels = one.values, one.labels
        if len(self.encoded) > 1:
            steps, every = slice(*self.starts[k : k + 2].tolist()), slice(None)
            relevance = relevance[..., steps].copy()
            features = taken(features, (..., steps, every), copy=True)
            values, labels = taken(values, every, copy=True), taken(labels, every, copy=True)
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
        steps = np.concatenate([np.arange(0), *(np.arange(*self.starts[k : k + 2].tolist()) for k in places)])
        features = taken(self.feature_relevance, (..., steps, slice(None)))
        return InputColumn([self.encoded[k] for k in places], self.names, self.relevance[..., steps], features)


def _starts(encoded: Iterable[Encoded]) -> np.ndarray:
    """(N+1,) where the steps of each sequence begin, and where the last ones end."""
    return np.array([0, *accumulate(one.length for one in encoded)], np.int64)


Chunks = Sequence[tuple[np.ndarray, Columns]]  # results of some sequences, with their positions; a later one replaces


def gathered(
    model: Model, request: Request, encoded: list[EncodedRecord], chunks: Chunks, every_class: bool, computed: str
) -> Explanations:
    """The explanations of all sequences, from those of chunks; `computed` as in `Explanation`."""
    inputs, single, N = {}, {}, len(encoded)  # type: ignore[var-annotated]
    lead = (model.outputs,) * every_class
    if N == 1:
        columns = chunks[-1][1]
        scores, targets, books = columns.scores, columns.targets, columns.books
    else:
        scores, targets = np.empty((N, model.outputs), model.dtype), np.empty((*lead, N), np.int64)
        books = None
        for positions, columns in chunks:
            scores[positions] = columns.scores
            targets[..., positions] = columns.targets
            if columns.books is not None:
                if books is None:
                    books = np.empty((*columns.books.shape[:-1], N), model.dtype)
                books[..., positions] = columns.books
    for name in model.main_first:
        inputs[name] = _gathered_input(model, name, encoded, chunks, lead)
    for positions, columns in chunks:
        for name in SINGLE:
            values = getattr(columns, name)
            if values is None:
                continue
            if name == "hidden":
                values = [_hidden(values, s) for s in range(len(positions))]
            column = single.setdefault(name, [None] * N)
            for k, value in zip(positions.tolist(), values, strict=True):
                column[k] = value
    main, places = inputs[model.main], range(N)
    return Explanations(model, request, encoded, inputs, scores, targets, books, single, computed, main, places)


def _gathered_input(
    model: Model, name: str, encoded: list[EncodedRecord], chunks: Chunks, lead: tuple[int, ...]
) -> InputColumn:
    """What one input received, from all chunks; padding, which the network skips, has 0."""
    of_input, names, padded = [], model.inputs[name].features, False
    for record in encoded:
        of_input.append(record[name])
        padded |= record[name].kept is not None
    if len(encoded) == 1 and not padded:
        got = chunks[-1][1].inputs[name]
        return InputColumn(of_input, names, got.relevance, got.feature_relevance)
    starts, parts = _starts(of_input), []
    relevance = np.zeros((*lead, int(starts[-1])), model.dtype)
    for positions, columns in chunks:
        got = columns.inputs[name]
        rows = starts[positions].take(got.batch.owner) + got.batch.step
        if padded:
            rows = np.concatenate([of_input[k].seen + starts[k] for k in positions])[got.batch.rows]
        relevance[..., rows] = got.relevance
        if got.feature_relevance is not None:
            parts.append((rows, got.feature_relevance))
    return InputColumn(of_input, names, relevance, None, parts)


@dataclass(eq=False, repr=False)
class Explanations(Results):
    """The explanations of several sequences, computed as one ragged batch; each is made when it is asked for.

    `relevance` holds the steps of all sequences one after another, those of sequence k from starts[k] to starts[k+1].
    `model` is the network, `request` the request, `encoded` the inputs as the network takes them, `inputs` their
    relevance. `scores` (N, C) are those of the explained predictions, and `targets` (N,) the classes explained; with
    target "all" (C, N). `books` are the ledgers, see `ledgers.by_name`, and `single` has values whose shape differs
    between sequences, by name: spans, cd, hidden, players. `computed` is the path of the call, and `every_class`
    whether all classes are explained.
    """

    model: Model
    request: Request
    encoded: list[EncodedRecord]
    inputs: dict[str, InputColumn]
    scores: np.ndarray = field()  # in place of the property of any results
    targets: np.ndarray = field()
    books: np.ndarray | None
    single: dict[str, list[Any]]
    computed: str
    main: InputColumn  # what the first of the inputs received
    places: Sequence[int]  # of a slice: the numbers of its results among all
    _explains_predicted: bool = False  # whether each explains the class that is predicted, as nobody named one

    @property
    def every_class(self) -> bool:
        """Whether all classes are explained."""
        return self.targets.ndim == 2

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
        found = self.main
        if input is not None:
            found = self.inputs[one_of(input, "input", tuple(self.inputs))]
        features = found.names or (found.encoded[0].features if found.encoded else None)
        tokens = [one.tokens for one in found.encoded]
        return InputRows(np.diff(found.starts), found.relevance, found.feature_relevance, features, tokens)

    def _explained_for(self, target: int | str) -> Explanations:
        """The same sequences explained for one class, or for "all"."""
        from lrpnumpy.explain import run

        return run(self.model, self.encoded, self.request, target, None, None)

    @cached_property
    def ledger(self) -> dict[str, np.ndarray]:
        """The entries of all ledgers by name, (N,) or (C, N), of methods that keep one; biases (layers, N)."""
        if self.books is None:
            return {}
        return by_name(self.request.method.kind, self.books)

    @cached_property
    def explained_steps(self) -> np.ndarray:
        """(N,) the step whose prediction is explained: the last that is not padding, unless another was asked for."""
        step: Any = self.request.step if self.model.every and self.request.newest is None else -1
        every = zip(self.places, self.main.encoded, strict=True)
        return np.array([one.seen[k if step == "all" else step] for k, one in every])

    @property
    def dates(self) -> list[Any]:
        """Label of the last step of each sequence, or None."""
        return [taken(one.labels, -1) for one in self.main.encoded]

    def evidence(self) -> EvidenceList:
        """What experiments say about each of them, computed as one batch and kept; see `Explanation.evidence`."""
        if "tested" not in self.single:
            self.single["tested"] = [*super().evidence()]
        return EvidenceList(self.single["tested"])

    def _some(self, places: Sequence[int]) -> Explanations:
        chosen = [*places]
        inputs = {name: one.some(chosen) for name, one in self.inputs.items()}
        return replace(
            self,
            encoded=[self.encoded[k] for k in chosen],
            inputs=inputs,
            main=inputs[self.model.main],
            scores=self.scores[chosen],
            targets=self.targets[..., chosen],
            books=taken(self.books, (..., chosen)),
            single={name: [values[k] for k in chosen] for name, values in self.single.items()},
            places=[self.places[k] for k in chosen],
        )

    def _one(self, k: int) -> Explanation:
        model, request = self.model, self.request
        options, inputs = {**request.options}, {}
        if request.step == "all":
            options["step"] = self.places[k]
        for name, column in self.inputs.items():
            inputs[name] = column.of(k)
        scores, record = self.scores[k], self.encoded[k]
        if len(self.encoded) > 1:  # copies, which do not keep the others in memory
            scores, record = scores.copy(), {name: one.copied() for name, one in record.items()}
        found = trusted(
            Explanation,
            inputs=inputs,
            scores=scores,
            target="all" if self.targets.ndim == 2 else int(self.targets[k]),
            method=request.method.name,
            activation=model.output,
            classes=model.classes,
            options=options,
            ledger=self._ledger(k),
            output_unit=model.output_unit,
            computed=self.computed,
        )
        # No experiment can test an explanation of which `through` or `newest` leaves only a part.
        if getattr(request.method, "through", None) is None and request.newest is None:
            vars(found)["source"] = Origin(model, record, request)
        for name in {"hidden", "players", "tested", "computed"} & self.single.keys():
            vars(found)[name] = self.single[name][k]
        if "spans" in self.single:
            vars(found)["spans"] = self._phrases(k)
        return found

    def _ledger(self, k: int) -> AnyLedger | None:
        """The ledger of one explanation, of a method that keeps one."""
        if self.books is None:
            return by_target(np.copy, self.single["cd"][k]) if "cd" in self.single else None
        kind, books = self.request.method.kind, self.books[..., k]  # (rows,), or (C, rows)
        if len(self.encoded) > 1:
            books = books.copy()
        names = ROWS[kind]
        entries: dict[str, Any] = dict(zip(names, books.T, strict=False))
        if kind != "lrp":
            return trusted(ReferenceLedger, **entries)
        entries["biases"] = books[..., len(names) :]
        return trusted(Ledger, **entries)

    def _phrases(self, k: int) -> tuple[Span, ...]:
        """Relevance of the phrases of one explanation."""
        values, one = self.single["spans"][k], self.main.encoded[k]
        spans = np.asarray(self.single["phrases"][k], np.int64).reshape(-1, 2)
        places = np.clip(spans + one.added[0], 0, one.length).tolist()
        return tuple(Span(a, b, values[..., v].copy()) for v, (a, b) in enumerate(places))

    def warn(self) -> None:
        """One warning if relevance is not reliable."""
        with np.errstate(all="ignore"):
            problem = self._problem()
        if problem is not None:
            warnings.warn(self.request.method._warning(problem), RelevanceWarning, stacklevel=outside())

    def _problem(self) -> str | None:
        """What is wrong: relevance that is not finite, a ledger that misses its score, relevance that is too large."""
        is_finite = np.isfinite(self.relevance)
        if not is_finite.all():
            k = int(np.searchsorted(self.starts, np.argwhere(~is_finite)[0][-1], side="right")) - 1
            return f"relevance of sequence {k} is not finite ({self._settings()})"
        if not self.ledger:
            return None
        missed, huge = self._missed_and_huge()
        ledger, versus = self.ledger, self.request.versus
        score = explained(self.scores, self.targets, versus)
        if self.request.method.kind == "reference" and missed.any():
            unit = unit_of(ledger["score"], ledger["reference"], versus)[missed]
            gap = np.maximum(abs(ledger["gap"]), abs(ledger["score"] - score))[missed] / unit
            error = np.maximum(gap, ledger["error"][missed] / unit)
            return (
                f"relevances miss f(x) - f(reference) by up to {np.max(gap):.2g} of it, and single features their "
                f"values by up to {np.max(error):.2g} of it, for {self._count(missed)}"
            )
        if missed.any():
            gap = abs(ledger["total"] - score)[missed] / np.maximum(abs(score[missed]), np.finfo(score.dtype).tiny)
            what = f"the ledger misses the score by up to {100 * np.max(gap):.2g} % for {self._count(missed)}"
        elif huge.any():
            what = f"relevance inside the network is more than {TOO_LARGE:.0e} times the score for {self._count(huge)}"
        else:
            return None
        close = "" if versus is None else ", or the two scores are almost equal"
        return f"{MEANINGLESS}{what} ({self._settings()}{close})"

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
