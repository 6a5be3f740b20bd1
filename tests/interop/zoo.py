"""The networks that are written with each framework, from our own seeded weights.

Each network is a Model made from arrays, and the list of Keras layers that means the same. They differ in
what a reader can get wrong: gate order, transposes, masks, merges, activations, layers that do nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import lrpnumpy as lrp

VOCABULARY, D = 12, 5


def _lstm(rng, inputs, units, bias=True, **settings):
    shapes = [(4, units, inputs), (4, units, units), *([(4, units)] if bias else [])]
    return lrp.LSTM(*(rng.normal(0, 0.7, shape).astype(np.float32) for shape in shapes), **settings)


def _both(rng, inputs, units, merge="concat", **settings):
    return lrp.Bidirectional(_lstm(rng, inputs, units, **settings), _lstm(rng, inputs, units, **settings), merge=merge)


def _dense(rng, inputs, outputs, activation="linear", bias=True):
    V = rng.normal(0, 0.7, (outputs, inputs)).astype(np.float32)
    return lrp.Dense(V, rng.normal(0, 0.7, outputs).astype(np.float32) if bias else None, activation=activation)


def _words(rng, size=4, mask=None):
    return lrp.Embedding(rng.normal(0, 1, (VOCABULARY, size)).astype(np.float32), mask=mask)


def stack(rng):
    layers = [
        _both(rng, 4, 3),
        _lstm(rng, 6, 4, recurrent_activation="hard_sigmoid"),
        _dense(rng, 4, 3, "relu"),
        _dense(rng, 3, 2),
    ]
    return lrp.Model(layers, embedding=_words(rng, mask=0), output="softmax")


def stack_layers(L):
    return [
        L.Embedding(VOCABULARY, 4, mask_zero=True),
        L.SpatialDropout1D(0.1),
        L.Bidirectional(L.LSTM(3, return_sequences=True, dropout=0.1)),
        L.LSTM(4, recurrent_activation="hard_sigmoid"),
        L.Dropout(0.5),
        L.Dense(3, activation="relu"),
        L.Dense(2),
        L.Activation("softmax"),
    ]


def mean(rng):
    layers = [_both(rng, 4, 3, "sum"), _dense(rng, 3, 1)]
    return lrp.Model(layers, embedding=_words(rng, mask=0), readout="mean", output="sigmoid")


def mean_layers(L):
    return [
        L.Embedding(VOCABULARY, 4, mask_zero=True),
        L.Bidirectional(L.LSTM(3, return_sequences=True), merge_mode="sum"),
        L.GlobalAveragePooling1D(),
        L.Dense(1, activation="sigmoid"),
    ]


def maximum(rng):
    layers = [_lstm(rng, D, 4), _both(rng, 4, 3, "mean"), _dense(rng, 3, 3, bias=False)]
    return lrp.Model(layers, readout="max", output="linear")


def maximum_layers(L):
    return [
        L.LSTM(4, return_sequences=True),
        L.Bidirectional(L.LSTM(3, return_sequences=True), merge_mode="ave"),
        L.GaussianNoise(0.1),
        L.GlobalMaxPooling1D(),
        L.Dense(3, use_bias=False),
    ]


def every(rng):
    layers = [_lstm(rng, D, 3, bias=False), _dense(rng, 3, 2, "tanh"), _dense(rng, 2, 3)]
    return lrp.Model(layers, readout="every", output="softmax", mask_value=-1.0)


def every_layers(L):
    return [
        L.Masking(-1.0),
        L.LSTM(3, return_sequences=True, use_bias=False),
        L.TimeDistributed(L.Dense(2, activation="tanh")),
        L.Dense(3, activation="softmax"),
    ]


def relu(rng):
    layers = [
        _dense(rng, D, 4, "tanh"),
        _lstm(rng, 4, 3, activation="relu"),
        _lstm(rng, 3, 3, activation="linear", recurrent_activation="hard_sigmoid"),
        _dense(rng, 3, 2),
    ]
    return lrp.Model(layers, output="linear")


def relu_layers(L):
    return [
        L.TimeDistributed(L.Dense(4, activation="tanh")),
        L.LSTM(3, activation="relu", return_sequences=True),
        L.LSTM(3, activation="linear", recurrent_activation="hard_sigmoid"),
        L.Dense(2),
    ]


def sentence(rng):
    """As most people build it: two directions, their final states, one linear layer."""
    layers = [_both(rng, 4, 3), _dense(rng, 6, 3)]
    return lrp.Model(layers, embedding=_words(rng), output="softmax")


def sentence_layers(L):
    return [L.Embedding(VOCABULARY, 4), L.Bidirectional(L.LSTM(3)), L.Dense(3, activation="softmax")]


def deep(rng):
    """Nothing but what CuDNNLSTM has."""
    layers = [_both(rng, 4, 3), _lstm(rng, 6, 2), _dense(rng, 2, 2)]
    return lrp.Model(layers, embedding=_words(rng), output="softmax")


def deep_layers(L, LSTM=None):
    LSTM = LSTM or L.LSTM
    return [
        L.Embedding(VOCABULARY, 4),
        L.Bidirectional(LSTM(3, return_sequences=True)),
        LSTM(2),
        L.Dense(2, activation="softmax"),
    ]


def old(rng):
    """As Keras 1 users built it: the hard sigmoid was the default."""
    hard = {"recurrent_activation": "hard_sigmoid"}
    layers = [_lstm(rng, 4, 3, **hard), _both(rng, 3, 2, **hard), _dense(rng, 4, 2)]
    return lrp.Model(layers, embedding=_words(rng, mask=0), output="softmax")


def old_layers(L):
    hard = {"recurrent_activation": "hard_sigmoid"}
    return [
        L.Embedding(VOCABULARY, 4, mask_zero=True),
        L.LSTM(3, return_sequences=True, **hard),
        L.Bidirectional(L.LSTM(2, **hard)),
        L.Dense(2, activation="softmax"),
    ]


def reference(rng):
    """As LRP_for_LSTM has it: words, two directions, no output bias."""
    words = replace(_words(rng), vocabulary=[f"wörd{k}" for k in range(VOCABULARY)])
    return lrp.Model([_both(rng, 4, 3), _dense(rng, 6, 3, bias=False)], embedding=words, output="softmax")


@dataclass(frozen=True)
class Network:
    """A network of the zoo: the model of arrays, and its Keras layers, as Sequential or as functional."""

    make: Callable[[np.random.Generator], lrp.Model]
    layers: Callable[[Any], list[Any]] | None = None
    functional: bool = False

    def model(self, hard: str = "hard_sigmoid", dtype=np.float32) -> lrp.Model:
        """The model; `hard` is the hard sigmoid of the Keras that writes it."""
        model = self.make(np.random.default_rng(list(self.make.__name__.encode())))
        return model._with(lambda record: _with_hard(record, hard)).astype(dtype)


def _with_hard(layer, hard):
    if isinstance(layer, lrp.Bidirectional):
        return replace(layer, forward=_with_hard(layer.forward, hard), backward=_with_hard(layer.backward, hard))
    if getattr(layer, "recurrent_activation", "").startswith("hard"):
        return replace(layer, recurrent_activation=hard)
    return layer


NETWORKS = {
    "stack": Network(stack, stack_layers),
    "mean": Network(mean, mean_layers, functional=True),
    "maximum": Network(maximum, maximum_layers),
    "every": Network(every, every_layers, functional=True),
    "relu": Network(relu, relu_layers),
    "sentence": Network(sentence, sentence_layers),
    "deep": Network(deep, deep_layers),
    "old": Network(old, old_layers),
    "reference": Network(reference),
}


def inputs(model: lrp.Model, seed: int = 0, T: int = 7) -> np.ndarray:
    """A sequence for a model, with padding inside and at both ends where it has a mask."""
    rng = np.random.default_rng(seed)
    padded = [0, 3, T - 1]
    if model.embedding is not None:
        x = rng.integers(1, VOCABULARY, T)
        if model.embedding.mask is not None:
            x[padded] = model.embedding.mask
        return x
    x = rng.normal(size=(T, model.input_size)).astype(np.float32)
    if model.inputs["x"].mask_value is not None:
        x[padded] = model.inputs["x"].mask_value
    return x


def kept(model: lrp.Model, x: np.ndarray) -> np.ndarray:
    """The steps of a sequence that are not padding."""
    if model.embedding is not None:
        return np.flatnonzero(x != model.embedding.mask)
    return np.flatnonzero((x != model.inputs["x"].mask_value).any(axis=1))


def weighted(model: lrp.Model) -> list[lrp.Layer]:
    """The layers of a chain that have arrays, without a readout between them."""
    return [layer for layer in model.layers if any(True for _ in layer.all_arrays())]


def keras_weights(model: lrp.Model) -> list[np.ndarray]:
    """The arrays of a model as Keras lists them: kernel (in, 4u), recurrent kernel (u, 4u), bias (4u)."""
    found = [] if model.embedding is None else [model.embedding.E]
    for layer in weighted(model):
        if isinstance(layer, lrp.Dense):
            found += [layer.V.T, *([layer.d] if layer.d.any() else [])]
            continue
        for side in (layer.forward, layer.backward) if isinstance(layer, lrp.Bidirectional) else (layer,):
            u = side.units
            found += [side.U.reshape(4 * u, -1).T, side.W.reshape(4 * u, u).T]
            found += [side.b.reshape(-1)] if side.b.any() else []
    return found


def torch_arrays(model: lrp.Model, names=("embedding", "lstm", "head")) -> dict[str, np.ndarray]:
    """The arrays of a model under PyTorch's names; its two biases add up to ours."""
    found = {} if model.embedding is None else {f"{names[0]}.weight": model.embedding.E}
    depth = heads = 0
    for layer in weighted(model):
        if isinstance(layer, lrp.Dense):
            at = names[2] if heads == 0 else f"{names[2]}{heads}"
            found |= {f"{at}.weight": layer.V, f"{at}.bias": layer.d}
            heads += 1
            continue
        two = isinstance(layer, lrp.Bidirectional)
        for end, side in (("", layer.forward), ("_reverse", layer.backward)) if two else (("", layer),):
            H = side.units
            half = side.b.reshape(-1) * np.float32(0.25)
            arrays = (side.U.reshape(4 * H, -1), side.W.reshape(4 * H, H), half, side.b.reshape(-1) - half)
            for what, array in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), arrays, strict=True):
                found[f"{names[1]}.{what}_l{depth}{end}"] = array
        depth += 1
    return found


def cudnn_weights(model: lrp.Model) -> list[np.ndarray]:
    """The arrays of a model as CuDNNLSTM lists them: blocks of the gates transposed, and two biases."""
    found = [] if model.embedding is None else [model.embedding.E]
    for layer in weighted(model):
        if isinstance(layer, lrp.Dense):
            found += [layer.V.T, layer.d]
            continue
        for side in (layer.forward, layer.backward) if isinstance(layer, lrp.Bidirectional) else (layer,):
            half = side.b.reshape(-1) * np.float32(0.25)
            found += [
                np.hstack([U.reshape(side.inputs, side.units) for U in side.U]),
                np.hstack(list(side.W)),
                np.concatenate([half, side.b.reshape(-1) - half]),
            ]
    return found


def keras1_weights(layer) -> list[np.ndarray]:
    """The arrays of a layer as Keras 1 lists them: W, U, b of the gates i, c, f, o."""
    if isinstance(layer, lrp.Embedding):
        return [layer.E]
    if isinstance(layer, lrp.Dense):
        return [layer.V.T, layer.d]
    sides = (layer.forward, layer.backward) if isinstance(layer, lrp.Bidirectional) else (layer,)
    return [a for s in sides for g in (0, 2, 1, 3) for a in (s.U[g].T, s.W[g].T, s.b[g])]
