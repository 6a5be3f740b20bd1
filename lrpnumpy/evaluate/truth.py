"""Ground truth: small networks of which it is known what decides, LSTM and GRU.

Two kinds of tasks. The paper's addition and subtraction, with networks that were trained and ship: two steps decide,
and their relevance should follow their numbers (`evaluate.toy`). And networks made by hand that keep one number: that
of the step where a mark stands. This step and two features alone decide; others move the gates, but not far enough to
matter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError
from lrpnumpy.evaluate import toy
from lrpnumpy.evaluate.agreement import pearson
from lrpnumpy.evaluate.case import Explainer, Values
from lrpnumpy.files import load
from lrpnumpy.layers import GRU, LSTM, Dense
from lrpnumpy.model import Model

NETWORKS = 5  # of each task and cell
SEQUENCES = 100  # for each network
SHIPPED = {"LSTM": "toy", "GRU": "toy-gru"}  # files of trained networks
VALUE, MARK, NOISE = 0, 1, (2, 3)  # columns of the task with a mark


class Task(NamedTuple):
    """A network, sequences, and what is right."""

    name: str
    model: Model
    sequences: list[np.ndarray]
    steps: list[np.ndarray]  # (T,) the relevance that is right, up to a factor
    features: tuple[int, ...] | None = None  # the columns that decide, where not all do


def measure(explainers: list[Explainer], seed: int) -> Values:
    """For each network: the share of relevance at the steps that decide, its correlation with what is right, and the
    share at the features that decide.
    """
    every = [*tasks(seed)]
    found = np.full((3, len(explainers), len(every)), np.nan)
    for n, task in enumerate(every):
        steps = np.concatenate(task.steps)
        for m, one in enumerate(explainers):
            try:
                relevance = np.concatenate(one(task.model, task.sequences, 0, "step", None).each)
            except LrpError:  # it cannot explain this network: it needs a probability, or has options for another one
                continue
            found[0, m, n] = share(relevance, steps != 0)
            found[1, m, n] = pearson(relevance, steps)
            if task.features is not None and one.has_variables:
                by_feature = one(task.model, task.sequences, 0, "feature", None).each
                found[2, m, n] = share(np.array(by_feature), np.isin(np.arange(task.model.inputs), task.features))
    has_features = np.array([task.features is not None for task in every])
    unit = np.ones(len(every))
    return {
        "steps": (found[0], unit),
        "values": (found[1], unit),
        "features": (found[2][:, has_features], unit[has_features]),
    }


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
        for cell, file in SHIPPED.items():
            models = [load(file, which=f"{task}/{k}") for k in range(NETWORKS)]
            out += [Task(f"{task}, {cell}", model, list(data.sequences), right) for model in models]
    for cell in SHIPPED:
        for k in range(NETWORKS):
            rng = np.random.default_rng((seed, k, 9))
            sequences, right = marked(rng)
            out.append(Task(f"mark, {cell}", decider(cell, rng), sequences, right, (VALUE, MARK)))
    return out


def marked(rng: np.random.Generator, count: int = SEQUENCES) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Sequences (T, 4) of numbers with a mark at one step, and what is right: the number there, 0 elsewhere."""
    sequences, right = [], []
    for T in rng.integers(6, 13, count):
        x = rng.uniform(-1, 1, (T, 4))
        x[:, MARK] = 0
        at = rng.integers(T)
        x[at, MARK] = 1
        sequences.append(x)
        right.append(np.where(np.arange(T) == at, x[:, VALUE], 0))
    return sequences, right


def decider(cell: str, rng: np.random.Generator, closed: float = 10.0) -> Model:
    """A network that gives back the number of the marked step. `closed` is the pre-activation of a closed gate."""
    gates = rng.normal(0, 1, (4 if cell == "LSTM" else 3, 1, 4))  # the other features move the gates a little
    gates[:, :, (VALUE, MARK)] = 0
    b, W = np.zeros(gates.shape[:2]), np.zeros((len(gates), 1, 1))
    head = Dense(np.array([[2.0]]))
    if cell == "LSTM":
        gates[0, 0, MARK], b[0] = 2 * closed, -closed  # i opens at the mark
        b[1] = b[3] = closed  # f and o are open
        gates[2], gates[2, 0, VALUE] = 0, 0.5  # g is the number
        return Model((LSTM(gates, W, b), head))
    gates[0, 0, MARK], b[0] = -2 * closed, closed  # z keeps the state, but at the mark
    gates[2], gates[2, 0, VALUE] = 0, 0.5
    return Model((GRU(gates, W, b), head))
