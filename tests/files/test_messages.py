"""Errors say what is wrong, what was given and what to do: with names that a user knows, and not too many of them."""

import json

import h5py
import numpy as np
import pytest

import lrpnumpy as lrp
from lrpnumpy.files.safe import Source, nearby


def message(call, *args, **kwargs):
    with pytest.raises(lrp.LrpError) as caught:
        call(*args, **kwargs)
    return str(caught.value)


class Module:
    """As much of a module of PyTorch as its name says."""

    def state_dict(self):
        return {}


class KerasModel:
    """As much of a model of Keras as its name says."""

    def get_config(self):
        return {}


def test_the_right_function_is_named():
    assert "lrp.from_torch takes a module" in message(lrp.load, Module())
    assert "lrp.from_torch takes a module" in message(lrp.load, {"lstm.weight_ih_l0": np.ones((4, 1))})
    assert "lrp.from_keras a model of Keras" in message(lrp.load, KerasModel())
    assert "open a file by lrp.load" in message(lrp.from_torch, "model.pt")
    assert "open a file by lrp.load" in message(lrp.from_keras, "model.h5")
    model = lrp.Model([lrp.RNN(np.ones((3, 2)), np.ones((3, 3))), lrp.Dense(np.ones((2, 3)))])
    for call in (lrp.explain, lrp.predict):
        assert "a batch of sequences is for explain_all and predict_all" in message(call, model, np.ones((4, 5, 2)))
    assert "is for explain_all" in message(lrp.explain, lrp.load("sentiment"), np.ones((4, 5), int))


def keras_file(path, kind):
    layers = [{"class_name": kind, "config": {"name": "odd", "units": 3}}]
    with h5py.File(path, "w") as file:
        file.attrs["model_config"] = json.dumps({"class_name": "Sequential", "config": {"layers": layers}})
        file.attrs["layer_names"] = np.array(["odd"], "S")
        file.create_group("odd").attrs["weight_names"] = np.array([], "S")
    return path


@pytest.mark.parametrize("kind", ["Conv2D", "LSTMv2", "GroupedQueryAttention", "Zzz"])
def test_at_most_three_supported_layers_are_named(tmp_path, kind):
    text = message(lrp.load, keras_file(tmp_path / "model.h5", kind))
    assert f"'odd' of the class '{kind}'" in text and f"custom={{'{kind}': f}}" in text
    assert len(text.partition("close to it: ")[2].split(",")) <= 3
    assert len(text) < 500 + len(str(tmp_path))
    if kind == "Conv2D":
        assert "Conv1D" in text.partition("close to it: ")[2]


def test_names_that_are_close():
    assert nearby("conv2d", ["Dense", "Conv1D"]) == "; supported and close to it: Conv1D"
    assert nearby("zzz", ["Dense", "Conv1D"]) == ""
    assert nearby("Greater", ["Gather", "GatherND", "Reshape"]) == nearby("GroupNorm", ["GRU"]) == ""
    assert nearby("LSTM", ["Softmax", "Cast"]) == ""
    assert nearby("PeepholeLSTM", ["Dense", "LSTM"]) == "; supported and close to it: LSTM"
    assert nearby("swish", ["mish", "silu"]) == "; supported and close to it: silu"
    assert nearby("relu", ["relu6", "prelu", "leaky_relu", "relu"]).count(",") == 2


@pytest.mark.parametrize(
    "error",
    [IndexError("list index out of range"), KeyError("a"), ValueError("cannot reshape array of size 3 into shape (2,)"),
     UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), OSError(2, "No such file or directory")],
)  # fmt: skip
def test_no_error_of_python_reaches_the_user(error):
    source = Source("model.h5")
    with pytest.raises(lrp.WeightFileError) as caught, source.guard("lstm"):
        raise error
    text = str(caught.value)
    assert text.startswith("model.h5: lstm: cannot be read (")
    assert not any(word in text for word in ("Error", "reshape", "index out of range"))


def test_words_that_are_not_text(tmp_path):
    path = tmp_path / "words.txt"
    path.write_bytes(b"good\n\xff\xfe\n")
    text = message(lrp.load, "sentiment", vocabulary=path)
    assert "UnicodeDecodeError" not in text and "not UTF-8" in text
