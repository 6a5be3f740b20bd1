"""The two pictures of the README, from the bundled networks: `python docs/demo.py`."""

from pathlib import Path

import pandas as pd

import lrpnumpy as lrp

HERE = Path(__file__).parent
SENTENCE = "I did not expect to like it, but it is wonderful."


def main() -> None:
    """Draw a sentence and a flood."""
    e = lrp.explain(lrp.load("sentiment-2"), SENTENCE)
    lrp.plot.sentence(e, width=5).savefig(HERE / "demo.png", dpi=160)
    frame = pd.read_csv(HERE.parent / "weights" / "sample-river.csv", index_col="date", parse_dates=True)
    flood = lrp.explain_windows(lrp.load("river"), frame, unit="feature").at("2005-04-25")
    lrp.plot.feature_map(flood).savefig(HERE / "river.png", dpi=100)


if __name__ == "__main__":
    main()
