"""What a propagation is: three functions and a flag.

Everything that flows back is linear in the message R. What differs between the gradient and LRP is elementwise:

    a sum         z_j = sum_i w_ij x_i + b_j      R_i = (x_i if times_input) sum_j w_ij gain(z_j) R_j
    a product     y = gate * signal               R_gate = to_gate R,  R_signal = to_signal R
    an activation y = F(z)                        R_z = slope(z, y) R

What a stabiliser keeps of R is the second value of `gain` and the third of `product`: fractions of R, 0 for the
gradient. A layer that is written with these three works for every propagation. Two more follow from them: a product
in which neither side is a gate (`even_product`), and a softmax. LRP does not go through a softmax: it holds the weights
of an attention fixed, as it does the standard deviation of a norm (`holds_weights`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from lrpnumpy.activations import ACTIVATIONS, Activation
from lrpnumpy.kernels import sums
from lrpnumpy.packed import Batch, Packed


class Propagation:
    """How messages flow back. This one is the gradient; other propagations say what differs."""

    times_input: ClassVar[bool] = False  # messages to the terms of a sum are multiplied by the terms' values
    share_bias: bool = False  # what biases and stabilisers would keep is spread over the inputs of each sum
    holds_weights: ClassVar[bool] = False  # attention weights and standard deviations count as constants
    has_reference: ClassVar[bool] = False  # coefficients are means over the way from a reference, see rules/deeplift.py
    is_noting: ClassVar[bool] = False  # this is the reference's own way back, on which values are written down
    code: int | None = None  # of a propagation that kernels have built in
    eps: float = 0.0  # stabiliser
    gamma: float = 0.0  # of LRP: how much more terms count that have the sign of their sum, in Dense and Conv layers

    def gain(self, z: np.ndarray) -> tuple[Any, Any]:
        """(gain, kept) of a sum `z`."""
        return z.dtype.type(1), z.dtype.type(0)

    def product(self, gate: np.ndarray, signal: np.ndarray) -> tuple[Any, Any, Any]:
        """(to_gate, to_signal, kept) of the product of `gate` and `signal`."""
        return signal, gate, gate.dtype.type(0)

    def even_product(self, one: np.ndarray, other: np.ndarray) -> tuple[Any, Any]:
        """(to_one, to_other) of the product of `one` and `other`, of which neither is a gate."""
        return self.product(one, other)[:2]

    def slope(self, activation: str | Activation, z: np.ndarray, y: np.ndarray) -> Any:
        """Slope of an `activation`, by its name in the table or a layer's own, where `z` became `y`."""
        return (ACTIVATIONS[activation] if isinstance(activation, str) else activation).slope(z, y)

    def softmax(self, R: np.ndarray, z: np.ndarray, y: np.ndarray, total: Callable[[np.ndarray], np.ndarray]) -> Any:
        """From the message `R` at `y` = softmax(`z`) to the one at z. `total` sums over the terms of each softmax, and
        repeats the sum for each of them. Not asked of a propagation that holds weights.
        """
        return y * (R - total(R * y))

    def against(self, values: Any) -> Any:
        """What the reference has in place of these `values`. Only asked of a propagation that has one."""
        raise TypeError(f"{type(self).__name__} has no reference.")

    def winning(self, x: np.ndarray) -> np.ndarray:
        """How much of the message at max_k x_k each candidate of `x` (K, …) gets; padding is -inf. Without a reference
        layers do this themselves: the first winner takes all.
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
    how: Propagation, R: np.ndarray, z: np.ndarray, bias: np.ndarray | None, fan_in: int, batch: Batch, entry: Entry
) -> tuple[np.ndarray, Any]:
    """Message s to the terms of sums z (R, M), and what every term gets besides.

    Term i of sum j gets w_ij s_j, times its input where the propagation says so. `bias` (M,) is what z holds besides
    its `fan_in` terms, None for nothing. The second value, (R, M), is 0 unless biases are shared: then each term of
    sum j gets that, too.
    """
    if how.times_input and not how.share_bias:  # LRP, whose gain a kernel has built in
        s = np.empty(z.shape, z.dtype)
        R, z = np.ascontiguousarray(R), np.ascontiguousarray(z)
        held = np.zeros(z.shape[1], z.dtype) if bias is None else bias
        sums.backward(R, z, held, R.dtype.type(how.eps), batch.owner, s, entry.array)
        return s, 0
    gain, kept = how.gain(z)
    s = R * gain
    if not how.share_bias:
        return s, 0
    left = R * kept if bias is None else s * bias + R * kept
    return s, left / R.dtype.type(fan_in)


def back_through_matrix(
    how: Propagation, R: np.ndarray, z: np.ndarray, d: np.ndarray | None, V: np.ndarray, x: Packed, entry: Entry
) -> np.ndarray:
    """Message to the inputs of z = V x + d: R_i = x_i sum_j v_ji s_j."""
    s, shared = back_through_sum(how, R, z, d, V.shape[1], x.batch, entry)
    R_x = s @ V
    if how.times_input:
        R_x *= x.rows
    if how.share_bias:
        R_x += shared.sum(axis=1, keepdims=True)
    return R_x
