"""Why rows of State differ from the published ones: our networks and networks trained as time_interpret trains them.

time_interpret (Enguehard 2023) trains for 50 epochs of batches of 32 with a learning rate of 1e-4 on four fifths of the
training sequences, occludes by the mean of the training inputs at the same step, and scales the scores of each test
sequence by their largest one, where we scale all scores together. Each difference is a row or a table here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.truth import metrics, networks, pool, state
from benchmarks.truth.networks import Weights
from benchmarks.truth.rows import Rows, filled
from benchmarks.truth.state import COLUMNS, PUBLISHED, STEPS, TRAIN, Data, Prepared, generate, spec_of
from benchmarks.truth.table import Table

EPOCHS, BATCH, RATE = 50, 32, 1e-4
FOLD = 4 * TRAIN // 5  # sequences of a fold
SEEDS = 5
SEQUENCES = 40  # test sequences, of which every step is explained
AREAS = COLUMNS[:4]
EPS = 1e-5  # in the scaling of time_interpret
SCALED = " by sequence"
OUR_NETWORK, THEIR_NETWORK = "our training", "their training"
Job = tuple[int, str]  # seed, "train" or "ours"


def trained(seed: int, cache: Path) -> Weights:
    """The network of a seed, trained as time_interpret does."""
    data = generate(TRAIN, (seed, 0))

    def batches(rng: np.random.Generator):
        for some in np.split(rng.permutation(FOLD), FOLD // BATCH):
            stop = int(rng.integers(1, STEPS + 1))
            yield data.x[some, :stop], data.y[some, stop - 1]

    return networks.cached(
        cache / f"published-GRU-{seed}.npz",
        lambda: networks.train(spec_of("GRU"), seed, EPOCHS, batches, rate=RATE, decay=1e-3),
    )


def scaled_by_sequence(size: np.ndarray, sequences: int) -> np.ndarray:
    """Magnitudes (N T, 3) less their smallest and divided by their largest of each sequence."""
    rows = size.reshape(sequences, -1)
    rows = (rows - rows.min(axis=1, keepdims=True)) / (rows.max(axis=1, keepdims=True) + EPS)
    return rows.reshape(size.shape)


def measured(given: Prepared) -> dict[str, np.ndarray]:
    """Relevance of every step by the methods that have a published row."""
    return {
        "occlusion by zero": state.METHODS["occlusion-f"](given),
        "occlusion by the mean": state.METHODS["occlusion-f, mean"](given),
        "integrated gradients": state.METHODS["integrated-gradients"](given),
    }


def jobs(arguments: Any) -> list[Job]:
    """For each network its training and our methods."""
    return [(seed, side) for side in pool.SIDES[:2] for seed in range(arguments.seeds or SEEDS)]


def work(job: Job, arguments: Any) -> Rows:
    """The three methods on both networks of a seed."""
    seed, side = job
    theirs = trained(seed, arguments.cache)
    if side == "train":
        return {}
    spec, rows = spec_of("GRU"), {}
    data = Data(*(part[:SEQUENCES] for part in generate(state.TEST, (seed, 1))))
    truth = data.truth.reshape(-1, 3)
    every = {OUR_NETWORK: state.trained("GRU", seed, arguments.cache), THEIR_NETWORK: theirs}
    for name, weights in every.items():
        given = state.prepare(spec, weights, data)
        accuracy = float((given.targets == data.y).mean())
        for method, relevance in measured(given).items():
            size = abs(relevance)
            row: dict[str, Any] = {"accuracy": accuracy}
            for column, scores in (("", size), (SCALED, scaled_by_sequence(size, SEQUENCES))):
                areas = (*metrics.aup_aur(scores, truth), metrics.auroc(scores, truth), metrics.auprc(scores, truth))
                row |= {area + column: value for area, value in zip(AREAS, areas, strict=True)}
            rows[f"{method}, {name}"] = row
    return rows


def tables(results: dict[Job, Rows]) -> list[Table]:
    """One table: scores scaled together, as in the table of State, and by sequence."""
    columns = ["accuracy", *AREAS, *(area + SCALED for area in AREAS)]
    table = filled("State, published rows", columns, list(results.values()))
    for name in ("occlusion", "integrated gradients"):
        for area, value in zip(AREAS, PUBLISHED[name], strict=True):
            table.add(f"published: {name}", area + SCALED, [value])
    return [table]
