"""Train the bundled two-class sentiment network. `python -m benchmarks.train_sentiment2 --sst DIR`

DIR has Stanford's train.txt, dev.txt and test.txt (trainDevTestTrees_PTB.zip, Socher et al. 2013). The network is a
bi-LSTM over word embeddings that start from random numbers. Its last hidden vectors and a linear layer without bias
give one score: positive if it is above 0. Needs PyTorch (extra `train`). It runs on one thread, so that the same seed
and versions give the same network again.

All labeled phrases of the training trees are used:

- The label sets the target probability, see TARGETS: "very positive" is surer than "positive".
- Neutral phrases have the target 1/2. A share of them is drawn for each epoch. They teach that most words are neutral.
- A phrase is a reversal if the phrases in it are all neutral or of the opposite class: "isn't funny", "never boring".
  Reversals are rare, and they have a larger weight in the loss. So the network learns negation.

The sentences of dev choose the epoch. The test sentences are scored once, at the end.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from tqdm import tqdm

import lrpnumpy as lrp
from benchmarks.paper.measures.treebank import NEUTRAL, Phrase, read_trees
from benchmarks.paper.train_sentiment import UNKNOWN, Batch, by_length, shuffled, word_counts

CLASSES = ("negative", "positive")
TARGETS = torch.tensor([0.02, 0.17, 0.5, 0.83, 0.98])  # probability of "positive" for each label
SENTENCES = (
    "Not bad at all.",
    "It isn't funny.",
    "Never boring.",
    "I didn't like it.",
    "You won't be disappointed.",
    "It's not good.",
    "Not a bad movie.",
    "Neither funny nor clever.",
    "It is not without charm.",
    "I can't recommend it.",
)  # printed with their scores at the end; "positive" and "negative" alternate


@dataclass(frozen=True)
class Settings:
    """The settings of a run. The defaults were chosen on dev and give the bundled network."""

    seed: int = 2
    epochs: int = 7
    batch: int = 64  # phrases per step, all of one length
    rate: float = 2e-3  # learning rate of AdamW
    size: int = 60  # of an embedding
    hidden: int = 60  # units per direction
    dropout: float = 0.5  # of embedding features and of the last hidden vectors
    unknown: float = 0.25  # a: a word seen n times is read as unknown with probability a / (a + n)
    neutral: float = 0.5  # share of the neutral phrases per epoch
    sentence: float = 4.0  # weight of a complete sentence
    reversal: float = 3.0  # weight of a reversal
    average: float = 0.999  # decay per step of the running average of the weights


class Network(nn.Module):
    """Embedding, bi-LSTM, last hidden vectors of both directions, one score."""

    def __init__(self, words: int, settings: Settings) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, settings.size)
        self.lstm = nn.LSTM(settings.size, settings.hidden, batch_first=True, bidirectional=True)
        self.output = nn.Linear(2 * settings.hidden, 1, bias=False)
        self.dropout = nn.Dropout(settings.dropout)
        nn.init.normal_(self.embedding.weight, std=0.1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Rows of the embedding (B, T) to scores (B,)."""
        _, (h, _) = self.lstm(self.dropout(self.embedding(ids)))  # the last state of each direction: (2, B, H)
        return self.output(self.dropout(torch.cat([h[0], h[1]], dim=1)))[:, 0]


def reversals(tree: list[Phrase]) -> set[Phrase]:
    """The phrases of a tree that are not neutral and contain only neutral phrases and ones of the opposite class."""
    result: set[Phrase] = set()
    spans: list[tuple[int, int]] = []  # first word and sign of each phrase so far
    end = 0
    for phrase in tree:
        words, label = phrase
        if len(words) == 1:
            end += 1
        start = end - len(words)
        sign = int(np.sign(label - NEUTRAL))
        inside = {other for first, other in spans if first >= start}
        if sign and -sign in inside and sign not in inside:
            result.add(phrase)
        spans.append((start, sign))
    return result


def training_groups(trees: list[list[Phrase]], rows: dict[str, int], settings: Settings) -> list[Batch]:
    """All training phrases with their weights, by length."""
    phrases = {phrase for tree in trees for phrase in tree}
    weights = {tree[-1]: settings.sentence for tree in trees}
    for tree in trees:
        for phrase in reversals(tree):
            weights[phrase] = settings.reversal
    return by_length(sorted(phrases), rows, weights)


def drawn(groups: list[Batch], share: float) -> list[Batch]:
    """The phrases of an epoch: all that are not neutral, and `share` of the neutral ones."""
    result = []
    for ids, labels, weights in groups:
        keep = (labels != NEUTRAL) | (torch.rand(len(labels)) < share)
        result.append((ids[keep], labels[keep], weights[keep]))
    return result


@torch.no_grad()
def measure(network: Network, groups: list[Batch]) -> tuple[float, float]:
    """Accuracy in % and mean cross-entropy on phrases that are not neutral."""
    network.eval()
    scores = torch.cat([network(ids) for ids, _, _ in groups])
    positive = torch.cat([labels for _, labels, _ in groups]) > NEUTRAL
    accuracy = 100 * ((scores > 0) == positive).float().mean()
    return accuracy.item(), F.binary_cross_entropy_with_logits(scores, positive.float()).item()


def train(
    trees: list[list[Phrase]], dev: list[list[Phrase]], vocabulary: list[str], settings: Settings
) -> tuple[Network, dict[str, float]]:
    """The averaged network of the epoch with the lowest cross-entropy on dev sentences, and its figures on dev."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # AdamW's averages for words not seen decay towards zero: slow
    torch.manual_seed(settings.seed)
    rows = {word: k for k, word in enumerate(vocabulary)}
    counts = word_counts(trees)
    n = torch.tensor([counts[word] for word in vocabulary], dtype=torch.float32)
    hide = settings.unknown / (settings.unknown + n)
    groups = training_groups(trees, rows, settings)
    sentences = polar([tree[-1] for tree in dev], rows)
    phrases = polar(sorted({phrase for tree in dev for phrase in tree}), rows)

    network = Network(len(vocabulary), settings)
    averaged = Network(len(vocabulary), settings)
    averaged.load_state_dict(network.state_dict())
    optimizer = torch.optim.AdamW(network.parameters(), lr=settings.rate, weight_decay=0.0, fused=True)
    step, best, state = 0, {"cross-entropy": float("inf")}, {}
    for epoch in range(1, settings.epochs + 1):
        network.train()
        batches = shuffled(drawn(groups, settings.neutral), settings.batch)
        for ids, labels, weights in tqdm(batches, desc=f"epoch {epoch}", mininterval=5, leave=False):
            ids = torch.where(torch.rand(ids.shape) < hide[ids], 0, ids)
            losses = F.binary_cross_entropy_with_logits(network(ids), TARGETS[labels], reduction="none")
            # Divided by a fixed size, so that a phrase in a small batch counts as much as any other.
            loss = losses @ weights / settings.batch
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            decay = min(settings.average, step / (step + 10))  # forgets the start sooner
            with torch.no_grad():
                for mean, value in zip(averaged.parameters(), network.parameters(), strict=True):
                    mean.lerp_(value, 1 - decay)
        accuracy, entropy = measure(averaged, sentences)
        figures = {
            "epoch": epoch,
            "sentences": accuracy,
            "cross-entropy": entropy,
            "phrases": measure(averaged, phrases)[0],
        }
        tqdm.write(
            "epoch {}: dev sentences {:.2f} % (cross-entropy {:.4f}), phrases {:.2f} %".format(*figures.values())
        )
        if entropy < best["cross-entropy"]:
            best, state = figures, {name: value.clone() for name, value in averaged.state_dict().items()}
    averaged.load_state_dict(state)
    return averaged.eval(), best


def polar(phrases: list[Phrase], rows: dict[str, int]) -> list[Batch]:
    """The phrases that are not neutral, by length."""
    return by_length([phrase for phrase in phrases if phrase[1] != NEUTRAL], rows, {})


def as_model(network: Network, vocabulary: list[str], provenance: dict[str, str]) -> lrp.Model:
    """The network as a model that reads sentences."""
    weight = {name: value.detach().numpy() for name, value in network.state_dict().items()}
    H = network.lstm.hidden_size
    directions = []
    for suffix in ("l0", "l0_reverse"):  # gates in the order i, f, g, o
        U = weight[f"lstm.weight_ih_{suffix}"].reshape(4, H, -1)
        W = weight[f"lstm.weight_hh_{suffix}"].reshape(4, H, H)
        b = weight[f"lstm.bias_ih_{suffix}"] + weight[f"lstm.bias_hh_{suffix}"]
        directions.append(lrp.LSTM(U, W, b.reshape(4, H)))
    return lrp.Model(
        [lrp.Bidirectional(*directions, merge="concat"), lrp.Dense(weight["output.weight"])],
        embedding=lrp.Embedding(
            weight["embedding.weight"], vocabulary=vocabulary, unknown=UNKNOWN, lowercase=True, tokenizer="treebank"
        ),
        readout="last",
        output="sigmoid",
        classes=CLASSES,
        provenance=provenance,
    )


def main() -> None:
    """Train, score the test sentences with the exported network, and save it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.train_sentiment2", description=__doc__.splitlines()[0])
    parser.add_argument("--sst", type=Path, required=True, help="folder with train.txt, dev.txt and test.txt")
    parser.add_argument("--out", type=Path, default=Path("weights/sentiment-2.h5"), help="file to write")
    parser.add_argument(
        "--seed", type=int, default=Settings.seed, help="of the initial weights, the order and the dropout"
    )
    options = parser.parse_args()
    settings = Settings(seed=options.seed)
    began = time.process_time()
    trees, dev, test = (read_trees(options.sst / f"{name}.txt") for name in ("train", "dev", "test"))
    vocabulary = [UNKNOWN, *sorted(word_counts(trees))]
    network, figures = train(trees, dev, vocabulary, settings)

    notes = {
        "data": "Stanford Sentiment Treebank (Socher et al. 2013): labeled phrases of the training trees, lowercased",
        "made_by": "python -m benchmarks.train_sentiment2 --sst DIR",
        "settings": json.dumps(asdict(settings)),
        "versions": json.dumps({"torch": torch.__version__, "numpy": np.__version__}),
    }
    model = as_model(network, vocabulary, notes)
    sentences = [tree[-1] for tree in test if tree[-1][1] != NEUTRAL]
    labels = np.array([label > NEUTRAL for _, label in sentences])
    scores = lrp.predict_all(model, [list(words) for words, _ in sentences])
    accuracy = 100 * float(np.mean(scores.argmax(axis=1) == labels))
    notes["accuracy"] = json.dumps({"dev": figures, "test sentences": accuracy})
    lrp.save(as_model(network, vocabulary, notes), options.out, overwrite=True)

    print("dev:  {sentences:.2f} % of sentences, {phrases:.2f} % of phrases (epoch {epoch})".format(**figures))
    print(f"test: {accuracy:.2f} % of {len(labels):,} sentences")
    for sentence, (_, score) in zip(SENTENCES, lrp.predict_all(model, list(SENTENCES)), strict=True):
        print(f"{score:+6.2f}  {sentence}")
    print(f"written: {options.out}, {time.process_time() - began:.0f} s of one core")


if __name__ == "__main__":
    main()
