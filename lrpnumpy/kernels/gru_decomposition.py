"""Contextual decomposition of one direction of a GRU: relevant parts of its states, for many phrases at once.

By analogy with the LSTM's (there is no published form): z, r and n are split as gates are, and a product of gate and
signal gives beta the terms gate_a (signal_a + signal_b) + gate_b signal_a, and inside the phrase gate_b signal_b too.
The irrelevant part is the true value minus the relevant one. So, with Z the true pre-activation, b its bias and a its
relevant part, the relevant part of F(Z) together with that of the bias is

    F_ab = L_a + F(b) = 1/2 [F(b) + F(Z)] + 1/2 [F(a + b) - F(Z - a)]

and with beta for that of h_prev, and [...] only outside the phrase,

    z_ab: a = W_z beta + U_z beta_x          r_ab: a = W_r beta + U_r beta_x
    n_ab: a = U_n beta_x + r_ab (W_n beta + b_hn) - [r_b b_hn]         reset after the product
          a = U_n beta_x + W_n (r_ab beta)                             reset before the product
    beta of h = (1 - z_ab) n_ab + z_ab beta - [(1 - z_b) n_b]

A variant is a sequence with a phrase. It takes part from the step `join` on, before which beta is 0. Variants go
through time in blocks that stay in the cache; at each step, what was kept of the sequences of those that take part is
gathered, so that elementwise loops run over all of them at once.
"""

from __future__ import annotations

import numpy as np

from lrpnumpy.kernels.compile import I1, I2, R1, R2, R4, W2, Int, kernel
from lrpnumpy.kernels.inputs import lengths_of
from lrpnumpy.kernels.product import add_product
from lrpnumpy.kernels.steps import activate, block, copy, fill, matrix, part, repeat

OWNER, START, STOP, JOIN, ROWS = range(5)  # rows of `variants`
BLOCK = 8192  # numbers in the states of the variants that go through time together, unless a single one has more


@kernel
def decompose(
    kept: R1,  # (7, n, H) a step, of kernels.gru: Z, R, N, then z, r, n, and u
    first: I1,  # (T+1,)
    x: R2,  # (R, D) inputs, in the order of the rows
    beta_x: R2,  # (any, D) their relevant parts, or (0, D): x in the phrase, 0 outside
    U: R4,  # packed (3, D, H)
    W: R4,  # packed (3, H, H)
    b: R2,  # (3, H)
    bn: R1,  # (H,) b_hn; not read with reset before
    codes: I1,  # activation, recurrent activation, 1 for reset after
    variants: I2,  # (5, V) owner, start and stop of the phrase, join; row of the first step in beta_x and in `every`
    way: Int,  # 1, or -1 where later steps have lower rows there
    final: W2,  # (V, H) out: beta of the last step; or (0, H)
    every: W2,  # (any, H) in: 0; out: beta of every step; or (0, H)
) -> None:
    """beta of the states of every variant."""
    H, V = b.shape[1], variants.shape[1]
    activation, recurrent, reset_after = codes[0], codes[1], codes[2]
    one, zero = kept.dtype.type(1), kept.dtype.type(0)
    length = lengths_of(first)
    places = min(V, max(BLOCK // H, 1))
    Ux, own = project_all(x, beta_x, U, H, places)
    biases, F_b = np.empty((4, places * H), b.dtype), np.empty((3, places * H), b.dtype)
    spare = np.empty((2, places * H), b.dtype)
    for k in range(3):
        repeat(block(b, k), block(biases, k))
        activate(block(biases, k), block(F_b, k), activation if k == 2 else recurrent)
    if reset_after:
        repeat(bn, block(biases, 3))
    else:
        fill(block(biases, 3), zero)
    beta, now = np.empty((places, H), b.dtype), np.empty(places * H, b.dtype)
    a, frame, u = np.empty((3, places * H), b.dtype), np.empty((6, places * H), b.dtype), np.empty(places * H, b.dtype)
    which, outside = np.empty(places, np.int64), np.empty(places, np.int64)
    for begin in range(0, V, places):
        count = min(places, V - begin)
        fill(part(beta, 0, count * H), zero)
        earliest, latest = span(begin, count, variants, length)
        for t in range(earliest, latest):
            n = active(t, begin, count, variants, length, which, outside)
            m = n * H
            beta_now, u_ab = part(now, 0, m), part(u, 0, m)
            gather_step(t, n, begin, which, variants, first, kept, 7, beta, beta_now, frame)
            start_sums(t, n, begin, which, outside, variants, first, way, beta_x, Ux, own, U, a)
            for k in range(2):
                a_k = part(block(a, k), 0, m)
                add_product(matrix(beta_now, n, H), block(W, k), matrix(a_k, n, H))
                relevant(a_k, block(frame, k), block(frame, 3 + k), block(biases, k), block(F_b, k), spare, recurrent)
            z_ab, r_ab, n_ab = part(block(a, 0), 0, m), part(block(a, 1), 0, m), part(block(a, 2), 0, m)
            z_b, r_b, n_b, b_hn = block(F_b, 0), block(F_b, 1), block(F_b, 2), block(biases, 3)
            if reset_after:
                copy(part(biases, 3 * places * H, m), u_ab)
                add_product(matrix(beta_now, n, H), block(W, 2), matrix(u_ab, n, H))
                for q in range(m):
                    n_ab[q] += r_ab[q] * u_ab[q]
                for s in range(n):
                    for q in range(s * H, (s + 1) * H if outside[s] else s * H):
                        n_ab[q] -= r_b[q] * b_hn[q]
            else:
                for q in range(m):
                    u_ab[q] = r_ab[q] * beta_now[q]
                add_product(matrix(u_ab, n, H), block(W, 2), matrix(n_ab, n, H))
            relevant(n_ab, block(frame, 2), block(frame, 5), block(biases, 2), n_b, spare, activation)
            for q in range(m):
                beta_now[q] = (one - z_ab[q]) * n_ab[q] + z_ab[q] * beta_now[q]
            for s in range(n):
                for q in range(s * H, (s + 1) * H if outside[s] else s * H):
                    beta_now[q] -= (one - z_b[q]) * n_b[q]
            store(t, n, begin, which, variants, way, beta_now, beta, every)
        if final.shape[0] > 0:
            copy(part(beta, 0, count * H), part(final, begin * H, count * H))


# What the kernel of the plain RNN needs, too.


def project_all(x, beta_x, U, H, places):  # type: ignore[no-untyped-def]
    """U x of all rows, (gates, R, H), for phrases of x itself; or room for the relevant parts of a step's inputs."""
    gates, R, D = U.shape[0], x.shape[0], x.shape[1]
    is_own = beta_x.shape[0] > 0
    Ux = np.zeros((gates, 0 if is_own else R, H), x.dtype)
    for k in range(0 if is_own else gates):
        add_product(x, block(U, k), block(Ux, k))
    return Ux, np.empty((places if is_own else 0, D), x.dtype)


def span(begin, count, variants, length):  # type: ignore[no-untyped-def]
    """The first step at which one of these variants takes part, and the one after the last."""
    earliest, latest = length[0], 0
    for v in range(begin, begin + count):
        earliest, latest = min(earliest, variants[JOIN, v]), max(latest, length[variants[OWNER, v]])
    return earliest, latest


def active(t, begin, count, variants, length, which, outside):  # type: ignore[no-untyped-def]
    """How many variants of a block take part in step t; which, and whether the step is outside their phrase."""
    n = 0
    for slot in range(count):
        v = begin + slot
        if variants[JOIN, v] <= t < length[variants[OWNER, v]]:
            which[n] = slot
            outside[n] = not variants[START, v] <= t < variants[STOP, v]
            n += 1
    return n


def gather_step(t, n, begin, which, variants, first, kept, kinds, beta, beta_now, frame) -> None:  # type: ignore[no-untyped-def]
    """beta of the variants that take part, and of what was kept of step t, the first kinds, as many as frame has."""
    H, running = beta.shape[1], first[t + 1] - first[t]
    for s in range(n):
        row = kinds * first[t] + variants[OWNER, begin + which[s]]
        copy(block(beta, which[s]), part(beta_now, s * H, H))
        for k in range(frame.shape[0]):
            copy(part(kept, (row + k * running) * H, H), part(block(frame, k), s * H, H))


def start_sums(t, n, begin, which, outside, variants, first, way, beta_x, Ux, own, U, a) -> None:  # type: ignore[no-untyped-def]
    """a = U beta_x of every gate."""
    gates, H = Ux.shape[0], Ux.shape[2]
    D = own.shape[1]
    if own.shape[0] > 0:
        for s in range(n):
            v = begin + which[s]
            copy(block(beta_x, variants[ROWS, v] + way * t), part(own, s * D, D))
    for k in range(gates):
        a_k = part(block(a, k), 0, n * H)
        fill(a_k, a.dtype.type(0))
        if own.shape[0] > 0:
            add_product(matrix(part(own, 0, n * D), n, D), block(U, k), matrix(a_k, n, H))
            continue
        for s in range(n):
            if not outside[s]:
                row = first[t] + variants[OWNER, begin + which[s]]
                copy(block(block(Ux, k), row), part(a_k, s * H, H))


def relevant(a, z, y, b, F_b, spare, code) -> None:  # type: ignore[no-untyped-def]
    """a becomes F_ab = 1/2 [F(b) + F(z)] + 1/2 [F(a + b) - F(z - a)], where y = F(z)."""
    with_b, without = part(spare, 0, a.size), part(block(spare, 1), 0, a.size)
    half = a.dtype.type(0.5)
    for q in range(a.size):
        with_b[q] = z[q] - a[q]
    activate(with_b, without, code)
    for q in range(a.size):
        with_b[q] = a[q] + b[q]
    activate(with_b, a, code)
    for q in range(a.size):
        a[q] = half * (F_b[q] + y[q]) + half * (a[q] - without[q])


def store(t, n, begin, which, variants, way, beta_now, beta, every) -> None:  # type: ignore[no-untyped-def]
    """Put beta of the variants that take part back to their slots, and to the row of this step."""
    H = beta.shape[1]
    for s in range(n):
        copy(part(beta_now, s * H, H), block(beta, which[s]))
        if every.shape[0] > 0:
            copy(part(beta_now, s * H, H), block(every, variants[ROWS, begin + which[s]] + way * t))


def overloads() -> None:
    """Let kernels call these functions."""
    from numba.extending import register_jitable

    for helper in (project_all, span, active, gather_step, start_sums, relevant, store):
        register_jitable(helper)
