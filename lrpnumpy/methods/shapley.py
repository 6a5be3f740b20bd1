"""Shapley values: what each player adds to the score, as the mean over all orders in which players can join.

    R_p = sum over S without p of |S|! (P - |S| - 1)! / P! (v(S with p) - v(S))          Shapley 1953
    I_pq = 2 / P sum over S without p, q of (v(S with p, q) - v(S with p) - v(S with q) + v(S)) / binom(P - 1, |S|)
    I_pp = v(p) - v(nobody)              Shapley-Taylor interaction index, Sundararajan, Dhamdhere & Agarwal 2020

v(S) is the score where the players of S have their own values and all others those of the reference. Players are
windows of steps, or features. P players have 2^P coalitions S, and all of them are run. Where they are windows, and
the network reads in one direction, coalitions with the same beginning share it: see `shapley_tree.py`. Of many players
orders are drawn instead, each with its reverse, until the standard errors are small (Mitchell et al. 2022).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError, entries, is_number, shown, whole
from lrpnumpy.encode import EncodedRecord
from lrpnumpy.fields import by_target
from lrpnumpy.methods.base import Columns, Question, Request, has_features
from lrpnumpy.methods.reference import Referring, finished, unit_of
from lrpnumpy.methods.shapley_tree import has_states, scores_by_states
from lrpnumpy.model import Model
from lrpnumpy.packed import Batch, Packed
from lrpnumpy.passes import forward
from lrpnumpy.result import Players

WINDOWS = 12  # by default
FEATURES = 16  # that are players by default, where there is one step
TOGETHER = 256  # coalitions that are run at once
MOST = 4e9  # steps of all coalitions times units of the widest layer: about two minutes
EXACT = 10  # players: up to this number, all coalitions are fewer than a sample
PAIRS = 8  # orders that are drawn at a time, each with its reverse

Rows = dict[str, np.ndarray]  # by input: (T, D)
Of = dict[str, np.ndarray]  # by input: (T, D) which player each number belongs to


def _players(value: Any) -> Any:
    """The players of an option, spans as pairs of whole numbers in their order."""
    if value is None or (isinstance(value, str) and value == "features"):
        return value
    if isinstance(value, (int, np.integer)):
        return whole(value, "players", 1)
    given = entries(value, "players") if np.iterable(value) else []
    try:
        spans = sorted((whole(a, "players", 0), whole(b, "players", 1)) for a, b in given)
    except (TypeError, ValueError, RecursionError):
        spans = []
    if not spans or any(a >= b for a, b in spans) or any(b > a for (_, b), (a, _) in pairwise(spans)):
        raise LrpError(
            "players must be 'features', a number of windows, or a list of spans (start, stop) that do not overlap, "
            f"got {shown(value)}."
        )
    return tuple(spans)


def _check_cost(model: Model, of: Of, steps: int, k: int) -> None:
    """Raise if all coalitions of the players of record k take too long; beginnings that they share are run once."""
    P = _count(of)
    cost = (2 * steps / P if is_tree(model, of) else steps) * model.width  # of a coalition
    if 2.0**P * cost > MOST:
        fits = min(max(1, int(math.log2(MOST / cost))), P - 1)
        raise LrpError(
            f"players must be fewer for sequence {k}: {P} of them have {2.0**P:.2g} coalitions; try players={fits} "
            "windows, or error=0.02 to draw orders at random."
        )


def players_of(model: Model, sizes: dict[str, int], players: Any) -> Of:
    """The player of each number of a record, given the number of steps of its inputs.

    With windows every other input of the network is one player.
    """
    found, count, T = {}, 0, sizes[model.main]
    for name, port in model.inputs.items():
        shape: Any = sizes[name], port.size
        own: Any = None
        if players == "features":
            own = np.arange(shape[1])
        elif name != model.main:
            own = np.zeros(1, np.int64)
        elif isinstance(players, int):
            own = (np.arange(T) * min(players, T) // T)[:, None]
        else:
            own = np.full((T, 1), len(players))
            for k, (a, b) in enumerate(players):
                own[a:b] = k
        found[name] = np.broadcast_to(own + count, shape)
        count += int(own.max()) + 1
    return found


def _count(of: Of) -> int:
    return 1 + max(int(own.max()) for own in of.values())


def is_tree(model: Model, of: Of) -> bool:
    """Whether coalitions share their beginnings: windows, one behind the other, of a network that allows it."""
    own = of[model.main]
    by_time = (own == own[:, :1]).all() and (np.diff(own[:, 0]) >= 0).all()
    return bool(by_time) and len(model.inputs) == 1 and has_states(model)


def coalitions(count: int) -> np.ndarray:
    """(2^P, P) who is in: the first player is the highest bit of a coalition's number."""
    return (np.arange(1 << count)[:, None] >> np.arange(count)[::-1] & 1).astype(bool)


def scores_of(
    model: Model, x: dict[str, np.ndarray], x0: dict[str, np.ndarray], of: Of, step: int, members: np.ndarray
) -> np.ndarray:
    """(K, C) scores of K coalitions `members` (K, P) of one record, each run from its first step to its last."""
    found = []
    for start in range(0, len(members), TOGETHER):
        inside = members[start : start + TOGETHER]
        inputs = {}
        for name, own in of.items():
            rows = np.where(inside[:, own].swapaxes(0, 1), x[name][:, None], x0[name][:, None])  # (T, coalitions, D)
            rows = np.ascontiguousarray(rows.reshape(-1, own.shape[1]))
            inputs[name] = Packed(rows, Batch(np.full(len(inside), len(own))))
        output = forward(model, inputs).output
        found.append(output.rows[output.batch.first[step] + np.arange(len(inside))] if model.every else output.rows)
    return np.concatenate(found)


def shapley_values(v: np.ndarray) -> np.ndarray:
    """(P, C) from the scores (2^P, C) of all coalitions."""
    inside, bits, weights = _weighted(len(v))
    found = []
    for p, bit in enumerate(bits):
        S = np.flatnonzero(~inside[:, p])
        found.append(weights[S] @ (v[S | bit] - v[S]))
    return np.stack(found)


def _weighted(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of 2^P coalitions who is in (2^P, P), the bit of each player, and the weight of what another one adds."""
    P = count.bit_length() - 1
    inside = coalitions(P)
    weights = np.array([1 / (P * math.comb(P - 1, k)) for k in range(P)] + [0.0])
    return inside, 1 << np.arange(P)[::-1], weights[inside.sum(axis=1)]


def interactions(v: np.ndarray) -> np.ndarray:
    """(P, P, C) from the scores (2^P, C) of all coalitions: I_pp, and half of I_pq at (p, q) and at (q, p).

    A row adds up to the Shapley value of its player, and all of them to v(everybody) - v(nobody).
    """
    inside, bits, weights = _weighted(len(v))
    P = len(bits)
    found = np.zeros((P, P, v.shape[1]))
    for p in range(P):
        found[p, p] = v[bits[p]] - v[0]
    for p, q in combinations(range(P), 2):
        S = np.flatnonzero(~inside[:, p] & ~inside[:, q])
        together = v[S | bits[p] | bits[q]] - v[S | bits[p]] - v[S | bits[q]] + v[S]
        found[p, q] = found[q, p] = weights[S] @ together
    return found


def sampled(
    scores: Callable[[np.ndarray], np.ndarray], P: int, most: int, is_enough: Callable[[np.ndarray], bool]
) -> np.ndarray:
    """(n, P, C) gains of the players in n orders, each the mean of an order and its reverse.

    scores: from coalitions (K, P) to (K, C). Drawing ends if `is_enough` is true, or with `most` orders.
    """
    rng = np.random.default_rng(0)
    found = np.zeros((0, P, 1))
    while len(found) < most and not (len(found) and is_enough(found)):
        orders = np.array([rng.permutation(P) for _ in range(PAIRS)])
        both = np.concatenate([orders, orders[:, ::-1]])
        place = both.argsort(axis=1)  # (2 PAIRS, P) when each player joins
        members = place[:, None, :] < np.arange(P + 1)[:, None]  # (2 PAIRS, P + 1, P)
        v = scores(members.reshape(-1, P)).reshape(2 * PAIRS, P + 1, -1)
        gains = np.take_along_axis(np.diff(v, axis=1), place[:, :, None], axis=1)
        drawn = (gains[:PAIRS] + gains[PAIRS:]) / 2
        found = np.concatenate([found, drawn]) if len(found) else drawn
    return found


def standard_error(gains: np.ndarray) -> np.ndarray:
    """(P, …) standard error of the mean of gains (n, P, …)."""
    return gains.std(axis=0, ddof=1) / math.sqrt(len(gains))


class PlayerShares(NamedTuple):
    """The players of one record and what they receive of every score."""

    of: Of
    values: np.ndarray  # (P, C)
    reference: np.ndarray  # (C,) the score of nobody
    pairs: np.ndarray | None  # (P, P, C) interactions
    gains: np.ndarray | None  # (n, P, C) of orders that were drawn


@dataclass(frozen=True)
class Shapley(Referring):
    """Shapley values: what each player adds to the score, as the mean over all orders in which players can join.

    players: "features", a number of windows of steps, or spans (start, stop) of steps, with the remaining steps as one
        more player; default: 12 windows, or features for a single step with at most 16 features.
    order: 2 also gives the interactions of any two players, which add up to the score difference, see `Players`.
    error: draw orders of more than 10 players at random until every standard error is at most this, relative to
        f(x) - f(reference); by default all coalitions are run.
    """

    players: int | str | Sequence[tuple[int, int]] | None = None
    order: int = 1
    error: float | None = None

    takes_windows = False
    name = "shapley"
    description = "mean gain of the score when a window of steps, or a feature, joins the others in any order"
    cost = f"Θ(2^P), P players, {WINDOWS} windows by default"
    paper = "Shapley 1953"

    def __post_init__(self) -> None:
        super().__post_init__()
        vars(self)["players"] = _players(self.players)
        vars(self)["feature_relevance"] = "free" if self.players == "features" else "on request"
        if whole(self.order, "order", 1) > 2:
            raise LrpError(f"order must be 1, or 2 for interactions of two players, got {self.order}.")
        if self.error is not None and not (is_number(self.error, float) and self.error > 0):
            raise LrpError(f"error must be a positive number, such as 0.02, or None, got {shown(self.error)}.")

    def settle(self, request: Request, model: Model, encoded: list[EncodedRecord]) -> Request:
        """The `request` to a `model` with its players, if these are not too many and fit the `encoded` records."""
        players = self.players
        if players is None:
            is_one_step = {record[model.main].steps for record in encoded} == {1}
            few = sum(port.size or 0 for port in model.inputs.values()) <= FEATURES
            players = "features" if is_one_step and few else WINDOWS
        if request.unit == "feature" and players != "features":
            raise LrpError("unit must be 'step' or None unless players are 'features', got 'feature'.")
        for k, record in enumerate(encoded):
            sizes = {name: one.steps for name, one in record.items()}
            steps = sizes[model.main]
            if isinstance(players, tuple) and (stop := max(b for _, b in players)) > steps:
                raise LrpError(f"players must be spans of the {steps} steps of sequence {k}, got one up to {stop}.")
            of = players_of(model, sizes, players)
            if not self._draws(of):
                _check_cost(model, of, steps, k)
            elif self.order > 1:
                raise LrpError(f"order must be 1 where orders are drawn; leave out error, or try players={EXACT}.")
        method = replace(self, players=players)
        by_feature, options = has_features(method, request.unit), {**method.settings(request.plan), **request.options}
        return request._replace(method=method, by_feature=by_feature, options=options)

    def _draws(self, of: Of) -> bool:
        """Whether orders are drawn at random, instead of running all coalitions."""
        return self.error is not None and _count(of) > EXACT

    def most_gap(self, dtype: np.dtype) -> float:
        """How large gap and standard errors may be in this `dtype`, relative to |f(x) - f(reference)|."""
        return super().most_gap(dtype) if self.error is None else self.error

    def advice(self) -> str:
        """What to try where relevance is doubtful."""
        if self.error is None:
            return ""
        return f"try a larger error than {self.error:g}, or fewer players"

    def run(self, question: Question, wanted: list[np.ndarray]) -> list[Columns]:
        """The answers to a `question`, one for each of the `wanted` targets; one record after the other."""
        trace = question.trace
        every = self._shares(question, wanted)
        scores = np.stack([one.reference for one in every]).astype(question.scores.dtype)
        out = []
        for targets in wanted:
            players = [self._players(question, one, int(c)) for one, c in zip(every, targets, strict=True)]
            parts: dict[str, list[np.ndarray]] = {name: [] for name in trace.inputs}  # for each record (T, D)
            for one, own in zip(every, players, strict=True):
                size = np.bincount(np.concatenate([places.ravel() for places in one.of.values()]))
                for name, places in one.of.items():
                    parts[name].append((own.relevance / size)[places])
            relevance = {
                name: trace.inputs[name].batch.pack(np.concatenate(some)).astype(scores.dtype)
                for name, some in parts.items()
            }
            errors = [0.0 if one.error is None else one.error.max() for one in players]
            columns = finished(question, targets, relevance, scores, error=np.array(errors, scores.dtype))
            columns.players = by_target(lambda array: array.astype(scores.dtype), players)
            out.append(columns)
        return out

    def _players(self, question: Question, shares: PlayerShares, target: int) -> Players:
        """What the players of one record receive of one target."""

        def combined(values: np.ndarray | None) -> Any:
            if values is None:
                return None
            return _of_target(values, target, question.request.versus)

        gains = combined(shares.gains)
        error = None if gains is None else standard_error(gains)
        names = names_of(question.trace.model, shares.of, self.players)
        return Players(names, combined(shares.values), error, combined(shares.pairs))

    def _shares(self, question: Question, wanted: list[np.ndarray]) -> list[PlayerShares]:
        """The players of all records."""
        trace, references = question.trace, question.request.plan
        split = {name: x.batch.split(x.rows) for name, x in trace.inputs.items()}
        referred = [
            {name: x.batch.split(x.rows) for name, x in references.packed(k, trace.inputs).items()}
            for k in range(len(references.each))
        ]
        found = []
        for s in range(len(question.scores)):
            x = {name: parts[s] for name, parts in split.items()}
            x0s = [{name: part[s] for name, part in parts.items()} for parts in referred]
            step = -1 if question.steps is None else int(question.steps[s])
            of = players_of(trace.model, {name: len(rows) for name, rows in x.items()}, self.players)
            if self._draws(of):
                targets = [int(some[s]) for some in wanted]
                found.append(self._drawn(question, x, x0s, of, step, targets))
            else:
                found.append(self._exact(trace.model, x, x0s, of, step))
        return found

    def _exact(self, model: Model, x: Rows, x0s: list[Rows], of: Of, step: int) -> PlayerShares:
        """What the players of one record receive, from all coalitions."""
        every = []
        for x0 in x0s:
            if is_tree(model, of):
                every.append(scores_by_states(model, x[model.main], x0[model.main], of[model.main][:, 0]))
            else:
                every.append(scores_of(model, x, x0, of, step, coalitions(_count(of))))
        v = np.stack(every).astype(np.float64).mean(axis=0)
        return PlayerShares(of, shapley_values(v), v[0], interactions(v) if self.order == 2 else None, None)

    def _drawn(
        self, question: Question, x: Rows, x0s: list[Rows], of: Of, step: int, targets: list[int]
    ) -> PlayerShares:
        """What the players of one record receive, from random orders."""
        model, versus, P = question.trace.model, question.request.versus, _count(of)

        def scores(members: np.ndarray) -> np.ndarray:
            every = [scores_of(model, x, x0, of, step, members) for x0 in x0s]
            return np.stack(every).astype(np.float64).mean(axis=0)

        ends = scores(np.stack([np.zeros(P, bool), np.ones(P, bool)]))

        def is_enough(gains: np.ndarray) -> bool:
            for target in targets:
                reference, score = _of_target(ends, target, versus)
                most = float(self.error or 0) * unit_of(score, reference, versus)
                if standard_error(_of_target(gains, target, versus)).max() > most:
                    return False
            return True

        steps = len(x[model.main]) * len(x0s) * model.width
        gains = sampled(scores, P, max(1, int(MOST / (2 * P * steps))), is_enough)
        return PlayerShares(of, gains.mean(axis=0), ends[0], None, gains)


def _of_target(values: np.ndarray, target: int, versus: int | None) -> np.ndarray:
    """(…, C) to (…): the target's value, less that of the class it is held against."""
    if versus is None:
        return values[..., target]
    return values[..., target] - values[..., versus]


def names_of(model: Model, of: Of, players: Any) -> tuple[str, ...]:
    """A name for each player: a feature, "steps 3 to 5", or the name of an input."""
    found: dict[int, str] = {}
    for name, own in of.items():
        port, before = model.inputs[name], f"{name}: " if len(of) > 1 else ""
        if players == "features":
            features = port.features or [f"x{d}" for d in range(own.shape[1])]
            found |= {int(p): before + feature for p, feature in zip(own[0], features, strict=True)}
            continue
        for p in np.unique(own):
            steps = np.flatnonzero(own[:, 0] == p)
            if name != model.main:
                found[int(p)] = name
            elif steps[-1] - steps[0] >= len(steps):
                found[int(p)] = "other steps"
            else:
                found[int(p)] = f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}"
    return tuple(found[p] for p in sorted(found))
