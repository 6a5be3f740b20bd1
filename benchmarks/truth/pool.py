"""Run the jobs of a benchmark in processes, save the rows of each job as a file, and make tables of the files.

A job is a tuple whose last entry is its side: "train", "ours" (the methods of lrpnumpy) or "peers". Its file has the
rows and the CPU seconds, and is written as soon as the job ends, so that an interrupted run loses one job per process.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.truth.table import Table

SIDES = ("train", "ours", "peers")
CACHED = 3.0  # s: a training job that took less found its network in the cache
Job = tuple[Any, ...]


def file_of(name: str, job: Job, arguments: argparse.Namespace) -> Path:
    """The file of a job's rows."""
    words = "-".join(map(str, job)).replace(" ", "_")
    return arguments.out / "jobs" / f"{name}-{words}.json"


def work(name: str, job: Job, arguments: argparse.Namespace) -> float:
    """Run one job in a process of the pool and save its rows; the CPU seconds."""
    began = time.process_time()
    rows = import_module(f"benchmarks.truth.{name}").work(job, arguments)
    seconds = time.process_time() - began
    path = file_of(name, job, arguments)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps({"cpu": seconds, "rows": rows}), "utf-8")
    temporary.replace(path)
    return seconds


def run(name: str, side: str, arguments: argparse.Namespace) -> None:
    """The jobs of one side of a benchmark; with --resume those that have no file yet."""
    jobs = [job for job in import_module(f"benchmarks.truth.{name}").jobs(arguments) if job[-1] == side]
    if arguments.resume:
        jobs = [job for job in jobs if not file_of(name, job, arguments).exists()]
    began, total = time.monotonic(), 0.0
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.processes, context) as pool:
        waiting = {pool.submit(work, name, job, arguments): job for job in jobs}
        for count, done in enumerate(as_completed(waiting), start=1):
            total += done.result()
            minutes = (time.monotonic() - began) / 60
            said = " ".join(map(str, waiting[done]))
            print(
                f"{name} {said}: {done.result():.0f} s of CPU; {count} of {len(jobs)} jobs, {total / 60:.1f} minutes "
                f"of CPU, {minutes:.1f} minutes",
                file=sys.stderr,
                flush=True,
            )


def report(name: str, arguments: argparse.Namespace) -> None:
    """Print and write the tables of a benchmark, from the files of its jobs."""
    module = import_module(f"benchmarks.truth.{name}")
    files = {job: load(file_of(name, job, arguments)) for job in module.jobs(arguments)}
    results = {job: saved["rows"] for job, saved in files.items() if saved and job[-1] != "train"}
    if not results:
        return
    for table in (*module.tables(results), cpu_table(name, files)):
        table.print()
        table.write(arguments.out)


def load(path: Path) -> dict[str, Any] | None:
    """The CPU seconds and rows of a job; None if it has not been run."""
    if not path.exists():
        return None
    return json.loads(path.read_text("utf-8"))


def cpu_table(name: str, files: dict[Job, dict[str, Any] | None]) -> Table:
    """How long jobs take, by side: seconds of CPU per job, and the minutes of all jobs if each takes the mean."""
    table = Table(f"{name}, CPU time", ["finished", "s per job", "minutes of all jobs"])
    for side in SIDES:
        every = {job: saved for job, saved in files.items() if job[-1] == side}
        done = [saved["cpu"] for saved in every.values() if saved is not None]
        measured = [cpu for cpu in done if cpu is not None and (side != "train" or cpu > CACHED)]
        if done:
            table.add(side, "finished", [], f"{len(done)} of {len(every)}")
            table.add(side, "s per job", measured)
        if measured:
            table.add(side, "minutes of all jobs", [np.mean(measured) * len(every) / 60])
    return table
