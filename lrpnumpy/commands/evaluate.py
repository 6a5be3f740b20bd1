"""Command `evaluate`: which methods deserve trust."""

from __future__ import annotations

import argparse
import io
import os
from itertools import islice
from typing import Any

import lrpnumpy as lrp
from lrpnumpy.checks import whole
from lrpnumpy.commands.common import FIELD, FORMAT, HINTS, QUIET, Command, Flag, class_of, hints_of, write


def run_evaluate(options: argparse.Namespace) -> None:
    """Rank methods on a network and its data."""
    model = lrp.load(options.model, **hints_of(options))
    data, labels = _labeled(model, options)
    found = lrp.rank_methods(
        model,
        data,
        options.methods,
        labels,
        **{name: getattr(options, name) for name in ("measures", "reference", "unit", "versus", "state")},
        progress=False if options.quiet else None,
    )
    print(found)
    if options.json:
        write(options.json, found.to_json(indent=1))
    if options.html:
        write(options.html, found.to_html())
    if options.figure:
        content = io.BytesIO()
        try:
            found.figure().savefig(content, format=os.path.splitext(options.figure)[1].removeprefix(".") or "no ending")
        except ValueError as error:
            raise lrp.LrpError(f"--figure must end in a format of pictures, got {options.figure}: {error}.") from None
        write(options.figure, content.getvalue())


def _labeled(model: lrp.Model, options: argparse.Namespace) -> tuple[list[Any], list[Any] | None]:
    """The sequences of a file, and their classes where they were given."""
    from lrpnumpy.corpus import lines, sources

    source = sources.open_source(sources.Corpus(options.data, options.format, options.field))
    several = len(model.inputs) > 1
    data: list[Any] = []
    labels: list[Any] | None = None
    if options.most is not None:
        whole(options.most, "--most", 1)
    if options.label:
        if source.kind != "jsonl":
            raise lrp.LrpError(f"--label must have JSON lines as data, got {options.data}.")
        labels = []
    for number, record in enumerate(islice(source.records(), options.most), 1):
        try:
            data.append(sources.sequence(source.kind, options.field, record, several))
            if labels is not None:
                labels.append(lines.member(record, options.label))
        except lrp.LrpError as error:
            raise lrp.LrpError(f"{options.data}, record {number}: {error}.") from None
    return data, labels


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


FLAGS = (
    Flag("model", "weight file, or name of a bundled model"),
    Flag("data", "a .txt or .jsonl file (also .gz), .h5 or .npz file, as for corpus"),
    Flag("--methods A,B,…", "methods to rank (default: all, and random numbers)", _listed),
    Flag("--measures A,B,…", "measures to compute, see docs/trust.md (default: all)", _listed),
    Flag("--label FIELD", "field of JSON objects that holds the true class"),
    Flag("--reference", "replacement for a removed step: zero, mean, omit or a word", default="zero"),
    Flag("--unit", "what is removed: steps, or features (default: both, if possible)", ("step", "feature")),
    Flag("--versus", "rank explanations of the class in contrast to this one", class_of),
    FORMAT,
    FIELD,
    Flag("--most N", "use only the first N records", int),
    Flag("--state FOLDER", "store finished parts here, to resume an interrupted run"),
    QUIET,
    Flag("--html FILE", "also write a page"),
    Flag("--json FILE", "also write all numbers as JSON"),
    Flag("--figure FILE", "also write a figure, such as ranking.png"),
    *HINTS,
)
COMMANDS = {"evaluate": Command(run_evaluate, FLAGS)}
