"""Exact Shapley values: what each player adds to the score, as the mean over all orders in which players can join.

    R_p = sum over S without p of |S|! (P - |S| - 1)! / P! (v(S with p) - v(S))          Shapley 1953

v(S) is the score where the players of S have their own values and all others those of the reference. Players are
windows of steps, or features. P players have 2^P coalitions S, and all of them are run. Where they are windows, and
the network reads in one direction, coalitions with the same beginning share it: see `shapley_tree.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError, shown, whole
from lrpnumpy.encode import EncodedRecord
from lrpnumpy.methods.base import Columns, Question, Request
from lrpnumpy.methods.reference import Referring, finished
from lrpnumpy.methods.shapley_tree import has_states, scores_by_states
from lrpnumpy.model import Model
from lrpnumpy.packed import Batch, Packed
from lrpnumpy.passes import forward

WINDOWS = 12  # by default
FEATURES = 16  # that are players by default, where there is one step
TOGETHER = 256  # coalitions that are run at once
MOST = 4e9  # steps of all coalitions times units of the widest layer: about two minutes

Of = dict[str, np.ndarray]  # by input: (T, D) which player each number belongs to


def _players(value: Any, name: str) -> Any:
    if value is None or (isinstance(value, str) and value == "features"):
        return value
    if isinstance(value, (int, np.integer)):
        return whole(value, name, 1)
    try:
        spans = tuple((whole(a, name, 0), whole(b, name, 1)) for a, b in value)
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(error, LrpError):
            raise
        spans = ()
    if not spans:
        raise LrpError(f"{name} must be 'features', a number of windows, or a list of spans, got {shown(value)}.")
    ends = sorted(spans)
    if any(a >= b for a, b in spans) or any(b > a for (_, b), (a, _) in pairwise(ends)):
        raise LrpError(f"{name} must be spans with start < stop that do not overlap, got {shown(value)}.")
    return spans


def _check_cost(model: Model, of: Of, steps: int, k: int) -> None:
    P = _count(of)
    shares = is_tree(model, of)
    each = 2 * steps / P if shares else steps  # steps of a coalition that no other one shares
    if 2.0**P * each * model.width > MOST:
        fits = max(1, int(math.log2(MOST / (each * model.width))))
        raise LrpError(
            f"players must be fewer for sequence {k}: {P} of them have {2.0**P:.2g} coalitions, "
            f"{2.0**P * each:.2g} steps of the network; try players={min(fits, P - 1)} windows."
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
            for k, (a, b) in enumerate(sorted(players)):
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


def coalitions(count: int, start: int, stop: int) -> np.ndarray:
    """(stop - start, P) who is in: the first player is the highest bit of a coalition's number."""
    return (np.arange(start, stop)[:, None] >> np.arange(count)[::-1] & 1).astype(bool)


def scores_of_all(model: Model, x: dict[str, np.ndarray], x0: dict[str, np.ndarray], of: Of, step: int) -> np.ndarray:
    """(2^P, C) scores of all coalitions of one record, each run from its first step to its last."""
    P = _count(of)
    found = []
    for start in range(0, 1 << P, TOGETHER):
        inside = coalitions(P, start, min(start + TOGETHER, 1 << P))
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
    P = len(v).bit_length() - 1
    sizes = coalitions(P, 0, len(v)).sum(axis=1)
    of_size = np.array([1 / (P * math.comb(P - 1, k)) for k in range(P)] + [0.0])
    weights = of_size[sizes]
    found = []
    for p in range(P):
        shape = 1 << p, 2, -1
        gain = np.diff(v.reshape(*shape, v.shape[1]), axis=1)[:, 0]
        found.append(np.einsum("ab,abc->c", weights.reshape(shape)[:, 0], gain))
    return np.stack(found)


@dataclass(frozen=True)
class Shapley(Referring):
    """Exact Shapley values: what each player adds to the score, as the mean over all orders in which players can join.

    players: "features", a number of windows of steps, or spans (start, stop) of steps, with the remaining steps as one
        more player; default: 12 windows, or features for a single step with at most 16 features.
    """

    players: int | str | Sequence[tuple[int, int]] | None = None

    name = "shapley"
    description = "mean gain of the score when a window of steps, or a feature, joins the others in any order"
    cost = f"Θ(2^P), P players, {WINDOWS} windows by default"
    paper = "Shapley 1953"

    def __post_init__(self) -> None:
        super().__post_init__()
        vars(self)["players"] = _players(self.players, "players")
        vars(self)["feature_relevance"] = "free" if self.players == "features" else "on request"

    def settle(self, request: Request, model: Model, encoded: list[EncodedRecord]) -> Request:
        """The `request` to a `model` with its players, if these are not too many and fit the `encoded` records."""
        players = self.players
        if players is None:
            one_step = len(encoded) > 0 and all(record[model.main].steps == 1 for record in encoded)
            few = sum(port.size or 0 for port in model.inputs.values()) <= FEATURES
            players = "features" if one_step and few else WINDOWS
        if request.unit == "feature" and players != "features":
            raise LrpError("unit must be 'step' or None unless players are 'features', got 'feature'.")
        for k, record in enumerate(encoded):
            sizes = {name: one.steps for name, one in record.items()}
            steps = sizes[model.main]
            if isinstance(players, tuple) and (stop := max(b for _, b in players)) > steps:
                raise LrpError(f"players must be spans of the {steps} steps of sequence {k}, got one up to {stop}.")
            _check_cost(model, players_of(model, sizes, players), steps, k)
        return request._replace(method=replace(self, players=players))

    def run(self, question: Question, wanted: list[np.ndarray]) -> list[Columns]:
        """The answers to a `question`, one for each of the `wanted` targets; one record after the other."""
        trace, references = question.trace, question.request.plan
        model, n, each = trace.model, len(question.scores), references.each
        shares: dict[str, list[np.ndarray]] = {name: [] for name in trace.inputs}  # for each record (T, D, C)
        scores = np.zeros((n, model.outputs))
        split = {name: x.batch.split(x.rows) for name, x in trace.inputs.items()}
        referred = [
            {name: x.batch.split(x.rows) for name, x in references.packed(k, trace.inputs).items()}
            for k in range(len(each))
        ]
        for s in range(n):
            x = {name: parts[s] for name, parts in split.items()}
            of = players_of(model, {name: len(rows) for name, rows in x.items()}, self.players)
            values = np.zeros((_count(of), model.outputs))
            for parts in referred:
                x0 = {name: part[s] for name, part in parts.items()}
                if is_tree(model, of):
                    v = scores_by_states(model, x[model.main], x0[model.main], of[model.main][:, 0])
                else:
                    v = scores_of_all(model, x, x0, of, -1 if question.steps is None else int(question.steps[s]))
                v = v.astype(np.float64)
                values += shapley_values(v) / len(each)
                scores[s] += v[0] / len(each)
            size = np.bincount(np.concatenate([own.ravel() for own in of.values()]))
            for name, own in of.items():
                shares[name].append((values / size[:, None])[own])
        dtype = question.scores.dtype
        rows = {name: trace.inputs[name].batch.pack(np.concatenate(parts)) for name, parts in shares.items()}
        out = []
        for targets in wanted:
            relevance = {
                name: question.combined(part, targets[trace.inputs[name].batch.owner]).astype(dtype)
                for name, part in rows.items()
            }
            out.append(finished(question, targets, relevance, scores.astype(dtype)))
        return out
