"""What users pass in to checked sequences, and those to a packed batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain, groupby, pairwise, repeat
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy import text
from lrpnumpy.checks import LrpError, check_shape, numbers
from lrpnumpy.layers import Embedding
from lrpnumpy.model import Model
from lrpnumpy.packed import Packed, Words, batch_of


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
    """Copies of arrays of numbers, whatever their type and order in memory: parts of one array, where all is well."""
    if all(array.dtype.kind in "fiu" for array in arrays):
        with np.errstate(over="ignore", invalid="ignore"):
            joined = np.ascontiguousarray(np.concatenate(arrays, dtype=model.dtype, casting="unsafe"))
        if np.isfinite(joined).all():
            joined.setflags(write=False)
            stops = [*accumulate(map(len, arrays))]
            return [joined[a:b] for a, b in pairwise([0, *stops])]
    return [numbers(array, where, model.dtype) for array, where in zip(arrays, names, strict=True)]


def packed(model: Model, sequences: Sequence[Encoded], look_up: bool = False) -> Packed:
    """A batch of sequences that are sorted already, longest first.

    With `look_up` the rows stay words: the first layer finds them in its table of projected words.
    """
    embedding: Any = model.embedding
    parts: list[Any] = [sequence.ids if sequence.x is None else sequence.x for sequence in sequences]
    batch = batch_of([len(part) for part in parts])
    if not look_up:
        parts = [part if part.ndim == 2 else embedding.E.take(part, axis=0) for part in parts]
    joined = parts[0] if len(parts) == 1 else batch.pack(np.concatenate(parts))
    if look_up:
        return Packed(embedding.E[:0], batch, Words(joined, embedding))
    return Packed(joined, batch)
