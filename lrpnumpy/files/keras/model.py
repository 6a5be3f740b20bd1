"""How a Keras configuration and its arrays become a Model, of whichever version.

config.py reads which layer takes which values, layers.py defines the meaning of each. version2.py, version3.py (files)
and live.py find the arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from lrpnumpy.files.build.network import NotSupported
from lrpnumpy.files.hints import Hints
from lrpnumpy.files.keras.build import KerasBuild, Paths, by_custom, custom_for
from lrpnumpy.files.keras.config import KerasGraph, KerasLayer, Ref, parse
from lrpnumpy.files.keras.layers import KNOWN, MEANINGS
from lrpnumpy.files.report import Imported
from lrpnumpy.files.safe import Source, nearby, which_one
from lrpnumpy.files.simpler import simpler
from lrpnumpy.model import Model

__all__ = ["KNOWN", "Paths", "build"]


def build(
    source: Source,
    config: Any,
    paths_of: Callable[[list[KerasLayer]], Paths],
    hints: Hints,
    words: Callable[[KerasLayer], list[str] | None] = lambda layer: None,
    version: str | None = None,
) -> Imported:
    """The model of a configuration: `paths_of` finds the arrays of layers, `words` the vocabulary of a layer.

    `version` is that of the Keras that wrote it, where the file has it.
    """
    custom = dict(hints.custom or {})

    def is_known(kind: str, name: str) -> bool:
        return kind in KNOWN or custom_for(custom, kind, name) is not None

    graph, unknown = parse(source, config, is_known)
    if unknown:
        _refuse_all(source, unknown)
    if isinstance(config, dict) and isinstance(config.get("keras_version"), str):
        version = version or config["keras_version"]
    starts = [layer.settings for layer in graph.layers if layer.kind == "InputLayer"]
    if version is None and any(start.has("batch_shape") for start in starts):
        version = "3"  # before, it was called batch_input_shape
    b = KerasBuild(source, paths=paths_of(graph.layers), words=words, meanings=MEANINGS, custom=custom, version=version)
    model = _model(b, graph, _chosen(graph, hints.which))
    return Imported(model, [*b.notes, *b.warnings], [*b.warnings])


def _refuse_all(source: Source, unknown: list[KerasLayer]) -> NoReturn:
    """One error for all layers that are not supported."""
    shown = ", ".join(f"{layer.name[:80]!r} of the class {layer.kind[:80]!r}" for layer in unknown[:20])
    kinds = {layer.kind for layer in unknown}
    if "ConvLSTM2D" in kinds:
        raise source.error("configuration", f"has layers of pictures, which are not supported: {shown}")
    if "Lambda" in kinds:
        shown += "; Lambda holds Python code, which is never run"
    kind = unknown[0].kind.split(">")[-1][:80]
    near = nearby(kind, sorted(KNOWN))
    raise source.error("configuration", f"has layers that are not supported: {shown}; {by_custom(kind)}{near}")


def _chosen(graph: KerasGraph, which: str | None) -> Ref:
    """The output that gives the scores."""
    names = [ref.layer for ref in graph.outputs]
    if len(names) == 1:
        if which is not None:
            graph.where.refuse(f"has one output; which must be left out, got {which!r}")
        return graph.outputs[0]
    if len(set(names)) < len(names):  # several outputs of one layer
        names = [f"{ref.layer}:{ref.tensor}" for ref in graph.outputs]
    if which not in names:
        graph.where.refuse(which_one(names, which))
    return graph.outputs[names.index(which)]


def _model(b: KerasBuild, graph: KerasGraph, end: Ref) -> Model:
    """The model of a whole graph."""
    (result,) = b.run(graph, [end], {})
    b.warn_of_padding()
    if not b.nodes:
        return Model(())
    names = {entry.ref: name for name, entry in b.entries.items()}
    b.ports = {names[ref]: b.entries[names[ref]].made() for ref in graph.inputs if ref in names}
    try:
        model = b.finished(result)
    except NotSupported as refused:
        graph.where.refuse(refused.args[1])
    smaller, note = simpler(model)
    if note:
        b.note(note)
    return smaller
