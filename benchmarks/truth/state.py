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
EXPLAINED = 50  # test sequences of which every step is explained
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
    """One network and its test set."""

    spec: Spec
    weights: Weights
    data: Data
    model: lrp.Model  # with a prediction at every step
    targets: np.ndarray  # (N, T) the predicted classes


def prepare(spec: Spec, weights: Weights, data: Data) -> Prepared:
    model = networks.model(spec, weights, "every")
    targets = np.argmax(lrp.predict_all(model, data.x.astype(np.float64)), axis=2)
    return Prepared(spec, weights, data, model, targets)


def monitored(name: str, **options: Any) -> Callable[[Prepared], np.ndarray]:
    """Relevance (N T, 3) of the features of every step for the prediction at that step."""

    def run(given: Prepared) -> np.ndarray:
        return np.concatenate(
            [_newest(given.model, x, name, **options).feature_relevance for x in given.data.x.astype(np.float64)]
        )

    return run


def _newest(model: lrp.Model, x: Any, name: str, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lrp.RelevanceWarning)
        return lrp.explain(model, x, name, step="all", newest=1, **options)


def decomposed(given: Prepared) -> np.ndarray:
    """Contextual decomposition with each feature of the step as a phrase: each feature is an input of the network."""
    model, D = networks.by_feature(given.spec, given.weights, every=True), given.spec.inputs
    found = []
    for x in given.data.x.astype(np.float64):
        results = _newest(model, {f"x{d}": x[:, d : d + 1] for d in range(D)}, "cd")
        found.append(np.stack([results.received(f"x{d}").relevance for d in range(D)], axis=1))
    return np.concatenate(found)


def occluded_by_mean(given: Prepared) -> np.ndarray:
    """Occlusion by the mean of the training inputs."""
    mean = generate(TRAIN, (0, 0)).x.mean(axis=(0, 1)).astype(np.float64)
    return monitored("occlusion-f", unit="feature", reference=mean)(given)


def at_random(given: Prepared) -> np.ndarray:
    return np.random.default_rng(5).standard_normal((given.targets.size, given.spec.inputs))


METHODS: dict[str, Callable[[Prepared], np.ndarray]] = {
    "gradient": monitored("gradient"),
    "gradient-x-input": monitored("gradient-x-input"),
    "lrp-all": monitored("lrp-all"),
    "lrp-prop": monitored("lrp-prop"),
    "lrp-abs": monitored("lrp-abs"),
    "lrp-half": monitored("lrp-half"),
    "cd": decomposed,
    "deeplift": monitored("deeplift"),
    "integrated-gradients": monitored("integrated-gradients", nodes=NODES),
    "occlusion-f": monitored("occlusion-f", unit="feature"),
    "occlusion-f, mean": occluded_by_mean,
    "occlusion-p": monitored("occlusion-p", unit="feature"),
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
    """All columns, of relevance (K, 3)."""
    size = abs(relevance)
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
    test = prepare(spec, weights, generate(TEST, (seed, 1)))
    if side == "peers":
        given = first(test, PEER_SEQUENCES)
        return {name: peer(name, given) for name in peers.PEERS}
    rows: Rows = {"(network)": {"accuracy": float((test.targets == test.data.y).mean())}}
    given = first(test, EXPLAINED)
    truth = given.data.truth.reshape(-1, 3)
    for name, method in METHODS.items():
        began = time.process_time()
        relevance = method(given)
        seconds = time.process_time() - began
        rows[name] = scores(relevance, truth) | {"ms": 1000 * seconds / len(relevance)}
    return rows | {"the truth": scores(truth.astype(float), truth)}


def first(given: Prepared, count: int) -> Prepared:
    """The first sequences of a test set."""
    return given._replace(data=Data(*(part[:count] for part in given.data)), targets=given.targets[:count])


def peer(name: str, given: Prepared) -> dict[str, Any]:
    """A peer on every tenth step; the network sees the steps up to the explained one."""
    N, T, D = given.data.x.shape
    steps = np.arange(PEER_EVERY - 1, T, PEER_EVERY)
    network = networks.in_torch(given.spec, given.weights)
    out = np.empty((N, len(steps), D))
    began = time.process_time()
    try:
        for k, t in enumerate(steps):
            x = given.data.x[:, : t + 1]
            out[:, k] = peers.run(name, network, x, given.targets[:, t], peers.View(last_only=True))[:, -1]
    except peers.Failure as error:
        return {"note": str(error)}
    seconds = time.process_time() - began
    truth = given.data.truth[:, steps].reshape(-1, D)
    return scores(out.reshape(-1, D), truth) | {"ms": 1000 * seconds / (N * len(steps))}


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
