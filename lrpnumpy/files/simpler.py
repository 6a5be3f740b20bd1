"""A network that was read node by node, in its shortest form: the same scores, and what a person would have written."""

from __future__ import annotations

from dataclasses import replace

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.folding import folded
from lrpnumpy.layers import Activation, Conv1D, Dense
from lrpnumpy.model import INPUT, Model


def simpler(model: Model) -> tuple[Model, str]:
    """The model with scales and activations as part of their neighbors, and a note."""
    smaller = folded(model)
    done = (smaller.provenance or {}).get("folded")
    note = f"layers that scale and shift are merged into neighboring layers, which changes no score: {done}"
    return _named(_with_activations(smaller)), note if done else ""


def _with_activations(model: Model) -> Model:
    """The same network with activations as part of the Dense or Conv1D layer before them, if nobody else takes that."""
    nodes, result = {node.name: node for node in model.nodes}, model.result
    takers: dict[str, int] = {result: 1}
    for node in model.nodes:
        for name in node.inputs:
            takers[name] = takers.get(name, 0) + 1
    renamed: dict[str, str] = {}
    for node in model.nodes:
        layer, before = node.layer, nodes.get(renamed.get(node.inputs[0], node.inputs[0]))
        if not isinstance(layer, Activation) or layer.slopes is not None or before is None:
            continue
        plain = Activation(layer.activation).alpha == layer.alpha and layer.activation in ACTIVATIONS
        is_linear = isinstance(before.layer, (Dense, Conv1D)) and before.layer.activation == "linear"
        if plain and is_linear and takers[before.name] == 1:
            nodes[before.name] = before._replace(layer=replace(before.layer, activation=layer.activation))
            renamed[node.name], takers[before.name] = before.name, takers.get(node.name, 0)
            del nodes[node.name]
    if not renamed:
        return model
    left = (node._replace(inputs=tuple(renamed.get(one, one) for one in node.inputs)) for node in nodes.values())
    return replace(model, nodes=tuple(left), result=renamed.get(result, result))


def _named(model: Model) -> Model:
    """The same network with its only input called "x", as in a list of layers."""
    name = model.main
    if len(model.inputs) > 1 or INPUT in model.sizes:
        return model
    nodes = (node._replace(inputs=tuple(INPUT if one == name else one for one in node.inputs)) for node in model.nodes)
    return replace(model, nodes=tuple(nodes), inputs={INPUT: model.inputs[name]})
