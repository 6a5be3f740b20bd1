"""A whole corpus: read, explain and write at the same time, with bounded memory, resumable."""

from __future__ import annotations

import os
import sys
import warnings
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from lrpnumpy.asked import request as request_of
from lrpnumpy.asked import targets as targets_of
from lrpnumpy.checks import LrpError, RelevanceWarning, is_number, outside, shown
from lrpnumpy.corpus.columns import Columns
from lrpnumpy.corpus.output import rejected_path, write_output
from lrpnumpy.corpus.own import identity
from lrpnumpy.corpus.parts import Parts, same
from lrpnumpy.corpus.processes import Processes
from lrpnumpy.corpus.record import Chunk
from lrpnumpy.corpus.sources import Source, chunks, fingerprint, joined, open_source
from lrpnumpy.corpus.stored import Stored, open_explanations
from lrpnumpy.corpus.work import Job, Part, explain_chunk, settle
from lrpnumpy.kernels import compile as kernels
from lrpnumpy.meant import door
from lrpnumpy.methods import Method
from lrpnumpy.model import Model
from lrpnumpy.rules import Rule
from lrpnumpy.schedule import progress_bar

MOST_WORKERS = 256
COUNTS = ("records", "explained", "rejected", "doubtful")


@dataclass(frozen=True)
class Run:
    """A finished run: where its file is, and what became of the records."""

    path: Path  # the file of explanations
    records: int  # that the source has
    explained: int  # of these
    rejected: int  # records that cannot be explained
    doubtful: int  # explanations whose relevance is not finite, or decided by rounding

    @property
    def rejected_path(self) -> Path | None:
        """The list of rejected records, one JSON object a line; None where none were."""
        return rejected_path(self.path) if self.rejected else None

    def open(self) -> Stored:
        """The explanations, as `open_explanations` reads them."""
        return open_explanations(self.path)


@door
def explain_corpus(
    model: Model,
    source: Any,
    out: str | os.PathLike[str],
    method: str | Method | Rule = "lrp-all",
    target: int | str | None = None,
    *,
    unit: Literal["step", "feature"] = "step",
    versus: int | str | None = None,
    step: int | None = None,
    format: Literal["text", "jsonl", "hdf5", "npz"] | None = None,
    field: str | None = None,
    columns: Any = None,
    resume: bool = False,
    strict: bool = False,
    longest: int = 10_000,
    max_line: int = 1 << 20,
    chunk: int = 2048,
    threads: int | None = None,
    processes: int | None = None,
    client: Any = None,
    progress: bool | None = None,
    **options: Any,
) -> Run:
    """Explain every sequence of a corpus into one HDF5 file, in memory that does not grow with it.

    model: the network, as `load` gives it.
    source: a path to text (one sequence a line, plain or gzipped), JSON lines, HDF5 or .npz; "-" for lines of
        standard input; or any iterable of sequences.
    out: the file to be made; `open_explanations` reads it.
    method, target, unit, versus, step, options: as in `explain`, for all sequences alike.
    format: the kind of the source, where the end of its name does not say it.
    field: of JSON objects the field with the sequence; in HDF5 and .npz files the array with the values.
    columns: what to store beside the explanations, such as season or true label, for summaries by it: a dict of name to
        one value for each record; or names of fields of JSON objects, or of arrays in HDF5 and .npz files.
    resume: go on with a run that was interrupted; begins one where there is none.
    strict: stop at the first record that cannot be explained, instead of listing it beside `out`.
    longest, max_line: sequences of more steps, and lines of more bytes, are rejected, to spare the memory.
    chunk: records explained together, and kept together when the run is interrupted.
    threads: of this process; all cores by default.
    processes: have the chunks explained by so many processes instead. Cutting text into words holds Python's lock, so
        that with short sentences and more than two cores processes are faster than threads.
    client: a dask.distributed.Client, to have the chunks explained by its workers instead.
    progress: show rate and time left; by default where standard error is a terminal.
    """
    if sum(one is not None for one in (threads, processes, client)) > 1:
        raise LrpError("threads, processes and client must not be given together: each says who does the work.")
    numbers = {"longest": longest, "max_line": max_line, "chunk": chunk, "threads": threads, "processes": processes}
    for name, value in numbers.items():
        if value is not None and not (is_number(value, int) and 1 <= value <= 2**62):
            raise LrpError(f"{name} must be a positive number, got {shown(value)}.")
    for name, value in (("threads", threads), ("processes", processes)):
        if value is not None and value > MOST_WORKERS:
            raise LrpError(f"{name} must be at most {MOST_WORKERS}, got {value}.")
    if options.pop("hidden", False):
        raise LrpError("hidden must be False for a corpus: hidden states are not kept; use explain_all.")
    request = request_of(model, method, unit, versus, step, options)
    chosen = _one_target(model, target)
    if request.versus is not None and request.versus == chosen:
        raise LrpError(f"versus must be another class than the target, got {request.versus} for both.")
    path = Path(os.path.realpath(out))
    parts = Parts(path)
    _check_free(path, parts, resume)
    opened = open_source(source, format, field, longest, max_line)
    beside = Columns(columns, opened, source)
    rule = identity(method)
    tokenizers = [identity(port.embedding.tokenizer, "tokenizer") for port in model.ports.values() if port.embedding]
    for what, own in (
        (f"rule {request.method.name!r}", rule),
        *(("tokenizer of yours", tokenizer) for tokenizer in tokenizers),
    ):
        if own.doubt and (os.path.exists(path) or parts.exists()):
            raise LrpError(
                f"{path if path.exists() else parts.folder} cannot be resumed by the {what}, which cannot be told from "
                f"another ({own.doubt}); remove it to begin anew, or make it a plain function at the top of a module, "
                "of NumPy, numbers, strings and arrays."
            )
    run = {
        "model": model.digest,
        "method": request.method.name,
        "rule": rule.note,
        "tokenizers": [one.note for one in tokenizers if one.note] or None,
        "target": chosen,
        "options": request.shown(),
        "source": opened.identity,
        "limits": {"chunk": chunk, "longest": longest, "max_line": max_line},
        "versions": _versions(),
        "classes": model.classes,
        "output_unit": model.output_unit,
        "columns": beside.note,
        "features": model.features,
        "main": model.main,
        "others": {name: port.features for name, port in model.ports.items() if name != model.main},
        "output": model.output,
    }
    if os.path.exists(path):
        return _finished(path, parts, run, opened, chunk)
    twin = model.twin()  # nothing of it was computed before things are settled
    job = Job(twin, request, chosen, opened.kind, opened.field, longest, beside.fields)
    workers = _workers(job, threads, processes, client)  # an error about them comes before anything is written
    with closing(parts):
        parts.open(run)
        with (
            warnings.catch_warnings(),
            workers,
            progress_bar(progress, unit=" records") as bar,
        ):
            warnings.simplefilter("ignore", RelevanceWarning)  # one at the end instead of one a chunk
            _compute(opened, chunk, parts, beside, workers, strict, bar)
        counts = write_output(parts, path, run)
        parts.remove()
    if counts["doubtful"]:
        advice = f"; {request.method.advice()}" if request.method.advice() else ""
        wrong = "misses f(x) - f(reference)" if request.method.kind == "reference" else "is decided by rounding"
        warnings.warn(
            f"{request.method.name}: relevance is not finite, or {wrong}, for {counts['doubtful']:,} of "
            f"{counts['explained']:,} explanations{advice}.",
            RelevanceWarning,
            stacklevel=outside(),
        )
    return Run(path, **counts)


def _one_target(model: Model, target: Any) -> int | str | None:
    """The class explained as its index, None for the predicted one, or "all"."""
    if not (target is None or isinstance(target, (str, int, np.integer))):
        raise LrpError(f"target must be None, a class or 'all', for the whole corpus, got {shown(target)}.")
    found = targets_of(model, target, 1)
    return int(found[0]) if isinstance(found, np.ndarray) else found


def _versions() -> dict[str, str]:
    """Of what decides how results are rounded."""
    found = {name: version(name) for name in ("numpy", "numba")}
    if kernels.mode == "never" or os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        found["numba"] = "off"
    return {"lrpnumpy": sys.modules["lrpnumpy"].__version__, **found}


def _check_free(path: Path, parts: Parts, resume: bool) -> None:
    """Never write over hours of work."""
    if not os.path.isdir(path.parent):
        raise LrpError(f"out must be in a folder that exists, got {path}.")
    if resume:
        return
    if os.path.exists(path):
        raise LrpError(f"out must be a file that does not exist yet, got {path}; remove it, or choose another name.")
    if parts.exists():
        raise LrpError(f"{parts.folder} holds an interrupted run; go on with resume=True, or remove it to begin anew.")


def _finished(path: Path, parts: Parts, run: dict[str, Any], source: Source, size: int) -> Run:
    """A run that has its output file already: see that it is the same, remove what is left of its parts."""
    with open_explanations(path) as found:
        counts = {name: int(found.run[name]) for name in COUNTS}
        same(path, {name: found.run.get(name) for name in run}, run)
        if not source.known and found.run["fingerprint"] != joined(map(fingerprint, chunks(source, size))):
            raise LrpError(f"{path} must be resumed with the source it was made of, but some of its records differ.")
    parts.remove()
    return Run(path, **counts)


# -- the work ------------------------------------------------------------------------------------------------


class Threads:
    """Workers of this process. Kernels release the GIL, so that they use as many cores."""

    def __init__(self, job: Job, count: int | None) -> None:
        self.job, self.count = job, count or os.cpu_count() or 1

    def __enter__(self) -> Threads:
        self._undo = settle()
        self._pool = ThreadPoolExecutor(self.count, "lrpnumpy-corpus")
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._undo()

    def submit(self, chunk: Chunk) -> Future[Part]:
        """Have a chunk explained, soon."""
        return self._pool.submit(explain_chunk, self.job, chunk)

    def most(self) -> int:
        """How many chunks may be under way: enough that none waits for reading or writing."""
        return 2 * self.count


def _workers(job: Job, threads: int | None, processes: int | None, client: Any) -> Any:
    if processes is not None:
        return Processes(job, processes)
    if client is None:
        return Threads(job, threads)
    if not hasattr(client, "register_plugin"):
        raise LrpError(f"client must be a dask.distributed.Client, got {type(client).__name__}.")
    from lrpnumpy.corpus.cluster import Cluster

    return Cluster(job, client)


def _compute(source: Source, size: int, parts: Parts, beside: Columns, workers: Any, strict: bool, bar: Any) -> None:
    """Have all chunks explained that are not there yet, several at a time, and keep them in their order."""
    waiting: deque[tuple[dict[str, Any], Future[Part]]] = deque()
    done, seen = parts.count, 0

    def check(note: dict[str, Any]) -> None:
        if strict and note["rejected"]:
            number, reason = note["rejected"][0]
            raise LrpError(f"record {number} cannot be explained: {reason}.")

    def keep() -> None:
        note, future = waiting.popleft()
        part = future.result()
        note |= {"rejected": part.rejected, "doubtful": part.doubtful}
        check(note)
        parts.add({**part.arrays, **beside.arrays(part.arrays["records"])}, note)
        bar.update(note["records"])

    for seen, piece in enumerate(chunks(source, size), 1):
        note: dict[str, Any] = {"records": len(piece.records)}
        if not source.known:
            note["fingerprint"] = fingerprint(piece)
        read = piece.first - 1 + len(piece.records)
        if fraction := source.fraction(read):
            bar.total = round(read / fraction)
        if seen <= done:
            before = parts.note(seen - 1)
            if any(before.get(name) != value for name, value in note.items()):
                raise _other_source(parts, f"a record from {piece.first} to {read} is another")
            check(before)
            bar.initial = bar.n = read  # the rate is that of what is done now
            continue
        waiting.append((note, workers.submit(piece)))
        while len(waiting) > workers.most():
            keep()
    if seen < done:
        raise _other_source(parts, "it has fewer records")
    while waiting:
        keep()


def _other_source(parts: Parts, what: str) -> LrpError:
    return LrpError(f"{parts.folder} must be resumed with the source it was begun with, but {what}.")
