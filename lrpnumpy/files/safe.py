"""What every reader of a weight file shares: opening, errors, and typed access to the contents.

A weight file is untrusted. A `Source` is a file whose names, shapes and sizes can be asked for; it hands out
an array only after all checks, and counts everything against its `Budget`. Dialects see sources and plain
JSON, nothing else.
"""

from __future__ import annotations

import io
import math
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any, NoReturn, Self

import numpy as np

from lrpnumpy import checks
from lrpnumpy.checks import LrpError, WeightFileError
from lrpnumpy.files.budget import MAX_BYTES, Budget, refusal

__all__ = ["MAX_BYTES", "MAX_NAMES", "MAX_TEXT", "Budget", "Fields", "Shape", "Source", "parse_json"]

MAX_TEXT = 16 * 2**20  # one attribute, JSON document, or file header
MAX_NAMES = 100_000  # members of one group or archive, names in one list
MAX_AXES = 32  # of an array
_DIGITS = 400  # of one number in JSON

Shape = tuple[int | None, ...]  # None means any length of at least 1


def open_file(path: str | os.PathLike[str], *, follow: bool = True, hard_links: bool = True) -> io.BufferedReader:
    """A regular file to read from; a pipe or a device, which might never end, is an OSError, as is a link not followed.

    It is opened before it is looked at, so that nothing can take its place in between. With `hard_links`
    False it may have no second name.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if not follow and os.path.islink(path):
        raise OSError("is a link, which is not followed")
    number = os.open(path, flags | (0 if follow else getattr(os, "O_NOFOLLOW", 0)))
    stream = os.fdopen(number, "rb")
    found = os.fstat(number)
    if not stat.S_ISREG(found.st_mode):
        stream.close()
        raise OSError("must be a regular file")
    if not hard_links and found.st_nlink > 1:
        stream.close()
        raise OSError("is a hard link, which is not followed; copy the file")
    return stream


def size_of(stream: IO[bytes]) -> int:
    """Length of an open file."""
    return os.fstat(stream.fileno()).st_size


class Source:
    """A weight file seen through checks: names, declared shapes, and arrays of the shape that is expected."""

    def __init__(self, file: str, budget: Budget | None = None) -> None:
        self.file = file
        self.budget = budget or Budget(file, 0)
        self._opened = ExitStack()  # what is closed in the end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    @property
    def max_bytes(self) -> int:
        """The limit of all arrays together."""
        return self.budget.max_bytes

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
        """A remark stored with the arrays, such as `readout`; None if there is none."""
        return None

    def error(self, where: str, reason: str) -> WeightFileError:
        """The one way to refuse: file, place in it, reason."""
        return refusal(self.file, where, reason)

    def spend(self, where: str, nbytes: int) -> None:
        """Count `nbytes` of arrays against the memory limit, before they are read."""
        self.budget.arrays(where, nbytes)

    def fits(self, where: str, declared: tuple[int, ...], expected: Shape) -> None:
        """Raise unless the declared shape is the expected one."""
        if len(declared) != len(expected) or not all(
            got == want or (want is None and 0 < got < 2**40) for got, want in zip(declared, expected, strict=True)
        ):
            wanted = ", ".join("any" if n is None else str(n) for n in expected)
            raise self.error(where, f"must have shape ({wanted}), the file declares {shape_text(declared)}")

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
            raise self.error(where, f"{doing} ({in_words(error)})") from error

    @contextmanager
    def opening(self, doing: str) -> Iterator[None]:
        """The same for opening the file; where that fails, what was opened is closed."""
        with self.guard("", doing):
            try:
                yield
            except BaseException:
                self._opened.close()
                raise


class Fields:
    """Typed access to one JSON object: an error names the place of a missing value or a wrong type."""

    def __init__(self, source: Source, where: str, value: Any) -> None:
        if not isinstance(value, dict):
            raise source.error(where, f"must be a JSON object, got {kind_of(value)}")
        self.source, self.where, self.value = source, where, value

    def refuse(self, reason: str) -> NoReturn:
        """Raise an error about this object."""
        raise self.source.error(self.where, reason)

    def has(self, key: str) -> bool:
        """Whether the key is there with a value other than null."""
        return self.value.get(key) is not None

    def first(self, *keys: str) -> str:
        """The first of the keys that is there, else the last."""
        return next(filter(self.has, keys), keys[-1])

    def string(self, key: str) -> str:
        """A string."""
        return self._get(key, str, "a string")

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number."""
        return self._get(key, int, "a whole number", default)

    def optional(self, kind: str, key: str) -> Any:
        """What the method called `kind` reads; None where the key is not there."""
        return getattr(self, kind)(key) if self.has(key) else None

    def boolean(self, key: str, default: bool | None = None) -> bool:
        """True or false."""
        return self._get(key, bool, "true or false", default)

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number."""
        if default is not None and not self.has(key):
            return default
        value = self.value.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            self.refuse(f"{key} must be a finite number, got {kind_of(value)}")
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

    def _get(self, key: str, kind: type, wanted: str, default: Any = None) -> Any:
        if default is not None and not self.has(key):
            return default
        value = self.value.get(key)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self.refuse(f"{key} must be {wanted}, got {kind_of(value)}")
        return value


def parse_json(source: Source, where: str, text: str | bytes) -> Any:
    """Plain JSON, of limited size, without duplicate keys in an object."""
    if len(text) > MAX_TEXT:
        raise source.error(where, f"is {len(text):,} bytes of JSON, over the limit of {MAX_TEXT:,}")
    with source.guard(where, "is not JSON"):
        content = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        source.budget.visit(where, sum(map(content.count, (b",", b"[", b"{", b":"))))
        try:
            return checks.parse_json(text, parse_int=_number(int), parse_float=_number(float))
        except UnicodeError:
            raise
        except ValueError as error:
            raise source.error(where, f"is not JSON ({str(error)[:200].rstrip('.')})") from None


def _number(kind: Any) -> Any:
    def parse(text: str) -> Any:
        if len(text) > _DIGITS:
            raise ValueError(f"a number has {len(text):,} digits")
        return kind(text)

    return parse


def read_json_file(source: Source, where: str, path: str | os.PathLike[str]) -> Any:
    """The JSON in a regular file of limited size."""
    with source.guard(where, f"cannot be read from {Path(path)}"), open_file(path) as stream:
        content = stream.read(MAX_TEXT + 1)
    return parse_json(source, where, content)


def count_of(source: Source, where: str, shape: Any) -> int:
    """How many numbers an array of this declared shape has, if it is a shape."""
    sizes: list[Any] = list(shape) if isinstance(shape, (list, tuple)) else [None]
    if len(sizes) > MAX_AXES or not all(type(n) is int and 0 <= n < 2**48 for n in sizes):
        raise source.error(where, f"declares the shape {shape_text(shape)}, which no array has")
    return math.prod(sizes)


def shape_text(shape: Any) -> str:
    """A declared shape for an error message, short whatever it is."""
    sizes = list(shape[:MAX_AXES]) if isinstance(shape, (list, tuple)) else [shape]
    return f"({', '.join(map(kind_of, sizes))}{', …' if len(sizes) == MAX_AXES else ''})"


def kind_of(value: Any) -> str:
    """`value` for an error message: short, and made in a short time, whatever it is."""
    if value is None:
        return "nothing"
    if isinstance(value, int) and abs(value) >= 2**64:
        return "a huge number"
    if isinstance(value, (str, bytes)):
        if len(value) <= 60:
            return repr(value)
        return f"{type(value).__name__} {value[:50]!r}…"
    if isinstance(value, (bool, int, float)):
        return repr(value)
    if isinstance(value, (list, tuple, dict, set)):
        return f"{type(value).__name__} of {len(value):,}"
    return type(value).__name__


def in_words(error: Exception) -> str:
    """What has gone wrong with a file, without the names that Python and NumPy have for it."""
    if isinstance(error, OSError):
        return str(error.strerror or error).rstrip(".")
    if isinstance(error, UnicodeError):
        return "it has text that is not UTF-8"
    if isinstance(error, MemoryError):
        return "it needs more memory than there is"
    return "it is damaged, or not what its kind of file should be"


def nearby(name: str, known: Iterable[str]) -> str:
    """At most three supported names that are close to one that is not supported, as the end of a sentence."""
    by_case = {one.lower(): one for one in known}
    given = _OTHER_NAMES.get(name.lower(), name.lower())
    close = get_close_matches(given, list(by_case), 3, 0.78)  # Greater and Gather have 0.77, Conv2D and Conv1D 0.83
    close += [one for one in by_case if one not in close and len(one) > 3 and given.endswith(one)]  # PeepholeLSTM
    if not close:
        return ""
    return f"; supported and close to it: {', '.join(by_case[one] for one in close[:3])}"


_OTHER_NAMES = {"swish": "silu"}


def which_one(names: Sequence[str], given: str | None) -> str:
    """The error where one of several outputs must be named."""
    listed = ", ".join(repr(name[:80]) for name in names[:20])
    text = f"has {len(names)} outputs, {listed}; say which one gives the scores: which={names[0][:80]!r}"
    if given is not None:
        text += f", got {given!r}"
    return text


def first_line(error: Exception) -> str:
    """An exception of somebody else for an error message."""
    text = str(error)[:1000].strip().split("\n")[0].rstrip(".")
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__
