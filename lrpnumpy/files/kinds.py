"""The kind of a file, detected from its contents: one table of readers.

A row defines how to recognize a kind, which hints its reader takes, and which
function reads it. The module of a reader is imported when a file of its kind is recognized, and not before.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lrpnumpy.files.hints import NETWORK, Hints
from lrpnumpy.files.report import Imported, Report
from lrpnumpy.files.safe import MAX_BYTES, Budget, Source, kind_of, open_file, parse_json, read_json_file, size_of
from lrpnumpy.lazy import cached_property
from lrpnumpy.model import Model

if TYPE_CHECKING:
    from lrpnumpy.files.archive import NpzFile
    from lrpnumpy.files.hdf5 import Hdf5

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
ZIP_SIGNATURE = b"PK\x03\x04"
SUPPORTED = (
    "lrpnumpy's own HDF5, Keras 1 to 3 (.h5, .keras, .weights.h5), PyTorch's torch.save (.pt, .pth, .bin, .ckpt), "
    "PyTorch arrays in HDF5, .npz or .safetensors, ONNX, and the folders of neuralhydrology and of LRP_for_LSTM"
)
TORCH_MAGIC = 0x1950A86A20F9469CFC6C  # the first pickle of the older format of torch.save
KERAS_ROOTS = ("layers", "_layer_checkpoint_dependencies")  # where Keras 3 puts the layers of a model
KERAS_MEMBERS = {"config.json", "model.weights.h5"}  # of a .keras archive
REFERENCE = ("model", "vocab", "embeddings.npy")  # files of LRP_for_LSTM
SAVE_STATE = "write torch.save(model.state_dict(), path) in PyTorch, in float32, and open that"
OTHER_PICKLE = (
    "is a pickle, but not one of torch.save; save the network with its own library "
    "(torch.save(model.state_dict(), path), or model.save(path) of Keras), or a dict of arrays with "
    "np.savez('model.npz', **arrays), and open that"
)


@dataclass(frozen=True)
class LoadOptions(Hints):
    """The caller's options besides the path; with `several`, a file of many models is reported by their names."""

    max_bytes: int = MAX_BYTES
    several: bool = False


class WeightFile(Source):
    """A file or folder whose kind is looked for; it is opened as HDF5 or zip when that is first asked for."""

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        self.path, self.head, self.size, self.is_hdf5 = path, b"", 0, False
        self.is_folder = path.is_dir()
        if not self.is_folder:
            self._look()
        super().__init__(str(path), Budget(str(path), self.size, max_bytes))

    def _look(self) -> None:
        """Size and first bytes, and whether the signature of HDF5 is at 0, or at 512, 1024, 2048, …"""
        with open_file(self.path) as stream:
            self.size, self.head, offset = size_of(stream), stream.read(64), 0
            while offset + len(HDF5_SIGNATURE) <= self.size and not self.is_hdf5:
                stream.seek(offset)
                self.is_hdf5 = stream.read(len(HDF5_SIGNATURE)) == HDF5_SIGNATURE
                offset = offset * 2 or 512
        if self.is_hdf5:
            self.head = HDF5_SIGNATURE  # whatever is in front of it

    def needed(self, name: str) -> Any:
        """What "module:name" of this folder is, imported now; the time that this takes is not the file's."""
        module, _, function = name.partition(":")
        with self.budget.paused():
            return getattr(import_module(f"lrpnumpy.files.{module}"), function)

    @property
    def is_zip(self) -> bool:
        """Whether it is a zip archive."""
        return self.head.startswith(ZIP_SIGNATURE)

    @cached_property
    def hdf5(self) -> Hdf5:
        """The file as HDF5."""
        return self._opened.enter_context(self.needed("hdf5:Hdf5")(self.file, self.size, budget=self.budget))

    @cached_property
    def archive(self) -> NpzFile:
        """The file as a zip archive."""
        return self._opened.enter_context(self.needed("archive:NpzFile")(self.file, self.budget))

    @cached_property
    def members(self) -> set[str]:
        """Names of the members of a zip archive, or of the entries of a folder."""
        if self.is_folder:
            with os.scandir(self.path) as entries:
                return {entry.name for entry in entries}
        return set(self.archive.members) if self.is_zip else set()

    @property
    def where_keras_lists(self) -> str | None:
        """The group in which an HDF5 file lists its layers as Keras 1 and 2 do; None where there is no such list."""
        for root in ("model_weights", ""):
            names = ("layer_names", "layer_names0") if self.hdf5.is_group(root) else ()
            if any(self.hdf5.attribute(root, name) is not None for name in names):
                return root
        return None


class FileReader(NamedTuple):
    """One row: `reads` is "module:function", called with the opened file and the options; or why it is refused."""

    recognizes: Callable[[WeightFile], bool]
    reads: str = ""
    takes: tuple[str, ...] = ()  # hints about the network
    refused: str = ""


_ARRAYS = ("config", *NETWORK)  # hints about arrays without a program
_KERAS = ("which", "custom", "config")
INSIDE = ("model.safetensors", "pytorch_model.bin", "policy.pth")  # what folders and archives hold, the first first
_SAVED_MODEL = (
    "is a SavedModel of TensorFlow, a program, which is not supported; run m = tf_keras.models.load_model('folder') "
    "and m.save('model.h5'), and open that"
)
CHECKPOINT = (
    "is a checkpoint of TensorFlow, which is not supported; run model.load_weights('prefix') and "
    "model.save_weights('model.weights.h5') with the model that wrote it, and open that"
)
_GRAPH = (
    "is a graph of TensorFlow, which is not supported; run python -m tf2onnx.convert --{} --output model.onnx and open "
    "that"
)
_FOLDER = (
    "is a folder, and not one of LRP_for_LSTM (with model, vocab and embeddings.npy), nor a run of neuralhydrology "
    f"(with config.yml and model_epoch001.pt); nor does it hold {' or '.join(INSIDE)}"
)
_POINTER = "is a pointer of Git LFS, not the file itself; run git lfs pull in its repository, and open it again"
_PAGE = "is a web page (HTML or XML), which a server sends in place of a file; download the file itself, and open that"
READERS = (
    FileReader(lambda file: is_saved_model(file), refused=_SAVED_MODEL),
    FileReader(
        lambda file: file.path.suffix in (".pb", ".meta") and file.head[:1] == b"\n",
        refused=_GRAPH.format("graphdef model.pb (or --checkpoint model.meta) --inputs x:0 --outputs y:0"),
    ),
    FileReader(lambda file: file.head[4:8] == b"TFL3", refused=_GRAPH.format("tflite model.tflite")),
    FileReader(lambda file: is_checkpoint(file), refused=CHECKPOINT),
    FileReader(
        lambda file: not file.is_folder and file.head[:2] == b"\x1f\x8b",
        refused="is compressed with gzip; unpack it, and open the weight file inside",
    ),
    FileReader(lambda file: is_hydrology(file), "torch.hydrology:read", ("which", "readout")),
    FileReader(lambda file: file.is_folder and file.members.issuperset(REFERENCE), "reference:read"),
    FileReader(lambda file: inside(file) != "", "containers:read", ("which", *_ARRAYS)),
    FileReader(lambda file: file.is_folder, refused=_FOLDER),
    FileReader(lambda file: file.size == 0, refused="is empty, it has 0 bytes; save or download it again"),
    FileReader(lambda file: file.head.startswith(b"version https://git-lfs"), refused=_POINTER),
    FileReader(
        lambda file: file.head.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith((b"<!doctype", b"<html", b"<?xml")),
        refused=_PAGE,
    ),
    FileReader(
        lambda file: file.is_hdf5 and file.hdf5.attribute("", "format") == "lrpnumpy",
        "native:read_file",
        ("which", "custom"),
    ),
    FileReader(lambda file: file.is_hdf5 and file.where_keras_lists is not None, "keras.version2:read", _KERAS),
    FileReader(lambda file: file.is_hdf5 and is_keras_3(file.hdf5), "keras.version3:read_weights", _KERAS),
    FileReader(
        lambda file: (is_saved(file) or is_other_pickle(file.head)) and checkpoint_beside(file.path) is not None,
        "containers:read_checkpoint",
        ("which", *_ARRAYS),
    ),
    FileReader(lambda file: is_saved(file), "torch.model:read_saved", ("which", *_ARRAYS)),
    FileReader(lambda file: file.members >= KERAS_MEMBERS, "keras.version3:read_archive", _KERAS),
    FileReader(
        lambda file: any(name.endswith("/model_weights_config.json") for name in file.members),
        refused=f"is a program of torch.export; {SAVE_STATE}",
    ),
    FileReader(lambda file: is_onnx(file.head), "onnx.model:read", ("which", "custom", "constants")),
    FileReader(lambda file: file.is_hdf5 or is_npz(file) or is_safetensors(file), "torch.model:read_arrays", _ARRAYS),
    FileReader(lambda file: is_other_pickle(file.head), refused=OTHER_PICKLE),
)


def inside(file: WeightFile) -> str:
    """The file that a folder or an archive holds for its model; "" where there is none."""
    if any(map(is_pickle, file.members)):  # of torch.save itself
        return ""
    found = {name.rpartition("/")[2]: name for name in file.members}
    return next((found[name] for name in INSIDE if name in found), "")


def is_saved_model(file: WeightFile) -> bool:
    """Whether it is a SavedModel of TensorFlow: the file, its folder, or the folder of its numbered versions."""
    if "saved_model.pb" in (file.path.name, *file.members):
        return True
    versions = [name for name in file.members if file.is_folder and name.isdecimal()]
    return any((file.path / name / "saved_model.pb").is_file() for name in versions)


def is_checkpoint(file: WeightFile) -> bool:
    """Whether it is one of the files that a checkpoint of TensorFlow consists of, or their folder."""
    found = re.search(r"\.(index|data-[0-9]{5}-of-[0-9]{5})$", "\n".join([file.path.name, *file.members]), re.MULTILINE)
    return found is not None or file.head.startswith(b"model_checkpoint_path")


def is_keras_3(file: Hdf5) -> bool:
    """Whether an HDF5 file has a group of Keras 3 for layers, or a layer beside it: dense/vars/0, gru/cell/vars/0."""
    if any(map(file.is_group, KERAS_ROOTS)):
        return True
    return any(re.search(r"/vars/[0-9]+$", name) for name in file.names())


def is_hydrology(file: WeightFile) -> bool:
    """Whether a folder is a run of neuralhydrology, with the arrays of an epoch."""
    epochs = [name for name in file.members if re.fullmatch(r"model_epoch[0-9]{1,9}\.pt", name)]
    return file.is_folder and "config.yml" in file.members and bool(epochs)


def is_pickle(name: str) -> bool:
    """Whether a member of an archive is the pickle of torch.save."""
    return name == "data.pkl" or (name.endswith("/data.pkl") and name.count("/") == 1)


def is_saved(file: WeightFile) -> bool:
    """Whether a file is one of torch.save: an archive, or in the older format, whose first pickle is a magic number."""
    is_legacy = file.head[:1] == b"\x80" and TORCH_MAGIC.to_bytes(10, "little") in file.head[:32]
    return is_legacy or any(map(is_pickle, file.members))


def is_other_pickle(head: bytes) -> bool:
    """Whether a file starts as a pickle does."""
    return head[:1] == b"\x80" or head[:2] in (b"(d", b"cc", b"c_", b"ct")


def checkpoint_beside(path: Path) -> Path | None:
    """The checkpoint beside a pickle: model.pt.ckpt, as darts writes it, or model.ckpt beside model.pt."""
    candidates = [Path(f"{path}.ckpt")]
    if path.suffix in (".pt", ".pth"):
        candidates.append(path.with_suffix(".ckpt"))
    return next(filter(Path.is_file, candidates), None)


def is_npz(file: WeightFile) -> bool:
    """Whether a file is a zip archive of arrays."""
    return file.is_zip and all(name.endswith(".npy") for name in file.members)


def is_onnx(head: bytes) -> bool:
    """Whether a file starts as a ModelProto does: version, then producer, graph or operator set."""
    return len(head) > 2 and head[0] == 0x08 and 1 <= head[1] < 32 and head[2] in b"\x12\x1a\x22\x28\x32\x3a\x42"


def is_safetensors(file: WeightFile) -> bool:
    """Whether a file starts with the length of a JSON object that fits into it."""
    length = int.from_bytes(file.head[:8], "little")
    return len(file.head) > 8 and file.head[8:9] == b"{" and 2 <= length <= file.size - 8


def read(path: Path, options: LoadOptions) -> Report:
    """What is in the file; whatever goes wrong on the way is a WeightFileError."""
    source = Source(str(path))
    with source.guard(""), np.errstate(all="ignore"):  # numbers that are not finite are refused by the records
        options = replace(options, config=configuration(source, options.config))
        found = imported(path, options)
    return found if isinstance(found, Report) else found.report(path)


def imported(path: Path, options: LoadOptions) -> Imported | Report:
    """The model in a file, by the first reader that recognizes it; a report on a file of several models."""
    with WeightFile(path, options.max_bytes) as file:
        reader = next((one for one in READERS if one.recognizes(file)), None)
        if reader is None:
            what = "is of a kind that is not known"
            if file.is_zip:
                what = f"is a zip archive of a kind that is not known, with {', '.join(sorted(file.members)[:10])}"
            raise file.error("", f"{what}; supported are {SUPPORTED}")
        if reader.refused:
            raise file.error("", reader.refused)
        _check_taken(file, options, reader.takes)
        found = file.needed(reader.reads)(file, options)
        if found.model is not None:
            file.budget.numbers("", found.model.declared)
        if isinstance(found, Imported) and not found.guessed:
            _check_agreed(file, found.model, options, reader.takes)
        return found


def configuration(file: Source, config: Any) -> Any:
    """The configuration as plain JSON: given as such, as JSON text, or as the path of a JSON file."""
    if isinstance(config, str) and config.lstrip()[:1] in ("{", "["):
        return parse_json(file, "config", config)
    if isinstance(config, (str, os.PathLike)):
        return read_json_file(file, "config", config)
    return config


def _check_taken(file: Source, options: LoadOptions, takes: tuple[str, ...]) -> None:
    """Refuse hints that a kind of file has no use for."""
    for name in ("which", "config", "custom", "constants"):
        value = getattr(options, name)
        if value is not None and name not in takes:
            raise file.error("", f"describes its contents; leave {name} out, got {kind_of(value)}")


def _check_agreed(file: Source, model: Model, options: LoadOptions, takes: tuple[str, ...]) -> None:
    """Refuse hints that contradict a file which describes how it is read."""
    for name, value in options.given.items():
        own = model.output if name == "output" else None
        if name in takes or value == own or own == "linear":  # scores may be logits
            continue
        fact = f"has the {name} {own!r}" if own is not None else "stores how its layers are connected"
        raise file.error("", f"{fact}; leave {name} out, got {kind_of(value)}")
