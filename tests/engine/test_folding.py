"""Affine layers inside their neighbors: the same scores and gradients, and LRP of the smaller network."""

import networks as nets
import numpy as np
import pytest
from networks import close

import lrpnumpy as lrp
from lrpnumpy.folding import folded


def affine(rng, M, **settings):
    return lrp.layers.Affine(rng.uniform(0.5, 2, M) * rng.choice([-1, 1], M), rng.normal(size=M), **settings)


def same(model, small, x):
    """Scores, gradients and occlusion agree, and the weights of the two networks do not."""
    assert small.digest != model.digest
    close(lrp.predict(small, x), lrp.predict(model, x))
    for method in ("gradient", "gradient-x-input", "occlusion-f"):
        close(lrp.explain(small, x, method, 1).relevance, lrp.explain(model, x, method, 1).relevance, 1e-11)


def conv(rng, inputs, outputs, **settings):
    K = rng.normal(size=(outputs, 2, inputs // settings.get("groups", 1)))
    return lrp.layers.Conv1D(K, rng.normal(size=outputs), **settings)


CHAINS = {
    "before a Conv1D": lambda rng: [affine(rng, 3), conv(rng, 3, 4, activation="tanh"), nets.lstm(rng, 4, 2)],
    "before groups": lambda rng: [
        nets.dense(rng, 3, 4, "tanh"),
        affine(rng, 4),
        conv(rng, 4, 6, groups=2),
        nets.lstm(rng, 6, 2),
    ],
    "after a Conv1D": lambda rng: [conv(rng, 3, 4, padding="same"), affine(rng, 4), nets.lstm(rng, 4, 2)],
    "before an LSTM": lambda rng: [affine(rng, 3), nets.lstm(rng, 3, 4, state=True), nets.dense(rng, 4, 2)],
    "before two directions": lambda rng: [affine(rng, 3), nets.two_way(rng, 3, 4), nets.dense(rng, 8, 2)],
    "between LSTM and Dense": lambda rng: [nets.lstm(rng, 3, 4), affine(rng, 4), nets.dense(rng, 4, 2, "tanh")],
    "after a Dense layer": lambda rng: [nets.dense(rng, 3, 4), affine(rng, 4), nets.lstm(rng, 4, 2)],
    "at the end": lambda rng: [nets.lstm(rng, 3, 4), nets.dense(rng, 4, 2), affine(rng, 2)],
    "two in a row": lambda rng: [nets.lstm(rng, 3, 4), affine(rng, 4), affine(rng, 4), nets.dense(rng, 4, 2)],
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("readout", ["last", "mean", "every"])
def test_it_is_the_same_network(rng, name, readout):
    model = lrp.Model(CHAINS[name](rng), readout=readout)
    small = folded(model)
    assert not any(isinstance(layer, lrp.layers.Affine) for layer in small.layers)
    assert nets.readout(small) == readout and "into" in small.provenance["folded"]
    same(model, small, rng.normal(size=(6, 3)))


def test_relevance_is_that_of_the_folded_weights(rng):
    norm, cell, head = affine(rng, 3), nets.lstm(rng, 3, 4), nets.dense(rng, 4, 2)
    by_hand = lrp.LSTM(cell.U * norm.s, cell.W, cell.b + cell.U @ norm.t)
    small, x = folded(lrp.Model([norm, cell, head])), rng.normal(size=(5, 3))
    assert small.digest == lrp.Model([by_hand, head]).digest
    assert (lrp.explain(small, x).relevance == lrp.explain(lrp.Model([by_hand, head]), x).relevance).all()


def test_what_cannot_be_folded_stays(rng):
    """An activation in between, padding, a layer that others take as well, and a scaler of the inputs."""
    chain = [nets.dense(rng, 3, 4, "relu"), affine(rng, 4), lrp.layers.Activation("tanh"), nets.lstm(rng, 4, 2)]
    assert folded(model := lrp.Model(chain)) is model
    chain = [affine(rng, 3), conv(rng, 3, 4, padding="causal"), nets.lstm(rng, 4, 2)]
    assert folded(model := lrp.Model(chain)) is model
    chain = [conv(rng, 3, 4, activation="relu"), affine(rng, 4), lrp.layers.Activation("relu"), nets.lstm(rng, 4, 2)]
    assert folded(model := lrp.Model(chain)) is model
    scaled = lrp.Model([affine(rng, 3, scaler=True), affine(rng, 3), nets.lstm(rng, 3, 4), nets.dense(rng, 4, 2)])
    small = folded(scaled)
    assert isinstance(small.layers[0], lrp.layers.Affine) and len(small.layers) == 3
    assert (small.layers[0].s == scaled.layers[0].s).all()
    same(scaled, small, rng.normal(size=(4, 3)))
    assert folded(small) is small


@pytest.mark.parametrize("taken_twice", [False, True])
def test_a_graph(rng, taken_twice):
    """A Dense layer that two layers take is not changed; where all takers of the Affine layer can, they are."""
    nodes = [
        lrp.Node("dense", nets.dense(rng, 3, 4), ("x",)),
        lrp.Node("norm", affine(rng, 4), ("dense",)),
        lrp.Node("right", nets.lstm(rng, 4, 4), ("norm",)),
        lrp.Node("left", nets.lstm(rng, 4, 4), ("dense" if taken_twice else "norm",)),
        lrp.Node("both", nets.two_way(rng, 4, 2, "sum"), ("right",)),
        lrp.Node("norm2", affine(rng, 4), ("left:last",)),
        lrp.Node("head", nets.dense(rng, 4, 2), ("norm2",)),
        lrp.Node("tail", affine(rng, 2), ("head",)),
    ]
    model = lrp.Model(nodes)
    small, x = folded(model), rng.normal(size=(5, 3))
    assert [node.name for node in small.nodes] == ["dense", "right", "left", "both", "head"]
    assert small.result == "head"
    place = "right" if taken_twice else "dense"
    assert small.provenance["folded"] == f"norm into {place}; norm2 into head; tail into head"
    same(model, small, x)
    with pytest.raises(AssertionError):  # the comparison can fail
        same(model, lrp.Model(small.nodes, result="right:last"), x)


def test_a_start_state_is_no_input_of_U(rng):
    nodes = [
        lrp.Node("dense", nets.dense(rng, 3, 4, "tanh"), ("static",)),
        lrp.Node("norm", affine(rng, 4), ("dense",)),
        lrp.Node("rnn", lrp.RNN(rng.normal(size=(1, 4, 3)), rng.normal(size=(1, 4, 4))), ("x", "norm")),
        lrp.Node("head", nets.dense(rng, 4, 2), ("rnn:last",)),
    ]
    model = lrp.Model(nodes, inputs={"x": lrp.Input(3), "static": lrp.Input(3, steps=False)})
    assert folded(model) is model


def test_float32_and_words_stay_what_they_are(rng):
    embedding = lrp.Embedding(rng.normal(size=(4, 3)).astype("float32"), vocabulary=["a", "b", "c", "d"])
    layers = [affine(rng, 3), nets.lstm(rng, 3, 4), nets.dense(rng, 4, 2)]
    model = lrp.Model(layers, embedding=embedding, classes=["no", "yes"]).astype("float32")
    small = folded(model)
    assert small.dtype == np.float32 and small.classes == ("no", "yes")
    close(lrp.predict(small, "a d b"), lrp.predict(model, "a d b"), 1e-5)
