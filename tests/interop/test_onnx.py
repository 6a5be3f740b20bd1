"""What PyTorch's two exporters and tf2onnx write, against the scores of onnxruntime, to 1e-5 of the largest."""

import os

import numpy as np
import pytest

import lrpnumpy as lrp

torch = pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
from interop import onnxzoo as zoo  # noqa: E402

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
X = torch.randn(2, 7, zoo.FEATURES, generator=torch.Generator().manual_seed(3))
TODAY = [  # an export takes seconds; the plain RNN is written out step by step, see below
    "LSTM last step", "GRU last step", "LSTM h_n", "LSTM two directions", "GRU two directions", "start states", "conv",
    "BatchNorm", "LayerNorm", "every step", "head", "residual", "sequence to sequence", "softmax",
]  # fmt: skip


def compare(path, inputs):
    """Scores of the first sequence of a batch."""
    xs = [x.numpy() for x in inputs]
    want = zoo.scores(path, xs)
    zoo.agree(zoo.ours(path, [x[0] for x in xs]), np.exp(want) if "log_softmax" in path.name else want)


def made(name, tmp_path, dynamo, **more):
    path = tmp_path / f"{name}.onnx"
    zoo.export({**zoo.SERIES, **zoo.FIXED}[name], [X], path, dynamo, fixed=name in zoo.FIXED, **more)
    return path


@pytest.mark.parametrize("name", [*zoo.SERIES, *zoo.FIXED])
def test_the_older_exporter(name, tmp_path):
    compare(made(name, tmp_path, dynamo=False), [X])


@pytest.mark.parametrize("opset", [9, 11, 13, 15, 20])
@pytest.mark.parametrize("name", ["LSTM two directions", "conv", "sum of two directions", "start states"])
def test_the_older_exporter_for_older_versions(name, opset, tmp_path):
    compare(made(name, tmp_path, dynamo=False, opset_version=opset), [X])


@pytest.mark.parametrize("name", TODAY)
def test_the_exporter_of_today(name, tmp_path):
    pytest.importorskip("onnxscript")
    path = made(name, tmp_path, dynamo=True)
    assert path.with_name(f"{path.name}.data").exists()
    compare(path, [X])


@pytest.mark.parametrize("dynamo", [False, True])
def test_an_embedding_and_two_inputs(dynamo, tmp_path):
    if dynamo:
        pytest.importorskip("onnxscript")
    ids = torch.randint(0, 9, (2, 7), generator=torch.Generator().manual_seed(3))
    words = zoo.Net(zoo.embedded, table=torch.nn.Embedding(9, 5), rnn=zoo.cell("LSTM", 5), head=zoo.head())
    zoo.export(words, [ids], tmp_path / "words.onnx", dynamo)
    compare(tmp_path / "words.onnx", [ids])
    both = zoo.Net(zoo.two_inputs, rnn=zoo.cell("LSTM"), dense=torch.nn.Linear(2, 3), head=zoo.head(zoo.UNITS + 3))
    static = torch.randn(2, 2, generator=torch.Generator().manual_seed(4))
    zoo.export(both, [X, static], tmp_path / "both.onnx", dynamo)
    compare(tmp_path / "both.onnx", [X, static])


@pytest.mark.parametrize("call", ["with_states", "packed", "by_length"])
def test_inputs_that_are_left_out(call, tmp_path):
    """Start states, and lengths of sequences, one of which is shorter."""
    path, rnn = tmp_path / "model.onnx", zoo.cell("LSTM", num_layers=2)
    module = zoo.Net(getattr(zoo, call), rnn=rnn, head=zoo.head())
    other = [torch.zeros(2, 2, zoo.UNITS)] * 2 if call == "with_states" else [torch.tensor([5, 7])]
    zoo.export(module, [X, *other], path, dynamo=False)
    with pytest.warns(lrp.AssumptionWarning, match="is left out"):
        lrp.load(path)
    short = X[0].numpy() if call == "with_states" else X[0, :5].numpy()
    zoo.agree(zoo.ours(path, [short]), zoo.scores(path, [x.numpy() for x in (X, *other)]))


def test_a_batch_of_one_without_open_axes(tmp_path):
    """What `torch.onnx.export(model, x, path)` writes, without another word."""
    for name in ("LSTM last step", "squeezed", "horizon"):
        path = tmp_path / f"{name}.onnx"
        zoo.export(zoo.SERIES[name], [X[:1]], path, dynamo=False, fixed=True)
        compare(path, [X[:1]])


def test_layers_written_out_step_by_step(tmp_path):
    pytest.importorskip("onnxscript")
    path = made("RNN last step", tmp_path, dynamo=True)
    with pytest.raises(lrp.WeightFileError, match="export the model with dynamo=False"):
        lrp.load(path)


def test_a_projection_that_the_exporter_of_today_writes_wrongly(tmp_path):
    pytest.importorskip("onnxscript")
    cell = torch.nn.LSTM(zoo.FEATURES, 5, proj_size=2, batch_first=True)
    module = zoo.Net(lambda net, x: net.head(net.rnn(x)[0][:, -1]), rnn=cell, head=torch.nn.Linear(2, 2))
    zoo.export(module, [X], tmp_path / "model.onnx", dynamo=True)
    with pytest.raises(lrp.WeightFileError, match="has a start state of shape"):
        lrp.load(tmp_path / "model.onnx")


def keras_models(keras):
    """What tf2onnx has something of its own for."""
    L = keras.layers

    def chain(*layers, shape=(8, 3), dtype=None):
        return keras.Sequential([keras.Input(shape, dtype=dtype), *layers])

    def series(units):
        return L.LSTM(units, return_sequences=True)

    def two_inputs():
        series, static = keras.Input((8, 3)), keras.Input((5,))
        joined = L.Concatenate()([L.LSTM(4)(series), L.Dense(3, activation="relu")(static)])
        return keras.Model([series, static], L.Dense(2)(joined))

    return {
        "LSTM": lambda: chain(L.LSTM(4), L.Dense(2)),
        "GRU": lambda: chain(L.GRU(4), L.Dense(2)),
        "stacked": lambda: chain(series(4), L.LSTM(3), L.Dense(5, "relu"), L.Dense(1), shape=(None, 3)),
        "two directions": lambda: chain(
            L.Bidirectional(series(4)), L.Bidirectional(L.GRU(3)), L.Dense(2, "softmax")),
        "conv": lambda: chain(L.Conv1D(5, 3, 1, "same", activation="relu"), L.MaxPooling1D(2), L.LSTM(4), L.Dense(2)),
        "causal": lambda: chain(L.Conv1D(5, 3, padding="causal"), L.BatchNormalization(), L.LSTM(4), L.Dense(2)),
        "norms": lambda: chain(series(4), L.LayerNormalization(), L.GRU(4), L.BatchNormalization(),
                               L.Dense(3, "tanh"), L.BatchNormalization(), L.Dense(1, "sigmoid")),
        "embedding": lambda: chain(L.Embedding(20, 6), L.LSTM(4), L.Dense(3, "softmax"), shape=(8,), dtype="int32"),
        "autoencoder": lambda: chain(
            L.LSTM(4), L.RepeatVector(8), series(4), L.TimeDistributed(L.Dense(3))),
        "pools": lambda: chain(L.AveragePooling1D(2), series(4), L.GlobalMaxPooling1D(), L.Dense(2)),
        "two inputs": two_inputs,
        "loop": lambda: chain(L.SimpleRNN(4), L.Dense(2)),
    }  # fmt: skip


TENSORFLOW = [
    "LSTM", "GRU", "stacked", "two directions", "conv", "causal", "norms", "embedding", "autoencoder", "pools",
    "two inputs", "loop",
]  # fmt: skip
OTHERS = [(name, opset) for opset in (9, 17) for name in ("LSTM", "two directions", "conv", "norms")]


@pytest.mark.parametrize("name, opset", [*((name, 13) for name in TENSORFLOW), *OTHERS])
def test_tf2onnx(name, opset, tmp_path):
    tf = pytest.importorskip("tensorflow")
    keras, tf2onnx = pytest.importorskip("tf_keras"), pytest.importorskip("tf2onnx")
    keras.utils.set_random_seed(1)
    model, rng = keras_models(keras)[name](), np.random.default_rng(2)
    model.set_weights([w + rng.uniform(0.1, 0.5, w.shape) for w in model.get_weights()])
    path = tmp_path / "model.onnx"
    signature = [tf.TensorSpec([None, *one.shape[1:]], one.dtype, name=f"in{k}") for k, one in enumerate(model.inputs)]
    call = tf.function(lambda *xs: model(list(xs) if len(xs) > 1 else xs[0], training=False))
    tf2onnx.convert.from_function(call, input_signature=signature, opset=opset, output_path=str(path))
    if name == "loop":
        with pytest.raises(lrp.WeightFileError, match=r"is a loop.*load the file of Keras"):
            lrp.load(path)
        return
    xs = [rng.normal(size=[2, *(n or 8 for n in one.shape[1:])]).astype(np.float32) for one in model.inputs]
    if name == "embedding":
        xs = [rng.integers(0, 20, (2, 8)).astype(np.int32)]
    zoo.agree(zoo.ours(path, [x[0] for x in xs]), zoo.scores(path, xs))
