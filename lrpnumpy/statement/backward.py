"""Messages backward through a statement, by NumPy: the rule of every operation, for every propagation.

With R the message at an operation, and gain, product and slope those of the propagation (`rules/propagation.py`):

    sum       s = R gain(z); a term receives s times its weight, under LRP times its value too; a bias absorbs s b
    product   R times the two shares of the propagation; LRP gives all to the signal if the gate is fixed
    apply     R slope(z, y)
    maximum   the larger operand receives R; under DeepLIFT each receives its fraction of the line from the reference
    norm      one sum per output; LRP holds the standard deviation fixed
    fixed     LRP propagates nothing: the value is a constant, and what it receives counts with the biases
    stop      nothing is propagated
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lrpnumpy.activations import INVERSE_ROOT
from lrpnumpy.rules.propagation import Entry, Propagation
from lrpnumpy.rules.sums import Bias, Matrix, Term, distribute
from lrpnumpy.statement.interpret import InterpretedRun, Normed, aligned, normed
from lrpnumpy.statement.trace import FUNCTIONS, Axes, Operation


class MessageFlow:
    """Messages through the operations of a step. A subclass decides whether they are arrays or symbols.

    It defines where messages go (`give`, `through_matrix`), what absorbs them (`keep`), the numbers of the operations
    (`value`, `weights`, `gain`, `slope`, `shares`, `winning`), and `_total` and `_norm`.
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, how: Any) -> None:
        self.how = how
        self.messages: dict[Operation, Any] = {}  # what has arrived at each node
        self.passed: dict[Operation, Any] = {}  # the same, of nodes that have propagated it

    def through(self, node: Operation) -> None:
        """Propagate the message of a node to its arguments."""
        if node not in self.messages:
            return
        R = self.passed[node] = self.messages.pop(node)
        if node.op == "sum":
            self._sum(node, R)
        elif node.op == "product":
            self._product(node, R)
        elif node.op == "apply":
            self.give(node.args[0], R * self.slope(node), node.axes)
        elif node.op == "maximum":
            for one, share in zip(node.args, self.winning(node), strict=True):
                self.give(one, R * share, node.axes)
        elif node.op == "total":
            self._total(node, R)
        elif node.op == "norm":
            self._norm(node, R)
        elif node.op == "stop" or (node.op == "fixed" and self.how.holds_weights):
            self.keep(Entry.BIASES, R)
        else:  # same, whole, fixed
            self.give(node.args[0], R, node.axes)

    def _sum(self, node: Operation, R: Any) -> None:
        gain, kept = self.gain(node)
        s = R * gain
        self.keep(Entry.STABILIZER, R * kept)
        for term in node.args:
            if term.op == "matrix":
                self.through_matrix(node, term, s)
            elif term.op == "bias":
                self.keep(Entry.BIASES, s * self.weights(term, node.axes))
            elif term.op == "diagonal":
                self.give_term(term.args[0], s * self.weights(term, node.axes), node.axes)
            else:
                self.give_term(term, s, node.axes)

    def give_term(self, source: Operation, message: Any, axes: Axes) -> None:
        """Give a message to the value that a term of a sum is made of."""
        if self.how.times_input:
            message = message * self.value(source, axes)
        self.give(source, message, axes)

    def _product(self, node: Operation, R: Any) -> None:
        gate, signal = node.args
        if self.how.holds_weights and gate.op in ("fixed", "stop"):
            self.give(signal, R, node.axes)
            return
        to_gate, to_signal, kept = self.shares(node)
        self.keep(Entry.STABILIZER, R * kept)
        self.give(gate, R * to_gate, node.axes)
        self.give(signal, R * to_signal, node.axes)


class ArrayFlow(MessageFlow):
    """Messages are arrays: those in some rows of a run, one step or all."""

    def __init__(
        self, run: InterpretedRun, how: Propagation, rows: slice, entry: Entry, reference: InterpretedRun | None
    ) -> None:
        super().__init__(how)
        self.run, self.rows, self.entry, self.reference = run, rows, entry, reference
        self.count = rows.stop - rows.start

    def give(self, node: Operation, R: np.ndarray, axes: Axes) -> None:
        """Add a message (n, *axes) to those of a node, summed over the axes that the node does not have."""
        gone = tuple(k + 1 for k, axis in enumerate(axes) if axis not in node.axes)
        if gone:
            R = R.sum(axis=gone)
        R = aligned(R, tuple(axis for axis in axes if axis in node.axes), node.axes)
        if node in self.messages:
            self.messages[node] = self.messages[node] + R
        else:
            self.messages[node] = np.broadcast_to(R, (self.count, *self.run.values[node].shape[1:]))

    def collect(self, node: Operation, R: np.ndarray, rows: slice) -> None:
        """Take over the message of a node in some rows of this flow."""
        if node not in self.messages:
            self.messages[node] = np.zeros(self.run.values[node].shape)
        self.messages[node][rows] = R

    def keep(self, which: int, amounts: np.ndarray) -> None:
        """Add absorbed amounts (n, *axes) to an entry of the ledger."""
        if not self.how.times_input:
            return
        amounts = amounts.reshape(len(amounts), -1).sum(axis=1)
        if self.count == self.run.batch.R:
            self.entry.array[which] += self.run.batch.sums(amounts)
        else:
            self.entry.array[which, : self.count] += amounts

    def see(self, R: np.ndarray) -> None:
        """Note how large the relevance of a state has become."""
        if self.how.times_input:
            largest = self.entry.array[Entry.LARGEST]
            top = abs(R).reshape(self.count, -1).max(axis=1, initial=0)
            largest[: self.count] = np.maximum(largest[: self.count], top)

    # -- what the operations need -------------------------------------------------------------------------------------

    def value(self, node: Operation, axes: Axes) -> np.ndarray:
        """The value of a node."""
        return self.run.at(node, self.rows, axes)

    def _reference(self, nodes: Sequence[Operation], axes: Axes) -> list[np.ndarray]:
        """The values of nodes in the reference's run; none without a reference."""
        if self.reference is None:
            return []
        return [self.reference.at(node, self.rows, axes) for node in nodes]

    def weights(self, term: Operation, axes: Axes) -> np.ndarray:
        """The trained numbers of a diagonal or a bias."""
        return aligned(self.run.arrays[term.name], term.of, axes)

    def through_matrix(self, node: Operation, term: Operation, s: np.ndarray) -> None:
        """From the message s of a sum to the value that a matrix of it multiplies."""
        source = term.args[0]
        self.give_term(source, s @ self.run.arrays[term.name], source.axes)

    def gain(self, node: Operation) -> tuple[Any, Any]:
        """1 / stab(z) and the share of the stabilizer."""
        return self.how.gain(self.value(node, node.axes))

    def slope(self, node: Operation) -> Any:
        """The slope of an activation."""
        z, y = (self.value(one, node.axes) for one in (node.args[0], node))
        return self.how.slope(FUNCTIONS[node.name], z, y, *self._reference((node.args[0], node), node.axes))

    def shares(self, node: Operation) -> tuple[Any, Any, Any]:
        """The shares of gate and signal."""
        values = np.broadcast_arrays(*(self.value(one, node.axes) for one in node.args))
        return self.how.product(*values, *self._reference(node.args, node.axes))

    def winning(self, node: Operation) -> Any:
        """The shares of the two operands of a maximum."""
        values = [self.value(one, node.axes) for one in node.args], self._reference(node.args, node.axes)
        return self.how.winning(*(np.stack(np.broadcast_arrays(*some)) for some in values if some))

    def _sum(self, node: Operation, R: np.ndarray) -> None:
        if self.how.rule is None:
            super()._sum(node, R)
            return
        terms: list[Term] = []
        sources = []
        flat = (len(R), -1)
        for term in node.args:
            source = term.args[0] if term.op in ("matrix", "diagonal") else term
            if term.op == "bias":
                terms.append(Bias(np.broadcast_to(self.weights(term, node.axes), R.shape[1:]).ravel()))
                continue
            sources.append((source, source.axes if term.op == "matrix" else node.axes))
            if term.op == "matrix":
                terms.append(Matrix(self.value(source, source.axes), self.run.arrays[term.name]))
                continue
            x = np.broadcast_to(self.value(source, node.axes), R.shape)
            w = np.broadcast_to(self.weights(term, node.axes), R.shape[1:]).ravel() if term.op == "diagonal" else None
            terms.append(Term(x.reshape(flat), w))
        messages, kept = distribute(self.how.rule, R.reshape(flat), terms)
        for which, amounts in zip((Entry.BIASES, Entry.STABILIZER, Entry.RULE), kept, strict=True):
            self.keep(which, amounts)
        for (source, axes), message in zip(sources, messages, strict=True):
            self.give(source, message.reshape(len(R), *self.value(source, axes).shape[1:]), axes)

    def _total(self, node: Operation, R: np.ndarray) -> None:
        gain, kept = self.gain(node)
        self.keep(Entry.STABILIZER, R * kept)
        axes = node.args[0].axes
        self.give_term(node.args[0], aligned(R * gain, node.axes, axes), axes)

    def _norm(self, node: Operation, R: np.ndarray) -> None:
        arrays, source = self.run.arrays, node.args[0]
        gain, kept = self.gain(node)
        s = R * gain
        self.keep(Entry.STABILIZER, R * kept)
        if node.beta:
            self.keep(Entry.BIASES, s * arrays[node.beta])
        values = [self.value(source, node.axes), *self._reference([source], node.axes)]
        R_v = back_through_norm(self.how, s * arrays[node.name], [normed(v, node.eps) for v in values])
        self.give_term(source, R_v, node.axes)


def back_through_norm(how: Propagation, s: np.ndarray, both: Sequence[Normed], center: bool = True) -> np.ndarray:
    """From the message s at u r, the normed values, to the one at v. `both`: of the input, and of a reference if any.

    LRP holds r fixed; others go through r = 1 / sqrt(q), and q is the mean of u u, + eps.
    """
    u, _, r = both[0]
    if how.holds_weights:
        R_u = s * r
    else:
        to_u, to_r, _ = how.product(*(value for one in both for value in (one.u, one.r)))
        R_r = (s * to_r).sum(axis=-1, keepdims=True)
        R_q = R_r * how.slope(INVERSE_ROOT, *(value for one in both for value in (one.q, one.r)))
        to_one, to_other = how.even_product(*(value for one in both for value in (one.u, one.u)))
        R_u = s * to_u + R_q / u.dtype.type(u.shape[-1]) * (to_one + to_other)
    if center:
        R_u = R_u - R_u.mean(axis=-1, keepdims=True)
    return R_u


class Arrived(NamedTuple):
    """The results of a backward pass."""

    inputs: Sequence[np.ndarray]  # (R, width) each, in reading order
    start: Sequence[np.ndarray] | np.ndarray  # (n, *axes) at the states before the first step
    states: Sequence[np.ndarray] | np.ndarray  # (R, *axes) at the states after every row; empty unless they are wanted


def back(
    run: InterpretedRun,
    how: Propagation,
    R_output: np.ndarray | None,
    R_last: Sequence[np.ndarray | None],
    entry: Entry,
    reference: InterpretedRun | None = None,
    want_states: bool = False,
) -> Arrived:
    """Propagate `R_output` (R, M), at the outputs of every row, and `R_last`, at the last states, to the inputs."""
    statement, batch = run.statement, run.batch
    carry = [np.zeros(one.shape) if R is None else R.astype(float) for one, R in zip(run.start, R_last, strict=True)]
    early = ArrayFlow(run, how, slice(0, batch.R), entry, reference)
    states = [np.empty(run.values[node].shape) for node in statement.after] if want_states else []
    late = [node for node in reversed(statement.nodes) if statement.sources[node]]
    for t in range(len(batch.first) - 2, -1, -1):
        rows = slice(batch.first[t], batch.first[t + 1])
        count = rows.stop - rows.start
        flow = ArrayFlow(run, how, rows, entry, reference)
        for node, message in zip(statement.after, carry, strict=True):
            flow.give(node, message[:count].copy(), node.axes)
        if R_output is not None:
            flow.give(statement.output, R_output[rows], statement.output.axes)
        for node in late:
            flow.through(node)
        for k, node in enumerate(statement.after):
            arrived = flow.passed.get(node, flow.messages.get(node, np.zeros(flow.count)))
            if want_states:
                states[k][rows] = arrived
            flow.see(arrived)
        for message, node in zip(carry, statement.states, strict=True):
            message[:count] = flow.messages.pop(node, 0)
        for node, R in flow.messages.items():
            early.collect(node, R, rows)
    for node in reversed(statement.nodes):
        if not statement.sources[node]:
            early.through(node)
    inputs = [early.messages.get(node, np.zeros(run.values[node].shape)) for node in statement.inputs]
    if how.times_input:
        for message in carry:
            entry.array[Entry.START] += message.reshape(batch.n, -1).sum(axis=1)
    return Arrived(inputs, carry, states)
