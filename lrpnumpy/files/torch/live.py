"""`from_torch`: a module of a running torch, or a state_dict, to a Model.

A live module can be asked: it is run once on a probe, and what goes into and comes out of each of its parts says in
which order they are applied, which activations stand between them, and how the steps become a prediction. The model
that is made of this must give the module's own scores.
"""

from __future__ import annotations

import inspect
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.checks import AssumptionWarning, LrpError, outside
from lrpnumpy.files.compare import TOLERANCE, check_scores, scores_of, shown
from lrpnumpy.files.hints import Hints, taken, takes_hints
from lrpnumpy.files.named import named
from lrpnumpy.files.safe import Source, first_line
from lrpnumpy.files.torch import model as names
from lrpnumpy.files.torch.chain import POOLS, pool_of
from lrpnumpy.files.torch.layers import Build
from lrpnumpy.files.torch.model import Found
from lrpnumpy.files.torch.modules import Entry, find
from lrpnumpy.files.torch.pickled import Described, describe_live
from lrpnumpy.files.torch.traced import Call, Tracer
from lrpnumpy.meant import door
from lrpnumpy.model import Model

STEPS, BATCH = 7, 8  # of a probe; a single sequence might have a score close to 0
_NARROW = 0.01  # tolerance for what goes from part to part in such modules
_HALF = 0.05  # tolerance, of the largest score, for modules in float16 and bfloat16


class StateDict(Source):
    """Arrays that are in memory already."""

    def __init__(self, arrays: Mapping[str, np.ndarray], file: str = "from_torch") -> None:
        super().__init__(file)
        self._arrays = arrays

    def names(self) -> list[str]:
        return list(self._arrays)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._arrays[name].shape

    def array(self, name: str, shape: Any) -> np.ndarray:
        self.fits(name, self._arrays[name].shape, shape)
        found = self._arrays[name]
        if found.dtype.kind != "f" or found.dtype.itemsize > 8:
            raise LrpError(f"{self.file}: {name} must be an array of floats, got {found.dtype}.")
        return found.astype(np.float32) if found.dtype.itemsize < 4 else found


_FILES_ONLY = ("which", "config", "custom")  # hints that a module has no use for


@takes_hints(*_FILES_ONLY)
@door
def from_torch(module_or_state_dict: Any, *, check: Any = None, **hints: Any) -> Model:
    """A Model from `module_or_state_dict`: a `torch.nn.Module`, or a state_dict of tensors or NumPy arrays.

    A module is run once on a probe of its own, or on `check`, an input: this says the order of its parts, the
    activations between them and the readout, and the scores of the model are compared with the module's. A state_dict
    says none of this: `readout` is what the network does with the steps ("last" is h_n, for two directions each one's
    own final state; "last-row" is out[:, -1]; "mean" and "max" are over the steps; "every" predicts at each step), and
    `check` is a pair (x, scores of x).
    """
    said = taken("from_torch", hints, _FILES_ONLY)
    if isinstance(module_or_state_dict, Mapping):
        found = _from_state(module_or_state_dict, said, check)
    elif hasattr(module_or_state_dict, "state_dict") and hasattr(module_or_state_dict, "named_modules"):
        found = _from_module(module_or_state_dict, said, check)
    else:
        what = type(module_or_state_dict).__name__
        raise LrpError(f"from_torch: the first argument must be a torch.nn.Module or a state_dict, got {what}.")
    for text in found.warnings:
        warnings.warn(f"from_torch: {text}.", AssumptionWarning, stacklevel=outside())
    return named("from_torch", found.model, said)[0]


def _from_state(state: Mapping[str, Any], said: Hints, check: Any) -> Found:
    """The model of a state_dict, compared with scores where they are given."""
    source = StateDict({str(name): _numpy(value) for name, value in state.items()})
    with source.guard(""):
        found = names.read(source, names.hints(source, None, said))
    if check is None:
        return found
    check_scores(found.model, check, "from_torch")
    return found._replace(warnings=[])


def _numpy(value: Any) -> np.ndarray:
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) in ("torch.bfloat16", "torch.float16") else value
        value = value.numpy()
    return np.asarray(value)


# ------------------------------------------------------------------------------------------------ live modules


@dataclass
class Run:
    """A module run once: its input, what it gave, and the calls of its parts in their order."""

    sequences: np.ndarray  # the input: one sequence, or a batch of them
    y: np.ndarray
    calls: list[Call]
    own: list[str]  # arrays of the module that belong to no part


def _from_module(module: Any, said: Hints, check: Any) -> Found:
    """The model of a live module, compared with the module itself where it can be run."""
    source = StateDict({str(name): _numpy(value) for name, value in module.state_dict().items()})
    described = describe_live(module)
    tolerance = _HALF if _is_half(module) else TOLERANCE
    with source.guard(""):
        said = names.hints(source, None, said)
        problems: list[Exception] = []
        reason = ""
        for run in _runs(module, check):
            if isinstance(run, str):
                reason = reason or run
                continue
            try:
                with source.guard("", "is not understood"):
                    found = _understood(source, run, described, said, tolerance)
                if _same(found.model, run, tolerance):
                    return found._replace(warnings=[])
                problems.append(_mismatch(source, found.model, run))
            except LrpError as error:
                problems.append(error)
        if check is not None and not problems:
            raise LrpError(f"from_torch: check must be an input that the module takes, got an error from it: {reason}.")
        if problems and len(described.parts) > 1:  # a recurrent module alone gives states, not scores
            raise problems[0]
        if problems:
            return names.read(source, said, described)
        unseen = f"the module cannot be run on a probe ({reason or 'it has no parts that take numbers'})"
        advice = "pass check=x, an input that it takes, or a tuple of its inputs"
        try:
            found = names.read(source, said, described)
        except LrpError as error:
            raise LrpError(f"{str(error).removesuffix('.')}; {unseen}: {advice}.") from error
        found.warnings.append(f"{unseen}, so its scores were not compared; {advice}")
        return found


def _mismatch(source: Source, model: Model, run: Run) -> LrpError:
    scores = scores_of(model, run.sequences)
    return source.error(
        "",
        f"gives {shown(run.y)} for an input, the model made of it {shown(scores)}, with the readout {model.readout!r}; "
        "what it does between its parts is not understood, or another readout or activation was said",
    )


def _is_half(module: Any) -> bool:
    return any(str(p.dtype) in ("torch.float16", "torch.bfloat16") for p in module.parameters())


def _runs(module: Any, check: Any) -> Iterator[Run | str]:
    """The module run on `check`, or on each probe that it takes; or why it could not be run."""
    import torch

    if check is not None:
        given = check if isinstance(check, tuple) else (check,)
        x, *more = (one if hasattr(one, "detach") else torch.as_tensor(np.asarray(one)) for one in given)
        found = _run(module, x, None, more or _lengths(torch, module, x, 0))
        yield found
        if isinstance(found, Run) and found.sequences.ndim > 1:  # perhaps the batch is its second axis
            yield replace(found, sequences=np.swapaxes(found.sequences, 0, 1))
        return
    for x, axis in _probes(torch, module):
        yield _run(module, x, axis, _lengths(torch, module, x, axis))


def _lengths(torch: Any, module: Any, x: Any, batch_axis: int | None) -> list[Any]:
    """The lengths of the sequences of x, where a module wants them as its second input."""
    takes = [one for one in inspect.signature(module.forward).parameters.values() if one.kind < one.VAR_POSITIONAL]
    if len(takes) < 2 or takes[1].default is not takes[1].empty or "len" not in takes[1].name or batch_axis is None:
        return []
    return [torch.full((x.shape[batch_axis],), x.shape[1 - batch_axis])]


def _probes(torch: Any, module: Any) -> Iterator[tuple[Any, int | None]]:
    """Inputs that a module may take, and where their batch axis is: token ids where it has an embedding, or numbers."""
    random = torch.Generator().manual_seed(0)
    first = next(iter(module.parameters()), None)
    where = {"device": first.device} if first is not None else {}
    embeddings = [part for part in module.modules() if type(part).__name__ == "Embedding"]
    if embeddings:
        most = max(2, embeddings[0].num_embeddings)
        ids = torch.randint(1, most, (BATCH, STEPS), generator=random).to(**where)
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
        x = torch.randn((BATCH, STEPS, size), generator=random)
        x[BATCH // 2 :] *= 5  # so that an activation is seen which small numbers pass unchanged
        x = x.to(dtype=dtype, **where)
        layouts = [(x, 0), (x.transpose(0, 1), 1), (x[:1], 0), (x[:1].transpose(0, 1), 1)]
        yield from sorted(layouts, key=lambda layout: layout[1], reverse=not first_batch)
        yield x[0], None


def _run(module: Any, x: Any, batch_axis: int | None, more: list[Any]) -> Run | str:
    """The module run on x, every part listened to; or what it raised."""
    import torch

    calls: list[Call] = []
    try:
        with _listening(module, calls), torch.no_grad():
            y = module(x, *more)
    except Exception as error:
        return first_line(error)
    while isinstance(y, (tuple, list)) and y:
        y = y[0]
    if not hasattr(y, "detach"):
        return f"it gives a {type(y).__name__}"
    x = _numpy(x)
    own = [
        f"{name}.{leaf}" if name else leaf
        for name, part in module.named_modules()
        if name not in {call.name for call in calls}
        for leaf, _ in part.named_parameters(recurse=False)
    ]
    return Run(np.swapaxes(x, 0, 1) if batch_axis == 1 else x, _numpy(y), calls, own)


@contextmanager
def _listening(module: Any, calls: list[Call]) -> Iterator[None]:
    """Remember what goes through the parts that have arrays, in eval mode; afterwards all is as before."""
    modes = [(part, part.training) for part in module.modules()]

    def listen(name: str) -> Any:
        def hook(part: Any, inputs: Any, outputs: Any) -> None:
            given = inputs[0]
            given = given.data if type(given).__name__ == "PackedSequence" else given
            if isinstance(outputs, tuple):
                steps = outputs[0].data if type(outputs[0]).__name__ == "PackedSequence" else outputs[0]
                states = outputs[1][0] if isinstance(outputs[1], tuple) else outputs[1]
                calls.append(Call(name, _numpy(given), (_numpy(steps), _numpy(states))))
            else:
                calls.append(Call(name, _numpy(given), _numpy(outputs)))

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
        for part, mode in modes:
            part.training = mode


def _understood(source: Source, run: Run, described: Described, said: Hints, tolerance: float) -> Found:
    """The model of a module that was run: what the run tells, where the caller does not say otherwise."""
    repeated = [name for name, count in Counter(call.name for call in run.calls).items() if count > 1]
    if not run.calls or any(part.kind.endswith("Cell") for part in described.parts):  # a loop over the steps
        return names.read(source, said, described)
    if repeated:
        raise source.error(
            repeated[0],
            "is used several times in one run, as where predictions are fed back, which is not supported; explain its "
            "parts by themselves, as in from_torch(module.encoder)",
        )
    paths = {name: name for name in source.names()}
    notes: list[str] = []
    used = [Entry(call.name, {}) for call in run.calls]
    modules: dict[str, Any] = {m.name: m for m in find(source, paths, described, used, [])}
    called = {call.name for call in run.calls}
    pools = {part.name: pool_of(source, part) for part in described.parts if part.name in called}
    modules |= {name: pool for name, pool in pools.items() if pool is not None}
    build = Build(source, paths, said, notes)
    tracer = Tracer(source, modules, build, 1e-5 if tolerance == TOLERANCE else _NARROW)
    own = {name: source.array(name, source.shape(name)) for name in run.own}
    batched = run.sequences.ndim == (2 if run.sequences.dtype.kind in "iu" else 3)
    tracer.follow(run.sequences if batched else run.sequences[None], run.calls, run.y, own)
    heard = tracer.hints()
    if heard is None and not (said.readout or said.layers or said.activations):
        model = tracer.model()
        return Found(replace(model, output=said.output or model.output), notes, [])  # type: ignore[arg-type]
    if heard is None:
        return names.read(source, said, described)
    readout, output = said.readout or heard["readout"], said.output or heard["output"]
    if said.layers is not None or said.activations is not None:
        return names.read(source, replace(said, readout=readout, output=output), described)
    order = heard["layers"]
    if not any(name in ACTIVATIONS for name in order) and described.sequences == []:
        order.append("linear")  # says that there are none
    return names.read(source, replace(said, layers=order, readout=readout, output=output), described)


def _same(model: Model, run: Run, tolerance: float) -> bool:
    """Whether a model gives what the module gave, as scores or as the probabilities that belong to them."""
    for y in (run.y, np.swapaxes(run.y, 0, 1)) if run.y.ndim == 3 else (run.y,):  # steps before the batch, perhaps
        with suppress(LrpError):
            check_scores(model, (run.sequences, y), "from_torch", tolerance)
            return True
    return False
