"""The picture of the README and those of the first page of the site, from the bundled networks: `python docs/demo.py`.

The sentence is drawn so narrow that its text can be read on a phone.
"""

from pathlib import Path

import pandas as pd

import lrpnumpy as lrp

HERE = Path(__file__).parent
SENTENCE = "I did not expect to like it, but it is wonderful."


def main() -> None:
    """Draw a sentence and a flood."""
    e = lrp.explain(lrp.load("sentiment-2"), SENTENCE)
    lrp.plot.sentence(e, width=3.6).savefig(HERE / "demo.png", dpi=200)
    frame = pd.read_csv(HERE.parent / "weights" / "sample-river.csv", index_col="date", parse_dates=True)
    flood = lrp.explain_windows(lrp.load("river"), frame, unit="feature").at("2005-04-25")
    lrp.plot.feature_map(flood).savefig(HERE / "river.png", dpi=100)


if __name__ == "__main__":
    main()
