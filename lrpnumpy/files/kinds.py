"""Which kind of file it is, from what the file says about itself, and the reader that goes with it."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lrpnumpy.files import native, onnx, reference, safetensors, torch
from lrpnumpy.files.report import Report
from lrpnumpy.files.safe import MAX_BYTES, MAX_TEXT, Source, parse_json
from lrpnumpy.model import Model

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
SUPPORTED = (
    "lrpnumpy's own HDF5, Keras 1 to 3 (.h5, .keras, .weights.h5), PyTorch arrays in HDF5, .npz or "
    ".safetensors, ONNX, and the folder of LRP_for_LSTM"
)
PICKLE = (
    "is a pickle, which is never opened; where torch is, use lrpnumpy.from_torch, or export the arrays as "
    "docs/files.md shows"
)

Found = tuple[str, Model, list[str]]  # kind, model, what was assumed


@dataclass(frozen=True)
class Asked:
    """What the caller says besides the path; with `several`, a file of many models is reported by their names."""

    which: str | None = None
    config: Any = None
    readout: str | None = None
    max_bytes: int = MAX_BYTES
    several: bool = False


def read(path: Path, asked: Asked) -> Report:
    """What is in the file; whatever goes wrong on the way is a WeightFileError."""
    file = Source(str(path), asked.max_bytes)
    with file.guard(""), np.errstate(all="ignore"):  # numbers that are not finite are refused by the records
        asked = replace(asked, config=configuration(file, asked.config))
        size, head = _start_of(file, path)
        if path.is_file() and _is_hdf5(path, size):
            return _hdf5(path, size, asked)
        _refuse(file, which=asked.which)
        return _reported(path, *_other(file, path, head, size, asked))


def configuration(file: Source, config: Any) -> Any:
    """The configuration as plain JSON: given as such, as JSON text, or as the path of a JSON file."""
    if isinstance(config, str) and config.lstrip()[:1] in ("{", "["):
        return parse_json(file, "config", config)
    if isinstance(config, (str, os.PathLike)):
        with file.guard("config", f"cannot be read from {config}"):
            if os.path.getsize(config) > MAX_TEXT:
                raise file.error("config", f"is over the limit of {MAX_TEXT:,} bytes")
            return parse_json(file, "config", Path(config).read_bytes())
    return config


def _start_of(file: Source, path: Path) -> tuple[int, bytes]:
    """Size and first bytes of a regular file; a folder has neither."""
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        return 0, b""
    if not stat.S_ISREG(status.st_mode):
        raise file.error("", "must be a regular file or a folder")
    with path.open("rb") as stream:
        return status.st_size, stream.read(64)


def _is_hdf5(path: Path, size: int) -> bool:
    """Whether the HDF5 signature is at 0, or after a user block at 512, 1024, 2048, …"""
    offset = 0
    with path.open("rb") as stream:
        while offset + len(HDF5_SIGNATURE) <= size:
            stream.seek(offset)
            if stream.read(len(HDF5_SIGNATURE)) == HDF5_SIGNATURE:
                return True
            offset = offset * 2 or 512
    return False


def _reported(path: Path, kind: str, model: Model, notes: list[str]) -> Report:
    """The report on an import, whose model remembers where it came from."""
    origin = {"imported from": kind, "file": path.name, **({"assumed": "; ".join(notes)} if notes else {})}
    return Report(str(path), kind, replace(model, provenance=origin), tuple(notes))


def _hdf5(path: Path, size: int, asked: Asked) -> Report:
    from lrpnumpy.files import keras2, keras3
    from lrpnumpy.files.hdf5 import Hdf5

    with Hdf5(str(path), size, max_bytes=asked.max_bytes) as file:
        if native.recognised(file):
            _refuse(file, config=asked.config)
            kind, names = f"lrpnumpy HDF5, version {native.version(file)}", native.model_names(file)
            if asked.several and names and asked.which is None:
                return Report(str(path), kind, None, (), tuple(names))
            model = native.read(file, asked.which)
            _check_readout(file, model, asked)
            return Report(str(path), kind, model)
        _refuse(file, which=asked.which)
        if keras2.recognised(file):
            kind, model, notes = keras2.read(file, asked.config)
            _check_readout(file, model, asked)
        elif keras3.recognised(file):
            kind, model, notes = keras3.read_weights(file, asked.config)
            _check_readout(file, model, asked)
        else:
            kind, model, notes = _torch("PyTorch arrays in HDF5", file, asked)
        return _reported(path, kind, model, notes)


def _other(file: Source, path: Path, head: bytes, size: int, asked: Asked) -> Found:
    if path.is_dir():
        return _folder(file, path, asked)
    if head.startswith(b"PK\x03\x04"):
        return _zip(path, asked)
    if safetensors.recognised(head, size):
        return _torch("PyTorch arrays in safetensors", safetensors.Safetensors(str(path), asked.max_bytes), asked)
    if onnx.recognised(head):
        kind, model, notes = onnx.read(path, asked.max_bytes)
        _check_readout(file, model, asked)
        return kind, model, notes
    raise file.error(
        "", PICKLE if head[:1] == b"\x80" else f"is of a kind that is not known; supported are {SUPPORTED}"
    )


def _folder(file: Source, path: Path, asked: Asked) -> Found:
    if (path / "saved_model.pb").exists():
        raise file.error("", "is a SavedModel of TensorFlow, which is not supported; save the model as .keras or .h5")
    if not reference.recognised(path):
        raise file.error("", f"is a folder, and not one of LRP_for_LSTM, which has {', '.join(reference.FILES)}")
    return "files of LRP_for_LSTM", *reference.Reference(path, asked.max_bytes).read()


def _zip(path: Path, asked: Asked) -> Found:
    from lrpnumpy.files import keras3
    from lrpnumpy.files.archive import Npz

    with Npz(str(path), asked.max_bytes) as archive:
        if set(keras3.MEMBERS) <= set(archive.members):
            kind, model, notes = keras3.read_archive(archive, asked.config)
            _check_readout(archive, model, asked)
            return kind, model, notes
        if any(name.endswith("data.pkl") for name in archive.members):  # of torch.save
            raise archive.error("", PICKLE)
        if not all(name.endswith(".npy") for name in archive.members):
            shown = ", ".join(list(archive.members)[:10])
            raise archive.error(
                "", f"is a zip archive of a kind that is not known, with {shown}; supported are {SUPPORTED}"
            )
        return _torch("PyTorch arrays in npz", archive, asked)


def _torch(kind: str, source: Source, asked: Asked) -> Found:
    """Arrays with PyTorch's names, whatever holds them."""
    names = source.names()
    if not torch.recognised(names):
        shown = ", ".join(names[:10]) or "nothing"
        raise source.error(
            "", f"has no array called weight_ih_l0 or the like, it has {shown}; supported are {SUPPORTED}"
        )
    return kind, *torch.read(source, torch.said(source, asked.config, asked.readout))


def _check_readout(file: Source, model: Model, asked: Asked) -> None:
    if asked.readout not in (None, model.readout):
        raise file.error("", f"has the readout {model.readout!r}; leave out readout, got {asked.readout!r}")


def _refuse(file: Source, **given: Any) -> None:
    """Refuse what the caller says though there is nothing to say."""
    for name, value in given.items():
        if value is not None:
            raise file.error("", f"says by itself what it holds; {name} must be left out, got {repr(value)[:60]}")
