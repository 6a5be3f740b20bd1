"""Why not captum or SHAP? The same LSTM explained by each of them, by its own code.

    python -m benchmarks.peers                  the table of the README (extra `bench`; about two minutes)

The network is a risk score: an LSTM of 32 units reads 48 hours of 8 measurements. In the data the risk rises with the
lactate of the last hours and falls with the blood pressure. It is trained from a seed.
An explanation with a reference claims f(x) - f(reference), so its parts must add up to this difference: here the
reference is zero, the mean of every measurement. GradientExplainer and DeepExplainer take 50 records as references.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import lrpnumpy as lrp

HOURS, NAMES = (
    48,
    ("heart rate", "blood pressure", "temperature", "lactate", "oxygen", "sodium", "glucose", "platelets"),
)
PRESSURE, LACTATE = NAMES.index("blood pressure"), NAMES.index("lactate")
RECORDS, REFERENCES, TRAINED = 100, 50, 1500
ROUNDING = 1e-5  # of the score difference: what float32 may miss


def drawn(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Records (count, HOURS, 8), slowly varying and scaled, and whether each patient falls ill."""
    noise = rng.normal(size=(count, HOURS, len(NAMES)))
    x = np.empty_like(noise)
    x[:, 0] = noise[:, 0]
    for t in range(1, HOURS):
        x[:, t] = 0.9 * x[:, t - 1] + np.sqrt(1 - 0.81) * noise[:, t]
    risk = 3 * x[:, -8:, LACTATE].mean(axis=1) - 1.5 * x[:, -8:, PRESSURE].mean(axis=1)
    return x.astype(np.float32), (rng.random(count) < 1 / (1 + np.exp(-risk))).astype(np.float32)


def trained(seed: int = 0) -> Any:
    """The network, trained until it separates the two outcomes."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    torch.set_num_threads(1)

    class Risk(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(len(NAMES), 32, batch_first=True)
            self.head = nn.Linear(32, 1)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(x)[0][:, -1])

    x, y = (torch.from_numpy(part) for part in drawn(np.random.default_rng(seed), TRAINED))
    network = Risk()
    optimizer = torch.optim.Adam(network.parameters(), 5e-3)
    for _ in range(25):
        for part in torch.randperm(TRAINED).split(100):
            optimizer.zero_grad()
            nn.functional.binary_cross_entropy_with_logits(network(x[part])[:, 0], y[part]).backward()
            optimizer.step()
    return network.eval()


class Row(NamedTuple):
    """What one library did."""

    name: str
    outcome: str
    seconds: float | None = None

    def cells(self) -> str:
        """The row of the table."""
        took = "" if self.seconds is None else f"{self.seconds:.2g} s"
        return f"| {self.name} | {self.outcome} | {took} |"


def judged(name: str, call: Callable[[], np.ndarray], wanted: np.ndarray) -> Row:
    """Run a library; its parts must add up to the differences `wanted` of the scores."""
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()  # warm up
            began = time.perf_counter()
            parts = call()
            took = time.perf_counter() - began
        except Exception as error:
            message = " ".join(str(error).split()).split("! ")[0]
            return Row(name, f"{type(error).__name__}: {message[:100]}")
    missed = abs(parts.sum(axis=(1, 2)) - wanted).sum() / abs(wanted).sum()
    if missed > ROUNDING:
        return Row(name, f"no error, but the parts miss the score difference by {100 * missed:.0f} % on average", took)
    return Row(name, f"the parts add up to the score difference, to {missed:.1e} of it", took)


def rows() -> list[Row]:
    """Every library on the same records."""
    import shap
    import torch
    from captum import attr

    network = trained()
    rng = np.random.default_rng(1)
    x, references = drawn(rng, RECORDS)[0], drawn(rng, REFERENCES)[0]
    given, several = torch.from_numpy(x), torch.from_numpy(references)
    with torch.no_grad():
        scores = network(given)[:, 0].numpy()
        to_zero = scores - float(network(0 * given[:1])[0, 0])
        to_several = scores - float(network(several).mean())
    model = lrp.from_torch(network)

    def captum(kind: Any) -> Callable[[], np.ndarray]:
        explainer = kind(network)
        if kind is attr.LRP:
            return lambda: explainer.attribute(given, target=0).detach().numpy()
        return lambda: explainer.attribute(given, baselines=0 * given, target=0).detach().numpy()

    def by_shap(kind: Any) -> Callable[[], np.ndarray]:
        return lambda: np.asarray(kind(network, several).shap_values(given)).reshape(x.shape)

    def ours(**options: Any) -> Callable[[], np.ndarray]:
        return lambda: np.stack([e.feature_relevance for e in lrp.explain_all(model, x, "deeplift", **options)])

    return [
        judged("captum `LRP`", captum(attr.LRP), scores),
        judged("captum `DeepLift`", captum(attr.DeepLift), to_zero),
        judged(f"shap `DeepExplainer`, {REFERENCES} references", by_shap(shap.DeepExplainer), to_several),
        judged(f"shap `GradientExplainer`, {REFERENCES} references", by_shap(shap.GradientExplainer), to_several),
        judged("**lrpnumpy `deeplift`**", ours(), to_zero),
        judged(f"**lrpnumpy `deeplift`**, {REFERENCES} references", ours(reference=[*references]), to_several),
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    print(f"| {RECORDS} records of one LSTM | result | time |", "| --- | --- | --- |", sep="\n")
    for row in rows():
        print(row.cells())


if __name__ == "__main__":
    main()
