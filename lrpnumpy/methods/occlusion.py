"""Occlusion: the drop of the score, or of the probability, when a word, a phrase or a variable is replaced or left out.

Every such variant of a sequence differs from it in one run of steps. A `Change` holds these steps and what replaces
them instead; each layer turns the change of its inputs into the change of its outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from lrpnumpy.activations import probabilities
from lrpnumpy.checks import LrpError, non_negative, one_of
from lrpnumpy.methods.base import Columns, Method, Question, Received, Unit
from lrpnumpy.methods.reference import check_steps, frozen, references
from lrpnumpy.model import Model
from lrpnumpy.packed import Change, Packed, groups
from lrpnumpy.passes import Trace
from lrpnumpy.passes import occlude as occlude_change

MOST = 1 << 24  # numbers in the largest array of a group of variants, unless a single variant has more


class Substitute(NamedTuple):
    """What takes the place of a step."""

    said: str | list[str]  # as results note it
    rows: dict[str, np.ndarray] | None  # by input: (1, D) for every step, or (T, D); None where steps are left out
    tol: float = 0.0


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
    trace: Trace, instead: Substitute, steps: np.ndarray | None = None, name: str | None = None
) -> np.ndarray:
    """Scores with every word of an input, by default the main one, occluded in turn: packed rows (R, C)."""
    name = name or trace.model.main
    batch = trace.inputs[name].batch
    return _scores(trace, name, Variants(batch.owner, batch.step, batch.step + 1), instead, steps)


def occlude_variables(
    trace: Trace, instead: Substitute, steps: np.ndarray | None = None, name: str | None = None
) -> np.ndarray:
    """Scores with every single number of an input occluded in turn: packed rows (R, D, C)."""
    name = name or trace.model.main
    (R, D), batch = trace.inputs[name].rows.shape, trace.inputs[name].batch
    t, owner, d = batch.step.repeat(D), batch.owner.repeat(D), np.tile(np.arange(D), R)
    order = _by_turn(t * D + d) if batch.n > 1 else np.arange(R * D)
    scores = np.empty((R * D, trace.model.outputs), trace.scores.dtype)
    scores[order] = _scores(trace, name, Variants(owner, t, t + 1, d).take(order), instead, steps)
    return scores.reshape(R, D, -1)


def occlude(
    trace: Trace, spans: Sequence[np.ndarray], instead: Substitute, steps: np.ndarray | None = None
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
    scores[order] = _scores(trace, trace.model.main, Variants(owner, start, stop).take(order), instead, steps)
    return [scores[a:b] for a, b in pairwise([0, *ends.tolist()])]


def _by_turn(nth: np.ndarray) -> np.ndarray:
    """An order with all first phrases together, then all second ones, …: neighbors then run through the same steps."""
    return np.argsort(nth.astype(np.uint16) if nth.max(initial=0) < 1 << 16 else nth, kind="stable")


def _scores(trace: Trace, name: str, variants: Variants, instead: Substitute, steps: np.ndarray | None) -> np.ndarray:
    """Scores (V, C) of variants of an input, as many at once as MOST allows."""
    model, batch, V = trace.model, trace.inputs[name].batch, len(variants.owner)
    T = batch.lengths[variants.owner]
    leaves_out = instead.rows is None and variants.variable is None and model.inputs[name].steps
    rows = instead.rows[name] if instead.rows else np.zeros((1, trace.inputs[name].rows.shape[1]))
    windows = trace.windows
    check_steps(rows, trace.inputs[name] if windows is None else windows.inputs[name], name)
    if leaves_out:
        least, out = model.least[name], variants.stop - variants.start
        if (T - out < least).any():
            k = int(np.argmax(T - out < least))
            got = f"a phrase of {out[k]} of {T[k]} steps"
            raise LrpError(f"reference='omit' must leave at least {least}, got {got}; use reference='zero'.")
    scores = np.empty((V, model.outputs), trace.scores.dtype)
    numbers = model.input_size + 4 * model.width
    for a, b in groups(T * numbers if model.row_width else np.full(V, numbers), MOST):
        some = variants if (a, b) == (0, V) else variants.take(slice(a, b))
        places = some.start if windows is None else windows.first[some.owner] + some.start
        found = occlude_change(trace, {name: _change(trace.inputs[name], some, rows, places, leaves_out)}, instead.tol)
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


def _change(x: Packed, variants: Variants, instead: np.ndarray, places: np.ndarray, leaves_out: bool) -> Change:
    """What the input of each variant holds: `instead` is (1, D) for every step, or (T, D), of which a variant takes the
    rows from its place (V,) on.
    """
    owner, lo, hi = variants.owner, variants.start, variants.stop
    none = np.zeros(len(owner), np.int64)
    instead = np.ascontiguousarray(instead, x.rows.dtype)
    first, stride = (none, 0) if len(instead) == 1 else (places, 1)
    if variants.variable is None:
        return Change(owner, lo, hi, none if leaves_out else hi - lo, first, stride, instead)
    rows, every = x.rows[x.batch.first[lo] + owner], np.arange(len(owner))
    rows[every, variants.variable] = instead[first, variants.variable]
    return Change(owner, lo, hi, none + 1, every, 1, rows)


@dataclass(frozen=True)
class Occlusion(Method):
    """How much the score, or the probability, drops when a step, a phrase or a feature is replaced or left out.

    of: "score" or "probability".
    reference: replacement of a step: "zero" (after scaling, so the mean if the model has a scaler), a vector (D,), a
        sequence of at least T steps, "mean" for the mean step of the data, a word, "unknown" or "padding"; for a
        network with several inputs a dict; or "omit" to leave the step out.
    data: the sequences for reference="mean".
    tol: stop a variant once its state is within `tol` of the unperturbed one; 0 is exact.
    """

    of: Literal["score", "probability"] = "score"
    reference: str | np.ndarray | Sequence[Any] | Mapping[str, Any] = "zero"
    data: Any = None
    tol: float = 0.0

    cost = "Θ(T²)"
    feature_relevance = "on request"
    paper = "Li et al. 2017"
    kind = "occlusion"
    named_by = ("of",)
    keep = "states"

    def __post_init__(self) -> None:
        one_of(self.of, "Occlusion: of", ("score", "probability"))
        vars(self).update(name=f"occlusion-{'f' if self.of == 'score' else 'p'}", tol=non_negative(self.tol, "tol"))
        vars(self)["description"] = f"drop of the {self.of} when a step is replaced or left out"
        if isinstance(self.reference, np.ndarray):
            vars(self)["reference"] = frozen(self.reference)

    def prepare(self, model: Model, unit: Unit) -> Substitute:
        """What takes the place of a step of a `model`, if the `unit` has it."""
        if self.of == "probability" and model.output == "linear":
            raise LrpError("method 'occlusion-p' needs a model with probabilities; use 'occlusion-f'.")
        if isinstance(self.reference, str) and self.reference == "omit":
            if unit == "feature":
                raise LrpError("reference='omit' must have unit='step' or None: a feature cannot be left out.")
            return Substitute("omit", None, self.tol)
        found = references(model, self.reference, self.data)
        if len(found.each) > 1:
            raise LrpError(f"{self.name} takes a single reference, got {len(found.each)}.")
        return Substitute(found.said, found.each[0], self.tol)

    def settings(self, plan: Substitute) -> dict[str, Any]:
        """The options for the record of a result; of the reference in the `plan` what tells it from others."""
        return {"reference": plan.said, "tol": self.tol}

    def run(self, question: Question, wanted: list[np.ndarray]) -> list[Columns]:
        """The answers to a `question`, one for each of the `wanted` targets: how much the explained value drops."""
        trace, request, steps = question.trace, question.request, question.steps
        instead: Substitute = request.plan

        def measured(scores: np.ndarray) -> Any:
            if self.of == "probability":
                return probabilities(trace.model.output, scores)
            return scores

        whole, phrases = measured(question.scores), None
        words = {name: measured(occlude_words(trace, instead, steps, name)) for name in trace.inputs}
        single = {}
        if request.by_feature:
            single = {name: measured(occlude_variables(trace, instead, steps, name)) for name in trace.inputs}
        if question.spans is not None:
            phrases = [measured(values) for values in occlude(trace, question.spans, instead, steps)]
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
