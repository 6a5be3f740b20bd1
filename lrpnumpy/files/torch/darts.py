"""The network of a checkpoint of darts: RNNModel and BlockRNNModel are a known program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lrpnumpy.files.hints import Hints
from lrpnumpy.files.report import Imported
from lrpnumpy.files.safe import Source
from lrpnumpy.files.torch.known import KnownNetwork
from lrpnumpy.inputs import Input
from lrpnumpy.layers import Slice

_SETTINGS = ("input_chunk_length", "output_chunk_length", "target_size", "nr_params", "train_sample_shape")
_ACTIVATIONS = {"ReLU": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid", "LeakyReLU": "leaky_relu", "ELU": "elu"}


def read(source: Source, settings: Mapping[str, Any], said: Hints) -> Imported | None:
    """The model; None where the settings are not those of such a network, or where hints describe it."""
    is_plain = said.layers is None and said.readout is None and all(key in settings for key in _SETTINGS)
    if not is_plain or settings.get("use_reversible_instance_norm") or settings.get("likelihood") is not None:
        return None
    net = KnownNetwork(source)
    if "rnn.weight_ih_l0" not in net.names:
        return None
    x = net.entry(Input(source.shape("rnn.weight_ih_l0")[-1]), "x")
    value = net.recurrent("rnn", x)
    if "V.weight" in net.names:  # RNNModel: one step ahead
        value = net.put(net.linear("V"), f"{value}:last", name="V")
    else:  # BlockRNNModel: the last steps, as many as an output chunk has
        heads = [name.removesuffix(".weight") for name in source.names() if name.startswith("fc.") and "weight" in name]
        activation = _ACTIVATIONS.get(str(settings.get("activation", "ReLU")))
        count = settings["output_chunk_length"]
        if not heads or (len(heads) > 1 and activation is None) or type(count) is not int:
            return None
        for head in heads[:-1]:
            value = net.put(net.linear(head, str(activation)), value, name=head)
        value = net.put(net.linear(heads[-1]), value, name=heads[-1])
        value = net.put(Slice(-count, None), value, name="forecast")
    return Imported(net.model(value), ["the network is that of darts, with its settings"], kind="darts")
