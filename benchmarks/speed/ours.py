"""Our engine on packed, checked arrays: one function a job, each from a batch to packed rows of results."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import lrpnumpy as lrp
from benchmarks.speed.workloads import Workload
from lrpnumpy.methods.decomposition import decompose_words
from lrpnumpy.methods.deeplift import differences
from lrpnumpy.methods.occlusion import Occlusion, occlude_words
from lrpnumpy.methods.reference import references
from lrpnumpy.packed import Packed
from lrpnumpy.passes import backward, forward
from lrpnumpy.rules import DEEPLIFT, GRADIENT, REFERENCE, RULES, Epsilon, Propagation, Relevance

TARGET = 0


def scores(model: lrp.Model, x: Packed) -> Any:
    return forward(model, {model.main: x}).scores


def propagated(how: Propagation) -> Callable[[lrp.Model, Packed], Any]:
    """Gradient times input, or LRP by a rule: relevance of all variables."""

    def job(model: lrp.Model, x: Packed) -> Any:
        trace = forward(model, {model.main: x}, how)
        start = np.zeros_like(trace.scores)
        start[:, TARGET] = trace.scores[:, TARGET] if how.times_input else 1
        found = backward(trace, start, how).inputs[model.main]
        return found if how.times_input else found * x.rows  # packed rows

    return job


def occluded(tol: float = 0.0) -> Callable[[lrp.Model, Packed], Any]:
    def job(model: lrp.Model, x: Packed) -> Any:
        trace = forward(model, {model.main: x}, "states")
        without = occlude_words(trace, Occlusion(tol=tol).prepare(trace.model, None))
        return trace.scores[:, TARGET][x.batch.owner] - without[:, TARGET]

    return job


def decomposed(model: lrp.Model, x: Packed) -> Any:
    return decompose_words(forward(model, {model.main: x}, "parts")).relevant[:, TARGET]


def lifted(model: lrp.Model, x: Packed) -> Any:
    """DeepLIFT against zeros."""
    trace = forward(model, {model.main: x}, DEEPLIFT)
    start = np.zeros_like(trace.scores)
    start[:, TARGET] = 1
    reference = forward(model, references(model, "zero").packed(0, trace.inputs), REFERENCE)
    values, _ = differences(trace, start, reference)
    return values[model.main]


JOBS: dict[str, Callable[[lrp.Model, Packed], Any]] = {
    "forward": scores,
    "gradient-x-input": propagated(GRADIENT),
    **{f"lrp-{name}": propagated(Relevance(rule, Epsilon())) for name, rule in RULES.items()},
    "occlusion-f": occluded(),
    "cd": decomposed,
    "deeplift": lifted,
}


def runner(job: str, work: Workload, threads: int, tol: float = 0.0) -> Callable[[], list[Any]]:
    """Run a job over all batches, on this number of threads; the results of each batch."""
    batches, model = work.batches, work.model
    function = occluded(tol) if tol else JOBS[job]

    def one(x: Packed) -> Any:
        return function(model, x)

    pool = ThreadPoolExecutor(threads) if threads > 1 and len(batches) > 1 else None

    def call() -> list[Any]:
        return list(pool.map(one, batches) if pool else map(one, batches))

    return call


def results(job: str, work: Workload, tol: float = 0.0) -> list[Any]:
    """The results of all sequences, longest first."""
    found = runner(job, work, 1, tol)()
    is_packed = job != "forward"
    return [
        part
        for x, parts in zip(work.batches, found, strict=True)
        for part in (x.batch.split(parts) if is_packed else parts)
    ]
