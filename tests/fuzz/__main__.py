# ruff: noqa: T201
"""The program: `python -m tests.fuzz`."""

import argparse
import json
import os
import secrets
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

os.environ.setdefault("LRPNUMPY_COMPILE", "never")  # what is looked for is in the readers
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))  # what tests share

from .cases import Cases, scratch  # noqa: E402
from .report import about, table  # noqa: E402
from .workers import run  # noqa: E402

LISTED = 50  # failures that are printed
PIECE = 20_000  # cases, after which workers are started afresh


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Damage files and open them.")
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, help="the same cases again; a fresh one where it is left out")
    parser.add_argument("--case", type=int, help="run this case alone, in this process")
    parser.add_argument("--format", help="only formats whose name contains this")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"), help="folder for what fails")
    parser.add_argument("--figures", type=Path, help="also write the figures as JSON")
    options = parser.parse_args()
    seed = secrets.randbelow(2**31) if options.seed is None else options.seed
    began = time.perf_counter()
    cases = Cases(seed, options.format)
    if options.case is not None:
        sys.exit(_once(cases, options.case))
    count = sum(map(len, cases.seeds.values()))
    print(f"seed {seed}: {options.cases:,} cases of {count} files in {len(cases.formats)} formats", flush=True)
    failures = _all(cases, options, began)
    sys.exit(bool(failures))


def _once(cases, case):
    """One case, in this process; the exit status."""
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        seed, path, rng = cases.write(case, Path(folder))
        from .doors import DOORS, MAX_BYTES

        print(f"{seed.format}, {seed.name}: {seed.door} {path.name} {seed.given} (max_bytes {MAX_BYTES:,})")
        import lrpnumpy as lrp

        ours = lrp.WeightFileError if seed.door == "load" else lrp.LrpError
        try:
            DOORS[seed.door](path, dict(seed.given), rng)
        except ours as error:
            print(f"{type(error).__name__}: {error}")
            return 0
        print("a result")
        return 0


def _all(cases, options, began):
    """All cases, a piece at a time, after each of which the figures are written; what failed."""
    failures, seen = [], Counter()
    again = f"python -m tests.fuzz --seed {cases.number}" + (f" --format '{options.format}'" if options.format else "")

    def told(case, name, kind, more):
        failures.append([case, name, kind])
        last = more.strip().rpartition("\n")[2]
        seen[name, kind, last] += 1
        if len(failures) <= LISTED and seen[name, kind, last] <= 3:
            print(f"case {case}, {name}: {kind}: {last[:300]}\n    {again} --case {case}", flush=True)
        if seen[name, kind, last] <= 3:
            _keep(cases, case, options.failures / f"{cases.number}-{case}", more)

    total, shown = {name: [0, 0] for name in cases.formats}, time.perf_counter()
    for first in range(0, options.cases, PIECE):
        count = min(PIECE, options.cases - first)
        for counts in run(cases, options.first + first, count, options.workers, told):
            if time.perf_counter() - shown > 10:
                shown, done = time.perf_counter(), first + sum(map(sum, counts.values()))
                rate = done / (shown - began)
                print(f"{done:,} cases, {rate:.0f} a second, {len(failures)} failed", flush=True)
        total = {name: [a + b for a, b in zip(total[name], counts[name], strict=True)] for name in total}
        figures = about(cases, options, first + count, total, failures, time.perf_counter() - began)
        if options.figures:
            options.figures.write_text(json.dumps(figures, indent=1) + "\n")
    for (name, kind, more), count in seen.most_common(LISTED):
        print(f"{count} times {name}: {kind}: {more[:300]}")
    print(table(figures))
    return failures


def _keep(cases, case, folder, more):
    """Put what failed where it can be looked at."""
    folder.mkdir(parents=True, exist_ok=True)
    cases.write(case, folder)
    (folder / "what.txt").write_text(more, errors="backslashreplace")


if __name__ == "__main__":
    main()
