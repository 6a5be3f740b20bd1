"""The plain RNN over a packed batch: forwards, with the coefficients of a backward pass, and the backward recursion.

    z = W h_prev + U x + b;  h = tanh(z) or another activation

`inputs.py` says how a batch is packed, where states are stored and what order, ids and table are; `lstm.py` how flat
arrays of several kinds are laid out. Coefficients K, of kinds KINDS[rule], are multiplied with R_h, what arrives at h:

    0    from R_h to z: for LRP divided by stab(z)
    1    what the stabiliser keeps of R_h (not for GRADIENT)
    2    where bias and stabiliser are shared (KINDS_SHARED): from R_h to each x and to each h_prev, alike

There is no product of a gate and a signal here: all rules of LRP are the same.
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
    raise_to,
)

KINDS = {GRADIENT: 1, ALL: 2, PROP: 2, ABS: 2, HALF: 2}
KINDS_SHARED = 3


@kernel
def forward(
    x: R2,  # (R, D) inputs; not read where they are looked up
    first: I1,  # (T+1,)
    order: I1,  # (R,) row of x for each row, or empty
    ids: I1,  # (R,) row of `table` for each row of x, or empty
    table: R2,  # (any, H) U x + b where inputs are looked up; else (1, H) the bias
    U: R4,  # packed (1, D, H)
    W: R4,  # packed (1, H, H)
    start: R3,  # (1, 1 or n_0, H) state before the first step, one for all sequences or one for each
    codes: I1,  # activation, and the rule that K is for: GRADIENT, ALL, PROP, ABS, HALF, or NONE
    eps: Scalar,
    K: W1,  # (kinds, n, H) a step: the coefficients; or empty
    Hs: W2,  # (n_0 + R, H) states h, or (n_0, H) the last of each sequence
    kept: W1,  # empty; or (1, n, H) a step: U x + b; or (2, n, H): z, then h
) -> None:
    """All states, and the coefficients of one backward pass."""
    H = Hs.shape[1]
    n_0, R = first[1], first[-1]
    activation, rule = codes[0], codes[1]
    all_h = Hs.shape[0] > n_0
    kinds, kinds_kept = K.size // (R * H), kept.size // (R * H)
    gathered, projected, span = input_rooms(first, x, ids, 1, H)
    now = np.empty(n_0 * H, x.dtype)
    begin_with(start[0], Hs[:n_0])
    for t in range(first.size - 1):
        row = first[t]
        n = first[t + 1] - row
        m = n * H
        before, after = states_before(first, t), states_before(first, t + 1)
        h_prev = matrix(part(Hs, before * H if all_h else 0, m), n, H)
        h = part(Hs, after * H if all_h else 0, m)
        z = part(now, 0, m)
        prepare(t, first, x, order, ids, table, U, gathered, projected, span, z)
        project(0, t, first, x, order, ids, table, U, gathered, projected, z)
        if kinds_kept == 1:
            copy(z, part(kept, row * H, m))
        add_product(h_prev, block(W, 0), matrix(z, n, H))
        activate(z, h, activation)
        if kinds_kept == 2:
            copy(z, part(kept, 2 * row * H, m))
            copy(h, part(kept, (2 * row + n) * H, m))
        coefficients = part(K, kinds * row * H, kinds * m)
        if rule == GRADIENT:
            differentiate(z, h, coefficients, activation)
        elif rule != NONE:
            gain, leak = part(coefficients, 0, m), part(coefficients, m, m)
            for q in range(m):
                gain[q], leak[q] = inverse(z[q], eps)


@kernel
def backward(
    K: R1,  # (kinds, n, H) a step: the coefficients
    first: I1,  # (T+1,)
    order: I1,  # (R,) row of x and R_x for each row, or empty
    ids: I1,  # (R,) row of `table` for each row of x, or empty
    x: R2,  # (R, D) inputs; not read where they are looked up
    table: R2,  # (any, H) U x + b where inputs are looked up
    b: R2,  # (1, H)
    Hs: R2,  # (n_0 + R, H) states h, from which LRP's messages to h_prev are formed
    W: R4,  # packed (1, H, H)
    U: R4,  # packed (1, H, D)
    is_lrp: Int,  # multiply by h_prev and x, and keep the ledger
    R_last: R3,  # (1, n_0, H) what arrives at the last h of each sequence, or (0, 0, H): nothing
    R_steps: R2,  # (R, H) what arrives at h_t from above, or (0, H): nothing
    R_x: W2,  # (R, D) what goes to the inputs is added here; (R, H or more) where they are looked up; or (0, D)
    ledger: W2,  # (4, n_0) biases, stabiliser and initial state get added what they get; the largest message is raised
    R_states: W3,  # (1, R, H) out: what arrives at h_t, or (0, 0, H)
    R_0: W3,  # (1, n_0, H) out: what arrives at the state before the first step, or (0, 0, H)
) -> None:
    """s = K R_h; R_h_prev = h_prev (s W) and R_x = x (s U), without h_prev and x for the gradient."""
    H = Hs.shape[1]
    n_0, R = first[1], first[-1]
    zero = Hs.dtype.type(0)
    kinds = K.size // (R * H)
    shares = kinds == KINDS_SHARED
    waiting, r_x, tops_x, waiting_to = message_rooms(first, x, ids, R_x, 1, H, shares)
    now, carry = np.empty(n_0 * H, Hs.dtype), np.zeros((n_0, H), Hs.dtype)
    leaked, tops, s_sums = np.zeros(n_0 * H, Hs.dtype), np.zeros(n_0 * H, Hs.dtype), np.zeros(n_0 * H, Hs.dtype)
    alike = np.empty(n_0 if shares else 0, Hs.dtype)
    if R_last.shape[0] > 0:
        copy(R_last[0], carry)
    for t in range(first.size - 2, -1, -1):
        row = first[t]
        n = first[t + 1] - row
        m = n * H
        r_h, s = part(carry, 0, m), part(now, 0, m)
        k = part(K, kinds * row * H, kinds * m)
        if R_steps.shape[0] > 0:
            add(part(R_steps, row * H, m), r_h)
        if R_states.shape[0] > 0:
            copy(r_h, part(R_states, row * H, m))
        if is_lrp:
            raise_to(tops, r_h)
            leak, lost, s_sum = part(k, m, m), part(leaked, 0, m), part(s_sums, 0, m)
            for q in range(m):
                s[q] = k[q] * r_h[q]
                s_sum[q] += s[q]
                lost[q] += leak[q] * r_h[q]
            for q in range(n if shares else 0):
                alike[q] = zero
                for j in range(q * H, (q + 1) * H):
                    alike[q] += k[2 * m + j] * r_h[j]
        else:
            for q in range(m):
                s[q] = k[q] * r_h[q]
        fill(r_h, zero)
        add_product(matrix(s, n, H), block(W, 0), matrix(r_h, n, H))
        if is_lrp:
            multiply(r_h, part(Hs, states_before(first, t) * H, m))
        for q in range(m if shares else 0):
            r_h[q] += alike[q // H]
        pass_on(s, t, first, order, ids, x, table, b, U, 0, is_lrp, alike, waiting, r_x, tops_x, waiting_to, R_x)
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
            ledger[0, q] += s_sums[q * H + j] * b[0, j]
