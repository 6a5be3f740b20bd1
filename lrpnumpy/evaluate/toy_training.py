"""Train a one-unit LSTM on the toy task as the paper did: L-BFGS on 17 numbers, from a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from lrpnumpy.batch import indices
from lrpnumpy.evaluate.lbfgs import LBFGS
from lrpnumpy.evaluate.toy import Data
from lrpnumpy.kernels.narrow import squared_error
from lrpnumpy.model import LSTM, Dense, Model

PARAMETERS = 17  # U (4, 2), W (4), b (4), V (1), in this order
TILE = 256  # sequences that go through the kernel together


@dataclass(frozen=True)
class Trained:
    """The parameters of one start, the mean squared error on each split, and what it took."""

    seed: int
    parameters: tuple[float, ...]
    errors: Mapping[str, float]
    steps: int
    evaluations: int

    @property
    def model(self) -> Model:
        """The network that these parameters make."""
        U, W, b, V = _split(np.array(self.parameters))
        return Model((LSTM(U[:, None], W[:, None, None], b[:, None]), Dense(V[:, None])))


def _split(p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """17 numbers as U (4, 2), W (4,), b (4,), V (1,)."""
    return p[:8].reshape(4, 2), p[8:12], p[12:16], p[16:]


def objective(data: Data) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """The function from 17 parameters to the mean squared error on the data, and its gradient."""
    order = np.argsort([-len(x) for x in data.sequences], kind="stable")
    lengths = np.array([len(data.sequences[k]) for k in order])
    known = indices(lengths)
    first, rows = known["first"], known["rows"]
    X = np.ascontiguousarray(np.concatenate([data.sequences[k] for k in order])[rows].T)
    y, n = data.y[order], len(order)
    squared_error.compile(np.float64)  # from the first evaluation on, so that a seed decides every digit
    trace, message = np.zeros((7 * len(first), TILE)), np.empty((6, TILE))

    def error(p: np.ndarray) -> tuple[float, np.ndarray]:
        sums = np.zeros((18, TILE))
        squared_error(X, first, y, *_split(p), trace, message, sums)
        total = sums.sum(axis=1) / n
        gates = total[:16].reshape(4, 4)
        return total[17], np.concatenate((gates[:, :2].ravel(), gates[:, 2], gates[:, 3], total[16:17]))

    return error


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

    p, optimiser = initial(seed), LBFGS(lr=lr)
    least, since, done = np.inf, 0, 0
    while done < steps:
        before, (p, value) = p, optimiser.step(function, p)
        done += 1
        if not np.isfinite(p).all() or p is before:  # diverged, or at rest: nothing will change any more
            p = before
            break
        least, since = (value, 0) if value < least else (least, since + 1)
        if since == 10:
            optimiser.lr, since = 0.95 * optimiser.lr, 0
    errors = {name: float(objective(part)(p)[0]) for name, part in data.items()}
    return Trained(seed, tuple(p.tolist()), errors, done, optimiser.evaluations)
