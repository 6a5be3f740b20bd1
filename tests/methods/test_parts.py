"""Parts of the input add up to its relevance; units of a layer add up to the whole; a hidden unit as the target."""

import warnings

import networks as nets
import numpy as np
import pytest
from graphs import graphs, records
from hypothesis import given
from hypothesis import strategies as st
from networks import close

import lrpnumpy as lrp

METHODS = ("gradient-x-input", "lrp-all", "lrp-half", "deeplift", "integrated-gradients")
DIRECT = ("gradient-x-input", "lrp-all", "deeplift")


def model_of(rng, *layers, **options):
    return lrp.Model([*layers, nets.dense(rng, layers[-1].outputs, 2)], **options)


def of_part(e, name):
    """(T, D) relevance of one part, of an explanation that `decompose` has made."""
    return e.feature_relevance[:, [one.endswith(f", {name}") for one in e.features]]


# ---- parts of the input ----


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parts_are_the_multipliers_times_the_parts(method, dtype):
    """In raw units behind a scaler; the first part is compared with the reference; single and batched."""
    rng = np.random.default_rng(1)
    scaler = (rng.normal(size=3), rng.uniform(1, 3, size=3))
    model = model_of(rng, nets.two_way(rng, 3, 4), scaler=scaler).astype(dtype)
    xs = [rng.normal(size=(T, 3)) * 2 for T in (8, 5, 6)]
    every = lrp.explain_all(model, xs, method, 1)
    share = rng.uniform(size=3)
    found = [lrp.decompose(e, lambda x: {"most": x * share, "few": x * (1 - share)}) for e in every]
    tol = 1e-12 if dtype == "float64" else 1e-4
    for x, e, one in zip(xs, every, found, strict=True):
        z = (x - scaler[0]) / scaler[1]
        few = e.feature_relevance / z * (x * (1 - share) / scaler[1])
        close(of_part(one, "few"), few, tol)
        close(of_part(one, "most") + of_part(one, "few"), e.feature_relevance, 1e-6 if dtype == "float32" else 1e-12)
        assert (one.relevance == e.relevance).all()
        assert repr(one.ledger) == repr(e.ledger)
        assert one.features == tuple(f"x{d}, {name}" for d in range(3) for name in ("most", "few"))
        close(one.values.reshape(len(x), 3, 2).sum(axis=2), x)
        alone = lrp.decompose(lrp.explain(model, x, method, 1), {"most": x * share, "few": x * (1 - share)})
        close(alone.feature_relevance, one.feature_relevance, 1e-10 if dtype == "float64" else 1e-4)


@given(st.data())
@nets.examples(10)
def test_the_order_of_parts_does_not_matter(data):
    """Of any network: without a reference the first part is no exception."""
    model = data.draw(nets.networks(stacks=2))
    x = data.draw(nets.inputs(model))
    part = np.random.default_rng(len(x)).normal(size=x.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lrp.RelevanceWarning)
        for method in DIRECT:
            e = lrp.explain(model, x, method, 0, **({"eps": 0.1} if method == "lrp-all" else {}))
            ab = lrp.decompose(e, {"a": part, "b": x - part})
            ba = lrp.decompose(e, {"b": x - part, "a": part})
            unit = 1 + abs(ab.feature_relevance).max() + abs(e.feature_relevance).max()
            close(of_part(ab, "a"), of_part(ba, "a"), 1e-10, unit)
            close(of_part(ab, "a") + of_part(ab, "b"), e.feature_relevance, 1e-10, unit)


@given(st.data())
@nets.examples(10)
def test_parts_of_several_inputs_add_up(data):
    model = data.draw(graphs(8))
    (x,) = data.draw(records(model, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lrp.RelevanceWarning)
        for method in DIRECT:
            e = lrp.explain(model, x if len(x) > 1 else x["x"], method, 0)
            for options in ({"periods": (3,)}, {"season": 2}):
                found = lrp.decompose(e, by="part", **options)
                for name, part in found.inputs.items():
                    unit = 1 + abs(part.feature_relevance).max()
                    close(part.feature_relevance.sum(axis=1), e.inputs[name].relevance, 1e-9, unit)


def test_parts_of_one_of_several_inputs():
    """An input that is left out belongs to the first part; words have parts, too."""
    rng = np.random.default_rng(3)
    model, x = nets.three_inputs(rng), nets.three_values(rng)
    e = lrp.explain(model, x, "lrp-all", 0)
    weather = x["weather"]
    found = lrp.decompose(e, {"a": {"weather": weather / 4}, "b": {"weather": 3 * weather / 4}}, by="part")
    close(found.inputs["weather"].feature_relevance[:, 1], 0.75 * e.relevance)
    for name in ("notes", "basin"):
        close(found.inputs[name].feature_relevance[:, 0], e.inputs[name].relevance)
        assert not found.inputs[name].feature_relevance[:, 1].any()
    halves = lrp.decompose(e, lambda x: {name: {key: one / 2 for key, one in x.items()} for name in "ab"}, by="part")
    close(halves.inputs["notes"].feature_relevance[:, 1], e.inputs["notes"].relevance / 2)


def test_a_value_of_zero_has_a_multiplier():
    """That of a value close to 0, under every method."""
    rng = np.random.default_rng(4)
    model, x = model_of(rng, nets.lstm(rng, 2, 4)), rng.normal(size=(6, 2))
    part = rng.normal(size=x.shape)
    for method in METHODS:
        found = []
        for zero in (0.0, 1e-9):
            x[2:4] = zero
            found.append(lrp.decompose(lrp.explain(model, x, method, 0), {"a": part, "b": x - part}))
        assert abs(of_part(found[0], "b")[2:4]).min() > 1e-6
        close(found[0].feature_relevance, found[1].feature_relevance, 1e-6)


def test_several_references():
    """DeepSHAP: each reference has its own multipliers."""
    rng = np.random.default_rng(5)
    model, x = model_of(rng, nets.gru(rng, 2, 4)), rng.normal(size=(5, 2))
    part, refs = rng.normal(size=x.shape), [rng.normal(size=2) for _ in range(3)]
    for method, more in (("deeplift", {}), ("integrated-gradients", {"nodes": 20})):
        one_each = [
            lrp.decompose(lrp.explain(model, x, method, 0, reference=r, **more), {"a": part, "b": x - part})
            for r in refs
        ]
        e = lrp.explain(model, x, method, 0, reference=refs, **more)
        found = lrp.decompose(e, {"a": part, "b": x - part})
        close(found.feature_relevance, np.mean([one.feature_relevance for one in one_each], axis=0), 1e-6)


def test_bands_are_waves():
    """A wave is in the band of its period, the mean in the slowest; every band is a part of the values."""
    rng = np.random.default_rng(6)
    t = np.arange(60)
    waves = {"over 20": 3 + np.sin(2 * np.pi * t / 30), "5 to 20": np.cos(2 * np.pi * t / 12), "under 5": (-1.0) ** t}
    model, x = model_of(rng, nets.rnn(rng, 1, 3)), sum(waves.values())[:, None]
    found = lrp.decompose(lrp.explain(model, x, "lrp-all", 0), periods=[5, 20])
    assert found.features == ("x0, over 20", "x0, 5 to 20", "x0, under 5")
    close(found.values.T, list(waves.values()), 1e-12)


def test_trend_and_season():
    rng = np.random.default_rng(7)
    t = np.arange(48)
    for period in (6, 5):
        season = np.sin(2 * np.pi * t / period)
        model, x = model_of(rng, nets.rnn(rng, 1, 3)), (0.1 * t + season)[:, None]
        found = lrp.decompose(lrp.explain(model, x, "lrp-all", 0), season=period)
        assert found.features == ("x0, trend", "x0, season", "x0, rest")
        close(found.values.sum(axis=1), x[:, 0])
        middle = slice(period, -period)
        close(found.values[middle, 0], 0.1 * t[middle], 1e-12)
        close(found.values[middle, 1], season[middle], 0.2)  # the trend has no steps beyond the ends


def test_padding_and_every_step():
    rng = np.random.default_rng(8)
    masked = model_of(rng, nets.lstm(rng, 2, 3), mask_value=0.0)
    x = rng.normal(size=(7, 2))
    x[[1, 5]] = 0
    e = lrp.explain(masked, x, "deeplift", 0)
    found = lrp.decompose(e, {"a": x / 4, "b": 3 * x / 4})
    close(of_part(found, "b"), e.feature_relevance * 0.75)
    assert not found.feature_relevance[[1, 5]].any()
    every = model_of(rng, nets.lstm(rng, 2, 3), readout="every")
    several = lrp.explain(every, x, "lrp-all", 0, step="all")
    for e in several:
        one = lrp.decompose(e, {"a": x / 4, "b": 3 * x / 4})
        close(of_part(one, "b"), e.feature_relevance * 0.75, 1e-11)


def test_a_decomposed_explanation_is_one_like_any_other():
    rng = np.random.default_rng(9)
    model, x = model_of(rng, nets.lstm(rng, 2, 3)), rng.normal(size=(12, 2))
    found = lrp.decompose(lrp.explain(model, x, "lrp-all", 0), periods=(4,))
    assert lrp.Explanation.from_json(found.to_json()).to_json() == found.to_json()
    lrp.plot.waterfall(found)
    assert found.options["parts"] == ["over 4", "under 4"]
    assert lrp.decompose(lrp.explain(model, x, "lrp-all", 0), periods=(4,), by="part").features == ("over 4", "under 4")


@pytest.mark.parametrize(
    ("method", "options", "says"),
    [
        ("occlusion-f", {"periods": (3,)}, "must multiply the input"),
        ("gradient", {"periods": (3,)}, "got gradient"),
        ("lrp-all", {}, "one of parts, periods and season"),
        ("lrp-all", {"periods": (3,), "season": 2}, "one of parts, periods and season"),
        ("lrp-all", {"periods": (3, 3)}, "different positive numbers"),
        ("lrp-all", {"periods": "week"}, "different positive numbers"),
        ("lrp-all", {"season": 5}, "at most half of the 6 steps"),
        ("lrp-all", {"season": 1.5}, "season must be a whole number"),
        ("lrp-all", {"parts": {}}, "dict of names and arrays"),
        ("lrp-all", {"parts": {"a": np.zeros((6, 2))}}, "add up to the input, got sums that miss it by"),
        ("lrp-all", {"parts": {"a": np.zeros((5, 2))}}, r"shape of the input, \(6, 2\), got \(5, 2\)"),
        ("lrp-all", {"parts": {"a": "x"}}, "must be an array of numbers"),
        ("lrp-all", {"periods": (3,), "by": "step"}, "by must be one of"),
    ],
)
def test_what_cannot_be_divided(method, options, says):
    rng = np.random.default_rng(10)
    e = lrp.explain(model_of(rng, nets.lstm(rng, 2, 3)), np.ones((6, 2)), method, 0, unit="feature")
    with pytest.raises(lrp.LrpError, match=says):
        lrp.decompose(e, **options)


def test_what_has_no_network_or_no_features_cannot_be_divided():
    rng = np.random.default_rng(11)
    model, x = model_of(rng, nets.lstm(rng, 2, 3)), np.ones((6, 2))
    with pytest.raises(lrp.LrpError, match="does not hold"):
        lrp.decompose(lrp.Explanation.from_json(lrp.explain(model, x, "lrp-all").to_json()), periods=(3,))
    with pytest.raises(lrp.LrpError, match="unit='feature'"):
        lrp.decompose(lrp.explain(model, x, "lrp-all", unit="step"), periods=(3,))
    with pytest.raises(lrp.LrpError, match="needs one class"):
        lrp.decompose(lrp.explain(model, x, "lrp-all", "all"), periods=(3,))
    with pytest.raises(lrp.LrpError, match="must be an explanation, got"):
        lrp.decompose([3], periods=(3,))


# ---- through units ----


@given(st.data())
@nets.examples(15)
def test_units_add_up_to_the_whole(data):
    """Of every layer of a chain, in one direction or two, at every readout; single and batched."""
    model = data.draw(nets.networks(stacks=2, sizes=(1, 3)))
    xs = data.draw(nets.inputs(model, 5, 2))
    node = data.draw(st.sampled_from(model.nodes))
    width = model.sizes[node.name].width
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lrp.RelevanceWarning)
        for method in DIRECT:
            options = {"eps": 0.1} if method == "lrp-all" else {}
            whole = lrp.explain_all(model, xs, method, 0, **options)
            units = [lrp.explain_all(model, xs, method, 0, through={node.name: [k]}, **options) for k in range(width)]
            for s, e in enumerate(whole):
                unit = 1 + sum(abs(one[s].feature_relevance).max() for one in units)
                close(sum(one[s].feature_relevance for one in units), e.feature_relevance, 1e-10, unit)
                single = lrp.explain(model, xs[s], method, 0, through={node.name: [0]}, **options)
                close(single.feature_relevance, units[0][s].feature_relevance, 1e-10, unit)
                if e.ledger is not None:
                    unit += getattr(e.ledger, "largest", 0)
                    close(single.ledger.total, e.ledger.total, 1e-10, unit)
                    close(single.ledger.inputs, single.relevance.sum(), 1e-10, unit)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", METHODS)
def test_units_of_a_network_with_several_inputs(method, dtype):
    """What goes around the layer passes through none of its units."""
    rng = np.random.default_rng(12)
    nodes = [
        lrp.Node("lstm", nets.two_way(rng, 2, 3), ("x",)),
        lrp.Node("both", lrp.layers.Concat(), ("lstm:last", "static")),
        lrp.Node("out", nets.dense(rng, 8, 2), ("both",)),
    ]
    inputs = {"x": lrp.Input(2), "static": lrp.Input(2, steps=False)}
    model = lrp.Model(nodes, inputs=inputs).astype(dtype)
    x = {"x": rng.normal(size=(5, 2)), "static": rng.normal(size=2)}
    e = lrp.explain(model, x, method, 0)
    units = [lrp.explain(model, x, method, 0, through={"lstm": [k]}) for k in range(6)]
    tol = 1e-12 if dtype == "float64" else 1e-5
    close(sum(one.feature_relevance for one in units), e.feature_relevance, tol)
    assert not any(one.inputs["static"].relevance.any() for one in units)
    half = lrp.explain(model, x, method, 0, through={"lstm": [0, 1, 2], "both": range(8)})
    close(half.feature_relevance, sum(one.feature_relevance for one in units[:3]), tol)
    if e.ledger is not None:
        close(half.ledger.total, e.ledger.total, tol)
    assert half.source is None  # experiments test whole explanations


def test_all_classes_pass_through_a_unit():
    rng = np.random.default_rng(13)
    model, x = model_of(rng, nets.lstm(rng, 2, 3)), rng.normal(size=(5, 2))
    for method in METHODS:
        every = lrp.explain(model, x, method, "all", through={"0": [2]})
        one = lrp.explain(model, x, method, 1, through={"0": [2]})
        close(every.for_class(1).relevance, one.relevance, 1e-10)
        assert one.options["through"] == {"0": [2]} and "through 0[2]" in str(one)
        lrp.Explanation.from_json(one.to_json())


@pytest.mark.parametrize(
    ("through", "says"),
    [
        ([5], "through must be a dict"),
        ({}, "through must be a dict"),
        ({"gru": [1]}, r"through: a layer must be one of '0' \(LSTM\), '1' \(Dense\), got 'gru'"),
        ({"0": [1], "lstm": [2]}, "layer '0' must occur once, got it twice"),
        ({"0": range(10**15)}, "must have at most 3 entries, got more"),
        ({"0": [3]}, "must lie from 0 to 2, got 3"),
        ({"0": []}, "must be a list of numbers"),
        ({"0": 1}, "must be a list of numbers, got 1"),
        ({"0": [-1]}, "at least 0, got -1"),
    ],
)
def test_units_that_there_are_not(through, says):
    rng = np.random.default_rng(14)
    model = model_of(rng, nets.lstm(rng, 2, 3))
    for method in METHODS:
        with pytest.raises(lrp.LrpError, match=says):
            lrp.explain(model, np.ones((4, 2)), method, through=through)


def test_the_kind_of_a_layer_is_its_name_where_there_is_one():
    """In a list of layers nodes have numbers: "lstm" is the only LSTM, also inside a Bidirectional."""
    rng = np.random.default_rng(15)
    model, x = model_of(rng, nets.lstm(rng, 2, 3)), rng.normal(size=(5, 2))
    for method in METHODS:
        e = lrp.explain(model, x, method, 0, through={"lstm": [2]})
        assert e.options["through"] == {"0": [2]}
        close(e.relevance, lrp.explain(model, x, method, 0, through={"0": [2]}).relevance, 1e-12)
    for name, same in (("lstm", "0"), ("lstm:cell", "0:cell")):
        e = lrp.explain(model, x, "deeplift", (name, 1))
        assert e.prediction == lrp.explain(model, x, "deeplift", (same, 1)).prediction
    with pytest.raises(lrp.LrpError, match=r"target: a layer must be one of '0' \(LSTM\), .*got 'gru'"):
        lrp.explain(model, x, target=("gru", 1))
    both = model_of(rng, nets.two_way(rng, 2, 3))
    assert lrp.explain(both, x, "deeplift", 0, through={"lstm": [5]}).options["through"] == {"0": [5]}
    assert lrp.explain(both, x, "deeplift", 0, through={"bidirectional": [5]}).options["through"] == {"0": [5]}
    two = lrp.Model([nets.lstm(rng, 2, 3), nets.lstm(rng, 3, 3), nets.dense(rng, 3, 2)])
    with pytest.raises(lrp.LrpError, match=r"one of '0' \(LSTM\), '1' \(LSTM\), '2' \(Dense\), got 'lstm'"):
        lrp.explain(two, x, through={"lstm": [1]})


def test_no_evidence_for_some_of_an_explanation():
    """An experiment changes the complete score, so it tests no part of an explanation."""
    rng = np.random.default_rng(16)
    model, x = model_of(rng, nets.lstm(rng, 2, 3)), rng.normal(size=(5, 2))
    e = lrp.explain(model, x, "deeplift", 0)
    e.evidence()
    cut = lrp.explain(model, x, "deeplift", 0, through={"lstm": [1]})
    parts = lrp.decompose(e, periods=(3,))
    for some, reason in ((cut, r"this one has through=\{'0': \[1\]\}"), (parts, "this one has parts=")):
        for again in (some, lrp.Explanation.from_json(some.to_json())):
            for call in (again.evidence, lambda again=again: lrp.evidence(model, x, again)):
                with pytest.raises(lrp.LrpError, match=f"evidence tests complete explanations, .*{reason}"):
                    call()
    unit = lrp.explain(lrp.Model([nets.lstm(rng, 2, 2), nets.dense(rng, 2, 2)]), x, "deeplift", ("lstm", 1))
    with pytest.raises(lrp.LrpError, match="must be a whole one of this model and input"):
        lrp.evidence(model, x, unit)  # which has as many scores


def test_evidence_of_features_that_were_joined():
    """Steps are tested as they are; the features of a vector must be those of the network."""
    rng = np.random.default_rng(17)
    names = ["a", "b", "c"]
    model = lrp.Model([nets.lstm(rng, 3, 3), nets.dense(rng, 3, 2)], features=names)
    for T in (1, 5):
        x = rng.normal(size=(T, 3))
        e = lrp.Explanation.from_json(lrp.explain(model, x, "deeplift", 0).to_json())
        joined = e.with_groups({"ab": ["a", "b"]})
        if T > 1:
            assert lrp.evidence(model, x, joined).verdict == lrp.evidence(model, x, e).verdict
            continue
        with pytest.raises(
            lrp.LrpError, match="with the relevance of all inputs, steps and features as they were passed in"
        ):
            lrp.evidence(model, x, joined)


# ---- a hidden unit as the target ----


def test_a_hidden_unit_as_the_target():
    """Its value is the score; at another step, single and batched, by every method."""
    rng = np.random.default_rng(15)
    model = model_of(rng, nets.two_way(rng, 2, 3), nets.gru(rng, 6, 4), output_unit="mm", output_scaler=(1.0, 2.0))
    xs = [rng.normal(size=(T, 2)) for T in (6, 4)]
    for method in [one for one in nets.every_method(model) if one != "occlusion-p"]:
        found = lrp.explain_all(model, xs, method, ("0", 5))
        for x, e in zip(xs, found, strict=True):
            values = lrp.trace(model, x)
            close(e.scores, values["0"][-1])
            assert e.target == 5 and e.name_of(5) == "0[5]" and e.output_unit is None
            close(lrp.explain(model, x, method, ("0", 5)).relevance, e.relevance, 1e-10)
            close(lrp.explain(model, x, method, ("0", 5), step=1).score, values["0"][1, 5])
            close(lrp.explain(model, x, method, ("1:last", 2)).score, values["1:last"][0, 2])
    windows = lrp.explain_windows(model, xs[0], length=4, target=("0", 5))
    close(windows[1].relevance, lrp.explain(model, xs[0][1:5], target=("0", 5)).relevance, 1e-10)
    e = lrp.explain(model, xs[0], "lrp-all", ("0", 5))
    close(e.ledger.total, e.score)
    assert e.evidence().verdict


def test_what_is_no_hidden_unit():
    rng = np.random.default_rng(16)
    model, x = model_of(rng, nets.lstm(rng, 2, 3), classes=("no", "yes")), np.ones((4, 2))
    with pytest.raises(lrp.LrpError, match=r"a layer must be one of '0'.*, got 'gru'"):
        lrp.explain(model, x, target=("gru", 1))
    with pytest.raises(lrp.LrpError, match="must lie from 0 to 2, got 3"):
        lrp.explain(model, x, target=("0", 3))
    assert lrp.explain_all(model, [x, x], target=("yes", 0)).targets.tolist() == [1, 0]  # a class for each sequence
