"""Which kind of file it is, from what the file says about itself, and the reader that goes with it."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lrpnumpy.files import native, onnx, reference, safetensors, torch
from lrpnumpy.files.report import Report
from lrpnumpy.files.safe import MAX_TEXT, Source, parse_json
from lrpnumpy.model import Model

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
SUPPORTED = (
    "lrpnumpy's own HDF5, Keras 1 to 3 (.h5, .keras, .weights.h5), PyTorch arrays in HDF5, .npz or "
    ".safetensors, ONNX, and the folder of LRP_for_LSTM"
)

Found = tuple[str, Model, list[str]]  # kind, model, what was assumed


def read(
    path: Path, which: str | None, config: Any, readout: str | None, max_bytes: int, several: bool = False
) -> Report:
    """What is in the file; whatever goes wrong on the way is a WeightFileError.

    With `several`, a file of several models is reported by their names where `which` picks none.
    """
    file = Source(str(path), max_bytes)
    with file.guard(""), np.errstate(all="ignore"):  # numbers that are not finite are refused by the records
        config = configuration(file, config)
        size, head = _start_of(file, path)
        if _offset_of_hdf5(path, head, size) is not None:
            return _hdf5(path, size, which, config, readout, max_bytes, several)
        if which is not None:
            raise file.error("", f"which must be left out, the file holds a single model, got {which!r}")
        kind, model, notes = _other(file, path, head, size, config, readout, max_bytes)
        return _reported(path, kind, model, notes)


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


def _offset_of_hdf5(path: Path, head: bytes, size: int) -> int | None:
    """Where the HDF5 signature is: at 0, 512, 1024, 2048, …, after a user block; None where it is not."""
    if head.startswith(HDF5_SIGNATURE):
        return 0
    offset = 512
    if path.is_dir():
        return None
    with path.open("rb") as stream:
        while offset + len(HDF5_SIGNATURE) <= size:
            stream.seek(offset)
            if stream.read(len(HDF5_SIGNATURE)) == HDF5_SIGNATURE:
                return offset
            offset *= 2
    return None


def _reported(path: Path, kind: str, model: Model, notes: list[str]) -> Report:
    """The report on an import, whose model remembers where it came from."""
    origin = {"imported from": kind, "file": path.name, **({"assumed": "; ".join(notes)} if notes else {})}
    return Report(str(path), kind, replace(model, provenance=origin), tuple(notes))


def _hdf5(
    path: Path, size: int, which: str | None, config: Any, readout: str | None, max_bytes: int, several: bool
) -> Report:
    from lrpnumpy.files import keras2, keras3
    from lrpnumpy.files.hdf5 import Hdf5

    with Hdf5(str(path), size, max_bytes=max_bytes) as file:
        if native.recognised(file):
            _refuse(file, "", config=config)
            kind, names = f"lrpnumpy HDF5, version {native.VERSION}", native.model_names(file)
            if several and names and which is None:
                return Report(str(path), kind, None, (), tuple(names))
            model = native.read(file, which)
            _check_readout(file, model, readout)
            return Report(str(path), kind, model)
        if which is not None:
            raise file.error("", f"which must be left out, the file holds a single model, got {which!r}")
        if keras2.recognised(file):
            kind, model, notes = keras2.read(file, config)
            _check_readout(file, model, readout)
        elif keras3.recognised(file):
            kind, model, notes = keras3.read_weights(file, config)
            _check_readout(file, model, readout)
        elif torch.recognised(names := file.names()):
            model, notes = torch.read(file, torch.said(file, config, readout))
            kind = "PyTorch arrays in HDF5"
        else:
            shown = ", ".join(names[:10]) or "nothing"
            raise file.error("", f"is HDF5 of a kind that is not known, with {shown}; supported are {SUPPORTED}")
        return _reported(path, kind, model, notes)


def _other(file: Source, path: Path, head: bytes, size: int, config: Any, readout: str | None, max_bytes: int) -> Found:
    if path.is_dir():
        if not reference.recognised(path):
            raise file.error("", f"is a folder, and not one of LRP_for_LSTM, which has {', '.join(reference.FILES)}")
        return "files of LRP_for_LSTM", *reference.Reference(path, max_bytes).read()
    if head.startswith(b"PK\x03\x04"):
        return _zip(path, config, readout, max_bytes)
    if safetensors.recognised(head, size):
        source = safetensors.Safetensors(str(path), max_bytes)
        if not torch.recognised(source.names()):
            raise file.error("", f"has no array called weight_ih_l0; it has {', '.join(source.names()[:10])}")
        return "PyTorch arrays in safetensors", *torch.read(source, torch.said(source, config, readout))
    if onnx.recognised(head):
        kind, model, notes = onnx.read(path, max_bytes)
        _check_readout(file, model, readout)
        return kind, model, notes
    raise file.error("", f"is of a kind that is not known; supported are {SUPPORTED}")


def _zip(path: Path, config: Any, readout: str | None, max_bytes: int) -> Found:
    from lrpnumpy.files import keras3
    from lrpnumpy.files.archive import Npz

    with Npz(str(path), max_bytes) as archive:
        if set(keras3.MEMBERS) <= set(archive.members):
            kind, model, notes = keras3.read_archive(archive, config)
            _check_readout(archive, model, readout)
            return kind, model, notes
        if any(name.endswith("data.pkl") for name in archive.members):
            raise archive.error(
                "",
                "is a pickle of torch.save, which is never opened; where torch is, use lrpnumpy.from_torch, "
                "or export the arrays as docs/files.md shows",
            )
        if all(name.endswith(".npy") for name in archive.members):
            if not torch.recognised(names := archive.names()):
                raise archive.error("", f"has no array called weight_ih_l0; it has {', '.join(names[:10])}")
            return "PyTorch arrays in npz", *torch.read(archive, torch.said(archive, config, readout))
        shown = ", ".join(list(archive.members)[:10])
        raise archive.error(
            "", f"is a zip archive of a kind that is not known, with {shown}; supported are {SUPPORTED}"
        )


def _check_readout(file: Source, model: Model, readout: str | None) -> None:
    if readout is not None and readout != model.readout:
        raise file.error("", f"says itself that its readout is {model.readout!r}; leave out readout, got {readout!r}")


def _refuse(file: Source, where: str, **options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise file.error(where, f"says everything itself; leave out {name}, got {json.dumps(value)[:60]}")
