"""Random networks for the tests, the same one as our records and as the oracle's plain data."""

from pathlib import Path

import h5py
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

import lrpnumpy as lrp

GOLDEN = Path(__file__).with_name("golden.h5")


def examples(count):
    """So many cases, and a tenth of them where the JIT is off."""
    return settings(max_examples=count // 10 if settings.default.max_examples < 50 else count)


def close(a, b, tol=1e-12, unit=None):
    """Assert max|a - b| <= tol * max|b| (or * unit), and equal shapes."""
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape, f"shape {a.shape} against {b.shape}"
    unit = np.max(np.abs(b)) if unit is None else unit
    worst = np.max(np.abs(a - b))
    assert worst <= tol * unit, f"off by {worst:.1e}, allowed {tol:.0e} x {unit:.1e}"


def plain(record):
    """Our record as the oracle's plain data, in float64."""
    if isinstance(record, lrp.Model):
        return {"layers": [plain(layer) for layer in record.layers], "readout": record.readout}
    if isinstance(record, lrp.Bidirectional):
        both = {"forward": plain(record.forward), "backward": plain(record.backward)}
        return {"kind": "bi", **both, "merge": record.merge}
    arrays = {name: array.astype(np.float64) for name, array in record.arrays()}
    if isinstance(record, lrp.Dense):
        return {"kind": "dense", **arrays, "activation": record.activation}
    names = {"activation": record.activation, "recurrent_activation": record.recurrent_activation}
    return {"kind": "lstm", **arrays, **names}


def lstm(rng, D, H, bias=True, state=False, activation="tanh", recurrent_activation="sigmoid"):
    b = rng.normal(size=(4, H)) if bias else None
    h0, c0 = (rng.normal(size=H), rng.normal(size=H)) if state else (None, None)
    scale = 1 / np.sqrt(D + H)
    U, W = rng.normal(size=(4, H, D)), rng.normal(size=(4, H, H)) * scale
    return lrp.LSTM(U, W, b, h0, c0, activation, recurrent_activation)


def dense(rng, inputs, outputs, activation="linear", bias=True):
    V = rng.normal(size=(outputs, inputs)) / np.sqrt(inputs)
    return lrp.Dense(V, rng.normal(size=outputs) if bias else None, activation)


def two_way(rng, D, H, merge="concat", **kwargs):
    return lrp.Bidirectional(lstm(rng, D, H, **kwargs), lstm(rng, D, H, **kwargs), merge)


ACTIVATIONS = st.sampled_from(
    [("tanh", "sigmoid")] * 6 + [("relu", "sigmoid"), ("linear", "hard_sigmoid"), ("tanh", "hard_sigmoid_3")]
)


@st.composite
def networks(
    draw,
    sizes=(1, 5),
    stacks=3,
    readouts=("last", "mean", "max", "every"),
    classes=3,
    dtype="float64",
    state=True,
    linear_top=False,
):
    """Any network the engine knows: stacks, directions, merges, Dense layers anywhere, readouts, initial states."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = st.integers(*sizes)
    width = draw(size)
    layers = []
    for _ in range(draw(st.integers(1, stacks))):
        if draw(st.integers(0, 5)) == 0:
            layers.append(dense(rng, width, draw(size), draw(st.sampled_from(["linear", "relu", "tanh"]))))
            width = layers[-1].outputs
        activation, recurrent = draw(ACTIVATIONS)
        options = {
            "bias": draw(st.booleans()),
            "state": state and draw(st.booleans()),
            "activation": activation,
            "recurrent_activation": recurrent,
        }
        if draw(st.booleans()):
            layers.append(two_way(rng, width, draw(size), draw(st.sampled_from(["concat", "sum", "mean"])), **options))
        else:
            layers.append(lstm(rng, width, draw(size), **options))
        width = layers[-1].outputs
    for _ in range(draw(st.integers(0, 1))):
        layers.append(dense(rng, width, draw(size), draw(st.sampled_from(["linear", "relu", "tanh"]))))
        width = layers[-1].outputs
    layers.append(dense(rng, width, classes))
    return lrp.Model(layers, readout=draw(st.sampled_from(readouts))).astype(dtype)


@st.composite
def inputs(draw, model, most=7, count=None):
    """Sequences for a model: one, or `count` of any lengths."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lengths = draw(st.lists(st.integers(1, most), min_size=count or 1, max_size=count or 1))
    sequences = [rng.normal(size=(T, model.inputs)).astype(model.dtype) for T in lengths]
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
