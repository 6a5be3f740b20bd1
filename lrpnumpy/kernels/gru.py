"""The GRU over a packed batch: forwards, with the coefficients of a backward pass, and the backward recursion.

    z, r = sigm(W h_prev + U x + b)                                    two gates
    n = tanh(U_n x + b_n + r u),  u = W_n h_prev + b_hn                reset after the product
    n = tanh(U_n x + b_n + W_n u),  u = r h_prev                       reset before the product
    h = (1 - z) n + z h_prev

Gates stand in the order z, r, n. `inputs.py` says how a batch is packed, where states are stored and what order, ids
and table are; `lstm.py` how flat arrays of several kinds are laid out. With Z, R, N for the pre-activations of z, r, n,
and R_h for what arrives at h, coefficients K have the kinds

    0    from R_h to Z: for LRP divided by stab(Z), so that it is s of this sum
    1    to R, from R_h (reset after), or from (s_N W_n), what comes back to u = r h_prev (reset before)
    2    from R_h to N: s_N
    3    reset after: from R_h to the sum u; reset before: from (s_N W_n) to h_prev
    4    from R_h to h_prev
    5    what stabilisers keep of R_h, all together (not for GRADIENT)
    6    reset before: what they keep of (s_N W_n) (not for GRADIENT)

where what LRP sends to u is u (s_N W_n), and this u is part of the kinds 1, 3 and 6. ALL gives nothing to gates: it has
the kinds 2, 3, 4, 5 only, and one block of messages. Where biases and stabilisers are shared there are KINDS_SHARED:
kinds 5 and 6 are not used, and

    7    from R_h to each x, alike
    8    from R_h to each h_prev, alike
    9    reset before: from R_h to each u, alike; kinds 1 and 3 are then without the factor u: they are multiplied with
         R_u = u (s_N W_n) + what comes alike
    10   reset before: u
    11   reset before: from R_u to each x and to each h_prev, alike
"""

from __future__ import annotations

import numpy as np

from lrpnumpy.kernels.compile import I1, R1, R2, R3, R4, W1, W2, W3, Int, Scalar, kernel
from lrpnumpy.kernels.inputs import (
    begin_with,
    input_rooms,
    message_rooms,
    pass_on,
    prepare,
    project,
    settle,
    states_before,
)
from lrpnumpy.kernels.product import add_product
from lrpnumpy.kernels.steps import (
    ABS,
    ALL,
    GRADIENT,
    HALF,
    NONE,
    PROP,
    activate,
    add,
    block,
    copy,
    differentiate,
    fill,
    inverse,
    matrix,
    part,
    repeat,
    share,
)

KINDS = {GRADIENT: 5, ALL: 4, PROP: 7, ABS: 7, HALF: 7}
KINDS_SHARED = 12


@kernel
def forward(
    x: R2,  # (R, D) inputs; not read where they are looked up
    first: I1,  # (T+1,)
    order: I1,  # (R,) row of x for each row, or empty
    ids: I1,  # (R,) row of `table` for each row of x, or empty
    table: R2,  # (any, 3 H) U x + b where inputs are looked up; else (1, 3 H) the bias
    U: R4,  # packed (3, D, H)
    W: R4,  # packed (3, H, H)
    bn: R1,  # (H,) b_hn; not read with reset before
    start: R3,  # (1, 1 or n_0, H) state before the first step, one for all sequences or one for each
    codes: I1,  # activation, recurrent activation, rule that K is for (as in lstm.py), and 1 for reset after
    eps: Scalar,
    K: W1,  # (kinds, n, H) a step: the coefficients; or empty
    Hs: W2,  # (n_0 + R, H) states h, or (n_0, H) the last of each sequence
    kept: W1,  # empty; or (3, n, H) a step: U x + b; or (7, n, H): Z, R, N, then z, r, n, and u
) -> None:
    """All states, and the coefficients of one backward pass."""
    H = Hs.shape[1]
    n_0, R = first[1], first[-1]
    activation, recurrent, rule, reset_after = codes[0], codes[1], codes[2], codes[3]
    one = x.dtype.type(1)
    all_h = Hs.shape[0] > n_0
    kinds, kinds_kept = K.size // (R * H), kept.size // (R * H)
    gathered, projected, span = input_rooms(first, x, ids, 3, H)
    states = Hs if all_h else np.empty((2 * n_0, H), x.dtype)  # h_prev and h, which change places at each step
    now = np.empty(0 if kinds_kept == 7 else 7 * n_0 * H, x.dtype)
    begin_with(start[0], states[:n_0])
    for t in range(first.size - 1):
        row = first[t]
        n = first[t + 1] - row
        m = n * H
        before, after = t % 2 * n_0, (t + 1) % 2 * n_0
        if all_h:
            before, after = states_before(first, t), states_before(first, t + 1)
        h_prev, h = part(states, before * H, m), part(states, after * H, m)
        step = part(kept, 7 * row * H, 7 * m) if kinds_kept == 7 else part(now, 0, 7 * m)
        sums, N, u = part(step, 0, 3 * m), part(step, 2 * m, m), part(step, 6 * m, m)
        z, r, c = part(step, 3 * m, m), part(step, 4 * m, m), part(step, 5 * m, m)  # c is the candidate n
        prepare(t, first, x, order, ids, table, U, gathered, projected, span, sums)
        for k in range(3):
            sum_k = part(sums, k * m, m)
            project(k, t, first, x, order, ids, table, U, gathered, projected, sum_k)
            if kinds_kept == 3:
                copy(sum_k, part(kept, 3 * row * H + k * m, m))
            if k < 2:
                add_product(matrix(h_prev, n, H), block(W, k), matrix(sum_k, n, H))
                activate(sum_k, part(step, (3 + k) * m, m), recurrent)
        if reset_after:
            repeat(bn, u)
            add_product(matrix(h_prev, n, H), block(W, 2), matrix(u, n, H))
            for q in range(m):
                N[q] += r[q] * u[q]
        else:
            for q in range(m):
                u[q] = r[q] * h_prev[q]
            add_product(matrix(u, n, H), block(W, 2), matrix(N, n, H))
        activate(N, c, activation)
        for q in range(m):
            h[q] = (one - z[q]) * c[q] + z[q] * h_prev[q]
        if not all_h:
            copy(h, Hs)
        if rule == NONE:
            continue
        coefficients = part(K, kinds * row * H, kinds * m)
        if rule == GRADIENT:
            gradient_step(step, h_prev, reset_after, activation, recurrent, coefficients)
        elif rule == ALL:
            signal_step(step, h_prev, h, reset_after, eps, coefficients)
        elif rule == PROP:
            shares_step(PROP, step, h_prev, h, reset_after, eps, coefficients)
        elif rule == ABS:
            shares_step(ABS, step, h_prev, h, reset_after, eps, coefficients)
        else:
            shares_step(HALF, step, h_prev, h, reset_after, eps, coefficients)


@kernel
def backward(
    K: R1,  # (kinds, n, H) a step: the coefficients
    first: I1,  # (T+1,)
    order: I1,  # (R,) row of x and R_x for each row, or empty
    ids: I1,  # (R,) row of `table` for each row of x, or empty
    x: R2,  # (R, D) inputs; not read where they are looked up
    table: R2,  # (any, 3 H) U x + b where inputs are looked up
    b: R2,  # (3, H)
    bn: R1,  # (H,) b_hn; not read with reset before
    Hs: R2,  # (n_0 + R, H) states h, from which LRP's messages to h_prev are formed
    W: R4,  # packed (G, H, H): all gates, or n alone
    U: R4,  # packed (G, H, D)
    reset_after: Int,
    is_lrp: Int,  # multiply by h_prev and x, and keep the ledger
    R_last: R3,  # (1, n_0, H) what arrives at the last h of each sequence, or (0, 0, H): nothing
    R_steps: R2,  # (R, H) what arrives at h_t from above, or (0, H): nothing
    R_x: W2,  # (R, D) what goes to the inputs is added here; (R, H or more) where they are looked up; or (0, D)
    ledger: W2,  # (4, n_0) biases, stabiliser and initial state get added what they get; the largest message is raised
    R_states: W3,  # (1, R, H) out: what arrives at h_t, or (0, 0, H)
    R_0: W3,  # (1, n_0, H) out: what arrives at the state before the first step, or (0, 0, H)
) -> None:
    """Messages are linear in R_h, the coefficients say by which rule."""
    H = Hs.shape[1]
    G, n_0, R = W.shape[0], first[1], first[-1]
    only = 2 if G == 1 else 0  # the first gate that receives anything
    zero = Hs.dtype.type(0)
    kinds = K.size // (R * H)
    shares = kinds == KINDS_SHARED
    waiting, r_x, tops_x, waiting_to = message_rooms(first, x, ids, R_x, G, H, shares)
    now, direct = np.empty((G + 1) * n_0 * H, Hs.dtype), np.empty(n_0 * H, Hs.dtype)
    carry = np.zeros((n_0, H), Hs.dtype)
    leaked, tops = np.zeros(n_0 * H, Hs.dtype), np.zeros(n_0 * H, Hs.dtype)
    s_sums = np.zeros((G + 1) * n_0 * H, Hs.dtype)
    alike, alike_h = np.empty(n_0 if shares else 0, Hs.dtype), np.empty(n_0 if shares else 0, Hs.dtype)
    if R_last.shape[0] > 0:
        copy(R_last[0], carry)
    for t in range(first.size - 2, -1, -1):
        row = first[t]
        n = first[t + 1] - row
        m = n * H
        r_h, to_h, lost = part(carry, 0, m), part(direct, 0, m), part(leaked, 0, m)
        k = part(K, kinds * row * H, kinds * m)
        # With G = 3 blocks: the kinds 0 to 5, and s of Z, R, N, u. With one: the kinds 2 to 5, and s of N and u.
        k_n, k_u, h_to_h = part(k, (G - 1) * m, m), part(k, G * m, m), part(k, (G + 1) * m, m)
        s = part(now, 0, G * m)
        s_n, s_u = part(now, (G - 1) * m, m), part(now, G * m, m)
        if R_steps.shape[0] > 0:
            add(part(R_steps, row * H, m), r_h)
        if R_states.shape[0] > 0:
            copy(r_h, part(R_states, row * H, m))
        for q in range(m):
            s_n[q] = k_n[q] * r_h[q]
            to_h[q] = h_to_h[q] * r_h[q]
        if is_lrp:
            leak, top = part(k, (G + 2) * m, m), part(tops, 0, m)
            for q in range(m):
                lost[q] += leak[q] * r_h[q]
                size = abs(r_h[q])
                top[q] = size if size > top[q] else top[q]
        if shares:
            spread(part(k, 7 * m, m), r_h, part(alike, 0, n))
            spread(part(k, 8 * m, m), r_h, part(alike_h, 0, n))
        if reset_after:
            for q in range(m):
                s_u[q] = k_u[q] * r_h[q]
        else:
            fill(s_u, zero)  # it is (s_N W_n) here
            add_product(matrix(s_n, n, H), block(W, G - 1), matrix(s_u, n, H))
            if shares:
                share_reset(k, r_h, s_u, part(alike, 0, n), part(alike_h, 0, n))
            for q in range(m):
                to_h[q] += k_u[q] * s_u[q]
        if G > 1:
            k_r, s_r, to_r = part(k, m, m), part(s, m, m), r_h if reset_after else s_u
            for q in range(m):
                s[q] = k[q] * r_h[q]
                s_r[q] = k_r[q] * to_r[q]
            if is_lrp and not reset_after:
                leak_u = part(k, 6 * m, m)
                for q in range(m):
                    lost[q] += leak_u[q] * s_u[q]
        for j in range(G + 1 if is_lrp else 0):
            add(part(now, j * m, m), part(s_sums, j * n_0 * H, m))
        fill(r_h, zero)
        for j in range(G - 1):
            add_product(matrix(part(s, j * m, m), n, H), block(W, j), matrix(r_h, n, H))
        if reset_after:
            add_product(matrix(s_u, n, H), block(W, G - 1), matrix(r_h, n, H))
        if is_lrp:
            h_prev = part(Hs, states_before(first, t) * H, m)
            for q in range(m):
                r_h[q] = r_h[q] * h_prev[q] + to_h[q]
        else:
            add(to_h, r_h)
        for q in range(m if shares else 0):
            r_h[q] += alike_h[q // H]
        pass_on(s, t, first, order, ids, x, table, b, U, only, is_lrp, alike, waiting, r_x, tops_x, waiting_to, R_x)
    if R_0.shape[0] > 0:
        copy(carry, R_0[0])
    if not is_lrp:
        return
    settle(ledger, tops)
    settle(ledger, tops_x)
    for q in range(n_0):
        for j in range(H):
            ledger[2, q] += carry[q, j]
        for j in range(0 if shares else H):
            ledger[1, q] += leaked[q * H + j]
        for gate in range(0 if shares else G):
            for j in range(H):
                ledger[0, q] += s_sums[(gate * n_0 + q) * H + j] * b[only + gate, j]
        for j in range(H if reset_after and not shares else 0):
            ledger[0, q] += s_sums[(G * n_0 + q) * H + j] * bn[j]


def spread(k, R_h, alike) -> None:  # type: ignore[no-untyped-def]
    """alike = the sum of k R_h of each row."""
    H = R_h.size // alike.size
    for q in range(alike.size):
        total = R_h.dtype.type(0)
        for j in range(q * H, (q + 1) * H):
            total += k[j] * R_h[j]
        alike[q] = total


def share_reset(k, R_h, u, alike, alike_h) -> None:  # type: ignore[no-untyped-def]
    """With reset before: (s_N W_n) becomes R_u, and what R gives to all its inputs alike is added."""
    m = R_h.size
    n = alike.size
    H = m // n
    to_each_u, value, to_each = part(k, 9 * m, m), part(k, 10 * m, m), part(k, 11 * m, m)
    for q in range(n):
        total, back = R_h.dtype.type(0), R_h.dtype.type(0)
        for j in range(q * H, (q + 1) * H):
            total += to_each_u[j] * R_h[j]
        for j in range(q * H, (q + 1) * H):
            u[j] = u[j] * value[j] + total
            back += to_each[j] * u[j]
        alike[q] += back
        alike_h[q] += back


def gradient_step(step, h_prev, reset_after, activation: int, recurrent: int, k) -> None:  # type: ignore[no-untyped-def]
    """Partial derivatives."""
    m = h_prev.size
    z, r, c, u = part(step, 3 * m, m), part(step, 4 * m, m), part(step, 5 * m, m), part(step, 6 * m, m)
    K_z, K_r, K_n, K_u, h_to_h = part(k, 0, m), part(k, m, m), part(k, 2 * m, m), part(k, 3 * m, m), part(k, 4 * m, m)
    one = z.dtype.type(1)
    differentiate(part(step, 0, 2 * m), part(step, 3 * m, 2 * m), part(k, 0, 2 * m), recurrent)
    differentiate(part(step, 2 * m, m), c, K_n, activation)
    for q in range(m):
        K_z[q] *= h_prev[q] - c[q]
        K_n[q] *= one - z[q]
        h_to_h[q] = z[q]
    if reset_after:
        for q in range(m):
            K_r[q] *= K_n[q] * u[q]
            K_u[q] = K_n[q] * r[q]
    else:
        for q in range(m):
            K_r[q] *= h_prev[q]
            K_u[q] = r[q]


def signal_step(step, h_prev, h, reset_after, eps, k) -> None:  # type: ignore[no-untyped-def]
    """The signal takes all: n and h_prev of the sum h, and u of the reset product."""
    m = h.size
    N, z, r, c, u = (
        part(step, 2 * m, m),
        part(step, 3 * m, m),
        part(step, 4 * m, m),
        part(step, 5 * m, m),
        part(step, 6 * m, m),
    )
    K_n, K_u, h_to_h, leak = part(k, 0, m), part(k, m, m), part(k, 2 * m, m), part(k, 3 * m, m)
    one = h.dtype.type(1)
    for q in range(m):
        over, lost = inverse(h[q], eps)
        gain, lost_n = inverse(N[q], eps)
        B = (one - z[q]) * c[q] * over
        h_to_h[q] = z[q] * h_prev[q] * over
        K_n[q] = B * gain
        leak[q] = lost + B * lost_n
    if reset_after:
        for q in range(m):
            gain, lost = inverse(u[q], eps)
            to_u = K_n[q] * r[q] * u[q]
            K_u[q] = to_u * gain
            leak[q] += to_u * lost
    else:
        copy(u, K_u)


def shares_step(rule: int, step, h_prev, h, reset_after, eps, k) -> None:  # type: ignore[no-untyped-def]
    """A product rule that gives to gates, too."""
    m = h.size
    Z, R, N = part(step, 0, m), part(step, m, m), part(step, 2 * m, m)
    z, r, c, u = part(step, 3 * m, m), part(step, 4 * m, m), part(step, 5 * m, m), part(step, 6 * m, m)
    K_z, K_r, K_n, K_u, h_to_h = part(k, 0, m), part(k, m, m), part(k, 2 * m, m), part(k, 3 * m, m), part(k, 4 * m, m)
    leak, leak_u = part(k, 5 * m, m), part(k, 6 * m, m)
    one = h.dtype.type(1)
    for q in range(m):
        over, lost = inverse(h[q], eps)
        A, B = z[q] * h_prev[q] * over, (one - z[q]) * c[q] * over
        gate_z, signal_h, lost_h = share(rule, z[q], h_prev[q], eps)
        gate_1z, signal_n, lost_n = share(rule, one - z[q], c[q], eps)
        gain_z, lost_z = inverse(Z[q], eps)
        gain_n, lost_N = inverse(N[q], eps)
        to_z, to_n = A * gate_z + B * gate_1z, B * signal_n
        K_z[q] = to_z * gain_z
        K_n[q] = to_n * gain_n
        h_to_h[q] = A * signal_h
        leak[q] = lost + A * lost_h + B * lost_n + to_z * lost_z + to_n * lost_N
    if reset_after:
        for q in range(m):
            gate, signal, lost = share(rule, r[q], u[q], eps)
            gain_r, lost_r = inverse(R[q], eps)
            gain_u, lost_u = inverse(u[q], eps)
            to_both = K_n[q] * r[q] * u[q]
            K_r[q] = to_both * gate * gain_r
            K_u[q] = to_both * signal * gain_u
            leak[q] += to_both * (lost + gate * lost_r + signal * lost_u)
    else:
        for q in range(m):
            gate, signal, lost = share(rule, r[q], h_prev[q], eps)
            gain_r, lost_r = inverse(R[q], eps)
            K_r[q] = u[q] * gate * gain_r
            K_u[q] = u[q] * signal
            leak_u[q] = u[q] * (lost + gate * lost_r)


def overloads() -> None:
    """Let kernels call these functions."""
    from numba.extending import register_jitable

    for helper in (spread, share_reset, gradient_step, signal_step, shares_step):
        register_jitable(helper)
