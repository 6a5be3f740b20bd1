"""What methods with a reference share: the references that users pass in, checked; and the ledger.

A reference is an input that the network's answer is compared with. Relevances add up to f(x) - f(reference).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError, check_shape, numbers, shown
from lrpnumpy.encode import Encoded, as_array, encode_all, encode_port
from lrpnumpy.inputs import Input
from lrpnumpy.layers.base import Keep
from lrpnumpy.methods.base import Columns, Method, Question, Request, Unit
from lrpnumpy.methods.propagated import TOO_LARGE
from lrpnumpy.methods.through import Through
from lrpnumpy.model import Model
from lrpnumpy.packed import Packed
from lrpnumpy.passes import SequenceWindows, Trace, forward
from lrpnumpy.rules.propagation import Entry

GAP = 1e-3  # of |f(x) - f(reference)|: how much relevances may miss it by rounding
ROUNDING = 16 * np.finfo(np.float64).eps  # of max(|f(x)|, |f(reference)|): what float64 cannot tell from 0
KNOWN = ("zero", "mean", "unknown", "padding")  # references with a name; any other text is a word


def check_steps(reference: np.ndarray, x: Packed, name: str) -> None:
    """Raise unless a reference (1, D) or (T, D) has a row for every step of an input."""
    steps, T = len(reference), x.batch.lengths[0]
    if 1 < steps < T:
        raise LrpError(f"reference of {name!r} must be a vector or have at least the {T} steps of x, got {steps}.")


class References(NamedTuple):
    """The references as given, checked."""

    said: str | list[str]  # as results note them
    each: tuple[dict[str, np.ndarray], ...]  # of every reference, by input: (1, D) for every step, or (T, D)

    def packed(self, k: int, inputs: Mapping[str, Packed]) -> dict[str, Packed]:
        """The k-th reference for a batch of records: as many rows as these have."""
        out = {}
        for name, x in inputs.items():
            value = self.each[k][name].astype(x.rows.dtype, copy=False)
            check_steps(value, x, name)
            out[name] = Packed(value[x.batch.step if len(value) > 1 else np.zeros_like(x.batch.step)], x.batch)
        return out


def references_of(question: Question, keep: Keep) -> Iterator[tuple[dict[str, Packed], SequenceWindows | None, Trace]]:
    """Each reference for the records of a forward pass, its windows where these are windows, and its forward pass."""
    trace, references = question.trace, question.request.plan
    for k in range(len(references.each)):
        windows = trace.windows
        if windows is None:
            x0 = references.packed(k, trace.inputs)
        else:
            windows = windows._replace(inputs=references.packed(k, windows.inputs))
            x0 = windows.cut(windows.inputs)
        yield x0, windows, forward(trace.model, x0, keep, windows)


@dataclass(frozen=True)
class Referring(Method):
    """A method that explains f(x) - f(reference).

    reference: the input compared with: "zero" (after scaling, so the mean if the model has a scaler), a vector (D,), a
        sequence of at least T steps, "mean" for the mean step of the data, a word, "unknown" or "padding"; a list of
        these for the mean over several; for a network with several inputs a dict.
    data: the sequences for reference="mean".
    """

    reference: str | np.ndarray | Sequence[Any] | Mapping[str, Any] = "zero"
    data: Any = None

    conserves = "f_c(x) - f_c(reference)"
    kind = "reference"

    def __post_init__(self) -> None:
        if isinstance(self.reference, np.ndarray):
            vars(self)["reference"] = frozen(self.reference)

    def prepare(self, model: Model, unit: Unit) -> References:
        """The references, as a `model` takes them, whatever the `unit`."""
        return references(model, self.reference, self.data)

    def settings(self, plan: References) -> dict[str, Any]:
        """The options for the record of a result; of the references in the `plan` what tells them from others."""
        found = super().settings(plan) | {"reference": plan.said}
        found.pop("data", None)
        return found

    def most_gap(self, dtype: np.dtype) -> float:
        """How large the gap may be in this `dtype`, relative to |f(x) - f(reference)|."""
        return GAP


@dataclass(frozen=True)
class Multiplying(Referring):
    """A method that multiplies the difference from a reference by what a backward pass gives.

    through: a dict of layers and units: only what passes through these units where the layer's output goes to later
        layers; the rest is in the ledger, as `cut`.
    """

    through: Through | None = None


def frozen(array: np.ndarray) -> np.ndarray:
    """A copy that nobody can change."""
    array = array.copy()
    array.setflags(write=False)
    return array


def references(model: Model, value: Any, data: Any = None) -> References:
    """What users pass in as `reference` and `data`."""
    every = value if _is_several(value) else [value]
    if not len(every):
        raise LrpError("reference is an empty list; pass at least one reference.")
    mean = None if data is None else _mean(model, data)
    each, said = [], []
    for one in every:
        given = one if isinstance(one, Mapping) else dict.fromkeys(model.inputs, one)
        is_of_all = isinstance(one, Mapping) or len(model.inputs) == 1 or (isinstance(one, str) and one in KNOWN)
        if not is_of_all or not given.keys() <= model.inputs.keys():
            raise LrpError(
                f"reference must be a dict with the inputs {', '.join(map(repr, model.inputs))}, or 'zero' or 'mean' "
                f"for all of them, got {shown(one)}."
            )
        arrays = {
            name: _read(port, given.get(name, "zero"), None if mean is None else mean[name], f"reference of {name!r}")
            for name, port in model.inputs.items()
        }
        each.append(arrays)
        said.append(one if isinstance(one, str) else _digest(arrays.values()))
    if len(said) > 3:
        said = [f"{len(said)} references, {_digest(array for one in each for array in one.values())}"]
    return References(said if len(each) > 1 else said[0], tuple(each))


def _is_several(value: Any) -> bool:
    """Whether these are several references: a list of arrays, words or dicts, or an array (N, T, D)."""
    if isinstance(value, np.ndarray):
        return value.ndim == 3
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return is_list and all(isinstance(one, (str, np.ndarray, Mapping)) for one in value)


def _read(port: Input, value: Any, mean: np.ndarray | None, where: str) -> np.ndarray:
    """One reference of one input: (1, D) for every step, or (T, D)."""
    embedding = port.embedding
    if isinstance(value, str):
        if value == "zero":
            return np.zeros((1, port.size), port.dtype)  # type: ignore[arg-type]
        if value == "mean":
            if mean is None:
                raise LrpError(f"{where} must come with data=… where it is 'mean': the sequences to take the mean of.")
            return mean
        if embedding is None:
            raise LrpError(f"{where} must be 'zero', 'mean' or numbers, as the input has no words, got {shown(value)}.")
        row = {"unknown": embedding.unknown_row, "padding": -1 if embedding.mask is None else embedding.mask}.get(value)
        if row is None:
            return vectors(encode_port(port, [value], [where])[0])
        if row < 0:
            raise LrpError(f"{where} must be what the embedding has, got {shown(value)}; try 'zero' or a word.")
        return embedding.E[row][None]
    array = as_array(value, where)
    if embedding is not None and array.dtype.kind in "iu":  # token ids
        return vectors(encode_port(port, [np.atleast_1d(array)], [where])[0])
    array = np.atleast_2d(array)
    if not port.steps and len(array) != 1:
        raise LrpError(f"{where} must be one vector of {port.size} numbers, got shape {array.shape}.")
    check_shape(array, f"{where}, a vector or a sequence,", (None, port.size))
    return port.scaled(numbers(array, where, port.given_dtype))


def vectors(one: Encoded) -> np.ndarray:
    """(T, D) the vectors that the network reads, before they are scaled."""
    return one.embedding.E[one.ids] if one.x is None else one.x  # type: ignore[union-attr]


def _mean(model: Model, data: Any) -> dict[str, np.ndarray]:
    """(1, D) the mean over all steps of some records, of each input."""
    records = encode_all(model, data)
    if not records:
        raise LrpError("data must have at least one sequence, got none.")
    found = {}
    for name, port in model.inputs.items():
        found[name] = port.scaled(np.concatenate([vectors(one[name]) for one in records]).mean(axis=0, keepdims=True))
    return found


def _digest(arrays: Any) -> str:
    every, state = [*arrays], hashlib.sha256()
    for array in every:
        state.update(f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return f"given {', '.join(str(array.shape) for array in every[:3])}, sha256 {state.hexdigest()[:16]}"


def reference_scores(question: Question, scores: np.ndarray) -> np.ndarray:
    """(n, C) scores of a reference's forward pass at the explained predictions."""
    return scores if question.rows is None else scores[question.rows]


def new_entry(question: Question) -> Entry:
    """Where the largest relevance of each record is noted."""
    return Entry(np.zeros((Entry.SIZE, len(question.scores)), question.scores.dtype))


def finished(
    question: Question,
    targets: np.ndarray,
    values: dict[str, np.ndarray],
    of_reference: np.ndarray,
    entry: Entry | None = None,
    error: np.ndarray | None = None,
    whole: np.ndarray | None = None,
) -> Columns:
    """Results with their ledger, from the relevance (R, D) of each input and the scores (n, C) of the reference.

    `entry` has seen relevance inside the network, `error` (n,) is the largest error of a feature, and `whole` (n,) what
    the inputs would have received had nothing been cut off.
    """
    columns = question.columns(targets, values)
    inputs = question.received(columns)
    score, reference = (question.combined(scores, targets) for scores in (question.scores, of_reference))
    entry = new_entry(question) if entry is None else entry
    for name, part in values.items():
        entry.see(part, question.trace.inputs[name].batch)
    error = np.zeros_like(score) if error is None else error
    whole = inputs if whole is None else whole
    gap, largest = score - reference - whole, entry.array[Entry.LARGEST]
    columns.books = np.stack([inputs, score, reference, gap, largest, error, whole - inputs])
    missed, huge = missed_and_huge(columns.books, question.request)
    columns.sound = ~(missed | huge)
    first = columns.inputs[question.trace.model.main]
    size = first.batch.sums(abs(first.relevance))
    most = GAP * unit_of(score, reference, question.request.versus)
    columns.sound[np.finfo(size.dtype).eps * size > most] = False  # rounding changes the sum of the relevances
    return columns


def unit_of(score: np.ndarray, reference: np.ndarray, versus: int | None) -> np.ndarray:
    """What gap and error are relative to: |f(x) - f(reference)|; with versus |f(x)|, where that is smaller."""
    explained = abs(score - reference)
    if versus is not None:
        explained = np.minimum(explained, abs(score))
    return np.maximum(explained, np.finfo(explained.dtype).tiny)


def missed_and_huge(books: np.ndarray, request: Request) -> tuple[np.ndarray, np.ndarray]:
    """Whether relevances miss what they should be, in sum or one of them; and whether one is too large.

    `books` (…, rows, n) as for `ledgers.by_name`.
    """
    _, score, reference, gap, largest, error, _ = books.swapaxes(0, -2)  # rows first
    size = np.maximum(abs(score), abs(reference))
    assert isinstance(request.method, Referring)
    most = request.method.most_gap(gap.dtype) * unit_of(score, reference, request.versus)
    missed = ~(np.maximum(abs(gap), error) <= np.maximum(most, ROUNDING * size))
    return missed, largest > TOO_LARGE * size
