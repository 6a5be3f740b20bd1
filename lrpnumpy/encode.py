"""What users pass in to checked sequences, and those to a packed batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, chain, groupby, pairwise, repeat
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy import text
from lrpnumpy.checks import LrpError, check_shape, numbers
from lrpnumpy.layers import Embedding
from lrpnumpy.model import Input, Model
from lrpnumpy.packed import Packed, Words, batch_of


class Encoded(NamedTuple):
    """One checked record: token ids or vectors, the words where there are any, and which positions count.

    Of a network with several inputs these are those of the main one; `others` has the rest by name.
    """

    ids: np.ndarray | None  # (T,)
    x: np.ndarray | None  # (T, D), where there are no ids
    length: int  # as passed in
    kept: np.ndarray | None = None  # positions that are not padding, where some are
    words: tuple[str, ...] | None = None  # as passed in
    embedding: Embedding | None = None  # whose words the ids are
    others: dict[str, Encoded] | None = None

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


Encoder = Callable[[Input, Sequence[Any], Sequence[str]], list[Encoded]]


def encode(model: Model, value: Any, where: str = "x") -> Encoded:
    """One record in any of its forms: a string, a list of words, token ids, a (T, D) array; or a dict of such."""
    if len(model.ports) == 1 and (isinstance(value, (np.ndarray, str, list)) or not isinstance(value, Mapping)):
        port = model.ports[model.main]
        encoder, form = _form(port, value, where)
        return _long_enough(model, encoder(port, [form], [where]), [where])[0]
    return _encode_ports(model, [value], [where])[0]


def encode_all(model: Model, sequences: Any) -> list[Encoded]:
    """Several records, those of one form together; errors name the position in the batch."""
    if isinstance(sequences, str):
        raise LrpError(
            "sequences must be a list of sequences, got one string; use the function for one sequence, or [text]."
        )
    if isinstance(sequences, np.ndarray) and sequences.ndim not in (1, 2, 3):
        raise LrpError(f"sequences must be a list of sequences or a (N, T, D) array, got shape {sequences.shape}.")
    if isinstance(sequences, Mapping):  # a dict of arrays: one record for each entry of all of them
        counts = {name: len(column) for name, column in sequences.items()}
        if len(set(counts.values())) > 1:
            raise LrpError(f"sequences must have as many records of each input, got {counts}.")
        columns = zip(*sequences.values(), strict=True)
        sequences = [dict(zip(sequences, values, strict=True)) for values in columns]
    where = [f"sequence {k}" for k in range(len(sequences))]
    if len(model.ports) > 1 or any(isinstance(value, Mapping) for value in sequences):
        return _encode_ports(model, sequences, where)
    return _long_enough(model, encode_port(model.ports[model.main], sequences, where), where)


def _long_enough(model: Model, records: list[Encoded], where: Sequence[str], name: str | None = None) -> list[Encoded]:
    """The values of one input, if all have as many steps as the layers need."""
    least = model.least[name or model.main]
    for record, place in zip(records, where, strict=True) if least > 1 else ():
        if record.steps < least:
            raise LrpError(
                f"{place} must have at least {least} steps for the layers of this model, got {record.steps}."
            )
    return records


def _encode_ports(model: Model, records: Sequence[Any], where: Sequence[str]) -> list[Encoded]:
    """Records that are dicts of input name to value."""
    wanted = ", ".join(map(repr, model.ports))
    for record, place in zip(records, where, strict=True):
        if not isinstance(record, Mapping):
            raise LrpError(f"{place} must be a dict with the inputs {wanted}, got {type(record).__name__}.")
        if {*record} != {*model.ports}:
            raise LrpError(f"{place} must have the inputs {wanted}, got {', '.join(map(repr, record)) or 'none'}.")
    found = {}
    for name, port in model.ports.items():
        places = [f"{place}, input {name!r}" for place in where]
        values = encode_port(port, [record[name] for record in records], places)
        found[name] = _long_enough(model, values, places, name)
    main = found.pop(model.main)
    return [one._replace(others={name: column[k] for name, column in found.items()}) for k, one in enumerate(main)]


def encode_port(port: Input, values: Sequence[Any], where: Sequence[str]) -> list[Encoded]:
    """What one input gets in several records."""
    forms = [(*_form(port, value, place), place) for value, place in zip(values, where, strict=True)]
    found: list[Encoded] = []
    for encoder, some in groupby(forms, itemgetter(0)):
        _, parts, names = zip(*some, strict=True)
        found += encoder(port, parts, names)
    return found


def _form(port: Input, value: Any, where: str) -> tuple[Encoder, Any]:
    """The function that encodes this form of input (words, token ids or vectors), and what to hand to it."""
    if not port.steps:  # one vector, one word or one id: a sequence of one step
        value = [value] if isinstance(value, str) or np.ndim(value) == (0 if port.embedding else 1) else value
    if isinstance(value, str) or (
        isinstance(value, Sequence) and len(value) and all(map(str.__instancecheck__, value))
    ):
        if port.embedding is None or port.embedding.vocabulary is None:
            got = "a string" if isinstance(value, str) else "words"
            raise LrpError(
                f"{where}: this model has no vocabulary, so it must get a (T, {port.size}) array, got {got}."
            )
        if isinstance(value, str) and not (value := text.tokens(value, port.embedding.tokenizer)):
            raise LrpError(f"{where} must have at least one word, got an empty string.")
        return _words, (text.lookup(port.embedding, value, where), tuple(value))
    array = value if isinstance(value, np.ndarray) else _as_array(value, where)
    if array.ndim and not len(array):
        raise LrpError(f"{where} must have at least one step, got an empty sequence.")
    if array.dtype.kind in "iu" and array.ndim == 1:
        if port.embedding is None:
            raise LrpError(
                f"{where}: this model has no embedding, so it must get a (T, {port.size}) float array, got integers."
            )
        return _ids, array
    if array.ndim == 1 and array.dtype.kind == "f":
        raise LrpError(
            f"{where} must have shape (T, {port.size}), got {array.shape}; a series of one variable is x[:, None]."
        )
    return _vectors, array


def _as_array(value: Any, where: str) -> np.ndarray:
    try:
        return np.asarray(value)
    except ValueError:
        raise LrpError(
            f"{where} must be a string, a list of words, token ids or a (T, D) array, got a ragged list."
        ) from None


def _words(port: Input, sequences: Sequence[tuple[list[int], tuple[str, ...]]], names: Sequence[str]) -> list[Encoded]:
    ids, words = zip(*sequences, strict=True)
    return _unmasked(port, np.array([*chain.from_iterable(ids)], np.int64), words, names, words)


def _ids(port: Input, sequences: Sequence[np.ndarray], names: Sequence[str]) -> list[Encoded]:
    embedding: Any = port.embedding
    ids = np.concatenate(sequences, dtype=np.int64, casting="unsafe")
    if ids.min() < 0 or ids.max() >= len(embedding.E):
        for array, where in zip(sequences, names, strict=True):
            if len(wrong := np.flatnonzero((array < 0) | (array >= len(embedding.E)))):
                raise LrpError(
                    f"{where}: token ids must lie from 0 to {len(embedding.E) - 1}, "
                    f"got {array[wrong[0]]} at position {wrong[0]}."
                )
    return _unmasked(port, ids, sequences, names, repeat(None))


def _unmasked(
    port: Input,
    ids: np.ndarray,
    sequences: Sequence[Sequence[Any] | np.ndarray],
    names: Sequence[str],
    words: Iterable[tuple[str, ...] | None],
) -> list[Encoded]:
    """The ids of sequences that follow one another as one record each, less padding."""
    embedding: Any = port.embedding
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


def _vectors(port: Input, arrays: Sequence[np.ndarray], names: Sequence[str]) -> list[Encoded]:
    for array, where in zip(arrays, names, strict=True):
        check_shape(array, where, (None, port.size))
    found = []
    for x, where in zip(_checked(port, arrays, names), names, strict=True):
        length, kept = len(x), None
        if not port.steps and length != 1:
            raise LrpError(f"{where} must be one vector of {port.size} numbers, got {length} of them.")
        if port.mask_value is not None:
            kept = np.flatnonzero((x != x.dtype.type(port.mask_value)).any(axis=1))
            if not len(kept):
                raise LrpError(
                    f"{where} must have at least one step that is not padding, got {port.mask_value} everywhere."
                )
            x, kept = (x, None) if len(kept) == length else (x[kept], kept)
        found.append(Encoded(None, x, length, kept))
    return found


def _checked(port: Input, arrays: Sequence[np.ndarray], names: Sequence[str]) -> list[np.ndarray]:
    """Copies of arrays of numbers, whatever their type and order in memory: parts of one array, where all is well."""
    if all(array.dtype == port.dtype for array in arrays):
        joined = np.ascontiguousarray(np.concatenate(arrays))
        if np.isfinite(joined).all():
            joined.setflags(write=False)
            stops = [*accumulate(map(len, arrays))]
            return [joined[a:b] for a, b in pairwise([0, *stops])]
    return [numbers(array, where, port.dtype) for array, where in zip(arrays, names, strict=True)]


def packed(model: Model, records: Sequence[Encoded], look_up: bool = False) -> dict[str, Packed]:
    """A batch of records that are sorted already, longest first: every input by name.

    With `look_up` the rows stay words: the first layer finds them in its table of projected words.
    """
    main = _packed(model.ports[model.main], records, look_up)
    if len(model.ports) == 1:
        return {model.main: main}
    others = {
        name: _packed(model.ports[name], [record.others[name] for record in records], False)  # type: ignore[index]
        for name in model.ports
        if name != model.main
    }
    return {model.main: main, **others}


def _packed(port: Input, records: Sequence[Encoded], look_up: bool) -> Packed:
    embedding: Any = port.embedding
    parts: list[Any] = [record.ids if record.x is None else record.x for record in records]
    batch = batch_of([len(part) for part in parts])
    if not look_up:
        parts = [part if part.ndim == 2 else embedding.E.take(part, axis=0) for part in parts]
    joined = parts[0] if len(parts) == 1 else batch.pack(np.concatenate(parts))
    if look_up:
        return Packed(embedding.E[:0], batch, Words(joined, embedding))
    return Packed(joined, batch)
