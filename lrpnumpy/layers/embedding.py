"""The embedding: words and token ids to vectors. It is applied before the network: the vectors are explained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from lrpnumpy.checks import LrpError, float_array, is_number, names, one_of, shown
from lrpnumpy.layers.base import Record
from lrpnumpy.lazy import cached_property

TOKENIZERS = ("space", "treebank", "keras", "keras-tokenizer")


@dataclass(frozen=True, eq=False, repr=False)
class Embedding(Record):
    """Words to vectors: row k of `E` (V, D) belongs to word k of `vocabulary`.

    `vocabulary` is a list of V words, or a dict of word to row that names every row once. `unknown` is the word used
    for words outside the vocabulary; without it such a word is an error, with False it is left out. With
    `lowercase` words are looked up in lower case. `tokenizer` splits a sentence into words: "space" at blanks;
    "treebank" as the Penn Treebank does (`isn't` to `is n't`, punctuation apart); "keras" as Keras' TextVectorization
    does (in lower case, punctuation removed); "keras-tokenizer" as Keras' older Tokenizer does (in lower case, split at
    punctuation except apostrophes); or a custom function from a string to a list of words. `mask` is a token id that
    means padding: such steps are skipped.
    """

    E: np.ndarray
    vocabulary: tuple[str, ...] | None = None
    unknown: str | Literal[False] | None = None
    lowercase: bool = False
    tokenizer: Literal["space", "treebank", "keras", "keras-tokenizer"] | Callable[[str], list[str]] = "space"
    mask: int | None = None

    def __post_init__(self) -> None:
        E = float_array(self.E, "Embedding: E", (None, None))
        vocabulary = names(_in_order(self.vocabulary, len(E)), "Embedding: vocabulary", len(E))
        if not callable(self.tokenizer):
            one_of(self.tokenizer, "Embedding: tokenizer", TOKENIZERS)
        is_word = isinstance(self.unknown, str) and self.unknown in (vocabulary or ())
        if self.unknown is not None and self.unknown is not False and not is_word:
            raise LrpError(f"Embedding: unknown must be a word of the vocabulary, got {shown(self.unknown)}.")
        mask = self.mask
        if mask is not None and not (is_number(mask, int) and 0 <= mask < len(E)):
            raise LrpError(f"Embedding: mask must be a token id from 0 to {len(E) - 1}, got {shown(mask)}.")
        self._set(E=E, vocabulary=vocabulary, lowercase=bool(self.lowercase), mask=None if mask is None else int(mask))

    @property
    def size(self) -> int:
        """Length D of a word vector."""
        return self.E.shape[1]

    @cached_property
    def index(self) -> dict[str, int]:
        """Word to row; where case does not count, only of words in lower case, since no other is ever looked up."""
        every = enumerate(self.vocabulary or ())
        return {word: k for k, word in every if not self.lowercase or word == word.lower()}

    @cached_property
    def mean_row(self) -> np.ndarray:
        """(D,) the mean of all rows."""
        return self.E.mean(axis=0)

    @cached_property
    def unknown_row(self) -> int:
        """Row of the words that are not in the vocabulary, -1 where there is none."""
        if isinstance(self.unknown, str):
            return (self.vocabulary or ()).index(self.unknown)
        return -1

    def settings(self) -> dict[str, Any]:
        """As of any record; a tokenizer of the user's by its name."""
        found = super().settings()
        if callable(self.tokenizer):
            found["tokenizer"] = getattr(self.tokenizer, "__qualname__", type(self.tokenizer).__qualname__)
        return found


def _in_order(vocabulary: Any, rows: int) -> Any:
    """A dict of word to row as the list of words in the order of the rows."""
    if not isinstance(vocabulary, Mapping):
        return vocabulary
    try:
        places = {row: word for word, row in vocabulary.items()}
    except TypeError:  # rows that are lists
        places = {}
    missing = [row for row in range(rows) if row not in places]
    if missing or len(vocabulary) != rows:
        listed = f", and none for row {missing[0]}" if missing else ""
        raise LrpError(
            f"Embedding: vocabulary must name each of the {rows} rows once, got {len(vocabulary)} words{listed}."
        )
    return [places[row] for row in range(rows)]
