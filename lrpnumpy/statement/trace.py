"""A cell's step, run on symbols: the operations that it calls become a list, and everything else follows from the list.

    class MinGRU(Cell):
        def step(s, x, h):
            z, n = s.gates("zn", x)                  # U_z x + b_z,  U_n x + b_n
            z = s.sigmoid(z)
            return s.sum(s.product(s.complement(z), h), s.product(z, n))

| operation | meaning |
| --- | --- |
| sum(*terms) | one sum; a term is a value, or one of the next three |
| matrix(name, v, axis) | V v, with V trained |
| diagonal(name, v) | a v, elementwise, with a trained |
| bias(name) | b, trained |
| product(gate, signal) | elementwise; the first operand is the gate |
| apply(F, v), sigmoid(v), ... | an activation of ACTIVATIONS; complement is 1 - v, reciprocal 1 / v |
| maximum(a, b) | elementwise |
| norm(v, gamma, beta) | LayerNorm over the last axis |
| total(v, axis) | the sum over one axis of a value that has several |
| whole(v) | v; contextual decomposition does not split it |
| fixed(v) | v; LRP does not propagate through it either, the gradient and DeepLIFT do |
| stop(v) | v; nothing propagates through it |

A value has named axes: ("H",) by default, ("D",) for the input. A product of values with different
axes has all of them. The sizes of the axes follow from the trained arrays.
"""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from lrpnumpy.activations import ACTIVATIONS, OWN, Elementwise
from lrpnumpy.checks import LrpError, close_to, shown

Axes = tuple[str, ...]
TERMS = ("matrix", "diagonal", "bias")  # mean something inside a sum only
HELD = ("whole", "fixed", "stop")
OPERATIONS = (*TERMS, *HELD, "sum", "product", "apply", "maximum", "norm", "total")
NORM_EPS = 1e-5
LABELS = {  # operations in words; others are written like functions
    "matrix": "{name} {0}",
    "diagonal": "{name} * {0}",
    "bias": "{name}",
    "product": "{0} * {1}",
    "complement": "(1 - {0})",
    **dict.fromkeys(("same", *HELD), "{0}"),
}


def _minus_one(z: np.ndarray, *_: np.ndarray) -> np.ndarray:
    return np.full_like(z, -1)


FUNCTIONS: dict[str, Elementwise] = {
    **ACTIVATIONS,
    "complement": Elementwise(lambda z: 1 - z, _minus_one, OWN, (), _minus_one),
    "negative": Elementwise(lambda z: -z, _minus_one, OWN, (), _minus_one),
    "reciprocal": Elementwise(lambda z: 1 / z, lambda z, y: -y * y, OWN, (), lambda z, z0, y, y0: -y * y0),
    "log_sigmoid": Elementwise(
        lambda z: -ACTIVATIONS["softplus"].F(-z), lambda z, y: ACTIVATIONS["sigmoid"].F(-z), OWN
    ),
}


def _refuse(what: str) -> Callable[..., NoReturn]:
    def refused(node: Operation, *_: Any, **__: Any) -> NoReturn:
        step: Step = node.owner
        step._fail(what)

    return refused


@dataclass(frozen=True, eq=False, repr=False)
class Operation:
    """One operation: of which values, with which trained array, activation or axis, and the axes of its value."""

    number: int
    op: str  # "input", "state", or one of OPERATIONS
    args: tuple[Operation, ...]
    name: str  # of the input, the state, the trained array, the activation, or the axis that is summed over
    axes: Axes
    of: Axes = ()  # axes of the trained array
    beta: str = ""  # of a norm: its bias
    eps: float = 0.0  # of a norm
    line: int = 0  # of `step`, for errors
    owner: Any = None  # the Step that made it

    __add__ = __radd__ = _refuse("values are not added by +; use s.sum(a, b)")
    __sub__ = __rsub__ = __neg__ = _refuse("values are not subtracted by -; use s.sum(a, s.negative(b))")
    __mul__ = __rmul__ = _refuse("values are not multiplied by *; use s.product(gate, signal), the gate first")
    __truediv__ = __rtruediv__ = _refuse("values are not divided by /; use s.product(s.reciprocal(b), a)")
    __matmul__ = __rmatmul__ = _refuse("matrices are not multiplied by @; use s.matrix(name, v) inside s.sum")
    __pow__ = __rpow__ = __abs__ = _refuse("LRP has no rule for this operator; use the operations s.*")
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _refuse("a step cannot branch on a value; use s.maximum(a, b)")
    __getitem__ = __iter__ = __len__ = __float__ = __int__ = __index__ = _refuse(
        "a value has no single numbers while the step is traced; use s.total(v, axis) to sum over an axis"
    )
    __array__ = __array_ufunc__ = __array_function__ = _refuse(
        "NumPy functions do not take traced values; use s.apply(name, v)"
    )


def joined(*many: Axes) -> Axes:
    """All axes, those of the value that has most of them first."""
    longest = max(many, key=len)
    return longest + tuple(dict.fromkeys(axis for axes in many for axis in axes if axis not in longest))


class Step:
    """What `step` receives as its first argument: the operations, and the settings of the cell."""

    def __init__(self, kind: str, cell: Any = None, step: Callable[..., Any] | None = None) -> None:
        self._kind, self._cell, self._step = kind, cell, step
        self._nodes: list[Operation] = []
        self._arrays: dict[str, Axes] = {}

    def __getattr__(self, name: str) -> Any:
        if name in FUNCTIONS:
            return lambda v: self.apply(name, v)
        setting = getattr(type(self._cell), name, None)
        if setting is not None and not name.startswith("_") and not callable(setting):
            return getattr(self._cell, name)
        operations = [one for one in vars(Step) if not one.startswith("_")]
        near = close_to(name, [*operations, *FUNCTIONS])
        self._fail(f"unknown operation or setting {name!r}{near}")

    # -- operations ---------------------------------------------------------------------------------------------------

    def sum(self, *terms: Operation) -> Operation:
        """One sum of values, matrices, diagonals and biases."""
        if not terms:
            self._fail("s.sum needs at least one term")
        self._check(terms, "s.sum", is_term=True)
        axes = max((term.axes for term in terms), key=len)
        for term in terms:
            if not set(term.axes) <= set(axes):
                self._fail(f"s.sum cannot add values with the axes {axes} and {term.axes}")
        return self._add("sum", terms, axes=axes)

    def matrix(self, name: str, v: Operation, axis: str = "H") -> Operation:
        """The trained matrix `name` times v, a term of a sum; its rows are the axis `axis`."""
        self._check((v,), "s.matrix")
        if v.op not in ("input", "state", "same"):
            v = self._add("same", (v,))  # a separate place for the message that is propagated through the matrix
        return self._trained("matrix", (v,), name, (*v.axes[:-1], axis), (axis, v.axes[-1]))

    def diagonal(self, name: str, v: Operation, axes: Axes = ("H",)) -> Operation:
        """The trained array `name` times v, elementwise, a term of a sum."""
        self._check((v,), "s.diagonal")
        return self._trained("diagonal", (v,), name, joined(v.axes, tuple(axes)), tuple(axes))

    def bias(self, name: str, axes: Axes = ("H",)) -> Operation:
        """The trained array `name`, a term of a sum."""
        return self._trained("bias", (), name, tuple(axes), tuple(axes))

    def product(self, gate: Operation, signal: Operation) -> Operation:
        """gate * signal: LRP and contextual decomposition treat the two differently."""
        self._check((gate, signal), "s.product")
        return self._add("product", (gate, signal), axes=joined(gate.axes, signal.axes))

    def apply(self, F: str, v: Operation) -> Operation:
        """F(v), elementwise; F is the name of an activation."""
        self._check((v,), "s.apply")
        if not isinstance(F, str) or F not in FUNCTIONS:
            self._fail(f"unknown activation {shown(F)}{close_to(F, FUNCTIONS)}")
        return self._add("apply", (v,), F)

    def maximum(self, a: Operation, b: Operation) -> Operation:
        """The larger of a and b, elementwise."""
        self._check((a, b), "s.maximum")
        return self._add("maximum", (a, b), axes=joined(a.axes, b.axes))

    def norm(self, v: Operation, gamma: str, beta: str = "", eps: float = NORM_EPS) -> Operation:
        """LayerNorm over the last axis of v: gamma (v - mean) / sqrt(variance + eps) + beta."""
        self._check((v,), "s.norm")
        if beta:
            self._name(beta, v.axes[-1:])
        return self._trained("norm", (v,), gamma, v.axes, v.axes[-1:], beta=beta, eps=float(eps))

    def total(self, v: Operation, axis: str) -> Operation:
        """The sum of v over one of its axes."""
        self._check((v,), "s.total")
        if axis not in v.axes or len(v.axes) == 1:
            self._fail(f"s.total sums over one of several axes; the value has the axes {v.axes}, not {shown(axis)}")
        return self._add("total", (v,), axis, tuple(one for one in v.axes if one != axis))

    def whole(self, v: Operation) -> Operation:
        """v, which contextual decomposition does not split."""
        return self._held("whole", v)

    def fixed(self, v: Operation) -> Operation:
        """v, through which neither LRP nor contextual decomposition goes."""
        return self._held("fixed", v)

    def stop(self, v: Operation) -> Operation:
        """v, through which nothing propagates: the outputs must not depend on it."""
        return self._held("stop", v)

    def gates(self, names: Sequence[str], x: Operation, h: Operation | None = None) -> tuple[Operation, ...]:
        """For every name k the sum U_k x + W_k h + b_k, or U_k x + b_k without h."""
        sums = []
        for k in names:
            terms = [self.matrix(f"U_{k}", x)]
            if h is not None:
                terms.append(self.matrix(f"W_{k}", h))
            sums.append(self.sum(*terms, self.bias(f"b_{k}")))
        return tuple(sums)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _held(self, op: str, v: Operation) -> Operation:
        self._check((v,), f"s.{op}")
        return self._add(op, (v,))

    def _trained(self, op: str, args: tuple[Operation, ...], name: str, axes: Axes, of: Axes, **more: Any) -> Operation:
        self._name(name, of)
        return self._add(op, args, name, axes, of=of, **more)

    def _name(self, name: str, of: Axes) -> None:
        if not isinstance(name, str) or not name.isidentifier():
            self._fail(f"a trained array needs a name such as 'U_z', got {shown(name)}")
        if self._arrays.setdefault(name, of) != of:
            self._fail(f"array {name} has the axes {self._arrays[name]} before and {of} here; use two names")

    def _add(
        self, op: str, args: tuple[Operation, ...], name: str = "", axes: Axes | None = None, **more: Any
    ) -> Operation:
        chosen = args[0].axes if axes is None else axes
        node = Operation(len(self._nodes), op, args, name, chosen, line=self._at(), owner=self, **more)
        self._nodes.append(node)
        return node

    def _check(self, values: Sequence[Any], what: str, is_term: bool = False) -> None:
        for value in values:
            if not isinstance(value, Operation):
                self._fail(
                    f"{what} takes traced values, got {shown(value)}; pass a constant to the cell as an array, "
                    "and read it with s.bias(name)"
                )
            if value.owner is not self:
                self._fail(f"{what} received a value of another cell")
            if value.op in TERMS and not is_term:
                self._fail(f"{what} received s.{value.op}({value.name!r}), which is a term of s.sum only")

    def _at(self) -> int:
        """The line of `step` that is running."""
        if self._step is None:
            return 0
        code, frame = self._step.__code__, sys._getframe(1)
        while frame is not None and frame.f_code is not code:
            frame = frame.f_back  # type: ignore[assignment]
        return 0 if frame is None else frame.f_lineno

    def _fail(self, what: str, line: int = 0) -> NoReturn:
        """Raise an error that names the line of `step`."""
        line = line or self._at()
        if not what.endswith("?"):
            what += "."
        if self._step is None or not line:
            raise LrpError(f"{self._kind}: {what}")
        text = linecache.getline(self._step.__code__.co_filename, line).strip()
        raise LrpError(f"{self._kind}.step, line {line}: {what}" + (f" The line is: {text}" if text else ""))

    def _again(self, op: str, args: list[Operation], name: str, of: Axes, beta: str, eps: float) -> Operation:
        """An operation as a file holds it."""
        if op == "norm":
            return self.norm(args[0], name, beta, eps)
        if op == "total":
            return self.total(args[0], name)
        names = [name] if name else []
        more = {"matrix": of[:1], "diagonal": [of], "bias": [of]}.get(op, [])
        return getattr(self, op)(*names, *args, *more)

    def _finished(
        self, inputs: list[Operation], states: list[Operation], values: Sequence[Any], line: int
    ) -> Statement:
        """The statement of a step that returned the output and the states, `values`."""
        names = ", ".join(node.name for node in states)
        if len(values) != len(states) + 1:
            self._fail(
                f"step returned {len(values)} values for the states {names}; return the output first, then every "
                "state, or every state where the first is the output",
                line,
            )
        for value in values:
            if not isinstance(value, Operation) or value.owner is not self or value.op in TERMS:
                self._fail(f"step must return the output and the states as traced values, got {shown(value)}", line)
        output, *after = values
        for state, value in zip(states, after, strict=True):
            if value.axes != state.axes:
                self._fail(f"state {state.name} has the axes {state.axes}, step returns it with {value.axes}", line)
            if value is state and output is not state and not any(state in node.args for node in self._nodes):
                self._fail(f"state {state.name} is neither read nor changed; leave it out of states", line)
        if len(output.axes) != 1:
            self._fail(f"the output must have one axis, got {output.axes}; use s.total", line)
        nodes = tuple(node for node in self._nodes if node.op not in ("input", "state"))
        return Statement(self._kind, tuple(inputs), tuple(states), nodes, output, tuple(after), self._arrays)


@dataclass(frozen=True, eq=False)
class Statement:
    """The operations of one step."""

    kind: str  # name of the cell
    inputs: tuple[Operation, ...]
    states: tuple[Operation, ...]  # before the step
    nodes: tuple[Operation, ...]  # each after its arguments
    output: Operation
    after: tuple[Operation, ...]  # the states after the step
    arrays: Mapping[str, Axes]  # trained arrays and their axes

    @cached_property
    def sources(self) -> dict[Operation, bool]:
        """For every node whether it depends on a state, and so must wait for the step before."""
        late = {**dict.fromkeys(self.inputs, False), **dict.fromkeys(self.states, True)}
        for node in self.nodes:
            late[node] = any(late[one] for one in node.args)
        return late

    @cached_property
    def is_state_output(self) -> bool:
        """Whether the output is the first state."""
        return self.after[0] is self.output

    @cached_property
    def gates(self) -> dict[str, Operation]:
        """The activations of sums of matrix products, by the ends of their arrays' names, U_i and W_i.

        Of two sums with one name, such as n's in a GRU and the one inside its reset product, the activated one counts.
        """
        activations = {one.args[0]: one for one in reversed(self.nodes) if one.op == "apply"}
        gates: dict[str, Operation] = {}
        for node in self.nodes:
            matrices = [term for term in node.args if term.op == "matrix"]
            if node.op == "sum" and matrices and node.axes == ("H",):
                name = matrices[0].name.rpartition("_")[2]
                if node in activations or name not in gates:
                    gates[name] = activations.get(node, node)
        return gates

    def sizes(self, arrays: Mapping[str, np.ndarray]) -> dict[str, int]:
        """The size of every axis, from the trained arrays; an error where two of them disagree."""
        known: dict[str, tuple[int, str]] = {}
        for name, axes in self.arrays.items():
            for axis, size in zip(axes, arrays[name].shape, strict=True):
                before, other = known.setdefault(axis, (size, name))
                if before != size:
                    raise LrpError(
                        f"{self.kind}: {name} has {size} numbers on the axis {axis} ({self._place(name)}), but {other} "
                        f"has {before}; both must have the same."
                    )
        for node in self.inputs:
            for axis in node.axes:
                known.setdefault(axis, (1, ""))  # an input that no trained array multiplies is one number
        return {axis: size for axis, (size, _) in known.items()}

    def _place(self, name: str) -> str:
        line = next((node.line for node in self.nodes if name in (node.name, node.beta)), 0)
        return f"line {line} of step" if line else "as stored"

    def check(self, arrays: Mapping[str, Any]) -> None:
        """Raise where a trained array is missing or has the wrong number of axes."""
        for name, axes in self.arrays.items():
            value = arrays.get(name)
            if value is None or np.ndim(value) != len(axes):
                found = "is missing" if value is None else f"has {np.ndim(value)} axes"
                raise LrpError(
                    f"{self.kind}: array {name} {found}; {self._place(name)} uses it with the axes ({', '.join(axes)})."
                )

    def products(self) -> list[str]:
        """ "gate x signal" of every product, in words."""
        return [
            f"{self.label(node.args[0])} x {self.label(node.args[1])}" for node in self.nodes if node.op == "product"
        ]

    def label(self, node: Operation) -> str:
        """A value in words: its formula, or the name of the state that it is; `h_prev` is the state before the step."""
        if node.op == "input":
            return node.name
        if node.op == "state":
            return f"{node.name}_prev"
        if node in self.after:
            return self.states[self.after.index(node)].name
        inside = [self.label(one) for one in node.args]
        if node.op == "sum":
            return f"({' + '.join(inside)})"
        text = ", ".join(inside)
        key = node.name if node.name == "complement" else node.op
        if key in LABELS:
            return LABELS[key].format(*inside, name=node.name)
        name = node.name if node.op == "apply" else node.op
        is_sum = len(inside) == 1 and text.startswith("(") and node.args[0].op == "sum"
        return f"{name}{text}" if is_sum else f"{name}({text})"

    # -- as data ------------------------------------------------------------------------------------------------------

    def to_data(self) -> dict[str, Any]:
        """Lists, strings and numbers from which `from_data` makes the same statement, for a file."""
        numbers: dict[Operation, int] = {}
        rows: list[list[Any]] = []
        for node in (*self.inputs, *self.states, *self.nodes):
            if node.op == "same":  # `matrix` adds it again
                numbers[node] = numbers[node.args[0]]
                continue
            numbers[node] = len(numbers) - sum(one.op == "same" for one in numbers)
            if node.op in ("input", "state"):
                continue
            args = [numbers[one] for one in node.args]
            rows.append([node.op, args, node.name, list(node.of), node.beta, node.eps])
        return {
            "kind": self.kind,
            "inputs": [[node.name, list(node.axes)] for node in self.inputs],
            "states": [[node.name, list(node.axes)] for node in self.states],
            "operations": rows,
            "returns": [numbers[node] for node in (self.output, *self.after)],
        }


def trace(cell: Any, step: Callable[..., Any], states: Sequence[str], axes: Mapping[str, Axes]) -> Statement:
    """Run `step` on symbols. Parameters named in `states` are states, the others are inputs."""
    s = Step(type(cell).__name__, cell, step)
    parameters = list(inspect.signature(step).parameters)[1:]
    line = step.__code__.co_firstlineno
    inputs = [name for name in parameters if name not in states]
    missing = [name for name in states if name not in parameters]
    if missing:
        s._fail(f"state {missing[0]!r} is not a parameter of step, which takes ({', '.join(parameters)})", line)
    if not inputs:
        s._fail("step takes no input; its first parameter after s is the input x", line)
    if len(set(states)) != len(states) or not states:
        s._fail(f"states must be different names, at least one, got {tuple(states)}", line)
    usual = {name: (name,) for name in inputs} | {inputs[0]: ("D",)} | dict.fromkeys(states, ("H",))
    before = {}
    for name in parameters:
        op = "state" if name in states else "input"
        before[name] = s._add(op, (), name, tuple(axes.get(name, usual[name])))
    returned = step(s, *before.values())
    values = returned if isinstance(returned, tuple) else (returned,)
    line = max(one for _, _, one in step.__code__.co_lines() if one)  # of the last statement
    if len(values) == len(states):
        values = (values[0], *values)
    return s._finished([before[name] for name in inputs], [before[name] for name in states], values, line)


def from_data(data: Mapping[str, Any]) -> Statement:
    """The statement that `to_data` wrote: its operations are called again, so that only those of `Step` exist."""
    try:
        s = Step(_word(data["kind"]))
        inputs, states = (
            [s._add(op, (), _word(name), _words(axes)) for name, axes in data[f"{op}s"]] for op in ("input", "state")
        )
        values = [*inputs, *states]
        for op, numbers, name, of, beta, eps in data["operations"]:
            if op not in OPERATIONS or not all(0 <= k < len(values) for k in numbers):
                raise ValueError(op)
            values.append(s._again(op, [values[k] for k in numbers], _word(name), _words(of), _word(beta), float(eps)))
        return s._finished(inputs, states, [values[k] for k in data["returns"] if k >= 0], 0)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        if isinstance(error, LrpError):
            raise
        raise LrpError(f"the stored cell is damaged ({type(error).__name__}).") from error


def _word(value: Any) -> str:
    """A name in a file; names of files on disk are made of these."""
    if not isinstance(value, str) or len(value) > 100 or (value and not value.isidentifier()):
        raise ValueError(value)
    return value


def _words(values: Any) -> Axes:
    return tuple(map(_word, values))
