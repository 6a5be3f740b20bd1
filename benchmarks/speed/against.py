"""python -m benchmarks.speed against COMMIT: is this checkout slower than an older commit?

The older commit is checked out into a temporary folder. Each side runs in a separate process, on one thread, with
the same seeded workloads; results are compared first, then the two are timed in turn. A cell is slower if the 90 %
interval of its median ratio, by bootstrap over the pairs, lies below the limit; one that fails is timed again with
three times as many pairs, as single medians of the same code against itself go down to 0.84. The newer side is the
working tree as it is, with changes that are not committed. The exit code is 1 if a cell is slower or results differ.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.speed.machine import machine
from benchmarks.speed.timing import BLOCK
from benchmarks.speed.workloads import QUADRATIC

ROOT = Path(__file__).resolve().parents[2]
WORKER = Path(__file__).with_name("worker.py")
WORKLOADS = ("W1", "W2", "W3", "W4", "W5", "W6", "W1-GRU", "W3-GRU", "W1-RNN")
LEAST = 0.95  # a ratio of old to new time below this is marked
LEAST_OF = {"W5": 0.8}  # where it is another one
AGAIN = 3  # times as many pairs for a cell that fails first
TOLERANCES = {"float32": 1e-5, "float64": 1e-10}  # of the largest value
LONGEST, SHORTER = 0.6, 0.3  # seconds: where a run takes longer, a share of the sequences takes about so long
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
Row = dict[str, Any]


class Failure(Exception):
    """What ends the command, as a sentence for the user."""


class Refused(Exception):
    """An LrpError of a side: the method is not for this model."""


class Side:
    """A worker process with a name, "old" or "new"."""

    def __init__(self, name: str, folder: Path) -> None:
        env = {"LRPNUMPY_COMPILE": "wait", **os.environ} | dict.fromkeys(ONE_THREAD, "1")
        self.name, self.folder = name, folder
        # With -c, modules are looked for in the working directory first: each side has its own lrpnumpy.
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER.read_text("utf-8")],
            cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, do: str, **details: Any) -> None:
        """Send a question; `answer` waits for its answer."""
        assert self.process.stdin is not None
        try:
            print(json.dumps({"do": do, **details}), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            raise Failure(self._ended()) from None

    def answer(self) -> Row:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise Failure(self._ended())
        found: Row = json.loads(line)
        if "refused" in found:
            raise Refused(found["refused"])
        if "failed" in found:
            raise Failure(f"The {self.name} side failed with an error:\n{found['failed']}")
        return found

    def seconds(self, calls: int) -> float:
        """Processor time of one call, over several in a row."""
        self.ask("time", calls=calls)
        return float(self.answer()["seconds"])

    def _ended(self) -> str:
        return (
            f"The {self.name} side must import lrpnumpy and benchmarks.speed.workloads and then answer, but it ended "
            f"with exit code {self.process.wait()}; its message is above."
        )

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def both(sides: Sequence[Side], do: str, **details: Any) -> list[Row]:
    """Put a question to both sides at the same time, and wait for both answers."""
    for side in sides:
        side.ask(do, **details)
    answers, refused = [], []
    for side in sides:
        try:
            answers.append(side.answer())
        except Refused as said:
            refused.append((side.name, said))
    if len(refused) == 1:
        raise Failure(f"Both sides must take the same job, but the {refused[0][0]} side refuses it: {refused[0][1]}")
    if refused:
        raise refused[0][1]
    return answers


def git(*arguments: str, folder: Path = ROOT) -> str:
    """What git prints, or the sentence it fails with as a Failure."""
    try:
        done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True)
    except FileNotFoundError:
        raise Failure("git must be installed, to check an older commit out.") from None
    if done.returncode:
        raise Failure(f"git {' '.join(arguments)} must succeed, got: {done.stderr.strip()}")
    return done.stdout.strip()


@contextmanager
def checked_out(commit: str, folder: Path) -> Iterator[None]:
    """The commit in a folder that does not exist yet, as a worktree of this repository that is removed afterwards."""
    git("worktree", "add", "--quiet", "--detach", str(folder), commit)
    try:
        yield
    finally:
        git("worktree", "remove", "--force", str(folder))


def resolved(commit: str) -> str:
    """The full name of a commit."""
    git("rev-parse", "HEAD")  # fails with git's own sentence where there is no repository
    try:
        return git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    except Failure:
        raise Failure(
            f"COMMIT must be a commit, branch or tag of this repository, got {commit!r}; "
            f"`git log --oneline` lists some."
        ) from None


def difference(files: Sequence[str]) -> float:
    """Largest difference between the results of both sides, as a share of the largest value."""
    old, new = map(np.load, files)
    if old.shape != new.shape:
        return math.inf
    off = float(abs(old - new).max() / (abs(old).max() or 1))
    return math.inf if math.isnan(off) else off


def slower_of(sides: Sequence[Side]) -> float:
    """Seconds of one call on the slower side, the better of two calls."""
    return max(min(side.seconds(1), side.seconds(1)) for side in sides)


def cell(sides: Sequence[Side], settings: Row, pairs: int, folder: Path) -> Row:
    """One workload by one method: compare, then time old and new in turn."""
    loaded = both(sides, "load", **settings)
    if loaded[0]["digest"] != loaded[1]["digest"]:
        raise Failure(
            f"Both sides must make the same inputs for {settings['name']}; benchmarks/speed/workloads.py differs."
        )
    off = difference([answer["file"] for answer in both(sides, "run", folder=str(folder))])
    slower = slower_of(sides)
    if slower > LONGEST:
        settings = settings | {"scale": settings["scale"] * SHORTER / slower}
        loaded = both(sides, "load", **settings)
        slower = slower_of(sides)
    calls = max(1, math.ceil(BLOCK / slower))
    times = timed(sides, calls, pairs)
    if is_slower(settings["name"], summary(times)):
        times = timed(sides, calls, AGAIN * pairs)
    row = {"workload": settings["name"], "method": settings["method"], "dtype": settings["dtype"]}
    row |= {"sequences": loaded[0]["sequences"], "steps": loaded[0]["steps"], "calls": calls, "difference": off}
    return row | summary(times)


def timed(sides: Sequence[Side], calls: int, pairs: int) -> list[tuple[float, float]]:
    """Seconds of old and new, in turn."""
    times = []
    for k in range(pairs):
        order = sides if k % 2 == 0 else sides[::-1]
        seconds = {side.name: side.seconds(calls) for side in order}
        times.append((seconds["old"], seconds["new"]))
    return times


def summary(times: Sequence[tuple[float, float]]) -> Row:
    """Medians of both sides, and of the ratios of the pairs, with its 90 % interval by bootstrap."""
    ratios = np.array([old / new for old, new in times])
    drawn = np.random.default_rng(0).choice(ratios, (1000, len(ratios)))
    low, high = np.quantile(np.median(drawn, axis=1), (0.05, 0.95)).tolist()
    old, new = np.median(times, axis=0).tolist()
    return {"old": old, "new": new, "ratio": float(np.median(ratios)), "interval": [low, high], "pairs": times}


def least_of(workload: str) -> float:
    """The smallest ratio that a workload may have."""
    return LEAST_OF.get(workload, LEAST)


def is_slower(workload: str, row: Row) -> bool:
    """Whether the whole interval lies below the limit."""
    return row["interval"][1] < least_of(workload)


def remark(row: Row) -> str:
    """What is wrong with a cell; nothing where it is as fast as it was, and right."""
    remarks = []
    if is_slower(row["workload"], row):
        remarks.append(f"below {least_of(row['workload'])}")
    if row["difference"] > TOLERANCES[row["dtype"]]:
        remarks.append(f"results differ by {row['difference']:.0e} of the largest value")
    return ", ".join(remarks)


HEADER = f"{'workload':<8} {'method':<18} {'dtype':<8} {'old':>12} {'new':>12} {'old/new':>10}  90 % interval"


def show(row: Row) -> str:
    head = f"{row['workload']:<8} {row['method']:<18} {row['dtype']:<8}"
    if "skipped" in row:
        return f"{head} skipped: {row['skipped']}"
    low, high = row["interval"]
    times = f"{row['old'] * 1e3:9.3f} ms {row['new'] * 1e3:9.3f} ms {row['ratio']:9.3f}x  {low:.3f} to {high:.3f}"
    return f"{head} {times}  {remark(row)}".rstrip()


def cells(sides: Sequence[Side], options: argparse.Namespace) -> list[Row]:
    """The settings of every workload and method that both sides have, and that were asked for."""
    found = both(sides, "hello")
    for side, said in zip(sides, found, strict=True):
        if side.folder not in Path(said["file"]).parents:
            raise Failure(f"The {side.name} side must run the lrpnumpy in {side.folder}, got {said['file']}.")
    old, new = found
    for kind, asked in (("workloads", options.workloads), ("methods", options.methods or ())):
        if unknown := [name for name in asked if name not in old[kind] or name not in new[kind]]:
            common = ", ".join(name for name in new[kind] if name in old[kind])
            raise Failure(f"--{kind} must be some that both sides have ({common}), got {', '.join(unknown)}.")
    methods = options.methods or [name for name in new["methods"] if name in old["methods"]]
    out = []
    for name in options.workloads:
        for method in methods:
            quadratic = "T²" in new["methods"][method]
            scale = 0.25 if quadratic and name[:2] in ("W3", "W4") else 1.0
            settings = {"name": name, "method": method, "dtype": options.dtype}
            out.append(
                settings | {"steps": QUADRATIC.get(name[:2]) if quadratic else None, "scale": scale * options.scale}
            )
    return out


def compare(options: argparse.Namespace) -> int:
    commit = resolved(options.commit)
    changed = git("status", "--porcelain").splitlines()
    found: Row = {
        "machine": machine(("numpy", "numba")),
        "old": git("log", "-1", "--format=%h %s", commit),
        "new": git("log", "-1", "--format=%h %s") + (f", and {len(changed)} changed files" if changed else ""),
        "rows": [],
    }
    print("  ".join(f"{key} {value}" for key, value in found["machine"].items()))
    print(f"old: {found['old']}\nnew: {found['new']}\n{HEADER}", flush=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())).resolve()
        stack.enter_context(checked_out(commit, folder / "old"))
        sides = []
        for name, root in (("old", folder / "old"), ("new", ROOT)):
            sides.append(Side(name, root))
            stack.callback(sides[-1].end)
        bar = stack.enter_context(tqdm(cells(sides, options), leave=False, unit="cell", disable=None))
        for settings in bar:
            bar.set_description(f"{settings['name']} {settings['method']}")
            try:
                row = cell(sides, settings, options.pairs, folder)
            except Refused as said:
                row = {"workload": settings["name"], "method": settings["method"], "dtype": settings["dtype"]}
                row["skipped"] = str(said).partition(";")[0]
            found["rows"].append(row)
            bar.write(show(row), file=sys.stdout)
            sys.stdout.flush()
    bad = [row for row in found["rows"] if "ratio" in row and remark(row)]
    print(
        f"{len(bad)} of {len(found['rows'])} cells are marked."
        if bad
        else f"No cell is below {LEAST}; all results agree."
    )
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
        print(f"wrote {options.json}")
    return 1 if bad else 0


def main(arguments: Sequence[str]) -> int:
    text = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser("python -m benchmarks.speed against", description=text[2])
    parser.add_argument("commit", metavar="COMMIT", help="the older side: a commit, branch or tag")
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), metavar="W", help="default: %(default)s")
    parser.add_argument(
        "--methods", nargs="+", metavar="METHOD", help="forward, lrp-all, …; default: all of both sides"
    )
    parser.add_argument("--dtype", choices=TOLERANCES, default="float32", help="default: %(default)s")
    parser.add_argument("--pairs", type=int, default=15, help="timed pairs of old and new (default: %(default)s)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of a workload's sequences (default: all)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every time of every pair to a file")
    try:
        return compare(parser.parse_args(arguments))
    except Failure as problem:
        print(f"python -m benchmarks.speed against: {problem}", file=sys.stderr)
        return 2
