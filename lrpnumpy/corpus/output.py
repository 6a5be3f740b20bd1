"""Finished chunks to the one HDF5 file of a run, and the list of rejected records beside it.

The layout is specified in docs/corpora.md. A chunk at a time is in memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lrpnumpy.corpus.layout import FORMAT, NUMBERS, VERSION
from lrpnumpy.corpus.parts import Parts, cannot_write, sync, written


def write_output(parts: Parts, out: Path, run: Mapping[str, Any]) -> dict[str, int]:
    """Make the output file of all chunks, and the list of rejected records; returns how many there are."""
    notes = [parts.note(k) for k in range(parts.count)]
    counts = {
        "records": sum(note["records"] for note in notes),
        "explained": sum(note["shapes"]["records"][0] for note in notes),
        "rejected": sum(len(note["rejected"]) for note in notes),
        "doubtful": sum(note["doubtful"] for note in notes),
    }
    _write_rejected(rejected_path(out), [entry for note in notes for entry in note["rejected"]])
    made = parts.folder / "out.h5"
    try:
        made.unlink(missing_ok=True)
        _write_hdf5(parts, made, notes, {**run, **counts})
        with made.open("rb+") as file:
            os.fsync(file.fileno())
        made.replace(out)
        sync(out.parent)
    except OSError as error:
        made.unlink(missing_ok=True)
        raise cannot_write(out, error) from error
    return counts


def rejected_path(out: Path) -> Path:
    """Where the records that could not be explained are listed, one JSON object a line."""
    return out.with_name(f"{out.name}.rejected.jsonl")


def _write_rejected(path: Path, entries: list[tuple[int, str]]) -> None:
    path.unlink(missing_ok=True)
    if entries:
        with written(path) as file:
            for number, reason in entries:
                file.write(json.dumps({"record": number, "reason": reason}).encode() + b"\n")


def _write_hdf5(parts: Parts, path: Path, notes: list[dict[str, Any]], attributes: Mapping[str, Any]) -> None:
    import h5py

    with h5py.File(path, "x", libver=("v110", "v110")) as file:
        file.attrs["format"] = np.bytes_(FORMAT)
        file.attrs["version"] = VERSION
        file.attrs["run"] = np.bytes_(json.dumps(attributes).encode())
        ends: dict[str, int] = {}
        for k in range(parts.count):
            arrays = parts.arrays(k)
            if k == 0:
                for name, array in arrays.items():
                    _create(file, name, sum(note["shapes"][name][0] for note in notes), array)
            for name, array in arrays.items():
                start = ends.get(name, 0)
                ends[name] = start + len(array)
                if name in NUMBERS:
                    dataset = file[NUMBERS[name]]
                    dataset[start + 1 : ends[name] + 1] = dataset[start] + np.cumsum(array)
                elif len(array):
                    file[name][start : ends[name]] = array


def _create(file: Any, name: str, count: int, like: np.ndarray) -> None:
    """An array of the final size, stored in one piece, so that any rows of it are read at once."""
    if name in NUMBERS:
        file.create_dataset(NUMBERS[name], (count + 1,), "<i8")[0] = 0
    else:
        file.create_dataset(name, (count, *like.shape[1:]), like.dtype.newbyteorder("<"))
