"""Contextual decomposition: how much of every score comes from a phrase, from the rest, from biases.

Every activation is beta + gamma + delta, in this order. delta is the same for all phrases and steps, and gamma is what
is left of the true activation: so beta is all that has to be computed. Murdoch, Liu & Yu, ICLR 2018; stacks, two
directions and other layers by the same rules (see `Layer.split`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lrpnumpy.ledgers import SpanLedger
from lrpnumpy.methods.base import Columns, Method, Question, Received
from lrpnumpy.packed import Split, groups
from lrpnumpy.passes import Trace
from lrpnumpy.passes import decompose as decompose_parts

MOST = 1 << 24  # numbers in an array with every step of every variant, unless a single variant has more


class Shares(NamedTuple):
    """What scores are made of, one row per phrase: relevant + irrelevant + bias = f(x)."""

    relevant: np.ndarray  # (V, C) beta
    irrelevant: np.ndarray  # (V, C) gamma
    bias: np.ndarray  # (V, C) delta


def phrases_of(trace: Trace, name: str, owner: np.ndarray, start: np.ndarray, stop: np.ndarray) -> dict[str, Split]:
    """The division of the inputs: what is inside the phrase of this input is relevant, all the rest is not."""
    parts, nowhere = {}, np.zeros_like(start)
    for other, x in trace.inputs.items():
        a, b = (start, stop) if other == name else (nowhere, nowhere)
        parts[other] = Split(None, np.zeros(x.rows.shape[1], trace.model.dtype), owner, a, b, a)
    return parts


def decompose(trace: Trace, spans: Sequence[np.ndarray], steps: np.ndarray | None = None) -> list[Shares]:
    """Shares of the scores of each sequence: spans[s] is (V, 2), its phrases [start, stop).

    Where there is a prediction at every step, the scores are those at steps[s], by default the last.
    """
    counts = np.array([len(phrases) for phrases in spans])
    owner = np.repeat(np.arange(len(counts)), counts)
    start, stop = np.concatenate(spans).astype(np.int64, copy=False).T.copy()
    found = _shares(trace, phrases_of(trace, trace.model.main, owner, start, stop), steps)
    return [Shares(*(column[a:b] for column in found)) for a, b in pairwise([0, *np.cumsum(counts).tolist()])]


def decompose_words(trace: Trace, steps: np.ndarray | None = None, name: str | None = None) -> Shares:
    """Shares of the scores with every word of an input as a separate phrase: (R, C), in the rows of its batch."""
    name = name or trace.model.main
    batch = trace.inputs[name].batch
    if batch.n == 1:
        owner, start = batch.owner, batch.rows
    else:
        owner = np.repeat(np.arange(batch.n), batch.lengths)
        start = np.arange(len(owner)) - batch.starts[owner]
    found = _shares(trace, phrases_of(trace, name, owner, start, start + 1), steps)
    return Shares(*map(batch.pack, found))


def _shares(trace: Trace, parts: dict[str, Split], steps: np.ndarray | None) -> Shares:
    """Shares of the scores, (V, C)."""
    owner = parts[trace.model.main].owner
    output, V = trace.output, len(owner)
    rows = np.arange(output.batch.n)
    if trace.model.every:
        rows = output.batch.last if steps is None else output.batch.first[steps] + rows
    true = output.rows[rows[owner]]
    beta, bias = np.empty_like(true), np.empty_like(true)
    for a, b in groups(trace.input.batch.lengths[owner] * trace.model.row_width, MOST):
        some = parts
        if (a, b) != (0, V):
            some = {}
            for name, part in parts.items():
                some[name] = Split(part.beta, part.delta, *(column[a:b] for column in part[2:]))
        last = dict(decompose_parts(trace, some))[trace.model.scored]
        found = last.beta
        assert found is not None  # the scores are not the input
        if trace.model.every:
            step = output.batch.step[rows[owner[a:b]]]
            beta[a:b] = found.rows[found.batch.first[step] + np.arange(b - a)]
        else:
            beta[a:b] = found.rows
        bias[a:b] = last.delta
    true -= bias
    true -= beta
    return Shares(beta, true, bias)


@dataclass(frozen=True)
class CD(Method):
    """Contextual decomposition: the part of the score that a phrase contributes without the rest of the input."""

    name = "cd"
    description = "contextual decomposition: what the word itself did to the score"
    cost = "Θ(T²)"
    conserves = "f_c(x) for each phrase, with the rest of the input"
    feature_relevance = "no"
    paper = "Murdoch et al. 2018"
    kind = "cd"
    keep = "parts"

    def run(self, question: Question, wanted: list[np.ndarray]) -> list[Columns]:
        """The answers to a `question`, one for each of the `wanted` targets: relevance is the part beta of a step."""
        trace, batch, steps = question.trace, question.trace.input.batch, question.steps
        words = decompose_words(trace, steps)
        phrases = None if question.spans is None else decompose(trace, question.spans, steps)
        parts = []
        for chosen in wanted:
            of_words = [question.combined(column, chosen[batch.owner]) for column in words]
            relevance, irrelevant, _ = of_words
            whole = (relevance + irrelevant)[: batch.n]  # of the first words, which come first
            left = whole - batch.sums(relevance)
            if phrases is None:
                entries: Iterable[Sequence[np.ndarray]] = zip(*map(batch.split, of_words), strict=True)
            else:
                entries = (
                    [question.combined(column, np.full(len(column), c)) for column in one]
                    for one, c in zip(phrases, chosen, strict=True)
                )
            part = Columns(question.scores, chosen, {trace.model.main: Received(batch, relevance)})
            part.cd = [SpanLedger(a, r, b, rest) for (a, r, b), rest in zip(entries, left, strict=True)]
            if phrases is not None:
                part.spans = [entry.relevant for entry in part.cd]
            parts.append(part)
        others = {name: x for name, x in trace.inputs.items() if name != trace.model.main}
        for name, x in others.items():
            relevant = decompose_words(trace, steps, name).relevant
            for part, chosen in zip(parts, wanted, strict=True):
                part.inputs[name] = Received(x.batch, question.combined(relevant, chosen[x.batch.owner]))
        return parts
