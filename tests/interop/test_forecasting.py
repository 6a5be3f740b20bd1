"""Checkpoints of pytorch-forecasting: scores are those of the library, and nothing is assumed."""

import warnings

import numpy as np
import pytest

pytest.importorskip("pytorch_forecasting")
pytest.importorskip("lightning")
from interop import forecasting
from pytorch_forecasting import EncoderNormalizer, GroupNormalizer
from pytorch_forecasting.data.encoders import TorchNormalizer

import lrpnumpy as lrp

NORMALIZERS = {
    "one scale": TorchNormalizer(),
    "a robust one": TorchNormalizer(method="robust"),
    "one for each series": GroupNormalizer(groups=["series"]),
    "one for each window": EncoderNormalizer(),
}


@pytest.mark.parametrize("cell", ["LSTM", "GRU"])
@pytest.mark.parametrize("name", NORMALIZERS)
@pytest.mark.parametrize("kind", forecasting.NETWORKS)
def test_the_forecast_of_the_next_row(kind, name, cell, tmp_path):
    path = tmp_path / "model.ckpt"
    rows, scales, forecasts = forecasting.trained(kind, NORMALIZERS[name], path, cell_type=cell)
    with warnings.catch_warnings():
        warnings.simplefilter("error", lrp.AssumptionWarning)
        model = lrp.load(path)
    mean, scale = (np.array(one) for one in model.inputs["x"].scaler)
    is_scaled = "of the target is not part of it" not in str(lrp.inspect(path))
    assert is_scaled == (type(NORMALIZERS[name]) is TorchNormalizer)  # the others subclass it
    T = forecasting.ENCODER + 1
    for cont, cat, (center, width), forecast in zip(rows["cont"], rows["cat"], scales, forecasts, strict=True):
        x = mean + scale * cont[:T]
        x[-1, -1] = 777  # the target of the row that is forecast is not used
        scores = lrp.predict(model, {"x": x, "series": cat[0, 0], "day": cat[:T, 1]})
        first = scores[0] if is_scaled else center + width * scores[0]
        if kind == "DeepAR":  # center and scale of the target, then the parameters of the distribution
            want = forecast[0, 0] + forecast[0, 1] * forecast[0, 2], forecast[0, 3]
            assert model.classes == ("loc", "scale")
            np.testing.assert_allclose([first, np.log1p(np.exp(scores[1]))], want, rtol=0, atol=1e-5)
        else:
            assert model.classes == ("y",)
            np.testing.assert_allclose(first, forecast[0, 0], rtol=0, atol=1e-5)
