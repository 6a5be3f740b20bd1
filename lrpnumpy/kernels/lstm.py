"""The LSTM over a packed batch: forwards, with the coefficients of a backward pass, and the backward recursion.

    z = W h_prev + U x + b;  i, f, o = sigm(z),  g = tanh(z);  c = f c_prev + i g;  h = o tanh(c)

`inputs.py` says how a batch is packed, where states are stored and what order, ids and table are. Arrays with several
kinds of numbers are flat, and each step's part of them is (kinds, n, H): a kind's numbers of one step are contiguous,
so that elementwise loops run over n H numbers at once. Arrays that nobody asks for are empty.

Coefficients K, of kinds KINDS[rule], are multiplied with what arrives at h and c, R_h and R_c:

    0 to 3   from R_c to z of i, f, g, and from R_h to z of o: for LRP divided by stab(z)
    4        c_to_c: from R_c to c_prev
    5        h_to_c: from R_h to c
    6, 7     what stabilisers keep of R_c and R_h (not for GRADIENT, which has 6 kinds)
    8 to 11  where biases and stabilisers are shared (KINDS_SHARED): what each z gives to all its H + D inputs alike

ALL gives nothing to the gates i, f, o, and all of R_h to c: it has the kinds 2, 4 and 6 only, and one block.
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
    multiply,
    part,
    share,
)

KINDS = {GRADIENT: 6, ALL: 3, PROP: 8, ABS: 8, HALF: 8}
KINDS_SHARED = 12


@kernel
def forward(
    x: R2,  # (R, D) inputs; not read where they are looked up
    first: I1,  # (T+1,)
    order: I1,  # (R,) row of x for each row, or empty
    ids: I1,  # (R,) row of `table` for each row of x, or empty
    table: R2,  # (any, 4 H) U x + b where inputs are looked up; else (1, 4 H) the bias
    U: R4,  # packed (4, D, H)
    W: R4,  # packed (4, H, H)
    start: R3,  # (2, 1 or n_0, H) states h and c before the first step, one for all sequences or one for each
    codes: I1,  # activation, recurrent activation, and the rule that K is for: GRADIENT, ALL, PROP, ABS, HALF, or NONE
    eps: Scalar,
    K: W1,  # (kinds, n, H) a step: the coefficients; or empty
    Hs: W2,  # (n_0 + R, H) states h, or (n_0, H) the last of each sequence
    C: W2,  # (n_0 + R, H) states c, or (n_0, H) the last of each sequence, or (0, H)
    kept: W1,  # empty; or (4, n, H) a step: U x + b; or (9, n, H): z of i, f, g, o, then i, f, g, o, and tanh(c)
) -> None:
    """All states, and the coefficients of one backward pass."""
    H = Hs.shape[1]
    n_0, R = first[1], first[-1]
    activation, recurrent, rule = codes[0], codes[1], codes[2]
    all_h, all_c = Hs.shape[0] > n_0, C.shape[0] > n_0
    kinds, kinds_kept = K.size // (R * H), kept.size // (R * H)
    gathered, projected, span = input_rooms(first, x, ids, 4, H)
    cells = C if all_c else np.empty((2 * n_0, H), x.dtype)  # c_prev and c, which change places at each step
    now = np.empty(0 if kinds_kept == 9 else 9 * n_0 * H, x.dtype)
    begin_with(start[0], Hs[:n_0])
    begin_with(start[1], cells[:n_0])
    for t in range(first.size - 1):
        row = first[t]
        n = first[t + 1] - row
        m = n * H
        before, after = states_before(first, t), states_before(first, t + 1)
        h_prev = matrix(part(Hs, before * H if all_h else 0, m), n, H)
        h = part(Hs, after * H if all_h else 0, m)
        if not all_c:
            before, after = t % 2 * n_0, (t + 1) % 2 * n_0
        c_prev, c = part(cells, before * H, m), part(cells, after * H, m)
        step = part(kept, 9 * row * H, 9 * m) if kinds_kept == 9 else part(now, 0, 9 * m)
        z, a, y = part(step, 0, 4 * m), part(step, 4 * m, 4 * m), part(step, 8 * m, m)
        prepare(t, first, x, order, ids, table, U, gathered, projected, span, z)
        for k in range(4):
            z_k = part(z, k * m, m)
            project(k, t, first, x, order, ids, table, U, gathered, projected, z_k)
            if kinds_kept == 4:
                copy(z_k, part(kept, 4 * row * H + k * m, m))
            add_product(h_prev, block(W, k), matrix(z_k, n, H))
            activate(z_k, part(a, k * m, m), activation if k == 2 else recurrent)
        i, f, g, o = part(a, 0, m), part(a, m, m), part(a, 2 * m, m), part(a, 3 * m, m)
        for q in range(m):
            c[q] = f[q] * c_prev[q] + i[q] * g[q]
        activate(c, y, activation)
        for q in range(m):
            h[q] = o[q] * y[q]
        if not all_c and C.shape[0] > 0:
            copy(c, C)
        if rule == NONE:
            continue
        coefficients = part(K, kinds * row * H, kinds * m)
        if rule == GRADIENT:
            gradient_step(z, a, y, c_prev, c, activation, recurrent, coefficients)
        elif rule == ALL:
            signal_step(z, a, c_prev, c, eps, coefficients)
        elif rule == PROP:
            shares_step(PROP, z, a, y, c_prev, c, eps, coefficients)
        elif rule == ABS:
            shares_step(ABS, z, a, y, c_prev, c, eps, coefficients)
        else:
            shares_step(HALF, z, a, y, c_prev, c, eps, coefficients)


@kernel
def backward(
    K: R1,  # (kinds, n, H) a step: the coefficients
    first: I1,  # (T+1,)
    order: I1,  # (R,) row of x and R_x for each row, or empty
    ids: I1,  # (R,) row of `table` for each row of x, or empty
    x: R2,  # (R, D) inputs; not read where they are looked up
    table: R2,  # (any, 4 H) U x + b where inputs are looked up
    b: R2,  # (4, H)
    Hs: R2,  # (n_0 + R, H) states h, from which LRP's messages to h_prev are formed
    W: R4,  # packed (G, H, H): all gates, or g alone
    U: R4,  # packed (G, H, D)
    is_lrp: Int,  # multiply by h_prev and x, and keep the ledger
    R_last: R3,  # (2, n_0, H) what arrives at the last h and c of each sequence, or (0, 0, H): nothing
    R_steps: R2,  # (R, H) what arrives at h_t from above, or (0, H): nothing
    R_x: W2,  # (R, D) what goes to the inputs is added here; (R, H or more) where they are looked up; or (0, D)
    ledger: W2,  # (4, n_0) biases, stabiliser and initial state get added what they get; the largest message is raised
    R_states: W3,  # (2, R, H) out: what arrives at h_t and c_t, or (0, 0, H)
    R_0: W3,  # (2, n_0, H) out: what arrives at the states before the first step, or (0, 0, H)
) -> None:
    """The one backward recursion: messages are linear in R, the coefficients say by which rule."""
    H = Hs.shape[1]
    G, n_0, R = W.shape[0], first[1], first[-1]
    only = 2 if G == 1 else 0  # the first gate that receives anything
    zero = Hs.dtype.type(0)
    kinds = K.size // (R * H)
    shares = kinds == KINDS_SHARED
    inputs = Hs.dtype.type(H + x.shape[1])  # of each z
    waiting, r_x, tops_x, waiting_to = message_rooms(first, x, ids, R_x, G, H, shares)
    now = np.empty(G * n_0 * H, Hs.dtype)
    carry, R_c = np.zeros((n_0, H), Hs.dtype), np.zeros(n_0 * H, Hs.dtype)
    leaked, tops, s_sums = np.zeros(n_0 * H, Hs.dtype), np.zeros(n_0 * H, Hs.dtype), np.zeros(G * n_0 * H, Hs.dtype)
    alike = np.empty(n_0 if shares else 0, Hs.dtype)
    if R_last.shape[0] > 0:
        copy(R_last[0], carry)
        copy(R_last[1], R_c)
    for t in range(first.size - 2, -1, -1):
        row = first[t]
        n = first[t + 1] - row
        m = n * H
        r_h, r_c, top, lost = part(carry, 0, m), part(R_c, 0, m), part(tops, 0, m), part(leaked, 0, m)
        k, s = part(K, kinds * row * H, kinds * m), part(now, 0, G * m)
        if R_steps.shape[0] > 0:
            add(part(R_steps, row * H, m), r_h)
        if R_states.shape[0] > 0:
            copy(r_h, part(R_states, row * H, m))
        if G == 1:
            c_to_c, leak_c, s_sum = part(k, m, m), part(k, 2 * m, m), part(s_sums, 0, m)
            add(r_h, r_c)
            if R_states.shape[0] > 0:
                copy(r_c, part(R_states, (R + row) * H, m))
            for q in range(m):
                s[q] = k[q] * r_c[q]
                s_sum[q] += s[q]
                lost[q] += leak_c[q] * r_c[q]
                size = max(abs(r_h[q]), abs(r_c[q]))
                top[q] = size if size > top[q] else top[q]
                r_c[q] *= c_to_c[q]
                r_h[q] = zero
        else:
            k_i, k_f, k_g, k_o = part(k, 0, m), part(k, m, m), part(k, 2 * m, m), part(k, 3 * m, m)
            s_i, s_f, s_g, s_o = part(s, 0, m), part(s, m, m), part(s, 2 * m, m), part(s, 3 * m, m)
            c_to_c, h_to_c = part(k, 4 * m, m), part(k, 5 * m, m)
            for q in range(m):
                r_c[q] += h_to_c[q] * r_h[q]
                s_i[q] = k_i[q] * r_c[q]
                s_f[q] = k_f[q] * r_c[q]
                s_g[q] = k_g[q] * r_c[q]
                s_o[q] = k_o[q] * r_h[q]
            if R_states.shape[0] > 0:
                copy(r_c, part(R_states, (R + row) * H, m))
            if is_lrp:
                leak_c, leak_h = part(k, 6 * m, m), part(k, 7 * m, m)
                for q in range(m):
                    lost[q] += leak_c[q] * r_c[q] + leak_h[q] * r_h[q]
                    size = max(abs(r_h[q]), abs(r_c[q]))
                    top[q] = size if size > top[q] else top[q]
                for gate in range(4):
                    add(part(s, gate * m, m), part(s_sums, gate * n_0 * H, m))
            if shares:
                for q in range(n):
                    left = zero
                    for gate in range(4):
                        spread, source = part(k, (8 + gate) * m, m), r_h if gate == 3 else r_c
                        for j in range(q * H, (q + 1) * H):
                            left += spread[j] * source[j]
                    alike[q] = left / inputs
            multiply(r_c, c_to_c)
            fill(r_h, zero)
        for gate in range(G):
            add_product(matrix(part(s, gate * m, m), n, H), block(W, gate), matrix(r_h, n, H))
        if is_lrp:
            multiply(r_h, part(Hs, states_before(first, t) * H, m))
        for q in range(m if shares else 0):
            r_h[q] += alike[q // H]
        pass_on(s, t, first, order, ids, x, table, b, U, only, is_lrp, alike, waiting, r_x, tops_x, waiting_to, R_x)
    if R_0.shape[0] > 0:
        copy(carry, R_0[0])
        copy(R_c, R_0[1])
    if not is_lrp:
        return
    settle(ledger, tops)
    settle(ledger, tops_x)
    for q in range(n_0):
        for j in range(H):
            ledger[2, q] += carry[q, j] + R_c[q * H + j]
        for j in range(0 if shares else H):
            ledger[1, q] += leaked[q * H + j]
        for gate in range(0 if shares else G):
            for j in range(H):
                ledger[0, q] += s_sums[(gate * n_0 + q) * H + j] * b[only + gate, j]


def gradient_step(z, a, y, c_prev, c, activation: int, recurrent: int, k) -> None:  # type: ignore[no-untyped-def]
    """Partial derivatives: K from c to z of i, f, g and from h to z of o."""
    m = y.size
    i, f, g, o = part(a, 0, m), part(a, m, m), part(a, 2 * m, m), part(a, 3 * m, m)
    K_i, K_f, K_g, K_o = part(k, 0, m), part(k, m, m), part(k, 2 * m, m), part(k, 3 * m, m)
    c_to_c, h_to_c = part(k, 4 * m, m), part(k, 5 * m, m)
    differentiate(part(z, 0, 2 * m), part(a, 0, 2 * m), part(k, 0, 2 * m), recurrent)
    differentiate(part(z, 2 * m, m), g, K_g, activation)
    differentiate(part(z, 3 * m, m), o, K_o, recurrent)
    differentiate(c, y, h_to_c, activation)
    for q in range(m):
        K_i[q] *= g[q]
        K_f[q] *= c_prev[q]
        K_g[q] *= i[q]
        K_o[q] *= y[q]
        h_to_c[q] *= o[q]
        c_to_c[q] = f[q]


def signal_step(z, a, c_prev, c, eps, k) -> None:  # type: ignore[no-untyped-def]
    """The signal takes all: nothing but g receives anything."""
    m = c.size
    i, f, g = part(a, 0, m), part(a, m, m), part(a, 2 * m, m)
    K_g, c_to_c, leak_c = part(k, 0, m), part(k, m, m), part(k, 2 * m, m)
    z_g = part(z, 2 * m, m)
    for q in range(m):
        over, lost = inverse(c[q], eps)
        gain, lost_z = inverse(z_g[q], eps)
        B = i[q] * g[q] * over
        c_to_c[q] = f[q] * c_prev[q] * over
        K_g[q] = B * gain
        leak_c[q] = lost + B * lost_z


def shares_step(rule: int, z, a, y, c_prev, c, eps, k) -> None:  # type: ignore[no-untyped-def]
    """A product rule that gives to gates, too."""
    m = c.size
    i, f, g, o = part(a, 0, m), part(a, m, m), part(a, 2 * m, m), part(a, 3 * m, m)
    z_i, z_f, z_g, z_o = part(z, 0, m), part(z, m, m), part(z, 2 * m, m), part(z, 3 * m, m)
    K_i, K_f, K_g, K_o = part(k, 0, m), part(k, m, m), part(k, 2 * m, m), part(k, 3 * m, m)
    c_to_c, h_to_c, leak_c, leak_h = part(k, 4 * m, m), part(k, 5 * m, m), part(k, 6 * m, m), part(k, 7 * m, m)
    for q in range(m):
        over, lost = inverse(c[q], eps)
        A, B = f[q] * c_prev[q] * over, i[q] * g[q] * over
        gate_f, signal_f, lost_f = share(rule, f[q], c_prev[q], eps)
        gate_i, signal_i, lost_i = share(rule, i[q], g[q], eps)
        gain_i, lost_zi = inverse(z_i[q], eps)
        gain_f, lost_zf = inverse(z_f[q], eps)
        gain_g, lost_zg = inverse(z_g[q], eps)
        K_i[q] = B * gate_i * gain_i
        K_f[q] = A * gate_f * gain_f
        K_g[q] = B * signal_i * gain_g
        c_to_c[q] = A * signal_f
        to_i_and_g = lost_i + gate_i * lost_zi + signal_i * lost_zg
        leak_c[q] = lost + A * (lost_f + gate_f * lost_zf) + B * to_i_and_g
    for q in range(m):
        gate_o, signal_o, lost_o = share(rule, o[q], y[q], eps)
        gain_o, lost_zo = inverse(z_o[q], eps)
        h_to_c[q] = signal_o
        K_o[q] = gate_o * gain_o
        leak_h[q] = lost_o + gate_o * lost_zo


def overloads() -> None:
    """Let kernels call these functions."""
    from numba.extending import register_jitable

    for helper in (gradient_step, signal_step, shares_step):
        register_jitable(helper)
