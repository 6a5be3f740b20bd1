"""The operations LSTM, GRU and RNN as layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lrpnumpy import layers as lrp
from lrpnumpy.files.build.constants import Spread
from lrpnumpy.files.build.network import NetworkBuild, NetworkValue
from lrpnumpy.files.build.sizes import Dim
from lrpnumpy.files.operations import OperationNode
from lrpnumpy.layers.recurrent import Recurrent

_ORDER = {"LSTM": (0, 2, 3, 1), "GRU": (0, 1, 2), "RNN": (0,)}  # positions of our gates in ONNX' i o f c and z r h
_DEFAULT = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
_ACTIVATIONS = ("sigmoid", "tanh", "relu", "softsign", "softplus", "hardsigmoid")
_HARD_SIGMOIDS = {0.2: "hard_sigmoid", 1 / 6: "hard_sigmoid_3"}  # by their slopes


# The axes of the input, of the outputs at every step, and of a state, by the attribute `layout`.
_LAYOUTS = (("TNF", "TFNF", "FNF"), ("NTF", "NTFF", "NFF"))
_STATES = {"LSTM": 2, "GRU": 1, "RNN": 1}


def recurrent(net: NetworkBuild, node: OperationNode, values: Sequence[Any]) -> list[NetworkValue | None]:
    """Y, Y_h and Y_c. With `layout` 1 the batch comes first."""
    x, W, R, B, lengths, *start, peepholes = (*values, *[None] * 8)[:8]
    start = start[: _STATES[node.op]]
    of_x, of_every, of_state = _LAYOUTS[bool(node.attributes.get("layout", 0))]
    if not isinstance(x, NetworkValue):
        net.refuse("must take values of the network")
    x = net.series(x, of_x)
    if node.attributes.get("clip") or node.attributes.get("input_forget", 0):
        net.refuse("has clip or input_forget, which are not supported")
    _all_steps(net, lengths, x.steps)
    cells = _cells(net, node, net.constant(W, "its weights"), net.constant(R, "its weights"), B)
    if peepholes is not None:
        cells = _with_peepholes(net, cells, net.constant(peepholes, "its peepholes"))
    direction = node.attributes.get("direction", "forward")
    ways = {"forward": [1], "reverse": [-1], "bidirectional": [1, -1]}[direction]
    starts = [_starts(net, one, cells, k, of_state) for k, one in enumerate(start)]
    every, ends = _directions(net, node, x, cells, ways, starts)
    index = np.arange(len(cells) * cells[0].units).reshape(len(cells), -1)
    Y = NetworkValue(every, tuple(of_every), index, x.steps)
    return [Y, *(NetworkValue(end, tuple(of_state), index) for end in ends)]


def module_cells(net: NetworkBuild, node: OperationNode, values: Sequence[Any]) -> list[NetworkValue]:
    """Cells of a live module: outputs at every step (T, N, F), and final states (directions, N, F)."""
    layer = node.attributes.get("cell")
    if not isinstance(layer, Recurrent):
        net.refuse("is not an operation of ONNX")
    cells = [cell for _, cell, _ in layer.directions]
    count = len(cells[0].statement.inputs)
    first, *others = (net.flow(one) for one in values[:count])
    x = net.series(first, "TNF")
    axes = {True: "TNF", False: "NF"}
    names = [net.rows(net.series(one, axes[one.has_steps])).values[0] for one in others]
    starts = [_starts(net, one, cells, k, "FNF") for k, one in enumerate(values[count:])]
    every, ends = _directions(net, node, x, cells, [1, -1][: len(cells)], starts, names)
    made = [NetworkValue(every, ("T", "N", "F"), np.arange(layer.outputs), x.steps)]
    for end, width in zip(ends, _widths(cells[0]), strict=True):
        made.append(NetworkValue(end, ("F", "N", "F"), np.arange(len(cells) * width).reshape(-1, width)))
    return made


def _final(cell: lrp.Cell) -> tuple[str, ...]:
    """The outputs of a cell that are its final states."""
    return cell.OUTPUTS[-len(cell.states) :]


def _widths(cell: lrp.Cell) -> list[int]:
    """The width of each state."""
    return [cell.output_width(name, cell.units) for name in _final(cell)]


def _directions(
    net: NetworkBuild, node: OperationNode, x: NetworkValue, cells: list[lrp.Cell], ways: Sequence[int],
    states: Sequence[list[Any]], others: Sequence[str] = (),
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:  # fmt: skip
    """The values with the outputs of every step, and with each final state, of all directions."""
    wants_states = any(name in net.used for name in node.outputs[2:])
    from_network = any(isinstance(one, NetworkValue) for side in states for one in side)
    if len(cells) == 2 and not wants_states and not from_network:
        ahead, back = (_with_start(cell, [side[k] for side in states]) for k, cell in enumerate(cells))
        name = net.put(lrp.Bidirectional(ahead, back), net.rows(x).values[0], *others)
        return (name,), [(f"{name}:last",)] * len(cells[0].states)  # of which only the first is taken
    runs = [_one_way(net, x, cell, [side[k] for side in states], ways[k], others) for k, cell in enumerate(cells)]
    ends = [tuple(f"{name}{end}" for _, name in runs) for end in _final(cells[0])]
    return tuple(run[0] for run in runs), ends


def _cells(net: NetworkBuild, node: OperationNode, W: np.ndarray, R: np.ndarray, B: Any) -> list[lrp.Cell]:
    """One cell for each direction, with our order of gates and, but for a GRU's bn, one bias."""
    order, direction = _ORDER[node.op], node.attributes.get("direction", "forward")
    if direction not in ("forward", "reverse", "bidirectional"):
        net.refuse(f"has the direction {direction!r}, which there is not")
    n, H, gates = 1 + (direction == "bidirectional"), int(R.shape[-1]), len(order)
    if node.attributes.get("hidden_size", H) != H:
        net.refuse(f"has the hidden_size {node.attributes['hidden_size']}, but weights of {H} units")
    net.source.fits(net.where, W.shape, (n, gates * H, None))
    net.source.fits(net.where, R.shape, (n, gates * H, H))
    bias = np.zeros((n, 2 * gates * H), W.dtype)
    if B is not None:
        bias = net.constant(B, "its bias")
        net.source.fits(net.where, bias.shape, (n, 2 * gates * H))
    given = _activations(net, node, n)
    cells: list[lrp.Cell] = []
    for k in range(n):
        U, V = (one[k].reshape(gates, H, -1)[list(order)] for one in (W, R))
        of_x, of_h = bias[k].reshape(2, gates, H)[:, list(order)]
        if node.op == "LSTM":
            cells.append(lrp.LSTM(U, V, of_x + of_h, activation=given[k][1], recurrent_activation=given[k][0]))
        elif node.op == "RNN":
            cells.append(lrp.RNN(U, V, of_x + of_h, activation=given[k][0]))
        elif node.attributes.get("linear_before_reset", 0):  # the bias of h's states is inside the product with r
            b = np.concatenate([of_x[:2] + of_h[:2], of_x[2:]])
            cells.append(lrp.GRU(U, V, b, of_h[2], activation=given[k][1], recurrent_activation=given[k][0]))
        else:
            b = of_x + of_h
            cells.append(lrp.GRU(U, V, b, activation=given[k][1], recurrent_activation=given[k][0], reset_after=False))
    return cells


def _with_peepholes(net: NetworkBuild, cells: list[lrp.Cell], P: np.ndarray) -> list[lrp.Cell]:
    """LSTMs whose gates read the memory, too: P has the weights of i, o and f."""
    H = cells[0].units
    net.source.fits(net.where, P.shape, (len(cells), 3 * H))
    if not P.any():
        return cells
    found: list[lrp.Cell] = []
    for cell, peep in zip(cells, P.reshape(-1, 3, H), strict=True):
        if not isinstance(cell, lrp.LSTM) or (cell.activation, cell.recurrent_activation) != ("tanh", "sigmoid"):
            net.refuse("has peepholes with other activations than sigmoid and tanh, which is not supported")
        arrays = {f"{name}_{gate}": getattr(cell, name)[k] for name in "UWb" for k, gate in enumerate("ifgo")}
        found.append(lrp.PeepholeLSTM(**arrays, p_i=peep[0], p_o=peep[1], p_f=peep[2]))
    return found


def _activations(net: NetworkBuild, node: OperationNode, n: int) -> list[list[str]]:
    """Names of the activations of each direction."""
    each = len(_DEFAULT[node.op])
    given = node.attributes.get("activations") or _DEFAULT[node.op] * n
    net.refuse_if(len(given) != each * n, f"must have {each * n} activations, got {len(given)}")
    if node.op == "LSTM" and any(given[k * 3 + 1].lower() != given[k * 3 + 2].lower() for k in range(n)):
        net.refuse(f"has the activations {', '.join(given)[:80]}; the second and the third must be the same")
    names = [one.lower() for one in given]
    if unknown := [one for one, name in zip(given, names, strict=True) if name not in _ACTIVATIONS]:
        net.refuse(f"has the activation {unknown[0][:80]}, which is not supported")
    slopes, offsets = (
        node.attributes.get(f"activation_{key}") or [number] for key, number in (("alpha", 0.2), ("beta", 0.5))
    )
    hard = next((name for slope, name in _HARD_SIGMOIDS.items() if np.allclose(slopes, slope, atol=1e-6)), "")
    if "hardsigmoid" in names and not (hard and np.allclose(offsets, 0.5)):  # the others have no such numbers
        net.refuse("has an activation_alpha or activation_beta that is not supported")
    names = [hard if name == "hardsigmoid" else name for name in names]
    return [names[k * each : (k + 1) * each] for k in range(n)]


def _all_steps(net: NetworkBuild, lengths: Any, steps: Any) -> None:
    """See that every sequence is as long as the tensor: lrpnumpy takes each at its own length."""
    if lengths is None:
        return
    found = net.constant(lengths, "the lengths of its sequences")
    if any(one != steps for one in found.flat) and not (isinstance(steps, Dim) and found.size == 0):
        net.refuse("has lengths of its sequences that are not the number of steps, which is not supported")


def _starts(net: NetworkBuild, state: Any, cells: list[lrp.Cell], number: int, axes: str) -> list[Any]:
    """The start state of each direction: None for zeros, an array (H,), or a flow."""
    n, H = len(cells), _widths(cells[0])[number]
    at = axes.index("F")  # the axis of the directions
    if isinstance(state, NetworkValue):
        state = net.series(state, axes)
        if state.index.shape != (n, H):
            net.refuse(f"has a start state of shape {state.index.shape}, which must be {(n, H)}")
        return [state.taking(at, k) for k in range(n)]
    if state is None:
        return [None] * n
    array = net.constant(state, "its start state")
    widths, counts = [H], [n]
    if isinstance(state, Spread):  # an axis of open size has length 1, and a part of it may be empty
        widths, counts = [H, 1], [n, 1, 0]
    if array.ndim != 3 or array.shape[2] not in widths or array.shape[at] not in counts:
        wanted = tuple({"N": 1, "F": n}[axis] for axis in axes[:2])
        net.refuse(f"has a start state of shape {array.shape}, which must be {(*wanted, H)}; this is not valid ONNX")
    if not array.any():
        return [None] * n
    array = np.moveaxis(array, at, 0)
    net.source.fits(net.where, array.shape, (n, None, H))
    net.refuse_if((array != array[:, :1]).any(), "has start states that differ between sequences")
    return list(array[:, 0])


def _with_start(cell: lrp.Cell, states: Sequence[Any]) -> lrp.Cell:
    """The cell with constant start states."""
    given = {f"{name}0": one for name, one in zip(cell.states, states, strict=False) if isinstance(one, np.ndarray)}
    if not given:
        return cell
    return type(cell)(**{**cell._values(), **given})


def _one_way(
    net: NetworkBuild, x: NetworkValue, cell: lrp.Cell, states: Sequence[Any], way: int, others: Sequence[str] = ()
) -> tuple[str, str]:
    """A cell by itself: the value with its outputs of every step, and its name. It may have other inputs."""
    value, extra = net.rows(x).values[0], [*others]
    flows = [net.rows(one).values[0] if isinstance(one, NetworkValue) else "" for one in states]
    first = next(filter(None, flows), "")
    for flow, one in zip(flows, states, strict=True) if first else ():  # a constant beside a value becomes one, too
        zero = np.zeros(net.sizes[first].width, np.float32)
        extra.append(flow or net.put(lrp.Affine(zero, zero if one is None else one), first))
    if not first:
        cell = _with_start(cell, states)
    if way > 0:
        name = net.put(cell, value, *extra)
        return name, name
    name = net.put(cell, net.put(lrp.Reverse(), value), *extra)
    return net.put(lrp.Reverse(), name), name
