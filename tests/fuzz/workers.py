"""Processes that open one case after the other, and the parent that watches them.

A worker is a fork of a process that has everything imported. It says in shared memory which case it is at, since when,
and how much processor time it had used by then, so that the parent knows what crashed it or where it hangs, and starts
another one behind that case. On a busy machine a worker may wait for a long time through no fault of the case: what
counts is the processor's time, and only a sleep of minutes is a hang by the clock.
"""

import contextlib
import gc
import json
import mmap
import os
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np

from .cases import scratch

HANGS = 20  # seconds of the processor: a case that takes longer hangs
ASLEEP = 300  # seconds by the clock, for a case that waits for something
BUSY = 2.5  # seconds of the processor: twice what is promised for a small file, since the machine may be busy
MEMORY = 3 * 2**30  # address space of a worker, more than it begins with
GROWTH = 350 * 2**20  # bytes that one case may take: 200 MB and twice doors.MAX_BYTES are promised
AGAIN = 75  # exit status of a worker that has become large, and wants to be started afresh
CASE, SINCE, USED, DONE, COUNTS = range(5)  # places in the shared memory; of COUNTS there are two for each format
OUTCOMES = ("result", "error")


class Failure(Exception):
    """What a case should not end with."""


def _resident():
    """Bytes that this process has in memory now."""
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * mmap.PAGESIZE


def _used(pid):
    """Nanoseconds of the processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 10**9 // os.sysconf("SC_CLK_TCK")


def _work(cases, start, stop, step, shared, report, folder):
    """What a worker does: every `step`-th case from `start` to before `stop`."""
    used = int(Path("/proc/self/statm").read_bytes().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.fsync = lambda handle: None  # no power is cut here
    place = {name: COUNTS + 2 * k for k, name in enumerate(cases.formats)}
    first = peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    parent = os.getppid()
    for case in range(start, stop, step):
        if os.getppid() != parent:  # nobody watches any more
            os._exit(AGAIN)
        shared[SINCE], shared[USED] = time.monotonic_ns(), time.process_time_ns()
        shared[CASE] = case
        began = time.process_time()
        name, kind, error = cases.run(case, folder)
        busy = time.process_time() - began
        before, peak = peak, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if kind in OUTCOMES:
            shared[place[name] + OUTCOMES.index(kind)] += 1
        if error is not None:
            _tell(report, case, name, "exception", "".join(traceback.format_exception(error))[-3000:])
        elif busy > BUSY:
            _tell(report, case, name, "slow", f"{busy:.1f} s of the processor")
        elif peak - before > GROWTH:
            _tell(report, case, name, "memory", f"{peak - before:,} bytes more")
        shared[DONE] += 1
        error = None
        if peak - first > GROWTH or (case // step % 5000 == 0 and _resident() - first > GROWTH / 2):
            os._exit(AGAIN)


def _tell(report, *failure):
    os.write(report, json.dumps(failure).encode() + b"\n")


class Worker:
    """A worker, and what its parent knows of it."""

    def __init__(self, cases, start, stop, step, folder):
        self.cases, self.start, self.stop, self.step, self.folder = cases, start, stop, step, folder
        self._memory = mmap.mmap(-1, 8 * (COUNTS + 2 * len(cases.formats)))
        self.shared = np.frombuffer(self._memory, np.int64)
        self.pid = None

    def begin(self):
        """Fork."""
        self.shared[CASE], self.shared[SINCE], self.shared[USED] = self.start - self.step, time.monotonic_ns(), 0
        self.pipe, theirs = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid:
            os.close(theirs)
            return
        status = 1
        try:
            _work(self.cases, self.start, self.stop, self.step, self.shared, theirs, self.folder)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def read(self):
        """Failures that the worker tells of; None once it has ended."""
        data = os.read(self.pipe, 1 << 16)
        while data and not data.endswith(b"\n"):
            data += os.read(self.pipe, 1 << 16)
        return data.splitlines() if data else None

    def hangs(self):
        """Why it has been at one case for too long; None where it has not."""
        waited, used = time.monotonic_ns() - int(self.shared[SINCE]), _used(self.pid) - int(self.shared[USED])
        if used > HANGS * 1e9:
            return f"{used / 1e9:.0f} s of the processor, and no end"
        return f"nothing for {ASLEEP} seconds" if waited > ASLEEP * 1e9 else None

    def end(self):
        """How it ended, and go on behind the case it was at unless it had done all."""
        os.close(self.pipe)
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.pid, case = None, int(self.shared[CASE])
        self.start = case + self.step
        return status, case


def run(cases, first, count, workers, told):
    """Run cases `first` to `first + count`; `told` gets each failure as it happens: case, format, kind, more.

    Yields the counts so far, {format: [results, errors]}, about twice a second.
    """
    with tempfile.TemporaryDirectory(dir=scratch()) as top:
        every = []
        for k in range(workers):
            folder = Path(top) / str(k)
            folder.mkdir()
            every.append(Worker(cases, first + k, first + count, workers, folder))
        gc.collect()
        gc.freeze()  # what is imported is never looked through again, and stays shared
        try:
            for one in every:
                one.begin()
            while running := [one for one in every if one.pid]:
                _watched(running, told)
                yield _counts(cases, every)
        finally:
            for one in every:
                if one.pid:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(one.pid, signal.SIGKILL)
                    os.waitpid(one.pid, 0)
    yield _counts(cases, every)


def _watched(running, told):
    """Take in what the workers say for half a second, and see to those that ended or hang."""
    ready, _, _ = select.select([one.pipe for one in running], [], [], 0.5)
    for one in running:
        if one.pipe in ready:
            lines = one.read()
            for line in lines or ():
                told(*json.loads(line))
            if lines is None:
                status, case = one.end()
                if status not in (0, AGAIN):
                    told(case, one.cases.make(case)[0].format, "crash", f"the process ended with {status}")
                if status != 0 and one.start < one.stop:
                    one.begin()
        elif why := one.hangs():
            os.kill(one.pid, signal.SIGKILL)
            case = one.end()[1]
            told(case, one.cases.make(case)[0].format, "hang", why)
            if one.start < one.stop:
                one.begin()


def _counts(cases, every):
    total = sum(one.shared[COUNTS:] for one in every)
    return {name: total[2 * k : 2 * k + 2].tolist() for k, name in enumerate(cases.formats)}
