"""The native HDF5 format, version 2: any Model, written whole or not at all, read back exactly.

The layout is specified in docs/format.md.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from lrpnumpy.checks import LrpError, WeightFileError
from lrpnumpy.files import disk
from lrpnumpy.files.report import Imported, Report
from lrpnumpy.files.safe import Fields, Shape, parse_json
from lrpnumpy.inputs import Input
from lrpnumpy.layers import LAYERS, Cell, Embedding, Layer, Record
from lrpnumpy.layers.recurrent import StoredCell
from lrpnumpy.meant import door
from lrpnumpy.model import Model, Node

if TYPE_CHECKING:
    from lrpnumpy.files.hdf5 import Hdf5
    from lrpnumpy.files.kinds import LoadOptions, WeightFile

FORMAT, VERSION = "lrpnumpy", 2
# Optional settings of a model, and how each is read.
_OPTIONAL = {
    "result": "string", "classes": "strings", "output_unit": "string", "window": "integer", "default_method": "string",
}  # fmt: skip
Take = Callable[[str, Shape], np.ndarray]  # path and expected shape -> array
Words = Callable[[str, int], list[str]]  # path and expected number -> words

# --------------------------------------------------------------------------------- model <-> settings, arrays


def settings_of(model: Model) -> dict[str, Any]:
    """Everything of a model that is not an array or a vocabulary, as plain JSON."""
    return {
        "inputs": [
            {"name": name, **port.settings(), "embedding": _embedding_settings(port.embedding)}
            for name, port in model.inputs.items()
        ],
        "nodes": [
            {"name": name, "inputs": inputs, "layer": _layer_settings(layer)} for name, layer, inputs in model.network
        ],
        **{name: getattr(model, name) for name in ("output", "output_scaler", *_OPTIONAL)},
        "provenance": dict(model.provenance or {}),
    }


def _embedding_settings(embedding: Embedding | None) -> dict[str, Any] | None:
    if embedding is None:
        return None
    if callable(embedding.tokenizer):
        raise LrpError("save: tokenizer must be one by name; save with tokenizer='space', and pass yours to load.")
    has_words = embedding.vocabulary is not None
    return {"rows": len(embedding.E), "size": embedding.size, **embedding.settings(), "vocabulary": has_words}


def _layer_settings(layer: Record) -> dict[str, Any]:
    kind, settings, more = type(layer).__name__, layer.settings(), {}
    if LAYERS.get(kind) is not type(layer):  # a custom layer
        if isinstance(layer, Cell):
            kind, settings = "Cell", {"statement": layer.statement.to_data()}
        else:
            more = {"version": layer.version}  # type: ignore[attr-defined]
    return {
        "kind": kind,
        "arrays": {name: array.shape for name, array in layer.arrays()},
        "settings": settings,
        "parts": {name: _layer_settings(part) for name, part in layer.parts()},
        **more,
    }


def vocabularies_of(model: Model) -> dict[str, tuple[str, ...]]:
    """Every vocabulary of a model under its path in the file."""
    embeddings = {name: port.embedding for name, port in model.inputs.items() if port.embedding is not None}
    return {f"inputs/{name}/vocabulary": e.vocabulary for name, e in embeddings.items() if e.vocabulary is not None}


def arrays_of(model: Model) -> dict[str, np.ndarray]:
    """Every array of a model under its path in the file."""
    found = {f"inputs/{name}/E": port.embedding.E for name, port in model.inputs.items() if port.embedding is not None}
    for node in model.network:
        found.update({f"layers/{node.name}/{path}": array for path, array in node.layer.all_arrays()})
    return found


def model_of(settings: Fields, take: Take, words: Words, custom: Mapping[str, Any] = MappingProxyType({})) -> Model:
    """The model that `settings` describes; arrays are taken by path and expected shape, words by path and count.

    `custom` are classes of custom layers by name.
    """
    settings.source.budget.layers(len(settings.items("nodes")))
    nodes: list[Any] = []
    readout = settings.optional("string", "readout")  # of older files, whose nodes are a list of layers
    for k, item in enumerate(settings.items("nodes")):
        node = Fields(settings.source, f"{settings.where}: node {k}", item)
        name = node.string("name")
        layer = _layer(f"layers/{name}", node.object("layer"), take, custom)
        nodes.append(layer if readout is not None else Node(name, layer, tuple(node.strings("inputs"))))
    inputs = {}
    for k, item in enumerate(settings.items("inputs")):
        port = Fields(settings.source, f"input {k}", item)
        name = port.string("name")
        inputs[name] = _input(f"inputs/{name}", port, take, words)
    return Model(
        tuple(nodes),
        inputs=inputs,
        readout=readout,
        output=settings.string("output"),  # type: ignore[arg-type]
        provenance=settings.object("provenance").value,
        output_scaler=_scaler(settings, "output_scaler"),
        **{name: settings.optional(kind, name) for name, kind in _OPTIONAL.items()},
    )


def _input(path: str, port: Fields, take: Take, words: Words) -> Input:
    """An input from its description."""
    embedding = None
    if port.has("embedding"):
        e = port.object("embedding")
        rows, size = e.integer("rows"), e.integer("size")
        embedding = Embedding(
            take(f"{path}/E", (rows, size)),
            vocabulary=tuple(words(f"{path}/vocabulary", rows)) if e.boolean("vocabulary") else None,
            unknown=False if e.value.get("unknown") is False else e.optional("string", "unknown"),
            lowercase=e.boolean("lowercase"),
            tokenizer=e.string("tokenizer"),  # type: ignore[arg-type]
            mask=e.optional("integer", "mask"),
        )
    return Input(
        port.optional("integer", "size"),
        port.boolean("steps", True),
        port.optional("strings", "features"),
        embedding,
        port.optional("number", "mask_value"),
        _scaler(port, "scaler"),
        port.optional("items", "pad"),
    )


def _scaler(fields: Fields, key: str) -> list[list[float]] | None:
    """Means and scales, two lists of numbers."""
    if not fields.has(key):
        return None
    found = fields.items(key)
    if len(found) != 2 or not all(isinstance(one, list) and all(type(v) in (int, float) for v in one) for one in found):
        fields.refuse(f"{key} must be two lists of numbers, means and scales")
    return found


def _layer(at: str, fields: Fields, take: Take, custom: Mapping[str, Any]) -> Layer:
    """A layer from its description: kind, shapes of its arrays, settings, and the layers inside it."""
    kind = fields.string("kind")
    made = _class_of(kind, fields, custom)
    arrays = fields.object("arrays")
    parts = fields.object("parts")
    settings = fields.object("settings").value
    if made is not StoredCell:
        known = {*made.field_names()}
        if foreign := ({*arrays.value, *parts.value, *settings} - known):
            fields.refuse(f"{kind} has {', '.join(sorted(known))}, not {sorted(foreign)[0]!r}")
    return made(
        **{name: take(f"{at}/{name}", tuple(arrays.integers(name))) for name in arrays.value},
        **{name: _layer(f"{at}/{name}", parts.object(name), take, custom) for name in parts.value},
        **settings,
    )


def _class_of(kind: str, fields: Fields, custom: Mapping[str, Any]) -> Any:
    """The class of a layer: built-in, a custom cell, whose operations the file holds, or one that the caller passes."""
    if kind == "Cell":
        return StoredCell
    if kind in LAYERS:
        return LAYERS[kind]
    version = fields.optional("integer", "version")
    if kind not in custom:
        fields.refuse(f"{kind} is a custom layer; pass its class to load: custom={{{kind!r}: {kind}}}")
    if not (isinstance(custom[kind], type) and issubclass(custom[kind], Layer)):
        fields.refuse(f"custom[{kind!r}] must be the class of the layer, a subclass of lrp.Layer")
    if custom[kind].version != version:
        fields.refuse(f"{kind} was saved in version {version}, the class passed has version {custom[kind].version}")
    return custom[kind]


# ---------------------------------------------------------------------------------------------------- reading


def read_file(opened: WeightFile, options: LoadOptions) -> Imported | Report:
    """The model of a file, or the one called `which` of several; the names of these where none is asked for."""
    file, which = opened.hdf5, options.which
    kind, names = f"lrpnumpy HDF5, version {VERSION}", model_names(file)
    if options.several and names and which is None:
        return Report(opened.file, kind, None, (), tuple(names))
    if names and which not in names:
        listed = ", ".join(map(repr, names[:20])) + (", …" if len(names) > 20 else "")
        raise file.error("", f"holds {len(names)} models, {listed}; say which, as which={names[0]!r}, got {which!r}")
    if not names and which is not None:
        raise file.error("", f"holds one model; leave out which, got {which!r}")
    at = f"{which}/" if which else ""
    text = file.attribute(at, "model")
    if not isinstance(text, str):
        raise file.error(f"{at}@model", "must be a string that describes the model")
    settings = Fields(file, f"{at}@model", parse_json(file, f"{at}@model", text))
    arrays: dict[str, np.ndarray] = {}

    def take(path: str, shape: Shape) -> np.ndarray:
        arrays[path] = file.array(at + path, shape)
        return arrays[path]

    model = model_of(settings, take, lambda path, count: file.strings(at + path, count), options.custom or {})
    if settings.has("sha256") and settings.string("sha256") != _sha256(arrays):
        raise file.error(at, "has other weights than were saved; it is damaged")
    return Imported(model, kind=kind)


def model_names(file: Hdf5) -> list[str]:
    """The models of a file that holds several; none where it holds a single one."""
    if (found := file.attribute("", "version")) != VERSION:
        advice = "; it is from a newer lrpnumpy: upgrade this one" if isinstance(found, int) and found > VERSION else ""
        raise file.error("@version", f"must be the whole number {VERSION}, got {found!r}{advice}")
    text = file.text("models")
    names = [] if text is None else parse_json(file, "@models", text)
    return Fields(file, "@models", {"names": names}).strings("names")


def _sha256(arrays: Mapping[str, np.ndarray]) -> str:
    """Over the bytes of all arrays, little-endian, in the order of their paths."""
    state = hashlib.sha256()
    for path in sorted(arrays):
        state.update(arrays[path].astype(arrays[path].dtype.newbyteorder("<"), copy=False).tobytes())
    return state.hexdigest()


# ---------------------------------------------------------------------------------------------------- writing


@door
def save(model: Model, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a `model` in the native HDF5 format; `load` gives the same model back, bit for bit.

    An existing file raises an error unless `overwrite` is true. The new file is complete or absent: if writing fails,
    the previous file at `path` remains.
    """
    _check_model(model, "model")
    _write(path, {"": model}, {}, overwrite)


def save_many(models: Mapping[str, Model], path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write several models into one file, to be read with `load(path, which=name)`.

    Names may have parts, as "addition/7". `overwrite` is that of `save`.
    """
    if not models:
        raise LrpError("save_many: models must have at least one model, got none.")
    for name, model in models.items():
        _check_model(model, f"models[{name!r}]")
        if not isinstance(name, str) or "\0" in name or {"", "."} & set(name.split("/")):
            raise LrpError(f"save_many: names must be words parted by '/', as 'addition/7', got {name!r}.")
        if inside := next((other for other in models if other.startswith(f"{name}/")), None):
            raise LrpError(f"save_many: models must not lie inside each other, got {name!r} and {inside!r}.")
    _write(path, models, {"models": json.dumps(list(models))}, overwrite)


def _check_model(model: Any, what: str) -> None:
    if not isinstance(model, Model):
        raise LrpError(f"save: {what} must be a Model, got {type(model).__name__}.")


def _write(
    path: str | os.PathLike[str], models: Mapping[str, Model], attributes: Mapping[str, str], overwrite: bool
) -> None:
    """Write all of a file, or nothing."""
    import h5py

    target = disk.check_free(path, overwrite)
    # v110: small groups take little room, and a checksum guards all that is not data
    # in memory: where the disk is full, the HDF5 library does not always say so
    content = io.BytesIO()
    with h5py.File(content, "w", libver=("v110", "v110")) as file:
        file.attrs["format"] = np.bytes_(FORMAT)
        file.attrs["version"] = VERSION
        for key, text in attributes.items():
            file.attrs[key] = _utf8(text, key)
        for group, model in models.items():
            _write_model(file.require_group(group or "/"), model)
    try:
        with disk.written(target, overwrite) as written:
            written.write(content.getbuffer())
    except LrpError as error:
        raise WeightFileError(str(error)) from error


def _write_model(group: Any, model: Model) -> None:
    import h5py

    arrays = arrays_of(model)
    for path, array in arrays.items():
        group.create_dataset(path, data=array, dtype=array.dtype.newbyteorder("<"))
    for path, vocabulary in vocabularies_of(model).items():
        words = [_utf8(word, f"vocabulary word {k}") for k, word in enumerate(vocabulary)]
        dtype = h5py.string_dtype("utf-8", max(1, *map(len, words)))
        group.create_dataset(path, data=np.array(words, dtype), compression="gzip")
    text = json.dumps({**settings_of(model), "sha256": _sha256(arrays)})
    group.attrs["model"] = _utf8(text, "the settings of the model")


def _utf8(text: str, what: str) -> np.bytes_:
    try:
        encoded = text.encode("utf-8")
    except UnicodeEncodeError:
        raise LrpError(f"save: {what} must be text that UTF-8 can hold, got {text!r}.") from None
    if b"\0" in encoded:
        raise LrpError(f"save: {what} must not contain the character NUL, got {text!r}.")
    return np.bytes_(encoded)
