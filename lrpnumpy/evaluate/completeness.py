"""Completeness: how much of the score the inputs got, and whether the method knows where the rest is."""

from __future__ import annotations

import numpy as np

from lrpnumpy.evaluate.case import Case, Values


def measure(case: Case) -> Values:
    """What the inputs, biases, stabiliser and reference got, and what no ledger accounts for, each over the score."""
    every = np.arange(len(case.x))
    f = case.scores(case.sequences, every)
    sign, size = np.where(f < 0, -1.0, 1.0), abs(f)
    none = np.full(len(f), np.nan)
    inputs = np.array([sign * one.total for one in case.found])
    kept = [one.kept or {} for one in case.found]
    lost = np.array([abs(f - one.total - sum(k.values())) for one, k in zip(case.found, kept, strict=True)])
    out = {"inputs": (inputs, size), "lost": (lost, size)}
    for name in ("biases", "stabiliser", "reference"):
        out[name] = np.array([sign * k[name] if name in k else none for k in kept]), size
    return out
