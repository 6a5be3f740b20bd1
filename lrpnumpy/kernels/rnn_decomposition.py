"""Contextual decomposition of one direction of a plain RNN: relevant parts of its states, for many phrases at once.

There is one sum and no product: with a = W beta + U beta_x, the relevant part of the sum z, beta of h is

    L_a = 1/2 [F(a + b) - F(b) + F(z) - F(z - a)].

`gru_decomposition.py` says what a variant is and how many of them go through time together.
"""

from __future__ import annotations

import numpy as np

from lrpnumpy.kernels.compile import I1, I2, R1, R2, R4, W2, Int, kernel
from lrpnumpy.kernels.gru_decomposition import (
    BLOCK,
    active,
    gather_step,
    project_all,
    relevant,
    span,
    start_sums,
    store,
)
from lrpnumpy.kernels.inputs import lengths_of
from lrpnumpy.kernels.product import add_product
from lrpnumpy.kernels.steps import activate, block, copy, fill, matrix, part, repeat


@kernel
def decompose(
    kept: R1,  # (2, n, H) a step, of kernels.rnn: z, then h
    first: I1,  # (T+1,)
    x: R2,  # (R, D) inputs, in the order of the rows
    beta_x: R2,  # (any, D) their relevant parts, or (0, D): x in the phrase, 0 outside
    U: R4,  # packed (1, D, H)
    W: R4,  # packed (1, H, H)
    b: R2,  # (1, H)
    codes: I1,  # activation
    variants: I2,  # (5, V) owner, start and stop of the phrase, join; row of the first step in beta_x and in `every`
    way: Int,  # 1, or -1 where later steps have lower rows there
    final: W2,  # (V, H) out: beta of the last step; or (0, H)
    every: W2,  # (any, H) in: 0; out: beta of every step; or (0, H)
) -> None:
    """beta of the states of every variant."""
    H, V = b.shape[1], variants.shape[1]
    zero = kept.dtype.type(0)
    length = lengths_of(first)
    places = min(V, max(BLOCK // H, 1))
    Ux, own = project_all(x, beta_x, U, H, places)
    bias, F_b, spare = np.empty(places * H, b.dtype), np.empty(places * H, b.dtype), np.empty((2, places * H), b.dtype)
    repeat(block(b, 0), bias)
    activate(bias, F_b, codes[0])
    beta, now = np.empty((places, H), b.dtype), np.empty(places * H, b.dtype)
    a, frame = np.empty((1, places * H), b.dtype), np.empty((2, places * H), b.dtype)
    which, outside = np.empty(places, np.int64), np.empty(places, np.int64)
    for begin in range(0, V, places):
        count = min(places, V - begin)
        fill(part(beta, 0, count * H), zero)
        earliest, latest = span(begin, count, variants, length)
        for t in range(earliest, latest):
            n = active(t, begin, count, variants, length, which, outside)
            beta_now, L_a = part(now, 0, n * H), part(a, 0, n * H)
            gather_step(t, n, begin, which, variants, first, kept, 2, beta, beta_now, frame)
            start_sums(t, n, begin, which, outside, variants, first, way, beta_x, Ux, own, U, a)
            add_product(matrix(beta_now, n, H), block(W, 0), matrix(L_a, n, H))
            relevant(L_a, block(frame, 0), block(frame, 1), bias, F_b, spare, codes[0])
            for q in range(n * H):
                L_a[q] -= F_b[q]
            store(t, n, begin, which, variants, way, L_a, beta, every)
        if final.shape[0] > 0:
            copy(part(beta, 0, count * H), part(final, begin * H, count * H))
