"""Convolutions and pools built from the arrays of the real frameworks: their scores, and their own gradients.

What is not installed is skipped. In float64, so that a wrong index cannot hide behind rounding.
"""

import numpy as np
import pytest
from interop.test_cells import framework  # noqa: F401
from networks import close

import lrpnumpy as lrp

D, M, H, T, C = 4, 6, 3, 11, 2


@pytest.mark.parametrize("padding", [0, 2, "same"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("pool", ["MaxPool1d", "AvgPool1d"])
def test_torch(padding, stride, dilation, groups, pool):
    torch = pytest.importorskip("torch")
    if padding == "same" and stride > 1:
        pytest.skip("torch has no such convolution")
    torch.manual_seed(1)
    settings = {"stride": stride, "dilation": dilation, "groups": groups}
    conv = torch.nn.Conv1d(D, M, 3, padding=padding, dtype=torch.float64, **settings)
    pooled = getattr(torch.nn, pool)(2, 2, padding=1)
    lstm = torch.nn.LSTM(M, H, batch_first=True, dtype=torch.float64)
    head = torch.nn.Linear(H, C, dtype=torch.float64)
    x = torch.randn(1, T, D, dtype=torch.float64, requires_grad=True)
    scores = head(lstm(pooled(torch.tanh(conv(x.transpose(1, 2)))).transpose(1, 2))[1][0][0])[0]

    def array(name, module):
        return getattr(module, name).detach().numpy()

    ours = {
        "MaxPool1d": lrp.layers.MaxPool1D(2, 2, (1, 1)),
        "AvgPool1d": lrp.layers.AvgPool1D(2, 2, (1, 1), count_padding=True),
    }
    both = padding if padding == "same" else (padding, padding)
    K, d = array("weight", conv).transpose(0, 2, 1), array("bias", conv)
    U, W, b, b_h = (
        array(f"{name}_l0", lstm).reshape(4, H, -1) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    model = lrp.Model(
        [
            lrp.layers.Conv1D(K, d, padding=both, activation="tanh", **settings),
            ours[pool],
            lrp.LSTM(U, W, (b + b_h)[..., 0]),
            lrp.Dense(array("weight", head), array("bias", head)),
        ]
    )

    def gradient(*at):
        return torch.autograd.grad(scores[at], x, retain_graph=True)[0][0].numpy()

    compare(model, x.detach().numpy()[0], scores.detach().numpy(), gradient)


@pytest.mark.parametrize("padding", ["valid", "same", "causal"])
@pytest.mark.parametrize(("width", "stride", "dilation"), [(3, 1, 1), (4, 1, 1), (3, 1, 2), (3, 2, 1), (4, 3, 1)])
@pytest.mark.parametrize("pool", ["MaxPooling1D", "AveragePooling1D"])
@pytest.mark.parametrize("pool_padding", ["valid", "same"])
def test_keras(framework, padding, width, stride, dilation, pool, pool_padding):  # noqa: F811
    keras, run, tol = framework
    steps = {"valid": (T - (width - 1) * dilation - 1) // stride + 1}.get(padding, -(-T // stride))
    if (keras.__name__, pool, pool_padding, steps % 2) == ("keras", "AveragePooling1D", "same", 0):
        pytest.skip("padded on one side alone, Keras on torch takes the mean with the last step twice")
    keras.utils.set_random_seed(1)
    settings = {"padding": padding, "activation": "tanh"}
    initial = keras.initializers.RandomNormal(stddev=0.6, seed=3)
    network = keras.Sequential(
        [
            keras.layers.InputLayer((T, D), dtype="float64"),
            keras.layers.Conv1D(
                M, width, strides=stride, dilation_rate=dilation, bias_initializer=initial, dtype="float64", **settings
            ),
            getattr(keras.layers, pool)(3, 2, pool_padding, dtype="float64"),
            keras.layers.SimpleRNN(H, bias_initializer=initial, dtype="float64"),
            keras.layers.Dense(C, bias_initializer=initial, dtype="float64"),
        ]
    )
    (K, d, U, W, b, V, e) = (array.astype(np.float64) for array in network.get_weights())
    ours = {"MaxPooling1D": lrp.layers.MaxPool1D, "AveragePooling1D": lrp.layers.AvgPool1D}[pool](3, 2, pool_padding)
    first = lrp.layers.Conv1D(K.transpose(2, 0, 1), d, stride=stride, dilation=dilation, **settings)
    model = lrp.Model([first, ours, lrp.RNN(U.T, W.T, b), lrp.Dense(V.T, e)])
    x = np.random.default_rng(0).normal(size=(T, D))
    scores, gradient = run(network, x)
    compare(model, x, scores, gradient, tol)


def compare(model, x, scores, gradient, tol=1e-12):
    """Scores and gradients, ours against those of a framework; `gradient` takes the place of a score."""
    assert scores.dtype == np.float64
    close(lrp.predict(model, x), scores, tol)
    for c in range(C):
        slope = gradient(c)
        close(lrp.explain(model, x, "gradient-x-input", c).feature_relevance, slope * x, tol)
        many = lrp.explain_all(model, [x[:-1], x, np.concatenate([x, x])], "gradient", c)
        close(many[1].feature_relevance, slope**2, tol)
