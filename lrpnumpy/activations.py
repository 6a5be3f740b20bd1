"""The one table of activations: F, its derivative, its mean slope on a line, and the code by which kernels know it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.kernels.steps import CODES, KINKS, NEAR, NODES, WEIGHTS

Array = np.ndarray


class Elementwise(NamedTuple):
    """y = F(z), elementwise. `slope` is F'(z), which may use y where that is shorter.

    `kinks` are the places where the slope jumps. `exact` is (y - y0) / (z - z0) in a form that does not cancel, of
    functions that have one.
    """

    F: Callable[[Array], Array]
    slope: Callable[[Array, Array], Array]
    code: int
    kinks: tuple[float, ...] = ()
    exact: Callable[[Array, Array, Array, Array], Array] | None = None

    def secant(self, z: Array, z0: Array, y: Array, y0: Array) -> Array:
        """The mean of F' on the way from z0 to z: (y - y0) / (z - z0), and F'(z) where z = z0.

        Where z is near z0 the quotient would cancel. The mean is then taken by Gauss' rule with four places, unless
        there is a kink in between.
        """
        if self.exact is not None:
            return self.exact(z, z0, y, y0)
        d = z - z0
        far = abs(d) > d.dtype.type(NEAR)
        for kink in self.kinks:
            far |= (z - d.dtype.type(kink)) * (z0 - d.dtype.type(kink)) < 0
        places = [z0 + d * d.dtype.type(node) for node in NODES]
        mean = sum(self.slope(at, self.F(at)) * d.dtype.type(w) for at, w in zip(places, WEIGHTS, strict=True))
        return np.where(far, (y - y0) / np.where(far, d, d.dtype.type(1)), mean)

    def split(self, a: Array, b: Array, z: Array) -> tuple[Array, Array]:
        """Contextual decomposition, a being the phrase's part of z and b that of the biases:

        L_a = 1/2 [F(a+b) - F(b) + F(z) - F(z-a)],  L_b = F(b).
        """
        if self.code == CODES["linear"]:
            return a, b
        L_b = self.F(b)
        return (self.F(a + b) - L_b + self.F(z) - self.F(z - a)) * a.dtype.type(0.5), L_b


def _over(numerator: Array, d: Array, limit: float) -> Array:
    """numerator / d, and `limit` where d is 0."""
    is_zero = d == 0
    return np.where(is_zero, d.dtype.type(limit), numerator / np.where(is_zero, d.dtype.type(1), d))


def _tanh_secant(z: Array, z0: Array, y: Array, y0: Array) -> Array:
    """tanh z - tanh z0 = tanh(z - z0) (1 - y y0)."""
    d = z - z0
    return _over(np.tanh(d), d, 1) * (1 - y * y0)


def _sigmoid_secant(z: Array, z0: Array, y: Array, y0: Array) -> Array:
    """The same for sigmoid(z) = (1 + tanh(z / 2)) / 2."""
    d = z - z0
    return _over(np.tanh(d * d.dtype.type(0.5)), d, 0.5) * (y * (1 - y0) + y0 * (1 - y))


def _inverse_root_secant(z: Array, z0: Array, y: Array, y0: Array) -> Array:
    """y - y0 = (y0^-2 - y^-2) (y y0)^2 / (y + y0)."""
    return -((y * y0) ** 2) / (y + y0)


def _root_secant(z: Array, z0: Array, y: Array, y0: Array) -> Array:
    """z - z0 = (y - y0) (y + y0) where both are above 0; 0 where both are 0, like the slope there."""
    above = (z > 0) & (z0 > 0)
    return np.where(above, 1 / np.where(above, y + y0, z.dtype.type(1)), _over(y - y0, z - z0, 0))


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


def _kinks(code: int) -> tuple[float, ...]:
    edge = KINKS[code]
    return () if math.isinf(edge) else (-edge, edge)


_EXACT = {"tanh": _tanh_secant, "sigmoid": _sigmoid_secant}
ACTIVATIONS = {
    name: Elementwise(F, slope, CODES[name], _kinks(CODES[name]), _EXACT.get(name))
    for name, (F, slope) in _TABLE.items()
}
OWN = -1  # code of an activation with settings, which is not built into any kernel


def leaky_relu(below: Any) -> Elementwise:
    """z where z > 0, else below z."""
    return Elementwise(*_leaky(below), OWN, (0.0,))


def elu(alpha: float) -> Elementwise:
    """z where z > 0, else alpha (exp(z) - 1)."""
    return Elementwise(*_exponential_unit(1.0, alpha), OWN, (0.0,))


INVERSE_ROOT = Elementwise(
    lambda z: 1 / np.sqrt(z), lambda z, y: z.dtype.type(-0.5) * y**3, OWN, (), _inverse_root_secant
)
# The square root, for powers that become magnitudes. At 0 its slope counts as 0: silence receives no relevance.
ROOT = Elementwise(
    lambda z: np.sqrt(np.maximum(z, 0)),
    lambda z, y: np.where(y > 0, z.dtype.type(0.5) / np.where(y > 0, y, 1), z.dtype.type(0)),
    OWN,
    (0.0,),
    _root_secant,
)


def probabilities(output: str | None, scores: np.ndarray) -> np.ndarray | None:
    """Softmax or sigmoid of scores (…, C), by the output activation of a model; None if it has neither."""
    if output == "softmax":
        e = np.exp(scores - np.maximum.reduce(scores, axis=-1, keepdims=True))
        return e / np.add.reduce(e, axis=-1, keepdims=True)
    if output == "sigmoid":
        e = np.exp(-abs(scores))
        return np.where(scores < 0, e, 1) / (1 + e)
    return None
