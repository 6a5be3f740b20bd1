"""What several commands share: tables of arguments, model, method, hints about a weight file, writing a text."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from lrpnumpy.files import hints
from lrpnumpy.files.disk import write_whole
from lrpnumpy.methods import METHODS, all_options
from lrpnumpy.methods.base import Option


class Flag(NamedTuple):
    """One row in the table of a command's arguments: "--most N" takes a value, "model" is positional.

    `kind` is the type of the value, a tuple of choices, or bool for a switch. The help text ends with the default.
    """

    name: str
    text: str
    kind: Any = str
    default: Any = None
    more: dict[str, Any] = {}  # noqa: RUF012  # further arguments of argparse; never changed
    group: str = ""  # heading of the help text that it is below

    def add(self, command: argparse._ActionsContainer) -> None:
        """Add it to a command, or to a group of its arguments."""
        name, _, metavar = self.name.partition(" ")
        arguments: dict[str, Any] = {"type": self.kind, "metavar": metavar or None}
        if self.kind is bool:
            arguments = {"action": "store_true"}
        elif isinstance(self.kind, tuple):
            arguments = {"choices": self.kind}
        text = self.text
        if self.default not in (None, False):
            text += f" (default: {self.default})"
        command.add_argument(name, **arguments, default=self.default, help=text.replace("%", "%%"), **self.more)


class Help(argparse.HelpFormatter):
    """Help whose first line has the positional arguments only: the flags are listed below it."""

    def _format_usage(self, usage: Any, actions: Any, groups: Any, prefix: Any) -> str:
        positional = [action for action in actions if not action.option_strings]
        return super()._format_usage(usage, positional, [], prefix).rstrip() + " [options]\n\n"


MODEL = Flag("--model", "weight file, or name of a bundled model", default="sentiment-2")
INPUT = Flag(
    "--input FILE", "read a (T, D) array from .npy, or from .csv with one step per line; several inputs: .npz or .json"
)
FORMAT = Flag("--format", "format of the file, if its name does not show it", ("text", "jsonl", "hdf5", "npz"))
FIELD = Flag("--field", "field of JSON objects, or array of values in a file of arrays")
FORMULAS = Flag("--formulas", "in CSV, do not quote words that look like formulas", bool, False)
QUIET = Flag("--quiet", "do not show progress", bool, False)


class Command(NamedTuple):
    """What a command runs, which documents it, and the table of its arguments."""

    run: Callable[[argparse.Namespace], None]
    flags: tuple[Flag, ...] = ()

    def add(self, name: str, commands: Any) -> None:
        """Add it to the program."""
        sub = commands.add_parser(name, help=self.run.__doc__, description=self.run.__doc__, formatter_class=Help)
        sub.set_defaults(run=self.run)
        groups = {"": sub}
        for flag in self.flags:
            if flag.group not in groups:
                groups[flag.group] = sub.add_argument_group(flag.group)
            flag.add(groups[flag.group])


def _typed_options() -> dict[str, tuple[Option, list[str]]]:
    """Every option of a method that the command line can take, and the methods that have it."""
    every = {name: (METHODS[having[0]].options()[name], having) for name, having in all_options().items()}
    return {name: (option, having) for name, (option, having) in every.items() if option.kind}


def _method_flags() -> Iterator[Flag]:
    """A flag for each option of a method; its default stays the method's."""
    kinds = {"number": float, "whole": int, "text": str, "choice": str}
    for name, (option, having) in _typed_options().items():
        text = f"{', '.join(having)}: {option.text}"
        if option.default is not None:
            text += f" (default: {option.default})"
        yield Flag(f"--{name}", text, option.choices or kinds[option.kind], group="Options of methods")


def _hint_flags() -> Iterator[Flag]:
    """A flag for each hint: what a weight file may not contain."""
    for name, hint in hints.known().items():
        kind, metavar = hint.metadata["flag"], hint.metadata["metavar"] or ""
        more: dict[str, Any] = {}
        if kind is None:
            continue
        if kind is True:  # a switch that is None if it is not given
            kind = bool
        if name == "constants":  # may be repeated, each time for one input
            name, more = "constant", {"action": "extend", "dest": name}
        yield Flag(f"--{name} {metavar}", hint.metadata["text"], kind, None, more, HINTS_GROUP)


HINTS_GROUP = "Model hints (not stored in the weight file)"
HINTS = (
    *_hint_flags(),
    Flag("--no-isolate", "read the weight file in this process instead of a separate one", bool, False),
)
METHOD = (
    MODEL,
    Flag("--method", "see `lrpnumpy methods` (default: the default method of the model)"),
    Flag("--target", "class to explain, by number or name; 'all' for every class (default: the predicted one)"),
    Flag("--versus", "explain the target in contrast to this class"),
    *_method_flags(),
)


def method_options(options: argparse.Namespace) -> dict[str, Any]:
    """The options of methods that were given."""
    given = {name: value for name in _typed_options() if (value := getattr(options, name)) is not None}
    if str(given.get("players")).isdigit():
        given["players"] = int(given["players"])
    return given


def class_of(text: str | None) -> int | str | None:
    """A class as typed: a number is an index, anything else a name."""
    if text is not None and re.fullmatch(r"-?[0-9]{1,18}", text):
        return int(text)
    return text


def hints_of(options: argparse.Namespace) -> dict[str, Any]:
    """The model hints on the command line, and whether to read the file in a separate process."""
    given = {name: value for name in hints.known() if (value := getattr(options, name, None)) is not None}
    return {**given, "isolate": not options.no_isolate}


def write(path: str, content: str | bytes) -> None:
    """A text or picture into a file, or to standard output where the path is -: in UTF-8, whatever the terminal has."""
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    if path == "-":
        sys.stdout.flush()
        out = getattr(sys.stdout, "buffer", None)
        print(content) if out is None else out.write(data + b"\n")
        return
    write_whole(path, data)
    print(f"wrote {path}", file=sys.stderr)
