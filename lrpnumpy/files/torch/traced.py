"""What a live PyTorch module does between its parts, from one run: how the input of each part was made.

Every value that a part gave is known. The input of the next part is looked for among them: the value itself, its last
row, mean or maximum, a sum weighted by an attention, a repetition, a concatenation or a sum of two, and any of these
after an activation. A network that is a chain is described by hints, as a user would give them; any other by nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.files.safe import Source
from lrpnumpy.files.torch.chain import Word
from lrpnumpy.files.torch.layers import LAYERS, TorchBuild
from lrpnumpy.files.torch.layouts import attentions, layouts, ours, pooled_by, probabilities, turned
from lrpnumpy.files.torch.modules import Module
from lrpnumpy.layers import (
    Activation,
    Add,
    Concat,
    Embedding,
    Flatten,
    LastRow,
    Layer,
    Max,
    Mean,
    Repeat,
    Sum,
)  # fmt: skip
from lrpnumpy.model import INPUT, Model, Node

_BY_STEP = ("linear", "layernorm", "batchnorm", "prelu")
_READOUTS: dict[type[Layer], str] = {LastRow: "last-row", Mean: "mean", Max: "max"}


@dataclass
class ModuleCall:
    """One use of a part of a module: what went in and what came out."""

    name: str
    inputs: np.ndarray
    outputs: Any  # an array, or for a recurrent part a pair of the steps and the final states


class TracedValue(NamedTuple):
    """A value in our layout: (N, T, M) with steps, or (N, M) without; `name` is None until a node is made for it."""

    name: str | None
    rows: np.ndarray
    steps: bool
    made: tuple[Layer, tuple[str, ...]] | None = None  # the node that would make it


@dataclass
class PlainChain:
    """The network as a plain chain, as long as it is one."""

    words: list[str] = field(default_factory=list)  # names of modules and activations
    readout: str | None = None
    tip: tuple[str, ...] = (INPUT,)  # names of the last value
    recurrent: bool = False  # whether a recurrent module came
    by_step: bool = True  # since then only modules that work on each step by itself
    two_way: bool = False
    plain: bool = True


class Tracer:
    """The calls of one run, turned into nodes one after the other."""

    def __init__(self, source: Source, modules: dict[str, Module], build: TorchBuild, tolerance: float) -> None:
        self.source, self.modules, self.build, self.tolerance = source, modules, build, tolerance
        self.values: list[TracedValue] = []
        self.nodes: list[Node] = []
        self.chain = PlainChain()
        self.embedding: Embedding | None = None
        self.output: str | None = None
        self.result = ""

    def follow(self, x: np.ndarray, calls: list[ModuleCall], y: np.ndarray, parameters: dict[str, np.ndarray]) -> None:
        """All of a run: x is (N, T, D), or (N, T) token ids; y what the module gave."""
        self.parameters = parameters
        for call in calls:
            module = self.modules[call.name]
            if module.kind == "embedding":
                if self.embedding is not None or call.inputs.size != x.size or x.ndim != 2:
                    raise self.unclear(call.name, "is an Embedding that is used in a way that is not known here")
                E = self.build.vectors(module)
                self.embedding = Embedding(E)
                self.values.append(TracedValue(INPUT, E[x], True))
                self.chain.words.append(call.name)
                continue
            if not self.values:
                self.values.append(TracedValue(INPUT, x, True))
            self.use(module, call)
        self.finish(y, calls[-1].name)

    def unclear(self, where: str, reason: str) -> Exception:
        """The error about something that is not understood."""
        return self.source.error(where, reason)

    # ----------------------------------------------------------------------------------------------- one part

    def use(self, module: Module, call: ModuleCall) -> None:
        """A part: find its input, and add its nodes and values."""
        found = self.found(call.inputs)
        if found is None:
            there = ", ".join(value.name or "" for value in self.values[-5:])
            raise self.unclear(
                call.name,
                f"takes what is no readout, activation, attention, concatenation or sum known here of {there}; write "
                "that step with modules of torch.nn that are supported, or build the network of lrp.Node",
            )
        value, layout = found
        self.chain.words.append(module.text if isinstance(module, Word) else module.name)
        name = value.name
        assert name is not None
        if not module.recurrent:
            layers = self.build.pool(module) if isinstance(module, Word) else [LAYERS[module.kind](self.build, module)]
            made = name
            for layer in layers:
                made = self.add(module.name, layer, made)
            self.values.append(TracedValue(made, ours(call.outputs, layout, value.rows), value.steps))
            self.chain.tip = (made,)
            self.chain.by_step &= module.kind in _BY_STEP
            return
        for k in range(module.depth):
            name = self.add(
                f"{module.name}.{k}" if module.depth > 1 else module.name, self.build.recurrent(module, k), name
            )
        steps, states = call.outputs
        ways = 2 if module.two_way else 1
        final = np.concatenate(list(states[-ways:]), axis=-1).reshape(len(value.rows), -1)
        self.values += [
            TracedValue(name, ours(steps, layout, value.rows), True),
            TracedValue(f"{name}:last", final, False),
        ]
        self.chain.plain &= self.chain.readout is None
        self.chain.tip, self.chain.recurrent, self.chain.by_step = (name, f"{name}:last"), True, True
        self.chain.two_way = module.two_way

    def add(self, name: str, layer: Layer, *inputs: str) -> str:
        """A node of a name of its own."""
        name = name.replace("/", "_").replace(":", "_") or "network"
        taken = {node.name for node in self.nodes} | {INPUT}
        while name in taken:
            name += "_"
        self.nodes.append(Node(name, layer, inputs))
        return name

    # ------------------------------------------------------------------------------------------ where it is from

    def found(self, array: np.ndarray, final: bool = False) -> tuple[TracedValue, str] | None:
        """The value that an array is, its nodes added, and the layout in which the module has it."""
        candidates = list(self.candidates(array.size))
        for activation in ("linear", *ACTIVATIONS):
            for value in candidates:
                with np.errstate(all="ignore"):
                    rows = ACTIVATIONS[activation].F(value.rows)
                if (layout := self.layout(rows, value.steps, array, final)) is not None:
                    return self.chosen(value, activation, rows), layout
        if array.ndim > 1 and not final:
            N, lengths = len(self.values[0].rows), {value.rows.shape[1] for value in self.values if value.steps}
            for layout, rows in layouts(array, N, lengths):
                if (joined := self.joined(rows)) is not None:
                    self.chain.plain = False
                    return joined, layout
        return None

    def chosen(self, value: TracedValue, activation: str, rows: np.ndarray) -> TracedValue:
        """A candidate that is used: its node is added, and that of its activation; the chain goes on or ends."""
        chain = self.chain
        source = value.name or (value.made[1][0] if value.made else "")
        if source not in chain.tip or (value.made is not None and type(value.made[0]) not in _READOUTS):
            chain.plain = False
        elif value.name is not None and value.name.endswith(":last"):
            chain.readout = "last"
        elif value.made is not None and (chain.readout is not None or not chain.by_step or not chain.recurrent):
            chain.plain = False
        elif value.made is not None:
            kind = _READOUTS[type(value.made[0])]
            behind = chain.tip[-1].endswith(":last")  # directly after the recurrent module
            chain.readout = kind if behind or kind == "last-row" else None
            chain.plain &= chain.readout is not None
        value = self.noded(value)
        if activation == "linear":
            return value
        chain.words.append(activation)
        assert value.name is not None
        name = self.add(f"{value.name.replace(':', ' ')} {activation}", Activation(activation), value.name)
        self.values.append(made := TracedValue(name, rows, value.steps))
        chain.tip = (name,)
        return made

    def noded(self, value: TracedValue) -> TracedValue:
        """A candidate with a node of its own."""
        if value.made is None:
            return value
        layer, inputs = value.made
        named = value._replace(name=self.add(type(layer).__name__.lower(), layer, *inputs), made=None)
        self.values.append(named)
        self.chain.tip = (named.name or "",)
        return named

    def candidates(self, size: int) -> Iterator[TracedValue]:
        """Values, and what may be made of one of them, that have so many numbers."""
        for value in reversed(self.values):
            if value.rows.size == size:
                yield value
        for value in reversed(self.values):
            rows, name = value.rows, value.name
            assert name is not None
            if not value.steps:
                like = next((v for v in self.values if v.steps and rows.size * v.rows.shape[1] == size), None)
                if like is not None and like.name is not None:
                    repeated = np.repeat(rows[:, None], like.rows.shape[1], axis=1)
                    yield TracedValue(None, repeated, True, (Repeat(), (name, like.name)))
            elif rows.size == size:
                yield TracedValue(None, rows.reshape(len(rows), -1), False, (Flatten(rows.shape[1]), (name,)))
            elif rows.size == size * rows.shape[1]:
                yield from (
                    TracedValue(None, pooled, False, (layer, (name,)))
                    for layer, pooled in (
                        (LastRow(), rows[:, -1]),
                        (Mean(), rows.mean(axis=1)),
                        (Max(), rows.max(axis=1)),
                        (Sum(), rows.sum(axis=1)),
                    )
                )
                for pool in attentions(name, rows.shape[2], self.nodes, self.parameters):
                    yield TracedValue(None, pooled_by(pool, rows), False, (pool, (name,)))

    def joined(self, rows: np.ndarray) -> TracedValue | None:
        """A concatenation or a sum of values and of what may be made of one of them."""
        steps = rows.ndim == 3
        sizes = {rows.size // rows.shape[-1] * width for width in range(1, rows.shape[-1])}
        parts = [one for size in sorted(sizes) for one in self.candidates(size) if one.steps == steps]
        parts = [one for one in parts if one.rows.shape[:-1] == rows.shape[:-1]]
        chosen: list[TracedValue] = []
        at = 0
        while at < rows.shape[-1]:
            fits = (one for one in parts if self.close(one.rows, rows[..., at : at + one.rows.shape[-1]]))
            one = next(fits, None)
            if one is None:
                break
            chosen.append(one)
            at += one.rows.shape[-1]
        layer: Layer = Concat()
        if at < rows.shape[-1] or not chosen:
            layer = Add()
            alike = [one for one in self.candidates(rows.size) if one.steps == steps and one.rows.shape == rows.shape]
            pairs = ((a, b) for k, a in enumerate(alike) for b in alike[k + 1 :] if self.close(a.rows + b.rows, rows))
            chosen = list(next(pairs, ()))
            if not chosen:
                return None
        names = [self.noded(one).name or "" for one in chosen]
        name = self.add(type(layer).__name__.lower(), layer, *names)
        self.values.append(found := TracedValue(name, rows, steps))
        return found

    def layout(self, rows: np.ndarray, steps: bool, array: np.ndarray, final: bool) -> str | None:
        """In which layout an array of the module is this value; None where it is another."""
        if rows.size != array.size:
            return None
        for layout, turned_rows in turned(rows, steps):
            if (final or (array.ndim and turned_rows.shape[-1] == array.shape[-1])) and self.close(
                turned_rows.reshape(array.shape), array
            ):
                return layout
        return None

    def close(self, a: np.ndarray, b: np.ndarray) -> bool:
        """Whether two arrays are the same to rounding."""
        if a.shape != b.shape or not a.size:
            return False
        largest = max(float(np.abs(b).max()), 1e-30)
        return bool(np.abs(a - b).max() <= self.tolerance * largest)

    # --------------------------------------------------------------------------------------------------- the end

    def finish(self, y: np.ndarray, last: str) -> None:
        """Which value the module gives, and by which probability."""
        for value in self.candidates(y.size):
            for output, rows in probabilities(value.rows):
                if self.layout(rows, value.steps, y, True) is not None:
                    self.output = output
                    self.result = self.chosen(value, "linear", value.rows).name or ""
                    return
        found = self.found(y, final=True)
        if found is None:
            raise self.unclear(
                last,
                "is followed by something that is no activation or readout known here; let the module give its scores",
            )
        self.result = found[0].name or ""

    def hints(self) -> dict[str, Any] | None:
        """A plain chain as a user would describe it; None where the network is no chain."""
        chain = self.chain
        if not chain.plain or not chain.recurrent:
            return None
        readout = chain.readout or "every"
        if readout == "last-row" and not chain.two_way:
            readout = "last"
        return {"layers": chain.words, "readout": readout, "output": self.output}

    def model(self) -> Model:
        """The network of nodes, without those whose values are used only for an attention."""
        used = {self.result.partition(":")[0]}
        for node in reversed(self.nodes):
            if node.name in used:
                used |= {name.partition(":")[0] for name in node.inputs}
        nodes = tuple(node for node in self.nodes if node.name in used)
        return Model(nodes, embedding=self.embedding, output=self.output or "linear", result=self.result)  # type: ignore[arg-type]
