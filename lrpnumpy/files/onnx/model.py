"""ONNX files to a Model: the graph of the file is the list of operations that the builder takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lrpnumpy.files.build.graph import build
from lrpnumpy.files.build.written import with_cells
from lrpnumpy.files.kinds import LoadOptions, WeightFile
from lrpnumpy.files.onnx.parse import parse
from lrpnumpy.files.operations import OperationGraph
from lrpnumpy.files.report import Imported
from lrpnumpy.files.safe import Source, nearby, open_file


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
