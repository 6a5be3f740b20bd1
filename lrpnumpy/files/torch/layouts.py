"""The layouts in which a PyTorch module may have a value, what it may make of scores, and its attentions over steps.

Ours is (N, T, M) for steps of N sequences, and (N, M) for one vector each. Theirs is NTM (batch first), TNM (steps
first), NMT (channels before steps, around a convolution) or NM.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.layers import Activation, AttentionPool, Dense
from lrpnumpy.model import Node


def probabilities(z: np.ndarray) -> Iterator[tuple[str | None, np.ndarray]]:
    """What a module may give for scores: themselves, or their probabilities."""
    yield None, z
    with np.errstate(all="ignore"):
        yield "sigmoid", ACTIVATIONS["sigmoid"].F(z)
        if z.shape[-1] > 1:
            e = np.exp(z - z.max(axis=-1, keepdims=True))
            p = e / e.sum(axis=-1, keepdims=True)
            yield "softmax", p
            yield "softmax", np.log(p)


def turned(rows: np.ndarray, steps: bool) -> Iterator[tuple[str, np.ndarray]]:
    """A value in each layout that a module may have it in: batch first, steps first, or channels before steps."""
    if not steps:
        yield "NM", rows
        return
    yield "NTM", rows
    yield "TNM", np.swapaxes(rows, 0, 1)
    yield "NMT", np.swapaxes(rows, 1, 2)


def ours(array: np.ndarray, layout: str, like: np.ndarray) -> np.ndarray:
    """What a part gave, in our layout, from that of its input."""
    N = len(like)
    if layout == "NM":
        return array.reshape(N, -1)
    if layout == "NMT":
        return np.swapaxes(array.reshape(N, -1, array.shape[-1]), 1, 2)
    T = like.shape[1]
    return array.reshape(N, T, -1) if layout == "NTM" else np.swapaxes(array.reshape(T, N, -1), 0, 1)


def layouts(array: np.ndarray, N: int, lengths: set[int]) -> Iterator[tuple[str, np.ndarray]]:
    """An array of the module in our layout, for each that it may have."""
    if array.ndim == 2 and len(array) == N:
        yield "NM", array
    for T in lengths:
        if array.ndim == 3 and array.shape[:2] == (N, T):
            yield "NTM", array
        if array.ndim == 3 and array.shape[:2] == (T, N):
            yield "TNM", np.swapaxes(array, 0, 1)
        if array.ndim == 3 and array.shape[::2] == (N, T):
            yield "NMT", np.swapaxes(array, 1, 2)


def attentions(
    name: str, M: int, nodes: Sequence[Node], parameters: Mapping[str, np.ndarray]
) -> Iterator[AttentionPool]:
    """Attentions over the steps of a value that a module may have: Linears of it, or arrays of the module's own."""
    by_name = {node.name: node for node in nodes}
    for node in nodes:
        if not isinstance(node.layer, Dense) or node.layer.outputs != 1:
            continue
        v, c = node.layer.V[0], 0.0 if node.layer.d is None else float(node.layer.d[0])
        before = by_name.get(node.inputs[0])
        if node.inputs == (name,):
            yield AttentionPool(v, c=c)
        elif before is not None and isinstance(before.layer, Activation) and before.layer.activation == "tanh":
            inner = by_name.get(before.inputs[0])
            if before.inputs == (name,):
                yield AttentionPool(v, np.eye(M, dtype=v.dtype), None, c)
            elif inner is not None and isinstance(inner.layer, Dense) and inner.inputs == (name,):
                yield AttentionPool(v, inner.layer.V, inner.layer.d, c)
    vectors = [array.reshape(-1) for array in parameters.values() if max(array.shape, default=0) == array.size > 1]
    for v in vectors:
        if len(v) == M:
            yield AttentionPool(v)
            yield AttentionPool(v, np.eye(M, dtype=v.dtype))
        for array in parameters.values():
            for W in (array, array.T):
                if W.shape == (len(v), M):
                    yield AttentionPool(v, W)
                    yield from (AttentionPool(v, W, b) for b in vectors if len(b) == len(v) and b is not v)


def pooled_by(pool: AttentionPool, rows: np.ndarray) -> np.ndarray:
    """(N, T, M) to (N, M)."""
    u = rows if pool.W is None else np.tanh(rows @ pool.W.T + pool.b)
    e = u @ pool.v
    a = np.exp(e - e.max(axis=1, keepdims=True))
    return (a[:, :, None] * rows).sum(axis=1) / a.sum(axis=1, keepdims=True)
