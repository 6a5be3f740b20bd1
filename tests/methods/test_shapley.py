"""Exact Shapley values: against a sum over all coalitions that only calls `predict`, and the laws of Shapley."""

import dataclasses
import itertools
import math

import networks as nets
import numpy as np
import pytest
from graphs import graphs, records
from hypothesis import given
from hypothesis import strategies as st
from networks import close

import lrpnumpy as lrp
from lrpnumpy.methods import shapley, shapley_tree
from lrpnumpy.methods.shapley import TOGETHER, is_tree, players_of

RNG = np.random.default_rng(6)


def brute(model, x, x0, groups, target, step=None):
    """Shapley values of groups, lists of (input, index into its array), from the definition."""

    def v(inside):
        mixed = {name: np.array(rows, float) for name, rows in x0.items()}
        for p in inside:
            for name, where in groups[p]:
                mixed[name][where] = x[name][where]
        f = lrp.predict(model, mixed if len(mixed) > 1 else mixed[model.main])
        return f[-1 if step is None else step][target] if model.every else f[target]

    P, found = len(groups), []
    for p in range(P):
        rest, total = [q for q in range(P) if q != p], 0.0
        for k in range(P):
            for S in itertools.combinations(rest, k):
                weight = math.factorial(k) * math.factorial(P - k - 1) / math.factorial(P)
                total += weight * (v([*S, p]) - v(S))
        found.append(total)
    return np.array(found)


def windows(name, T, count):
    cuts = [-(-T * k // count) for k in range(count + 1)]  # as many steps each as can be
    return [[(name, slice(a, b))] for a, b in itertools.pairwise(cuts)]


def per_player(relevance, groups):
    return [sum(relevance[where].sum() for _, where in group) for group in groups]


@given(st.data())
@nets.examples(40)
def test_windows_are_brute_force(data):
    """Of chains of layers in one direction or two, with every readout."""
    model = data.draw(nets.networks(stacks=2))
    T = data.draw(st.integers(1, 7))
    x, v = np.random.default_rng(T).normal(size=(T, model.input_size)), np.linspace(-1, 1, model.input_size)
    count = data.draw(st.integers(1, min(4, T)))
    found = lrp.explain(model, x, "shapley", 1, players=count, reference=v)
    groups = windows("x", T, count)
    want = brute(model, {"x": x}, {"x": np.tile(v, (T, 1))}, groups, 1)
    close(per_player(found.relevance, groups), want, 1e-12, 1 + np.abs(lrp.predict(model, x)).max())


@given(st.data())
@nets.examples(20)
def test_random_graphs_are_brute_force(data):
    """With several inputs each other one is a player of its own."""
    model = data.draw(graphs(8))
    (x,) = data.draw(records(model, 1))
    x0 = {name: np.zeros_like(rows) for name, rows in x.items()}
    found = lrp.explain(model, x if len(x) > 1 else x["x"], "shapley", 0, players=3)
    others = [name for name in x if name != "x"]
    groups = windows("x", len(x["x"]), 3) + [[(name, slice(None))] for name in others]
    want = brute(model, x, x0, groups, 0)
    unit = 1 + np.abs(lrp.predict(model, x if len(x) > 1 else x["x"])).max()
    close(per_player(found.relevance, groups[:3]), want[:3], 1e-12, unit)
    for name, value in zip(others, want[3:], strict=True):
        close(found.inputs[name].relevance.sum(), value, 1e-12, unit)


def model_of(rng, *layers, **options):
    return lrp.Model([*layers, nets.dense(rng, layers[-1].outputs, 2)], **options)


def test_features_are_brute_force():
    rng = np.random.default_rng(1)
    model = model_of(rng, nets.gru(rng, 4, 5))
    xs = [rng.normal(size=(T, 4)) for T in (3, 5)]
    for x, found in zip(xs, lrp.explain_all(model, xs, "shapley", 0, players="features"), strict=True):
        groups = [[("x", (slice(None), d))] for d in range(4)]
        want = brute(model, {"x": x}, {"x": np.zeros_like(x)}, groups, 0)
        close(found.feature_relevance.sum(axis=0), want, 1e-12, 1)
        close(found.relevance, found.feature_relevance.sum(axis=1))


def test_spans_and_the_rest():
    rng = np.random.default_rng(2)
    model, x = model_of(rng, nets.lstm(rng, 2, 4)), rng.normal(size=(8, 2))
    for spans, rest in (([(1, 3), (5, 6)], [0, 3, 4, 6, 7]), ([(0, 3), (3, 6)], [6, 7])):
        found = lrp.explain(model, x, "shapley", 0, players=spans)
        groups = [[("x", slice(a, b))] for a, b in spans] + [[("x", rest)]]
        want = brute(model, {"x": x}, {"x": np.zeros_like(x)}, groups, 0)
        close(per_player(found.relevance, groups), want, 1e-12, 1)
        assert list(found.options["players"]) == spans


def test_a_stack_with_layers_between_shares_beginnings(monkeypatch):
    """And gives the same as running every coalition; with more states than are run at once."""
    rng = np.random.default_rng(3)
    layers = [
        nets.dense(rng, 3, 4, "tanh"),
        nets.lstm(rng, 4, 5),
        lrp.layers.LayerNorm(np.ones(5)),
        nets.gru(rng, 5, 4),
    ]
    x = rng.normal(size=(9, 3))
    for readout in ("last", "last-row"):
        model = model_of(rng, *layers, readout=readout)
        assert is_tree(model, players_of(model, {"x": 9}, 5))
        monkeypatch.setattr(shapley_tree, "TOGETHER", 4)
        shared = lrp.explain(model, x, "shapley", 1, players=5)
        monkeypatch.setattr(shapley_tree, "TOGETHER", TOGETHER)
        close(lrp.explain(model, x, "shapley", 1, players=5).relevance, shared.relevance)
        monkeypatch.setattr(shapley, "is_tree", lambda *_: False)
        close(lrp.explain(model, x, "shapley", 1, players=5).relevance, shared.relevance)
        monkeypatch.undo()
    two_way = model_of(rng, nets.two_way(rng, 3, 2))
    assert not is_tree(two_way, players_of(two_way, {"x": 9}, 5))


def test_symmetric_players_are_equal_and_dummies_get_nothing():
    rng = np.random.default_rng(4)
    cell = nets.lstm(rng, 4, 5)
    U = np.array(cell.U)
    U[:, :, 1], U[:, :, 3] = U[:, :, 0], 0  # features 0 and 1 do the same, feature 3 does nothing
    model = model_of(rng, lrp.LSTM(U, cell.W, cell.b))
    x = rng.normal(size=(6, 4))
    x[:, 1] = x[:, 0]
    found = lrp.explain(model, x, "shapley", 0, players="features").feature_relevance.sum(axis=0)
    close(found[0], found[1], 1e-12, 1)
    assert found[3] == 0
    x[2:4] = 0.5  # the second of three windows is the reference
    found = lrp.explain(model, x, "shapley", 0, players=3, reference=np.full(4, 0.5))
    assert (found.relevance[2:4] == 0).all() and (found.relevance[:2] != 0).all()


def test_by_default_twelve_windows_or_features_of_one_step():
    rng = np.random.default_rng(5)
    model = model_of(rng, nets.lstm(rng, 3, 4))
    assert lrp.explain(model, rng.normal(size=(30, 3)), "shapley").options["players"] == 12
    short = lrp.explain(model, rng.normal(size=(5, 3)), "shapley")
    close(short.relevance.sum(), short.ledger.score - short.ledger.reference)
    one = lrp.explain(model, rng.normal(size=(1, 3)), "shapley")
    assert one.options["players"] == "features" and one.feature_relevance.shape == (1, 3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"players": 40}, "players must be fewer for sequence 0: 40 of them have 1.1e.12 coalitions.*try players=2"),
        ({"players": "steps"}, "must be 'features', a number of windows, or a list"),
        ({"players": [(0, 3), (2, 4)]}, "do not overlap"),
        ({"players": [(0, 60)]}, "spans of the 50 steps of sequence 0, got one up to 60"),
        ({"players": 0}, "whole number of at least 1"),
        ({"players": 4, "unit": "feature"}, "unit must be 'step' or None unless players are 'features'"),
    ],
)
def test_players_that_cannot_be(options, words):
    rng = np.random.default_rng(7)
    with pytest.raises(lrp.LrpError, match=words):
        lrp.explain(model_of(rng, nets.lstm(rng, 3, 4)), np.ones((50, 3)), "shapley", **options)


# ---- interactions, and orders drawn at random ----


def taylor(model, x, groups, target):
    """Shapley-Taylor values of order 2: the mean over all orders of what a pair does when the later one joins."""

    known = {}

    def v(inside):
        key = frozenset(inside)
        if key not in known:
            mixed = np.zeros_like(x)
            for p in inside:
                mixed[groups[p]] = x[groups[p]]
            known[key] = lrp.predict(model, mixed)[target]
        return known[key]

    P = len(groups)
    found = np.zeros((P, P))
    for p in range(P):
        found[p, p] = v([p]) - v([])
    orders = [*itertools.permutations(range(P))]
    for order in orders:
        for p, q in itertools.combinations(range(P), 2):
            before = order[: min(order.index(p), order.index(q))]
            gain = v([*before, p, q]) - v([*before, p]) - v([*before, q]) + v(before)
            found[p, q] += gain / len(orders) / 2
            found[q, p] += gain / len(orders) / 2
    return found


def test_interactions_are_those_of_the_definition():
    rng = np.random.default_rng(21)
    model, x = model_of(rng, nets.gru(rng, 4, 5)), rng.normal(size=(4, 4))
    by_window = lrp.explain(model, x, "shapley", 1, players=4, order=2).players
    close(by_window.interactions, taylor(model, x, [np.s_[t] for t in range(4)], 1), 1e-12, 1)
    by_feature = lrp.explain(model, x, lrp.Shapley(players="features", order=2), 1).players
    close(by_feature.interactions, taylor(model, x, [np.s_[:, d] for d in range(4)], 1), 1e-12, 1)
    assert by_window.names == ("step 0", "step 1", "step 2", "step 3") and by_feature.names == ("x0", "x1", "x2", "x3")


@given(st.data())
@nets.examples(10)
def test_interactions_add_up(data):
    """Rows to the Shapley values, all of them to f(x) - f(reference); of several inputs, single and batched."""
    model = data.draw(graphs(6))
    xs = [x if len(x) > 1 else x["x"] for x in data.draw(records(model, 2))]
    found = lrp.explain_all(model, xs, "shapley", 0, players=3, order=2)
    for x, e in zip(xs, found, strict=True):
        unit = 1 + abs(e.players.interactions).max()
        close(e.players.interactions.sum(axis=1), e.players.relevance, 1e-11, unit)
        close(e.players.interactions.sum(), e.score - e.reference_score, 1e-11, unit)
        close(e.players.interactions, e.players.interactions.T, 1e-15, unit)
        one = lrp.explain(model, x, "shapley", 0, players=3, order=2)
        close(one.players.interactions, e.players.interactions, 1e-11, unit)
    every = lrp.explain(model, xs[0], "shapley", "all", players=3, order=2)
    close(every.for_class(0).players.interactions, found[0].players.interactions, 1e-11, unit)
    versus = lrp.explain(model, xs[0], "shapley", 0, versus=1, players=3, order=2).players.interactions
    close(versus, every.players.interactions[0] - every.players.interactions[1], 1e-11, unit)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_orders_are_drawn_until_the_error_is_small(dtype):
    """The values add up exactly, and are off by what their standard errors say; in two directions, two references."""
    rng = np.random.default_rng(22)
    model = model_of(rng, nets.two_way(rng, 3, 4)).astype(dtype)
    xs, reference = [rng.normal(size=(T, 3)) for T in (12, 14)], [np.zeros(3), np.ones(3)]
    exact = lrp.explain_all(model, xs, "shapley", 1, players=11, reference=reference)
    counts = []
    for error in (0.1, 0.004):
        drawn = lrp.explain_all(model, xs, "shapley", 1, players=11, reference=reference, error=error)
        for want, e in zip(exact, drawn, strict=True):
            explained = abs(e.score - e.reference_score)
            assert 0 < e.players.error.max() <= error * explained
            assert e.ledger.error == e.players.error.max()
            close(e.players.relevance.sum(), e.score - e.reference_score, 1e-12 if dtype == "float64" else 1e-5)
            off = (e.players.relevance - want.players.relevance) / e.players.error
            assert 0.1 < np.sqrt((off**2).mean()) < 3
            one = lrp.explain(model, xs[0], "shapley", 1, players=11, reference=reference, error=error)
        close(one.players.relevance, drawn[0].players.relevance, 1e-12 if dtype == "float64" else 1e-4)
        counts.append(drawn[0].players.error.max())
    assert counts[1] < counts[0]


def test_few_players_are_not_drawn():
    rng = np.random.default_rng(23)
    model, x = model_of(rng, nets.rnn(rng, 2, 3)), rng.normal(size=(6, 2))
    e = lrp.explain(model, x, "shapley", 0, players=6, error=0.5)
    assert e.players.error is None
    close(e.relevance, lrp.explain(model, x, "shapley", 0, players=6).relevance)


def test_an_error_that_cannot_be_reached_is_a_warning(monkeypatch):
    monkeypatch.setattr(shapley, "MOST", 1.0)
    rng = np.random.default_rng(24)
    model, x = model_of(rng, nets.rnn(rng, 2, 3)), rng.normal(size=(11, 2))
    with pytest.warns(lrp.RelevanceWarning, match="try a larger error than 1e-06"):
        lrp.explain(model, x, "shapley", 0, players=11, error=1e-6)


def test_players_are_stored():
    rng = np.random.default_rng(25)
    model, x = model_of(rng, nets.rnn(rng, 2, 3)), rng.normal(size=(4, 2))
    for target in (0, "all"):
        e = lrp.explain(model, x, "shapley", target, players=3, order=2)
        again = lrp.Explanation.from_json(e.to_json())
        assert again.to_json() == e.to_json() and again.players.names == e.players.names
    with pytest.raises(lrp.LrpError, match="players must be of the type Players"):
        dataclasses.replace(e, players=3)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"order": 3}, "order must be 1, or 2"),
        ({"order": 0}, "order must be a whole number of at least 1"),
        ({"error": 0}, "error must be a positive number"),
        ({"error": "small"}, "^Shapley: error must be a finite number"),
        ({"error": float("nan")}, "^Shapley: error must be a finite number"),
        ({"order": 2, "error": 0.1, "players": 11}, "order must be 1 where orders are drawn"),
    ],
)
def test_orders_and_errors_that_there_are_not(options, says):
    rng = np.random.default_rng(26)
    with pytest.raises(lrp.LrpError, match=says):
        lrp.explain(model_of(rng, nets.rnn(rng, 2, 3)), np.ones((12, 2)), "shapley", **options)


def test_a_picture_of_interactions(sentiment):
    """Steps with words are named by these; both halves of a pair are one number."""
    words = ["neither", "funny", "nor", "bad"]
    e = lrp.explain(sentiment, words, lrp.Shapley(players=3, order=2), 4)
    (ax,) = lrp.plot.interactions(e).axes[:1]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["neither funny", "nor", "bad"]
    pair = 2 * e.players.interactions[1, 0]
    assert f"{pair:+.2f}" in [text.get_text() for text in ax.texts]
    with pytest.raises(lrp.LrpError, match="this explanation by shapley has none"):
        lrp.plot.interactions(lrp.explain(sentiment, words, "shapley", 4))
