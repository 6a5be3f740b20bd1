"""A flood, explained: which days of weather made the river rise on 2005-04-25? Writes a map and a waterfall.

The bundled network "river" reads 365 days of weather of the Piscataquis River in Maine and predicts how much water it
carries on the last day. Two years of the data are bundled, from the CAMELS data set (Newman et al. 2015,
Hydrology and Earth System Sciences 19, 209-223; Addor et al. 2017, the same 21, 5293-5313).

Run with: python examples/river.py [FOLDER]
"""

import sys
from pathlib import Path

import numpy as np

import lrpnumpy as lrp

FLOOD, DAYS = "2005-04-25", 365


def read() -> tuple[lrp.Table, np.ndarray]:
    """The weather of two years with its dates, and the discharge that was observed."""
    values, dates, names = lrp.sample("river")
    return lrp.Table(values[:, :-1], dates, names[:-1]), values[:, -1]


def main() -> None:
    """Explain the flood, and the average day of the spring before it."""
    model = lrp.load("river")
    weather, observed = read()
    found = lrp.explain_windows(model, weather, length=DAYS, target="discharge", unit="feature")
    e = found.at(FLOOD)
    seen = observed[list(weather.labels).index(np.datetime64(FLOOD))]
    print(f"{FLOOD}: the network predicts {e.scores[0]:.1f} mm, {seen:.1f} mm were observed. It was made by")
    for part in e.top(5):
        rain, warmest = e.values[part.position, [0, 2]]
        print(f"  {e.labels[part.position]}: {part.relevance:+.2f} mm ({rain:.1f} mm of rain, up to {warmest:.1f} °C)")
    is_frozen = e.values[:, 2] < 0  # the warmest hour of the day is below 0 °C
    share = abs(e.relevance[is_frozen]).sum() / abs(e.relevance).sum()
    print(f"  {100 * share:.0f} % of the relevance lies on the {is_frozen.sum()} freezing days of the year before.")
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    lrp.plot.feature_map(e).savefig(folder / "river-map.png", dpi=130)
    lrp.plot.waterfall(e).savefig(folder / "river-waterfall.png", dpi=130)
    lrp.plot.memory(found).savefig(folder / "river-memory.png", dpi=130)
    print(f"wrote river-map.png, river-waterfall.png and river-memory.png to {folder.resolve()}")


if __name__ == "__main__":
    main()
