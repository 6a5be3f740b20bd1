"""Semantic composition: what a negation or an amplifier does to a word (tab:semantic_composition).

    python -m benchmarks.paper composition

Needs no data set: the phrases are made of words that the model itself is sure of.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

import lrpnumpy as lrp
from benchmarks.paper.measures.composition import Composition, best_words, compose, predicted_as
from benchmarks.paper.page import Heatmaps, Piece, Table, Text, publish
from benchmarks.paper.sentiment import EPS, SIGNS, signs
from benchmarks.paper.tables import PUBLISHED
from lrpnumpy import Explanation, InputPart

NEGATIONS = """
no not never none nobody nothing nowhere neither nor n't without hardly scarcely barely rarely seldom little
few less least lack lacks lacking lacked fail fails failed failing deny denied refuse refuses refused
prevent avoid avoids absent absence minus
""".split()  # noqa: SIM905
AMPLIFIERS = """
absolutely amazingly awfully completely considerably decidedly deeply downright enormously entirely
especially exceedingly exceptionally excessively extraordinarily extremely fabulously fairly flipping
frightfully fully genuinely greatly hella highly hopelessly hugely incredibly insanely intensely majorly
more most much particularly perfectly positively profoundly purely quite rather really remarkably seriously
significantly simply so strikingly strongly substantially such super supremely surprisingly terribly
thoroughly totally tremendously truly uber unbelievably unusually utterly vastly very way well wholly wildly
""".split()  # noqa: SIM905
WORST, NEGATIVE, NEUTRAL, POSITIVE, BEST = range(5)
PAPER = PUBLISHED["composition"]


class Lists(NamedTuple):
    """The words that phrases are made of."""

    positive: list[str]
    negative: list[str]
    negations: list[str]
    amplifiers: list[str]


class Kind(NamedTuple):
    """One type of composition."""

    name: str
    places: Sequence[str]  # as in the heatmap
    found: Composition


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="sentiment", help="a bundled model or a file (sentiment)")


def run(arguments: argparse.Namespace) -> None:
    for _ in publish(pieces(lrp.load(arguments.model)), arguments.out):
        pass


def lists(model: lrp.Model) -> Lists:
    """Words of each sentiment that the model is surest of, and the modifiers that it calls neutral."""
    return Lists(
        best_words(model, POSITIVE),
        best_words(model, NEGATIVE),
        predicted_as(model, NEGATIONS, NEUTRAL),
        predicted_as(model, AMPLIFIERS, NEUTRAL),
    )


def kinds(model: lrp.Model, words: Lists) -> dict[str, Kind]:
    """The paper's four types, and the one that it tried."""
    positive, negative, no, very = words

    def made(*places: list[str], target: int, **options: float) -> Composition:
        return compose(model, places, target, eps=EPS, **options)  # type: ignore[arg-type]

    return {
        "1": Kind("negated positive sentiment", ("<not>", "<good>"), made(no, positive, target=NEGATIVE)),
        "2": Kind("amplified positive sentiment", ("<very>", "<good>"), made(very, positive, target=BEST)),
        "3": Kind("amplified negative sentiment", ("<very>", "<bad>"), made(very, negative, target=WORST)),
        "4": Kind(
            "negated amplified positive sentiment",
            ("<not>", "<very>", "<good>"),
            made(no, very, positive, target=NEGATIVE, least=0, rest=BEST),
        ),
        "5": Kind("negated negative sentiment", ("<not>", "<bad>"), made(no, negative, target=NEUTRAL)),
    }


def heatmap(kind: Kind) -> Explanation | None:
    """The mean relevance of each place, as the explanation of a phrase of placeholders."""
    if not len(kind.found.counted):
        return None
    scores = np.zeros(len(SIGNS))
    part = InputPart(kind.found.mean, tokens=tuple(kind.places))
    return Explanation({"x": part}, scores, kind.found.target, "lrp-all")


def relevance(pairs: Sequence[Sequence[float]] | None) -> str:
    return "-" if pairs is None else ", ".join(f"{mean:.2f} ({std:.2f})" for mean, std in pairs)


def pieces(model: lrp.Model) -> Iterator[Piece]:
    """The lists, the heatmaps, and the figures beside the paper's."""
    words = lists(model)
    counts = PAPER["words"]
    both = {"positive words (+)": words.positive, "negative words (−)": words.negative}
    rows = [[name, "vocabulary", _size(kept), str(counts["sentiment"])] for name, kept in both.items()]
    for name, mine, kept in (
        ("negations", NEGATIONS, words.negations),
        ("amplifiers", AMPLIFIERS, words.amplifiers),
    ):
        rows.append([name, str(len(mine)), _size(kept), f"{counts[name + '_neutral']} of {counts[name]}"])
    yield Table(
        "composition_lists",
        "The words that phrases are made of",
        ["list", "from", "kept", "paper"],
        rows,
        "Sentiment words: the 50 with the highest score of those that the model puts in the class. "
        "Modifiers: from lists made for this benchmark (the paper has other words), those that the model knows "
        "and calls neutral.",
    )
    for name, kept in zip((*both, "negations", "amplifiers"), words, strict=True):
        yield Text(f"{name}: {' '.join(kept) or 'NONE'}.")
    found = kinds(model, words)
    yield Heatmaps(
        "Mean relevance by LRP-all for the class in the second column; placeholders represent many words",
        ["composition", "predicted", "heatmap", "phrases"],
        [
            ([f"{n}. {kind.name}", SIGNS[kind.found.target]], heatmap(kind), [_size(kind.found.counted)])
            for n, kind in found.items()
        ],
    )
    rows = []
    for n, kind in found.items():
        c, paper, sign = kind.found, PAPER[n], SIGNS[kind.found.target]
        pairs = np.stack([c.mean, c.std], axis=1) if len(c.counted) else None
        count = f"{len(c.counted)} of {len(c.phrases)}"
        rows.append([f"{n}. {kind.name}: ours", sign, relevance(pairs), count, signs(c.shares)])
        samples = str(paper["samples"] or "-")
        rows.append(["paper", sign, relevance(paper["relevance"]), samples, paper["shares"]])
    yield Table(
        "composition",
        "Relevance of each word, mean (standard deviation); phrases that count; classes predicted, of all phrases",
        ["composition", "class", "relevance", "phrases", "predicted"],
        rows,
    )
    rows = []
    for n, kind in found.items():
        kept = " ".join(kind.found.retained) if n != "4" else "all of the lists: the rule does not apply"
        paper = " ".join(PAPER[n]["retained"] or ["not given"])
        rows.append([f"{n}. {kind.name}", kept or "NONE: the list came out empty", paper])
    header = ["composition", "ours", "paper"]
    yield Table(
        "composition_modifiers",
        "Modifiers that turn at least 40 % of their phrases into the class",
        header,
        rows,
    )
    yield from remarks(found)


def remarks(found: dict[str, Kind]) -> Iterator[Piece]:
    """How often single modifiers work: how near the rule the others are, and what the paper's do here."""
    rows = []
    for n in ("1", "2", "3", "5"):
        c = found[n].found
        names = list(dict.fromkeys(phrase[0] for phrase in c.phrases))
        hits = (c.predicted == c.target).reshape(len(names), -1).mean(axis=1) if names else []
        share = {name: f"{name} {100 * hit:.0f} %" for name, hit in zip(names, hits, strict=True)}
        best = [names[k] for k in np.argsort(-np.asarray(hits), kind="stable")[:6]]
        paper = [name for name in PAPER[n]["retained"] or () if name in share]
        rows.append([f"{n}. {found[n].name}", *(", ".join(share[k] for k in some) or "-" for some in (best, paper))])
    yield Table(
        "composition_best",
        "Share of a modifier's phrases that it turns into the class",
        ["composition", "those that work most often", "those that the paper retains"],
        rows,
        "A modifier that is missing in the last column is not in our list, or not neutral to our model.",
    )


def _size(words: Sequence[object] | np.ndarray) -> str:
    return str(len(words)) if len(words) else "0: EMPTY"
