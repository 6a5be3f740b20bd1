"""Runs of a live PyTorch module: the first, whose parts are listened to, and others that the model must agree with.

One run of a few ordinary steps cannot tell a mean from a sum over 7, or the last of 7 steps from step 6. So the scores
are compared for other lengths and scales, too, and for token ids that repeat or that end in padding.
"""

from __future__ import annotations

import inspect
import random
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError
from lrpnumpy.files.compare import matches, scores_of, shown
from lrpnumpy.files.safe import Source, first_line
from lrpnumpy.files.torch.chain import POOLS
from lrpnumpy.files.torch.traced import ModuleCall
from lrpnumpy.model import Model
from lrpnumpy.predict import predict_all

BATCH, STEPS = 8, 7  # of the first probe; a single sequence might have a score close to 0
LENGTHS, SCALES = (1, 7, 40), (0.1, 1.0, 10.0)  # of the others
PADDED = (
    "the module takes the lengths of its sequences: pass each sequence at its own length, without padding; the model "
    "would compute with padding"
)


@dataclass
class ModuleRun:
    """A module run once: its input, its output, and the calls of its parts in their order."""

    sequences: np.ndarray  # the input, batch first: one sequence, or a batch of them
    y: np.ndarray
    calls: list[ModuleCall]
    own: list[str]  # arrays of the module that belong to no part
    x: Any  # the input as the module takes it
    batch_axis: int | None  # of x
    more: list[Any]  # the other inputs
    which: str | None
    outputs: list[str]  # names and shapes of all outputs

    @property
    def is_ids(self) -> bool:
        """Whether the input is token ids."""
        return self.sequences.dtype.kind in "iu"

    @property
    def batched(self) -> bool:
        """Whether there is a batch of sequences."""
        return self.sequences.ndim == (2 if self.is_ids else 3)

    @property
    def steps(self) -> int:
        """The number of steps."""
        return self.sequences.shape[1 if self.batched else 0]

    @property
    def takes_lengths(self) -> bool:
        """Whether the only other input is the number of steps of each sequence."""
        if len(self.more) != 1 or not self.batched:
            return False
        lengths = as_numpy(self.more[0])
        return lengths.shape == (len(self.sequences),) and lengths.dtype.kind in "iu" and (lengths == self.steps).all()


class Probe(NamedTuple):
    """An input that a module and its model are compared on."""

    kind: str
    sequences: np.ndarray  # batch first
    scale: float = 1.0
    pad: int | None = None  # the token id at the end of each sequence
    lengths: list[int] | None = None  # of the sequences without padding, decreasing; None where all are of one length


def as_numpy(value: Any) -> np.ndarray:
    """A tensor, or anything like an array, as an array; half precision becomes float32."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) in ("torch.bfloat16", "torch.float16") else value
        value = value.numpy()
    return np.asarray(value)


# ------------------------------------------------------------------------------------------------- the first run


def first_runs(module: Any, check: Any, which: str | None) -> Iterator[ModuleRun | str]:
    """The module run on `check`, or on each first probe that it takes; or why it could not be run."""
    import torch

    if check is not None:
        given = check if isinstance(check, tuple) else (check,)
        x, *more = (one if hasattr(one, "detach") else torch.as_tensor(np.asarray(one)) for one in given)
        found = _run(module, x, 0, more or _lengths(torch, module, x, 0), which)
        yield found
        if isinstance(found, ModuleRun) and found.sequences.ndim > 1:  # perhaps the batch is its second axis
            yield replace(found, sequences=np.swapaxes(found.sequences, 0, 1), batch_axis=1)
        return
    for x, axis in _first_probes(torch, module):
        yield _run(module, x, axis, _lengths(torch, module, x, axis), which)


def _lengths(torch: Any, module: Any, x: Any, batch_axis: int | None) -> list[Any]:
    """The lengths of the sequences of x, where a module wants them as its second input."""
    takes = [one for one in inspect.signature(module.forward).parameters.values() if one.kind < one.VAR_POSITIONAL]
    if len(takes) < 2 or takes[1].default is not takes[1].empty or "len" not in takes[1].name or batch_axis is None:
        return []
    return [torch.full((x.shape[batch_axis],), x.shape[1 - batch_axis])]


def _first_probes(torch: Any, module: Any) -> Iterator[tuple[Any, int | None]]:
    """Inputs that a module may take, and where their batch axis is: token ids where it has an embedding, or numbers."""
    generator = torch.Generator().manual_seed(0)
    first = next(iter(module.parameters()), None)
    where = {"device": first.device} if first is not None else {}
    embeddings = [part for part in module.modules() if type(part).__name__ == "Embedding"]
    if embeddings:
        low, high = _ordinary(embeddings[0].num_embeddings)
        ids = torch.randint(low, high, (BATCH, STEPS), generator=generator).to(**where)
        yield from ((ids, 0), (ids.T, 1), (ids[:1], 0), (ids[0], None))
    dtype = first.dtype if first is not None else torch.float32
    sizes = [
        size
        for part in module.modules()
        for key in ("input_size", "in_features", "in_channels")
        if isinstance(size := getattr(part, key, None), int)
    ]
    first_batch = any(getattr(part, "batch_first", False) for part in module.modules())
    for size in dict.fromkeys(sizes):
        x = torch.randn((BATCH, STEPS, size), generator=generator)
        x[BATCH // 2 :] *= 5  # so that an activation is seen which small numbers pass unchanged
        x = x.to(dtype=dtype, **where)
        layouts = [(x, 0), (x.transpose(0, 1), 1), (x[:1], 0), (x[:1].transpose(0, 1), 1)]
        yield from sorted(layouts, key=lambda layout: layout[1], reverse=not first_batch)
        yield x[0], None


def _ordinary(rows: int) -> tuple[int, int]:
    """From which token id to before which one ids are hardly reserved for padding."""
    return (2, rows - 1) if rows > 5 else (1, max(2, rows))


def _run(module: Any, x: Any, batch_axis: int | None, more: list[Any], which: str | None) -> ModuleRun | str:
    """The module run on x, every part listened to; or what it raised."""
    import torch

    calls: list[ModuleCall] = []
    try:
        with _unchanged(torch, module), _listening(module, calls), torch.no_grad():
            outputs = dict(_outputs(module(x, *more)))
    except Exception as error:
        return first_line(error)
    if not outputs:
        return "its output has no tensor"
    listed = [f"'{name}' {y.shape}" for name, y in outputs.items()]
    if which is not None and which not in outputs:
        raise LrpError(f"from_torch: which must be an output of the module, of {', '.join(listed)}, got {which!r}.")
    y = outputs[which] if which is not None else next(iter(outputs.values()))
    sequences = as_numpy(x)
    own = [
        f"{name}.{leaf}" if name else leaf
        for name, part in module.named_modules()
        if name not in {call.name for call in calls}
        for leaf, _ in part.named_parameters(recurse=False)
    ]
    sequences = np.swapaxes(sequences, 0, 1) if batch_axis == 1 else sequences
    return ModuleRun(sequences, y, calls, own, x, batch_axis, more, which, listed)


def _outputs(y: Any, name: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """The tensors of an output by name: '1' of a tuple, 'scores' of a dict, '1.0' of a tuple in a tuple."""
    if hasattr(y, "detach"):
        yield name or "0", as_numpy(y)
    elif isinstance(y, (Mapping, tuple, list)):
        items = y.items() if isinstance(y, Mapping) else enumerate(y)
        for key, value in items:
            yield from _outputs(value, f"{name}.{key}" if name else str(key))


@contextmanager
def _listening(module: Any, calls: list[ModuleCall]) -> Iterator[None]:
    """Remember what goes through the parts that have arrays, in eval mode."""

    def listen(name: str) -> Any:
        def hook(part: Any, inputs: Any, outputs: Any) -> None:
            given = inputs[0]
            given = given.data if type(given).__name__ == "PackedSequence" else given
            if isinstance(outputs, tuple):
                steps = outputs[0].data if type(outputs[0]).__name__ == "PackedSequence" else outputs[0]
                states = outputs[1][0] if isinstance(outputs[1], tuple) else outputs[1]
                calls.append(ModuleCall(name, as_numpy(given), (as_numpy(steps), as_numpy(states))))
            else:
                calls.append(ModuleCall(name, as_numpy(given), as_numpy(outputs)))

        return hook

    handles = [
        part.register_forward_hook(listen(name))
        for name, part in module.named_modules()
        if not list(part.children()) and (list(part.parameters(recurse=False)) or type(part).__name__ in POOLS)
    ]
    try:
        module.eval()
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _unchanged(torch: Any, module: Any) -> Iterator[None]:
    """Leave the attributes, arrays and modes of a module, and all random numbers, as they were."""
    attributes = [(vars(part), dict(vars(part))) for part in module.modules()]
    containers: dict[int, tuple[Any, Any]] = {}
    tensors: dict[int, tuple[Any, Any]] = {}

    def remember(value: Any) -> None:
        if isinstance(value, torch.Tensor):
            tensors.setdefault(id(value), (value, value.detach().clone()))
        elif isinstance(value, (dict, list, set, deque)) and id(value) not in containers:
            containers[id(value)] = value, value.copy()
            for item in value.values() if isinstance(value, dict) else value:
                remember(item)
        elif isinstance(value, tuple):
            for item in value:
                remember(item)

    for _, saved in attributes:
        remember(saved)
    numbers, numpy_numbers = random.getstate(), np.random.get_state()  # noqa: NPY002
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        random.setstate(numbers)
        np.random.set_state(numpy_numbers)  # noqa: NPY002
        for container, saved in [*attributes, *containers.values()]:
            container.clear()
            add = container.update if isinstance(container, (dict, set)) else container.extend
            add(saved)
        with torch.no_grad():
            for tensor, saved in tensors.values():
                if not torch.equal(tensor, saved):
                    tensor.copy_(saved)


# ------------------------------------------------------------------------------------------------ the other runs


def compared(source: Source, module: Any, model: Model, run: ModuleRun, tolerance: float) -> tuple[Model, list[str]]:
    """The model, which skips padding where the module does, and warnings; an error where the scores differ."""
    first = Probe("an input", run.sequences)
    scores = _scores(model, first, run)
    if scores is None or not _agrees(model, scores, run.y, tolerance):
        raise _mismatch(source, model, first, scores, run.y)
    warned = []
    if len(run.outputs) > 1 and run.which is None and not _is_recurrent(module):
        name = run.outputs[0].split()[0]
        warned.append(f"the module has {len(run.outputs)} outputs, {_listed(run.outputs)}; which={name} is taken")
    refused: dict[str, str] = {}
    for probe in _probes(module, model, run):
        y = _again(module, run, probe)
        scores = _scores(model, probe, run)
        if scores is None:  # an error for this input is not a wrong score
            continue
        if isinstance(y, str):
            refused.setdefault(probe.kind, y)
        elif not np.isfinite(y).all() or _agrees(model, scores, y, tolerance):
            continue
        elif probe.pad is None or run.takes_lengths:
            raise _mismatch(source, model, probe, scores, y)
        elif (masked := _masked(model, probe.pad)) and _agrees(masked, _scores(masked, probe, run), y, tolerance):
            model = masked
        else:
            warned.append(
                f"the scores are not those of the module for {probe.kind}: pass each sequence at its own length, "
                "without padding"
            )
    if run.takes_lengths:
        pad = _padding_id(module) if run.is_ids else None
        if pad is not None and not model.every:
            model = _masked(model, pad) or model
        else:
            warned.append(PADDED)
    if refused:
        reason = next(iter(refused.values()))
        warned.append(
            f"the module raises an error for {', '.join(refused)} ({reason}), so its scores were not compared there"
        )
    return model, warned


def _is_recurrent(module: Any) -> bool:
    """Whether a module is LSTM, GRU or RNN of torch.nn itself, whose outputs are known."""
    return type(module).__module__ == "torch.nn.modules.rnn"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:6]) + (" …" if len(names) > 6 else "")


def _probes(module: Any, model: Model, run: ModuleRun) -> Iterator[Probe]:
    """Inputs of other lengths and scales, and token ids that repeat or end in padding."""
    if run.sequences.ndim != (1 if run.is_ids else 2) + run.batched or run.is_ids != (model.embedding is not None):
        return
    rng = np.random.default_rng(0)
    batch = run.sequences.shape[:1] if run.batched else ()
    lengths = dict.fromkeys((run.steps, *LENGTHS))
    if run.more and not run.takes_lengths:  # its other inputs may have to fit this number of steps
        lengths = dict.fromkeys((run.steps,))
    if not run.is_ids:
        for T in lengths:
            for scale in SCALES:
                x = scale * rng.normal(size=(*batch, T, run.sequences.shape[-1]))
                yield Probe(f"sequences of {T} steps", _rounded(x, run), scale)
        if run.takes_lengths:
            x = rng.normal(size=run.sequences.shape)
            yield Probe("padded sequences", _rounded(x, run), lengths=_decreasing(len(x), run.steps))
        return
    assert model.embedding is not None  # of token ids
    rows = len(model.embedding.E)
    low, high = _ordinary(rows)
    for T in lengths:
        yield Probe(f"sequences of {T} steps", rng.integers(low, high, (*batch, T)))
    repeated = np.repeat(rng.integers(low, high, (*batch, 1)), run.steps, axis=-1)
    yield Probe("token ids that repeat", repeated)
    reserved = [_padding_id(module), 0, *((1, rows - 1) if low > 1 else ())]
    for pad in dict.fromkeys(one for one in reserved if one is not None):
        ids = rng.integers(low, high, run.sequences.shape)
        ends = _decreasing(len(ids) if run.batched else 1, run.steps)
        for row, end in zip(ids if run.batched else [ids], ends, strict=True):
            row[end:] = pad
        yield Probe(f"token ids padded with {pad}", ids, pad=pad, lengths=ends)


def _decreasing(count: int, steps: int) -> list[int]:
    """Lengths of sequences, the first of all steps where there are several: modules that pack may want this order."""
    if count == 1:
        return [max(1, steps - 1)]
    return [max(1, steps - k) for k in range(count)]


def _padding_id(module: Any) -> int | None:
    """The token id that the module's embedding has for padding."""
    found = (part.padding_idx for part in module.modules() if type(part).__name__ == "Embedding")
    return next(found, None)


def _again(module: Any, run: ModuleRun, probe: Probe) -> np.ndarray | str:
    """What the module gives for a probe, or what it raised."""
    import torch

    x = torch.as_tensor(probe.sequences).to(dtype=run.x.dtype, device=run.x.device)
    more = run.more
    if run.takes_lengths:
        lengths = probe.lengths or [probe.sequences.shape[1]] * len(probe.sequences)
        more = [torch.as_tensor(lengths).to(more[0])]
    found = _run(module, x.transpose(0, 1) if run.batch_axis == 1 else x, run.batch_axis, more, run.which)
    return found if isinstance(found, str) else found.y


def _rounded(x: np.ndarray, run: ModuleRun) -> np.ndarray:
    """Numbers as the module has them, perhaps in half precision."""
    import torch

    return as_numpy(torch.as_tensor(x).to(run.x.dtype))


def _scores(model: Model, probe: Probe, run: ModuleRun) -> np.ndarray | None:
    """What the model gives for a probe, without its padding if the module takes lengths; None for an error."""
    try:
        if probe.lengths is None or not run.takes_lengths:
            return scores_of(model, probe.sequences)
        if model.every:
            return None
        ragged = [one[:length] for one, length in zip(probe.sequences, probe.lengths, strict=True)]
        return np.asarray(predict_all(model, ragged))
    except LrpError:
        return None


def _masked(model: Model, pad: int) -> Model | None:
    """The model that skips a token id as padding; None where it skips another."""
    embedding, main = model.embedding, model.main
    if embedding is None or embedding.mask is not None:
        return None
    words = replace(model.inputs[main], embedding=replace(embedding, mask=pad))
    return replace(model, inputs={**model.inputs, main: words})


def _agrees(model: Model, scores: np.ndarray | None, y: np.ndarray, tolerance: float) -> bool:
    """Whether a model gives what the module gives, as scores or as the probabilities that belong to them."""
    if scores is None:
        return False
    layouts = (y, np.swapaxes(y, 0, 1)) if y.ndim == 3 else (y,)  # steps before the batch, perhaps
    return any(matches(model, scores, one, tolerance) for one in layouts)


def _mismatch(source: Source, model: Model, probe: Probe, scores: np.ndarray | None, y: np.ndarray) -> LrpError:
    scale = "" if probe.scale == 1 else f" of numbers times {probe.scale:g}"
    ours = "takes no such input" if scores is None else f"gives {shown(scores)}"
    return source.error(
        "",
        f"gives {shown(y)} for {probe.kind}{scale}, the model made of it {ours}, {model!r}; "
        "the code between its parts is not understood, or a hint contradicts it; export the module to ONNX and load "
        "that",
    )
