"""The recurrent layers of Keras as cells of ours: the layouts that their arrays have had, and their gates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lrpnumpy.files.keras_config import KerasLayer
from lrpnumpy.files.safe import Fields, Shape
from lrpnumpy.layers import GRU, LSTM, RNN, Cell

Take = Callable[[KerasLayer, Sequence[str], list[Shape]], list[np.ndarray]]  # the arrays of these paths and shapes
Note = Callable[[str], None]

KINDS = ("LSTM", "CuDNNLSTM", "GRU", "CuDNNGRU", "SimpleRNN")


def cell_of(
    layer: KerasLayer, kind: str, s: Fields, paths: Sequence[str], D: int | None, take: Take, note: Note
) -> Cell:
    """The cell of one direction, with the activations that are usual for it."""
    u = s.integer("units")
    bias = s.boolean("use_bias", True)
    if kind == "SimpleRNN":
        K, R, *rest = take(layer, paths, [(D, u), (u, u), *([(u,)] if bias else [])])
        return RNN(np.ascontiguousarray(K.T), np.ascontiguousarray(R.T), rest[0] if rest else None)
    if kind in ("GRU", "CuDNNGRU"):
        note("Keras' gates z, r, h are taken as z, r, n")
        return _gru(layer, kind, s, paths, D, take, note)
    note("Keras' gates i, f, c, o are taken as i, f, g, o")
    if kind == "CuDNNLSTM":
        U, W, b = _cudnn(layer, paths, D, u, 4, take, note)
        return LSTM(U, W, b.sum(axis=0))
    if len(paths) == 12:
        U, W, b = _keras1(layer, paths, D, u, (0, 2, 1, 3), take)
        note("the 12 arrays of Keras 1 stand in the order i, c, f, o")
        return LSTM(U, W, b)
    K, R, *rest = take(layer, paths, [(D, 4 * u), (u, 4 * u), *([(4 * u,)] if bias else [])])
    return LSTM(*_gates(K, R, 4), rest[0].reshape(4, u) if rest else None)


def _gru(layer: KerasLayer, kind: str, s: Fields, paths: Sequence[str], D: int | None, take: Take, note: Note) -> GRU:
    u = s.integer("units")
    if kind == "CuDNNGRU":
        U, W, both = _cudnn(layer, paths, D, u, 3, take, note)
        return _after(U, W, both)
    if len(paths) == 9:
        U, W, b = _keras1(layer, paths, D, u, (0, 1, 2), take)
        note("the 9 arrays of Keras 1 stand in the order z, r, h")
        return GRU(U, W, b, reset_after=False)
    bias, after = s.boolean("use_bias", True), s.boolean("reset_after", False)
    shape: Shape = (2, 3 * u) if after else (3 * u,)
    K, R, *rest = take(layer, paths, [(D, 3 * u), (u, 3 * u), *([shape] if bias else [])])
    U, W = _gates(K, R, 3)
    if not after:
        return GRU(U, W, rest[0].reshape(3, u) if rest else None, reset_after=False)
    return _after(U, W, rest[0].reshape(2, 3, u) if rest else None)


def _after(U: np.ndarray, W: np.ndarray, both: np.ndarray | None) -> GRU:
    """A GRU with the reset gate after the product, and a bias (2, 3, u): that of the inputs and that of the states."""
    if both is None:
        return GRU(U, W)
    b = both[0].copy()
    b[:2] += both[1, :2]  # the bias of h's states is inside the product with r
    return GRU(U, W, b, both[1, 2].copy())


def _gates(K: np.ndarray, R: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """U (G,u,D) and W (G,u,u) from a kernel (D, G u) and a recurrent kernel (u, G u)."""
    u = len(R)
    return K.T.reshape(count, u, -1), R.T.reshape(count, u, u)


def _cudnn(
    layer: KerasLayer, paths: Sequence[str], D: int | None, u: int, count: int, take: Take, note: Note
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U (G,u,D), W (G,u,u) and both biases (2,G,u) of a layer made for cuDNN."""
    K, R, b = take(layer, paths, [(D, count * u), (u, count * u), (2 * count * u,)])
    joined = ", and its two biases are added" if count == 4 else ""
    kind = "CuDNNLSTM" if count == 4 else "CuDNNGRU"
    note(f"{kind}: blocks are stored transposed{joined}")
    # The numbers of a gate's block, row by row, are those of the matrix that cuDNN multiplies x with.
    U = np.stack([block.reshape(u, len(K)) for block in np.split(K, count, axis=1)])
    return U, np.stack(np.split(R, count, axis=1)), b.reshape(2, count, u)


def _keras1(
    layer: KerasLayer, paths: Sequence[str], D: int | None, u: int, order: tuple[int, ...], take: Take
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Kernel, recurrent kernel and bias of each gate are arrays of their own."""
    arrays = take(layer, paths, [(D, u), (u, u), (u,)] * len(order))
    U, W, b = (np.stack([arrays[3 * g + k].T for g in order]) for k in range(3))
    return U, W, b
