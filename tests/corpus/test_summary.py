"""Summaries of many explanations are the means of each one's relevance, from memory and from a file."""

import json

import networks as nets
import numpy as np
import pytest

import lrpnumpy as lrp
from lrpnumpy.summary import KINDS, Sums

FEATURES = ("rain", "temp", "wind")


def network(outputs=2, **settings):
    rng = np.random.default_rng(7)
    layers = (nets.lstm(rng, 3, 4, size=0.5), nets.dense(rng, 4, outputs))
    return lrp.Model(layers, **{"features": FEATURES, "output_unit": "mm", "output": "linear", **settings})


@pytest.fixture
def series():
    rng = np.random.default_rng(1)
    return [rng.normal(size=(T, 3)) for T in (5, 3, 7, 5, 1, 6)]


def by_hand(explanations, names, input=None):
    """Plainly: {group: {kind: (lags, features)}}."""
    parts = [e if input is None else e.inputs[input] for e in explanations]
    longest = max(part.relevance.shape[-1] for part in parts)
    found = {}
    for name in dict.fromkeys(names):
        own = []
        for part, group in zip(parts, names, strict=True):
            if group == name:
                lags = np.zeros((longest, part.feature_relevance.shape[1]))
                lags[: len(part.feature_relevance)] = part.feature_relevance[::-1]
                own.append(lags)
        own = np.array(own)
        found[str(name)] = {
            "mean": own.mean(axis=0),
            "absolute": abs(own).mean(axis=0),
            "positive": np.maximum(own, 0).mean(axis=0),
            "negative": np.minimum(own, 0).mean(axis=0),
            "error": abs(own).sum(axis=1).std(axis=0, ddof=1) / np.sqrt(len(own)) if len(own) > 1 else 0,
        }
    return found


def same(summary, expected):
    assert {*summary.groups} == {*expected}
    for k, name in enumerate(summary.groups):
        for kind in KINDS:
            nets.close(getattr(summary, kind)[k], expected[name][kind], unit=1)
        nets.close(summary.error[k], np.broadcast_to(expected[name]["error"], 3), unit=1)


@pytest.mark.parametrize("by", [None, "class", ["a", "b", "a", "a", "b", "a"], [2, 10, 2, 2, 10, 10]])
def test_in_memory_and_from_a_file(series, by, tmp_path):
    model = network()
    found = lrp.explain_all(model, series)
    names = ["all"] * 6 if by is None else [str(e.target) for e in found] if by == "class" else by
    expected = by_hand(found, names)
    mixed = None if by == "class" else "predicted"
    summary = found.summary(by, target=mixed)
    same(summary, expected)
    assert summary.features == FEATURES and summary.output_unit == "mm" and summary.counts.sum() == 6
    same(lrp.explain_corpus(model, series, out=tmp_path / "a", unit="feature").summary(by, target=mixed), expected)
    if by == [2, 10, 2, 2, 10, 10]:
        assert summary.groups == ("2", "10")  # by size, not as text
    nets.close(summary.by_feature("mean"), summary.mean.sum(axis=1))
    nets.close(summary.by_lag(), summary.absolute.sum(axis=2))


def test_all_classes(series, tmp_path):
    model = network(classes=("flow", "level"))
    found = lrp.explain_all(model, series, target="all")
    stored = lrp.explain_corpus(model, series, target="all", out=tmp_path / "a", unit="feature")
    expected = {}
    for c, name in enumerate(("flow", "level")):
        expected |= by_hand([e.for_class(c) for e in found], [name] * 6)
    same(found.summary(), expected)
    same(stored.summary(), expected)
    assert stored.summary().groups == ("flow", "level")
    np.testing.assert_array_equal(found.summary("class").mean, found.summary().mean)
    np.testing.assert_array_equal(stored.summary("class").mean, found.summary().mean)
    again = lrp.explain_all(model, series).summary()  # of the predicted ones: each output is explained again
    assert again.groups == ("flow", "level")
    nets.close(again.mean, found.summary().mean)
    assert {*found.summary(list("ababab")).groups} == {"flow: a", "flow: b", "level: a", "level: b"}


def test_one_number_a_step(series, tmp_path):
    found = lrp.explain_all(network(), series, unit="step").summary(target=1)
    other = lrp.explain_corpus(network(), series, target=1, out=tmp_path / "a").summary()
    whole = lrp.explain_all(network(), series, target=1).summary()
    for summary in (found, other):
        assert summary.features == ("relevance",)
        nets.close(summary.by_lag("mean"), whole.by_lag("mean"))


def test_several_inputs(tmp_path):
    rng = np.random.default_rng(3)
    nodes = (
        lrp.Node("lstm", nets.lstm(rng, 3, 3), ("weather",)),
        lrp.Node("both", lrp.layers.Concat(), ("lstm:last", "basin")),
        lrp.Node("out", nets.dense(rng, 6, 1), ("both",)),
    )
    inputs = {"weather": lrp.Input(3), "basin": lrp.Input(3, steps=False, features=FEATURES)}
    model = lrp.Model(nodes, inputs=inputs)
    records = [{"weather": rng.normal(size=(T, 3)), "basin": rng.normal(size=3)} for T in (3, 5, 4)]
    found = lrp.explain_all(model, records)
    stored = lrp.explain_corpus(model, records, out=tmp_path / "a", unit="feature")
    for name, features in (("weather", ("x0", "x1", "x2")), ("basin", FEATURES)):
        expected = by_hand(found, ["all"] * 3, name)
        for summary in (found.summary(input=name), stored.summary(input=name)):
            same(summary, expected)
            assert summary.features == features


def test_dates():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(2)
    frame = pandas.DataFrame(rng.normal(size=(800, 3)), pandas.date_range("2003-11-20", periods=800), FEATURES)
    found = lrp.explain_windows(network(1), frame, length=4, stride=9)
    days = [e.labels[-1].astype("M8[D]").item() for e in found]
    season = {12: "DJF", 1: "DJF", 2: "DJF", 3: "MAM", 4: "MAM", 5: "MAM", 6: "JJA", 7: "JJA", 8: "JJA"}
    same(found.summary("year"), by_hand(found, [str(day.year) for day in days]))
    same(found.summary("month"), by_hand(found, [str(day.month) for day in days]))
    same(found.summary("season"), by_hand(found, [season.get(day.month, "SON") for day in days]))
    assert found.summary("season").groups == ("DJF", "MAM", "JJA", "SON")
    assert found.summary("month").groups == tuple(map(str, range(1, 13)))
    with pytest.raises(lrp.LrpError, match="have no dates"):
        lrp.explain_all(network(), [rng.normal(size=(3, 3))]).summary("month")


def test_padding_and_steps_do_not_count_as_lags(tmp_path):
    x = np.random.default_rng(1).normal(size=(4, 3))
    model = network(1, mask_value=-9.0)
    padded = np.concatenate((x, np.full((2, 3), -9.0)))
    expected = lrp.explain_all(model, [x]).summary()
    stored = lrp.explain_corpus(model, [padded], out=tmp_path / "a", unit="feature")
    for summary in (lrp.explain_all(model, [padded]).summary(), stored.summary()):
        nets.close(summary.mean[:, :4], expected.mean)
    every = network(1, readout="every")
    found = lrp.explain_all(every, [x], step=1)
    nets.close(found.summary().mean[0], found[0].feature_relevance[1::-1])
    each = lrp.explain(every, x, step="all")
    nets.close(each.summary().mean[0, 0], np.mean([each[k].feature_relevance[k] for k in range(4)], axis=0))
    both = lrp.Model(
        (nets.two_way(np.random.default_rng(1), 3, 2), nets.dense(np.random.default_rng(2), 4, 1)), readout="every"
    )
    with pytest.raises(lrp.LrpError, match="steps after the prediction"):
        lrp.explain_all(both, [x], step=1).summary()


@pytest.mark.parametrize("side", ["pre", "post"])
@pytest.mark.parametrize("skips", [True, False])
@pytest.mark.parametrize("step", [None, 0, -2])
def test_a_file_counts_lags_from_the_step_that_memory_does(side, skips, step, tmp_path):
    """With padding before or after the series, which the network skips or computes with."""
    rng = np.random.default_rng(1)
    records = [rng.normal(size=(T, 3)) for T in (4, 2, 6)]
    settings = {"mask_value": -9.0} if skips else {"pad": (6, side, 0.5)}
    if skips:
        edges = [np.full((6 - len(x), 3), -9.0) for x in records]
        records = [np.concatenate((e, x) if side == "pre" else (x, e)) for e, x in zip(edges, records, strict=True)]
    layers = (nets.lstm(rng, 3, 4, size=0.5), nets.dense(rng, 4, 1))
    model = lrp.Model(layers, inputs={"x": lrp.Input(3, **settings)}, readout="last" if step is None else "every")
    stored = lrp.explain_corpus(model, records, out=tmp_path / "a", unit="feature", step=step)
    nets.close(stored.summary().mean, lrp.explain_all(model, records, step=step).summary().mean)


def test_what_is_not_finite_is_left_out():
    sums = Sums(["a"])
    sums.add(np.array([[1.0], [-2.0], [np.nan], [5.0]]), np.array([2, 1, 1]), ["x", "y", "x"])
    found = sums.summary("m", None)
    assert found.groups == ("x",) and found.counts.tolist() == [2] and found.left_out == 1
    assert found.mean[0, :, 0].tolist() == [1.5, 0.5] and "1 explanations are left out" in str(found)
    with pytest.raises(lrp.LrpError, match="at least one"):
        Sums(["a"]).summary("m", None)


def test_half_and_text():
    sums = Sums(["rain", "temp"])
    sums.add(np.array([[0.0, 1.0], [0.0, -1.0], [3.0, 0.0], [1.0, 0.0]]), np.array([4]))
    found = sums.summary("lrp-all", "mm")
    assert found.half.tolist() == [2]  # 1 and 3 of 6 in all
    text = str(found)
    assert "1 explanations, summed over steps, in mm" in text and "half of it within 2 steps" in text
    assert text.splitlines()[3].split() == ["rain", "+4", "+4", "+4", "+0"]
    assert text.splitlines()[4].split() == ["temp", "+0", "+2", "+1", "-1"]


def test_frames(series):
    pytest.importorskip("pandas")
    found = lrp.explain_all(network(), series).summary("class")
    assert list(found.to_frame().columns) == ["group", "lag", "feature", *KINDS]
    assert len(found.to_frame()) == found.mean.size
    feature = found.to_frame("feature").set_index(["group", "feature"])
    nets.close(feature.loc[(found.groups[0], "temp"), "absolute"], found.by_feature()[0, 1])
    lag = found.to_frame("lag").set_index(["group", "lag"])
    nets.close(lag.loc[(found.groups[0], 2), "positive"], found.by_lag("positive")[0, 2])


def test_xarray(series):
    pytest.importorskip("xarray")
    found = lrp.explain_all(network(), series).summary()
    nets.close(found.to_xarray()["negative"].sel(group=found.groups[0], feature="wind").values, found.negative[0, :, 2])


def clinic(outputs=2):
    """A network by hand: age raises the risk, exercise lowers it, and most patients are healthy."""
    U = np.zeros((1, 2, 3))
    U[0, 0, 0], U[0, 1, 1] = 0.6, 0.6  # a state each for age and exercise; the third feature is not read
    rnn = lrp.RNN(U, np.zeros((1, 2, 2)))
    V = np.array([[-2.0, 1.5], [2.0, -1.5]])
    classes, bias = ("healthy", "ill"), np.array([0.5, -0.5])
    if outputs == 3:
        V, classes, bias = np.vstack([V, [0.1, 0.2]]), ("healthy", "ill", "unclear"), np.append(bias, 0.1)
    features = ("age", "exercise", "height")
    return lrp.Model([rnn, lrp.Dense(V, bias)], classes=classes, features=features, output="softmax")


@pytest.mark.parametrize("outputs", [2, 3])
def test_age_raises_the_risk_in_the_default_summary_and_picture(rng, outputs):
    """Mixed predicted classes would hide it: for the healthy ones age is against the prediction."""
    model = clinic(outputs)
    patients = rng.normal(size=(200, 4, 3))
    patients[:, :, 0] = patients[:, -1:, 0]  # a patient has one age
    found = lrp.explain_all(model, patients)
    assert len({*found.targets.tolist()}) > 1
    age = patients[:, -1, 0]

    def correlation(relevance):
        return np.corrcoef(age, relevance)[0, 1]

    mixed = correlation([e.feature_relevance[:, 0].sum() for e in found])
    assert abs(mixed) < 0.7
    for many in (found, [*found], found[:150]):
        figure = lrp.plot.beeswarm(many)
        said = [axes.get_title(loc="left") for axes in figure.axes]
        panel = figure.axes[next(k for k, text in enumerate(said) if "ill" in text)]
        row = [label.get_text() for label in panel.get_yticklabels()].index("age")
        dots = panel.collections[0]
        places, values = np.array(dots.get_offsets()), np.array(dots.get_array())
        of_age = abs(places[:, 1] - row) < 0.5
        assert np.corrcoef(places[of_age, 0], values[of_age])[0, 1] > 0.8
    again = found._explained_for(1)
    assert correlation([e.feature_relevance[:, 0].sum() for e in again]) > 0.9
    summary = found.summary()
    if outputs == 2:
        assert summary.groups == ("all",) and summary.target == "ill" and "for ill of 200" in str(summary)
        nets.close(summary.mean, again.summary().mean)
    else:
        assert summary.groups == ("healthy", "ill", "unclear") and summary.target == ""
        assert len(lrp.plot.bars(found).axes) == 3 == len(lrp.plot.memory(found).axes)
    older = found.summary(np.where(age > 0, "old", "young"), target="ill").by_feature("mean")[:, 0]
    assert older[0] > 0 > older[1]  # old, young
    mixed = found.summary(target="predicted")
    assert "classes mixed" in mixed.target and "classes mixed" in str(mixed)
    heading = lrp.plot.beeswarm(found, target="predicted").axes[0].get_title(loc="left")
    assert "classes mixed" in " ".join(heading.split())
    with pytest.raises(lrp.LrpError, match="other classes than 'ill' were explained"):
        lrp.plot.bars([*found], target="ill")


def test_words_are_summed_up_by_token(rng, tmp_path):
    names = ["good", "bad", "film", "the"]
    embedding = lrp.Embedding(rng.normal(size=(4, 3)), vocabulary=names)
    model = lrp.Model([nets.lstm(rng, 3, 4), nets.dense(rng, 4, 2)], embedding=embedding, classes=("no", "yes"))
    texts = ["the film good good", "bad film", "the bad bad film"]
    found = lrp.explain_all(model, texts, target="yes")
    stored = lrp.explain_corpus(model, texts, target="yes", out=tmp_path / "a", unit="feature")
    each = [{name: sum(e.relevance[t] for t, w in enumerate(e.tokens) if w == name) for name in names} for e in found]
    size = [{n: sum(abs(e.relevance[t]) for t, w in enumerate(e.tokens) if w == n) for n in names} for e in found]
    for summary in (found.summary(), stored.summary()):
        assert {*summary.features} == {*names} and summary.mean.shape == (1, 1, 4) and summary.target == "yes"
        for name in names:
            d = summary.features.index(name)
            nets.close(summary.mean[0, 0, d], np.mean([one[name] for one in each]), unit=1)
            error = np.std([one[name] for one in size], ddof=1) / np.sqrt(3)
            nets.close(summary.error[0, d], error, unit=1)
    assert "good" in str(found.summary()) and "half of it" not in str(found.summary())
    for picture in (lrp.plot.bars, lrp.plot.beeswarm):
        labels = [label.get_text() for label in picture(found).axes[0].get_yticklabels()]
        assert {*labels} == {*names}
    dots = lrp.plot.beeswarm(found).axes[0].collections[0].get_offsets()
    assert len(dots) == sum(len({*e.tokens}) for e in found)  # a dot where a text has the token


# -- columns beside the explanations -------------------------------------------------------------------------


def test_columns_of_values(series, tmp_path):
    model = network()
    names = ["wet", "dry", "wet", "wet", None, "dry"]
    with_bad = [*series[:2], np.full((2, 3), np.nan), *series[2:]]
    columns = {"season": [*names[:2], "bad", *names[2:]], "year": np.arange(2000, 2007)}
    output = lrp.Output(tmp_path / "a", columns=columns, chunk=2)
    stored = lrp.explain_corpus(model, with_bad, out=output, unit="feature")
    assert stored.columns == ("season", "year") and stored.column("season") == names
    assert stored.column("year") == [2000, 2001, 2003, 2004, 2005, 2006] and stored[2:3].column("year") == [2003]
    same(stored.summary("season", target="predicted"), by_hand(lrp.explain_all(model, series), list(map(str, names))))
    assert len(stored[3]) == 5
    with pytest.raises(lrp.LrpError, match="by must be one of 'season', 'year', 'class', got 'month'"):
        stored.summary("month")
    assert len(lrp.explain_corpus(model, with_bad, out=output, unit="feature")) == 6
    columns["season"][0] = "dry"
    with pytest.raises(lrp.LrpError, match="columns season was"):
        lrp.explain_corpus(model, with_bad, out=output, unit="feature")


def test_columns_of_json(series, tmp_path):
    model = network()
    lines = [json.dumps({"x": one.tolist(), "season": name}) for one, name in zip(series, "ababba", strict=True)]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, json.dumps({"x": [[1, 2, 3]]})]))
    source, output = lrp.Corpus(tmp_path / "a.jsonl", field="x"), lrp.Output(tmp_path / "a", columns=["season"])
    assert lrp.explain_corpus(model, source, out=output).column("season") == [*"ababba", None]


def test_columns_that_cannot_be(series, tmp_path):
    out = tmp_path / "a"
    with pytest.raises(lrp.LrpError, match="a dict of names to values"):
        lrp.explain_corpus(network(), series, out=lrp.Output(out, columns=["season"]))
    with pytest.raises(lrp.LrpError, match="a dict of names to values, or a list of names, got"):
        lrp.explain_corpus(network(), series, out=lrp.Output(out, columns={5: [1] * 6}))
    with pytest.raises(lrp.LrpError, match="a value for each record, got 2 and record 6"):
        lrp.explain_corpus(network(), series, out=lrp.Output(out, columns={"a": [1, 2]}))
    hostile = {"../../a/b": [1] * 6, "\0": [2] * 6, "=1+1": [3] * 6, "": [4] * 6}
    stored = lrp.explain_corpus(network(), series, out=lrp.Output(tmp_path / "b", columns=hostile))
    assert {name: stored.column(name) for name in stored.columns} == hostile
    with pytest.raises(lrp.LrpError, match="one value for each of the 6 explanations, got 2"):
        lrp.explain_all(network(), series).summary(["a", "b"])
    with pytest.raises(
        lrp.LrpError, match="by, where it is a name, must be one of 'class', 'year', 'season', 'month', got"
    ):
        lrp.explain_all(network(), series).summary("weekday")


def test_frames_are_known_again_by_all_their_values(tmp_path):
    """A frame prints itself shortened: two that differ in the middle must not pass for the same."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(4)
    frames = [pandas.DataFrame(rng.normal(size=(200, 3)), columns=FEATURES) for _ in range(2)]
    lrp.explain_corpus(network(1), frames, out=tmp_path / "a")
    assert len(lrp.explain_corpus(network(1), frames, out=tmp_path / "a")) == 2
    frames[1].iloc[100, 1] += 1
    with pytest.raises(lrp.LrpError, match="a record from 1 to 2 differs"):
        lrp.explain_corpus(network(1), frames, out=tmp_path / "a")
