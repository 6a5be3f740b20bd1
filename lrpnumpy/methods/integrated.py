"""Integrated gradients: the mean gradient on the straight line from a reference to the input, times their difference.

    R_i = (x_i - x0_i) ∫_0^1 df/dx_i (x0 + a (x - x0)) da          Sundararajan, Taly & Yan, ICML 2017

The integral is taken by Gauss' rule. Relevances add up to f(x) - f(x0) but for its error, the gap. The number of nodes
is doubled until that is small enough. Where the gradient jumps (relu, maxima), the errors of single features may cancel
in the sum. In networks with such kinks each feature is therefore compared with its value by half as many nodes. With
several references relevance is the mean over them: expected gradients (Erion et al. 2021).

Windows of a sequence (`passes.SequenceWindows`) have the path of the sequence. There the relevance of earlier steps is
not computed, so that the gap is not known: nodes are doubled until no feature of the window changes, as with kinks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.checks import LrpError, non_negative, whole
from lrpnumpy.layers import LAYERS, Max, MaxPool1D, Record
from lrpnumpy.methods.base import Columns, Question
from lrpnumpy.methods.reference import Multiplying, finished, reference_scores, references_of, unit_of
from lrpnumpy.methods.through import Through
from lrpnumpy.model import Model
from lrpnumpy.packed import Batch, Packed, at_once
from lrpnumpy.passes import SequenceWindows, backward, forward
from lrpnumpy.rules import GRADIENT
from lrpnumpy.rules.propagation import Entry

MOST = 256  # nodes
WINDOWS_AT_ONCE = 4096  # windows, times nodes: their sequence is run once for each group of nodes
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
    further = (GRADIENT,)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nodes is not None and (whole(self.nodes, "nodes", 1) > MOST or self.gap is not None):
            raise LrpError(f"nodes must be at most {MOST}, and None where a gap is given, got {self.nodes}.")
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
            if trace.windows is not None:
                whole = question.combined(question.scores - scores, targets)
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
        trace = question.trace
        for x0, windows, passed in references_of(question, None):
            of_reference = reference_scores(question, passed.scores)
            line = Line(trace.model, trace.inputs, x0, trace.windows, windows)
            yield x0, of_reference, _refined(self, question, wanted, line, of_reference)


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


class Line(NamedTuple):
    """The line from a reference to the inputs of a forward pass; where these are windows, also that of the sequence."""

    model: Model
    x: dict[str, Packed]
    x0: dict[str, Packed]
    windows: SequenceWindows | None = None
    windows0: SequenceWindows | None = None  # of the reference

    def some(self, which: np.ndarray) -> Line:
        """The line of some of the records."""
        x, x0 = ({name: _taken(one, which) for name, one in side.items()} for side in (self.x, self.x0))
        windows = None if self.windows is None else self.windows.some(which)
        return Line(self.model, x, x0, windows, self.windows0)

    def at(self, a: np.ndarray) -> tuple[dict[str, Packed], SequenceWindows | None]:
        """The points `a` of the line, and the windows that they are."""
        if self.windows is None or self.windows0 is None:
            return points_of(self.x, self.x0, a), None
        sequences = points_of(self.windows.inputs, self.windows0.inputs, a)
        return points_of(self.x, self.x0, a), self.windows._replace(inputs=sequences)


def points_of(x: dict[str, Packed], x0: dict[str, Packed], a: np.ndarray) -> dict[str, Packed]:
    """The points x0 + a (x - x0): each row once for each number of `a`, side by side.

    In the packed batch of repeated sequences this is their order.
    """
    points = {}
    for name, one in x.items():
        rows0 = x0[name].rows
        rows = (rows0[:, None] + a[:, None] * (one.rows - rows0)[:, None]).reshape(-1, rows0.shape[1])
        points[name] = Packed(np.ascontiguousarray(rows), Batch(one.batch.lengths.repeat(len(a))))
    return points


def integrals(line: Line, starts: list[tuple[np.ndarray, Through | None]], count: int) -> list[Rows]:
    """Mean slopes (R, D) of each input, by `count` nodes, in groups of a suitable size.

    There is one for each of the `starts`: a message at the scores, and what it must pass through.
    """
    model = line.model
    sums: list[Rows] = [{name: np.zeros_like(one.rows) for name, one in line.x.items()} for _ in starts]
    nodes, weights = gauss(count)
    together = at_once(model.width) if line.windows is None else WINDOWS_AT_ONCE
    size = max(1, together // line.x[model.main].batch.n)
    for k in range(0, count, size):
        a, w = nodes[k : k + size].astype(model.dtype), weights[k : k + size].astype(model.dtype)
        points, windows = line.at(a)
        trace = forward(model, points, GRADIENT, windows)
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
    line: Line,
    of_reference: np.ndarray,
) -> list[tuple[Rows, Rows, np.ndarray]]:
    """The mean slopes of all sequences, each with as many nodes as it needs; the same of what passes `through`; and the
    errors (n,) of relevance.

    The error is that of the sum or, in networks with kinks, of the feature that the last doubling of the nodes changed
    most. There errors fall like 1 / nodes. A change may be small by chance: so half of the one before counts, too.
    """
    trace, x0, n = question.trace, line.x0, len(question.scores)
    starts: list[Any] = [(question.first_message(np.ones_like(question.scores), targets), None) for targets in wanted]
    if method.through is not None:
        starts += [(start, method.through) for start, _ in starts]
    scores = [[question.combined(f, targets) for f in (question.scores, of_reference)] for targets in wanted]
    gap, most = method.most_gap(question.scores.dtype), method.nodes or MOST
    count, doublings = method.nodes or first_nodes(gap), 0  # how often the nodes are doubled at least
    is_window = line.windows is not None
    if is_window or any(has_kinks(node.layer) for node in trace.model.nodes):
        count, doublings = (max(2, count // 4), 2) if method.nodes is None else ((count + 1) // 2, 1)
    change, before = np.zeros((2, len(wanted), n), question.scores.dtype)
    found = integrals(line, starts, count)
    while True:
        errors = []
        missed = np.full(n, doublings > 0)
        for c, ((f, f0), slopes) in enumerate(zip(scores, found, strict=False)):
            rows = times(slopes, trace.inputs, x0)
            got, size = question.summed(rows), question.summed({name: abs(one) for name, one in rows.items()})
            rounding = 4 * np.finfo(f.dtype).eps * size  # what more nodes would not change
            error = np.maximum(change[c], before[c] / 2)
            if not is_window:
                error = np.maximum(abs(f - f0 - got), error)
            missed |= ~(error <= np.maximum(gap * unit_of(f, f0, question.request.versus), rounding))
            errors.append(error)
        if count == most or not missed.any():
            return list(zip(found[: len(wanted)], found[-len(wanted) :], errors, strict=True))
        count, doublings = min(2 * count, most), doublings - 1
        some = {name: missed[x.batch.owner] for name, x in trace.inputs.items()}
        part = line.some(missed)
        among = missed[trace.output.batch.owner]
        again = integrals(part, [(start[among], cut) for start, cut in starts], count)
        before[:, missed] = change[:, missed]
        for c, (rows, better) in enumerate(zip(found, again, strict=True)):
            entry = Entry(np.zeros((4, np.count_nonzero(missed)), change.dtype))
            changed = times({name: one - rows[name][some[name]] for name, one in better.items()}, part.x, part.x0)
            for name, one in better.items():
                entry.see(changed[name], part.x[name].batch)
                rows[name][some[name]] = one
            if c < len(wanted):
                change[c, missed] = entry.array[Entry.LARGEST]


def _taken(x: Packed, sequences: np.ndarray) -> Packed:
    return Packed(x.rows[sequences[x.batch.owner]], Batch(x.batch.lengths[sequences]))
