"""The interface of captum for a Model and arrays; with modules and tensors it is tested in tests/interop."""

import networks as nets
import numpy as np
import pytest

import lrpnumpy as lrp


def model_of(rng, features):
    return lrp.Model([nets.lstm(rng, features, 3), nets.dense(rng, 3, 2)])


def test_shapley_values_have_the_shape_of_the_input():
    rng = np.random.default_rng(0)
    model, x = model_of(rng, 3), rng.normal(size=(2, 5, 3))
    for method in (lrp.Shapley(players="features"), lrp.Shapley(players="features", order=2)):
        found = lrp.Attribution(model, method).attribute(x, target=1, baselines=0)
        assert found.shape == x.shape
        for k, e in enumerate(lrp.explain_all(model, [*x], "shapley", 1, players="features")):
            np.testing.assert_allclose(found[k], e.feature_relevance, atol=1e-12)
    np.testing.assert_array_equal(lrp.Attribution(model, "shapley").attribute(x, target=1, players="features"), found)
    with pytest.raises(lrp.LrpError, match="unit must be 'step' or None unless players are 'features'"):
        lrp.Attribution(model, "shapley").attribute(x)


def test_shapley_values_of_many_features_are_drawn():
    rng = np.random.default_rng(1)
    model, x = model_of(rng, 40), rng.normal(size=(1, 5, 40))
    with pytest.raises(lrp.LrpError, match=r"40 of them have .* or error=0\.02 to draw orders at random"):
        lrp.Attribution(model, lrp.Shapley(players="features")).attribute(x)
    assert lrp.Attribution(model, lrp.Shapley(players="features", error=0.2)).attribute(x).shape == x.shape


def test_shapley_values_of_token_ids():
    rng = np.random.default_rng(2)
    words = lrp.Model([nets.lstm(rng, 3, 3), nets.dense(rng, 3, 2)], embedding=lrp.Embedding(rng.normal(size=(9, 3))))
    ids = rng.integers(0, 9, (2, 4))
    assert lrp.Attribution(words, "shapley").attribute(ids).shape == ids.shape
