"""Explanations as matplotlib figures: `lrp.plot.feature_map(e)`, `lrp.plot.memory(many)`, and so on.

Each function returns a Figure that is tied to no window and shows itself in a notebook; `figure.savefig("why.svg")`
writes PNG, SVG or PDF. All draw into your own axes, too: `lrp.plot.waterfall(e, ax=ax)`. Fonts and colors follow the
style of matplotlib, light or dark. `e.plot()` draws the picture that fits an explanation.
"""

import inspect

from lrpnumpy.show.counterfactual import counterfactual
from lrpnumpy.show.gates import gates
from lrpnumpy.show.lags import horizons, memory
from lrpnumpy.show.many import bars, beeswarm, heatmap
from lrpnumpy.show.series import feature_map, series
from lrpnumpy.show.waterfall import interactions, ledger, waterfall
from lrpnumpy.show.words import sentence

__all__ = [
    "bars", "beeswarm", "counterfactual", "feature_map", "gates", "heatmap", "horizons", "interactions", "ledger",
    "memory", "sentence", "series", "waterfall",
]  # fmt: skip

_SHARED = {
    "ax": "axes to draw into; None creates a figure",
    "width": "width of the figure in inches",
    "title": "replaces the title that the picture has by default",
    "cmap": "a colormap of matplotlib, or its name; replaces the default",
}

for _name in __all__:
    _picture = globals()[_name]
    _lines = [f"{name}: {text}." for name, text in _SHARED.items() if name in _picture.__annotations__]
    _picture.__doc__ = "\n".join([inspect.cleandoc(_picture.__doc__ or ""), "", *_lines, ""])
