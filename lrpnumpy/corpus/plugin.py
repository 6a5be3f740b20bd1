"""What Dask's workers keep: the jobs they were given, by name. Imported where dask.distributed is."""

from __future__ import annotations

from typing import Any

from distributed import WorkerPlugin

from lrpnumpy.corpus.record import Chunk
from lrpnumpy.corpus.work import Job, Part, explain_chunk, settle

_jobs: dict[str, Job] = {}


class Deliver(WorkerPlugin):
    """Brings a job, with the model in it, to a worker when it starts or when the run does."""

    def __init__(self, name: str, job: Job) -> None:
        self.name, self.job = name, job

    def setup(self, worker: Any) -> None:
        """Dask calls this on every worker, also on one that joins later or replaces one that died."""
        settle()
        _jobs[self.name] = self.job

    def teardown(self, worker: Any) -> None:
        """Dask calls this when the run is over."""
        _jobs.pop(self.name, None)


def explain_named(name: str, chunk: Chunk) -> Part:
    """The task: explain a chunk with a job that was delivered."""
    return explain_chunk(_jobs[name], chunk)
