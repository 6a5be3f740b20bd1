"""`from_torch`: a module of a running torch, or a state_dict, to a Model.

A live module is run at several sizes, and every function of torch that it calls is recorded (`recorded.py`). Loops
over the steps become recurrent layers (`rolled.py`), and the runs one graph (`merged.py`), of which the builder makes a
model. It must give the module's scores for inputs of other lengths and scales (`probes.py`).
"""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

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
from lrpnumpy.files.torch.probes import ScoreCheck
from lrpnumpy.files.torch.recorded import Recorded, as_numpy, record
from lrpnumpy.files.torch.rolled import rolled
from lrpnumpy.meant import door
from lrpnumpy.model import Model

_HALF = 0.05  # tolerance, of the largest score, for modules in float16 and bfloat16
_BATCHES, _STEPS = (2, 3), (21, 23)  # sizes at which a module is recorded
_INSTEAD = (
    "write that step with what is supported or do it outside of the module, explain a part of the module by itself, "
    "as in from_torch(module.encoder), or build the network of lrp.Node"
)


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


class _Raised(Exception):
    """What a module raised."""


def _from_module(module: Any, said: Hints, check: Any) -> Imported:
    """The model of a live module, compared with the module itself."""
    module = getattr(module, "_orig_mod", module)  # which torch.compile wraps
    state = module.state_dict()
    is_quantized = any("q" in str(getattr(value, "dtype", "torch.qint8")) for value in state.values())
    if is_quantized or (hasattr(module, "_c") and hasattr(module, "inlined_graph")):
        what = "a quantized module" if is_quantized else "TorchScript"
        raise LrpError(
            f"from_torch: {what} does not show what it does; pass the torch.nn.Module that it was made from, or open "
            "a file of that module, lrp.load(path)."
        )
    if said.readout is not None and _is_recurrent(module):  # its outputs are states, not scores
        nonlinearity = said.nonlinearity or getattr(module, "nonlinearity", None)
        return _from_state(state, replace(said, nonlinearity=nonlinearity), None)._replace(warnings=[])
    source = StateDict({})
    with source.guard(""):
        if unused := sorted(names.hints(source, None, said).given.keys() - {"output"}):
            raise LrpError(
                f"a module shows by itself what it does, got {', '.join(unused)}; leave such hints out, or pass "
                "module.state_dict()."
            )
        return _compared(source, module, said, check)


def _compared(source: Source, module: Any, said: Hints, check: Any) -> Imported:
    """The model of the first call of a module with which it gives the module's scores."""
    problem, reason = None, ""
    for call in calls(module, check):
        try:
            runs, sizes = _recorded(call)
        except _Raised as error:
            reason = reason or str(error)
            continue
        which, warned = _output(module, runs[0], said.which)
        try:
            with source.guard("", "is not understood"):
                model = _model(source, call, runs, sizes, which)
                if said.output is not None:
                    model = replace(model, output=said.output)  # type: ignore[arg-type]
                model, more = ScoreCheck(source, call, which, _tolerance(module), runs).compared(model)
            return Imported(model, warnings=[*warned, *more])
        except LrpError as error:
            problem = problem or error
    if problem is not None:
        raise problem
    if check is not None:
        raise source.error("", f"the module raised an error on the `check` input: {reason}")
    reason = reason or "it has no parts that take numbers"
    advice = "pass check=x, an input that it takes, or a tuple of its inputs"
    raise source.error("", f"the module cannot be run on a probe ({reason}): {advice}")


def _recorded(call: ModuleCall) -> tuple[list[Recorded], list[Sizes]]:
    """A module at two sizes of the batch and two numbers of steps, or at one where it takes no other."""
    batches = [_BATCHES, (call.sizes.N,)] if "N" in call.free else [(call.sizes.N,)]
    steps = [_STEPS, (call.sizes.T,)] if "T" in call.free else [(call.sizes.T,)]
    rng, reason = np.random.default_rng(0), None
    for many, lengths in itertools.product(batches, steps):
        sizes = [Sizes(N, T) for N in many for T in lengths]
        try:
            runs = [_run(call, size, rng) for size in sizes]
        except Exception as error:
            reason = reason or first_line(error)
            continue
        if not runs[0].outputs:
            raise LrpError(
                "the output of the module has no tensor: make forward return a tensor, or a tuple, list or dict of "
                "tensors."
            )
        call.free = ("N" if len(many) > 1 else "") + ("T" if len(lengths) > 1 else "")
        return runs, sizes
    raise _Raised(reason)


def _run(call: ModuleCall, size: Sizes, rng: np.random.Generator) -> Recorded:
    """A module, recorded on random numbers of a size."""
    given = call.tensors(size, rng)
    args, kwargs = call.arguments(given)
    with unchanged(call.module) as module:
        return record(module, args, kwargs, call.inputs_of(given))


def _model(source: Source, call: ModuleCall, runs: list[Recorded], sizes: list[Sizes], which: str) -> Model:
    """The model of one output."""
    rolled_up = [rolled(run, which, size.T) for run, size in zip(runs, sizes, strict=True)]
    try:
        return model_of(source, rolled_up, sizes, call.inputs, which)
    except (Different, LrpError) as error:
        text = str(error).removeprefix("from_torch: ").removesuffix(".")
        raise source.error("", f"{text}; {_INSTEAD}") from error


def _tolerance(module: Any) -> float:
    """How far scores may differ, of the largest score."""
    is_half = any(str(p.dtype) in ("torch.float16", "torch.bfloat16") for p in module.parameters())
    return _HALF if is_half else CLOSE


def _output(module: Any, run: Recorded, which: Any) -> tuple[str, list[str]]:
    """The name of the output that gives the scores, and a warning where it was not said."""
    listed = [f"'{name}' {run.shapes[value]}" for name, value in run.outputs.items()]
    first = next(iter(run.outputs))
    if which is not None and str(which) not in run.outputs:
        raise LrpError(f"which must be an output of the module, of {', '.join(listed)}, got {which!r}.")
    if which is not None or len(listed) == 1 or _is_recurrent(module):  # whose outputs are known
        return (first if which is None else str(which)), []
    more = " …" if len(listed) > 6 else ""
    return first, [f"the module has {len(listed)} outputs, {', '.join(listed[:6])}{more}; which='{first}' is taken"]


def _is_recurrent(module: Any) -> bool:
    """Whether a module is LSTM, GRU or RNN of torch.nn itself."""
    return type(module).__module__ == "torch.nn.modules.rnn"
