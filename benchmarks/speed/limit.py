"""The physical limit of a job: its matrix work at the measured peak, plus its activations at the best measured rate."""

from __future__ import annotations

from functools import cache

import numpy as np

import lrpnumpy as lrp
from benchmarks.speed.timing import best
from benchmarks.speed.workloads import Workload
from lrpnumpy.kernels.arguments import R1, W1, Int
from lrpnumpy.kernels.compile import Kernel
from lrpnumpy.kernels.steps import activate


@Kernel
def activations(z: R1, y: W1, rounds: Int) -> None:
    """Sigmoids of an array that fits the cache, again and again."""
    for _ in range(rounds):
        activate(z, y, 0)


@cache
def peak(dtype: str) -> float:
    """Floating-point operations a second of one core in a large matrix product."""
    from threadpoolctl import threadpool_limits

    a = np.random.default_rng(0).normal(size=(1024, 1024)).astype(dtype)
    out = np.empty_like(a)
    with threadpool_limits(1):
        (seconds,) = best([lambda: np.matmul(a, a, out=out)], 1.0)
    return 2 * 1024**3 / seconds


@cache
def activation_rate(dtype: str) -> float:
    """Sigmoids a second of one core."""
    z = np.random.default_rng(0).normal(size=2048).astype(dtype)
    y = np.empty_like(z)
    (seconds,) = best([lambda: activations(z, y, 100)], 0.5)
    return 100 * z.size / seconds


def work(job: str, load: Workload) -> tuple[float, float]:
    """(floating-point operations of products, activations) that the job needs at the least."""
    *below, layer, _ = load.model.layers
    parts = [layer.forward, layer.backward] if isinstance(layer, lrp.Bidirectional) else [layer]
    words = T = np.array([len(x) for x in load.sequences], float)
    flops = elements = 0.0
    for window in below:
        T = window.windows.count(T)
        if isinstance(window, lrp.layers.Conv1D):  # one product for the sums, one for the backward pass
            flops += T.sum() * 2 * window.K.size * (2 if job.startswith(("gradient", "lrp")) else 1)
    rows, pairs = T.sum(), (words * (T + 1) / 2).sum()  # steps; steps of all variants from where they differ
    for part in parts:
        H, D = part.units, part.inputs
        gates = part.b.size // H  # 4 of an LSTM, 3 of a GRU, 1 of an RNN
        activated = gates + (gates == 4)  # an LSTM has tanh(c) besides
        flops += rows * 2 * gates * H * (D + H)
        elements += rows * activated * H
        if job == "lrp-all":
            flops += rows * 2 * H * (D + H)  # signals take all: only g, or n, passes anything on
        elif job.startswith(("gradient", "lrp")):
            flops += rows * 2 * gates * H * (D + H)
        elif job == "occlusion-f":
            flops += pairs * 2 * gates * H * H
            elements += pairs * activated * H
        elif job == "cd":
            split = gates - (gates == 4)  # o of an LSTM is not split
            flops += pairs * 2 * split * H * H
            elements += pairs * (activated - (gates == 4)) * H  # one exponential for each
    return flops, elements


def seconds(job: str, load: Workload, threads: int) -> float:
    """The least time that the job can take on this number of cores."""
    flops, elements = work(job, load)
    dtype = str(load.model.dtype)
    return (flops / peak(dtype) + elements / activation_rate(dtype)) / threads
