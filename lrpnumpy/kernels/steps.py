"""Elementwise pieces of a time step that kernels share: activations, their codes and slopes, and the shares of LRP."""

from __future__ import annotations

import math

import numpy as np

from lrpnumpy.kernels.elementary import sigmoid, tanh

NONE, GRADIENT, ALL, PROP, ABS, HALF = range(-1, 5)  # what the coefficients of a backward pass are for
CODES = {
    "sigmoid": 0,
    "tanh": 1,
    "linear": 2,
    "relu": 3,
    "hard_sigmoid": 4,  # 0.2 z + 0.5, cut off at 0 and 1
    "hard_sigmoid_3": 5,  # z / 6 + 0.5, cut off at 0 and 1
    "selu": 6,
    "elu": 7,  # exp(z) - 1 below 0
    "softplus": 8,
    "softsign": 9,
    "exponential": 10,
    "gelu": 11,  # with erf
    "gelu_tanh": 12,
    "silu": 13,
    "leaky_relu": 14,  # 0.01 z below 0
    "mish": 15,
}
RELU, HARD, HARD_3, SELU, ELU, SOFTPLUS, SOFTSIGN, EXPONENTIAL, GELU, GELU_TANH, SILU, LEAKY_RELU = range(3, 15)
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772  # Klambauer et al. 2017
LEAK = 0.01
NEAR = 0.1  # with four places, Gauss' rule has an error below 1e-13 on so short a line
NODES = (0.06943184420297371, 0.33000947820757187, 0.6699905217924281, 0.9305681557970262)
WEIGHTS = (0.17392742256872692, 0.32607257743127307, 0.32607257743127307, 0.17392742256872692)
# By code, where the slope, or its own slope, jumps: at this number and at minus this number.
_KINKS = {**dict.fromkeys((RELU, LEAKY_RELU, ELU, SELU, SOFTSIGN), 0.0), HARD: 2.5, HARD_3: 3.0}
KINKS = tuple(_KINKS.get(code, math.inf) for code in CODES.values())
OVERLOADED = ("part", "matrix", "block", "copy", "dot")


def activate(z: np.ndarray, y: np.ndarray, code: int) -> None:
    """y = F(z) for flat arrays and the activation with this code."""
    half = z.dtype.type(0.5)
    one = z.dtype.type(1)
    zero = z.dtype.type(0)
    if code == 0:
        for q in range(z.size):
            y[q] = sigmoid(z[q])
    elif code == 1:
        for q in range(z.size):
            y[q] = tanh(z[q])
    elif code == 2:
        for q in range(z.size):
            y[q] = z[q]
    elif code == 3:
        for q in range(z.size):
            y[q] = max(z[q], zero)  # in this order NaN stays NaN
    elif code <= 5:
        slope = z.dtype.type(0.2) if code == 4 else one / z.dtype.type(6)
        for q in range(z.size):
            y[q] = min(max(slope * z[q] + half, zero), one)
    else:
        for q in range(z.size):
            y[q] = rare(float(z[q]), code)


def differentiate(z: np.ndarray, y: np.ndarray, dy: np.ndarray, code: int) -> None:
    """dy = F'(z), where y = F(z)."""
    one = y.dtype.type(1)
    zero = y.dtype.type(0)
    if code == 0:
        for q in range(y.size):
            dy[q] = y[q] * (one - y[q])
    elif code == 1:
        for q in range(y.size):
            dy[q] = one - y[q] * y[q]
    elif code == 2:
        for q in range(y.size):
            dy[q] = one
    elif code == 3:
        for q in range(y.size):
            dy[q] = one if y[q] > zero else zero
    elif code <= 5:
        slope = y.dtype.type(0.2) if code == 4 else one / y.dtype.type(6)
        for q in range(y.size):
            dy[q] = slope if zero < y[q] < one else zero
    else:
        for q in range(y.size):
            dy[q] = rare_slope(float(z[q]), code)


def rare(z: float, code: int) -> float:
    """F(z) of the activations from selu on, one number at a time and in float64."""
    if code == SELU:
        return SELU_SCALE * (z if z > 0 else SELU_ALPHA * math.expm1(z))
    if code == ELU:
        return z if z > 0 else math.expm1(z)
    if code == SOFTPLUS:
        return softplus(z)
    if code == SOFTSIGN:
        return z / (1 + abs(z))
    if code == EXPONENTIAL:
        return exponential(z)
    if code == GELU:
        return 0.5 * z * math.erfc(-z * math.sqrt(0.5))
    if code == GELU_TANH:
        return 0.5 * z * (1 + math.tanh(gelu_argument(z)))
    if code == SILU:
        return z * sigmoid(z)
    if code == LEAKY_RELU:
        return z if z > 0 else LEAK * z
    return z * math.tanh(softplus(z))  # mish


def rare_slope(z: float, code: int) -> float:
    """F'(z) of the same, and of relu and the hard sigmoids."""
    if code == RELU:
        return 1.0 if z > 0 else 0.0
    if code == HARD:
        return 0.2 if abs(z) < 2.5 else 0.0
    if code == HARD_3:
        return 1 / 6 if abs(z) < 3.0 else 0.0
    if code == SELU:
        return SELU_SCALE if z > 0 else SELU_SCALE * SELU_ALPHA * math.exp(z)
    if code == ELU:
        return 1.0 if z > 0 else math.exp(z)
    if code == SOFTPLUS:
        return sigmoid(z)
    if code == SOFTSIGN:
        return 1 / (1 + abs(z)) ** 2
    if code == EXPONENTIAL:
        return exponential(z)
    if code == GELU:
        return 0.5 * math.erfc(-z * math.sqrt(0.5)) + z * math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    if code == GELU_TANH:
        t = math.tanh(gelu_argument(z))
        return 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * math.sqrt(2 / math.pi) * (1 + 0.134145 * z * z)
    if code == SILU:
        s = sigmoid(z)
        return s + z * s * (1 - s)
    if code == LEAKY_RELU:
        return 1.0 if z > 0 else LEAK
    t = math.tanh(softplus(z))  # mish
    return t + z * (1 - t * t) * sigmoid(z)


def softplus(z: float) -> float:
    """log(1 + exp(z))."""
    return max(z, 0.0) + math.log1p(math.exp(-abs(z)))


def exponential(z: float) -> float:
    """exp(z), infinite where it is too large for a number."""
    return math.inf if z > 709.0 else math.exp(z)


def gelu_argument(z: float) -> float:
    """What gelu_tanh takes the tanh of: sqrt(2 / pi) (z + 0.044715 z^3)."""
    return math.sqrt(2 / math.pi) * (z + 0.044715 * z * z * z)


# Mean slopes of activations from a reference, (y - y0) / (z - z0), and F'(z) where z = z0: what DeepLIFT has
# in place of derivatives. The quotient cancels where z is near z0, so that other forms are used:
#
#     tanh(z) - tanh(z0) = tanh(z - z0) (1 - y y0)
#     sigmoid(z) - sigmoid(z0) = tanh((z - z0) / 2) (y (1 - y0) + y0 (1 - y))
#
# For the other activations the mean of F' is taken by Gauss' rule where z is near z0 and no kink is in between.


def sigmoid_secant(z, z0, y, y0):
    """(y - y0) / (z - z0) of the sigmoid."""
    one, half, d = type(z)(1), type(z)(0.5), z - z0
    over = half if d == type(z)(0) else tanh(half * d) / d
    return over * (y * (one - y0) + y0 * (one - y))


def tanh_secant(z, z0, y, y0):
    """(y - y0) / (z - z0) of tanh."""
    one, d = type(z)(1), z - z0
    over = one if d == type(z)(0) else tanh(d) / d
    return over * (one - y * y0)


def rare_secant(z: float, z0: float, y: float, y0: float, code: int) -> float:
    """The same for the activations from relu on, one number at a time and in float64."""
    d = z - z0
    if abs(d) > NEAR or kinked(z, z0, code):
        return (y - y0) / d
    total = 0.0
    for k in range(4):
        total += WEIGHTS[k] * rare_slope(z0 + NODES[k] * d, code)
    return total


def kinked(z: float, z0: float, code: int) -> bool:
    """Whether the slope jumps between z0 and z."""
    edge = KINKS[code]
    return (z - edge) * (z0 - edge) < 0 or (z + edge) * (z0 + edge) < 0


# Views of contiguous arrays. Numba's own slices check for negative indices and count references, which can take longer
# than the work of a step with one sequence. These do neither: the array must live longer than its view.


def part(x, at, size):
    """A number of values of an array of any shape as a flat array, starting at `at`."""
    return x.reshape(x.size)[at : at + size]


def flat(x):
    """All numbers of an array."""
    return part(x, 0, x.size)


def matrix(x, rows, columns):
    """A flat array as a matrix."""
    return x.reshape(rows, columns)


def block(x, k):
    """x[k], of an array with more than one axis."""
    return x[k]


def copy(x, y) -> None:
    """y = x for contiguous arrays of as many numbers, or the first numbers of y; they may overlap."""
    flat(y)[: x.size] = flat(x)


def repeat(x, y) -> None:
    """y = x, x, x, …: each copy twice as long as the one before, so that short x are as fast."""
    copy(x, y)
    done = x.size
    while done < y.size:
        more = min(done, y.size - done)
        copy(y[:more], y[done : done + more])
        done += more


def fill(y, value) -> None:
    """y = value."""
    for q in range(y.size):
        y[q] = value


def multiply(y, x) -> None:
    """y *= x."""
    for q in range(y.size):
        y[q] *= x[q]


def raise_to(tops, x) -> None:
    """tops = max(tops, |x|); of the first numbers, where x has fewer."""
    top = part(tops, 0, x.size)
    for q in range(x.size):
        size = abs(x[q])
        top[q] = size if size > top[q] else top[q]


def add(x, total) -> None:
    """total += x; to the first numbers, where x has fewer."""
    for q in range(x.size):
        total[q] += x[q]


def dot(s, x, b):
    """The sum of s (x - b), of flat arrays, in any order."""
    total = s.dtype.type(0)
    for q in range(s.size):
        total += s[q] * (x[q] - b[q])
    return total


def inverse(z, eps):
    """1 / stab(z), stab(z) = z + eps sign(z), sign(0) = +1, and the share eps / (|z| + eps) of the stabilizer.

    A denominator that is exactly 0 passes nothing on: (0, 1).
    """
    zero, one = type(eps)(0), type(eps)(1)
    size = abs(z) + eps
    over = zero if size == zero else one / size
    lost = one if size == zero else eps * over
    return (-over if z < zero else over), lost


def share(rule, gate, signal, eps):
    """The shares of gate and signal by a product rule, and of its stabilizer."""
    if rule == PROP:
        over, lost = inverse(gate + signal, eps)
        return gate * over, signal * over, lost
    if rule == ABS:
        over, lost = inverse(abs(gate) + abs(signal), eps)
        return abs(gate) * over, abs(signal) * over, lost
    return type(eps)(0.5), type(eps)(0.5), type(eps)(0)


def overloads() -> None:
    """Views and copies, which are inlined, and a sum."""
    from numba.core import cgutils, types
    from numba.extending import lower_builtin, register_jitable, type_callable
    from numba.np.arrayobj import populate_array

    def array(context, builder, kind, value):
        return context.make_array(kind)(context, builder, value)

    def view(context, builder, signature, value, at, shape):
        """An array of this shape that begins at a number of another one."""
        source = array(context, builder, signature.args[0], value)
        out = context.make_array(signature.return_type)(context, builder)
        strides = [source.itemsize]
        for size in shape[:0:-1]:
            strides.insert(0, builder.mul(strides[0], size))
        populate_array(out, builder.gep(source.data, [at]), shape, strides, source.itemsize, meminfo=None)
        return out._getvalue()

    type_callable(part)(lambda context: lambda x, at, size: x.copy(ndim=1))
    type_callable(matrix)(lambda context: lambda x, rows, columns: x.copy(ndim=2))
    type_callable(block)(lambda context: lambda x, k: x.copy(ndim=x.ndim - 1))
    type_callable(copy)(lambda context: lambda x, y: types.none)

    @lower_builtin(part, types.Array, types.Integer, types.Integer)
    def _part(context, builder, signature, arguments):
        return view(context, builder, signature, arguments[0], arguments[1], [arguments[2]])

    @lower_builtin(matrix, types.Array, types.Integer, types.Integer)
    def _matrix(context, builder, signature, arguments):
        return view(context, builder, signature, arguments[0], arguments[1].type(0), list(arguments[1:]))

    @lower_builtin(block, types.Array, types.Integer)
    def _block(context, builder, signature, arguments):
        at = arguments[1]
        shape = cgutils.unpack_tuple(builder, array(context, builder, signature.args[0], arguments[0]).shape)[1:]
        for size in shape:
            at = builder.mul(at, size)
        return view(context, builder, signature, arguments[0], at, shape)

    @lower_builtin(copy, types.Array, types.Array)  # a loop would spend its time on what vectors leave over
    def _copy(context, builder, signature, arguments):
        x, y = (array(context, builder, *both) for both in zip(signature.args, arguments, strict=True))
        cgutils.raw_memmove(builder, y.data, x.data, x.nitems, x.itemsize)
        return context.get_dummy_value()

    register_jitable(fastmath={"contract", "reassoc"})(dot)  # so that it is vectorized


INLINED = (activate, differentiate)  # a call costs as much as ten numbers
