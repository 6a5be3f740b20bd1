"""Layers against PyTorch and Keras: scores of their own layers, and PyTorch's gradients of random networks."""

import os

import graphs
import laws
import networks as nets
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from networks import close

import lrpnumpy as lrp

os.environ.setdefault("KERAS_BACKEND", "torch")
torch = pytest.importorskip("torch")
from interop import restated  # noqa: E402


def agrees_with_torch(model, record, target=1):
    """Scores and the gradient by every input."""
    inputs = {name: torch.tensor(x, requires_grad=True) for name, x in laws.record(model, record).items()}
    f = restated.scores(model, inputs)
    want = f.detach().numpy()
    close(lrp.predict(model, laws.plain(model, record)), want, 1e-11, 1 + np.abs(want).max())
    (f[-1] if model.every else f)[target].backward()
    found = laws.gradients(model, record, target)
    for name, x in inputs.items():
        want = np.zeros(x.shape) if x.grad is None else x.grad.numpy()
        close(found[name], want, 1e-10, 1e-3 + np.abs(want).max())


@given(data=st.data())
@nets.examples(150)
def test_gradients_of_random_networks(data):
    model = data.draw(graphs.graphs())
    for record in data.draw(graphs.records(model, 2)):
        agrees_with_torch(model, record)


def test_gradients_of_a_reconstruction_error():
    rng = np.random.default_rng(0)
    nodes = [
        lrp.Node("encoder", nets.gru(rng, 3, 4), ("x",)),
        lrp.Node("flat", lrp.layers.Flatten(5), ("encoder",)),
        lrp.Node("wide", nets.dense(rng, 20, 15), ("flat",)),
        lrp.Node("steps", lrp.layers.Reshape(3), ("wide",)),
    ]
    for mean in (False, True):
        agrees_with_torch(lrp.reconstruction_error(lrp.Model(nodes), mean=mean), rng.normal(size=(5, 3)), 0)


def test_a_gradient_that_is_wrong_is_seen():
    """The comparison can fail: a network with another weight."""
    rng = np.random.default_rng(0)
    cell, head = nets.lstm(rng, 3, 4), nets.dense(rng, 4, 2)
    model = lrp.Model([lrp.Node("cell", cell, ("x",)), lrp.Node("head", head, ("cell:last",))])
    agrees_with_torch(model, rng.normal(size=(5, 3)))
    model._set(nodes=(model.nodes[0], model.nodes[1]._replace(layer=lrp.Dense(head.V * 1.001, head.d))))
    x = rng.normal(size=(5, 3))
    inputs = {"x": torch.tensor(x)}
    with pytest.raises(AssertionError):
        close(lrp.predict(lrp.Model([cell, head]), x), restated.scores(model, inputs).numpy(), 1e-11, 1)


# ---- layers of the frameworks ----


def one_layer(layer, widths, vector=False):
    """A network of one layer; a recurrent one beside it makes it a model."""
    rng, names = np.random.default_rng(0), [f"x{k}" for k in range(len(widths))]
    nodes = [lrp.Node("unused", nets.rnn(rng, widths[0], 1), ("x0",)), lrp.Node("layer", layer, tuple(names))]
    inputs = {name: lrp.Input(width) for name, width in zip(names, widths, strict=True)}
    return lrp.Model(nodes, inputs=inputs, output="linear" if not vector else None)


@pytest.mark.parametrize("bias", [True, False])
def test_multi_head_attention_of_torch(bias):
    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(6, 3, bias=bias, batch_first=True).double()
    Wq, Wk, Wv = module.in_proj_weight.detach().numpy().reshape(3, 6, 6)
    biases = [None] * 4
    if bias:
        torch.nn.init.normal_(module.in_proj_bias)
        torch.nn.init.normal_(module.out_proj.bias)
        biases = [*module.in_proj_bias.detach().numpy().reshape(3, 6), module.out_proj.bias.detach().numpy()]
    layer = lrp.layers.MultiHeadAttention(Wq, Wk, Wv, module.out_proj.weight.detach().numpy(), *biases, heads=3)
    model, rng = one_layer(layer, (6, 6, 6)), np.random.default_rng(0)
    query, value, key = rng.normal(size=(4, 6)), rng.normal(size=(5, 6)), rng.normal(size=(5, 6))
    inputs = [torch.tensor(x[None], requires_grad=True) for x in (query, key, value)]
    y = module(*inputs, need_weights=False)[0][0]
    record = {"x0": query, "x1": value, "x2": key}
    close(lrp.predict(model, record), y.detach().numpy(), 1e-12)
    y[-1, 2].backward()
    found = laws.gradients(model, record, 2)
    for name, x in zip(("x0", "x2", "x1"), inputs, strict=True):
        close(found[name], x.grad[0].numpy(), 1e-11)


def test_norms_of_torch():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5, 4))
    norm = torch.nn.LayerNorm(4).double()
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    layer = lrp.layers.LayerNorm(norm.weight.detach().numpy(), norm.bias.detach().numpy(), norm.eps)
    close(lrp.predict(one_layer(layer, (4,)), x), norm(torch.tensor(x)).detach().numpy())
    norm = torch.nn.BatchNorm1d(4).double()
    for _ in range(10):  # moving averages
        norm(torch.tensor(rng.normal(size=(20, 4)) * 2 + 1))
    torch.nn.init.normal_(norm.weight)
    norm.eval()
    arrays = (norm.weight, norm.bias, norm.running_mean, norm.running_var)
    layer = lrp.layers.Affine.batch_norm(*(value.detach().numpy() for value in arrays), norm.eps)
    close(lrp.predict(one_layer(layer, (4,)), x), norm(torch.tensor(x)).detach().numpy())


def keras_layer(make, *inputs, **options):
    """Output of a layer of Keras in float64, and its weights."""
    keras = pytest.importorskip("keras")
    layer = make(keras.layers)
    arrays = [np.asarray(x)[None] for x in inputs]
    y = layer(arrays if len(arrays) > 1 else arrays[0], **options)
    rng = np.random.default_rng(1)
    layer.set_weights([rng.normal(size=w.shape) if w.ndim else np.float64(0.7) for w in layer.get_weights()])
    y = layer(arrays if len(arrays) > 1 else arrays[0], **options)
    return np.array(keras.ops.convert_to_numpy(y))[0], layer.get_weights()


@pytest.mark.parametrize("causal", [False, True])
def test_attentions_of_keras(causal):
    rng = np.random.default_rng(0)
    q, v, k = rng.normal(size=(5, 4)), rng.normal(size=(5, 3)), rng.normal(size=(5, 4))
    record, widths = {"x0": q, "x1": v, "x2": k}, (4, 3, 4)
    y, weights = keras_layer(
        lambda layers: layers.Attention(use_scale=True, dtype="float64"), q, v, k, use_causal_mask=causal
    )
    close(lrp.predict(one_layer(lrp.layers.Attention(float(weights[0]), causal), widths), record), y, 1e-6)
    y, _ = keras_layer(lambda layers: layers.Attention(dtype="float64"), q, v, k, use_causal_mask=causal)
    close(lrp.predict(one_layer(lrp.layers.Attention(causal=causal), widths), record), y, 1e-6)
    y, weights = keras_layer(lambda layers: layers.AdditiveAttention(dtype="float64"), q, v, k, use_causal_mask=causal)
    layer = lrp.layers.AdditiveAttention(weights[0].astype(float), causal)
    close(lrp.predict(one_layer(layer, widths), record), y, 1e-6)


def test_multi_head_attention_of_keras():
    keras = pytest.importorskip("keras")
    rng = np.random.default_rng(0)
    q, v = rng.normal(size=(5, 4)), rng.normal(size=(6, 3))
    layer = keras.layers.MultiHeadAttention(num_heads=2, key_dim=3, value_dim=5, dtype="float64")
    layer(q[None], v[None])
    layer.set_weights([rng.normal(size=w.shape) for w in layer.get_weights()])
    y = np.array(keras.ops.convert_to_numpy(layer(q[None], v[None])))[0]
    Wq, bq, Wk, bk, Wv, bv, Wo, bo = (w.astype(float) for w in layer.get_weights())
    matrices = [W.reshape(W.shape[0], -1).T for W in (Wq, Wk, Wv)] + [Wo.reshape(-1, Wo.shape[-1]).T]
    ours = lrp.layers.MultiHeadAttention(*matrices, bq.ravel(), bk.ravel(), bv.ravel(), bo, heads=2)
    close(lrp.predict(one_layer(ours, (4, 3)), {"x0": q, "x1": v}), y, 1e-6)


def test_norms_of_keras():
    x = np.random.default_rng(0).normal(size=(5, 4))
    y, (gamma, beta) = keras_layer(lambda layers: layers.LayerNormalization(dtype="float64"), x)
    close(lrp.predict(one_layer(lrp.layers.LayerNorm(gamma.astype(float), beta.astype(float)), (4,)), x), y, 1e-6)
