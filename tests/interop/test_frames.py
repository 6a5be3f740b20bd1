"""Series in tables and tensors of the real libraries, scalers of scikit-learn. What is not installed is skipped."""

import networks as nets
import numpy as np
import pytest
from methods.test_tables import DATES, FEATURES, river, several

import lrpnumpy as lrp


@pytest.fixture
def x():
    return np.random.default_rng(1).normal(size=(6, 2))


def check(x, *forms):
    """Each gives what the array gives; labels are dates."""
    model = river(features=FEATURES)
    expected = lrp.explain(model, x).relevance
    for form in forms:
        e = lrp.explain(model, form)
        assert np.array_equal(e.values, x)
        nets.close(e.relevance, expected)  # NumPy rounds one sequence and many differently
        assert e.features == FEATURES and e.label(2) == "2005-04-03"
    nets.close(lrp.explain_all(model, list(forms)).relevance, np.tile(expected, len(forms)))


def test_polars(x):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"when": DATES, "q": 0.0, "temp": x[:, 1], "rain": x[:, 0]})
    check(x, frame)
    assert np.array_equal(lrp.explain(river(1), frame["rain"]).values, x[:, :1])
    with pytest.raises(lrp.LrpError, match="must have the columns 'temp'"):
        lrp.explain(river(features=FEATURES), frame.drop("temp"))
    basins = polars.DataFrame({"slope": [0.3, 0.7], "area": [2.0, 5.0]})
    found = lrp.explain_all(several(), {"weather": np.stack([x, x]), "basin": basins})
    assert found[1].inputs["basin"].values.tolist() == [[5.0, 0.7]]


def test_xarray(x):
    xarray = pytest.importorskip("xarray")
    array = xarray.DataArray(x.T, dims=("f", "time"), coords={"f": list(FEATURES), "time": DATES})
    columns = {"temp": ("time", x[:, 1]), "rain": ("time", x[:, 0]), "q": ("time", x[:, 0])}
    check(x, array, array.T, xarray.Dataset(columns, {"time": DATES}))
    batch = xarray.DataArray(np.stack([x, -x]), dims=("n", "t", "f"))
    nets.close(lrp.explain_all(river(), batch).relevance, lrp.explain_all(river(), batch.values).relevance)


def test_torch(x):
    torch = pytest.importorskip("torch")
    model = river()
    expected = lrp.explain_all(model, [x, x]).relevance
    batch = torch.tensor(np.stack([x, x]), requires_grad=True)
    for form in (batch, list(batch), batch.transpose(0, 1).transpose(0, 1)):
        nets.close(lrp.explain_all(model, form).relevance, expected)
    nets.close(lrp.explain(model, batch[:1]).relevance, expected[:6])
    nets.close(lrp.explain(model, batch[0].bfloat16()).values, x, 0.01)


@pytest.mark.parametrize("name", ["StandardScaler", "MinMaxScaler", "RobustScaler", "MaxAbsScaler"])
def test_scalers(x, name):
    preprocessing, pandas = pytest.importorskip("sklearn.preprocessing"), pytest.importorskip("pandas")
    series = 5 + 3 * x
    frame = pandas.DataFrame({"discharge": series[:, 1] ** 2, "temp": series[:, 1], "rain": series[:, 0]})
    by_name = getattr(preprocessing, name)().fit(frame)
    bare = getattr(preprocessing, name)().fit(series)
    target = getattr(preprocessing, name)().fit(frame[["discharge"]])
    plain = lrp.predict(river(), bare.transform(series))
    expected = target.inverse_transform(plain[None])[0]
    for scaler, output_scaler in ((bare, target), (by_name, by_name)):
        model = river(scaler=scaler, output_scaler=output_scaler, features=FEATURES)
        nets.close(lrp.predict(model, frame), expected)
    with pytest.raises(lrp.LrpError, match="fitted"):
        river(scaler=getattr(preprocessing, name)())
