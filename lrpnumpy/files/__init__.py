"""Weight files to models and back: the kind of a file is recognised from what it says about itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lrpnumpy.checks import LrpError, WeightFileError
from lrpnumpy.files.native import save, save_many
from lrpnumpy.files.safe import MAX_BYTES
from lrpnumpy.model import Model

__all__ = ["load", "save", "save_many"]

# Where shipped models are: beside the package in a checkout, inside it once installed.
SHIPPED = (Path(__file__).parents[1] / "weights", Path(__file__).parents[2] / "weights")


def load(
    path: str | os.PathLike[str],
    *,
    which: str | None = None,
    config: Any = None,
    readout: str | None = None,
    isolate: bool = False,
    max_bytes: int = MAX_BYTES,
) -> Model:
    """The model in a weight file, or the shipped model of that name, as in `load("sentiment")`."""
    from lrpnumpy.files import native
    from lrpnumpy.files.hdf5 import Hdf5

    found = _locate(path)
    try:
        with Hdf5(str(found), found.stat().st_size, max_bytes=max_bytes) as file:
            if native.recognised(file):
                return native.read(file, which)
            raise file.error("", "is an HDF5 file of a kind that is not known")
    except WeightFileError:
        raise
    except LrpError as error:
        raise WeightFileError(f"{found}: {error}") from error


def shipped() -> dict[str, Path]:
    """The models that come with lrpnumpy, by name."""
    return {path.stem: path for folder in SHIPPED for path in sorted(folder.glob("*.h5"))}


def _locate(path: str | os.PathLike[str]) -> Path:
    """The file that is meant: a shipped model where a bare name is given that is one of theirs."""
    if isinstance(path, str) and os.path.basename(path) == path and not Path(path).suffix:
        models = shipped()
        if path in models:
            return models[path]
        if not Path(path).exists():
            names = ", ".join(map(repr, sorted(models))) or "none"
            raise WeightFileError(
                f"{path}: no such file, and no model of this name ships with lrpnumpy; shipped are {names}."
            )
    if not Path(path).exists():
        raise WeightFileError(f"{path}: no such file.")
    return Path(path)
