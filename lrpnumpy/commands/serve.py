"""Command `serve`: the page of a live model."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import warnings
import webbrowser
from typing import Any

import lrpnumpy as lrp
from lrpnumpy.commands.common import HINTS, MODEL, Command, Flag, hints_of


def run_serve(options: argparse.Namespace) -> None:
    """Open a live page: type a sentence or change a series, and see the explanation change."""
    from lrpnumpy.serve import Limits, Server, Worker, is_local
    from lrpnumpy.serve.door import Refusal

    logging.basicConfig(format="lrpnumpy: %(message)s", stream=sys.stderr)
    limits = Limits()
    worker = Worker(options.model, hints_of(options), limits, _progress)

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
        if options.open:
            webbrowser.open(address)

    try:
        asyncio.run(Server(worker, limits).run(options.host, options.port, ready))
    except (OSError, OverflowError, UnicodeError) as error:
        why = str(getattr(error, "strerror", None) or error).removesuffix(".")
        raise lrp.LrpError(
            f"--host and --port must be an address that is free, got {options.host}:{options.port}: {why}."
        ) from None
    except Refusal as error:  # the process that opens the model has died, or takes too long
        raise lrp.LrpError(f"the model must open, got: {error.text.removesuffix('.')}.") from None


def _progress(progress: dict[str, Any]) -> None:
    """How far the kernels are, on one line of a terminal that is written over."""
    if sys.stderr.isatty():
        text = f"compiling, answers are slower: {progress['name']}, {progress['done'] + 1} of {progress['of']}"
        if progress["done"] == progress["of"]:
            text = ""
        print(f"\r{text:<72}\r{text}", end="", file=sys.stderr, flush=True)


FLAGS = (
    MODEL._replace(name="model", more={"nargs": "?"}),
    Flag("--port", "port to listen on; 0 selects any free port", int, 0),
    Flag("--host", "address to listen on; the default can be reached only from this machine", default="127.0.0.1"),
    Flag("--open", "open the page in a browser", bool, False),
    *HINTS,
)
COMMANDS = {"serve": Command(run_serve, FLAGS)}
