"""A value of a graph of operations as what it is in a Model: which numbers of which nodes, and what its axes mean.

A tensor has axes in any order, (T, N, F) or (N, F, T), cut and joined at will. A Model's values are rows of
features, one for each step or one for each sequence. A `NetworkValue` maps one to the other: the names of the
Model's values, the meaning of each axis, and for every place along the axes of features which feature is there. So
moving axes, taking some features and joining values again change nothing in the network; `NetworkBuild.rows` adds
layers only where it must.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np

from lrpnumpy import layers as lrp
from lrpnumpy.checks import UserCodeError
from lrpnumpy.files.build.constants import Spread, Unknown, array_of
from lrpnumpy.files.build.sizes import Dim
from lrpnumpy.files.safe import Source
from lrpnumpy.inputs import Input
from lrpnumpy.layers.windows import WindowSteps
from lrpnumpy.meant import called
from lrpnumpy.model import Model, Node

_RUNS = 32  # parts that features are put together from as slices; more are a matrix of zeros and ones
_BLOCKS = 10**6  # numbers of a matrix that is made to act on each of several rows


SERIES, VECTOR = ("N", "T", "F"), ("N", "F")  # axes of a vector for each step, and of one for each sequence


def exchanged(items: tuple[Any, ...], place: int, *new: Any) -> tuple[Any, ...]:
    """Axes or sizes with others in place of one."""
    return (*items[:place], *new, *items[place + 1 :])


class NotSupported(Exception):
    """A node that does something a Model does not have, if the axes mean what is tried at the moment."""


class Baked(NotSupported):
    """A size that inputs leave open, by name, and the number that the graph needs there, behind the reason."""


@dataclass(frozen=True, eq=False)
class NetworkValue:
    """A value of the network.

    `axes` are "N" for the batch, "T" for the steps, "F" for features, "NT" and "TN" for batch and steps as one axis.
    `index` has an axis for each "F" and holds the feature of `values`, concatenated, at each place. Without
    `values` it is something that no layer outputs, but that may become part of one; `part_of` is then that layer.
    """

    values: tuple[str, ...]
    axes: tuple[str, ...]
    index: np.ndarray
    steps: int | Dim = 1
    pad: tuple[int, int] = (0, 0)  # steps of zeros around, which only a convolution can take
    probability: str = ""  # softmax, log_softmax or sigmoid: not applied yet, and at the very end taken off
    part_of: tuple[Any, ...] = ()
    mask: str | None = None  # the input whose padding is skipped where this value is used

    @property
    def has_steps(self) -> bool:
        """Whether there is a row for each step."""
        return any("T" in axis for axis in self.axes)

    @property
    def width(self) -> int:
        """How many features it has."""
        return self.index.size

    @property
    def length(self) -> int | None:
        """The number of steps, where the file fixes it."""
        return self.steps if self.has_steps and isinstance(self.steps, int) else None

    def feature_axis(self, axis: int) -> int:
        """Which axis of `index` an axis of features is."""
        return self.axes[:axis].count("F")

    def taking(self, axis: int, kept: Any) -> NetworkValue:
        """The same with some places of an axis of features: a number, a list, a slice."""
        index, axes = self.index[(slice(None),) * self.feature_axis(axis) + (kept,)], self.axes
        if index.ndim < self.index.ndim:
            axes = exchanged(axes, axis)
        return replace(self, axes=axes, index=index)

    def moved(self, order: Sequence[int]) -> NetworkValue:
        """The axes in another order."""
        features = [self.feature_axis(k) for k in order if self.axes[k] == "F"]
        return replace(self, axes=tuple(self.axes[k] for k in order), index=self.index.transpose(features))

    def widened(self, places: Sequence[int]) -> NetworkValue:
        """With axes of length 1, which then are at these places."""
        axes, index = list(self.axes), self.index
        for place in sorted(places):
            axes.insert(place, "F")
            index = np.expand_dims(index, axes[:place].count("F"))
        return replace(self, axes=tuple(axes), index=index)


@dataclass
class NetworkBuild:
    """A network while its layers are added one by one."""

    source: Source
    batch: int | Dim = field(default_factory=lambda: Dim.named("N"))
    ports: dict[str, Input] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    sizes: dict[str, lrp.Size] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)  # how often a name was asked for
    label: str = ""  # what nodes are called; without it by their layers
    applied: dict[tuple[str, str], str] = field(default_factory=dict)  # values after a layer without arrays
    stepped: dict[Any, str] = field(default_factory=dict)  # a value that has as many steps
    fixed: dict[str, int] = field(default_factory=dict)  # sizes that the graph has though inputs leave them open
    notes: dict[str, None] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)  # values of the graph that something takes
    where: str = ""  # the node at hand, for errors
    numbers: int = 0  # of all values, and of the arrays that were made for them

    def room(self, *shape: int) -> None:
        """Count an array or a value of this shape, before it is made."""
        self.numbers += math.prod(shape)
        self.source.budget.numbers(self.where, self.numbers)

    def refuse(self, reason: str) -> NoReturn:
        """Give up on the node at hand."""
        raise NotSupported(self.where, reason)

    def refuse_if(self, condition: Any, reason: str) -> None:
        """Give up on the node at hand where this holds."""
        if condition:
            self.refuse(reason)

    def note(self, text: str) -> None:
        """Remember, once, what was assumed and why."""
        self.notes[text] = None

    def warn(self, text: str) -> None:
        """Remember, once, an assumption that may be wrong."""
        self.warnings[text] = None

    def constant(self, value: Any, what: str) -> np.ndarray:
        """An array, or a refusal that names what must be constant."""
        if isinstance(value, Unknown):
            self.refuse(f"must have {what} as constants; {value.where} {value.reason}")
        self.refuse_if(not isinstance(value, (np.ndarray, Spread)), f"must have {what} as constants")
        return np.asarray(array_of(value))

    def given(self, values: Sequence[Any], place: int, what: str) -> np.ndarray | None:
        """The same of an input that a node may leave out: then None."""
        if len(values) <= place or values[place] is None:
            return None
        return self.constant(values[place], what)

    def flow(self, value: Any) -> NetworkValue:
        """A value of the network, or a refusal."""
        self.refuse_if(not isinstance(value, NetworkValue), "must take a value of the network as its first input")
        return value

    def axis(self, flow: NetworkValue, number: Any) -> int:
        """An axis counted from 0."""
        number = int(number)
        if not -len(flow.axes) <= number < len(flow.axes):
            self.refuse(f"is about axis {number} of a value with {len(flow.axes)} axes")
        return number % len(flow.axes)

    # ---------------------------------------------------------------------------------------------- what comes in

    def port(self, name: str, axes: str, dims: Sequence[int | Dim]) -> NetworkValue:
        """An input of the graph whose axes mean this."""
        key = self.fresh(name.removesuffix(":0") or "x")
        shape = [n for axis, n in zip(axes, dims, strict=True) if axis == "F"]
        known = [n for n in shape if not isinstance(n, Dim)]
        self.where = name[:80]
        if known != shape and len(axes) > 3:
            self.refuse(f"has {len(axes)} axes, as images have, which are not supported")
        self.refuse_if(known != shape, "must have a known number of features; export the model with it")
        self.room(*known)
        index = np.arange(math.prod(known)).reshape(known)
        steps = dict(zip(axes, dims, strict=True)).get("T", 1)
        self.sizes[key] = lrp.Size(index.size, "T" in axes)
        self.ports[key] = Input(index.size, steps="T" in axes)
        self.stepped.setdefault(steps, key)
        return NetworkValue((key,), tuple(axes), index, steps)

    def embedded(self, table: np.ndarray, flow: NetworkValue) -> NetworkValue:
        """Token ids of an input as their vectors."""
        (name,) = flow.values or ("",)
        if name not in self.ports or flow.index.size != 1 or table.ndim != 2:
            self.refuse("is supported as the embedding of token ids, which must be an input of the graph")
        known = self.ports[name].embedding
        if known is not None and not np.array_equal(known.E, table):
            self.refuse("is a second embedding of the same input, which is not supported")
        embedding = known or lrp.Embedding(table)
        self.ports[name] = Input(steps=flow.has_steps, embedding=embedding)
        self.sizes[name] = lrp.Size(embedding.size, flow.has_steps)
        index = np.arange(embedding.size).reshape(*flow.index.shape, -1)
        return replace(flow, axes=(*flow.axes, "F"), index=index)

    # ------------------------------------------------------------------------------------------------- layers

    def fresh(self, name: str) -> str:
        """A name for a node or an input that none has yet, made from one of the file."""
        plain = "".join(c if c.isprintable() and c not in ":/" else "_" for c in name[:80])
        if not plain.strip("."):
            plain = f"layer_{plain}"
        found = plain
        while found in self.sizes:
            self.counts[plain] = self.counts.get(plain, 1) + 1
            found = f"{plain}_{self.counts[plain]}"
        return found

    def put(self, layer: lrp.Layer, *values: str, name: str = "") -> str:
        """Add a node, and give its name."""
        name = self.fresh(name or self.label or type(layer).__name__.lower())
        size = layer.sizes(*(self.sizes[value] for value in values))
        # A matrix may have several uses, each of which copies it, but not any number of uses.
        self.room(size.width + sum(array.size for _, array in layer.all_arrays()) // 4)
        self.nodes[name] = Node(name, layer, values)
        self.source.budget.layers(len(self.nodes))
        for output in layer.OUTPUTS:
            self.sizes[name + output] = size._replace(steps=size.steps and not output, source=name)
        return name

    def node_of(self, flow: NetworkValue) -> Node | None:
        """The node whose output a value is or is a part of; None for several, and for an input."""
        return self.nodes.get(flow.values[0]) if len(flow.values) == 1 else None

    def shape(self, flow: NetworkValue) -> list[Any]:
        """Size of each axis."""
        known, of_features = {"N": self.batch, "T": flow.steps}, iter(flow.index.shape)
        return [next(of_features) if axis == "F" else math.prod([known[one] for one in axis]) for axis in flow.axes]

    def taken(self, flow: NetworkValue) -> NetworkValue:
        """The value as a layer takes it: after its sigmoid or softmax, if it has one."""
        if flow.probability == "log_softmax":
            self.refuse("takes a log_softmax, which is supported only at the end of a network; use softmax inside it")
        if flow.probability:
            layer = lrp.Activation("sigmoid") if flow.probability == "sigmoid" else lrp.Softmax()
            return self.each(layer, replace(flow, probability=""), name=f"{flow.values[0]}_{flow.probability}")
        if flow.pad != (0, 0):
            self.refuse("comes after padding of the steps, which is supported before a convolution only")
        if not flow.values:
            self.refuse(f"takes what comes of {flow.part_of[0]}, which is not supported by itself")
        return flow

    def rows(self, flow: NetworkValue) -> NetworkValue:
        """The same with one value whose features are in the order of the axes."""
        flow = self.taken(flow)
        self.room(flow.index.size)
        widths = np.array([self.sizes[value].width for value in flow.values])
        ends, flat = np.cumsum(widths), flow.index.reshape(-1)
        # Only the values of which something is taken, in the order in which they come first.
        owner = np.searchsorted(ends, flat, side="right")
        used, first = np.unique(owner, return_index=True)
        used = used[np.argsort(first)]
        begin = np.zeros(len(widths), int)
        begin[used] = np.cumsum(widths[used]) - widths[used]
        flat = flat - (ends - widths)[owner] + begin[owner]
        name, total = self._side_by_side([flow.values[k] for k in used]), int(widths[used].sum())
        if not np.array_equal(flat, np.arange(total)):
            name = self._selected(name, flat, total)
        made = np.arange(flat.size).reshape(flow.index.shape)
        return replace(flow, values=(name,), index=made, part_of=())

    def _selected(self, name: str, flat: np.ndarray, total: int) -> str:
        """Some features of a value in some order."""
        gaps = np.diff(flat)
        cuts, step = np.flatnonzero(gaps != 1) + 1, set(gaps.tolist())
        if len(step) == 1 and min(step) > 1:
            return self.put(lrp.Slice(int(flat[0]), int(flat[-1]) + 1, step.pop(), axis="features"), name)
        if len(cuts) >= _RUNS:
            self.refuse_if(flat.size * total > _BLOCKS, "takes features in an order that is not supported")
            V = np.zeros((flat.size, total), np.float32)
            V[np.arange(flat.size), flat] = 1
            return self.put(lrp.Dense(V), name)
        slices = [lrp.Slice(int(run[0]), int(run[-1]) + 1, axis="features") for run in np.split(flat, cuts)]
        return self._side_by_side([self.put(one, name) for one in slices])

    def _side_by_side(self, values: Sequence[str]) -> str:
        """One value with the features of all."""
        return values[0] if len(values) == 1 else self.put(lrp.Concat(), *values)

    def apply(self, layer: lrp.Layer, *flows: NetworkValue, **change: Any) -> NetworkValue:
        """A layer of whole rows; unless said otherwise its output has the axes of its first input."""
        made = [self.rows(flow) for flow in flows]
        name = self.put(layer, *(flow.values[0] for flow in made))
        result = replace(made[0], values=(name,), **change)
        if result.has_steps:
            self.stepped.setdefault(result.steps, name)
        return result

    def vectors(self, layer: lrp.Layer, *flows: NetworkValue, steps: Any = None, name: str = "") -> NetworkValue:
        """A layer of vectors, one for each step or one for each sequence, and what comes out in the same order."""
        made = [self.rows(flow) for flow in flows]
        for flow in made:
            if flow.axes not in (SERIES, VECTOR):
                self.refuse(f"must have inputs of batch, steps and features, got {_said(flow.axes)}; reshape them")
        name = self.put(layer, *(flow.values[0] for flow in made), name=name)
        size = self.sizes[name]
        if not size.steps:
            return NetworkValue((name,), VECTOR, np.arange(size.width))
        series = [flow for flow in made if flow.has_steps]
        if steps is None:
            steps = series[0].steps if series else Dim.named(name)
        mask = next((flow.mask for flow in series if flow.mask), None)
        self.stepped.setdefault(steps, name)
        return NetworkValue((name,), SERIES, np.arange(size.width), steps, mask=mask)

    def custom_layer(self, name: str, make: Any, settings: dict[str, Any], arrays: dict[str, np.ndarray]) -> lrp.Layer:
        """The layer that a function of the caller's makes of settings and arrays."""
        layer = called(f"load: custom[{name!r}]", make, settings, arrays)
        if not isinstance(layer, lrp.Layer):
            raise UserCodeError(f"load: custom[{name!r}] must give a layer of lrpnumpy, got {type(layer).__name__}.")
        return layer

    def after(self, flow: NetworkValue, windows: WindowSteps) -> Any:
        """Steps after windows went over those of a value."""
        if isinstance(flow.steps, int):
            left = int(windows.count(flow.steps))
            self.refuse_if(left < 1, f"has windows that are longer than {flow.steps} steps")
            return left
        if windows.stride == 1 and windows.padding == "same":
            return flow.steps
        if windows.stride == 1:
            return flow.steps + sum(windows._fixed()) - windows.reach + 1
        return self.size(f"{flow.steps!r} by {windows!r}")

    def size(self, name: str) -> int | Dim:
        """A size that is open, unless the graph needs a certain number there."""
        return self.fixed.get(name) or Dim.named(name)

    def each(self, layer: lrp.Layer, flow: NetworkValue, name: str = "") -> NetworkValue:
        """A layer that acts on every number by itself, wherever it is."""
        flow = self.taken(flow)
        if len(flow.values) > 1:
            flow = self.rows(flow)
        key = flow.values[0], layer.described()
        if key not in self.applied:  # once, also where each half of a value is squared
            self.applied[key] = self.put(layer, flow.values[0], name=name)
        return replace(flow, values=(self.applied[key],), part_of=())

    def affine(self, flow: NetworkValue, s: Any = 1.0, t: Any = 0.0) -> NetworkValue:
        """s x + t with numbers or arrays that broadcast to the tensor; they may differ between features only."""
        flow = self.taken(flow)
        if np.all(s == 1) and not np.any(t):
            return replace(flow, part_of=())
        if len(flow.values) > 1:
            flow = self.rows(flow)
        width = self.sizes[flow.values[0]].width
        scale, shift = np.ones(width, np.float32), np.zeros(width, np.float32)
        scale[flow.index], shift[flow.index] = self.by_feature(flow, s), self.by_feature(flow, t)
        return replace(flow, values=(self.put(lrp.Affine(scale, shift), flow.values[0]),), part_of=())

    def by_feature(self, flow: NetworkValue, given: np.ndarray) -> np.ndarray:
        """An array that broadcasts to a tensor as one of the shape of its axes of features."""
        array = np.asarray(given)
        missing = len(flow.axes) - array.ndim
        self.refuse_if(missing < 0, "has a constant with more axes than the value")
        array = array.reshape((1,) * missing + array.shape)
        for k, axis in enumerate(flow.axes):
            if axis != "F" and array.shape[k] > 1:
                if not (array == array.take([0], axis=k)).all():
                    self.refuse("has a constant that differs between steps or sequences, which is not supported")
                array = array.take([0], axis=k)
        array = array.reshape([n for axis, n in zip(flow.axes, array.shape, strict=True) if axis == "F"])
        try:
            return np.broadcast_to(array, flow.index.shape)
        except ValueError:
            self.refuse(f"has a constant of shape {np.shape(given)} that does not fit {flow.index.shape} features")

    def dense(self, flow: NetworkValue, axis: int, V: np.ndarray, d: np.ndarray | None = None) -> NetworkValue:
        """V (out, in) along an axis of features; for every place along other axes of features the same."""
        flow = self.taken(flow)
        self.refuse_if(flow.axes[axis] != "F", "multiplies along the batch or the steps, which is not supported")
        if V.ndim != 2 or V.shape[1] != self.shape(flow)[axis]:
            self.refuse(f"has a matrix of shape {V.shape} for {self.shape(flow)[axis]} features")
        place = flow.feature_axis(axis)
        others = [n for k, n in enumerate(flow.index.shape) if k != place]
        blocks = int(np.prod(others, dtype=int))
        if blocks > 1 and blocks * blocks * V.size > _BLOCKS:
            self.refuse("multiplies at too many places that are not steps")
        if len(flow.values) > 1:
            flow = self.rows(flow)
        width = self.sizes[flow.values[0]].width
        taken = np.moveaxis(flow.index, place, -1).reshape(-1)  # (blocks * in)
        whole = np.kron(np.eye(blocks, dtype=V.dtype), V)
        if not np.array_equal(taken, np.arange(width)):  # columns in the order of the value
            self.room(len(whole), width)
            matrix = np.zeros((len(whole), width), V.dtype)
            np.add.at(matrix.T, taken, whole.T)
            whole = matrix
        if d is not None:
            d = np.tile(np.broadcast_to(d, len(V)), blocks)
        name = self.put(lrp.Dense(whole, d), flow.values[0])
        index = np.moveaxis(np.arange(len(whole)).reshape(*others, len(V)), -1, place)
        return replace(flow, values=(name,), index=index, part_of=())

    # -------------------------------------------------------------------------------------- steps and features

    def series(self, flow: NetworkValue, wanted: Sequence[str]) -> NetworkValue:
        """The flow with axes that mean this; features along an axis that must be steps become steps."""
        axes = list(flow.axes)
        self.refuse_if(len(axes) != len(wanted), f"must have an input with {len(wanted)} axes, got {len(axes)}")
        for k, (has, want) in enumerate(zip(axes, wanted, strict=True)):
            if has == want:
                continue
            size = self.shape(flow)[k]
            if want == "N" and has == "F" and size == 1 and not any("N" in axis for axis in flow.axes):
                index = flow.index.squeeze(flow.feature_axis(k))
                flow = replace(flow, index=index, axes=exchanged(flow.axes, k, "N"))
            elif want == "T" and has == "F" and not flow.has_steps:
                flow = self.steps_of(flow, k)
            else:
                said = {"N": "the batch", "T": "steps", "F": "features"}
                self.refuse(f"has {said.get(has, 'batch and steps')} where it takes {said[want]}")
        return flow

    def steps_of(self, flow: NetworkValue, axis: int) -> NetworkValue:
        """An axis of features of a vector as steps."""
        size = self.shape(flow)[axis]
        first = self.rows(flow.moved([axis, *(k for k in range(len(flow.axes)) if k != axis)]))
        width = first.index.size // size
        name = self.put(lrp.Reshape(width), first.values[0])
        shape = exchanged(flow.index.shape, flow.feature_axis(axis))
        self.stepped.setdefault(size, name)
        return NetworkValue((name,), exchanged(flow.axes, axis, "T"), np.arange(width).reshape(shape), size)

    def flattened(self, flow: NetworkValue) -> NetworkValue:
        """The steps as one more axis of features."""
        if isinstance(flow.steps, Dim):
            self.refuse("puts all steps into one vector, for which the file must say how many there are; "
                        "save the model with a fixed number of steps")  # fmt: skip
        steps: int = flow.steps
        self.refuse_if("T" not in flow.axes, "joins the batch with features, which is not supported")
        flow = self.rows(flow)
        at, width = flow.axes.index("T"), flow.index.size
        place = flow.feature_axis(at)
        name = self.put(lrp.Flatten(steps), flow.values[0])
        step = np.arange(steps).reshape((-1,) + (1,) * (flow.index.ndim - place))
        return NetworkValue((name,), exchanged(flow.axes, at, "F"), np.expand_dims(flow.index, place) + step * width)

    def one_step(self, flow: NetworkValue, step: int, keep: bool) -> NetworkValue:
        """One step of a series; with `keep` its axis stays, with length 1."""
        at = flow.axes.index("T")
        if isinstance(flow.steps, int) and step >= 0 and step == flow.steps - 1 and step > 0:
            step = -1  # the last one, also of a series of another length
        flow = self.taken(flow)
        values = tuple(self._step_of(value, step, flow.steps) for value in flow.values)
        made = replace(flow, values=values, axes=exchanged(flow.axes, at), steps=1)
        return made.widened([at]) if keep else made

    def _step_of(self, value: str, step: int, steps: int | Dim) -> str:
        node = self.nodes.get(value)
        if step == -1 and node is not None and ":last" in node.layer.OUTPUTS and not hasattr(node.layer, "merge"):
            return f"{value}:last"  # one direction: the row of the last step is the last state, and cheaper
        if step == 0 and steps == 1:  # which the layer checks: an input may have more
            return self.put(lrp.Flatten(1), value)
        return self.put(lrp.LastRow() if step == -1 else lrp.Slice(index=step), value)

    def read(self, flow: NetworkValue, layer: lrp.Layer, keep: bool) -> NetworkValue:
        """A readout over the steps."""
        at = flow.axes.index("T")
        made = self.apply(layer, flow, axes=exchanged(flow.axes, at), steps=1)
        return made.widened([at]) if keep else made

    def repeated(self, flow: NetworkValue, axis: int, steps: Any) -> NetworkValue:
        """A vector at every step: an axis of length 1 becomes the steps, as many as some series has."""
        flow = self.rows(flow)
        index = flow.index.squeeze(flow.feature_axis(axis))
        if steps in self.stepped and self.sizes[self.stepped[steps]].steps:
            name = self.put(lrp.Repeat(), flow.values[0], self.stepped[steps])
        elif isinstance(steps, int):
            name = self.put(lrp.Repeat(steps), flow.values[0])
        else:
            self.refuse("repeats a vector for a number of steps that is not known")
        self.stepped.setdefault(steps, name)
        return NetworkValue((name,), exchanged(flow.axes, axis, "T"), index, steps)

    def aligned(self, flows: Sequence[NetworkValue]) -> list[NetworkValue]:
        """Flows that are broadcast to each other, with equal axes, each one value in the order of its features."""
        rank = max(len(flow.axes) for flow in flows)
        wide = [flow.widened(range(rank - len(flow.axes))) for flow in flows]
        for k in range(rank):
            kinds = {flow.axes[k] for flow in wide}
            if kinds == {"F", "T"}:
                like = next(flow for flow in wide if flow.axes[k] == "T")
                self.stepped.setdefault(like.steps, like.values[0])
                for number, flow in enumerate(wide):
                    if flow.axes[k] == "F":
                        self.refuse_if(self.shape(flow)[k] != 1, "joins steps with features, which is not supported")
                        wide[number] = self.repeated(flow, k, like.steps)
            elif len(kinds) > 1:
                self.refuse("joins values whose axes mean different things")
        try:
            shape = np.broadcast_shapes(*(flow.index.shape for flow in wide))
        except ValueError:
            self.refuse("joins values of different sizes")
        self.room(*shape)
        return [self.rows(replace(flow, index=np.broadcast_to(flow.index, shape))) for flow in wide]

    # ----------------------------------------------------------------------------------------------- the end

    def finished(self, flow: NetworkValue) -> Model:
        """The model whose scores are a value, with the nodes it needs; an output activation is removed."""
        output = flow.probability.removeprefix("log_") or "linear"
        name = self.rows(replace(flow, probability="")).values[0]
        last = self.nodes.get(name)
        if last is not None and output == "linear" and last.layer.described() == lrp.Activation("sigmoid").described():
            name, output = last.inputs[0], "sigmoid"
        if output != "linear":
            self.note(f"the {output} at the end is taken off: the scores explained are what it is applied to")
        needed, nodes = {name.partition(":")[0]}, []
        for node in reversed(self.nodes.values()):
            if node.name in needed:
                nodes.append(node)
                needed |= {one.partition(":")[0] for one in node.inputs}
        ports = {key: port for key, port in self.ports.items() if key in needed}
        self.refuse_if(not nodes, "must be computed by layers")
        return Model(tuple(nodes[::-1]), inputs=ports, result=name, output=output)  # type: ignore[arg-type]


def _said(axes: Sequence[str]) -> str:
    words = {"N": "batch", "T": "steps", "F": "features"}
    return ", ".join(words.get(axis, "batch and steps") for axis in axes)
