"""Networks whose program is known: which methods find the steps that decide, and which find what the steps add.

    python -m benchmarks.truth.programs                 # 1,080 networks
    python -m benchmarks.truth.programs --seeds 2       # a tenth of them

Nine programs, two cells, three sizes and 20 seeds, 10 inputs per network. "steps" is the area under the ROC curve of
|relevance| for the steps that decide (0.5 is chance), "values" the correlation of relevance with what each step adds to
the score, for the programs that are linear (0 is chance). Shapley values are exponential in the steps: they are
computed for the first SHAPLEY_SEEDS seeds and the first SHAPLEY_INPUTS inputs per network.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import lrpnumpy as lrp
from benchmarks.truth.table import Table
from lrpnumpy.evaluate import programs
from lrpnumpy.evaluate.programs import CELLS, PROGRAMS, SIZES, Drawn, ProgramNetwork
from lrpnumpy.methods import METHODS

SEEDS, INPUTS = 20, 10
SHAPLEY_SEEDS, SHAPLEY_INPUTS = 3, 3
METHOD_NAMES = [name for name in METHODS if name != "occlusion-p"]  # it needs a probability; these have a score
RANDOM, TRUE = "random", "the truth"
ALL = "all"

Key = tuple[str, str, str, int]  # program, cell, size, seed


def relevance(network: ProgramNetwork, drawn: Drawn, method: str, number: int = 0) -> list[Any]:
    """One relevance for each input; `number` decides what is drawn at random."""
    if method == RANDOM:
        rng = np.random.default_rng((number, 1))
        return [rng.normal(size=len(x)) for x in drawn.inputs]
    if method == TRUE:
        return drawn.values or drawn.steps
    if method == "shapley":
        return [lrp.explain(network.model, x, method, 0, players=len(x)) for x in drawn.inputs]
    options: dict[str, Any] = {}
    if method == "integrated-gradients":
        options["gap"] = 1e-3
    return list(lrp.explain_all(network.model, drawn.inputs, method, 0, **options))


def measure(keys: list[Key], methods: list[str]) -> tuple[dict[tuple[str, Key], programs.Score], dict[str, float]]:
    """The score of every method on every network, and the seconds that each method took."""
    found, seconds = {}, defaultdict[str, float](float)
    for number, key in enumerate(tqdm(keys, "networks", leave=False)):
        network, seed = programs.make(*key), key[-1]
        drawn = network.draw(INPUTS, seed)
        for method in methods:
            some = drawn
            if method == "shapley":
                if seed >= SHAPLEY_SEEDS:
                    continue
                values = drawn.values
                if values is not None:
                    values = values[:SHAPLEY_INPUTS]
                some = Drawn(drawn.inputs[:SHAPLEY_INPUTS], drawn.steps[:SHAPLEY_INPUTS], values)
            began = time.perf_counter()
            each = relevance(network, some, method, number)
            seconds[method] += time.perf_counter() - began
            found[method, key] = programs.judge(some, each)
    return found, seconds


def tables(found: dict[tuple[str, Key], programs.Score], methods: list[str]) -> list[Table]:
    """By program and by cell and size: a value of a seed is the mean over its networks."""
    linear = [
        name for name in PROGRAMS if any(key[0] == name and not np.isnan(s.values) for (_, key), s in found.items())
    ]
    return [
        _table("Programs: steps", "steps", (*PROGRAMS, ALL), found, methods),
        _table("Programs: values", "values", (*linear, ALL), found, methods),
        _table("Programs: steps by cell and size", "steps", (*CELLS, *SIZES), found, methods),
        _table("Programs: values by cell and size", "values", (*CELLS, *SIZES), found, methods),
    ]


def _table(title: str, what: str, columns: tuple[str, ...], found: Any, methods: list[str]) -> Table:
    table = Table(title, columns)
    for method in methods:
        mine = {key: getattr(one, what) for (name, key), one in found.items() if name == method}
        for column in columns:
            seeds = defaultdict(list)
            for key, value in mine.items():
                if (column == ALL or column in key) and not np.isnan(value):
                    seeds[key[-1]].append(value)
            table.add(method, column, [np.mean(values) for values in seeds.values()])
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"networks of each kind ({SEEDS})")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for tables and figures (results)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", lrp.RelevanceWarning)
    methods = [*METHOD_NAMES, RANDOM, TRUE]
    keys = [
        (name, cell, size, seed)
        for name in PROGRAMS
        for cell in CELLS
        for size in SIZES
        for seed in range(arguments.seeds)
    ]
    found, seconds = measure(keys, methods)
    for table in tables(found, methods):
        table.print()
        table.write(arguments.out)
    print(", ".join(f"{name} {taken:.1f} s" for name, taken in seconds.items()))


if __name__ == "__main__":
    main()
