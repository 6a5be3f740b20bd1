"""Weight files to models and back: the kind of a file is detected from its contents."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lrpnumpy.checks import AssumptionWarning, LrpError, WeightFileError, one_of, outside, shown, whole
from lrpnumpy.files.disk import check_free
from lrpnumpy.files.hints import NETWORK, taken, takes_hints
from lrpnumpy.files.named import named
from lrpnumpy.files.native import save, save_many
from lrpnumpy.files.report import Report
from lrpnumpy.files.safe import MAX_BYTES
from lrpnumpy.meant import door
from lrpnumpy.model import Model
from lrpnumpy.series import read_csv
from lrpnumpy.tables import Table

if TYPE_CHECKING:
    from lrpnumpy.files.keras.live import from_keras
    from lrpnumpy.files.torch.live import from_torch

__all__ = ["Report", "convert", "from_keras", "from_torch", "inspect", "load", "sample", "save", "save_many", "shipped"]

NO_PROBABILITY = "no probability belongs to the scores; say output='softmax' or 'sigmoid' if they are logits"


# Where bundled models are: beside the package in a checkout, inside it once installed.
SHIPPED = (Path(__file__).parents[1] / "weights", Path(__file__).parents[2] / "weights")


def __getattr__(name: str) -> Any:
    """`from_keras` and `from_torch`, loaded when they are first asked for: the import stays light."""
    if name not in ("from_keras", "from_torch"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"lrpnumpy.files.{name.removeprefix('from_')}.live"), name)


@takes_hints()
@door
def load(
    path: str | os.PathLike[str],
    *,
    check: Any = None,
    isolate: bool = False,
    max_bytes: int = MAX_BYTES,
    **hints: Any,
) -> Model:
    """The model in a weight file of any supported kind at `path`, or a bundled model by name: `load("sentiment")`.

    Hints provide what a file does not store; an AssumptionWarning lists what is assumed. `check=(x, y)` compares the
    scores of the input x with y, those of the framework. Nothing in a file is ever executed, and no more than
    `max_bytes` of arrays are read. With `isolate` the file is read in a separate process; bundled models are always
    read in this one.
    """
    report = _read("load", path, isolate, hints, max_bytes)
    model = report.model
    assert model is not None
    if check is not None:
        from lrpnumpy.files.compare import check_scores

        check_scores(model, check, report.file)
    for text in report.warnings if check is None else ():
        warnings.warn(f"{report.file}: {text}.", AssumptionWarning, stacklevel=outside())
    return model


@takes_hints()
@door
def inspect(path: str | os.PathLike[str], *, isolate: bool = False, max_bytes: int = MAX_BYTES, **hints: Any) -> Report:
    """What `load` understands of a file: layers, shapes, gates, vocabulary, and what was assumed and why.

    path, isolate, max_bytes: as in `load`.
    """
    return _read("inspect", path, isolate, hints, max_bytes, several=True)


@takes_hints()
@door
def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    check: Any = None,
    isolate: bool = False,
    max_bytes: int = MAX_BYTES,
    **hints: Any,
) -> Model:
    """Write the model of any supported file, `source`, in the native format to `target`, and return it.

    check, isolate, max_bytes: as in `load`.

    An existing target raises an error unless `overwrite` is true. The source is never overwritten.
    """
    _check_other(_locate(source), target)
    check_free(target, overwrite)
    model = load(source, check=check, isolate=isolate, max_bytes=max_bytes, **hints)
    save(model, target, overwrite=overwrite)
    return model


def _check_other(source: Path, target: str | os.PathLike[str]) -> None:
    """Refuse a target that is read from, by whatever name: the source, or a file of a source folder."""
    read = [source, *(source.iterdir() if source.is_dir() else ())]
    for path in read if os.path.exists(os.fspath(target)) else ():
        if os.path.samefile(path, target):
            got = f"got {os.fspath(target)}, the same as {path}; choose another name"
            raise LrpError(f"convert: target must be another file than what is read, {got}.")


def shipped() -> dict[str, Path]:
    """The models that come with lrpnumpy, by name."""
    return {path.stem: path for folder in SHIPPED for path in sorted(folder.glob("*.h5"))}


@door
def sample(name: str) -> Table:
    """Bundled data for a bundled model: `sample("river")` is two years of daily weather and observed discharge.

    name: "river".
    """
    paths = {path.stem.removeprefix("sample-"): path for folder in SHIPPED for path in folder.glob("sample-*.csv")}
    found = read_csv(paths[one_of(name, "name", tuple(sorted(paths)))].read_text("utf-8"))
    assert found.labels is not None
    return found._replace(labels=found.labels.astype("datetime64[D]"))


def _read(
    function: str,
    path: str | os.PathLike[str],
    isolate: bool,
    hints: Mapping[str, Any],
    max_bytes: int,
    several: bool = False,
) -> Report:
    """The report on a file; words and names are given to its model here, whatever process has read it."""
    from lrpnumpy.files import kinds

    said, max_bytes = taken(function, hints), whole(max_bytes, f"{function}: max_bytes", 1)
    if said.custom is not None and isolate:
        raise LrpError(f"{function}: custom functions cannot run with isolate=True; leave one of the two out.")
    asked = {name: getattr(said, name) for name in (*NETWORK, "which", "config", "custom", "constants")}
    found = _locate(path)
    options = kinds.LoadOptions(**asked, max_bytes=max_bytes, several=several)
    if isolate and found not in shipped().values():
        from lrpnumpy.files import isolated

        report = isolated.read(found, options)
    else:
        report = kinds.read(found, options)
    if report.model is None:
        return report
    model, notes = named(report.file, report.model, said)
    in_units = model.output_unit is not None or model.output_scaler is not None
    if model.output == "linear" and said.output is None and not report.is_native and not in_units:
        notes.append(NO_PROBABILITY)
    return report.with_names(model, notes)


def _locate(path: str | os.PathLike[str]) -> Path:
    """The file at a path, or that of a bundled model if `path` is its name."""
    if not isinstance(path, (str, os.PathLike)):
        raise LrpError(
            f"load: path must be that of a file, or name a bundled model, got {shown(path)}; lrp.from_torch takes a "
            "module of PyTorch or its state_dict, lrp.from_keras a model of Keras."
        )
    name = os.fspath(path)
    if isinstance(path, str) and os.path.basename(name) == name and not Path(name).suffix:
        models = shipped()
        if name in models:
            return models[name]
        if not os.path.lexists(name):
            bundled = ", ".join(map(repr, sorted(models))) or "none"
            raise WeightFileError(f"{name}: no such file, and no bundled model of this name; bundled are {bundled}.")
    if not os.path.exists(name):
        from lrpnumpy.files.kinds import CHECKPOINT

        is_prefix = os.path.exists(f"{name}.index")
        raise WeightFileError(f"{name}: {CHECKPOINT}." if is_prefix else f"{name}: no such file; check the path.")
    return Path(name)
