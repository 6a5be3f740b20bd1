"""The networks of these benchmarks: trained once with torch from a seed, kept as arrays, opened by both sides.

A network is one recurrent layer, optionally BatchNorm and relu, and a linear output on the last states. Its arrays have
the names that torch gives them. Without training and peers nothing here needs torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import lrpnumpy as lrp

Weights = dict[str, np.ndarray]
Batches = Callable[[np.random.Generator], Iterator[tuple[np.ndarray, np.ndarray]]]  # of one epoch: inputs, classes
TORCH_EPS = 1e-5  # of BatchNorm


class Spec(NamedTuple):
    """The shape of a network."""

    cell: str  # "LSTM" or "GRU"
    inputs: int
    units: int
    outputs: int = 2
    directions: int = 1
    norm: bool = False  # BatchNorm and relu before the output
    words: int = 0  # rows of the embedding; 0 for vectors
    dropout: float = 0.0


def module(spec: Spec) -> Any:
    """The network in torch: from vectors (B, T, D) to scores (B, C); `embed` makes vectors of token ids."""
    import torch
    from torch import nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            if spec.words:
                self.embedding = nn.Embedding(spec.words, spec.inputs)
                nn.init.normal_(self.embedding.weight, std=0.1)
            cell = getattr(nn, spec.cell)
            self.rnn = cell(spec.inputs, spec.units, batch_first=True, bidirectional=spec.directions == 2)
            if spec.norm:
                self.norm = nn.BatchNorm1d(spec.units)
                self.relu = nn.ReLU()
            self.dropout = nn.Dropout(spec.dropout)
            self.head = nn.Linear(spec.directions * spec.units, spec.outputs)

        def forward(self, x: Any) -> Any:
            if x.dtype == torch.int64:
                x = self.embedding(x)
            _, last = self.rnn(x)
            h = last[0] if spec.cell == "LSTM" else last  # (directions, B, H)
            h = h.transpose(0, 1).flatten(1)
            if spec.norm:
                h = self.relu(self.norm(h))
            return self.head(self.dropout(h))

    return Network()


def train(
    spec: Spec,
    seed: int,
    epochs: int,
    batches: Batches,
    rate: float = 1e-3,
    decay: float = 0.0,
    enough: Callable[[Weights, float], bool] | None = None,
) -> Weights:
    """Train with Adam and cross-entropy; `enough(weights, loss)` after an epoch may end it early. One thread."""
    import torch

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(seed)
    rng = np.random.default_rng((seed, 77))
    network = module(spec)
    optimizer = torch.optim.Adam(network.parameters(), lr=rate, weight_decay=decay)
    for _ in range(epochs):
        network.train()
        losses = []
        for x, y in batches(rng):
            loss = torch.nn.functional.cross_entropy(network(torch.from_numpy(x)), torch.from_numpy(y))
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
            optimizer.step()
            losses.append(loss.item())
        if enough is not None and enough(arrays(network), float(np.mean(losses))):
            break
    return arrays(network)


def arrays(network: Any) -> Weights:
    return {name: value.detach().numpy().copy() for name, value in network.state_dict().items()}


def in_torch(spec: Spec, weights: Weights) -> Any:
    """The trained network in torch, for peers."""
    import torch

    network = module(spec)
    network.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    return network.eval()


def cached(path: Path, make: Callable[[], Weights]) -> Weights:
    """The arrays in the file at `path`; made and written if there is none."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".part.npz")
        np.savez(temporary, **make())
        temporary.replace(path)
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


# ---------------------------------------------------------------------------------------- the same with lrpnumpy


def recurrent(spec: Spec, weights: Weights) -> Any:
    """The recurrent layer in float64."""
    sides = [_direction(spec, weights, suffix) for suffix in ("", "_reverse")[: spec.directions]]
    if spec.directions == 2:
        return lrp.Bidirectional(*sides)
    return sides[0]


def _direction(spec: Spec, weights: Weights, suffix: str) -> Any:
    H = spec.units
    U, W, b, b_h = (
        weights[f"rnn.{name}_l0{suffix}"].astype(np.float64)
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    if spec.cell == "LSTM":
        return lrp.LSTM(U.reshape(4, H, -1), W.reshape(4, H, H), (b + b_h).reshape(4, H))
    gates = [1, 0, 2]  # torch has r, z, n
    U, W = U.reshape(3, H, -1)[gates], W.reshape(3, H, H)[gates]
    b, b_h = b.reshape(3, H)[gates], b_h.reshape(3, H)[gates]
    bn = b_h[2].copy()
    b_h[2] = 0  # it is inside the reset product
    return lrp.GRU(U, W, b + b_h, bn)


def head(spec: Spec, weights: Weights) -> list[Any]:
    """The layers above the recurrent one; BatchNorm of a trained network is one scale and shift per unit."""
    layers: list[Any] = []
    if spec.norm:
        names = ("weight", "bias", "running_mean", "running_var")
        gamma, beta, mean, var = (weights[f"norm.{name}"].astype(np.float64) for name in names)
        layers = [lrp.layers.Affine.batch_norm(gamma, beta, mean, var, TORCH_EPS), lrp.layers.Activation("relu")]
    return [*layers, lrp.Dense(weights["head.weight"].astype(np.float64), weights["head.bias"].astype(np.float64))]


def model(spec: Spec, weights: Weights, readout: str = "last", vocabulary: list[str] | None = None) -> lrp.Model:
    """The network in lrpnumpy."""
    embedding = None
    if vocabulary is not None:
        embedding = lrp.Embedding(weights["embedding.weight"].astype(np.float64), vocabulary, unknown=vocabulary[0])
    layers = (recurrent(spec, weights), *head(spec, weights))
    return lrp.Model(layers, embedding=embedding, readout=readout)


def by_feature(spec: Spec, weights: Weights, every: bool = False) -> lrp.Model:
    """The same network with every feature as an input of size 1: contextual decomposition then has phrases that are one
    feature at one step. `every`: with a prediction at every step.
    """
    names = [f"x{d}" for d in range(spec.inputs)]
    nodes = [lrp.Node("x", lrp.layers.Concat(), tuple(names)), lrp.Node("rnn", recurrent(spec, weights), ("x",))]
    above = _above(spec, weights, "rnn" if every else "rnn:last")
    return lrp.Model((*nodes, *above), inputs={name: lrp.Input(1) for name in names})


def _above(spec: Spec, weights: Weights, below: str) -> list[lrp.Node]:
    nodes = []
    for k, layer in enumerate(head(spec, weights)):
        nodes.append(lrp.Node(f"head{k}", layer, (below,)))
        below = f"head{k}"
    return nodes
