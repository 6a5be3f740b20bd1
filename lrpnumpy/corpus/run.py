"""All sequences of a corpus: read, explain and write at the same time, with bounded memory, resumable."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import warnings
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Literal, NamedTuple

import numpy as np

from lrpnumpy.asked import request as request_of
from lrpnumpy.asked import targets as targets_of
from lrpnumpy.checks import LrpError, RelevanceWarning, is_number, outside, shown, whole
from lrpnumpy.corpus.folder import Folder
from lrpnumpy.corpus.sources import Corpus, Opened, chunks, fingerprint, open_source
from lrpnumpy.corpus.stored import Stored, open_explanations
from lrpnumpy.corpus.work import Done, Job
from lrpnumpy.corpus.workers import Workers, workers_of
from lrpnumpy.kernels import compile as kernels
from lrpnumpy.meant import door
from lrpnumpy.methods import LRP, Method
from lrpnumpy.methods.base import Request
from lrpnumpy.model import Model
from lrpnumpy.rules import Rule
from lrpnumpy.schedule import progress_bar


@dataclass(frozen=True, eq=False)
class Output:
    """Where `explain_corpus` writes, and how.

    path: the folder of the run, which is created; `open_explanations` reads it.
    overwrite: start over if the folder contains a run. Otherwise the same run is resumed; a different one is an error.
    columns: values to store with the explanations, such as season or true label, for summaries: a dict of name to one
        value per record; or names of fields of JSON objects.
    chunk: number of records that are explained together and stored in one file.
    """

    path: str | os.PathLike[str]
    overwrite: bool = False
    columns: Any = field(default=None, repr=False)
    chunk: int = 2048

    def __post_init__(self) -> None:
        try:
            path = os.fspath(self.path)
            is_path = isinstance(path, str) and bool(path)
        except Exception:  # a path may be an object of the user's own
            is_path = False
        if not is_path:
            raise LrpError(f"out must be the path of a folder, or an lrp.Output, got {shown(self.path)}.")
        if not isinstance(self.overwrite, bool):
            raise LrpError(f"overwrite must be True or False, got {shown(self.overwrite)}.")
        whole(self.chunk, "chunk", 1)


@door
def explain_corpus(
    model: Model,
    source: Any,
    method: str | Method | Rule | None = None,
    target: int | str | None = None,
    *,
    out: str | os.PathLike[str] | Output,
    unit: Literal["step", "feature"] = "step",
    versus: int | str | None = None,
    step: int | None = None,
    threads: int | None = None,
    workers: Any = None,
    progress: bool | None = None,
    evidence: float = 0.0,
    **options: Any,
) -> Stored:
    """Explain every sequence of a corpus and write the results into a folder, in bounded memory.

    Call it again after an interruption: it computes the missing parts.

    model: a network, from `load` or built from layers.
    source: a path to text (one sequence per line, plain or gzipped), JSON lines, HDF5 or .npz; "-" for lines of
        standard input; any iterable of sequences; or an `lrp.Corpus` of one of these, with options for reading.
    method, target, unit, versus, step, options: as in `explain`, the same for all sequences.
    out: the folder to create; or an `lrp.Output`, with options for writing.
    threads: number of threads of this process. Default: all cores.
    workers: number of processes to use instead of threads, or a dask.distributed.Client. Splitting text into words
        holds the GIL: for short sentences and more than two cores, processes are faster than threads.
    progress: show rate and time left. Default: if standard error is a terminal.
    evidence: fraction of the records for which evidence is computed and stored, such as 0.01.
    """
    corpus = source if isinstance(source, Corpus) else Corpus(source)
    output = out if isinstance(out, Output) else Output(out)
    if options.pop("hidden", False):
        raise LrpError("hidden must be False for a corpus: hidden states are not stored; use explain_all.")
    request = request_of(model, method, unit, versus, step, options)
    if not (target is None or isinstance(target, (str, int, np.integer))):
        raise LrpError(f"target must be None, a class or 'all', for the whole corpus, got {shown(target)}.")
    found = targets_of(model, target, 1)
    chosen = int(found[0]) if isinstance(found, np.ndarray) else found
    if request.versus is not None and request.versus == chosen:
        raise LrpError(f"versus must be another class than the target, got {request.versus} for both.")
    if not is_number(evidence, float) or not 0 <= evidence <= 1:
        raise LrpError(f"evidence must be a share of the records from 0 to 1, got {shown(evidence)}.")
    if evidence and chosen == "all":
        raise LrpError("evidence needs one class, got target 'all'; leave evidence out, or name a class.")
    opened = open_source(corpus)
    beside = beside_of(output.columns, opened.kind)
    run = {
        "model": model.digest,
        "method": request.method.name,
        "custom": _custom(model, method),
        "target": chosen,
        "options": request.options,
        "source": opened.identity,
        "limits": {"chunk": output.chunk, "longest": corpus.longest, "max_line": corpus.max_line},
        "versions": {"lrpnumpy": sys.modules["lrpnumpy"].__version__, "numpy": np.__version__, "numba": _numba()},
        "classes": model.classes,
        "output_unit": model.output_unit,
        "activation": model.output,
        "evidence": float(evidence),
        "columns": beside.note,
        "features": {name: model.inputs[name].features for name in (model.main, *model.inputs)},
    }
    # The twin has computed nothing before everything is settled.
    job = Job(model.twin(), request, chosen, opened.kind, corpus.field, corpus.longest, beside.fields, float(evidence))
    ready = workers_of(job, threads, workers)
    folder = Folder(output.path)
    with folder.writing(run, output.overwrite) as counts:
        complete = counts is not None and folder.count() == len(counts)
        if not (complete and opened.known):
            with warnings.catch_warnings(), ready as busy, progress_bar(progress, unit=" records") as bar:
                warnings.simplefilter("ignore", RelevanceWarning)  # one at the end instead of one per chunk
                made = _compute(opened, output.chunk, folder, beside, busy, corpus.strict, bar)
            if made != counts:
                folder.finish(run, made)
    results = open_explanations(folder.path)
    if results.doubtful:
        _warn(request, results)
    return results


def _custom(model: Model, method: Any) -> dict[str, Any]:
    """Names and versions of code that is not ours: rules and tokenizers. The digest of a model has those of layers."""
    code: list[Any] = [port.embedding.tokenizer for port in model.inputs.values() if port.embedding is not None]
    if isinstance(method, LRP):
        code += [method.product, *(method.sums or {}).values()]
    elif isinstance(method, Rule):
        code.append(method)
    found: dict[str, Any] = {}
    for one in code:
        built_in = isinstance(one, str) or getattr(one, "_code", None) is not None
        if not built_in and (isinstance(one, Rule) or not type(one).__module__.startswith("lrpnumpy.")):
            name = getattr(one, "name", None) or getattr(one, "__qualname__", type(one).__qualname__)
            found[str(name)] = getattr(one, "version", 1)
    return found


def _numba() -> str:
    """The version that compiles kernels, which decides how results are rounded."""
    is_off = kernels.mode == "never" or os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
    return "off" if is_off else version("numba")


def _warn(request: Request, results: Stored) -> None:
    advice = f"; {request.method.advice()}".removesuffix("; ")
    wrong = "misses f(x) - f(reference)" if request.method.kind == "reference" else "is decided by rounding"
    some = f"{results.doubtful:,} of {len(results):,} explanations{advice}"
    text = f"{request.method.name}: relevance is not finite, or {wrong}, for {some}."
    warnings.warn(text, RelevanceWarning, stacklevel=outside())


def _compute(
    source: Opened, size: int, folder: Folder, beside: Beside, workers: Workers, strict: bool, bar: Any
) -> list[list[int]]:
    """Have all chunks explained whose parts are not there, several at a time; returns the counts of all parts."""
    counts: list[list[int]] = []
    waiting: deque[tuple[int, Future[Done]]] = deque()

    def check(rejected: list[Any]) -> None:
        if strict and rejected:
            number, reason = rejected[0]
            raise LrpError(f"record {number} cannot be explained: {reason}.")

    def keep() -> None:
        k, future = waiting.popleft()
        done = future.result()
        check(done.rejected)
        folder.write(k, done.arrays)
        counts[k] = done.counts
        bar.update(done.counts[0])

    for k, chunk in enumerate(chunks(source, size)):
        note: dict[str, Any] = {"part": k, "run": folder.digest}
        if not source.known:
            note["fingerprint"] = fingerprint(chunk.records)
        read = chunk.first - 1 + len(chunk.records)
        if fraction := source.fraction(read):
            bar.total = round(read / fraction)
        if (text := folder.text(k)) is not None:
            if text.get("fingerprint") != note.get("fingerprint"):
                raise _other_source(folder, f"a record from {chunk.first} to {read} differs")
            check(text["rejected"])
            counts.append(text["counts"])
            bar.initial = bar.n = read  # the rate is that of what is done now
            continue
        counts.append([])
        columns = beside.of(chunk.first, len(chunk.records))
        waiting.append((k, workers.submit(chunk._replace(note=note, columns=columns))))
        while len(waiting) > workers.most():
            keep()
    while waiting:
        keep()
    if folder.count() > len(counts):
        raise _other_source(folder, "it has fewer records now")
    return counts


def _other_source(folder: Folder, what: str) -> LrpError:
    return LrpError(f"{folder.path} has a run of another source: {what}; choose another folder.")


class Beside(NamedTuple):
    """Columns stored with the explanations, such as season or true label: either all their values by name, or fields
    that records have.
    """

    values: dict[str, list[Any]]  # as JSON holds them
    fields: tuple[str, ...]
    note: dict[str, str]  # what a run that is resumed must find unchanged

    def of(self, first: int, count: int) -> dict[str, list[Any]]:
        """The values of `count` records from the number `first` on, which is counted from 1."""
        stop = first - 1 + count
        for name, values in self.values.items():
            if stop > (had := len(values)):
                raise LrpError(f"columns: {name!r} must have a value for each record, got {had} and record {stop}.")
        return {name: values[first - 1 : stop] for name, values in self.values.items()}


def beside_of(given: Any, kind: str) -> Beside:
    """Columns from a dict of name to values, or from names of fields where the source is of the `kind` "jsonl"."""
    names = [given] if isinstance(given, str) else () if given is None else given
    if not isinstance(names, (Mapping, list, tuple)) or not all(isinstance(name, str) for name in names):
        raise LrpError(f"columns must be a dict of names to values, or a list of names, got {shown(given)}.")
    if not isinstance(names, Mapping):
        if names and kind != "jsonl":
            raise LrpError(f"columns must be a dict of names to values where there are no fields, got {shown(given)}.")
        return Beside({}, tuple(names), dict.fromkeys(names, "field"))
    beside = Beside({}, (), {})
    for name, values in names.items():
        try:
            text = json.dumps(_listed(values), default=str)
        except (TypeError, ValueError, RecursionError) as error:
            raise LrpError(f"columns: {name!r} must have values that JSON can hold, got: {error}.") from error
        beside.values[name] = json.loads(text)
        beside.note[name] = f"sha256 {hashlib.sha256(text.encode()).hexdigest()}"
    return beside


def _listed(values: Any) -> list[Any]:
    """The values of a column as Python's own; dates as text."""
    if isinstance(values, str) or not (np.iterable(values) and hasattr(values, "__len__")):
        raise TypeError(f"{shown(values)}, not one value for each record")
    if not hasattr(values, "dtype"):
        return list(values)
    array = np.asarray(values)
    return (array.astype(str) if array.dtype.kind == "M" else array).tolist()
