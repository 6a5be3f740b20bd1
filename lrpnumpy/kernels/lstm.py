"""The LSTM over a packed batch: forwards, with the coefficients of a backward pass, and the backward recursion.

A packed batch has its sequences longest first and the rows of one time step together: the `n = first[t+1] - first[t]`
sequences still running at step t have the rows first[t] to first[t+1]. Arrays with several kinds of numbers are flat,
and each step's part of them is (kinds, n, H): each kind's block is contiguous, so that elementwise loops run over n * H
numbers at once.

State arrays (n_0 + R, H) hold the initial state of each sequence first, then the state after each row; before step t
it stands n_{t-1} rows above. Hidden states may have n_0 rows only: then each step writes over the last, and the rows
of a sequence that has ended stay as they are. Arrays that nobody asks for are empty.

Inputs, and the relevance that goes back to them, may be in another order: a direction that reads sequences mirrored has
an `order` that says where each of its rows is. That of the other direction is empty.

Where there are few sequences, a product with one step's rows takes as long as loading the weights. So the inputs of
several steps are projected together, `ahead`, and relevance goes back to them together, `later`.
"""

from __future__ import annotations

import numpy as np

from lrpnumpy.kernels.compile import I1, R1, R2, R4, W1, W2, Int, Scalar, kernel
from lrpnumpy.kernels.product import add_product
from lrpnumpy.kernels.steps import (
    ABS,
    ALL,
    GRADIENT,
    HALF,
    KINDS_SHARED,
    NONE,
    PROP,
    activate,
    copy,
    gradient_step,
    repeat,
    shares_step,
    signal_step,
)

FEW = 4  # sequences
TOGETHER = 48  # rows


@kernel
def forward(
    X: R2,  # (R, D) inputs, or (R, 0) where `table` holds them projected already
    first: I1,  # (T+1,)
    order: I1,  # (R,) row of X for each row, or empty
    ids: I1,  # (R,) row of `table` for each row of X, or empty: the first for all
    table: R2,  # (any, 4 H) what is added to W h_prev + U x: the bias
    U: R4,  # packed (4, D, H)
    W: R4,  # packed (4, H, H)
    h0: R1,  # (H,)
    c0: R1,  # (H,)
    activation: Int,
    recurrent: Int,
    rule: Int,  # GRADIENT, ALL, PROP, ABS or HALF: what the coefficients of `backward` are for; NONE for none
    eps: Scalar,
    K: W1,  # (kinds, n, H) a step: the coefficients
    Hs: W2,  # (n_0 + R, H), or (n_0, H) for the last of each sequence
    C: W2,  # (n_0 + R, H), or (0, H)
    P: W1,  # (4, n, H) a step: U x + b; or empty
    Z: W1,  # (4, n, H) a step; or empty
    A: W1,  # (4, n, H) a step; or empty
    Y: W2,  # (R, H), or (0, H)
) -> None:
    """z = W h_prev + U x + b; i, f, o = sigm(z), g = tanh(z); c = f c_prev + i g; h = o tanh(c)."""
    R, D = X.shape
    H = h0.size
    n_0 = first[1]
    all_h, all_c, keep = Hs.shape[0] > n_0, C.shape[0] > 0, Z.size > 0
    kinds = K.size // (R * H)
    ahead = n_0 < FEW and D > 0
    room = min(TOGETHER, R) if ahead else n_0
    x, projected = np.empty((room, D), X.dtype), np.empty((4, room if ahead else 0, H), X.dtype)
    begin, end = 0, 0  # rows in there
    # Of c, a step asks for that before it: two places, in turn.
    cells = C if all_c else np.empty((2 * n_0, H), X.dtype)
    zs = Z if keep else np.empty(4 * n_0 * H, X.dtype)
    gates = A if keep else np.empty(4 * n_0 * H, X.dtype)
    ys = Y if keep else np.empty((n_0, H), X.dtype)
    repeat(h0, Hs[:n_0].reshape(n_0 * H))
    repeat(c0, cells[:n_0].reshape(n_0 * H))
    for t in range(first.size - 1):
        row = first[t]
        n = first[t + 1] - row
        m = n * H
        if row + n > end:
            begin, end = row, min(row + room, R) if ahead else row + n
            for s in range(end - begin if ahead or order.size > 0 else 0):
                copy(X[at(order, begin + s)], x[s])
            for k in range(4 if ahead else 0):
                repeat(table[0][k * H : (k + 1) * H], projected[k].reshape(room * H))
                add_product(x[: end - begin], U[k], projected[k][: end - begin])
        before, after = first[t - 1] + n_0 if t > 0 else 0, row + n_0
        h_prev = Hs[before : before + n] if all_h else Hs[:n]
        h = Hs[after : after + n].reshape(m) if all_h else Hs[:n].reshape(m)
        if not all_c:
            before, after = t % 2 * n_0, (t + 1) % 2 * n_0
        c_prev, c = cells[before : before + n].reshape(m), cells[after : after + n].reshape(m)
        start = row if keep else 0
        z, a = zs[4 * start * H : 4 * (start + n) * H], gates[4 * start * H : 4 * (start + n) * H]
        y = ys[start : start + n].reshape(m)
        for k in range(4):
            block = z[k * m : (k + 1) * m]
            if ahead:
                copy(projected[k][row - begin : row - begin + n].reshape(m), block)
            elif ids.size > 0:
                for s in range(n):
                    copy(table[ids[at(order, row + s)]][k * H : (k + 1) * H], block[s * H : (s + 1) * H])
            else:
                repeat(table[0][k * H : (k + 1) * H], block)
                if order.size > 0:
                    add_product(x[:n], U[k], block.reshape(n, H))
                else:
                    add_product(X[row : row + n], U[k], block.reshape(n, H))
            if P.size > 0:
                copy(block, P[4 * row * H + k * m : 4 * row * H + (k + 1) * m])
            add_product(h_prev, W[k], block.reshape(n, H))
            activate(block, a[k * m : (k + 1) * m], activation if k == 2 else recurrent)
        i, f, g, o = a[:m], a[m : 2 * m], a[2 * m : 3 * m], a[3 * m :]
        for q in range(m):
            c[q] = f[q] * c_prev[q] + i[q] * g[q]
        activate(c, y, activation)
        for q in range(m):
            h[q] = o[q] * y[q]
        if rule == NONE:
            continue
        coefficients = K[kinds * row * H : kinds * (row + n) * H]
        if rule == GRADIENT:
            gradient_step(a, y, c_prev, activation, recurrent, coefficients)
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
    K: R1,  # (kinds, n, H) a step: the coefficients (see steps.KINDS)
    first: I1,
    order: I1,  # (R,) row of X and R_x for each row, or empty
    Hs: R2,  # (n_0 + R, H) states h, from which LRP's messages to h_prev are formed
    X: R2,  # (R, D) inputs, likewise; or (R, 0) where they were looked up in `table`
    ids: I1,  # (R,), or empty
    table: R2,  # (any, 4 H) U x + b
    b: R2,  # (4, H)
    W: R4,  # packed (G, H, H): all gates, or g alone
    U: R4,  # packed (G, H, D)
    is_lrp: Int,  # multiply by h_prev and x, and keep the ledger
    R_last: R2,  # (n_0, H) what arrives at the last h of each sequence, or (0, H)
    R_every: R2,  # (R, H) what arrives at h_t from above, or (0, H)
    R_x: W2,  # (R, D) what goes to the inputs is added here; or (0, D); with X (R, 0) it has H columns or more
    biases: W1,  # (n_0,) what they get is added here
    stabiliser: W1,  # (n_0,) the same
    initial_state: W1,  # (n_0,) the same
    largest: W1,  # (n_0,) raised to the largest |R_h| or |R_c|
    S: W1,  # (G, n, H) a step: s; or empty
    R_hs: W2,  # (R, H) total at h_t, or (0, H)
    R_cs: W2,  # (R, H) total at c_t, or (0, H)
    R_0: W2,  # (2 n_0, H) what arrives at h0 and c0, or (0, H)
) -> None:
    """The one backward recursion: messages are linear in R, the coefficients say by which rule."""
    R, D = X.shape
    H = Hs.shape[1]
    G, n_0 = W.shape[0], first[1]
    zero = Hs.dtype.type(0)
    kinds = K.size // (R * H)
    keep, shares = S.size > 0, kinds == KINDS_SHARED
    wanted = R_x.shape[0] > 0
    later = wanted and n_0 < FEW and D > 0 and not shares
    room = min(TOGETHER, R) if later else n_0
    now, r_x = np.empty(G * n_0 * H, Hs.dtype), np.empty((room, D), Hs.dtype)
    several = np.empty((G, room if later else 0, H), Hs.dtype)  # s of the last rows before `end`
    end = R
    carry, R_c = np.zeros((n_0, H), Hs.dtype), np.zeros(n_0 * H, Hs.dtype)
    leaked, tops, s_sums = np.zeros(n_0 * H, Hs.dtype), np.zeros(n_0 * H, Hs.dtype), np.zeros(G * n_0 * H, Hs.dtype)
    alike = np.empty(n_0 if shares else 0, Hs.dtype)
    if R_last.shape[0] > 0:
        copy(R_last.reshape(n_0 * H), carry.reshape(n_0 * H))
    for t in range(first.size - 2, -1, -1):
        row = first[t]
        n = first[t + 1] - row
        m = n * H
        r_h, r_c, top, kept = carry[:n].reshape(m), R_c[:m], tops[:m], leaked[:m]
        k = K[kinds * row * H : kinds * (row + n) * H]
        s = S[G * row * H : G * (row + n) * H] if keep else now[: G * m]
        if R_every.shape[0] > 0:
            above = R_every[row : row + n].reshape(m)
            for q in range(m):
                r_h[q] += above[q]
        if R_hs.shape[0] > 0:
            copy(r_h, R_hs[row : row + n].reshape(m))
        if G == 1:
            c_to_c, leak_c, s_sum = k[m : 2 * m], k[2 * m :], s_sums[:m]
            for q in range(m):
                r_c[q] += r_h[q]
            if R_cs.shape[0] > 0:
                copy(r_c, R_cs[row : row + n].reshape(m))
            for q in range(m):
                s[q] = k[q] * r_c[q]
                s_sum[q] += s[q]
                kept[q] += leak_c[q] * r_c[q]
                size = max(abs(r_h[q]), abs(r_c[q]))
                top[q] = size if size > top[q] else top[q]
                r_c[q] *= c_to_c[q]
                r_h[q] = zero
        else:
            k_i, k_f, k_g, k_o = k[:m], k[m : 2 * m], k[2 * m : 3 * m], k[3 * m : 4 * m]
            s_i, s_f, s_g, s_o = s[:m], s[m : 2 * m], s[2 * m : 3 * m], s[3 * m :]
            c_to_c, h_to_c = k[4 * m : 5 * m], k[5 * m : 6 * m]
            for q in range(m):
                r_c[q] += h_to_c[q] * r_h[q]
                s_i[q] = k_i[q] * r_c[q]
                s_f[q] = k_f[q] * r_c[q]
                s_g[q] = k_g[q] * r_c[q]
                s_o[q] = k_o[q] * r_h[q]
            if R_cs.shape[0] > 0:
                copy(r_c, R_cs[row : row + n].reshape(m))
            if is_lrp:
                leak_c, leak_h = k[6 * m : 7 * m], k[7 * m : 8 * m]
                for q in range(m):
                    kept[q] += leak_c[q] * r_c[q] + leak_h[q] * r_h[q]
                    size = max(abs(r_h[q]), abs(r_c[q]))
                    top[q] = size if size > top[q] else top[q]
                for block in range(4):
                    s_sum, part = s_sums[block * n_0 * H :], s[block * m : (block + 1) * m]
                    for q in range(m):
                        s_sum[q] += part[q]
            if shares:  # what is left of each z, to all its D + H inputs alike
                spread = k[8 * m :]
                for q in range(n):
                    left = zero
                    for block in range(4):
                        source = r_h if block == 3 else r_c
                        for j in range(q * H, (q + 1) * H):
                            left += spread[block * m + j] * source[j]
                    alike[q] = left / Hs.dtype.type(H + D)
            for q in range(m):
                r_c[q] *= c_to_c[q]
                r_h[q] = zero
        for block in range(G):
            add_product(s[block * m : (block + 1) * m].reshape(n, H), W[block], carry[:n])
        if is_lrp:
            before = first[t - 1] + n_0 if t > 0 else 0
            h_prev = Hs[before : before + n].reshape(m)
            for q in range(m):
                r_h[q] *= h_prev[q]
        if shares:
            for q in range(m):
                r_h[q] += alike[q // H]
        if later:
            at = room - (end - row)
            for block in range(G):
                copy(s[block * m : (block + 1) * m], several[block][at : at + n].reshape(m))
            if t == 0 or end - first[t - 1] > room:
                to_inputs(several, U, order, row, end - row, X, is_lrp, alike, r_x, R_x)
                end = row
        elif wanted and D > 0:
            to_inputs(s.reshape(G, n, H), U, order, row, n, X, is_lrp, alike, r_x, R_x)
        elif wanted:
            to_words(s.reshape(G, n, H), order, row, ids, table, b, R_x)
    if R_0.shape[0] > 0:
        copy(carry.reshape(n_0 * H), R_0[:n_0].reshape(n_0 * H))
        copy(R_c, R_0[n_0:].reshape(n_0 * H))
    for q in range(n_0 if is_lrp else 0):
        for j in range(H):
            initial_state[q] += carry[q, j] + R_c[q * H + j]
            largest[q] = max(largest[q], tops[q * H + j])
            if not shares:
                stabiliser[q] += leaked[q * H + j]
                for block in range(G):
                    biases[q] += s_sums[(block * n_0 + q) * H + j] * b[2 if G == 1 else block, j]


def at(order, row):  # type: ignore[no-untyped-def]
    """Where a row is in X."""
    return order[row] if order.size > 0 else row


def to_inputs(s, U, order, row, n, X, is_lrp, alike, r_x, R_x) -> None:  # type: ignore[no-untyped-def]
    """R_x += s U, of all gates together; times x for LRP, and what all inputs get alike. s is (G, n or more, H)."""
    D = X.shape[1]
    zero, flat = r_x.dtype.type(0), r_x[:n].reshape(n * D)
    for q in range(n * D):
        flat[q] = zero
    for block in range(U.shape[0]):
        add_product(s[block][s.shape[1] - n :], U[block], r_x[:n])
    if order.size == 0:
        add(flat, X[row : row + n].reshape(n * D), is_lrp, R_x[row : row + n].reshape(n * D))
    for q in range(n if order.size > 0 else 0):
        add(r_x[q], X[order[row + q]], is_lrp, R_x[order[row + q]])
    for q in range(n if alike.size > 0 else 0):
        total = R_x[at(order, row + q)]
        for d in range(D):
            total[d] += alike[q]


def add(part, x, is_lrp, total) -> None:  # type: ignore[no-untyped-def]
    """total += part, times x for LRP."""
    if is_lrp:
        for q in range(part.size):
            total[q] += x[q] * part[q]
    else:
        for q in range(part.size):
            total[q] += part[q]


def to_words(s, order, row, ids, table, b, R_x) -> None:  # type: ignore[no-untyped-def]
    """The same for words that were looked up: R_x += s U x, not yet summed."""
    G, n, H = s.shape
    for q in range(n):
        here = at(order, row + q)
        projected, total = table[ids[here]], R_x[here]
        for block in range(G):
            gate = 2 if G == 1 else block
            part, u_x, bias = s[block, q], projected[gate * H : (gate + 1) * H], b[gate]
            for j in range(H):
                total[j] += part[j] * (u_x[j] - bias[j])


def overloads() -> None:
    """Let kernels call these functions."""
    from numba.extending import register_jitable

    for helper in (at, to_inputs, add, to_words):
        register_jitable(helper)
