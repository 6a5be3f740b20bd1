"""What differs between Linux, macOS and Windows where a file must be safe: to be on disk, and to be locked."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any

fcntl: Any = None  # Windows has none
msvcrt: Any = None  # which only Windows has
with suppress(ImportError):
    fcntl = import_module("fcntl")
with suppress(ImportError):
    msvcrt = import_module("msvcrt")


def flush(file: IO[bytes]) -> None:
    """Have what was written to a file on disk. On macOS a plain fsync leaves it in the memory of the disk itself."""
    file.flush()
    os.fsync(file.fileno())
    if (whole := getattr(fcntl, "F_FULLFSYNC", None)) is not None:
        with suppress(OSError):  # a file system that has no such thing, such as one of a network
            fcntl.fcntl(file.fileno(), whole)


def sync(folder: Path) -> None:
    """Have the names in a folder on disk. Windows has no way to ask for it, and some file systems refuse."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


def can_remove_open_files() -> bool:
    """Windows removes no file that is open."""
    return fcntl is not None


def locked(file: IO[bytes]) -> bool:
    """Take the lock that an open file is, for as long as it is open; False where another process has it."""
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        elif msvcrt is not None:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    except (BlockingIOError, PermissionError):  # the second on Windows
        return False
    return True
