"""What a propagation is: three functions and a few flags.

Every backward pass is linear in the message R. What differs between the gradient and LRP is elementwise:

    a sum         z_j = sum_i w_ij x_i + b_j      R_i = (x_i if times_input) sum_j w_ij gain(z_j) R_j
    a product     y = gate * signal               R_gate = to_gate R,  R_signal = to_signal R
    an activation y = F(z)                        R_z = slope(z, y) R

What a stabilizer absorbs of R is the second value of `gain` and the third of `product`: fractions of R, 0 for the
gradient. A layer that is written with these three works for every propagation. Others follow from them: a product in
which neither side is a gate (`even_product`), a matrix product of two values (`factors`), and a softmax. LRP holds the
standard deviation of a norm fixed (`holds_weights`), and the weights of an attention too unless it propagates
through them (`holds_attention`). If a sum follows another rule than the epsilon rule, `rule` is that
rule, see `rules/sums.py`.

A propagation with a reference (DeepLIFT) needs the reference's values of the same quantities, in the same order: they
are the arguments `reference`. `Ran.both` returns the values of both forward passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from lrpnumpy.activations import ACTIVATIONS, Elementwise
from lrpnumpy.kernels import steps, sums
from lrpnumpy.packed import Batch, Packed
from lrpnumpy.rules.sums import Bias, SumRule, Term, distribute

Total = Callable[[np.ndarray], np.ndarray]


class Propagation:
    """How messages propagate. This one is the gradient; others override what differs."""

    times_input: ClassVar[bool] = False  # messages to the terms of a sum are multiplied by the terms' values
    holds_weights: ClassVar[bool] = False  # standard deviations of norms count as constants
    holds_attention: bool = False  # weights of attentions count as constants
    has_reference: ClassVar[bool] = False  # coefficients are means over the line from a reference to the input
    is_reference: ClassVar[bool] = False  # this forward pass is that of a reference
    code: int | None = None  # of a propagation that kernels have built in
    eps: float = 0.0  # stabilizer
    rule: SumRule | None = None  # of LRP, where sums do not follow the epsilon rule
    nodes: Mapping[str, Propagation] = MappingProxyType({})  # at the nodes that have another sum rule, by name

    def gain(self, z: np.ndarray) -> tuple[Any, Any]:
        """(gain, kept) of a sum `z`."""
        return z.dtype.type(1), z.dtype.type(0)

    def product(self, gate: np.ndarray, signal: np.ndarray, *reference: np.ndarray) -> tuple[Any, Any, Any]:
        """(to_gate, to_signal, kept) of the product of `gate` and `signal`.

        reference: the same two values of a reference, where there is one.
        """
        return signal, gate, gate.dtype.type(0)

    def even_product(self, one: np.ndarray, other: np.ndarray, *reference: np.ndarray) -> tuple[Any, Any]:
        """(to_one, to_other) of the product of `one` and `other`, of which neither is a gate.

        reference: the same two values of a reference, where there is one.
        """
        return self.product(one, other, *reference)[:2]

    def factors(self, one: np.ndarray, other: np.ndarray, *reference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the message at a matrix product of `one` and `other` is multiplied by: for one, for other.

        The messages are multiplied by the values themselves after that if the propagation has `times_input`.

        reference: the same two values of a reference, where there is one.
        """
        return self.product(one, other, *reference)[:2]

    def slope(self, activation: str | Elementwise, z: np.ndarray, y: np.ndarray, *reference: np.ndarray) -> Any:
        """Slope of an `activation`, by its name in the table or a layer's own, where `z` became `y`.

        reference: z and y of a reference, where there is one.
        """
        return (ACTIVATIONS[activation] if isinstance(activation, str) else activation).slope(z, y)

    def softmax(self, R: np.ndarray, z: np.ndarray, y: np.ndarray, total: Total, *reference: np.ndarray) -> Any:
        """From the message `R` at `y` = softmax(`z`) to the one at z. `total` sums over the terms of each softmax, and
        repeats the sum for each of them.

        reference: z and y of a reference, where there is one.
        """
        return y * (R - total(R * y))

    def winning(self, x: np.ndarray, *reference: np.ndarray) -> np.ndarray:
        """The share of the message at max_k x_k for each candidate of `x` (K, …); padding is -inf. The first winner
        takes all.

        reference: x of a reference, where there is one.
        """
        return x.argmax(axis=0) == np.arange(len(x)).reshape(-1, *[1] * (x.ndim - 1))


GRADIENT = Propagation()  # gain 1, product (signal, gate), slope F'
GRADIENT.code = steps.GRADIENT


class Entry:
    """What one layer absorbs of the relevance that passes through it, for each of n sequences."""

    BIASES, STABILIZER, START, LARGEST, RULE, ATTENTION = range(6)
    SIZE: ClassVar[int] = 6

    def __init__(self, array: np.ndarray, states: list[tuple[str, np.ndarray]] | None = None) -> None:
        self.array = array  # (6, n): in the order above; LARGEST is the largest relevance of any neuron
        self.states = states  # where recurrent layers put the relevance of their states, if it is requested

    def add(self, row: int, kept: np.ndarray, batch: Batch) -> None:
        """Count amounts, `kept` (R, …), of the rows of a `batch` in an entry, such as `row` Entry.RULE."""
        self.array[row] += batch.sums(kept.reshape(len(kept), -1).sum(axis=1))

    def bias(self, kept: np.ndarray, batch: Batch) -> None:
        """Biases absorb these amounts, `kept` (R, M), of the rows of a `batch`."""
        self.add(self.BIASES, kept, batch)

    def stabilizer(self, kept: np.ndarray, batch: Batch) -> None:
        """Stabilizers absorb these amounts, `kept` (R, M), of the rows of a `batch`."""
        self.add(self.STABILIZER, kept, batch)

    def see(self, R: np.ndarray, batch: Batch) -> None:
        """Note how large relevance `R` (R, M) of the rows of a `batch` has become."""
        size, largest = abs(R), self.array[self.LARGEST]
        if batch.n == 1:
            largest[0] = max(largest[0], np.maximum.reduce(size, axis=None, initial=0))
        else:
            np.maximum.at(largest, batch.owner, size.max(axis=1, initial=0))


def message(how: Propagation, R: np.ndarray, z: Packed, bias: np.ndarray | None, entry: Entry) -> np.ndarray:
    """R / stab(z) for LRP by the epsilon rule, R for the gradient: what terms of sums z are multiplied by.

    `bias` (M,) is the bias of z, None for none.
    """
    if not how.times_input:
        return R  # the gain is 1
    s = np.empty(z.rows.shape, z.rows.dtype)  # LRP, whose gain a kernel has built in
    held = np.zeros(s.shape[1], s.dtype) if bias is None else bias
    rows = np.ascontiguousarray(z.rows)
    sums.backward(np.ascontiguousarray(R), rows, held, R.dtype.type(how.eps), z.batch.owner, s, entry.array)
    return s


def back_through_sum(
    how: Propagation, R: np.ndarray, z: Packed, terms: Sequence[Term], entry: Entry, bias: np.ndarray | None = None
) -> list[np.ndarray]:
    """The share of each of the `terms` of sums `z` in the message `R` (R, M) at the sums.

    how: the propagation, as passed to `Layer.backward`.
    bias: (M,) of z, None for none.
    entry: records what the bias, the stabilizer and the rule absorb, for the ledger.
    """
    if how.rule is None:
        s = message(how, R, z, bias, entry)
        parts = []
        for term in terms:
            part = term.back(s, "plain")
            if how.times_input:
                part = term.x * part
            parts.append(part)
        return parts
    messages, kept = distribute(how.rule, R, terms if bias is None else [*terms, Bias(bias)])
    for row, amounts in zip((Entry.BIASES, Entry.STABILIZER, Entry.RULE), kept, strict=True):
        entry.add(row, amounts, z.batch)
    entry.see(R, z.batch)
    return messages
