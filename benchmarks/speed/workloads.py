"""The workloads: a seeded model and its inputs, as the engine and as the peers take them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import lrpnumpy as lrp
from lrpnumpy.encode import encode_all, packed
from lrpnumpy.packed import Packed
from lrpnumpy.schedule import chunks

QUADRATIC = {"W4": 500}  # steps for the jobs that cost T², where the workload itself has more


@dataclass(frozen=True, eq=False)
class Workload:
    """A model, its inputs longest first, and the packed batches that the engine runs."""

    name: str
    model: lrp.Model
    sequences: list[np.ndarray]  # (T, D) each

    @property
    def batches(self) -> list[Packed]:
        """The chunks of `explain_all`, packed."""
        encoded = encode_all(self.model, self.sequences)
        parts = chunks([record[self.model.main].steps for record in encoded], self.model.width)
        return [packed(self.model, [encoded[k] for k in part])[self.model.main] for part in parts]

    @property
    def rows(self) -> int:
        """Steps of all sequences together."""
        return sum(map(len, self.sequences))

    def part(self, most_rows: int) -> Workload:
        """Every k-th sequence, so that there are about `most_rows` steps: for peers that take minutes for all."""
        every = max(1, round(self.rows / most_rows))
        return Workload(self.name, self.model, self.sequences[every // 2 :: every] or self.sequences[:1])


def network(
    rng: np.random.Generator,
    D: int,
    H: int,
    C: int,
    two_way: bool,
    forget: float = 0.0,
    fresh: bool = False,
    cell: str = "LSTM",
) -> lrp.Model:
    """Random weights of the size that training gives, so that gates and cells move; or as layers are initialized."""
    gates = {"LSTM": (4,), "GRU": (3,), "RNN": ()}[cell]

    def weights(columns: int) -> np.ndarray:
        if fresh:
            return rng.uniform(-1, 1, size=(*gates, H, columns)) / np.sqrt(H)
        return rng.normal(size=(*gates, H, columns)) / np.sqrt(columns)

    def one() -> lrp.LSTM | lrp.GRU | lrp.RNN:
        b = rng.normal(size=(*gates, H)) * 0.1
        if cell == "LSTM":
            b[1] += forget
            return lrp.LSTM(weights(D), weights(H), b)
        if cell == "GRU":
            return lrp.GRU(weights(D), weights(H), b, rng.normal(size=H) * 0.1)
        return lrp.RNN(weights(D), weights(H), b)

    layer = lrp.Bidirectional(one(), one()) if two_way else one()
    return lrp.Model([layer, lrp.Dense(rng.normal(size=(C, layer.outputs)) / np.sqrt(layer.outputs))])


def windows(rng: np.random.Generator, D: int, M: int, width: int, H: int, C: int) -> lrp.Model:
    """A convolution with relu, a max pool of two steps, an LSTM: the usual network for series of sensors."""
    rest = network(rng, M, H, C, False)
    K = rng.normal(size=(M, width, D)) / np.sqrt(width * D)
    conv = lrp.layers.Conv1D(K, rng.normal(size=M) * 0.1, padding="same", activation="relu")
    return lrp.Model([conv, lrp.layers.MaxPool1D(2), *rest.layers])


def _lengths_like_sst(rng: np.random.Generator, count: int) -> np.ndarray:
    """10 to 50, mean 20."""
    return np.clip(np.round(8 + rng.gamma(2.0, 6.0, count)), 10, 50).astype(int)


SHAPES: dict[str, Callable[[np.random.Generator], tuple[lrp.Model, np.ndarray]]] = {
    "W1": lambda rng: (network(rng, 60, 60, 5, True), _lengths_like_sst(rng, 1849)),
    "W2": lambda rng: (network(rng, 60, 60, 5, True), np.array([20])),
    "W3": lambda rng: (network(rng, 300, 256, 5, True), np.full(256, 50)),
    "W4": lambda rng: (network(rng, 8, 128, 1, False), np.full(64, 1000)),
    "W5": lambda rng: (network(rng, 2, 1, 1, False), rng.integers(13, 15, 2500)),
    "W6": lambda rng: (windows(rng, 9, 64, 5, 100, 6), np.full(64, 128)),
    "W1-GRU": lambda rng: (network(rng, 60, 60, 5, True, cell="GRU"), _lengths_like_sst(rng, 1849)),
    "W3-GRU": lambda rng: (network(rng, 300, 256, 5, True, cell="GRU"), np.full(256, 50)),
    "W1-RNN": lambda rng: (network(rng, 60, 60, 5, True, cell="RNN"), _lengths_like_sst(rng, 1849)),
}


def workload(name: str, dtype: str, steps: int | None = None, scale: float = 1.0) -> Workload:
    """A workload in float32 or float64; `steps` shortens its sequences, `scale` takes a share of them."""
    rng = np.random.default_rng(0)
    model, lengths = SHAPES[name](rng)
    lengths = np.sort(lengths)[::-1][: max(1, round(len(lengths) * scale))] if scale == 1 else _thinned(lengths, scale)
    lengths = np.minimum(lengths, steps) if steps else lengths
    model = model.astype(dtype)
    return Workload(name, model, [rng.normal(size=(T, model.input_size)).astype(dtype) for T in lengths])


def _thinned(lengths: np.ndarray, scale: float) -> np.ndarray:
    ordered = np.sort(lengths)[::-1]
    return ordered[np.linspace(0, len(ordered) - 1, max(1, round(len(ordered) * scale))).astype(int)]
