"""Boxes: noise with a block that carries the class, after Ismail et al., NeurIPS 2020.

50 steps of 50 features from N(0, 1); a block is drawn from N(+1, 1) or N(-1, 1), and its sign is the class. In the
positional sets the block is always positive, and its position in time or among the features is the class. Networks
below 90 % test accuracy are left out and named. Every method is run plain and with the paper's two-step rescaling.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import lrpnumpy as lrp
from benchmarks.truth import metrics, networks, peers, pool
from benchmarks.truth.networks import Spec, Weights
from benchmarks.truth.rows import Rows, filled
from benchmarks.truth.table import Table

SIZE = 50  # steps, and features
TRAIN, TEST = 1000, 100
UNITS = (5, 32)
SEEDS = 3
EPOCHS, BATCH = 60, 50
LEAST_ACCURACY = 0.9
NODES = 8  # of integrated gradients
RESCALED = 1  # test series that are explained with rescaling: 1,150 explanations each
FEW = {"cd": 4, "occlusion-f": 20, "occlusion-p": 20}  # test series that the slowest methods explain
PEER_SERIES = 5  # test series that peers explain
QUANTILE = 0.55  # of the steps' scores: features are looked at in the steps above it

Job = tuple[str, int, int, str]  # shape, units, seed, "train", "ours" or "peers"


class Shape(NamedTuple):
    """A block of `steps` x `features`; it starts at `at`, or anywhere where `at` is None."""

    steps: int
    features: int
    at: tuple[int, int] | None = None
    axis: int | None = None  # 0 or 1: the class is the position along this axis, not the sign


POSITIONS = (1, 29)  # of the two classes of the positional sets
SHAPES = {
    "Middle": Shape(30, 30, (10, 10)),
    "SmallMiddle": Shape(14, 14, (18, 18)),
    "MovingMiddle": Shape(30, 30),
    "MovingSmallMiddle": Shape(14, 14),
    "RareTime": Shape(6, 40, (22, 5)),
    "MovingRareTime": Shape(6, 40),
    "RareFeature": Shape(40, 6, (5, 22)),
    "MovingRareFeature": Shape(40, 6),
    "PositionalTime": Shape(20, 20, axis=0),
    "PositionalFeature": Shape(20, 20, axis=1),
}


class Data(NamedTuple):
    """Series, classes and blocks."""

    x: np.ndarray  # (N, 50, 50) float32
    y: np.ndarray  # (N,)
    truth: np.ndarray  # (N, 50, 50) whether a number is in the block


def generate(name: str, count: int, seed: Any) -> Data:
    """Series of one shape."""
    shape, rng = SHAPES[name], np.random.default_rng(seed)
    y = rng.integers(0, 2, count)
    sizes = np.array([shape.steps, shape.features])
    start = rng.integers(0, SIZE - sizes + 1, (count, 2))
    if shape.at is not None:
        start[:] = shape.at
    mean = np.where(y == 1, 1.0, -1.0)
    if shape.axis is not None:
        start[:, shape.axis] = np.array(POSITIONS)[y]
        mean = np.ones(count)
    place = np.arange(SIZE)
    inside = [(place >= start[:, k, None]) & (place < start[:, k, None] + sizes[k]) for k in (0, 1)]
    truth = inside[0][:, :, None] & inside[1][:, None]
    x = rng.standard_normal((count, SIZE, SIZE)) + mean[:, None, None] * truth
    return Data(x.astype(np.float32), y, truth)


def spec_of(units: int) -> Spec:
    return Spec("LSTM", inputs=SIZE, units=units)


def trained(name: str, units: int, seed: int, cache: Path) -> Weights:
    """The network of a seed; training ends early once the loss is small."""
    data = generate(name, TRAIN, (seed, 0, list(SHAPES).index(name)))

    def batches(rng: np.random.Generator):
        for some in np.split(rng.permutation(TRAIN), TRAIN // BATCH):
            yield data.x[some], data.y[some]

    def enough(weights: Weights, loss: float) -> bool:
        return loss < 0.02

    return networks.cached(
        cache / f"boxes-{name}-{units}-{seed}.npz",
        lambda: networks.train(spec_of(units), seed, EPOCHS, batches, rate=5e-3, decay=1e-4, enough=enough),
    )


# ------------------------------------------------------------------------------------------------ our methods

Explainer = Callable[[np.ndarray, np.ndarray], np.ndarray]  # (N, T, D), (N,) -> relevance (N, T, D) or (N, T)


def ours(model: lrp.Model, name: str, **options: Any) -> Explainer:
    """A method of lrpnumpy on one network."""

    def explain(x: np.ndarray, targets: np.ndarray) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lrp.RelevanceWarning)
            return lrp.explain_all(model, x, name, targets, **options).stacked()

    return explain


def decomposed(spec: Spec, weights: Weights) -> Explainer:
    """Contextual decomposition with every number as a phrase."""
    model = networks.by_feature(spec, weights)

    def explain(x: np.ndarray, targets: np.ndarray) -> np.ndarray:
        records = {f"x{d}": x[:, :, d : d + 1] for d in range(SIZE)}
        found = lrp.explain_all(model, records, "cd", targets)
        return np.stack(
            [np.stack([e.relevance, *(e.inputs[f"x{d}"].relevance for d in range(1, SIZE))], axis=1) for e in found]
        )

    return explain


PROPAGATED = ("gradient", "gradient-x-input", "lrp-all", "lrp-prop", "lrp-abs", "lrp-half", "deeplift")


def rescaled(explain: Explainer, x: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Two-step rescaling (N, T, D): how much all relevance changes without a step, times without one number of it.

    Numbers are masked by 0. Scores of steps, and of the features of a step, are scaled to 0 ... 1. Features are looked
    at in steps whose score is above a quantile; in other steps the result is 0. Ismail et al. 2020, algorithm 1.
    """
    out = np.zeros(x.shape)
    for n, one in enumerate(x):
        before = explain(one[None], targets[n : n + 1])

        def change(masked: np.ndarray, before: np.ndarray = before, target: Any = targets[n]) -> np.ndarray:
            after = explain(masked, np.full(len(masked), target))
            return abs(after - before).reshape(len(masked), -1).sum(axis=1)

        by_step = metrics.unit(change(_without(one, [(t, slice(None)) for t in range(SIZE)])))
        for t in np.flatnonzero(by_step > np.quantile(by_step, QUANTILE)):
            out[n, t] = by_step[t] * metrics.unit(change(_without(one, [(t, d) for d in range(SIZE)])))
    return out


def _without(x: np.ndarray, places: list[Any]) -> np.ndarray:
    """Copies of x (T, D), each with 0 at one of the places."""
    copies = np.repeat(x[None], len(places), axis=0)
    for copy, place in zip(copies, places, strict=True):
        copy[place] = 0
    return copies


# ---------------------------------------------------------------------------------------------- the benchmark

COLUMNS = ("precision", "recall", "AUPR", "AUPR of steps", "AUPR of features", "masked accuracy")


def scores(relevance: np.ndarray, data: Data, model: lrp.Model) -> dict[str, float]:
    """All columns, of relevance (K, T, D) for the first K series."""
    K = len(relevance)
    size, truth = abs(relevance), data.truth[:K]
    flat, flat_truth = size.reshape(K, -1), truth.reshape(K, -1)
    steps, features = size.sum(axis=2), size.sum(axis=1)
    values = (
        *metrics.weighted_precision_recall(flat, flat_truth),
        mean_auprc(flat, flat_truth),
        mean_auprc(steps, truth.any(axis=2)),
        mean_auprc(features, truth.any(axis=1)),
        masked_accuracy(flat, data, model),
    )
    return dict(zip(COLUMNS, values, strict=True))


def mean_auprc(scores: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean([metrics.auprc(one, right) for one, right in zip(scores, truth, strict=True)]))


def masked_accuracy(size: np.ndarray, data: Data, model: lrp.Model) -> float:
    """Mean over levels of the accuracy once the most relevant numbers are noise: smaller is better."""
    K, noise = len(size), np.random.default_rng(9).standard_normal((len(size), SIZE * SIZE))
    order = metrics.ranks_by_row(-size)  # 1 for the largest
    found = []
    for level in metrics.LEVELS:
        x = np.where(order <= level * SIZE * SIZE, noise, data.x[:K].reshape(K, -1)).reshape(K, SIZE, SIZE)
        found.append((lrp.predict_all(model, x).argmax(axis=1) == data.y[:K]).mean())
    return float(np.mean(found))


def jobs(arguments: Any) -> list[Job]:
    """For each network its training, our methods and, on request, the peers."""
    sides, seeds = pool.SIDES[: 2 + arguments.peers], range(arguments.seeds or SEEDS)
    return [(name, units, seed, side) for side in sides for seed in seeds for name in SHAPES for units in UNITS]


def work(job: Job, arguments: Any) -> Rows:
    """Every method of one side on one network, unless it is left out."""
    name, units, seed, side = job
    spec, weights = spec_of(units), trained(name, units, seed, arguments.cache)
    if side == "train":
        return {}
    model = networks.model(spec, weights)
    data = generate(name, TEST, (seed, 1, list(SHAPES).index(name)))
    x = data.x.astype(np.float64)
    targets = lrp.predict_all(model, x).argmax(axis=1)
    accuracy = float((targets == data.y).mean())
    rows: Rows = {"(network)": {"accuracy": accuracy}}
    if accuracy < LEAST_ACCURACY:
        return rows
    if side == "peers":
        some = slice(PEER_SERIES)
        network = networks.in_torch(spec, weights)
        for peer in peers.PEERS:
            try:
                began = time.process_time()
                found = peers.run(peer, network, data.x[some], targets[some], peers.View())
                cost = _cost(began, len(found))
                rows[peer] = scores(found, data, model) | cost
            except peers.Failure as error:
                rows[peer] = {"note": str(error)}
        return rows
    plain = {method: ours(model, method) for method in PROPAGATED}
    plain["integrated-gradients"] = ours(model, "integrated-gradients", nodes=NODES)
    plain["occlusion-f"] = ours(model, "occlusion-f", unit="feature")
    plain["occlusion-p"] = ours(model, "occlusion-p", unit="feature")
    plain["cd"] = decomposed(spec, weights)
    # By steps: what these say of single numbers would be computed 1,150 times.
    by_steps = {method: ours(model, method, unit="step") for method in FEW}
    by_steps["integrated-gradients"] = ours(model, "integrated-gradients", nodes=NODES // 2)
    for method, explain in plain.items():
        count = FEW.get(method, TEST)
        began = time.process_time()
        found = explain(x[:count], targets[:count])
        cost = _cost(began, count)
        rows[method] = scores(found, data, model) | cost
        began = time.process_time()
        found = rescaled(by_steps.get(method, explain), x[:RESCALED], targets[:RESCALED])
        cost = _cost(began, RESCALED)
        rows[f"{method}, rescaled"] = scores(found, data, model) | cost
    rows["random"] = scores(np.random.default_rng(5).standard_normal(x.shape), data, model)
    rows["the truth"] = scores(data.truth.astype(float), data, model)
    return rows


def _cost(began: float, count: int) -> dict[str, float]:
    return {"ms": 1000 * (time.process_time() - began) / count}


def tables(results: dict[Job, Rows]) -> list[Table]:
    """Accuracies, with one * for each network that is left out; all columns over networks, AUPR by shape, and costs."""
    kept = {}
    accuracies: dict[tuple[int, str], list[float]] = {}
    for job, rows in results.items():
        name, units, _, side = job
        kept[job] = {method: row for method, row in rows.items() if method != "(network)"}
        if side == "ours":
            accuracies.setdefault((units, name), []).append(rows["(network)"]["accuracy"])
    networks_table = Table("Boxes, networks: accuracy", list(SHAPES))
    for (units, name), every in accuracies.items():
        left_out = sum(accuracy < LEAST_ACCURACY for accuracy in every)
        networks_table.add(f"{units} units", name, every, left_out * "*")
    out = [networks_table]
    for units in UNITS:
        some = {job: rows for job, rows in kept.items() if job[1] == units}
        out.append(filled(f"Boxes, {units} units", COLUMNS, [_means(some, seed, COLUMNS) for seed in _seeds(some)]))
        out.append(
            filled(f"Boxes, {units} units, AUPR by shape", list(SHAPES), [_by_shape(some, s) for s in _seeds(some)])
        )
        out.append(filled(f"Boxes, {units} units, cost", ["ms"], [_means(some, seed, ["ms"]) for seed in _seeds(some)]))
    return out


def _seeds(results: dict[Job, Rows]) -> list[int]:
    return sorted({job[2] for job in results})


def _means(results: dict[Job, Rows], seed: int, columns: Any) -> Rows:
    """The rows of a seed: means over its networks."""
    found: dict[str, list[dict[str, Any]]] = {}
    for job, rows in results.items():
        if job[2] == seed:
            for method, row in rows.items():
                found.setdefault(method, []).append(row)
    out: Rows = {}
    for method, some in found.items():
        good = [row for row in some if "note" not in row]
        out[method] = {c: float(np.mean([row[c] for row in good])) for c in columns if good and c in good[0]}
        if not good:
            out[method] = some[0]
    return out


def _by_shape(results: dict[Job, Rows], seed: int) -> Rows:
    """The AUPR of a seed on every shape."""
    out: Rows = {}
    for (name, _, k, _), rows in results.items():
        for method, row in rows.items():
            if k == seed and "AUPR" in row:
                out.setdefault(method, {})[name] = row["AUPR"]
    return out
