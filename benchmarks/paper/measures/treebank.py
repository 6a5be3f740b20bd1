"""Read the trees of a sentiment treebank, and count accuracies as its papers do.

The files are Stanford's (trainDevTestTrees_PTB.zip, Socher et al. 2013): one bracketed tree per line, each node
labeled 0 (very negative) to 4 (very positive). They are read from where their owner keeps them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError, check_shape
from lrpnumpy.files.safe import open_file

CLASSES = ("very negative", "negative", "neutral", "positive", "very positive")
NEUTRAL = 2

Phrase = tuple[tuple[str, ...], int]  # words, label


class Sentences(NamedTuple):
    """Whole sentences as lists of words, and their labels."""

    words: list[list[str]]  # of each sentence
    labels: np.ndarray  # (N,)

    def at_least(self, length: int) -> Sentences:
        """Those of `length` words or more."""
        kept = [k for k, words in enumerate(self.words) if len(words) >= length]
        return Sentences([self.words[k] for k in kept], self.labels[kept])


def read_trees(path: Path) -> list[list[Phrase]]:
    """Each tree of the file at `path` as its labeled phrases, innermost first: the whole sentence is the last one.

    Words are lowercased, and the escapes `\\/` and `\\*` undone.
    """
    path = Path(path)
    try:
        with open_file(path) as file:
            lines = file.read().decode("utf-8").replace("\r\n", "\n").split("\n")
    except FileNotFoundError:
        raise LrpError(f"{path} must be a file of bracketed trees; there is none of that name.") from None
    except (OSError, UnicodeError) as error:
        raise LrpError(f"{path} must be a file of bracketed trees, got {error}.") from None
    # Only '\n' ends a line and only ' ' parts tokens: some tokens contain a no-break space.
    return [read_tree(line, f"{path}, line {k}") for k, line in enumerate(lines, 1) if line]


def read_tree(line: str, where: str = "tree") -> list[Phrase]:
    """`(3 (2 Not) (3 bad))` gives [(("not",), 2), (("bad",), 3), (("not", "bad"), 3)]."""
    words: list[str] = []
    opened: list[tuple[int, int]] = []  # label and first word of the brackets not yet closed
    phrases: list[Phrase] = []
    for label, word, close in re.findall(r"\((\d) |([^() ]+)|(\))", line):
        if label:
            opened.append((int(label), len(words)))
        elif word:
            words.append(re.sub(r"\\([/*])", r"\1", word).lower())
        elif close and opened:
            label_opened, start = opened.pop()
            phrases.append((tuple(words[start:]), label_opened))
    if opened or not phrases or len(phrases[-1][0]) != len(words) or line.count("(") != line.count(")"):
        raise LrpError(f"{where} must be one labeled tree such as (3 (2 not) (3 bad)), got {line[:60]!r}.")
    return phrases


def read_sentences(path: Path) -> Sentences:
    """The whole sentences of the file of trees at `path`."""
    whole = [tree[-1] for tree in read_trees(path)]
    return Sentences([list(words) for words, _ in whole], np.array([label for _, label in whole], np.int64))


def accuracies(scores: np.ndarray, labels: Sequence[int] | np.ndarray) -> tuple[float, float]:
    """Accuracy of `scores` (N, 5) against `labels` in %, of five classes and of two.

    The latter is on sentences that are not neutral: P(3) + P(4) against P(0) + P(1).
    """
    scores, labels = np.asarray(scores), np.asarray(labels)
    check_shape(scores, "scores", (None, 2 * NEUTRAL + 1))
    check_shape(labels, "labels", scores.shape[:1])
    P = np.exp(scores - scores.max(axis=1, keepdims=True))  # unnormalized: only compared within a row
    positive = P[:, NEUTRAL + 1 :].sum(axis=1) > P[:, :NEUTRAL].sum(axis=1)
    polar = labels != NEUTRAL
    return (
        100 * float(np.mean(scores.argmax(axis=1) == labels)),
        100 * float(np.mean(positive[polar] == (labels > NEUTRAL)[polar])),
    )
