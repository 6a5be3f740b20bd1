"""Train the five-class sentiment bi-LSTM of the paper on the Stanford Sentiment Treebank and export it.

    python -m benchmarks.paper.train_sentiment --sst DIR --out weights/sentiment.h5

DIR holds Stanford's train.txt, dev.txt and test.txt (trainDevTestTrees_PTB.zip). The network is the paper's:
word embeddings of 60, an LSTM of 60 hidden units in each direction, the last hidden vectors of both
concatenated, a linear output without bias. Needs PyTorch (extra `train`), and runs on one thread, so that the
same seed and versions give the same model again.

Words are Stanford's, lowercased, with the escapes `\\/` and `\\*` undone. Brackets and quotes keep their Penn
Treebank names (-lrb- -rrb- `` ''), because that is what the treebank tokenizer makes of the ( ) and " that a
person types. Every labeled phrase of the training trees is seen once an epoch, however often it occurs.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from tqdm import tqdm

from benchmarks.paper.measures.treebank import CLASSES, Phrase, accuracies, read_trees

UNKNOWN = "<unk>"
D, H, C = 60, 60, len(CLASSES)  # the paper's sizes

Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # rows of E (B, T), labels (B,), weights (B,)


def setting(default: float, help: str):
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True)
class Settings:
    """What a run depends on; the defaults were chosen by dev accuracy and give the bundled model."""

    seed: int = setting(1, "seed of the initial weights, the order of phrases and the dropout")
    epochs: int = setting(5, "passes over the training phrases; the best on dev is kept")
    batch: int = setting(128, "phrases a step, all of one length")
    rate: float = setting(2e-3, "learning rate of AdamW")
    decay: float = setting(0.0, "weight decay of AdamW")
    drop_words: float = setting(0.5, "dropout of embedding variables")
    drop_hidden: float = setting(0.5, "dropout of the last hidden vectors")
    unknown: float = setting(0.25, "a: a word seen n times is read as unknown with probability a / (a + n)")
    sentence: float = setting(4.0, "weight of a whole sentence in the loss; that of a part is 1")
    average: float = setting(0.999, "decay of the running average of the weights, a step")
    scale: float = setting(0.1, "standard deviation of the initial embeddings")


# ------------------------------------------------------------------------------------------------------- data


def word_counts(trees: list[list[Phrase]]) -> Counter[str]:
    return Counter(word for tree in trees for word in tree[-1][0])


def by_length(phrases: list[Phrase], rows: dict[str, int], weight: dict[Phrase, float]) -> list[Batch]:
    """All phrases of each length together, so that nothing is padded; unknown words are row 0."""
    groups: dict[int, list[Phrase]] = {}
    for phrase in phrases:
        groups.setdefault(len(phrase[0]), []).append(phrase)
    return [
        (
            torch.tensor([[rows.get(word, 0) for word in words] for words, _ in group]),
            torch.tensor([label for _, label in group]),
            torch.tensor([weight.get(phrase, 1.0) for phrase in group]),
        )
        for group in groups.values()
    ]


def shuffled(groups: list[Batch], size: int) -> list[Batch]:
    """The batches of an epoch: phrases shuffled within each length, then the batches shuffled."""
    parts: list[Batch] = []
    for group in groups:
        order = torch.randperm(len(group[0]))
        parts += zip(*(array[order].split(size) for array in group), strict=True)
    return [parts[k] for k in torch.randperm(len(parts)).tolist()]


# ---------------------------------------------------------------------------------------------------- network


class Network(nn.Module):
    """Embedding, bi-LSTM, last hidden vectors of both directions, linear output without bias."""

    def __init__(self, n_words: int, settings: Settings):
        super().__init__()
        self.embedding = nn.Embedding(n_words, D)
        self.lstm = nn.LSTM(D, H, batch_first=True, bidirectional=True)
        self.output = nn.Linear(2 * H, C, bias=False)
        self.drop_words = nn.Dropout(settings.drop_words)
        self.drop_hidden = nn.Dropout(settings.drop_hidden)
        nn.init.normal_(self.embedding.weight, std=settings.scale)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        _, (h, _) = self.lstm(self.drop_words(self.embedding(ids)))  # the last state each way: (2, B, H)
        return self.output(self.drop_hidden(torch.cat([h[0], h[1]], dim=1)))


@torch.no_grad()
def measure(network: Network, sentences: list[Batch]) -> tuple[float, float]:
    network.eval()
    scores = torch.cat([network(ids) for ids, _, _ in sentences]).numpy()
    return accuracies(scores, torch.cat([labels for _, labels, _ in sentences]).numpy())


def train(
    trees: list[list[Phrase]], dev: list[list[Phrase]], vocabulary: list[str], settings: Settings
) -> tuple[Network, list[tuple[float, float]]]:
    """The averaged network of the epoch best on dev (five-class, then binary), and all accuracies."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # AdamW's averages for words not seen decay towards zero: slow
    torch.manual_seed(settings.seed)
    rows = {word: k for k, word in enumerate(vocabulary)}
    counts = word_counts(trees)
    n = torch.tensor([counts[word] for word in vocabulary], dtype=torch.float32)
    hide = settings.unknown / (settings.unknown + n)
    weight = {tree[-1]: settings.sentence for tree in trees}
    phrases = sorted({phrase for tree in trees for phrase in tree}, key=lambda phrase: (phrase in weight, phrase))
    groups = by_length(phrases, rows, weight)
    dev_sentences = by_length([tree[-1] for tree in dev], rows, {})

    network = Network(len(vocabulary), settings)
    averaged = Network(len(vocabulary), settings)
    averaged.load_state_dict(network.state_dict())
    optimizer = torch.optim.AdamW(network.parameters(), lr=settings.rate, weight_decay=settings.decay, fused=True)
    step, history, best = 0, [], {}
    for epoch in range(1, settings.epochs + 1):
        network.train()
        parts = shuffled(groups, settings.batch)
        for ids, labels, weights in tqdm(parts, desc=f"epoch {epoch}", mininterval=1, leave=False):
            ids = torch.where(torch.rand(ids.shape) < hide[ids], 0, ids)
            # Divided by a fixed size, so that a phrase in a small batch counts as much as any other.
            loss = F.cross_entropy(network(ids), labels, reduction="none") @ weights / settings.batch
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            keep = min(settings.average, step / (step + 10))  # forgets the start sooner
            with torch.no_grad():
                for mean, value in zip(averaged.parameters(), network.parameters(), strict=True):
                    mean.lerp_(value, 1 - keep)
        history.append(measure(averaged, dev_sentences))
        tqdm.write("epoch {}: dev {:.2f} % five-class, {:.2f} % binary".format(epoch, *history[-1]))
        if history[-1] == max(history):
            best = {name: value.clone() for name, value in averaged.state_dict().items()}
    averaged.load_state_dict(best)
    return averaged.eval(), history


# ----------------------------------------------------------------------------------------------------- export


def arrays(network: Network) -> dict[str, np.ndarray]:
    """The trained arrays in the paper's symbols, f and b for the directions; the gates are i, f, g, o."""
    weight = {name: value.detach().numpy() for name, value in network.state_dict().items()}
    found = {"E": weight["embedding.weight"], "V": weight["output.weight"]}
    for direction, suffix in (("f", "l0"), ("b", "l0_reverse")):
        found[direction + "U"] = weight[f"lstm.weight_ih_{suffix}"].reshape(4, H, D)
        found[direction + "W"] = weight[f"lstm.weight_hh_{suffix}"].reshape(4, H, H)
        b = weight[f"lstm.bias_ih_{suffix}"] + weight[f"lstm.bias_hh_{suffix}"]
        found[direction + "b"] = b.reshape(4, H)
    return found


def export(found: dict[str, np.ndarray], vocabulary: list[str], provenance: dict, path: Path) -> None:
    """Write the model through our own HDF5 route."""
    import lrpnumpy as lrp

    forward, backward = (lrp.LSTM(found[d + "U"], found[d + "W"], found[d + "b"]) for d in "fb")
    model = lrp.Model(
        [lrp.Bidirectional(forward, backward, merge="concat"), lrp.Dense(found["V"])],
        embedding=lrp.Embedding(
            found["E"], vocabulary=vocabulary, unknown=UNKNOWN, lowercase=True, tokenizer="treebank"
        ),
        readout="last",
        classes=CLASSES,
        provenance={k: v if isinstance(v, str) else json.dumps(v) for k, v in provenance.items()},
    )
    lrp.save(model, path, overwrite=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.paper.train_sentiment",
        description="Train the paper's sentiment model on the Stanford Sentiment Treebank and write HDF5.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--sst", type=Path, required=True, help="folder with train.txt, dev.txt and test.txt")
    parser.add_argument("--out", type=Path, default=Path("weights/sentiment.h5"), help="file to write")
    parser.add_argument("--npz", type=Path, help="also the plain arrays; vocab.json and meta.json beside")
    for each in fields(Settings):
        name, kind = "--" + each.name.replace("_", "-"), type(each.default)
        parser.add_argument(name, type=kind, default=each.default, help=each.metadata["help"])
    return parser.parse_args()


def main() -> None:
    options = arguments()
    settings = Settings(**{each.name: getattr(options, each.name) for each in fields(Settings)})
    trees, dev, test = (read_trees(options.sst / f"{name}.txt") for name in ("train", "dev", "test"))
    vocabulary = [UNKNOWN, *sorted(word_counts(trees))]
    network, history = train(trees, dev, vocabulary, settings)

    rows = {word: k for k, word in enumerate(vocabulary)}
    measured = {
        "dev": max(history),
        "test": measure(network, by_length([tree[-1] for tree in test], rows, {})),  # once, after the choice
    }
    for name, (five, two) in measured.items():
        print(f"{name}: {five:.2f} % five-class, {two:.2f} % binary")
    provenance = {
        "data": "Stanford Sentiment Treebank (Socher et al. 2013): all labeled training phrases, lowercased",
        "made_by": "benchmarks/paper/train_sentiment.py",
        "settings": asdict(settings),
        "epoch": 1 + history.index(max(history)),
        "accuracy": {name: {"five-class": five, "binary": two} for name, (five, two) in measured.items()},
        "versions": {"torch": torch.__version__, "numpy": np.__version__},
    }
    found = arrays(network)
    if options.npz:
        np.savez(options.npz, **found)
        options.npz.with_name("vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
        options.npz.with_name("meta.json").write_text(json.dumps(provenance, indent=1), encoding="utf-8")
    export(found, vocabulary, provenance, options.out)
    print(f"written: {options.out}")


if __name__ == "__main__":
    main()
