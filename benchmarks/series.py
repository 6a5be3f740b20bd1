"""Numbers at scale: summaries of a million stored explanations, every step of a year, every window of a series.

    python -m benchmarks.series [--explanations N] [--folder DIR]

The explanations, of 20 steps and 5 features, are made by explain_corpus with a small network and stored with a column
of four seasons; a summary by season is computed in a separate process, whose peak memory is printed. Every step of a
year is 365 predictions of an LSTM of 64 units by lrp-all, T x T x D relevances; every window is 500 of 365 steps. Each
is run five times after a warm-up, and the best time counts.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import lrpnumpy as lrp
from benchmarks.corpus import apart
from benchmarks.speed.timing import peak_memory

T, D, H = 20, 5, 8  # of the stored explanations
YEAR, UNITS, WINDOWS = 365, 64, 500
SEASONS = ("winter", "spring", "summer", "autumn")


def network(units: int, readout: Any) -> lrp.Model:
    rng = np.random.default_rng(1)

    def array(*shape: int) -> np.ndarray:
        return rng.normal(scale=0.3, size=shape).astype(np.float32)

    cell = lrp.LSTM(array(4, units, D), array(4, units, units), array(4, units))
    return lrp.Model((cell, lrp.Dense(array(1, units), array(1))), readout=readout, output_unit="mm")


def stored(folder: Path, count: int) -> Path:
    """A folder with this number of explanations."""
    values = np.random.default_rng(2).normal(size=(count, T, D)).astype(np.float32)
    np.savez(folder / "series.npz", values=values)
    seasons = [SEASONS[k % 4] for k in range(count)]
    output = lrp.Output(folder / "out", columns={"season": seasons})
    return lrp.explain_corpus(network(H, "last"), folder / "series.npz", out=output, unit="feature").path


def summarized(path: str) -> dict[str, float]:
    """Seconds and memory of a summary, and whether the groups are all there."""
    start = time.perf_counter()
    found = lrp.open_explanations(path)
    count, summary = len(found), found.summary("season")
    assert summary.counts.sum() == count and {*summary.groups} <= {*SEASONS} and summary.mean.shape[1:] == (T, D)
    return {"seconds": time.perf_counter() - start, "memory": peak_memory()}


def best(work: Callable[[], Any]) -> float:
    """The least of five times, in seconds."""
    work()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--explanations", type=int, default=1_000_000)
    parser.add_argument("--folder", help="where the files go; needs about 2 GB for a million explanations")
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, NumPy {np.__version__}, "
          f"load {os.getloadavg()[0]:.1f}")  # fmt: skip
    x = np.random.default_rng(3).normal(size=(YEAR + WINDOWS - 1, D))
    for dtype in ("float32", "float64"):
        every, last = (network(UNITS, readout).astype(dtype) for readout in ("every", "last"))
        size = " x ".join(map(str, lrp.explain(every, x[:YEAR], step="all").stacked().shape))
        steps, windows = (
            best(lambda: lrp.explain(every, x[:YEAR], step="all")),  # noqa: B023
            best(lambda: lrp.explain_windows(last, x, length=YEAR)),  # noqa: B023
        )
        print(f"{dtype}: every step, {size}, in {steps:.2f} s; {WINDOWS} windows in {windows:.2f} s")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        start = time.perf_counter()
        path = stored(Path(folder), options.explanations)
        print(f"{options.explanations:,} explanations stored in {time.perf_counter() - start:.0f} s, "
              f"{path.stat().st_size / 1e6:,.0f} MB")  # fmt: skip
        found = apart(summarized, str(path))
        print(f"summary by season in {found['seconds']:.1f} s, peak memory {found['memory']:,.0f} MB")


if __name__ == "__main__":
    main()
