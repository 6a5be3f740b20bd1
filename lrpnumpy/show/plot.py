"""Explanations as matplotlib figures: `lrp.plot.feature_map(e)`, `lrp.plot.memory(many)`, and so on.

Each function returns a Figure that is tied to no window and shows itself in a notebook; `figure.savefig("why.svg")`
writes PNG, SVG or PDF. All but `sentence` also draw into axes of yours: `lrp.plot.waterfall(e, ax=ax)`. Colours follow
the style of matplotlib, light or dark.
"""

from lrpnumpy.show.gates import gates
from lrpnumpy.show.lags import horizons, memory, predictions
from lrpnumpy.show.many import bars, beeswarm
from lrpnumpy.show.series import feature_map, series
from lrpnumpy.show.waterfall import waterfall
from lrpnumpy.show.words import ledger, right_to_left, sentence

__all__ = [
    "bars",
    "beeswarm",
    "feature_map",
    "gates",
    "horizons",
    "ledger",
    "memory",
    "predictions",
    "right_to_left",
    "sentence",
    "series",
    "waterfall",
]
