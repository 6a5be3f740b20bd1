"""Occlusion: the drop of the score, or of the probability, when a word, a phrase or a variable is replaced or left out.

Every such variant of a sequence differs from it in one run of steps. A `Change` says in which and what stands there
instead; each layer turns the change of its inputs into the change of its outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError, float_array, one_of, shown
from lrpnumpy.encode import encode
from lrpnumpy.methods.base import Columns, Method, Options, Question, Received, Request, number, option
from lrpnumpy.model import Model
from lrpnumpy.packed import Change, Packed, groups
from lrpnumpy.passes import Trace
from lrpnumpy.passes import occlude as occlude_change

MOST = 1 << 24  # numbers in the largest array of a group of variants, unless a single variant has more


def _baseline(value: Any, name: str, model: Model) -> np.ndarray | None:
    if value is None:
        return None
    if isinstance(value, str):
        if model.embedding is None or model.embedding.vocabulary is None:
            raise LrpError(
                f"{name} must be a vector of {model.input_size} numbers, as the model has no words, got {shown(value)}."
            )
        return model.embedding.E[encode(model, [value], name)[model.main].ids[0]]  # type: ignore[index]
    return float_array(value, name, (model.input_size,), dtype=model.inputs[model.main].given_dtype)


@dataclass(frozen=True)
class OcclusionOptions(Options):
    """The options of occlusion."""

    baseline: Any = option(
        None,
        "what occlusion puts in place of a word: a vector (D,) or a word; zero by default, the mean "
        "where there is a scaler",
        check=_baseline,
    )
    how: Literal["zero", "omit"] = option(
        "zero",
        '"zero" puts zeros in place of a word, or the baseline; "omit" leaves the word out',
        check=lambda value, name, model: one_of(value, name, ("zero", "omit")),
        flag=("zero", "omit"),
    )
    tol: float = option(
        0.0,
        "occlusion may stop a variant whose state has come back within tol of the unperturbed one; 0 is exact",
        check=number,
        flag=float,
    )


class Variants(NamedTuple):
    """What is occluded in each of V variants: the phrase [start, stop) of sequence `owner`, or one variable of it."""

    owner: np.ndarray  # (V,)
    start: np.ndarray  # (V,)
    stop: np.ndarray  # (V,)
    variable: np.ndarray | None = None  # (V,)

    def take(self, some: Any) -> Variants:
        """Some of the variants, in this order."""
        return Variants(*(None if column is None else column[some] for column in self))  # type: ignore[arg-type]


def occlude_words(
    trace: Trace, options: OcclusionOptions, steps: np.ndarray | None = None, name: str | None = None
) -> np.ndarray:
    """Scores with every word of an input, by default the main one, occluded in turn: packed rows (R, C)."""
    name = name or trace.model.main
    batch = trace.inputs[name].batch
    return _scores(trace, name, Variants(batch.owner, batch.step, batch.step + 1), options, steps)


def occlude_variables(
    trace: Trace, options: OcclusionOptions, steps: np.ndarray | None = None, name: str | None = None
) -> np.ndarray:
    """Scores with every single number of an input occluded in turn: packed rows (R, D, C)."""
    name = name or trace.model.main
    (R, D), batch = trace.inputs[name].rows.shape, trace.inputs[name].batch
    t, owner, d = batch.step.repeat(D), batch.owner.repeat(D), np.tile(np.arange(D), R)
    order = _by_turn(t * D + d) if batch.n > 1 else np.arange(R * D)
    scores = np.empty((R * D, trace.model.outputs), trace.scores.dtype)
    scores[order] = _scores(trace, name, Variants(owner, t, t + 1, d).take(order), options, steps)
    return scores.reshape(R, D, -1)


def occlude(
    trace: Trace, spans: Sequence[np.ndarray], options: OcclusionOptions, steps: np.ndarray | None = None
) -> list[np.ndarray]:
    """Scores (V, C) of each sequence with each of its phrases occluded: spans[s] is (V, 2) of [start, stop).

    Where there is a prediction at every step, the scores are those at steps[s], by default the last. Where that step
    is left out, they are those at the last step before it that is not, or if there is none, at the first after it.
    """
    counts = np.array([*map(len, spans)])
    ends = np.cumsum(counts)
    owner = np.repeat(np.arange(len(counts)), counts)
    start, stop = np.ascontiguousarray(np.concatenate(spans).T, np.int64)
    order = _by_turn(np.arange(len(owner)) - (ends - counts)[owner])
    scores = np.empty((len(owner), trace.model.outputs), trace.scores.dtype)
    scores[order] = _scores(trace, trace.model.main, Variants(owner, start, stop).take(order), options, steps)
    return [scores[a:b] for a, b in pairwise([0, *ends.tolist()])]


def _by_turn(nth: np.ndarray) -> np.ndarray:
    """An order with all first phrases together, then all second ones, …: neighbours then run through the same steps."""
    return np.argsort(nth.astype(np.uint16) if nth.max(initial=0) < 1 << 16 else nth, kind="stable")


def _scores(
    trace: Trace, name: str, variants: Variants, options: OcclusionOptions, steps: np.ndarray | None
) -> np.ndarray:
    """Scores (V, C) of variants of an input, as many at once as MOST allows."""
    model, batch, V = trace.model, trace.inputs[name].batch, len(variants.owner)
    T = batch.lengths[variants.owner]
    leaves_out = options.how == "omit" and variants.variable is None and model.inputs[name].steps
    if leaves_out:
        _check_what_is_left(T, variants.stop - variants.start, model.least[name])
    scores = np.empty((V, model.outputs), trace.scores.dtype)
    numbers = model.input_size + 4 * model.width
    for a, b in groups(T * numbers if model.row_width else np.full(V, numbers), MOST):
        some = variants if (a, b) == (0, V) else variants.take(slice(a, b))
        baseline = options.baseline if name == model.main else None
        instead = None if baseline is None else model.inputs[name].scaled(baseline)
        change = _change(trace.inputs[name], some, instead, leaves_out)
        found = occlude_change(trace, name, change, options.tol)
        position = np.zeros(b - a, np.int64)
        if model.every:
            ends = trace.output.batch.lengths - 1 if steps is None else np.asarray(steps)
            position = ends[some.owner]
            if leaves_out and found is not None:
                left = found.lengths(trace.output.batch)
                earlier = np.where(
                    position >= some.stop, position - (some.stop - some.start), np.maximum(some.start - 1, 0)
                )
                moved = (position >= some.start) & (left < trace.output.batch.lengths[some.owner])
                position = np.minimum(np.where(moved, earlier, position), left - 1)
        if found is None:  # the scores do not depend on this input
            found = Change(some.owner, position, position, 0 * position, position, 0, trace.scores[:0])
        scores[a:b] = found.row_at(trace.output, np.arange(b - a), position)
    return scores


def _check_what_is_left(T: np.ndarray, out: np.ndarray, least: int) -> None:
    """Raise unless each variant of T steps has `least` of them left when `out` are left out."""
    wrong = np.flatnonzero(T - out < least)
    if len(wrong):
        count, size = "one step" if least == 1 else f"{least} steps", out[wrong[0]]
        got = f"all {size}" if size == T[wrong[0]] else f"{size} of {T[wrong[0]]}"
        raise LrpError(f"how='omit' must leave at least {count}, got a phrase of {got}; use how='zero'.")


def _change(x: Packed, variants: Variants, baseline: np.ndarray | None, leaves_out: bool) -> Change:
    """What stands in the input of each variant."""
    owner, lo, hi = variants.owner, variants.start, variants.stop
    none = np.zeros(len(owner), np.int64)
    instead = np.zeros((1, x.rows.shape[1]), x.rows.dtype)
    if baseline is not None:
        instead[0] = baseline
    if variants.variable is None:
        return Change(owner, lo, hi, none if leaves_out else hi - lo, none, 0, instead)
    rows, every = x.rows[x.batch.first[lo] + owner], np.arange(len(owner))
    rows[every, variants.variable] = instead[0, variants.variable]
    return Change(owner, lo, hi, none + 1, every, 1, rows)


def probabilities(output: str | None, scores: np.ndarray) -> np.ndarray | None:
    """Softmax or sigmoid of scores (…, C), as the model's `output` says; None where it has neither."""
    if output == "softmax":
        e = np.exp(scores - np.maximum.reduce(scores, axis=-1, keepdims=True))
        return e / np.add.reduce(e, axis=-1, keepdims=True)
    if output == "sigmoid":
        e = np.exp(-abs(scores))
        return np.where(scores < 0, e, 1) / (1 + e)
    return None


def run(question: Question, wanted: list[np.ndarray]) -> list[Columns]:
    """Results for each of the wanted targets: relevance is by how much the explained value drops."""
    trace, request, steps, options = question.trace, question.request, question.steps, question.request.options

    def measured(scores: np.ndarray) -> Any:
        return probabilities(trace.model.output, scores) if request.method is PROBABILITY else scores

    whole, phrases = measured(question.scores), None
    words = {name: measured(occlude_words(trace, options, steps, name)) for name in trace.inputs}
    single = {}
    if request.with_variables:
        single = {name: measured(occlude_variables(trace, options, steps, name)) for name in trace.inputs}
    if question.spans is not None:
        phrases = [measured(values) for values in occlude(trace, question.spans, options, steps)]
    out = []
    for chosen in wanted:
        explained, drops = question.combined(whole, chosen), {}
        for name, x in trace.inputs.items():
            before, targets = explained[x.batch.owner], chosen[x.batch.owner]
            feature_relevance = before[:, None] - question.combined(single[name], targets) if single else None
            drops[name] = Received(x.batch, before - question.combined(words[name], targets), feature_relevance)
        columns = Columns(question.scores, chosen, drops)
        if phrases is not None:
            columns.spans = [
                explained[s] - question.combined(values, np.full(len(values), chosen[s]))
                for s, values in enumerate(phrases)
            ]
        out.append(columns)
    return out


def _check(request: Request, model: Model) -> None:
    if request.unit == "feature" and request.options.how == "omit":
        raise LrpError("how='omit' must have unit='step' or None: a word can be removed, a single variable cannot.")
    if request.method is PROBABILITY and model.output == "linear":
        raise LrpError(
            "method 'occlusion-p' must have a model with probabilities, got one whose output is 'linear'; "
            "use 'occlusion-f', or build the Model with output='sigmoid'."
        )


def _keep(request: Request) -> Literal["states"]:
    return "states"


def _method(name: str, what: str) -> Method:
    return Method(
        name=name,
        description=f"drop of the {what} when the word is set to zero",
        cost="Θ(T²)",
        conserves="-",
        feature_relevance="on request",
        reference="Li et al. 2017",
        kind="occlusion",
        options=OcclusionOptions,
        keep=_keep,
        run=run,
        check=_check,
    )


SCORE, PROBABILITY = _method("occlusion-f", "score"), _method("occlusion-p", "probability")
METHODS = (SCORE, PROBABILITY)
