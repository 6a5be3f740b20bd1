"""Checkpoints of pytorch-forecasting: names, categories, scalers and scores as the library has them."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import lrpnumpy as lrp

FOLDER = Path(__file__).parents[1] / "fixtures" / "forecasting"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
REALS = ("size", "temperature", "relative_time_idx", "y")


def opened(kind, **hints):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return lrp.load(FOLDER / f"{kind}.ckpt", **hints)


def record(kind, model, rows):
    """The first rows in units, the categories by their names."""
    mean, scale = (np.array(one) for one in model.inputs["x"].scaler)
    cat = np.array(EXPECTED[kind]["cat"])[:rows]
    days = [model.inputs["day"].embedding.vocabulary[k] for k in cat[:, 1]]
    return {"x": mean + scale * np.array(EXPECTED[kind]["cont"])[:rows], "series": "abc"[cat[0, 0]], "day": days}


def in_units(kind, forecast):
    """One step of the library's output: DeepAR gives center and scale of the target, loc, and the softplus of scale."""
    if kind == "RecurrentNetwork":
        return forecast
    center, width, loc, spread = forecast
    return [center + width * loc, np.log(np.expm1(spread))]


@pytest.mark.parametrize("kind", EXPECTED)
def test_names_and_scores(kind):
    model = opened(kind)
    assert model.inputs["x"].features == REALS
    assert model.inputs["series"].embedding.vocabulary == ("a", "b", "c")
    assert not model.inputs["series"].steps
    assert model.inputs["day"].embedding.vocabulary == tuple(f"day {k}" for k in range(7))
    assert model.classes == {"RecurrentNetwork": ("y",), "DeepAR": ("loc", "scale")}[kind]
    assert model.window == 9
    wanted = in_units(kind, EXPECTED[kind]["forecast"][0])
    np.testing.assert_allclose(lrp.predict(model, record(kind, model, 9)), wanted, rtol=1e-5)
    assert "of pytorch-forecasting" in str(lrp.inspect(FOLDER / f"{kind}.ckpt"))


def test_every_row_of_the_decoder():
    model = opened("DeepAR", readout="every")  # which the library computes from the targets that it is given
    scores = lrp.predict(model, record("DeepAR", model, 10))
    wanted = [in_units("DeepAR", row) for row in EXPECTED["DeepAR"]["forecast"]]
    np.testing.assert_allclose(scores[-2:], wanted, rtol=1e-5)


def test_relevance_is_where_the_network_reads():
    model = opened("RecurrentNetwork")
    R = lrp.explain(model, record("RecurrentNetwork", model, 9)).feature_relevance
    assert (R[0, :-1] == 0).all() and R[0, -1] != 0  # of the first row only the target is read
    assert R[-1, -1] == 0 and (R[-1, :2] != 0).all()  # of the last row everything but the target


def test_hints():
    with pytest.raises(lrp.WeightFileError, match="readout must be 'last' or 'every' for pytorch-forecasting"):
        opened("DeepAR", readout="mean")
    with pytest.warns(lrp.AssumptionWarning):
        lrp.load(FOLDER / "DeepAR.ckpt", layers=["rnn", "distribution_projector"], readout="every")
