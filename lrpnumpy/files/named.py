"""Words and names for a network whose file does not have them: vocabulary, tokenizer, padding, features, classes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError
from lrpnumpy.files.hints import Hints
from lrpnumpy.files.safe import MAX_TEXT, Budget, Fields, Source, open_file, parse_json, size_of
from lrpnumpy.inputs import Input
from lrpnumpy.layers import Embedding
from lrpnumpy.model import Model
from lrpnumpy.result import PAD
from lrpnumpy.text import FILTERS

WORDS = ("vocabulary", "unknown", "lowercase", "tokenizer")


def named(file: str, model: Model, said: Hints) -> tuple[Model, list[str]]:
    """The model with the words and names that are said, and what was assumed about them."""
    notes: list[str] = []
    source = Source(file)
    with source.guard(""):
        inputs = {
            name: _port(
                source, port, {key: _own(getattr(said, key), name, model) for key in (*WORDS, "pad", "features")}, notes
            )
            for name, port in model.inputs.items()
        }
        change: dict[str, Any] = {}
        if any(inputs[name] is not port for name, port in model.inputs.items()):
            change["inputs"] = inputs
        if said.output is not None and said.output != model.output:
            change["output"] = said.output
        if said.classes is not None:
            change["classes"] = _list(source, "classes", said.classes)
        return (replace(model, **change) if change else model), notes


def _own(value: Any, name: str, model: Model) -> Any:
    """A hint for one input: for several inputs a dict keyed by input name, otherwise it is for the main input."""
    if len(model.inputs) > 1 and isinstance(value, Mapping) and value and set(value) <= set(model.inputs):
        return value.get(name)
    return value if name == model.main else None


def _port(source: Source, port: Input, said: dict[str, Any], notes: list[str]) -> Input:
    """An input with its hints."""
    given = {key: value for key, value in said.items() if value is not None}
    change: dict[str, Any] = {}
    if words := {key: given[key] for key in WORDS if key in given}:
        if port.embedding is None:
            raise LrpError(f"{next(iter(words))} must be left out, as the network takes numbers: it has no embedding.")
        change["embedding"] = _embedding(source, port.embedding, words, notes)
    if "features" in given:
        change["features"] = _list(source, "features", given["features"])
    if "pad" in given:
        change["pad"] = (
            [_number(one) for one in given["pad"]] if isinstance(given["pad"], (list, tuple)) else given["pad"]
        )
    return replace(port, **change) if change else port


def _number(entry: Any) -> Any:
    """An entry of pad; the command line has text."""
    for kind in (int, float) if isinstance(entry, str) else ():
        try:
            return kind(entry)
        except ValueError:
            continue
    return entry


def _list(source: Source, what: str, given: Any) -> Any:
    """Names, also from a file."""
    return _content(source, what, given) if isinstance(given, (str, os.PathLike)) else given


# --------------------------------------------------------------------------------------------------- vocabularies


def _embedding(source: Source, embedding: Embedding, said: dict[str, Any], notes: list[str]) -> Embedding:
    """The embedding with words."""
    rows = len(embedding.E)
    if "vocabulary" in said:
        found = _list(source, "vocabulary", said["vocabulary"])
        if isinstance(found, Mapping) and found.get("class_name") == "Tokenizer":
            said = {**_tokenizer(source, found), **said}
            found = said["word_index"]
        said = {**said, "vocabulary": _in_rows(found, rows, notes)}
    vocabulary = said.get("vocabulary", embedding.vocabulary)
    unknown = said.get("unknown")
    if isinstance(unknown, (int, np.integer)) and not isinstance(unknown, bool):
        if vocabulary is None or not 0 <= unknown < rows:
            raise LrpError(f"unknown must be a word of the vocabulary or a row from 0 to {rows - 1}, got {unknown!r}.")
        said["unknown"] = vocabulary[unknown]
    if vocabulary is None:
        raise LrpError(f"{next(iter(said))} must be said with vocabulary=..., as the file has no words, got it alone.")
    return replace(embedding, **{key: said[key] for key in WORDS if key in said})


def _tokenizer(source: Source, saved: Mapping[str, Any]) -> dict[str, Any]:
    """The contents of the JSON of a Keras Tokenizer (`tokenizer.to_json()`)."""
    config = Fields(source, "vocabulary", saved).object("config")
    index = parse_json(source, "vocabulary: word_index", config.string("word_index"))
    most = config.integer("num_words") if config.has("num_words") else None
    unknown = config.string("oov_token") if config.has("oov_token") else False
    if config.boolean("char_level", False) or config.value.get("split", " ") != " ":
        config.refuse("is of a Tokenizer of characters or with a custom split; pass a function as tokenizer=")
    if config.value.get("filters", FILTERS) != FILTERS or not config.boolean("lower", True):
        config.refuse("is of a Tokenizer with custom filters; pass its word_index, and a function as tokenizer=")
    kept = {word: row for word, row in index.items() if most is None or row < most}
    return {"word_index": kept, "unknown": unknown, "tokenizer": "keras-tokenizer"}


def _content(source: Source, what: str, path: str | os.PathLike[str]) -> Any:
    """The words of a text file, one a line, or what a JSON file holds; read within the limits of a weight file."""
    with source.guard(what, f"cannot be read from {os.fspath(path)}"), open_file(path) as stream:
        size = size_of(stream)
        read = Source(os.fspath(path), Budget(os.fspath(path), size))
        if size > MAX_TEXT:
            raise read.error("", f"is {size:,} bytes of words, over the limit of {MAX_TEXT:,}")
        content = stream.read(size)
        text = content.decode("utf-8-sig")
    if os.fspath(path).lower().endswith(".json"):
        return parse_json(read, "", text)
    lines = text.split("\n")
    read.budget.visit("", len(lines))
    lines = [line.removesuffix("\r") for line in lines]
    return lines[:-1] if not lines[-1] else lines


def _in_rows(given: Any, rows: int, notes: list[str]) -> list[str]:
    """The word of each row, from a list of words, a dict of word to row, or one of row to word."""
    if not isinstance(given, Mapping):
        words = list(islice(given, rows + 1))
        count = len(given) if hasattr(given, "__len__") else len(words)
        if count != rows:
            raise LrpError(_wrong_count(count, rows))
        return words
    if all(isinstance(word, str) for word in given.values()):  # index_word; JSON has no keys but strings
        given = {word: int(row) if str(row).isdecimal() else row for row, word in given.items()}
    for word, row in given.items():
        if not isinstance(word, str) or isinstance(row, bool) or not isinstance(row, (int, np.integer)):
            raise LrpError(f"vocabulary must map each word to a row, got {word!r}: {row!r}.")
    places = {int(row): word for word, row in given.items()}
    if len(places) < len(given):
        row, word = next((row, word) for word, row in given.items() if places[int(row)] != word)
        raise LrpError(f"vocabulary must give each row one word, got {word!r} and {places[int(row)]!r} for row {row}.")
    low, high = min(places, default=0), max(places, default=-1)
    if low < 0 or high >= rows:
        raise LrpError(
            f"vocabulary must have rows from 0 to {rows - 1}, as the embedding has {rows} rows, got {low} to {high}; "
            f"pass {{word: row for word, row in vocabulary.items() if row < {rows}}} if only the most frequent words "
            "were used (num_words), with row + 3 in place of row for Keras' imdb and reuters (index_from=3)."
        )
    missing = [row for row in range(rows) if row not in places]
    if missing == [0]:
        places[0] = PAD if PAD not in given else f"{PAD} 0"
        notes.append(
            f"the vocabulary has no word for row 0, which is taken as padding and called {places[0]!r}, as Keras' "
            "Tokenizer counts; Keras' imdb and reuters count from 3, there 3 must be added to every row"
        )
    elif missing:
        listed = ", ".join(map(str, missing[:5])) + (f" … {missing[-1]}" if len(missing) > 5 else "")
        names = ", ".join(f"'<row {row}>': {row}" for row in missing[:3]) + (", …" if len(missing) > 3 else "")
        raise LrpError(
            f"vocabulary must name all {rows} rows of the embedding, got {len(given)} words and none for row {listed}; "
            f"name reserved and unused rows, too, {{{names}, **vocabulary}}, or shift the rows where they are counted "
            "from another start."
        )
    return [places[row] for row in range(rows)]


def _wrong_count(count: int, rows: int) -> str:
    text = f"vocabulary must have {rows} words, one for each row of the embedding, got {count}; "
    if count > rows:
        return f"{text}pass the first {rows} of them if the network was trained with the most frequent words only."
    names = "['<pad>', *words]" if rows - count == 1 else "['<pad>', '<unk>', …, *words]"
    return (
        f"{text}name the other {rows - count}, too, for example {names} where they come first (in Keras row 0 is "
        "padding, and row 1 of TextVectorization unknown words)."
    )
