"""The inputs of a Keras network: embeddings, vocabularies, and masks of padding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lrpnumpy.files.build.network import NetworkValue
from lrpnumpy.files.keras.build import MASK, STEPS, KerasBuild, KerasInput, KerasWords, as_length
from lrpnumpy.files.keras.config import KerasCall, KerasLayer
from lrpnumpy.files.safe import Fields, kind_of
from lrpnumpy.layers import Embedding

_TOKENIZED = (["lower_and_strip_punctuation", "whitespace"], [None, "whitespace"])  # standardize, split


def embedding(b: KerasBuild, call: KerasCall, xs: list[NetworkValue]) -> NetworkValue:
    """Token ids to vectors, at an input."""
    layer, s, x = call.layer, call.layer.settings, xs[0]
    b.plain(call)
    port = b.entries.get("".join(x.values[:1]))
    if port is not None and port.embedding is not None:
        b.refuse(
            "is the second Embedding of one input, which is not supported; if the two are concatenated, save the model "
            "with one Embedding whose array has theirs side by side: np.hstack([first, second])"
        )
    if port is None or b.whole(x) is None or x.mask is not None or port.is_taken:
        b.refuse("must be the first layer, and the only one that an input goes to")
    b.refuse_if(len(port.shape or ()) > 1, "takes token ids of more than one axis, which is not supported")
    (E,) = b.own_arrays(layer, [(s.integer("input_dim"), s.integer("output_dim"))])
    port.steps = port.shape != []
    made = _embedding(b, layer, port, E)
    if made.vocabulary is None:
        b.note("the file holds no vocabulary: inputs are token ids")
    length = as_length(port.shape[0]) if port.shape else None
    has_mask = s.boolean("mask_zero", False) and port.steps
    port.embedding, port.size, port.mask = made, made.size, 0.0 if has_mask else None
    return b.of_entry(x.values[0], length or STEPS, mask=x.values[0] if has_mask else None)


def _embedding(b: KerasBuild, layer: KerasLayer, port: KerasInput, E: np.ndarray) -> Embedding:
    """The record, with the words that a layer before has found."""
    words, rows = port.words, len(E)
    port.words = None
    if words is None:
        return Embedding(E)
    port.length = words.length
    if words.vocabulary is None:
        return Embedding(E, tokenizer=words.tokenizer)  # type: ignore[arg-type]
    vocabulary = list(words.vocabulary)
    b.refuse_if(len(vocabulary) > rows, f"has {rows} rows for {len(vocabulary)} words")
    b.source.budget.visit(layer.settings.where, rows)
    vocabulary += [f"<row {k}>" for k in range(len(vocabulary), rows)]  # no sentence has them: they are two words
    return Embedding(E, vocabulary=tuple(vocabulary), unknown=words.unknown, tokenizer=words.tokenizer)  # type: ignore[arg-type]


def masking(b: KerasBuild, call: KerasCall, xs: list[NetworkValue]) -> NetworkValue:
    """Steps that are padding: over an input of numbers, or over an embedding that has a vector for padding."""
    layer, x = call.layer, xs[0]
    b.plain(call)
    value = layer.settings.number("mask_value", 0.0)
    port, name = b.whole(x), "".join(x.values[:1])
    if port is not None and port.embedding is None and x.has_steps and x.mask is None:
        port.mask = value
        return replace(x, mask=name)
    if port is not None and port.embedding is not None and x.has_steps:
        rows = np.flatnonzero(np.equal(port.embedding.E, value).all(axis=1))
        if len(rows) > 1:
            b.refuse(f"finds {len(rows)} tokens whose vectors are {value:g} everywhere, only one can be padding")
        if not len(rows) or port.mask == rows[0]:
            return x
        if port.mask is None:
            port.mask = float(rows[0])
            return replace(x, mask=name)
    before = b.nodes.get(name)
    if before is not None and x.has_steps and getattr(before.layer, "activation", "") == "tanh" and value == 0:
        b.warn(f"{layer.name} (Masking) is left out: no step of what the layer before it gives is 0 everywhere")
        return x
    b.refuse("is supported over an input of numbers, an embedding or a recurrent layer with tanh only")


NOTHING = ""  # the mask of values that are all padding, which a mask is joined with to have its shape


def mask(b: KerasBuild, call: KerasCall, xs: list[NetworkValue]) -> NetworkValue:
    """What Keras 3 computes to find the padding; the mask of values without padding is None.

    NotEqual compares an input with the value of padding; a step is padding where all that are joined say so.
    """
    x, kind = xs[0], call.layer.kind
    if kind == "ConvertToTensor":  # of something that is not a mask
        return x
    if kind == "NotEqual":
        value = call.others[0] if len(call.others) == 1 else None
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if len(xs) != 1 or x.values[0] not in b.entries or not is_number:
            b.refuse("is supported as part of a mask only")
        return replace(x, mask=x.values[0], part_of=MASK)
    if kind in ("ZerosLike", "OnesLike") and len(xs) == 1:
        return replace(x, mask=NOTHING if kind == "ZerosLike" else None, part_of=MASK)
    masks = {one.mask for one in xs} - {NOTHING}
    if any(one.part_of != MASK for one in xs) or len(masks - {None}) > 1:
        b.refuse("is supported as part of a mask only, and of one")
    return replace(x, mask=None if None in masks else "".join(map(str, masks)))


# --------------------------------------------------------------------------------------------------------- vocabularies


def vectorized(b: KerasBuild, call: KerasCall, xs: list[NetworkValue]) -> NetworkValue:
    """TextVectorization: a sentence to the ids of its words."""
    layer, s = call.layer, call.layer.settings
    port = _text_port(b, call, xs[0])
    layer.one_of("output_mode", ("int",), "int")
    b.refuse_if(s.has("ngrams"), "must have no ngrams")
    ways = [s.value.get(key) for key in ("standardize", "split")]
    if ways not in _TOKENIZED:
        shown = " and ".join(kind_of(way) for way in ways)
        known = "standardize 'lower_and_strip_punctuation' or None, and split 'whitespace'"
        b.refuse(f"must have {known}, it has {shown}; save the model behind this layer, which takes token ids")
    tokenizer = "space" if ways[0] is None else "keras"
    length = as_length(s.value.get("output_sequence_length"))
    port.words = _words(b, layer, ["", "[UNK]"], ["[UNK]"], tokenizer=tokenizer, length=length)
    if length is not None:
        b.note(f"{layer.name} fills sentences up to {length} words with token 0, and truncates longer ones")
    port.shape = [length]
    return xs[0]


def looked_up(b: KerasBuild, call: KerasCall, xs: list[NetworkValue]) -> NetworkValue:
    """StringLookup: words to ids."""
    layer, s = call.layer, call.layer.settings
    port = _text_port(b, call, xs[0])
    layer.one_of("output_mode", ("int",), "int")
    b.refuse_if(s.boolean("invert", False), "invert=True is not supported: it makes words of ids")
    unknown = [str(s.value.get("oov_token", "[UNK]"))] * s.integer("num_oov_indices", 1)
    b.refuse_if(len(unknown) > 1, f"must have at most one id for unknown words, it has {len(unknown)}")
    padding = [str(s.value["mask_token"])] if s.has("mask_token") else []
    port.words = _words(b, layer, [*padding, *unknown], unknown)
    return xs[0]


def _words(b: KerasBuild, layer: KerasLayer, reserved: list[str], unknown: list[str], **more: Any) -> KerasWords:
    """The words of a layer behind the reserved ones, of which `unknown` is the one for unknown words, if any."""
    found = _vocabulary(b, layer)
    if found is None:
        return KerasWords(None, **more)
    if found[: len(reserved)] != reserved:
        found = [*reserved, *found]
    return KerasWords(found, "".join(unknown) or None, **more)


def _text_port(b: KerasBuild, call: KerasCall, x: NetworkValue) -> KerasInput:
    """The input that a layer makes token ids of."""
    b.plain(call)
    port = b.raw(x)
    if port is None or x.mask is not None or port.is_taken or port.words is not None:
        b.refuse("must be the first layer, and the only one that an input goes to")
    return port


def _vocabulary(b: KerasBuild, layer: KerasLayer) -> list[str] | None:
    """The words in the configuration, or in the file beside it; None where there are none."""
    given: Any = layer.settings.value.get("vocabulary")
    if isinstance(given, dict):  # a list as Keras 3 writes that of a NumPy array
        given = Fields(b.source, layer.settings.where, given).object("config").value.get("value")
    if isinstance(given, list):
        b.refuse_if(not all(type(word) in (str, int) for word in given), "vocabulary must be a list of words")
        return [str(word) for word in given]
    if isinstance(given, str):
        b.warn(f"{layer.name} has its words in the file {given[:80]!r}, which is not opened; pass vocabulary=")
        return None
    found = b.words(layer)
    if found is None:
        b.warn(f"{layer.name} ({layer.kind}) has no words in this file; pass token ids, or vocabulary=")
    return found
