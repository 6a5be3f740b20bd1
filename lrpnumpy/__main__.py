"""The command line: explain, corpus, evaluate, methods, inspect, convert, compile."""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
import zipfile
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import lrpnumpy as lrp
from lrpnumpy import files
from lrpnumpy.files import hints
from lrpnumpy.methods import METHODS, all_options

DEFAULT_MODEL = "sentiment"


def _explain(options: argparse.Namespace) -> None:
    """Explain one sentence, or one series of numbers from a file."""
    from lrpnumpy.kernels import compile as kernels
    from lrpnumpy.show import html, terminal

    if kernels.mode == "background":
        kernels.mode = "small"  # one sentence: by the time a kernel is compiled the program is over
    model = lrp.load(options.model, **_hints(options))
    x = _input(options)
    common = {"target": _class(options.target), "versus": _class(options.versus), **_method_options(options)}
    stream = sys.stdout
    found: Any
    if options.all_methods:
        found = lrp.compare(model, x, **common)
        print(terminal.render_comparison(found, options.color, stream))
    else:
        found = lrp.explain(model, x, options.method, **common)
        print(terminal.render(found, options.color, stream))
    every = list(found) if options.all_methods else [found]
    if options.html:
        _write(options.html, html.page(found))
    if options.json:
        texts = [e.to_json(indent=1) for e in every]
        _write(options.json, texts[0] if len(texts) == 1 else "[" + ",\n".join(texts) + "]")
    if options.csv:
        _write_csv(options.csv, every)


def _input(options: argparse.Namespace) -> Any:
    """What is to be explained: the sentence, the numbers of a .npy or .csv file, the inputs of a .npz or .json file."""
    if (options.text is None) == (options.input is None):
        raise lrp.LrpError(
            "explain must get either a sentence or --input FILE, got "
            + ("neither." if options.text is None else "both.")
        )
    if options.input is None:
        return options.text
    path = Path(options.input)
    try:
        if path.suffix == ".npy":
            return np.load(path, allow_pickle=False)
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return {name: one.tolist() if one.dtype.kind == "U" else one for name, one in arrays.items()}
        if path.suffix == ".json":
            return json.loads(path.read_text("utf-8"))
        return np.loadtxt(path, delimiter=",", ndmin=2)
    except (OSError, ValueError, TypeError, zipfile.BadZipFile) as error:
        raise lrp.LrpError(
            "--input must be a .npy file or a .csv file of numbers, one step a line, or of several inputs a .npz or "
            f".json file, got {path}: {error}."
        ) from None


def _method_options(options: argparse.Namespace) -> dict[str, Any]:
    """The options of methods that were given."""
    return {name: value for name in _flags() if (value := getattr(options, name)) is not None}


def _flags() -> dict[str, tuple[Any, str]]:
    """Every option that some method takes from the command line, and which methods that are."""
    return {
        name: (one, ", ".join(having))
        for name, (one, having) in all_options().items()
        if one.metadata["flag"] is not None
    }


def _class(text: str | None) -> int | str | None:
    """A class as typed: a number is an index, anything else a name."""
    return int(text) if text is not None and text.lstrip("-").isdigit() else text


def _write(path: str, text: str) -> None:
    if path == "-":
        print(text)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise lrp.LrpError(f"{path} must be a file that can be written, got: {error.strerror}.") from None
    print(f"wrote {path}", file=sys.stderr)


def _write_csv(path: str, every: list[lrp.Explanation]) -> None:
    """One row a method, class, input and step."""
    from io import StringIO

    from lrpnumpy.corpus.export import write_csv

    out = StringIO()
    write_csv([(e.method, e) for e in every], "method", out, variables=False)
    _write(path, out.getvalue().rstrip("\n") if path == "-" else out.getvalue())


def _corpus(options: argparse.Namespace) -> None:
    """Explain every sequence of a file, however large, into one HDF5 file; an interrupted run can be resumed."""
    from lrpnumpy.corpus.export import check_export

    for path in options.export:  # before the work, not after it
        check_export(path, options.overwrite)
    client = None
    if options.scheduler:
        try:
            from distributed import Client
        except ImportError:
            raise lrp.LrpError("--scheduler needs Dask, which is missing; try `pip install lrpnumpy[dask]`.") from None
        client = Client(options.scheduler)
    names = (
        "method",
        "unit",
        "step",
        "format",
        "field",
        "columns",
        "resume",
        "strict",
        "longest",
        "max_line",
        "threads",
    )
    run = lrp.explain_corpus(
        lrp.load(options.model, **_hints(options)),
        options.source,
        options.out,
        target=_class(options.target),
        versus=_class(options.versus),
        client=client,
        progress=False if options.quiet else None,
        **{name: getattr(options, name) for name in names},
        **_method_options(options),
    )
    print(f"{run.path}: {run.explained:,} of {run.records:,} records explained", file=sys.stderr)
    if run.rejected:
        print(f"{run.rejected_path}: why {run.rejected:,} were rejected", file=sys.stderr)
    for path in options.export:
        with run.open() as found:
            found.export(path, overwrite=options.overwrite)
        print(f"wrote {path}", file=sys.stderr)
    if options.summary is not None:
        with run.open() as found:
            print(found.summary(options.summary or None))


def _evaluate(options: argparse.Namespace) -> None:
    """Which methods deserve trust on a network and its data."""
    model = lrp.load(options.model, **_hints(options))
    data, labels = _labelled(model, options)
    found = lrp.rank_methods(
        model,
        data,
        options.methods,
        labels,
        **{name: getattr(options, name) for name in ("measures", "remove", "unit", "seed", "state")},
        progress=False if options.quiet else None,
    )
    print(found)
    if options.json:
        _write(options.json, found.to_json(indent=1))
    if options.html:
        _write(options.html, found.to_html())
    if options.figure:
        found.figure().savefig(options.figure)
        print(f"wrote {options.figure}", file=sys.stderr)


def _labelled(model: lrp.Model, options: argparse.Namespace) -> tuple[list[Any], list[Any] | None]:
    """The sequences of a file, and their classes where they were given."""
    from lrpnumpy.corpus import lines, sources

    source = sources.open_source(options.data, options.format, options.field, 10_000, 1 << 20)
    several, data, labels = len(model.ports) > 1, [], None
    records = list(islice(source.records(), options.most))
    for number, record in enumerate(records, 1):
        try:
            data.append(sources.sequence(source.kind, source.field, record, several))
        except lrp.LrpError as error:
            raise lrp.LrpError(f"{options.data}, record {number}: {error}.") from None
    if options.label:
        if source.kind != "jsonl":
            raise lrp.LrpError(f"--label must have JSON lines as data, got {options.data}; use --labels FILE.")
        labels = [lines.member(record, options.label) for record in records]
    elif options.labels:
        labels = [_class(line) for line in Path(options.labels).read_text("utf-8").split()][: len(data)]
    return data, labels


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _methods(options: argparse.Namespace) -> None:
    """Print the table of methods."""
    heads = ("method", "cost", "per variable", "adds up to", "reference", "relevance")
    rows = [(m.name, m.cost, m.variables, m.conserves, m.reference, m.description) for m in lrp.methods()]
    sizes = [max(len(row[k]) for row in [heads, *rows]) for k in range(len(heads))]
    for row in [heads, *rows]:
        print("  ".join(cell.ljust(size) for cell, size in zip(row, sizes, strict=True)).rstrip())


def _inspect(options: argparse.Namespace) -> None:
    """Say what a weight file holds, and what was assumed."""
    print(files.inspect(options.file, **_hints(options)))


def _convert(options: argparse.Namespace) -> None:
    """Write any weight file that can be opened in the native format."""
    files.convert(options.source, options.target, overwrite=options.overwrite, **_hints(options))
    print(f"wrote {options.target}", file=sys.stderr)


def _compile(options: argparse.Namespace) -> None:
    """Compile every kernel now and keep it on disk, for images and CI."""
    from lrpnumpy.kernels.compile import compile_all

    for name, seconds in compile_all(options.dtype):
        print(f"{name:<40} {seconds:6.2f} s", flush=True)


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = argparse.ArgumentParser("lrpnumpy", description=lrp.__doc__)
    top.add_argument("--version", action="version", version=f"lrpnumpy {lrp.__version__}")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, run: Any, **kwargs: Any) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=run.__doc__, description=run.__doc__, **kwargs)
        sub.set_defaults(run=run)
        return sub

    explain = command("explain", _explain)
    explain.add_argument("text", nargs="?", help="the sentence")
    explain.add_argument(
        "--input",
        metavar="FILE",
        help="a (T, D) array instead: .npy, or .csv with one step a line; several inputs by name: .npz, .json",
    )
    _add_method(explain)
    explain.add_argument("--all-methods", action="store_true", help="every method, side by side")
    explain.add_argument(
        "--color", default="auto", choices=("auto", "never", "256", "truecolor"), help="default: what the terminal can"
    )
    for kind in ("html", "json", "csv"):
        explain.add_argument(
            f"--{kind}",
            metavar="FILE",
            help=f"also write {kind.upper()}" + ("" if kind == "html" else " (- for standard output)"),
        )

    corpus = command("corpus", _corpus)
    corpus.add_argument("source", help=".txt or .jsonl (also .gz), .h5, .npz; - for lines of standard input")
    corpus.add_argument("out", help="HDF5 file to be made, see docs/corpora.md")
    _add_method(corpus)
    corpus.add_argument(
        "--unit",
        default="word",
        choices=("word", "variable"),
        help="one value a word, or also one a variable (default: %(default)s)",
    )
    corpus.add_argument(
        "--step", type=int, help="which prediction, where the model predicts at every step (default: the last)"
    )
    corpus.add_argument(
        "--format", choices=("text", "jsonl", "hdf5", "npz"), help="of the source, where its name does not say"
    )
    corpus.add_argument("--field", help="field of JSON objects, or array of values in a file of arrays")
    corpus.add_argument(
        "--column", dest="columns", action="append", metavar="NAME", help="field or array to store beside the results"
    )
    corpus.add_argument(
        "--summary",
        nargs="?",
        const="",
        metavar="BY",
        help="print mean relevance by feature; of each class or column BY",
    )
    corpus.add_argument("--resume", action="store_true", help="go on with an interrupted run, or begin one")
    corpus.add_argument("--strict", action="store_true", help="stop at the first record that cannot be explained")
    corpus.add_argument(
        "--longest", type=int, default=10_000, metavar="STEPS", help="reject longer sequences (default: %(default)s)"
    )
    corpus.add_argument(
        "--max-line", type=int, default=1 << 20, metavar="BYTES", help="reject longer lines (default: %(default)s)"
    )
    corpus.add_argument("--threads", type=int, help="default: all cores")
    corpus.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask cluster that is to do the work")
    corpus.add_argument(
        "--export",
        metavar="FILE",
        action="append",
        default=[],
        help="also write .csv, .jsonl or .parquet; may be repeated",
    )
    corpus.add_argument("--overwrite", action="store_true", help="replace files of --export that exist")
    corpus.add_argument("--quiet", action="store_true", help="show no progress")

    evaluate = command("evaluate", _evaluate)
    evaluate.add_argument("model", help="a weight file, or the name of a shipped model")
    evaluate.add_argument("data", help=".txt or .jsonl (also .gz), .h5, .npz, as for corpus")
    evaluate.add_argument("--methods", metavar="A,B,…", type=_listed, help="default: all, and random numbers")
    evaluate.add_argument("--measures", metavar="A,B,…", type=_listed, help="default: all; see docs/trust.md")
    evaluate.add_argument("--labels", metavar="FILE", help="true classes to explain, one a line")
    evaluate.add_argument("--label", metavar="FIELD", help="field of JSON objects that holds the true class")
    evaluate.add_argument(
        "--remove", default="zero", help="zero, mean, omit, or a word that stands for nothing (default: %(default)s)"
    )
    evaluate.add_argument("--unit", default="step", choices=("step", "feature"), help="default: %(default)s")
    evaluate.add_argument("--format", choices=("text", "jsonl", "hdf5", "npz"), help="of the data")
    evaluate.add_argument("--field", help="field of JSON objects, or array of values in a file of arrays")
    evaluate.add_argument("--most", type=int, metavar="N", help="take the first N records only")
    evaluate.add_argument("--seed", type=int, default=0)
    evaluate.add_argument("--state", metavar="FILE", help="keeps finished parts: an interrupted run goes on from there")
    evaluate.add_argument("--quiet", action="store_true", help="show no progress")
    for kind in ("html", "json", "figure"):
        evaluate.add_argument(f"--{kind}", metavar="FILE", help=f"also write {kind}")

    command("methods", _methods)
    inspect = command("inspect", _inspect)
    inspect.add_argument("file")
    convert = command("convert", _convert)
    convert.add_argument("source")
    convert.add_argument("target")
    convert.add_argument("--overwrite", action="store_true", help="replace the target if it exists")
    for sub in (inspect, convert, explain, corpus, evaluate):
        _add_hints(sub)
    compile_ = command("compile", _compile)
    compile_.add_argument("--dtype", choices=("float32", "float64"), help="default: both")
    return top


def _add_hints(command: argparse.ArgumentParser) -> None:
    """What a weight file may not say by itself."""
    group = command.add_argument_group("what the weight file does not say")
    for name, one in hints.known().items():
        flag = one.metadata["flag"]
        if flag is None:
            continue
        kind: dict[str, Any] = {"type": flag, "metavar": one.metadata["metavar"]}
        if isinstance(flag, tuple):
            kind = {"choices": flag}
        elif flag is True:
            kind = {"action": "store_const", "const": True}
        group.add_argument(f"--{name}", help=one.metadata["text"].replace("%", "%%"), **kind)


def _hints(options: argparse.Namespace) -> dict[str, Any]:
    """What was said about the weight file."""
    return {name: value for name in hints.known() if (value := getattr(options, name, None)) is not None}


def _add_method(command: argparse.ArgumentParser) -> None:
    """Which model, which method, and the options that methods have."""
    command.add_argument(
        "--model", default=DEFAULT_MODEL, help="a weight file, or the name of a shipped model (default: %(default)s)"
    )
    command.add_argument(
        "--method",
        default="lrp-all",
        choices=METHODS,
        metavar="METHOD",
        help="see `lrpnumpy methods` (default: %(default)s)",
    )
    command.add_argument(
        "--target", help="class to explain, by number or name; 'all' for every class (default: the predicted one)"
    )
    command.add_argument("--versus", help="explain why the target rather than this class")
    for name, (one, having) in _flags().items():
        flag = one.metadata["flag"]
        kind: dict[str, Any] = {"choices": flag} if isinstance(flag, tuple) else {"type": flag}
        text = f"{one.metadata['text']} (default: {one.default}; of {having})"
        command.add_argument(f"--{name.replace('_', '-')}", help=text.replace("%", "%%"), **kind)


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
