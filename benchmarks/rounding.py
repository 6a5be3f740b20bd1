"""How far compiled kernels and NumPy are apart: all methods on the same inputs, in float32.

    python -m benchmarks.rounding [--sentences N] [--seed N]

Sentences are random words of the bundled model, frequent ones more often, as in a text; series are windows of the
bundled river data. A number is the largest difference of any step of an input, in parts of its largest relevance; of
all inputs the median, the highest of a hundred and the largest are printed, after their count: first of those whose
explanations pass their evidence, then of the others. Inputs whose relevance lrpnumpy itself calls rounding (a
RelevanceWarning) do not count; the last column is how many those are.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

import lrpnumpy as lrp
from lrpnumpy.kernels import compile as kernels
from lrpnumpy.methods import COSTLY, METHODS


def sentences(model: lrp.Model, count: int, seed: int) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    often = 1 / np.arange(1, len(model.embedding.E))  # Zipf's law
    lengths = np.clip(rng.gamma(4, 5, count).astype(int), 5, 50)
    ids = [rng.choice(len(often), T, p=often / often.sum()) + 1 for T in lengths]
    return [[model.embedding.vocabulary[k] for k in one] for one in ids]


def windows(model: lrp.Model, count: int) -> list[np.ndarray]:
    """Windows of the river's data, evenly spaced."""
    table = lrp.sample("river")
    values = table.values[:, [table.features.index(name) for name in model.features]]
    starts = np.linspace(0, len(values) - model.window, count).astype(int)
    return [values[start : start + model.window] for start in starts]


def apart(one: lrp.Explanations, other: lrp.Explanations) -> np.ndarray:
    """(N,) largest difference of each input, in parts of its largest relevance."""
    parts = zip(one, other, strict=True)
    with np.errstate(all="ignore"):  # of those that do not count
        return np.array([abs(a.relevance - b.relevance).max() / abs(b.relevance).max() for a, b in parts])


def shown(values: np.ndarray) -> str:
    if not len(values):
        return f"{'-':>8s} {'-':>8s} {'-':>8s}"
    return f"{np.median(values):8.1e} {np.quantile(values, 0.99):8.1e} {values.max():8.1e}"


def compare(title: str, model: lrp.Model, inputs: Sequence[Any]) -> None:
    print(f"{title:22s}  {'pass their evidence':^33s}  {'fail':^33s}  unstable")
    for name in [name for name in METHODS if name not in COSTLY]:
        if name == "occlusion-p" and model.output == "linear":
            continue
        with kernels.on(kernels.COMPILED):
            compiled = lrp.explain_all(model, inputs, name, threads=1)
            passed = np.array([one.passed for one in compiled.evidence()])
        with kernels.on(kernels.NUMPY):
            plain = lrp.explain_all(model, inputs, name, compiled.targets, threads=1)
        counts = ~(compiled.doubtful() | plain.doubtful())
        found = apart(compiled, plain)
        cells = [f"{np.count_nonzero(some):4d}  {shown(found[some])}" for some in (passed & counts, ~passed & counts)]
        print(f"{name:22s}  {'    '.join(cells)}    {np.count_nonzero(~counts)} of {len(counts)}", flush=True)


def main() -> None:
    about: Any = {"description": __doc__, "formatter_class": argparse.RawDescriptionHelpFormatter}
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rounding", **about)
    parser.add_argument("--sentences", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore", lrp.RelevanceWarning)
    warnings.simplefilter("ignore", lrp.AssumptionWarning)
    model = lrp.load("sentiment")
    compare("sentiment", model, sentences(model, options.sentences, options.seed))
    model = lrp.load("river")
    compare("river", model, windows(model, options.sentences // 8))


if __name__ == "__main__":
    main()
