"""An LSTM with one hidden unit, forwards and back, as compiled loops: the training of the toy task.

The sequences of a batch take every step together. They are sorted, longest first, and the
rows of one step follow each other: three sequences of 3, 2 and 1 steps have the rows

    step 0: a0 b0 c0   step 1: a1 b1   step 2: a2        first = 0, 3, 5, 6

P (4, 4) holds all weights of the unit: a row for each gate i, f, g, o, a column for each of x_0, x_1, h_prev and 1.
"""

from __future__ import annotations

from lrpnumpy.kernels.arguments import I1, R2, W1, W2
from lrpnumpy.kernels.compile import Kernel
from lrpnumpy.kernels.elementary import sigmoid, tanh


@Kernel
def forward(
    P: R2,  # (4, 4)
    first: I1,  # (T+1,) the first row of each step
    inputs: W2,  # (4, R) what P is multiplied by; in: x_0, x_1, anything, 1; out: h_prev in row 2
    trace: W2,  # (6, R) out: i, f, g, o, tanh(c), c_prev
    h: W1,  # (N,) in: 0; out: the last one of each sequence
    c: W1,  # (N,) in: 0; out: the same
) -> None:
    """Run all sequences and keep what `backward` needs."""
    for t in range(first.size - 1):
        rows, n = slice(first[t], first[t + 1]), first[t + 1] - first[t]
        x_0, x_1, h_prev = inputs[0][rows], inputs[1][rows], inputs[2][rows]
        i, f, g, o = trace[0][rows], trace[1][rows], trace[2][rows], trace[3][rows]
        tanh_c, c_prev = trace[4][rows], trace[5][rows]
        h_prev[:] = h[:n]
        c_prev[:] = c[:n]
        for k in range(4):
            u_0, u_1, w, b, y = P[k, 0], P[k, 1], P[k, 2], P[k, 3], trace[k][rows]
            if k == 2:
                for q in range(n):
                    y[q] = tanh(u_0 * x_0[q] + u_1 * x_1[q] + w * h_prev[q] + b)
            else:
                for q in range(n):
                    y[q] = sigmoid(u_0 * x_0[q] + u_1 * x_1[q] + w * h_prev[q] + b)
        for q in range(n):
            c[q] = i[q] * g[q] + f[q] * c_prev[q]
        for q in range(n):
            tanh_c[q] = tanh(c[q])
        for q in range(n):
            h[q] = o[q] * tanh_c[q]


@Kernel
def backward(
    P: R2,  # (4, 4)
    first: I1,  # (T+1,)
    trace: R2,  # (6, R)
    R_h: W1,  # (N,) in: the derivative of the error by each last h; out: of no use
    R_c: W1,  # (N,) in: 0; out: of no use
    s: W2,  # (4, R) out: the derivatives of the error by z of i, f, g, o
) -> None:
    """The gradient at every pre-activation; s @ inputs.T is then that of P."""
    w_i, w_f, w_g, w_o = P[0, 2], P[1, 2], P[2, 2], P[3, 2]
    for t in range(first.size - 2, -1, -1):
        rows, n = slice(first[t], first[t + 1]), first[t + 1] - first[t]
        i, f, g, o = trace[0][rows], trace[1][rows], trace[2][rows], trace[3][rows]
        tanh_c, c_prev = trace[4][rows], trace[5][rows]
        s_i, s_f, s_g, s_o = s[0][rows], s[1][rows], s[2][rows], s[3][rows]
        for q in range(n):
            to_c = R_c[q] + R_h[q] * o[q] * (1 - tanh_c[q] * tanh_c[q])
            s_i[q] = to_c * g[q] * i[q] * (1 - i[q])
            s_f[q] = to_c * c_prev[q] * f[q] * (1 - f[q])
            s_g[q] = to_c * i[q] * (1 - g[q] * g[q])
            s_o[q] = R_h[q] * tanh_c[q] * o[q] * (1 - o[q])
            R_c[q] = to_c * f[q]
            R_h[q] = w_i * s_i[q] + w_f * s_f[q] + w_g * s_g[q] + w_o * s_o[q]
