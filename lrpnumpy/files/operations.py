"""The short list of operations that every front end translates its file into: plain records.

The operations and their attributes are those of ONNX (`build/` has the table of what each makes of the values of a
network). A graph is checked by whoever made it; nothing of it is ever run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

INTEGERS = (2, 3, 4, 5, 6, 7, 12, 13)
OWN_DOMAINS = ("", "ai.onnx")


class OperationInput(NamedTuple):
    """An input of the graph. A dimension is a number, the name of an unknown one, or "" for one without a name."""

    name: str
    integer: bool
    dims: tuple[int | str, ...] | None


class OperationNode(NamedTuple):
    """One operation; the attributes are numbers, strings, arrays, lists of these, or graphs."""

    op: str
    domain: str
    where: str  # for errors
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]


class OperationGraph(NamedTuple):
    """A graph, or one inside another, which sees the values of the one around it."""

    ports: tuple[OperationInput, ...]
    outputs: tuple[str, ...]
    constants: dict[str, Any]
    nodes: tuple[OperationNode, ...]

    @property
    def taken(self) -> Iterable[str]:
        """The values that nodes and graphs inside take, and the outputs."""
        for node in self.nodes:
            yield from node.inputs
            for value in node.attributes.values():
                if isinstance(value, OperationGraph):
                    yield from value.taken
        yield from self.outputs
