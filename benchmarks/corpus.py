"""How fast is a corpus, in how much memory, and how does it scale: one million sentences by default.

    python -m benchmarks.corpus [--sentences N] [--dask | --processes] [--folder DIR]

Sentences are drawn from the vocabulary of the bundled model, with lengths like those of the Sentiment Treebank (10 to
50 words, 20 on average). The rate of explain_corpus, from a text file to a folder, is compared with that of
explain_all on sentences in memory, timed before and after it; peak memory is that of the process of explain_corpus.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

import lrpnumpy as lrp
from benchmarks.speed.timing import peak_memory

IN_MEMORY = 50_000  # sentences per call of explain_all


def sentences(model: lrp.Model, count: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    words = np.array([word for word in model.embedding.vocabulary if word.isalpha()])
    lengths = np.clip(rng.gamma(4, 5, count).round().astype(int), 10, 50)
    return [
        " ".join(part) for part in np.split(words[rng.integers(len(words), size=lengths.sum())], lengths.cumsum()[:-1])
    ]


def write(path: Path, count: int) -> None:
    model = lrp.load("sentiment")
    with path.open("w", encoding="utf-8") as file:
        for block in range(0, count, 10_000):
            file.writelines(line + "\n" for line in sentences(model, min(10_000, count - block), block))


def in_memory() -> dict:
    """The rate of explain_all."""
    model = lrp.load("sentiment")
    texts = sentences(model, IN_MEMORY, 1)
    lrp.explain_all(model, texts[:2000], unit="step")
    start = time.perf_counter()
    lrp.explain_all(model, texts, unit="step")
    return {"rate": IN_MEMORY / (time.perf_counter() - start)}


def corpus(source: str, out: str, workers: int = 0, chunk: int = 2048) -> dict:
    """The rate of explain_corpus and the most memory it took; with `workers` on a Dask cluster of as many processes."""
    model = lrp.load("sentiment")
    output = lrp.Output(out, chunk=chunk)
    if not workers:
        lrp.explain_corpus(model, sentences(model, 2000, 2), out=f"{out}.warm")
        start = time.perf_counter()
        found = lrp.explain_corpus(model, source, out=output)
        seconds = time.perf_counter() - start
    else:
        from distributed import Client, LocalCluster

        with (
            LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            warm = lrp.Output(f"{out}.warm", chunk=50)
            lrp.explain_corpus(model, sentences(model, 200 * workers, 2), out=warm, workers=client)
            start = time.perf_counter()
            found = lrp.explain_corpus(model, source, out=output, workers=client)
            seconds = time.perf_counter() - start
    return {"rate": found.records / seconds, "seconds": seconds, "memory": peak_memory(), "explained": len(found)}


def by_processes(source: str, out: str, count: int) -> dict:
    """The rate of explain_corpus by this number of processes, and the share of the one that reads and writes.

    That process does its work alone, so that its share shows how many workers it could feed.
    """
    model = lrp.load("sentiment")
    start, own = time.perf_counter(), time.process_time()
    found = lrp.explain_corpus(model, source, out=out, workers=count)
    seconds, own = time.perf_counter() - start, time.process_time() - own
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "rate": found.records / seconds,
        "own": own / found.records,
        "workers": (workers.ru_utime + workers.ru_stime) / found.records,
    }


def apart(function, *args) -> dict:
    """The result of a function in a separate process, whose memory is only that of the function."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *args).result()


def equal(a: Path, b: Path) -> bool:
    """Whether two runs have the same parts, to the last bit."""
    names = sorted(path.name for path in a.glob("part-*.npz"))
    return bool(names) and all((a / name).read_bytes() == (b / name).read_bytes() for name in names)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sentences", type=int, default=1_000_000)
    parser.add_argument("--dask", action="store_true", help="one and two Dask workers instead of threads")
    parser.add_argument("--processes", action="store_true", help="one, two and four worker processes, and threads")
    parser.add_argument("--folder", help="where the files go; needs about 1 GB for a million sentences")
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, NumPy {np.__version__}, "
          f"load {os.getloadavg()[0]:.1f}")  # fmt: skip
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        write(folder / "corpus.txt", options.sentences)
        source = str(folder / "corpus.txt")
        if options.dask:
            found = {n: corpus(source, str(folder / f"{n}"), n) for n in (1, 2)}
            for n, result in found.items():
                print(f"{n} Dask worker(s): {result['rate']:,.0f} sentences per second")
            print(f"two workers against one: {found[2]['rate'] / found[1]['rate']:.2f} x")
            corpus(source, str(folder / "threads"))
            same = equal(folder / "1", folder / "2") and equal(folder / "1", folder / "threads")
            print(f"one worker, two and threads give the same bits: {same}")
            return
        if options.processes:
            threads = apart(corpus, source, str(folder / "threads"))
            print(f"threads: {threads['rate']:,.0f} sentences per second")
            for n in (1, 2, 4):
                found = apart(by_processes, source, str(folder / f"p{n}"), n)
                same = equal(folder / "threads", folder / f"p{n}")
                print(
                    f"{n} processes: {found['rate']:,.0f} sentences per second, {found['rate'] / threads['rate']:.2f} "
                    f"x threads; processor time per sentence {found['workers'] * 1e6:.0f} µs in workers, "
                    f"{found['own'] * 1e6:.1f} µs in the process that reads and writes: enough for "
                    f"{found['workers'] / found['own']:.1f} workers; same bits as threads: {same}",
                    flush=True,
                )
            return
        before = apart(in_memory)
        result = apart(corpus, source, str(folder / "out"))
        after = apart(in_memory)
        memory = (before["rate"] + after["rate"]) / 2
        print(json.dumps(result))
        print(f"explain_all in memory: {before['rate']:,.0f} before, {after['rate']:,.0f} after, sentences per second")
        print(
            f"explain_corpus:        {result['rate']:,.0f} sentences per second, {result['rate'] / memory:.0%} of that"
        )
        print(f"{result['rate'] * 3600 / 1e6:,.1f} million sentences an hour; peak memory {result['memory']:,.0f} MB")
        print(f"output: {sum(path.stat().st_size for path in (folder / 'out').iterdir()) / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
