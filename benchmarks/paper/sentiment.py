"""The sentiment model and the treebank: what the experiments on sentiment share."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import lrpnumpy as lrp
from benchmarks.paper.measures.treebank import Sentences, accuracies, read_sentences
from benchmarks.paper.page import Piece, Table
from benchmarks.paper.tables import PUBLISHED

SIGNS = ("−−", "−", "0", "+", "++")  # the paper's names of the classes
EPS = 0.001
EPS_PROP = 0.2
WHERE = "trainDevTestTrees_PTB.zip of https://nlp.stanford.edu/sentiment/"


@dataclass(frozen=True, eq=False)
class Setting:
    """A model and the test sentences."""

    model: lrp.Model
    test: Sentences | None  # None without --sst

    @property
    def sentences(self) -> Sentences:
        """The test sentences of 10 words or more, from which words are removed."""
        assert self.test is not None
        return self.test.at_least(10)


def add_arguments(parser: argparse.ArgumentParser, required: bool = True) -> None:
    where = f"folder with Stanford's test.txt ({WHERE})"
    parser.add_argument("--sst", type=Path, required=required, help=where)
    parser.add_argument("--model", default="sentiment", help="a bundled model or a file (sentiment)")


def setting(arguments: argparse.Namespace) -> Setting:
    test = None if arguments.sst is None else read_sentences(arguments.sst / "test.txt")
    return Setting(lrp.load(arguments.model), test)


def explained(model: lrp.Model, data: Sentences, method: str, eps: float | None = None, **options: Any) -> Any:
    """Explanations of the true classes with the paper's eps; where rounding decides, the report counts it."""
    if method.startswith("lrp-"):
        options["eps"] = eps if eps is not None else EPS_PROP if method == "lrp-prop" else EPS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lrp.RelevanceWarning)
        return lrp.explain_all(model, data.words, method, data.labels, **options)


def accuracy_pieces(given: Setting) -> Iterator[Piece]:
    """The model's accuracy, counted again."""
    assert given.test is not None
    five, two = accuracies(lrp.predict_all(given.model, given.test.words), given.test.labels)
    paper = PUBLISHED["sentiment"]
    sizes = len(given.test.words), len(given.sentences.words)
    rows = [
        ["ours", f"{five:.1f} %", f"{two:.1f} %", *map(str, sizes)],
        [
            "paper",
            *(f"{value} %" for value in paper["accuracy"].values()),
            str(paper["test"]),
            str(paper["long"]),
        ],
    ]
    header = ["", "five-class", "binary", "test sentences", "of 10 words or more"]
    note = "Binary: on sentences that are not neutral, P(+) + P(++) against P(−) + P(−−)."
    yield Table("accuracy", "Accuracy on the test sentences of the treebank", header, rows, note)


def signs(shares: Sequence[float] | np.ndarray) -> str:
    """Shares of the five classes as text."""
    return ", ".join(f"{100 * share:.0f} % {sign}" for sign, share in zip(SIGNS, shares, strict=True))
