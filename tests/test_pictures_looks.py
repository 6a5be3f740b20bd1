"""Pictures of matplotlib: nothing of them is cut off or invisible, in light and in dark, in axes of the caller too."""

import numpy as np
import pytest
from matplotlib import colors, style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from samples import BASIN, COHORTS, ONE, every_axes, explanation, forecast, many, words

import lrpnumpy as lrp
from lrpnumpy.show import plot

PICTURES = {
    **{
        f"feature_map {name}": lambda ax=None, make=make: plot.feature_map(make(), ax=ax)
        for name, make in ONE.items()
        if name != "300 features"
    },
    "series": lambda ax=None: plot.series(ONE["inputs"](), ax=ax),
    "series 40 x 2000": lambda ax=None: plot.series(ONE["40 x 2000"](), ax=ax),
    "waterfall": lambda ax=None: plot.waterfall(ONE["inputs"](), ax=ax),
    "waterfall 40 x 2000": lambda ax=None: plot.waterfall(ONE["40 x 2000"](), ax=ax),
    "waterfall by step": lambda ax=None: plot.waterfall(ONE["visits"](), "step", ax=ax),
    "ledger": lambda ax=None: plot.ledger(ONE["a year"](), ax=ax),
    "memory": lambda ax=None: plot.memory(many(), ax=ax),
    "memory by cohort": lambda ax=None: plot.memory(many(), by=COHORTS * 20, ax=ax),
    "memory of one step": lambda ax=None: plot.memory([ONE["one step"]()], ax=ax),
    "bars": lambda ax=None: plot.bars(many(static=True), by=COHORTS * 20, ax=ax),
    "bars of 40": lambda ax=None: plot.bars([ONE["40 x 2000"]()], ax=ax),
    "beeswarm": lambda ax=None: plot.beeswarm(many(static=True), ax=ax),
    "beeswarm without values": lambda ax=None: plot.beeswarm([ONE["no values"]()], ax=ax),
    "horizons": lambda ax=None: plot.horizons(lrp.explain(*forecast(), target="all"), ax=ax),
    "predictions": lambda ax=None: plot.predictions(many(), ax=ax),
    "gates": lambda ax=None: plot.gates(*forecast(), ax=ax),
    "gates of one step": lambda ax=None: plot.gates(forecast()[0], forecast()[1][:1], units=[2], ax=ax),
}
KINDS = ["feature_map inputs", *(name for name in PICTURES if " " not in name)]


def drawn(figure):
    """The texts that are really drawn: neither hidden nor beyond the limits of an axis."""
    found = []
    plain = Text.draw

    def noted(self, renderer, *args, **kwargs):
        found.append(self)
        return plain(self, renderer, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Text, "draw", noted)
        figure.canvas.draw()
    return [text for text in found if text.get_visible() and text.get_text()]


def luminance(color):
    rgb = np.array(colors.to_rgb(color))
    return np.where(rgb <= 0.04, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]


def contrast(a, b):
    """Contrast of two colours by WCAG 2, from 1 to 21."""
    low, high = sorted([luminance(a), luminance(b)])
    return (high + 0.05) / (low + 0.05)


def look_at(figure):
    """Assert that every text is inside the figure and that texts and lines can be seen."""
    box = figure.bbox
    for text in drawn(figure):
        extent = text.get_window_extent()
        inside = extent.x0 >= -1 and extent.y0 >= -1 and extent.x1 <= box.x1 + 1 and extent.y1 <= box.y1 + 1
        assert inside, (text.get_text(), extent, box)
        assert contrast(text.get_color(), figure.get_facecolor()) > 4.5, text
    for axes in every_axes(figure):
        for line in axes.lines:
            assert contrast(line.get_color(), axes.get_facecolor()) > 1.8, line  # orange, the second of matplotlib


@pytest.mark.parametrize("name", PICTURES)
def test_everything_is_inside_the_figure_and_visible(name):
    look_at(PICTURES[name]())


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
    e = explanation(T, 3, variables=R, relevance=R.sum(axis=1), others={"basin": BASIN._replace(variables=R[:1])})
    for picture in (plot.feature_map, plot.series, plot.waterfall):
        picture(e).canvas.draw()
    for picture in (plot.memory, plot.bars, plot.beeswarm, plot.predictions):
        picture([e]).canvas.draw()


def test_a_picture_shows_itself_in_a_notebook():
    figure = plot.waterfall(ONE["visits"]())
    assert figure._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["feature_map a year", "series", "waterfall", "memory", "bars", "beeswarm"])
def test_titles_name_the_target_and_labels_the_unit(name):
    said = words(PICTURES[name]())
    assert "discharge" in said and "mm" in said
