"""Train a one-unit LSTM on the toy task as the paper did: L-BFGS on 17 numbers, from a seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.paper import one_unit
from benchmarks.paper.lbfgs import LBFGS, Function
from benchmarks.paper.measures.toy import Data
from lrpnumpy import GRU, LSTM, Dense, Model

PARAMETERS = 17  # U (4, 2), W (4), b (4), V (1), in this order
TILE = 2000  # sequences that run together


@dataclass(frozen=True)
class Trained:
    """The parameters of one start, the mean squared error on each split, and what it took."""

    seed: int
    parameters: tuple[float, ...]
    errors: Mapping[str, float]
    steps: int
    evaluations: int
    cell: str = "lstm"

    @property
    def model(self) -> Model:
        """The network that these parameters make."""
        p = np.array(self.parameters)
        if self.cell == "gru":
            return _gru(p)
        U, W, b, V = _split(p)
        return Model((LSTM(U[:, None], W[:, None, None], b[:, None]), Dense(V[:, None])))


def _split(p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """17 numbers as U (4, 2), W (4,), b (4,), V (1,)."""
    return p[:8].reshape(4, 2), p[8:12], p[12:16], p[16:]


def _gru(p: np.ndarray) -> Model:
    """3 H^2 + 11 H numbers: U (3, H, 2), W (3, H, H), b (3, H), bn (H,), V (H,)."""
    H = round((np.sqrt(121 + 12 * len(p)) - 11) / 6)
    U, W, b, bn, V = np.split(p, np.cumsum([6 * H, 3 * H * H, 3 * H, H]))
    return Model((GRU(U.reshape(3, H, 2), W.reshape(3, H, H), b.reshape(3, H), bn), Dense(V[None])))


def objective(data: Data) -> Function:
    """The function from 17 parameters to the mean squared error on the data, and its gradient."""
    for one in (one_unit.forward, one_unit.backward):
        one.compile(np.float64)  # before the first evaluation, so that a seed decides every digit
    order = np.argsort([-len(x) for x in data.sequences], kind="stable")
    tiles = [_Tile(data, order[k : k + TILE]) for k in range(0, len(order), TILE)]

    def error(p: np.ndarray) -> tuple[float, np.ndarray]:
        U, W, b, V = _split(p)
        P, value, dP, dV = np.column_stack((U, W, b)), 0.0, np.zeros((4, 4)), 0.0
        for tile in tiles:
            h = tile.forward(P)
            over = V * h - tile.y
            dP += tile.backward(P, 2 * V * over)
            dV += 2 * (over @ h)
            value += over @ over
        gradient = np.concatenate((dP[:, :2].ravel(), dP[:, 2], dP[:, 3], [dV]))
        return value / len(order), gradient / len(order)

    return error


class _Tile:
    """Sequences that go through the network together, few enough for their trace to stay in the cache."""

    def __init__(self, data: Data, chosen: np.ndarray) -> None:
        sequences = [data.sequences[k] for k in chosen]  # longest first
        steps = [[x[t] for x in sequences if len(x) > t] for t in range(len(sequences[0]))]
        self.y = data.y[chosen]
        self.first = np.cumsum([0, *map(len, steps)])
        rows = self.first[-1]
        self.inputs = np.ones((4, rows))
        self.inputs[:2] = np.concatenate(steps).T
        self.trace, self.s = np.empty((6, rows)), np.empty((4, rows))

    def forward(self, P: np.ndarray) -> np.ndarray:
        """The last h of every sequence."""
        h, c = np.zeros_like(self.y), np.zeros_like(self.y)
        one_unit.forward(P, self.first, self.inputs, self.trace, h, c)
        return h

    def backward(self, P: np.ndarray, R_h: np.ndarray) -> np.ndarray:
        """The gradient of P, after `forward`, from that of every last h."""
        one_unit.backward(P, self.first, self.trace, R_h, np.zeros_like(R_h), self.s)
        return self.s @ self.inputs.T


def initial(seed: int) -> np.ndarray:
    """Weights from U(-1, 1), biases 0."""
    p = np.random.default_rng(seed).uniform(-1, 1, PARAMETERS)
    p[12:16] = 0
    return p


def clipped(gradient: np.ndarray, limit: float = 5.0) -> np.ndarray:
    """The gradient, shortened to a norm of `limit` where it is longer."""
    return gradient * min(1.0, limit / (float(np.linalg.norm(gradient)) + 1e-6))


def train(data: Mapping[str, Data], seed: int, steps: int = 1000, lr: float = 0.002) -> Trained:
    """One start. The learning rate is multiplied by 0.95 after 10 steps without a new least error."""
    error = objective(data["train"])

    def function(p: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = error(p)
        return value, clipped(gradient)

    p, optimizer = initial(seed), LBFGS(lr=lr)
    least, since, done = np.inf, 0, 0
    while done < steps:
        before, (p, value) = p, optimizer.step(function, p)
        done += 1
        if not np.isfinite(p).all() or p is before:  # diverged, or at rest: nothing will change any more
            p = before
            break
        least, since = (value, 0) if value < least else (least, since + 1)
        if since == 10:
            optimizer.lr, since = 0.95 * optimizer.lr, 0
    errors = {name: float(objective(part)(p)[0]) for name, part in data.items()}
    return Trained(seed, tuple(p.tolist()), errors, done, optimizer.evaluations)
