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
_BY_LAYERS = ("BatchNormalization", "LayerNormalization", "Conv1D")  # have settings or places that no shape shows
_SAVE = "save a Sequential or functional model of these layers, model.save('model.keras'), and open that"
_PADDINGS = ("valid", "same", "causal")


class Guess(NamedTuple):
    """A configuration made from arrays, and the warning that goes with it."""

    config: dict[str, Any]
    text: str

    @property
    def names(self) -> set[str]:
        """The names of its layers."""
        return {layer["name"] for layer in self.config["config"]["layers"]}


class _Part(NamedTuple):
    """A layer as its arrays show it."""

    name: str
    kind: str
    inputs: int
    outputs: int
    settings: dict[str, Any]

    @property
    def has_steps(self) -> bool:
        """Whether it needs the steps of a sequence."""
        return self.kind not in ("Dense", "Embedding", "BatchNormalization", "LayerNormalization")

    @property
    def is_each_step(self) -> bool:
        """Whether it is a Dense layer at each step."""
        return self.name.rpartition("/")[2].startswith("time_distributed")


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
    advice += f"; or {_SAVE}"
    parts, named = [], "last"
    for name, paths in (*groups, *beside):
        part = _part(source, name, paths)
        if part is not None and part.kind not in _BY_LAYERS and not part.is_each_step:
            parts.append(part)
        elif not paths and name in _READOUT_LAYERS:
            named = _READOUT_LAYERS[name]
        elif paths or not (name.startswith(_IDLE) or (name, paths) in beside):
            raise source.error(
                "",
                f"holds Keras weights without their configuration, and {name!r:.80} is not clear without; "
                f"{_proposal(source, (*groups, *beside))}{advice}",
            )
    chain = _chain(parts, placed)
    if chain is None:
        shown = ", ".join(f"{part.name} ({part.inputs} to {part.outputs})" for part in parts[:20])
        raise source.error(
            "",
            f"holds Keras weights without their configuration, which fit in no single order: {shown}; "
            f"{_proposal(source, (*groups, *beside))}{advice}",
        )
    readout, output = _readout(source, hints, named), hints.output or "linear"
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
    steps: list[LayerHint] = []
    for part in chain:
        steps.append(LayerHint(part.name, {}))
        if part.kind == "Dense" and hidden:
            steps.append(LayerHint(hidden.pop(0), {}))
    return Guess(_graph({part.name: part for part in parts}, steps, readout, output), text)


def _readout(source: Source, hints: Hints, named: str) -> str:
    """The readout that the caller passes, or else the one `named` by the file."""
    readout = hints.readout or named
    if readout not in _READOUTS:
        raise source.error("", f"readout must be one of {', '.join(_READOUTS)} for weights alone, got {readout!r}")
    return readout


# ---------------------------------------------------------------------------------------------------- by `layers`


def _proposal(source: Source, groups: Groups) -> str:
    """`layers` for an error, with all layers of the file that have arrays, and what has to be confirmed.

    A layer that is not understood is named instead: `layers` without it would compute something else.
    """
    parts: list[_Part] = []
    for name, paths in groups:
        part = _part(source, name, paths)
        if part is not None:
            parts.append(part)
        elif paths:
            shapes = ", ".join(str(source.shape(path)) for path in paths[:6])
            return f"{name[:80]!r} has arrays {shapes}, and layers= does not support such a layer; "
    empty = [name for name, paths in groups if not paths]
    names, misfits = _in_likely_order(parts, any("concat" in name for name in empty))
    pools = [_READOUT_LAYERS[name] for name in empty if name in _READOUT_LAYERS]
    if pools:
        top = max((names.index(part.name) for part in parts if part.has_steps), default=-1)
        names[top + 1 : top + 1] = pools
    text = f"say layers={names}, and confirm their order and the activations, such as 'relu', which no array shows"
    if misfits:
        text += (
            f"; no layer before it fits {', '.join(misfits[:10])}, which may be another output or a branch: leave out "
            "what the scores do not use"
        )
    return f"{text}; or "


def _in_likely_order(parts: Sequence[_Part], is_joined: bool) -> tuple[list[str], list[str]]:
    """The names of all layers, each behind one whose outputs it takes where there is such a layer; those without one.

    In a file that joins layers, the first without one takes all outputs before it, if their number fits.
    """
    left = sorted(parts, key=lambda part: _RANKS.get(part.kind, _RECURRENT))
    names: list[str] = []
    misfits: list[str] = []
    widths: list[int] = []
    while left:
        if widths:
            fitting = [part for part in left if part.inputs == widths[-1]]
        else:  # the first layer takes what no other makes
            fitting = [part for part in left if all(part.inputs != one.outputs for one in left if one is not part)]
        part = next(iter(fitting), left[0])
        if widths and not fitting and is_joined and part.inputs == sum(widths):
            names.append(f"concat({', '.join(names)})")
        elif widths and not fitting:
            misfits.append(f"{part.name} ({part.inputs} to {part.outputs})")
        names.append(part.name)
        widths.append(part.outputs)
        left.remove(part)
    return names, misfits


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
            raise source.error(
                "",
                f"has the layer {name[:80]!r} with arrays {shapes}, which layers= does not support; {_SAVE}",
            )
        parts[name] = part
    unknown = [step.name for step in steps if step.name not in (*parts, "concat", *_POOLS, *ACTIVATIONS, "softmax")]
    if unknown:
        known = ", ".join([*groups, "concat(...)", *_POOLS])
        raise source.error("", f"layers must name layers of the file, activations, or {known}, got {unknown[0][:80]!r}")
    if hints.activations is not None:
        raise source.error("", "takes activations as entries of layers; write them there, and leave out activations")
    pools = [step.name for step in steps if step.name in _POOLS]
    readout, output = _readout(source, hints, "last"), hints.output or "linear"
    for step in steps:
        if step.name in parts:
            parts[step.name] = _with_settings(source, parts[step.name], step.settings)
    unused = [name for name, paths in groups.items() if paths and name not in parts]
    assumed = ["cells with their usual activations", "no activations or other steps than those listed"]
    assumed += [f"readout {(pools or [readout])[0]!r}", f"output {output!r}"]
    kinds = {part.kind for part in parts.values()}
    if "Conv1D" in kinds:
        assumed.append("convolutions with stride 1, and padding 'valid' unless listed, as in conv(padding=same)")
    if kinds & {"BatchNormalization", "LayerNormalization"}:
        assumed.append("normalizations with epsilon 0.001")
    if unused:
        assumed.append(f"arrays that are not used: {', '.join(unused)[:300]}")
    text = (
        f"holds weights without their configuration: built as layers= describes, with {', '.join(assumed)}; "
        "check=(x, y) confirms it"
    )
    if pools:
        readout = "last"  # no other pool
    return Guess(_graph(parts, steps, readout, output), text)


def _with_settings(source: Source, part: _Part, settings: dict[str, Any]) -> _Part:
    """A layer with the settings in brackets behind its name."""
    padding = settings.get("padding", "valid")
    known = {"padding"} if part.kind == "Conv1D" else set()
    if set(settings) - known or padding not in _PADDINGS:
        raise source.error(
            "",
            f"layers takes no settings except conv(padding=same), one of {', '.join(_PADDINGS)}, for a Conv1D, got "
            f"{settings} for {part.name[:80]!r}, a {part.kind}",
        )
    return part._replace(settings={**part.settings, **settings})


def _graph(parts: dict[str, _Part], steps: Sequence[LayerHint], readout: str, output: str) -> dict[str, Any]:
    """The configuration of a functional model: an entry takes the value of the one before, a join those it names."""
    layers: dict[str, dict[str, Any]] = {}
    value = ""
    if readout in _POOLS:
        top = max((k for k, step in enumerate(steps) if step.name in parts and parts[step.name].has_steps), default=-1)
        steps = [*steps[: top + 1], LayerHint(readout, {}), *steps[top + 1 :]]
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
        return parts[step.name].has_steps or parts[step.name].is_each_step
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
    lengths = {shape[0] for shape in shapes if len(shape) == 1}
    if len(lengths) == 1 and [len(shape) for shape in shapes] in ([1] * 2, [1] * 4):
        (n,) = lengths
        return _Part(name, {2: "LayerNormalization", 4: "BatchNormalization"}[len(shapes)], n, n, {})
    if [len(shape) for shape in shapes] == [3, 1] and shapes[0][2] == shapes[1][0]:
        width, inputs, outputs = shapes[0]
        return _Part(name, "Conv1D", inputs, outputs, {"filters": outputs, "kernel_size": width})
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


# The usual order of layers; all other classes are recurrent.
_RANKS = {
    "Embedding": 0,
    "BatchNormalization": 1,
    "LayerNormalization": 1,
    "Conv1D": 2,
    "AttentionWeightedAverage": 4,
    "Dense": 5,
}
_RECURRENT = 3


def _chain(parts: list[_Part], free: Sequence[str]) -> list[_Part] | None:
    """The layers in the usual order: an embedding, recurrent layers of one class, Dense layers; None where it is open.

    Layers of one class are in the order of the file, which those that are `free` do not have.
    """
    chain = sorted(parts, key=lambda part: _RANKS.get(part.kind, _RECURRENT))
    kinds = [part.kind for part in chain]
    is_open = any(kinds.count(part.kind) > 1 for part in chain if part.name in free)
    if is_open or len({*kinds} - {*_RANKS}) > 1 or any(a.outputs != b.inputs for a, b in pairwise(chain)):
        return None
    return chain
