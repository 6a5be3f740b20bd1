"""What the kernels of recurrent cells share: where states are stored, how inputs are projected and receive relevance.

A packed batch has its sequences longest first and the rows of one time step together: the n = first[t+1] - first[t]
sequences still running at step t have the rows first[t] to first[t+1]. With lengths 3, 3, 1 and n_0 = 3 sequences:

    step t               0     1     2
    rows of the batch    0..2  3..4  5..6        first = 0, 3, 5, 7

A kernel takes the arrays of a batch as one tuple, `BatchRows`. Inputs x, and the relevance R_x that they receive, may
be in another order: a direction that reads sequences mirrored has an `order`, the row of x for each of its rows. Inputs
of words can be looked up projected: then `ids` is the row of `table`, U x + b, for each row of x, and x is not read;
else `table` has one row, the bias.

Where there are few sequences, a product with one step's rows takes as long as loading the weights. So the inputs of
several steps are projected together, before their steps, and they receive relevance together, some steps later.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lrpnumpy.kernels.arguments import I1, R1, R2, R3, R4, W2, W3, Int
from lrpnumpy.kernels.product import add_product
from lrpnumpy.kernels.steps import add, block, copy, dot, fill, flat, matrix, multiply, part, raise_to, repeat

FEW = 4  # sequences
TOGETHER = 48  # rows


class BatchRows(NamedTuple):
    """A packed batch as kernels take it."""

    x: R2  # (R, D) inputs; not read where they are looked up
    first: I1  # (T+1,) row of each step's first sequence
    order: I1  # (R,) row of x for each row, where the cell reads mirrored
    ids: I1  # (R,) row of `table` for each row of x, where inputs are looked up
    table: R2  # (any, G H) U x + b where inputs are looked up; else (1, G H) the bias
    is_mirrored: Int
    is_looked_up: Int


class Weights(NamedTuple):
    """The trained arrays of a cell as kernels take them."""

    U: R4  # packed, one block for each sum with a matrix of the input
    W: R4  # packed, one block for each other matrix
    P: R2  # (any, H) diagonals and biases
    codes: I1  # of activations, for kernels that do not have them in their text


class Past(NamedTuple):
    """What the forward pass of an LSTM has saved, for variants of its sequences."""

    kept: R1  # flat, (kinds, n, H) per step: U x + b of i, f, g, o; or all values that kernels.lstm saves
    first: I1  # (T+1,)
    h: R2  # (n_0 + R, H) states
    c: R2  # (n_0 + R, H) states
    x: R2  # (R, D) inputs, in the order of the rows; not read by an occlusion


class Messages(NamedTuple):
    """Messages at the beginning and at the end of a backward pass."""

    R_last: R3  # (states, n_0, H) incoming relevance of the last states
    R_steps: R2  # (R, H) incoming relevance of the outputs of every step
    R_x: W2  # (R, D) what the inputs receive is added here; (R, 1) where they are looked up
    R_states: W3  # (states, R, H) out: relevance of the states after every step
    R_start: W3  # (states, n_0, H) out: relevance of the states before the first step
    has_steps: Int
    wants_states: Int


def states_before(first, t):
    """Row of a state array where the states before step t begin; that of sequence s is s rows further.

    State arrays (n_0 + R, H) hold the n_0 initial states, then the state after each row of the batch. The states
    before step t are those after step t-1. In the example above:

        states before step t      0: rows 0..2    1: rows 3..4    2: rows 6..7    3 (the last ones): rows 8..9

    and row 5 is the last state of the third sequence, which has one step.
    """
    return first[t - 1] + first[1] if t > 0 else 0


def lengths_of(first):
    """(n_0,) number of steps of each sequence."""
    length = np.empty(first[1], np.int64)
    for t in range(first.size - 1):
        running_on = first[t + 2] - first[t + 1] if t + 2 < first.size else 0
        for s in range(running_on, first[t + 1] - first[t]):
            length[s] = t + 1
    return length


# -- forward -----------------------------------------------------------------------------------------------------------


def projects_ahead(rows):
    """Whether the inputs of several steps are projected together."""
    return rows.first[1] < FEW and not rows.is_looked_up


def input_rooms(rows, gates, H):
    """Memory for `prepare`: inputs in reading order, projections that are made ahead, and which rows are in there."""
    n_0, R, D = rows.first[1], rows.first[-1], rows.x.shape[1]
    room = min(TOGETHER, R) if projects_ahead(rows) else n_0
    gathered = np.empty((0 if rows.is_looked_up else room, D), rows.table.dtype)
    return gathered, np.empty((gates, room if projects_ahead(rows) else 0, H), rows.table.dtype), np.zeros(2, np.int64)


def prepare(t, rows, U, room, z) -> None:
    """Inputs of step t that are looked up or projected ahead: z = U x + b, flat (gates, n, H). Others are gathered."""
    gathered, projected, span = room
    first, x, order = rows.first, rows.x, rows.order
    gates, ahead, H = projected.shape
    row, n = first[t], first[t + 1] - first[t]
    m = n * H
    if rows.is_looked_up:
        for s in range(n):
            u_x = block(rows.table, rows.ids[order[row + s] if rows.is_mirrored else row + s])
            for k in range(gates):
                copy(part(u_x, k * H, H), part(z, k * m + s * H, H))
        return
    is_ahead = projects_ahead(rows)
    if row + n > span[1]:  # the next inputs, unless those of several steps are there already
        span[0] = row
        span[1] = min(row + ahead, first[-1]) if is_ahead else row + n
        count = span[1] - row
        if rows.is_mirrored:
            gather(x, part(order, row, count), gathered)
        elif is_ahead:
            copy(part(x, row * x.shape[1], count * x.shape[1]), gathered)
        for k in range(gates if is_ahead else 0):
            repeat(part(rows.table, k * H, H), flat(block(projected, k)))
            now = matrix(part(projected, k * ahead * H, count * H), count, H)
            add_product(matrix(part(gathered, 0, count * x.shape[1]), count, x.shape[1]), block(U, k), now)
    for k in range(gates if is_ahead else 0):
        copy(part(projected, (k * ahead + row - span[0]) * H, m), part(z, k * m, m))


def gather(x, rows, out) -> None:
    """out = x[rows], in the first rows of out."""
    D = x.shape[1]
    for s in range(rows.size):
        copy(block(x, rows[s]), part(out, s * D, D))


def project(k, t, rows, U, room, z) -> None:
    """All other inputs, one gate at a time, while its numbers are in the cache: z = U x + b, flat (n, H)."""
    if rows.is_looked_up or projects_ahead(rows):
        return
    gathered, projected, _ = room
    row, n, H, D = rows.first[t], rows.first[t + 1] - rows.first[t], projected.shape[2], rows.x.shape[1]
    repeat(part(rows.table, k * H, H), z)
    if rows.is_mirrored:
        add_product(matrix(part(gathered, 0, n * D), n, D), block(U, k), matrix(z, n, H))
    else:
        add_product(matrix(part(rows.x, row * D, n * D), n, D), block(U, k), matrix(z, n, H))


# -- backward ----------------------------------------------------------------------------------------------------------


def message_rooms(rows, R_x, blocks, H):
    """Memory for `pass_on`: s of steps that wait; messages to inputs, and the inputs in reading order; the largest
    messages, an array for each sequence; and the step before which those begin that wait.
    """
    n_0, R = rows.first[1], rows.first[-1]
    D = 1 if rows.is_looked_up else rows.x.shape[1]
    room = min(TOGETHER, R) if projects_ahead(rows) else n_0
    waiting = np.empty(blocks * room * H if projects_ahead(rows) else 0, R_x.dtype)
    r_x = np.empty((2, room, D), R_x.dtype)
    count = (room if n_0 == 1 else n_0) * D  # all rows are of one sequence
    return waiting, r_x, np.zeros(count, R_x.dtype), np.full(1, rows.first.size - 1, np.int64)


def pass_on(s, t, rows, b, U, gate, is_lrp, room, R_x) -> None:
    """Propagate s of step t, flat (blocks, n, H), to the inputs, now or together with that of steps before it.

    Blocks are those of the gates from `gate` on. R_x += s U, times x for LRP.
    """
    waiting, r_x, tops, end = room
    first = rows.first
    row, n, H = first[t], first[t + 1] - first[t], b.shape[1]
    if rows.is_looked_up:
        to_words(s, row, n, rows, b, gate, is_lrp, tops, R_x)
    elif not projects_ahead(rows):
        to_inputs(s, t, t + 1, rows, U, is_lrp, r_x, tops, R_x)
    else:
        last, places = first[end[0]], r_x.shape[1]
        for k in range(U.shape[0]):
            copy(part(s, k * n * H, n * H), part(waiting, ((k + 1) * places - (last - row)) * H, n * H))
        if t == 0 or last - first[t - 1] > places:
            to_inputs(waiting, t, end[0], rows, U, is_lrp, r_x, tops, R_x)
            end[0] = t


def to_inputs(s, t, end, rows, U, is_lrp, r_x, tops, R_x) -> None:
    """The steps from t to end: their s comes last in each block of the flat array."""
    first, x, order = rows.first, rows.x, rows.order
    row, count, D = first[t], first[end] - first[t], x.shape[1]
    blocks, H = U.shape[0], U.shape[2]
    apart = s.size // blocks
    message = part(r_x, 0, count * D)
    fill(message, r_x.dtype.type(0))
    for k in range(blocks):
        s_k = part(s, (k + 1) * apart - count * H, count * H)
        add_product(matrix(s_k, count, H), block(U, k), matrix(message, count, D))
    if is_lrp and not rows.is_mirrored:
        multiply(message, part(x, row * D, count * D))
    elif is_lrp:
        x_read = block(r_x, 1)
        gather(x, part(order, row, count), x_read)
        multiply(message, part(x_read, 0, count * D))
    if not rows.is_mirrored:
        add(part(R_x, row * D, count * D), message)
        copy(message, part(R_x, row * D, count * D))
    else:
        for q in range(count):
            add(block(R_x, order[row + q]), part(message, q * D, D))
            copy(part(message, q * D, D), block(R_x, order[row + q]))
    if is_lrp and (end == t + 1 or first[1] == 1):  # what the inputs have received by now, from both directions
        raise_to(tops, message)
    elif is_lrp:
        for step in range(t, end):
            raise_to(tops, part(message, (first[step] - row) * D, (first[step + 1] - first[step]) * D))


def to_words(s, row, n, rows, b, gate, is_lrp, tops, R_x) -> None:
    """The same for words that were looked up projected, one number each: R_x += s U x."""
    H = b.shape[1]
    blocks = s.size // (n * H)
    for q in range(n):
        at = rows.order[row + q] if rows.is_mirrored else row + q
        u_x = block(rows.table, rows.ids[at])
        for k in range(blocks):
            s_k, u_x_k = part(s, (k * n + q) * H, H), part(u_x, (gate + k) * H, H)
            R_x[at, 0] += dot(s_k, u_x_k, block(b, gate + k))
        if is_lrp:
            tops[q] = max(tops[q], abs(R_x[at, 0]))


def settle(ledger, tops) -> None:
    """Raise the largest message of each sequence, ledger[3], to the largest of its numbers in tops."""
    n = ledger.shape[1]
    for q in range(n):
        for size in part(tops, q * (tops.size // n), tops.size // n):
            ledger[3, q] = max(ledger[3, q], size)


# -- references --------------------------------------------------------------------------------------------------------

# Saved values of references are those of all sequences, or of the longest alone if the others begin like it.


def kept_of_reference(kept, kinds, t, first, H, out) -> None:
    """out (kinds, n, H) = the saved values of the references at step t."""
    m = (first[t + 1] - first[t]) * H
    if kept.size == kinds * first[-1] * H:
        copy(part(kept, kinds * first[t] * H, kinds * m), out)
    else:
        for k in range(kinds):
            repeat(part(kept, (kinds * t + k) * H, H), part(out, k * m, m))


def states_of_reference(states, t, first, out) -> None:
    """out (n, H) = their states before step t, of the sequences that run at step t or, after the last, did."""
    H = states.shape[1]
    if states.shape[0] == first[1] + first[-1]:
        copy(part(states, states_before(first, t) * H, out.size), out)
    else:
        repeat(part(states, t * H, H), out)


INLINED = (prepare, project, pass_on)  # at every step, with enough arrays that the call would take time
