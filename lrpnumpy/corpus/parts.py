"""Finished chunks on disk, one file each, until the run is done: what makes a run resumable.

    out.h5.parts/run.json        what the run is: model, method, options, source, versions
    out.h5.parts/00000000.npz    the first chunk; it has this name once it is whole and safely on disk
    out.h5.parts/lock            held while a process works here

A file gets its name only after its bytes have been written and synchronised, so that whatever kills the
process, each chunk is either there or not. An HDF5 file that is open when its process dies may be lost: so
the output file is made at the end, beside the parts, and takes its name when it is complete.

Until then files have names that nobody can guess. Neither they nor the lock follow a link that somebody else has put
there.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from lrpnumpy.checks import LrpError
from lrpnumpy.files import disk, npy
from lrpnumpy.files.safe import Source, open_file

_BINARY, _NO_LINK = getattr(os, "O_BINARY", 0), getattr(os, "O_NOFOLLOW", 0)  # of Windows, and of all others
NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY | _NO_LINK


@contextmanager
def written(path: Path, folder: Path | None = None) -> Iterator[BinaryIO]:
    """A file that appears under its name when it is whole and safely on disk, or not at all.

    Until then it is in `folder`, or beside its place.
    """
    part = (folder or path.parent) / f".{path.name}.{secrets.token_hex(16)}.tmp"
    try:
        with os.fdopen(os.open(part, NEW, 0o666), "wb") as file:
            yield file
            disk.flush(file)
        part.replace(path)
        disk.sync(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        with suppress(OSError):  # of a folder that is not ours, or a name that is too long
            part.unlink(missing_ok=True)


def cannot_write(path: Path, error: OSError) -> LrpError:
    """A full disk, most often."""
    reason = error.strerror or error
    return LrpError(f"{path}: cannot be written ({reason}); what is finished is kept: make room and resume.")


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file, or replace one: whatever happens, what was there before is there, or all of what is new."""
    target = Path(os.path.realpath(path))  # a link to a file stays a link
    try:
        if target.exists() and not target.is_file():  # a terminal, a pipe
            target.write_bytes(content)
            return
        with written(target) as file:
            file.write(content)
    except (OSError, LrpError) as error:
        reason = error if isinstance(error, OSError) else error.__cause__
        raise LrpError(
            f"{path} must be a file that can be written, got: {getattr(reason, 'strerror', reason)}."
        ) from None


class Parts:
    """The folder of finished chunks that belongs to an output file."""

    def __init__(self, out: Path) -> None:
        self.folder = out.with_name(f"{out.name}.parts")
        self.count = 0
        self._run = ""  # digest of what the run is
        self._lock: Any = None

    def exists(self) -> bool:
        """Whether a run has begun here."""
        return os.path.exists(self.folder / "run.json")

    def open(self, run: Mapping[str, Any]) -> None:
        """Begin a run, or go on with the same one; `count` is how many chunks are there."""
        try:
            self.folder.mkdir(exist_ok=True)
            if self.folder.is_symlink():
                raise LrpError(f"{self.folder} must be a folder of its own, got a link; remove it.")
            self._take_lock()
            text = json.dumps(run, indent=1)
            if self.exists():
                same(self.folder, json.loads((self.folder / "run.json").read_text("utf-8")), run)
            else:
                with written(self.folder / "run.json") as file:
                    file.write(text.encode())
                disk.sync(self.folder.parent)
            self._run = hashlib.sha256(text.encode()).hexdigest()
        except OSError as error:
            raise cannot_write(self.folder, error) from error
        except (ValueError, RecursionError) as error:
            if isinstance(error, LrpError):
                raise
            raise LrpError(
                f"{self.folder / 'run.json'} is damaged ({str(error)[:200]}); remove the folder and begin anew."
            ) from None
        while self._readable(self.count):
            self.count += 1

    def _take_lock(self) -> None:
        self._lock = os.fdopen(os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | _NO_LINK, 0o666), "wb")
        if not disk.locked(self._lock):
            raise LrpError(f"{self.folder} must be used by one run at a time, got a second one.")

    def _path(self, k: int) -> Path:
        return self.folder / f"{k:08d}.npz"

    def _readable(self, k: int) -> bool:
        """A chunk that has its name is whole, unless the disk itself has lost it or somebody has moved it."""
        try:
            self.note(k)
            return True
        except LrpError:
            return False

    @contextmanager
    def _opened(self, k: int) -> Iterator[Any]:
        """The file of a chunk; whatever is wrong with it is one error."""
        path = self._path(k)
        try:
            with open_file(path) as stream, np.load(stream, allow_pickle=False) as file:
                digest, _, text = _array(file, "note").tobytes().partition(b" ")
                if digest != hashlib.sha256(text).hexdigest().encode():
                    raise ValueError("its note has changed")
                note = json.loads(text)
                if (note["part"], note["run"]) != (k, self._run):
                    raise ValueError(
                        f"it is part {note['part']} of {'this' if note['run'] == self._run else 'another'} run"
                    )
                yield file, note
        except Exception as error:  # of zipfile, zlib, NumPy, JSON and the disk
            reason = error if str(error) else type(error).__name__
            raise LrpError(f"{path} is damaged ({reason}); remove it, and resume to have it made again.") from None

    def note(self, k: int) -> dict[str, Any]:
        """What is known of a chunk: how many records, which were rejected and why, shapes of arrays."""
        with self._opened(k) as (_, note):
            return note

    def arrays(self, k: int) -> dict[str, np.ndarray]:
        """The arrays of a chunk."""
        with self._opened(k) as (file, note):
            found = {name: _array(file, name) for name in file.files if name != "note"}
            if {name: [array.dtype.str, *array.shape] for name, array in found.items()} != note["arrays"]:
                raise ValueError("its arrays are not those that it lists")
            return found

    def add(self, arrays: Mapping[str, np.ndarray], note: Mapping[str, Any]) -> None:
        """Keep the next chunk, with its number and the digest of its run: a file that is moved is not taken for it."""
        listed = {name: [array.dtype.str, *array.shape] for name, array in arrays.items()}
        text = json.dumps({**note, "arrays": listed, "part": self.count, "run": self._run}).encode()
        sealed = hashlib.sha256(text).hexdigest().encode() + b" " + text
        content = io.BytesIO()
        np.savez(content, **{"note": np.frombuffer(sealed, np.uint8), **arrays})  # type: ignore[arg-type]
        with written(self._path(self.count)) as file:
            file.write(content.getbuffer())
        self.count += 1

    def close(self) -> None:
        """Let another run work here."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def remove(self) -> None:
        """Delete what belongs to us in the folder, and the folder if that is all."""
        if not self.folder.is_dir():
            return
        if not disk.can_remove_open_files():
            self.close()
        ours = ("[0-9]*.npz", ".*.tmp", "run.json", "out.h5", "lock")
        for pattern in ours:
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)
        if not any(self.folder.iterdir()):
            self.folder.rmdir()


def same(where: Path, before: Any, now: Mapping[str, Any]) -> None:
    """Raise unless two runs are the same in everything that decides a result, and say what differs."""
    old, new = _flat(before), _flat(json.loads(json.dumps(now)))
    differs = [
        f"{name} was {_short(old.get(name))} and is now {_short(new.get(name))}"
        for name in dict.fromkeys([*new, *old])
        if old.get(name) != new.get(name)
    ]
    if differs:
        raise LrpError(f"{where} must be resumed with what it was begun with, but " + "; ".join(differs) + ".")


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """{"source": {"bytes": 3}} to {"source bytes": 3}."""
    if not isinstance(value, dict):
        return {name: value}
    return {key: part for inner in value for key, part in _flat(value[inner], f"{name} {inner}".strip()).items()}


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 100 else f"{text[:100]}…"


def _array(file: Any, name: str) -> np.ndarray:
    """An array of a chunk, if its header is one: NumPy takes seconds to see that a damaged one is none."""
    with file.zip.open(f"{name}.npy") as member:
        npy.read_header(Source(""), name, member)
    return file[name]
