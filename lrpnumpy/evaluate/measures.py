"""What is measured of a case: removal, changes, evidence, randomization and cost.

Removal replaces steps, features or single values together, about a tenth at a time, the most relevant first and the
least relevant first. The area between the two curves of the prediction is 0 for a random order; 100 is that of the best
order found (Samek et al. 2017).

Replaced together, inputs that raise the prediction and inputs that lower it cancel. So changes replaces one after the
other in the order of |relevance| and adds up the absolute changes of the prediction: the most relevant first, which
should change it much (cumulative prediction difference), and the least relevant first, which should not (cumulative
prediction preservation; Jang et al. 2025, TIMING).

Evidence counts the explanations that pass the experiments behind them.

Randomization: an explanation that stays the same when the weights are random does not explain the network. Layers get
random weights from the top down, one more each time, and each time the relevance is compared with that of the trained
network (Adebayo et al. 2018).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from lrpnumpy.encode import encode_all
from lrpnumpy.evaluate.case import Case, Relevances, RemovalUnit, Values
from lrpnumpy.evaluate.chance import spearman
from lrpnumpy.evidence import evidence_of
from lrpnumpy.explain import explain_all
from lrpnumpy.fields import taken
from lrpnumpy.layers.base import Record
from lrpnumpy.model import Model
from lrpnumpy.result import Explanation

GROUPS = 64  # of neighbors, that are replaced alone to find a good order
ONE_BY_ONE = 30  # inputs that are replaced one after the other, at most
RANDOM = 3  # random orders that changes are compared with


@cache
def levels(count: int) -> np.ndarray:
    """(L,) how many of `count` are removed at each level: about every tenth, from one to all but one."""
    if count < 2:
        return np.empty(0, np.int64)
    below = [int(np.clip(round(count * tenth / 10), 1, count - 1)) for tenth in range(1, 6)]
    return np.unique([*below, *(count - one for one in below)])


def measure_removal(case: Case) -> Values:
    """The area between the curves for every unit, and that of the best order found."""
    found: Values = {}
    for unit in case.units:
        areas = _of_methods(case, unit, np.negative, _areas)
        by_effect = _areas(case, unit, _orders_by_effect(case, unit))
        known = areas[~np.isnan(areas).any(axis=1)]
        found[f"{unit}s"] = areas, np.max([by_effect, *known], axis=0)
    return found


def _of_methods(
    case: Case, unit: RemovalUnit, key: Callable[[np.ndarray], np.ndarray], value: Callable[..., np.ndarray]
) -> np.ndarray:
    """(M, n) the `value` of the orders that the relevance by each method gives, lowest `key` first; NaN without one."""
    found = np.full((len(case.explainers), len(case.x)), np.nan)
    for m in range(len(case.explainers)):
        relevance = case.relevance(m, unit)
        if relevance is not None:
            found[m] = value(case, unit, [np.argsort(key(one), kind="stable") for one in relevance])
    return found


def _ranks(order: np.ndarray) -> np.ndarray:
    """The place of each input in an order."""
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank


def _areas(case: Case, unit: RemovalUnit, orders: list[np.ndarray]) -> np.ndarray:
    """(n,) how much further the prediction falls if the first of an order go first than if the last do."""
    variants, owner, sign = [], [], []
    for k, order in enumerate(orders):
        rank, steps = _ranks(order), levels(len(order))[:, None]
        variants += case.replaced(k, np.concatenate([rank < steps, rank >= len(order) - steps]), unit)
        owner += [k] * (2 * len(steps))
        sign += [-1.0] * len(steps) + [1.0] * len(steps)
    values = case.values(variants, owner) * sign
    counts = np.array([len(levels(len(order))) for order in orders])
    return np.bincount(np.array(owner, np.int64), values, len(orders)) / np.maximum(counts, 1)


def _orders_by_effect(case: Case, unit: RemovalUnit) -> list[np.ndarray]:
    """What is replaced alone, by how far the prediction falls; many are replaced in groups of neighbors."""
    variants, owner, groups = [], [], []
    for k, count in enumerate(case.counts(unit)):
        size = min(int(count), GROUPS)
        groups.append(np.arange(count) * size // count)
        variants += case.replaced(k, np.eye(size, dtype=bool)[:, groups[k]], unit)
        owner += [k] * size
    values = np.split(case.values(variants, owner), np.cumsum([group[-1] + 1 for group in groups])[:-1])
    return [np.argsort(one[group], kind="stable") for one, group in zip(values, groups, strict=True)]


def measure_changes(case: Case) -> Values:
    """Summed absolute changes a of every method and b of random orders, as a / (a + b).

    So a few sequences whose prediction changes most do not decide alone.
    """
    rng, n = case.rng(1), len(case.x)
    unit: RemovalUnit = "value" if "value" in case.units else case.units[0]
    random = [[rng.permutation(count) for count in case.counts(unit)] for _ in range(RANDOM)]
    by_chance = np.mean([_summed(case, unit, orders) for orders in random], axis=0)
    found: Values = {}
    for name, key in (("difference", lambda one: -abs(one)), ("preservation", np.abs)):
        sums = _of_methods(case, unit, key, _summed)
        both = sums + by_chance
        found[name] = np.where(both == 0, 0.5, sums / np.where(both == 0, 1, both)), np.ones(n)
    return found


def _summed(case: Case, unit: RemovalUnit, orders: list[np.ndarray]) -> np.ndarray:
    """(n,) absolute changes of the prediction, added up, as the first half of an order is replaced one by one."""
    variants, owner = [], []
    for k, order in enumerate(orders):
        count = min(ONE_BY_ONE, max(1, len(order) // 2))
        variants += case.replaced(k, _ranks(order) < np.arange(count + 1)[:, None], unit)
        owner += [k] * (count + 1)
    which = np.array(owner)
    changes = abs(np.diff(case.values(variants, owner)))
    inside = which[1:] == which[:-1]
    return np.bincount(which[1:][inside], changes[inside], len(orders))


def measure_evidence(case: Case) -> Values:
    """Whether every explanation passes, and (n,) whether its inputs act so independently that this can be said."""
    records = encode_all(case.model, case.sequences)
    request: Any = dict(case.request)
    template = explain_all(case.model, case.sequences, "gradient-x-input", unit="feature", threads=1, **request)
    every: list[Explanation] = []
    for found in case.found:
        every += found.results if found.results is not None else _explanations(found, template)
    M, n = len(case.found), len(records)
    verdicts = np.array([one.verdict for one in evidence_of(case.model, records * M, every, ())]).reshape(M, n)
    passed = np.where((verdicts == "not applicable").any(axis=1, keepdims=True), np.nan, verdicts == "passes")
    conclusive = np.isin(verdicts, ("passes", "fails")).any(axis=0)
    return {"evidence": (np.where(conclusive, passed, 0 * passed), conclusive.astype(float))}


def _explanations(found: Relevances, template: Any) -> list[Explanation]:
    """The relevances of a user's function as explanations."""
    every = []
    for k, e in enumerate(template):
        own = e.with_first(relevance=found.steps[k], feature_relevance=taken(found.values, k))
        every.append(replace(own, method="function"))
    return every


def measure_randomisation(case: Case) -> Values:
    """Rank correlation with the relevance of the trained network, as its size, mean over the layers."""
    models = [*cascade(case.model, np.random.default_rng((case.seed[0], 2)))]
    found = np.empty((len(case.found), len(models), len(case.x)))
    for m, explainer in enumerate(case.explainers):
        for layer, model in enumerate(models):
            other = explainer(model, case.sequences, case.request, False, case.threads)
            found[m, layer] = abs(spearman(case.found[m].steps, other.steps))
    return {"randomisation": (found.mean(axis=1), np.ones(len(case.x)))}


def cascade(model: Model, rng: np.random.Generator) -> list[Model]:
    """The model with the weights of its last layer replaced, of its last two, and so on to the first."""
    out: list[Model] = []
    for k in range(len(model.layers) - 1, -1, -1):
        old = model.layers[k]
        if any(True for _ in old.all_arrays()):
            model = model._with(partial(_swapped, {id(old): randomized(old, rng)}))
            out.append(model)
    return out


def _swapped(new: dict[int, Record], record: Any) -> Any:
    return new.get(id(record), record)


def randomized(record: Record, rng: np.random.Generator) -> Record:
    """A layer with normal numbers as large as its own, on the average, in the place of every weight."""
    new = {
        name: rng.normal(0, np.sqrt(np.mean(array**2)), array.shape).astype(array.dtype)
        for name, array in record.arrays()
    }
    return replace(record, **new, **{name: randomized(part, rng) for name, part in record.parts()})


def measure_cost(case: Case) -> Values:
    """Time of an explanation over that of one forward pass."""
    return {"cost": (np.array(case.seconds)[:, None], np.array([case.forward]))}
