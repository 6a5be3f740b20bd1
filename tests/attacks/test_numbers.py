"""Numbers that were wrong without a warning, each once: close classes, float32, kinks, activations that are not 0 at 0."""

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
