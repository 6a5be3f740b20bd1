"""Every picture of matplotlib with hard cases, and a look at it: is anything cut off, or invisible?"""

import numpy as np
import pytest
from matplotlib import colors
from matplotlib.text import Text
from samples import COHORTS, ONE, every_axes, forecast, many

import lrpnumpy as lrp
from lrpnumpy.show import plot

PICTURES = {
    **{
        f"feature_map {name}": lambda ax=None, make=make: plot.feature_map(make(), ax=ax)
        for name, make in ONE.items()
        if name not in ("300 features", "a year")
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
    "heatmap": lambda ax=None: plot.heatmap(many(static=True), ax=ax),
    "bars by month": lambda ax=None: plot.bars(many(), by=[k % 12 for k in range(60)], ax=ax),
    "horizons": lambda ax=None: plot.horizons(lrp.explain(*forecast(), target="all"), ax=ax),
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
    """Contrast of two colors by WCAG 2, from 1 to 21."""
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
