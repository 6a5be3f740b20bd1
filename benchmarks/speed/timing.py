"""Timing on a noisy machine: check that results agree, warm up, take both sides in turn, keep the best of each."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

BLOCK = 0.02  # seconds


def once(call: Callable[[], Any]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def best(calls: Sequence[Callable[[], Any]], seconds: float, least: int = 3) -> list[float]:
    """The shortest time of each call, taken in turn until about `seconds` are over; their results are dropped.

    A turn lasts BLOCK seconds or one call: what takes less than a millisecond would else be timed with the cache full
    of what another call left there.
    """
    shortest = [once(call) for call in calls]  # warm-up
    gc.collect()
    end, rounds = time.perf_counter() + seconds, 0
    while rounds < least or time.perf_counter() < end:
        times = [_turn(call) for call in calls]
        shortest = times if rounds == 0 else [min(pair) for pair in zip(shortest, times, strict=True)]
        rounds += 1
    return shortest


def _turn(call: Callable[[], Any]) -> float:
    """The shortest time of calls in a row."""
    end, shortest = time.perf_counter() + BLOCK, once(call)
    while time.perf_counter() < end:
        shortest = min(shortest, once(call))
    return shortest


def agree(ours: Sequence[Any], theirs: Sequence[Any], tol: float) -> float:
    """Largest difference of two lists of arrays, relative to the largest value; an error where it is above tol."""
    if len(ours) != len(theirs):
        raise AssertionError(f"{len(ours)} results against {len(theirs)}")
    both = [(np.asarray(a), np.asarray(b)) for a, b in zip(ours, theirs, strict=True)]
    size = max(float(np.abs(b).max()) for _, b in both)
    off = max(float(np.abs(a - b).max()) for a, b in both) / size
    if not off <= tol:
        raise AssertionError(f"results differ by {off:.1e} of the largest value, allowed {tol:.0e}")
    return off


def peak_memory() -> float:
    """Of this process so far, in MB. What the system counts for a process includes what its parent had, if it can."""
    try:
        status = Path("/proc/self/status").read_text()
        return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
