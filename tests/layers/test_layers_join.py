"""Concat, Add, Average, Subtract, Multiply: golden networks, slow restatements, and the laws of every network."""

import re

import laws
import networks as nets
import numpy as np
import pytest
from networks import close

import lrpnumpy as lrp
from lrpnumpy.rules import RULES

JOINS = {
    "Concat": (lrp.layers.Concat(), lambda a, b: np.concatenate([a, b], axis=-1)),
    "Add": (lrp.layers.Add(), lambda a, b: a + b),
    "Average": (lrp.layers.Average(), lambda a, b: (a + b) / 2),
    "Subtract": (lrp.layers.Subtract(), lambda a, b: a - b),
    "Multiply": (lrp.layers.Multiply(), lambda a, b: a * b),
    "Multiply, first": (lrp.layers.Multiply("first"), lambda a, b: a * b),
    "Multiply, second": (lrp.layers.Multiply("second"), lambda a, b: a * b),
}


def two_branches(rng, join, at_steps=True, D=3, M=4):
    """Two recurrent layers, joined at every step or after the readout."""
    end = "" if at_steps else ":last"
    wide = 2 * M if isinstance(join, lrp.layers.Concat) else M
    nodes = [
        lrp.Node("one", nets.lstm(rng, D, M), ("x",)),
        lrp.Node("other", nets.gru(rng, D, M), ("x",)),
        lrp.Node("join", join, ("one" + end, "other" + end)),
    ]
    if at_steps:
        nodes.append(lrp.Node("top", nets.lstm(rng, wide, M), ("join",)))
    return lrp.Model(
        [*nodes, lrp.Node("head", nets.dense(rng, M if at_steps else wide, 2), (nodes[-1].name + ":last" * at_steps,))]
    )


def branch(model, name, x):
    """Outputs of one node of `two_branches` alone."""
    node = next(node for node in model.nodes if node.name == name)
    return lrp.predict(lrp.Model([node.layer], readout="every"), x)


@pytest.mark.sampled
@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("at_steps", [True, False])
def test_laws_of_joins(rng, name, at_steps, tmp_path):
    model = two_branches(rng, JOINS[name][0], at_steps)
    records = [rng.normal(size=(T, 3)) for T in (5, 2, 4)]
    laws.hold(model, records, rng, tmp_path)


@pytest.mark.parametrize("name", JOINS)
def test_a_join_is_what_it_says(rng, name):
    join, formula = JOINS[name]
    model, x = two_branches(rng, join, at_steps=False), rng.normal(size=(5, 3))
    y = formula(branch(model, "one", x)[-1], branch(model, "other", x)[-1])
    head = model.nodes[-1].layer
    close(lrp.predict(model, x), head.V @ y + head.d)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("gate", ["first", "second", None])
def test_the_product_rule_of_multiply(rng, rule, gate):
    """With a gate the fractions of the rule, without one half and half by every rule; the rest is the stabilizer's."""
    model, x, eps = two_branches(rng, lrp.layers.Multiply(gate), at_steps=False), rng.normal(size=(5, 3)), 0.3
    found = lrp.explain(model, x, f"lrp-{rule}", 0, eps=eps, hidden=True)
    one, other = (branch(model, name, x)[-1] for name in ("one", "other"))
    head, f = model.nodes[-1].layer, found.scores[0]
    R = one * other * head.V[0] / (f + eps * np.sign(f)) * f
    to_one = to_other = np.full(4, 0.5)
    if gate == "first":
        to_one, to_other = RULES[rule].shares(one, other, eps)
    elif gate == "second":
        to_other, to_one = RULES[rule].shares(other, one, eps)
    close(found.hidden[0].h[-1], R * to_one)
    close(found.hidden[1].h[-1], R * to_other)


@pytest.mark.parametrize(("name", "weights"), [("Add", (1, 1, 1)), ("Average", (1 / 3, 1 / 3, 1 / 3))])
def test_sums_of_three_restated(rng, name, weights):
    """Also of the same value twice."""
    cells = {"a": nets.lstm(rng, 3, 4), "b": nets.lstm(rng, 3, 4)}
    head = nets.dense(rng, 4, 2)
    nodes = [lrp.Node(key, cell, ("x",)) for key, cell in cells.items()]
    nodes += [lrp.Node("sum", JOINS[name][0], ("a:last", "b:last", "a:last")), lrp.Node("head", head, ("sum",))]
    model, x, eps = lrp.Model(nodes), rng.normal(size=(5, 3)), 0.2
    a, b = (lrp.predict(lrp.Model([cell]), x) for cell in cells.values())
    y = weights[0] * a + weights[1] * b + weights[2] * a
    close(lrp.predict(model, x), head.V @ y + head.d)
    found = lrp.explain(model, x, "lrp-all", 0, eps=eps, hidden=True)
    f = found.scores[0]
    s = y * head.V[0] / (f + eps * np.sign(f)) * f / (y + eps * np.sign(y))
    close(found.hidden[0].h[-1], (weights[0] + weights[2]) * a * s)
    close(found.hidden[1].h[-1], weights[1] * b * s)


def test_golden_residual():
    group = laws.golden("lstm_residual")
    part = group["parameters"]
    nodes = [
        lrp.Node("lstm", lrp.LSTM(**part["lstm"]), ("x",)),
        lrp.Node("second", lrp.LSTM(**part["second"]), ("lstm",)),
        lrp.Node("sum", lrp.layers.Add(), ("lstm", "second")),
        lrp.Node("last", lrp.layers.LastRow(), ("sum",)),
        lrp.Node("head", lrp.Dense(**part["head"]), ("last",)),
    ]
    laws.agrees(lrp.Model(nodes), group)


SERIES_AND_STATIC = {"x": lrp.Input(4), "static": lrp.Input(3, steps=False)}


def static_concat(part):
    nodes = [
        lrp.Node("lstm", lrp.LSTM(**part["lstm"]), ("x",)),
        lrp.Node("features", lrp.Dense(**part["static"], activation="relu"), ("static",)),
        lrp.Node("both", lrp.layers.Concat(), ("lstm:last", "features")),
        lrp.Node("head", lrp.Dense(**part["head"]), ("both",)),
    ]
    return lrp.Model(nodes, inputs=SERIES_AND_STATIC)


def static_every_step(part):
    nodes = [
        lrp.Node("repeated", lrp.layers.Repeat(), ("static", "x")),
        lrp.Node("both", lrp.layers.Concat(), ("x", "repeated")),
        lrp.Node("lstm", lrp.LSTM(**part["lstm"]), ("both",)),
        lrp.Node("head", lrp.Dense(**part["head"]), ("lstm:last",)),
    ]
    return lrp.Model(nodes, inputs=SERIES_AND_STATIC)


@pytest.mark.parametrize("network", [static_concat, static_every_step])
def test_golden_static_features(rng, network, tmp_path):
    group = laws.golden(f"lstm_{network.__name__}")
    model = network(group["parameters"])
    laws.agrees(model, group)
    records = [{"x": rng.normal(size=(T, 4)), "static": rng.normal(size=3)} for T in (4, 1, 5)]
    laws.hold(model, records, rng, tmp_path, whole=False)  # the static features are never in the phrase


def test_contextual_decomposition_of_static_features(rng):
    """All words together, and the static features together, are the whole network where it is linear in them."""
    group = laws.golden("lstm_static_concat")
    model, x, s = static_concat(group["parameters"]), group["input0"], group["input1"]
    found = lrp.explain(model, {"x": x, "static": s}, "cd", 0, spans=[(0, len(x))])
    close(found.ledger.relevant[0] + found.inputs["static"].relevance[0] + found.ledger.bias[0], found.scores[0])


def test_sizes_that_do_not_fit(rng):
    def model(join, *inputs, a=4, b=4):
        nodes = [lrp.Node("a", nets.lstm(rng, 3, a), ("x",)), lrp.Node("b", nets.lstm(rng, 3, b), ("x",))]
        return lrp.Model([*nodes, lrp.Node("join", join, inputs)])

    four, five = (f"{n} numbers at every step of the layer {name} (LSTM)" for n, name in ((4, "a"), (5, "b")))
    with pytest.raises(lrp.LrpError, match=re.escape(f"of the same size, got {four} and {five};")):
        model(lrp.layers.Add(), "a", "b", b=5)
    with pytest.raises(
        lrp.LrpError, match=r"must all have steps or all be vectors.*, got 4 numbers at every step of the layer a"
    ):
        model(lrp.layers.Concat(), "a", "b:last")
    with pytest.raises(lrp.LrpError, match="must be at least two, got 1"):
        model(lrp.layers.Concat(), "a")
    for join in (lrp.layers.Subtract(), lrp.layers.Multiply()):
        with pytest.raises(lrp.LrpError, match=r"must be \(first, second\), got 3 of them"):
            model(join, "a", "b", "a")
    with pytest.raises(lrp.LrpError, match="gate must be one of 'first', 'second', None"):
        lrp.layers.Multiply("third")


def two_series(rng, join=None):
    nodes = [
        lrp.Node("both", join or lrp.layers.Concat(), ("rain", "snow")),
        lrp.Node("lstm", nets.lstm(rng, 5, 4), ("both",)),
        lrp.Node("head", nets.dense(rng, 4, 2), ("lstm:last",)),
    ]
    return lrp.Model(nodes, inputs={"rain": lrp.Input(2), "snow": lrp.Input(3)})


def test_two_series_of_the_same_steps(rng):
    records = [{"rain": rng.normal(size=(T, 2)), "snow": rng.normal(size=(T, 3))} for T in (4, 1, 5)]
    laws.hold(two_series(rng), records, rng, whole=False)


def test_two_series_must_have_the_same_steps(rng):
    model = two_series(rng)
    x = {"rain": rng.normal(size=(4, 2)), "snow": rng.normal(size=(5, 3))}
    with pytest.raises(lrp.LrpError, match="Concat: inputs must have the same number of steps, got 4 and 5"):
        lrp.predict(model, x)
    x["snow"] = x["snow"][:4]
    with pytest.raises(lrp.LrpError, match="Concat: inputs must have the same number of steps, got 3 and 4"):
        lrp.explain(model, x, "occlusion-f", reference="omit")


def test_a_model_in_float32_leaves_the_other_as_it_was(rng):
    """Both have inputs of the same description."""
    model = two_series(rng)
    x = {"rain": rng.normal(size=(4, 2)), "snow": rng.normal(size=(4, 3))}
    before = lrp.predict(model, x)
    short = model.astype("float32")
    assert lrp.predict(short, x).dtype == np.float32
    assert (lrp.predict(model, x) == before).all()
