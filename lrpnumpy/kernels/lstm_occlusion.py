"""Many variants of the same sequences through one direction of an LSTM, each from where it begins to differ.

In variant v the steps from lo to hi of sequence `owner` are replaced by `count` separate rows: count = hi - lo
replaces each of them, count = 0 leaves them out. Before them its states are those of the sequence; after them it reads
the sequence's inputs, which are projected already, so that W h_prev is all that is left to do. With 6 steps:

    lo 2, hi 4, count 2    inputs 0 1 new new 4 5    starts from the state before step 2 and runs for 4 turns
    lo 2, hi 4, count 0    inputs 0 1 4 5            starts from the state before step 2 and runs for 2 turns

Variants need not be at the same step to go through the same matrix product. They wait in strips: runs of variants that
differ only in their sequence, where these sequences are neighbors too, the longest first. At each turn, strips that
wait come in while there are places, variants that have ended leave, and all others go one step further. The variants of
a strip read the same steps of neighboring sequences, which are neighboring rows, and those at its end leave first.
"""

from __future__ import annotations

import numpy as np

from lrpnumpy.kernels.arguments import I1, I2, J1, R2, W2, Int, Scalar
from lrpnumpy.kernels.compile import Kernel
from lrpnumpy.kernels.inputs import Past, Weights, lengths_of, states_before
from lrpnumpy.kernels.product import add_product
from lrpnumpy.kernels.steps import activate, copy, flat, matrix, repeat

OWNER, LO, HI, COUNT, OWN, KEPT_AT = range(6)  # rows of `variants`
LOOP = 32  # elementwise loops have a multiple of this number of rounds: no remainder that is not vectorized
PLACES = 96  # variants that run at once, at least; and at least
NUMBERS = 4096  # of their states, so that narrow networks have enough to do at each turn


@Kernel
def run(
    past: Past,  # kept: U x + b
    weights: Weights,  # W packed (4, H, H); codes of activation and recurrent activation
    variants: I2,  # (6, V) owner, lo, hi, count; own: place of its first new row; kept_at: first row in `out`
    Q: R2,  # (any, 4 H) U x + b of the new rows of the variants
    index: I1,  # (any,) row of Q at each place
    stride: Int,  # from one new row of a variant to the next, in places
    tol: Scalar,  # > 0: a variant stops when its states are within tol of the sequence's
    keep: Int,  # 1: keep the outputs of all turns; 0: only those of the last
    out: W2,  # (any, H): those of variant v from row kept_at on, count + T - hi rows; or (V, H) the last outputs
    done: J1,  # (V,) out: step from which on a variant equals its sequence, or the sequence's length
) -> None:
    """z = W h_prev + U x + b; i, f, o = sigm(z), g = tanh(z); c = f c_prev + i g; h = o tanh(c)."""
    kept, first, Hs, C, W = past.kept, past.first, past.h, past.c, weights.W
    H = C.shape[1]
    V = variants.shape[1]
    n_0 = first[1]
    activation, recurrent = weights.codes[0], weights.codes[1]
    if V == 0:
        return
    owner, lo, hi = variants[OWNER], variants[LO], variants[HI]
    count, own, kept_at = variants[COUNT], variants[OWN], variants[KEPT_AT]
    length = lengths_of(first)
    is_alone = tol > 0 or n_0 == 1
    cuts = strips_of(variants, stride, is_alone)  # where each strip begins among the variants
    strips = cuts.size - 1
    places = min(V, max(n_0, PLACES, NUMBERS // H))  # at least the widest strip
    last_first = lo[V // 2] > lo[V - 1]  # what runs longest comes in first
    C_flat = flat(C)
    H_flat = flat(Hs)
    # States and gates of what is running: `places` rows, padded so that elementwise loops may run over their end, and
    # so that the five arrays do not share cache sets (4 KiB aliasing).
    room = np.zeros((5, (places * H // LOOP + 5) * LOOP), C.dtype)
    h, c, z, y, i_g = room[0], room[1], room[2], room[3], room[4]
    strip_of = np.empty((5, places), np.int64)
    which = strip_of[0]  # first variant of each running strip
    width = strip_of[1]  # how many of it are running
    turn = strip_of[2]  # how many turns they have had
    source = strip_of[3]  # row of their inputs in `kept`, or -1 for separate rows
    apart = strip_of[4]  # rows of `kept` from one gate to the next
    came = 0
    running = 0
    n = 0
    while True:
        while came < strips:  # strips that wait come in
            strip = strips - 1 - came if last_first else came
            v = cuts[strip]
            wide = cuts[strip + 1] - v
            if n + wide > places:
                break
            row = states_before(first, lo[v]) + owner[v]
            copy(H_flat[row * H : (row + wide) * H], h[n * H : (n + wide) * H])
            copy(C_flat[row * H : (row + wide) * H], c[n * H : (n + wide) * H])
            which[running] = v
            width[running] = wide
            turn[running] = 0
            running += 1
            n += wide
            came += 1
        old_strips = running  # variants that have ended leave
        running = 0
        old = 0
        n = 0
        for strip in range(old_strips):
            v = which[strip]
            is_own = turn[strip] < count[v]
            t = hi[v] + turn[strip] - count[v]  # next step of the sequence, unless separate rows are left
            wide = width[strip]
            left = wide
            while left > 0 and not is_own and length[owner[v + left - 1]] <= t:
                left -= 1
                done[v + left] = t
                if not keep:
                    copy(h[(old + left) * H : (old + left + 1) * H], out[v + left])
            if tol > 0 and left > 0 and not is_own:  # alone in its strip
                row = states_before(first, t) + owner[v]
                if near(h[old * H : (old + 1) * H], Hs[row], tol) and near(c[old * H : (old + 1) * H], C[row], tol):
                    left = 0
                    done[v] = t
                    if not keep:
                        copy(Hs[states_before(first, length[owner[v]]) + owner[v]], out[v])
            if left > 0:
                if n < old:
                    copy(h[old * H : (old + left) * H], h[n * H : (n + left) * H])
                    copy(c[old * H : (old + left) * H], c[n * H : (n + left) * H])
                which[running] = v
                width[running] = left
                turn[running] = turn[strip]
                source[running] = -1 if is_own else 4 * first[t] + owner[v]
                apart[running] = 0 if is_own else first[t + 1] - first[t]
                running += 1
                n += left
            old += wide
        if n == 0:
            if came == strips:
                break
            continue
        m = -(-n * H // LOOP) * LOOP  # all that is running goes one step further
        for k in (0, 2, 1, 3):
            place = 0
            for strip in range(running):
                begin = place * H
                place += width[strip]
                if source[strip] >= 0:
                    row = source[strip] + k * apart[strip]
                    copy(kept[row * H : (row + width[strip]) * H], z[begin : place * H])
                    continue
                v = which[strip]
                for q in range(width[strip] if stride != 0 else 1):
                    row = index[own[v + q] + stride * turn[strip]]
                    copy(Q[row][k * H : (k + 1) * H], z[begin + q * H : begin + (q + 1) * H])
                if stride == 0:  # the same for all
                    repeat(z[begin : begin + H], z[begin : place * H])
            add_product(matrix(h[: n * H], n, H), W[k], matrix(z[: n * H], n, H))
            activate(z[:m], i_g[:m] if k == 0 else y[:m], activation if k == 2 else recurrent)
            if k == 2:
                for q in range(m):
                    i_g[q] *= y[q]
            elif k == 1:
                for q in range(m):
                    c[q] = y[q] * c[q] + i_g[q]
        activate(c[:m], z[:m], activation)
        for q in range(m):
            h[q] = y[q] * z[q]
        place = 0
        for strip in range(running):
            v = which[strip]
            for q in range(width[strip] if keep else 0):
                copy(h[(place + q) * H : (place + q + 1) * H], out[kept_at[v + q] + turn[strip]])
            place += width[strip]
            turn[strip] += 1


def strips_of(variants, stride, is_alone):
    """Where each strip begins among the variants, and where the last one ends; or each variant is a separate strip."""
    V = variants.shape[1]
    owner, own = variants[OWNER], variants[OWN]
    cuts = np.empty(V + 1, np.int64)
    strips = 0
    for v in range(V):
        is_next = v > 0 and not is_alone and owner[v] == owner[v - 1] + 1
        for column in (LO, HI, COUNT):
            is_next = is_next and variants[column, v] == variants[column, v - 1]
        if not is_next or (stride == 0 and own[v] != own[v - 1]):
            cuts[strips] = v
            strips += 1
    cuts[strips] = V
    return cuts[: strips + 1]


def near(x, y, tol):
    """Whether no number is further away than tol."""
    j = 0
    while j < x.size and abs(x[j] - y[j]) <= tol:
        j += 1
    return j == x.size
