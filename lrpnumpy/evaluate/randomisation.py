"""Randomization: an explanation that stays the same when the weights are random does not explain the network.

Layers get random weights from the top down, one more each time, and each time the relevance is compared with that of
the trained network (Adebayo et al. 2018).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from lrpnumpy.evaluate.case import Case, Values
from lrpnumpy.evaluate.correlation import spearman
from lrpnumpy.layers.base import Record
from lrpnumpy.model import Model


def measure(case: Case) -> Values:
    """Rank correlation with the relevance of the trained network, as its size, mean over the layers."""
    models = [*cascade(case.model, np.random.default_rng((case.seed[0], 2)))]
    found = np.array(
        [
            [abs(spearman(found.steps, case.explain(one, model).steps)) for model in models]
            for one, found in zip(case.explainers, case.found, strict=True)
        ]
    )  # (M, layers, n)
    return {"randomisation": (found.mean(axis=1), np.ones(len(case.x)))}


def cascade(model: Model, rng: np.random.Generator) -> list[Model]:
    """The model with the weights of its last layer replaced, of its last two, and so on to the first."""
    out: list[Model] = []
    for k in range(len(model.layers) - 1, -1, -1):
        model = out[-1] if out else model
        old = model.layers[k]
        if any(True for _ in old.all_arrays()):
            new = randomized(old, rng)
            out.append(model._with(partial(_swapped, old, new)))
    return out


def _swapped(old: Record, new: Record, record: Any) -> Any:
    return new if record is old else record


def randomized(record: Record, rng: np.random.Generator) -> Record:
    """A layer with normal numbers as large as its own, on the average, in the place of every weight."""
    new = {
        name: rng.normal(0, np.sqrt(np.mean(array**2)), array.shape).astype(array.dtype)
        for name, array in record.arrays()
    }
    return replace(record, **new, **{name: randomized(part, rng) for name, part in record.parts()})
