"""Units of a network: what fills the cell that follows the snow, and how much of a flood passes through it?

The river network was never shown snow. The cell of its unit 5 falls while snow lies, and rises again in the melt
(benchmarks/river). It is explained like a score, at the end of March. Then a flood in April is divided among the 32
units by which its relevance comes to the inputs.

Run with: python examples/units.py [FOLDER], where two pictures are written
"""

import sys
from pathlib import Path

import numpy as np

import lrpnumpy as lrp

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
SNOW = 5

weather, dates, names = lrp.sample("river")


def year_before(day: str) -> lrp.Table:
    """The weather of the 365 days up to a day."""
    last = int(np.flatnonzero(dates == np.datetime64(day))[0])
    return lrp.Table(weather[last - 364 : last + 1], dates[last - 364 : last + 1], names)


model = lrp.load("river")
cell = lrp.explain(model, year_before("2005-03-31"), target=("0:cell", SNOW), unit="feature")
frozen = cell.values[:, cell.features.index("tmax_c")] < 0
print(f"{cell.prediction}; by feature, on freezing days and on others:")
for d, name in enumerate(cell.features):
    cold, warm = cell.feature_relevance[frozen, d].sum(), cell.feature_relevance[~frozen, d].sum()
    print(f"  {name:20} {cold:+6.2f} {warm:+6.2f}")
lrp.plot.feature_map(cell).savefig(FOLDER / "units-snow.png", dpi=130)

flood = year_before("2005-04-25")
whole = lrp.explain(model, flood, unit="feature")
through = [lrp.explain(model, flood, unit="feature", through={"0": [unit]}) for unit in range(32)]
sums = np.array([e.relevance.sum() for e in through])
print(f"{whole.prediction}; through its 32 units {sums.sum():+.2f} mm, {sums[SNOW]:+.2f} mm of it through unit {SNOW}.")
for unit in np.argsort(-abs(sums))[:5]:
    relevance = abs(through[unit].relevance)
    share = relevance[:-30].sum() / relevance.sum()
    print(f"  unit {unit:2} {sums[unit]:+.2f} mm, {share:.0%} of its relevance on days more than a month before")
lrp.plot.feature_map(through[SNOW]).savefig(FOLDER / "units-flood.png", dpi=130)
print(f"wrote units-snow.png and units-flood.png to {FOLDER.resolve()}")
