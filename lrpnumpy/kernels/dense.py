"""LRP through a Dense layer: rows are few and narrow, so that NumPy would spend its time on calls."""

from __future__ import annotations

import numpy as np

from lrpnumpy.kernels import sums
from lrpnumpy.kernels.arguments import I1, R1, R2, R4, W2, Scalar
from lrpnumpy.kernels.compile import kernel_or
from lrpnumpy.kernels.product import add_product
from lrpnumpy.kernels.steps import inverse


def by_numpy(R, z, x, V, d, eps, owner, R_x, ledger) -> None:
    """The same, on whole arrays."""
    s = np.empty_like(z)
    sums.by_numpy(R, z, d, eps, owner, s, ledger)
    add_product(s, V[0], R_x)
    R_x *= x
    np.maximum.at(ledger[3], owner, abs(R_x).max(axis=1, initial=0))


@kernel_or(by_numpy)
def backward(
    R: R2,  # (rows, C) what arrives at the outputs
    z: R2,  # (rows, C)
    x: R2,  # (rows, M)
    V: R4,  # packed (1, C, M)
    d: R1,  # (C,)
    eps: Scalar,
    owner: I1,  # (rows,) which sequence each row is of
    R_x: W2,  # (rows, M) in: 0
    ledger: W2,  # (4, n) rows 0 and 1: what biases and stabiliser get is added; row 3: raised to the largest message
) -> None:
    """R_i = sum_j x_i v_ij / stab(z_j) R_j."""
    rows, C = z.shape
    s = np.empty((rows, C), z.dtype)
    for q in range(rows):
        n = owner[q]
        for j in range(C):
            over, lost = inverse(z[q, j], eps)
            s[q, j] = over * R[q, j]
            ledger[0, n] += s[q, j] * d[j]
            ledger[1, n] += lost * R[q, j]
            ledger[3, n] = max(ledger[3, n], abs(R[q, j]))
    add_product(s, V[0], R_x)
    for q in range(rows):
        n = owner[q]
        for j in range(x.shape[1]):
            R_x[q, j] *= x[q, j]
            ledger[3, n] = max(ledger[3, n], abs(R_x[q, j]))
