"""A numeric series: which days of rain made the river rise? Writes a colored signal and a map.

The network is set by hand: one unit that fills with rain and empties by a fifth each day, faster when it is warm.

Run with: python examples/time_series.py [FOLDER]
"""

import sys
from pathlib import Path

import numpy as np

import lrpnumpy as lrp

rng = np.random.default_rng(3)
rain = np.where(rng.random(60) < 0.2, rng.gamma(2.0, 0.3, 60), 0.0)
warm = np.sin(np.arange(60) / 10)
x = np.stack([rain, warm], axis=1)

U = np.zeros((4, 1, 2))
U[2, 0, 0] = 1.0  # what comes in is rain
U[1, 0, 1] = -0.8  # warmth closes the forget gate: the river empties faster
b = np.array([[3.0], [1.4], [0.0], [3.0]])
model = lrp.Model([lrp.LSTM(U, np.zeros((4, 1, 1)), b), lrp.Dense(np.array([[2.0]]))], features=["rain", "warmth"])

explanation = lrp.explain(model, x)
print(f"level {explanation.scores[0]:.2f}; the days that made it:")
for part in explanation.top(5):
    print(f"  day {part.position}: {part.relevance:+.2f} (rain {rain[part.position]:.2f})")
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
lrp.plot.series(explanation).savefig(folder / "series.png", dpi=150)
lrp.plot.feature_map(explanation).savefig(folder / "map.png", dpi=150)
print(f"wrote {folder / 'series.png'} and {folder / 'map.png'}")
