"""The oracle against golden.h5 and networks.h5, which separate programs wrote, and against laws of its own."""

from pathlib import Path

import h5py
import numpy as np
import oracle
import pytest

GOLDEN = Path(__file__).parents[1] / "support" / "golden.h5"
NETWORKS = Path(__file__).parents[1] / "support" / "networks.h5"
RULES = "all", "prop", "abs", "half"


def close(a, b, tol, unit=None):
    unit = np.max(np.abs(b)) if unit is None else unit
    worst = np.max(np.abs(np.asarray(a) - b))
    assert np.shape(a) == np.shape(b) and worst <= tol * unit, f"off by {worst:.1e}, allowed {tol:.0e} x {unit:.1e}"


# ---- golden.h5 ----


def golden_model(group):
    lstms = [{"kind": "lstm", **{name: group[way][name][:] for name in "UWb"}} for way in group if len(way) > 1]
    recurrent = lstms[0] if len(lstms) == 1 else {"kind": "bi", "backward": lstms[0], "forward": lstms[1]}
    return {"layers": [recurrent, {"kind": "dense", "V": group["V"][:], "d": group["d"][:]}]}


def golden_cases():
    with h5py.File(GOLDEN) as file:
        return [f"{name}/{sequence}" for name in file for sequence in file[name] if sequence != "model"]


@pytest.fixture(params=golden_cases())
def case(request):
    """(model, x, scores, [(class, its group)]) of one sequence."""
    with h5py.File(GOLDEN) as file:
        group = file[request.param]
        targets = [(int(name[6:]), group[name]) for name in group if name.startswith("target")]
        yield golden_model(group.parent["model"]), group["x"][:], group["scores"][:], targets


def test_golden_scores_gradient_occlusion(case):
    model, x, f, targets = case
    close(oracle.scores(model, x), f, 1e-12)
    for target, group in targets:
        golden = group["eps0.001"]
        d_x, _ = oracle.gradient(model, x, target)
        close(d_x**2, golden["gradient"][:], 1e-12)
        close(d_x * x, golden["gradient_x_input"][:], 1e-12)
        close(oracle.occlusion(model, x, target), golden["occlusion_f"][:], 1e-12)
        close(oracle.occlusion(model, x, target, of="p"), golden["occlusion_p"][:], 1e-12)


def test_golden_decomposition(case):
    model, x, _, targets = case
    words = np.array([oracle.decompose(model, x, (t, t + 1))["scores"] for t in range(len(x))])  # (T, 3, C)
    for target, group in targets:
        close(words[:, 0, target], group["eps0.001/cd"][:], 1e-12)
        spans = [oracle.decompose(model, x, span)["scores"][:2, target] for span in group["cd_spans"][:]]
        close(spans, group["cd_span_scores"][:], 1e-12)


def golden_largest(model, x, f_c, eps, result):
    """The file's measure: f_c, what arrives at the gates, what their biases take, what leaves a direction."""
    found = [abs(f_c)]
    ways = oracle.directions(model["layers"][0], len(x))
    for (p, _), s, R in zip(ways, oracle.forward(model, x)[0]["ways"], result["hidden"][0], strict=True):
        to_bias = p["b"] / (s["z"] + eps * np.where(s["z"] >= 0, 1, -1)) * R["z"]
        found += [np.abs(R["z"]).max(), np.abs(to_bias).max(), np.abs(R["x"]).max()]
    return max(found)


@pytest.mark.sampled
@pytest.mark.parametrize("rule", RULES)
def test_golden_lrp(case, rule):
    model, x, f, targets = case
    for target, group in targets:
        for eps in 0, 0.001, 0.2:
            golden = group[f"eps{eps}"]
            result = oracle.lrp(model, x, target, rule, eps)
            largest = golden[f"largest_lrp_{rule}"][()]
            close(result["x"], golden[f"lrp_{rule}"][:], 1e-11, largest)
            ledger = result["ledger"]
            entries = ledger["inputs"], sum(ledger["biases"]), ledger["stabilizer"], ledger["initial_state"]
            close(entries, golden[f"ledger_lrp_{rule}"][:], 1e-11, largest)
            close(golden_largest(model, x, f[target], eps, result), largest, 1e-9)
            assert largest <= result["largest"] * (1 + 1e-9)  # ours looks at every message
            if rule == "all" and eps == 0.001:
                ways = oracle.directions(model["layers"][0], len(x))
                R_T = [R["h"][order[-1]] for R, (_, order) in zip(result["hidden"][0], ways, strict=True)]
                close(np.concatenate(R_T), golden["lrp_all_hidden_T"][:], 1e-12)


# ---- networks.h5 ----


def cell(kind, group, **options):
    """A cell from its arrays; those of a plain RNN have a leading axis of 1 in the file."""
    arrays = {name: group[name][0] if kind == "rnn" else group[name][:] for name in group}
    return {"kind": kind, **arrays, **options}


def both(kind, p):
    return {"kind": "bi", "forward": cell(kind, p["forward"]), "backward": cell(kind, p["backward"])}


CELLS = {
    "gru_reset_after": lambda p: [cell("gru", p["gru"])],
    "gru_reset_before": lambda p: [cell("gru", p["gru"], reset_after=False)],
    "rnn_tanh": lambda p: [cell("rnn", p["rnn"])],
    "rnn_relu": lambda p: [cell("rnn", p["rnn"], activation="relu")],
    "gru_bidirectional": lambda p: [both("gru", p)],
    "gru_then_lstm": lambda p: [cell("gru", p["gru"]), cell("lstm", p["lstm"])],
    "lstm_bidirectional_last_row": lambda p: [both("lstm", p)],
}


@pytest.mark.parametrize("name", CELLS)
def test_networks(name):
    with h5py.File(NETWORKS) as file:
        group = file[name]
        parameters, x = group["parameters"], group["input0"][:]
        head = {"kind": "dense", "V": parameters["head/V"][:], "d": parameters["head/d"][:]}
        readout = "last-row" if name.endswith("last_row") else "last"
        model = {"layers": [*CELLS[name](parameters), head], "readout": readout}
        close(oracle.scores(model, x), group["scores"][:], 1e-12)
        for target in (key for key in group if key.startswith("target")):
            golden, c = group[target], int(target[6:])
            close(oracle.gradient(model, x, c)[0], golden["gradient/input0"][:], 1e-12)
            close(oracle.occlusion(model, x, c), golden["occlusion_f"][:], 1e-12)
            for rule in RULES:
                for eps in 0, 0.001, 0.2:
                    part, result = golden[f"lrp_{rule}/eps{eps}"], oracle.lrp(model, x, c, rule, eps)
                    *entries, largest = part["ledger"][:]
                    ledger = result["ledger"]
                    close(result["x"], part["input0"][:], 1e-11, largest)
                    close([ledger["inputs"], sum(ledger["biases"]), ledger["stabilizer"]], entries, 1e-11, largest)
                    assert ledger["initial_state"] == 0
                    assert largest <= result["largest"] * (1 + 1e-9)  # ours looks at every message
        if "cd_spans" in group:
            parts = np.array([oracle.decompose(model, x, span)["scores"] for span in group["cd_spans"][:]])
            close(parts[:, 0], group["cd_relevant"][:], 1e-12)
            close(parts[:, 1], group["cd_irrelevant"][:], 1e-12, np.abs(parts[:, 0]).max())


# ---- general models: laws ----


def lstm(rng, D, H, activation="tanh", recurrent_activation="sigmoid", state=False):
    shapes = {"U": (4, H, D), "W": (4, H, H), "b": (4, H)} | ({"h0": (H,), "c0": (H,)} if state else {})
    arrays = {name: rng.normal(scale=0.7, size=shape) for name, shape in shapes.items()}
    return {
        "kind": "lstm",
        "activation": activation,
        "recurrent_activation": recurrent_activation,
        **arrays,
    }


def gru(rng, D, H, activation="tanh", recurrent_activation="sigmoid", state=False, reset_after=True):
    shapes = {"U": (3, H, D), "W": (3, H, H), "b": (3, H)} | ({"bn": (H,)} if reset_after else {})
    arrays = {
        name: rng.normal(scale=0.7, size=shape) for name, shape in (shapes | ({"h0": (H,)} if state else {})).items()
    }
    names = {"activation": activation, "recurrent_activation": recurrent_activation, "reset_after": reset_after}
    return {"kind": "gru", **names, **arrays}


def rnn(rng, D, H, activation="tanh", state=False):
    shapes = {"U": (H, D), "W": (H, H), "b": (H,)} | ({"h0": (H,)} if state else {})
    arrays = {name: rng.normal(scale=0.7, size=shape) for name, shape in shapes.items()}
    return {"kind": "rnn", "activation": activation, **arrays}


def bi(rng, D, H, merge="concat", cell=lstm, **options):
    ways = cell(rng, D, H, **options), cell(rng, D, H, **options)
    return {"kind": "bi", "forward": ways[0], "backward": ways[1], "merge": merge}


def dense(rng, D, C, activation="linear"):
    return {"kind": "dense", "V": rng.normal(size=(C, D)), "d": rng.normal(size=C), "activation": activation}


STACKS = {  # D = 3 inputs, at least 2 outputs
    "lstm": lambda r: [lstm(r, 3, 2, state=True), dense(r, 2, 3)],
    "bare": lambda r: [lstm(r, 3, 4)],
    "two": lambda r: [lstm(r, 3, 4, "relu", "hard_sigmoid"), lstm(r, 4, 2, state=True), dense(r, 2, 2)],
    "bi": lambda r: [bi(r, 3, 2), dense(r, 4, 3, "relu"), dense(r, 3, 2)],
    "sum": lambda r: [
        bi(r, 3, 3, "sum", state=True),
        bi(r, 3, 2, "mean", activation="linear"),
        dense(r, 2, 2, "tanh"),
    ],
    "mixed": lambda r: [
        dense(r, 3, 4, "tanh"),
        lstm(r, 4, 3, "linear", "hard_sigmoid_3"),
        dense(r, 3, 4, "relu"),
        bi(r, 4, 2, activation="relu", state=True),
        dense(r, 4, 3, "tanh"),
        dense(r, 3, 2),
    ],
    "gru": lambda r: [gru(r, 3, 2, state=True), dense(r, 2, 3)],
    "gru before": lambda r: [
        gru(r, 3, 4, "softsign", "hard_sigmoid", True, reset_after=False),
        gru(r, 4, 2),
        dense(r, 2, 2),
    ],
    "rnn": lambda r: [rnn(r, 3, 4, state=True), rnn(r, 4, 3, "relu"), dense(r, 3, 2)],
    "cells": lambda r: [
        bi(r, 3, 2, cell=gru, state=True),
        dense(r, 4, 3, "mish"),
        lstm(r, 3, 4, "softplus", "softsign"),
        bi(r, 4, 2, "mean", cell=gru, reset_after=False),
        bi(r, 2, 2, "sum", cell=rnn, activation="elu"),
        dense(r, 2, 2),
    ],
}


@pytest.fixture(params=STACKS)
def stack(request):
    rng = np.random.default_rng(list(STACKS).index(request.param))
    return rng, STACKS[request.param](rng)


@pytest.fixture(params=["last", "last-row", "mean", "max", "every"])
def network(request, stack):
    """(generator, model, x, the options that name a prediction, its scores)."""
    rng, layers = stack
    model, x = {"layers": layers, "readout": request.param}, rng.normal(size=(4, 3))
    options = {"step": 2} if request.param == "every" else {}
    f = oracle.scores(model, x)
    return rng, model, x, options, f[2] if options else f


def cells(model):
    return [p for layer in model["layers"] if layer["kind"] != "dense" for p, _ in oracle.directions(layer, 1)]


@pytest.mark.sampled
def test_gradient_is_the_central_difference(network):
    rng, model, x, options, _ = network
    d_x, d_layers = oracle.gradient(model, x, 1, versus=0, **options)
    step = 1e-5

    def slope(array, direction):
        """Of f_1 - f_0 along a direction in one of the arrays."""
        kept, found = array.copy(), []
        for sign in 1, -1:
            array[...] = kept + sign * step * direction
            f = oracle.scores(model, x)
            found.append(f[..., 1] - f[..., 0])
        array[...] = kept
        return ((found[0] - found[1]) / (2 * step))[options.get("step", ())]

    arrays = [(x, d_x)]
    for layer, d in zip(model["layers"], d_layers, strict=True):
        pairs = [(layer, d)] if layer["kind"] == "dense" else zip(cells({"layers": [layer]}), d, strict=True)
        arrays += [(p[name], d_p[name]) for p, d_p in pairs for name in d_p if name in p]
    for array, derivative in arrays:
        direction = rng.normal(size=array.shape)
        close((derivative * direction).sum(), slope(array, direction), 1e-8, 1 + np.abs(derivative).max())


@pytest.mark.sampled
@pytest.mark.parametrize("eps", [0, 0.1])
def test_ledger_adds_up(network, eps):
    _, model, x, options, f = network
    for rule in RULES:
        result = oracle.lrp(model, x, 1, rule, eps, **options)
        ledger = result["ledger"]
        total = ledger["inputs"] + sum(ledger["biases"]) + ledger["stabilizer"] + ledger["initial_state"]
        close(total, f[1], 1e-12, result["largest"])


@pytest.mark.sampled
def test_versus_is_a_difference(network):
    _, model, x, options, _ = network
    one, other = (oracle.lrp(model, x, target, "abs", **options) for target in (1, 0))
    both = oracle.lrp(model, x, 1, "abs", versus=0, **options)
    close(both["x"], one["x"] - other["x"], 1e-12, one["largest"] + other["largest"])


def test_zero_denominator_goes_to_the_stabilizer():
    """LRP-half gives relevance to the gate i, whose z is 0 without input, bias and state: it cannot go on."""
    model = {"layers": STACKS["lstm"](np.random.default_rng(0))}
    p = model["layers"][0]
    p["b"][0], p["h0"] = 0, np.zeros(2)
    f = oracle.scores(model, np.zeros((1, 3)))
    result = oracle.lrp(model, np.zeros((1, 3)), 0, "half", 0)
    ledger = result["ledger"]
    R_i = result["hidden"][0][0]["z"][0, 0]
    assert np.all(R_i != 0) and ledger["inputs"] == 0
    close(ledger["stabilizer"], R_i.sum(), 1e-14)
    close(sum(ledger["biases"]) + ledger["stabilizer"] + ledger["initial_state"], f[0], 1e-14)


@pytest.mark.sampled
def test_lrp_all_is_the_effect_in_the_frozen_network(network):
    """With eps = 0, where gates are constants and F(z) is replaced by z times the constant F(z) / z."""
    _, model, x, options, f = network
    trace = oracle.forward(model, x)
    seen = {id(layer): s for layer, s in zip(model["layers"], trace, strict=True) if layer["kind"] == "dense"}
    seen |= {id(p): s for p, s in zip(cells(model), [w for s in trace for w in s.get("ways", [])], strict=True)}

    def ratio(a, b):
        return np.divide(a, b, out=np.zeros_like(b), where=b != 0)

    def dense(layer, x):
        s = seen[id(layer)]
        return {"y": (x @ layer["V"].T + layer["d"]) * ratio(s["y"], s["z"])}

    def lstm_step(p, s, t, x, h, c):
        z_g = p["U"][2] @ x + p["W"][2] @ h + p["b"][2]
        c = s["f"][t] * c + s["i"][t] * z_g * ratio(s["g"][t], s["z"][t, 2])
        return s["o"][t] * c * ratio(oracle.activations(p)[0][0](s["c"][t]), s["c"][t]), c

    def gru_step(p, s, t, x, h):
        r = s["r"][t]
        product = r * (p["W"][2] @ h + p["bn"]) if p["reset_after"] else p["W"][2] @ (r * h)
        z_n = p["U"][2] @ x + p["b"][2] + product
        return ((1 - s["u"][t]) * z_n * ratio(s["n"][t], s["z"][t, 2]) + s["u"][t] * h,)

    def rnn_step(p, s, t, x, h):
        return ((p["U"] @ x + p["W"] @ h + p["b"]) * ratio(s["h"][t], s["z"][t]),)

    def frozen(x, switch=1.0):
        def cell(p, x, order):
            step = {"lstm": lstm_step, "gru": gru_step, "rnn": rnn_step}[p["kind"]]
            s, state = seen[id(p)], [switch * state for state in oracle.initial_state(p)]
            hs = np.zeros_like(s["h"])
            for t in order:
                state = step(p, s, t, x[t], *state)
                hs[t] = state[0]
            return {"h": hs}

        winners = next((s["winner"] for s in trace if "winner" in s), None)
        return oracle.run(model, x, dense, cell, winners)[-1]["y"][options.get("step", -1), 1]

    result = oracle.lrp(model, x, 1, "all", 0, **options)
    close(frozen(x), f[1], 1e-12)
    R = np.zeros_like(x)
    for t, d in np.ndindex(x.shape):
        without = x.copy()
        without[t, d] = 0
        R[t, d] = frozen(x) - frozen(without)
    close(result["x"], R, 1e-11, result["largest"])
    close(result["ledger"]["initial_state"], frozen(x) - frozen(x, 0.0), 1e-11, result["largest"])


def test_mirror():
    """Directions exchanged and sequence reversed: the same scores and the same relevance, reversed."""
    rng = np.random.default_rng(5)
    layers, x = [bi(rng, 3, 4, "sum"), bi(rng, 4, 2, "mean"), dense(rng, 2, 2)], rng.normal(size=(5, 3))
    turned = [p | {"forward": p["backward"], "backward": p["forward"]} for p in layers[:2]] + layers[2:]
    for readout in "last", "mean", "max":
        one, two = ({"layers": each, "readout": readout} for each in (layers, turned))
        close(oracle.scores(two, x[::-1]), oracle.scores(one, x), 1e-14)
        here, there = oracle.lrp(one, x, 0, "abs"), oracle.lrp(two, x[::-1], 0, "abs")
        close(there["x"][::-1], here["x"], 1e-12)
        close(there["hidden"][0][1]["c"][::-1], here["hidden"][0][0]["c"], 1e-12)
        phrase, turned_phrase = oracle.decompose(one, x, (1, 3)), oracle.decompose(two, x[::-1], (2, 4))
        close(turned_phrase["scores"], phrase["scores"], 1e-13)


@pytest.mark.sampled
def test_decomposition_adds_up(network):
    _, model, x, options, f = network
    for span in (0, 4), (0, 1), (1, 3), (3, 4), (2, 2):
        result = oracle.decompose(model, x, span, **options)
        close(result["scores"].sum(0), f, 1e-13)
        for parts, true in zip(result["layers"], oracle.forward(model, x), strict=True):
            close(parts["y"].sum(0), true["y"], 1e-13, 1 + np.abs(true["y"]).max())
            for way, true_way in zip(parts.get("ways", []), true.get("ways", []), strict=True):
                close(way["h"].sum(0), true_way["h"], 1e-13, 1 + np.abs(true_way["h"]).max())
                if "c" in way:
                    close(way["c"].sum(0), true_way["c"], 1e-13, 1 + np.abs(true_way["c"]).max())
            if span == (2, 2):  # an empty phrase has no relevant part
                assert not parts["y"][0].any()
            if span == (0, 4) and not any("h0" in p for p in cells(model)):  # the whole no irrelevant one
                close(parts["y"][1], 0 * parts["y"][1], 1e-15, 1)


@pytest.mark.sampled
def test_occlusion_is_a_difference_of_scores(network):
    rng, model, x, options, f = network
    reference = rng.normal(size=3)

    def explained(x, step=2):
        f = oracle.scores(model, x)
        return f[step] if options else f

    changed = x.copy()
    changed[1:3] = reference
    found = oracle.occlusion(model, x, 1, spans=[(1, 3), (0, 0)], reference=reference, **options)
    close(found, [f[1] - explained(changed)[1], 0], 1e-14, 1)
    changed = x.copy()
    changed[3, 1] = 0
    R = oracle.occlusion(model, x, 1, versus=0, of="p", unit="feature", **options)
    P, P_changed = oracle.softmax(f), oracle.softmax(explained(changed))
    close(R[3, 1], (P[1] - P[0]) - (P_changed[1] - P_changed[0]), 1e-14, 1)
    R = oracle.occlusion(model, x, 1, reference="omit", **options)
    close(R[0], f[1] - explained(x[1:], step=1)[1], 1e-14, 1)
    close(R[3], f[1] - explained(x[:3], step=2)[1], 1e-14, 1)


# ---- what no law pins down: by hand ----


@pytest.mark.parametrize("name", oracle.ACTIVATIONS)
def test_slopes_are_central_differences(name):
    F, slope = oracle.ACTIVATIONS[name]
    z = np.linspace(-4.03, 4.1, 50)  # no kink nearby
    close(slope(z), (F(z + 1e-6) - F(z - 1e-6)) / 2e-6, 1e-7, np.abs(slope(z)).max())


def test_activations_by_hand():
    z = np.array([-4, -2.75, -1, 0, 0.5, 2.75, 4])
    values = {
        "relu": [0, 0, 0, 0, 0.5, 2.75, 4],
        "hard_sigmoid": [0, 0, 0.3, 0.5, 0.6, 1, 1],
        "hard_sigmoid_3": [0, 1 / 24, 1 / 3, 0.5, 7 / 12, 23 / 24, 1],
        "sigmoid": 1 / (1 + np.exp(-z)),
        "leaky_relu": [-0.04, -0.0275, -0.01, 0, 0.5, 2.75, 4],
        "elu": [np.exp(-4) - 1, np.exp(-2.75) - 1, np.exp(-1) - 1, 0, 0.5, 2.75, 4],
        "softplus": np.log(1 + np.exp(z)),
        "softsign": [-0.8, -11 / 15, -0.5, 0, 1 / 3, 11 / 15, 0.8],
        "silu": z / (1 + np.exp(-z)),
    }
    for name, expected in values.items():
        close(oracle.ACTIVATIONS[name][0](z), expected, 1e-15)
    one = {"gelu": 0.8413447460685429, "gelu_tanh": 0.8411919906082768, "mish": 0.8650983882673103}  # F(1)
    one["selu"] = 1.0507009873554805
    for name, expected in one.items():
        close(oracle.ACTIVATIONS[name][0](np.ones(1)), [expected], 1e-14)


def test_readouts_and_merges_by_hand():
    rng = np.random.default_rng(7)
    layer, x = bi(rng, 3, 2), rng.normal(size=(4, 3))
    f = {
        (merge, readout): oracle.scores({"layers": [layer | {"merge": merge}], "readout": readout}, x)
        for merge in ("concat", "sum", "mean")
        for readout in ("last", "last-row", "mean", "max", "every")
    }
    right, left = np.split(f["concat", "every"], 2, axis=1)  # (T, H) of each direction
    close(left[::-1], oracle.scores({"layers": [layer["backward"]], "readout": "every"}, x[::-1]), 1e-15)
    close(f["concat", "last"], [*right[3], *left[0]], 1e-15)
    close(f["sum", "last"], right[3] + left[0], 1e-15)
    close(f["concat", "last-row"], [*right[3], *left[3]], 1e-15)
    for merge, weight in ("sum", 1), ("mean", 0.5):
        every = f[merge, "every"]
        close(every, weight * (right + left), 1e-15)
        close(f[merge, "mean"], (every[0] + every[1] + every[2] + every[3]) / 4, 1e-15)
        close(f[merge, "max"], np.max(every, axis=0), 1e-15)


def test_relevance_of_merge_and_mean_by_hand():
    """At its final position a direction has relevance from above alone."""
    rng = np.random.default_rng(8)
    x, eps = rng.normal(size=(4, 3)), 0.1
    model = {"layers": [bi(rng, 3, 2, "mean")], "readout": "mean"}
    right, left = (way["h"] for way in oracle.forward(model, x)[0]["ways"])
    merged = (right + left) / 2
    mean = merged.sum(0) / 4
    R = np.array([0, mean[1]])
    R_merged = (merged[3] / 4) / (mean + eps * np.sign(mean)) * R
    R_right = (right[3] / 2) / (merged[3] + eps * np.sign(merged[3])) * R_merged
    close(oracle.lrp(model, x, 1, "half", eps)["hidden"][0][0]["h"][3], R_right, 1e-14)


def test_first_winner_takes_all():
    """A cell that forgets all, without input, has one and the same state at each step."""
    p = lstm(np.random.default_rng(9), 3, 2)
    p["U"][:], p["W"][:], p["b"][1] = 0, 0, -1000
    R = oracle.lrp({"layers": [p], "readout": "max"}, np.ones((3, 3)), 1)["hidden"][0][0]["h"]
    assert R[0, 1] != 0 and not R[1:].any() and R[0, 0] == 0


def test_rules_by_hand():
    one = np.ones(1)
    terms, R = np.array([[3.0], [-2.0]]), 2 * one
    rules = {name: oracle.Relevance(name, 0.5, 1) for name in RULES}
    # z = 3 - 2 - 1 = 0 is stabilized to + 1/2: the bias takes -4, the stabilizer 2
    close(rules["all"].epsilon_rule(0, terms, -one, 0 * one, R)[:, 0], [12, -8], 1e-15)
    # gate 1, signal 1.5 of 3, the stabilizer takes 1/3
    close(np.ravel(rules["prop"].product_rule(one, 1.5 * one, R)), (2 / 3, 1), 1e-15)
    close(np.ravel(rules["abs"].product_rule(one, -1.5 * one, R)), (2 / 3, 1), 1e-15)
    assert np.array_equal(rules["all"].product_rule(one, one, R), [[0], [2]])
    assert np.array_equal(rules["half"].product_rule(one, 3 * one, R), [[1], [1]])
    assert rules["all"].biases == [-4] and rules["all"].stabilizer == 2
    close(rules["prop"].stabilizer, 1 / 3, 1e-15)
