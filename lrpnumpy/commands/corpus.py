"""Command `corpus`: every sequence of a file."""

from __future__ import annotations

import argparse
import logging
import socket
import sys
from typing import Any
from urllib.parse import urlsplit

import lrpnumpy as lrp
from lrpnumpy.commands.common import (
    FIELD,
    FORMAT,
    FORMULAS,
    HINTS,
    METHOD,
    QUIET,
    Command,
    Flag,
    class_of,
    hints_of,
    method_options,
)

ANSWER = 4  # seconds that a scheduler has to answer


def run_corpus(options: argparse.Namespace) -> None:
    """Explain every sequence of a file, however large, into a folder; run it again to resume."""
    from lrpnumpy.corpus.export import check_export

    exports = options.export or []
    for path in exports:  # before the work, not after it
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
        out=lrp.Output(options.out, options.restart, options.column),
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
    for path in exports:
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


REPEATED = {"action": "append"}
FLAGS = (
    Flag("source", "a .txt or .jsonl file (also .gz), .h5 or .npz file; - reads lines from standard input"),
    Flag("out", "output folder, see docs/corpora.md"),
    *METHOD,
    Flag("--unit", "one value per step, or also one per feature", ("step", "feature"), "step"),
    Flag("--step", "for models that predict at every step: the step to explain (default: the last)", int),
    FORMAT,
    FIELD,
    Flag("--column NAME", "field of JSON objects to store with the results; may be repeated", more=REPEATED),
    Flag("--summary BY", "print the mean relevance per feature, for each class or value of the column BY",
         more={"nargs": "?", "const": ""}),
    Flag("--restart", "start over if the folder contains a run", bool, False),
    Flag("--strict", "stop at the first record that cannot be explained", bool, False),
    Flag("--longest STEPS", "reject longer sequences", int, 10_000),
    Flag("--max-line BYTES", "reject longer lines", int, 1 << 20),
    Flag("--threads N", "number of threads (default: all cores)", int),
    Flag("--processes N", "use N processes instead of threads (faster on three or more cores)", int),
    Flag("--scheduler ADDRESS", "address of a Dask scheduler"),
    Flag("--export FILE", "also write one .h5, .csv, .jsonl or .parquet file; may be repeated", more=REPEATED),
    FORMULAS,
    Flag("--overwrite", "replace existing files of --export", bool, False),
    Flag("--evidence SHARE", "share of the records whose evidence is computed", float, 0.0),
    QUIET,
    *HINTS,
)  # fmt: skip
COMMANDS = {"corpus": Command(run_corpus, FLAGS)}
