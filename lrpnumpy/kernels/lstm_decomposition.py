"""Contextual decomposition of one direction of an LSTM: relevant parts of its states, for many phrases at once.

The irrelevant part is the true value minus the relevant one. So, with z the true pre-activation, b the bias and
a = W beta_prev + U beta_x, the relevant part of F(z) together with that of the bias is

    F_ab = L_a + F(b) = K + 1/2 [F(a + b) - F(z - a)],   K = 1/2 [F(b) + F(z)],

and K is the same for all phrases of a sequence. T_a of the cell is L_a with z = c and b = 0, and L_b = F(0), which is 0
for tanh. Where F is sigmoid or tanh, and z not huge, the bracket is one `difference` of elementary.

A variant is a sequence with a phrase. It takes part from the step `join` on, before which beta is 0. Variants go
through time in blocks that stay in the cache. All sequences of a block end together: shorter ones begin later, and the
number of variants that take part only grows. With sequences of 4 and 2 steps, and each word a separate phrase:

    time of the block                       0    1    2    3
    step of the first sequence              0    1    2    3
    step of the second sequence                       0    1
    variants that take part                 1    2    4    6

The slots of a block are in the order in which variants join. Neighboring slots that join together, have the same
phrase counted from the end, and whose sequences are neighbors too, form a run: elementwise loops are as long as runs.
Where a block has one sequence, what its variants share is repeated, so that loops can go over several of them.
"""

from __future__ import annotations

import numpy as np

from lrpnumpy.kernels.arguments import I2, R2, W2, Int
from lrpnumpy.kernels.compile import Kernel
from lrpnumpy.kernels.elementary import NARROW, difference, twice_cosh
from lrpnumpy.kernels.inputs import Past, Weights, lengths_of, states_before
from lrpnumpy.kernels.product import add_product
from lrpnumpy.kernels.steps import activate, copy, fill, flat, matrix, repeat

OWNER, START, STOP, JOIN, ROWS = range(5)  # rows of `variants`
LOOP = 512  # numbers that an elementwise loop should have at least
LANES = 32  # and of which it should have a multiple: no remainder that is not vectorized
QUICK = 100  # added to the code of sigmoid and tanh where `difference` serves


@Kernel
def decompose(
    past: Past,  # kept: z of i, f, g, o, then i, f, g, o, and tanh(c)
    weights: Weights,  # U packed (4, D, H), W packed (4, H, H); codes of activation and recurrent activation
    b: R2,  # (4, H)
    beta_x: R2,  # (any, D) the relevant parts of x; not read unless `is_own`
    variants: I2,  # (5, V) owner, start and stop of the phrase, join; row of the first step in beta_x and in `out`
    way: Int,  # 1, or -1 where later steps have lower rows there
    is_own: Int,  # 0: the relevant parts are x inside the phrase, 0 outside
    wants_every: Int,  # 1: beta of every step is wanted, 0: that of the last
    out: W2,  # (any, H) in: 0; out: beta of every step; or (V, H) beta of the last
    state: W2,  # (8, a multiple of LANES) in: 0; room for as many variants as go through time together
) -> None:
    """beta_c = i_ab g_ab + f_ab beta_c_prev (- i_b g_b outside the phrase), beta = o T_a (+ o F(0) inside the phrase).

    The variants of one sequence must be adjacent, and those of longer sequences before those of shorter ones.
    """
    V = variants.shape[1]
    start, stop, rows = variants[START], variants[STOP], variants[ROWS]
    kept, first, C, x, U, W = past.kept, past.first, past.c, past.x, weights.U, weights.W
    activation, recurrent = weights.codes[0], weights.codes[1]
    H = b.shape[1]
    R, D = x.shape
    zero = kept.dtype.type(0)
    length = lengths_of(first)
    m = state.shape[1] // H
    places = max(min(first[1], m), LOOP // H)
    slots = np.empty((6, m), np.int64)
    which = slots[0]  # variant in each slot
    place = slots[1]  # that of its sequence, among those of the block
    late = slots[2]  # how many steps of the block its sequence misses
    run = slots[3]  # length of the run that begins here
    seq = slots[4]  # sequence in each place
    ends = slots[5]  # its length
    joined = np.empty(first.size + 1, np.int64)  # how many have joined by each step
    Ux = np.zeros((3, 0 if is_own else R * H), kept.dtype)
    own = np.empty((m if is_own else 0, D), kept.dtype)
    fixed = np.zeros((10, places * H), kept.dtype)  # b of i, f, g and 0 for the cell; F of these; i_b g_b; 0
    frame = np.zeros((16, places * H), kept.dtype)  # v, m, K of i, f, g and the cell; o; U x of i, f, g
    beta = matrix(state[5][: m * H], m, H)
    beta_c = state[6]
    left = state[7]  # the share of gamma_c: i_b g_b outside the phrase
    if is_quick(kept, first, C, b, NARROW):
        activation += QUICK if activation == 1 else 0
        recurrent += QUICK if recurrent == 0 else 0
    for p in range(places):
        for k in range(3):
            copy(b[k], fixed[k][p * H : (p + 1) * H])
    for k in range(4):
        activate(fixed[k], fixed[4 + k], (recurrent if k < 2 else activation) % QUICK)
    for j in range(places * H):
        fixed[8][j] = fixed[4][j] * fixed[6][j]
    F_0 = fixed[7][0]
    if not is_own:
        for k in range(3):
            add_product(x, U[k], matrix(Ux[k], R, H))
    begin = 0
    while begin < V:
        count, sequences = arrange(begin, variants, length, which, place, late, run, seq, ends, joined)
        L = ends[0]
        running = 0
        n = 0
        for t in range(L):
            while running < sequences and ends[running] >= L - t:
                running += 1
            old = n
            n = joined[t]
            if n == 0:
                continue
            gather(past, L - t, running, seq, ends, Ux, frame)
            for k in range(4):
                prepare(fixed, frame, k, running * H, recurrent if k < 2 else activation)
            if sequences == 1:  # so that loops are not too short
                for k in range(13):
                    repeat(frame[k][:H], frame[k][: min(places, n) * H])
            # a = W beta_prev + U beta_x
            for k in range(3):
                fill(state[k][: n * H], zero)
            fill(state[5][old * H : n * H], zero)
            fill(beta_c[old * H : n * H], zero)
            s = 0
            while s < n:
                v, now = which[s], t - late[s]
                is_inside = start[v] <= now < stop[v]
                if is_inside or s >= old or now == stop[v]:
                    mine = slice(s * H, (s + run[s]) * H)
                    here = slice(place[s] * H, (place[s] + run[s]) * H)
                    copy(fixed[9 if is_inside else 8][here], left[mine])
                    if is_inside and not is_own:
                        for k in range(3):
                            copy(frame[13 + k][here], state[k][mine])
                s += run[s]
            if is_own:
                for s in range(n):
                    own[s] = beta_x[rows[which[s]] + way * (t - late[s])]
            for k in range(3):
                a = matrix(state[k][: n * H], n, H)
                if old > 0:
                    add_product(beta[:old], W[k], a[:old])
                if is_own:
                    add_product(own[:n], U[k], a)
            s = 0
            while s < n:
                e = s + (run[s] if sequences > 1 else places)
                size = min((e - s) * H, -(-(n - s) * H // LANES) * LANES)
                mine = slice(s * H, s * H + size)
                here = slice(place[s] * H, place[s] * H + size)
                i, f, g = state[0][mine], state[1][mine], state[2][mine]
                c, h, less = beta_c[mine], state[5][mine], left[mine]
                for k in range(4):  # one call, since it is inlined
                    if k == 3:
                        for q in range(size):
                            c[q] = i[q] * g[q] + f[q] * c[q] - less[q]
                        copy(c, g)
                    relevant(state[min(k, 2)][mine], frame, k, here, state[3:5], recurrent if k < 2 else activation)
                o = frame[12][here]
                for q in range(size):
                    h[q] = o[q] * g[q]
                s = e
            if zero != F_0:
                s = 0
                while s < n:
                    v, now = which[s], t - late[s]
                    if start[v] <= now < stop[v]:
                        h, o = state[5][s * H : (s + run[s]) * H], frame[12][place[s] * H : (place[s] + run[s]) * H]
                        for q in range(h.size):
                            h[q] += o[q] * F_0
                    s += run[s]
            if wants_every:
                for s in range(n):
                    out[rows[which[s]] + way * (t - late[s])] = beta[s]
        if not wants_every:
            for s in range(count):
                for j in range(H):
                    out[which[s], j] = beta[s, j] if s < n else zero
        begin += count


def arrange(begin, variants, length, which, place, late, run, seq, ends, joined):
    """Put the next variants into slots: how many, of how many sequences. Whole sequences, unless one is too large."""
    owner, start, stop, join = variants[OWNER], variants[START], variants[STOP], variants[JOIN]
    done = min(begin + which.size, owner.size)
    while done < owner.size and owner[done] == owner[done - 1] and owner[done] != owner[begin]:
        done -= 1
    L = length[owner[begin]]
    joined[: L + 2] = 0
    for v in range(begin, done):
        joined[min(join[v] + L - length[owner[v]], L) + 1] += 1
    for t in range(L + 1):
        joined[t + 1] += joined[t]
    p = -1
    for v in range(begin, done):
        if v == begin or owner[v] != owner[v - 1]:
            p += 1
            seq[p] = owner[v]
            ends[p] = length[owner[v]]
        t = min(join[v] + L - ends[p], L)
        s = joined[t]
        joined[t] += 1
        which[s] = v
        place[s] = p
        late[s] = L - ends[p]
    run[done - begin - 1] = 1
    for s in range(done - begin - 2, -1, -1):
        v, w = which[s], which[s + 1]
        same = place[s] + 1 == place[s + 1] and join[v] + late[s] == join[w] + late[s + 1]
        same = same and start[v] + late[s] == start[w] + late[s + 1] and stop[v] + late[s] == stop[w] + late[s + 1]
        run[s] = 1 + run[s + 1] if same else 1
    return done - begin, p + 1


def gather(past, left, running, seq, ends, Ux, frame):
    """Copy what all variants of a sequence share into the frame, for sequences that have `left` more steps."""
    kept, first, H = past.kept, past.first, past.c.shape[1]
    p = 0
    while p < running:
        now = ends[p] - left
        size = 1  # sequences side by side in the trace
        while p + size < running and ends[p + size] == ends[p] and seq[p + size] == seq[p] + size:
            size += 1
        here = slice(p * H, (p + size) * H)
        row = first[now] + seq[p]
        apart = (first[now + 1] - first[now]) * H  # numbers of one kind
        at = (9 * first[now] + seq[p]) * H  # z of i
        for k in range(3):
            copy(kept[at + k * apart : at + k * apart + size * H], frame[3 * k][here])
            copy(kept[at + (4 + k) * apart : at + (4 + k) * apart + size * H], frame[3 * k + 2][here])
            if Ux.size > 0:
                copy(Ux[k][row * H : (row + size) * H], frame[13 + k][here])
        after = states_before(first, now + 1) + seq[p]
        copy(flat(past.c)[after * H : (after + size) * H], frame[9][here])
        copy(kept[at + 8 * apart : at + 8 * apart + size * H], frame[11][here])
        copy(kept[at + 7 * apart : at + 7 * apart + size * H], frame[12][here])
        p += size


def is_quick(kept, first, C, b, limit):
    """Whether no z, b or c is too large for `difference`."""
    H = b.shape[1]
    top = kept.dtype.type(0)  # of |b|
    for k in range(3):
        for j in range(H):
            top = max(top, abs(b[k, j]))
    far = beyond(flat(C), kept.dtype.type(limit))
    for t in range(first.size - 1):
        z, m = kept[9 * first[t] * H :], (first[t + 1] - first[t]) * H
        far += beyond(z[: 2 * m], kept.dtype.type(2 * limit) - top)
        far += beyond(z[2 * m : 3 * m], kept.dtype.type(limit) - top)
    return far == 0


def beyond(z, limit):
    """How many |z| exceed the limit."""
    found = 0
    for q in range(z.size):
        found += abs(z[q]) > limit
    return found


def prepare(fixed, frame, k, size, code):
    """For `relevant`: F(z) becomes K; where it is quick, z becomes what `difference` needs, else b comes with it.

    Of the cell, k = 3, only L_a is needed, not together with F(b): its K is 1/2 [F(c) - F(0)].
    """
    b, F_b = fixed[k][:size], fixed[4 + k][:size]
    v, m, K = frame[3 * k][:size], frame[3 * k + 1][:size], frame[3 * k + 2][:size]
    half = b.dtype.type(0.5)
    sign = -half if k == 3 else half
    for q in range(size):
        K[q] = sign * F_b[q] + half * K[q]
    if code < QUICK:
        copy(b, m)
    else:  # tanh(x) is 2 sigmoid(2 x) - 1
        scale = half if code > QUICK else half * half
        for q in range(size):
            m[q] = twice_cosh((scale + scale) * (v[q] + b[q]))
        for q in range(size):
            v[q] = scale * (v[q] - b[q])


def relevant(a, frame, k, here, spare, code):
    """a becomes F_ab = K + 1/2 [F(a + b) - F(z - a)]."""
    v, m, K = frame[3 * k][here], frame[3 * k + 1][here], frame[3 * k + 2][here]
    half = a.dtype.type(0.5)
    if code == QUICK:
        for q in range(a.size):
            a[q] = K[q] + half * difference(half * a[q] - v[q], m[q])
    elif code > QUICK:
        for q in range(a.size):
            a[q] = K[q] + difference(a[q] - v[q], m[q])
    else:
        x, y = spare[0][: a.size], spare[1][: a.size]
        for q in range(a.size):
            x[q] = v[q] - a[q]
        activate(x, y, code)
        for q in range(a.size):
            x[q] = a[q] + m[q]
        activate(x, a, code)
        for q in range(a.size):
            a[q] = K[q] + half * (a[q] - y[q])
