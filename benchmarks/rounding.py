"""How far rounding moves LRP in float32: compiled kernels, NumPy on whole arrays, and float64 on the same sentences.

    python -m benchmarks.rounding [--sentences N] [--seed N]

Sentences are random words of the bundled model, frequent ones more often, as in a text. A number is the largest
difference of any word of a sentence, in parts of that sentence's largest relevance; of all sentences the median, the
highest of a hundred and the largest are printed. Sentences whose relevance lrpnumpy itself calls rounding (a
RelevanceWarning) do not count; the last column is how many those are.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import lrpnumpy as lrp
from lrpnumpy.kernels import compile as kernels
from lrpnumpy.methods import METHODS

RULES = [name for name, method in METHODS.items() if method.kind == "lrp"]


def sentences(model: lrp.Model, count: int, seed: int) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    often = 1 / np.arange(1, len(model.embedding.E))  # Zipf's law
    lengths = np.clip(rng.gamma(4, 5, count).astype(int), 5, 50)
    ids = [rng.choice(len(often), T, p=often / often.sum()) + 1 for T in lengths]
    return [[model.embedding.vocabulary[k] for k in one] for one in ids]


def on_arrays(function: Callable[[], Any]) -> Any:
    """What a function gives where no kernel is compiled."""
    before = kernels.mode, [one.compiled for one in kernels.KERNELS]
    kernels.mode = "never"
    for one in kernels.KERNELS:
        one.compiled = {}
    try:
        return function()
    finally:
        kernels.mode = before[0]
        for one, compiled in zip(kernels.KERNELS, before[1], strict=True):
            one.compiled = compiled


def apart(one: lrp.Explanations, other: lrp.Explanations) -> np.ndarray:
    """(N,) largest difference of each sentence, in parts of its largest relevance."""
    parts = zip(one, other, strict=True)
    with np.errstate(all="ignore"):  # of those that do not count
        return np.array([abs(a.relevance - b.relevance).max() / abs(b.relevance).max() for a, b in parts])


def main() -> None:
    about: Any = {"description": __doc__, "formatter_class": argparse.RawDescriptionHelpFormatter}
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rounding", **about)
    parser.add_argument("--sentences", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    kernels.mode = "wait"
    warnings.simplefilter("ignore", lrp.RelevanceWarning)
    model = lrp.load("sentiment")
    words = sentences(model, asked.sentences, asked.seed)
    print(f"{'':10s}  {'compiled, arrays':^26s}  {'compiled, float64':^26s}  {'arrays, float64':^26s}")
    for rule in RULES:
        compiled = lrp.explain_all(model, words, rule, threads=1)
        targets = compiled.targets
        plain = on_arrays(lambda rule=rule, targets=targets: lrp.explain_all(model, words, rule, targets, threads=1))
        double = lrp.explain_all(model.astype("float64"), words, rule, targets, threads=1)
        counts = ~(compiled.doubtful() | plain.doubtful() | double.doubtful())
        cells = []
        for one, other in ((compiled, plain), (compiled, double), (plain, double)):
            found = apart(one, other)[counts]
            cells.append(f"{np.median(found):8.1e} {np.quantile(found, 0.99):8.1e} {found.max():8.1e}")
        print(f"{rule:10s}  {'  '.join(cells)}  {np.count_nonzero(~counts)} of {len(counts)}")


if __name__ == "__main__":
    main()
