"""PyTorch's arrays of one direction of a recurrent layer as a cell, in our order of gates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lrpnumpy.layers import GRU, LSTM, RNN, Cell, ProjectedLSTM

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
