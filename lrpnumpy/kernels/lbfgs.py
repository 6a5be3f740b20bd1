"""The search direction of L-BFGS: two loops over the past steps, each a step of its own."""

from __future__ import annotations

from lrpnumpy.kernels.compile import R1, R2, W1, Int, Scalar, kernel


@kernel
def direction(
    gradient: R1,  # (n,)
    S: R2,  # (history, n) changes of the point, oldest first
    Y: R2,  # (history, n) changes of the gradient
    rho: R1,  # (history,) 1 / (s y)
    known: Int,  # how many rows there are
    scale: Scalar,  # of the first guess of the inverse Hessian, s y / y y of the newest row
    alpha: W1,  # (history,) room
    d: W1,  # (n,) out
) -> None:
    """d = -H gradient, with H the inverse Hessian that the past steps suggest."""
    for j in range(d.size):
        d[j] = -gradient[j]
    for k in range(known - 1, -1, -1):
        s, y = S[k], Y[k]
        total = d[0] - d[0]
        for j in range(d.size):
            total += s[j] * d[j]
        alpha[k] = rho[k] * total
        for j in range(d.size):
            d[j] -= alpha[k] * y[j]
    for j in range(d.size):
        d[j] *= scale
    for k in range(known):
        s, y = S[k], Y[k]
        total = d[0] - d[0]
        for j in range(d.size):
            total += y[j] * d[j]
        beta = rho[k] * total
        for j in range(d.size):
            d[j] += (alpha[k] - beta) * s[j]
