"""Small files that declare large widths, or one array many times: arrays would be made that no file holds."""

import io
import json
import pickle
from itertools import pairwise

import h5py
import numpy as np
from hostile import attack, keras, saved
from hostile_onnx import onnx
from onnxfile import network, node, output, port, recurrent, tensor, weights

import lrpnumpy as lrp

WIDE = 10**9

# ---------------------------------------------------------------------------------------------------------------- ONNX


def before_cell(*nodes, width=WIDE, axis=2, stop=3):
    """An input of `width` features, nodes that make `v` of `x`, and an LSTM of its first three features."""
    limits = {"starts": [0], "ends": [stop], "axes": [axis]}
    held = b"".join(tensor(name, np.array(value, np.int64)) for name, value in limits.items())
    cut = node("Slice", ["v", *limits], ["s"]) + node("Transpose", ["s"], ["t"], perm=[1, 0, 2])
    after = node("Squeeze", ["Y_h"], ["h"], axes=[0]) + output("h")
    arrays = (
        tensor("W", weights("W", 1, 16, 3)) + tensor("R", weights("R", 1, 16, 4)) + tensor("B", weights("B", 1, 32))
    )
    return port("x", ["N", "T", width]) + held + arrays + b"".join(nodes) + cut + recurrent() + after


@attack
def a_billion_features_of_which_three_are_taken(folder):
    return onnx(folder, before_cell(node("Identity", ["x"], ["v"])))


@attack
def features_that_double(folder):
    names = ["x", *(f"d{k}" for k in range(24)), "v"]
    nodes = [node("Concat", [a, a], [b], axis=2) for a, b in pairwise(names)]
    return onnx(folder, before_cell(*nodes, width=3))


@attack
def a_thousand_times_the_same_features(folder):
    return onnx(folder, before_cell(node("Concat", ["x"] * 1000, ["v"], axis=2), width=10**6))


@attack
def features_gathered_again_and_again(folder):
    index = tensor("zeros", np.zeros(4000, np.int64))
    shape = tensor("shape", np.array([0, 0, 1000, 4000]))
    nodes = [index, shape, node("Reshape", ["x", "shape"], ["r"])]
    nodes += [node("Gather", ["r", "zeros"], ["g"], axis=2), node("Gather", ["g", "zeros"], ["v"], axis=3)]
    return onnx(folder, before_cell(*nodes, width=4_000_000))


@attack
def a_row_plus_a_column(folder):
    """(1000000, 1) + (1, 1000000) features."""
    shapes = [tensor("row", np.array([0, 0, 1, 10**6])), tensor("column", np.array([0, 0, 10**6, 1]))]
    nodes = [node("Reshape", ["x", one], [f"as_{one}"]) for one in ("row", "column")]
    return onnx(folder, before_cell(*shapes, *nodes, node("Add", ["as_row", "as_column"], ["v"]), width=10**6))


@attack
def a_million_features_in_another_order(folder):
    parts = [tensor("shape", np.array([0, 0, 1000, 1000])), tensor("flat", np.array([0, 0, -1]))]
    nodes = [node("Reshape", ["x", "shape"], ["a"]), node("Transpose", ["a"], ["b"], perm=[0, 1, 3, 2])]
    nodes += [node("Reshape", ["b", "flat"], ["c"]), node("Softmax", ["c"], ["v"])]
    return onnx(folder, before_cell(*parts, *nodes, width=10**6))


@attack
def a_matrix_for_a_few_of_many_features(folder):
    parts = [tensor(n, np.array([v])) for n, v in {"from": 0, "to": 2, "at": 2}.items()]
    parts += [tensor("M", np.ones((2, 4000), np.float32)), node("Slice", ["x", "from", "to", "at"], ["few"])]
    return onnx(folder, before_cell(*parts, node("MatMul", ["few", "M"], ["v"]), width=10**6))


@attack
def one_matrix_nine_hundred_times(folder):
    names = ["x", *(f"d{k}" for k in range(899)), "v"]
    nodes = [node("MatMul", [a, "M"], [b]) for a, b in pairwise(names)]
    return onnx(folder, before_cell(tensor("M", np.ones((512, 512), np.float32)), *nodes, width=512))


@attack
def affine_layers_that_are_folded_into_a_large_matrix(folder):
    after = node("Squeeze", ["Y_h"], ["h"], axes=[0]) + tensor("V", weights("V", 4, 300_000))
    after += tensor("one", np.ones(1, np.float32)) + node("MatMul", ["h", "V"], ["a0"])
    after += b"".join(node("Add", [f"a{k}", "one"], [f"a{k + 1}"]) for k in range(900)) + output("a900")
    return onnx(folder, network(after=after))


@attack
def a_batch_of_a_billion_lengths(folder):
    graph = port("x", [10**9, "T", 3]) + port("lengths", [10**9], "int64")
    graph += node("Transpose", ["x"], ["t"], perm=[1, 0, 2])
    graph += (
        tensor("W", weights("W", 1, 16, 3)) + tensor("R", weights("R", 1, 16, 4)) + tensor("B", weights("B", 1, 32))
    )
    graph += recurrent(inputs=("t", "W", "R", "B", "lengths")) + output("Y_h")
    return onnx(folder, graph)


@attack
def a_start_state_of_a_gigabyte(folder):
    cell = port("h0", [1, 60_000_000, 4]) + recurrent(inputs=("t", "W", "R", "B", "", "h0", "h0"))
    return onnx(folder, network(b"", cell))


@attack
def sequences_of_a_large_batch_taken_by_number(folder):
    graph = port("x", [10**9, "T", 3]) + tensor("some", np.arange(3)) + node("Gather", ["x", "some"], ["y"], axis=0)
    return onnx(folder, graph + output("y"))


def after_cell(*nodes):
    """An LSTM, and nodes that make the scores `y` (N, 4, 1) from its outputs `s` (N, 4, T) or its last state `h`."""
    series = node("Squeeze", ["Y"], ["all"], axes=[1]) + node("Transpose", ["all"], ["s"], perm=[1, 2, 0])
    return network(after=series + node("Squeeze", ["Y_h"], ["h"], axes=[0]) + b"".join(nodes) + output("y"))


@attack
def a_state_repeated_a_billion_times(folder):
    nodes = [tensor("shape", np.array([1, WIDE, 1])), node("Unsqueeze", ["h"], ["one"], axes=[1])]
    nodes += [node("Expand", ["one", "shape"], ["many"]), node("ReduceSum", ["many"], ["y"], axes=[1], keepdims=0)]
    return onnx(folder, after_cell(*nodes))


@attack
def a_hundred_million_steps_of_padding(folder):
    nodes = [tensor("K", weights("K", 4, 4, 3)), node("Conv", ["s", "K"], ["c"], pads=[10**8, 10**8])]
    return onnx(folder, after_cell(*nodes, node("GlobalMaxPool", ["c"], ["y"])))


@attack
def windows_of_a_billion_steps(folder):
    around = {"kernel_shape": [WIDE], "pads": [WIDE // 2, WIDE // 2 - 1], "strides": [1]}
    return onnx(folder, after_cell(node("MaxPool", ["s"], ["p"], **around), node("GlobalMaxPool", ["p"], ["y"])))


@attack
def windows_that_add_steps_five_hundred_times(folder):
    names = ["s", *(f"p{k}" for k in range(500))]
    around = {"kernel_shape": [1000], "pads": [999, 999], "strides": [1]}
    nodes = [node("MaxPool", [a], [b], **around) for a, b in pairwise(names)]
    return onnx(folder, after_cell(*nodes, node("GlobalMaxPool", [names[-1]], ["y"])))


# -------------------------------------------------------------------------------------------------------------- native


def native(folder, change, layers=None, **more):
    """A file of ours whose description is changed after it was written."""
    rng = np.random.default_rng(0)
    array = lambda *shape: rng.normal(size=shape).astype("f4")  # noqa: E731
    cell = lrp.RNN(array(2, 3), array(2, 2), array(2))
    path = folder / "model.h5"
    lrp.save(lrp.Model([lrp.Node("cell", cell, ("x",)), *(layers or [])], **more), path)
    with h5py.File(path, "r+") as file:
        said = json.loads(file.attrs["model"])
        change(said)
        said.pop("sha256", None)
        file.attrs["model"] = json.dumps(said)
    return path, {}


@attack
def one_scale_for_scores_that_double(folder):
    def change(said):
        plain = {"kind": "Concat", "arrays": {}, "settings": {}, "parts": {}}
        names = ["cell", *(f"d{k}" for k in range(25))]
        for before, name in pairwise(names):
            said["nodes"].append({"name": name, "inputs": [before, before], "layer": plain})
        said |= {"result": names[-1], "output": "linear", "output_scaler": [[0.0], [1.0]]}

    return native(folder, change)


@attack
def widths_that_double_a_thousand_times(folder):
    def change(said):
        plain = {"kind": "Concat", "arrays": {}, "settings": {}, "parts": {}}
        names = ["cell", *(f"d{k}" for k in range(900))]
        for before, name in pairwise(names):
            said["nodes"].append({"name": name, "inputs": [before, before], "layer": plain})
        said |= {"result": names[-1], "output": "linear"}

    return native(folder, change)


@attack
def steps_that_multiply(folder):
    """Each step becomes 64**10."""

    def change(said):
        together = {"kind": "Concat", "arrays": {}, "settings": {}, "parts": {}}
        apart = {"kind": "Reshape", "arrays": {}, "settings": {"width": 2}, "parts": {}}
        names = ["cell", *(f"d{k}" for k in range(10))]
        for before, name in pairwise(names):
            said["nodes"].append({"name": f"{name} wide", "inputs": [before] * 64, "layer": together})
            said["nodes"].append({"name": name, "inputs": [f"{name} wide"], "layer": apart})
        said |= {"result": names[-1], "output": "linear"}

    return native(folder, change)


@attack
def one_array_under_nine_hundred_names(folder):
    """1 MB, 900 times."""

    def change(said):
        layer = said["nodes"][-1]["layer"]
        said["nodes"] += [{"name": f"d{k}", "inputs": ["cell"], "layer": layer} for k in range(900)]

    V = np.random.default_rng(1).normal(size=(131_072, 2)).astype("f4")
    path, load = native(folder, change, [lrp.Node("wide", lrp.Dense(V), ("cell",))])
    with h5py.File(path, "r+") as file:
        for k in range(900):
            file[f"layers/d{k}"] = file["layers/wide"]
    return path, load


@attack
def a_megabyte_of_packed_zeros(folder):
    """1 GB once unpacked."""
    path = folder / "model.h5"
    with h5py.File(path, "w") as file:
        zeros = {"chunks": (8, 2**19), "compression": "gzip", "compression_opts": 9}
        made = file.create_dataset("weight_ih_l0", (8, 2**25), "f4", **zeros)
        made[:, : 2**19] = 0
        packed = made.id.read_direct_chunk((0, 0))[1]
        for k in range(1, 64):
            made.id.write_direct_chunk((0, k * 2**19), packed)
        file["weight_hh_l0"] = np.ones((8, 2), "f4")
    return path, {"readout": "last"}


# --------------------------------------------------------------------------------------------------------------- Keras


def sequential(layers):
    return lambda config: json.dumps({"class_name": "Sequential", "config": {"name": "s", "layers": layers}}).encode()


def keras_input(shape, **more):
    return {"class_name": "InputLayer", "config": {"batch_shape": [None, *shape], "name": "x", **more}}


@attack
def a_million_features_rescaled_nine_hundred_times(folder):
    rescale = [
        {"class_name": "Rescaling", "config": {"name": f"r{k}", "scale": 2.0, "offset": 1.0}} for k in range(900)
    ]
    return keras(folder, sequential([keras_input([None, 10**6]), *rescale]))


@attack
def steps_repeated_side_by_side(folder):
    steps = [{"class_name": "UpSampling1D", "config": {"name": f"u{k}", "size": 64}} for k in range(10)]
    wide = {"class_name": "Flatten", "config": {"name": "f"}}
    lines = {"class_name": "Reshape", "config": {"name": "l", "target_shape": [-1, 2**20]}}
    return keras(folder, sequential([keras_input([2**20, 8]), wide, lines, *steps]))


# ------------------------------------------------------------------------------------------------------------- PyTorch


class Storage:
    """A stand-in that a pickle describes by its name alone."""


def tensors(arrays):
    """The pickle of a dict whose tensors share one storage: name to (offset, shape)."""

    class Pickler(pickle._Pickler):
        def persistent_id(self, value):
            if value == "the storage":
                return ("storage", Storage, "0", "cpu", 2**18)
            return None

    out = io.BytesIO()
    pickler = Pickler(out, 2)
    pickler.dump({name: Rebuilt(offset, shape) for name, (offset, shape) in arrays.items()})
    content = out.getvalue()
    return content.replace(f"c{__name__}\nStorage\n".encode(), b"ctorch\nFloatStorage\n").replace(
        f"c{__name__}\nrebuilt\n".encode(), b"ctorch._utils\n_rebuild_tensor_v2\n"
    )


def rebuilt(*arguments):
    """Stands for torch._utils._rebuild_tensor_v2."""


class Rebuilt:
    def __init__(self, offset, shape):
        self.place = (offset, shape)

    def __reduce__(self):
        offset, shape = self.place
        stride = tuple(int(np.prod(shape[k + 1 :])) for k in range(len(shape)))
        return rebuilt, ("the storage", offset, shape, stride, False, {})


@attack
def one_storage_for_nine_hundred_layers(folder):
    arrays = {}
    for k in range(900):
        arrays |= {f"weight_ih_l{k}": (0, (512, 512)), f"weight_hh_l{k}": (0, (512, 512))}
    return saved(folder, tensors(arrays), **{"0": bytes(2**20)})[0], {"readout": "last"}
