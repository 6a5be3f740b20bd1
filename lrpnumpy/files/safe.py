"""What every reader of a weight file shares: the limits, the errors, and typed access to what a file says.

A weight file is untrusted. A `Source` is a file whose names, shapes and sizes can be asked for; it hands out
an array only after all checks, and counts its bytes against the memory limit. Dialects see sources and plain
JSON, nothing else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from lrpnumpy.checks import LrpError, WeightFileError

MAX_BYTES = 2 * 2**30  # all arrays of one model together, unless the caller says otherwise
MAX_TEXT = 16 * 2**20  # one attribute, JSON document, or file header
MAX_NAMES = 100_000  # members of one group or archive, names in one list
MAX_DEPTH = 16  # groups inside groups

Shape = tuple[int | None, ...]  # None stands for any length of at least 1


class Source:
    """A weight file seen through checks: names, declared shapes, and arrays of the shape that is expected."""

    def __init__(self, file: str, max_bytes: int = MAX_BYTES) -> None:
        self.file = file
        self.max_bytes = max_bytes
        self._left = max_bytes

    def names(self) -> list[str]:
        """The arrays in the file."""
        raise self.error("", "has no list of arrays")

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape that the file declares for an array, which is not read."""
        raise self.error(name, "has no shape")

    def array(self, name: str, shape: Shape) -> np.ndarray:
        """The array, float32 or float64, after its declared type, shape and size have been checked."""
        raise self.error(name, "cannot be read")

    def text(self, name: str) -> str | None:
        """A remark that stands beside the arrays, such as `readout`; None where there is none."""
        return None

    def error(self, where: str, reason: str) -> WeightFileError:
        """The one way to refuse: file, place in it, reason."""
        return WeightFileError(printable(": ".join(part for part in (self.file, where, reason) if part)) + ".")

    def spend(self, where: str, nbytes: int) -> None:
        """Count `nbytes` against the memory limit, before they are read."""
        if nbytes > self._left:
            raise self.error(
                where,
                f"takes {nbytes:,} bytes, with what came before over the limit of {self.max_bytes:,}; "
                "pass a larger max_bytes if the file is trusted",
            )
        self._left -= nbytes

    def fits(self, where: str, declared: tuple[int, ...], expected: Shape) -> None:
        """Raise unless the declared shape is the expected one."""
        if len(declared) != len(expected) or not all(
            got == want or (want is None and 0 < got < 2**40) for got, want in zip(declared, expected, strict=True)
        ):
            wanted = ", ".join("any" if n is None else str(n) for n in expected)
            raise self.error(where, f"must have shape ({wanted}), the file declares {declared}")

    @contextmanager
    def guard(self, where: str, doing: str = "cannot be read") -> Iterator[None]:
        """Turn whatever a library raises on a damaged file into an error that names file and place."""
        try:
            yield
        except WeightFileError:
            raise
        except LrpError as error:  # from the records: a shape or value that the file should not have
            raise self.error(where, str(error).removesuffix(".")) from error
        except Exception as error:
            raise self.error(where, f"{doing} ({_first_line(error)})") from error


class Fields:
    """Typed access to one JSON object: what is missing or of the wrong type is an error that says where."""

    def __init__(self, source: Source, where: str, value: Any) -> None:
        if not isinstance(value, dict):
            raise source.error(where, f"must be a JSON object, got {_kind(value)}")
        self.source, self.where, self.value = source, where, value

    def refuse(self, reason: str) -> NoReturn:
        """Raise an error about this object."""
        raise self.source.error(self.where, reason)

    def has(self, key: str) -> bool:
        """Whether the key is there with a value other than null."""
        return self.value.get(key) is not None

    def string(self, key: str) -> str:
        """A string."""
        return self._get(key, str, "a string")

    def integer(self, key: str) -> int:
        """A whole number."""
        return self._get(key, int, "a whole number")

    def boolean(self, key: str, default: bool | None = None) -> bool:
        """True or false."""
        if default is not None and not self.has(key):
            return default
        return self._get(key, bool, "true or false")

    def number(self, key: str) -> float:
        """A finite number."""
        value = self.value.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            self.refuse(f"{key} must be a finite number, got {_kind(value)}")
        return float(value)

    def items(self, key: str) -> list[Any]:
        """A list."""
        return self._get(key, list, "a list")

    def strings(self, key: str) -> list[str]:
        """A list of strings."""
        found = self.items(key)
        if not all(isinstance(item, str) for item in found):
            self.refuse(f"{key} must be a list of strings")
        return found

    def integers(self, key: str) -> list[int]:
        """A list of whole numbers, none negative."""
        found = self.items(key)
        if not all(type(item) is int and item >= 0 for item in found):
            self.refuse(f"{key} must be a list of whole numbers")
        return found

    def object(self, key: str) -> Fields:
        """A JSON object inside this one."""
        return Fields(self.source, f"{self.where}: {key}", self.value.get(key))

    def _get(self, key: str, kind: type, wanted: str) -> Any:
        value = self.value.get(key)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self.refuse(f"{key} must be {wanted}, got {_kind(value)}")
        return value


def printable(text: str) -> str:
    """`text` with what a terminal would obey, or could not show, written as escapes: names come from the file."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def parse_json(source: Source, where: str, text: str | bytes) -> Any:
    """Plain JSON, of limited size."""
    if len(text) > MAX_TEXT:
        raise source.error(where, f"is {len(text):,} bytes of JSON, over the limit of {MAX_TEXT:,}")
    with source.guard(where, "is not JSON"):
        return json.loads(text)


def _kind(value: Any) -> str:
    """`value` for an error message: short whatever it is."""
    if value is None:
        return "nothing"
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{type(value).__name__} {shown[:50]}…"


def _first_line(error: Exception) -> str:
    text = str(error).strip().split("\n")[0].rstrip(".")
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__
