"""A forecast as its user would explain it: network and scalers of the real libraries, a frame with dates, pictures."""

import networks as nets
import numpy as np
import pytest

import lrpnumpy as lrp

FEATURES, T = ["rain", "temp", "wind"], 10


@pytest.fixture
def frame():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(3)
    values = np.column_stack([rng.gamma(1, 5, 600), rng.normal(8, 10, 600), rng.gamma(2, 2, 600), rng.gamma(1, 2, 600)])
    return pandas.DataFrame(values, pandas.date_range("2004-01-01", periods=600), [*FEATURES, "discharge"])


def scalers(frame):
    """One of the inputs, one of the target; and the windows that the network was trained on."""
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    of_input, of_target = preprocessing.StandardScaler(), preprocessing.MinMaxScaler()
    scaled = of_input.fit_transform(frame[FEATURES])
    of_target.fit(frame[["discharge"]])
    windows = np.lib.stride_tricks.sliding_window_view(scaled, T, axis=0).transpose(0, 2, 1)
    return of_input, of_target, np.ascontiguousarray(windows, np.float32)


def explained(model, frame, scores, tmp_path):
    """The lines of the user, and what they must give."""
    found = lrp.explain_windows(model, frame, length=T)
    day = found.at("2005-04-03")
    lrp.plot.feature_map(day).savefig(tmp_path / "day.png")
    lrp.plot.feature_map(found.average()).savefig(tmp_path / "average.png")
    nets.close(found.scores, scores, 1e-5)
    assert len(found) == 591 and day.step_names[T - 1] == "2005-04-03" and day.features == (*FEATURES,)
    assert np.array_equal(day.values, frame.loc["2005-03-25":"2005-04-03", FEATURES])
    assert day.prediction.startswith("discharge ") and " mm, " in day.prediction
    nets.close(day.ledger.total, day.scores[0], 1e-5)


@pytest.mark.parametrize("activation", ["linear", "sigmoid"])
def test_keras(frame, tmp_path, activation):
    keras = pytest.importorskip("keras")
    of_input, of_target, windows = scalers(frame)
    layers = keras.layers
    network = keras.Sequential([keras.Input((T, 3)), layers.LSTM(6), layers.Dense(1, activation=activation)])
    network.save(tmp_path / "forecast.keras")
    scores = of_target.inverse_transform(network.predict(windows, verbose=0))
    model = lrp.load(tmp_path / "forecast.keras").with_units(
        scaler=of_input, output_scaler=of_target, output_unit="mm", classes=["discharge"]
    )
    explained(model, frame, scores, tmp_path)


def test_torch(frame, tmp_path):
    torch = pytest.importorskip("torch")
    of_input, of_target, windows = scalers(frame)

    class Forecast(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.gru, self.head = torch.nn.GRU(3, 6, batch_first=True), torch.nn.Linear(6, 1)

        def forward(self, x):
            return self.head(self.gru(x)[0][:, -1])

    network = Forecast()
    torch.save(network.state_dict(), tmp_path / "forecast.pt")
    scores = of_target.inverse_transform(network(torch.tensor(windows)).detach().numpy())
    model = lrp.load(tmp_path / "forecast.pt", readout="last", output="linear").with_units(
        scaler=of_input, output_scaler=of_target, output_unit="mm", classes=["discharge"]
    )
    explained(model, frame, scores, tmp_path)
