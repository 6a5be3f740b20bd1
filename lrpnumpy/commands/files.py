"""Commands `inspect` and `convert`: what a weight file holds, and the same in the native format."""

from __future__ import annotations

import argparse
import sys

from lrpnumpy import files
from lrpnumpy.commands.common import HINTS, Command, Flag, hints_of


def run_inspect(options: argparse.Namespace) -> None:
    """Show the contents of a weight file, and all assumptions."""
    print(files.inspect(options.file, **hints_of(options)))


def run_convert(options: argparse.Namespace) -> None:
    """Convert a weight file to the native format."""
    files.convert(options.source, options.target, overwrite=options.overwrite, **hints_of(options))
    print(f"wrote {options.target}", file=sys.stderr)


CONVERT = (
    Flag("source", "weight file of any supported kind"),
    Flag("target", "output file, in the native format"),
    Flag("--overwrite", "replace the output file if it exists", bool, False),
    *HINTS,
)
COMMANDS = {
    "inspect": Command(run_inspect, (Flag("file", "weight file, or name of a bundled model"), *HINTS)),
    "convert": Command(run_convert, CONVERT),
}
