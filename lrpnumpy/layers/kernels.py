"""All kernels of the built-in cells and layers: to compile them before a clock runs, and to read them."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from lrpnumpy.checks import LrpError, close_to
from lrpnumpy.kernels.compile import KERNELS, MODULES
from lrpnumpy.layers import GRU, LAYERS, LSTM, RNN, Cell
from lrpnumpy.statement.compiled import kernels_of
from lrpnumpy.statement.generate import uncovered

METHODS = {"predict": "none", "gradient": "gradient", "gradient-x-input": "gradient", "deeplift": "deeplift"}
METHODS |= {f"lrp-{rule}": rule for rule in ("all", "prop", "abs", "half")}


def compile_all(dtype: Any = None) -> Iterator[tuple[str, float]]:
    """Compile every kernel for a dtype, or for both; yields name and seconds of each as it is done."""
    for name in MODULES:
        import_module(name)
    kernels = dict.fromkeys(one for one in KERNELS if one.plain.__module__ in MODULES)
    for statement in (GRU.traced(), GRU.traced(reset_after=False), RNN.traced()):
        made = kernels_of(statement)
        kernels |= dict.fromkeys([made.forward, *made.backward.values(), made.mean_slopes])
    kernels[kernels_of(LSTM.traced()).mean_slopes] = None  # its other kernels are written by hand
    for chosen in ("float32", "float64") if dtype is None else (dtype,):
        for one in kernels:
            start = time.perf_counter()
            one.compile(chosen)
            yield f"{one.name} {chosen}", time.perf_counter() - start


def text_of(kind: str, method: str) -> str:
    """The source of the kernels generated for a cell and a method (an LSTM runs its hand-written ones instead)."""
    cells = {name: made for name, made in LAYERS.items() if issubclass(made, Cell)}
    for given, known in ((kind, cells), (method, METHODS)):
        if given not in known:
            end = close_to(given, known) or "."
            raise LrpError(f"no kernels are made for {given!r}; try {', '.join(known)}{end}")
    statement = cells[kind].traced()
    why = uncovered(statement)
    if why:
        raise LrpError(f"{kind} has no generated kernels, because {why}: NumPy runs it.")
    text = "\n\n".join(inspect.getsource(one.plain) for one in kernels_of(statement).wanted(METHODS[method]))
    if cells[kind].KERNELS is not None:
        return f"# {kind} runs hand-written kernels, {cells[kind].KERNELS.__name__}, which compute the same.\n\n{text}"
    return text
