"""The table of docs/keras.md: which layers of Keras open, and of which versions the tests have files with them.

python -m tests.support.keras_table    # writes it
"""

import json
import zipfile
from pathlib import Path

import h5py

from lrpnumpy.files.keras.layers import KNOWN

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "keras.md"
FOLDERS = {
    "Keras 1": ("keras1",),
    "Keras 2": ("tf_keras", "tf_keras_graphs", "tf2.12", "tf2.13", "cudnn"),
    "Keras 3": ("keras3", "keras3_graphs"),
}
BESIDES = {"NotEqual", "Any", "InputLayer"}  # part of every other model


def classes(config):
    """The classes in a configuration, those inside others too."""
    if isinstance(config, dict):
        inner = config.get("config")
        if config.get("class_name") in ("TFOpLambda", "SlicingOpLambda") and isinstance(inner, dict):
            yield {"getitem": "GetItem", "multiply": "Multiply"}.get(inner["function"].split(".")[-1], "")
        yield config.get("class_name")
    for value in config.values() if isinstance(config, dict) else config if isinstance(config, list) else ():
        yield from classes(value)


def configuration(path):
    """What a file says of its layers; nothing of one that has arrays alone."""
    if path.suffix == ".keras":
        with zipfile.ZipFile(path) as archive:
            return json.loads(archive.read("config.json"))
    with h5py.File(path) as file:
        return json.loads(file.attrs.get("model_config", "{}"))


def table():
    """The lines of the table."""
    seen = {
        version: {
            kind
            for folder in folders
            for path in (TESTS / "fixtures" / folder).iterdir()
            if path.suffix in (".h5", ".keras")
            for kind in classes(configuration(path))
        }
        for version, folders in FOLDERS.items()
    }
    lines = [f"| layer | {' | '.join(FOLDERS)} |", "| --- | --- | --- | --- |"]
    for kind in sorted(KNOWN - BESIDES):
        lines.append(f"| {kind} | {' | '.join('✓' if kind in seen[version] else '' for version in FOLDERS)} |")
    return lines


def written(text):
    """The page with the table as it must be."""
    head, _, rest = text.partition("## Layers, by version")
    before, _, after = rest.partition("\n\nNot supported:")
    said = before.split("\n\n| layer")[0].removesuffix("\n\nTABLE")
    return f"{head}## Layers, by version{said}\n\n" + "\n".join(table()) + f"\n\nNot supported:{after}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
