"""`from_torch`: a module of a running torch, or a state_dict, to a Model.

A live module is run once on a probe, and what goes into and comes out of each of its parts shows in which order they
are applied, which activations are between them, and how the steps become a prediction. The model that is made of this
must give the module's scores, on this probe and on others of other lengths and scales (`probes.py`).
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.checks import AssumptionWarning, LrpError, outside
from lrpnumpy.files.compare import TOLERANCE, check_scores
from lrpnumpy.files.hints import Hints, taken, takes_hints
from lrpnumpy.files.named import named
from lrpnumpy.files.report import Imported
from lrpnumpy.files.safe import Source
from lrpnumpy.files.torch import model as names
from lrpnumpy.files.torch.chain import pool_of
from lrpnumpy.files.torch.layers import LAST_STEP, TorchBuild
from lrpnumpy.files.torch.modules import LayerHint, find
from lrpnumpy.files.torch.pickled import Described, describe_live
from lrpnumpy.files.torch.probes import ModuleRun, as_numpy, compared, first_runs
from lrpnumpy.files.torch.traced import Tracer
from lrpnumpy.meant import door
from lrpnumpy.model import Model

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


_FILES_ONLY = ("config", "custom")  # hints that a module has no use for


@takes_hints(*_FILES_ONLY)
@door
def from_torch(module_or_state_dict: Any, *, check: Any = None, **hints: Any) -> Model:
    """A Model from `module_or_state_dict`: a `torch.nn.Module`, or a state_dict of tensors or NumPy arrays.

    A module is run on probes, or on `check`, an input: this shows the order of its parts, the activations between them
    and the readout, and the scores of the model are compared with the module's. The module is left as it was. Of
    several outputs, `which` names one: "1", or the key of a dict. A state_dict shows none of this: `readout` is what
    the network does with the steps ("last" is h_n, for two directions each one's own final state; "last-row" is
    out[:, -1]; "mean" and "max" are over the steps; "every" predicts at each step), and `check` is a pair (x, scores
    of x). An AssumptionWarning lists what was assumed about a state_dict, until `check` has confirmed the scores.
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
    """The model of a live module, compared with the module itself where it can be run."""
    source = StateDict({str(name): as_numpy(value) for name, value in module.state_dict().items()})
    described = describe_live(module)
    tolerance = _HALF if _is_half(module) else TOLERANCE
    which = None if said.which is None else str(said.which)
    with source.guard(""):
        said = names.hints(source, None, said)
        problems: list[Exception] = []
        reason = ""
        for run in first_runs(module, check, which):
            if isinstance(run, str):
                reason = reason or run
                continue
            try:
                with source.guard("", "is not understood"):
                    found = _understood(source, run, described, said, tolerance)
                model, warned = compared(source, module, found.model, run, tolerance)
                return found._replace(model=model, warnings=warned)
            except LrpError as error:
                problems.append(error)
        if check is not None and not problems:
            raise LrpError(f"from_torch: check must be an input that the module takes, got an error from it: {reason}.")
        alone = [part.name for part in described.parts] == [""]  # a recurrent module gives states, not scores
        if problems and not alone:
            raise problems[0]
        if problems:
            found = names.read(source, said, described)
            return found._replace(warnings=[] if said.readout is not None else [LAST_STEP])
        unseen = f"the module cannot be run on a probe ({reason or 'it has no parts that take numbers'})"
        advice = "pass check=x, an input that it takes, or a tuple of its inputs"
        try:
            found = names.read(source, said, described)
        except LrpError as error:
            raise LrpError(f"{str(error).removesuffix('.')}; {unseen}: {advice}.") from error
        return found._replace(warnings=[*found.warnings, f"{unseen}, so its scores were not compared; {advice}"])


def _is_half(module: Any) -> bool:
    return any(str(p.dtype) in ("torch.float16", "torch.bfloat16") for p in module.parameters())


def _understood(source: Source, run: ModuleRun, described: Described, said: Hints, tolerance: float) -> Imported:
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
    used = [LayerHint(call.name, {}) for call in run.calls]
    modules: dict[str, Any] = {m.name: m for m in find(source, paths, described, used, [])}
    called = {call.name for call in run.calls}
    pools = {part.name: pool_of(source, part) for part in described.parts if part.name in called}
    modules |= {name: pool for name, pool in pools.items() if pool is not None}
    build = TorchBuild(source, paths, said, notes, [])
    tracer = Tracer(source, modules, build, 1e-5 if tolerance == TOLERANCE else _NARROW)
    own = {name: source.array(name, source.shape(name)) for name in run.own}
    batched = run.sequences.ndim == (2 if run.sequences.dtype.kind in "iu" else 3)
    tracer.follow(run.sequences if batched else run.sequences[None], run.calls, run.y, own)
    heard = tracer.hints()
    if heard is None and not (said.readout or said.layers or said.activations):
        model = tracer.model()
        return Imported(replace(model, output=said.output or model.output), notes, [])  # type: ignore[arg-type]
    if heard is None:
        return names.read(source, said, described)
    readout, output = said.readout or heard["readout"], said.output or heard["output"]
    if said.layers is not None or said.activations is not None:
        return names.read(source, replace(said, readout=readout, output=output), described)
    order = heard["layers"]
    if not any(name in ACTIVATIONS for name in order) and described.sequences == []:
        order.append("linear")  # says that there are none
    return names.read(source, replace(said, layers=order, readout=readout, output=output), described)
