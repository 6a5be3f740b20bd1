"""Ctrl-C, or no memory, while the program `lrpnumpy` is loaded: one line, not the traceback of an import.

`lrpnumpy/__init__.py` imports this first. It does nothing where the package is imported by another program.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

TRACEBACK = "LRPNUMPY_TRACEBACK"  # of the environment: show where an unforeseen error comes from


def is_program() -> bool:
    """Whether this process is `lrpnumpy …` or `python -m lrpnumpy …`."""
    if sys.argv[:1] == ["-m"]:  # what Python has there while it looks for the module
        return not {"lrpnumpy", "lrpnumpy.__main__", "-mlrpnumpy"}.isdisjoint(sys.orig_argv[1:4])
    return os.path.basename(sys.argv[0] if sys.argv else "").partition(".")[0] == "lrpnumpy"


def leave(*_: Any) -> None:
    """End the process at once."""
    os.write(2, b"lrpnumpy: interrupted\n")
    os._exit(130)


def _failed(kind: type[BaseException], error: BaseException, _: Any) -> None:
    """Say in one line why the program cannot be loaded: no memory, a library that is missing."""
    why = "there is too little memory" if issubclass(kind, MemoryError) else f"{kind.__name__} {str(error)[:300]!r}"
    os.write(2, f"lrpnumpy: cannot be loaded: {why}.\n".encode(errors="replace"))
    os._exit(2)


def leave_at_once(wanted: bool) -> None:
    """Have Ctrl-C end the process at once, or raise KeyboardInterrupt as usual."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, leave if wanted else signal.default_int_handler)


if is_program():
    leave_at_once(True)
    if not os.environ.get(TRACEBACK):
        sys.excepthook = _failed
