"""Windows of a series, and the predictions of every step: each is what a call for it alone gives."""

import networks as nets
import numpy as np
import pytest

import lrpnumpy as lrp
from lrpnumpy import schedule

DATES = np.arange("2005-03-01", "2005-04-10", dtype="M8[D]")  # 40 days


def network(readout="last", outputs=1, D=3, cell=nets.lstm, **settings):
    rng = np.random.default_rng(7)
    layers = (cell(rng, D, 4, size=0.5), nets.dense(rng, 4, outputs))
    return lrp.Model(layers, readout=readout, output="linear", **settings)


@pytest.fixture
def x():
    return np.random.default_rng(1).normal(size=(40, 3))


@pytest.mark.parametrize(("length", "stride"), [(10, 1), (10, 7), (1, 1), (40, 1), (3, 5)])
@pytest.mark.parametrize("target", [None, "all"])
def test_windows_are_what_single_calls_give(x, length, stride, target):
    model = network(outputs=2)
    found = lrp.explain_windows(model, x, length=length, stride=stride, target=target)
    starts = range(0, 41 - length, stride)
    assert len(found) == len(starts) and found.ends.tolist() == [start + length - 1 for start in starts]
    for start, e in zip(starts, found, strict=True):
        one = lrp.explain(model, x[start : start + length], target=target)
        nets.close(e.feature_relevance, one.feature_relevance)
        assert np.array_equal(e.values, one.values) and e.target == one.target
    assert found[0].values.base is None or len(found) == 1  # of its own: it does not keep the series in memory


@pytest.mark.parametrize(("length", "stride"), [(10, 1), (10, 7), (3, 5)])
@pytest.mark.parametrize("target", [0, "all"])
def test_the_average_is_on_the_axis_of_the_series(x, length, stride, target):
    found = lrp.explain_windows(network(outputs=2), x, length=length, stride=stride, target=target)
    average = found.average()
    for t in range(40):
        inside = [(k, t - start) for k, start in enumerate(found.starts) if start <= t < start + length]
        assert found.counts[t] == len(inside)
        parts = [found[k].feature_relevance[..., at, :] for k, at in inside]
        expected = np.mean(parts, axis=0) if parts else np.zeros(np.shape(average.feature_relevance[..., t, :]))
        nets.close(average.feature_relevance[..., t, :], expected, unit=1)
    nets.close(average.relevance, average.feature_relevance.sum(axis=-1))
    assert np.array_equal(average.values, x) and average.options["windows"] == len(found)


def test_dates(x):
    pandas = pytest.importorskip("pandas")
    model = network(features=("rain", "temp", "wind"))
    frame = pandas.DataFrame(x, pandas.to_datetime(DATES), ["rain", "temp", "wind"])
    found = lrp.explain_windows(model, frame, length=10)
    for date in ("2005-04-03", np.datetime64("2005-04-03"), pandas.Timestamp("2005-04-03"), 33):
        e = found.at(date)
        assert e.step_names[9] == "2005-04-03" and e.step_names[0] == "2005-03-25"
        nets.close(e.relevance, lrp.explain(model, x[24:34]).relevance)
    assert found.average().step_names[0] == "2005-03-01" and found.labels[0] == np.datetime64("2005-03-10")
    with pytest.raises(lrp.LrpError, match=r"no window ends at '2005-03-09'; .* from 2005-03-10 to 2005-04-09"):
        found.at("2005-03-09")
    with pytest.raises(lrp.LrpError, match="is not a date"):
        found.at("Easter")
    with pytest.raises(lrp.LrpError, match=r"no window ends at 10; .* from 9 to 37"):
        lrp.explain_windows(model, x, length=10, stride=7).at(10)


def test_several_inputs_and_units(x):
    rng = np.random.default_rng(3)
    nodes = (
        lrp.Node("lstm", nets.lstm(rng, 3, 3), ("weather",)),
        lrp.Node("other", nets.gru(rng, 2, 3), ("stock",)),
        lrp.Node("both", lrp.layers.Concat(), ("lstm:last", "other:last", "basin")),
        lrp.Node("out", nets.dense(rng, 8, 1), ("both",)),
    )
    ports = {"weather": lrp.Input(3), "stock": lrp.Input(2), "basin": lrp.Input(2, steps=False)}
    model = lrp.Model(nodes, inputs=ports, scaler={"weather": (2.0, 3.0)}, output_scaler=(1.0, 5.0))
    record = {"weather": x, "stock": x[:, 1:], "basin": [1.0, 2.0]}
    found = lrp.explain_windows(model, record, length=5)
    cut = {"weather": x[7:12], "stock": x[7:12, 1:], "basin": [1.0, 2.0]}
    for name, part in lrp.explain(model, cut).inputs.items():
        nets.close(found[7].inputs[name].feature_relevance, part.feature_relevance)
        assert np.array_equal(found[7].inputs[name].values, part.values)
    with pytest.raises(lrp.LrpError, match="as many steps in each input"):
        lrp.explain_windows(model, {**record, "stock": x[1:, 1:]}, length=5)


def test_padding_and_words():
    model = network(mask_value=-9.0)
    x = np.random.default_rng(1).normal(size=(12, 3))
    x[[3, 4, 8]] = -9
    for start, e in enumerate(lrp.explain_windows(model, x, length=4)):
        one = lrp.explain(model, x[start : start + 4])
        nets.close(e.relevance, one.relevance)
        assert np.array_equal(e.values, one.values)
    average = lrp.explain_windows(model, x, length=4).average()
    assert average.padding == (3, 4, 8) and np.array_equal(average.values, x) and str(average)
    with pytest.raises(lrp.LrpError, match="not padding in every window, got none from 3 on"):
        lrp.explain_windows(model, x, length=2)
    words = lrp.load("sentiment")
    found = lrp.explain_windows(words, "not a very good film , but a fine one", length=3)
    assert found[1].tokens == ("a", "very", "good")


def test_a_model_that_pads_its_input(x):
    """The series is cut into windows, and not to the length of one."""
    rng = np.random.default_rng(4)
    ports = {"x": lrp.Input(3, pad=(5, "pre", 0.0))}
    model = lrp.Model((nets.lstm(rng, 3, 4), nets.dense(rng, 4, 1)), inputs=ports)
    found = lrp.explain_windows(model, x, length=5)
    assert len(found) == 36 and found[9].marks is None
    nets.close(found[9].relevance, lrp.explain(model, x[9:14]).relevance)
    with pytest.raises(lrp.LrpError, match="length must be 5, to which"):
        lrp.explain_windows(model, x, length=6)


def test_what_cannot_be_is_said(x):
    for length in (0, 41, 2.5):
        with pytest.raises(lrp.LrpError, match="length must"):
            lrp.explain_windows(network(), x, length=length)
    with pytest.raises(lrp.LrpError, match="stride must"):
        lrp.explain_windows(network(), x, length=4, stride=0)
    mixed = lrp.explain_windows(network(outputs=2), x, length=20, stride=10, target=[0, 1, 0])
    with pytest.raises(lrp.LrpError, match="explain several classes"):
        mixed.average()
    with pytest.raises(lrp.LrpError, match="unknown option 'epsilon' for lrp-all; did you mean eps"):
        lrp.explain_windows(network(), x, length=4, method="lrp-all", epsilon=1)


def test_progress(x, monkeypatch, capsys):
    monkeypatch.setattr(schedule, "chunks", lambda lengths, width, most: [np.arange(5), np.arange(5, 31)])
    for threads in (1, 2):
        lrp.explain_windows(network(), x, length=10, threads=threads, progress=True)
        assert "31/31" in capsys.readouterr().err
    lrp.explain_windows(network(), x, length=10)
    assert not capsys.readouterr().err


# -- the prediction of every step ----------------------------------------------------------------------------


CAUSAL = {
    "lstm": lambda rng: (nets.lstm(rng, 3, 4),),
    "two": lambda rng: (nets.gru(rng, 3, 4), nets.rnn(rng, 4, 4)),
    "causal convolution": lambda rng: (
        lrp.layers.Conv1D(rng.normal(size=(4, 3, 3)), padding="causal"),
        nets.lstm(rng, 4, 4),
    ),
}
OTHERS = {
    "both ways": lambda rng: (nets.two_way(rng, 3, 4, "sum"),),
    "convolution": lambda rng: (lrp.layers.Conv1D(rng.normal(size=(4, 3, 3)), padding="same"), nets.lstm(rng, 4, 4)),
    "fewer steps": lambda rng: (lrp.layers.Conv1D(rng.normal(size=(4, 3, 3)), stride=2), nets.lstm(rng, 4, 4)),
}


@pytest.mark.parametrize("name", [*CAUSAL, *OTHERS])
@pytest.mark.parametrize("target", [None, 1, "all"])
def test_every_step_is_what_a_call_for_it_gives(x, name, target):
    rng = np.random.default_rng(2)
    layers = {**CAUSAL, **OTHERS}[name](rng)
    model, x = lrp.Model((*layers, nets.dense(rng, 4, 2)), readout="every"), x[:7]
    assert model.causal == (name in CAUSAL)
    found = lrp.explain(model, x, target=target, step="all")
    assert len(found) == len(lrp.predict(model, x))
    for step, e in enumerate(found):
        one = lrp.explain(model, x, target=target, step=step)
        nets.close(e.feature_relevance, one.feature_relevance, unit=1)
        assert np.array_equal(e.values, x) and e.target == one.target and e.options["step"] == step
        nets.close(e.scores, one.scores)
        nets.close(e.ledger.total, one.ledger.total)
    lead = (2,) if target == "all" else ()
    assert found.stacked().shape == (*lead, len(found), 7, 3)
    nets.close(found.stacked()[..., -1, :, :], found[-1].feature_relevance)


@pytest.mark.parametrize("method", ["gradient", "occlusion-f", "cd"])
def test_every_step_by_other_methods(x, method):
    model = network("every", 2)
    for step, e in enumerate(lrp.explain(model, x[:6], method, 1, step="all")):
        nets.close(e.relevance, lrp.explain(model, x[:6], method, 1, step=step).relevance, unit=1)


def test_every_step_with_padding(x):
    model = network("every", mask_value=-9.0)
    x = x[:6].copy()
    x[[0, 3]] = -9
    found = lrp.explain(model, x, step="all")
    assert len(found) == 4 and np.array_equal(found[1].values, x)
    for step, e in enumerate(found):
        nets.close(e.relevance, lrp.explain(model, x, step=step).relevance, unit=1)


def test_every_step_of_words():
    rng = np.random.default_rng(6)
    embedding = lrp.Embedding(rng.normal(size=(4, 3)), vocabulary=("<unk>", "a", "b", "c"), unknown="<unk>")
    model = lrp.Model((nets.lstm(rng, 3, 4), nets.dense(rng, 4, 2)), embedding=embedding, readout="every")
    for x in (["a", "b", "x"], np.array([1, 2, 0])):
        found = lrp.explain(model, x, step="all")
        for step, e in enumerate(found):
            one = lrp.explain(model, x, step=step)
            assert e.tokens == one.tokens and np.array_equal(e.marks, one.marks)
            nets.close(e.relevance, one.relevance, unit=1)


def test_where_every_step_is_not_to_be_had(x):
    with pytest.raises(lrp.LrpError, match="step must be None unless"):
        lrp.explain(network(), x, step="all")
    with pytest.raises(lrp.LrpError, match=r'"all" in explain'):
        lrp.explain_all(network("every"), [x], step="all")
    with pytest.raises(lrp.LrpError, match="an integer, or \"all\" in explain, got 'last'"):
        lrp.explain(network("every"), x, step="last")
    with pytest.raises(lrp.LrpError, match="spans must be None"):
        lrp.explain(network("every"), x, step="all", spans=[(0, 1)])
    with pytest.raises(lrp.LrpError, match=r"must have one length, got \[3, 4\]"):
        lrp.explain_all(network(), [x[:3], x[:4]]).stacked()


def test_the_length_of_a_window_is_that_of_the_model(x):
    with pytest.raises(lrp.LrpError, match="length is missing, and the model does not carry"):
        lrp.explain_windows(network(), x)
    found = lrp.explain_windows(network(window=4), x, "deeplift", reference="zero")
    assert found.length == 4 and len(found) == 37 and found[0].method == "deeplift"
