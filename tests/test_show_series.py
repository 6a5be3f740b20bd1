"""Series in HTML, LaTeX and the terminal: every input, every feature, and what is too long is summed."""

import re

import networks as nets
import numpy as np
import pytest
from samples import ONE, explanation
from test_show import Text

import lrpnumpy as lrp
from lrpnumpy.show import html, latex, plot, sparks, terminal


def rects(page):
    return [attrs for tag, attrs in page.tags if tag == "rect" and "fill" in attrs]


def test_html_shows_a_series_as_a_map():
    e = explanation(30, 2, ("rain", "<b>"), np.datetime64("2004-01-01") + np.arange(30))
    page = Text(html.fragment(e))
    assert page.open == [] and "<b>" in page.text and "b" not in {tag for tag, _ in page.tags}
    share = abs(e.variables) / np.quantile(abs(np.append(e.variables, 0)), 0.99)
    assert len(rects(page)) == (share >= 0.01).sum()
    largest = np.unravel_index(abs(e.variables).argmax(), (30, 2))
    name = ("rain", "<b>")[largest[1]]
    assert f"{name}, {e.labels[largest[0]]}: {e.variables[largest]:+.4g}" in page.text
    points = [attrs["points"].split() for tag, attrs in page.tags if tag == "polyline"]
    assert [len(line) for line in points] == [30, 30]
    heights = np.array([float(point.split(",")[1]) for point in points[0]])
    assert heights.argmin() == e.values[:, 0].argmax() and heights.argmax() == e.values[:, 0].argmin()


def test_a_long_series_is_summed_in_html_and_stays_small():
    e = ONE["40 x 2000"]()
    text = html.fragment(e)
    assert len(text) < 400_000 and "each column is the sum of 20 hours" in text and "21 other features" in text


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


def test_latex_has_one_rule_for_each_run_of_a_colour():
    e = explanation(240, 1, variables=np.repeat([[1.0], [0.0], [-1.0]], 80, axis=0))
    (strip,) = re.findall(r"& (.*rule.*) &", latex.document(e))
    widths = re.findall(r"rule\{(\d+)pt\}", strip)
    assert widths == ["80", "80", "80"] and "the sum of 2 steps" in latex.document(e)


@pytest.mark.parametrize("colors", ["never", "256", "truecolor"])
def test_the_terminal_shows_a_series_as_lines_of_blocks(colors):
    e = ONE["a year"]()
    text = re.sub(r"\x1b\[[0-9;]*m", "", terminal.render(e, colors, width=80))
    head, _, rest = text.partition("\n\n")
    assert head == f"lrp-all: why discharge {e.scores[0]:.4g} mm?"
    rows = rest.splitlines()[:5]
    assert [row.split("  ")[0] for row in rows] == list(e.features) and all(len(row) <= 80 for row in rows)
    assert [float(row.split()[-1]) for row in rows] == pytest.approx(e.variables.sum(axis=0), rel=1e-3)
    assert "2004-03-29" in rest and "each block is the sum of" in rest and "(10 of 365 steps shown" in rest


def test_blocks_follow_sign_and_size():
    assert [sparks.spark(share) for share in (0.01, 0.05, 0.5, 1, -0.01, -0.2, -0.5, -1)] == [*"·▁▅█·░▒▓"]


def test_one_step_is_its_features():
    e = ONE["one step"]()
    for said in (terminal.render(e, "never"), Text(html.fragment(e)).text, latex.document(e)):
        assert all(f"x{d} = {e.values[0, d]:.4g}" in said for d in range(30))
    assert "\n    0  x0 = " in terminal.render(e, "never")


def test_a_page_takes_pictures(rng):
    e = explanation(4, 2)
    page = Text(html.page([e, plot.waterfall(e)]).replace("<img ", "<meta "))
    (picture,) = [attrs for tag, attrs in page.tags if "src" in attrs]
    assert picture["src"].startswith("data:image/png;base64,") and "discharge" in picture["alt"]


def test_titles_of_regressions_and_classes(rng):
    x = rng.normal(size=(4, 2))
    layers = [nets.lstm(rng, 2, 3), nets.dense(rng, 3, 1)]
    plain, named = lrp.Model(layers), lrp.Model(layers, classes=["level"], output_unit="m")
    score = f"{lrp.predict(plain, x)[0]:.4g}"
    assert terminal.title(lrp.explain(plain, x)) == f"lrp-all: why {score}?"
    assert terminal.title(lrp.explain(named, x)) == f"lrp-all: why level {score} m?"
    either = lrp.Model(layers, classes=["ill"], output="sigmoid")
    assert "'ill'?  score" in terminal.title(lrp.explain(either, x))
    seven = lrp.Model([layers[0], nets.dense(rng, 3, 2)], classes=["day 1", "day 2"], output_unit="mm")
    assert "why day 2 " in terminal.title(lrp.explain(seven, x, target="day 2"))
