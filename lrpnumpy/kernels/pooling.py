"""The largest value of each window, and propagation to the first step that has it."""

from __future__ import annotations

import numpy as np

from lrpnumpy.kernels.arguments import I2, R2, W2
from lrpnumpy.kernels.compile import kernel_or
from lrpnumpy.kernels.steps import copy


def largest_by_numpy(x, rows, y) -> None:  # type: ignore[no-untyped-def]
    """The same, on whole arrays."""
    y[...] = np.concatenate([x, np.full_like(x[:1], -np.inf)])[rows].max(axis=1)


def to_winners_by_numpy(x, rows, y, R_y, R_x) -> None:  # type: ignore[no-untyped-def]
    """The same, on whole arrays."""
    won = np.concatenate([x, np.full_like(x[:1], np.nan)])[rows] == y[:, None]
    is_first = won & (won.cumsum(axis=1) == 1)
    received = np.zeros((len(x) + 1, x.shape[1]))
    np.add.at(received, rows, is_first * R_y[:, None])
    R_x += received[:-1]


@kernel_or(largest_by_numpy)
def largest(
    x: R2,  # (R, M)
    rows: I2,  # (Q, size) row of x at each position of a window; R for padding, which never wins
    y: W2,  # (Q, M) out
) -> None:
    """y = max x, over the places of a window."""
    R, M = x.shape
    for q in range(rows.shape[0]):
        best, is_first = y[q], True
        for place in range(rows.shape[1]):
            row = rows[q, place]
            if row >= R:
                continue
            if is_first:
                copy(x[row], best)
                is_first = False
                continue
            other = x[row]
            for j in range(M):
                best[j] = other[j] if other[j] > best[j] else best[j]


@kernel_or(to_winners_by_numpy)
def to_winners(
    x: R2,  # (R, M)
    rows: I2,  # (Q, size)
    y: R2,  # (Q, M) the largest values
    R_y: R2,  # (Q, M) incoming messages
    R_x: W2,  # (R, M) in: 0
) -> None:
    """Add the message of a window to the first position that has its largest value."""
    R, M = x.shape
    zero = x.dtype.type(0)
    left = np.empty(M, x.dtype)
    for q in range(rows.shape[0]):
        best = y[q]
        copy(R_y[q], left)
        for place in range(rows.shape[1]):
            row = rows[q, place]
            if row >= R:
                continue
            value, target = x[row], R_x[row]
            for j in range(M):
                has_won = value[j] == best[j]
                target[j] += left[j] if has_won else zero
                left[j] = zero if has_won else left[j]
