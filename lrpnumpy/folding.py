"""Affine layers as part of their neighbors: the same network, with fewer layers and biases in fewer places."""

from __future__ import annotations

from dataclasses import replace

from lrpnumpy.layers import Affine, Layer
from lrpnumpy.model import Model, Node


def folded(model: Model) -> Model:
    """The model with every Affine layer inside a neighbor where that is exact; scores and gradients are the same.

    s x + t after a linear Dense or Conv1D layer becomes s V, s d + t. Before a Dense or recurrent layer, or a Conv1D
    without padding, it becomes V s, d + V t.
    It is left alone where an activation is in between, or where others take the values of the layer that would change.
    A scaler of the inputs is never folded. LRP is that of the smaller network, and the model's provenance lists under
    "folded" what was done.
    """
    nodes, result, done = {node.name: node for node in model.network}, model.result, []
    for name in reversed([*nodes]):  # several in a row become one before they are multiplied with a matrix
        layer = nodes[name].layer
        if not isinstance(layer, Affine) or layer.scaler:
            continue
        source = nodes[name].inputs[0]
        takers = [node.name for node in nodes.values() if name in node.inputs]
        into = _before(nodes, result, name, source, layer) or _after(nodes, result, takers, name, layer)
        if not into:
            continue
        for place, new in into.items():
            nodes[place] = nodes[place]._replace(layer=new)
        for taker in takers:
            inputs = tuple(source if one == name else one for one in nodes[taker].inputs)
            nodes[taker] = nodes[taker]._replace(inputs=inputs)
        del nodes[name]
        if result == name:
            result = source
        done.append(f"{name} into {' and '.join(into)}")
    if not done:
        return model
    provenance = {**(model.provenance or {}), "folded": "; ".join(reversed(done))}
    return replace(model, nodes=tuple(nodes.values()), result=result, provenance=provenance)


def _before(nodes: dict[str, Node], result: str, name: str, source: str, layer: Affine) -> dict[str, Layer]:
    """The new layer before it, by name, if nobody else takes what that one gives."""
    others = [node.name for node in nodes.values() if source in node.inputs and node.name != name]
    if source not in nodes or others or result == source:
        return {}
    new = nodes[source].layer.with_affine_after(layer.s, layer.t)
    if new is None:
        return {}
    return {source: new}


def _after(nodes: dict[str, Node], result: str, takers: list[str], name: str, layer: Affine) -> dict[str, Layer]:
    """The new layers after it, by name, if all of them can have it inside: as their first input, not a start state."""
    if result == name or any(name in nodes[taker].inputs[1:] for taker in takers):
        return {}
    new = {taker: nodes[taker].layer.with_affine_before(layer.s, layer.t) for taker in takers}
    if any(one is None for one in new.values()):
        return {}
    return new
