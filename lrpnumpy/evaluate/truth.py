"""Ground truth: networks whose weights are constructed from programs, so it is known what decides."""

from __future__ import annotations

import numpy as np

from lrpnumpy.checks import LrpError
from lrpnumpy.evaluate import programs
from lrpnumpy.evaluate.case import Explainer, Values
from lrpnumpy.evaluate.correlation import pearson

NETWORKS = 2  # of each program and cell
SEQUENCES = 100  # for each network


def measure(explainers: list[Explainer], seed: int) -> Values:
    """For each network: the share of relevance at the steps that decide, its correlation with what is right, and the
    share at the features that decide.
    """
    every = tasks(seed)
    found = np.full((3, len(explainers), len(every)), np.nan)
    for n, (network, drawn) in enumerate(every):
        steps = np.concatenate(drawn.steps)
        reads = np.isin(np.arange(network.model.input_size), network.features)
        for m, explainer in enumerate(explainers):
            try:
                got = explainer(network.model, drawn.inputs, {"target": 0}, explainer.has_features)
            except LrpError:  # it cannot explain this network: it needs a probability, or has options for another one
                continue
            relevance = np.concatenate(got.steps)
            relevance[abs(relevance) <= programs.NOTHING] = 0
            found[0, m, n] = share(relevance, steps)
            if drawn.values is not None:
                found[1, m, n] = pearson(relevance, np.concatenate(drawn.values))
            if got.values is not None:
                found[2, m, n] = share(np.array([one.sum(axis=0) for one in got.values]), reads)
    linear = np.array([drawn.values is not None for _, drawn in every])
    return {
        "true_steps": (found[0], np.ones(len(every))),
        "true_values": (found[1][:, linear], np.ones(linear.sum())),
        "true_features": (found[2], np.ones(len(every))),
    }


def share(relevance: np.ndarray, right: np.ndarray) -> float:
    """Of the magnitudes, how much lies where it should: relevance (..., K), right (K,) or of the same shape."""
    sizes = abs(relevance)
    total = sizes.sum()
    return float((sizes * right).sum() / total) if total > 0 else 0.0


def tasks(seed: int = 0) -> list[tuple[programs.ProgramNetwork, programs.Drawn]]:
    """All networks, each with sequences and what is right about them."""
    out = []
    for name in programs.PROGRAMS:
        for cell in programs.CELLS:
            for k in range(NETWORKS):
                network = programs.make(name, cell, seed=seed + k)
                out.append((network, network.draw(SEQUENCES, seed + k)))
    return out
