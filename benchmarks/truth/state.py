"""State: a hidden Markov model in which one feature decides at every step (FIT, Dynamask, time_interpret).

Two states; feature 1 decides in state 0 and feature 2 in state 1. A network predicts the label of every step from the
steps so far. The prediction at step t is explained, and the relevance of step t is kept. The truth is the generator's,
not the network's: a network that uses more than the deciding feature, or that misjudges the state, lowers every score,
so the best possible score is below 1.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import lrpnumpy as lrp
from benchmarks.truth import metrics, networks, peers, pool
from benchmarks.truth.networks import Spec, Weights
from benchmarks.truth.rows import Rows, filled
from benchmarks.truth.table import Table

MEAN = np.array([[0.1, 1.6, 0.5], [-0.1, -0.4, -1.5]])  # of each state
OWN = np.array([1, 2])  # the feature that decides in each state
TRAIN, TEST, STEPS = 800, 200, 200
EPOCHS, BATCH = 30, 100
CELLS = ("GRU", "LSTM")
NODES = 8  # of integrated gradients
EVERY = 5  # which steps are explained: 4, 9, 14, ...
CD_EVERY = 7  # which of these contextual decomposition explains, the slowest here
PEER_SEQUENCES, PEER_EVERY = 20, 10  # the subsample of the peers: sequences, and steps 9, 19, 29, ...


Job = tuple[str, int, str]  # cell, seed, "train", "ours" or "peers"


class Data(NamedTuple):
    """Sequences, labels and states of every step."""

    x: np.ndarray  # (N, T, 3) float32
    y: np.ndarray  # (N, T) 0 or 1
    state: np.ndarray  # (N, T) 0 or 1

    @property
    def truth(self) -> np.ndarray:
        """(N, T, 3) whether each feature decides at each step."""
        return OWN[self.state][..., None] == np.arange(3)


def generate(count: int, seed: Any, steps: int = STEPS) -> Data:
    """Sequences of the hidden Markov model."""
    rng = np.random.default_rng(seed)
    state = np.empty((count, steps), np.int64)
    state[:, 0] = rng.random(count) < 0.5
    since = np.zeros(count)  # steps since the last change
    for t in range(1, steps):
        stay = np.maximum(0.8, 0.95 - since / 500)
        enters = rng.random(count) < np.where(state[:, t - 1] == 1, stay, 0.05)
        state[:, t] = enters
        since = np.where(state[:, t] == state[:, t - 1], since + 1, 0)
    roots = []
    for own in OWN:
        covariance = 0.801 * np.eye(3)
        covariance[0, own] = covariance[own, 0] = 0.01
        roots.append(np.linalg.cholesky(covariance))
    noise = rng.standard_normal((count, steps, 3))
    x = MEAN[state] + np.einsum("ntij,ntj->nti", np.stack(roots)[state], noise)
    decides = np.take_along_axis(x, OWN[state][..., None], axis=2)[..., 0]
    y = (rng.random((count, steps)) < 1 / (1 + np.exp(-2 * decides))).astype(np.int64)
    return Data(x.astype(np.float32), y, state)


def spec_of(cell: str) -> Spec:
    return Spec(cell, inputs=3, units=200, norm=True, dropout=0.5)


def trained(cell: str, seed: int, cache: Path) -> Weights:
    """The network of a seed: loss on the last step of a random prefix."""
    data = generate(TRAIN, (seed, 0))

    def batches(rng: np.random.Generator):
        order = rng.permutation(TRAIN)
        for some in np.split(order, TRAIN // BATCH):
            stop = int(rng.integers(1, STEPS + 1))
            yield data.x[some, :stop], data.y[some, stop - 1]

    return networks.cached(
        cache / f"state-{cell}-{seed}.npz",
        lambda: networks.train(spec_of(cell), seed, EPOCHS, batches, rate=1e-3, decay=1e-3),
    )


# ------------------------------------------------------------------------------------------------ our methods


class Prepared(NamedTuple):
    """One network and its test set; every explained step is a record of one step, those of a sequence together."""

    spec: Spec
    weights: Weights
    data: Data
    steps: np.ndarray  # (S,) which steps are explained
    records: dict[str, np.ndarray]  # inputs of `networks.one_step`, N S of them
    targets: np.ndarray  # (N S,) the predicted classes

    def explained(self, model: lrp.Model, records: dict[str, np.ndarray], method: str, **options: Any) -> np.ndarray:
        """Relevance (records, 3) of the features of the step."""
        targets = options.pop("targets", self.targets)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lrp.RelevanceWarning)
            return lrp.explain_all(model, records, method, targets, **options).feature_relevance


def prepare(spec: Spec, weights: Weights, data: Data, every: int = EVERY) -> Prepared:
    steps = np.arange(every - 1, data.x.shape[1], every)
    records = _records(spec, weights, data.x.astype(np.float64), steps)
    targets = lrp.predict_all(networks.one_step(spec, weights), records).argmax(axis=1)
    return Prepared(spec, weights, data, steps, records, targets)


def _records(spec: Spec, weights: Weights, x: np.ndarray, steps: np.ndarray) -> dict[str, np.ndarray]:
    """The steps of the sequences x (N, T, 3), each with the states before it."""
    found = {"x": x[:, steps].reshape(-1, 1, x.shape[-1])}
    for name, states in zip("hc", networks.states_before(spec, weights, x, steps), strict=False):
        found[name] = states.reshape(-1, states.shape[-1])
    return found


def simple(name: str, **options: Any) -> Callable[[Prepared], np.ndarray]:
    """A method that needs nothing but the step and the states before it."""

    def run(given: Prepared) -> np.ndarray:
        return given.explained(networks.one_step(given.spec, given.weights), given.records, name, **options)

    return run


def deeplift(given: Prepared) -> np.ndarray:
    """DeepLIFT against a sequence of zeros: its states before step t are the reference of the states."""
    N, T, D = given.data.x.shape
    S = len(given.steps)
    zero = _records(given.spec, given.weights, np.zeros((1, T, D)), given.steps)
    model = networks.one_step(given.spec, given.weights)
    out = np.empty((N * S, D))
    for k in range(S):
        at = np.arange(N) * S + k
        records = {name: value[at] for name, value in given.records.items()}
        reference = {name: value[k].reshape(-1) for name, value in zero.items()}
        out[at] = given.explained(model, records, "deeplift", targets=given.targets[at], reference=reference)
    return out


def integrated_gradients(given: Prepared) -> np.ndarray:
    """Integrated gradients from a sequence of zeros, by Gauss' rule: gradients at points of the line, times the input.

    At a point a x the states before step t are those of the sequence a x, so that one forward pass serves all steps.
    """
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    model, x = networks.one_step(given.spec, given.weights), given.data.x.astype(np.float64)
    out = np.zeros((len(given.targets), x.shape[2]))
    for a, w in zip((nodes + 1) / 2, weights / 2, strict=True):
        records = _records(given.spec, given.weights, a * x, given.steps)
        out += w / a * given.explained(model, records, "gradient-x-input")
    return out


def decomposed(given: Prepared, every: int = CD_EVERY) -> np.ndarray:
    """Contextual decomposition with each feature of the step as a phrase, of some of the records.

    The states before the step belong to the rest. They are constants of the layer here, so that each record is a
    separate network; with states as inputs the layer would be decomposed by the general rule, not by the cell's.
    """
    layer, D = networks.recurrent(given.spec, given.weights), given.spec.inputs
    out = np.full((len(given.targets), D), np.nan)
    for k in range(0, len(out), every):
        states = {f"{name}0": given.records[name][k] for name in given.records if name != "x"}
        model = networks.by_feature(given.spec, given.weights, replace(layer, **states))
        x = {f"x{d}": given.records["x"][k, :, d : d + 1] for d in range(D)}
        e = lrp.explain(model, x, "cd", int(given.targets[k]))
        out[k] = [e.relevance[0], *(e.inputs[f"x{d}"].relevance[0] for d in range(1, D))]
    return out


def occluded(by_mean: bool = False, probability: bool = False) -> Callable[[Prepared], np.ndarray]:
    """Occlusion of each feature of the step, by zero or, as in the published row, by the mean of the training inputs.

    The four scores are predicted here: `occlusion-f` would occlude every state as well.
    """

    def run(given: Prepared) -> np.ndarray:
        model, x = networks.one_step(given.spec, given.weights), given.records["x"]
        baseline = np.zeros(x.shape[2])
        if by_mean:
            baseline = generate(TRAIN, (0, 0)).x.mean(axis=(0, 1))

        def explained(x: np.ndarray) -> np.ndarray:
            scores = lrp.predict_all(model, given.records | {"x": x})
            own = np.take_along_axis(scores, given.targets[:, None], axis=1)[:, 0]
            if not probability:
                return own
            return np.exp(own - np.logaddexp(*scores.T))

        before, drops = explained(x), []
        for d, value in enumerate(baseline):
            without = x.copy()
            without[:, :, d] = value
            drops.append(before - explained(without))
        return np.stack(drops, axis=1)

    return run


def at_random(given: Prepared) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(given.records["x"][:, 0].shape)


METHODS: dict[str, Callable[[Prepared], np.ndarray]] = {
    "gradient": simple("gradient"),
    "gradient-x-input": simple("gradient-x-input"),
    "lrp-all": simple("lrp-all"),
    "lrp-prop": simple("lrp-prop"),
    "lrp-abs": simple("lrp-abs"),
    "lrp-half": simple("lrp-half"),
    "cd": decomposed,
    "deeplift": deeplift,
    "integrated-gradients": integrated_gradients,
    "occlusion-f": occluded(),
    "occlusion-f, mean": occluded(by_mean=True),
    "occlusion-p": occluded(probability=True),
    "random": at_random,
}


# ---------------------------------------------------------------------------------------------- the benchmark

COLUMNS = ("AUP", "AUR", "AUROC", "AUPRC", "AUP of ranks", "AUR of ranks")
# Averages of five folds as published with time_interpret (Enguehard 2023): AUP, AUR, AUROC, AUPRC.
PUBLISHED = {
    "LIME": (0.932, 0.438, 0.937, 0.912),
    "DeepLift (captum)": (0.920, 0.454, 0.938, 0.912),
    "integrated gradients": (0.918, 0.454, 0.936, 0.909),
    "ExtremalMask": (0.885, 0.781, 0.910, 0.883),
    "occlusion": (0.866, 0.393, 0.870, 0.817),
    "gradient SHAP": (0.849, 0.414, 0.852, 0.798),
    "Dynamask": (0.711, 0.763, 0.876, 0.695),
    "FIT": (0.421, 0.549, 0.711, 0.463),
}


def scores(relevance: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """All columns, of relevance (K, 3); rows that are NaN were not explained."""
    some = np.isfinite(relevance).all(axis=1)
    size, truth = abs(relevance[some]), truth[some]
    values = (
        *metrics.aup_aur(size, truth),
        metrics.auroc(size, truth),
        metrics.auprc(size, truth),
        *metrics.aup_aur(metrics.ranks(size), truth),
    )
    return dict(zip(COLUMNS, values, strict=True))


def jobs(arguments: Any) -> list[Job]:
    """For each network its training, our methods and, on request, the peers."""
    sides = pool.SIDES[: 2 + arguments.peers]
    return [(cell, seed, side) for side in sides for cell in CELLS for seed in range(arguments.seeds or 5)]


def work(job: Job, arguments: Any) -> Rows:
    """Every method of one side on one network."""
    cell, seed, side = job
    spec, weights = spec_of(cell), trained(cell, seed, arguments.cache)
    if side == "train":
        return {}
    data = generate(TEST, (seed, 1))
    if side == "peers":
        few = Data(*(part[:PEER_SEQUENCES] for part in data))
        given = prepare(spec, weights, few, PEER_EVERY)
        return {name: peer(name, given) for name in peers.PEERS}
    given = prepare(spec, weights, data)
    truth = data.truth[:, given.steps].reshape(-1, 3)
    rows: Rows = {"(network)": {"accuracy": float((given.targets == data.y[:, given.steps].reshape(-1)).mean())}}
    for name, method in METHODS.items():
        began = time.process_time()
        relevance = method(given)
        seconds = time.process_time() - began
        rows[name] = scores(relevance, truth) | {"ms": float(1000 * seconds / np.isfinite(relevance[:, 0]).sum())}
    return rows | {"the truth": scores(truth.astype(float), truth)}


def peer(name: str, given: Prepared) -> dict[str, Any]:
    """A peer on every record; the network sees the steps up to the explained one."""
    (N, _, D), S = given.data.x.shape, len(given.steps)
    network = networks.in_torch(given.spec, given.weights)
    out, targets = np.empty((N, S, D)), given.targets.reshape(N, S)
    began = time.process_time()
    try:
        for k, t in enumerate(given.steps):
            x = given.data.x[:, : t + 1]
            out[:, k] = peers.run(name, network, x, targets[:, k], peers.View(last_only=True))[:, -1]
    except peers.Failure as error:
        return {"note": str(error)}
    seconds = time.process_time() - began
    truth = given.data.truth[:, given.steps].reshape(-1, D)
    return scores(out.reshape(-1, D), truth) | {"ms": float(1000 * seconds / (N * S))}


def tables(results: dict[Job, Rows]) -> list[Table]:
    """One table for each cell, one of costs, and one of accuracies; the published rows are of GRU networks."""
    accuracies = Table("State, networks", ["accuracy"])
    out = [accuracies]
    for cell in CELLS:
        some = [dict(rows) for job, rows in results.items() if job[0] == cell]
        if not some:
            continue
        accuracies.add(cell, "accuracy", [rows.pop("(network)")["accuracy"] for rows in some if "(network)" in rows])
        table = filled(f"State, {cell}", COLUMNS, some)
        if cell == "GRU":
            for name, values in PUBLISHED.items():
                for column, value in zip(COLUMNS, values, strict=False):
                    table.add(f"published: {name}", column, [value])
        out += [table, filled(f"State, {cell}, cost", ["ms"], some)]
    return out
