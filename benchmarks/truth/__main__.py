"""Benchmarks with a known truth: `python -m benchmarks.truth state|boxes|shortcuts|programs|published|all --sst DIR`.

Networks are trained from seeds (extra `train`) and kept in the folder --cache. Peers (extra `bench`) run in the same
processes on the same networks. A benchmark is a module of this folder with jobs(arguments), work(job, arguments) and
tables(results); the jobs are independent of each other and run in --processes processes, one thread each. All jobs of
our methods come before those of the peers.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from benchmarks.truth import page, pool

BENCHMARKS = ("state", "boxes", "shortcuts", "programs", "published")
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.truth", description=__doc__.splitlines()[0])
    parser.add_argument("benchmark", choices=(*BENCHMARKS, "all", "page"), help="page: tables of the saved results")
    parser.add_argument("--sst", type=Path, help="folder with Stanford's train.txt, dev.txt and test.txt (shortcuts)")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for tables and figures (results)")
    parser.add_argument("--docs", type=Path, help="folder for the pages truth.md and truth-results.md (--out)")
    parser.add_argument("--cache", type=Path, help="folder of trained networks (networks in --out)")
    parser.add_argument("--seeds", type=int, help="networks of each kind (5; boxes 3, programs 20, published 2)")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="without captum and shap")
    parser.add_argument("--processes", type=int, default=2, help="processes, one thread each (2)")
    parser.add_argument("--resume", action="store_true", help="run only the jobs that an earlier run did not finish")
    arguments = parser.parse_args()
    arguments.cache = arguments.cache or arguments.out / "networks"
    if arguments.sst is None and arguments.benchmark in ("shortcuts", "all"):
        parser.error("shortcuts are planted in the Stanford Sentiment Treebank; say where it is with --sst DIR")
    os.environ |= dict.fromkeys(ONE_THREAD, "1")
    os.environ.setdefault("LRPNUMPY_COMPILE", "wait")  # the same bits from the first explanation on
    names: tuple[str, ...] = (arguments.benchmark,)
    if arguments.benchmark in ("all", "page"):
        names = BENCHMARKS
    if arguments.benchmark != "page":
        for sides in (("train", "ours"), ("peers",)):
            for name in names:
                for side in sides:
                    pool.run(name, side, arguments)
    for name in names:
        pool.report(name, arguments)
    page.write(arguments.out, arguments.docs or arguments.out)


if __name__ == "__main__":
    main()
