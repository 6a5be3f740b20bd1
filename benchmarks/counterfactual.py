"""Do counterfactuals change the decision, and is every change needed? 20 sentences and 20 windows of the river.

    python -m benchmarks.counterfactual --sst DIR --river piscataquis.csv

The goal is "negative" for a sentence on the positive side, else "positive"; for the river, half of the way to the mean
prediction, and at least 0.5 mm. A change is needed if the new decision is lost without it.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

import lrpnumpy as lrp
from benchmarks.paper.measures.treebank import read_sentences
from benchmarks.river import data as river

COUNT = 20


def sentences(folder: Path) -> None:
    """Sentences of the treebank's test set, spread over it."""
    model = lrp.load("sentiment")
    words = read_sentences(folder / "test.txt").words
    rows = []
    for k in np.linspace(0, len(words) - 1, COUNT).astype(int):
        target = "negative" if lrp.predict(model, words[k]).argmax() > 2 else "positive"
        began = time.perf_counter()
        found = lrp.counterfactual(model, words[k], target)
        took = time.perf_counter() - began
        goal = model.classes.index(target)
        needed = all(int(scores.argmax()) != goal for scores in found.undone)
        rows.append((lrp.predict(model, found.x).argmax() == goal, needed, len(found.changes), took))
        print(found, "\n")
    _report("sentences", rows)


def windows(path: Path) -> None:
    """Years of weather that end with days of the test period, spread over it; others have the numbers to take."""
    model = lrp.load("river")
    found_data = river.read(str(path))
    days = found_data.days(*river.TEST)
    every = list(found_data.windows(days[np.linspace(0, len(days) - 1, 3 * COUNT).astype(int)]))
    predicted = np.ravel(lrp.predict_all(model, every))
    rows = []
    for k in range(0, 3 * COUNT, 3):
        change = (predicted.mean() - predicted[k]) / 2
        change = float(np.copysign(max(0.5, abs(change)), change))
        if predicted[k] + change < predicted.min():
            change = -change
        began = time.perf_counter()
        found = lrp.counterfactual(model, every[k], change=change, records=every)
        took = time.perf_counter() - began
        after = float(lrp.predict(model, found.x)[0])
        sign, goal = np.sign(change), predicted[k] + change
        needed = bool((sign * (found.undone[:, 0] - goal) < 0).all())
        rows.append((sign * (after - goal) >= -1e-5, needed, len(found.changes), took))
        print(found, "\n")
    _report("windows", rows)


def _report(what: str, rows: list[tuple[Any, ...]]) -> None:
    flips, needed, counts, took = (np.array(column, float) for column in zip(*rows, strict=True))
    print(
        f"{len(rows)} {what}: {int(flips.sum())} reach the goal, {int(needed.sum())} irreducible, "
        f"{counts.mean():.1f} changes on average, at most {int(counts.max())}; {np.median(took):.2f} s each (median)\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.counterfactual", description=__doc__.splitlines()[0])
    parser.add_argument("--sst", type=Path, help="folder with Stanford's test.txt")
    parser.add_argument("--river", type=Path, help="piscataquis.csv")
    arguments = parser.parse_args()
    if arguments.sst:
        sentences(arguments.sst)
    if arguments.river:
        windows(arguments.river)


if __name__ == "__main__":
    main()
