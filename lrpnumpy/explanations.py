"""The explanations of several sequences: columns of results, and single results made when they are asked for."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from lrpnumpy.batch import Batch, Encoded
from lrpnumpy.checks import RelevanceWarning
from lrpnumpy.chunk import Columns, probabilities
from lrpnumpy.explanation import Explanation, Hidden, Ledger, Span, SpanLedger
from lrpnumpy.model import Bidirectional, Dense, Model
from lrpnumpy.request import Request

LEDGER = tuple(field.name for field in fields(Ledger))
TOO_LARGE = 1e6  # times f_c: relevance beyond this is decided by rounding


class Explanations(Sequence[Explanation]):
    """The explanations of several sequences, computed as one ragged batch; each is made when it is asked for.

    `relevance` holds the words of all sequences one after another, those of sequence k from starts[k] to starts[k+1].
    """

    def __init__(self, model: Model, request: Request, encoded: list[Encoded], every_class: bool) -> None:
        self.model, self.request, self.every_class = model, request, every_class
        self.encoded, self._options = encoded, request.options
        self.padded = any(sequence.kept is not None for sequence in encoded)
        self._single: dict[str, list[Any]] = {}  # what has a shape of its own for each sequence
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
        self.variables = empty((*lead, total, model.inputs), dtype) if self.request.with_variables else None
        self.ledger: dict[str, np.ndarray] = {}
        if self.request.method.kind == "lrp":
            self.ledger = {
                name: np.empty((*lead, *((len(model.layers),) if name == "biases" else ()), N), dtype)
                for name in LEDGER
            }

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
            self.scores, self.targets, self.ledger = columns.scores, columns.targets, columns.ledger
            self.relevance, self.variables = columns.relevance, columns.variables
        else:
            rows = self._rows(positions, batch)
            self.scores[positions] = columns.scores
            self.targets[..., positions] = columns.targets
            self.relevance[..., rows] = columns.relevance
            if self.variables is not None:
                self.variables[..., rows, :] = columns.variables
            for name, column in columns.ledger.items():
                self.ledger[name][..., positions] = column
        for name, parts in (("spans", columns.spans), ("cd", columns.cd)):
            if parts is not None:
                for k, part in zip(positions, parts, strict=True):
                    self._single[name][k] = part
        if columns.hidden is not None:
            for s, k in enumerate(positions):
                take = batch.first[: batch.lengths[s]] + s
                self._single["hidden"][k] = [[part[..., take, :] for part in layer] for layer in columns.hidden]

    def __len__(self) -> int:
        return len(self.encoded)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return [self[k] for k in range(*key.indices(len(self)))]
        if not -len(self) <= key < len(self):
            raise IndexError(f"explanation {key} of {len(self)}")
        return self._one(key % len(self))

    def __iter__(self) -> Iterator[Explanation]:
        return (self._one(k) for k in range(len(self)))

    def __repr__(self) -> str:
        return f"<{len(self)} explanations by {self.request.method.name}>"

    def _one(self, k: int) -> Explanation:
        words = slice(None) if self.alone else slice(*self.starts[k : k + 2].tolist())
        found = self.probabilities
        ledger: Ledger | SpanLedger | None = self._single["cd"][k] if "cd" in self._single else None
        if self.ledger:
            inputs, biases, *rest = [self.ledger[name][..., k] for name in LEDGER]
            ledger = Ledger(inputs, tuple(biases.T), *rest)  # biases are (layers,), or (C, layers)
        spans = self._single.get("spans")
        return Explanation(
            relevance=self.relevance[..., words],
            scores=self.scores[k],
            target="all" if self.every_class else int(self.targets[k]),
            method=self.request.method.name,
            variables=None if self.variables is None else self.variables[..., words, :],
            tokens=self.encoded[k].tokens,
            probabilities=None if found is None else found[k],
            classes=self.model.classes,
            features=self.model.features,
            options=self._options,
            ledger=ledger,
            hidden=self._hidden(k),
            spans=None if spans is None else self._phrases(k, spans[k]),
        )

    def _phrases(self, k: int, values: np.ndarray) -> tuple[Span, ...]:
        asked = self._single["asked"][k]
        return tuple(Span(int(a), int(b), values[..., v]) for v, (a, b) in enumerate(asked))

    def _hidden(self, k: int) -> tuple[Hidden, ...] | None:
        if "hidden" not in self._single:
            return None
        out = []
        for number, (layer, parts) in enumerate(zip(self.model.layers, self._single["hidden"][k], strict=True)):
            if not isinstance(layer, Dense):
                names = ("forward", "backward") if isinstance(layer, Bidirectional) else ("forward",)
                out += [Hidden(number, name, *parts[2 * j : 2 * j + 2]) for j, name in enumerate(names)]
        return tuple(out)

    def _finish(self) -> None:
        """Probabilities, and one warning a call where relevance is not finite or so large that rounding decides it."""
        self.probabilities = probabilities(self.model, self.scores)  # (N, C), where the model has any
        is_finite, largest = np.isfinite(self.relevance), self.ledger.get("largest")
        if np.count_nonzero(is_finite) < is_finite.size:
            k = int(np.searchsorted(self.starts, np.argwhere(~is_finite)[0][-1], side="right")) - 1
            self._say(f"relevance of sequence {k} is not finite (eps={self.request.eps:g})")
        elif largest is not None:
            size = abs(self._explained())
            huge = largest > TOO_LARGE * size
            if np.count_nonzero(huge):
                huge &= largest > TOO_LARGE * np.finfo(size.dtype).tiny
            if np.count_nonzero(huge):
                self._say(
                    f"relevance inside the network is more than {TOO_LARGE:.0e} times the score for "
                    f"{int(huge.sum())} of {huge.size} explanations, the first that of sequence "
                    f"{int(np.argwhere(huge)[0][-1])} (eps={self.request.eps:g}), so rounding decides it"
                )

    def _say(self, problem: str) -> None:
        method, eps = self.request.method, self.request.eps
        advice = f"; try a larger eps than {eps:g}, or another rule" if method.kind == "lrp" else ""
        warnings.warn(f"{method.name}: {problem}{advice}.", RelevanceWarning, stacklevel=_outside())

    def _explained(self) -> np.ndarray:
        """(N,) or (C, N): what is explained, f_target or f_target - f_versus."""
        chosen = self.scores.T if self.every_class else self.scores[np.arange(len(self.targets)), self.targets]
        return chosen if self.request.versus is None else chosen - self.scores[:, self.request.versus]


def _outside() -> int:
    """The stacklevel of a warning that points at the first caller outside this package."""
    level, frame = 0, sys._getframe()
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "lrpnumpy":
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    return level
