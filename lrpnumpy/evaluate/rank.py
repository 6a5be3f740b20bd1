"""Which method to trust on a network and its data: every measure on every method, in parts that can be resumed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lrpnumpy import asked, tables
from lrpnumpy.checks import LrpError, entries, float_array, one_of, shown, whole
from lrpnumpy.corpus.work import settle
from lrpnumpy.encode import EncodedRecord, encode, encode_all
from lrpnumpy.evaluate import agreement, completeness, randomisation, removal, stability, truth
from lrpnumpy.evaluate.case import Case, Explainer, Unit, Values, case_of, explainers, numbers_of
from lrpnumpy.evaluate.ranking import COLUMNS, Cells, Ranking
from lrpnumpy.evaluate.state import State
from lrpnumpy.meant import door
from lrpnumpy.methods.reference import vectors
from lrpnumpy.model import Model
from lrpnumpy.schedule import progress_bar

PART = 64  # sequences that are measured, and stored, together
TRUTH = "truth"  # the only measure that does not look at the data
MEASURES: dict[str, Callable[[Case], Values] | None] = {
    "removal": removal.measure,
    TRUTH: None,
    "randomisation": randomisation.measure,
    "stability": stability.measure,
    "completeness": completeness.measure,
    "agreement": agreement.measure_agreement,
    "cost": agreement.measure_cost,
}


@door
def rank_methods(
    model: Model,
    data: Any,
    methods: Any = None,
    target: Any = None,
    *,
    measures: Sequence[str] | None = None,
    reference: Any = "zero",
    unit: Unit = "step",
    seed: int = 0,
    state: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> Ranking:
    """Which methods deserve trust on this network and these data.

    model: the network, as `load` gives it.
    data: sequences as `explain_all` takes them: words, token ids or numbers.
    methods: names, `lrp.Rule`s, "random" for random numbers; or a dict of name to one of these, to a pair of a method
        and its options, ("lrp-prop", {"eps": 0.2}), or to a function of one's own, function(model, sequences), which
        gives an array (T,) or (T, D) for each sequence. None is "random" and all methods but
        those whose cost is exponential.
    target: the class explained, one for all sequences or one for each, such as the true ones; 0 or 1 where there is one
        sigmoid; None is the predicted one.
    measures: some of `lrpnumpy.evaluate.MEASURES`; None is all of them.
    reference: what takes the place of what is removed: "zero", "mean" of the data, a vector (D,), a word; or "omit",
        which leaves steps out.
    unit: whether a "step" or a "feature" (at all steps) is removed and compared.
    seed: of what is drawn at random.
    state: a file that keeps finished parts: the same call goes on where another one was interrupted.
    threads: their number, but for what is timed; None uses the cores where it pays.
    progress: whether to show a bar; None shows one where there is a terminal.
    """
    chosen = list(MEASURES)
    if measures is not None:
        chosen = [one_of(name, "measures", tuple(MEASURES)) for name in entries(measures, "measures", 100)]
    one_of(unit, "unit", ("step", "feature"))
    seed = whole(seed, "seed", 0)
    sequences = _records(data)
    if not sequences:
        raise LrpError("data must have at least one sequence, got none.")
    encoded = encode_all(model, sequences)
    classes = _classes(model, target, len(sequences))
    instead = _substitute(model, reference, unit, encoded)
    every = explainers(methods, model, unit, seed)
    said = {
        "model": model.digest,
        "methods": [f"{one.name}: {one.method!r}, {dict(one.options)!r}" for one in every],
        "settings": [chosen, reference if isinstance(reference, str) else instead.tolist(), unit, seed, PART],  # type: ignore[union-attr]
        "data": [_digest(encoded[k : k + PART], classes, k) for k in range(0, len(encoded), PART)],
    }
    undo = settle()
    try:
        for one in every:  # kernels are compiled before anything is timed
            one(model, sequences[:1], None, unit, 1)
        parts = []
        jobs = range(0, len(sequences), PART) if {*chosen} - {TRUTH} else range(0)
        total = len(jobs) + (TRUTH in chosen)
        with State(state, said) as store, progress_bar(progress, total=total, desc="measuring", unit=" parts") as bar:
            for k in jobs:

                def measured(k: int = k) -> Values:
                    some = None if classes is None else classes[k : k + PART]
                    case = case_of(model, sequences[k : k + PART], some, every, unit, instead, (seed, k), threads)
                    return _all_of(case, chosen)

                parts.append(store.get(str(k), measured))
                bar.update(1)
            if TRUTH in chosen:
                parts.append(store.get(TRUTH, lambda: truth.measure(every, seed)))
                bar.update(1)
    finally:
        undo()
    about = {
        "sequences": len(sequences), "explained": "predicted" if target is None else "target", "unit": unit,
        "reference": reference if isinstance(reference, str) else "a vector", "seed": seed, "measures": chosen,
        "model": model.digest[:16], "output": model.output, "outputs": model.outputs,
    }  # fmt: skip
    return _joined(every, parts, about, seed)


def _records(data: Any) -> list[Any]:
    """One record for each entry; of a dict of inputs, a dict for each."""
    data = tables.untensored(data)
    if isinstance(data, (str, bytes, range)) or not _is_list(data):
        raise LrpError(f"data must be a list of sequences, got {type(data).__name__}.")
    if not isinstance(data, Mapping):
        return list(data)
    if not all(map(_is_list, data.values())):
        raise LrpError("data must be a dict of lists, one entry per record, got something else in it.")
    columns = [list(column) for column in data.values()]
    if len({len(column) for column in columns}) > 1:
        counts = ", ".join(str(len(column)) for column in columns)
        raise LrpError(f"data must have as many records of each input, got {counts}.")
    return [dict(zip(data, values, strict=True)) for values in zip(*columns, strict=True)]


def _is_list(value: Any) -> bool:
    """Whether something has entries, and an end."""
    return hasattr(value, "__iter__") and hasattr(value, "__len__") and getattr(value, "ndim", 1) > 0


def _all_of(case: Case, chosen: Sequence[str]) -> Values:
    out: Values = {}
    for name in chosen:
        measure = MEASURES[name]
        if measure is not None:
            out |= measure(case)
    return out


def _joined(every: list[Explainer], parts: list[Values], about: dict[str, Any], seed: int) -> Ranking:
    """The columns of all parts, with their intervals."""
    names = tuple(one.name for one in every)
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        pairs = [part[name] for part in parts if name in part]
        found[name] = np.concatenate([a for a, _ in pairs], axis=1), np.concatenate([b for _, b in pairs])
    cells = {name: Cells.of(*found[name], column, seed) for name, column in COLUMNS.items() if name in found}
    alike = None
    if "agreement" in found:
        alike = np.stack([found[f"with {name}"][0].mean(axis=1) for name in names], axis=1)
    return Ranking(names, cells, alike, about)


def _classes(model: Model, target: Any, count: int) -> np.ndarray | None:
    if target is None:
        return None
    if model.outputs == 1:
        yes = np.asarray(target)
        if model.output == "linear":
            raise LrpError("target must be None where the model has one linear output: its one score is explained.")
        if yes.shape != (count,) or not np.isin(yes, (0, 1)).all():
            raise LrpError(f"target must be 0 or 1 for each of {count} sequences where the model has one sigmoid.")
        return yes.astype(np.int64)
    found = asked.targets(model, target, count)
    if not isinstance(found, np.ndarray):
        raise LrpError(f"target must be one class for each sequence, got {shown(target)}.")
    return found


def _substitute(model: Model, reference: Any, unit: Unit, encoded: list[EncodedRecord]) -> str | np.ndarray:
    """What takes the place of what is removed, in the units of the user; or "omit"."""
    port = model.inputs[model.main]
    if not isinstance(reference, str):
        return float_array(reference, "reference", (model.input_size,), dtype=port.given_dtype)
    if reference == "omit":
        if unit == "feature":
            raise LrpError("reference must be 'zero', 'mean' or a vector where features are the unit, got 'omit'.")
        return reference
    if reference == "zero":
        zero = 0.0 if port.scaler is None else np.array(port.scaler.mean)
        return np.zeros(model.input_size, port.given_dtype) + zero
    if reference == "mean":
        return np.concatenate([vectors(record[model.main]) for record in encoded]).mean(axis=0)
    if port.embedding is None or port.embedding.vocabulary is None:
        raise LrpError(
            f"reference must be 'zero', 'mean', 'omit' or a vector, as it has no words, got {shown(reference)}."
        )
    return vectors(encode(model, [reference], "reference")[model.main])[0]


def _digest(encoded: list[EncodedRecord], classes: np.ndarray | None, first: int) -> str:
    state = hashlib.sha256(b"" if classes is None else classes[first : first + PART].tobytes())
    for record in encoded:
        for part in record.values():
            state.update(numbers_of(part).tobytes())
    return state.hexdigest()
