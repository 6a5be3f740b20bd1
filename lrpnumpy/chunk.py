"""One packed batch to columns of results, by any method, for one class or for all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lrpnumpy.backward import Passed, backward
from lrpnumpy.batch import Batch, in_rows
from lrpnumpy.checks import LrpError
from lrpnumpy.decompose import Parts, decompose, decompose_words
from lrpnumpy.explanation import SpanLedger
from lrpnumpy.forward import Keep, Trace, forward
from lrpnumpy.model import Model
from lrpnumpy.occlude import occlude, occlude_words
from lrpnumpy.request import Request
from lrpnumpy.rules import Propagation


@dataclass(eq=False)
class Columns:
    """Results of some sequences: packed rows (R, …) or one row a sequence (n, …); with target "all" axis C first."""

    scores: np.ndarray  # (n, C)
    targets: np.ndarray  # (n,), or (C, n)
    relevance: np.ndarray  # (R,)
    variables: np.ndarray | None = None  # (R, D)
    ledger: dict[str, np.ndarray] = field(default_factory=dict)  # name -> (n,); biases (layers, n)
    spans: list[np.ndarray] | None = None  # a sequence (V,)
    cd: list[SpanLedger] | None = None  # a sequence
    hidden: list[tuple[np.ndarray, ...]] | None = None  # a layer: (R, H) of h, c, of each direction


def _explained_rows(model: Model, batch: Batch, request: Request, positions: np.ndarray) -> np.ndarray | None:
    """With readout "every", the packed row whose prediction is explained; else None."""
    if model.readout != "every":
        return None
    steps = np.where(request.step < 0, batch.lengths + request.step, request.step)
    if len(wrong := np.flatnonzero((steps < 0) | (steps >= batch.lengths))):
        length = batch.lengths[wrong[0]]
        raise LrpError(
            f"step must lie from {-length} to {length - 1} for sequence {positions[wrong[0]]} of {length} steps, "
            f"got {request.step}."
        )
    return batch.first[steps] + np.arange(batch.n)


def _combine(values: np.ndarray, targets: np.ndarray, versus: int | None) -> np.ndarray:
    """(n, …, C) to (n, …): the target's value, less that of the class it is held against."""
    out = np.take_along_axis(values, targets.reshape(-1, *[1] * (values.ndim - 1)), axis=-1)[..., 0]
    return out if versus is None else out - values[..., versus]


def probabilities(model: Model, scores: np.ndarray) -> np.ndarray | None:
    """Softmax or sigmoid of scores (…, C), as the model says; None where it has neither."""
    if model.output == "softmax":
        e = np.exp(scores - np.maximum.reduce(scores, axis=-1, keepdims=True))
        return e / np.add.reduce(e, axis=-1, keepdims=True)
    if model.output == "sigmoid":
        e = np.exp(-abs(scores))
        return np.where(scores < 0, e, 1) / (1 + e)
    return None


def _stack(parts: list[Any]) -> Any:
    """The same column for every class: one array with a leading axis."""
    return None if parts[0] is None else np.stack(parts)


def _propagated(
    trace: Trace, request: Request, how: Propagation, rows: np.ndarray | None, scores: np.ndarray, targets: np.ndarray
) -> Columns:
    """Gradient and LRP for one target a sequence."""
    method, is_lrp = request.method, request.method.kind == "lrp"
    start, at = np.zeros(scores.shape, scores.dtype), targets + np.arange(0, scores.size, scores.shape[1])
    start.put(at, scores.take(at) if is_lrp else 1)
    if request.versus is not None:
        start[:, request.versus] -= scores[:, request.versus] if is_lrp else 1
    if rows is not None:
        start, explained = np.zeros_like(trace.scores), start
        start[rows] = explained
    passed = backward(trace, start, how, hidden=request.hidden)
    values = passed.x
    looked_up = trace.batch.x.shape[1] == 0  # then values are those of words, times U x already
    if not is_lrp and not looked_up:
        values = values * (values if method.name == "gradient" else trace.batch.x)
    relevance = np.add.reduce(values, axis=1)
    columns = Columns(scores, targets, relevance, values if request.with_variables else None)
    if is_lrp:
        columns.ledger = _ledger(trace.batch, relevance, passed)
        columns.hidden = passed.hidden if request.hidden else None
    return columns


def _ledger(batch: Batch, relevance: np.ndarray, passed: Passed) -> dict[str, np.ndarray]:
    return {
        "inputs": np.add.reduceat(batch.unpack(relevance), batch.starts),
        "biases": passed.biases,
        "stabiliser": passed.stabiliser,
        "initial_state": passed.initial_state,
        "largest": passed.largest,
    }


def explain_chunk(
    model: Model,
    batch: Batch,
    request: Request,
    targets: np.ndarray | None,
    spans: list[np.ndarray] | None,
    positions: np.ndarray,
    every_class: bool,
) -> Columns:
    """All results of one chunk."""
    kind, how = request.method.kind, request.propagation
    keep: Keep = "states" if kind == "occlusion" else "trace" if kind == "cd" else how
    trace = forward(model, batch, keep)
    rows = _explained_rows(model, batch, request, positions)
    scores = trace.scores if rows is None else trace.scores[rows]
    steps = None if rows is None else batch.step[rows]
    if targets is None:
        targets = scores.argmax(axis=1)
    wanted = [np.full(batch.n, c) for c in range(model.outputs)] if every_class else [targets]
    if kind in ("gradient", "lrp"):
        parts = [_propagated(trace, request, how, rows, scores, chosen) for chosen in wanted]
        for part in parts:
            if spans is not None:
                sums = [np.concatenate(([0], np.cumsum(word))) for word in batch.split(part.relevance)]
                part.spans = [s[span[:, 1]] - s[span[:, 0]] for s, span in zip(sums, spans, strict=True)]
        return _joined(parts) if every_class else parts[0]
    if kind == "occlusion":
        parts = _occluded(trace, request, scores, steps, wanted, spans)
    else:
        parts = _decomposed(trace, request, scores, steps, wanted, spans)
    return _joined(parts) if every_class else parts[0]


def _occluded(
    trace: Trace, request: Request, scores: np.ndarray, steps: np.ndarray | None, wanted: list[np.ndarray],
    spans: list[np.ndarray] | None,
) -> list[Columns]:  # fmt: skip
    """Occlusion, for each of the wanted targets."""
    batch, model = trace.batch, trace.model
    options: dict[str, Any] = {"baseline": request.baseline, "tol": request.tol, "steps": steps}

    def measured(scores: np.ndarray) -> np.ndarray:
        return probabilities(model, scores) if request.method.name == "occlusion-p" else scores  # type: ignore[return-value]

    whole, owner = measured(scores), batch.owner
    words = measured(occlude_words(trace, batch, how=request.how, **options))
    single = phrases = None
    if request.with_variables:
        single = measured(in_rows(occlude(trace, batch, [], variables=True, **options), batch.rows))  # (R, D, C)
    if spans is not None:
        phrases = [measured(values) for values in occlude(trace, batch, spans, how=request.how, **options)]
    parts = []
    for chosen in wanted:
        explained = _combine(whole, chosen, request.versus)
        part = Columns(scores, chosen, explained[owner] - _combine(words, chosen[owner], request.versus))
        if single is not None:
            part.variables = explained[owner][:, None] - _combine(single, chosen[owner], request.versus)
        if phrases is not None:
            part.spans = [
                explained[s] - _combine(values, np.full(len(values), chosen[s]), request.versus)
                for s, values in enumerate(phrases)
            ]
        parts.append(part)
    return parts


def _decomposed(
    trace: Trace, request: Request, scores: np.ndarray, steps: np.ndarray | None, wanted: list[np.ndarray],
    spans: list[np.ndarray] | None,
) -> list[Columns]:  # fmt: skip
    """Contextual decomposition, for each of the wanted targets."""
    batch = trace.batch
    words = decompose_words(trace, steps=steps)
    phrases = None if spans is None else decompose(trace, spans, steps=steps)

    def chosen_of(division: Parts, targets: np.ndarray) -> list[np.ndarray]:
        values = division.relevant, division.irrelevant, division.bias
        return [_combine(value, targets, request.versus) for value in values]

    parts = []
    for chosen in wanted:
        of_words = chosen_of(words, chosen[batch.owner])
        relevance, irrelevant, _ = of_words
        whole = (relevance + irrelevant)[: batch.n]  # of the first words, which come first
        left = whole - np.add.reduceat(batch.unpack(relevance), batch.starts)
        part = Columns(scores, chosen, relevance)
        if phrases is None:
            entries: Any = zip(*map(batch.split, of_words), strict=True)
        else:
            entries = [chosen_of(one, np.full(len(one.relevant), c)) for one, c in zip(phrases, chosen, strict=True)]
        part.cd = [SpanLedger(a, r, b, rest) for (a, r, b), rest in zip(entries, left, strict=True)]
        if phrases is not None:
            part.spans = [entry.relevant for entry in part.cd]
        parts.append(part)
    return parts


def _joined(parts: list[Columns]) -> Columns:
    """The columns of every class as one."""
    first, n = parts[0], len(parts[0].scores)
    out = Columns(first.scores, _stack([p.targets for p in parts]), _stack([p.relevance for p in parts]))
    out.variables = _stack([p.variables for p in parts])
    out.ledger = {name: _stack([p.ledger[name] for p in parts]) for name in first.ledger}
    if first.spans is not None:
        out.spans = [np.stack([p.spans[s] for p in parts]) for s in range(n)]  # type: ignore[index]
    if first.cd is not None:
        fields = ("relevant", "irrelevant", "bias", "unassigned")
        out.cd = [
            SpanLedger(*(np.stack([getattr(p.cd[s], name) for p in parts]) for name in fields))  # type: ignore[index]
            for s in range(n)
        ]
    if first.hidden is not None:
        out.hidden = [
            tuple(np.stack([p.hidden[k][j] for p in parts]) for j in range(len(first.hidden[k])))  # type: ignore[index]
            for k in range(len(first.hidden))
        ]
    return out
