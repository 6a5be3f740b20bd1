"""Train networks with pytorch-forecasting itself, on a few made-up series, and keep what they forecast.

python -m tests.interop.forecasting tests/fixtures/forecasting
"""

import argparse
import json
import logging
import warnings
from pathlib import Path

import numpy as np

NETWORKS = ("RecurrentNetwork", "DeepAR")
ENCODER = 8  # rows before the forecast
KEPT = ("state_dict", "hyper_parameters", "pytorch-lightning_version")  # of a checkpoint, in a fixture


def frame():
    """Three series: a target, a covariate, a day of the week and a size."""
    import pandas as pd

    rng, rows = np.random.default_rng(0), []
    for number, series in enumerate("abc"):
        for t in range(30):
            y = 10 + 5 * np.sin(t / 5) + rng.normal()
            rows.append({"series": series, "t": t, "y": y, "temperature": 20 + 3 * np.cos(t / 7),
                         "size": 1.0 + number, "day": f"day {t % 7}"})  # fmt: skip
    return pd.DataFrame(rows)


def trained(kind, normalizer, path, **settings):
    """Train a network for a few steps and save its checkpoint; inputs of the library, and what it gives for them."""
    import lightning.pytorch as lightning
    import pytorch_forecasting
    import torch

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    lightning.seed_everything(0)
    data = pytorch_forecasting.TimeSeriesDataSet(
        frame(), time_idx="t", target="y", group_ids=["series"], max_encoder_length=ENCODER, max_prediction_length=2,
        static_categoricals=["series"], static_reals=["size"], time_varying_known_categoricals=["day"],
        time_varying_known_reals=["temperature"], time_varying_unknown_reals=["y"], target_normalizer=normalizer,
        add_relative_time_idx=True,
    )  # fmt: skip
    settings = {"hidden_size": 4, "rnn_layers": 2, "logging_metrics": torch.nn.ModuleList(), **settings}
    network = getattr(pytorch_forecasting, kind).from_dataset(data, **settings)
    trainer = lightning.Trainer(
        max_steps=3, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        accelerator="cpu",
    )  # fmt: skip
    trainer.fit(network, data.to_dataloader(train=True, batch_size=8))
    trainer.save_checkpoint(path)
    x, _ = next(iter(data.to_dataloader(train=False, batch_size=4)))
    network.eval()
    with torch.no_grad():
        given = {key: value.clone() for key, value in x.items() if hasattr(value, "clone")}
        forecast = network(given).prediction
    rows = {key: torch.cat([x[f"encoder_{key}"], x[f"decoder_{key}"]], 1).numpy() for key in ("cont", "cat")}
    return rows, x["target_scale"].numpy(), forecast.numpy()


def main():
    """Write the fixtures."""
    import torch
    from pytorch_forecasting.data.encoders import TorchNormalizer

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder, expected = parser.parse_args().folder, {}
    for kind in NETWORKS:
        path = folder / f"{kind}.ckpt"
        rows, scale, forecast = trained(kind, TorchNormalizer(), path, cell_type="GRU")
        saved = torch.load(path, weights_only=False)
        torch.save({key: saved[key] for key in KEPT}, path)
        expected[kind] = {"cont": rows["cont"][0], "cat": rows["cat"][0], "scale": scale[0], "forecast": forecast[0]}
    text = json.dumps(expected, default=lambda array: array.tolist(), indent=1)
    (folder / "expected.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
