"""One chunk of records to the arrays of its explanations: the same bits wherever and whenever it is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError, UserCodeError
from lrpnumpy.corpus import columns
from lrpnumpy.corpus.lines import fields
from lrpnumpy.corpus.record import Chunk, too_long
from lrpnumpy.corpus.sources import sequence
from lrpnumpy.encode import Encoded, EncodedRecord, encode
from lrpnumpy.explain import run as explain_encoded
from lrpnumpy.kernels import compile as kernels
from lrpnumpy.methods.base import Request
from lrpnumpy.model import Model
from lrpnumpy.inputs import Input
from lrpnumpy.result import Mark
from lrpnumpy.results import Explanations


@dataclass(frozen=True, eq=False)
class Job:
    """What is done to every chunk of a run."""

    model: Model
    request: Request
    target: int | str | None
    kind: str  # of the source
    field: str | None
    longest: int
    columns: tuple[str, ...] = ()  # fields of the records that are kept beside the explanations


class Part(NamedTuple):
    """The explanations of a chunk: arrays by their name in the output file."""

    arrays: dict[str, np.ndarray]
    rejected: list[tuple[int, str]]  # number of the record, and why
    doubtful: int  # explanations whose relevance is not finite, or decided by rounding


def settle() -> Callable[[], None]:
    """Have results rounded alike everywhere: compiled kernels only, and BLAS on one thread. Returns what undoes it.

    Plain functions, which stand in for kernels that are not compiled yet, round otherwise, and so does a large matrix
    product on another number of threads. Where threadpoolctl (of the extra `dask`) is missing, BLAS stays as it is.
    """
    before, limits = kernels.mode, None
    with suppress(ImportError):
        from threadpoolctl import threadpool_limits

        limits = threadpool_limits(1, "blas")
    if before != "never":
        kernels.mode = "wait"

    def undo() -> None:
        kernels.mode = before
        if limits is not None:
            limits.restore_original_limits()

    return undo


def explain_chunk(job: Job, chunk: Chunk) -> Part:
    """Explain the records that can be, on one thread, and say of the others why not."""
    kept: dict[int, tuple[EncodedRecord, Any]] = {}
    rejected: dict[int, str] = {}

    def attempt(number: int, work: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return work(*arguments)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            rejected[number] = str(error)[:500].rstrip(".")

    for number, record in enumerate(chunk.records, chunk.first):
        if (found := attempt(number, _encoded, job, record)) is not None:
            kept[number] = found
    try:
        result = _explained(job, kept)
    except UserCodeError:  # a rule that fails: no record is to blame
        raise
    except LrpError:  # some record has not the steps that a layer, the reference or `step` needs
        for number, one in kept.items():
            attempt(number, _explained, job, {number: one})
        kept = {number: one for number, one in kept.items() if number not in rejected}
        result = _explained(job, kept)
    out = {"records": np.array([*kept], np.int64), **_arrays(result)}
    for k, name in enumerate(job.columns):
        out |= columns.arrays(name, (beside[k] for _, beside in kept.values()))
    return Part(out, sorted(rejected.items()), _doubtful(result))


def _explained(job: Job, some: Mapping[int, tuple[EncodedRecord, Any]]) -> Explanations:
    encoded = [one for one, _ in some.values()]
    return explain_encoded(job.model, encoded, job.request, job.target, None, 1, progress=False)


def _encoded(job: Job, record: Any) -> tuple[EncodedRecord, Any]:
    """A record, and what stands in its columns."""
    model = job.model
    several = len(model.inputs) > 1
    one = encode(model, sequence(job.kind, job.field, record, several), "a record")
    longest = max(part.length for part in one.values())
    if longest > job.longest:
        raise LrpError(too_long(longest, job.longest))
    return one, fields(record, job.columns) if job.columns else ()


def _arrays(found: Explanations) -> dict[str, np.ndarray]:
    """Records or rows first, then classes where there are several, then what is left."""
    out = {"scores": found.scores}
    if not found.every_class:
        out["targets"] = found.targets
    for name, column in found.ledger.items():  # (C, layers, n) or fewer axes
        out[f"ledger/{name}"] = np.ascontiguousarray(np.moveaxis(column, -1, 0))
    if "cd" in found.single:
        entries = found.single["cd"]
        lead = (found.model.outputs,) if found.every_class else ()
        none = np.empty((*lead, 0), found.model.dtype)
        for name in ("relevant", "irrelevant", "bias"):  # one a step that the network saw
            joined = np.concatenate([none, *(getattr(entry, name) for entry in entries)], axis=-1)
            out[f"ledger/{name}"] = np.ascontiguousarray(joined.T)
        out["ledger/unassigned"] = np.array([entry.unassigned for entry in entries], found.model.dtype).reshape(
            -1, *lead
        )
        out["ledger/lengths"] = np.array([one.steps for one in found.main.encoded], np.int64)
    for name, one in found.inputs.items():
        before = "" if name == found.model.main else f"inputs/{name}/"
        rows = {"lengths": np.diff(one.starts), "relevance": np.ascontiguousarray(one.relevance.T)}
        if found.request.with_variables:
            features = one.feature_relevance
            if features is None:  # no records
                features = np.empty((*one.relevance.shape, found.model.inputs[name].size), found.model.dtype)
            rows["feature_relevance"] = np.ascontiguousarray(np.moveaxis(features, -2, 0))
        rows |= _words_and_marks(found.model.inputs[name], one.encoded)
        out |= {before + key: array for key, array in rows.items()}
    return out


def _words_and_marks(port: Input, records: list[Encoded]) -> dict[str, np.ndarray]:
    """The words of one input, where it has a vocabulary, and the marks of its steps, where there may be some."""
    out = {}
    if port.marks:
        out["marks"] = _marks(port, records)
    if port.embedding is not None and port.embedding.vocabulary is not None:
        out |= _words([one.tokens or ("",) * one.length for one in records])  # without words where vectors came in
    return out


def _marks(port: Input, records: list[Encoded]) -> np.ndarray:
    """The marks of all records one behind the other; at once where all are whole token ids, as most corpora are."""
    none = np.empty(0, np.uint8)
    embedding, whole = port.embedding, all(one.ids is not None and len(one.ids) == one.length for one in records)
    if embedding is not None and port.pad is None and whole:
        ids = np.concatenate([none, *(one.ids for one in records)])
        return (ids == embedding.unknown_row) * np.uint8(Mark.UNKNOWN)
    every = ((one.marks, one.length) for one in records)
    return np.concatenate([none, *(np.zeros(length, np.uint8) if marks is None else marks for marks, length in every)])


def _words(tokens: list[tuple[str, ...]]) -> dict[str, np.ndarray]:
    """Words as UTF-8, one behind the other, with the bytes of each word and of each sequence."""
    every = list(chain.from_iterable(tokens))
    text = "".join(every)
    data = text.encode("utf-8", "surrogatepass")  # JSON can hold half of a pair
    if len(data) > len(text):
        every = [word.encode("utf-8", "surrogatepass") for word in every]  # type: ignore[misc]
    lengths = np.fromiter(map(len, every), np.uint32, len(every))
    ends = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    stops = np.cumsum([0, *map(len, tokens)])
    return {
        "words/text": np.frombuffer(data, np.uint8),
        "words/lengths": lengths,
        "words/bytes": np.diff(ends[stops]),
    }


def _doubtful(found: Explanations) -> int:
    """How many explanations `explain` would warn of."""
    if not len(found):
        return 0
    return int(found.doubtful().sum())
