"""Train a small GRU on the toy task with Adam, from a seed. Needs the extra `train`.

One unit, as the paper's LSTM has, learns the subtraction but not the addition to the error that is asked for; four
learn both. Every update takes sequences of one length, so that nothing is padded.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import nn

from benchmarks.paper.measures.toy import Data
from benchmarks.paper.toy_training import Trained

UNITS, BATCH, LR = 4, 128, 0.02
Lengths = list[tuple[torch.Tensor, torch.Tensor]]  # for each length, x (N, T, 2) and y (N,)


def _by_length(data: Data) -> Lengths:
    steps = np.array([len(x) for x in data.sequences])
    groups = [np.flatnonzero(steps == T) for T in np.unique(steps)]
    return [
        (torch.from_numpy(np.stack([data.sequences[k] for k in some])), torch.from_numpy(data.y[some]))
        for some in groups
    ]


def train(data: Mapping[str, Data], seed: int, updates: int = 8000) -> Trained:
    """One start; the learning rate falls to 0 along a cosine."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)
    parts = {name: _by_length(part) for name, part in data.items()}
    gru = nn.GRU(2, UNITS, batch_first=True, dtype=torch.float64)
    head = nn.Linear(UNITS, 1, bias=False, dtype=torch.float64)
    parameters = [*gru.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters, LR)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, updates))

    def errors(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (head(gru(x)[1][0])[:, 0] - y) ** 2

    for _ in range(updates):
        x, y = parts["train"][rng.integers(len(parts["train"]))]
        some = torch.from_numpy(rng.integers(len(y), size=BATCH))
        optimizer.zero_grad()
        errors(x[some], y[some]).mean().backward()
        nn.utils.clip_grad_norm_(parameters, 5.0)
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        found = {name: float(torch.cat([errors(*one) for one in part]).mean()) for name, part in parts.items()}
    return Trained(seed, _flat(gru, head), found, updates, updates, cell="gru")


def _flat(gru: nn.GRU, head: nn.Linear) -> tuple[float, ...]:
    """U, W, b, bn, V one behind the other; PyTorch's gates r, z, n become z, r, n."""
    U, W, b_x, b_h, V = (p.detach().numpy().copy() for p in [*gru.parameters(), *head.parameters()])
    U, W, b_x, b_h = (array.reshape(3, UNITS, *array.shape[1:])[[1, 0, 2]] for array in (U, W, b_x, b_h))
    b = b_x + b_h
    b[2] = b_x[2]
    return tuple(np.concatenate([array.ravel() for array in (U, W, b, b_h[2], V)]).tolist())
