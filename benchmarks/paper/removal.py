"""Word removal: does a prediction change when the words that matter are gone (tab:sentiment_word_removal).

    python -m benchmarks.paper removal --sst DIR
    python -m benchmarks.paper removal --sst DIR --how zero     # zero the word's vector, do not delete it

Also the sweep of eps for LRP-prop, and experiments on what decides how good Gradient×Input is.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tqdm import tqdm

import lrpnumpy as lrp
from benchmarks.paper import sentiment
from benchmarks.paper.measures.treebank import Sentences
from benchmarks.paper.measures.word_removal import HOW, ORDERS, Removal, word_removal
from benchmarks.paper.page import Figure, Piece, Table, Text, canvas, publish
from benchmarks.paper.sentiment import Setting, explained
from benchmarks.paper.tables import NAMES, PUBLISHED

LRP = ("lrp-prop", "lrp-abs", "lrp-half", "lrp-all")
METHODS = ("gradient", "gradient-x-input", *LRP, "cd", "occlusion-f", "occlusion-p")
SWEEP = (0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 1.0)  # eps of LRP-prop
LONGER = (2, 3, 5)  # times the length of the word vectors
TOO_LARGE = 1e6  # times the score
PAPER = PUBLISHED["removal"]

Relevance = Mapping[str, Any]  # method -> explanations


def add_arguments(parser: argparse.ArgumentParser) -> None:
    sentiment.add_arguments(parser)
    parser.add_argument("--how", choices=HOW, default="delete", help="how a word is removed (delete)")


def run(arguments: argparse.Namespace) -> None:
    for _ in publish(pieces(sentiment.setting(arguments), arguments.how), arguments.out):
        pass


def pieces(given: Setting, how: str = "delete") -> Iterator[Piece]:
    """The table, the raw accuracies, the pattern, the other way to remove, the sweep and the experiments."""
    model, data = given.model, given.sentences
    methods = tqdm(METHODS, "methods", leave=False)
    relevance = {method: explained(model, data, method, unit="step") for method in methods}
    found = removed(model, data, relevance, how)
    suffix = "" if how == "delete" else f"_{how}"
    yield change_table(found, how)
    yield accuracy_table(found, f"removal_accuracy{suffix}")
    yield curves(found, f"removal{suffix}")
    yield pattern(found)
    yield from why(model, data, relevance, found, how)
    if how == "delete":
        zeroed = removed(model, data, relevance, "zero")
        yield change_table(zeroed, "zero")
        yield Text(
            "The paper reports only that the results were similar. These results are further from 100 in "
            f"decreasing order (LRP-all {means(zeroed, 'decreasing')['lrp-all']:.0f}): with one word set to "
            "zero, Occlusion P-diff measures the very thing that the experiment does, so that the unit is "
            "larger."
        )
    yield sweep(model, data, relevance["occlusion-p"], how)


def removed(model: lrp.Model, data: Sentences, relevance: Relevance, how: str) -> Removal:
    return word_removal(model, data.words, data.labels, relevance, how=how)


def means(found: Removal, order: str) -> dict[str, float]:
    """Mean change of accuracy for each relevance."""
    return dict(zip(found.names, found.change(order).mean(axis=1).tolist(), strict=True))


# -- the table -----------------------------------------------------------------------------------------------


def change_table(found: Removal, how: str) -> Table:
    """Change of accuracy beside the paper's."""
    rows = []
    for order in ORDERS:
        change = found.change(order)
        pairs = zip(change.mean(axis=1), change.std(axis=1), strict=True)
        rows.append([f"{order}: ours", *(f"{mean:.0f} ({std:.0f})" for mean, std in pairs)])
        below = PAPER["std_below"][order]
        rows.append([f"paper, {order} (std < {below})", *(str(PAPER[order][name]) for name in found.names)])
    done = {"delete": "the word is deleted", "zero": "the word's vector is set to zero"}[how]
    right, wrong = (found.correct[order].shape[2] for order in ORDERS)
    return Table(
        "removal" if how == "delete" else f"removal_{how}",
        f"Change of accuracy in % when 1, 2, 3 words are removed ({done}): mean (std) of the three",
        ["order", *(NAMES.get(name, name) for name in found.names)],
        rows,
        f"Random removal, the mean of 10 runs, is 0 and {NAMES[found.reference]} is 100. Decreasing order: "
        f"{right} sentences that are classified rightly; increasing order: {wrong} that are not. The "
        "relevance is that of the true class.",
    )


def accuracy_table(found: Removal, name: str) -> Table:
    """What the change is computed from."""
    rows = [
        [f"{order}, {count} removed", *(f"{value:.1f}" for value in column)]
        for order in ORDERS
        for count, column in zip(found.counts, found.accuracy(order).T, strict=True)
    ]
    header = ["accuracy in %", *(NAMES.get(name, name) for name in found.names)]
    note = "The paper's text has no raw accuracies."
    return Table(name, "The same before scaling: accuracy after removal", header, rows, note)


def curves(found: Removal, name: str) -> Figure:
    """Accuracy against the number of words removed."""
    drawn = canvas(11, 3.8)
    steps = (0, *found.counts)
    for axis, order, start in zip(drawn.subplots(1, 2), ORDERS, (100, 0), strict=True):
        for k, (method, accuracy) in enumerate(zip(found.names, found.accuracy(order), strict=True)):
            style = {"color": "black", "linestyle": ":"} if method == "random" else {"color": f"C{k}"}
            label = NAMES.get(method, method)
            axis.plot(steps, (start, *accuracy), marker="o", ms=3, lw=1.4, label=label, **style)
        axis.set(title=f"{order} order of relevance", xlabel="words removed", ylabel="accuracy in %")
        axis.set_xticks(steps)
        axis.grid(alpha=0.3)
    drawn.legend(*axis.get_legend_handles_labels(), fontsize=8, loc="outside right center")
    return Figure.of(name, "Accuracy after word removal (the paper has no such picture)", drawn)


def pattern(found: Removal) -> Table:
    """What should hold, and whether it does."""
    down, up = (means(found, order) for order in ORDERS)
    good, poor = ("lrp-all", "cd", "occlusion-f"), ("lrp-prop", "lrp-abs", "lrp-half")
    second = max(value for name, value in up.items() if name != "occlusion-p")
    ahead = up["lrp-all"] - up["gradient-x-input"]
    gi = down["gradient-x-input"]
    claims = [
        *((f"decreasing: {NAMES[m]} within 15 of 100", down[m], abs(down[m] - 100) <= 15) for m in good),
        *((f"decreasing: {NAMES[m]} above Gradient×Input", down[m] - gi, down[m] > gi) for m in good),
        ("decreasing: Gradient×Input above Gradient", gi - down["gradient"], gi > down["gradient"]),
        *((f"decreasing: {NAMES[m]} within 20 of 0", down[m], abs(down[m]) <= 20) for m in poor),
        ("increasing: Occlusion P-diff ahead of all", 100 - second, second < 100),
        ("increasing: LRP-all ahead of Gradient×Input", ahead, ahead > 0),
        ("increasing: Gradient below 0", up["gradient"], up["gradient"] < 0),
    ]
    rows = [[claim, f"{value:+.1f}", "yes" if holds else "NO"] for claim, value, holds in claims]
    kept = sum(holds for _, _, holds in claims)
    note = f"{kept} of {len(claims)} hold." + (" Why not all, below." if kept < len(claims) else "")
    header = ["what should hold", "points", "holds"]
    return Table("removal_pattern", "The paper's pattern in our figures", header, rows, note)


# -- where ours differs, and why -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Saturation:
    """What a network does whose word vectors are `scale` times as long."""

    scale: float
    saturated: float  # %
    accuracy: float  # %
    agree: float  # correlation of Gradient×Input with Occlusion f-diff
    change: dict[str, float]  # decreasing order


def why(model: lrp.Model, data: Sentences, relevance: Relevance, found: Removal, how: str) -> Iterator[Piece]:
    """Gradient×Input is better here than in the paper, CD no better than it: is it chance, or why?"""
    rows = []
    for one in ("lrp-all", "cd", "occlusion-f"):
        difference, low, high = found.difference("decreasing", one, "gradient-x-input")
        verdict = "cannot be told apart" if low <= 0 <= high else "differ"
        rows.append([f"{NAMES[one]} − Gradient×Input", f"{difference:+.1f}", f"{low:+.1f} to {high:+.1f}", verdict])
    title = "Decreasing order: is the difference to Gradient×Input more than chance?"
    header = ["", "points", "95 % interval", "the two"]
    yield Table("removal_bootstrap", title, header, rows, "Bootstrap over sentences, 2000 draws.")

    measured = [saturation(model, data, relevance, found, 1)]
    for scale in tqdm(LONGER, "longer word vectors", leave=False):
        longer = with_longer_vectors(model, scale)
        again = {method: explained(longer, data, method, unit="step") for method in METHODS if method not in LRP[:3]}
        measured.append(saturation(longer, data, again, removed(longer, data, again, how), scale))
    methods = list(measured[-1].change)
    rows = []
    for m in measured:
        facts = f"{m.saturated:.1f} %", f"{m.accuracy:.1f} %", f"{m.agree:.2f}"
        rows.append([f"× {m.scale:g}", *facts, *(f"{m.change[name]:.0f}" for name in methods)])
    rows.append(["paper", *["not given"] * 3, *(str(PAPER["decreasing"][name]) for name in methods)])
    yield Table(
        "removal_saturation",
        "The same network with longer word vectors: decreasing order",
        ["word vectors", "saturated", "accuracy", "r", *(NAMES[name] for name in methods)],
        rows,
        "Saturated: gates and candidates within 0.05 of the end of their range, in the first 100 sentences. "
        "r: correlation of Gradient×Input with Occlusion f-diff over all words.",
    )
    yield Text(verdict(found, measured))


def with_longer_vectors(model: lrp.Model, scale: float) -> lrp.Model:
    """The same network with all word vectors `scale` times as long, so that it saturates."""
    assert model.embedding is not None
    E = model.embedding.E * model.dtype.type(scale)
    return replace(model, embedding=replace(model.embedding, E=E))


def saturation(model: lrp.Model, data: Sentences, relevance: Relevance, found: Removal, scale: float) -> Saturation:
    agree = np.corrcoef(relevance["gradient-x-input"].relevance, relevance["occlusion-f"].relevance)[0, 1]
    change = {name: value for name, value in means(found, "decreasing").items() if name not in ("random", *LRP[:3])}
    right = 100 * found.correct["decreasing"].shape[2] / len(data.words)
    return Saturation(scale, saturated(model, data.words[:100]), right, float(agree), change)


def saturated(model: lrp.Model, sentences: list[list[str]]) -> float:
    """Share of gates and candidates within 0.05 of the end of their range, in %."""
    hits = total = 0
    for words in sentences:
        for name, values in lrp.trace(model, words).items():
            gate = name.rpartition("/")[2]
            if gate in ("i", "f", "g", "o"):
                if gate == "g":  # it lies from -1 to 1
                    values = (values + 1) / 2
                hits += int(np.sum(abs(values - 0.5) > 0.45))
                total += values.size
    return 100 * hits / total


def verdict(found: Removal, measured: list[Saturation]) -> str:
    """What the two experiments say, from their figures."""
    down = means(found, "decreasing")
    gi, cd = down["gradient-x-input"], down["cd"]
    difference, low, high = found.difference("decreasing", "cd", "gradient-x-input")
    if difference > 0:
        return f"CD ({cd:.1f}) is above Gradient×Input ({gi:.1f}), as in the paper."
    chance = "cannot tell that from chance" if low <= 0 <= high else "shows that this is more than chance"
    first, last = measured[0], measured[-1]
    paper = PAPER["decreasing"]
    text = (
        f"Where ours differs: CD ({cd:.1f}, paper {paper['cd']}) is not above Gradient×Input ({gi:.1f}, "
        f"paper {paper['gradient-x-input']}); the bootstrap {chance}. Gradient×Input is a first-order "
        "estimate of what occlusion measures, so it is good where the network is nearly linear, and ours "
        f"is: {first.saturated:.1f} % of its gates are saturated, and the two correlate at "
        f"{first.agree:.2f}. "
    )
    falls = last.change["gradient-x-input"] < first.change["gradient-x-input"]
    if not (falls and last.change["cd"] > last.change["gradient-x-input"]):
        return text + (
            "But longer word vectors, which saturate it, do not bring the paper's order back: the reason "
            "must be another one."
        )

    def goes(name: str) -> str:
        return f"{first.change[name]:.0f} to {last.change[name]:.0f}"

    return text + (
        f"The experiment supports this: with word vectors {last.scale:g} times as long the same network "
        f"saturates ({last.saturated:.1f} %, correlation {last.agree:.2f}; it also loses accuracy), "
        f"Gradient×Input goes from {goes('gradient-x-input')} and Gradient from {goes('gradient')} (paper: "
        f"{paper['gradient-x-input']} and {paper['gradient']}), while CD goes only from {goes('cd')} and "
        f"LRP-all from {goes('lrp-all')}: CD is above Gradient×Input again, as in the paper."
    )


# -- eps of LRP-prop -----------------------------------------------------------------------------------------


def sweep(model: lrp.Model, data: Sentences, reference: Any, how: str) -> Table:
    """LRP-prop with the paper's values of eps: when is it numerically stable?"""
    exact_model = model.astype("float64")
    found, facts = {}, []
    for eps in tqdm(SWEEP, "eps of LRP-prop", leave=False):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # overflow is what is looked for
            e = found[f"{eps:g}"] = explained(model, data, "lrp-prop", eps, unit="step")
            exact = explained(exact_model, data, "lrp-prop", eps, unit="step")
            largest = e.ledger["largest"] / abs(e.scores[np.arange(len(e)), e.targets])
        same = np.mean([a.relevance.argmax() == b.relevance.argmax() for a, b in zip(e, exact, strict=True)])
        facts.append((100 * np.mean(~(largest <= TOO_LARGE)), np.median(largest), 100 * same))
    changed = removed(model, data, found | {"occlusion-p": reference}, how)
    down, up = (means(changed, order) for order in ORDERS)
    rows = [
        [name, f"{huge:.1f} %", f"{typical:.1e}", f"{same:.1f} %", f"{down[name]:.0f}", f"{up[name]:.0f}"]
        for name, (huge, typical, same) in zip(found, facts, strict=True)
    ]
    return Table(
        "removal_eps",
        "LRP-prop with the values of eps that the paper tried",
        ["eps", "largest beyond 1e6", "median largest", "same top word in float64", *ORDERS],
        rows,
        "The shares of LRP-prop, z_g / (z_g + z_s), have no bound where gate and signal nearly cancel, so "
        "relevance grows from step to step inside the network. “Largest” is that of any neuron on the way, "
        "in units of the explained score; beyond 1e6 float32 has no digits left. “Same top word”: of "
        "float32 and float64; where they differ, relevance is an accident of rounding. The paper took 0.2, "
        "the lowest that was numerically stable, and gives no figures for the others.",
    )
