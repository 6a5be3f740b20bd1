"""Run the jobs of a benchmark in processes, keep their results as files, and make the tables."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib import import_module
from typing import Any


def work(name: str, job: tuple[Any, ...], arguments: argparse.Namespace) -> Any:
    """The rows of one job, in a process of the pool; from the file of an earlier run with --resume."""
    path = arguments.out / "jobs" / f"{name}-{'-'.join(map(str, job))}.json"
    if arguments.resume and path.exists():
        return json.loads(path.read_text("utf-8"))
    rows = import_module(f"benchmarks.truth.{name}").work(job, arguments)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows), "utf-8")
    return rows


def run(name: str, arguments: argparse.Namespace) -> None:
    """One benchmark: all of its jobs, then its tables."""
    module = import_module(f"benchmarks.truth.{name}")
    jobs, began, found = module.jobs(arguments), time.monotonic(), {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.processes, context) as pool:
        waiting = {pool.submit(work, name, job, arguments): job for job in jobs}
        for done in as_completed(waiting):
            found[waiting[done]] = done.result()
            minutes = (time.monotonic() - began) / 60
            print(f"{name}: {len(found)} of {len(jobs)} networks, {minutes:.1f} minutes", file=sys.stderr, flush=True)
    for table in module.tables({job: found[job] for job in jobs}):  # in the order of jobs, not of their ends
        table.print()
        table.write(arguments.out)
