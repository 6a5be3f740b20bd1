"""What operations do that move, cut, join and repeat values of a network: the table OPERATIONS.

A function takes the network, the node and the values of its inputs, and returns its output, or a list of outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lrpnumpy.files.build.constants import LAST, axes_of, bounds, numbers, pieces, setting, slices
from lrpnumpy.files.build.network import SERIES, Baked, NetworkBuild, NetworkValue, exchanged
from lrpnumpy.files.build.sizes import Dim, divided, groups, index_along, name_of
from lrpnumpy.files.operations import INTEGERS, OperationNode
from lrpnumpy.layers import Pad, Reshape, Reverse, Slice

Values = Sequence[Any]
Operation = Callable[[NetworkBuild, OperationNode, Values], Any]


def of_flow(function: Callable[..., Any]) -> Operation:
    """An operation whose first input is a value of the network, which its function takes separately."""
    return lambda net, node, values: function(net, node, net.flow(values[0]), values)


def given_axes(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> list[int] | None:
    """The axes of the first input that a node is about, counted from 0; None if it has none."""
    found = axes_of(node, [flow, net.given(values, 1, "its axes")])
    return None if found is None else [net.axis(flow, one) for one in found]


def _cast(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    if node.attributes.get("to", 1) in INTEGERS and flow.values and not set(flow.values) <= set(net.ports):
        net.refuse("rounds values of the network, which is not supported")
    return flow


def _transpose(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    order = node.attributes.get("perm") or list(range(len(flow.axes)))[::-1]
    net.refuse_if(sorted(order) != list(range(len(flow.axes))), "must reorder all axes")
    return flow.moved(order)


def _squeeze(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    axes, shape = given_axes(net, node, flow, values), net.shape(flow)
    if axes is None:
        axes = [k for k, n in enumerate(shape) if n == 1]
    net.refuse_if(any(shape[k] != 1 and flow.axes[k] != "N" for k in axes), "takes away an axis that is longer than 1")
    for k in sorted(axes, reverse=True):
        if flow.axes[k] == "F":
            flow = flow.taking(k, 0)
        elif flow.axes[k] == "T":
            flow = net.one_step(flow, 0, keep=False)
        elif shape[k] == 1:
            flow = replace(flow, axes=exchanged(flow.axes, k))
        elif flow.index.size > 1 or len(flow.axes) > 1:  # squeeze() of PyTorch, which means another axis
            net.refuse("takes away the batch, which is longer than 1")
    return flow


def _unsqueeze(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    axes = axes_of(node, [flow, net.given(values, 1, "its axes")]) or ()
    rank = len(flow.axes) + len(axes)
    net.refuse_if(len({k % rank for k in axes}) < len(axes) or rank > 32, "has the same axis twice")
    return flow.widened([k % rank for k in axes])


def reshaped(net: NetworkBuild, flow: NetworkValue, target: Sequence[Any]) -> NetworkValue:
    """A tensor of the same numbers in the same order, with axes of these sizes."""
    before = net.shape(flow)
    wanted = _resolved(net, flow, list(target))
    parts = groups(before, wanted)
    made: list[tuple[str, int]] = []
    for ins, outs in parts or [([], [])]:
        part = _regrouped(net, [(flow.axes[k], before[k]) for k in ins], [wanted[k] for k in outs], flow)
        if part is None or parts is None:
            if flow.axes == SERIES and len(wanted) == 3 and wanted[0] == before[0]:
                return net.vectors(Reshape(wanted[2]), flow, steps=wanted[1])
            return reshaped(net, net.flattened(flow), wanted)
        made += part
    shape = [n for axis, n in made if axis == "F"]
    return replace(flow, axes=tuple(axis for axis, _ in made), index=flow.index.reshape(shape))


def _resolved(net: NetworkBuild, flow: NetworkValue, target: list[Any]) -> list[Any]:
    """Sizes without -1."""
    before = net.shape(flow)
    total, known, at = math.prod(before), math.prod([n for n in target if n != -1]), [*target].count(-1)
    net.refuse_if(at > 1, "has a shape with two open sizes")
    if at:
        target[target.index(-1)] = divided(total, known)
    if (at and None in target) or math.prod(target) != total:
        for has, wants in zip(_apart(net, flow), target, strict=False):
            if (name := name_of(has)) and isinstance(wants, int) and wants > 0:
                raise Baked(net.where, f"needs {wants} where the inputs have another size", name, wants)
        net.refuse(f"makes {_said(target)} of {_said(before)}, which is not supported")
    return target


def _regrouped(
    net: NetworkBuild, ins: list[tuple[str, Any]], outs: list[Any], flow: NetworkValue
) -> list[tuple[str, Any]] | None:
    """What the axes of one group become; None where the steps must become features first."""
    kinds = "".join(axis for axis, _ in ins if axis != "F")
    if kinds == "N" and net.batch == 1 and (not outs or any(n != 1 for n in outs)):
        kinds = ""  # a batch of one that the graph does away with
    if not kinds:
        return [("F", n) for n in outs]
    if any(n != 1 for axis, n in ins if axis == "F"):
        return None
    sizes = {"N": net.batch, "T": flow.steps}
    names: dict[int, str] = {}
    for kind in kinds:  # each on its own, or both on one
        at = max(names, default=-1) + 1
        names |= next(({k: kind} for k in range(at, len(outs)) if outs[k] == sizes[kind]), {})
    if len(names) < len(kinds) or any(n != 1 for k, n in enumerate(outs) if k not in names):
        both = math.prod([sizes[kind] for kind in kinds])
        names = next(({k: kinds} for k, n in enumerate(outs) if n == both), {})
    if not names:
        return None
    return [(names.get(k, "F"), n) for k, n in enumerate(outs)]


def _shape(net: NetworkBuild, node: OperationNode, values: Values) -> list[Any]:
    """The shape that a node makes: an attribute, or a constant."""
    given = node.attributes.get("shape") or net.constant(values[1], "its shape")
    found = np.asarray(given).reshape(-1).tolist()
    net.refuse_if(len(found) > 32, "has a shape of more than 32 axes")
    return found


def _reshape(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    before = net.shape(flow)
    if node.op == "Flatten":
        at = node.attributes.get("axis", 1)
        return reshaped(net, flow, [math.prod(before[:at]), math.prod(before[at:])])
    target = _shape(net, node, values)
    if not node.attributes.get("allowzero", 0):
        target[: len(before)] = [n or size for n, size in zip(target, before, strict=False)]
    return reshaped(net, flow, target)


def _slice(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    limits = [net.given(values, k, "its limits") for k in range(1, len(values))]
    for axis, start, stop, step in slices(node, [flow, *limits]):
        k = net.axis(flow, axis)
        size = net.shape(flow)[k]
        start, stop = (_from_end(net, one, size) for one in (start, stop))
        low, high = bounds(start, stop, step)
        if isinstance(size, int):
            takes_all = range(size)[low:high:step] == range(size)
        else:
            takes_all = step == 1 and low in (0, None) and high is None
        if takes_all:
            continue
        if flow.axes[k] == "F":
            flow = flow.taking(k, slice(low, high, step))
        elif flow.axes[k] == "T":
            flow = _some_steps(net, flow, low, high, step)
        elif not (step == 1 and low in (0, None) and high is not None and high >= 1 and net.batch == 1):
            net.refuse("takes some sequences of the batch, which is not supported")
        net.refuse_if(0 in net.shape(flow), "takes nothing")
    return flow


def _from_end(net: NetworkBuild, position: Any, size: Any) -> int:
    """A position, where it depends on an open size counted from the end."""
    if not isinstance(position, Dim):
        return int(position)
    behind = position - size
    net.refuse_if(isinstance(behind, Dim), "takes a position that is not known")
    return behind if behind < 0 else LAST


def _some_steps(net: NetworkBuild, flow: NetworkValue, low: int | None, high: int | None, step: int) -> NetworkValue:
    """Steps from low to before high."""
    steps = flow.steps
    if step == -1 and low in (None, -1) and high is None:
        return net.apply(Reverse(), flow)
    net.refuse_if(step < 1, "takes some steps in reverse order; reverse all steps first: x[:, ::-1][:, 1:]")
    if isinstance(steps, int):
        taken = range(steps)[low:high:step]
        if len(taken) == 1:
            return net.one_step(flow, taken[0], keep=True)
        left: Any = len(taken) or net.refuse("takes no step")
    elif step > 1:
        left = Dim.named(f"{net.where} {len(net.nodes)}")
    else:
        begin, end = (one + steps * (one < 0) for one in (low or 0, high or 0))
        left = (steps if high is None else end) - begin
        if left == 1:
            return net.one_step(flow, low or 0, keep=True)
    return net.apply(Slice(low, high, step), flow, steps=left)


def gather(net: NetworkBuild, node: OperationNode, values: Values) -> NetworkValue:
    """Places of an axis, or the vectors of token ids."""
    axis = node.attributes.get("axis", 0)
    positions = node.attributes["index"] if "index" in node.attributes else values[1]  # of a live module, or ONNX
    if isinstance(positions, NetworkValue):
        if isinstance(values[0], NetworkValue) or axis != 0:
            net.refuse("takes positions that are known only when the network runs, which is not supported")
        return net.embedded(net.constant(values[0], "the vectors of its tokens"), positions)
    if isinstance(positions, (int, Dim)):
        positions = np.asarray(positions)
    flow, index = net.flow(values[0]), net.constant(positions, "its positions")
    k = net.axis(flow, axis)
    size = net.shape(flow)[k]
    if flow.axes[k] == "F":
        net.source.budget.visit(net.where, index.size)
        places = np.array([_from_end(net, one, size) for one in index.flat], int).reshape(index.shape)
        if (places < -size).any() or (places >= size).any():
            net.refuse(f"takes positions of an axis of {size} that there are not")
        net.refuse_if(index.ndim > 1, "takes positions in several axes, which is not supported")
        net.room(places.size, *exchanged(flow.index.shape, flow.feature_axis(k)))
        return flow.taking(k, places)
    if index.ndim == 1 and _every_sequence(net, index) and flow.axes[k] == "N":
        return flow
    if index.shape == (1,) and flow.axes[k] in ("NT", "TN") and isinstance(net.batch, Dim):
        return _step_of_each(net, flow, k, index[0])
    if flow.axes[k] == "N" and net.batch == 1 and index.shape == () and index in (0, -1):
        return replace(flow, axes=exchanged(flow.axes, k))
    net.refuse_if(flow.axes[k] != "T" or index.size != 1, "must take a single step")
    step = _from_end(net, index.reshape(-1)[0], size)
    return net.one_step(flow, step, keep=index.ndim > 0)


def _every_sequence(net: NetworkBuild, index: np.ndarray) -> bool:
    """Whether positions are those of all sequences of the batch, in their order."""
    if isinstance(net.batch, Dim):
        return index.size == 1 and bool(index.flat[0] == index_along(net.batch))
    return index.size == net.batch and np.array_equal(index, np.arange(net.batch))


def _step_of_each(net: NetworkBuild, flow: NetworkValue, k: int, position: Any) -> NetworkValue:
    """One step of each sequence, where batch and steps are one axis: the position is T n + step, or n + N step."""
    split = reshaped(net, flow, _apart(net, flow))
    sequence = index_along(net.batch)
    step = position - sequence * flow.steps
    if flow.axes[k] == "TN":
        step = divided(position - sequence, net.batch)
    net.refuse_if(step is None, "takes positions that are not known")
    return net.one_step(split, _from_end(net, step, flow.steps), keep=False)


def _apart(net: NetworkBuild, flow: NetworkValue) -> list[Any]:
    """The sizes of the axes, those of batch and steps apart where they are one axis."""
    known, found = {"N": net.batch, "T": flow.steps}, []
    for axis, size in zip(flow.axes, net.shape(flow), strict=True):
        found += [known.get(one, size) for one in axis]
    return found


def _gather_nd(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    """x[every sequence, step]."""
    index = net.constant(values[1], "its positions")
    net.source.budget.visit(net.where, index.size)
    if index.ndim == 2 and index.shape[1] == 2 and flow.axes[:2] == ("N", "T"):
        sequences, steps = index[:, 0], set(index[:, 1])
        if len(steps) == 1 and _every_sequence(net, sequences):
            return net.one_step(flow, _from_end(net, steps.pop(), flow.steps), keep=False)
    net.refuse("must take one step of every sequence")


def _gather_elements(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    """One step for all features: the last one of each sequence, by its length."""
    index = net.constant(values[1], "its positions")
    k = net.axis(flow, node.attributes.get("axis", 0))
    net.source.budget.visit(net.where, index.size)
    places = {_from_end(net, one, net.shape(flow)[k]) for one in index.flat}
    if flow.axes[k] != "T" or len(places) != 1 or index.ndim != len(flow.axes) or index.shape[k] != 1:
        net.refuse("must take a single step, the same for all features")
    return net.one_step(flow, places.pop(), keep=True)


def _split(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> list[NetworkValue]:
    k = net.axis(flow, node.attributes.get("axis", 0))
    size = net.shape(flow)[k]
    if isinstance(size, Dim) or flow.axes[k] not in ("F", "T"):
        net.refuse("cuts the batch, or steps whose number is not known, which is not supported")
    lengths, at, parts = pieces(node, [flow, net.given(values, 1, "its lengths")], size), 0, []
    net.refuse_if(sum(lengths) != size or min(lengths) < 1, f"must cut all of an axis of {size}")
    for length in lengths:
        if flow.axes[k] == "F":
            parts.append(flow.taking(k, slice(at, at + length)))
        else:
            parts.append(_some_steps(net, flow, at, at + length, 1))
        at += length
    return parts


def _expand(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    """Broadcasting, of a vector to steps too."""
    given = _shape(net, node, values)
    if node.op == "Tile":
        given = [math.prod([n, m]) for n, m in zip(net.shape(flow), given, strict=True)]
    flow = flow.widened(range(max(0, len(given) - len(flow.axes))))
    given = [1] * (len(flow.axes) - len(given)) + given
    for k, wanted in enumerate(given):
        size = net.shape(flow)[k]
        if wanted == 1 or wanted == -1 or wanted == size:
            continue
        net.refuse_if(size != 1 or flow.axes[k] != "F", "repeats something that is not a single step or feature")
        if not flow.has_steps and (isinstance(wanted, Dim) or "F" in flow.axes[k + 1 :]):
            flow = net.repeated(flow, k, wanted)
        elif isinstance(wanted, Dim) or wanted * flow.index.size > 10**6:
            net.refuse("repeats features so often that it is not supported")
        else:
            shape = list(flow.index.shape)
            shape[flow.feature_axis(k)] = wanted
            net.room(*shape)
            flow = replace(flow, index=np.broadcast_to(flow.index, shape))
    return flow


def _concat(net: NetworkBuild, node: OperationNode, values: Values) -> NetworkValue:
    flows = [net.taken(net.flow(one)) for one in values]
    if len(flows) == 1:
        return flows[0]
    k = net.axis(flows[0], node.attributes.get("axis", 0))
    net.refuse_if(any(flow.axes != flows[0].axes for flow in flows), "joins values whose axes mean different things")
    net.refuse_if(flows[0].axes[k] != "F", "joins along the batch or the steps, which is not supported")
    if any(flow.has_steps and flow.steps != flows[0].steps for flow in flows):
        net.refuse("joins series of different numbers of steps")
    for flow in flows:
        net.room(flow.index.size)
    place, parts, begin = flows[0].feature_axis(k), [], 0
    names: list[str] = []
    known: dict[tuple[str, ...], int] = {}
    for flow in flows:  # a value that comes twice, such as both directions of a layer, is listed once
        if flow.values not in known:
            known[flow.values] = begin
            names += flow.values
            begin += sum(net.sizes[value].width for value in flow.values)
        parts.append(flow.index + known[flow.values])
    net.refuse_if(len({exchanged(part.shape, place) for part in parts}) > 1, "joins values of different sizes")
    return replace(flows[0], values=tuple(names), index=np.concatenate(parts, axis=place), part_of=())


def stacked(net: NetworkBuild, node: OperationNode, values: Values) -> NetworkValue:
    """Values along a new axis."""
    return _concat(net, node, [net.flow(one).widened([node.attributes["axis"]]) for one in values])


def _reverse_sequence(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    lengths = net.constant(values[1], "its lengths")
    if flow.axes[net.axis(flow, node.attributes.get("time_axis", 0))] != "T":
        net.refuse("reverses something else than the steps")
    net.refuse_if(any(one != flow.steps for one in lengths.flat), "reverses a part of the steps")
    return net.apply(Reverse(), flow)


def _pad(net: NetworkBuild, node: OperationNode, flow: NetworkValue, values: Values) -> NetworkValue:
    given = [flow, *(net.given(values, k, "its padding") for k in (1, 2, 3))]
    pads, axes = numbers(setting(node, "pads", given, 1)), list(range(len(flow.axes)))
    value = setting(node, "value", given, 2)
    if given[3] is not None:
        axes = [net.axis(flow, one) for one in numbers(given[3])]
    half = len(axes)
    around = {axis: (pads[k], pads[half + k]) for k, axis in enumerate(axes) if pads[k] or pads[half + k]}
    mode = node.attributes.get("mode", "constant")
    if not around:
        return flow
    (axis, (left, right)), *more = around.items()
    if mode == "reflect" and flow.axes[axis] == "F" and not more and min(left, right) >= 0:
        places = np.arange(flow.index.shape[flow.feature_axis(axis)])
        if max(left, right) >= len(places):
            net.refuse("reflects more than there is")
        return flow.taking(axis, np.pad(places, (left, right), mode))
    if list(around) != [k for k, axis in enumerate(flow.axes) if axis == "T"] or np.any(value):
        net.refuse("is supported for zeros around the steps only")
    before, after = flow.pad
    if mode not in ("constant", "reflect") or min(left, right) < 0:
        net.refuse("is supported for zeros or a reflection around the steps only")
    if mode == "reflect":
        return net.apply(Pad(left, right, "reflect"), flow, steps=flow.steps + left + right)
    return replace(flow, pad=(before + left, after + right))


def _said(sizes: Sequence[Any]) -> str:
    return f"({', '.join(map(str, sizes))})"


_OF_FLOW: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("Identity", "Dropout"), lambda net, node, flow, values: flow),
    "Cast": _cast, "Reshape": _reshape, "Flatten": _reshape, "Expand": _expand, "Tile": _expand, "Split": _split,
    "Transpose": _transpose, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze, "Slice": _slice, "Pad": _pad,
    "GatherElements": _gather_elements, "GatherND": _gather_nd, "ReverseSequence": _reverse_sequence,
}  # fmt: skip
OPERATIONS: dict[str, Operation] = {
    **{name: of_flow(function) for name, function in _OF_FLOW.items()},
    "Gather": gather,
    "Concat": _concat,
}
