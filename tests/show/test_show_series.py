"""Series in HTML and LaTeX: every input, every feature, and what is too long is summed."""

import re

import networks as nets
import numpy as np
import pytest
from samples import ONE, explanation
from test_show import Text

import lrpnumpy as lrp
from lrpnumpy.show import html, latex, parts, plot, terminal


def test_every_input_is_in_html_latex_and_terminal():
    e = ONE["inputs"]()
    page, paper, screen = Text(e._repr_html_()).text, latex.document(e), terminal.render(e, "never", width=90)
    for said in (page, screen):
        assert all(name in said for name in ("basin", "area", "$x_1$", "forest share", "gauges", "upstream", "snow"))
    assert all(
        name in paper for name in ("basin", "area", r"\$x\_1\$", "gauges", "upstream", "2004-03-29 to 2004-05-27")
    )
    assert paper.count("{") - paper.count(r"\{") == paper.count("}") - paper.count(r"\}")
    assert latex.table([e, e]).count("upstream") == 2 and len(plot.sentence(e).axes[0].texts) == 4 + 60 + 3 + 20


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
