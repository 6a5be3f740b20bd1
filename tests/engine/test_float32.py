"""float32 gives what float64 gives, for every method and every cell, where the stabilizer of LRP is not tiny."""

import networks as nets
import numpy as np
import pytest
from networks import close

import lrpnumpy as lrp
from lrpnumpy.methods import METHODS

# Rounding of float32 is 6e-8. Sums over steps and units add some, and LRP divides by sums as small as eps.
TOLERANCE = 2e-5
OPTIONS = {"lrp": {"eps": 0.2}, "integrated-gradients": {"nodes": 24}, "shapley": {"players": 4}}


@pytest.mark.sampled
@pytest.mark.parametrize("cell", nets.CELLS, ids=lambda cell: cell.__name__)
@pytest.mark.parametrize("method", METHODS)
def test_values_of_float32_are_those_of_float64(method, cell):
    rng = np.random.default_rng(5)
    layers = [nets.two_way(rng, 4, 6, cells=(cell, cell)), cell(rng, 12, 5), nets.dense(rng, 5, 3)]
    model, x = lrp.Model(layers), rng.normal(size=(9, 4))
    options = OPTIONS.get(method, OPTIONS.get(METHODS[method].kind, {}))
    unit = None if METHODS[method].feature_relevance == "no" or method == "shapley" else "feature"
    long = lrp.explain(model, x, method, 1, unit=unit, spans=[(2, 5)] if method == "cd" else None, **options)
    short = lrp.explain(
        model.astype("float32"), x, method, 1, unit=unit, spans=[(2, 5)] if method == "cd" else None, **options
    )
    assert (long.relevance.dtype, short.relevance.dtype) == (np.float64, np.float32)
    assert np.isfinite(long.relevance).all() and np.ptp(long.relevance) > 0
    close(short.relevance, long.relevance, TOLERANCE)
    if unit:
        close(short.feature_relevance, long.feature_relevance, TOLERANCE)
    if method == "cd":
        close([one.relevance for one in short.spans], [one.relevance for one in long.spans], TOLERANCE)
    for name, value in vars(long.ledger).items() if long.ledger else ():
        size = max(abs(long.scores[1]), np.max(np.abs(long.relevance)))
        close(vars(short.ledger)[name], value, TOLERANCE, max(size, getattr(long.ledger, "largest", 0)))
    close(short.scores, long.scores, TOLERANCE)
