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
from lrpnumpy.kernels.steps import activate

J1 = Annotated[np.ndarray, "int", 1, "write"]


def copy(source: np.ndarray, target: np.ndarray) -> None:
    """target = source, both contiguous; where they overlap, the target comes first."""
    flat, into = source.reshape(source.size), target.reshape(target.size)
    for j in range(into.size):
        into[j] = flat[j]


def overloads() -> None:
    """Let kernels call copy, which Numba compiles faster than a slice assignment."""
    from numba.extending import register_jitable

    register_jitable(copy)


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
    z = np.empty(places * H, C.dtype)
    a = np.empty(4 * places * H, C.dtype)
    c_now = np.empty((places, H), C.dtype)
    h_now = np.empty((places, H), C.dtype)
    which = np.empty(places, np.int64)  # first variant of each running strip
    width = np.empty(places, np.int64)  # how many of it are running
    now = np.empty(places, np.int64)  # their next step
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
            copy(Hs[row : row + wide], h_now[n : n + wide])
            copy(C[row : row + wide], c_now[n : n + wide])
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
            if left < wide and not keep:
                copy(h_now[old + left : old + wide], out[v + left : v + wide])
            if tol > 0 and left > 0 and t >= hi[v]:
                h_v = h_now[old]
                c_v = c_now[old]
                h_true = Hs[at[t] + owner[v]]
                c_true = C[at[t] + owner[v]]
                j = 0
                while j < H and abs(h_v[j] - h_true[j]) <= tol and abs(c_v[j] - c_true[j]) <= tol:
                    j += 1
                if j == H:
                    left = 0
                    done[v] = t
                    if not keep:
                        row = at[end[v]] + owner[v]
                        copy(Hs[row : row + 1], out[v : v + 1])
            if left > 0:
                if n < old:
                    copy(h_now[old : old + left], h_now[n : n + left])
                    copy(c_now[old : old + left], c_now[n : n + left])
                which[running] = v
                width[running] = left
                now[running] = t
                running += 1
                n += left
            old += wide
        if n == 0:
            if came == strips:
                break
            continue
        m = n * H
        h_prev = h_now[:n]  # all that is running goes one step further
        for k in range(4):
            place = 0
            for strip in range(running):
                v = which[strip]
                t = now[strip]
                wide = width[strip]
                target = z[place * H : (place + wide) * H]
                if t >= hi[v]:
                    row = 4 * first[t] + k * (first[t + 1] - first[t]) + owner[v]
                    source = P[row * H : (row + wide) * H]
                    for j in range(wide * H):
                        target[j] = source[j]
                else:
                    for q in range(1 if stride == 0 else wide):
                        source = Q[own[v + q] + stride * (t - lo[v])][k * H : (k + 1) * H]
                        block = target[q * H : (q + 1) * H]
                        for j in range(H):
                            block[j] = source[j]
                    if stride == 0:  # the same for all
                        for j in range(H, wide * H):
                            target[j] = target[j - H]
                place += wide
            add_product(h_prev, W[k], z[:m].reshape(n, H))
            activate(z[:m], a[k * m : (k + 1) * m], activation if k == 2 else recurrent)
        i = a[:m]
        f = a[m : 2 * m]
        g = a[2 * m : 3 * m]
        o = a[3 * m : 4 * m]
        y = z[:m]
        c = c_now[:n].reshape(m)
        h = h_prev.reshape(m)
        for q in range(m):
            c[q] = f[q] * c[q] + i[q] * g[q]
        activate(c, y, activation)
        for q in range(m):
            h[q] = o[q] * y[q]
        place = 0
        for strip in range(running):
            v = which[strip]
            t = now[strip]
            if keep:
                for q in range(width[strip]):
                    row = kept_at[v + q] + t - lo[v]
                    copy(h_now[place + q : place + q + 1], out[row : row + 1])
            place += width[strip]
            now[strip] = gap_stop[v] if t + 1 == gap_start[v] else t + 1
