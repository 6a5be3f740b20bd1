"""Many variants of the same sequences through one direction of an LSTM, each from where it begins to differ.

A variant v of sequence owner[v] has inputs of its own in the steps from lo[v] to hi[v]; before them its states are those
of the sequence itself, and from hi[v] on it gets the sequence's own, already projected inputs, so that W h_prev is all
that is left to do. It leaves out the steps from gap_start[v] to gap_stop[v].

Variants need not be at the same step to go through the same matrix product. So there is a queue: at each turn all
places are filled from it, every variant in a place goes one step further, and the place of one that is through is free.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from lrpnumpy.kernels.compile import I1, R2, R4, W1, W2, Int, Scalar, kernel
from lrpnumpy.kernels.product import add_product
from lrpnumpy.kernels.steps import activate

J1 = Annotated[np.ndarray, "int", 1, "write"]


@kernel
def run(
    P: R2,  # (R, 4 H) U x + b of the sequences, packed rows
    first: I1,  # (T+1,)
    at: I1,  # (T+1,) where the state before each step is
    C: R2,  # (n_0 + R, H) cell states of the sequences
    Hs: R2,  # (n_0 + R, H) hidden states of the sequences
    W: R4,  # packed (4, H, H)
    activation: Int,
    recurrent: Int,
    queue: I1,  # (V,) variants in the order in which they begin
    owner: I1,  # (V,)
    lo: I1,  # (V,)
    hi: I1,  # (V,)
    end: I1,  # (V,) how many steps to go
    gap_start: I1,  # (V,)
    gap_stop: I1,  # (V,)
    own: I1,  # (V,) row of Q of step lo
    stride: Int,  # from one step's row of Q to that of the next
    Q: R2,  # (any, 4 H) U x + b of the variants' own inputs
    tol: Scalar,  # a variant that is back within tol of the sequence's states stops; 0: none does
    keep: Int,  # 1: out has the outputs of every step from lo to done; 0: the last ones
    out_at: I1,  # (V,) row of `out` for step lo, or for the last step
    which: J1,  # (places,) variant in each place
    now: J1,  # (places,) its next step
    z: W1,  # (4, places, H)
    a: W1,  # (4, places, H)
    y: W1,  # (places, H)
    c_now: W2,  # (places, H)
    h_now: W2,  # (places, H)
    out: W2,  # (any, H)
    done: J1,  # (V,) step from which on the variant is as the sequence, or `end`
) -> None:
    """Outputs h of the variants."""
    H = C.shape[1]
    waiting = 0
    n = 0
    while n > 0 or waiting < queue.size:
        while n < which.size and waiting < queue.size:
            v = queue[waiting]
            waiting += 1
            t = min(lo[v], end[v])
            row = at[t] + owner[v]
            h_now[n] = Hs[row]
            c_now[n] = C[row]
            if t == gap_start[v]:
                t = gap_stop[v]
            if t < end[v]:
                which[n] = v
                now[n] = t
                n += 1
            else:
                done[v] = t
                if not keep:
                    out[out_at[v]] = h_now[n]
        if n == 0:
            break
        m = n * H
        for q in range(n):
            v = which[q]
            t = now[q]
            x = Q[own[v] + stride * (t - lo[v])] if t < hi[v] else P[first[t] + owner[v]]
            for k in range(4):
                source = x[k * H : (k + 1) * H]
                target = z[k * m + q * H : k * m + (q + 1) * H]
                for j in range(H):
                    target[j] = source[j]
        for k in range(4):
            add_product(h_now[:n], W[k], z[k * m : (k + 1) * m].reshape(n, H))
        activate(z[: 2 * m], a[: 2 * m], recurrent)
        activate(z[2 * m : 3 * m], a[2 * m : 3 * m], activation)
        activate(z[3 * m : 4 * m], a[3 * m : 4 * m], recurrent)
        i = a[:m]
        f = a[m : 2 * m]
        g = a[2 * m : 3 * m]
        o = a[3 * m : 4 * m]
        c = c_now[:n].reshape(m)
        h = h_now[:n].reshape(m)
        tanh_c = y[:m]
        for q in range(m):
            c[q] = f[q] * c[q] + i[q] * g[q]
        activate(c, tanh_c, activation)
        for q in range(m):
            h[q] = o[q] * tanh_c[q]
        q = 0
        while q < n:
            v = which[q]
            t = now[q]
            if keep:
                out[out_at[v] + t - lo[v]] = h_now[q]
            t += 1
            if t == gap_start[v]:
                t = gap_stop[v]
            through = t >= end[v]
            if through and not keep:
                out[out_at[v]] = h_now[q]
            if tol > 0 and not through and t >= hi[v]:
                row = at[t] + owner[v]
                h_true, c_true, h_v, c_v = Hs[row], C[row], h_now[q], c_now[q]
                j = 0
                while j < H and abs(h_v[j] - h_true[j]) <= tol and abs(c_v[j] - c_true[j]) <= tol:
                    j += 1
                through = j == H
                if through and not keep:
                    out[out_at[v]] = Hs[at[end[v]] + owner[v]]
            if through:
                done[v] = t
                n -= 1
                which[q] = which[n]
                now[q] = now[n]
                h_now[q] = h_now[n]
                c_now[q] = c_now[n]
            else:
                now[q] = t
                q += 1
