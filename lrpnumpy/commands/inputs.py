"""What a file of `--input` holds, as `explain` takes it: numbers of .npy and .csv, several inputs of .npz and .json."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

from lrpnumpy import LrpError, Table
from lrpnumpy.checks import parse_json
from lrpnumpy.files import npy
from lrpnumpy.files.archive import read_npz
from lrpnumpy.files.safe import MAX_BYTES, Budget, Source, open_file, size_of
from lrpnumpy.series import read_csv


def read(name: str) -> Any:
    """The input in a file; whatever is wrong with it is an LrpError."""
    path = Path(name)
    readers = {".npy": _npy, ".npz": lambda path: read_npz(str(path)), ".json": _json}
    try:
        return readers.get(path.suffix.lower(), _csv)(path)
    except (OSError, ValueError) as error:
        must = "pass a .npy file or a .csv file of numbers, one step per line, or for several inputs a .npz or "
        if isinstance(error, FileNotFoundError):
            raise LrpError(f"{path}: no such file; {must}.json file.") from None
        reason = getattr(error, "strerror", None) or str(error).removesuffix(".")
        raise LrpError(f"--input: cannot read {path}: {reason}; {must}.json file.") from None


def _npy(path: Path) -> Any:
    with open_file(path) as stream:
        return npy.read(Source(str(path), Budget(str(path), size_of(stream))), "", stream, size_of(stream))


def _content(stream: IO[bytes]) -> bytes:
    """The content of a file, at most MAX_BYTES: Python allocates memory for all that it is asked to read."""
    return stream.read(min(size_of(stream), MAX_BYTES))


def _json(path: Path) -> Any:
    with open_file(path) as stream:
        return parse_json(_content(stream))


def _csv(path: Path) -> Table:
    with open_file(path) as stream:
        return read_csv(_content(stream).decode("utf-8-sig"))
