"""The command line: `lrpnumpy COMMAND`, see commands/."""

from __future__ import annotations

import argparse
import os
import sys
import warnings

import lrpnumpy as lrp
from lrpnumpy.commands import COMMANDS
from lrpnumpy.files import hints


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = argparse.ArgumentParser("lrpnumpy", description=lrp.__doc__)
    top.add_argument("--version", action="version", version=f"lrpnumpy {lrp.__version__}")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for one in COMMANDS:
        one.add(commands)
    return top


def _say(message: str) -> None:
    """One line on standard error, in which hints are flags."""
    print(f"lrpnumpy: {hints.as_flags(message)}", file=sys.stderr)


def main(arguments: list[str] | None = None) -> int:
    """Run a command; errors of the caller's are one line on standard error and exit code 2."""
    options = parser().parse_args(arguments)
    warnings.showwarning = lambda message, *rest, **more: _say(f"warning: {message}")
    try:
        options.run(options)
        sys.stdout.flush()
    except lrp.LrpError as error:
        _say(str(error))
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
