"""Python functions to compiled kernels: one signature per dtype, cached on disk, GIL released.

A kernel is a plain function whose parameters are annotated with the aliases of `arguments.py`; the dtype of its first
float array chooses the signature. Modules with kernels do not import Numba: it is loaded when the first is compiled.

Nobody should wait for the compiler to see first sentences explained. While a kernel is not ready NumPy computes the
same, about six times slower: a cell by interpreting its statement, another kernel by the function given with it. A
thread in the background compiles the kernel (or reads it from disk, `kept.py`), two seconds after the first call: a
short program needs no compiler. Once large calls have taken as long as a compiler would have, they wait for it, as they
do for what is on disk; small ones go on. A call that NumPy would take that long for waits from the start.

The two round differently, and LRP, which divides by |z| + eps, enlarges differences of z. So NumPy computes in float64
whatever the model is: then they differ by what the compiled kernels round off, and by nothing else
(`python -m benchmarks.rounding`). One call is computed by one of the two: `path_of` decides at its start, for all
kernels that it needs, and `on` has every kernel follow, also in the threads of the call.

The environment variable LRPNUMPY_COMPILE changes what is run: with "wait" every call waits for its kernel, so that
results always have the same bits; with "never" nothing is compiled; with "kept" kernels that have been compiled before
run, and NumPy computes the rest.
"""

from __future__ import annotations

import atexit
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from inspect import isfunction
from typing import Any, get_type_hints

import numpy as np

from lrpnumpy.kernels.kept import LOG, OPTIONS, Kept, is_kept

MODULES = [
    f"lrpnumpy.kernels.{name}"
    for name in (
        "elementary", "product", "steps", "inputs", "lstm", "lstm_occlusion", "lstm_decomposition", "sums",
    )
]  # fmt: skip
KERNELS: list[Kernel] = []
SMALL = 60_000  # numbers in the arrays of a small call
PATIENCE = 8.0  # seconds of processor time that large calls may spend before they wait: about what a compiler takes
HUGE = 100 * SMALL  # numbers of a call that NumPy would take about as long for
START = 2.0  # seconds until the background begins: a program of some sentences ends before, and waits for no compiler
NOTICE = 2.0  # seconds after which somebody who waits is told what for
# "background", "wait", "never"; "kept": kernels on disk run, NumPy computes the rest.
mode: str = os.environ.get("LRPNUMPY_COMPILE", "background")

_lock = threading.RLock()  # LLVM compiles one thing at a time anyway
_asking = threading.Lock()
_ready = False
_finished = threading.Event()


class Kernel:
    """A function that is compiled when it is first called with a dtype: a decorator of annotated functions.

    `by_numpy` computes the same while it is not compiled.
    """

    def __init__(self, function: Callable[..., Any], by_numpy: Callable[..., Any] | None = None) -> None:
        self.plain, self.by_numpy = function, by_numpy
        self.name = f"{function.__module__.split('.')[-1]}.{function.__name__}"
        self.compiled: dict[str, Callable[..., Any]] = {}
        self._alive: dict[str, Any] = {}
        KERNELS.append(self)

    def __call__(self, *arguments: Any) -> None:
        first = arguments[0]
        if not isinstance(first, np.ndarray):
            first = first[0]
        dtype = first.dtype
        run = self.compiled.get(dtype.char)
        if run is None or current() == NUMPY:
            size = sum(one.size for one in arguments if isinstance(one, np.ndarray) and one.ndim < 4)
            if self.by_numpy is None or self.ready(dtype, size):
                run = self._awaited(dtype)
            else:
                run = self._on_arrays if size <= SMALL else self._timed
        run(*arguments)

    def ready(self, dtype: np.dtype, size: int) -> bool:
        """Whether a call that reads `size` numbers should run the compiled function, and wait for it if need be.

        If not, NumPy should compute the same; the background has been told to compile.
        """
        if (path := current()) is not None:
            return path == COMPILED
        if dtype.char in self.compiled:
            return True
        if mode == "never":
            return False
        if mode == "wait" or _jit_is_off():
            return True
        if mode == "kept":
            return is_kept(self.plain, dtype)
        is_long = size > HUGE or _seconds > PATIENCE
        if size > SMALL and (is_long or is_kept(self.plain, dtype)):
            return True
        _background(self, dtype)
        return False

    def _on_arrays(self, *arguments: Any) -> None:
        """By NumPy, in float64."""
        kind, wide = arguments[0].dtype, list(arguments)
        for k, one in enumerate(arguments):
            if isinstance(one, (np.ndarray, np.floating)) and one.dtype == kind:
                wide[k] = one.astype(np.float64, copy=False)
        with np.errstate(all="ignore"):
            self.by_numpy(*wide)  # type: ignore[misc]
            for one, other, about in zip(arguments, wide, annotations(self.plain), strict=True):
                if one is not other and about[-1] == "write":
                    one[...] = other

    def _timed(self, *arguments: Any) -> None:
        with large_call():
            self._on_arrays(*arguments)

    def _awaited(self, dtype: np.dtype) -> Callable[..., Any]:
        """The compiled function; where it takes long, the user is told."""
        notice = threading.Timer(NOTICE, _tell, (self.name, dtype))
        notice.daemon = True
        notice.start()
        try:
            return self.compile(dtype)
        finally:
            notice.cancel()

    def compile(self, dtype: Any) -> Callable[..., Any]:
        """The compiled function for float32 or float64, from disk where it has been compiled before."""
        dtype = np.dtype(dtype)
        with _lock:
            if dtype.char not in self.compiled:
                self.compiled[dtype.char] = self._compile(dtype)
        return self.compiled[dtype.char]

    def _compile(self, dtype: np.dtype) -> Callable[..., Any]:
        if _jit_is_off():
            return self.plain
        numba = _numba()
        product = import_module("lrpnumpy.kernels.product")
        if self is not product.add_rows:
            product.publish(dtype)
        dispatcher = numba.njit(**OPTIONS)(self.plain)
        dispatcher._cache = Kept(self.plain, dtype)
        signature = numba.void(*(_numba_type(numba, about, dtype) for about in annotations(self.plain)))
        dispatcher.compile(signature)
        dispatcher.disable_compile()
        self._alive[dtype.char] = dispatcher  # the machine code lives as long as it
        # Its own entry point: the dispatcher would look at the types of all arguments at every call, for 3 to 10
        # microseconds. Kernels trust what layers pass; the tests have every argument checked.
        return self.machine_code(dtype).entry_point

    def machine_code(self, dtype: np.dtype) -> Any:
        """What Numba made of the function for a dtype for which it has been compiled."""
        return next(iter(self._alive[dtype.char].overloads.values()))


COMPILED, NUMPY = "compiled", "numpy"


_call = threading.local()  # its `path`: COMPILED or NUMPY; None: every kernel decides for itself


def path_of(kernels: Sequence[Kernel], dtype: np.dtype, size: int) -> str:
    """By what a call of `size` numbers is computed that needs these kernels: COMPILED, and then all are, or NUMPY."""
    answers = [one.ready(dtype, size) for one in kernels]  # the background compiles all that are not
    if not answers or not all(answers):
        return NUMPY
    for one in kernels:
        if dtype.char not in one.compiled:
            one._awaited(dtype)
    return COMPILED


class on:
    """`with on(path)`: all kernels that this thread runs follow a path. A generator would take three times as long."""

    __slots__ = ("before", "path")

    def __init__(self, path: str | None) -> None:
        self.path = path

    def __enter__(self) -> None:
        self.before, _call.path = current(), self.path

    def __exit__(self, *error: object) -> None:
        _call.path = self.before


def current() -> str | None:
    """The path that this thread follows."""
    return getattr(_call, "path", None)


@cache
def annotations(of: Any) -> list[Any]:
    """What the annotations of a kernel say of each argument, or those of a NamedTuple of each field."""
    hints = get_type_hints(of, include_extras=True)
    return [getattr(hint, "__metadata__", hint) for name, hint in hints.items() if name != "return"]


def _jit_is_off() -> bool:
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def _tell(name: str, dtype: np.dtype) -> None:
    """What somebody is waiting for: on a terminal, or to whoever listens to the log."""
    text = f"lrpnumpy compiles {name} for {dtype}, once; `lrpnumpy compile` does it for all methods ahead."
    if sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write(f"\r{text}\n")
        sys.stderr.flush()
    else:
        LOG.info(text)


_seconds = 0.0  # that large calls by NumPy have taken together


@contextmanager
def large_call() -> Iterator[None]:
    """`with large_call()`: its time counts as that of a large call by NumPy."""
    global _seconds
    began = time.thread_time()
    yield
    with _asking:
        _seconds += time.thread_time() - began


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
    _finished.wait(START)
    while (job := _waiting.get()) is not None and not _finished.is_set():
        with suppress(Exception):  # the next large call compiles it again, and reports why that fails
            job[0].compile(job[1])


def _finish() -> None:
    """At exit: no new kernel, but the one being compiled is let through, since LLVM cannot be interrupted."""
    _finished.set()
    _waiting.put(None)
    if _worker is not None:
        _worker.join()


def _after_fork() -> None:
    """In the child of a fork, which has no thread in the background: have the next call start one."""
    global _worker, _waiting, _asking, _seconds
    _worker, _waiting, _asking, _seconds = None, queue.SimpleQueue(), threading.Lock(), 0.0
    _asked.clear()
    _lock.release()


if hasattr(os, "register_at_fork"):
    # A fork waits until the kernel at hand is compiled: in the child nobody would ever let go of the compiler's locks.
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_after_fork)


def _numba() -> Any:
    """Numba, with the functions of MODULES made known to it, except those for which `overloads` does that."""
    global _ready
    numba = import_module("numba")
    if not _ready:
        register = import_module("numba.extending").register_jitable
        for name in MODULES:
            module = import_module(name)
            overloaded = ("overloads", *getattr(module, "OVERLOADED", ()))
            if hasattr(module, "overloads"):
                module.overloads()
            for helper in vars(module).values():
                if isfunction(helper) and helper.__module__ == name and helper.__name__ not in overloaded:
                    # Without a setting a helper is inlined into those that are: forceinline=False would prevent it.
                    is_inlined = helper in getattr(module, "INLINED", ())
                    (register(forceinline=True) if is_inlined else register)(helper)
        _ready = True
    return numba


def _numba_type(numba: Any, meta: Any, dtype: np.dtype) -> Any:
    floats = numba.from_dtype(dtype)
    if isinstance(meta, type):  # a NamedTuple
        return numba.types.NamedTuple([_numba_type(numba, about, dtype) for about in annotations(meta)], meta)
    if meta[0] == "tuple":
        one = numba.types.Array(floats, 2, "C", readonly=meta[1] == "R")
        return numba.types.UniTuple(one, meta[2])
    if meta[0] == "scalar":
        return floats
    if meta[0] == "integer":
        return numba.int64
    element = floats if meta[0] == "float" else numba.int64
    return numba.types.Array(element, meta[1], "C", readonly=meta[2] == "read")
