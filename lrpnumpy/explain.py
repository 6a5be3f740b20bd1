"""Which inputs made the network decide: explain one sequence, explain many, compare methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np

from lrpnumpy import asked
from lrpnumpy.checks import LrpError, entries, shown
from lrpnumpy.encode import EncodedRecord, as_records, as_trained, encode, encode_all, filled, in_order, packed
from lrpnumpy.fields import by_target, taken
from lrpnumpy.kernels import compile
from lrpnumpy.ledgers import ROWS
from lrpnumpy.meant import door
from lrpnumpy.methods import find
from lrpnumpy.methods.base import Columns, Method, PackedRecords, Request, Unit, answer
from lrpnumpy.methods.through import unit_target
from lrpnumpy.model import Model
from lrpnumpy.packed import Batch, Packed
from lrpnumpy.passes import SequenceWindows, Trace, forward, path_of
from lrpnumpy.protocol import Comparison
from lrpnumpy.result import Explanation
from lrpnumpy.results import Explanations, gathered
from lrpnumpy.rules import Propagation, Rule
from lrpnumpy.schedule import run_chunks

EXACT = {compile.COMPILED: "compiled, float64", compile.NUMPY: compile.NUMPY}  # how sequences are recomputed
WINDOW_ROWS = 1 << 21  # numbers in an array of the windows that are explained together
FIRST = np.zeros(1, np.int64)  # the position of a single sequence
FIRST.setflags(write=False)
COMPARED = ("lrp-all", "deeplift", "integrated-gradients", "cd", "occlusion-f", "gradient-x-input")


def run(
    model: Model,
    encoded: list[EncodedRecord],
    request: Request,
    target: Any,
    spans: list[Any] | None,
    threads: int | None,
    progress: bool | None = None,
) -> Explanations:
    """The explanations of encoded sequences: what `explain`, `explain_all` and the corpus have in common."""
    request = request.method.settle(request, model, encoded)
    targets: Any = None if target is None else asked.targets(model, target, len(encoded))
    is_named = isinstance(targets, np.ndarray)
    if is_named and request.versus is not None and (targets == request.versus).any():
        raise LrpError(f"versus must be another class than the target, got {request.versus} for both.")
    phrases = None
    if spans is not None:
        every = zip(encoded, spans, strict=True)
        phrases = [asked.phrases(one[model.main], some, f"sequence {k}") for k, (one, some) in enumerate(every)]
    keeps = (request.keep, *request.method.further)
    size = 0
    for record in encoded:
        size += record[model.main].length * model.row_size
    forced, path = compile.current(), path_of(model, keeps, size)
    look_up, shared = False, None
    if len(encoded) > 1:
        look_up = _look_up(model, encoded, request)
        if not look_up:
            with compile.on(path):
                shared = _shared_pass(model, encoded, request)
    chunks: list[tuple[np.ndarray, Columns]] = []
    is_doubtful, exact_path, recomputed = False, {}, {}  # type: ignore[var-annotated]

    def work(positions: np.ndarray, x: dict[str, Packed], whole: Trace | SequenceWindows | None = shared) -> None:
        nonlocal is_doubtful
        chosen = targets[positions] if is_named else targets
        wanted = None if phrases is None else [phrases[k] for k in positions]
        records = PackedRecords(x, positions, chosen, wanted, whole)
        columns = answer(model, request, records)
        chunks.append((positions, columns))
        sound = columns.sound
        if sound is None:
            sound = np.isfinite(columns.inputs[model.main].relevance)
        if 0 in sound.ravel().tolist():  # books with a number that is not finite do not add up, either
            is_doubtful = True
            if columns.sound is not None and model.dtype == np.float32:
                # The first thread that comes here decides for all.
                with compile.on(forced):
                    exact = exact_path.setdefault("path", path_of(model.in_float64, keeps, size))
                with compile.on(exact):
                    some, again = _recomputed(model, request, records, columns)
                recomputed.update(dict.fromkeys(some.tolist(), EXACT[exact]))
                chunks.append((some, again))

    with np.errstate(all="ignore"), compile.on(path):
        if request.newest is not None:
            _run_windows(model, encoded, work)
        elif len(encoded) == 1 and threads == 1:
            work(FIRST, packed(model, encoded))
        else:
            run_chunks(model, encoded, work, threads, look_up, progress)
    found = gathered(model, request, encoded, chunks, isinstance(targets, str), path)
    found._explains_predicted = targets is None
    if spans is not None:
        found.single["phrases"] = spans
    if recomputed:
        found.single["computed"] = [recomputed.get(k, path) for k in range(len(encoded))]
    if is_doubtful:
        found.warn()
    return found


def _run_windows(model: Model, encoded: list[EncodedRecord], work: Callable[..., None]) -> None:
    """Call `work` for the windows of one sequence, in as few groups as fit: each group runs the sequence once."""
    every = [record[model.main] for record in encoded]
    origin = every[0].window
    assert origin is not None
    sequence = packed(model, [origin[0]])
    first = np.array([one.window[1] for one in every])  # type: ignore[index]
    lengths = np.array([one.steps for one in every])
    order = np.argsort(-lengths, kind="stable")
    size = max(1, WINDOW_ROWS // (model.width * int(lengths.max())))
    for k in range(0, len(order), size):
        positions = order[k : k + size]
        x = packed(model, [encoded[k] for k in positions.tolist()])
        work(positions, x, SequenceWindows(sequence, first[positions], x[model.main].batch))


def _shared_pass(model: Model, encoded: list[EncodedRecord], request: Request) -> Trace | None:
    """The forward pass that sequences share which are beginnings of the last of them; None where they are not.

    It is only shared where it saves what a backward pass needs, as coefficients of a rule that kernels have built in.
    """
    if encoded[0][model.main].whole is None:
        return None
    if not isinstance(request.keep, Propagation) or request.keep.code is None:
        return None
    with np.errstate(all="ignore"):
        return forward(model, packed(model, encoded[-1:]), request.keep)


def _recomputed(model: Model, request: Request, records: PackedRecords, columns: Columns) -> tuple[np.ndarray, Columns]:
    """The sequences whose ledger misses the score in float32, or is rounding's alone: their positions, and their
    results computed again in float64.
    """
    assert columns.sound is not None
    some = np.flatnonzero((columns.sound == 0).reshape(-1, len(columns.scores)).any(axis=0))
    windows, positions = None, records.positions[some]
    if isinstance(records.whole, SequenceWindows):
        sequence = {name: _in_float64(one, np.zeros(1, np.int64)) for name, one in records.whole.inputs.items()}
        windows = records.whole.some(some)._replace(inputs=sequence)
    targets = columns.targets[some] if columns.targets.ndim == 1 else "all"
    spans = None if records.spans is None else [records.spans[k] for k in some]
    exact = {name: _in_float64(one, some) for name, one in records.x.items()}
    again = answer(model.in_float64, request, PackedRecords(exact, positions, targets, spans, windows))
    assert again.books is not None
    names, moved = ROWS[request.method.kind], _moved(again, model.dtype)
    again.books[..., names.index("inputs"), :] += moved
    if "total" in names:
        again.books[..., names.index("total"), :] += moved
    else:
        again.books[..., names.index("gap"), :] -= moved
    again = by_target(lambda array: array.astype(model.dtype) if array.dtype.kind == "f" else array, again)
    again.scores = columns.scores[some]
    return positions, again


def _moved(columns: Columns, dtype: np.dtype) -> np.ndarray:
    """(n,) by how much the sum of all relevances changes where they are rounded to `dtype`: of steps or of features,
    whichever changes more.
    """
    steps, features = np.zeros((2, *columns.targets.shape))
    for one in columns.inputs.values():
        change = one.relevance.astype(dtype) - one.relevance
        steps += one.batch.sums(change.T).T
        if one.feature_relevance is not None:
            change = (one.feature_relevance.astype(dtype) - one.feature_relevance).sum(axis=-1)
            features += one.batch.sums(change.T).T
    return np.where(abs(steps) > abs(features), steps, features)


def _in_float64(x: Packed, some: np.ndarray) -> Packed:
    """The sequences `some` of a batch in float64."""
    values = x.vectors
    return Packed(values[np.isin(x.batch.owner, some)].astype(np.float64), Batch(x.batch.lengths[some]))


def _look_up(model: Model, encoded: list[EncodedRecord], request: Request) -> bool:
    """Whether to compute U x + b once for each word of the vocabulary, instead of for every word of every sequence.

    It pays where the sequences have more words than the vocabulary. It needs a method whose word values follow from
    U x alone, and an input that only one recurrent layer takes.
    """
    if (
        model.embedding is None
        or len(model.inputs) > 1
        or request.unit != "step"
        or any(record[model.main].ids is None for record in encoded)
    ):
        return False
    takers = [node for node in model.nodes if model.main in node.inputs]
    linear = request.method.kind == "lrp" or request.method.name == "gradient-x-input"
    if not linear or len(takers) > 1 or not takers[0].layer.looks_up:
        return False
    how = request.keep
    if isinstance(how, Propagation) and how.nodes.get(takers[0].name, how).rule is not None:
        return False
    return sum(record[model.main].steps for record in encoded) > len(model.embedding.E)


@overload
def explain(
    model: Model,
    x: Any,
    method: str | Method | Rule | None = ...,
    target: int | str | tuple[str, int] | None = ...,
    *,
    step: Literal["all"],
    **options: Any,
) -> Explanations: ...
@overload
def explain(
    model: Model,
    x: Any,
    method: str | Method | Rule | None = ...,
    target: int | str | tuple[str, int] | None = ...,
    *,
    step: int | None = ...,
    unit: Unit = ...,
    versus: int | str | None = ...,
    spans: Sequence[tuple[int, int]] | None = ...,
    reference: Any = ...,
    fill: Literal["forward"] | None = ...,
    **options: Any,
) -> Explanation: ...
@door
def explain(
    model: Model,
    x: Any,
    method: str | Method | Rule | None = None,
    target: int | str | tuple[str, int] | None = None,
    *,
    unit: Unit = None,
    versus: int | str | None = None,
    step: int | str | None = None,
    newest: int | None = None,
    spans: Sequence[tuple[int, int]] | None = None,
    reference: Any = None,
    fill: Literal["forward"] | None = None,
    **options: Any,
) -> Explanation | Explanations:
    """Explain one prediction: the relevance (attribution) of every step of the input.

    model: a network, from `load` or built from layers.
    x: a string, a list of words, token ids, a (T, D) array, a DataFrame, or a tensor.
    method: a name listed by `lrp.methods()`, or a record such as `lrp.LRP(eps=0.01)`. Default: `model.method`.
    target: the class to explain, by index or name. Default: the predicted class. "all" explains every class, on a
        leading axis. ("lstm", 5) explains unit 5 of the output of the layer "lstm", at the last step or at `step`.
    versus: a class that the target is contrasted with: f_target - f_versus is explained.
    unit: "step": one value per step; "feature": also one per feature; None: whatever costs nothing extra.
    step: which prediction to explain, for a model that predicts at every step. Default: the last. "all" returns a
        sequence of explanations, one per step.
    newest: with step="all", keep only the relevance of this number of newest steps of each prediction. The cost is then
        proportional to the length of the sequence, not to its square. For networks that read forward.
    spans: phrases (start, stop), stop excluded, that also receive a relevance.
    reference: the input compared with, or the replacement of a step, for methods that have one.
    fill: "forward" replaces a missing value by the one before it, with a warning that states the count.
    options: options of the method, such as eps=0.01: the fields of its record.
    """
    if isinstance(target, tuple):
        model, target = unit_target(model, target)
    request = asked.request(model, method, unit, versus, step, options, reference, True)
    if newest is not None:
        request = asked.with_newest(model, request, newest)
    if fill is not None:
        x = filled(x, fill)
    record = encode(model, x)
    in_order([record], "x")
    if model.window is not None:
        as_trained(model, [record[model.main].length], "x")
    if request.step == "all":
        if spans is not None:
            raise LrpError("spans must be None with step='all'; ask for the phrases of one step at a time.")
        newest = request.newest
        records = _for_each_step(model, record) if newest is None else _newest(record, newest)
        return run(model, records, request, target, None, None)
    return run(model, [record], request, target, None if spans is None else [spans], 1)._one(0)


def _newest(record: EncodedRecord, count: int) -> list[EncodedRecord]:
    """The last `count` steps up to each step of a sequence."""
    lengths = {name: one.steps for name, one in record.items()}
    if len(set(lengths.values())) > 1:
        raise LrpError(f"newest must be None unless all inputs have as many steps, got {lengths}.")
    columns = [one.windows(count, record) for one in record.values()]
    return [dict(zip(record, some, strict=True)) for some in zip(*columns, strict=True)]


def _for_each_step(model: Model, record: EncodedRecord) -> list[EncodedRecord]:
    """A sequence once for the prediction of each of its steps.

    Where no prediction depends on later steps, the network sees nothing of them.
    """
    if not model.causal or len(record) > 1:
        with np.errstate(all="ignore"):
            return [record] * forward(model, packed(model, [record])).output.batch.R
    one = record[model.main]
    beginnings = []
    for stop in range(1, one.steps):
        steps = slice(stop)
        part = one._replace(ids=taken(one.ids, steps), x=taken(one.x, steps), kept=one.seen[steps], whole=one)
        beginnings.append({model.main: part})
    return [*beginnings, record]


@door
def explain_all(
    model: Model,
    xs: Any,
    method: str | Method | Rule | None = None,
    target: Any = None,
    *,
    unit: Unit = None,
    versus: int | str | None = None,
    step: int | None = None,
    spans: Sequence[Sequence[tuple[int, int]]] | None = None,
    reference: Any = None,
    threads: int | None = None,
    progress: bool | None = None,
    fill: Literal["forward"] | None = None,
    **options: Any,
) -> Explanations:
    """`explain` for several sequences of any lengths, computed as one ragged batch.

    xs: a list of what `explain` takes, or an array (N, T, D).
    model, method, unit, versus, step, reference, fill, options: as in `explain`.
    target: as in `explain`, or one class for each sequence.
    spans: one list of phrases for each sequence.
    threads: number of threads. Default: as many as are useful.
    progress: show rate and time left. Default: if standard error is a terminal.
    """
    if isinstance(target, tuple):
        model, target = unit_target(model, target)
    request = asked.request(model, method, unit, versus, step, options, reference)
    if fill is not None:
        xs = [filled(x, fill, f"sequence {k}") for k, x in enumerate(as_records(model, xs))]
    encoded = encode_all(model, xs)
    in_order(encoded, "sequence {}")
    as_trained(model, (record[model.main].length for record in encoded), "sequence {}")
    phrases = None
    if spans is not None:
        is_list = isinstance(spans, (Sequence, np.ndarray)) and getattr(spans, "shape", None) != ()
        if not is_list or len(spans) != len(encoded):
            raise LrpError(f"spans must be a list of phrases for each of {len(encoded)} sequences, got {shown(spans)}.")
        phrases = list(spans)
    return run(model, encoded, request, target, phrases, threads, progress)


@door
def compare(
    model: Model,
    x: Any,
    methods: Sequence[str | Method | Rule] | None = None,
    target: int | str | None = None,
    *,
    unit: Unit = None,
    versus: int | str | None = None,
    step: int | None = None,
    spans: Sequence[tuple[int, int]] | None = None,
    reference: Any = None,
    **options: Any,
) -> Comparison:
    """Explain one input by several methods; each uses the options that it has.

    methods: names or records, as in `explain`. Default: one method of each family.
    model, x, target, unit, versus, step, spans, reference, options: as in `explain`.
    """
    if isinstance(step, str):
        raise LrpError(f"step must be an integer here, to compare methods on one prediction, got {step!r}.")
    if reference is not None:
        options["reference"] = reference
    found = []
    every = [find(method) for method in entries(COMPARED if methods is None else methods, "methods", 1000)]
    for method, own in zip(every, asked.own_options(every, options), strict=True):
        leaves_out = isinstance(unit, str) and unit == "feature" and method.feature_relevance == "no"
        fits = None if leaves_out else unit
        found.append(explain(model, x, method, target, unit=fits, versus=versus, step=step, spans=spans, **own))
    return Comparison(tuple(found))
