"""What users pass in to a packed batch: longest sequence first, rows of one time step together.

A packed batch needs no padding and no masks: at each step the sequences still running are the first rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, chain, groupby, pairwise, repeat
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy import text
from lrpnumpy.checks import FLOATS, LrpError, check_shape, float_array
from lrpnumpy.model import Embedding, Model


class Encoded(NamedTuple):
    """One checked sequence: token ids or vectors, the words where there are any, and which positions count."""

    ids: np.ndarray | None  # (T,)
    x: np.ndarray | None  # (T, D), where there are no ids
    length: int  # as passed in
    kept: np.ndarray | None = None  # positions that are not padding, where some are
    words: tuple[str, ...] | None = None  # as passed in
    embedding: Embedding | None = None  # whose words the ids are

    @property
    def steps(self) -> int:
        """Number T of steps that the network sees."""
        return len(self.ids if self.ids is not None else self.x)  # type: ignore[arg-type]

    @property
    def tokens(self) -> tuple[str, ...] | None:
        """The words as passed in, or those that the ids stand for."""
        if self.words is not None or self.embedding is None or self.embedding.vocabulary is None:
            return self.words
        vocabulary, ids = self.embedding.vocabulary, self.ids
        if self.kept is not None:
            ids = np.full(self.length, self.embedding.mask)
            ids[self.kept] = self.ids
        return tuple([vocabulary[k] for k in ids.tolist()])  # type: ignore[union-attr]


Encoder = Callable[[Model, Sequence[Any], Sequence[str]], list[Encoded]]


def encode(model: Model, value: Any, where: str = "x") -> Encoded:
    """One sequence in any of its forms: a string, a list of words, token ids, or a (T, D) array."""
    encoder, form = _form(model, value, where)
    return encoder(model, [form], [where])[0]


def encode_all(model: Model, sequences: Any) -> list[Encoded]:
    """Several sequences, those of one form together; errors name the position in the batch."""
    if isinstance(sequences, str):
        raise LrpError(
            "sequences must be a list of sequences, got one string; use the function for one sequence, or [text]."
        )
    if isinstance(sequences, np.ndarray) and sequences.ndim not in (1, 2, 3):
        raise LrpError(f"sequences must be a list of sequences or a (N, T, D) array, got shape {sequences.shape}.")
    forms = [(*_form(model, value, where := f"sequence {k}"), where) for k, value in enumerate(sequences)]
    found: list[Encoded] = []
    for encoder, some in groupby(forms, itemgetter(0)):
        _, values, names = zip(*some, strict=True)
        found += encoder(model, values, names)
    return found


def _form(model: Model, value: Any, where: str) -> tuple[Encoder, Any]:
    """What a sequence is, words looked up, token ids or vectors, and the function that encodes such."""
    if isinstance(value, str):
        if model.embedding is None or model.embedding.vocabulary is None:
            raise LrpError(
                f"{where}: this model has no vocabulary, so it must get a ({'T'}, {model.inputs}) array, got a string."
            )
        value = text.tokens(value, model.embedding.tokenizer)
        if not value:
            raise LrpError(f"{where} must have at least one word, got an empty string.")
    if isinstance(value, Sequence) and len(value) and all(map(str.__instancecheck__, value)):
        if model.embedding is None or model.embedding.vocabulary is None:
            raise LrpError(
                f"{where}: this model has no vocabulary, so it must get a (T, {model.inputs}) array, got words."
            )
        return _words, (text.lookup(model.embedding, value, where), tuple(value))
    array = value if isinstance(value, np.ndarray) else _as_array(value, where)
    if array.ndim and not len(array):
        raise LrpError(f"{where} must have at least one step, got an empty sequence.")
    if array.dtype.kind in "iu" and array.ndim == 1:
        if model.embedding is None:
            raise LrpError(
                f"{where}: this model has no embedding, so it must get a (T, {model.inputs}) float array, got integers."
            )
        return _ids, array
    if array.dtype.kind in "iu" and not isinstance(value, np.ndarray):
        array = array.astype(np.float64)
    if array.ndim == 1 and array.dtype.kind == "f":
        raise LrpError(
            f"{where} must have shape (T, {model.inputs}), got {array.shape}; a series of one variable is x[:, None]."
        )
    return _vectors, array


def _as_array(value: Any, where: str) -> np.ndarray:
    try:
        return np.asarray(value)
    except ValueError:
        raise LrpError(
            f"{where} must be a string, a list of words, token ids or a (T, D) array, got a ragged list."
        ) from None


def _words(model: Model, sequences: Sequence[tuple[list[int], tuple[str, ...]]], names: Sequence[str]) -> list[Encoded]:
    ids, words = zip(*sequences, strict=True)
    return _unmasked(model, np.array([*chain.from_iterable(ids)], np.int64), words, names, words)


def _ids(model: Model, sequences: Sequence[np.ndarray], names: Sequence[str]) -> list[Encoded]:
    embedding: Any = model.embedding
    ids = np.concatenate(sequences, dtype=np.int64, casting="unsafe")
    if ids.min() < 0 or ids.max() >= len(embedding.E):
        for array, where in zip(sequences, names, strict=True):
            if len(wrong := np.flatnonzero((array < 0) | (array >= len(embedding.E)))):
                raise LrpError(
                    f"{where}: token ids must lie from 0 to {len(embedding.E) - 1}, "
                    f"got {array[wrong[0]]} at position {wrong[0]}."
                )
    return _unmasked(model, ids, sequences, names, repeat(None))


def _unmasked(
    model: Model,
    ids: np.ndarray,
    sequences: Sequence[Sequence[Any] | np.ndarray],
    names: Sequence[str],
    words: Iterable[tuple[str, ...] | None],
) -> list[Encoded]:
    """The ids of sequences that follow one another as one record each, less padding."""
    embedding: Any = model.embedding
    mask = embedding.mask
    is_padded = mask is not None and (ids == mask).any()
    found, start = [], 0
    for sequence, where, spelled in zip(sequences, names, words, strict=False):
        length = len(sequence)
        own, kept = ids[start : start + length], None
        start += length
        if is_padded and (own == mask).any():
            kept = np.flatnonzero(own != mask)
            if not len(kept):
                raise LrpError(
                    f"{where} must have at least one step that is not padding, got {length} times id {mask}."
                )
            own = own[kept]
        found.append(Encoded(own, None, length, kept, spelled, embedding))
    return found


def _vectors(model: Model, arrays: Sequence[np.ndarray], names: Sequence[str]) -> list[Encoded]:
    for array, where in zip(arrays, names, strict=True):
        check_shape(array, where, (None, model.inputs))
    found = []
    for x, where in zip(_checked(model, arrays, names), names, strict=True):
        length, kept = len(x), None
        if model.mask_value is not None:
            kept = np.flatnonzero((x != x.dtype.type(model.mask_value)).any(axis=1))
            if not len(kept):
                raise LrpError(
                    f"{where} must have at least one step that is not padding, got {model.mask_value} everywhere."
                )
            x, kept = (x, None) if len(kept) == length else (x[kept], kept)
        found.append(Encoded(None, x, length, kept))
    return found


def _checked(model: Model, arrays: Sequence[np.ndarray], names: Sequence[str]) -> list[np.ndarray]:
    """Copies of arrays of floats: parts of one, where nothing is wrong with any."""
    if all(array.dtype in FLOATS for array in arrays):
        joined = np.concatenate(arrays, dtype=model.dtype, casting="same_kind")
        if np.isfinite(joined).all():
            joined.setflags(write=False)
            stops = [*accumulate(map(len, arrays))]
            return [joined[a:b] for a, b in pairwise([0, *stops])]
    return [float_array(array, where, dtype=model.dtype) for array, where in zip(arrays, names, strict=True)]


@dataclass(frozen=True, eq=False, init=False)
class Batch:
    """Some sequences, packed: row first[t] + s is step t of the s-th longest."""

    lengths: np.ndarray  # (n,), longest first
    first: np.ndarray  # (T+1,)
    starts: np.ndarray  # (n,) where each sequence begins when they follow one another
    owner: np.ndarray  # (R,) which sequence each packed row belongs to
    step: np.ndarray  # (R,) and which step of it the row is
    rows: np.ndarray  # (R,) where each packed row stands when the sequences follow one another
    x: np.ndarray  # (R, D)
    ids: np.ndarray | None  # (R,)

    def __init__(self, x: np.ndarray, ids: np.ndarray | None, indices: dict[str, np.ndarray]) -> None:
        """`indices` are the other fields, and any of the properties below that are known already."""
        vars(self).update(indices, x=x, ids=ids)

    @property
    def n(self) -> int:
        """Number of sequences."""
        return len(self.lengths)

    @cached_property
    def last(self) -> np.ndarray:
        """Packed row of each sequence's last step."""
        return self.first[self.lengths - 1] + np.arange(self.n)

    @cached_property
    def flip(self) -> np.ndarray:
        """Packed row of the mirrored step of the same sequence."""
        return self.first.take(self.lengths.take(self.owner) - 1 - self.step) + self.owner

    @cached_property
    def at(self) -> np.ndarray:
        """Where the state before each step is kept: the initial states first, then the rows."""
        return np.concatenate(([0], self.first[:-1] + self.n))

    def winners(self, packed: np.ndarray) -> np.ndarray:
        """(R, M) rows to the same shape: True where a row is the first to reach its sequence's maximum."""
        flat = self.unpack(packed)
        won = np.zeros(flat.shape, bool)
        for a, n in zip(self.starts, self.lengths, strict=True):
            won[a + flat[a : a + n].argmax(axis=0), np.arange(flat.shape[1])] = True
        return won[self.rows]

    def unpack(self, packed: np.ndarray) -> np.ndarray:
        """Packed rows (R, …) to the sequences one after another."""
        if self.n == 1:
            return packed
        out = np.empty_like(packed)
        out[self.rows] = packed
        return out

    def split(self, packed: np.ndarray) -> list[np.ndarray]:
        """Packed rows (R, …) to one array a sequence."""
        flat = self.unpack(packed)
        return [flat[a : a + n] for a, n in zip(self.starts, self.lengths, strict=True)]


def indices(lengths: np.ndarray) -> dict[str, np.ndarray]:
    """The indices of a batch with these lengths, longest first."""
    T, n = int(lengths[0]), len(lengths)
    running = n - lengths[::-1].searchsorted(np.arange(T), side="right")
    first = np.zeros(T + 1, np.int64)
    running.cumsum(out=first[1:])
    step = np.arange(T).repeat(running)
    owner = np.arange(len(step)) - first.take(step)
    starts = lengths.cumsum() - lengths
    own = {"starts": starts, "owner": owner, "step": step, "rows": starts.take(owner) + step}
    return {"lengths": lengths, "first": first, **own}


@lru_cache(maxsize=256)
def _alone(T: int) -> dict[str, np.ndarray]:
    """The indices of a batch of one sequence, and what follows from them: they depend on its length only."""
    known = indices(np.array([T]))
    batch = Batch(np.empty((T, 0)), None, known)
    known |= {"last": batch.last, "flip": batch.flip}
    for array in known.values():
        array.setflags(write=False)
    return known


def pack(model: Model, sequences: Sequence[Encoded], look_up: bool = False) -> Batch:
    """A batch of sequences that are sorted already, longest first; with `look_up` of ids alone, x being (R, 0)."""
    embedding: Any = model.embedding
    parts: list[Any] = [sequence.ids if sequence.x is None else sequence.x for sequence in sequences]
    is_short = len(parts) == 1 and len(parts[0]) < 1000
    known = _alone(len(parts[0])) if is_short else indices(np.array([len(part) for part in parts], np.int64))
    ids = None
    if all(sequence.x is None for sequence in sequences):
        ids = in_rows(parts, known["rows"])
        x = np.empty((len(ids), 0), model.dtype) if look_up else embedding.E.take(ids, axis=0)
    else:
        x = in_rows([part if part.ndim == 2 else embedding.E.take(part, axis=0) for part in parts], known["rows"])
    return Batch(x, ids, known)


def in_rows(parts: list[np.ndarray], rows: np.ndarray) -> np.ndarray:
    """One array a sequence, longest first, to packed rows."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts).take(rows, axis=0)


def chunks(lengths: Sequence[int], width: int, most: int = 1 << 21) -> list[np.ndarray]:
    """Positions of the sequences of each chunk, longest first; chunks of similar lengths that fit the cache.

    `width` is the widest layer: narrow networks take more sequences at once, so that each step has enough to do, and
    no chunk has more than `most` numbers in an array of the trace unless a single sequence has.
    """
    steps = np.asarray(lengths)
    order = np.argsort(-steps, kind="stable")
    size = max(48, 3072 // width)
    cut, out = 0, []
    while cut < len(order):
        fit = max(1, min(size, most // (width * int(steps[order[cut]]))))
        out.append(order[cut : cut + fit])
        cut += fit
    return out
