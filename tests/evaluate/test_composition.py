"""Compositions with a network made by hand: a negation that comes first turns the sign of what follows."""

import numpy as np
import pytest

import lrpnumpy as lrp
from benchmarks.paper.measures.composition import best_words, compose, predicted_as
from lrpnumpy import LrpError

NEGATIVE, NEUTRAL, POSITIVE = range(3)


def network():
    """Unit 0 adds up what words are worth; unit 1 remembers a negation and lowers the sum at every step."""
    words = {"<unk>": 0.0, "not": -0.2, "hardly": -0.05, "good": 0.4, "fine": 0.35, "bad": -0.4, "film": 0.0}
    E = np.array([[value, {"not": 1, "hardly": 0.02}.get(word, 0)] for word, value in words.items()])
    U, W, b = np.zeros((4, 2, 2)), np.zeros((4, 2, 2)), np.zeros((4, 2))
    i, f, g, o = range(4)
    b[i] = b[o] = b[f] = 20  # gates open, nothing is forgotten
    U[g, 0, 0] = 1
    U[g, 1, 1] = 20
    W[g, 0, 1] = -0.8  # about 0.6 off after "not", 0.3 after "hardly"
    V = np.array([[-10.0, 0], [0, 0], [10, 0]])
    d = np.array([0.0, 2.5, 0])  # neutral within +-0.25
    embedding = lrp.Embedding(E, vocabulary=list(words), unknown="<unk>", lowercase=True)
    classes = ["negative", "neutral", "positive"]
    return lrp.Model([lrp.LSTM(U, W, b), lrp.Dense(V, d)], embedding=embedding, classes=classes)


@pytest.fixture(scope="module")
def model():
    return network()


def test_words_of_a_class_are_the_surest_first(model):
    assert best_words(model, POSITIVE) == ["good", "fine"]
    assert best_words(model, POSITIVE, 1) == ["good"]
    assert best_words(model, NEGATIVE) == ["bad"]
    assert best_words(model, NEUTRAL) == [
        "not",
        "hardly",
        "film",
    ]  # equal scores: as in the vocabulary, but no <unk>


def test_modifiers_are_known_and_neutral(model):
    assert predicted_as(model, ["Not", "hardly", "good", "nonsense"], NEUTRAL) == ["Not", "hardly"]
    assert predicted_as(model, ["nonsense"], NEUTRAL) == []


def test_negation_turns_positive_into_negative(model):
    found = compose(model, [["not", "hardly", "film"], ["good", "fine"]], NEGATIVE)
    assert found.phrases[0] == ("not", "good") and len(found.phrases) == 6
    by_hand = [int(lrp.predict(model, list(phrase)).argmax()) for phrase in found.phrases]
    assert found.predicted.tolist() == by_hand
    np.testing.assert_allclose(found.shares, np.bincount(by_hand, minlength=3) / 6)
    assert found.retained == ("not",)  # "hardly" turns too few words, "film" none
    assert [found.phrases[k] for k in found.counted] == [("not", "good"), ("not", "fine")]
    each = [lrp.explain(model, ["not", word], "lrp-all", NEGATIVE).relevance for word in ("good", "fine")]
    np.testing.assert_allclose(found.relevance, each, rtol=1e-12)
    np.testing.assert_allclose(found.mean, np.mean(each, axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.std, np.std(each, axis=0), rtol=1e-12)
    assert found.mean[0] > 0 > found.mean[1]  # the negation speaks for the class, the word against it


def test_the_share_that_a_modifier_must_turn(model):
    places = [["not", "film"], ["good", "fine", "bad", "film"]]
    shares = (compose(model, places, NEGATIVE).predicted.reshape(2, 4) == NEGATIVE).mean(axis=1)
    assert 0.25 < shares[0] < 1.01 and shares[1] == 0.25
    for least in (0.2, 0.25, 0.26, shares[0], shares[0] + 0.01):
        found = compose(model, places, NEGATIVE, least=least)
        kept = tuple(word for word, share in zip(places[0], shares, strict=True) if share >= least)
        assert found.retained == kept
        assert {found.phrases[k][0] for k in found.counted} == set(kept)


def test_what_follows_the_modifier_can_be_asked_of(model):
    places = [["not"], ["film", "good"], ["good", "bad"]]
    found = compose(model, places, NEGATIVE, least=0, rest=POSITIVE)
    counted = {found.phrases[k] for k in found.counted}
    expected = {
        phrase
        for phrase in found.phrases
        if lrp.predict(model, list(phrase)).argmax() == NEGATIVE
        and lrp.predict(model, list(phrase[1:])).argmax() == POSITIVE
    }
    assert counted == expected
    assert 0 < len(expected) < len(compose(model, places, NEGATIVE, least=0).counted)
    assert found.relevance.shape == (len(expected), 3)


def test_lists_that_come_out_empty_are_no_error(model):
    found = compose(model, [["not"], []], NEGATIVE)
    assert len(found.phrases) == len(found.counted) == 0 and found.retained == ()
    assert np.isnan(found.mean).all() and np.isnan(found.shares).all() and len(found.mean) == 2
    none = compose(model, [["film"], ["good"]], NEGATIVE)
    assert none.retained == () and len(none.counted) == 0 and np.isnan(none.std).all()
    assert none.shares[POSITIVE] == 1


def test_method_and_options_reach_the_explanation(model):
    found = compose(model, [["not"], ["good"]], NEGATIVE, method="occlusion-f")
    e = lrp.explain(model, ["not", "good"], "occlusion-f", NEGATIVE)
    np.testing.assert_allclose(found.relevance[0], e.relevance, rtol=1e-12)


def test_what_cannot_be_is_said(model, rng):
    with pytest.raises(LrpError, match="at least two lists"):
        compose(model, [["good"]], NEGATIVE)
    plain = lrp.Model([lrp.LSTM(np.zeros((4, 2, 2)), np.zeros((4, 2, 2))), lrp.Dense(np.eye(2))])
    for call in (
        lambda: best_words(plain, 0),
        lambda: predicted_as(plain, ["a"], 0),
        lambda: compose(plain, [["a"], ["b"]], 0),
    ):
        with pytest.raises(LrpError, match="vocabulary"):
            call()
