"""Nine utterances of different lengths: which moments and which coefficients gave the speaker away?

The bundled network "vowels" reads 12 coefficients per step and recognizes which of nine men spoke. One utterance of
each lies beside this file, from the Japanese Vowels of the UCI archive (Kudo, Toyama and Shimbo 1999, Pattern
Recognition Letters 20, 1103-1111).

Run with: python examples/vowels.py [FOLDER], where two pictures are written
"""

import sys
from pathlib import Path

import numpy as np

import lrpnumpy as lrp

rows = np.loadtxt(Path(__file__).with_suffix(".csv"), delimiter=",", skiprows=1)
starts = np.flatnonzero(np.diff(rows[:, 0], prepend=0))  # where the next utterance begins
utterances = np.split(rows[:, 2:], starts[1:])  # nine arrays (T, 12), each with its own T
speakers = rows[starts, 1].astype(int)

model = lrp.load("vowels")
found = lrp.explain_all(model, utterances, unit="feature")
for e, speaker in zip(found, speakers, strict=True):
    d = int(abs(e.feature_relevance.sum(axis=0)).argmax())
    print(
        f"{len(e):2} steps of speaker {speaker}: the network predicts {e.name_of(e.target)} "
        f"({e.probabilities[e.target]:.0%}), most of all because of {e.features[d]} "
        f"({e.feature_relevance[:, d].sum():+.2f} of {e.scores[e.target]:.2f})"
    )
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
lrp.plot.feature_map(found[0]).savefig(folder / "vowels-map.png", dpi=130)
lrp.plot.bars(found).savefig(folder / "vowels-bars.png", dpi=130)
print(f"wrote vowels-map.png and vowels-bars.png to {folder.resolve()}")
