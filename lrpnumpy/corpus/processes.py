"""Chunks explained by processes of this machine: cutting text into words then uses every core, too."""

from __future__ import annotations

import pickle
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

from lrpnumpy.checks import LrpError
from lrpnumpy.corpus.record import Chunk
from lrpnumpy.corpus.work import Job, Part, explain_chunk, settle
from lrpnumpy.kernels import compile as kernels

_job: Job | None = None  # of the run that this process works for


class Processes:
    """Worker processes of this machine; the job goes to each of them once.

    They are started afresh, not forked: a fork copies locks that threads of this process may hold.
    """

    def __init__(self, job: Job, count: int) -> None:
        self.count = count
        try:
            self._pickled = pickle.dumps(job)
        except Exception as error:
            raise LrpError(
                f"processes must get a rule and a tokenizer that can be pickled, such as functions at the top of a "
                f"module, got: {error}; leave processes out to use threads."
            ) from None

    def __enter__(self) -> Processes:
        context = get_context("spawn")
        self._pool = ProcessPoolExecutor(
            self.count, context, initializer=_begin, initargs=(self._pickled, kernels.mode)
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def submit(self, chunk: Chunk) -> Answer:
        """Have a chunk explained, soon."""
        try:
            return Answer(self._pool.submit(_explain, chunk))
        except BrokenProcessPool:
            raise _lost() from None

    def most(self) -> int:
        """How many chunks may be under way: enough that none waits for reading or writing."""
        return 2 * self.count


class Answer:
    """What a process will have found."""

    def __init__(self, future: Future[Part]) -> None:
        self._future = future

    def result(self) -> Part:
        """Wait for it."""
        try:
            return self._future.result()
        except BrokenProcessPool:
            raise _lost() from None


def _lost() -> LrpError:
    return LrpError(
        "a worker process has ended before its work was done: it was killed (perhaps for lack of memory), or your "
        'script starts the run without `if __name__ == "__main__":`; go on with resume=True.'
    )


def _begin(pickled: bytes, mode: str) -> None:
    global _job
    kernels.mode = mode
    settle()
    _job = pickle.loads(pickled)  # our own, from the process that has started this one


def _explain(chunk: Chunk) -> Any:
    assert _job is not None
    return explain_chunk(_job, chunk)
