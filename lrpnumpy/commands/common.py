"""What several commands share: model, method and their options, hints about a weight file, writing a text."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lrpnumpy.files import hints
from lrpnumpy.files.disk import write_whole
from lrpnumpy.methods import METHODS, all_options
from lrpnumpy.methods.base import Option

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

DEFAULT_MODEL = "sentiment-2"


def command(commands: Commands, name: str, run: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
    """A new command, described by the docstring of what it runs."""
    sub = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
    sub.set_defaults(run=run)
    return sub


def add_model(command: argparse.ArgumentParser) -> None:
    """Which model."""
    command.add_argument(
        "--model", default=DEFAULT_MODEL, help="weight file, or name of a bundled model (default: %(default)s)"
    )


def add_method(command: argparse.ArgumentParser) -> None:
    """Which model, which method, and the options that methods have."""
    add_model(command)
    command.add_argument(
        "--method",
        help="see `lrpnumpy methods` (default: the default method of the model)",
    )
    command.add_argument(
        "--target", help="class to explain, by number or name; 'all' for every class (default: the predicted one)"
    )
    command.add_argument("--versus", help="explain the target in contrast to this class")
    for name, (option, having) in _flags().items():
        default = "" if option.default is None else f"default: {option.default}; "
        text = f"{option.text} ({default}of {', '.join(having)})"
        kind = {"number": float, "whole": int, "text": str, "choice": str}[option.kind]
        command.add_argument(f"--{name}", help=text.replace("%", "%%"), type=kind, choices=option.choices or None)


def method_options(options: argparse.Namespace) -> dict[str, Any]:
    """The options of methods that were given."""
    given = {name: value for name in _flags() if (value := getattr(options, name)) is not None}
    if str(given.get("players")).isdigit():
        given["players"] = int(given["players"])
    return given


def _flags() -> dict[str, tuple[Option, list[str]]]:
    """Every option that the command line can take, and the methods that have it."""
    every = {name: (METHODS[having[0]].options()[name], having) for name, having in all_options().items()}
    return {name: (option, having) for name, (option, having) in every.items() if option.kind}


def class_of(text: str | None) -> int | str | None:
    """A class as typed: a number is an index, anything else a name."""
    return int(text) if text is not None and re.fullmatch(r"-?[0-9]{1,18}", text) else text


def add_formulas(command: argparse.ArgumentParser) -> None:
    """Whether CSV may hold formulas."""
    command.add_argument("--formulas", action="store_true", help="in CSV, do not quote words that look like formulas")


def add_hints(command: argparse.ArgumentParser) -> None:
    """What a weight file may not say by itself."""
    group = command.add_argument_group("Model hints (not stored in the weight file)")
    for name, one in hints.known().items():
        flag = one.metadata["flag"]
        if flag is None:
            continue
        kind: dict[str, Any] = {"type": flag, "metavar": one.metadata["metavar"]}
        if isinstance(flag, tuple):
            kind = {"choices": flag}
        elif flag is True:
            kind = {"action": "store_const", "const": True}
        flags = [f"--{name}"]
        if name == "constants":  # may be repeated, each time for one of them
            kind |= {"action": "extend", "dest": name}
            flags = ["--constant"]
        group.add_argument(*flags, help=one.metadata["typed"].replace("%", "%%"), **kind)
    command.add_argument(
        "--no-isolate", action="store_true", help="read the weight file in this process instead of a separate one"
    )


def hints_of(options: argparse.Namespace) -> dict[str, Any]:
    """The model hints on the command line, and whether to read the file in a separate process."""
    said = {name: value for name in hints.known() if (value := getattr(options, name, None)) is not None}
    return {**said, "isolate": not options.no_isolate}


def write(path: str, content: str | bytes) -> None:
    """A text or picture into a file, or to standard output where the path is -: in UTF-8, whatever the terminal has."""
    whole = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
    if path == "-":
        sys.stdout.flush()
        out = getattr(sys.stdout, "buffer", None)
        print(content) if out is None else out.write(whole + b"\n")
        return
    write_whole(path, whole)
    print(f"wrote {path}", file=sys.stderr)
