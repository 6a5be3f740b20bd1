"""Units of layers: relevance that passes through some of them, and a unit in place of a score as the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError, entries, is_number, shown, whole
from lrpnumpy.model import Model

Through = Mapping[str, Sequence[int]]


def checked_through(value: Any, model: Model) -> dict[str, list[int]]:
    """The units of each layer that relevance must pass, as `through` gives them, by the name of the layer's node."""
    if not isinstance(value, Mapping) or not value:
        raise LrpError(f"through must be a dict such as {{'lstm': [5]}}, got {shown(value)}.")
    found: dict[str, list[int]] = {}
    for given, units in value.items():
        name = _named(model, given, "through", [node.name for node in model.network])
        if name in found:
            raise LrpError(f"through: layer {name!r} must occur once, got it twice, also as {given!r}.")
        is_list = isinstance(units, (Sequence, np.ndarray)) and not isinstance(units, str) and np.iterable(units)
        if not is_list or not len(units):
            raise LrpError(f"through: units of layer {name!r} must be a list of numbers, got {shown(units)}.")
        numbers = entries(units, f"through: units of layer {name!r}", model.sizes[name].width)
        found[name] = [_unit(model, name, unit, "through") for unit in numbers]
    return found


def _named(model: Model, given: Any, what: str, known: Sequence[str]) -> str:
    """The `known` name of a layer's output; "lstm" is that of the only LSTM, "lstm:cell" that of its cells."""
    kinds: dict[str, list[str]] = {}  # of each node: "Bidirectional", "LSTM"
    for node in model.network:
        layers = [node.layer, *(part for _, part in node.layer.parts())]
        kinds[node.name] = [*dict.fromkeys(type(layer).__name__ for layer in layers)]
    if given in known:
        return str(given)
    if isinstance(given, str):
        kind, colon, output = given.partition(":")
        same = [name for name, own in kinds.items() if kind in map(str.lower, own)]
        if len(same) == 1 and same[0] + colon + output in known:
            return same[0] + colon + output
    listed = ", ".join(f"{name!r} ({' of '.join(kinds[name.partition(':')[0]])})" for name in known)
    raise LrpError(f"{what}: a layer must be one of {listed}, got {shown(given)}.")


def _unit(model: Model, value: str, unit: Any, what: str) -> int:
    """The number of a unit of a layer's output."""
    width = model.sizes[value].width
    if whole(unit, f"{what}: a unit of {value!r}", 0) >= width:
        raise LrpError(f"{what}: a unit of {value!r} must lie from 0 to {width - 1}, got {unit}.")
    return int(unit)


def unit_target(model: Model, target: tuple[Any, ...]) -> tuple[Model, Any]:
    """For target=("lstm", 5) the network up to that layer, whose scores are its units, and 5; others as they are."""
    is_pair = len(target) == 2 and isinstance(target[0], str)
    if not is_pair or target[0] in (model.classes or ()) or not is_number(target[1], int):
        return model, target
    known = [name for name in model.sizes if name not in model.inputs and name != model.scored]
    name = _named(model, target[0], "target", known)
    return up_to(model, name), _unit(model, name, target[1], "target")


def up_to(model: Model, name: str) -> Model:
    """The network whose scores are the output `name` of a node, without the layers behind it."""
    nodes = model.network
    place = next(k for k, node in enumerate(nodes) if name in [node.name + key for key in node.layer.OUTPUTS])
    before = nodes[: place + 1]
    if any(node.layer.recurrent for node in before):
        nodes = before
    units = tuple(f"{name}[{unit}]" for unit in range(model.sizes[name].width))
    return replace(
        model, nodes=nodes, result=name, output="linear", classes=units, output_unit=None, output_scaler=None
    )
