"""Sums, products and powers of values of a graph, and the layers that exporters write out as such.

A LayerNorm may come as mean, difference, square, mean, root and quotient, a GELU with the error function, a SiLU as x
sigmoid(x). Meanwhile `Flow.part_of` is what a value is a part of.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from lrpnumpy import layers as lrp
from lrpnumpy.files.build.axes import Operation, Values, of_flow
from lrpnumpy.files.build.network import SERIES, VECTOR, NetworkBuild, NetworkValue, exchanged
from lrpnumpy.files.operations import OperationNode


def _arithmetic(net: NetworkBuild, node: OperationNode, values: Values) -> NetworkValue:
    a, b = values[:2]
    if isinstance(a, NetworkValue) and isinstance(b, NetworkValue):
        return _of_two(net, node.op, a, b)
    op = node.op
    flow, c = _and_constant(net, values)
    if flow is b:
        op = f"{op} from"
    c = c.astype(np.float64)
    if flow.part_of and (made := _part(net, op, flow, c)) is not None:
        return made
    if (more := c.ndim - len(flow.axes)) > 0:
        flow = flow.widened(range(more))
    net.refuse_if(op == "Div from", "divides by a value of the network")
    return net.affine(flow, *_AFFINE[op](c))


def _and_constant(net: NetworkBuild, values: Values) -> tuple[NetworkValue, np.ndarray]:
    """Of two inputs, in either order, the value of the network and the constant."""
    flow, other = values[:2]
    if not isinstance(flow, NetworkValue):
        flow, other = other, flow
    return flow, net.constant(other, "its other input")


_AFFINE: dict[str, Callable[[np.ndarray], tuple[Any, Any]]] = {  # scale and shift
    **dict.fromkeys(("Add", "Add from"), lambda c: (1.0, c)),
    **dict.fromkeys(("Mul", "Mul from"), lambda c: (c, 0.0)),
    "Sub": lambda c: (1.0, -c),
    "Sub from": lambda c: (-1.0, c),
    "Div": lambda c: (1 / c, 0.0),
}


def _part(net: NetworkBuild, op: str, flow: NetworkValue, c: np.ndarray) -> NetworkValue | None:
    """What a constant does to a part of a LayerNorm or of a GELU; None where it is an ordinary value."""
    if c.size > 1:
        return None
    (number,) = c.reshape(-1).tolist()
    kind, *rest = flow.part_of
    if kind == "scores" and op in ("Mul", "Mul from", "Div"):
        factor, _ = _AFFINE[op](number)
        return replace(flow, part_of=("scores", *rest[:2], rest[2] * factor))
    if kind == "variance" and op.startswith("Add") and len(rest) == 1:
        return replace(flow, part_of=("variance", rest[0], number))
    if kind == "sum of squares" and op == "Div" and number == rest[0].index.size:
        return replace(flow, part_of=("variance", *rest))
    if kind == "erf" and op.startswith("Add") and number == 1:
        return replace(flow, part_of=("1 + erf", *rest))
    if kind == "twice" and op.startswith("Mul") and number == 0.5:
        return rest[0]
    return None


def _of_two(net: NetworkBuild, op: str, a: NetworkValue, b: NetworkValue) -> NetworkValue:
    """Joins of two values, after the parts of a LayerNorm and the like."""
    if op == "Sub" and b.part_of[:1] == ("mean",) and is_same(b.part_of[1], a):
        made = join(net, lrp.Subtract(), a, b)
        return replace(made, part_of=("centred", a))
    if op == "Mul" and is_same(a, b) and a.part_of[:1] == ("centred",):
        return replace(a, values=(), part_of=("square", a.part_of[1]))
    if (op, *b.part_of[:1]) in (("Div", "deviation"), ("Mul", "over deviation")):
        _, source, eps = b.part_of
        if a.part_of[:1] == ("centred",) and is_same(a.part_of[1], source):
            return net.apply(lrp.LayerNorm(np.ones(source.index.size, np.float32), eps=eps), source)
    if op == "Mul":
        for x, other, gate in ((a, b, "second"), (b, a, "first")):
            if other.part_of[:1] == ("weights of the steps",) and x.axes == other.axes and x.values:
                return replace(x, values=(), part_of=("weighted steps", other.part_of[1], x))
            if other.part_of[:1] == ("1 + erf",) and is_same(other.part_of[1], x):
                made = net.each(lrp.Activation("gelu"), other.part_of[1])
                return replace(made, values=(), part_of=("twice", made))
            before = net.node_of(other)
            if before is not None and isinstance(before.layer, lrp.Activation) and before.layer.activation == "sigmoid":
                if before.inputs == x.values and np.array_equal(x.index, other.index):
                    return net.each(lrp.Activation("silu"), x)
                if x.axes == other.axes:
                    return join(net, lrp.Multiply(gate), a, b)  # type: ignore[arg-type]
    layers: dict[str, lrp.Layer] = {"Add": lrp.Add(), "Sub": lrp.Subtract(), "Mul": lrp.Multiply()}
    net.refuse_if(op not in layers, "divides by a value of the network")
    return join(net, layers[op], a, b)


def attended(net: NetworkBuild, scores: NetworkValue, x: NetworkValue) -> NetworkValue:
    """The sum of the steps of x, each times its weight, a softmax of scores: (N, F), or (N, T, F) for many queries."""
    at = x.axes.index("T")
    if scores.part_of[:1] == ("scores",):
        _, query, key, scale = scores.part_of
        first, value = net.rows(query).values[0], net.rows(x).values[0]
        keys = [] if is_same(key, x) else [name for name in net.rows(key).values if name != value]
        name = net.put(lrp.Attention(scale), first, value, *keys)
        axes = SERIES if query.has_steps else VECTOR
        return NetworkValue((name,), axes, np.arange(x.index.size), query.steps)
    x, (name,) = net.rows(x), net.rows(scores).values
    pool = _pool(net, name, x.values[0])
    if pool is not None:
        return net.apply(pool, x, axes=exchanged(x.axes, at), steps=1)
    zero, one = np.zeros(1, np.float32), np.ones(1, np.float32)
    query = net.put(lrp.Affine(zero, one), net.put(lrp.LastRow(), name))  # 1 times a score is the score
    made = net.put(lrp.Attention(), query, x.values[0], name)
    return replace(x, values=(made,), axes=exchanged(x.axes, at), steps=1)


def dot_products(net: NetworkBuild, a: NetworkValue, b: NetworkValue) -> NetworkValue | None:
    """Products of queries (N, 1, d) or (N, T, d) and keys (N, d, T), or of keys (N, T, d) and one query (N, d, 1)."""
    if a.axes[-1:] != ("F",) or b.axes[-2:-1] != ("F",) or not (a.values and b.values) or a.axes[:-2] != b.axes[:-2]:
        return None
    if b.axes[-1] == "T" and (a.axes[-2] == "T" or net.shape(a)[-2] == 1):
        query, key = a, b
    elif a.axes[-2] == "T" and net.shape(b)[-1] == 1:
        query, key = b, a
    else:
        return None
    if query.index.size != key.index.size:
        return None
    axes = (*a.axes[:-1], b.axes[-1])
    index = np.zeros([1] * axes.count("F"), int)
    return NetworkValue((), axes, index, key.steps, part_of=("scores", query, key, 1.0))


def _pool(net: NetworkBuild, name: str, x: str) -> lrp.AttentionPool | None:
    """Scores v . x or v . tanh(W x + b) of x itself as a layer."""
    found = _linear(net, name)
    if found is None or len(found[0]) != 1:
        return None
    v, c, name = found
    before = net.nodes.get(name)
    W = b = None
    if before is not None and isinstance(before.layer, lrp.Activation) and before.layer.activation == "tanh":
        inner = _linear(net, before.inputs[0])
        if inner is None and before.inputs[0] == x:
            size = net.sizes[x].width
            inner = np.eye(size, dtype=np.float32), np.zeros(size, np.float32), x
        W, b, name = inner or (None, None, "")
    return lrp.AttentionPool(v[0], W, b, float(c[0])) if name == x else None


def _linear(net: NetworkBuild, name: str) -> tuple[np.ndarray, np.ndarray, str] | None:
    """Matrix and bias of a Dense layer, whose bias may be a separate Affine layer, and its input."""
    node = net.nodes.get(name)
    shift = None
    if node is not None and isinstance(node.layer, lrp.Affine) and (node.layer.s == 1).all():
        shift, node = node.layer.t, net.nodes.get(node.inputs[0])
    if node is None or not isinstance(node.layer, lrp.Dense):
        return None
    d = node.layer.d
    assert d is not None  # a record has zeros for a bias that was left out
    if shift is not None:
        d = d + shift
    return node.layer.V, d, node.inputs[0]


def is_same(a: NetworkValue, b: NetworkValue) -> bool:
    """Whether two flows are the same."""
    return a.values == b.values and a.axes == b.axes and np.array_equal(a.index, b.index)


def join(net: NetworkBuild, layer: lrp.Layer, a: NetworkValue, b: NetworkValue) -> NetworkValue:
    """A layer of two values, which are broadcast to each other."""
    first, second = net.aligned([net.taken(a), net.taken(b)])
    net.refuse_if(first.has_steps and first.steps != second.steps, "joins series of different numbers of steps")
    return replace(first, values=(net.put(layer, first.values[0], second.values[0]),), part_of=())


def _sum(net: NetworkBuild, node: OperationNode, values: Values) -> Any:
    """The sum of several values."""
    return reduce(lambda a, b: _arithmetic(net, node._replace(op="Add"), (a, b)), values)


def _maximum(net: NetworkBuild, node: OperationNode, values: Values) -> NetworkValue:
    if len(values) == 2 and not all(isinstance(one, NetworkValue) for one in values):
        flow, c = _and_constant(net, values)
        if not c.any():
            return net.each(lrp.Activation("relu"), flow)
    net.refuse("is supported for the larger of a value and 0 only")


def _power(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    c = net.constant(values[1], "its exponent").reshape(-1)
    if c.size == 1 and c[0] == 2:
        if flow.part_of[:1] == ("centred",):
            return replace(flow, values=(), part_of=("square", flow.part_of[1]))
        return net.each(lrp.Square(), flow)
    if c.size == 1 and c[0] in (0.5, -0.5):
        root = _root(net, node, flow, values)
        return root if c[0] > 0 else _reciprocal(net, node, root, values)
    net.refuse("is supported with the exponent 2 only")


def _root(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    if flow.part_of[:1] == ("variance",) and len(flow.part_of) == 3:
        return replace(flow, part_of=("deviation", *flow.part_of[1:]))
    if not flow.values or not all(_is_positive(net, name) for name in flow.values):
        net.refuse("is supported of sums of squares, or as part of a LayerNorm, only")
    return net.each(lrp.Activation("sqrt"), flow)


def _is_positive(net: NetworkBuild, name: str) -> bool:
    """Whether a value is a square, or is made of squares so that it is never below 0."""
    node = net.nodes.get(name)
    if node is None or isinstance(node.layer, lrp.Square):
        return node is not None
    keeps = isinstance(node.layer, (lrp.Add, lrp.Affine, lrp.Concat, lrp.Dense, lrp.Slice))
    keeps = keeps and all((array >= 0).all() for _, array in node.layer.all_arrays())
    return keeps and all(_is_positive(net, one) for one in node.inputs)


def _reciprocal(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    net.refuse_if(flow.part_of[:1] != ("deviation",), "is supported as part of a LayerNorm only")
    return replace(flow, part_of=("over deviation", *flow.part_of[1:]))


def _erf(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    """Part of a GELU: x (1 + erf(x / sqrt(2))) / 2."""
    before = net.node_of(flow)
    if before is None or not isinstance(before.layer, lrp.Affine):
        net.refuse("is supported as part of a GELU only")
    if not np.allclose(before.layer.s, math.sqrt(0.5)) or before.layer.t.any():
        net.refuse("is supported as part of a GELU only")
    source = replace(flow, values=before.inputs, part_of=())
    return replace(flow, values=(), part_of=("erf", source))


OPERATIONS: dict[str, Operation] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), _arithmetic),
    "Sum": _sum,
    "Max": _maximum,
    **{name: of_flow(f) for name, f in (("Pow", _power), ("Sqrt", _root), ("Reciprocal", _reciprocal), ("Erf", _erf))},
    "Neg": lambda net, node, values: net.affine(net.flow(values[0]), -1.0),
}
