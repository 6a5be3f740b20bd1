"""Who explains the chunks: threads, processes of this machine, or the workers of Dask. All call `explain_chunk`."""

from __future__ import annotations

import os
import pickle
import secrets
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack, contextmanager
from multiprocessing import connection, get_context, parent_process
from typing import Any, NamedTuple
from weakref import WeakSet

from lrpnumpy.checks import LrpError, is_number, shown
from lrpnumpy.corpus.sources import Chunk
from lrpnumpy.corpus.work import Done, Job, explain_chunk, settle
from lrpnumpy.kernels import compile as kernels

MOST_WORKERS = 256
LOOK_EVERY = 32  # chunks: how often Dask is asked for the number of its workers, which may change
LOST = (
    "a worker process ended before its work was done: it was killed (for lack of memory?), or your script starts the "
    'run without `if __name__ == "__main__":`; run it again to go on.'
)


class Workers(NamedTuple):
    """How to have a chunk explained, and how many chunks may be under way: enough that no worker waits."""

    submit: Callable[[Chunk], Future[Done]]
    most: Callable[[], int]


def workers_of(job: Job, threads: int | None, workers: Any) -> AbstractContextManager[Workers]:
    """The workers of a run, ready to start; an error about them comes before anything is written."""
    if threads is not None and workers is not None:
        raise LrpError("pass either threads or workers, not both.")
    if hasattr(workers, "register_plugin"):
        return _dask(job, workers)
    count = threads if workers is None else workers
    if count is not None and not (is_number(count, int) and 1 <= count <= MOST_WORKERS):
        name = "threads" if workers is None else "workers, unless it is a dask.distributed.Client,"
        raise LrpError(f"{name} must be a number from 1 to {MOST_WORKERS}, got {shown(count)}.")
    if workers is None:
        return _threads(job, threads or os.cpu_count() or 1)
    try:
        return _processes(pickle.dumps(job), workers)
    except Exception as error:
        advice = "define it at the top of a module, or leave workers out to use threads"
        raise LrpError(f"workers: the rule or tokenizer cannot be pickled ({error}); {advice}.") from None


@contextmanager
def _threads(job: Job, count: int) -> Iterator[Workers]:
    """Kernels release the GIL, so that threads use several cores."""
    with settle(), ThreadPoolExecutor(count, "lrpnumpy-corpus") as pool:
        try:
            yield Workers(lambda chunk: pool.submit(explain_chunk, job, chunk), lambda: 2 * count)
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _processes(pickled: bytes, count: int) -> Iterator[Workers]:
    """Processes are started afresh, not forked: a fork copies locks that threads of this process may hold."""
    context = get_context("spawn")
    pool = ProcessPoolExecutor(count, context, initializer=_begin, initargs=(pickled, kernels.mode))
    try:
        yield Workers(lambda chunk: pool.submit(explain_delivered, "", chunk), lambda: 2 * count)
    except BrokenProcessPool:
        raise LrpError(LOST) from None
    finally:
        pool.shutdown(cancel_futures=True)


_jobs: dict[str, tuple[Job, ExitStack]] = {}  # of this process, where it is a worker: by name, and what undoes `settle`


def _begin(pickled: bytes, mode: str) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    kernels.mode = mode
    deliver("", pickle.loads(pickled))  # our own, from the process that has started this one


def _end_with_parent() -> None:
    """End this process when the one that has started it is gone, even if that was killed."""
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


@contextmanager
def _dask(job: Job, client: Any) -> Iterator[Workers]:
    """The job goes to each worker once, also to one that joins later, and a task names it.

    A chunk gives the same arrays wherever it is explained, so that Dask may have it done again when a worker is lost.
    """
    from distributed import WorkerPlugin

    name = f"lrpnumpy-{job.model.digest[:12]}-{secrets.token_hex(4)}"
    futures: WeakSet[Any] = WeakSet()
    submitted = 0
    threads = 1

    class Deliver(WorkerPlugin):
        """Brings the job to a worker when it starts or when the run does."""

        def setup(self, worker: Any) -> None:
            deliver(name, job)

        def teardown(self, worker: Any) -> None:
            withdraw(name)

    def submit(chunk: Chunk) -> Any:
        nonlocal submitted, threads
        if submitted % LOOK_EVERY == 0:
            threads = sum(client.nthreads().values())
        submitted += 1
        future = client.submit(explain_delivered, name, chunk, key=f"{name}-{chunk.first}", retries=2)
        futures.add(future)
        return future

    client.register_plugin(Deliver(), name=name)
    try:
        yield Workers(submit, lambda: 2 * threads + 2)
    finally:
        client.cancel(list(futures))
        client.unregister_worker_plugin(name)


def deliver(name: str, job: Job) -> None:
    """Have a worker keep a job."""
    _jobs[name] = job, settle()


def withdraw(name: str) -> None:
    """The run is over. A worker that is a thread leaves the process as it was."""
    if name in _jobs:
        _, undo = _jobs.pop(name)
        undo.close()


def explain_delivered(name: str, chunk: Chunk) -> Done:
    """The task: explain a chunk by a job that was delivered."""
    return explain_chunk(_jobs[name][0], chunk)
