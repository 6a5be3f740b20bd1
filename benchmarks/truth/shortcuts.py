"""Shortcuts planted in text: tokens that decide by construction, after Bastings et al., EMNLP 2022.

A shortcut is planted in half of the training sentences of the Stanford Sentiment Treebank (two classes), and the label
is set to the shortcut's class. A network is used only if it follows the shortcut in at least 99 % of test sentences in
which the shortcut contradicts the label. There the planted tokens decided: the truth is about the network.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import lrpnumpy as lrp
from benchmarks.paper.measures.treebank import NEUTRAL, Sentences, read_sentences
from benchmarks.truth import metrics, networks, peers, pool
from benchmarks.truth.networks import Spec, Weights
from benchmarks.truth.rows import Rows, filled
from benchmarks.truth.table import Table

UNKNOWN, TOKENS, CONTEXT = "<unk>", ("#zero", "#one"), "#context"
KINDS = ("single token", "ordered pair", "token in context")
NETWORKS = {"bi-LSTM": ("LSTM", 2), "GRU": ("GRU", 1)}
SIZE = 60  # of word vectors, and units in each direction
SEEDS = 5
EPOCHS, FIRST, BATCH = 12, 3, 64  # training lasts from FIRST to EPOCHS epochs
FOLLOWED = 0.99
EXPLAINED, PEER_EXPLAINED = 200, 20  # test sentences

Job = tuple[str, str, int, str]  # kind of shortcut, network, seed, "train", "ours" or "peers"
Sentence = list[str]


class Planted(NamedTuple):
    """Sentences, their classes, and where the planted tokens are."""

    words: list[Sentence]
    classes: np.ndarray  # (N,)
    truth: list[np.ndarray]  # (T,) of each sentence


def insert(words: Sentence, tokens: Sentence, rng: np.random.Generator) -> tuple[Sentence, np.ndarray]:
    """A sentence with tokens at random places, in this order, and where they are."""
    truth = np.zeros(len(words) + len(tokens), bool)
    truth[rng.choice(len(truth), len(tokens), replace=False)] = True
    rest, own = iter(words), iter(tokens)
    return [next(own) if here else next(rest) for here in truth], truth


def shortcut(kind: str, label: int, rng: np.random.Generator) -> Sentence:
    """The tokens that mean a class."""
    if kind == "single token":
        return [TOKENS[label]]
    if kind == "ordered pair":
        return [TOKENS[label], TOKENS[1 - label]]
    tokens = [TOKENS[label], CONTEXT]
    return [tokens[k] for k in rng.permutation(2)]


def decoy(kind: str, rng: np.random.Generator) -> Sentence:
    """Tokens that mean nothing: half of a shortcut, so that the network has to look for the other half."""
    if kind == "single token" or rng.random() < 0.5:
        return []
    if kind == "token in context" and rng.random() < 0.5:
        return [CONTEXT]
    return [TOKENS[rng.integers(2)]]


def plant_half(sentences: Sentences, kind: str, seed: Any) -> Planted:
    """For training: a shortcut of a random class in half of the sentences, decoys in some of the others."""
    rng, words, classes, truth = np.random.default_rng(seed), [], [], []
    for sentence, label in zip(sentences.words, sentences.labels, strict=True):
        is_planted = rng.random() < 0.5
        if is_planted:
            label = int(rng.integers(2))
            tokens = shortcut(kind, label, rng)
        else:
            tokens = decoy(kind, rng)
        found, where = insert(sentence, tokens, rng)
        words.append(found)
        classes.append(label)
        truth.append(where & is_planted)
    return Planted(words, np.array(classes), truth)


def plant_opposite(sentences: Sentences, kind: str, seed: Any) -> Planted:
    """For tests: a shortcut that contradicts the label, in every sentence."""
    rng = np.random.default_rng(seed)
    classes = 1 - sentences.labels
    pairs = [
        insert(words, shortcut(kind, label, rng), rng)
        for words, label in zip(sentences.words, classes.tolist(), strict=True)
    ]
    return Planted([words for words, _ in pairs], classes, [truth for _, truth in pairs])


@cache
def read(folder: Path, name: str) -> Sentences:
    """Sentences of two classes; neutral ones are left out."""
    found = read_sentences(folder / f"{name}.txt")
    polar = np.flatnonzero(found.labels != NEUTRAL)
    return Sentences([found.words[k] for k in polar], (found.labels[polar] > NEUTRAL).astype(np.int64))


@cache
def vocabulary(folder: Path) -> list[str]:
    """Words that occur twice in the training sentences, and the tokens that are planted."""
    counts = Counter(word for words in read(folder, "train").words for word in words)
    return [UNKNOWN, *TOKENS, CONTEXT, *sorted(word for word, n in counts.items() if n > 1)]


def spec_of(network: str, words: int) -> Spec:
    cell, directions = NETWORKS[network]
    return Spec(cell, SIZE, SIZE, directions=directions, words=words, dropout=0.2)


def followed(model: lrp.Model, planted: Planted) -> float:
    """The share of sentences whose predicted class is that of the shortcut."""
    return float((lrp.predict_all(model, planted.words).argmax(axis=1) == planted.classes).mean())


def trained(kind: str, network: str, seed: int, arguments: Any) -> Weights:
    """The network of a seed: training ends once it follows the shortcut in development sentences."""
    known = vocabulary(arguments.sst)
    spec, rows = spec_of(network, len(known)), {word: k for k, word in enumerate(known)}
    code = (seed, KINDS.index(kind))

    def make() -> Weights:
        check = plant_opposite(read(arguments.sst, "dev"), kind, (*code, 1))
        epochs = iter(range(EPOCHS))

        def batches(rng: np.random.Generator):
            data = plant_half(read(arguments.sst, "train"), kind, rng)  # at other places in every epoch
            ids = [np.array([rows.get(word, 0) for word in words]) for words in data.words]
            lengths = np.array([len(one) for one in ids])
            order = rng.permutation(len(ids))
            order = order[np.argsort(lengths[order], kind="stable")]  # no padding: sentences of one length together
            cuts = np.flatnonzero(np.diff(lengths[order])) + 1
            groups = [
                part for group in np.split(order, cuts) for part in np.array_split(group, -(-len(group) // BATCH))
            ]
            for k in rng.permutation(len(groups)):
                yield np.stack([ids[n] for n in groups[k]]), data.classes[groups[k]]

        def enough(weights: Weights, loss: float) -> bool:
            share = followed(networks.model(spec, weights, vocabulary=known), check)
            return next(epochs) + 1 >= FIRST and share > 1 - (1 - FOLLOWED) / 4

        return networks.train(spec, seed, EPOCHS, batches, rate=3e-3, enough=enough)

    return networks.cached(arguments.cache / f"shortcuts-{kind.replace(' ', '_')}-{network}-{seed}.npz", make)


# ---------------------------------------------------------------------------------------------- the benchmark

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "gradient": ("gradient", {}),
    "gradient-x-input": ("gradient-x-input", {}),
    "lrp-all": ("lrp-all", {}),
    "lrp-prop": ("lrp-prop", {}),
    "lrp-abs": ("lrp-abs", {}),
    "lrp-half": ("lrp-half", {}),
    "cd": ("cd", {}),
    "deeplift": ("deeplift", {}),
    "deeplift, unknown word": ("deeplift", {"reference": "unknown"}),
    "integrated-gradients": ("integrated-gradients", {"nodes": 16}),
    "integrated-gradients, unknown word": ("integrated-gradients", {"nodes": 16, "reference": "unknown"}),
    "occlusion-f": ("occlusion-f", {}),
    "occlusion-f, omitted": ("occlusion-f", {"reference": "omit"}),
    "occlusion-p": ("occlusion-p", {}),
}
COLUMNS = ("top k", "mean rank", "top k, signed")


def scores(relevance: list[np.ndarray], truth: list[np.ndarray]) -> dict[str, float]:
    """Means over sentences: precision of the top k of |relevance|, mean rank, precision of the top k of relevance."""
    pairs = list(zip(relevance, truth, strict=True))
    values = (
        np.mean([metrics.top_k(abs(one), right) for one, right in pairs]),
        np.mean([metrics.mean_rank(abs(one), right) for one, right in pairs]),
        np.mean([metrics.top_k(one, right) for one, right in pairs]),
    )
    return dict(zip(COLUMNS, map(float, values), strict=True))


def jobs(arguments: Any) -> list[Job]:
    """For each network its training, our methods and, on request, the peers."""
    sides, seeds = pool.SIDES[: 2 + arguments.peers], range(arguments.seeds or SEEDS)
    return [(kind, name, seed, side) for side in sides for seed in seeds for kind in KINDS for name in NETWORKS]


def work(job: Job, arguments: Any) -> Rows:
    """Every method of one side on one network, unless it does not follow its shortcut."""
    kind, network, seed, side = job
    weights, known = trained(kind, network, seed, arguments), vocabulary(arguments.sst)
    if side == "train":
        return {}
    spec = spec_of(network, len(known))
    model = networks.model(spec, weights, vocabulary=known)
    planted = plant_opposite(read(arguments.sst, "test"), kind, (seed, KINDS.index(kind), 2))
    share = followed(model, planted)
    rows: Rows = {"(network)": {"followed": share}}
    if share < FOLLOWED:
        return rows
    if side == "peers":
        return rows | {name: peer(name, networks.in_torch(spec, weights), planted, known) for name in peers.PEERS}
    words, truth = planted.words[:EXPLAINED], planted.truth[:EXPLAINED]
    for name, (method, options) in METHODS.items():
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lrp.RelevanceWarning)
            found = lrp.explain_all(model, words, method, unit="step", **options)
        seconds = time.process_time() - began
        rows[name] = scores([e.relevance for e in found], truth) | {"ms": 1000 * seconds / len(words)}
    rng = np.random.default_rng(5)
    rows["random"] = scores([rng.standard_normal(len(one)) for one in words], truth)
    rows["the truth"] = scores([one.astype(float) for one in truth], truth)
    return rows


def peer(name: str, network: Any, planted: Planted, known: list[str]) -> dict[str, Any]:
    """A peer on the vectors of the first sentences; the relevance of a word is the sum over its vector."""
    rows = {word: k for k, word in enumerate(known)}
    E = network.embedding.weight.detach().numpy()
    found, began = [], time.process_time()
    try:
        for words in planted.words[:PEER_EXPLAINED]:
            x = E[[rows.get(word, 0) for word in words]][None]
            target = _predicted(network, x)
            found.append(peers.run(name, network, x, target, peers.View(whole_steps=True))[0].sum(axis=1))
    except peers.Failure as error:
        return {"note": str(error)}
    seconds = time.process_time() - began
    return scores(found, planted.truth[:PEER_EXPLAINED]) | {"ms": 1000 * seconds / PEER_EXPLAINED}


def _predicted(network: Any, x: np.ndarray) -> np.ndarray:
    import torch

    with torch.no_grad():
        return network(torch.from_numpy(x)).numpy().argmax(axis=1)


def tables(results: dict[Job, Rows]) -> list[Table]:
    """One table for each kind of shortcut and network, one of costs, and one of networks with a * for each unused."""
    networks_table = Table("Shortcuts, networks: followed", KINDS)
    for network in NETWORKS:
        for kind in KINDS:
            jobs = [job for job in results if job[:2] == (kind, network) and job[-1] == "ours"]
            shares = [results[job]["(network)"]["followed"] for job in jobs]
            networks_table.add(network, kind, shares, sum(share < FOLLOWED for share in shares) * "*")
    out = [networks_table]
    for kind in KINDS:
        for network in NETWORKS:
            some = [_methods(rows) for job, rows in results.items() if job[:2] == (kind, network)]
            out.append(filled(f"Shortcuts, {kind}, {network}", COLUMNS, some))
    for network in NETWORKS:
        some = [_methods(rows) for job, rows in results.items() if job[1] == network]
        out.append(filled(f"Shortcuts, {network}, cost", ["ms"], some))
    return out


def _methods(rows: Rows) -> Rows:
    return {name: row for name, row in rows.items() if name != "(network)"}
