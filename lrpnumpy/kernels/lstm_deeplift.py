"""DeepLIFT through an LSTM: the coefficients of its way back, from what was kept of a sequence and of its reference.

They have the layout of the gradient's in `lstm.py`, and `lstm.backward` takes them. With s(z) for the mean slope of an
activation on the way from the reference, and ~ for the mean of a value and the reference's,

    K_i = s(z_i) g~,  K_f = s(z_f) c_prev~,  K_g = s(z_g) i~,  K_o = s(z_o) tanh(c)~,  c_to_c = f~,  h_to_c = s(c) o~.
"""

from __future__ import annotations

import numpy as np

from lrpnumpy.kernels.compile import I1, R1, R2, W1, kernel
from lrpnumpy.kernels.inputs import states_before
from lrpnumpy.kernels.secants import kept_of_reference, secants, states_of_reference
from lrpnumpy.kernels.steps import part


@kernel
def coefficients(
    kept: R1,  # (9, n, H) a step, see lstm.forward
    C: R2,  # (n_0 + R, H) states c
    kept_0: R1,  # the same two of the references; or (9, 1, H) and (1 + T, H) of the longest, which all begin like
    C_0: R2,
    first: I1,  # (T+1,)
    codes: I1,  # activation, recurrent activation
    K: W1,  # (6, n, H) a step: out
) -> None:
    """Coefficients of DeepLIFT."""
    H = C.shape[1]
    activation, recurrent = codes[0], codes[1]
    half = C.dtype.type(0.5)
    room, states = np.empty(9 * first[1] * H, C.dtype), np.empty((2, first[1] * H), C.dtype)
    for t in range(first.size - 1):
        row, m = first[t], (first[t + 1] - first[t]) * H
        step, step_0, k = part(kept, 9 * row * H, 9 * m), part(room, 0, 9 * m), part(K, 6 * row * H, 6 * m)
        kept_of_reference(kept_0, 9, t, first, H, step_0)
        c_prev, c = part(C, states_before(first, t) * H, m), part(C, states_before(first, t + 1) * H, m)
        c_prev_0, c_0 = part(states, 0, m), part(states, m, m)
        states_of_reference(C_0, t, first, c_prev_0)
        states_of_reference(C_0, t + 1, first, c_0)
        i, f, g, o, y = (
            part(step, 4 * m, m),
            part(step, 5 * m, m),
            part(step, 6 * m, m),
            part(step, 7 * m, m),
            part(step, 8 * m, m),
        )
        i_0, f_0, g_0, o_0, y_0 = (
            part(step_0, 4 * m, m),
            part(step_0, 5 * m, m),
            part(step_0, 6 * m, m),
            part(step_0, 7 * m, m),
            part(step_0, 8 * m, m),
        )
        K_i, K_f, K_g, K_o = part(k, 0, m), part(k, m, m), part(k, 2 * m, m), part(k, 3 * m, m)
        c_to_c, h_to_c = part(k, 4 * m, m), part(k, 5 * m, m)
        gates, gates_0 = part(step, 4 * m, 2 * m), part(step_0, 4 * m, 2 * m)
        secants(part(step, 0, 2 * m), part(step_0, 0, 2 * m), gates, gates_0, part(k, 0, 2 * m), recurrent)
        secants(part(step, 2 * m, m), part(step_0, 2 * m, m), g, g_0, K_g, activation)
        secants(part(step, 3 * m, m), part(step_0, 3 * m, m), o, o_0, K_o, recurrent)
        secants(c, c_0, y, y_0, h_to_c, activation)
        for q in range(m):
            K_i[q] *= half * (g[q] + g_0[q])
            K_f[q] *= half * (c_prev[q] + c_prev_0[q])
            K_g[q] *= half * (i[q] + i_0[q])
            K_o[q] *= half * (y[q] + y_0[q])
            h_to_c[q] *= half * (o[q] + o_0[q])
            c_to_c[q] = half * (f[q] + f_0[q])
