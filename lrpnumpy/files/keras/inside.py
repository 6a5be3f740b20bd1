"""TimeDistributed around layers over an axis inside each step: Conv1D, pools and Flatten of records (steps, places, n).

The numbers of a step are one vector, so a convolution inside it is a matrix, and a maximum is one of several vectors.
"""

from __future__ import annotations

import numpy as np

from lrpnumpy.files.build.inside import matrix_of_windows, product, shaped
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
        return shaped(x, -1)
    if layer.kind == "Conv1D":
        return _conv(b, layer, x)
    return _pool(b, layer, x)


def _conv(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    s, windows, filters = layer.settings, layer.windows(), layer.settings.integer("filters")
    if s.integer("groups", 1) != 1:
        b.refuse("has groups, which is not supported inside TimeDistributed")
    K, bias = b.with_bias(layer, s, [(windows.width, x.index.shape[1], filters)], (filters,))
    V = matrix_of_windows(b, x, windows, K)
    return apply(b, layer, product(b, x, V, bias), function(b, layer, s))


def _pool(b: KerasBuild, layer: KerasLayer, x: NetworkValue) -> NetworkValue:
    """MaxPooling1D and AveragePooling1D, or with Global all places together."""
    places, n = x.index.shape
    size = stride = places
    is_global = layer.kind.startswith("Global")
    if not is_global:
        size = layer.number("pool_size", 2)
        stride = layer.number("strides", size)
    windows = WindowSteps(size, stride, 1, layer.one_of("padding", ("valid", "same"), "valid"))
    V = matrix_of_windows(b, x, windows, np.broadcast_to(np.eye(n, dtype=np.float32), (size, n, n)))
    if "Average" in layer.kind:
        out = product(b, x, V / V.sum(axis=(2, 3), keepdims=True), None)
    else:
        first = np.arange(len(V)) * stride - int(windows.left(np.array([places]))[0])
        inside = [np.clip(first + w, 0, places - 1) for w in range(size)]  # padding counts for the place at the edge
        flat = shaped(x.taking(2, inside[0]), -1)
        for index in inside[1:]:
            flat = extreme(b, layer, "Maximum", flat, shaped(x.taking(2, index), -1))
        out = shaped(flat, len(V), n)
    return shaped(out, n) if is_global else out
