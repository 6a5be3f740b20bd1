"""Beyond the paper: methods with a reference and GRU networks on its tasks, and what fails and why.

python -m benchmarks.paper beyond                # the toy task
python -m benchmarks.paper beyond --sst DIR      # word removal too
python -m benchmarks.paper beyond --train        # trains the 20 + 20 GRU networks again (extra `train`)
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import lrpnumpy as lrp
from benchmarks.paper import removal, sentiment, toy
from benchmarks.paper.measures.toy import STATISTICS, Data, splits, statistics
from benchmarks.paper.measures.word_removal import word_removal
from benchmarks.paper.page import Piece, Table, Text, publish
from benchmarks.paper.sentiment import Setting
from benchmarks.paper.tables import NAMES
from benchmarks.paper.train_toy import train_all
from lrpnumpy.encode import encode_all
from lrpnumpy.evaluate import programs
from lrpnumpy.evaluate.case import Explainer

WANTED = 20  # GRU networks of each task
SEQUENCES = 200
FEW = 10  # networks, and sequences, of methods whose cost is exponential
WITH_REFERENCE = ("deeplift", "integrated-gradients", "shapley")
WEIGHTS = Path(__file__).parents[2] / "weights"
CLOSED = (1, 2, 4, 8, 16)  # pre-activation of a closed gate

Rows = Mapping[str, tuple[str, dict[str, Any]]]  # label -> method and options
Networks = dict[str, list[lrp.Model]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    sentiment.add_arguments(parser, required=False)
    parser.add_argument("--train", action="store_true", help="train the GRU networks again")
    checkpoint = Path(__file__).parent / ".toy-gru-checkpoint.jsonl"
    parser.add_argument("--checkpoint", type=Path, default=checkpoint, help="finished starts of a training")


def run(arguments: argparse.Namespace) -> None:
    if arguments.train:
        starts = train_all(arguments.checkpoint, WANTED, "gru")
        toy.save(starts, WEIGHTS / "toy-gru.h5", WANTED, "beyond --train")
    for _ in publish(pieces(sentiment.setting(arguments)), arguments.out):
        pass


def pieces(given: Setting) -> Iterator[Piece]:
    """The toy table with the new methods, with GRU networks, why some fail; and word removal where there are data."""
    networks = {"LSTM": toy.load(WEIGHTS / "toy.h5"), "GRU": toy.load(WEIGHTS / "toy-gru.h5")}
    yield Text(REFERENCES)
    for cell, models in networks.items():
        yield from toy_tables(cell, models)
    yield from what_a_reference_asks(networks)
    yield from closing_gates()
    if given.test is not None:
        yield from word_removal_tables(given)


# -- the toy task --------------------------------------------------------------------------------------------

REFERENCES = (
    "Three references. Zero: both columns 0 at every step, which no training sequence has. Mean: the mean step of the "
    "training data, which no training sequence has either. Ordinary: at every step the mean of those that do not count "
    "(0 in the first column), what a sequence looks like in which nothing counts."
)


def references(task: str) -> dict[str, Any]:
    steps = np.concatenate(splits(task)["train"].sequences)
    return {"zero": "zero", "mean": steps.mean(axis=0), "ordinary": steps[steps[:, 0] == 0].mean(axis=0)}


def rows_of(task: str, cell: str) -> Rows:
    """The methods of a table: those of the paper where the network is a GRU, which it had none of."""
    known = toy.METHODS if cell == "GRU" else ("gradient-x-input", "lrp-all")
    rows: dict[str, tuple[str, dict[str, Any]]] = {
        NAMES[name]: (name, {"eps": 0.0} if name.startswith("lrp-") else {}) for name in known
    }
    for name in WITH_REFERENCE:
        more = {"players": 14} if name == "shapley" else {}
        for label, reference in references(task).items():
            rows[f"{NAMES[name]}, {label}"] = name, {"reference": reference, **more}
    return rows


def some_of(data: Data, count: int) -> Data:
    return Data(*(getattr(data, field.name)[:count] for field in fields(Data)))


def explained(model: lrp.Model, sequences: Sequence[np.ndarray], method: str, options: dict[str, Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lrp.RelevanceWarning)
        return lrp.explain_all(model, sequences, method, 0, unit="step", **options)


def toy_tables(cell: str, networks: Networks) -> Iterator[Piece]:
    for task, models in networks.items():
        rows = []
        test = splits(task)["test"]
        for label, (method, options) in tqdm(rows_of(task, cell).items(), f"{cell}, {task}", leave=False):
            few = method == "shapley"
            data, found = some_of(test, 2 * FEW if few else SEQUENCES), []
            for model in models[:FEW] if few else models:
                e = explained(model, data.sequences, method, options)
                found.append(statistics(data, e.relevance, e.scores))
            columns = [[100 * one[name] if name != "mse" else one[name] for one in found] for name in STATISTICS]
            cells = [
                toy._cell(n, "subtraction", np.mean(c), np.std(c)) for n, c in zip(STATISTICS, columns, strict=True)
            ]
            rows.append([label, *cells])
        yield Table(
            f"beyond_{cell.lower()}_{task}",
            f"{task.capitalize()} by {len(models)} {cell} networks: mean (standard deviation)",
            ["", *(toy.HEADS[name] for name in STATISTICS)],
            rows,
            f"{SEQUENCES} test sequences; for Shapley values, which are exact (every step is a player), {2 * FEW} "
            f"and {FEW} networks. A faithful relevance is n_a at a, and n_b or in the subtraction -n_b at b.",
        )


def what_a_reference_asks(networks: Mapping[str, Networks]) -> Iterator[Piece]:
    """Why relevance against zero finds the wrong steps, and against an ordinary step the wrong values."""
    rows, values = [], {}
    test = some_of(splits("subtraction")["test"], 2 * FEW)
    for cell, models in networks.items():
        for label, reference in references("subtraction").items():
            nothing, a_alone, b_alone, both = left_alone(test, np.zeros(2) if label == "zero" else reference)
            found = []
            for model in models["subtraction"]:
                f_0, f_a, f_b, f_ab = (lrp.predict_all(model, some)[:, 0] for some in (nothing, a_alone, b_alone, both))
                slope = np.polyfit([*test.n_a, *test.n_b], [*f_a, *f_b], 1)[0]
                found.append([abs(f_0).mean(), abs(f_ab - test.y).mean(), slope])
            exact = []
            for model in models["subtraction"][:FEW]:
                e = explained(model, test.sequences, "shapley", {"reference": reference, "players": 14})
                R_a, R_b = e.relevance[e.starts[:-1] + test.a], e.relevance[e.starts[:-1] + test.b]
                exact.append([np.corrcoef(R_b, test.y)[0, 1], abs(R_a).mean() / abs(R_b).mean()])
            middle = [*np.median(found, axis=0), *np.median(exact, axis=0)]
            values[cell, label] = middle
            rows.append([f"{cell}, {label}", *(f"{value:.2f}" for value in middle)])
    header = ["reference", "|f(nothing)|", "|f(a, b) - y|", "slope of f(n)", "ρ(R_b, n_a - n_b)", "|R_a| / |R_b|"]
    title = "Subtraction: scores of the networks if numbers are replaced by the reference; medians"
    note = (
        "f(nothing): the reference at every step. f(a, b): only the two numbers that count are left, the answer should "
        "be y = n_a - n_b. f(n): only one number is left, either of the two. The last two columns are of exact Shapley "
        "values."
    )
    yield Table("beyond_reference", title, header, rows, note)
    zero, ordinary = values["LSTM", "zero"], values["LSTM", "ordinary"]
    yield Text(
        "Two failures. First, a reference off the training data. With zeros in the place of the other numbers the "
        f"LSTM networks are wrong even where both numbers that count are left (off by {zero[1]:.2f}; with ordinary "
        f"steps by {ordinary[1]:.2f}), and say {zero[0]:.2f} where nothing counts: they have never "
        "seen such steps. So relevance goes to steps that do not count: they show the network what it "
        "knows. Second, a question that is not the one we ask. Against an ordinary step the networks are right "
        f"(|f(nothing)| is {ordinary[0]:.2f}), and relevance is at the right steps. But a number alone is "
        f"no longer the first of two: the score follows it with a slope of {ordinary[2]:.2f}. To take a away does not "
        "take n_a away, it makes b the only number. The exact answer to what each number adds, the Shapley value, "
        f"is therefore about n_a - n_b at b (correlation {ordinary[3]:.2f}), and at a {ordinary[4]:.2f} of that. "
        "DeepLIFT and integrated gradients estimate these values. They are right about the network and the "
        "reference; LRP and gradient times input say what the numbers did in this sequence."
    )


def left_alone(data: Data, instead: np.ndarray) -> list[list[np.ndarray]]:
    """The sequences with `instead` at every step but: none, a, b, both."""
    out = []
    for which in ((), ("a",), ("b",), ("a", "b")):
        sequences = []
        for k, x in enumerate(data.sequences):
            kept = np.isin(np.arange(len(x)), [getattr(data, name)[k] for name in which])
            sequences.append(np.where(kept[:, None], x, instead))
        out.append(sequences)
    return out


def closing_gates() -> Iterator[Piece]:
    """Networks constructed to remember the number beside a mark: what methods give as their gates close."""
    methods = ("gradient-x-input", "lrp-all", "deeplift", "integrated-gradients")
    rows = []
    for cell in programs.CELLS:
        for closed in CLOSED:
            network = programs.make("remember", cell, "small", seed=7, sharp=closed)
            model, sequences, right = network.model, *network.draw(100, seed=7)[::2]
            error = np.mean(abs(lrp.predict_all(model, sequences)[:, 0] - [one.sum() for one in right]))
            cells = []
            for name in methods:
                one = Explainer(name, name)
                steps = np.concatenate(one(model, sequences, {"target": 0}, False).steps)
                by_feature = lrp.explain_all(model, sequences, name, 0, unit="feature").feature_relevance
                at = np.concatenate(right) != 0
                mark = abs(by_feature[at][:, network.program.columns.index("a")]).sum() / abs(by_feature[at]).sum()
                cells.append(f"{100 * programs.share(steps, at):.0f} / {100 * mark:.0f}")
            rows.append([f"{cell}, {closed}", f"{error:.2f}", *cells])
    yield Table(
        "beyond_gates",
        "Gates that close: relevance at the marked step in %, and how much of that the mark itself has in %",
        ["closed gate at", "|f - number|", *(NAMES[name] for name in methods)],
        rows,
        "Constructed networks return the number beside a mark; the mark opens the gate. With gates "
        "half open the other numbers count too, and all methods say so. Once they are shut all find the step. The "
        "mark: LRP-all gives it nothing, as gates take no relevance; methods with a reference give it half, as without "
        "it there would be no number; a gradient sees it only while the gate can still be moved.",
    )


# -- word removal --------------------------------------------------------------------------------------------


def word_removal_tables(given: Setting) -> Iterator[Piece]:
    """The removal table with the new methods, and LRP-all against them where the network saturates."""
    model, data = given.model, given.sentences
    known = {name: (name, {}) for name in ("gradient-x-input", "lrp-all", "occlusion-p")}
    words = np.concatenate([one[model.main].ids for one in encode_all(model, data.words)])
    references = {"zero": "zero", "mean": model.embedding.E[words].mean(axis=0), "unknown": "unknown"}
    with_references: dict[str, tuple[str, dict[str, Any]]] = {
        f"{NAMES[name]}, {label}": (name, {"reference": reference})
        for name in WITH_REFERENCE[:2]
        for label, reference in references.items()
    }
    relevance = {
        label: sentiment.explained(model, data, method, unit="step", **options)
        for label, (method, options) in tqdm({**known, **with_references}.items(), "removal", leave=False)
    }
    rows = []
    found = word_removal(model, data.words, data.labels, relevance)
    for label in relevance:
        cells = []
        for order in removal.ORDERS:
            difference, low, high = found.difference(order, label, "lrp-all")
            mean = removal.means(found, order)[label]
            cells += [f"{mean:.0f}", "-" if label == "lrp-all" else f"{difference:+.0f} ({low:+.0f} to {high:+.0f})"]
        rows.append([NAMES.get(label, label), *cells])
    header = ["", "decreasing", "less LRP-all", "increasing", "less LRP-all"]
    title = "Word removal with the new methods: change of accuracy in %, words deleted, mean of 1, 2, 3"
    note = "Random removal is 0, Occlusion P-diff 100. In brackets the 95 % interval of a bootstrap over sentences."
    yield Table("beyond_removal", title, header, rows, note)
    yield from saturated(model, data)


def saturated(model: lrp.Model, data: Any) -> Iterator[Piece]:
    """The same network with longer word vectors, which close its gates."""
    methods = ("gradient-x-input", "lrp-all", "deeplift", "integrated-gradients", "occlusion-p")
    rows, changes = [], {}
    for scale in tqdm((1, *removal.LONGER), "longer word vectors", leave=False):
        longer = removal.with_longer_vectors(model, scale) if scale > 1 else model
        relevance = {name: sentiment.explained(longer, data, name, unit="step") for name in methods}
        found = word_removal(longer, data.words, data.labels, relevance)
        changes[scale] = removal.means(found, "decreasing")
        share = removal.saturated(longer, data.words[:100])
        difference, low, high = found.difference("decreasing", "lrp-all", "deeplift")
        cells = [f"{changes[scale][name]:.0f}" for name in methods[:-1]]
        rows.append([f"× {scale}", f"{share:.1f} %", *cells, f"{difference:+.0f} ({low:+.0f} to {high:+.0f})"])
    yield Table(
        "beyond_saturation",
        "LRP-all against DeepLIFT where the network saturates: decreasing order",
        ["word vectors", "saturated", *(NAMES[name] for name in methods[:-1]), "LRP-all less DeepLIFT"],
        rows,
        "As in the table of word removal: saturated are gates and candidates within 0.05 of the end of their range.",
    )
    last = changes[removal.LONGER[-1]]
    holds = [NAMES[name] for name in methods[:-1] if last[name] > 0.8 * changes[1][name]]
    falls = [NAMES[name] for name in methods[:-1] if last[name] <= 0.8 * changes[1][name]]
    yield Text(
        f"With word vectors {removal.LONGER[-1]} times as long, of what they had {', '.join(holds) or 'no method'} "
        f"keeps four fifths or more, {', '.join(falls) or 'none'} less."
    )
