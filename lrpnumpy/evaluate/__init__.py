"""Is an explanation any good: tasks with a known answer, and measures."""

from lrpnumpy.evaluate.composition import Composition, best_words, compose, predicted_as
from lrpnumpy.evaluate.rank import MEASURES, rank_methods
from lrpnumpy.evaluate.ranking import Ranking
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
from lrpnumpy.evaluate.word_removal import Removal, word_removal

__all__ = [
    "MEASURES",
    "Composition",
    "Projection",
    "Ranking",
    "Removal",
    "accuracies",
    "average",
    "best_words",
    "compose",
    "last_hidden",
    "predicted_as",
    "rank_methods",
    "read_sentences",
    "read_trees",
    "separation",
    "weighted",
    "weighted_last_hidden",
    "whitened_pca",
    "word_removal",
]
