"""The LSTM over a packed batch: forwards, with the coefficients of a backward pass, and the backward recursion.

A packed batch has its sequences longest first and the rows of one time step together: the `n = first[t+1] - first[t]`
sequences still running at step t have the rows first[t] to first[t+1]. Arrays with four gates are flat, and each step's
part of them is (4, n, H): a gate's block is contiguous, so that elementwise loops run over n * H numbers at once.

State arrays (rows, H) hold the state before step t from row at[t] on, and after it from row at[t+1] on. With
at = 0, n_0, n_0 + n_0, … every step is kept; with at = 0 everywhere the state is updated in place, and the rows of a
sequence that has ended stay as they are. The same trick keeps or drops the other parts of the trace (`keep` flags).
"""

from __future__ import annotations

from lrpnumpy.kernels.compile import I1, R1, R2, R4, W1, W2, Int, Scalar, kernel
from lrpnumpy.kernels.product import add_product
from lrpnumpy.kernels.steps import ABS, ALL, GRADIENT, HALF, PROP, activate, gradient_step, shares_step, signal_step


@kernel
def forward(
    X: R2,  # (R, D) inputs, or (R, 0) where `table` holds them projected already
    first: I1,  # (T+1,)
    ids: I1,  # (R,) row of `table` for each row
    table: R2,  # (any, 4 H) what is added to W h_prev + U x: the bias
    U: R4,  # packed (4, D, H)
    W: R4,  # packed (4, H, H)
    at: I1,  # (T+1,) where the states h are
    at_c: I1,  # (T+1,) where the states c are
    activation: Int,
    recurrent: Int,
    keep: Int,  # keep Z, A and Y of every step
    Z: W1,
    A: W1,
    C: W2,
    Y: W2,
    Hs: W2,
    P: W1,  # (4, n, H) a step: U x + b, or empty where nobody asks
    rule: Int,  # GRADIENT, ALL, PROP, ABS or HALF: what the coefficients of `backward` are for; NONE for none
    eps: Scalar,
    K: W1,  # (4, n, H) a step, or (1, n, H) with the rule ALL
    h_to_c: W2,  # (R, H), or (0, H) with the rule ALL
    c_to_c: W2,  # (R, H)
    leak_c: W2,  # (R, H), or (0, H) with GRADIENT
    leak_h: W2,  # (R, H), or (0, H) with GRADIENT and ALL
) -> None:
    """z = W h_prev + U x + b; i, f, o = sigm(z), g = tanh(z); c = f c_prev + i g; h = o tanh(c)."""
    H = C.shape[1]
    D = X.shape[1]
    for t in range(first.size - 1):
        row = first[t]
        n = first[t + 1] - row
        m = n * H
        start = row if keep else 0
        z = Z[4 * start * H : 4 * (start + n) * H]
        a = A[4 * start * H : 4 * (start + n) * H]
        y = Y[start : start + n].reshape(m)
        h_prev = Hs[at[t] : at[t] + n]
        c_prev = C[at_c[t] : at_c[t] + n].reshape(m)
        c = C[at_c[t + 1] : at_c[t + 1] + n].reshape(m)
        h = Hs[at[t + 1] : at[t + 1] + n].reshape(m)
        for k in range(4):
            block = z[k * m : (k + 1) * m]
            for s in range(n):
                bias = table[ids[row + s]][k * H : (k + 1) * H]
                target = block[s * H : (s + 1) * H]
                for j in range(H):
                    target[j] = bias[j]
            if D > 0:
                add_product(X[row : row + n], U[k], block.reshape(n, H))
            if P.size > 0:
                projected = P[4 * row * H + k * m : 4 * row * H + (k + 1) * m]
                for q in range(m):
                    projected[q] = block[q]
            add_product(h_prev, W[k], block.reshape(n, H))
        activate(z[: 2 * m], a[: 2 * m], recurrent)
        activate(z[2 * m : 3 * m], a[2 * m : 3 * m], activation)
        activate(z[3 * m :], a[3 * m :], recurrent)
        i = a[:m]
        f = a[m : 2 * m]
        g = a[2 * m : 3 * m]
        o = a[3 * m :]
        for q in range(m):
            c[q] = f[q] * c_prev[q] + i[q] * g[q]
        activate(c, y, activation)
        for q in range(m):
            h[q] = o[q] * y[q]
        if rule == GRADIENT:
            k4 = K[4 * row * H : 4 * (row + n) * H]
            hc = h_to_c[row : row + n].reshape(m)
            gradient_step(a, y, c_prev, activation, recurrent, k4, hc, c_to_c[row : row + n].reshape(m))
        elif rule == ALL:
            k1 = K[row * H : (row + n) * H]
            lc = leak_c[row : row + n].reshape(m)
            signal_step(z, a, c_prev, c, eps, k1, c_to_c[row : row + n].reshape(m), lc)
        elif rule > ALL:
            k4 = K[4 * row * H : 4 * (row + n) * H]
            hc, cc = h_to_c[row : row + n].reshape(m), c_to_c[row : row + n].reshape(m)
            lc, lh = leak_c[row : row + n].reshape(m), leak_h[row : row + n].reshape(m)
            if rule == PROP:
                shares_step(PROP, z, a, y, c_prev, c, eps, k4, hc, cc, lc, lh)
            elif rule == ABS:
                shares_step(ABS, z, a, y, c_prev, c, eps, k4, hc, cc, lc, lh)
            else:
                shares_step(HALF, z, a, y, c_prev, c, eps, k4, hc, cc, lc, lh)


@kernel
def backward(
    K: R1,  # (G, n, H) a step: from R_c to z of the gates i, f, g (or g alone), and from R_h to z of o
    first: I1,
    h_to_c: R2,  # (R, H), or (0, H) where all of R_h goes to c
    c_to_c: R2,  # (R, H)
    at: I1,
    Hs: R2,  # states h, from which LRP's messages to h_prev are formed
    X: R2,  # (R, D) inputs, likewise; or (R, 0) where they were looked up in `table`
    ids: I1,  # (R,)
    table: R2,  # (any, 4 H) U x + b
    b: R1,  # (4 H,)
    W: R4,  # packed (G, H, H)
    U: R4,  # packed (G, H, D)
    is_lrp: Int,  # multiply by h_prev and x
    R_every: R2,  # (R, H) what arrives at h_t from above, or (0, H)
    keep: Int,  # keep s, R_h, R_c of every step
    carry: W2,  # (n_0, H) in: what arrives at the last h of each sequence; out: what arrives at h0
    R_c: W2,  # (n_0, H) in: 0; out: what arrives at c0
    S: W1,  # (G, n, H) a step
    R_hs: W2,  # (R, H) total at h_t
    R_cs: W2,  # (R, H) total at c_t
    R_x: W2,  # (R, D), or (0, D) where nobody asks; (R, H) with X (R, 0): s times U x, to be summed for each word
    leak_c: R2,  # (R, H) share of R_c that the stabilisers keep, or (0, H)
    leak_h: R2,  # (R, H) the same of R_h
    leaked: W2,  # (n_0, H) in: 0; out: what they kept in each sequence
    spread: R1,  # (G, n, H) a step: share of R_c (R_h for o) that goes to all inputs of z alike, or empty
    alike: W1,  # (n_0,) room for that
    S_sum: W1,  # (G, n_0, H) in: 0; out: sum of s over the steps; or empty, with `largest`
    largest: W2,  # (n_0, H) in: 0; out: the largest |R_h| or |R_c|; or (0, H)
) -> None:
    """The one backward recursion: messages are linear in R, the coefficients say by which rule."""
    H = carry.shape[1]
    G = W.shape[0]
    zero = carry.dtype.type(0)
    for t in range(first.size - 2, -1, -1):
        row = first[t]
        n = first[t + 1] - row
        m = n * H
        start = row if keep else 0
        r_h = carry[:n].reshape(m)
        r_c = R_c[:n].reshape(m)
        k = K[G * row * H : G * (row + n) * H]
        s = S[G * start * H : G * (start + n) * H]
        if R_every.shape[0] > 0:
            above = R_every[row : row + n].reshape(m)
            for q in range(m):
                r_h[q] += above[q]
        if keep:
            kept_h = R_hs[row : row + n].reshape(m)
            for q in range(m):
                kept_h[q] = r_h[q]
        if G == 1:
            for q in range(m):
                r_c[q] += r_h[q]
                s[q] = k[q] * r_c[q]
        else:
            hc = h_to_c[row : row + n].reshape(m)
            s_i, s_f, s_g, s_o = s[:m], s[m : 2 * m], s[2 * m : 3 * m], s[3 * m :]
            k_i, k_f, k_g, k_o = k[:m], k[m : 2 * m], k[2 * m : 3 * m], k[3 * m :]
            for q in range(m):
                r_c[q] += hc[q] * r_h[q]
                s_i[q] = k_i[q] * r_c[q]
                s_f[q] = k_f[q] * r_c[q]
                s_g[q] = k_g[q] * r_c[q]
                s_o[q] = k_o[q] * r_h[q]
        if keep:
            kept_c = R_cs[row : row + n].reshape(m)
            for q in range(m):
                kept_c[q] = r_c[q]
        if largest.shape[0] > 0:
            top = largest[:n].reshape(m)
            for q in range(m):
                size = max(abs(r_h[q]), abs(r_c[q]))
                top[q] = size if size > top[q] else top[q]
            for block in range(G):
                total = S_sum[block * carry.size : block * carry.size + m]
                part = s[block * m : (block + 1) * m]
                for q in range(m):
                    total[q] += part[q]
        if leak_c.shape[0] > 0:
            lc = leak_c[row : row + n].reshape(m)
            kept = leaked[:n].reshape(m)
            for q in range(m):
                kept[q] += lc[q] * r_c[q]
        if leak_h.shape[0] > 0:
            lh = leak_h[row : row + n].reshape(m)
            kept = leaked[:n].reshape(m)
            for q in range(m):
                kept[q] += lh[q] * r_h[q]
        if spread.size > 0:  # what is left of each z, to all its D + H inputs alike
            part = spread[G * row * H : G * (row + n) * H]
            for q in range(n):
                left = zero
                for block in range(G):
                    source = r_h if block == 3 else r_c
                    for j in range(q * H, (q + 1) * H):
                        left += part[block * m + j] * source[j]
                alike[q] = left / carry.dtype.type(H + R_x.shape[1])
        cc = c_to_c[row : row + n].reshape(m)
        for q in range(m):
            r_c[q] *= cc[q]
            r_h[q] = zero
        for block in range(G):
            add_product(s[block * m : (block + 1) * m].reshape(n, H), W[block], carry[:n])
        if is_lrp:
            h_prev = Hs[at[t] : at[t] + n].reshape(m)
            for q in range(m):
                r_h[q] *= h_prev[q]
        if spread.size > 0:
            for q in range(m):
                r_h[q] += alike[q // H]
        if R_x.shape[0] > 0 and X.shape[1] == 0:
            for q in range(n):
                projected, r_word = table[ids[row + q]], R_x[row + q]
                for block in range(G):
                    gate = 2 if G == 1 else block
                    u_x, bias = projected[gate * H : (gate + 1) * H], b[gate * H : (gate + 1) * H]
                    part = s[block * m + q * H : block * m + (q + 1) * H]
                    if block == 0:
                        for j in range(H):
                            r_word[j] = part[j] * (u_x[j] - bias[j])
                    else:
                        for j in range(H):
                            r_word[j] += part[j] * (u_x[j] - bias[j])
        elif R_x.shape[0] > 0:
            r_x = R_x[row : row + n]
            for q in range(n):
                for d in range(r_x.shape[1]):
                    r_x[q, d] = zero
            for block in range(G):
                add_product(s[block * m : (block + 1) * m].reshape(n, H), U[block], r_x)
            if is_lrp:
                x = X[row : row + n]
                for q in range(n):
                    for d in range(x.shape[1]):
                        r_x[q, d] *= x[q, d]
            if spread.size > 0:
                for q in range(n):
                    for d in range(r_x.shape[1]):
                        r_x[q, d] += alike[q]
