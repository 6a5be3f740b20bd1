"""Train the bundled classifier of speakers. `python -m benchmarks.train_vowels TRAIN.ts TEST.ts OUT.h5`

A GRU reads an utterance of 7 to 29 steps of 12 coefficients; the mean over its steps and a linear layer say which of
nine men spoke. The data are the Japanese Vowels of the UCI archive (Kudo, Toyama and Shimbo 1999), in the `.ts` form of
the time series archive; they are not bundled. Needs the extra `train`; about a minute on one core.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

import lrpnumpy as lrp
from benchmarks.vowels import read

SPEAKERS = tuple(f"speaker {k}" for k in range(1, 10))
COEFFICIENTS = tuple(f"LPC {k}" for k in range(1, 13))
HIDDEN, EPOCHS, BATCH, NOISE = 32, 120, 32, 0.6


class Network(nn.Module):
    """A GRU, the mean over its steps, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(len(COEFFICIENTS), HIDDEN, batch_first=True)
        self.dropout = nn.Dropout(0.3)
        self.head = nn.Linear(HIDDEN, len(SPEAKERS))

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """(N, T, 12), padded at the end, to (N, 9) scores."""
        counts = (torch.arange(x.shape[1]) < lengths[:, None])[..., None]
        mean = (self.gru(x)[0] * counts).sum(1) / lengths[:, None]
        return self.head(self.dropout(mean))


def trained(x: list[np.ndarray], y: np.ndarray, seed: int = 0) -> Network:
    """The network after EPOCHS epochs; a little noise on the inputs keeps it from learning 270 utterances by heart."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    network = Network()
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    series = [torch.from_numpy(one.astype(np.float32)) for one in x]
    for _ in tqdm(range(EPOCHS), "training", mininterval=5):
        for some in torch.randperm(len(x)).split(BATCH):
            batch = pad_sequence([series[k] for k in some], batch_first=True)
            lengths = torch.tensor([len(series[k]) for k in some])
            scores = network(batch + NOISE * torch.randn_like(batch), lengths)
            loss = nn.functional.cross_entropy(scores, torch.from_numpy(y[some.numpy()]), label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    return network.eval()


def as_model(network: Network, scaler: tuple[np.ndarray, np.ndarray], provenance: dict[str, str]) -> lrp.Model:
    """The network as ours: coefficients as they are in, scores of the speakers out."""
    bare = lrp.from_torch(network, layers=["gru", "head"], readout="mean", output="softmax")
    return lrp.Model(bare.nodes, features=COEFFICIENTS, classes=SPEAKERS, scaler=scaler, provenance=provenance)


def main() -> None:
    """Train on the scaled coefficients, count the errors on the test utterances, and save."""
    (x, y), (x_test, y_test) = read(sys.argv[1]), read(sys.argv[2])
    steps = np.concatenate(x)
    mean, scale = steps.mean(axis=0), steps.std(axis=0)
    network = trained([(one - mean) / scale for one in x], y)
    notes = {
        "task": "which of nine men spoke a Japanese vowel",
        "data": "Japanese Vowels, UCI archive (Kudo, Toyama and Shimbo 1999)",
        "made_by": "python -m benchmarks.train_vowels",
        "torch": torch.__version__,
    }
    model = as_model(network, (mean, scale), notes)
    right = float((lrp.predict_all(model, x_test).argmax(axis=1) == y_test).mean())
    lrp.save(as_model(network, (mean, scale), {**notes, "test accuracy": f"{right:.4f}"}), sys.argv[3], overwrite=True)
    print(f"{100 * right:.1f} % of the test utterances are classified rightly; wrote {sys.argv[3]}")


if __name__ == "__main__":
    main()
