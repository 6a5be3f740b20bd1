"""The bundled two-class sentiment network: it loads by its name and reads negations."""

import numpy as np
import pytest

import lrpnumpy as lrp

pytestmark = pytest.mark.skipif("sentiment-2" not in lrp.files.shipped(), reason="the network is not there")
SENTENCES = {
    "A great film.": "positive",
    "Not bad at all.": "positive",
    "You won't be disappointed.": "positive",
    "It isn't funny.": "negative",
    "A dull and predictable story.": "negative",
}


@pytest.fixture(scope="module")
def model():
    return lrp.load("sentiment-2")


def test_five_sentences_are_classified_correctly(model):
    assert model.classes == ("negative", "positive")
    scores = lrp.predict_all(model, list(SENTENCES))
    np.testing.assert_array_equal(scores[:, 0], -scores[:, 1])  # one score, for the second class
    predicted = [model.classes[k] for k in scores.argmax(axis=1)]
    assert predicted == list(SENTENCES.values())


def test_a_negation_supports_negative(model):
    explanation = lrp.explain(model, "It isn't funny.")
    relevance = dict(zip(explanation.tokens, explanation.relevance, strict=True))
    assert max(relevance, key=relevance.get) == "n't"
    assert relevance["funny"] < 0
