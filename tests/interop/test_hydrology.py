"""Runs that neuralhydrology trains here and now: what it predicts in units is what the model of the run predicts."""

import numpy as np
import pytest
from interop import hydrology
from networks import close

import lrpnumpy as lrp
from lrpnumpy import files


def test_runs_of_neuralhydrology(tmp_path):
    pytest.importorskip("neuralhydrology")
    pytest.importorskip("yaml")
    runs = {**hydrology.RUNS, **hydrology.MORE}
    rows = dict(hydrology.written(tmp_path, runs))
    assert list(rows) == list(runs)
    for name, row in rows.items():
        model = files.load(tmp_path / name)
        x = {port: np.array(values) for port, values in row["x"].items()}
        x = x if len(x) > 1 else x["x_d"]
        close(lrp.predict(model, x), np.array(row["scores"]), tol=1e-5)
        assert model.classes == ("discharge",)
        lrp.explain(model, x, **({"step": -1} if model.every else {}))
