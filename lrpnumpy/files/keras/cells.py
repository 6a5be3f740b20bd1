"""The recurrent layers of Keras: the layouts that their arrays have had, their gates, directions and states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from lrpnumpy import layers as lrp
from lrpnumpy.files.build.network import NetworkValue
from lrpnumpy.files.keras.activations import function_of_cell
from lrpnumpy.files.keras.build import KerasBuild, modern
from lrpnumpy.files.keras.config import KerasCall, KerasLayer, cells_of
from lrpnumpy.files.safe import Fields

KINDS = ("LSTM", "CuDNNLSTM", "GRU", "CuDNNGRU", "SimpleRNN")


def cell_of(b: KerasBuild, layer: KerasLayer, kind: str, s: Fields, paths: Sequence[str], D: int) -> lrp.Cell:
    """The cell of one direction, with the activations that are usual for it."""
    u = s.integer("units")
    if kind == "SimpleRNN":
        K, R, bias = b.with_bias(layer, s, [(D, u), (u, u)], (u,), paths)
        return lrp.RNN(np.ascontiguousarray(K.T), np.ascontiguousarray(R.T), bias)
    gates = 4
    if kind.endswith("GRU"):
        gates = 3
    b.note(_NOTES[gates])
    after = gates == 3 and s.boolean("reset_after", False)
    if kind.startswith("CuDNN"):
        U, W, bias = _cudnn(b, layer, paths, D, u, gates)
        after = gates == 3
        if not after:
            bias = bias.sum(axis=0)
    elif len(paths) == 3 * gates:  # of Keras 1: kernel, recurrent kernel and bias of each gate are separate arrays
        order = {3: "z, r, h", 4: "i, c, f, o"}[gates]
        b.note(f"the {len(paths)} arrays of Keras 1 are in the order {order}")
        arrays = b.take(layer, paths, [(D, u), (u, u), (u,)] * gates)
        U, W, bias = (np.stack([arrays[3 * g + k].T for g in _KERAS_1[gates]]) for k in range(3))
        after = False
    else:
        shape = (2,) * after + (gates * u,)
        K, R, bias = b.with_bias(layer, s, [(D, gates * u), (u, gates * u)], shape, paths)
        U, W = K.T.reshape(gates, u, D), R.T.reshape(gates, u, u)
        if bias is not None:
            bias = bias.reshape(*shape[:-1], gates, u)
    if gates == 4:
        return lrp.LSTM(U, W, bias)
    if after:
        return _after(U, W, bias)
    return lrp.GRU(U, W, bias, reset_after=False)


_NOTES = {3: "Keras' gates z, r, h are taken as z, r, n", 4: "Keras' gates i, f, c, o are taken as i, f, g, o"}
_CUDNN_NOTES = {
    3: "CuDNNGRU: blocks are stored transposed",
    4: "CuDNNLSTM: blocks are stored transposed, and its two biases are added",
}
_KERAS_1 = {3: (0, 1, 2), 4: (0, 2, 1, 3)}  # positions of our gates in Keras 1


def _after(U: np.ndarray, W: np.ndarray, both: np.ndarray | None) -> lrp.GRU:
    """A GRU with the reset gate after the product, and a bias (2, 3, u): that of the inputs and that of the states."""
    if both is None:
        return lrp.GRU(U, W)
    b = both[0].copy()
    b[:2] += both[1, :2]  # the bias of h's states is inside the product with r
    return lrp.GRU(U, W, b, both[1, 2].copy())


def _cudnn(
    b: KerasBuild, layer: KerasLayer, paths: Sequence[str], D: int, u: int, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U (G,u,D), W (G,u,u) and both biases (2,G,u) of a layer made for cuDNN."""
    K, R, both = b.take(layer, paths, [(D, count * u), (u, count * u), (2 * count * u,)])
    b.note(_CUDNN_NOTES[count])
    # The numbers of a gate's block, row by row, are those of the matrix that cuDNN multiplies x with.
    U = np.stack([block.reshape(u, len(K)) for block in np.split(K, count, axis=1)])
    return U, np.stack(np.split(R, count, axis=1)), both.reshape(2, count, u)


# ----------------------------------------------------------------------------------------------------- layers of cells


def recurrent(b: KerasBuild, call: KerasCall, xs: list[NetworkValue]) -> list[NetworkValue]:
    """LSTM, GRU, SimpleRNN, those for cuDNN, and RNN around one or several cells."""
    layer, s = call.layer, call.layer.settings
    b.plain(call)
    x, starts = b.with_steps(layer, xs[0]), xs[1:]
    b.skips_padding(x)
    cells, paths = _cells(b, layer), list(b.paths(layer).values())
    if s.boolean("go_backwards", False):
        b.note("go_backwards: the steps are reversed before the layer")
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
    if s.boolean("return_sequences", False):
        return [x, *states]
    return [_last(x), *states]


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
        b.refuse(
            f"is supported around LSTMCell, GRUCell and SimpleRNNCell only, it holds {unknown[0][:80]!r}; to say what "
            f"the layer does, write custom={{{layer.name!r}: f}}, where f(settings, arrays) gives a layer of lrpnumpy"
        )
    return [(kind.removesuffix("Cell"), settings) for kind, settings in cells]


def _cell(b: KerasBuild, layer: KerasLayer, kind: str, s: Fields, paths: list[str], D: int) -> lrp.Cell:
    """One cell with its activations."""
    cell = cell_of(b, layer, kind, s, paths, D)
    keys = {"SimpleRNN": ("activation",), "CuDNNLSTM": (), "CuDNNGRU": ()}.get(kind, tuple(_DEFAULTS))
    return replace(cell, **{key: function_of_cell(b, layer, s, key, _DEFAULTS[key]) for key in keys})


_DEFAULTS = {"activation": "tanh", "recurrent_activation": "sigmoid"}
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
    if len(paths) % 2:
        b.refuse(f"has {len(paths)} arrays, not the same number for both directions")
    half = len(paths) // 2
    forward, backward = (_cell(b, layer, kind, sides[k], paths[k * half :][:half], x.width) for k in range(2))
    returns, sequences = sides[0].boolean("return_state", False), sides[0].boolean("return_sequences", False)
    merge = layer.settings.value.get("merge_mode", "concat")
    if merge is not None:
        merge = layer.one_of("merge_mode", tuple(_JOINS), "concat")
    if merge in _MERGES and not returns and not starts:
        out = b.vectors(lrp.Bidirectional(forward, backward, _MERGES[merge]), x)
        if not sequences:
            out = _last(out)
        return [out]
    if len(starts) % 2:
        b.refuse(f"has {len(starts)} initial states, which cannot be split into forward and backward ones")
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
    if backwards != [False, s.has("backward_layer")]:
        b.refuse("must read forwards with one layer and backwards with the other")
    if sides[0].boolean("return_sequences", False) != sides[1].boolean("return_sequences", False):
        b.refuse("must have the same return_sequences in both directions")
    return kind, sides


def _last(out: NetworkValue) -> NetworkValue:
    """The last state of a recurrent layer."""
    return NetworkValue((f"{out.values[0]}:last",), ("N", "F"), out.index)


def _states(out: NetworkValue, cell: lrp.Cell) -> list[NetworkValue]:
    """The states after the last step: h, and of an LSTM c."""
    return [NetworkValue((out.values[0] + name,), ("N", "F"), out.index) for name in cell.OUTPUTS if name]
