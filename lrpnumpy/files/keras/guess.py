"""Keras weights without their configuration: the network from the caller's `layers` and the shapes of the arrays.

An embedding, recurrent layers of one class and a Dense layer open without `layers` where they fit in one order only.
For all others the error proposes `layers`. Whatever no array shows is assumed with a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
_NORMS = {2: "LayerNormalization", 4: "BatchNormalization"}  # by the number of their arrays
_CELLS = {4: "LSTM", 3: "GRU", 1: "SimpleRNN"}  # by the number of their gates
# The usual order of layers; all other classes are recurrent.
_RANKS = {
    "Embedding": 0, "BatchNormalization": 1, "LayerNormalization": 1, "Conv1D": 2, "AttentionWeightedAverage": 4,
    "Dense": 5,
}  # fmt: skip
_RECURRENT = 3
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
    def rank(self) -> int:
        """Its place in the usual order."""
        return _RANKS.get(self.kind, _RECURRENT)

    @property
    def has_steps(self) -> bool:
        """Whether it needs the steps of a sequence."""
        return 2 <= self.rank <= 4

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
    """The configuration of the layers in the groups of a file.

    Groups of one class are in the order of definition. Those `beside` are in no order: their names are free.
    """
    every = dict([*groups, *beside])
    if hints.activations is not None:
        raise source.error("", "takes activations as entries of layers; write them there, and leave out activations")
    if hints.layers is not None:
        return _described(source, every, hints, layer_hints(source, hints.layers), "built as layers= describes")
    parts = [part for name, paths in every.items() if (part := _part(source, name, paths)) is not None]
    parts.sort(key=lambda part: part.rank)
    names, misfits = _in_likely_order(parts, any("concat" in name for name, paths in every.items() if not paths))
    kinds = [part.kind for part in parts]
    placed, empty = ([name for name, paths in beside if bool(paths) is has_any] for has_any in (True, False))
    idle = [name for name, paths in groups if not paths and (name in _READOUT_LAYERS or name.startswith(_IDLE))]
    is_clear = (
        len(parts) + len(empty) + len(idle) == len(every)
        and names == [part.name for part in parts]
        and not misfits
        and not any(part.rank in (1, 2, 4) or part.is_each_step for part in parts)  # settings that no shape shows
        and kinds.count("Dense") < 2
        and len({*kinds} - {*_RANKS}) < 2
        and all(kinds.count(part.kind) == 1 for part in parts if part.name in placed)
    )
    if not is_clear:
        raise source.error(
            "",
            "holds Keras weights without their configuration, which do not show how the layers are connected; "
            f"{_proposal(source, every, parts, names, misfits)}pass config, the JSON of model.to_json() or the path of "
            f"such a file, with layers named as in the weights; or {_SAVE}",
        )
    how = f"taken as {', '.join(kinds)} in this order"
    for some, what in ((placed, "placed where the shapes fit"), (empty, "without arrays left out")):
        if some:
            how += f", {', '.join(some)} {what}"
    pools = [_READOUT_LAYERS[name] for name in idle if name in _READOUT_LAYERS]
    return _described(source, every, hints, [LayerHint(name, {}) for name in names], how, *pools[-1:])


def _proposal(
    source: Source, groups: dict[str, list[str]], parts: list[_Part], names: list[str], misfits: list[str]
) -> str:
    """`layers` for an error, with all layers of the file that have arrays, and what has to be confirmed.

    A layer that is not understood is named instead: `layers` without it would compute something else.
    """
    understood = {part.name for part in parts}
    for name, paths in groups.items():
        if paths and name not in understood:
            return f"{_not_supported(source, name, paths)}; "
    pools = [_READOUT_LAYERS[name] for name in groups if name in _READOUT_LAYERS]
    behind = _behind_steps(names, parts)
    layers = [*names[:behind], *pools, *names[behind:]]
    text = f"say layers={layers}, and confirm their order and the activations, such as 'relu', which no array shows"
    if misfits:
        text += f"; no layer before it fits {', '.join(misfits[:10])}, which may be a branch or an output to leave out"
    return f"{text}; or "


def _not_supported(source: Source, name: str, paths: list[str]) -> str:
    shapes = ", ".join(str(source.shape(path)) for path in paths[:6])
    return f"{name[:80]!r} has arrays {shapes}, and is a layer which layers= does not support"


def _in_likely_order(parts: Sequence[_Part], is_joined: bool) -> tuple[list[str], list[str]]:
    """The names of all layers, each behind one whose outputs it takes where there is such a layer; those without one.

    In a file that joins layers, the first without one takes all outputs before it, if their number fits.
    """
    left = list(parts)
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


def _described(
    source: Source, groups: dict[str, list[str]], hints: Hints, steps: list[LayerHint], how: str, readout: str = "last"
) -> Guess:
    """The configuration that `steps` describe, with what is assumed besides."""
    readout, output = hints.readout or readout, hints.output or "linear"
    if readout not in _READOUTS:
        raise source.error("", f"readout must be one of {', '.join(_READOUTS)} for weights alone, got {readout!r}")
    parts: dict[str, _Part] = {}
    for name, settings in steps:
        if name in groups:
            part = _part(source, name, groups[name])
            if part is None:
                raise source.error("", f"{_not_supported(source, name, groups[name])}; {_SAVE}")
            parts[name] = _with_settings(source, part, settings)
        elif name not in ("concat", "softmax", *_POOLS, *ACTIVATIONS):
            known = ", ".join([*groups, "concat(...)", *_POOLS])
            raise source.error("", f"layers must name layers of the file, activations, or {known}, got {name[:80]!r}")
    parts = {name: parts[name] for name in groups if name in parts}  # in the order of the file
    pools = [step.name for step in steps if step.name in _POOLS]
    assumed = ["cells with their usual activations", "no activations or other steps than those listed"]
    assumed += [f"readout {(pools or [readout])[0]!r}", f"output {output!r}"]
    kinds = {part.kind for part in parts.values()}
    if "Conv1D" in kinds:
        assumed.append("convolutions with stride 1, and padding 'valid' unless listed, as in conv(padding=same)")
    if kinds & {*_NORMS.values()}:
        assumed.append("normalizations with epsilon 0.001")
    if unused := [name for name, paths in groups.items() if paths and name not in parts]:
        assumed.append(f"arrays that are not used: {', '.join(unused)[:300]}")
    text = f"holds weights without their configuration: {how}, with {', '.join(assumed)}; check=(x, y) confirms it"
    if readout in _POOLS and not pools:
        behind = _behind_steps([step.name for step in steps], parts.values())
        steps = [*steps[:behind], LayerHint(readout, {}), *steps[behind:]]
    return Guess(_graph(parts, steps, readout == "every", output), text)


def _behind_steps(names: Sequence[str], parts: Iterable[_Part]) -> int:
    """The place behind the last layer that needs the steps of a sequence."""
    with_steps = {part.name for part in parts if part.has_steps}
    return max((k + 1 for k, name in enumerate(names) if name in with_steps), default=0)


def _with_settings(source: Source, part: _Part, settings: dict[str, Any]) -> _Part:
    """A layer with the settings in brackets behind its name."""
    padding = settings.get("padding", "valid")
    known = {"padding"} if part.kind == "Conv1D" else set()
    if set(settings) - known or padding not in _PADDINGS:
        known_paddings = f"conv(padding=same), one of {', '.join(_PADDINGS)}, for a Conv1D"
        raise source.error(part.name[:80], f"layers takes no settings except {known_paddings}, got {settings}")
    return part._replace(settings={**part.settings, **settings})


def _graph(parts: dict[str, _Part], steps: Sequence[LayerHint], every: bool, output: str) -> dict[str, Any]:
    """The configuration of a functional model: an entry takes the value of the one before, a join those it names."""
    layers: dict[str, dict[str, Any]] = {}
    value = ""
    for k, (name, given) in enumerate(steps):
        settings, inputs = {}, [value]
        if name in parts:
            kind, settings = parts[name].kind, parts[name].settings
            inner = settings["layer"]["config"] if kind == "Bidirectional" else settings
            if "units" in inner and kind != "Dense":
                inner["return_sequences"] = every or any(_takes_steps(parts, one.name) for one in steps[k + 1 :])
            if not value:
                shape = [None, None] if kind == "Embedding" else [None, None, parts[name].inputs]
                layers["x"] = _configured("InputLayer", "x", {"batch_input_shape": shape}, [])
                inputs = ["x"]
        elif name == "concat":
            kind, name, inputs = "Concatenate", f"concat_{k}", [str(one) for one in given.values()]
        elif name in _POOLS:
            kind, name = _POOLS[name], f"pool_{k}"
        else:
            kind, name, settings = "Activation", f"{name}_{k}", {"activation": name}
        layers[name] = _configured(kind, name, settings, inputs)
        value = name
    layers["probability"] = _configured("Activation", "probability", {"activation": output}, [value])
    order = [*parts, *(name for name in layers if name not in parts)]  # by the file's, Keras finds the arrays
    ends = {"input_layers": [["x", 0, 0]], "output_layers": [["probability", 0, 0]]}
    config = {"name": "model", "layers": [layers[name] for name in order], **ends}
    return {"class_name": "Functional", "config": config}


def _configured(kind: str, name: str, settings: dict[str, Any], inputs: list[str]) -> dict[str, Any]:
    """A layer of a functional configuration."""
    nodes = [[[value, 0, 0, {}] for value in inputs]] if inputs else []
    return {"class_name": kind, "name": name, "config": {**settings, "name": name}, "inbound_nodes": nodes}


def _takes_steps(parts: dict[str, _Part], name: str) -> bool:
    """Whether an entry needs all steps of a recurrent layer before it: another one, a join, a pool, an attention."""
    if name in parts:
        return parts[name].has_steps or parts[name].is_each_step
    return name == "concat" or name in _POOLS


def _part(source: Source, name: str, paths: list[str]) -> _Part | None:
    """What a layer is, by the shapes of its arrays; None where they do not show it."""
    shapes = [source.shape(path) for path in paths]
    axes = [len(shape) for shape in shapes]
    if len(shapes) == 6 and shapes[:3] == shapes[3:]:
        side = _part(source, name, paths[:3])
        if side is None:
            return None
        inner = {"class_name": side.kind, "config": side.settings}
        return _Part(name, "Bidirectional", side.inputs, 2 * side.outputs, {"layer": inner, "merge_mode": "concat"})
    if axes == [2] and "emb" in name:
        rows, size = shapes[0]
        return _Part(name, "Embedding", 0, size, {"input_dim": rows, "output_dim": size})
    if axes == [2] and shapes[0][1] == 1 and "att" in name:
        return _Part(name, "AttentionWeightedAverage", shapes[0][0], shapes[0][0], {})
    if axes == [2, 1] and shapes[0][1:] == shapes[1]:
        inputs, outputs = shapes[0]
        return _Part(name, "Dense", inputs, outputs, {"units": outputs})
    if axes in ([1] * 2, [1] * 4) and len(set(shapes)) == 1:
        return _Part(name, _NORMS[len(axes)], shapes[0][0], shapes[0][0], {})
    if axes == [3, 1] and shapes[0][2:] == shapes[1]:
        width, inputs, outputs = shapes[0]
        return _Part(name, "Conv1D", inputs, outputs, {"filters": outputs, "kernel_size": width})
    if len(axes) != 3 or axes[:2] != [2, 2] or not shapes[1][0]:
        return None
    (D, columns), (u, wide), bias = shapes
    kind = _CELLS.get(columns // u)
    if kind is None or columns % u or columns != wide:
        return None
    if kind != "SimpleRNN" and bias == (2 * columns,):  # two biases in one row, as cuDNN has them
        return _Part(name, f"CuDNN{kind}", D, u, {"units": u})
    settings = {"units": u, **({"reset_after": len(bias) == 2} if kind == "GRU" else {})}
    return _Part(name, kind, D, u, settings)
