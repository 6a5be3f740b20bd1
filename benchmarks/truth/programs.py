"""Networks whose program is known: which methods find the steps that decide, and which find what the steps add.

    python -m benchmarks.truth programs                 # 1,080 networks
    python -m benchmarks.truth programs --seeds 2       # a tenth of them

Nine programs, two cells, three sizes and 20 seeds, 10 inputs per network. "steps" is the area under the ROC curve of
|relevance| for the steps that decide (0.5 is chance), "values" the correlation of relevance with what each step adds to
the score, for the programs that are linear (0 is chance). Shapley values are exponential in the steps: they are
computed for the first SHAPLEY_SEEDS seeds and the first SHAPLEY_INPUTS inputs per network.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

import lrpnumpy as lrp
from benchmarks.truth.rows import Rows
from benchmarks.truth.table import Table
from lrpnumpy.evaluate import programs
from lrpnumpy.evaluate.programs import CELLS, PROGRAMS, SIZES, Drawn, ProgramNetwork
from lrpnumpy.methods import METHODS

SEEDS, INPUTS = 20, 10
SHAPLEY_SEEDS, SHAPLEY_INPUTS = 3, 3
METHOD_NAMES = [name for name in METHODS if name != "occlusion-p"]  # it needs a probability; these have a score
RANDOM, TRUE = "random", "the truth"
ALL = "all"
KEYS = [(name, cell, size) for name in PROGRAMS for cell in CELLS for size in SIZES]

Job = tuple[int, str]  # seed, "ours"
Key = tuple[str, str, str]  # program, cell, size


def relevance(network: ProgramNetwork, drawn: Drawn, method: str, number: Any) -> list[Any]:
    """One relevance for each input; `number` decides what is drawn at random."""
    if method == RANDOM:
        rng = np.random.default_rng(number)
        return [rng.normal(size=len(x)) for x in drawn.inputs]
    if method == TRUE:
        return drawn.values or drawn.steps
    if method == "shapley":
        return [lrp.explain(network.model, x, method, 0, players=len(x)) for x in drawn.inputs]
    options: dict[str, Any] = {}
    if method == "integrated-gradients":
        options["gap"] = 1e-3
    return list(lrp.explain_all(network.model, drawn.inputs, method, 0, **options))


def jobs(arguments: Any) -> list[Job]:
    """The networks of one seed are one job. They are constructed, not trained; peers need trained networks of torch."""
    return [(seed, "ours") for seed in range(arguments.seeds or SEEDS)]


def work(job: Job, arguments: Any) -> dict[str, Rows]:
    """Every method on all networks of a seed: network -> method -> column -> value."""
    seed = job[0]
    return {" / ".join(key): measure(key, seed, number) for number, key in enumerate(KEYS)}


def measure(key: Key, seed: int, number: int) -> Rows:
    """Every method on one network."""
    network, rows = programs.make(*key, seed), {}
    every = network.draw(INPUTS, seed)
    for method in (*METHOD_NAMES, RANDOM, TRUE):
        drawn = every
        if method == "shapley":
            if seed >= SHAPLEY_SEEDS:
                continue
            values = every.values
            if values is not None:
                values = values[:SHAPLEY_INPUTS]
            drawn = Drawn(every.inputs[:SHAPLEY_INPUTS], every.steps[:SHAPLEY_INPUTS], values)
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lrp.RelevanceWarning)
            found = relevance(network, drawn, method, (seed, number, 1))
        seconds = time.process_time() - began
        rows[method] = programs.judge(drawn, found)._asdict() | {"ms": 1000 * seconds / len(drawn.inputs)}
    return rows


def tables(results: dict[Job, dict[str, Rows]]) -> list[Table]:
    """By program and by cell and size: a value of a seed is the mean over its networks."""
    networks = list(results.values())
    linear = [name for name in PROGRAMS if any(_values([rows], name, TRUE, "values") for rows in networks)]
    return [
        _table("Programs: steps", "steps", (*PROGRAMS, ALL), networks),
        _table("Programs: values", "values", (*linear, ALL), networks),
        _table("Programs: steps by cell and size", "steps", (*CELLS, *SIZES), networks),
        _table("Programs: values by cell and size", "values", (*CELLS, *SIZES), networks),
        _table("Programs, cost", "ms", (ALL,), networks),
    ]


def _table(title: str, what: str, columns: tuple[str, ...], seeds: list[dict[str, Rows]]) -> Table:
    table = Table(title, columns)
    for method in (*METHOD_NAMES, RANDOM, TRUE):
        for column in columns:
            table.add(method, column, _values(seeds, column, method, what))
    return table


def _values(seeds: list[dict[str, Rows]], column: str, method: str, what: str) -> list[float]:
    """One value for each seed that has one: the mean over its networks in a column."""
    out = []
    for networks in seeds:
        values = [
            rows[method][what]
            for key, rows in networks.items()
            if (column == ALL or column in key.split(" / ")) and method in rows
        ]
        if not np.isnan(values).all():
            out.append(float(np.nanmean(values)))
    return out
