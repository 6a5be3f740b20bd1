"""Misclassified sentences, and variations of them that show why (tab:misclassified).

    python -m benchmarks.paper misclassified --sst DIR

A sentence is found in the test file by some of its words; a variation replaces some of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

import lrpnumpy as lrp
from benchmarks.paper import sentiment
from benchmarks.paper.page import Heatmaps, Piece, Text, publish
from benchmarks.paper.sentiment import EPS, SIGNS, Setting
from benchmarks.paper.tables import PUBLISHED
from lrpnumpy import Explanation


class Case(NamedTuple):
    """A sentence of the test file, what to replace in it, and what that shows."""

    holds: str  # words by which it is found
    variations: tuple[tuple[str, str], ...]  # old words, new words
    predicted: tuple[str, ...]  # by the bundled model: what the remark was written for
    remark: str


CASES = (
    Case(
        "never fails to engage",
        (
            ("never fails", "fails"),
            ("fails to engage", "engages"),
            ("never fails to engage", "succeeds in engaging"),
        ),
        ("−", "−−", "+", "+"),
        "“never” and “fails” both support the negative class (1): the model adds up two negations that "
        "should cancel. It did see “never”: without it the sentence is very negative (1a). And “never” "
        "alone is not strong enough to turn a positive word here (1b); without negations the model has no "
        "difficulty (1c). The paper finds the same in its first sentence: “fails” overshadows “never”.",
    ),
    Case(
        "off your must-see list",
        (
            ("off your must-see", "off your"),
            ("ecks this one off", "not on"),
            ("ecks this one off", "never on"),
        ),
        ("++", "0", "−", "−"),
        "Nothing in the beginning of the sentence counts as a negation: the model knows its first word only "
        "as a name, “off” slightly contradicts the class, and “must-see” decides alone (2); without it "
        "nothing is left (2a). Negations that the model knows do turn it (2b, 2c), “never” too, which the "
        "paper's model did not take into account.",
    ),
    Case(
        "worth e-mailing home about",
        (
            ("nothing plot-wise is", "nothing is"),
            ("nothing plot-wise is", "not"),
            ("worth e-mailing home about", "funny"),
        ),
        ("+", "+", "−", "−"),
        "“nothing” contradicts the class, but “worth” counts more (3), also when they are nearer to "
        "each other (3a). With “not” in its place the negation carries (3b), and with another word "
        "“nothing” carries (3c): it is this pair that the model has not learnt.",
    ),
)

add_arguments = sentiment.add_arguments


def run(arguments: argparse.Namespace) -> None:
    given = sentiment.setting(arguments)
    for _ in publish(pieces(given), arguments.out):
        pass


def explained(model: lrp.Model, text: str) -> Explanation:
    return lrp.explain(model, text.split(" "), "lrp-all", eps=EPS, unit="step")


def pieces(given: Setting) -> Iterator[Piece]:
    """Each sentence and its variations on the colors of LRP-all, target: the predicted class."""
    assert given.test is not None
    paper = PUBLISHED["misclassified"]["predicted"]
    yield Text(
        "Sentences of the test file that the model classifies wrongly (1, 2, 3), and variations (a, b, c). LRP-all, "
        "the predicted class as target. The paper's sentences are pictures that its source does not have; "
        "of its table only the predicted classes are text: "
        + ", ".join(f"{name} {sign}" for name, sign in paper.items()) + "."
    )  # fmt: skip
    sentences = [" ".join(words) for words in given.test.words]
    for n, case in enumerate(CASES, 1):
        at = next((k for k, text in enumerate(sentences) if case.holds in text), None)
        if at is None:
            yield Text(f"{n}: no test sentence has the words “{case.holds}”.")
            continue
        label, text = int(given.test.labels[at]), sentences[at]
        e = explained(given.model, text)
        rows = [([str(n), SIGNS[label], SIGNS[e.predicted]], e, [])]
        for letter, (old, new) in zip("abc", case.variations, strict=False):
            e = explained(given.model, text.replace(old, new))
            rows.append(([f"{n}{letter}", "", SIGNS[e.predicted]], e, []))
        wrong = rows[0][1].predicted != label
        title = f"Test sentence {at + 1}" + ("" if wrong else ", which this model classifies correctly")
        yield Heatmaps(title, ["no.", "true", "predicted", "heatmap"], rows)
        if tuple(before[2] for before, _, _ in rows) == case.predicted:
            yield Text(case.remark)
