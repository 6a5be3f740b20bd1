"""Python functions to compiled kernels: one signature per dtype, cached on disk, GIL released.

A kernel is a plain function whose parameters are annotated with the aliases below; the first is a float array, and its
dtype chooses the signature. Modules with kernels do not import Numba: it is loaded when the first kernel is compiled.

Nobody should wait for the compiler to see a first sentence explained. While a kernel is not ready, small calls run its
plain function, and a thread in the background compiles it (or reads it from the disk cache); large calls wait.
The environment variable LRPNUMPY_COMPILE changes that: "wait" always waits, "never" (as NUMBA_DISABLE_JIT=1) never
compiles.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import numpy as np

# Arrays are C-contiguous. R and I: floats and integers that are only read; W and J: that are written to. The digit is
# the number of axes. Scalar has the arrays' dtype.
R1, R2, R3, R4 = (Annotated[np.ndarray, "float", n, "read"] for n in (1, 2, 3, 4))
W1, W2, W3 = (Annotated[np.ndarray, "float", n, "write"] for n in (1, 2, 3))
I1, I2 = (Annotated[np.ndarray, "int", n, "read"] for n in (1, 2))
J1 = Annotated[np.ndarray, "int", 1, "write"]
Scalar = Annotated[Any, "scalar"]
Int = Annotated[int, "integer"]

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
HELPERS = tuple(
    f"lrpnumpy.kernels.{name}"
    for name in (
        "elementary", "product", "steps", "inputs", "secants", "lstm", "lstm_occlusion", "lstm_decomposition", "gru",
        "gru_decomposition", "conv",
    )
)  # fmt: skip
MODULES = tuple(
    f"lrpnumpy.kernels.{name}"
    for name in (
        "lstm", "dense", "lstm_occlusion", "lstm_decomposition", "gru", "gru_decomposition", "rnn",
        "rnn_decomposition", "lstm_deeplift", "gru_deeplift", "rnn_deeplift", "conv", "pooling", "sums",
    )
)  # fmt: skip

KERNELS: list[Kernel] = []
SMALL = 60_000  # numbers in a call's arrays: beyond this the plain function takes longer than a person likes to wait
# "background", "wait", "never", or "small": small calls never compile.
mode: str = os.environ.get("LRPNUMPY_COMPILE", "background")

_lock = threading.RLock()  # LLVM compiles one thing at a time anyway
_asking = threading.Lock()
_ready = False
_finished = False


class Kernel:
    """A function that is compiled when it is first called with a dtype."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.plain = function
        self.compiled: dict[str, Callable[..., Any]] = {}
        KERNELS.append(self)

    def __call__(self, first: np.ndarray, *rest: Any) -> None:
        run = self.compiled.get(first.dtype.char) or self._for_now(first, rest)
        run(first, *rest)

    def _for_now(self, first: np.ndarray, rest: tuple[Any, ...]) -> Callable[..., Any]:
        """What to run while this kernel is not compiled: its plain function, where that is quick enough."""
        if mode == "wait" or os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
            return self.compile(first.dtype)
        if mode == "never":
            return self.plain
        size = first.size + sum(part.size for part in rest if isinstance(part, np.ndarray) and part.ndim < 4)
        if size > SMALL:
            return self.compile(first.dtype)
        if mode != "small":
            _background(self, first.dtype)
        return self.plain

    def compile(self, dtype: Any) -> Callable[..., Any]:
        """The compiled function for float32 or float64, from the disk cache where it has been compiled before."""
        dtype = np.dtype(dtype)
        with _lock:
            if dtype.char not in self.compiled:
                self.compiled[dtype.char] = self._compile(dtype)
        return self.compiled[dtype.char]

    def _compile(self, dtype: np.dtype) -> Callable[..., Any]:
        if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
            return self.plain
        numba = _numba()
        hints = get_type_hints(self.plain, include_extras=True)
        hints.pop("return", None)
        signature = numba.void(*(_numba_type(numba, hint.__metadata__, dtype) for hint in hints.values()))
        with _cache_of_these_sources(numba):
            try:
                return numba.njit(signature, cache=True, **OPTIONS)(self.plain)
            except (OSError, RuntimeError):  # no folder can be written, or the disk is full: compile it for now
                return numba.njit(signature, **OPTIONS)(self.plain)


_waiting: queue.SimpleQueue[tuple[Kernel, np.dtype] | None] = queue.SimpleQueue()
_asked: set[tuple[Kernel, str]] = set()
_worker: threading.Thread | None = None


def _background(one: Kernel, dtype: np.dtype) -> None:
    """Have a kernel compiled by the thread in the background, once."""
    global _worker
    with _asking:
        if (one, dtype.char) in _asked:
            return
        _asked.add((one, dtype.char))
        if _worker is None:
            _worker = threading.Thread(target=_work, name="lrpnumpy-compile", daemon=True)
            _worker.start()
            atexit.register(_finish)
        _waiting.put((one, dtype))


def _work() -> None:
    while (job := _waiting.get()) is not None and not _finished:
        with suppress(Exception):  # the next large call compiles it again, and says why that fails
            job[0].compile(job[1])


def _finish() -> None:
    """At exit: no new kernel, but the one being compiled is let through, since LLVM cannot be interrupted."""
    global _finished
    _finished = True
    _waiting.put(None)
    if _worker is not None:
        _worker.join()


def _after_fork() -> None:
    """In the child of a fork, which has no thread in the background: have the next call start one."""
    global _worker, _waiting, _asking
    _worker, _waiting, _asking = None, queue.SimpleQueue(), threading.Lock()
    _asked.clear()
    _lock.release()


if hasattr(os, "register_at_fork"):
    # A fork waits until the kernel at hand is compiled: in the child nobody would ever let go of the compiler's locks.
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_after_fork)


def kernel(function: Callable[..., Any]) -> Kernel:
    """Decorator: make a kernel of an annotated function that returns nothing."""
    return Kernel(function)


def compile_all(dtype: Any = None) -> Iterator[tuple[str, float]]:
    """Compile every kernel for a dtype, or for both; yields name and seconds of each as it is done."""
    for name in MODULES:
        import_module(name)
    for chosen in ("float32", "float64") if dtype is None else (dtype,):
        for one in KERNELS:
            start = time.perf_counter()
            one.compile(chosen)
            yield f"{one.plain.__module__.split('.')[-1]}.{one.plain.__name__} {chosen}", time.perf_counter() - start


def _numba() -> Any:
    """Numba, with the helpers that kernels call made known to it."""
    global _ready
    numba = import_module("numba")
    if not _ready:
        for name in HELPERS:
            import_module(name).overloads()
        _ready = True
    return numba


@contextmanager
def _cache_of_these_sources(numba: Any) -> Iterator[None]:
    """Keep what is compiled in a folder named after all kernel sources.

    Numba notices when the file of a kernel changes, but not when that of a helper does.
    """
    here = Path(__file__).parent
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(here.glob("*.py")))).hexdigest()[:16]
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(Path(before or here / "__pycache__") / f"lrpnumpy-{digest}")
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


def _numba_type(numba: Any, meta: tuple[Any, ...], dtype: np.dtype) -> Any:
    floats = numba.from_dtype(dtype)
    if meta[0] == "scalar":
        return floats
    if meta[0] == "integer":
        return numba.int64
    element = floats if meta[0] == "float" else numba.int64
    return numba.types.Array(element, meta[1], "C", readonly=meta[2] == "read")
