"""The GRU networks of the toy task, as PyTorch trains them and as we run them."""

import numpy as np

import lrpnumpy as lrp
from benchmarks.paper.measures import toy
from benchmarks.paper.toy_gru import train


def test_a_trained_gru_has_the_same_error_here():
    data = {"train": toy.generate("addition", 60, [4, 5]), "test": toy.generate("addition", 40, [6, 7], 1)}
    none, some, again = (train(data, 3, updates) for updates in (0, 30, 30))
    assert some == again and some.errors["train"] < none.errors["train"]
    for name, part in data.items():
        error = np.mean((lrp.predict_all(some.model, part.sequences)[:, 0] - part.y) ** 2)
        np.testing.assert_allclose(error, some.errors[name], rtol=1e-12)
