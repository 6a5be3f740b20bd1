"""The treebank's format, from lines made up here, and accuracies by hand."""

import numpy as np
import pytest

from benchmarks.paper.measures.treebank import accuracies, read_sentences, read_tree, read_trees
from lrpnumpy import LrpError

TREES = [
    "(3 (2 Not) (3 bad))",
    "(1 (2 (2 either\\/or) (2 F\\*\\*\\*)) (2 1\u00a01\\/2))",  # escapes, and a no-break space inside a word
    "(2 (2 -LRB-) (2 (2 A) (2 -RRB-)))",
]


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "test.txt"
    file.write_text("\n".join(TREES) + "\n", encoding="utf-8")
    return file


def test_phrases_come_innermost_first():
    assert read_tree(TREES[0]) == [(("not",), 2), (("bad",), 3), (("not", "bad"), 3)]


def test_words_are_lowercased_unescaped_and_parted_by_blanks_alone(path):
    words, labels = read_sentences(path)
    assert words == [["not", "bad"], ["either/or", "f***", "1\u00a01/2"], ["-lrb-", "a", "-rrb-"]]
    assert labels.tolist() == [3, 1, 2]
    assert [tree[-1][0] for tree in read_trees(path)] == [tuple(row) for row in words]
    longer = read_sentences(path).at_least(3)
    assert longer.words == words[1:] and longer.labels.tolist() == [1, 2]


@pytest.mark.parametrize(
    "line", ["no tree", "(3 (2 not) (3 bad)", "(2 a) (2 b)", "(2 a))", "not (3 bad)", "(x (2 not) (3 bad))"]
)
def test_what_is_no_tree_is_named(tmp_path, line):
    file = tmp_path / "test.txt"
    file.write_text(f"{TREES[0]}\n{line}\n", encoding="utf-8")
    with pytest.raises(LrpError, match=r"test\.txt, line 2 must be one labeled tree"):
        read_trees(file)
    with pytest.raises(LrpError, match="there is none"):
        read_trees(tmp_path / "none.txt")


def test_accuracies_by_hand():
    P = np.array(
        [
            [0.1, 0.1, 0.2, 0.5, 0.1],  # +
            [0.35, 0.2, 0.0, 0.4, 0.05],  # + of the five, but negative of the two
            [0.1, 0.2, 0.6, 0.1, 0.0],  # 0, and more negative than positive
            [0.0, 0.3, 0.1, 0.2, 0.4],  # ++
        ]
    )
    five, two = accuracies(np.log(P + 1e-300), [3, 1, 2, 3])
    assert five == 50
    assert two == 100  # of the three that are not neutral
    assert accuracies(np.log(P + 1e-300), [3, 3, 0, 4]) == (75, 75)


def test_a_file_that_is_not_there():
    with pytest.raises(LrpError, match="must be a file of bracketed trees"):
        read_trees("nowhere.txt")
