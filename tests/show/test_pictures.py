"""Pictures of matplotlib: what each shows is what was explained."""

import dataclasses
import inspect
import time

import networks as nets
import numpy as np
import pytest
from matplotlib import style
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from samples import COHORTS, ONE, WEATHER, days, every_axes, explanation, forecast, images, lines, many, texts, words

import lrpnumpy as lrp
from lrpnumpy.ledgers import ReferenceLedger
from lrpnumpy.show import canvas, parts, plot

# -- one explanation -------------------------------------------------------------------------------------------------


def test_a_map_shows_relevance_with_names_and_dates():
    e = ONE["a year"]()
    figure = plot.feature_map(e)
    (image,) = [one for one in images(figure) if one.axes.get_yticklabels() and one.get_array().shape == (5, 365)]
    np.testing.assert_array_equal(image.get_array(), e.feature_relevance.T)
    limit = np.quantile(abs(np.append(e.feature_relevance, 0)), 0.99)
    assert image.get_clim() == pytest.approx((-limit, limit))
    assert f"at most ±{abs(e.feature_relevance).max():.3g}" in words(figure)
    assert [label.get_text() for label in image.axes.get_yticklabels()] == list(WEATHER)
    dates = dict(zip(image.axes.get_xticks(), (one.get_text() for one in image.axes.get_xticklabels()), strict=True))
    assert len(dates) > 2 and all(days(365)[round(t)] == np.datetime64(text) for t, text in dates.items())
    above = lines(figure, 365)
    kept = np.sort(np.argsort(-abs(e.feature_relevance).sum(axis=0))[:3])
    assert [list(line.get_ydata()) for line in above] == [list(e.values[:, d]) for d in kept]


def test_a_long_map_is_summed_and_says_so():
    e = ONE["40 x 2000"]()
    figure = plot.feature_map(e)
    image = max(images(figure), key=lambda one: one.get_array().size)
    np.testing.assert_allclose(image.get_array(), e.feature_relevance.reshape(400, 5, 40).sum(axis=1).T)
    assert "each column is the sum of 5 hours" in words(figure)
    names = [text for text in texts(figure) if text.get_text().startswith("$x_")]
    assert len(names) >= 40 and not any(text.get_parse_math() for text in names)
    assert all(len(text.get_text()) <= 37 and text.get_text().endswith("…") for text in names)


def test_more_features_than_fit_are_folded():
    e = ONE["300 features"]()
    figure = plot.feature_map(e)
    image = max(images(figure), key=lambda one: one.get_array().size)
    np.testing.assert_allclose(np.sum(image.get_array(), axis=0), e.relevance)
    assert "241 other features" in words(figure) and "12 most relevant of 300 features" in words(plot.series(e))


def test_one_step_is_bars_of_features():
    e = ONE["one step"]()
    for figure in (plot.feature_map(e), plot.series(e)):
        (bars,) = [axes for axes in every_axes(figure) if axes.patches]
        np.testing.assert_allclose([bar.get_width() for bar in bars.patches], e.feature_relevance[0])
        assert "features" in figure.axes[0].get_title(loc="left") and f"x0 = {e.values[0, 0]:.4g}" in words(figure)


@pytest.mark.parametrize("picture", [plot.feature_map, plot.series])
def test_every_input_is_drawn(picture):
    e = ONE["inputs"]()
    figure = picture(e)
    said = words(figure)
    assert all(name in said for name in ("basin", "area = 120", "$x_1$ = 3.2", "gauges", "upstream", "snow"))
    (bars,) = [axes for axes in every_axes(figure) if axes.containers]
    assert [bar.get_width() for bar in bars.patches] == [0.3, -0.1, 0.4]
    shapes = [one.get_array().shape[1] for one in images(figure) if one.get_array().ndim == 2]
    assert {60, 20} <= set(shapes)
    limits = {one.get_clim() for one in images(figure) if one.get_array().shape[1] in (60, 20)}
    assert len(limits) == 1


def test_values_are_drawn_once_they_are_known(rng):
    model = lrp.Model([nets.lstm(rng, 2, 3), nets.dense(rng, 3, 1)], features=["rain", "snow"])
    x = rng.normal(size=(50, 2))
    e = lrp.explain(model, x).with_first(values=None)
    assert not lines(plot.series(e), 50)
    assert [list(line.get_ydata()) for line in lines(plot.series(e.with_first(values=x)), 50)] == x.T.tolist()
    by_word = lrp.explain(model, x, unit="step")
    rows = [one.get_array()[0] for one in images(plot.series(by_word)) if one.get_array().shape == (1, 50)]
    np.testing.assert_array_equal(rows, [by_word.relevance] * 2)
    with pytest.raises(lrp.LrpError, match="unit='feature'"):
        plot.feature_map(by_word)
    with pytest.raises(lrp.LrpError, match="for_class"):
        plot.series(lrp.explain(model, x, target="all"))


def bars_of(figure):
    """Left end and right end of the bars of a waterfall, and their names."""
    axes = figure.axes[0]
    return [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches], [
        label.get_text() for label in axes.get_yticklabels()
    ]


def test_a_waterfall_goes_from_0_to_the_score():
    e = ONE["inputs"]()
    bars, names = bars_of(plot.waterfall(e))
    assert bars[0][0] == 0 and bars[-1] == (0, e.scores[0])
    np.testing.assert_allclose([end for _, end in bars[:-2]], [start for start, _ in bars[1:-1]])
    gauges = e.inputs["gauges"].relevance.sum()
    assert abs(bars[-2][1] - e.scores[0]) <= 1e-3 * (abs(e.scores[0]) + abs(gauges))
    last = e.values[-1, 1]
    assert {"basin: area = 120", f"x: snow (last {last:.4g})", "biases", "stabilizer", "initial state"} <= set(names)
    assert names[-1] == "score" and "f(x) = 2.65 mm, base value 0 mm" in words(plot.waterfall(e))


def test_a_waterfall_folds_the_rest():
    e = ONE["a year"]()
    bars, names = bars_of(plot.waterfall(e, by="step", most=4))
    largest = [str(days(365)[t]) for t in np.argsort(-abs(e.relevance))[:4]]
    assert names == [*largest, "361 other steps", "biases", "stabilizer", "initial state", "score"]
    assert bars[-2][1] == pytest.approx(e.scores[0])
    for wrong in (0, "all"):
        with pytest.raises(lrp.LrpError, match="most, the number of bars, must be"):
            plot.waterfall(e, most=wrong)
    with pytest.raises(lrp.LrpError, match="by must be"):
        plot.waterfall(e, by="word")


def test_a_waterfall_begins_at_the_reference_and_names_what_is_missing():
    e = ONE["a year"]()
    inputs, score = e.relevance.sum(), e.scores[0]
    e = dataclasses.replace(e, ledger=ReferenceLedger(inputs, score, 1.5, score - 1.5 - inputs, 3.0, 0.0))
    figure = plot.waterfall(e)
    bars, names = bars_of(figure)
    assert bars[0] == (0, 1.5) and names[0] == "reference" and bars[1][0] == 1.5
    assert names[-2] == "not attributed" and bars[-2][1] == pytest.approx(e.scores[0])
    said = words(figure)
    assert "base value 1.5 mm" in said
    assert "from the reference, 1.5" in said and f"{abs(e.scores[0] - 1.5):.4g} mm below the reference" in said


def test_a_waterfall_of_words_and_of_two_classes(rng):
    embedding = lrp.Embedding(rng.normal(size=(2, 3)), vocabulary=["a", "b"])
    model = lrp.Model([nets.lstm(rng, 3, 3), nets.dense(rng, 3, 2)], embedding=embedding, classes=["x", "y"])
    e = lrp.explain(model, "a b a", target="x", versus="y")
    bars, names = bars_of(plot.waterfall(e))
    assert sorted(names[:3]) == ["a (1)", "a (3)", "b"]
    assert bars[-1][1] == pytest.approx(e.scores[0] - e.scores[1]) == pytest.approx(bars[-2][1])


def test_numbers_of_a_waterfall_have_the_same_decimals_and_no_line_crosses_them():
    axes = plot.waterfall(ONE["inputs"]()).axes[0]
    numbers = [text for text in axes.texts if text.get_text()]
    assert {len(text.get_text().partition(".")[2]) for text in numbers} == {3}
    assert all(text.get_path_effects() for text in numbers)
    for text in numbers[:-1]:  # in the direction of its bar
        assert text.get_ha() == ("right" if text.get_text()[0] in "-−" else "left")


def test_constants_and_binary_signals():
    """A constant is drawn against 0; what is 0 and 1 as steps."""
    values = np.column_stack([np.ones(20), np.zeros(20), np.arange(20) // 7 % 2, np.linspace(0, 1, 20)])
    figure = plot.series(explanation(20, 4, ("one", "zero", "alarm", "ramp"), values=values))
    one, zero, alarm, ramp = lines(figure, 20)
    assert one.axes.get_ylim() == pytest.approx((-0.08, 1.08)) and zero.axes.get_ylim() == (-0.5, 0.5)
    assert alarm.get_drawstyle() == "steps-mid" and ramp.get_drawstyle() == "default"


def test_several_inputs_are_below_each_other_with_their_names():
    figure = plot.feature_map(ONE["inputs"]())
    figure.canvas.draw()
    outer = figure.axes[0]
    named = {axes.get_title(loc="left"): axes for axes in outer.child_axes if axes.get_title(loc="left")}
    assert [*named] == ["x", "gauges", "basin"]
    title = outer._left_title.get_window_extent()
    assert title.y0 >= named["x"]._left_title.get_window_extent().y1 - 1
    assert all(axes.get_position().width > 0.5 for axes in named.values())


def test_fonts_follow_the_style():
    def sizes(figure):
        return sorted({text.get_fontsize() for text in texts(figure)})

    pictures = {"map": plot.feature_map, "fall": plot.waterfall}
    usual = {name: sizes(picture(ONE["visits"]())) for name, picture in pictures.items()}
    with style.context({"font.size": 16}):
        for name, picture in pictures.items():
            np.testing.assert_allclose(sizes(picture(ONE["visits"]())), [1.6 * size for size in usual[name]])


@pytest.mark.parametrize("name", plot.__all__)
def test_every_picture_takes_title_and_axes(name):
    options = inspect.signature(getattr(plot, name)).parameters
    assert {"ax", "title", "width"} <= {*options}
    assert ("cmap" in options) == (
        name in ("bars", "beeswarm", "feature_map", "heatmap", "horizons", "interactions", "series")
    )


def test_titles_and_colormaps_are_those_given():
    e, some = ONE["visits"](), many()[:3]
    for figure in (plot.feature_map(e, title="Mine"), plot.waterfall(e, title="Mine"), plot.bars(some, title="Mine")):
        assert figure.axes[0].get_title(loc="left").startswith("Mine")
    (image,) = {
        one.get_cmap().name for one in images(plot.feature_map(e, cmap="PuOr")) if one.get_array().shape[1] == 12
    }
    assert image == "PuOr" and plot.beeswarm(some, cmap="viridis").axes[0].collections[0].get_cmap().name == "viridis"


def test_an_explanation_draws_itself():
    assert ONE["visits"]().plot(title="Mine").axes[0].get_title(loc="left").startswith("Mine")
    e = explanation(2, 1, feature_relevance=None, values=None, relevance=np.ones(2), tokens=("a", "b"))
    axes = Figure(figsize=(4, 2)).subplots()
    e.plot(ax=axes)
    assert {"a", "b"} <= {text.get_text() for text in axes.texts}
    assert len(e.with_first(tokens=None).plot().axes) == 1


# -- many ------------------------------------------------------------------------------------------------------------


def test_the_memory_curve_is_the_mean_by_lag():
    some = many()
    figure = plot.memory(some)
    axes = figure.axes[0]
    lags = [
        [abs(e.feature_relevance[::-1][lag]).sum() for e in some if len(e) > lag] for lag in range(max(map(len, some)))
    ]
    curve = axes.lines[0].get_ydata()
    np.testing.assert_allclose(curve, [np.mean(column) for column in lags])
    half = axes.lines[1].get_xdata()[0]
    assert sum(curve[:half]) >= sum(curve) / 2 > sum(curve[: half - 1])
    assert f"half within {half} days" in words(figure) and "days before the prediction" in words(figure)
    middle = axes.collections[1].get_paths()[0].vertices[:, 1]
    assert middle.max() == pytest.approx(max(np.quantile(column, 0.75) for column in lags))


def test_the_memory_curve_leaves_out_what_is_not_finite():
    some = many()
    R = some[0].feature_relevance.copy()
    R[-1] = np.nan
    broken = some[0].with_first(feature_relevance=R, relevance=R.sum(axis=1))
    expected = np.mean([abs(e.feature_relevance[-1]).sum() for e in some[1:]])
    assert plot.memory([broken, *some[1:]]).axes[0].lines[0].get_ydata()[0] == pytest.approx(expected)
    assert plot.memory([broken]).axes[0].lines[0].get_ydata()[0] == 0


def test_lags_are_counted_from_the_prediction_that_was_explained(rng):
    model = lrp.Model([nets.lstm(rng, 2, 3), nets.dense(rng, 3, 1)], readout="every")
    e = lrp.explain(model, rng.normal(size=(9, 2)), step=4)
    np.testing.assert_allclose(
        plot.memory([e]).axes[0].lines[0].get_ydata(), abs(e.feature_relevance[4::-1]).sum(axis=1)
    )


def test_bars_are_means_with_intervals_for_each_cohort():
    some = many()
    size = np.array([abs(e.feature_relevance).sum(axis=0) for e in some])
    order = np.argsort(-size.mean(axis=0))
    figure = plot.bars(some)
    axes = figure.axes[0]
    np.testing.assert_allclose([bar.get_width() for bar in axes.patches], size.mean(axis=0)[order])
    ends = np.array([segment[:, 0] for segment in axes.collections[0].get_segments()])
    error = size.std(axis=0, ddof=1)[order] / np.sqrt(len(some))
    np.testing.assert_allclose(ends[:, 1] - ends[:, 0], 2 * 1.96 * error)
    assert [label.get_text() for label in axes.get_yticklabels()] == [WEATHER[d] for d in order]
    cohorts = plot.bars(some, by=COHORTS * 20).axes[0]
    means = [size[k::3].mean(axis=0)[order] for k in range(3)]
    np.testing.assert_allclose([bar.get_width() for bar in cohorts.patches], np.concatenate(means))
    assert [text.get_text() for text in cohorts.get_legend().get_texts()] == [f"{name} (20)" for name in COHORTS]


def test_many_groups_are_a_map():
    some = [explanation(4, 2, labels=days(900)[k : k + 4], seed=k) for k in range(0, 365, 30)]
    figure = plot.bars(some, by="month")
    (image,) = [one for one in images(figure) if one.get_array().shape == (2, 12)]
    size = np.array([abs(e.feature_relevance).sum(axis=0) for e in some])
    first = [k for k, e in enumerate(some) if str(e.labels[-1])[5:7] == "01"]
    order = np.argsort(-size.sum(axis=0))
    np.testing.assert_allclose(image.get_array()[:, 0], size[first].mean(axis=0)[order])
    assert "mean |relevance|" in words(figure) and figure.axes[0].get_legend() is None


def test_a_heat_map_has_scores_above_and_importance_beside():
    some = many()[:9]
    figure = plot.heatmap(some)
    above, place, side = figure.axes[0].child_axes[:3]
    order = np.argsort([e.score for e in some])
    np.testing.assert_allclose(above.lines[0].get_ydata(), [some[k].score for k in order])
    assert above.lines[1].get_ydata() == [0, 0]  # the base value
    size = np.mean([abs(e.feature_relevance).sum(axis=0) for e in some], axis=0)
    rank = np.argsort(-size)
    np.testing.assert_allclose(
        place.images[0].get_array(), np.array([some[k].feature_relevance.sum(axis=0)[rank] for k in order]).T
    )
    np.testing.assert_allclose([bar.get_width() for bar in side.patches], size[rank])
    assert "mean f(x) = " in words(figure) and "(n = 9)" in words(figure)


def test_cohorts_by_date_and_class():
    some = [explanation(4, 1, labels=days(900)[k : k + 4], seed=k) for k in range(0, 365, 30)]
    names = [text.get_text() for text in plot.bars(some, by="season").axes[0].get_legend().get_texts()]
    assert names == ["DJF (3)", "MAM (4)", "JJA (3)", "SON (3)"]
    assert plot.bars(some[:1], by="month").axes[0].get_legend().get_texts()[0].get_text() == "4 (1)"  # of its last step
    months = plot.memory(some, by="month").axes[0]
    rows = [text.get_text().split()[0] for text in months.get_yticklabels()]  # of a map: twelve lines are too many
    assert rows == [str(k) for k in range(1, 13)]
    groups = plot.memory(some, by=[str(k % 6) for k in range(len(some))]).axes[0]  # six lines, the most
    colors = np.array([to_rgb(line.get_color()) for line in groups.lines[::2]])  # a curve, and its half
    apart = np.abs(colors[:, None] - colors).sum(axis=-1) + 9 * np.eye(6)
    assert colors.shape == (6, 3) and apart.min() > 0.25
    both = [
        dataclasses.replace(e, scores=np.array([1.0, 2]), classes=("a", "b"), target=k % 2) for k, e in enumerate(some)
    ]
    figure = plot.bars(both, by="class")
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["a (7)", "b (6)"]
    assert "for the explained class of each record (classes mixed)" in words(figure).replace("\n", " ")


def test_the_half_is_that_of_a_summary(rng):
    model = lrp.Model([nets.lstm(rng, 2, 3), nets.dense(rng, 3, 1)])
    found = lrp.explain_all(model, rng.normal(size=(20, 15, 2)))
    (half,) = found.summary().half
    assert f"half within {half} step" in words(plot.memory(found))


def test_lags_do_not_count_steps_that_are_skipped(rng):
    model = lrp.Model([nets.lstm(rng, 2, 3), nets.dense(rng, 3, 1)], mask_value=-9)
    x = np.concatenate([rng.normal(size=(4, 2)), np.full((3, 2), -9)])
    e = lrp.explain(model, x)
    np.testing.assert_allclose(
        plot.memory([e]).axes[0].lines[0].get_ydata(), abs(e.feature_relevance[3::-1]).sum(axis=1)
    )


def test_what_is_not_finite_is_left_out_of_a_beeswarm():
    odd = many()[0].with_first(feature_relevance=many()[0].feature_relevance * np.inf)
    figure = plot.beeswarm([odd, *many()])
    assert "60 of 61 explanations are drawn" in words(figure)


def test_a_beeswarm_has_a_dot_for_each_explanation_and_feature():
    some = many()
    axes = plot.beeswarm(some).axes[0]
    dots = axes.collections[0]
    R = np.array([e.feature_relevance.sum(axis=0) for e in some])
    order = np.argsort(-abs(R).mean(axis=0))
    places = np.array(dots.get_offsets())
    np.testing.assert_allclose(places[:, 0].reshape(60, 5), R[:, order])
    assert (abs(places[:, 1].reshape(60, 5) - np.arange(5)) < 0.5).all() and len(np.unique(places, axis=0)) == 300
    values = np.array([e.values.mean(axis=0) for e in some])[:, order]
    low, high = np.quantile(values, [0.05, 0.95], axis=0)
    np.testing.assert_allclose(np.array(dots.get_array()).reshape(60, 5), np.clip((values - low) / (high - low), 0, 1))
    assert dots.get_clim() == (0, 1)
    constant = some[0].with_first(values=np.ones_like(some[0].values))
    assert set(plot.beeswarm([constant] * 3).axes[0].collections[0].get_array()) == {0.5}


def test_horizons_are_rows_and_lags_are_columns():
    model, x = forecast()
    e = lrp.explain(model, x, target="all")
    (image,) = [one for one in images(plot.horizons(e)) if one.get_array().shape == (6, 30)]
    np.testing.assert_allclose(image.get_array(), e.relevance[:, ::-1])
    assert image.axes.get_xlim() == (29.5, -0.5)
    two = lrp.explain_all(model, [x, x[20:]], target="all")
    (image,) = [one for one in images(plot.horizons(two)) if one.get_array().shape == (6, 30)]
    np.testing.assert_allclose(image.get_array()[:, :10], (two[0].relevance[:, :19:-1] + two[1].relevance[:, ::-1]) / 2)
    with pytest.raises(lrp.LrpError, match="target='all'"):
        plot.horizons(lrp.explain(model, x))


def test_gates_are_those_of_the_trace():
    model, x = forecast()
    figure, found = plot.gates(model, x, units=[2, 0]), lrp.trace(model, x)
    shown = {(line.axes.get_ylabel(), line.get_label()): line.get_ydata() for line in lines(figure, 30)}
    assert len(shown) == 2 + 6 * 2
    for unit in (0, 2):
        np.testing.assert_array_equal(shown["forget gate f", f"unit {unit}"], found["0/f"][:, unit])
        np.testing.assert_array_equal(shown["cell c", f"unit {unit}"], found["0/c"][:, unit])
    for wrong in ([3], [-1], [0.5], []):
        with pytest.raises(lrp.LrpError, match="units must be numbers from 0 to 2"):
            plot.gates(model, x, units=wrong)
    with pytest.raises(lrp.LrpError, match="layer must be one of '0', got '7'"):
        plot.gates(model, x, layer="7")


def test_gates_name_the_class_of_the_score(rng):
    layers, x = [nets.lstm(rng, 2, 3), nets.dense(rng, 3, 2)], rng.normal(size=(5, 2))
    model = lrp.Model(layers, classes=("low", "high"))
    best = int(np.argmax(lrp.predict(model, x)))
    said = words(plot.gates(model, x, layer=0))
    assert f"f(x) = {lrp.predict(model, x)[best]:.4g} ({model.classes[best]})" in said and "base value" not in said
    assert "f(x)" not in words(plot.gates(lrp.Model(layers, readout="every"), x))  # it has one at every step


def test_gates_of_words_and_of_two_directions(rng):
    embedding = lrp.Embedding(rng.normal(size=(3, 3)), vocabulary=["pad", "a", "b"], mask=0)
    both = nets.two_way(rng, 3, 2, "concat", (nets.lstm, nets.gru))
    model = lrp.Model([both, nets.dense(rng, 4, 2)], embedding=embedding)
    said = words(plot.gates(model, "a pad b", layer="0/backward"))
    assert "update gate z" in said and "cell" not in said and "a" in said.split("\n") and "pad" not in said


@pytest.mark.parametrize("picture", [plot.memory, plot.bars, plot.beeswarm, plot.horizons])
def test_none_are_refused(picture):
    with pytest.raises(lrp.LrpError, match="at least one"):
        picture([])


@pytest.mark.parametrize("picture", [plot.memory, plot.bars])
def test_labels_of_cohorts_are_checked(picture):
    with pytest.raises(lrp.LrpError, match="one value for each of the 60 explanations, got 2"):
        picture(many(), by=["a", "b"])
    assert "59 (1)" in words(picture(many(), by=range(60))).replace("\n", " ")
    with pytest.raises(lrp.LrpError, match="by must be one of 'class', 'year'"):
        picture(many(), by="week")
    with pytest.raises(lrp.LrpError, match="needs dates"):
        picture([ONE["no values"]()], by="month")


def test_ten_thousand_results_are_drawn_in_seconds(rng):
    """In the time of this process, whatever else the machine does."""
    R = rng.normal(size=(10_000, 20, 5))
    first = explanation(20, 5, WEATHER)
    some = [first.with_first(feature_relevance=one, relevance=one.sum(axis=1), values=one) for one in R]
    plot.bars(some[:2])._repr_png_()
    for picture in (plot.memory, plot.bars, plot.beeswarm):
        began = time.process_time()
        figure = picture(some)
        figure._repr_png_()
        assert time.process_time() - began < 10
    assert len(figure.axes[0].collections[0].get_offsets()) == 5 * 2500 and "2500 of 10000" in words(figure)


def test_dates_are_written_no_longer_than_needed():
    for step, text in (("D", "2004-04-01"), ("M", "2005"), ("h", "2004-03-29\n12:00"), ("m", "2004-03-29\n00:15")):
        figure = Figure()
        axes = figure.subplots()
        canvas.mark_steps(axes, np.datetime64("2004-03-29").astype(f"M8[{step}]") + np.arange(60), 60)
        assert text in [label.get_text() for label in axes.get_xticklabels()]
    assert parts.step_unit(days(3)) == "day" and parts.step_unit(None) == "step"
    assert parts.step_unit(days(4)[[0, 1, 3]]) == "step" and parts.step_unit(days(4)[[1, 0]]) == "step"
