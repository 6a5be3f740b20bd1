"""Train the bundled encoder-decoder: it spells a word backwards. `python -m benchmarks.train_reverse OUT.h5`

The encoder reads the letters of a word. The decoder starts from its last states and outputs one letter per step,
knowing those that it has given. Needs the extra `train`; about half a minute on one core.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from torch import nn

import lrpnumpy as lrp

LETTERS = "abcdefgh"
START = "<start>"
SHORTEST, LONGEST, HIDDEN, STEPS, BATCH = 3, 7, 40, 2500, 128


class Reverse(nn.Module):
    """Two LSTMs and a linear layer, on letters as unit vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.LSTM(len(LETTERS), HIDDEN, batch_first=True)
        self.decoder = nn.LSTM(len(LETTERS) + 1, HIDDEN, batch_first=True)
        self.head = nn.Linear(HIDDEN, len(LETTERS))

    def forward(self, source: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        """Scores (N, T, letters) from unit vectors of the word and of the letters before each step."""
        _, state = self.encoder(source)
        return self.head(self.decoder(given, state)[0])


def batch(rng: np.random.Generator, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Words of one length, the decoder's inputs, and its targets."""
    letters = rng.integers(0, len(LETTERS), (count, int(rng.integers(SHORTEST, LONGEST + 1))))
    wanted = letters[:, ::-1].copy()
    given = np.concatenate([np.full((count, 1), len(LETTERS)), wanted[:, :-1]], axis=1)
    unit = torch.eye(len(LETTERS) + 1)
    return unit[letters][..., :-1], unit[given], torch.tensor(wanted)


def trained(seed: int = 0) -> tuple[Reverse, float]:
    """The network, and the share of letters that it gives rightly for words it has not seen."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)
    network = Reverse()
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for step in range(STEPS):
        source, given, wanted = batch(rng, BATCH)
        loss = nn.functional.cross_entropy(network(source, given).flatten(0, 1), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 250 == 0:
            print(f"step {step}: loss {loss.item():.3f}", file=sys.stderr)
    with torch.no_grad():
        tests = [batch(rng, 1000) for _ in range(5)]
        right = [(network(source, given).argmax(-1) == wanted).float().mean().item() for source, given, wanted in tests]
    return network, float(np.mean(right))


def as_model(network: Reverse, provenance: dict[str, str]) -> lrp.Model:
    """The network as ours: two inputs of letters, the encoder's last states start the decoder."""

    def lstm(module: nn.LSTM) -> lrp.LSTM:
        U, W, b_x, b_h = (value.detach().numpy() for value in module.parameters())
        return lrp.LSTM(U.reshape(4, HIDDEN, -1), W.reshape(4, HIDDEN, -1), (b_x + b_h).reshape(4, HIDDEN))

    def letters(words: list[str]) -> lrp.Input:
        return lrp.Input(embedding=lrp.Embedding(np.eye(len(words), dtype=np.float32), vocabulary=tuple(words)))

    V, d = (value.detach().numpy() for value in network.head.parameters())
    return lrp.Model(
        [
            lrp.Node("encoder", lstm(network.encoder), ("word",)),
            lrp.Node("decoder", lstm(network.decoder), ("given", "encoder:last", "encoder:cell")),
            lrp.Node("letters", lrp.Dense(V, d), ("decoder",)),
        ],
        inputs={"word": letters(list(LETTERS)), "given": letters([*LETTERS, START])},
        classes=tuple(LETTERS),
        provenance=provenance,
    )


def main() -> None:
    network, right = trained()
    notes = {
        "task": "spell a word of 3 to 7 letters backwards",
        "made_by": "python -m benchmarks.train_reverse",
        "letters right": f"{right:.4f}",
        "torch": torch.__version__,
    }
    lrp.save(as_model(network, notes), sys.argv[1], overwrite=True)
    print(f"{right:.2%} of the letters of new words are right; wrote {sys.argv[1]}", file=sys.stderr)


if __name__ == "__main__":
    main()
