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
from lrpnumpy.files.keras_config import KerasLayer
from lrpnumpy.files.safe import Fields, parse_json
from lrpnumpy.model import Model

ROOTS = ("layers", "_layer_checkpoint_dependencies")
MEMBERS = ("config.json", "model.weights.h5")


def recognised(file: Hdf5) -> bool:
    """Whether an HDF5 file has its layers where Keras 3 puts them."""
    return any(file.is_group(root) for root in ROOTS)


def read_archive(
    archive: Archive, config: Any, custom: keras.Custom | None = None, which: str | None = None
) -> tuple[str, Model, list[str]]:
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
        said = {**settings.value, "keras_version": version}
        model, notes = keras.build(file, said, lambda layers: _paths(file, layers), custom, which)
    return f"Keras {version} archive (.keras)", model, notes


def read_weights(
    file: Hdf5, config: Any, custom: keras.Custom | None = None, which: str | None = None
) -> tuple[str, Model, list[str]]:
    """Kind, model, and what was assumed, of a `.weights.h5` file with its configuration beside it."""
    if config is None:
        raise file.error(
            "", "holds Keras weights without their configuration; pass config, the JSON of model.to_json()"
        )
    model, notes = keras.build(file, config, lambda layers: _paths(file, layers), custom, which)
    return "Keras 3 weights (.weights.h5), with a configuration beside them", model, notes


def _paths(file: Hdf5, layers: list[KerasLayer]) -> keras.Paths:
    """The arrays of each layer: the n-th of its class goes with the n-th group of its class."""
    places: dict[tuple[int, ...], str] = {}
    reasons: dict[tuple[int, ...], str] = {}

    def match(layers: list[KerasLayer], at: str) -> None:
        """Find the groups of the layers of a model, and of those inside it."""
        root = next((f"{at}{root}" for root in ROOTS if file.is_group(f"{at}{root}")), None)
        if root is None:
            raise file.error(at, f"must have its layers under one of {', '.join(ROOTS)}")
        groups: dict[str, list[tuple[int, str]]] = {}  # of each class in snake case: counter and name
        for name in file.children(root):
            if counted := _COUNTED.fullmatch(name):
                groups.setdefault(counted[1], []).append((int(counted[2] or 0), name))
        alike: dict[str, list[KerasLayer]] = {}
        for layer in layers:
            alike.setdefault(_snake_case(layer.kind), []).append(layer)
        for kind, same in alike.items():
            found = sorted(groups.get(kind, []))
            if len(found) != len(same):
                reason = f"cannot be matched: the configuration has {len(same)} of its class, the file {len(found)}"
                reasons.update({layer.place: reason for layer in same})
                continue
            for layer, (_, name) in zip(same, found, strict=True):
                places[layer.place] = f"{root}/{name}"
                if layer.graph is not None:
                    match(layer.graph.layers, f"{root}/{name}/")

    match(layers, "")

    def paths(layer: KerasLayer) -> dict[str, str]:
        if layer.place not in places:
            layer.refuse(reasons.get(layer.place, "cannot be matched: it is inside a model that the file has not"))
        at = places[layer.place]
        if layer.kind not in keras.KNOWN:  # a layer of the caller's
            return {name.removeprefix(f"{at}/").replace("vars/", ""): name for name in file.names_in(at)}
        return {
            f"{inside}{k}": path
            for inside in _INSIDE.get(layer.kind, ("",))
            for k, path in enumerate(_variables(file, f"{at}/{inside}"))
        }

    return paths


_COUNTED = re.compile(r"(.*?)(?:_(\d{1,9}))?")
_INSIDE = {
    **dict.fromkeys(("LSTM", "GRU", "SimpleRNN"), ("cell/",)),
    "Bidirectional": ("forward_layer/cell/", "backward_layer/cell/"),
    "TimeDistributed": ("layer/",),
}


def _variables(file: Hdf5, at: str) -> list[str]:
    count = len(file.children(f"{at}vars"))
    return [f"{at}vars/{k}" for k in range(count)]


def _snake_case(name: str) -> str:
    """`TimeDistributed` to `time_distributed`, `LSTM` to `lstm`; of a class of one's own, without its package."""
    name = "Functional" if name == "Model" else name.split(">")[-1]
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=.)(?=[A-Z][a-z])", "_", name).lower()
