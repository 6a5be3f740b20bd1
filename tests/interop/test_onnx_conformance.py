"""The recurrent conformance cases that the package onnx generates: LSTM, GRU and RNN, with their expected outputs.

There the weights are inputs; `constants` makes them what they are in a network. A layer that lrpnumpy does not have
must be refused, never computed otherwise.
"""

import warnings

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import numpy_helper  # noqa: E402
from onnx.backend.test.case.node import collect_testcases  # noqa: E402

import lrpnumpy as lrp  # noqa: E402


def recurrent():
    """The cases by name, with the model, the values of its inputs by name, and the expected outputs by name."""
    found = {}
    for case in collect_testcases(None):
        if not case.name.startswith(("test_lstm", "test_gru", "test_rnn", "test_simple_rnn")):
            continue
        graph = case.model.graph
        (inputs, outputs), *_ = case.data_sets
        given = {port.name: as_array(one) for port, one in zip(graph.input, inputs, strict=True)}
        wanted = {port.name: as_array(one) for port, one in zip(graph.output, outputs, strict=True)}
        found[case.name.removeprefix("test_")] = (case.model, given, wanted)
    return found


def as_array(value):
    return value if isinstance(value, np.ndarray) else numpy_helper.to_array(value)


CASES = recurrent()


def test_there_are_cases_of_every_kind():
    text = " ".join(CASES)
    for part in ("lstm_defaults", "with_peepholes", "initial_bias", "batchwise", "gru", "seq_length", "simple_rnn"):
        assert part in text


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("output", [0, 1])
def test_outputs_are_those_of_onnx(name, output, tmp_path):
    model, given, wanted = CASES[name]
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    which = [*wanted][min(output, len(wanted) - 1)]
    (_, x), *constants = given.items()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = lrp.load(path, constants=dict(constants), which=which if len(wanted) > 1 else None)
    first = bool(next((a.i for a in model.graph.node[0].attribute if a.name == "layout"), 0))
    batch = x if first else x.swapaxes(0, 1)
    want = wanted[which]
    steps = want.ndim == 4  # Y, with an axis for the directions
    if not first:
        want = want.transpose(2, 0, 1, 3) if steps else want.swapaxes(0, 1)
    for sequence, expected in zip(batch, want, strict=True):
        np.testing.assert_allclose(lrp.predict(found, sequence).reshape(expected.shape), expected, rtol=0, atol=1e-5)
