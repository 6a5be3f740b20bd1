"""Keras models as their tutorials write them, small: each opens from its file, and its scores are those of Keras."""

import os
import warnings

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pytest

keras = pytest.importorskip("keras")
from keras import layers as L  # noqa: E402
from keras import ops  # noqa: E402

import lrpnumpy as lrp  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 8, 4)).astype("f4")
IDS = RNG.integers(1, 9, size=(3, 8))
PADDED = np.where(np.arange(8) < [[8], [5], [6]], IDS, 0)
EARLY = np.where(np.arange(8) >= [[0], [3], [2]], IDS, 0)
NUMBERS, WORDS = keras.Input((8, 4)), keras.Input((None,))


@keras.saving.register_keras_serializable()
class SimpleAttention(L.Layer):
    """tanh(x W + b) u, the usual one."""

    def build(self, shape):
        self.W = self.add_weight(shape=(shape[-1], 3), initializer="random_normal")
        self.b = self.add_weight(shape=(3,), initializer="random_normal")
        self.u = self.add_weight(shape=(3,), initializer="random_normal")

    def call(self, x):
        scores = ops.sum(ops.tanh(ops.matmul(x, self.W) + self.b) * self.u, axis=-1)
        return ops.sum(x * ops.expand_dims(ops.softmax(scores), -1), axis=1)


@keras.saving.register_keras_serializable()
class attention(L.Layer):
    """With a bias for each step, as it is passed from notebook to notebook."""

    def build(self, shape):
        self.W = self.add_weight(shape=(shape[-1], 1), initializer="random_normal")
        self.b = self.add_weight(shape=(shape[1], 1), initializer="random_normal")

    def call(self, x):
        scores = ops.squeeze(ops.tanh(ops.matmul(x, self.W) + self.b), -1)
        return ops.sum(x * ops.expand_dims(ops.softmax(scores), -1), axis=1)


@keras.saving.register_keras_serializable()
class MinimalCell(L.Layer):
    """h = tanh(x U + h W)."""

    def __init__(self, units, **more):
        super().__init__(**more)
        self.units = self.state_size = units

    def build(self, shape):
        self.U = self.add_weight(shape=(shape[-1], self.units), initializer="random_normal")
        self.W = self.add_weight(shape=(self.units, self.units), initializer="random_normal")

    def call(self, x, states):
        h = ops.tanh(ops.matmul(x, self.U) + ops.matmul(states[0], self.W))
        return h, [h]

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def simple(settings, arrays):
    W, b, u = arrays.values()
    return lrp.layers.AttentionPool(u, W.T, b)


def by_step(settings, arrays):
    W, b = arrays.values()
    return lrp.layers.AttentionPool([1.0], W.T, b)


def minimal(settings, arrays):
    U, W = arrays.values()
    return lrp.RNN(U.T, W.T)


def model(call, start=NUMBERS):
    """A functional model of one input; a function of keras.Input."""
    inputs = keras.Input(start.shape[1:])
    return keras.Model(inputs, call(inputs))


def words(*layers, mask=False):
    return keras.Sequential([keras.Input((None,)), L.Embedding(10, 4, mask_zero=mask), *layers])


def called(network, x):
    """A model that has its arrays since it was called."""
    network(x)
    return network


def two(call, *shapes):
    inputs = [keras.Input(shape) for shape in shapes]
    return keras.Model(inputs, call(*inputs))


def heads(x):
    h = L.LSTM(4)(x)
    return {"priority": L.Dense(1, name="priority")(h), "department": L.Dense(3, name="department")(h)}


def seq2seq(enc, dec):
    _, h, c = L.LSTM(4, return_state=True)(enc)
    out, _, _ = L.LSTM(4, return_sequences=True, return_state=True)(dec, initial_state=[h, c])
    return L.Dense(3, activation="softmax")(out)


def luong(enc, dec):
    keys = L.LSTM(4, return_sequences=True)(enc)
    queries = L.LSTM(4, return_sequences=True)(dec)
    weights = L.Activation("softmax")(L.Dot(axes=(2, 2))([queries, keys]))
    context = L.Dot(axes=(2, 1))([weights, keys])
    return L.Dense(2)(L.Concatenate()([context, queries]))


def last_state_asks(x):
    out, h, _ = L.LSTM(4, return_sequences=True, return_state=True)(x)
    weights = L.Activation("softmax")(L.Dot(axes=(2, 1))([out, h]))
    return L.Dense(2)(L.Dot(axes=(1, 1))([weights, out]))


def classic_attention(x, total=lambda v: ops.sum(v, axis=1)):
    out = L.LSTM(4, return_sequences=True)(x)
    a = L.Flatten()(L.Dense(1, activation="tanh")(out))
    a = L.Permute([2, 1])(L.RepeatVector(4)(L.Activation("softmax")(a)))
    return L.Dense(2)(total(L.Multiply()([out, a])))


def siamese(a, b):
    shared = L.LSTM(3)
    return L.Dense(1, activation="sigmoid")(L.Concatenate()([shared(a), shared(b)]))


def states(x):
    _, h, c = L.LSTM(3, return_state=True)(x)
    return L.Dense(2)(L.Concatenate()([h, c]))


def attentive(ids):
    h = L.LSTM(4, return_sequences=True)(L.Embedding(10, 4, mask_zero=True)(ids))
    return L.Dense(2)(L.GlobalAveragePooling1D()(L.Attention()([h, h])))


def words_and_numbers(ids, numbers):
    return L.Dense(2)(L.LSTM(4)(L.Concatenate()([L.Embedding(10, 4, mask_zero=True)(ids), numbers])))


def transformer_like(x):
    h = L.LSTM(4, return_sequences=True)(x)
    h = L.LayerNormalization()(h + L.MultiHeadAttention(2, 3)(h, h))
    return L.Dense(2)(L.GlobalAveragePooling1D()(h))


def residual(x):
    h = L.LSTM(4, return_sequences=True)(x)
    return L.Dense(2)(L.LSTM(4)(x + h))


def places(inputs):
    h = L.TimeDistributed(L.Conv1D(5, 3, activation="relu"))(inputs)
    h = L.TimeDistributed(L.Flatten())(L.TimeDistributed(L.MaxPooling1D(2))(h))
    return L.Dense(1)(L.LSTM(4)(h))


def wide_places(inputs):
    """Padding, strides, means and all places together."""
    h = L.TimeDistributed(L.Conv1D(5, 3, strides=2, padding="same"))(inputs)
    h = L.TimeDistributed(L.AveragePooling1D(3, 2, padding="same"))(h)
    return L.Dense(1)(L.LSTM(4)(L.TimeDistributed(L.GlobalMaxPooling1D())(h)))


def bidirectional(mode, steps=False):
    def call(x):
        h = L.Bidirectional(L.LSTM(3, return_sequences=steps), merge_mode=mode)(x)
        h = L.Concatenate()(h) if mode is None else h
        return L.Dense(2)(h)

    return lambda: (model(call), X)


def chain(layers, x=X):
    return lambda: (keras.Sequential([keras.Input((8, 4)), *layers()]), x)


CASES = {
    "bidirectional IMDB": lambda: (
        words(
            L.Bidirectional(L.LSTM(3, return_sequences=True)),
            L.Bidirectional(L.LSTM(3)),
            L.Dense(1, activation="sigmoid"),
        ),
        IDS,
    ),
    "weather": lambda: (model(lambda x: L.Dense(1)(L.LSTM(4)(x))), X),
    "seq2seq, states passed": lambda: (two(seq2seq, (8, 4), (5, 2)), [X, X[:, :5, :2]]),
    "CNN-LSTM with places": lambda: (model(places, keras.Input((2, 8, 3))), RNG.normal(size=(3, 2, 8, 3)).astype("f4")),
    "CNN-LSTM, other settings": lambda: (
        model(wide_places, keras.Input((3, 7, 2))),
        RNG.normal(size=(3, 3, 7, 2)).astype("f4"),
    ),
    "Conv1D, MaxPool, GRU": chain(lambda: [L.Conv1D(5, 3, activation="relu"), L.MaxPooling1D(2), L.GRU(4), L.Dense(1)]),
    "custom attention": lambda: (
        model(lambda x: L.Dense(2)(SimpleAttention()(L.LSTM(4, return_sequences=True)(x)))),
        X,
        {"custom": {"SimpleAttention": simple}},
    ),
    "a bias for each step": lambda: (
        model(lambda x: L.Dense(2)(attention()(L.LSTM(4, return_sequences=True)(x)))),
        X,
        {"custom": {"attention": by_step}},
    ),
    "classic attention": lambda: (model(classic_attention), X),
    "classic attention, with a Lambda": lambda: (
        model(lambda x: classic_attention(x, L.Lambda(lambda v: ops.sum(v, axis=1), output_shape=(4,)))),
        X,
        {"custom": {"Lambda": lambda settings, arrays: lrp.layers.Sum()}},
    ),
    "several outputs": lambda: (model(heads), X, {"which": "priority"}),
    "siamese": lambda: (two(siamese, (8, 4), (8, 4)), [X, X[::-1].copy()]),
    "Luong": lambda: (two(luong, (8, 4), (5, 4)), [X, X[:, :5]]),
    "the last state is the query": lambda: (model(last_state_asks), X),
    "stateful": lambda: (
        keras.Sequential([keras.Input(batch_shape=(3, 8, 4)), L.LSTM(4, stateful=True), L.Dense(1)]),
        X,
    ),
    "padding behind": lambda: (words(L.LSTM(4, return_sequences=True), L.LSTM(3), L.Dense(1), mask=True), PADDED),
    "padding before": lambda: (words(L.Bidirectional(L.GRU(3)), L.Dense(1), mask=True), EARLY),
    "mask and Attention": lambda: (model(attentive, WORDS), PADDED),
    "words with a mask, and numbers": lambda: (two(words_and_numbers, (8,), (8, 2)), [IDS, X[:, :, :2]]),
    "padded words, and numbers": lambda: (two(words_and_numbers, (8,), (8, 2)), [PADDED, X[:, :, :2]]),
    "return_state": lambda: (model(states), X),
    "norms between": chain(
        lambda: [
            L.LSTM(4, return_sequences=True),
            L.BatchNormalization(),
            L.Dropout(0.2),
            L.LSTM(4),
            L.LayerNormalization(),
            L.Dense(1),
        ]
    ),
    **{f"Bidirectional {mode}": bidirectional(mode) for mode in ("concat", "sum", "mul", "ave", None)},
    **{f"Bidirectional {mode} at every step": bidirectional(mode, True) for mode in ("concat", "sum", "mul", "ave")},
    "autoencoder": chain(
        lambda: [L.LSTM(4), L.RepeatVector(8), L.LSTM(4, return_sequences=True), L.TimeDistributed(L.Dense(4))]
    ),
    "multi-horizon": chain(lambda: [L.LSTM(4), L.Dense(6), L.Reshape((3, 2))]),
    "MultiHeadAttention, residual": lambda: (model(transformer_like), X),
    "RNN of cells": chain(lambda: [L.RNN([L.LSTMCell(3), L.LSTMCell(2)]), L.Dense(1)]),
    "residual by an operator": lambda: (model(residual), X),
    "Sequential without Input": lambda: (called(keras.Sequential([L.LSTM(4), L.Dense(1)]), X), X),
    "mask and backwards": lambda: (words(L.LSTM(4, go_backwards=True), L.Dense(1), mask=True), PADDED),
    "mask and the mean": lambda: (
        words(L.GRU(4, return_sequences=True), L.GlobalAveragePooling1D(), L.Dense(1), mask=True),
        PADDED,
    ),
    "causal, dilated": chain(
        lambda: [L.Conv1D(5, 2, dilation_rate=2, padding="causal", activation="relu"), L.LSTM(3), L.Dense(1)]
    ),
    "a cell of one's own": lambda: (
        model(lambda x: L.Dense(1)(L.RNN(MinimalCell(3))(x))),
        X,
        {"custom": {"RNN": minimal}},
    ),
    "SeparableConv1D": chain(
        lambda: [L.SeparableConv1D(6, 3, depth_multiplier=2, padding="same", activation="relu"), L.LSTM(3), L.Dense(1)]
    ),
    "DepthwiseConv1D": chain(
        lambda: [L.DepthwiseConv1D(3, strides=2, depth_multiplier=2, activation="relu"), L.LSTM(3), L.Dense(1)]
    ),
    "GroupNormalization": chain(lambda: [L.GroupNormalization(2), L.LSTM(4), L.GroupNormalization(2), L.Dense(1)]),
    "instance normalization": chain(lambda: [L.GroupNormalization(-1), L.LSTM(4), L.Dense(1)]),
    "RMSNormalization": chain(
        lambda: [L.RMSNormalization(), L.LSTM(4, return_sequences=True), L.RMSNormalization(), L.LSTM(3), L.Dense(1)]
    ),
}


def shaken(network):
    """Arrays that are 0 or 1 at first, such as those of norms and biases, as others."""
    for variable in network.weights:
        if "seed" not in variable.path and variable.dtype.startswith("float"):
            noise = RNG.normal(0, 0.2, variable.shape)
            variable.assign(variable + (abs(noise) if "variance" in variable.path else noise))


def probability(found, scores):
    if found.output == "sigmoid":
        return 1 / (1 + np.exp(-scores))
    if found.output == "softmax":
        return np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    return scores


def scores_agree(found, network, x, tolerance=1e-5):
    want = network.predict(x, verbose=0, batch_size=3)
    want = want["priority"] if isinstance(want, dict) else want
    for k, expected in enumerate(want):
        given = [one[k] for one in x] if isinstance(x, list) else x[k]
        scores = probability(found, lrp.predict(found, given))
        np.testing.assert_allclose(scores.reshape(expected.shape), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("ending", ["keras", "h5"])
@pytest.mark.parametrize("name", CASES)
def test_scores_are_those_of_keras(name, ending, tmp_path):
    network, x, *hints = CASES[name]()
    if name == "stateful" and ending == "h5":
        pytest.skip("the first file has all that the second has")
    shaken(network)
    path = tmp_path / f"model.{ending}"
    network.save(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", lrp.AssumptionWarning)
        found = lrp.load(path, **(hints[0] if hints else {}))
    scores_agree(found, network, x)


TEXTS = ["A fine film, truly fine!", "a dull film", "what a film"]


def sentences(standardize):
    """A model with its vocabulary inside, and the same behind that layer."""
    vectorize = L.TextVectorization(standardize=standardize, output_sequence_length=6)
    vectorize.adapt(TEXTS)
    inner = keras.Sequential([keras.Input((6,)), L.Embedding(12, 4), L.LSTM(4), L.Dense(1)])
    start = keras.Input((1,), dtype="string")
    return vectorize, inner, keras.Model(start, inner(vectorize(start)))


def test_sentences_go_in(tmp_path):
    """TextVectorization inside the model: words and [UNK] are read from the file."""
    _, _, network = sentences("lower_and_strip_punctuation")
    network.save(tmp_path / "m.keras")
    found = lrp.load(tmp_path / "m.keras")
    want = network(keras.ops.convert_to_tensor([[text] for text in TEXTS])).numpy()
    np.testing.assert_allclose([lrp.predict(found, text) for text in TEXTS], want, rtol=0, atol=1e-5)


@keras.saving.register_keras_serializable()
def without_breaks(text):
    import tensorflow as tf

    return tf.strings.regex_replace(tf.strings.lower(text), "[!,]", "")


def test_a_custom_standardize_needs_the_model_behind_it(tmp_path):
    """The end-to-end model is refused, with the advice that works: save the inner model and pass the words."""
    vectorize, inner, network = sentences(without_breaks)
    network.save(tmp_path / "m.keras")
    with pytest.raises(lrp.WeightFileError, match="save the model behind this layer, which takes token ids"):
        lrp.load(tmp_path / "m.keras")
    inner.save(tmp_path / "inner.keras")
    words = vectorize.get_vocabulary()
    words += [f"<row {k}>" for k in range(len(words), 12)]

    def cut(text):
        return text.lower().replace("!", "").replace(",", "").split()

    hints = {"vocabulary": words, "unknown": "[UNK]", "tokenizer": cut, "pad": (6, "post", 0)}
    found = lrp.load(tmp_path / "inner.keras", **hints)
    want = network(keras.ops.convert_to_tensor([[text] for text in TEXTS])).numpy()
    np.testing.assert_allclose([lrp.predict(found, text) for text in TEXTS], want, rtol=0, atol=1e-5)


@keras.saving.register_keras_serializable()
class Subclassed(keras.Model):
    """As a tutorial on subclassing writes it."""

    def __init__(self):
        super().__init__()
        self.recurrent, self.dense = L.LSTM(4), L.Dense(1)

    def call(self, x):
        return self.dense(self.recurrent(x))


def test_a_subclassed_model_opens_as_a_functional_one(tmp_path):
    network = called(Subclassed(), X)
    network.save(tmp_path / "m.keras")
    with pytest.raises(lrp.WeightFileError, match="build a functional model"):
        lrp.load(tmp_path / "m.keras")
    inputs = keras.Input((8, 4))
    scores_agree(lrp.from_keras(keras.Model(inputs, network.call(inputs))), network, X)


@pytest.mark.parametrize("pool", [L.GlobalMaxPooling1D, L.Flatten])
def test_a_layer_that_sees_the_padding_is_warned_of(pool, tmp_path):
    inputs = keras.Input((8,))
    h = L.LSTM(4, return_sequences=True)(L.Embedding(10, 4, mask_zero=True)(inputs))
    network = keras.Model(inputs, L.Dense(1)(pool()(h)))
    network.save(tmp_path / "m.keras")
    with pytest.warns(lrp.AssumptionWarning, match="computes with it"):
        found = lrp.load(tmp_path / "m.keras")
    scores_agree(found, network, IDS)


def test_half_precision(tmp_path):
    """mixed_float16: arrays are float32, values of Keras float16."""
    keras.mixed_precision.set_dtype_policy("mixed_float16")
    try:
        network = keras.Sequential([keras.Input((8, 4)), L.LSTM(4), L.Dense(2, dtype="float32")])
        network.save(tmp_path / "m.keras")
        scores_agree(lrp.load(tmp_path / "m.keras"), network, X, 5e-3)
    finally:
        keras.mixed_precision.set_dtype_policy("float32")


@pytest.mark.parametrize("ending", ["keras", "h5", "weights"])
def test_keras_2(ending, tmp_path):
    """tf-keras writes whole models, and weights with their configuration beside them."""
    tf_keras = pytest.importorskip("tf_keras")
    layers = [tf_keras.Input((8, 4)), tf_keras.layers.GRU(4), tf_keras.layers.Dense(2, activation="softmax")]
    network, hints = tf_keras.Sequential(layers), {}
    path = tmp_path / f"m.{'h5' if ending == 'weights' else ending}"
    if ending == "weights":
        network.save_weights(path)
        hints["config"] = network.to_json()
    else:
        network.save(path)
    scores_agree(lrp.load(path, **hints), network, X)


def test_the_weights_of_a_subclassed_model_are_not_guessed_wrong(tmp_path):
    """Keras 3 has no program in a file of weights: scores are right, or there is a warning or an error."""

    network = Subclassed()
    want = network(X).numpy()
    network.save_weights(tmp_path / "m.weights.h5")
    with pytest.warns(lrp.AssumptionWarning):
        found = lrp.load(tmp_path / "m.weights.h5")
    np.testing.assert_allclose([lrp.predict(found, x) for x in X], want, rtol=0, atol=1e-5)


def test_what_reads_pictures_is_refused(tmp_path):
    inputs = keras.Input((4, 6, 6, 1))
    keras.Model(inputs, L.Flatten()(L.ConvLSTM2D(2, 3)(inputs))).save(tmp_path / "m.keras")
    with pytest.raises(lrp.WeightFileError, match="has layers of pictures, which are not supported"):
        lrp.load(tmp_path / "m.keras")


def test_a_saved_model_says_how_to_convert_it(tmp_path):
    network = keras.Sequential([keras.Input((8, 4)), L.LSTM(3)])
    network.export(tmp_path / "saved", verbose=False)
    with pytest.raises(lrp.WeightFileError, match=r"is a SavedModel of TensorFlow.*m\.save\('model\.h5'\)"):
        lrp.load(tmp_path / "saved")


# The tutorials by name, and which cases or tests above open them; an empty list is one that does not open.
TUTORIALS = {
    "TextVectorization inside": [test_sentences_go_in],
    "text classification from scratch, custom standardize": [test_a_custom_standardize_needs_the_model_behind_it],
    "bidirectional IMDB": ["bidirectional IMDB"],
    "weather": ["weather"],
    "seq2seq of characters": ["seq2seq, states passed"],
    "ConvLSTM2D": [],
    "video: TimeDistributed(Conv2D)": [],
    "CNN-LSTM: TimeDistributed(Conv1D)": ["CNN-LSTM with places", "CNN-LSTM, other settings"],
    "Conv1D, MaxPool, GRU": ["Conv1D, MaxPool, GRU"],
    "custom attention": ["custom attention"],
    "custom attention with a bias for each step": ["a bias for each step"],
    "classic functional attention": ["classic attention", "classic attention, with a Lambda"],
    "several inputs and outputs": ["several outputs"],
    "siamese": ["siamese"],
    "Luong": ["Luong"],
    "the last state is the query": ["the last state is the query"],
    "stateful": ["stateful"],
    "subclassed, .keras": [test_a_subclassed_model_opens_as_a_functional_one],
    "subclassed, .weights.h5": [test_the_weights_of_a_subclassed_model_are_not_guessed_wrong],
    "mask_zero": ["padding behind", "padding before", "mask and backwards", "mask and the mean"],
    "mask_zero and Attention": ["mask and Attention"],
    "mask_zero and numbers": ["words with a mask, and numbers", "padded words, and numbers"],
    "mask_zero and GlobalMaxPooling or Flatten": [test_a_layer_that_sees_the_padding_is_warned_of],
    "return_state": ["return_state"],
    "mixed_float16": [test_half_precision],
    "BatchNorm, LayerNorm, Dropout": ["norms between"],
    "merge modes of Bidirectional": [f"Bidirectional {mode}" for mode in ("concat", "sum", "mul", "ave", None)],
    "autoencoder": ["autoencoder"],
    "multi-horizon": ["multi-horizon"],
    "MultiHeadAttention, residual": ["MultiHeadAttention, residual"],
    "RNN of cells, operators, dilation, without Input": [
        "RNN of cells", "residual by an operator", "causal, dilated", "Sequential without Input",
    ],
    "RNN of a custom cell": ["a cell of one's own"],
    "convolutions and norms of Keras 3": [],  # all but Conv1DTranspose and UnitNormalization
    "tf-keras": [test_keras_2],
    "tf2onnx": ["tests/interop/test_onnx.py"],
    "SavedModel, TFLite, checkpoint": [],
}  # fmt: skip


def test_most_tutorials_open():
    for cases in TUTORIALS.values():
        assert all(callable(case) or case in CASES or case.endswith(".py") for case in cases)
    assert len(TUTORIALS) == 36
    assert sum(map(bool, TUTORIALS.values())) >= 31
