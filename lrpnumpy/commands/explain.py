"""Command `explain`: one sentence, or one series of a file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import lrpnumpy as lrp
from lrpnumpy.checks import parse_json
from lrpnumpy.commands.common import (
    FORMULAS,
    HINTS,
    INPUT,
    METHOD,
    Command,
    Flag,
    class_of,
    hints_of,
    method_options,
    write,
)
from lrpnumpy.files import npy
from lrpnumpy.files.archive import read_npz
from lrpnumpy.files.safe import MAX_BYTES, Budget, Source, open_file, size_of
from lrpnumpy.series import read_csv


def run_explain(options: argparse.Namespace) -> None:
    """Explain one sentence, or one series of numbers from a file."""
    from lrpnumpy.page import card_page
    from lrpnumpy.show import terminal

    model = lrp.load(options.model, **hints_of(options))
    x = _input(options)
    common = {"target": class_of(options.target), "versus": class_of(options.versus), **method_options(options)}
    result: Any
    if options.all_methods and options.method:
        raise lrp.LrpError("--all-methods and --method were both given; pass one of them.")
    if options.all_methods:
        result = lrp.compare(model, x, **common)
        every = [*result]
        print(terminal.render_comparison(result, options.color, sys.stdout))
    else:
        result = lrp.explain(model, x, options.method, **common)
        every = [result]
        print(terminal.render(result, options.color, sys.stdout))
    if options.html:
        write(options.html, card_page(result))
    if options.json:
        texts = [e.to_json(indent=1) for e in every]
        write(options.json, texts[0] if len(texts) == 1 else "[" + ",\n".join(texts) + "]")
    if options.csv:
        _write_csv(options.csv, every, options.formulas)


def _input(options: argparse.Namespace) -> Any:
    """The input to explain: the sentence, the numbers of a .npy or .csv file, the inputs of a .npz or .json file."""
    if options.text is None and options.input is None:
        raise lrp.LrpError("neither a sentence nor --input FILE was given; pass one of them.")
    if options.text is not None and options.input is not None:
        raise lrp.LrpError("a sentence and --input FILE were both given; pass one of them.")
    if options.input is not None:
        return read(options.input)
    if not options.text.strip():
        raise lrp.LrpError("the sentence is empty; pass at least one word.")
    return options.text


def read(name: str) -> Any:
    """The input in a file; whatever is wrong with it is an LrpError."""
    path = Path(name)
    kind = path.suffix.lower()
    try:
        if kind == ".npz":
            return read_npz(str(path))
        with open_file(path) as stream:
            if kind == ".npy":
                return npy.read(Source(str(path), Budget(str(path), size_of(stream))), "", stream, size_of(stream))
            content = stream.read(min(size_of(stream), MAX_BYTES))  # Python allocates memory for all that is asked for
        if kind == ".json":
            return parse_json(content)
        return read_csv(content.decode("utf-8-sig"))
    except (OSError, ValueError) as error:
        must = "pass a .npy file or a .csv file of numbers, one step per line, or for several inputs a .npz or "
        if isinstance(error, FileNotFoundError):
            raise lrp.LrpError(f"{path}: no such file; {must}.json file.") from None
        reason = getattr(error, "strerror", None) or str(error).removesuffix(".")
        raise lrp.LrpError(f"--input: cannot read {path}: {reason}; {must}.json file.") from None


def _write_csv(path: str, every: list[lrp.Explanation], formulas: bool) -> None:
    """One row per method, class, input and step."""
    from io import StringIO

    from lrpnumpy.corpus.export import write_csv

    out = StringIO()
    write_csv([(e.method, e) for e in every], "method", out, feature_relevance=False, formulas=formulas)
    write(path, out.getvalue().rstrip("\n") if path == "-" else out.getvalue())


EXPLAIN = (
    Flag("text", "the sentence, in quotes", more={"nargs": "?"}),
    INPUT,
    *METHOD,
    Flag("--all-methods", "compare six methods, with their evidence", bool, False),
    Flag("--color", "colors of the terminal", ("auto", "never", "256", "truecolor"), "auto"),
    Flag("--html FILE", "also write HTML"),
    Flag("--json FILE", "also write JSON (- for standard output)"),
    Flag("--csv FILE", "also write CSV (- for standard output)"),
    FORMULAS,
    *HINTS,
)
COMMANDS = {"explain": Command(run_explain, EXPLAIN)}
