"""A graph of operations to a Model: one table of operations, and what each makes of the values of the network.

Nothing of the graph is run. Values that depend on constants and shapes alone are folded (`constants.py`); values of the
network say how they are made of a Model's (`network.py`). A file does not say which axis of an input is the batch and
which the steps: the usual meanings are tried in turn, until every node finds the axes that it needs.
"""

from __future__ import annotations

import itertools
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError, WeightFileError
from lrpnumpy.files.build.constants import Spread, Unknown, array_of, as_list, fold
from lrpnumpy.files.build.layers import OF_MODULES, OPERATIONS
from lrpnumpy.files.build.network import NetworkBuild, NetworkValue, NotSupported
from lrpnumpy.files.build.sizes import Dim, name_of, sizes
from lrpnumpy.files.operations import OWN_DOMAINS, OperationGraph, OperationInput, OperationNode
from lrpnumpy.files.report import Imported
from lrpnumpy.files.safe import Source, nearby, which_one
from lrpnumpy.files.simpler import simpler
from lrpnumpy.model import Model

# What the axes of an input may mean, by their number: batch N, steps T, features F; L is one length for each sequence.
_MEANINGS = {1: ("L", "T", "N"), 2: ("NT", "NF", "TF", "TN"), 3: ("NTF", "TNF", "NFT"), 4: ("NTFF",)}
_TRIES = 64
_SIZES = 4  # that are open in the inputs and fixed in the graph
_RECURRENT = ("LSTM", "GRU", "RNN")
_REFUSED = {
    **dict.fromkeys(("Loop", "Scan", "SequenceMap"),
        "is a loop, which is not supported; load the file of Keras or PyTorch that it was exported from, or export one "
        "whose recurrent layers are LSTM, GRU or RNN, not loops of cells"),
    **dict.fromkeys(("SplitToSequence", "SequenceAt", "ConcatFromSequence", "SequenceConstruct"),
        "is about single steps: the exporter has written a recurrent layer out, step by step, which is not supported; "
        "export the model with dynamo=False, or load the file of PyTorch"),
}  # fmt: skip
# What may lie between an input of the graph and the start state that it is.
_MOVES = ("Slice", "Gather", "Squeeze", "Unsqueeze", "Transpose", "Reshape", "Split", "Cast", "Identity", "Expand")


def build(
    source: Source,
    graph: OperationGraph,
    which: str | None = None,
    custom: Mapping[str, Any] | None = None,
    axes: Mapping[str, str] | None = None,
) -> Imported:
    """The model, for the first meaning of the inputs' axes with which every node finds what it needs.

    `which` names one of several outputs, `custom` gives layers for operations by their names. `axes` is the meaning of
    the axes of each input, such as "NTF", if it is known.
    """
    known: dict[str, Any] = {name: value for name, value in graph.constants.items() if value is not None}
    for node in graph.nodes:  # what is computed of constants alone is the same for all of them
        if all(name in known for name in filter(None, node.inputs)) and node.op != "If":
            source.budget.visit("graph")
            if node.domain in OWN_DOMAINS:
                made = fold(source, node, [known.get(name) for name in node.inputs])
                known.update({n: v for n, v in zip(node.outputs, made, strict=False) if not isinstance(v, Unknown)})
    states, ports = {}, [*graph.ports]
    if axes:
        choices: list[Sequence[str]] = [[axes[port.name]] for port in ports]
    else:
        states = _state_inputs(graph)
        ports = [port for port in ports if port.name not in states]
        choices = [_meanings(port, len(ports)) for port in ports]
    best: tuple[int, str, str] = (-1, "", "has no input")
    nothing: dict[str, int] = {}
    waiting = [(meanings, nothing) for meanings in itertools.islice(itertools.product(*choices), _TRIES)][::-1]
    while waiting:
        meanings, fixed = waiting.pop()
        run = _Run(source, graph=graph, which=which, custom=custom or {}, values=ChainMap({}, known), fixed=fixed)
        try:
            run.start(ports, meanings, states)
            run.through(graph, run.values)
            run.finish()
            model, note = simpler(run.model)
            return Imported(model, [*run.notes, *filter(None, [note]), *run.warnings], [*run.warnings])
        except WeightFileError:
            raise
        except NotSupported as refused:
            where, reason, *size = refused.args
            if size:
                run.maybe = [tuple(size)]
        except LrpError as error:
            where, reason = run.where, str(error).removesuffix(".")
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):  # inputs that it lacks
            where, reason = run.where, "has inputs, attributes or shapes that this operation does not take"
        if run.done > best[0]:
            best = (run.done, where, reason)
        for name, size in run.maybe:  # once more with that size
            if name not in fixed and len(fixed) < _SIZES:
                waiting.append((meanings, {**fixed, name: size}))
    raise source.error(best[1][:80], best[2])


def _meanings(port: OperationInput, count: int) -> tuple[str, ...]:
    rank = 3 if port.dims is None else len(port.dims)
    if rank == 1 and (count == 1 or not port.integer):
        return ("T", "N")
    return _MEANINGS.get(rank, ("N" + "F" * (rank - 1),))


def _state_inputs(graph: OperationGraph) -> dict[str, OperationInput]:
    """Inputs with three axes that nothing but the start states of recurrent layers are made of."""
    made_by = {name: node for node in graph.nodes for name in node.outputs}
    ports = {port.name: port for port in graph.ports if len(port.dims or ()) == 3}
    found = {}
    for node in graph.nodes:
        if node.op not in _RECURRENT:
            continue
        for name in node.inputs[5:7]:
            steps = 0
            while name in made_by and made_by[name].op in _MOVES and made_by[name].inputs and steps < 100:
                name, steps = made_by[name].inputs[0], steps + 1
            if name in ports:
                found[name] = ports[name]
    return found


@dataclass
class _Run(NetworkBuild):
    """One way to understand a graph."""

    graph: OperationGraph = field(kw_only=True)
    which: str | None = field(kw_only=True)
    custom: Mapping[str, Any] = field(kw_only=True)
    values: ChainMap[str, Any] = field(default_factory=ChainMap)
    maybe: list[tuple[Any, ...]] = field(default_factory=list)  # sizes that a branch depends on, and their numbers
    done: int = 0  # nodes that were understood
    model: Model = field(init=False)

    def start(
        self, ports: Sequence[OperationInput], meanings: Sequence[str], states: Mapping[str, OperationInput]
    ) -> None:
        """The inputs, if their axes mean this."""
        self.used = set(self.graph.taken)
        self.batch = self.fixed.get("N", self.batch)
        for port, axes in zip(ports, meanings, strict=True):
            self.where = f"input {port.name[:80]!r}"
            if port.dims == ():
                self.refuse(f"is a single number; say which, as constants={{{port.name[:40]!r}: 16000}}")
            dims = self.dims(port, axes)
            if "N" in axes and not isinstance(dims[axes.index("N")], Dim):
                self.batch = dims[axes.index("N")]
            if "N" not in axes and axes != "L":
                self.batch = 1
        for port, axes in zip(ports, meanings, strict=True):
            if axes != "L" and port.name in self.used:
                dims = self.dims(port, axes)
                if "N" in axes:
                    dims[axes.index("N")] = self.batch
                self.values[port.name] = self.port(port.name, axes, dims)
        for port, axes in zip(ports, meanings, strict=True):
            if axes == "L":
                self.lengths(port.name)
        for name, port in states.items():
            shape = [n if isinstance(n, int) else 1 for n in port.dims or ()]
            self.room(*shape)
            self.values[name] = Spread(np.zeros(shape, np.float32))
            self.warn(f"the input {name[:80]!r} is left out, it is a start state, which is taken to be zero")

    def lengths(self, name: str) -> None:
        """An input that has the number of steps of each sequence."""
        self.where = name[:80]
        steps = next((key for key, value in self.stepped.items() if self.sizes[value].steps), None)
        if steps is None:
            self.refuse("cannot be the lengths of series where there is none")
        self.values[name] = Spread(sizes([steps]), (self.batch,))
        if isinstance(self.batch, int):
            self.source.budget.visit(self.where, self.batch)
            self.values[name] = sizes([steps]).repeat(self.batch)
        self.warn(
            f"the input {name[:80]!r} is left out, it is taken for the lengths of the series: give each series at its "
            "own length, without padding"
        )

    def dims(self, port: OperationInput, axes: str) -> list[Any]:
        """Sizes of the axes; a missing number of features is what the first recurrent layer takes."""
        found: list[Any] = list(port.dims or [""] * len(axes))
        for k, n in enumerate(found):
            if isinstance(n, str):
                found[k] = self.size(n or f"{port.name}.{k}")
        if axes.count("F") == 1 and isinstance(found[axes.index("F")], Dim):
            weights = [self.values.get(one.inputs[1]) for one in self.graph.nodes if one.op in _RECURRENT]
            if weights and isinstance(weights[0], np.ndarray) and weights[0].ndim == 3:
                found[axes.index("F")] = weights[0].shape[-1]
        return found

    def through(self, graph: OperationGraph, values: ChainMap[str, Any], depth: int = 0) -> None:
        """Understand every node of a graph in turn."""
        self.source.budget.level("graph", depth)
        for node in graph.nodes:
            self.source.budget.visit("graph")
            self.where = node.where
            if node.outputs and all(name in values for name in filter(None, node.outputs)):
                continue
            taken = [values.get(name) for name in node.inputs]
            for name, value in zip(node.inputs, taken, strict=True):
                self.refuse_if(name and value is None, f"takes the value {name[:80]!r}, which no node before it makes")
            made = self.node(node, taken, values, depth)
            for name, value in zip(node.outputs, made, strict=False):
                if name and value is not None:
                    values[name] = value
                if isinstance(value, NetworkValue):
                    self.room(value.index.size)
            self.done += 1

    def node(self, node: OperationNode, taken: list[Any], values: ChainMap[str, Any], depth: int) -> Sequence[Any]:
        """The outputs of one node."""
        flows = any(isinstance(one, NetworkValue) for one in taken)
        if node.op in self.custom or node.where in self.custom:
            return [self.own(node, taken)]
        if node.domain not in OWN_DOMAINS:
            self.refuse(
                f"is of the domain {node.domain[:80]!r}, only ONNX' own operations are supported; "
                f"custom={{{node.op[:40]!r}: function}} can say what it does"
            )
        if node.op == "If":
            return self.chosen(node, taken, values, depth)
        if node.op in _REFUSED:
            self.refuse(_REFUSED[node.op])
        if flows and node.op == "Shape":
            of = self.shape(taken[0])
            return [sizes(of[node.attributes.get("start", 0) : node.attributes.get("end")])]
        if not flows:
            if node.op == "Equal":
                self.compare(*taken[:2])
            return fold(self.source, node, taken)
        operation = OPERATIONS.get(node.op) or OF_MODULES.get(node.op)
        if operation is None:
            near = nearby(node.op[:80], OPERATIONS)
            self.refuse(f"is not supported{near}; custom={{{node.op[:40]!r}: function}} can say what it does")
        return as_list(operation(self, node, taken))

    def compare(self, a: Any, b: Any) -> None:
        """Note an open size that is compared with a number: the two count as different, unless this leads nowhere."""
        if not all(isinstance(one, np.ndarray) and one.size == 1 for one in (a, b)):
            return
        for size, number in ((a.item(), b.item()), (b.item(), a.item())):
            if (name := name_of(size)) and isinstance(number, int) and number > 0:
                self.maybe.append((name, number))

    def chosen(self, node: OperationNode, taken: list[Any], values: ChainMap[str, Any], depth: int) -> list[Any]:
        """The branch of an If whose condition is known."""
        condition = array_of(taken[0])
        if not isinstance(condition, np.ndarray) or condition.size != 1 or condition.dtype == object:
            self.refuse(
                "depends on values that are known only when the network runs, which is not supported; export the model "
                "without branches"
            )
        branch = node.attributes.get(("else_branch", "then_branch")[bool(condition.reshape(-1)[0])])
        if not isinstance(branch, OperationGraph):
            self.refuse("has no branches")
        inner = values.new_child({name: one for name, one in branch.constants.items() if one is not None})
        self.through(branch, inner, depth + 1)
        return [inner.get(name) for name in branch.outputs]

    def own(self, node: OperationNode, taken: list[Any]) -> NetworkValue:
        """A node for which the caller gives a layer, of rows of features."""
        flows = [one for one in taken if isinstance(one, NetworkValue)]
        self.refuse_if(not flows, "must take a value of the network for custom")
        arrays = {
            name: self.constant(one, "its other inputs")
            for name, one in zip(node.inputs, taken, strict=True)
            if one is not None and not isinstance(one, NetworkValue)
        }
        function = self.custom.get(node.op) or self.custom[node.where]
        settings = {name: value for name, value in node.attributes.items() if not isinstance(value, OperationGraph)}
        return self.vectors(self.custom_layer(node.op, function, settings, arrays), *flows)

    # ------------------------------------------------------------------------------------------------ the end

    def finish(self) -> None:
        """The model of the output that is asked for."""
        self.where = "output"
        flow = self.values.get(self.result())
        if not isinstance(flow, NetworkValue):
            why = f"; {flow.where} {flow.reason}" if isinstance(flow, Unknown) else ""
            self.refuse(f"must be computed from the inputs{why}")
        self.model = self.finished(flow)
        self.note("ONNX' gates are reordered, and biases that are added are one")

    def result(self) -> str:
        """The name of the output that gives the scores."""
        names, which = [*self.graph.outputs], self.which
        if which in names:
            return str(which)
        if which is None:
            if len(names) > 1:
                names = [name for name in names if not _is_state(self.values.get(name))]
            if len(names) == 1:
                return names[0]
        raise self.source.error("", which_one(self.graph.outputs, which))


def _is_state(value: Any) -> bool:
    """Whether a value is the final state of a recurrent layer."""
    return isinstance(value, NetworkValue) and all(":" in name for name in value.values)
