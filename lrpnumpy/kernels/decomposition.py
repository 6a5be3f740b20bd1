"""Contextual decomposition of one direction of an LSTM: the relevant part of every state, for many phrases at once.

The irrelevant part is the true value minus the relevant one, so with z the true pre-activation,
a = W beta_prev + U beta_x and b the bias, the relevant part of F and that of the bias together are

    F_ab = L_a + F(b) = K + 1/2 [F(a + b) - F(z - a)],   K = 1/2 [F(b) + F(z)],

where K is the same for all phrases of a sequence. The cell is the same sum with z = c and b = 0. Where F is the
sigmoid or tanh and z is moderate, the bracket is a `difference`: one exponential instead of two activations.

A *variant* is a sequence together with a phrase. It takes part from the step `join` on, with beta = 0 before it. All
variants of a block end together, so that the batch only grows; steps are counted in the block, and a sequence that
ends earlier begins later. Variants that join together, whose phrases agree and whose sequences stand side by side
form a *run*: elementwise loops are as long as a run.
"""

from __future__ import annotations

from lrpnumpy.kernels.compile import I1, R1, R2, R4, W2, Int, kernel
from lrpnumpy.kernels.elementary import NARROW, difference, twice_cosh
from lrpnumpy.kernels.product import add_product
from lrpnumpy.kernels.steps import activate

SHORT = 16  # added to the code of sigmoid or tanh: by `difference`


@kernel
def decompose(
    Z: R1,  # the trace: see kernels.lstm
    first: I1,
    A: R1,
    C: R2,
    Y: R2,
    at: I1,
    X: R2,  # (R, D) inputs
    beta_x: R2,  # (any, D) their relevant parts, or (0, D): x in the phrase, 0 outside
    U: R4,
    W: R4,
    b: R2,  # (4, H)
    activation: Int,
    recurrent: Int,
    block_runs: I1,  # (blocks+1,)
    block_from: I1,  # (blocks,) sequences of each block, as positions in the next two: those that end last come first
    block_to: I1,
    sequence: I1,
    end: I1,  # how many steps of it count
    run_slots: I1,  # (runs+1,) variants of each run
    run_place: I1,  # (runs,) position of the first variant's sequence in its block
    join: I1,  # (runs,)
    start: I1,  # (runs,) of the phrase
    stop: I1,
    origin: I1,  # (V,) row of beta_x and rows at step 0 of the block
    way: Int,  # 1, or -1 where rows are read backwards
    keep: Int,  # write every step to rows
    fixed: W2,  # (9, n H) room: b, F(b), i_b g_b
    frame: W2,  # (16, n H) room: one step of the trace
    a: W2,  # (3, m H) room, for the m variants of a block
    beta_c: W2,  # (m, H) room
    own: W2,  # (m, D) room
    other: W2,  # (2, m H) room
    beta: W2,  # (V, H) in: 0; out: the relevant part of the last h
    rows: W2,  # (any, H) that of every h
) -> None:
    """beta_c = i_ab g_ab + f_ab beta_c_prev (- i_b g_b outside the phrase), beta = o T_a."""
    H = b.shape[1]
    zero = Z.dtype.type(0)
    places = fixed.shape[1] // H
    codes = cell_codes(Z, C, b, activation, recurrent)
    recurrent, activation = codes
    for k in range(4):
        for j in range(places * H):
            fixed[k][j] = b[k, j % H] if k < 3 else zero
        activate(fixed[k], fixed[4 + k], (activation if k > 1 else recurrent) % SHORT)
    for j in range(places * H):
        fixed[8][j] = fixed[4][j] * fixed[6][j]
    for block in range(block_from.size):
        seq = sequence[block_from[block] : block_to[block]]
        ends = end[block_from[block] : block_to[block]]
        L = ends[0]
        low = block_runs[block]
        high = low
        slot = run_slots[low]
        running = 0
        n = 0
        for t in range(L):
            while running < ends.size and ends[running] >= L - t:
                running += 1
            old = n
            while high < block_runs[block + 1] and join[high] <= t:
                high += 1
            n = run_slots[high] - slot
            if n == 0:
                continue
            beta_c[old:n] = zero
            p = 0
            while p < running:  # sequences side by side in the trace
                row = first[ends[p] - L + t]
                size = first[ends[p] - L + t + 1] - row
                count = 1
                while p + count < running and ends[p + count] == ends[p] and seq[p + count] == seq[p] + count:
                    count += 1
                here = slice(p * H, (p + count) * H)
                for k in range(3):
                    there = slice((4 * row + k * size + seq[p]) * H, (4 * row + k * size + seq[p] + count) * H)
                    code = recurrent if k < 2 else activation
                    prepare(
                        Z[there], A[there], fixed[k][here], fixed[4 + k][here],
                        frame[3 * k][here], frame[3 * k + 1][here], frame[3 * k + 2][here], code,
                    )  # fmt: skip
                after = at[ends[p] - L + t + 1] + seq[p]
                prepare(
                    C[after : after + count].reshape(count * H),
                    Y[row + seq[p] : row + seq[p] + count].reshape(count * H),
                    fixed[3][here], fixed[7][here], frame[9][here], frame[10][here], frame[11][here], activation,
                )  # fmt: skip
                frame[12][here] = A[(4 * row + 3 * size + seq[p]) * H : (4 * row + 3 * size + seq[p] + count) * H]
                if beta_x.shape[0] == 0:
                    for k in range(3):
                        u = frame[13 + k][here]
                        u[:] = zero
                        add_product(X[row + seq[p] : row + seq[p] + count], U[k], u.reshape(count, H))
                p += count
            now = beta[slot : slot + n]
            for q in range(n if beta_x.shape[0] > 0 else 0):
                own[q] = beta_x[origin[slot + q] + way * t]
            for k in range(3):
                a[k][: n * H] = zero
                a_k = a[k][: n * H].reshape(n, H)
                add_product(now[:old], W[k], a_k[:old])
                if beta_x.shape[0] > 0:
                    add_product(own[:n], U[k], a_k)
            for r in range(low, high):
                some = slice((run_slots[r] - slot) * H, (run_slots[r + 1] - slot) * H)
                width = (run_slots[r + 1] - run_slots[r]) * H
                here = slice(run_place[r] * H, run_place[r] * H + width)
                a_i = a[0][some]
                a_f = a[1][some]
                a_g = a[2][some]
                inside = start[r] <= t < stop[r]
                if inside and beta_x.shape[0] == 0:
                    for k in range(3):
                        u = frame[13 + k][here]
                        a_k = a[k][some]
                        for q in range(width):
                            a_k[q] += u[q]
                relevant(a_i, frame[0][here], frame[1][here], frame[2][here], other, recurrent)
                relevant(a_f, frame[3][here], frame[4][here], frame[5][here], other, recurrent)
                relevant(a_g, frame[6][here], frame[7][here], frame[8][here], other, activation)
                c = beta_c.reshape(beta_c.size)[some]
                h = now.reshape(now.size)[some]
                i_b_g_b = fixed[8][here]
                if inside:
                    for q in range(width):
                        c[q] = a_i[q] * a_g[q] + a_f[q] * c[q]
                else:
                    for q in range(width):
                        c[q] = a_i[q] * a_g[q] + a_f[q] * c[q] - i_b_g_b[q]
                for q in range(width):
                    h[q] = c[q]
                relevant(h, frame[9][here], frame[10][here], frame[11][here], other, activation)
                o = frame[12][here]
                for q in range(width):
                    h[q] *= o[q]
            for q in range(n if keep else 0):
                rows[origin[slot + q] + way * t] = now[q]


def cell_codes(Z, C, b, activation, recurrent):  # type: ignore[no-untyped-def]
    """The codes of both activations, plus SHORT where all of z, b and c are small enough for `difference`."""
    limit = Z.dtype.type(NARROW / 2)
    far = 0
    for j in range(Z.size):
        far += abs(Z[j]) > limit
    c = C.reshape(C.size)
    for j in range(c.size):
        far += abs(c[j]) > limit
    for k in range(4):
        for j in range(b.shape[1]):
            far += abs(b[k, j]) > limit
    short = 0 if far else SHORT
    return recurrent + (short if recurrent == 0 else 0), activation + (short if activation == 1 else 0)


def prepare(z, F_z, b, F_b, v, m, K, code):  # type: ignore[no-untyped-def]
    """What all variants of a sequence share at a step: K, and the part of `relevant` that does not depend on a."""
    half = z.dtype.type(0.5)
    for q in range(z.size):
        K[q] = half * (F_b[q] + F_z[q])
    if code >= SHORT:
        scale = half if code == SHORT else z.dtype.type(1)
        for q in range(z.size):
            v[q] = scale * (z[q] - b[q])
        for q in range(z.size):
            m[q] = twice_cosh(scale * (z[q] + b[q]))
    else:
        for q in range(z.size):
            v[q] = z[q]
            m[q] = b[q]


def relevant(a, v, m, K, other, code):  # type: ignore[no-untyped-def]
    """a becomes F_ab = K + 1/2 [F(a + b) - F(z - a)]."""
    half = a.dtype.type(0.5)
    if code == SHORT:
        for q in range(a.size):
            a[q] = K[q] + half * difference(a[q] - v[q], m[q])
    elif code > SHORT:
        for q in range(a.size):
            a[q] = K[q] + difference(a[q] + a[q] - v[q], m[q])
    else:
        for_a = other[0][: a.size]
        for_r = other[1][: a.size]
        for q in range(a.size):
            for_a[q] = a[q] + m[q]
        for q in range(a.size):
            for_r[q] = v[q] - a[q]
        activate(for_a, a, code)
        activate(for_r, for_a, code)
        for q in range(a.size):
            a[q] = K[q] + half * (a[q] - for_a[q])


def overloads() -> None:
    """Let kernels call these functions."""
    from numba.extending import register_jitable

    for helper in (cell_codes, prepare, relevant):
        register_jitable(helper)
