"""LRP through sums, by the epsilon rule: the messages of their terms, and what biases and stabilizers absorb."""

from __future__ import annotations

from functools import partial

import numpy as np

from lrpnumpy.kernels.arguments import I1, R1, R2, W2, Scalar
from lrpnumpy.kernels.compile import Kernel
from lrpnumpy.kernels.steps import inverse


def by_numpy(R, z, bias, eps, owner, s, ledger) -> None:
    """The same, on whole arrays."""
    size = abs(z) + eps
    dead = size == 0
    over = np.where(dead, 0, 1 / np.where(dead, 1, size))
    s[...] = np.where(z < 0, -over, over) * R
    np.add.at(ledger[0], owner, s @ bias)
    np.add.at(ledger[1], owner, (np.where(dead, 1, eps * over) * R).sum(axis=1))
    np.maximum.at(ledger[3], owner, abs(R).max(axis=1, initial=0))


@partial(Kernel, by_numpy=by_numpy)
def backward(
    R: R2,  # (rows, M) incoming messages of the sums
    z: R2,  # (rows, M)
    bias: R1,  # (M,) of each sum
    eps: Scalar,
    owner: I1,  # (rows,) which sequence each row is of
    s: W2,  # (rows, M) out: term i of sum j receives z_i w_ij s_j
    ledger: W2,  # (4, n) rows 0 and 1: the shares of biases and stabilizer are added; row 3: raised to the largest R
) -> None:
    """s = R / stab(z)."""
    rows, M = z.shape
    n = ledger.shape[1]
    to_bias = np.zeros((n, M), z.dtype)  # summed over rows first: these loops are then vectorized
    to_stabilizer = np.zeros((n, M), z.dtype)
    largest = np.zeros((n, M), z.dtype)
    for q in range(rows):
        k = owner[q]
        for j in range(M):
            over, lost = inverse(z[q, j], eps)
            s[q, j] = over * R[q, j]
            to_bias[k, j] += s[q, j] * bias[j]
            to_stabilizer[k, j] += lost * R[q, j]
            size = abs(R[q, j])
            largest[k, j] = size if size > largest[k, j] else largest[k, j]
    for k in range(n):
        for j in range(M):
            ledger[0, k] += to_bias[k, j]
            ledger[1, k] += to_stabilizer[k, j]
            ledger[3, k] = max(ledger[3, k], largest[k, j])
