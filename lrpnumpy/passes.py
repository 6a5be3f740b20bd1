"""The two loops: values forwards through the nodes, messages back; and the same for occlusion and decomposition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError
from lrpnumpy.kernels import compile, sums
from lrpnumpy.kernels.compile import Kernel
from lrpnumpy.layers.base import Keep, Ran
from lrpnumpy.model import Model, Node
from lrpnumpy.packed import Batch, Change, Packed, Split, vectors
from lrpnumpy.rules.propagation import Entry, Propagation


class SequenceWindows(NamedTuple):
    """Windows of one sequence, each with the states that the layers have before its first step.

    A prediction depends on the steps before its window only through these states: to explain what the steps inside the
    window contributed, nothing is propagated beyond it.
    """

    inputs: dict[str, Packed]  # the sequence; or M sequences, of which each window is taken, side by side
    first: np.ndarray  # (n,) first step of each window
    batch: Batch  # of the windows

    def cut(self, inputs: dict[str, Packed]) -> dict[str, Packed]:
        """The rows of all windows, from those of one sequence."""
        rows = self.first[self.batch.owner] + self.batch.step
        return {name: Packed(one.rows[rows], self.batch) for name, one in inputs.items()}

    def some(self, which: np.ndarray) -> SequenceWindows:
        """Some of the windows."""
        return self._replace(first=self.first[which], batch=Batch(self.batch.lengths[which]))

    def states(self, model: Model) -> dict[str, list[Packed]]:
        """The states of every recurrent layer before each window, from a forward pass through the sequence."""
        trace, found = forward(model, self.inputs, "states"), {}
        count = trace.input.batch.n
        first, sequence = self.first.repeat(count), np.tile(np.arange(count), len(self.first))
        for node in model.nodes:
            if node.layer.recurrent:
                run = trace.ran[node.name].trace[0].run
                states = [run.before(k, first, sequence) for k in range(len(node.layer.states))]
                rows = [one.reshape(len(first), -1).astype(model.dtype, copy=False) for one in states]
                found[node.name] = [Packed(one, vectors(len(first))) for one in rows]
        return found


class Trace(NamedTuple):
    """A forward pass: what every node saw and did."""

    model: Model
    inputs: dict[str, Packed]
    ran: dict[str, Ran]
    output: Packed  # the scores: (n, C), or (R, C) where there is a prediction at every step
    windows: SequenceWindows | None = None  # that the inputs are

    @property
    def input(self) -> Packed:
        """The main input."""
        return self.inputs[self.model.main]

    @property
    def scores(self) -> np.ndarray:
        """The rows of the output."""
        return self.output.rows


def path_of(model: Model, keeps: Sequence[Keep], size: int) -> str:
    """By what a call with passes of these kinds and `size` numbers is computed: by compiled kernels, or by NumPy.

    If it is by kernels, all that the passes need are compiled now. A caller that follows a path already keeps it.
    """
    path = compile.current()
    if path is not None:
        return path
    key: tuple[Any, ...] = ()
    for keep in keeps:
        if isinstance(keep, Propagation):
            key += (type(keep), keep.code, *keep.nodes.items())
        else:
            key += (keep,)
    if key not in model.compiled_for:
        path = compile.path_of(_kernels(model, keeps), model.dtype, size)
        if path == compile.NUMPY:
            return path
        model.compiled_for.add(key)
    return compile.COMPILED


def _kernels(model: Model, keeps: Sequence[Keep]) -> list[Kernel]:
    """The kernels that passes of these kinds run."""
    kernels: dict[Kernel, None] = {}
    for keep in keeps:
        is_propagation = isinstance(keep, Propagation)
        for node in model.nodes:
            how = keep.nodes.get(node.name, keep) if is_propagation else keep  # type: ignore[union-attr]
            kernels |= dict.fromkeys(node.layer._kernels(how))
        if is_propagation and keep.times_input:  # type: ignore[union-attr]
            kernels |= dict.fromkeys([sums.backward, sums.close])
    return [*kernels]


def forward(
    model: Model, inputs: dict[str, Packed], keep: Keep = None, windows: SequenceWindows | None = None
) -> Trace:
    """Scores of a batch, and what `keep` asks for: what the backward pass needs, or what variants start from.

    Where the inputs are `windows` of a sequence, recurrent layers start with the states before each window. They are
    further inputs of the layers.
    """
    values, ran = {**inputs}, {}
    starts: dict[str, list[Packed]] = {}
    if windows is not None:
        starts = windows.states(model)
    is_propagation = isinstance(keep, Propagation)
    for node in model.nodes:
        name, wanted, xs, kept = node.name, model.wanted[node.name], [], keep
        for key in node.inputs:
            xs.append(values[key])
        xs.extend(starts.get(name, ()))
        if is_propagation:
            kept = keep.nodes.get(name, keep)  # type: ignore[union-attr]
        try:
            outputs, trace = node.layer.run(xs, kept, wanted)
        except LrpError as error:  # steps that do not fit: the layer does not know whose they are
            raise LrpError(f"layer {name!r}, of {', '.join(map(repr, node.inputs))}: {error}") from None
        for key, value in zip(wanted, outputs, strict=True):
            values[name + key] = value
        ran[name] = Ran(xs, outputs, trace)
    return Trace(model, inputs, ran, values[model.scored], windows)


def spread(trace: Trace, inputs: dict[str, Packed]) -> Trace | None:
    """The pass of one sequence as that of a batch of its beginnings, through layers that look at no later step.

    None where a layer does not say what it would have kept of them.
    """
    values, ran, model = {**inputs}, {}, trace.model
    step = inputs[model.main].batch.step
    for node in model.nodes:
        before, xs = trace.ran[node.name], [values[key] for key in node.inputs]
        outputs = tuple(Packed(one.rows[step], xs[0].batch) for one in before.outputs)
        kept = node.layer.spread(before.trace, xs)
        if kept is NotImplemented:
            return None
        values.update(zip((node.name + key for key in model.wanted[node.name]), outputs, strict=True))
        ran[node.name] = Ran(xs, outputs, kept)
    return Trace(model, inputs, ran, values[model.scored])


class Passed(NamedTuple):
    """What a backward pass gives."""

    inputs: dict[str, np.ndarray]  # (R, D) at each; (R, 1), one for each word, where words were looked up projected
    ledger: np.ndarray  # (nodes, 6, n) what each node kept of each sequence's relevance, see Entry
    hidden: dict[str, list[tuple[str, np.ndarray]]]  # by node: direction and relevance (states, R, H)
    messages: dict[str, np.ndarray]  # (R, M) at every edge
    earlier: dict[str, Sequence[np.ndarray]]  # by node: (n, H) at the states before windows


def backward(
    trace: Trace,
    R: np.ndarray,
    how: Propagation,
    reference: Trace | None = None,
    *,
    hidden: bool = False,
    through: Mapping[str, Sequence[int]] | None = None,
) -> Passed:
    """Propagate R, of the shape of the scores, to the inputs; `reference` is the reference's forward pass.

    Of the nodes in `through` only the outputs of these units pass anything on, and only what passes them reaches the
    inputs.
    """
    model = trace.model
    ledger = np.zeros((len(model.nodes), Entry.SIZE, trace.inputs[model.main].batch.n), R.dtype)
    states: dict[str, list[tuple[str, np.ndarray]]] = {}
    arrived: dict[str, np.ndarray] = {model.scored: R}
    dropped: list[np.ndarray] = []  # what does not pass `through`
    earlier: dict[str, Sequence[np.ndarray]] = {}
    for k in range(len(model.nodes) - 1, -1, -1):
        node = model.nodes[k]
        name, Rs = node.name, {}
        if through is not None and name in through:
            dropped.append(_cut(trace, arrived, k, through[name]))
        for key in model.wanted[name]:
            if name + key in arrived:
                Rs[key] = arrived[name + key]
        if not Rs:
            continue
        entry = Entry(ledger[k], states.setdefault(name, []) if hidden else None)
        ran = trace.ran[name]
        if reference is not None:
            ran = ran._replace(reference=reference.ran[name])
        parts = node.layer.give_back(ran, Rs, how.nodes.get(name, how), entry)
        if how.times_input and node.layer.is_custom:
            _check_ledger(node, Rs, parts, ledger[k])
        if trace.windows is not None and node.layer.recurrent:
            count = len(node.inputs)
            parts, earlier[name] = parts[:count], parts[count:]  # type: ignore[assignment]
            if how.times_input:
                ledger[k, Entry.START] += sum(message.sum(axis=1) for message in earlier[name])
        for source, part in zip(node.inputs, parts, strict=True):
            if part is not None:
                arrived[source] = arrived[source] + part if source in arrived else part
    inputs = {}
    for name, x in trace.inputs.items():
        inputs[name] = arrived[name] if name in arrived else np.zeros_like(x.rows)
    for amounts in dropped:
        ledger[-1, Entry.RULE] += amounts
    if how.times_input:
        for name in model.unseen:
            Entry(ledger[0]).see(inputs[name], trace.inputs[name].batch)
    return Passed(inputs, ledger, states, arrived, earlier)


def _cut(trace: Trace, arrived: dict[str, np.ndarray], k: int, units: Sequence[int]) -> np.ndarray:
    """Drop the messages that are still to be propagated, all but those at some units of node k; (n,) their sums."""
    model = trace.model
    later = {node.name + key for node in model.nodes[k + 1 :] for key in node.layer.OUTPUTS}
    batches = {name: x.batch for name, x in trace.inputs.items()}
    for name, ran in trace.ran.items():
        batches |= {name + key: y.batch for key, y in zip(model.wanted[name], ran.outputs, strict=True)}
    dropped = np.zeros(trace.input.batch.n, trace.scores.dtype)
    own = [model.nodes[k].name + key for key in model.nodes[k].layer.OUTPUTS]
    for name in [name for name in arrived if name not in later]:
        R = arrived.pop(name)
        if name in own:
            arrived[name] = np.zeros_like(R)
            arrived[name][:, units] = R[:, units]
            R = R - arrived[name]
        dropped += batches[name].sums(R.sum(axis=1))
    return dropped


def _check_ledger(node: Node, Rs: dict[str, np.ndarray], parts: Sequence[np.ndarray | None], kept: np.ndarray) -> None:
    """Raise where a custom layer neither passes relevance on nor enters it in the ledger, and name the entry."""
    arrived = sum(float(R.sum()) for R in Rs.values())
    passed = sum(float(part.sum()) for part in parts if part is not None)
    missing = arrived - passed - float(kept.sum() - kept[Entry.LARGEST].sum())
    size = max(sum(float(abs(R).sum()) for R in Rs.values()), float(kept[Entry.LARGEST].sum()))
    if abs(missing) > max(1e-9, 100 * float(np.finfo(kept.dtype).eps)) * size:
        raise LrpError(
            f"layer {node.name!r}, {type(node.layer).__name__}.backward: {missing:.3g} of {arrived:.3g} relevance is "
            "neither propagated nor in the ledger; enter the kept part of how.gain with entry.stabilizer(R * kept, "
            "batch), that of a bias with entry.bias."
        )


def occlude(trace: Trace, changes: dict[str, Change], tol: float = 0.0) -> Change | None:
    """What `changes` of inputs, by name and with the same owners, change in the scores; None for nothing."""
    changes, model = {**changes}, trace.model
    for node in model.nodes:
        given = [changes.get(source) for source in node.inputs]
        if any(one is not None for one in given):
            wanted = model.wanted[node.name]
            for key, one in zip(wanted, node.layer.changed(trace.ran[node.name], given, wanted, tol), strict=True):
                changes[node.name + key] = one
    return changes.get(model.scored)


def decompose(trace: Trace, parts: dict[str, Split]) -> Iterator[tuple[str, Split]]:
    """How contextual decomposition divides the values of every edge, from the division of the inputs."""
    parts, model = {**parts}, trace.model
    for node in model.nodes:
        wanted = model.wanted[node.name]
        given = [parts[name] for name in node.inputs]
        for key, one in zip(wanted, node.layer.split(trace.ran[node.name], given, wanted), strict=True):
            parts[node.name + key] = one
            yield node.name + key, one
