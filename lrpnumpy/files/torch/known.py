"""PyTorch's arrays of recurrent layers as cells, and the networks of libraries whose programs are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrpnumpy.files.build.network import NetworkBuild
from lrpnumpy.inputs import Input
from lrpnumpy.layers import GRU, LSTM, RNN, Cell, Dense, ProjectedLSTM, Size
from lrpnumpy.lazy import cached_property
from lrpnumpy.model import Model

Arrays = Sequence[np.ndarray]


def lstm(U: np.ndarray, W: np.ndarray, biases: Arrays = (), projection: np.ndarray | None = None) -> Cell:
    """Gates in the order i, f, g, o; with proj_size the output is a projection."""
    H = len(U) // 4
    U, W = U.reshape(4, H, -1), W.reshape(4, H, -1)
    b = sum(biases, np.zeros(4 * H, U.dtype)).reshape(4, H)
    if projection is None:
        return LSTM(U, W, b)
    arrays = {"W_p": projection}
    for number, gate in enumerate("ifgo"):
        arrays |= {f"U_{gate}": U[number], f"W_{gate}": W[number], f"b_{gate}": b[number]}
    return ProjectedLSTM(**arrays)


def gru(U: np.ndarray, W: np.ndarray, biases: Arrays = ()) -> Cell:
    """Gates in the order r, z, n; n has a second bias inside the product with r."""
    H, order = W.shape[1], [1, 0, 2]
    b = bn = None
    if len(biases):
        b_x, b_h = (bias.reshape(3, H) for bias in biases)
        b, bn = np.stack([b_x[1] + b_h[1], b_x[0] + b_h[0], b_x[2]]), b_h[2]
    return GRU(U.reshape(3, H, -1)[order], W.reshape(3, H, H)[order], b, bn)


def rnn(U: np.ndarray, W: np.ndarray, biases: Arrays = (), activation: str = "tanh") -> Cell:
    """A plain RNN."""
    return RNN(U, W, biases[0] + biases[1] if len(biases) else None, activation=activation)


BY_ROWS = {4: lstm, 3: gru, 1: rnn}  # by the rows of weight_hh for each unit


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
