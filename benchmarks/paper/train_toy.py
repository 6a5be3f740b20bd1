"""Train the toy task's networks: seeds 0, 1, 2, … until enough of each task have converged.

Starts are independent, so every core has one. A finished start is a line of the checkpoint file; when the
program is interrupted and started again, finished starts are not repeated.
"""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path

from tqdm import tqdm

from lrpnumpy.evaluate.toy import TASKS, splits
from lrpnumpy.evaluate.toy_training import Trained, train

CONVERGED = 1e-4  # validation error
WANTED = 50  # networks of each task

Starts = dict[str, dict[int, Trained]]  # task -> seed -> start

_data = cache(splits)


def _start(job: tuple[str, int]) -> tuple[str, Trained]:
    task, seed = job
    return task, train(_data(task), seed)


def read(checkpoint: Path) -> Starts:
    """The finished starts; a line that an interruption cut short is left out."""
    starts: Starts = {task: {} for task in TASKS}
    for line in checkpoint.read_text().splitlines() if checkpoint.exists() else ():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        task = record.pop("task")
        record["parameters"] = tuple(record["parameters"])
        starts[task][record["seed"]] = Trained(**record)
    return starts


def counted(starts: dict[int, Trained], wanted: int = WANTED) -> tuple[list[Trained], int]:
    """The first `wanted` converged starts, seeds in order without a gap, and how many starts that took."""
    kept: list[Trained] = []
    seed = 0
    while seed in starts and len(kept) < wanted:
        kept += [starts[seed]] if starts[seed].errors["validation"] < CONVERGED else []
        seed += 1
    return kept, seed


def _jobs(starts: Starts, wanted: int) -> Iterator[tuple[str, int]]:
    """Seeds in order, the tasks in turn, for as long as a task has too few."""
    seeds = dict.fromkeys(TASKS, 0)
    while open_tasks := [task for task in TASKS if len(counted(starts[task], wanted)[0]) < wanted]:
        for task in open_tasks:
            while seeds[task] in starts[task]:
                seeds[task] += 1
            yield task, seeds[task]
            seeds[task] += 1


def train_all(checkpoint: Path, wanted: int = WANTED, processes: int | None = None) -> Starts:
    """Go on until `wanted` starts of each task have converged."""
    starts = read(checkpoint)
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    jobs = _jobs(starts, wanted)
    workers = processes or multiprocessing.cpu_count()
    room = multiprocessing.Semaphore(workers)  # a job is chosen when a worker is free, so no start is wasted

    def when_free() -> Iterator[tuple[str, int]]:
        for job in jobs:
            room.acquire()
            if len(counted(starts[job[0]], wanted)[0]) < wanted:
                yield job
            else:
                room.release()

    found = sum(len(counted(starts[task], wanted)[0]) for task in TASKS)
    bar = tqdm(total=wanted * len(TASKS), initial=found, unit="network", smoothing=0)
    with (
        multiprocessing.get_context("spawn").Pool(workers) as pool,
        checkpoint.open("a") as file,
        bar,
    ):
        for task, start in pool.imap_unordered(_start, when_free()):
            room.release()
            starts[task][start.seed] = start
            file.write(json.dumps({"task": task, **asdict(start)}) + "\n")
            file.flush()
            bar.update(sum(len(counted(starts[name], wanted)[0]) for name in TASKS) - bar.n)
            bar.set_postfix_str(", ".join(f"{len(s)} starts of {name}" for name, s in starts.items()))
    return starts
