"""One step of a loop as a `Cell`: the operations of the list become those of a statement.

A linear value is kept as its terms, so that U x + W h + b is one sum however the module writes it: as one Linear of
[x, h] that is cut into gates, as two, or as one for each gate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.files.torch.recorded import Op
from lrpnumpy.layers.recurrent import Cell, StoredCell
from lrpnumpy.statement.trace import Operation, Step

_APPLIED = {
    "Relu": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid", "Exp": "exp", "Swish": "silu", "Mish": "mish",
    "Softsign": "softsign", "Softplus": "softplus", "Selu": "selu", "Gelu": "gelu", "Neg": "negative",
    "Reciprocal": "reciprocal", "LeakyRelu": "leaky_relu", "Elu": "elu",
}  # fmt: skip
TRIVIAL = ("Squeeze", "Unsqueeze")  # axes of length 1 around the features
LINEAR = ("Linear", "Concat", "Slice", "Add", "Sub")  # which may be computed inside a cell just as well


class NotStated(Exception):
    """An operation that a cell does not have."""


class Total(NamedTuple):
    """A value as a sum: matrices (out, in), scales (out,) or None for 1, each times a traced value; and a bias."""

    size: int
    terms: tuple[tuple[np.ndarray | None, Operation], ...]
    bias: np.ndarray | None = None

    def rows(self, where: Any) -> Total:
        """Some of its numbers."""
        eye = np.eye(self.size, dtype=np.float32)
        taken = []
        for factor, value in self.terms:
            matrix = eye if factor is None else np.diag(factor) if factor.ndim == 1 else factor
            taken.append((matrix[where], value))
        size = len(np.arange(self.size)[where])
        if size == self.size:
            return self
        return Total(size, tuple(taken), None if self.bias is None else self.bias[where])

    def scaled(self, by: np.ndarray) -> Total:
        """Times one number for each, or for all."""
        c = np.broadcast_to(by.reshape(-1), self.size).astype(np.float32)
        terms = tuple((_scaled(factor, c), value) for factor, value in self.terms)
        return Total(self.size, terms, None if self.bias is None else c * self.bias)

    def plus(self, other: Total) -> Total:
        """The sum of both."""
        if self.size != other.size:
            raise NotStated("adds values of different sizes")
        bias = self.bias
        if other.bias is not None:
            bias = other.bias if bias is None else bias + other.bias
        return Total(self.size, self.terms + other.terms, bias)


def _scaled(factor: np.ndarray | None, c: np.ndarray) -> np.ndarray:
    """c times a matrix, a scale, or 1."""
    if factor is None:
        return c
    return c * factor if factor.ndim == 1 else c[:, None] * factor


class CellBuilder:
    """A step while its operations are traced."""

    def __init__(self, states: Sequence[int], inputs: Sequence[int]) -> None:
        self.step = Step("TracedCell")
        self.arrays: dict[str, np.ndarray] = {}
        self.gates: set[Operation] = set()
        self.first = states[0]
        self.given, self.states = (
            [self.step._add(op, (), f"{name}{k or ''}", (self.axis(size),)) for k, size in enumerate(widths)]
            for op, name, widths in (("input", "x", inputs), ("state", "h", states))
        )

    def axis(self, size: int) -> str:
        """An axis of this size."""
        return "H" if size == self.first else f"H{size}"

    def named(self, kind: str, array: np.ndarray) -> str:
        """A name for a trained array."""
        name = f"{kind}_{len(self.arrays)}"
        self.arrays[name] = np.ascontiguousarray(array, np.float32)
        return name

    def value(self, parts: Sequence[Total]) -> Operation:
        """A sum as one traced value."""
        if len(parts) > 1:
            raise NotStated("joins values in a way that a cell does not have")
        total = parts[0]
        if len(total.terms) == 1 and total.terms[0][0] is None and total.bias is None:
            return total.terms[0][1]
        terms = []
        for factor, value in total.terms:
            if factor is None:
                terms.append(value)
            elif factor.ndim == 1:
                terms.append(self.step.diagonal(self.named("a", factor), value, (self.axis(total.size),)))
            else:
                terms.append(self.step.matrix(self.named("W", factor), value, self.axis(total.size)))
        if total.bias is not None and total.bias.any():
            terms.append(self.step.bias(self.named("b", total.bias), (self.axis(total.size),)))
        return self.step.sum(*terms)

    def run(self, op: Op, given: Sequence[Any], rank: int) -> list[list[Total]]:
        """The results of one operation; `given` are values (lists of parts) and arrays."""
        kind, attributes = op.op, op.attributes
        parts = given[0]
        if kind in TRIVIAL:
            return [parts]
        if kind == "Linear":
            return [[self.linear(parts, *given[1:])]]
        if kind == "Concat":
            if attributes["axis"] != rank - 1:
                raise NotStated("joins something else than features")
            return [[one for value in given for one in value]]
        if kind == "Slice":
            return [[self.cut(parts, attributes, rank)]]
        if kind in ("Add", "Sub", "Mul", "Div"):
            return [[self.arithmetic(kind, *given)]]
        if kind in _APPLIED and attributes.get("alpha") in (None, {"LeakyRelu": 0.01, "Elu": 1.0}.get(kind)):
            return [[self.applied(_APPLIED[kind], parts)]]
        raise NotStated(f"{op.where}() is not supported in a loop over the steps")

    def applied(self, name: str, parts: Sequence[Total]) -> Total:
        """An activation."""
        made = self.step.apply(name, self.value(parts))
        if "sigmoid" in name:
            self.gates.add(made)
        return Total(parts[0].size, ((None, made),))

    def linear(self, parts: Sequence[Total], W: np.ndarray, b: np.ndarray | None = None) -> Total:
        """W [parts] + b."""
        out = Total(len(W), (), None if b is None else np.asarray(b, np.float32))
        at = 0
        for part in parts:
            columns = W[:, at : at + part.size]
            at += part.size
            if any(factor is not None for factor, _ in part.terms) or part.bias is not None:
                part = Total(part.size, ((None, self.value([part])),))
            out = out.plus(Total(len(W), tuple((columns, value) for _, value in part.terms)))
        return out

    def cut(self, parts: Sequence[Total], attributes: Mapping[str, Any], rank: int) -> Total:
        """Some features."""
        if list(attributes["axes"]) != [rank - 1] or len(parts) > 1 or attributes["steps"] != [1]:
            raise NotStated("takes a part of something else than features")
        return parts[0].rows(slice(attributes["starts"][0], attributes["ends"][0]))

    def arithmetic(self, kind: str, a: Any, b: Any) -> Total:
        """Of two values, or of one and a constant."""
        size = next(_one(value).size for value in (a, b) if not isinstance(value, np.ndarray))
        if kind == "Sub" and isinstance(a, np.ndarray) and (a == 1).all():
            z = self.value(b)
            made = self.step.complement(z)
            self.gates |= {made} if z in self.gates else set()
            return Total(size, ((None, made),))
        first, second = _total(a, size), _total(b, size)
        if kind in ("Add", "Sub"):
            return first.plus(second if kind == "Add" else second.scaled(-np.ones(1)))
        if second.bias is not None and not second.terms:
            return first.scaled(second.bias if kind == "Mul" else 1 / second.bias)
        if kind == "Div":
            raise NotStated("divides by a value")
        if first.bias is not None and not first.terms:
            return second.scaled(first.bias)
        gate, signal = self.value([first]), self.value([second])
        if signal in self.gates and gate not in self.gates:
            gate, signal = signal, gate
        return Total(size, ((None, self.step.product(gate, signal)),))

    def finished(self, output: Sequence[Total], after: Sequence[Sequence[Total]]) -> Cell:
        """The cell that gives this output and has these states after a step."""
        values = [self.value(output), *map(self.value, after)]
        if output is after[0]:
            values[0] = values[1]
        statement = self.step._finished(self.given, self.states, values, 0)
        return StoredCell(statement.to_data(), **{name: self.arrays[name] for name in statement.arrays})


def totals(sizes: Sequence[int], values: Sequence[Operation]) -> list[list[Total]]:
    """Traced values of these sizes as sums."""
    return [[Total(size, ((None, value),))] for size, value in zip(sizes, values, strict=True)]


def _total(value: Any, size: int) -> Total:
    """A value, or a constant, as a sum."""
    if not isinstance(value, np.ndarray):
        return _one(value)
    if value.size not in (1, size):
        raise NotStated("has a constant that differs between sequences")
    return Total(size, (), np.broadcast_to(value.reshape(-1), size).astype(np.float32))


def _one(parts: Sequence[Total]) -> Total:
    if len(parts) > 1:
        raise NotStated("joins values in a way that a cell does not have")
    return parts[0]
