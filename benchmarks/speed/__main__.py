"""python -m benchmarks.speed: every method against its peers and the machine; prints, writes JSON and a plot."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("LRPNUMPY_COMPILE", "wait")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the engine's few BLAS calls are small; peers set their own

from benchmarks.speed import against, limit, ours, peers, profile
from benchmarks.speed.extras import DTYPE, EXTRAS
from benchmarks.speed.machine import machine
from benchmarks.speed.targets import OF_FORWARD, OF_LIMIT, TOL_TARGETS, target
from benchmarks.speed.timing import agree, best
from benchmarks.speed.workloads import QUADRATIC, SHAPES, Workload, network, workload

DTYPES = {"lrp-all": "float64"}  # the others in float32
# Steps on which a slow peer is timed; its time for the whole workload is in proportion (to steps, or variants' steps).
SLOW = {"literal program": 4000, "plain NumPy": 300, "torch": 4000}
LIBRARIES = ("numpy", "numba", "torch", "captum", "onnxruntime", "threadpoolctl")
Row = dict[str, Any]


def _load(job: str, name: str, quick: bool) -> Workload:
    quadratic, shape = job in ("occlusion-f", "cd"), name[:2]
    if quick:
        scale = {"W1": 0.15, "W3": 0.15, "W4": 0.1}.get(shape, 1.0)
    else:
        scale = 0.25 if quadratic and shape in ("W3", "W4") else 1.0
    steps = QUADRATIC.get(shape) if quadratic else None
    return workload(name, DTYPES.get(job, "float32"), steps and (steps // 5 if quick else steps), scale)


def against_peers(jobs: list[str], names: list[str], threads: list[int], seconds: float, quick: bool) -> Iterator[Row]:
    """One row a job, workload, peer and number of threads."""
    for job in jobs:
        for name in names:
            load = _load(job, name, quick)
            for count in threads if name == "W1" else threads[:1]:
                for peer, make in peers.of(job, load.model).items():
                    dtype = str(load.model.dtype)
                    row = {"job": job, "workload": name, "dtype": dtype, "threads": count, "peer": peer}
                    try:
                        yield row | _cell(job, load, peer, make, count, seconds, quick)
                    except ImportError as missing:
                        yield row | {"skipped": str(missing)}


def _cell(job: str, load: Workload, peer: str, make: peers.Peer, threads: int, seconds: float, quick: bool) -> Row:
    slow = job in ("lrp-all", "cd", "occlusion-f")
    part = load.part(SLOW[peer] // (6 if quick else 1)) if slow else load
    if job in ("cd", "occlusion-f") and load.name == "W4":
        part = Workload("W4", load.model, load.sequences[:1])
    engine, (theirs, finish) = ours.runner(job, load, threads), make(part, threads)
    single = load.model.dtype == "float32"
    off = agree(ours.results(job, part), finish(theirs()), 2e-3 if single else 1e-9)
    mine, other = best([engine, theirs], seconds, least=1 if quick else 3)
    flops = [limit.work(job, one)[0] for one in (load, part)]
    other *= flops[0] / flops[1]  # the peer's time for the whole workload
    least = limit.seconds(job, load, threads)
    return {
        "ours": mine, "theirs": other, "ratio": other / mine, "target": target(job, peer, load.name, threads),
        "of_limit": least / mine, "difference": off, "sample": part.rows / load.rows,
    }  # fmt: skip


def forgetful(seconds: float, quick: bool) -> Iterator[Row]:
    """Occlusion that stops when a variant is back, on networks that forget more or less; T = 1000.

    Weights are as layers are initialized. Larger ones make a network that never forgets, whatever its forget bias.
    """
    import numpy as np

    for forget, wanted in TOL_TARGETS.items():
        rng = np.random.default_rng(0)
        model = network(rng, 8, 128, 1, False, forget, fresh=True).astype("float32")
        load = Workload("W4", model, [rng.normal(size=(1000, 8)).astype("float32") for _ in range(2 if quick else 8)])
        part = Workload("W4", model, load.sequences[:1])
        row = {
            "job": "occlusion-f, tol 1e-7",
            "workload": f"W4, forget bias {forget:+g}",
            "dtype": "float32",
            "threads": 1,
            "peer": "torch",
        }
        try:
            engine = ours.runner("occlusion-f", load, 1, tol=1e-7)
            theirs, finish = peers.torch_occlusion(part, 1, size=1)
            off = agree(ours.results("occlusion-f", part, tol=1e-7), finish(theirs()), 2e-3)
            mine, other = best([engine, theirs], seconds, least=2)
            other *= load.rows / part.rows
            yield row | {
                "ours": mine,
                "theirs": other,
                "ratio": other / mine,
                "target": wanted,
                "difference": off,
            }
        except ImportError as missing:
            yield row | {"skipped": str(missing)}


def of_forward(names: list[str], seconds: float, quick: bool) -> Iterator[Row]:
    """Forward and backward together as multiples of the forward pass alone, and as a share of the physical limit."""
    for name in names:
        load = workload(name, "float32", scale=0.15 if quick and name[:2] in ("W1", "W3", "W4") else 1.0)
        jobs, most = ["forward", *OF_FORWARD["LSTM"]], OF_FORWARD[peers.first_of(load.model)]
        times = dict(zip(jobs, best([ours.runner(job, load, 1) for job in jobs], 2 * seconds), strict=True))
        for job in jobs:
            yield {
                "job": job, "workload": name, "ours": times[job], "of_forward": times[job] / times["forward"],
                "at_most": most.get(job), "of_limit": limit.seconds(job, load, 1) / times[job],
                "at_least": OF_LIMIT.get(name), "dtype": str(load.model.dtype),
            }  # fmt: skip


def _verdict(value: float, wanted: float | None, at: str = "least") -> str:
    if wanted is None:
        return ""
    good = value >= wanted if at == "least" else value <= wanted
    return "yes" if good else f"{value / wanted:.2f}x" if at == "least" else f"{wanted / value:.2f}x"


def show_cell(row: Row) -> str:
    head = f"{row['job']:<22} {row['workload']:<20} {row['dtype']}  {row['threads']} thr  {row['peer']:<16}"
    if "skipped" in row:
        return f"{head} skipped: {row['skipped']}"
    limit_share = f"{row['of_limit']:5.0%} of the limit" if "of_limit" in row else ""
    wanted = "" if row["target"] is None else f"target {row['target']:g}"
    return (
        f"{head} {row['ours'] * 1e3:10.3f} ms  {row['theirs'] * 1e3:12.2f} ms  {row['ratio']:9.1f}x  {wanted:<13}"
        f" {_verdict(row['ratio'], row['target']):<6} {limit_share}"
    )


def show_forward(row: Row) -> str:
    wanted = "" if row["at_most"] is None else f"at most {row['at_most']}"
    return (
        f"{row['job']:<22} {row['workload']:<7} {row['dtype']} {row['ours'] * 1e3:10.3f} ms"
        f"  {row['of_forward']:5.2f} x forward  {wanted:<12} {_verdict(row['of_forward'], row['at_most'], 'most'):<6}"
        f" {row['of_limit']:5.0%} of the limit"
        f" {_verdict(row['of_limit'], row['at_least']) and 'wanted ' + format(row['at_least'], '.0%')}"
    )


def show_extra(row: Row) -> str:
    verdict = _verdict(row["value"], row["wanted"], row["at"])
    wanted = f"at {row['at']} {row['wanted']:<6g} {verdict}"
    return f"{row['question']:<72} {row['dtype']} {row['value']:10.3g}  {wanted} {row.get('note', '')}".rstrip()


def main() -> int:
    if sys.argv[1:2] == ["against"]:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # its temporary folder is then removed, too
        return against.main(sys.argv[2:])
    if sys.argv[1:] == ["profile"]:
        return profile.main()
    choices = [*ours.JOBS, "tol", "of-forward", *EXTRAS]
    parser = argparse.ArgumentParser(
        "python -m benchmarks.speed",
        description=__doc__,
        epilog="python -m benchmarks.speed against COMMIT compares with an older commit instead; see its --help. "
        "python -m benchmarks.speed profile shows how much of a call is spent inside kernels.",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="smaller workloads, fewer repetitions, peers and API only: under two minutes",
    )
    parser.add_argument("--job", nargs="+", choices=choices, metavar="JOB", help=f"some of: {', '.join(choices)}")
    parser.add_argument("--workload", nargs="+", choices=SHAPES, metavar="W", help=f"some of: {', '.join(SHAPES)}")
    parser.add_argument(
        "--threads", nargs="+", type=int, default=None, help="numbers of threads for W1 (default: 1 and 2)"
    )
    parser.add_argument("--seconds", type=float, default=None, help="to spend on each cell (default: 4, quick: 0.3)")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("results/speed"),
        help="folder for the JSON and the plot (default: %(default)s)",
    )
    options = parser.parse_args()
    seconds = options.seconds or (0.3 if options.quick else 4.0)
    jobs = options.job or (
        choices
        if not options.quick
        else [c for c in choices if c not in ("tol", "startup", "first", "memory", "growth")]
    )
    names, threads = options.workload or list(SHAPES), options.threads or ([1] if options.quick else [1, 2])
    found: Row = {"machine": machine(LIBRARIES), "quick": options.quick, "peers": [], "of_forward": [], "extras": []}
    print("  ".join(f"{key} {value}" for key, value in found["machine"].items()), flush=True)

    def collect(rows: Iterator[Row], into: str, show: Any) -> None:
        for row in rows:
            found[into].append(row)
            print(show(row), flush=True)

    chosen = [job for job in jobs if job in ours.JOBS]
    collect(against_peers(chosen, names, threads, seconds, options.quick), "peers", show_cell)
    if "tol" in jobs:
        collect(forgetful(seconds, options.quick), "peers", show_cell)
    if "of-forward" in jobs:
        collect(of_forward(names, seconds, options.quick), "of_forward", show_forward)
    for name in (job for job in jobs if job in EXTRAS):
        collect((row | {"dtype": DTYPE} for row in EXTRAS[name](seconds)), "extras", show_extra)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "speed.json").write_text(json.dumps(found, indent=1))
    from benchmarks.speed.plot import figure

    figure(found).savefig(options.out / "speed.png", dpi=120)
    print(f"wrote {options.out / 'speed.json'} and {options.out / 'speed.png'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
