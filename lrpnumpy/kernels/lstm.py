"""The LSTM over a packed batch: forwards, the coefficients of a backward pass, and the backward recursion.

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
from lrpnumpy.kernels.steps import ALL, activate, differentiate, inverse, share


@kernel
def forward(
    X: R2,  # (R, D) inputs, or (R, 0) where `table` holds them projected already
    first: I1,  # (T+1,)
    ids: I1,  # (R,) row of `table` for each row
    table: R2,  # (any, 4 H) what is added to W h_prev + U x: the bias
    U: R4,  # packed (4, D, H)
    W: R4,  # packed (4, H, H)
    at: I1,  # (T+1,) where the states are
    activation: Int,
    recurrent: Int,
    keep: Int,  # keep Z, A and Y of every step
    Z: W1,
    A: W1,
    C: W2,
    Y: W2,
    Hs: W2,
    P: W1,  # (4, n, H) a step: U x + b, or empty where nobody asks
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
        c_prev = C[at[t] : at[t] + n].reshape(m)
        c = C[at[t + 1] : at[t + 1] + n].reshape(m)
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


@kernel
def gradient_coefficients(
    A: R1,
    first: I1,
    at: I1,
    activation: Int,
    recurrent: Int,
    C: R2,
    Y: R2,
    K: W1,  # (4, n, H) a step: from R_c to z of i, f, g, and from R_h to z of o
    h_to_c: W2,  # (R, H)
    c_to_c: W2,  # (R, H)
) -> None:
    """Partial derivatives of one step."""
    H = C.shape[1]
    for t in range(first.size - 1):
        row = first[t]
        n = first[t + 1] - row
        m = n * H
        a = A[4 * row * H : 4 * (row + n) * H]
        k = K[4 * row * H : 4 * (row + n) * H]
        i = a[:m]
        f = a[m : 2 * m]
        g = a[2 * m : 3 * m]
        o = a[3 * m :]
        y = Y[row : row + n].reshape(m)
        c_prev = C[at[t] : at[t] + n].reshape(m)
        hc = h_to_c[row : row + n].reshape(m)
        cc = c_to_c[row : row + n].reshape(m)
        differentiate(a[: 2 * m], k[: 2 * m], recurrent)
        differentiate(g, k[2 * m : 3 * m], activation)
        differentiate(o, k[3 * m :], recurrent)
        differentiate(y, hc, activation)
        for q in range(m):
            k[q] *= g[q]
            k[m + q] *= c_prev[q]
            k[2 * m + q] *= i[q]
            k[3 * m + q] *= y[q]
            hc[q] *= o[q]
            cc[q] = f[q]


@kernel
def backward(
    K: R1,  # (G, n, H) a step: from R_c to z of the gates i, f, g (or g alone), and from R_h to z of o
    first: I1,
    h_to_c: R2,  # (R, H), or (0, H) where all of R_h goes to c
    c_to_c: R2,  # (R, H)
    at: I1,
    Hs: R2,  # states h, from which LRP's messages to h_prev are formed
    X: R2,  # (R, D) inputs, likewise
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
    R_x: W2,  # (R, D), or (0, D) where nobody asks
    leak_c: R2,  # (R, H) share of R_c that the stabilisers keep, or (0, H)
    leak_h: R2,  # (R, H) the same of R_h
    leaked: W2,  # (n_0, H) in: 0; out: what they kept in each sequence
    spread: R1,  # (G, n, H) a step: share of R_c (R_h for o) that goes to all inputs of z alike, or empty
    alike: W1,  # (n_0,) room for that
    S_sum: W1,  # (G, n_0, H) in: 0; out: sum of s over the steps; or empty
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
        if h_to_c.shape[0] > 0:
            hc = h_to_c[row : row + n].reshape(m)
            for q in range(m):
                r_c[q] += hc[q] * r_h[q]
        else:
            for q in range(m):
                r_c[q] += r_h[q]
        for block in range(min(G, 3)):
            for q in range(m):
                s[block * m + q] = k[block * m + q] * r_c[q]
        if G == 4:
            for q in range(m):
                s[3 * m + q] = k[3 * m + q] * r_h[q]
        if S_sum.size > 0:
            for block in range(G):
                total = S_sum[block * carry.size : block * carry.size + m]
                part = s[block * m : (block + 1) * m]
                for q in range(m):
                    total[q] += part[q]
        if largest.shape[0] > 0:
            top = largest[:n].reshape(m)
            for q in range(m):
                size = max(abs(r_h[q]), abs(r_c[q]))
                top[q] = size if size > top[q] else top[q]
        if keep:
            kept_h = R_hs[row : row + n].reshape(m)
            kept_c = R_cs[row : row + n].reshape(m)
            for q in range(m):
                kept_h[q] = r_h[q]
                kept_c[q] = r_c[q]
        if leak_c.shape[0] > 0:
            leak = leak_c[row : row + n].reshape(m)
            kept = leaked[:n].reshape(m)
            for q in range(m):
                kept[q] += leak[q] * r_c[q]
        if leak_h.shape[0] > 0:
            leak = leak_h[row : row + n].reshape(m)
            kept = leaked[:n].reshape(m)
            for q in range(m):
                kept[q] += leak[q] * r_h[q]
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
        if R_x.shape[0] > 0:
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


@kernel
def lrp_coefficients(
    Z: R1,
    A: R1,
    first: I1,
    at: I1,
    rule: Int,
    eps: Scalar,
    C: R2,
    Y: R2,
    K: W1,  # (4, n, H) a step, or (1, n, H) with the rule ALL
    h_to_c: W2,  # (R, H), or (0, H) with the rule ALL
    c_to_c: W2,
    leak_c: W2,
    leak_h: W2,  # (R, H), or (0, H) with the rule ALL
) -> None:
    """Shares of one step's messages under the epsilon rule and a product rule, and what the stabilisers keep."""
    H = C.shape[1]
    for t in range(first.size - 1):
        row = first[t]
        n = first[t + 1] - row
        m = n * H
        z = Z[4 * row * H : 4 * (row + n) * H]
        a = A[4 * row * H : 4 * (row + n) * H]
        i = a[:m]
        f = a[m : 2 * m]
        g = a[2 * m : 3 * m]
        o = a[3 * m :]
        y = Y[row : row + n].reshape(m)
        c_prev = C[at[t] : at[t] + n].reshape(m)
        c = C[at[t + 1] : at[t + 1] + n].reshape(m)
        cc = c_to_c[row : row + n].reshape(m)
        lc = leak_c[row : row + n].reshape(m)
        if rule == ALL:
            k_g = K[row * H : (row + n) * H]
            z_g = z[2 * m : 3 * m]
            for q in range(m):
                over, lost = inverse(c[q], eps)
                to_g = i[q] * g[q] * over
                gain, lost_z = inverse(z_g[q], eps)
                cc[q] = f[q] * c_prev[q] * over
                k_g[q] = to_g * gain
                lc[q] = lost + to_g * lost_z
        else:
            k = K[4 * row * H : 4 * (row + n) * H]
            hc = h_to_c[row : row + n].reshape(m)
            lh = leak_h[row : row + n].reshape(m)
            for q in range(m):
                over, lost = inverse(c[q], eps)
                A_, B_ = f[q] * c_prev[q] * over, i[q] * g[q] * over
                gate_f, signal_f, lost_f = share(rule, f[q], c_prev[q], eps)
                gate_i, signal_i, lost_i = share(rule, i[q], g[q], eps)
                gate_o, signal_o, lost_o = share(rule, o[q], y[q], eps)
                gain_i, lost_zi = inverse(z[q], eps)
                gain_f, lost_zf = inverse(z[m + q], eps)
                gain_g, lost_zg = inverse(z[2 * m + q], eps)
                gain_o, lost_zo = inverse(z[3 * m + q], eps)
                hc[q] = signal_o
                cc[q] = A_ * signal_f
                k[q] = B_ * gate_i * gain_i
                k[m + q] = A_ * gate_f * gain_f
                k[2 * m + q] = B_ * signal_i * gain_g
                k[3 * m + q] = gate_o * gain_o
                lc[q] = (
                    lost
                    + A_ * (lost_f + gate_f * lost_zf)
                    + B_ * (lost_i + gate_i * lost_zi + signal_i * lost_zg)
                )
                lh[q] = lost_o + gate_o * lost_zo
