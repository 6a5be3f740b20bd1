"""ONNX files made to keep the processor busy, to fill the memory, or to have another file opened."""

import os

import numpy as np
from hostile import ATTACKS, attack
from onnxfile import attribute, message, network, node, output, pairs, port, recurrent, tensor, varint


def onnx(folder, graph, after=b""):
    path = folder / "model.onnx"
    path.write_bytes(b"\x08\x08\x12\x01x" + message(7, graph) + after)
    return path, {}


@attack
def two_million_dims(folder):
    return onnx(folder, message(5, message(1, b"\x01" * 2_000_000)))


@attack
def two_million_dims_one_by_one(folder):
    return onnx(folder, message(5, b"\x08\x01" * 2_000_000))


@attack
def two_million_empty_nodes(folder):
    return onnx(folder, message(1, b"") * 2_000_000)


@attack
def two_million_empty_attributes(folder):
    return onnx(folder, message(1, message(5, b"") * 2_000_000))


@attack
def graphs_inside_graphs(folder):
    graph = b""
    for _ in range(1000):
        graph = message(1, message(5, message(6, graph)))
    return onnx(folder, graph)


@attack
def a_million_nodes(folder):
    nodes = b"".join(node("Identity", [f"v{k}"], [f"v{k + 1}"]) for k in range(300_000))
    return onnx(folder, port("v0", ["N", "T", 3]) + nodes + output("v300000"))


@attack
def a_million_activations(folder):
    nodes = b"".join(node("Relu", [f"v{k}"], [f"v{k + 1}"]) for k in range(100_000))
    return onnx(folder, port("v0", ["N", "T", 3]) + nodes + output("v100000"))


@attack
def inputs_that_could_mean_anything(folder):
    ports = b"".join(port(f"x{k}", ["N", "T", 3]) for k in range(30))
    nodes = b"".join(node("Relu", ["x0" if k == 0 else f"v{k}"], [f"v{k + 1}"]) for k in range(2000))
    joined = node("Concat", [f"x{k}" for k in range(30)], ["y"], axis=0)
    return onnx(folder, ports + nodes + joined + output("y"))


@attack
def nodes_in_a_circle(folder):
    nodes = node("Add", ["x", "b"], ["a"]) + node("Relu", ["a"], ["b"])
    return onnx(folder, port("x", ["N", "T", 3]) + nodes + output("b"))


@attack
def a_value_made_twice(folder):
    nodes = node("Relu", ["x"], ["a"]) + node("Tanh", ["x"], ["a"])
    return onnx(folder, port("x", ["N", "T", 3]) + nodes + output("a"))


@attack
def an_initializer_twice(folder):
    twice = tensor("w", np.ones(3, np.float32)) + tensor("w", np.zeros(3, np.float32))
    return onnx(folder, network(twice))


@attack
def an_attribute_twice(folder):
    return onnx(folder, network(b"", recurrent(also=attribute("hidden_size", 3))))


@attack
def a_foreign_lstm(folder):
    return onnx(folder, network(b"", recurrent(domain="com.example")))


@attack
def a_function_called_lstm(folder):
    return onnx(folder, network(b""), message(25, message(1, b"LSTM") + message(10, b"")))


@attack
def sizes_that_double(folder):
    """A shape whose formula doubles with each node."""
    nodes = node("Shape", ["x"], ["s0"])
    nodes += b"".join(node("Mul", [f"s{k}", f"s{k}"], [f"s{k + 1}"]) for k in range(60))
    return onnx(folder, port("x", ["N", "T", 3]) + nodes + node("Expand", ["x", "s60"], ["y"]) + output("y"))


@attack
def constants_that_double(folder):
    nodes = b"".join(node("Concat", [f"s{k}", f"s{k}"], [f"s{k + 1}"], axis=0) for k in range(60))
    graph = port("x", ["N", "T", 3]) + tensor("s0", np.ones(1000, np.float32)) + nodes
    return onnx(folder, graph + node("Add", ["x", "s60"], ["y"]) + output("y"))


@attack
def a_constant_of_a_terabyte(folder):
    graph = port("x", ["N", "T", 3]) + tensor("s", np.array([2**20, 2**20], np.int64))
    graph += node("ConstantOfShape", ["s"], ["c"]) + node("Add", ["x", "c"], ["y"])
    return onnx(folder, graph + output("y"))


@attack
def a_product_of_large_constants(folder):
    """Each product takes a second."""
    graph = port("x", ["N", "T", 3]) + tensor("a0", np.ones((1000, 1000), np.float32))
    graph += b"".join(node("MatMul", [f"a{k}", "a0"], [f"a{k + 1}"]) for k in range(1000))
    return onnx(folder, graph + node("Add", ["x", "a1000"], ["y"]) + output("y"))


def of_constants(nodes, **constants):
    """A graph that adds the value `made`, which nodes compute of constants, to its input."""

    def make(folder):
        held = b"".join(tensor(name, np.asarray(array)) for name, array in constants.items())
        after = node("Add", ["x", "made"], ["y"]) + output("y")
        return onnx(folder, port("x", ["N", "T", 3]) + held + b"".join(nodes) + after)

    return make


# A row and a column: together they would be 2^28 or 2^40 numbers, of which none is stored.
ROW, COLUMN = np.ones((1, 2**14), np.float32), [2**14, 1]
EXPANDED = node("Expand", ["row", "column"], ["large"])
MANY = np.ones(2**20, np.int64)
for title, make in {
    "reduced_2_to_40_numbers": of_constants(
        [EXPANDED, node("ReduceSum", ["large"], ["made"])], row=np.ones((1, 2**20), np.float32), column=[2**20, 1]
    ),
    "clipped_and_expanded": of_constants(
        [EXPANDED, node("Clip", ["large", "low"], ["made"])], row=ROW, column=COLUMN, low=np.float32(0)
    ),
    "flattened_and_expanded": of_constants([EXPANDED, node("Flatten", ["large"], ["made"])], row=ROW, column=COLUMN),
    "sorted_many_times": of_constants(
        [node("TopK", ["row", "k"], ["made" if k == 0 else f"a{k}", f"b{k}"]) for k in range(60)],
        row=np.ones((1, 2**20), np.float32), k=np.int64(1),
    ),
    "wide_numbers_times_narrow_ones": of_constants(
        [node("Mul", ["a", "b"], ["made"])], a=np.ones((8000, 1)), b=np.ones((1, 8000), bool)
    ),
    "a_product_of_many_small_ones": of_constants(
        [node("MatMul", ["a", "b"], ["made"])], a=np.ones((3000, 1, 4, 4)), b=np.ones((1, 3000, 4, 4))
    ),
    "a_million_sizes_five_hundred_times": of_constants(
        [node("Reshape", ["a", "many"], ["made" if k == 0 else f"a{k}"]) for k in range(500)], a=[1.0], many=MANY
    ),
    "a_million_slices_five_hundred_times": of_constants(
        [node("Slice", ["a", *["many"] * 4], ["made" if k == 0 else f"a{k}"]) for k in range(500)], a=[1.0], many=MANY
    ),
    "a_split_into_a_million": of_constants(
        [node("Split", ["a", "many"], ["made" if k == 0 else f"a{k}"]) for k in range(50)], a=[1.0], many=MANY
    ),
    "three_million_open_sizes": of_constants(
        [node("Shape", ["x"], ["s"]), node("Expand", ["s", "shape"], ["b"]), node("Mul", ["b", "b"], ["made"])],
        shape=[2**20, 3],
    ),
}.items():  # fmt: skip
    ATTACKS[title] = make


@attack
def an_input_of_a_hundred_thousand_axes(folder):
    return onnx(folder, port("x", ["N"] * 100_000) + node("Relu", ["x"], ["y"]) + output("y"))


@attack
def two_graphs(folder):
    return onnx(folder, network(b""), message(7, network(b"")))


@attack
def branches_inside_branches(folder):
    graph = node("Relu", ["x"], ["y"]) + output("y")
    for _ in range(20):
        graph = node("If", ["c"], ["y"], then_branch=graph, else_branch=graph) + output("y")
    return onnx(folder, port("x", ["N", "T", 3]) + tensor("c", np.array(True)) + graph)


def beside(name, offset=0, length=None):
    """An LSTM whose weights are in another file."""

    def make(folder):
        (folder / "private").write_bytes(b"\0" * 10_000)
        (folder / "below").mkdir()
        (folder / "below" / "private").write_bytes(b"\0" * 10_000)
        os.symlink(folder / "private", folder / "link")
        os.symlink(folder / "below", folder / "linked")
        (folder / "elsewhere").write_bytes(b"\0" * 10_000)
        os.link(folder / "elsewhere", folder / "hard")
        os.mkfifo(folder / "pipe")
        given = str(folder / "private") if name == "absolute" else name
        outside = {"location": given, "offset": offset, "length": 4 * 16 * 3 if length is None else length}
        return onnx(folder, network(b"", W=tensor("W", np.zeros((1, 16, 3), np.float32), outside)))

    return make


for title, given in {
    "absolute": ("absolute",), "above": ("../private",), "below": ("below/private",), "a_link": ("link",),
    "a_linked_folder": ("linked/private",), "a_hard_link": ("hard",),
    "a_pipe": ("pipe",), "a_folder": ("below",), "nothing": ("",), "here": (".",), "windows": ("below\\private",),
    "missing": ("missing",), "itself_far_away": ("private", 9_900), "below_zero": ("private", -8),
    "far_away": ("private", 2**62), "too_long": ("private", 0, 2**40), "a_word": ("private", "many"),
}.items():  # fmt: skip
    ATTACKS[f"weights_beside_{title}"] = beside(*given)


@attack
def weights_beside_and_too_large(folder):
    (folder / "data").write_bytes(b"")
    os.truncate(folder / "data", 2**33)
    outside = {"location": "data", "length": 2**33}
    big = message(5, b"".join([b"\x08" + varint(1), b"\x08" + varint(2**31 - 16), b"\x08" + varint(1), b"\x10\x01",
                               message(8, b"W"), *pairs(outside), b"\x70\x01"]))  # fmt: skip
    return onnx(folder, network(b"", W=big))
