"""Operations that are separate layers, and the table OPERATIONS of all operations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lrpnumpy import layers as lrp
from lrpnumpy.files.build.arithmetic import OPERATIONS as ARITHMETIC
from lrpnumpy.files.build.arithmetic import attended, dot_products, is_same, join
from lrpnumpy.files.build.axes import OPERATIONS as AXES
from lrpnumpy.files.build.axes import Operation, Values, gather, given_axes, of_flow, stacked
from lrpnumpy.files.build.cells import module_cells, recurrent
from lrpnumpy.files.build.constants import numbers, setting
from lrpnumpy.files.build.inside import matrix_of_windows, product
from lrpnumpy.files.build.network import NetworkBuild, NetworkValue
from lrpnumpy.files.operations import OperationNode
from lrpnumpy.layers.windows import WindowSteps


def _matmul(net: NetworkBuild, node: OperationNode, values: Values) -> NetworkValue:
    a, b = values[:2]
    if isinstance(a, NetworkValue) and isinstance(b, NetworkValue):
        for weights, x, at in ((a, b, -2), (b, a, -1)):  # the axis that is summed over
            is_weights = weights.part_of[:1] == ("weights of the steps",) and weights.axes[-3 - at] == "T"
            if is_weights and x.values and x.axes[at] == "T":
                made = attended(net, weights.part_of[1], x)
                if not made.has_steps:
                    return made.widened([len(x.axes) + at])
                return made if weights is a else made.moved([0, 2, 1])
        return dot_products(net, a, b) or net.refuse("multiplies two values of the network, which is not supported")
    if not isinstance(a, NetworkValue):
        return net.dense(net.flow(b), net.axis(b, -2), _matrix(net, a))
    matrix, last = _matrix(net, b), len(a.axes) - 1
    if matrix.ndim == 1:
        return net.dense(a, last, matrix[None]).taking(last, 0)
    return net.dense(a, last, matrix.T)


def _matrix(net: NetworkBuild, value: Any) -> np.ndarray:
    """A constant matrix, without axes of length 1 before its two."""
    matrix = net.constant(value, "its matrix")
    if matrix.ndim > 2 and matrix[..., 0, 0].size == 1:
        return matrix.reshape(matrix.shape[-2:])
    return matrix


def _gemm(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    V = net.constant(values[1], "its matrix")
    get = node.attributes.get
    net.refuse_if(get("transA", 0) or V.ndim != 2, "has transA, which is not supported")
    if not get("transB", 0):
        V = V.T
    d = net.given(values, 2, "its bias")
    if d is not None:
        if d.size not in (1, len(V)) or d.shape[-1:] not in ((), (1,), (len(V),)):
            net.refuse("has a bias that differs between sequences")
        d = d.reshape(-1) * d.dtype.type(get("beta", 1.0))
    if get("alpha", 1.0) != 1:
        V = V * V.dtype.type(get("alpha", 1.0))
    return net.dense(flow, len(flow.axes) - 1, V, d)


def _spatial(net: NetworkBuild, flow: NetworkValue, kernel: Sequence[int]) -> tuple[NetworkValue, int]:
    """A flow (N, F, T) or one with axes of length 1 besides the steps, and which of the kernel's axes are the steps."""
    rank = len(kernel)
    if len(flow.axes) != rank + 2 or not 1 <= rank <= 3:
        net.refuse(f"has {len(flow.axes)} axes, for a window of {rank}")
    at = next((k for k in range(2, rank + 2) if flow.axes[k] == "T"), 0)
    wanted = ["N", *"F" * (rank + 1)]
    if at:
        wanted[at] = "T"
    flow = net.series(flow, wanted)
    if any(n != 1 for n in (*flow.index.shape[1:], *(n for k, n in enumerate(kernel) if k + 2 != at))):
        net.refuse("works on images, which are not supported")
    return flow, at - 2


def _windows(
    net: NetworkBuild, node: OperationNode, flow: NetworkValue, kernel: Sequence[int]
) -> tuple[NetworkValue, WindowSteps]:
    """A flow (N, F, T), whose padding is part of the windows, and the windows along its steps."""
    flow, at = _spatial(net, flow, kernel)
    return replace(flow, pad=(0, 0)), _windows_along(net, node, kernel, at, flow.pad)


def _windows_along(
    net: NetworkBuild, node: OperationNode, kernel: Sequence[int], at: int, pad: tuple[int, int]
) -> WindowSteps:
    """The windows along one axis of a kernel, of values that have padding already."""
    get, rank = node.attributes.get, len(kernel)
    stride, dilation = (int((get(name) or [1] * rank)[at]) for name in ("strides", "dilations"))
    pads = [*(get("pads") or [0] * 2 * rank)]
    auto = get("auto_pad", "NOTSET")
    if auto not in ("NOTSET", "VALID", "SAME_UPPER") or any(n for k, n in enumerate(pads) if k % rank != at):
        net.refuse("pads an axis that is not the steps, or by auto_pad SAME_LOWER, which is not supported")
    padding: Any = (int(pads[at]) + pad[0], int(pads[at + rank]) + pad[1])
    net.refuse_if(auto == "SAME_UPPER" and any(padding), "has padding twice")
    if not any(padding):
        padding = "same" if auto == "SAME_UPPER" else "valid"
    return WindowSteps(kernel[at], stride, dilation, padding)


def _conv(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    W, d = net.constant(values[1], "its weights"), net.given(values, 2, "its bias")
    get = node.attributes.get
    plain = get("group", 1) == 1 and not any(get("pads") or ()) and {*(get("strides") or ())} <= {1}
    if W.ndim > 2 and plain and W[0, 0].size == 1 and not flow.has_steps:  # a matrix, at each place the same
        return net.dense(flow, net.axis(flow, 1), W.reshape(W.shape[:2]), d)
    if flow.axes == ("T", "F", "F") and W.ndim == 3 and get("group", 1) == 1:
        return _conv_inside(net, node, flow, W, d)
    flow, windows = _windows(net, node, flow, W.shape[2:])
    out, inputs = W.shape[:2]
    K = W.reshape(out, inputs, windows.width).transpose(0, 2, 1)
    layer = lrp.Conv1D(K, d, windows.stride, windows.dilation, windows.padding, int(get("group", 1)))
    index = np.arange(out).reshape(out, *flow.index.shape[1:])
    return net.apply(layer, flow, index=index, steps=net.after(flow, windows))


def _conv_inside(
    net: NetworkBuild, node: OperationNode, flow: NetworkValue, W: np.ndarray, d: np.ndarray | None
) -> NetworkValue:
    """A convolution of the features (channels, places) of each step."""
    channels = flow.index.shape[0]
    net.refuse_if(W.shape[1] != channels, f"has weights for {W.shape[1]} channels, for a value of {channels}")
    windows = _windows_along(net, node, W.shape[2:], 0, (0, 0))
    x = flow.moved([0, 2, 1])
    return product(net, x, matrix_of_windows(net, x, windows, W.transpose(2, 1, 0)), d).moved([0, 2, 1])


def _pool(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    is_padded = flow.pad != (0, 0)
    flow, windows = _windows(net, node, flow, numbers(node.attributes.get("kernel_shape") or []))
    if windows.dilation != 1 or node.attributes.get("ceil_mode", 0) or (is_padded and node.op == "MaxPool"):
        net.refuse("has dilation, ceil_mode or zeros as padding, which are not supported")
    layer: lrp.Layer = lrp.MaxPool1D(windows.width, windows.stride, windows.padding)
    if node.op == "AveragePool":
        counts = bool(node.attributes.get("count_include_pad", 0)) or is_padded
        layer = lrp.AvgPool1D(windows.width, windows.stride, windows.padding, counts)
    return net.apply(layer, flow, steps=net.after(flow, windows))


def _global_pool(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    flow, _ = _spatial(net, flow, [1] * (len(flow.axes) - 2))
    return net.read(flow, _READOUTS[node.op], keep=True)


def _reduce(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    axes, keep = given_axes(net, node, flow, values), bool(node.attributes.get("keepdims", 1))
    if not axes:
        if node.attributes.get("noop_with_empty_axes", 0):
            return flow
        net.refuse("takes all numbers together, which is not supported")
    if flow.part_of[:1] == ("weighted steps",) and node.op == "ReduceSum" and [flow.axes[k] for k in axes] == ["T"]:
        made = attended(net, *flow.part_of[1:])
        if keep:
            made = made.widened(axes)
        return made
    wide = [k for k in axes if flow.axes[k] != "F" or net.shape(flow)[k] != 1]
    kinds = {flow.axes[k] for k in wide}
    if kinds == {"T"}:
        net.refuse_if(node.op not in _READOUTS, "is not supported over the steps")
        made = net.read(flow, _READOUTS[node.op], keep=True)
    elif kinds - {"F"}:
        net.refuse("is supported over the steps or over features")
    elif not wide:
        made = flow
    elif flow.part_of[:1] == ("centred",) and node.op == "ReduceSumSquare":
        return replace(_gone(flow, axes, keep), values=(), part_of=("sum of squares", *flow.part_of[1:]))
    elif flow.part_of[:1] == ("square",) and node.op == "ReduceMean":
        return replace(_gone(flow, axes, keep), values=(), part_of=("variance", *flow.part_of[1:]))
    elif node.op in ("ReduceMax", "ReduceSumSquare") or len(wide) > 1:
        net.refuse("is supported over the steps, or as a sum or a mean over one axis of features")
    else:
        V = np.ones((1, net.shape(flow)[wide[0]]), np.float32)
        if node.op == "ReduceMean":
            V = V / np.float32(V.size)
        made = replace(net.dense(flow, wide[0], V), part_of=("mean", flow))
    return _gone(made, axes, keep)


_READOUTS: dict[str, lrp.Layer] = {
    **dict.fromkeys(("ReduceMean", "GlobalAveragePool"), lrp.Mean()),
    **dict.fromkeys(("ReduceMax", "GlobalMaxPool"), lrp.Max()),
    "ReduceSum": lrp.Sum(),
}


def _gone(flow: NetworkValue, axes: Sequence[int], keep: bool) -> NetworkValue:
    """The first place along each of some axes of features."""
    for k in sorted(axes, reverse=True):
        flow = flow.taking(k, slice(0, 1))
        if not keep:
            flow = flow.taking(k, 0)
    return flow


def _batch_norm(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    if isinstance(values[3], NetworkValue) and isinstance(values[4], NetworkValue):
        return _own_norm(net, node, values)
    gamma, beta, mean, var = (net.constant(one, "its numbers").reshape(-1) for one in values[1:5])
    s = gamma / np.sqrt(var + var.dtype.type(node.attributes.get("epsilon", 1e-5)))
    shape = (-1,) + (1,) * (len(flow.axes) - 2)
    return net.affine(flow, s.reshape(shape), (beta - mean * s).reshape(shape))


def _own_norm(net: NetworkBuild, node: OperationNode, values: Values) -> NetworkValue:
    """A LayerNorm as Keras computes it: a BatchNorm of every row by its own mean and variance."""
    flow, gamma, beta, mean, var = values[:5]
    parts = [(one.part_of[:1], one.part_of[1:]) for one in (mean, var)]
    own = [kind for kind, rest in parts if len(rest) == 1 and is_same(rest[0], flow)] == [("mean",), ("variance",)]
    if not own or (net.constant(gamma, "its scale") != 1).any() or net.constant(beta, "its shift").any():
        net.refuse("has a mean and a variance that are known only when the network runs, which is not supported")
    ones = np.ones(flow.index.size, np.float32)
    return net.apply(lrp.LayerNorm(ones, eps=node.attributes.get("epsilon", 1e-5)), flow)


def _layer_norm(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    axis = net.axis(flow, node.attributes.get("axis", -1))
    over = flow.axes[axis:]
    if set(over) != {"F"} or any(n > 1 for n in flow.index.shape[: -len(over)]):
        net.refuse("must be over the features of each step")
    size = flow.index.size
    gamma = np.broadcast_to(net.constant(values[1], "its numbers"), flow.index.shape[-len(over) :]).reshape(-1)
    beta = net.given(values, 2, "its numbers")
    if beta is None:
        beta = np.zeros(1, np.float32)
    beta = np.broadcast_to(beta.reshape(-1), size)
    return net.apply(lrp.LayerNorm(gamma, beta, node.attributes.get("epsilon", 1e-5)), flow)


def _softmax(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    axis = net.axis(flow, node.attributes.get("axis", -1))
    if flow.part_of[:1] == ("scores",) and flow.axes[axis:].count("T") == 1:  # the steps of the keys come last
        return replace(flow, part_of=("weights of the steps", flow))
    flow = net.taken(flow)
    if flow.axes[axis] == "T" and flow.index.size == 1:
        return replace(flow, values=(), part_of=("weights of the steps", flow))
    others = [k for k, kind in enumerate(flow.axes) if kind == "F" and k != axis and net.shape(flow)[k] != 1]
    if flow.axes[axis] == "F" and len(others) == 1 and not flow.has_steps:  # scores of several steps
        flow = net.steps_of(flow, others[0])
    if flow.axes[axis] != "F" or net.shape(flow)[axis] != flow.index.size:
        net.refuse("is supported over the scores only")
    return replace(net.rows(flow), probability={"Softmax": "softmax", "LogSoftmax": "log_softmax"}[node.op])


def _attention(net: NetworkBuild, node: OperationNode, values: Values) -> NetworkValue:
    """An attention of a live module, of series (T, N, F): query, value and perhaps key."""
    layer = node.attributes.get("layer")
    if not isinstance(layer, lrp.MultiHeadAttention):
        net.refuse("is not supported")
    flows = [net.series(net.flow(one), ("T", "N", "F")) for one in values]
    return net.apply(layer, *flows, index=np.arange(layer.outputs))


def _activation(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    get = node.attributes.get
    name: str = _ACTIVATIONS[node.op]
    alpha = None
    if name in _ALPHA:
        alpha = float(get("alpha", _ALPHA[name]))
    elif name == "hard_sigmoid":
        known = {"hard_sigmoid": 0.2, "hard_sigmoid_3": 1 / 6}
        name = next((one for one, slope in known.items() if abs(get("alpha", 0.2) - slope) < 1e-6), "")
        net.refuse_if(not name or get("beta", 0.5) != 0.5, "has a slope that is not supported")
    elif name == "gelu" and get("approximate", "none") == "tanh":
        name = "gelu_tanh"
    elif name == "selu" and abs(get("alpha", 1.67326) - 1.67326) + abs(get("gamma", 1.0507) - 1.0507) > 1e-3:
        net.refuse("has numbers that are not supported")
    return net.each(lrp.Activation(name, alpha), flow)


def _hard_swish(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    """x times the hard sigmoid of x."""
    return join(net, lrp.Multiply("second"), flow, net.each(lrp.Activation("hard_sigmoid_3"), flow))


def _prelu(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    flow = net.rows(flow)
    slopes = net.by_feature(flow, net.constant(values[1], "its slopes")).reshape(-1)
    return net.apply(lrp.Activation("prelu", slopes=np.ascontiguousarray(slopes)), flow)


def _clip(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    given = [values[0], *(net.given(values, k, "its limits") for k in (1, 2))]
    low, high = (_limit(setting(node, name, given, k)) for k, name in ((1, "min"), (2, "max")))
    relu = lrp.Activation("relu")
    if low is not None:  # low + relu(x - low)
        flow = net.affine(net.each(relu, net.affine(flow, t=-low)), t=low)
    if high is not None:  # high - relu(high - x)
        flow = net.affine(net.each(relu, net.affine(flow, -1.0, high)), -1.0, high)
    return flow


def _limit(given: Any) -> float | None:
    """A limit of a Clip; None where there is none."""
    limit = math.inf if given is None else float(np.reshape(given, -1)[0])
    return limit if abs(limit) < 1e30 else None


_ACTIVATIONS = {
    "Relu": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid", "LeakyRelu": "leaky_relu", "Elu": "elu", "Selu": "selu",
    "Softplus": "softplus", "Softsign": "softsign", "HardSigmoid": "hard_sigmoid", "Exp": "exponential",
    "Gelu": "gelu", "Mish": "mish", "Swish": "silu", "Celu": "elu",
}  # fmt: skip
_ALPHA = {"elu": 1.0, "leaky_relu": 0.01}  # where the file has none
_OF_FLOW: dict[str, Callable[..., NetworkValue]] = {
    **dict.fromkeys(("MaxPool", "AveragePool"), _pool),
    **dict.fromkeys(("GlobalMaxPool", "GlobalAveragePool"), _global_pool),
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceSumSquare"), _reduce),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax),
    **dict.fromkeys(_ACTIVATIONS, _activation), "Gemm": _gemm, "Conv": _conv, "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm, "PRelu": _prelu, "HardSwish": _hard_swish, "Clip": _clip,
}  # fmt: skip
OPERATIONS: dict[str, Operation] = {
    **AXES,
    **ARITHMETIC,
    **{name: of_flow(function) for name, function in _OF_FLOW.items()},
    **dict.fromkeys(("LSTM", "GRU", "RNN"), recurrent),
    "MatMul": _matmul,
}
OF_MODULES: dict[str, Operation] = {  # of live modules
    "Cell": module_cells,
    "Attention": _attention,
    "Linear": lambda net, node, values: OPERATIONS["Gemm"](net, node._replace(attributes={"transB": 1}), values),
    "Embedding": gather,
    "Stack": stacked,
}
