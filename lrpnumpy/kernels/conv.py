"""A convolution over time, forwards and back: windows are gathered a few at a time, so that they stay in the cache."""

from __future__ import annotations

import numpy as np

from lrpnumpy.kernels.arguments import I1, I2, R1, R2, R4, W2
from lrpnumpy.kernels.compile import kernel, kernel_or
from lrpnumpy.kernels.product import add_product
from lrpnumpy.kernels.steps import activate, copy, repeat

BLOCK = 48  # windows at a time


def forward_by_numpy(x, rows, K, d) -> np.ndarray:
    """The sums of `forward`, on whole arrays."""
    z = np.empty((len(rows), d.size))
    seen = np.concatenate([x, np.zeros_like(x[:1])])[rows]  # (Q, width, in)
    groups, inside, outside = K.shape[0], x.shape[1] // K.shape[0], d.size // K.shape[0]
    for group in range(groups):
        sums = np.tile(d.astype(np.float64)[group * outside : (group + 1) * outside], (len(rows), 1))
        windows = seen[..., group * inside : (group + 1) * inside].reshape(len(rows), rows.shape[1] * inside)
        add_product(windows, K[group], sums)
        z[:, group * outside : (group + 1) * outside] = sums
    return z


def backward_by_numpy(s, rows, K, R_x) -> None:
    """The same, on whole arrays."""
    groups, outside, inside = K.shape[0], K.shape[2], R_x.shape[1] // K.shape[0]
    received = np.zeros((len(R_x) + 1, R_x.shape[1]))
    for group in range(groups):
        parts = np.zeros((len(rows), rows.shape[1] * inside))
        add_product(np.ascontiguousarray(s[:, group * outside : (group + 1) * outside]), K[group], parts)
        columns = slice(group * inside, (group + 1) * inside)
        np.add.at(received[:, columns], rows, parts.reshape(*rows.shape, inside))
    R_x += received[:-1]


@kernel
def forward(
    x: R2,  # (R, in)
    rows: I2,  # (Q, width) row of x on which each place of a window stands; R for padding, which is 0
    K: R4,  # packed (groups, width * in / groups, out / groups)
    d: R1,  # (out,)
    codes: I1,  # activation
    z: W2,  # (Q, out) out: sums
    y: W2,  # (Q, out) out: activated; may be z itself
) -> None:
    """z = K x + d, y = F(z)."""
    Q, width = rows.shape
    groups, inside = K.shape[0], K.shape[2] // width
    outside = d.size // groups
    room = min(BLOCK, Q)
    seen = np.empty((room, width * inside), x.dtype)
    block = np.empty((room if groups > 1 else 0, outside), x.dtype)
    for begin in range(0, Q, BLOCK):
        n = min(BLOCK, Q - begin)
        here = slice(begin, begin + n)
        for group in range(groups):
            gather(x, rows, begin, n, group * inside, seen)
            sums = block[:n] if groups > 1 else z[here]
            repeat(d[group * outside : (group + 1) * outside], sums.reshape(n * outside))
            add_product(seen[:n], K[group], sums)
            for q in range(n if groups > 1 else 0):
                copy(sums[q], z[begin + q][group * outside : (group + 1) * outside])
        activate(z[here].reshape(n * d.size), y[here].reshape(n * d.size), codes[0])


@kernel_or(backward_by_numpy)
def backward(
    s: R2,  # (Q, out) messages to the terms of the sums
    rows: I2,  # (Q, width)
    K: R4,  # packed (groups, out / groups, width * in / groups)
    R_x: W2,  # (R, in) in: 0; out: sums of the messages, not yet multiplied by anything
) -> None:
    """R_x = s K, each message added where its input stands."""
    (Q, width), R = rows.shape, R_x.shape[0]
    groups, outside = K.shape[0], K.shape[2]
    inside = R_x.shape[1] // groups
    room = min(BLOCK, Q)
    block = np.empty((room if groups > 1 else 0, outside), s.dtype)
    parts = np.empty((room, width * inside), s.dtype)
    zero = s.dtype.type(0)
    for begin in range(0, Q, BLOCK):
        n = min(BLOCK, Q - begin)
        for group in range(groups):
            flat = parts[:n].reshape(n * width * inside)
            for j in range(flat.size):
                flat[j] = zero
            if groups == 1:
                add_product(s[begin : begin + n], K[0], parts[:n])
            else:
                for q in range(n):
                    copy(s[begin + q][group * outside : (group + 1) * outside], block[q])
                add_product(block[:n], K[group], parts[:n])
            for q in range(n):
                for place in range(width):
                    row = rows[begin + q, place]
                    for j in range(inside if row < R else 0):
                        R_x[row, group * inside + j] += parts[q, place * inside + j]


def gather(x, rows, begin, n, start, seen) -> None:
    """What n windows from `begin` on see of the inputs, from column `start` on; one window a row."""
    width, R = rows.shape[1], x.shape[0]
    inside = seen.shape[1] // width
    zero = x.dtype.type(0)
    for q in range(n):
        for place in range(width):
            row = rows[begin + q, place]
            if row < R:
                for j in range(inside):
                    seen[q, place * inside + j] = x[row, start + j]
            else:
                for j in range(inside):
                    seen[q, place * inside + j] = zero


def overloads() -> None:
    """Let kernels call these functions."""
    from numba.extending import register_jitable

    register_jitable(gather)
