"""What a file of `--input` holds, as `explain` takes it: numbers of .npy and .csv, several inputs of .npz and .json."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import numpy as np

from lrpnumpy import LrpError, Table
from lrpnumpy.checks import parse_json
from lrpnumpy.files import npy
from lrpnumpy.files.archive import Archive
from lrpnumpy.files.safe import MAX_BYTES, Budget, Source, open_file, size_of
from lrpnumpy.series import read_csv


def read(name: str) -> Any:
    """The input in a file; whatever is wrong with it is an LrpError."""
    path = Path(name)
    readers = {".npy": _npy, ".npz": _npz, ".json": _json}
    try:
        return readers.get(path.suffix.lower(), _csv)(path)
    except (OSError, ValueError) as error:
        must = "--input must be a .npy file or a .csv file of numbers, one step a line, or of several inputs a .npz or "
        if isinstance(error, FileNotFoundError):
            raise LrpError(f"{path}: no such file; {must}.json file.") from None
        reason = getattr(error, "strerror", None) or str(error).removesuffix(".")
        raise LrpError(f"{must}.json file, got {path}: {reason}.") from None


def _array(source: Source, name: str, stream: IO[bytes], size: int) -> Any:
    """An array in the .npy format, of so many bytes with its header; strings are a list."""
    header = npy.read_header(source, name, stream)
    if header.start + header.nbytes != size:
        raise source.error(name, f"declares {header.nbytes:,} bytes, it has {size - header.start:,}")
    source.spend(name, header.nbytes)
    with source.guard(name):
        flat = np.frombuffer(stream.read(header.nbytes), header.dtype)
        found = flat.reshape(header.shape, order="F" if header.fortran else "C")
        return found.tolist() if header.dtype.kind == "U" else found


def _npy(path: Path) -> Any:
    with open_file(path) as stream:
        return _array(Source(str(path), Budget(str(path), size_of(stream))), "", stream, size_of(stream))


def _npz(path: Path) -> dict[str, Any]:
    found = {}
    with Archive(str(path)) as archive:
        for name, info in archive.members.items():
            with archive.guard(name), archive._open(name, MAX_BYTES) as stream:
                found[name.removesuffix(".npy")] = _array(archive, name, stream, info.file_size)
    return found


def _content(stream: IO[bytes]) -> bytes:
    """What is in a file: Python takes the memory for all that it is asked to read."""
    return stream.read(min(size_of(stream), MAX_BYTES))


def _json(path: Path) -> Any:
    with open_file(path) as stream:
        return parse_json(_content(stream))


def _csv(path: Path) -> Table:
    with open_file(path) as stream:
        return read_csv(_content(stream).decode("utf-8-sig"))
