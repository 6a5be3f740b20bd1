"""Keras 3 files, and those of TensorFlow 2.12 to 2.15 in the same layout: `.keras` and `.weights.h5`.

Arrays lie under the class of their layer in snake case with a counter (`layers/lstm_1/cell/vars/0`), whatever
the layer is called; the counter does not always go up by one, so groups of a class are taken in its order. A model of
a custom class also has layers beside the group `layers`: those whose attributes sort before it (`dense/vars/0`). If
all of them do, there is no such group.
"""

from __future__ import annotations

import io
import re

from lrpnumpy.files.hdf5 import Hdf5
from lrpnumpy.files.keras import guess as keras_guess
from lrpnumpy.files.keras import model as keras
from lrpnumpy.files.keras.config import KerasLayer, cells_of
from lrpnumpy.files.kinds import KERAS_ROOTS, LoadOptions, WeightFile
from lrpnumpy.files.report import Imported
from lrpnumpy.files.safe import Fields, parse_json

MEMBERS = ("config.json", "model.weights.h5")


def read_archive(opened: WeightFile, options: LoadOptions) -> Imported:
    """What a `.keras` file holds."""
    archive = opened.archive
    if options.config is not None:
        raise archive.error("", "has its own configuration; leave out config")
    settings = Fields(archive, MEMBERS[0], parse_json(archive, MEMBERS[0], archive.text_member(MEMBERS[0])))
    version = "(unknown version)"
    if "metadata.json" in archive.members:
        metadata = parse_json(archive, "metadata.json", archive.text_member("metadata.json"))
        version = Fields(archive, "metadata.json", metadata).string("keras_version")
    content = archive.member(MEMBERS[1], archive.max_bytes)
    with Hdf5(f"{archive.file}: {MEMBERS[1]}", len(content), io.BytesIO(content), archive.budget) as file:
        groups = _Groups(file)

        def words(layer: KerasLayer) -> list[str] | None:
            name = f"assets/{groups.places.get(layer.place, '')}/vocabulary.txt"
            if name not in archive.members:
                return None
            with archive.guard(name, "is not a list of words"):
                content = archive.text_member(name)
                archive.budget.visit(name, content.count(b"\n"))
                return content.decode("utf-8").split("\n")

        config = {**settings.value, "keras_version": version}
        imported = keras.build(file, config, groups.matched, options, words)
    return imported._replace(kind=f"Keras {version} archive (.keras)")


def read_weights(opened: WeightFile, options: LoadOptions) -> Imported:
    """What a `.weights.h5` file holds, with its configuration beside it or without one."""
    file = opened.hdf5
    groups, guess, config = _Groups(file), None, options.config
    if config is None:
        guess = keras_guess.guess(file, groups.listed(), options, groups.beside())
        imported = keras.build(file, guess.config, groups.named, options)
    else:
        imported = keras.build(file, config, groups.matched, options)
        groups.check_all_are_used()
    beside = ", with a configuration beside them" if guess is None else ""
    return keras_guess.with_guess(imported._replace(kind=f"Keras 3 weights (.weights.h5){beside}"), guess)


class _Groups:
    """Where the arrays of each layer are: the n-th layer of a class goes with the n-th group of the class."""

    def __init__(self, file: Hdf5) -> None:
        self.file = file
        self.places: dict[tuple[int, ...], str] = {}
        self.reasons: dict[tuple[int, ...], str] = {}

    def matched(self, layers: list[KerasLayer]) -> keras.Paths:
        """The arrays of these layers, and of those inside them."""
        self._match(layers, "")
        return self._paths

    def _root(self, at: str) -> str:
        """The group of the layers of a model; "" where the outermost model has none."""
        root = next((f"{at}{root}" for root in KERAS_ROOTS if self.file.is_group(f"{at}{root}")), "")
        if at and not root:
            raise self.file.error(at, f"must have its layers under one of {', '.join(KERAS_ROOTS)}")
        return root

    def _in_root(self, root: str) -> list[str]:
        """The names of the groups under a root."""
        return self.file.children(root) if root else []

    def listed(self) -> list[tuple[str, list[str]]]:
        """The groups of the outermost model under its root, and the arrays in each."""
        root, taken = self._root(""), self.file.children("")
        listed = []
        for name in sorted(self._in_root(root), key=_counter):
            path = f"{root}/{name}"
            listed.append((path if name in taken else name, self._sorted(path)))
        return listed

    def beside(self) -> list[tuple[str, list[str]]]:
        """The groups beside the root, and the arrays in each; "vars" are those of the model itself."""
        names = sorted(name for name in self.file.children("") if name not in (*KERAS_ROOTS, "optimizer"))
        return [(name, paths) for name in names if (paths := self._sorted(name)) or name != "vars"]

    def named(self, layers: list[KerasLayer]) -> keras.Paths:
        """The arrays of layers that have the names of their groups."""
        self.places = {layer.place: self._place(layer.name) for layer in layers}
        return self._paths

    def _place(self, name: str) -> str:
        return name if self.file.is_group(name) else f"{self._root('')}/{name}"

    def check_all_are_used(self) -> None:
        """Raise where the file has arrays of layers that the configuration does not have."""
        used = set(self.places.values())
        groups = [*self.listed(), *self.beside()]
        if left := [name for name, paths in groups if paths and self._place(name) not in used]:
            raise self.file.error(
                "",
                f"has arrays that the configuration does not use: {', '.join(left)[:300]}; pass the configuration of "
                "the whole network; a layer whose group is beside 'layers' must have the name of its group",
            )

    def _sorted(self, at: str) -> list[str]:
        """Arrays in the order in which a layer lists them: forwards before backwards, by number."""
        found = [name for name in self.file.names(at) if "vars/" in name]
        return sorted(found, key=lambda name: ("backward" in name, name))

    def _match(self, layers: list[KerasLayer], at: str) -> None:
        """Find the groups of the layers of a model, and of those inside it."""
        root = self._root(at)
        groups: dict[str, list[tuple[int, str]]] = {}  # of each class in snake case: counter and name
        for name in self._in_root(root):
            kind, counter = _counter(name)
            groups.setdefault(kind, []).append((counter, name))
        alike: dict[str, list[KerasLayer]] = {}
        beside = {name for name, paths in self.beside() if paths} if not at else set()
        for layer in layers:
            if layer.name in beside:
                self.places[layer.place] = layer.name
                continue
            alike.setdefault(_snake_case(layer.kind), []).append(layer)
        for kind, same in alike.items():
            found = sorted(groups.get(kind, []))
            if len(found) != len(same):
                reason = f"cannot be matched: the configuration has {len(same)} of its class, the file {len(found)}"
                self.reasons.update({layer.place: reason for layer in same})
                continue
            for layer, (_, name) in zip(same, found, strict=True):
                self.places[layer.place] = f"{root}/{name}"
                if layer.graph is not None:
                    self._match(layer.graph.layers, f"{root}/{name}/")

    def _paths(self, layer: KerasLayer) -> dict[str, str]:
        if layer.place not in self.places:
            layer.refuse(self.reasons.get(layer.place, "cannot be matched: it is inside a model that the file has not"))
        at = self.places[layer.place]
        if layer.kind not in keras.KNOWN:  # a layer of the caller's
            return {name.removeprefix(f"{at}/").replace("vars/", ""): name for name in self.file.names(at)}
        wrapped = self.file.is_group(f"{at}/layer")  # by a TimeDistributed
        insides = _INSIDE.get(layer.kind, ("layer/",) if wrapped else ("",))
        if layer.kind == "RNN" and self.file.is_group(f"{at}/cell/cells"):
            names = sorted(self.file.children(f"{at}/cell/cells"), key=_counter)
            insides = _in_order(layer, names)
        elif layer.kind == "MultiHeadAttention" and self.file.is_group(f"{at}/_query_dense"):
            insides = tuple(f"_{inside}" for inside in insides)
        return {
            f"{inside}{k}": path for inside in insides for k, path in enumerate(_variables(self.file, f"{at}/{inside}"))
        }


def _in_order(layer: KerasLayer, names: list[str]) -> tuple[str, ...]:
    """The groups of stacked cells: the n-th of a class goes with the n-th group of the class."""
    left: dict[str, list[str]] = {}
    for name in names:
        left.setdefault(_counter(name)[0], []).append(name)
    groups = []
    for cell, _ in cells_of(layer.settings):
        kind = _snake_case(cell)
        if not left.get(kind):
            layer.refuse(f"has a cell {kind!r:.80} without arrays in the file")
        groups.append(f"cell/cells/{left[kind].pop(0)}/")
    return tuple(groups)


def _counter(name: str) -> tuple[str, int]:
    """`lstm_1` to the class lstm and 1."""
    counted = _COUNTED.fullmatch(name)
    return (counted[1], int(counted[2] or 0)) if counted else (name, 0)


_COUNTED = re.compile(r"(.*?)(?:_(\d{1,9}))?")
_INSIDE = {
    **dict.fromkeys(("LSTM", "GRU", "SimpleRNN"), ("cell/",)),
    "Bidirectional": ("forward_layer/cell/", "backward_layer/cell/"),
    "RNN": ("cell/",),
    "MultiHeadAttention": ("query_dense/", "key_dense/", "value_dense/", "output_dense/"),
}


def _variables(file: Hdf5, at: str) -> list[str]:
    count = len(file.children(f"{at}vars"))
    return [f"{at}vars/{k}" for k in range(count)]


def _snake_case(name: str) -> str:
    """`TimeDistributed` to `time_distributed`, `LSTM` to `lstm`; for a custom class, without its package."""
    name = "Functional" if name == "Model" else name.split(">")[-1]
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=.)(?=[A-Z][a-z])", "_", name).lower()
