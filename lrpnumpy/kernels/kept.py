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
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

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
    file = Path(function.__code__.co_filename).stem  # as Numba names what it keeps
    pattern = f"{file}.{function.__qualname__}-{_mark(function, dtype)}.*.nbc"
    found = (path for folder in folders() if is_trusted(folder) for path in folder.glob(pattern))
    return any(is_trusted(path, stat.S_ISREG) for path in found)


def _mark(function: Callable[..., Any], dtype: np.dtype) -> str:
    return f"{function.__code__.co_firstlineno}{dtype.char}"


class Kept:
    """A function compiled for a dtype, on disk; it takes the place of Numba's own cache in a dispatcher."""

    def __init__(self, function: Callable[..., Any], dtype: np.dtype) -> None:
        self.places = [(folder, _numba_cache(folder, function, dtype)) for folder in folders()]
        self.cache_path = str(self.places[0][0])

    def load_overload(self, signature: Any, context: Any) -> Any:
        """What was compiled for this signature; None where nobody has."""
        for folder, place in self.places:
            try:
                if is_trusted(folder) and (found := place.load_overload(signature, context)) is not None:
                    return found
            except Exception:  # a damaged file raises whatever it likes: it is compiled and written again
                continue
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep it in the first place where that can be done."""
        reasons = []
        for folder, place in self.places:
            try:
                make(folder)
                try:
                    place.save_overload(signature, compiled)
                except OSError:
                    raise
                except Exception:  # a damaged index
                    place.flush()
                    place.save_overload(signature, compiled)
                return
            except OSError as error:
                reasons.append(f"{folder} ({error.strerror or error})")
        _hint(" or ".join(reasons))

    def flush(self) -> None:
        """Forget everything."""
        for _, place in self.places:
            place.flush()


_hints: list[str] = []  # one in a process


def _hint(where: str) -> None:
    if not _hints:
        _hints.append(
            f"Compiled kernels cannot be stored in {where}, so every process compiles them again. Set NUMBA_CACHE_DIR "
            "to a folder that only you can write to, or ask its owner to run `lrpnumpy compile`."
        )
        LOG.warning(_hints[0])


def _numba_cache(folder: Path, function: Callable[..., Any], dtype: np.dtype) -> Any:
    """Numba's cache of a function, in this folder."""
    from numba.core import caching

    class Locator(caching._CacheLocator):
        def ensure_cache_path(self) -> None: ...

        def get_cache_path(self) -> str:
            return str(folder)

        def get_source_stamp(self) -> str:
            return ""  # the folder has the sources' name

        def get_disambiguator(self) -> str:
            return _mark(function, dtype)

        @classmethod
        def from_function(cls, function: Any, file: str) -> Locator:
            return cls()

    class Impl(caching.CompileResultCacheImpl):
        _locator_classes = (Locator,)

    class Files(caching.IndexDataCacheFile):
        def _load_index(self) -> Any:
            return super()._load_index() if is_trusted(Path(self._index_path), stat.S_ISREG) else {}

        def _load_data(self, name: str) -> Any:
            if not is_trusted(folder / name, stat.S_ISREG):
                raise FileNotFoundError(name)  # to Numba it is not there, and is written again
            return super()._load_data(name)

        @contextmanager
        def _open_for_write(self, path: str) -> Iterator[IO[bytes]]:
            """A new file that takes the place of the old one once it is complete."""
            new = f"{path}.{secrets.token_hex(8)}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            try:
                with os.fdopen(os.open(new, flags, 0o644), "wb") as stream:
                    yield stream
                os.replace(new, path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(new)
                raise

    class Cache(caching.FunctionCache):
        _impl_class = Impl

        def __init__(self, function: Any) -> None:
            super().__init__(function)
            self._cache_file = Files(str(folder), self._impl.filename_base, "")

    return Cache(function)
