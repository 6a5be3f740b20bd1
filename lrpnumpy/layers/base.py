"""The base of all layers: a frozen record of arrays and settings, with a forward and a backward pass.

A new layer is one class. It declares its input and output sizes, runs forward, and propagates messages backward:

    @dataclass(frozen=True, eq=False, repr=False)
    class Scale(Layer):
        s: np.ndarray

        def sizes(self, x):
            return x

        def forward(self, xs, keep):
            return xs[0]._replace(rows=xs[0].rows * self.s), None

        def backward(self, ran, R, how, entry):
            return back_through_sum(how, R, ran.outputs[0], [Term(ran.inputs[0].rows, self.s)], entry)

Occlusion and contextual decomposition work with any layer: `changed` and `split` only run it forward. A layer that has
something faster, or a special definition, overrides them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from lrpnumpy import meant
from lrpnumpy.checks import LrpError, float_array
from lrpnumpy.kernels.compile import Kernel
from lrpnumpy.packed import Batch, Change, Packed, Split, covering, pasted, replaced, vectors
from lrpnumpy.rules.propagation import Entry, Propagation

# What a forward pass saves: only the outputs (None); the states that variants start from; what contextual decomposition
# splits; every value; or what the backward pass of one propagation needs.
Keep = Literal["states", "parts", "values"] | Propagation | None
ABSENT: Any = None  # default of an array that the record fills in


class Record:
    """Frozen data: fields are set when they are checked; after that arrays are read-only and contiguous."""

    if TYPE_CHECKING:  # every record is a dataclass, by the decorator of its class
        __dataclass_fields__: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "__post_init__" in vars(cls):  # report a field of the wrong type
            cls.__post_init__ = meant.record(cls.__post_init__, cls)  # type: ignore[attr-defined]

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def field_names(cls) -> list[str]:
        """The names that the constructor takes."""
        return [one.name for one in fields(cls)]

    def _values(self) -> dict[str, Any]:
        if is_dataclass(self):
            return {one.name: getattr(self, one.name) for one in fields(self)}
        return {}

    def __repr__(self) -> str:
        shown = []
        for name, value in self._values().items():
            if isinstance(value, np.ndarray):
                shown.append(f"{name}={value.dtype}{list(value.shape)}")
            elif isinstance(value, tuple) and len(value) > 8:
                shown.append(f"{name}=({len(value)} names)")
            elif value is not None and not (isinstance(value, Mapping) and not value):
                shown.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its values: the constructor makes arrays read-only and contiguous again."""
        plain = {name: dict(v) if isinstance(v, MappingProxyType) else v for name, v in self._values().items()}
        return _made, (type(self), plain)

    def settings(self) -> dict[str, Any]:
        """The fields that are neither arrays nor records."""
        return {name: v for name, v in self._values().items() if not isinstance(v, (np.ndarray, Record))}

    def identity(self) -> tuple[str, Any]:
        """The kind of record and its settings: with the arrays, what decides what it computes."""
        return type(self).__name__, self.settings()

    def arrays(self) -> Iterator[tuple[str, np.ndarray]]:
        """Arrays by field name."""
        return ((name, value) for name, value in self._values().items() if isinstance(value, np.ndarray))

    def parts(self) -> Iterator[tuple[str, Record]]:
        """The records inside this one by field name: the directions of a Bidirectional."""
        return ((name, value) for name, value in self._values().items() if isinstance(value, Record))

    def all_arrays(self) -> Iterator[tuple[str, np.ndarray]]:
        """Arrays of this record and of those inside it, by path: `forward/U`."""
        yield from self.arrays()
        for name, part in self.parts():
            yield from ((f"{name}/{path}", array) for path, array in part.all_arrays())

    def twin(self) -> Any:
        """Another record with the same arrays, of which nothing has been computed yet."""
        out = object.__new__(type(self))
        vars(out).update({name: v.twin() if isinstance(v, Record) else v for name, v in self._values().items()})
        return out

    def astype(self, dtype: Any) -> Any:
        """The same record with its arrays in `dtype`, float32 or float64; itself where they are already."""
        kind = type(self).__name__
        change: dict[str, Any] = {
            name: float_array(a, f"{kind}: {name}", dtype=dtype) for name, a in self.arrays() if a.dtype != dtype
        }
        change |= {name: new for name, old in self.parts() if (new := old.astype(dtype)) is not old}
        return type(self)(**{**self._values(), **change}) if change else self


def _made(kind: type, values: dict[str, Any]) -> Any:
    return kind(**values)


class Size(NamedTuple):
    """What flows along an edge: rows of `width` numbers, one per step or one per sequence."""

    width: int
    steps: bool  # whether there is a row per step
    source: str = "input"  # as an error names it: "layer 0 (LSTM)"


class Ran(NamedTuple):
    """What a layer saw and did in a forward pass."""

    inputs: Sequence[Packed]  # its inputs
    outputs: tuple[Packed, ...]  # its outputs that are wanted
    trace: Any  # what else its backward pass needs
    reference: Ran | None = None  # the same of the reference's forward pass, for a propagation that has one

    def both(self, values: Callable[[Ran], tuple[Any, ...]]) -> tuple[Any, ...]:
        """`values` of this forward pass and, after them, of the reference's: what `Propagation.product` and the like
        take. Without a reference they are of this pass alone.
        """
        if self.reference is None:
            return values(self)
        return (*values(self), *values(self.reference))


def missing(layer: Any, name: str) -> TypeError:
    """The error of a layer that does not define a function that its kind needs."""
    return TypeError(f"{type(layer).__name__} must define {name}; lrpnumpy/layers/base.py shows a complete layer.")


class Layer(Record):
    """One node of a network."""

    inputs: Any  # length of an input vector, of layers that know it
    outputs: Any  # that of an output vector
    OUTPUTS: ClassVar[tuple[str, ...]] = ("",)  # names of its outputs; "" is the main one
    by_step: ClassVar[bool] = False  # each output row depends on the input row of the same step alone
    recurrent: ClassVar[bool] = False  # it has states that go from step to step
    states: ClassVar[tuple[str, ...]] = ()  # their names
    looks_up: ClassVar[bool] = False  # it takes words by their rows of the embedding
    is_custom: ClassVar[bool] = False  # its class is not one of this package, so its ledger is checked
    version: ClassVar[int] = 1  # of a custom layer: a file remembers it, and another version is rejected

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        cls.is_custom = not cls.__module__.startswith("lrpnumpy.")

    def identity(self) -> tuple[str, Any]:
        """The kind of layer and its settings; of a custom one also its version."""
        kind, settings = super().identity()
        if self.is_custom:
            settings = {**settings, "version": self.version}
        return kind, settings

    @property
    def causal(self) -> bool:
        """Whether each output row depends on the input rows up to the same step alone."""
        return self.by_step

    def sizes(self, *inputs: Any, **named: Any) -> Size:
        """Size of the main output for inputs of these sizes, `inputs` or `named`; or an LrpError."""
        raise missing(self, "sizes")

    def output_width(self, name: str, width: int) -> int:
        """Width of the output `name`, where the main one has `width`."""
        return width

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, Any]:
        """The output for the inputs `xs`, and what the backward pass needs besides both.

        keep: what a later pass needs: that of a propagation, "states", "parts", "values", or None.
        """
        raise missing(self, "forward")

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> Sequence[np.ndarray | None]:
        """From the message `R` that arrives at the output to a message for each input.

        ran: inputs, outputs and trace of the forward pass.
        how: the propagation, with `gain`, `product` and `slope`.
        entry: records what biases and stabilizers absorb, for the ledger.
        """
        raise missing(self, "backward")

    def least(self, steps: int) -> int:
        """How many steps the inputs must have for the output to have `steps`, of a layer from steps to steps."""
        return steps

    def returned(self, steps: int, width: int) -> int:
        """How many steps the output has, at least 1, if the input has `steps` steps of `width` numbers."""
        return steps

    @property
    def reads(self) -> int:
        """The number of input rows that one output row is computed from."""
        return 1

    def _kernels(self, keep: Keep) -> Iterable[Kernel]:
        """The kernels that passes with this `keep` run, besides those of sums by LRP."""
        return ()

    # What passes.py calls. A layer with one output only needs the functions above.

    def run(self, xs: Sequence[Packed], keep: Keep, wanted: tuple[str, ...]) -> tuple[tuple[Packed, ...], Any]:
        """The outputs whose names are `wanted`, and the trace; `xs` and `keep` as in `forward`."""
        y, trace = self.forward(xs, keep)
        rows = np.ascontiguousarray(y.rows, xs[0].rows.dtype)  # whatever type a custom layer returns
        return (y if rows is y.rows else y._replace(rows=rows),), trace

    def give_back(
        self, ran: Ran, Rs: Mapping[str, np.ndarray], how: Propagation, entry: Entry
    ) -> Sequence[np.ndarray | None]:
        """From the messages `Rs` that arrive at the outputs, by name, to one for each input.

        ran, how, entry: as in `backward`.
        """
        R, parts = Rs[""], []
        for part in self.backward(ran, R, how, entry):
            parts.append(part if part is None else np.ascontiguousarray(part, R.dtype))
        return parts

    def changed(
        self, ran: Ran, changes: Sequence[Change | None], wanted: tuple[str, ...], tol: float
    ) -> tuple[Change, ...]:
        """What occlusion changes in the `wanted` outputs: the variants are written out and run.

        ran: inputs, outputs and trace of the forward pass.
        changes: what changes in each input; None where nothing does.
        tol: how far a state may be from the unchanged one to count as the same.
        """
        change = next(one for one in changes if one is not None)
        if self.by_step:
            found = (change, [change.rows]) if len(changes) == 1 else covering(changes, ran.inputs)
            if found is not None:
                change, rows = found
                if len(change.rows):
                    one_by_one = vectors(len(change.rows))
                    (y,), _ = self.run([Packed(one, one_by_one) for one in rows], None, wanted)
                    return (change._replace(rows=y.rows),)
                return (change._replace(rows=ran.outputs[0].rows[:0]),)
        pieces = [(self.run(xs, None, wanted)[0], piece) for xs, piece in pasted(ran.inputs, changes)]
        return tuple(
            replaced([(ys[k], piece) for ys, piece in pieces], change.owner, before.batch)
            for k, before in enumerate(ran.outputs)
        )

    def split(self, ran: Ran, parts: Sequence[Split], wanted: tuple[str, ...]) -> tuple[Split, ...]:
        """Contextual decomposition of any layer, which is only run forward. With f the layer and x its input,

            beta_y = 1/2 [f(beta + delta) - f(delta) + f(x) - f(x - beta)],   delta_y = f(delta).

        ran: inputs, outputs and trace of the forward pass.
        parts: how each input is divided.
        wanted: names of the outputs to divide.
        """
        betas = [part.written(x) for part, x in zip(parts, ran.inputs, strict=True)]
        trues = [part.true(x, beta.batch) for part, x, beta in zip(parts, ran.inputs, betas, strict=True)]

        def f(rows: Sequence[np.ndarray]) -> tuple[Packed, ...]:
            xs = [Packed(np.ascontiguousarray(one), beta.batch) for one, beta in zip(rows, betas, strict=True)]
            return self.run(xs, None, wanted)[0]

        def difference(more: tuple[Packed, ...], less: tuple[Packed, ...]) -> list[np.ndarray]:
            return [a.rows - b.rows for a, b in zip(more, less, strict=True)]

        alone = [np.broadcast_to(part.delta, beta.rows.shape) for part, beta in zip(parts, betas, strict=True)]
        biases = f(alone)
        up = difference(f([beta.rows + one for beta, one in zip(betas, alone, strict=True)]), biases)
        down = difference(f(trues), f([x - beta.rows for x, beta in zip(trues, betas, strict=True)]))
        return tuple(
            self.part_after(ran, parts, Packed((a + b) * a.dtype.type(0.5), bias.batch), bias.rows[0])
            for a, b, bias in zip(up, down, biases, strict=True)
        )

    def part_after(self, ran: Ran, parts: Sequence[Split], beta: Packed, delta: np.ndarray) -> Split:
        """The division of the output. Here the output has the steps of the inputs: a step is inside the phrase where it
        is in any input. A layer that changes the steps overrides this.

        ran, parts: as in `split`.
        beta, delta: what the output is divided into.
        """
        start, stop, since = parts[0].start, parts[0].stop, parts[0].since
        for other in parts[1:]:
            nowhere, no_other = start == stop, other.start == other.stop
            start = np.where(nowhere, other.start, np.where(no_other, start, np.minimum(start, other.start)))
            stop = np.where(nowhere, other.stop, np.where(no_other, stop, np.maximum(stop, other.stop)))
            since = np.minimum(since, other.since)
        return Split(beta, delta, parts[0].owner, start, stop, since if self.by_step else np.zeros_like(since))

    def spread(self, trace: Any, xs: Sequence[Packed]) -> Any:
        """The `trace` of one sequence as that of a batch `xs` of its beginnings: each row is that of the same step.

        NotImplemented if it is not known; then the batch is run.
        """
        if not self.by_step or not (trace is None or isinstance(trace, np.ndarray)):
            return NotImplemented
        return None if trace is None else trace[xs[0].batch.step]

    # What an Affine layer s x + t beside this one needs to become part of it, see folding.py.

    def with_affine_before(self, s: np.ndarray, t: np.ndarray) -> Any:
        """The layer that returns for its first input x what this one returns for `s` x + `t`; None if there is none."""
        return None

    def with_affine_after(self, s: np.ndarray, t: np.ndarray) -> Any:
        """The layer that returns `s` y + `t` if this one returns y; None if there is none."""
        return None

    def inside(self, ran: Ran) -> dict[str, np.ndarray]:
        """Values of one sequence inside the layer by name, for `lrp.trace`: gates and states.

        ran: inputs, outputs and trace of its forward pass.
        """
        return {}

    def described(self) -> str:
        """One line for `inspect`: sizes, activation, and the settings that are not the defaults."""
        said = [type(self).__name__]
        if hasattr(type(self), "inputs") and hasattr(self, "outputs"):
            said.append(f"{self.inputs} to {self.outputs}")
        defaults = {one.name: one.default for one in fields(self)} if is_dataclass(self) else {}
        for name, value in self.settings().items():
            if name == "activation":
                said.append(str(value))
            elif value != defaults.get(name):
                said.append(f"{name} {value}")
        return ", ".join(said)


def takes(x: Size, width: int, array: str) -> None:
    """Raise unless a layer whose `array` has this number of columns can take this input."""
    if x.width != width:
        raise LrpError(f"{array} must take the {x.width} outputs of the {x.source}, got {width} columns.")


def optional(value: Any, where: str, shape: tuple[int, ...], dtype: np.dtype, default: float = 0) -> np.ndarray:
    """An array of this shape that may be left out; then it is the `default` everywhere."""
    if value is None:
        value = np.full(shape, default, dtype)
    return float_array(value, where, shape)


def needs_steps(x: Size) -> None:
    """Raise unless an input has a row per step."""
    if not x.steps:
        raise LrpError(f"inputs must have steps, got one vector of {x.width} numbers of the {x.source}.")


def same_steps(layer: Layer, xs: Sequence[Packed]) -> Batch:
    """The steps that all inputs of a layer have, or an error."""
    lengths = xs[0].batch.lengths
    for x in xs[1:]:
        if x.batch is not xs[0].batch and (x.batch.lengths != lengths).any():
            k = int(np.argmax(x.batch.lengths != lengths))
            got = f"{lengths[k]} and {x.batch.lengths[k]}"
            raise LrpError(f"{type(layer).__name__}: inputs must have the same number of steps, got {got}.")
    return xs[0].batch
