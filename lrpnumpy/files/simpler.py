"""A network that was read node by node, in its shortest form: the same scores, and what a person would have written."""

from __future__ import annotations

from dataclasses import replace

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.folding import folded
from lrpnumpy.layers import Activation, Conv1D, Dense
from lrpnumpy.model import BETWEEN, INPUT, Model


def simpler(model: Model) -> tuple[Model, str]:
    """The model with scales and activations as part of their neighbours, as a list where it is one; and a note."""
    smaller = folded(model)
    done = (smaller.provenance or {}).get("folded")
    note = f"layers that scale and shift are made part of their neighbours, which changes no score: {done}"
    return _listed(_with_activations(smaller)), note if done else ""


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
            nodes[before.name] = before._replace(layer=replace(before.layer, activation=layer.activation))  # type: ignore[type-var]
            renamed[node.name], takers[before.name] = before.name, takers.get(node.name, 0)
            del nodes[node.name]
    if not renamed:
        return model
    layers = tuple(n._replace(inputs=tuple(renamed.get(one, one) for one in n.inputs)) for n in nodes.values())
    return replace(model, layers=layers, embedding=None, mask_value=None, result=renamed.get(result, result))


def _listed(model: Model) -> Model:
    """A list of layers with a readout, where the network is one: each takes what the one before gives."""
    nodes, port = model.nodes, model.inputs[model.main]
    top = max(k for k, node in enumerate(nodes) if node.layer.recurrent)
    layers, value, readout = [], model.main, "every"
    for k, node in enumerate(nodes):
        if node.inputs != (value,) or model.sizes[value].steps != (k <= top or readout == "every"):
            if k != top + 1 or node.inputs != (f"{value}:last",):
                return model
            readout = "last"
        value = node.name
        between = next((name for name, one in BETWEEN.items() if type(one) is type(node.layer)), None)
        if k == top + 1 and readout == "every" and between is not None:
            readout = between
        else:
            layers.append(node.layer)
    if model.result == f"{value}:last" and top == len(nodes) - 1:
        readout = "last"
    elif model.result != value or model.sizes[value].steps != (readout == "every"):
        return model
    if len(model.inputs) > 1 or not port.steps:
        return model
    return Model(
        tuple(layers),
        readout=readout,  # type: ignore[arg-type]
        output=model.output,
        inputs={INPUT: port},
        provenance=model.provenance,
    )
