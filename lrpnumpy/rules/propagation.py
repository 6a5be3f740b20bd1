"""What a propagation is: three functions and a few flags.

Everything that flows back is linear in the message R. What differs between the gradient and LRP is elementwise:

    a sum         z_j = sum_i w_ij x_i + b_j      R_i = (x_i if times_input) sum_j w_ij gain(z_j) R_j
    a product     y = gate * signal               R_gate = to_gate R,  R_signal = to_signal R
    an activation y = F(z)                        R_z = slope(z, y) R

What a stabiliser keeps of R is the second value of `gain` and the third of `product`: fractions of R, 0 for the
gradient. A layer that is written with these three works for every propagation. Others follow from them: a product in
which neither side is a gate (`even_product`), a matrix product of two values (`factors`), and a softmax. LRP holds the
standard deviation of a norm fixed (`holds_weights`), and the weights of an attention too unless it is asked to
propagate through them (`holds_attention`).

A propagation with a reference (DeepLIFT) needs the reference's values of the same quantities: they are the arguments
that end in 0, and `Ran.both` gives a layer the values of both forward passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from lrpnumpy.activations import ACTIVATIONS, Activation
from lrpnumpy.kernels import sums
from lrpnumpy.packed import Batch, Packed

Values = np.ndarray | None  # of the reference; None without one


class Propagation:
    """How messages flow back. This one is the gradient; other propagations say what differs."""

    times_input: ClassVar[bool] = False  # messages to the terms of a sum are multiplied by the terms' values
    holds_weights: ClassVar[bool] = False  # attention weights and standard deviations count as constants
    has_reference: ClassVar[bool] = False  # coefficients are means over the line from a reference to the input
    is_reference: ClassVar[bool] = False  # this forward pass is that of a reference
    code: int | None = None  # of a propagation that kernels have built in
    eps: float = 0.0  # stabiliser
    gamma: float = 0.0  # of LRP: how much more terms count that have the sign of their sum, in Dense and Conv layers

    def gain(self, z: np.ndarray) -> tuple[Any, Any]:
        """(gain, kept) of a sum `z`."""
        return z.dtype.type(1), z.dtype.type(0)

    def product(
        self, gate: np.ndarray, signal: np.ndarray, gate0: Values = None, signal0: Values = None
    ) -> tuple[Any, Any, Any]:
        """(to_gate, to_signal, kept) of the product of `gate` and `signal`; `gate0`, `signal0`: the reference's."""
        return signal, gate, gate.dtype.type(0)

    def even_product(
        self, one: np.ndarray, other: np.ndarray, one0: Values = None, other0: Values = None
    ) -> tuple[Any, Any]:
        """(to_one, to_other) of the product of `one` and `other`, of which neither is a gate.

        one0, other0: the reference's values.
        """
        return self.product(one, other, one0, other0)[:2]

    def slope(
        self, activation: str | Activation, z: np.ndarray, y: np.ndarray, z0: Values = None, y0: Values = None
    ) -> Any:
        """Slope of an `activation`, by its name in the table or a layer's own, where `z` became `y`.

        z0, y0: the reference's values.
        """
        return (ACTIVATIONS[activation] if isinstance(activation, str) else activation).slope(z, y)

    def softmax(
        self,
        R: np.ndarray,
        z: np.ndarray,
        y: np.ndarray,
        total: Callable[[np.ndarray], np.ndarray],
        z0: Values = None,
        y0: Values = None,
    ) -> Any:
        """From the message `R` at `y` = softmax(`z`) to the one at z. `total` sums over the terms of each softmax, and
        repeats the sum for each of them. Not asked of a propagation that holds weights. `z0`, `y0`: the reference's.
        """
        return y * (R - total(R * y))

    def winning(self, x: np.ndarray, x0: Values = None) -> np.ndarray:
        """How much of the message at max_k x_k each candidate of `x` (K, …) gets; padding is -inf. Without a reference
        `x0` layers do this themselves: the first winner takes all.
        """
        raise TypeError(f"{type(self).__name__} has no reference.")


class Entry:
    """What one layer keeps of the relevance that passes through it, for each of n sequences."""

    BIASES, STABILISER, START, LARGEST = range(4)

    def __init__(self, array: np.ndarray, states: list[tuple[str, np.ndarray]] | None = None) -> None:
        self.array = array  # (4, n): biases, stabiliser, start state; the largest relevance of any neuron
        self.states = states  # where recurrent layers put the relevance of their states, if that is asked for

    def bias(self, kept: np.ndarray, batch: Batch) -> None:
        """Biases keep these amounts, `kept` (R, M), of the rows of a `batch`."""
        self.array[self.BIASES] += batch.sums(kept.sum(axis=1))

    def stabiliser(self, kept: np.ndarray, batch: Batch) -> None:
        """Stabilisers keep these amounts, `kept` (R, M), of the rows of a `batch`."""
        self.array[self.STABILISER] += batch.sums(kept.sum(axis=1))

    def see(self, R: np.ndarray, batch: Batch) -> None:
        """Note how large relevance `R` (R, M) of the rows of a `batch` has become."""
        size, largest = abs(R), self.array[self.LARGEST]
        if batch.n == 1:
            largest[0] = max(largest[0], np.maximum.reduce(size, axis=None, initial=0))
        else:
            np.maximum.at(largest, batch.owner, size.max(axis=1, initial=0))


def back_through_sum(
    how: Propagation, R: np.ndarray, z: np.ndarray, bias: np.ndarray | None, batch: Batch, entry: Entry
) -> np.ndarray:
    """Message s to the terms of sums z (R, M).

    Term i of sum j gets w_ij s_j, times its input where the propagation says so. `bias` (M,) is what z holds besides
    its terms, None for nothing.
    """
    if not how.times_input:
        return R * how.gain(z)[0]
    s = np.empty(z.shape, z.dtype)  # LRP, whose gain a kernel has built in
    R, z = np.ascontiguousarray(R), np.ascontiguousarray(z)
    held = np.zeros(z.shape[1], z.dtype) if bias is None else bias
    sums.backward(R, z, held, R.dtype.type(how.eps), batch.owner, s, entry.array)
    return s


def back_through_matrix(
    how: Propagation, R: np.ndarray, z: np.ndarray, d: np.ndarray | None, V: np.ndarray, x: Packed, entry: Entry
) -> np.ndarray:
    """Message to the inputs of z = V x + d: R_i = x_i sum_j v_ji s_j."""
    R_x = back_through_sum(how, R, z, d, x.batch, entry) @ V
    if how.times_input:
        R_x *= x.rows
    return R_x
