"""Train networks with neuralhydrology itself, on a few days of made-up weather, and keep what it predicts in units.

python -m tests.interop.hydrology tests/fixtures/neuralhydrology
"""

import argparse
import json
import logging
import shutil
import tempfile
from pathlib import Path

import numpy as np

FORCINGS, STATIC, TARGETS = ["rain", "temperature"], ["slope", "area"], ["discharge"]
EMBEDDING = {"type": "fc", "hiddens": [4, 3], "activation": "tanh", "dropout": 0.1}
RUNS = {
    "lstm": {"model": "cudalstm"},
    "lstm_static": {"model": "cudalstm", "static_attributes": STATIC},
    "lstm_embedded": {
        "model": "cudalstm", "static_attributes": STATIC, "statics_embedding": EMBEDDING,
        "dynamics_embedding": {**EMBEDDING, "hiddens": [5], "activation": "relu"}, "use_basin_id_encoding": True,
    },
    "lstm_old": {"model": "embcudalstm", "static_attributes": STATIC, "statics_embedding": EMBEDDING},
    "gru_static": {"model": "gru", "static_attributes": STATIC, "output_activation": "softplus"},
    "gru_every": {
        "model": "gru", "predict_last_n": 4,
        "custom_normalization": {"rain": {"centering": "None", "scaling": "minmax"}},
    },
}  # fmt: skip
MORE = {  # which have no fixture
    "custom": {"model": "customlstm", "static_attributes": STATIC, "initial_forget_bias": 3},
    "ealstm": {"model": "ealstm", "static_attributes": STATIC},
    "ealstm_embedded": {"model": "ealstm", "static_attributes": STATIC, "statics_embedding": EMBEDDING},
}


def data(folder):
    """60 days of two basins, as neuralhydrology's generic data set wants them."""
    import pandas
    import xarray

    rng = np.random.default_rng(0)
    days = pandas.date_range("2000-01-01", periods=60, name="date")
    for part in ("time_series", "attributes"):
        (folder / part).mkdir(parents=True)
    for basin in ("north", "south"):
        rain, temperature = rng.gamma(1, 3, len(days)), rng.normal(10, 5, len(days))
        discharge = np.convolve(rain, [0.2, 0.2, 0.1])[: len(days)] + 0.3
        columns = {"rain": rain, "temperature": temperature, "discharge": discharge}
        series = {name: ("date", column.astype(np.float32)) for name, column in columns.items()}
        xarray.Dataset(series, {"date": days}).to_netcdf(folder / "time_series" / f"{basin}.nc")
    (folder / "attributes" / "all.csv").write_text("gauge_id,slope,area\nnorth,1.0,30.0\nsouth,2.5,70.0\n")
    (folder / "basins.txt").write_text("north\nsouth\n")


def settings(folder):
    """The configuration that all runs share."""
    periods = {"train": ("10/01/2000", "01/02/2000"), "validation": ("02/02/2000", "28/02/2000")}
    found = {f"{name}_basin_file": str(folder / "basins.txt") for name in ("train", "validation", "test")}
    for name in ("train", "validation", "test"):
        start, end = periods.get(name, periods["validation"])
        found |= {f"{name}_start_date": start, f"{name}_end_date": end}
    return found | {
        "device": "cpu", "head": "regression", "output_activation": "linear", "hidden_size": 5, "output_dropout": 0.1,
        "optimizer": "Adam", "loss": "MSE", "learning_rate": 0.01, "batch_size": 16, "epochs": 2, "predict_last_n": 1,
        "seq_length": 9, "num_workers": 0, "log_interval": 5, "log_tensorboard": False, "log_n_figures": 0,
        "save_weights_every": 1, "dataset": "generic", "data_dir": str(folder), "dynamic_inputs": FORCINGS,
        "target_variables": TARGETS, "seed": 3,
    }  # fmt: skip


def trained(folder, given, target):
    """The folder of a run, at `target`; and its configuration."""
    from neuralhydrology.training.train import start_training
    from neuralhydrology.utils.config import Config

    with tempfile.TemporaryDirectory() as scratch:
        config = Config({**settings(folder), "experiment_name": "run", "run_dir": scratch, **given})
        start_training(config)
        for handler in [one for one in logging.getLogger().handlers if isinstance(one, logging.FileHandler)]:
            logging.getLogger().removeHandler(handler)  # its file goes away
            handler.close()
        keep = shutil.ignore_patterns("*.log", "img_log", "optimizer*", "model_epoch001.pt")
        shutil.copytree(config.run_dir, target, dirs_exist_ok=True, ignore=keep)
        text = (target / "config.yml").read_text()
        (target / "config.yml").write_text(text.replace(str(folder), "data").replace(scratch, "runs"))
    return config


def written(folder, runs=RUNS):
    """Each run with an input in units, and what neuralhydrology predicts for it in units."""
    import torch
    from neuralhydrology.datasetzoo import get_dataset
    from neuralhydrology.datautils.utils import load_scaler
    from neuralhydrology.modelzoo import get_model

    with tempfile.TemporaryDirectory() as scratch:
        days = Path(scratch) / "data"
        data(days)
        for name, given in runs.items():
            config = trained(days, given, folder / name)
            config.update_config({"run_dir": str(folder / name)})
            scaler = load_scaler(folder / name)
            basins = {}
            if config.use_basin_id_encoding:
                lines = (folder / name / "train_data" / "id_to_int.yml").read_text().splitlines()
                basins = {line.split(": ")[0]: int(line.split(": ")[1]) for line in lines}
            dataset = get_dataset(config, False, "test", basin="south", scaler=scaler, id_to_int=basins)
            sample = dataset.collate_fn([dataset[3]])
            network = get_model(config)
            network.load_state_dict(torch.load(folder / name / "model_epoch002.pt", weights_only=True))
            with torch.no_grad():
                y = network.eval()(sample)["y_hat"][0].numpy()

            def of(key, names, scaler=scaler):
                return np.array([float(scaler[key][one]) for one in names], np.float32)

            series = np.concatenate([sample["x_d"][one][0].numpy() for one in FORCINGS], axis=1)
            series = series * of("xarray_feature_scale", FORCINGS) + of("xarray_feature_center", FORCINGS)
            y = y * of("xarray_feature_scale", TARGETS) + of("xarray_feature_center", TARGETS)
            x = {"x_d": series.tolist()}
            if given.get("static_attributes"):
                x["x_s"] = [70.0, 2.5] + [float(basins["south"] == k) for k in range(len(basins))]
            yield name, {"load": {}, "x": x, "scores": (y if config.predict_last_n > 1 else y[-1]).tolist()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "expected.json").write_text(json.dumps(dict(written(folder)), indent=1) + "\n")


if __name__ == "__main__":
    main()
