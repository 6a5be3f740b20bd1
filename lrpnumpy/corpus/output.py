"""Finished chunks to the one HDF5 file of a run, and the list of rejected records beside it.

The layout is specified in docs/corpora.md. One chunk at a time is in memory.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lrpnumpy.corpus.layout import FORMAT, VERSION, offsets_of
from lrpnumpy.corpus.parts import Parts, cannot_write, written
from lrpnumpy.corpus.sources import joined
from lrpnumpy.corpus.stored import open_explanations
from lrpnumpy.files import disk


def write_output(parts: Parts, out: Path, run: Mapping[str, Any]) -> dict[str, int]:
    """Make the output file of all chunks, and the list of rejected records; returns how many there are."""
    made = parts.folder / "out.h5"
    try:
        counts, totals = _survey(parts, rejected_path(out))
        content = joined(parts.note(k).get("fingerprint", "") for k in range(parts.count))
        made.unlink(missing_ok=True)
        places = _lay_out(made, _shapes(parts, totals), {**run, "fingerprint": content, **counts})
        _fill(made, parts, places)
        open_explanations(made).close()  # it is what it should be
        made.replace(out)
        disk.sync(out.parent)
    except OSError as error:
        made.unlink(missing_ok=True)
        raise cannot_write(out, error) from error
    return counts


def rejected_path(out: Path) -> Path:
    """Where the records that could not be explained are listed, one JSON object a line."""
    return out.with_name(f"{out.name}.rejected.jsonl")


def _survey(parts: Parts, path: Path) -> tuple[dict[str, int], Counter[str]]:
    """What became of the records, and the total length of every array; writes the list of rejected records."""
    counts, totals = dict.fromkeys(("records", "explained", "rejected", "doubtful"), 0), Counter[str]()
    path.unlink(missing_ok=True)
    with written(path, parts.folder) as file:
        for k in range(parts.count):
            note = parts.note(k)
            totals.update({name: length for name, (_, length, *_) in note["arrays"].items()})
            counts["records"] += note["records"]
            counts["rejected"] += len(note["rejected"])
            counts["doubtful"] += note["doubtful"]
            for number, reason in note["rejected"]:
                file.write(json.dumps({"record": number, "reason": reason}).encode() + b"\n")
    if not counts["rejected"]:
        path.unlink()
    return counts | {"explained": totals["records"]}, totals


Shapes = dict[str, tuple[tuple[int, ...], np.dtype]]


def _shapes(parts: Parts, totals: Mapping[str, int]) -> Shapes:
    """Shape and dtype of every array of the output."""
    found: Shapes = {}
    for name, array in parts.arrays(0).items():
        if (offsets := offsets_of(name)) is not None:
            found[offsets] = (totals[name] + 1,), np.dtype("<i8")
        else:
            found[name] = (totals[name], *array.shape[1:]), array.dtype.newbyteorder("<")
    return found


def _lay_out(path: Path, shapes: Shapes, attributes: Mapping[str, Any]) -> dict[str, int]:
    """An HDF5 file with room for the arrays, each in one piece; returns where the pieces begin.

    The arrays are not written through the HDF5 library: it keeps some of the bytes back until an array is
    closed, and when the disk is full then, nobody is told.
    """
    import h5py
    from h5py import h5d, h5p

    settings = h5p.create(h5p.DATASET_CREATE)
    settings.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    settings.set_fill_time(h5d.FILL_TIME_NEVER)
    with h5py.File(path, "x", libver=("v110", "v110")) as file:
        file.attrs["format"] = np.bytes_(FORMAT)
        file.attrs["version"] = VERSION
        file.attrs["run"] = np.bytes_(json.dumps(attributes).encode())
        made = {name: file.create_dataset(name, *shape, dcpl=settings.copy()) for name, shape in shapes.items()}
        return {name: dataset.id.get_offset() for name, dataset in made.items() if dataset.size}


def _fill(path: Path, parts: Parts, places: dict[str, int]) -> None:
    """Write the arrays where they belong, and see them safely on disk."""
    with path.open("rb+") as file:

        def put(name: str, array: np.ndarray) -> None:
            """Write what comes next of an array."""
            if array.size:
                file.seek(places[name])
                places[name] += file.write(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())

        last = {name: np.int64(0) for name in places if name.rpartition("/")[2] == "offsets"}
        for name in last:
            put(name, np.zeros(1, np.int64))
        for k in range(parts.count):
            for name, array in parts.arrays(k).items():
                if (offsets := offsets_of(name)) is not None:
                    name, numbers = offsets, array
                    array = last[name] + np.cumsum(numbers, dtype=np.int64)
                    last[name] = array[-1] if len(array) else last[name]
                put(name, array)
        disk.flush(file)
