"""Which layer of which framework opens: the table docs/opens.md, made of what the tests of this folder open.

    python -m pytest tests/interop --opens     # with the frameworks
    python -m tests.interop.opens              # without: write the page again after a change to the lists of layers

Every file and every live module that a test opens is noted, with the layers in it and the version that wrote it. The
notes of a test that passes go into the table: there the scores were the framework's. So a new case needs nothing but a
test that opens it. Rows that are there stay, with the version of lrpnumpy in which they came.
"""

import json
import re
import zipfile
from pathlib import Path

import h5py

import lrpnumpy as lrp
from lrpnumpy.files.build import layers
from lrpnumpy.files.keras.layers import KNOWN
from lrpnumpy.files.torch import chain as torch_chain
from lrpnumpy.files.torch import hydrology
from lrpnumpy.files.torch import modules as torch_modules
from lrpnumpy.files.torch import pickled as modules

FIXTURES = Path(__file__).parents[1] / "fixtures"
PAGE = Path(__file__).parents[2] / "docs" / "opens.md"
TORCH = {
    *torch_modules.NAMES.values(), "LSTMCell", "GRUCell", "RNNCell", *modules.ACTIVATIONS, *modules.PROBABILITIES,
    *modules.NOTHING, *torch_chain.POOLS,
}  # fmt: skip
LISTS = {  # every layer that the readers know
    "Keras": sorted(KNOWN),
    "ONNX": sorted(layers.OPERATIONS),
    "PyTorch": sorted(TORCH),
    "neuralhydrology": sorted(hydrology.CELLS),
}
HEAD = """# What opens

These layers are tested with files and live modules that the framework itself made: scores agree with those of the
framework to 1e-5. "Written by" lists the versions of the framework, "since" the first version of lrpnumpy that opens
the layer. `python -m pytest tests/interop --opens` writes the tables; do not edit them. [Weight files](files.md)
describes each kind of file.
"""
COLUMNS = "| layer | written by | as | since |\n| --- | --- | --- | --- |\n"
UNSEEN = "Supported, but not yet tested with a file from the framework: "


class Note(tuple):
    """framework, layer, version, how it was written."""


def of_keras(path):
    """The layers in a Keras file, and the version that wrote it."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            text = archive.read("config.json").decode()
            version = json.loads(archive.read("metadata.json"))["keras_version"]
    else:
        with h5py.File(path) as file:
            text, version = file.attrs["model_config"], file.attrs.get("keras_version", "1")
    text, version = (one.decode() if isinstance(one, bytes) else str(one) for one in (text, version))
    kinds = re.findall(r'"class_name": ?"(?:\w+>)?(\w+)"', text)
    how = "`.keras`" if zipfile.is_zipfile(path) else "`.h5`"
    return [Note(("Keras", kind, version, how)) for kind in kinds if kind in KNOWN]


def of_onnx(path):
    """The operations in an ONNX file, and what wrote it."""
    try:
        import onnx
    except ImportError:
        return []
    model = onnx.load(path, load_external_data=False)
    version = f"{model.producer_name} {model.producer_version}".split("+")[0].removesuffix("None").strip() or "onnx"
    kinds = {node.op_type for node in model.graph.node}
    return [Note(("ONNX", kind, version, f"opset {model.opset_import[0].version}")) for kind in kinds]


def of_torch(kinds, how):
    """Modules of torch."""
    import torch

    version = torch.__version__.split("+")[0]
    return [Note(("PyTorch", kind, version, how)) for kind in kinds if kind in TORCH]


def of_module(module):
    """A live module of torch."""
    if not hasattr(module, "modules"):
        return of_torch([], "")
    return of_torch({type(part).__name__ for part in module.modules() if not list(part.children())}, "live")


def of_run(path):
    """A run of neuralhydrology."""
    found = dict(line.split(": ", 1) for line in (path / "config.yml").read_text().splitlines() if ": " in line)
    return [Note(("neuralhydrology", found["model"].lower(), found["package_version"], "run"))]


def of_file(path, found_modules):
    """What is in a file that was opened; `found_modules` are those of torch, if it is one of torch."""
    path = Path(path)
    if path.is_dir():
        return of_run(path) if (path / "config.yml").exists() else []
    if path.suffix == ".onnx":
        return of_onnx(path)
    if found_modules:
        return of_torch(found_modules, "`torch.save`" if path.suffix in (".pt", ".pth", ".bin", ".ckpt") else "arrays")
    try:
        return of_keras(path)
    except (OSError, KeyError, zipfile.BadZipFile):  # ours, or weights alone
        return []


def of_fixtures():
    """What is in the files of tests/fixtures, which older versions wrote, and whose scores tests/ compares."""
    found = []
    for rows in sorted([*FIXTURES.glob("*/scores.json"), *FIXTURES.glob("*/expected.json")]):
        for name in json.loads(rows.read_text()):
            if rows.parent.name not in ("torch", "torchsave", "reference", "native") and (rows.parent / name).exists():
                found += of_file(rows.parent / name, ())
    return found


def parse(text):
    """The rows of the page: (framework, layer) to versions, ways, since; and the layers without a row."""
    rows, unseen, framework = {}, {}, ""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("## "):
            framework = line[3:]
        elif line.startswith(UNSEEN):
            unseen[framework] = line.removeprefix(UNSEEN).rstrip(".").split(", ")
        elif line.startswith("| ") and len(cells) == 4 and cells[0] not in ("layer", "---"):
            rows[framework, cells[0]] = set(cells[1].split(", ")), set(cells[2].split(", ")), cells[3]
    return rows, unseen


def page(rows):
    """The page of such rows."""
    text = HEAD
    for framework, known in LISTS.items():
        text += f"\n## {framework}\n\n{COLUMNS}"
        seen = sorted(layer for name, layer in rows if name == framework and layer in known)
        for layer in seen:
            versions, ways, since = rows[framework, layer]
            text += f"| {layer} | {', '.join(sorted(versions))} | {', '.join(sorted(ways))} | {since} |\n"
        if rest := [layer for layer in known if layer not in seen]:
            text += f"\n{UNSEEN}{', '.join(rest)}.\n"
    return text


def write(notes):
    """Add notes to the page."""
    rows, _ = parse(PAGE.read_text()) if PAGE.exists() else ({}, {})
    for framework, layer, version, way in {*notes, *of_fixtures()}:
        versions, ways, since = rows.get((framework, layer), (set(), set(), lrp.__version__.split(".dev")[0]))
        rows[framework, layer] = versions | {version}, ways | {way}, since
    PAGE.write_text(page(rows))


if __name__ == "__main__":  # the lists of layers have changed: write the page again, with the rows that it has
    write(())
