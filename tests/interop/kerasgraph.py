"""Networks that are more than a chain of LSTM and Dense layers, as Keras itself makes them with seeded weights.

    python -m tests.interop.kerasgraph keras3 DIR --only plain.keras

Each file has beside it, in expected.json, inputs and the scores of the Keras that wrote it.
"""

import argparse
import json
import os
from pathlib import Path

import numpy as np

import lrpnumpy as lrp

os.environ.setdefault("KERAS_BACKEND", "torch")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
T, D = 6, 3


def gated(L, M):
    """GRUs of both kinds, in two directions and one, over words with padding."""
    x = L.Input((None,), dtype="int32", name="words")
    y = L.Embedding(9, 4, mask_zero=True)(x)
    y = L.Bidirectional(L.GRU(3, return_sequences=True))(y)
    y = L.GRU(4, reset_after=False, recurrent_activation="hard_sigmoid")(y)
    return M(x, L.Dense(3)(y))


def plain(L, M):
    """Plain RNNs, and activations of many names."""
    x = L.Input((None, D), name="x")
    y = L.SimpleRNN(4, return_sequences=True, activation="softsign")(x)
    y = L.Bidirectional(L.SimpleRNN(3, activation="elu", return_sequences=True, use_bias=False), merge_mode="sum")(y)
    y = L.Bidirectional(L.GRU(3, activation="selu", recurrent_activation="softplus", use_bias=False), merge_mode="ave")(
        y
    )
    for name in ("swish", "gelu", "selu", "softplus", "exponential", "sigmoid", "hard_sigmoid", "elu"):
        y = L.Dense(3, activation=name)(y)
    return M(x, L.Dense(2, activation="tanh")(y))


def normed(L, M):
    """BatchNormalization before and after every kind of neighbor, and LayerNormalization."""
    x = L.Input((None, D), name="x")
    y = L.LSTM(4, return_sequences=True)(x)
    y = L.BatchNormalization()(L.Dropout(0.2)(y))
    y = L.LSTM(3)(y)
    y = L.BatchNormalization(scale=False)(y)
    y = L.Dense(4)(y)
    y = L.BatchNormalization(center=False)(y)
    y = L.Activation("relu")(y)
    y = L.LayerNormalization()(y)
    y = L.BatchNormalization()(L.Dense(3, activation="tanh")(y))
    return M(x, L.Dense(2)(y))


def convolved(L, M):
    """Convolutions and pools of a fixed number of steps, activations as layers, all steps as one vector."""
    x = L.Input((16, D), name="x")
    y = L.Conv1D(4, 3, padding="same", activation="relu")(x)
    y = L.MaxPooling1D(2)(y)
    y = L.BatchNormalization()(y)
    y = L.Conv1D(4, 2, padding="causal", dilation_rate=2, groups=2)(y)
    y = L.LeakyReLU()(y)
    y = L.AveragePooling1D(3, strides=2)(y)
    y = L.LSTM(3, return_sequences=True)(y)
    y = L.PReLU(shared_axes=[1])(y)
    y = L.PReLU()(L.Flatten()(y))
    y = L.ELU(0.5)(L.Dense(3)(y))
    return M(x, L.Dense(2, activation="leaky_relu")(y))


def scaled(L, M):
    """Inputs scaled by the network itself, and pools over all steps."""
    x = L.Input((None, D), name="x")
    y = L.Normalization(mean=[0.5, -1.0, 2.0], variance=[4.0, 0.25, 1.0])(x)
    y = L.GRU(3, return_sequences=True)(L.Rescaling(0.5, offset=0.1)(y))
    y = L.Dense(4)(y)
    y = L.Concatenate()([L.GlobalMaxPooling1D()(y), L.GlobalAveragePooling1D()(y)])
    return M(x, L.Dense(2)(y))


def autoencoder(L, M):
    """The last state for every step of a decoder."""
    x = L.Input((T, D), name="x")
    y = L.RepeatVector(4)(L.Bidirectional(L.LSTM(3, activation="relu"))(x))
    y = L.LSTM(3, return_sequences=True)(y)
    return M(x, L.TimeDistributed(L.Dense(2))(y))


def two_sides(L, M):
    """Two series and a vector; one of the series is read backwards."""
    left, right, still = (
        L.Input((None, D), name="left"),
        L.Input((4, 2), name="right side"),
        L.Input((2,), name="still"),
    )
    y = L.Concatenate()([L.LSTM(3)(left), L.LSTM(3, go_backwards=True)(right), still])
    y = L.Dropout(0.5)(L.Dense(4, activation="relu")(y))
    return M([left, right, still], L.Dense(3)(y))


def residual(L, M):
    """Sums, means, differences and products at every step."""
    x = L.Input((None, D), name="x")
    y = L.LSTM(D, return_sequences=True)(x)
    z = L.Dense(D, activation="sigmoid")(x)
    y = L.Multiply()([L.Add()([x, y]), z])
    y = L.Average()([y, x, L.Subtract()([z, y])])
    y = L.GRU(3, return_sequences=True, go_backwards=True)(y)
    return M(x, L.Dense(2)(L.GlobalAveragePooling1D()(y)))


def translator(L, M):
    """An encoder whose states start a decoder, which predicts at every step."""
    given, asked = L.Input((None, D), name="given"), L.Input((None, 2), name="asked")
    _, h, c = L.LSTM(4, return_state=True)(L.Masking(0.0)(given))
    y, _, _ = L.LSTM(4, return_sequences=True, return_state=True)(asked, initial_state=[h, c])
    return M([given, asked], L.Dense(3)(y))


def both_states(L, M):
    """The states of two directions start a GRU and two directions."""
    given, asked = L.Input((None, D), name="given"), L.Input((None, 2), name="asked")
    out, fh, fc, bh, bc = L.Bidirectional(L.LSTM(2, return_sequences=True, return_state=True))(given)
    h = L.Concatenate()([fh, bh, L.Add()([fc, bc])])
    y = L.GRU(6)(asked, initial_state=h)
    z = L.Bidirectional(L.LSTM(2))(asked, initial_state=[fh, fc, bh, bc])
    return M([given, asked], L.Dense(2)(L.Concatenate()([y, z, L.GlobalAveragePooling1D()(out)])))


def shared(L, M, S):
    """Models inside the model, one of them frozen and one called twice."""
    a, b = L.Input((None, D), name="a"), L.Input((None, D), name="b")
    x = L.Input((None, D))
    frozen = S([L.Input((3,)), L.Dense(4, activation="tanh"), L.BatchNormalization()], name="frozen")
    frozen.trainable = False
    tower = M(x, frozen(L.BatchNormalization()(L.LSTM(3)(L.BatchNormalization()(x)))), name="tower")
    y = L.Subtract()([tower(a), tower(b)])
    head = S([L.Input((4,)), L.Dense(3, activation="relu"), L.BatchNormalization(), L.Dense(2)], name="head")
    return M([a, b], head(y))


def double(L, M):
    """Two outputs."""
    x = L.Input((None, D), name="x")
    y = L.LSTM(3)(x)
    return M(x, [L.Dense(2, name="first")(y), L.Dense(1, name="second")(y)])


def attentive(L, M, Attention):
    """A layer of one's own: a weighted sum over the steps."""
    x = L.Input((None, D), name="x")
    y = Attention(name="weigh")(L.LSTM(4, return_sequences=True)(x))
    return M(x, L.Dense(2)(y))


def attention_class(keras):
    """A layer as people write it; lrp.load must be told what it does."""

    class SimpleAttention(keras.layers.Layer):
        def build(self, shape):
            self.w = self.add_weight(name="w", shape=(shape[-1], 3))
            self.v = self.add_weight(name="v", shape=(3, 1))

        def call(self, x):
            ops = getattr(keras, "ops", None)
            if ops is None:
                import tensorflow as tf

                return tf.reduce_sum(tf.nn.softmax(tf.tanh(x @ self.w) @ self.v, axis=1) * x, axis=1)
            return ops.sum(ops.softmax(ops.tanh(x @ self.w) @ self.v, axis=1) * x, axis=1)

        def compute_output_shape(self, shape):
            return (shape[0], shape[-1])

    return SimpleAttention


def simple_attention(settings, arrays):
    """What `SimpleAttention` does, in layers of lrpnumpy."""
    assert settings["name"] == "weigh"
    W, v = arrays.values()
    return lrp.layers.AttentionPool(v[:, 0], W.T.copy())


def folded_steps(L, M):
    """A vector cut into steps, and steps regrouped."""
    x = L.Input((12,), name="x")
    y = L.Reshape((6, 2))(x)
    y = L.LSTM(4, return_sequences=True)(L.Reshape((-1, 4))(y))
    return M(x, L.Dense(2)(L.Reshape((12,))(y)))


def attention(L, M):
    """The attentions of Keras, in every mode, over padding too."""
    given, asked = L.Input((None, D), name="given"), L.Input((None, 2), name="asked")
    h = L.LSTM(4, return_sequences=True)(L.Masking(0.0)(given))
    q = L.LSTM(4, return_sequences=True)(asked)
    found = [
        L.Attention()([q, h]),
        L.Attention(use_scale=True)([q, h, h]),
        L.Attention(use_scale=True, score_mode="concat")([q, h]),
        L.Attention(score_mode="concat")([q, h]),
        L.AdditiveAttention()([q, h]),
        L.AdditiveAttention(use_scale=False)([q, h]),
    ]
    return M([given, asked], L.Dense(2)(L.Concatenate()([L.GlobalMaxPooling1D()(y) for y in found])))


def heads(L, M):
    """MultiHeadAttention of several sizes, as a block of a transformer after an LSTM."""
    x = L.Input((None, D), name="x")
    h = L.LSTM(4, return_sequences=True)(x)
    y = L.LayerNormalization()(L.Add()([h, L.MultiHeadAttention(2, 3)(h, h)]))
    z = L.MultiHeadAttention(3, 2, value_dim=4, use_bias=False, output_shape=5)(y, x)
    w = L.MultiHeadAttention(1, 2)(y, y, use_causal_mask=True)
    return M(x, L.Dense(2)(L.Concatenate()([L.GlobalAveragePooling1D()(z), L.GlobalAveragePooling1D()(w)])))


def by_hand(L, M):
    """Attention as people build it from plain layers: weights by a softmax, repeated, turned and multiplied."""
    x = L.Input((T, D), name="x")
    h = L.LSTM(4, return_sequences=True)(x)
    a = L.Activation("softmax")(L.Flatten()(L.Dense(1, activation="tanh")(h)))
    turned = L.Permute((2, 1))(L.RepeatVector(4)(a))
    one = L.Flatten()(L.Multiply()([h, turned]))
    steps = L.Dense(T, activation="softmax")(L.Permute((2, 1))(h))
    two = L.GlobalAveragePooling1D()(L.Multiply()([h, L.Permute((2, 1))(steps)]))
    three = L.Dot(axes=1)([h, a])
    four = L.Multiply()([h, L.Softmax(axis=1)(L.Dense(1)(h))])
    return M(x, L.Dense(2)(L.Concatenate()([one, two, three, L.GlobalMaxPooling1D()(four)])))


def dotted(L, M):
    """Attention of an encoder-decoder by Dot, softmax, Dot; and a product of two vectors."""
    given, asked = L.Input((None, D), name="given"), L.Input((None, 2), name="asked")
    h, state, _ = L.LSTM(4, return_sequences=True, return_state=True)(given)
    q = L.GRU(4, return_sequences=True)(asked, initial_state=state)
    weights = L.Activation("softmax")(L.Dot(axes=[2, 2])([q, h]))
    context = L.Concatenate()([L.Dot(axes=[2, 1])([weights, h]), q])
    y = L.GlobalAveragePooling1D()(L.TimeDistributed(L.Dense(4, activation="tanh"))(context))
    return M([given, asked], L.Dense(2)(L.Concatenate()([y, L.Dot(axes=1)([y, state])])))


def windows(L, M):
    """Steps put around, cut off and repeated."""
    x = L.Input((8, D), name="x")
    y = L.Conv1D(4, 3)(L.ZeroPadding1D((1, 2))(x))
    y = L.UpSampling1D(2)(L.Cropping1D((1, 2))(y))
    y = L.GRU(4, return_sequences=True)(L.ReLU(max_value=0.5)(y))
    y = L.TimeDistributed(L.BatchNormalization())(L.TimeDistributed(L.Flatten())(y))
    gate = L.Dense(4, activation="sigmoid")(L.GlobalAveragePooling1D()(y))
    y = L.Multiply()([y, L.Reshape((1, 4))(gate)])
    return M(x, L.Dense(2, activation="relu")(L.GlobalAveragePooling1D(keepdims=False)(y)))


def merged(L, M):
    """Directions multiplied, and apart; maxima and minima; a softmax between layers."""
    x = L.Input((None, D), name="x")
    y = L.Bidirectional(L.LSTM(3, return_sequences=True), merge_mode="mul")(x)
    one, other = L.Bidirectional(L.GRU(3), merge_mode=None)(y)
    y = L.Concatenate()([L.Maximum()([one, other]), L.Minimum()([one, other])])
    return M(x, L.Dense(2)(L.Dense(3, activation="softmax")(y)))


def cells(L, M):
    """Cells in a layer of their own, one or several on top of one another."""
    x = L.Input((None, D), name="x")
    y = L.RNN(L.LSTMCell(3), return_sequences=True)(x)
    y = L.RNN([L.LSTMCell(3), L.GRUCell(2), L.LSTMCell(4)], return_sequences=True)(y)
    return M(x, L.Dense(2)(L.RNN(L.SimpleRNNCell(3), go_backwards=True)(y)))


def operations(L, M):
    """What Keras lists beside its layers: slices and sums."""
    x = L.Input((T, D), name="x")
    y = L.Bidirectional(L.LSTM(3, return_sequences=True))(x)
    found = [y[:, -1, :], y[:, 0], L.GlobalMaxPooling1D()(y[:, 1:-1]), L.GlobalMaxPooling1D()(y[:, :, 1:3] * 2.0)]
    return M(x, L.Dense(2)(L.Concatenate()([*found, y[:, :, 1]])))


NETWORKS = {f.__name__: f for f in (
    gated, plain, normed, convolved, scaled, autoencoder, two_sides, residual, translator, both_states, shared, double,
    folded_steps, attentive, attention, heads, by_hand, dotted, windows, merged, cells, operations,
)}  # fmt: skip
LOAD = {"double": {"which": "second"}}


SENTENCES = ["A good FILM, isn't it?", "it is a film that is not a very good film", "zebra"]


def worded(keras, folder):
    """A model that takes sentences, with and without a mask: each is saved, and gives its scores for some."""
    L = keras.layers
    for masks in (True, False):
        cut = L.TextVectorization(max_tokens=20, output_sequence_length=6)
        cut.adapt(["it is a Film", "a good film, isn't it?"])
        x = L.Input((1,), dtype="string", name="text")
        y = L.Bidirectional(L.LSTM(3))(L.Embedding(20, 4, mask_zero=masks)(cut(x)))
        model = seeded(keras.Model(x, L.Dense(2)(y)), np.random.default_rng(0))
        path = folder / f"words_{masks}.keras"
        model.save(path)
        import tensorflow as tf

        yield path, model, np.asarray(model(tf.constant([[one] for one in SENTENCES])))


def keras_module(kind):
    if kind == "keras3":
        import keras
    else:
        import tf_keras as keras
    return keras


def made(keras, name):
    """The network with seeded weights; variances are above 0."""
    rng = np.random.default_rng(list(name.encode()))
    more = {"shared": lambda: keras.Sequential, "attentive": lambda: attention_class(keras)}
    options = [more[name]()] if name in more else []
    model = NETWORKS[name](keras.layers, keras.Model, *options)
    return seeded(model, rng), rng


def seeded(model, rng):
    """The model with weights drawn from `rng`."""
    for variable in model.weights:
        if not hasattr(variable, "dtype") or str(variable.dtype).startswith("int"):
            continue
        values = np.asarray(rng.normal(0, 0.6, variable.shape))
        label = getattr(variable, "path", variable.name)
        variable.assign((values**2 + 0.1 if "variance" in label else values).astype(np.float32))
    return model


def inputs(model, rng):
    """An input for each port, by Keras' name for it."""
    found = {}
    for tensor in model.inputs:
        shape = [n or T for n in tensor.shape[1:]]
        if "int" in str(tensor.dtype):
            found[tensor.name] = np.array([0, 3, 8, 0, 2, 0])
        else:
            found[tensor.name] = rng.normal(size=shape).astype(np.float32)
    if "given" in found:
        found["given"][1] = 0.0  # padding where there is a mask
    return found


def scores_of(model, xs, which):
    out = model([x[None] for x in xs] if len(xs) > 1 else xs[0][None])
    out = out[which] if isinstance(out, (list, tuple)) else out
    return np.asarray(out.detach() if hasattr(out, "detach") else out)[0]


def written(kind, folder, only=None):
    """Yield one row for each file: of every network in both layouts, or of those in `only`."""
    keras = keras_module(kind)
    for name in NETWORKS:
        endings = [one for one in (".keras", ".h5") if only is None or name + one in only]
        if not endings:
            continue
        model, rng = made(keras, name)
        xs = inputs(model, rng)
        scores = scores_of(model, list(xs.values()), 1 if name == "double" else 0)
        for ending in endings:
            model.save(folder / f"{name}{ending}")
            row = {"framework": f"{kind} {keras.__version__}", "load": LOAD.get(name, {})}
            yield f"{name}{ending}", {**row, "x": [x.tolist() for x in xs.values()], "scores": scores.tolist()}


CUSTOM = {"SimpleAttention": simple_attention}


def opened(path, row):
    """The model of a file."""
    custom = CUSTOM if path.stem == "attentive" else None
    return lrp.load(path, custom=custom, **row["load"])


def record(model, row):
    """The inputs of a row as `predict` takes them."""
    xs = [
        np.asarray(x, None if port.embedding is not None else np.float32)
        for x, port in zip(row["x"], model.inputs.values(), strict=True)
    ]
    return dict(zip(model.inputs, xs, strict=True)) if len(xs) > 1 else xs[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("framework", choices=["keras3", "tf_keras"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", help="the files to write")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    rows = dict(written(options.framework, options.folder, options.only))
    (options.folder / "expected.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
