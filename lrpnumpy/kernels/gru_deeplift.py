"""DeepLIFT through a GRU: the coefficients of its way back, from what was kept of a sequence and of its reference.

They have the layout of the gradient's in `gru.py`, and `gru.backward` takes them. With s(z) for the mean slope of an
activation on the way from the reference, and ~ for the mean of a value and the reference's,

    K_z = s(Z) (h_prev~ - n~),  K_n = s(N) (1 - z~),  h_to_h = z~
    reset after the product:   K_r = s(R) u~ K_n,    K_u = r~ K_n
    reset before the product:  K_r = s(R) h_prev~,   K_u = r~
"""

from __future__ import annotations

import numpy as np

from lrpnumpy.kernels.compile import I1, R1, R2, W1, kernel
from lrpnumpy.kernels.inputs import states_before
from lrpnumpy.kernels.secants import kept_of_reference, secants, states_of_reference
from lrpnumpy.kernels.steps import part


@kernel
def coefficients(
    kept: R1,  # (7, n, H) a step, see gru.forward
    Hs: R2,  # (n_0 + R, H) states h
    kept_0: R1,  # the same two of the references; or (7, 1, H) and (1 + T, H) of the longest, which all begin like
    Hs_0: R2,
    first: I1,  # (T+1,)
    codes: I1,  # activation, recurrent activation, any, and 1 for reset after
    K: W1,  # (5, n, H) a step: out
) -> None:
    """Coefficients of DeepLIFT."""
    H = Hs.shape[1]
    activation, recurrent, reset_after = codes[0], codes[1], codes[3]
    half, one = Hs.dtype.type(0.5), Hs.dtype.type(1)
    room, states = np.empty(7 * first[1] * H, Hs.dtype), np.empty(first[1] * H, Hs.dtype)
    for t in range(first.size - 1):
        row, m = first[t], (first[t + 1] - first[t]) * H
        step, step_0, k = part(kept, 7 * row * H, 7 * m), part(room, 0, 7 * m), part(K, 5 * row * H, 5 * m)
        kept_of_reference(kept_0, 7, t, first, H, step_0)
        h_prev, h_prev_0 = part(Hs, states_before(first, t) * H, m), part(states, 0, m)
        states_of_reference(Hs_0, t, first, h_prev_0)
        z, r, c, u = part(step, 3 * m, m), part(step, 4 * m, m), part(step, 5 * m, m), part(step, 6 * m, m)
        z_0, r_0 = part(step_0, 3 * m, m), part(step_0, 4 * m, m)
        c_0, u_0 = part(step_0, 5 * m, m), part(step_0, 6 * m, m)
        K_z, K_r, K_n, K_u = part(k, 0, m), part(k, m, m), part(k, 2 * m, m), part(k, 3 * m, m)
        h_to_h = part(k, 4 * m, m)
        gates, gates_0 = part(step, 3 * m, 2 * m), part(step_0, 3 * m, 2 * m)
        secants(part(step, 0, 2 * m), part(step_0, 0, 2 * m), gates, gates_0, part(k, 0, 2 * m), recurrent)
        secants(part(step, 2 * m, m), part(step_0, 2 * m, m), c, c_0, K_n, activation)
        for q in range(m):
            K_z[q] *= half * (h_prev[q] + h_prev_0[q] - c[q] - c_0[q])
            K_n[q] *= one - half * (z[q] + z_0[q])
            h_to_h[q] = half * (z[q] + z_0[q])
        if reset_after:
            for q in range(m):
                K_r[q] *= K_n[q] * half * (u[q] + u_0[q])
                K_u[q] = K_n[q] * half * (r[q] + r_0[q])
        else:
            for q in range(m):
                K_r[q] *= half * (h_prev[q] + h_prev_0[q])
                K_u[q] = half * (r[q] + r_0[q])
