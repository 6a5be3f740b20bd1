"""Parts of the input: which frequencies made a flood, and does a voice's average or its movement give a speaker away?

The flood is that of examples/river.py: waves of the weather with periods of over 90 days (the seasons, and the mean),
of 10 to 90 days, and of less than 10 days. An utterance of examples/vowels.py is its average and what is left of it.

Run with: python examples/parts.py [FOLDER], where two pictures are written
"""

import sys
from pathlib import Path

import numpy as np

import lrpnumpy as lrp

HERE = Path(__file__).parent
FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else ".")


def river() -> None:
    """The slow and the fast part of the weather before a flood."""
    values, dates, names = lrp.sample("river")
    last = int(np.flatnonzero(dates == np.datetime64("2005-04-25"))[0])
    days = slice(last - 364, last + 1)
    x = lrp.Table(values[days], dates[days], names)
    e = lrp.explain(lrp.load("river"), x, unit="feature")
    bands = lrp.decompose(e, periods=(10, 90), by="part")
    print(f"{e.prediction}, of which by waves of the weather with periods of")
    for name, sum_of_band in zip(bands.features, bands.feature_relevance.sum(axis=0), strict=True):
        print(f"  {name:>8} days {sum_of_band:+6.2f} mm")
    lrp.plot.waterfall(lrp.decompose(e, periods=(10, 90))).savefig(FOLDER / "parts-river.png", dpi=130)


def vowels() -> None:
    """The average of each utterance, and its movement."""
    rows = np.loadtxt(HERE / "vowels.csv", delimiter=",", skiprows=1)
    utterances = np.split(rows[:, 2:], np.flatnonzero(np.diff(rows[:, 0])) + 1)
    found = lrp.explain_all(lrp.load("vowels"), utterances, unit="feature")

    def average_and_movement(x: np.ndarray) -> dict[str, np.ndarray]:
        average = np.broadcast_to(x.mean(axis=0), x.shape)
        return {"average": average, "movement": x - average}

    for e in [lrp.decompose(e, average_and_movement, by="part") for e in found]:
        average, movement = e.feature_relevance.sum(axis=0)
        print(f"  {e.name_of(e.target)}: average {average:+6.2f}, movement {movement:+6.2f}")
    lrp.plot.bars([lrp.decompose(e, average_and_movement) for e in found], target="predicted").savefig(
        FOLDER / "parts-vowels.png", dpi=130
    )


if __name__ == "__main__":
    river()
    vowels()
    print(f"wrote parts-river.png and parts-vowels.png to {FOLDER.resolve()}")
