"""What users pass in to checked sequences, and those to a packed batch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, groupby, pairwise, repeat
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy import tables, text
from lrpnumpy.checks import MANY, AssumptionWarning, LrpError, check_shape, numbers, optional, outside, shown, unmasked
from lrpnumpy.fields import taken
from lrpnumpy.inputs import Input, listed
from lrpnumpy.layers import Embedding
from lrpnumpy.model import Model
from lrpnumpy.packed import REMEMBERED, Batch, LookedUp, Packed, single
from lrpnumpy.result import PAD, Mark

BATCH = "; a batch of sequences is for explain_all and predict_all"


class Encoded(NamedTuple):
    """One input of a checked record: token ids or vectors, words where there are any, and which positions count.

    A record is a dict of these by the name of the input.
    """

    ids: np.ndarray | None  # (T,)
    x: np.ndarray | None  # (T, D) in the units of the user, where there are no ids
    length: int  # positions: as passed in, and as padded or cut to a length
    kept: np.ndarray | None = None  # positions that the network sees, where it does not see all
    words: tuple[str, ...] | None = None  # as passed in, less what is cut off
    embedding: Embedding | None = None  # whose words the ids are
    padded: np.ndarray | None = None  # (length, D) where x has no rows for some of them
    labels: np.ndarray | None = None  # (length,) of the steps: datetime64, or strings; of a table that has any
    features: tuple[str, ...] | None = None  # names of the columns, of a table that has any
    added: tuple[int, int] = (0, 0)  # positions of padding added before and after; negative: positions cut off
    whole: Encoded | None = None  # the record that this one is the beginning of; what comes later is not seen
    window: tuple[dict[str, Encoded], int] | None = None  # the record that this is a window of, and its first step

    def copied(self) -> Encoded:
        """A copy with its own arrays."""
        return self._replace(ids=optional(np.copy, self.ids), x=optional(np.copy, self.x))

    @property
    def values(self) -> np.ndarray | None:
        """(length, D) numbers as passed in, with padding; None for words."""
        if self.whole is not None:
            return self.whole.values
        return self.x if self.padded is None else self.padded

    def windows(self, size: int, record: dict[str, Encoded]) -> list[Encoded]:
        """The window of at most `size` steps that ends at each step that the network sees, of a `record`."""
        plain = Encoded(None, None, 0, embedding=self.embedding, features=self.features)
        tokens, found = self.tokens, []
        for stop in range(1, self.steps + 1):
            first = max(0, stop - size)
            seen, steps = self.seen[first:stop], slice(first, stop)
            words = None if tokens is None else tuple(tokens[k] for k in seen)
            window = plain._replace(ids=taken(self.ids, steps), x=taken(self.x, steps), length=len(seen), words=words)
            found.append(window._replace(labels=taken(self.labels, seen), window=(record, first)))
        return found

    @property
    def rows(self) -> np.ndarray:
        """(T,) token ids, or (T, D) numbers."""
        return self.ids if self.x is None else self.x  # type: ignore[return-value]

    @property
    def steps(self) -> int:
        """Number T of steps that the network sees."""
        return len(self.rows)

    @property
    def seen(self) -> np.ndarray:
        """Positions that the network sees."""
        return np.arange(self.length) if self.kept is None else self.kept

    @property
    def tokens(self) -> tuple[str, ...] | None:
        """The words as passed in, or those of the ids; PAD for padding that was added."""
        if self.whole is not None:
            return self.whole.tokens
        words = self.words
        if words is not None and self.added == (0, 0):
            return words
        before, after = max(0, self.added[0]), max(0, self.added[1])
        if words is None:
            if self.embedding is None or self.embedding.vocabulary is None:
                return None
            vocabulary, ids = self.embedding.vocabulary, self.ids
            if self.kept is not None:
                ids = np.full(self.length, self.embedding.mask)
                ids[self.kept] = self.ids
            words = tuple([vocabulary[k] for k in ids[before : self.length - after].tolist()])  # type: ignore[index]
        return (PAD,) * before + words + (PAD,) * after

    @property
    def marks(self) -> np.ndarray | None:
        """(length,) what is special about each position, see `Mark`; None where nothing is."""
        if self.whole is not None:
            return self.whole.marks
        embedding: Any = self.embedding
        unknown = -1 if self.ids is None else embedding.unknown_row
        has_unknown = unknown >= 0 and unknown in self.ids.tolist()  # type: ignore[union-attr]
        if self.kept is None and self.added == (0, 0) and not has_unknown:
            return None
        found = np.full(self.length, Mark.PADDING, np.uint8)
        found[self.seen] = Mark.NONE
        if has_unknown:
            found[self.seen[self.ids == unknown]] = Mark.UNKNOWN
        before, after = (max(0, count) for count in self.added)
        if self.words is not None and embedding.unknown is False:
            rows = text.lookup(embedding, [self.words], [""])
            found[before : self.length - after][rows < 0] = Mark.UNKNOWN
        found[:before] = found[self.length - after :] = Mark.PADDING
        return found if found.any() else None


NO_LISTS = (type, bytes, bytearray, memoryview, set, frozenset, range)  # with a length, and no order or no sequences
EncodedRecord = dict[str, Encoded]
Encoder = Callable[[Input, Sequence[Any], Sequence[str]], list[Encoded]]


def encode(model: Model, value: Any, where: str = "x") -> EncodedRecord:
    """One record in any of its forms: a string, a list of words, token ids, a (T, D) array; or a dict of such."""
    if len(model.inputs) == 1 and (isinstance(value, (np.ndarray, str, list)) or not _is_dict(value)):
        return {model.main: encode_port(model.inputs[model.main], [value], [where], model.least[model.main])[0]}
    return _encode_ports(model, [value], [where])[0]


def in_order(records: Sequence[EncodedRecord], where: str) -> None:
    """Warn, once, where dates do not increase. `where` names a record, with {} for its number."""
    for k, record in enumerate(records):
        for one in record.values():
            if one.labels is None or (pair := tables.backwards(one.labels)) is None:
                continue
            text = f"{where.format(k)}: the dates do not increase, {pair[1]} comes after {pair[0]}; rows are taken in "
            text += "the order they have; sort them by their dates, such as by frame.sort_index()."
            warnings.warn(text, AssumptionWarning, stacklevel=outside())
            return


def as_trained(model: Model, lengths: Iterable[int], where: str) -> None:
    """Warn, once, where a series has not the number of steps that the model was trained on; see `in_order`."""
    if model.window is None:
        return
    for k, steps in enumerate(lengths):
        if steps != model.window:
            text = f"{where.format(k)} has {steps} steps, and the model was trained on windows of {model.window}; "
            text += "explain_windows cuts a longer series."
            warnings.warn(text, AssumptionWarning, stacklevel=outside())
            return


def filled(value: Any, how: Any, where: str = "x") -> Any:
    """What was passed in with every missing value replaced by the one before it, or after it at the start.

    A warning states how many there were. `how` must be "forward".
    """
    if not isinstance(how, str) or how != "forward":
        raise LrpError(f'fill must be None or "forward", got {shown(how)}.')
    if _is_dict(value):
        return {name: filled(one, how, f"{where}, input {name!r}") for name, one in value.items()}
    if hasattr(value, "ffill") and hasattr(value, "isna"):  # of pandas
        found, missing = value.ffill().bfill(), int(np.count_nonzero(value.isna()))
    else:
        array = as_array(getattr(value, "values", value), where)
        if array.dtype.kind != "f" or array.ndim != 2:
            raise LrpError(f"{where} must be a (T, D) array of floats or a pandas frame with fill, got {shown(value)}.")
        is_missing = np.isnan(array)
        missing = int(is_missing.sum())
        step = np.arange(len(array))[:, None]
        last = np.maximum.accumulate(np.where(is_missing, -1, step), axis=0)
        last = np.where(last < 0, np.argmin(is_missing, axis=0), last)
        found = np.take_along_axis(array, last, axis=0)
        if isinstance(value, tables.Table):
            found = value._replace(values=found)
    if missing:
        text = f"{where}: {missing} missing values were filled with the value before them."
        warnings.warn(text, AssumptionWarning, stacklevel=outside())
    return found


def _is_dict(value: Any) -> bool:
    """Whether a value is a dict of inputs; a dataset of xarray is a Mapping, too, and is a table."""
    return isinstance(value, Mapping) and not tables.is_frame(value)


def encode_all(model: Model, sequences: Any) -> list[EncodedRecord]:
    """Several records, those of one form together; errors name the position in the batch."""
    sequences = as_records(model, sequences)
    where = [f"sequence {k}" for k in range(len(sequences))]
    kinds = {type(one): one for one in sequences}  # one record of each kind
    if len(model.inputs) > 1 or any(map(_is_dict, kinds.values())):
        return _encode_ports(model, sequences, where)
    found = encode_port(model.inputs[model.main], sequences, where, model.least[model.main])
    return [{model.main: one} for one in found]


def as_records(model: Model, sequences: Any, what: str = "sequences") -> Any:
    """One record for each entry; of a dict of arrays, a dict for each. Errors name `what` was passed in."""
    if isinstance(sequences, str):
        raise LrpError(f"{what} must be a list of sequences, got one string; use the function for one, or [text].")
    if tables.is_frame(sequences):
        raise LrpError(f"{what} must be a list of sequences, got one table; pass [table], or use explain_windows.")
    if not isinstance(sequences, (list, np.ndarray, Mapping)) and (table := tables.read(sequences, None, None, "")):
        sequences = table.values
    if not (hasattr(sequences, "__len__") and hasattr(sequences, "__iter__")) or isinstance(sequences, NO_LISTS):
        raise LrpError(f"{what} must be a list of sequences, got {type(sequences).__name__}.")
    if isinstance(sequences, np.ndarray) and sequences.ndim not in (1, 2, 3):
        raise LrpError(f"{what} must be a list of sequences or a (N, T, D) array, got shape {sequences.shape}.")
    if isinstance(sequences, Mapping):  # a dict of arrays: one record for each entry of all of them
        sequences = {name: _records(model.inputs.get(name), column, name) for name, column in sequences.items()}
        counts = {name: len(column) for name, column in sequences.items()}
        if len(set(counts.values())) != 1:
            raise LrpError(f"{what} must have as many records of each input, got {counts}.")
        columns = zip(*sequences.values(), strict=True)
        sequences = [dict(zip(sequences, values, strict=True)) for values in columns]
    return sequences


def _records(port: Input | None, column: Any, name: str) -> Any:
    """The values of one input in all records: the rows of a table are one vector each."""
    if port is None or port.steps or not tables.is_frame(column):
        column = tables.untensored(column)
        if isinstance(column, (str, range)) or not np.iterable(column) or not hasattr(column, "__len__"):
            raise LrpError(f"input {name!r} must have a list or array with one entry per record, got {shown(column)}.")
        return column
    return tables.read(port._expanded(column), port.features, port.size, f"input {name!r}").values  # type: ignore[union-attr]


def _in_order(model: Model, record: Any) -> Any:
    """A list of the inputs, in the order of the model's, as a dict."""
    if isinstance(record, (list, tuple)) and len(record) == len(model.inputs):
        return dict(zip(model.inputs, record, strict=True))
    return record


def _encode_ports(model: Model, records: Sequence[Any], where: Sequence[str]) -> list[EncodedRecord]:
    """Records that are dicts of input name to value."""
    wanted = ", ".join(map(repr, model.inputs))
    records = [_in_order(model, record) for record in records]
    for record, place in zip(records, where, strict=True):
        if not isinstance(record, Mapping):
            raise LrpError(f"{place} must be a dict with the inputs {wanted}, got {type(record).__name__}.")
        if {*record} != {*model.inputs}:
            missing = [name for name in model.inputs if name not in record]
            raise LrpError(
                f"{place} must have the inputs {wanted}, got {', '.join(map(repr, record)) or 'none'}"
                f"{tables.meant(missing, [str(name) for name in record if name not in model.inputs])}"
            )
    found = {}
    for name, port in model.inputs.items():
        places = [f"{place}, input {name!r}" for place in where]
        found[name] = encode_port(port, [record[name] for record in records], places, model.least[name])
    return [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]


def encode_port(port: Input, values: Sequence[Any], where: Sequence[str], least: int = 1) -> list[Encoded]:
    """The values of one input in several records, each of at least `least` steps."""
    found = _common(port, values, where)
    if found is None:
        found = []
        for encoder, some in groupby(map(_form, repeat(port), values, where), itemgetter(0)):
            _, parts, names = zip(*some, strict=True)
            found += encoder(port, parts, names)
    if least > 1:
        for one, place in zip(found, where, strict=True):
            if one.steps < least:
                raise LrpError(f"{place} must have at least {least} steps for this model, got {one.steps}.")
    return found


def _common(port: Input, values: Sequence[Any], where: Sequence[str]) -> list[Encoded] | None:
    """Records of the most common forms, all at once: sentences, arrays of token ids, arrays as the network takes them.

    None where some need a closer look.
    """
    kinds = {*map(type, values)}
    if port.takes_words and kinds <= {str, list}:
        for one in values:
            if not one or type(one[0]) is not str:
                return None
        return _words(port, [*map(_spelled, repeat(port), values, where)], where)
    if kinds == {np.ndarray} and port.steps and port.embedding is not None:
        if all(array.ndim == 1 and len(array) and array.dtype.kind in "iu" for array in values):
            return _ids(port, values, where)
    elif kinds == {np.ndarray} and port.steps and port.mask_value is None and port.pad is None:
        wanted = (port.given_dtype, port.size)
        if all(array.ndim == 2 and len(array) and (array.dtype, array.shape[1]) == wanted for array in values):
            return [Encoded(None, x, len(x)) for x in _checked(port, values, where)]
    return None


def _form(port: Input, value: Any, where: str) -> tuple[Encoder, Any, str]:
    """The function that encodes this form of input (words, token ids or vectors), what to pass to it, and `where`."""
    table = None
    if isinstance(value, range):
        value = as_array(value, where)
    if not isinstance(value, (np.ndarray, str, list)) and (
        table := tables.read(port._expanded(value), port.features, port.size, where)
    ):
        value = table.values
        if value.dtype.kind not in "fiu":
            value = value.tolist()
    if not port.steps:  # one vector, one word or one id: a sequence of one step
        if port.embedding is None and not isinstance(value, str):
            value = as_array(value, where)
        if isinstance(value, str) or np.ndim(value) == int(port.embedding is None):
            value = [value]
    if isinstance(value, str) or (isinstance(value, Sequence) and len(value) and isinstance(value[0], str)):
        return _words, _spelled(port, value, where), where
    array, embedding = as_array(value, where), port.embedding
    if array.ndim and not len(array):
        raise LrpError(f"{where} must have at least one step, got an empty sequence.")
    if array.ndim == 3 and len(array) == 1:  # a batch of one
        array = array[0]
    if array.dtype.kind in "iuf" and array.ndim == 1 and port.size == 1 and embedding is None:
        array = array[:, None]
    if array.dtype.kind in "iu" and embedding is not None:
        if array.ndim == 2 and len(array) == 1:
            array = array[0]  # the ids of a batch of one
        if array.ndim == 1:
            return _ids, array, where
    if not array.ndim or (array.dtype.kind != "f" and (array.ndim == 1 or embedding is not None)):
        takes, more = "", "; the model has no embedding"
        if embedding is not None:
            takes, more = "token ids or ", BATCH if array.ndim > 1 else ""
        if port.takes_words:
            takes = f"a string, a list of words, {takes}"
        raise LrpError(f"{where} must be {takes}{_numbers_of(port)}, got {shown(value)}{more}.")
    is_grid = array.ndim == 3 and embedding is None and port.steps  # places and numbers of each step
    if is_grid and array.shape[2] < port.size == array.shape[1] * array.shape[2]:
        array = array.reshape(len(array), -1)
    if array.ndim == 1 and array.dtype.kind == "f":
        also = "; a single sequence is for explain and predict" if where.startswith("sequence ") else ""
        raise LrpError(
            f"{where} must have shape (T, {port.size}), got {array.shape}; one step of {port.size} numbers is x[None]"
            f"{also}."
        )
    return _vectors, (array, table), where


def _spelled(port: Input, value: str | Sequence[str], where: str) -> tuple[str, ...]:
    """The words of a sentence, or of a list of words."""
    if port.embedding is None or port.embedding.vocabulary is None:
        if port.embedding is None:
            raise LrpError(f"{where} must be {_numbers_of(port)}, as the model has no vocabulary, got {shown(value)}.")
        raise LrpError(
            f"{where} must be token ids, as the model has no vocabulary, got {shown(value)}; to pass words, open the "
            "model with vocabulary= (--vocabulary FILE)."
        )
    if isinstance(value, str):
        value = text.tokens(value, port.embedding.tokenizer)
        if not value:
            raise LrpError(f"{where} must have at least one word, got an empty string.")
    return tuple(value)


def _numbers_of(port: Input) -> str:
    if port.steps:
        return f"a (T, {port.size}) array"
    return f"one vector of {port.size} numbers"


def as_array(value: Any, where: str) -> np.ndarray:
    """An array of what users pass in as lists."""
    if type(value) is np.ndarray:
        return value
    unmasked(value, where)
    if isinstance(value, range) and value[MANY:]:
        raise LrpError(f"{where} must have at most {MANY:,} steps as a range, got {shown(value)}.")
    try:
        return np.asarray(value)
    except ValueError:
        raise LrpError(f"{where} must be a string, words, token ids or a (T, D) array, got a ragged list.") from None


def _words(port: Input, sequences: Sequence[tuple[str, ...]], names: Sequence[str]) -> list[Encoded]:
    embedding: Any = port.embedding
    ids = text.lookup(embedding, sequences, names)
    is_all_seen = embedding.unknown is not False or -1 not in ids
    is_all_seen = is_all_seen and (embedding.mask is None or not np.count_nonzero(ids == embedding.mask))
    return _one_each(port, ids, sequences, names, sequences, is_all_seen)


def _ids(port: Input, sequences: Sequence[np.ndarray], names: Sequence[str]) -> list[Encoded]:
    embedding: Any = port.embedding
    ids = np.concatenate(sequences, dtype=np.int64, casting="unsafe")
    most = len(embedding.E) - 1
    if ids.min() < 0 or ids.max() > most:
        for array, where in zip(sequences, names, strict=True):
            for k in np.flatnonzero((array < 0) | (array > most))[:1]:
                raise LrpError(f"{where}: token ids must lie from 0 to {most}, got {array[k]} at position {k}.")
    is_all_seen = embedding.mask is None or not (ids == embedding.mask).any()
    return _one_each(port, ids, sequences, names, repeat(None), is_all_seen)


def _one_each(
    port: Input,
    ids: np.ndarray,
    sequences: Sequence[Sequence[Any] | np.ndarray],
    names: Sequence[str],
    words: Iterable[tuple[str, ...] | None],
    is_all_seen: bool,
) -> list[Encoded]:
    """The ids of sequences that follow one another as one record each, less padding and words that are left out.

    `is_all_seen` means that there are no such ids.
    """
    found, start = [], 0
    for sequence, spelled in zip(sequences, words, strict=False):
        stop = start + len(sequence)
        found.append(Encoded(ids[start:stop], None, stop - start, None, spelled, port.embedding))
        start = stop
    if port.pad is None and is_all_seen:
        return found
    return [*map(_fitted, repeat(port), found, names)]


def _fitted(port: Input, one: Encoded, where: str) -> Encoded:
    """A record without words to be left out, padded or cut to the length of `pad`, and without steps to be skipped."""
    rows, kept = one.rows, np.arange(one.length)
    if one.x is None and (rows < 0).any():
        kept = np.flatnonzero(rows >= 0)
        rows = rows[kept]
    if port.pad is not None and len(rows) != port.pad[0]:
        one, rows, kept = _resized(port, one, rows, kept)
    is_seen = np.ones(len(rows), bool)
    if one.x is None and port.embedding.mask is not None:  # type: ignore[union-attr]
        is_seen = np.not_equal(rows, port.embedding.mask)  # type: ignore[union-attr]
    elif one.x is not None and port.mask_value is not None:
        is_seen = (rows != rows.dtype.type(port.mask_value)).any(axis=1)
    if not is_seen.any():
        wanted = "step that is not padding" if len(rows) else "word of the vocabulary"
        raise LrpError(f"{where} must have at least one {wanted}, got none among {one.length}.")
    if not is_seen.all():
        if one.x is not None:
            one = one._replace(padded=rows)
        rows, kept = rows[is_seen], kept[is_seen]
    if len(kept) < one.length:
        one = one._replace(kept=kept)
    return one._replace(ids=rows) if one.x is None else one._replace(x=rows)


def _resized(port: Input, one: Encoded, rows: np.ndarray, kept: np.ndarray) -> tuple[Encoded, np.ndarray, np.ndarray]:
    """A record cut or padded to the length of `pad`, what the network reads of it, and at which positions."""
    size, side, value, cut = port.pad  # type: ignore[misc]
    over = len(rows) - size
    if over > 0:
        start, stop, some = 0, int(kept[size - 1]) + 1, slice(size)  # the positions that stay
        if cut == "pre":
            start, stop, some = int(kept[over]), one.length, slice(over, None)
        rows, kept, added = rows[some], kept[some] - start, (-start, stop - one.length)
        one = one._replace(words=taken(one.words, slice(start, stop)), labels=taken(one.labels, slice(start, stop)))
        return one._replace(length=stop - start, added=added), rows, kept
    before, after = (-over, 0) if side == "pre" else (0, -over)
    more = np.full((-over, *rows.shape[1:]), value if one.x is None else port.pad_row, rows.dtype)
    labels = one.labels
    if labels is not None:
        unknown = np.full(-over, "NaT" if labels.dtype.kind == "M" else "", labels.dtype)
        labels = np.concatenate([unknown[:before], labels, unknown[before:]])
    kept = np.concatenate([np.arange(before), kept + before, one.length + np.arange(after)])
    one = one._replace(length=one.length - over, labels=labels, added=(before, after))
    return one, np.concatenate([more[:before], rows, more[before:]]), kept


def _vectors(
    port: Input, forms: Sequence[tuple[np.ndarray, tables.Table | None]], names: Sequence[str]
) -> list[Encoded]:
    arrays = [array for array, _ in forms]
    for array, where in zip(arrays, names, strict=True):
        if not port.steps and array.shape != (1, port.size):
            shape = array.shape[1:] if array.shape[:1] == (1,) else array.shape
            raise LrpError(f"{where} must be {_numbers_of(port)}, got shape {shape}.")
        if array.ndim == 2 and array.shape[0] == port.size != array.shape[1]:
            raise LrpError(f"{where} must have shape (T, {port.size}), got {array.shape}; is it x.T?")
        if array.ndim == 3:
            raise LrpError(f"{where} must be one sequence of shape (T, {port.size}), got {array.shape}{BATCH}.")
        if array.ndim == 2 and array.shape[1] != port.size:
            advice = f"an array of shape (T, {port.size})"
            if port.features is not None:
                advice = f"a DataFrame with the columns {listed(port.features).removeprefix(': ')}"
            raise LrpError(f"{where} has {array.shape[1]} features, the model takes {port.size}; pass {advice}.")
        check_shape(array, where, (None, port.size))
    found = []
    for x, (_, table), where in zip(_checked(port, arrays, names), forms, names, strict=True):
        one = Encoded(None, x, len(x))
        if table is not None:
            one = one._replace(labels=table.labels, features=table.features)
        if port.mask_value is not None or port.pad is not None:
            one = _fitted(port, one, where)
        found.append(one)
    return found


def _checked(port: Input, arrays: Sequence[np.ndarray], names: Sequence[str]) -> list[np.ndarray]:
    """Copies of arrays of numbers, whatever their type and order in memory: parts of one array, where all is well."""
    if {array.dtype for array in arrays} == {port.given_dtype}:
        joined = np.ascontiguousarray(np.concatenate(arrays))
        if np.isfinite(joined).all():
            joined.setflags(write=False)
            ends = accumulate(map(len, arrays), initial=0)
            return [joined[start:stop] for start, stop in pairwise(ends)]
    return [numbers(array, where, port.given_dtype) for array, where in zip(arrays, names, strict=True)]


def packed(model: Model, records: Sequence[EncodedRecord], look_up: bool = False) -> dict[str, Packed]:
    """A batch of records that are sorted already, longest first: every input by name.

    With `look_up` the rows stay words: the first layer finds them in its table of projected words.
    """
    found = {}
    for name, port in model.inputs.items():
        embedding: Any = port.embedding
        parts: list[Any] = []  # the token ids (T,) or vectors (T, D) of each record
        for record in records:
            one = record[name]
            parts.append(one.ids if one.x is None else one.x)
        if len(parts) == 1 and len(parts[0]) < REMEMBERED:
            rows, batch = parts[0], single(len(parts[0]))
        else:
            batch = Batch(np.fromiter(map(len, parts), np.int64, len(parts)))
            if not look_up and len({part.ndim for part in parts}) > 1:  # words beside vectors
                parts = [part if part.ndim == 2 else embedding.E.take(part, axis=0) for part in parts]
            rows = batch.pack(np.concatenate(parts))
        if look_up:
            found[name] = Packed(embedding.E[:0], batch, LookedUp(rows, embedding))
            continue
        if rows.ndim == 1:
            rows = embedding.E.take(rows, axis=0)
        if port.scaler is not None:
            rows = port.scaled(rows)
        found[name] = Packed(rows, batch)
    return found
