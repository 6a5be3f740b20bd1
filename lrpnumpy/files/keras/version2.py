"""Keras 1 and 2 HDF5 files, and those of Keras 3 in the same layout: whole models and weights alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, takewhile

from lrpnumpy.files.build.constants import as_list
from lrpnumpy.files.hdf5 import Hdf5
from lrpnumpy.files.keras import guess as keras_guess
from lrpnumpy.files.keras import model as keras
from lrpnumpy.files.keras.config import KerasLayer, cells_of
from lrpnumpy.files.kinds import LoadOptions, WeightFile
from lrpnumpy.files.report import Imported
from lrpnumpy.files.safe import MAX_NAMES, Fields, parse_json


def read(opened: WeightFile, options: LoadOptions) -> Imported:
    """What a file holds; `config` is for weights alone."""
    file, root = opened.hdf5, "model_weights" if opened.hdf5.is_group("model_weights") else ""
    config = options.config
    version = next((v for at in ("", root) if isinstance(v := file.attribute(at, "keras_version"), str)), None)
    text = file.text("model_config")
    groups = _groups(file, root)
    if text is not None:
        if config is not None:
            raise file.error("", "has its own configuration; leave out config")
        config = parse_json(file, "@model_config", text)
    guess = None
    if config is None:
        listed = [(name, list(groups.get(name, {}).values())) for name in _names(file, root, "layer_names")]
        guess = keras_guess.guess(file, listed, options)
        config = guess.config
        groups = {name: paths for name, paths in groups.items() if name in guess.names}
    what = "weights alone" if text is None else "whole model"
    made = keras.build(file, config, lambda layers: _paths(groups, layers), options, version=version)
    return keras_guess.with_guess(made._replace(kind=f"Keras {version or '(unknown version)'} HDF5, {what}"), guess)


def _groups(file: Hdf5, root: str) -> dict[str, dict[str, str]]:
    """The arrays of each layer that has any: name to path."""
    groups: dict[str, dict[str, str]] = {}
    for name in _names(file, root, "layer_names"):
        at = f"{root}/{name}"
        if weights := _names(file, at, "weight_names"):
            groups[name] = {weight: f"{at}/{weight}" for weight in weights}
    return groups


def _paths(groups: dict[str, dict[str, str]], layers: list[KerasLayer]) -> keras.Paths:
    """The arrays of each layer: as in Keras, the n-th layer with any goes with the n-th group with any."""
    holders = [layer for layer in layers if any(_count(layer)) or layer.name in groups]
    paths_by_place: dict[tuple[int, ...], dict[str, str]] = {}
    if len(holders) == len(groups):
        for layer, group in zip(holders, groups.values(), strict=True):
            paths_by_place |= _inside(layer, group)

    def paths(layer: KerasLayer) -> dict[str, str]:
        if not paths_by_place and (any(_count(layer)) or groups):
            layer.refuse(f"cannot be matched: the file has arrays for {len(groups)} layers, not for {len(holders)}")
        return paths_by_place.get(layer.place, {})

    return paths


def _leaves(layer: KerasLayer) -> Iterator[KerasLayer]:
    """The layer, or those of the model that it is."""
    if layer.graph is None:
        yield layer
    else:
        for inner in layer.graph.layers:
            yield from _leaves(inner)


def _count(layer: KerasLayer) -> tuple[int, int]:
    """Arrays that training changes, and others."""
    both = [_arrays_of(leaf) for leaf in _leaves(layer)]
    return sum(trained for trained, _ in both), sum(fixed for _, fixed in both)


def _inside(layer: KerasLayer, group: dict[str, str]) -> dict[tuple[int, ...], dict[str, str]]:
    """The arrays of leaf group for the layers in it. Of a model, first all that training changes, then the others."""
    if layer.graph is None:
        short = {name.split("/")[-1].split(":")[0]: path for name, path in group.items()}
        return {layer.place: short if len(short) == len(group) else group}
    if sum(_count(layer)) != len(group):
        layer.refuse(f"must have {sum(_count(layer))} arrays, the file has {len(group)}")
    left = iter(group.items())
    paths_by_place: dict[tuple[int, ...], dict[str, str]] = {}
    leaves = [(leaf, _arrays_of(leaf)) for leaf in _leaves(layer)]
    for k in range(2):
        for leaf, counts in leaves:
            paths_by_place.setdefault(leaf.place, {}).update(islice(left, counts[k]))
    return paths_by_place


def _names(file: Hdf5, path: str, attribute: str) -> list[str]:
    """A list of names, which Keras cuts into `layer_names0`, `layer_names1`, … when it is over 64 KiB."""
    parts = [file.attribute(path, attribute)]
    if parts == [None]:
        numbered = (file.attribute(path, f"{attribute}{k}") for k in range(MAX_NAMES))
        parts = list(takewhile(lambda part: part is not None, numbered))
    names = [name for part in parts for name in as_list(part)]
    return Fields(file, f"{path} @{attribute}", {"names": names}).strings("names")


# -------------------------------------------------------------------------------------------------- how many arrays


# Of each class: arrays that are always there, settings that are each an array unless False, arrays not trained.
_COUNTS: dict[str, tuple[int, tuple[str, ...], int]] = {
    **dict.fromkeys(("CuDNNLSTM", "CuDNNGRU"), (3, (), 0)),
    **dict.fromkeys(("LSTM", "GRU", "SimpleRNN", "SeparableConv1D"), (2, ("use_bias",), 0)),
    **dict.fromkeys(("Dense", "TimeDistributedDense", "Conv1D", "Convolution1D"), (1, ("use_bias",), 0)),
    "DepthwiseConv1D": (1, ("use_bias",), 0),
    **dict.fromkeys(("Embedding", "PReLU", "AttentionWeightedAverage", "RMSNormalization"), (1, (), 0)),
    "BatchNormalization": (0, ("scale", "center"), 2),
    **dict.fromkeys(("LayerNormalization", "GroupNormalization"), (0, ("scale", "center"), 0)),
    "AdditiveAttention": (0, ("use_scale",), 0),
    "MultiHeadAttention": (4, ("use_bias",) * 4, 0),
}


def _arrays_of(layer: KerasLayer) -> tuple[int, int]:
    """The numbers of trainable and other arrays of a layer. Files list the former first."""
    trained, fixed = _counted(layer.kind, layer.settings)
    if layer.settings.value.get("trainable", True) is not False:
        return (trained, fixed)
    return (0, trained + fixed)


def _counted(kind: str, settings: Fields) -> tuple[int, int]:
    values = settings.value
    if kind in ("Bidirectional", "TimeDistributed"):
        inner = settings.object("layer")
        trained, fixed = _counted(inner.string("class_name"), inner.object("config"))
        twice = 2 if kind == "Bidirectional" else 1
        return trained * twice, fixed * twice
    if kind == "RNN":
        return sum(2 + cell.boolean("use_bias", True) for _, cell in cells_of(settings)), 0
    if kind == "Attention":
        return int(values.get("use_scale") is True) + (values.get("score_mode") == "concat"), 0
    if kind == "Normalization":
        return 0, 0 if settings.has("mean") else 3
    always, unless_false, fixed = _COUNTS.get(kind, (0, (), 0))
    return always + sum(values.get(key, True) is not False for key in unless_false), fixed
