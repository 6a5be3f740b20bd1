"""The work: one chunk of records to the arrays of its part, the same bits wherever and whenever it is done.

A partition of a Dask bag is explained by the same function, without a part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import islice
from math import floor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lrpnumpy import asked
from lrpnumpy.checks import LrpError, UserCodeError, one_of
from lrpnumpy.corpus.lines import too_long
from lrpnumpy.corpus.parts import pack
from lrpnumpy.corpus.sources import Chunk, fields, sequence
from lrpnumpy.encode import EncodedRecord, encode
from lrpnumpy.evidence import evidence_of_all
from lrpnumpy.explain import explain_all
from lrpnumpy.explain import run as explain_encoded
from lrpnumpy.kernels import compile as kernels
from lrpnumpy.meant import door
from lrpnumpy.methods.base import Method, Request
from lrpnumpy.model import Model
from lrpnumpy.result import Explanation
from lrpnumpy.results import Explanations
from lrpnumpy.rules import Rule

if TYPE_CHECKING:
    from dask.bag import Bag

TOGETHER = 2048  # sequences of a partition that are explained as one batch


@dataclass(frozen=True, eq=False)
class Job:
    """What is done to every chunk of a run."""

    model: Model
    request: Request
    target: int | str | None
    kind: str = "iterable"  # of the source
    field: str | None = None
    longest: int = 1 << 62
    columns: tuple[str, ...] = ()  # fields of the records that are stored with the explanations
    evidence: float = 0.0  # share of the records whose evidence is computed


class Explained(NamedTuple):
    """The explanations of some records."""

    results: Explanations
    numbers: list[int]  # of the records explained
    rejected: list[tuple[int, str]]  # number of the record, and why
    columns: dict[str, list[Any]]


class Done(NamedTuple):
    """A chunk that is explained."""

    arrays: dict[str, np.ndarray]  # of its part
    counts: list[int]  # records, explained, rejected, doubtful: those whose relevance `explain` would warn of
    rejected: list[tuple[int, str]]


def settle() -> ExitStack:
    """Have results rounded alike everywhere: compiled kernels only, and BLAS on one thread. Returns what undoes it.

    Plain functions, which replace kernels that are not compiled yet, round differently, and so does a large matrix
    product on another number of threads. Where threadpoolctl (of the extra `dask`) is missing, BLAS stays as it is.
    """
    undo = ExitStack()
    with suppress(ImportError):
        from threadpoolctl import threadpool_limits

        undo.enter_context(threadpool_limits(1, "blas"))
    undo.callback(setattr, kernels, "mode", kernels.mode)
    if kernels.mode != "never":
        kernels.mode = "wait"
    return undo


def explain_chunk(job: Job, chunk: Chunk) -> Done:
    """Explain one chunk of records and pack the results as the arrays of a part."""
    results, numbers, rejected, columns = explain_records(job, chunk.records, chunk.first)
    for name, values in chunk.columns.items():
        columns[name] = [values[number - chunk.first] for number in numbers]
    if job.evidence:  # every hundredth record for a share of 0.01, whatever the chunks are
        share = job.evidence
        chosen = [k for k, number in enumerate(numbers) if floor(number * share) > floor((number - 1) * share)]
        tested = dict(zip(chosen, evidence_of_all([results[k] for k in chosen]), strict=True))
        results.single["tested"] = [tested.get(k) for k in range(len(results))]
    doubtful = int(results.doubtful().sum())
    counts = [len(chunk.records), len(numbers), len(rejected), doubtful]
    text = {**chunk.note, "counts": counts, "numbers": numbers, "rejected": rejected, "columns": columns}
    return Done(pack(results, text), counts, rejected)


def explain_records(job: Job, records: Iterable[Any], first: int = 1) -> Explained:
    """Explain the records that can be explained, on one thread, and say of the others why not."""
    encoded: dict[int, EncodedRecord] = {}
    columns: dict[int, list[Any]] = {}
    rejected: dict[int, str] = {}

    def attempt(number: int, work: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return work(*arguments)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            rejected[number] = str(error)[:500].rstrip(".")

    def explained(some: list[EncodedRecord]) -> Explanations:
        return explain_encoded(job.model, some, job.request, job.target, None, 1, progress=False)

    for number, record in enumerate(records, first):
        one = attempt(number, _encoded, job, record)
        if one is not None:
            encoded[number] = one
            columns[number] = fields(record, job.columns)
    try:
        results = explained([*encoded.values()])
    except UserCodeError:  # a rule that fails: no record is to blame
        raise
    except LrpError:  # some record does not have the steps that a layer, the reference or `step` needs
        for number, one in encoded.items():
            attempt(number, explained, [one])
        encoded = {number: one for number, one in encoded.items() if number not in rejected}
        results = explained([*encoded.values()])
    beside = {name: [columns[number][k] for number in encoded] for k, name in enumerate(job.columns)}
    return Explained(results, [*encoded], sorted(rejected.items()), beside)


def _encoded(job: Job, record: Any) -> EncodedRecord:
    one = encode(job.model, sequence(job.kind, job.field, record, len(job.model.inputs) > 1), "a record")
    longest = max(part.length for part in one.values())
    if longest > job.longest:
        raise LrpError(too_long(longest, job.longest))
    return one


# -- bags of Dask ----------------------------------------------------------------------------------------------------


def explain_partition(
    records: Iterable[Any],
    model: Model,
    method: str | Method | Rule | None = None,
    target: int | str | None = None,
    *,
    bad: str = "raise",
    unit: Any = None,
    versus: int | str | None = None,
    step: int | None = None,
    **options: Any,
) -> list[Explanation | None]:
    """The explanations of some `records`, sequences, on one thread: for `dask.bag.map_partitions` and the like.

    model, method, target, unit, versus, step, options: as in `explain`.
    bad: "none" gives None for a record that cannot be explained, "raise" an error.
    """
    one_of(bad, "bad", ("raise", "none"))
    job = Job(model, asked.request(model, method, unit, versus, step, options), target)
    explanations: list[Explanation | None] = []
    left = iter(records)
    while together := list(islice(left, TOGETHER)):
        results, numbers, rejected, _ = explain_records(job, together, first=0)
        if bad == "raise" and rejected:
            number, reason = rejected[0]
            raise LrpError(f"record {number + len(explanations)} of the partition cannot be explained: {reason}.")
        by_number = dict(zip(numbers, results, strict=True))
        explanations += [by_number.get(number) for number in range(len(together))]
    return explanations


@door
def explain_bag(
    model: Model,
    bag: Any,
    method: str | Method | Rule | None = None,
    target: int | str | None = None,
    *,
    bad: str = "raise",
    **options: Any,
) -> Bag:
    """A dask.bag of sequences to a dask.bag of explanations, computed when Dask is asked to.

    model, method, target, options: as in `explain`.
    bag: a dask.bag of what `explain` takes as x.
    bad: "none" gives None for a record that cannot be explained, "raise" an error.

    The model is one node of the graph, named by its digest: it goes to each worker once.
    Partitions are explained as they are cut, so another partitioning gives the same to rounding.
    """
    from dask.delayed import delayed

    one_of(bad, "bad", ("raise", "none"))
    if not hasattr(bag, "map_partitions"):
        raise LrpError(f"explain_bag: bag must be a dask.bag, got {type(bag).__name__}; a list is for explain_all.")
    if method is None:
        method = model.method
    explain_all(model, [], method, target, **options)  # what is wrong is said now, not by a worker
    held = delayed(model, name=f"lrpnumpy-model-{model.digest}", traverse=False)
    return bag.map_partitions(explain_partition, held, method, target, bad=bad, **options)
