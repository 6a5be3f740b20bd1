"""The command line: `lrpnumpy COMMAND`, see commands/."""

from __future__ import annotations

import argparse
import codecs
import contextlib
import difflib
import os
import sys
import warnings
from typing import Any, NoReturn

import lrpnumpy as lrp
from lrpnumpy import interrupt
from lrpnumpy.checks import printable
from lrpnumpy.commands import COMMANDS
from lrpnumpy.files import hints

PLAIN = str.maketrans({"█": "#", "│": "|", "…": "...", "—": "--", "–": "-", "×": "x", "■": "#"})

MAY_BE_EMPTY = {"text", "target", "versus", "reference", "summary", "title"}  # they say themselves what is wrong

# Files that commands name.
INPUTS = ("model", "source", "data", "results", "input")
OUTPUTS = ("out", "page", "html", "json", "csv", "figure", "export", "state")
FOLDERS = ("out", "state")  # outputs that are folders


class Parser(argparse.ArgumentParser):
    """Report a mistyped command like any other error: in one line."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Raise an error for unknown arguments here, because this parser knows what was probably meant."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            meant = difflib.get_close_matches(rest[0].partition("=")[0], self._option_string_actions, 1)
            hint = f" (did you mean {meant[0]}?)" if meant else ""
            self.error(f"unrecognized arguments: {' '.join(rest)}{hint}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        """Report what is wrong, and where to read more."""
        raise lrp.LrpError(f"{message.removesuffix('.')}; see `{self.prog} --help`.")


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = Parser("lrpnumpy", description=lrp.__doc__)
    top.add_argument("--version", action="version", version=f"lrpnumpy {lrp.__version__}")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        command.add(name, commands)
    return top


def _check_files(options: dict[str, Any]) -> None:
    """See that no output file is a folder, or would be written over another one or over an input."""
    seen: dict[str, str] = {}
    for name in (*INPUTS, *OUTPUTS):
        value = options.get(name) or []
        for path in value if isinstance(value, list) else [value]:
            real = os.path.realpath(path)
            if name in OUTPUTS and name not in FOLDERS and os.path.isdir(real):
                raise lrp.LrpError(f"{name} must be a file, got {path}, which is a folder.")
            if path == "-" or (os.path.exists(real) and not os.path.isfile(real)):  # a terminal, /dev/null
                continue
            if name in OUTPUTS and real in seen:
                raise lrp.LrpError(f"{seen[real]} and {name} must be different files, got {path} for both.")
            seen[real] = name


def _say(message: str) -> None:
    """One line on standard error, in which hints are flags."""
    with contextlib.suppress(OSError):  # the reader is gone; the exit code remains
        print(f"lrpnumpy: {printable(hints.as_flags(message))}", file=sys.stderr)


def _plainer(error: UnicodeError) -> tuple[str, int]:
    """What a terminal shows in place of characters that it does not have."""
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end].translate(PLAIN)
    return text.encode("ascii", "replace").decode(), error.end


def _check_streams() -> None:
    """Standard output takes every text, also on a terminal of ASCII, and where it is closed."""
    codecs.register_error("lrpnumpy", _plainer)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # for as long as the program runs
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="lrpnumpy")


def _give_up_output() -> None:
    """Nobody takes our output any more: what is left of it goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(arguments: list[str] | None = None) -> int:
    """Run a command; a caller's mistake is one line on standard error and exit code 2, a bug is code 1."""
    interrupt.leave_at_once(False)
    try:
        _check_streams()
        options = parser().parse_args(arguments)
        for name, value in vars(options).items():
            if value == "" and name not in MAY_BE_EMPTY:
                raise lrp.LrpError(f"{name.replace('_', '-')} must not be empty, got ''.")
        _check_files(vars(options))
        warnings.showwarning = lambda message, *rest, **more: _say(f"warning: {message}")
        options.run(options)
        sys.stdout.flush()
    except lrp.LrpError as error:
        _say(str(error))
        return 2
    except KeyboardInterrupt:
        _say("interrupted")
        return 130
    except BrokenPipeError:  # the reader of our output has gone
        _give_up_output()
    except MemoryError:
        _say("the memory must be large enough for model and input, it is not; try a smaller one.")
        return 2
    except Exception as error:
        if os.environ.get(interrupt.TRACEBACK):
            raise
        if isinstance(error, OSError):  # a full disk, most often
            _say(f"{error.filename or 'output'}: cannot be read or written ({error.strerror or error}).")
            _give_up_output()
            return 2
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]
        said = f"with what {interrupt.TRACEBACK}=1 in the environment shows"
        _say(f"{reason}; this is a bug of lrpnumpy: please report it {said}.")
        return 1
    finally:
        if interrupt.is_program():
            interrupt.leave_at_once(True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
