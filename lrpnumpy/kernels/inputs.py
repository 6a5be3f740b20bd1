"""What the kernels of recurrent cells share: where states are stored, how inputs are projected and get relevance back.

A packed batch has its sequences longest first and the rows of one time step together: the n = first[t+1] - first[t]
sequences still running at step t have the rows first[t] to first[t+1]. With lengths 3, 3, 1 and n_0 = 3 sequences:

    step t               0     1     2
    rows of the batch    0..2  3..4  5..6        first = 0, 3, 5, 7

Inputs x, and the relevance R_x that goes back to them, may be in another order: a direction that reads sequences
mirrored has an `order` that says which row of x each of its rows is. That of the other direction is empty.

The inputs of words can be looked up projected: then `ids` says which row of `table`, U x + b, each row of x stands for,
and x is not read. Where `ids` is empty, `table` has one row, the bias.

Where there are few sequences, a product with one step's rows takes as long as loading the weights. So the inputs of
several steps are projected together, ahead of their steps, and relevance goes back to them together, some steps late.
"""

from __future__ import annotations

import numpy as np

from lrpnumpy.kernels.product import add_product
from lrpnumpy.kernels.steps import copy, repeat

FEW = 4  # sequences
TOGETHER = 48  # rows


def states_before(first, t):  # type: ignore[no-untyped-def]
    """Row of a state array where the states before step t begin; that of sequence s is s rows further.

    State arrays (n_0 + R, H) hold the n_0 initial states, then the state after each row of the batch. The states
    before step t are those after step t-1. In the example above:

        states before step t      0: rows 0..2    1: rows 3..4    2: rows 6..7    3 (the last ones): rows 8..9

    and row 5 is the last state of the third sequence, which has one step.
    """
    return first[t - 1] + first[1] if t > 0 else 0


def lengths_of(first):  # type: ignore[no-untyped-def]
    """(n_0,) number of steps of each sequence."""
    length = np.empty(first[1], np.int64)
    for t in range(first.size - 1):
        running_on = first[t + 2] - first[t + 1] if t + 2 < first.size else 0
        for s in range(running_on, first[t + 1] - first[t]):
            length[s] = t + 1
    return length


def begin_with(start, states) -> None:  # type: ignore[no-untyped-def]
    """states (n_0, H) = start, which is (n_0, H), or (1, H) for all sequences."""
    repeat(start.reshape(start.size), states.reshape(states.size))


# -- forwards ----------------------------------------------------------------------------------------------------------


def input_rooms(first, x, ids, gates, H):  # type: ignore[no-untyped-def]
    """Memory for `prepare`: inputs in reading order, projections that are made ahead, and which rows are in there."""
    n_0, R, D = first[1], first[-1], x.shape[1]
    is_ahead = n_0 < FEW and ids.size == 0
    room = min(TOGETHER, R) if is_ahead else n_0
    gathered = np.empty((room if ids.size == 0 else 0, D), x.dtype)
    return gathered, np.empty((gates, room if is_ahead else 0, H), x.dtype), np.zeros(2, np.int64)


def prepare(t, first, x, order, ids, table, U, gathered, projected, span) -> None:  # type: ignore[no-untyped-def]
    """Gather the inputs of step t if they are in another order; of few sequences, project those of several steps."""
    if ids.size > 0 or first[t + 1] <= span[1]:
        return
    room, H, is_ahead = gathered.shape[0], projected.shape[2], projected.shape[1] > 0
    begin = first[t]
    end = min(begin + room, first[-1]) if is_ahead else first[t + 1]
    for s in range(end - begin if is_ahead or order.size > 0 else 0):
        copy(x[order[begin + s] if order.size > 0 else begin + s], gathered[s])
    for k in range(projected.shape[0] if is_ahead else 0):
        repeat(table[0][k * H : (k + 1) * H], projected[k].reshape(room * H))
        add_product(gathered[: end - begin], U[k], projected[k][: end - begin])
    span[0] = begin
    span[1] = end


def project(k, t, first, x, order, ids, table, U, gathered, projected, span, z) -> None:  # type: ignore[no-untyped-def]
    """z = U x + b for gate k and the inputs of step t; z is flat, (n, H)."""
    row, n = first[t], first[t + 1] - first[t]
    H = z.size // n
    if ids.size > 0:
        for s in range(n):
            here = order[row + s] if order.size > 0 else row + s
            copy(table[ids[here]][k * H : (k + 1) * H], z[s * H : (s + 1) * H])
    elif projected.shape[1] > 0:
        copy(projected[k][row - span[0] : row - span[0] + n].reshape(n * H), z)
    else:
        repeat(table[0][k * H : (k + 1) * H], z)
        if order.size > 0:
            add_product(gathered[:n], U[k], z.reshape(n, H))
        else:
            add_product(x[row : row + n], U[k], z.reshape(n, H))


# -- backwards ---------------------------------------------------------------------------------------------------------


def message_rooms(first, x, ids, R_x, blocks, H, is_lrp, is_shared):  # type: ignore[no-untyped-def]
    """Memory for `pass_on`: s of steps that wait, what a step's inputs get, the largest of it, and which steps wait."""
    n_0, R = first[1], first[-1]
    is_wanted, is_looked_up = R_x.shape[0] > 0, ids.size > 0
    D = H if is_looked_up else x.shape[1]
    is_late = is_wanted and n_0 < FEW and not is_looked_up and not is_shared
    room = min(TOGETHER, R) if is_late else n_0
    waiting = np.empty((blocks, room if is_late else 0, H), R_x.dtype)
    r_x = np.empty((1 if is_looked_up else room, D), R_x.dtype)
    tops = np.zeros(n_0 * (1 if is_looked_up else D) if is_lrp and is_wanted else 0, R_x.dtype)
    return waiting, r_x, tops, np.full(1, first.size - 1, np.int64)


def pass_on(s, t, first, order, ids, x, table, b, U, gate, is_lrp, alike, waiting, r_x, tops, end, R_x) -> None:  # type: ignore[no-untyped-def]
    """Send s of step t, (blocks, n, H), to the inputs, now or together with that of steps before it.

    Blocks are those of the gates from `gate` on. R_x += s U, times x for LRP, and what all inputs of a row get `alike`.
    """
    if R_x.shape[0] == 0:
        return
    row, n = first[t], first[t + 1] - first[t]
    room = waiting.shape[1]
    if ids.size > 0:
        to_words(s, row, order, ids, table, b, gate, is_lrp, r_x, tops, R_x)
    elif room == 0:
        to_inputs(s, t, t + 1, first, order, x, U, is_lrp, alike, r_x, tops, R_x)
    else:
        last = first[end[0]]
        at = room - (last - row)
        for block in range(s.shape[0]):
            copy(s[block].reshape(n * s.shape[2]), waiting[block][at : at + n].reshape(n * s.shape[2]))
        if t == 0 or last - first[t - 1] > room:
            to_inputs(waiting, t, end[0], first, order, x, U, is_lrp, alike, r_x, tops, R_x)
            end[0] = t


def to_inputs(s, t, end, first, order, x, U, is_lrp, alike, r_x, tops, R_x) -> None:  # type: ignore[no-untyped-def]
    """The steps from t to end: their s, (blocks, so many rows or more, H), comes last in its array."""
    begin, count = first[t], first[end] - first[t]
    D = x.shape[1]
    zero, flat = r_x.dtype.type(0), r_x[:count].reshape(count * D)
    for q in range(count * D):
        flat[q] = zero
    for block in range(U.shape[0]):
        add_product(s[block][s.shape[1] - count :], U[block], r_x[:count])
    for step in range(t, end):
        row, n = first[step], first[step + 1] - first[step]
        part = r_x[row - begin : row - begin + n]
        if order.size == 0 and alike.size == 0:
            here = slice(row, row + n)
            x_flat, R_flat = x[here].reshape(n * D), R_x[here].reshape(n * D)
            add(part.reshape(n * D), x_flat, zero, is_lrp, tops[: n * D], R_flat)
        else:
            for q in range(n):
                at = order[row + q] if order.size > 0 else row + q
                extra = alike[q] if alike.size > 0 else zero
                add(part[q], x[at], extra, is_lrp, tops[q * D : (q + 1) * D], R_x[at])


def add(part, x, extra, is_lrp, top, total) -> None:  # type: ignore[no-untyped-def]
    """total += part; for LRP that is times x, and `extra`, and `top` is raised to its size."""
    if is_lrp:
        for q in range(part.size):
            message = x[q] * part[q] + extra
            size = abs(message)
            top[q] = size if size > top[q] else top[q]
            total[q] += message
    else:
        for q in range(part.size):
            total[q] += part[q]


def to_words(s, row, order, ids, table, b, gate, is_lrp, r_x, tops, R_x) -> None:  # type: ignore[no-untyped-def]
    """The same for words that were looked up projected: R_x += s U x, whose columns are still to be summed."""
    blocks, n, H = s.shape
    message, zero = r_x[0], r_x.dtype.type(0)
    for q in range(n):
        at = order[row + q] if order.size > 0 else row + q
        u_x, total = table[ids[at]], R_x[at]
        for j in range(H):
            message[j] = zero
        for block in range(blocks):
            k = gate + block
            part, u_x_k, b_k = s[block, q], u_x[k * H : (k + 1) * H], b[k]
            for j in range(H):
                message[j] += part[j] * (u_x_k[j] - b_k[j])
        for j in range(H):
            total[j] += message[j]
        if is_lrp:
            tops[q] = max(tops[q], abs(sum_of(message)))


def sum_of(x):  # type: ignore[no-untyped-def]
    """The sum of the numbers in a flat array, in any order."""
    total = x.dtype.type(0)
    for q in range(x.size):
        total += x[q]
    return total


def settle(ledger, tops, column) -> None:  # type: ignore[no-untyped-def]
    """Raise the largest message of each sequence, ledger[3], to that in its `column` numbers of tops."""
    for q in range(tops.size):
        ledger[3, q // column] = max(ledger[3, q // column], tops[q])


def overloads() -> None:
    """Let kernels call these functions."""
    from numba.extending import register_jitable

    register_jitable(fastmath={"contract", "reassoc"})(sum_of)  # so that it is vectorised
    for helper in (
        states_before,
        lengths_of,
        begin_with,
        input_rooms,
        prepare,
        project,
        message_rooms,
        pass_on,
        to_inputs,
        add,
        to_words,
        settle,
    ):
        register_jitable(helper)
