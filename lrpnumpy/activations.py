"""The one table of activations: F, its derivative, and the code by which kernels know it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.kernels.steps import CODES

Array = np.ndarray


class Activation(NamedTuple):
    """y = F(z), elementwise. `slope` is F'(z), which may use y where that is shorter."""

    F: Callable[[Array], Array]
    slope: Callable[[Array, Array], Array]
    code: int


def _sigmoid(z: Array) -> Array:
    e = np.exp(-abs(z))
    return np.where(z < 0, e, 1) / (1 + e)


def _clipped(slope: float) -> tuple[Callable[[Array], Array], Callable[[Array, Array], Array]]:
    """min(1, max(0, slope z + 1/2)): Keras' hard sigmoids."""

    def F(z: Array) -> Array:
        return np.clip(z * z.dtype.type(slope) + z.dtype.type(0.5), 0, 1)

    return F, lambda z, y: np.where((y > 0) & (y < 1), z.dtype.type(slope), z.dtype.type(0))


def _leaky(below: Any) -> tuple[Callable[[Array], Array], Callable[[Array, Array], Array]]:
    """z where z > 0, else below z; `below` is a number, or an array with one for each feature."""

    def F(z: Array) -> Array:
        return np.where(z > 0, z, np.asarray(below, z.dtype) * z)

    return F, lambda z, y: np.where(z > 0, z.dtype.type(1), np.asarray(below, z.dtype))


def _exponential_unit(scale: float, alpha: float) -> tuple[Callable[[Array], Array], Callable[[Array, Array], Array]]:
    """scale z where z > 0, else scale alpha (exp(z) - 1): elu and selu."""

    def F(z: Array) -> Array:
        return np.where(z > 0, z, alpha * np.expm1(np.minimum(z, 0))) * z.dtype.type(scale)

    return F, lambda z, y: np.where(z > 0, z.dtype.type(scale), y + z.dtype.type(scale * alpha))


def _softplus(z: Array) -> Array:
    return np.maximum(z, 0) + np.log1p(np.exp(-abs(z)))


def _normal_below(z: Array) -> Array:
    """P(N < z) of a standard normal N."""
    erfc = np.frompyfunc(math.erfc, 1, 1)
    return np.asarray(0.5 * erfc(-z / math.sqrt(2))).astype(z.dtype)


def _gelu_slope(z: Array, y: Array) -> Array:
    return _normal_below(z) + z * np.exp(-z * z / 2) / z.dtype.type(math.sqrt(2 * math.pi))


def _gelu_tanh(z: Array) -> Array:
    return z * _sigmoid(z.dtype.type(2 * math.sqrt(2 / math.pi)) * (z + z.dtype.type(0.044715) * z**3))


def _gelu_tanh_slope(z: Array, y: Array) -> Array:
    factor = z.dtype.type(2 * math.sqrt(2 / math.pi))
    s = _sigmoid(factor * (z + z.dtype.type(0.044715) * z**3))
    return s + z * s * (1 - s) * factor * (1 + z.dtype.type(3 * 0.044715) * z * z)


def _mish(z: Array) -> Array:
    return z * np.tanh(_softplus(z))


def _mish_slope(z: Array, y: Array) -> Array:
    t = np.tanh(_softplus(z))
    return t + z * (1 - t * t) * _sigmoid(z)


_TABLE: dict[str, tuple[Callable[[Array], Array], Callable[[Array, Array], Array]]] = {
    "linear": (lambda z: z, lambda z, y: np.ones_like(z)),
    "sigmoid": (_sigmoid, lambda z, y: y * (1 - y)),
    "tanh": (np.tanh, lambda z, y: 1 - y * y),
    "relu": (lambda z: np.maximum(z, 0), lambda z, y: (y > 0).astype(z.dtype)),
    "hard_sigmoid": _clipped(0.2),
    "hard_sigmoid_3": _clipped(1 / 6),
    "leaky_relu": _leaky(0.01),
    "elu": _exponential_unit(1.0, 1.0),
    "selu": _exponential_unit(1.0507009873554804934193349852946, 1.6732632423543772848170429916717),
    "softplus": (_softplus, lambda z, y: _sigmoid(z)),
    "softsign": (lambda z: z / (1 + abs(z)), lambda z, y: (1 - abs(y)) ** 2),
    "exponential": (np.exp, lambda z, y: y),
    "gelu": (lambda z: z * _normal_below(z), _gelu_slope),
    "gelu_tanh": (_gelu_tanh, _gelu_tanh_slope),
    "silu": (lambda z: z * _sigmoid(z), lambda z, y: (s := _sigmoid(z)) * (1 + z * (1 - s))),
    "mish": (_mish, _mish_slope),
}
ACTIVATIONS = {name: Activation(F, slope, CODES[name]) for name, (F, slope) in _TABLE.items()}
OWN = -1  # code of an activation with settings of its own, which no kernel has built in


def leaky_relu(below: Any) -> Activation:
    """z where z > 0, else below z."""
    return Activation(*_leaky(below), OWN)


def elu(alpha: float) -> Activation:
    """z where z > 0, else alpha (exp(z) - 1)."""
    return Activation(*_exponential_unit(1.0, alpha), OWN)


INVERSE_ROOT = Activation(lambda z: 1 / np.sqrt(z), lambda z, y: z.dtype.type(-0.5) * y**3, OWN)
