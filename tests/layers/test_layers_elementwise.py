"""Activation, Softmax, Affine and LayerNorm: golden networks, slow restatements, and the laws of every network."""

import laws
import networks as nets
import numpy as np
import pytest
from networks import close

import lrpnumpy as lrp
from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.layers.elementwise import NAMES

KINKS = ("relu", "leaky_relu", "prelu", "hard_sigmoid", "hard_sigmoid_3", "elu", "selu")


def records(rng, D=3, lengths=(5, 2, 4)):
    return [rng.normal(size=(T, D)) for T in lengths]


def around(rng, *layers, D=3, M=4):
    """The layers before an LSTM, between two, and after the readout."""
    return lrp.Model(
        [
            nets.dense(rng, D, M),
            *layers,
            nets.lstm(rng, M, M),
            *layers,
            nets.lstm(rng, M, M),
            *layers,
            nets.dense(rng, M, 2),
        ]
    )


def activation(rng, name, M=4):
    return lrp.layers.Activation(name, slopes=rng.uniform(-0.5, 0.5, M) if name == "prelu" else None)


# ---- Softmax ----


@pytest.mark.parametrize("axis", ["features", "steps"])
def test_laws_of_softmax(rng, axis, tmp_path):
    layer = lrp.layers.Softmax(axis)
    nodes = [
        lrp.Node("below", nets.lstm(rng, 3, 4), ("x",)),
        lrp.Node("layer", layer, ("below",)),
        lrp.Node("gated", lrp.layers.Multiply("first"), ("layer", "below")),
        lrp.Node("top", nets.gru(rng, 4, 4), ("gated",)),
        lrp.Node("head", nets.dense(rng, 4, 2), ("top:last",)),
    ]
    laws.hold(lrp.Model(nodes), records(rng), rng, tmp_path)
    alone = [lrp.Node("unused", nets.lstm(rng, 3, 1), ("x",)), lrp.Node("layer", layer, ("x",))]
    xs = records(rng)
    for x, y in zip(xs, lrp.predict_all(lrp.Model(alone, output="linear"), xs), strict=True):
        e = np.exp(x)
        close(y, e / e.sum(axis={"features": 1, "steps": 0}[axis], keepdims=True))


def test_softmax_over_the_steps_needs_steps(rng):
    with pytest.raises(lrp.LrpError, match=r"axis of layer 1 .* must be 'features' for one vector"):
        lrp.Model([nets.lstm(rng, 3, 4), lrp.layers.Softmax("steps")])


# ---- Activation ----


def restated(layer, x):
    """F(x), number by number."""
    e = np.exp(x)
    below = {
        "leaky_relu": lambda: layer.alpha * x,
        "elu": lambda: layer.alpha * (e - 1),
        "prelu": lambda: layer.slopes * x,
        "relu": lambda: 0 * x,
    }
    if layer.activation in below:
        return np.where(x > 0, x, below[layer.activation]())
    return {"tanh": np.tanh(x), "sigmoid": e / (1 + e), "softplus": np.log(1 + e), "exponential": e}[layer.activation]


@pytest.mark.parametrize(
    "layer",
    [
        *(
            lrp.layers.Activation(name)
            for name in ("relu", "tanh", "sigmoid", "softplus", "exponential", "leaky_relu", "elu")
        ),
        lrp.layers.Activation("leaky_relu", 0.3),
        lrp.layers.Activation("elu", 0.7),
        lrp.layers.Activation("prelu", slopes=[0.1, -0.2, 0.3, 2.0]),
        lrp.layers.Activation("prelu", slopes=[0.25]),
    ],
    ids=str,
)
def test_an_activation_is_what_it_says(rng, layer):
    model = lrp.Model([nets.lstm(rng, 3, 4), layer, nets.dense(rng, 4, 2)], readout="every")
    x = rng.normal(size=(6, 3))
    found = lrp.trace(model, x)
    h = found["0"]
    close(found["1"], restated(layer, h))
    close(lrp.predict(model, x), restated(layer, h) @ model.layers[2].V.T + model.layers[2].d)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "sqrt"])
def test_laws_of_activations(rng, name, tmp_path):
    """Kinks are not met: a difference across one would be off by far more than this."""
    laws.hold(around(rng, activation(rng, name)), records(rng), rng, tmp_path, smooth=1e-5 if name in KINKS else 1e-6)


def test_laws_of_magnitudes(rng, tmp_path):
    """The square root has no slope at 0: it is looked at where a square and a shift keep it away from there."""
    magnitude = [lrp.layers.Square(), lrp.layers.Affine(np.ones(4), np.ones(4)), lrp.layers.Activation("sqrt")]
    model = around(rng, *magnitude)
    laws.hold(model, records(rng), rng, tmp_path)
    x = rng.normal(size=(5, 3))
    first = model.layers[0]
    close(lrp.trace(model, x)["3"], np.sqrt((x @ first.V.T + first.d) ** 2 + 1))


@pytest.mark.parametrize("method", ["gradient", "deeplift", "lrp-all", "integrated-gradients"])
def test_silence_gets_no_relevance_through_a_root(rng, method):
    """Where the square is exactly 0 the slope of the root counts as 0."""
    layers = [lrp.layers.Square(), lrp.layers.Activation("sqrt"), nets.lstm(rng, 3, 3), nets.dense(rng, 3, 2)]
    found = lrp.explain(lrp.Model(layers, inputs={"x": lrp.Input(3)}), np.zeros((4, 3)), method, target=0)
    assert (found.relevance == 0).all()


def test_an_activation_of_a_dense_layer_may_stand_alone(rng):
    """The same explanations, by every method, as with the activation inside the Dense layer."""
    for name in ACTIVATIONS:
        V, d = rng.normal(size=(4, 3)), rng.normal(size=4)
        rest = [nets.lstm(rng, 4, 3), nets.dense(rng, 3, 2)]
        inside = lrp.Model([lrp.Dense(V, d, name), *rest])
        alone = lrp.Model([lrp.Dense(V, d), lrp.layers.Activation(name), *rest])
        x = rng.normal(size=(5, 3))
        for a, b in zip(
            *(lrp.compare(model, x, nets.every_method(model), target=1, eps=0.1) for model in (inside, alone)),
            strict=True,
        ):
            close(a.relevance, b.relevance, 1e-9 if "lrp" in a.method else 1e-12)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("swish2",), "activation must be one of"),
        (("relu", 0.1), "alpha is for .'leaky_relu', 'elu'., and slopes are for 'prelu'"),
        (("elu", float("nan")), "alpha must be a finite number"),
        (("elu", "1"), "alpha must be a finite number"),
        (("prelu",), "which needs them, got 'prelu'"),
    ],
)
def test_errors_of_activation(arguments, says):
    with pytest.raises(lrp.LrpError, match=says):
        lrp.layers.Activation(*arguments)


def test_slopes_must_fit(rng):
    with pytest.raises(lrp.LrpError, match=r"slopes of layer 1 \(Activation\) must take the 4 outputs of the layer 0"):
        lrp.Model([nets.lstm(rng, 3, 4), lrp.layers.Activation("prelu", slopes=[0.1, 0.2])])


# ---- Affine ----


def affine(rng, M=4):
    return lrp.layers.Affine(rng.uniform(0.5, 2, M) * rng.choice([-1, 1], M), rng.normal(size=M))


def test_golden_batch_norm():
    group = laws.golden("batchnorm_lstm_batchnorm")
    part = group["parameters"]
    model = lrp.Model(
        [
            lrp.layers.Affine(**part["norm"]),
            lrp.LSTM(**part["lstm"]),
            lrp.layers.Affine(**part["norm2"]),
            lrp.Dense(**part["hidden"], activation="relu"),
            lrp.Dense(**part["head"]),
        ]
    )
    laws.agrees(model, group)


def test_laws_of_affine(rng, tmp_path):
    laws.hold(around(rng, affine(rng)), records(rng), rng, tmp_path)


def test_batch_norm(rng):
    gamma, beta, mean = rng.normal(size=(3, 4))
    var, x = rng.uniform(0.5, 2, 4), rng.normal(size=(6, 4))
    layer = lrp.layers.Affine.batch_norm(gamma, beta, mean, var, 1e-5)
    close(layer.s * x + layer.t, gamma * (x - mean) / np.sqrt(var + 1e-5) + beta)
    layer = lrp.layers.Affine.batch_norm(None, None, mean, var)
    close(layer.s * x + layer.t, (x - mean) / np.sqrt(var + 0.001))
    with pytest.raises(lrp.LrpError, match=r"var \+ eps must be above 0, got 0.0 at index 0"):
        lrp.layers.Affine.batch_norm(gamma, beta, mean, np.zeros(4), 0)
    with pytest.raises(lrp.LrpError, match=r"gamma must have shape \(4\)"):
        lrp.layers.Affine.batch_norm(gamma[:3], beta, mean, var)
    with pytest.raises(lrp.LrpError, match=r"s of layer 0 \(Affine\) must take the 3 outputs of the input"):
        lrp.Model([layer, nets.lstm(rng, 4, 2)], inputs={"x": lrp.Input(3)})


# ---- LayerNorm ----


def norm(rng, M=4, eps=1e-3):
    return lrp.layers.LayerNorm(rng.normal(size=M), rng.normal(size=M), eps)


def test_golden_layer_norm():
    group = laws.golden("lstm_layernorm_mean")
    part = group["parameters"]
    layers = [lrp.LSTM(**part["lstm"]), lrp.layers.LayerNorm(**part["norm"], eps=1e-5), lrp.Dense(**part["head"])]
    nodes = [
        lrp.Node("lstm", layers[0], ("x",)),
        lrp.Node("norm", layers[1], ("lstm",)),
        lrp.Node("mean", lrp.layers.Mean(), ("norm",)),
        lrp.Node("head", layers[2], ("mean",)),
    ]
    laws.agrees(lrp.Model(nodes), group)


def test_laws_of_rms_norm(rng, tmp_path):
    layer = lrp.layers.LayerNorm(rng.normal(size=4), eps=0.01, center=False)
    model = around(rng, layer)
    laws.hold(model, records(rng), rng, tmp_path)
    first, x = model.layers[0], rng.normal(size=(5, 3))
    z = x @ first.V.T + first.d
    want = layer.gamma * z / np.sqrt((z * z).mean(axis=1, keepdims=True) + 0.01)
    rest = lrp.Model([*model.layers[2:]])
    close(lrp.predict(rest, want), lrp.predict(model, x))


def test_laws_of_layer_norm(rng, tmp_path):
    laws.hold(around(rng, norm(rng)), records(rng), rng, tmp_path)


def test_layer_norm_restated(rng):
    """Scores row by row; relevance with the explicit matrix of the sum, the deviation held fixed."""
    layer, head = norm(rng), nets.dense(rng, 4, 2, bias=False)
    model = lrp.Model([nets.lstm(rng, 3, 4), layer, head])
    x, eps = rng.normal(size=(5, 3)), 0.1
    h = lrp.trace(model, x)["0/h"][-1]
    scale = layer.gamma / np.sqrt(h.var() + layer.eps)
    A = np.diag(scale) - scale[:, None] / 4  # (out, in)
    y = A @ h + layer.beta
    close(lrp.predict(model, x), head.V @ y)
    found = lrp.explain(model, x, "lrp-all", 1, eps=eps, hidden=True)

    def over(z):
        return 1 / (z + eps * np.where(z < 0, -1, 1))

    f = found.scores[1]
    R_y = y * head.V[1] * over(f) * f
    close(found.hidden[0].h[-1], h * (A.T @ (R_y * over(y))))
    close(found.ledger.biases[1], (layer.beta * over(y) * R_y).sum())


def test_errors_of_layer_norm(rng):
    with pytest.raises(lrp.LrpError, match="eps must be above 0, got 0"):
        lrp.layers.LayerNorm(np.ones(3), eps=0)
    with pytest.raises(lrp.LrpError, match=r"beta must have shape \(3\), got \(2,\)"):
        lrp.layers.LayerNorm(np.ones(3), np.ones(2))
    with pytest.raises(lrp.LrpError, match=r"gamma of layer 1 \(LayerNorm\) must take the 4 outputs"):
        lrp.Model([nets.lstm(rng, 3, 4), norm(rng, 3)])
