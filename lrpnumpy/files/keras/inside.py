"""TimeDistributed around layers over an axis inside each step: Conv1D, pools and Flatten of records (steps, places, n).

The numbers of a step are one vector, so a convolution inside it is a matrix, and a maximum is one of several vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from lrpnumpy.files.build.network import NetworkValue
from lrpnumpy.files.keras.activations import apply, function
from lrpnumpy.files.keras.build import AT_PLACES, KerasBuild
from lrpnumpy.files.keras.config import KerasLayer
from lrpnumpy.files.keras.joins import extreme
from lrpnumpy.layers.windows import WindowSteps


def _flat(x: NetworkValue) -> NetworkValue:
    """Places and features as one axis."""
    return replace(x, axes=("N", "T", "F"), index=x.index.reshape(-1))


def _shaped(x: NetworkValue, *shape: int) -> NetworkValue:
    """The same as places and features, with the numbers in `shape`."""
    return replace(x, axes=("N", "T", "F", "F")[: 2 + len(shape)], index=x.index.reshape(shape))


def _places(b: KerasBuild, places: int, windows: WindowSteps) -> np.ndarray:
    """(windows, width) the place of each entry of each window; below 0 or beyond the end it is padding."""
    count = int(windows.count(places))
    if count < 1:
        b.refuse(f"has windows that are longer than {places} places")
    left = int(windows.left(np.array([places]))[0])
    starts = np.arange(count)[:, None] * windows.stride - left
    b.room(count, windows.width)
    return starts + np.arange(windows.width) * windows.dilation


def conv(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """Conv1D: at each step a matrix that is the same at each place."""
    places, n = x.index.shape
    s, windows = layer.settings, layer.windows()
    if s.integer("groups", 1) != 1:
        b.refuse("has groups, which is not supported inside TimeDistributed")
    filters = s.integer("filters")
    K, bias = b.with_bias(layer, s, [(windows.width, n, filters)], (filters,))
    where = _places(b, places, windows)
    b.room(len(where) * filters, places * n)
    V = np.zeros((len(where), filters, places, n), K.dtype)
    for k, row in enumerate(where):
        for w in np.flatnonzero((row >= 0) & (row < places)):
            V[k, :, row[w]] = K[w].T
    if bias is not None:
        bias = np.tile(bias, len(where))
    out = b.dense(_flat(x), 2, V.reshape(len(where) * filters, -1), bias)
    return apply(b, layer, _shaped(out, len(where), filters), function(b, layer, s))


def pool(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """MaxPooling1D and AveragePooling1D, or with Global all places together."""
    places, n = x.index.shape
    whole = layer.kind.startswith("Global")
    size = places if whole else layer.number("pool_size", 2)
    stride = places if whole else layer.number("strides", size)
    padding = layer.one_of("padding", ("valid", "same"), "valid")
    where = _places(b, places, WindowSteps(size, stride, 1, padding))
    inside = np.clip(where, 0, places - 1)  # an entry that is padding counts for the one at the edge, in a maximum
    if "Max" in layer.kind:
        out = _flat(x.taking(2, inside[:, 0]))
        for w in range(1, size):
            out = extreme(b, layer, "Maximum", out, _flat(x.taking(2, inside[:, w])))
    else:
        there = (where >= 0) & (where < places)
        V = np.zeros((len(where), places), np.float32)
        for k, row in enumerate(where):
            V[k, row[there[k]]] = 1 / there[k].sum()
        out = b.dense(_flat(x), 2, np.kron(V, np.eye(n, dtype=np.float32)))
    return _shaped(out, n) if whole else _shaped(out, len(where), n)


def flatten(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """All places and features as one vector at each step."""
    return _flat(x)


TABLE: dict[str, Callable[[KerasBuild, KerasLayer, NetworkValue], NetworkValue]] = {
    **dict.fromkeys(AT_PLACES, pool),
    "Conv1D": conv,
    "Flatten": flatten,
}


def each_step(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """A layer inside each step."""
    layer.channels_last()
    b.room(x.width)
    return TABLE[layer.kind](b, layer, b.value(layer, x))
