"""LRP through a Dense layer: rows are few and narrow, so that NumPy would spend its time on calls."""

from __future__ import annotations

import numpy as np

from lrpnumpy.kernels.compile import I1, R1, R2, R4, W1, W2, Scalar, kernel
from lrpnumpy.kernels.product import add_product
from lrpnumpy.kernels.steps import inverse


@kernel
def backward(
    R: R2,  # (rows, C) what arrives at the outputs
    z: R2,  # (rows, C)
    x: R2,  # (rows, M)
    V: R4,  # packed (1, C, M)
    d: R1,  # (C,)
    eps: Scalar,
    owner: I1,  # (rows,) which sequence each row is of
    R_x: W2,  # (rows, M) in: 0
    biases: W1,  # (n,) what they get is added here
    stabiliser: W1,  # (n,) the same
    largest: W1,  # (n,) raised to the largest |R|
) -> None:
    """R_i = sum_j x_i v_ij / stab(z_j) R_j."""
    rows, C = z.shape
    s = np.empty((rows, C), z.dtype)
    for q in range(rows):
        n = owner[q]
        for j in range(C):
            over, lost = inverse(z[q, j], eps)
            s[q, j] = over * R[q, j]
            biases[n] += s[q, j] * d[j]
            stabiliser[n] += lost * R[q, j]
            largest[n] = max(largest[n], abs(R[q, j]))
    add_product(s, V[0], R_x)
    for q in range(rows):
        for j in range(x.shape[1]):
            R_x[q, j] *= x[q, j]
