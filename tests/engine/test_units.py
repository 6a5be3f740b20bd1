"""Scalers: raw values in, scores and relevance in units out, by every method, and in files."""

import dataclasses
import pickle
from types import SimpleNamespace

import laws
import networks as nets
import numpy as np
import pytest

import lrpnumpy as lrp
from benchmarks.paper.measures.word_removal import word_removal

MEAN, SCALE = np.array([3.0, -20.0]), np.array([0.5, 8.0])
TARGET = (np.array([1.5]), np.array([2.5]))
LRP = ("lrp-all", "lrp-prop", "lrp-abs", "lrp-half")


def model(outputs=1, readout="last", **settings):
    rng = np.random.default_rng(5)
    layers = (nets.lstm(rng, 2, 4, state=True), nets.dense(rng, 4, outputs))
    return lrp.Model(layers, readout=readout, output="linear", **settings)


@pytest.fixture
def raw():
    return MEAN + SCALE * np.random.default_rng(2).normal(size=(5, 2))


def scaled(x):
    return (x - MEAN) / SCALE


def test_scores_and_values_are_in_units(raw):
    plain, units = model(), model(scaler=(MEAN, SCALE), output_scaler=TARGET)
    nets.close(lrp.predict(units, raw), 1.5 + 2.5 * lrp.predict(plain, scaled(raw)))
    nets.close(lrp.predict_all(units, [raw, raw]), 1.5 + 2.5 * lrp.predict_all(plain, [scaled(raw)] * 2))
    e = lrp.explain(units, raw)
    assert np.array_equal(e.values, raw)
    nets.close(e.scores, lrp.predict(units, raw))


@pytest.mark.parametrize("method", [one.name for one in lrp.methods() if one.name != "occlusion-p"])
@pytest.mark.parametrize("readout", ["last", "every"])
def test_relevance_is_that_of_the_scaled_input_in_units_of_the_target(raw, method, readout):
    plain = model(2, readout)
    scale = np.array([2.5, 0.1])
    units = model(2, readout, scaler=(MEAN, SCALE), output_scaler=([1.5, -4.0], scale))
    e, expected = lrp.explain(units, raw, method, "all"), lrp.explain(plain, scaled(raw), method, "all")
    factor = scale**2 if method == "gradient" else scale
    nets.close(e.relevance, factor[:, None] * expected.relevance)


@pytest.mark.parametrize("eps", [0.0, 0.001, 0.2])
@pytest.mark.parametrize("method", LRP)
def test_the_ledger_adds_up_in_units(raw, method, eps):
    units = model(2, scaler=(MEAN, SCALE), output_scaler=([1.5, -400.0], [2.5, 0.1]))
    e = lrp.explain(units, raw, method, 1, eps=eps)
    nets.close(e.ledger.total, e.scores[1], 1e-10)
    assert e.ledger.biases[-1] == -400.0 and len(e.ledger.biases) == 3
    against = lrp.explain(units, raw, method, 1, versus=0, eps=eps)
    nets.close(against.ledger.total, e.scores[1] - e.scores[0], 1e-10)


def test_the_laws_hold(raw, tmp_path):
    units = model(2, scaler=(MEAN, SCALE), output_scaler=([1.5, -4.0], [2.5, 0.1]))
    laws.files_and_pickles_hold_it(units, tmp_path)
    laws.float32_is_close(units, [{"x": raw}], 1)
    laws.a_batch_gives_what_single_calls_give(units, [{"x": raw}, {"x": raw[1:]}], 0, [[(0, 2)], [(1, 2)]])


def fitted(**attributes):
    return SimpleNamespace(**attributes)


@pytest.mark.parametrize(
    "scaler",
    [
        fitted(mean_=MEAN, scale_=SCALE, var_=SCALE**2),
        fitted(center_=MEAN, scale_=SCALE),
        fitted(min_=-MEAN / SCALE, scale_=1 / SCALE, clip=False),
        fitted(mean_=[0, *MEAN[::-1]], scale_=[9, *SCALE[::-1]], feature_names_in_=["q", "temp", "rain"]),
        (MEAN.tolist(), SCALE.tolist()),
        {"x": (MEAN, SCALE)},
    ],
    ids=["standard", "robust", "minmax", "by name", "lists", "by input"],
)
def test_scalers(raw, scaler):
    expected = lrp.predict(model(scaler=(MEAN, SCALE)), raw)
    nets.close(lrp.predict(model(scaler=scaler, features=("rain", "temp")), raw), expected)


def test_a_scaler_that_leaves_something_out(raw):
    one = model(scaler=fitted(mean_=MEAN, scale_=None))
    nets.close(lrp.predict(one, raw), lrp.predict(model(), raw - MEAN))
    other = model(scaler=fitted(center_=None, scale_=SCALE))
    nets.close(lrp.predict(other, raw), lrp.predict(model(), raw / SCALE))


def test_means_of_a_frame(raw):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"q": 1.0, "temp": raw[:, 1], "rain": raw[:, 0]})
    found = model(scaler=(frame.mean(), frame.std()), features=("rain", "temp")).inputs["x"].scaler
    nets.close(found.mean, raw.mean(axis=0))
    nets.close(found.scale, raw.std(axis=0, ddof=1))


def test_float32_scales_in_float64():
    """Large numbers that differ little: 1e6 + 0.01 is 1e6 in float32."""
    exact = model(scaler=(1e6, 0.01))
    x = 1e6 + 0.01 * np.random.default_rng(1).normal(size=(4, 2))
    nets.close(lrp.predict(exact.astype("float32"), x), lrp.predict(exact, x), 1e-5)


def test_wrong_scalers():
    with pytest.raises(lrp.LrpError, match="scaler must have 2 means, one for each feature, got an array of shape"):
        model(scaler=(np.zeros(3), 1.0))
    with pytest.raises(lrp.LrpError, match="scales other than 0"):
        model(scaler=(0.0, [1.0, 0.0]))
    with pytest.raises(lrp.LrpError, match="or a fitted StandardScaler"):
        model(scaler=fitted())
    with pytest.raises(lrp.LrpError, match="clip=True"):
        model(scaler=fitted(min_=MEAN, scale_=SCALE, clip=True))
    with pytest.raises(lrp.LrpError, match="a dict of the inputs 'x', got 'y'"):
        model(scaler={"y": (0.0, 1.0)})
    with pytest.raises(lrp.LrpError, match="scaler must be None with an embedding"):
        dataclasses.replace(lrp.load("sentiment"), scaler=(0.0, 1.0))
    with pytest.raises(lrp.LrpError, match="output must be 'linear' with an output_scaler, got 'softmax'"):
        dataclasses.replace(lrp.load("sentiment"), output_scaler=(0.0, 1.0))


def test_several_inputs_have_scalers_of_their_own(tmp_path):
    rng = np.random.default_rng(3)
    nodes = (
        lrp.Node("lstm", nets.lstm(rng, 2, 3), ("weather",)),
        lrp.Node("both", lrp.layers.Concat(), ("lstm:last", "basin")),
        lrp.Node("out", nets.dense(rng, 4, 1), ("both",)),
    )
    inputs = {"weather": lrp.Input(2), "basin": lrp.Input(1, steps=False)}
    units = lrp.Model(
        nodes, inputs=inputs, scaler={"weather": (MEAN, SCALE), "basin": (100.0, 7.0)}, output_scaler=(2.0, 3.0)
    )
    record, plain = (
        {"weather": MEAN + SCALE * rng.normal(size=(4, 2)), "basin": [93.0]},
        lrp.Model(nodes, inputs=inputs),
    )
    expected = 2 + 3 * lrp.predict(plain, {"weather": scaled(record["weather"]), "basin": [-1.0]})
    for one in (units, pickle.loads(pickle.dumps(units)), units.astype("float64"), units.twin()):
        nets.close(lrp.predict(one, record), expected)
    e = lrp.explain(units, record)
    assert e.inputs["basin"].values.tolist() == [[93.0]]
    nets.close(e.ledger.total, e.scores[0], 1e-10)
    lrp.save(units, tmp_path / "a.h5")
    back = lrp.load(tmp_path / "a.h5")
    assert back.digest == units.digest and np.array_equal(lrp.predict(back, record), lrp.predict(units, record))


def test_padding_is_known_by_what_is_passed_in(raw):
    units = model(scaler=(MEAN, SCALE), mask_value=-9.0)
    padded = np.concatenate((raw, np.full((2, 2), -9.0)))
    nets.close(lrp.predict(units, padded), lrp.predict(units, raw))


def test_a_reference_is_in_units(raw):
    plain, units = model(), model(scaler=(MEAN, SCALE))
    found = lrp.explain(units, raw, "occlusion-f", reference=raw[0])
    nets.close(found.relevance, lrp.explain(plain, scaled(raw), "occlusion-f", reference=scaled(raw)[0]).relevance)
    assert found.relevance[0] == 0 and found.options["reference"].startswith("given (1, 2)")


def test_units_of_a_model_that_exists(raw):
    rng = np.random.default_rng(5)
    network = lrp.Model((nets.lstm(rng, 2, 4), nets.dense(rng, 4, 1)), output="sigmoid")
    units = network.with_units(
        scaler=(MEAN, SCALE), output_scaler=TARGET, output_unit="mm", features=["rain", "temp"], classes=["discharge"]
    )
    assert (units.features, units.classes, units.output_unit) == (("rain", "temp"), ("discharge",), "mm")
    nets.close(lrp.predict(units, raw), 1.5 + 2.5 / (1 + np.exp(-lrp.predict(network, scaled(raw)))))
    e = lrp.explain(units, raw)
    assert e.probabilities is None
    nets.close(e.ledger.total, e.scores[0], 1e-10)
    nodes = lrp.Model(network.nodes, output="sigmoid").with_units(output_scaler=TARGET)
    nets.close(lrp.predict(nodes, scaled(raw)), lrp.predict(units, raw))
    assert nodes.with_units(output_unit="m").output_scaler == nodes.output_scaler


def test_an_autoencoder_is_judged_by_what_is_scaled(raw):
    plain, settings = model(2, "every"), {"scaler": (MEAN, SCALE), "output_scaler": (MEAN, SCALE)}
    error = lrp.predict(lrp.reconstruction_error(plain), scaled(raw))
    nets.close(lrp.predict(lrp.reconstruction_error(model(2, "every", **settings)), raw), error)


def test_the_report_says_it(tmp_path):
    units = model(scaler=(MEAN, SCALE), output_scaler=TARGET, classes=("discharge",), output_unit="mm")
    lrp.save(units, tmp_path / "a.h5")
    told = str(lrp.inspect(tmp_path / "a.h5"))
    assert "1: discharge in mm; the target was scaled" in told and "scaled by a mean and a scale" in told


def test_zero_is_that_of_what_the_network_takes(raw):
    """Of removal, too: a step that is taken away is an average one, not one of 0 degrees."""
    rows, labels = [raw, raw[::-1].copy(), raw * 0.5, -raw], [0, 1, 0, 1]
    relevance = {"r": [abs(row).sum(axis=1) for row in rows]}
    found = [
        word_removal(one, given, labels, relevance, reference="r", how="zero", counts=[1, 2]).correct
        for one, given in ((model(2, scaler=(MEAN, SCALE)), rows), (model(2), [scaled(row) for row in rows]))
    ]
    assert all(np.array_equal(found[0][order], found[1][order]) for order in found[0])


@pytest.mark.parametrize("method", ["deeplift", "integrated-gradients", "shapley"])
def test_differences_from_a_reference_do_not_care_about_scaling(raw, method):
    """A scaler and weights that make up for it are the same function: these methods explain it alike, LRP does not."""
    network = model(output_scaler=TARGET)
    cell = network.layers[0]
    folded = dataclasses.replace(cell, U=cell.U / SCALE, b=cell.b - cell.U @ (MEAN / SCALE))
    bare = lrp.Model((folded, network.layers[1]), output_scaler=TARGET)
    units = lrp.Model(network.layers, output_scaler=TARGET, scaler=(MEAN, SCALE))
    nets.close(lrp.predict(bare, raw), lrp.predict(units, raw))
    one, other = (lrp.explain(some, raw, method, reference=raw[0]) for some in (units, bare))
    nets.close(one.relevance, other.relevance, 1e-5 if method == "integrated-gradients" else 1e-10)
    nets.close(one.ledger.total, one.scores[0], 1e-10)
    lrp_one, lrp_other = (lrp.explain(some, raw).relevance for some in (units, bare))
    assert abs(lrp_one - lrp_other).max() > 0.01
