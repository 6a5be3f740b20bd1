"""Ground truth: networks of which it is known what decides, LSTM and GRU.

Two kinds of networks. The paper's addition and subtraction, with bundled networks that were trained: two steps decide,
and their relevance should follow their numbers (`evaluate.toy`). And networks whose weights are constructed from a
program (`evaluate.programs`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError
from lrpnumpy.evaluate import programs, toy
from lrpnumpy.evaluate.agreement import pearson
from lrpnumpy.evaluate.case import Explainer, Values
from lrpnumpy.files import load
from lrpnumpy.model import Model

NETWORKS = 5  # trained ones, of each task and cell
SEQUENCES = 100  # for each network
SHIPPED = {"LSTM": "toy", "GRU": "toy-gru"}  # files of trained networks


class Task(NamedTuple):
    """A network, sequences, and what is right."""

    name: str
    model: Model
    sequences: list[np.ndarray]
    steps: list[np.ndarray]  # (T,) whether a step decides
    values: list[np.ndarray] | None  # (T,) the relevance that is right, up to a factor; None where it is not known
    features: tuple[int, ...] | None = None  # the columns that decide, where not all do


def measure(explainers: list[Explainer], seed: int) -> Values:
    """For each network: the share of relevance at the steps that decide, its correlation with what is right, and the
    share at the features that decide.
    """
    every = tasks(seed)
    found = np.full((3, len(explainers), len(every)), np.nan)
    for n, task in enumerate(every):
        steps = np.concatenate(task.steps)
        for m, one in enumerate(explainers):
            try:
                relevance = np.concatenate(one(task.model, task.sequences, 0, "step", None).each)
            except LrpError:  # it cannot explain this network: it needs a probability, or has options for another one
                continue
            relevance[abs(relevance) <= programs.NOTHING] = 0
            found[0, m, n] = share(relevance, steps)
            if task.values is not None:
                found[1, m, n] = pearson(relevance, np.concatenate(task.values))
            if task.features is not None and one.has_variables:
                by_feature = one(task.model, task.sequences, 0, "feature", None).each
                found[2, m, n] = share(np.array(by_feature), np.isin(np.arange(task.model.input_size), task.features))
    known = {
        "steps": [True] * len(every),
        "values": [task.values is not None for task in every],
        "features": [task.features is not None for task in every],
    }
    return {name: (part[:, of], np.ones(sum(of))) for part, (name, of) in zip(found, known.items(), strict=True)}


def share(relevance: np.ndarray, right: np.ndarray) -> float:
    """Of the magnitudes, how much lies where it should: relevance (..., K), right (K,) or of the same shape."""
    sizes = abs(relevance)
    total = sizes.sum()
    return float((sizes * right).sum() / total) if total > 0 else 0.0


def tasks(seed: int = 0) -> list[Task]:
    """All networks with their sequences."""
    out = []
    for task in toy.TASKS:
        data = toy.generate(task, SEQUENCES, toy.SPLITS["test"][1], (seed, toy.TASKS.index(task)))
        right = [x[:, 0].copy() for x in data.sequences]
        for one, b in zip(right, data.b, strict=True):
            one[b] *= 1 if task == "addition" else -1
        steps = [one != 0 for one in right]
        for cell, file in SHIPPED.items():
            models = [load(file, which=f"{task}/{k}") for k in range(NETWORKS)]
            out += [Task(f"{task}, {cell}", model, list(data.sequences), steps, right) for model in models]
    for name in programs.PROGRAMS:
        for cell in programs.CELLS:
            network = programs.make(name, cell, seed=seed)
            out.append(Task(f"{name}, {cell}", network.model, *network.draw(SEQUENCES, seed), network.features))
    return out
