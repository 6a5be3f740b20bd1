"""How often experiments support an explanation: the shares that pass, fail or are inconclusive, by network and method.

    python -m benchmarks.evidence --sst DIR --river piscataquis.csv
    python -m benchmarks.evidence --picture docs/concepts/evidence.png     # that of the documentation
    python -m benchmarks.evidence --sst DIR --costs

Besides methods there are four relevances that explain nothing: uniform, sign-flipped, shuffled and random. Networks
whose data are not given are left out; the toy networks need none.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import lrpnumpy as lrp
from benchmarks.paper.measures.toy import splits
from benchmarks.paper.measures.treebank import read_sentences
from benchmarks.river import data as river
from lrpnumpy.encode import encode_all
from lrpnumpy.evidence import evidence_of
from lrpnumpy.kernels import compile
from lrpnumpy.series import read_csv

METHODS = ("lrp-all", "deeplift", "integrated-gradients", "gradient-x-input", "cd", "occlusion-f", "lrp-half")
EVERY = 60  # days from one window of the river to the next
TOYS, SEQUENCES = 10, 60  # toy networks of each task, and sequences of each


def _as(values: Callable[[np.ndarray, np.random.Generator], np.ndarray]) -> Callable[..., lrp.Explanation]:
    def changed(e: lrp.Explanation, rng: np.random.Generator) -> lrp.Explanation:
        relevance = values(e.relevance, rng).astype(e.relevance.dtype)
        return e.with_first(relevance=relevance, feature_relevance=None)

    return changed


NULLS = {
    "uniform": _as(lambda R, rng: np.full(R.size, R.mean())),
    "flipped": _as(lambda R, rng: -R),
    "shuffled": _as(lambda R, rng: rng.permutation(R)),
    "random": _as(lambda R, rng: rng.normal(0, abs(R).mean(), R.size)),
}


def verdicts(model: lrp.Model, xs: Sequence[Any], methods: Sequence[str]) -> dict[str, list[lrp.Evidence]]:
    """The evidence of every method and null; nulls are made from the model's default method."""
    records = encode_all(model, xs)
    explained = {name: [*lrp.explain_all(model, xs, name, unit="step")] for name in methods}
    explained["lrp-all, eps = 0.2"] = [*lrp.explain_all(model, xs, "lrp-all", unit="step", eps=0.2)]
    rng = np.random.default_rng(0)
    for name, null in NULLS.items():
        explained[f"null: {name}"] = [null(e, rng) for e in explained[model.method]]
    every = [e for some in explained.values() for e in some]
    found = evidence_of(model, records * len(explained), every, alternatives=())
    return {name: found[k * len(xs) : (k + 1) * len(xs)] for k, name in enumerate(explained)}


def networks(arguments: argparse.Namespace) -> Iterator[tuple[str, list[tuple[lrp.Model, Any]]]]:
    """Every network with its data; of the toy task several."""
    if arguments.sst:
        words = read_sentences(arguments.sst / "test.txt").words[: arguments.sentences]
        yield f"sentiment, {len(words)} sentences", [(lrp.load("sentiment"), words)]
    if arguments.river:
        series = river.read(str(arguments.river))
        windows = [*series.windows(series.days(*river.TEST)[::EVERY])]
        yield f"river, {len(windows)} windows", [(lrp.load("river"), windows)]
    for task in ("addition", "subtraction"):
        sequences = splits(task)["test"].sequences[:SEQUENCES]
        models = [lrp.load("toy", which=f"{task}/{k}") for k in range(TOYS)]
        title = f"toy {task}, {TOYS} networks with {SEQUENCES} sequences each"
        yield title, [(model, sequences) for model in models]


def row(name: str, found: Sequence[lrp.Evidence]) -> str:
    """One line of the table: shares of all, the share that passes of those that are conclusive, and mean numbers."""
    counts = Counter(one.verdict for one in found)
    shares = [counts[verdict] / len(found) for verdict in ("passes", "fails", "inconclusive")]
    conclusive = counts["passes"] + counts["fails"]
    of_conclusive = counts["passes"] / conclusive if conclusive else float("nan")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing
        numbers = [np.nanmean([getattr(one, key) for one in found]) for key in ("refuted", "missed", "agreement")]
    median = np.nanmedian([one.interaction for one in found])
    cells = [*(f"{share:6.0%}" for share in shares), f"{of_conclusive:6.0%}", *(f"{one:6.2f}" for one in numbers)]
    return f"| {name:<22} | " + " | ".join([*cells, f"{median:6.2f}"]) + " |"


def costs(sst: Path) -> Iterator[str]:
    """What evidence costs beside explaining: of one sentence, one window and 1,000 sentences.

    Both sides alternate in one run after a warm-up, on one thread. Of single calls the best processor time counts, as
    other processes disturb it least; of 1,000 sentences the median ratio of pairs.
    """

    def times(explain: Callable[[], Any], count: int) -> np.ndarray:
        found = []
        for _ in range(count):
            start = time.process_time()
            results = explain()
            middle = time.process_time()
            results.evidence()
            found.append((middle - start, time.process_time() - middle))
        return np.array(found).T

    compile.mode = "wait"
    model, river_model = lrp.load("sentiment"), lrp.load("river")
    sentences = read_sentences(sst / "test.txt").words[:1000]
    one = next(words for words in sentences if len(words) == 19)
    table = read_csv((Path(__file__).parents[1] / "weights" / "river.csv").read_text("utf-8"), 10_000)
    cases: list[tuple[str, int, Callable[[], Any]]] = [
        ("one sentence of 19 words, lrp-all", 200, lambda: lrp.explain(model, one, "lrp-all")),
        ("one window of the river, deeplift", 20, lambda: lrp.explain(river_model, table, "deeplift")),
        (f"{len(sentences)} sentences, lrp-all", 11, lambda: lrp.explain_all(model, sentences, "lrp-all", threads=1)),
    ]
    for title, count, explain in cases:
        times(explain, 1)  # compiles
        plain, tested = times(explain, count)
        ratios = tested / plain
        low, middle, high = np.quantile(ratios, (0.1, 0.5, 0.9))
        yield (
            f"{title}: {1e3 * plain.min():.2f} ms, evidence {1e3 * tested.min():.2f} ms (best of {count}); "
            f"ratio of pairs {middle:.1f} (median), {low:.1f} to {high:.1f} (80 %)"
        )


def draw(path: Path) -> None:
    """The flood of 2005 by two methods: what each claims for a block of days, and what replacing these days changes."""
    from matplotlib.figure import Figure

    table = read_csv((Path(__file__).parents[1] / "weights" / "river.csv").read_text("utf-8"), 10_000)
    figure = Figure(figsize=(8, 4.6), layout="constrained")
    every = figure.subplots(2, 1, sharex=True, sharey=True)
    for ax, method in zip(every, ("lrp-all", "deeplift"), strict=True):
        found = lrp.explain(lrp.load("river"), table, method).evidence()
        one = found.experiments
        place = np.arange(len(one.groups))
        ax.bar(place - 0.2, one.claimed, 0.4, color="#c0392b", label="claimed: the summed relevance of the days")
        low, high = one.changes.min(axis=1), one.changes.max(axis=1)
        ax.bar(place + 0.2, high - low, 0.4, low, color="0.6", label="measured: the changes by four replacements")
        ax.plot(place + 0.2, one.effects, "k.", markersize=4)
        ax.axhline(0, color="black", linewidth=0.6)
        ax.set_title(f"{method}: {found.verdict}", loc="left", fontsize=10)
        ax.set_ylabel("mm")
    every[0].set_yscale("symlog", linthresh=1)
    every[0].legend(frameon=False, fontsize=8, loc="upper left")
    every[-1].set_xticks(place, [name[:10] for name in one.groups], rotation=40, ha="right", fontsize=8)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidence", description=__doc__.splitlines()[0])
    parser.add_argument("--sst", type=Path, help="folder with Stanford's test.txt")
    parser.add_argument("--river", type=Path, help="piscataquis.csv")
    parser.add_argument("--sentences", type=int, default=400, help="how many (%(default)s)")
    parser.add_argument("--costs", action="store_true", help="only what it costs")
    parser.add_argument("--picture", type=Path, help="only write the picture of the documentation to this file")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", lrp.RelevanceWarning)
    if arguments.picture:
        draw(arguments.picture)
        return
    if arguments.costs:
        print(*costs(arguments.sst), sep="\n")
        return
    for name in ("sst", "river"):
        if not getattr(arguments, name):
            print(f"(--{name} is not given: its network is left out)\n")
    for title, cases in networks(arguments):
        methods = [name for name in METHODS if name != "lrp-half" or not title.startswith("river")]
        found: dict[str, list[lrp.Evidence]] = {}
        for model, xs in cases:
            for name, some in verdicts(model, xs, methods).items():
                found.setdefault(name, []).extend(some)
        heads = ("passes", "fails", "incon.", "of concl.", "refuted", "missed", "agreem.", "interact.")
        print(f"\n{title}\n\n| {'relevance':<22} | {' | '.join(heads)} |\n| --- |{' ---: |' * len(heads)}")
        for name, some in found.items():
            print(row(name, some))


if __name__ == "__main__":
    main()
