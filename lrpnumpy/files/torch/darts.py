"""The network of a checkpoint of darts: RNNModel and BlockRNNModel are a known program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lrpnumpy.files.hints import Hints
from lrpnumpy.layers import Slice
from lrpnumpy.model import Model, Node

_SAID = ("input_chunk_length", "output_chunk_length", "target_size", "nr_params", "train_sample_shape")
_ACTIVATIONS = {"ReLU": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid", "LeakyReLU": "leaky_relu", "ELU": "elu"}


def hints(settings: Mapping[str, Any], names: list[str], given: Hints) -> Hints | None:
    """The hints that follow from the settings; None where they are not those of such a model, or say more than this."""
    plain = given.layers is None and given.readout is None and all(key in settings for key in _SAID)
    if not plain or settings.get("use_reversible_instance_norm") or settings.get("likelihood") is not None:
        return None
    if {"V.weight", "V.bias"} < {*names}:
        return replace(given, layers=["rnn", "V"], readout="last", output=given.output or "linear")
    heads = [name.removesuffix(".weight") for name in names if name.startswith("fc.") and name.endswith(".weight")]
    activation = _ACTIVATIONS.get(str(settings.get("activation", "ReLU")))
    if not heads or (len(heads) > 1 and activation is None):
        return None
    order = ["rnn", heads[0]]
    for head in heads[1:]:
        order += [str(activation), head]
    return replace(given, layers=[*order, "linear"], readout="every", output=given.output or "linear")


def shortened(model: Model, settings: Mapping[str, Any]) -> Model:
    """A BlockRNNModel: its forecast is the last steps, as many as an output chunk has."""
    count = settings.get("output_chunk_length")
    if not model.every or type(count) is not int:
        return model
    last = Node("forecast", Slice(-count, None), (model.result,))
    return replace(model, nodes=(*model.nodes, last), result="forecast")
