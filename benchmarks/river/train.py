"""Train the bundled river network. `python -m benchmarks.river.train piscataquis.csv OUT.h5`

One LSTM layer reads 365 days of weather and a linear layer predicts the discharge of the last day. While it is trained
it reads longer pieces, and every day that has seen 365 days before it counts: one pass over a piece of 425 days learns
from 61 predictions. Needs the extra `train`; about two minutes on one core.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

import lrpnumpy as lrp
from benchmarks.river.data import DAYS, TEST, TRAINING, WEATHER, River, efficiency, read

HIDDEN, UPDATES, BATCH, TAIL = 32, 1200, 64, 61
DROPOUT, RATE = 0.4, 3e-3


class Network(nn.Module):
    """An LSTM and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(len(WEATHER), HIDDEN, batch_first=True)
        self.dropout = nn.Dropout(DROPOUT)
        self.head = nn.Linear(HIDDEN, 1)
        with torch.no_grad():  # begin with a long memory: the forget gates are open
            self.lstm.bias_hh_l0[HIDDEN : 2 * HIDDEN] = 3.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, T, 5) weather to (N, TAIL) discharge of the last days."""
        return self.head(self.dropout(self.lstm(x)[0][:, -TAIL:]))[..., 0]


def trained(river: River, first: str, last: str, seed: int = 0) -> tuple[Network, dict[str, np.ndarray]]:
    """The network, and mean and scale of weather and discharge on the days it was trained on."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)
    days = river.days(first, last)
    scaler = {
        "mean": river.weather[days].mean(axis=0),
        "scale": river.weather[days].std(axis=0),
        "target_mean": river.observed[days].mean(),
        "target_scale": river.observed[days].std(),
    }
    length = DAYS - 1 + TAIL
    weather = ((river.weather - scaler["mean"]) / scaler["scale"]).astype(np.float32)
    observed = ((river.observed - scaler["target_mean"]) / scaler["target_scale"]).astype(np.float32)
    pieces = np.lib.stride_tricks.sliding_window_view(weather, length, axis=0).swapaxes(1, 2)
    known = np.zeros(len(observed), bool)
    known[days] = True
    network = Network()
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, UPDATES)
    for _ in (bar := tqdm(range(UPDATES), "training", mininterval=5)):
        ends = rng.integers(max(days[0], length - 1), days[-1] + 1, BATCH)
        tail = ends[:, None] + np.arange(1 - TAIL, 1)  # (BATCH, TAIL) days that count
        counts = torch.from_numpy(known[tail])
        target = torch.from_numpy(np.nan_to_num(observed[tail]))
        loss = ((network(torch.from_numpy(pieces[ends - length + 1].copy())) - target)[counts] ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        bar.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
    return network.eval(), scaler


def as_model(network: Network, scaler: dict[str, np.ndarray], provenance: dict[str, str]) -> lrp.Model:
    """The network as ours: weather in its own units in, mm of discharge out."""
    U, W, b_x, b_h = (value.detach().numpy() for value in network.lstm.parameters())
    V, d = (value.detach().numpy() for value in network.head.parameters())
    lstm = lrp.LSTM(U.reshape(4, HIDDEN, -1), W.reshape(4, HIDDEN, -1), (b_x + b_h).reshape(4, HIDDEN))
    return lrp.Model(
        [lstm, lrp.Dense(V, d)],
        features=WEATHER,
        classes=("discharge",),
        output_unit="mm",
        scaler=(scaler["mean"], scaler["scale"]),
        output_scaler=(scaler["target_mean"], scaler["target_scale"]),
        window=DAYS,
        default_method="deeplift",
        provenance=provenance,
    )


def main() -> None:
    """Train, say how good it is on years that it has not seen, and save."""
    river = read(sys.argv[1])
    network, scaler = trained(river, *TRAINING)
    days = river.days(*TEST)
    notes = {
        "task": f"discharge of the Piscataquis River on the last of {DAYS} days of weather",
        "data": "CAMELS, gauge 01031500 (Newman et al. 2015, Addor et al. 2017)",
        "made_by": "python -m benchmarks.river.train",
        "torch": torch.__version__,
    }
    skill = efficiency(
        lrp.predict_all(as_model(network, scaler, notes), river.windows(days))[:, 0], river.observed[days]
    )
    notes[f"Nash-Sutcliffe efficiency, {TEST[0]} to {TEST[1]}"] = f"{skill:.4f}"
    lrp.save(as_model(network, scaler, notes), sys.argv[2], overwrite=True)
    print(f"Nash-Sutcliffe efficiency {skill:.4f} on the test years; wrote {sys.argv[2]}")


if __name__ == "__main__":
    main()
