"""Which inputs made the network decide: explain one sequence, explain many, compare methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

from lrpnumpy import asked
from lrpnumpy.checks import LrpError, entries
from lrpnumpy.encode import Encoded, encode, encode_all, in_order, packed
from lrpnumpy.ledgers import ROWS
from lrpnumpy.meant import door
from lrpnumpy.methods import COSTLY, METHODS, find, with_users
from lrpnumpy.methods.base import Columns, Other, Request, Unit, answer
from lrpnumpy.model import Model
from lrpnumpy.packed import Batch, Packed
from lrpnumpy.passes import Trace, forward
from lrpnumpy.result import Comparison, Explanation
from lrpnumpy.results import Explanations
from lrpnumpy.rules import LRP, Propagation, Rule
from lrpnumpy.schedule import run_chunks
from lrpnumpy.signature import document


def run(
    model: Model,
    encoded: list[Encoded],
    request: Request,
    target: Any,
    spans: list[Any] | None,
    threads: int | None,
    progress: bool | None = None,
) -> Explanations:
    """The explanations of encoded sequences: what `explain`, `explain_all` and the corpus have in common."""
    if request.method.settle is not None:
        request = request.method.settle(request, model, encoded)
    targets = asked.targets(model, target, len(encoded))
    every_class = isinstance(targets, str)
    if request.versus is not None and isinstance(targets, np.ndarray) and (targets == request.versus).any():
        raise LrpError(f"versus must be another class than the target, got {request.versus} for both.")
    out = Explanations(model, request, encoded, every_class)
    phrases = None
    if spans is not None:
        phrases = [asked.phrases(e, s, f"sequence {k}") for k, (e, s) in enumerate(zip(encoded, spans, strict=True))]
        out._single["spans"], out._single["asked"] = [None] * len(encoded), spans
    if request.method.kind == "cd":
        out._single["cd"] = [None] * len(encoded)
    if request.hidden:
        out._single["hidden"] = [None] * len(encoded)

    look_up = _look_up(model, encoded, request)
    whole = None if look_up else _whole_pass(model, encoded, request)

    def work(positions: np.ndarray, x: dict[str, Packed]) -> None:
        chosen = targets[positions] if isinstance(targets, np.ndarray) else None
        wanted = None if phrases is None else [phrases[k] for k in positions]
        columns = answer(model, x, request, chosen, wanted, positions, every_class, whole)
        sound = np.isfinite(columns.relevance) if columns.sound is None else columns.sound
        if np.count_nonzero(sound) < sound.size:  # something in books that is not finite does not add up, either
            out._doubt = True
            if columns.sound is not None and model.dtype == np.float32:
                _mend(columns, model, x, request, wanted, positions)
        out._put(positions, x[model.main].batch, columns)

    run_chunks(model, encoded, work, threads, look_up, progress)
    out._finish()
    return out


def _whole_pass(model: Model, encoded: list[Encoded], request: Request) -> Trace | None:
    """The forward pass that sequences share which are beginnings of the last of them; None where they are not.

    It is only shared where it keeps what a way back needs, as coefficients of a rule that kernels have built in.
    """
    if not encoded or encoded[0].whole is None:
        return None
    keep = request.method.keep(request)
    if not isinstance(keep, Propagation) or keep.code is None:
        return None
    with np.errstate(all="ignore"):
        return forward(model, packed(model, encoded[-1:]), keep)


def _mend(
    columns: Columns,
    model: Model,
    x: dict[str, Packed],
    request: Request,
    spans: list[np.ndarray] | None,
    positions: np.ndarray,
) -> None:
    """Compute again in float64 the sequences whose ledger misses the score in float32, or is rounding's alone."""
    every_class = columns.targets.ndim == 2
    assert columns.sound is not None
    some = np.flatnonzero((columns.sound == 0).reshape(-1, len(columns.scores)).any(axis=0))
    rows = {name: np.isin(one.batch.owner, some) for name, one in x.items()}
    parts = {name: _part_in_float64(one, rows[name], some) for name, one in x.items()}
    again = answer(
        model.in_float64,
        parts,
        request,
        None if every_class else columns.targets[some],
        None if spans is None else [spans[k] for k in some],
        positions[some],
        every_class,
    )
    main = rows[model.main]
    columns.relevance[..., main] = again.relevance
    if columns.feature_relevance is not None:
        columns.feature_relevance[..., main, :] = again.feature_relevance
    for name, other in columns.others.items():
        other.relevance[..., rows[name]] = again.others[name].relevance
        if other.feature_relevance is not None:
            other.feature_relevance[..., rows[name], :] = again.others[name].feature_relevance
    columns.sound[..., some] = again.sound
    assert columns.books is not None and again.books is not None
    names, moved = ROWS[request.method.kind], _moved(again, parts[model.main].batch, model.dtype)
    again.books[..., names.index("inputs"), :] += moved
    if "total" in names:
        again.books[..., names.index("total"), :] += moved
    else:
        again.books[..., names.index("gap"), :] -= moved
    columns.books[..., some] = again.books
    if columns.spans is not None:
        for k, values in zip(some, again.spans, strict=True):  # type: ignore[arg-type]
            columns.spans[k] = values.astype(model.dtype)
    if columns.hidden is not None:
        for (_, _, batch, old), (*_, new) in zip(columns.hidden, again.hidden, strict=True):  # type: ignore[arg-type]
            old[..., np.isin(batch.owner, some), :] = new


def _moved(columns: Columns, batch: Batch, dtype: np.dtype) -> np.ndarray:
    """(n,) by how much the sum of all relevances changes where they are rounded to `dtype`: of steps or of variables,
    whichever changes more.
    """
    main = Other(batch, columns.relevance, columns.feature_relevance)
    steps, feature_relevance = np.zeros((2, *columns.targets.shape))
    for one in (main, *columns.others.values()):
        change = one.relevance.astype(dtype) - one.relevance
        steps += one.batch.sums(change.T).T
        if one.feature_relevance is not None:
            change = (one.feature_relevance.astype(dtype) - one.feature_relevance).sum(axis=-1)
            feature_relevance += one.batch.sums(change.T).T
    return np.where(abs(steps) > abs(feature_relevance), steps, feature_relevance)


def _part_in_float64(x: Packed, rows: np.ndarray, some: np.ndarray) -> Packed:
    """The sequences `some` of a batch in float64; `rows` (R,) is true for the rows that are theirs."""
    values = x.rows if x.words is None else x.words.embedding.E[x.words.ids]
    return Packed(values[rows].astype(np.float64), Batch(x.batch.lengths[some]))


def _look_up(model: Model, encoded: list[Encoded], request: Request) -> bool:
    """Whether to compute U x + b once for each word of the vocabulary, instead of for every word of every sequence.

    It pays where the sequences have more words than the vocabulary. It needs a method whose word values follow from
    U x alone, and an input that only one recurrent layer takes.
    """
    if (
        model.embedding is None
        or len(model.ports) > 1
        or request.unit != "step"
        or any(sequence.ids is None for sequence in encoded)
    ):
        return False
    takers = [node for node in model.nodes if model.main in node.inputs]
    linear = request.method.kind == "lrp" or request.method is METHODS["gradient-x-input"]
    if not linear or len(takers) > 1 or not takers[0].layer.looks_up:
        return False
    if request.how is not None and request.how.at(takers[0].name).rule is not None:
        return False
    return sum(sequence.steps for sequence in encoded) > len(model.embedding.E)


Target = int | str | None


@overload
def explain(
    model: Model, x: Any, method: str | Rule | LRP = ..., target: Target = ..., *, step: Literal["all"], **options: Any
) -> Explanations: ...
@overload
def explain(
    model: Model,
    x: Any,
    method: str | Rule | LRP = ...,
    target: Target = ...,
    *,
    step: int | None = ...,
    **options: Any,
) -> Explanation: ...
@door
def explain(
    model: Model,
    x: Any,
    method: str | Rule | LRP = "lrp-all",
    target: int | str | None = None,
    *,
    unit: Unit = None,
    versus: int | str | None = None,
    step: int | str | None = None,
    spans: Sequence[tuple[int, int]] | None = None,
    **options: Any,
) -> Any:
    """Which parts of one sequence made the network decide.

    model: the network, as `load` gives it.
    x: a string, a list of words, token ids, a (T, D) array, a DataFrame, a tensor.
    method: a name that `lrp.methods()` lists, or an `lrp.LRP` or `lrp.Rule`.
    target: the class explained, by index or name; None is the predicted one, "all" gives every class a leading axis.
    versus: ask why the target rather than this class: f_target - f_versus is explained.
    unit: "step": one value per step; "feature": also one per feature; None: whatever costs nothing extra.
    step: which prediction is explained where the model predicts at every step; the last by default. With "all" the
        result is a sequence of explanations, one for the prediction of each step.
    spans: phrases (start, stop), stop excluded, whose relevance is wanted besides that of the words.
    """
    request = asked.request(model, method, unit, versus, step, options, True)
    one = encode(model, x)
    in_order([one], "x")
    if request.step != "all":
        return run(model, [one], request, target, None if spans is None else [spans], 1)[0]
    if spans is not None:
        raise LrpError("spans must be None with step='all'; ask for the phrases of one step at a time.")
    return run(model, _for_each_step(model, one), request, target, None, None)


def _for_each_step(model: Model, one: Encoded) -> list[Encoded]:
    """A sequence once for the prediction of each of its steps.

    Where no prediction depends on later steps, the network sees nothing of them.
    """
    if not model.causal or one.others:
        with np.errstate(all="ignore"):
            return [one] * forward(model, packed(model, [one])).output.batch.R
    kept = np.arange(one.length) if one.kept is None else one.kept
    cut = [
        one._replace(
            ids=None if one.ids is None else one.ids[:stop],
            x=None if one.x is None else one.x[:stop],
            kept=kept[:stop],
            whole=one,
        )
        for stop in range(1, one.steps)
    ]
    return [*cut, one]


@door
def explain_all(
    model: Model,
    sequences: Any,
    method: str | Rule | LRP = "lrp-all",
    target: Any = None,
    *,
    unit: Unit = None,
    versus: int | str | None = None,
    step: int | None = None,
    spans: Sequence[Sequence[tuple[int, int]]] | None = None,
    threads: int | None = None,
    **options: Any,
) -> Explanations:
    """`explain` for several sequences of any lengths, computed as one ragged batch.

    sequences: a list of what `explain` takes, or an array (N, T, D).
    model, method, unit, versus, step: as in `explain`.
    target: as in `explain`, or one class for each sequence.
    spans: one list of phrases for each sequence.
    threads: their number; None uses the cores where it pays.
    """
    request = asked.request(model, method, unit, versus, step, options)
    encoded = encode_all(model, sequences)
    in_order(encoded, "sequence {}")
    if spans is not None and len(spans) != len(encoded):
        raise LrpError(f"spans must be one list of phrases for each of the {len(encoded)} sequences, got {len(spans)}.")
    return run(model, encoded, request, target, None if spans is None else list(spans), threads)


@door
def compare(
    model: Model,
    x: Any,
    methods: Sequence[str | Rule | LRP] | None = None,
    target: int | str | None = None,
    *,
    unit: Unit = None,
    versus: int | str | None = None,
    step: int | None = None,
    spans: Sequence[tuple[int, int]] | None = None,
    **options: Any,
) -> Comparison:
    """Several methods on one input; each gets those of the options that it has.

    methods: names, or what `explain` takes as a method; None is all but shapley.
    model, x, target, unit, versus, step, spans: as in `explain`.
    """
    if isinstance(step, str):
        raise LrpError(f"step must be an integer here, to compare methods on one prediction, got {step!r}.")
    if methods is None:
        left_out = (*COSTLY, *(["occlusion-p"] if model.output == "linear" else []))
        methods = [name for name in METHODS if name not in left_out]
    common: dict[str, Any] = {"versus": versus, "step": step, "spans": spans}
    found = []
    for method in entries(methods, "methods", 1000):
        fits = unit
        if isinstance(unit, str) and unit == "feature" and find(method).feature_relevance == "no":
            fits = None
        found.append(explain(model, x, method, target, unit=fits, **common, **asked.own_options(method, options)))
    return Comparison(tuple(found))


for _function in (explain, explain_all, compare):
    document(_function, "Options of the methods", with_users())
