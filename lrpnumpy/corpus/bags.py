"""Explanations in a Dask pipeline: a bag of sequences to a bag of explanations."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from lrpnumpy.asked import request
from lrpnumpy.checks import LrpError, one_of
from lrpnumpy.corpus.work import Job, explain_records
from lrpnumpy.explain import explain_all
from lrpnumpy.meant import door
from lrpnumpy.methods import Method
from lrpnumpy.model import Model
from lrpnumpy.result import Explanation
from lrpnumpy.rules import Rule

if TYPE_CHECKING:
    from dask.bag import Bag

TOGETHER = 2048  # sequences of a partition that are explained as one batch


def explain_partition(
    records: Iterable[Any],
    model: Model,
    method: str | Method | Rule | None = None,
    target: int | str | None = None,
    *,
    bad: str = "raise",
    unit: Any = None,
    versus: int | str | None = None,
    step: int | None = None,
    **options: Any,
) -> list[Explanation | None]:
    """The explanations of some `records`, sequences, on one thread: for `dask.bag.map_partitions` and the like.

    model, method, target, unit, versus, step, options: as in `explain`.
    bad: "none" gives None for a record that cannot be explained, "raise" an error.
    """
    one_of(bad, "bad", ("raise", "none"))
    job = Job(model, request(model, method, unit, versus, step, options), target)
    explanations: list[Explanation | None] = []
    left = iter(records)
    while together := list(islice(left, TOGETHER)):
        results, numbers, rejected, _ = explain_records(job, together, first=0)
        if bad == "raise" and rejected:
            number, reason = rejected[0]
            raise LrpError(f"record {number + len(explanations)} of the partition cannot be explained: {reason}.")
        by_number = dict(zip(numbers, results, strict=True))
        explanations += [by_number.get(number) for number in range(len(together))]
    return explanations


@door
def explain_bag(
    model: Model,
    bag: Any,
    method: str | Method | Rule | None = None,
    target: int | str | None = None,
    *,
    bad: str = "raise",
    **options: Any,
) -> Bag:
    """A dask.bag of sequences to a dask.bag of explanations, computed when Dask is asked to.

    model, method, target, options: as in `explain`.
    bag: a dask.bag of what `explain` takes as x.
    bad: "none" gives None for a record that cannot be explained, "raise" an error.

    The model is one node of the graph, named by its digest: it goes to each worker once.
    Partitions are explained as they are cut, so another partitioning gives the same to rounding.
    """
    from dask.delayed import delayed

    one_of(bad, "bad", ("raise", "none"))
    if not hasattr(bag, "map_partitions"):
        raise LrpError(
            f"explain_bag: bag must be a dask.bag, got {type(bag).__name__}; for a list there is explain_all."
        )
    if method is None:
        method = model.method
    explain_all(model, [], method, target, **options)  # what is wrong is said now, not by a worker
    held = delayed(model, name=f"lrpnumpy-model-{model.digest}", traverse=False)
    return bag.map_partitions(explain_partition, held, method, target, bad=bad, **options)
