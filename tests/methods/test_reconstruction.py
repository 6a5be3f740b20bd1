"""Square and SumAll, and the reconstruction error of an autoencoder as a network."""

import os
import subprocess
import sys
from pathlib import Path

import laws
import networks as nets
import numpy as np
import pytest
from networks import close

import lrpnumpy as lrp
from examples.anomaly import windows

ROOT = Path(__file__).parents[2]


def autoencoder(rng, D=3, H=4, outputs=3, repeat=None, **settings):
    nodes = [
        lrp.Node("encoder", nets.lstm(rng, D, H), ("x",)),
        lrp.Node("repeat", lrp.layers.Repeat(repeat), ("encoder:last",) if repeat else ("encoder:last", "x")),
        lrp.Node("decoder", nets.gru(rng, H, H), ("repeat",)),
        lrp.Node("head", nets.dense(rng, H, outputs), ("decoder",)),
    ]
    return lrp.Model(nodes, **settings)


@pytest.mark.parametrize("mean", [False, True])
def test_the_error_is_that_of_the_reconstruction(rng, mean, tmp_path):
    """Its score, and the laws of every network: the input gets relevance both ways."""
    model = autoencoder(rng)
    error, xs = lrp.reconstruction_error(model, mean=mean), [rng.normal(size=(T, 3)) for T in (4, 1, 5)]
    for x, score in zip(xs, lrp.predict_all(error, xs), strict=True):
        squares = (x - lrp.predict(model, x)) ** 2
        close(score, [squares.mean() if mean else squares.sum()])
    assert error.classes == ("reconstruction error",) and error.output == "linear"
    laws.hold(error, xs, rng, tmp_path)


def test_relevance_comes_both_ways(rng):
    """With d = x - y what is compared gets x d, and the reconstruction y gets -y d, which goes through the network."""
    model, x, eps = autoencoder(rng), rng.normal(size=(5, 3)), 1e-12
    y = lrp.predict(model, x)
    d = x - y
    found = lrp.explain(lrp.reconstruction_error(model), x, "lrp-half", eps=eps)
    total = x * d
    for step, feature in np.ndindex(*y.shape):  # LRP is linear in what starts, which is y in this call
        total = (
            total - d[step, feature] * lrp.explain(model, x, "lrp-half", feature, step=step, eps=eps).feature_relevance
        )
    close(found.feature_relevance, total, 1e-6, np.abs(total).max() + found.ledger.largest)


def test_square_and_sum_restated(rng):
    nodes = [
        lrp.Node("cell", nets.lstm(rng, 3, 4), ("x",)),
        lrp.Node("square", lrp.layers.Square(), ("cell",)),
        lrp.Node("sum", lrp.layers.SumAll(), ("square",)),
    ]
    model, x, eps = lrp.Model(nodes), rng.normal(size=(5, 3)), 0.2
    h = lrp.predict(lrp.Model([nodes[0].layer], readout="every"), x)
    close(lrp.predict(model, x), [(h * h).sum()])
    found = lrp.explain(model, x, "lrp-prop", eps=eps, hidden=True)
    f = (h * h).sum()
    close(found.hidden[0].h[-1], h[-1] ** 2 / (f + eps) * f)


def test_a_vector_can_be_summed(rng):
    nodes = [
        lrp.Node("cell", nets.lstm(rng, 3, 4), ("x",)),
        lrp.Node("square", lrp.layers.Square(), ("cell:last",)),
        lrp.Node("sum", lrp.layers.SumAll(mean=True), ("square",)),
    ]
    laws.hold(lrp.Model(nodes), [rng.normal(size=(T, 3)) for T in (4, 1, 5)], rng)


def test_a_sigmoid_belongs_to_the_reconstruction(rng):
    """The scores of a model never include it, but what is compared does."""
    model = autoencoder(rng, output="sigmoid")
    x = rng.uniform(size=(5, 3))
    y = 1 / (1 + np.exp(-lrp.predict(model, x)))
    close(lrp.predict(lrp.reconstruction_error(model), x), [((x - y) ** 2).sum()])


def test_a_list_of_layers_and_names_that_are_taken(rng):
    chain = lrp.Model([nets.lstm(rng, 3, 4), nets.dense(rng, 4, 3)], readout="every", features=["a", "b", "c"])
    error, x = lrp.reconstruction_error(chain), rng.normal(size=(4, 3))
    close(lrp.predict(error, x), [((x - lrp.predict(chain, x)) ** 2).sum()])
    assert lrp.explain(error, x).features == ("a", "b", "c")
    nodes = [
        lrp.Node("difference", nets.lstm(rng, 3, 4), ("error",)),
        lrp.Node("square", nets.dense(rng, 4, 3), ("difference",)),
    ]
    error = lrp.reconstruction_error(lrp.Model(nodes, inputs={"error": lrp.Input(3)}))
    assert [node.name for node in error.nodes] == ["difference", "square", "difference_", "square_", "error_"]
    lrp.predict(error, x)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {"outputs": 2},
            "must give the 3 numbers of its input at every step, got one that gives 2 numbers at every step",
        ),
        (
            {"result": "encoder:last"},
            "must give the 3 numbers of its input at every step, got one that gives 4 numbers once",
        ),
    ],
)
def test_models_that_reconstruct_nothing(rng, settings, says):
    with pytest.raises(lrp.LrpError, match=says):
        lrp.reconstruction_error(autoencoder(rng, **settings))


def test_another_length_than_the_decoder_gives(rng):
    error = lrp.reconstruction_error(autoencoder(rng, repeat=4))
    lrp.explain(error, rng.normal(size=(4, 3)))
    with pytest.raises(lrp.LrpError, match="Subtract: inputs must have the same number of steps, got 5 and 4"):
        lrp.explain(error, rng.normal(size=(5, 3)))


def test_a_node_may_be_called_readout(rng, tmp_path):
    """Its biases are in the ledger, and a file holds it."""
    nodes = [lrp.Node("cell", nets.lstm(rng, 3, 4), ("x",)), lrp.Node("readout", nets.dense(rng, 4, 2), ("cell:last",))]
    model = lrp.Model(nodes)
    laws.the_ledger_adds_up(model, [rng.normal(size=(4, 3))], 0)
    laws.files_and_pickles_hold_it(model, tmp_path)
    assert "readout   Dense, 4 to 2" in str(lrp.inspect(tmp_path / "model.h5"))


def test_the_shipped_autoencoder_finds_odd_readings():
    """Three readings of one sensor are off: LRP has them among the three of largest relevance."""
    error, rng = lrp.reconstruction_error(lrp.load("pump")), np.random.default_rng(0)
    usual = lrp.predict_all(error, windows(rng, 200))
    odd = windows(rng, 50)
    starts, sensors = rng.integers(0, 22, 50), rng.integers(0, 3, 50)
    for window, start, sensor in zip(odd, starts, sensors, strict=True):
        window[start : start + 3, sensor] = 1.8
    found, right = lrp.explain_all(error, odd), 0
    for e, start, sensor in zip(found, starts, sensors, strict=True):
        assert e.scores[0] > usual.max()
        step, feature = np.unravel_index(np.argsort(-e.feature_relevance, axis=None)[:3], e.feature_relevance.shape)
        right += ((start <= step) & (step < start + 3) & (feature == sensor)).sum()
    assert right > 0.9 * 150  # by chance it would be 3 of 72


def test_the_example():
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "examples" / "anomaly.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert all("flow" in line for line in lines[2:5]) and len(lines) == 9
