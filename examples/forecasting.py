"""A forecasting model of PyTorch, from a DataFrame to dated pictures: why does it expect so much demand tomorrow?

Two years of made-up daily demand: it follows the cold of the last days and the day of the week, and a price that acts
after a week. A small LSTM learns it on scaled windows of 28 days, as such models are usually trained. The lines that
explain it are at the end. Needs torch and pandas; about half a minute.

Run with: python examples/forecasting.py [FOLDER]
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn

import lrpnumpy as lrp

DAYS = 28


def demand(seed: int = 0) -> pd.DataFrame:
    """Daily temperature, price, weekend and demand."""
    rng = np.random.default_rng(seed)
    dates = pd.date_range("2023-01-01", periods=730)
    noise = np.convolve(rng.normal(size=len(dates) + 4), np.ones(5), "valid")
    temperature = 10 - 12 * np.cos(2 * np.pi * np.arange(len(dates)) / 365) + 2 * noise
    price = 60 + 15 * np.repeat(rng.normal(size=len(dates) // 10), 10)
    weekend = (dates.day_of_week >= 5).astype(float)
    cold = pd.Series(18 - temperature).clip(lower=0).rolling(3, min_periods=1).mean().to_numpy()
    late = pd.Series(price).shift(7).bfill().to_numpy()
    total = 100 + 4 * cold - 15 * weekend - 0.5 * (late - 60) + rng.normal(size=len(dates))
    columns = {"temperature": temperature, "price": price, "weekend": weekend, "demand": total}
    return pd.DataFrame(columns, index=dates)


class Forecaster(nn.Module):
    """The usual network: an LSTM, and a linear layer on its last step."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 24, batch_first=True)
        self.head = nn.Linear(24, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, T, 3) to (N, 1)."""
        return self.head(self.lstm(x)[0][:, -1])


def trained(x: np.ndarray, y: np.ndarray) -> Forecaster:
    """Trained on windows of scaled numbers."""
    torch.manual_seed(0)
    network = Forecaster()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    windows = np.lib.stride_tricks.sliding_window_view(x, DAYS, axis=0).swapaxes(1, 2)
    inputs, targets = torch.tensor(windows, dtype=torch.float32), torch.tensor(y[DAYS - 1 :, None], dtype=torch.float32)
    for _ in range(200):
        loss = nn.functional.mse_loss(network(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"mean squared error of the scaled demand: {loss.item():.3f}")
    return network.eval()


folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
frame = demand()
features = ["temperature", "price", "weekend"]
mean, scale = frame.mean(), frame.std()
scaled = (frame - mean) / scale
network = trained(scaled[features].to_numpy(), scaled["demand"].to_numpy())

# From here on it is about the explanation.
model = lrp.from_torch(network, features=features, classes=["demand"])
model = model.with_units(scaler=(mean, scale), output_scaler=(mean["demand"], scale["demand"]), output_unit="MWh")
found = lrp.explain_windows(model, frame, length=DAYS, method="integrated-gradients", unit="feature")
print(found.at("2024-12-02"))
lrp.plot.feature_map(found.at("2024-12-02")).savefig(folder / "forecast-map.png", dpi=130)
lrp.plot.memory(found).savefig(folder / "forecast-memory.png", dpi=130)
print(f"wrote forecast-map.png and forecast-memory.png to {folder.resolve()}")
