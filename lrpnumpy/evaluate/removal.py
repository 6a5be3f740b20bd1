"""Removal: if a relevance is right, the prediction falls when what it names is taken away, and stays when it is kept.

Steps (or features) are removed in order of relevance, a tenth at a time, the most relevant first and the least relevant
first. The area over the curve of the prediction is scaled: 0 is a random order, 100 the best order that a beam search,
or any of the methods, finds, so that figures of two networks can be compared (Samek et al. 2017; DeYoung et al. 2020).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from lrpnumpy.evaluate.case import Case, Values

RUNS = 5  # random orders of each sequence
WIDTH = 2  # of the beam
GROUPS = 32  # longer sequences are searched in so many groups of neighbouring steps
SHARES = (1, 2, 5)  # tenths that comprehensiveness and sufficiency look at


@cache
def levels(count: int) -> np.ndarray:
    """(L,) how many of `count` are removed at each level: about every tenth, from one to all but one."""
    if count < 2:
        return np.empty(0, np.int64)
    below = [_share(count, tenth) for tenth in range(1, 6)]
    return np.unique([*below, *(count - one for one in below)])


def _share(count: int, tenths: int) -> int:
    return int(np.clip(round(count * tenths / 10), 1, count - 1))


def measure(case: Case) -> Values:
    """Scaled areas, comprehensiveness and sufficiency of every method."""
    n, rng = len(case.x), case.rng(1)
    every = np.arange(n)
    whole = case.values(case.sequences, every)
    usable = np.flatnonzero(case.counts > 1)  # where there is only one thing to remove there is no order
    random = [[rng.permutation(count) for count in case.counts] for _ in range(RUNS)]
    orders = [[np.argsort(-one, kind="stable") for one in method] for method in case.relevances]
    out: Values = {}
    for name, sign in (("most", 1), ("least", -1)):
        by_method = [_curves(case, whole, [one[::sign] for one in some], usable) for some in orders]
        areas = np.array([[curve.mean() for curve in curves] for curves in by_method])  # (M, n)
        by_chance = np.mean([[curve.mean() for curve in _curves(case, whole, some, usable)] for some in random], axis=0)
        best = search(case, whole, usable, lowest=name == "most")
        best = sign * np.max([sign * best, *(sign * areas)], axis=0)  # a method may find what the search does not
        out[name] = sign * (areas - by_chance), sign * (best - by_chance)
        at = []
        for count in case.counts[usable]:
            some = np.array([_share(count, tenths) for tenths in SHARES])
            at.append(np.searchsorted(levels(count), some if name == "most" else count - some))
        falls = np.array([[curve[k].mean() for curve, k in zip(curves, at, strict=True)] for curves in by_method])
        out["comprehensiveness" if name == "most" else "sufficiency"] = falls, np.ones(len(usable))
    return out


def _curves(case: Case, whole: np.ndarray, orders: list[np.ndarray], usable: np.ndarray) -> list[np.ndarray]:
    """For each usable sequence (L,): how far the prediction has fallen at every level when removed in this order."""
    variants, which = [], []
    for k in usable:
        rank = np.empty(case.counts[k], np.int64)
        rank[orders[k]] = np.arange(len(rank))
        steps = levels(len(rank))
        variants += case.removed(k, rank < steps[:, None])
        which += [k] * len(steps)
    owner = np.array(which, np.int64)
    fallen = whole[owner] - case.values(case.with_vectors(variants, owner), owner) if len(owner) else np.empty(0)
    return np.split(fallen, np.cumsum([len(levels(case.counts[k])) for k in usable])[:-1]) if len(usable) else []


def search(case: Case, whole: np.ndarray, usable: np.ndarray, lowest: bool) -> np.ndarray:
    """(n,) the largest mean fall (or with lowest=False the smallest) along an order that a beam search finds.

    From each kept state everything that is left is removed in turn. Where a level removes several at once, those that
    matter most by themselves go, and the last of them is varied.
    """
    sign = 1 if lowest else -1
    sizes = {k: min(int(case.counts[k]), GROUPS) for k in usable}
    groups = {k: np.arange(case.counts[k]) * sizes[k] // case.counts[k] for k in usable}
    steps = {k: np.diff(levels(sizes[k]), prepend=0) for k in usable}
    beam = {k: [(0.0, np.zeros(sizes[k], bool))] for k in usable}  # sum of falls so far, what is gone

    def fallen(masks: dict[tuple[int, int], np.ndarray]) -> dict[tuple[int, int], np.ndarray]:
        """How far the prediction falls with every mask (V, groups), of all sequences at once."""
        if not masks:
            return {}
        variants = [one for (k, _), some in masks.items() for one in case.removed(k, some[:, groups[k]])]
        owner = np.repeat([k for k, _ in masks], [len(some) for some in masks.values()])
        falls = whole[owner] - case.values(case.with_vectors(variants, owner), owner)
        return dict(zip(masks, np.split(falls, np.cumsum([len(some) for some in masks.values()])[:-1]), strict=True))

    for level in range(max((len(one) for one in steps.values()), default=0)):
        states = {(k, b): gone for k in usable if level < len(steps[k]) for b, (_, gone) in enumerate(beam[k])}
        left = {key: np.flatnonzero(~gone) for key, gone in states.items()}
        alone = fallen({key: states[key] | np.eye(len(states[key]), dtype=bool)[rest] for key, rest in left.items()})
        tried: dict[tuple[int, int], np.ndarray] = {}
        for key, rest in left.items():
            order, m = rest[np.argsort(-sign * alone[key], kind="stable")], steps[key[0]][level]
            several = np.repeat(states[key][None], min(WIDTH, len(rest) - m + 1), axis=0)
            several[:, order[: m - 1]] = True
            several[np.arange(len(several)), order[m - 1 : m - 1 + len(several)]] = True
            tried[key] = several
        known = {  # one at a time: these were tried already
            key: np.sort(-sign * alone[key])[: len(some)] * -sign
            for key, some in tried.items()
            if steps[key[0]][level] == 1
        }
        falls = known | fallen({key: some for key, some in tried.items() if key not in known})
        for k in {key[0] for key in states}:
            found: dict[bytes, tuple[float, np.ndarray]] = {}
            for b, (before, _) in enumerate(beam[k]):
                for fall, gone in zip(falls[k, b], tried[k, b], strict=True):
                    total = before + fall
                    if gone.tobytes() not in found or sign * total > sign * found[gone.tobytes()][0]:
                        found[gone.tobytes()] = (float(total), gone)
            beam[k] = sorted(found.values(), key=lambda state: -sign * state[0])[:WIDTH]
    return np.array([beam[k][0][0] / len(steps[k]) for k in usable])
