"""Chunks explained by the workers of Dask, and functions for pipelines of one's own."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from itertools import islice
from typing import Any
from weakref import WeakSet

from lrpnumpy.checks import LrpError, one_of
from lrpnumpy.corpus.record import Chunk
from lrpnumpy.corpus.work import Job
from lrpnumpy.encode import encode
from lrpnumpy.explain import explain_all
from lrpnumpy.meant import door
from lrpnumpy.methods import Method
from lrpnumpy.model import Model
from lrpnumpy.result import Explanation
from lrpnumpy.rules import Rule

TOGETHER = 2048  # sequences of a partition that are explained as one batch
LOOK_EVERY = 32  # chunks: how often the number of workers is asked for, which may change


class Cluster:
    """The workers of a dask.distributed.Client.

    The job goes to each worker once, and a task names it. A chunk gives the same arrays wherever it is
    explained, so that Dask may have it done again when a worker is lost. Scheduling and transport are Dask's.
    """

    def __init__(self, job: Job, client: Any) -> None:
        self.job, self.client = job, client
        self.name = f"lrpnumpy-{job.model.digest[:12]}-{secrets.token_hex(4)}"
        self._submitted, self._threads = 0, 1
        self._futures: WeakSet[Any] = WeakSet()

    def __enter__(self) -> Cluster:
        from lrpnumpy.corpus.plugin import Deliver

        self.client.register_plugin(Deliver(self.name, self.job), name=self.name)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.cancel(list(self._futures))
        self.client.unregister_worker_plugin(self.name)

    def submit(self, chunk: Chunk) -> Any:
        """Have a chunk explained by some worker."""
        from lrpnumpy.corpus.plugin import explain_named

        if self._submitted % LOOK_EVERY == 0:
            self._threads = sum(self.client.nthreads().values())
        self._submitted += 1
        future = self.client.submit(explain_named, self.name, chunk, key=f"{self.name}-{chunk.first}", retries=2)
        self._futures.add(future)
        return future

    def most(self) -> int:
        """How many chunks may be under way: enough that no worker waits."""
        return 2 * self._threads + 2


def explain_partition(
    records: Iterable[Any],
    model: Model,
    method: str | Method | Rule = "lrp-all",
    target: int | str | None = None,
    *,
    bad: str = "raise",
    **options: Any,
) -> list[Explanation | None]:
    """The explanations of some `records`, sequences, on one thread: for `dask.bag.map_partitions` and the like.

    model, method, target, options: as in `explain`.
    bad: "none" gives None for a record that cannot be explained, "raise" an error.
    """
    one_of(bad, "bad", ("raise", "none"))
    left, found = iter(records), []
    while together := list(islice(left, TOGETHER)):
        good = [bad == "raise" or _usable(model, record) for record in together]
        usable = [record for record, fine in zip(together, good, strict=True) if fine]
        explained = iter(explain_all(model, usable, method, target, threads=1, **options))
        found += [next(explained) if fine else None for fine in good]
    return found


def _usable(model: Model, record: Any) -> bool:
    try:
        encode(model, record)
    except (LrpError, TypeError, OverflowError):
        return False
    return True


@door
def explain_bag(
    model: Model,
    bag: Any,
    method: str | Method | Rule = "lrp-all",
    target: int | str | None = None,
    *,
    bad: str = "raise",
    **options: Any,
) -> Any:
    """A dask.bag of sequences to a dask.bag of explanations, computed when Dask is asked to.

    model, method, target, options: as in `explain`.
    bag: a dask.bag of what `explain` takes as x.
    bad: "none" gives None for a record that cannot be explained, "raise" an error.

    The model is one node of the graph, named by its digest: it goes to each worker once.
    Partitions are explained as they are cut, so another partitioning gives the same to rounding.
    """
    from dask import delayed

    one_of(bad, "bad", ("raise", "none"))
    if not hasattr(bag, "map_partitions"):
        raise LrpError(
            f"explain_bag: bag must be a dask.bag, got {type(bag).__name__}; for a list there is explain_all."
        )
    explain_all(model, [], method, target, **options)  # what is wrong is said now, not by a worker
    held = delayed(model, name=f"lrpnumpy-model-{model.digest}", traverse=False)
    return bag.map_partitions(explain_partition, held, method, target, bad=bad, **options)
