"""The experiments behind an explanation: groups of inputs are replaced, and the score is compared with what it claims.

    D_br = f(x) - f(x with group b replaced by r)            four replacements, each group alone
    D_S  = f(x) - f(x with all groups of S replaced)         eight random halves S of the groups

Groups and replacements are drawn from the shape of the input alone: neither the method nor the batch changes them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy import asked
from lrpnumpy.activations import probabilities
from lrpnumpy.checks import LrpError, readable, shown
from lrpnumpy.encode import EncodedRecord, encode
from lrpnumpy.explain import run
from lrpnumpy.ledgers import Ledger
from lrpnumpy.meant import door
from lrpnumpy.methods.propagated import is_sound, unstable
from lrpnumpy.model import Model
from lrpnumpy.packed import Change, Packed
from lrpnumpy.passes import Trace, forward, occlude
from lrpnumpy.result import Explanation, InputPart
from lrpnumpy.schedule import run_chunks
from lrpnumpy.verdict import Evidence, EvidenceList, Trials, Words, judge

REPLACEMENTS, HALVES = 4, 8
GROUPS = {"tokens": 64, "series": 12, "vector": 64, "whole": 1}  # at most, by kind of input
CONSTANTS = {"tokens": 2, "series": 1}  # replacements that are the same row at every step: zero and mean, or mean
DRAWN = (2, 3)  # replacements that halves are made of
MOST = 1 << 16  # numbers of a chunk in an array of the trace; there are up to 264 variants of each
ALTERNATIVES = ("deeplift", "lrp-all")  # tried where an explanation fails


class InputPlan(NamedTuple):
    """What is replaced in one input: V = 8 + 4 B variants of it, the halves first, then four of each group.

    Variant v has rows of the pool (see `_pool`) in place of its steps lo[v] to hi[v]: those in `picked`, in which the
    rows of all variants are one after another. A vector is one step.
    """

    kind: str  # of GROUPS
    start: np.ndarray  # (B,) groups of steps, or of the features of a vector
    stop: np.ndarray  # (B,)
    member: np.ndarray  # (8, B) whether each half has a group
    lo: np.ndarray  # (V,)
    hi: np.ndarray  # (V,)
    picked: np.ndarray  # (sum of hi - lo,)


@lru_cache(maxsize=512)
def _plan(shapes: tuple[tuple[str, int], ...]) -> tuple[list[InputPlan], np.ndarray]:
    """The plans of all inputs from kind and size of each, and (8, B) which of all groups each half has."""
    rng = np.random.default_rng([size for _, size in shapes])
    cuts = [np.linspace(0, size, min(size, GROUPS[kind]) + 1).astype(np.int64) for kind, size in shapes]
    counts = [len(cut) - 1 for cut in cuts]
    total = sum(counts)
    half = np.arange(total) < (total + 1) // 2
    member = rng.permuted(np.tile(half, (HALVES, 1)), axis=1)
    plans = []
    for (kind, size), cut, own in zip(shapes, cuts, np.split(member, np.cumsum(counts)[:-1], axis=1), strict=True):
        start, stop = cut[:-1], cut[1:]
        if kind in CONSTANTS:
            lo = np.append(np.zeros(HALVES, np.int64), start.repeat(REPLACEMENTS))
            hi = np.append(np.full(HALVES, size), stop.repeat(REPLACEMENTS))
            picked = _picked(CONSTANTS[kind], size, start, stop, own, rng)
        else:
            picked = np.arange(HALVES + start.size * REPLACEMENTS)
            lo, hi = np.zeros_like(picked), np.ones_like(picked)
        plans.append(InputPlan(kind, start, stop, own, lo, hi, picked))
    return plans, member


def _picked(
    constants: int, T: int, start: np.ndarray, stop: np.ndarray, member: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Rows of the pool for variants of T steps: constant rows, and runs of steps drawn from elsewhere in the sequence.

    The pool has the constant rows, and then those of the sequence.
    """
    size = stop - start
    before = np.maximum(start - size + 1, 0)  # places for a run that ends before the group begins
    places = before + np.maximum(T - size - stop + 1, 0)
    drawn = (rng.random((start.size, REPLACEMENTS - constants)) * places[:, None]).astype(np.int64)
    drawn = np.where(drawn < before[:, None], drawn, drawn - before[:, None] + stop[:, None])
    first = np.concatenate([np.tile(np.arange(constants), (start.size, 1)), constants + drawn], axis=1)  # (B, 4)
    if T == 1:  # there is no elsewhere
        first[:, constants:] = np.arange(REPLACEMENTS - constants) % constants
    step = np.arange(T)
    group = np.repeat(np.arange(start.size), size)  # (T,)
    rows = first[group] + np.where(first < constants, 0, 1)[group] * (step - start[group])[:, None]  # (T, 4)
    together = []
    for h in range(HALVES):
        together.append(np.where(member[h, group], rows[:, DRAWN[h % len(DRAWN)]], constants + step))
    alone = [rows[a:b].T.ravel() for a, b in zip(start, stop, strict=True)]
    return np.concatenate([*together, *alone])


def _pool(plan: InputPlan, rows: np.ndarray, mean: np.ndarray | None) -> np.ndarray:
    """Rows that variants are made of; `rows` (T, D) are those of the record.

    A series has its mean, words have zero and the `mean` of all words, and then their own rows. A vector has one row
    for each variant.
    """
    if plan.kind in CONSTANTS:
        constants = np.zeros((CONSTANTS[plan.kind], rows.shape[1]), rows.dtype)
        constants[-1] = rows.mean(axis=0) if mean is None else mean
        return np.concatenate([constants, rows])
    (row,) = rows
    feature = np.arange(row.size)
    is_member = (plan.start[:, None] <= feature) & (feature < plan.stop[:, None])  # (B, D)
    values = np.stack([0 * row, 0 * row + 1, 0 * row - 1, -row])
    together = [np.where(half @ is_member, values[DRAWN[h % len(DRAWN)]], row) for h, half in enumerate(plan.member)]
    alone = np.where(is_member[:, None], values, row).reshape(-1, row.size)
    return np.concatenate([together, alone])


def _kind(model: Model, name: str, part: InputPart, steps: int) -> tuple[str, int]:
    """Kind and size of what is replaced in an input."""
    if model.inputs[name].embedding is not None:
        return "tokens", steps
    if steps > 1:
        return "series", steps
    return ("whole" if part.feature_relevance is None else "vector"), model.inputs[name].size or 1


class ReplacementPlan(NamedTuple):
    """What decides which scores are measured."""

    record: EncodedRecord
    step: int | None  # whose prediction is explained, where there is one at every step
    plans: Sequence[InputPlan]  # of every input
    member: np.ndarray  # (8, B) which of all groups each half has


def _measure(model: Model, cases: Sequence[ReplacementPlan]) -> list[np.ndarray]:
    """(1 + 8 + 4 B, C) scores of each record: as it is, of the halves, and of four replacements of each group."""
    measured: list[Any] = [None] * len(cases)

    def work(positions: np.ndarray, x: dict[str, Packed]) -> None:
        chosen = [cases[k] for k in positions]
        trace = forward(model, x, "states")
        explained = np.zeros(len(chosen), np.int64)
        scores = trace.scores
        if model.every:
            explained = np.array([-1 if case.step is None else case.step for case in chosen])
            explained %= trace.output.batch.lengths
            scores = scores[trace.output.batch.first[explained] + np.arange(len(chosen))]
        plans = {name: [case.plans[place] for case in chosen] for place, name in enumerate(model.inputs)}
        runs = [np.split(scores, len(chosen))]
        if len(plans) == 1:  # all variants at once
            runs.append(_run(trace, plans, slice(None), explained))
        else:
            runs.append(_run(trace, plans, slice(HALVES), explained))
            for name in plans:
                runs.append(_run(trace, {name: plans[name]}, slice(HALVES, None), explained))
        for k, parts in zip(positions, zip(*runs, strict=True), strict=True):
            measured[k] = np.concatenate(parts)

    run_chunks(model, [case.record for case in cases], work, None, most=MOST, keeps=("states",))
    return measured


def _run(trace: Trace, plans: dict[str, list[InputPlan]], which: slice, explained: np.ndarray) -> list[np.ndarray]:
    """(V, C) scores of `which` variants of each record; `explained` is the step of the prediction of each.

    Variants run in the order of their number, so that neighbors go through the same steps.
    """
    counts = [len(plan.lo[which]) for plan in next(iter(plans.values()))]
    number = np.concatenate([np.arange(count) for count in counts])
    order = np.argsort(number, kind="stable")
    owner = np.repeat(np.arange(len(counts)), counts)[order]
    changes = {}
    for name, some in plans.items():
        x, embedding = trace.inputs[name], trace.model.inputs[name].embedding
        mean = None if embedding is None else embedding.mean_row
        pools = [_pool(plan, rows, mean) for plan, rows in zip(some, x.batch.split(x.rows), strict=True)]
        lo, hi, first, picked, places, begin = [], [], [], [], 0, 0
        for plan, pool in zip(some, pools, strict=True):
            size = plan.hi - plan.lo
            lo.append(plan.lo[which])
            hi.append(plan.hi[which])
            first.append((places + np.cumsum(size) - size)[which])
            picked.append(begin + plan.picked)
            places += len(plan.picked)
            begin += len(pool)
        starts, stops, own = (np.concatenate(column)[order] for column in (lo, hi, first))
        changes[name] = Change(
            owner, starts, stops, stops - starts, own, 1, np.concatenate(pools), np.concatenate(picked)
        )
    change = occlude(trace, changes)
    if change is None:  # the scores do not depend on these inputs
        none = np.zeros_like(owner)
        change = Change(owner, none, none, none, none, 0, trace.scores[:0])
    scores = np.empty((len(owner), trace.model.outputs), trace.scores.dtype)
    scores[order] = change.row_at(trace.output, np.arange(len(owner)), explained[owner])
    return np.split(scores, np.cumsum(counts)[:-1])


def _case(model: Model, record: EncodedRecord, e: Explanation) -> ReplacementPlan:
    """What is replaced in a record that was explained."""
    kinds = tuple([_kind(model, name, e.inputs[name], record[name].steps) for name in model.inputs])
    step = (e.options or {}).get("step") if model.every else None
    return ReplacementPlan(record, step, *_plan(kinds))


def _names(plan: InputPlan, part: InputPart, seen: np.ndarray) -> list[str]:
    """The name of each group: a step or a feature, or the first and the last of several."""
    names: Sequence[str] = part.features or [f"x{d}" for d in range(int(plan.stop[-1]))]
    if plan.kind in CONSTANTS:
        names = [part.step_names[t] for t in seen]
    if part.tokens:
        names = [f'"{name}"' for name in names]
    elif plan.kind == "series" and part.labels is None:
        names = [f"step {name}" for name in names]
    if len(names) == plan.start.size:
        return [*names]
    ends = [dict.fromkeys((a, b - 1)) for a, b in zip(plan.start, plan.stop, strict=True)]  # which may be the same
    return [" to ".join(names[k] for k in some) for some in ends]


def effects(constants: int, changes: np.ndarray) -> np.ndarray:
    """(B,) the typical change of each group: constant replacements and drawn ones (B, 4) count equally.

    Of drawn blocks the median counts: one may have a storm that tells nothing about the days it replaces.
    """
    typical = changes[:, :constants].mean(axis=1)
    if constants < REPLACEMENTS:
        drawn = np.sort(changes[:, constants:], axis=1)
        last = drawn.shape[1] - 1
        typical = (typical + (drawn[:, last // 2] + drawn[:, (last + 1) // 2]) / 2) / 2  # the median
    return typical


class Test(NamedTuple):
    """One explanation, and what was measured of its record."""

    case: ReplacementPlan
    e: Explanation
    scores: np.ndarray  # see `_measure`


def _trials(model: Model, tests: Sequence[Test]) -> Trials:
    """What the explanations claim and what was measured, group after group."""
    plans = [plan for test in tests for plan in test.case.plans]
    sizes = np.array([plan.start.size for plan in plans])
    counts = sizes.reshape(len(tests), -1).sum(axis=1)
    first = np.cumsum(counts) - counts
    changes, together = _changes(model, tests, 1 + HALVES + REPLACEMENTS * counts)
    relevance = []  # of what the groups of each input consist of: of its steps, or of its features
    for test in tests:
        for name, plan in zip(model.inputs, test.case.plans, strict=True):
            part, seen = test.e.inputs[name], test.case.record[name].seen
            relevance.append(part.feature_relevance[seen[0]] if plan.kind == "vector" else part.relevance[seen])  # type: ignore[index]
    lengths = np.array([one.size for one in relevance])
    starts = np.concatenate([plan.start for plan in plans]) + np.repeat(np.cumsum(lengths) - lengths, sizes)
    constants = np.repeat([CONSTANTS.get(plan.kind, REPLACEMENTS) for plan in plans], sizes)
    typical = np.empty(len(changes))
    for count in {*constants.tolist()}:
        typical[constants == count] = effects(count, changes[constants == count])
    drawn = changes[:, DRAWN]
    member = np.concatenate([test.case.member for test in tests], axis=1)  # (8, G)
    apart = member.T * np.tile(drawn, HALVES // len(DRAWN))
    return Trials(
        first=first,
        claimed=np.add.reduceat(np.concatenate(relevance).astype(np.float64), starts),
        changes=changes,
        effects=typical,
        together=together,
        apart=np.add.reduceat(apart, first),
        size=np.add.reduceat(abs(drawn).mean(axis=1), first),
        is_gradient=np.array([test.e.method == "gradient" for test in tests]),
    )


def _changes(model: Model, tests: Sequence[Test], counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(G, 4) what replacing each group changes in what is explained, and (N, 8) replacing each half.

    f_target is explained, or f_target - f_versus; or the same of probabilities. A test has `counts` (N,) scores.
    """
    scores = np.concatenate([test.scores for test in tests]).astype(np.float64)  # (rows, C)
    first = np.cumsum(counts) - counts
    rounding = 16 * np.finfo(model.dtype).eps * abs(scores[first]).max(axis=1)
    owner, row = np.repeat(np.arange(len(tests)), counts), np.arange(len(scores))
    is_chance = np.array([test.e.method == "occlusion-p" for test in tests])
    if is_chance.any():
        scores = np.where(is_chance[owner, None], probabilities(model.output, scores), scores)  # type: ignore[arg-type]
    values = scores[row, np.array([test.e.target for test in tests])[owner]]
    versus = np.array([-1 if test.e.versus is None else test.e.versus for test in tests])[owner]
    values -= np.where(versus < 0, 0, scores[row, versus])
    changes = values[first][owner] - values
    place = row - first[owner]
    alone = place > HALVES
    changes[alone & (abs(changes) <= rounding[owner])] = 0
    return changes[alone].reshape(-1, REPLACEMENTS), changes[(place > 0) & ~alone].reshape(-1, HALVES)


def _words(e: Explanation) -> Words:
    """How the text of a verdict names things."""
    unit = f" {readable(e.output_unit)}" if e.output_unit else ""
    doubt = unstable(e.method) if isinstance(e.ledger, Ledger) and not is_sound(e.ledger, e.score) else ""
    return Words("prediction" if e.is_regression else "score", unit, doubt)


def _judged(model: Model, tests: Sequence[Test]) -> list[Evidence]:
    """The verdicts on what explanations claim."""
    names = []
    for test in tests:
        groups: list[str] = []
        for name, plan in zip(model.inputs, test.case.plans, strict=True):
            before = f"{name} " if len(model.inputs) > 1 else ""
            some = _names(plan, test.e.inputs[name], test.case.record[name].seen)
            groups += [readable(before + group) for group in some]
        names.append(tuple(groups))
    return judge(_trials(model, tests), names, lambda k: _words(tests[k].e))


def evidence_of(
    model: Model, records: list[EncodedRecord], every: Sequence[Explanation], alternatives: Sequence[str] = ALTERNATIVES
) -> list[Evidence]:
    """The evidence of explanations of some records of one model, computed as one batch.

    Where one fails, the first of the `alternatives` that passes is named.
    """
    # Classes of one record are measured once; a prediction of another step, or without features, is another case.
    cases: dict[Any, ReplacementPlan] = {}
    keys = []
    for record, e in zip(records, every, strict=True):
        _check(model, record, e)
        case = _case(model, record, e)
        keys.append((id(record), case.step, id(case.plans)))
        cases.setdefault(keys[-1], case)
    if not cases:
        return []
    with np.errstate(all="ignore"):
        measured = dict(zip(cases, _measure(model, [*cases.values()]), strict=True))
        tests = [Test(cases[key], e, measured[key]) for key, e in zip(keys, every, strict=True)]
        return _with_better(model, tests, _judged(model, tests), alternatives)


def _with_better(model: Model, tests: list[Test], found: list[Evidence], alternatives: Sequence[str]) -> list[Evidence]:
    """The same, with the first of the alternatives that passes where an explanation fails."""
    requests = [(test.e.versus, test.case.step) for test in tests]
    for (versus, step), method in product({*requests}, alternatives):
        some = [k for k, one in enumerate(found) if one.verdict == "fails" and one.better is None]
        some = [k for k in some if requests[k] == (versus, step) and tests[k].e.method != method]
        if not some:
            continue
        request = asked.request(model, method, None, versus, step, {})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            targets = [tests[k].e.target for k in some]
            others = run(model, [tests[k].case.record for k in some], request, targets, None, None, False)
        again = [tests[k]._replace(e=e) for k, e in zip(some, others, strict=True)]
        for k, other in zip(some, _judged(model, again), strict=True):
            if other.passed:
                found[k] = replace(found[k], better=method)
    return found


def _check(model: Model, record: EncodedRecord, e: Explanation) -> None:
    """Raise unless an explanation has what a record of this model has."""
    e._check_complete()
    if e.target == "all":
        raise LrpError("evidence needs one class, got an explanation of all; pick one with e.for_class(c).")
    is_right = {*e.inputs} == {*model.inputs} and len(e.scores) == model.outputs
    is_right &= e.classes is None or e.classes == model.classes  # hidden units are others
    for name, one in record.items() if is_right else ():
        part = e.inputs[name]
        kind, size = _kind(model, name, part, one.steps)
        is_right &= part.relevance.shape[-1] == one.length
        is_right &= kind != "vector" or part.feature_relevance.shape[-1] == size  # type: ignore[union-attr]
    if not is_right:
        raise LrpError(
            "evidence: the explanation must be a whole one of this model and input, with the relevance of all inputs, "
            f"steps and features as they were passed in; got one of {', '.join(map(repr, e.inputs))} with "
            f"{len(e.scores)} scores and {len(e)} steps."
        )


def evidence_of_all(every: list[Explanation]) -> EvidenceList:
    """The evidence of explanations, those of one model as one batch; None of what was read from files without it."""
    by_model: dict[int, list[Explanation]] = {}
    for e in every:
        if e.tested is None and e.source is not None:
            by_model.setdefault(id(e.source.model), []).append(e)
    for some in by_model.values():
        sources = [e.source for e in some if e.source is not None]
        for e, one in zip(some, evidence_of(sources[0].model, [s.record for s in sources], some), strict=True):
            vars(e)["tested"] = one
    return EvidenceList([e.tested for e in every])


@door
def evidence(model: Model, x: Any, e: Explanation) -> Evidence:
    """What experiments say about an explanation, for one that was read from a file; see `Explanation.evidence`.

    model: the network that was explained.
    x: the input that was explained, as `explain` takes it.
    e: the explanation.
    """
    if not isinstance(e, Explanation):
        raise LrpError(f"evidence: got {shown(e)}; pass an explanation.")
    return evidence_of(model, [encode(model, x)], [e])[0]
