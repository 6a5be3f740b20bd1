"""Removal and changes: what happens to the prediction when the inputs that a relevance names are replaced.

Removal replaces steps, features or single values together, about a tenth at a time, the most relevant first and the
least relevant first. The area between the two curves of the prediction is 0 for a random order; 100 is that of the best
order found (Samek et al. 2017).

Replaced together, inputs that raise the prediction and inputs that lower it cancel. So changes replaces one after the
other in the order of |relevance| and adds up the absolute changes of the prediction: the most relevant first, which
should change it much (cumulative prediction difference), and the least relevant first, which should not (cumulative
prediction preservation; Jang et al. 2025, TIMING).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from lrpnumpy.evaluate.case import Case, RemovalUnit, Values

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
        areas = np.full((len(case.explainers), len(case.x)), np.nan)
        for m in range(len(case.explainers)):
            relevance = case.relevance(m, unit)
            if relevance is not None:
                areas[m] = _areas(case, unit, [np.argsort(-one, kind="stable") for one in relevance])
        by_effect = _areas(case, unit, _orders_by_effect(case, unit))
        known = areas[~np.isnan(areas).any(axis=1)]
        found[f"{unit}s"] = areas, np.max([by_effect, *known], axis=0)
    return found


def _areas(case: Case, unit: RemovalUnit, orders: list[np.ndarray]) -> np.ndarray:
    """(n,) how much further the prediction falls if the first of an order go first than if the last do."""
    variants, owner, sign = [], [], []
    for k, order in enumerate(orders):
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        steps = levels(len(order))[:, None]
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
    for name, sign in (("difference", -1), ("preservation", 1)):
        sums = np.full((len(case.explainers), n), np.nan)
        for m in range(len(case.explainers)):
            relevance = case.relevance(m, unit)
            if relevance is not None:
                sums[m] = _summed(case, unit, [np.argsort(sign * abs(one), kind="stable") for one in relevance])
        both = sums + by_chance
        found[name] = np.where(both == 0, 0.5, sums / np.where(both == 0, 1, both)), np.ones(n)
    return found


def _summed(case: Case, unit: RemovalUnit, orders: list[np.ndarray]) -> np.ndarray:
    """(n,) absolute changes of the prediction, added up, as the first half of an order is replaced one by one."""
    variants, owner = [], []
    for k, order in enumerate(orders):
        count = min(ONE_BY_ONE, max(1, len(order) // 2))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        variants += case.replaced(k, rank < np.arange(count + 1)[:, None], unit)
        owner += [k] * (count + 1)
    which = np.array(owner)
    changes = abs(np.diff(case.values(variants, owner)))
    inside = which[1:] == which[:-1]
    return np.bincount(which[1:][inside], changes[inside], len(orders))
