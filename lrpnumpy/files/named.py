"""Words and names for a network whose file does not have them: vocabulary, tokenizer, padding, features, classes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from lrpnumpy.checks import LrpError, is_number
from lrpnumpy.files.hints import Hints
from lrpnumpy.files.safe import MAX_TEXT, Budget, Source, open_file, parse_json, size_of
from lrpnumpy.inputs import Input
from lrpnumpy.layers import Embedding
from lrpnumpy.model import Model
from lrpnumpy.result import PAD

WORDS = ("vocabulary", "unknown", "lowercase", "tokenizer")
_ADVICE = (
    "name reserved rows, too: ['<pad>', '<unk>', *words]; for a network that was trained on the most frequent words, "
    "pass {{word: row for word, row in vocabulary.items() if row < {}}}, with row + 3 for Keras' imdb and reuters "
    "(index_from=3)"
)


def named(file: str, model: Model, said: Hints) -> tuple[Model, list[str]]:
    """The model with the words and names that are said, and what was assumed about them."""
    notes: list[str] = []
    source = Source(file)
    with source.guard(""):
        inputs = {}
        for name, port in model.inputs.items():
            given = {key: _own(getattr(said, key), name, model) for key in (*WORDS, "pad", "features")}
            inputs[name] = _port(source, port, {key: value for key, value in given.items() if value is not None}, notes)
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


def _port(source: Source, port: Input, given: dict[str, Any], notes: list[str]) -> Input:
    """An input with its hints."""
    change: dict[str, Any] = {}
    if words := {key: given[key] for key in WORDS if key in given}:
        if port.embedding is None:
            raise LrpError(f"{next(iter(words))} must be left out, as the network takes numbers: it has no embedding.")
        change["embedding"] = _embedding(source, port.embedding, words, notes)
    if "features" in given:
        change["features"] = _list(source, "features", given["features"])
    if "pad" in given:
        pad = given["pad"]
        change["pad"] = [*map(_number, pad)] if isinstance(pad, (list, tuple)) else pad
    return replace(port, **change) if change else port


def _number(entry: Any) -> Any:
    """An entry of pad; the command line has text."""
    for kind in (int, float) if isinstance(entry, str) else ():
        with suppress(ValueError):
            return kind(entry)
    return entry


def _list(source: Source, what: str, given: Any) -> Any:
    """Names, also from a file."""
    if isinstance(given, (str, os.PathLike)):
        return _content(source, what, given)
    return given


# --------------------------------------------------------------------------------------------------- vocabularies


def _embedding(source: Source, embedding: Embedding, said: dict[str, Any], notes: list[str]) -> Embedding:
    """The embedding with words."""
    rows, before = len(embedding.E), embedding.unknown
    if "vocabulary" in said:
        found = _list(source, "vocabulary", said["vocabulary"])
        given = found.values() if isinstance(found, Mapping) else ()
        if len(given) == rows - 1 and all(is_number(row, int) and row != 0 for row in given):
            pad = PAD if PAD not in found else f"{PAD} 0"
            found = {pad: 0, **found}
            notes.append(
                f"the vocabulary has no word for row 0, which is taken as padding and called {pad!r}, as Keras' "
                "Tokenizer counts; Keras' imdb and reuters count from 3, there 3 must be added to every row"
            )
        try:
            embedding = replace(embedding, vocabulary=found, unknown=None)
        except LrpError as error:
            raise LrpError(f"{str(error).removesuffix('.')}; {_ADVICE.format(rows)}") from None
    if embedding.vocabulary is None:
        raise LrpError(f"{next(iter(said))} must be said with vocabulary=..., as the file has no words, got it alone.")
    unknown: Any = said.get("unknown", before)
    if is_number(unknown, int):
        if not 0 <= unknown < rows:
            raise LrpError(f"unknown must be a word of the vocabulary or a row from 0 to {rows - 1}, got {unknown!r}.")
        unknown = embedding.vocabulary[unknown]
    return replace(embedding, unknown=unknown, **{key: said[key] for key in WORDS[2:] if key in said})


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
