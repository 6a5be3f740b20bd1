"""PyTorch's names: orders that the shapes decide, what must be said, and what is refused by name."""

import json
import struct
from dataclasses import replace

import h5py
import numpy as np
import pytest
from interop import zoo
from networks import close

import lrpnumpy as lrp
from lrpnumpy import files
from lrpnumpy.files import from_torch

RNG = np.random.default_rng(0)


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
    assert len(model.layers) == layers + 1 and model.readout == "mean"
    for k, layer in enumerate(model.layers[:-1]):
        sides = {"": layer.forward, "_reverse": layer.backward} if two else {"": layer}
        for end, side in sides.items():
            for gate in range(4):  # i, f, g, o
                rows = slice(2 * gate, 2 * gate + 2)
                np.testing.assert_array_equal(side.U[gate], state[f"{prefix}weight_ih_l{k}{end}"][rows])
                np.testing.assert_array_equal(side.W[gate], state[f"{prefix}weight_hh_l{k}{end}"][rows])
                both = sum(state[f"{prefix}bias_{w}_l{k}{end}"][rows] for w in ("ih", "hh")) if bias else 0
                np.testing.assert_array_equal(side.b[gate], np.zeros(2, "f4") + both)


def test_the_readout_is_assumed_for_one_direction_only():
    state = lstm(3, 2)
    with pytest.warns(lrp.AssumptionWarning, match="the last step is taken") as caught:
        assert from_torch(state).readout == "last"
    assert caught[0].filename == __file__
    with pytest.raises(lrp.WeightFileError, match=r"readout='last' \(h_n.*readout='last-row' \(out\[:, -1\]"):
        from_torch(lstm(3, 2, two=True))
    with pytest.raises(
        lrp.LrpError, match=r"readout must be one of last, mean, max, last-row, every, got 'out\[:, -1\]'"
    ):
        from_torch(state, readout="out[:, -1]")


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
    with pytest.raises(lrp.WeightFileError, match=r"more than one order; say layers=\[...\]"):
        from_torch(state, readout="last", activations=["relu", "tanh"])
    model = from_torch(state, readout="last", layers=["lstm", "b", "a", "c"], activations=["relu", "tanh"])
    np.testing.assert_array_equal(model.layers[1].V, state["b.weight"])
    assert [layer.activation for layer in model.layers[1:]] == ["relu", "tanh", "linear"]
    assert len(from_torch(state, readout="last", layers=["lstm", "c"]).layers) == 2  # the others are not used
    with pytest.raises(lrp.WeightFileError, match=r"layers must name modules of the file, 'lstm'.*, got 'd'"):
        from_torch(state, readout="last", layers=["lstm", "d"])
    with pytest.raises(lrp.WeightFileError, match="do not fit in the order that layers says"):
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
    with pytest.warns(lrp.AssumptionWarning, match="tanh is taken, say nonlinearity='relu'"):
        assert from_torch(state, readout="last").layers[0].activation == "tanh"
    np.savez(tmp_path / "model.npz", **state)
    found = files.load(tmp_path / "model.npz", readout="last", config={"nonlinearity": "relu"})
    assert found.layers[0].activation == "relu"


def test_activations_of_their_own():
    state = {**lstm(3, 2), **linear(2, 4, "a"), **linear(4, 5, "b")}
    model = from_torch(state, readout="last", layers=["lstm", "relu", "a", "tanh", "b"])
    assert [layer.activation for layer in model.layers] == ["tanh", "relu", "tanh", "linear"]
    assert isinstance(model.layers[1], lrp.Activation)
    with pytest.raises(lrp.WeightFileError, match="activations must be left out where layers names"):
        from_torch(state, readout="last", layers=["lstm", "a", "tanh", "b"], activations=["relu"])


def test_norms():
    """Where they stand is the order of the file; what they compute is written out here."""
    rng = np.random.default_rng(3)
    norm = {f"norm.{leaf}": rng.normal(size=4).astype("f4") for leaf in ("weight", "bias")}
    batch = {
        f"bn.{leaf}": rng.uniform(1, 2, 4).astype("f4") for leaf in ("weight", "bias", "running_mean", "running_var")
    }
    batch["bn.num_batches_tracked"] = np.array(3)
    state = {**lstm(3, 4), **norm, **batch, **linear(4, 2)}
    x = rng.normal(size=(5, 3)).astype("f4")
    model = from_torch(state, readout="last")
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
    odds = np.exp(scores) / np.exp(scores).sum()
    from_torch(state, readout="mean", output="softmax", check=(x, odds))
    for wrong in ({"readout": "last", "check": (x, scores)}, {"readout": "mean", "check": (x, odds)}):
        with pytest.raises(lrp.WeightFileError, match="must give the scores"):
            from_torch(state, **wrong)
    with pytest.raises(lrp.LrpError, match=r"check must be a pair \(x, y\)"):
        from_torch(state, readout="last", check=x)


def test_two_lstms_one_after_the_other():
    state = {**lstm(6, 2, prefix="second."), **lstm(3, 6, prefix="first."), **linear(2, 2)}
    model = from_torch(state, readout="last")
    assert [layer.inputs for layer in model.layers] == [3, 6, 2]


def test_activations_must_be_said():
    state = {**lstm(3, 2), **linear(2, 4, "a"), **linear(4, 5, "b")}
    for activations in (None, [], ["relu", "relu", "relu"]):
        with pytest.raises(lrp.WeightFileError, match=r"activations stand after a; say activations=\['relu'\]"):
            from_torch(state, readout="last", activations=activations)
    assert from_torch(state, readout="last", activations=["relu", "tanh"]).layers[-1].activation == "tanh"
    with pytest.raises(lrp.LrpError, match="activations must be of linear"):
        from_torch(state, readout="last", activations=["swish"])


@pytest.mark.parametrize(
    "state, reason",
    [
        ({**lstm(3, 2), "lstm.weight_hr_l0": np.ones((1, 2), "f4")}, "proj_size"),
        ({"g.weight_ih_l0": np.ones((4, 3), "f4"), "g.weight_hh_l0": np.ones((4, 2), "f4")}, "4, 3 or 1 rows"),
        ({"g.weight_ih_l0": np.ones(3, "f4"), "g.weight_hh_l0": np.ones(3, "f4")}, "4, 3 or 1 rows"),
        ({**lstm(3, 2), "conv.weight": np.ones((4, 2, 3), "f4")}, "conv (Conv1d, weight (4, 2, 3), whose stride"),
        (
            {**lstm(3, 2), "c.weight": np.ones((4, 2, 3), "f4"), "d.weight": np.ones((4, 2, 3, 3), "f4")},
            "save the whole module), d (Conv2d",
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
        (linear(2, 2), "in no order"),
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
    assert files.load(path, readout="mean").readout == "mean"  # the caller has the last word
    assert files.load(path, config={"output": "linear"}).output == "linear"
    with pytest.raises(lrp.WeightFileError, match="may have readout, layers, activations, output and nonlinearity"):
        files.load(path, config={"activation": "relu"})


def test_remarks_in_npz_and_safetensors(tmp_path):
    state = zoo.torch_arrays(zoo.NETWORKS["sentence"].model())
    np.savez(tmp_path / "model.npz", readout="mean", **state)
    assert files.load(tmp_path / "model.npz").readout == "mean"
    safetensors(tmp_path / "model.safetensors", state, {"readout": "max"})
    assert files.load(tmp_path / "model.safetensors").readout == "max"


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
