"""Command `page`: one HTML file to explore results."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

import lrpnumpy as lrp
from lrpnumpy.commands.common import command
from lrpnumpy.page.chosen import TAKE

if TYPE_CHECKING:
    from lrpnumpy.commands.common import Commands


def run_page(options: argparse.Namespace) -> None:
    """Write one HTML file to explore results: a table of all records, and the explanation of each."""
    names = ("label", "name", "title", "most", "megabytes", "take", "seed")
    results = [lrp.open_explanations(path) for path in options.results]
    lrp.write_page(options.page, *results, **{name: getattr(options, name) for name in names})
    print(f"wrote {options.page}", file=sys.stderr)


def add(commands: Commands) -> None:
    """Add it to the program, with its options."""
    page = command(commands, "page", run_page)
    page.add_argument(
        "results",
        nargs="+",
        metavar="RESULTS",
        help="folder written by `lrpnumpy corpus`; several folders are shown as several methods",
    )
    page.add_argument("page", metavar="PAGE.html", help="output file; an existing file is replaced")
    page.add_argument("--label", metavar="COLUMN", help="stored column with the true class or value of each record")
    page.add_argument("--name", metavar="COLUMN", help="stored column with the name of each record")
    page.add_argument("--title", help="title of the page")
    page.add_argument(
        "--most", type=int, default=10_000, metavar="N", help="maximum number of records (default: %(default)s)"
    )
    page.add_argument(
        "--megabytes",
        type=float,
        default=20.0,
        metavar="MB",
        help="approximate maximum size of the page (default: %(default)s)",
    )
    page.add_argument(
        "--take",
        choices=TAKE,
        default="sample",
        help="if there are more records: a random sample, or the highest scores of each class (default: %(default)s)",
    )
    page.add_argument("--seed", type=int, default=0, help="seed of the random sample (default: %(default)s)")
