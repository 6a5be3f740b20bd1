"""Command `corpus`: every sequence of a file."""

from __future__ import annotations

import argparse
import logging
import socket
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import lrpnumpy as lrp
from lrpnumpy.commands.common import add_formulas, add_hints, add_method, class_of, command, hints_of, method_options

if TYPE_CHECKING:
    from lrpnumpy.commands.common import Commands


ANSWER = 4  # seconds that a scheduler has to answer


def run_corpus(options: argparse.Namespace) -> None:
    """Explain every sequence of a file, however large, into a folder; run it again to resume."""
    from lrpnumpy.corpus.export import check_export

    for path in options.export:  # before the work, not after it
        check_export(path, options.overwrite)
    if options.scheduler and options.processes:
        raise lrp.LrpError("pass either --scheduler or --processes, not both.")
    workers = _client(options.scheduler) if options.scheduler else options.processes
    source = lrp.Corpus(
        options.source, options.format, options.field, options.longest, options.max_line, options.strict
    )
    results = lrp.explain_corpus(
        lrp.load(options.model, **hints_of(options)),
        source,
        options.method,
        class_of(options.target),
        out=lrp.Output(options.out, options.restart, options.columns),
        unit=options.unit,
        versus=class_of(options.versus),
        step=options.step,
        threads=options.threads,
        workers=workers,
        progress=False if options.quiet else None,
        evidence=options.evidence,
        **method_options(options),
    )
    if results.records and not len(results):
        _, reason = next(results.rejections())
        raise lrp.LrpError(
            f"none of the {results.records:,} records of {options.source} can be explained; the first: {reason}. All "
            f"reasons: {results.rejected_path}."
        )
    print(f"{results.path}: {len(results):,} of {results.records:,} records explained", file=sys.stderr)
    if results.rejected:
        print(f"{results.rejected_path}: why {results.rejected:,} were rejected", file=sys.stderr)
    for path in options.export:
        results.export(path, overwrite=options.overwrite, formulas=options.formulas)
        print(f"wrote {path}", file=sys.stderr)
    if options.summary is not None:
        print(results.summary(options.summary or None))


def _client(address: str) -> Any:
    """A Dask cluster, if its scheduler answers."""
    try:
        from distributed import Client
    except ImportError:
        raise lrp.LrpError("--scheduler needs Dask, which is missing; try `pip install lrpnumpy[dask]`.") from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what is wrong is said once, below
    try:
        _check_answer(address)
        return Client(address, timeout=ANSWER)
    except Exception as error:  # of sockets, of TLS, of what it takes for an address
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise lrp.LrpError(
            f"--scheduler must be the address of a Dask scheduler that answers within {ANSWER} s, such as "
            f"tcp://10.0.0.1:8786, got {address!r}: {reason}."
        ) from None


def _check_answer(address: str) -> None:
    """Check that something answers at the address: a scheduler does so at once, and Dask would wait forever."""
    place = urlsplit(address if "://" in address else f"tcp://{address}")
    if place.scheme != "tcp":
        return
    with socket.create_connection((place.hostname or "", place.port or 8786), ANSWER / 2) as line:
        line.settimeout(ANSWER / 2)
        if not line.recv(1):
            raise OSError("it hangs up")


def add(commands: Commands) -> None:
    """Add it to the program, with its options."""
    corpus = command(commands, "corpus", run_corpus)
    corpus.add_argument("source", help=".txt or .jsonl (also .gz), .h5, .npz; - for lines of standard input")
    corpus.add_argument("out", help="output folder, see docs/corpora.md")
    add_method(corpus)
    corpus.add_argument(
        "--unit",
        default="step",
        choices=("step", "feature"),
        help="one value per step, or also one per feature (default: %(default)s)",
    )
    corpus.add_argument(
        "--step", type=int, help="if the model predicts at every step: the step to explain (default: the last)"
    )
    corpus.add_argument(
        "--format", choices=("text", "jsonl", "hdf5", "npz"), help="format of the source, if its name does not show it"
    )
    corpus.add_argument("--field", help="field of JSON objects, or array of values in a file of arrays")
    corpus.add_argument(
        "--column", dest="columns", action="append", metavar="NAME", help="field or array to store with the results"
    )
    corpus.add_argument(
        "--summary",
        nargs="?",
        const="",
        metavar="BY",
        help="print the mean relevance per feature, by class or column BY",
    )
    corpus.add_argument("--restart", action="store_true", help="start over if the folder contains a run")
    corpus.add_argument("--strict", action="store_true", help="stop at the first record that cannot be explained")
    corpus.add_argument(
        "--longest", type=int, default=10_000, metavar="STEPS", help="reject longer sequences (default: %(default)s)"
    )
    corpus.add_argument(
        "--max-line", type=int, default=1 << 20, metavar="BYTES", help="reject longer lines (default: %(default)s)"
    )
    corpus.add_argument("--threads", type=int, help="default: all cores")
    corpus.add_argument(
        "--processes", type=int, help="use N processes instead of threads (faster on three or more cores)"
    )
    corpus.add_argument("--scheduler", metavar="ADDRESS", help="address of a Dask scheduler")
    corpus.add_argument(
        "--export",
        metavar="FILE",
        action="append",
        default=[],
        help="also write one .h5, .csv, .jsonl or .parquet file; may be repeated",
    )
    add_formulas(corpus)
    corpus.add_argument("--overwrite", action="store_true", help="replace existing files of --export")
    corpus.add_argument(
        "--evidence",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of the records whose evidence is computed (default: 0)",
    )
    corpus.add_argument("--quiet", action="store_true", help="show no progress")
    add_hints(corpus)
