"""The folder of a run: an index and the parts, each complete or absent.

    reviews/index.json           what the run is: model, method, options, source; when finished, counts
    reviews/part-00000000.npz    the explanations of the first chunk
    reviews/rejected.jsonl       records that cannot be explained, one JSON object per line; written when finished
    reviews/lock                 locked by the process that writes here, which notes its id in it

A file takes its name when its bytes are safely on disk. A process that is killed leaves complete files, and a lock
that the operating system has released.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError, WeightFileError, parse_json
from lrpnumpy.corpus.parts import text_of
from lrpnumpy.files import disk
from lrpnumpy.files.archive import read_npz
from lrpnumpy.files.safe import MAX_TEXT, open_file

FORMAT, VERSION = "lrpnumpy explanations", 2
INDEX, REJECTED, LOCK = "index.json", "rejected.jsonl", "lock"
OURS = (INDEX, REJECTED, "part-[0-9]*.npz", ".*.tmp")
# What comes of numbers and texts that do not fit together:
DAMAGE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, OSError, RecursionError, StopIteration)
COUNTS = ("records", "explained", "rejected", "doubtful")  # of each part, in the index


class Folder:
    """The files of one run."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.realpath(path))
        self.digest = ""  # of what the run is: each part has it, so that one of another run is recognized

    def exists(self) -> bool:
        """Whether a run has begun here."""
        return os.path.exists(self.path / INDEX)

    def index(self) -> dict[str, Any]:
        """What the run is, and its counts by part: None where it is not finished."""
        path = self.path / INDEX
        try:
            with open_file(path) as file:
                found = parse_json(file.read(MAX_TEXT))
            if (found["format"], found["version"]) != (FORMAT, VERSION):
                raise LrpError(f"{path} must be of format {FORMAT!r}, version {VERSION}; it is of another.")
            for part in found["parts"] or ():
                _checked(part)
        except OSError as error:
            raise LrpError(f"{self.path} must be a folder that explain_corpus wrote, got: {error.strerror}.") from None
        except LrpError:
            raise
        except DAMAGE as error:
            raise LrpError(f"{path} is damaged ({str(error)[:200]}); run explain_corpus into another folder.") from None
        self.digest = _digest(found["run"])
        return found

    # -- parts -----------------------------------------------------------------------------------------------------

    def part(self, k: int) -> Path:
        """The file of the part k."""
        return self.path / f"part-{k:08d}.npz"

    def count(self) -> int:
        """How many parts there are, one after the other from the first."""
        k = 0
        while os.path.exists(self.part(k)):
            k += 1
        return k

    def counts(self) -> list[list[int]]:
        """Records, explanations, rejected and doubtful ones of each part, from the index or the parts."""
        index = self.index()
        counts = index["parts"]
        if counts is None:
            counts = []
            while (text := self.text(len(counts))) is not None:
                counts.append(_checked(text["counts"]))
        for k, (_, explained, _, _) in enumerate(counts):
            with self.reading(k) as path:
                if explained > path.stat().st_size:
                    raise ValueError(f"it has no room for {explained} explanations")
        return counts

    def read(self, k: int) -> dict[str, np.ndarray]:
        """The arrays of the part k."""
        with self.reading(k) as path:
            arrays = read_npz(str(path))
            text = text_of(arrays)
            if (text["part"], text["run"]) != (k, self.digest):
                raise ValueError("it is another part, or of another run")
            return arrays

    def text(self, k: int) -> dict[str, Any] | None:
        """The texts of the part k; None where there is no such part, or a damaged one."""
        try:
            return text_of(self.read(k))
        except LrpError:
            return None

    @contextmanager
    def reading(self, k: int) -> Iterator[Path]:
        """Whatever is wrong with a part is one error."""
        path = self.part(k)
        try:
            yield path
        except DAMAGE as error:
            reason = str(error).removeprefix(f"{path}: ") if isinstance(error, WeightFileError) else error
            raise LrpError(f"{path} is damaged ({reason}); remove it and run explain_corpus again.") from None

    def write(self, k: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep a part."""
        with disk.written(self.part(k)) as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]

    # -- the run ---------------------------------------------------------------------------------------------------

    @contextmanager
    def writing(self, run: Mapping[str, Any], overwrite: bool) -> Iterator[list[list[int]] | None]:
        """Begin a run or go on with the same one, alone; gives the counts of its parts where it is finished."""
        self._check_place()
        try:
            self.path.mkdir(exist_ok=True)
            disk.sync(self.path.parent)
            handle = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | disk.NO_LINK, 0o666)
        except OSError as error:
            raise disk.cannot_write(self.path, error) from error
        with os.fdopen(handle, "r+b") as lock:
            if not disk.locked(lock):
                raise LrpError(f"{self.path} is being written by another run{_owner(lock)}; wait for it to end.")
            lock.truncate(0)
            lock.write(b"%d\n" % os.getpid())
            lock.flush()
            if overwrite:
                self._clear()
            for path in self.path.glob(".*.tmp"):  # of a process that was killed
                path.unlink()
            if not self.exists():
                self._write_index(run, None)
            index = self.index()
            _same(self.path, index["run"], run)
            yield index["parts"]

    def finish(self, run: Mapping[str, Any], counts: list[list[int]]) -> None:
        """Write the list of rejected records and the counts: the run is finished."""
        if any(rejected for _, _, rejected, _ in counts):
            with disk.written(self.path / REJECTED) as file:
                for number, reason in self.rejections(len(counts)):
                    file.write(json.dumps({"record": number, "reason": reason}).encode() + b"\n")
        self._write_index(run, counts)

    def rejections(self, parts: int) -> Iterator[tuple[int, str]]:
        """Numbers of rejected records, and why."""
        for k in range(parts):
            with self.reading(k):
                yield from [(int(number), str(reason)) for number, reason in text_of(self.read(k))["rejected"]]

    def _write_index(self, run: Mapping[str, Any], counts: list[list[int]] | None) -> None:
        text = json.dumps({"format": FORMAT, "version": VERSION, "run": run, "parts": counts}, indent=1)
        with disk.written(self.path / INDEX) as file:
            file.write(text.encode() + b"\n")

    def _check_place(self) -> None:
        """Only write where nothing else is."""
        if not os.path.isdir(self.path.parent):
            raise LrpError(f"out must be in a folder that exists, got {self.path}.")
        if os.path.lexists(self.path) and not os.path.isdir(self.path):
            raise LrpError(f"out must be a folder, got {self.path}, which is a file; choose another name.")
        if self.path.is_dir() and not self.exists():
            for name in os.listdir(self.path):
                if name != LOCK and not name.endswith(".tmp"):
                    raise LrpError(f"out must be a new folder, or that of a run, got {self.path} with {name!r} in it.")

    def _clear(self) -> None:
        """Remove the files of an earlier run, the index first: parts without one belong to no run."""
        for pattern in OURS:
            for path in self.path.glob(pattern):
                path.unlink()


def _checked(counts: Any) -> list[int]:
    if len(counts) != len(COUNTS) or not all(type(n) is int and n >= 0 for n in counts):
        raise ValueError(f"a part has {', '.join(COUNTS)}, got {counts!r:.100}")
    return counts


def _owner(lock: Any) -> str:
    """The process that has the lock, if it has noted its id."""
    try:
        return f" (process {int(lock.read(20))})"
    except (OSError, ValueError):  # Windows lets nobody read what is locked
        return ""


def _digest(run: Any) -> str:
    return hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()


def _same(where: Path, before: Any, now: Mapping[str, Any]) -> None:
    """Raise unless two runs are the same in everything that decides a result, and say what differs."""
    old, new = _flat(before), _flat(json.loads(json.dumps(now)))
    differ = [name for name in dict.fromkeys([*new, *old]) if old.get(name) != new.get(name)]
    if differ:
        were = "; ".join(f"{name} was {_short(old.get(name))} and is now {_short(new.get(name))}" for name in differ)
        raise LrpError(f"{where} has another run: {were}; choose another folder, or Output(..., overwrite=True).")


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """{"source": {"bytes": 3}} to {"source bytes": 3}."""
    if not isinstance(value, dict):
        return {name: value}
    return {key: part for inner in value for key, part in _flat(value[inner], f"{name} {inner}".strip()).items()}


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 100 else f"{text[:100]}…"
