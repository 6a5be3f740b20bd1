"""AttentionPool, Attention, AdditiveAttention, MultiHeadAttention: golden networks, slow restatements, laws."""

import laws
import networks as nets
import numpy as np
import pytest
from networks import close

import lrpnumpy as lrp
from lrpnumpy.layers import attention


def softmax(e):
    e = np.exp(np.asarray(e) - max(e))
    return e / e.sum()


def over(z, eps):
    """1 / stab(z)."""
    return 1 / (z + eps * np.where(z < 0, -1, 1))


# ---- one vector for each sequence ----


def pool(rng, kind, M=4, K=3):
    v, W, b = rng.normal(size=K), rng.normal(size=(K, M)), rng.normal(size=K)
    return {
        "additive": lrp.layers.AttentionPool(v, W, b),
        "additive without a bias": lrp.layers.AttentionPool(v, W),
        "dot": lrp.layers.AttentionPool(rng.normal(size=M)),
        "dot with a bias": lrp.layers.AttentionPool(rng.normal(size=M), c=0.7),
    }[kind]


POOLS = ("additive", "additive without a bias", "dot", "dot with a bias")


def pooled(cell, layer, head):
    nodes = [lrp.Node("cell", cell, ("x",)), lrp.Node("pool", layer, ("cell",)), lrp.Node("head", head, ("pool",))]
    return lrp.Model(nodes)


@pytest.mark.parametrize("kind", POOLS)
def test_laws_of_attention_pool(rng, kind, tmp_path):
    model = pooled(nets.two_way(rng, 3, 2), pool(rng, kind), nets.dense(rng, 4, 2))
    laws.hold(model, [rng.normal(size=(T, 3)) for T in (5, 1, 4)], rng, tmp_path)


def test_an_attention_pool_with_a_bias_for_each_step(rng, tmp_path):
    v, W, b = rng.normal(size=2), rng.normal(size=(2, 4)), rng.normal(size=(5, 2))
    model = pooled(nets.lstm(rng, 3, 4), lrp.layers.AttentionPool(v, W, b), nets.dense(rng, 4, 2))
    laws.hold(model, [rng.normal(size=(5, 3)) for _ in range(3)], rng, tmp_path, omit=False)
    x = rng.normal(size=(5, 3))
    h = lrp.predict(lrp.Model([model.nodes[0].layer], readout="every"), x)
    a = softmax([v @ np.tanh(W @ row + bias) for row, bias in zip(h, b, strict=True)])
    head = model.nodes[2].layer
    close(lrp.predict(model, x), head.V @ (a @ h) + head.d)
    with pytest.raises(lrp.LrpError, match="a series must have 5 steps, one for each bias, got 4"):
        lrp.predict(model, x[:4])


@pytest.mark.parametrize("kind", POOLS)
def test_attention_pool_restated(rng, kind):
    """Scores, and relevance with the weights as numbers."""
    layer, head = pool(rng, kind), nets.dense(rng, 4, 2, bias=False)
    model, x, eps = pooled(nets.lstm(rng, 3, 4), layer, head), rng.normal(size=(5, 3)), 0.2
    h = lrp.predict(lrp.Model([model.nodes[0].layer], readout="every"), x)
    a = softmax([layer.v @ (row if layer.W is None else np.tanh(layer.W @ row + layer.b)) + layer.c for row in h])
    y = sum(a_t * row for a_t, row in zip(a, h, strict=True))
    close(lrp.predict(model, x), head.V @ y)
    found = lrp.explain(model, x, "lrp-all", 1, eps=eps, hidden=True)
    f = found.scores[1]
    s = y * head.V[1] * over(f, eps) * f * over(y, eps)
    close(found.hidden[0].h[-1], a[-1] * h[-1] * s)  # earlier states get relevance from later ones, too


def test_golden_attention_pool():
    group = laws.golden("bilstm_attention_pool")
    part = group["parameters"]
    cell = lrp.Bidirectional(lrp.LSTM(**part["forward"]), lrp.LSTM(**part["backward"]))
    laws.agrees(pooled(cell, lrp.layers.AttentionPool(**part["attention"]), lrp.Dense(**part["head"])), group)


def test_errors_of_attention_pool(rng):
    with pytest.raises(lrp.LrpError, match=r"W must have shape \(3, any\), got \(2, 4\)"):
        lrp.layers.AttentionPool(np.ones(3), np.ones((2, 4)))
    with pytest.raises(lrp.LrpError, match="b must be None without W"):
        lrp.layers.AttentionPool(np.ones(3), b=np.ones(3))
    with pytest.raises(lrp.LrpError, match="c must be a finite number, got 'x'"):
        lrp.layers.AttentionPool(np.ones(3), c="x")
    with pytest.raises(lrp.LrpError, match=r"v of layer pool \(AttentionPool\) must take the 4 outputs"):
        pooled(nets.lstm(rng, 3, 4), lrp.layers.AttentionPool(np.ones(3)), nets.dense(rng, 4, 2))


# ---- one for each step ----


def heads(rng, D=4, d=3, d_v=2, out=5, count=2, value=4, key=4, bias=True, **settings):
    def array(*shape):
        return rng.normal(size=shape) / np.sqrt(shape[-1])

    matrices = array(count * d, D), array(count * d, key), array(count * d_v, value), array(out, count * d_v)
    biases = [array(len(W)) if bias else None for W in matrices]
    return lrp.layers.MultiHeadAttention(*matrices, *biases, heads=count, **settings)


LAYERS = {
    "dot": lambda rng, **more: lrp.layers.Attention(**more),
    "dot with a scale": lambda rng, **more: lrp.layers.Attention(0.6, **more),
    "additive": lambda rng, **more: lrp.layers.AdditiveAttention(rng.normal(size=4), **more),
    "heads": lambda rng, **more: heads(rng, **more),
    "one head without biases": lambda rng, **more: heads(rng, count=1, bias=False, **more),
}


def restated(layer, query, value, key):
    """Sums over steps one by one; the weights as numbers, (heads, T_q, T_k), beside."""

    def attend(q, k, v, score):
        seen = [min(t + 1, len(k)) if layer.causal else len(k) for t in range(len(q))]
        a = [
            np.append(softmax([score(q[t], k[s]) for s in range(n)]), np.zeros(len(k) - n)) for t, n in enumerate(seen)
        ]
        return np.array([sum(a[t][s] * v[s] for s in range(len(k))) for t in range(len(q))]), np.array(a)

    if isinstance(layer, lrp.layers.Attention):
        y, a = attend(query, key, value, lambda q, k: layer.scale * (q @ k))
        return y, a[None]
    if isinstance(layer, lrp.layers.AdditiveAttention):
        y, a = attend(query, key, value, lambda q, k: np.sum(layer.scale * np.tanh(q + k)))
        return y, a[None]
    q, k, v = query @ layer.Wq.T + layer.bq, key @ layer.Wk.T + layer.bk, value @ layer.Wv.T + layer.bv
    d = q.shape[1] // layer.heads
    parts = zip(*(np.split(array, layer.heads, axis=1) for array in (q, k, v)), strict=True)
    ys, weights = zip(*(attend(*part, lambda q, k: (q @ k) / np.sqrt(d)) for part in parts), strict=True)
    return np.concatenate(ys, axis=1) @ layer.Wo.T + layer.bo, np.array(weights)


def network(rng, layer, inputs, key_size=4):
    """Three branches, of which the layer takes some; a recurrent layer and a head above."""
    nodes = [
        lrp.Node("query", nets.lstm(rng, 3, 4), ("x",)),
        lrp.Node("value", nets.gru(rng, 3, 4), ("x",)),
        lrp.Node("key", nets.rnn(rng, 3, key_size), ("x",)),
        lrp.Node("layer", layer, inputs),
        lrp.Node("mean", lrp.layers.Mean(), ("layer",)),
    ]
    wide = layer.outputs if isinstance(layer, lrp.layers.MultiHeadAttention) else 4
    return lrp.Model([*nodes, lrp.Node("head", nets.dense(rng, wide, 2), ("mean",))])


INPUTS = [("query", "query"), ("query", "value"), ("query", "value", "key"), ("query", "value", "value")]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("inputs", INPUTS, ids="-".join)
def test_attention_restated(rng, name, causal, inputs):
    layer = LAYERS[name](rng, causal=causal)
    model, xs = network(rng, layer, inputs), [rng.normal(size=(T, 3)) for T in (4, 1, 6)]
    for x, scores in zip(xs, lrp.predict_all(model, xs), strict=True):
        values = {node.name: lrp.predict(lrp.Model([node.layer], readout="every"), x) for node in model.nodes[:3]}
        rows = [values[key] for key in inputs]
        y, _ = restated(layer, rows[0], rows[1], rows[-1])
        close(scores, model.nodes[-1].layer.V @ y.mean(axis=0) + model.nodes[-1].layer.d)


@pytest.mark.sampled
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("inputs", INPUTS[:3], ids="-".join)
def test_laws_of_attention(rng, name, inputs, tmp_path):
    model = network(rng, LAYERS[name](rng, causal=len(inputs) == 3), inputs)
    laws.hold(model, [rng.normal(size=(T, 3)) for T in (4, 1, 5)], rng, tmp_path)


@pytest.mark.parametrize("name", LAYERS)
def test_a_query_without_steps(rng, name):
    layer = LAYERS[name](rng)
    nodes = [
        lrp.Node("cell", nets.lstm(rng, 3, 4), ("x",)),
        lrp.Node("layer", layer, ("cell:last", "cell")),
        lrp.Node("head", nets.dense(rng, 5 if "head" in name else 4, 2), ("layer",)),
    ]
    model = lrp.Model(nodes)
    laws.hold(model, [rng.normal(size=(T, 3)) for T in (4, 1, 5)], rng)
    x = rng.normal(size=(4, 3))
    h = lrp.predict(lrp.Model([nodes[0].layer], readout="every"), x)
    y, _ = restated(layer, h[-1:], h, h)
    close(lrp.predict(model, x), nodes[-1].layer.V @ y[0] + nodes[-1].layer.d)


def test_relevance_of_heads_restated(rng):
    """The three sums with explicit numbers: only the values get anything, but for the biases of Wv and Wo."""
    layer, head, eps = heads(rng, D=2, value=3, key=3), nets.dense(rng, 5, 2, bias=False), 0.3
    nodes = [
        lrp.Node("layer", layer, ("query", "value")),
        lrp.Node("unused", nets.lstm(rng, 3, 1), ("value",)),
        lrp.Node("mean", lrp.layers.Mean(), ("layer",)),
        lrp.Node("head", head, ("mean",)),
    ]
    model = lrp.Model(nodes, inputs={"query": lrp.Input(2), "value": lrp.Input(3)})
    query, value = rng.normal(size=(4, 2)), rng.normal(size=(6, 3))
    found = lrp.explain(model, {"query": query, "value": value}, "lrp-prop", 1, eps=eps)
    y, a = restated(layer, query, value, value)
    v = value @ layer.Wv.T + layer.bv
    joined = np.concatenate([a[i] @ part for i, part in enumerate(np.split(v, 2, axis=1))], axis=1)
    f, mean = found.scores[1], y.mean(axis=0)
    R_y = y / 4 * (mean * head.V[1] * over(f, eps) * f * over(mean, eps))
    s = R_y * over(y, eps)
    R_joined = joined * (s @ layer.Wo)
    t = np.split(R_joined * over(joined, eps), 2, axis=1)
    R_v = v * np.concatenate([a[i].T @ part for i, part in enumerate(t)], axis=1)
    u = R_v * over(v, eps)
    assert (found.inputs["query"].feature_relevance == 0).all()
    close(found.inputs["value"].feature_relevance, value * (u @ layer.Wv))
    close(found.ledger.biases[0], (s * layer.bo).sum() + (u * layer.bv).sum())


def test_golden_dot_attention():
    group = laws.golden("lstm_dot_attention_mean")
    part = group["parameters"]
    nodes = [
        lrp.Node("lstm", lrp.LSTM(**part["lstm"]), ("x",)),
        lrp.Node("attention", lrp.layers.Attention(), ("lstm", "lstm")),
        lrp.Node("mean", lrp.layers.Mean(), ("attention",)),
        lrp.Node("head", lrp.Dense(**part["head"]), ("mean",)),
    ]
    laws.agrees(lrp.Model(nodes), group)


def two_series(rng):
    """Two series of different lengths: which steps of the one does the other look at?"""
    nodes = [
        lrp.Node("query", nets.lstm(rng, 3, 4), ("x",)),
        lrp.Node("value", nets.gru(rng, 2, 4), ("other",)),
        lrp.Node("layer", lrp.layers.Attention(), ("query", "value")),
        lrp.Node("both", lrp.layers.Add(), ("layer", "query")),
        lrp.Node("top", nets.lstm(rng, 4, 3), ("both",)),
        lrp.Node("head", nets.dense(rng, 3, 2), ("top:last",)),
    ]
    return lrp.Model(nodes, inputs={"x": lrp.Input(3), "other": lrp.Input(2)})


def test_two_series_of_different_lengths(rng, tmp_path):
    """Also where no order has the longer one first in both."""
    lengths = [(5, 2), (2, 6), (5, 3), (3, 3), (1, 1)]
    records = [{"x": rng.normal(size=(a, 3)), "other": rng.normal(size=(b, 2))} for a, b in lengths]
    model = two_series(rng)
    laws.hold(model, records, rng, tmp_path, whole=False)
    found = lrp.explain_all(
        model, records[:3], "occlusion-f", 0, reference="omit", spans=[[(0, 3)], [(1, 2)], [(0, 1), (2, 5)]]
    )
    for values, one in zip(records[:3], found, strict=True):
        f = laws.score(model, values, 0)

        def without(name, start, stop, values=values):
            return laws.score(model, {**values, name: np.delete(values[name], slice(start, stop), axis=0)}, 0)

        for name, part in one.inputs.items():
            close(part.relevance, [f - without(name, t, t + 1) for t in range(len(values[name]))], 1e-12, 1)
        for span in one.spans:
            close(span.relevance, f - without("x", span.start, span.stop), 1e-12, 1)


def test_blocks_do_not_matter(rng, monkeypatch):
    """One sequence at a time gives what all at once give."""
    xs = [rng.normal(size=(T, 3)) for T in (4, 1, 5, 5, 3)]
    for name in LAYERS:
        model = network(rng, LAYERS[name](rng), ("query", "value", "key"))
        once = [lrp.explain_all(model, xs, method, 0, eps=0.1).relevance for method in ("lrp-half", "lrp-abs")]
        once.append(lrp.explain_all(model, xs, "gradient", 0).relevance)
        with monkeypatch.context() as patch:
            patch.setattr(attention, "MOST", 1)
            again = [lrp.explain_all(model, xs, method, 0, eps=0.1).relevance for method in ("lrp-half", "lrp-abs")]
            again.append(lrp.explain_all(model, xs, "gradient", 0).relevance)
        for a, b in zip(once, again, strict=True):
            close(a, b, 1e-11)


def test_large_scores_do_not_overflow(rng):
    nodes = [
        lrp.Node("big", lrp.Dense(np.eye(3) * 300), ("x",)),
        lrp.Node("layer", lrp.layers.Attention(), ("big", "big")),
        lrp.Node("pool", lrp.layers.AttentionPool(np.ones(3)), ("layer",)),
        lrp.Node("unused", nets.lstm(rng, 3, 1), ("x",)),
    ]
    model = lrp.Model(nodes, result="pool")
    for dtype in ("float32", "float64"):
        for method in ("lrp-all", "gradient", "occlusion-f", "cd"):
            assert np.isfinite(lrp.explain(model.astype(dtype), rng.normal(size=(5, 3)), method, 0).relevance).all()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda rng: lrp.layers.Attention("big"), "scale must be a finite number, got 'big'"),
        (
            lambda rng: lrp.layers.MultiHeadAttention(*np.ones((4, 3, 3)), heads=0),
            "heads must be a whole number of at least 1, got 0",
        ),
        (
            lambda rng: lrp.layers.MultiHeadAttention(*[np.ones((3, 3))] * 4, heads=2),
            "heads must divide the 3 rows of Wq, got 2",
        ),
        (
            lambda rng: lrp.layers.MultiHeadAttention(*np.ones((2, 4, 3)), *np.ones((2, 4, 3))),
            r"Wo must have shape \(any, 4\)",
        ),
        (
            lambda rng: network(rng, lrp.layers.Attention(), ("query", "value", "key"), 3),
            "queries and keys of one size, got 4",
        ),
        (
            lambda rng: network(rng, lrp.layers.AdditiveAttention(np.ones(3)), ("query", "value")),
            "scale of layer layer .* take the 4",
        ),
        (
            lambda rng: network(rng, lrp.layers.Attention(), ("query", "value:last")),
            "values and keys with steps, got one vector",
        ),
        (
            lambda rng: network(rng, lrp.layers.Attention(causal=True), ("query:last", "value")),
            "causal .* must be False for a query",
        ),
        (
            lambda rng: network(rng, heads(rng, value=3), ("query", "value")),
            "Wv of layer layer .* must take the 4 outputs",
        ),
        (
            lambda rng: network(rng, lrp.layers.Attention(), ("query",)),
            r"must be \(query, value, key\), got 1 of them",
        ),
    ],
)
def test_errors_of_attention(rng, make, says):
    with pytest.raises(lrp.LrpError, match=says):
        make(rng)


def test_values_and_keys_of_different_lengths(rng):
    nodes = [
        lrp.Node("layer", lrp.layers.Attention(), ("x", "x", "key")),
        lrp.Node("cell", nets.lstm(rng, 3, 2), ("layer",)),
    ]
    model = lrp.Model(nodes, inputs={"x": lrp.Input(3), "key": lrp.Input(3)}, result="cell:last")
    with pytest.raises(lrp.LrpError, match="inputs must have the same number of steps, got 4 and 2"):
        lrp.predict(model, {"x": rng.normal(size=(4, 3)), "key": rng.normal(size=(2, 3))})
