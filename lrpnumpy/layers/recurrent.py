"""The recurrent cell as a layer: one direction over packed rows, forward, backward, decomposed and occluded.

A cell is its `step`, which `statement/` traces and runs. It reads the rows of its inputs in a given order: as they are
(`STRAIGHT`), or mirrored. `Recurrent` is a layer of one cell, or of two whose outputs are merged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar, NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError, close_to, float_array
from lrpnumpy.kernels.compile import NUMPY, SMALL, Kernel, current, large_call, path_of
from lrpnumpy.layers.base import Keep, Layer, Ran, Size
from lrpnumpy.lazy import cached_property
from lrpnumpy.packed import Batch, Change, Packed, Split, covering, longest_first, vectors
from lrpnumpy.rules.propagation import Entry, Propagation
from lrpnumpy.statement.backward import Arrived, back
from lrpnumpy.statement.compiled import NAMES, CellProgram, CompiledRun, longest_of
from lrpnumpy.statement.decompose import Phrases, split
from lrpnumpy.statement.generate import uncovered
from lrpnumpy.statement.interpret import InterpretedRun
from lrpnumpy.statement.trace import Axes, Operation, Statement, from_data, trace

STRAIGHT: Any = slice(None)  # the order of a cell that reads forward
LEVELS = {None: 0, "states": 1, "parts": 2}  # how much kernels save: nothing, U x + b, or all values
NOT_SETTINGS = ("states", "axes", "start", "recurrent", "looks_up", "by_step", "version", "OUTPUTS", "is_custom")


class Read(NamedTuple):
    """One direction over one batch; its rows are in the order in which it read them."""

    xs: Sequence[Packed]
    order: Any  # STRAIGHT, or (R,) which row of xs was read as each row
    run: Any  # an InterpretedRun or a CompiledRun

    @property
    def batch(self) -> Batch:
        """The batch of the series."""
        return self.xs[0].batch

    @property
    def output(self) -> np.ndarray:
        """(R, M) outputs of every step."""
        rows = self.run.output.astype(self.xs[0].rows.dtype, copy=False)
        # Where all sequences are what the longest begins with, only that has run.
        return rows if self.run.batch is self.batch else rows[self.batch.step]

    @property
    def last(self) -> np.ndarray:
        """(n, M) outputs of each sequence's last step."""
        x, run = self.xs[0], self.run
        if run.batch is not x.batch:  # all sequences are what the longest begins with
            return run.output[x.batch.lengths - 1]
        return run.last_output.astype(x.rows.dtype, copy=False)

    def state(self, k: int) -> np.ndarray:
        """(n, width) state k after each sequence's last step."""
        if self.run.batch is not self.batch:
            return self.run.before(k, self.batch.lengths, np.zeros_like(self.batch.lengths))
        return self.run.last[k].reshape(self.batch.n, -1).astype(self.xs[0].rows.dtype, copy=False)


def _kernel_rule(keep: Keep, splits: bool) -> tuple[str | None, int]:
    """The rule of the kernels that can run a forward pass, None for NumPy; and how much they save.

    splits: whether the cell defines kernels that split values.
    """
    if isinstance(keep, Propagation):
        if keep.has_reference:
            return "deeplift", 2
        return NAMES.get(keep.code), 0
    if keep not in LEVELS or (keep == "parts" and not splits):
        return None, 0
    return "none", LEVELS[keep]


class Recurrent(Layer):
    """What one cell and Bidirectional share: cells that read the steps, each in its direction, and merged outputs."""

    recurrent: ClassVar[bool] = True  # it has states that go from step to step
    looks_up: ClassVar[bool] = True  # it takes words by their rows of the embedding

    directions: Any  # the name of each direction, its cell, and 1, or -1 where it reads mirrored

    def _kernels(self, keep: Keep) -> list[Kernel]:
        """Those of every cell; none for one that NumPy runs."""
        found = []
        for _, cell, _ in self.directions:
            rule, _ = _kernel_rule(keep, cell.KERNELS is not None)
            if rule is not None and cell.program is not None:
                found += cell.program.kernels.wanted(rule)
                if isinstance(keep, str):
                    found += cell._MORE_KERNELS.get(keep, ())
        return found

    def merged(self, sides: Sequence[np.ndarray]) -> np.ndarray:
        """The outputs of all directions as one."""
        return sides[0]

    def unmerged(
        self, R: np.ndarray, reads: Sequence[Read], name: str, how: Propagation, entry: Entry
    ) -> Sequence[np.ndarray]:
        """Backward through the merge of the outputs of this `name`: the message of each direction."""
        return [R]

    def sides(self, reads: Sequence[Read], name: str) -> list[np.ndarray]:
        """The outputs of each direction, in the order of the input."""
        out = []
        for (_, cell, way), read in zip(self.directions, reads, strict=True):
            if name == ":last":
                out.append(read.last)
            elif name:
                out.append(read.state(cell.state_of(name)))
            else:
                out.append(read.output if way > 0 else read.output[read.batch.flip])
        return out

    def run(self, xs: Sequence[Packed], keep: Keep, wanted: tuple[str, ...]) -> tuple[tuple[Packed, ...], Any]:
        """Outputs of every step, of each direction's last step, and last states; the trace is a Read per direction."""
        batch, reads, outputs = xs[0].batch, [], []
        for _, cell, way in self.directions:
            count, order = len(cell.statement.inputs), STRAIGHT if way > 0 else batch.flip
            reads.append(cell.read(xs[:count], order, keep, "" in wanted, [one.rows for one in xs[count:]]))
        for name in wanted:
            outputs.append(Packed(self.merged(self.sides(reads, name)), batch.ends if name else batch))
        return tuple(outputs), reads

    def give_back(
        self, ran: Ran, Rs: Mapping[str, np.ndarray], how: Propagation, entry: Entry
    ) -> list[np.ndarray | None]:
        """Relevance of the inputs, from all directions, and of start states that are inputs."""
        batch, directions, reads = ran.inputs[0].batch, self.directions, ran.trace
        xs = ran.inputs[: len(directions[0][1].statement.inputs)]
        R_xs = []
        for x in xs:  # words that were looked up receive one number each
            like = x.rows if x.words is None else np.empty((x.batch.R, 1), x.words.embedding.E.dtype)
            R_xs.append(np.zeros_like(like))
        arriving = {}
        for name, R in Rs.items():
            arriving[name] = self.unmerged(R, reads, name, how, entry)
        start: Sequence[np.ndarray] | np.ndarray = ()
        for k, (direction, cell, way) in enumerate(directions):
            R_last: list[np.ndarray | None] = [None] * len(cell.states)
            R_steps = arriving[""][k] if "" in arriving else None
            if R_steps is not None and way < 0:
                R_steps = R_steps[batch.flip]
            for name in arriving:
                R, state = arriving[name][k], cell.state_of(name)
                if state is not None:
                    before = R_last[state]
                    R_last[state] = R if before is None else before + R
                elif name:  # the last output, which is not a state
                    R_steps = np.zeros((batch.R, cell.units)) if R_steps is None else R_steps.copy()
                    R_steps[batch.last] += R
            reference = None if ran.reference is None else ran.reference.trace[k]
            sent = cell.back(reads[k], R_steps, R_last, how, R_xs, entry, reference)
            start = sent.start
            if entry.states is not None:
                # The first state, and the second where it is as wide.
                states = np.stack([one for one in sent.states[:2] if one.shape == sent.states[0].shape])
                if way < 0:
                    states = states[:, batch.flip]
                entry.states.append((direction, states))
        if len(ran.inputs) == len(xs):
            return [*R_xs]
        if how.times_input:
            entry.array[Entry.START] -= sum(one.sum(axis=1) for one in start)
        return [*R_xs, *start]

    def changed(
        self, ran: Ran, changes: Sequence[Change | None], wanted: tuple[str, ...], tol: float
    ) -> tuple[Change, ...]:
        """In each direction everything changes from the first changed step on, and nothing before."""
        change, reads = changes[0], ran.trace
        has_more = any(len(x.batch.first) > 2 for x in ran.inputs[1:])  # variants cannot start in the middle of these
        if change is None or has_more or any(one is not None for one in changes[1:]) or {*wanted} - {"", ":last"}:
            return super().changed(ran, changes, wanted, tol)
        T, out = ran.inputs[0].batch.lengths[change.owner], []
        for name in wanted:
            sides = []
            for (_, cell, way), read in zip(self.directions, reads, strict=True):
                side = cell.changed_outputs(read, change if way > 0 else change.mirrored(T), tol, not name)
                sides.append(side if way > 0 or name else side.mirrored(T))
            merged, rows = sides[0], [side.rows for side in sides]
            if not name and len(sides) > 1:
                # Where either direction has changed, with the sequence's rows for the other.
                merged, rows = covering(sides, [Packed(one, read.batch) for one in self.sides(reads, "")])  # type: ignore[misc]
            out.append(merged._replace(rows=self.merged(rows)))
        return tuple(out)

    def split(self, ran: Ran, parts: Sequence[Split], wanted: tuple[str, ...]) -> tuple[Split, ...]:
        """Contextual decomposition of each direction by the operations of its step; with several inputs, or a state
        wanted, that of any layer.
        """
        if len(parts) > 1 or {*wanted} - {"", ":last"}:
            return super().split(ran, parts, wanted)
        part, x = parts[0], ran.inputs[0]
        T = x.batch.lengths[part.owner]
        start, stop = T - part.stop, T - part.start
        phrases = {1: part, -1: part._replace(start=start, stop=stop, since=start * (part.beta is None))}
        out = []
        for name in wanted:
            sides = [
                cell.decomposed(read, phrases[way], way, name == "")
                for (_, cell, way), read in zip(self.directions, ran.trace, strict=True)
            ]
            beta = Packed(self.merged(sides), vectors(len(T)) if name else Batch(T))
            after = self.part_after(ran, parts, beta, np.zeros(self.outputs, x.rows.dtype))
            if not name and len(sides) == 1:
                after = after._replace(since=part.since)
            out.append(after)
        return tuple(out)

    def part_after(self, ran: Ran, parts: Sequence[Split], beta: Packed, delta: np.ndarray) -> Split:
        """The phrase is that of the series, not of a start state. A last state counts as the middle of its steps."""
        part, T = parts[0], ran.inputs[0].batch.lengths[parts[0].owner]
        if beta.batch.n == beta.batch.R:
            return part.of_vector((T - 1) // 2, beta, delta)
        return part._replace(beta=beta, delta=delta, since=np.zeros_like(part.since))

    def spread(self, trace: Sequence[Read], xs: Sequence[Packed]) -> Any:
        """Values of each step, once for every sequence that has it."""
        if len(xs) > 1 or len(trace) > 1:
            return NotImplemented
        run = trace[0].run.spread(xs[0])
        return run if run is NotImplemented else [Read(xs, trace[0].order, run)]

    def inside(self, ran: Ran) -> dict[str, np.ndarray]:
        """Gates and states of one sequence, of each direction: "i", or "forward/i" where there are two."""
        found = {}
        for (direction, cell, way), read in zip(self.directions, ran.trace, strict=True):
            path = f"{direction}/" if len(ran.trace) > 1 else ""
            for name, node in cell.shown_nodes.items():
                values = read.run.values[node].reshape(read.batch.R, -1)
                found[path + name] = values[::way].astype(cell.dtype)
        return found


class Cell(Recurrent):
    """A recurrent cell. A subclass writes `step`; everything else follows from it.

        class MinGRU(lrp.Cell):
            def step(s, x, h):
                z, n = s.gates("zn", x)
                z = s.sigmoid(z)
                return s.sum(s.product(s.complement(z), h), s.product(z, n))

    `states` are the names of the states. The other parameters of `step` are inputs: the series first, then for example
    a static input. `step` returns the output and the new states; where it returns as many values as there are states,
    the first state is the output. `axes` names the axes of states and inputs that are not vectors of H numbers, `start`
    the values of states before the first step where they are not 0. Further class attributes are settings, which the
    step reads as `s.activation` and the constructor takes.

    The constructor takes the trained arrays by the names in `step`, and `h0=` for a start value of state h. The
    operations are listed in `lrpnumpy/statement/trace.py`; `lrp.check_cell` tests a cell.
    """

    KERNELS: ClassVar[Any] = None  # a module with hand-written kernels of the same step
    _MORE_KERNELS: ClassVar[Mapping[str, Sequence[Kernel]]] = {}  # others, by the `keep` of the pass that needs them
    states: ClassVar[tuple[str, ...]] = ("h",)
    axes: ClassVar[Mapping[str, Axes]] = {}
    start: ClassVar[Mapping[str, float]] = {}
    causal: ClassVar[Any] = True  # it reads forward
    _codes: ClassVar[Any] = ()  # codes of activations for the kernels that the cell defines
    _decomposed: Any  # `decomposed` by the kernels that the cell defines

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        cls.is_custom = False  # the backward pass follows from the statement, so its ledger needs no check
        if "OUTPUTS" not in vars(cls):
            cls.OUTPUTS = ("", ":last", *(f":{name}" for name in cls.states))

    def __init__(self, **given: Any) -> None:
        kind = type(self).__name__
        names = self._settings()
        self._set(**{name: given.pop(name) for name in names if name in given})
        arrays = self.statement.arrays
        starts = [f"{name}0" for name in self.states]
        for name in given:
            if name not in arrays and name not in starts:
                known = ", ".join([*arrays, *starts, *names])
                near = close_to(name, [*arrays, *starts]) or "."
                raise LrpError(f"{kind}: unknown array {name}{near} It takes {known}.")
        self.statement.check(given)
        self._set(**{name: float_array(value, f"{kind}: {name}") for name, value in given.items() if value is not None})
        for node in self.statement.states:
            name, shape = f"{node.name}0", self._shape(node)  # which raises where arrays do not fit one another
            if given.get(name) is not None:
                float_array(given[name], f"{kind}: {name}", shape)

    @classmethod
    def _settings(cls) -> list[str]:
        """Names of the class attributes that are settings."""
        found: dict[str, None] = {}
        for base in reversed(cls.__mro__[: cls.__mro__.index(Cell)]):
            for name, value in vars(base).items():
                is_plain = isinstance(value, (str, bool, int, float, tuple))
                if is_plain and not name.startswith("_") and name not in NOT_SETTINGS:
                    found[name] = None
        return list(found)

    def _values(self) -> dict[str, Any]:
        names = [*self.statement.arrays, *(f"{name}0" for name in self.states), *self._settings()]
        return {name: getattr(self, name) for name in names if getattr(self, name, None) is not None}

    @classmethod
    def field_names(cls) -> list[str]:
        """The names that the constructor takes."""
        if hasattr(cls, "__dataclass_fields__"):
            return super().field_names()
        return [*cls.traced().arrays, *(f"{name}0" for name in cls.states), *cls._settings()]

    def twin(self) -> Any:
        """Another cell with the same arrays, of which nothing has been computed yet."""
        return type(self)(**self._values())

    # -- the statement and its arrays ---------------------------------------------------------------------------------

    @staticmethod
    def step(s: Any, *values: Any) -> Any:
        """The output and the states after one step, from the input and the states before it."""
        s._fail("a cell must define step(s, x, h)")

    @cached_property
    def statement(self) -> Statement:
        """The operations of `step`."""
        return trace(self, type(self).step, self.states, self.axes)

    @classmethod
    def traced(cls, **settings: Any) -> Statement:
        """The operations of the step of a class with these `settings`, without arrays."""
        cell = object.__new__(cls)
        cell._set(**settings)
        return cell.statement

    @cached_property
    def weights(self) -> dict[str, np.ndarray]:
        """The trained arrays by their names in `step`."""
        return {name: getattr(self, name) for name in self.statement.arrays}

    @cached_property
    def lengths(self) -> dict[str, int]:
        """The size of every axis."""
        return self.statement.sizes(self.weights)

    def _shape(self, node: Operation) -> tuple[int, ...]:
        return tuple(self.lengths[axis] for axis in node.axes)

    def _width(self, node: Operation) -> int:
        return math.prod(self._shape(node))

    @cached_property
    def _weights64(self) -> dict[str, np.ndarray]:
        return {name: array.astype(np.float64) for name, array in self.weights.items()}

    @cached_property
    def started(self) -> list[np.ndarray]:
        """(1, *axes) the states before the first step."""
        out = []
        for node in self.statement.states:
            value = getattr(self, f"{node.name}0", None)
            if value is None:
                value = np.full(self._shape(node), self.start.get(node.name, 0.0))
            out.append(np.asarray(value, self.dtype)[None])
        return out

    @cached_property
    def dtype(self) -> np.dtype:
        """float32 or float64."""
        return next(iter(self.weights.values())).dtype

    @cached_property
    def inputs(self) -> int:
        """Width D of the first input."""
        return self._width(self.statement.inputs[0])

    @cached_property
    def units(self) -> int:
        """Width of the output."""
        return self._width(self.statement.output)

    @property
    def outputs(self) -> int:
        """Width of the output."""
        return self.units

    def identity(self) -> tuple[str, Any]:
        """Of a custom cell its operations, whatever its class is called."""
        if type(self).__module__.startswith("lrpnumpy.") and not isinstance(self, StoredCell):
            return super().identity()
        return "Cell", self.statement.to_data()

    def output_width(self, name: str, width: int) -> int:
        """Width of an output: of a state, its own."""
        k = self.state_of(name)
        return width if k is None else self._width(self.statement.states[k])

    @property
    def directions(self) -> list[tuple[str, Cell, int]]:
        """It reads forward."""
        return [("forward", self, 1)]

    def state_of(self, name: str) -> int | None:
        """Number of the last state that an output is; None for the outputs of the steps, and for a last output that is
        not a state.
        """
        if name == ":last" and self.statement.is_state_output:
            return 0
        if name in ("", ":last"):
            return None
        return self.OUTPUTS.index(name) - len(self.OUTPUTS) + len(self.states)

    def sizes(self, x: Size, *others: Size) -> Size:
        """Inputs in the order of `step`, then, where they are given, the start states as one vector per sequence."""
        nodes = list(self.statement.inputs)
        if len(others) + 1 > len(nodes):
            nodes += self.statement.states
        if len(others) + 1 != len(nodes):
            inputs = ", ".join(node.name for node in self.statement.inputs)
            both = f"({inputs}), or ({inputs}, {', '.join(self.states)}) with all start states"
            raise LrpError(f"inputs must be {both}, got {len(others) + 1} inputs.")
        for node, size in zip(nodes, (x, *others), strict=True):
            width, is_state = self._width(node), node.op == "state"
            if size.width != width or (is_state and size.steps):
                what = f"one vector of {width} numbers per sequence" if is_state else f"{width} features"
                got = f"{size.width}{' at every step' * (is_state and size.steps)}"
                raise LrpError(f"{node.name} must have {what}, got {got} from the {size.source}.")
        return x._replace(width=self.units)

    # -- one direction ------------------------------------------------------------------------------------------------

    def read(self, xs: Sequence[Packed], order: Any, keep: Keep, every: bool, start: Sequence[np.ndarray] = ()) -> Read:
        """Forward. `start` are start states for each sequence; without them they are those of the cell.

        keep: what a later pass needs. every: whether the outputs of all steps are wanted.
        """
        rule, level = _kernel_rule(keep, self.KERNELS is not None)
        x, seen, path, program = xs[0], order, current(), self.program
        if rule is None or program is None:
            path = NUMPY
        elif path is None:
            path = path_of(program.kernels.wanted(rule), self.dtype, self._numbers(x))
        if path == NUMPY:
            with large_call() if self._numbers(x) > SMALL else nullcontext():
                return Read(xs, order, self._interpreted(xs, order, start))
        assert rule is not None and program is not None
        begin = np.stack([one.astype(self.dtype, copy=False) for one in start]) if len(start) else self._started
        eps = keep.eps if isinstance(keep, Propagation) else 0.0
        if rule == "deeplift" and keep.is_reference and not len(start):  # type: ignore[union-attr]
            longest = longest_of(x, order)
            if longest is not None:
                x, seen, every = longest, STRAIGHT, True
        run = program.run(program.rows(x, seen), x.batch, rule, eps, level, every, begin)
        return Read(xs, order, run)

    def _numbers(self, x: Packed) -> int:
        """How many numbers a pass over `x` reads and writes, about."""
        return x.batch.R * (self.inputs + self.units)

    @cached_property
    def program(self) -> CellProgram | None:
        """The cell's kernels with its arrays; None where NumPy runs it."""
        if uncovered(self.statement):
            return None
        return CellProgram(self.statement, self.weights, self.KERNELS, self._codes)

    @cached_property
    def _started(self) -> np.ndarray:
        started = np.stack(self.started)
        started.setflags(write=False)
        return started

    def _interpreted(self, xs: Sequence[Packed], order: Any, start: Sequence[np.ndarray] = ()) -> InterpretedRun:
        batch, inputs = xs[0].batch, []
        for x in xs:
            if x.batch.R not in (batch.R, batch.n):
                raise LrpError(f"inputs must have the same steps, got {batch.R} and {x.batch.R} rows")
            rows = order if x.batch.R == batch.R else batch.owner  # one vector per sequence is there at every step
            inputs.append(x.vectors[rows].astype(np.float64, copy=False))
        states = [
            one.reshape(len(one), *self._shape(node)).astype(np.float64, copy=False)
            for one, node in zip(start or self.started, self.statement.states, strict=True)
        ]
        return InterpretedRun(self.statement, self._weights64, inputs, batch, states, self.lengths)

    def back(
        self,
        read: Read,
        R_output: np.ndarray | None,
        R_last: Sequence[np.ndarray | None],
        how: Propagation,
        R_xs: Sequence[np.ndarray],
        entry: Entry,
        reference: Read | None = None,
    ) -> Arrived:
        """Backward: relevance of the inputs is added to R_xs; that of the states is returned too, (n or R, width).

        R_output: (R, M) incoming messages of the outputs of every step, in reading order.
        R_last: incoming messages of the last states.
        """
        batch, run = read.xs[0].batch, read.run
        other: Any = None if reference is None else reference.run
        if isinstance(run, CompiledRun):
            start, arrived_at = run.back(R_output, R_last, entry, other, R_xs[0])
            return Arrived(R_xs, start, arrived_at)
        states = [
            None if one is None else one.reshape(batch.n, *self._shape(node))
            for one, node in zip(R_last, self.statement.states, strict=True)
        ]
        arrived = back(run, how, R_output, states, entry, other, entry.states is not None)
        for R_x, message, x in zip(R_xs, arrived.inputs, read.xs, strict=True):
            if x.words is not None:
                if not how.times_input:
                    message = message * run.inputs[0]
                R_x[read.order, 0] += message.sum(axis=1)
            elif x.batch.R != batch.R:
                R_x += batch.sums(message)
            else:
                R_x[read.order] += message
            if how.times_input:  # what the inputs have received by now, from both directions
                entry.see(R_x, x.batch)
        dtype = self.dtype
        return Arrived(
            R_xs,
            [one.reshape(batch.n, -1).astype(dtype) for one in arrived.start],
            [one.reshape(batch.R, -1).astype(dtype) for one in arrived.states],
        )

    def decomposed(self, read: Read, part: Split, way: int, every: bool) -> np.ndarray:
        """beta of the last outputs (V, M), or of every step in the rows of a batch of variants.

        `way` is -1 where the cell reads mirrored; the phrase is then that of the mirrored sequence.
        """
        if isinstance(read.run, CompiledRun):
            return self._decomposed(read, part, way, every)
        variants = Batch(read.batch.lengths[part.owner])
        mirror = variants.flip if way < 0 else slice(None)  # rows in the order in which the cell reads
        given = None if part.beta is None else part.beta.rows[mirror].astype(np.float64, copy=False)
        phrases = Phrases(part.owner, part.start, part.stop, part.since, given, part.delta.astype(np.float64))
        rows = split(read.run, phrases, variants, every).astype(self.dtype, copy=False)
        return rows[mirror] if every else rows

    def changed_outputs(self, read: Read, change: Change, tol: float, every: bool) -> Change:
        """The change of all outputs, from the first changed step until the state is back; or of the last output, one
        new vector per variant.
        """
        rows, done = self.varied(read, change, tol, every)
        owner = change.owner
        if not every:
            zero, one = np.zeros_like(owner), np.ones_like(owner)
            return Change(owner, zero, one, one, np.arange(len(owner)), 1, rows)
        steps = change.size + read.batch.lengths[owner] - change.hi
        size = change.size + done - change.hi
        return change._replace(hi=done, size=size, own=np.cumsum(steps) - steps, stride=1, rows=rows, picked=None)

    def varied(self, read: Read, change: Change, tol: float, every: bool) -> tuple[np.ndarray, np.ndarray]:
        """Outputs of the variants of an occlusion: the last ones (V, M), or all from step lo on, one after another.

        And the step of its sequence from which on each variant is as its sequence. Each variant starts from the state
        before its first changed step, and the rest of it is one sequence of a batch.
        """
        batch, x = read.batch, read.xs[0]
        T = batch.lengths[change.owner]
        steps = change.size + T - change.hi
        out = np.zeros((int(steps.sum()) if every else len(steps), self.units), self.dtype)
        begins = np.cumsum(steps) - steps
        if not every:
            ended = np.flatnonzero(steps == 0)  # nothing follows what was left out: the output before it is the last
            out[ended] = self._output_before(read, change.lo[ended], change.owner[ended])
        some = np.flatnonzero(steps)
        if len(some):
            order, lengths = longest_first(steps[some])
            some = some if order is None else some[order]
            rest = Batch(lengths)
            v = some[rest.owner]
            t = change.hi[v] + rest.step - change.size[v]  # step of the sequence, where it has its own input there
            is_own = rest.step < change.size[v]
            where = batch.first[np.where(is_own, 0, t)] + change.owner[v]
            own = change.own[v] + change.stride * np.minimum(rest.step, np.maximum(change.size[v] - 1, 0))
            if change.picked is not None:
                own = change.picked[own]
            start = [read.run.before(k, change.lo[some], change.owner[some]) for k in range(len(self.states))]
            if isinstance(read.run, CompiledRun):
                ids = np.where(is_own, batch.R + own, where)
                run: Any = read.run.varied(change.rows, ids, rest, np.stack(start), every)
            else:
                seen = x.vectors[read.order][where]
                seen[is_own] = change.rows[own[is_own]]
                others = [Packed(one.rows[change.owner[some]], vectors(rest.n)) for one in read.xs[1:]]
                run = self._interpreted([Packed(seen, rest), *others], STRAIGHT, start)
            if every:
                out[begins[v] + rest.step] = run.output
            else:
                out[some] = run.last_output
        return out, T

    def _output_before(self, read: Read, lo: np.ndarray, owner: np.ndarray) -> np.ndarray:
        """(V, M) outputs of the step before step `lo` of the sequences `owner`."""
        if self.statement.is_state_output:
            return read.run.before(0, lo, owner)
        return read.output[read.batch.first[np.maximum(lo - 1, 0)] + owner] * (lo > 0)[:, None]

    @property
    def shown_nodes(self) -> dict[str, Operation]:
        """The gates by name, and then the states, the first one last."""
        states = zip(reversed(self.states), reversed(self.statement.after), strict=True)
        return {**self.statement.gates, **dict(states)}

    def described(self) -> str:
        """For `inspect`: what is a gate and what a signal in each product, and how the cell runs."""
        why = uncovered(self.statement)
        by_numpy = f", run by NumPy: {why}" if why else ""
        first = f"{self.statement.kind}, {self.inputs} to {self.outputs}{by_numpy}"
        return "\n".join([first, *(f"  {text}" for text in self.statement.products())])


class StoredCell(Cell):
    """A custom cell as a file holds it: its operations as data, without its class."""

    def __init__(self, statement: Mapping[str, Any], **given: Any) -> None:
        stated = from_data(statement)
        self._set(statement=stated, states=tuple(node.name for node in stated.states))
        self._set(OUTPUTS=("", ":last", *(f":{name}" for name in self.states)))
        super().__init__(**given)

    def _values(self) -> dict[str, Any]:
        return {"statement": self.statement.to_data(), **super()._values()}
