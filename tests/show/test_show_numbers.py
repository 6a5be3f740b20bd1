"""A series in the terminal and in HTML: a map with dates, names and units; what a regression is called."""

import re
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

import lrpnumpy as lrp
from lrpnumpy.ledgers import ReferenceLedger
from lrpnumpy.show import html, latex, terminal

NAMES = ("rain", "temp")


def flood(T=6, **settings):
    """Rain of the last but one step has raised it, and cold of the second has lowered it."""
    feature_relevance = np.zeros((T, 2))
    values = np.zeros((T, 2))
    feature_relevance[-min(T, 2), 0], values[-min(T, 2), 0], feature_relevance[1 % T, 1] = 4.0, 31.5, -2.0
    given = {
        "classes": ("discharge",),
        "output_unit": "mm",
        **settings,
    }
    labels = np.datetime64("2005-04-01") + np.arange(T)
    part = lrp.InputPart(feature_relevance.sum(axis=1), feature_relevance, NAMES, values=values, labels=labels)
    return lrp.Explanation({"x": part}, np.array([3.2]), 0, "lrp-all", **given)


def test_what_a_regression_is_called():
    e = flood()
    assert terminal.title(e) == "lrp-all: discharge 3.2 mm" and e.prediction == "discharge 3.2 mm"
    for text in (str(e), e._repr_html_(), latex.document(e)):
        assert "discharge 3.2 mm" in text
    assert '"prediction": "discharge 3.2 mm"' in e.to_json()
    if find_spec("pandas"):
        assert e.to_frame().attrs == {"prediction": "discharge 3.2 mm"}
    assert terminal.title(flood(classes=None, output_unit=None)) == "lrp-all: score 3.2"
    assert terminal.title(replace(e, options={"windows": 500})) == "lrp-all: discharge 3.2 mm, mean of 500 windows"
    two = replace(e, scores=np.array([1.0, 3.2]), target=1, classes=None)
    assert two.prediction == "output 1 3.2 mm" and terminal.title(two) == "lrp-all: output 1 3.2 mm"


@pytest.mark.parametrize(("reference", "says"), [(1.3, "1.9 mm above"), (5.1, "1.9 mm below")])
def test_the_reference(reference, says):
    e = replace(flood(), ledger=ReferenceLedger(2.0, 3.2, reference, 0.0, 2.0, 0.0))
    assert e.prediction == f"discharge 3.2 mm, {says} the reference" and says in str(e) and says in e._repr_html_()


def test_a_class_is_called_as_before():
    e = replace(flood(), scores=np.array([1.0, -1.0]), classes=("yes", "no"), output_unit=None)
    assert terminal.title(e) == "lrp-all: why 'yes'?  score 1, predicted"
    e = replace(e, activation="softmax")
    assert terminal.title(e) == "lrp-all: why 'yes'?  score 1, probability 88.1%, predicted"
    assert not e.is_regression and flood().is_regression


def test_the_map_of_the_terminal():
    lines = terminal.render(flood(30), "never", width=80).splitlines()
    rain, temp, axis, note = lines[2:6]
    assert rain.split() == ["rain", "█", "+4.000"] and temp.split() == ["temp", "▒", "-2.000"]
    assert rain.index("█") - temp.index("▒") == 27  # the last but one step, and the second
    assert axis.split() == ["2005-04-01", "2005-04-30"] and "░ to ▓ negative" in note
    assert any("rain 31.5: +4" in line and "2005-04-29" in line for line in lines)


def test_colors_are_relevance():
    text = terminal.render(flood(30), "truecolor", width=80)
    red = re.findall(r"\x1b\[48;2;214;40;40;[0-9;]*m(.)\x1b", text)
    assert red == [" "]  # the day of the most rain


@pytest.mark.parametrize("width", [40, 80, 200])
def test_long_series_share_columns(width):
    text = terminal.render(flood(2000), "never", width=width)
    table = text.split("\n\n")[1].splitlines()
    assert max(map(len, table[:-1])) <= width and "each column is the sum of" in table[-1]
    assert "(12 of 2000 steps shown" in text and len(text.splitlines()) < 30


def test_many_features():
    T, D = 4, 60
    feature_relevance = np.arange(T * D, dtype=float).reshape(T, D)
    names = tuple(f"$x_{{{d}}}$ " + "long" * 20 for d in range(D))
    e = flood(T).with_first(
        relevance=feature_relevance.sum(axis=1),
        feature_relevance=feature_relevance,
        values=feature_relevance,
        features=names,
    )
    text = terminal.render(e, "never", width=80)
    assert "36 less relevant features are not shown" in text and "$x_{59}$" in text and "$x_{0}$" not in text
    assert "36 less relevant features" in e._repr_html_()


def test_one_step_shows_features():
    e = flood(1)
    assert e.by_feature().tokens == NAMES and len(e.by_feature()) == 2
    text = terminal.render(e, "never", width=80)
    assert re.search(r"0  rain +\+4\.000 .*value 31.5", text) and "sum of" not in text
    assert "rain" in e._repr_html_() and flood().by_feature().tokens is None


def test_without_relevance_per_variable():
    e = flood().with_first(feature_relevance=None)
    assert "relevance" in terminal.render(e, "never", width=80).splitlines()[2]
    assert "relevance" in e._repr_html_()


def test_control_characters_never_reach_the_terminal():
    e = flood().with_first(features=("\x1b[2J", "b"), labels=np.array(["\x1b[2J"] * 6))
    assert "\x1b" not in terminal.render(e, "never", width=80)


def test_html():
    page = html.page(flood(6).with_first(features=("<b>rain", "temp")))
    assert "<b>" not in page and "&lt;b&gt;rain" in page.partition("<iframe")[0]
    assert "rain" in page.partition("srcdoc=")[2]


def test_comparisons_of_series():
    found = lrp.Comparison((flood(100), replace(flood(100), method="gradient")))
    text = terminal.render_comparison(found, "never", width=80)
    assert text.startswith("discharge 3.2 mm") and "step" in text and "(30 of 100 steps shown" in text
    assert all(e.method in found._repr_html_().partition("srcdoc=")[2] for e in found)
