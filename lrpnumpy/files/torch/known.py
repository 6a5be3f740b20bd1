"""A network whose program is known, from PyTorch's arrays: of neuralhydrology, darts and pytorch-forecasting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lrpnumpy.files.build.network import NetworkBuild
from lrpnumpy.files.torch.cells import BY_ROWS
from lrpnumpy.inputs import Input
from lrpnumpy.layers import Dense, Size
from lrpnumpy.lazy import cached_property
from lrpnumpy.model import Model


@dataclass
class KnownNetwork(NetworkBuild):
    """The nodes of a network, from arrays by name."""

    @cached_property
    def names(self) -> set[str]:
        """The names of all arrays."""
        return set(self.source.names())

    def entry(self, port: Input, name: str) -> str:
        """An input of the network; its name."""
        name = self.fresh(name)
        self.ports[name], self.sizes[name] = port, Size(int(port.size or 0), port.steps)
        return name

    def array(self, name: str, axes: int) -> np.ndarray:
        """An array of whatever sizes; whether they fit is checked by the layers."""
        if name not in self.names:
            raise self.source.error(name, "is missing")
        return self.source.array(name, (None,) * axes)

    def linear(self, place: str, activation: str = "linear") -> Dense:
        """A Linear and its activation."""
        return Dense(self.array(f"{place}.weight", 2), self.array(f"{place}.bias", 1), activation=activation)

    def recurrent(self, place: str, value: str) -> str:
        """All layers of an LSTM, GRU or RNN of one direction."""
        depth = 0
        while depth == 0 or f"{place}.weight_ih_l{depth}" in self.names:
            U, W = (self.array(f"{place}.weight_{which}_l{depth}", 2) for which in ("ih", "hh"))
            biases = [self.array(f"{place}.bias_{which}_l{depth}", 1) for which in ("ih", "hh")]
            gates = len(W) // W.shape[1]
            if gates not in BY_ROWS:
                raise self.source.error(place, f"must have 4, 3 or 1 rows for each unit, it has {W.shape}")
            value = self.put(BY_ROWS[gates](U, W, biases), value, name=place)
            depth += 1
        return value

    def model(self, result: str, **settings: Any) -> Model:
        """The model whose scores are a value."""
        return Model(tuple(self.nodes.values()), inputs=self.ports, result=result, output="linear", **settings)
