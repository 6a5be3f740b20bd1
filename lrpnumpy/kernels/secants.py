"""Mean slopes of activations on the line from a reference: what DeepLIFT has in place of derivatives.

    (F(z) - F(z0)) / (z - z0),  and F'(z) where z = z0

The quotient cancels where z is near z0, so that other forms are used:

    tanh(z) - tanh(z0) = tanh(z - z0) (1 - y y0)
    sigmoid(z) - sigmoid(z0) = tanh((z - z0) / 2) (y (1 - y0) + y0 (1 - y))

For the other activations the mean of F' is taken by Gauss' rule where z is near z0 and no kink is in between.
"""

from __future__ import annotations

from lrpnumpy.kernels.elementary import tanh
from lrpnumpy.kernels.inputs import states_before
from lrpnumpy.kernels.steps import CODES, copy, part, rare_slope, repeat

NEAR = 0.1  # with four places, Gauss' rule has an error below 1e-13 on so short a line
NODES = (0.06943184420297371, 0.33000947820757187, 0.6699905217924281, 0.9305681557970262)
WEIGHTS = (0.17392742256872692, 0.32607257743127307, 0.32607257743127307, 0.17392742256872692)
RELU, HARD, HARD_3 = CODES["relu"], CODES["hard_sigmoid"], CODES["hard_sigmoid_3"]
AT_ZERO = tuple(CODES[name] for name in ("relu", "leaky_relu", "elu", "selu", "softsign"))
KINKS: dict[int, tuple[float, ...]] = {  # where the slope, or its own slope, jumps
    **dict.fromkeys(AT_ZERO, (0.0,)),
    HARD: (-2.5, 2.5),
    HARD_3: (-3.0, 3.0),
}


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
        total += WEIGHTS[k] * piecewise_slope(z0 + NODES[k] * d, code)
    return total


def kinked(z: float, z0: float, code: int) -> bool:
    """Whether the slope jumps between z0 and z."""
    if code in (HARD, HARD_3):
        edge = 2.5 if code == HARD else 3.0
        return (z - edge) * (z0 - edge) < 0 or (z + edge) * (z0 + edge) < 0
    return z * z0 < 0 and code in AT_ZERO


def piecewise_slope(z: float, code: int) -> float:
    """F'(z) of the activations from relu on."""
    if code == RELU:
        return 1.0 if z > 0 else 0.0
    if code == HARD:
        return 0.2 if abs(z) < 2.5 else 0.0
    if code == HARD_3:
        return 1 / 6 if abs(z) < 3.0 else 0.0
    return rare_slope(z, code)


# Saved values of references are those of all sequences, or of the longest alone if the others begin like it.


def kept_of_reference(kept, kinds, t, first, H, out) -> None:
    """out (kinds, n, H) = the saved values of the references at step t."""
    m = (first[t + 1] - first[t]) * H
    if kept.size == kinds * first[-1] * H:
        copy(part(kept, kinds * first[t] * H, kinds * m), out)
    else:
        for k in range(kinds):
            repeat(part(kept, (kinds * t + k) * H, H), part(out, k * m, m))


def states_of_reference(states, t, first, out) -> None:
    """out (n, H) = their states before step t, of the sequences that run at step t or, after the last, did."""
    H = states.shape[1]
    if states.shape[0] == first[1] + first[-1]:
        copy(part(states, states_before(first, t) * H, out.size), out)
    else:
        repeat(part(states, t * H, H), out)
