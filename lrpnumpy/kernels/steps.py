"""Elementwise pieces of a time step that kernels share: activations, their codes, and the shares of LRP."""

from __future__ import annotations

import numpy as np

from lrpnumpy.kernels.elementary import sigmoid, tanh

GRADIENT, ALL, PROP, ABS, HALF = range(5)  # what the coefficients of a backward pass are for
CODES = {"sigmoid": 0, "tanh": 1, "linear": 2, "relu": 3, "hard_sigmoid": 4, "hard_sigmoid_3": 5}


def activate(z: np.ndarray, y: np.ndarray, code: int) -> None:
    """y = F(z) for flat arrays and the activation with this code."""
    half = z.dtype.type(0.5)
    one = z.dtype.type(1)
    zero = z.dtype.type(0)
    if code == 0:
        for q in range(z.size):
            y[q] = sigmoid(z[q])
    elif code == 1:
        for q in range(z.size):
            y[q] = tanh(z[q])
    elif code == 2:
        for q in range(z.size):
            y[q] = z[q]
    elif code == 3:
        for q in range(z.size):
            y[q] = max(zero, z[q])
    else:
        slope = z.dtype.type(0.2) if code == 4 else one / z.dtype.type(6)
        for q in range(z.size):
            y[q] = min(one, max(zero, slope * z[q] + half))


def differentiate(y: np.ndarray, dy: np.ndarray, code: int) -> None:
    """dy = F'(z) from y = F(z)."""
    one = y.dtype.type(1)
    zero = y.dtype.type(0)
    if code == 0:
        for q in range(y.size):
            dy[q] = y[q] * (one - y[q])
    elif code == 1:
        for q in range(y.size):
            dy[q] = one - y[q] * y[q]
    elif code == 2:
        for q in range(y.size):
            dy[q] = one
    elif code == 3:
        for q in range(y.size):
            dy[q] = one if y[q] > zero else zero
    else:
        slope = y.dtype.type(0.2) if code == 4 else one / y.dtype.type(6)
        for q in range(y.size):
            dy[q] = slope if zero < y[q] < one else zero


def inverse(z, eps):  # type: ignore[no-untyped-def]
    """1 / stab(z) with stab(z) = z + eps sign(z) and sign(0) = +1, and the share eps / (|z| + eps) the stabiliser keeps.

    A denominator that is exactly 0 passes nothing on: (0, 1).
    """
    zero, one = type(eps)(0), type(eps)(1)
    size = abs(z) + eps
    over = zero if size == zero else one / size
    lost = one if size == zero else eps * over
    return (-over if z < zero else over), lost


def share(rule, gate, signal, eps):  # type: ignore[no-untyped-def]
    """What a product rule gives to gate and signal, and what its stabiliser keeps."""
    if rule == PROP:
        over, lost = inverse(gate + signal, eps)
        return gate * over, signal * over, lost
    if rule == ABS:
        over, lost = inverse(abs(gate) + abs(signal), eps)
        return abs(gate) * over, abs(signal) * over, lost
    return type(eps)(0.5), type(eps)(0.5), type(eps)(0)


def overloads() -> None:
    """Let kernels call these functions."""
    from numba.extending import register_jitable

    for helper in (activate, differentiate, inverse, share):
        register_jitable(helper)
