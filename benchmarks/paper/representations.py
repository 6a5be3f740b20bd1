"""Sentence representations: word vectors added up by relevance, and their principal components (fig:PCA).

python -m benchmarks.paper representations --sst DIR
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from tqdm import tqdm

from benchmarks.paper import sentiment
from benchmarks.paper.measures.representations import (
    Projection,
    average,
    last_hidden,
    separation,
    weighted,
    weighted_last_hidden,
    whitened_pca,
)
from benchmarks.paper.page import Figure, Piece, Table, Text, canvas, publish
from benchmarks.paper.sentiment import Setting, explained
from benchmarks.paper.tables import PUBLISHED

COLORS = ("#2c3e9e", "#7fb2e5", "#9a9a9a", "#f4a261", "#c1121f")  # very negative to very positive
NAMES = {
    "Avg": "mean of the word vectors",
    "h_T": "last hidden vectors as they are",
    "Occlusion P-diff": "word relevance times word vector",
    "CD": "word relevance times word vector",
    "Gradient×Input": "relevance times vector, element by element",
    "LRP-all": "relevance times vector, element by element",
    "LRP h_T": "last hidden vectors times their relevance",
}

add_arguments = sentiment.add_arguments


def run(arguments: argparse.Namespace) -> None:
    given = sentiment.setting(arguments)
    for _ in publish(pieces(given), arguments.out):
        pass


def vectors(given: Setting) -> dict[str, np.ndarray]:
    """One matrix (sentences, features) for each kind of representation, target: the true class."""
    model, test = given.model, given.test
    assert test is not None
    words = test.words
    found = {"Avg": average(model, words), "h_T": last_hidden(model, words)}
    kinds = {"Occlusion P-diff": "occlusion-p", "CD": "cd", "Gradient×Input": "gradient-x-input"}
    for name, method in tqdm(kinds.items(), "representations", leave=False):
        found[name] = weighted(model, words, explained(model, test, method))
    lrp_all = explained(model, test, "lrp-all", hidden=True)
    found["LRP-all"] = weighted(model, words, lrp_all)
    found["LRP h_T"] = weighted_last_hidden(model, words, lrp_all)
    return found


def pieces(given: Setting) -> Iterator[Piece]:
    """The picture of seven panels, and its figures as a table."""
    assert given.test is not None
    labels = given.test.labels
    found = {name: whitened_pca(X) for name, X in vectors(given).items()}
    yield draw(found, labels)
    chance = 100 * float(np.sum((np.bincount(labels, minlength=5) / len(labels)) ** 2))
    rows = [
        [name, NAMES[name], f"{100 * p.explained[:2].sum():.1f} %", f"{100 * p.explained[2]:.1f} %",
         f"{separation(p.points, labels):.0f} %"]
        for name, p in found.items()
    ]  # fmt: skip
    yield Table(
        "representations",
        "Variance explained, and how structured the picture is",
        ["representation", "made of", "components 1+2", "component 3", "neighbors of the same class"],
        rows,
        "The last column is ours: how many of the 10 nearest points in the picture have the same class; by "
        f"chance {chance:.0f} %. The paper's shares of variance are only in its picture, which its source "
        f"does not have; its text reads: {PUBLISHED['representations']['text']}.",
    )
    yield Text(
        "The relevance is that of the true class, in ours as in the paper, so a representation made with it "
        "may know that class: structure shows that relevance depends on the class in a regular way, not "
        "that the class was predicted."
    )


def draw(found: dict[str, Projection], labels: np.ndarray) -> Figure:
    """One panel per representation, one color per class."""
    drawn = canvas(13, 6.6)
    axes = drawn.subplots(2, 4).ravel()
    order = np.random.default_rng(0).permutation(len(labels))  # so that no class hides another
    colors = np.array(COLORS)[labels]
    for axis, (name, p) in zip(axes, found.items(), strict=False):
        axis.scatter(*p.points[order].T, s=5, c=colors[order], linewidths=0, alpha=0.7)
        one, two = 100 * p.explained[:2].sum(), 100 * p.explained[2]
        axis.set_title(f"{name} ({one:.1f} %, {two:.1f} %)", fontsize=10)
        limit = 1.05 * np.percentile(abs(p.points), 99.7)
        axis.set(xlim=(-limit, limit), ylim=(-limit, limit), xticks=[], yticks=[])
    axes[-1].axis("off")
    for name, color in zip(("−−", "−", "0", "+", "++"), COLORS, strict=True):
        axes[-1].scatter([], [], c=color, label=f"true class {name}")
    axes[-1].legend(loc="center", frameon=False)
    title = "Sentence representations, whitened PCA (variance explained by components 1+2, by component 3)"
    return Figure.of("representations", title, drawn)
