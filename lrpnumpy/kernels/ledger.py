"""The ledgers of LRP: what all nodes kept, added up for each sequence, and whether that is the score."""

from __future__ import annotations

from lrpnumpy.kernels.compile import I1, J1, R2, R3, W2, Int, Scalar, kernel


@kernel
def close(
    kept: R3,  # (nodes, 4, n) what each node kept: biases, stabiliser, start state; and its largest message
    numbered: I1,  # (layers,) the nodes whose biases have a row of their own
    scores: R2,  # (n, C)
    targets: I1,  # (n,) the class that is explained
    versus: Int,  # the class that it is held against, or -1
    gap: Scalar,  # how much a ledger may miss, in parts of what is explained
    most: Scalar,  # how large a message may be, in parts of what is explained
    books: W2,  # (5 + layers, n) in: row 0, what the inputs got; out: stabiliser, start state, largest, total, biases
    sound: J1,  # (n,) out: 1 where the ledger adds up and no message is too large
) -> None:
    """Rows of `books` are sums over the nodes; the total is the sum of all but the largest message."""
    zero = kept.dtype.type(0)
    n = kept.shape[2]
    for row in range(1, 5):
        for s in range(n):
            books[row, s] = zero
    for k in range(kept.shape[0]):
        for s in range(n):
            books[1, s] += kept[k, 1, s]
            books[2, s] += kept[k, 2, s]
            books[3, s] = max(books[3, s], kept[k, 3, s])
            books[4, s] += kept[k, 0, s]
    for k in range(numbered.size):
        for s in range(n):
            books[5 + k, s] = kept[numbered[k], 0, s]
    for s in range(n):
        books[4, s] += books[1, s] + books[2, s] + books[0, s]
        explained = scores[s, targets[s]]
        if versus >= 0:
            explained -= scores[s, versus]
        adds_up = abs(books[4, s] - explained) <= gap * abs(explained)
        sound[s] = 1 if adds_up and books[3, s] <= most * abs(explained) else 0
