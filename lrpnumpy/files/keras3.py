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
    stream, size = archive.window(MEMBERS[1], archive.max_bytes), archive.members[MEMBERS[1]].file_size
    with Hdf5(f"{archive.file}: {MEMBERS[1]}", size, stream, archive.budget) as file:
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
    groups: dict[str, list[tuple[int, str]]] = {}  # of each class in snake case: counter and name
    for name in file.children(root):
        if match := _COUNTED.fullmatch(name):
            groups.setdefault(match[1], []).append((int(match[2] or 0), name))
    alike: dict[str, list[int]] = {}
    for layer in layers:
        alike.setdefault(layer.kind, []).append(layer.position)
    place = {position: nth for positions in alike.values() for nth, position in enumerate(positions)}
    ordered = {kind: sorted(groups.get(_snake_case(kind), [])) for kind in alike}

    def paths(layer: keras.KerasLayer) -> list[str]:
        found, count = ordered[layer.kind], len(alike[layer.kind])
        if len(found) != count:
            layer.refuse(f"cannot be matched: the configuration has {count} of its class, the file {len(found)}")
        at = f"{root}/{found[place[layer.position]][1]}"
        return [path for inside in _INSIDE.get(layer.kind, ("",)) for path in _variables(file, f"{at}/{inside}")]

    return paths


_COUNTED = re.compile(r"(.*?)(?:_(\d{1,9}))?")
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
