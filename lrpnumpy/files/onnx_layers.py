"""What each operation of ONNX makes of the values of a network: the table OPERATIONS.

A function gets the network, the node and the values of its inputs, and gives its output, or a list of outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lrpnumpy.files.onnx_cells import recurrent
from lrpnumpy.files.onnx_constants import LAST, Dim, axes_of, bounds, numbers, pieces, slices
from lrpnumpy.files.onnx_flow import Flow, Network
from lrpnumpy.files.onnx_graph import INTEGERS, Node
from lrpnumpy.layers import (
    Activation,
    Add,
    AvgPool1D,
    Conv1D,
    Layer,
    LayerNorm,
    Max,
    MaxPool1D,
    Mean,
    Multiply,
    Reverse,
    Slice,
    Square,
    Subtract,
    Sum,
)
from lrpnumpy.layers.windows import Windows

Values = Sequence[Any]


def _axis(net: Network, flow: Flow, number: Any) -> int:
    """An axis counted from 0."""
    number = int(number)
    if not -len(flow.axes) <= number < len(flow.axes):
        net.refuse(f"is about axis {number} of a value with {len(flow.axes)} axes")
    return number % len(flow.axes)


def _axes(net: Network, node: Node, values: Values) -> list[int] | None:
    found = axes_of(node, [values[0], *(net.constant(one, "its axes") for one in values[1:2] if one is not None)])
    return None if found is None else [_axis(net, values[0], one) for one in found]


def _flow(net: Network, value: Any) -> Flow:
    if not isinstance(value, Flow):
        net.refuse("must take a value of the network as its first input")
    return value


# --------------------------------------------------------------------------------------------------------- axes


def _same(net: Network, node: Node, values: Values) -> Flow:
    flow = _flow(net, values[0])
    to = node.attributes.get("to", 1) if node.op == "Cast" else 1
    if to in INTEGERS and flow.values and not set(flow.values) <= set(net.ports):
        net.refuse("rounds values of the network, which is not supported")
    return flow


def _transpose(net: Network, node: Node, values: Values) -> Flow:
    flow = _flow(net, values[0])
    order = node.attributes.get("perm") or list(range(len(flow.axes)))[::-1]
    if sorted(order) != list(range(len(flow.axes))):
        net.refuse("must reorder all axes")
    return flow.moved(order)


def _squeeze(net: Network, node: Node, values: Values) -> Flow:
    flow = _flow(net, values[0])
    axes = _axes(net, node, values)
    shape = net.shape(flow)
    axes = [k for k, n in enumerate(shape) if n == 1] if axes is None else axes
    if any(shape[k] != 1 and flow.axes[k] != "N" for k in axes):
        net.refuse("takes away an axis that is longer than 1")
    for k in sorted(axes, reverse=True):
        if flow.axes[k] == "F":
            flow = flow.taking(k, 0)
        elif flow.axes[k] == "T":
            flow = net.one_step(flow, 0, keep=False)
        elif shape[k] == 1:
            flow = replace(flow, axes=flow.axes[:k] + flow.axes[k + 1 :])
        elif flow.index.size > 1 or len(flow.axes) > 1:  # squeeze() of PyTorch, which means another axis
            net.refuse("takes away the batch, which is longer than 1")
    return flow


def _unsqueeze(net: Network, node: Node, values: Values) -> Flow:
    flow = _flow(net, values[0])
    axes = axes_of(node, [flow, *(net.constant(one, "its axes") for one in values[1:2])]) or []
    rank = len(flow.axes) + len(axes)
    if len({k % rank for k in axes}) < len(axes) or rank > 32:
        net.refuse("has the same axis twice")
    return flow.widened([k % rank for k in axes])


def _reshape(net: Network, node: Node, values: Values) -> Flow:
    flow, before = _flow(net, values[0]), net.shape(values[0])
    if node.op == "Flatten":
        at = node.attributes.get("axis", 1)
        at = at + len(before) if at < 0 else at
        return net.reshaped(flow, [_product(before[:at]), _product(before[at:])])
    given = node.attributes.get("shape") or list(net.constant(values[1], "its shape").reshape(-1))
    if len(given) > 32:
        net.refuse("has a shape of more than 32 axes")
    target = [one if isinstance(one, Dim) else int(one) for one in given]
    if not node.attributes.get("allowzero", 0):
        target = [before[k] if one == 0 and k < len(before) else one for k, one in enumerate(target)]
    return net.reshaped(flow, target)


def _product(values: Sequence[Any]) -> Any:
    out: Any = 1
    for one in values:
        out = one * out
    return out


def _slice(net: Network, node: Node, values: Values) -> Flow:
    flow = _flow(net, values[0])
    limits = [None if one is None else net.constant(one, "its limits") for one in values[1:]]
    for axis, start, stop, step in slices(node, [flow, *limits]):
        k = _axis(net, flow, axis)
        size = net.shape(flow)[k]
        start, stop = (_from_end(net, one, size) for one in (start, stop))
        low, high = bounds(start, stop, step)
        if isinstance(size, int):
            every = range(size)[low:high:step]
            if every == range(size):
                continue
        elif step == 1 and low in (0, None) and high is None:
            continue
        if flow.axes[k] == "F":
            flow = flow.taking(k, slice(low, high, step))
        elif flow.axes[k] == "T":
            flow = _some_steps(net, flow, low, high, step)
        elif not (step == 1 and low in (0, None) and high is not None and high >= 1 and net.batch == 1):
            net.refuse("takes some sequences of the batch, which is not supported")
        if 0 in net.shape(flow):
            net.refuse("takes nothing")
    return flow


def _from_end(net: Network, position: Any, size: Any) -> int:
    """A position, where it depends on an open size counted from the end."""
    if not isinstance(position, Dim):
        return int(position)
    behind = position - size
    if isinstance(behind, Dim):
        net.refuse("takes a position that is not known")
    return behind if behind < 0 else LAST


def _some_steps(net: Network, flow: Flow, low: int | None, high: int | None, step: int) -> Flow:
    """Steps from low to before high."""
    steps = flow.steps
    if step == -1 and low in (-1, None) and high is None:
        return net.apply(Reverse(), flow)
    if step < 1:
        net.refuse("takes steps in reverse order, which is supported for all of them only")
    if isinstance(steps, int):
        taken = range(steps)[low:high:step]
        if len(taken) == 1:
            return net.one_step(flow, taken[0], keep=True)
        left: Any = len(taken)
        if not left:
            net.refuse("takes no step")
    elif (low, high) == (-1, None):
        return net.one_step(flow, -1, keep=True)
    elif low in (0, None) and high == 1:
        return net.one_step(flow, 0, keep=True)
    else:
        ends = [0 if low is None else low, steps if high is None else high]
        begin, end = (one if isinstance(one, Dim) or one >= 0 else steps + one for one in ends)
        left = end - begin if step == 1 else Dim.named(f"{net.where} {len(net.nodes)}")
        if left == 1:
            return net.one_step(flow, low or 0, keep=True)
    made = net.apply(Slice(low, high, step), flow, steps=left)
    net.stepped.setdefault(left, made.values[0])
    return made


def _gather(net: Network, node: Node, values: Values) -> Flow:
    axis = node.attributes.get("axis", 0)
    if isinstance(values[1], Flow):
        if isinstance(values[0], Flow) or axis != 0:
            net.refuse("takes positions that are known only when the network runs, which is not supported")
        return net.embedded(net.constant(values[0], "the vectors of its tokens"), values[1])
    flow, index = _flow(net, values[0]), net.constant(values[1], "its positions")
    k = _axis(net, flow, axis)
    size = net.shape(flow)[k]
    if flow.axes[k] == "F":
        places = np.array([_from_end(net, one, size) for one in index.flat], int).reshape(index.shape)
        if (places < -size).any() or (places >= size).any():
            net.refuse(f"takes positions of an axis of {size} that there are not")
        if index.ndim > 1:
            net.refuse("takes positions in several axes, which is not supported")
        return flow.taking(k, int(places) if index.ndim == 0 else places)
    if flow.axes[k] != "T" or index.size != 1:
        if flow.axes[k] == "N" and net.batch == 1 and index.size == 1 and int(index.reshape(-1)[0]) in (0, -1):
            keep = index.ndim > 0
            return flow if keep else replace(flow, axes=flow.axes[:k] + flow.axes[k + 1 :])
        net.refuse("must take a single step")
    step = _from_end(net, index.reshape(-1)[0], size)
    return net.one_step(flow, step, keep=index.ndim > 0)


def _gather_elements(net: Network, node: Node, values: Values) -> Flow:
    """One step for all features: the last one of each sequence, by its length."""
    flow, index = _flow(net, values[0]), net.constant(values[1], "its positions")
    k = _axis(net, flow, node.attributes.get("axis", 0))
    places = {_from_end(net, one, net.shape(flow)[k]) for one in index.flat}
    if flow.axes[k] != "T" or len(places) != 1 or index.ndim != len(flow.axes) or index.shape[k] != 1:
        net.refuse("must take a single step, the same for all features")
    return net.one_step(flow, places.pop(), keep=True)


def _split(net: Network, node: Node, values: Values) -> list[Flow]:
    flow = _flow(net, values[0])
    k = _axis(net, flow, node.attributes.get("axis", 0))
    size = net.shape(flow)[k]
    if isinstance(size, Dim) or flow.axes[k] not in ("F", "T"):
        net.refuse("cuts the batch, or steps whose number is not known, which is not supported")
    given = [None if one is None else net.constant(one, "its lengths") for one in values[1:]]
    lengths, at, parts = pieces(node, [flow, *given], size), 0, []
    if sum(lengths) != size or min(lengths) < 1:
        net.refuse(f"must cut all of an axis of {size}")
    for length in lengths:
        if flow.axes[k] == "F":
            parts.append(flow.taking(k, slice(at, at + length)))
        else:
            parts.append(_some_steps(net, flow, at, at + length, 1))
        at += length
    return parts


def _expand(net: Network, node: Node, values: Values) -> Flow:
    """Broadcasting, of a vector to steps too."""
    flow, given = _flow(net, values[0]), list(net.constant(values[1], "its shape").reshape(-1))
    if node.op == "Tile":
        given = [_product([n, m]) for n, m in zip(net.shape(flow), given, strict=True)]
    flow = flow.widened(range(max(0, len(given) - len(flow.axes))))
    given = [1] * (len(flow.axes) - len(given)) + given
    for k, wanted in enumerate(given):
        size = net.shape(flow)[k]
        if wanted == 1 or wanted == -1 or wanted == size:
            continue
        if size != 1 or flow.axes[k] != "F":
            net.refuse("repeats something that is no single step or feature")
        if not flow.has_steps and (isinstance(wanted, Dim) or "F" in flow.axes[k + 1 :]):
            flow = net.repeated(flow, k, wanted)
        elif isinstance(wanted, Dim) or int(wanted) * flow.index.size > 10**6:
            net.refuse("repeats features so often that it is not supported")
        else:
            shape = list(flow.index.shape)
            shape[flow.feature_axis(k)] = int(wanted)
            flow = replace(flow, index=np.broadcast_to(flow.index, shape))
    return flow


def _concat(net: Network, node: Node, values: Values) -> Flow:
    flows = [_flow(net, one) for one in values]
    if len(flows) == 1:
        return flows[0]
    k = _axis(net, flows[0], node.attributes.get("axis", 0))
    if any(flow.axes != flows[0].axes for flow in flows):
        net.refuse("joins values whose axes mean different things")
    if flows[0].axes[k] != "F":
        net.refuse("joins along the batch or the steps, which is not supported")
    if any(flow.has_steps and flow.steps != flows[0].steps for flow in flows):
        net.refuse("joins series of different numbers of steps")
    for flow in flows:
        net.check(flow)
    place, parts, begin = flows[0].feature_axis(k), [], 0
    names: list[str] = []
    known: dict[tuple[str, ...], int] = {}
    for flow in flows:  # a value that comes twice, such as both directions of a layer, stands there once
        if flow.values not in known:
            known[flow.values] = begin
            names += flow.values
            begin += sum(net.sizes[value].width for value in flow.values)
        parts.append(flow.index + known[flow.values])
    shapes = {part.shape[:place] + part.shape[place + 1 :] for part in parts}
    if len(shapes) > 1:
        net.refuse("joins values of different sizes")
    return replace(flows[0], values=tuple(names), index=np.concatenate(parts, axis=place), part_of=())


def _reverse_sequence(net: Network, node: Node, values: Values) -> Flow:
    flow, lengths = _flow(net, values[0]), net.constant(values[1], "its lengths")
    if flow.axes[_axis(net, flow, node.attributes.get("time_axis", 0))] != "T":
        net.refuse("reverses something else than the steps")
    if any(one != flow.steps for one in lengths.flat):
        net.refuse("reverses a part of the steps")
    return net.apply(Reverse(), flow)


def _pad(net: Network, node: Node, values: Values) -> Flow:
    flow = _flow(net, values[0])
    given = node.attributes.get("pads")
    pads = numbers(given if given is not None else net.constant(values[1], "its padding"))
    value = node.attributes.get("value", 0.0)
    if len(values) > 2 and values[2] is not None:
        value = float(net.constant(values[2], "its value").reshape(-1)[0])
    axes = list(range(len(flow.axes)))
    if len(values) > 3 and values[3] is not None:
        axes = [_axis(net, flow, one) for one in numbers(net.constant(values[3], "its axes"))]
    half = len(axes)
    around = {axis: (pads[k], pads[half + k]) for k, axis in enumerate(axes) if pads[k] or pads[half + k]}
    if not around:
        return flow
    if list(around) != [k for k, axis in enumerate(flow.axes) if axis == "T"] or value != 0:
        net.refuse("is supported for zeros around the steps only")
    (before, after), (left, right) = flow.pad, next(iter(around.values()))
    if before + left < 0 or after + right < 0 or node.attributes.get("mode", "constant") != "constant":
        net.refuse("is supported for zeros around the steps only")
    return replace(flow, pad=(before + left, after + right))


# ------------------------------------------------------------------------------------------------------- layers


def _matmul(net: Network, node: Node, values: Values) -> Flow:
    a, b = values[:2]
    if isinstance(a, Flow) and isinstance(b, Flow):
        net.refuse("multiplies two values of the network, which is not supported")
    matrix = net.constant(b if isinstance(a, Flow) else a, "its matrix")
    matrix = matrix.reshape(matrix.shape[-2:]) if matrix.ndim > 2 and matrix[..., 0, 0].size == 1 else matrix
    if isinstance(a, Flow):
        if matrix.ndim == 1:
            made = net.dense(a, len(a.axes) - 1, matrix[None])
            return made.taking(len(a.axes) - 1, 0)
        return net.dense(a, len(a.axes) - 1, matrix.T)
    return net.dense(_flow(net, b), _axis(net, b, -2), matrix)


def _gemm(net: Network, node: Node, values: Values) -> Flow:
    flow, V = _flow(net, values[0]), net.constant(values[1], "its matrix")
    get = node.attributes.get
    if get("transA", 0) or V.ndim != 2:
        net.refuse("has transA, which is not supported")
    alpha, beta = get("alpha", 1.0), get("beta", 1.0)
    V = V if get("transB", 0) else V.T
    d = None if len(values) < 3 or values[2] is None else net.constant(values[2], "its bias")
    if d is not None and (d.size not in (1, len(V)) or d.shape[-1:] not in ((), (1,), (len(V),))):
        net.refuse("has a bias that differs between sequences")
    scaled = V if alpha == 1 else V * V.dtype.type(alpha)
    bias = None if d is None else d.reshape(-1) if beta == 1 else d.reshape(-1) * d.dtype.type(beta)
    return net.dense(flow, len(flow.axes) - 1, scaled, bias)


def _spatial(net: Network, flow: Flow, kernel: Sequence[int]) -> tuple[Flow, int]:
    """A flow (N, F, T) or one with axes of length 1 besides the steps, and which of the kernel's axes are the steps."""
    rank = len(kernel)
    if len(flow.axes) != rank + 2 or not 1 <= rank <= 3:
        net.refuse(f"has {len(flow.axes)} axes, for a window of {rank}")
    at = next((k for k in range(2, rank + 2) if flow.axes[k] == "T"), 0)
    if not at and not flow.has_steps:  # the longest axis of features becomes the steps
        shape = net.shape(flow)
        at = max(range(2, rank + 2), key=lambda k: shape[k] if isinstance(shape[k], int) else 0)
    wanted = ["N", "F", *("T" if k == at else "F" for k in range(2, rank + 2))]
    flow = net.series(flow, wanted)
    if any(n != 1 for n in (*flow.index.shape[1:], *(n for k, n in enumerate(kernel) if k + 2 != at))):
        net.refuse("is about pictures, which is not supported")
    return flow, at - 2


def _window(net: Network, node: Node, flow: Flow, at: int, width: int) -> tuple[int, int, Any]:
    """Stride, dilation and padding along the steps."""
    get = node.attributes.get
    rank = len(flow.axes) - 2
    stride, dilation = (int((get(name) or [1] * rank)[at]) for name in ("strides", "dilations"))
    pads = [*(get("pads") or [0] * 2 * rank)]
    auto = get("auto_pad", "NOTSET")
    padding: Any = (int(pads[at]), int(pads[at + rank]))
    if auto == "SAME_UPPER":
        padding = "same"
    elif auto == "VALID":
        padding = (0, 0)
    elif auto == "SAME_LOWER":
        if stride != 1:
            net.refuse("has auto_pad SAME_LOWER with a stride, which is not supported")
        total = (width - 1) * dilation
        padding = (total - total // 2, total // 2)
    elif any(n for k, n in enumerate(pads) if k % rank != at):
        net.refuse("pads an axis that is not the steps")
    if flow.pad != (0, 0):
        if isinstance(padding, str):
            net.refuse("has padding twice")
        padding = (padding[0] + flow.pad[0], padding[1] + flow.pad[1])
    return stride, dilation, padding


def _after(net: Network, flow: Flow, windows: Windows) -> Any:
    """Steps after a window went over them."""
    if isinstance(flow.steps, int):
        left = int(windows.count(flow.steps))
        if left < 1:
            net.refuse(f"has windows that are longer than {flow.steps} steps")
        return left
    if windows.stride == 1:
        return flow.steps if windows.padding == "same" else flow.steps + sum(windows._fixed()) - windows.reach + 1
    return Dim.named(f"{net.where} {len(net.nodes)}")


def _plain(padding: Any) -> Any:
    return "valid" if padding == (0, 0) else padding


def _conv(net: Network, node: Node, values: Values) -> Flow:
    W = net.constant(values[1], "its weights")
    d = None if len(values) < 3 or values[2] is None else net.constant(values[2], "its bias")
    if W.ndim < 3:
        net.refuse("has weights of less than three axes")
    flow, at = _spatial(net, _flow(net, values[0]), W.shape[2:])
    out, width = len(W), W.shape[2 + at]
    stride, dilation, padding = _window(net, node, flow, at, width)
    K = W.reshape(out, W.shape[1], width).transpose(0, 2, 1)
    layer = Conv1D(K, d, stride, dilation, _plain(padding), int(node.attributes.get("group", 1)))
    steps = _after(net, flow, layer.windows)
    index = np.arange(out).reshape(out, *flow.index.shape[1:])
    made = net.apply(layer, replace(flow, pad=(0, 0)), index=index, steps=steps)
    net.stepped.setdefault(steps, made.values[0])
    return made


def _pool(net: Network, node: Node, values: Values) -> Flow:
    kernel = numbers(node.attributes.get("kernel_shape") or [])
    flow, at = _spatial(net, _flow(net, values[0]), kernel)
    stride, dilation, padding = _window(net, node, flow, at, kernel[at])
    if dilation != 1 or (flow.pad != (0, 0) and node.op == "MaxPool"):
        net.refuse("has dilation or zeros as padding, which is not supported")
    windows = Windows(kernel[at], stride, 1, padding)
    steps = _after(net, flow, windows)
    if node.attributes.get("ceil_mode", 0) and padding != "same":
        over = None if isinstance(flow.steps, Dim) else (flow.steps + sum(padding) - windows.reach) % stride
        if over != 0:
            net.refuse("has ceil_mode, which is not supported")
    if node.op == "MaxPool":
        layer: Layer = MaxPool1D(kernel[at], stride, _plain(padding))
    else:
        counts = bool(node.attributes.get("count_include_pad", 0)) or flow.pad != (0, 0)
        layer = AvgPool1D(kernel[at], stride, _plain(padding), counts)
    made = net.apply(layer, replace(flow, pad=(0, 0)), steps=steps)
    net.stepped.setdefault(steps, made.values[0])
    return made


def _global_pool(net: Network, node: Node, values: Values) -> Flow:
    flow = _flow(net, values[0])
    flow, _ = _spatial(net, flow, [1] * (len(flow.axes) - 2))
    return net.read(flow, Mean() if node.op == "GlobalAveragePool" else Max(), keep=True)


def _reduce(net: Network, node: Node, values: Values) -> Flow:
    flow = _flow(net, values[0])
    axes, keep = _axes(net, node, values), bool(node.attributes.get("keepdims", 1))
    if not axes:
        if node.attributes.get("noop_with_empty_axes", 0):
            return flow
        net.refuse("takes all numbers together, which is not supported")
    wide = [k for k in axes if flow.axes[k] != "F" or net.shape(flow)[k] != 1]
    kinds = {flow.axes[k] for k in wide}
    if kinds == {"T"}:
        if node.op not in _READOUTS:
            net.refuse("is not supported over the steps")
        made = net.read(flow, _READOUTS[node.op], keep=True)
        return made if keep else _gone(made, axes, keep)
    if kinds - {"F"}:
        net.refuse("is supported over the steps or over features")
    if not wide:
        made = flow
    elif flow.part_of[:1] == ("centred",) and node.op == "ReduceSumSquare":
        return replace(_gone(flow, axes, keep), values=(), part_of=("sum of squares", *flow.part_of[1:]))
    elif flow.part_of[:1] == ("square",) and node.op == "ReduceMean":
        return replace(_gone(flow, axes, keep), values=(), part_of=("variance", *flow.part_of[1:]))
    elif node.op in ("ReduceMax", "ReduceSumSquare") or len(wide) > 1:
        net.refuse("is supported over the steps, or as a sum or a mean over one axis of features")
    else:
        size = net.shape(flow)[wide[0]]
        V = np.full((1, size), 1 / size if node.op == "ReduceMean" else 1, np.float32)
        made = replace(net.dense(flow, wide[0], V), part_of=("mean", flow))
    return made if keep else _gone(made, axes, keep)


_READOUTS: dict[str, Layer] = {"ReduceMean": Mean(), "ReduceMax": Max(), "ReduceSum": Sum()}


def _gone(flow: Flow, axes: Sequence[int], keep: bool) -> Flow:
    """The first place along each of some axes of features."""
    for k in sorted(axes, reverse=True):
        flow = flow.taking(k, slice(0, 1) if keep else 0)
    return flow


def _batch_norm(net: Network, node: Node, values: Values) -> Flow:
    flow = _flow(net, values[0])
    if isinstance(values[3], Flow) and isinstance(values[4], Flow):
        return _own_norm(net, node, values)
    gamma, beta, mean, var = (net.constant(one, "its numbers").reshape(-1) for one in values[1:5])
    if len(flow.axes) < 2 or flow.axes[1] != "F" or net.shape(flow)[1] != len(gamma):
        net.refuse("must have the features along its second axis")
    s = gamma / np.sqrt(var + var.dtype.type(node.attributes.get("epsilon", 1e-5)))
    shape = (-1,) + (1,) * (len(flow.axes) - 2)
    return net.affine(flow, s.reshape(shape), (beta - mean * s).reshape(shape))


def _own_norm(net: Network, node: Node, values: Values) -> Flow:
    """A LayerNorm as Keras computes it: a BatchNorm of every row by its own mean and variance."""
    flow, gamma, beta, mean, var = values[:5]
    parts = [(one.part_of[:1], one.part_of[1:]) for one in (mean, var)]
    own = [kind for kind, rest in parts if len(rest) == 1 and _is(rest[0], flow)] == [("mean",), ("variance",)]
    if not own or (net.constant(gamma, "its scale") != 1).any() or net.constant(beta, "its shift").any():
        net.refuse("has a mean and a variance that are known only when the network runs, which is not supported")
    ones = np.ones(flow.index.size, np.float32)
    return net.apply(LayerNorm(ones, eps=node.attributes.get("epsilon", 1e-5)), flow)


def _layer_norm(net: Network, node: Node, values: Values) -> Flow:
    flow = _flow(net, values[0])
    axis = _axis(net, flow, node.attributes.get("axis", -1))
    over = flow.axes[axis:]
    if set(over) != {"F"} or any(n > 1 for n in flow.index.shape[: -len(over)]):
        net.refuse("must be over the features of each step")
    size = flow.index.size
    gamma = np.broadcast_to(net.constant(values[1], "its numbers"), flow.index.shape[-len(over) :]).reshape(-1)
    beta = np.zeros(size, np.float32)
    if len(values) > 2 and values[2] is not None:
        beta = np.broadcast_to(net.constant(values[2], "its numbers").reshape(-1), size)
    return net.apply(LayerNorm(gamma, beta, node.attributes.get("epsilon", 1e-5)), flow)


def _softmax(net: Network, node: Node, values: Values) -> Flow:
    flow = _flow(net, values[0])
    net.check(flow)
    axis = _axis(net, flow, node.attributes.get("axis", -1 if len(flow.axes) != 2 else 1))
    if flow.axes[axis] != "F" or net.shape(flow)[axis] != flow.index.size:
        net.refuse("is supported over the scores only")
    return replace(net.rows(flow), probability="softmax")


def _activation(net: Network, node: Node, values: Values) -> Flow:
    flow, get = _flow(net, values[0]), node.attributes.get
    name: str = _ACTIVATIONS[node.op]
    alpha = None
    if name in ("elu", "leaky_relu"):
        alpha = float(get("alpha", 1.0 if name == "elu" else 0.01))
    elif name == "hard_sigmoid":
        alpha, beta = get("alpha", 0.2), get("beta", 0.5)
        known = {"hard_sigmoid": 0.2, "hard_sigmoid_3": 1 / 6}
        name = next((one for one, slope in known.items() if abs(alpha - slope) < 1e-6), "")
        alpha = None
        if not name or beta != 0.5:
            net.refuse("has a slope that is not supported")
    elif name == "gelu" and get("approximate", "none") == "tanh":
        name = "gelu_tanh"
    elif name == "selu" and abs(get("alpha", 1.67326) - 1.67326) + abs(get("gamma", 1.0507) - 1.0507) > 1e-3:
        net.refuse("has numbers that are not supported")
    return net.each(Activation(name, alpha), flow)


def _prelu(net: Network, node: Node, values: Values) -> Flow:
    flow = net.rows(_flow(net, values[0]))
    slopes = net.by_feature(flow, net.constant(values[1], "its slopes")).reshape(-1)
    return net.apply(Activation("prelu", slopes=np.ascontiguousarray(slopes)), flow)


def _clip(net: Network, node: Node, values: Values) -> Flow:
    flow, limits = _flow(net, values[0]), []
    for k, name in enumerate(("min", "max")):
        given = node.attributes.get(name)
        if given is None and len(values) > k + 1 and values[k + 1] is not None:
            given = float(net.constant(values[k + 1], "its limits").reshape(-1)[0])
        limits.append(given)
    low, high = (None if one is None or abs(one) > 1e30 else one for one in limits)
    if (low, high) == (None, None):
        return flow
    if low == 0 and high is None:
        return net.each(Activation("relu"), flow)
    return net.refuse(f"keeps values between {low} and {high}, which is not supported; only a limit of 0 below is")


# --------------------------------------------------------------------------------------------------- arithmetic


def _arithmetic(net: Network, node: Node, values: Values) -> Flow:
    a, b = values[:2]
    if isinstance(a, Flow) and isinstance(b, Flow):
        return _of_two(net, node.op, a, b)
    flow, c = (a, b) if isinstance(a, Flow) else (b, a)
    c = net.constant(c, "its other input").astype(np.float64)
    op = node.op if flow is a else f"{node.op} from"
    if flow.part_of and (made := _part(net, op, flow, c)) is not None:
        return made
    if (more := c.ndim - len(flow.axes)) > 0:
        flow = flow.widened(range(more))
    return net.affine(flow, *_AFFINE[op](net, c)) if op in _AFFINE else net.refuse("divides by a value of the network")


_AFFINE: dict[str, Callable[[Network, np.ndarray], tuple[Any, Any]]] = {
    "Add": lambda net, c: (None, c),
    "Add from": lambda net, c: (None, c),
    "Sub": lambda net, c: (None, -c),
    "Sub from": lambda net, c: (np.full(1, -1.0), c),
    "Mul": lambda net, c: (c, None),
    "Mul from": lambda net, c: (c, None),
    "Div": lambda net, c: (1 / c, None),
}


def _part(net: Network, op: str, flow: Flow, c: np.ndarray) -> Flow | None:
    """What a constant does to a part of a LayerNorm or of a GELU; None where it is an ordinary value."""
    kind, *rest = flow.part_of
    number = float(c.reshape(-1)[0]) if c.size == 1 else math.nan
    if kind == "variance" and op.startswith("Add") and len(rest) == 1:
        return replace(flow, part_of=("variance", rest[0], number))
    if kind == "sum of squares" and op == "Div" and number == rest[0].index.size:
        return replace(flow, part_of=("variance", *rest))
    if kind == "erf" and op.startswith("Add") and number == 1:
        return replace(flow, part_of=("1 + erf", *rest))
    if kind == "twice" and op.startswith("Mul") and number == 0.5:
        return rest[0]
    return None


def _of_two(net: Network, op: str, a: Flow, b: Flow) -> Flow:
    """Joins of two values, after the parts of a LayerNorm and the like."""
    if op == "Sub" and b.part_of[:1] == ("mean",) and _is(b.part_of[1], a):
        made = _joined(net, Subtract(), a, b)
        return replace(made, part_of=("centred", a))
    if op == "Mul" and _is(a, b) and a.part_of[:1] == ("centred",):
        return replace(a, values=(), part_of=("square", a.part_of[1]))
    if op in ("Div", "Mul") and b.part_of[:1] == (("deviation",) if op == "Div" else ("over deviation",)):
        _, source, eps = b.part_of
        if a.part_of[:1] == ("centred",) and _is(a.part_of[1], source):
            return net.apply(LayerNorm(np.ones(source.index.size, np.float32), eps=eps), source)
    if op == "Mul":
        for x, other in ((a, b), (b, a)):
            if other.part_of[:1] == ("1 + erf",) and (_is(other.part_of[1], x) or x.part_of[:1] == ("scaled",)):
                made = net.each(Activation("gelu"), other.part_of[1])
                return replace(made, values=(), part_of=("twice", made))
            before = net.nodes.get(other.values[0]) if len(other.values) == 1 else None
            if before is not None and getattr(before.layer, "activation", "") == "sigmoid":
                is_gate = isinstance(before.layer, Activation)
                if is_gate and before.inputs == x.values and np.array_equal(x.index, other.index):
                    return net.each(Activation("silu"), x)
                if is_gate and x.axes == other.axes:
                    return _joined(net, Multiply("second" if other is b else "first"), a, b)
    layer: dict[str, Layer] = {"Add": Add(), "Sub": Subtract(), "Mul": Multiply()}
    return _joined(net, layer[op], a, b) if op in layer else net.refuse("divides by a value of the network")


def _is(a: Flow, b: Flow) -> bool:
    """Whether two flows are the same."""
    return a.values == b.values and a.axes == b.axes and np.array_equal(a.index, b.index)


def _joined(net: Network, layer: Layer, a: Flow, b: Flow) -> Flow:
    for flow in (a, b):
        net.check(flow)
    first, second = net.aligned([a, b])
    if first.has_steps and first.steps != second.steps:
        net.refuse("joins series of different numbers of steps")
    return replace(first, values=(net.put(layer, first.values[0], second.values[0]),), part_of=())


def _sum(net: Network, node: Node, values: Values) -> Flow:
    """Sum, Mean and Max of several; of two as an Add."""
    if len(values) == 1:
        return _flow(net, values[0])
    if len(values) != 2:
        net.refuse("joins more than two values, which is not supported")
    return _arithmetic(net, node._replace(op="Add"), values)


def _maximum(net: Network, node: Node, values: Values) -> Flow:
    flow, c = values[:2] if isinstance(values[0], Flow) else values[1::-1]
    if len(values) != 2 or isinstance(c, Flow) or net.constant(c, "its other input").any():
        net.refuse("is supported for the larger of a value and 0 only")
    return net.each(Activation("relu"), flow)


def _power(net: Network, node: Node, values: Values) -> Flow:
    flow, c = _flow(net, values[0]), net.constant(values[1], "its exponent").reshape(-1)
    if c.size == 1 and c[0] == 2:
        if flow.part_of[:1] == ("centred",):
            return replace(flow, values=(), part_of=("square", flow.part_of[1]))
        return net.each(Square(), flow)
    if c.size == 1 and c[0] in (0.5, -0.5):
        return _root(net, node, [flow], inverse=c[0] < 0)
    return net.refuse("is supported with the exponent 2 only")


def _root(net: Network, node: Node, values: Values, inverse: bool = False) -> Flow:
    flow = _flow(net, values[0])
    if flow.part_of[:1] != ("variance",) or len(flow.part_of) != 3:
        net.refuse("is supported as part of a LayerNorm only")
    return replace(flow, part_of=("over deviation" if inverse else "deviation", *flow.part_of[1:]))


def _reciprocal(net: Network, node: Node, values: Values) -> Flow:
    flow = _flow(net, values[0])
    if flow.part_of[:1] != ("deviation",):
        net.refuse("is supported as part of a LayerNorm only")
    return replace(flow, part_of=("over deviation", *flow.part_of[1:]))


def _erf(net: Network, node: Node, values: Values) -> Flow:
    """Part of a GELU: x (1 + erf(x / sqrt(2))) / 2."""
    flow = _flow(net, values[0])
    before = net.nodes.get(flow.values[0]) if len(flow.values) == 1 else None
    scale = getattr(before.layer, "s", None) if before is not None else None
    if scale is None or not np.allclose(scale, math.sqrt(0.5)) or before.layer.t.any():  # type: ignore[union-attr]
        net.refuse("is supported as part of a GELU only")
    source = replace(flow, values=before.inputs, part_of=())  # type: ignore[union-attr]
    return replace(flow, values=(), part_of=("erf", source))


_ACTIVATIONS = {
    "Relu": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid", "LeakyRelu": "leaky_relu", "Elu": "elu", "Selu": "selu",
    "Softplus": "softplus", "Softsign": "softsign", "HardSigmoid": "hard_sigmoid", "Exp": "exponential",
    "Gelu": "gelu", "Mish": "mish", "Swish": "silu", "Celu": "elu",
}  # fmt: skip
Operation = Callable[[Network, Node, Values], Any]
OPERATIONS: dict[str, Operation] = {
    **dict.fromkeys(("LSTM", "GRU", "RNN"), recurrent),
    **dict.fromkeys(("Identity", "Dropout", "Cast"), _same),
    **dict.fromkeys(("Reshape", "Flatten"), _reshape),
    **dict.fromkeys(("Expand", "Tile"), _expand),
    **dict.fromkeys(("MaxPool", "AveragePool"), _pool),
    **dict.fromkeys(("GlobalMaxPool", "GlobalAveragePool"), _global_pool),
    **dict.fromkeys(("ReduceSumSquare", *_READOUTS), _reduce),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), _arithmetic),
    **dict.fromkeys(_ACTIVATIONS, _activation),
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Slice": _slice,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "Split": _split,
    "Concat": _concat,
    "ReverseSequence": _reverse_sequence,
    "Pad": _pad,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "PRelu": _prelu,
    "Clip": _clip,
    "Sum": _sum,
    "Max": _maximum,
    "Pow": _power,
    "Sqrt": _root,
    "Reciprocal": _reciprocal,
    "Erf": _erf,
    "Neg": lambda net, node, values: net.affine(_flow(net, values[0]), np.full(1, -1.0), None),
}
