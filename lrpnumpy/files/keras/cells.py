"""The recurrent layers of Keras: the layouts that their arrays have had, their gates, directions and states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from lrpnumpy import layers as lrp
from lrpnumpy.files.build.network import NetworkValue
from lrpnumpy.files.keras.activations import function_of_cell
from lrpnumpy.files.keras.build import KerasBuild, by_custom, modern
from lrpnumpy.files.keras.config import KerasCall, KerasLayer, cells_of
from lrpnumpy.files.safe import Fields

KINDS = ("LSTM", "CuDNNLSTM", "GRU", "CuDNNGRU", "SimpleRNN")


_GATES = {"SimpleRNN": 1, "GRU": 3, "LSTM": 4}
_DEFAULTS = {"activation": "tanh", "recurrent_activation": "sigmoid"}
_KERAS_1 = {3: (0, 1, 2), 4: (0, 2, 1, 3)}  # positions of our gates in Keras 1


def _cell(b: KerasBuild, layer: KerasLayer, kind: str, s: Fields, paths: Sequence[str], D: int) -> lrp.Cell:
    """The cell of one direction. Keras' gates z, r, h are our z, r, n, and its i, f, c, o our i, f, g, o."""
    u, gates = s.integer("units"), _GATES[kind.removeprefix("CuDNN")]
    after = gates == 3 and (kind == "CuDNNGRU" or s.boolean("reset_after", False))
    if kind.startswith("CuDNN"):
        K, R, bias = b.take(layer, paths, [(D, gates * u), (u, gates * u), (2 * gates * u,)])
        # The numbers of a gate's block, row by row, are those of the matrix that cuDNN multiplies x with.
        U = np.stack([block.reshape(u, D) for block in np.split(K, gates, axis=1)])
        W, bias = np.stack(np.split(R, gates, axis=1)), bias.reshape(2, gates, u)
        if not after:
            bias = bias.sum(axis=0)
        return _record(gates, U, W, bias, after)
    if gates > 1 and len(paths) == 3 * gates:  # of Keras 1: the three arrays of one gate, then those of the next
        arrays = b.take(layer, paths, [(D, u), (u, u), (u,)] * gates)
        U, W, bias = (np.stack([arrays[3 * g + k].T for g in _KERAS_1[gates]]) for k in range(3))
        after = False
    else:
        shape = (2,) * after + (gates * u,)
        K, R, bias = b.with_bias(layer, s, [(D, gates * u), (u, gates * u)], shape, paths)
        U, W = K.T.reshape(gates, u, D), R.T.reshape(gates, u, u)
        if bias is not None:
            bias = bias.reshape(*shape[:-1], gates, u)
    keys = tuple(_DEFAULTS)[: min(gates, 2)]
    functions = {key: function_of_cell(b, layer, s, key, _DEFAULTS[key]) for key in keys}
    return replace(_record(gates, U, W, bias, after), **functions)


def _record(gates: int, U: np.ndarray, W: np.ndarray, bias: np.ndarray | None, after: bool) -> lrp.Cell:
    """The record; with `after` a GRU has its reset gate after the product, and biases of inputs and of states."""
    if gates == 4:
        return lrp.LSTM(U, W, bias)
    if gates == 1:
        return lrp.RNN(U[0], W[0], None if bias is None else bias[0])
    if not after or bias is None:
        return lrp.GRU(U, W, bias, reset_after=after)
    b = bias[0].copy()
    b[:2] += bias[1, :2]  # the bias of h's states is inside the product with r
    return lrp.GRU(U, W, b, bias[1, 2].copy())


# ----------------------------------------------------------------------------------------------------- layers of cells


def recurrent(b: KerasBuild, call: KerasCall, xs: list[NetworkValue]) -> list[NetworkValue]:
    """LSTM, GRU, SimpleRNN, those for cuDNN, and RNN around one or several cells."""
    layer, s = call.layer, call.layer.settings
    b.plain(call)
    x, starts = b.with_steps(layer, xs[0]), xs[1:]
    b.skips_padding(x)
    cells, paths = _cells(b, layer), list(b.paths(layer).values())
    if s.boolean("go_backwards", False):
        x = b.vectors(lrp.Reverse(), x, name=f"{layer.name}_reversed")
    states: list[NetworkValue] = []
    for k, (kind, inner) in enumerate(cells):
        each = len(paths) if len(cells) == 1 else 2 + inner.boolean("use_bias", True)
        own, paths = paths[:each], paths[each:]
        cell = _cell(b, layer, kind, inner, own, x.width)
        count, name = len(cell.OUTPUTS) - 1, f"{layer.name}_{k}"
        if k + 1 == len(cells):
            count, name = len(starts), layer.name
        x = b.vectors(cell, x, *starts[:count], name=name)
        starts = starts[count:]
        states += _states(x, cell)
    if not s.boolean("return_state", False):
        states = []
    return [x if s.boolean("return_sequences", False) else _last(x), *states]


def _cells(b: KerasBuild, layer: KerasLayer) -> list[tuple[str, Fields]]:
    """The class and the settings of each cell of a layer, one on top of the other."""
    s = layer.settings
    if s.boolean("time_major", False):
        b.refuse("time_major=True is not supported; make the model with batches first, with the same weights")
    if s.boolean("stateful", False):
        b.note("stateful is left out: every sequence starts from a zero state, as after reset_states()")
    if layer.kind != "RNN":
        return [(layer.kind, modern(b, s))]
    cells = cells_of(s)
    if unknown := [kind for kind, _ in cells if kind.removesuffix("Cell") not in KINDS]:
        what = f"is supported around LSTMCell, GRUCell and SimpleRNNCell only, it holds {unknown[0][:80]!r}"
        b.refuse(f"{what}; {by_custom(layer.name)}")
    return [(kind.removesuffix("Cell"), settings) for kind, settings in cells]


_MERGES: dict[str, Literal["concat", "sum", "mean"]] = {"concat": "concat", "sum": "sum", "ave": "mean"}
_JOINS: dict[str, Callable[[], lrp.Layer]] = {
    "concat": lrp.Concat, "sum": lrp.Add, "ave": lrp.Average, "mul": lrp.Multiply,
}  # fmt: skip


def both_ways(b: KerasBuild, call: KerasCall, xs: list[NetworkValue]) -> list[NetworkValue]:
    """Bidirectional. Where its states are given or taken, or its directions not just joined, each is a node."""
    layer = call.layer
    b.plain(call)
    x, starts = b.with_steps(layer, xs[0]), xs[1:]
    b.skips_padding(x)
    kind, sides = _directions(b, layer)
    paths = list(b.paths(layer).values())
    half = len(paths) // 2
    forward = _cell(b, layer, kind, sides[0], paths[:half], x.width)
    backward = _cell(b, layer, kind, sides[1], paths[half:], x.width)
    returns, sequences = sides[0].boolean("return_state", False), sides[0].boolean("return_sequences", False)
    merge = layer.settings.value.get("merge_mode", "concat")
    if merge is not None:
        merge = layer.one_of("merge_mode", tuple(_JOINS), "concat")
    if merge in _MERGES and not returns and not starts:
        out = b.vectors(lrp.Bidirectional(forward, backward, _MERGES[merge]), x)
        return [out if sequences else _last(out)]
    half = len(starts) // 2
    ahead = b.vectors(forward, x, *starts[:half], name=f"{layer.name}_forward")
    mirrored = b.vectors(lrp.Reverse(), x, name=f"{layer.name}_reversed")
    back = b.vectors(backward, mirrored, *starts[half:], name=f"{layer.name}_backward")
    ends = [_last(ahead), _last(back)]
    if sequences:
        ends = [ahead, b.vectors(lrp.Reverse(), back, name=f"{layer.name}_in_order")]
    if merge is not None:
        ends = [b.vectors(_JOINS[merge](), *ends)]
    if returns:
        ends += [*_states(ahead, forward), *_states(back, backward)]
    return ends


def _directions(b: KerasBuild, layer: KerasLayer) -> tuple[str, list[Fields]]:
    """The class and the settings of the forward and the backward layer inside a Bidirectional."""
    s = layer.settings
    inner = [s.object("layer"), s.object(s.first("backward_layer", "layer"))]
    kinds = {side.string("class_name") for side in inner}
    if len(kinds) > 1 or not kinds <= set(KINDS):
        b.refuse(f"is supported around {', '.join(KINDS)} only, it holds {' and '.join(sorted(kinds))}")
    kind = kinds.pop()
    found = [KerasLayer(kind, layer.name, Fields(b.source, s.where, side.object("config").value), ()) for side in inner]
    sides = [_cells(b, one)[0][1] for one in found]
    backwards = [side.boolean("go_backwards", False) for side in sides]
    sequences = [side.boolean("return_sequences", False) for side in sides]
    if backwards != [False, s.has("backward_layer")] or sequences[0] != sequences[1]:
        b.refuse("must read forwards with one layer and backwards with the other, with the same return_sequences")
    return kind, sides


def _last(out: NetworkValue) -> NetworkValue:
    """The last state of a recurrent layer."""
    return NetworkValue((f"{out.values[0]}:last",), ("N", "F"), out.index)


def _states(out: NetworkValue, cell: lrp.Cell) -> list[NetworkValue]:
    """The states after the last step: h, and of an LSTM c."""
    return [NetworkValue((out.values[0] + name,), ("N", "F"), out.index) for name in cell.OUTPUTS if name]
