"""Files written completely or not at all, and what differs between Linux, macOS and Windows for that."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, BinaryIO

from lrpnumpy.checks import LrpError

fcntl: Any = None  # Windows has none
msvcrt: Any = None  # which only Windows has
with suppress(ImportError):
    fcntl = import_module("fcntl")
with suppress(ImportError):
    msvcrt = import_module("msvcrt")

BINARY, NO_LINK = getattr(os, "O_BINARY", 0), getattr(os, "O_NOFOLLOW", 0)  # of Windows, and of all others
NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY | NO_LINK


@contextmanager
def written(path: Path, overwrite: bool = True) -> Iterator[BinaryIO]:
    """A file that takes its name when it is complete and safely on disk, or never.

    Until then it has a name beside it that nobody can guess, so that no link is followed that somebody else put there.
    An existing file keeps its permissions; without `overwrite` it stays, which is an error.
    """
    part = path.parent / f".{path.name}.{secrets.token_hex(16)}.tmp"
    try:
        with os.fdopen(os.open(part, NEW, 0o666), "w+b") as file:
            yield file
            flush(file)
        if overwrite:
            if path.exists():
                part.chmod(path.stat().st_mode & 0o777)
            part.replace(path)
        else:
            _take_name(part, path)
        sync(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        with suppress(OSError):  # of a folder that is not ours, or a name that is too long
            part.unlink(missing_ok=True)


def _take_name(part: Path, path: Path) -> None:
    """Give a finished file its name, only if no file has received that name in the meantime."""
    try:
        os.link(part, path)  # a second name: where a file has it already this fails, a rename would not
    except FileExistsError:
        raise _exists(path) from None
    except (AttributeError, OSError):  # a file system without such links: take the name first, then rename
        try:
            os.close(os.open(path, NEW))
        except FileExistsError:
            raise _exists(path) from None
        try:
            part.replace(path)
        except OSError:
            path.unlink()
            raise


def check_free(path: str | os.PathLike[str], overwrite: bool, what: str = "save") -> Path:
    """The file that `path` leads to, if it may be written: it does not exist, or is to be replaced."""
    target = Path(os.path.realpath(path))  # a link to a file stays a link
    if os.path.lexists(target) and not os.path.isfile(target):  # a device would be gone for everybody
        raise LrpError(f"{what}: path must be a file, got {target}, which is a folder, a device or a pipe.")
    if not overwrite and os.path.lexists(target):
        raise _exists(target, what)
    return target


def _exists(target: Path, what: str = "save") -> LrpError:
    advice = "choose another name, or pass overwrite=True (--overwrite on the command line)"
    return LrpError(f"{what}: path must be a file that does not exist yet, got {target}; {advice}.")


def cannot_write(path: Path, error: OSError) -> LrpError:
    """A full disk, most often; else a folder that does not exist, or that nobody may write to."""
    advice = "choose another name or folder"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        advice = "what is finished is kept: make room and run it again"
    return LrpError(f"{path}: cannot be written ({error.strerror or error}); {advice}.")


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file, or replace one: whatever happens, the old content is there, or all of the new."""
    target = Path(os.path.realpath(path))  # a link to a file stays a link
    try:
        if target.exists() and not target.is_file():  # a terminal, a pipe
            target.write_bytes(content)
            return
    except OSError as error:
        raise cannot_write(target, error) from None
    with written(target) as file:
        file.write(content)


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
