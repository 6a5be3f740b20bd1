"""Contextual decomposition through a statement, by NumPy: what of every value belongs to a phrase.

Murdoch, Liu & Yu, ICLR 2018, stated for the operations of a step. A value is the sum of three parts: that of the
phrase, that of the biases alone, and the remainder. The remainder is never computed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.packed import Batch
from lrpnumpy.statement.interpret import InterpretedRun, aligned, computed, normed
from lrpnumpy.statement.trace import FUNCTIONS, HELD, Axes, Operation

Parts = tuple[Any, Any]  # of the phrase, and of the biases alone; the rest is the remainder


class Phrases(NamedTuple):
    """The phrases of a contextual decomposition, in the steps that the cell reads."""

    owner: np.ndarray  # (V,) sequence of each phrase, longest sequence first
    start: np.ndarray  # (V,)
    stop: np.ndarray  # (V,)
    since: np.ndarray  # (V,) nothing belongs to the phrase before this step
    beta: np.ndarray | None  # (rows of the variants, D) the phrase's part of the input; None: the input inside it
    delta: np.ndarray  # (D,) the part of the input from biases alone


def split(run: InterpretedRun, phrases: Phrases, variants: Batch, every: bool) -> np.ndarray:
    """The phrase's part of the outputs: the last ones (V, M), or those of every row of `variants`.

    An activation F splits as L_a = 1/2 [F(a+b) - F(b) + F(z) - F(z-a)] and L_b = F(b), with a the phrase's part of z
    and b that of the biases. Of a product the phrase receives gate_a (signal_a + signal_b) + gate_b signal_a, and
    inside the phrase gate_b signal_b too. A norm holds the standard deviation fixed, and is linear.
    """
    statement, batch, owner = run.statement, run.batch, phrases.owner
    betas = [np.zeros((len(owner), *one.shape[1:])) for one in run.start]
    width = run.output.shape[1]
    final = np.zeros((len(owner), width))
    rows = np.zeros((variants.R if every else 0, width))
    x = statement.inputs[0]
    for t in range(len(variants.first) - 1):
        running = variants.first[t + 1] - variants.first[t]
        active = np.flatnonzero(phrases.since[:running] <= t)
        if not len(active):
            continue
        inside = ((phrases.start[active] <= t) & (t < phrases.stop[active]))[:, None]
        step = _Split(run, batch.first[t] + owner[active], inside, phrases.beta is None)
        if phrases.beta is None:
            step.parts[x] = (step.value(x) * inside, phrases.delta[None])
        else:
            step.parts[x] = (phrases.beta[variants.first[t] + active], phrases.delta[None])
        for node, beta in zip(statement.states, betas, strict=True):
            step.parts[node] = (beta[active], 0)
        for node in statement.nodes:
            step.parts[node] = step.split(node)
        new = [step.settled(node) for node in statement.after]
        for beta, value in zip(betas, new, strict=True):
            beta[active] = value
        final[active] = step.settled(statement.output)
        if every:
            rows[variants.first[t] + active] = final[active]
    return rows if every else final


class _Split:
    """One step of some phrases."""

    def __init__(self, run: InterpretedRun, rows: np.ndarray, inside: np.ndarray, is_masked: bool) -> None:
        self.run, self.rows, self.inside, self.is_masked = run, rows, inside, is_masked
        self.parts: dict[Operation, Parts] = {}

    def value(self, node: Operation, axes: Axes | None = None) -> np.ndarray:
        return self.run.at(node, self.rows, axes)

    def settled(self, node: Operation) -> Any:
        """The part of the biases belongs to the phrase inside it, and to the remainder outside."""
        return self._settled(*self.parts[node])

    def _settled(self, a: Any, b: Any) -> Any:
        if isinstance(b, int):
            return a
        return a + self.inside.reshape(-1, *[1] * (b.ndim - 1)) * b

    def _part(self, node: Operation, which: int, axes: Axes) -> Any:
        part = self.parts[node][which]
        return part if isinstance(part, int) else aligned(part, node.axes, axes)

    def split(self, node: Operation) -> Parts:
        args, axes, arrays = node.args, node.axes, self.run.arrays
        if node.op == "bias":
            return 0, arrays[node.name][None]
        if node.op == "same":
            return self.parts[args[0]]
        if node.op in HELD:
            return 0, self.value(node)
        if node.op == "matrix" and args[0].op == "input" and self.is_masked and not self.parts[args[0]][1].any():
            return self.value(node) * self.inside, 0  # V (x inside), which is known
        if node.op in ("matrix", "diagonal", "sum", "total"):
            return self._linear(node, 0), self._linear(node, 1)
        if node.op == "product":
            (gate_a, signal_a), (gate_b, signal_b) = ([self._part(one, k, axes) for one in args] for k in (0, 1))
            if args[0].op in HELD:  # a factor of every part
                return gate_b * signal_a, gate_b * signal_b
            a = gate_a * (signal_a + signal_b) + gate_b * signal_a
            return self._settled(a, gate_b * signal_b), 0
        if node.op == "maximum":
            first = self.value(args[0], axes) >= self.value(args[1], axes)
            a, b = (np.where(first, *(self._part(one, k, axes) for one in args)) for k in (0, 1))
            return a, b
        if node.op == "norm":
            return self._normed(node)
        a, b = self._part(args[0], 0, axes), self._part(args[0], 1, axes)
        z = self.value(args[0], axes)
        zero = np.zeros((1, *z.shape[1:]))
        return FUNCTIONS[node.name].split(zero + a, zero + b, z)

    def _normed(self, node: Operation) -> Parts:
        """LayerNorm with the standard deviation of the value itself: without it, the slope 1 / sqrt(eps) at 0 would
        multiply rounding errors at every step.
        """
        arrays, source = self.run.arrays, node.args[0]
        scale = normed(self.value(source), node.eps).r * arrays[node.name]
        a, b = (v if isinstance(v, int) else (v - v.mean(axis=-1, keepdims=True)) * scale for v in self.parts[source])
        return a, b + arrays[node.beta][None] if node.beta else b

    def _linear(self, node: Operation, which: int) -> Any:
        """A linear operation of one part of its arguments; 0 where they have none."""
        terms = [one for one in node.args if not isinstance(self.parts[one][which], int)]
        if not terms:
            return 0
        if node.op == "sum":
            total = self._part(terms[0], which, node.axes)
            for one in terms[1:]:
                total = total + self._part(one, which, node.axes)
            return total
        return computed(node, self.run.arrays, lambda one, axes: self._part(one, which, axes))
