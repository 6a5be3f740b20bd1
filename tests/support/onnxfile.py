"""ONNX files written byte by byte, so that tests need no package for it.

A graph is the bytes of its parts one behind the other: `port`, `output`, `tensor` and `node`, in any order.
"""

import struct

import numpy as np

TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11}


def varint(value):
    value, out = value % 2**64, b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def message(field, content):
    return varint(field << 3 | 2) + varint(len(content)) + content


def text(field, value):
    return message(field, value.encode())


def pairs(outside):
    """Where the numbers of a tensor are, if not in the file."""
    return [message(13, text(1, key) + text(2, str(value))) for key, value in outside.items()]


def tensor(name, array, outside=None, field=5):
    """A constant of the graph; `outside` says where its numbers are."""
    array = np.asarray(array)
    content = b"".join(number(1, n) for n in array.shape) + number(2, TYPES[array.dtype.name]) + text(8, name)
    if outside is None:
        return message(field, content + message(9, array.tobytes()))
    return message(field, content + b"".join(pairs(outside)) + number(14, 1))


def attribute(name, value):
    """An attribute of a node: a number, a text, an array, a graph, or a list of numbers or texts."""
    content = text(1, name)
    if isinstance(value, np.ndarray):
        content += tensor("", value, field=5) + number(20, 4)
    elif isinstance(value, float):
        content += varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, 1)
    elif isinstance(value, int):
        content += number(3, value) + number(20, 2)
    elif isinstance(value, str):
        content += text(4, value) + number(20, 3)
    elif isinstance(value, bytes):
        content += message(6, value) + number(20, 5)
    elif value and isinstance(value[0], str):
        content += b"".join(text(9, one) for one in value) + number(20, 8)
    else:
        content += b"".join(number(8, one) for one in value) + number(20, 7)
    return message(5, content)


def node(op, inputs, outputs, domain="", also=b"", **attributes):
    content = b"".join(text(1, one) for one in inputs) + b"".join(text(2, one) for one in outputs)
    content += text(3, f"the {op}") + text(4, op) + b"".join(attribute(*one) for one in attributes.items())
    return message(1, content + also + (text(7, domain) if domain else b""))


def port(name, dims, kind="float32", field=11):
    """An input of the graph; a dimension is a number, or the name of one that is open."""
    sizes = b"".join(message(1, number(1, n) if isinstance(n, int) else text(2, n)) for n in dims)
    return message(field, text(1, name) + message(2, message(1, number(1, TYPES[kind]) + message(2, sizes))))


def output(name):
    return message(12, text(1, name))


def model(graph, producer="tests"):
    """A whole file."""
    return number(1, 8) + text(2, producer) + message(7, graph) + message(8, number(2, 17))


def weights(name, *shape, scale=0.5):
    """Seeded numbers, by their name."""
    rng = np.random.default_rng(list(name.encode()))
    return (scale * rng.normal(size=shape)).astype(np.float32)


def recurrent(op="LSTM", inputs=("t", "W", "R", "B"), outputs=("Y", "Y_h"), **more):
    return node(op, inputs, outputs, hidden_size=4, **more)


def network(before=b"", cell=None, W=None, after=None, D=3, gates=4, n=1):
    """Series (N, T, D) through a recurrent layer of 4 units and, unless `after` says more, a matrix with 2 rows."""
    H = 4
    graph = port("x", ["N", "T", D]) + before + node("Transpose", ["x"], ["t"], perm=[1, 0, 2])
    graph += tensor("W", weights("W", n, gates * H, D)) if W is None else W
    graph += tensor("R", weights("R", n, gates * H, H)) + tensor("B", weights("B", n, 2 * gates * H))
    graph += recurrent() if cell is None else cell
    if after is None:
        after = node("Squeeze", ["Y_h"], ["h"], axes=[0]) + tensor("V", weights("V", H, 2))
        after += node("MatMul", ["h", "V"], ["y"]) + output("y")
    return graph + after
