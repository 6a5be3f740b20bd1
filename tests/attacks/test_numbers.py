"""Numbers that were wrong without a warning: close classes, float32, kinks, activations that are not 0 at 0."""

import warnings

import networks as nets
import numpy as np
import pytest

import lrpnumpy as lrp


@pytest.mark.parametrize("cell", nets.CELLS, ids=lambda cell: cell.__name__)
@pytest.mark.parametrize("activation", ["softplus", "sigmoid", "tanh"])
def test_a_phrase_receives_what_its_activations_are_at_zero(cell, activation):
    """A phrase that is the whole sequence leaves nothing irrelevant, in every cell."""
    rng = np.random.default_rng(3)
    model = lrp.Model([cell(rng, 3, 4, activation=activation, size=0.5), nets.dense(rng, 4, 2)])
    found = lrp.explain(model, rng.normal(size=(5, 3)), "cd", 1, spans=[(0, 5), (1, 3)])
    assert abs(found.ledger.irrelevant[0]) <= 1e-12 * abs(found.scores[1])
    assert abs(found.ledger.irrelevant[1]) > 1e-3 * abs(found.scores[1])


def explained(model, x, method, target=0, **options):
    """The explanation, and whether there was a warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = lrp.explain(model, x, method, target, **options)
    return found, bool(caught)


@pytest.mark.compiled
@pytest.mark.parametrize("method", ["lrp-all", "lrp-half", "deeplift", "integrated-gradients"])
def test_close_classes_in_float32_add_up_to_their_difference(method):
    """Relevances, ledger and scores agree to 1 % of f_target - f_versus, or there is a warning."""
    silent = 0
    for seed in range(60):
        rng = np.random.default_rng([1, seed])
        cell, V = nets.CELLS[seed % 2 * 3](rng, 3, 8, size=1.5), rng.normal(size=(2, 8))
        V[1] = V[0] + 10.0 ** -rng.uniform(1, 5) * V[1]
        model = lrp.Model([cell, lrp.Dense(V, np.full(2, rng.normal()))]).astype("float32")
        found, warned = explained(model, rng.normal(size=(12, 3)), method, versus=1)
        silent += not warned
        if not warned:
            ledger = found.ledger
            explains = float(found.scores[0]) - float(found.scores[1])
            got = float(ledger.total)
            if method in ("deeplift", "integrated-gradients"):
                got = float(ledger.reference) + found.relevance.astype(float).sum()
            assert abs(got - explains) <= 0.01 * abs(explains), seed
            assert abs(ledger.inputs - found.relevance.astype(float).sum()) <= 0.01 * abs(explains), seed
    assert silent > 20


def sums(dtype="float32"):
    """A network that adds up all that it sees: relevance is the input itself."""
    cell = lrp.RNN(np.eye(2), np.eye(2), activation="linear")
    return lrp.Model([cell, lrp.Dense(np.array([[1.0, 1.1]]))], output="linear").astype(dtype)


@pytest.mark.compiled
@pytest.mark.parametrize("method", ["lrp-all", "deeplift", "integrated-gradients"])
def test_relevances_that_were_rounded_to_float32_add_up_to_their_ledger(method):
    silent = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(30, 2)) * 10.0 ** rng.uniform(0, 6)
        x[-1] = 0
        x[-1, 0] = rng.uniform(1, 5) - (x @ [1, 1.1]).sum()
        found, warned = explained(sums(), x, method)
        silent += not warned
        if not warned:
            for got in (found.relevance, found.feature_relevance):
                assert abs(found.ledger.inputs - got.astype(float).sum()) <= 0.01 * abs(found.scores[0]), seed
    assert silent > 10


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", ["lrp-all", "deeplift"])
def test_relevance_millions_of_times_the_score_is_a_warning(method, dtype):
    x = np.array([[6.4e6, 0.0], [4.9 - 6.4e6, 0.0]])
    with pytest.warns(lrp.RelevanceWarning, match=r"more than 1e\+06 times the score"):
        lrp.explain(sums(dtype), x, method)
    assert not explained(sums(dtype), x[:1], method)[1]


KINKED = {
    "relu": lambda rng: lrp.Model([nets.rnn(rng, 2, 6, activation="relu", size=0.7), nets.dense(rng, 6, 1)]),
    "maximum": lambda rng: lrp.Model([nets.lstm(rng, 2, 6), nets.dense(rng, 6, 1)], readout="max"),
}


@pytest.mark.parametrize("name", KINKED)
def test_the_error_of_a_feature_is_known_where_gradients_jump(name):
    """No feature is off by more than twice the requested gap, or three times the stated error if there is a warning."""
    silent = 0
    for seed in range(20):
        rng = np.random.default_rng([4, seed])
        model, x, parts = KINKED[name](rng), rng.normal(size=(6, 2)) * 1.5, 8
        true = np.zeros_like(x)
        for k in range(parts):
            line = {"reference": x * k / parts, "nodes": 64}
            true += lrp.explain(model, x * (k + 1) / parts, "integrated-gradients", 0, **line).feature_relevance
        found, warned = explained(model, x, "integrated-gradients", gap=0.01)
        off = np.abs(found.feature_relevance - true).max()
        silent += not warned
        if warned:
            assert off <= 3 * found.ledger.error, seed
        else:
            assert off <= 0.02 * abs(found.ledger.score - found.ledger.reference), seed
    assert silent > 5
