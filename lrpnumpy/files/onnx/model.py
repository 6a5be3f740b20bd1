"""ONNX files to a Model: the graph of the file is the list of operations that the builder takes."""

from __future__ import annotations

from lrpnumpy.files.build.graph import build
from lrpnumpy.files.kinds import LoadOptions, WeightFile
from lrpnumpy.files.onnx.parse import parse
from lrpnumpy.files.report import Imported
from lrpnumpy.files.safe import open_file


def read(opened: WeightFile, options: LoadOptions) -> Imported:
    """The model; `which` names one of several outputs, `custom` gives layers for operations by their names."""
    with opened.guard("", "is not an ONNX file that can be read"), open_file(opened.path) as stream:
        opened.budget.hold("", opened.size)
        producer, graph = parse(opened, opened.path, stream.read(opened.size))
        found = build(opened, graph, options.which, options.custom)
    return found._replace(kind=f"ONNX, from {producer or 'a program that is not said'}"[:80])
