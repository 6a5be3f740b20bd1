"""Explanations to one file: HDF5, CSV, JSON lines or Parquet, a part at a time."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterable
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import numpy as np

from lrpnumpy import tables
from lrpnumpy.checks import LrpError, encodable, library, optional
from lrpnumpy.corpus.parts import OF_STEPS, SHAPES, ragged
from lrpnumpy.fields import plain
from lrpnumpy.files.disk import check_free, written
from lrpnumpy.protocol import Results
from lrpnumpy.result import Explanation

GROUP = 4096  # explanations in a row group of Parquet
CHUNK = 1 << 13  # numbers in a chunk of HDF5


def export(results: Results, path: str | os.PathLike[str], overwrite: bool = False, formulas: bool = False) -> None:
    """Write explanations in the format given by the file extension."""
    target = check_export(path, overwrite)
    with written(target) as file:
        if target.suffix.lower() == ".csv":
            to_csv(results, file, formulas)
        else:
            WRITERS[target.suffix.lower()](results, file)


def check_export(path: str | os.PathLike[str], overwrite: bool) -> Path:
    """The file that an export may write; an LrpError if its extension is unknown, or if it exists."""
    target = Path(os.path.realpath(path))
    if target.suffix.lower() not in WRITERS:
        raise LrpError(f"an export must end in {', '.join(WRITERS)}, got {target.name!r}.")
    if not os.path.isdir(target.parent):
        raise LrpError(f"an export must be in a folder that exists, got {target}.")
    return check_free(target, overwrite, "export")


def to_hdf5(results: Any, file: Any) -> None:
    """Values of every field, and the shape that each record's have; words and columns are JSON."""
    import h5py

    columns = getattr(results, "columns", ())  # of stored explanations
    beside = zip(*map(results._texts, columns), strict=True) if columns else repeat(())
    left = zip(results.numbered(), beside, strict=False)
    count = 0
    with h5py.File(file, "w", libver=("v110", "v110")) as out:
        out.attrs["run"] = np.bytes_(json.dumps(_run_of(results)).encode())
        while group := list(islice(left, GROUP)):
            rows = [_fields(number, e, dict(zip(columns, values, strict=True))) for (number, e), values in group]
            for name in dict.fromkeys(name for row in rows for name in row):
                values = [row.get(name) for row in rows]
                if any(np.ndim(value) == 0 for value in values if value is not None):  # None would be left out
                    values = [np.nan if value is None else value for value in values]
                for path, array in ragged(name, values).items():
                    _append(out, path, array, count)
            count += len(group)
        out.flush()  # raises if the disk is full


def _run_of(results: Any) -> dict[str, Any]:
    """How stored explanations were computed; of those in memory what the first has besides its arrays."""
    if hasattr(results, "run"):
        return results.run
    if not len(results):
        return {}
    whole = results[0].to_dict()
    shown = {name: whole[name] for name in ("method", "classes", "options", "output_unit", "activation")}
    return {**shown, "features": {name: part["features"] for name, part in whole["inputs"].items()}}


def _fields(number: int, e: Explanation, columns: dict[str, Any]) -> dict[str, Any]:
    """What an explanation has, by name: the fields of a part, and values and labels of the steps besides."""
    row: dict[str, Any] = {"record": number, "scores": e.scores, "target": -1 if e.target == "all" else e.target}
    for name, part in e.inputs.items():
        row |= {f"inputs/{name}/{field}": getattr(part, field) for field in (*OF_STEPS, "values")}
        row[f"inputs/{name}/words"] = _json(part.tokens)
        row[f"inputs/{name}/labels"] = _json(optional(tables.shown, part.labels))
    if e.ledger is not None:
        row |= {f"ledger/{name}": value for name, value in vars(e.ledger).items()}
    row["tested"] = _json(optional(plain, e.tested))
    row["columns"] = _json({"method": e.method, "computed": e.computed, **columns})
    return row


def _json(value: Any) -> np.ndarray | None:
    """JSON as bytes."""
    if value is None:
        return None
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def _append(out: Any, name: str, array: np.ndarray, count: int) -> None:
    """Add to a dataset; one of shapes that begins after `count` explanations has -1 for these: they have no values."""
    is_shapes = name.endswith(SHAPES)
    if is_shapes and not array.shape[1]:  # one number per explanation
        return
    path = name if is_shapes else f"{name}/values"
    if path not in out:
        rest = array.shape[1:]
        out.create_dataset(path, (0, *rest), array.dtype, maxshape=(None, *rest), chunks=(CHUNK, *rest), fillvalue=-1)
    start = count if is_shapes else len(out[path])
    out[path].resize(start + len(array), axis=0)
    out[path][start:] = array


def to_csv(results: Results, file: Any, formulas: bool = False) -> None:
    """One row per record, class, input and step, with one column per feature where there are any."""
    text = io.TextIOWrapper(file, "utf-8", newline="")
    write_csv(results.numbered(), "record", text, formulas=formulas)
    text.flush()
    text.detach()


def cell(value: Any) -> Any:
    """A value that a spreadsheet does not compute: an apostrophe precedes text that looks like a formula.

    Numbers stay numbers, also as text. Signs alone, such as the dash of a treebank, compute nothing. Text after a
    semicolon or a tab is checked, too: some programs split there.
    """
    if not isinstance(value, str):
        return value
    text = encodable(value)
    if not _FORMULA.search(text) or not any(map(str.isalnum, text)):
        return text
    try:
        float(text)
        return text
    except ValueError:
        return _FORMULA.sub("'", text)


_SIGNS = r"[=+\-@\uff1d\uff0b\uff0d\uff20]"
_FORMULA = re.compile(rf"\A(?=[\t\r\n]|\s*{_SIGNS})|(?<=[;\t\r\n])(?=\s?{_SIGNS})")


def write_csv(
    noted: Iterable[tuple[Any, Explanation]],
    note: str,
    file: Any,
    feature_relevance: bool = True,
    formulas: bool = False,
) -> None:
    """Rows of explanations, each with its note in the first column.

    With several inputs, a column names the input of each step, and each input has its own feature columns. Text that
    looks like a formula is marked as text, see `cell`, unless `formulas` is true.
    """
    out, shown = csv.writer(file, lineterminator="\n"), encodable if formulas else cell
    columns: list[str] | None = None
    for beside, whole in noted:
        if columns is None:
            named = [name for part in whole.inputs.values() for name in part.feature_names if feature_relevance]
            columns = [*dict.fromkeys(named)]
            out.writerow([*map(shown, _head(note, len(whole.inputs) > 1) + columns + ["evidence"])])
        if isinstance(beside, str):
            beside = shown(beside)
        for e in whole.each_class:
            for name, part in e.inputs.items():
                first = [beside, shown(e.name_of(e.target))]
                if len(e.inputs) > 1:
                    first.append(shown(name))
                filled = np.full((len(part.relevance), len(columns)), "", object)
                if columns and part.feature_relevance is not None:
                    filled[:, [columns.index(name) for name in part.feature_names]] = part.feature_relevance.tolist()
                verdict = _verdict(e)
                rows = zip(map(shown, part.step_names), part.relevance.tolist(), filled.tolist(), strict=True)
                out.writerows([*first, t, step, R, *row, verdict] for t, (step, R, row) in enumerate(rows))
    if columns is None:
        out.writerow([*_head(note, False), "evidence"])


def _verdict(e: Explanation) -> str | None:
    """The verdict of the evidence; None, an empty cell of a CSV file, where it was not computed."""
    return optional(lambda tested: tested.verdict, e.tested)


def _head(note: str, several: bool) -> list[str]:
    return [note, "target", *(["input"] if several else []), "position", "token", "relevance"]


def to_jsonl(results: Results, file: Any) -> None:
    """One line per record: its number, and what `Explanation.from_json` reads back exactly."""
    for number, e in results.numbered():
        file.write(json.dumps({"record": number, **e.to_dict()}).encode() + b"\n")


def to_parquet(results: Results, file: Any) -> None:
    """One row per record, with lists for what has several values; the ledger's entries are columns."""
    pyarrow, parquet = library("pyarrow", "Parquet"), library("pyarrow.parquet", "Parquet")
    writer, left = None, iter(results.numbered())
    while group := list(islice(left, GROUP)):
        table = pyarrow.Table.from_pylist([_row(number, e) for number, e in group], writer and writer.schema)
        if writer is None:
            table = table.drop_columns([one.name for one in table.schema if one.type == pyarrow.null()])
            writer = parquet.ParquetWriter(file, table.schema)
        writer.write_table(table)
    if writer is None:
        raise LrpError("Parquet must have at least one explanation to know its columns, got none.")
    writer.close()


def _row(number: int, e: Explanation) -> dict[str, Any]:
    """The same columns for every explanation; those of other inputs than the main one end in `_of_NAME`."""
    whole = e.to_dict()
    row = {"record": number, "method": encodable(e.method), "target": encodable(e.name_of(e.target))}
    row |= {name: whole[name] for name in ("scores", "probabilities")}
    for k, (name, part) in enumerate(whole["inputs"].items()):
        end = f"_of_{name}" if k else ""
        part["marks"] = part["marks"] or [0] * np.shape(part["relevance"])[-1]  # the first group may have none
        part["tokens"] = part["tokens"] and [*map(encodable, part["tokens"])]
        row |= {key + encodable(end): part[key] for key in ("tokens", "marks", "relevance", "feature_relevance")}
    row["evidence"] = _verdict(e)
    return row | {f"ledger_{name}": value for name, value in (whole["ledger"] or {}).items() if name != "kind"}


WRITERS = {".h5": to_hdf5, ".csv": to_csv, ".jsonl": to_jsonl, ".parquet": to_parquet}
