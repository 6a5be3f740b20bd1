"""Ctrl-C while the program `lrpnumpy` is loaded: one line and exit code 130, not the traceback of an import.

`lrpnumpy/__init__.py` imports this first. It does nothing where the package is imported by another program.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any


def is_program() -> bool:
    """Whether this process is `lrpnumpy …` or `python -m lrpnumpy …`."""
    if sys.argv[:1] == ["-m"]:  # what Python has there while it looks for the module
        return not {"lrpnumpy", "lrpnumpy.__main__", "-mlrpnumpy"}.isdisjoint(sys.orig_argv[1:4])
    return os.path.basename(sys.argv[0] if sys.argv else "").partition(".")[0] == "lrpnumpy"


def leave(*_: Any) -> None:
    """End the process at once."""
    os.write(2, b"lrpnumpy: interrupted\n")
    os._exit(130)


def leave_at_once(wanted: bool) -> None:
    """Have Ctrl-C end the process at once, or raise KeyboardInterrupt as usual."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, leave if wanted else signal.default_int_handler)


if is_program():
    leave_at_once(True)
