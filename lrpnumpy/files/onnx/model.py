"""ONNX files to a Model: the graph of the file is the list of operations that the builder takes.

Inputs, outputs, constants and nodes become plain records, all of it checked, none of it run.

The package `onnx` is not needed. Weights may lie in a file beside this one, as PyTorch writes them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lrpnumpy.files.build.graph import build
from lrpnumpy.files.build.written import with_cells
from lrpnumpy.files.kinds import LoadOptions, WeightFile
from lrpnumpy.files.onnx.wire import Field, Reader, Schema
from lrpnumpy.files.operations import INTEGERS, OperationGraph, OperationInput, OperationNode
from lrpnumpy.files.report import Imported
from lrpnumpy.files.safe import MAX_AXES, Source, count_of, nearby, open_file, size_of

_PAIR: Schema = {1: Field("key", "text"), 2: Field("value", "text")}
_TENSOR: Schema = {
    1: Field("dims", "int", True), 2: Field("data_type", "int"), 4: Field("float_data", "packed", True),
    5: Field("int32_data", "int", True), 7: Field("int64_data", "int", True), 8: Field("name", "text"),
    9: Field("raw_data", "bytes"), 10: Field("double_data", "packed", True), 11: Field("int64_data", "int", True),
    13: Field("external_data", _PAIR, True), 14: Field("data_location", "int"),
}  # fmt: skip
_ATTRIBUTE: Schema = {
    1: Field("name", "text"), 2: Field("f", "float"), 3: Field("i", "int"), 4: Field("s", "bytes"),
    5: Field("t", _TENSOR), 7: Field("floats", "float", True), 8: Field("ints", "int", True),
    9: Field("strings", "bytes", True), 20: Field("type", "int"), 21: Field("ref_attr_name", "text"),
}  # fmt: skip
_NODE: Schema = {
    1: Field("input", "text", True), 2: Field("output", "text", True), 3: Field("name", "text"),
    4: Field("op_type", "text"), 5: Field("attribute", _ATTRIBUTE, True), 7: Field("domain", "text"),
}  # fmt: skip
_DIM: Schema = {1: Field("value", "int"), 2: Field("param", "text")}
_TYPE: Schema = {1: Field("tensor", {1: Field("elem", "int"), 2: Field("shape", {1: Field("dim", _DIM, True)})})}
_VALUE: Schema = {1: Field("name", "text"), 2: Field("type", _TYPE)}
_GRAPH: Schema = {
    1: Field("node", _NODE, True), 5: Field("initializer", _TENSOR, True), 11: Field("input", _VALUE, True),
    12: Field("output", _VALUE, True), 15: Field("sparse", {}, True),
}  # fmt: skip
_ATTRIBUTE[6] = Field("g", _GRAPH)
_MODEL: Schema = {2: Field("producer", "text"), 7: Field("graph", _GRAPH), 25: Field("functions", {}, True)}

# Numbers of ONNX' types to those of NumPy; float16 and bfloat16 become float32.
_TYPES: dict[int, Any] = {
    1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_,
    10: np.float16, 11: np.float64, 12: np.uint32, 13: np.uint64, 16: np.uint16,
}  # fmt: skip
_BFLOAT16 = 16


def read(opened: WeightFile, options: LoadOptions) -> Imported:
    """The model; `which` names one of several outputs, `custom` gives layers for operations by their names."""
    with opened.guard("", "is not an ONNX file that can be read"), open_file(opened.path) as stream:
        opened.budget.hold("", opened.size)
        producer, graph = parse(opened, opened.path, stream.read(opened.size))
        graph = with_constants(opened, graph, options.constants or {})
        found = build(opened, with_cells(graph), options.which, options.custom)
    return found._replace(kind=f"ONNX, from {producer or 'a program that is not said'}"[:80])


def with_constants(source: Source, graph: OperationGraph, given: Mapping[str, Any]) -> OperationGraph:
    """The graph with some of its inputs as constants."""
    ports = {port.name: port for port in graph.ports}
    constants = dict(graph.constants)
    for name, value in given.items():
        if name not in ports:
            raise source.error("", f"has no input {name[:80]!r} that could be a constant{nearby(name, ports)}")
        port = ports.pop(name)
        array = np.asarray(value, np.int64 if port.integer else np.float32)
        dims = [n if isinstance(n, int) else 1 for n in port.dims or ()]
        source.budget.hold(name[:80], 4 * int(np.prod(dims, dtype=object)))
        if array.ndim == 0:
            array = np.full(dims, array)
        if array.ndim != len(dims):
            raise source.error(name[:80], f"has {len(dims)} axes; its constant must have as many, got {array.ndim}")
        constants[name] = array
    return graph._replace(ports=tuple(ports.values()), constants=constants)


def parse(source: Source, path: Path, content: bytes) -> tuple[str, OperationGraph]:
    """The program that wrote the file, and its graph."""
    model = Reader(source, content).message(_MODEL)
    if "graph" not in model:
        raise source.error("", "is not an ONNX file that can be read; it has no graph")
    if model["functions"]:
        raise source.error("", "defines functions, which are not supported; export it with today's torch.onnx.export")
    return model.get("producer", ""), _Parser(source, path).graph(model["graph"])


class _Parser:
    """Messages to records."""

    def __init__(self, source: Source, path: Path) -> None:
        self.source, self.path = source, path
        self.beside: set[str] = set()

    def graph(self, found: dict[str, Any]) -> OperationGraph:
        if found["sparse"]:
            raise self.source.error("", "has sparse weights, which are not supported")
        constants: dict[str, Any] = {}
        for tensor in found["initializer"]:
            name = tensor.get("name", "")
            if name in constants:
                raise self.source.error(name[:80], "occurs twice among the initializers")
            constants[name] = self.tensor(tensor, name[:80])
        ports = tuple(self.port(one) for one in found["input"] if one.get("name", "") not in constants)
        made = {*constants, *(port.name for port in ports)}
        if len(made) < len(constants) + len(ports):
            raise self.source.error("", "has two inputs of one name")
        nodes = []
        for one in found["node"]:
            node = self.node(one)
            for name in filter(None, node.outputs):
                if name in made:
                    raise self.source.error(node.where, f"makes the value {name[:80]!r}, which is made twice")
                made.add(name)
            nodes.append(node)
        return OperationGraph(ports, tuple(one.get("name", "") for one in found["output"]), constants, tuple(nodes))

    def port(self, found: dict[str, Any]) -> OperationInput:
        tensor = found.get("type", {}).get("tensor", {})
        shape = tensor.get("shape")
        dims = None
        if shape is not None:
            if len(shape["dim"]) > MAX_AXES:
                raise self.source.error(found.get("name", "")[:80], f"has {len(shape['dim']):,} axes, over {MAX_AXES}")
            dims = tuple(one["value"] if one.get("value", 0) > 0 else str(one.get("param", "")) for one in shape["dim"])
        return OperationInput(found.get("name", ""), tensor.get("elem") in INTEGERS, dims)

    def node(self, found: dict[str, Any]) -> OperationNode:
        op, name, domain = found.get("op_type", ""), found.get("name", ""), found.get("domain", "")
        where = f"{op} {name}".strip()[:80]
        attributes: dict[str, Any] = {}
        for one in found["attribute"]:
            key = one.get("name", "")
            if key in attributes:
                raise self.source.error(where, f"has the attribute {key[:80]!r} twice")
            attributes[key] = self.attribute(one, where)
        return OperationNode(op, domain, where, tuple(found["input"]), tuple(found["output"]), attributes)

    def attribute(self, found: dict[str, Any], where: str) -> Any:
        """A plain value. Old files do not say its type: it is what there is."""
        if found.get("ref_attr_name"):
            raise self.source.error(where, "takes an attribute of a function, which are not supported")
        kinds = {1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 6: "floats", 7: "ints", 8: "strings"}
        kind = kinds.get(found.get("type", 0)) or next((k for k in kinds.values() if found.get(k) is not None), "")
        value = found.get(kind)
        if kind == "t" and value is not None:
            return self.tensor(value, where)
        if kind == "g" and value is not None:
            return self.graph(value)
        if kind == "s":
            return bytes(value or b"").decode("utf-8")
        if kind == "strings":
            return [bytes(one).decode("utf-8") for one in value or ()]
        return value if value is not None else {"f": 0.0, "i": 0}.get(kind)

    def tensor(self, found: dict[str, Any], where: str) -> np.ndarray | None:
        """The array; None for one of strings or of another kind that no network here has."""
        kind = found.get("data_type", 0)
        if kind not in _TYPES:
            return None
        dtype, dims = np.dtype(_TYPES[kind]), found["dims"]
        count = count_of(self.source, where, dims)
        self.source.spend(where, count * max(dtype.itemsize, 4))
        if found.get("data_location", 0) == 1 or found["external_data"]:
            data: Any = self.outside(where, found["external_data"], count * dtype.itemsize)
        elif "raw_data" in found:
            data = found["raw_data"]
        elif found["float_data"] or found["double_data"]:
            data = b"".join(found["float_data"] or found["double_data"])
        else:
            with self.source.guard(where, "has numbers that do not fit its type"):
                wide = np.array(found["int32_data"] or found["int64_data"], np.int64)
                narrow = np.uint16 if kind == 10 else dtype  # float16 as the numbers of its bits
                data = wide.astype(narrow).tobytes()
        if len(data) != count * dtype.itemsize:
            raise self.source.error(where, f"must have {count * dtype.itemsize:,} bytes, the file has {len(data):,}")
        array = np.frombuffer(data, dtype.newbyteorder("<")).reshape(dims)
        if kind == _BFLOAT16:
            return (array.astype(np.uint32) << 16).view(np.float32)
        return array.astype(np.float32) if kind == 10 else array.astype(dtype, copy=False)

    def outside(self, where: str, pairs: list[dict[str, str]], nbytes: int) -> bytes:
        """A range of bytes of a file in the same folder, which must have a plain name and not be a link."""
        said = {one.get("key", ""): one.get("value", "") for one in pairs}
        name = said.get("location", "")
        plain = name not in ("", ".", "..") and not {"/", "\\", "\0", ":"} & set(name)
        if not plain or os.path.basename(name) != name or len(said) < len(pairs):
            raise self.source.error(
                where, f"is stored in {name[:80]!r}; only one file in the same folder, by its plain name, is opened"
            )
        try:
            offset, length = (int(said.get(key) or default) for key, default in (("offset", 0), ("length", nbytes)))
        except ValueError:
            offset = length = -1
        if offset < 0 or length != nbytes:
            raise self.source.error(where, f"must take {nbytes:,} bytes of {name[:80]!r}, got another length")
        path = self.path.with_name(name)
        if not path.exists():
            raise self.source.error(where, f"is stored in {name[:80]!r}, which must lie beside the file, and does not")
        beside = self.source.guard(where, f"cannot be read from {name[:80]!r}")
        with beside, open_file(path, follow=False, hard_links=False) as stream:
            size = size_of(stream)
            if name not in self.beside:
                self.beside.add(name)
                self.source.budget.grow(size)
            if offset + length > size:
                raise self.source.error(
                    where, f"must end within the {size:,} bytes of {name[:80]!r}, got {offset + length:,}"
                )
            stream.seek(offset)
            return stream.read(length)
