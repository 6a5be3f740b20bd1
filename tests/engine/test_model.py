"""A model is nodes and a dict of inputs, however it was written."""

from dataclasses import replace

import networks as nets
import numpy as np
import pytest
from networks import close

import lrpnumpy as lrp


def test_a_list_of_layers_becomes_nodes(rng):
    lstm, head = nets.lstm(rng, 3, 4), nets.dense(rng, 4, 2)
    x = rng.normal(size=(5, 3))
    for readout, taken in (("last", "0:last"), ("mean", "readout"), ("every", "0")):
        model = lrp.Model([lstm, head], readout=readout)
        assert model.nodes[-1].name == model.result == "1" and model.nodes[-1].inputs == (taken,)
        same = lrp.Model(model.nodes, inputs=model.inputs)
        assert same.digest == model.digest
        close(lrp.predict(same, x), lrp.predict(model, x))
    scaled = lrp.Model([lstm, head], output_scaler=(1.0, 2.0))
    assert lrp.Model(scaled.nodes, output_scaler=(1.0, 2.0)).digest == scaled.digest
    for readout in ("last", "mean"):
        model = lrp.Model([lstm, head], readout=readout, inputs={"weather": lrp.Input(3)})
        assert model.main == "weather" and model.nodes[0].inputs == ("weather",)
        close(lrp.predict(model, x), lrp.predict(lrp.Model([lstm, head], readout=readout), x))


def test_the_names_of_nodes_do_not_change_the_digest(rng):
    lstm, head = nets.lstm(rng, 3, 4), nets.dense(rng, 4, 2)
    named = [lrp.Node("encoder", lstm, ("x",)), lrp.Node("head", head, ("encoder:last",))]
    steps = [lrp.Node("encoder", lstm, ("x",)), lrp.Node("head", head, ("encoder",))]
    assert lrp.Model(named).digest == lrp.Model([lstm, head]).digest != lrp.Model(steps).digest


def test_repeat_in_a_list_repeats_the_final_state(rng):
    encoder, decoder, head = nets.lstm(rng, 3, 4), nets.gru(rng, 4, 2), nets.dense(rng, 2, 3)
    model = lrp.Model([encoder, lrp.layers.Repeat(), decoder, head], readout="every")
    x = rng.normal(size=(5, 3))
    state = lrp.predict(lrp.Model([encoder]), x)
    close(lrp.predict(model, x), lrp.predict(lrp.Model([decoder, head], readout="every"), np.tile(state, (5, 1))))


def test_what_is_said_of_the_first_input_is_in_its_record(rng):
    layers, inputs = [nets.lstm(rng, 2, 3)], {"s": lrp.Input(4, steps=False), "x": lrp.Input(2)}
    model = lrp.Model(layers, features=["a", "b"], mask_value=-1, scaler=(0.0, 2.0))
    assert model.inputs["x"].features == model.features == ("a", "b")
    assert model.inputs["x"].mask_value == -1 and model.inputs["x"].scaler.scale == (2.0, 2.0)
    assert replace(model, inputs={"x": lrp.Input(2)}).features is None
    nodes = [lrp.Node("a", layers[0], ("x",)), lrp.Node("b", lrp.layers.Concat(), ("a:last", "s"))]
    assert lrp.Model(nodes, inputs=inputs, features=["a", "b"]).inputs["x"].features == ("a", "b")
    with pytest.raises(lrp.LrpError, match="unknown argument 'feature'; did you mean 'features'"):
        lrp.Model(layers, feature=["a", "b"])


def test_a_summary_is_one_screen(rng):
    layers = [nets.lstm(rng, 2, 3), nets.dense(rng, 3, 1)]
    model = lrp.Model(layers, "mean", features=["rain", "<b>"], classes=["level"], output_unit="m", window=30)
    lines = model.summary().split("\n")
    assert lines == [
        "  x         2 features per step: rain, <b>",
        "  0         LSTM, 2 to 3, tanh, gates i f g o  3 per step   of x",
        "  readout   Mean                               3            of 0",
        "  1         Dense, 3 to 1, linear              1            of readout",
        "  scores    1 from 1: level in m",
        "  window    30 steps, as in training",
        "  method    deeplift by default",
        "  weights   82 in float64",
    ]
    assert repr(model) == "Model(x: 2 → LSTM, Mean, Dense → 1; 82 weights, float64)"
    assert repr(model.summary()) == str(model.summary()) and "&lt;b&gt;" in model._repr_html_()


def test_window_and_default_method(rng, tmp_path):
    model = lrp.Model([nets.lstm(rng, 2, 3)], window=365, default_method="lrp-all")
    lrp.save(model, tmp_path / "model.h5")
    again = lrp.load(tmp_path / "model.h5")
    assert (again.window, again.default_method) == (365, "lrp-all") and again.digest == model.digest
    assert "lrp-all by default" in model.summary() and model.astype("float32").window == 365
    assert lrp.load("river").window == 365 and lrp.load("sentiment").window is None
    for wrong in ({"window": 0}, {"window": 2.5}, {"default_method": 3}):
        with pytest.raises(lrp.LrpError, match=next(iter(wrong))):
            lrp.Model([nets.lstm(rng, 2, 3)], **wrong)
