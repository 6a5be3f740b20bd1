"""The LSTM over a packed batch: forward, with the coefficients of a backward pass, and the backward recursion.

    z = W h_prev + U x + b;  i, f, o = sigm(z),  g = tanh(z);  c = f c_prev + i g;  h = o tanh(c)

The cell's `step` in layers/stacked.py is the specification, and generated kernels compute the same; these are written
by hand to be read. `inputs.py` explains how a batch is packed, and where states are stored. Arrays with several kinds
of numbers are flat, and each step's part of them is (kinds, n, H): a kind's numbers of one step are contiguous, so that
elementwise loops run over n H numbers at once.

Coefficients K are multiplied with the incoming relevance of h and c, R_h and R_c:

    0 to 3   from R_c to z of i, f, g, and from R_h to z of o: for LRP divided by stab(z)
    4        c_to_c: from R_c to c_prev
    5        h_to_c: from R_h to c
    6, 7     the fractions of R_c and R_h that stabilizers absorb (not for GRADIENT, which has 6 kinds)

ALL gives nothing to the gates i, f, o, and all of R_h to c: it has only the kinds 2, 4 and 6, and one block.
"""

from __future__ import annotations

import numpy as np

from lrpnumpy.kernels import inputs, steps
from lrpnumpy.kernels.arguments import R1, R2, R3, TUPLES, W1, W2, Int, Scalar
from lrpnumpy.kernels.compile import Kernel
from lrpnumpy.kernels.inputs import BatchRows, Messages, Weights, states_before
from lrpnumpy.kernels.product import add_product
from lrpnumpy.kernels.steps import activate, add, block, copy, differentiate, inverse, matrix, multiply, part

R2x2, W2x2 = TUPLES["R2x2"], TUPLES["W2x2"]


@Kernel
def forward(
    rows: BatchRows,  # the batch
    weights: Weights,  # U packed (4, D, H), W packed (4, H, H); codes of activation and recurrent activation
    start: R3,  # (2, 1 or n_0, H) states h and c before the first step, one for all sequences or one for each
    eps: Scalar,
    rule: Int,  # the rule that K is for: GRADIENT, ALL, PROP, ABS, HALF, or NONE
    keep: Int,  # 1: U x + b; 2: every activation
    every: Int,  # bit 0: the states h of all steps are wanted, else the last; bit 1: the same for c
    K: W1,  # (kinds, n, H) per step: the coefficients
    kept: W1,  # keep 1: (4, n, H) per step; 2: (9, n, H): z of i, f, g, o, then i, f, g, o, and tanh(c)
    states: W2x2,  # h and c: (n_0 + R, H), or (n_0, H) the last of each sequence
) -> None:
    """All states, and the coefficients of one backward pass."""
    first, Hs, C = rows.first, states[0], states[1]
    H = Hs.shape[1]
    n_0 = first[1]
    activation, recurrent = weights.codes[0], weights.codes[1]
    all_h, all_c = every & 1 == 1, every & 2 == 2
    kinds = 3 if rule == steps.ALL else 6 if rule == steps.GRADIENT else 8
    room = inputs.input_rooms(rows, 4, H)
    cells = C if all_c else np.empty((2 * n_0, H), K.dtype)  # c_prev and c, which change places at each step
    now = np.empty(9 * n_0 * H, K.dtype)
    steps.repeat(steps.flat(start[0]), steps.flat(Hs[:n_0]))  # one state for all sequences, or one for each
    steps.repeat(steps.flat(start[1]), steps.flat(cells[:n_0]))
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
        step = part(kept, 9 * row * H, 9 * m) if keep == 2 else part(now, 0, 9 * m)
        z, a, y = part(step, 0, 4 * m), part(step, 4 * m, 4 * m), part(step, 8 * m, m)
        inputs.prepare(t, rows, weights.U, room, z)
        for k in range(4):
            z_k = part(z, k * m, m)
            inputs.project(k, t, rows, weights.U, room, z_k)
            if keep == 1:
                copy(z_k, part(kept, 4 * row * H + k * m, m))
            add_product(h_prev, block(weights.W, k), matrix(z_k, n, H))
            activate(z_k, part(a, k * m, m), activation if k == 2 else recurrent)
        i, f, g, o = part(a, 0, m), part(a, m, m), part(a, 2 * m, m), part(a, 3 * m, m)
        for q in range(m):
            c[q] = f[q] * c_prev[q] + i[q] * g[q]
        activate(c, y, activation)
        for q in range(m):
            h[q] = o[q] * y[q]
        if not all_c:
            copy(c, C)
        if rule == steps.NONE:
            continue
        coefficients = part(K, kinds * row * H, kinds * m)
        if rule == steps.GRADIENT:
            gradient_step(z, a, y, c_prev, c, activation, recurrent, coefficients)
        elif rule == steps.ALL:
            signal_step(z, a, c_prev, c, eps, coefficients)
        elif rule == steps.PROP:
            shares_step(steps.PROP, z, a, y, c_prev, c, eps, coefficients)
        elif rule == steps.ABS:
            shares_step(steps.ABS, z, a, y, c_prev, c, eps, coefficients)
        else:
            shares_step(steps.HALF, z, a, y, c_prev, c, eps, coefficients)


@Kernel
def backward(
    rows: BatchRows,  # the batch
    weights: Weights,  # W packed (4, H, H), U packed (G, H, D): all gates, or g alone
    b: R2,  # (4, H)
    K: R1,  # (kinds, n, H) per step: the coefficients
    states: R2x2,  # the first: (n_0 + R, H) states h, from which LRP's messages to h_prev are formed
    rule: Int,  # of the coefficients; DeepLIFT's are those of GRADIENT
    sent: Messages,  # incoming relevance, and where the messages go
    ledger: W2,  # biases, stabilizer and initial state are added; the largest message is raised
) -> None:
    """The backward recursion of every rule: messages are linear in R, and the rule is in the coefficients."""
    first, Hs, R_states, is_lrp = rows.first, states[0], sent.R_states, rule != steps.GRADIENT
    H = b.shape[1]
    G, n_0, R = weights.U.shape[0], first[1], first[-1]
    only = 2 if G == 1 else 0  # the first gate that receives anything
    zero = K.dtype.type(0)
    kinds = 3 if rule == steps.ALL else 8 if is_lrp else 6
    room = inputs.message_rooms(rows, sent.R_x, G, H)
    now = np.empty(G * n_0 * H, K.dtype)
    carry, R_c = np.empty(n_0 * H, K.dtype), np.empty(n_0 * H, K.dtype)
    leaked, tops, s_sums = np.zeros(n_0 * H, K.dtype), np.zeros(n_0 * H, K.dtype), np.zeros(G * n_0 * H, K.dtype)
    copy(sent.R_last[0], carry)
    copy(sent.R_last[1], R_c)
    for t in range(first.size - 2, -1, -1):
        row = first[t]
        n = first[t + 1] - row
        m = n * H
        r_h, r_c, top, lost = part(carry, 0, m), part(R_c, 0, m), part(tops, 0, m), part(leaked, 0, m)
        k, s = part(K, kinds * row * H, kinds * m), part(now, 0, G * m)
        if sent.has_steps:
            add(part(sent.R_steps, row * H, m), r_h)
        if sent.wants_states:
            copy(r_h, part(R_states, row * H, m))
        if rule == steps.ALL:
            c_to_c, leak_c, s_sum = part(k, m, m), part(k, 2 * m, m), part(s_sums, 0, m)
            add(r_h, r_c)
            if sent.wants_states:
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
            if sent.wants_states:
                copy(r_c, part(R_states, (R + row) * H, m))
            if is_lrp:
                leak_c, leak_h = part(k, 6 * m, m), part(k, 7 * m, m)
                for q in range(m):
                    lost[q] += leak_c[q] * r_c[q] + leak_h[q] * r_h[q]
                    size = max(abs(r_h[q]), abs(r_c[q]))
                    top[q] = size if size > top[q] else top[q]
                for gate in range(4):
                    add(part(s, gate * m, m), part(s_sums, gate * n_0 * H, m))
            multiply(r_c, c_to_c)
            steps.fill(r_h, zero)
        for gate in range(G):
            add_product(matrix(part(s, gate * m, m), n, H), block(weights.W, only + gate), matrix(r_h, n, H))
        if is_lrp:
            multiply(r_h, part(Hs, states_before(first, t) * H, m))
        inputs.pass_on(s, t, rows, b, weights.U, only, is_lrp, room, sent.R_x)
    copy(carry, sent.R_start[0])
    copy(R_c, sent.R_start[1])
    if not is_lrp:
        return
    inputs.settle(ledger, tops)
    inputs.settle(ledger, room[2])
    for q in range(n_0):
        for j in range(H):
            ledger[2, q] += carry[q * H + j] + R_c[q * H + j]
            ledger[1, q] += leaked[q * H + j]
        for gate in range(G):
            for j in range(H):
                ledger[0, q] += s_sums[(gate * n_0 + q) * H + j] * b[only + gate, j]


def gradient_step(z, a, y, c_prev, c, activation: int, recurrent: int, k) -> None:
    """Partial derivatives: K from c to z of i, f, g and from h to z of o."""
    m = y.size
    i, f, g, o = part(a, 0, m), part(a, m, m), part(a, 2 * m, m), part(a, 3 * m, m)
    K_i, K_f, K_g, K_o = part(k, 0, m), part(k, m, m), part(k, 2 * m, m), part(k, 3 * m, m)
    c_to_c, h_to_c = part(k, 4 * m, m), part(k, 5 * m, m)
    for gate in range(4):
        at = gate * m
        differentiate(part(z, at, m), part(a, at, m), part(k, at, m), activation if gate == 2 else recurrent)
    differentiate(c, y, h_to_c, activation)
    for q in range(m):
        K_i[q] *= g[q]
        K_f[q] *= c_prev[q]
        K_g[q] *= i[q]
        K_o[q] *= y[q]
        h_to_c[q] *= o[q]
        c_to_c[q] = f[q]


def signal_step(z, a, c_prev, c, eps, k) -> None:
    """The signal takes all: only g receives relevance."""
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


def shares_step(rule: int, z, a, y, c_prev, c, eps, k) -> None:
    """A product rule that also gives relevance to gates."""
    m = c.size
    i, f, g, o = part(a, 0, m), part(a, m, m), part(a, 2 * m, m), part(a, 3 * m, m)
    z_i, z_f, z_g, z_o = part(z, 0, m), part(z, m, m), part(z, 2 * m, m), part(z, 3 * m, m)
    K_i, K_f, K_g, K_o = part(k, 0, m), part(k, m, m), part(k, 2 * m, m), part(k, 3 * m, m)
    c_to_c, h_to_c, leak_c, leak_h = part(k, 4 * m, m), part(k, 5 * m, m), part(k, 6 * m, m), part(k, 7 * m, m)
    for q in range(m):
        over, lost = inverse(c[q], eps)
        A, B = f[q] * c_prev[q] * over, i[q] * g[q] * over
        gate_f, signal_f, lost_f = steps.share(rule, f[q], c_prev[q], eps)
        gate_i, signal_i, lost_i = steps.share(rule, i[q], g[q], eps)
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
        gate_o, signal_o, lost_o = steps.share(rule, o[q], y[q], eps)
        gain_o, lost_zo = inverse(z_o[q], eps)
        h_to_c[q] = signal_o
        K_o[q] = gate_o * gain_o
        leak_h[q] = lost_o + gate_o * lost_zo
