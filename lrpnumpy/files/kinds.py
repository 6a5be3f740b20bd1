"""Which kind of file it is, from what the file says about itself, and the reader that goes with it."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lrpnumpy.files import native, reference, safetensors
from lrpnumpy.files.archive import NpzFile
from lrpnumpy.files.hints import Hints
from lrpnumpy.files.onnx import model as onnx
from lrpnumpy.files.report import Imported, Report
from lrpnumpy.files.safe import MAX_BYTES, Budget, Source, kind_of, open_file, parse_json, read_json_file, size_of
from lrpnumpy.files.torch import hydrology
from lrpnumpy.files.torch import model as torch
from lrpnumpy.files.torch import modules as torch_modules
from lrpnumpy.files.torch import saved as torchsave
from lrpnumpy.model import Model

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
SUPPORTED = (
    "lrpnumpy's own HDF5, Keras 1 to 3 (.h5, .keras, .weights.h5), PyTorch's torch.save (.pt, .pth, .bin, .ckpt), "
    "PyTorch arrays in HDF5, .npz or .safetensors, ONNX, and the folders of neuralhydrology and of LRP_for_LSTM"
)


@dataclass(frozen=True)
class LoadOptions(Hints):
    """What the caller says besides the path; with `several`, a file of many models is reported by their names."""

    max_bytes: int = MAX_BYTES
    several: bool = False


def read(path: Path, asked: LoadOptions) -> Report:
    """What is in the file; whatever goes wrong on the way is a WeightFileError."""
    file = Source(str(path))
    with file.guard(""), np.errstate(all="ignore"):  # numbers that are not finite are refused by the records
        asked = replace(asked, config=configuration(file, asked.config))
        if path.is_dir():
            return _folder(file, path, asked).report(path)
        size, head, is_hdf5 = _start_of(path)
        if is_hdf5:
            return _hdf5(path, size, asked)
        return _other(path, head, size, asked)


def configuration(file: Source, config: Any) -> Any:
    """The configuration as plain JSON: given as such, as JSON text, or as the path of a JSON file."""
    if isinstance(config, str) and config.lstrip()[:1] in ("{", "["):
        return parse_json(file, "config", config)
    if isinstance(config, (str, os.PathLike)):
        return read_json_file(file, "config", config)
    return config


def _start_of(path: Path) -> tuple[int, bytes, bool]:
    """Size and first bytes of a regular file, and whether the HDF5 signature is at 0, or at 512, 1024, 2048, …"""
    with open_file(path) as stream:
        size, head, offset = size_of(stream), stream.read(64), 0
        while offset + len(HDF5_SIGNATURE) <= size:
            stream.seek(offset)
            if stream.read(len(HDF5_SIGNATURE)) == HDF5_SIGNATURE:
                return size, head, True
            offset = offset * 2 or 512
    return size, head, False


def _hdf5(path: Path, size: int, asked: LoadOptions) -> Report:
    from lrpnumpy.files.hdf5 import Hdf5
    from lrpnumpy.files.keras import version2 as keras2
    from lrpnumpy.files.keras import version3 as keras3

    with Hdf5(str(path), size, budget=Budget(str(path), size, asked.max_bytes)) as file:
        if native.recognised(file):
            _refuse(file, config=asked.config)
            kind, names = f"lrpnumpy HDF5, version {native.version(file)}", native.model_names(file)
            if asked.several and names and asked.which is None:
                return Report(str(path), kind, None, (), tuple(names))
            model = native.read(file, asked.which, asked.custom or {})
            _check_hints(file, model, asked)
            return Report(str(path), kind, model)
        if keras2.recognised(file) or keras3.recognised(file):
            read = keras2.read if keras2.recognised(file) else keras3.read_weights
            return _keras(path, file, read(file, asked), asked)
        _refuse(file, which=asked.which)
        return _torch(path, "PyTorch arrays in HDF5", file, asked)


def _keras(path: Path, file: Source, found: Imported, asked: LoadOptions) -> Report:
    if not found.guessed:
        _check_hints(file, found.model, asked)
    return found.report(path)


def _other(path: Path, head: bytes, size: int, asked: LoadOptions) -> Report:
    """A file that is not HDF5."""
    budget = Budget(str(path), size, asked.max_bytes)
    file = Source(str(path), budget)
    if head.startswith(b"PK\x03\x04"):
        return _zip(path, budget, asked)
    if torchsave.recognised_legacy(head):
        saved = torchsave.SavedLegacy(str(path), budget, asked.which)
        return _torch(path, saved.kind, saved, asked, saved.described)
    if onnx.recognised(head):
        found = onnx.read(path, asked.max_bytes, asked.which, asked.custom)
        _refuse(file, config=asked.config)
        _check_hints(file, found.model, asked)
        return found.report(path)
    _refuse(file, which=asked.which)
    if safetensors.recognised(head, size):
        return _torch(path, "PyTorch arrays in safetensors", safetensors.Safetensors(str(path), budget), asked)
    if head[:1] == b"\x80" or head[:2] in (b"(d", b"cc", b"c_", b"ct"):
        raise file.error("", torchsave.OTHER_PICKLE)
    raise file.error("", f"is of a kind that is not known; supported are {SUPPORTED}")


def _folder(file: Source, path: Path, asked: LoadOptions) -> Imported:
    if (path / "saved_model.pb").exists():
        raise file.error("", "is a SavedModel of TensorFlow, which is not supported; save the model as .keras or .h5")
    if hydrology.recognised(path):
        said = {name: value for name, value in asked.given.items() if name != "readout"}
        _refuse(file, config=asked.config, custom=asked.custom, **said)
        run = hydrology.HydrologyRun(path, asked.max_bytes, asked.which)
        return Imported(run.read(asked.readout), run.notes, kind="run of neuralhydrology")
    _refuse(file, which=asked.which)
    if not reference.recognised(path):
        raise file.error(
            "",
            f"is a folder, and neither one of LRP_for_LSTM, which has {', '.join(reference.FILES)}, nor a run of "
            "neuralhydrology, which has config.yml and model_epoch001.pt",
        )
    model, notes = reference.Reference(path, asked.max_bytes).read()
    _check_hints(file, model, asked)
    return Imported(model, notes, kind="files of LRP_for_LSTM")


def _zip(path: Path, budget: Budget, asked: LoadOptions) -> Report:
    from lrpnumpy.files.keras import version3 as keras3

    budget.restart()  # the import is not the file's fault
    with NpzFile(str(path), budget) as archive:
        if any(map(torchsave.is_pickle, archive.members)):
            saved = torchsave.SavedZip(archive, asked.which)
            return _torch(path, saved.kind, saved, asked, saved.described)
        if set(keras3.MEMBERS) <= set(archive.members):
            return _keras(path, archive, keras3.read_archive(archive, asked), asked)
        _refuse(archive, which=asked.which)
        if not all(name.endswith(".npy") for name in archive.members):
            if any(name.endswith("data/weights/model_weights_config.json") for name in archive.members):
                raise archive.error("", f"is a program of torch.export; {torchsave.SAVE_STATE}")
            shown = ", ".join(list(archive.members)[:10])
            raise archive.error(
                "", f"is a zip archive of a kind that is not known, with {shown}; supported are {SUPPORTED}"
            )
        return _torch(path, "PyTorch arrays in npz", archive, asked)


def _torch(path: Path, kind: str, source: Source, asked: LoadOptions, described: Any = None) -> Report:
    """Arrays with PyTorch's names, whatever holds them."""
    _refuse(source, custom=asked.custom)
    names = source.names()
    if not torch_modules.recognised(names) and asked.layers is None:
        shown = ", ".join(names[:10]) or "nothing"
        reason = f"has no array called weight_ih_l0 or the like, it has {shown}; supported are {SUPPORTED}"
        raise source.error("", torch_modules.gates_advice(source, names) or reason)
    found = torch.read(source, torch.hints(source, asked.config, asked), described)
    return found._replace(kind=kind).report(path)


def _check_hints(file: Source, model: Model, asked: LoadOptions) -> None:
    """Refuse hints that contradict a file which says by itself how it is read."""
    for name, value in asked.given.items():
        own = model.output if name == "output" else None
        if value != own and not (name == "output" and own == "linear"):  # scores may be logits
            has = f"has the {name} {own!r}" if own is not None else "says by itself how its layers are connected"
            raise file.error("", f"{has}; leave out {name}, got {kind_of(value)}")


def _refuse(file: Source, **given: Any) -> None:
    """Refuse what the caller says though there is nothing to say."""
    for name, value in given.items():
        if value is not None:
            raise file.error("", f"says by itself what it holds; {name} must be left out, got {kind_of(value)}")
