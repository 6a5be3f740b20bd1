"""Commands `inspect` and `convert`: what a weight file holds, and the same in the native format."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from lrpnumpy import files
from lrpnumpy.commands.common import add_hints, command, hints_of

if TYPE_CHECKING:
    from lrpnumpy.commands.common import Commands


def run_inspect(options: argparse.Namespace) -> None:
    """Show the contents of a weight file, and all assumptions."""
    print(files.inspect(options.file, **hints_of(options)))


def run_convert(options: argparse.Namespace) -> None:
    """Convert a weight file to the native format."""
    files.convert(options.source, options.target, overwrite=options.overwrite, **hints_of(options))
    print(f"wrote {options.target}", file=sys.stderr)


def add(commands: Commands) -> None:
    """Add them to the program, with their options."""
    inspect = command(commands, "inspect", run_inspect)
    inspect.add_argument("file", help="weight file, or name of a bundled model")
    convert = command(commands, "convert", run_convert)
    convert.add_argument("source", help="weight file of any supported kind")
    convert.add_argument("target", help="output file, in the native format")
    convert.add_argument("--overwrite", action="store_true", help="replace the target if it exists")
    add_hints(inspect)
    add_hints(convert)
