"""PyTorch's names: orders that the shapes decide, what must be said, and what is refused by name."""

import ast
import json
import re
import struct
import warnings
from dataclasses import replace

import h5py
import networks as nets
import numpy as np
import pytest
from interop import zoo
from networks import close

import lrpnumpy as lrp
from lrpnumpy import files
from lrpnumpy.files import from_torch

LIVE = "in PyTorch, open the module itself, which needs no hints: lrp.from_torch(module, check=x)"
RNG = np.random.default_rng(0)
pytestmark = pytest.mark.filterwarnings("ignore::lrpnumpy.AssumptionWarning")


def arrays(*shapes):
    return [RNG.normal(size=shape).astype("f4") for shape in shapes]


def lstm(D, H, layers=1, two=False, bias=True, prefix="lstm."):
    state = {}
    for k in range(layers):
        for side in ("", "_reverse") if two else ("",):
            shapes = [(4 * H, D if k == 0 else H * (1 + two)), (4 * H, H), (4 * H,), (4 * H,)]
            names = [f"{prefix}{w}_l{k}{side}" for w in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
            state |= dict(list(zip(names, arrays(*shapes), strict=True))[: 4 if bias else 2])
    return state


def linear(inputs, outputs, name="fc", bias=True):
    V, d = arrays((outputs, inputs), (outputs,))
    return {f"{name}.weight": V} | ({f"{name}.bias": d} if bias else {})


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("prefix", ["", "lstm.", "module.encoder.rnn."])
def test_gates_directions_layers_biases_and_prefixes(layers, two, bias, prefix):
    state = lstm(3, 2, layers, two, bias, prefix)
    model = from_torch({**state, **linear(4 if two else 2, 5)}, readout="mean")
    assert len(nets.chain(model)) == layers + 1 and nets.readout(model) == "mean"
    for k, layer in enumerate(nets.chain(model)[:-1]):
        sides = {"": layer.forward, "_reverse": layer.backward} if two else {"": layer}
        for end, side in sides.items():
            for gate in range(4):  # i, f, g, o
                rows = slice(2 * gate, 2 * gate + 2)
                np.testing.assert_array_equal(side.U[gate], state[f"{prefix}weight_ih_l{k}{end}"][rows])
                np.testing.assert_array_equal(side.W[gate], state[f"{prefix}weight_hh_l{k}{end}"][rows])
                both = sum(state[f"{prefix}bias_{w}_l{k}{end}"][rows] for w in ("ih", "hh")) if bias else 0
                np.testing.assert_array_equal(side.b[gate], np.zeros(2, "f4") + both)


def test_an_lstm_whose_output_is_a_projection():
    H, P = 4, 2
    shapes = {"weight_ih_l0": (16, 3), "weight_hh_l0": (16, P), "bias_ih_l0": (16,), "bias_hh_l0": (16,)}
    shapes["weight_hr_l0"] = (P, H)
    state = {f"rnn.{name}": array for name, array in zip(shapes, arrays(*shapes.values()), strict=True)}
    model = from_torch({**state, **linear(P, 5)}, readout="last")
    U, W, b, c, V = (array.astype("f8") for array in state.values())
    h, cell, x = np.zeros(P), np.zeros(H), RNG.normal(size=(6, 3))
    for row in x:
        i, f, g, o = (U @ row + W @ h + b + c).reshape(4, H)
        cell = cell / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = V @ (np.tanh(cell) / (1 + np.exp(-o)))
    head = nets.chain(model)[-1]
    close(lrp.predict(model, x), head.V @ h + head.d, 1e-5)


def test_the_readout_is_assumed_for_one_direction_only():
    state = lstm(3, 2)
    with pytest.warns(lrp.AssumptionWarning, match="the last step is taken") as caught:
        assert nets.readout(from_torch(state)) == "last"
    assert caught[0].filename == __file__
    with pytest.raises(lrp.WeightFileError, match=r"readout='last' \(h_n.*readout='last-row' \(out\[:, -1\]"):
        from_torch(lstm(3, 2, two=True))
    with pytest.raises(
        lrp.LrpError, match=r"readout must be one of last, mean, max, last-row, every, got 'out\[:, -1\]'"
    ):
        from_torch(state, readout="out[:, -1]")


def clauses(state, **hints):
    """What the only warning lists."""
    with pytest.warns(lrp.AssumptionWarning) as caught:
        from_torch(state, **hints)
    assert len(caught) == 1 and caught[0].filename == __file__
    text = str(caught[0].message)
    assert "pass check=(x, y)" in text
    return text.partition("assumed: ")[2].rpartition("; pass check=")[0].split("; ")


IN_ORDER = "the modules are applied in the order of {}, one after the other, without branches, sums or other steps "


def test_all_that_was_assumed_is_listed():
    state = {**lstm(3, 2), **linear(2, 4, "a"), **linear(4, 5, "b", bias=False), "h0": arrays((1, 1, 2))[0]}
    said = {"layers": ["lstm", "a", "b"], "activations": ["relu"], "readout": "last"}
    order = IN_ORDER.format("layers=") + "between them: lstm, a, b"
    kind = "b.weight (5, 4) is the weight of a Linear"
    unused = "these arrays are not used: h0"
    assert clauses(state, **said) == [unused, order, kind, "no activation is applied after lstm, b"]
    assert clauses(state, **said, output="softmax")[-1] == "no activation is applied after lstm"
    said = {"layers": ["lstm", "relu", "a", "relu", "b"], "readout": "last"}
    assert clauses(state, **said) == [unused, order, kind]
    said.pop("readout")
    assert "the last step is taken" in clauses(state, **said)[-1]
    order = IN_ORDER.format("the file") + "between them: lstm, fc"
    assert clauses({**lstm(3, 2), **linear(2, 2)}, readout="mean")[0] == order
    alone = "lstm is the only module of the network, without other steps before or after it"
    assert clauses(lstm(3, 2), readout="last") == [alone, "no activation is applied after lstm"]
    assert clauses(lstm(3, 2), readout="last", output="softmax") == [alone]
    assert clauses(lstm(3, 2), readout="last", layers=["lstm", "linear"]) == [alone]
    words = {"words.weight": arrays((9, 3))[0], **lstm(3, 2)}
    assert "no token id is skipped as padding" in clauses(words, readout="last")
    norm = {f"bn.{leaf}": np.ones(2, "f4") for leaf in ("weight", "bias", "running_mean", "running_var")}
    assert "bn is a BatchNorm1d with PyTorch's eps 1e-05" in clauses(
        {**lstm(3, 2), **norm}, readout="last", layers=["lstm", "bn"]
    )


def test_how_branches_are_connected_is_assumed():
    state = {**lstm(3, 2, prefix="a."), **lstm(2, 2, prefix="b."), **linear(4, 5)}
    described = "the modules are connected as layers= describes, without other steps between them: a, b, fc"
    said = {"layers": ["a", "b", "concat(a, b)", "linear", "fc", "linear"], "readout": "every"}
    assert clauses(state, **said) == [described]
    assert clauses(state, **said, output="softmax") == [described]
    state = {**lstm(3, 2, prefix="a."), **lstm(2, 2, prefix="b.")}
    said = {"layers": ["a", "b(start=a)", "linear"], "readout": "every"}
    assert clauses(state, **said) == [described.removesuffix(", fc")]


def test_checked_scores_are_not_assumed():
    state = {**lstm(3, 2), **linear(2, 2)}
    x = RNG.normal(size=(4, 3)).astype("f4")
    y = lrp.predict(from_torch(state, readout="mean"), x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_torch(state, readout="mean", check=(x, y))


def test_an_embedding_of_categories_is_not_the_last_linear():
    state = {**lstm(3, 4), **linear(4, 4), "city_embedding.weight": arrays((7, 4))[0]}
    with pytest.raises(lrp.WeightFileError, match=r"say layers=\['lstm', 'fc'\]"):
        from_torch(state, readout="last")
    with pytest.raises(lrp.WeightFileError, match="do not fit in the order"):
        from_torch(state, readout="last", layers=["lstm", "fc", "city_embedding"], activations=["relu"])
    said = clauses(state, readout="last", layers=["lstm", "fc"])
    assert "these arrays are not used: city_embedding.weight" in said


def advice(state, **hints):
    """The error for arrays that can be read in several ways, and the `layers` that it shows."""
    with pytest.raises(lrp.WeightFileError) as caught:
        from_torch(state, **hints)
    text = str(caught.value)
    assert LIVE in text
    return text, [ast.literal_eval(one) for one in re.findall(r"layers=(\[.*?\])", text)]


def test_what_is_proposed_where_arrays_have_several_readings():
    two = {**lstm(3, 5, prefix="enc."), **lstm(5, 5, prefix="dec.")}
    text, layers = advice({**two, **linear(5, 3)})
    assert layers == [["enc", "dec", "fc"], ["enc", "repeat", "dec", "fc"]]
    assert "readout='every', if the second repeats the last state of the first" in text
    assert advice({**two, **linear(5, 2)})[1] == [["enc", "dec", "fc"]]  # other vectors than it takes
    parallel = {**lstm(3, 5, prefix="a."), **lstm(3, 5, prefix="b."), **linear(10, 2)}
    assert advice(parallel)[1] == []  # no order has all of them


def test_categories_are_not_proposed_as_linear():
    for name, rows in (("cat", 4), ("site", 5)):
        added = {**lstm(3, 5), f"{name}.weight": arrays((rows, 5))[0], **linear(5, 2)}
        assert advice(added)[1] == [["lstm", "fc"]]
    joined = {"cat.weight": arrays((4, 2))[0], **lstm(3, 5), **linear(7, 2)}
    assert advice(joined)[1] == []
    without = {**lstm(3, 5), **linear(5, 4, "a", bias=False), **linear(4, 2, "b")}  # no other order fits
    assert advice(without)[1] == [["lstm", "a", "relu", "b"]]


def test_two_outputs_are_not_proposed_as_a_chain():
    state = {**lstm(3, 2), **linear(2, 2, "mu"), **linear(2, 2, "sigma")}
    text, layers = advice(state)
    assert layers == [["lstm", "mu"]] and "sigma (Linear 2 to 2), which may be two outputs of the network" in text
    numbered = {**lstm(3, 2), **linear(2, 2, "fc1"), **linear(2, 2, "fc2")}
    assert advice(numbered)[1] == [["lstm", "fc1", "relu", "fc2"]]


def test_the_order_is_that_of_the_shapes():
    state = {**linear(7, 4, "head"), **lstm(5, 7), **linear(3, 5, "project"), "words.weight": arrays((20, 3))[0]}
    model = from_torch(state, readout="last", activations=["tanh"])
    assert model.embedding.E.shape == (20, 3)
    assert [type(layer).__name__ for layer in model.layers] == ["Dense", "LSTM", "Dense"]
    assert [layer.activation for layer in model.layers] == ["tanh", "tanh", "linear"]


def test_the_order_of_the_file_goes_before_others_that_fit():
    state = {**lstm(4, 4), **linear(4, 4, "a"), **linear(4, 4, "b"), **linear(4, 2, "c")}
    model = from_torch(state, readout="last", activations=["relu", "tanh"])
    np.testing.assert_array_equal(model.layers[1].V, state["a.weight"])


def test_orders_that_neither_file_nor_shapes_decide_must_be_said():
    state = {**linear(4, 2, "c"), **lstm(4, 4), **linear(4, 4, "a"), **linear(4, 4, "b")}
    with pytest.raises(lrp.WeightFileError, match=r"more than one order; .*say layers=\['lstm', "):
        from_torch(state, readout="last", activations=["relu", "tanh"])
    model = from_torch(state, readout="last", layers=["lstm", "b", "a", "c"], activations=["relu", "tanh"])
    np.testing.assert_array_equal(model.layers[1].V, state["b.weight"])
    assert [layer.activation for layer in model.layers[1:]] == ["relu", "tanh", "linear"]
    assert len(from_torch(state, readout="last", layers=["lstm", "c"]).layers) == 2  # the others are not used
    with pytest.raises(lrp.WeightFileError, match=r"layers must name modules of the file, 'c', 'lstm'.*, got 'd'"):
        from_torch(state, readout="last", layers=["lstm", "d"])
    with pytest.raises(lrp.WeightFileError, match="do not fit in the order given by layers"):
        from_torch(state, readout="last", layers=["lstm", "c", "a"], activations=["relu"])


def gru(D, H, prefix="gru."):
    return dict(
        zip(
            [f"{prefix}{what}_l0" for what in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")],
            arrays((3 * H, D), (3 * H, H), (3 * H,), (3 * H,)),
            strict=True,
        )
    )


def test_the_gates_of_a_gru():
    """r, z, n in the file; z, r, n in the model; the biases of r and z are added, that of n inside the reset stays."""
    state = gru(3, 2)
    model = from_torch({**state, **linear(2, 2)}, readout="last")
    layer = model.layers[0]
    for ours, theirs in enumerate((1, 0, 2)):
        rows = slice(2 * theirs, 2 * theirs + 2)
        np.testing.assert_array_equal(layer.U[ours], state["gru.weight_ih_l0"][rows])
        np.testing.assert_array_equal(layer.W[ours], state["gru.weight_hh_l0"][rows])
        both = state["gru.bias_ih_l0"][rows] + (state["gru.bias_hh_l0"][rows] if theirs < 2 else 0)
        np.testing.assert_array_equal(layer.b[ours], both)
    np.testing.assert_array_equal(layer.bn, state["gru.bias_hh_l0"][4:])
    assert layer.reset_after


def test_the_nonlinearity_of_a_plain_rnn(tmp_path):
    state = {"weight_ih_l0": arrays((2, 3))[0], "weight_hh_l0": arrays((2, 2))[0]}
    with pytest.warns(lrp.AssumptionWarning, match="the RNN is tanh: say nonlinearity='relu'"):
        assert from_torch(state, readout="last").layers[0].activation == "tanh"
    assert from_torch(state, readout="last", nonlinearity="relu").layers[0].activation == "relu"
    named = {f"rnn.{name}": array for name, array in state.items()} | linear(2, 2)
    assert from_torch(named, readout="last", layers=["rnn(nonlinearity=relu)", "fc"]).layers[0].activation == "relu"
    np.savez(tmp_path / "model.npz", **state)
    found = files.load(tmp_path / "model.npz", readout="last", config={"nonlinearity": "relu"})
    assert found.layers[0].activation == "relu"


def test_activations_of_their_own():
    state = {**lstm(3, 2), **linear(2, 4, "a"), **linear(4, 5, "b")}
    model = from_torch(state, readout="last", layers=["lstm", "relu", "a", "tanh", "b"])
    assert [layer.activation for layer in model.layers] == ["tanh", "relu", "tanh", "linear"]
    assert isinstance(model.layers[1], lrp.layers.Activation)
    with pytest.raises(lrp.WeightFileError, match="activations must be left out where layers names"):
        from_torch(state, readout="last", layers=["lstm", "a", "tanh", "b"], activations=["relu"])


def test_norms():
    """Where they are the caller says; what they compute is written out here."""
    rng = np.random.default_rng(3)
    norm = {f"norm.{leaf}": rng.normal(size=4).astype("f4") for leaf in ("weight", "bias")}
    batch = {
        f"bn.{leaf}": rng.uniform(1, 2, 4).astype("f4") for leaf in ("weight", "bias", "running_mean", "running_var")
    }
    batch["bn.num_batches_tracked"] = np.array(3)
    state = {**lstm(3, 4), **norm, **batch, **linear(4, 2)}
    x = rng.normal(size=(5, 3)).astype("f4")
    with pytest.raises(lrp.WeightFileError, match=r"say layers=\['lstm', 'norm', 'bn', 'fc'\]"):
        from_torch(state, readout="last")
    model = from_torch(state, readout="last", layers=["lstm", "norm", "bn", "fc"])
    h = lrp.predict(from_torch(lstm_of(state), readout="last"), x).astype(np.float64)
    y = (h - h.mean()) / np.sqrt(h.var() + 1e-5) * norm["norm.weight"] + norm["norm.bias"]
    y = (y - batch["bn.running_mean"]) / np.sqrt(batch["bn.running_var"] + 1e-5) * batch["bn.weight"] + batch["bn.bias"]
    close(lrp.predict(model, x), state["fc.weight"] @ y + state["fc.bias"], tol=1e-5)


def lstm_of(state):
    return {name: array for name, array in state.items() if name.startswith("lstm.")}


def test_check_compares_the_scores():
    state = {**lstm(3, 2), **linear(2, 2)}
    x = RNG.normal(size=(4, 3)).astype("f4")
    model = from_torch(state, readout="mean")
    scores = lrp.predict(model, x)
    assert from_torch(state, readout="mean", check=(x, scores)).digest == model.digest
    size = np.abs(scores).max()
    from_torch(state, readout="mean", check=(x, scores + 5e-6 * size))
    with pytest.raises(lrp.WeightFileError, match=r"the largest difference is \d"):
        from_torch(state, readout="mean", check=(x, scores + 5e-5 * size))
    odds = np.exp(scores) / np.exp(scores).sum()
    from_torch(state, readout="mean", output="softmax", check=(x, odds))
    for wrong in ({"readout": "last", "check": (x, scores)}, {"readout": "mean", "check": (x, odds)}):
        with pytest.raises(lrp.WeightFileError, match="expects the scores"):
            from_torch(state, **wrong)
    with pytest.raises(lrp.LrpError, match=r"check must be a pair \(x, y\)"):
        from_torch(state, readout="last", check=x)


def weighted(scores, rows):
    e = np.exp(scores - scores.max())
    return (e / e.sum()) @ rows


def states(state, x):
    """The state of the LSTM after each step."""
    return lrp.predict(from_torch(lstm_of(state), readout="every"), x).astype(np.float64)


def test_attention_over_the_steps():
    x = RNG.normal(size=(5, 3)).astype("f4")
    head = {**linear(2, 4, "fc1"), **linear(4, 2, "fc2")}
    dot = {**lstm(3, 2), **linear(2, 1, "attention.score"), **head}
    with pytest.raises(lrp.WeightFileError) as caught:
        from_torch(dot)
    order = ["lstm", "attention(attention.score)", "fc1", "relu", "fc2"]
    assert "which may be an attention over the steps; in PyTorch, open the module itself" in str(caught.value)
    assert f"say layers={order} with" in str(caught.value)
    model = from_torch(dot, layers=order)
    h = states(dot, x)
    c = weighted(h @ dot["attention.score.weight"][0], h)
    expected = head["fc2.weight"] @ np.maximum(head["fc1.weight"] @ c + head["fc1.bias"], 0) + head["fc2.bias"]
    close(lrp.predict(model, x), expected, tol=1e-5)
    additive = {**lstm(3, 2), **linear(2, 6, "W"), **linear(6, 1, "V", bias=False), **linear(2, 2)}
    found = from_torch(additive, layers=["lstm", "attention(W, V)", "fc"])
    h = states(additive, x)
    e = np.tanh(h @ additive["W.weight"].T + additive["W.bias"]) @ additive["V.weight"][0]
    close(lrp.predict(found, x), additive["fc.weight"] @ weighted(e, h) + additive["fc.bias"], tol=1e-5)
    for wrong in ("attention", "attention(lstm)", "attention(W, V, fc)", "attention(X)"):
        with pytest.raises(lrp.WeightFileError, match="layers takes attention as 'attention"):
            from_torch(additive, layers=["lstm", wrong, "fc"])


def test_an_autoencoder_repeats_its_state():
    x = RNG.normal(size=(5, 3)).astype("f4")
    state = {**lstm(3, 2, prefix="encoder."), **lstm(2, 4, prefix="decoder."), **linear(4, 3)}
    model = from_torch(state, layers=["encoder", "repeat", "decoder", "fc"], readout="every")
    encoder = {name: array for name, array in state.items() if name.startswith("encoder.")}
    rest = {name: array for name, array in state.items() if not name.startswith("encoder.")}
    code = lrp.predict(from_torch(encoder, readout="last"), x)
    close(
        lrp.predict(model, x),
        lrp.predict(from_torch(rest, readout="every"), np.repeat(code[None], 5, axis=0)),
        tol=1e-5,
    )


def test_a_convolution_and_a_pool_are_said_with_their_settings():
    state = {"conv.weight": RNG.normal(size=(4, 3, 3)).astype("f4"), **lstm(4, 2), **linear(2, 2)}
    with pytest.raises(lrp.WeightFileError, match=r"layers=\['conv\(stride=1, padding=0\)', 'relu', 'lstm', 'fc'\]"):
        from_torch(state, readout="last")
    layers = ["conv(stride=1, padding=1)", "relu", "maxpool(2)", "lstm", "fc"]
    model = from_torch(state, readout="last", layers=layers)
    x = RNG.normal(size=(6, 3))
    padded = np.pad(x, ((1, 1), (0, 0)))
    z = np.array([(state["conv.weight"] * padded[t : t + 3].T).sum(axis=(1, 2)) for t in range(6)])
    rows = np.maximum(z, 0).reshape(3, 2, 4).max(axis=1)
    rest = from_torch({**lstm_of(state), **{n: a for n, a in state.items() if n.startswith("fc")}}, readout="last")
    close(lrp.predict(model, x.astype("f4")), lrp.predict(rest, rows.astype("f4")), tol=1e-5)
    for wrong in ("maxpool", "maxpool(x)", "maxpool(2, 2, 0, 1)", "avgpool(2, width=3)", "repeat(3)"):
        with pytest.raises(lrp.WeightFileError, match=f"layers takes {wrong[:3]}"):
            from_torch(state, readout="last", layers=["conv(padding=1)", "relu", wrong, "lstm", "fc"])
    with pytest.raises(lrp.WeightFileError, match="settings are not understood"):
        from_torch(state, readout="last", layers=["conv(padding=circular)", "relu", "lstm", "fc"])


@pytest.mark.parametrize("order", ["xh", "hx"])
def test_an_lstm_of_four_linear_modules(order, tmp_path):
    D, H, names = 3, 2, {"i": "il", "f": "fl", "g": "Cl", "o": "ol"}
    parts = {gate: linear(D + H, H, name) for gate, name in names.items()}
    state = {name: array for part in parts.values() for name, array in part.items()}
    np.savez(tmp_path / "model.npz", **state)
    with pytest.raises(lrp.WeightFileError) as caught:
        files.load(tmp_path / "model.npz")
    said = "layers=['lstm(i=il, f=fl, g=Cl, o=ol, order=xh)']"
    assert f"if they are the gates of an LSTM, say {said}" in str(caught.value)
    model = files.load(tmp_path / "model.npz", readout="last", layers=[f"lstm(i=il, f=fl, g=Cl, o=ol, order={order})"])
    x = RNG.normal(size=(4, D))
    h, c = np.zeros(H), np.zeros(H)
    for row in x:
        both = np.concatenate([row, h] if order == "xh" else [h, row])
        i, f, g, o = (
            part[f"{names[gate]}.weight"] @ both + part[f"{names[gate]}.bias"] for gate, part in parts.items()
        )
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
    close(lrp.predict(model, x.astype("f4")), h, tol=1e-5)
    for wrong, why in (("o=xl, order=xh", "four Linear modules"), ("o=ol", "order=xh or order=hx")):
        with pytest.raises(lrp.WeightFileError, match=why):
            files.load(tmp_path / "model.npz", layers=[f"lstm(i=il, f=fl, g=Cl, {wrong})"])


def test_two_lstms_one_after_the_other():
    state = {**lstm(6, 2, prefix="second."), **lstm(3, 6, prefix="first."), **linear(2, 2)}
    with pytest.raises(lrp.WeightFileError, match=r"say layers=\['first', 'second', 'fc'\]"):
        from_torch(state, readout="last")
    model = from_torch(state, readout="last", layers=["first", "second", "fc"])
    assert [layer.inputs for layer in model.layers] == [3, 6, 2]


def test_activations_must_be_said():
    state = {**lstm(3, 2), **linear(2, 4, "a"), **linear(4, 5, "b")}
    with pytest.raises(lrp.WeightFileError, match=r"activations after a; .*say layers=\['lstm', 'a', 'relu', 'b'\]"):
        from_torch(state, readout="last")
    for activations in ([], ["relu", "relu", "relu"]):
        with pytest.raises(lrp.WeightFileError, match=r"activations must have one for each of a, got [03]"):
            from_torch(state, readout="last", activations=activations)
    assert from_torch(state, readout="last", activations=["relu", "tanh"]).layers[-1].activation == "tanh"
    with pytest.raises(lrp.LrpError, match="unknown activation 'swish'"):
        from_torch(state, readout="last", activations=["swish"])


@pytest.mark.parametrize(
    "state, reason",
    [
        ({**lstm(3, 2), "lstm.weight_hr_l0": np.ones((1, 2), "f4")}, "lstm.weight_hr_l0: must have shape (2, 2)"),
        ({**lstm(3, 2, 2), "lstm.weight_hr_l0": np.ones((2, 2), "f4")}, "missing or not known: weight_hr_l1"),
        (
            {
                f"g.weight_{w}_l0": np.ones(shape, "f4")
                for w, shape in {"ih": (6, 3), "hh": (6, 1), "hr": (1, 2)}.items()
            },
            "4, 3 or 1 rows",
        ),
        ({"g.weight_ih_l0": np.ones((4, 3), "f4"), "g.weight_hh_l0": np.ones((4, 2), "f4")}, "4, 3 or 1 rows"),
        ({"g.weight_ih_l0": np.ones(3, "f4"), "g.weight_hh_l0": np.ones(3, "f4")}, "4, 3 or 1 rows"),
        (
            {**lstm(3, 2), "conv.weight": np.ones((4, 2, 3), "f4")},
            f"does not say in which order its modules are applied; {LIVE}; otherwise say layers=['lstm', ",
        ),
        (
            {**lstm(3, 2), "c.weight": np.ones((4, 2, 3), "f4"), "d.weight": np.ones((4, 2, 3, 3), "f4")},
            "not supported: d (Conv2d, weight (4, 2, 3, 3)); supported and close to it: Conv1d; "
            f"{LIVE}; otherwise say layers=['lstm', ",
        ),
        ({**lstm(3, 2), "norm.weight": np.ones(5, "f4"), "norm.bias": np.ones(5, "f4")}, "norm (LayerNorm 5 to 5)"),
        ({**lstm(3, 2), **linear(2, 2), "fc.running_mean": np.ones(2, "f4")}, "running_mean"),
        ({k: v for k, v in lstm(3, 2, 2).items() if k != "lstm.weight_hh_l1"}, "weight_hh_l1"),
        ({k: v for k, v in lstm(3, 2).items() if k != "lstm.bias_hh_l0"}, "bias_hh_l0"),
        ({k: v for k, v in lstm(3, 2, two=True).items() if k != "lstm.bias_hh_l0_reverse"}, "bias_hh_l0_reverse"),
        ({**lstm(3, 2), "lstm.weight_hh_l0": np.ones((8, 3), "f4")}, "lstm"),
        ({**lstm(3, 2), **linear(5, 2)}, "in no order"),
        ({**lstm(3, 2), "fc.weight": np.ones((2, 2), int)}, "array of floats"),
        ({**lstm(3, 2), "fc.weight": np.full((2, 2), np.nan, "f4")}, "finite"),
        ({}, ""),
        (linear(2, 2), "has no recurrent module"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(state, reason):
    with pytest.raises(lrp.LrpError) as caught:
        from_torch(state, readout="last")
    assert reason in str(caught.value)


@pytest.mark.parametrize("thing", [3, None, "model.pt", [1]])
def test_only_modules_and_state_dicts(thing):
    with pytest.raises(lrp.LrpError, match=r"torch.nn.Module or a state_dict, got"):
        from_torch(thing, readout="last")


def test_hdf5_with_groups_and_remarks(tmp_path):
    """The export of docs/files.md, and the same with groups in place of dots."""
    model = zoo.NETWORKS["sentence"].model()
    path = tmp_path / "model.h5"
    with h5py.File(path, "w") as file:
        for name, array in zoo.torch_arrays(model).items():
            file[name.replace(".", "/")] = array
        file.attrs["readout"] = "last"
        file.attrs["output"] = "sigmoid"
        file.attrs["layers"] = json.dumps(["embedding", "lstm", "head"])
    found = files.load(path)
    assert found.output == "sigmoid"
    assert replace(found, output="softmax").digest == model.digest
    assert nets.readout(files.load(path, readout="mean")) == "mean"  # the caller has the last word
    assert files.load(path, config={"output": "linear"}).output == "linear"
    with pytest.raises(lrp.WeightFileError, match="may have readout, layers, activations, output and nonlinearity"):
        files.load(path, config={"activation": "relu"})


def test_remarks_in_npz_and_safetensors(tmp_path):
    state = zoo.torch_arrays(zoo.NETWORKS["sentence"].model())
    np.savez(tmp_path / "model.npz", readout="mean", **state)
    assert nets.readout(files.load(tmp_path / "model.npz")) == "mean"
    safetensors(tmp_path / "model.safetensors", state, {"readout": "max"})
    assert nets.readout(files.load(tmp_path / "model.safetensors")) == "max"


def safetensors(path, state, remarks, dtype="F32"):
    header, data = {"__metadata__": remarks}, b""
    for name, array in state.items():
        raw = array.tobytes()
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def test_bfloat16_is_the_upper_half_of_float32(tmp_path):
    state = zoo.torch_arrays(zoo.NETWORKS["sentence"].model())
    halves = {name: (array.view("<u4") >> 16).astype("<u2") for name, array in state.items()}
    safetensors(tmp_path / "model.safetensors", halves, {"readout": "last"}, "BF16")
    found = files.load(tmp_path / "model.safetensors")
    assert found.dtype == np.float32
    close(found.embedding.E, state["embedding.weight"], tol=2**-7)


def test_fortran_order_in_npz(tmp_path):
    state = zoo.torch_arrays(zoo.NETWORKS["sentence"].model())
    np.savez(tmp_path / "model.npz", **{name: np.asfortranarray(array) for name, array in state.items()})
    assert files.load(tmp_path / "model.npz", readout="last", config={"output": "softmax"}).digest == (
        zoo.NETWORKS["sentence"].model().digest
    )


# ---- more than a chain, said by `layers` ----


def gru_cell(D, H, prefix, names=("weight_ih", "weight_hh", "bias_ih", "bias_hh")):
    shapes = [(3 * H, D), (3 * H, H), (3 * H,), (3 * H,)]
    return dict(zip((f"{prefix}{name}" for name in names), arrays(*shapes), strict=True))


def gru_steps(state, prefix, x, h):
    """PyTorch's formulas, step by step."""
    U, W, b, c = (state[f"{prefix}{name}"] for name in ("w_ih", "w_hh", "b_ih", "b_hh"))
    out = []
    for row in x:
        (r, z, n), (r_h, z_h, n_h) = np.split(U @ row + b, 3), np.split(W @ h + c, 3)
        r, z = (1 / (1 + np.exp(-one)) for one in (r + r_h, z + z_h))
        h = (1 - z) * np.tanh(n + r * n_h) + z * h
        out.append(h)
    return np.array(out)


def test_an_encoder_and_a_decoder_with_names_of_their_own(tmp_path):
    names = ("w_ih", "w_hh", "b_ih", "b_hh")
    E, F, V, d = arrays((7, 3), (9, 3), (9, 4), (9,))
    state = {
        "enc_emb": E,
        **gru_cell(3, 4, "enc_", names),
        "dec_emb": F,
        **gru_cell(3, 4, "dec_", names),
        "fc_w": V,
        "fc_b": d,
    }
    np.savez(tmp_path / "g2p.npz", **state)
    with pytest.raises(lrp.WeightFileError) as caught:
        lrp.load(tmp_path / "g2p.npz")
    hint = "layers=['enc_emb', 'enc', 'dec_emb', 'dec(start=enc)', 'fc'], readout='every'"
    assert hint in str(caught.value)
    model = lrp.load(
        tmp_path / "g2p.npz", layers=["enc_emb", "enc", "dec_emb", "dec(start=enc)", "fc"], readout="every"
    )
    letters, sounds = [1, 5, 2], [2, 8]
    h = gru_steps(state, "enc_", E[letters], np.zeros(4))[-1]
    close(
        lrp.predict(model, {"enc_emb": letters, "dec_emb": sounds}),
        gru_steps(state, "dec_", F[sounds], h) @ V.T + d,
        1e-6,
    )


def test_a_join_and_magnitudes(rng):
    """Sound that is reflected and cut into windows, their magnitudes, and two LSTMs side by side."""
    state = {**lstm(2, 3, prefix="a."), **lstm(3, 3, prefix="b."), "cut.weight": arrays((4, 1, 6))[0], **linear(6, 2)}
    order = ["pad(0, 2, reflect)", "cut(stride=2)", "magnitude", "a", "b", "concat(a, b)", "fc"]
    model = from_torch(state, layers=order, readout="every")
    x = rng.normal(size=(8, 1)).astype("f4")
    wide = np.pad(x[:, 0], (0, 2), mode="reflect")
    parts = np.array([state["cut.weight"][:, 0] @ wide[k : k + 6] for k in (0, 2, 4)])
    magnitudes = np.sqrt(parts[:, :2] ** 2 + parts[:, 2:] ** 2)
    alone = [from_torch(lstm_only(state, name), readout="every") for name in "ab"]
    a = lrp.predict(alone[0], magnitudes)
    both = np.hstack([a, lrp.predict(alone[1], a)])
    close(lrp.predict(model, x), both @ state["fc.weight"].T + state["fc.bias"], 1e-6)


def lstm_only(state, name):
    return {key: array for key, array in state.items() if key.startswith(f"{name}.")}


@pytest.mark.parametrize(
    ("order", "says"),
    [
        (["a", "concat(a, b)", "fc"], "layers must name 'b' before it is used, it has a"),
        (["a", "b", "concat(a, a)", "fc"], "must use all that it names, nothing takes what 'b' gives"),
        (["a", "b(start=c)", "fc"], "layers must name 'c' before it is used, it has a"),
        (["pad(1, x)", "a"], r"takes pad as 'pad\(0, 64, reflect\)'"),
        (["magnitude", "a", "fc"], "has 3 features at a magnitude in layers, which takes two halves"),
    ],
)
def test_structures_that_are_refused(order, says):
    state = {**lstm(3, 3, prefix="a."), **lstm(3, 3, prefix="b."), **linear(6, 2)}
    with pytest.raises(lrp.LrpError, match=says):
        from_torch(state, layers=order, readout="last")


def test_the_raw_weights_of_an_awd_lstm():
    """fastai keeps weight_hh_l0_raw beside the module; the module's own is what training made of it."""
    plain = lstm(3, 2, prefix="rnn.module.")
    raw = {key: array for key, array in plain.items() if key != "rnn.module.weight_hh_l0"}
    raw["rnn.weight_hh_l0_raw"] = plain["rnn.module.weight_hh_l0"]
    want = from_torch(plain, readout="last")
    assert from_torch(raw, readout="last").digest == want.digest
    trained = {**raw, "rnn.module.weight_hh_l0": np.zeros((8, 2), "f4")}
    assert from_torch(trained, readout="last").digest == want.digest
