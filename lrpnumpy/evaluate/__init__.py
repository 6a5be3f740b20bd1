"""Is an explanation any good: tasks with a known answer, and measures."""

from lrpnumpy.evaluate.composition import Composition, best_words, compose, predicted_as
from lrpnumpy.evaluate.removal import Removal, word_removal
from lrpnumpy.evaluate.representations import (
    Projection,
    average,
    last_hidden,
    separation,
    weighted,
    weighted_last_hidden,
    whitened_pca,
)
from lrpnumpy.evaluate.treebank import accuracies, read_sentences, read_trees

__all__ = [
    "Composition",
    "Projection",
    "Removal",
    "accuracies",
    "average",
    "best_words",
    "compose",
    "last_hidden",
    "predicted_as",
    "read_sentences",
    "read_trees",
    "separation",
    "weighted",
    "weighted_last_hidden",
    "whitened_pca",
    "word_removal",
]
