"""Word removal on a made-up language in which the right answer can be read off the words."""

import numpy as np
import pytest
from networks import dense, lstm

import lrpnumpy as lrp
from benchmarks.paper.measures.word_removal import word_removal
from lrpnumpy import LrpError

# Word k of this language is worth VALUES[k]: a sentence is of class 1 if its words add up to more than 0.
VALUES = np.array([-3.0, -2.0, -1.0, 0.0, 0.0, 1.0, 2.0, 3.0])


def scores(sequences):
    sums = np.array([VALUES[list(words)].sum() for words in sequences])
    return np.stack([-sums, sums], axis=1)


def sentences(rng, count=200, T=8):
    words = [rng.integers(0, 8, T).tolist() for _ in range(count)]
    labels = (rng.random(count) < 0.7) * 1 * (scores(words)[:, 1] > 0)
    true = [VALUES[w] * (1 if label else -1) for w, label in zip(words, labels, strict=True)]
    return words, labels, true


def test_the_true_relevance_is_best_and_the_opposite_is_worse_than_chance(rng):
    words, labels, true = sentences(rng)
    relevances = {"true": true, "opposite": [-r for r in true], "none": [np.zeros(8)] * len(words)}
    found = word_removal(scores, words, labels, relevances, reference="true")
    assert found.names == ("random", "true", "opposite", "none")
    down, up = found.change("decreasing"), found.change("increasing")
    np.testing.assert_array_equal(down[0], 0)
    np.testing.assert_array_equal(down[1], 100)
    assert (down[2] < -5).all() and (up[2] < -5).all()
    assert (abs(down[3]) < 25).all()
    assert (found.accuracy("decreasing")[1] < found.accuracy("decreasing")[0]).all()
    assert (found.accuracy("increasing")[1] > found.accuracy("increasing")[0]).all()


def test_by_hand():
    words = [[7, 2, 2, 3], [0, 5, 6, 3]]  # worth 1 and 0: predicted 1, and (a tie goes to the first class) 0
    relevance = {"r": [np.array([5.0, 1, 0, -1]), np.array([-4.0, 1, 2, 0])]}
    found = word_removal(scores, words, [1, 1], relevance, reference="r", counts=(1, 3))
    # Without 3 the first is worth -2: class 0. With -4 gone the second is worth 3, with 3 words gone 2 or 0.
    assert found.correct["decreasing"][1].tolist() == [[0.0], [0.0]]
    assert found.correct["increasing"][1].tolist() == [[1.0], [1.0]]
    assert found.accuracy("increasing")[1].tolist() == [100.0, 100.0]


def test_words_of_equal_relevance_go_from_left_to_right():
    seen = []

    def predict(sequences):
        seen.append([list(s) for s in sequences])
        return np.tile([0.0, 1.0], (len(sequences), 1))

    relevance = {"same": [np.zeros(5)], "two": [np.array([0.0, 2, 1, 2, 0])]}
    word_removal(predict, [["a", "b", "c", "d", "e"]], [1], relevance, reference="same", counts=[1, 2], runs=1)
    assert seen[2] == [["b", "c", "d", "e"], ["c", "d", "e"]]
    assert seen[3] == [["a", "c", "d", "e"], ["a", "c", "e"]]


def test_random_removal_is_the_mean_of_its_runs_and_seeded(rng):
    words, labels, true = sentences(rng)
    one, same, other = (
        word_removal(scores, words, labels, {"r": true}, reference="r", runs=4, seed=seed) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one.correct["decreasing"], same.correct["decreasing"])
    assert (one.correct["decreasing"][0] != other.correct["decreasing"][0]).any()
    assert set(np.unique(one.correct["decreasing"][0])) <= {0, 0.25, 0.5, 0.75, 1}
    # Each word is as likely to go as any other.
    sums = [VALUES[w].sum() for w in words]
    kept = [k for k, (s, label) in enumerate(zip(sums, labels, strict=True)) if (s > 0) == label]
    exact = np.mean([[(sums[k] - VALUES[w] > 0) == labels[k] for w in words[k]] for k in kept])
    many = word_removal(scores, words, labels, {"r": true}, reference="r", runs=200, counts=[1])
    assert many.accuracy("decreasing")[0, 0] == pytest.approx(100 * exact, abs=0.5)


def test_the_bootstrap_tells_chance_from_difference(rng):
    words, labels, true = sentences(rng)
    noisy = [r + rng.normal(0, 4, len(r)) for r in true]
    again = [r + rng.normal(0, 4, len(r)) for r in true]
    relevances = {"true": true, "noisy": noisy, "again": again}
    found = word_removal(scores, words, labels, relevances, reference="true")
    difference, low, high = found.difference("decreasing", "true", "noisy")
    assert 0 < low < difference < high
    change = found.change("decreasing").mean(axis=1)
    assert difference == pytest.approx(change[1] - change[2])
    _, low, high = found.difference("decreasing", "noisy", "again")
    assert low < 0 < high
    assert found.difference("increasing", "noisy", "noisy") == (0, 0, 0)


@pytest.mark.parametrize("how", ["delete", "zero"])
def test_with_a_model_words_ids_and_vectors_agree(rng, how):
    N = 150
    names = [f"w{k}" for k in range(12)]
    embedding = lrp.Embedding(rng.normal(size=(12, 3)), vocabulary=names)
    model = lrp.Model([lstm(rng, 3, 4, bias=False), dense(rng, 4, 3, bias=False)], embedding=embedding)
    ids = [rng.integers(0, 12, T) for T in rng.integers(5, 9, N)]
    words, vectors = [[names[k] for k in row] for row in ids], [embedding.E[row] for row in ids]
    labels = rng.integers(0, 3, N)
    relevance = {"lrp-all": lrp.explain_all(model, ids, "lrp-all", labels)}
    found = [
        word_removal(model, sequences, labels, relevance, reference="lrp-all", how=how)
        for sequences in (words, ids, vectors)
    ]
    for other in found[1:]:
        for order, correct in found[0].correct.items():
            np.testing.assert_array_equal(correct, other.correct[order])
    assert len(np.unique(found[0].correct["decreasing"][1], axis=0)) == 3  # it matters how many are removed
    # The same by a slow loop, one sentence at a time.
    chosen = [k for k in range(N) if lrp.predict(model, ids[k]).argmax() == labels[k]]
    for n, k in enumerate(chosen):
        order = sorted(range(len(ids[k])), key=lambda t, r=relevance["lrp-all"][k].relevance: -r[t])
        for c, count in enumerate(found[0].counts):
            x = vectors[k].copy()
            if how == "zero":
                x[order[:count]] = 0
            else:
                x = np.stack([x[t] for t in range(len(x)) if t not in order[:count]])
            right = lrp.predict(model, x).argmax() == labels[k]
            assert found[0].correct["decreasing"][1, c, n] == right


def test_padding_is_not_a_word(rng):
    embedding = lrp.Embedding(rng.normal(size=(6, 3)), mask=0)
    model = lrp.Model([lstm(rng, 3, 4), dense(rng, 4, 2)], embedding=embedding)
    bare = [rng.integers(1, 6, 6) for _ in range(20)]
    padded = [np.concatenate([[0, 0], row]) for row in bare]
    labels = rng.integers(0, 2, 20)
    relevance = [rng.normal(size=6) for _ in bare]
    longer = [np.concatenate([[9.0, 9.0], r]) for r in relevance]
    one = word_removal(model, bare, labels, {"r": relevance}, reference="r")
    other = word_removal(model, padded, labels, {"r": longer}, reference="r")
    np.testing.assert_array_equal(one.correct["decreasing"][1], other.correct["decreasing"][1])


def test_what_cannot_be_is_said():
    words, labels, relevance = [[7, 6, 5, 5]], [1], {"r": [np.ones(4)]}

    def refused(match, **changed):
        given = {"sequences": words, "labels": labels, "relevances": relevance, "reference": "r"} | changed
        with pytest.raises(LrpError, match=match):
            word_removal(scores, **given)

    refused("more than the 4 words", counts=(1, 4))
    refused("from 1 on", counts=(0, 1))
    refused("one class for each", labels=[1, 0])
    refused(r"shape \(4,\)", relevances={"r": [np.ones(3)]})
    refused("one array for each", relevances={"r": []})
    refused("occlusion-p", reference="occlusion-p")
    refused("how='zero'", how="zero")
    found = word_removal(scores, words, labels, relevance, reference="r")
    with pytest.raises(LrpError, match="classified falsely, got none"):
        found.accuracy("increasing")


def test_one_score_has_two_classes():
    """Class 1 is a score above 0; what speaks for the score speaks against class 0."""
    one = lambda sequences: scores(sequences)[:, 1:]  # noqa: E731
    rng = np.random.default_rng(3)
    words = [rng.integers(0, 8, 8).tolist() for _ in range(200)]
    labels = (scores(words)[:, 1] > 0).astype(int)
    worth = [VALUES[w] for w in words]
    relevances = {"true": worth, "opposite": [-r for r in worth]}
    found = word_removal(one, words, labels, relevances, reference="true")
    two = word_removal(scores, words, labels, {
        "true": [r if c else -r for r, c in zip(worth, labels, strict=True)],
        "opposite": [-r if c else r for r, c in zip(worth, labels, strict=True)],
    }, reference="true")  # fmt: skip
    np.testing.assert_array_equal(found.correct["decreasing"], two.correct["decreasing"])
    assert (found.change("decreasing")[2] < 0).all()
    with pytest.raises(LrpError, match="0 or 1"):
        word_removal(one, words, labels + 1, relevances, reference="true")


def test_the_number_of_runs_is_bounded():
    with pytest.raises(LrpError, match="runs must be at most"):
        word_removal(scores, [[1, 2, 3, 4]], [0], {"a": [np.ones(4)]}, reference="a", runs=10**9)
