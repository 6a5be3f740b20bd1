"""Scores of all coalitions of windows of a sequence, where a network reads in one direction.

Coalitions that agree on the first windows have the same states after these. So states form a tree: after k windows
there are 2^k of them, and the next window is read twice from each, with the values of the input and of the reference.

    windows   0        0 1        0 1 2
    read      x0 -+-> x0 x0 -+-> ...        P windows of T steps: 2^(P+1) T / P steps instead of 2^P T
              x  -+-> x0 x  -+-> ...
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.layers import Cell, Embedding, LastRow
from lrpnumpy.layers.recurrent import STRAIGHT
from lrpnumpy.model import Model
from lrpnumpy.packed import Batch, LookedUp, Packed, vectors

TOGETHER = 256  # sequences that are run at once


class SharedRows(NamedTuple):
    """Rows that many sequences share: sequence s has row ids[t, s] at step t."""

    rows: np.ndarray  # (2 L, D) of the input, then of the reference
    ids: np.ndarray  # (L, n)

    def written(self, batch: Batch) -> Packed:
        """One row for each step of each sequence."""
        return Packed(self.rows[self.ids.ravel()], batch)


States = dict[str, list[np.ndarray]]  # of each recurrent layer: h, and of an LSTM c, (n, H)


def has_states(model: Model) -> bool:
    """Whether states are all that one step hands to the next, and the prediction is made of the last step."""
    sizes = model.sizes
    if model.every:
        return False
    for node in model.nodes:
        from_steps = [name for name in node.inputs if sizes[name].steps]
        if isinstance(node.layer, Cell):
            fits = len(node.inputs) == 1 and all(name in ("", ":last") for name in model.wanted[node.name])
        elif sizes[node.name].steps:
            fits = node.layer.by_step and len(from_steps) == len(node.inputs)
        else:
            fits = isinstance(node.layer, LastRow) or not from_steps
        if not fits:
            return False
    return True


def scores_by_states(model: Model, x: np.ndarray, x0: np.ndarray, player: np.ndarray) -> np.ndarray:
    """(2^P, C) scores of all coalitions; player (T,) rises from 0 to P - 1. The first is the highest bit."""
    cuts = [0, *(np.flatnonzero(np.diff(player)) + 1).tolist(), len(player)]
    windows = [np.ascontiguousarray(np.concatenate([x0[a:b], x[a:b]])) for a, b in pairwise(cuts)]
    start: States = {node.name: node.layer.started for node in model.nodes if isinstance(node.layer, Cell)}
    return _grown(model, start, windows)


def _grown(model: Model, states: States, windows: list[np.ndarray]) -> np.ndarray:
    """Scores of all coalitions of the windows that are left, from some states, one state's after the other's."""
    count = len(next(iter(states.values()))[0])
    if count > TOGETHER // 2:
        halves = np.array_split(np.arange(count), 2)
        parts = [{name: [one[half] for one in own] for name, own in states.items()} for half in halves]
        return np.concatenate([_grown(model, part, windows) for part in parts])
    after, last = _read(model, states, windows[0])
    if len(windows) > 1:
        return _grown(model, after, windows[1:])
    return _scores(model, last)


def _read(model: Model, states: States, window: np.ndarray) -> tuple[States, dict[str, Packed]]:
    """Read a window (2 L, D) from every state, with both values; the states after it, and what vectors are made of."""
    L, n = len(window) // 2, 2 * len(next(iter(states.values()))[0])
    batch = Batch(np.full(n, L))
    shared = SharedRows(window, np.arange(L)[:, None] + L * (np.arange(n) % 2))
    values: dict[str, Any] = {model.main: shared}
    after: States = {}
    for node in model.nodes:
        layer, wanted = node.layer, model.wanted[node.name]
        if not model.sizes[node.inputs[0]].steps:
            continue
        xs = [values[name] for name in node.inputs]
        if isinstance(layer, Cell):
            begin = [one.repeat(2, axis=0) for one in states[node.name]]
            x = xs[0]
            if isinstance(x, SharedRows):  # U x + b is computed once for each row of the table
                x = Packed(x.rows[:0], batch, LookedUp(x.ids.ravel(), Embedding(x.rows)))
            read = layer.read([x], STRAIGHT, None, "" in wanted, begin)
            after[node.name] = read.run.last
            values[f"{node.name}:last"] = Packed(read.last, vectors(n))
            if "" in wanted:
                values[node.name] = Packed(read.output, batch)
        elif isinstance(layer, LastRow):
            (x,) = xs
            rows = x.written(batch).rows if isinstance(x, SharedRows) else x.rows
            values[node.name] = Packed(rows[batch.last], vectors(n))
        elif all(isinstance(x, SharedRows) for x in xs):
            (y,), _ = layer.run([Packed(x.rows, vectors(2 * L)) for x in xs], None, wanted)
            values[node.name] = SharedRows(y.rows, shared.ids)
        else:
            rows = [x.written(batch) if isinstance(x, SharedRows) else x for x in xs]
            (values[node.name],), _ = layer.run(rows, None, wanted)
    return after, values


def _scores(model: Model, values: dict[str, Packed]) -> np.ndarray:
    """The scores, from values that are one vector for each sequence."""
    for node in model.nodes:
        if node.name not in values and not isinstance(node.layer, Cell):
            (values[node.name],), _ = node.layer.run([values[name] for name in node.inputs], None, ("",))
    return values[model.scored].rows
