"""Command `evaluate`: which methods deserve trust."""

from __future__ import annotations

import argparse
import io
import os
from itertools import islice
from typing import TYPE_CHECKING, Any

import lrpnumpy as lrp
from lrpnumpy.checks import whole
from lrpnumpy.commands.common import add_hints, class_of, command, hints_of, write
from lrpnumpy.files.safe import open_file

if TYPE_CHECKING:
    from lrpnumpy.commands.common import Commands


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
    most = options.most and whole(options.most, "--most", 1)
    if options.label:
        if source.kind != "jsonl":
            raise lrp.LrpError(f"--label must have JSON lines as data, got {options.data}; use --labels FILE.")
        labels = []
    for number, record in enumerate(islice(source.records(), most), 1):
        try:
            data.append(sources.sequence(source.kind, options.field, record, several))
            if labels is not None:
                labels.append(lines.member(record, options.label))
        except lrp.LrpError as error:
            raise lrp.LrpError(f"{options.data}, record {number}: {error}.") from None
    if options.labels:
        try:
            with open_file(options.labels) as file:
                labels = [class_of(line) for line in file.read().decode("utf-8").split()][: len(data)]
        except (OSError, ValueError) as error:
            raise lrp.LrpError(
                f"--labels: cannot read {options.labels} ({error}); pass a text file with one class per line."
            ) from None
    return data, labels


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def add(commands: Commands) -> None:
    """Add it to the program, with its options."""
    evaluate = command(commands, "evaluate", run_evaluate)
    evaluate.add_argument("model", help="weight file, or name of a bundled model")
    evaluate.add_argument("data", help=".txt or .jsonl (also .gz), .h5, .npz, as for corpus")
    evaluate.add_argument("--methods", metavar="A,B,…", type=_listed, help="default: all methods, and random numbers")
    evaluate.add_argument("--measures", metavar="A,B,…", type=_listed, help="default: all; see docs/trust.md")
    classes = evaluate.add_mutually_exclusive_group()
    classes.add_argument("--labels", metavar="FILE", help="text file with the true classes to explain, one per line")
    classes.add_argument("--label", metavar="FIELD", help="field of JSON objects that holds the true class")
    evaluate.add_argument(
        "--reference",
        default="zero",
        help="replacement for a removed step: zero, mean, omit or a word (default: %(default)s)",
    )
    evaluate.add_argument(
        "--unit", choices=("step", "feature"), help="what is removed: steps, or features (default: both, if possible)"
    )
    evaluate.add_argument("--versus", type=class_of, help="rank explanations of the class in contrast to this one")
    evaluate.add_argument("--format", choices=("text", "jsonl", "hdf5", "npz"), help="format of the data")
    evaluate.add_argument("--field", help="field of JSON objects, or array of values in a file of arrays")
    evaluate.add_argument("--most", type=int, metavar="N", help="use only the first N records")
    evaluate.add_argument("--state", metavar="FILE", help="store finished parts here, to resume an interrupted run")
    evaluate.add_argument("--quiet", action="store_true", help="show no progress")
    for kind, what in {"html": "a page", "json": "all numbers as JSON", "figure": "a figure, such as o.png"}.items():
        evaluate.add_argument(f"--{kind}", metavar="FILE", help=f"also write {what}")
    add_hints(evaluate)
