"""python -m benchmarks.speed profile: how much of a call is spent inside compiled kernels, and how much around them.

Times are of the processor, the shortest of many calls, and of the same call for both columns; calls are made in turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import lrpnumpy as lrp
from benchmarks.speed import ours, peers
from benchmarks.speed.extras import DTYPE, sentences
from benchmarks.speed.workloads import Workload, workload
from lrpnumpy.encode import encode, packed
from lrpnumpy.kernels.compile import Kernel


@contextmanager
def kernels_timed() -> Iterator[list[float]]:
    """Have the time of every kernel call appended to a list."""
    times: list[float] = []
    plain = Kernel.__call__

    def timed(self: Kernel, *arguments: Any) -> None:
        start = time.thread_time()
        plain(self, *arguments)
        times.append(time.thread_time() - start)

    Kernel.__call__ = timed  # type: ignore[method-assign]
    try:
        yield times
    finally:
        Kernel.__call__ = plain  # type: ignore[method-assign]


def shortest(calls: dict[str, Callable[[], Any]], seconds: float) -> dict[str, tuple[float, float]]:
    """Of each call the shortest time, and how much of it was inside kernels."""
    best = dict.fromkeys(calls, (float("inf"), 0.0))
    end = time.monotonic() + seconds * len(calls)
    with kernels_timed() as times:
        while time.monotonic() < end:
            for name, call in calls.items():
                block = time.monotonic() + 0.02
                call()  # so that its code and arrays are in the cache
                while True:
                    times.clear()
                    start = time.thread_time()
                    call()
                    best[name] = min(best[name], (time.thread_time() - start, sum(times)))
                    if time.monotonic() > block:
                        break
    return best


def one_sequence() -> dict[str, Callable[[], Any]]:
    """The forward pass of W2, by the engine, by `predict` and by ONNX Runtime; and `explain` of a sentence."""
    work = workload("W2", DTYPE)
    x, batch = work.sequences[0], work.batches[0]
    model, words, _ = sentences()
    sentence = words[len(words) // 2]
    rows = packed(model, [encode(model, sentence)])[model.main]
    calls: dict[str, Callable[[], Any]] = {
        "W2: engine, forward": lambda: ours.scores(work.model, batch),
        "W2: predict": lambda: lrp.predict(work.model, x),
        "sentence: engine, lrp-all": lambda: ours.JOBS["lrp-all"](model, rows),
        "sentence: explain, lrp-all": lambda: lrp.explain(model, sentence, target=0),
    }
    try:
        calls["W2: ONNX Runtime"] = peers.onnx_forward(work, 1, 1)[0]
    except ImportError:
        print("onnxruntime is not installed: its row is left out")
    return calls


def corpus() -> dict[str, Callable[[], Any]]:
    """The sentences of W1's lengths: the engine on vectors, and `explain_all` on token ids and on words."""
    model, words, ids = sentences()
    vectors = Workload("W1", model, [model.embedding.E[some] for some in ids])
    return {
        "corpus: engine, lrp-all": ours.runner("lrp-all", vectors, 1),
        "corpus: explain_all, token ids": lambda: lrp.explain_all(model, ids, target=0, unit="step", threads=1),
        "corpus: explain_all, word lists": lambda: lrp.explain_all(model, words, target=0, threads=1),
    }


def main(seconds: float = 4.0) -> int:
    """Print the table."""
    print(f"{'':<36} {'total':>12} {'in kernels':>12} {'around them':>12}")
    for calls, unit, scale in ((one_sequence(), "µs", 1e6), (corpus(), "ms", 1e3)):
        for name, (total, inside) in shortest(calls, seconds).items():
            times = [total]
            if inside:  # by our kernels
                times += [inside, total - inside]
            print(f"{name:<36} {' '.join(f'{scale * value:>9.1f} {unit}' for value in times)}", flush=True)
    return 0
