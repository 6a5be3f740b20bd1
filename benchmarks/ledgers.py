"""Does every ledger add up, or is the user warned: 20,000 explanations of random networks by default.

    python -m benchmarks.ledgers [--calls N] [--seed N]

Networks are float32 and float64, of every cell, one or two layers, one or two directions, with weights of up to five
times the usual size; rules, eps, targets and `versus` are drawn, too. A gap is what the ledger misses of the explained
score, relative to |f_target|, or |f_target - f_versus|. The number that counts is the worst gap among calls without a
warning.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import lrpnumpy as lrp
from lrpnumpy.kernels import compile as kernels
from lrpnumpy.methods import METHODS

RULES = [name for name, method in METHODS.items() if method.kind == "lrp"]
EPS = (0.0, 1e-6, 0.001, 0.2)
CELLS = {"LSTM": 4, **{name: gates for name, gates in (("GRU", 3), ("RNN", 0)) if hasattr(lrp, name)}}  # gates
LIMIT = 0.01  # the gap that no call without a warning may have


class Call(NamedTuple):
    """What one call of `explain` gave."""

    number: int
    dtype: str
    method: str
    eps: float
    warned: bool
    again: bool  # computed again in float64
    gap: float
    escaped: float  # by how much the relevance of a variable exceeds the `largest` of its ledger, relative to that


def cell(rng: np.random.Generator, D: int, H: int, size: float) -> Any:
    name = str(rng.choice(list(CELLS)))
    gates = (CELLS[name],) if CELLS[name] else ()
    U, W = rng.normal(size=(*gates, H, D)) * size, rng.normal(size=(*gates, H, H)) * size / np.sqrt(D + H)
    return getattr(lrp, name)(U / np.sqrt(D), W, rng.normal(size=(*gates, H)) * size if rng.random() < 0.7 else None)


def network(rng: np.random.Generator, dtype: str) -> lrp.Model:
    size = rng.uniform(0.5, 5)
    width = int(rng.integers(1, 13))
    layers: list[Any] = []
    for _ in range(rng.integers(1, 3)):
        H = int(rng.integers(1, 13))
        if rng.random() < 0.5:
            merge = str(rng.choice(["concat", "sum", "mean"]))
            layers.append(lrp.Bidirectional(cell(rng, width, H, size), cell(rng, width, H, size), merge))
        else:
            layers.append(cell(rng, width, H, size))
        width = layers[-1].outputs
    d = rng.normal(size=3) if rng.random() < 0.7 else None
    layers.append(lrp.Dense(rng.normal(size=(3, width)) / np.sqrt(width), d))
    return lrp.Model(layers, readout=str(rng.choice(["last", "mean", "max", "last-row"]))).astype(dtype)


def survey(calls: int, seed: int = 0) -> Iterator[Call]:
    """A number of calls, each with its own network."""
    for number in range(calls):
        rng = np.random.default_rng([seed, number])
        dtype, method, eps = str(rng.choice(["float32", "float64"])), str(rng.choice(RULES)), float(rng.choice(EPS))
        model = network(rng, dtype)
        x = rng.normal(size=(int(rng.integers(1, 15)), model.input_size))
        target, versus = (int(c) for c in rng.permutation(3)[:2])
        against = versus if rng.random() < 0.25 else None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = lrp.explain(model, x, method, target, eps=eps, versus=against)
        f = found.scores.astype(np.float64)
        explained = f[target]
        if against is not None:
            explained -= f[against]
        gap = abs(float(found.ledger.total) - explained) / max(abs(explained), np.finfo(dtype).tiny)
        largest = float(found.ledger.largest)
        with np.errstate(all="ignore"):
            escaped = (float(np.abs(found.feature_relevance).max()) - largest) / max(largest, np.finfo(dtype).tiny)
        yield Call(number, dtype, method, eps, bool(caught), "in_float64" in vars(model), gap, escaped)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    kernels.mode = "wait"  # a thread that compiles would get some of the warnings that are counted here
    began = time.perf_counter()
    calls = list(survey(arguments.calls, arguments.seed))
    silent = [call for call in calls if not call.warned]
    worst = max(silent, key=lambda call: call.gap)
    escaped = max((call for call in calls if np.isfinite(call.escaped)), key=lambda call: call.escaped)
    print(f"{len(calls)} calls in {time.perf_counter() - began:.0f} s")
    for dtype in ("float32", "float64"):
        some = [call for call in calls if call.dtype == dtype]
        unwarned = max((call.gap for call in some if not call.warned), default=0.0)
        print(
            f"{dtype}: {len(some)} calls, {sum(call.warned for call in some)} warned, "
            f"{sum(call.again for call in some)} computed again in float64, worst gap without a warning {unwarned:.2g}"
        )
    print(f"worst gap without a warning: {worst.gap:.2g} ({worst.dtype}, {worst.method}, eps {worst.eps:g})")
    print(f"without a warning and over {LIMIT:.0%}: {sum(call.gap > LIMIT for call in silent)}")
    print(f"relevance of a variable beyond the ledger's largest: at most {max(escaped.escaped, 0):.2g} of it")
    return int(worst.gap > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
