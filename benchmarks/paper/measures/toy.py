"""The toy arithmetic task: sequences whose true relevance is known, and statistics of an explanation on them.

A sequence is a (T, 2) array of random numbers: column 0 holds n_a and n_b, at two random positions a < b,
column 1 the numbers of all other steps. The target is n_a + n_b or n_a - n_b, so a faithful relevance is n_a
at a, n_b or -n_b at b, and 0 elsewhere (Arras et al. 2019, "Toy Arithmetic Task").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lrpnumpy.checks import LrpError, one_of

TASKS = ("addition", "subtraction")
SPLITS = {"train": (10000, range(4, 11)), "validation": (2500, range(11, 13)), "test": (2500, range(13, 15))}
STATISTICS = ("rho_a", "rho_b", "share", "mse")


@dataclass(frozen=True, eq=False)
class Data:
    """N sequences with the positions a < b of the two numbers that count, the numbers, and the target y."""

    sequences: tuple[np.ndarray, ...]  # of (T, 2)
    a: np.ndarray  # (N,)
    b: np.ndarray  # (N,)
    n_a: np.ndarray  # (N,)
    n_b: np.ndarray  # (N,)
    y: np.ndarray  # (N,)


def generate(task: str, size: int, lengths: Sequence[int], seed: int | Sequence[int] = 0) -> Data:
    """`size` sequences of "addition" (numbers from [-1,-0.5] and [0.5,1]) or "subtraction" (from [0.5,1])."""
    one_of(task, "generate: task", TASKS)
    if min(lengths) < 2:
        raise LrpError(f"generate: lengths must be at least 2, got {min(lengths)}.")
    rng = np.random.default_rng(seed)
    T = rng.choice(np.asarray(lengths), size)
    numbers = rng.uniform(0.5, 1, (size, T.max()))
    if task == "addition":
        numbers *= rng.choice((-1.0, 1.0), numbers.shape)
    one, other = rng.integers(T), rng.integers(T - 1)
    other += other >= one  # every pair of two positions is as likely as any other
    a, b = np.minimum(one, other), np.maximum(one, other)
    step = np.arange(T.max())
    counts = (step == a[:, None]) | (step == b[:, None])
    x = np.stack([np.where(counts, numbers, 0), np.where(counts, 0, numbers)], axis=2)
    x.setflags(write=False)
    n_a, n_b = (numbers[np.arange(size), at] for at in (a, b))
    y = n_a + n_b if task == "addition" else n_a - n_b
    return Data(tuple(row[:t] for row, t in zip(x, T, strict=True)), a, b, n_a, n_b, y)


def splits(task: str, seed: int = 0) -> dict[str, Data]:
    """The paper's training, validation and test data, which differ in the lengths of their sequences."""
    one_of(task, "splits: task", TASKS)
    return {
        name: generate(task, size, lengths, (seed, TASKS.index(task), k))
        for k, (name, (size, lengths)) in enumerate(SPLITS.items())
    }


def statistics(data: Data, relevance: np.ndarray | Sequence[np.ndarray], prediction: np.ndarray) -> dict[str, float]:
    """How well a relevance finds the two numbers; it has one value per step, as one array or one array per sequence.

    "rho_a" and "rho_b": correlation of R_a with n_a and of R_b with n_b; "share": mean of
    (|R_a| + |R_b|) / sum |R_t|; "mse": mean of (R_a + R_b - prediction)^2.
    """
    lengths = np.array([len(x) for x in data.sequences])
    starts = np.cumsum(lengths) - lengths
    R = relevance if isinstance(relevance, np.ndarray) else np.concatenate(relevance)
    if len(R) != sum(lengths):
        raise LrpError(f"statistics: relevance must have one value for each of {sum(lengths)} steps, got {len(R)}.")
    R_a, R_b, total = R[starts + data.a], R[starts + data.b], np.add.reduceat(abs(R), starts)
    return {
        "rho_a": _correlation(R_a, data.n_a),
        "rho_b": _correlation(R_b, data.n_b),
        "share": float(np.mean((abs(R_a) + abs(R_b)) / total)),
        "mse": float(np.mean((R_a + R_b - np.asarray(prediction).reshape(-1)) ** 2)),
    }


def _correlation(u: np.ndarray, v: np.ndarray) -> float:
    return float(np.corrcoef(u, v)[0, 1])
