"""Convolutions inside each step: the numbers of a step, places and features, are one vector, so each is a matrix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lrpnumpy.files.build.network import NetworkBuild, NetworkValue
from lrpnumpy.layers.windows import WindowSteps


def shaped(x: NetworkValue, *shape: int) -> NetworkValue:
    """The same as features, or as places and features, with the numbers in `shape`."""
    rows = tuple(axis for axis in x.axes if axis != "F")
    return replace(x, axes=(*rows, *"F" * len(shape)), index=x.index.reshape(shape))


def matrix_of_windows(net: NetworkBuild, x: NetworkValue, windows: WindowSteps, K: np.ndarray) -> np.ndarray:
    """(windows, filters, places, n) the kernel (width, n, filters) at the places of each window, without padding."""
    places, n = x.index.shape
    count, left = int(windows.count(places)), int(windows.left(np.array([places]))[0])
    net.refuse_if(count < 1, f"has windows that are longer than {places} places")
    ends = (count - 1) * windows.stride + windows.reach
    net.room(count, K.shape[2], max(ends, left + places), n)
    V = np.zeros((count, K.shape[2], max(ends, left + places), n), K.dtype)
    for k in range(count):
        begin = k * windows.stride
        V[k, :, begin : begin + windows.reach : windows.dilation] = K.transpose(2, 0, 1)
    return V[:, :, left : left + places]


def product(net: NetworkBuild, x: NetworkValue, V: np.ndarray, bias: np.ndarray | None) -> NetworkValue:
    """V at each step, whose rows are windows and filters; the bias is that of a filter."""
    flat = shaped(x, -1)
    if bias is not None:
        bias = np.tile(bias, len(V))
    return shaped(net.dense(flat, len(flat.axes) - 1, V.reshape(-1, flat.width), bias), *V.shape[:2])
