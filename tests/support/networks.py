"""Random networks for the tests, the same one as our records and as the oracle's plain data."""

from pathlib import Path

import h5py
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

import lrpnumpy as lrp
from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.model import READOUT, READOUTS

GOLDEN = Path(__file__).with_name("golden.h5")


def examples(count):
    """More or fewer cases than other laws have: `count` for every 50 of theirs."""
    return settings(max_examples=max(1, count * settings.default.max_examples // 50))


def close(a, b, tol=1e-12, unit=None):
    """Assert max|a - b| <= tol * max|b| (or * unit), and equal shapes."""
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape, f"shape {a.shape} against {b.shape}"
    unit = np.max(np.abs(b)) if unit is None else unit
    worst = np.max(np.abs(a - b))
    assert worst <= tol * unit, f"off by {worst:.1e}, allowed {tol:.0e} x {unit:.1e}"


def readout(model):
    """The readout of a model that was made of a list of layers."""
    kinds = {lrp.layers.Mean: "mean", lrp.layers.Max: "max", lrp.layers.LastRow: "last-row"}
    top = [node.name for node in model.nodes if node.layer.recurrent][-1]
    if f"{top}:last" in model.used:
        return "last"
    between = [kinds[type(node.layer)] for node in model.nodes if type(node.layer) in kinds and top in node.inputs]
    return between[0] if between else "every"


def chain(model):
    """The layers of such a model, without the readout."""
    return [node.layer for node in model.network if node.name != READOUT]


def of_chain(model, values):
    """Those of some values, one for each node, that are not of the readout."""
    return [value for node, value in zip(model.nodes, values, strict=True) if node.name != READOUT]


def plain(record):
    """Our record as the oracle's plain data, in float64."""
    if isinstance(record, lrp.Model):
        return {"layers": [plain(layer) for layer in chain(record)], "readout": readout(record)}
    if isinstance(record, lrp.Bidirectional):
        both = {"forward": plain(record.forward), "backward": plain(record.backward)}
        return {"kind": "bi", **both, "merge": record.merge}
    arrays = {name: array.astype(np.float64) for name, array in record.arrays()}
    if isinstance(record, lrp.RNN):  # our arrays may have an axis of one gate
        arrays = {name: array.reshape(array.shape[-1 if name in "b h0" else -2 :]) for name, array in arrays.items()}
    return {"kind": type(record).__name__.lower(), **arrays, **record.settings()}


def every_method(model):
    """The names of all methods that can explain a model, but for the one whose cost doubles with every player."""
    names = [method.name for method in lrp.methods() if method.name != "shapley"]
    return [name for name in names if name != "occlusion-p" or model.output != "linear"]


def lstm(rng, D, H, bias=True, state=False, activation="tanh", recurrent_activation="sigmoid", size=1.0):
    b = rng.normal(size=(4, H)) * size if bias else None
    h0, c0 = (rng.normal(size=H), rng.normal(size=H)) if state else (None, None)
    U, W = rng.normal(size=(4, H, D)) * size, rng.normal(size=(4, H, H)) * size / np.sqrt(D + H)
    return lrp.LSTM(U, W, b, h0, c0, activation, recurrent_activation)


def gru(
    rng, D, H, bias=True, state=False, activation="tanh", recurrent_activation="sigmoid", size=1.0, reset_after=True
):
    b, bn = (rng.normal(size=(3, H)) * size, rng.normal(size=H) * size) if bias else (None, None)
    h0 = rng.normal(size=H) if state else None
    U, W = rng.normal(size=(3, H, D)) * size, rng.normal(size=(3, H, H)) * size / np.sqrt(D + H)
    return lrp.GRU(U, W, b, bn if reset_after else None, h0, activation, recurrent_activation, reset_after)


def gru_before(*args, **kwargs):
    return gru(*args, **kwargs, reset_after=False)


def rnn(rng, D, H, bias=True, state=False, activation="tanh", recurrent_activation=None, size=1.0):
    b, h0 = rng.normal(size=H) * size if bias else None, rng.normal(size=H) if state else None
    return lrp.RNN(rng.normal(size=(H, D)) * size, rng.normal(size=(H, H)) * size / np.sqrt(D + H), b, h0, activation)


CELLS = (lstm, gru, gru_before, rnn)


def dense(rng, inputs, outputs, activation="linear", bias=True):
    V = rng.normal(size=(outputs, inputs)) / np.sqrt(inputs)
    return lrp.Dense(V, rng.normal(size=outputs) if bias else None, activation)


def two_way(rng, D, H, merge="concat", cells=(lstm, lstm), **kwargs):
    return lrp.Bidirectional(*(cell(rng, D, H, **kwargs) for cell in cells), merge)


def is_recurrent(layer):
    return isinstance(layer, (lrp.LSTM, lrp.GRU, lrp.RNN, lrp.Bidirectional))


GATES = ("sigmoid", "hard_sigmoid", "hard_sigmoid_3", "tanh", "softsign")  # bounded


@st.composite
def activations(draw):
    """Activation of a cell and of its gates, and a size of the weights with which the states stay finite.

    h = o exp(c) doubles its exponent from step to step: the exponential stays out of cells, but not of gates.
    """
    kind = draw(st.integers(0, 9))
    if kind < 5:
        return "tanh", "sigmoid", 1.0
    of_cells = st.sampled_from([name for name in ACTIVATIONS if name != "exponential"])
    if kind < 8:
        return draw(of_cells), draw(st.sampled_from(GATES)), 0.5
    return draw(st.sampled_from(["tanh", "softsign"])), draw(st.sampled_from(sorted(ACTIVATIONS))), 0.2


@st.composite
def networks(
    draw,
    sizes=(1, 5),
    stacks=3,
    readouts=READOUTS,
    classes=3,
    dtype="float64",
    state=True,
):
    """Any network: cells, stacks, directions, merges, Dense layers anywhere, readouts, initial states."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size, of_dense = st.integers(*sizes), st.sampled_from(["linear", "relu", "tanh", *sorted(ACTIVATIONS)])
    width = draw(size)
    layers = []
    for _ in range(draw(st.integers(1, stacks))):
        if draw(st.integers(0, 5)) == 0:
            layers.append(dense(rng, width, draw(size), draw(of_dense)))
            width = layers[-1].outputs
        activation, recurrent, scale = draw(activations())
        options = {
            "bias": draw(st.booleans()),
            "state": state and draw(st.booleans()),
            "activation": activation,
            "recurrent_activation": recurrent,
            "size": scale,
        }
        cell = draw(st.sampled_from(CELLS))
        if draw(st.booleans()):
            other = draw(st.sampled_from((cell, cell, *CELLS)))
            merge = draw(st.sampled_from(["concat", "sum", "mean"]))
            layers.append(two_way(rng, width, draw(size), merge, (cell, other), **options))
        else:
            layers.append(cell(rng, width, draw(size), **options))
        width = layers[-1].outputs
    for _ in range(draw(st.integers(0, 1))):
        layers.append(dense(rng, width, draw(size), draw(of_dense)))
        width = layers[-1].outputs
    layers.append(dense(rng, width, classes))
    return lrp.Model(layers, readout=draw(st.sampled_from(readouts))).astype(dtype)


@st.composite
def inputs(draw, model, most=7, count=None):
    """Sequences for a model: one, or `count` of any lengths."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lengths = draw(st.lists(st.integers(1, most), min_size=count or 1, max_size=count or 1))
    sequences = [rng.normal(size=(T, model.input_size)).astype(model.dtype) for T in lengths]
    return sequences if count else sequences[0]


def golden():
    """(name, model, [group of each sequence]) of every model in golden.h5; groups are read into dicts."""

    def read(node):
        return {key: read(part) for key, part in node.items()} if isinstance(node, h5py.Group) else node[()]

    with h5py.File(GOLDEN) as file:
        everything = read(file)
    for name, group in everything.items():
        weights = group["model"]
        ways = [lrp.LSTM(**weights[way]) for way in ("forward", "backward") if way in weights]
        layer = lrp.Bidirectional(*ways) if len(ways) == 2 else ways[0]
        model = lrp.Model([layer, lrp.Dense(weights["V"], weights["d"])])
        yield name, model, [part for key, part in group.items() if key.startswith("sequence")]


# ---- several inputs ----


def three_inputs(rng, **settings):
    """A model of a series, words and a vector, with three outputs."""
    words = ["<unk>", "river", "lake", "dry", "wet", "the"]
    nodes = [
        lrp.Node("lstm", lstm(rng, 3, 4), ("weather",)),
        lrp.Node("gru", gru(rng, 2, 3), ("notes",)),
        lrp.Node("join", lrp.layers.Concat(), ("lstm:last", "gru:last", "basin")),
        lrp.Node("head", dense(rng, 9, 3), ("join",)),
    ]
    inputs = {
        "weather": lrp.Input(3, features=["rain", "temp", "wind"]),
        "notes": lrp.Input(embedding=lrp.Embedding(rng.normal(size=(6, 2)), vocabulary=words, unknown="<unk>")),
        "basin": lrp.Input(2, steps=False, features=["area", "slope"]),
    }
    return lrp.Model(nodes, inputs=inputs, **{"output": "linear", "classes": ["low", "mid", "high"], **settings})


def three_values(rng, T=4, words="the dry river"):
    """A record of it."""
    return {"weather": rng.normal(size=(T, 3)), "notes": words, "basin": rng.normal(size=2)}
