"""Keras 3 files, and those of TensorFlow 2.12 to 2.15 in the same layout: `.keras` and `.weights.h5`.

Arrays lie under the class of their layer in snake case with a counter (`layers/lstm_1/cell/vars/0`), whatever
the layer is called; the counter does not always go up by one, so groups of a class are taken in its order.
"""

from __future__ import annotations

import re
from typing import Any

from lrpnumpy.files import keras
from lrpnumpy.files.archive import Archive
from lrpnumpy.files.hdf5 import Hdf5
from lrpnumpy.files.safe import Fields, parse_json
from lrpnumpy.model import Model

ROOTS = ("layers", "_layer_checkpoint_dependencies")
MEMBERS = ("config.json", "model.weights.h5")


def recognised(file: Hdf5) -> bool:
    """Whether an HDF5 file has its layers where Keras 3 puts them."""
    return any(file.is_group(root) for root in ROOTS)


def read_archive(archive: Archive, config: Any) -> tuple[str, Model, list[str]]:
    """Kind, model, and what was assumed, of a `.keras` file."""
    if config is not None:
        raise archive.error("", "has its own configuration; leave out config")
    settings = Fields(archive, MEMBERS[0], parse_json(archive, MEMBERS[0], archive.text_member(MEMBERS[0])))
    version = "not said"
    if "metadata.json" in archive.members:
        metadata = parse_json(archive, "metadata.json", archive.text_member("metadata.json"))
        version = Fields(archive, "metadata.json", metadata).string("keras_version")
    content = archive.member(MEMBERS[1], archive.max_bytes)
    with Hdf5(f"{archive.file}: {MEMBERS[1]}", len(content), content, max_bytes=archive.max_bytes) as file:
        model, notes = keras.build(
            file, {**settings.value, "keras_version": version}, lambda layers: _paths(file, layers)
        )
    return f"Keras {version} archive (.keras)", model, notes


def read_weights(file: Hdf5, config: Any) -> tuple[str, Model, list[str]]:
    """Kind, model, and what was assumed, of a `.weights.h5` file with its configuration beside it."""
    if config is None:
        raise file.error(
            "", "holds Keras weights without their configuration; pass config, the JSON of model.to_json()"
        )
    model, notes = keras.build(file, config, lambda layers: _paths(file, layers))
    return "Keras 3 weights (.weights.h5), with a configuration beside them", model, notes


def _paths(file: Hdf5, layers: list[keras.KerasLayer]) -> keras.Paths:
    """The arrays of each layer: the n-th of its class goes with the n-th group of its class."""
    root = next((root for root in ROOTS if file.is_group(root)), None)
    if root is None:
        raise file.error("", f"must have its layers under one of {', '.join(ROOTS)}")
    groups = file.children(root)

    def paths(layer: keras.KerasLayer) -> list[str]:
        alike = [other.position for other in layers if other.kind == layer.kind]
        name = re.compile(re.escape(_snake_case(layer.kind)) + r"(?:_(\d{1,9}))?")
        found = sorted((int(m[1] or 0), m[0]) for m in map(name.fullmatch, groups) if m)
        if len(found) != len(alike):
            layer.refuse(f"cannot be matched: the configuration has {len(alike)} of its class, the file {len(found)}")
        at = f"{root}/{found[alike.index(layer.position)][1]}"
        return [path for inside in _INSIDE.get(layer.kind, ("",)) for path in _variables(file, f"{at}/{inside}")]

    return paths


_INSIDE = {
    "LSTM": ("cell/",),
    "Bidirectional": ("forward_layer/cell/", "backward_layer/cell/"),
    "TimeDistributed": ("layer/",),
}


def _variables(file: Hdf5, at: str) -> list[str]:
    count = len(file.children(f"{at}vars"))
    return [f"{at}vars/{k}" for k in range(count)]


def _snake_case(name: str) -> str:
    """`TimeDistributed` to `time_distributed`, `LSTM` to `lstm`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=.)(?=[A-Z][a-z])", "_", name).lower()
