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
| product(gate, signal) | elementwise; the order says which operand is the gate |
| apply(F, v), sigmoid(v), ... | an activation of ACTIVATIONS; complement is 1 - v, reciprocal 1 / v |
| maximum(a, b) | elementwise |
| norm(v, gamma, beta) | LayerNorm over the last axis |
| total(v, axis) | the sum over one axis of a value that has several |
| whole(v) | v; contextual decomposition does not split it |
| fixed(v) | v; LRP does not propagate through it either, the gradient and DeepLIFT do |
| stop(v) | v; nothing propagates through it |

A value has named axes: ("H",) unless the cell says otherwise, ("D",) for the input. A product of values with different
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

from lrpnumpy.activations import ACTIVATIONS, OWN, Activation
from lrpnumpy.checks import LrpError, close_to, shown

Axes = tuple[str, ...]
TERMS = ("matrix", "diagonal", "bias")  # mean something inside a sum only
HELD = ("whole", "fixed", "stop")
OPERATIONS = (*TERMS, *HELD, "sum", "product", "apply", "maximum", "norm", "total", "same")
NORM_EPS = 1e-5


def _line(slope: float, at_0: float) -> Activation:
    def F(z: np.ndarray) -> np.ndarray:
        return z * z.dtype.type(slope) + z.dtype.type(at_0)

    def constant(z: np.ndarray, *_: np.ndarray) -> np.ndarray:
        return np.full_like(z, slope)

    return Activation(F, constant, OWN, (), constant)


def _log_sigmoid(z: np.ndarray) -> np.ndarray:
    return -ACTIVATIONS["softplus"].F(-z)


FUNCTIONS: dict[str, Activation] = {
    **ACTIVATIONS,
    "exp": ACTIVATIONS["exponential"],
    "complement": _line(-1, 1),
    "negative": _line(-1, 0),
    "reciprocal": Activation(lambda z: 1 / z, lambda z, y: -y * y, OWN, (), lambda z, z0, y, y0: -y * y0),
    "log_sigmoid": Activation(_log_sigmoid, lambda z, y: ACTIVATIONS["sigmoid"].F(-z), OWN),
}


def _refuse(what: str) -> Callable[..., NoReturn]:
    def refused(node: Node, *_: Any, **__: Any) -> NoReturn:
        node.owner.fail(what)

    return refused


@dataclass(frozen=True, eq=False, repr=False)
class Node:
    """One operation: of which values, with which trained array, activation or axis, and the axes of its value."""

    number: int
    op: str  # "input", "state", or one of OPERATIONS
    args: tuple[Node, ...]
    name: str  # of the input, the state, the trained array, the activation, or the axis that is summed over
    axes: Axes
    of: Axes = ()  # axes of the trained array
    beta: str = ""  # of a norm: its bias
    eps: float = 0.0  # of a norm
    line: int = 0  # of `step`, for errors
    owner: Any = None  # the Step that made it

    def __repr__(self) -> str:
        inside = [self.name] if self.name else []
        inside += [f"%{one.number}" for one in self.args]
        return f"%{self.number} = {self.op}({', '.join(inside)})"

    __add__ = __radd__ = _refuse("values are not added by +; use s.sum(a, b)")
    __sub__ = __rsub__ = __neg__ = _refuse("values are not subtracted by -; use s.sum(a, s.negative(b))")
    __mul__ = __rmul__ = _refuse("values are not multiplied by *; use s.product(gate, signal), the gate first")
    __truediv__ = __rtruediv__ = _refuse("values are not divided by /; use s.product(s.reciprocal(b), a)")
    __matmul__ = __rmatmul__ = _refuse("matrices are not multiplied by @; use s.matrix(name, v) inside s.sum")
    __pow__ = __rpow__ = __abs__ = _refuse("this operator has no rule; use the operations of lrp.Cell")
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _refuse("a step cannot branch on a value; use s.maximum(a, b)")
    __getitem__ = __iter__ = __len__ = __float__ = __int__ = __index__ = _refuse(
        "a value has no single numbers while the step is traced; use s.total(v, axis) to sum over an axis"
    )
    __array_ufunc__ = None
    __array__ = __array_function__ = _refuse("NumPy functions do not take traced values; use s.apply(name, v)")


def joined(*many: Axes) -> Axes:
    """All axes, those of the value that has most of them first."""
    longest = max(many, key=len)
    return longest + tuple(dict.fromkeys(axis for axes in many for axis in axes if axis not in longest))


class Step:
    """What `step` receives as its first argument: the operations, and the settings of the cell."""

    def __init__(self, cell: Any, step: Callable[..., Any]) -> None:
        self._cell, self._step = cell, step
        self._nodes: list[Node] = []
        self._arrays: dict[str, Axes] = {}

    def __getattr__(self, name: str) -> Any:
        if name in FUNCTIONS:
            return lambda v: self.apply(name, v)
        if not name.startswith("_") and hasattr(type(self._cell), name) and not callable(getattr(type(self._cell), name)):
            return getattr(self._cell, name)
        operations = [one for one in vars(Step) if not one.startswith("_")]
        near = close_to(name, [*operations, *FUNCTIONS])
        self.fail(f"unknown operation or setting {name!r}{near}")

    # -- operations ---------------------------------------------------------------------------------------------------

    def sum(self, *terms: Node) -> Node:
        """One sum of values, matrices, diagonals and biases."""
        if not terms:
            self.fail("s.sum needs at least one term")
        self._check(terms, "s.sum", is_term=True)
        axes = max((term.axes for term in terms), key=len)
        for term in terms:
            if not set(term.axes) <= set(axes):
                self.fail(f"s.sum cannot add values with the axes {axes} and {term.axes}")
        return self._add("sum", terms, axes=axes)

    def matrix(self, name: str, v: Node, axis: str = "H") -> Node:
        """The trained matrix `name` times v, a term of a sum; its rows are the axis `axis`."""
        self._check((v,), "s.matrix")
        if v.op not in ("input", "state", "same"):
            v = self._add("same", (v,))  # a place of its own for the message that comes back through the matrix
        return self._trained("matrix", (v,), name, (*v.axes[:-1], axis), (axis, v.axes[-1]))

    def diagonal(self, name: str, v: Node, axes: Axes = ("H",)) -> Node:
        """The trained array `name` times v, elementwise, a term of a sum."""
        self._check((v,), "s.diagonal")
        return self._trained("diagonal", (v,), name, joined(v.axes, tuple(axes)), tuple(axes))

    def bias(self, name: str, axes: Axes = ("H",)) -> Node:
        """The trained array `name`, a term of a sum."""
        return self._trained("bias", (), name, tuple(axes), tuple(axes))

    def product(self, gate: Node, signal: Node) -> Node:
        """gate * signal: LRP and contextual decomposition treat the two differently."""
        self._check((gate, signal), "s.product")
        return self._add("product", (gate, signal), axes=joined(gate.axes, signal.axes))

    def apply(self, F: str, v: Node) -> Node:
        """F(v), elementwise; F is the name of an activation."""
        self._check((v,), "s.apply")
        if not isinstance(F, str) or F not in FUNCTIONS:
            self.fail(f"unknown activation {shown(F)}{close_to(F, FUNCTIONS)}")
        return self._add("apply", (v,), F)

    def maximum(self, a: Node, b: Node) -> Node:
        """The larger of a and b, elementwise."""
        self._check((a, b), "s.maximum")
        return self._add("maximum", (a, b), axes=joined(a.axes, b.axes))

    def norm(self, v: Node, gamma: str, beta: str = "", eps: float = NORM_EPS) -> Node:
        """LayerNorm over the last axis of v: gamma (v - mean) / sqrt(variance + eps) + beta."""
        self._check((v,), "s.norm")
        if beta:
            self._name(beta, v.axes[-1:])
        return self._trained("norm", (v,), gamma, v.axes, v.axes[-1:], beta=beta, eps=float(eps))

    def total(self, v: Node, axis: str) -> Node:
        """The sum of v over one of its axes."""
        self._check((v,), "s.total")
        if axis not in v.axes or len(v.axes) == 1:
            self.fail(f"s.total sums over one of several axes; the value has the axes {v.axes}, not {shown(axis)}")
        return self._add("total", (v,), axis, tuple(one for one in v.axes if one != axis))

    def whole(self, v: Node) -> Node:
        """v, which contextual decomposition does not split."""
        return self._held("whole", v)

    def fixed(self, v: Node) -> Node:
        """v, through which neither LRP nor contextual decomposition goes."""
        return self._held("fixed", v)

    def stop(self, v: Node) -> Node:
        """v, through which nothing propagates: the outputs must not depend on it."""
        return self._held("stop", v)

    def gates(self, names: Sequence[str], x: Node, h: Node | None = None) -> tuple[Node, ...]:
        """For every name k the sum U_k x + W_k h + b_k, or U_k x + b_k without h."""
        sums = []
        for k in names:
            terms = [self.matrix(f"U_{k}", x)]
            if h is not None:
                terms.append(self.matrix(f"W_{k}", h))
            sums.append(self.sum(*terms, self.bias(f"b_{k}")))
        return tuple(sums)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _held(self, op: str, v: Node) -> Node:
        self._check((v,), f"s.{op}")
        return self._add(op, (v,))

    def _trained(self, op: str, args: tuple[Node, ...], name: str, axes: Axes, of: Axes, **more: Any) -> Node:
        self._name(name, of)
        return self._add(op, args, name, axes, of=of, **more)

    def _name(self, name: str, of: Axes) -> None:
        if not isinstance(name, str) or not name.isidentifier():
            self.fail(f"a trained array needs a name such as 'U_z', got {shown(name)}")
        if self._arrays.setdefault(name, of) != of:
            self.fail(f"array {name} has the axes {self._arrays[name]} before and {of} here; use two names")

    def _add(self, op: str, args: tuple[Node, ...], name: str = "", axes: Axes | None = None, **more: Any) -> Node:
        chosen = args[0].axes if axes is None else axes
        node = Node(len(self._nodes), op, args, name, chosen, line=self._at(), owner=self, **more)
        self._nodes.append(node)
        return node

    def _check(self, values: Sequence[Any], what: str, is_term: bool = False) -> None:
        for value in values:
            if not isinstance(value, Node):
                self.fail(f"{what} takes traced values, got {shown(value)}; a constant is a trained array, s.bias(name)")
            if value.owner is not self:
                self.fail(f"{what} received a value of another cell")
            if value.op in TERMS and not is_term:
                self.fail(f"{what} received s.{value.op}({value.name!r}), which is a term of s.sum only")

    def _at(self) -> int:
        """The line of `step` that is running."""
        code, frame = self._step.__code__, sys._getframe(1)
        while frame is not None and frame.f_code is not code:
            frame = frame.f_back  # type: ignore[assignment]
        return 0 if frame is None else frame.f_lineno

    def fail(self, what: str, line: int = 0) -> NoReturn:
        """Raise an error that names the line of `step`."""
        line = line or self._at()
        code = self._step.__code__
        text = linecache.getline(code.co_filename, line).strip()
        where = f", line {line}" if line else ""
        raise LrpError(f"{type(self._cell).__name__}.step{where}: {what}." + (f" The line is: {text}" if text else ""))


@dataclass(frozen=True, eq=False)
class Statement:
    """The operations of one step."""

    kind: str  # name of the cell
    inputs: tuple[Node, ...]
    states: tuple[Node, ...]  # before the step
    nodes: tuple[Node, ...]  # each after its arguments
    output: Node
    after: tuple[Node, ...]  # the states after the step
    arrays: Mapping[str, Axes]  # trained arrays and their axes

    @cached_property
    def sources(self) -> dict[Node, bool]:
        """For every node whether it depends on a state, and so must wait for the step before."""
        late = {**dict.fromkeys(self.inputs, False), **dict.fromkeys(self.states, True)}
        for node in self.nodes:
            late[node] = any(late[one] for one in node.args)
        return late

    @property
    def is_state_output(self) -> bool:
        """Whether the output is the first state."""
        return self.after[0] is self.output

    @cached_property
    def gates(self) -> dict[str, tuple[Node, Node]]:
        """Sums of matrix products by the ends of their arrays' names, U_i and W_i: pre-activation and activation."""
        found: dict[str, tuple[Node, Node]] = {}
        for node in self.nodes:
            matrices = [term for term in node.args if term.op == "matrix"]
            if node.op == "sum" and matrices and node.axes == ("H",):
                name = matrices[0].name.rpartition("_")[2]
                activations = [one for one in self.nodes if one.op == "apply" and one.args[0] is node]
                found.setdefault(name, (node, activations[0] if activations else node))
        return found

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
            if arrays.get(name) is None:
                raise LrpError(
                    f"{self.kind}: array {name} is missing ({self._place(name)} uses it); pass {name}= with the axes "
                    f"({', '.join(axes)})."
                )
            if np.ndim(arrays[name]) != len(axes):
                raise LrpError(
                    f"{self.kind}: {name} has {np.ndim(arrays[name])} axes, {self._place(name)} uses it with "
                    f"{len(axes)}: ({', '.join(axes)})."
                )

    def products(self) -> list[str]:
        """ "gate x signal" of every product, in words."""
        return [f"{self.label(node.args[0])} x {self.label(node.args[1])}" for node in self.nodes if node.op == "product"]

    def label(self, node: Node) -> str:
        """A value in words: its formula, or the name of the state that it is; `h_prev` is the state before the step."""
        if node.op == "input":
            return node.name
        if node.op == "state":
            return f"{node.name}_prev"
        if node in self.after:
            return self.states[self.after.index(node)].name
        inside = [self.label(one) for one in node.args]
        if node.op == "matrix":
            return f"{node.name} {inside[0]}"
        if node.op == "diagonal":
            return f"{node.name} * {inside[0]}"
        if node.op == "bias":
            return node.name
        if node.op == "sum":
            return f"({' + '.join(inside)})"
        if node.op == "product":
            return f"{inside[0]} * {inside[1]}"
        if node.op in ("same", *HELD):
            return inside[0]
        if node.op == "apply" and node.name == "complement":
            return f"(1 - {inside[0]})"
        name = node.name if node.op == "apply" else node.op
        text = ", ".join(inside)
        is_sum = node.args[0].op == "sum" and node.args[0] not in self.after and len(inside) == 1
        return f"{name}{text}" if is_sum else f"{name}({text})"

    # -- as data ------------------------------------------------------------------------------------------------------

    def to_data(self) -> dict[str, Any]:
        """Lists, strings and numbers from which `from_data` makes the same statement, for a file."""
        rows = []
        for node in self.nodes:
            row: list[Any] = [node.op, [one.number for one in node.args], node.name, list(node.axes), list(node.of)]
            if node.op == "norm":
                row += [node.beta, node.eps]
            rows.append(row)
        return {
            "kind": self.kind,
            "inputs": [[node.name, list(node.axes)] for node in self.inputs],
            "states": [[node.name, list(node.axes)] for node in self.states],
            "operations": rows,
            "output": self.output.number,
            "after": [node.number for node in self.after],
        }


def trace(cell: Any, step: Callable[..., Any], states: Sequence[str], axes: Mapping[str, Axes]) -> Statement:
    """Run `step` on symbols. Parameters named in `states` are states, the others are inputs."""
    s = Step(cell, step)
    kind = type(cell).__name__
    parameters = list(inspect.signature(step).parameters)[1:]
    missing = [name for name in states if name not in parameters]
    inputs = [name for name in parameters if name not in states]
    line = step.__code__.co_firstlineno
    if missing:
        s.fail(f"state {missing[0]!r} is not a parameter of step, which takes ({', '.join(parameters)})", line)
    if not inputs:
        s.fail("step takes no input; its first parameter after s is the input x", line)
    if len(set(states)) != len(states) or not states:
        s.fail(f"states must be different names, at least one, got {tuple(states)}", line)
    before = {}
    for name in parameters:
        default: Axes = ("H",)
        if name in inputs:
            default = ("D",) if name == inputs[0] else (name,)
        node = Node(len(s._nodes), "state" if name in states else "input", (), name, tuple(axes.get(name, default)), owner=s)
        s._nodes.append(node)
        before[name] = node
    returned = step(s, *before.values())
    values = returned if isinstance(returned, tuple) else (returned,)
    line = _last_line(step)
    for value in values:
        if not isinstance(value, Node) or value.owner is not s or value.op in TERMS:
            s.fail(f"step must return the output and the states as traced values, got {shown(value)}", line)
    if len(values) not in (len(states), len(states) + 1):
        s.fail(
            f"step returned {len(values)} values for the states {', '.join(states)}; return the output first, then "
            "every state, or every state where the first is the output",
            line,
        )
    after = values[-len(states) :]
    for name, value in zip(states, after, strict=True):
        if value.axes != before[name].axes:
            s.fail(f"state {name} has the axes {before[name].axes}, step returns it with {value.axes}", line)
        if value is before[name] and not _is_used(value, s._nodes, values):
            s.fail(f"state {name} is neither read nor changed; leave it out of states", line)
    if len(values[0].axes) != 1:
        s.fail(f"the output must have one axis, got {values[0].axes}; use s.total", line)
    count = len(parameters)
    return Statement(
        kind,
        tuple(before[name] for name in inputs),
        tuple(before[name] for name in states),
        tuple(s._nodes[count:]),
        values[0],
        after,
        s._arrays,
    )


def _last_line(step: Callable[..., Any]) -> int:
    """The line of the last statement of `step`."""
    return max(line for _, _, line in step.__code__.co_lines() if line)


def _is_used(node: Node, nodes: Sequence[Node], returned: Sequence[Node]) -> bool:
    return any(node in one.args for one in nodes) or returned[0] is node


def from_data(data: Mapping[str, Any]) -> Statement:
    """The statement that `to_data` wrote. Only the operations of this module exist, and each takes earlier values."""
    try:
        return _from_data(data)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise LrpError(f"the stored cell is damaged: {type(error).__name__}.") from error


def _from_data(data: Mapping[str, Any]) -> Statement:
    nodes: list[Node] = []
    arrays: dict[str, Axes] = {}

    def text(value: Any) -> str:
        if not isinstance(value, str) or len(value) > 200:
            raise ValueError(value)
        return value

    def axes_of(value: Any) -> Axes:
        return tuple(text(one) for one in value)

    for op in ("input", "state"):
        for name, axes in data[f"{op}s"]:
            nodes.append(Node(len(nodes), op, (), text(name), axes_of(axes)))
    for op, numbers, name, axes, of, *norm in data["operations"]:
        if op not in OPERATIONS or (op == "apply" and name not in FUNCTIONS):
            raise ValueError(op)
        if not all(isinstance(k, int) and 0 <= k < len(nodes) for k in numbers):
            raise ValueError(numbers)
        beta, eps = (text(norm[0]), float(norm[1])) if op == "norm" else ("", 0.0)
        args = tuple(nodes[k] for k in numbers)
        node = Node(len(nodes), op, args, text(name), axes_of(axes), axes_of(of), beta, eps)
        _check_stored(node)
        nodes.append(node)
        for key in (node.name, beta) if node.of else ():
            if key and arrays.setdefault(key, node.of) != node.of:
                raise ValueError(key)
    n, m = len(data["inputs"]), len(data["states"])
    chosen = [data["output"], *data["after"]]
    if not all(isinstance(k, int) and 0 <= k < len(nodes) for k in chosen) or len(data["after"]) != m or not n or not m:
        raise ValueError(chosen)
    after = tuple(nodes[k] for k in data["after"])
    for before, value in zip(nodes[n : n + m], after, strict=True):
        if before.axes != value.axes or value.op in TERMS:
            raise ValueError(value)
    output = nodes[data["output"]]
    if len(output.axes) != 1 or output.op in TERMS:
        raise ValueError(output)
    return Statement(
        text(data["kind"]), tuple(nodes[:n]), tuple(nodes[n : n + m]), tuple(nodes[n + m :]), output, after, arrays
    )


COUNTS = {"matrix": 1, "diagonal": 1, "bias": 0, "product": 2, "maximum": 2, "sum": None}


def _check_stored(node: Node) -> None:
    """The axes of a stored operation are those that tracing would give it."""
    count = COUNTS.get(node.op, 1)
    if (count is not None and len(node.args) != count) or (node.op == "sum" and not node.args):
        raise ValueError(node)
    if node.op != "sum" and any(one.op in TERMS for one in node.args):
        raise ValueError(node)
    axes = [one.axes for one in node.args]
    if node.op == "matrix":
        expected = (*axes[0][:-1], node.of[0])
        if node.of[1:] != axes[0][-1:]:
            raise ValueError(node)
    elif node.op == "diagonal":
        expected = joined(axes[0], node.of)
    elif node.op == "bias":
        expected = node.of
    elif node.op == "sum":
        expected = max(axes, key=len)
        if any(not set(one) <= set(expected) for one in axes):
            raise ValueError(node)
    elif node.op in ("product", "maximum"):
        expected = joined(*axes)
    elif node.op == "total":
        expected = tuple(one for one in axes[0] if one != node.name)
    else:
        expected = axes[0]
        if node.op == "norm" and node.of != axes[0][-1:]:
            raise ValueError(node)
    if node.axes != expected or not expected:
        raise ValueError(node)
