"""Train the toy task's networks: seeds 0, 1, 2, … until enough of each task have converged.

Starts are independent, so every core has one. A finished start is a line of the checkpoint file; when the
program is interrupted and started again, finished starts are not repeated.
"""

from __future__ import annotations

import json
import multiprocessing
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict
from functools import cache
from os import cpu_count
from pathlib import Path

from tqdm import tqdm

from benchmarks.paper.measures.toy import TASKS, splits
from benchmarks.paper.toy_training import Trained, train

CONVERGED = 1e-4  # validation error
WANTED = 50  # networks of each task

Starts = dict[str, dict[int, Trained]]  # task -> seed -> start

_data = cache(splits)


def _start(cell: str, job: tuple[str, int]) -> tuple[str, Trained]:
    if cell == "gru":
        from benchmarks.paper.toy_gru import train as train_gru  # torch is loaded where it is needed

        return job[0], train_gru(_data(job[0]), job[1])
    return job[0], train(_data(job[0]), job[1])


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


def next_job(starts: Starts, taken: dict[str, set[int]], wanted: int) -> tuple[str, int] | None:
    """The least seed not yet taken, of the unfinished task that was tried less; None when all have enough."""
    unfinished = [task for task in TASKS if len(counted(starts[task], wanted)[0]) < wanted]
    if not unfinished:
        return None
    task = min(unfinished, key=lambda name: len(taken[name]))
    return task, min(set(range(len(taken[task]) + 1)) - taken[task])


def train_all(checkpoint: Path, wanted: int = WANTED, cell: str = "lstm", processes: int | None = None) -> Starts:
    """Go on until `wanted` starts of each task have converged."""
    starts = read(checkpoint)
    taken = {task: set(starts[task]) for task in TASKS}
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    workers = processes or cpu_count() or 1

    def found() -> int:
        return sum(len(counted(starts[task], wanted)[0]) for task in TASKS)

    bar = tqdm(total=wanted * len(TASKS), initial=found(), unit="network", smoothing=0)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawn) as pool, checkpoint.open("a") as file, bar:
        running: set[Future[tuple[str, Trained]]] = set()
        while True:
            while len(running) < workers and (job := next_job(starts, taken, wanted)):
                taken[job[0]].add(job[1])
                running.add(pool.submit(_start, cell, job))
            if not running:
                return starts
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for task, start in (future.result() for future in done):
                starts[task][start.seed] = start
                file.write(json.dumps({"task": task, **asdict(start)}) + "\n")
                file.flush()
            bar.update(found() - bar.n)
            bar.set_postfix_str(", ".join(f"{len(s)} starts of {name}" for name, s in starts.items()))
