"""`from_torch`: a module of a running torch, or a state_dict, to a Model.

A live module is run at several sizes, and every function of torch that it calls is recorded (`recorded.py`). Loops
over the steps become recurrent layers (`rolled.py`), and the runs one graph (`merged.py`), of which the builder makes a
model. It must give the module's scores for inputs of other lengths and scales (`probes.py`).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.checks import AssumptionWarning, LrpError, outside
from lrpnumpy.files.compare import CLOSE, check_scores
from lrpnumpy.files.hints import Hints, taken, takes_hints
from lrpnumpy.files.named import named
from lrpnumpy.files.report import Imported
from lrpnumpy.files.safe import Source, first_line
from lrpnumpy.files.torch import model as names
from lrpnumpy.files.torch.called import ModuleCall, calls, unchanged
from lrpnumpy.files.torch.merged import Different, Sizes, model_of
from lrpnumpy.files.torch.pickled import describe_live
from lrpnumpy.files.torch.probes import ScoreCheck
from lrpnumpy.files.torch.recorded import Condition, Recorded, as_numpy, record, tensors
from lrpnumpy.files.torch.rolled import rolled
from lrpnumpy.meant import door
from lrpnumpy.model import Model

_HALF = 0.05  # tolerance, of the largest score, for modules in float16 and bfloat16
_BATCHES, _STEPS = (2, 3), (21, 23)  # sizes at which a module is recorded
_INSTEAD = (
    "write that step with what is supported or do it outside of the module, explain a part of the module by itself, "
    "as in from_torch(module.encoder), or build the network of lrp.Node"
)


_NO_TENSOR = "the output of the module has no tensor"


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


_FILES_ONLY = ("config", "custom")  # hints that a module has no use for


@takes_hints(*_FILES_ONLY)
@door
def from_torch(module_or_state_dict: Any, *, check: Any = None, **hints: Any) -> Model:
    """A Model from `module_or_state_dict`: a `torch.nn.Module`, or a state_dict of tensors or NumPy arrays.

    A module is run, and its computation becomes a graph. The scores of the model are compared with those of the module,
    which is not changed. If the module has several inputs or does not accept the probes, pass an input, or a tuple of
    its inputs, as `check`. `which` selects one of several outputs: "1", or the key of a dict. A state_dict contains
    only arrays. `readout` describes how the steps become a prediction ("last" is h_n, the last state of each direction;
    "last-row" is out[:, -1]; "mean" and "max" are over the steps; "every" predicts at each step), and `check` is a pair
    (x, scores of x). An AssumptionWarning lists the assumptions about a state_dict, unless `check` confirms them.
    """
    said = taken("from_torch", hints, _FILES_ONLY)
    if isinstance(module_or_state_dict, Mapping) and said.which is not None:
        raise LrpError("from_torch: which names an output of a module; leave it out for a state_dict.")
    if isinstance(module_or_state_dict, Mapping):
        found = _from_state(module_or_state_dict, said, check)
    elif hasattr(module_or_state_dict, "state_dict") and hasattr(module_or_state_dict, "named_modules"):
        found = _from_module(module_or_state_dict, said, check)
    else:
        what = type(module_or_state_dict).__name__
        advice = "; open a file by lrp.load" if isinstance(module_or_state_dict, (str, os.PathLike)) else ""
        raise LrpError(f"from_torch: the first argument must be a torch.nn.Module or a state_dict, got {what}{advice}.")
    for text in found.warnings:
        warnings.warn(f"from_torch: {text}.", AssumptionWarning, stacklevel=outside())
    return named("from_torch", found.model, said)[0]


def _from_state(state: Mapping[str, Any], said: Hints, check: Any) -> Imported:
    """The model of a state_dict, compared with scores where they are given."""
    source = StateDict({str(name): as_numpy(value) for name, value in state.items()})
    with source.guard(""):
        found = names.read(source, names.hints(source, None, said))
    if check is None:
        return found
    check_scores(found.model, check, "from_torch")
    return found._replace(warnings=[])


# ------------------------------------------------------------------------------------------------ live modules


def _from_module(module: Any, said: Hints, check: Any) -> Imported:
    """The model of a live module, compared with the module itself."""
    module = getattr(module, "_orig_mod", module)  # which torch.compile wraps
    if hasattr(module, "_c") and hasattr(module, "inlined_graph"):
        raise LrpError(
            "from_torch: TorchScript does not show what it does; pass the torch.nn.Module that it was made from, or "
            "load its file as arrays, lrp.load(path)."
        )
    state = module.state_dict()
    if any("q" in str(getattr(value, "dtype", "torch.qint8")) for value in state.values()):
        raise LrpError("from_torch: the module is quantized; pass the module from before torch.ao.quantization.")
    source = StateDict({str(name): as_numpy(value) for name, value in state.items()})
    tolerance = _HALF if _is_half(module) else CLOSE
    problems: list[LrpError] = []
    reason = ""
    with source.guard(""):
        hints = names.hints(source, None, said)
        if _is_recurrent(module) and hints.readout is not None:  # its outputs are states, not scores
            return names.read(source, hints, describe_live(module))._replace(warnings=[])
        for call in calls(module, check):
            try:
                run = _recorded(call)
            except _Raised as error:
                reason = reason or str(error)
                continue
            which, warned = _output(module, run.first, said.which)
            try:
                with source.guard("", "is not understood"):
                    if hints.given.keys() - {"output"}:
                        found = _as_said(source, module, hints)
                    else:
                        found = run.model(source, which)
                    if said.output is not None:
                        found = found._replace(model=replace(found.model, output=said.output))  # type: ignore[arg-type]
                    model, more = ScoreCheck(source, call, which, tolerance, run.conditions).compared(found.model)
                return found._replace(model=model, warnings=[*warned, *more])
            except LrpError as error:
                problems.append(_with_state(source, error, call.stored))
        if problems:
            raise problems[0]
        unseen = f"the module cannot be run on a probe ({reason or 'it has no parts that take numbers'})"
        advice = "pass check=x, an input that it takes, or a tuple of its inputs"
        if reason == _NO_TENSOR:
            unseen, advice = reason, "make forward return a tensor, or a tuple, list or dict of tensors"
            if check is not None:
                raise source.error("", f"{unseen}: {advice}")
        if check is not None:
            raise source.error("", f"the module raised an error on the `check` input: {reason}")
        try:
            found = names.read(source, hints, describe_live(module))
        except LrpError as error:
            text = str(error).removeprefix("from_torch: ").removesuffix(".")
            raise source.error("", f"{text}; {unseen}: {advice}") from error
        return found._replace(warnings=[*found.warnings, f"{unseen}, so its scores were not compared; {advice}"])


def _as_said(source: Source, module: Any, hints: Hints) -> Imported:
    """The model that hints describe, which the module itself does not need."""
    try:
        return names.read(source, hints, describe_live(module))
    except LrpError as error:
        text = str(error).removeprefix("from_torch: ").removesuffix(".")
        raise source.error("", f"{text}; or leave such hints out: a module shows by itself what it does") from error


def _with_state(source: Source, error: LrpError, stored: set[str]) -> LrpError:
    """The error, and its likely cause if the module starts from what an earlier call has stored."""
    if not stored:
        return error
    text = str(error).removeprefix("from_torch: ").removesuffix(".")
    names = ", ".join(sorted(stored))
    cause = f"the module may start from tensors that an earlier call has stored ({names})"
    return source.error("", f"{text}; {cause}: reset them, as in module.{min(stored)} = None, and try again")


def _is_half(module: Any) -> bool:
    return any(str(p.dtype) in ("torch.float16", "torch.bfloat16") for p in module.parameters())


def _output(module: Any, run: Recorded, which: Any) -> tuple[str, list[str]]:
    """The name of the output that gives the scores, and a warning where it was not said."""
    shapes = {name: as_numpy(tensor).shape for name, tensor in tensors(run.result)}
    listed = [f"'{name}' {shape}" for name, shape in shapes.items()]
    if which is not None and str(which) not in shapes:
        raise LrpError(f"from_torch: which must be an output of the module, of {', '.join(listed)}, got {which!r}.")
    if which is not None or len(shapes) == 1:
        return (next(iter(shapes)) if which is None else str(which)), []
    name = next(iter(shapes))
    if _is_recurrent(module):  # its outputs are known
        return name, []
    more = " …" if len(listed) > 6 else ""
    return name, [f"the module has {len(listed)} outputs, {', '.join(listed[:6])}{more}; which='{name}' is taken"]


def _is_recurrent(module: Any) -> bool:
    """Whether a module is LSTM, GRU or RNN of torch.nn itself."""
    return type(module).__module__ == "torch.nn.modules.rnn"


class _Raised(Exception):
    """What a module raised."""


class _Runs(NamedTuple):
    """One call of a module, recorded at several sizes."""

    call: ModuleCall
    runs: list[Recorded]
    sizes: list[Sizes]

    @property
    def first(self) -> Recorded:
        """One of the runs."""
        return self.runs[0]

    @property
    def conditions(self) -> list[Condition]:
        """The conditions that became constants, of all runs."""
        return list({text: condition for run in self.runs for text, condition in run.conditions.items()}.values())

    def model(self, source: Source, which: str) -> Imported:
        """The model of one output."""
        runs = [rolled(run, which, size.T) for run, size in zip(self.runs, self.sizes, strict=True)]
        try:
            return model_of(source, runs, self.sizes, self.call.inputs, which)
        except (Different, LrpError) as error:
            text = str(error).removeprefix("from_torch: ").removesuffix(".")
            raise source.error("", f"{text}; {_INSTEAD}") from error


def _recorded(call: ModuleCall) -> _Runs:
    """A module at two sizes of the batch and two numbers of steps, or at one where it takes no other."""
    batches = [_BATCHES, (call.sizes.N,)] if "N" in call.free else [(call.sizes.N,)]
    steps = [_STEPS, (call.sizes.T,)] if "T" in call.free else [(call.sizes.T,)]
    rng, reason = np.random.default_rng(0), None
    for many in batches:
        for lengths in steps:
            sizes = [Sizes(N, T) for N in many for T in lengths]
            runs = []
            try:
                for size in sizes:
                    given = call.tensors(size, rng)
                    args, kwargs = call.arguments(given)
                    with unchanged(call.module) as call.stored:
                        runs.append(record(call.module, args, kwargs, call.inputs_of(given)))
            except Exception as error:
                reason = reason or first_line(error)
                continue
            if not any(True for _ in tensors(runs[0].result)):
                raise _Raised(_NO_TENSOR)
            call.free = ("N" if len(many) > 1 else "") + ("T" if len(lengths) > 1 else "")
            return _Runs(call, runs, sizes)
    raise _Raised(reason)
