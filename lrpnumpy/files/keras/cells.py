"""The recurrent layers of Keras: the layouts that their arrays have had, their gates, directions and states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from lrpnumpy.files.build.network import NetworkValue
from lrpnumpy.files.keras.activations import function_of_cell
from lrpnumpy.files.keras.build import KerasBuild, one_of
from lrpnumpy.files.keras.config import KerasCall, KerasLayer
from lrpnumpy.files.safe import Fields, Shape
from lrpnumpy.layers import (
    GRU,
    LSTM,
    RNN,
    Add,
    Average,
    Bidirectional,
    Cell,
    Concat,
    Layer,
    Multiply,
    Reverse,
)

KINDS = ("LSTM", "CuDNNLSTM", "GRU", "CuDNNGRU", "SimpleRNN")


def cell_of(b: KerasBuild, layer: KerasLayer, kind: str, s: Fields, paths: Sequence[str], D: int) -> Cell:
    """The cell of one direction, with the activations that are usual for it."""
    u = s.integer("units")
    bias = s.boolean("use_bias", True)
    if kind == "SimpleRNN":
        K, R, *rest = b.take(layer, paths, [(D, u), (u, u), *([(u,)] if bias else [])])
        return RNN(np.ascontiguousarray(K.T), np.ascontiguousarray(R.T), rest[0] if rest else None)
    if kind in ("GRU", "CuDNNGRU"):
        b.note("Keras' gates z, r, h are taken as z, r, n")
        return _gru(b, layer, kind, s, paths, D)
    b.note("Keras' gates i, f, c, o are taken as i, f, g, o")
    if kind == "CuDNNLSTM":
        U, W, both = _cudnn(b, layer, paths, D, u, 4)
        return LSTM(U, W, both.sum(axis=0))
    if len(paths) == 12:
        b.note("the 12 arrays of Keras 1 are in the order i, c, f, o")
        return LSTM(*_keras1(b, layer, paths, D, u, (0, 2, 1, 3)))
    K, R, *rest = b.take(layer, paths, [(D, 4 * u), (u, 4 * u), *([(4 * u,)] if bias else [])])
    return LSTM(*_gates(K, R, 4), rest[0].reshape(4, u) if rest else None)


def _gru(b: KerasBuild, layer: KerasLayer, kind: str, s: Fields, paths: Sequence[str], D: int) -> GRU:
    u = s.integer("units")
    if kind == "CuDNNGRU":
        U, W, both = _cudnn(b, layer, paths, D, u, 3)
        return _after(U, W, both)
    if len(paths) == 9:
        b.note("the 9 arrays of Keras 1 are in the order z, r, h")
        return GRU(*_keras1(b, layer, paths, D, u, (0, 1, 2)), reset_after=False)
    bias, after = s.boolean("use_bias", True), s.boolean("reset_after", False)
    shape: Shape = (2, 3 * u) if after else (3 * u,)
    K, R, *rest = b.take(layer, paths, [(D, 3 * u), (u, 3 * u), *([shape] if bias else [])])
    U, W = _gates(K, R, 3)
    if not after:
        return GRU(U, W, rest[0].reshape(3, u) if rest else None, reset_after=False)
    return _after(U, W, rest[0].reshape(2, 3, u) if rest else None)


def _after(U: np.ndarray, W: np.ndarray, both: np.ndarray | None) -> GRU:
    """A GRU with the reset gate after the product, and a bias (2, 3, u): that of the inputs and that of the states."""
    if both is None:
        return GRU(U, W)
    b = both[0].copy()
    b[:2] += both[1, :2]  # the bias of h's states is inside the product with r
    return GRU(U, W, b, both[1, 2].copy())


def _gates(K: np.ndarray, R: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """U (G,u,D) and W (G,u,u) from a kernel (D, G u) and a recurrent kernel (u, G u)."""
    u = len(R)
    return K.T.reshape(count, u, -1), R.T.reshape(count, u, u)


def _cudnn(
    b: KerasBuild, layer: KerasLayer, paths: Sequence[str], D: int, u: int, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U (G,u,D), W (G,u,u) and both biases (2,G,u) of a layer made for cuDNN."""
    K, R, both = b.take(layer, paths, [(D, count * u), (u, count * u), (2 * count * u,)])
    joined = ", and its two biases are added" if count == 4 else ""
    kind = "CuDNNLSTM" if count == 4 else "CuDNNGRU"
    b.note(f"{kind}: blocks are stored transposed{joined}")
    # The numbers of a gate's block, row by row, are those of the matrix that cuDNN multiplies x with.
    U = np.stack([block.reshape(u, len(K)) for block in np.split(K, count, axis=1)])
    return U, np.stack(np.split(R, count, axis=1)), both.reshape(2, count, u)


def _keras1(
    b: KerasBuild, layer: KerasLayer, paths: Sequence[str], D: int, u: int, order: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Kernel, recurrent kernel and bias of each gate are separate arrays."""
    arrays = b.take(layer, paths, [(D, u), (u, u), (u,)] * len(order))
    U, W, bias = (np.stack([arrays[3 * g + k].T for g in order]) for k in range(3))
    return U, W, bias


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
        x = b.vectors(Reverse(), x, name=f"{layer.name}_reversed")
    states: list[NetworkValue] = []
    for k, (kind, inner) in enumerate(cells):
        each = len(paths) if len(cells) == 1 else _count(inner)
        own, paths = paths[:each], paths[each:]
        cell = _cell(b, layer, kind, inner, own, x.width)
        count = len(cell.OUTPUTS) - 1
        given, starts = (starts, []) if k + 1 == len(cells) else (starts[:count], starts[count:])
        x = b.vectors(cell, x, *given, name=layer.name if k + 1 == len(cells) else f"{layer.name}_{k}")
        states += _states(x, cell)
    out = x if s.boolean("return_sequences", False) else _last(x)
    return [out, *(states if s.boolean("return_state", False) else ())]


def _cells(b: KerasBuild, layer: KerasLayer) -> list[tuple[str, Fields]]:
    """The class and the settings of each cell of a layer, one on top of the other."""
    s = layer.settings
    if s.boolean("time_major", False):
        b.refuse("time_major=True is not supported; make the model with batches first, with the same weights")
    if s.boolean("stateful", False):
        b.note("stateful is left out: every sequence starts from a zero state, as after reset_states()")
    if layer.kind != "RNN":
        return [(layer.kind, modern(b, s))]
    outer = s.object("cell")
    found = [outer]
    if outer.string("class_name") == "StackedRNNCells":
        items = outer.object("config").items("cells")
        found = [Fields(b.source, s.where, item) for item in items]
    kinds = [cell.string("class_name") for cell in found]
    if unknown := [kind for kind in kinds if kind.removesuffix("Cell") not in ("LSTM", "GRU", "SimpleRNN")]:
        b.refuse(
            f"is supported around LSTMCell, GRUCell and SimpleRNNCell only, it holds {unknown[0][:80]!r}; to say what "
            f"the layer does, write custom={{{layer.name!r}: f}}, where f(settings, arrays) gives a layer of lrpnumpy"
        )
    return [(kind.removesuffix("Cell"), cell.object("config")) for kind, cell in zip(kinds, found, strict=True)]


def _count(s: Fields) -> int:
    return 2 + s.boolean("use_bias", True)


def modern(b: KerasBuild, s: Fields) -> Fields:
    """Settings of a recurrent or Dense layer of Keras 1 under their later names."""
    renamed = {"output_dim": "units", "inner_activation": "recurrent_activation", "bias": "use_bias"}
    if "output_dim" not in s.value or "units" in s.value:
        return s
    b.version = b.version or "1"
    return Fields(s.source, s.where, {renamed.get(key, key): value for key, value in s.value.items()})


def _cell(b: KerasBuild, layer: KerasLayer, kind: str, s: Fields, paths: list[str], D: int) -> Cell:
    """One cell with its activations."""
    cell = cell_of(b, layer, kind, s, paths, D)
    keys = {"SimpleRNN": ("activation",), "CuDNNLSTM": (), "CuDNNGRU": ()}.get(kind, tuple(_DEFAULTS))
    return replace(cell, **{key: function_of_cell(b, layer, s, key, _DEFAULTS[key]) for key in keys})


_DEFAULTS = {"activation": "tanh", "recurrent_activation": "sigmoid"}
_MERGES: dict[str, Literal["concat", "sum", "mean"]] = {"concat": "concat", "sum": "sum", "ave": "mean"}
_JOINS: dict[str, Callable[[], Layer]] = {"concat": Concat, "sum": Add, "ave": Average, "mul": Multiply}


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
        merge = one_of(layer, layer.settings, "merge_mode", tuple(_JOINS), "concat")
    if merge in _MERGES and not returns and not starts:
        out = b.vectors(Bidirectional(forward, backward, _MERGES[merge]), x)
        return [out if sequences else _last(out)]
    if len(starts) % 2:
        b.refuse(f"has {len(starts)} initial states, which cannot be split into forward and backward ones")
    half = len(starts) // 2
    ahead = b.vectors(forward, x, *starts[:half], name=f"{layer.name}_forward")
    mirrored = b.vectors(Reverse(), x, name=f"{layer.name}_reversed")
    back = b.vectors(backward, mirrored, *starts[half:], name=f"{layer.name}_backward")
    ends = [_last(ahead), _last(back)]
    if sequences:
        ends = [ahead, b.vectors(Reverse(), back, name=f"{layer.name}_in_order")]
    joined = ends if merge is None else [b.vectors(_JOINS[merge](), *ends)]
    return [*joined, *((*_states(ahead, forward), *_states(back, backward)) if returns else ())]


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


def _states(out: NetworkValue, cell: Cell) -> list[NetworkValue]:
    """The states after the last step: h, and of an LSTM c."""
    return [NetworkValue((out.values[0] + name,), ("N", "F"), out.index) for name in cell.OUTPUTS if name]
