"""Loops over the steps, rolled up again: T times the same operations become operations on whole series.

What a step computes from the steps before it is a recurrent layer, a cell of torch.nn or a custom one (`stated.py`).
Everything else in the loop is done for all steps at once. A series has its steps along the first axis here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError
from lrpnumpy.files.torch.merged import needed
from lrpnumpy.files.torch.recorded import Op, Recorded
from lrpnumpy.files.torch.stated import LINEAR, TRIVIAL, CellBuilder, NotStated, Total, totals
from lrpnumpy.layers import Layer
from lrpnumpy.lazy import cached_property

_EACH = (  # operations on every number, or on the last axis
    "Linear", "Add", "Sub", "Mul", "Div", "Pow", "Relu", "Tanh", "Sigmoid", "Exp", "Swish", "Mish", "Softsign", "Selu",
    "HardSwish", "Neg", "Sqrt", "Reciprocal", "Elu", "Celu", "LeakyRelu", "HardSigmoid", "Clip", "Gelu", "Softplus",
    "LayerNormalization", "Embedding",
)  # fmt: skip
_ONE_AXIS = ("Gather", "Concat", "Softmax", "LogSoftmax", "Stack")
_AXES = ("Slice", "Squeeze", "Unsqueeze", "ReduceMean", "ReduceSum", "ReduceMax")

Place = tuple[int, int]  # which operation of a step, and which of its results


class _NoLoop(Exception):
    """Operations that only look like a loop."""


def _fail() -> str:
    raise _NoLoop


def rolled(run: Recorded, which: str, T: int) -> Recorded:
    """The run with loops of T steps as layers."""
    outputs = {which: run.outputs[which]}
    run = replace(run, outputs=outputs, shapes=dict(run.shapes), arrays=dict(run.arrays), where="")
    while T > 3 and _roll_one(run, which, T):
        pass
    return run


def _roll_one(run: Recorded, which: str, T: int) -> bool:
    """Roll up the first loop, if there is one."""
    kinds = [op.op for op in run.ops]
    for begin in range(len(kinds) - T + 1):
        for length in range(1, (len(kinds) - begin) // T + 1):
            end = begin + length * T
            if kinds[begin : end - length] != kinds[begin + length : end]:
                continue
            steps = [run.ops[k : k + length] for k in range(begin, end, length)]
            shapes, arrays, ops = dict(run.shapes), dict(run.arrays), run.ops
            try:
                _Loop(run, steps).roll(begin, which)
                return True
            except (_NoLoop, NotStated, LrpError):
                run.shapes, run.arrays, run.ops = shapes, arrays, ops
    return False


@dataclass
class _Loop:
    """The operations of T steps, which are the same but for what they take."""

    run: Recorded
    steps: list[list[Op]]
    inside: dict[tuple[int, int], Place] = field(default_factory=dict)  # inputs that the same step makes
    carried: dict[tuple[int, int], tuple[Place, str]] = field(default_factory=dict)  # and those of the step before
    constants: dict[tuple[int, int], str] = field(default_factory=dict)  # and those that are arrays
    moves: dict[int, int] = field(default_factory=dict)  # the first of positions one after the other
    series: dict[Place, str] = field(default_factory=dict)  # values of all steps, steps first
    final: dict[Place, str] = field(default_factory=dict)  # values after the last step, if it is not a series
    same: dict[Place, str] = field(default_factory=dict)  # values that are the same in all steps
    done: set[int] = field(default_factory=set)  # operations that became part of a cell

    def __post_init__(self) -> None:
        self.T, self.first = len(self.steps), self.steps[0]
        self.places: dict[str, tuple[int, int, int]] = {
            name: (k, j, m)
            for k, ops in enumerate(self.steps)
            for j, op in enumerate(ops)
            for m, name in enumerate(op.outputs)
        }

    # ---------------------------------------------------------------------------------------------- is it a loop?

    def match(self) -> None:
        """Find where every input comes from; an exception where the steps are not the same."""
        for j, op in enumerate(self.first):
            column = [ops[j] for ops in self.steps]
            if any(len(one.inputs) != len(op.inputs) for one in column):
                raise _NoLoop
            for p in range(len(op.inputs)):
                self.source(j, p, [one.inputs[p] for one in column])
            for key in op.attributes:
                self.attribute(j, key, [one.attributes[key] for one in column])
        if not any(self.is_series(j) for j in self.moves):
            raise _NoLoop

    def source(self, j: int, p: int, names: Sequence[str]) -> None:
        places = [self.places.get(name) for name in names]
        if places[0] is None and all(name == names[0] for name in names):
            return
        arrays = [self.run.arrays[name] for name in names if name in self.run.arrays]
        if len(arrays) == len(names) and all(np.array_equal(one, arrays[0]) for one in arrays):
            self.constants[j, p] = names[0]
            return
        # how many steps before the value was made, and where
        made = [None if place is None else (k - place[0], place[1:]) for k, place in enumerate(places)]
        if made[1] is None or any(one != made[1] for one in made[1:]):
            raise _NoLoop
        if made[0] == made[1] and made[1][0] == 0:
            self.inside[j, p] = made[1][1]
        elif made[0] is None and made[1][0] == 1:
            self.carried[j, p] = made[1][1], names[0]
        else:
            raise _NoLoop

    def attribute(self, j: int, key: str, values: Sequence[Any]) -> None:
        first = values[0]
        if all(one is first or (not isinstance(first, Layer) and np.array_equal(one, first)) for one in values):
            return
        if key != "index" or not isinstance(first, int) or list(values) != [first + k for k in range(self.T)]:
            raise _NoLoop
        self.moves[j] = first

    def is_series(self, j: int) -> bool:
        """Whether an operation takes one step after the other of a series."""
        op = self.first[j]
        if op.op != "Gather" or j not in self.moves or (j, 0) in self.inside or (j, 0) in self.carried:
            return False
        return self.run.shapes[op.inputs[0]][op.attributes["axis"]] == self.T and self.moves[j] == 0

    @cached_property
    def groups(self) -> list[list[int]]:
        """Operations that depend on each other from step to step, in an order in which they can be made."""
        reached = np.eye(len(self.first), dtype=bool)
        for (j, _), place in [*self.inside.items(), *((key, one[0]) for key, one in self.carried.items())]:
            reached[place[0], j] = True
        for _ in range(len(self.first).bit_length()):
            reached = reached @ reached
        circle_of = [tuple(np.flatnonzero(row).tolist()) for row in reached & reached.T]
        if any(circle_of[j] != circle_of[place[0]] for (j, _), (place, _) in self.carried.items()):
            raise _NoLoop  # what is carried must be carried to the same group
        order: TopologicalSorter[tuple[int, ...]] = TopologicalSorter(dict.fromkeys(circle_of, ()))
        for (j, _), place in self.inside.items():
            if circle_of[j] != circle_of[place[0]]:
                order.add(circle_of[j], circle_of[place[0]])
        return [list(circle) for circle in order.static_order()]

    # --------------------------------------------------------------------------------------------- roll it up

    def roll(self, begin: int, which: str) -> None:
        """Replace the loop by operations on series."""
        self.match()
        needs, output = needed(self.run, which), self.run.outputs[which]
        earlier = {op.outputs[0] for op in self.run.ops[:begin]}
        rest = [op for op in needs if op.outputs[0] not in self.places and op.outputs[0] not in earlier]
        after = [*(name for op in rest for name in op.inputs), output]
        self.after_loop = [self.places[name] for name in after if name in self.places]
        self.live = {self.places[name][1] for op in needs for name in op.inputs if name in self.places}
        self.live |= {self.places[output][1]} if output in self.places else set()
        self.run.ops = self.run.ops[:begin]
        groups = [circle for circle in self.groups if self.live.intersection(circle)]
        taken = self.absorbed(groups)
        for circle in groups:
            if self.done.intersection(circle) or any(j in more for j in circle for more in taken.values()):
                continue
            if self.goes_around(circle):
                self.recurrent(circle, taken.get(circle[0], []))
            elif not self.is_last(circle[0]):
                self.all_steps(circle[0])
        for op in rest:
            self.after(op)
        if output in self.places:
            self.run.outputs[which] = self.item(output)

    def goes_around(self, circle: Sequence[int]) -> bool:
        """Whether operations depend on themselves one step before."""
        return len(circle) > 1 or any(j == circle[0] == place[0] for (j, _), (place, _) in self.carried.items())

    def is_last(self, j: int) -> bool:
        """Whether an operation outside of circles is used after the last step only, for which `item` makes it."""
        if self.is_series(j) or any(j in circle and self.goes_around(circle) for circle in self.groups):
            return False
        is_after = all(k == self.T - 1 for k, one, _ in self.after_loop if one == j)
        return is_after and all(map(self.is_last, self.takers(j) & self.live))

    def takers(self, j: int) -> set[int]:
        """The operations of a step that take a result of this one."""
        return {k for (k, _), place in self.inside.items() if place[0] == j}

    def all_steps(self, j: int) -> None:
        """An operation that needs no step before, for all steps at once."""
        op = self.first[j]
        if self.is_series(j):
            self.series[j, 0] = self.run.moved(op.inputs[0], op.attributes["axis"], 0)
            return
        if j in self.moves:
            raise _NoLoop
        inputs, is_wide = [], []
        for p, name in enumerate(op.inputs):
            place = self.inside.get((j, p))
            is_wide.append(place in self.series)
            inputs.append(name if place is None else self.series.get(place) or self.same.get(place) or _fail())
        attributes = op.attributes
        shapes = [self.run.shapes[name] for name in op.outputs]
        if any(is_wide):
            inputs, attributes = self.shifted(op, inputs, is_wide)
            shapes = [(self.T, *shape) for shape in shapes]
        if "shape" in attributes:
            shapes = [attributes.pop("shape")]
        self.run.where = op.where
        for m, name in enumerate(self.run.emits(op.op, inputs, shapes, **attributes)):
            (self.series if any(is_wide) else self.same)[j, m] = name

    def shifted(self, op: Op, inputs: list[str], is_wide: Sequence[bool]) -> tuple[list[str], dict[str, Any]]:
        """Inputs and attributes with one more axis in front."""
        attributes = dict(op.attributes)
        if op.op in _EACH:
            rank = max(len(self.run.shapes[name]) for name, wide in zip(inputs, is_wide, strict=True) if wide)
            for p, (name, wide) in enumerate(zip(inputs, is_wide, strict=True)):
                shape = self.run.shapes.get(name, ())
                if wide and len(shape) < rank and op.op in ("Add", "Sub", "Mul", "Div"):
                    inputs[p] = self.run.emit("Unsqueeze", name, axes=list(range(1, 1 + rank - len(shape))))
        elif op.op in _ONE_AXIS:
            if not all(is_wide):
                inputs = [name if wide else self.spread(name) for name, wide in zip(inputs, is_wide, strict=True)]
            attributes["axis"] += 1
        elif op.op in _AXES:
            attributes["axes"] = [k + 1 for k in attributes["axes"]]
        elif op.op == "Transpose":
            attributes["perm"] = [0, *(k + 1 for k in attributes["perm"])]
        elif op.op in ("Reshape", "Expand"):
            attributes["shape"] = [self.T, *attributes["shape"]]
        else:
            raise _NoLoop
        return inputs, attributes

    def spread(self, name: str) -> str:
        """A value that is the same at all steps, at each of them."""
        shape = self.run.shapes[name]
        return self.run.emit("Expand", self.run.emit("Unsqueeze", name, axes=[0]), shape=[self.T, *shape])

    # ------------------------------------------------------------------------------------------------ cells

    def absorbed(self, groups: Sequence[Sequence[int]]) -> dict[int, list[int]]:
        """Linear operations that only one group of several takes, which become part of its cell."""
        found: dict[int, list[int]] = {}
        used = {j for _, j, _ in self.after_loop}
        for circle in groups:
            kinds = [self.first[j].op for j in circle if self.first[j].op not in TRIVIAL]
            carries = any(place[0] in circle for (j, _), (place, _) in self.carried.items() if j in circle)
            if not carries or kinds in (["CellStep"], ["SetItem"]):
                continue
            inner = set(circle)
            for j in reversed(range(len(self.first))):
                if self.first[j].op in LINEAR and j not in used and self.takers(j) and self.takers(j) <= inner:
                    inner.add(j)
            found[circle[0]] = sorted(inner - set(circle))
        return found

    def recurrent(self, circle: Sequence[int], more: Sequence[int]) -> None:
        """Operations that go in a circle: a cell, or a tensor that is written step by step."""
        core = [j for j in circle if self.first[j].op not in TRIVIAL]
        kinds = [self.first[j].op for j in core]
        if kinds == ["SetItem"]:
            self.collected(core[0])
        elif kinds == ["CellStep"]:
            self.known_cell(core[0])
        else:
            ops = {*circle, *more}
            for j in sorted(ops):  # what is made of joined values must be made inside
                if self.first[j].op == "Concat":
                    ops |= self.takers(j) & self.live
            self.done |= ops
            self.stated(sorted(ops))
        for j in circle:  # axes of length 1 around what the cell gives
            if j not in core and self.inside.get((j, 0)) in self.series:
                self.all_steps(j)

    def collected(self, j: int) -> None:
        """out[:, t] = value."""
        op = self.first[j]
        place = self.inside.get((j, 1))
        if self.carried.get((j, 0), (None,))[0] != (j, 0) or place not in self.series or self.moves.get(j) != 0:
            raise _NoLoop
        if self.run.shapes[op.outputs[0]][op.attributes["axis"]] != self.T:
            raise _NoLoop
        self.final[j, 0] = self.run.moved(self.series[place], 0, op.attributes["axis"])

    def origin(self, place: Place) -> Place:
        """The value behind axes of length 1."""
        while self.first[place[0]].op in TRIVIAL and (place[0], 0) in self.inside:
            place = self.inside[place[0], 0]
        return place

    def state(self, j: int, p: int) -> tuple[Place, str]:
        """The value that an input is the one of the step before of, and what it is before the first step."""
        while (j, p) in self.inside and self.first[self.inside[j, p][0]].op in TRIVIAL:
            j, p = self.inside[j, p][0], 0
        if (j, p) not in self.carried:
            raise _NoLoop
        place, before = self.carried[j, p]
        return self.origin(place), before

    def known_cell(self, j: int) -> None:
        """A cell of torch.nn as a layer."""
        op = self.first[j]
        places = [(j, m) for m in range(len(op.outputs))]
        states = [self.state(j, 1 + m) for m in range(len(places))]
        if [state[0] for state in states] != places:
            raise NotStated(f"{op.where}() is not supported in a loop that changes its states")
        self.layer(op.attributes["cell"], [self.input_of(j, 0)], places, [state[1] for state in states], places[0])

    def width(self, place: Place) -> int:
        """How many features a value has."""
        j, m = place
        return self.run.shapes[self.first[j].outputs[m]][-1]

    def layer(
        self, cell: Any, inputs: Sequence[str], states: Sequence[Place], before: Sequence[str], output: Place
    ) -> None:
        """A cell with these states and this output, over all steps; `before` are the states before the first."""
        N = int(np.prod(self.run.shapes[self.first[states[0][0]].outputs[states[0][1]]][:-1]))
        sizes = [self.width(place) for place in states]
        starts = [self.shaped(name, (1, N, size)) for name, size in zip(before, sizes, strict=True)]
        shapes = [(self.T, N, self.width(output)), *((1, N, size) for size in sizes)]
        self.run.where = "Cell"
        self.series[output], *ends = self.run.emits("Cell", [*inputs, *starts], shapes, cell=cell)
        for place, end in zip(states, ends, strict=True):
            if place != output:
                self.final[place] = self.run.emit("Squeeze", end, axes=[0])

    def shaped(self, name: str, shape: tuple[int, ...]) -> str:
        """A start state in this shape."""
        given = self.run.shapes[name]
        if given == shape:
            return name
        if name in self.run.arrays:
            array = np.broadcast_to(self.run.arrays[name].reshape(-1, given[-1]), shape[-2:]).reshape(shape)
            return self.run.constant(array)
        flat = [n for n in given if n != 1]
        if flat != [n for n in shape if n != 1]:
            raise _NoLoop
        return self.run.emit("Reshape", name, shape=list(shape))

    def input_of(self, j: int, p: int) -> str:
        """An input from outside a circle, at every step."""
        place = self.inside.get((j, p))
        if place in self.series:
            return self.series[place]
        return self.spread(self.first[j].inputs[p] if place is None else self.same[place])

    def stated(self, ops: Sequence[int]) -> None:
        """A custom cell."""
        before: dict[Place, str] = {}  # the states, and what they are before the first step
        for (j, _), (place, name) in self.carried.items():
            if j in ops and before.setdefault(self.origin(place), name) != name:
                raise _NoLoop
        inputs: dict[str, tuple[str, bool]] = {}  # by key: the value, and whether it is a series
        for j in ops:
            for p, name in enumerate(self.first[j].inputs):
                source = self.inside.get((j, p))
                if source is not None and source[0] not in ops:
                    value = self.series.get(source) or self.same.get(source) or _fail()
                    inputs[str(source)] = value, source in self.series
                elif source is None and name and (j, p) not in self.carried and name not in self.run.arrays:
                    inputs[name] = name, False
        inputs = dict(sorted(inputs.items(), key=lambda item: not item[1][1]))  # series first
        if not any(is_series for _, is_series in inputs.values()):
            raise NotStated("has a loop that takes no input")
        uses = self.uses(ops)
        every = [place for place, is_every in uses.items() if is_every]
        every = every or [place for place in uses if place not in before]
        if len(every) > 1:
            raise NotStated("has a loop with two values that are used at every step")
        output = [*every, *before][0]
        values = {key: name for key, (name, _) in inputs.items()}
        cell = self.traced(ops, [*before], values, output)
        self.layer(cell, [*values.values()], [*before], [*before.values()], output)

    def uses(self, ops: Sequence[int]) -> dict[Place, bool]:
        """The values of a cell that are used outside of it, and whether that is at every step."""
        found: dict[Place, bool] = {}
        for (j, _), place in self.inside.items():
            if place[0] in ops and j not in ops and j in self.live:
                origin = self.origin(place)
                found[origin] = found.get(origin, False) or not self.is_last(j)
        for k, j, m in self.after_loop:
            if j in ops:
                origin = self.origin((j, m))
                found[origin] = found.get(origin, False) or k < self.T - 1
        return found

    def traced(self, ops: Sequence[int], states: Sequence[Place], inputs: Mapping[str, str], output: Place) -> Any:
        """The step of a custom cell."""
        sizes = [self.width(place) for place in states]
        widths = [self.run.shapes[name][-1] for name in inputs.values()]
        builder = CellBuilder(sizes, widths)
        values: dict[Place, list[Total]] = {}
        before = dict(zip(states, totals(sizes, builder.states), strict=True))
        given = dict(zip(inputs, totals(widths, builder.given), strict=True))
        for j in ops:
            op = self.first[j]
            taken: list[Any] = []
            for p, name in enumerate(op.inputs):
                place = self.inside.get((j, p))
                if (j, p) in self.carried:
                    taken.append(before[self.origin(self.carried[j, p][0])])
                elif place is not None and place[0] in ops:
                    taken.append(values[place])
                elif place is None and name in self.run.arrays:
                    taken.append(self.run.arrays[name])
                else:
                    taken.append(given[str(place) if place is not None else name])
            for m, value in enumerate(builder.run(op, taken, len(self.run.shapes[op.outputs[0]]))):
                values[j, m] = value
        return builder.finished(values[output], [values[place] for place in states])

    # ---------------------------------------------------------------------------------------------- after the loop

    def after(self, op: Op) -> None:
        """Add an operation after the loop, with what it takes of it."""
        places = [self.places.get(name) for name in op.inputs]
        _, j, m = places[0] or (-1, -1, -1)
        is_joined = op.op in ("Stack", "Concat") and places == [(k, j, m) for k in range(self.T)]
        if is_joined and (j, m) in self.series:
            self.joined(op, self.series[j, m])
            return
        inputs = [self.item(name) if name in self.places else name for name in op.inputs]
        self.run.ops.append(op._replace(inputs=tuple(inputs)))

    def item(self, name: str) -> str:
        """The value of one step, after the loop."""
        k, *rest = self.places[name]
        place = rest[0], rest[1]
        if place in self.same:
            return self.same[place]
        if k == self.T - 1 and place in self.final:
            return self.final[place]
        if k == self.T - 1 and self.origin(place) in self.final:
            return self.shaped(self.final[self.origin(place)], self.run.shapes[name])
        if place not in self.series and k == self.T - 1 and self.is_last(place[0]):
            op, inputs = self.steps[-1][place[0]], []
            for p, one in enumerate(op.inputs):
                is_made = one in self.places and (place[0], p) not in self.constants
                inputs.append(self.item(one) if is_made else one)
            self.run.ops.append(op._replace(inputs=tuple(inputs)))
            return name
        if place not in self.series:
            raise _NoLoop
        return self.run.emit("Gather", self.series[place], axis=0, index=-1 if k == self.T - 1 else k)

    def joined(self, op: Op, series: str) -> None:
        """Add the values of all steps side by side."""
        axis, shape = op.attributes["axis"], self.run.shapes[series]
        if op.op == "Concat" and shape[axis + 1] == 1:
            series = self.run.emit("Squeeze", series, axes=[axis + 1])
        name = self.run.moved(series, 0, axis)
        if op.op == "Concat" and shape[axis + 1] != 1:
            name = self.run.emit("Reshape", name, shape=list(self.run.shapes[op.outputs[0]]))
        self.run.ops.append(Op("Identity", (name,), op.outputs, {}, op.where))
