"""Explanations in a file to CSV, JSON lines and Parquet, a block at a time."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError
from lrpnumpy.corpus.parts import written
from lrpnumpy.result import Explanation

GROUP = 4096  # explanations in a row group of Parquet

Numbered = Iterable[tuple[int, Explanation]]


def export(numbered: Numbered, path: str | os.PathLike[str]) -> None:
    """Write explanations, each with the number of its record, in the format that the end of the name says."""
    target = Path(os.path.realpath(path))
    write = {".csv": to_csv, ".jsonl": to_jsonl, ".parquet": to_parquet}.get(target.suffix.lower())
    if write is None:
        raise LrpError(f"an export must end in .csv, .jsonl or .parquet, got {target.name!r}.")
    with written(target) as file:
        write(numbered, file)


def to_csv(numbered: Numbered, file: Any) -> None:
    """One row a record, class and step, with one column a variable where there are any."""
    text = io.TextIOWrapper(file, "utf-8", errors="surrogatepass", newline="")
    rows = csv.writer(text, lineterminator="\n")
    head = ["record", "target", "position", "token", "relevance"]
    for k, (number, whole) in enumerate(numbered):
        for e in [whole.for_class(c) for c in range(len(whole.scores))] if whole.target == "all" else [whole]:
            variables = np.empty((len(e), 0)) if e.variables is None else e.variables
            if k == 0 and head:
                rows.writerow(
                    head + list(e.features or [f"x{d}" for d in range(variables.shape[1])])[: variables.shape[1]]
                )
                head = []
            name = e.name_of(e.target)
            values = np.column_stack([e.relevance, variables]).tolist()
            rows.writerows([number, name, t, e.label(t), *row] for t, row in enumerate(values))
    if head:
        rows.writerow(head)
    text.flush()
    text.detach()


def to_jsonl(numbered: Numbered, file: Any) -> None:
    """One line a record: its number, and what `Explanation.from_json` reads back exactly."""
    for number, e in numbered:
        file.write(json.dumps({"record": number, **e.to_dict()}).encode() + b"\n")


def to_parquet(numbered: Numbered, file: Any) -> None:
    """One row a record, with lists for what has several values; the ledger's entries are columns."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise LrpError("Parquet needs pyarrow, which is not installed; try `pip install lrpnumpy[parquet]`.") from None
    writer, left = None, iter(numbered)
    while group := list(islice(left, GROUP)):
        table = pyarrow.Table.from_pylist([_row(number, e) for number, e in group], writer and writer.schema)
        writer = writer or parquet.ParquetWriter(file, table.schema)
        writer.write_table(table)
    if writer is None:
        raise LrpError("Parquet must have at least one explanation to know its columns, got none.")
    writer.close()


def _row(number: int, e: Explanation) -> dict[str, Any]:
    whole = e.to_dict()
    names = ("method", "target", "tokens", "marks", "scores", "probabilities", "relevance", "variables")
    ledger = {f"ledger_{name}": value for name, value in (whole["ledger"] or {}).items() if name != "kind"}
    row = {"record": number, **{name: whole[name] for name in names}, **ledger}
    row["target"] = e.name_of(e.target)
    return {name: value for name, value in row.items() if value is not None}
