"""Finished parts of a ranking in a file, so that one that was interrupted goes on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError
from lrpnumpy.evaluate.case import Values
from lrpnumpy.files.safe import open_file


class State:
    """Finished parts in a file: a line for the request, then one per part; every line begins with its digest.

    A line that is not whole, since the program was killed while it was written or since the disk has lost some of it,
    is passed over, and its part is computed again.
    """

    def __init__(self, path: str | os.PathLike[str] | None, said: dict[str, Any]) -> None:
        self.path = None if path is None else Path(path)
        self.done: dict[str, Any] = {}
        self.file: Any = None
        if self.path is None:
            return
        first = _sealed(said)
        with _usable(self.path):
            content = b""
            if self.path.exists():
                with open_file(self.path) as stream:
                    content = stream.read()
            begun, *lines = content.split(b"\n")
            if begun != first and not (first.startswith(begun) and not lines):  # killed while it wrote that
                raise LrpError(
                    f"state must be a file of the same model, data, methods and settings, got {self.path}, which is "
                    "of others or damaged; remove it or name another."
                )
            for line in lines:
                self.done |= _opened(line)
            self.file = self.path.open("ab")
            if not lines:
                self.file.write(first[len(begun) :] + b"\n")
            elif lines[-1]:  # the last line was not finished
                self.file.write(b"\n")

    def __enter__(self) -> State:
        return self

    def __exit__(self, *error: Any) -> None:
        if self.file is not None:
            with _usable(self.path):
                self.file.close()

    def get(self, key: str, compute: Callable[[], Values]) -> Values:
        """A part, from the file or computed."""
        if key not in self.done:
            found = compute()
            if self.file is None:
                return found
            self.done[key] = {name: [a.tolist(), b.tolist()] for name, (a, b) in found.items()}
            with _usable(self.path):
                self.file.write(_sealed({key: self.done[key]}) + b"\n")
                self.file.flush()
        return {name: (np.array(a, float), np.array(b, float)) for name, (a, b) in self.done[key].items()}


@contextmanager
def _usable(path: Path | None) -> Iterator[None]:
    """Say what is wrong with the file of a state."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise LrpError(f"state must be a file that can be read and written, got {path}: {reason}.") from None


def _sealed(content: dict[str, Any]) -> bytes:
    """A line of JSON behind its digest."""
    text = json.dumps(content).encode()
    return hashlib.sha256(text).hexdigest().encode() + b" " + text


def _opened(line: bytes) -> dict[str, Any]:
    """What `_sealed` wrote; nothing where the line is not whole."""
    digest, _, text = line.partition(b" ")
    return json.loads(text) if digest == hashlib.sha256(text).hexdigest().encode() else {}
