"""Integrated gradients: the mean gradient on the straight line from a reference to the input, times their difference.

    R_i = (x_i - x0_i) ∫_0^1 df/dx_i (x0 + a (x - x0)) da          Sundararajan, Taly & Yan, ICML 2017

The integral is taken by Gauss' rule. Relevances add up to f(x) - f(x0) but for its error, the gap. The number of nodes
is doubled until that is small enough. Where the gradient jumps (relu, maxima), the errors of single features may cancel
in the sum. In networks with such kinks each feature is therefore compared with its value by half as many nodes. With
several references relevance is the mean over them: expected gradients (Erion et al. 2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.checks import LrpError, whole
from lrpnumpy.layers import LAYERS, Max, MaxPool1D, Record
from lrpnumpy.methods.base import Columns, Method, Question, Request, keep_nothing, number, option
from lrpnumpy.methods.reference import ReferenceOptions, finished, reference_scores, unit_of
from lrpnumpy.model import Model
from lrpnumpy.packed import Batch, Packed, at_once
from lrpnumpy.passes import backward, forward
from lrpnumpy.rules import GRADIENT
from lrpnumpy.rules.propagation import Entry

MOST = 256  # nodes
GAPS = {4: 1e-3, 8: 1e-6}  # by the bytes of a number


def _few(value: Any, name: str) -> int:
    """So many nodes that an integral of them is done in reasonable time."""
    if whole(value, name, 1) > MOST:
        raise LrpError(f"{name} must be at most {MOST}, got {value}.")
    return int(value)


@dataclass(frozen=True)
class IntegratedOptions(ReferenceOptions):
    """The options of integrated gradients."""

    nodes: int | None = option(
        None,
        "number of nodes of the integral; None for as many as `gap` needs, at most 256",
        check=lambda value, name, model: None if value is None else _few(value, name),
        flag=int,
        typed="number of nodes of the integral; by default as many as --gap needs, at most 256",
    )
    gap: float | None = option(
        None,
        "how far the sum of all relevances, and in networks with relu or maxima each of them, may be off, relative to "
        "f(x) - f(reference); by default 1e-6 in float64, 1e-3 in float32, or anything where `nodes` are given",
        check=lambda value, name, model: None if value is None else number(value, name, model),
        flag=float,
        typed="how far the sum of all relevances, and in networks with relu or maxima each of them, may be off, "
        "relative to f(x) - f(reference); by default 1e-6 in float64, 1e-3 in float32, or anything where --nodes is "
        "given",
    )

    @classmethod
    def checked(cls, method: Method, model: Model, given: dict[str, Any]) -> Any:
        """The options; a gap is either reached or measured."""
        if given.get("nodes") is not None and given.get("gap") is not None:
            raise LrpError("nodes must be None where a gap is asked for, got both; the gap is measured in any case.")
        return super().checked(method, model, given)

    def most_gap(self, dtype: np.dtype) -> float:
        """How large gap and error may be, of |f(x) - f(reference)|."""
        if self.gap is not None:
            return self.gap
        return np.inf if self.nodes is not None else GAPS[dtype.itemsize]


@lru_cache
def gauss(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss' rule with so many nodes on the line from 0 to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1) / 2, weights / 2


def first_nodes(gap: float) -> int:
    """With how many nodes to begin: where all is smooth, each gives about one more digit."""
    return min(MOST, max(4, 3 + math.ceil(-math.log10(gap)))) if gap > 0 else MOST


Rows = dict[str, np.ndarray]


def integrals(
    model: Model, x: dict[str, Packed], x0: dict[str, Packed], starts: list[np.ndarray], count: int
) -> list[Rows]:
    """Relevance (R, D) of each input, for each message at the scores: by so many nodes, as many at a time as pay."""
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
        for total, start in zip(sums, starts, strict=True):
            for name, slope in backward(trace, start.repeat(len(a), axis=0), GRADIENT).inputs.items():
                total[name] += w @ slope.reshape(-1, len(a), slope.shape[1])
    return [{name: one * steps[name] for name, one in total.items()} for total in sums]


def run(question: Question, wanted: list[np.ndarray]) -> list[Columns]:
    """Results for each of the wanted targets."""
    trace, options = question.trace, question.request.options
    values: list[Rows] = [{name: np.zeros_like(x.rows) for name, x in trace.inputs.items()} for _ in wanted]
    scores = np.zeros_like(question.scores)
    count = scores.dtype.type(len(options.reference.each))
    errors = [np.zeros_like(scores[:, 0]) for _ in wanted]
    for k in range(len(options.reference.each)):
        x0 = options.reference.packed(k, trace.inputs)
        of_reference = reference_scores(question, forward(trace.model, x0).scores)
        scores += of_reference / count
        for c, (rows, error) in enumerate(_refined(question, wanted, x0, of_reference)):
            errors[c] += error / count
            for name, part in rows.items():
                values[c][name] += part / count
    return [finished(question, targets, values[c], scores, error=errors[c]) for c, targets in enumerate(wanted)]


def has_kinks(layer: Record) -> bool:
    """Whether the slope of a layer may jump: in a maximum, a relu, or a layer that is not known here."""
    if type(layer) not in LAYERS.values() or isinstance(layer, (Max, MaxPool1D)):
        return True
    for field in ("activation", "recurrent_activation"):
        name = getattr(layer, field, None)
        if name is not None and (name not in ACTIVATIONS or ACTIVATIONS[name].kinks):
            return True
    return any(has_kinks(part) for _, part in layer.parts())


def _refined(
    question: Question, wanted: list[np.ndarray], x0: dict[str, Packed], of_reference: np.ndarray
) -> list[tuple[Rows, np.ndarray]]:
    """The integrals of all sequences, each with as many nodes as it needs, and their errors (n,).

    The error is that of the sum or, in networks with kinks, of the feature that the last doubling of the nodes changed
    most. There errors fall like 1 / nodes. A change may be small by chance: so half of the one before counts, too.
    """
    trace, options, n = question.trace, question.request.options, len(question.scores)
    starts = [question.sent_back(np.ones_like(question.scores), targets) for targets in wanted]
    scores = [[question.combined(f, targets) for f in (question.scores, of_reference)] for targets in wanted]
    gap, most = options.most_gap(question.scores.dtype), options.nodes or MOST
    count, doublings = options.nodes or first_nodes(gap), 0  # how often the nodes are doubled at least
    if any(has_kinks(node.layer) for node in trace.model.nodes):
        if options.nodes is None:
            count, doublings = max(2, count // 4), 2
        else:
            count, doublings = (count + 1) // 2, 1
    change, before = np.zeros((2, len(wanted), n), question.scores.dtype)
    found = integrals(trace.model, trace.inputs, x0, starts, count)
    while True:
        errors = []
        missed = np.full(n, doublings > 0)
        for c, ((f, f0), rows) in enumerate(zip(scores, found, strict=True)):
            got, size = (
                sum(trace.inputs[name].batch.sums(part(one).sum(axis=1)) for name, one in rows.items())
                for part in (np.asarray, abs)
            )
            rounding = 4 * np.finfo(f.dtype).eps * size  # what more nodes would not change
            error = np.maximum(abs(f - f0 - got), np.maximum(change[c], before[c] / 2))
            missed |= ~(error <= np.maximum(gap * unit_of(f, f0, question.request.versus), rounding))
            errors.append(error)
        if count == most or not missed.any():
            return list(zip(found, errors, strict=True))
        count, doublings = min(2 * count, most), doublings - 1
        some = {name: missed[x.batch.owner] for name, x in trace.inputs.items()}
        taken = {name: _taken(x, some[name], missed) for name, x in trace.inputs.items()}
        again = integrals(
            trace.model,
            taken,
            {name: _taken(x, some[name], missed) for name, x in x0.items()},
            [start[missed[trace.output.batch.owner]] for start in starts],
            count,
        )
        before[:, missed] = change[:, missed]
        for c, (rows, better) in enumerate(zip(found, again, strict=True)):
            entry = Entry(np.zeros((4, np.count_nonzero(missed)), change.dtype))
            for name, one in better.items():
                entry.see(one - rows[name][some[name]], taken[name].batch)
                rows[name][some[name]] = one
            change[c, missed] = entry.array[Entry.LARGEST]


def _taken(x: Packed, rows: np.ndarray, sequences: np.ndarray) -> Packed:
    return Packed(x.rows[rows], Batch(x.batch.lengths[sequences]))


def _advice(request: Request) -> str:
    return (
        f"where kinks (relu, maxima) keep it so large with {MOST} nodes, try a larger gap, or deeplift, which has none"
    )


METHODS = (
    Method(
        name="integrated-gradients",
        description="mean gradient on the line from a reference, times the difference; several: expected gradients",
        cost="Θ(T), times nodes",
        conserves="f_c(x) - f_c(reference), less the gap",
        feature_relevance="free",
        reference="Sundararajan et al. 2017",
        kind="reference",
        options=IntegratedOptions,
        keep=keep_nothing,
        run=run,
        advice=_advice,
    ),
)
