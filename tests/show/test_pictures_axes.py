"""Pictures of matplotlib in axes of the caller, in dark; and of what is not finite."""

import dataclasses

import numpy as np
import pytest
from looks import KINDS, PICTURES, contrast, look_at
from matplotlib import style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from samples import BASIN, ONE, every_axes, explanation

from lrpnumpy.show import plot


@pytest.mark.parametrize("name", KINDS)
def test_a_picture_goes_into_axes_of_the_caller_in_dark(name):
    with style.context("dark_background"):
        mine = Figure(figsize=(14, 7), layout="constrained")
        FigureCanvasAgg(mine)
        left, right = mine.subplots(1, 2)
        assert PICTURES[name](ax=left) is mine
    look_at(mine)
    assert mine.axes == [left, right] and not right.child_axes and not right.has_data()


def test_what_is_dark_and_light_follows_the_axes_not_the_moment():
    with style.context("dark_background"):
        axes = Figure().subplots()
    plot.waterfall(ONE["visits"](), ax=axes)
    assert contrast(axes.lines[0].get_color(), "black") > 20
    clear = Figure(facecolor="black").subplots()
    clear.set_facecolor("none")
    plot.waterfall(ONE["visits"](), ax=clear)
    assert contrast(clear.lines[0].get_color(), "black") > 20


@pytest.mark.parametrize("T", [1, 20])
def test_what_is_not_finite_can_be_drawn(T):
    R = np.ones((T, 3))
    R[0, :2] = np.nan, np.inf
    e = explanation(
        T,
        3,
        feature_relevance=R,
        relevance=R.sum(axis=1),
        others={"basin": dataclasses.replace(BASIN, feature_relevance=R[:1])},
    )
    figures = [picture(e) for picture in (plot.feature_map, plot.series, plot.waterfall)]
    figures += [picture([e]) for picture in (plot.memory, plot.bars, plot.beeswarm)]
    for figure in figures:
        FigureCanvasAgg(figure).draw()
        for axes in figure.axes:
            assert np.isfinite([*axes.get_xlim(), *axes.get_ylim()]).all()
        assert any(axes.has_data() for axes in every_axes(figure))
