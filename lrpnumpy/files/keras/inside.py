"""TimeDistributed around layers over an axis inside each step: Conv1D, pools and Flatten of records (steps, places, n).

The numbers of a step are one vector, so a convolution inside it is a matrix, and a maximum is one of several vectors.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lrpnumpy.files.build.network import NetworkValue
from lrpnumpy.files.keras.activations import apply, function
from lrpnumpy.files.keras.build import KerasBuild
from lrpnumpy.files.keras.config import KerasLayer
from lrpnumpy.files.keras.joins import extreme
from lrpnumpy.layers.windows import WindowSteps


def at_places(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """The output of a layer inside each step."""
    layer.channels_last()
    b.room(x.width)
    x = b.value(layer, x)
    if layer.kind == "Flatten":
        return _shaped(x, -1)
    if layer.kind == "Conv1D":
        return _conv(b, layer, x)
    return _pool(b, layer, x)


def _shaped(x: NetworkValue, *shape: int) -> NetworkValue:
    """The same as features, or as places and features, with the numbers in `shape`."""
    return replace(x, axes=("N", "T", "F", "F")[: 2 + len(shape)], index=x.index.reshape(shape))


def _conv(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    s, windows, filters = layer.settings, layer.windows(), layer.settings.integer("filters")
    b.refuse_if(s.integer("groups", 1) != 1, "has groups, which is not supported inside TimeDistributed")
    K, bias = b.with_bias(layer, s, [(windows.width, x.index.shape[1], filters)], (filters,))
    V = _windows(b, x, windows, K)
    if bias is not None:
        bias = np.tile(bias, len(V))
    return apply(b, layer, _product(b, x, V, bias), function(b, layer, s))


def _pool(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """MaxPooling1D and AveragePooling1D, or with Global all places together."""
    places, n = x.index.shape
    size = stride = places
    is_global = layer.kind.startswith("Global")
    if not is_global:
        size = layer.number("pool_size", 2)
        stride = layer.number("strides", size)
    windows = WindowSteps(size, stride, 1, layer.one_of("padding", ("valid", "same"), "valid"))
    V = _windows(b, x, windows, np.broadcast_to(np.eye(n, dtype=np.float32), (size, n, n)))
    if "Average" in layer.kind:
        out = _product(b, x, V / V.sum(axis=(2, 3), keepdims=True), None)
    else:
        first = np.arange(len(V)) * stride - int(windows.left(np.array([places]))[0])
        inside = [np.clip(first + w, 0, places - 1) for w in range(size)]  # padding counts for the place at the edge
        flat = _shaped(x.taking(2, inside[0]), -1)
        for index in inside[1:]:
            flat = extreme(b, layer, "Maximum", flat, _shaped(x.taking(2, index), -1))
        out = _shaped(flat, len(V), n)
    return _shaped(out, n) if is_global else out


def _windows(b: KerasBuild, x: NetworkValue, windows: WindowSteps, K: np.ndarray) -> np.ndarray:
    """(windows, filters, places, n) the kernel (width, n, filters) at the places of each window, without padding."""
    places, n = x.index.shape
    count, left = int(windows.count(places)), int(windows.left(np.array([places]))[0])
    b.refuse_if(count < 1, f"has windows that are longer than {places} places")
    ends = (count - 1) * windows.stride + windows.reach
    b.room(count, K.shape[2], max(ends, left + places), n)
    V = np.zeros((count, K.shape[2], max(ends, left + places), n), K.dtype)
    for k in range(count):
        begin = k * windows.stride
        V[k, :, begin : begin + windows.reach : windows.dilation] = K.transpose(2, 0, 1)
    return V[:, :, left : left + places]


def _product(b: KerasBuild, x: NetworkValue, V: np.ndarray, bias: np.ndarray | None) -> NetworkValue:
    """V at each step, whose rows are windows and filters."""
    flat = _shaped(x, -1)
    return _shaped(b.dense(flat, 2, V.reshape(-1, flat.width), bias), *V.shape[:2])
