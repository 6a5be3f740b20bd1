"""Sigmoid and tanh, and a difference of two sigmoids, in a form that LLVM vectorizes inside a loop.

The plain functions serve when nothing is compiled; `overloads` gives Numba branch-free ones. They rest on

    exp(2 w) = s (q + p) / (q - p),  n = round(2 w / ln 2),  s = 2^n,  y = w - n ln 2 / 2,  p / q = tanh(y).

As |y| <= ln 2 / 4, a convergent of Lambert's fraction y / (1 + y^2 / (3 + y^2 / (5 + ...))) gives tanh(y):
its relative error is 6e-9 up to the 5 (float32) and 5e-19 up to the 11 (float64). The formulas

    sigmoid(x) = s (q + p) / (s (q + p) + q - p)                       where w = x / 2,
    tanh(x)    = ((s - 1) q + (s + 1) p) / ((s + 1) q + (s - 1) p)     where w = x,

lose no digits for small or very negative x. A sigmoid below the smallest normal number becomes 0.

Where cosh(v) is known, one exponential is enough for a difference of two sigmoids:

    sigmoid(v + 2 w) - sigmoid(v - 2 w) = sinh(2 w) / (cosh(2 w) + cosh(v)).
"""

import math
from collections.abc import Callable

import numpy as np

OPTIONS = {"fastmath": {"contract"}, "error_model": "numpy"}
NARROW = 20  # the largest |v| in a difference: beyond it, clipping w could matter

OVERLOADED = ("sigmoid", "tanh", "twice_cosh", "difference", "fast_exp", "fast_softplus")


def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x))."""
    e = math.exp(-abs(x))
    return e / (1 + e) if x < 0 else 1 / (1 + e)


def tanh(x: float) -> float:
    """The hyperbolic tangent of x."""
    return math.tanh(x)


def twice_cosh(x: float) -> float:
    """2 cosh(x), for |x| up to NARROW."""
    return 2 * math.cosh(x)


def difference(w: float, twice_cosh_v: float) -> float:
    """sigmoid(v + 2 w) - sigmoid(v - 2 w), for |v| up to NARROW."""
    w = max(min(w, 30), -30)
    return math.sinh(2 * w) / (math.cosh(2 * w) + twice_cosh_v / 2)


def fast_exp(z):
    """exp(z), from exp(-|z|) = s / (1 - s) with s = sigmoid(-|z|): no digits are lost."""
    one = type(z)(1)
    s = sigmoid(-abs(z))
    e = s / (one - s)
    return e if z <= type(z)(0) else one / e


def fast_softplus(z):
    """max(z, 0) + log(1 + exp(-|z|)), the logarithm as 2 artanh(u) with u = s / (2 - s), at most 1/3."""
    s = sigmoid(-abs(z))
    u = s / (type(z)(2) - s)
    w = u * u
    total = type(z)(1 / 33)
    for k in range(15, -1, -1):
        total = total * w + type(z)(1 / (2 * k + 1))
    return max(z, type(z)(0)) + type(z)(2) * u * total


def overloads() -> None:
    """Tell Numba what to compile for the functions above, in float32 and float64."""
    from numba import types
    from numba.extending import overload, register_jitable

    for helper in (fast_exp, fast_softplus):
        register_jitable(**OPTIONS)(helper)

    compiled = {types.float32: _implement(np.float32), types.float64: _implement(np.float64)}

    def choice(k: int) -> Callable:
        return lambda x: compiled[x][k] if x in compiled else None

    for k, function in enumerate((sigmoid, tanh, twice_cosh)):
        overload(function, jit_options=OPTIONS)(choice(k))

    @overload(difference, jit_options=OPTIONS)
    def _difference(w, twice_cosh_v):
        return compiled[w][3] if w in compiled else None


def _implement(dtype: type) -> tuple[Callable, ...]:
    """Branch-free functions; all constants are of dtype, as one float64 would make all float64."""
    from llvmlite import ir
    from numba.extending import intrinsic, register_jitable

    single = dtype == np.float32
    bits, mantissa, bias, least = (32, 23, 127, -88) if single else (64, 52, 1023, -709)
    one, half, lowest, limit, wide = map(dtype, (1, 0.5, least / 2, 20, 20 if single else 30))
    # Adding the magic number rounds to an integer n, and leaves n + bias in the last bits of the sum.
    magic, per_step = dtype(1.5 * 2**mantissa + bias), dtype(2 / math.log(2))
    # ln 2 / 2 in two parts, the first so short that n times it is exact.
    step_high = dtype(float.fromhex("0x1.62e4p-2" if single else "0x1.62e42fefa4p-2"))
    step_low = dtype(float.fromhex("0x1.7f7d1cf79abcap-21" if single else "-0x1.8432a1b0e2634p-44"))
    c6, c15, c21, c210, c1260, c4725, c10395 = map(dtype, (6, 15, 21, 210, 1260, 4725, 10395))

    @intrinsic
    def last_bits_to_exponent(typing_context, number):
        def generate(context, builder, signature, arguments):
            integer = ir.IntType(bits)
            exponent = builder.shl(builder.bitcast(arguments[0], integer), integer(mantissa))
            return builder.bitcast(exponent, arguments[0].type)

        return number(number), generate

    @register_jitable(**OPTIONS)
    def split(w):
        rounded = w * per_step + magic
        n = rounded - magic
        y = (w - n * step_high) - n * step_low
        u = y * y
        if single:
            p, q = y * (c15 + u), c15 + u * c6
        else:
            p, q = y * (c10395 + u * (c1260 + u * c21)), c10395 + u * (c4725 + u * (c210 + u))
        return last_bits_to_exponent(rounded), p, q

    def compiled_sigmoid(x):
        w = max(min(half * x, limit), lowest)  # in this order NaN stays NaN
        s, p, q = split(w)
        e = s * (q + p)
        return e / (e + (q - p))

    def compiled_tanh(x):
        w = max(min(x, limit), -limit)
        s, p, q = split(w)
        return ((s - one) * q + (s + one) * p) / ((s + one) * q + (s - one) * p)

    def compiled_twice_cosh(x):
        s, p, q = split(half * x)
        up, down = s * (q + p), q - p
        return (up * up + down * down) / (up * down)

    def compiled_difference(w, twice_cosh_v):
        s, p, q = split(max(min(w, wide), -wide))
        up, down = s * (q + p), q - p  # exp(2 w) = up / down
        square, other = up * up, down * down
        return (square - other) / (square + other + up * down * twice_cosh_v)

    return compiled_sigmoid, compiled_tanh, compiled_twice_cosh, compiled_difference
