"""Conv1D, MaxPool1D, AvgPool1D and Sum: golden networks, slow restatements of every setting, and the laws."""

import warnings
from dataclasses import replace

import laws
import networks as nets
import numpy as np
import pytest
from networks import close

import lrpnumpy as lrp
from lrpnumpy.encode import encode_all, packed
from lrpnumpy.folding import folded
from lrpnumpy.layers import Affine, AvgPool1D, Conv1D, MaxPool1D, Mean, Sum
from lrpnumpy.layers.windows import WindowSteps
from lrpnumpy.methods.decomposition import phrases_of
from lrpnumpy.packed import Batch
from lrpnumpy.passes import decompose, forward

PADDINGS = ("valid", "same", "causal", (2, 1), (0, 3))


def conv(rng, D, M, width=3, groups=1, bias=True, **settings):
    K = rng.normal(size=(M, width, D // groups)) / np.sqrt(width * D / groups)
    return Conv1D(K, rng.normal(size=M) if bias else None, groups=groups, **settings)


def records(rng, D=4, lengths=(9, 5, 7, 5)):
    return [rng.normal(size=(T, D)) for T in lengths]


def network(rng, *layers, D=4, M=4, cell=nets.lstm):
    """The layers below a recurrent layer with a head."""
    return lrp.Model([*layers, cell(rng, M, 3), nets.dense(rng, 3, 2)], inputs={"x": lrp.Input(D)})


# ---- golden ----


def test_golden_convolution_and_max_pool():
    group = laws.golden("conv_maxpool_lstm")
    part = group["parameters"]
    layers = [
        Conv1D(**part["conv"], padding="same", activation="relu"),
        MaxPool1D(2),
        lrp.LSTM(**part["lstm"]),
        lrp.Dense(**part["head"]),
    ]
    laws.agrees(lrp.Model(layers), group)


def test_golden_causal_convolution_with_a_stride():
    group = laws.golden("conv_causal_stride_gru")
    part = group["parameters"]
    layers = [
        Conv1D(**part["conv"], padding="causal", stride=2, activation="tanh"),
        lrp.GRU(**part["gru"]),
        lrp.Dense(**part["head"]),
    ]
    laws.agrees(lrp.Model(layers), group)


# ---- restated ----


def sides(T, width, stride, dilation, padding):
    """Steps of padding on the left and on the right."""
    reach = (width - 1) * dilation + 1
    if padding == "same":
        total = max((-(-T // stride) - 1) * stride + reach - T, 0)
        return total // 2, total - total // 2
    return {"valid": (0, 0), "causal": (reach - 1, 0)}.get(padding, padding)


def windows(T, width, stride, dilation, padding):
    """The steps of each window, None where it stands on padding."""
    left, right = sides(T, width, stride, dilation, padding)
    found, begin = [], -left
    while begin + (width - 1) * dilation < T + right:
        places = [begin + k * dilation for k in range(width)]
        found.append([t if 0 <= t < T else None for t in places])
        begin += stride
    return found


def restated(layer, x):
    """Outputs of a layer for one sequence, number by number."""
    if isinstance(layer, Conv1D):
        out, width, inside = layer.K.shape
        per_group = out // layer.groups
        z = [
            [
                layer.d[j]
                + sum(
                    layer.K[j, k, i] * x[t, j // per_group * inside + i]
                    for k, t in enumerate(window)
                    if t is not None
                    for i in range(inside)
                )
                for j in range(out)
            ]
            for window in windows(len(x), width, layer.stride, layer.dilation, layer.padding)
        ]
        return {"linear": np.array, "relu": lambda z: np.maximum(z, 0), "tanh": np.tanh}[layer.activation](z)
    seen = [
        [x[t] for t in window if t is not None]
        for window in windows(len(x), layer.size, layer.stride, 1, layer.padding)
    ]
    if isinstance(layer, MaxPool1D):
        return np.array([np.max(rows, axis=0) for rows in seen])
    return np.array([np.sum(rows, axis=0) / (layer.size if layer.count_padding else len(rows)) for rows in seen])


def outputs(layer, xs):
    """Of the layer alone, all sequences in one call, from the trace of a network that it is the first layer of."""
    rng = np.random.default_rng(1)
    M = getattr(layer, "outputs", xs[0].shape[1])
    top = lrp.LSTM(rng.normal(size=(4, 2, M)), rng.normal(size=(4, 2, 2)))
    model = lrp.Model([layer, top], readout="every", inputs={"x": lrp.Input(xs[0].shape[1])})
    singly = [lrp.trace(model, x)["0"] for x in xs]
    for x, y, together in zip(xs, singly, lrp.predict_all(model, xs), strict=True):
        close(together, lrp.predict(model, x), 1e-12, 1)
        assert len(together) == len(y)
    return singly


@pytest.mark.sampled
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_restated(rng, padding, stride, dilation, groups):
    settings = {"padding": padding, "stride": stride, "dilation": dilation, "groups": groups}
    for width in (1, 2, 3, 4):
        for activation in ("linear", "relu", "tanh"):
            layer = conv(rng, 4, 6, width, activation=activation, **settings)
            xs = records(rng, lengths=(11, 7, 7, 8, 10))
            for x, y in zip(xs, outputs(layer, xs), strict=True):
                close(y, restated(layer, x), 1e-12, 1)


@pytest.mark.sampled
@pytest.mark.parametrize("padding", ["valid", "same", (1, 1), (0, 1)])
@pytest.mark.parametrize("stride", [None, 1, 2, 3])
def test_pools_restated(rng, padding, stride):
    for size in (2, 3):
        for layer in (
            MaxPool1D(size, stride, padding),
            AvgPool1D(size, stride, padding),
            AvgPool1D(size, stride, padding, count_padding=True),
        ):
            xs = [x - 3 for x in records(rng, lengths=(8, 3, 5, 7, 4))]  # below 0: padding must not win
            for x, y in zip(xs, outputs(layer, xs), strict=True):
                close(y, restated(layer, x), 1e-12, 1)


def test_a_convolution_by_hand():
    """Padding "same" with a stride has its smaller half on the left: of 5 steps in pairs, only the right is padded."""
    layer = Conv1D(np.array([[[1.0], [10.0]]]), stride=2, padding="same")
    (y,) = outputs(layer, [np.array([[1.0], [2], [3], [4], [5]])])
    np.testing.assert_array_equal(y, [[21], [43], [5]])
    (y,) = outputs(replace(layer, padding="causal"), [np.array([[1.0], [2], [3], [4], [5]])])
    np.testing.assert_array_equal(y, [[10], [32], [54]])


def test_relevance_of_a_convolution_by_hand(rng):
    """One window, one output: the epsilon rule, term by term."""
    K, d, x, eps = rng.normal(size=(2, 3, 2)), rng.normal(size=2), rng.normal(size=(3, 2)), 0.1
    model = network(rng, Conv1D(K, d), D=2, M=2)
    found = lrp.explain(model, x, "lrp-all", 0, eps=eps)
    above = lrp.Model(model.layers[1:])
    z = (K * x).sum(axis=(1, 2)) + d
    R = lrp.explain(above, z[None], "lrp-all", 0, eps=eps).feature_relevance[0]
    s = R / (z + eps * np.where(z < 0, -1, 1))
    close(found.feature_relevance, (K * s[:, None, None]).sum(axis=0) * x)
    close(found.ledger.biases[0], (s * d).sum())


def test_the_first_of_equal_winners_takes_all(rng):
    model = network(rng, MaxPool1D(2, 1), M=4)
    x = np.repeat(rng.normal(size=(1, 4)), 4, axis=0)
    found = lrp.explain(model, x, "lrp-all", 0, eps=0.01).feature_relevance
    assert (found[:3] != 0).all() and (found[3] == 0).all()  # the windows are (0, 1), (1, 2), (2, 3)
    gradient = lrp.explain(model, x, "gradient", 0).feature_relevance
    assert (gradient[:3] != 0).all() and (gradient[3] == 0).all()


def test_a_mean_gives_each_step_its_share(rng):
    """R_t = x_t / m s, with m the steps of the window that are no padding, or all where padding counts."""
    x, eps = rng.normal(size=(2, 3)), 0.05
    for counts, by in ((False, 2), (True, 3)):
        model = network(rng, AvgPool1D(3, 3, (1, 0), counts), D=3, M=3)
        y = x.sum(axis=0) / by
        above = lrp.explain(lrp.Model(model.layers[1:]), y[None], "lrp-half", 1, eps=eps)
        s = above.feature_relevance[0] / (y + eps * np.where(y < 0, -1, 1))
        close(lrp.explain(model, x, "lrp-half", 1, eps=eps).feature_relevance, x / by * s)


# ---- laws ----


@pytest.mark.parametrize(
    "settings",
    [
        {"padding": "same", "activation": "tanh"},
        {"padding": "same", "stride": 2, "width": 4},
        {"padding": "causal", "dilation": 2, "activation": "tanh"},
        {"padding": (1, 2), "stride": 3, "width": 4, "groups": 2},
        {"padding": "valid", "groups": 4, "bias": False, "activation": "tanh"},
    ],
    ids=str,
)
def test_laws_of_convolutions(rng, tmp_path, settings):
    laws.hold(network(rng, conv(rng, 4, 4, **settings)), records(rng), rng, tmp_path)


@pytest.mark.parametrize(
    "pool",
    [
        MaxPool1D(2),
        MaxPool1D(3, 2, "same"),
        MaxPool1D(3, 1, (2, 1)),
        AvgPool1D(2),
        AvgPool1D(3, 2, "same"),
        AvgPool1D(3, 2, (1, 2), count_padding=True),
        AvgPool1D(2, 3),
    ],
    ids=str,
)
def test_laws_of_pools(rng, tmp_path, pool):
    laws.hold(network(rng, pool), records(rng), rng, tmp_path)


def test_laws_of_layers_one_after_another(rng, tmp_path):
    """Below a recurrent layer, between two, and above: windows over windows, of words of several steps."""
    layers = [
        conv(rng, 4, 5, padding="same", activation="tanh"),
        MaxPool1D(2, 1, "same"),
        nets.two_way(rng, 5, 3),
        conv(rng, 6, 4, padding="causal", stride=2),
        AvgPool1D(2, 1),
        nets.lstm(rng, 4, 3),
        nets.dense(rng, 3, 2),
    ]
    laws.hold(lrp.Model(layers), records(rng, lengths=(11, 6, 8)), rng, tmp_path, omit=True)


@pytest.mark.parametrize("settings", [{"padding": "same"}, {"padding": "causal", "stride": 2}], ids=str)
def test_laws_of_predictions_at_every_window(rng, settings):
    layers = [conv(rng, 4, 3, activation="tanh", **settings), nets.lstm(rng, 3, 3), conv(rng, 3, 2, width=2)]
    model = lrp.Model(layers, readout="every")
    laws.hold(model, records(rng, lengths=(9, 5, 7)), rng, omit=False)


def test_laws_of_a_sum(rng, tmp_path):
    layers = [nets.lstm(rng, 4, 3), nets.dense(rng, 3, 4, "tanh"), Sum(), nets.dense(rng, 4, 2)]
    model = lrp.Model(layers, readout="every")
    assert not model.every
    laws.hold(model, records(rng), rng, tmp_path, whole=False)
    no_bias = lrp.Model([layers[0], nets.dense(rng, 3, 4, "tanh", bias=False), *layers[2:]], readout="every")
    laws.decomposition_adds_up(no_bias, records(rng), 0, [[]] * 4, whole=True)


def test_a_sum_is_the_mean_times_the_steps(rng):
    below, head = nets.lstm(rng, 4, 3), nets.dense(rng, 3, 2, bias=False)
    total, mean = (lrp.Model([below, readout, head], readout="every") for readout in (Sum(), Mean()))
    for x in records(rng):
        for method in ("gradient-x-input", "occlusion-f", "cd"):
            a, b = (lrp.explain(model, x, method, 1).relevance for model in (total, mean))
            close(a, b * len(x), 1e-12)


def test_windows_of_padding_alone(rng):
    """Far apart places may all miss a short sequence: then the output is the bias, and keeps its relevance."""
    model = network(rng, conv(rng, 4, 4, width=2, dilation=3, padding=(2, 2), activation="tanh"))
    short = [rng.normal(size=(1, 4)), rng.normal(size=(2, 4))]
    for rows in (restated(model.layers[0], x) for x in short):
        assert len(rows)
    close(outputs(model.layers[0], short)[0], restated(model.layers[0], short[0]), 1e-12, 1)
    for x in short:
        found = lrp.explain(model, x, "lrp-abs", 0, eps=0.1)
        close(found.ledger.total, found.scores[0], 1e-12, max(1, found.ledger.largest))
    laws.gradients_are_slopes(model, short, 0, rng)
    laws.decomposition_adds_up(model, short, 0, [[(0, 1)]] * 2, whole=True)


# ---- occlusion and contextual decomposition in detail ----


class PlainConv(Conv1D):
    changed = lrp.Layer.changed


class PlainPool(MaxPool1D):
    changed = lrp.Layer.changed


@pytest.mark.parametrize("reference", ["zero", "omit"])
def test_occlusion_of_windows_is_that_of_the_layer_run_anew(rng, reference):
    settings = {"stride": 2, "dilation": 2, "padding": "same", "activation": "relu"}
    first = conv(rng, 4, 4, **settings)
    rest = [nets.lstm(rng, 4, 3), nets.dense(rng, 3, 2)]
    model = lrp.Model([first, MaxPool1D(2, 1), *rest])
    plain = lrp.Model([PlainConv(first.K, first.d, **settings), PlainPool(2, 1), *rest])
    xs = records(rng, lengths=(12, 7, 9))
    spans = [[(0, 4), (3, 9), (11, 12)], [(2, 3)], [(1, 6), (4, 5)]]
    options = {"spans": spans, "reference": reference, **({"unit": "feature"} if reference == "zero" else {})}
    ours, theirs = (lrp.explain_all(one, xs, "occlusion-f", 0, **options) for one in (model, plain))
    close(ours.relevance, theirs.relevance, 1e-12, 1)
    for a, b in zip(ours, theirs, strict=True):
        close([s.relevance for s in a.spans], [s.relevance for s in b.spans], 1e-12, 1)


def test_occlusion_of_steps_that_no_window_sees(rng):
    model = network(rng, AvgPool1D(2, 4))
    x = rng.normal(size=(8, 4))
    found = lrp.explain(model, x, "occlusion-f", 0, tol=1e-9).relevance
    np.testing.assert_array_equal(found[[2, 3, 6, 7]], 0)
    assert (found[[0, 1, 4, 5]] != 0).all()


@pytest.mark.parametrize(
    "layer",
    [
        {"activation": "tanh", "padding": "same"},
        {"activation": "relu", "padding": "causal", "stride": 2, "groups": 2},
        MaxPool1D(2),
        MaxPool1D(3, 2, (2, 1)),
        AvgPool1D(3, 2, "same"),
    ],
    ids=str,
)
def test_decomposition_restated(rng, layer):
    """beta and delta of every window, for phrases of sequences of several lengths, above a Dense layer with a bias."""
    layer = conv(rng, 4, 4, **layer) if isinstance(layer, dict) else layer
    below = nets.dense(rng, 4, 4)
    model, xs = network(rng, below, layer), records(rng, lengths=(9, 7, 7, 4))
    trace = forward(model, packed(model, encode_all(model, xs)), "trace")
    owner, start, stop = np.array([[0, 0, 0, 1, 2, 3], [0, 4, 8, 2, 0, 1], [9, 6, 9, 5, 1, 3]])
    part = dict(decompose(trace, phrases_of(trace, "x", owner, start, stop)))["1"]
    for v, beta in enumerate(part.beta.batch.split(part.beta.rows)):
        x = xs[owner[v]] @ below.V.T + below.d
        inside = (np.arange(len(x)) >= start[v]) & (np.arange(len(x)) < stop[v])
        beta_x = xs[owner[v]] @ below.V.T * inside[:, None]
        if isinstance(layer, Conv1D):
            plain, F = (
                replace(layer, d=None, activation="linear"),
                {"tanh": np.tanh, "relu": lambda z: np.maximum(z, 0)},
            )
            a, z, F = restated(plain, beta_x), restated(plain, x) + layer.d, F[layer.activation]
            blocks = [below.d[:2], below.d[2:]] if layer.groups == 2 else [below.d]
            b = layer.d + [(layer.K[j] * blocks[j * layer.groups // 4]).sum() for j in range(4)]
            close(part.delta, F(b))
            close(beta, (F(a + b) - F(b) + F(z) - F(z - a)) / 2, 1e-12, 1)
            continue
        close(part.delta, below.d)
        if isinstance(layer, AvgPool1D):
            close(beta, restated(layer, beta_x), 1e-12, 1)
            continue
        seen = [
            [t for t in one if t is not None] for one in windows(len(x), layer.size, layer.stride, 1, layer.padding)
        ]
        close(beta, [[beta_x[one[x[one, j].argmax()], j] for j in range(4)] for one in seen], 1e-12, 1)


class FromTheStart(Conv1D):
    def part_after(self, ran, parts, beta, delta):
        return super().part_after(ran, parts, beta, delta)._replace(since=np.zeros_like(parts[0].since))


@pytest.mark.parametrize("cell", [nets.lstm, nets.two_way])
def test_decomposition_begins_where_a_window_reaches_the_phrase(rng, cell):
    settings = {"stride": 2, "dilation": 2, "padding": "same", "activation": "tanh"}
    first, above = conv(rng, 4, 4, **settings), cell(rng, 4, 3)
    rest = [above, nets.dense(rng, above.outputs, 2)]
    model, plain = lrp.Model([first, *rest]), lrp.Model([FromTheStart(first.K, first.d, **settings), *rest])
    for x in records(rng):
        close(lrp.explain(model, x, "cd", 1).relevance, lrp.explain(plain, x, "cd", 1).relevance, 1e-12)


@pytest.mark.parametrize(
    ("windows", "T", "middles"),
    [
        (WindowSteps(3, 1, 1, "valid"), 5, [1, 2, 3]),
        (WindowSteps(2, 2, 1, "valid"), 5, [0, 2]),  # the lower of two
        (WindowSteps(3, 1, 1, "same"), 4, [0, 1, 2, 2]),  # the last covers 2 and 3
        (WindowSteps(4, 2, 1, "causal"), 6, [0, 1, 2]),  # 0; 0 1 2; 1 2 3 4
        (WindowSteps(3, 1, 2, "same"), 5, [0, 1, 2, 1, 2]),  # 0 2; 1 3; 0 2 4; 1 3; 2 4
        (WindowSteps(2, 1, 2, "same"), 1, [0]),  # -1 and 1: padding alone
    ],
)
def test_middles(windows, T, middles):
    count = windows.count(T)
    np.testing.assert_array_equal(windows.middles(np.arange(count), np.full(count, T)), middles)


def test_a_phrase_in_windows_is_where_their_middles_are(rng):
    """CD of the whole network is CD of the layers above with the pooled values and the phrase of the middles."""
    above = [nets.lstm(rng, 4, 3), nets.dense(rng, 3, 2)]
    pool = AvgPool1D(3, 2)
    model, x = lrp.Model([pool, *above], inputs={"x": lrp.Input(4)}), rng.normal(size=(9, 4))
    x[[0, 1, 7, 8]] = 0  # then only the windows (2, 3, 4) and (4, 5, 6) have values, and those beside them halves
    x[[2, 6]] = 0
    found = lrp.explain(model, x, "cd", 1, spans=[(3, 6)]).spans[0].relevance  # the middles of the windows: 1 3 5 7
    want = lrp.explain(lrp.Model(above), restated(pool, x), "cd", 1, spans=[(1, 3)]).spans[0].relevance
    close(found, want)


# ---- what surrounds them ----


def test_hidden_relevance_has_the_steps_of_its_layer(rng):
    model = network(rng, MaxPool1D(2))
    xs = records(rng)
    many = lrp.explain_all(model, xs, "lrp-all", 0, eps=0.1, hidden=True)
    for x, found in zip(xs, many, strict=True):
        one = lrp.explain(model, x, "lrp-all", 0, eps=0.1, hidden=True)
        assert found.hidden[0].h.shape == (len(x) // 2, 3)
        close(found.hidden[0].h, one.hidden[0].h, 1e-11, 1)
        close(one.hidden[0].h, lrp.explain(
            lrp.Model(model.layers[1:]), restated(model.layers[0], x), "lrp-all", 0, eps=0.1, hidden=True
        ).hidden[0].h)  # fmt: skip


def test_hidden_relevance_that_is_computed_again(rng):
    """What float32 has too few digits for is computed again in float64, the hidden states too."""
    model = network(rng, AvgPool1D(2)).astype("float32")
    xs = [x.astype("float32") for x in records(rng, lengths=(8, 6, 7, 5, 8, 4) * 20)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lrp.RelevanceWarning)
        short, long = (
            lrp.explain_all(one, xs, "lrp-prop", 0, eps=0, hidden=True) for one in (model, model.astype("float64"))
        )
    again = [k for k, one in enumerate(long) if one.ledger.largest > 1e6 * abs(one.scores[0])]
    assert again
    for k in again:
        close(short[k].hidden[0].h, long[k].hidden[0].h, 1e-5)


def test_sequences_must_be_long_enough(rng, tmp_path):
    model = network(rng, conv(rng, 4, 4, width=3, dilation=2), MaxPool1D(2))
    assert model.least == {"x": 6}
    lrp.predict(model, rng.normal(size=(6, 4)))
    with pytest.raises(lrp.LrpError, match=r"^x must have at least 6 steps for this model, got 5"):
        lrp.predict(model, rng.normal(size=(5, 4)))
    with pytest.raises(lrp.LrpError, match=r"^sequence 1 must have at least 6 steps"):
        lrp.explain_all(model, records(rng, lengths=(7, 5)))
    with pytest.raises(lrp.LrpError, match=r"reference='omit' must leave at least 6, got a phrase of 1 of 6"):
        lrp.explain(model, rng.normal(size=(6, 4)), "occlusion-f", 0, reference="omit")
    with pytest.raises(lrp.LrpError, match=r"MaxPool1D: a sequence must have at least 2 steps here, got 1"):
        MaxPool1D(2).view(Batch(np.array([4, 1])))
    found = lrp.explain_corpus(model, records(rng, lengths=(7, 5, 6)), target=0, out=tmp_path / "out")
    assert (len(found), found.rejected) == (2, 1)
    padded = network(rng, conv(rng, 4, 4, padding="same", stride=2), AvgPool1D(2, padding=(1, 1)))
    assert padded.least == {"x": 1}


def test_two_series_of_one_network(rng):
    """Each input has its own least number of steps."""
    nodes = [
        lrp.Node("conv", conv(rng, 4, 4, width=4, stride=2), ("a",)),
        lrp.Node("pool", MaxPool1D(2), ("conv",)),
        lrp.Node("lstm", nets.lstm(rng, 4, 3), ("pool",)),
        lrp.Node("other", nets.lstm(rng, 2, 3), ("b",)),
        lrp.Node("head", nets.dense(rng, 3, 2), ("lstm:last",)),
    ]
    model = lrp.Model(nodes, inputs={"a": lrp.Input(4), "b": lrp.Input(2)})
    assert model.least == {"a": 6, "b": 1}
    with pytest.raises(lrp.LrpError, match=r"^x, input 'a' must have at least 6 steps"):
        lrp.predict(model, {"a": np.ones((5, 4)), "b": np.ones((1, 2))})


def test_folding_a_batch_norm_into_a_convolution(rng):
    s, t = rng.uniform(0.5, 2, (2, 4))
    xs = records(rng)
    for first, kinds in (
        ([conv(rng, 4, 4, padding="same", groups=2), Affine(s, t)], ["Conv1D", "LSTM", "Dense"]),
        ([Affine(s, t), conv(rng, 4, 4, groups=2, activation="relu")], ["Conv1D", "LSTM", "Dense"]),
        ([conv(rng, 4, 4), Affine(s, t), conv(rng, 4, 4)], ["Conv1D", "Conv1D", "LSTM", "Dense"]),
    ):
        model = network(rng, *first)
        smaller = folded(model)
        assert [type(layer).__name__ for layer in smaller.layers] == kinds
        close(lrp.predict_all(smaller, xs), lrp.predict_all(model, xs), 1e-12)
    for first in (
        [conv(rng, 4, 4, activation="relu"), Affine(s, t), MaxPool1D(2)],
        [Affine(s, t), conv(rng, 4, 4, padding="same")],
    ):
        assert len(folded(network(rng, *first)).layers) == len(first) + 2


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda K: Conv1D(K[0]), r"Conv1D: K must have shape \(any, any, any\), got \(3, 2\)"),
        (lambda K: Conv1D(K, np.ones(3)), r"Conv1D: d must have shape \(4\), got \(3,\)"),
        (lambda K: Conv1D(K, stride=0), "Conv1D: stride must be a whole number of at least 1, got 0"),
        (lambda K: Conv1D(K, dilation=1.5), "Conv1D: dilation must be a whole number of at least 1, got 1.5"),
        (lambda K: Conv1D(K, groups=3), "Conv1D: groups must divide the 4 outputs, got 3"),
        (lambda K: Conv1D(K, padding="full"), "padding must be one of 'valid', 'same', 'causal', .*, got 'full'"),
        (lambda K: Conv1D(K, padding=2), r"padding must be one of 'valid', .*or a pair of steps \(left, right\)"),
        (lambda K: Conv1D(K, padding=(1, -1)), "Conv1D: padding must be a whole number of at least 0, got -1"),
        (lambda K: Conv1D(K, activation="swish2"), "Conv1D: activation must be one of"),
        (lambda K: MaxPool1D(0), "MaxPool1D: size must be a whole number of at least 1, got 0"),
        (lambda K: MaxPool1D(2, True), "MaxPool1D: stride must be a whole number of at least 1, got True"),
        (lambda K: MaxPool1D(2, padding="causal"), "padding must be one of 'valid', 'same', .*, got 'causal'"),
        (lambda K: AvgPool1D(2, padding=(0, 2)), r"AvgPool1D: padding must be less than the size, 2, got \(0, 2\)"),
        (
            lambda K: lrp.Model(
                [Conv1D(K), lrp.LSTM(np.ones((4, 1, 4)), np.ones((4, 1, 1)))], inputs={"x": lrp.Input(3)}
            ),
            r"Model: K of layer 0 \(Conv1D\) must take the 3 outputs of the input, got 2 columns",
        ),
        (
            lambda K: lrp.Model([lrp.LSTM(np.ones((4, 2, 3)), np.ones((4, 2, 2))), Conv1D(K)]),
            r"inputs of layer 1 \(Conv1D\) must have steps, got one vector of 2 numbers of the layer 0",
        ),
        (
            lambda K: lrp.Model([lrp.LSTM(np.ones((4, 2, 3)), np.ones((4, 2, 2))), MaxPool1D(2)]),
            r"inputs of layer 1 \(MaxPool1D\) must have steps, got one vector",
        ),
    ],
)  # fmt: skip
def test_errors(make, says):
    with pytest.raises(lrp.LrpError, match=says):
        make(np.ones((4, 3, 2)))


def test_what_inspect_says(rng, tmp_path):
    layers = [conv(rng, 4, 6, stride=2, groups=2, padding="same", activation="relu"), MaxPool1D(3, 2, (1, 0))]
    lrp.save(network(rng, *layers, M=6), tmp_path / "model.h5")
    said = str(lrp.inspect(tmp_path / "model.h5"))
    assert "Conv1D, 4 to 6, stride 2, padding same, groups 2, relu, width 3" in said
    assert "MaxPool1D, size 3, stride 2, padding (1, 0)" in said


def test_gamma_in_a_convolution():
    """Term by term: those that have the sign of their sum count 1 + gamma times; then the epsilon rule."""
    rng = np.random.default_rng(8)
    K, d, x = rng.normal(size=(2, 3, 4)), rng.normal(size=2), rng.normal(size=(7, 4))
    V, gamma, eps = rng.normal(size=(1, 2)), 0.5, 0.01
    cell = lrp.RNN(np.eye(2), np.zeros((2, 2)), activation="linear")  # what it gets, and R passes with eps 0
    model = lrp.Model([Conv1D(K, d, padding="same"), cell, lrp.Dense(V)], readout="mean")
    found = lrp.explain(model, x, "lrp-all", 0, eps=eps, gamma=gamma)
    arrived = lrp.explain(model, x, "lrp-all", 0, eps=eps, gamma=gamma, hidden=True).hidden[0].h  # (7, 2) at the cell
    wide = np.concatenate([np.zeros((1, 4)), x, np.zeros((1, 4))])
    R = np.zeros_like(wide)
    for t in range(7):
        terms = K * wide[t : t + 3]  # (2, 3, 4)
        z = terms.sum(axis=(1, 2)) + d
        R_z = arrived[t] * z / (z + eps * np.sign(z))  # the cell's own sum of one term
        terms = np.where(np.sign(terms) == np.sign(z)[:, None, None], 1 + gamma, 1) * terms
        z = terms.sum(axis=(1, 2)) + d
        R[t : t + 3] += (terms * (R_z / (z + eps * np.sign(z)))[:, None, None]).sum(axis=0)
    close(found.feature_relevance, R[1:-1], 1e-12, found.ledger.largest)
    plain, none = (lrp.explain(model, x, "lrp-all", 0, **options) for options in ({}, {"gamma": 0}))
    assert (plain.feature_relevance == none.feature_relevance).all() and np.abs(
        plain.feature_relevance - found.feature_relevance
    ).max() > 1e-3
