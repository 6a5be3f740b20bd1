"""GRU and plain RNN built from the arrays of the real frameworks: their scores, and their own gradients.

What is not installed is skipped. In float64, so that a wrong formula cannot hide behind rounding.
"""

import os

import numpy as np
import pytest
from networks import close

import lrpnumpy as lrp

D, H, T, C = 5, 4, 7, 3


def of_torch(module, layer, suffix):
    """One direction of one layer of a module of torch, as our cell."""
    U, W, b, b_h = (
        getattr(module, f"{name}_l{layer}{suffix}").detach().numpy()
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    if module.mode.startswith("RNN"):
        return lrp.RNN(U, W, b + b_h, activation=module.mode[4:].lower())
    U, W, b, b_h = (array.reshape(3, H, -1)[[1, 0, 2]].squeeze() for array in (U, W, b, b_h))  # r, z, n to z, r, n
    return lrp.GRU(U, W, b + b_h * [[1], [1], [0]], b_h[2])


@pytest.mark.parametrize("kind", ["GRU", "RNN_TANH", "RNN_RELU"])
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("readout", ["last", "last-row", "mean", "max", "every"])
def test_torch(kind, depth, two, readout):
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    options = {"batch_first": True, "bidirectional": two, "num_layers": depth, "dtype": torch.float64}
    if kind == "GRU":
        module = torch.nn.GRU(D, H, **options)
    else:
        module = torch.nn.RNN(D, H, nonlinearity=kind[4:].lower(), **options)
    head = torch.nn.Linear(H * (1 + two), C, dtype=torch.float64)
    suffixes = ("", "_reverse") if two else ("",)
    layers = []
    for k in range(depth):
        ways = [of_torch(module, k, suffix) for suffix in suffixes]
        layers.append(lrp.Bidirectional(*ways) if two else ways[0])
    layers.append(lrp.Dense(head.weight.detach().numpy(), head.bias.detach().numpy()))
    model = lrp.Model(layers, readout=readout)

    x = torch.randn(1, T, D, dtype=torch.float64, requires_grad=True)
    out, h_n = module(x)
    if readout == "last":
        out = torch.cat([h_n[-2], h_n[-1]], dim=-1) if two else h_n[-1]
    elif readout == "last-row":
        out = out[:, -1]
    elif readout == "mean":
        out = out.mean(dim=1)
    elif readout == "max":
        out = out.max(dim=1).values
    scores = head(out)[0]

    def gradient(*at):
        return torch.autograd.grad(scores[at], x, retain_graph=True)[0][0].numpy()

    compare(model, x.detach().numpy()[0], scores.detach().numpy(), gradient)


@pytest.fixture(params=["keras", "tf_keras"])
def framework(request, monkeypatch):
    """(Keras 3 on torch or Keras 2 on TensorFlow, a function for scores and gradients, the tolerance)."""
    if request.param == "keras":
        torch = pytest.importorskip("torch")
        monkeypatch.setitem(os.environ, "KERAS_BACKEND", "torch")
    else:
        tensorflow = pytest.importorskip("tensorflow")
    keras = pytest.importorskip(request.param)
    if request.param == "keras" and keras.backend.backend() != "torch":
        pytest.skip("Keras was started on another backend")

    def on_torch(network, x):
        x = torch.tensor(x[None], requires_grad=True)
        scores = network(x)[0]
        return scores.detach().numpy(), lambda *at: torch.autograd.grad(scores[at], x, retain_graph=True)[0][0].numpy()

    def on_tensorflow(network, x):
        x = tensorflow.constant(x[None])
        with tensorflow.GradientTape(persistent=True) as tape:
            tape.watch(x)
            scores = network(x)[0]
            each = {at: scores[at] for at in np.ndindex(*scores.shape)}
        return scores.numpy(), lambda *at: tape.gradient(each[at], x)[0].numpy()

    before = keras.backend.floatx()
    keras.backend.set_floatx("float64")
    # Keras 3 multiplies matrices of float64 in float32 on torch.
    yield (keras, on_torch, 1e-6) if request.param == "keras" else (keras, on_tensorflow, 1e-12)
    keras.backend.set_floatx(before)


def of_keras(layer):
    """One layer of Keras as ours; a GRU of Keras has its gates in our order."""
    kind = type(layer).__name__
    if kind == "Bidirectional":
        return lrp.Bidirectional(of_keras(layer.forward_layer), of_keras(layer.backward_layer))
    weights = [array.astype(np.float64) for array in layer.get_weights()]
    if kind == "Dense":
        return lrp.Dense(weights[0].T, weights[1])
    U, W, b = weights
    if kind == "SimpleRNN":
        return lrp.RNN(U.T, W.T, b, activation=layer.activation.__name__)
    U, W = U.T.reshape(3, H, -1), W.T.reshape(3, H, H)
    settings = {
        "activation": layer.activation.__name__,
        "recurrent_activation": layer.recurrent_activation.__name__,
        "reset_after": layer.reset_after,
    }
    if not layer.reset_after:
        return lrp.GRU(U, W, b.reshape(3, H), **settings)
    b, b_h = b.reshape(2, 3, H)
    return lrp.GRU(U, W, b + b_h * [[1], [1], [0]], b_h[2], **settings)


CELLS = {
    "GRU": ("GRU", {}),
    "GRU, reset before": ("GRU", {"reset_after": False}),
    "GRU, other activations": ("GRU", {"activation": "softsign", "recurrent_activation": "tanh"}),
    "GRU, reset before, relu": ("GRU", {"activation": "relu", "reset_after": False}),
    "SimpleRNN": ("SimpleRNN", {}),
    "SimpleRNN, relu": ("SimpleRNN", {"activation": "relu"}),
}


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("every", [False, True])
def test_keras(framework, cell, depth, two, every):
    keras, run, tol = framework
    keras.utils.set_random_seed(1)
    name, settings = CELLS[cell]
    initial = keras.initializers.RandomNormal(stddev=0.6, seed=3)
    layers = [keras.layers.InputLayer((T, D), dtype="float64")]
    for k in range(depth):
        options = {"return_sequences": every or k < depth - 1, "bias_initializer": initial, "dtype": "float64"}
        layer = getattr(keras.layers, name)(H, **options, **settings)
        layers.append(keras.layers.Bidirectional(layer, dtype="float64") if two else layer)
    layers.append(keras.layers.Dense(C, bias_initializer=initial, dtype="float64"))
    network = keras.Sequential(layers)
    model = lrp.Model([of_keras(layer) for layer in network.layers], readout="every" if every else "last")
    arrays = [pair for layer in model.layers for pair in layer.all_arrays()]
    assert all(array.any() for path, array in arrays if not path.endswith(("h0", "bn")))
    x = np.random.default_rng(0).normal(size=(T, D))
    compare(model, x, *run(network, x), tol)


def compare(model, x, scores, gradient, tol=1e-12):
    """Scores and gradients, ours against those of a framework; `gradient` takes the place of a score."""
    assert scores.dtype == np.float64
    close(lrp.predict(model, x), scores, tol)
    at, step = ((3,), {"step": 3}) if model.every else ((), {})
    for c in range(C):
        slope = gradient(*at, c)
        close(lrp.explain(model, x, "gradient-x-input", c, **step).feature_relevance, slope * x, tol)
        many = lrp.explain_all(model, [x[:4], x, x[1:]], "gradient", c, **step)
        close(many[1].feature_relevance, slope**2, tol)
    found = lrp.explain(model, x, "lrp-half", 1, eps=0.01, **step)
    close(found.ledger.total, scores[(*at, 1)], max(tol, 1e-10), found.ledger.largest)
