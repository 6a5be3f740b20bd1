"""Series in HTML and LaTeX: every input, every feature, and what is too long is summed."""

import re

import networks as nets
import numpy as np
import pytest
from samples import ONE, explanation
from test_show import Text

import lrpnumpy as lrp
from lrpnumpy.show import html, latex, parts, plot, terminal


def rects(page):
    return [attrs for tag, attrs in page.tags if tag == "rect" and "fill" in attrs]


def test_html_shows_a_series_as_a_map():
    e = explanation(30, 2, ("rain", "<b>"), np.datetime64("2004-01-01") + np.arange(30))
    page = Text(html.fragment(e))
    assert page.open == [] and "<b>" in page.text and "b" not in {tag for tag, _ in page.tags}
    share = abs(e.feature_relevance) / abs(e.feature_relevance).max()
    assert len(rects(page)) == (share >= 0.01).sum()
    largest = np.unravel_index(abs(e.feature_relevance).argmax(), (30, 2))
    name = ("rain", "<b>")[largest[1]]
    value, relevance = e.values[largest], e.feature_relevance[largest]
    assert f"{e.labels[largest[0]]}: {name} {value:.4g}, relevance {relevance:+.4g}" in page.text
    points = [attrs["points"].split() for tag, attrs in page.tags if tag == "polyline"]
    assert [len(line) for line in points] == [30, 30]
    heights = np.array([float(point.split(",")[1]) for point in points[0]])
    assert heights.argmin() == e.values[:, 0].argmax() and heights.argmax() == e.values[:, 0].argmin()


def test_a_long_series_is_summed_in_html_and_stays_small():
    e = ONE["40 x 2000"]()
    text = html.fragment(e)
    assert len(text) < 400_000 and "each cell is the sum of 40 hours; 16 features of less" in text


def test_every_input_is_in_html_latex_and_terminal():
    e = ONE["inputs"]()
    page, paper, screen = Text(html.fragment(e)).text, latex.document(e), terminal.render(e, "never", width=90)
    for said in (page, screen):
        assert all(name in said for name in ("basin", "area", "$x_1$", "forest share", "gauges", "upstream", "snow"))
    assert all(
        name in paper for name in ("basin", "area", r"\$x\_1\$", "gauges", "upstream", "2004-03-29 to 2004-05-27")
    )
    assert paper.count("{") - paper.count(r"\{") == paper.count("}") - paper.count(r"\}")
    assert latex.table([e, e]).count("upstream") == 2 and len(plot.sentence(e).texts) == 3 + 60 + 3 + 20


def test_latex_has_one_rule_for_each_run_of_a_color():
    e = explanation(240, 1, feature_relevance=np.repeat([[1.0], [0.0], [-1.0]], 80, axis=0))
    (strip,) = re.findall(r"& (.*rule.*) &", latex.document(e))
    widths = re.findall(r"rule\{(\d+)pt\}", strip)
    assert widths == ["80", "80", "80"] and "the sum of 2 steps" in latex.document(e)


def test_a_page_takes_pictures(rng):
    e = explanation(4, 2)
    page = Text(html.page([e, plot.waterfall(e)]).replace("<img ", "<meta "))
    (picture,) = [attrs for tag, attrs in page.tags if "src" in attrs]
    assert picture["src"].startswith("data:image/png;base64,") and "discharge" in picture["alt"]


def test_words_beside_numbers_are_one_row():
    """Of several inputs: one number a word, not one for each coordinate of its vector."""
    rng = np.random.default_rng(0)
    model, x = nets.three_inputs(rng), nets.three_values(rng)
    e = lrp.explain(model, x, "lrp-all")
    found = parts.shown(parts.by_variable(e, "bars"), "bars")
    names = ["weather: rain", "weather: temp", "weather: wind", "basin: area", "basin: slope"]
    names += [f"notes: {word}" for word in e.inputs["notes"].tokens]  # by token
    np.testing.assert_array_equal(found[1].relevance[:, 0], e.inputs["notes"].relevance)
    figure = plot.bars([e, e])
    assert {label.get_text() for label in figure.axes[0].get_yticklabels()} == {*names}
    with pytest.raises(lrp.LrpError, match="bars: got one explanation; pass several"):
        plot.bars(e)
