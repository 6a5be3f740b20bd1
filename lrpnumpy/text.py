"""Sentences to words, and words to rows of the embedding.

The treebank tokenizer follows the conventions of the Penn Treebank as the Stanford Sentiment Treebank applies
them, so that what a person types becomes words that a model trained on such text knows:

    tokens('It isn\\'t (just) "funny".', "treebank")
    ['It', 'is', "n't", '-LRB-', 'just', '-RRB-', '``', 'funny', "''", '.']

Text that is in this form already passes through unchanged.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain, repeat
from string import ascii_uppercase, punctuation

import numpy as np

from lrpnumpy.checks import LrpError, shown
from lrpnumpy.layers import Embedding
from lrpnumpy.meant import called

LONG_PIECE = 1000  # characters without a blank; more than that is not a word


def tokens(sentence: str, tokenizer: str | Callable[[str], Iterable[str]]) -> list[str]:
    """The words of `sentence`, cut by a tokenizer that `Embedding` knows, or by a function of the user's."""
    if not callable(tokenizer):
        return _TOKENIZERS[tokenizer](sentence)
    found = called("tokenizer", tokenizer, sentence)
    words = [] if isinstance(found, str) else called("tokenizer", list, found)
    if isinstance(found, str) or not all(isinstance(word, str) for word in words):
        raise LrpError(f"tokenizer must give a list of words for a sentence, got {shown(found)}.")
    return words


def lookup(embedding: Embedding, sentences: Sequence[Sequence[str]], where: Sequence[str]) -> np.ndarray:
    """The row of the embedding for each word of all sentences, one after another; -1 for one to be left out.

    `where` is how an error names each sentence.
    """
    try:  # most words are spelled as in the vocabulary
        found_at_once = map(embedding.index.__getitem__, chain.from_iterable(sentences))
        return np.fromiter(found_at_once, np.int64, sum(map(len, sentences)))
    except (KeyError, TypeError):  # a word that it does not have, or a value that is not hashable
        ids: list[int] = []
    for words, name in zip(sentences, where, strict=True):
        try:
            has_blank = " " in "".join(words)
        except TypeError:
            k = next(k for k, word in enumerate(words) if not isinstance(word, str))
            got = f"{shown(words[k])} at position {k}"
            raise LrpError(f"{name} must be words, or numbers, not both, got {got}.") from None
        if has_blank:
            _check_words(embedding, words, name)
        spelled = [*map(str.lower, words)] if embedding.lowercase else words
        found = list(map(embedding.index.get, spelled, repeat(embedding.unknown_row)))
        if -1 in found and embedding.unknown is not False:
            k = found.index(-1)
            got = f"{spelled[k]!r} at position {k}; name a word for unknown ones, unknown=..., or pass unknown=False"
            raise LrpError(f"{name} must consist of words of the model's vocabulary, got {got}.")
        ids += found
    return np.array(ids, np.int64)


def _check_words(embedding: Embedding, words: Sequence[str], where: str) -> None:
    """Raise where a list of words is a list of sentences: one has three words, or each has several.

    ["New York", "is", "fine"] passes: a word may have a blank.
    """
    most = 1 if all(" " in word for word in words) else 2
    for k, word in enumerate(words):
        if " " in word and word not in embedding.index and len(parts := tokens(word, embedding.tokenizer)) > most:
            got = f"{' '.join(parts)[:60]!r} as word {k}; several sentences are for explain_all and predict_all"
            raise LrpError(f"{where} must be one sentence or a list of its words, got {got}.")


# What is typed in another way but means the same. NFC: an accent and its letter become one character.
_SAME = str.maketrans(
    {
        "’": "'", "‘": "`", "ʼ": "'", "“": "``", "”": "''", "„": "``", "«": "``", "»": "''",
        "…": "...", "—": "--", "–": "-", "‑": "-", "\u00ad": None, "\u200b": None, "\ufeff": None,
    }
)  # fmt: skip
# The treebank's files write a slash as \/. A run of backslashes is looked at once, from its beginning.
_ESCAPE = re.compile(r"(?<!\\)\\++([/*])")

# The Sentiment Treebank has no special names for square brackets: "[F]rom" is -LRB- F -RRB- rom.
_BRACKETS = {
    "(": "-LRB-", "[": "-LRB-", "{": "-LCB-",
    ")": "-RRB-", "]": "-RRB-", "}": "-RCB-",
}  # fmt: skip

_LETTER = r"[^\s\-.,:;!?\"'`()\[\]{}#$%&@*/]"  # also digits and every symbol that is not cut off
_END = rf"(?=n't|(?!{_LETTER}))"
_CLITIC = rf"(?:n't|'(?:s|m|d|re|ve|ll)){_END}"
_ABBREVIATION = "mr|mrs|ms|messrs|dr|prof|rev|gen|sen|gov|capt|sgt|lt|st|sr|jr|bros|co|inc|corp|ltd|vs|etc|ph\\.d"

# Each token, cut off alone, must match as itself again: that is what lets tokenised text through unchanged.
# So the text before a token does not matter here.
_TOKEN = re.compile(
    rf"""
    -[LR][RSC]B-                                    # a bracket that has its name already
  | `` | '' | --+ | \.\.+ | \*+                     # quotes, dash, ellipsis, letters struck out
  | {_CLITIC}                                       # is|n't, it|'s
  | '(?:em|til|cause|n'|n|\d+s?){_END}              # words that begin with an apostrophe: 'em, '70s
  | 't(?=(?:is|was)?{_END})                         # 't|is
  | can(?=not(?![-'/]){_END})                       # can|not
  | (?:{_ABBREVIATION})\.{_END}
  | (?:[^\W\d_]\.){{2,}}{_END}                      # U.S., i.e.
  | (?-i:[A-HJ-Z])\.(?=\s+\S)                       # an initial, but not "Neither did I."
  | no\.(?=\s+\d)                                   # No. 1
  | (?:-?\.?(?=\d)|{_LETTER})                       # a number or a word begins: -.5, film
    (?:(?!{_CLITIC})(?:{_LETTER}|[-'/.&](?={_LETTER})(?!{_CLITIC})|(?<=\d)[,:](?=\d)))*
  | \S
    """,
    re.VERBOSE | re.IGNORECASE,
)
_OPENING = {"``", "`", "-LRB-", "-LCB-", "--"}


def _treebank(sentence: str) -> list[str]:
    if not sentence.isascii():
        sentence = _composed(sentence.translate(_SAME))
    if "\\" in sentence:
        sentence = _ESCAPE.sub(r"\1", sentence)
    pieces = sentence.split()
    found: list[str] = []
    quote, seen = "''", 0  # the last one among the first `seen` tokens
    for k, piece in enumerate(pieces, 1):
        if piece == '"':  # blanks on both sides: it closes a quotation if one is open
            quote = next((token for token in reversed(found[seen:]) if token in ("``", "''")), quote)
            quote = "''" if quote == "``" else "``"
            found.append(quote)
            seen = len(found)
            continue
        if piece[-1] == "." and k < len(pieces):  # whether it is an abbreviation depends on what follows
            piece += " 0" if pieces[k][0].isdigit() else " a"
        found += _cut(piece) if len(piece) < 50 else _cut.__wrapped__(piece)
    return found


def _composed(text: str) -> str:
    """An accent and its letter as one character, in time that is linear: NFC sorts a run of accents by insertion."""
    if len(text) <= LONG_PIECE:
        return unicodedata.normalize("NFC", text)
    slices = [[piece[k : k + LONG_PIECE] for k in range(0, len(piece), LONG_PIECE)] for piece in text.split()]
    return " ".join("".join(unicodedata.normalize("NFC", one) for one in piece) for piece in slices)


@lru_cache(maxsize=1 << 16)
def _cut(text: str) -> tuple[str, ...]:
    """The tokens of the piece before the first blank of `text`; in a corpus, most were cut before."""
    end = len(text.partition(" ")[0])
    found: list[str] = []
    for match in _TOKEN.finditer(text):
        if match.start() >= end:
            break
        token = match[0]
        if token in ("'", '"'):
            opens = match.end() < end and (not found or found[-1] in _OPENING)
            token = {"'": ("'", "`"), '"': ("''", "``")}[token][opens]
        elif token.startswith(".."):
            token = "..."
        elif token.startswith("--"):
            token = "--"
        found.append(_BRACKETS.get(token, token))
    return tuple(found)


# What Keras' TextVectorization does to a text unless told otherwise. It knows the capital letters of ASCII only.
_KERAS = str.maketrans({**{c: c.lower() for c in ascii_uppercase}, **dict.fromkeys(punctuation)})


def _keras(sentence: str) -> list[str]:
    """In lower case, without punctuation: "It isn't." is it, isnt."""
    return sentence.translate(_KERAS).split()


# What Keras' older Tokenizer does unless told otherwise: filtered characters become blanks, an apostrophe stays.
_FILTERED = str.maketrans(dict.fromkeys(punctuation.replace("'", "") + "\t\n", " "))


def _keras_tokenizer(sentence: str) -> list[str]:
    """In lower case, cut at blanks and punctuation: "It isn't well-made." is it, isn't, well, made."""
    return [word for word in sentence.lower().translate(_FILTERED).split(" ") if word]


_TOKENIZERS: dict[str, Callable[[str], list[str]]] = {
    "space": str.split,
    "treebank": _treebank,
    "keras": _keras,
    "keras-tokenizer": _keras_tokenizer,
}
