"""Our engine on packed, checked arrays: one function a job, each from a batch to packed rows of results."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import lrpnumpy as lrp
from benchmarks.speed.workloads import Workload
from lrpnumpy.backward import backward
from lrpnumpy.batch import Batch
from lrpnumpy.decompose import decompose_words
from lrpnumpy.forward import forward
from lrpnumpy.occlude import occlude_words
from lrpnumpy.rules import RULES, Propagation

TARGET = 0


def scores(model: lrp.Model, batch: Batch) -> Any:
    return forward(model, batch).scores


def propagated(how: Propagation) -> Callable[[lrp.Model, Batch], Any]:
    """Gradient times input, or LRP by a rule: relevance of all variables."""

    def job(model: lrp.Model, batch: Batch) -> Any:
        trace = forward(model, batch, how)
        start = np.zeros_like(trace.scores)
        start[:, TARGET] = 1 if how.rule is None else trace.scores[:, TARGET]
        found = backward(trace, start, how).x
        return found * batch.x if how.rule is None else found  # packed rows

    return job


def occluded(tol: float = 0.0) -> Callable[[lrp.Model, Batch], Any]:
    def job(model: lrp.Model, batch: Batch) -> Any:
        trace = forward(model, batch, "states")
        without = occlude_words(trace, batch, tol=tol)
        return trace.scores[:, TARGET][batch.owner] - without[:, TARGET]

    return job


def decomposed(model: lrp.Model, batch: Batch) -> Any:
    return decompose_words(forward(model, batch, "trace")).relevant[:, TARGET]


JOBS: dict[str, Callable[[lrp.Model, Batch], Any]] = {
    "forward": scores,
    "gradient-x-input": propagated(Propagation()),
    **{f"lrp-{name}": propagated(Propagation(rule, 0.001)) for name, rule in RULES.items()},
    "occlusion-f": occluded(),
    "cd": decomposed,
}


def runner(job: str, work: Workload, threads: int, tol: float = 0.0) -> Callable[[], list[Any]]:
    """Run a job over all batches, on so many threads; the results of each batch."""
    batches, model = work.batches, work.model
    function = occluded(tol) if tol else JOBS[job]

    def one(batch: Batch) -> Any:
        return function(model, batch)

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
        for batch, parts in zip(work.batches, found, strict=True)
        for part in (batch.split(parts) if is_packed else parts)
    ]
