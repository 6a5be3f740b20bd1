"""The figures of docs/trust-results.md: a ranking of methods on the three bundled networks that have their own data.

    python -m benchmarks.rank --sst DIR --river piscataquis.csv --vowels DIR --out docs

Writes trust-sentiment.png, trust-river.png, trust-vowels.png, and trust-results.md with the tables. Parts that are
finished are kept in the folder --state: an interrupted run goes on from there.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import lrpnumpy as lrp
from benchmarks import vowels
from benchmarks.paper.measures.treebank import read_sentences
from benchmarks.river import data as river
from lrpnumpy.evaluate.ranking import COLUMNS, Ranking
from lrpnumpy.show.ranking import number, rank_text

SENTENCES, WINDOWS = 500, 40
WHAT = {
    "sentiment": f"{SENTENCES} test sentences of the Stanford Sentiment Treebank, two LSTM directions, five classes",
    "river": f"{WINDOWS} years of weather that end with days of the test period, an LSTM, one number in mm",
    "vowels": "370 test utterances, a GRU with the mean of its states, nine speakers",
}


def data(arguments: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """The sequences of each network whose data were given."""
    if arguments.sst:
        yield "sentiment", read_sentences(arguments.sst / "test.txt").words[:SENTENCES]
    if arguments.river:
        found = river.read(str(arguments.river))
        days = found.days(*river.TEST)
        yield "river", list(found.windows(days[np.linspace(0, len(days) - 1, WINDOWS).astype(int)]))
    if arguments.vowels:
        yield "vowels", vowels.read(arguments.vowels / "JapaneseVowels_TEST.ts")[0]


def table(found: Ranking, keys: list[str], ranked: bool) -> list[str]:
    """The columns `keys` as a table, with the mean rank where they are those that it is made of."""
    heads = ["method", *(["mean rank"] if ranked else []), *(COLUMNS[key].title for key in keys)]
    lines = ["| " + " | ".join(heads) + " |", "| --- |" + " ---: |" * (len(heads) - 1)]
    for m in found.order:
        row = [found.methods[m]]
        if ranked:
            row.append(rank_text(found, m))
        for key in keys:
            text = number(found.cells[key].value[m])
            row.append(f"**{text}**" if found.cells[key].unbeaten[m] else text)
        lines.append(f"| {' | '.join(row)} |")
    return [*lines, ""]


def markdown(name: str, found: Ranking) -> list[str]:
    """A section with the advice, the table and the figure."""
    keys = [key for key in found.cells if COLUMNS[key].measure != "truth"]
    lines = [f"## {name}", "", f"{WHAT[name]}.", "", found.advice, "", *table(found, keys, True)]
    return [*lines, f"![Every measure with its intervals](trust-{name}.png)", ""]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rank", description=__doc__.splitlines()[0])
    parser.add_argument("--sst", type=Path, help="folder with Stanford's test.txt")
    parser.add_argument("--river", type=Path, help="piscataquis.csv")
    parser.add_argument("--vowels", type=Path, help="folder with JapaneseVowels_TEST.ts")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of the figures (results)")
    parser.add_argument("--state", type=Path, help="folder of finished parts (--out)")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    lines = [
        "# Ranking of methods: results", "",
        "Written by `python -m benchmarks.rank`; [Which method to trust](trust.md) explains the columns. Bold: no "
        "method is better by more than chance. A method without a value in a column is not ranked. Costs are "
        "elapsed times, which vary with the load of the machine. The figures show the intervals.", "",
    ]  # fmt: skip
    for name, sequences in data(arguments):
        began = time.process_time()
        state = (arguments.state or arguments.out) / f"trust-{name}"
        found = lrp.rank_methods(lrp.load(name), sequences, state=state)
        print(found, f"\n\n{name}: {time.process_time() - began:.0f} s of processor time\n", flush=True)
        found.figure().savefig(arguments.out / f"trust-{name}.png", dpi=80)
        lines += markdown(name, found)
    keys = [key for key in found.cells if COLUMNS[key].measure == "truth"]
    lines += ["## Networks whose truth is known", "", "The same for every network, and not part of the mean rank.", ""]
    lines += table(found, keys, False)
    (arguments.out / "trust-results.md").write_text("\n".join(lines).rstrip() + "\n", "utf-8")


if __name__ == "__main__":
    main()
