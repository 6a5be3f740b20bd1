"""Many variants of the same sequences through one direction of an LSTM, each from where it begins to differ.

A variant v of sequence owner[v] has inputs of its own in the steps from lo[v] to hi[v]. Before them its states
are those of the sequence itself; after them it gets the sequence's inputs, which are projected already, so that
W h_prev is all that is left to do. It passes over the steps from gap_start[v] to gap_stop[v], and its last step
is end[v] - 1.

Variants need not be at the same step to go through the same matrix product. So there is a queue: at each turn
what waits comes in, what is through makes room, and all that is running goes one step further. What queues are
strips: neighbours among the variants that differ only in their sequence, and these are neighbours too, the longest
first. They read the same steps, so a strip is no more trouble than a single variant; it runs out from its end.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from lrpnumpy.kernels.compile import I1, R1, R2, R4, W2, Int, Scalar, kernel
from lrpnumpy.kernels.product import add_product
from lrpnumpy.kernels.steps import activate, copy, repeat

J1 = Annotated[np.ndarray, "int", 1, "write"]
LOOP = 32  # elementwise loops have a multiple of so many rounds: no rest that is not vectorised


def near(x, y, tol):  # type: ignore[no-untyped-def]
    """Whether no number is further away than tol."""
    j = 0
    while j < x.size and abs(x[j] - y[j]) <= tol:
        j += 1
    return j == x.size


def overloads() -> None:
    """Let kernels call this function."""
    from numba.extending import register_jitable

    register_jitable(near)


@kernel
def run(
    P: R1,  # (4, n, H) a step: U x + b of the sequences
    first: I1,  # (T+1,)
    at: I1,  # (T+1,) where the states before each step are
    C: R2,  # (n_0 + R, H) cell states of the sequences
    Hs: R2,  # (n_0 + R, H) hidden states of the sequences
    W: R4,  # packed (4, H, H)
    activation: Int,
    recurrent: Int,
    cuts: I1,  # (strips+1,) where each strip begins among the variants
    backwards: Int,  # the last strip comes in first
    places: Int,  # how many variants can run at once, at least the widest strip
    owner: I1,  # (V,)
    lo: I1,  # (V,)
    hi: I1,  # (V,)
    end: I1,  # (V,)
    gap_start: I1,  # (V,)
    gap_stop: I1,  # (V,)
    own: I1,  # (V,) row of Q for step lo
    stride: Int,  # from one step's row of Q to that of the next
    Q: R2,  # (any, 4 H) U x + b of the variants' own inputs
    tol: Scalar,  # > 0: a variant, alone in its strip, stops when its state is within tol of the sequence's
    keep: Int,  # keep the outputs of every step from lo on, not only the last
    kept_at: I1,  # (V,) where: row of `out` for step lo
    out: W2,  # (any, H), or (V, H) the last outputs
    done: J1,  # (V,) step from which on a variant is as its sequence, or `end`
) -> None:
    """z = W h_prev + U x + b; i, f, o = sigm(z), g = tanh(z); c = f c_prev + i g; h = o tanh(c)."""
    H = C.shape[1]
    strips = cuts.size - 1
    C_flat = C.reshape(C.size)
    H_flat = Hs.reshape(Hs.size)
    # What is running: `places` rows, and then some, so that loops end where they like and arrays do not start alike.
    room = np.zeros((5, (places * H // LOOP + 5) * LOOP), C.dtype)
    h = room[0]
    c = room[1]
    z = room[2]
    y = room[3]
    i_g = room[4]
    strip_of = np.empty((5, places), np.int64)
    which = strip_of[0]  # first variant of each running strip
    width = strip_of[1]  # how many of it are running
    now = strip_of[2]  # their next step
    source = strip_of[3]  # row of their inputs in P, or -1 for inputs of their own
    apart = strip_of[4]  # rows of P from one gate to the next
    came = 0
    running = 0
    n = 0
    while True:
        while came < strips:  # what waits comes in
            strip = strips - 1 - came if backwards else came
            v = cuts[strip]
            wide = cuts[strip + 1] - v
            if n + wide > places:
                break
            t = min(lo[v], end[v])
            row = at[t] + owner[v]
            copy(H_flat[row * H : (row + wide) * H], h[n * H : (n + wide) * H])
            copy(C_flat[row * H : (row + wide) * H], c[n * H : (n + wide) * H])
            which[running] = v
            width[running] = wide
            now[running] = gap_stop[v] if t == gap_start[v] else t
            running += 1
            n += wide
            came += 1
        count = running  # what is through makes room
        running = 0
        old = 0
        n = 0
        for strip in range(count):
            v = which[strip]
            t = now[strip]
            wide = width[strip]
            left = wide
            while left > 0 and end[v + left - 1] <= t:
                left -= 1
                done[v + left] = t
                if not keep:
                    copy(h[(old + left) * H : (old + left + 1) * H], out[v + left])
            if tol > 0 and left > 0 and t >= hi[v]:
                row = at[t] + owner[v]
                if near(h[old * H : (old + 1) * H], Hs[row], tol) and near(c[old * H : (old + 1) * H], C[row], tol):
                    left = 0
                    done[v] = t
                    if not keep:
                        copy(Hs[at[end[v]] + owner[v]], out[v])
            if left > 0:
                if n < old:
                    copy(h[old * H : (old + left) * H], h[n * H : (n + left) * H])
                    copy(c[old * H : (old + left) * H], c[n * H : (n + left) * H])
                which[running] = v
                width[running] = left
                now[running] = t
                source[running] = 4 * first[t] + owner[v] if t >= hi[v] else -1
                apart[running] = first[t + 1] - first[t]
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
                    copy(P[row * H : (row + width[strip]) * H], z[begin : place * H])
                    continue
                v = which[strip]
                for q in range(width[strip] if stride != 0 else 1):
                    row = own[v + q] + stride * (now[strip] - lo[v])
                    copy(Q[row][k * H : (k + 1) * H], z[begin + q * H : begin + (q + 1) * H])
                if stride == 0:  # the same for all
                    repeat(z[begin : begin + H], z[begin : place * H])
            add_product(h[: n * H].reshape(n, H), W[k], z[: n * H].reshape(n, H))
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
            t = now[strip]
            if keep:
                for q in range(width[strip]):
                    copy(h[(place + q) * H : (place + q + 1) * H], out[kept_at[v + q] + t - lo[v]])
            place += width[strip]
            now[strip] = gap_stop[v] if t + 1 == gap_start[v] else t + 1
