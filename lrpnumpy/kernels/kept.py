"""Where compiled kernels are kept on disk, and who may have put them there: what is read back is executed.

The first folder that can be written is used, of

    NUMBA_CACHE_DIR, where it is set; else the package's own __pycache__
    the user's folder for caches: XDG_CACHE_HOME or ~/.cache, ~/Library/Caches (macOS), LOCALAPPDATA (Windows)

and kernels are read from both, so that an image may ship them in a folder that nobody can write. A folder counts only
if its owner is this user, root, or the owner of the package, and nobody else may write to it. The same holds for every
file in it, which others could rewrite even where they cannot add one. On Windows the folder above decides who may
write. No folder for everybody's temporary files is ever used. If nothing can be stored, kernels are used from memory,
and a hint reports this once.

The name of the folder is made of all sources of kernels, and of how they are compiled: Numba would notice when the file
of a kernel changes, but not when that of a helper does.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import secrets
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}  # of the compiler
NOT_COMPILED = ("compile.py", "kept.py", "generated.py")
LOG = logging.getLogger("lrpnumpy")


def folders() -> list[Path]:
    """Where compiled kernels may be, the best place first."""
    given = os.environ.get("NUMBA_CACHE_DIR", "")
    places = [Path(given) if given else HERE / "__pycache__", _of_user()]
    return [place / f"lrpnumpy-{_digest()}" for place in places if place is not None]


@cache
def _digest() -> str:
    sources = (path for path in sorted(HERE.glob("*.py")) if path.name not in NOT_COMPILED)
    return hashlib.sha256(b"".join([repr(OPTIONS).encode(), *(path.read_bytes() for path in sources)])).hexdigest()[:16]


def _of_user() -> Path | None:
    """The user's folder for caches; None for a user who has no home."""
    name = {"win32": "LOCALAPPDATA", "darwin": ""}.get(sys.platform, "XDG_CACHE_HOME")
    place = Path(os.environ.get(name, ""))
    if place.is_absolute():
        return place
    try:
        home = Path.home()
    except RuntimeError:
        return None
    inside = {"win32": "AppData/Local", "darwin": "Library/Caches"}.get(sys.platform, ".cache")
    return home / inside if home.is_absolute() else None


def is_trusted(path: Path, is_kind: Callable[[int], bool] = stat.S_ISDIR) -> bool:
    """Whether a folder, or a file by `stat.S_ISREG`, is there, is not a link, and no stranger can write to it.

    Only this user, root and the owner of the package may.
    """
    try:
        about, package = os.lstat(path), os.stat(HERE)
    except OSError:
        return False
    if not is_kind(about.st_mode) or os.name != "posix":
        return is_kind(about.st_mode)
    return about.st_uid in (0, os.geteuid(), package.st_uid) and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def make(folder: Path) -> None:
    """Have the folder there, for this user alone to write; OSError where that cannot be."""
    for place in [*reversed(folder.parents), folder]:
        if not place.is_dir():
            place.mkdir(mode=0o755, exist_ok=True)  # `parents=True` would leave the mode to the umask
    if not is_trusted(folder):
        raise PermissionError("others could write to it")


def is_kept(function: Callable[..., Any], dtype: np.dtype) -> bool:
    """Whether somebody has compiled it for this dtype, and it can be read in a moment."""
    pattern = f"{_stem(function, dtype)}.*.nbc"
    found = (path for folder in folders() if is_trusted(folder) for path in folder.glob(pattern))
    return any(is_trusted(path, stat.S_ISREG) for path in found)


def _stem(function: Callable[..., Any], dtype: np.dtype) -> str:
    """How the names of its files begin."""
    code = function.__code__
    return f"{Path(code.co_filename).stem}.{code.co_name}-{code.co_firstlineno}{dtype.char}"


class Kept:
    """A function compiled for a dtype, on disk; it takes the place of Numba's own cache in a dispatcher."""

    def __init__(self, function: Callable[..., Any], dtype: np.dtype) -> None:
        self.function, self.dtype = function, dtype

    def _files(self, signature: Any, context: Any) -> list[Path]:
        """Where it may be for this signature, compiled by this Python and Numba for this processor."""
        from numba import __version__

        context.refresh()
        made_by = sys.version, __version__, context.codegen().magic_tuple(), str(signature)
        digest = hashlib.sha256(repr(made_by).encode() + self.function.__code__.co_code).hexdigest()[:16]
        return [folder / f"{_stem(self.function, self.dtype)}.{digest}.nbc" for folder in folders()]

    def load_overload(self, signature: Any, context: Any) -> Any:
        """What was compiled for this signature; None where nobody has."""
        from numba.core.compiler import CompileResult

        for file in self._files(signature, context):
            if is_trusted(file.parent) and is_trusted(file, stat.S_ISREG):
                with suppress(Exception):  # a damaged file raises whatever it likes: it is compiled and written again
                    return CompileResult._rebuild(context, *pickle.loads(file.read_bytes()))
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep it in the first place where that can be done."""
        from numba.core import serialize

        reasons, data = [], serialize.dumps(compiled._reduce())
        for file in self._files(signature, compiled.target_context):
            try:
                make(file.parent)
                return _write(file, data)
            except OSError as error:
                reasons.append(f"{file.parent} ({error.strerror or error})")
        _hint(" or ".join(reasons))


def _write(path: Path, data: bytes) -> None:
    """A new file that takes the place of an old one once it is complete."""
    new = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with open(new, "xb", opener=partial(os.open, mode=0o644)) as stream:
            stream.write(data)
        os.replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


@cache
def _hint(where: str) -> None:
    """Once in a process."""
    LOG.warning(
        f"Compiled kernels cannot be stored in {where}, so every process compiles them again. Set NUMBA_CACHE_DIR "
        "to a folder that only you can write to, or ask its owner to run `lrpnumpy compile`."
    )
