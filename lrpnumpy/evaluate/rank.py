"""Which method to trust on a network and its data: every measure on every method, in parts that can be resumed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lrpnumpy import asked
from lrpnumpy.checks import LrpError, entries, float_array, one_of, shown
from lrpnumpy.corpus.work import settle
from lrpnumpy.encode import EncodedRecord, as_records, encode, encode_all
from lrpnumpy.evaluate import measures as measuring
from lrpnumpy.evaluate import programs
from lrpnumpy.evaluate.case import Case, Explainer, RemovalUnit, Values, case_of, explainers, numbers_of
from lrpnumpy.evaluate.ranking import COLUMNS, REMOVAL, Cells, Ranking
from lrpnumpy.files.disk import write_whole
from lrpnumpy.meant import door
from lrpnumpy.methods.base import Unit
from lrpnumpy.methods.reference import vectors
from lrpnumpy.model import Model
from lrpnumpy.schedule import progress_bar

PART = 64  # sequences that are measured, and stored, together
SEED = 0
TRUTH = "truth"  # the only measure that does not look at the data; it does not enter the rank
MEASURES: dict[str, Callable[[Case], Values] | None] = {
    "removal": measuring.measure_removal,
    "changes": measuring.measure_changes,
    "evidence": measuring.measure_evidence,
    "randomisation": measuring.measure_randomisation,
    TRUTH: None,
}


@door
def rank_methods(
    model: Model,
    data: Any,
    methods: Any = None,
    target: Any = None,
    *,
    unit: Unit = None,
    reference: Any = "zero",
    versus: int | str | None = None,
    step: int | None = None,
    measures: Sequence[str] | None = None,
    state: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> Ranking:
    """Rank methods on a network and its data: which of them deserve trust?

    model: a network, from `load` or built from layers.
    data: sequences as `explain_all` takes them: words, token ids or numbers.
    methods: names, records such as `lrp.LRP(eps=0.2)`, `lrp.Rule`s, "random" for random numbers; or a dict of name to
        one of these, or to your own function(model, sequences), which gives an array (T,) or (T, D) for each sequence.
        None is "random" and all methods but those whose cost is exponential.
    target: the class explained, one for all sequences or one for each, such as the true ones; 0 or 1 where there is one
        sigmoid; None is the predicted one.
    unit: "step": steps are removed; "feature": features and single values; None: all three, of words steps alone.
    reference: replacement of removed values: "zero", "mean" of the data, a vector (D,), a word; or "omit", which leaves
        steps out.
    versus, step: as in `explain_all`.
    measures: some of `lrpnumpy.evaluate.MEASURES`. Default: all.
    state: a folder that stores finished parts, so that the same call resumes after an interruption.
    threads: number of threads, except for measurements of time. Default: as many as are useful.
    progress: show a progress bar. Default: if standard error is a terminal.
    """
    chosen = list(MEASURES)
    if measures is not None:
        chosen = [one_of(name, "measures", tuple(MEASURES)) for name in entries(measures, "measures", 100)]
    units = _units(model, unit)
    against = asked.request(model, "lrp-all", None, versus, step, {}).versus  # checks both
    sequences = [*as_records(model, data, "data")]
    if not sequences:
        raise LrpError("data must have at least one sequence, got none.")
    encoded = encode_all(model, sequences)
    classes = _classes(model, target, len(sequences))
    instead = _substitute(model, reference, units, step, encoded)
    every = explainers(methods, model, SEED)
    named = reference if isinstance(reference, str) else "a vector"
    said = {
        "model": model.digest,
        "methods": [f"{one.name}: {one.method!r}" for one in every],
        "settings": [chosen, named if isinstance(instead, str) else instead.tolist(), units, against, step, PART],
        "data": _digest(encoded, classes),
    }

    def measured(k: int) -> Values:
        some = None if classes is None else classes[k : k + PART]
        case = case_of(model, sequences[k : k + PART], some, every, units, instead, (SEED, k), against, step, threads)
        values = measuring.measure_cost(case)
        for measure in map(MEASURES.get, chosen):
            if measure is not None:
                values |= measure(case)
        return values

    folder = None if state is None else Path(state)
    if folder is not None:
        try:
            if not folder.is_dir():
                folder.mkdir()
        except OSError as error:
            raise LrpError(f"state must be a folder, or one that can be made, got {state}: {error.strerror}.") from None
    undo = settle()
    try:
        for one in every:  # kernels are compiled before anything is timed
            one(model, sequences[:1], {}, units != ("step",), 1)
        jobs: dict[str, Callable[[], Values]] = {str(k): partial(measured, k) for k in range(0, len(sequences), PART)}
        if TRUTH in chosen:
            jobs[TRUTH] = partial(programs.measure_truth, every, SEED)
        parts, request = [], hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]
        with progress_bar(progress, total=len(jobs), desc="measuring", unit=" parts") as bar:
            for name, job in jobs.items():
                parts.append(_stored(folder, f"{request}-{name}", job))
                bar.update(1)
    finally:
        undo.close()
    about = {
        "sequences": len(sequences), "explained": "predicted" if target is None else "target", "units": list(units),
        "reference": named, "measures": chosen, "model": model.digest[:16], "output": model.output,
        "outputs": model.outputs, "versus": against, "step": step,
    }  # fmt: skip
    return _joined(every, parts, about)


def _units(model: Model, unit: Unit) -> tuple[RemovalUnit, ...]:
    """What is removed: a word is one input, whatever its vector."""
    one_of(unit, "unit", ("step", "feature", None))
    words = model.inputs[model.main].embedding is not None
    if words and unit == "feature":
        raise LrpError("unit must be 'step' or None where the input is words: they are removed whole, got 'feature'.")
    if words or unit == "step":
        return ("step",)
    return ("feature", "value") if unit == "feature" else ("step", "feature", "value")


def _joined(every: list[Explainer], parts: list[Values], about: dict[str, Any]) -> Ranking:
    """The columns of all parts, with their intervals."""
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        pairs = [part[name] for part in parts if name in part]
        found[name] = np.concatenate([a for a, _ in pairs], axis=1), np.concatenate([b for _, b in pairs])
    units = [found[name] for name in ("steps", "features", "values") if name in found]
    cells = {}
    for name, column in COLUMNS.items():
        if name in found:
            cells[name] = Cells.of([found[name]], column)
        elif name == REMOVAL and units:
            cells[name] = Cells.of([pair for pair in units if pair[1].any()] or units, column)
    return Ranking(tuple(one.name for one in every), cells, about)


def _classes(model: Model, target: Any, count: int) -> np.ndarray | None:
    if target is None:
        return None
    if model.outputs > 1:
        found = asked.targets(model, target, count)
    elif model.output == "linear":
        raise LrpError("target must be None where the model has one linear output: its one score is explained.")
    else:
        found = np.asarray(target)
    known = np.arange(max(2, model.outputs))
    if not isinstance(found, np.ndarray) or found.shape != (count,) or not np.isin(found, known).all():
        raise LrpError(
            f"target must be one class for each of {count} sequences, 0 or 1 where the model has one sigmoid, got "
            f"{shown(target)}."
        )
    return found.astype(np.int64)


def _substitute(
    model: Model, reference: Any, units: tuple[RemovalUnit, ...], step: int | None, encoded: list[EncodedRecord]
) -> str | np.ndarray:
    """What takes the place of what is removed, in the units of the user; or "omit"."""
    port = model.inputs[model.main]
    if not isinstance(reference, str):
        return float_array(reference, "reference", (model.input_size,), dtype=port.given_dtype)
    if reference == "omit":
        if units != ("step",):
            raise LrpError("reference='omit' leaves steps out: pass unit='step' with it, or another reference.")
        if step is not None:
            raise LrpError("reference must be other than 'omit' with step, which would be another one without them.")
        return reference
    if reference == "zero":
        return np.zeros(model.input_size, port.given_dtype) + port.affine[0]
    if reference == "mean":
        return np.concatenate([vectors(record[model.main]) for record in encoded]).mean(axis=0)
    if port.embedding is None or port.embedding.vocabulary is None:
        raise LrpError(
            f"reference must be 'zero', 'mean', 'omit' or a vector, as it has no words, got {shown(reference)}."
        )
    return vectors(encode(model, [reference], "reference")[model.main])[0]


def _digest(encoded: list[EncodedRecord], classes: np.ndarray | None) -> str:
    state = hashlib.sha256(b"" if classes is None else classes.tobytes())
    for record in encoded:
        for part in record.values():
            state.update(repr(part.length).encode() + numbers_of(part).tobytes())
    return state.hexdigest()


def _stored(folder: Path | None, name: str, compute: Callable[[], Values]) -> Values:
    """A part: as its file in the folder has it, or computed. A damaged file is replaced: it begins with its digest."""
    path = folder / f"{name}.json" if folder is not None else None
    try:
        content = path.read_bytes() if path is not None and path.is_file() else b""
    except OSError as error:
        raise LrpError(f"state must be a folder that can be read, got {path}: {error.strerror}.") from None
    text = content.partition(b" ")[2]
    if not text or content != _sealed(text):
        text = json.dumps({column: [a.tolist(), b.tolist()] for column, (a, b) in compute().items()}).encode()
        if path is not None:
            write_whole(path, _sealed(text))
    return {column: (np.array(a, float), np.array(b, float)) for column, (a, b) in json.loads(text).items()}


def _sealed(text: bytes) -> bytes:
    """A text after its digest."""
    return hashlib.sha256(text).hexdigest().encode() + b" " + text
