"""Models of darts, from the files that it writes: the forecast is that of darts, and nothing is assumed."""

import warnings

import numpy as np
import pytest

darts = pytest.importorskip("darts")
pytest.importorskip("pytorch_lightning")
import pandas as pd  # noqa: E402
from darts.models import BlockRNNModel, RNNModel  # noqa: E402

import lrpnumpy as lrp  # noqa: E402

DAYS = pd.date_range("2020-01-01", periods=60, freq="D")
T = np.arange(60)
SERIES = darts.TimeSeries.from_times_and_values(DAYS, np.sin(T / 5).astype("f4")[:, None])
OTHERS = darts.TimeSeries.from_times_and_values(DAYS, np.stack([np.cos(T / 7), np.sin(T / 3)], 1).astype("f4"))
QUIET = {"accelerator": "cpu", "enable_progress_bar": False, "enable_model_summary": False, "logger": False}
SHARED = {"input_chunk_length": 10, "hidden_dim": 5, "n_epochs": 1, "pl_trainer_kwargs": QUIET, "random_state": 0}


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("covariates", [False, True])
def test_an_rnn_model(kind, covariates, tmp_path):
    network = RNNModel(kind, training_length=15, n_rnn_layers=2, **SHARED)
    given = {"future_covariates": OTHERS} if covariates else {}
    network.fit(SERIES[:50], **given)
    x = SERIES.values()[40:50]
    if covariates:  # those of the step that is predicted
        x = np.hstack([x, OTHERS.values()[41:51]])
    compare(network, network.predict(1, **given), x, tmp_path)


@pytest.mark.parametrize("hidden", [None, [4, 3]])
def test_a_block_rnn_model(hidden, tmp_path):
    network = BlockRNNModel("GRU", output_chunk_length=3, hidden_fc_sizes=hidden, activation="Tanh", **SHARED)
    network.fit(SERIES[:50], past_covariates=OTHERS)
    forecast = network.predict(3, past_covariates=OTHERS)
    compare(network, forecast, np.hstack([SERIES.values()[40:50], OTHERS.values()[40:50]]), tmp_path)


def compare(network, forecast, x, folder):
    network.save(str(folder / "model.pt"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", lrp.AssumptionWarning)
        found = lrp.load(folder / "model.pt")
    np.testing.assert_allclose(lrp.predict(found, x).ravel(), forecast.values().ravel(), rtol=0, atol=1e-5)
