"""LRP through sums, by the epsilon rule, and the ledgers: what is absorbed, added up for each sequence."""

from __future__ import annotations

from functools import partial

import numpy as np

from lrpnumpy.kernels.arguments import I1, J1, R1, R2, R3, W2, Int, Scalar
from lrpnumpy.kernels.compile import Kernel
from lrpnumpy.kernels.steps import inverse


def inverses(z, eps) -> tuple[np.ndarray, np.ndarray]:
    """1 / stab(z), and the share eps / (|z| + eps) of the stabilizer; (0, 1) if the denominator is exactly 0."""
    size = abs(z) + z.dtype.type(eps)
    if size.all():
        over = 1 / size
        lost = z.dtype.type(eps) * over
    else:
        dead = size == 0
        over = np.where(dead, z.dtype.type(0), 1 / np.where(dead, z.dtype.type(1), size))
        lost = np.where(dead, z.dtype.type(1), z.dtype.type(eps) * over)
    return np.copysign(over, z + z.dtype.type(0)), lost  # -0 + 0 is +0, and has the sign +1


def by_numpy(R, z, bias, eps, owner, s, ledger) -> None:
    """The same, on whole arrays."""
    over, lost = inverses(z, eps)
    s[...] = over * R
    np.add.at(ledger[0], owner, s @ bias)
    np.add.at(ledger[1], owner, (lost * R).sum(axis=1))
    np.maximum.at(ledger[3], owner, abs(R).max(axis=1, initial=0))


@partial(Kernel, by_numpy=by_numpy)
def backward(
    R: R2,  # (rows, M) incoming messages of the sums
    z: R2,  # (rows, M)
    bias: R1,  # (M,) of each sum
    eps: Scalar,
    owner: I1,  # (rows,) which sequence each row is of
    s: W2,  # (rows, M) out: term i of sum j receives z_i w_ij s_j
    ledger: W2,  # (4, n) rows 0 and 1: the shares of biases and stabilizer are added; row 3: raised to the largest R
) -> None:
    """s = R / stab(z)."""
    rows, M = z.shape
    n = ledger.shape[1]
    to_bias = np.zeros((n, M), z.dtype)  # summed over rows first: these loops are then vectorized
    to_stabilizer = np.zeros((n, M), z.dtype)
    largest = np.zeros((n, M), z.dtype)
    for q in range(rows):
        k = owner[q]
        for j in range(M):
            over, lost = inverse(z[q, j], eps)
            s[q, j] = over * R[q, j]
            to_bias[k, j] += s[q, j] * bias[j]
            to_stabilizer[k, j] += lost * R[q, j]
            size = abs(R[q, j])
            largest[k, j] = size if size > largest[k, j] else largest[k, j]
    for k in range(n):
        for j in range(M):
            ledger[0, k] += to_bias[k, j]
            ledger[1, k] += to_stabilizer[k, j]
            ledger[3, k] = max(ledger[3, k], largest[k, j])


def close_books(
    kept: R3,  # (nodes, 6, n) the entries of each node, in the order of rules.propagation.Entry
    scores: R2,  # (n, C)
    targets: I1,  # (n,) the class that is explained
    versus: Int,  # the class that it is contrasted with, or -1
    relevance: R1,  # (R,) of the steps of the first input
    owner: I1,  # (R,) the sequence of each step
    gap: Scalar,  # how much a ledger may miss, relative to the explained score
    most: Scalar,  # how large a message may be, relative to the explained score
    rounding: Scalar,  # the relative error of one stored relevance
    books: W2,  # (7 + nodes, n) in: row 0, relevance of the other inputs; out: rows of ledgers.ROWS, then biases
    sound: J1,  # (n,) out: 1 where the ledger adds up, no message is too large and rounding changes no sum
) -> None:
    """Rows of `books` are sums over the nodes; the total is the sum of all but the largest message."""
    zero = kept.dtype.type(0)
    n = kept.shape[2]
    size = np.zeros(n, kept.dtype)  # sum of |relevance|
    for row in range(relevance.size):
        books[0, owner[row]] += relevance[row]
        size[owner[row]] += abs(relevance[row])
    books[1:7] = zero
    for k in range(kept.shape[0]):
        for s in range(n):
            books[1, s] += kept[k, 1, s]
            books[2, s] += kept[k, 2, s]
            books[3, s] += kept[k, 4, s]
            books[4, s] += kept[k, 5, s]
            books[5, s] = max(books[5, s], kept[k, 3, s])
            books[6, s] += kept[k, 0, s]
            books[7 + k, s] = kept[k, 0, s]
    for s in range(n):
        books[6, s] += books[1, s] + books[2, s] + books[0, s] + (books[3, s] + books[4, s])
        explained = scores[s, targets[s]]
        if versus >= 0:
            explained -= scores[s, versus]
        adds_up = abs(books[6, s] - explained) <= gap * abs(explained)
        rounds_off = rounding * size[s] > gap * abs(explained)
        sound[s] = 1 if adds_up and books[5, s] <= most * abs(explained) and not rounds_off else 0


close = Kernel(close_books, close_books)  # plain Python is quick enough until it is compiled
