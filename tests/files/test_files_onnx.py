"""ONNX: what exporters write around recurrent layers, byte by byte, against the same network of arrays."""

import math
import warnings

import networks as nets
import numpy as np
import pytest
from networks import close
from onnxfile import message, model, network, node, number, output, port, recurrent, tensor, text, weights

import lrpnumpy as lrp

H, D = 4, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, D)).astype(np.float32)
IFGO = [0, 2, 3, 1]


def const(name, *values, dtype=np.int64):
    return tensor(name, np.array(values, dtype))


def lstm(k=0, n=1):
    """The LSTM of `onnxfile.network`, or one direction of it."""
    W, R, B = (weights(name, n, *shape)[k] for name, shape in (("W", (16, D)), ("R", (16, H)), ("B", (32,))))
    b = B.reshape(2, 4, H).sum(axis=0)
    return lrp.LSTM(W.reshape(4, H, D)[IFGO], R.reshape(4, H, H)[IFGO], b[IFGO])


V = weights("V", H, 2)
HEAD = tensor("V", V) + node("MatMul", ["h", "V"], ["y"]) + output("y")


def opened(folder, graph, **load):
    path = folder / "model.onnx"
    path.write_bytes(model(graph))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return lrp.load(path, **load)


def refused(folder, graph, match, **load):
    with pytest.raises(lrp.WeightFileError, match=match):
        opened(folder, graph, **load)


def same(found, layers, x=X, **more):
    """Whether a model gives the scores of a list of layers."""
    want = lrp.Model(layers, **more)
    np.testing.assert_allclose(lrp.predict(found, x), lrp.predict(want, x), rtol=0, atol=1e-6)


LAST = {
    "Y_h, axes as an attribute": node("Squeeze", ["Y_h"], ["h"], axes=[0]),
    "Y_h, axes as an input": const("a", 0) + node("Squeeze", ["Y_h", "a"], ["h"]),
    "Y_h, reshaped": const("a", -1, 4) + node("Reshape", ["Y_h", "a"], ["h"]),
    "Y_h, gathered": tensor("a", np.array(0)) + node("Gather", ["Y_h", "a"], ["h"]),
    "Y, gathered": node("Squeeze", ["Y"], ["s"], axes=[1]) + tensor("a", np.array(-1))
    + node("Gather", ["s", "a"], ["h"], axis=0),
    "Y, batch first": node("Squeeze", ["Y"], ["s"], axes=[1]) + node("Transpose", ["s"], ["u"], perm=[1, 0, 2])
    + tensor("a", np.array(-1)) + node("Gather", ["u", "a"], ["h"], axis=1),
    "Y, cut by attributes": node("Squeeze", ["Y"], ["s"], axes=[1])
    + node("Slice", ["s"], ["l"], starts=[-1], ends=[2**31 - 1], axes=[0]) + node("Squeeze", ["l"], ["h"], axes=[0]),
    "Y, cut by inputs": node("Squeeze", ["Y"], ["s"], axes=[1]) + const("a", -1) + const("b", 2**63 - 1) + const("c", 0)
    + node("Slice", ["s", "a", "b", "c"], ["l"]) + node("Squeeze", ["l"], ["h"], axes=[0]),
    "Y, joined by its own shape": node("Transpose", ["Y"], ["p"], perm=[0, 2, 1, 3])
    + const("z", 0, 0, -1) + node("Reshape", ["p", "z"], ["s"]) + const("a", -1)
    + node("Gather", ["s", "a"], ["l"], axis=0) + node("Squeeze", ["l"], ["h"], axes=[0]),
    "Y, by the number of steps": node("Squeeze", ["Y"], ["s"], axes=[1]) + node("Shape", ["s"], ["n"])
    + tensor("a", np.array(0)) + node("Gather", ["n", "a"], ["T"]) + tensor("b", np.array(1))
    + node("Sub", ["T", "b"], ["k"]) + node("Gather", ["s", "k"], ["h"], axis=0),
    "a branch": const("a", 1) + node("Shape", ["Y_h"], ["n"]) + const("b", 0) + node("Gather", ["n", "b"], ["m"])
    + node("Equal", ["m", "a"], ["c"])
    + node("If", ["c"], ["h"], then_branch=node("Squeeze", ["Y_h"], ["g"], axes=[0]) + output("g"),
           else_branch=node("Identity", ["Y_h"], ["g2"]) + output("g2")),
}  # fmt: skip


@pytest.mark.parametrize("name", LAST)
def test_ways_to_the_last_state(name, tmp_path):
    found = opened(tmp_path, network(after=LAST[name] + HEAD))
    assert nets.readout(found) == "last" and [type(one) for one in found.layers] == [lrp.LSTM, lrp.Dense]
    same(found, [lstm(), lrp.Dense(V.T)])


def test_a_softmax_inside_a_network(tmp_path):
    after = node("Squeeze", ["Y_h"], ["g"], axes=[0]) + node("Softmax", ["g"], ["h"], axis=1)
    found = opened(tmp_path, network(after=after + HEAD))
    assert [type(one) for one in found.layers] == [lrp.LSTM, lrp.layers.Softmax, lrp.Dense]
    same(found, [lstm(), lrp.layers.Softmax(), lrp.Dense(V.T)])


@pytest.mark.parametrize("kind", ["mean", "max"])
@pytest.mark.parametrize("keep", [0, 1])
def test_readouts_over_the_steps(kind, keep, tmp_path):
    after = node("Squeeze", ["Y"], ["s"], axes=[1]) + node(
        f"Reduce{kind.title()}", ["s"], ["r"], axes=[0], keepdims=keep
    )
    after += node("Squeeze", ["r"], ["h"], axes=[0]) if keep else node("Identity", ["r"], ["h"])
    found = opened(tmp_path, network(after=after + HEAD))
    same(found, [lstm(), lrp.Dense(V.T)], readout=kind)


@pytest.mark.parametrize("after", [False, True])
def test_a_gru(after, tmp_path):
    cell = recurrent("GRU", outputs=("Y", "Y_h"), linear_before_reset=int(after))
    found = opened(tmp_path, network(cell=cell, gates=3))
    U, W = weights("W", 1, 12, D).reshape(3, H, D), weights("R", 1, 12, H).reshape(3, H, H)
    of_x, of_h = weights("B", 1, 24).reshape(2, 3, H)
    b = of_x + of_h * np.array([[1], [1], [not after]])
    gru = lrp.GRU(U, W, b.astype(np.float32), of_h[2] if after else None, reset_after=after)
    same(found, [gru, lrp.Dense(V.T)])


@pytest.mark.parametrize("activation", ["Tanh", "Relu"])
def test_a_plain_rnn(activation, tmp_path):
    cell = recurrent("RNN", activations=[activation])
    found = opened(tmp_path, network(cell=cell, gates=1))
    b = weights("B", 1, 8).reshape(2, H).sum(axis=0)
    rnn = lrp.RNN(weights("W", 1, H, D)[0], weights("R", 1, H, H)[0], b, activation=activation.lower())
    same(found, [rnn, lrp.Dense(V.T)])


def test_two_directions_cut_and_joined(tmp_path):
    cell = recurrent(direction="bidirectional")
    after = const("two", 1, 1) + node("Split", ["Y_h", "two"], ["f", "b"], axis=0)
    after += node("Concat", ["f", "b"], ["j"], axis=-1) + node("Squeeze", ["j"], ["h"], axes=[0])
    wide = weights("wide", 2 * H, 2)
    after += tensor("V2", wide) + node("MatMul", ["h", "V2"], ["y"]) + output("y")
    found = opened(tmp_path, network(cell=cell, after=after, n=2))
    same(found, [lrp.Bidirectional(lstm(0, 2), lstm(1, 2)), lrp.Dense(wide.T)])
    swapped = after.replace(text(1, "f") + text(1, "b"), text(1, "b") + text(1, "f"))
    found = opened(tmp_path, network(cell=cell, after=swapped, n=2))
    other = np.concatenate([wide[H:], wide[:H]])  # the matrix takes the backward direction first
    same(found, [lrp.Bidirectional(lstm(0, 2), lstm(1, 2)), lrp.Dense(other.T)])


def test_a_layer_that_reads_backwards(tmp_path):
    found = opened(tmp_path, network(cell=recurrent(direction="reverse")))
    nodes = [
        lrp.Node("r", lrp.layers.Reverse(), ("x",)),
        lrp.Node("c", lstm(), ("r",)),
        lrp.Node("d", lrp.Dense(V.T), ("c:last",)),
    ]
    same(found, nodes, inputs={"x": lrp.Input(D)})


def test_the_batch_first_layout(tmp_path):
    graph = port("x", ["N", "T", D]) + network(cell=b"", after=b"")[len(port("x", ["N", "T", D])) :]
    graph += node("LSTM", ["x", "W", "R", "B"], ["Y", "Y_h"], hidden_size=H, layout=1)
    found = opened(tmp_path, graph + node("Squeeze", ["Y_h"], ["h"], axes=[1]) + HEAD)
    same(found, [lstm(), lrp.Dense(V.T)])


def test_steps_that_come_first(tmp_path):
    graph = network().replace(node("Transpose", ["x"], ["t"], perm=[1, 0, 2]), node("Identity", ["x"], ["t"]))
    same(opened(tmp_path, graph), [lstm(), lrp.Dense(V.T)])


def test_hard_sigmoids_and_the_activations_of_each_direction(tmp_path):
    cell = recurrent(activations=["HardSigmoid", "Tanh", "Tanh"])
    assert opened(tmp_path, network(cell=cell)).layers[0].recurrent_activation == "hard_sigmoid"
    flat = message(5, text(1, "activation_alpha") + b"\x3d" + np.float32(1 / 6).tobytes() + number(20, 6))
    cell = recurrent(activations=["HardSigmoid", "Tanh", "Tanh"], also=flat)
    assert opened(tmp_path, network(cell=cell)).layers[0].recurrent_activation == "hard_sigmoid_3"
    zeros = message(5, text(1, "activation_alpha") + (b"\x3d" + np.float32(0).tobytes()) * 3 + number(20, 6))
    assert opened(tmp_path, network(cell=recurrent(also=zeros))).layers[0].recurrent_activation == "sigmoid"
    refused(tmp_path, network(cell=recurrent(activations=["Sigmoid", "Tanh", "Relu"])), "must be the same")
    refused(tmp_path, network(cell=recurrent(activations=["Sigmoid", "ScaledTanh", "ScaledTanh"])), "ScaledTanh")


@pytest.mark.parametrize("also, match", [({"clip": 3.0}, "clip"), ({"input_forget": 1}, "input_forget")])
def test_what_a_cell_cannot_do(also, match, tmp_path):
    refused(tmp_path, network(cell=recurrent(**also)), match)


def test_peepholes(tmp_path):
    P = weights("P", 1, 3 * H)
    cell = recurrent(inputs=("t", "W", "R", "B", "", "", "", "P"))
    found = opened(tmp_path, network(cell=tensor("P", P) + cell))
    plain = lstm()
    arrays = {f"{name}_{gate}": getattr(plain, name)[k] for name in "UWb" for k, gate in enumerate("ifgo")}
    p_i, p_o, p_f = P.reshape(3, H)
    same(found, [lrp.layers.PeepholeLSTM(**arrays, p_i=p_i, p_o=p_o, p_f=p_f), lrp.Dense(V.T)])
    relu = recurrent(inputs=("t", "W", "R", "B", "", "", "", "P"), activations=["Sigmoid", "Relu", "Relu"])
    refused(tmp_path, network(cell=tensor("P", P) + relu), "peepholes with other activations than sigmoid and tanh")


def start_states(array):
    return array + recurrent(inputs=("t", "W", "R", "B", "", "h0", "c0"))


def test_start_states(tmp_path):
    h0, c0 = weights("h0", 1, 1, H), weights("c0", 1, 1, H)
    found = opened(tmp_path, network(cell=start_states(tensor("h0", h0) + tensor("c0", c0))))
    cell = lstm()
    same(found, [lrp.LSTM(cell.U, cell.W, cell.b, h0=h0[0, 0], c0=c0[0, 0]), lrp.Dense(V.T)])
    zeros = node("Shape", ["x"], ["n"], start=0, end=1) + const("one", 1) + const("units", H)
    zeros += node("Concat", ["one", "n", "units"], ["m"], axis=0)
    zeros += node("ConstantOfShape", ["m"], ["h0"]) + node("Identity", ["h0"], ["c0"])
    same(opened(tmp_path, network(cell=start_states(zeros))), [cell, lrp.Dense(V.T)])
    learned = tensor("s", h0) + zeros.replace(text(2, "h0"), text(2, "z0")).replace(text(1, "h0"), text(1, "z0"))
    learned += node("Expand", ["s", "m"], ["h0"])
    same(opened(tmp_path, network(cell=start_states(learned))),
         [lrp.LSTM(cell.U, cell.W, cell.b, h0=h0[0, 0]), lrp.Dense(V.T)])  # fmt: skip


@pytest.mark.parametrize(
    ("h0", "c0"),
    [
        ((1, 1, 4), (1, 1, 7)),
        ((1, 1, 7), (1, 1, 4)),
        ((2, 1, 4), (1, 1, 4)),
        ((1, 4), (1, 1, 4)),
        ((1, 1, 4), (1, 1, 1)),
    ],
)
def test_start_states_of_other_sizes_are_refused_even_if_they_are_zero(tmp_path, h0, c0):
    """torch.onnx.export(dynamo=True) writes such a node for proj_size; onnxruntime rejects it."""
    zeros = tensor("h0", np.zeros(h0, "f4")) + tensor("c0", np.zeros(c0, "f4"))
    with pytest.raises(lrp.WeightFileError, match=r"has a start state of shape \(.*, which must be \(1, 1, 4\)"):
        opened(tmp_path, network(cell=start_states(zeros)))


def test_a_start_state_of_another_size_that_is_an_input_is_refused(tmp_path):
    ports = port("h0", [1, "N", H]) + port("c0", [1, "N", H + 1])
    with pytest.raises(lrp.WeightFileError, match=r"has a start state of shape \(1, 1, 5\)"):
        opened(tmp_path, network(cell=start_states(ports)) + output("Y_h"))


def test_a_hidden_size_of_other_weights_is_refused(tmp_path):
    cell = node("LSTM", ("t", "W", "R", "B"), ("Y", "Y_h"), hidden_size=5)
    with pytest.raises(lrp.WeightFileError, match="has the hidden_size 5, but weights of 4 units"):
        opened(tmp_path, network(cell=cell))


def test_start_states_that_are_inputs_are_zero(tmp_path):
    ports = port("h0", [1, "N", H]) + port("c0", [1, "N", H])
    path = tmp_path / "model.onnx"
    path.write_bytes(model(network(cell=start_states(ports)) + output("Y_h")))
    with pytest.warns(lrp.AssumptionWarning, match="'h0' is left out, it is a start state"):
        found = lrp.load(path)
    same(found, [lstm(), lrp.Dense(V.T)])


def test_lengths_are_those_of_the_series(tmp_path):
    cell = port("lengths", ["N"], "int64") + node("Cast", ["lengths"], ["l"], to=6)
    cell += recurrent(inputs=("t", "W", "R", "B", "l"))
    path = tmp_path / "model.onnx"
    path.write_bytes(model(network(cell=cell)))
    with pytest.warns(lrp.AssumptionWarning, match="each series at its own length"):
        found = lrp.load(path)
    same(found, [lstm(), lrp.Dense(V.T)])


def test_weights_in_pieces(tmp_path):
    W = weights("W", 1, 16, D)[0]
    parts = tensor("all", W.T) + node("Transpose", ["all"], ["rows"], perm=[1, 0]) + const("zero", 0)
    parts += b"".join(const(f"at{k}", 4 * k) for k in range(5))
    parts += b"".join(node("Slice", ["rows", f"at{k}", f"at{k + 1}", "zero"], [f"part{k}"]) for k in range(4))
    parts += node("Concat", [f"part{k}" for k in range(4)], ["cat"], axis=0) + node("Unsqueeze", ["cat", "zero"], ["W"])
    same(opened(tmp_path, network(W=parts)), [lstm(), lrp.Dense(V.T)])


def test_weights_beside_the_file(tmp_path):
    W = weights("W", 1, 16, D)
    (tmp_path / "model.onnx.data").write_bytes(b"\0" * 64 + W.tobytes() + b"\0" * 8)
    outside = {"location": "model.onnx.data", "offset": 64, "length": W.nbytes}
    same(opened(tmp_path, network(W=tensor("W", W, outside))), [lstm(), lrp.Dense(V.T)])
    (tmp_path / "model.onnx.data").unlink()
    refused(tmp_path, network(W=tensor("W", W, outside)), "model.onnx.data', which must lie beside the file")


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_numbers_of_other_widths(dtype, tmp_path):
    W = weights("W", 1, 16, D).astype(dtype)
    found = opened(tmp_path, network(W=tensor("W", W)))
    assert found.dtype == (np.float64 if dtype == np.float64 else np.float32)
    cell = lstm()
    same(found, [lrp.LSTM(W[0].reshape(4, H, D)[IFGO].astype(found.dtype), cell.W, cell.b), lrp.Dense(V.T)])


def test_numbers_in_typed_fields(tmp_path):
    """Older writers: floats one behind the other, packed or not; whole numbers as varints."""
    W = weights("W", 1, 16, D)
    start = b"".join(number(1, n) for n in W.shape) + number(2, 1) + text(8, "W")
    packed = message(5, start + message(4, W.tobytes()))
    single = message(5, start + b"".join(b"\x25" + one.tobytes() for one in W.reshape(-1)))
    for written in (packed, single):
        same(opened(tmp_path, network(W=written)), [lstm(), lrp.Dense(V.T)])
    axis = message(5, number(1, 1) + number(2, 7) + message(7, b"\x00") + text(8, "a"))
    found = opened(tmp_path, network(after=axis + node("Squeeze", ["Y_h", "a"], ["h"]) + HEAD))
    same(found, [lstm(), lrp.Dense(V.T)])


def test_a_head_as_tf2onnx_writes_it(tmp_path):
    """MatMul and Add as a Dense, BatchNorm as Mul and Add, softmax at the end."""
    d, s, t, V2 = weights("d", 2), weights("s", 2), weights("t", 2), weights("V2", 2, 3)
    after = node("Squeeze", ["Y_h"], ["h"], axes=[0]) + tensor("V", V) + node("MatMul", ["h", "V"], ["m"])
    after += tensor("d", d) + node("Add", ["m", "d"], ["z"]) + node("Relu", ["z"], ["r"])
    after += tensor("s", s) + node("Mul", ["r", "s"], ["u"]) + tensor("shift", t) + node("Add", ["u", "shift"], ["v"])
    after += (
        tensor("V2", V2) + node("MatMul", ["v", "V2"], ["w"]) + node("Softmax", ["w"], ["y"], axis=-1) + output("y")
    )
    found = opened(tmp_path, network(after=after))
    assert found.output == "softmax" and [type(one) for one in found.layers] == [lrp.LSTM, lrp.Dense, lrp.Dense]
    same(found, [lstm(), lrp.Dense(V.T, d, "relu"), lrp.Dense(V2.T * s, V2.T @ t)])


def test_convolution_norm_and_pool(tmp_path):
    """Channels in the middle, and two axes of which one has length 1, as tf2onnx writes a Conv1D."""
    K, c = weights("K", D, D, 1, 3), weights("c", D)
    mean, var = weights("mean", D), np.abs(weights("var", D)) + 0.1
    before = node("Transpose", ["x"], ["a"], perm=[0, 2, 1]) + node("Unsqueeze", ["a"], ["b"], axes=[2])
    before += (
        tensor("K", K) + tensor("c", c) + node("Conv", ["b", "K", "c"], ["e"], pads=[0, 1, 0, 1], kernel_shape=[1, 3])
    )
    before += b"".join(tensor(n, v) for n, v in {"g": c, "o": mean, "mean": mean, "var": var}.items())
    before += node("BatchNormalization", ["e", "g", "o", "mean", "var"], ["n"], epsilon=0.01)
    before += node("Relu", ["n"], ["r"]) + node("MaxPool", ["r"], ["p"], kernel_shape=[1, 2], strides=[1, 2])
    before += node("Squeeze", ["p"], ["q"], axes=[2]) + node("Transpose", ["q"], ["t2"], perm=[2, 0, 1])
    graph = network(before=before, cell=recurrent(inputs=("t2", "W", "R", "B")))
    graph = graph.replace(node("Transpose", ["x"], ["t"], perm=[1, 0, 2]), b"")
    layers = [
        lrp.layers.Conv1D(K[:, :, 0].transpose(0, 2, 1), c, padding=(1, 1)),
        lrp.layers.Affine.batch_norm(c, mean, mean, var, 0.01),
        lrp.layers.Activation("relu"), lrp.layers.MaxPool1D(2), lstm(), lrp.Dense(V.T),
    ]  # fmt: skip
    same(opened(tmp_path, graph), layers)


def states(name="s"):
    """All states of the LSTM as (N, T, H)."""
    return node("Squeeze", ["Y"], ["squeezed"], axes=[1]) + node("Transpose", ["squeezed"], [name], perm=[1, 0, 2])


@pytest.mark.parametrize("dot", [False, True])
@pytest.mark.parametrize("product", [False, True])
def test_attention_over_the_steps(dot, product, tmp_path):
    W, b, v = weights("w", H, 5), weights("b", 5), weights("v", H if dot else 5, 1)
    after = states() + tensor("w", W) + tensor("b", b) + tensor("v", v)
    after += node("MatMul", ["s", "w"], ["m"]) + node("Add", ["m", "b"], ["n"]) + node("Tanh", ["n"], ["u"])
    after += node("MatMul", ["s" if dot else "u", "v"], ["e"]) + node("Softmax", ["e"], ["a"], axis=1)
    if product:
        after += node("Transpose", ["a"], ["a2"], perm=[0, 2, 1]) + node("MatMul", ["a2", "s"], ["c"])
        after += node("Squeeze", ["c"], ["h"], axes=[1])
    else:
        after += node("Mul", ["s", "a"], ["c"]) + node("ReduceSum", ["c"], ["h"], axes=[1], keepdims=0)
    found = opened(tmp_path, network(after=after + HEAD))
    pool = lrp.layers.AttentionPool(v[:, 0]) if dot else lrp.layers.AttentionPool(v[:, 0], W.T, b)
    nodes = [("c", lstm(), "x"), ("p", pool, "c"), ("d", lrp.Dense(V.T), "p")]
    same(found, [lrp.Node(name, layer, (source,)) for name, layer, source in nodes])
    if not dot:
        other = opened(
            tmp_path, network(after=after.replace(node("Tanh", ["n"], ["u"]), node("Relu", ["n"], ["u"])) + HEAD)
        )
        H_t = lrp.predict(lrp.Model([lstm()], "every"), X)
        scores = np.maximum(H_t @ W + b, 0) @ v[:, 0]
        share = np.exp(scores - scores.max())
        close(lrp.predict(other, X), share @ H_t / share.sum() @ V, 1e-6)


@pytest.mark.parametrize("square", ["Pow", "Mul"])
def test_a_layer_norm_written_out(square, tmp_path):
    g, b = weights("g", H), weights("b", H)
    after = node("Squeeze", ["Y_h"], ["i"], axes=[0]) + node("ReduceMean", ["i"], ["m"], axes=[-1])
    after += node("Sub", ["i", "m"], ["c"]) + tensor("two", np.float32(2)) + tensor("eps", np.float32(0.01))
    after += node(square, ["c", "two" if square == "Pow" else "c"], ["q"]) + node("ReduceMean", ["q"], ["w"], axes=[-1])
    after += node("Add", ["w", "eps"], ["e"]) + node("Sqrt", ["e"], ["r"]) + node("Div", ["c", "r"], ["n"])
    after += tensor("g", g) + tensor("b", b) + node("Mul", ["n", "g"], ["o"]) + node("Add", ["o", "b"], ["h"])
    found = opened(tmp_path, network(after=after + HEAD))
    assert [type(one) for one in found.layers] == [lrp.LSTM, lrp.layers.LayerNorm, lrp.Dense]
    same(found, [lstm(), lrp.layers.LayerNorm(g, b, 0.01), lrp.Dense(V.T)])


@pytest.mark.parametrize("low, high", [(0.0, None), (0.0, 0.05), (-0.02, 0.03), (None, 0.01)])
def test_limits(low, high, tmp_path):
    limits = {name: value for name, value in (("min", low), ("max", high)) if value is not None}
    after = node("Squeeze", ["Y_h"], ["i"], axes=[0]) + node("Clip", ["i"], ["h"], **limits)
    found = opened(tmp_path, network(after=after + HEAD))
    last = lrp.predict(lrp.Model([lstm(), lrp.Dense(np.eye(H, dtype=np.float32))]), X)
    close(lrp.predict(found, X), np.clip(last, low, high) @ V, 1e-6)


def test_the_step_that_lengths_name(tmp_path):
    """out[range(N), lengths - 1], as positions in batch and steps as one axis, and as pairs."""
    one = tensor("one", np.array(1)) + tensor("zero", np.array(0)) + tensor("first", np.array([1]))
    lengths = port("lengths", ["N"], "int64") + one + states() + node("Sub", ["lengths", "one"], ["k"])
    lengths += node("Shape", ["s"], ["n"]) + node("Gather", ["n", "zero"], ["N"]) + node("Gather", ["n", "one"], ["T"])
    lengths += node("Range", ["zero", "N", "one"], ["each"])
    flat = node("Flatten", ["s"], ["f"], axis=2) + node("Mul", ["each", "T"], ["j"]) + node("Add", ["k", "j"], ["at"])
    flat += node("Gather", ["f", "at"], ["h"], axis=0)
    pairs = node("Unsqueeze", ["each", "first"], ["e1"]) + node("Unsqueeze", ["k", "first"], ["k1"])
    pairs += node("Concat", ["e1", "k1"], ["at"], axis=1) + node("GatherND", ["s", "at"], ["h"])
    for way in (flat, pairs):
        path = tmp_path / "model.onnx"
        path.write_bytes(model(network(after=lengths + way + HEAD)))
        with pytest.warns(lrp.AssumptionWarning, match="'lengths' is left out"):
            same(lrp.load(path), [lstm(), lrp.Dense(V.T)])


def test_all_steps_in_one_vector_channels_first(tmp_path):
    wide = weights("wide", 6 * H, 2)
    after = states() + node("Transpose", ["s"], ["c"], perm=[0, 2, 1]) + node("Flatten", ["c"], ["h"])
    graph = network(after=after + tensor("V", wide) + node("MatMul", ["h", "V"], ["y"]) + output("y"))
    graph = graph.replace(port("x", ["N", "T", D]), port("x", ["N", 6, D]))
    by_step = wide.reshape(H, 6, 2).transpose(1, 0, 2).reshape(-1, 2)
    nodes = [("c", lstm(), "x"), ("f", lrp.layers.Flatten(6), "c"), ("d", lrp.Dense(by_step.T), "f")]
    same(opened(tmp_path, graph), [lrp.Node(name, layer, (source,)) for name, layer, source in nodes])


def test_a_number_of_steps_that_only_the_graph_says(tmp_path):
    after = node("Squeeze", ["Y"], ["s"], axes=[1]) + const("a", 6, -1, H) + node("Reshape", ["s", "a"], ["r"])
    after += tensor("last", np.array(5)) + node("Gather", ["r", "last"], ["h"], axis=0)
    same(opened(tmp_path, network(after=after + HEAD)), [lstm(), lrp.Dense(V.T)])


@pytest.mark.parametrize("c", ["Y_c", ""])
def test_an_encoder_and_a_decoder(c, tmp_path):
    """The last states start another layer, which reads a vector at every step."""
    after = states() + node("Shape", ["s"], ["n"]) + node("Squeeze", ["Y_h"], ["z"], axes=[0])
    after += node("Unsqueeze", ["z"], ["z1"], axes=[1]) + node("Expand", ["z1", "n"], ["many"])
    after += node("Transpose", ["many"], ["t3"], perm=[1, 0, 2])
    U, W = weights("U2", 1, 16, H), weights("W2", 1, 16, H)
    after += tensor("U2", U) + tensor("W2", W)
    after += recurrent(inputs=("t3", "U2", "W2", "", "", "Y_h", c), outputs=("Z",))
    after += node("Squeeze", ["Z"], ["h"], axes=[1])
    found = opened(tmp_path, network(cell=recurrent(outputs=("Y", "Y_h", "Y_c")), after=after + HEAD))
    second = lrp.LSTM(U[0].reshape(4, H, H)[IFGO], W[0].reshape(4, H, H)[IFGO])
    nodes = [
        lrp.Node("c", lstm(), ("x",)), lrp.Node("r", lrp.layers.Repeat(), ("c:last", "x")),
        lrp.Node("e", second, ("r", "c:last", "c:cell")), lrp.Node("d", lrp.Dense(V.T), ("e",)),
    ]  # fmt: skip
    if not c:  # a memory of zeros beside a state of the network
        zero = np.zeros(H, np.float32)
        nodes[2:3] = [
            lrp.Node("0", lrp.layers.Affine(zero, zero), ("c:last",)), lrp.Node("e", second, ("r", "c:last", "0"))
        ]  # fmt: skip
    same(found, nodes)


def test_an_embedding(tmp_path):
    E = weights("E", 9, D)
    graph = network(before=tensor("E", E) + port("ids", ["N", "T"], "int64") + node("Gather", ["E", "ids"], ["x"]))
    found = opened(tmp_path, graph.replace(port("x", ["N", "T", D]), b""))
    same(found, [lstm(), lrp.Dense(V.T)], x=np.array([3, 1, 8]), embedding=lrp.Embedding(E))


def test_two_inputs_by_name(tmp_path):
    wide = weights("wide", H + 2, 2)
    after = node("Squeeze", ["Y_h"], ["l"], axes=[0]) + port("site:0", ["N", 2])
    after += node("Concat", ["l", "site:0"], ["h"], axis=1)
    found = opened(tmp_path, network(after=after + tensor("V", wide) + node("MatMul", ["h", "V"], ["y"]) + output("y")))
    assert list(found.inputs) == ["x", "site"] and not found.inputs["site"].steps
    site = RNG.normal(size=2).astype(np.float32)
    last = lrp.predict(lrp.Model([lstm(), lrp.Dense(np.eye(H, dtype=np.float32))]), X)
    close(lrp.predict(found, {"x": X, "site": site}), np.concatenate([last, site]) @ wide, 1e-6)


def test_several_outputs(tmp_path):
    graph = network() + tensor("V2", 2 * V) + node("MatMul", ["h", "V2"], ["z"]) + output("z") + output("Y_h")
    refused(tmp_path, graph, "has 3 outputs, 'y', 'z', 'Y_h'; say which one gives the scores: which='y'")
    same(opened(tmp_path, graph, which="z"), [lstm(), lrp.Dense(2 * V.T)])
    refused(tmp_path, graph, "got 'w'", which="w")
    same(opened(tmp_path, network() + output("Y_h")), [lstm(), lrp.Dense(V.T)])  # a state is no prediction


def test_a_layer_of_ones_own(tmp_path):
    after = node("Squeeze", ["Y_h"], ["g"], axes=[0]) + tensor("s", weights("s", H))
    graph = network(after=after + node("Scale", ["g", "s"], ["h"], domain="com.example", by=2) + HEAD)
    refused(tmp_path, graph, r"Scale the Scale: is of the domain 'com.example'.*custom=\{'Scale': function\}")

    def scale(settings, arrays):
        return lrp.layers.Affine(settings["by"] * arrays["s"])

    found = opened(tmp_path, graph, custom={"Scale": scale})
    same(found, [lstm(), lrp.layers.Affine(2 * weights("s", H)), lrp.Dense(V.T)])
    with pytest.raises(lrp.LrpError, match="must give a layer"):
        opened(tmp_path, graph, custom={"Scale": lambda settings, arrays: None})


# -- operations, one by one: of the last state i (N, 4), or of all states s (N, T, 4), to h -------------------------


def erf(x):
    return np.vectorize(math.erf)(x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def normed(x, eps=0.01):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def scalar(name, value):
    return tensor(name, np.float32(value))


def wide(name, *values):
    return tensor(name, np.array(values, np.float32))


G = weights("G", H, H)
P = np.array([0.1, 0.2, 0.3, -0.4], np.float32)
CENTRED = node("ReduceMean", ["i"], ["m"], axes=[-1]) + node("Sub", ["i", "m"], ["c"]) + scalar("eps", 0.01)
SQUARES = CENTRED + node("ReduceSumSquare", ["c"], ["q"], axes=[-1]) + scalar("n", H) + node("Div", ["q", "n"], ["v"])
SQUARES += node("Add", ["v", "eps"], ["e"])
VARIANCE = CENTRED + node("Mul", ["c", "c"], ["q"]) + node("ReduceMean", ["q"], ["v"], axes=[-1])
OF_LAST = {
    "Neg": (node("Neg", ["i"], ["h"]), lambda i: -i),
    "Max": (scalar("z", 0) + node("Max", ["z", "i"], ["h"]), lambda i: np.maximum(i, 0)),
    "Sum of one": (node("Sum", ["i"], ["h"]), lambda i: i),
    "Sum": (node("Relu", ["i"], ["r"]) + node("Sum", ["i", "r", "i"], ["h"]), lambda i: 2 * i + np.maximum(i, 0)),
    "a constant less a value": (scalar("z", 2) + node("Sub", ["z", "i"], ["h"]), lambda i: 2 - i),
    "a constant of more axes": (tensor("z", P[None, None, :]) + node("Add", ["i", "z"], ["r"])
                                + node("Squeeze", ["r"], ["h"], axes=[0]), lambda i: i + P),
    "a constant that is the same for all": (tensor("z", np.full((3, 1), 2, np.float32))
                                            + node("Mul", ["i", "z"], ["h"]),
                                            lambda i: 2 * i),
    "Div": (tensor("z", P) + node("Div", ["i", "z"], ["h"]), lambda i: i / P),
    "Pow": (scalar("z", 2) + node("Pow", ["i", "z"], ["h"]), lambda i: i**2),
    "a product": (node("Tanh", ["i"], ["r"]) + node("Mul", ["i", "r"], ["h"]), lambda i: i * np.tanh(i)),
    "PRelu": (tensor("z", P) + node("PRelu", ["i", "z"], ["h"]), lambda i: np.where(i > 0, i, P * i)),
    "LeakyRelu": (node("LeakyRelu", ["i"], ["h"], alpha=0.3), lambda i: np.where(i > 0, i, 0.3 * i)),
    "Elu": (node("Elu", ["i"], ["h"], alpha=0.5), lambda i: np.where(i > 0, i, 0.5 * np.expm1(i))),
    "HardSigmoid": (node("HardSigmoid", ["i"], ["h"]), lambda i: np.clip(0.2 * i + 0.5, 0, 1)),
    "HardSwish": (node("HardSwish", ["i"], ["h"]), lambda i: i * np.clip(i / 6 + 0.5, 0, 1)),
    "Gelu": (node("Gelu", ["i"], ["h"]), lambda i: i * (1 + erf(i / math.sqrt(2))) / 2),
    "Gelu by tanh": (node("Gelu", ["i"], ["h"], approximate="tanh"),
                     lambda i: i / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (i + 0.044715 * i**3)))),
    "a GELU written out": (scalar("z", math.sqrt(0.5)) + node("Mul", ["i", "z"], ["r"]) + node("Erf", ["r"], ["u"])
                           + scalar("one", 1) + node("Add", ["u", "one"], ["v"]) + node("Mul", ["i", "v"], ["w"])
                           + scalar("half", 0.5) + node("Mul", ["w", "half"], ["h"]),
                           lambda i: i * (1 + erf(i / math.sqrt(2))) / 2),
    "a SiLU written out": (node("Sigmoid", ["i"], ["r"]) + node("Mul", ["i", "r"], ["h"]), lambda i: i * sigmoid(i)),
    "a gate": (tensor("G", G) + node("MatMul", ["i", "G"], ["m"]) + node("Sigmoid", ["m"], ["r"])
               + node("Mul", ["i", "r"], ["h"]), lambda i: i * sigmoid(i @ G)),
    "LayerNormalization": (tensor("z", P) + tensor("b", 2 * P)
                           + node("LayerNormalization", ["i", "z", "b"], ["h"], epsilon=0.01),
                           lambda i: normed(i) * P + 2 * P),
    "a norm by Sqrt and Reciprocal": (SQUARES + node("Sqrt", ["e"], ["r"]) + node("Reciprocal", ["r"], ["o"])
                                      + node("Mul", ["c", "o"], ["h"]), normed),
    "a norm by a power": (SQUARES + scalar("z", -0.5) + node("Pow", ["e", "z"], ["o"]) + node("Mul", ["c", "o"], ["h"]),
                          normed),
    "a norm by a root as a power": (SQUARES + scalar("z", 0.5) + node("Pow", ["e", "z"], ["o"])
                                    + node("Div", ["c", "o"], ["h"]), normed),
    "a norm as BatchNormalization": (VARIANCE + wide("one", 1) + wide("zero", 0)
                                     + node("BatchNormalization", ["i", "one", "zero", "m", "v"], ["h"], epsilon=0.01),
                                     normed),
    "a matrix of one axis": (tensor("z", P) + node("MatMul", ["i", "z"], ["r"])
                             + node("Unsqueeze", ["r"], ["h"], axes=[1]),
                             lambda i: (i @ P)[None]),
    "a matrix of three axes": (tensor("G", G[None]) + node("Unsqueeze", ["i"], ["r"], axes=[1])
                               + node("MatMul", ["r", "G"], ["u"]) + node("Squeeze", ["u"], ["h"], axes=[1]),
                               lambda i: i @ G),
    "a matrix from the left": (tensor("G", G) + node("Unsqueeze", ["i"], ["r"], axes=[2])
                               + node("MatMul", ["G", "r"], ["u"])
                               + node("Squeeze", ["u"], ["h"], axes=[2]), lambda i: G @ i),
    "Gather": (const("z", 2, 0, 1) + node("Gather", ["i", "z"], ["h"], axis=1), lambda i: i[[2, 0, 1]]),
    "features backwards": (const("a", -1) + const("b", -(2**31)) + const("x1", 1)
                           + const("m1", -1) + node("Slice", ["i", "a", "b", "x1", "m1"], ["h"]), lambda i: i[::-1]),
    "every other feature": (const("a", 0) + const("b", 2**31) + const("x1", 1) + const("two", 2)
                            + node("Slice", ["i", "a", "b", "x1", "two"], ["h"]), lambda i: i[::2]),
    "a norm of every other feature": (const("a", 0) + const("b", 2**31) + const("x1", 1) + const("two", 2)
                                      + node("Slice", ["i", "a", "b", "x1", "two"], ["r"]) + wide("z", 1, 2)
                                      + node("LayerNormalization", ["r", "z"], ["h"], epsilon=0.01),
                                      lambda i: normed(i[::2]) * [1, 2]),
    "halves": (node("Split", ["i"], ["u", "v"], axis=1) + node("Sub", ["u", "v"], ["h"]), lambda i: i[:2] - i[2:]),
    "a value and its ReLU": (node("Relu", ["i"], ["r"]) + node("Concat", ["i", "r"], ["j"], axis=1)
                             + node("Tanh", ["j"], ["k"]) + tensor("z", np.tile(P, 2)) + node("Add", ["k", "z"], ["h"]),
                             lambda i: np.tanh(np.r_[i, np.maximum(i, 0)]) + np.tile(P, 2)),
    "Concat of one": (node("Concat", ["i"], ["h"], axis=1), lambda i: i),
    "a constant for two values": (node("Relu", ["i"], ["r"]) + node("Concat", ["i", "r"], ["j"], axis=1)
                                  + tensor("z", np.tile(P, 2)) + node("Mul", ["j", "z"], ["h"]),
                                  lambda i: np.r_[i, np.maximum(i, 0)] * np.tile(P, 2)),
    "a number repeated": (node("ReduceSum", ["i"], ["r"], axes=[1]) + const("z", 1, 3)
                          + node("Tile", ["r", "z"], ["h"]),
                          lambda i: np.full(3, i.sum())),
    "a sum without its axis": (node("ReduceSum", ["i"], ["r"], axes=[1], keepdims=0)
                               + node("Unsqueeze", ["r"], ["h"], axes=[1]), lambda i: i.sum(keepdims=True)),
    "a sum over nothing": (node("ReduceSum", ["i"], ["h"], noop_with_empty_axes=1), lambda i: i),
    "a mean over an axis of one": (node("Unsqueeze", ["i"], ["r"], axes=[1])
                                   + node("ReduceMean", ["r"], ["h"], axes=[1], keepdims=0), lambda i: i),
    "limits as inputs": (scalar("a", -0.02) + scalar("b", 0.03) + node("Clip", ["i", "a", "b"], ["h"]),
                         lambda i: np.clip(i, -0.02, 0.03)),
    "no limits": (node("Clip", ["i"], ["h"]), lambda i: i),
    "a vector at three steps": (node("Unsqueeze", ["i"], ["r"], axes=[1]) + const("z", 1, 3, H)
                                + node("Expand", ["r", "z"], ["u"])
                                + node("ReduceSum", ["u"], ["h"], axes=[1], keepdims=0),
                                lambda i: 3 * i),
}  # fmt: skip

OF_STATES = {
    "some steps": (const("a", 1) + const("b", -1) + const("x1", 1) + node("Slice", ["s", "a", "b", "x1"], ["r"])
                   + node("ReduceMean", ["r"], ["h"], axes=[1], keepdims=0), lambda s: s[1:-1].mean(0)),
    "every other step": (const("a", 0) + const("b", 2**31) + const("x1", 1) + const("two", 2)
                         + node("Slice", ["s", "a", "b", "x1", "two"], ["r"])
                         + node("ReduceMax", ["r"], ["h"], axes=[1], keepdims=0), lambda s: s[::2].max(0)),
    "the first step": (const("a", 0) + const("b", 1) + const("x1", 1) + node("Slice", ["s", "a", "b", "x1"], ["r"])
                       + node("Squeeze", ["r"], ["h"], axes=[1]), lambda s: s[0]),
    "all steps": (const("a", 0) + const("b", 2**31) + const("x1", 1) + node("Slice", ["s", "a", "b", "x1"], ["r"])
                  + node("ReduceSum", ["r"], ["h"], axes=[1], keepdims=0), lambda s: s.sum(0)),
    "steps backwards": (const("a", -1) + const("b", -(2**31)) + const("x1", 1) + const("m1", -1)
                        + node("Slice", ["s", "a", "b", "x1", "m1"], ["r"]) + tensor("z", np.array(2))
                        + node("Gather", ["r", "z"], ["h"], axis=1), lambda s: s[::-1][2]),
    "ReverseSequence": (node("Shape", ["s"], ["n"], start=1, end=2)
                        + node("ReverseSequence", ["s", "n"], ["r"], time_axis=1, batch_axis=0)
                        + tensor("z", np.array(2))
                        + node("Gather", ["r", "z"], ["h"], axis=1), lambda s: s[::-1][2]),
    "GatherElements": (tensor("z", np.full((1, 1, H), -1)) + node("GatherElements", ["s", "z"], ["r"], axis=1)
                       + node("Squeeze", ["r"], ["h"], axes=[1]), lambda s: s[-1]),
    "a vector at each step": (node("Squeeze", ["Y_h"], ["i"], axes=[0]) + node("Unsqueeze", ["i"], ["r"], axes=[1])
                              + node("Mul", ["s", "r"], ["u"]) + node("ReduceSum", ["u"], ["h"], axes=[1], keepdims=0),
                              lambda s: (s * s[-1]).sum(0)),
    "padding and a convolution": (node("Transpose", ["s"], ["c"], perm=[0, 2, 1]) + const("p", 0, 0, 1, 0, 0, 1)
                                  + node("Pad", ["c", "p"], ["r"]) + tensor("K", weights("K", H, H, 3))
                                  + node("Conv", ["r", "K"], ["u"]) + node("GlobalAveragePool", ["u"], ["v"])
                                  + node("Squeeze", ["v"], ["h"], axes=[2]), lambda s: convolved(s, 1, 1).mean(0)),
    "no padding": (const("p", 0, 0, 0, 0, 0, 0) + node("Pad", ["s", "p"], ["r"])
                   + node("ReduceMean", ["r"], ["h"], axes=[1], keepdims=0), lambda s: s.mean(0)),
    "padding with an axis of its own": (const("p", 0, 1) + wide("zero", 0) + const("x1", 1)
                                        + node("Pad", ["s", "p", "zero", "x1"], ["r"])
                                        + node("Transpose", ["r"], ["c"], perm=[0, 2, 1])
                                        + tensor("K", weights("K", H, H, 3))
                                        + node("Conv", ["c", "K"], ["u"]) + node("GlobalMaxPool", ["u"], ["v"])
                                        + node("Squeeze", ["v"], ["h"], axes=[2]), lambda s: convolved(s, 0, 1).max(0)),
    **{
        f"a convolution, {auto}": (node("Transpose", ["s"], ["c"], perm=[0, 2, 1]) + tensor("K", weights("K", H, H, 3))
                                   + node("Conv", ["c", "K"], ["u"], auto_pad=auto)
                                   + node("ReduceMax", ["u"], ["h"], axes=[2], keepdims=0),
                                   lambda s, ends=ends: convolved(s, *ends).max(0))
        for auto, ends in {"SAME_UPPER": (1, 1), "VALID": (0, 0)}.items()
    },
    "an average with padding": (node("Transpose", ["s"], ["c"], perm=[0, 2, 1])
                                + node("AveragePool", ["c"], ["u"], kernel_shape=[2], strides=[2], pads=[1, 1],
                                       count_include_pad=1)
                                + node("ReduceMax", ["u"], ["h"], axes=[2], keepdims=0),
                                lambda s: np.pad(s, ((1, 1), (0, 0))).reshape(-1, 2, H).mean(1).max(0)),
    "a norm of each step": (tensor("z", P) + node("LayerNormalization", ["s", "z"], ["r"], epsilon=0.01)
                            + node("ReduceMax", ["r"], ["h"], axes=[1], keepdims=0),
                            lambda s: (normed(s) * P).max(0)),
}  # fmt: skip


def convolved(s, before, after):
    K, padded = weights("K", H, H, 3), np.pad(s, ((before, after), (0, 0)))
    return np.array([np.einsum("oiw,wi->o", K, padded[t : t + 3]) for t in range(len(padded) - 2)])


STATES = np.array(lrp.predict(lrp.Model([lstm(), lrp.Dense(np.eye(H, dtype=np.float32))], readout="every"), X))


def head(count):
    """To two scores."""
    return tensor("V", weights("V", count, 2)) + node("MatMul", ["h", "V"], ["y"]) + output("y")


@pytest.mark.parametrize("name", OF_LAST)
def test_operations_on_vectors(name, tmp_path):
    graph, function = OF_LAST[name]
    want = function(STATES[-1].astype(float))
    after = node("Squeeze", ["Y_h"], ["i"], axes=[0]) + graph + head(len(want))
    close(lrp.predict(opened(tmp_path, network(after=after)), X), want @ weights("V", len(want), 2), 1e-5)


@pytest.mark.parametrize("steps", ["T", len(X)])
@pytest.mark.parametrize("name", OF_STATES)
def test_operations_on_series(name, steps, tmp_path):
    graph, function = OF_STATES[name]
    want = function(STATES.astype(float))
    found = network(after=states() + graph + head(len(want)))
    found = found.replace(port("x", ["N", "T", D]), port("x", ["N", steps, D]))
    close(lrp.predict(opened(tmp_path, found), X), want @ weights("V", len(want), 2), 1e-5)


def test_a_batch_of_one(tmp_path):
    """The file says that there is one sequence: its axis may be taken away, and taken from."""
    for way in (
        node("Squeeze", ["Y_h"], ["h"]),
        const("n", H) + node("Reshape", ["Y_h", "n"], ["h"]),
        LAST_STATE + tensor("k", np.array(0)) + node("Gather", ["i", "k"], ["h"], axis=0),
        LAST_STATE + const("k", 0) + node("Gather", ["i", "k"], ["h"], axis=0),
    ):
        graph = network(after=way + HEAD).replace(port("x", ["N", "T", D]), port("x", [1, "T", D]))
        same(opened(tmp_path, graph), [lstm(), lrp.Dense(V.T)])


# -- weights that the graph computes --------------------------------------------------------------------------------

A = weights("A", 1, 16, D)
FOLDED = {
    "Reshape": (tensor("a", A.reshape(-1)) + const("n", 1, -1, D) + node("Reshape", ["a", "n"], ["W"]), A),
    "Reshape that keeps an axis": (tensor("a", A[0].T.copy()) + node("Transpose", ["a"], ["t1"], perm=[1, 0])
                                   + const("n", 1, 16, 3) + node("Reshape", ["t1", "n"], ["b"]) + const("m", 0, 0, 0)
                                   + node("Reshape", ["b", "m"], ["W"]), A),
    "Tile": (tensor("a", A[..., :1]) + const("n", 1, 1, D) + node("Tile", ["a", "n"], ["W"]), np.tile(A[..., :1], D)),
    "Split": (tensor("a", np.concatenate([A, -A])) + node("Split", ["a"], ["W", "rest"], axis=0), A),
    "Squeeze": (tensor("a", A[None]) + const("n", 0) + node("Squeeze", ["a", "n"], ["W"]), A),
    "Cast": (tensor("a", A.astype(np.float64)) + node("Cast", ["a"], ["W"], to=1), A),
    "Div": (tensor("a", A) + scalar("b", 2) + node("Div", ["a", "b"], ["W"]), A / 2),
    "Sqrt and Abs": (tensor("a", A) + node("Abs", ["a"], ["b"]) + node("Sqrt", ["b"], ["W"]), np.sqrt(abs(A))),
    "ReduceSum": (tensor("a", np.stack([A, A])) + node("ReduceSum", ["a"], ["W"], axes=[0], keepdims=0), 2 * A),
    "Clip": (tensor("a", A) + scalar("b", -0.1) + scalar("c", 0.1) + node("Clip", ["a", "b", "c"], ["W"]),
             np.clip(A, -0.1, 0.1)),
    "Range": (scalar("a", 0) + scalar("b", 48) + scalar("c", 1) + node("Range", ["a", "b", "c"], ["r"])
              + scalar("d", 0.01) + node("Mul", ["r", "d"], ["u"]) + const("n", 1, 16, D)
              + node("Reshape", ["u", "n"], ["W"]),
              np.arange(48).reshape(1, 16, D) * 0.01),
    "Where": (tensor("a", A) + scalar("b", 0) + node("Greater", ["a", "b"], ["c"])
              + node("Where", ["c", "a", "b"], ["W"]),
              np.maximum(A, 0)),
    "Shape": (tensor("a", A) + node("Shape", ["a"], ["n"]) + tensor("b", A.reshape(-1))
              + node("Reshape", ["b", "n"], ["W"]), A),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDED)
def test_weights_that_the_graph_computes(name, tmp_path):
    graph, W = FOLDED[name]
    cell = lstm()
    U = W.astype(np.float32)[0].reshape(4, H, D)[IFGO]
    same(opened(tmp_path, network(W=graph)), [lrp.LSTM(U, cell.W, cell.b), lrp.Dense(V.T)])


UNKNOWN = {
    "must have its weights as constants|is not supported where it computes constants": tensor("a", A)
    + node("Erf", ["a"], ["W"]),
    "cannot be computed": tensor("a", A) + const("n", 5, 5) + node("Reshape", ["a", "n"], ["W"]),
    "cannot be computed from its constants": node("Constant", [], ["W"]),
    "needs the size of the batch": node("Shape", ["x"], ["n"], start=0, end=1) + node("ConstantOfShape", ["n"], ["z"])
    + node("ReduceSum", ["z"], ["W"]),
}  # fmt: skip


@pytest.mark.parametrize("match", UNKNOWN)
def test_weights_that_are_not_known(match, tmp_path):
    refused(tmp_path, network(W=UNKNOWN[match]), match)


REFUSED = {
    "is a loop": node("Loop", ["", "", "Y_h"], ["h"], body=output("z")),
    "is a loop, which": node("Scan", ["Y_h"], ["h"], body=output("z"), num_scan_inputs=1),
    "step by step": node("SplitToSequence", ["Y"], ["s"]) + node("SequenceAt", ["s"], ["h"]),
    "depends on values": node("If", ["Y_h"], ["h"], then_branch=output("z"), else_branch=output("z")),
    "is not supported; custom=": node("Einsum", ["Y_h"], ["h"], equation="abc->bc"),
    "takes the value 'nothing', which no node before it makes": node("Relu", ["nothing"], ["h"]),
    "takes a log_softmax": node("Squeeze", ["Y_h"], ["g"], axes=[0]) + node("LogSoftmax", ["g"], ["h"], axis=1),
    "rounds values": node("Squeeze", ["Y_h"], ["g"], axes=[0]) + node("Cast", ["g"], ["h"], to=7),
    "for which the file must say how many": node("Squeeze", ["Y"], ["g"], axes=[1])
    + node("Transpose", ["g"], ["u"], perm=[1, 0, 2]) + node("Flatten", ["u"], ["h"]),
    "differs between steps": node("Squeeze", ["Y_h"], ["g"], axes=[0]) + tensor("p", weights("p", 5, H))
    + node("Add", ["g", "p"], ["h"]),
}  # fmt: skip


LAST_STATE = node("Squeeze", ["Y_h"], ["i"], axes=[0]) + const("zero", 0) + const("one", 1)
REFUSED_VECTORS = {
    "must reorder all axes": node("Transpose", ["i"], ["h"], perm=[0, 0]),
    "longer than 1": node("Squeeze", ["i"], ["h"], axes=[1]),
    "the same axis twice": node("Unsqueeze", ["i"], ["h"], axes=[1, 1]),
    "two open sizes": const("n", -1, -1) + node("Reshape", ["i", "n"], ["h"]),
    "makes .* of .*, which is not supported": const("n", -1, 3) + node("Reshape", ["i", "n"], ["h"]),
    "more than 32 axes": const("n", *[1] * 33) + node("Reshape", ["i", "n"], ["h"]),
    "axis 7 of a value with 2 axes": node("Split", ["i"], ["h", "k"], axis=7),
    "must cut all of an axis of 4": const("n", 1, 1) + node("Split", ["i", "n"], ["h", "k"], axis=1),
    "cuts the batch": node("Split", ["i"], ["h", "k"], axis=0),
    "takes nothing": const("two", 2) + node("Slice", ["i", "two", "one", "one"], ["h"]),
    "takes some sequences of the batch": node("Slice", ["i", "zero", "one", "zero"], ["h"]),
    "positions of an axis of 4 that there are not": const("n", 4) + node("Gather", ["i", "n"], ["h"], axis=1),
    "positions in several axes": tensor("n", np.array([[0, 1]])) + node("Gather", ["i", "n"], ["h"], axis=1),
    "must take a single step": node("Gather", ["i", "zero"], ["h"], axis=0),
    "known only when the network runs, which": node("Gather", ["i", "i"], ["h"]),
    "must take one step of every sequence": tensor("n", np.array([[0, 1]])) + node("GatherND", ["i", "n"], ["h"]),
    "must take a single step, the same": tensor("n", np.array([[0]]))
    + node("GatherElements", ["i", "n"], ["h"], axis=1),
    "repeats something that is not a single": const("n", 1, 2) + node("Tile", ["i", "n"], ["h"]),
    "so often that it is not supported": node("ReduceSum", ["i"], ["r"], axes=[1]) + const("n", 1, 10**7)
    + node("Tile", ["r", "n"], ["h"]),
    "axes mean different things": node("Concat", ["i", "Y_h"], ["h"], axis=0),
    "joins along the batch": node("Concat", ["i", "i"], ["h"], axis=0),
    "reverses something else": node("ReverseSequence", ["i", "one"], ["h"], time_axis=1, batch_axis=0),
    "for zeros around the steps only": const("n", 0, 1, 0, 1) + node("Pad", ["i", "n"], ["h"]),
    "multiplies two values": node("MatMul", ["i", "i"], ["h"]),
    "multiplies along the batch": tensor("G", G) + node("MatMul", ["G", "i"], ["h"]),
    "has a matrix of shape": tensor("G", G[:3]) + node("MatMul", ["i", "G"], ["h"]),
    "has transA": tensor("G", G) + node("Gemm", ["i", "G"], ["h"], transA=1),
    "a bias that differs between sequences": tensor("G", G) + tensor("b", G) + node("Gemm", ["i", "G", "b"], ["h"]),
    "has 2 axes, for a window of 1": tensor("K", weights("K", H, H, 3)) + node("Conv", ["i", "K"], ["h"]),
    "has 2 axes, for a window of 0": tensor("G", G) + node("Conv", ["i", "G"], ["h"]),
    "takes all numbers together": node("ReduceSum", ["i"], ["h"]),
    "over the steps or over features": node("ReduceSum", ["i"], ["h"], axes=[0]),
    "as a sum or a mean over one axis": node("ReduceMax", ["i"], ["h"], axes=[1]),
    "a constant of shape \\(2,\\)": wide("z", 1, 2) + node("BatchNormalization", ["i", "z", "z", "z", "z"], ["h"]),
    "a mean and a variance that are known only": VARIANCE + wide("two", 2)
    + node("BatchNormalization", ["i", "two", "two", "m", "v"], ["h"]),
    "must be over the features of each step": wide("z", 1) + node("LayerNormalization", ["i", "z"], ["h"], axis=0),
    "a slope that is not supported": node("HardSigmoid", ["i"], ["h"], alpha=0.3),
    "numbers that are not supported": node("Selu", ["i"], ["h"], alpha=2.0),
    "a constant of shape": wide("z", 1, 2, 3) + node("Add", ["i", "z"], ["h"]),
    "divides by a value of the network": scalar("z", 1) + node("Div", ["z", "i"], ["h"]),
    "divides by a value": node("Relu", ["i"], ["r"]) + node("Div", ["i", "r"], ["h"]),
    "the larger of a value and 0": scalar("z", 1) + node("Max", ["i", "z"], ["h"]),
    "exponent 2 only": scalar("z", 3) + node("Pow", ["i", "z"], ["h"]),
    "sums of squares, or as part of a LayerNorm": node("Sqrt", ["i"], ["h"]),
    "as part of a LayerNorm": node("Reciprocal", ["i"], ["h"]),
    "part of a GELU only": node("Erf", ["i"], ["h"]),
    "takes what comes of square": CENTRED + node("Mul", ["c", "c"], ["q"]) + node("Relu", ["q"], ["h"]),
    "joins values of different sizes": node("Slice", ["i", "zero", "one", "one"], ["r"])
    + node("Concat", ["r", "r"], ["u"], axis=1) + node("Add", ["i", "u"], ["h"]),
    "must take a value of the network": tensor("G", G) + node("Gemm", ["G", "i"], ["h"]),
    "must have its positions as constants": node("GatherND", ["i", "i"], ["h"]),
}  # fmt: skip

ALL_STATES = states() + node("Transpose", ["s"], ["c"], perm=[0, 2, 1]) + tensor("K", weights("K", H, H, 3))
REFUSED_SERIES = {
    "in reverse order": const("a", -2) + const("b", 0) + const("x1", 1) + const("m2", -2)
    + node("Slice", ["s", "a", "b", "x1", "m2"], ["h"]),
    "reverses a part": const("n", 2) + node("ReverseSequence", ["s", "n"], ["h"], time_axis=1, batch_axis=0),
    "by auto_pad SAME_LOWER": node("Conv", ["c", "K"], ["h"], auto_pad="SAME_LOWER"),
    "has padding twice": const("p", 0, 0, 1, 0, 0, 1) + node("Pad", ["c", "p"], ["r"])
    + node("Conv", ["r", "K"], ["h"], auto_pad="SAME_UPPER"),
    "comes after padding of the steps": const("p", 0, 0, 1, 0, 0, 1) + node("Pad", ["c", "p"], ["r"])
    + node("Relu", ["r"], ["h"]),
    "has dilation, ceil_mode or zeros": node("MaxPool", ["c"], ["h"], kernel_shape=[2], strides=[2], ceil_mode=1),
    "is not supported over the steps": node("ReduceSumSquare", ["s"], ["h"], axes=[1]),
    "works on images": node("Unsqueeze", ["s"], ["r"], axes=[1]) + tensor("Q", weights("Q", 1, 1, 3, 3))
    + node("Conv", ["r", "Q"], ["h"]),
    "pads an axis that is not the steps": node("Unsqueeze", ["c"], ["r"], axes=[2])
    + tensor("Q", weights("Q", H, H, 1, 3))
    + node("Conv", ["r", "Q"], ["h"], pads=[1, 0, 1, 0]),
    "over the scores only": node("Softmax", ["s"], ["h"], axis=1),
    "different numbers of steps": const("a", 1) + const("b", 2**31) + node("Slice", ["s", "a", "b", "a"], ["r"])
    + node("Concat", ["s", "r"], ["h"], axis=2),
    "series of different numbers": const("a", 1) + const("b", 2**31) + node("Slice", ["s", "a", "b", "a"], ["r"])
    + node("Add", ["s", "r"], ["h"]),
    "joins steps with features": node("Add", ["s", "c"], ["h"]),
}  # fmt: skip


@pytest.mark.parametrize("match", [*REFUSED_VECTORS, *REFUSED_SERIES])
def test_operations_that_are_refused(match, tmp_path):
    known = REFUSED_VECTORS.get(match)
    after = ALL_STATES + REFUSED_SERIES[match] if known is None else LAST_STATE + known
    refused(tmp_path, network(after=after + HEAD), match)


@pytest.mark.parametrize("match", REFUSED)
def test_what_is_refused(match, tmp_path):
    refused(tmp_path, network(after=REFUSED[match] + HEAD), match)


def test_an_input_that_is_a_single_number_is_named(tmp_path):
    after = port("sr", [], "int64") + node("Squeeze", ["Y_h"], ["g"], axes=[0]) + node("Cast", ["sr"], ["s"], to=1)
    graph = network(after=after + node("Mul", ["g", "s"], ["h"]) + HEAD)
    refused(tmp_path, graph, "input 'sr': is a single number")


def test_hints_of_other_files_are_refused(tmp_path):
    refused(tmp_path, network(), "leave config out", config={})
    refused(tmp_path, network(), "leave readout out", readout="mean")


def test_a_network_without_recurrent_layers_is_refused(tmp_path):
    graph = port("x", ["N", "T", D]) + tensor("V", weights("V", D, 2)) + node("MatMul", ["x", "V"], ["y"]) + output("y")
    refused(tmp_path, graph, "at least one recurrent layer")


# ---- inputs that are always the same, branches on sizes, steps written out ----


def sound(length="T"):
    """Sound of any length: reflected, cut into windows, their magnitudes, and an LSTM for the one window that is left.

    The scale of the scores is chosen by an input that is a number, as a sampling rate is.
    """
    before = port("x", ["N", length]) + port("rate", [], "int64")
    before += const("pads", 0, 0, 0, 2) + node("Pad", ["x", "pads"], ["p"], mode="reflect")
    before += node("Unsqueeze", ["p"], ["u"], axes=[1]) + tensor("K", weights("K", 2 * D, 1, 4))
    before += node("Conv", ["u", "K"], ["f"], strides=[4], kernel_shape=[4])
    before += node("Split", ["f"], ["re", "im"], axis=1) + tensor("two", np.array(2.0, np.float32))
    before += node("Pow", ["re", "two"], ["re2"]) + node("Pow", ["im", "two"], ["im2"])
    before += node("Add", ["re2", "im2"], ["power"]) + node("Sqrt", ["power"], ["m"])
    before += node("Shape", ["m"], ["s"]) + const("last", 2) + node("Gather", ["s", "last"], ["count"]) + const("1", 1)
    before += node("Equal", ["count", "1"], ["one"])
    before += node("If", ["one"], ["v"], then_branch=node("Squeeze", ["m"], ["a"], axes=[2]) + output("a"),
                   else_branch=node("Identity", ["m"], ["b"]) + output("b"))  # fmt: skip
    before += node("Unsqueeze", ["v"], ["t"], axes=[0])
    before += (
        tensor("W", weights("W", 1, 16, D)) + tensor("R", weights("R", 1, 16, H)) + tensor("B", weights("B", 1, 32))
    )
    after = node("Squeeze", ["Y_h"], ["last h"], axes=[0]) + tensor("slow", np.array(8000)) + tensor("V", V)
    after += tensor("half", np.array(0.5, np.float32)) + node("Equal", ["rate", "slow"], ["is slow"])
    after += node("If", ["is slow"], ["h"], then_branch=node("Mul", ["last h", "half"], ["c"]) + output("c"),
                  else_branch=node("Identity", ["last h"], ["d"]) + output("d"))  # fmt: skip
    return before + recurrent() + after + node("MatMul", ["h", "V"], ["y"]) + output("y")


def heard(x, slow):
    """The same by NumPy."""
    K = weights("K", 2 * D, 1, 4)[:, 0]
    parts = K @ np.pad(x, (0, 2), mode="reflect")[:4]
    magnitude = np.sqrt(parts[:D] ** 2 + parts[D:] ** 2)
    h = lrp.predict(lrp.Model([lstm()]), magnitude[None])
    return (h * (0.5 if slow else 1)) @ V


@pytest.mark.parametrize("rate", [8000, 16000])
@pytest.mark.parametrize("isolate", [False, True])
def test_an_input_that_is_a_constant_decides_branches(rate, isolate, tmp_path):
    found = opened(tmp_path, sound(), constants={"rate": rate}, isolate=isolate)
    x = RNG.normal(size=3).astype(np.float32)
    close(lrp.predict(found, x[:, None]), heard(x, rate == 8000), 1e-6)
    with pytest.raises(lrp.LrpError, match="a series must have 1 steps, got 2"):
        lrp.predict(found, np.zeros((6, 1)))


@pytest.mark.parametrize(
    ("constants", "says"),
    [
        ({"rates": 1}, "has no input 'rates' that could be a constant; supported and close to it: rate"),
        ({"rate": [1]}, "has 0 axes; its constant must have as many, got 1"),
        (None, "'rate': is a single number.*constants=\\{'rate': 16000\\}"),
    ],
)
def test_constants_that_are_refused(constants, says, tmp_path):
    refused(tmp_path, sound(), says, constants=constants)


def test_constants_must_be_numbers(tmp_path):
    for wrong in ({"rate": "16000"}, {"rate": None}, 16000, {1: 2}):
        with pytest.raises(lrp.LrpError, match="constants must be a dict of names of inputs to numbers or arrays"):
            opened(tmp_path, sound(), constants=wrong)


def test_a_number_is_a_constant_everywhere(tmp_path):
    """A second input as one number."""
    graph = port("z", [1, H]) + node("Squeeze", ["Y_h"], ["g"], axes=[0]) + node("Add", ["g", "z"], ["h"]) + HEAD
    found = opened(tmp_path, network(after=graph), constants={"z": 0.25})
    close(lrp.predict(found, X), (lrp.predict(lrp.Model([lstm()]), X) + 0.25) @ V, 1e-6)


def step_of_an_lstm(order="ifgo", swapped=False, gate="Sigmoid"):
    """One step as sums and products: x (N, 1, D), states (N, 2, H, 1)."""
    after = port("x", ["N", 1, D]) + port("states", ["N", 2, H, 1])
    after += node("Squeeze", ["x"], ["v"], axes=[1]) + node("Split", ["states"], ["hs", "cs"], axis=1)
    after += node("Squeeze", ["hs"], ["h0"], axes=[1, 3]) + node("Squeeze", ["cs"], ["c0"], axes=[1, 3])
    after += (
        tensor("U", weights("U", D, 4 * H)) + tensor("W", weights("W", H, 4 * H)) + tensor("b", weights("b", 4 * H))
    )
    after += node("MatMul", ["v", "U"], ["p"]) + node("MatMul", ["h0", "W"], ["q"])
    after += node("Add", ["q", "p"] if swapped else ["p", "q"], ["s"]) + node("Add", ["s", "b"], ["z"])
    after += node("Split", ["z"], [f"z{k}" for k in order], axis=1)
    after += node("Sigmoid", ["zi"], ["i"]) + node(gate, ["zf"], ["f"]) + node("Sigmoid", ["zo"], ["o"])
    after += node("Tanh", ["zg"], ["g"]) + node("Mul", ["f", "c0"], ["kept"]) + node("Mul", ["i", "g"], ["new"])
    after += node("Add", ["new", "kept"] if swapped else ["kept", "new"], ["c"]) + node("Tanh", ["c"], ["tc"])
    after += node("Mul", ["o", "tc"], ["h"])
    return after + tensor("V", V) + node("MatMul", ["h", "V"], ["y"]) + output("y")


@pytest.mark.parametrize("order", ["ifgo", "gofi"])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_step_of_an_lstm_that_is_written_out(order, swapped, tmp_path):
    found = opened(tmp_path, step_of_an_lstm(order, swapped))
    assert [type(one.layer) for one in found.nodes if one.layer.recurrent] == [lrp.LSTM]
    at = [order.index(k) for k in "ifgo"]
    U, W = (weights(name, n, 4 * H).T.reshape(4, H, n)[at] for name, n in (("U", D), ("W", H)))
    h0, c0 = states = RNG.normal(size=(2, H)).astype(np.float32)
    cell = lrp.LSTM(U, W, weights("b", 4 * H).reshape(4, H)[at], h0=h0, c0=c0)
    want = lrp.predict(lrp.Model([cell, lrp.Dense(V.T)]), X[:1])
    close(lrp.predict(found, {"x": X[:1], "states": states}), want, 1e-6)


def test_a_step_of_an_lstm_as_pytorch_writes_it(tmp_path):
    """Two Gemms with a bias each, and the whole step in a branch, whose weights are outside of it."""
    U, W = weights("U", 4 * H, D), weights("W", 4 * H, H)
    b, d = weights("b", 4 * H), weights("d", 4 * H)
    arrays = tensor("U", U) + tensor("W", W) + tensor("b", b) + tensor("d", d)
    ports = port("x", ["N", 1, D]) + port("states", [2, "N", H]) + node("Squeeze", ["x"], ["v"], axes=[1])
    step = tensor("0", np.array(0)) + tensor("1", np.array(1)) + node("Gather", ["states", "0"], ["h0"], axis=0)
    step += node("Gather", ["states", "1"], ["c0"], axis=0)
    step += node("Gemm", ["h0", "W", "d"], ["q"], transB=1) + node("Gemm", ["v", "U", "b"], ["p"], transB=1)
    step += node("Add", ["q", "p"], ["z"]) + node("Split", ["z"], ["zi", "zf", "zg", "zo"], axis=1)
    step += node("Sigmoid", ["zi"], ["i"]) + node("Sigmoid", ["zf"], ["f"]) + node("Sigmoid", ["zo"], ["o"])
    step += node("Tanh", ["zg"], ["g"]) + node("Mul", ["f", "c0"], ["kept"]) + node("Mul", ["i", "g"], ["new"])
    step += node("Add", ["kept", "new"], ["c"]) + node("Tanh", ["c"], ["tc"]) + node("Mul", ["o", "tc"], ["h1"])
    step = tensor("yes", np.array(True)) + node(
        "If", ["yes"], ["h"], then_branch=step + output("h1"), else_branch=output("h1")
    )
    graph = ports + arrays + step + tensor("V", V) + node("MatMul", ["h", "V"], ["y"]) + output("y")
    found = opened(tmp_path, graph)
    assert [type(one.layer) for one in found.nodes if one.layer.recurrent] == [lrp.LSTM]
    h0, c0 = states = RNG.normal(size=(2, H)).astype(np.float32)
    gates = [one.reshape(4, H, -1) for one in (U, W)]
    cell = lrp.LSTM(*gates, (b + d).reshape(4, H), h0=h0, c0=c0)
    want = lrp.predict(lrp.Model([cell, lrp.Dense(V.T)]), X[:1])
    close(lrp.predict(found, {"x": X[:1], "states": states}), want, 1e-6)


def test_images_are_refused_by_name(tmp_path):
    refused(tmp_path, port("x", [1, 1, 64, "width"]) + node("Relu", ["x"], ["y"]) + output("y"), "as images have")


def test_other_formulas_are_no_lstm(tmp_path):
    refused(tmp_path, step_of_an_lstm(gate="Tanh"), "at least one recurrent layer")


# ---- frames of sound: the batch of a convolution is the steps of an LSTM ----


def framed(wrong=0):
    """Frames (T, 7), each reflected and convolved twice by itself, and an LSTM over the frames."""
    graph = port("x", ["T", 7]) + const("pads", 0, 0, 0, 1) + node("Pad", ["x", "pads"], ["p"], mode="reflect")
    graph += (
        node("Unsqueeze", ["p"], ["u"], axes=[1]) + tensor("K", weights("K", 2, 1, 4)) + tensor("d", weights("d", 2))
    )
    graph += node("Conv", ["u", "K", "d"], ["f"], strides=[2]) + node("Relu", ["f"], ["r"])
    graph += tensor("L", weights("L", D, 2 + wrong, 3)) + node("Conv", ["r", "L"], ["v"], strides=[3], pads=[1, 1])
    graph += node("Transpose", ["v"], ["t"], perm=[0, 2, 1])
    graph += (
        tensor("W", weights("W", 1, 16, D)) + tensor("R", weights("R", 1, 16, H)) + tensor("B", weights("B", 1, 32))
    )
    return graph + recurrent() + node("Squeeze", ["Y_h"], ["h"], axes=[0]) + HEAD


def test_frames_are_convolved_by_themselves(tmp_path):
    found, rows = opened(tmp_path, framed()), []
    x = RNG.normal(size=(5, 7)).astype(np.float32)
    for frame in x:
        padded = np.append(frame, frame[-2])
        f = np.stack([weights("K", 2, 1, 4)[:, 0] @ padded[k : k + 4] for k in (0, 2, 4)], axis=1)
        r = np.maximum(f + weights("d", 2)[:, None], 0)  # (2, 3)
        rows.append(np.einsum("dcw,cw->d", weights("L", D, 2, 3)[:, :, 1:], r[:, :2]))
    close(lrp.predict(found, x), lrp.predict(lrp.Model([lstm()]), np.stack(rows)) @ V, 1e-6)
    e = lrp.explain(found, x, "lrp-all", 1, unit="feature")
    assert e.feature_relevance.shape == (5, 7)
    close(e.relevance.sum() + e.ledger.biases.sum() + e.ledger.stabilizer, e.score, 1e-4)


def test_frames_of_other_channels_are_refused(tmp_path):
    refused(tmp_path, framed(wrong=1), "Conv")
