"""docs/truth.md and docs/truth-results.md, from the tables of a run: `python -m benchmarks.truth page --out results`.

truth.md is the text in `page.md` of this folder with tables and sentences in place of $names. Every number and every
comparison of the sentences is read from a table, so that they follow the last run. truth-results.md has all tables.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import NamedTuple

import numpy as np

from benchmarks.truth.table import Cell
from lrpnumpy.methods import METHODS

Cells = dict[tuple[str, str], Cell]  # (method, column)
KINDS, TEXT_NETWORKS = ("single-token", "ordered-pair", "token-in-context"), ("bi-lstm", "gru")
SHORTCUTS = [f"shortcuts-{kind}-{network}" for kind in KINDS for network in TEXT_NETWORKS]
PAIRS = [name for name in SHORTCUTS if "single" not in name]
NAMES = (*METHODS, "random")  # the rows of the summary
HEADER = """# Benchmarks with a known truth: all tables

Written by `python -m benchmarks.truth page`; [truth.md](truth.md) explains the benchmarks and the columns. Cells are
means over networks with 95 % intervals. Rows that begin with "published" are numbers from other papers. In tables of
networks, each * is a network that is left out.
"""


class Source(NamedTuple):
    """A column of the summary: a column of one table, or of several together; larger is better."""

    title: str
    tables: Sequence[str]
    column: str


STATE_GRU, STATE_LSTM = (Source(f"State, {c}: AUROC", [f"state-{c.lower()}"], "AUROC") for c in ("GRU", "LSTM"))
BOXES_5, BOXES_32 = (Source(f"Boxes, {n} units: AUPR", [f"boxes-{n}-units"], "AUPR") for n in (5, 32))
TEXT = Source("Shortcuts: top k", SHORTCUTS, "top k")
STEPS = Source("Programs: steps", ["programs-steps"], "all")
VALUES = Source("Programs: values", ["programs-values"], "all")
SUMMARY = (STATE_GRU, STATE_LSTM, BOXES_5, BOXES_32, TEXT, STEPS, VALUES)
COSTS = {"State": "state-gru-cost", "Boxes": "boxes-32-units-cost", "Shortcuts": "shortcuts-gru-cost"}
NO_METHOD = 0.9  # below this, no method is right
UNEXPLAINED = 0.03  # a larger difference from a published number needs an explanation


class Run:
    """The tables of a folder."""

    def __init__(self, folder: Path) -> None:
        self.tables = {path.stem: read(path) for path in sorted(folder.glob("*.csv"))}

    def cell(self, table: str, method: str, column: str) -> Cell | None:
        """A cell of one table, None where there is none with values."""
        cell = self.tables.get(table, {}).get((method, column))
        if cell is None or not len(cell.values):
            return None
        return cell

    def cells(self, source: Source, names: Sequence[str] = NAMES) -> dict[str, Cell]:
        """The cells of methods that are in all tables of a source, with the values of all networks."""
        found: dict[str, Cell] = {}
        tables = [name for name in source.tables if name in self.tables]
        for method in names:
            some = [self.cell(table, method, source.column) for table in tables]
            values = [cell.values for cell in some if cell is not None]
            if values and len(values) == len(some):
                found[method] = Cell(np.concatenate(values))
        return found

    @property
    def sources(self) -> list[Source]:
        """The columns of the summary that the run has."""
        return [source for source in SUMMARY if self.cells(source)]


def read(path: Path) -> Cells:
    """The cells of a table that `Table.write` wrote."""
    with path.open(newline="", encoding="utf-8") as file:
        return {
            (row["method"], row["column"]): Cell(np.array(row["values"].split(), float), row["note"])
            for row in csv.DictReader(file)
        }


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(header) + " |", "| --- |" + " ---: |" * (len(header) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def ranked(cells: dict[str, Cell]) -> dict[str, float]:
    """1 for the largest mean; ties share their mean rank."""
    means = np.array([cell.mean for cell in cells.values()])
    return {
        name: float((means > cell.mean).sum() + ((means == cell.mean).sum() + 1) / 2) for name, cell in cells.items()
    }


def mean_ranks(run: Run) -> dict[str, float]:
    """The mean rank of each method over the columns that it has, the best method first."""
    ranks = [ranked(run.cells(source)) for source in run.sources]
    means = {
        name: np.mean([one[name] for one in ranks if name in one]) for name in NAMES if any(name in r for r in ranks)
    }
    return {name: float(means[name]) for name in sorted(means, key=lambda name: means[name])}


def short(run: Run) -> str:
    """The two methods with the best mean rank, and how many methods are best in a column."""
    (first, first_rank), (second, second_rank) = list(mean_ranks(run).items())[:2]
    best = set()
    for source in run.sources:
        ranks = ranked(run.cells(source))
        best.add(min(ranks, key=lambda name: ranks[name]))
    return (
        f"In short: `{first}` has the best mean rank ({first_rank:.1f}), followed by `{second}` ({second_rank:.1f}), "
        f"but {len(best)} different methods are best in one or more of the {len(run.sources)} columns below."
    )


def summary(run: Run) -> str:
    """Methods by benchmarks: the mean with its interval, and the rank."""
    columns = {source.title: run.cells(source) for source in run.sources}
    ranks = {title: ranked(cells) for title, cells in columns.items()}
    rows = []
    for name, mean_rank in mean_ranks(run).items():
        row = [f"`{name}`", f"{mean_rank:.1f}"]
        for title, cells in columns.items():
            shown = "-"
            if name in cells:
                shown = f"{cells[name]} ({ranks[title][name]:g})"
            row.append(shown)
        rows.append(row)
    return table(["method", "mean rank", *columns], rows)


def costs(run: Run) -> str:
    """Milliseconds of CPU per explanation."""
    names = {title: name for title, name in COSTS.items() if name in run.tables}
    rows = []
    for method in NAMES[:-1]:
        cells = [run.cell(name, method, "ms") for name in names.values()]
        if any(cells):
            rows.append([f"`{method}`", *("-" if cell is None else f"{cell.mean:.2f}" for cell in cells)])
    return table(["method", *names], rows)


def peers(run: Run) -> str:
    """The rows of captum and shap, in the columns of the summary."""
    names = dict.fromkeys(
        method for cells in run.tables.values() for method, _ in cells if method.startswith(("captum", "shap "))
    )
    sources = [source for source in SUMMARY if run.cells(source, tuple(names))]
    if not sources:
        return "No peers have been run yet."
    rows = []
    for name in names:
        found = [run.cells(source, (name,)).get(name) for source in sources]
        rows.append([name, *("-" if cell is None else str(cell) for cell in found)])
    return table(["peer", *(source.title for source in sources)], rows)


def extremes(run: Run) -> str:
    """Where each method has its best and its worst rank."""
    ranks = {source.title: ranked(run.cells(source)) for source in run.sources}
    rows = []
    for name in mean_ranks(run):
        own = {title: one[name] for title, one in ranks.items() if name in one}
        best, worst = min(own, key=lambda title: own[title]), max(own, key=lambda title: own[title])
        rows.append([f"`{name}`", _place(ranks, best, name), _place(ranks, worst, name)])
    return table(["method", "best", "worst"], rows)


def _place(ranks: dict[str, dict[str, float]], title: str, name: str) -> str:
    return f"{ranks[title][name]:g} of {len(ranks[title])} ({title})"


def nowhere(run: Run) -> str:
    """The single tasks in which the best method stays below NO_METHOD."""
    rows = []
    tables = ["state-gru", "state-lstm", *SHORTCUTS, "programs-steps", "programs-values"]
    columns = {name: ["AUROC"] if name.startswith("state") else ["top k"] for name in tables}
    for name in ("programs-steps", "programs-values", *(f"boxes-{n}-units-aupr-by-shape" for n in (5, 32))):
        columns[name] = list(dict.fromkeys(column for _, column in run.tables.get(name, {}) if column != "all"))
    for name, every in columns.items():
        for column in every:
            found = run.cells(Source("", [name], column), NAMES[:-1])
            if found:
                best = max(found, key=lambda method: found[method].mean)
                if found[best].mean < NO_METHOD:
                    rows.append([f"{name}: {column}", f"`{best}`", str(found[best])])
    if not rows:
        return f"In every single task of this run some method reaches {NO_METHOD}."
    return table(["table: column", "best method", "its value"], rows)


def differences(run: Run) -> str:
    """Our means minus the published ones."""
    rows = []
    pairs = {
        "integrated gradients": "integrated-gradients",
        "occlusion": "occlusion-f",
        "occlusion, ours by the mean": "occlusion-f, mean",
    }
    for title, ours in pairs.items():
        row = [title]
        for column in ("AUP", "AUR", "AUROC", "AUPRC"):
            mine = run.cell("state-gru", ours, column)
            theirs = run.cell("state-gru", f"published: {title.split(',')[0]}", column)
            row.append("-" if mine is None or theirs is None else f"{mine.mean - theirs.mean:+.3f}")
        rows.append(row)
    return table(["row", "AUP", "AUR", "AUROC", "AUPRC"], rows)


def reproduced(run: Run) -> str:
    """How much of each difference from a published number remains with the settings of time_interpret."""
    rows, unexplained = [], []
    pairs = {
        "occlusion": ("occlusion by zero", "occlusion by the mean"),
        "integrated gradients": ("integrated gradients", "integrated gradients"),
    }
    for name, (ours, as_theirs) in pairs.items():
        for area in ("AUP", "AUR", "AUROC", "AUPRC"):
            own = run.cell("state-published-rows", f"{ours}, our training", area)
            same = run.cell("state-published-rows", f"{as_theirs}, their training", f"{area} by sequence")
            published = run.cell("state-published-rows", f"published: {name}", f"{area} by sequence")
            if own is None or same is None or published is None:
                continue
            left = same.mean - published.mean
            rows.append([f"{name}, {area}", f"{own.mean - published.mean:+.3f}", f"{left:+.3f}", f"{same.half:.3f}"])
            if abs(left) > UNEXPLAINED:
                unexplained.append(f"{name}, {area} ({left:+.3f})")
    header = ["row", "our settings minus published", "settings of time_interpret minus published", "± over networks"]
    return f"{table(header, rows)}\n\nDifferences above {UNEXPLAINED} that remain: {'; '.join(unexplained) or 'none'}."


def whole_table(run: Run, name: str) -> str:
    """One table of the run as it is."""
    cells = run.tables.get(name, {})
    columns = list(dict.fromkeys(column for _, column in cells))
    methods = dict.fromkeys(method for method, _ in cells)
    rows = [[m, *(str(cells[m, c]) if (m, c) in cells else "-" for c in columns)] for m in methods]
    return table(["method", *columns], rows)


def cpu(run: Run) -> str:
    """CPU time by benchmark and side, and the sums."""
    rows, sums = [], {}
    for name in ("state", "boxes", "shortcuts", "programs", "published"):
        for side in ("train", "ours", "peers"):
            cells = run.tables.get(f"{name}-cpu-time", {})
            finished = cells.get((side, "finished"))
            if finished is None:
                continue
            row = [f"{name}, {side}", finished.note]
            for column in ("s per job", "minutes of all jobs"):
                cell = run.cell(f"{name}-cpu-time", side, column)
                row.append("-" if cell is None else f"{cell.mean:.1f}")
            total = run.cell(f"{name}-cpu-time", side, "minutes of all jobs")
            if total is not None:
                sums[side] = sums.get(side, 0.0) + total.mean
            rows.append(row)
    for side, minutes in sums.items():
        rows.append([f"all, {side}", "", "", f"{minutes:.1f}"])
    return table(["jobs", "finished", "s of CPU per job", "minutes of CPU, all jobs"], rows)


# ------------------------------------------------------------------------------------------------- sentences


def sentences(run: Run) -> str:
    """Numbered sentences on which method to use for which question; those whose tables are missing are left out."""
    every = [
        _question(run, "Which feature decides at this step of a series?", (STATE_GRU, STATE_LSTM)),
        _question(run, "Which block of a series carries the class?", (BOXES_5, BOXES_32)),
        _question(run, "Which words does a text network follow?", (TEXT,)),
        _pairs(run),
        _question(run, "Which steps does the program of a network use, and what do they add?", (STEPS, VALUES)),
        _default(run),
        _rules(run),
        _time_and_feature(run),
        _rescaling(run),
        _reference(run),
    ]
    return "\n".join(f"{k}. {text}" for k, text in enumerate(filter(None, every), start=1))


def _question(run: Run, question: str, sources: Sequence[Source]) -> str:
    """The best method of each column, and how many methods have an interval that reaches its mean."""
    parts = []
    for source in sources:
        found = run.cells(source)
        if not found:
            continue
        best = max(found, key=lambda method: found[method].mean)
        second = sorted((name for name in found if name != best), key=lambda name: -found[name].mean)[0]
        parts.append(
            f"`{best}` is best in *{source.title}* with {found[best]}, followed by `{second}` with {found[second]}"
        )
    if not parts:
        return ""
    return f"**{question}** " + "; ".join(parts) + "."


def _pairs(run: Run) -> str:
    names = ("lrp-all", "deeplift", "integrated-gradients", "cd", "occlusion-f")
    single = run.cells(Source("", [name for name in SHORTCUTS if "single" in name], "top k"), names)
    double = run.cells(Source("", PAIRS, "top k"), names)
    parts = [f"`{n}` {single[n].mean:.3f} and {double[n].mean:.3f}" for n in names if n in single and n in double]
    if not parts:
        return ""
    return (
        "**Does it matter whether one word decides or two together?** Top k with one planted token and with two: "
        f"{', '.join(parts)}."
    )


def _default(run: Run) -> str:
    sentences = []
    for name, inputs, sources in (
        ("deeplift", "numbers", [source for source in run.sources if source is not TEXT]),
        ("lrp-all", "text", [source for source in run.sources if source is TEXT]),
    ):
        places = []
        for source in sources:
            ranks = ranked(run.cells(source))
            if name in ranks:
                places.append(f"{ranks[name]:g} of {len(ranks)} in *{source.title}*")
        if places:
            sentences.append(f"`{name}`, the default for {inputs}, ranks {', '.join(places)}.")
    if not sentences:
        return ""
    return f"**How good are the defaults?** {' '.join(sentences)}"


def _rules(run: Run) -> str:
    rules, behind, total = ("lrp-prop", "lrp-abs", "lrp-half"), 0, 0
    for source in run.sources:
        found = run.cells(source)
        for rule in rules:
            if rule in found and "lrp-all" in found:
                total += 1
                behind += found[rule].mean < found["lrp-all"].mean
    names = ", ".join(f"`{rule}`" for rule in rules)
    return (
        f"**Do other product rules of LRP help?** {names} score lower than `lrp-all` in {behind} of {total} "
        "comparisons of the summary."
    )


def _time_and_feature(run: Run) -> str:
    parts = []
    for name in ("gradient", "lrp-all", "cd", "deeplift", "occlusion-f"):
        pair = [run.cell("boxes-32-units", name, f"AUPR of {axis}") for axis in ("steps", "features")]
        if pair[0] is not None and pair[1] is not None:
            parts.append(f"`{name}` {pair[0].mean:.3f} and {pair[1].mean:.3f}")
    random = [run.cell("boxes-32-units", "random", f"AUPR of {axis}") for axis in ("steps", "features")]
    if not parts or random[0] is None or random[1] is None:
        return ""
    return (
        "**Do methods confuse time and feature?** AUPR of the steps and of the features of a box (LSTM with 32 units): "
        f"{', '.join(parts)}; random numbers reach {random[0].mean:.3f} and {random[1].mean:.3f}."
    )


def _rescaling(run: Run) -> str:
    higher, total, parts = 0, 0, []
    for units in (5, 32):
        for name in NAMES:
            plain = run.cell(f"boxes-{units}-units", name, "AUPR")
            after = run.cell(f"boxes-{units}-units", f"{name}, rescaled", "AUPR")
            if plain is not None and after is not None:
                total += 1
                higher += after.mean > plain.mean
                if units == 32 and name in ("gradient", "lrp-all", "deeplift"):
                    parts.append(f"`{name}` from {plain.mean:.3f} to {after.mean:.3f}")
    if not total:
        return ""
    return (
        f"**Does two-step rescaling help?** It raises AUPR in {higher} of {total} comparisons; with 32 units it "
        f"changes {', '.join(parts)}."
    )


def _reference(run: Run) -> str:
    zero, mean = (run.cell("state-gru", name, "AUROC") for name in ("occlusion-f", "occlusion-f, mean"))
    parts = []
    if zero is not None and mean is not None:
        parts.append(f"Occlusion by the mean instead of zero changes AUROC on State (GRU) from {zero} to {mean}")
    both = [run.cells(Source("", PAIRS, "top k"), (name,)) for name in ("deeplift", "deeplift, unknown word")]
    if both[0] and both[1]:
        values = [next(iter(cells.values())) for cells in both]
        parts.append(
            f"The unknown word instead of zero changes top k of `deeplift` from {values[0].mean:.3f} to "
            f"{values[1].mean:.3f} if two tokens decide"
        )
    if not parts:
        return ""
    return f"**Does the reference matter?** {'. '.join(parts)}."


def areas(run: Run) -> str:
    truth = run.cell("state-gru", "the truth", "AUP")
    plain, ranks = (run.cell("state-gru", "lrp-all", column) for column in ("AUR", "AUR of ranks"))
    if truth is None or plain is None or ranks is None:
        return ""
    return (
        f"The truth itself has an AUP of {truth.mean:.3f}, and ranks change the AUR of `lrp-all` from "
        f"{plain.mean:.3f} to {ranks.mean:.3f}."
    )


def write(folder: Path, docs: Path) -> None:
    """Write truth.md and truth-results.md, from every table in the folder, into the folder `docs`."""
    run = Run(folder)
    template = Template((Path(__file__).parent / "page.md").read_text("utf-8"))
    text = template.substitute(
        short=short(run),
        summary=summary(run),
        sentences=sentences(run),
        extremes=extremes(run),
        nowhere=nowhere(run),
        costs=costs(run),
        peers=peers(run),
        differences=differences(run),
        reproduced=reproduced(run),
        published=whole_table(run, "state-published-rows"),
        areas=areas(run),
        cpu=cpu(run),
    )
    (docs / "truth.md").write_text(text, "utf-8")
    lines = [HEADER]
    lines += [f"## {name}\n\n{whole_table(run, name)}\n" for name in run.tables]
    (docs / "truth-results.md").write_text("\n".join(lines).rstrip() + "\n", "utf-8")
