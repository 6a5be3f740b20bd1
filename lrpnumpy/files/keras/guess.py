"""Keras weights without their configuration: a plain chain of layers can be told from the shapes of its arrays.

Activations, readout and output are taken from the caller's hints, or assumed with a warning.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.files.hints import Hints, LayerHint, layer_hints
from lrpnumpy.files.report import Imported
from lrpnumpy.files.safe import Source

# Beginnings of names: of layers that do nothing, and of those that make one vector of the steps.
_IDLE = ("dropout", "spatial_dropout", "input", "gaussian_", "alpha_dropout", "activity_regularization")
_READOUT_LAYERS = {"global_average_pooling1d": "mean", "global_max_pooling1d": "max"}
_POOLS = {"mean": "GlobalAveragePooling1D", "max": "GlobalMaxPooling1D"}
_READOUTS = ("last", "every", *_POOLS)


class Guess(NamedTuple):
    """A configuration made from arrays, and the warning that goes with it."""

    config: dict[str, Any]
    text: str


class _Part(NamedTuple):
    """A layer as its arrays show it."""

    name: str
    kind: str
    inputs: int
    outputs: int
    settings: dict[str, Any]


def with_guess(imported: Imported, guess: Guess | None) -> Imported:
    """The same with a warning of what was guessed."""
    if guess is None:
        return imported
    notes, warnings = ([guess.text, *texts] for texts in (imported.notes, imported.warnings))
    return imported._replace(notes=notes, warnings=warnings, guessed=True)


Groups = Sequence[tuple[str, list[str]]]  # of a file: a name and the paths of its arrays


def guess(source: Source, groups: Groups, hints: Hints, beside: Groups = ()) -> Guess:
    """The configuration of a chain of layers, from the groups of a file.

    Groups of one class are in the order of definition. Those `beside` are in no order: their names are free.
    """
    if hints.layers is not None:
        return _described(source, dict([*groups, *beside]), hints)
    advice = "pass config, the JSON of model.to_json(), a text or the path of a file"
    placed, empty = [name for name, paths in beside if paths], [name for name, paths in beside if not paths]
    if placed:
        advice += f", of a functional model in which layers are called {', '.join(placed)[:200]} as in the file"
    parts, named = [], "last"
    for name, paths in (*groups, *beside):
        part = None if name.startswith("time_distributed") else _part(source, name, paths)
        if part is not None:
            parts.append(part)
        elif not paths and name in _READOUT_LAYERS:
            named = _READOUT_LAYERS[name]
        elif paths or not (name.startswith(_IDLE) or (name, paths) in beside):
            raise source.error(
                "",
                f"holds Keras weights without their configuration, and {name!r:.80} is not clear without; "
                f"{_example((*groups, *beside))}; or {advice}",
            )
    chain = _chain(parts, placed)
    if chain is None:
        shown = ", ".join(f"{part.name} ({part.inputs} to {part.outputs})" for part in parts[:20])
        raise source.error(
            "",
            f"holds Keras weights without their configuration, which fit in no single order: {shown}; "
            f"{_example((*groups, *beside))}; or {advice}",
        )
    readout, output = hints.readout or named, hints.output or "linear"
    if readout not in _READOUTS:
        raise source.error("", f"readout must be one of {', '.join(_READOUTS)} for weights alone, got {readout!r}")
    heads = [part for part in chain if part.kind == "Dense"]
    activations = hints.activations
    if len(heads) > 1 and activations is None:
        names = ", ".join(part.name for part in heads[:-1])
        raise source.error(
            "",
            f"holds Keras weights without their configuration; pass the activations after {names}: "
            f"activations={['relu'] * (len(heads) - 1)}, or {advice}",
        )
    hidden = list(activations or [])
    if len(hidden) != max(len(heads) - 1, 0):
        raise source.error("", f"needs {max(len(heads) - 1, 0)} activations, one for each Dense layer except the last")
    more = f"{', '.join(placed)} placed where the shapes fit, " if placed else ""
    more += f"{', '.join(empty)} without arrays left out, " if empty else ""
    text = (
        f"holds weights without their configuration: taken as {', '.join(part.kind for part in chain)} in this order, "
        f"{more}cells with their usual activations, readout {readout!r}, output {output!r}; say readout=, output= or "
        "config= where this is wrong, and check=(x, y) to be sure"
    )
    order: list[str] = []
    top = max((k for k, part in enumerate(chain) if part.kind not in ("Dense", "Embedding")), default=-1)
    for k, part in enumerate(chain):
        order.append(part.name)
        if k == top and readout in _POOLS:
            order.append(readout)
        if part.kind == "Dense" and hidden:
            order.append(hidden.pop(0))
    steps = [LayerHint(name, {}) for name in order]
    return Guess(_graph({part.name: part for part in parts}, steps, readout, output), text)


# ---------------------------------------------------------------------------------------------------- by `layers`


def _example(groups: Groups) -> str:
    """A possible `layers` for an error: the layers of the file in their order, and what joins some of them."""
    names: list[str] = []
    for name, paths in groups:
        if paths:
            names.append(name)
        elif "concat" in name:
            names.append(f"concat({', '.join(one for one in names if 'concat' not in one)})")
    return f"say layers={names}, in the order in which they are applied, with activations such as 'relu' after them"


def _described(source: Source, groups: dict[str, list[str]], hints: Hints) -> Guess:
    """The configuration that `layers` describes."""
    steps = layer_hints(source, hints.layers or ())
    parts: dict[str, _Part] = {}
    for name, paths in groups.items():
        if name not in {step.name for step in steps}:
            continue
        part = _part(source, name, paths)
        if part is None:
            shapes = [source.shape(path) for path in paths]
            raise source.error("", f"has the layer {name[:80]!r} with arrays {shapes}, which is not understood")
        parts[name] = part
    unknown = [step.name for step in steps if step.name not in (*parts, "concat", *_POOLS, *ACTIVATIONS, "softmax")]
    if unknown:
        known = ", ".join([*groups, "concat(...)", *_POOLS])
        raise source.error("", f"layers must name layers of the file, activations, or {known}, got {unknown[0][:80]!r}")
    text = "holds weights without their configuration: built as layers= describes; check=(x, y) confirms it"
    return Guess(_graph(parts, steps, hints.readout or "last", hints.output or "linear"), text)


def _graph(parts: dict[str, _Part], steps: Sequence[LayerHint], readout: str, output: str) -> dict[str, Any]:
    """The configuration of a functional model: an entry takes the value of the one before, a join those it names."""
    layers: dict[str, dict[str, Any]] = {}
    value = ""
    for k, step in enumerate(steps):
        name, inputs = step.name, [value]
        if name in parts:
            kind, settings = parts[name].kind, parts[name].settings
            inner = settings["layer"]["config"] if kind == "Bidirectional" else settings
            if "units" in inner and kind != "Dense":
                inner["return_sequences"] = readout == "every" or any(
                    _takes_steps(parts, one) for one in steps[k + 1 :]
                )
            if not value:
                shape = [None, None] if kind == "Embedding" else [None, None, parts[name].inputs]
                layers["x"] = _configured("InputLayer", "x", {"batch_input_shape": shape}, [])
                inputs = ["x"]
        elif name == "concat":
            kind, name, settings = "Concatenate", f"concat_{k}", {}
            inputs = [str(one) for one in step.settings.values()]
        elif name in _POOLS:
            kind, name, settings = _POOLS[name], f"pool_{k}", {}
        else:
            kind, name, settings = "Activation", f"{name}_{k}", {"activation": name}
        layers[name] = _configured(kind, name, settings, inputs)
        value = name
    layers["probability"] = _configured("Activation", "probability", {"activation": output}, [value])
    order = [name for name in parts if name in layers]  # as in the file, which is how Keras finds the arrays
    order += [name for name in layers if name not in parts]
    ends = {"input_layers": [["x", 0, 0]], "output_layers": [["probability", 0, 0]]}
    config = {"name": "model", "layers": [layers[name] for name in order], **ends}
    return {"class_name": "Functional", "config": config}


def _configured(kind: str, name: str, settings: dict[str, Any], inputs: list[str]) -> dict[str, Any]:
    """A layer of a functional configuration."""
    nodes = [[[value, 0, 0, {}] for value in inputs]] if inputs else []
    return {"class_name": kind, "name": name, "config": {**settings, "name": name}, "inbound_nodes": nodes}


def _takes_steps(parts: dict[str, _Part], step: LayerHint) -> bool:
    """Whether an entry needs all steps of a recurrent layer before it: another one, a join, a pool, an attention."""
    if step.name in parts:
        return parts[step.name].kind not in ("Dense", "Embedding")
    return step.name == "concat" or step.name in _POOLS


def _part(source: Source, name: str, paths: list[str]) -> _Part | None:
    """What a layer is, by the shapes of its arrays; None where they do not say it."""
    shapes = [source.shape(path) for path in paths]
    if len(shapes) == 6 and shapes[:3] == shapes[3:]:
        side = _part(source, name, paths[:3])
        if side is None or side.kind == "Dense":
            return None
        inner = {"class_name": side.kind, "config": side.settings}
        return _Part(name, "Bidirectional", side.inputs, 2 * side.outputs, {"layer": inner, "merge_mode": "concat"})
    if [len(shape) for shape in shapes] == [2] and "emb" in name:
        rows, size = shapes[0]
        return _Part(name, "Embedding", 0, size, {"input_dim": rows, "output_dim": size})
    if [len(shape) for shape in shapes] == [2] and shapes[0][1] == 1 and "att" in name:
        return _Part(name, "AttentionWeightedAverage", shapes[0][0], shapes[0][0], {})
    if [len(shape) for shape in shapes] == [2, 1] and shapes[0][1] == shapes[1][0]:
        return _Part(name, "Dense", shapes[0][0], shapes[0][1], {"units": shapes[0][1]})
    if len(shapes) != 3 or len(shapes[0]) != 2 or len(shapes[1]) != 2 or not shapes[1][0]:
        return None
    D, u = shapes[0][0], shapes[1][0]
    kind = {4: "LSTM", 3: "GRU", 1: "SimpleRNN"}.get(shapes[1][1] // u)
    if kind is None or shapes[1][1] % u or shapes[0][1] != shapes[1][1]:
        return None
    settings = {"units": u, **({"reset_after": len(shapes[2]) == 2} if kind == "GRU" else {})}
    if kind != "SimpleRNN" and shapes[2] == (2 * shapes[0][1],):  # two biases in one row, as cuDNN has them
        kind, settings = f"CuDNN{kind}", {"units": u}
    return _Part(name, kind, D, u, settings)


_RANKS = {"Embedding": 0, "AttentionWeightedAverage": 2, "Dense": 3}  # of layers in a chain; recurrent ones have 1


def _chain(parts: list[_Part], free: Sequence[str]) -> list[_Part] | None:
    """The layers in the usual order: an embedding, recurrent layers of one class, Dense layers; None where it is open.

    Layers of one class are in the order of the file, which those that are `free` do not have.
    """
    chain = sorted(parts, key=lambda part: _RANKS.get(part.kind, 1))
    kinds = [part.kind for part in chain]
    is_open = any(kinds.count(part.kind) > 1 for part in chain if part.name in free)
    if is_open or len({*kinds} - {*_RANKS}) > 1 or any(a.outputs != b.inputs for a, b in pairwise(chain)):
        return None
    return chain
