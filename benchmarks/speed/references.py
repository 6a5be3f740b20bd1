"""Methods with a reference: DeepLIFT in gradients, integrated gradients against captum, the time of Shapley values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import lrpnumpy as lrp
from benchmarks.speed import ours
from benchmarks.speed.peers import torch_network
from benchmarks.speed.timing import agree, best
from benchmarks.speed.workloads import Workload, network, workload
from lrpnumpy.schedule import keep_freed_memory

Row = dict[str, Any]
DTYPE, TARGET, GAP = "float32", 0, 1e-4
GROUPS = (8, 32, 128)  # sequences per call of captum; it has as many copies of each as there are nodes


def references(seconds: float) -> Iterator[Row]:
    """One row a question."""
    keep_freed_memory()  # as `explain_all` does
    load = workload("W1", DTYPE)
    jobs = [ours.runner(job, load, 1) for job in ("gradient-x-input", "deeplift")]
    gradient, deeplift = best(jobs, seconds)
    yield _row("deeplift with one reference on W1, times gradient-x-input", deeplift / gradient, 1.6)
    yield from _against_captum(workload("W1", DTYPE, scale=0.05), seconds)
    rng = np.random.default_rng(0)
    model, x = network(rng, 60, 60, 5, False).astype(DTYPE), rng.normal(size=(48, 60))
    (taken,) = best([lambda: lrp.explain(model, x, "shapley", TARGET, players=16)], seconds)
    yield _row("shapley, 16 windows of 48 steps, 60 units, seconds", taken, 1.5)
    model, x = network(rng, 12, 60, 5, False).astype(DTYPE), rng.normal(size=(50, 12))
    (taken,) = best([lambda: lrp.explain(model, x, "shapley", TARGET, players="features")], seconds)
    yield _row("shapley, 12 features of 50 steps, 60 units, seconds", taken, 1.0)


def _row(question: str, value: float, wanted: float, at: str = "most", **more: Any) -> Row:
    return {"question": question, "value": value, "wanted": wanted, "at": at, **more}


def _integrated(load: Workload, **options: Any) -> Any:
    return lrp.explain_all(load.model, load.sequences, "integrated-gradients", TARGET, threads=1, **options)


def fewest_nodes(load: Workload) -> int:
    """How many nodes every sequence needs for the gap, rounding aside."""
    exact = Workload(load.name, load.model.astype("float64"), load.sequences)
    for nodes in range(2, 200):
        ledger = _integrated(exact, nodes=nodes).ledger
        if (abs(ledger["gap"]) <= GAP * abs(ledger["score"] - ledger["reference"])).all():
            return nodes
    raise AssertionError(f"the gap of {GAP} is not reached with 200 nodes")


def _against_captum(load: Workload, seconds: float) -> Iterator[Row]:
    """The same gap for the same sequences: captum with the fewest nodes that reach it, at the group size it likes."""
    try:
        import captum.attr  # noqa: F401
    except ImportError:
        return
    nodes = fewest_nodes(load)
    groups = [_captum(load, nodes, size) for size in GROUPS]
    size = int(np.argmin(best(groups, seconds / 2, least=1)))
    theirs = [one for group in groups[size]() for one in group]
    agree([one.feature_relevance for one in _integrated(load, gap=GAP)], theirs, 2e-2)  # each has its own error
    mine, other = best([partial(_integrated, load, gap=GAP), groups[size]], seconds)
    question = f"integrated-gradients to a gap of {GAP:g} on W1, times captum with {nodes} nodes"
    yield _row(question, other / mine, 3, "least", seconds=[mine, other])


def _captum(load: Workload, nodes: int, size: int) -> Callable[[], list[list[np.ndarray]]]:
    import torch
    from captum.attr import IntegratedGradients
    from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

    torch.set_num_threads(1)
    module = torch_network(load.model)
    method = IntegratedGradients(
        lambda x, lengths: module(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
    )
    padded = []
    for k in range(0, len(load.sequences), size):
        some = [torch.tensor(x) for x in load.sequences[k : k + size]]
        padded.append((pad_sequence(some, batch_first=True), torch.tensor([len(x) for x in some])))

    def call() -> list[list[np.ndarray]]:
        out = []
        for x, lengths in padded:
            options = {"additional_forward_args": lengths, "n_steps": nodes, "method": "gausslegendre"}
            found = method.attribute(x, target=TARGET, **options).detach().numpy()
            out.append([one[:n] for one, n in zip(found, lengths.tolist(), strict=True)])
        return out

    return call
