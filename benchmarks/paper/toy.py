"""The toy arithmetic task: which methods find the two numbers that count (tab:toy_experiment).

    python -m benchmarks.paper toy             # evaluates the bundled networks
    python -m benchmarks.paper toy --train     # trains them again, from seeds 0, 1, 2, …

Writes toy.csv, toy.tex, toy.png, toy_overview.csv, toy_overview.tex and toy_cd_stop.csv.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import lrpnumpy as lrp
from benchmarks.paper import cd_stop
from benchmarks.paper.measures.toy import STATISTICS, TASKS, Data, splits, statistics
from benchmarks.paper.tables import NAMES, PUBLISHED, show, write_csv, write_latex
from benchmarks.paper.train_toy import WANTED, Starts, counted, train_all
from lrpnumpy.files.native import save_many
from lrpnumpy.layers.kernels import compile_all

METHODS = ("gradient", "gradient-x-input", "occlusion-f", "lrp-prop", "lrp-abs", "lrp-half", "lrp-all", "cd")
HEADS = {"rho_a": "ρ(R_a, n_a) %", "rho_b": "ρ(R_b, n_b) %", "share": "share of a, b %", "mse": "“MSE”"}
HERE = Path(__file__).parent
LENGTHS = (32, 64, 128, 256)  # at which the cost is measured

Values = dict[
    tuple[str, str, str], np.ndarray
]  # task, method, statistic -> one value per network; percent where it is one


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--train", action="store_true", help="train the networks again; goes on where it was interrupted"
    )
    parser.add_argument("--networks", type=int, default=WANTED, help=f"networks to train for each task ({WANTED})")
    parser.add_argument(
        "--weights", type=Path, default=HERE.parents[1] / "weights" / "toy.h5", help="file of the networks"
    )
    parser.add_argument(
        "--checkpoint",
        type=Path,
        default=HERE / ".toy-checkpoint.jsonl",
        help="finished starts of a training",
    )


def run(arguments: argparse.Namespace) -> None:
    if arguments.train:
        save(train_all(arguments.checkpoint, arguments.networks), arguments.weights, arguments.networks)
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    networks = load(arguments.weights)
    data = {task: splits(task)["test"] for task in networks}
    report_training(networks)
    values = evaluate(networks, data)
    report_table(values, networks, out)
    report_far(values, networks, data)
    report_cd(networks, data, out)
    report_overview(networks, data, out)
    draw(networks, data, out / "toy.png")
    print(f"CSV, LaTeX and the figure are in {out}/.")


# -- the networks --------------------------------------------------------------------------------------------


def save(starts: Starts, path: Path, wanted: int = WANTED, script: str = "toy --train") -> None:
    """Write the converged networks, named addition/0, …, with the details of their training."""
    models = {}
    for task in TASKS:
        kept, tried = counted(starts[task], wanted)
        for k, start in enumerate(kept):
            remarks = {
                "task": task,
                "seed": start.seed,
                **{f"mse_{name}": repr(error) for name, error in start.errors.items()},
                "optimizer_steps": start.steps,
                "evaluations": start.evaluations,
                "networks": len(kept),
                "starts": tried,
                "script": f"python -m benchmarks.paper {script}",
            }
            models[f"{task}/{k}"] = replace(start.model.with_default("lrp-all"), provenance=remarks)
    save_many(models, path, overwrite=True)


def load(path: Path) -> dict[str, list[lrp.Model]]:
    """The networks of each task."""
    return {
        task: [
            first,
            *(lrp.load(path, which=f"{task}/{k}") for k in range(1, int(first.provenance["networks"]))),
        ]
        for task in TASKS
        for first in [lrp.load(path, which=f"{task}/0")]
    }


def report_training(networks: dict[str, list[lrp.Model]]) -> None:
    """How many starts converged, and how well."""
    rows, paper = [], PUBLISHED["toy"]
    for task, models in networks.items():
        facts = [model.provenance for model in models]
        tried = int(facts[0]["starts"])
        test = np.array([float(fact["mse_test"]) for fact in facts])
        rows.append([
            task, f"{len(models)} of {tried}", f"{len(models) / tried:.0%}", paper["converged"][task],
            f"{test.mean():.1e} ({test.std():.1e})", f"{test.max():.1e}", f"< {paper['test_mse_below']:.0e}",
        ])  # fmt: skip
    header = ["task", "converged", "share", "paper", "test MSE", "largest", "paper"]
    show("Training: starts whose validation MSE is below 1e-4", header, rows)


# -- the table -----------------------------------------------------------------------------------------------


def explained(
    model: lrp.Model, sequences: Sequence[np.ndarray], method: str, eps: float = 0.0, threads: int | None = None
) -> Any:
    """Explanations, by default without a stabilizer, as the paper has it on this task."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lrp.RelevanceWarning)
        options = {"eps": eps} if method.startswith("lrp-") else {}
        return lrp.explain_all(model, sequences, method, 0, unit="step", threads=threads, **options)


def evaluate(networks: dict[str, list[lrp.Model]], data: dict[str, Data]) -> Values:
    """Every statistic of every method on every network."""
    values: Values = {}
    jobs = [(task, method) for task in networks for method in METHODS]
    for _ in tqdm(compile_all("float64"), desc="compiling", leave=False):
        pass
    began, worked = time.perf_counter(), time.process_time()
    for task, method in tqdm(jobs, desc="methods", unit="method", leave=False):
        found = []
        for model in networks[task]:
            e = explained(model, data[task].sequences, method)
            found.append(statistics(data[task], e.relevance, e.scores))
        for name in STATISTICS:
            column = np.array([row[name] for row in found])
            values[task, method, name] = column if name == "mse" else 100 * column
    count = sum(map(len, networks.values()))
    took, work = time.perf_counter() - began, time.process_time() - worked
    print(
        f"{len(METHODS)} methods on {count} networks, 2500 sequences each: {took:.0f} s after compilation, "
        f"{work:.0f} s of processor time.\n"
    )
    return values


def published(task: str, method: str, name: str) -> tuple[float, float] | None:
    return PUBLISHED["toy"][task].get(method, {}).get(name)


def beyond(values: Values) -> Iterator[tuple[str, str, str, float]]:
    """Where our mean is further from the paper's than two of its standard deviations, and by how many."""
    for (task, method, name), column in values.items():
        paper = published(task, method, name)
        if paper and abs(column.mean() - paper[0]) > 2 * paper[1]:
            yield task, method, name, abs(column.mean() - paper[0]) / paper[1]


def _cell(name: str, task: str, mean: float, std: float) -> str:
    if name == "mse":
        return f"{mean:.1e} ({std:.1e})"
    digits = 1 if task == "subtraction" else (2 if name == "share" else 3)
    return f"{mean:.{digits}f} ({std:.{digits}f})"


def report_table(values: Values, networks: dict[str, list[lrp.Model]], out: Path) -> None:
    header = ["", *(cell for name in STATISTICS for cell in (HEADS[name], "paper"))]
    far = {key[:3] for key in beyond(values)}
    blocks = []
    for task in networks:
        rows = []
        for method in METHODS:
            row = [NAMES[method]]
            for name in STATISTICS:
                column, paper = values[task, method, name], published(task, method, name)
                mark = "*" if (task, method, name) in far else ""
                row += [
                    mark + _cell(name, task, column.mean(), column.std()),
                    _cell(name, task, *paper) if paper else "-",
                ]
            rows.append(row)
        title = f"Toy task {task}, {len(networks[task])} networks: mean (standard deviation)"
        show(title, header, rows)
        blocks.append((title, rows))
    print("* further from the paper's mean than two of its standard deviations\n")
    write_latex(out / "toy.tex", header, blocks)
    lines = [
        [*key, column.mean(), column.std(), *(published(*key) or ("", "")), key in far]
        for key, column in values.items()
    ]
    head = ["task", "method", "statistic", "mean", "std", "paper_mean", "paper_std", "beyond_two_std"]
    write_csv(out / "toy.csv", head, lines)


def culprits(column: np.ndarray, mean: float, std: float) -> list[int]:
    """The networks, most extreme first, without which the mean is within two standard deviations of the paper's."""
    order = list(np.argsort(-abs(column - np.median(column))))
    left_out: list[int] = []
    while len(left_out) < len(column) - 1 and abs(np.delete(column, left_out).mean() - mean) > 2 * std:
        left_out.append(int(order[len(left_out)]))
    return left_out


def report_far(values: Values, networks: dict[str, list[lrp.Model]], data: dict[str, Data]) -> None:
    """Why a mean is far from the paper's: which networks make it so, and what cures them.

    Two things are tried. With recurrent weights clipped to ±20 a gate is as open or shut as before for almost
    every input, but not as steep: so it is seen what steepness does to the gradient. And a stabilizer: so it is
    seen what LRP owes to divisions by almost nothing, here where eps is 0.
    """
    rows = []
    for task, method, name, _ in beyond(values):
        column, (mean, std) = values[task, method, name], published(task, method, name)  # type: ignore[misc]
        left_out = culprits(column, mean, std)
        rest = np.delete(column, left_out)

        def value(model: lrp.Model, eps: float, task=task, method=method, name=name) -> str:  # type: ignore[no-untyped-def]
            e = explained(model, data[task].sequences, method, eps=eps)
            return f"{statistics(data[task], e.relevance, e.scores)[name] * (1 if name == 'mse' else 100):.4g}"

        for k in left_out:
            model = networks[task][k]
            lstm, dense = model.layers
            flatter = lrp.Model((replace(lstm, W=np.clip(lstm.W, -20, 20)), dense))
            is_lrp = method.startswith("lrp")
            rows.append([
                f"{task}, {NAMES[method]}, {HEADS[name]}", _cell(name, task, column.mean(), column.std()),
                _cell(name, task, mean, std), _cell(name, task, rest.mean(), rest.std()), model.provenance["seed"],
                f"{column[k]:.4g}", f"{abs(lstm.W).max():.0f}", value(flatter, 0),
                *(value(model, eps) if is_lrp else "-" for eps in (0.01, 0.2)),
            ])  # fmt: skip
    if not rows:
        print("No mean is further from the paper's than two of its standard deviations.\n")
        return
    header = ["", "ours", "paper", "without", "seed", "its value", "largest W", "W clipped", "eps 0.01", "eps 0.2"]
    show("Where ours is far from the paper's, and the networks that make it so", header, rows)
    print(
        "Without: mean (standard deviation) of the other networks. Gradient×Input: gates so steep that a few\n"
        "sequences fall on their slope; clipped, the network predicts the same. LRP: the sum of gate and signal,\n"
        "or a pre-activation, is close to 0, which multiplies relevance at every step; a stabilizer cures it.\n"
    )


# -- CD and the stop index -----------------------------------------------------------------------------------


def report_cd(networks: dict[str, list[lrp.Model]], data: dict[str, Data], out: Path) -> None:
    """CD with the stop index excluded, as here and in the paper, and included, as before the paper."""
    rows, lines = [], []
    for task, models in networks.items():
        some = Data(*(getattr(data[task], field.name)[:500] for field in fields(Data)))
        for how in cd_stop.HOW:
            found = []
            for model in tqdm(models, desc=f"CD, {how}", leave=False):
                scores = lrp.predict_all(model, some.sequences)
                found.append(statistics(some, cd_stop.relevance(model, some, how), scores))
            cells = []
            for name in STATISTICS:
                column = np.array([row[name] for row in found]) * (1 if name == "mse" else 100)
                cells.append(_cell(name, task, column.mean(), column.std()))
                lines.append([task, how, name, column.mean(), column.std()])
            rows.append([f"{task}, {how}", *cells])
    show("CD and the stop index, 500 sequences", ["", *(HEADS[name] for name in STATISTICS)], rows)
    write_csv(out / "toy_cd_stop.csv", ["task", "how", "statistic", "mean", "std"], lines)


# -- the overview --------------------------------------------------------------------------------------------


def _seconds(model: lrp.Model, sequences: np.ndarray, method: str) -> float:
    """Processor time on one thread, best of five; "" is the forward pass."""
    best = np.inf
    for _ in range(5):
        began = time.process_time()
        if method:
            explained(model, sequences, method, eps=0.2, threads=1)
        else:
            lrp.predict_all(model, sequences, threads=1)
        best = min(best, time.process_time() - began)
    return best


def report_overview(networks: dict[str, list[lrp.Model]], data: dict[str, Data], out: Path) -> None:
    """What the relevances add up to and what they cost, as in tab:methods_overview and as measured.

    The sum is measured on the first network of each task: root mean square of sum R_t - f over that of f. The
    cost is measured on 8 sequences through a random LSTM of 64 units: the power of T that fits the time, and
    the time over that of a forward pass.
    """
    rng = np.random.default_rng(0)
    H, D = 64, 16
    lstm = lrp.LSTM(rng.normal(size=(4, H, D)) / 4, rng.normal(size=(4, H, H)) / 8, rng.normal(size=(4, H)) / 4)
    model = lrp.Model((lstm, lrp.Dense(rng.normal(size=(2, H)))))
    inputs = {T: rng.normal(size=(8, T, D)) for T in LENGTHS}
    rows, lines = [], []
    _seconds(model, inputs[LENGTHS[0]], "")
    forward = {T: _seconds(model, x, "") for T, x in inputs.items()}
    for method in METHODS:
        _seconds(model, inputs[LENGTHS[0]], method)
        seconds = {T: _seconds(model, x, method) for T, x in inputs.items()}
        passes = [seconds[T] / forward[T] for T in LENGTHS]
        power = np.polyfit(np.log(LENGTHS), np.log(list(seconds.values())), 1)[0]
        off = [_off(networks[task][0], data[task], method) for task in networks]
        stated = PUBLISHED["overview"][method]
        rows.append([
            NAMES[method], stated["quantity"], *(f"{value:.1e}" for value in off),
            stated["cost"], f"T^{power:.2f}", *(f"{value:.1f}" for value in passes),
        ])  # fmt: skip
        lines.append([method, stated["quantity"], *off, stated["cost"], power, *passes])
    header = [
        "",
        "adds up to",
        *(f"off f, {task}" for task in networks),
        "cost",
        "measured",
        *(f"T={T}" for T in LENGTHS),
    ]
    show("Overview: stated and measured; the last columns in forward passes", header, rows)
    write_csv(out / "toy_overview.csv", ["method", *header[1:]], lines)
    write_latex(out / "toy_overview.tex", header, [("Overview of the methods", rows)])


def _off(model: lrp.Model, data: Data, method: str) -> float:
    """How far the relevances are from adding up to the prediction."""
    e = explained(model, data.sequences, method)
    f = e.scores[:, 0]
    sums = np.add.reduceat(e.relevance, e.starts[:-1])
    return float(np.sqrt(np.mean((sums - f) ** 2) / np.mean(f**2)))


# -- the figure ----------------------------------------------------------------------------------------------


def draw(networks: dict[str, list[lrp.Model]], data: dict[str, Data], path: Path) -> None:
    """One panel per method and task: R_a against n_a and R_b against n_b, first network of the task."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.2 * len(METHODS), 2.6 * len(networks)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(networks), len(METHODS), squeeze=False)
    for line, (task, models) in zip(axes, networks.items(), strict=True):
        part = data[task]
        for axis, method in zip(line, METHODS, strict=True):
            e = explained(models[0], part.sequences, method)
            for at, n, color, label in (
                (part.a, part.n_a, "tab:blue", "a"),
                (part.b, part.n_b, "tab:orange", "b"),
            ):
                axis.scatter(n, e.relevance[e.starts[:-1] + at], s=2, c=color, label=label, linewidths=0, alpha=0.5)
            axis.set_title(f"{NAMES[method]}", fontsize=9)
            axis.tick_params(labelsize=7)
            axis.set_xlabel("n", fontsize=8)
        line[0].set_ylabel(f"{task}: R", fontsize=9)
        line[0].legend(markerscale=5, fontsize=7)
    figure.savefig(path, dpi=150)
