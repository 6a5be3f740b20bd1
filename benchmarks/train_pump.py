"""Train the bundled autoencoder, for examples/anomaly.py. `python -m benchmarks.train_pump OUT.h5`

An LSTM reads a window of three sensors. Its last state, repeated for every step, is what a second LSTM and a linear
layer reconstruct the window from. Needs the extra `train`; about half a minute on one core.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from torch import nn

import lrpnumpy as lrp
from examples.anomaly import SENSORS, STEPS, windows

HIDDEN, UPDATES, BATCH = 16, 4000, 64


class Autoencoder(nn.Module):
    """Two LSTMs and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.LSTM(len(SENSORS), HIDDEN, batch_first=True)
        self.decoder = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)
        self.head = nn.Linear(HIDDEN, len(SENSORS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, T, sensors) reconstructed."""
        _, (last, _) = self.encoder(x)
        return self.head(self.decoder(last[0][:, None].expand(-1, x.shape[1], -1))[0])


def trained(seed: int = 0) -> tuple[Autoencoder, float]:
    """The network, and its mean squared error on windows that it has not seen."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)
    network = Autoencoder()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, UPDATES)
    for update in range(UPDATES):
        x = torch.from_numpy(windows(rng, BATCH))
        loss = nn.functional.mse_loss(network(x), x)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if update % 500 == 0:
            print(f"update {update}: loss {loss.item():.4f}", file=sys.stderr)
    with torch.no_grad():
        x = torch.from_numpy(windows(rng, 1000))
        return network, nn.functional.mse_loss(network(x), x).item()


def as_model(network: Autoencoder, provenance: dict[str, str]) -> lrp.Model:
    """The network as ours, for windows of any length."""

    def lstm(module: nn.LSTM) -> lrp.LSTM:
        U, W, b_x, b_h = (value.detach().numpy() for value in module.parameters())
        return lrp.LSTM(U.reshape(4, HIDDEN, -1), W.reshape(4, HIDDEN, -1), (b_x + b_h).reshape(4, HIDDEN))

    V, d = (value.detach().numpy() for value in network.head.parameters())
    return lrp.Model(
        [
            lrp.Node("encoder", lstm(network.encoder), ("window",)),
            lrp.Node("repeated", lrp.layers.Repeat(), ("encoder:last", "window")),
            lrp.Node("decoder", lstm(network.decoder), ("repeated",)),
            lrp.Node("head", lrp.Dense(V, d), ("decoder",)),
        ],
        inputs={"window": lrp.Input(len(SENSORS), features=SENSORS)},
        classes=SENSORS,
        output="linear",
        provenance=provenance,
    )


def main() -> None:
    network, error = trained()
    notes = {
        "task": f"reconstruct windows of {STEPS} steps of three sensors, see examples/anomaly.py",
        "made_by": "python -m benchmarks.train_pump",
        "mean squared error": f"{error:.5f}",
        "torch": torch.__version__,
    }
    lrp.save(as_model(network, notes), sys.argv[1], overwrite=True)
    print(f"mean squared error {error:.5f}; wrote {sys.argv[1]}", file=sys.stderr)


if __name__ == "__main__":
    main()
