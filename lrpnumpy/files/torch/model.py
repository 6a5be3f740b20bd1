"""PyTorch's names and shapes to a Model, whatever holds the arrays: a module, a state_dict or a file.

A state_dict holds arrays, not a program: neither how its modules are connected, nor the activations between them, nor
how the steps become one prediction. One warning lists all that was assumed; `check=(x, y)` confirms it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lrpnumpy.files.hints import NETWORK, Hints, layer_hints
from lrpnumpy.files.kinds import SUPPORTED, LoadOptions, WeightFile
from lrpnumpy.files.report import Imported
from lrpnumpy.files.safe import Fields, Source, kind_of, parse_json
from lrpnumpy.files.safetensors import Safetensors
from lrpnumpy.files.torch import darts, forecasting, modules
from lrpnumpy.files.torch.chain import ModuleOrder
from lrpnumpy.files.torch.layers import TorchBuild
from lrpnumpy.files.torch.modules import find, paths_of
from lrpnumpy.files.torch.pickled import Described
from lrpnumpy.files.torch.saved import Saved, SavedLegacy, SavedZip
from lrpnumpy.model import OUTPUTS, READOUTS

ASSUMED = (
    "PyTorch arrays do not contain the program that uses them; assumed: {}; pass check=(x, y), an input and the scores "
    "that PyTorch computes for it, to confirm this"
)


def read_arrays(opened: WeightFile, options: LoadOptions) -> Imported:
    """Arrays in HDF5, `.npz` or `.safetensors`."""
    if opened.is_hdf5:
        return arrays_of("PyTorch arrays in HDF5", opened.hdf5, options)
    if opened.is_zip:
        return arrays_of("PyTorch arrays in npz", opened.archive, options)
    with Safetensors(opened.file, opened.budget) as source:
        return arrays_of("PyTorch arrays in safetensors", source, options)


def read_saved(opened: WeightFile, options: LoadOptions) -> Imported:
    """What torch.save writes, or wrote before PyTorch 1.6."""
    if opened.is_zip:
        saved: Saved = SavedZip(opened.archive, options.which)
    else:
        saved = SavedLegacy(opened.file, opened.budget, options.which)
    return arrays_of(saved.kind, saved, options, saved.described)


def arrays_of(kind: str, source: Source, options: LoadOptions, described: Described | None = None) -> Imported:
    """Arrays with PyTorch's names, whatever holds them."""
    names = [*paths_of(source)]
    if not modules.recognized(names) and options.layers is None:
        shown = ", ".join(source.names()[:10]) or "nothing"
        reason = f"has no array called weight_ih_l0 or the like, it has {shown}; supported are {SUPPORTED}"
        raise source.error("", modules.gates_advice(source, source.names()) or reason)
    said = hints(source, options.config, options)
    settings = source.settings if isinstance(source, Saved) else {}
    for library in (darts, forecasting):  # whose programs are known: nothing is assumed
        known = library.read(source, settings, said)
        if known is not None:
            return known._replace(kind=f"{kind}, of {known.kind}", guessed=True)
    found = read(source, said, described)
    return found._replace(kind=kind, guessed=True)


def hints(source: Source, config: Any, given: Hints) -> Hints:
    """The hints from the arguments, from `config`, or stored with the arrays, in this order."""
    said = Fields(source, "config", {} if config is None else config)
    remarks = {key: text for key in NETWORK if (text := source.text(key))}
    for key in ("layers", "activations"):
        if key in remarks:
            remarks[key] = parse_json(source, key, remarks[key])
    if unknown := set(said.value) - set(NETWORK):
        said.refuse(f"may have {', '.join(NETWORK[:-1])} and {NETWORK[-1]}, it has {sorted(map(str, unknown))}")
    found = Fields(source, "config", {**remarks, **said.value, **given.given})
    for key, known in (("readout", READOUTS), ("output", OUTPUTS), ("nonlinearity", ("tanh", "relu"))):
        if found.has(key) and found.value[key] not in known:
            raise source.error("", f"{key} must be one of {', '.join(known)}, got {kind_of(found.value[key])}")
    texts: dict[str, Any] = {key: found.string(key) for key in ("readout", "output", "nonlinearity") if found.has(key)}
    lists: dict[str, Any] = {key: found.strings(key) for key in ("layers", "activations") if found.has(key)}
    return Hints(**texts, **lists)


def read(source: Source, said: Hints, described: Described | None = None) -> Imported:
    """The model and what was assumed; `described` is the description of a whole module."""
    notes: list[str] = []
    assumed: list[str] = []
    end = described.parts[-1] if described is not None and described.parts else None
    if end is not None and end.probability and said.output is None:
        if said.readout == "every" and end.settings.get("dim") not in (-1, 2):
            dim = end.settings.get("dim")
            raise source.error(
                end.name, f"is {end.kind}(dim={dim}), which is not over the classes of each step (dim=-1)"
            )
        said = replace(said, output=end.probability)
        assumed.append(f"{end.name} ({end.kind}), defined last, is the probability of the scores")
    paths = paths_of(source)
    named = None if said.layers is None else layer_hints(source, said.layers)
    found = find(source, paths, described, named, assumed)
    steps = ModuleOrder(source, said, named, described, assumed).steps(found)
    model = TorchBuild(source, paths, said, notes, assumed).model(steps)
    warnings = [ASSUMED.format("; ".join(assumed))] if assumed else []
    return Imported(model, [*assumed, *notes], warnings)
