"""Interactions: words that mean something only together, and weather that makes a flood only together.

Shapley-Taylor values say what each player does alone, and what two of them do only together; they add up to the
difference from the reference. Of many players random orders are drawn until the standard errors are small.

Run with: python examples/interactions.py [FOLDER], where two pictures are written
"""

import sys
from itertools import combinations
from pathlib import Path

import numpy as np

import lrpnumpy as lrp

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
words = ["neither", "funny", "nor", "suspenseful", "."]
model = lrp.load("sentiment")
e = lrp.explain(model, words, lrp.Shapley(order=2), 4, versus=0)
alone = np.diag(e.players.interactions)
print(f"{model.classes[4]} rather than {model.classes[0]}: {e.score - e.reference_score:+.2f}")
print("  alone:   ", ", ".join(f"{word} {value:+.2f}" for word, value in zip(words, alone, strict=True)))
pairs = sorted(combinations(range(len(words)), 2), key=lambda pair: -abs(e.players.interactions[pair]))[:3]
together = [f"{words[p]} + {words[q]} {2 * e.players.interactions[p, q]:+.2f}" for p, q in pairs]
print("  together:", ", ".join(together))
lrp.plot.interactions(e).savefig(FOLDER / "interactions-words.png", dpi=130)

values, dates, names = lrp.sample("river")
last = int(np.flatnonzero(dates == np.datetime64("2005-04-25"))[0])
x = lrp.Table(values[last - 364 : last + 1], dates[last - 364 : last + 1], names)
river = lrp.load("river")
e = lrp.explain(river, x, lrp.Shapley(players="features", order=2))
print(f"{e.prediction}: {e.players.interactions.sum():+.2f} mm by features alone and in pairs")
lrp.plot.interactions(e).savefig(FOLDER / "interactions-river.png", dpi=130)
weeks = lrp.explain(river, x, lrp.Shapley(players=52, error=0.02))
top = int(abs(weeks.players.relevance).argmax())
print(
    f"52 weeks, drawn: {weeks.players.names[top]} {weeks.players.relevance[top]:+.2f} mm, standard error "
    f"{weeks.players.error[top]:.2f} mm, the largest of all {weeks.players.error.max():.2f} mm"
)
print(f"wrote interactions-words.png and interactions-river.png to {FOLDER.resolve()}")
