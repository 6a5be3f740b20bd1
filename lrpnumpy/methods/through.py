"""Units of layers: relevance that passes through some of them, and a unit in place of a score as the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError, is_number, one_of, shown, whole
from lrpnumpy.model import Model

Through = Mapping[str, Sequence[int]]


def checked(value: Any, model: Model) -> dict[str, list[int]] | None:
    """The units of each layer that relevance must pass, as `through` gives them."""
    if value is None:
        return None
    if not isinstance(value, Mapping) or not value:
        raise LrpError(f"through must be a dict of layer to a list of units, such as {{'0': [5]}}, got {shown(value)}.")
    found = {}
    for name, units in value.items():
        one_of(name, "through: a layer", [node.name for node in model.network])
        if isinstance(units, str) or not isinstance(units, (Sequence, np.ndarray)) or not np.size(units):
            raise LrpError(f"through: units of layer {name!r} must be a list of numbers, got {shown(units)}.")
        found[name] = [_unit(model, name, unit, "through") for unit in units]
    return found


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
    name = one_of(target[0], "target: a layer", known)
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
