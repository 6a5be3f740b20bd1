"""DeepLIFT through a plain RNN: the mean slope of its activation on the way from the reference, at every step."""

from __future__ import annotations

import numpy as np

from lrpnumpy.kernels.compile import I1, R1, R2, W1, kernel
from lrpnumpy.kernels.secants import kept_of_reference, secants
from lrpnumpy.kernels.steps import part


@kernel
def coefficients(
    kept: R1,  # (2, n, H) a step, see rnn.forward
    Hs: R2,  # (n_0 + R, H) states h
    kept_0: R1,  # the same of the references; or (2, 1, H) of the longest, which all begin like
    Hs_0: R2,  # not read
    first: I1,  # (T+1,)
    codes: I1,  # activation
    K: W1,  # (1, n, H) a step: out
) -> None:
    """Coefficients of DeepLIFT."""
    H = Hs.shape[1]
    room = np.empty(2 * first[1] * H, Hs.dtype)
    for t in range(first.size - 1):
        row, m = first[t] * H, (first[t + 1] - first[t]) * H
        kept_of_reference(kept_0, 2, t, first, H, room)
        z, z_0 = part(kept, 2 * row, m), part(room, 0, m)
        h, h_0 = part(kept, 2 * row + m, m), part(room, m, m)
        secants(z, z_0, h, h_0, part(K, row, m), codes[0])
