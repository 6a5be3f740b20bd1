"""Commands of a few lines: `page`, `serve`, `inspect`, `convert`, `methods`, `compile` and `kernel`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import warnings

import lrpnumpy as lrp
from lrpnumpy import files
from lrpnumpy.commands.common import HINTS, MODEL, Command, Flag, hints_of


def run_page(options: argparse.Namespace) -> None:
    """Write one HTML file to explore results: a table of all records, and the explanation of each."""
    names = ("label", "name", "title", "most", "seed")
    results = [lrp.open_explanations(path) for path in options.results]
    lrp.write_page(options.page, *results, **{name: getattr(options, name) for name in names})
    print(f"wrote {options.page}", file=sys.stderr)


def run_serve(options: argparse.Namespace) -> None:
    """Open a live page: type a sentence or change a series, and see the explanation change."""
    from lrpnumpy.serve import Limits, Server, Worker, is_local
    from lrpnumpy.serve.door import Refusal

    logging.basicConfig(format="lrpnumpy: %(message)s", stream=sys.stderr)
    limits = Limits()
    worker = Worker(options.model, hints_of(options), limits)

    def ready(address: str) -> None:
        for text in worker.facts["warnings"]:
            warnings.warn(text, lrp.AssumptionWarning, stacklevel=1)
        if not is_local(options.host):
            warnings.warn(
                f"everybody who reaches {options.host} and knows the address can use the page, and whoever listens on "
                "the network can read it; leave out --host to keep it on this machine",
                stacklevel=1,
            )
        print(f"{worker.facts['model']} is at\n\n    {address}\n\nCtrl-C ends it.", flush=True)

    try:
        asyncio.run(Server(worker, limits).run(options.host, options.port, ready))
    except (OSError, OverflowError, UnicodeError) as error:
        why = str(getattr(error, "strerror", None) or error).removesuffix(".")
        raise lrp.LrpError(
            f"--host and --port must be an address that is free, got {options.host}:{options.port}: {why}."
        ) from None
    except Refusal as error:  # the process that opens the model has died, or takes too long
        raise lrp.LrpError(f"the model must open, got: {error.text.removesuffix('.')}.") from None


def run_inspect(options: argparse.Namespace) -> None:
    """Show the contents of a weight file, and all assumptions."""
    print(files.inspect(options.file, **hints_of(options)))


def run_convert(options: argparse.Namespace) -> None:
    """Convert a weight file to the native format."""
    files.convert(options.source, options.target, overwrite=options.overwrite, **hints_of(options))
    print(f"wrote {options.target}", file=sys.stderr)


def run_methods(options: argparse.Namespace) -> None:
    """Print the table of methods."""
    print(lrp.methods())


def run_compile(options: argparse.Namespace) -> None:
    """Compile all kernels now and store them on disk, for container images and CI."""
    from lrpnumpy.layers.kernels import compile_all

    for name, seconds in compile_all(options.dtype):
        print(f"{name:<40} {seconds:6.2f} s", flush=True)


def run_kernel(options: argparse.Namespace) -> None:
    """Print the Numba source that is generated for a cell and a method."""
    from lrpnumpy.layers.kernels import text_of

    print(text_of(options.cell, options.method), end="")


PAGE = (
    Flag("results RESULTS", "folder written by `lrpnumpy corpus`; several folders are shown as several methods",
         more={"nargs": "+"}),
    Flag("page PAGE.html", "output file; an existing file is replaced"),
    Flag("--label COLUMN", "stored column with the true class or value of each record"),
    Flag("--name COLUMN", "stored column with the name of each record"),
    Flag("--title", "title of the page"),
    Flag("--most N", "maximum number of records", int, 10_000),
    Flag("--seed", "seed of the random sample that is shown if there are more records", int, 0),
)  # fmt: skip
SERVE = (
    MODEL._replace(name="model", more={"nargs": "?"}),
    Flag("--port", "port to listen on; 0 selects any free port", int, 0),
    Flag("--host", "address to listen on; the default can be reached only from this machine", default="127.0.0.1"),
    *HINTS,
)
CONVERT = (
    Flag("source", "weight file of any supported kind"),
    Flag("target", "output file, in the native format"),
    Flag("--overwrite", "replace the output file if it exists", bool, False),
    *HINTS,
)
DTYPE = Flag("--dtype", "compile for this type only (default: both)", ("float32", "float64"))
COMMANDS = {
    "page": Command(run_page, PAGE),
    "serve": Command(run_serve, SERVE),
    "inspect": Command(run_inspect, (Flag("file", "weight file, or name of a bundled model"), *HINTS)),
    "convert": Command(run_convert, CONVERT),
    "methods": Command(run_methods),
    "compile": Command(run_compile, (DTYPE,)),
    "kernel": Command(
        run_kernel, (Flag("cell", "a built-in cell, such as GRU"), Flag("method", "a method, such as lrp-all"))
    ),
}
