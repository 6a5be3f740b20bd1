"""Elementwise pieces of a time step that kernels share: activations, their codes, and the shares of LRP."""

from __future__ import annotations

import numpy as np

from lrpnumpy.kernels.elementary import sigmoid, tanh

NONE, GRADIENT, ALL, PROP, ABS, HALF = range(-1, 5)  # what the coefficients of a backward pass are for
CODES = {"sigmoid": 0, "tanh": 1, "linear": 2, "relu": 3, "hard_sigmoid": 4, "hard_sigmoid_3": 5}


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
            y[q] = max(zero, z[q])
    else:
        slope = z.dtype.type(0.2) if code == 4 else one / z.dtype.type(6)
        for q in range(z.size):
            y[q] = min(one, max(zero, slope * z[q] + half))


def differentiate(y: np.ndarray, dy: np.ndarray, code: int) -> None:
    """dy = F'(z) from y = F(z)."""
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
    else:
        slope = y.dtype.type(0.2) if code == 4 else one / y.dtype.type(6)
        for q in range(y.size):
            dy[q] = slope if zero < y[q] < one else zero


def copy(x, y) -> None:  # type: ignore[no-untyped-def]
    """y = x for flat, contiguous arrays, or the first part of y; they may overlap."""
    y[: x.size] = x


def repeat(x, y) -> None:  # type: ignore[no-untyped-def]
    """y = x, x, x, …: each copy twice as long as the one before, so that short x are no slower."""
    copy(x, y)
    done = x.size
    while done < y.size:
        more = min(done, y.size - done)
        copy(y[:more], y[done : done + more])
        done += more


def inverse(z, eps):  # type: ignore[no-untyped-def]
    """1 / stab(z), stab(z) = z + eps sign(z) and sign(0) = +1, and the share eps / (|z| + eps) the stabiliser keeps.

    A denominator that is exactly 0 passes nothing on: (0, 1).
    """
    zero, one = type(eps)(0), type(eps)(1)
    size = abs(z) + eps
    over = zero if size == zero else one / size
    lost = one if size == zero else eps * over
    return (-over if z < zero else over), lost


def share(rule, gate, signal, eps):  # type: ignore[no-untyped-def]
    """What a product rule gives to gate and signal, and what its stabiliser keeps."""
    if rule == PROP:
        over, lost = inverse(gate + signal, eps)
        return gate * over, signal * over, lost
    if rule == ABS:
        over, lost = inverse(abs(gate) + abs(signal), eps)
        return abs(gate) * over, abs(signal) * over, lost
    return type(eps)(0.5), type(eps)(0.5), type(eps)(0)


# The coefficients of one step, for kernels.lstm.backward. Arrays are flat; `k` has the kinds that KINDS counts, one
# after the other: K of the gates i, f, g, o (of g alone with ALL), from R_c to z of i, f, g and from R_h to z of o;
# c_to_c, h_to_c; leak_c, leak_h, what stabilisers keep of R_c and R_h. GRADIENT has no leaks, ALL nothing of h.

KINDS = {GRADIENT: 6, ALL: 3, PROP: 8, ABS: 8, HALF: 8}
KINDS_SHARED = 12  # where biases are shared: the same, then what each gate's z gives to all its inputs alike


def gradient_step(a, y, c_prev, activation: int, recurrent: int, k) -> None:  # type: ignore[no-untyped-def]
    """Partial derivatives: K from c to z of i, f, g and from h to z of o."""
    m = y.size
    i, f, g, o = a[:m], a[m : 2 * m], a[2 * m : 3 * m], a[3 * m :]
    K_i, K_f, K_g, K_o = k[:m], k[m : 2 * m], k[2 * m : 3 * m], k[3 * m : 4 * m]
    c_to_c, h_to_c = k[4 * m : 5 * m], k[5 * m :]
    differentiate(a[: 2 * m], k[: 2 * m], recurrent)
    differentiate(g, K_g, activation)
    differentiate(o, K_o, recurrent)
    differentiate(y, h_to_c, activation)
    for q in range(m):
        K_i[q] *= g[q]
        K_f[q] *= c_prev[q]
        K_g[q] *= i[q]
        K_o[q] *= y[q]
        h_to_c[q] *= o[q]
        c_to_c[q] = f[q]


def signal_step(z, a, c_prev, c, eps, k) -> None:  # type: ignore[no-untyped-def]
    """The signal takes all: nothing but g receives anything."""
    m = c.size
    i, f, g = a[:m], a[m : 2 * m], a[2 * m : 3 * m]
    K_g, c_to_c, leak_c = k[:m], k[m : 2 * m], k[2 * m :]
    z_g = z[2 * m : 3 * m]
    for q in range(m):
        over, lost = inverse(c[q], eps)
        gain, lost_z = inverse(z_g[q], eps)
        B = i[q] * g[q] * over
        c_to_c[q] = f[q] * c_prev[q] * over
        K_g[q] = B * gain
        leak_c[q] = lost + B * lost_z


def shares_step(rule: int, z, a, y, c_prev, c, eps, k) -> None:  # type: ignore[no-untyped-def]
    """A product rule that gives to gates, too."""
    m = c.size
    i, f, g, o = a[:m], a[m : 2 * m], a[2 * m : 3 * m], a[3 * m :]
    z_i, z_f, z_g, z_o = z[:m], z[m : 2 * m], z[2 * m : 3 * m], z[3 * m :]
    K_i, K_f, K_g, K_o = k[:m], k[m : 2 * m], k[2 * m : 3 * m], k[3 * m : 4 * m]
    c_to_c, h_to_c, leak_c, leak_h = k[4 * m : 5 * m], k[5 * m : 6 * m], k[6 * m : 7 * m], k[7 * m :]
    for q in range(m):
        over, lost = inverse(c[q], eps)
        A, B = f[q] * c_prev[q] * over, i[q] * g[q] * over
        gate_f, signal_f, lost_f = share(rule, f[q], c_prev[q], eps)
        gate_i, signal_i, lost_i = share(rule, i[q], g[q], eps)
        gain_i, lost_zi = inverse(z_i[q], eps)
        gain_f, lost_zf = inverse(z_f[q], eps)
        gain_g, lost_zg = inverse(z_g[q], eps)
        K_i[q] = B * gate_i * gain_i
        K_f[q] = A * gate_f * gain_f
        K_g[q] = B * signal_i * gain_g
        c_to_c[q] = A * signal_f
        to_i_and_g = lost_i + gate_i * lost_zi + signal_i * lost_zg
        leak_c[q] = lost + A * (lost_f + gate_f * lost_zf) + B * to_i_and_g
    for q in range(m):
        gate_o, signal_o, lost_o = share(rule, o[q], y[q], eps)
        gain_o, lost_zo = inverse(z_o[q], eps)
        h_to_c[q] = signal_o
        K_o[q] = gate_o * gain_o
        leak_h[q] = lost_o + gate_o * lost_zo


def overloads() -> None:
    """Let kernels call these functions."""
    from numba.core import cgutils, types
    from numba.extending import intrinsic, overload, register_jitable

    @intrinsic
    def move(typing_context, x, y):
        def generate(context, builder, signature, arguments):
            source, target = (
                context.make_array(kind)(context, builder, value) for kind, value in zip((x, y), arguments, strict=True)
            )
            cgutils.raw_memmove(builder, target.data, source.data, source.nitems, source.itemsize)
            return context.get_dummy_value()

        return types.void(x, y), generate

    @overload(copy)
    def _copy(x, y):  # a loop would spend its time on what is left over when vectors are through
        return lambda x, y: move(x, y)

    for helper in (activate, differentiate, repeat, inverse, share, gradient_step, signal_step, shares_step):
        register_jitable(helper)
