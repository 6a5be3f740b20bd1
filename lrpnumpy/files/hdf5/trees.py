"""The B-trees of an HDF5 file, of both versions: sections III.A.1 and III.A.2.

A tree is read level by level, whole. A level lies below the one before it, and no node is met twice.
"""

from __future__ import annotations

import numpy as np

from lrpnumpy.files.hdf5.pieces import UNDEFINED, Pieces, Refused, walked, width_of

GROUP, CHUNKS = 0, 1  # what the old trees hold
HUGE, LINKS, ATTRIBUTES = 1, 5, 8  # what the new ones do


def leaves(file: Pieces, root: int, kind: int, entry: np.dtype) -> np.ndarray:
    """The entries of all leaves of a tree of version 1: each is a key, and the address of a `child`."""
    found, nodes = [np.empty(0, entry)], [(root, -1)]
    for address, level in walked(nodes):
        what, depth, count = file.cursor(address, 8, b"TREE").numbers("BBH")
        if what != kind or level not in (-1, depth):  # the root may be of any level
            raise Refused(f"has a node of another tree at {address:,}")
        entries = np.frombuffer(file.cursor(address + 24, count * entry.itemsize).data, entry)
        file.budget.visit("", count)
        if depth:
            nodes += [(child, depth - 1) for child in entries["child"].tolist()]
        else:
            found.append(entries)
    return np.concatenate(found)


def records(file: Pieces, address: int, kind: int) -> np.ndarray:
    """The records of a tree of version 2, each as a row of bytes, in arbitrary order."""
    head = file.checked(address, 38, b"BTHD")
    version, what, node, size, depth, _, _, root, count, total = head.numbers("BBIHHBBQHQ")
    if version or what != kind or not size:
        raise Refused(f"has another tree at {address:,} than there should be")
    file.budget.level("", depth)
    pointers = _pointers(node, size, depth)
    found, nodes = [b""], [(root, count, depth)]
    if root == UNDEFINED:
        nodes = []
    for place, count, level in walked(nodes):
        width, inner = pointers[level]
        sign, children = b"BTLF", 0
        if level:
            sign, children = b"BTIN", count + 1
        block = file.checked(place, 6 + count * size + children * (8 + width + inner) + 4, sign)
        if block.numbers("BB") != (0, kind):
            raise Refused(f"has a node of another tree at {place:,}")
        found.append(block.take(count * size))
        file.budget.visit("", count)
        for _ in range(children):
            nodes.append((block.number(8), block.number(width), level - 1))
            block.take(inner)
    rows = np.frombuffer(b"".join(found), np.uint8).reshape(-1, size)
    if len(rows) != total:
        raise Refused(f"has {len(rows):,} of {total:,} records in the tree at {address:,}")
    return rows


def _pointers(node: int, size: int, depth: int) -> list[tuple[int, int]]:
    """For each level the bytes of the two numbers beside an address: records in the child, and below it too.

    They are as wide as the largest number that they may have to hold: what fits into a node of `node` bytes.
    """
    most = everything = (node - 10) // size  # of a leaf
    if most < 1:
        raise Refused(f"has a tree whose nodes of {node:,} bytes have no room for a record")
    found, width, inner = [(0, 0)], width_of(most), 0
    for _ in range(depth):
        found.append((width, inner))
        fan = max(0, (node - 18 - width - inner) // (size + 8 + width + inner))
        everything = (fan + 1) * everything + fan
        inner = width_of(everything)
    return found
