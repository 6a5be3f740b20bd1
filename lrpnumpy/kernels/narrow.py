"""Squared error and its gradient for an LSTM with one hidden unit: the training of the toy task.

Beside the general kernels because a network of 17 weights is all elementwise work. Here the sequences of a
packed batch are the lanes: tiles of them go through all steps, forwards and back, while their trace stays in
the cache.
"""

from __future__ import annotations

from lrpnumpy.kernels.compile import I1, R1, R2, W2, kernel
from lrpnumpy.kernels.steps import activate


@kernel
def squared_error(
    X: R2,  # (D, R) inputs, packed rows
    first: I1,  # (T+1,)
    y: R1,  # (n,) targets, longest sequence first
    U: R2,  # (4, D)
    W: R1,  # (4,)
    b: R1,  # (4,)
    V: R1,  # (1,)
    trace: W2,  # (7 (T+1), tile) i, f, g, o, tanh(c), c, h of each step; the first 7 rows are 0
    message: W2,  # (6, tile) s of i, f, g, o, then R_h and R_c
    sums: W2,  # (4 (D+2) + 2, tile) in: 0; out, to be summed: of each gate dU, dW, db; then dV and the error
) -> None:
    """Sum over sequences of (V h_T - y)^2, and its derivatives."""
    D = X.shape[0]
    T = first.size - 1
    tile = trace.shape[1]
    one = X.dtype.type(1)
    zero = X.dtype.type(0)
    v = V[0]
    for start in range(0, y.size, tile):
        for t in range(T):
            n = min(first[t + 1] - first[t] - start, tile)
            if n <= 0:
                break
            row = first[t] + start
            c_prev = trace[7 * t + 5][:n]
            h_prev = trace[7 * t + 6][:n]
            step = trace[7 * (t + 1) : 7 * (t + 2)]
            z = message[0][:n]  # not in place: the loops would not be vectorised
            for k in range(4):
                w, bias = W[k], b[k]
                for q in range(n):
                    z[q] = bias + w * h_prev[q]
                for d in range(D):
                    u, x = U[k, d], X[d][row : row + n]
                    for q in range(n):
                        z[q] += u * x[q]
                activate(z, step[k][:n], 1 if k == 2 else 0)
            i, f, g, o = step[0][:n], step[1][:n], step[2][:n], step[3][:n]
            a, c, h = step[4][:n], step[5][:n], step[6][:n]
            for q in range(n):
                c[q] = i[q] * g[q] + f[q] * c_prev[q]
            activate(c, a, 1)
            for q in range(n):
                h[q] = o[q] * a[q]
        running = 0  # how many sequences of the tile go on after this step
        for t in range(T - 1, -1, -1):
            n = min(first[t + 1] - first[t] - start, tile)
            if n <= 0:
                continue
            row = first[t] + start
            c_prev = trace[7 * t + 5][:n]
            h_prev = trace[7 * t + 6][:n]
            step = trace[7 * (t + 1) : 7 * (t + 2)]
            i, f, g, o = step[0][:n], step[1][:n], step[2][:n], step[3][:n]
            a, h = step[4][:n], step[6][:n]
            s_i, s_f, s_g, s_o = message[0][:n], message[1][:n], message[2][:n], message[3][:n]
            R_h, R_c = message[4][:n], message[5][:n]
            dV, error = sums[4 * (D + 2)], sums[4 * (D + 2) + 1]
            for q in range(running, n):  # the last step of these
                over = v * h[q] - y[start + q]
                error[q] += over * over
                dV[q] += (over + over) * h[q]
                R_h[q] = (over + over) * v
                R_c[q] = zero
            running = n
            for q in range(n):
                to_c = R_c[q] + R_h[q] * o[q] * (one - a[q] * a[q])
                s_i[q] = to_c * g[q] * i[q] * (one - i[q])
                s_f[q] = to_c * c_prev[q] * f[q] * (one - f[q])
                s_g[q] = to_c * i[q] * (one - g[q] * g[q])
                s_o[q] = R_h[q] * a[q] * o[q] * (one - o[q])
                R_c[q] = to_c * f[q]
                R_h[q] = W[0] * s_i[q] + W[1] * s_f[q] + W[2] * s_g[q] + W[3] * s_o[q]
            for k in range(4):
                s = message[k][:n]
                block = sums[k * (D + 2) : (k + 1) * (D + 2)]
                for d in range(D):
                    dU, x = block[d][:n], X[d][row : row + n]
                    for q in range(n):
                        dU[q] += s[q] * x[q]
                dW, db = block[D][:n], block[D + 1][:n]
                for q in range(n):
                    dW[q] += s[q] * h_prev[q]
                    db[q] += s[q]
