"""Benchmarks with a known truth: `python -m benchmarks.truth state|boxes|shortcuts|programs|all --sst DIR`.

Networks are trained from seeds (extra `train`) and kept in the folder --cache. Peers (extra `bench`) run in the same
processes on the same networks. A benchmark is a module of this folder with jobs(arguments), work(job, arguments) and
tables(results); the jobs are independent of each other and run in --processes processes, one thread each.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.truth import page
from benchmarks.truth.pool import run

BENCHMARKS = ("state", "boxes", "shortcuts")
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def programs(arguments: argparse.Namespace) -> None:
    """Networks whose program is known, which has a command of its own."""
    sys.argv = ["programs", "--out", str(arguments.out)]
    if arguments.seeds:
        sys.argv += ["--seeds", str(arguments.seeds)]
    import_module("benchmarks.truth.programs").main()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.truth", description=__doc__.splitlines()[0])
    parser.add_argument("benchmark", choices=(*BENCHMARKS, "programs", "all", "page"))
    parser.add_argument("--sst", type=Path, help="folder with Stanford's train.txt, dev.txt and test.txt (shortcuts)")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for tables and figures (results)")
    parser.add_argument("--cache", type=Path, help="folder of trained networks (networks in --out)")
    parser.add_argument("--seeds", type=int, help="networks of each kind (5; programs 20)")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="without captum and shap")
    parser.add_argument("--processes", type=int, default=2, help="processes, one thread each (2)")
    parser.add_argument(
        "--resume", action="store_true", help="use the results of networks that an earlier run finished"
    )
    arguments = parser.parse_args()
    arguments.cache = arguments.cache or arguments.out / "networks"
    if arguments.sst is None and arguments.benchmark in ("shortcuts", "all"):
        parser.error("shortcuts are planted in the Stanford Sentiment Treebank; say where it is with --sst DIR")
    os.environ |= dict.fromkeys(ONE_THREAD, "1")
    os.environ.setdefault("LRPNUMPY_COMPILE", "wait")  # the same bits from the first explanation on
    if arguments.benchmark == "page":
        page.write(arguments.out)
        return
    names = (*BENCHMARKS, "programs") if arguments.benchmark == "all" else (arguments.benchmark,)
    for name in names:
        if name == "programs":
            programs(arguments)
        else:
            run(name, arguments)
    page.write(arguments.out)


if __name__ == "__main__":
    main()
