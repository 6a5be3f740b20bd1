"""Command `page`: one HTML file to explore results."""

from __future__ import annotations

import argparse
import sys

import lrpnumpy as lrp
from lrpnumpy.commands.common import Command, Flag
from lrpnumpy.page.chosen import TAKE


def run_page(options: argparse.Namespace) -> None:
    """Write one HTML file to explore results: a table of all records, and the explanation of each."""
    names = ("label", "name", "title", "most", "megabytes", "take", "seed")
    results = [lrp.open_explanations(path) for path in options.results]
    lrp.write_page(options.page, *results, **{name: getattr(options, name) for name in names})
    print(f"wrote {options.page}", file=sys.stderr)


FLAGS = (
    Flag("results RESULTS", "folder written by `lrpnumpy corpus`; several folders are shown as several methods",
         more={"nargs": "+"}),
    Flag("page PAGE.html", "output file; an existing file is replaced"),
    Flag("--label COLUMN", "stored column with the true class or value of each record"),
    Flag("--name COLUMN", "stored column with the name of each record"),
    Flag("--title", "title of the page"),
    Flag("--most N", "maximum number of records", int, 10_000),
    Flag("--megabytes MB", "approximate maximum size of the page", float, 20.0),
    Flag("--take", "if there are more records: a random sample, or the highest scores of each class", TAKE, "sample"),
    Flag("--seed", "seed of the random sample", int, 0),
)  # fmt: skip
COMMANDS = {"page": Command(run_page, FLAGS)}
