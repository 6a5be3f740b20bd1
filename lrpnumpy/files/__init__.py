"""Weight files to models and back: the kind of a file is recognised from what it says about itself."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lrpnumpy.checks import AssumptionWarning, LrpError, WeightFileError
from lrpnumpy.files.live import from_torch
from lrpnumpy.files.native import check_free, save, save_many
from lrpnumpy.files.report import Report
from lrpnumpy.files.safe import MAX_BYTES
from lrpnumpy.model import Model

__all__ = ["Report", "convert", "from_torch", "inspect", "load", "save", "save_many", "shipped"]

# Where shipped models are: beside the package in a checkout, inside it once installed.
SHIPPED = (Path(__file__).parents[1] / "weights", Path(__file__).parents[2] / "weights")


def load(
    path: str | os.PathLike[str],
    *,
    which: str | None = None,
    config: Any = None,
    readout: str | None = None,
    layers: Sequence[str] | None = None,
    activations: Sequence[str] | None = None,
    output: str | None = None,
    check: Any = None,
    custom: Mapping[str, Any] | None = None,
    isolate: bool = False,
    max_bytes: int = MAX_BYTES,
) -> Model:
    """The model in a weight file of any supported kind, or a shipped model by name: `load("sentiment")`.

    `which` picks one model of a file that holds several, or one output of a Keras model that has several. `config` is
    for files that hold arrays alone: Keras' configuration as JSON, JSON text, or the path of a JSON file. Files of
    PyTorch do not say how the network is put together: `readout` says how the steps become a prediction ("last",
    "last-row", "mean", "max" or "every"), `layers` names the modules in the order in which they are applied,
    `activations` those after each linear module but the last, `output` the probability of the scores ("softmax",
    "sigmoid" or "linear"). What is assumed is said by an AssumptionWarning. `check=(x, y)` compares the scores of the
    input x with y, those of the framework. `custom={"SimpleAttention": f}` says what a Keras layer does that lrpnumpy
    does not have, by its class or its name: f(settings, arrays) gets two dicts and gives a layer of lrpnumpy. Nothing
    in a file is ever executed, and no more than `max_bytes` of arrays are read. With `isolate` it is read in a
    process of its own, so that a file made to crash the HDF5 library cannot crash this one.
    """
    asked = {"which": which, "config": config, "custom": custom, "max_bytes": max_bytes}
    hints = {"readout": readout, "layers": layers, "activations": activations, "output": output}
    report = _read(path, isolate, hints, **asked)
    model = report.model
    assert model is not None
    if check is not None:
        from lrpnumpy.files.compare import check_scores

        check_scores(model, check, report.file)
    for text in report.warnings if check is None else ():
        warnings.warn(f"{report.file}: {text}.", AssumptionWarning, stacklevel=2)
    return model


def inspect(
    path: str | os.PathLike[str],
    *,
    which: str | None = None,
    config: Any = None,
    readout: str | None = None,
    layers: Sequence[str] | None = None,
    activations: Sequence[str] | None = None,
    output: str | None = None,
    custom: Mapping[str, Any] | None = None,
    isolate: bool = False,
    max_bytes: int = MAX_BYTES,
) -> Report:
    """What `load` understands of a file: layers, shapes, gates, vocabulary, and what was assumed and why."""
    asked = {"which": which, "config": config, "custom": custom, "max_bytes": max_bytes}
    hints = {"readout": readout, "layers": layers, "activations": activations, "output": output}
    return _read(path, isolate, hints, several=True, **asked)


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    config: Any = None,
    overwrite: bool = False,
    **asked: Any,
) -> Model:
    """Write the model of any supported file in the native format, and return it; takes what `load` takes.

    A target that exists is an error, unless `overwrite` says to replace it. What is read is never written over.
    """
    _check_other(_locate(source), config, target)
    check_free(target, overwrite)
    model = load(source, config=config, **asked)
    save(model, target, overwrite=overwrite)
    return model


def _check_other(source: Path, config: Any, target: str | os.PathLike[str]) -> None:
    """Refuse a target that is read from, by whatever name: the source, a file of a source folder, the configuration."""
    if not os.path.exists(target):
        return
    read = [source, *(source.iterdir() if source.is_dir() else ())]
    if isinstance(config, (str, os.PathLike)):
        read.append(Path(config))
    for path in read:
        if os.path.exists(path) and os.path.samefile(path, target):
            raise LrpError(
                f"convert: target must be another file than what is read, got {os.fspath(target)}, "
                f"which is the same file as {path}; choose another name."
            )


def shipped() -> dict[str, Path]:
    """The models that come with lrpnumpy, by name."""
    return {path.stem: path for folder in SHIPPED for path in sorted(folder.glob("*.h5"))}


def _read(path: str | os.PathLike[str], isolate: bool, hints: dict[str, Any], **asked: Any) -> Report:
    from lrpnumpy.files import isolated, kinds
    from lrpnumpy.files.torch import Hints

    if (custom := asked["custom"]) is not None:
        if not isinstance(custom, Mapping) or not all(map(callable, custom.values())):
            raise LrpError(f"load: custom must be a dict of names to functions, got {custom!r}.")
        if isolate:
            raise LrpError("load: custom must be left out with isolate=True, where no function of yours can run.")
    for name in ("layers", "activations"):
        if isinstance(hints[name], str):
            raise LrpError(f"load: {name} must be a list of names, got the string {hints[name]!r}.")
        hints[name] = None if hints[name] is None else [str(one) for one in hints[name]]
    return (isolated if isolate else kinds).read(_locate(path), kinds.Asked(hints=Hints(**hints), **asked))


def _locate(path: str | os.PathLike[str]) -> Path:
    """The file that is meant: a shipped model where a bare name is given that is one of theirs."""
    if not isinstance(path, (str, os.PathLike)):
        raise LrpError(f"load: path must be the path of a file or the name of a shipped model, got {path!r}.")
    name = os.fspath(path)
    if isinstance(path, str) and os.path.basename(name) == name and not Path(name).suffix:
        models = shipped()
        if name in models:
            return models[name]
        if not os.path.lexists(name):
            listed = ", ".join(map(repr, sorted(models))) or "none"
            raise WeightFileError(
                f"{name}: no such file, and no model of this name ships with lrpnumpy; shipped are {listed}."
            )
    if not os.path.exists(name):
        raise WeightFileError(f"{name}: no such file.")
    return Path(name)
