"""Integrated gradients: the mean gradient on the straight line from a reference to the input, times their difference.

    R_i = (x_i - x0_i) ∫_0^1 df/dx_i (x0 + a (x - x0)) da          Sundararajan, Taly & Yan, ICML 2017

The integral is taken by Gauss' rule. Relevances add up to f(x) - f(x0) but for its error, the gap. The number of nodes
is doubled until that is small enough. Where the gradient jumps (relu, maxima), the errors of single features may cancel
in the sum. In networks with such kinks each feature is therefore compared with its value by half as many nodes. With
several references relevance is the mean over them: expected gradients (Erion et al. 2021).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.checks import LrpError, non_negative, whole
from lrpnumpy.layers import LAYERS, Max, MaxPool1D, Record
from lrpnumpy.methods.base import Columns, Question
from lrpnumpy.methods.reference import Multiplying, finished, reference_scores, unit_of
from lrpnumpy.methods.through import Through
from lrpnumpy.model import Model
from lrpnumpy.packed import Batch, Packed, at_once
from lrpnumpy.passes import backward, forward
from lrpnumpy.rules import GRADIENT
from lrpnumpy.rules.propagation import Entry

MOST = 256  # nodes
GAPS = {4: 1e-3, 8: 1e-6}  # by the bytes of a number


Rows = dict[str, np.ndarray]


@dataclass(frozen=True)
class IntegratedGradients(Multiplying):
    """The mean gradient on the line from a reference to the input, times their difference.

    With several references the relevance is the mean over them, which is expected gradients.

    nodes: number of nodes of the integral, at most 256; default: as many as `gap` needs.
    gap: how far the sum of all relevances, and in networks with relu or maxima each of them, may be off, relative to
        f(x) - f(reference); default 1e-6 in float64 and 1e-3 in float32, and no limit if `nodes` is given.
    """

    nodes: int | None = None
    gap: float | None = None

    name = "integrated-gradients"
    description = "mean gradient on the line from a reference, times the difference; several: expected gradients"
    cost = "Θ(T), times nodes"
    conserves = "f_c(x) - f_c(reference), less the gap"
    paper = "Sundararajan et al. 2017"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nodes is not None and self.gap is not None:
            raise LrpError("nodes must be None where a gap is asked for, got both; the gap is measured in any case.")
        if self.nodes is not None and whole(self.nodes, "nodes", 1) > MOST:
            raise LrpError(f"nodes must be at most {MOST}, got {self.nodes}.")
        if self.gap is not None:
            non_negative(self.gap, "gap")

    def most_gap(self, dtype: np.dtype) -> float:
        """How large gap and error may be in this `dtype`, relative to |f(x) - f(reference)|."""
        if self.gap is not None:
            return self.gap
        return np.inf if self.nodes is not None else GAPS[dtype.itemsize]

    def advice(self) -> str:
        """What to try where relevance is doubtful."""
        return (
            f"if kinks (relu, maxima) keep it large with {MOST} nodes, use a larger gap, or deeplift, which "
            "has no such error"
        )

    def run(self, question: Question, wanted: list[np.ndarray]) -> list[Columns]:
        """The answers to a `question`, one for each of the `wanted` targets."""
        trace, references = question.trace, question.request.plan
        values: list[Rows] = [{name: np.zeros_like(x.rows) for name, x in trace.inputs.items()} for _ in wanted]
        scores = np.zeros_like(question.scores)
        count = scores.dtype.type(len(references.each))
        errors, uncut = np.zeros((2, len(wanted), len(scores)), scores.dtype)
        for x0, of_reference, refined in self._integrated(question, wanted):
            scores += of_reference / count
            for c, (slopes, cut, error) in enumerate(refined):
                errors[c] += error / count
                uncut[c] += question.summed(times(slopes, trace.inputs, x0)) / count
                for name, part in times(cut, trace.inputs, x0).items():
                    values[c][name] += part / count
        out = []
        for c, targets in enumerate(wanted):
            whole = None if self.through is None else uncut[c]
            out.append(finished(question, targets, values[c], scores, error=errors[c], whole=whole))
        return out

    def multipliers(self, question: Question, targets: np.ndarray) -> Rows:
        """(R, D) of each input: its mean gradient on the lines from the references, for a `question` and `targets`."""
        found = {name: np.zeros_like(x.rows) for name, x in question.trace.inputs.items()}
        for _, _, [(_, cut, _)] in self._integrated(question, [targets]):
            for name, part in cut.items():
                found[name] += part / len(question.request.plan.each)
        return found

    def _integrated(self, question: Question, wanted: list[np.ndarray]) -> Iterator[tuple[Any, ...]]:
        """Of each reference its rows, its scores (n, C), and what `_refined` gives for the `wanted` targets."""
        trace, references = question.trace, question.request.plan
        for k in range(len(references.each)):
            x0 = references.packed(k, trace.inputs)
            of_reference = reference_scores(question, forward(trace.model, x0).scores)
            yield x0, of_reference, _refined(self, question, wanted, x0, of_reference)


@lru_cache
def gauss(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss quadrature with `count` nodes on the line from 0 to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1) / 2, weights / 2


def first_nodes(gap: float) -> int:
    """With how many nodes to begin: where all is smooth, each gives about one more digit."""
    return min(MOST, max(4, 3 + math.ceil(-math.log10(gap)))) if gap > 0 else MOST


def times(slopes: Rows, x: dict[str, Packed], x0: dict[str, Packed]) -> Rows:
    """Relevance (R, D) of each input from its mean slopes on the line from `x0` to `x`."""
    return {name: one * (x[name].rows - x0[name].rows) for name, one in slopes.items()}


def integrals(
    model: Model,
    x: dict[str, Packed],
    x0: dict[str, Packed],
    starts: list[tuple[np.ndarray, Through | None]],
    count: int,
) -> list[Rows]:
    """Mean slopes (R, D) of each input, by `count` nodes, in groups of a suitable size.

    There is one for each of the `starts`: a message at the scores, and what it must pass through.
    """
    dtype, steps = model.dtype, {name: one.rows - x0[name].rows for name, one in x.items()}
    sums: list[Rows] = [{name: np.zeros_like(one) for name, one in steps.items()} for _ in starts]
    nodes, weights = gauss(count)
    size = max(1, at_once(model.width) // x[model.main].batch.n)
    for k in range(0, count, size):
        a, w = nodes[k : k + size].astype(dtype), weights[k : k + size].astype(dtype)
        # Each row once for each node, side by side: in the packed batch of repeated sequences this is their order.
        points = {}
        for name, step in steps.items():
            rows = (x0[name].rows[:, None] + a[:, None] * step[:, None]).reshape(-1, step.shape[1])
            points[name] = Packed(np.ascontiguousarray(rows), Batch(x[name].batch.lengths.repeat(len(a))))
        trace = forward(model, points, GRADIENT)
        for total, (start, through) in zip(sums, starts, strict=True):
            passed = backward(trace, start.repeat(len(a), axis=0), GRADIENT, through=through)
            for name, slope in passed.inputs.items():
                total[name] += w @ slope.reshape(-1, len(a), slope.shape[1])
    return sums


def has_kinks(layer: Record) -> bool:
    """Whether the slope of a layer may jump: in a maximum, a relu, or an unknown layer."""
    if type(layer) not in LAYERS.values() or isinstance(layer, (Max, MaxPool1D)):
        return True
    for field in ("activation", "recurrent_activation"):
        name = getattr(layer, field, None)
        if name is not None and (name not in ACTIVATIONS or ACTIVATIONS[name].kinks):
            return True
    return any(has_kinks(part) for _, part in layer.parts())


def _refined(
    method: IntegratedGradients,
    question: Question,
    wanted: list[np.ndarray],
    x0: dict[str, Packed],
    of_reference: np.ndarray,
) -> list[tuple[Rows, Rows, np.ndarray]]:
    """The mean slopes of all sequences, each with as many nodes as it needs; the same of what passes `through`; and the
    errors (n,) of relevance.

    The error is that of the sum or, in networks with kinks, of the feature that the last doubling of the nodes changed
    most. There errors fall like 1 / nodes. A change may be small by chance: so half of the one before counts, too.
    """
    trace, n = question.trace, len(question.scores)
    starts: list[Any] = [(question.sent_back(np.ones_like(question.scores), targets), None) for targets in wanted]
    if method.through is not None:
        starts += [(start, method.through) for start, _ in starts]
    scores = [[question.combined(f, targets) for f in (question.scores, of_reference)] for targets in wanted]
    gap, most = method.most_gap(question.scores.dtype), method.nodes or MOST
    count, doublings = method.nodes or first_nodes(gap), 0  # how often the nodes are doubled at least
    if any(has_kinks(node.layer) for node in trace.model.nodes):
        if method.nodes is None:
            count, doublings = max(2, count // 4), 2
        else:
            count, doublings = (count + 1) // 2, 1
    change, before = np.zeros((2, len(wanted), n), question.scores.dtype)
    found = integrals(trace.model, trace.inputs, x0, starts, count)
    while True:
        errors = []
        missed = np.full(n, doublings > 0)
        for c, ((f, f0), slopes) in enumerate(zip(scores, found, strict=False)):
            rows = times(slopes, trace.inputs, x0)
            got, size = question.summed(rows), question.summed({name: abs(one) for name, one in rows.items()})
            rounding = 4 * np.finfo(f.dtype).eps * size  # what more nodes would not change
            error = np.maximum(abs(f - f0 - got), np.maximum(change[c], before[c] / 2))
            missed |= ~(error <= np.maximum(gap * unit_of(f, f0, question.request.versus), rounding))
            errors.append(error)
        if count == most or not missed.any():
            return list(zip(found[: len(wanted)], found[-len(wanted) :], errors, strict=True))
        count, doublings = min(2 * count, most), doublings - 1
        some = {name: missed[x.batch.owner] for name, x in trace.inputs.items()}
        taken = {name: _taken(x, some[name], missed) for name, x in trace.inputs.items()}
        taken0 = {name: _taken(x, some[name], missed) for name, x in x0.items()}
        among = missed[trace.output.batch.owner]
        again = integrals(trace.model, taken, taken0, [(start[among], cut) for start, cut in starts], count)
        before[:, missed] = change[:, missed]
        for c, (rows, better) in enumerate(zip(found, again, strict=True)):
            entry = Entry(np.zeros((4, np.count_nonzero(missed)), change.dtype))
            changed = times({name: one - rows[name][some[name]] for name, one in better.items()}, taken, taken0)
            for name, one in better.items():
                entry.see(changed[name], taken[name].batch)
                rows[name][some[name]] = one
            if c < len(wanted):
                change[c, missed] = entry.array[Entry.LARGEST]


def _taken(x: Packed, rows: np.ndarray, sequences: np.ndarray) -> Packed:
    return Packed(x.rows[rows], Batch(x.batch.lengths[sequences]))
